//! Packets in pieces: what a program does to the pieces of a packet, put together again, is what another of its kind does to the packet. The
//! whole packet is the judge.

use super::*;
use crate::programs_rig::Rig;
use proptest::prelude::*;
use weir_dataplane::PortNo;
use weir_dataplane::programs::balancer::{Backend, Balancer, BalancerConfig, Service};
use weir_dataplane::programs::firewall::{Firewall, FirewallConfig};
use weir_dataplane::programs::nat::{Nat, NatConfig, NatSide, PortOrder};
use weir_packet::Nanos;

pub const INSIDE: u32 = 1;
pub const OUTSIDE: u32 = 2;

/// A frame's packet in pieces whose payloads have `size` bytes, each a frame.
fn split(whole: &[u8], size: usize, ident: u16) -> Vec<Vec<u8>> {
    let payload: Vec<&[u8]> = whole[34..].chunks(size).collect();
    let last = payload.len() - 1;
    let one = |(i, part): (usize, &&[u8])| {
        let mut f = [&whole[..34], part].concat();
        f[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
        f[18..20].copy_from_slice(&ident.to_be_bytes());
        let more = if i == last { 0 } else { 0x2000 };
        f[20..22].copy_from_slice(&(more | (i * size / 8) as u16).to_be_bytes());
        Ipv4Packet::new_unchecked(&mut f[14..]).fill_checksum();
        f
    };
    payload.iter().enumerate().map(one).collect()
}

/// The whole of pieces that came in order; each header is the first's but for what tells it apart.
fn joined(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut all = pieces[0][..34].to_vec();
    let mut at = 0;
    for (i, f) in pieces.iter().enumerate() {
        let more = if i + 1 == pieces.len() { 0 } else { 0x2000 };
        assert_eq!(f[20..22], (more | (at / 8) as u16).to_be_bytes());
        assert_eq!(usize::from(u16::from_be_bytes([f[16], f[17]])), f.len() - 14);
        at += f.len() - 34;
        assert_eq!((&f[..16], f[18..20].to_vec()), (&all[..16], all[18..20].to_vec()));
        assert_eq!((&f[22..24], &f[26..34]), (&all[22..24], &all[26..34]));
        assert!(Ipv4Packet::new_checked(&f[14..]).unwrap().has_good_checksum());
    }
    pieces.iter().for_each(|f| all.extend(&f[34..]));
    let len = all.len() as u16 - 14;
    all[16..18].copy_from_slice(&len.to_be_bytes());
    all[20..22].fill(0);
    Ipv4Packet::new_unchecked(&mut all[14..]).fill_checksum();
    all
}

pub fn nat() -> Rig {
    let side = |p: u32| NatSide { port: PortNo(p), mac: mac(200 + p as u8) };
    let pool = vec![[192, 0, 2, 1].into()];
    let mut c = NatConfig::new(side(INSIDE), side(OUTSIDE), mac(9), pool);
    // Two of them choose alike.
    (c.ports, c.max_mappings, c.port_order) = (2000..=2009, 30, PortOrder::Ascending);
    Rig::new(Nat::new(&c).unwrap(), 3)
}
pub fn firewall() -> Rig {
    let c = FirewallConfig::between(PortNo(INSIDE), PortNo(OUTSIDE));
    Rig::new(Firewall::new(&c).unwrap(), 3)
}
pub fn balancer() -> Rig {
    let backend =
        |n: u8| Backend { name: format!("b{n}"), port: PortNo(OUTSIDE), mac: mac(100 + n) };
    let backends: Vec<Backend> = (0..5).map(backend).collect();
    let at =
        |protocol| Service { at: end([198, 51, 100, 1], 80), protocol, backends: backends.clone() };
    let c = BalancerConfig::new(mac(201), vec![at(Kind::Tcp), at(Kind::Udp)]);
    Rig::new(Balancer::new(&c).unwrap(), 3)
}

/// What left, and by which port; nothing where none did.
pub fn rx(r: &mut Rig, port: u32, frames: &[Vec<u8>]) -> Vec<(u32, Vec<u8>)> {
    let sent = frames.iter().flat_map(|f| r.rx(port, f).sent);
    sent.map(|s| (s.port, s.bytes)).collect()
}

fn status(r: &Rig, name: &str) -> String {
    r.program.status().into_iter().find(|l| l.0 == name).expect("a line of it").1
}

/// With the same identification, as pieces have.
fn named(mut whole: Vec<u8>, ident: u16) -> Vec<u8> {
    whole[18..20].copy_from_slice(&ident.to_be_bytes());
    whole[20..22].fill(0);
    Ipv4Packet::new_unchecked(&mut whole[14..]).fill_checksum();
    whole
}

/// The packet through one program, its pieces through another: either nothing leaves both, or the same.
fn same(whole: &mut Rig, pieces: &mut Rig, port: u32, f: &[u8], size: usize, ident: u16) -> bool {
    let judge = rx(whole, port, &[named(f.to_vec(), ident)]);
    let parts = split(f, size, ident);
    let got = rx(pieces, port, &parts);
    let [(to, judge)] = &judge[..] else {
        assert_eq!(got, []);
        return false;
    };
    assert_eq!(got.len(), parts.len());
    assert!(got.iter().all(|(port, _)| port == to));
    let frames: Vec<Vec<u8>> = got.into_iter().map(|(_, f)| f).collect();
    let got = joined(&frames);
    // A NAT's hosts choose alike, so that it names what goes out itself.
    match whole.program.name() == "nat" && port == INSIDE {
        true => assert_eq!(named(got, 0), named(judge.clone(), 0)),
        false => assert_eq!(&got, judge),
    }
    true
}

fn l4() -> impl Strategy<Value = L4> {
    prop_oneof![Just(L4::Tcp(SYN)), Just(L4::Udp), Just(L4::UdpPlain), Just(L4::Ask)]
}

/// The answer to it.
fn answers(l4: L4) -> L4 {
    match l4 {
        L4::Tcp(_) => L4::Tcp(SYN | ACK),
        L4::Ask => L4::Answer,
        other => other,
    }
}

proptest! {
    #[test]
    fn pieces_are_translated_as_their_packet(
        l4 in l4(), len in 40usize..1400, eights in 3usize..60, ident in any::<u16>(),
    ) {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let (mut one, mut other) = (nat(), nat());
        let host = end([10, 0, 0, 1], 500);
        let far = end([203, 0, 113, 5], 53);
        let out = Packet { macs: (mac(1), mac(201)), src: host, dst: far, l4, ttl: 64, data: &data };
        let size = 8 * eights;
        prop_assert!(same(&mut one, &mut other, INSIDE, &out.frame(), size, ident));
        // Back, to where it came from.
        let at = rx(&mut one, INSIDE, &[out.frame()]).remove(0).1;
        prop_assert_eq!(&at, &rx(&mut other, INSIDE, &[out.frame()]).remove(0).1);
        let field = if l4 == L4::Ask { 38 } else { 34 };
        let to = u16::from_be_bytes([at[field], at[field + 1]]);
        let external = end([192, 0, 2, 1], to);
        let macs = (mac(9), mac(202));
        let back = Packet { macs, src: far, dst: external, l4: answers(l4), ..out };
        prop_assert!(same(&mut one, &mut other, OUTSIDE, &back.frame(), size, ident));
        // To nobody, and from one host inside to another by the outer address.
        let nobody = Packet { dst: end([192, 0, 2, 1], 1999), ..back };
        prop_assert!(!same(&mut one, &mut other, OUTSIDE, &nobody.frame(), size, ident));
        if l4 != L4::Ask {
            let hairpin = Packet { src: end([10, 0, 0, 2], 7), dst: external, ..out };
            prop_assert!(same(&mut one, &mut other, INSIDE, &hairpin.frame(), size, ident));
        }
    }

    #[test]
    fn pieces_pass_a_firewall_as_their_packet(
        l4 in l4(), len in 40usize..1400, eights in 3usize..60, ident in any::<u16>(), first in any::<bool>(),
    ) {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let (mut one, mut other) = (firewall(), firewall());
        let (host, far) = (end([10, 0, 0, 1], 500), end([203, 0, 113, 5], 53));
        let out = Packet { macs: (mac(1), mac(2)), src: host, dst: far, l4, ttl: 64, data: &data };
        let back = Packet { src: far, dst: host, l4: answers(l4), ..out };
        let size = 8 * eights;
        if first {
            prop_assert!(same(&mut one, &mut other, INSIDE, &out.frame(), size, ident));
        }
        prop_assert_eq!(same(&mut one, &mut other, OUTSIDE, &back.frame(), size, ident), first);
    }

    #[test]
    fn pieces_go_to_their_packets_backend(
        tcp in any::<bool>(), len in 40usize..1400, eights in 3usize..60, ident in any::<u16>(), client in 1024u16..,
        served in any::<bool>(),
    ) {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let (mut one, mut other) = (balancer(), balancer());
        let l4 = if tcp { L4::Tcp(SYN) } else { L4::Udp };
        let dst = end([198, 51, 100, 1], if served { 80 } else { 81 });
        let f = Packet { macs: (mac(1), mac(201)), src: end([203, 0, 113, 5], client), dst, l4, ttl: 64, data: &data };
        prop_assert_eq!(same(&mut one, &mut other, INSIDE, &f.frame(), 8 * eights, ident), served);
    }
}

/// A link that takes packets of so many bytes.
fn narrow(r: &mut Rig, port: u32, bytes: u32) {
    r.ports.iter_mut().filter(|p| p.no == PortNo(port)).for_each(|p| p.ip_bytes = bytes);
    r.pass(Nanos::from_millis(40), Nanos::from_millis(20));
}

proptest! {
    /// RFC 4787 REQ-13a: what may be cut is, be it a packet or one of its pieces, and nothing else.
    #[test]
    fn what_is_too_long_is_cut(
        l4 in l4(), len in 40usize..1400, eights in prop_oneof![Just(200usize), 3usize..60], mtu in 68u32..1500,
        over in prop_oneof![Just(None), (0u32..6).prop_map(Some)], inwards in any::<bool>(), ident in any::<u16>(),
    ) {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let (mut one, mut other) = (nat(), nat());
        let (host, far) = (end([10, 0, 0, 1], 500), end([203, 0, 113, 5], 53));
        let out = Packet { macs: (mac(1), mac(201)), src: host, dst: far, l4, ttl: 64, data: &data };
        let at = rx(&mut one, INSIDE, &[out.frame()]).remove(0).1;
        rx(&mut other, INSIDE, &[out.frame()]);
        let field = if l4 == L4::Ask { 38 } else { 34 };
        let to = end([192, 0, 2, 1], u16::from_be_bytes([at[field], at[field + 1]]));
        let back = Packet { macs: (mac(9), mac(202)), src: far, dst: to, l4: answers(l4), ..out };
        let (port, packet) = if inwards { (OUTSIDE, back) } else { (INSIDE, out) };
        // Some are longer than the link takes by a few bytes.
        let total = packet.frame().len() as u32 - 14;
        let mtu = over.map_or(mtu, |n| total - n).max(68);
        narrow(&mut other, 3 - port, mtu);
        let judge = rx(&mut one, port, &[named(packet.frame(), ident)]).remove(0);
        let parts = split(&packet.frame(), 8 * eights, ident);
        let got = rx(&mut other, port, &parts);
        prop_assert!(got.iter().all(|(to, f)| *to == judge.0 && f.len() as u32 <= 14 + mtu));
        let frames: Vec<Vec<u8>> = got.into_iter().map(|(_, f)| f).collect();
        let same = |f| if inwards { f } else { named(f, 0) };
        prop_assert_eq!(same(joined(&frames)), same(judge.1));
        let longer = parts.iter().filter(|f| f.len() as u32 > 14 + mtu).count();
        prop_assert_eq!(status(&other, "fragmented"), longer.to_string());
        if longer == 0 {
            prop_assert_eq!(frames.len(), parts.len());
        }
    }
}

/// Two hosts inside call their packets alike, and their pieces go out one by one: what arrives is both packets (RFC 6864 §5.3.1).
#[test]
fn hosts_that_choose_alike_are_told_apart() {
    let ident = |f: &[u8]| u16::from_be_bytes([f[18], f[19]]);
    let mut r = nat();
    let far = end([203, 0, 113, 5], 53);
    let data = [[1; 900], [2; 900]];
    let of = |n: usize| {
        let src = end([10, 0, 0, 1 + n as u8], 500);
        let macs = (mac(1 + n as u8), mac(201));
        Packet { macs, src, dst: far, l4: L4::Udp, ttl: 64, data: &data[n] }
    };
    let parts = [0, 1].map(|n| split(&of(n).frame(), 104, 77));
    let mixed: Vec<_> =
        parts[0].iter().zip(&parts[1]).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    narrow(&mut r, OUTSIDE, 100);
    let sent: Vec<_> = rx(&mut r, INSIDE, &mixed).into_iter().map(|(_, f)| f).collect();
    let (a, b): (Vec<_>, Vec<_>) = sent.iter().cloned().partition(|f| ident(f) == ident(&sent[0]));
    for (n, pieces) in [a, b].into_iter().enumerate() {
        let whole = joined(&pieces);
        assert_eq!(&whole[42..], data[n]);
    }
    narrow(&mut r, OUTSIDE, 1500);
    // So are packets that others may cut. What nobody may cut is called as it was, and so is what comes in.
    let name = |r: &mut Rig, port, f: Vec<u8>| ident(&rx(r, port, &[f])[0].1);
    let whole = |r: &mut Rig, n| name(r, INSIDE, named(of(n).frame(), 77));
    assert_ne!(whole(&mut r, 0), whole(&mut r, 1));
    let mut atomic = named(of(0).frame(), 77);
    atomic[20] = 0x40;
    Ipv4Packet::new_unchecked(&mut atomic[14..]).fill_checksum();
    assert_eq!(name(&mut r, INSIDE, atomic), 77);
    let external = end([192, 0, 2, 1], 2000);
    let back = Packet { macs: (mac(9), mac(202)), src: far, dst: external, ..of(0) };
    assert_eq!(name(&mut r, OUTSIDE, named(back.frame(), 77)), 77);
    // Nor does that take one of those that hosts inside get for the same destination.
    let hairpin = Packet { dst: external, ..of(1) };
    let inside = |r: &mut Rig| name(r, INSIDE, named(hairpin.frame(), 77));
    let before = inside(&mut r);
    for f in split(&back.frame(), 104, 77) {
        assert_eq!(name(&mut r, OUTSIDE, f), 77);
    }
    assert_eq!(inside(&mut r), before.wrapping_add(1));
}

/// A frame may come twice; the receiver takes a first piece that it has already for nothing new. What is called the same and is another
/// packet is told apart.
#[test]
fn a_first_piece_that_comes_twice_is_one() {
    let ident = |f: &[u8]| u16::from_be_bytes([f[18], f[19]]);
    let mut r = nat();
    let (src, dst) = (end([10, 0, 0, 1], 500), end([203, 0, 113, 5], 53));
    let of = |l4, data| Packet { macs: (mac(1), mac(201)), src, dst, l4, ttl: 64, data };
    for l4 in [L4::Udp, L4::UdpPlain, L4::Tcp(ACK), L4::Ask] {
        let parts = split(&of(l4, &[1; 300]).frame(), 104, 77);
        let again = [&parts[..2], &parts[..1], &parts[2..]].concat();
        let mut sent: Vec<_> = rx(&mut r, INSIDE, &again).into_iter().map(|(_, f)| f).collect();
        let repeated = sent.remove(2);
        assert_eq!(repeated, sent[0], "{l4:?}");
        assert_eq!(joined(&sent)[34..].len(), parts.iter().map(|f| f.len() - 34).sum(), "{l4:?}");
        let name = |r: &mut Rig, f: &Vec<u8>| ident(&rx(r, INSIDE, std::slice::from_ref(f))[0].1);
        if l4 != L4::UdpPlain {
            let other = split(&of(l4, &[2; 300]).frame(), 104, 77);
            assert_ne!(name(&mut r, &other[0]), ident(&sent[0]), "{l4:?}");
        }
        // Later it is no repetition.
        let first = name(&mut r, &parts[0]);
        r.pass(Nanos::from_secs(16), Nanos::from_millis(100));
        assert_ne!(name(&mut r, &parts[0]), first, "{l4:?}");
    }
}

/// What Ethernet has behind a packet is not of it, and a packet whose pieces find no frames ends as a whole.
#[test]
fn what_is_cut_is_the_packet() {
    let data = [7; 572];
    let mut r = nat();
    narrow(&mut r, OUTSIDE, 600);
    let (src, dst) = (end([10, 0, 0, 1], 500), end([203, 0, 113, 5], 53));
    let p = Packet { macs: (mac(1), mac(201)), src, dst, l4: L4::Udp, ttl: 64, data: &data };
    let fits = named(p.frame(), 1);
    let sent = rx(&mut r, INSIDE, &[[&fits[..], &[0; 9]].concat()]);
    assert_eq!((sent.len(), sent[0].1.len()), (1, 614));
    let long = named(Packet { data: &[7; 1400], ..p }.frame(), 2);
    r.spares(1);
    assert_eq!(r.rx_as_is(INSIDE, &long).only_drop(), DropReason::NoFrame);
    assert_eq!((status(&r, "too long"), status(&r, "fragmented")), ("1".into(), "0".into()));
    assert_eq!(rx(&mut r, INSIDE, &[long]).len(), 3);
}

/// Pieces that come before their first, too late, of another packet, or so that they would write over its ports.
#[test]
fn pieces_that_are_nobodys_are_dropped() {
    let data = [7; 400];
    let out = |l4| Packet {
        macs: (mac(1), mac(201)),
        src: end([10, 0, 0, 1], 500),
        dst: end([203, 0, 113, 5], 53),
        l4,
        ttl: 64,
        data: &data,
    };
    for mut r in [nat(), firewall()] {
        let parts = split(&out(L4::Udp).frame(), 104, 5);
        assert_eq!(r.rx(INSIDE, &parts[1]).only_drop(), DropReason::Fragment);
        assert_eq!(rx(&mut r, INSIDE, &parts).len(), parts.len());
        // By another port, with another identification.
        assert_ne!(r.rx(OUTSIDE, &parts[1]).sent.len(), 1);
        let others = split(&out(L4::Udp).frame(), 104, 6);
        assert_eq!(r.rx(INSIDE, &others[1]).only_drop(), DropReason::Fragment);
        r.pass(Nanos::from_secs(14), Nanos::from_millis(20));
        assert_eq!(rx(&mut r, INSIDE, &parts[1..2]).len(), 1);
        r.pass(Nanos::from_secs(3), Nanos::from_millis(20));
        assert_eq!(r.rx(INSIDE, &parts[1]).only_drop(), DropReason::Fragment);
        // A first piece without all of its header; one that begins in it (RFC 1858), one that ends nowhere.
        let tiny = split(&out(L4::Tcp(SYN)).frame(), 16, 7);
        assert_eq!(r.rx(INSIDE, &tiny[0]).only_drop(), DropReason::Fragment);
        let syn = split(&out(L4::Tcp(SYN)).frame(), 104, 8);
        assert_eq!(rx(&mut r, INSIDE, &syn[..1]).len(), 1);
        for (offset, passes) in [(1u16, false), (2, false), (3, true), (8000, true), (8191, false)]
        {
            let mut f = syn[1].clone();
            f[20..22].copy_from_slice(&offset.to_be_bytes());
            Ipv4Packet::new_unchecked(&mut f[14..]).fill_checksum();
            assert_eq!(r.rx(INSIDE, &f).sent.len(), usize::from(passes), "{offset}");
        }
        assert_ne!(status(&r, "fragments dropped"), "0");
        assert_ne!(status(&r, "fragments passed"), "0");
    }
}

/// A frame to somebody else says nothing of our packets, whatever it is called.
#[test]
fn pieces_to_others_are_nobodys() {
    let data = [7; 400];
    let (src, dst) = (end([10, 0, 0, 1], 500), end([198, 51, 100, 1], 80));
    let of =
        |to| Packet { macs: (mac(1), to), src, dst, l4: L4::Udp, ttl: 64, data: &data }.frame();
    for mut r in [nat(), balancer()] {
        let (ours, others) = (split(&of(mac(201)), 104, 5), split(&of(mac(77)), 104, 5));
        assert_eq!(rx(&mut r, INSIDE, &ours[..1]).len(), 1);
        assert!(refused(&r.rx(INSIDE, &others[0])) && refused(&r.rx(INSIDE, &others[1])));
        assert_eq!(rx(&mut r, INSIDE, &ours[1..]).len(), ours.len() - 1);
    }
}

/// As many first pieces as anybody likes: the pieces of the newest are known, and no other thing suffers.
#[test]
fn a_flood_of_first_pieces_is_bounded() {
    let data = [7; 200];
    let mut r = firewall();
    for n in 0..5_000u16 {
        let src = end([10, 0, (n >> 8) as u8, n as u8], 500);
        let dst = end([203, 0, 113, 5], 53);
        let p = Packet { macs: (mac(1), mac(2)), src, dst, l4: L4::Udp, ttl: 64, data: &data };
        let parts = split(&p.frame(), 104, n);
        assert_eq!(rx(&mut r, INSIDE, &parts[..1]).len(), 1);
        if n % 7 == 0 {
            assert_eq!(rx(&mut r, INSIDE, &parts[1..]).len(), 1);
        }
    }
}
