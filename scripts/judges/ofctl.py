"""ovs-ofctl as a judge, over a switch's management address, for OpenFlow 1.0 and 1.3: what it is asked to install, change
and delete is what it reads back; counters are exact; what is not supported is refused and leaves everything as it was.

    python3 scripts/judges/ofctl.py [--target weir|ovs]
"""
import re
import sys
import time

import every_request
from checks import Judge
from switches import MGMT_PORT, switch

DPID = 0x2a
HEADER = bytes.fromhex("0200000000020200000000010800")
FRAME = HEADER + bytes.fromhex("450000320000400040110000 0a000001 0a000002 0400 0035 001e 0000".replace(" ", "")).ljust(46, b"\0")

# Rules that both versions can express, then those of each. Written as ovs-ofctl wants them.
BOTH = [
    "priority=10,in_port=1,actions=output:2",
    "priority=11,in_port=2,dl_dst=02:00:00:00:00:01,actions=output:1",
    "priority=12,dl_src=02:00:00:00:00:07,actions=drop",
    "priority=13,dl_vlan=5,actions=strip_vlan,output:3",
    "priority=14,dl_vlan=5,dl_vlan_pcp=3,actions=output:3,output:2",
    "priority=15,dl_type=0x88cc,actions=CONTROLLER:128",
    "priority=16,arp,arp_tpa=10.1.0.0/16,arp_op=1,actions=FLOOD",
    "priority=17,ip,nw_src=10.0.0.0/8,nw_dst=10.0.0.2,actions=mod_dl_dst:02:00:00:00:00:02,output:2",
    "priority=18,tcp,tp_dst=80,cookie=0x1234,idle_timeout=300,actions=mod_nw_src:10.9.9.9,mod_tp_src:8080,output:3",
    "priority=19,udp,nw_tos=32,tp_src=53,tp_dst=5353,hard_timeout=600,actions=mod_nw_tos:64,output:IN_PORT",
    "priority=20,icmp,icmp_type=8,icmp_code=0,cookie=0xffffffffffffffff,actions=output:1",
    "priority=21,in_port=3,actions=ALL",
    "priority=22,in_port=3,dl_type=0x0806,actions=NORMAL",
    "priority=0,actions=drop",
]
ONLY = {"OpenFlow10": [
    "priority=30,vlan_tci=0x0000,actions=mod_vlan_vid:7,mod_vlan_pcp:2,output:2",
], "OpenFlow13": [
    "table=1,priority=30,ipv6,ipv6_dst=2001:db8::/32,actions=dec_ttl,output:2",
    "table=1,priority=31,tcp6,tp_dst=443,actions=set_field:2001:db8::1->ipv6_src,output:2",
    "table=1,priority=32,icmp6,icmp_type=135,nd_target=fe80::1,actions=CONTROLLER",
    "table=1,priority=33,mpls,mpls_label=100,mpls_bos=1,actions=pop_mpls:0x0800,output:3",
    "table=2,priority=34,metadata=0xf0/0xf0,actions=output:1",
    "table=2,priority=35,sctp,tp_src=5000,actions=output:1",
    "table=2,priority=36,vlan_tci=0x1000/0x1000,actions=output:1",
    "table=2,priority=37,ip,nw_ecn=1,actions=set_field:2->ip_ecn,output:1",
    "table=2,priority=38,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=drop",
    "priority=40,ip,nw_proto=50,actions=write_metadata:0xaa/0xff,goto_table:2",
    "priority=41,ip,nw_proto=51,actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:2",
    "priority=42,ip,nw_proto=47,actions=clear_actions,write_actions(set_field:10.0.0.9->ip_dst,output:2),goto_table:1",
    "priority=43,ip,nw_proto=4,actions=group:1",
    "priority=44,ip,nw_proto=88,actions=meter:1,output:2",
    "priority=45,ip,nw_proto=89,actions=set_queue:1,output:3",
    "priority=46,ip,nw_proto=90,actions=push_mpls:0x8847,set_field:77->mpls_label,output:2",
]}
GROUPS = [
    "group_id=1,type=select,bucket=weight:3,actions=output:1,bucket=weight:2,actions=output:2",
    "group_id=2,type=all,bucket=actions=output:1,bucket=actions=output:2",
    "group_id=3,type=indirect,bucket=actions=set_field:02:00:00:00:00:03->eth_dst,output:3",
    "group_id=4,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2",
]
METERS = ["meter=1,kbps,burst,stats,bands=type=drop rate=1000 burst_size=100", "meter=2,pktps,bands=type=drop rate=10"]


# How ovs-ofctl itself writes in 1.3 what 1.0 has actions of its own for.
IN_13 = [("strip_vlan", "pop_vlan"), ("mod_dl_dst:02:00:00:00:00:02", "set_field:02:00:00:00:00:02->eth_dst"),
         ("mod_nw_src:10.9.9.9", "set_field:10.9.9.9->ip_src"), ("mod_tp_src:8080", "set_field:8080->tcp_src"),
         ("mod_nw_tos:64", "set_field:16->ip_dscp")]


def wanted_rules(version):
    rules = list(BOTH)
    for old, new in IN_13 if version == "OpenFlow13" else ():
        rules = [r.replace(old, new) for r in rules]
    return rules + ONLY[version]


class Ofctl:
    """ovs-ofctl in one version, on one switch."""

    def __init__(self, lab, switch_address, version):
        self.lab, self.address, self.version = lab, switch_address, version

    def __call__(self, command, *args, options=(), stdin=None):
        """(exit status, output)"""
        status, out, err = self.lab.run("ovs-ofctl", "-O", self.version, "--timeout=20", *options, command, self.address,
                                        *args, check=False, stdin=stdin)
        return status, out + err

    def must(self, *args, **kwargs):
        status, out = self(*args, **kwargs)
        if status:
            raise AssertionError("%s: %s" % (args[0], out.strip()[:300]))
        return out

    def difference(self, rules):
        """What the switch's rules differ in from these, by ovs-ofctl's own comparison; "" for nothing."""
        path = self.lab.directory("rules") + "/rules"
        with open(path, "w") as f:
            f.write("\n".join(rules) + "\n")
        _, out, err = self.lab.run("ovs-ofctl", "-O", self.version, "--timeout=20", "diff-flows", self.address, path,
                                   check=False)
        return (out + err).strip()

    def flows(self, *args):
        """[{"n_packets": .., "n_bytes": .., "line": ..}]"""
        found = []
        for line in self.must("dump-flows", *args).splitlines():
            packets = re.search(r"n_packets=(\d+), n_bytes=(\d+)", line)
            if packets:
                found.append(dict(n_packets=int(packets.group(1)), n_bytes=int(packets.group(2)), line=line))
        return found


def main():
    judge = Judge("ofctl", __doc__)
    for version, name in (("of10", "OpenFlow10"), ("of13", "OpenFlow13")):
        with judge.lab(version) as lab:
            ports = [lab.host("h%d" % n) for n in (1, 2, 3)]
            for n in (1, 2, 3):
                lab.silence("eth0", "h%d" % n)
            target = switch(judge.args.target, lab, ports, [version], dpid=DPID, controllers=())
            judge.version = target.version
            ofctl = Ofctl(lab, target.mgmt, name)
            with judge.capture(lab, MGMT_PORT, switch_listens=True) as capture:
                part = lambda what, doing: judge.attempt("%s: %s" % (name, what), doing)
                described(part, ofctl)
                if version == "of13":
                    groups_and_meters(part, ofctl, judge.args.target)
                rules(part, ofctl, version)
                filters(part, ofctl, version)
                # Open vSwitch brings its data path's counts to its rules a few times a second; weir has no such excuse.
                counters(part, ofctl, lab, patience_s={"ovs": 3.0, "weir": 0.0}[judge.args.target])
                ports_and_flags(part, ofctl, lab, version)
                listening_in(part, ofctl, lab, version)
                refused(part, ofctl, judge.args.target, version)
                part("each request once, each answered", lambda: every_request.answers(target.mgmt, version))
                part("the switch still answers", lambda: bool(ofctl.must("dump-desc")))
            judge.check("%s: the switch still runs" % name, target.process.alive())
            judge.decoded("ovs-ofctl, %s" % name, capture)
    return judge.end()


def described(part, ofctl):
    def show():
        out = ofctl.must("show")
        return "dpid:%016x" % DPID in out and all(re.search(r"^ %d\(" % n, out, re.M) for n in (1, 2, 3)), out[:150]
    part("show names the datapath and the ports", show)
    part("dump-desc", lambda: ("Manufacturer:" in ofctl.must("dump-desc"), ""))
    part("ping", lambda: "bytes from" in ofctl.must("ping", "64"))
    part("probe", lambda: ofctl.must("probe") == "")
    part("dump-tables", lambda: bool(re.search(r"table 0", ofctl.must("dump-tables"))))
    part("dump-ports", lambda: all(re.search(r"port +\"?\S+\"?: rx pkts=\d+", ofctl.must("dump-ports", str(n))) for n in (1, 2, 3)))
    part("dump-ports of all", lambda: len(re.findall(r"rx pkts=", ofctl.must("dump-ports"))) >= 3)
    part("queue-stats", lambda: "queues" in ofctl.must("queue-stats"))
    if ofctl.version == "OpenFlow13":
        part("dump-table-features", lambda: "table 0" in ofctl.must("dump-table-features"))
        part("dump-ports-desc", lambda: len(re.findall(r"addr:", ofctl.must("dump-ports-desc"))) >= 3)
        part("dump-group-features", lambda: "select group:" in ofctl.must("dump-group-features"))
        part("meter-features", lambda: "max_meter:" in ofctl.must("meter-features"))


def groups_and_meters(part, ofctl, target):
    def install():
        for g in GROUPS:
            ofctl.must("add-group", g)
        for m in METERS:
            ofctl.must("add-meter", m)
        return True
    part("add-group, add-meter", install)

    def read_groups():
        got = sorted(l.strip() for l in ofctl.must("dump-groups").splitlines() if "group_id=" in l)
        return got == sorted(GROUPS), "; ".join(got)
    part("dump-groups says what was added", read_groups)

    def read_meters():
        out = " ".join(ofctl.must("dump-meters").split())
        return all(w in out for w in ("meter=1 kbps burst stats bands= type=drop rate=1000 burst_size=100",
                                      "meter=2 pktps bands= type=drop rate=10")), out
    part("dump-meters says what was added", read_meters)
    part("dump-group-stats", lambda: len(re.findall("group_id=", ofctl.must("dump-group-stats"))) == len(GROUPS))
    part("meter-stats", lambda: len(re.findall("meter:", ofctl.must("meter-stats"))) == len(METERS))

    def change():
        ofctl.must("mod-group", "group_id=2,type=all,bucket=actions=output:3")
        ofctl.must("mod-meter", "meter=2,pktps,bands=type=drop rate=20")
        out = "".join(l for l in ofctl.must("dump-groups").splitlines() if "group_id=2," in l) + ofctl.must("dump-meters")
        return "output:3" in out and "output:1" not in out and "rate=20" in " ".join(out.split()), out[:200]
    part("mod-group, mod-meter", change)
    for what, command, argument, word in (
            ("a group twice", "add-group", GROUPS[0], "OFPGMFC_GROUP_EXISTS"),
            ("a meter twice", "add-meter", METERS[0], "OFPMMFC_METER_EXISTS"),
            ("change of a group that is not", "mod-group", "group_id=99,type=all,bucket=output:1", "OFPGMFC_UNKNOWN_GROUP"),
            ("change of a meter that is not", "mod-meter", "meter=99,kbps,bands=type=drop rate=1", "OFPMMFC_UNKNOWN_METER"),
            *[("a group that leads to itself", "mod-group", "group_id=2,type=all,bucket=group:2", "OFPGMFC_LOOP")]
            * (target != "ovs")):       # Open vSwitch 3.1 lets it be
        part("refused: " + what, lambda: names(ofctl(command, argument), word))

    def delete():
        ofctl.must("del-groups", "group_id=4")
        ofctl.must("del-meter", "meter=2")
        out = ofctl.must("dump-groups") + ofctl.must("dump-meters")
        return "group_id=4" not in out and "meter=2" not in out, out[:200]
    part("del-groups, del-meter", delete)


def names(answer, word):
    status, out = answer
    return word in out, "" if word in out else "%s expected, and exit %d: %s" % (word, status, out.strip()[:300])


def rules(part, ofctl, version):
    wanted = wanted_rules(ofctl.version)

    def add():
        ofctl.must("add-flows", "-", stdin="\n".join(wanted) + "\n")
        difference = ofctl.difference(wanted)
        return difference == "", difference[:400]
    part("add-flows, then nothing differs", add)
    part("dump-flows has them all", lambda: (len(ofctl.flows()) == len(wanted), "%d of %d" % (len(ofctl.flows()), len(wanted))))
    part("dump-aggregate counts them", lambda: names((0, ofctl.must("dump-aggregate")), "flow_count=%d" % len(wanted)))

    def loose():
        ofctl.must("mod-flows", "ip,nw_src=10.0.0.0/8,actions=output:3")
        changed = [re.sub("actions=.*", "actions=output:3", r) if r.startswith("priority=17,") else r for r in wanted]
        difference = ofctl.difference(changed)
        ofctl.must("mod-flows", next(r for r in wanted if r.startswith("priority=17,")), options=["--strict"])
        return difference == "" and ofctl.difference(wanted) == "", difference or ofctl.difference(wanted)
    part("mod-flows, loose and strict", loose)

    def nothing_strict():
        # Strict: another priority is another rule, so nothing is deleted; a loose one deletes what it covers.
        ofctl.must("del-flows", "priority=9999,in_port=1", options=["--strict"])
        return ofctl.difference(wanted) == "", ofctl.difference(wanted)
    part("del-flows --strict of another priority deletes nothing", nothing_strict)

    def replace():
        kept = wanted[: len(wanted) // 2]
        ofctl.must("replace-flows", "-", stdin="\n".join(kept) + "\n")
        difference = ofctl.difference(kept)
        ofctl.must("add-flows", "-", stdin="\n".join(wanted) + "\n")
        return difference == "", difference[:300]
    part("replace-flows", replace)

    def delete():
        ofctl.must("del-flows", "in_port=3")
        left = [r for r in wanted if "in_port=3" not in r]
        return ofctl.difference(left) == "", ofctl.difference(left)[:300]
    part("del-flows, loose", delete)


def filters(part, ofctl, version):
    def by_port():
        ofctl.must("del-flows")
        ofctl.must("add-flows", "-", stdin="priority=1,in_port=1,actions=output:2\npriority=2,in_port=1,dl_vlan=1,actions=output:3\n")
        shown = ofctl.flows("out_port=3")
        ofctl.must("del-flows", "out_port=3")
        return len(shown) == 1 and "output:3" in shown[0]["line"] and len(ofctl.flows()) == 1, shown
    part("out_port chooses what is shown and deleted", by_port)
    if version == "of10":
        return

    def by_cookie():
        ofctl.must("del-flows")
        ofctl.must("add-flows", "-", stdin="".join("priority=%d,cookie=0x%x,actions=drop\n" % (n, n) for n in range(16)))
        ofctl.must("del-flows", "cookie=0x4/0xc")
        ofctl.must("mod-flows", "cookie=0x8/0xc,actions=output:1")
        shown = [f["line"] for f in ofctl.flows()]
        return (len(shown) == 12 and sum("output:1" in l for l in shown) == 4
                and len(ofctl.flows("cookie=0x1/0x1")) == 6), "%d shown" % len(shown)
    part("cookies and masks choose", by_cookie)

    def by_group():
        ofctl.must("del-flows")
        ofctl.must("add-flows", "-", stdin="priority=1,actions=group:1\npriority=2,actions=group:3\n")
        shown = ofctl.flows("out_group=3")
        ofctl.must("del-groups", "group_id=3")
        left = ofctl.flows()
        return len(shown) == 1 and len(left) == 1 and "group:1" in left[0]["line"], "%s then %s" % (shown, left)
    part("out_group chooses; a group's end ends its rules", by_group)


def counters(part, ofctl, lab, patience_s):
    def settled(condition):
        end = time.monotonic() + patience_s
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)

    def exact():
        ofctl.must("del-flows")
        ofctl.must("add-flows", "-", stdin="priority=1,in_port=1,actions=output:2\npriority=1,in_port=2,actions=output:1,output:3\n")
        before = [lab.received("h%d" % n) for n in (1, 2, 3)]
        lab.send("h1", FRAME, 1000)
        lab.send("h2", FRAME, 500)
        lab.wait("frames", lambda: lab.received("h3") - before[2] >= 500, patience_s=5)
        got = [lab.received("h%d" % n) - b for n, b in zip((1, 2, 3), before)]
        wanted = [(500, 500 * len(FRAME)), (1000, 1000 * len(FRAME))]
        read = lambda: sorted((f["n_packets"], f["n_bytes"]) for f in ofctl.flows())
        settled(lambda: read() == wanted)
        return got == [500, 1000, 500] and read() == wanted, "%s %s" % (got, read())
    part("rules count every frame, to the byte", exact)

    def kept():
        ofctl.must("mod-flows", "in_port=1,actions=output:3")
        kept = max(f["n_packets"] for f in ofctl.flows("in_port=1"))
        ofctl.must("mod-flows", "reset_counts,in_port=1,actions=output:3") if ofctl.version == "OpenFlow13" else None
        now = max(f["n_packets"] for f in ofctl.flows("in_port=1"))
        return kept == 1000 and now == (0 if ofctl.version == "OpenFlow13" else 1000), "%d then %d" % (kept, now)
    part("a modified rule keeps its counters, with reset_counts it does not", kept)

    def injected():
        ofctl.must("del-flows")
        ofctl.must("add-flow", "priority=1,in_port=1,actions=output:2")
        before = lab.received("h2"), lab.received("h3")
        ofctl.must("packet-out", "in_port=1 packet=%s actions=table" % FRAME.hex())
        ofctl.must("packet-out", "in_port=controller packet=%s actions=output:2,output:3" % FRAME.hex())
        ofctl.must("packet-out", "in_port=1 packet=%s actions=ALL" % FRAME.hex())
        lab.wait("frames", lambda: lab.received("h3") - before[1] >= 2, patience_s=5)
        got = lab.received("h2") - before[0], lab.received("h3") - before[1]
        settled(lambda: ofctl.flows()[0]["n_packets"] == 1)
        return got == (3, 2) and ofctl.flows()[0]["n_packets"] == 1, "%s, %s" % (got, ofctl.flows())
    part("packet-out by a port, TABLE and ALL", injected)

    def expires():
        ofctl.must("del-flows")
        ofctl.must("add-flows", "-", stdin="priority=1,in_port=1,hard_timeout=1,actions=drop\npriority=2,in_port=1,idle_timeout=1,actions=drop\npriority=3,in_port=2,actions=drop\n")
        before = len(ofctl.flows())
        lab.wait("the end of two rules", lambda: len(ofctl.flows()) == 1, patience_s=5)
        return before == 3, "%d at first" % before
    part("idle and hard time-outs", expires)


def ports_and_flags(part, ofctl, lab, version):
    def down_and_up():
        ofctl.must("del-flows")
        ofctl.must("add-flow", "priority=1,in_port=1,actions=output:2")
        ofctl.must("mod-port", "2", "no-forward")
        quiet = lab.received("h2")
        lab.send("h1", FRAME, 10)
        lab.run("sleep", "0.3")
        stopped = lab.received("h2") - quiet
        ofctl.must("mod-port", "2", "forward")
        lab.send("h1", FRAME, 10)
        lab.wait("frames", lambda: lab.received("h2") - quiet >= 10, patience_s=5)
        return stopped == 0 and lab.received("h2") - quiet == 10, "%d passed" % stopped
    part("mod-port no-forward, and back", down_and_up)
    part("get-frags", lambda: ofctl.must("get-frags").strip() == "normal")

    def frags():
        ofctl.must("set-frags", "drop")
        said = ofctl.must("get-frags").strip()
        ofctl.must("set-frags", "normal")
        return said == "drop" and ofctl.must("get-frags").strip() == "normal", said
    part("set-frags drop, and back", frags)


def listening_in(part, ofctl, lab, version):
    def monitor():
        ofctl.must("del-flows")
        ofctl.must("add-flow", "priority=1,in_port=1,actions=CONTROLLER:64")
        ofctl.must("add-flow", "priority=2,in_port=2,send_flow_rem,cookie=0x77,actions=drop")
        watcher = lab.spawn("monitor", ["ovs-ofctl", "-O", ofctl.version, "monitor", ofctl.address, "65534"])
        try:
            lab.run("sleep", "0.7")
            lab.send("h1", FRAME, 3)
            ofctl.must("del-flows", "in_port=2")
            lab.wait("three packet_ins and a flow_removed", lambda: watcher.output().count("PACKET_IN") == 3
                     and "FLOW_REMOVED" in watcher.output(), patience_s=5)
            said = watcher.output()
            return "cookie:0x77" in said and "reason=delete" in said and "total_len=%d" % len(FRAME) in said, said[:300]
        finally:
            watcher.stop()
    part("monitor sees packet_ins and a flow_removed", monitor)

    def snoop():
        # There is no tap on connections at this address (Open vSwitch's is a Unix socket): it is a connection like any
        # other, and sees none of another's messages.
        watcher = lab.spawn("snoop", ["ovs-ofctl", "-O", ofctl.version, "snoop", ofctl.address])
        try:
            lab.run("sleep", "1")
            ofctl.must("add-flow", "priority=7,in_port=3,actions=drop")
            ofctl.must("del-flows")
            lab.run("sleep", "0.3")
            said = watcher.output()
            return not re.search("FLOW_MOD|BARRIER|FLOW_REMOVED", said), said[:200]
        finally:
            watcher.stop()
    part("snoop is not offered: it shows nothing of another connection", snoop)


def refused(part, ofctl, target, version):
    before = ["priority=1,in_port=1,actions=output:2", "priority=2,in_port=2,actions=output:1"]

    def unchanged(what, command, argument, words, options=(), stdin=None):
        def doing():
            ofctl.must("del-flows")
            ofctl.must("add-flows", "-", stdin="\n".join(before) + "\n")
            status, out = ofctl(command, argument, options=options, stdin=stdin)
            difference = ofctl.difference(before)
            good = any(w in out for w in words) and difference == ""
            return good, "" if good else "%s; exit %d: %s; %s" % ("/".join(words), status, out.strip()[:300], difference[:200])
        part("refused: " + what, doing)

    unchanged("an overlap with check_overlap", "add-flow", "check_overlap,priority=1,in_port=1,dl_vlan=3,actions=drop",
              ["OVERLAP"])
    unchanged("output to a port that cannot be", "add-flow", "priority=9,actions=output:65300", ["OFPBAC_BAD_OUT_PORT"])
    if version == "of13":
        unchanged("a group that is not", "add-flow", "priority=9,actions=group:77", ["OFPBAC_BAD_OUT_GROUP"])
        unchanged("a meter that is not", "add-flow", "priority=9,actions=meter:77,output:1", ["OFPMMFC_UNKNOWN_METER", "OFPMMFC_INVALID_METER"])
    bundle = "priority=5,in_port=3,actions=drop\npriority=6,in_port=3,dl_vlan=1,actions=drop\n"
    if target == "ovs":
        def taken():
            ofctl.must("add-flows", "-", stdin=bundle, options=["--bundle"])
            ofctl.must("del-flows", "in_port=3")
            return True
        if version == "of13":
            part("a bundle (Open vSwitch takes it)", taken)
    elif version == "of13":
        unchanged("a bundle", "add-flows", "-", ["OFPBRC_BAD_EXPERIMENTER", "OFPBRC_BAD_VENDOR", "OFPBRC_BAD_TYPE"],
                  options=["--bundle"], stdin=bundle)


if __name__ == "__main__":
    sys.exit(main())
