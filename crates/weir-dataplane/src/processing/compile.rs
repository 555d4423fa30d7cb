//! From an action that changes frames to its [`Change`], checked. Touches no frame; called when a
//! rule is installed.

use super::Change;
use super::{gre, metadata, mpls, pbb, set_arp, set_ipv4, set_ipv6, set_l4, set_mac, set_nd};
use super::{set_tos, set_type, ttl, vlan, vxlan};
use crate::action::{Action, Outer, TunnelAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use thiserror::Error;
use weir_classify::{Field, VLAN_PRESENT, ones};
use weir_wire::ethernet::EtherType;
use weir_wire::vxlan::MAX_VNI;

/// An action that no frame can be changed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The field can't be set.
    #[error("'{}' can't be set: {why}", .field.name())]
    ReadOnly {
        /// The field.
        field: Field,
        /// What to do instead.
        why: &'static str,
    },
    /// More bits than the field has.
    #[error("{what} {value:#x} of '{}' is too large: the field has {width} bits", .field.name())]
    TooLarge {
        /// The field.
        field: Field,
        /// "value" or "mask".
        what: &'static str,
        /// The number given.
        value: u128,
        /// Bits of the field.
        width: u32,
    },
    /// A VLAN tag can't be set away.
    #[error("'{}' without bit 0x1000 would mean no tag: add 0x1000, or use pop_vlan", .field.name())]
    NoTag {
        /// The field.
        field: Field,
    },
    /// Not a TPID that can be pushed.
    #[error("push_vlan with TPID {0:#06x}: it must be 0x8100 (C-tag) or 0x88a8 (S-tag)")]
    Tpid(u16),
    /// Not an EtherType of MPLS.
    #[error("push_mpls with EtherType {0:#06x}: it must be 0x8847 or 0x8848 (multicast)")]
    MplsType(u16),
    /// Not an EtherType.
    #[error("pop_mpls to {0:#06x}: give the payload's EtherType, 0x0600 or above (IPv4 is 0x0800)")]
    PayloadType(u16),
    /// Not the EtherType of PBB.
    #[error("push_pbb with EtherType {0:#06x}: it must be 0x88e7")]
    PbbType(u16),
    /// A VNI has 24 bits.
    #[error("VNI {0} is too large: at most 16777215")]
    Vni(u32),
    /// UDP port zero is reserved.
    #[error("VXLAN to UDP port 0: give the receiver's port (4789 is VXLAN's)")]
    UdpPort,
    /// The first router would drop it.
    #[error("outer TTL 0 would never arrive: give 1 to 255 (64 is usual)")]
    OuterTtl,
    /// An outer source must be one station.
    #[error("outer source address {0} is not a single host's: give the tunnel's own address")]
    OuterSource(std::net::IpAddr),
}

/// Compiles an action. `None` for those that change no frame: outputs, groups, meters, and a field
/// under an empty mask.
///
/// # Errors
/// [`ActionError`]; it says how to mend the action.
pub fn compile(action: &Action) -> Result<Option<Change>, ActionError> {
    Ok(Some(match *action {
        Action::Output(_)
        | Action::SetQueue(_)
        | Action::ToChannel
        | Action::Drop
        | Action::Group(_)
        | Action::Meter(_)
        | Action::Mirror(_)
        | Action::WriteActions(_)
        | Action::ClearActions
        | Action::Goto(_) => return Ok(None),
        Action::ModVlanVid(v) if v > 0xfff => {
            let (field, value) = (Field::VlanVid, v.into());
            return Err(ActionError::TooLarge { field, what: "value", value, width: 12 });
        }
        Action::ModVlanVid(v) => Change::ModTag(vlan::SetTci::outer(v, 0xfff)),
        Action::ModVlanPcp(p) if p > 7 => {
            let (field, value) = (Field::VlanPcp, p.into());
            return Err(ActionError::TooLarge { field, what: "value", value, width: 3 });
        }
        Action::ModVlanPcp(p) => Change::ModTag(vlan::SetTci::outer(u16::from(p) << 13, 0xe000)),
        Action::SetField { field, value, mask } => return set_field(field, value, mask),
        Action::DecTtl => Change::DecTtl,
        Action::CopyTtlOut => Change::CopyTtlOut,
        Action::CopyTtlIn => Change::CopyTtlIn,
        Action::PushVlan(tpid @ (0x8100 | 0x88a8)) => Change::PushVlan(tpid),
        Action::PushVlan(tpid) => return Err(ActionError::Tpid(tpid)),
        Action::PopVlan => Change::PopVlan,
        Action::PushMpls(t) if EtherType::from(t).is_mpls() => Change::PushMpls(t),
        Action::PushMpls(t) => return Err(ActionError::MplsType(t)),
        Action::PopMpls(t) if t >= 0x600 => Change::PopMpls(t),
        Action::PopMpls(t) => return Err(ActionError::PayloadType(t)),
        Action::DecMplsTtl => Change::DecMplsTtl,
        Action::PushPbb(pbb::ETHERTYPE) => Change::PushPbb,
        Action::PushPbb(t) => return Err(ActionError::PbbType(t)),
        Action::PopPbb => Change::PopPbb,
        Action::EncapVxlan { outer, vni, port } => {
            check_outer(&outer)?;
            if vni > MAX_VNI {
                return Err(ActionError::Vni(vni));
            }
            if port == 0 {
                return Err(ActionError::UdpPort);
            }
            Change::EncapVxlan(Box::new(vxlan::Encap { outer, vni, port }))
        }
        Action::DecapVxlan => Change::DecapVxlan,
        Action::EncapGre { outer, key, sequence, checksum } => {
            check_outer(&outer)?;
            let sequence = sequence.map(|first| Arc::new(AtomicU32::new(first)));
            Change::EncapGre(Box::new(gre::Encap { outer, key, sequence, checksum }))
        }
        Action::DecapGre => Change::DecapGre,
        Action::WriteMetadata { mask: 0, .. } => return Ok(None),
        Action::WriteMetadata { value, mask } => {
            Change::Meta(metadata::SetMeta { which: metadata::Which::Metadata, value, mask })
        }
    }))
}

fn check_outer(outer: &Outer) -> Result<(), ActionError> {
    if outer.ttl == 0 {
        return Err(ActionError::OuterTtl);
    }
    match outer.ip {
        TunnelAddrs::V4(src, _) if src.is_multicast() || src.is_broadcast() => {
            Err(ActionError::OuterSource(src.into()))
        }
        TunnelAddrs::V6(src, _) if src.is_multicast() => Err(ActionError::OuterSource(src.into())),
        _ => Ok(()),
    }
}

/// Why a field can't be set, and what to do instead.
fn read_only(field: Field) -> Option<&'static str> {
    Some(match field {
        Field::InPort | Field::InPhyPort => "it says where the frame came from",
        Field::Ipv6Exthdr => "it follows from the frame's headers",
        Field::IpFrag => "it follows from the IP header's fragment fields",
        Field::TcpFlags => "they belong to the state of the connection's ends",
        Field::UserPresent | Field::User0 | Field::User1 | Field::User2 | Field::User3 => {
            "a VDP's own fields are for matching"
        }
        _ => return None,
    })
}

fn set_field(field: Field, value: u128, mask: u128) -> Result<Option<Change>, ActionError> {
    if let Some(why) = read_only(field) {
        return Err(ActionError::ReadOnly { field, why });
    }
    let width = match field {
        // They stand where ports do, which are wider.
        Field::IcmpType | Field::IcmpCode => 8,
        f => f.info().width,
    };
    // Where that is the caller's way to say "all bits", they are of the width of the field.
    let wide = matches!(field, Field::IcmpType | Field::IcmpCode) && mask == field.full();
    let mask = if wide { ones(width) } else { mask };
    for (what, n) in [("value", value), ("mask", mask)] {
        if n > ones(width) {
            return Err(ActionError::TooLarge { field, what, value: n, width });
        }
    }
    let present = u128::from(VLAN_PRESENT);
    let tag = matches!(field, Field::VlanTci | Field::VlanVid | Field::InnerTci);
    if tag && mask & present != 0 && value & present == 0 {
        return Err(ActionError::NoTag { field });
    }
    let value = value & mask;
    if mask == 0 {
        return Ok(None);
    }
    // Widths are checked: each number fits where it goes.
    let ((v64, m64), (v32, m32)) = ((value as u64, mask as u64), (value as u32, mask as u32));
    let ((v16, m16), (v8, m8)) = ((value as u16, mask as u16), (value as u8, mask as u8));
    let mac = |which| Change::Mac(set_mac::SetMac { which, value: v64, mask: m64 });
    let ipv4 = |which| Change::Ipv4(set_ipv4::SetIpv4 { which, value: v32, mask: m32 });
    let ipv6 = |which| Change::Ipv6(set_ipv6::SetIpv6::new(which, value, mask));
    let tos = |shift: u8| Change::Tos(set_tos::SetTos { value: v8 << shift, mask: m8 << shift });
    let port = |which| Change::Port(set_l4::SetPort { which, value: v16, mask: m16 });
    let icmp = |which| Change::Icmp(set_l4::SetIcmp { which, value: v8, mask: m8 });
    let arp = |which| Change::Arp(set_arp::SetArp { which, value: v64, mask: m64 });
    let nd = |which| Change::NdLinkLayer(set_nd::SetLinkLayer { which, value: v64, mask: m64 });
    let tci = |level, shift: u32| {
        Change::Tci(vlan::SetTci { level, value: v16 << shift, mask: m16 << shift })
    };
    let entry =
        |shift: u32| Change::MplsEntry(mpls::SetEntry { value: v32 << shift, mask: m32 << shift });
    let meta = |which| Change::Meta(metadata::SetMeta { which, value: v64, mask: m64 });
    Ok(Some(match field {
        Field::EthDst => mac(set_mac::Which::Dst),
        Field::EthSrc => mac(set_mac::Which::Src),
        Field::VlanTci | Field::VlanVid => tci(vlan::Level::Outer, 0),
        Field::VlanPcp => tci(vlan::Level::Outer, 13),
        Field::InnerTci => tci(vlan::Level::Inner, 0),
        Field::EthType => Change::EtherType(set_type::SetEtherType { value: v16, mask: m16 }),
        Field::IpProto => Change::Proto(set_type::SetProto { value: v8, mask: m8 }),
        Field::Ipv4Src => ipv4(set_ipv4::Which::Src),
        Field::Ipv4Dst => ipv4(set_ipv4::Which::Dst),
        Field::Ipv6Src => ipv6(set_ipv6::Which::Src),
        Field::Ipv6Dst => ipv6(set_ipv6::Which::Dst),
        Field::Ipv6Label => Change::Ipv6Label(set_ipv6::SetLabel { value: v32, mask: m32 }),
        Field::IpTos => tos(0),
        Field::IpDscp => tos(2),
        Field::IpEcn => tos(0),
        Field::IpTtl => Change::Ttl(ttl::SetTtl { value: v8, mask: m8 }),
        Field::TpSrc => port(set_l4::Which::First),
        Field::TpDst => port(set_l4::Which::Second),
        Field::IcmpType => icmp(set_l4::Which::First),
        Field::IcmpCode => icmp(set_l4::Which::Second),
        Field::ArpOp => arp(set_arp::Which::Op),
        Field::ArpSha => arp(set_arp::Which::Sha),
        Field::ArpSpa => arp(set_arp::Which::Spa),
        Field::ArpTha => arp(set_arp::Which::Tha),
        Field::ArpTpa => arp(set_arp::Which::Tpa),
        Field::NdTarget => Change::NdTarget(set_nd::SetTarget::new(value, mask)),
        Field::NdSll => nd(set_nd::Which::Source),
        Field::NdTll => nd(set_nd::Which::Target),
        Field::MplsLabel => entry(12),
        Field::MplsTc => entry(9),
        Field::MplsBos => entry(8),
        Field::MplsTtl => entry(0),
        Field::PbbIsid => Change::PbbService(pbb::SetService { value: v32, mask: m32 }),
        Field::Metadata => meta(metadata::Which::Metadata),
        Field::TunnelId => meta(metadata::Which::TunnelId),
        other => return Err(ActionError::ReadOnly { field: other, why: "it is not on the wire" }),
    }))
}
