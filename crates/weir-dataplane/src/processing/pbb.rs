//! Provider backbone bridging (802.1ah): push and pop the service tag, set its service id. Touches
//! the backbone addresses and the tag.
//!
//! ```text
//! B-DA B-SA [B-TAG] 88e7 | PCP DEI UCA res I-SID | C-DA C-SA …
//!   6    6     4      2  |      1 byte       3   |   6    6
//! ```
//! A push puts 18 bytes in front, so the frame's own addresses become the customer's and are copied
//! to the backbone's; the service id is copied from a service tag that was outermost, the priority
//! from a VLAN tag (OpenFlow 1.3 §5.12). A pop leaves backbone VLAN tags, as the text has it.

use super::bytes::{be16, be32, get, get_mut};
use crate::packet::{Packet, Stale};
use weir_packet::DropReason;

/// EtherType of the service tag.
pub const ETHERTYPE: u16 = 0x88e7;
/// EtherType, tag and customer addresses.
const HEADER: usize = 18;

/// Pushes a service tag.
///
/// # Errors
/// [`DropReason::NoRoom`]; the frame is as it was.
pub fn push(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let b = p.frame.bytes();
    let addresses: [u8; 12] = get(b, 0).ok_or(DropReason::Runt)?;
    let priority = if p.layers.vlans > 0 { be16(b, 14).unwrap_or(0) >> 13 } else { 0 };
    let service = tag(p).and_then(|at| be32(b, at)).unwrap_or(0) & 0xff_ffff;
    p.frame.push_front(HEADER).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    if let Some(a) = get_mut(b, 0) {
        *a = addresses;
    }
    if let Some(t) = get_mut(b, 12) {
        *t = ETHERTYPE.to_be_bytes();
    }
    if let Some(t) = get_mut(b, 14) {
        *t = (u32::from(priority) << 29 | service).to_be_bytes();
    }
    p.relayout()
}

/// Pops the service tag; a frame without one is not changed.
///
/// # Errors
/// [`DropReason::Malformed`] when the customer addresses are cut off; the frame is as it was.
pub fn pop(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let Some(tag) = tag(p) else { return Ok(()) };
    let b = p.frame.bytes_mut();
    let customer: [u8; 12] = get(b, tag + 4).ok_or(DropReason::Malformed)?;
    // The customer's EtherType must be there too, or nothing is left to call a frame.
    if b.len() < tag + HEADER {
        return Err(DropReason::Malformed);
    }
    // Backbone VLAN tags move up to the customer's EtherType.
    b.copy_within(12..tag - 2, 12 + HEADER);
    p.frame.pull_front(HEADER).map_err(|_| DropReason::Malformed)?;
    if let Some(a) = get_mut(p.frame.bytes_mut(), 0) {
        *a = customer;
    }
    p.relayout()
}

/// Bits for the service id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetService {
    /// Value, 24 bits.
    pub value: u32,
    /// Which bits of it count.
    pub mask: u32,
}

impl SetService {
    /// Writes them; a frame without service tag is not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let Some(at) = tag(p) else { return };
        let mask = self.mask & 0xff_ffff;
        if let Some(t) = get_mut::<4>(p.frame.bytes_mut(), at) {
            *t = (u32::from_be_bytes(*t) & !mask | self.value & mask).to_be_bytes();
            p.stale = Stale::Yes;
        }
    }
}

/// First byte of the service tag behind its EtherType, if it is whole.
fn tag(p: &Packet<'_>) -> Option<usize> {
    let at = 14 + usize::from(p.layers.vlans) * 4;
    let b = p.frame.bytes();
    be32(b, at)?;
    (usize::from(p.layers.l3) == at && be16(b, at - 2)? == ETHERTYPE).then_some(at)
}
