//! Pushes, pops and rewrites the service tag of provider backbone bridging (802.1ah; OpenFlow 1.3
//! §5.12): `B-DA B-SA 88e7 I-TAG C-DA C-SA …`.

use super::edit;
use crate::packet::Packet;
use weir_packet::DropReason;

const PBB: u16 = 0x88e7;

/// Where the service tag stands, if there is one.
fn tag(p: &Packet<'_>) -> Option<usize> {
    let l3 = usize::from(p.layers.l3);
    let b = p.frame.bytes();
    (edit::get16(b, l3 - 2)? == PBB && b.len() >= l3 + 4).then_some(l3)
}

/// Pushes a service tag with backbone addresses that are copies of the customer's, priority of the
/// outer VLAN tag, service id of the tag that was there, or zero. VLAN tags go inside.
///
/// # Errors
/// [`DropReason::NoRoom`] without headroom.
pub fn push(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let b = p.frame.bytes();
    let isid = tag(p).and_then(|at| edit::get32(b, at)).unwrap_or(0) & 0xff_ffff;
    let pcp = if p.layers.vlans > 0 { edit::get16(b, 14).unwrap_or(0) >> 13 } else { 0 };
    p.frame.push_front(18).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    if b.len() < 32 {
        return Err(DropReason::Runt);
    }
    b.copy_within(18..30, 0);
    edit::put(b, 12, PBB.to_be_bytes());
    edit::put(b, 14, (u32::from(pcp) << 29 | isid).to_be_bytes());
    p.relayout()
}

/// Pops the service tag with the backbone header in front of it; frames without one pass.
///
/// # Errors
/// [`DropReason::Runt`] when no customer frame is inside.
pub fn pop(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let Some(at) = tag(p) else { return Ok(()) };
    p.frame.pull_front(at + 4).map_err(|_| DropReason::Runt)?;
    p.relayout()
}

/// The service id, 24 bits under a mask.
pub fn set(p: &mut Packet<'_>, value: u32, mask: u32) {
    if let Some(at) = tag(p) {
        edit::masked32(p, at, value, mask & 0xff_ffff);
    }
}
