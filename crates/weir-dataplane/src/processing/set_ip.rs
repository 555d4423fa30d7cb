//! Sets IPv4 and IPv6 addresses and the IPv6 flow label; header and transport checksums follow.

use super::edit;
use crate::packet::{Net, Packet};
use weir_wire::ip::Protocol;
use weir_wire::ipv6_ext;

/// The IPv4 address at `offset` of its header.
pub fn v4(p: &mut Packet<'_>, offset: usize, value: u32, mask: u32) {
    if p.layers.net != Net::Ipv4 {
        return;
    }
    let at = usize::from(p.layers.l3) + offset;
    if let Some(d) = edit::masked32(p, at, value, mask) {
        edit::fix_ip(p, d);
        edit::fix_l4_addresses(p, d);
    }
}

/// Which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// An IPv6 address.
pub fn v6(p: &mut Packet<'_>, end: End, value: u128, mask: u128) {
    if p.layers.net != Net::Ipv6 {
        return;
    }
    let l3 = usize::from(p.layers.l3);
    let (at, covered) = match end {
        End::Source => (l3 + 8, true),
        // With segments left the transport checksum covers the routing header's last address, not
        // this one (RFC 8200, §8.1).
        End::Destination => (l3 + 24, !routed(p)),
    };
    if let Some(d) = edit::masked128(p, at, value, mask)
        && covered
    {
        edit::fix_l4_addresses(p, d);
    }
}

/// Whether a routing header has segments left.
fn routed(p: &Packet<'_>) -> bool {
    let (b, l3) = (p.frame.bytes(), usize::from(p.layers.l3));
    let (Some(&next), Some(rest)) = (b.get(l3 + 6), b.get(l3 + 40..)) else { return false };
    ipv6_ext::walk(Protocol::from(next), rest).is_ok_and(|w| w.segments_left > 0)
}

/// The IPv6 flow label: value and mask in 20 bits.
pub fn flow_label(p: &mut Packet<'_>, value: u32, mask: u32) {
    if p.layers.net == Net::Ipv6 {
        let at = usize::from(p.layers.l3);
        edit::masked32(p, at, value, mask & 0xf_ffff);
    }
}
