//! ARP and neighbour discovery: asking, answering, waiting, giving up, forgetting; and what is not
//! believed.

use crate::lab::*;
use crate::programs_rig::{Outcome, Rig};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_dataplane::Origin;
use weir_dataplane::PortNo;
use weir_dataplane::programs::router::{
    Interface, NeighbourConfig, NextHop, Permanent, Route, Router,
};
use weir_packet::{DropReason, Nanos};
use weir_wire::arp::Operation;
use weir_wire::icmpv4::unreachable;
use weir_wire::ndisc::NeighborFlags;
use weir_wire::ndisc_option::NdiscOption;
use weir_wire::{ArpRepr, EtherType, EthernetFrame, Icmpv4Repr, Icmpv6Repr, MacAddr, NdiscRepr};

fn to_2(n: u8, payload: &[u8]) -> Vec<u8> {
    from_host(1, 10, udp4(ip4(1, 10), ip4(2, n), payload))
}

fn is_arp(bytes: &[u8]) -> bool {
    EthernetFrame::new_checked(bytes).unwrap().ether_type() == EtherType::Arp
}

#[test]
fn asks_then_sends_in_order() {
    let mut r = router(&config());
    let s = r.rx(1, &to_2(10, b"one")).one();
    assert_eq!((s.port, s.origin), (2, Origin::Generated));
    assert_eq!(&s.bytes[..6], &[0xff; 6]);
    assert_eq!(arp_of(&s), ArpRepr::request(ours(2), ip4(2, 1), ip4(2, 10)));
    // Nobody is asked twice at once.
    assert!(silent(&r.rx(1, &to_2(10, b"two"))));
    assert_eq!(r.program.held(), 2);
    let o = r.rx(2, &is_at(2, 10));
    assert_eq!((o.consumed, r.program.held()), (1, 0));
    let sent: Vec<&[u8]> = o.sent.iter().map(|s| &s.bytes[42..]).collect();
    assert_eq!(sent, [b"one", b"two"]);
    assert!(o.sent.iter().all(|s| open4(s).0 == mac(2, 10) && s.origin == Origin::Received));
    // From now on at once, and without asking.
    let s = r.rx(1, &to_2(10, b"three")).one();
    assert_eq!(open4(&s).0, mac(2, 10));
}

/// A route straight to a link leads to addresses that are in none of the interface's networks.
#[test]
fn who_is_on_the_link_by_a_route_is_believed_when_asked_for() {
    let mut c = config();
    let there = Ipv4Addr::new(203, 0, 113, 5);
    c.routes.push(Route { to: prefix("203.0.113.0/24"), via: NextHop::OnLink(PortNo(2)) });
    let mut r = router(&c);
    let answer = |from, ip| {
        let request = ArpRepr::request(ours(2), ip4(2, 1), ip);
        arp(ours(2), from, request.reply(from))
    };
    // Not before.
    r.rx(2, &answer(mac(2, 66), there));
    let f = from_host(1, 10, udp4(ip4(1, 10), there, b"there"));
    let s = r.rx(1, &f).one();
    assert_eq!(arp_of(&s), ArpRepr::request(ours(2), ip4(2, 1), there));
    // Nor where it was not asked for.
    assert!(silent(&r.rx(3, &answer(mac(3, 66), there))));
    let s = r.rx(2, &answer(mac(2, 5), there)).one();
    assert_eq!((open4(&s).0, &s.bytes[42..47]), (mac(2, 5), &b"there"[..]));
    // It asks in its turn, and is answered; nobody else of its network is.
    let asks =
        |n: u8, ip| arp(MacAddr::BROADCAST, mac(2, n), ArpRepr::request(mac(2, n), ip, ip4(2, 1)));
    let s = r.rx(2, &asks(5, there)).one();
    assert_eq!(arp_of(&s).operation, Operation::Reply);
    assert!(silent(&r.rx(2, &asks(6, Ipv4Addr::new(203, 0, 113, 6)))));
}

#[test]
fn what_is_configured_is_neither_asked_for_nor_forgotten() {
    let mut c = config();
    c.neighbours.entries = 16;
    let known = |n: u8| Permanent { port: PortNo(2), addr: ip4(2, n).into(), mac: mac(2, n) };
    c.permanent = (10..18).map(known).collect();
    let mut r = router(&c);
    for _ in 0..3 {
        let s = r.rx(1, &to_2(10, b"at once")).one();
        assert_eq!(open4(&s).0, mac(2, 10));
        assert!(silent(&r.pass(Nanos::from_secs(1000), Nanos::from_secs(100))));
    }
    // Somebody else claims the address; then a crowd of others comes by.
    let lie = ArpRepr::request(mac(2, 66), ip4(2, 10), ip4(2, 1));
    r.rx(2, &arp(MacAddr::BROADCAST, mac(2, 66), lie));
    for n in 100..200 {
        r.rx(2, &who_has(2, n));
    }
    assert_eq!(open4(&r.rx(1, &to_2(10, b"still")).one()).0, mac(2, 10));
    assert_eq!(open4(&r.rx(1, &to_2(17, b"too")).one()).0, mac(2, 17));
}

/// Of 32 neighbours half may be asked for: eight by the first scan, four by the next.
#[test]
fn a_scan_of_one_link_leaves_others_their_neighbours() {
    let mut c = config();
    c.neighbours.entries = 32;
    let mut r = router(&c);
    let v6 = |n: u16| from_host(1, 10, udp6(ip6(1, 10), ip6(2, n), b"scan"));
    let asked = |o: &Outcome| o.sent.iter().filter(|s| s.port == 2).count();
    assert_eq!((100..200).map(|n| asked(&r.rx(1, &v6(n)))).sum::<usize>(), 8);
    assert_eq!((100..200).map(|n| asked(&r.rx(1, &to_2(n, b"scan")))).sum::<usize>(), 4);
    // By another link there is room still.
    let f = from_host(1, 10, udp4(ip4(1, 10), ip4(3, 10), b"x"));
    assert_eq!(arp_of(&r.rx(1, &f).one()), ArpRepr::request(ours(3), ip4(3, 1), ip4(3, 10)));
}

#[test]
fn gives_up_and_says_so() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = to_2(77, b"is anybody there?");
    assert_eq!(r.rx(1, &f).sent.len(), 1);
    // Twice more, a second apart.
    let o = r.pass_ms(2900);
    assert_eq!(o.sent.len(), 2);
    assert!(o.sent.iter().all(|s| s.port == 2 && is_arp(&s.bytes)));
    let o = r.pass_ms(200);
    assert_eq!(o.dropped, [(DropReason::Unreachable, Origin::Received)]);
    let s = o.one();
    let Icmpv4Repr::DestinationUnreachable { code, quoted, .. } = message4(&s) else { panic!() };
    assert_eq!((s.port, code), (1, unreachable::HOST));
    assert_eq!(quoted.len(), f.len() - 14);
    assert_eq!(r.program.held(), 0);
    // Then it starts anew.
    assert!(is_arp(&r.rx(1, &f).one().bytes));
    assert_eq!(status(&r, "neighbours unreachable"), "1");
}

#[test]
fn what_waits_is_bounded() {
    let mut c = config();
    c.neighbours = NeighbourConfig { entries: 32, queue: 2, held: 5, ..c.neighbours };
    let mut r = router(&c);
    for (n, payload) in [b"a", b"b", b"c"].iter().enumerate() {
        let o = r.rx(1, &to_2(10, *payload));
        assert_eq!(o.dropped.len(), usize::from(n == 2), "the oldest makes room");
    }
    let o = r.rx(2, &is_at(2, 10));
    assert_eq!(o.sent.iter().map(|s| s.bytes[42]).collect::<Vec<_>>(), b"bc");
    // In all.
    for n in 20..25 {
        assert!(r.rx(1, &to_2(n, b"")).dropped.is_empty());
    }
    assert_eq!(r.rx(1, &to_2(25, b"")).dropped.len(), 1);
    assert_eq!(r.program.held(), 5);
    // And the neighbours that are asked for: by one link a quarter of the table.
    for n in 26..100 {
        r.rx(1, &to_2(n, b""));
    }
    assert_eq!(status(&r, "neighbours"), "9");
    assert!(r.rx(1, &to_2(10, b"")).dropped.is_empty(), "who was there, is");
    let o = r.release();
    assert_eq!(o.dropped.len(), 5);
    assert!(o.dropped.iter().all(|d| d.0 == DropReason::VdpGone));
}

#[test]
fn the_least_recently_used_makes_room() {
    let mut c = config();
    c.neighbours = NeighbourConfig { entries: 16, ..c.neighbours };
    let mut r = router(&c);
    for n in 10..100 {
        r.now = r.now + Nanos::from_millis(1);
        r.rx(2, &who_has(2, n));
    }
    let count: usize = status(&r, "neighbours").parse().unwrap();
    assert!((8..=16).contains(&count), "{count}");
    // The last one is known: nothing waits.
    assert_eq!(r.rx(1, &to_2(99, b"")).sent.iter().filter(|s| !is_arp(&s.bytes)).count(), 1);
}

#[test]
fn answers_for_its_own_addresses_only() {
    let mut r = router(&config());
    let s = r.rx(1, &who_has(1, 10)).one();
    assert_eq!((s.port, s.origin, &s.bytes[..6]), (1, Origin::Generated, &mac(1, 10).octets()[..]));
    let reply = ArpRepr {
        operation: Operation::Reply,
        sender_mac: ours(1),
        sender_ip: ip4(1, 1),
        target_mac: mac(1, 10),
        target_ip: ip4(1, 10),
    };
    assert_eq!(arp_of(&s), reply);
    let ask =
        |ip, target| arp(MacAddr::BROADCAST, mac(1, 10), ArpRepr::request(mac(1, 10), ip, target));
    // A probe (RFC 5227) has no sender yet.
    assert_eq!(r.rx(1, &ask([0, 0, 0, 0].into(), ip4(1, 1))).sent.len(), 1);
    // Another host's address, another link's, a sender from elsewhere.
    for (ip, target) in [
        (ip4(1, 10), ip4(1, 77)),
        (ip4(1, 10), ip4(2, 1)),
        (ip4(2, 10), ip4(1, 1)),
        ([203, 0, 113, 1].into(), ip4(1, 1)),
        (ip4(1, 1), ip4(1, 1)),
    ] {
        let o = r.rx(1, &ask(ip, target));
        assert_eq!((o.sent.len(), o.consumed), (0, 1), "{ip} asks for {target}");
    }
    assert_eq!(status(&r, "address conflicts"), "1");
    // What is no ARP for IPv4 over Ethernet.
    let mut f = who_has(1, 10);
    f[18] = 8;
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Malformed);
    assert_eq!(r.rx(1, &who_has(1, 10)[..41]).only_drop(), DropReason::Malformed);
}

#[test]
fn nobody_is_learned_by_talking() {
    let mut r = router(&config());
    let gratuitous = ArpRepr::request(mac(2, 10), ip4(2, 10), ip4(2, 10));
    r.rx(2, &arp(MacAddr::BROADCAST, mac(2, 10), gratuitous));
    r.rx(2, &is_at(2, 10));
    assert_eq!(status(&r, "neighbours"), "0");
    // Once known, a change is heard.
    r.rx(2, &who_has(2, 10));
    r.rx(2, &is_at(2, 10));
    assert_eq!(open4(&r.rx(1, &to_2(10, b"")).one()).0, mac(2, 10));
    let moved = ArpRepr::request(mac(2, 66), ip4(2, 10), ip4(2, 10));
    r.rx(2, &arp(MacAddr::BROADCAST, mac(2, 66), moved));
    let o = r.rx(1, &to_2(10, b""));
    let to: Vec<_> = o.sent.iter().map(|s| s.bytes[..6].to_vec()).collect();
    // Used, and asked whether it is true.
    assert_eq!(to, [mac(2, 66).octets(), mac(2, 66).octets()]);
    assert!(is_arp(&o.sent[1].bytes));
    // A group is nobody's MAC.
    let group = ArpRepr::request(MacAddr([1, 0, 0, 0, 0, 1]), ip4(2, 10), ip4(2, 1));
    assert!(silent(&r.rx(2, &arp(MacAddr::BROADCAST, mac(2, 10), group))));
    assert_eq!(open4(&r.rx(1, &to_2(10, b"")).one()).0, mac(2, 66));
}

#[derive(Clone, Copy, PartialEq)]
enum Host {
    Answers,
    Silent,
}

/// How often host 2.10 is asked for while it is sent something every second.
fn asked_while_used(r: &mut Rig, seconds: u32, host: Host) -> (usize, usize) {
    let (mut asked, mut sent) = (0, 0);
    for _ in 0..seconds {
        let mut o = r.rx(1, &to_2(10, b""));
        o.sent.extend(r.pass_ms(1000).sent);
        for s in o.sent.iter().filter(|s| s.port == 2) {
            match is_arp(&s.bytes) {
                true => asked += 1,
                false => sent += 1,
            }
        }
        if host == Host::Answers && o.sent.iter().any(|s| is_arp(&s.bytes)) {
            r.rx(2, &is_at(2, 10));
        }
    }
    (asked, sent)
}

#[test]
fn known_neighbours_are_confirmed_now_and_then() {
    let mut r = router(&config());
    r.rx(2, &who_has(2, 10));
    r.rx(2, &is_at(2, 10));
    let (asked, sent) = asked_while_used(&mut r, 100, Host::Answers);
    assert_eq!(sent, 100, "none waited");
    assert!((3..=7).contains(&asked), "asked {asked} times in 100 s");
    // Gone: after the last confirmation it is asked, then all are, then it is unreachable.
    let (_, sent) = asked_while_used(&mut r, 100, Host::Silent);
    assert!((1..=35).contains(&sent), "{sent} sent into the void");
    assert!(status(&r, "neighbours unreachable").parse::<u32>().unwrap() > 1);
}

#[test]
fn who_is_idle_is_forgotten() {
    let mut r = router(&config());
    introduce(&mut r);
    assert_eq!(status(&r, "neighbours"), "11");
    r.pass(Nanos::from_secs(500), Nanos::from_millis(500));
    assert_eq!(status(&r, "neighbours"), "11");
    r.pass(Nanos::from_secs(110), Nanos::from_millis(500));
    assert_eq!(status(&r, "neighbours"), "0");
}

fn solicited(a: Ipv6Addr) -> Ipv6Addr {
    let o = a.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, o[13], o[14], o[15]])
}

fn advert(flags: NeighborFlags, mac_: Option<MacAddr>) -> Vec<u8> {
    nd(
        (mac(2, 10), ours(2)),
        (ip6(2, 10), ours_ll(2)),
        |options| NdiscRepr::NeighborAdvert { flags, target: ip6(2, 10), options },
        mac_.map(NdiscOption::TargetLinkAddr),
    )
}

#[test]
fn asks_in_ipv6() {
    let mut r = router(&config());
    let f = from_host(1, 10, udp6(ip6(1, 10), ip6(2, 10), b"one"));
    let s = r.rx(1, &f).one();
    let (to, from, p) = open6(&s);
    assert_eq!((s.port, to, from), (2, MacAddr([0x33, 0x33, 0xff, 0, 0, 10]), ours(2)));
    assert_eq!((p.src(), p.dst(), p.hop_limit()), (ours_ll(2), solicited(ip6(2, 10)), 255));
    let Icmpv6Repr::Ndisc(m) = message6(&s) else { panic!() };
    let options: Vec<_> = m.options().map(Result::unwrap).collect();
    assert_eq!(options, [NdiscOption::SourceLinkAddr(ours(2))]);
    let NdiscRepr::NeighborSolicit { target, .. } = m else { panic!() };
    assert_eq!(target, ip6(2, 10));
    // An answer without the address answers nothing; one with it does.
    assert!(silent(&r.rx(2, &advert(NeighborFlags::SOLICITED, None))));
    let s = r.rx(2, &advert(NeighborFlags::SOLICITED, Some(mac(2, 10)))).one();
    assert_eq!((open6(&s).0, s.origin), (mac(2, 10), Origin::Received));
    // Another MAC does not replace it unless it says so (RFC 4861 §7.2.5) …
    r.rx(2, &advert(NeighborFlags::default(), Some(mac(2, 66))));
    let o = r.rx(1, &f);
    assert!(o.sent.iter().all(|s| open6(s).0 == mac(2, 10)) && o.sent.len() == 2, "{o:?}");
    r.rx(2, &advert(NeighborFlags::OVERRIDE, Some(mac(2, 66))));
    let o = r.rx(1, &f);
    assert!(o.sent.iter().all(|s| open6(s).0 == mac(2, 66)) && o.sent.len() == 2, "{o:?}");
}

/// Whoever has one of its addresses is counted, as it asks, answers and announces itself, mostly from that very address.
#[test]
fn claims_in_ipv6_are_counted() {
    let mut r = router(&config());
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let group = |a: Ipv6Addr| {
        let [.., w, x, y, z] = a.octets();
        MacAddr([0x33, 0x33, w, x, y, z])
    };
    let is_there = |from, src, dst, to, target| {
        let flags = NeighborFlags::OVERRIDE;
        nd(
            (from, to),
            (src, dst),
            |options| NdiscRepr::NeighborAdvert { flags, target, options },
            Some(NdiscOption::TargetLinkAddr(from)),
        )
    };
    let asks = |from, src, target: Ipv6Addr| {
        nd(
            (from, group(solicited(target))),
            (src, solicited(target)),
            |options| NdiscRepr::NeighborSolicit { target, options },
            Some(NdiscOption::SourceLinkAddr(from)),
        )
    };
    let other = mac(1, 66);
    let mut count = 0;
    let mut is = |r: &mut Rig, f: &[u8], more: u32| {
        let before = status(r, "neighbours");
        assert!(silent(&r.rx(1, f)));
        count += more;
        assert_eq!(status(r, "address conflicts"), count.to_string(), "{f:02x?}");
        assert_eq!(status(r, "neighbours"), before);
    };
    for own in [ip6(1, 1), ours_ll(1)] {
        for src in [own, ll(0x50), ip6(1, 0x50)] {
            is(&mut r, &is_there(other, src, all, group(all), own), 1);
            is(&mut r, &is_there(other, src, own, ours(1), own), 1);
        }
        is(&mut r, &asks(other, own, ip6(1, 12)), 1);
        is(&mut r, &asks(other, own, own), 1);
        // What it sent itself and came back; what a router passed on; what is damaged, or no neighbour discovery.
        is(&mut r, &is_there(ours(1), own, all, group(all), own), 0);
        is(&mut r, &asks(ours(1), own, ip6(1, 12)), 0);
        let good = is_there(other, own, all, group(all), own);
        for (at, value) in [(21, 254), (57, 9), (54, 134), (20, 17)] {
            let mut f = good.clone();
            f[at] = value;
            is(&mut r, &f, 0);
        }
        is(&mut r, &ping6(1, 66, own, ip6(1, 10), b"liar"), 0);
    }
    // Those of another link are none of this one's.
    is(&mut r, &is_there(other, ip6(2, 1), all, group(all), ip6(2, 1)), 0);
    assert_eq!(status(&r, "martian"), "15");
}

#[test]
fn gives_up_in_ipv6() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = from_host(1, 10, udp6(ip6(1, 10), ip6(2, 77), b"one"));
    r.rx(1, &f);
    let o = r.pass_ms(3100);
    assert_eq!(o.dropped, [(DropReason::Unreachable, Origin::Received)]);
    let last = o.sent.last().unwrap();
    let Icmpv6Repr::DestinationUnreachable { code: 3, .. } = message6(last) else { panic!() };
    assert_eq!((o.sent.len(), last.port), (3, 1));
}

#[test]
fn answers_in_ipv6() {
    let mut r = router(&config());
    for target in [ip6(1, 1), ours_ll(1)] {
        let ask = nd(
            (
                mac(1, 10),
                MacAddr([
                    0x33,
                    0x33,
                    0xff,
                    target.octets()[13],
                    target.octets()[14],
                    target.octets()[15],
                ]),
            ),
            (ip6(1, 10), solicited(target)),
            |options| NdiscRepr::NeighborSolicit { target, options },
            Some(NdiscOption::SourceLinkAddr(mac(1, 10))),
        );
        let s = r.rx(1, &ask).one();
        let (to, _, p) = open6(&s);
        assert_eq!((to, p.src(), p.dst(), p.hop_limit()), (mac(1, 10), target, ip6(1, 10), 255));
        let Icmpv6Repr::Ndisc(m) = message6(&s) else { panic!() };
        let options: Vec<_> = m.options().map(Result::unwrap).collect();
        assert_eq!(options, [NdiscOption::TargetLinkAddr(ours(1))]);
        let NdiscRepr::NeighborAdvert { flags, target: t, .. } = m else { panic!() };
        let all = NeighborFlags::ROUTER | NeighborFlags::SOLICITED | NeighborFlags::OVERRIDE;
        assert_eq!((flags, t), (all, target));
    }
}

#[test]
fn defends_its_addresses_from_newcomers() {
    let mut r = router(&config());
    let target = ip6(1, 1);
    let detect = |dst, option| {
        let ips = (Ipv6Addr::UNSPECIFIED, dst);
        let macs = (mac(1, 10), MacAddr([0x33, 0x33, 0xff, 0, 0, 1]));
        nd(macs, ips, |options| NdiscRepr::NeighborSolicit { target, options }, option)
    };
    let s = r.rx(1, &detect(solicited(target), None)).one();
    let (to, _, p) = open6(&s);
    assert_eq!((to, p.dst()), (MacAddr([0x33, 0x33, 0, 0, 0, 1]), "ff02::1".parse().unwrap()));
    let Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, .. }) = message6(&s) else { panic!() };
    assert_eq!(flags, NeighborFlags::ROUTER | NeighborFlags::OVERRIDE);
    // Not valid (RFC 4861 §7.1.1): with a source address option, or to another group.
    let with = Some(NdiscOption::SourceLinkAddr(mac(1, 10)));
    assert!(silent(&r.rx(1, &detect(solicited(target), with))));
    assert!(silent(&r.rx(1, &detect("ff02::1".parse().unwrap(), None))));
    assert_eq!(status(&r, "neighbours"), "0");
}

#[test]
fn discovery_from_afar_is_ignored() {
    let mut r = router(&config());
    let target = ours_ll(1);
    let ask = |options| {
        nd(
            (mac(1, 10), ours(1)),
            (ip6(1, 10), target),
            |o| NdiscRepr::NeighborSolicit { target, options: o },
            options,
        )
    };
    let good = ask(Some(NdiscOption::SourceLinkAddr(mac(1, 10))));
    // Passed on by a router: the hop limit is not 255. It is not in the checksum.
    let mut far = good.clone();
    far[21] = 254;
    assert!(silent(&r.rx(1, &far)));
    // An option of length zero (RFC 4861 §4.6).
    let mut bad = ask(Some(NdiscOption::Unknown(200, &[0; 6])));
    let at = bad.len() - 7;
    bad[at] = 0;
    // Mended by hand: the length goes from 1 to 0 in the low byte of a word.
    let check = u16::from_be_bytes([bad[56], bad[57]]);
    bad[56..58].copy_from_slice(&(check + 1).to_be_bytes());
    let o = r.rx(1, &bad);
    assert_eq!((o.sent.len(), o.consumed), (0, 1), "{o:?}");
    assert_eq!(r.rx(1, &good).sent.len(), 1);
    // Router solicitations end here, unanswered.
    let rs = nd(
        (mac(1, 10), MacAddr([0x33, 0x33, 0, 0, 0, 2])),
        (ip6(1, 10), "ff02::2".parse().unwrap()),
        |options| NdiscRepr::RouterSolicit { options },
        None,
    );
    let o = r.rx(1, &rs);
    assert_eq!((o.sent.len(), o.consumed), (0, 1));
}

/// A router that is told something else knows its neighbours on links that are the same.
#[test]
fn neighbours_outlive_a_change_of_routes() {
    let mut r = router(&config());
    r.rx(1, &to_2(10, b"one"));
    r.rx(2, &is_at(2, 10));
    // Those that are being asked for are asked for again.
    r.rx(1, &to_2(11, b"kept"));
    let mut c = config();
    c.routes.clear();
    // Its place among the links is another.
    c.interfaces.retain(|i| i.port != PortNo(1));
    c.interfaces.push(Interface { mac: ours(9), ..config().interfaces[1].clone() });
    let o = r.replace(Router::new(&c).unwrap());
    assert_eq!(o.dropped.len(), 1, "{o:?}");
    let to_us = |f: Vec<u8>| [&ours(9).octets()[..], &f[6..]].concat();
    let s = r.rx(1, &to_us(to_2(10, b"two"))).one();
    assert_eq!((s.port, open4(&s).0), (2, mac(2, 10)));
    let s = r.rx(1, &to_us(to_2(11, b"three"))).one();
    assert!(is_arp(&s.bytes));
    // A link with another MAC or other addresses is another.
    c.interfaces.iter_mut().filter(|i| i.port == PortNo(2)).for_each(|i| i.mac = ours(8));
    r.replace(Router::new(&c).unwrap());
    let s = r.rx(1, &to_us(to_2(10, b"four"))).one();
    assert!(is_arp(&s.bytes));
}

/// On a link that is another now a neighbour is asked for anew, though it was reachable a moment ago.
#[test]
fn neighbours_on_a_link_that_is_another_are_asked_for() {
    let mut r = router(&config());
    r.rx(1, &to_2(10, b"one"));
    r.rx(2, &is_at(2, 10));
    assert_eq!(r.rx(1, &to_2(10, b"two")).sent.len(), 1);
    r.program.forget_port(PortNo(1));
    assert_eq!(r.rx(1, &to_2(10, b"three")).sent.len(), 1);
    r.program.forget_port(PortNo(2));
    let o = r.rx(1, &to_2(10, b"four"));
    assert!(is_arp(&o.one().bytes));
}

/// Who is there when the link is back may be another. Until then its sender hears that a packet can't get there.
#[test]
fn a_link_that_goes_takes_its_neighbours_along() {
    let mut r = router(&config());
    r.rx(1, &to_2(10, b"one"));
    r.rx(2, &is_at(2, 10));
    assert_eq!(open4(&r.rx(1, &to_2(10, b"two")).one()).0, mac(2, 10));
    r.ports[1].up = false;
    r.pass_ms(20);
    let o = r.rx(1, &to_2(10, b"three"));
    assert_eq!(o.dropped, [(DropReason::PortDown, Origin::Received)]);
    // Links that are up have the neighbours that they had, or are asked for them.
    assert_eq!(arp_of(&o.one()), ArpRepr::request(ours(1), ip4(1, 1), ip4(1, 10)));
    let s = r.rx(1, &is_at(1, 10)).one();
    let Icmpv4Repr::DestinationUnreachable { code, .. } = message4(&s) else { panic!() };
    assert_eq!((s.port, code, open4(&s).0), (1, unreachable::HOST, mac(1, 10)));
    r.ports[1].up = true;
    r.pass_ms(20);
    let s = r.rx(1, &to_2(10, b"four")).one();
    assert_eq!(arp_of(&s), ArpRepr::request(ours(2), ip4(2, 1), ip4(2, 10)));
    let o = r.rx(2, &is_at(2, 10));
    assert_eq!(&o.sent[0].bytes[42..], b"four");
    // A link that was never looked at while it was down is as before.
    r.ports[1].up = false;
    r.ports[1].up = true;
    r.pass_ms(20);
    assert_eq!(open4(&r.rx(1, &to_2(10, b"five")).one()).0, mac(2, 10));
}
