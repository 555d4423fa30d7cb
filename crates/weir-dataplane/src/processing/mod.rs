//! The function modules of stage 3: what an action does to a frame, a file each.
//!
//! Room: [`compile`] is called when a rule is installed, [`apply`] by the executor for each frame.
//! To add a module: its file, a variant of [`Change`], a line in [`apply`] and one in `compile.rs`.
//!
//! What holds for all of them:
//! - Semantics are OpenFlow 1.3's text, and Open vSwitch's where the text is silent.
//! - A change of a field that the frame has not does nothing, and the frame goes on: a rule's
//!   prerequisites say which frames have it. Decapsulation of a frame that is not encapsulated
//!   drops it.
//! - Checksums that were right are right afterwards, and wrong ones stay wrong, so that errors
//!   which somebody else made are not covered up.
//! - [`Packet::layers`] is true afterwards, and [`Packet::stale`] says that bytes changed.
//! - After an error the frame is as it was; no bytes lead to a panic or outside the frame.

mod bytes;
mod compile;
pub(crate) mod ecn;
mod flow_hash;
pub mod gre;
mod locate;
pub mod metadata;
pub mod mpls;
mod outer;
pub mod pbb;
pub mod set_arp;
pub mod set_ipv4;
pub mod set_ipv6;
pub mod set_l4;
pub mod set_mac;
pub mod set_nd;
pub mod set_tos;
pub mod set_type;
mod transport;
pub mod ttl;
pub mod vlan;
pub mod vxlan;

use crate::packet::Packet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use weir_packet::DropReason;

pub use compile::{ActionError, compile};
pub use flow_hash::flow_hash;

/// An action that changes frames, compiled: values are masked, checked and in the wire's place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Both Ethernet addresses, destination first.
    Macs([u8; 12]),
    /// Bits of one Ethernet address.
    Mac(set_mac::SetMac),
    /// TTL or hop limit less one.
    DecTtl,
    /// Bits of TTL or hop limit.
    Ttl(ttl::SetTtl),
    /// TTL copied outwards.
    CopyTtlOut,
    /// TTL copied inwards.
    CopyTtlIn,
    /// Bits of an IPv4 address.
    Ipv4(set_ipv4::SetIpv4),
    /// Bits of an IPv6 address.
    Ipv6(set_ipv6::SetIpv6),
    /// Bits of the IPv6 flow label.
    Ipv6Label(set_ipv6::SetLabel),
    /// Bits of ToS or traffic class.
    Tos(set_tos::SetTos),
    /// Bits of a port.
    Port(set_l4::SetPort),
    /// Bits of ICMP's type or code.
    Icmp(set_l4::SetIcmp),
    /// Bits of an ARP field.
    Arp(set_arp::SetArp),
    /// Bits of neighbour discovery's target.
    NdTarget(set_nd::SetTarget),
    /// Bits of neighbour discovery's link-layer address.
    NdLinkLayer(set_nd::SetLinkLayer),
    /// Push a VLAN tag with this TPID.
    PushVlan(u16),
    /// Pop a VLAN tag.
    PopVlan,
    /// Bits of a VLAN tag.
    Tci(vlan::SetTci),
    /// Bits of the outer VLAN tag; a frame without one gets one (OpenFlow 1.0, §5.2.4).
    ModTag(vlan::SetTci),
    /// Push an MPLS label; the EtherType becomes this.
    PushMpls(u16),
    /// Pop an MPLS label; the EtherType becomes this.
    PopMpls(u16),
    /// Bits of the top MPLS entry.
    MplsEntry(mpls::SetEntry),
    /// TTL of the top MPLS entry less one.
    DecMplsTtl,
    /// Push a PBB service tag.
    PushPbb,
    /// Pop a PBB service tag.
    PopPbb,
    /// Bits of the EtherType.
    EtherType(set_type::SetEtherType),
    /// Bits of the IP protocol.
    Proto(set_type::SetProto),
    /// Bits of the PBB service id.
    PbbService(pbb::SetService),
    /// Wrap in VXLAN.
    EncapVxlan(Box<vxlan::Encap>),
    /// Unwrap VXLAN.
    DecapVxlan,
    /// Wrap in GRE.
    EncapGre(Box<gre::Encap>),
    /// Unwrap GRE.
    DecapGre,
    /// Bits of metadata or tunnel id.
    Meta(metadata::SetMeta),
}

impl Change {
    /// What numbers the frames of a tunnel, if they are numbered.
    pub fn sequence(&self) -> Option<&Arc<AtomicU32>> {
        match self {
            Change::EncapGre(e) => e.sequence.as_ref(),
            _ => None,
        }
    }
    /// [`Change::sequence`], to give it another.
    pub fn sequence_mut(&mut self) -> Option<&mut Arc<AtomicU32>> {
        match self {
            Change::EncapGre(e) => e.sequence.as_mut(),
            _ => None,
        }
    }
    /// This change and `next` in one, where that is possible: whole destination and source address.
    pub fn with(&self, next: &Change) -> Option<Change> {
        use set_mac::Which::{Dst, Src};
        let (Change::Mac(a), Change::Mac(b)) = (self, next) else { return None };
        let (dst, src) = match (a.which, b.which) {
            (Dst, Src) => (a.whole()?, b.whole()?),
            (Src, Dst) => (b.whole()?, a.whole()?),
            _ => return None,
        };
        let mut macs = [0; 12];
        for (to, from) in macs.iter_mut().zip(dst.into_iter().chain(src)) {
            *to = from;
        }
        Some(Change::Macs(macs))
    }
}

/// Carries out one change.
///
/// # Errors
/// Why the frame must be dropped; each module says when. The frame's bytes are as they were.
#[inline]
pub fn apply(change: &Change, p: &mut Packet<'_>) -> Result<(), DropReason> {
    match change {
        Change::Macs(m) => set_mac::both(m, p),
        Change::Mac(c) => c.apply(p),
        Change::DecTtl => return ttl::decrement(p),
        Change::Tci(c) => c.apply(p),
        Change::PushVlan(tpid) => return vlan::push(*tpid, p),
        Change::PopVlan => return vlan::pop(p),
        Change::MplsEntry(c) => c.apply(p),
        Change::DecMplsTtl => return mpls::decrement(p),
        Change::Ipv4(c) => c.apply(p),
        Change::Port(c) => c.apply(p),
        other => return apply_rare(other, p),
    }
    Ok(())
}

/// The rest, out of the way of the common ones.
#[inline(never)]
fn apply_rare(change: &Change, p: &mut Packet<'_>) -> Result<(), DropReason> {
    match change {
        Change::Ttl(c) => c.apply(p),
        Change::CopyTtlOut => ttl::copy_out(p),
        Change::CopyTtlIn => ttl::copy_in(p),
        Change::Ipv6(c) => c.apply(p),
        Change::Ipv6Label(c) => c.apply(p),
        Change::Tos(c) => c.apply(p),
        Change::Icmp(c) => c.apply(p),
        Change::Arp(c) => c.apply(p),
        Change::NdTarget(c) => c.apply(p),
        Change::NdLinkLayer(c) => c.apply(p),
        Change::PushMpls(t) => return mpls::push(*t, p),
        Change::PopMpls(t) => return mpls::pop(*t, p),
        Change::PushPbb => return pbb::push(p),
        Change::PopPbb => return pbb::pop(p),
        Change::EtherType(c) => return c.apply(p),
        Change::Proto(c) => return c.apply(p),
        Change::ModTag(c) => return c.apply_or_add(p),
        Change::PbbService(c) => c.apply(p),
        Change::EncapVxlan(c) => return c.apply(p),
        Change::DecapVxlan => return vxlan::decap(p),
        Change::EncapGre(c) => return c.apply(p),
        Change::DecapGre => return gre::decap(p),
        Change::Meta(c) => c.apply(p),
        // In `apply`.
        Change::Macs(_)
        | Change::Mac(_)
        | Change::DecTtl
        | Change::Tci(_)
        | Change::PushVlan(_)
        | Change::PopVlan
        | Change::MplsEntry(_)
        | Change::DecMplsTtl
        | Change::Ipv4(_)
        | Change::Port(_) => {}
    }
    Ok(())
}
