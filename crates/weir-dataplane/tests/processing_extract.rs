//! The flow key against a slow parser built on `weir-wire`'s views: equal keys and layers on every
//! kind of frame, on frames that were bent, and on noise.

mod processing_frames;

use processing_frames::kinds;
use proptest::prelude::*;
use std::net::Ipv6Addr;
use weir_classify::{FRAG_ANY, FRAG_LATER, Field, FlowKey, VLAN_PRESENT};
use weir_dataplane::{Layers, Net, extract};
use weir_wire::ndisc_option::{NdiscOption, Options};
use weir_wire::{
    ArpPacket, EtherType, EthernetFrame, Icmpv6Packet, Ipv4Packet, Ipv6Packet, MplsEntry,
    TcpPacket, UdpPacket, VlanTag,
};

const IN_PORT: u32 = 0x1_0007;

fn is_tag(t: EtherType) -> bool {
    matches!(u16::from(t), 0x8100 | 0x88a8 | 0x9100)
}

/// A frame's key, a field at a time.
fn slowly(b: &[u8]) -> Option<(FlowKey, Layers)> {
    let eth = EthernetFrame::new_checked(b).ok()?;
    let mut key = FlowKey::default();
    let mut l = Layers::default();
    key.set(Field::InPort, IN_PORT.into());
    let mac = |a: weir_wire::MacAddr| a.0.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
    key.set(Field::EthDst, mac(eth.dst()));
    key.set(Field::EthSrc, mac(eth.src()));
    let (mut kind, mut at) = (eth.ether_type(), 14);
    for field in [Field::VlanTci, Field::InnerTci] {
        // A tag has two bytes of its own and two of the type behind it.
        if !is_tag(kind) || b.len() < at + 4 {
            break;
        }
        let tag = VlanTag::new_unchecked(&b[at - 2..]);
        key.set(field, u128::from(tag.tci() | VLAN_PRESENT));
        kind = u16::from_be_bytes([b[at + 2], b[at + 3]]).into();
        at += 4;
        l.vlans += 1;
    }
    if u16::from(kind) < 0x600 {
        kind = 0x05ff.into();
        if let Some([0xaa, 0xaa, 3, 0, 0, 0, hi, lo]) = b.get(at..at + 8)
            && *hi >= 6
        {
            kind = u16::from_be_bytes([*hi, *lo]).into();
            at += 8;
        }
    }
    key.set(Field::EthType, u16::from(kind).into());
    l.l3 = at as u16;
    let body = &b[at..];
    match u16::from(kind) {
        0x0800 => ipv4(body, at, &mut key, &mut l),
        0x86dd => ipv6(body, at, &mut key, &mut l),
        0x0806 | 0x8035 => arp(body, &mut key, &mut l),
        0x8847 | 0x8848 => mpls(body, &mut key, &mut l),
        0x88e7 if body.len() >= 4 => {
            key.set(Field::PbbIsid, u128::from(u32::from_be_bytes([0, body[1], body[2], body[3]])));
        }
        _ => {}
    }
    Some((key, l))
}

fn mpls(body: &[u8], key: &mut FlowKey, l: &mut Layers) {
    let Ok(e) = MplsEntry::new_checked(body) else { return };
    l.net = Net::Mpls;
    key.set(Field::MplsLabel, e.label().into());
    key.set(Field::MplsTc, e.traffic_class().into());
    key.set(Field::MplsBos, e.is_bottom().into());
    key.set(Field::MplsTtl, e.ttl().into());
}

fn arp(body: &[u8], key: &mut FlowKey, l: &mut Layers) {
    let Ok(a) = ArpPacket::new_checked(body) else { return };
    l.net = Net::Arp;
    let mac = |a: weir_wire::MacAddr| a.0.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
    key.set(Field::ArpOp, u16::from(a.operation()).into());
    key.set(Field::ArpSha, mac(a.sender_mac()));
    key.set(Field::ArpSpa, u32::from(a.sender_ip()).into());
    key.set(Field::ArpTha, mac(a.target_mac()));
    key.set(Field::ArpTpa, u32::from(a.target_ip()).into());
}

fn ipv4(body: &[u8], at: usize, key: &mut FlowKey, l: &mut Layers) {
    let ip = Ipv4Packet::new_unchecked(body);
    if body.len() < 20 || ip.version() != 4 || ip.header_len() < 20 {
        return;
    }
    let total = usize::from(ip.total_len());
    if ip.header_len() > body.len() || total < ip.header_len() {
        return;
    }
    (l.net, l.proto) = (Net::Ipv4, ip.protocol().into());
    key.set(Field::Ipv4Src, u32::from(ip.src()).into());
    key.set(Field::Ipv4Dst, u32::from(ip.dst()).into());
    key.set(Field::IpTos, u128::from(ip.dscp() << 2 | ip.ecn()));
    key.set(Field::IpTtl, ip.ttl().into());
    key.set(Field::IpProto, l.proto.into());
    if ip.is_fragment() {
        key.set(Field::IpFrag, FRAG_ANY.into());
    }
    if ip.fragment_offset() > 0 {
        return key.set(Field::IpFrag, (FRAG_ANY | FRAG_LATER).into());
    }
    let upper = &body[ip.header_len()..total.min(body.len())];
    transport(upper, at + ip.header_len(), key, l);
}

/// OXM_OF_IPV6_EXTHDR's bits for these headers (OpenFlow 1.3, §7.2.3.7; order: RFC 8200 §4.1).
fn header_bits(kinds: &[u8]) -> u16 {
    const PREFERRED: [u8; 7] = [0, 60, 43, 44, 51, 50, 60];
    let mut bits = 0;
    let mut once = Vec::new();
    for (i, k) in kinds.iter().enumerate() {
        bits |= match k {
            59 => 1 << 0,
            50 => 1 << 1,
            51 => 1 << 2,
            60 => 1 << 3,
            44 => 1 << 4,
            43 => 1 << 5,
            // "Present as the first extension header."
            0 if i == 0 => 1 << 6,
            _ => 0,
        };
        let before = once.iter().filter(|o| *o == k).count();
        if before > usize::from(*k == 60) {
            bits |= 1 << 7;
        } else if *k != 59 {
            once.push(*k);
        }
    }
    let mut place = PREFERRED.iter();
    if !once.iter().all(|k| place.any(|p| p == k)) {
        bits |= 1 << 8;
    }
    bits
}

fn ipv6(body: &[u8], at: usize, key: &mut FlowKey, l: &mut Layers) {
    let ip = Ipv6Packet::new_unchecked(body);
    if body.len() < 40 || ip.version() != 6 {
        return;
    }
    l.net = Net::Ipv6;
    key.set(Field::Ipv6Src, ip.src().into());
    key.set(Field::Ipv6Dst, ip.dst().into());
    key.set(Field::Ipv6Label, ip.flow_label().into());
    key.set(Field::IpTos, ip.traffic_class().into());
    key.set(Field::IpTtl, ip.hop_limit().into());
    let payload = &body[40..ip.total_len().min(body.len()).max(40)];
    let (mut proto, mut o, mut kinds) = (u8::from(ip.next_header()), 0, Vec::new());
    let mut later = false;
    while matches!(proto, 0 | 43 | 44 | 50 | 51 | 59 | 60) {
        kinds.push(proto);
        let Some([next, len]) = payload.get(o..).and_then(|p| p.first_chunk::<2>()) else { break };
        let size = match proto {
            50 | 59 => break,
            44 => 8,
            51 => (usize::from(*len) + 2) * 4,
            _ => (usize::from(*len) + 1) * 8,
        };
        let Some(header) = payload.get(o..o + size.max(8)) else { break };
        if proto == 44 {
            let field = u16::from_be_bytes([header[2], header[3]]);
            later = field >> 3 > 0;
            // RFC 6946: a fragment that is all there is is none.
            if later || field & 1 == 1 {
                key.set(Field::IpFrag, (FRAG_ANY | if later { FRAG_LATER } else { 0 }).into());
            }
        }
        (proto, o) = (*next, o + size);
        if later {
            break;
        }
    }
    key.set(Field::Ipv6Exthdr, header_bits(&kinds).into());
    key.set(Field::IpProto, proto.into());
    l.proto = proto;
    if !later {
        transport(payload.get(o..).unwrap_or_default(), at + 40 + o, key, l);
    }
}

fn transport(upper: &[u8], at: usize, key: &mut FlowKey, l: &mut Layers) {
    let need = match l.proto {
        6 => 20,
        17 | 1 => 8,
        132 => 12,
        58 => 4,
        _ => return,
    };
    if upper.len() < need {
        return;
    }
    l.l4 = at as u16;
    match l.proto {
        1 | 58 => {
            key.set(Field::IcmpType, upper[0].into());
            key.set(Field::IcmpCode, upper[1].into());
            if l.proto == 58 {
                neighbour(upper, key);
            }
        }
        _ => {
            // The three agree on where ports stand.
            let ports = UdpPacket::new_unchecked(upper);
            key.set(Field::TpSrc, ports.src_port().into());
            key.set(Field::TpDst, ports.dst_port().into());
            if l.proto == 6 {
                key.set(Field::TcpFlags, TcpPacket::new_unchecked(upper).flags().0.into());
            }
        }
    }
}

fn neighbour(upper: &[u8], key: &mut FlowKey) {
    let kind = u8::from(Icmpv6Packet::new_unchecked(upper).message());
    if !matches!(kind, 135 | 136) || upper.len() < 24 {
        return;
    }
    let target: [u8; 16] = upper[8..24].try_into().unwrap();
    key.set(Field::NdTarget, Ipv6Addr::from(target).into());
    let mut found = Vec::new();
    let mut at = 24;
    while at + 8 <= upper.len() && upper[at + 1] > 0 {
        let mac = upper[at + 2..at + 8].iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
        match (kind, upper[at], upper[at + 1]) {
            (135, 1, 1) => found.push((Field::NdSll, mac)),
            (136, 2, 1) => found.push((Field::NdTll, mac)),
            _ => {}
        }
        at += usize::from(upper[at + 1]) * 8;
    }
    // Of several the first counts.
    if let Some((f, mac)) = found.first() {
        key.set(*f, *mac);
    }
}

fn same(b: &[u8]) -> Result<(), String> {
    let mut key = FlowKey([u64::MAX; weir_classify::WORDS]);
    let fast = extract(b, IN_PORT, &mut key).ok().map(|l| (key, l));
    let slow = slowly(b);
    if fast == slow {
        return Ok(());
    }
    let (Some((f, fl)), Some((s, sl))) = (fast, slow) else {
        return Err(format!("runt: {} or {}", fast.is_none(), slow.is_none()));
    };
    let differ = |x: &&Field| f.get(**x) != s.get(**x);
    let fields = Field::ALL.iter().filter(differ);
    let fields: Vec<String> =
        fields.map(|x| format!("{} {:x} not {:x}", x.name(), f.get(*x), s.get(*x))).collect();
    Err(format!("{fields:?} {fl:?} not {sl:?}: {b:02x?}"))
}

#[test]
fn every_kind_of_frame_has_the_slow_parsers_key() {
    for k in kinds() {
        for len in 0..=k.bytes.len() {
            same(&k.bytes[..len]).unwrap_or_else(|e| panic!("{} cut to {len}: {e}", k.name));
        }
    }
}

/// An IPv6 frame with extension headers of any kind in any order.
fn chains() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![0u8, 43, 44, 51, 60, 60, 43, 0]);
    let header = (kind, prop_oneof![4 => Just(0u8), 1 => 0..3u8], any::<u32>());
    let last = prop::sample::select(vec![6u8, 17, 58, 59, 50, 132, 135, 0, 44]);
    let upper = prop::collection::vec(any::<u8>(), 0..40);
    (prop::collection::vec(header, 0..6), last, upper, -3..6i32).prop_map(
        |(headers, last, upper, off)| {
            let mut payload = Vec::new();
            for (i, (kind, len, bits)) in headers.iter().enumerate() {
                let next = headers.get(i + 1).map_or(last, |h| h.0);
                let (len, size) = match kind {
                    44 => (0, 8),
                    51 => (len * 2, usize::from(*len) * 8 + 8),
                    _ => (*len, usize::from(*len) * 8 + 8),
                };
                let mut h = vec![next, len];
                // Most fragments are the first or the whole.
                let field = if bits & 0xf00 == 0 { *bits as u16 } else { *bits as u16 & 7 };
                h.extend(field.to_be_bytes());
                h.resize(size, 4);
                payload.extend(h);
            }
            payload.extend(&upper);
            let len = (payload.len() as i32 + off.min(1)).max(0) as u16;
            let mut f =
                vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x61, 0x23, 0x45, 0x67];
            f.extend(len.to_be_bytes());
            f.extend([headers.first().map_or(last, |h| h.0), 64]);
            f.extend((0..32).collect::<Vec<u8>>());
            f.extend(payload);
            f
        },
    )
}

fn bent() -> impl Strategy<Value = Vec<u8>> {
    let all = kinds();
    let edit = (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), 0..8u8]);
    ((0..all.len()), prop::collection::vec(edit, 1..5), 0..12usize).prop_map(
        move |(i, edits, more)| {
            let mut b = all[i].bytes.clone();
            for (at, v) in edits {
                let at = at.index(b.len());
                b[at] = v;
            }
            b.resize(b.len() + more, 0x11);
            b
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn bent_frames_have_the_slow_parsers_key(b in bent()) {
        same(&b).map_err(TestCaseError::fail)?;
    }
    #[test]
    fn chains_of_extension_headers_have_the_slow_parsers_key(b in chains()) {
        same(&b).map_err(TestCaseError::fail)?;
    }
    #[test]
    fn noise_has_the_slow_parsers_key(b in prop::collection::vec(any::<u8>(), 0..120)) {
        same(&b).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn neighbour_options_are_those_of_the_view() {
    let k = kinds().into_iter().find(|k| k.name == "ipv6 nd solicitation").unwrap();
    let mut key = FlowKey::default();
    extract(&k.bytes, 1, &mut key).unwrap();
    let view: Vec<_> = Options::new(&k.bytes[14 + 40 + 24..]).flatten().collect();
    let [NdiscOption::SourceLinkAddr(mac)] = view[..] else { panic!("{view:?}") };
    let n = mac.0.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
    assert_eq!(key.get(Field::NdSll), n);
}
