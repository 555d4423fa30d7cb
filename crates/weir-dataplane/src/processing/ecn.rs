//! Explicit congestion notification where a tunnel ends: what routers on its way marked in the outer
//! header goes on in the inner one (RFC 6040 §4.2). Touches the inner ToS byte or traffic class, and
//! an IPv4 header's checksum. Called by `gre.rs` and `vxlan.rs` while the outer headers are there.
//!
//! Where a tunnel begins, the outer field is what the rule says: Not-ECT unless it says otherwise,
//! which is RFC 6040 §4.1's compatibility mode.

use super::bytes::get;
use super::set_tos::rewrite;
use crate::packet::{Net, Packet, extract};
use std::ops::Range;
use weir_classify::FlowKey;
use weir_packet::DropReason;
use weir_wire::EtherType;

const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

/// The inner ToS byte or traffic class behind a tunnel, by the outer and the inner one that arrive:
/// RFC 6040 §4.2, figure 4.
///
/// # Errors
/// [`DropReason::Congestion`]: congestion is marked, and the sender inside would not understand it.
#[inline(always)]
pub(crate) const fn decapsulated(outer: u8, inner: u8) -> Result<u8, DropReason> {
    match (outer & 3, inner & 3) {
        (CE, NOT_ECT) => Err(DropReason::Congestion),
        (CE, _) => Ok(inner | CE),
        (ECT_1, ECT_0) => Ok(inner ^ ECT_0 ^ ECT_1),
        _ => Ok(inner),
    }
}

/// Carries the mark of the outer header, which the frame still has, on to the packet of kind
/// `protocol` at `inner`.
///
/// # Errors
/// [`DropReason::Congestion`]; the frame is as it was.
#[inline(always)]
pub(super) fn carry_in(
    p: &mut Packet<'_>,
    protocol: EtherType,
    inner: Range<usize>,
) -> Result<(), DropReason> {
    let outer = tos(p.frame.bytes(), usize::from(p.layers.l3), p.layers.net).unwrap_or(NOT_ECT);
    match outer & 3 {
        // As most are. Neither changes anything, whatever is inside.
        NOT_ECT | ECT_0 => Ok(()),
        _ => marked(outer, p, protocol, inner),
    }
}

#[inline(never)]
fn marked(
    outer: u8,
    p: &mut Packet<'_>,
    protocol: EtherType,
    inner: Range<usize>,
) -> Result<(), DropReason> {
    let b = p.frame.bytes_mut().get_mut(inner).unwrap_or_default();
    let (at, net) = match protocol {
        EtherType::TransparentEthernet => {
            let layers = extract(b, 0, &mut FlowKey::default())?;
            (usize::from(layers.l3), layers.net)
        }
        EtherType::Ipv4 => (0, Net::Ipv4),
        EtherType::Ipv6 => (0, Net::Ipv6),
        _ => (0, Net::Other),
    };
    // What is no IP packet has no such field.
    let Some(old) = tos(b, at, net) else { return Ok(()) };
    let new = decapsulated(outer, old)?;
    if new != old {
        rewrite(b, at, net, |_| new);
    }
    Ok(())
}

/// ToS byte or traffic class of an IP packet whose header is all there.
#[inline(always)]
fn tos(b: &[u8], at: usize, net: Net) -> Option<u8> {
    match net {
        Net::Ipv4 => get::<20>(b, at).filter(|h| h[0] >> 4 == 4).map(|h| h[1]),
        Net::Ipv6 => get::<40>(b, at).filter(|h| h[0] >> 4 == 6).map(|h| h[0] << 4 | h[1] >> 4),
        _ => None,
    }
}
