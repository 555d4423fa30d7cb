"""What a switch said on its control connection, judged by tshark: not one malformed byte.

`Capture` records TCP to and from the controller's port on the lab's loopback while a judge runs; `verdict()` lets tshark
decode it and looks only at what the switch sent. Called by the judges; touches its own file.
"""
import os
import re
import shutil
import time
from collections import Counter


class Verdict:
    """`complaints` are against the switch; `unknown` is what tshark's dissector says that it does not know."""

    def __init__(self, messages, complaints, unknown, note=""):
        self.messages, self.complaints, self.unknown, self.note = messages, complaints, unknown, note

    @property
    def good(self):
        return not self.complaints and (bool(self.note) or self.messages > 0)

    def text(self):
        if self.note:
            return self.note
        unknown = "" if not self.unknown else " (not known to tshark: %s)" % _counted(self.unknown)
        if self.complaints:
            return "%d messages of the switch, complaints: %s%s" % (self.messages, _counted(self.complaints), unknown)
        return "%d messages of the switch decoded, none malformed%s" % (self.messages, unknown)

    def as_dict(self):
        return dict(messages=self.messages, complaints=dict(self.complaints), unknown=dict(self.unknown), note=self.note)


def _counted(counter):
    return "; ".join("%s ×%d" % c for c in counter.most_common(8))


class Capture:
    """A context manager. `port` is where the controller listens, or where the switch does (`switch_listens`)."""

    def __init__(self, lab, port, path, switch_listens=False):
        self.lab, self.port, self.path, self.switch_listens = lab, port, path, switch_listens
        self.process = None

    def __enter__(self):
        if not shutil.which("dumpcap") or not shutil.which("tshark"):
            return self
        # dumpcap gives up its rights at once and then may not write here: let it write to the lab's own directory.
        self.raw = os.path.join(self.lab.directory("capture-%d" % self.port), "control.pcapng")
        self.process = self.lab.spawn("dumpcap", ["dumpcap", "-q", "-B", "64", "-i", "lo", "-f",
                                                  "tcp port %d" % self.port, "-w", self.raw])
        self.lab.wait("dumpcap", lambda: os.path.exists(self.raw) and os.path.getsize(self.raw) > 0,
                      needs=[self.process])
        return self

    def __exit__(self, *_):
        if self.process:
            time.sleep(0.5)     # for what is still in the ring
            self.process.stop(2)
            shutil.copyfile(self.raw, self.path)

    def verdict(self):
        if not self.process:
            return Verdict(0, Counter(), Counter(), "skipped: no tshark")
        # The frames inside packet_ins and packet_outs are for the tester to judge, and some are odd on purpose. So that
        # tshark leaves them alone, the recording loses its own Ethernet headers, and tshark its Ethernet dissector.
        bare = self.raw + ".ip"
        self.lab.run("editcap", "-C", "14", "-L", "-T", "rawip", self.path, bare, timeout=600)
        side = "tcp.%s == %d" % ("srcport" if self.switch_listens else "dstport", self.port)
        argv = ["tshark", "-n", "-r", bare, "--disable-protocol", "eth", "-d", "tcp.port==%d,openflow" % self.port]
        # Not `-T fields` for what experts said: that takes minutes where a switch has described 254 tables.
        status, said, err = self.lab.run(*argv, "-q", "-z", "expert,note," + side, check=False, timeout=1200)
        if status:
            return Verdict(0, Counter({"tshark: " + err.strip()[:200]: 1}), Counter())
        _, listed, _ = self.lab.run(*argv, "-o", 'gui.column.format:"From","%uS","To","%uD","Info","%i"', timeout=1200)
        wanted = str(self.port)
        messages = sum(line.count("Type: OFPT_") for line in listed.splitlines()
                       if line.split()[0 if self.switch_listens else 1:][:1] == [wanted])
        return Verdict(messages, *experts(said))


def experts(said):
    """(complaints, what tshark does not know) of tshark's list of expert information. TCP's own remarks are neither."""
    complaints, unknown, section = Counter(), Counter(), ""
    for line in said.splitlines():
        head = re.match(r"(Errors|Warns|Notes) \(\d+\)", line)
        row = re.match(r"\s+(\d+)\s+(\S+)\s+(\S.*?)\s{2,}(.*)", line)
        if head:
            section = head.group(1)
        elif row and row.group(2) != "Frequency":
            count, group, protocol, text = int(row.group(1)), row.group(2), row.group(3), row.group(4)
            if group == "Undecoded":
                unknown[text] += count
            elif group == "Malformed" or (section != "Notes" and protocol.lower().startswith("openflow")):
                complaints["%s: %s" % (protocol, text)] += count
    return complaints, unknown
