//! Where a frame's transport checksum lies, and its mending after a change under it. Touches the
//! checksum field. Called by the modules that change IP addresses, ports, ICMP and neighbour
//! discovery.
//!
//! A later fragment has no transport header ([`Layers::l4`] is zero) and is left alone; the first
//! fragment has the checksum of the whole datagram, which a difference mends like any other.
//! Covered: TCP, UDP, ICMP, ICMPv6 by difference (RFC 1624). SCTP's CRC32c has no pseudo-header
//! and no such difference: `set_l4.rs`.

use super::bytes::get_mut;
use crate::packet::{Layers, Net};
use weir_wire::checksum::Delta;

/// Distance of the checksum from the transport header's first byte.
const TCP: usize = 16;
const UDP: usize = 6;
const ICMP: usize = 2;

/// What a change lies under.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// The transport header or its payload.
    Transport,
    /// The addresses of the pseudo-header.
    Pseudo,
}

/// Mends the transport checksum of the frame `b`, if it has one that covers the change.
#[inline]
pub(super) fn mend(b: &mut [u8], l: Layers, under: Under, delta: Delta) {
    if l.l4 == 0 {
        return;
    }
    let (at, udp) = match (l.proto, l.net) {
        (6, _) => (TCP, false),
        (17, _) => (UDP, true),
        (58, Net::Ipv6) => (ICMP, false),
        (1, _) if under == Under::Transport => (ICMP, false),
        _ => return,
    };
    let Some(field) = get_mut::<2>(b, usize::from(l.l4) + at) else { return };
    let old = u16::from_be_bytes(*field);
    let new = if udp { delta.apply_udp(old) } else { delta.apply(old) };
    *field = new.to_be_bytes();
}
