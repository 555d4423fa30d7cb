//! IPv4 addresses. Touches the address, the header checksum and the checksum of TCP or UDP, whose
//! pseudo-header has the address in it.

use super::bytes::get_mut;
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

/// Bits for one IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIpv4 {
    /// Which address.
    pub which: Which,
    /// Value.
    pub value: u32,
    /// Which bits of it count.
    pub mask: u32,
}

impl SetIpv4 {
    /// Writes the bits into an IPv4 header; another frame is not changed. While a source route
    /// option leads on, transport checksums cover its last address and not the header's
    /// destination (RFC 9293 §3.1 with RFC 1122 §3.2.1.8), so they stay.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        if p.layers.net != Net::Ipv4 {
            return;
        }
        let l3 = usize::from(p.layers.l3);
        let b = p.frame.bytes_mut();
        let options = b.get(l3).is_some_and(|first| first & 15 > 5);
        let Some(h) = get_mut::<20>(b, l3) else { return };
        let at = if self.which == Which::Src { 12 } else { 16 };
        let Some(field) = get_mut::<4>(h, at) else { return };
        let old = u32::from_be_bytes(*field);
        let new = old & !self.mask | self.value & self.mask;
        *field = new.to_be_bytes();
        let delta = Delta::new().u32(old, new);
        let check = delta.apply(u16::from_be_bytes([h[10], h[11]]));
        [h[10], h[11]] = check.to_be_bytes();
        p.stale = Stale::Yes;
        if self.which == Which::Dst
            && options
            && ip_payload(b, p.layers).is_some_and(|i| i.routed == Routed::Underway)
        {
            return;
        }
        mend(b, p.layers, Under::Pseudo, delta);
    }
}
