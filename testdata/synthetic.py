"""Writes the frames that no program on a plain Linux kernel sends: MPLS, GRE, SCTP, LLDP and header corner cases.

    synthetic.py OUT.pcap

The same bytes every time. Built by scapy, so that weir's parsers and emitters are judged by someone else's.
"""

import sys

from scapy.all import (
    ARP,
    GRE,
    ICMP,
    IP,
    SCTP,
    TCP,
    UDP,
    VXLAN,
    Dot1AD,
    Dot1Q,
    Ether,
    ICMPv6EchoRequest,
    IPOption_NOP,
    IPOption_Router_Alert,
    IPOption_RR,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    Raw,
    RouterAlert,
    SCTPChunkData,
    SCTPChunkInit,
    wrpcap,
)
from scapy.contrib.lldp import (
    LLDPDUChassisID,
    LLDPDUEndOfLLDPDU,
    LLDPDUPortID,
    LLDPDUSystemName,
    LLDPDUTimeToLive,
)
from scapy.contrib.mpls import MPLS

A, B = "02:00:00:00:05:01", "02:00:00:00:05:02"
ETH = Ether(src=A, dst=B)
IP4 = IP(src="10.5.0.1", dst="10.5.0.2")
IP6 = IPv6(src="fd00:5::1", dst="fd00:5::2")
PAYLOAD = Raw(bytes(range(48)))
UDP_DATA = UDP(sport=40000, dport=9) / PAYLOAD
TCP_DATA = TCP(sport=40000, dport=9, seq=1, ack=1, flags="PA", options=[("MSS", 1460), ("Timestamp", (1, 2))]) / PAYLOAD

FRAMES = [
    # MPLS, RFC 3032: one label, three labels, explicit null, and behind VLAN tags.
    ETH / MPLS(label=100, ttl=64, s=1) / IP4 / UDP_DATA,
    ETH / MPLS(label=100, cos=5, ttl=64, s=0) / MPLS(label=200, ttl=63, s=0) / MPLS(label=300, ttl=62, s=1) / IP4 / TCP_DATA,
    ETH / MPLS(label=2, ttl=64, s=1) / IP6 / UDP_DATA,
    ETH / Dot1Q(vlan=30, prio=6) / MPLS(label=1048575, ttl=1, s=1) / IP4 / UDP_DATA,
    # GRE: plain (RFC 2784), with checksum, with key and sequence number (RFC 2890), carrying IPv6 and Ethernet.
    ETH / IP4 / GRE() / IP(src="192.0.2.1", dst="192.0.2.2") / UDP_DATA,
    ETH / IP4 / GRE(chksum_present=1) / IP(src="192.0.2.1", dst="192.0.2.2") / UDP_DATA,
    ETH / IP4 / GRE(key_present=1, key=0x01020304, seqnum_present=1, sequence_number=7) / IP6 / UDP_DATA,
    ETH / IP4 / GRE(proto=0x6558, key_present=1, key=42) / Ether(src=B, dst=A) / IP4 / TCP_DATA,
    # VXLAN, RFC 7348, over IPv4 and over IPv6, the inner frame tagged.
    ETH / IP4 / UDP(sport=49152, dport=4789) / VXLAN(vni=0xABCDE, flags=8) / Ether(src=B, dst=A) / IP4 / UDP_DATA,
    ETH / IP6 / UDP(sport=49152, dport=4789) / VXLAN(vni=1, flags=8) / Ether(src=B, dst=A) / Dot1Q(vlan=7) / IP6 / TCP_DATA,
    # SCTP, RFC 9260: INIT and DATA, with the CRC32c.
    ETH / IP4 / SCTP(sport=3868, dport=3868) / SCTPChunkInit(init_tag=1, a_rwnd=65536, n_out_streams=2, n_in_streams=2, init_tsn=1),
    ETH / IP6 / SCTP(sport=3868, dport=3868, tag=1) / SCTPChunkData(tsn=1, stream_id=0, proto_id=46, beginning=1, ending=1, data=b"sixteen bytes ok"),
    # LLDP, IEEE 802.1AB.
    Ether(src=A, dst="01:80:c2:00:00:0e")
    / LLDPDUChassisID(subtype=4, id=bytes.fromhex("020000000501"))
    / LLDPDUPortID(subtype=5, id=b"port1")
    / LLDPDUTimeToLive(ttl=120)
    / LLDPDUSystemName(system_name=b"weir")
    / LLDPDUEndOfLLDPDU(),
    # Tags: priority tag, the largest VLAN id, 802.1ad outside 802.1Q, two 802.1Q.
    ETH / Dot1Q(vlan=0, prio=7) / IP4 / UDP_DATA,
    ETH / Dot1Q(vlan=4094, prio=1, id=1) / IP6 / TCP_DATA,
    ETH / Dot1AD(vlan=100, prio=3) / Dot1Q(vlan=200, prio=4) / IP4 / TCP_DATA,
    ETH / Dot1Q(vlan=100, type=0x8100) / Dot1Q(vlan=200) / IP6 / UDP_DATA,
    # ARP: announcement, probe, reply.
    Ether(src=A, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=A, psrc="10.5.0.1", pdst="10.5.0.1"),
    Ether(src=A, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=A, psrc="0.0.0.0", pdst="10.5.0.9"),
    ETH / ARP(op=2, hwsrc=A, psrc="10.5.0.1", hwdst=B, pdst="10.5.0.2"),
    # IPv4: options, a middle fragment, DSCP and ECN, UDP without a checksum, a protocol nobody knows.
    ETH / IP(src="10.5.0.1", dst="10.5.0.2", options=[IPOption_Router_Alert()]) / UDP_DATA,
    ETH / IP(src="10.5.0.1", dst="10.5.0.2", options=[IPOption_RR(length=39, routers=["0.0.0.0"] * 9), IPOption_NOP()]) / TCP_DATA,
    ETH / IP(src="10.5.0.1", dst="10.5.0.2", id=77, flags="MF", frag=185, proto=17) / PAYLOAD,
    ETH / IP(src="10.5.0.1", dst="10.5.0.2", tos=0xBB) / TCP_DATA,
    ETH / IP4 / UDP(sport=1, dport=2, chksum=0) / PAYLOAD,
    ETH / IP(src="10.5.0.1", dst="10.5.0.2", proto=253) / PAYLOAD,
    ETH / IP4 / ICMP(type=5, code=1, gw="10.5.0.254") / IP(src="10.5.0.1", dst="10.5.1.1") / UDP(sport=1, dport=2, chksum=0),
    # IPv6: every extension header in RFC 8200's order, a later fragment, traffic class and flow label, no next header.
    ETH
    / IP6
    / IPv6ExtHdrHopByHop(options=[RouterAlert(value=0)])
    / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    / IPv6ExtHdrRouting(addresses=["fd00:5::3"], segleft=0)
    / IPv6ExtHdrFragment(id=9, m=0, offset=0)
    / UDP_DATA,
    ETH / IPv6(src="fd00:5::1", dst="fd00:5::2", nh=44) / IPv6ExtHdrFragment(nh=6, id=10, m=1, offset=181) / PAYLOAD,
    ETH / IPv6(src="fd00:5::1", dst="fd00:5::2", tc=0xB9, fl=0xABCDE, hlim=1) / ICMPv6EchoRequest(id=1, seq=1, data=b"echo"),
    ETH / IPv6(src="fd00:5::1", dst="fd00:5::2", nh=59),
    # IEEE 802.3 with LLC (a spanning-tree group address), and a type nobody knows.
    Raw(bytes.fromhex("0180c2000000" + "020000000501" + "0026" + "424203") + bytes(35)),
    Ether(src=A, dst=B, type=0x88B5) / PAYLOAD,
]


def main() -> None:
    packets = []
    for number, frame in enumerate(FRAMES):
        packet = Ether(bytes(frame))
        packet.time = 1_700_000_000 + number / 1000
        packets.append(packet)
    wrpcap(sys.argv[1], packets, linktype=1)


if __name__ == "__main__":
    main()
