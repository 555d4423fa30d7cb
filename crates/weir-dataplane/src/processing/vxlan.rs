//! VXLAN (RFC 7348): encapsulation and decapsulation. Touches everything in front of the inner
//! frame, and cuts padding behind it.
//!
//! The UDP source port is 49152 to 65535 by a hash of the inner frame's flow (§5), so that ECMP
//! spreads flows and keeps each together. Over IPv4 the UDP checksum is zero, as §5 recommends;
//! over IPv6 it is computed, because RFC 6935 §5 has receivers refuse zero unless they are told
//! otherwise for the port. Decapsulation takes any UDP port (the rule said which) and does not
//! verify the UDP checksum, as §5 leaves open: the inner frame has its own.

use super::bytes::{get, get_mut};
use super::flow_hash::flow_hash;
use super::{ecn, outer};
use crate::action::Outer;
use crate::packet::Packet;
use weir_classify::Field;
use weir_packet::DropReason;
use weir_wire::{EtherType, IpProtocol};

const UDP: u8 = 17;
/// UDP header and VXLAN header.
const HEADERS: usize = 16;
/// The I flag: the VNI is valid.
const VALID_VNI: u8 = 0x08;

/// What an encapsulation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    /// Outer headers.
    pub outer: Outer,
    /// VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// UDP destination port.
    pub port: u16,
}

impl Encap {
    /// Wraps the frame.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`]; the frame is as it was.
    pub fn apply(&self, p: &mut Packet<'_>) -> Result<(), DropReason> {
        p.refresh()?;
        let source = 0xc000 | flow_hash(p.key) as u16;
        let inner = p.frame.len();
        outer::push(&self.outer, UDP, HEADERS, p)?;
        let at = outer::len(&self.outer);
        let b = p.frame.bytes_mut();
        let Some(h) = get_mut::<HEADERS>(b, at) else { return Err(DropReason::Runt) };
        // The outer IP length fitted, so this does.
        let [l0, l1] = ((inner + HEADERS) as u16).to_be_bytes();
        let ([s0, s1], [d0, d1]) = (source.to_be_bytes(), self.port.to_be_bytes());
        let [_, v0, v1, v2] = self.vni.to_be_bytes();
        *h = [s0, s1, d0, d1, l0, l1, 0, 0, VALID_VNI, 0, 0, 0, v0, v1, v2, 0];
        if matches!(self.outer.ip, crate::action::TunnelAddrs::V6(..)) {
            let datagram = b.get(at..).unwrap_or_default();
            let sum = outer::pseudo(&self.outer).sum(IpProtocol::Udp, datagram.len());
            let check = match sum.bytes(datagram).checksum() {
                0 => 0xffff,
                sum => sum,
            };
            if let Some(field) = get_mut(b, at + 6) {
                *field = check.to_be_bytes();
            }
        }
        p.relayout()
    }
}

/// Unwraps a frame; the VNI becomes its tunnel id, and congestion that the outer header marks is
/// marked inside.
///
/// # Errors
/// [`DropReason::NoSuchHeader`] when it is not UDP over IP, [`DropReason::Fragment`] when it is a
/// fragment, [`DropReason::Malformed`] when lengths disagree, the VNI is not marked valid, or the
/// inner frame is no whole Ethernet header, [`DropReason::Congestion`] when the packet inside can't
/// be marked. The frame is as it was.
pub fn decap(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let ip = outer::payload(p, UDP)?;
    let b = p.frame.bytes();
    let udp = b.get(ip.at..ip.end).ok_or(DropReason::Malformed)?;
    let h: [u8; HEADERS] = get(udp, 0).ok_or(DropReason::Malformed)?;
    let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let inner = len.checked_sub(HEADERS).ok_or(DropReason::Malformed)?;
    if len > udp.len() || inner < 14 || h[8] & VALID_VNI == 0 {
        return Err(DropReason::Malformed);
    }
    let vni = u32::from_be_bytes([0, h[12], h[13], h[14]]);
    let at = ip.at + HEADERS;
    ecn::carry_in(p, EtherType::TransparentEthernet, at..at + inner)?;
    p.frame.pull_front(at).map_err(|_| DropReason::Malformed)?;
    p.frame.set_len(inner).map_err(|_| DropReason::Malformed)?;
    p.key.set(Field::TunnelId, vni.into());
    p.relayout()
}
