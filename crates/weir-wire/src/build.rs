//! Whole frames for tests and generators, from what is worth saying about them; lengths, types and
//! checksums follow. Touches the buffer given. Ethernet, any number of VLAN tags, IPv4 or IPv6,
//! UDP or TCP or any other payload.
//!
//! ```
//! use weir_wire::{VlanRepr, VlanTag, build::Frame};
//!
//! let tags = [VlanRepr::dot1q(100)];
//! let frame = Frame::udp_v4("10.0.0.1:1000".parse()?, "10.0.0.2:53".parse()?, b"hello")
//!     .tags(&tags)
//!     .ttl(8);
//! let mut buffer = [0u8; 128];
//! let len = frame.emit(&mut buffer)?;
//! assert_eq!(len, 14 + 4 + 20 + 8 + 5);
//! assert_eq!(VlanTag::new_checked(&buffer[12..len])?.vid(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use crate::checksum::PseudoHeader;
use crate::error::{Result, room};
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::mac::MacAddr;
use crate::view::{part_mut, put, store};
use crate::vlan::{self, TAG_LEN};
use crate::{ipv4, ipv6, tcp, udp};

const LAYER: &str = "frame";

/// The network layer of a [`Frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network<'a> {
    /// None: the payload follows this EtherType.
    None(EtherType),
    /// IPv4; protocol and payload length are set by `emit`.
    Ipv4(ipv4::Repr<'a>),
    /// IPv6; next header and payload length are set by `emit`.
    Ipv6(ipv6::Repr),
}

/// The transport layer of a [`Frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    /// None: the payload is of this protocol, checksum included.
    None(Protocol),
    /// UDP; the length is set by `emit`.
    Udp(udp::Repr),
    /// TCP.
    Tcp(tcp::Repr<'a>),
}

/// A frame to be written. Every part can be set directly; the methods are for the common ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Source address; `02:00:00:00:00:01` unless set.
    pub src: MacAddr,
    /// Destination address; `02:00:00:00:00:02` unless set.
    pub dst: MacAddr,
    /// VLAN tags, outermost first.
    pub tags: &'a [vlan::Repr],
    /// The network layer.
    pub network: Network<'a>,
    /// The transport layer; ignored without a network layer.
    pub transport: Transport<'a>,
    /// What the innermost header carries.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame of any EtherType.
    pub const fn ethernet(ether_type: EtherType, payload: &'a [u8]) -> Frame<'a> {
        Frame {
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            tags: &[],
            network: Network::None(ether_type),
            transport: Transport::None(Protocol::NoNext),
            payload,
        }
    }

    /// An IP packet of any protocol, over IPv4.
    pub const fn ipv4(
        src: Ipv4Addr,
        dst: Ipv4Addr,
        protocol: Protocol,
        payload: &'a [u8],
    ) -> Frame<'a> {
        Frame {
            network: Network::Ipv4(ipv4::Repr::new(src, dst, protocol, 0)),
            transport: Transport::None(protocol),
            ..Frame::ethernet(EtherType::Ipv4, payload)
        }
    }

    /// An IP packet of any protocol, over IPv6; extension headers are part of the payload.
    pub const fn ipv6(
        src: Ipv6Addr,
        dst: Ipv6Addr,
        protocol: Protocol,
        payload: &'a [u8],
    ) -> Frame<'a> {
        Frame {
            network: Network::Ipv6(ipv6::Repr::new(src, dst, protocol, 0)),
            transport: Transport::None(protocol),
            ..Frame::ethernet(EtherType::Ipv6, payload)
        }
    }

    /// A UDP datagram over IPv4.
    pub fn udp_v4(src: SocketAddrV4, dst: SocketAddrV4, payload: &'a [u8]) -> Frame<'a> {
        let udp = udp::Repr { src_port: src.port(), dst_port: dst.port(), payload_len: 0 };
        Frame {
            transport: Transport::Udp(udp),
            ..Frame::ipv4(*src.ip(), *dst.ip(), Protocol::Udp, payload)
        }
    }

    /// A UDP datagram over IPv6.
    pub fn udp_v6(src: SocketAddrV6, dst: SocketAddrV6, payload: &'a [u8]) -> Frame<'a> {
        let udp = udp::Repr { src_port: src.port(), dst_port: dst.port(), payload_len: 0 };
        Frame {
            transport: Transport::Udp(udp),
            ..Frame::ipv6(*src.ip(), *dst.ip(), Protocol::Udp, payload)
        }
    }

    /// A TCP segment over IPv4.
    pub fn tcp_v4(
        src: SocketAddrV4,
        dst: SocketAddrV4,
        flags: tcp::Flags,
        payload: &'a [u8],
    ) -> Frame<'a> {
        Frame {
            transport: Transport::Tcp(tcp::Repr::new(src.port(), dst.port(), flags)),
            ..Frame::ipv4(*src.ip(), *dst.ip(), Protocol::Tcp, payload)
        }
    }

    /// A TCP segment over IPv6.
    pub fn tcp_v6(
        src: SocketAddrV6,
        dst: SocketAddrV6,
        flags: tcp::Flags,
        payload: &'a [u8],
    ) -> Frame<'a> {
        Frame {
            transport: Transport::Tcp(tcp::Repr::new(src.port(), dst.port(), flags)),
            ..Frame::ipv6(*src.ip(), *dst.ip(), Protocol::Tcp, payload)
        }
    }

    /// With these addresses.
    #[must_use]
    pub const fn macs(self, src: MacAddr, dst: MacAddr) -> Frame<'a> {
        Frame { src, dst, ..self }
    }

    /// With these tags, outermost first.
    #[must_use]
    pub const fn tags(self, tags: &'a [vlan::Repr]) -> Frame<'a> {
        Frame { tags, ..self }
    }

    /// With this TTL or hop limit.
    #[must_use]
    pub const fn ttl(mut self, ttl: u8) -> Frame<'a> {
        match &mut self.network {
            Network::None(_) => {}
            Network::Ipv4(ip) => ip.ttl = ttl,
            Network::Ipv6(ip) => ip.hop_limit = ttl,
        }
        self
    }

    /// The frame's length, without padding and FCS.
    pub const fn len(&self) -> usize {
        self.ip_at() + self.network_len() + self.transport_len() + self.payload.len()
    }

    const fn ip_at(&self) -> usize {
        ethernet::HEADER_LEN + TAG_LEN * self.tags.len()
    }

    const fn network_len(&self) -> usize {
        match self.network {
            Network::None(_) => 0,
            Network::Ipv4(ip) => ip.buffer_len(),
            Network::Ipv6(ip) => ip.buffer_len(),
        }
    }

    const fn transport_len(&self) -> usize {
        match (self.network, self.transport) {
            (Network::None(_), _) | (_, Transport::None(_)) => 0,
            (_, Transport::Udp(udp)) => udp.buffer_len(),
            (_, Transport::Tcp(tcp)) => tcp.buffer_len(),
        }
    }

    /// Writes the frame to the front of `out` and returns its length. Short frames are not padded.
    ///
    /// # Errors
    /// `NoRoom` if `out` is shorter than [`Self::len`]; those of each layer's `emit`.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize> {
        let len = self.len();
        room(LAYER, "frame", len, out.len())?;
        let out = part_mut(out, 0..len);
        let ip_at = self.ip_at();
        self.emit_link(part_mut(out, 0..ip_at))?;
        let out = part_mut(out, ip_at..len);
        let at = self.network_len();
        store(part_mut(out, at + self.transport_len()..len - ip_at), self.payload);
        if let Some(pseudo) = self.emit_network(out, len - ip_at - at)? {
            self.emit_transport(part_mut(out, at..len - ip_at), &pseudo)?;
        }
        Ok(len)
    }

    fn emit_link(&self, out: &mut [u8]) -> Result<()> {
        let ether_type = match self.network {
            Network::None(ether_type) => ether_type,
            Network::Ipv4(_) => EtherType::Ipv4,
            Network::Ipv6(_) => EtherType::Ipv6,
        };
        let mut frame = ethernet::Frame::new_unchecked(&mut *out);
        ethernet::Repr { src: self.src, dst: self.dst, ether_type }.emit(&mut frame)?;
        let mut at = ethernet::ADDRESSES_LEN;
        for tag in self.tags {
            tag.emit(&mut vlan::Tag::new_unchecked(part_mut(out, at..at + TAG_LEN)))?;
            at += TAG_LEN;
        }
        put(out, at..at + 2, ether_type);
        Ok(())
    }

    fn emit_network(&self, out: &mut [u8], payload_len: usize) -> Result<Option<PseudoHeader>> {
        let protocol = match self.transport {
            Transport::None(protocol) => protocol,
            Transport::Udp(_) => Protocol::Udp,
            Transport::Tcp(_) => Protocol::Tcp,
        };
        let (src, dst) = match self.network {
            Network::None(_) => return Ok(None),
            Network::Ipv4(ip) => {
                let ip = ipv4::Repr { protocol, payload_len, ..ip };
                ip.emit(&mut ipv4::Packet::new_unchecked(out))?;
                (IpAddr::V4(ip.src), IpAddr::V4(ip.dst))
            }
            Network::Ipv6(ip) => {
                let ip = ipv6::Repr { next_header: protocol, payload_len, ..ip };
                ip.emit(&mut ipv6::Packet::new_unchecked(out))?;
                (IpAddr::V6(ip.src), IpAddr::V6(ip.dst))
            }
        };
        Ok(PseudoHeader::new(src, dst))
    }

    fn emit_transport(&self, out: &mut [u8], pseudo: &PseudoHeader) -> Result<()> {
        match self.transport {
            Transport::None(_) => {}
            Transport::Udp(udp) => {
                let mut packet = udp::Packet::new_unchecked(out);
                let udp = udp::Repr { payload_len: self.payload.len(), ..udp };
                udp.emit(&mut packet)?;
                packet.fill_checksum(pseudo);
            }
            Transport::Tcp(tcp) => {
                let mut packet = tcp::Packet::new_unchecked(out);
                tcp.emit(&mut packet)?;
                packet.fill_checksum(pseudo);
            }
        }
        Ok(())
    }
}
