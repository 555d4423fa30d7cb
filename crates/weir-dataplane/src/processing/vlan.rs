//! Pushes, pops and rewrites VLAN tags, two levels (802.1Q, 802.1ad; OpenFlow 1.3 §5.12).

use super::edit;
use crate::packet::Packet;
use weir_packet::DropReason;

/// Which tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The first behind the addresses.
    Outer,
    /// The second.
    Inner,
}

/// Bits of a tag's TCI; a frame without that tag passes unchanged.
#[inline]
pub fn set(p: &mut Packet<'_>, level: Level, value: u16, mask: u16) {
    let (tags, at) = match level {
        Level::Outer => (1, 14),
        Level::Inner => (2, 18),
    };
    if p.layers.vlans >= tags {
        edit::masked16(p, at, value, mask);
    }
}

/// Pushes a tag in front of the others. Its id and priority are those of the tag that was the
/// outer one, or zero (OpenFlow 1.3, table 6).
///
/// # Errors
/// [`DropReason::NoRoom`] without headroom.
pub fn push(p: &mut Packet<'_>, tpid: u16) -> Result<(), DropReason> {
    let tci = if p.layers.vlans > 0 { edit::get16(p.frame.bytes(), 14).unwrap_or(0) } else { 0 };
    p.frame.push_front(4).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    if b.len() < 18 {
        return Err(DropReason::Runt);
    }
    b.copy_within(4..16, 0);
    edit::put(b, 12, tpid.to_be_bytes());
    edit::put(b, 14, tci.to_be_bytes());
    p.relayout()
}

/// Pops the outer tag; a frame without one passes unchanged.
///
/// # Errors
/// [`DropReason::Runt`] when nothing of the frame is left behind the tag.
pub fn pop(p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.vlans == 0 {
        return Ok(());
    }
    p.frame.bytes_mut().copy_within(0..12, 4);
    p.frame.pull_front(4).map_err(|_| DropReason::Runt)?;
    p.relayout()
}
