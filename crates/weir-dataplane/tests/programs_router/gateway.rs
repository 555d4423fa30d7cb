//! The broadband network gateway: golden frames made by scapy, and an oracle that takes frames apart
//! byte by byte, looks at every route and keeps subscribers in a map.

use crate::programs_rig::{Outcome, Rig};
use proptest::prelude::*;
use std::collections::HashMap;
use weir_dataplane::programs::bng::{
    AccessPort, Bng, BngConfig, BngError, BngRoute, Circuits, CorePort, GreSum,
};
use weir_dataplane::{Origin, PortNo};
use weir_packet::{DropReason, Nanos};
use weir_wire::{IpProtocol, Ipv4Packet, MacAddr};

const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const US_CORE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn config() -> BngConfig {
    let route = |to: &str, port, hop, label| BngRoute {
        to: to.parse().unwrap(),
        port: PortNo(port),
        next_hop: MacAddr([2, 0, 0, 0, 0xcc, hop]),
        label,
        remote: [192, 0, 2, 90 + hop].into(),
    };
    BngConfig {
        access: vec![
            AccessPort { port: PortNo(1), mac: US },
            AccessPort { port: PortNo(4), mac: US },
        ],
        core: vec![
            CorePort { port: PortNo(2), mac: US_CORE },
            CorePort { port: PortNo(3), mac: US_CORE },
        ],
        tunnel: [192, 0, 2, 1].into(),
        circuits: vec![
            Circuits { outer: 100, first: 200, last: 203, key: 0xabcd_ef01 },
            Circuits { outer: 101, first: 0, last: 4095, key: 0 },
        ],
        routes: vec![
            route("203.0.113.0/24", 2, 9, 70_000),
            route("203.0.113.128/25", 3, 8, 80_000),
            route("203.0.113.200/32", 2, 7, 16),
            route("198.51.0.0/16", 3, 6, 1_048_575),
        ],
        subscribers: 6,
        ..BngConfig::default()
    }
}

fn gateway(config: &BngConfig) -> Rig {
    Rig::new(Bng::new(config).unwrap(), 4)
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn counted(r: &Rig, name: &str) -> String {
    let lines = r.program.status();
    lines.into_iter().find(|l| l.0 == name).unwrap_or_else(|| panic!("no line '{name}'")).1
}

/// Made with scapy 2.5: `Ether/Dot1AD(vlan=100)/Dot1Q(vlan=200)/IP(ttl=64, tos=0xb8)/UDP/b"weir!"`; and the
/// same inner packet, a hop later, behind `Ether/MPLS(label=70000, ttl=64)/IP(flags="DF", id=0)/GRE`.
const FROM_SUBSCRIBER: &str = "02000000000102000000aa0188a80064810000c8080045b800211234000040111fd3\
    0a010203cb00710903e80035000db1d17765697221";
const TO_CORE: &str = "02000000cc0902000000000288471117014045b8004100004000402fb571c0000201c0000263\
    a0000800055c0000abcdef0145b80021123400003f1120d30a010203cb00710903e80035000db1d17765697221";
const TO_CORE_PLAIN: &str = "02000000cc0902000000000288471117014045b8003d00004000402fb575c0000201\
    c000026320000800abcdef0145b80021123400003f1120d30a010203cb00710903e80035000db1d17765697221";
/// An answer, in GRE with checksum, key and sequence number; and what the subscriber gets.
const FROM_CORE: &str = "02000000000202000000cc0988471388013f45000043000100003d2ff926c0000263c0000201\
    b0000800f5520000abcdef01000000074500001f432100003911f69fcb0071090a010203003503e8000bd24372696f";
const TO_SUBSCRIBER: &str = "02000000aa0102000000000188a80064810000c808004500001f432100003811f79fcb00\
    71090a010203003503e8000bd24372696f";

#[test]
fn frames_are_those_of_scapy() {
    let mut r = gateway(&config());
    assert_eq!(r.rx(2, &hex(FROM_CORE)).only_drop(), DropReason::Unreachable);
    // Padded as on a wire, both ways: padding ends at the gateway.
    let mut padded = hex(FROM_SUBSCRIBER);
    padded.resize(64, 0xee);
    let out = r.rx(1, &padded).one();
    assert_eq!((out.port, out.bytes), (2, hex(TO_CORE)));
    let mut padded = hex(FROM_CORE);
    padded.extend([0xee; 9]);
    let out = r.rx(3, &padded).one();
    assert_eq!((out.port, out.bytes), (1, hex(TO_SUBSCRIBER)));

    let mut r = gateway(&BngConfig { checksum: GreSum::Absent, ..config() });
    let out = r.rx(1, &hex(FROM_SUBSCRIBER)).one();
    assert_eq!((out.port, out.bytes), (2, hex(TO_CORE_PLAIN)));
    assert_eq!(r.rx(2, &hex(TO_CORE)).only_drop(), DropReason::Program, "another's MAC");
}

/// A damaged key would be another circuit's (RFC 2784 §2.3); without a sum nobody can tell.
#[test]
fn a_wrong_gre_checksum_is_refused() {
    let mut r = gateway(&config());
    for inner in [200, 201] {
        r.rx(1, &upstream((0, 100, inner), 3, [203, 0, 113, 5], 64, b"")).one();
    }
    let down = |flags| downstream(flags, 0xabcd_ef01, 3, 64, (0, 0), b"odd");
    for flags in [0xa0, 0xb0] {
        assert_eq!(r.rx(2, &down(flags)).one().bytes[18..20], 200u16.to_be_bytes());
        // The sum, the key, and the last byte.
        for (at, bits) in [(43, 1), (49, 3), (down(flags).len() - 1, 0x80)] {
            let mut damaged = down(flags);
            damaged[at] ^= bits;
            assert_eq!(r.rx(2, &damaged).only_drop(), DropReason::Malformed, "{flags:x} {at}");
        }
    }
    assert_eq!(counted(&r, "malformed"), "6");
    let mut plain = down(0x20);
    plain[45] ^= 3;
    assert_eq!(r.rx(2, &plain).one().bytes[18..20], 201u16.to_be_bytes());
}

/// The Internet checksum by long addition.
fn sum(bytes: &[u8]) -> [u8; 2] {
    let mut s = 0u32;
    for pair in bytes.chunks(2) {
        s += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        if s > 0xffff {
            s -= 0xffff;
        }
    }
    (!(s as u16)).to_be_bytes()
}

/// RFC 6040 §4.2, figure 4, by the fields outside and inside: Not-ECT, ECT(1), ECT(0), CE. Between
/// subscriber and core nothing is lost: what is inside is outside, too (§4.1).
#[test]
fn congestion_in_the_core_reaches_subscribers() {
    let mut r = gateway(&config());
    let up = upstream((2, 100, 200), 3, [203, 0, 113, 5], 64, b"");
    assert_eq!(r.rx(1, &up).one().bytes[19], 2);
    let mut dropped = 0;
    for (outer, inner) in (0..4).flat_map(|o| (0..4).map(move |i| (o, i))) {
        let down = downstream(0x20, 0xabcd_ef01, 3, 64, (0xb8 | outer, 0x28 | inner), b"");
        let want = match (outer, inner) {
            (3, 0) => {
                assert_eq!(r.rx(2, &down).only_drop(), DropReason::Congestion);
                dropped += 1;
                continue;
            }
            (3, _) | (_, 3) => 3,
            (1, 2) => 1,
            _ => inner,
        };
        let b = r.rx(2, &down).one().bytes;
        assert_eq!(
            (b[23], sum(&b[22..42])),
            (0x28 | want, [0, 0]),
            "{outer} outside, {inner} inside"
        );
    }
    assert_eq!(counted(&r, "congested in the core"), dropped.to_string());
}

/// Port, MAC, tags.
type Subscriber = (u32, Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Oracle {
    /// By key and address.
    subscribers: HashMap<(u32, [u8; 4]), Subscriber>,
}

/// An IPv4 packet without what lies behind it.
fn whole_ipv4(b: &[u8]) -> Option<Vec<u8>> {
    let total = usize::from(*b.get(2)?) * 256 + usize::from(*b.get(3)?);
    let header = usize::from(b[0] % 16) * 4;
    let good =
        b[0] / 16 == 4 && header >= 20 && total >= header && total <= b.len() && b.len() >= 20;
    good.then(|| b[..total].to_vec())
}

/// A header with a byte changed; the checksum's error, if it has one, stays.
fn changed(mut ip: Vec<u8>, at: usize, to: u8) -> Vec<u8> {
    let have = u16::from_be_bytes([ip[10], ip[11]]);
    let right = |ip: &[u8]| {
        let mut h = ip[..20].to_vec();
        h[10..12].fill(0);
        u16::from_be_bytes(sum(&h))
    };
    let before = right(&ip);
    ip[at] = to;
    // In ones' complement: as far from right as before.
    let mut new = u32::from(have) + u32::from(right(&ip)) + u32::from(!before);
    while new > 0xffff {
        new = new % 65_536 + new / 65_536;
    }
    ip[10..12].copy_from_slice(&(new as u16).to_be_bytes());
    ip
}

/// A hop later.
fn aged(ip: Vec<u8>) -> Option<Vec<u8>> {
    let ttl = ip[8].checked_sub(1).filter(|ttl| *ttl > 0)?;
    Some(changed(ip, 8, ttl))
}

/// With congestion that the outer header tells of: RFC 6040 §4.2, figure 4.
fn marked(outer: u8, ip: Vec<u8>) -> Option<Vec<u8>> {
    let new = match (outer % 4, ip[1] % 4) {
        (3, 0) => return None,
        (3, _) => 3,
        (1, 2) => 1,
        _ => return Some(ip),
    };
    let tos = ip[1] / 4 * 4 + new;
    Some(changed(ip, 1, tos))
}

impl Oracle {
    fn frame(&mut self, c: &BngConfig, port: u32, b: &[u8]) -> Option<(u32, Vec<u8>)> {
        match port {
            1 | 4 => self.access(c, port, b),
            2 | 3 => self.core(c, b),
            _ => None,
        }
    }
    fn access(&mut self, c: &BngConfig, port: u32, b: &[u8]) -> Option<(u32, Vec<u8>)> {
        if b.len() < 22 || b[..6] != US.octets() || b[6] % 2 == 1 {
            return None;
        }
        let tpid = [b[12], b[13]];
        if tpid != [0x88, 0xa8] && tpid != [0x81, 0]
            || b[16..18] != [0x81, 0]
            || b[20..22] != [8, 0]
        {
            return None;
        }
        let vid = |at: usize| u16::from(b[at] % 16) * 256 + u16::from(b[at + 1]);
        let ip = whole_ipv4(&b[22..])?;
        let circuit = c
            .circuits
            .iter()
            .find(|x| x.outer == vid(14) && (x.first..=x.last).contains(&vid(18)))?;
        let key = circuit.key + u32::from(vid(18) - circuit.first);
        let dst = std::net::Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
        let route =
            c.routes.iter().filter(|r| r.to.contains(dst.into())).max_by_key(|r| r.to.len)?;
        let inner = aged(ip.clone())?;
        let who = (key, [ip[12], ip[13], ip[14], ip[15]]);
        if self.subscribers.len() < c.subscribers || self.subscribers.contains_key(&who) {
            let tags = [b[12], b[13], b[14] % 16, b[15], 0x81, 0, b[18] % 16, b[19]];
            self.subscribers.insert(who, (port, b[6..12].to_vec(), tags.to_vec()));
        }
        let mut gre = match c.checksum {
            GreSum::Present => vec![0xa0, 0, 8, 0, 0, 0, 0, 0],
            GreSum::Absent => vec![0x20, 0, 8, 0],
        };
        gre.extend(key.to_be_bytes());
        gre.extend(inner);
        if c.checksum == GreSum::Present {
            let s = sum(&gre);
            gre[4..6].copy_from_slice(&s);
        }
        let mut outer = vec![0x45, ip[1], 0, 0, 0, 0, 0x40, 0, 64, 47, 0, 0];
        outer.extend(c.tunnel.octets());
        outer.extend(route.remote.octets());
        outer[2..4].copy_from_slice(&((20 + gre.len()) as u16).to_be_bytes());
        let s = sum(&outer);
        outer[10..12].copy_from_slice(&s);
        let mut out = route.next_hop.octets().to_vec();
        out.extend(US_CORE.octets());
        out.extend([0x88, 0x47]);
        out.extend((route.label * 4096 + 256 + 64).to_be_bytes());
        out.extend(outer);
        out.extend(gre);
        Some((route.port.0, out))
    }
    fn core(&self, c: &BngConfig, b: &[u8]) -> Option<(u32, Vec<u8>)> {
        if b.len() < 18
            || b[..6] != US_CORE.octets()
            || b[12..14] != [0x88, 0x47]
            || b[16].is_multiple_of(2)
        {
            return None;
        }
        let outer = whole_ipv4(&b[18..])?;
        let fragment = u16::from_be_bytes([outer[6], outer[7]]) % 0x4000 != 0;
        if outer[16..20] != c.tunnel.octets() || outer[9] != 47 || fragment {
            return None;
        }
        let gre = &outer[usize::from(outer[0] % 16) * 4..];
        // No routing, no reserved bits, version 0, a key, IPv4.
        if gre.len() < 4 || gre[0] & 0x4c != 0 || gre[1] & 7 != 0 || gre[0] & 0x20 == 0 {
            return None;
        }
        if gre[2..4] != [8, 0] {
            return None;
        }
        let mut rest = &gre[4..];
        if gre[0] & 0x80 != 0 {
            rest = rest.get(4..)?;
            if sum(gre) != [0, 0] {
                return None;
            }
        }
        let key = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
        rest = &rest[4..];
        if gre[0] & 0x10 != 0 {
            rest = rest.get(4..)?;
        }
        let ip = whole_ipv4(rest)?;
        let to = self.subscribers.get(&(key, [ip[16], ip[17], ip[18], ip[19]]))?;
        let mut out = to.1.clone();
        out.extend(US.octets());
        out.extend(&to.2);
        out.extend([8, 0]);
        out.extend(aged(marked(outer[1], ip)?)?);
        Some((to.0, out))
    }
}

/// A frame from a subscriber.
fn upstream(tags: (u8, u16, u16), src: u8, dst: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, tags.0, 0, 0, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 0, src];
    ip.extend(dst);
    ip.extend(payload);
    let total = ip.len() as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let s = sum(&ip[..20]);
    ip[10..12].copy_from_slice(&s);
    let mut b = US.octets().to_vec();
    b.extend([2, 0, 0, 0, 0xaa, src, 0x88, 0xa8]);
    b.extend((tags.1 | u16::from(tags.0) << 13).to_be_bytes());
    b.extend([0x81, 0]);
    b.extend(tags.2.to_be_bytes());
    b.extend([8, 0]);
    b.extend(ip);
    b
}

/// A frame from the core: GRE with these flags, and ToS outside and inside.
fn downstream(flags: u8, key: u32, dst: u8, ttl: u8, tos: (u8, u8), payload: &[u8]) -> Vec<u8> {
    let inner = &upstream((tos.1, 0, 0), 9, [10, 0, 0, dst], ttl, payload)[22..];
    let mut b = US_CORE.octets().to_vec();
    b.extend([2, 0, 0, 0, 0xcc, 9, 0x88, 0x47, 1, 2, 1, 64]);
    let words = [(0x80, 0), (0x20, key), (0x10, 5)];
    let mut gre = vec![flags, 0, 8, 0];
    for (_, w) in words.iter().filter(|w| flags & w.0 != 0) {
        gre.extend(w.to_be_bytes());
    }
    gre.extend(inner);
    if flags & 0x80 != 0 {
        let s = sum(&gre);
        gre[4..6].copy_from_slice(&s);
    }
    b.extend([0x45, tos.0]);
    b.extend(((20 + gre.len()) as u16).to_be_bytes());
    b.extend([0, 1, 0, 0, 60, 47, 0, 0, 192, 0, 2, 99, 192, 0, 2, 1]);
    b.extend(gre);
    b
}

fn frames() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let payload = || prop::collection::vec(any::<u8>(), 0..80);
    let dst = prop::sample::select(vec![
        [203, 0, 113, 5],
        [203, 0, 113, 199],
        [203, 0, 113, 200],
        [198, 51, 7, 7],
        [198, 52, 0, 1],
    ]);
    let tags = (0u8..8, prop::sample::select(vec![100u16, 101, 102]), 198u16..205);
    let ttl = prop::sample::select(vec![0u8, 1, 2, 64, 255]);
    let up = (prop::sample::select(vec![1u32, 4]), tags, 0u8..4, dst, ttl.clone(), payload())
        .prop_map(|(port, tags, src, dst, ttl, p)| (port, upstream(tags, src, dst, ttl, &p)));
    let flags = prop::sample::select(vec![0x20u8, 0xa0, 0xb0, 0x30, 0, 0x60, 0x24]);
    let key = prop_oneof![0xabcd_ef00u32..0xabcd_ef06, 198u32..206];
    let down = (flags, key, 0u8..5, ttl, (0u8..8, 0u8..8), payload())
        .prop_map(|(flags, key, dst, ttl, tos, p)| (2, downstream(flags, key, dst, ttl, tos, &p)));
    let damage = (any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    (prop_oneof![2 => up, 1 => down], prop::option::weighted(0.4, damage)).prop_map(
        |((port, mut b), damage)| {
            if let Some((at, byte, cut)) = damage {
                let at = at.index(b.len().min(80));
                if cut {
                    b.truncate(at);
                } else {
                    b[at] = byte;
                }
            }
            (port, b)
        },
    )
}

/// What became of a frame, and not what was said of it.
fn one(mut o: Outcome) -> Option<(u32, Vec<u8>)> {
    o.sent.retain(|s| s.origin != Origin::Generated);
    assert_eq!((o.sent.len() + o.dropped.len(), o.consumed), (1, 0));
    o.sent.into_iter().next().map(|s| (s.port, s.bytes))
}

/// What a port takes from now on.
fn narrow(r: &mut Rig, port: u32, bytes: u32) {
    r.ports.iter_mut().filter(|p| p.no == PortNo(port)).for_each(|p| p.ip_bytes = bytes);
    r.pass_ms(200);
}

/// The same with another word of flags and offset.
fn flagged(mut f: Vec<u8>, flags_offset: u16) -> Vec<u8> {
    f[28..30].copy_from_slice(&flags_offset.to_be_bytes());
    f[32..34].fill(0);
    let s = sum(&f[22..42]);
    f[32..34].copy_from_slice(&s);
    f
}

/// An error to a subscriber about a frame of his: type, code, and the word with an MTU.
fn error_about(o: &Outcome, f: &[u8]) -> (u8, u8, u16) {
    assert_eq!((o.sent.len(), o.dropped.len()), (1, 1));
    let s = &o.sent[0];
    assert_eq!((s.port, s.origin), (1, Origin::Generated));
    let front =
        [&f[6..12], &US.octets()[..], &f[12..14], &[f[14] % 16, f[15], 0x81, 0, f[18] % 16]];
    assert_eq!(s.bytes[..19], front.concat());
    assert_eq!(s.bytes[19..22], [f[19], 8, 0]);
    let ip = Ipv4Packet::new_checked(&s.bytes[22..]).unwrap();
    assert_eq!((ip.src(), ip.protocol()), (config().tunnel, IpProtocol::Icmp));
    assert!(ip.has_good_checksum() && ip.ttl() > 1);
    assert_eq!(ip.dst().octets(), f[34..38]);
    let m = ip.payload();
    assert_eq!((sum(m), s.bytes.len()), ([0, 0], 22 + usize::from(ip.total_len())));
    assert_eq!(m[8..], f[22..(22 + 548).min(f.len())]);
    (m[0], m[1], u16::from_be_bytes([m[6], m[7]]))
}

/// RFC 1812 §5.3.1, RFC 1191 §4: the core's MTU is 36 bytes less to a subscriber, label, IPv4, GRE with key and sum; 32 without that.
#[test]
fn subscribers_are_told_what_does_not_pass() {
    const DF: u16 = 0x4000;
    for (sum, mtu) in [(GreSum::Present, 1464), (GreSum::Absent, 1468)] {
        let mut r = gateway(&BngConfig { checksum: sum, ..config() });
        r.pass_ms(200);
        let of = |ttl, len: usize| {
            flagged(upstream((5, 100, 202), 3, [203, 0, 113, 5], ttl, &vec![7; len - 20]), DF)
        };
        for ttl in [0, 1] {
            let f = of(ttl, 100);
            assert_eq!(error_about(&r.rx(1, &f), &f), (11, 0, 0));
        }
        assert_eq!(r.rx(1, &of(2, mtu)).one().bytes.len(), 1514);
        let f = of(2, mtu + 1);
        let o = r.rx(1, &f);
        assert_eq!(o.dropped[0].0, DropReason::FrameTooLong);
        assert_eq!(error_about(&o, &f), (3, 4, mtu as u16));
        // By the port that it would leave by.
        narrow(&mut r, 3, 1000);
        assert_eq!(r.rx(1, &of(2, mtu)).one().bytes.len(), 1514);
        let f = flagged(upstream((0, 101, 9), 3, [198, 51, 0, 5], 9, &[7; 1000]), DF);
        assert_eq!(error_about(&r.rx(1, &f), &f), (3, 4, mtu as u16 - 500));
        let counts = ["TTL expired", "too long", "fragmented", "ICMP errors"];
        assert_eq!(counts.map(|name| counted(&r, name)), ["2", "2", "0", "4"]);
    }
}

/// No errors about errors, later pieces, what is to many or from nobody, or damaged; nor more than a burst of them.
#[test]
fn subscribers_are_not_told_everything() {
    let mut r = gateway(&config());
    r.pass_ms(200);
    let up = |dst, payload: &[u8]| upstream((0, 100, 202), 3, dst, 1, payload);
    let far = [203, 0, 113, 5];
    let icmp = |kind: u8| {
        let mut f = up(far, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        f[31] = 1;
        flagged(f, 0)
    };
    let mut from_nobody = up(far, b"from 0.0.0.3");
    from_nobody[34] = 0;
    let mut damaged = up(far, b"damaged");
    damaged[32] ^= 1;
    let silent = [icmp(3), icmp(4), icmp(5), icmp(11), icmp(12), flagged(up(far, b"piece"), 5)];
    for f in silent.into_iter().chain([flagged(from_nobody, 0), damaged]) {
        r.rx(1, &f).only_drop();
    }
    assert_eq!(r.rx(1, &icmp(8)).sent.len(), 1, "a ping is no error");
    assert_eq!(r.rx(1, &flagged(up(far, b"first piece"), 0x2000)).sent.len(), 1);
    let burst = (0..100).filter(|_| r.rx(1, &up(far, b"one of many")).sent.len() == 1).count();
    assert_eq!(burst, 48, "of 50");
    // What comes from the core ends in silence.
    r.rx(1, &upstream((0, 100, 202), 3, far, 64, b"here I am")).one();
    let down = downstream(0xa0, 0xabcd_ef03, 3, 1, (0, 0), b"over");
    assert_eq!(r.rx(2, &down).only_drop(), DropReason::TtlExpired);
}

/// What may be cut is, before it gets the core's headers, and comes out at the far end as the packet's pieces.
#[test]
fn what_is_too_long_for_the_core_is_cut() {
    let mut r = gateway(&config());
    r.pass_ms(200);
    let payload: Vec<u8> = (0..3000u32).map(|i| (i * 7 % 251) as u8).collect();
    let whole = upstream((0, 100, 201), 3, [203, 0, 113, 5], 64, &payload);
    let o = r.rx(1, &whole);
    let origins: Vec<_> = o.sent.iter().map(|s| (s.port, s.origin)).collect();
    assert_eq!(origins, [(2, Origin::Received), (2, Origin::Cloned), (2, Origin::Cloned)]);
    let mut got = Vec::new();
    for (n, s) in o.sent.iter().enumerate() {
        assert!(s.bytes.len() <= 1514);
        assert_eq!((sum(&s.bytes[18..38]), sum(&s.bytes[38..])), ([0, 0], [0, 0]));
        let p = Ipv4Packet::new_checked(&s.bytes[50..]).unwrap();
        assert!(p.has_good_checksum());
        assert_eq!((p.ttl(), p.ident(), p.more_fragments()), (63, 1, n < 2));
        assert_eq!(usize::from(p.fragment_offset()) * 8, got.len());
        got.extend_from_slice(p.payload());
    }
    assert_eq!(got, payload);
    let counts = ["fragmented", "to core", "too long", "ICMP errors"];
    assert_eq!(counts.map(|name| counted(&r, name)), ["1", "3", "0", "0"]);
    // A wrong header would be made right.
    let mut damaged = whole.clone();
    damaged[32] ^= 1;
    assert_eq!(r.rx(1, &damaged).only_drop(), DropReason::Malformed);
    // All pieces or none.
    r.spares(1);
    assert_eq!(r.rx_as_is(1, &whole).only_drop(), DropReason::NoFrame);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn equals_an_oracle(all in prop::collection::vec(frames(), 1..60), plain in any::<bool>()) {
        let mut c = config();
        if plain {
            c.checksum = GreSum::Absent;
        }
        let (mut r, mut oracle) = (gateway(&c), Oracle::default());
        for (port, b) in all {
            let want = oracle.frame(&c, port, &b);
            prop_assert_eq!(one(r.rx(port, &b)), want, "{} {:02x?}", port, b);
        }
        prop_assert_eq!(counted(&r, "subscribers"), format!("{} of 6", oracle.subscribers.len()));
    }

    #[test]
    fn takes_any_bytes(all in prop::collection::vec((0u32..6, prop::collection::vec(any::<u8>(), 0..120)), 1..20)) {
        let mut r = gateway(&config());
        for (port, b) in all {
            prop_assert_eq!(one(r.rx(port, &b)), None);
        }
    }
}

#[test]
fn idle_subscribers_are_forgotten_and_make_room() {
    let c = BngConfig { idle: Nanos::from_secs(10), ..config() };
    let mut r = gateway(&c);
    let up = |n: u8| upstream((0, 101, 7), n, [198, 51, 1, 1], 64, b"x");
    for n in 0..8 {
        assert_eq!(r.rx(1, &up(n)).one().port, 3, "sent, whether there is room or not");
    }
    assert_eq!(
        (counted(&r, "subscribers"), counted(&r, "no room for subscribers")),
        ("6 of 6".into(), "2".into())
    );
    assert_eq!(
        r.rx(2, &downstream(0x20, 7, 7, 9, (0, 0), b"y")).only_drop(),
        DropReason::Unreachable
    );
    for _ in 0..3 {
        r.pass_ms(6000);
        assert_eq!(r.rx(1, &up(0)).one().port, 3);
    }
    assert_eq!(
        (counted(&r, "subscribers"), counted(&r, "subscribers aged")),
        ("1 of 6".into(), "5".into())
    );
    assert_eq!(r.rx(2, &downstream(0x20, 7, 0, 9, (0, 0), b"y")).one().port, 1);
    assert_eq!(r.rx(1, &up(7)).one().port, 3);
    assert_eq!(r.rx(2, &downstream(0x20, 7, 7, 9, (0, 0), b"y")).one().port, 1);
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let check = |change: &dyn Fn(&mut BngConfig), text: &str| {
        let mut c = config();
        change(&mut c);
        let e = Bng::new(&c).expect_err(text).to_string();
        assert!(e.starts_with("bng: ") && e.contains(text) && !e.contains('\n'), "{e}");
    };
    check(&|c| c.access.clear(), "no access port");
    check(&|c| c.core.clear(), "no core port");
    check(&|c| c.core[0].port = PortNo(1), "port 1 is given twice");
    check(&|c| c.access[0].mac = MacAddr::BROADCAST, "not a unicast");
    check(&|c| c.tunnel = [0, 0, 0, 0].into(), "tunnel");
    check(&|c| c.circuits[0].last = 4096, "0 to 4095");
    check(&|c| c.circuits[0].first = 204, "100.204 to 100.203");
    check(&|c| c.circuits[1].outer = 100, "100.200 is given twice");
    check(&|c| c.circuits[1].key = u32::MAX - 9, "32 bits");
    // Ranges of keys that meet, wherever they stand, and one key alone.
    check(
        &|c| c.circuits[1].key = 0xabcd_ef04,
        "100.200 to 100.203 (keys 2882400001 to 2882400004)",
    );
    check(&|c| c.circuits[0].key = 4095, "101.0 to 101.4095 (keys 0 to 4095) and 100.200");
    check(
        &|c| c.circuits[0] = Circuits { last: 200, key: 9, ..c.circuits[0] },
        "100.200 (key 9) share the key 9; a key is one circuit's: give one of them others",
    );
    let mut beside = config();
    beside.circuits[0].key = 4096;
    Bng::new(&beside).expect("keys that follow each other");
    check(&|c| c.routes[0].to = "203.0.113.1/24".parse().unwrap(), "203.0.113.1/24");
    check(&|c| c.routes[0].to = "2001:db8::/32".parse().unwrap(), "IPv4 network");
    check(&|c| c.routes[1].to = c.routes[0].to, "given twice");
    check(&|c| c.routes[1].port = PortNo(1), "port 1 is no core port");
    check(&|c| c.routes[1].label = 1 << 20, "label 1048576");
    for label in 1..16 {
        check(&|c| c.routes[1].label = label, &format!("label {label} is reserved"));
    }
    let mut null = config();
    null.routes[1].label = 0;
    Bng::new(&null).expect("explicit null");
    check(&|c| c.routes[1].remote = [224, 0, 0, 1].into(), "224.0.0.1");
    check(&|c| c.subscribers = 0, "subscribers = 0");
    check(&|c| c.idle = Nanos::from_millis(9), "idle_s = 0: at least 1");
    let e = Bng::new(&BngConfig::default()).expect_err("no ports");
    assert_eq!(e, BngError::NoPort("access"));
}

/// A gateway that is told something else knows the subscribers whose circuits and ports are as they were.
#[test]
fn subscribers_outlive_a_change_of_circuits() {
    let mut r = gateway(&config());
    r.rx(1, &hex(FROM_SUBSCRIBER)).one();
    let mut c = config();
    // Its port has another place, its circuit is given by another line.
    c.access.reverse();
    c.circuits = vec![Circuits { outer: 100, first: 200, last: 200, key: 0xabcd_ef01 }];
    c.subscribers = 9;
    r.replace(Bng::new(&c).unwrap());
    let out = r.rx(3, &hex(FROM_CORE)).one();
    assert_eq!((out.port, out.bytes), (1, hex(TO_SUBSCRIBER)));
    // Another key, another port's MAC, no circuit: nothing goes where it went.
    let key = Circuits { key: 0xabcd_ef02, ..c.circuits[0] };
    let mut other = c.clone();
    other.access[1].mac = MacAddr([2, 0, 0, 0, 0, 7]);
    for c in [
        BngConfig { circuits: vec![key], ..c.clone() },
        other,
        BngConfig { circuits: vec![], ..c.clone() },
    ] {
        let mut r = gateway(&config());
        r.rx(1, &hex(FROM_SUBSCRIBER)).one();
        r.replace(Bng::new(&c).unwrap());
        assert_eq!(r.rx(3, &hex(FROM_CORE)).only_drop(), DropReason::Unreachable);
    }
}

#[test]
fn subscribers_at_a_port_that_is_another_are_forgotten() {
    let mut r = gateway(&config());
    r.rx(1, &hex(FROM_SUBSCRIBER)).one();
    r.program.forget_port(PortNo(4));
    assert_eq!(r.rx(3, &hex(FROM_CORE)).one().port, 1);
    r.program.forget_port(PortNo(1));
    assert_eq!(r.rx(3, &hex(FROM_CORE)).only_drop(), DropReason::Unreachable);
}
