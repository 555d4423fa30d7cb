//! Ethernet addresses: one under a mask, or both at once (004's change-MAC bit). Touches the first
//! twelve bytes.

use super::bytes::{get_mut, merge_mac};
use crate::packet::{Packet, Stale};

/// Which of the two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Destination.
    Dst,
    /// Source.
    Src,
}

/// Bits for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMac {
    /// Which address.
    pub which: Which,
    /// Value, the low 48 bits.
    pub value: u64,
    /// Which bits of it count.
    pub mask: u64,
}

impl SetMac {
    /// Writes the bits.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        let at = if self.which == Which::Dst { 0 } else { 6 };
        if merge_mac(p.frame.bytes_mut(), at, self.value, self.mask).is_some() {
            p.stale = Stale::Yes;
        }
    }
    /// The six bytes, if the whole address is written.
    pub fn whole(&self) -> Option<[u8; 6]> {
        let [_, _, mac @ ..] = self.value.to_be_bytes();
        (self.mask == 0xffff_ffff_ffff).then_some(mac)
    }
}

/// Writes both addresses, destination first.
#[inline(always)]
pub fn both(macs: &[u8; 12], p: &mut Packet<'_>) {
    if let Some(h) = get_mut::<12>(p.frame.bytes_mut(), 0) {
        *h = *macs;
        p.stale = Stale::Yes;
    }
}
