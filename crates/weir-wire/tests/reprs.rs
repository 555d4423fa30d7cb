//! What a representation emits, it parses: for any value of every representation. Emitted into a
//! buffer full of garbage, so that a byte left unwritten shows.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weir_wire::ipv6_ext::{Fragment, FragmentRepr, GenericRepr};
use weir_wire::*;

/// Emits into garbage of the right length plus `$extra`, parses, compares; and once more into
/// other garbage, to see that every byte of the header was written.
macro_rules! identity {
    ($view:ident, $repr:ident, $value:expr, $extra:expr) => {{
        let repr: $repr = $value;
        let mut ones = vec![0xff; repr.buffer_len() + $extra];
        let mut fives = vec![0x55; repr.buffer_len() + $extra];
        repr.emit(&mut $view::new_unchecked(&mut ones[..])).unwrap();
        repr.emit(&mut $view::new_unchecked(&mut fives[..])).unwrap();
        let view = $view::new_checked(&ones[..]).unwrap();
        prop_assert_eq!($repr::parse(&view), Ok(repr));
        prop_assert_eq!(&ones[..repr.buffer_len()], &fives[..repr.buffer_len()]);
        let mut short = vec![0; repr.buffer_len() - 1];
        let error = repr.emit(&mut $view::new_unchecked(&mut short[..])).unwrap_err();
        prop_assert_eq!(error.kind, Kind::NoRoom);
    }};
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn ether_type() -> impl Strategy<Value = EtherType> {
    prop_oneof![any::<u16>(), Just(0x0800), Just(0x86dd), Just(0x8847)].prop_map(EtherType::from)
}

fn tpid() -> impl Strategy<Value = EtherType> {
    prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]).prop_map(EtherType::from)
}

fn words(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<[u8; 4]>(), 0..=max).prop_map(|words| words.concat())
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..70)
}

proptest! {
    #[test]
    fn link(src in mac(), dst in mac(), ether_type in ether_type(), tpid in tpid(),
            pcp in 0u8..8, dei: bool, vid in 0u16..4096) {
        identity!(EthernetFrame, EthernetRepr, EthernetRepr { src, dst, ether_type }, 0);
        identity!(VlanTag, VlanRepr, VlanRepr { tpid, pcp, dei, vid }, 0);
    }

    #[test]
    fn arp(operation: u16, sender_mac in mac(), target_mac in mac(), sender: u32, target: u32) {
        let (sender_ip, target_ip) = (Ipv4Addr::from(sender), Ipv4Addr::from(target));
        let operation = operation.into();
        let repr = ArpRepr { operation, sender_mac, sender_ip, target_mac, target_ip };
        identity!(ArpPacket, ArpRepr, repr, 0);
    }

    #[test]
    fn ipv4(src: u32, dst: u32, protocol: u8, ttl: u8, dscp in 0u8..64, ecn in 0u8..4, ident: u16,
            dont_fragment: bool, more_fragments: bool, fragment_offset in 0u16..8192,
            options in words(10), payload_len in 0usize..300) {
        let repr = Ipv4Repr {
            src: src.into(), dst: dst.into(), protocol: protocol.into(), ttl, dscp, ecn, ident,
            dont_fragment, more_fragments, fragment_offset, options: &options, payload_len,
        };
        identity!(Ipv4Packet, Ipv4Repr, repr, payload_len);
        let mut out = vec![0; repr.buffer_len() + payload_len];
        repr.emit(&mut Ipv4Packet::new_unchecked(&mut out[..])).unwrap();
        prop_assert!(Ipv4Packet::new_unchecked(&out[..]).has_good_checksum());
    }

    #[test]
    fn ipv6(src: u128, dst: u128, next: u8, hop_limit: u8, traffic_class: u8,
            flow_label in 0u32..1 << 20, payload_len in 0usize..300) {
        let repr = Ipv6Repr {
            src: Ipv6Addr::from(src), dst: Ipv6Addr::from(dst), next_header: next.into(),
            hop_limit, traffic_class, flow_label, payload_len,
        };
        identity!(Ipv6Packet, Ipv6Repr, repr, payload_len);
    }

    #[test]
    fn ipv6_extensions(next: u8, offset in 0u16..8192, more: bool, ident: u32,
                       body in prop::collection::vec(any::<[u8; 8]>(), 0..256)) {
        let repr = FragmentRepr { next_header: next.into(), offset, more, ident };
        identity!(Fragment, FragmentRepr, repr, 0);
        let body = [&[1, 2, 3, 4, 5, 6][..], &body.concat()].concat();
        let repr = GenericRepr { next_header: next.into(), body: &body };
        let mut out = vec![0xff; repr.buffer_len()];
        if body.len() > 2046 {
            prop_assert_eq!(repr.emit(&mut out).unwrap_err().kind, Kind::Above);
        } else {
            repr.emit(&mut out).unwrap();
            prop_assert_eq!(GenericRepr::parse(&out), Ok(repr));
        }
    }

    #[test]
    fn transport(src_port: u16, dst_port: u16, seq: u32, ack: u32, flags in 0u16..4096,
                 window: u16, urgent: u16, options in words(10), payload_len in 0usize..300,
                 tag: u32) {
        identity!(UdpPacket, UdpRepr, UdpRepr { src_port, dst_port, payload_len }, payload_len);
        let flags = tcp::Flags(flags);
        let options = &options[..];
        let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, urgent, options };
        identity!(TcpPacket, TcpRepr, repr, 0);
        identity!(SctpPacket, SctpRepr, SctpRepr { src_port, dst_port, tag }, 0);
    }

    #[test]
    fn icmp(code: u8, a: u16, b: u16, gateway: u32, pointer: u8, data in data(), kind in 15u8..) {
        let (data, quoted) = (&data[..], &data[..]);
        let (ident, seq, next_hop_mtu, rest) = (a, b, a, gateway);
        for repr in [
            Icmpv4Repr::EchoRequest { ident, seq, data },
            Icmpv4Repr::EchoReply { ident, seq, data },
            Icmpv4Repr::DestinationUnreachable { code, next_hop_mtu, quoted },
            Icmpv4Repr::Redirect { code, gateway: gateway.into(), quoted },
            Icmpv4Repr::TimeExceeded { code, quoted },
            Icmpv4Repr::ParameterProblem { code, pointer, quoted },
            Icmpv4Repr::Other { message: kind.into(), code, rest, data },
        ] {
            identity!(Icmpv4Packet, Icmpv4Repr, repr, 0);
        }
    }

    #[test]
    fn icmpv6(code: u8, a: u16, b: u16, word: u32, data in data(), kind in 144u8..) {
        let (data, quoted, body) = (&data[..], &data[..], &data[..]);
        let (ident, seq) = (a, b);
        for repr in [
            Icmpv6Repr::EchoRequest { ident, seq, data },
            Icmpv6Repr::EchoReply { ident, seq, data },
            Icmpv6Repr::DestinationUnreachable { code, quoted },
            Icmpv6Repr::PacketTooBig { mtu: word, quoted },
            Icmpv6Repr::TimeExceeded { code, quoted },
            Icmpv6Repr::ParameterProblem { code, pointer: word, quoted },
            Icmpv6Repr::Other { message: kind.into(), code, body },
        ] {
            identity!(Icmpv6Packet, Icmpv6Repr, repr, 0);
        }
    }

    #[test]
    fn ndisc(target: u128, destination: u128, flags: u8, hop_limit: u8, lifetime_s: u16,
             reachable_ms: u32, retransmit_ms: u32, options in data()) {
        let (target, destination) = (Ipv6Addr::from(target), Ipv6Addr::from(destination));
        let options = &options[..];
        let router = ndisc::RouterFlags(flags);
        let neighbor = ndisc::NeighborFlags(flags);
        for repr in [
            NdiscRepr::RouterSolicit { options },
            NdiscRepr::RouterAdvert {
                hop_limit, flags: router, lifetime_s, reachable_ms, retransmit_ms, options,
            },
            NdiscRepr::NeighborSolicit { target, options },
            NdiscRepr::NeighborAdvert { flags: neighbor, target, options },
            NdiscRepr::Redirect { target, destination, options },
        ] {
            identity!(Icmpv6Packet, Icmpv6Repr, Icmpv6Repr::Ndisc(repr), 0);
        }
    }

    #[test]
    fn tunnels(label in 0u32..1 << 20, traffic_class in 0u8..8, bottom: bool, ttl: u8,
               protocol in ether_type(), checksum: bool, key: Option<u32>, sequence: Option<u32>,
               vni in 0u32..1 << 24) {
        identity!(MplsEntry, MplsRepr, MplsRepr { label, traffic_class, bottom, ttl }, 0);
        identity!(GrePacket, GreRepr, GreRepr { protocol, checksum, key, sequence }, 0);
        identity!(VxlanPacket, VxlanRepr, VxlanRepr { vni }, 0);
    }

    #[test]
    fn lldp(subtypes: (u8, u8), chassis in prop::collection::vec(any::<u8>(), 1..=255),
            port in prop::collection::vec(any::<u8>(), 1..=255), ttl_s: u16,
            name in data(), oui: [u8; 3], subtype: u8, data in data()) {
        let tlvs = [
            lldp::Tlv::SystemName(&name),
            lldp::Tlv::Organization(oui, subtype, &data),
            lldp::Tlv::Capabilities(ttl_s, ttl_s),
        ];
        let mut optional = vec![0; 300];
        let len = lldp::emit_all(&tlvs, &mut optional).unwrap();
        let repr = LldpRepr {
            chassis: lldp::Name { subtype: subtypes.0, id: &chassis },
            port: lldp::Name { subtype: subtypes.1, id: &port },
            ttl_s,
            optional: &optional[..len],
        };
        identity!(LldpPacket, LldpRepr, repr, 0);
        let read: Vec<_> = lldp::Tlvs::new(repr.optional).map(Result::unwrap).collect();
        prop_assert_eq!(&read[..], &tlvs[..]);
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let mut out = [0u8; 128];
    let kind = |result: Result<()>| result.unwrap_err().kind;
    let (a, b) = (Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
    let v4 = Ipv4Repr::new(a, b, IpProtocol::Udp, 0);
    for bad in [
        Ipv4Repr { dscp: 64, ..v4 },
        Ipv4Repr { ecn: 4, ..v4 },
        Ipv4Repr { fragment_offset: 8192, ..v4 },
        Ipv4Repr { options: &[0; 44], ..v4 },
        Ipv4Repr { payload_len: 65516, ..v4 },
        Ipv4Repr { payload_len: usize::MAX, ..v4 },
    ] {
        assert_eq!(kind(bad.emit(&mut Ipv4Packet::new_unchecked(&mut out[..]))), Kind::Above);
    }
    let ragged = Ipv4Repr { options: &[0; 3], ..v4 };
    assert_eq!(kind(ragged.emit(&mut Ipv4Packet::new_unchecked(&mut out[..]))), Kind::Differs);
    let udp = UdpRepr { src_port: 1, dst_port: 2, payload_len: 65528 };
    assert_eq!(kind(udp.emit(&mut UdpPacket::new_unchecked(&mut out[..]))), Kind::Above);
    let tag = VlanRepr::dot1q(4096);
    assert_eq!(kind(tag.emit(&mut VlanTag::new_unchecked(&mut out[..]))), Kind::Above);
    let vxlan = VxlanRepr { vni: 1 << 24 };
    assert_eq!(kind(vxlan.emit(&mut VxlanPacket::new_unchecked(&mut out[..]))), Kind::Above);
    let tag = VlanRepr { tpid: EtherType::Ipv4, ..VlanRepr::dot1q(1) };
    assert_eq!(kind(tag.emit(&mut VlanTag::new_unchecked(&mut out[..]))), Kind::Differs);
}

#[test]
fn errors_say_layer_field_and_numbers() {
    let error = Ipv4Packet::new_checked(&[0x45u8; 12][..]).unwrap_err();
    assert_eq!(error.to_string(), "ipv4: header needs 20 bytes, 12 are there");
    let error = Ipv6Packet::new_checked(&[0x45u8; 40][..]).unwrap_err();
    assert_eq!(error.to_string(), "ipv6: version is 4, must be 6");
}
