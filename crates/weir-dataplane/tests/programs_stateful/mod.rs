//! The programs that remember connections: what their tests share. Frames are made whole, with
//! checksums computed anew, so that what a program mends is held against what should be there.

mod balancer;
mod firewall;
mod nat;
mod pieces;
mod tags;

use crate::programs_rig::Outcome;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_dataplane::programs::{Endpoint, Kind};
use weir_packet::DropReason;
use weir_wire::build::{Frame, Network};
use weir_wire::icmpv4::Message;
use weir_wire::tcp::Flags;
use weir_wire::{
    ArpPacket, ArpRepr, EtherType, EthernetFrame, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
    MacAddr, TcpPacket, UdpPacket,
};

pub const SYN: Flags = Flags::SYN;
pub const ACK: Flags = Flags::ACK;
pub const FIN: Flags = Flags::FIN;
pub const RST: Flags = Flags::RST;

pub fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n])
}

pub fn end(addr: [u8; 4], port: u16) -> Endpoint {
    Endpoint::new(addr.into(), port)
}

/// A packet of one of the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    Tcp(Flags),
    Udp,
    /// UDP without a checksum.
    UdpPlain,
    Ask,
    Answer,
}

impl L4 {
    pub fn kind(self) -> Kind {
        match self {
            L4::Tcp(_) => Kind::Tcp,
            L4::Udp | L4::UdpPlain => Kind::Udp,
            L4::Ask | L4::Answer => Kind::Query,
        }
    }
}

/// A packet's ends and what else may differ.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub macs: (MacAddr, MacAddr),
    pub src: Endpoint,
    pub dst: Endpoint,
    pub l4: L4,
    pub ttl: u8,
    pub data: &'a [u8],
}

pub fn bytes(f: Frame<'_>) -> Vec<u8> {
    let mut out = vec![0; f.len()];
    f.emit(&mut out).unwrap();
    out
}

pub fn icmp(m: Icmpv4Repr<'_>) -> Vec<u8> {
    let mut out = vec![0; m.buffer_len()];
    let mut p = Icmpv4Packet::new_unchecked(&mut out[..]);
    m.emit(&mut p).unwrap();
    p.fill_checksum();
    out
}

impl Packet<'_> {
    pub fn frame(self) -> Vec<u8> {
        let socket = |e: Endpoint| SocketAddrV4::new(e.addr, e.port);
        let (src, dst) = (socket(self.src), socket(self.dst));
        let message;
        let f = match self.l4 {
            L4::Tcp(flags) => Frame::tcp_v4(src, dst, flags, self.data),
            L4::Udp | L4::UdpPlain => Frame::udp_v4(src, dst, self.data),
            L4::Ask | L4::Answer => {
                // The identifier is the port of who asks.
                message = icmp(match self.l4 {
                    L4::Ask => {
                        Icmpv4Repr::EchoRequest { ident: self.src.port, seq: 9, data: self.data }
                    }
                    _ => Icmpv4Repr::EchoReply { ident: self.dst.port, seq: 9, data: self.data },
                });
                Frame::ipv4(self.src.addr, self.dst.addr, IpProtocol::Icmp, &message)
            }
        };
        let mut out = bytes(f.macs(self.macs.0, self.macs.1).ttl(self.ttl));
        if self.l4 == L4::UdpPlain {
            UdpPacket::new_unchecked(&mut out[34..]).set_checksum(0);
        }
        out
    }
}

/// An ICMP error from `from` that quotes `about` (a frame) as `cut` bytes behind its IP header.
pub fn error(
    macs: (MacAddr, MacAddr),
    from: Ipv4Addr,
    to: Ipv4Addr,
    about: &[u8],
    cut: usize,
) -> Frame<'static> {
    let quoted = &about[14..about.len().min(34 + cut)];
    let m = icmp(Icmpv4Repr::DestinationUnreachable { code: 3, next_hop_mtu: 0, quoted });
    let m: &'static [u8] = m.leak();
    Frame::ipv4(from, to, IpProtocol::Icmp, m).macs(macs.0, macs.1)
}

/// As a fragment, the first or a later one.
pub fn fragment(mut f: Frame<'_>, offset: u16) -> Vec<u8> {
    if let Network::Ipv4(ip) = &mut f.network {
        (ip.dont_fragment, ip.more_fragments, ip.fragment_offset) = (false, offset == 0, offset);
    }
    bytes(f)
}

/// A frame of [`Packet`]'s, with these numbers if it is a segment.
pub fn numbered(mut f: Vec<u8>, seq: u32, ack: u32) -> Vec<u8> {
    let ip = Ipv4Packet::new_checked(&f[14..]).unwrap();
    if ip.protocol() == IpProtocol::Tcp {
        let pseudo = ip.pseudo_header();
        let mut tcp = TcpPacket::new_unchecked(&mut f[34..]);
        tcp.set_seq(seq);
        tcp.set_ack(ack);
        tcp.fill_checksum(&pseudo);
    }
    f
}

/// Whether the frame was dropped for the program's own reasons.
pub fn refused(o: &Outcome) -> bool {
    assert_eq!(o.sent.len() + o.dropped.len() + o.consumed, 1, "{o:?}");
    o.dropped.first().is_some_and(|d| d.0 == DropReason::Program)
}

/// Somebody asks for an address; what is answered, if anything is.
pub fn who_has(r: &mut crate::programs_rig::Rig, port: u32, addr: Ipv4Addr) -> Option<MacAddr> {
    let ask = ArpRepr::request(mac(99), [10, 0, 0, 99].into(), addr);
    let mut out = [0; 28];
    ask.emit(&mut ArpPacket::new_unchecked(&mut out[..])).unwrap();
    let f = Frame::ethernet(EtherType::Arp, &out).macs(mac(99), MacAddr::BROADCAST);
    let o = r.rx(port, &bytes(f));
    assert_eq!(o.consumed, 1);
    let sent = o.sent.first()?;
    assert_eq!((sent.port, sent.bytes.len()), (port, 60));
    let eth = EthernetFrame::new_checked(&sent.bytes[..]).unwrap();
    let reply = ArpRepr::parse(&ArpPacket::new_checked(&sent.bytes[14..]).unwrap()).unwrap();
    assert_eq!((eth.dst(), reply.target_mac, reply.sender_ip), (mac(99), mac(99), addr));
    assert_eq!(eth.src(), reply.sender_mac);
    Some(reply.sender_mac)
}

/// Frames that are nobody's: none may pass, each must end.
pub fn bad_frames(to: MacAddr, src: Endpoint, dst: Endpoint) -> Vec<(&'static str, Vec<u8>)> {
    let whole = Packet { macs: (mac(1), to), src, dst, l4: L4::Tcp(SYN), ttl: 64, data: b"data" };
    let f = whole.frame();
    let changed = |at: usize, byte: u8| {
        let mut f = f.clone();
        f[at] = byte;
        f
    };
    let resummed = |at: usize, byte: u8| {
        let mut f = changed(at, byte);
        Ipv4Packet::new_unchecked(&mut f[14..]).fill_checksum();
        f
    };
    let tagged = [&f[..12], &[0x81, 0, 0, 5][..], &f[12..]].concat();
    vec![
        ("runt", f[..13].to_vec()),
        ("no header", f[..20].to_vec()),
        ("version 6", resummed(14, 0x65)),
        ("header of 16 bytes", resummed(14, 0x44)),
        ("header of 60 bytes, frame shorter", resummed(14, 0x4f)),
        ("longer than the frame", resummed(17, 0xff)),
        ("checksum", changed(24, f[24] ^ 1)),
        ("TCP cut", resummed(17, 39)),
        ("TCP header of 8 bytes", changed(46, 0x20)),
        ("SCTP", resummed(23, 132)),
        ("IPv6's type", changed(12, 0x86)),
        ("tagged", tagged),
        (
            "ICMP redirect",
            bytes(
                Frame::ipv4(
                    src.addr,
                    dst.addr,
                    IpProtocol::Icmp,
                    &icmp(Icmpv4Repr::Redirect { code: 0, gateway: src.addr, quoted: &f[14..42] }),
                )
                .macs(mac(1), to),
            ),
        ),
        (
            "ICMP address mask",
            bytes(
                Frame::ipv4(
                    src.addr,
                    dst.addr,
                    IpProtocol::Icmp,
                    &icmp(Icmpv4Repr::Other {
                        message: Message::from(17),
                        code: 0,
                        rest: 0,
                        data: &[],
                    }),
                )
                .macs(mac(1), to),
            ),
        ),
    ]
}
