#!/usr/bin/python3
"""The processing stage's judge: what OpenFlow 1.3 says that an action does, on top of scapy.

Reads cases from the file named by the first argument, one a line, tab-separated:

    number  frame(hex)  rest(hex)  action[;action...]  outcome  result(hex)[;result...]  tunnel-id

`rest` is, for the first fragment of a datagram, the IP payload of the fragments behind it; its
transport checksum covers them. `outcome` is `ok` or the label of a drop reason; there is a result
for each action that was carried out. Each action is a
name and its arguments, separated by commas, numbers in hexadecimal. The expected frame is built
here: headers by scapy, every checksum from scratch over the whole packet, never from the old one.

Prints `BAD number ...` for each case where the result is another, `JUDGED count` at the end.
Knows nothing of weir but this format.
"""

import struct
import sys
import warnings

warnings.simplefilter("ignore")
from scapy.config import conf

conf.ipv6_enabled = True
from scapy.layers.inet import IP, UDP, in4_chksum
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    in6_chksum,
)
from scapy.layers.l2 import GRE, Ether
from scapy.layers.sctp import crc32c
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw
from scapy.utils import checksum

VLANS = (0x8100, 0x88A8, 0x9100)
EXTENSIONS = (0, 43, 44, 51, 60)


class Drop(Exception):
    """The frame is to be dropped, for this reason."""


def be16(b, at):
    return struct.unpack_from("!H", b, at)[0]


def p16(n):
    return struct.pack("!H", n)


def merge(old, value, mask):
    return old & ~mask | value & mask


class Link:
    """Ethernet: addresses, at most two tags that are looked at, type, what lies behind."""

    def __init__(self, b):
        self.dst, self.src, at = b[:6], b[6:12], 12
        self.tags = []
        while len(self.tags) < 2 and len(b) >= at + 6 and be16(b, at) in VLANS:
            self.tags.append((be16(b, at), be16(b, at + 2)))
            at += 4
        self.type, self.body = be16(b, at), b[at + 2 :]
        # 802.3: the SNAP header stays in front of the body.
        self.llc, self.kind = b"", self.type
        if self.type < 0x600:
            snap = self.body[:6] == bytes.fromhex("aaaa03000000") and len(self.body) >= 8
            if snap and be16(self.body, 6) >= 0x600:
                self.llc, self.kind, self.body = self.body[:8], be16(self.body, 6), self.body[8:]
            else:
                self.kind = 0x05FF

    def bytes(self):
        tags = b"".join(p16(t) + p16(c) for t, c in self.tags)
        return self.dst + self.src + tags + p16(self.type) + self.llc + self.body


class Internet:
    """An IP packet: scapy's header, extension headers as they are, the upper layer's bytes."""

    def __init__(self, body, rest):
        self.v6 = body[0] >> 4 == 6
        self.rest = rest
        self.first = self.later = False
        if self.v6:
            size = 40 + be16(body, 4)
            at, proto = 40, body[6]
            while proto in EXTENSIONS and not self.later:
                kind, proto = proto, body[at]
                if kind == 44:
                    field = be16(body, at + 2)
                    self.later, self.first = field >> 3 > 0, field >> 3 == 0 and field & 1 == 1
                    at += 8
                elif kind == 51:
                    at += (body[at + 1] + 2) * 4
                else:
                    at += (body[at + 1] + 1) * 8
            self.head = IPv6(body[:at])
        else:
            size, at = be16(body, 2), (body[0] & 15) * 4
            self.head = IP(body[:at])
            proto = body[9]
            self.later = be16(body, 6) & 0x1FFF > 0
            self.first = be16(body, 6) & 0x3FFF == 0x2000
        self.proto, self.upper, self.padding = proto, body[at:size], body[size:]

    def has_upper(self):
        need = {6: 20, 17: 8, 132: 12, 1: 8, 58: 4}.get(self.proto)
        return need is not None and not self.later and len(self.upper) >= need

    def final_v4(self):
        """The destination that checksums cover: RFC 791's source route may name another."""
        for o in self.head.options:
            if o.option in (3, 9) and o.pointer <= len(o):
                return o.routers[-1]
        return self.head.dst

    def pseudo_sum(self, data):
        if not self.v6:
            plain = IP(src=self.head.src, dst=self.final_v4())
            return in4_chksum(self.proto, plain, data)
        under = self.head
        layer = under
        while layer and not isinstance(layer, Raw):
            if isinstance(layer, (IPv6ExtHdrRouting, IPv6ExtHdrSegmentRouting)):
                under = layer
            layer = layer.payload
        return in6_chksum(self.proto, under, data)

    def seal(self):
        """Transport checksums, over the whole datagram."""
        if not self.has_upper():
            return
        at = {6: 16, 17: 6, 132: 8, 1: 2, 58: 2}[self.proto]
        if self.proto == 17 and be16(self.upper, 6) == 0:
            return
        if self.proto == 58 and not self.v6:
            return
        whole = self.upper + self.rest
        if self.proto == 132:
            blank = whole[:8] + bytes(4) + whole[12:]
            # scapy gives the CRC as a number that is big-endian on the wire.
            new = struct.pack("!I", crc32c(blank))
        else:
            blank = whole[:at] + bytes(2) + whole[at + 2 :]
            new = checksum(blank) if self.proto == 1 else self.pseudo_sum(blank)
            if self.proto == 17 and new == 0:
                new = 0xFFFF
            new = p16(new)
        self.upper = self.upper[:at] + new + self.upper[at + len(new) :]

    def bytes(self):
        self.seal()
        if not self.v6:
            self.head.chksum = None
        return bytes(self.head) + self.upper + self.padding


def is_arp(link):
    return link.kind in (0x806, 0x8035) and link.body[:6] == bytes.fromhex("000108000604") and len(link.body) >= 28


def is_mpls(link):
    return link.kind in (0x8847, 0x8848) and len(link.body) >= 4


def ip_of(link, rest):
    """The IP packet, if that is what the type says and its header is one."""
    b = link.body
    if link.kind == 0x800 and len(b) >= 20 and b[0] >> 4 == 4:
        header = (b[0] & 15) * 4
        if 20 <= header <= min(be16(b, 2), len(b)):
            return Internet(b, rest)
    if link.kind == 0x86DD and len(b) >= 40 and b[0] >> 4 == 6:
        return Internet(b, rest)
    return None


def ip_text(ip, value, old, mask):
    from scapy.utils6 import inet_ntop, inet_pton
    import socket

    family = socket.AF_INET6 if ip.v6 else socket.AF_INET
    raw = inet_pton(family, old)
    n = merge(int.from_bytes(raw, "big"), value, mask)
    return inet_ntop(family, n.to_bytes(len(raw), "big"))


def patch(b, at, size, value, mask):
    n = merge(int.from_bytes(b[at : at + size], "big"), value, mask)
    return b[:at] + n.to_bytes(size, "big") + b[at + size :]


ARP = {"arp_op": (6, 2), "arp_sha": (8, 6), "arp_spa": (14, 4), "arp_tha": (18, 6), "arp_tpa": (24, 4)}
MPLS = {"mpls_label": 12, "mpls_tc": 9, "mpls_ttl": 0}


def set_ip(ip, field, v, m):
    """Whether the field is there; then it is set."""
    h = ip.head
    if field in ("nw_src", "nw_dst", "ipv6_src", "ipv6_dst"):
        if field.startswith("ipv6") != ip.v6:
            return False
        which = field[-3:]
        setattr(h, which, ip_text(ip, v, getattr(h, which), m))
    elif field in ("nw_tos", "ip_dscp", "nw_ecn"):
        shift = 2 if field == "ip_dscp" else 0
        name = "tc" if ip.v6 else "tos"
        setattr(h, name, merge(getattr(h, name), v << shift, m << shift))
    elif field == "nw_ttl":
        name = "hlim" if ip.v6 else "ttl"
        setattr(h, name, merge(getattr(h, name), v, m))
    elif field == "ipv6_label":
        if not ip.v6:
            return False
        h.fl = merge(h.fl, v, m)
    elif field in ("tp_src", "tp_dst"):
        if not ip.has_upper() or ip.proto not in (6, 17, 132):
            return False
        # SCTP's checksum takes the whole packet: of a part it can't be made.
        if ip.proto == 132 and ip.first:
            return False
        ip.upper = patch(ip.upper, 0 if field == "tp_src" else 2, 2, v, m)
    elif field in ("icmp_type", "icmp_code"):
        if not ip.has_upper() or ip.proto != (58 if ip.v6 else 1):
            return False
        ip.upper = patch(ip.upper, 0 if field == "icmp_type" else 1, 1, v, m & 0xFF)
    elif field in ("nd_target", "nd_sll", "nd_tll"):
        kinds = {"nd_target": (135, 136), "nd_sll": (135,), "nd_tll": (136,)}[field]
        if not (ip.v6 and ip.proto == 58 and ip.has_upper()):
            return False
        if ip.upper[0] not in kinds or len(ip.upper) < 24:
            return False
        if field == "nd_target":
            ip.upper = patch(ip.upper, 8, 16, v, m)
            return True
        at, want = 24, 1 if field == "nd_sll" else 2
        while at + 8 <= len(ip.upper) and ip.upper[at + 1] > 0:
            if ip.upper[at] == want and ip.upper[at + 1] == 1:
                ip.upper = patch(ip.upper, at + 2, 6, v, m)
            at += ip.upper[at + 1] * 8
    else:
        return False
    return True


def set_field(link, rest, field, v, m):
    if field == "dl_dst":
        link.dst = patch(link.dst, 0, 6, v, m)
    elif field == "dl_src":
        link.src = patch(link.src, 0, 6, v, m)
    elif field in ("vlan_tci", "vlan_vid", "dl_vlan_pcp", "inner_vlan_tci"):
        n = 1 if field == "inner_vlan_tci" else 0
        if field == "dl_vlan_pcp":
            v, m = v << 13, m << 13
        if len(link.tags) > n:
            # The present bit of OXM stands where the wire has DEI, which is nobody's to set.
            tpid, tci = link.tags[n]
            link.tags[n] = (tpid, merge(tci, v, m & ~0x1000))
    elif field in ARP:
        if is_arp(link):
            link.body = patch(link.body, *ARP[field], v, m)
    elif field in MPLS:
        if is_mpls(link):
            link.body = patch(link.body, 0, 4, v << MPLS[field], m << MPLS[field])
    elif field == "pbb_isid":
        if link.kind == 0x88E7 and len(link.body) >= 4:
            link.body = patch(link.body, 1, 3, v, m)
    else:
        ip = ip_of(link, rest)
        if ip and set_ip(ip, field, v, m):
            link.body = ip.bytes()


def dec_ttl(link, rest):
    ip = ip_of(link, rest)
    if not ip:
        return
    name = "hlim" if ip.v6 else "ttl"
    ttl = getattr(ip.head, name)
    if ttl <= 1:
        raise Drop("ttl-expired")
    setattr(ip.head, name, ttl - 1)
    link.body = ip.bytes()


class Inner:
    """The header of an IP packet inside something else; what lies behind it need not be whole."""

    def __init__(self, b):
        self.v6 = b[0] >> 4 == 6
        self.head = IPv6(b[:40]) if self.v6 else IP(b[: (b[0] & 15) * 4])


def inner_ip(b):
    """IP inside something that does not say which."""
    if len(b) >= 20 and b[0] >> 4 == 4 and 20 <= (b[0] & 15) * 4 <= len(b):
        return Inner(b)
    if len(b) >= 40 and b[0] >> 4 == 6:
        return Inner(b)
    return None


def get_ttl(ip):
    return ip.head.hlim if ip.v6 else ip.head.ttl


def with_ttl(b, ttl):
    """The packet with another TTL; nothing behind its header changes."""
    ip = inner_ip(b)
    size = 40 if ip.v6 else (b[0] & 15) * 4
    head = (IPv6 if ip.v6 else IP)(b[:size])
    if ip.v6:
        head.hlim = ttl
    else:
        head.ttl, head.chksum = ttl, None
    return bytes(head) + b[size:]


def copy_ttl(link, rest, inwards):
    if is_mpls(link):
        entry, behind = link.body[:4], link.body[4:]
        if not entry[2] & 1:
            if len(behind) < 4:
                return
            outer, inner = entry[3], behind[3]
            if inwards:
                behind = behind[:3] + bytes([outer]) + behind[4:]
            else:
                entry = entry[:3] + bytes([inner])
        else:
            ip = inner_ip(behind)
            if not ip:
                return
            if inwards:
                behind = with_ttl(behind, entry[3])
            else:
                entry = entry[:3] + bytes([get_ttl(ip)])
        link.body = entry + behind
        return
    ip = ip_of(link, rest)
    if not ip or ip.later or ip.proto not in (4, 41):
        return
    inner = inner_ip(ip.upper)
    if not inner or inner.v6 != (ip.proto == 41):
        return
    outer_ttl, inner_ttl = get_ttl(ip), get_ttl(inner)
    if inwards:
        at = link.body.index(ip.upper)
        link.body = link.body[:at] + with_ttl(ip.upper, outer_ttl) + link.body[at + len(ip.upper) :]
    else:
        link.body = with_ttl(link.body, inner_ttl)


def push_mpls(link, rest, ethertype):
    if link.type < 0x600:
        raise Drop("no-such-header")
    ip = ip_of(link, rest)
    if is_mpls(link):
        entry = bytes([link.body[0], link.body[1], link.body[2] & 0xFE, link.body[3]])
    else:
        entry = bytes([0, 0, 1, get_ttl(ip) if ip else 0])
    link.type = link.kind = ethertype
    link.body = entry + link.body


def pop_mpls(link, ethertype):
    if is_mpls(link):
        link.type = link.kind = ethertype
        link.body = link.body[4:]


def dec_mpls_ttl(link):
    if is_mpls(link):
        if link.body[3] <= 1:
            raise Drop("ttl-expired")
        link.body = link.body[:3] + bytes([link.body[3] - 1]) + link.body[4:]


def push_pbb(link):
    whole = link.bytes()
    priority = link.tags[0][1] >> 13 if link.tags else 0
    service = link.body[1:4] if link.kind == 0x88E7 and len(link.body) >= 4 else bytes(3)
    return whole[:12] + bytes.fromhex("88e7") + bytes([priority << 5]) + service + whole


def pop_pbb(link):
    if link.kind != 0x88E7 or len(link.body) < 4:
        return link.bytes()
    customer = link.body[4:]
    if len(customer) < 14:
        raise Drop("malformed")
    tags = b"".join(p16(t) + p16(c) for t, c in link.tags)
    return customer[:12] + tags + customer[12:]


def outer(args):
    """Ethernet and IP of a tunnel, by scapy."""
    family, src, dst, eth_src, eth_dst, ttl, tos = args[:7]
    eth = Ether(src=eth_src, dst=eth_dst)
    if family == "4":
        return eth / IP(src=src, dst=dst, ttl=int(ttl, 16), tos=int(tos, 16), id=0, flags="DF")
    return eth / IPv6(src=src, dst=dst, hlim=int(ttl, 16), tc=int(tos, 16))


def encap_vxlan(frame, args, result):
    """The UDP source port is the sender's choice, from the dynamic range (RFC 7348, section 5)."""
    at = 34 if args[0] == "4" else 54
    port = be16(result, at) if len(result) > at + 2 else 0
    if port < 49152:
        return b"source port outside the dynamic range"
    udp = UDP(sport=port, dport=int(args[8], 16))
    if args[0] == "4":
        udp.chksum = 0
    return bytes(outer(args) / udp / VXLAN(flags=8, vni=int(args[7], 16)) / Raw(frame))


def encap_gre(frame, args):
    key, sequence, check = args[7:10]
    gre = GRE(proto=0x6558)
    if check == "1":
        gre.chksum_present = 1
    if key != "-":
        gre.key_present, gre.key = 1, int(key, 16)
    if sequence != "-":
        gre.seqnum_present, gre.seqence_number = 1, int(sequence, 16)
    head = outer(args)
    head[IP if args[0] == "4" else IPv6].setfieldval("proto" if args[0] == "4" else "nh", 47)
    return bytes(head / gre / Raw(frame))


def tunnel(link, rest, proto):
    ip = ip_of(link, rest)
    if not ip or ip.proto != proto:
        raise Drop("no-such-header")
    if ip.first or ip.later:
        raise Drop("fragment")
    return ip


def decap_vxlan(link, rest):
    ip = tunnel(link, rest, 17)
    if len(ip.upper) < 16:
        raise Drop("malformed")
    size = be16(ip.upper, 4)
    if size > len(ip.upper) or size < 30 or not ip.upper[8] & 8:
        raise Drop("malformed")
    return ip.upper[16:size], int.from_bytes(ip.upper[12:15], "big")


def decap_gre(link, rest):
    ip = tunnel(link, rest, 47)
    b = ip.upper
    if len(b) < 4 or be16(b, 0) & 0x4FFF:
        raise Drop("malformed")
    gre = GRE(b)
    size = 4 + 4 * (gre.chksum_present + gre.key_present + gre.seqnum_present)
    if gre.chksum_present and checksum(b[:4] + bytes(2) + b[6:]) != gre.chksum:
        raise Drop("malformed")
    key = gre.key if gre.key_present else 0
    if gre.proto == 0x6558:
        if len(b) < size + 14:
            raise Drop("malformed")
        return b[size:], key
    if gre.proto < 0x600 or link.llc:
        raise Drop("malformed")
    link.type, link.body = gre.proto, b[size:]
    return link.bytes(), key


def act(frame, rest, text, result, tun):
    """One action: the new frame and tunnel id."""
    name, *args = text.split(",")
    link = Link(frame)
    if name == "set":
        v, m = int(args[1], 16), int(args[2], 16)
        if args[0] == "tun_id":
            tun = merge(tun, v, m)
        elif args[0] != "metadata":
            set_field(link, rest, args[0], v, m)
    elif name == "dec_ttl":
        dec_ttl(link, rest)
    elif name in ("copy_ttl_in", "copy_ttl_out"):
        copy_ttl(link, rest, name == "copy_ttl_in")
    elif name == "push_vlan":
        # Id and priority are copied, DEI is not (OpenFlow 1.3, table 6).
        tci = link.tags[0][1] & 0xEFFF if link.tags else 0
        return frame[:12] + p16(int(args[0], 16)) + p16(tci) + frame[12:], tun
    elif name == "pop_vlan":
        return (frame[:12] + frame[16:] if link.tags else frame), tun
    elif name == "push_mpls":
        push_mpls(link, rest, int(args[0], 16))
    elif name == "pop_mpls":
        pop_mpls(link, int(args[0], 16))
    elif name == "dec_mpls_ttl":
        dec_mpls_ttl(link)
    elif name == "push_pbb":
        return push_pbb(link), tun
    elif name == "pop_pbb":
        return pop_pbb(link), tun
    elif name == "encap_vxlan":
        return encap_vxlan(frame, args, result), tun
    elif name == "encap_gre":
        return encap_gre(frame, args), tun
    elif name == "decap_vxlan":
        return decap_vxlan(link, rest)
    elif name == "decap_gre":
        return decap_gre(link, rest)
    else:
        raise ValueError(text)
    return link.bytes(), tun


def judge(number, frame, rest, actions, outcome, results, tunnel_id):
    """What is wrong with a case, or nothing."""
    b, rest, tun = bytes.fromhex(frame), bytes.fromhex(rest), 0
    results = [bytes.fromhex(r) for r in results.split(";")] if results else []
    for n, action in enumerate(actions.split(";")):
        result = results[n] if n < len(results) else b""
        try:
            b, tun = act(b, rest, action, result, tun)
        except Drop as why:
            if outcome != str(why) or n != len(results):
                return f"step {n}: expected a drop: {why}"
            return None
        if n >= len(results):
            return f"step {n}: expected no drop but {b.hex()}"
        if b != result:
            return f"step {n}: expected {b.hex()}"
    if outcome != "ok":
        return "expected no drop"
    if tun != int(tunnel_id, 16):
        return f"expected tunnel id {tun:#x}"
    return None


def main():
    judged = 0
    for line in open(sys.argv[1]):
        number, *case = line.rstrip("\n").split("\t")
        wrong = judge(number, *case)
        judged += 1
        if wrong:
            print("BAD", number, wrong)
    print("JUDGED", judged)


main()
