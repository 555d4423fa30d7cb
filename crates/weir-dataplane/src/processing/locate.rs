//! What lies behind an IP header: where, which protocol, which part of the datagram. Touches
//! nothing. Called by modules that need more than [`Layers`] says, never on the common way.

use super::bytes::{be16, get};
use crate::packet::{Layers, Net};

/// Which part of a datagram a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    /// All of it.
    Whole,
    /// The first part.
    First,
    /// A later part.
    Later,
}

/// The payload of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// Its first byte.
    pub at: usize,
    /// The byte behind it, by the IP header's length; never past the frame.
    pub end: usize,
    /// Bytes that the IP header promises and the frame has not.
    pub missing: usize,
    /// The protocol.
    pub proto: u8,
    /// Which part.
    pub fragment: Fragment,
    /// Whether a source route has stops ahead, so that the destination in the IP header is not the
    /// one that transport checksums cover.
    pub routed: Routed,
}

/// Whether the destination address is the final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routed {
    /// It is.
    Final,
    /// A source route leads on.
    Underway,
}

/// The payload of the IP packet at `l.l3`. `None`: no IP, or no end to its headers.
pub(super) fn ip_payload(b: &[u8], l: Layers) -> Option<Payload> {
    let at = usize::from(l.l3);
    match l.net {
        Net::Ipv4 => ipv4(b, at),
        Net::Ipv6 => ipv6(b, at),
        _ => None,
    }
}

fn ipv4(b: &[u8], at: usize) -> Option<Payload> {
    let h: [u8; 20] = get(b, at)?;
    let ihl = usize::from(h[0] & 15) * 4;
    let total = usize::from(be16(&h, 2)?);
    let options = b.get(at + 20..at + ihl)?;
    let start = at + ihl;
    let end = (at + total).min(b.len()).max(start);
    Some(Payload {
        at: start,
        end,
        missing: (at + total).saturating_sub(b.len()),
        proto: h[9],
        fragment: match be16(&h, 6)? {
            f if f & 0x1fff != 0 => Fragment::Later,
            f if f & 0x2000 != 0 => Fragment::First,
            _ => Fragment::Whole,
        },
        routed: source_route(options),
    })
}

/// RFC 791 §3.1: a source route whose pointer is not behind its last address leads on.
fn source_route(mut options: &[u8]) -> Routed {
    while let Some((&kind, rest)) = options.split_first() {
        match (kind, rest) {
            (0, _) => break,
            (1, _) => options = rest,
            (131 | 137, &[len, pointer, ..]) if pointer <= len => return Routed::Underway,
            (_, &[len, ..]) if len >= 2 => {
                options = options.get(usize::from(len)..).unwrap_or_default();
            }
            _ => break,
        }
    }
    Routed::Final
}

fn ipv6(b: &[u8], start: usize) -> Option<Payload> {
    let h: [u8; 40] = get(b, start)?;
    let promised = start + 40 + usize::from(be16(&h, 4)?);
    let end = promised.min(b.len());
    let (mut proto, mut at) = (h[6], start + 40);
    let (mut fragment, mut routed) = (Fragment::Whole, Routed::Final);
    // Each turn moves on by at least 8 bytes, so the walk is bounded by the frame.
    while matches!(proto, 0 | 43 | 44 | 51 | 60) && fragment != Fragment::Later {
        let e: [u8; 8] = get(b.get(..end)?, at)?;
        at += match proto {
            44 => {
                fragment = match be16(&e, 2)? {
                    f if f & 0xfff8 != 0 => Fragment::Later,
                    f if f & 1 != 0 => Fragment::First,
                    // RFC 6946: a fragment that is the whole.
                    _ => fragment,
                };
                8
            }
            51 => (usize::from(e[1]) + 2) * 4,
            _ => (usize::from(e[1]) + 1) * 8,
        };
        // RFC 8200 §8.1: the final destination is in the routing header while segments are left.
        if proto == 43 && e[3] > 0 {
            routed = Routed::Underway;
        }
        proto = e[0];
        if at > end {
            return None;
        }
    }
    let missing = promised.saturating_sub(b.len());
    Some(Payload { at, end: end.max(at), missing, proto, fragment, routed })
}
