//! Sets the destination or source MAC address (001's table 2, 004's change-MAC bit).

use super::edit;
use crate::packet::Packet;

/// Destination: value and mask, right-aligned in 48 bits.
#[inline]
pub fn destination(p: &mut Packet<'_>, value: u64, mask: u64) {
    edit::masked48(p, 0, value, mask);
}

/// Source: value and mask, right-aligned in 48 bits.
#[inline]
pub fn source(p: &mut Packet<'_>, value: u64, mask: u64) {
    edit::masked48(p, 6, value, mask);
}
