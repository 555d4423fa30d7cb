"""os-ken's switch tester with a generator that keeps time. Loaded by osken-manager instead of tester.py.

The tester of the package sends for its throughput cases by sleeping ten milliseconds between turns and sending a turn's
worth after each, so what it offers falls short by whatever a turn takes: by a fifth and more on a busy machine, while
the case demands what leaves the target to be within a tenth. Here what is due is read from the clock, and frames
that are all alike are encoded once. Which frames are sent, for how long, and every check and verdict are the package's.
"""
import time

from os_ken.lib import hub
from os_ken.tests.switch import tester

TURN_S = 0.004
MOST_AT_ONCE_S = 0.05       # after a stall: so much of the rate is sent at once, the rest is lost


class PacedTester(tester.OfTester):
    def _continuous_packet_send(self, pkt):
        assert self.ingress_event is None
        packets = pkt[tester.KEY_PACKETS]
        rate, duration = packets[tester.KEY_PKTPS], packets[tester.KEY_DURATION_TIME]
        self.ingress_event = hub.Event()
        alike = None if packets["randomize"] else self._encoded(packets["packet_binary"])
        began = last = time.monotonic()
        sent, allowed = 0, 0.0
        while (now := time.monotonic()) - began < duration:
            if isinstance(self.tester_sw.dp, tester.DummyDatapath):
                raise tester.TestError(tester.STATE_DISCONNECTED)
            allowed += min(now - last, MOST_AT_ONCE_S) * rate
            last = now
            due = int(allowed) - sent
            sent += due
            if alike:
                for n in range(0, due, 16):
                    self.tester_sw.dp.send(alike * min(16, due - n))
            else:
                for _ in range(due):
                    self.tester_sw.dp.send(self._encoded(self._packet(packets["packet_text"])))
            hub.sleep(TURN_S)

    def _packet(self, text):
        msg = eval("/".join(text), vars(tester))    # as the package does
        msg.serialize()
        return msg.data

    def _encoded(self, data):
        dp = self.tester_sw.dp
        ofp, parser = dp.ofproto, dp.ofproto_parser
        out = parser.OFPPacketOut(datapath=dp, buffer_id=ofp.OFP_NO_BUFFER, in_port=ofp.OFPP_CONTROLLER, data=data,
                                  actions=[parser.OFPActionOutput(self.tester_sw.tester_send_port)])
        dp.set_xid(out)
        out.serialize()
        return bytes(out.buf)
