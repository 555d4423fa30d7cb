//! Bytes to typed headers and back: Ethernet, VLAN tags, ARP, MPLS, IPv4, IPv6, ICMP, UDP, TCP,
//! SCTP, GRE, VXLAN, LLDP, and their checksums.
//!
//! Room: the bottom of the house. Touches byte slices and numbers; never frames, ports, clocks or
//! the heap. Called by everything that looks into a frame.
//!
//! Each protocol has two layers. A view (`udp::Packet`) lies over bytes and reads or writes one
//! field at a time; `new_checked` says that the header and the lengths it states fit the buffer.
//! A representation (`udp::Repr`) is the set of values understood here: `parse` takes it out of a
//! view, `buffer_len` is the space it needs and `emit` writes it. What `parse` took, `emit` writes
//! back; reserved bits and padding, which mean nothing, become zero.
//!
//! Rules that hold everywhere:
//! - No byte makes anything here panic or loop beyond the buffer. Accessors are total: a field
//!   that the buffer does not hold reads as zero and is not written.
//! - Enums keep the values they have no name for.
//! - Integers are in the machine's order, the wire's are big-endian. Lengths are bytes.
//! - A view of a layer whose length its own header does not state (TCP, ICMP, SCTP) must be given
//!   exactly that layer's bytes, without Ethernet's padding.
//! - Checksums are looked at when asked for, not by `new_checked` or `parse`: frames from a local
//!   stack may leave them to hardware. `emit` fills the IPv4 header's own; those that cover a
//!   payload are written by `fill_checksum` once the payload is in place.
//!
//! ```
//! use weir_wire::{EtherType, EthernetFrame, Ipv4Packet};
//!
//! fn ttl(frame: &[u8]) -> Option<u8> {
//!     let frame = EthernetFrame::new_checked(frame).ok()?;
//!     match frame.ether_type() {
//!         EtherType::Ipv4 => Some(Ipv4Packet::new_checked(frame.payload()).ok()?.ttl()),
//!         _ => None,
//!     }
//! }
//! # assert_eq!(ttl(&[0; 60]), None);
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod error;
mod mac;
mod view;

pub mod arp;
pub mod build;
pub mod checksum;
pub mod ethernet;
pub mod gre;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv4_option;
pub mod ipv6;
pub mod ipv6_ext;
pub mod ipv6_option;
pub mod lldp;
pub mod mld;
pub mod mpls;
pub mod ndisc;
pub mod ndisc_option;
pub mod sctp;
pub mod tcp;
pub mod tcp_option;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use arp::{Packet as ArpPacket, Repr as ArpRepr};
pub use checksum::PseudoHeader;
pub use error::{Error, Kind, Result};
pub use ethernet::{EtherType, Frame as EthernetFrame, Repr as EthernetRepr};
pub use gre::{Packet as GrePacket, Repr as GreRepr};
pub use icmpv4::{Packet as Icmpv4Packet, Repr as Icmpv4Repr};
pub use icmpv6::{Packet as Icmpv6Packet, Repr as Icmpv6Repr};
pub use ip::Protocol as IpProtocol;
pub use ipv4::{Packet as Ipv4Packet, Repr as Ipv4Repr};
pub use ipv6::{Packet as Ipv6Packet, Repr as Ipv6Repr};
pub use lldp::{Packet as LldpPacket, Repr as LldpRepr};
pub use mac::{MacAddr, ParseMacError};
pub use mpls::{Entry as MplsEntry, Repr as MplsRepr};
pub use ndisc::Repr as NdiscRepr;
pub use sctp::{Packet as SctpPacket, Repr as SctpRepr};
pub use tcp::{Packet as TcpPacket, Repr as TcpRepr};
pub use udp::{Packet as UdpPacket, Repr as UdpRepr};
pub use vlan::{Repr as VlanRepr, Tag as VlanTag};
pub use vxlan::{Packet as VxlanPacket, Repr as VxlanRepr};
