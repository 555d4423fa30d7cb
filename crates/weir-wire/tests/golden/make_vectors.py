#!/usr/bin/env python3
"""Makes vectors.txt: frames by scapy, each with what it means.

Run from any directory: python3 make_vectors.py > vectors.txt. Needs scapy (2.5.0 was used).
The bytes, lengths and checksums are scapy's; the meanings are written here by hand, so that
neither side of the comparison comes from weir.
"""

import scapy
from scapy.contrib.lldp import (
    LLDPDU, LLDPDUChassisID, LLDPDUEndOfLLDPDU, LLDPDUGenericOrganisationSpecific, LLDPDUPortID,
    LLDPDUSystemName, LLDPDUTimeToLive,
)
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, IPOption_RR, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6MLReport2, ICMPv6MLDMultAddrRec,
    ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_Redirect, ICMPv6ND_RS, ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptRedirectedHdr, ICMPv6NDOptSrcLLAddr,
    ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrSegmentRouting, PadN, RouterAlert,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP, SCTPChunkData
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
V4 = dict(src="192.0.2.1", dst="198.51.100.2")
V6 = dict(src="2001:db8::1", dst="2001:db8::2")
LOCAL = dict(src="fe80::1", dst="fe80::2")


def eth(**fields):
    return Ether(src=A, dst=B, **fields)


def v4(**fields):
    return eth() / IP(**V4, **fields)


def v6(**fields):
    return eth() / IPv6(**V6, **fields)


def nd():
    return eth() / IPv6(**LOCAL, hlim=255)


QUOTED = IP(src="10.0.0.1", dst="10.0.0.2", ttl=1) / UDP(sport=1000, dport=2000) / b"quoted!!"
QUOTED6 = IPv6(src="2001:db8::9", dst="2001:db8::8") / UDP(sport=1000, dport=2000) / b"quoted!!"


def vector(name, packet, **meaning):
    print(f"[{name}]")
    for key, value in meaning.items():
        print(f"{key.replace('__', '.')} = {value}")
    text = bytes(packet).hex()
    for at in range(0, len(text), 64):
        print("hex", text[at:at + 64])
    print()


print("# Frames made by make_vectors.py with scapy", scapy.__version__ + "; do not edit by hand.")
print("# Each: a name, what the frame means field by field, its bytes from the destination MAC on.")
print()

# Link layer
vector("arp_request",
       Ether(src=A, dst="ff:ff:ff:ff:ff:ff")
       / ARP(op=1, hwsrc=A, psrc="192.0.2.1", hwdst="00:00:00:00:00:00", pdst="192.0.2.9"),
       ethernet__src=A, ethernet__dst="ff:ff:ff:ff:ff:ff", ethernet__type="Arp",
       arp__operation="Request", arp__sender_mac=A, arp__sender_ip="192.0.2.1",
       arp__target_mac="00:00:00:00:00:00", arp__target_ip="192.0.2.9")
vector("arp_reply",
       eth() / ARP(op=2, hwsrc=A, psrc="192.0.2.9", hwdst=B, pdst="192.0.2.1") / Raw(b"\0" * 18),
       arp__operation="Reply", arp__target_mac=B, arp__target_ip="192.0.2.1", padding=18)
vector("vlan",
       eth() / Dot1Q(vlan=100, prio=5, id=1) / IP(**V4) / UDP(sport=7, dport=9) / b"x",
       vlan__tpid="Vlan", vlan__vid=100, vlan__pcp=5, vlan__dei="true", ethernet__type="Ipv4",
       udp__dst_port=9)
vector("qinq_88a8",
       eth() / Dot1AD(vlan=4094, prio=3) / Dot1Q(vlan=1) / IPv6(**V6) / UDP(sport=7, dport=9),
       vlan__tpid="ServiceVlan", vlan__vid=4094, vlan__pcp=3, vlan__dei="false",
       **{"vlan#2.tpid": "Vlan", "vlan#2.vid": 1}, ethernet__type="Ipv6", udp__src_port=7)
vector("qinq_9100",
       eth(type=0x9100) / Dot1Q(vlan=20, type=0x8100) / Dot1Q(vlan=30) / IP(**V4) / UDP(sport=7, dport=9),
       vlan__tpid="OldServiceVlan", vlan__vid=20, **{"vlan#2.vid": 30}, ethernet__type="Ipv4")
vector("mpls_two_labels",
       eth(type=0x8847) / MPLS(label=1048575, cos=7, s=0, ttl=63) / MPLS(label=16, cos=1, s=1, ttl=255)
       / IP(**V4) / UDP(sport=1, dport=2) / b"in a tunnel",
       ethernet__type="Mpls", mpls__label=1048575, mpls__traffic_class=7, mpls__bottom="false",
       mpls__ttl=63, **{"mpls#2.label": 16, "mpls#2.bottom": "true", "mpls#2.ttl": 255},
       ipv4__src="192.0.2.1")
vector("lldp",
       Ether(src=A, dst="01:80:c2:00:00:0e", type=0x88CC)
       / LLDPDUChassisID(subtype=4, id=A) / LLDPDUPortID(subtype=5, id=b"eth7")
       / LLDPDUTimeToLive(ttl=120) / LLDPDUSystemName(system_name=b"weir")
       / LLDPDUGenericOrganisationSpecific(org_code=0x0080C2, subtype=1, data=b"\x00\x64")
       / LLDPDUEndOfLLDPDU(),
       ethernet__type="Lldp", lldp__chassis="4:02000000000a", lldp__port="5:65746837", lldp__ttl=120,
       lldp__name="weir", lldp__organization="0080c2/1:0064")

# IPv4
vector("udp_v4", v4(tos=0xB9, id=0x1234, flags="DF", ttl=17) / UDP(sport=53, dport=40000) / b"odd",
       ipv4__src="192.0.2.1", ipv4__dst="198.51.100.2", ipv4__dscp=46, ipv4__ecn=1,
       ipv4__ident=0x1234, ipv4__dont_fragment="true", ipv4__more_fragments="false",
       ipv4__fragment_offset=0, ipv4__ttl=17, ipv4__protocol="Udp", ipv4__payload_len=11,
       udp__src_port=53, udp__dst_port=40000, udp__payload_len=3, udp__checksum="Good")
vector("udp_v4_no_checksum", v4() / UDP(sport=1, dport=2, chksum=0) / b"data",
       udp__checksum="Absent")
# The two data bytes are those that make the sum come out as all ones: sent as ffff, not as 0.
base = int.from_bytes(bytes(v4() / UDP(sport=1, dport=2) / b"\0\0")[40:42], "big")
vector("udp_v4_checksum_of_zero", v4() / UDP(sport=1, dport=2) / base.to_bytes(2, "big"),
       udp__checksum="Good", udp__checksum_field=0xFFFF)
vector("ipv4_options",
       v4(options=[IPOption_Router_Alert(), IPOption_RR(pointer=8, routers=["10.9.8.7", "0.0.0.0"])])
       / UDP(sport=1, dport=2) / b"z",
       ipv4__options="RouterAlert(0) RecordRoute(8,0a09080700000000) End", ipv4__protocol="Udp")
vector("ipv4_first_fragment", v4(flags="MF", id=7) / UDP(sport=1, dport=2, len=24, chksum=0x1234) / b"12345678",
       ipv4__more_fragments="true", ipv4__fragment_offset=0, ipv4__ident=7, fragment="first")
vector("ipv4_last_fragment", v4(frag=2, id=7, proto=17) / Raw(b"the rest"),
       ipv4__more_fragments="false", ipv4__fragment_offset=2, fragment="later")
vector("tcp_syn",
       v4() / TCP(sport=40001, dport=443, seq=0xDEADBEEF, flags="S", window=64240, options=[
           ("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]),
       tcp__src_port=40001, tcp__dst_port=443, tcp__seq=0xDEADBEEF, tcp__ack=0, tcp__flags="0x002",
       tcp__window=64240, tcp__urgent=0,
       tcp__options="MaxSegmentSize(1460) SackPermitted Timestamps(1,0) Nop WindowScale(7)",
       tcp__checksum="Good")
vector("tcp_sack",
       v4() / TCP(sport=1, dport=2, seq=1, ack=2, flags="APUECN", urgptr=3, options=[
           ("NOP", None), ("NOP", None), ("SAck", (10, 20, 30, 40))]) / b"odd length here",
       tcp__flags="0x1f8", tcp__ack=2, tcp__urgent=3, tcp__options="Nop Nop Sack(10-20,30-40)")
vector("sctp", v4(proto=132) / SCTP(sport=36412, dport=36412, tag=0xCAFEF00D)
       / SCTPChunkData(tsn=1, stream_id=2, data=b"chunk"),
       sctp__src_port=36412, sctp__dst_port=36412, sctp__tag=0xCAFEF00D, sctp__checksum="Good")

# ICMP
vector("icmp_echo_request", v4() / ICMP(type=8, id=0x77, seq=3) / b"ping!",
       icmp__type="EchoRequest", icmp__ident=0x77, icmp__seq=3, icmp__data="70696e6721",
       icmp__checksum="Good")
vector("icmp_echo_reply", v4() / ICMP(type=0, id=0x77, seq=3) / b"ping!", icmp__type="EchoReply")
vector("icmp_fragmentation_needed", v4() / ICMP(type=3, code=4, nexthopmtu=1400) / QUOTED,
       icmp__type="DestinationUnreachable", icmp__code=4, icmp__mtu=1400)
vector("icmp_redirect", v4() / ICMP(type=5, code=1, gw="192.0.2.254") / QUOTED,
       icmp__type="Redirect", icmp__code=1, icmp__gateway="192.0.2.254")
vector("icmp_time_exceeded", v4() / ICMP(type=11, code=0) / QUOTED,
       icmp__type="TimeExceeded", icmp__code=0)
vector("icmp_parameter_problem", v4() / ICMP(type=12, code=0, ptr=9) / QUOTED,
       icmp__type="ParameterProblem", icmp__pointer=9)
vector("icmp_timestamp", v4() / ICMP(type=13, id=1, seq=2, ts_ori=5, ts_rx=6, ts_tx=7),
       icmp__type="TimestampRequest")

# IPv6
vector("udp_v6", v6(tc=0xB8, fl=0xABCDE, hlim=3) / UDP(sport=53, dport=5353) / b"six",
       ipv6__src="2001:db8::1", ipv6__dst="2001:db8::2", ipv6__traffic_class=0xB8,
       ipv6__flow_label=0xABCDE, ipv6__hop_limit=3, ipv6__next_header="Udp", ipv6__payload_len=11,
       ipv6__flags="0x000", udp__checksum="Good")
vector("tcp_v6", v6() / TCP(sport=1, dport=2, flags="FA") / b"bye", tcp__flags="0x011",
       tcp__checksum="Good")
vector("ipv6_chain",
       v6() / IPv6ExtHdrHopByHop(options=[RouterAlert(value=0)])
       / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
       / IPv6ExtHdrRouting(type=2, segleft=0, addresses=["2001:db8::3"])
       / IPv6ExtHdrFragment(offset=0, m=0, id=0x01020304) / IPv6ExtHdrDestOpt(options=[])
       / UDP(sport=1, dport=2) / b"deep",
       ipv6__next_header="HopByHop", ipv6__upper="Udp", ipv6__flags="0x078",
       ipv6__fragment="0/false/16909060", udp__checksum="Good")
vector("ipv6_out_of_order",
       v6() / IPv6ExtHdrFragment(offset=0, m=1, id=1) / IPv6ExtHdrRouting(type=2, segleft=0, addresses=["2001:db8::3"])
       / UDP(sport=1, dport=2, len=4000, chksum=1) / b"deep",
       ipv6__flags="0x130", ipv6__fragment="0/true/1", fragment="first")
vector("ipv6_later_fragment", v6() / IPv6ExtHdrFragment(nh=6, offset=185, m=1, id=9) / Raw(b"12345678"),
       ipv6__flags="0x010", ipv6__upper="Tcp", ipv6__fragment="185/true/9", fragment="later")
vector("ipv6_source_route",
       v6() / IPv6ExtHdrRouting(type=0, segleft=2, addresses=["2001:db8::3", "2001:db8::4"])
       / UDP(sport=1, dport=2) / b"to 4",
       ipv6__flags="0x020", ipv6__final_destination="2001:db8::4", udp__checksum="Good")
vector("ipv6_segment_routing",
       v6() / IPv6ExtHdrSegmentRouting(segleft=1, lastentry=1, addresses=["2001:db8::9", "2001:db8::2"])
       / UDP(sport=1, dport=2) / b"to 9",
       ipv6__flags="0x020", ipv6__final_destination="2001:db8::9", udp__checksum="Good")
vector("ipv6_ah", v6() / AH(nh=17, payloadlen=4, spi=5, seq=6, icv=b"\1" * 12) / UDP(sport=1, dport=2) / b"signed",
       ipv6__next_header="Ah", ipv6__flags="0x004", ipv6__upper="Udp")
vector("ipv6_esp", v6() / ESP(spi=5, seq=6, data=b"\xee" * 24),
       ipv6__next_header="Esp", ipv6__flags="0x002", ipv6__upper="Esp")
vector("ipv6_no_next", v6(nh=59), ipv6__flags="0x001", ipv6__upper="NoNext")

# ICMPv6
vector("icmpv6_echo_request", v6() / ICMPv6EchoRequest(id=1, seq=2, data=b"p"),
       icmpv6__type="EchoRequest", icmpv6__ident=1, icmpv6__seq=2, icmpv6__checksum="Good")
vector("icmpv6_echo_reply", v6() / ICMPv6EchoReply(id=1, seq=2, data=b"p"), icmpv6__type="EchoReply")
vector("icmpv6_unreachable", v6() / ICMPv6DestUnreach(code=4) / QUOTED6,
       icmpv6__type="DestinationUnreachable", icmpv6__code=4)
vector("icmpv6_too_big", v6() / ICMPv6PacketTooBig(mtu=1280) / QUOTED6,
       icmpv6__type="PacketTooBig", icmpv6__mtu=1280)
vector("icmpv6_time_exceeded", v6() / ICMPv6TimeExceeded(code=0) / QUOTED6,
       icmpv6__type="TimeExceeded")
vector("icmpv6_parameter_problem", v6() / ICMPv6ParamProblem(code=1, ptr=40) / QUOTED6,
       icmpv6__type="ParameterProblem", icmpv6__pointer=40)
vector("nd_router_solicit", nd() / ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(lladdr=A),
       icmpv6__type="RouterSolicit", ndisc__options=f"SourceLinkAddr({A})")
vector("nd_router_advert",
       nd() / ICMPv6ND_RA(chlim=64, M=1, O=0, prf=0, routerlifetime=1800, reachabletime=30000, retranstimer=1000)
       / ICMPv6NDOptMTU(mtu=1500)
       / ICMPv6NDOptPrefixInfo(prefixlen=64, L=1, A=1, validlifetime=86400, preferredlifetime=14400,
                               prefix="2001:db8:1::"),
       icmpv6__type="RouterAdvert", ndisc__hop_limit=64, ndisc__flags="0x80", ndisc__lifetime_s=1800,
       ndisc__reachable_ms=30000, ndisc__retransmit_ms=1000,
       ndisc__options="Mtu(1500) Prefix(2001:db8:1::/64,0xc0,86400,14400)")
vector("nd_neighbor_solicit", nd() / ICMPv6ND_NS(tgt="fe80::2") / ICMPv6NDOptSrcLLAddr(lladdr=A),
       icmpv6__type="NeighborSolicit", ndisc__target="fe80::2",
       ndisc__options=f"SourceLinkAddr({A})", icmpv6__checksum="Good")
vector("nd_neighbor_advert", nd() / ICMPv6ND_NA(tgt="fe80::1", R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=B),
       icmpv6__type="NeighborAdvert", ndisc__target="fe80::1", ndisc__flags="0xe0",
       ndisc__options=f"TargetLinkAddr({B})")
vector("nd_redirect",
       nd() / ICMPv6ND_Redirect(tgt="fe80::3", dst="2001:db8::9") / ICMPv6NDOptRedirectedHdr(pkt=QUOTED6),
       icmpv6__type="Redirect", ndisc__target="fe80::3", ndisc__destination="2001:db8::9",
       ndisc__options="Redirected(56)")
vector("mld2_report",
       nd() / ICMPv6MLReport2(records=[ICMPv6MLDMultAddrRec(rtype=4, dst="ff02::1:ff00:1")]),
       icmpv6__type="Mldv2Report")

# Tunnels
INNER = Ether(src=B, dst=A) / IP(src="10.1.0.1", dst="10.1.0.2") / UDP(sport=5, dport=6) / b"inner"
vector("gre_plain", v4() / GRE() / IP(src="10.1.0.1", dst="10.1.0.2") / UDP(sport=5, dport=6) / b"inner",
       gre__protocol="Ipv4", gre__checksum="Absent", gre__key="None", gre__sequence="None",
       **{"ipv4#2.src": "10.1.0.1"}, udp__src_port=5)
vector("gre_checksum_key_sequence",
       v4() / GRE(proto=0x6558, chksum_present=1, key_present=1, seqnum_present=1, key=0xAABBCCDD,
                  sequence_number=77) / INNER,
       gre__protocol="TransparentEthernet", gre__checksum="Good", gre__key="Some(2864434397)",
       gre__sequence="Some(77)", **{"ethernet#2.src": B}, udp__dst_port=6)
vector("gre_sequence", v6() / GRE(proto=0x86DD, seqnum_present=1, sequence_number=1) / IPv6(**V6) / UDP(sport=5, dport=6),
       gre__protocol="Ipv6", gre__sequence="Some(1)", gre__key="None")
vector("vxlan", v4() / UDP(sport=50000, dport=4789) / VXLAN(vni=0xABCDEF, flags=8) / INNER,
       vxlan__vni=0xABCDEF, udp__checksum="Good", **{"ethernet#2.dst": A, "udp#2.src_port": 5})
vector("vxlan_v6_no_checksum", v6() / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=1, flags=8) / INNER,
       vxlan__vni=1, udp__checksum="Absent")
