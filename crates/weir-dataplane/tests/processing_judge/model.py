#!/usr/bin/env python3
"""What each change must make of each kind of frame, by scapy.

A frame is a description (addresses, tags, labels, network and transport header), a change alters
the description, and scapy builds the bytes anew with all lengths and checksums computed. Nothing
here edits bytes, so that it shares no method with what it judges.

Prints a line `F name hex` for a frame and under it lines `C changes expected`: changes separated
by ';', expected bytes in hex ('xx' for a byte that is free) or '!' and a drop reason.
Usage: model.py small | full | soak
"""
import copy
import random
import socket
import struct
import sys

sys.dont_write_bytecode = True
from changes import Dropped, change, encap  # noqa: E402
from frames import O, build, build_net, text  # noqa: E402


def frame(net, etype, vlans=(), **more):
    return O(dst="02:11:22:33:44:55", src="02:66:77:88:99:aa", etype=etype, net=net,
             vlans=[O(v) for v in vlans], mpls=[], **more)


def v4(l4, **more):
    return O(v=4, src="10.1.2.3", dst="172.16.254.1", tos=0x2A, ttl=64, l4=l4, **more)


def v6(l4, **more):
    return O(v=6, src="2001:db8:a::1", dst="2001:db8:b::ffff:2", tos=0x2A, ttl=64, label=0x54321,
             l4=l4, **more)


def odd(n):
    # The first byte lacks VXLAN's I flag, so that plain UDP is not taken for it.
    return bytes((i * 37 + 1) & 0xFF for i in range(n))


def transports(v):
    ts = {
        "tcp": O(kind="tcp", sport=49152, dport=80, payload=odd(33)),
        "tcp-opts": O(kind="tcp", sport=1, dport=65535, payload=b"", options=[("MSS", 1460)]),
        "udp": O(kind="udp", sport=53, dport=5353, payload=odd(41)),
        "udp0": O(kind="udp", sport=4000, dport=4001, payload=odd(20), zero=True),
        "sctp": O(kind="sctp", sport=2905, dport=36412, payload=odd(24)),
        "none": O(kind="raw", proto=253, payload=odd(17)),
        "ip4": O(kind="ip", inner=v4_inner()),
        "ip6": O(kind="ip", inner=v6_inner()),
    }
    if v == 4:
        ts["icmp"] = O(kind="icmp", type=8, code=0, payload=odd(29))
    else:
        ts["icmp6"] = O(kind="icmp6", type=128, code=0, payload=odd(28))
        ts["ns"] = O(kind="nd", type=135, code=0, target="fe80::1234", opts=[(1, "02:aa:bb:cc:dd:ee")])
        ts["na"] = O(kind="nd", type=136, code=0, target="fe80::9",
                     opts=[(14, "01:02:03:04:05:06"), (2, "02:aa:bb:cc:dd:01")])
        ts["ns-bare"] = O(kind="nd", type=135, code=0, target="fe80::7", opts=[])
        ts["ns-cut"] = O(kind="nd", type=135, code=0, target="fe80::7",
                         opts=[(1, "02:aa:bb:cc:dd:ee")], tail=b"\x01\x00abc")
    return ts


def v4_inner():
    return O(v=4, src="10.9.9.9", dst="10.8.8.8", tos=0, ttl=17,
             l4=O(kind="udp", sport=7, dport=9, payload=odd(9)))


def v6_inner():
    return O(v=6, src="2001:db8:9::9", dst="2001:db8:8::8", tos=0, ttl=19, label=0,
             l4=O(kind="udp", sport=7, dport=9, payload=odd(9)))


def lsrr(pointer):
    addresses = socket.inet_aton("192.0.2.77") + socket.inet_aton("192.0.2.99")
    return bytes([1, 131, 3 + len(addresses), pointer]) + addresses


def nets():
    for name, t in transports(4).items():
        yield "v4-" + name, v4(t), 0x0800
    for name in ("tcp", "udp", "sctp", "icmp"):
        t = transports(4)[name]
        yield "v4-rr-" + name, v4(t, options=bytes([7, 7, 4, 0, 0, 0, 0, 0])), 0x0800
    yield "v4-lsrr", v4(transports(4)["udp"], options=lsrr(4), final="192.0.2.99"), 0x0800
    yield "v4-lsrr-done", v4(transports(4)["tcp"], options=lsrr(12)), 0x0800
    for name in ("tcp", "udp", "udp0", "icmp", "sctp", "ip4"):
        t = transports(4)[name]
        yield "v4-first-" + name, v4(t, first=32), 0x0800
        yield "v4-later-" + name, v4(t, later=32), 0x0800
    yield "v4-middle-udp", v4(transports(4)["udp"], later=32, more=True), 0x0800
    yield "v4-padded", v4(O(kind="udp", sport=1, dport=2, payload=b"x"), pad=b"\0" * 17), 0x0800
    yield "v4-padded-sctp", v4(transports(4)["sctp"], pad=odd(7)), 0x0800
    yield "v4-big", v4(O(kind="tcp", sport=1, dport=2, payload=odd(1459))), 0x0800
    yield "v4-ttl1", v4(transports(4)["udp"]) | {"ttl": 1}, 0x0800
    yield "v4-ttl0", v4(transports(4)["udp"]) | {"ttl": 0}, 0x0800
    for name, t in transports(6).items():
        yield "v6-" + name, v6(t), 0x86DD
    hbh = (0, bytes([0, 5, 2, 0, 0, 1, 0]))
    dst = (60, bytes([1, 1, 12]) + bytes(12))
    stops = socket.inet_pton(socket.AF_INET6, "2001:db8:c::1")
    stops += socket.inet_pton(socket.AF_INET6, "2001:db8:c::99")
    for left in (0, 1, 2):
        rh = (43, bytes([4, 0, left, 0, 0, 0, 0]) + stops)
        final = "2001:db8:c::99" if left else None
        for name in ("tcp", "udp", "icmp6"):
            t = transports(6)[name]
            yield "v6-rh%d-%s" % (left, name), v6(t, ext=[hbh, rh], final=final), 0x86DD
    ah = (51, bytes([4, 0, 0]) + struct.pack("!II", 5, 6) + bytes(12))
    for name in ("tcp", "udp", "udp0", "sctp", "icmp6", "ns", "ip4"):
        t = transports(6)[name]
        yield "v6-ext-" + name, v6(t, ext=[hbh, dst]), 0x86DD
        yield "v6-ah-" + name, v6(t, ext=[ah]), 0x86DD
    for name in ("tcp", "udp", "icmp6", "sctp"):
        t = transports(6)[name]
        yield "v6-first-" + name, v6(t, first=32, ext=[hbh]), 0x86DD
        yield "v6-later-" + name, v6(t, later=32, ext=[hbh]), 0x86DD
    yield "v6-padded-sctp", v6(transports(6)["sctp"], pad=odd(5)), 0x86DD
    yield "v6-ttl1", v6(transports(6)["udp"]) | {"ttl": 1}, 0x86DD
    arp = O(v="arp", op=1, sha="02:66:77:88:99:aa", spa="10.0.0.1", tha="00:00:00:00:00:00",
            tpa="10.0.0.2")
    yield "arp", arp, 0x0806
    yield "rarp", O(arp, op=3), 0x8035
    yield "lldp", O(v="other", bytes=b"\x02\x07\x04" + odd(40)), 0x88CC


def entry(label, bos, ttl):
    return O(label=label, tc=5, bos=bos, ttl=ttl)


TAGS = {
    "": [],
    "vlan-": [dict(tpid=0x8100, pcp=3, dei=1, vid=100)],
    "qinq-": [dict(tpid=0x88A8, pcp=6, dei=0, vid=4094), dict(tpid=0x8100, pcp=1, dei=1, vid=7)],
    "three-": [dict(tpid=0x88A8, pcp=6, dei=0, vid=1), dict(tpid=0x9100, pcp=2, dei=0, vid=2),
               dict(tpid=0x8100, pcp=1, dei=1, vid=3)],
}


def kinds():
    all_nets = list(nets())
    for tags in ("", "vlan-", "qinq-"):
        for name, net, etype in all_nets:
            yield tags + name, frame(copy.deepcopy(net), etype, TAGS[tags])
        udp, tcp6 = v4(transports(4)["udp"]), v6(transports(6)["tcp"])
        arp = next(n for name, n, _ in all_nets if name == "arp")
        for name, net, labels in [
            ("mpls-v4", udp, [entry(16, 1, 64)]),
            ("mpls2-v4", udp, [entry(17, 0, 9), entry(1048575, 1, 8)]),
            ("mpls3-v6", tcp6, [entry(0, 0, 255), entry(18, 0, 1), entry(19, 1, 2)]),
            ("mpls-v6", tcp6, [entry(2, 1, 30)]),
            ("mpls-arp", arp, [entry(20, 1, 64)]),
            ("mpls-ttl1", udp, [entry(21, 1, 1)]),
        ]:
            f = frame(copy.deepcopy(net), 0x8847, TAGS[tags])
            f.mpls = labels
            yield tags + name, f
        snap = frame(v4(transports(4)["udp"]), 0x003C, TAGS[tags], llc=b"\xaa\xaa\x03\0\0\0\x08\0")
        yield tags + "snap", snap
        inner = frame(v4(transports(4)["tcp"]), 0x0800, TAGS["vlan-"])
        inner.src, inner.dst = "02:0c:0c:0c:0c:01", "02:0c:0c:0c:0c:02"
        pbb = frame(None, 0x88E7, TAGS[tags], pbb=O(pcp=4, isid=0x123456, inner=inner))
        yield tags + "pbb", pbb
    yield "three-udp", frame(v4(transports(4)["udp"]), 0x0800, TAGS["three-"])
    inner = frame(v6(transports(6)["tcp"]), 0x86DD, TAGS["vlan-"])
    for v in "46":
        yield "vxlan%s" % v, encap(copy.deepcopy(inner), "vxlan", v, vni=0xABCDEF, port=4789,
                                   sport=50000)
        f = encap(copy.deepcopy(inner), "vxlan", v, vni=1, port=8472, sport=50001)
        f.outer.pad = b"\0" * 5
        yield "vxlan%s-padded" % v, f
        for name, more in [
            ("", {}), ("-key", dict(key=0xDEADBEEF)), ("-seq", dict(seq=5)),
            ("-csum", dict(csum=1)), ("-all", dict(key=1, seq=0xFFFFFFFF, csum=1)),
        ]:
            yield "gre%s%s" % (v, name), encap(copy.deepcopy(inner), "gre", v, **more)
        f = encap(None, "gre", v, key=9, proto=0x0800)
        f.outer.net = v4(transports(4)["udp"])
        f.outer.raw = build_net(f.outer.net)
        f.outer.pad = b"\0" * 9
        yield "gre%s-ip" % v, f
    # Congestion on the way: marked outside, understood or not inside.
    for ecn, name in enumerate(("not-ect", "ect1", "ect0", "ce")):
        tos = 0x28 | ecn
        f = encap(frame(v4(transports(4)["udp"]), 0x0800), "vxlan", "46"[ecn & 1], vni=ecn,
                  port=4789, sport=50002, tos=0x2B)
        f.outer.inner.net.tos = tos
        yield "marked-vxlan-%s" % name, f
        f = encap(frame(v6(transports(6)["udp"]), 0x86DD, TAGS["vlan-"]), "gre", "64"[ecn & 1],
                  key=ecn, tos=0x29 | (ecn & 1) << 1)
        f.outer.inner.net.tos = tos
        yield "marked-gre-%s" % name, f


ANY = [
    "set dl_dst 0x0a0b0c0d0e0f 0xffffffffffff", "set dl_src 0x0a0b0c0d0e0f 0x00000000ffff",
    "set vlan_tci 0x7fff 0xffff", "set vlan_vid 0x1005 0x1fff", "set vlan_vid 0x00f 0x00f",
    "set dl_vlan_pcp 5 7", "set inner_vlan_tci 0x5abc 0xffff",
    "push_vlan 0x8100", "push_vlan 0x88a8", "pop_vlan",
    "push_mpls 0x8847", "push_mpls 0x8848", "push_pbb", "pop_pbb", "set pbb_isid 0xfedcba 0xffffff",
    "dec_ttl", "dec_mpls_ttl", "copy_ttl_in", "copy_ttl_out",
    "set nw_src 0x01020304 0xffffffff", "set nw_dst 0xe0000001 0xffffffff",
    "set nw_dst 0x0000ff00 0x0000ff00", "set nw_src 0 0xffffffff",
    "set ipv6_src 0xfe80000000000000000000000000abcd 0xffffffffffffffffffffffffffffffff",
    "set ipv6_dst 0xff020000000000000000000000000001 0xffffffffffffffffffffffffffffffff",
    "set ipv6_dst 0xffff000000000000 0xffffffff00000000",
    "set ipv6_label 0xfffff 0xfffff", "set ipv6_label 0x10 0xf0",
    "set nw_tos 0xff 0xff", "set nw_tos 0 0xff", "set ip_dscp 46 63", "set nw_ecn 1 3",
    "set nw_ttl 255 255", "set nw_ttl 0 255", "set nw_ttl 0x80 0x80",
    "set tp_src 0 0xffff", "set tp_src 65535 0xffff", "set tp_dst 443 0xffff",
    "set tp_dst 0x00aa 0x00ff", "set icmp_type 0 0xff", "set icmp_code 13 0xff",
    "set arp_op 2 0xffff", "set arp_sha 0x020304050607 0xffffffffffff",
    "set arp_spa 0x0a0a0a0a 0xffffffff", "set arp_tha 0xffffffffffff 0x0000ffffffff",
    "set arp_tpa 0xc0000201 0xffffffff",
    "set nd_target 0x20010db8000000000000000000000042 0xffffffffffffffffffffffffffffffff",
    "set nd_target 0xff00 0xff00",
    "set nd_sll 0x0e0e0e0e0e0e 0xffffffffffff", "set nd_tll 0x0d0d0d0d0d0d 0x0000ffffffff",
    "set mpls_label 0xabcde 0xfffff", "set mpls_tc 2 7", "set mpls_ttl 7 255",
    # Parts of fields: what the mask leaves out stays.
    "set dl_dst 0x0a0b0c0d0e0f 0x00ffff0000ff", "set vlan_tci 0xf234 0x30ff",
    "set dl_vlan_pcp 6 5", "set inner_vlan_tci 0x7abc 0x4f00", "set nw_src 0xcb007109 0x000000ff",
    "set ipv6_src 0x20010db8ffff00000000000012345678 0xffff", "set ipv6_label 0xfedcb 0x00ff0",
    "set nw_tos 0x47 0xf1", "set ip_dscp 0x2e 0x15", "set nw_ecn 2 1", "set nw_ttl 201 0x81",
    "set tp_src 0xcafe 0x00f0", "set icmp_type 0 7", "set icmp_code 13 9", "set arp_op 2 3",
    "set arp_sha 0x0200000000aa 0xffff", "set arp_spa 0x0a090807 0x00ff00ff",
    "set arp_tpa 0x01020304 0xff000000", "set nd_sll 0x020000000cc1 0x0000ffff0000",
    "set mpls_label 0xabcde 0x0f0f0", "set mpls_tc 6 4", "set mpls_ttl 99 0x0f",
    "set pbb_isid 0xabcdef 0x0ff0ff",
    "encap_vxlan 4 0x123456 4789", "encap_vxlan 6 7 4790",
    "encap_gre 4 - - 0", "encap_gre 4 0x01020304 - 0", "encap_gre 4 0xffffffff 77 1",
    "encap_gre 6 - 0xffffffff 0", "encap_gre 6 5 - 1",
    "decap_vxlan", "decap_gre",
]

TUNNELLED = [c for c in ANY if c.startswith(("decap", "set dl_", "set nw_t", "dec_ttl", "set ip_dscp"))]


def changes_for(f):
    if f.outer:
        return TUNNELLED
    if f.mpls:
        left = f.mpls[1:]
        etype = 0x8848 if left else {4: 0x0800, 6: 0x86DD, "arp": 0x0806}[f.net.v]
        return ANY + ["pop_mpls 0x%x" % etype]
    return ANY


def carry_out(f, changes):
    f = copy.deepcopy(f)
    try:
        for c in changes:
            f = change(f, c)
    except Dropped as why:
        return "!" + str(why)
    return text(f)


def sequence(f, rng):
    """Two to four changes that the model follows: nothing but a decapsulation after a wrap."""
    todo = []
    wrapped = bool(f.outer)
    labels = len(f.mpls)
    tags = len(f.vlans)
    for _ in range(rng.randrange(2, 5)):
        c = rng.choice(TUNNELLED if wrapped else ANY)
        if c.startswith(("encap", "push_pbb", "decap", "pop_pbb")):
            if wrapped or f.outer:
                continue
        if c.startswith("push_mpls"):
            labels += 1
        if c.startswith("push_vlan"):
            tags += 1
            # A third tag hides what stands behind two from a switch.
            if tags > 2:
                continue
        todo.append(c)
        if c.startswith(("encap", "push_pbb", "decap", "pop_pbb")):
            break
    return todo or ["dec_ttl"]


# Lists of changes for each kind of frame.
LISTS = {"small": 12, "full": 12, "soak": 160}


def main():
    size = sys.argv[1]
    rng = random.Random(4)
    out = sys.stdout
    for i, (name, f) in enumerate(kinds()):
        three = len(f.vlans) > 2
        cases = [[c] for c in changes_for(f)]
        if three:
            hidden = ("push_vlan", "pop_vlan", "set dl_", "set vlan", "set inner", "set nw_src")
            cases = [c for c in cases if c[0].startswith(hidden[:-1])]
        else:
            cases += [sequence(f, rng) for _ in range(LISTS[size])]
        if size == "small":
            must = [["decap_" + f.outer.kind]] if name.startswith("marked-") else []
            cases = must + rng.sample(cases, min(3, len(cases)))
        out.write("F %s %s\n" % (name, build(f).hex()))
        for c in cases:
            out.write("C %s\t%s\n" % (";".join(c), carry_out(f, c)))


if __name__ == "__main__":
    main()
