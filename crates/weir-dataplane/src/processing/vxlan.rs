//! Wraps frames in VXLAN and unwraps them (RFC 7348).

use super::edit;
use crate::action::{Outer, TunnelAddrs};
use crate::packet::{Net, Packet};
use weir_classify::Field;
use weir_packet::DropReason;
use weir_wire::ip::Protocol;

/// UDP and VXLAN header.
const UDP: usize = 8;
const VXLAN: usize = 8;

/// The source port says which inner flow it is, so that networks can spread flows (RFC 7348 §5):
/// from the range 49152 to 65535.
fn entropy(p: &Packet<'_>) -> u16 {
    let k = &p.key.0;
    let mix = k[1] ^ k[2].rotate_left(17) ^ k[3] ^ (k[4] >> 20).rotate_left(7) ^ k[9] ^ k[11];
    let h = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0xc000 | (h >> 50) as u16
}

/// Wraps. The UDP checksum is zero over IPv4, as RFC 7348 asks for; over IPv6 it is computed, so
/// that no receiver has to be set up for RFC 6935's exception.
///
/// # Errors
/// [`DropReason::NoRoom`] without headroom, or when the result would exceed 64 KiB.
pub fn encap(p: &mut Packet<'_>, outer: &Outer, vni: u32, port: u16) -> Result<(), DropReason> {
    p.refresh()?;
    let source = entropy(p);
    let front = outer.len() + UDP + VXLAN;
    if p.frame.len() + front > usize::from(u16::MAX) {
        return Err(DropReason::NoRoom);
    }
    p.frame.push_front(front).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    let at = outer.len();
    let len = (b.len() - at) as u16;
    edit::put(b, at, source.to_be_bytes());
    edit::put(b, at + 2, port.to_be_bytes());
    edit::put(b, at + 4, len.to_be_bytes());
    edit::put(b, at + 6, [0, 0]);
    edit::put(b, at + 8, [0x08, 0, 0, 0]);
    edit::put(b, at + 12, (vni << 8).to_be_bytes());
    outer.emit(b, 17);
    if let (TunnelAddrs::V6(..), Some(udp)) = (outer.ip, b.get(at..)) {
        let sum = outer.pseudo_header().sum(Protocol::Udp, udp.len()).bytes(udp).checksum();
        let sum = if sum == 0 { 0xffff } else { sum };
        edit::put(b, at + 6, sum.to_be_bytes());
    }
    p.relayout()
}

/// Unwraps. The VNI becomes the frame's tunnel id. What is not VXLAN passes unchanged.
///
/// # Errors
/// [`DropReason::Malformed`] when the I flag is not set (RFC 7348 §5) or no frame is inside.
pub fn decap(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let at = usize::from(p.layers.l4);
    let is_udp = p.layers.proto == 17 && at != 0;
    if !is_udp || !matches!(p.layers.net, Net::Ipv4 | Net::Ipv6) || edit::is_fragment(p) {
        return Ok(());
    }
    let b = p.frame.bytes();
    let (Some(flags), Some(word)) = (b.get(at + UDP), edit::get32(b, at + 12)) else {
        return Err(DropReason::Malformed);
    };
    let end = super::set_l4::ip_end(p).ok_or(DropReason::Malformed)?;
    if flags & 0x08 == 0 || end < at + UDP + VXLAN + 14 {
        return Err(DropReason::Malformed);
    }
    // Padding of the outer frame is not the inner frame's.
    p.frame.set_len(end).map_err(|_| DropReason::Malformed)?;
    p.frame.pull_front(at + UDP + VXLAN).map_err(|_| DropReason::Malformed)?;
    p.relayout()?;
    p.key.set(Field::TunnelId, u128::from(word >> 8));
    Ok(())
}
