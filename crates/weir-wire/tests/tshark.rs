//! A third party judges what `emit` writes: one frame of each kind goes to a pcap file, tshark reads
//! it with checksum validation on, and must find the layers expected, no malformed part and no bad
//! checksum. SKIPPED where tshark is not installed.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use weir_wire::build::{Frame, Network, Transport};
use weir_wire::checksum::PseudoHeader;
use weir_wire::ipv4_option::Ipv4Option;
use weir_wire::ipv6_ext::Fragment as Ext;
use weir_wire::ndisc_option::{NdiscOption, Prefix};
use weir_wire::tcp_option::TcpOption;
use weir_wire::*;

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);

/// A frame and what tshark must find in it.
struct Case {
    bytes: Vec<u8>,
    /// The beginning of tshark's `frame.protocols`, without `eth:ethertype:`.
    layers: &'static str,
    /// How many checksums it must find good.
    good: usize,
    /// How many it must find bad: none, but in the frame that shows that it looks.
    bad: usize,
}

struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, layers: &'static str, good: usize, frame: Frame<'_>) {
        let mut bytes = vec![0; frame.len()];
        let len = frame.emit(&mut bytes).expect("a frame of its own length");
        assert_eq!(len, bytes.len());
        self.0.push(Case { bytes, layers, good, bad: 0 });
    }
}

macro_rules! bytes {
    ($view:ident, $repr:expr, $payload:expr) => {{
        let (repr, payload): (_, &[u8]) = ($repr, $payload);
        let mut bytes = vec![0; repr.buffer_len()];
        bytes.extend(payload);
        repr.emit(&mut $view::new_unchecked(&mut bytes[..])).unwrap();
        bytes
    }};
}

fn emitted(frame: Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).unwrap();
    bytes
}

fn link(cases: &mut Cases) {
    let request = ArpRepr::request(MAC, A, B);
    let arp = bytes!(ArpPacket, request, &[]);
    cases.add("arp", 0, Frame::ethernet(EtherType::Arp, &arp).macs(MAC, MacAddr::BROADCAST));
    let arp = bytes!(ArpPacket, request.reply(MAC), &[]);
    cases.add("arp", 0, Frame::ethernet(EtherType::Arp, &arp));
    let mut optional = [0; 64];
    let len = lldp::emit_all(
        &[
            lldp::Tlv::PortDescription(b"first"),
            lldp::Tlv::SystemName(b"weir"),
            lldp::Tlv::SystemDescription(b"a switch"),
            lldp::Tlv::Capabilities(0x14, 0x04),
            lldp::Tlv::Organization([0x00, 0x80, 0xc2], 1, &[0, 100]),
        ],
        &mut optional,
    );
    let repr = LldpRepr {
        chassis: lldp::Name { subtype: lldp::chassis::MAC, id: &MAC.octets() },
        port: lldp::Name { subtype: lldp::port::INTERFACE_NAME, id: b"p1" },
        ttl_s: 120,
        optional: &optional[..len.unwrap()],
    };
    let unit = bytes!(LldpPacket, repr, &[]);
    cases.add("lldp", 0, Frame::ethernet(EtherType::Lldp, &unit).macs(MAC, MacAddr::LLDP));
    let label = |label, bottom| MplsRepr { label, traffic_class: 1, bottom, ttl: 9 };
    let ip = &emitted(udp4(b"labelled"))[14..];
    let stack = bytes!(MplsEntry, label(17, true), ip);
    let stack = bytes!(MplsEntry, label(16, false), &stack);
    cases.add("mpls:ip:udp", 2, Frame::ethernet(EtherType::Mpls, &stack));
}

fn udp4(payload: &[u8]) -> Frame<'_> {
    Frame::udp_v4("192.0.2.1:4000".parse().unwrap(), "198.51.100.2:4001".parse().unwrap(), payload)
}

fn udp6(payload: &[u8]) -> Frame<'_> {
    Frame::udp_v6(
        "[2001:db8::1]:4000".parse().unwrap(),
        "[2001:db8::2]:4001".parse().unwrap(),
        payload,
    )
}

fn transport(cases: &mut Cases) {
    cases.add("ip:udp", 2, udp4(b"odd"));
    cases.add("ipv6:udp", 1, udp6(b"even"));
    let tags = [VlanRepr { pcp: 5, ..VlanRepr::dot1q(100) }];
    cases.add("vlan:ethertype:ip:udp", 2, udp4(b"tagged").tags(&tags));
    let tags = [VlanRepr::dot1ad(200), VlanRepr::dot1q(100)];
    cases.add("ieee8021ad:ethertype:vlan:ethertype:ipv6:udp", 1, udp6(b"twice").tags(&tags));
    let tags = [VlanRepr { tpid: EtherType::OldServiceVlan, ..VlanRepr::dot1q(200) }, tags[1]];
    cases.add("vlan:ethertype:vlan:ethertype:ip:udp", 2, udp4(b"twice").tags(&tags));

    let options = [
        TcpOption::MaxSegmentSize(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps(1, 0),
        TcpOption::Nop,
        TcpOption::WindowScale(7),
    ];
    let mut space = [0; 40];
    let len = tcp_option::emit_all(&options, &mut space).unwrap();
    let (src, dst) = ("192.0.2.1:5000".parse().unwrap(), "198.51.100.2:5001".parse().unwrap());
    let mut frame = Frame::tcp_v4(src, dst, tcp::Flags::SYN, &[]);
    if let Transport::Tcp(tcp) = &mut frame.transport {
        tcp.options = &space[..len];
    }
    cases.add("ip:tcp", 2, frame);
    let (src, dst) = ("[2001:db8::1]:5000".parse().unwrap(), "[2001:db8::2]:5001".parse().unwrap());
    let flags = tcp::Flags::PSH | tcp::Flags::ACK;
    cases.add("ipv6:tcp", 1, Frame::tcp_v6(src, dst, flags, b"some data").ttl(3));

    // A DATA chunk: type, flags, length, TSN, stream, sequence, payload protocol, "data".
    let chunk = [0, 3, 0, 20, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 100, 97, 116, 97];
    let sctp = SctpRepr { src_port: 9, dst_port: 10, tag: 0x0102_0304 };
    let mut packet = bytes!(SctpPacket, sctp, &chunk);
    SctpPacket::new_unchecked(&mut packet[..]).fill_checksum();
    cases.add("ip:sctp", 2, Frame::ipv4(A, B, IpProtocol::Sctp, &packet));
}

fn network(cases: &mut Cases) {
    let mut options = [0; 40];
    let list = [
        Ipv4Option::RouterAlert(0),
        Ipv4Option::RecordRoute(4, &[0; 8]),
        Ipv4Option::Timestamp(5, 0, &[0; 8]),
    ];
    let len = ipv4_option::emit_all(&list, &mut options).unwrap();
    let mut frame = udp4(b"with options");
    if let Network::Ipv4(ip) = &mut frame.network {
        ip.options = &options[..len];
        ip.dscp = 46;
        ip.ecn = 1;
    }
    cases.add("ip:udp", 2, frame);

    let udp = emitted(udp6(b"behind headers"))[54..].to_vec();
    let generic = |next_header, body| {
        let repr = ipv6_ext::GenericRepr { next_header, body };
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out).unwrap();
        out
    };
    let fragment =
        ipv6_ext::FragmentRepr { next_header: IpProtocol::Udp, offset: 0, more: false, ident: 7 };
    let mut chain = generic(IpProtocol::Destination, &[5, 2, 0, 0, 1, 0]);
    chain.extend(generic(IpProtocol::Fragment, &[1, 4, 0, 0, 0, 0]));
    chain.extend(bytes!(Ext, fragment, &udp));
    let frame = Frame::ipv6(A6, B6, IpProtocol::HopByHop, &chain);
    cases.add("ipv6:ipv6.hopopts:ipv6.dstopts:ipv6.fraghdr:udp", 1, frame);
}
fn icmp(cases: &mut Cases) {
    // Header and eight bytes, as RFC 792 has it: nobody can check that datagram.
    let quoted = &emitted(udp4(b"quoted payload"))[14..14 + 28];
    for repr in [
        Icmpv4Repr::EchoRequest { ident: 1, seq: 2, data: b"ping" },
        Icmpv4Repr::EchoReply { ident: 1, seq: 2, data: b"ping!" },
        Icmpv4Repr::DestinationUnreachable {
            code: icmpv4::unreachable::FRAGMENTATION_NEEDED,
            next_hop_mtu: 1400,
            quoted,
        },
        Icmpv4Repr::Redirect { code: 1, gateway: A, quoted },
        Icmpv4Repr::TimeExceeded { code: 0, quoted },
        Icmpv4Repr::ParameterProblem { code: 0, pointer: 9, quoted },
    ] {
        let mut message = bytes!(Icmpv4Packet, repr, &[]);
        Icmpv4Packet::new_unchecked(&mut message[..]).fill_checksum();
        // The quoted header's own is looked at too.
        let good = 2 + usize::from(message.ends_with(quoted));
        cases.add("ip:icmp", good, Frame::ipv4(A, B, IpProtocol::Icmp, &message));
    }
}

fn icmpv6(cases: &mut Cases) {
    let quoted = &emitted(udp6(b"quoted payload"))[14..14 + 48];
    let prefix = Prefix {
        prefix_len: 64,
        flags: 0xc0,
        valid_s: 86400,
        preferred_s: 14400,
        prefix: Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0),
    };
    let mut space = [[0; 128]; 4];
    let [advert, source, target, redirected] = &mut space;
    let options = |out, list: &[NdiscOption<'_>]| -> &[u8] {
        let out: &mut [u8; 128] = out;
        let len = ndisc_option::emit_all(list, out).unwrap();
        &out[..len]
    };
    let advert = options(advert, &[NdiscOption::Mtu(1500), NdiscOption::Prefix(prefix)]);
    let source = options(source, &[NdiscOption::SourceLinkAddr(MAC)]);
    let target = options(target, &[NdiscOption::TargetLinkAddr(MAC)]);
    let redirected = options(redirected, &[NdiscOption::Redirected(quoted)]);
    // Report of one group to which a listener changed (RFC 3810 §5.2).
    let mut mld = vec![0, 0, 0, 1, 4, 0, 0, 0];
    mld.extend(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1).octets());
    for repr in [
        Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: b"ping" },
        Icmpv6Repr::EchoReply { ident: 1, seq: 2, data: b"ping!" },
        Icmpv6Repr::DestinationUnreachable { code: 4, quoted },
        Icmpv6Repr::PacketTooBig { mtu: 1280, quoted },
        Icmpv6Repr::TimeExceeded { code: 0, quoted },
        Icmpv6Repr::ParameterProblem { code: 1, pointer: 40, quoted },
        Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { options: source }),
        Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
            hop_limit: 64,
            flags: ndisc::RouterFlags::MANAGED,
            lifetime_s: 1800,
            reachable_ms: 1,
            retransmit_ms: 2,
            options: advert,
        }),
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target: B6, options: source }),
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
            flags: ndisc::NeighborFlags::SOLICITED | ndisc::NeighborFlags::OVERRIDE,
            target: B6,
            options: target,
        }),
        Icmpv6Repr::Ndisc(NdiscRepr::Redirect { target: A6, destination: B6, options: redirected }),
        Icmpv6Repr::Other { message: icmpv6::Message::Mldv2Report, code: 0, body: &mld },
    ] {
        let mut message = bytes!(Icmpv6Packet, repr, &[]);
        let pseudo = PseudoHeader::V6(A6, B6);
        Icmpv6Packet::new_unchecked(&mut message[..]).fill_checksum(&pseudo);
        let frame = Frame::ipv6(A6, B6, IpProtocol::Icmpv6, &message).ttl(255);
        cases.add("ipv6:icmpv6", 1, frame);
    }
}

fn tunnels(cases: &mut Cases) {
    let inner = emitted(udp4(b"inside a tunnel"));
    for (checksum, key, sequence) in
        [(false, None, None), (true, None, None), (true, Some(0xdead_beef), Some(7))]
    {
        let repr = GreRepr { protocol: EtherType::TransparentEthernet, checksum, key, sequence };
        let mut packet = bytes!(GrePacket, repr, &inner);
        GrePacket::new_unchecked(&mut packet[..]).fill_checksum();
        let frame = Frame::ipv4(A, B, IpProtocol::Gre, &packet);
        cases.add("ip:gre:eth:ethertype:ip:udp", 3 + usize::from(checksum), frame);
    }
    let packet = bytes!(VxlanPacket, VxlanRepr { vni: 0xabcdef }, &inner);
    let (src, dst) = ("192.0.2.1:50000".parse().unwrap(), "198.51.100.2:4789".parse().unwrap());
    cases.add("ip:udp:vxlan:eth:ethertype:ip:udp", 4, Frame::udp_v4(src, dst, &packet));
    let src = "[2001:db8::1]:50000".parse().unwrap();
    let dst = "[2001:db8::2]:4789".parse().unwrap();
    cases.add("ipv6:udp:vxlan:eth:ethertype:ip:udp", 3, Frame::udp_v6(src, dst, &packet));
}

/// Classic pcap, microseconds, Ethernet.
fn pcap(cases: &[Case]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(65535u32.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for (case, seconds) in cases.iter().zip(1u32..) {
        let len = case.bytes.len() as u32;
        for word in [seconds, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&case.bytes);
    }
    file
}

#[test]
fn tshark_agrees() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark_agrees needs tshark (apt-get install tshark)");
        return;
    }
    let mut cases = Cases(Vec::new());
    link(&mut cases);
    transport(&mut cases);
    network(&mut cases);
    icmp(&mut cases);
    icmpv6(&mut cases);
    tunnels(&mut cases);
    let mut bytes = emitted(udp4(b"damaged"));
    bytes[45] ^= 1;
    cases.0.push(Case { bytes, layers: "ip:udp", good: 1, bad: 1 });

    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("emitted.pcap");
    std::fs::write(&path, pcap(&cases.0)).expect("a file there");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path);
    for preference in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC 32c",
    ] {
        tshark.args(["-o", preference]);
    }
    tshark.args(["-T", "fields", "-E", "separator=|", "-e", "frame.protocols"]);
    tshark.args(["-e", "_ws.malformed"]);
    for layer in ["ip", "udp", "tcp", "icmp", "icmpv6", "sctp", "gre"] {
        tshark.args(["-e", &format!("{layer}.checksum.status")]);
    }
    let output = tshark.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), cases.0.len(), "{complaints}");
    for (line, case) in lines.iter().zip(&cases.0) {
        let columns: Vec<&str> = line.split('|').collect();
        let layers = columns[0].strip_prefix("eth:ethertype:").unwrap_or(columns[0]);
        assert!(layers.starts_with(case.layers), "{line}\nexpected {}", case.layers);
        assert_eq!(columns[1], "", "malformed: {line}");
        let statuses: Vec<&str> =
            columns[2..].iter().flat_map(|column| column.split(',')).collect();
        let good = statuses.iter().filter(|status| ["1", "Good"].contains(status)).count();
        let bad = statuses.iter().filter(|status| ["0", "Bad", "4"].contains(status)).count();
        assert_eq!((good, bad), (case.good, case.bad), "checksums: {line}");
    }
}
