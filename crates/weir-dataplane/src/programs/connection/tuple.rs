//! What programs read of an IPv4 packet, once: addresses, protocol, ports, and where they lie.
//! Touches bytes; writes addresses and ports with their checksums mended (RFC 1624).
//! Called by programs that remember connections.

use super::{Endpoint, usual};
use std::net::Ipv4Addr;
use weir_packet::DropReason;
use weir_wire::checksum::Delta;
use weir_wire::ethernet::HEADER_LEN as ETH;
use weir_wire::icmpv4::Message;
use weir_wire::tcp::Flags;
use weir_wire::{
    EtherType, EthernetFrame, Icmpv4Packet, IpProtocol, Ipv4Packet, MacAddr, TcpPacket, UdpPacket,
};

/// The transport protocols that have connections here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP's queries with an identifier: echo and timestamp.
    Query,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Tcp, Kind::Udp, Kind::Query];
}

/// What a packet is to who remembers connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum What {
    /// A segment, with its flags.
    Tcp(Flags),
    /// A datagram.
    Udp,
    /// An ICMP query (echo or timestamp request).
    Ask,
    /// The answer to one.
    Answer,
    /// An ICMP error, which quotes a packet.
    Error,
    /// A piece of a packet. Ports are 0.
    Fragment,
    /// The same, where the packet's ports are known ([`super::pieces`]): it has no transport header.
    Piece(Kind),
    /// Something without ports. Ports are 0.
    Other,
}

impl What {
    /// The protocol, where connections are kept for it.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        match self {
            What::Tcp(_) => Some(Kind::Tcp),
            What::Udp => Some(Kind::Udp),
            What::Ask | What::Answer => Some(Kind::Query),
            What::Piece(kind) => Some(kind),
            What::Error | What::Fragment | What::Other => None,
        }
    }
}

/// An IPv4 packet's five fields. For ICMP queries both ports are the identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct Tuple {
    pub src: Endpoint,
    pub dst: Endpoint,
    pub what: What,
    pub ttl: u8,
    /// Where the transport header begins, from the packet's first byte.
    pub l4: usize,
    /// Where the packet ends.
    pub end: usize,
}

impl Tuple {
    #[inline(always)]
    fn of(ip: &Ipv4Packet<&[u8]>, l4: usize, what: What, sport: u16, dport: u16) -> Self {
        Self {
            src: Endpoint::new(ip.src(), sport),
            dst: Endpoint::new(ip.dst(), dport),
            what,
            ttl: ip.ttl(),
            l4,
            end: usize::from(ip.total_len()),
        }
    }
}

/// A frame without a tag, opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Opened {
    /// A sound IPv4 packet.
    Ipv4(MacAddr, Tuple),
    /// ARP, not looked at.
    Arp,
    /// Anything else, tagged frames among it.
    Other,
}

/// Opens a frame: IPv4 packets are checked, headers whole and the header's checksum right.
///
/// # Errors
/// Why the frame is bad.
#[inline]
pub(in crate::programs) fn open(bytes: &[u8]) -> Result<Opened, DropReason> {
    let eth = EthernetFrame::new_checked(bytes).map_err(|_| DropReason::Runt)?;
    match eth.ether_type() {
        EtherType::Ipv4 => Ok(Opened::Ipv4(eth.dst(), read(packet(bytes))?)),
        EtherType::Arp => Ok(Opened::Arp),
        _ => Ok(Opened::Other),
    }
}

/// A frame's bytes behind the Ethernet header.
#[inline]
pub(in crate::programs) fn packet(bytes: &[u8]) -> &[u8] {
    bytes.get(ETH..).unwrap_or(&[])
}

/// The same, to be changed.
#[inline]
pub(in crate::programs) fn packet_mut(bytes: &mut [u8]) -> &mut [u8] {
    bytes.get_mut(ETH..).unwrap_or(&mut [])
}

#[inline]
fn read(bytes: &[u8]) -> Result<Tuple, DropReason> {
    let bad = |_| DropReason::Malformed;
    let ip = Ipv4Packet::new_checked(bytes).map_err(bad)?;
    if !ip.has_good_checksum() {
        return Err(DropReason::Malformed);
    }
    let (l4, payload) = (ip.header_len(), ip.payload());
    let (what, sport, dport) = if ip.is_fragment() {
        (What::Fragment, 0, 0)
    } else {
        match ip.protocol() {
            IpProtocol::Tcp => {
                let t = TcpPacket::new_checked(payload).map_err(bad)?;
                (What::Tcp(t.flags()), t.src_port(), t.dst_port())
            }
            IpProtocol::Udp => {
                let u = UdpPacket::new_checked(payload).map_err(bad)?;
                (What::Udp, u.src_port(), u.dst_port())
            }
            IpProtocol::Icmp => {
                let m = Icmpv4Packet::new_checked(payload).map_err(bad)?;
                let id = m.echo_ident();
                match m.message() {
                    Message::EchoRequest | Message::TimestampRequest => (What::Ask, id, id),
                    Message::EchoReply | Message::TimestampReply => (What::Answer, id, id),
                    Message::DestinationUnreachable
                    | Message::TimeExceeded
                    | Message::ParameterProblem => (What::Error, 0, 0),
                    _ => (What::Other, 0, 0),
                }
            }
            _ => (What::Other, 0, 0),
        }
    };
    Ok(Tuple::of(&ip, l4, what, sport, dport))
}

/// The ends of a packet that may be one with connections, unchecked and of those without options
/// alone: to ask for what [`open`] will lead to.
#[inline]
pub(in crate::programs) fn glance(bytes: &[u8]) -> Option<(Endpoint, Endpoint, Kind)> {
    let h: &[u8; 42] = bytes.first_chunk()?;
    if h[12..15] != [0x08, 0x00, 0x45] {
        return None;
    }
    let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
    let (kind, sport, dport) = match IpProtocol::from(h[23]) {
        IpProtocol::Tcp => (Kind::Tcp, word(34), word(36)),
        IpProtocol::Udp => (Kind::Udp, word(34), word(36)),
        IpProtocol::Icmp => (Kind::Query, word(38), word(38)),
        _ => return None,
    };
    let addr = |i: usize| Ipv4Addr::new(h[i], h[i + 1], h[i + 2], h[i + 3]);
    Some((Endpoint::new(addr(26), sport), Endpoint::new(addr(30), dport), kind))
}

/// The packet that an ICMP error quotes, as far as it is there: its header and eight bytes more
/// (RFC 792). Its `l4` is counted from the quoted header's first byte; flags are not in it.
///
/// `None` when it is not sound or has no connection of ours: a fragment's tail, another error.
pub(in crate::programs) fn quoted(bytes: &[u8]) -> Option<Tuple> {
    let ip = Ipv4Packet::new_unchecked(bytes);
    ip.check_header().ok()?;
    if !ip.has_good_checksum() || ip.fragment_offset() != 0 {
        return None;
    }
    let l4 = ip.header_len();
    let head: &[u8; 8] = bytes.get(l4..)?.first_chunk()?;
    let word = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
    let (what, sport, dport) = match ip.protocol() {
        IpProtocol::Tcp => (What::Tcp(Flags(0)), word(0), word(2)),
        IpProtocol::Udp => (What::Udp, word(0), word(2)),
        IpProtocol::Icmp => match Icmpv4Packet::new_unchecked(&head[..]).message() {
            Message::EchoRequest | Message::TimestampRequest => (What::Ask, word(4), word(4)),
            Message::EchoReply | Message::TimestampReply => (What::Answer, word(4), word(4)),
            _ => return None,
        },
        _ => return None,
    };
    Some(Tuple::of(&ip, l4, what, sport, dport))
}

/// Which end of a packet is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Side {
    Source,
    Destination,
}

/// Writes one end's address and port into a packet, with the checksums that cover them mended.
/// `bytes` may end early, as a quoted packet's do: what is not there is not written.
///
/// Gives every 16-bit change made to the bytes, checksums included, for whoever quotes them.
#[inline]
pub(in crate::programs) fn rewrite(
    bytes: &mut [u8],
    t: &Tuple,
    side: Side,
    new: Endpoint,
) -> Delta {
    let old = match side {
        Side::Source => t.src,
        Side::Destination => t.dst,
    };
    let addr = Delta::new().ipv4(old.addr, new.addr);
    let mut ip = Ipv4Packet::new_unchecked(&mut *bytes);
    match side {
        Side::Source => ip.set_src(new.addr),
        Side::Destination => ip.set_dst(new.addr),
    }
    let (was, is) = (ip.checksum(), addr.apply(ip.checksum()));
    ip.set_checksum(is);
    let mut all = addr.u16(was, is).u16(old.port, new.port);
    let l4 = bytes.get_mut(t.l4..).unwrap_or(&mut []);
    let both = addr.u16(old.port, new.port);
    match t.what {
        What::Tcp(_) => {
            let whole = l4.len() >= 18;
            let mut tcp = TcpPacket::new_unchecked(l4);
            match side {
                Side::Source => tcp.set_src_port(new.port),
                Side::Destination => tcp.set_dst_port(new.port),
            }
            if whole {
                let (was, is) = (tcp.checksum(), both.apply(tcp.checksum()));
                tcp.set_checksum(is);
                all = all.u16(was, is);
            }
        }
        What::Udp => {
            let mut udp = UdpPacket::new_unchecked(l4);
            match side {
                Side::Source => udp.set_src_port(new.port),
                Side::Destination => udp.set_dst_port(new.port),
            }
            let (was, is) = (udp.checksum(), both.apply_udp(udp.checksum()));
            udp.set_checksum(is);
            all = all.u16(was, is);
        }
        What::Ask | What::Answer => {
            // No pseudo-header: the identifier alone.
            let mut m = Icmpv4Packet::new_unchecked(l4);
            m.set_echo_ident(new.port);
            let (was, is) =
                (m.checksum(), Delta::new().u16(old.port, new.port).apply(m.checksum()));
            m.set_checksum(is);
            all = all.u16(was, is);
        }
        What::Piece(_) | What::Error | What::Fragment | What::Other => {}
    }
    all
}

/// Takes one from a frame's TTL. The caller has seen that it is above one.
#[inline]
pub(in crate::programs) fn decrement_ttl(frame: &mut [u8]) {
    Ipv4Packet::new_unchecked(packet_mut(frame)).decrement_ttl();
}

/// [`rewrite`] of a frame's packet, and [`decrement_ttl`].
#[inline(always)]
pub(in crate::programs) fn forward(frame: &mut [u8], t: Tuple, side: Side, new: Endpoint) {
    if !usual::forward(frame, t, side, new) {
        forward_any(frame, t, side, new);
    }
}

#[inline(never)]
fn forward_any(frame: &mut [u8], t: Tuple, side: Side, new: Endpoint) {
    rewrite(packet_mut(frame), &t, side, new);
    decrement_ttl(frame);
}

/// Whether an address can be a host's: not of 0/8, 127/8, multicast or reserved.
#[inline]
pub(in crate::programs) fn is_host(a: Ipv4Addr) -> bool {
    !matches!(a.octets()[0], 0 | 127 | 224..)
}
