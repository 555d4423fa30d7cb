//! The lab of the router's tests: three links with a host each, routes behind the second. Makes
//! the hosts' frames and takes the router's apart.

use crate::programs_rig::{Outcome, Rig, Sent};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use weir_dataplane::PortNo;
use weir_dataplane::programs::router::{Interface, NextHop, Prefix, Route, Router, RouterConfig};
use weir_wire::arp::Operation;
use weir_wire::build::{Frame, Network};
use weir_wire::ndisc_option::{NdiscOption, emit_all};
use weir_wire::tcp::Flags;
use weir_wire::{
    ArpPacket, ArpRepr, EtherType, EthernetFrame, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet, MacAddr, NdiscRepr, PseudoHeader,
};

/// MTU of the third link.
pub const NARROW: u16 = 1280;

/// The router's MAC on a port.
pub fn ours(port: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0xa, port as u8])
}
/// A host's MAC.
pub fn mac(port: u32, n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 1, port as u8, n])
}
/// An address on a port's link: .1 is the router's.
pub fn ip4(port: u32, n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, port as u8, n)
}
pub fn ip6(port: u32, n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, port as u16, 0, 0, 0, 0, n)
}
/// The router's link-local address on a port.
pub fn ours_ll(port: u32) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0x0a00 | port as u16)
}
/// A host's link-local address.
pub fn ll(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
}

pub fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub fn config() -> RouterConfig {
    let interface = |p: u32, mtu| Interface {
        port: PortNo(p),
        mac: ours(p),
        addresses: vec![prefix(&format!("10.0.{p}.1/24")), prefix(&format!("2001:db8:{p}::1/64"))],
        mtu,
    };
    let route = |to, via| Route { to: prefix(to), via };
    RouterConfig {
        interfaces: vec![interface(2, None), interface(1, None), interface(3, Some(NARROW))],
        routes: vec![
            route("192.0.2.0/24", NextHop::Gateway(ip4(2, 254).into())),
            route("192.0.2.128/25", NextHop::Gateway(ip4(3, 254).into())),
            route("198.51.100.0/24", NextHop::Discard),
            route("2001:db8:fff0::/44", NextHop::GatewayOn(ll(0x99).into(), PortNo(2))),
            route("2001:db8:ffff::/48", NextHop::Gateway(ip6(3, 0xfe).into())),
        ],
        ..RouterConfig::default()
    }
}

/// Before it has said anything.
pub fn fresh_router(config: &RouterConfig) -> Rig {
    Rig::new(Router::new(config).unwrap(), 3)
}

/// When it has told its links of its groups.
pub fn router(config: &RouterConfig) -> Rig {
    let mut r = fresh_router(config);
    r.pass_ms(1100);
    r
}

pub fn bytes(f: Frame<'_>) -> Vec<u8> {
    let mut out = vec![0; f.len()];
    f.emit(&mut out).unwrap();
    out
}

/// A host's frame to the router.
pub fn from_host(port: u32, n: u8, f: Frame<'_>) -> Vec<u8> {
    bytes(f.macs(mac(port, n), ours(port)))
}

pub fn udp4(src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) -> Frame<'_> {
    Frame::udp_v4(SocketAddrV4::new(src, 1000), SocketAddrV4::new(dst, 9), payload)
}

pub fn udp6(src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Frame<'_> {
    Frame::udp_v6(SocketAddrV6::new(src, 1000, 0, 0), SocketAddrV6::new(dst, 9, 0, 0), payload)
}

pub fn tcp4(src: Ipv4Addr, dst: Ipv4Addr) -> Frame<'static> {
    Frame::tcp_v4(SocketAddrV4::new(src, 1000), SocketAddrV4::new(dst, 9), Flags::SYN, b"segment")
}

/// With the "don't fragment" flag off.
pub fn may_fragment(mut f: Frame<'_>) -> Frame<'_> {
    if let Network::Ipv4(ip) = &mut f.network {
        ip.dont_fragment = false;
        ip.ident = 77;
    }
    f
}

pub fn icmp4(m: Icmpv4Repr<'_>) -> Vec<u8> {
    let mut out = vec![0; m.buffer_len()];
    let mut p = Icmpv4Packet::new_unchecked(&mut out[..]);
    m.emit(&mut p).unwrap();
    p.fill_checksum();
    out
}

pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, m: Icmpv6Repr<'_>) -> Vec<u8> {
    let mut out = vec![0; m.buffer_len()];
    let mut p = Icmpv6Packet::new_unchecked(&mut out[..]);
    m.emit(&mut p).unwrap();
    p.fill_checksum(&PseudoHeader::V6(src, dst));
    out
}

pub fn ping4(port: u32, n: u8, dst: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let m = icmp4(Icmpv4Repr::EchoRequest { ident: 5, seq: 6, data });
    from_host(port, n, Frame::ipv4(ip4(port, n), dst, IpProtocol::Icmp, &m))
}

pub fn ping6(port: u32, n: u8, src: Ipv6Addr, dst: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let m = icmp6(src, dst, Icmpv6Repr::EchoRequest { ident: 5, seq: 6, data });
    from_host(port, n, Frame::ipv6(src, dst, IpProtocol::Icmpv6, &m))
}

pub fn arp(dst: MacAddr, src: MacAddr, m: ArpRepr) -> Vec<u8> {
    let mut out = [0; 28];
    m.emit(&mut ArpPacket::new_unchecked(&mut out[..])).unwrap();
    bytes(Frame::ethernet(EtherType::Arp, &out).macs(src, dst))
}

/// A host asks for the router's address.
pub fn who_has(port: u32, n: u8) -> Vec<u8> {
    let m = ArpRepr::request(mac(port, n), ip4(port, n), ip4(port, 1));
    arp(MacAddr::BROADCAST, mac(port, n), m)
}

/// A host answers the router.
pub fn is_at(port: u32, n: u8) -> Vec<u8> {
    let m = ArpRepr {
        operation: Operation::Reply,
        sender_mac: mac(port, n),
        sender_ip: ip4(port, n),
        target_mac: ours(port),
        target_ip: ip4(port, 1),
    };
    arp(ours(port), mac(port, n), m)
}

/// A message of neighbour discovery, with one option.
pub fn nd(
    macs: (MacAddr, MacAddr),
    ips: (Ipv6Addr, Ipv6Addr),
    message: impl Fn(&[u8]) -> NdiscRepr<'_>,
    option: Option<NdiscOption<'_>>,
) -> Vec<u8> {
    let mut o = [0; 32];
    let n = emit_all(option.as_slice(), &mut o).unwrap();
    let m = icmp6(ips.0, ips.1, Icmpv6Repr::Ndisc(message(&o[..n])));
    let f = Frame::ipv6(ips.0, ips.1, IpProtocol::Icmpv6, &m).macs(macs.0, macs.1);
    bytes(f.ttl(255))
}

/// Makes the router know hosts .10 of all links, in both families, and the gateways.
pub fn introduce(r: &mut Rig) {
    use weir_wire::ndisc::NeighborFlags;
    for port in 1..=3 {
        for n in [10, 254] {
            assert_eq!(r.rx(port, &who_has(port, n)).sent.len(), 1);
            assert_eq!(r.rx(port, &is_at(port, n)).consumed, 1);
        }
    }
    for (port, n, addr) in [
        (1, 10, ip6(1, 10)),
        (2, 10, ip6(2, 10)),
        (3, 10, ip6(3, 10)),
        (2, 99, ll(0x99)),
        (3, 254, ip6(3, 0xfe)),
    ] {
        let macs = (mac(port, n), ours(port));
        let ask = nd(
            macs,
            (addr, ours_ll(port)),
            |options| NdiscRepr::NeighborSolicit { target: ours_ll(port), options },
            Some(NdiscOption::SourceLinkAddr(mac(port, n))),
        );
        assert_eq!(r.rx(port, &ask).sent.len(), 1);
        let answer = nd(
            macs,
            (addr, ours_ll(port)),
            |options| NdiscRepr::NeighborAdvert {
                flags: NeighborFlags::SOLICITED,
                target: addr,
                options,
            },
            None,
        );
        r.rx(port, &answer);
    }
}

/// Ethernet and IPv4 header of a frame that the router sent, checked; and the payload.
pub fn open4(s: &Sent) -> (MacAddr, MacAddr, Ipv4Packet<&[u8]>) {
    let eth = EthernetFrame::new_checked(&s.bytes[..]).unwrap();
    assert_eq!(eth.ether_type(), EtherType::Ipv4);
    let p = Ipv4Packet::new_checked(&s.bytes[14..]).unwrap();
    assert!(p.has_good_checksum());
    (eth.dst(), eth.src(), p)
}

pub fn open6(s: &Sent) -> (MacAddr, MacAddr, Ipv6Packet<&[u8]>) {
    let eth = EthernetFrame::new_checked(&s.bytes[..]).unwrap();
    assert_eq!(eth.ether_type(), EtherType::Ipv6);
    (eth.dst(), eth.src(), Ipv6Packet::new_checked(&s.bytes[14..]).unwrap())
}

/// The ICMP message of a frame that the router sent, its checksum checked.
pub fn message4(s: &Sent) -> Icmpv4Repr<'_> {
    let (.., p) = open4(s);
    assert_eq!(p.protocol(), IpProtocol::Icmp);
    let m = Icmpv4Packet::new_checked(&s.bytes[14 + 20..]).unwrap();
    assert!(m.has_good_checksum());
    Icmpv4Repr::parse(&m).unwrap()
}

pub fn message6(s: &Sent) -> Icmpv6Repr<'_> {
    let (.., p) = open6(s);
    assert_eq!(p.next_header(), IpProtocol::Icmpv6);
    let m = Icmpv6Packet::new_checked(&s.bytes[14 + 40..]).unwrap();
    assert!(m.has_good_checksum(&p.pseudo_header()));
    Icmpv6Repr::parse(&m).unwrap()
}

pub fn arp_of(s: &Sent) -> ArpRepr {
    assert!(s.bytes.len() >= 60, "not padded");
    ArpRepr::parse(&ArpPacket::new_checked(&s.bytes[14..]).unwrap()).unwrap()
}

/// A counter or other line of the router's status.
pub fn status(r: &Rig, name: &str) -> String {
    let lines = r.program.status();
    lines.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no line '{name}'")).1.clone()
}

/// Nothing was sent; the frame was dropped or consumed.
pub fn silent(o: &Outcome) -> bool {
    o.sent.is_empty()
}
