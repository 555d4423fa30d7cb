#!/usr/bin/env python3
"""What each change must make of each kind of frame, by scapy.

A frame is a description (addresses, tags, labels, network and transport header), a change alters
the description, and scapy builds the bytes anew with all lengths and checksums computed. Nothing
here edits bytes, so that it shares no method with what it judges.

Prints a line `F name hex` for a frame and under it lines `C changes expected`: changes separated
by ';', expected bytes in hex ('xx' for a byte that is free) or '!' and a drop reason.
Usage: model.py full | small
"""
import copy
import random
import socket
import struct
import sys

from scapy.config import conf

conf.ipv6_enabled = True
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment  # noqa: F401,E402
from scapy.layers.inet6 import IPv6, in6_chksum  # noqa: E402
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.layers.sctp import SCTP  # noqa: E402
from scapy.layers.vxlan import VXLAN  # noqa: E402
from scapy.packet import Raw  # noqa: E402
from scapy.utils import checksum, mac2str, str2mac  # noqa: E402
from scapy.contrib.mpls import MPLS  # noqa: E402


DEI = "dei" if any(d.name == "dei" for d in Dot1Q.fields_desc) else "id"


class Dropped(Exception):
    pass


class O(dict):
    """A description: fields by name."""

    __getattr__ = dict.get

    def __setattr__(self, k, v):
        self[k] = v

    def __or__(self, more):
        return O(self, **more)


def num_mac(m):
    return int.from_bytes(mac2str(m), "big")


def mac_num(n):
    return str2mac(n.to_bytes(6, "big"))


def num4(a):
    return int.from_bytes(socket.inet_aton(a), "big")


def ip4(n):
    return socket.inet_ntoa(n.to_bytes(4, "big"))


def num6(a):
    return int.from_bytes(socket.inet_pton(socket.AF_INET6, a), "big")


def ip6(n):
    return socket.inet_ntop(socket.AF_INET6, n.to_bytes(16, "big"))


# ---- building


def transport(net):
    """The whole transport part, as the datagram before fragmentation has it."""
    t = net.l4
    # The final destination is what checksums cover.
    dst = net.final or net.dst
    base = IP(src=net.src, dst=dst) if net.v == 4 else IPv6(src=net.src, dst=dst)
    pay = t.payload or b""
    if t.kind == "tcp":
        p = TCP(sport=t.sport, dport=t.dport, seq=7, ack=9, flags="PA", options=t.options or [])
    elif t.kind == "udp":
        p = UDP(sport=t.sport, dport=t.dport)
        if t.zero:
            p.chksum = 0
    elif t.kind == "sctp":
        raw = bytes(SCTP(sport=t.sport, dport=t.dport, tag=0x01020304) / Raw(pay))
        return raw
    elif t.kind == "icmp":
        raw = bytes([t.type, t.code, 0, 0]) + pay
        c = checksum(raw)
        return raw[:2] + struct.pack("!H", c) + raw[4:]
    elif t.kind in ("icmp6", "nd"):
        if t.kind == "nd":
            pay = b"\0\0\0\0" + socket.inet_pton(socket.AF_INET6, t.target)
            for kind, mac in t.opts:
                pay += bytes([kind, 1]) + mac2str(mac)
            pay += t.tail or b""
        raw = bytes([t.type, t.code, 0, 0]) + pay
        c = in6_chksum(58, base, raw)
        return raw[:2] + struct.pack("!H", c) + raw[4:]
    elif t.kind == "ip":
        return build_net(t.inner)
    else:
        return pay
    proto = {"tcp": 6, "udp": 17}[t.kind]
    if net.v == 4:
        base.proto = proto
    else:
        base.nh = proto
    whole = bytes(base / p / Raw(pay))
    return whole[20 if net.v == 4 else 40:]


PROTO = {"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1, "icmp6": 58, "nd": 58}


def proto(t):
    if t.kind == "ip":
        return 4 if t.inner.v == 4 else 41
    return PROTO.get(t.kind, t.proto)


def build_net(net):
    if net.v == "arp":
        return bytes(ARP(op=net.op, hwsrc=net.sha, psrc=net.spa, hwdst=net.tha, pdst=net.tpa))
    if net.v == "other":
        return net.bytes
    body = transport(net)
    first, later = net.first, net.later
    if first:
        body = body[:first]
    if later:
        body = body[later:]
    if net.v == 4:
        h = IP(src=net.src, dst=net.dst, tos=net.tos, ttl=net.ttl, id=0x1234, proto=proto(net.l4))
        h.flags = 1 if first or net.more else 0
        h.frag = (later or 0) // 8
        opts = net.options or b""
        h.ihl = 5 + len(opts) // 4
        h.len = 20 + len(opts) + len(body)
        raw = bytearray(bytes(h) + opts)
        raw[10:12] = b"\0\0"
        raw[10:12] = struct.pack("!H", checksum(bytes(raw)))
        return bytes(raw) + body + (net.pad or b"")
    chain = list(net.ext or [])
    if first or later:
        off = (later or 0) | (1 if first else 0)
        chain.append((44, bytes([0]) + struct.pack("!HI", off, 0xCAFE)))
    nh = proto(net.l4)
    exts = b""
    for kind, data in reversed(chain):
        exts = bytes([nh]) + data + exts
        nh = kind
    h = IPv6(src=net.src, dst=net.dst, tc=net.tos, fl=net.label, hlim=net.ttl, nh=nh)
    h.plen = len(exts) + len(body)
    return bytes(h) + exts + body + (net.pad or b"")


def build(f):
    if f.outer:
        return build_tunnel(f)
    p = Ether(dst=f.dst, src=f.src)
    for t in f.vlans:
        tag = {0x8100: Dot1Q, 0x9100: Dot1Q, 0x88A8: Dot1AD}[t.tpid]
        # The bit's name changed between scapy's versions.
        p = p / tag(**{"prio": t.pcp, DEI: t.dei, "vlan": t.vid})
    # scapy names tags by the layer in front; types are written below.
    head = bytearray(bytes(p))
    types = [t.tpid for t in f.vlans] + [f.etype]
    for i, t in enumerate(types):
        head[12 + 4 * i:14 + 4 * i] = struct.pack("!H", t)
    body = f.llc or b""
    for e in f.mpls:
        body += bytes(MPLS(label=e.label, cos=e.tc, s=e.bos, ttl=e.ttl))[:4]
    if f.pbb:
        body += struct.pack("!I", f.pbb.pcp << 29 | f.pbb.isid)
        body += build(f.pbb.inner)
    else:
        body += build_net(f.net)
    return bytes(head) + body


def build_tunnel(f):
    o = f.outer
    inner = o.raw if o.raw is not None else build(o.inner)
    # The pushed headers have no tags; a frame that came wrapped may have some, and a pad.
    eth = Ether(dst=f.dst, src=f.src, type=0x0800 if o.v == 4 else 0x86DD)
    if o.v == 4:
        ip = IP(src=o.src, dst=o.dst, ttl=o.ttl, tos=o.tos, flags="DF", id=0)
    else:
        ip = IPv6(src=o.src, dst=o.dst, hlim=o.ttl, tc=o.tos)
    if o.kind == "vxlan":
        udp = UDP(sport=o.sport or 0xFFFF, dport=o.port)
        if o.v == 4:
            udp.chksum = 0
        raw = bytes(eth / ip / udp / VXLAN(vni=o.vni, flags=8) / Raw(inner))
    else:
        g = GRE(proto=o.proto or 0x6558)
        if o.csum:
            g.chksum_present = 1
        if o.key is not None:
            g.key_present, g.key = 1, o.key
        if o.seq is not None:
            g.seqnum_present, g.sequence_number = 1, o.seq
        if o.v == 4:
            ip.proto = 47
        else:
            ip.nh = 47
        raw = bytes(eth / ip / g / Raw(inner))
    return raw + (o.pad or b"")


def text(f):
    b = build(f).hex()
    if f.outer and f.outer.kind == "vxlan" and not f.outer.sport:
        at = 34 if f.outer.v == 4 else 54
        # The source port is a hash; over IPv6 the checksum depends on it.
        free = [at, at + 1] + ([at + 6, at + 7] if f.outer.v == 6 else [])
        pairs = [b[i:i + 2] for i in range(0, len(b), 2)]
        for i in free:
            pairs[i] = "xx"
        b = "".join(pairs)
    return b


# ---- changing


def mix(old, v, m):
    return old & ~m | v & m


def visible(f):
    """What stands behind the tags, as a switch sees it."""
    if f.outer:
        return "outer"
    if f.etype in (0x8847, 0x8848):
        return "mpls" if f.mpls else "other"
    if f.mpls or f.pbb:
        return "other"
    n = f.net
    if f.llc is not None:
        return n.v
    if f.etype in (0x0806, 0x8035) and n.v == "arp":
        return "arp"
    if f.etype == 0x0800 and n.v == 4:
        return 4
    if f.etype == 0x86DD and n.v == 6:
        return 6
    return "other"


def set_field(f, name, v, m):
    see = visible(f)
    n = f.net
    if name == "dl_dst":
        f.dst = mac_num(mix(num_mac(f.dst), v, m))
    elif name == "dl_src":
        f.src = mac_num(mix(num_mac(f.src), v, m))
    elif name in ("vlan_tci", "vlan_vid", "dl_vlan_pcp", "inner_vlan_tci"):
        i = 1 if name == "inner_vlan_tci" else 0
        if len(f.vlans) > i:
            t = f.vlans[i]
            if name == "dl_vlan_pcp":
                v, m = v << 13, m << 13
            tci = mix(t.pcp << 13 | t.vid, v, m & 0xEFFF)
            t.pcp, t.vid = tci >> 13, tci & 0xFFF
    elif name.startswith("mpls_"):
        if see == "mpls":
            key = {"mpls_label": "label", "mpls_tc": "tc", "mpls_ttl": "ttl"}[name]
            f.mpls[0][key] = mix(f.mpls[0][key], v, m)
    elif name == "pbb_isid":
        if f.pbb:
            f.pbb.isid = mix(f.pbb.isid, v, m)
    elif name in ("nw_src", "nw_dst"):
        if see == "outer":
            o = f.outer
            if o.v == 4:
                o[name[3:]] = ip4(mix(num4(o[name[3:]]), v, m))
        elif see == 4:
            n[name[3:]] = ip4(mix(num4(n[name[3:]]), v, m))
    elif name in ("ipv6_src", "ipv6_dst"):
        if see == 6:
            n[name[5:]] = ip6(mix(num6(n[name[5:]]), v, m))
    elif name == "ipv6_label":
        if see == 6:
            n.label = mix(n.label, v, m)
    elif name in ("nw_tos", "ip_dscp", "nw_ecn", "nw_ttl"):
        where = f.outer if see == "outer" else n if see in (4, 6) else None
        if where:
            if name == "ip_dscp":
                v, m = v << 2, m << 2
            key = "ttl" if name == "nw_ttl" else "tos"
            where[key] = mix(where[key], v, m)
    elif name in ("tp_src", "tp_dst"):
        t = n.l4 if see in (4, 6) else None
        whole = not (n and (n.first or n.later))
        if t and not n.later and (t.kind in ("tcp", "udp") or t.kind == "sctp" and whole):
            key = "sport" if name == "tp_src" else "dport"
            t[key] = mix(t[key], v, m)
    elif name in ("icmp_type", "icmp_code"):
        t = n.l4 if see in (4, 6) else None
        if t and not n.later and t.kind in ("icmp", "icmp6", "nd"):
            t[name[5:]] = mix(t[name[5:]], v, m)
    elif name in ("nd_target", "nd_sll", "nd_tll"):
        t = n.l4 if see == 6 else None
        if t and t.kind == "nd" and t.type in (135, 136):
            if name == "nd_target":
                t.target = ip6(mix(num6(t.target), v, m))
            want = {"nd_sll": (135, 1), "nd_tll": (136, 2)}.get(name)
            if want and t.type == want[0]:
                t.opts = [
                    (k, mac_num(mix(num_mac(a), v, m)) if k == want[1] else a) for k, a in t.opts
                ]
    elif name.startswith("arp_"):
        if see == "arp":
            key = name[4:]
            if key == "op":
                n.op = mix(n.op, v, m)
            elif key in ("sha", "tha"):
                n[key] = mac_num(mix(num_mac(n[key]), v, m))
            else:
                n[key] = ip4(mix(num4(n[key]), v, m))
    else:
        raise ValueError(name)


def decrement(d):
    if d.ttl <= 1:
        raise Dropped("ttl-expired")
    d.ttl -= 1


def ttl_pair(f):
    """The two outermost headers with a TTL."""
    see = visible(f)
    if see == "mpls":
        if not f.mpls[0].bos:
            return (f.mpls[0], f.mpls[1]) if len(f.mpls) > 1 else None
        if len(f.mpls) == 1 and f.net and f.net.v in (4, 6):
            return f.mpls[0], f.net
    elif see in (4, 6) and f.net.l4.kind == "ip" and not f.net.later:
        return f.net, f.net.l4.inner
    return None


def push_vlan(f, tpid):
    if f.outer:
        raise NotImplementedError
    old = f.vlans[0] if f.vlans else O(pcp=0, vid=0)
    f.vlans.insert(0, O(tpid=tpid, pcp=old.pcp, dei=0, vid=old.vid))


def push_mpls(f, etype):
    if f.llc is not None:
        raise Dropped("no-such-header")
    see = visible(f)
    if see == "mpls":
        e = O(f.mpls[0], bos=0)
    else:
        ttl = f.net.ttl if see in (4, 6) else 0
        e = O(label=0, tc=0, bos=1, ttl=ttl)
    f.mpls.insert(0, e)
    f.etype = etype


OUTER = {
    "4": dict(v=4, src="192.0.2.1", dst="198.51.100.2"),
    "6": dict(v=6, src="2001:db8::1", dst="2001:db8:1::2"),
}


def encap(f, kind, v, **more):
    o = O(OUTER[v], kind=kind, ttl=61, tos=0x28, inner=f, **more)
    return O(dst="02:00:00:00:0b:0b", src="02:00:00:00:0a:0a", vlans=[], mpls=[], outer=o)


def decap(f, kind):
    o = f.outer
    if not o or o.kind != kind:
        if kind == "vxlan" and visible(f) in (4, 6) and f.net.l4.kind == "udp":
            part = f.net.first or f.net.later
            raise Dropped("fragment" if part else "malformed")
        raise Dropped("no-such-header")
    if o.raw is not None:
        return O(dst=f.dst, src=f.src, vlans=[], mpls=[], etype=o.proto, net=o.net)
    return o.inner


def change(f, text):
    """Carries out one change; gives the frame."""
    w = text.split()
    n = [int(x, 0) if x[0].isdigit() else x for x in w[1:]]
    if w[0] == "set":
        set_field(f, n[0], n[1], n[2])
    elif w[0] == "dec_ttl":
        see = visible(f)
        if see in (4, 6):
            decrement(f.net)
        elif see == "outer":
            decrement(f.outer)
    elif w[0] == "dec_mpls_ttl":
        if visible(f) == "mpls":
            decrement(f.mpls[0])
    elif w[0] in ("copy_ttl_in", "copy_ttl_out"):
        pair = ttl_pair(f)
        if pair:
            a, b = pair if w[0] == "copy_ttl_in" else pair[::-1]
            b.ttl = a.ttl
    elif w[0] == "push_vlan":
        push_vlan(f, n[0])
    elif w[0] == "pop_vlan":
        if f.vlans:
            f.vlans.pop(0)
    elif w[0] == "push_mpls":
        push_mpls(f, n[0])
    elif w[0] == "pop_mpls":
        if visible(f) == "mpls":
            f.mpls.pop(0)
            f.etype = n[0]
    elif w[0] == "push_pbb":
        old = f.pbb.isid if f.pbb and len(f.vlans) <= 2 else 0
        pcp = f.vlans[0].pcp if f.vlans else 0
        return O(dst=f.dst, src=f.src, vlans=[], mpls=[], etype=0x88E7,
                 pbb=O(pcp=pcp, isid=old, inner=f))
    elif w[0] == "pop_pbb":
        if f.pbb:
            inner = f.pbb.inner
            inner.vlans = f.vlans + inner.vlans
            return inner
    elif w[0] == "encap_vxlan":
        return encap(f, "vxlan", w[1], vni=n[1], port=n[2])
    elif w[0] == "encap_gre":
        key = None if w[2] == "-" else n[1]
        seq = None if w[3] == "-" else n[2]
        return encap(f, "gre", w[1], key=key, seq=seq, csum=n[3])
    elif w[0] in ("decap_vxlan", "decap_gre"):
        return decap(f, w[0][6:])
    else:
        raise ValueError(text)
    return f


# ---- what there is


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
            cases += [sequence(f, rng) for _ in range(12)]
        if size == "small":
            cases = rng.sample(cases, min(3, len(cases)))
        out.write("F %s %s\n" % (name, build(f).hex()))
        for c in cases:
            out.write("C %s\t%s\n" % (";".join(c), carry_out(f, c)))


if __name__ == "__main__":
    main()
