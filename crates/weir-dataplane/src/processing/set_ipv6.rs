//! IPv6 addresses and flow label. Touches the field, and for addresses the checksum of TCP, UDP or
//! ICMPv6, whose pseudo-header has them in it. IPv6 has no header checksum.

use super::bytes::{be32, get_mut, halves, merge};
use super::locate::{Routed, ip_payload};
use super::transport::{Under, mend};
use crate::packet::{Net, Packet, Stale};
use weir_wire::checksum::Delta;

/// Which of the two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Source.
    Src,
    /// Destination.
    Dst,
}

/// Bits for one IPv6 address, as two 64-bit halves each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIpv6 {
    /// Which address.
    pub which: Which,
    /// Value.
    pub value: [u64; 2],
    /// Which bits of it count.
    pub mask: [u64; 2],
}

impl SetIpv6 {
    /// From numbers of 128 bits.
    pub const fn new(which: Which, value: u128, mask: u128) -> Self {
        Self { which, value: halves(value), mask: halves(mask) }
    }
    /// Writes the bits into an IPv6 header; another frame is not changed. While a routing header
    /// has segments left, transport checksums cover its last address and not the header's
    /// destination (RFC 8200 §8.1), so they stay.
    pub fn apply(&self, p: &mut Packet<'_>) {
        if p.layers.net != Net::Ipv6 {
            return;
        }
        let l3 = usize::from(p.layers.l3);
        let b = p.frame.bytes_mut();
        let at = l3 + if self.which == Which::Src { 8 } else { 24 };
        let Some(old) = write(b, at, self.value, self.mask) else { return };
        let Some(new) = b.get(at..).and_then(|b| b.first_chunk()) else { return };
        p.stale = Stale::Yes;
        let delta = Delta::new().u128(old, u128::from_be_bytes(*new));
        if self.which == Which::Dst
            && !ip_payload(b, p.layers).is_some_and(|i| i.routed == Routed::Final)
        {
            return;
        }
        mend(b, p.layers, Under::Pseudo, delta);
    }
}

/// Writes bits of the 128-bit field at `at`; gives the old value.
pub(super) fn write(b: &mut [u8], at: usize, value: [u64; 2], mask: [u64; 2]) -> Option<u128> {
    let field: &mut [u8; 16] = get_mut(b, at)?;
    let old = u128::from_be_bytes(*field);
    let hi = merge((old >> 64) as u64, value[0], mask[0]);
    let lo = merge(old as u64, value[1], mask[1]);
    *field = (u128::from(hi) << 64 | u128::from(lo)).to_be_bytes();
    Some(old)
}

/// Bits for the flow label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLabel {
    /// Value, 20 bits.
    pub value: u32,
    /// Which bits of it count.
    pub mask: u32,
}

impl SetLabel {
    /// Writes them into an IPv6 header; another frame is not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let l3 = usize::from(p.layers.l3);
        if p.layers.net != Net::Ipv6 {
            return;
        }
        let Some(old) = be32(p.frame.bytes(), l3) else { return };
        if let Some(field) = get_mut::<4>(p.frame.bytes_mut(), l3) {
            let mask = self.mask & 0xf_ffff;
            *field = (old & !mask | self.value & mask).to_be_bytes();
            p.stale = Stale::Yes;
        }
    }
}
