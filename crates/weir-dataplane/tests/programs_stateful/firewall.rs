//! The firewall against an oracle that keeps every packet of every connection and asks that
//! history, and by hand where a rule of it is worth telling.

use super::*;
use crate::programs_rig::Rig;
use proptest::prelude::*;
use std::collections::HashMap;
use weir_dataplane::PortNo;
use weir_dataplane::programs::firewall::{
    Allow, Firewall, FirewallConfig, FirewallError, FirewallTimeouts, Midstream,
};
use weir_packet::Nanos;

const INSIDE: u32 = 1;
const OUTSIDE: u32 = 2;

/// Time-outs between whole seconds, so that nothing ends where a second does.
fn config() -> FirewallConfig {
    let s = |s: u64| Nanos::from_millis(1000 * s + 500);
    let mut c = FirewallConfig::between(PortNo(INSIDE), PortNo(OUTSIDE));
    c.timeouts = FirewallTimeouts {
        tcp_opening: s(3),
        tcp_open: s(20),
        tcp_closing: s(1),
        udp_one_way: s(2),
        udp_both_ways: s(6),
        query: s(2),
    };
    c.allow = vec![
        Allow { protocol: Kind::Tcp, to: "10.0.0.1/32".parse().unwrap(), ports: 80..=80 },
        Allow { protocol: Kind::Udp, to: "10.0.0.0/24".parse().unwrap(), ports: 50..=60 },
        Allow { protocol: Kind::Udp, to: "239.0.0.1/32".parse().unwrap(), ports: 55..=55 },
        Allow { protocol: Kind::Udp, to: "255.255.255.255/32".parse().unwrap(), ports: 55..=55 },
    ];
    c
}

fn inside() -> Endpoint {
    end([10, 0, 0, 1], 1000)
}
fn outside() -> Endpoint {
    end([192, 0, 2, 1], 80)
}

fn packet(from: u32, src: Endpoint, dst: Endpoint, l4: L4) -> (u32, Vec<u8>) {
    (from, Packet { macs: (mac(1), mac(2)), src, dst, l4, ttl: 64, data: b"abc" }.frame())
}
fn out(l4: L4) -> (u32, Vec<u8>) {
    packet(INSIDE, inside(), outside(), l4)
}
fn back(l4: L4) -> (u32, Vec<u8>) {
    packet(OUTSIDE, outside(), inside(), l4)
}

fn passes(r: &mut Rig, (port, f): (u32, Vec<u8>)) -> bool {
    let o = r.rx(port, &f);
    if refused(&o) {
        return false;
    }
    let sent = o.one();
    assert_eq!((sent.port, &sent.bytes), (3 - port, &f), "as it was, at the other side");
    true
}

fn seconds(r: &mut Rig, s: u64) {
    r.pass(Nanos::from_secs(s), Nanos::from_millis(50));
}

#[test]
fn a_connection_lives() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    assert!(!passes(&mut r, back(L4::Tcp(SYN))));
    assert!(!passes(&mut r, out(L4::Tcp(ACK))), "nothing was begun");
    assert!(passes(&mut r, out(L4::Tcp(SYN))));
    assert!(!passes(&mut r, back(L4::Tcp(FIN | ACK))), "no answer to a SYN");
    assert!(passes(&mut r, back(L4::Tcp(SYN | ACK))));
    assert!(passes(&mut r, out(L4::Tcp(ACK))));
    seconds(&mut r, 19);
    assert!(passes(&mut r, back(L4::Tcp(ACK | Flags::PSH))));
    assert!(passes(&mut r, out(L4::Tcp(FIN | ACK))));
    seconds(&mut r, 10);
    assert!(passes(&mut r, back(L4::Tcp(ACK))), "half closed");
    assert!(passes(&mut r, back(L4::Tcp(FIN | ACK))));
    assert!(passes(&mut r, out(L4::Tcp(ACK))));
    seconds(&mut r, 2);
    assert!(!passes(&mut r, out(L4::Tcp(ACK))), "over");
}

/// Who knows addresses and ports alone sends resets with numbers that are wrong; the host judges them itself (RFC 5961 §3).
#[test]
fn a_guessed_reset_takes_nothing() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    let send = |r: &mut Rig, (port, f): (u32, Vec<u8>), seq, ack| {
        assert!(passes(r, (port, numbered(f, seq, ack))), "{seq} {ack}");
    };
    let gone = |r: &mut Rig| {
        seconds(r, 3);
        !passes(r, out(L4::Tcp(ACK)))
    };
    let (ours, theirs) = (1_000_000u32, u32::MAX - 100);
    let open = |r: &mut Rig| {
        send(r, out(L4::Tcp(SYN)), ours - 1, 0);
        send(r, back(L4::Tcp(SYN | ACK)), theirs.wrapping_sub(1), ours);
        send(r, out(L4::Tcp(ACK)), ours, theirs);
    };
    open(&mut r);
    for away in [20_000, 1 << 20, 1 << 31, 0u32.wrapping_sub(1000)] {
        send(&mut r, back(L4::Tcp(RST)), theirs.wrapping_add(away), 0);
        // What outside acknowledges says nothing of it.
        send(
            &mut r,
            back(L4::Tcp(RST | ACK)),
            theirs.wrapping_add(away),
            theirs.wrapping_add(away),
        );
        seconds(&mut r, 3);
        send(&mut r, out(L4::Tcp(ACK)), ours, theirs);
    }
    // Nor does it keep a connection.
    seconds(&mut r, 19);
    send(&mut r, back(L4::Tcp(RST)), 7, 0);
    assert!(gone(&mut r));
    // What the other side waits for, and what may be on its way before.
    for ahead in [0, 1, 1460, 14_600] {
        open(&mut r);
        send(&mut r, back(L4::Tcp(RST)), theirs.wrapping_add(ahead), 0);
        assert!(gone(&mut r), "{ahead}");
    }
    // Who is inside ends what is his, whatever is on its way.
    for ahead in [0, 1 << 20, 1 << 31] {
        open(&mut r);
        send(&mut r, out(L4::Tcp(RST | ACK)), ours + ahead, theirs);
        assert!(gone(&mut r), "{ahead}");
    }
    // A server with much on its way: it answers what is acknowledged of that, when it knows nothing of it any more.
    open(&mut r);
    send(&mut r, back(L4::Tcp(RST | ACK)), theirs.wrapping_add(1 << 20), ours);
    send(&mut r, out(L4::Tcp(ACK)), ours, theirs.wrapping_add(1 << 19));
    send(&mut r, back(L4::Tcp(RST)), theirs.wrapping_add(1 << 19), 0);
    assert!(gone(&mut r));
    // The host is asked back by a guess, and its peer, which is gone, answers that with the very number.
    open(&mut r);
    send(&mut r, back(L4::Tcp(ACK)), theirs, ours);
    send(&mut r, out(L4::Tcp(ACK)), ours, theirs.wrapping_add(100_000));
    send(&mut r, back(L4::Tcp(RST)), theirs.wrapping_add(1000), 0);
    send(&mut r, out(L4::Tcp(ACK)), ours, theirs.wrapping_add(100_000));
    send(&mut r, back(L4::Tcp(RST)), theirs.wrapping_add(100_000), 0);
    assert!(gone(&mut r));
}

/// A server whose answer ends at once, before the client has acknowledged anything (RFC 7413): both FINs are known.
#[test]
fn a_fin_may_come_before_the_third_segment() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    assert!(passes(&mut r, out(L4::Tcp(SYN))) && passes(&mut r, back(L4::Tcp(SYN | ACK))));
    assert!(passes(&mut r, back(L4::Tcp(ACK | Flags::PSH))));
    assert!(passes(&mut r, back(L4::Tcp(FIN | ACK))) && passes(&mut r, back(L4::Tcp(ACK))));
    assert!(passes(&mut r, out(L4::Tcp(SYN))), "again");
    assert!(passes(&mut r, out(L4::Tcp(ACK))));
    seconds(&mut r, 10);
    assert!(passes(&mut r, out(L4::Tcp(FIN | ACK))) && passes(&mut r, back(L4::Tcp(ACK))));
    seconds(&mut r, 2);
    assert!(!passes(&mut r, out(L4::Tcp(ACK))), "over");
}

/// Both ends connect to each other at once, as who makes holes into two of these does (RFC 9293 §3.5, RFC 6092 REC-31).
#[test]
fn both_ends_may_begin_a_connection() {
    let stranger = || packet(OUTSIDE, end([192, 0, 2, 2], 80), inside(), L4::Tcp(SYN));
    let other_port = || packet(OUTSIDE, end([192, 0, 2, 1], 81), inside(), L4::Tcp(SYN));
    let crossed = || {
        let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
        assert!(!passes(&mut r, back(L4::Tcp(SYN))), "nothing was begun");
        assert!(passes(&mut r, out(L4::Tcp(SYN))));
        assert!(!passes(&mut r, stranger()) && !passes(&mut r, other_port()));
        assert!(passes(&mut r, back(L4::Tcp(SYN))));
        assert!(!passes(&mut r, back(L4::Tcp(FIN | ACK))), "nobody has acknowledged anything");
        assert!(passes(&mut r, out(L4::Tcp(SYN))) && passes(&mut r, back(L4::Tcp(SYN))), "again");
        r
    };
    // Open, when both have acknowledged: by SYN and ACK, or by less.
    let by = |side, flags| if side == INSIDE { out(L4::Tcp(flags)) } else { back(L4::Tcp(flags)) };
    for (first, second) in [(INSIDE, OUTSIDE), (OUTSIDE, INSIDE)] {
        for acknowledged in [SYN | ACK, ACK] {
            let mut r = crossed();
            assert!(passes(&mut r, by(first, SYN | ACK)));
            assert!(passes(&mut r, by(second, acknowledged)));
            seconds(&mut r, 19);
            assert!(passes(&mut r, out(L4::Tcp(ACK))) && passes(&mut r, back(L4::Tcp(ACK))));
            assert!(passes(&mut r, out(L4::Tcp(FIN | ACK))));
            assert!(passes(&mut r, back(L4::Tcp(FIN | ACK))));
            seconds(&mut r, 2);
            assert!(!passes(&mut r, out(L4::Tcp(ACK))), "over");
        }
    }
    // Two SYNs are no connection yet.
    let mut r = crossed();
    seconds(&mut r, 4);
    assert!(!passes(&mut r, back(L4::Tcp(SYN | ACK))));
    let mut r = crossed();
    assert!(passes(&mut r, out(L4::Tcp(RST))));
    seconds(&mut r, 2);
    assert!(!passes(&mut r, back(L4::Tcp(SYN))));
}

/// A server that has an older connection of the same ports asks whether that is meant, and gives it up when it is told so (RFC 5961 §4.2).
#[test]
fn a_server_that_remembers_may_ask_back() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    assert!(!passes(&mut r, back(L4::Tcp(ACK))), "nothing was begun");
    assert!(passes(&mut r, out(L4::Tcp(SYN))) && passes(&mut r, back(L4::Tcp(ACK))));
    assert!(!passes(&mut r, packet(OUTSIDE, end([192, 0, 2, 2], 80), inside(), L4::Tcp(ACK))));
    assert!(passes(&mut r, out(L4::Tcp(RST))) && passes(&mut r, out(L4::Tcp(SYN))));
    assert!(passes(&mut r, back(L4::Tcp(SYN | ACK))) && passes(&mut r, out(L4::Tcp(ACK))));
    seconds(&mut r, 19);
    assert!(passes(&mut r, back(L4::Tcp(ACK))));
    // It keeps nothing that nobody answers.
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    assert!(passes(&mut r, out(L4::Tcp(SYN))));
    seconds(&mut r, 2);
    assert!(passes(&mut r, back(L4::Tcp(ACK))));
    seconds(&mut r, 2);
    assert!(!passes(&mut r, back(L4::Tcp(ACK))));
}

/// As after a restart, when nobody knows of the connections that there are.
#[test]
fn connections_that_began_unseen_go_on_if_told_so() {
    let c = FirewallConfig { midstream: Midstream::Follow, ..config() };
    let mut r = Rig::new(Firewall::new(&c).unwrap(), 2);
    assert!(!passes(&mut r, back(L4::Tcp(ACK))), "nothing allows it to begin one");
    assert!(!passes(&mut r, out(L4::Tcp(RST | ACK))) && !passes(&mut r, out(L4::Tcp(SYN | ACK))));
    assert!(passes(&mut r, out(L4::Tcp(ACK))));
    seconds(&mut r, 2);
    assert!(passes(&mut r, back(L4::Tcp(ACK))));
    seconds(&mut r, 19);
    assert!(passes(&mut r, back(L4::Tcp(ACK | FIN))) && passes(&mut r, out(L4::Tcp(ACK | FIN))));
    assert!(passes(&mut r, back(L4::Tcp(ACK))));
    seconds(&mut r, 2);
    assert!(!passes(&mut r, back(L4::Tcp(ACK))), "over");
    // What nobody answers is over soon; what may begin outside may go on from there.
    assert!(passes(&mut r, out(L4::Tcp(FIN | ACK))));
    seconds(&mut r, 4);
    assert!(!passes(&mut r, back(L4::Tcp(ACK))));
    let (server, client) = (end([10, 0, 0, 1], 80), end([192, 0, 2, 7], 4000));
    assert!(passes(&mut r, packet(OUTSIDE, client, server, L4::Tcp(ACK))));
    assert!(passes(&mut r, packet(INSIDE, server, client, L4::Tcp(ACK))));
}

/// A server with a client's data in its first segment (RFC 7413) answers at once.
#[test]
fn data_may_come_before_the_third_segment() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    assert!(passes(&mut r, out(L4::Tcp(SYN))) && passes(&mut r, back(L4::Tcp(SYN | ACK))));
    assert!(passes(&mut r, back(L4::Tcp(ACK | Flags::PSH))));
    assert!(!passes(&mut r, back(L4::Tcp(SYN))));
    assert!(passes(&mut r, out(L4::Tcp(ACK))));
}

#[test]
fn what_is_allowed_comes_in() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    let server = end([10, 0, 0, 1], 80);
    let client = end([192, 0, 2, 7], 4000);
    assert!(passes(&mut r, packet(OUTSIDE, client, server, L4::Tcp(SYN))));
    assert!(passes(&mut r, packet(INSIDE, server, client, L4::Tcp(SYN | ACK))));
    assert!(passes(&mut r, packet(OUTSIDE, client, server, L4::Tcp(ACK))));
    let udp = |port, host| packet(OUTSIDE, client, end([10, 0, 0, host], port), L4::Udp);
    assert!(passes(&mut r, udp(50, 1)) && passes(&mut r, udp(60, 200)));
    assert!(!passes(&mut r, udp(49, 1)) && !passes(&mut r, udp(61, 1)));
    let other = packet(OUTSIDE, client, end([10, 0, 0, 2], 80), L4::Tcp(SYN));
    assert!(!passes(&mut r, other));
}

/// A DHCP client inside, its server outside, and a group on either side: nothing of it takes a place in the table.
#[test]
fn datagrams_to_groups_are_no_connections() {
    let all = |port| end([255, 255, 255, 255], port);
    let mut c = config();
    let lines = |r: &Rig, name: &str| {
        r.program.status().into_iter().find(|l| l.0 == name).expect("a line of it").1
    };
    c.allow = vec![
        Allow { protocol: Kind::Udp, to: "255.255.255.255/32".parse().unwrap(), ports: 68..=68 },
        Allow { protocol: Kind::Udp, to: "239.0.0.0/8".parse().unwrap(), ports: 0..=65535 },
    ];
    let mut r = Rig::new(Firewall::new(&c).unwrap(), 2);
    let server = end([192, 0, 2, 9], 67);
    let discover = packet(INSIDE, end([0, 0, 0, 0], 68), all(67), L4::Udp);
    assert!(passes(&mut r, discover.clone()) && passes(&mut r, discover));
    assert!(passes(&mut r, packet(OUTSIDE, server, all(68), L4::Udp)));
    assert!(passes(&mut r, packet(INSIDE, inside(), end([224, 0, 0, 251], 5353), L4::Udp)));
    assert!(passes(&mut r, packet(OUTSIDE, server, end([239, 1, 2, 3], 5004), L4::Udp)));
    assert_eq!((lines(&r, "to groups"), lines(&r, "passed")), ("5".into(), "5".into()));
    // What is not allowed, and an answer to one address, which belongs to nothing.
    assert!(!passes(&mut r, packet(OUTSIDE, server, all(67), L4::Udp)));
    assert!(!passes(&mut r, packet(OUTSIDE, server, end([224, 0, 0, 251], 5353), L4::Udp)));
    assert!(!passes(&mut r, packet(OUTSIDE, server, end([10, 0, 0, 1], 68), L4::Udp)));
    assert_eq!((lines(&r, "refused"), lines(&r, "begun")), ("3".into(), "0".into()));
    assert!(lines(&r, "connections").starts_with("0 of"));
}

#[test]
fn errors_pass_for_connections_alone() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    let (_, sent) = out(L4::Udp);
    let router = Ipv4Addr::new(198, 51, 100, 9);
    let about = |to, f: &[u8], cut| (OUTSIDE, bytes(error((mac(2), mac(1)), router, to, f, cut)));
    assert!(!passes(&mut r, about(inside().addr, &sent, 8)), "nothing was sent");
    assert!(passes(&mut r, out(L4::Udp)));
    assert!(passes(&mut r, about(inside().addr, &sent, 8)));
    assert!(passes(&mut r, about(inside().addr, &sent, 11)));
    assert!(!passes(&mut r, about(inside().addr, &sent, 7)), "too little quoted");
    assert!(!passes(&mut r, about([10, 0, 0, 2].into(), &sent, 8)), "to somebody else");
    // What was damaged on its way: the checksum itself, and what is quoted.
    for at in [36, 66] {
        let (port, mut f) = about(inside().addr, &sent, 8);
        f[at] ^= 1;
        assert_eq!(r.rx(port, &f).only_drop(), DropReason::Malformed, "{at}");
    }
    let lines = r.program.status();
    assert!(lines.iter().any(|(name, n)| name == "malformed" && n == "2"), "{lines:?}");
    // What came in, quoted by who could not take it.
    let (_, answer) = back(L4::Udp);
    assert!(passes(&mut r, back(L4::Udp)));
    let f = bytes(error((mac(1), mac(2)), [10, 0, 0, 9].into(), outside().addr, &answer, 8));
    assert!(passes(&mut r, (INSIDE, f)));
    seconds(&mut r, 7);
    assert!(!passes(&mut r, about(inside().addr, &sent, 8)), "over");
}

#[test]
fn the_table_is_bounded() {
    let mut c = config();
    c.max_connections = 3;
    let mut r = Rig::new(Firewall::new(&c).unwrap(), 2);
    let from = |p| packet(INSIDE, end([10, 0, 0, 1], p), outside(), L4::Udp);
    assert!((1..=3).all(|p| passes(&mut r, from(p))));
    assert!(!passes(&mut r, from(4)));
    assert!(passes(&mut r, from(2)), "those that are there stay");
    seconds(&mut r, 2);
    assert!(passes(&mut r, from(2)));
    seconds(&mut r, 2);
    assert!(passes(&mut r, from(4)), "room again");
}

#[test]
fn bad_frames_end_here() {
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 3);
    for (what, f) in bad_frames(mac(2), inside(), outside()) {
        assert!(r.rx(INSIDE, &f).sent.is_empty(), "{what}");
    }
    let whole = Frame::udp_v4("10.0.0.1:1".parse().unwrap(), "192.0.2.1:2".parse().unwrap(), b"x");
    assert_eq!(r.rx(INSIDE, &fragment(whole, 100)).only_drop(), DropReason::Fragment);
    for flags in [Flags(0), SYN | FIN, SYN | RST, FIN, Flags::PSH] {
        assert!(!passes(&mut r, out(L4::Tcp(flags))), "{flags:?}");
    }
    assert!(refused(&r.rx(3, &out(L4::Tcp(SYN)).1)), "a third port");
    let nobody = end([0, 0, 0, 0], 5);
    for (src, dst) in [
        (inside(), nobody),
        (nobody, outside()),
        (nobody, end([224, 0, 0, 1], 5)),
        (end([224, 0, 0, 1], 5), end([224, 0, 0, 2], 5)),
        (inside(), end([240, 0, 0, 1], 5)),
        (end([127, 0, 0, 1], 5), outside()),
    ] {
        assert!(!passes(&mut r, packet(INSIDE, src, dst, L4::Udp)), "{src} {dst}");
    }
    let group = end([224, 0, 0, 1], 5);
    assert!(!passes(&mut r, packet(INSIDE, inside(), group, L4::Tcp(SYN))));
    assert!(!passes(&mut r, packet(INSIDE, inside(), group, L4::Ask)));
    // ARP is nobody's connection, and passes.
    let arp = bytes(Frame::ethernet(EtherType::Arp, &[0; 28]));
    assert!(passes(&mut r, (OUTSIDE, arp)));
}

#[test]
fn what_cannot_be_is_said() {
    let wrong = |change: &dyn Fn(&mut FirewallConfig)| {
        let mut c = config();
        change(&mut c);
        Firewall::new(&c).unwrap_err()
    };
    assert_eq!(wrong(&|c| c.outside = c.inside), FirewallError::OnePort(PortNo(1)));
    assert_eq!(wrong(&|c| c.max_connections = 0), FirewallError::Connections(0));
    let e = wrong(&|c| c.allow[0].to = "10.0.0.1/24".parse().unwrap());
    assert!(e.to_string().contains("10.0.0.0/24"), "{e}");
    assert!(matches!(
        wrong(&|c| c.allow[0].to = "::/0".parse().unwrap()),
        FirewallError::NotIpv4(_)
    ));
    #[allow(clippy::reversed_empty_ranges, reason = "what is refused")]
    let e = wrong(&|c| c.allow[1].ports = 9..=8);
    assert!(matches!(e, FirewallError::NoPorts { .. }));
}

/// One packet that passed and counts: who sent it, how, and what it acknowledges.
type Step = (u32, L4, u32);

/// How much more than was acknowledged last a reset's number may be.
const FLIGHT: u32 = 16 * 1024;

/// What a history says of its connection.
#[derive(Default)]
struct Oracle {
    /// Packets that passed, and when the last one that counts did.
    seen: HashMap<(Endpoint, Endpoint, Kind), (Vec<Step>, u64)>,
    midstream: Midstream,
}

fn is_group(e: Endpoint) -> bool {
    e.addr.is_multicast() || e.addr == Ipv4Addr::BROADCAST
}

fn is(l4: L4, yes: Flags, no: Flags) -> bool {
    matches!(l4, L4::Tcp(f) if f.contains(yes) && f.0 & no.0 == 0)
}

fn reset(h: &[Step]) -> bool {
    h.iter().any(|s| is(s.1, RST, Flags(0)))
}
/// Its first segment was never seen.
fn midst(h: &[Step]) -> bool {
    matches!(h[0].1, L4::Tcp(_)) && !is(h[0].1, SYN, Flags(0))
}
/// Somebody has answered a SYN.
fn answered(h: &[Step]) -> Option<usize> {
    h.iter().position(|s| is(s.1, SYN | ACK, Flags(0)))
}
/// Both have sent a SYN of their own.
fn crossed(h: &[Step]) -> bool {
    h.iter().any(|s| s.0 != h[0].0 && is(s.1, SYN, ACK))
}
/// One has answered, and the other has acknowledged that; or both have been heard in its midst.
fn open_since(h: &[Step]) -> Option<usize> {
    let by = h[0].0;
    if midst(h) {
        return h.iter().position(|s| s.0 != by);
    }
    let answered = answered(h)?;
    let who = h[answered].0;
    let rest = h[answered..].iter().position(|s| s.0 != who && is(s.1, ACK, Flags(0)))?;
    Some(answered + rest)
}
fn fins(h: &[Step]) -> Vec<u32> {
    // From the answer on, but nothing is said before it is open.
    let begun = if midst(h) { Some(0) } else { answered(h) };
    let from = open_since(h).and(begun).unwrap_or(h.len());
    let mut f: Vec<u32> =
        h[from..].iter().filter(|s| is(s.1, FIN, Flags(0))).map(|s| s.0).collect();
    f.sort_unstable();
    f.dedup();
    f
}

impl Oracle {
    fn lives(h: &[Step], kind: Kind) -> u64 {
        let by = h[0].0;
        match kind {
            Kind::Tcp if reset(h) || fins(h).len() == 2 => 1,
            Kind::Tcp if open_since(h).is_some() => 20,
            Kind::Tcp => 3,
            Kind::Udp if h.iter().any(|s| s.0 != by) => 6,
            Kind::Udp | Kind::Query => 2,
        }
    }
    fn forget(&mut self, now: u64) {
        self.seen.retain(|k, (h, at)| now - *at <= Self::lives(h, k.2));
    }
    fn may_begin(from: u32, to: Endpoint, kind: Kind) -> bool {
        from == INSIDE
            || kind == Kind::Tcp && to == end([10, 0, 0, 1], 80)
            || kind == Kind::Udp && is_group(to) && to.port == 55
            || kind == Kind::Udp && !is_group(to) && (50..=60).contains(&to.port)
    }
    /// What inside has acknowledged last, of who sends this.
    fn awaits(&self, from: u32, src: Endpoint, dst: Endpoint) -> Option<u32> {
        let (i, o) = if from == INSIDE { (src, dst) } else { (dst, src) };
        let (h, _) = self.seen.get(&(i, o, Kind::Tcp))?;
        h.iter().rev().find(|s| s.0 == INSIDE && is(s.1, ACK, Flags(0))).map(|s| s.2)
    }
    /// Whether the packet passes.
    fn packet(
        &mut self,
        now: u64,
        max: usize,
        (from, src, dst): (u32, Endpoint, Endpoint),
        l4: L4,
        (seq, ack): (u32, u32),
    ) -> bool {
        let awaited = self.awaits(from, src, dst);
        if let L4::Tcp(f) = l4 {
            let odd = is(l4, SYN | FIN, Flags(0)) || is(l4, SYN | RST, Flags(0));
            if odd || f.0 & (SYN.0 | ACK.0 | RST.0) == 0 {
                return false;
            }
        }
        if is_group(dst) {
            return l4.kind() == Kind::Udp && Self::may_begin(from, dst, Kind::Udp);
        }
        let (i, o) = if from == INSIDE { (src, dst) } else { (dst, src) };
        let key = (i, o, l4.kind());
        let begins = match l4 {
            L4::Tcp(_) => is(l4, SYN, ACK),
            L4::Udp | L4::UdpPlain | L4::Ask => true,
            L4::Answer => false,
        };
        let known = self.seen.get_mut(&key);
        let over = known.as_ref().is_none_or(|(h, _)| {
            let unheard = midst(h) && open_since(h).is_none();
            matches!(l4, L4::Tcp(_)) && begins && (reset(h) || fins(h).len() == 2 || unheard)
        });
        if over {
            let room = self.seen.contains_key(&key) || self.seen.len() < max;
            let follows = self.midstream == Midstream::Follow && is(l4, ACK, SYN | RST);
            let may = (begins || follows) && Self::may_begin(from, dst, l4.kind()) && room;
            if may {
                self.seen.insert(key, (vec![(from, l4, ack)], now));
            }
            return may;
        }
        let (h, at) = known.unwrap();
        let by = h[0].0;
        let passes = match l4 {
            L4::Udp | L4::UdpPlain => true,
            L4::Ask => from == by,
            L4::Answer => from != by,
            L4::Tcp(_) if reset(h) => return true,
            // A guess passes, and changes nothing.
            L4::Tcp(f)
                if f.contains(RST)
                    && from == OUTSIDE
                    && open_since(h).is_some()
                    && awaited.is_none_or(|n| seq.wrapping_sub(n) > FLIGHT) =>
            {
                return true;
            }
            L4::Tcp(f) if f.contains(RST) => true,
            // In the midst of an open one: the peer will answer it, it changes nothing.
            L4::Tcp(f) if open_since(h).is_some() && f.contains(SYN) => return true,
            L4::Tcp(_) if open_since(h).is_some() => true,
            L4::Tcp(f) if midst(h) && f.contains(SYN) => return true,
            L4::Tcp(_) if midst(h) => true,
            // Who has answered says more of it; the other begins again, or acknowledges.
            L4::Tcp(_) if answered(h).is_some() => {
                answered(h).is_some_and(|a| from != h[a].0) || is(l4, ACK, Flags(0))
            }
            L4::Tcp(_) if begins => true,
            // Who could answer, and by this has another in mind; nothing is changed.
            L4::Tcp(_) if (from != by || crossed(h)) && is(l4, ACK, SYN | FIN) => return true,
            // An answer.
            L4::Tcp(_) => (from != by || crossed(h)) && is(l4, SYN | ACK, Flags(0)),
        };
        if passes {
            h.push((from, l4, ack));
            *at = now;
        }
        passes
    }
}

fn l4() -> impl Strategy<Value = L4> {
    prop_oneof![
        3 => Just(L4::Tcp(SYN)),
        3 => Just(L4::Tcp(SYN | ACK)),
        6 => Just(L4::Tcp(ACK)),
        3 => Just(L4::Tcp(FIN | ACK)),
        1 => Just(L4::Tcp(RST | ACK)),
        1 => (0u16..64).prop_map(|f| L4::Tcp(Flags(f))),
        3 => Just(L4::Udp),
        1 => Just(L4::Ask),
        1 => Just(L4::Answer),
    ]
}

/// How far from what is awaited, and what is acknowledged.
fn numbers() -> impl Strategy<Value = (u32, u32)> {
    let away = prop_oneof![
        4 => Just(0),
        1 => 1..=FLIGHT,
        1 => FLIGHT + 256..1 << 31,
        1 => (256..1u32 << 31).prop_map(u32::wrapping_neg),
    ];
    (away, any::<u32>())
}

proptest! {
    #[test]
    fn is_what_its_history_says(
        steps in prop::collection::vec((0u64..5, any::<bool>(), 0u8..5, 0u8..2, l4(), numbers()), 1..200),
        max in prop_oneof![Just(3usize), Just(100)],
        midstream in prop_oneof![Just(Midstream::Refuse), Just(Midstream::Follow)],
    ) {
        let mut c = config();
        (c.max_connections, c.midstream) = (max, midstream);
        let mut r = Rig::new(Firewall::new(&c).unwrap(), 2);
        let mut oracle = Oracle { midstream, ..Oracle::default() };
        let mut now = 0;
        for (wait, outwards, host, port, l4, (away, ack)) in steps {
            // Mostly no time passes.
            let wait = wait.saturating_sub(2);
            if wait > 0 {
                seconds(&mut r, wait);
                now += wait;
                oracle.forget(now);
            }
            let i = end([10, 0, 0, 1 + host % 2], [80, 55][usize::from(port)]);
            let o = end([192, 0, 2, 1], 1234);
            // An ICMP query has one identifier.
            let (i, o) = if l4.kind() == Kind::Query {
                (Endpoint::new(i.addr, 7), Endpoint::new(o.addr, 7))
            } else {
                (i, o)
            };
            let (from, src, dst) = if outwards { (INSIDE, i, o) } else { (OUTSIDE, o, i) };
            // Some are to many.
            let dst = match host {
                3 => Endpoint::new([239, 0, 0, 1].into(), dst.port),
                4 => Endpoint::new(Ipv4Addr::BROADCAST, dst.port),
                _ => dst,
            };
            let seq = oracle.awaits(from, src, dst).unwrap_or(0).wrapping_add(away);
            let want = oracle.packet(now, max, (from, src, dst), l4, (seq, ack));
            let (port, f) = packet(from, src, dst, l4);
            let got = passes(&mut r, (port, numbered(f, seq, ack)));
            prop_assert_eq!(got, want, "{:?} from {} at {}", l4, from, now);
        }
    }
}

/// A firewall that is told something else knows its connections, as far as it has room for them.
#[test]
fn connections_outlive_a_change_of_what_is_allowed() {
    let open = |r: &mut Rig| {
        assert!(passes(r, out(L4::Tcp(SYN))) && passes(r, back(L4::Tcp(SYN | ACK))));
        assert!(passes(r, out(L4::Tcp(ACK))));
    };
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    open(&mut r);
    let more = FirewallConfig { allow: Vec::new(), max_connections: 10, ..config() };
    for c in [FirewallConfig { allow: Vec::new(), ..config() }, more.clone(), config()] {
        r.replace(Firewall::new(&c).unwrap());
        assert!(passes(&mut r, out(L4::Tcp(ACK))) && passes(&mut r, back(L4::Tcp(ACK))), "{c:?}");
        let begins = packet(OUTSIDE, end([192, 0, 2, 2], 9), end([10, 0, 0, 1], 80), L4::Tcp(SYN));
        assert_eq!(passes(&mut r, begins), !c.allow.is_empty(), "what may begin is this one's");
    }
    let lines = r.program.status();
    assert!(lines.iter().any(|(name, n)| name == "passed" && n == "10"), "{lines:?}");
    // Times are the new one's.
    let mut c = config();
    c.timeouts.tcp_open = Nanos::from_secs(1);
    r.replace(Firewall::new(&c).unwrap());
    r.pass(Nanos::from_secs(3), Nanos::from_millis(20));
    assert!(!passes(&mut r, out(L4::Tcp(ACK))));
    // Between other ports it is another's traffic, and another program knows nothing of connections.
    let mut r = Rig::new(Firewall::new(&config()).unwrap(), 2);
    open(&mut r);
    let (inside, outside) = (PortNo(OUTSIDE), PortNo(INSIDE));
    r.replace(Firewall::new(&FirewallConfig { inside, outside, ..config() }).unwrap());
    assert!(!passes(&mut r, out(L4::Tcp(ACK))));
    r.replace(weir_dataplane::programs::learning::LearningSwitch::default());
    r.replace(Firewall::new(&config()).unwrap());
    assert!(!passes(&mut r, out(L4::Tcp(ACK))));
}
