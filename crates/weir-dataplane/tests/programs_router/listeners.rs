//! MLD: the router says which groups it is in, by itself and when it is asked; never often.

use crate::lab::*;
use crate::programs_rig::{Outcome, Rig, Sent};
use std::net::Ipv6Addr;
use weir_dataplane::PortNo;
use weir_dataplane::programs::router::Router;
use weir_packet::Nanos;
use weir_wire::build::Frame;
use weir_wire::icmpv6::Message;
use weir_wire::mld::{Query, RecordKind, Records, Version};
use weir_wire::{Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, MacAddr, PseudoHeader};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

/// The groups of the lab's router on a port, in order.
fn groups(port: u32) -> [Ipv6Addr; 3] {
    let solicited = |x, low| Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, x, low);
    [ALL_ROUTERS, solicited(0xff00, 1), solicited(0xff00, 0x0a00 | port as u16)]
}

pub fn general(max_delay_ms: u32) -> Query {
    Query { version: Version::V2, max_delay_ms, group: Ipv6Addr::UNSPECIFIED, sources: 0 }
}

pub fn older(max_delay_ms: u32) -> Query {
    Query { version: Version::V1, ..general(max_delay_ms) }
}

/// A query from a router of the link, with these bytes in front of it.
fn query_behind(port: u32, src: Ipv6Addr, q: Query, options: [u8; 8], limit: u8) -> Vec<u8> {
    let dst = if q.group.is_unspecified() { ALL_NODES } else { q.group };
    let mut body = [0; 24];
    let len = q.emit(&mut body).unwrap();
    let m = Icmpv6Repr::Other { message: Message::MldQuery, code: 0, body: &body[..len] };
    let payload = [&options[..], &icmp6(src, dst, m)].concat();
    let o = dst.octets();
    let group = MacAddr([0x33, 0x33, o[12], o[13], o[14], o[15]]);
    let f = Frame::ipv6(src, dst, IpProtocol::HopByHop, &payload).macs(mac(port, 9), group);
    bytes(f.ttl(limit))
}

pub fn query(port: u32, src: Ipv6Addr, q: Query) -> Vec<u8> {
    query_behind(port, src, q, ALERT, 1)
}

/// A message's kind and what follows the checksum; the frame is checked byte by byte (RFC 3810 §5, RFC 2711).
fn opened(s: &Sent) -> (Message, &[u8]) {
    let (dst, src, p) = open6(s);
    assert_eq!((src, p.src(), p.hop_limit()), (ours(s.port), ours_ll(s.port), 1));
    let o = p.dst().octets();
    assert_eq!(dst, MacAddr([0x33, 0x33, o[12], o[13], o[14], o[15]]));
    assert_eq!((p.next_header(), p.total_len() + 14), (IpProtocol::HopByHop, s.bytes.len()));
    assert_eq!(s.bytes[54..62], ALERT);
    let m = Icmpv6Packet::new_checked(&s.bytes[62..]).unwrap();
    assert!(m.has_good_checksum(&PseudoHeader::V6(p.src(), p.dst())));
    assert_eq!(m.code(), 0);
    (m.message(), &s.bytes[66..])
}

/// The groups of a version 2 report, all of this kind.
fn reported(s: &Sent, kind: RecordKind) -> Vec<Ipv6Addr> {
    let (message, body) = opened(s);
    assert_eq!((message, open6(s).2.dst()), (Message::Mldv2Report, "ff02::16".parse().unwrap()));
    assert_eq!(body.len(), 4 + 20 * usize::from(u16::from_be_bytes([body[2], body[3]])));
    let one = |r: weir_wire::Result<(RecordKind, Ipv6Addr)>| {
        let (k, group) = r.unwrap();
        assert_eq!(k, kind);
        group
    };
    Records::new(body).unwrap().map(one).collect()
}

fn by_ports(o: &Outcome, kind: RecordKind) {
    assert_eq!(o.ports(), [1, 2, 3]);
    for s in &o.sent {
        assert_eq!(reported(s, kind), groups(s.port));
    }
}

#[test]
fn groups_are_told_when_links_come_up() {
    let mut r = fresh_router(&config());
    // At once, and a second time within a second (RFC 3810 §6.1, §9.1, §9.11).
    by_ports(&r.pass_ms(10), RecordKind::ToExclude);
    by_ports(&r.pass_ms(1010), RecordKind::ToExclude);
    assert!(r.pass_ms(600_000).sent.is_empty());
    assert_eq!(status(&r, "group reports"), "6");
    r.ports[1].up = false;
    assert!(r.pass_ms(100).sent.is_empty());
    r.ports[1].up = true;
    let o = r.pass_ms(1100);
    assert_eq!(o.ports(), [2, 2]);
    assert_eq!(reported(&o.sent[0], RecordKind::ToExclude), groups(2));
    // Another link is behind it.
    r.program.forget_port(PortNo(3));
    assert_eq!(r.pass_ms(1100).ports(), [3, 3]);
    // Another program in its place says so again.
    r.replace(Router::new(&config()).unwrap());
    assert_eq!(r.pass_ms(1100).ports(), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn what_is_missing_is_waited_for() {
    let mut r = fresh_router(&config());
    let port = r.ports.remove(0);
    r.ports[0].up = false;
    assert_eq!(r.pass_ms(1100).ports(), [3, 3]);
    r.ports.insert(0, port);
    r.ports[1].up = true;
    assert_eq!(r.pass_ms(1300).ports(), [1, 1, 2, 2]);
}

#[test]
fn a_link_without_ipv6_hears_nothing() {
    let mut c = config();
    c.interfaces.iter_mut().for_each(|i| i.addresses.retain(|a| a.addr.is_ipv4()));
    c.routes.clear();
    assert!(fresh_router(&c).pass_ms(2000).sent.is_empty());
}

#[test]
fn more_addresses_than_a_report_holds() {
    let mut c = config();
    c.routes.clear();
    c.interfaces.truncate(1);
    let more = (0..150).map(|n| prefix(&format!("2001:db8:77::{n:x}:1234/112")));
    c.interfaces[0].addresses.extend(more);
    // One solicited-node group for those of equal low bits: make them differ.
    let more = (2..130).map(|n| prefix(&format!("2001:db8:78::{n:x}/64")));
    c.interfaces[0].addresses.extend(more);
    let mut r = fresh_router(&c);
    let o = r.pass_ms(10);
    assert!(o.sent.iter().all(|s| s.bytes.len() <= 14 + 1280));
    let all: Vec<_> = o.sent.iter().flat_map(|s| reported(s, RecordKind::ToExclude)).collect();
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((o.sent.len(), all.len()), (all.len().div_ceil(60), once.len()));
    assert!(all.len() > 250);
}

#[test]
fn queries_are_answered_in_time() {
    let mut r = router(&config());
    let ask = query(1, ll(9), general(1000));
    assert_eq!(r.rx(1, &ask).consumed, 1);
    // Not by others, and once.
    let s = r.pass_ms(1000).one();
    assert_eq!((s.port, reported(&s, RecordKind::IsExclude)), (1, groups(1).to_vec()));
    // About one group: that alone. About one that it is not in: nothing.
    for group in groups(1) {
        r.rx(1, &query(1, ll(9), Query { group, ..general(1000) }));
        assert_eq!(reported(&r.pass_ms(1000).one(), RecordKind::IsExclude), [group]);
    }
    for group in ["ff02::fb", "ff02::1", "ff02::1:ff00:a02"] {
        let group = group.parse().unwrap();
        r.rx(1, &query(1, ll(9), Query { group, ..general(1000) }));
        assert!(silent(&r.pass_ms(3000)));
    }
    // About certain sources, too.
    let mut f = query(1, ll(9), Query { group: ALL_ROUTERS, ..general(1000) });
    f.extend(ip6(2, 9).octets());
    let at = 14 + 40 + 8;
    f[at + 27] = 1;
    f[14 + 5] += 16;
    let (src, dst) = (ll(9), ALL_ROUTERS);
    Icmpv6Packet::new_unchecked(&mut f[at..]).fill_checksum(&PseudoHeader::V6(src, dst));
    r.rx(1, &f);
    assert_eq!(reported(&r.pass_ms(1000).one(), RecordKind::IsExclude), [ALL_ROUTERS]);
}

/// Whatever its code says (RFC 2710 §3.2, RFC 3810 §5.1.1).
#[test]
fn a_querys_code_is_ignored() {
    let mut r = router(&config());
    for q in [general(1000), older(1000)] {
        let mut f = query(1, ll(9), q);
        f[63] = 7;
        Icmpv6Packet::new_unchecked(&mut f[62..])
            .fill_checksum(&PseudoHeader::V6(ll(9), ALL_NODES));
        r.rx(1, &f);
        let each = if q.version == Version::V1 { 3 } else { 1 };
        assert_eq!(r.pass_ms(1000).sent.len(), each);
    }
}

/// As many groups as want more frames than a program has at once: each is told, once.
#[test]
fn a_report_goes_on_where_frames_were_missing() {
    let mut c = config();
    c.routes.clear();
    c.interfaces.truncate(1);
    let more = (2..150).map(|n| prefix(&format!("2001:db8:78::{n:x}/64")));
    c.interfaces[0].addresses.extend(more);
    let mut r = fresh_router(&c);
    let one_each = |r: &mut Rig| {
        let all: Vec<_> =
            (0..600).flat_map(|_| r.pass_with(1, Nanos::from_millis(100)).sent).collect();
        all.iter().map(|s| (opened(s).0, open6(s).2.dst(), s.bytes.len())).collect::<Vec<_>>()
    };
    // By itself: twice, in three parts.
    assert_eq!(one_each(&mut r).len(), 6);
    r.rx(2, &query(2, ll(9), general(1000)));
    assert_eq!(one_each(&mut r).len(), 3);
    r.rx(2, &query(2, ll(9), older(1000)));
    let told = one_each(&mut r);
    let once: std::collections::BTreeSet<_> = told.iter().map(|t| t.1).collect();
    assert!(once.len() > 150 && told.iter().all(|t| t.0 == Message::MldReport));
    assert_eq!(told.len(), once.len());
}

#[test]
fn older_queries_are_answered_in_their_version() {
    let mut r = router(&config());
    r.rx(2, &query(2, ll(9), older(1000)));
    let o = r.pass_ms(1000);
    let of: Vec<_> = o.sent.iter().map(opened).collect();
    assert_eq!(of.len(), 3);
    for ((s, (message, body)), group) in o.sent.iter().zip(of).zip(groups(2)) {
        assert_eq!((s.port, message, open6(s).2.dst()), (2, Message::MldReport, group));
        assert_eq!(body, [&[0; 4][..], &group.octets()].concat());
    }
    // A newer one, too, while somebody may be there who speaks no other (RFC 3810 §8.2.1).
    let ask = query(2, ll(9), general(1000));
    r.rx(2, &ask);
    assert_eq!(r.pass_ms(1000).sent.len(), 3);
    // Other links are not concerned, and it ends.
    r.rx(1, &query(1, ll(9), general(1000)));
    assert_eq!(reported(&r.pass_ms(1000).one(), RecordKind::IsExclude), groups(1));
    r.pass(Nanos::from_secs(260), Nanos::from_millis(100));
    r.rx(2, &ask);
    assert_eq!(reported(&r.pass_ms(1000).one(), RecordKind::IsExclude), groups(2));
}

#[test]
fn what_is_no_query() {
    let mut r = router(&config());
    let q = general(1000);
    let unchecked = |r: &mut Rig, f: &[u8]| {
        let o = r.rx(1, f);
        assert!(silent(&o) && silent(&r.pass_ms(2000)), "{o:?}");
    };
    // RFC 3810 §6.2: from a link-local address, a hop away, with a router alert.
    unchecked(&mut r, &query(1, ip6(1, 10), q));
    unchecked(&mut r, &query(1, Ipv6Addr::UNSPECIFIED, q));
    unchecked(&mut r, &query_behind(1, ll(9), q, ALERT, 2));
    unchecked(&mut r, &query_behind(1, ll(9), q, [58, 0, 1, 4, 0, 0, 0, 0], 1));
    // Cut short (§8.1), or damaged.
    let mut short = query(1, ll(9), q);
    short.truncate(short.len() - 2);
    short[19] -= 2;
    let pseudo = PseudoHeader::V6(ll(9), ALL_NODES);
    Icmpv6Packet::new_unchecked(&mut short[62..]).fill_checksum(&pseudo);
    unchecked(&mut r, &short);
    let mut bad = query(1, ll(9), q);
    bad[66] ^= 1;
    unchecked(&mut r, &bad);
    assert!(Ipv6Packet::new_checked(&bad[14..]).is_ok());
}

#[test]
fn a_flood_of_queries_makes_no_flood_of_reports() {
    let mut r = router(&config());
    for q in [general(0), older(0)] {
        let ask = query(1, ll(9), q);
        let before: u64 = status(&r, "group reports").parse().unwrap();
        for _ in 0..2000 {
            r.rx(1, &ask);
            r.pass(Nanos::from_millis(1), Nanos::from_millis(1));
        }
        let sent = status(&r, "group reports").parse::<u64>().unwrap() - before;
        let each = if q.version == Version::V1 { 3 } else { 1 };
        assert!((19 * each..=21 * each).contains(&sent), "{sent} in two seconds");
        r.pass_ms(300);
    }
}
