//! What must hold of every parser for any bytes, written once: the fuzz targets and `any_bytes.rs`
//! both call it. Each body reads every field, and where a representation comes out it must come out
//! again from what it emits.

// A fuzz target calls one of the bodies.
#![allow(dead_code)]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_wire::checksum::{self, Delta, PseudoHeader, crc32c};
use weir_wire::ipv6_ext::{Fragment, FragmentRepr, GenericRepr, Headers, MAX_HEADERS};
use weir_wire::*;

/// Calls getters on a view, checked or not: they must be total.
macro_rules! read {
    ($view:expr => $($get:ident),* $(,)?) => {{
        let view = $view;
        $( let _ = black_box(view.$get()); )*
    }};
}

/// A representation that parses must survive emitting and parsing. The buffer is dirty first.
macro_rules! round_trip {
    ($view:ident, $repr:ident, $bytes:expr) => {
        if let Ok(repr) = $repr::parse(&$view::new_unchecked($bytes)) {
            let mut out = vec![0xa5; repr.buffer_len() + tail(&repr)];
            let mut short = vec![0; repr.buffer_len() - 1];
            assert!(repr.emit(&mut $view::new_unchecked(&mut short[..])).is_err());
            repr.emit(&mut $view::new_unchecked(&mut out[..])).expect("what was parsed fits");
            assert_eq!($repr::parse(&$view::new_unchecked(&out[..])), Ok(repr));
        }
    };
}

/// Bytes that must follow a header for its stated length to be there.
trait Tail {
    fn tail(&self) -> usize {
        0
    }
}

fn tail(repr: &impl Tail) -> usize {
    repr.tail()
}

macro_rules! no_tail {
    ($($repr:ty),*) => { $( impl Tail for $repr {} )* };
}
no_tail!(
    EthernetRepr,
    VlanRepr,
    ArpRepr,
    MplsRepr,
    GreRepr,
    VxlanRepr,
    LldpRepr<'_>,
    TcpRepr<'_>,
    SctpRepr,
    Icmpv4Repr<'_>,
    Icmpv6Repr<'_>,
    FragmentRepr
);
impl Tail for Ipv4Repr<'_> {
    fn tail(&self) -> usize {
        self.payload_len
    }
}
impl Tail for Ipv6Repr {
    fn tail(&self) -> usize {
        self.payload_len
    }
}
impl Tail for UdpRepr {
    fn tail(&self) -> usize {
        self.payload_len
    }
}

/// Options, and the emitted form of those that parse: it must parse to the same.
macro_rules! options {
    ($module:ident, $iter:ident, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        let parsed: Vec<_> = $module::$iter::new(bytes).collect();
        assert!(parsed.len() <= bytes.len());
        let good: Vec<_> = parsed.into_iter().map_while(Result::ok).collect();
        let mut out = vec![0; bytes.len() + 4];
        // Lists longer than a header holds are refused; every other comes out as it went in.
        if let Ok(len) = $module::emit_all(&good, &mut out) {
            let again: Vec<_> = $module::$iter::new(&out[..len]).map_while(Result::ok).collect();
            assert_eq!(good.as_slice(), &again[..good.len().min(again.len())]);
        }
    }};
}

pub fn eth(bytes: &[u8]) {
    read!(EthernetFrame::new_unchecked(bytes) => check, src, dst, ether_type, payload);
    read!(VlanTag::new_unchecked(bytes) => check, tpid, tci, pcp, dei, vid);
    round_trip!(EthernetFrame, EthernetRepr, bytes);
    round_trip!(VlanTag, VlanRepr, bytes);
    for limit in [0, 1, 2, usize::MAX] {
        if let Ok(stack) = vlan::walk(bytes, limit) {
            assert!(stack.payload_at() <= bytes.len() && stack.depth <= limit);
        }
    }
    assert!(vlan::tags(bytes).count() <= bytes.len() / vlan::TAG_LEN);
}

pub fn arp(bytes: &[u8]) {
    read!(ArpPacket::new_unchecked(bytes) => check, hardware_type, protocol_type, hardware_len,
        protocol_len, operation, sender_mac, sender_ip, target_mac, target_ip);
    round_trip!(ArpPacket, ArpRepr, bytes);
}

pub fn ipv4(bytes: &[u8]) {
    let packet = Ipv4Packet::new_unchecked(bytes);
    read!(packet => check, check_header, version, header_len, tos, dscp, ecn, total_len, ident,
        flags_offset, dont_fragment, more_fragments, fragment_offset, is_fragment, ttl, protocol,
        checksum, src, dst, option_bytes, payload, has_good_checksum, pseudo_header);
    if packet.check().is_ok() {
        let total = packet.header_len() + packet.payload().len();
        assert_eq!(total, usize::from(packet.total_len()));
    }
    round_trip!(Ipv4Packet, Ipv4Repr, bytes);
    options!(ipv4_option, Options, packet.option_bytes());
    options!(ipv4_option, Options, bytes);
    let mut from = 0;
    while let Ok(Some(option)) = ipv4_option::place(bytes, from) {
        assert!(option.at >= from && option.len >= 2);
        from = option.at + option.len;
        assert!(from <= bytes.len());
    }
    let mut copy = bytes.to_vec();
    let mut packet = Ipv4Packet::new_unchecked(&mut copy[..]);
    packet.fill_checksum();
    if packet.check_header().is_ok() {
        assert!(packet.has_good_checksum());
    }
    packet.payload_mut().fill(0);
}

pub fn ipv6(bytes: &[u8]) {
    let packet = Ipv6Packet::new_unchecked(bytes);
    read!(packet => check, check_header, version, traffic_class, dscp, ecn, flow_label,
        payload_len, total_len, next_header, hop_limit, src, dst, payload, pseudo_header);
    round_trip!(Ipv6Packet, Ipv6Repr, bytes);
    let chains = [(packet.next_header(), packet.payload())];
    let first = bytes.first().map(|byte| (IpProtocol::from(*byte), &bytes[1..]));
    for (first, payload) in chains.into_iter().chain(first) {
        let headers: Vec<_> = Headers::new(first, payload).collect();
        assert!(headers.len() <= payload.len() / 8 + 1);
        for header in headers.iter().flatten() {
            black_box((header.segments_left(), header.final_destination()));
        }
        if let Ok(walk) = ipv6_ext::walk(first, payload) {
            assert!(walk.at <= payload.len() && headers.len() <= MAX_HEADERS);
            let lens: usize = headers.iter().flatten().map(|header| header.bytes.len()).sum();
            assert_eq!(lens, walk.at);
            black_box(walk.is_later_fragment());
        }
    }
    options!(ipv6_option, Options, bytes);
    read!(Fragment::new_unchecked(bytes) => check, next_header, offset_more, ident);
    round_trip!(Fragment, FragmentRepr, bytes);
    if let Ok(repr) = GenericRepr::parse(bytes) {
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out).expect("what was parsed fits");
        assert_eq!(GenericRepr::parse(&out), Ok(repr));
    }
    let mut copy = bytes.to_vec();
    Ipv6Packet::new_unchecked(&mut copy[..]).payload_mut().fill(0);
}

pub fn l4(bytes: &[u8]) {
    let v4 = PseudoHeader::V4(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
    let v6 = PseudoHeader::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let mut copy = bytes.to_vec();

    let udp = UdpPacket::new_unchecked(bytes);
    read!(udp => check, check_header, src_port, dst_port, length, checksum, payload);
    black_box(udp.verify_checksum(&v4));
    round_trip!(UdpPacket, UdpRepr, bytes);
    let mut udp = UdpPacket::new_unchecked(&mut copy[..]);
    udp.fill_checksum(&v6);
    if udp.check().is_ok() {
        assert_eq!(udp.verify_checksum(&v6), checksum::Verdict::Good);
    }
    udp.payload_mut().fill(0);

    let tcp = TcpPacket::new_unchecked(bytes);
    read!(tcp => check, header_len, src_port, dst_port, seq, ack, flags, window, checksum, urgent,
        option_bytes, payload);
    black_box(tcp.has_good_checksum(&v6));
    round_trip!(TcpPacket, TcpRepr, bytes);
    options!(tcp_option, Options, tcp.option_bytes());
    options!(tcp_option, Options, bytes);
    black_box(tcp_option::sack_blocks(bytes).count());
    let mut tcp = TcpPacket::new_unchecked(&mut copy[..]);
    tcp.fill_checksum(&v4);
    if tcp.check().is_ok() {
        assert!(tcp.has_good_checksum(&v4));
    }
    tcp.payload_mut().fill(0);

    read!(SctpPacket::new_unchecked(bytes) => check, src_port, dst_port, tag, checksum, payload,
        has_good_checksum);
    round_trip!(SctpPacket, SctpRepr, bytes);
    let mut sctp = SctpPacket::new_unchecked(&mut copy[..]);
    sctp.fill_checksum();
    if sctp.check().is_ok() {
        assert!(sctp.has_good_checksum());
    }
    sctp.payload_mut().fill(0);
    icmp(bytes, &v6);
    sums(bytes);
}

fn icmp(bytes: &[u8], v6: &PseudoHeader) {
    read!(Icmpv4Packet::new_unchecked(bytes) => check, message, code, checksum, rest_of_header,
        echo_ident, echo_seq, pointer, next_hop_mtu, gateway, data, has_good_checksum);
    round_trip!(Icmpv4Packet, Icmpv4Repr, bytes);
    let mut copy = bytes.to_vec();
    Icmpv4Packet::new_unchecked(&mut copy[..]).fill_checksum();

    let packet = Icmpv6Packet::new_unchecked(bytes);
    read!(packet => check, message, code, checksum, word, echo_ident, echo_seq, body);
    black_box(packet.has_good_checksum(v6));
    round_trip!(Icmpv6Packet, Icmpv6Repr, bytes);
    if let Ok(Icmpv6Repr::Ndisc(repr)) = Icmpv6Repr::parse(&packet) {
        black_box(repr.options().count());
    }
    options!(ndisc_option, Options, bytes);
    listeners(bytes);
    Icmpv6Packet::new_unchecked(&mut copy[..]).fill_checksum(v6);
}

/// A query or report that was read is the same when it is written, but for what is not understood.
fn listeners(bytes: &[u8]) {
    let mut out = vec![0; bytes.len() + 24];
    if let Ok(query) = mld::Query::parse(bytes)
        && let Ok(len) = query.emit(&mut out)
    {
        assert_eq!(mld::Query::parse(&out[..len]), Ok(query));
    }
    let Ok(records) = mld::Records::new(bytes) else { return };
    let records: Vec<_> = records.map_while(Result::ok).collect();
    assert!(records.len() <= bytes.len() / mld::RECORD_LEN);
    let kind = mld::RecordKind::IsExclude;
    let len =
        mld::emit_report(kind, records.iter().map(|r| r.1), &mut out).expect("what was read fits");
    let again = mld::Records::new(&out[..len]).expect("a report");
    assert!(again.eq(records.into_iter().map(|r| Ok((kind, r.1)))));
}

/// The checksums against each other: a change mended by difference and computed anew.
fn sums(bytes: &[u8]) {
    black_box(crc32c::crc32c(bytes));
    let (words, _) = bytes.as_chunks::<2>();
    let (Some(old), Some(new)) = (words.first(), words.last()) else { return };
    let before = checksum::internet(bytes);
    let mut changed = bytes.to_vec();
    changed[..2].copy_from_slice(new);
    if changed.iter().any(|byte| *byte != 0) {
        let delta = Delta::new().u16(u16::from_be_bytes(*old), u16::from_be_bytes(*new));
        assert_eq!(delta.apply(before), checksum::internet(&changed));
    }
}

pub fn tunnel(bytes: &[u8]) {
    read!(GrePacket::new_unchecked(bytes) => check, flags, protocol, header_len, key, sequence,
        checksum, verify_checksum, payload);
    round_trip!(GrePacket, GreRepr, bytes);
    let mut copy = bytes.to_vec();
    let mut gre = GrePacket::new_unchecked(&mut copy[..]);
    gre.fill_checksum();
    if gre.check().is_ok() {
        assert_ne!(gre.verify_checksum(), checksum::Verdict::Bad);
    }
    gre.payload_mut().fill(0);

    read!(VxlanPacket::new_unchecked(bytes) => check, flags, vni, payload);
    round_trip!(VxlanPacket, VxlanRepr, bytes);
    VxlanPacket::new_unchecked(&mut copy[..]).payload_mut().fill(0);

    read!(MplsEntry::new_unchecked(bytes) => check, word, label, traffic_class, is_bottom, ttl);
    round_trip!(MplsEntry, MplsRepr, bytes);
    assert!(mpls::stack(bytes).count() <= bytes.len() / mpls::ENTRY_LEN + 1);
    if let Ok(depth) = mpls::depth(bytes, 8) {
        assert!((1..=8).contains(&depth) && depth * mpls::ENTRY_LEN <= bytes.len());
    }
}

pub fn lldp(bytes: &[u8]) {
    let packet = LldpPacket::new_unchecked(bytes);
    assert_eq!(packet.check().is_ok(), LldpRepr::parse(&packet).is_ok());
    round_trip!(LldpPacket, LldpRepr, bytes);
    options!(lldp, Tlvs, bytes);
}
