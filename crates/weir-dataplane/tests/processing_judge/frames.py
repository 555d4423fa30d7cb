"""Descriptions of frames, and their bytes by scapy: lengths and checksums always anew."""
import socket
import struct

from scapy.config import conf

conf.ipv6_enabled = True
from scapy.contrib.mpls import MPLS  # noqa: E402
from scapy.layers.inet import IP, TCP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6, in6_chksum  # noqa: E402
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.layers.sctp import SCTP  # noqa: E402
from scapy.layers.vxlan import VXLAN  # noqa: E402
from scapy.packet import Raw  # noqa: E402
from scapy.utils import checksum, mac2str, str2mac  # noqa: E402

# The bit's name changed between scapy's versions.
DEI = "dei" if any(d.name == "dei" for d in Dot1Q.fields_desc) else "id"


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
