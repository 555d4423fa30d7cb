//! IPv4: forwarding, delivery, errors and when there are none, fragments.

use crate::lab::*;
use crate::programs_rig::{Outcome, Rig};
use std::net::Ipv4Addr;
use weir_dataplane::Origin;
use weir_dataplane::programs::router::IcmpLimit;
use weir_packet::{DropReason, Nanos};
use weir_wire::build::{Frame, Network};
use weir_wire::icmpv4::unreachable;
use weir_wire::{Icmpv4Repr, IpProtocol, Ipv4Packet, MacAddr};

#[test]
fn forwards_between_links() {
    let mut r = router(&config());
    introduce(&mut r);
    let sent = from_host(1, 10, udp4(ip4(1, 10), ip4(2, 10), b"hello"));
    // Ethernet's padding does not travel on.
    let mut padded = sent.clone();
    padded.resize(60, 0xee);
    let s = r.rx(1, &padded).one();
    assert_eq!((s.port, s.origin), (2, Origin::Received));
    let (dst, src, p) = open4(&s);
    assert_eq!((dst, src), (mac(2, 10), ours(2)));
    assert_eq!(p.ttl(), 63);
    // All else is as it was.
    let mut want = sent;
    want[..12].copy_from_slice(&s.bytes[..12]);
    let mut ip = Ipv4Packet::new_unchecked(&mut want[14..]);
    ip.set_ttl(63);
    ip.fill_checksum();
    assert_eq!(s.bytes, want);
}

#[test]
fn the_longest_prefix_wins() {
    let mut r = router(&config());
    introduce(&mut r);
    for (dst, port) in [([192, 0, 2, 5], 2), ([192, 0, 2, 127], 2), ([192, 0, 2, 128], 3)] {
        let s = r.rx(1, &from_host(1, 10, udp4(ip4(1, 10), dst.into(), b""))).one();
        assert_eq!((s.port, open4(&s).0), (port, mac(port, 254)), "{dst:?}");
    }
}

#[test]
fn back_by_the_same_link() {
    let mut r = router(&config());
    introduce(&mut r);
    let s = r.rx(1, &from_host(1, 10, udp4(ip4(1, 10), ip4(1, 254), b""))).one();
    assert_eq!((s.port, open4(&s).0), (1, mac(1, 254)));
}

#[test]
fn discards_silently() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = from_host(1, 10, udp4(ip4(1, 10), [198, 51, 100, 1].into(), b""));
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Program);
}

#[test]
fn answers_pings() {
    let mut r = router(&config());
    introduce(&mut r);
    // By the link it came from; and for the address of another link.
    for dst in [ip4(1, 1), ip4(3, 1)] {
        let o = r.rx(1, &ping4(1, 10, dst, b"are you there?"));
        assert_eq!(o.consumed, 1);
        let s = o.one();
        assert_eq!((s.port, s.origin), (1, Origin::Generated));
        let (to, from, p) = open4(&s);
        assert_eq!((to, from), (mac(1, 10), ours(1)));
        assert_eq!((p.src(), p.dst()), (dst, ip4(1, 10)));
        let reply = Icmpv4Repr::EchoReply { ident: 5, seq: 6, data: b"are you there?" };
        assert_eq!(message4(&s), reply);
    }
    // A checksum that is wrong, a request without spare frames, one to everybody.
    let mut bad = ping4(1, 10, ip4(1, 1), b"x");
    bad[36] ^= 1;
    assert_eq!(r.rx(1, &bad).only_drop(), DropReason::Malformed);
    r.spares(0);
    assert_eq!(r.rx_as_is(1, &ping4(1, 10, ip4(1, 1), b"x")).sent.len(), 0);
    for dst in [ip4(1, 255), ip4(1, 0), Ipv4Addr::BROADCAST] {
        let o = r.rx(1, &ping4(1, 10, dst, b"x"));
        assert_eq!((o.sent.len(), o.consumed), (0, 1));
    }
}

/// The error that a frame from host 1.10 gives, with its source; the frame is quoted.
fn error_about(o: Outcome, f: &[u8]) -> (Ipv4Addr, u8, u8, u16) {
    let s = o.one();
    assert_eq!((s.port, s.origin), (1, Origin::Generated));
    let (to, from, p) = open4(&s);
    assert_eq!((to, from, p.dst()), (mac(1, 10), ours(1), ip4(1, 10)));
    assert!(usize::from(p.total_len()) <= 576);
    assert_eq!((p.dscp(), p.ttl()), (48, 64));
    let quote = |q: &[u8]| {
        assert_eq!(q, &f[14..14 + q.len()]);
        assert_eq!(q.len(), (f.len() - 14).min(576 - 28));
    };
    let (kind, code, mtu) = match message4(&s) {
        Icmpv4Repr::DestinationUnreachable { code, next_hop_mtu, quoted } => {
            quote(quoted);
            (3, code, next_hop_mtu)
        }
        Icmpv4Repr::TimeExceeded { code, quoted } => {
            quote(quoted);
            (11, code, 0)
        }
        other => panic!("{other:?}"),
    };
    (p.src(), kind, code, mtu)
}

#[test]
fn errors_say_what_went_wrong() {
    let mut r = router(&config());
    introduce(&mut r);
    let me = ip4(1, 10);
    let nowhere = from_host(1, 10, udp4(me, [203, 0, 113, 9].into(), b"some payload"));
    let o = r.rx(1, &nowhere);
    assert_eq!(o.dropped, [(DropReason::Unreachable, Origin::Received)]);
    assert_eq!(error_about(o, &nowhere), (ip4(1, 1), 3, unreachable::NETWORK, 0));

    for ttl in [0, 1] {
        let old = from_host(1, 10, udp4(me, ip4(2, 10), b"").ttl(ttl));
        let o = r.rx(1, &old);
        assert_eq!(o.dropped, [(DropReason::TtlExpired, Origin::Received)]);
        assert_eq!(error_about(o, &old), (ip4(1, 1), 11, 0, 0));
    }

    let long = vec![7; 1300];
    let long = from_host(1, 10, udp4(me, ip4(3, 10), &long));
    let o = r.rx(1, &long);
    assert_eq!(o.dropped, [(DropReason::FrameTooLong, Origin::Received)]);
    assert_eq!(error_about(o, &long), (ip4(1, 1), 3, unreachable::FRAGMENTATION_NEEDED, NARROW));

    // To the router itself: the address asked for answers.
    let f = from_host(1, 10, udp4(me, ip4(2, 1), b"anybody?"));
    let o = r.rx(1, &f);
    assert_eq!(o.consumed, 1);
    assert_eq!(error_about(o, &f), (ip4(2, 1), 3, unreachable::PORT, 0));
    let f = from_host(1, 10, Frame::ipv4(me, ip4(1, 1), IpProtocol::Gre, &[0; 40]));
    assert_eq!(error_about(r.rx(1, &f), &f), (ip4(1, 1), 3, unreachable::PROTOCOL, 0));
    assert_eq!(status(&r, "ICMP errors"), "6");
}

#[test]
fn no_errors_where_none_may_be() {
    let mut r = router(&config());
    introduce(&mut r);
    let (me, nowhere) = (ip4(1, 10), Ipv4Addr::new(203, 0, 113, 9));
    // About errors; of every kind.
    for m in [
        Icmpv4Repr::DestinationUnreachable { code: 1, next_hop_mtu: 0, quoted: &[0; 28] },
        Icmpv4Repr::TimeExceeded { code: 0, quoted: &[0; 28] },
        Icmpv4Repr::Redirect { code: 1, gateway: me, quoted: &[0; 28] },
        Icmpv4Repr::ParameterProblem { code: 0, pointer: 0, quoted: &[0; 28] },
    ] {
        let m = icmp4(m);
        let f = from_host(1, 10, Frame::ipv4(me, nowhere, IpProtocol::Icmp, &m));
        assert_eq!(r.rx(1, &f).only_drop(), DropReason::Unreachable);
    }
    // About an ICMP message without a type, which may be one.
    let f = from_host(1, 10, Frame::ipv4(me, nowhere, IpProtocol::Icmp, &[]));
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Unreachable);
    // A query is none.
    assert_eq!(r.rx(1, &ping4(1, 10, nowhere, b"")).sent.len(), 1);
    // About later fragments; the first is spoken of.
    for (offset, sent) in [(1, 0), (0, 1)] {
        let mut f = udp4(me, nowhere, &[0; 64]);
        if let Network::Ipv4(ip) = &mut f.network {
            (ip.fragment_offset, ip.more_fragments) = (offset, true);
        }
        assert_eq!(r.rx(1, &from_host(1, 10, f)).sent.len(), sent);
    }
    // About frames to everybody on the link, even with one host's address inside (RFC 1812).
    for dst in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 1])] {
        let f = bytes(udp4(me, ip4(1, 1), b"").macs(mac(1, 10), dst));
        assert!(silent(&r.rx(1, &f)));
        let f = bytes(udp4(me, ip4(2, 10), b"").macs(mac(1, 10), dst));
        assert_eq!(r.rx(1, &f).only_drop(), DropReason::Program);
    }
    // About packets to many, or from nobody that could be answered.
    for (src, dst) in [
        (me, ip4(1, 255)),
        (me, ip4(2, 255)),
        (me, Ipv4Addr::BROADCAST),
        (me, [224, 0, 0, 1].into()),
        (me, [239, 1, 2, 3].into()),
        (me, [127, 0, 0, 1].into()),
        (me, [0, 0, 0, 0].into()),
        (me, [250, 0, 0, 1].into()),
        (ip4(1, 255), nowhere),
        ([203, 0, 113, 77].into(), nowhere),
        ([0, 0, 0, 0].into(), nowhere),
        ([127, 0, 0, 1].into(), nowhere),
        ([224, 0, 0, 1].into(), nowhere),
        (Ipv4Addr::BROADCAST, nowhere),
        (ip4(1, 1), nowhere),
        (ip4(2, 1), ip4(1, 1)),
    ] {
        let o = r.rx(1, &from_host(1, 10, udp4(src, dst, b"")));
        assert!(silent(&o), "{src} to {dst}: {o:?}");
    }
}

/// RFC 1122 §4.1.3.4, §4.2.2.7: a damaged segment has no sender to be told.
#[test]
fn damaged_segments_to_the_router_get_no_answer() {
    let mut r = router(&config());
    introduce(&mut r);
    let (me, own) = (ip4(1, 10), ip4(1, 1));
    let udp = from_host(1, 10, udp4(me, own, b"anybody?"));
    let tcp = from_host(1, 10, tcp4(me, own));
    for (f, code) in [(&udp, unreachable::PORT), (&tcp, unreachable::PROTOCOL)] {
        assert_eq!(error_about(r.rx(1, f), f), (own, 3, code, 0));
        // The checksum's own bytes may not become zero, which is "none".
        for at in (34..f.len()).filter(|at| at / 2 != 40 / 2) {
            let mut bad = f.clone();
            bad[at] ^= 1;
            assert_eq!(r.rx(1, &bad).only_drop(), DropReason::Malformed, "byte {at}");
        }
        // Passed on to others they are theirs to judge.
        let mut on = f.clone();
        on[30..34].copy_from_slice(&ip4(2, 10).octets());
        Ipv4Packet::new_unchecked(&mut on[14..]).fill_checksum();
        assert_eq!(r.rx(1, &on).one().port, 2);
    }
    // UDP may leave its out, and is whole all the same.
    let mut none = udp.clone();
    none[40..42].fill(0);
    assert_eq!(error_about(r.rx(1, &none), &none), (own, 3, unreachable::PORT, 0));
    none[39] += 1;
    assert_eq!(r.rx(1, &none).only_drop(), DropReason::Malformed);
}

#[test]
fn errors_are_limited() {
    let mut c = config();
    c.icmp = IcmpLimit { per_second: 10, burst: 5 };
    let mut r = router(&c);
    introduce(&mut r);
    let f = from_host(1, 10, udp4(ip4(1, 10), [203, 0, 113, 9].into(), b""));
    let mut errors = |n: usize| (0..n).map(|_| r.rx(1, &f).sent.len()).sum::<usize>();
    assert_eq!(errors(20), 5);
    r.now = r.now + Nanos::from_millis(300);
    let mut errors = |n: usize| (0..n).map(|_| r.rx(1, &f).sent.len()).sum::<usize>();
    assert_eq!(errors(20), 3);
    assert_eq!(status(&r, "ICMP errors limited"), "32");
    // Pings are no errors.
    assert_eq!(r.rx(1, &ping4(1, 10, ip4(1, 1), b"")).sent.len(), 1);
}

#[test]
fn broken_packets() {
    let mut r = router(&config());
    introduce(&mut r);
    let good = from_host(1, 10, udp4(ip4(1, 10), ip4(2, 10), b"payload"));
    let frame_ends = |n: usize| if n < 14 { DropReason::Runt } else { DropReason::Malformed };
    for n in 0..good.len() {
        assert_eq!(r.rx(1, &good[..n]).only_drop(), frame_ends(n), "{n} bytes");
    }
    // Any bit of the header that the checksum covers.
    for bit in 0..160 {
        let mut f = good.clone();
        f[14 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(r.rx(1, &f).only_drop(), DropReason::Malformed, "bit {bit}");
    }
}

/// IEEE 802.1Q §6.9.1: VLAN 0 is none, whatever the priority.
/// Nobody has a link's broadcast address, in either form, whichever link a packet comes by (RFC 1812 §5.3.7, §4.2.2.11(d)). Links of
/// two hosts have none (RFC 3021).
#[test]
fn a_broadcast_address_is_no_source() {
    let mut c = config();
    c.interfaces[0].addresses.extend([prefix("172.16.0.0/31"), prefix("172.16.0.7/32")]);
    let mut r = router(&c);
    introduce(&mut r);
    let rx = |r: &mut Rig, src: [u8; 4]| {
        r.rx(1, &from_host(1, 10, udp4(src.into(), ip4(2, 10), b"from whom")))
    };
    for src in [[10, 0, 1, 255], [10, 0, 1, 0], [10, 0, 3, 255], [10, 0, 2, 0]] {
        assert_eq!(rx(&mut r, src).only_drop(), DropReason::Program, "{src:?}");
    }
    assert_eq!(status(&r, "martian"), "4");
    let passing =
        [[172, 16, 0, 1], [172, 16, 0, 6], [172, 16, 0, 8], [10, 0, 1, 254], [10, 9, 0, 255]];
    for src in passing {
        assert_eq!(rx(&mut r, src).one().port, 2, "{src:?}");
    }
    assert_eq!(status(&r, "martian"), "4");
}

#[test]
fn priority_tags_name_no_vlan() {
    use weir_wire::VlanRepr;
    let mut r = router(&config());
    let tagged = |f: Vec<u8>, pcp: u8| [&f[..12], &[0x81, 0, pcp << 5, 0], &f[12..]].concat();
    // ARP and neighbour discovery, then what they are for.
    let asked = r.rx(1, &tagged(who_has(1, 10), 7)).one();
    assert_eq!(arp_of(&asked).target_mac, mac(1, 10));
    let target = ip6(1, 1);
    let ask = nd(
        (mac(1, 10), ours(1)),
        (ip6(1, 10), target),
        |options| weir_wire::NdiscRepr::NeighborSolicit { target, options },
        Some(weir_wire::ndisc_option::NdiscOption::SourceLinkAddr(mac(1, 10))),
    );
    assert_eq!(r.rx(1, &tagged(ask, 6)).sent.len(), 1);
    introduce(&mut r);
    for pcp in 0..8 {
        let f = from_host(1, 10, udp4(ip4(1, 10), ip4(2, 10), b"hello"));
        let plain = r.rx(1, &f).one();
        assert_eq!(r.rx(1, &tagged(f, pcp)).one(), plain);
        let f = from_host(1, 10, udp6(ip6(1, 10), ip6(2, 10), b"hello"));
        let plain = r.rx(1, &f).one();
        assert_eq!(r.rx(1, &tagged(f, pcp)).one(), plain);
    }
    // Errors quote the packet, which had no tag.
    let f = from_host(1, 10, udp4(ip4(1, 10), [203, 0, 113, 9].into(), b""));
    assert_eq!(error_about(r.rx(1, &tagged(f.clone(), 3)), &f).1, 3);
    // Two of them, one of another kind, one with a VLAN behind it.
    let f = udp4(ip4(1, 10), ip4(2, 10), b"");
    for tags in [
        [VlanRepr::dot1q(0), VlanRepr::dot1q(0)].as_slice(),
        &[VlanRepr::dot1q(0), VlanRepr::dot1q(5)],
        &[VlanRepr::dot1ad(0)],
    ] {
        let o = r.rx(1, &from_host(1, 10, f.tags(tags)));
        assert_eq!(o.only_drop(), DropReason::Program, "{tags:?}");
    }
    let mut cut = tagged(from_host(1, 10, f), 0);
    cut.truncate(17);
    assert_eq!(r.rx(1, &cut).only_drop(), DropReason::Program);
}

#[test]
fn frames_for_others() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = udp4(ip4(1, 10), ip4(2, 10), b"");
    let other = bytes(f.macs(mac(1, 10), mac(1, 77)));
    assert_eq!(r.rx(1, &other).only_drop(), DropReason::Program);
    let tags = [weir_wire::VlanRepr::dot1q(5)];
    assert_eq!(r.rx(1, &from_host(1, 10, f.tags(&tags))).only_drop(), DropReason::Program);
    // A port without an interface, and one that has gone.
    assert_eq!(r.rx(9, &from_host(1, 10, f)).only_drop(), DropReason::Program);
    r.ports.retain(|p| p.no.0 != 2);
    assert_eq!(r.rx(1, &from_host(1, 10, f)).only_drop(), DropReason::NoSuchPort);
}

/// Puts fragments together again, in any order; RFC 791 §3.2 the slow way.
fn reassemble(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = vec![None; 65_536];
    let mut end = None;
    for f in pieces {
        let p = Ipv4Packet::new_checked(&f[14..]).unwrap();
        assert!(p.has_good_checksum());
        let at = usize::from(p.fragment_offset()) * 8;
        for (i, b) in p.payload().iter().enumerate() {
            assert_eq!(whole[at + i].replace(*b), None, "byte {} twice", at + i);
        }
        if !p.more_fragments() {
            assert_eq!(end.replace(at + p.payload().len()), None, "two ends");
        }
    }
    let end = end.expect("no last fragment");
    whole[..end].iter().map(|b| b.expect("a hole")).collect()
}

#[test]
fn cuts_what_may_be_cut() {
    let mut c = config();
    for i in &mut c.interfaces {
        i.addresses.retain(|a| a.addr.is_ipv4());
    }
    c.routes.retain(|r| r.to.addr.is_ipv4());
    for mtu in [68, 100, 576, 1279] {
        c.interfaces[2].mtu = Some(mtu);
        // Bytes that wait for a neighbour do so whole: one may need more pieces than may wait.
        let mut r = router(&c);
        r.rx(3, &who_has(3, 10));
        r.rx(3, &is_at(3, 10));
        let payload: Vec<u8> = (0..1400).map(|i| (i * 7) as u8).collect();
        let f = from_host(1, 10, may_fragment(udp4(ip4(1, 10), ip4(3, 10), &payload)));
        r.spares(64);
        let o = r.rx_as_is(1, &f);
        assert!(o.dropped.is_empty());
        let own = o.sent.iter().filter(|s| s.origin == Origin::Received).count();
        assert_eq!(own, 1);
        assert!(o.sent.iter().all(|s| s.port == 3 && s.bytes.len() <= 14 + usize::from(mtu)));
        assert!(o.sent.iter().all(|s| {
            let (to, _, p) = open4(s);
            to == mac(3, 10) && p.ttl() == 63 && p.ident() == 77 && !p.dont_fragment()
        }));
        let pieces: Vec<Vec<u8>> = o.sent.iter().map(|s| s.bytes.clone()).collect();
        assert_eq!(reassemble(&pieces), f[34..]);
        assert_eq!(status(&r, "fragments"), pieces.len().to_string());
    }
}

#[test]
fn fragments_of_fragments_keep_their_place() {
    let mut r = router(&config());
    introduce(&mut r);
    let payload = [9; 1392];
    let mut f = Frame::ipv4(ip4(1, 10), ip4(3, 10), IpProtocol::Udp, &payload);
    let router_alert = [148, 4, 0, 0, 1, 1, 1, 1];
    if let Network::Ipv4(ip) = &mut f.network {
        (ip.dont_fragment, ip.more_fragments, ip.fragment_offset) = (false, true, 100);
        ip.options = &router_alert;
    }
    let o = r.rx(1, &from_host(1, 10, f));
    let heads: Vec<_> = o.sent.iter().map(|s| open4(s).2).collect();
    let shape: Vec<_> =
        heads.iter().map(|p| (p.fragment_offset(), p.more_fragments(), p.header_len())).collect();
    // 1280 - 28 leaves 156 units; the alert is copied, its padding is not.
    assert_eq!(shape, [(100, true, 28), (256, true, 24)]);
    assert_eq!(heads[1].option_bytes(), [148, 4, 0, 0]);
    // Where the end would be past what IPv4 can say.
    if let Network::Ipv4(ip) = &mut f.network {
        ip.fragment_offset = 8191;
    }
    assert_eq!(r.rx(1, &from_host(1, 10, f)).only_drop(), DropReason::Malformed);
}

#[test]
fn all_fragments_or_none() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = from_host(1, 10, may_fragment(udp4(ip4(1, 10), ip4(3, 10), &[0; 1400])));
    r.spares(0);
    assert_eq!(r.rx_as_is(1, &f).only_drop(), DropReason::NoFrame);
    r.spares(1);
    assert_eq!(r.rx_as_is(1, &f).sent.len(), 2);
}
