//! VLAN tags: push, pop, and the fields of the outer and the inner one (802.1Q, 802.1ad). Touches
//! the tags; whatever lies behind them keeps its bytes.
//!
//! A tag is pushed behind the addresses, as the outermost (OpenFlow 1.3 §5.12). VLAN id and
//! priority are copied from the tag that was outermost, and zero without one; DEI is zero. Setting
//! fields leaves DEI as it is: the flow key has its present bit there.

use super::bytes::{be16, get, get_mut};
use crate::packet::{Packet, Stale};
use weir_packet::DropReason;

/// Bytes of both Ethernet addresses.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;
/// DEI, which is not copied and not set.
const DEI: u16 = 0x1000;

/// Pushes a tag with this TPID.
///
/// # Errors
/// [`DropReason::NoRoom`]; the frame is as it was.
#[inline]
pub fn push(tpid: u16, p: &mut Packet<'_>) -> Result<(), DropReason> {
    let b = p.frame.bytes();
    let outer = if p.layers.vlans > 0 { be16(b, ADDRESSES + 2) } else { None };
    let Some(addresses) = get::<ADDRESSES>(b, 0) else { return Err(DropReason::Runt) };
    p.frame.push_front(TAG).map_err(|_| DropReason::NoRoom)?;
    let Some(h) = get_mut::<16>(p.frame.bytes_mut(), 0) else { return Err(DropReason::Runt) };
    let [t0, t1] = tpid.to_be_bytes();
    let [c0, c1] = (outer.unwrap_or(0) & !DEI).to_be_bytes();
    let [at @ .., h12, h13, h14, h15] = h;
    *at = addresses;
    [*h12, *h13, *h14, *h15] = [t0, t1, c0, c1];
    if p.layers.vlans >= 2 {
        // The second of three tags hides the rest from the key.
        return p.relayout();
    }
    p.layers.vlans += 1;
    p.layers.l3 += TAG as u16;
    if p.layers.l4 > 0 {
        p.layers.l4 += TAG as u16;
    }
    p.stale = Stale::Yes;
    Ok(())
}

/// Pops the outermost tag; a frame without one is not changed.
///
/// # Errors
/// [`DropReason::Runt`].
#[inline]
pub fn pop(p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.vlans == 0 {
        return Ok(());
    }
    let Some(addresses) = get::<ADDRESSES>(p.frame.bytes(), 0) else {
        return Err(DropReason::Runt);
    };
    p.frame.pull_front(TAG).map_err(|_| DropReason::Runt)?;
    if let Some(at) = get_mut(p.frame.bytes_mut(), 0) {
        *at = addresses;
    }
    if p.layers.vlans >= 2 {
        // A third tag comes into sight.
        return p.relayout();
    }
    p.layers.vlans = 0;
    p.layers.l3 -= TAG as u16;
    p.layers.l4 = p.layers.l4.saturating_sub(TAG as u16);
    p.stale = Stale::Yes;
    Ok(())
}

/// Which tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The outermost.
    Outer,
    /// The one behind it.
    Inner,
}

/// Bits for a tag's VLAN id and priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTci {
    /// Which tag.
    pub level: Level,
    /// Value, as on the wire.
    pub value: u16,
    /// Which bits of it count; never DEI.
    pub mask: u16,
}

impl SetTci {
    /// Bits of the outer tag.
    pub(super) const fn outer(value: u16, mask: u16) -> Self {
        Self { level: Level::Outer, value, mask }
    }
    /// Writes them into the outer tag, into a new one of TPID 0x8100 where there is none.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`]; the frame is as it was.
    pub fn apply_or_add(&self, p: &mut Packet<'_>) -> Result<(), DropReason> {
        if p.layers.vlans == 0 {
            push(0x8100, p)?;
        }
        self.apply(p);
        Ok(())
    }
    /// Writes them into the tag; a frame without it is not changed.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        let (need, at) = match self.level {
            Level::Outer => (1, ADDRESSES + 2),
            Level::Inner => (2, ADDRESSES + TAG + 2),
        };
        if p.layers.vlans < need {
            return;
        }
        if let Some(tci) = get_mut::<2>(p.frame.bytes_mut(), at) {
            let mask = self.mask & !DEI;
            *tci = (u16::from_be_bytes(*tci) & !mask | self.value & mask).to_be_bytes();
            p.stale = Stale::Yes;
        }
    }
}
