//! Stage 3's function modules: each changes frames in one way, each in a file.
//!
//! Room: called by `execute.rs` with one frame at a time. A module touches the frame's bytes, keeps
//! `layers` true and says when the key has become stale; it knows no ports, tables or counters.
//! Adding a module is a file here, a [`Change`], and its line in [`compile`] and [`apply`].
//!
//! What holds for all of them: checksums that were right stay right; a frame that has not the
//! header passes unchanged (a rule's prerequisites see to it that it has), except where going on
//! would send something else than was asked for: then it is dropped with a reason.

mod edit;
mod error;
mod gre;
mod mpls;
mod outer;
mod pbb;
mod set_arp;
mod set_ip;
mod set_l4;
mod set_mac;
pub(crate) mod set_tos;
pub(crate) mod ttl;
mod vlan;
mod vxlan;

pub use error::ActionError;

use crate::action::{Action, Outer};
use crate::packet::{Packet, Stale};
use weir_classify::{Field, ones};
use weir_packet::DropReason;

/// A change of a frame, checked and ready to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Destination MAC: value and mask.
    EthDst(u64, u64),
    /// Source MAC: value and mask.
    EthSrc(u64, u64),
    /// The outer tag's TCI without the present bit: value and mask.
    Vlan(u16, u16),
    /// The inner tag's TCI without the present bit: value and mask.
    InnerVlan(u16, u16),
    /// IPv4 source: value and mask.
    Ipv4Src(u32, u32),
    /// IPv4 destination: value and mask.
    Ipv4Dst(u32, u32),
    /// IPv6 source: value and mask.
    Ipv6Src(u128, u128),
    /// IPv6 destination: value and mask.
    Ipv6Dst(u128, u128),
    /// IPv6 flow label: value and mask.
    Ipv6Label(u32, u32),
    /// ToS or traffic class: value and mask.
    Tos(u8, u8),
    /// TTL or hop limit.
    SetTtl(u8),
    /// Decrement TTL or hop limit.
    DecTtl,
    /// Copy TTL outwards.
    CopyTtlOut,
    /// Copy TTL inwards.
    CopyTtlIn,
    /// Source port: value and mask.
    TpSrc(u16, u16),
    /// Destination port: value and mask.
    TpDst(u16, u16),
    /// ICMP type: value and mask.
    IcmpType(u8, u8),
    /// ICMP code: value and mask.
    IcmpCode(u8, u8),
    /// A field of ARP: offset in the ARP header, bytes, value, mask.
    Arp(u8, u8, u64, u64),
    /// Target of neighbour discovery: value and mask.
    NdTarget(u128, u128),
    /// Source link-layer address option of a solicitation: value and mask.
    NdSll(u64, u64),
    /// Target link-layer address option of an advertisement: value and mask.
    NdTll(u64, u64),
    /// Bits of the top label stack entry: value and mask.
    Mpls(u32, u32),
    /// Decrement the top label's TTL.
    DecMplsTtl,
    /// Push a VLAN tag with this TPID.
    PushVlan(u16),
    /// Pop the outer VLAN tag.
    PopVlan,
    /// Push a label with this EtherType.
    PushMpls(u16),
    /// Pop the top label; the EtherType becomes this.
    PopMpls(u16),
    /// Push a PBB service tag.
    PushPbb,
    /// Pop the PBB service tag.
    PopPbb,
    /// The service id of a PBB tag: value and mask.
    PbbIsid(u32, u32),
    /// Wrap in VXLAN.
    EncapVxlan(Outer, u32, u16),
    /// Unwrap VXLAN.
    DecapVxlan,
    /// Wrap in GRE.
    EncapGre(gre::Encap),
    /// Unwrap GRE.
    DecapGre,
    /// The tunnel id that the next table sees: value and mask.
    TunnelId(u64, u64),
    /// Metadata that the next table sees: value and mask.
    Metadata(u64, u64),
}

/// Checks an action that changes frames. `None`: the action is not of that kind.
///
/// # Errors
/// [`ActionError`].
pub fn compile(action: &Action) -> Result<Option<Change>, ActionError> {
    let expect = |ethertype: u16, of: &'static [u16], what: &'static str| {
        if of.contains(&ethertype) {
            Ok(())
        } else {
            Err(ActionError::EtherType { what, ethertype, allowed: of })
        }
    };
    Ok(Some(match action {
        Action::SetField { field, value, mask } => set_field(*field, *value, *mask)?,
        Action::DecTtl => Change::DecTtl,
        Action::CopyTtlOut => Change::CopyTtlOut,
        Action::CopyTtlIn => Change::CopyTtlIn,
        Action::PushVlan(t) => {
            expect(*t, &[0x8100, 0x88a8], "push_vlan")?;
            Change::PushVlan(*t)
        }
        Action::PopVlan => Change::PopVlan,
        Action::PushMpls(t) => {
            expect(*t, &[0x8847, 0x8848], "push_mpls")?;
            Change::PushMpls(*t)
        }
        Action::PopMpls(t) => {
            if *t < 0x600 {
                return Err(ActionError::NotAnEtherType { what: "pop_mpls", value: *t });
            }
            Change::PopMpls(*t)
        }
        Action::DecMplsTtl => Change::DecMplsTtl,
        Action::PushPbb(t) => {
            expect(*t, &[0x88e7], "push_pbb")?;
            Change::PushPbb
        }
        Action::PopPbb => Change::PopPbb,
        Action::EncapVxlan { outer, vni, port } => {
            if *vni > 0xff_ffff {
                return Err(ActionError::TooLarge { field: "vni", bits: 24 });
            }
            Change::EncapVxlan(*outer, *vni, *port)
        }
        Action::DecapVxlan => Change::DecapVxlan,
        Action::EncapGre { outer, key, sequence, checksum } => {
            Change::EncapGre(gre::Encap::new(*outer, *key, *sequence, *checksum))
        }
        Action::DecapGre => Change::DecapGre,
        Action::WriteMetadata { .. }
        | Action::Output(_)
        | Action::SetQueue(_)
        | Action::ToChannel
        | Action::Drop
        | Action::Group(_)
        | Action::Meter(_)
        | Action::Mirror(_)
        | Action::Goto(_) => return Ok(None),
    }))
}

fn set_field(field: Field, value: u128, mask: u128) -> Result<Change, ActionError> {
    let full = field.full();
    if value & !full != 0 || mask & !full != 0 {
        return Err(ActionError::TooLarge { field: field.name(), bits: field.info().width });
    }
    let whole = |c: Change| {
        if mask == full { Ok(c) } else { Err(ActionError::NoMask { field: field.name() }) }
    };
    let (v, m) = (value & mask, mask);
    // The field's bits in a 32-bit label stack entry, which stands in the key's upper half.
    let lse = |f: Field| {
        let shift = f.info().shift - 32;
        Change::Mpls((v as u32) << shift, (m as u32) << shift)
    };
    let arp = |at: u8, len: u8| Change::Arp(at, len, v as u64, m as u64);
    // The present bit is not on the wire.
    let tci = |v: u128, m: u128| (v as u16 & !0x1000, m as u16 & !0x1000);
    Ok(match field {
        Field::EthDst => Change::EthDst(v as u64, m as u64),
        Field::EthSrc => Change::EthSrc(v as u64, m as u64),
        Field::VlanTci | Field::VlanVid => {
            let (v, m) = tci(v, m);
            Change::Vlan(v, m)
        }
        Field::VlanPcp => Change::Vlan((v as u16) << 13, (m as u16) << 13),
        Field::InnerTci => {
            let (v, m) = tci(v, m);
            Change::InnerVlan(v, m)
        }
        Field::Ipv4Src => Change::Ipv4Src(v as u32, m as u32),
        Field::Ipv4Dst => Change::Ipv4Dst(v as u32, m as u32),
        Field::Ipv6Src => Change::Ipv6Src(v, m),
        Field::Ipv6Dst => Change::Ipv6Dst(v, m),
        Field::Ipv6Label => Change::Ipv6Label(v as u32, m as u32),
        Field::IpTos => Change::Tos(v as u8, m as u8),
        Field::IpDscp => Change::Tos((v as u8) << 2, (m as u8) << 2),
        Field::IpEcn => Change::Tos(v as u8, m as u8),
        Field::IpTtl => whole(Change::SetTtl(v as u8))?,
        Field::TpSrc => Change::TpSrc(v as u16, m as u16),
        Field::TpDst => Change::TpDst(v as u16, m as u16),
        Field::IcmpType | Field::IcmpCode if v > 0xff => {
            return Err(ActionError::TooLarge { field: field.name(), bits: 8 });
        }
        Field::IcmpType => Change::IcmpType(v as u8, m as u8),
        Field::IcmpCode => Change::IcmpCode(v as u8, m as u8),
        Field::ArpOp => arp(6, 2),
        Field::ArpSha => arp(8, 6),
        Field::ArpSpa => arp(14, 4),
        Field::ArpTha => arp(18, 6),
        Field::ArpTpa => arp(24, 4),
        Field::NdTarget => Change::NdTarget(v, m),
        Field::NdSll => Change::NdSll(v as u64, m as u64),
        Field::NdTll => Change::NdTll(v as u64, m as u64),
        Field::MplsLabel | Field::MplsTc | Field::MplsTtl => lse(field),
        Field::PbbIsid => Change::PbbIsid(v as u32, m as u32),
        Field::TunnelId => Change::TunnelId(v as u64, m as u64),
        Field::Metadata => Change::Metadata(v as u64, m as u64),
        _ => return Err(ActionError::ReadOnly { field: field.name() }),
    })
}

/// Carries a change out.
///
/// # Errors
/// Why the frame must be dropped instead.
pub fn apply(change: &Change, p: &mut Packet<'_>) -> Result<(), DropReason> {
    match *change {
        Change::EthDst(v, m) => set_mac::destination(p, v, m),
        Change::EthSrc(v, m) => set_mac::source(p, v, m),
        Change::Vlan(v, m) => vlan::set(p, vlan::Level::Outer, v, m),
        Change::InnerVlan(v, m) => vlan::set(p, vlan::Level::Inner, v, m),
        Change::Ipv4Src(v, m) => set_ip::v4(p, 12, v, m),
        Change::Ipv4Dst(v, m) => set_ip::v4(p, 16, v, m),
        Change::Ipv6Src(v, m) => set_ip::v6(p, set_ip::End::Source, v, m),
        Change::Ipv6Dst(v, m) => set_ip::v6(p, set_ip::End::Destination, v, m),
        Change::Ipv6Label(v, m) => set_ip::flow_label(p, v, m),
        Change::Tos(v, m) => set_tos::set(p, v, m),
        Change::SetTtl(v) => ttl::set(p, v),
        Change::DecTtl => return ttl::decrement(p),
        Change::CopyTtlOut => ttl::copy_out(p),
        Change::CopyTtlIn => ttl::copy_in(p),
        Change::TpSrc(v, m) => set_l4::port(p, 0, v, m),
        Change::TpDst(v, m) => set_l4::port(p, 2, v, m),
        Change::IcmpType(v, m) => set_l4::icmp(p, u16::from(v) << 8, u16::from(m) << 8),
        Change::IcmpCode(v, m) => set_l4::icmp(p, v.into(), m.into()),
        Change::Arp(at, len, v, m) => set_arp::set(p, at.into(), len.into(), v, m),
        Change::NdTarget(v, m) => set_l4::nd_target(p, v, m),
        Change::NdSll(v, m) => set_l4::nd_option(p, 135, 1, v, m),
        Change::NdTll(v, m) => set_l4::nd_option(p, 136, 2, v, m),
        Change::Mpls(v, m) => mpls::set(p, v, m),
        Change::DecMplsTtl => return mpls::decrement(p),
        Change::PushVlan(t) => return vlan::push(p, t),
        Change::PopVlan => return vlan::pop(p),
        Change::PushMpls(t) => return mpls::push(p, t),
        Change::PopMpls(t) => return mpls::pop(p, t),
        Change::PushPbb => return pbb::push(p),
        Change::PopPbb => return pbb::pop(p),
        Change::PbbIsid(v, m) => pbb::set(p, v, m),
        Change::EncapVxlan(ref outer, vni, port) => return vxlan::encap(p, outer, vni, port),
        Change::DecapVxlan => return vxlan::decap(p),
        Change::EncapGre(ref e) => return gre::encap(p, e),
        Change::DecapGre => return gre::decap(p),
        Change::TunnelId(v, m) => key(p, Field::TunnelId, v, m),
        Change::Metadata(v, m) => key(p, Field::Metadata, v, m),
    }
    Ok(())
}

/// Changes what stands in the key only.
fn key(p: &mut Packet<'_>, f: Field, value: u64, mask: u64) {
    let (value, mask) = (u128::from(value), u128::from(mask) & ones(64));
    p.key.set(f, p.key.get(f) & !mask | value);
}

/// Notes that the frame's bytes changed.
fn changed(p: &mut Packet<'_>) {
    p.stale = Stale::Yes;
}
