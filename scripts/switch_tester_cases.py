#!/usr/bin/env python3
"""Turns the cases of os-ken's switch tester into text that weir's own tests replay from memory.

    VENV/bin/python scripts/switch_tester_cases.py > target/switch_tester_cases.txt
    cargo test -p weir-dataplane --test switch_tester_cases

Run it with the Python of an environment that has os-ken installed; the cases are os-ken's and stay
there (`os_ken/tests/switch/of13`, Apache-2.0). One word a field, one thing a line; numbers are
hexadecimal, frames are bytes in hex:

    case NAME
    group ID KIND / bucket WEIGHT WATCH_PORT WATCH_GROUP / act ...
    meter ID UNIT / band KIND RATE BURST LEVELS
    flow TABLE PRIORITY COOKIE / match FIELD VALUE MASK / inst KIND ... / act ...
    in FRAME, then one of: out FRAME, packet_in FRAME, miss TABLE...
    load FRAMES_A_SECOND SECONDS / frame FRAME / expect UNIT AMOUNT / match FIELD VALUE MASK
"""

import contextlib
import io
import os
import sys

with contextlib.redirect_stdout(io.StringIO()):
    from os_ken import cfg
    from os_ken.lib import addrconv
    from os_ken.lib.packet import packet  # noqa: F401
    from os_ken.ofproto import ofproto_v1_3 as ofp
    from os_ken.tests.switch import tester

FIELDS = {
    "in_port": "in_port", "in_phy_port": "in_phy_port", "metadata": "metadata",
    "eth_dst": "eth_dst", "eth_src": "eth_src", "eth_type": "eth_type",
    "vlan_vid": "vlan_vid", "vlan_pcp": "vlan_pcp", "ip_dscp": "ip_dscp", "ip_ecn": "ip_ecn",
    "ip_proto": "ip_proto", "ipv4_src": "ipv4_src", "ipv4_dst": "ipv4_dst",
    "tcp_src": "tp_src", "tcp_dst": "tp_dst", "udp_src": "tp_src", "udp_dst": "tp_dst",
    "sctp_src": "tp_src", "sctp_dst": "tp_dst",
    "icmpv4_type": "icmp_type", "icmpv4_code": "icmp_code",
    "icmpv6_type": "icmp_type", "icmpv6_code": "icmp_code",
    "arp_op": "arp_op", "arp_spa": "arp_spa", "arp_tpa": "arp_tpa",
    "arp_sha": "arp_sha", "arp_tha": "arp_tha",
    "ipv6_src": "ipv6_src", "ipv6_dst": "ipv6_dst", "ipv6_flabel": "ipv6_label",
    "ipv6_nd_target": "nd_target", "ipv6_nd_sll": "nd_sll", "ipv6_nd_tll": "nd_tll",
    "mpls_label": "mpls_label", "mpls_tc": "mpls_tc", "mpls_bos": "mpls_bos",
    "pbb_isid": "pbb_isid", "tunnel_id": "tunnel_id", "ipv6_exthdr": "ipv6_exthdr",
}


def number(v):
    """A value of os-ken's as a number."""
    if isinstance(v, bytes):
        return int.from_bytes(v, "big")
    if isinstance(v, int):
        return v
    if ":" in v and len(v.split(":")) == 6 and "::" not in v:
        return int.from_bytes(addrconv.mac.text_to_bin(v), "big")
    conv = addrconv.ipv6 if ":" in v else addrconv.ipv4
    return int.from_bytes(conv.text_to_bin(v), "big")


def match(m):
    for name, v in m._fields2:
        value, mask = v if isinstance(v, tuple) else (v, None)
        mask = "-" if mask is None else f"{number(mask):x}"
        print("match", FIELDS[name], f"{number(value):x}", mask)


def action(a):
    name = type(a).__name__.removeprefix("OFPAction")
    words = {
        "Output": lambda: ["output", f"{a.port:x}", f"{a.max_len:x}"],
        "CopyTtlOut": lambda: ["copy_ttl_out"], "CopyTtlIn": lambda: ["copy_ttl_in"],
        "SetMplsTtl": lambda: ["set", "mpls_ttl", f"{a.mpls_ttl:x}"],
        "DecMplsTtl": lambda: ["dec_mpls_ttl"],
        "PushVlan": lambda: ["push_vlan", f"{a.ethertype:x}"], "PopVlan": lambda: ["pop_vlan"],
        "PushMpls": lambda: ["push_mpls", f"{a.ethertype:x}"],
        "PopMpls": lambda: ["pop_mpls", f"{a.ethertype:x}"],
        "SetQueue": lambda: ["set_queue", f"{a.queue_id:x}"],
        "Group": lambda: ["group", f"{a.group_id:x}"],
        "SetNwTtl": lambda: ["set", "nw_ttl", f"{a.nw_ttl:x}"], "DecNwTtl": lambda: ["dec_ttl"],
        "SetField": lambda: ["set", FIELDS[a.key], f"{number(a.value):x}"],
        "PushPbb": lambda: ["push_pbb", f"{a.ethertype:x}"], "PopPbb": lambda: ["pop_pbb"],
    }
    print("act", *words[name]())


def flow(f):
    print(f"flow {f.table_id:x} {f.priority:x} {f.cookie:x}")
    match(f.match)
    for i in f.instructions:
        if i.type == ofp.OFPIT_GOTO_TABLE:
            print(f"inst goto {i.table_id:x}")
        elif i.type == ofp.OFPIT_WRITE_METADATA:
            print(f"inst metadata {i.metadata:x} {i.metadata_mask:x}")
        elif i.type == ofp.OFPIT_METER:
            print(f"inst meter {i.meter_id:x}")
        else:
            kind = {3: "write", 4: "apply", 5: "clear"}[i.type]
            print("inst", kind)
            for a in i.actions:
                action(a)


def group(g):
    kind = {0: "all", 1: "select", 2: "indirect", 3: "ff"}[g.type]
    print(f"group {g.group_id:x} {kind}")
    for b in g.buckets:
        print(f"bucket {b.weight:x} {b.watch_port:x} {b.watch_group:x}")
        for a in b.actions:
            action(a)


def meter(m):
    unit = "packets" if m.flags & ofp.OFPMF_PKTPS else "kilobits"
    print(f"meter {m.meter_id:x} {unit}")
    for b in m.bands:
        kind = "drop" if b.type == ofp.OFPMBT_DROP else "remark"
        burst = b.burst_size if m.flags & ofp.OFPMF_BURST else 0
        print(f"band {kind} {b.rate:x} {burst:x} {getattr(b, 'prec_level', 0):x}")


def load(t):
    p = t[tester.KEY_PACKETS]
    print(f"load {p[tester.KEY_PKTPS]:x} {p[tester.KEY_DURATION_TIME]:x}")
    if p["randomize"]:
        for _ in range(1024):
            data = eval("/".join(p["packet_text"]), vars(tester))
            data.serialize()
            print("frame", bytes(data.data).hex())
    else:
        print("frame", p["packet_binary"].hex())
    for e in t[tester.KEY_THROUGHPUT]:
        unit = "kilobits" if e[tester.KEY_KBPS] else "packets"
        print(f"expect {unit} {e[tester.KEY_KBPS] or e[tester.KEY_PKTPS]:x}")
        match(e[tester.KEY_FLOW].match)


def main():
    cfg.CONF([], project="os_ken")
    tester.OfTester.target_ver = tester.OfTester.tester_ver = ofp.OFP_VERSION
    root = os.path.join(os.path.dirname(tester.__file__), "of13")

    class Log:
        def warning(self, *text):
            print("switch_tester_cases:", *text, file=sys.stderr)

    files = [os.path.join(d, n) for d, _, ns in os.walk(root) for n in ns if n.endswith(".json")]
    for path in sorted(files):
        of = tester.TestFile(path, Log())
        for t in of.tests:
            print("case", of.description, "/", t.description)
            for msg in t.prerequisite:
                kind = type(msg).__name__
                {"OFPFlowMod": flow, "OFPGroupMod": group, "OFPMeterMod": meter}[kind](msg)
            for one in t.tests:
                if tester.KEY_PACKETS in one:
                    load(one)
                    continue
                print("in", one[tester.KEY_INGRESS].hex())
                if tester.KEY_EGRESS in one:
                    print("out", one[tester.KEY_EGRESS].hex())
                elif tester.KEY_PKT_IN in one:
                    print("packet_in", one[tester.KEY_PKT_IN].hex())
                else:
                    print("miss", *(f"{n:x}" for n in one[tester.KEY_TBL_MISS]))


if __name__ == "__main__":
    main()
