//! Reading and writing numbers in a frame, and the checksums that cover them.
//!
//! Called by the function modules. Offsets outside the frame read as `None` and write nothing.

use crate::packet::{Layers, Net, Packet, Stale};
use weir_classify::Field;
use weir_wire::checksum::Delta;

/// The 16-bit number at `at`.
#[inline(always)]
pub fn get16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}
/// The 32-bit number at `at`.
#[inline(always)]
pub fn get32(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*b.get(at..)?.first_chunk()?))
}
/// The 128-bit number at `at`.
#[inline]
pub fn get128(b: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_be_bytes(*b.get(at..)?.first_chunk()?))
}
/// Writes `new` at `at`, where it fits.
#[inline(always)]
pub fn put<const N: usize>(b: &mut [u8], at: usize, new: [u8; N]) {
    if let Some(d) = b.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
        *d = new;
    }
}

/// Where the transport checksum stands, if the transport header is there and has an Internet
/// checksum (SCTP's is a CRC: `set_l4`).
#[inline]
fn l4_checksum(l: &Layers) -> Option<usize> {
    let at = usize::from(l.l4);
    (at != 0).then_some(())?;
    match l.proto {
        6 => Some(at + 16),
        17 => Some(at + 6),
        1 | 58 => Some(at + 2),
        _ => None,
    }
}

/// Whether the transport checksum covers the IP addresses.
#[inline]
fn covers_addresses(l: &Layers) -> bool {
    matches!((l.net, l.proto), (Net::Ipv4 | Net::Ipv6, 6 | 17) | (Net::Ipv6, 58))
}

/// Brings the IPv4 header checksum up to date.
#[inline(always)]
pub fn fix_ip(p: &mut Packet<'_>, d: Delta) {
    if p.layers.net == Net::Ipv4 {
        let at = usize::from(p.layers.l3) + 10;
        let b = p.frame.bytes_mut();
        if let Some(old) = get16(b, at) {
            put(b, at, d.apply(old).to_be_bytes());
        }
    }
}

/// Brings the transport checksum up to date after its own bytes changed.
#[inline]
pub fn fix_l4(p: &mut Packet<'_>, d: Delta) {
    let Some(at) = l4_checksum(&p.layers) else { return };
    let udp = p.layers.proto == 17;
    let b = p.frame.bytes_mut();
    if let Some(old) = get16(b, at) {
        // UDP without a checksum stays without.
        let new = if udp { d.apply_udp(old) } else { d.apply(old) };
        put(b, at, new.to_be_bytes());
    }
}

/// Brings the transport checksum up to date after an IP address changed.
#[inline]
pub fn fix_l4_addresses(p: &mut Packet<'_>, d: Delta) {
    if covers_addresses(&p.layers) {
        fix_l4(p, d);
    }
}

/// Replaces the 16 bits at `at` under a mask; the difference for the checksums that cover them.
#[inline]
pub fn masked16(p: &mut Packet<'_>, at: usize, value: u16, mask: u16) -> Option<Delta> {
    let b = p.frame.bytes_mut();
    let old = get16(b, at)?;
    let new = old & !mask | value & mask;
    put(b, at, new.to_be_bytes());
    p.stale = Stale::Yes;
    Some(Delta::new().u16(old, new))
}
/// Replaces the 32 bits at `at` under a mask.
#[inline]
pub fn masked32(p: &mut Packet<'_>, at: usize, value: u32, mask: u32) -> Option<Delta> {
    let b = p.frame.bytes_mut();
    let old = get32(b, at)?;
    let new = old & !mask | value & mask;
    put(b, at, new.to_be_bytes());
    p.stale = Stale::Yes;
    Some(Delta::new().u32(old, new))
}
/// Replaces the 128 bits at `at` under a mask.
#[inline]
pub fn masked128(p: &mut Packet<'_>, at: usize, value: u128, mask: u128) -> Option<Delta> {
    let b = p.frame.bytes_mut();
    let old = get128(b, at)?;
    let new = old & !mask | value & mask;
    put(b, at, new.to_be_bytes());
    p.stale = Stale::Yes;
    Some(Delta::new().u128(old, new))
}
/// Replaces the 48 bits at `at` under a mask. `at` is even within whatever checksum covers it.
#[inline]
pub fn masked48(p: &mut Packet<'_>, at: usize, value: u64, mask: u64) -> Option<Delta> {
    let b = p.frame.bytes();
    let (hi, lo) = (get16(b, at)?, get32(b, at + 2)?);
    let high = masked16(p, at, (value >> 32) as u16, (mask >> 32) as u16)?;
    // One sum for both parts: the second goes on where the first ended.
    let low_new = lo & !(mask as u32) | value as u32 & mask as u32;
    masked32(p, at + 2, value as u32, mask as u32)?;
    let high_new = get16(p.frame.bytes(), at)?;
    let _ = high;
    Some(Delta::new().u16(hi, high_new).u32(lo, low_new))
}

/// The protocol of the frame's network header as the key knows it.
pub fn is_fragment(p: &Packet<'_>) -> bool {
    p.key.get(Field::IpFrag) != 0
}
