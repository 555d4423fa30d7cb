//! Packets to the router itself that come in pieces: put together, answered in pieces, within bounds.

use crate::lab::*;
use crate::programs_rig::{Rig, Sent};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_packet::DropReason;
use weir_wire::build::Frame;
use weir_wire::ipv6_ext::{Fragment, FragmentRepr};
use weir_wire::{Icmpv4Repr, Icmpv6Repr, IpProtocol, Ipv4Repr, NdiscRepr};

/// Cuts a payload; the pieces with where they begin, and whether others follow.
fn cut(payload: &[u8], every: usize) -> Vec<(usize, bool, &[u8])> {
    let n = payload.len().div_ceil(every);
    payload.chunks(every).enumerate().map(|(i, p)| (i * every, i + 1 < n, p)).collect()
}

fn piece4(dst: Ipv4Addr, (at, more, part): (usize, bool, &[u8])) -> Vec<u8> {
    let ip = Ipv4Repr {
        ident: 77,
        dont_fragment: false,
        more_fragments: more,
        fragment_offset: (at / 8) as u16,
        ..Ipv4Repr::new(ip4(1, 10), dst, IpProtocol::Icmp, part.len())
    };
    let mut f = Frame::ipv4(ip4(1, 10), dst, IpProtocol::Icmp, part);
    f.network = weir_wire::build::Network::Ipv4(ip);
    from_host(1, 10, f)
}

/// Behind a fragment header that says so.
fn fragment(next_header: IpProtocol, (at, more, part): (usize, bool, &[u8])) -> Vec<u8> {
    let mut out = vec![0; 8];
    let header = FragmentRepr { next_header, offset: (at / 8) as u16, more, ident: 77 };
    header.emit(&mut Fragment::new_unchecked(&mut out[..])).unwrap();
    out.extend(part);
    out
}

fn piece6(dst: Ipv6Addr, next: IpProtocol, piece: (usize, bool, &[u8])) -> Vec<u8> {
    let payload = fragment(next, piece);
    from_host(1, 10, Frame::ipv6(ip6(1, 10), dst, IpProtocol::Fragment, &payload))
}

/// What frames carry that come to host 1.10 in pieces, of either family.
fn joined(sent: &[Sent]) -> Vec<u8> {
    let mut all: Vec<(usize, bool, Vec<u8>)> = Vec::new();
    let mut idents = Vec::new();
    for s in sent {
        assert_eq!((s.port, &s.bytes[..6]), (1, &mac(1, 10).octets()[..]));
        match s.bytes[12] {
            0x08 => {
                let (.., p) = open4(s);
                idents.push(u32::from(p.ident()));
                let at = usize::from(p.fragment_offset()) * 8;
                all.push((at, p.more_fragments(), p.payload().to_vec()));
            }
            _ => {
                let (.., p) = open6(s);
                assert_eq!(p.next_header(), IpProtocol::Fragment);
                assert!(p.total_len() <= 1280);
                let h = FragmentRepr::parse(&Fragment::new_checked(p.payload()).unwrap()).unwrap();
                assert_eq!(h.next_header, IpProtocol::Icmpv6);
                idents.push(h.ident);
                all.push((usize::from(h.offset) * 8, h.more, p.payload()[8..].to_vec()));
            }
        }
    }
    idents.dedup();
    assert_eq!(idents.len(), 1);
    all.sort();
    let mut whole = Vec::new();
    for (i, (at, more, part)) in all.iter().enumerate() {
        assert_eq!((*at, *more), (whole.len(), i + 1 < all.len()));
        whole.extend(part);
    }
    whole
}

fn ready() -> Rig {
    let mut r = router(&config());
    introduce(&mut r);
    r
}

#[test]
fn pings_in_pieces_are_answered_in_pieces() {
    let mut r = ready();
    let data: Vec<u8> = (0..2000).map(|i| (i * 7) as u8).collect();
    let (ask, answer) = (
        icmp4(Icmpv4Repr::EchoRequest { ident: 5, seq: 6, data: &data }),
        icmp4(Icmpv4Repr::EchoReply { ident: 5, seq: 6, data: &data }),
    );
    let mut pieces = cut(&ask, 800);
    let last = pieces.remove(1);
    for p in pieces {
        let o = r.rx(1, &piece4(ip4(1, 1), p));
        assert_eq!((o.sent.len(), o.consumed), (0, 1));
    }
    let o = r.rx(1, &piece4(ip4(1, 1), last));
    assert_eq!((joined(&o.sent), o.sent.len()), (answer, 2));
    let (ask, answer) = (
        icmp6(ip6(1, 10), ip6(1, 1), Icmpv6Repr::EchoRequest { ident: 5, seq: 6, data: &data }),
        icmp6(ip6(1, 1), ip6(1, 10), Icmpv6Repr::EchoReply { ident: 5, seq: 6, data: &data }),
    );
    let mut pieces = cut(&ask, 800);
    let last = pieces.remove(0);
    for p in pieces {
        let o = r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, p));
        assert_eq!((o.sent.len(), o.consumed), (0, 1));
    }
    let o = r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, last));
    assert_eq!((joined(&o.sent), o.sent.len()), (answer, 2));
    assert_eq!(status(&r, "reassembled"), "2");
    assert_eq!(status(&r, "echo replies"), "2");
    // All of an answer, or nothing: with one spare frame there is none.
    for p in cut(&ask, 800) {
        r.spares(1);
        assert!(silent(&r.rx_as_is(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, p))));
    }
    // What is short enough together leaves whole; what is no ping is told as if it had come so.
    let ask =
        icmp6(ip6(1, 10), ip6(1, 1), Icmpv6Repr::EchoRequest { ident: 5, seq: 7, data: b"short" });
    let [a, b] = cut(&ask, 8)[..] else { panic!() };
    assert!(silent(&r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, a))));
    let s = r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, b)).one();
    assert_eq!(message6(&s), Icmpv6Repr::EchoReply { ident: 5, seq: 7, data: b"short" });
    let whole = udp6(ip6(1, 10), ip6(1, 1), b"payload");
    let whole = bytes(whole)[54..].to_vec();
    let [a, b] = cut(&whole, 8)[..] else { panic!() };
    assert!(silent(&r.rx(1, &piece6(ip6(1, 1), IpProtocol::Udp, a))));
    let s = r.rx(1, &piece6(ip6(1, 1), IpProtocol::Udp, b)).one();
    let Icmpv6Repr::DestinationUnreachable { code: 4, quoted } = message6(&s) else { panic!() };
    assert_eq!(quoted[40..], whole);
}

/// RFC 6946 §4: a fragment that is all of its packet is none. RFC 6980 §5: neighbours do not come so.
#[test]
fn an_only_fragment_is_a_packet() {
    let mut r = ready();
    let ask =
        icmp6(ip6(1, 10), ip6(1, 1), Icmpv6Repr::EchoRequest { ident: 5, seq: 6, data: b"atom" });
    // Whatever else there is of its number.
    assert!(silent(&r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, (0, true, &[128; 16])))));
    let s = r.rx(1, &piece6(ip6(1, 1), IpProtocol::Icmpv6, (0, false, &ask))).one();
    assert_eq!(message6(&s), Icmpv6Repr::EchoReply { ident: 5, seq: 6, data: b"atom" });
    let (src, dst) = (ip6(1, 10), ours_ll(1));
    let m = NdiscRepr::NeighborSolicit { target: dst, options: &[] };
    let m = icmp6(src, dst, Icmpv6Repr::Ndisc(m));
    let plain =
        bytes(Frame::ipv6(src, dst, IpProtocol::Icmpv6, &m).ttl(255).macs(mac(1, 10), ours(1)));
    assert_eq!(r.rx(1, &plain).sent.len(), 1);
    let m = fragment(IpProtocol::Icmpv6, (0, false, &m));
    let f = Frame::ipv6(src, dst, IpProtocol::Fragment, &m).ttl(255).macs(mac(1, 10), ours(1));
    assert!(silent(&r.rx(1, &bytes(f))));
}

#[test]
fn pieces_that_can_be_no_packets_are_dropped_and_told() {
    let mut r = ready();
    let me = ip6(1, 1);
    let mut told = |next, piece| {
        let o = r.rx(1, &piece6(me, next, piece));
        assert_eq!(o.dropped.len(), 1);
        match o.sent.first().map(message6) {
            None => (o.dropped[0].0, None),
            Some(Icmpv6Repr::ParameterProblem { code, pointer, .. }) => {
                (o.dropped[0].0, Some((code, pointer)))
            }
            Some(other) => panic!("{other:?}"),
        }
    };
    let bad = DropReason::Malformed;
    // Not a multiple of eight; beyond the longest packet; without its upper layer's header.
    assert_eq!(told(IpProtocol::Udp, (0, true, &[1; 13])), (bad, Some((0, 4))));
    assert_eq!(told(IpProtocol::Udp, (65_520, false, &[1; 100])), (bad, Some((0, 42))));
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(told(IpProtocol::Destination, (0, true, &options)), (bad, Some((3, 0))));
    // Longer than is kept, and over one another.
    assert_eq!(told(IpProtocol::Udp, (16_000, false, &[1; 8])), (DropReason::Fragment, None));
    let mut r = ready();
    let ask = icmp4(Icmpv4Repr::EchoRequest { ident: 5, seq: 6, data: &[1; 100] });
    assert_eq!(r.rx(1, &piece4(ip4(1, 1), (0, true, &ask[..40]))).consumed, 1);
    let over = piece4(ip4(1, 1), (32, false, &ask[32..]));
    assert_eq!(r.rx(1, &over).only_drop(), DropReason::Fragment);
    let rest = piece4(ip4(1, 1), (40, false, &ask[40..]));
    assert_eq!(r.rx(1, &rest).only_drop(), DropReason::Fragment);
    // When that is long ago, they are another packet's.
    r.pass_ms(15_100);
    assert_eq!(r.rx(1, &piece4(ip4(1, 1), (0, true, &ask[..40]))).consumed, 1);
    let s = r.rx(1, &rest).sent;
    assert_eq!(s.len(), 1);
}
