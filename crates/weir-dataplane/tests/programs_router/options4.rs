//! IPv4 options: routes recorded, times stamped, source routes refused, and what is said of broken ones.

use crate::lab::*;
use std::net::Ipv4Addr;
use weir_dataplane::Origin;
use weir_packet::DropReason;
use weir_wire::build::{Frame, Network};
use weir_wire::icmpv4::unreachable;
use weir_wire::{Icmpv4Packet, Icmpv4Repr, IpProtocol};

/// A ping of host 1.10 with these options.
pub fn with(dst: Ipv4Addr, options: &[u8]) -> Vec<u8> {
    let m = icmp4(Icmpv4Repr::EchoRequest { ident: 5, seq: 6, data: b"marks" });
    let mut f = Frame::ipv4(ip4(1, 10), dst, IpProtocol::Icmp, &m);
    if let Network::Ipv4(ip) = &mut f.network {
        ip.options = options;
    }
    from_host(1, 10, f)
}

#[test]
fn routes_are_recorded_on_the_way() {
    let mut r = router(&config());
    introduce(&mut r);
    let mut f = with(ip4(2, 10), &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (n, pointer) in [8, 12, 12].into_iter().enumerate() {
        let s = r.rx(1, &f).one();
        let (dst, _, p) = open4(&s);
        assert_eq!((s.port, dst, p.ttl()), (2, mac(2, 10), 63));
        // The address by which it goes on (RFC 791 §3.1).
        let mut want = [7, 11, pointer, 10, 0, 2, 1, 0, 0, 0, 0, 0];
        if n > 0 {
            want[7..11].copy_from_slice(&[10, 0, 2, 1]);
        }
        assert_eq!(p.option_bytes(), want);
        assert_eq!(p.payload(), &f[46..]);
        f.splice(34..46, want);
        weir_wire::Ipv4Packet::new_unchecked(&mut f[14..]).fill_checksum();
    }
}

#[test]
fn times_are_stamped_on_the_way() {
    let mut r = router(&config());
    introduce(&mut r);
    let since = |r: &crate::programs_rig::Rig| (r.now.0 / 1_000_000) as u32 | 1 << 31;
    let s = r.rx(1, &with(ip4(2, 10), &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0])).one();
    let want = [&[68, 12, 13, 1, 10, 0, 2, 1][..], &since(&r).to_be_bytes()].concat();
    assert_eq!(open4(&s).2.option_bytes(), want);
    // One that it is named in by another of its addresses.
    let s = r.rx(1, &with(ip4(2, 10), &[68, 12, 5, 3, 10, 0, 3, 1, 0, 0, 0, 0])).one();
    let want = [&[68, 12, 13, 3, 10, 0, 3, 1][..], &since(&r).to_be_bytes()].concat();
    assert_eq!(open4(&s).2.option_bytes(), want);
}

#[test]
fn a_reply_brings_the_route_back() {
    let mut r = router(&config());
    introduce(&mut r);
    let s = r.rx(1, &with(ip4(3, 1), &[1, 7, 11, 8, 10, 9, 9, 9, 0, 0, 0, 0])).one();
    let (_, _, p) = open4(&s);
    assert_eq!(p.option_bytes(), [7, 11, 12, 10, 9, 9, 9, 10, 0, 3, 1, 0]);
    let m = Icmpv4Packet::new_checked(p.payload()).unwrap();
    assert!(m.has_good_checksum());
    let reply = Icmpv4Repr::EchoReply { ident: 5, seq: 6, data: b"marks" };
    assert_eq!(Icmpv4Repr::parse(&m), Ok(reply));
    // It is told to stamp by any of its addresses, and not for others.
    for (named, pointer) in [(ip4(1, 1), 13), (ip4(3, 1), 13), (ip4(2, 10), 5)] {
        let [a, b, c, d] = named.octets();
        let s = r.rx(1, &with(ip4(3, 1), &[68, 12, 5, 3, a, b, c, d, 0, 0, 0, 0])).one();
        assert_eq!(open4(&s).2.option_bytes()[..8], [68, 12, pointer, 3, a, b, c, d]);
    }
}

#[test]
fn source_routes_end_here() {
    let mut r = router(&config());
    introduce(&mut r);
    for kind in [131, 137] {
        let f = with(ip4(1, 1), &[1, kind, 7, 4, 10, 0, 2, 10]);
        let o = r.rx(1, &f);
        assert_eq!(o.dropped, [(DropReason::Program, Origin::Received)]);
        let s = o.one();
        let Icmpv4Repr::DestinationUnreachable { code, quoted, .. } = message4(&s) else {
            panic!()
        };
        assert_eq!(
            (code, quoted, open4(&s).2.src()),
            (unreachable::SOURCE_ROUTE, &f[14..], ip4(1, 1))
        );
        // It has come to its end: the router is who was meant.
        let f = with(ip4(1, 1), &[1, kind, 7, 8, 10, 0, 2, 10]);
        assert!(matches!(message4(&r.rx(1, &f).one()), Icmpv4Repr::EchoReply { .. }));
        // Its next hop is another than this router.
        assert_eq!(r.rx(1, &with(ip4(2, 10), &[1, kind, 7, 4, 10, 0, 3, 10])).one().port, 2);
    }
}

#[test]
fn broken_options_are_told_by_their_places() {
    let mut r = router(&config());
    introduce(&mut r);
    for (options, at) in [
        ([7, 0, 4, 0, 0, 0, 0, 0], 21),
        ([1, 7, 9, 4, 0, 0, 0, 0], 22),
        ([7, 7, 3, 0, 0, 0, 0, 0], 22),
        ([131, 7, 3, 0, 0, 0, 0, 0], 22),
        ([68, 8, 4, 0, 0, 0, 0, 0], 22),
        ([1, 1, 1, 1, 1, 1, 1, 7], 27),
    ] {
        // On the way, and at its end.
        for dst in [ip4(2, 10), ip4(1, 1)] {
            let f = with(dst, &options);
            let o = r.rx(1, &f);
            assert_eq!(o.dropped, [(DropReason::Malformed, Origin::Received)], "{options:?}");
            let s = o.one();
            let Icmpv4Repr::ParameterProblem { code: 0, pointer, quoted } = message4(&s) else {
                panic!("{options:?}")
            };
            // As it was sent.
            assert_eq!((pointer, quoted), (at, &f[14..]), "{options:?}");
        }
    }
    // Options that it does not know are passed on.
    let unknown = [0x5e, 4, 1, 2, 148, 4, 0, 0];
    let s = r.rx(1, &with(ip4(2, 10), &unknown)).one();
    assert_eq!(open4(&s).2.option_bytes(), unknown);
}
