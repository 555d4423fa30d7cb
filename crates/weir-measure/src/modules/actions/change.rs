//! The modifications: as the switch is told them, and as a frame must look after each.
//!
//! Pure. Called by the module when it makes rules, and when a frame came.

use crate::probe::Headers;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_openflow::model::{Action, Field};
use weir_wire::{Ipv4Packet, MacAddr, VlanRepr};

/// One modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Mac,
    Ip,
    Tos,
    L4Port,
    VlanPcp,
    VlanId,
    VlanStrip,
    Ttl,
    VlanPush,
    MplsPush,
}

const NEW_MAC: MacAddr = MacAddr([2, 0xac, 0x71, 0x0e, 0x5, 0x1]);
const NEW_IP: Ipv4Addr = Ipv4Addr::new(198, 19, 77, 7);
const NEW_PORT: u16 = 4711;
const NEW_DSCP: u8 = 10;
const NEW_PCP: u8 = 5;
const NEW_VID: u16 = 200;
/// The tag of probes that have one.
pub(super) const OLD_VID: u16 = 100;
/// OFPVID_PRESENT.
pub(super) const PRESENT: u16 = 0x1000;

impl Change {
    /// As table 2 of 001 has them, then those of 1.3.
    pub(super) const ALL: [(&'static str, Change); 10] = [
        ("MAC addr.", Change::Mac),
        ("IP addr.", Change::Ip),
        ("IP ToS", Change::Tos),
        ("L4 port", Change::L4Port),
        ("VLAN pcp", Change::VlanPcp),
        ("VLAN id", Change::VlanId),
        ("VLAN rem.", Change::VlanStrip),
        ("TTL decr.", Change::Ttl),
        ("VLAN push", Change::VlanPush),
        ("MPLS push", Change::MplsPush),
    ];

    pub(super) fn needs_13(self) -> bool {
        matches!(self, Self::Ttl | Self::VlanPush | Self::MplsPush)
    }

    pub(super) fn needs_tag(self) -> bool {
        matches!(self, Self::VlanPcp | Self::VlanId | Self::VlanStrip)
    }

    pub(super) fn actions(self, is_13: bool) -> Vec<Action> {
        let mac = NEW_MAC.0.iter().fold(0, |n, b| n << 8 | u128::from(*b));
        let vid = Action::SetField(Field::VlanVid, u128::from(PRESENT | NEW_VID));
        vec![match (self, is_13) {
            (Self::Mac, _) => Action::SetField(Field::EthDst, mac),
            (Self::Ip, _) => Action::SetField(Field::Ipv4Dst, u128::from(NEW_IP.to_bits())),
            (Self::Tos, true) => Action::SetField(Field::IpDscp, NEW_DSCP.into()),
            (Self::Tos, false) => Action::SetNwTos(NEW_DSCP << 2),
            (Self::L4Port, true) => Action::SetField(Field::UdpDst, NEW_PORT.into()),
            (Self::L4Port, false) => Action::SetTpDst(NEW_PORT),
            (Self::VlanPcp, true) => Action::SetField(Field::VlanPcp, NEW_PCP.into()),
            (Self::VlanPcp, false) => Action::SetVlanPcp(NEW_PCP),
            (Self::VlanId, true) => vid,
            (Self::VlanId, false) => Action::SetVlanVid(NEW_VID),
            (Self::VlanStrip, _) => Action::PopVlan,
            (Self::Ttl, _) => Action::DecNwTtl,
            (Self::VlanPush, _) => return vec![Action::PushVlan(0x8100), vid],
            (Self::MplsPush, _) => Action::PushMpls(0x8847),
        }]
    }

    /// The headers after it, as far as headers say it.
    pub(super) fn apply(self, h: &mut Headers) {
        match self {
            Self::Mac => h.dst_mac = NEW_MAC,
            Self::Ip => h.dst = SocketAddrV4::new(NEW_IP, h.dst.port()),
            Self::L4Port => h.dst.set_port(NEW_PORT),
            Self::VlanPcp => h.vlan = h.vlan.map(|v| VlanRepr { pcp: NEW_PCP, ..v }),
            Self::VlanId => h.vlan = h.vlan.map(|v| VlanRepr { vid: NEW_VID, ..v }),
            Self::VlanStrip => h.vlan = None,
            Self::Ttl => h.ttl = h.ttl.saturating_sub(1),
            Self::VlanPush => h.vlan = Some(VlanRepr::dot1q(NEW_VID)),
            Self::Tos | Self::MplsPush => {}
        }
    }

    /// What headers do not say, done to the frame.
    pub(super) fn finish(self, frame: &mut Vec<u8>, tagged: bool) {
        let ip_at = if tagged { 18 } else { 14 };
        match self {
            Self::Tos => {
                if let Some(bytes) = frame.get_mut(ip_at..) {
                    let mut ip = Ipv4Packet::new_unchecked(bytes);
                    ip.set_dscp(NEW_DSCP);
                    ip.fill_checksum();
                }
            }
            Self::MplsPush => {
                // Label and traffic class 0, bottom of the stack, the TTL of IP (1.3 §5.12.1).
                let ttl = frame.get(ip_at + 8).copied().unwrap_or(0);
                if let Some(kind) = frame.get_mut(ip_at - 2..ip_at) {
                    kind.copy_from_slice(&[0x88, 0x47]);
                }
                frame.splice(ip_at..ip_at, [0, 0, 1, ttl]);
            }
            _ => {}
        }
    }
}
