//! IPv6: forwarding, delivery, errors and when there are none.

use crate::lab::*;
use crate::programs_rig::Outcome;
use std::net::Ipv6Addr;
use weir_dataplane::Origin;
use weir_packet::DropReason;
use weir_wire::build::Frame;
use weir_wire::{Icmpv6Repr, IpProtocol, Ipv6Packet, MacAddr};

#[test]
fn forwards_between_links() {
    let mut r = router(&config());
    introduce(&mut r);
    let sent = from_host(1, 10, udp6(ip6(1, 10), ip6(2, 10), b"hello"));
    let mut padded = sent.clone();
    padded.extend([0xee; 5]);
    let s = r.rx(1, &padded).one();
    assert_eq!((s.port, s.origin), (2, Origin::Received));
    let mut want = sent;
    want[..6].copy_from_slice(&mac(2, 10).octets());
    want[6..12].copy_from_slice(&ours(2).octets());
    Ipv6Packet::new_unchecked(&mut want[14..]).set_hop_limit(63);
    assert_eq!(s.bytes, want);
}

#[test]
fn routes_by_gateways() {
    let mut r = router(&config());
    introduce(&mut r);
    let go = |text: &str| from_host(1, 10, udp6(ip6(1, 10), text.parse().unwrap(), b""));
    let s = r.rx(1, &go("2001:db8:fff7::1")).one();
    assert_eq!((s.port, open6(&s).0), (2, mac(2, 99)));
    let s = r.rx(1, &go("2001:db8:ffff::1")).one();
    assert_eq!((s.port, open6(&s).0), (3, mac(3, 254)));
}

#[test]
fn answers_pings() {
    let mut r = router(&config());
    introduce(&mut r);
    let anycast: Ipv6Addr = "2001:db8:2::".parse().unwrap();
    for dst in [ip6(1, 1), ip6(3, 1), anycast] {
        let s = r.rx(1, &ping6(1, 10, ip6(1, 10), dst, b"are you there?")).one();
        let (to, from, p) = open6(&s);
        assert_eq!((s.port, s.origin, to, from), (1, Origin::Generated, mac(1, 10), ours(1)));
        assert_eq!((p.src(), p.dst()), (dst, ip6(1, 10)));
        let reply = Icmpv6Repr::EchoReply { ident: 5, seq: 6, data: b"are you there?" };
        assert_eq!(message6(&s), reply);
    }
    // From and to link-local addresses, on the link it came from.
    let s = r.rx(2, &ping6(2, 99, ll(0x99), ours_ll(2), b"")).one();
    assert_eq!((s.port, open6(&s).0, open6(&s).2.src()), (2, mac(2, 99), ours_ll(2)));
    // To every node of the link.
    let all: Ipv6Addr = "ff02::1".parse().unwrap();
    let mut f = ping6(1, 10, ip6(1, 10), all, b"");
    f[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(open6(&r.rx(1, &f).one()).2.src(), ip6(1, 1));
    // Another link's link-local address is not this one's.
    assert!(silent(&r.rx(1, &ping6(1, 10, ip6(1, 10), ours_ll(2), b""))));
    let mut bad = ping6(1, 10, ip6(1, 10), ip6(1, 1), b"x");
    bad[56] ^= 1;
    assert_eq!(r.rx(1, &bad).only_drop(), DropReason::Malformed);
}

/// The error that a frame from host 1.10 gives: source, type, code, word.
fn error_about(o: Outcome, f: &[u8]) -> (Ipv6Addr, u8, u8, u32) {
    let s = o.one();
    assert_eq!((s.port, s.origin), (1, Origin::Generated));
    let (to, from, p) = open6(&s);
    assert_eq!((to, from), (mac(1, 10), ours(1)));
    assert!(p.total_len() <= 1280);
    let (kind, code, word, quoted) = match message6(&s) {
        Icmpv6Repr::DestinationUnreachable { code, quoted } => (1, code, 0, quoted),
        Icmpv6Repr::PacketTooBig { mtu, quoted } => (2, 0, mtu, quoted),
        Icmpv6Repr::TimeExceeded { code, quoted } => (3, code, 0, quoted),
        Icmpv6Repr::ParameterProblem { code, pointer, quoted } => (4, code, pointer, quoted),
        other => panic!("{other:?}"),
    };
    assert_eq!(quoted.len(), (f.len() - 14).min(1280 - 48));
    assert_eq!(quoted, &f[14..14 + quoted.len()]);
    (p.src(), kind, code, word)
}

#[test]
fn errors_say_what_went_wrong() {
    let mut r = router(&config());
    introduce(&mut r);
    let (me, nowhere) = (ip6(1, 10), "2001:db9::1".parse().unwrap());
    let f = from_host(1, 10, udp6(me, nowhere, b"payload"));
    let o = r.rx(1, &f);
    assert_eq!(o.dropped, [(DropReason::Unreachable, Origin::Received)]);
    assert_eq!(error_about(o, &f), (ip6(1, 1), 1, 0, 0));

    for limit in [0, 1] {
        let f = from_host(1, 10, udp6(me, ip6(2, 10), b"payload").ttl(limit));
        let o = r.rx(1, &f);
        assert_eq!(o.dropped, [(DropReason::TtlExpired, Origin::Received)]);
        assert_eq!(error_about(o, &f), (ip6(1, 1), 3, 0, 0));
    }

    let f = from_host(1, 10, udp6(me, ip6(3, 10), &[1; 1300]));
    let o = r.rx(1, &f);
    assert_eq!(o.dropped, [(DropReason::FrameTooLong, Origin::Received)]);
    assert_eq!(error_about(o, &f), (ip6(1, 1), 2, 0, NARROW.into()));

    let f = from_host(1, 10, udp6(me, ip6(2, 1), b"anybody?"));
    assert_eq!(error_about(r.rx(1, &f), &f), (ip6(2, 1), 1, 4, 0));
    let f = from_host(1, 10, Frame::ipv6(me, ip6(1, 1), IpProtocol::Gre, &[0; 40]));
    assert_eq!(error_about(r.rx(1, &f), &f), (ip6(1, 1), 4, 1, 6));
    // The same behind a header: the byte that names it is that header's first.
    let behind = [47, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    let f = from_host(1, 10, Frame::ipv6(me, ip6(1, 1), IpProtocol::Destination, &behind));
    assert_eq!(error_about(r.rx(1, &f), &f), (ip6(1, 1), 4, 1, 40));
    // A routing header that is not at its end: the type is at fault.
    let routing = [17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let f = from_host(1, 10, Frame::ipv6(me, ip6(1, 1), IpProtocol::Routing, &routing));
    assert_eq!(error_about(r.rx(1, &f), &f), (ip6(1, 1), 4, 0, 42));
    assert_eq!(status(&r, "ICMP errors"), "8");
}

/// RFC 8200 §4.2: the two highest bits say what becomes of a packet with an option that is not known.
#[test]
fn options_say_what_becomes_of_who_carries_them() {
    let mut r = router(&config());
    introduce(&mut r);
    let (me, own, all) = (ip6(1, 10), ip6(1, 1), "ff02::1".parse().unwrap());
    let ping = |dst, header: IpProtocol, kind: u8| {
        let m = icmp6(me, dst, Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: b"options" });
        // Behind a byte of padding, so that the pointer is not where options begin.
        let payload = [&[58, 0, 0, kind, 1, 0xee, 0, 0][..], &m].concat();
        from_host(1, 10, Frame::ipv6(me, dst, header, &payload))
    };
    for header in [IpProtocol::HopByHop, IpProtocol::Destination] {
        let o = r.rx(1, &ping(own, header, 0x3e));
        assert!(matches!(message6(&o.one()), Icmpv6Repr::EchoReply { .. }));
        assert_eq!(r.rx(1, &ping(own, header, 0x7e)).only_drop(), DropReason::Program);
        for kind in [0xbe, 0xfe] {
            let f = ping(own, header, kind);
            assert_eq!(error_about(r.rx(1, &f), &f), (own, 4, 2, 43));
        }
        // To a group; on the link, too.
        let to_all = |kind| {
            let f = ping(all, header, kind);
            [&[0x33, 0x33, 0, 0, 0, 1], &f[6..]].concat()
        };
        assert!(matches!(message6(&r.rx(1, &to_all(0x3e)).one()), Icmpv6Repr::EchoReply { .. }));
        assert_eq!(r.rx(1, &to_all(0x7e)).only_drop(), DropReason::Program);
        let f = to_all(0xbe);
        assert_eq!(error_about(r.rx(1, &f), &f), (own, 4, 2, 43));
        assert!(silent(&r.rx(1, &to_all(0xfe))));
        // On the way to others they are theirs to read.
        let f =
            from_host(1, 10, Frame::ipv6(me, ip6(2, 10), header, &[58, 0, 0xc2, 0, 1, 2, 0, 0]));
        assert_eq!(r.rx(1, &f).one().port, 2);
        // An option that ends behind its header.
        let f = Frame::ipv6(me, own, header, &[17, 0, 1, 2, 0, 0, 0x3e, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(r.rx(1, &from_host(1, 10, f)).only_drop(), DropReason::Malformed);
    }
    // Hop-by-hop options behind another header are no header (§4).
    let behind = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    let f = from_host(1, 10, Frame::ipv6(me, own, IpProtocol::Destination, &behind));
    assert_eq!(error_about(r.rx(1, &f), &f), (own, 4, 1, 40));
}

/// RFC 1122 §4.1.3.4, RFC 8200 §8.1: a damaged segment, or one without a checksum, has no sender to be told.
#[test]
fn damaged_segments_to_the_router_get_no_answer() {
    let mut r = router(&config());
    introduce(&mut r);
    let good = from_host(1, 10, udp6(ip6(1, 10), ip6(1, 1), b"anybody?"));
    assert_eq!(error_about(r.rx(1, &good), &good), (ip6(1, 1), 1, 4, 0));
    for at in 54..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(r.rx(1, &bad).only_drop(), DropReason::Malformed, "byte {at}");
    }
    let mut none = good.clone();
    none[60..62].fill(0);
    assert_eq!(r.rx(1, &none).only_drop(), DropReason::Malformed);
}

#[test]
fn a_link_local_source_stays_on_its_link() {
    let mut r = router(&config());
    introduce(&mut r);
    let f = from_host(2, 99, udp6(ll(0x99), ip6(1, 10), b""));
    let o = r.rx(2, &f);
    assert_eq!(o.dropped, [(DropReason::Unreachable, Origin::Received)]);
    let s = o.one();
    let (to, _, p) = open6(&s);
    assert_eq!((s.port, to, p.src(), p.dst()), (2, mac(2, 99), ours_ll(2), ll(0x99)));
    let Icmpv6Repr::DestinationUnreachable { code: 2, .. } = message6(&s) else { panic!() };
    // Nor is a link-local destination passed on.
    let f = from_host(1, 10, udp6(ip6(1, 10), ll(0x99), b""));
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Program);
}

#[test]
fn no_errors_where_none_may_be() {
    let mut r = router(&config());
    introduce(&mut r);
    let me = ip6(1, 10);
    let nowhere: Ipv6Addr = "2001:db9::1".parse().unwrap();
    for m in [
        Icmpv6Repr::DestinationUnreachable { code: 0, quoted: &[0; 48] },
        Icmpv6Repr::PacketTooBig { mtu: 1280, quoted: &[0; 48] },
        Icmpv6Repr::TimeExceeded { code: 0, quoted: &[0; 48] },
        Icmpv6Repr::ParameterProblem { code: 0, pointer: 0, quoted: &[0; 48] },
        Icmpv6Repr::Other { message: 100.into(), code: 0, body: &[0; 8] },
        Icmpv6Repr::Other { message: 137.into(), code: 0, body: &[0; 36] },
    ] {
        let m = icmp6(me, nowhere, m);
        // Plainly, behind an extension header, and in a later fragment.
        let behind = |first: [u8; 8]| [&first[..], &m].concat();
        let options = behind([58, 0, 1, 4, 0, 0, 0, 0]);
        // Whatever its first byte is: the type is in another fragment.
        let later = [&[58, 0, 0, 8, 0, 0, 0, 1][..], &[0xff; 16]].concat();
        for (protocol, payload) in [
            (IpProtocol::Icmpv6, &m),
            (IpProtocol::Destination, &options),
            (IpProtocol::Fragment, &later),
        ] {
            let f = from_host(1, 10, Frame::ipv6(me, nowhere, protocol, payload));
            assert_eq!(r.rx(1, &f).only_drop(), DropReason::Unreachable);
        }
    }
    assert_eq!(r.rx(1, &ping6(1, 10, me, nowhere, b"")).sent.len(), 1);
    // Headers that can't be followed.
    let f = from_host(1, 10, Frame::ipv6(me, nowhere, IpProtocol::Destination, &[58, 9, 0, 0]));
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Unreachable);
    for dst in [MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
        let f = bytes(udp6(me, ip6(1, 1), b"").macs(mac(1, 10), dst));
        assert!(silent(&r.rx(1, &f)));
        let f = bytes(udp6(me, ip6(2, 10), b"").macs(mac(1, 10), dst));
        assert_eq!(r.rx(1, &f).only_drop(), DropReason::Program);
    }
    let of = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    for (src, dst) in [
        (me, of("ff02::1")),
        (me, of("ff02::fb")),
        (me, of("ff0e::1")),
        (me, of("::1")),
        (me, of("::")),
        (me, of("::ffff:10.0.0.1")),
        (of("::"), nowhere),
        (of("::"), ip6(1, 1)),
        (of("::1"), nowhere),
        (of("ff02::1"), nowhere),
        (of("2001:dead::1"), nowhere),
        (ip6(1, 1), nowhere),
        (ours_ll(1), ip6(1, 1)),
    ] {
        let o = r.rx(1, &from_host(1, 10, udp6(src, dst, b"")));
        assert!(silent(&o), "{src} to {dst}: {o:?}");
    }
}

#[test]
fn broken_packets() {
    let mut r = router(&config());
    introduce(&mut r);
    let good = from_host(1, 10, udp6(ip6(1, 10), ip6(2, 10), b"payload"));
    for n in 14..good.len() {
        assert_eq!(r.rx(1, &good[..n]).only_drop(), DropReason::Malformed, "{n} bytes");
    }
    // Headers that end too early.
    let f = Frame::ipv6(ip6(1, 10), ip6(1, 1), IpProtocol::HopByHop, &[17, 9, 0, 0]);
    assert_eq!(r.rx(1, &from_host(1, 10, f)).only_drop(), DropReason::Malformed);
    // A chain of headers without end.
    let chain = [[60, 0, 1, 4, 0, 0, 0, 0]; 100].concat();
    let f = Frame::ipv6(ip6(1, 10), ip6(1, 1), IpProtocol::Destination, &chain);
    assert_eq!(r.rx(1, &from_host(1, 10, f)).only_drop(), DropReason::Malformed);
}
