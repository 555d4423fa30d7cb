//! The NAT against an oracle that knows what RFC 4787, 5382 and 5508 ask for and nothing of ports
//! but what it has seen: which one a new mapping has is the NAT's choice, and is held against what
//! it may be. Every frame that leaves is compared, byte for byte, with one made anew.

use super::*;
use crate::programs_rig::Rig;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use weir_dataplane::programs::nat::{Nat, NatConfig, NatError, NatSide, NatTimeouts, PortOrder};
use weir_dataplane::{Ahead, PortNo};
use weir_packet::{Nanos, Pool};

const INSIDE: u32 = 1;
const OUTSIDE: u32 = 2;
const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);

fn ours(port: u32) -> MacAddr {
    mac(200 + port as u8)
}
fn pool() -> Vec<Ipv4Addr> {
    vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()]
}
fn config() -> NatConfig {
    let side = |p| NatSide { port: PortNo(p), mac: ours(p) };
    let s = |s: u64| Nanos::from_millis(1000 * s + 500);
    let mut c = NatConfig::new(side(INSIDE), side(OUTSIDE), GATEWAY, pool());
    c.inside_addresses = vec![[10, 0, 0, 254].into()];
    c.ports = 2000..=2099;
    c.max_mappings = 600;
    c.timeouts = NatTimeouts { udp: s(5), tcp_open: s(20), tcp_transitory: s(4), query: s(2) };
    c
}
fn rig() -> Rig {
    Rig::new(Nat::new(&config()).unwrap(), 3)
}
fn host(n: u8, port: u16) -> Endpoint {
    end([10, 0, 0, n], port)
}
fn peer(n: u8) -> Endpoint {
    end([203, 0, 113, n], 53)
}
/// From a host inside.
fn out(src: Endpoint, dst: Endpoint, l4: L4) -> Packet<'static> {
    let n = src.addr.octets()[3];
    Packet { macs: (mac(n), ours(INSIDE)), src, dst, l4, ttl: 64, data: b"some data" }
}
/// From outside.
fn back(src: Endpoint, dst: Endpoint, l4: L4) -> Packet<'static> {
    Packet { macs: (GATEWAY, ours(OUTSIDE)), src, dst, l4, ttl: 33, data: b"other data!" }
}
fn seconds(r: &mut Rig, s: u64) {
    r.pass(Nanos::from_secs(s), Nanos::from_millis(20));
}
fn status(r: &Rig, name: &str) -> String {
    r.program.status().into_iter().find(|l| l.0 == name).expect("a line of it").1
}

/// What left, and by which port; nothing when it was dropped for the NAT's reasons.
fn rx(r: &mut Rig, port: u32, f: &[u8]) -> Option<(u32, Vec<u8>)> {
    let o = r.rx(port, f);
    (!refused(&o)).then(|| {
        let sent = o.one();
        (sent.port, sent.bytes)
    })
}

/// Sends from inside; the external endpoint that it has outside.
fn external(r: &mut Rig, p: Packet<'_>) -> Option<Endpoint> {
    let (port, f) = rx(r, INSIDE, &p.frame())?;
    assert_eq!(port, OUTSIDE);
    let ip = Ipv4Packet::new_checked(&f[14..]).unwrap();
    let at = if p.l4.kind() == Kind::Query { 38 } else { 34 };
    let e = Endpoint::new(ip.src(), u16::from_be_bytes([f[at], f[at + 1]]));
    let want = Packet { macs: (ours(OUTSIDE), GATEWAY), src: e, ttl: p.ttl - 1, ..p };
    assert_eq!(f, want.frame(), "made anew");
    Some(e)
}

/// Sends from outside to an external endpoint; whether it came to this host inside.
fn comes_in(r: &mut Rig, p: Packet<'_>, to: Endpoint) -> bool {
    let Some((port, f)) = rx(r, OUTSIDE, &p.frame()) else { return false };
    let n = to.addr.octets()[3];
    let want = Packet { macs: (ours(INSIDE), mac(n)), dst: to, ttl: p.ttl - 1, ..p };
    assert_eq!((port, f), (INSIDE, want.frame()), "made anew");
    true
}

#[test]
fn a_mapping_serves_all_peers() {
    let mut r = rig();
    for l4 in [L4::Udp, L4::UdpPlain, L4::Tcp(SYN)] {
        let e = external(&mut r, out(host(1, 500), peer(1), l4)).unwrap();
        assert!(pool().contains(&e.addr) && (2000..=2099).contains(&e.port));
        assert_eq!(external(&mut r, out(host(1, 500), peer(2), l4)), Some(e));
        assert!(comes_in(&mut r, back(peer(1), e, l4), host(1, 500)));
        assert!(comes_in(&mut r, back(peer(77), e, l4), host(1, 500)), "whoever asks");
        assert!(!comes_in(
            &mut r,
            back(peer(1), Endpoint::new(e.addr, e.port ^ 1), l4),
            host(1, 500)
        ));
    }
    // Odd lengths: the last byte has a word of its own in the sum.
    let odd = Packet { data: b"odd", ..out(host(1, 501), peer(1), L4::Udp) };
    external(&mut r, odd).unwrap();
    let e = external(&mut r, out(host(1, 9), peer(1), L4::Ask)).unwrap();
    assert!(comes_in(&mut r, back(peer(1), e, L4::Answer), host(1, 9)));
    assert!(!comes_in(&mut r, back(Endpoint::new(peer(1).addr, e.port), e, L4::Ask), host(1, 9)));
    assert_eq!(external(&mut r, out(host(1, 9), peer(1), L4::Answer)), None, "nobody asked");
}

/// A megabyte of mappings, and then one more; from outside there is nothing on the way to them.
#[test]
fn many_mappings_are_asked_for_ahead() {
    let mut c = config();
    (c.ports, c.max_mappings) = (1024..=65535, 40_000);
    let mut r = Rig::new(Nat::new(&c).unwrap(), 3);
    let mut pool = Pool::new(1, 2048).unwrap();
    let mut frame = pool.alloc().unwrap();
    let first = out(host(1, 1), peer(1), L4::Udp);
    let mut ahead = |r: &Rig, port, p: Packet<'_>| {
        frame.copy_from(&p.frame()).unwrap();
        r.program.expect(&frame, PortNo(port))
    };
    for (n, port) in (0..32_768).map(|i| (1 + i as u8 % 2, 1 + i / 2)) {
        rx(&mut r, INSIDE, &out(host(n, port), peer(1), L4::Udp).frame()).unwrap();
    }
    assert_eq!(ahead(&r, INSIDE, first), Ahead::All);
    let e = external(&mut r, out(host(3, 1), peer(1), L4::Udp)).unwrap();
    assert_eq!(ahead(&r, INSIDE, first), Ahead::Further);
    assert_eq!(ahead(&r, OUTSIDE, back(peer(1), e, L4::Udp)), Ahead::All);
    assert!(comes_in(&mut r, back(peer(1), e, L4::Udp), host(3, 1)));
    pool.free(frame);
}

#[test]
fn a_host_has_one_address_and_ports_are_its_own() {
    let mut r = rig();
    let mut all = BTreeSet::new();
    for n in 1..=20 {
        let of_host: Vec<_> = (0..4)
            .map(|p| external(&mut r, out(host(n, 1000 + p), peer(1), L4::Udp)).unwrap())
            .collect();
        assert!(of_host.iter().all(|e| e.addr == of_host[0].addr), "RFC 4787 REQ-2");
        all.extend(of_host);
    }
    assert_eq!(all.len(), 80, "RFC 4787 REQ-3: none is shared");
    assert_eq!(all.iter().map(|e| e.addr).collect::<BTreeSet<_>>().len(), 2, "both are used");
}

#[test]
fn ports_and_mappings_are_bounded() {
    let mut c = config();
    (c.addresses, c.max_mappings) = (vec![[192, 0, 2, 1].into()], 110);
    let mut r = Rig::new(Nat::new(&c).unwrap(), 3);
    let mut ports = BTreeSet::new();
    for p in 0..100 {
        ports.insert(external(&mut r, out(host(1, p), peer(1), L4::Udp)).unwrap().port);
    }
    assert_eq!(ports, (2000..=2099).collect());
    assert_eq!(external(&mut r, out(host(1, 100), peer(1), L4::Udp)), None);
    assert_eq!(status(&r, "no port free"), "1");
    for p in 0..10 {
        external(&mut r, out(host(1, p), peer(1), L4::Tcp(SYN))).unwrap();
    }
    assert_eq!(external(&mut r, out(host(1, 10), peer(1), L4::Tcp(SYN))), None);
    assert_eq!(
        (status(&r, "mappings full"), status(&r, "mappings")),
        ("1".into(), "110 of 110".into())
    );
    seconds(&mut r, 12);
    assert_eq!(status(&r, "mappings"), "0 of 110");
    external(&mut r, out(host(2, 1), peer(1), L4::Udp)).unwrap();
}

#[test]
fn time_ends_mappings() {
    let mut r = rig();
    let udp = host(1, 1);
    let e = external(&mut r, out(udp, peer(1), L4::Udp)).unwrap();
    seconds(&mut r, 5);
    assert!(comes_in(&mut r, back(peer(1), e, L4::Udp), udp));
    seconds(&mut r, 1);
    assert!(!comes_in(&mut r, back(peer(1), e, L4::Udp), udp), "outside does not renew it");
    // TCP: transitory until both have spoken, then long, until both have said FIN.
    let tcp = host(1, 2);
    let e = external(&mut r, out(tcp, peer(1), L4::Tcp(SYN))).unwrap();
    assert!(comes_in(&mut r, back(peer(1), e, L4::Tcp(SYN | ACK)), tcp));
    seconds(&mut r, 19);
    assert!(comes_in(&mut r, back(peer(1), e, L4::Tcp(ACK)), tcp));
    seconds(&mut r, 19);
    assert_eq!(external(&mut r, out(tcp, peer(1), L4::Tcp(FIN | ACK))), Some(e));
    seconds(&mut r, 19);
    assert!(comes_in(&mut r, back(peer(1), e, L4::Tcp(FIN | ACK)), tcp));
    seconds(&mut r, 4);
    assert_eq!(external(&mut r, out(tcp, peer(1), L4::Tcp(ACK))), Some(e));
    seconds(&mut r, 5);
    assert!(!comes_in(&mut r, back(peer(1), e, L4::Tcp(ACK)), tcp), "closed");
    // Without an answer, or with a stranger's alone, it never was open.
    let tcp = host(1, 3);
    let e = external(&mut r, out(tcp, peer(1), L4::Tcp(SYN))).unwrap();
    assert!(comes_in(&mut r, back(peer(2), e, L4::Tcp(ACK)), tcp));
    seconds(&mut r, 5);
    assert!(!comes_in(&mut r, back(peer(1), e, L4::Tcp(SYN | ACK)), tcp));
    // A reset ends it, but not where another connection uses the mapping.
    for (many, lives) in [(false, false), (true, true)] {
        let tcp = host(1, 4 + u16::from(many));
        let e = external(&mut r, out(tcp, peer(1), L4::Tcp(SYN))).unwrap();
        assert!(comes_in(&mut r, back(peer(1), e, L4::Tcp(SYN | ACK)), tcp));
        if many {
            external(&mut r, out(tcp, peer(2), L4::Tcp(SYN))).unwrap();
        }
        assert!(comes_in(&mut r, back(peer(1), e, L4::Tcp(RST)), tcp));
        seconds(&mut r, 6);
        assert_eq!(comes_in(&mut r, back(peer(2), e, L4::Tcp(ACK)), tcp), lives);
    }
}

/// A reset from outside ends a mapping's long time if its peer can have sent it (RFC 5961 §3).
#[test]
fn a_guessed_reset_takes_no_mapping() {
    let mut r = rig();
    for (n, (away, lives)) in [
        (0, false),
        (1460, false),
        (16_000, false),
        (20_000, true),
        (1 << 31, true),
        (u32::MAX - 999, true),
    ]
    .into_iter()
    .enumerate()
    {
        let tcp = host(1, 100 + n as u16);
        let first = external(&mut r, out(tcp, peer(1), L4::Tcp(SYN))).unwrap();
        assert!(comes_in(&mut r, back(peer(1), first, L4::Tcp(SYN | ACK)), tcp));
        let acks = numbered(out(tcp, peer(1), L4::Tcp(ACK)).frame(), 5, 70_000);
        assert!(rx(&mut r, INSIDE, &acks).is_some());
        let f = back(peer(1), first, L4::Tcp(RST)).frame();
        let sent = rx(&mut r, OUTSIDE, &numbered(f, 70_000u32.wrapping_add(away), 0));
        assert!(sent.is_some_and(|s| s.0 == INSIDE), "the host judges it");
        seconds(&mut r, 6);
        assert_eq!(comes_in(&mut r, back(peer(2), first, L4::Tcp(ACK)), tcp), lives, "{away}");
    }
}

#[test]
fn hosts_inside_reach_each_other() {
    let mut r = rig();
    let (a, b) = (host(1, 500), host(2, 600));
    let eb = external(&mut r, out(b, peer(1), L4::Udp)).unwrap();
    let p = out(a, eb, L4::Udp);
    let (port, f) = rx(&mut r, INSIDE, &p.frame()).unwrap();
    assert_eq!(port, INSIDE);
    let ea = external(&mut r, out(a, peer(1), L4::Udp)).unwrap();
    // From its external address: RFC 4787 REQ-9a.
    let want = Packet { macs: (ours(INSIDE), mac(2)), src: ea, dst: b, ttl: 63, ..p };
    assert_eq!(f, want.frame());
    // B can't take it, and says so: A hears of the packet that it sent.
    let e = error((mac(2), ours(INSIDE)), b.addr, ea.addr, &f, 8);
    let (port, heard) = rx(&mut r, INSIDE, &bytes(e)).unwrap();
    assert_eq!(port, INSIDE);
    let mut sent = p.frame();
    // As it came there: its TTL is one less, and its header's sum follows.
    sent[22] = 63;
    Ipv4Packet::new_unchecked(&mut sent[14..]).fill_checksum();
    let want = error((ours(INSIDE), mac(1)), eb.addr, a.addr, &sent, 8).ttl(63);
    assert_eq!(heard, bytes(want));
    assert!(refused(&r.rx(INSIDE, &out(a, Endpoint::new(eb.addr, 2099 + 1), L4::Udp).frame())));
}

#[test]
fn errors_are_translated_with_what_they_quote() {
    let mut r = rig();
    let router: Ipv4Addr = [198, 51, 100, 77].into();
    for (n, l4) in [L4::Udp, L4::UdpPlain, L4::Tcp(SYN), L4::Ask].into_iter().enumerate() {
        for cut in [8, 12, 20, 100] {
            let a = host(1, 500 + n as u16);
            let sent = out(a, peer(1), l4);
            let e = external(&mut r, sent).unwrap();
            let there = Packet { macs: (mac(0), mac(0)), src: e, ttl: 60, ..sent }.frame();
            let here = Packet { macs: (mac(0), mac(0)), ttl: 60, ..sent }.frame();
            let f = error((GATEWAY, ours(OUTSIDE)), router, e.addr, &there, cut);
            let (port, got) = rx(&mut r, OUTSIDE, &bytes(f)).unwrap();
            assert_eq!(port, INSIDE);
            let want = error((ours(INSIDE), mac(1)), router, a.addr, &here, cut).ttl(63);
            if cut != 12 || !matches!(l4, L4::Tcp(_)) {
                assert_eq!(got, bytes(want), "{l4:?} {cut}");
            }
            // The other way: what came in, and A has nobody there.
            if matches!(l4, L4::Ask) {
                continue;
            }
            let came = back(peer(3), e, l4);
            assert!(comes_in(&mut r, came, a));
            let here = Packet { macs: (mac(0), mac(0)), dst: a, ttl: 32, ..came }.frame();
            let there = Packet { macs: (mac(0), mac(0)), ttl: 32, ..came }.frame();
            let f = error((mac(1), ours(INSIDE)), a.addr, peer(3).addr, &here, cut);
            let (port, got) = rx(&mut r, INSIDE, &bytes(f)).unwrap();
            let want = error((ours(OUTSIDE), GATEWAY), e.addr, peer(3).addr, &there, cut).ttl(63);
            assert_eq!((port, got), (OUTSIDE, bytes(want)), "{l4:?} {cut}");
        }
    }
    let e = external(&mut r, out(host(1, 1), peer(1), L4::Udp)).unwrap();
    let sent = Packet { src: e, ..out(host(1, 1), peer(1), L4::Udp) }.frame();
    let whole = bytes(error((GATEWAY, ours(OUTSIDE)), router, e.addr, &sent, 8));
    for at in [36, 50, 60] {
        let mut f = whole.clone();
        f[at] ^= 1;
        assert!(refused(&r.rx(OUTSIDE, &f)), "byte {at}: a wrong sum");
    }
    let f = error((GATEWAY, ours(OUTSIDE)), router, pool()[0], &sent[..30], 8);
    assert!(refused(&r.rx(OUTSIDE, &bytes(f))), "too little quoted");
    // An error about an error.
    let f = error((GATEWAY, ours(OUTSIDE)), router, e.addr, &whole, 8);
    assert!(refused(&r.rx(OUTSIDE, &bytes(f))));
}

/// Gives what the NAT named itself, as others may cut it, the name that it had.
fn named_as(got: &mut [u8], want: &[u8]) {
    let mut ip = Ipv4Packet::new_unchecked(&mut got[14..]);
    assert!(ip.has_good_checksum());
    if !ip.dont_fragment() {
        ip.set_ident(Ipv4Packet::new_unchecked(&want[14..]).ident());
        ip.fill_checksum();
    }
}

/// Scapy's frames: `make_nat.py`.
#[test]
fn scapy_makes_the_same_of_it() {
    let mut c = config();
    (c.addresses, c.port_order) = (vec![pool()[0]], PortOrder::Ascending);
    c.max_mappings = 300;
    let mut r = Rig::new(Nat::new(&c).unwrap(), 3);
    let at = |text: &str| {
        let (port, hex) = text.split_once(' ').expect("a port and a frame");
        let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (port.parse::<u32>().unwrap(), (0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>())
    };
    let lines = include_str!("../golden/nat.txt").lines().filter(|l| !l.starts_with('#'));
    let mut count = 0;
    for (i, line) in lines.enumerate() {
        let (given, want) = line.split_once('\t').expect("two frames");
        let (port, f) = at(given);
        let want = (want != "-").then(|| at(want));
        let mut got = rx(&mut r, port, &f);
        if let (1, Some((_, got)), Some((_, want))) = (port, &mut got, &want) {
            named_as(got, want);
        }
        assert_eq!(got, want, "line {}", i + 3);
        count += 1;
    }
    assert!(count > 30, "{count}");
}

#[test]
fn bad_frames_end_here() {
    let mut r = rig();
    for (what, f) in bad_frames(ours(INSIDE), host(1, 1), peer(1)) {
        assert!(r.rx(INSIDE, &f).sent.is_empty(), "{what}");
    }
    for (what, f) in bad_frames(ours(OUTSIDE), peer(1), end([192, 0, 2, 1], 2000)) {
        assert!(r.rx(OUTSIDE, &f).sent.is_empty(), "{what}");
    }
    for ttl in [0, 1] {
        let p = Packet { ttl, ..out(host(1, 1), peer(1), L4::Udp) };
        assert!(said(&mut r, INSIDE, &p, DropReason::TtlExpired).is_some());
    }
    let lies = [
        out(end([192, 0, 2, 1], 5), peer(1), L4::Udp),
        out(end([127, 0, 0, 1], 5), peer(1), L4::Udp),
        out(host(1, 1), end([224, 0, 0, 1], 5), L4::Udp),
        Packet { macs: (mac(1), mac(2)), ..out(host(1, 1), peer(1), L4::Udp) },
    ];
    assert!(lies.iter().all(|p| refused(&r.rx(INSIDE, &p.frame()))));
    let lie = back(end([192, 0, 2, 2], 5), end([192, 0, 2, 1], 2000), L4::Udp);
    assert!(refused(&r.rx(OUTSIDE, &lie.frame())));
    assert!(refused(&r.rx(3, &out(host(1, 1), peer(1), L4::Udp).frame())));
    let whole = Frame::udp_v4("10.0.0.1:1".parse().unwrap(), "203.0.113.1:2".parse().unwrap(), b"");
    let f = fragment(whole.macs(mac(1), ours(INSIDE)), 100);
    assert_eq!(r.rx(INSIDE, &f).only_drop(), DropReason::Fragment);
    assert_eq!(status(&r, "made"), "0");
    assert_eq!(who_has(&mut r, INSIDE, [10, 0, 0, 254].into()), Some(ours(INSIDE)));
    assert_eq!(who_has(&mut r, INSIDE, pool()[0]), None);
    assert_eq!(who_has(&mut r, OUTSIDE, pool()[1]), Some(ours(OUTSIDE)));
}

#[test]
fn what_cannot_be_is_said() {
    let wrong = |change: &dyn Fn(&mut NatConfig)| {
        let mut c = config();
        change(&mut c);
        Nat::new(&c).unwrap_err()
    };
    assert_eq!(wrong(&|c| c.outside.port = c.inside.port), NatError::OnePort(PortNo(1)));
    assert!(matches!(wrong(&|c| c.gateway = MacAddr::BROADCAST), NatError::Mac { .. }));
    assert_eq!(wrong(&|c| c.gateway = c.outside.mac), NatError::OwnGateway(ours(OUTSIDE)));
    assert_eq!(wrong(&|c| c.addresses.clear()), NatError::Addresses(0));
    assert_eq!(
        wrong(&|c| c.addresses[0] = Ipv4Addr::LOCALHOST),
        NatError::Address(Ipv4Addr::LOCALHOST)
    );
    assert_eq!(wrong(&|c| c.inside_addresses = pool()), NatError::AddressTwice(pool()[0]));
    assert_eq!(wrong(&|c| c.ports = 0..=9), NatError::Ports { first: 0, last: 9 });
    assert!(matches!(wrong(&|c| c.max_mappings = 601), NatError::Mappings { most: 600, .. }));
}

proptest! {
    /// UDP and queries of a few hosts in any order, with time passing.
    #[test]
    fn is_what_its_mappings_say(
        steps in prop::collection::vec((0u64..4, any::<bool>(), 1u8..4, 0u16..3, 1u8..4, any::<bool>()), 1..150),
    ) {
        let mut r = rig();
        // Internal endpoint to external one, and when it was renewed.
        let mut maps = HashMap::<(Endpoint, Kind), (Endpoint, u64)>::new();
        // What was an external endpoint once, to knock at.
        let mut known = vec![(pool()[0], 2000, Kind::Udp)];
        let mut now = 0;
        for (wait, outwards, h, port, p, udp) in steps {
            let wait = wait.saturating_sub(1);
            if wait > 0 {
                seconds(&mut r, wait);
                now += wait;
            }
            let lives = |kind| if kind == Kind::Udp { 5 } else { 2 };
            maps.retain(|k, m| now - m.1 <= lives(k.1));
            if outwards {
                let (l4, inside) = (if udp { L4::Udp } else { L4::Ask }, host(h, port));
                let e = external(&mut r, out(inside, peer(p), l4)).expect("room");
                let key = (inside, l4.kind());
                match maps.get(&key) {
                    Some(m) => prop_assert_eq!(m.0, e, "endpoint-independent"),
                    None => {
                        let taken = maps.iter().any(|(k, m)| k.1 == l4.kind() && m.0 == e);
                        prop_assert!(!taken, "shared");
                        prop_assert!(pool().contains(&e.addr) && (2000..=2099).contains(&e.port));
                    }
                }
                maps.insert(key, (e, now));
                known.push((e.addr, e.port, l4.kind()));
            } else {
                let (addr, port, kind) = known[usize::from(port) * 7 % known.len()];
                let to = Endpoint::new(addr, port);
                let l4 = if kind == Kind::Udp { L4::Udp } else { L4::Answer };
                let owner = maps.iter().find(|(k, m)| k.1 == kind && m.0 == to).map(|(k, _)| k.0);
                let at = owner.unwrap_or(host(9, 9));
                prop_assert_eq!(comes_in(&mut r, back(peer(p), to, l4), at), owner.is_some());
            }
        }
    }
}

/// A NAT that is told something else keeps the mappings whose external endpoints it has still.
#[test]
fn mappings_outlive_a_change_of_addresses() {
    let mut r = rig();
    let all: Vec<(Endpoint, L4, Endpoint)> = (1..=40)
        .flat_map(|n| [L4::Udp, L4::Tcp(SYN), L4::Ask].map(|l4| (host(n, 7), l4)))
        .map(|(h, l4)| (h, l4, external(&mut r, out(h, peer(1), l4)).unwrap()))
        .collect();
    let answer = |l4| if l4 == L4::Ask { L4::Answer } else { l4 };
    let reached = |r: &mut Rig, pool: &[Ipv4Addr], ports: std::ops::RangeInclusive<u16>| {
        for (h, l4, e) in &all {
            let there = pool.contains(&e.addr) && ports.contains(&e.port);
            assert_eq!(
                comes_in(r, back(peer(1), *e, answer(*l4)), *h),
                there,
                "{h:?} {l4:?} {e:?}"
            );
            if there {
                assert_eq!(external(r, out(*h, peer(1), *l4)), Some(*e));
            }
        }
    };
    let [first, second] = [pool()[0], pool()[1]];
    let third = Ipv4Addr::new(192, 0, 2, 0);
    let mut c = config();
    c.timeouts.udp = Nanos::from_secs(60);
    r.replace(Nat::new(&c).unwrap());
    reached(&mut r, &[first, second], 2000..=2099);
    for addresses in [vec![third, second, first], vec![second, third], vec![second]] {
        c.addresses = addresses;
        c.max_mappings = 100 * c.addresses.len();
        c.ports = 1990..=2099;
        r.replace(Nat::new(&c).unwrap());
        reached(&mut r, &c.addresses, 2000..=2099);
    }
    // What is taken is given to nobody else.
    let taken: BTreeSet<_> =
        all.iter().filter(|(_, l4, e)| *l4 == L4::Udp && e.addr == second).map(|a| a.2).collect();
    let mut given = BTreeSet::new();
    for n in 0.. {
        let Some(e) = external(&mut r, out(host(100, n + 1), peer(1), L4::Udp)) else { break };
        assert!(!taken.contains(&e) && given.insert(e), "{e:?} twice");
    }
    assert_eq!(status(&r, "mappings"), "100 of 100");
    // Nothing of links that are others.
    std::mem::swap(&mut c.inside.port, &mut c.outside.port);
    r.replace(Nat::new(&c).unwrap());
    assert_eq!(status(&r, "mappings"), "0 of 100");
}

fn ident(f: &[u8]) -> u16 {
    u16::from_be_bytes([f[18], f[19]])
}

/// One that is told something else knows what its links take, and which identifications were given out, from the first packet on.
#[test]
fn what_it_has_to_know_outlives_a_change() {
    let mut r = rig();
    r.ports.iter_mut().filter(|p| p.no == PortNo(OUTSIDE)).for_each(|p| p.ip_bytes = 600);
    seconds(&mut r, 2);
    let data = [7; 700];
    let long = Packet { data: &data, ..out(host(1, 500), peer(1), L4::Udp) };
    let mut may_be_cut = out(host(1, 500), peer(1), L4::Udp).frame();
    may_be_cut[20] = 0;
    Ipv4Packet::new_unchecked(&mut may_be_cut[14..]).fill_checksum();
    let name = |r: &mut Rig| ident(&rx(r, INSIDE, &may_be_cut).unwrap().1);
    let before = name(&mut r);
    r.replace(Nat::new(&config()).unwrap());
    assert!(said(&mut r, INSIDE, &long, DropReason::FrameTooLong).is_some());
    assert_eq!(name(&mut r), before.wrapping_add(1));
}

/// The gateway's answer to a ping that is longer than the link takes by now goes in pieces, which may be cut and have a name of their own.
#[test]
fn an_echo_that_is_cut_may_be_cut() {
    let mut r = rig();
    r.ports.iter_mut().filter(|p| p.no == PortNo(INSIDE)).for_each(|p| p.ip_bytes = 600);
    seconds(&mut r, 2);
    let gateway = end([10, 0, 0, 254], 9);
    let ask = Packet { data: &[7; 900], ..out(host(1, 9), gateway, L4::Ask) };
    let sent = [(); 2].map(|()| r.rx(INSIDE, &ask.frame()).sent);
    for pieces in &sent {
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|s| s.bytes[20] & 0x40 == 0), "not to be cut, and cut");
        assert_eq!(ident(&pieces[0].bytes), ident(&pieces[1].bytes));
    }
    assert_ne!(ident(&sent[0][0].bytes), ident(&sent[1][0].bytes));
}

/// What the NAT says of a packet, which is dropped for this: the packet that it quotes and the next hop's MTU, where it says that.
fn said(r: &mut Rig, port: u32, p: &Packet<'_>, why: DropReason) -> Option<(Ipv4Addr, u16)> {
    let frame = p.frame();
    let o = r.rx(port, &frame);
    assert_eq!(o.dropped.iter().map(|d| d.0).collect::<Vec<_>>(), [why]);
    let sent = o.sent.first()?;
    assert_eq!((o.sent.len(), sent.port), (1, port));
    let eth = EthernetFrame::new_checked(&sent.bytes[..]).unwrap();
    assert_eq!((eth.dst(), eth.src()), (p.macs.0, ours(port)));
    let ip = Ipv4Packet::new_checked(&sent.bytes[14..]).unwrap();
    assert!(ip.has_good_checksum() && usize::from(ip.total_len()) <= 576);
    assert_eq!(ip.dst(), p.src.addr);
    let icmp = Icmpv4Packet::new_checked(ip.payload()).unwrap();
    assert!(icmp.has_good_checksum());
    let (mtu, quoted) = match Icmpv4Repr::parse(&icmp).unwrap() {
        Icmpv4Repr::TimeExceeded { code: 0, quoted } => (0, quoted),
        Icmpv4Repr::DestinationUnreachable { code: 4, next_hop_mtu, quoted } => {
            (next_hop_mtu, quoted)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(quoted, &frame[14..14 + quoted.len()], "as it was sent");
    Some((ip.src(), mtu))
}

/// It is a router to its hosts, too: their gateway answers them, and tells of TTL and MTU (RFC 1812 §5.3.1, RFC 1191 §4).
#[test]
fn what_a_router_says_the_nat_says() {
    let mut r = rig();
    let gateway: Ipv4Addr = [10, 0, 0, 254].into();
    let ask = |to| out(host(1, 9), Endpoint::new(to, 9), L4::Ask);
    // Its hosts ask whether their gateway is there.
    let o = r.rx(INSIDE, &ask(gateway).frame());
    let sent = o.one();
    let want = Packet {
        macs: (ours(INSIDE), mac(1)),
        src: Endpoint::new(gateway, 9),
        dst: host(1, 9),
        l4: L4::Answer,
        ttl: 64,
        data: b"some data",
    };
    assert_eq!((sent.port, sent.bytes), (INSIDE, want.frame()));
    // Nothing else that is for it goes out.
    assert_eq!(external(&mut r, out(host(1, 9), Endpoint::new(gateway, 80), L4::Udp)), None);
    assert_eq!(status(&r, "other protocols"), "1");

    let short = Packet { ttl: 1, ..out(host(1, 500), peer(1), L4::Udp) };
    assert_eq!(said(&mut r, INSIDE, &short, DropReason::TtlExpired), Some((gateway, 0)));
    let e = external(&mut r, out(host(1, 500), peer(1), L4::Udp)).unwrap();
    let late = Packet { ttl: 1, ..back(peer(1), e, L4::Udp) };
    assert_eq!(said(&mut r, OUTSIDE, &late, DropReason::TtlExpired), Some((e.addr, 0)));

    r.ports.iter_mut().filter(|p| p.no == PortNo(OUTSIDE)).for_each(|p| p.ip_bytes = 600);
    seconds(&mut r, 2);
    let data = vec![7; 601 - 28];
    let long = Packet { data: &data, ..out(host(1, 500), peer(1), L4::Udp) };
    let fits = Packet { data: &data[1..], ..long };
    assert!(external(&mut r, fits).is_some());
    assert_eq!(said(&mut r, INSIDE, &long, DropReason::FrameTooLong), Some((gateway, 600)));
    // The way in is as long as it was.
    assert!(comes_in(&mut r, Packet { data: &data, ..back(peer(1), e, L4::Udp) }, host(1, 500)));
    // Nor does what stays inside meet the link outside: other hosts by their external addresses, and the gateway.
    let eb = external(&mut r, out(host(2, 600), peer(1), L4::Udp)).unwrap();
    let (port, _) =
        rx(&mut r, INSIDE, &Packet { data: &data, ..out(host(1, 500), eb, L4::Udp) }.frame())
            .unwrap();
    assert_eq!(port, INSIDE);
    let o = r.rx(INSIDE, &Packet { data: &data, ..ask(gateway) }.frame());
    assert_eq!(o.one().port, INSIDE);
    // So many a second, and no error about an error.
    let all = (0..200).filter(|_| said(&mut r, INSIDE, &short, DropReason::TtlExpired).is_some());
    assert!(all.count() < 150);
    assert!(status(&r, "ICMP errors of its own").parse::<u64>().unwrap() > 3);
    // Those of one side are not the other's.
    assert!(said(&mut r, OUTSIDE, &late, DropReason::TtlExpired).is_some());
}
