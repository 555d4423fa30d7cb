"""Matches on each field of OpenFlow 1.3 for golden_of13.py."""

TCP = dict(eth_type=0x0800, ip_proto=6)
ICMP6 = dict(eth_type=0x86DD, ip_proto=58)

# Each of the forty fields: what os-ken is told, and what must be decoded.
FIELDS = {
    "in_port": (dict(in_port=7), "field: InPort, value: 7, mask: 4294967295"),
    "in_phy_port": (dict(in_port=7, in_phy_port=3), "field: InPhyPort, value: 3"),
    "metadata": (dict(metadata=(0x1200, 0xFF00)), "field: Metadata, value: 4608, mask: 65280"),
    "eth_dst": (dict(eth_dst="01:02:03:04:05:06"), "field: EthDst, value: 1108152157446"),
    "eth_src": (
        dict(eth_src=("0a:00:00:00:00:00", "ff:00:00:00:00:00")),
        "field: EthSrc, value: 10995116277760, mask: 280375465082880",
    ),
    "eth_type": (dict(eth_type=0x0842), "field: EthType, value: 2114, mask: 65535"),
    "vlan_vid": (dict(vlan_vid=0x1005), "field: VlanVid, value: 4101, mask: 8191"),
    "vlan_any": (dict(vlan_vid=(0x1000, 0x1000)), "field: VlanVid, value: 4096, mask: 4096"),
    "vlan_none": (dict(vlan_vid=0), "field: VlanVid, value: 0, mask: 8191"),
    "vlan_pcp": (dict(vlan_vid=0x1005, vlan_pcp=5), "field: VlanPcp, value: 5, mask: 7"),
    "ip_dscp": (dict(eth_type=0x0800, ip_dscp=46), "field: IpDscp, value: 46, mask: 63"),
    "ip_ecn": (dict(eth_type=0x86DD, ip_ecn=2), "field: IpEcn, value: 2, mask: 3"),
    "ip_proto": (dict(eth_type=0x0800, ip_proto=89), "field: IpProto, value: 89, mask: 255"),
    "ipv4_src": (
        dict(eth_type=0x0800, ipv4_src=("10.1.0.0", "255.255.0.0")),
        "field: Ipv4Src, value: 167837696, mask: 4294901760",
    ),
    "ipv4_dst": (dict(eth_type=0x0800, ipv4_dst="10.1.2.3"), "field: Ipv4Dst, value: 167838211"),
    "tcp_src": (dict(TCP, tcp_src=1024), "field: TcpSrc, value: 1024"),
    "tcp_dst": (dict(TCP, tcp_dst=80), "field: TcpDst, value: 80"),
    "udp_src": (dict(eth_type=0x86DD, ip_proto=17, udp_src=53), "field: UdpSrc, value: 53"),
    "udp_dst": (dict(eth_type=0x0800, ip_proto=17, udp_dst=67), "field: UdpDst, value: 67"),
    "sctp_src": (dict(eth_type=0x0800, ip_proto=132, sctp_src=5), "field: SctpSrc, value: 5"),
    "sctp_dst": (dict(eth_type=0x0800, ip_proto=132, sctp_dst=6), "field: SctpDst, value: 6"),
    "icmpv4_type": (dict(eth_type=0x0800, ip_proto=1, icmpv4_type=8), "field: Icmpv4Type, value: 8"),
    "icmpv4_code": (dict(eth_type=0x0800, ip_proto=1, icmpv4_code=3), "field: Icmpv4Code, value: 3"),
    "arp_op": (dict(eth_type=0x0806, arp_op=2), "field: ArpOp, value: 2"),
    "arp_spa": (dict(eth_type=0x0806, arp_spa="10.0.0.1"), "field: ArpSpa, value: 167772161"),
    "arp_tpa": (
        dict(eth_type=0x0806, arp_tpa=("10.0.0.0", "255.0.0.0")),
        "field: ArpTpa, value: 167772160, mask: 4278190080",
    ),
    "arp_sha": (dict(eth_type=0x0806, arp_sha="00:00:00:00:00:09"), "field: ArpSha, value: 9"),
    "arp_tha": (
        dict(eth_type=0x0806, arp_tha=("00:00:00:00:00:08", "00:00:00:00:00:0f")),
        "field: ArpTha, value: 8, mask: 15",
    ),
    "ipv6_src": (dict(eth_type=0x86DD, ipv6_src="::1:2"), "field: Ipv6Src, value: 65538"),
    "ipv6_dst": (
        dict(eth_type=0x86DD, ipv6_dst=("::ff00", "::ff00")),
        "field: Ipv6Dst, value: 65280, mask: 65280",
    ),
    "ipv6_flabel": (
        dict(eth_type=0x86DD, ipv6_flabel=(0x12300, 0xFFF00)),
        "field: Ipv6Flabel, value: 74496, mask: 1048320",
    ),
    "icmpv6_type": (dict(ICMP6, icmpv6_type=128), "field: Icmpv6Type, value: 128"),
    "icmpv6_code": (dict(ICMP6, icmpv6_code=4), "field: Icmpv6Code, value: 4"),
    "ipv6_nd_target": (
        dict(ICMP6, icmpv6_type=136, ipv6_nd_target="::5"),
        "field: Ipv6NdTarget, value: 5",
    ),
    "ipv6_nd_sll": (
        dict(ICMP6, icmpv6_type=135, ipv6_nd_sll="00:00:00:00:01:00"),
        "field: Ipv6NdSll, value: 256",
    ),
    "ipv6_nd_tll": (
        dict(ICMP6, icmpv6_type=136, ipv6_nd_tll="00:00:00:00:02:00"),
        "field: Ipv6NdTll, value: 512",
    ),
    "mpls_label": (dict(eth_type=0x8847, mpls_label=1000), "field: MplsLabel, value: 1000, mask: 1048575"),
    "mpls_tc": (dict(eth_type=0x8848, mpls_tc=4), "field: MplsTc, value: 4, mask: 7"),
    "mpls_bos": (dict(eth_type=0x8847, mpls_bos=1), "field: MplsBos, value: 1, mask: 1"),
    "pbb_isid": (
        dict(eth_type=0x88E7, pbb_isid=(0x10000, 0xFF0000)),
        "field: PbbIsid, value: 65536, mask: 16711680",
    ),
    "tunnel_id": (dict(tunnel_id=(5, 0xFF)), "field: TunnelId, value: 5, mask: 255"),
    "ipv6_exthdr": (
        dict(eth_type=0x86DD, ipv6_exthdr=(0x21, 0x21)),
        "field: Ipv6Exthdr, value: 33, mask: 33",
    ),
}
