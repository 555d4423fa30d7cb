//! TTL and hop limit: decrement, set, copy inwards and outwards (OpenFlow 1.3, §5.12). Touches the
//! TTL and, for IPv4, the header checksum.
//!
//! Copies go between the outermost header with a TTL and the next one: MPLS to MPLS, MPLS to IP
//! (the first nibble under the bottom label says which, as RFC 4928 §3 describes), IP in IP.
//! A frame without two such headers is not changed.

use super::bytes::{be32, get, get_mut};
use super::locate;
use crate::packet::{Layers, Net, Packet, Stale};
use weir_packet::{DropReason, Frame};
use weir_wire::checksum::Delta;

/// Decrements the TTL or hop limit of the IP header; another frame is not changed.
///
/// # Errors
/// [`DropReason::TtlExpired`] at one or zero; the frame is as it was.
#[inline(always)]
pub fn decrement(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let l3 = usize::from(p.layers.l3);
    match p.layers.net {
        Net::Ipv4 => {
            let Some(h) = get_mut::<12>(p.frame.bytes_mut(), l3) else { return Ok(()) };
            if h[8] <= 1 {
                return Err(DropReason::TtlExpired);
            }
            let old = u16::from_be_bytes([h[8], h[9]]);
            h[8] -= 1;
            let check = Delta::new()
                .u16(old, old.wrapping_sub(0x100))
                .apply(u16::from_be_bytes([h[10], h[11]]));
            [h[10], h[11]] = check.to_be_bytes();
        }
        Net::Ipv6 => {
            let Some([hops]) = get_mut::<1>(p.frame.bytes_mut(), l3 + 7) else { return Ok(()) };
            if *hops <= 1 {
                return Err(DropReason::TtlExpired);
            }
            *hops -= 1;
        }
        _ => return Ok(()),
    }
    p.stale = Stale::Yes;
    Ok(())
}

/// TTL or hop limit of the outermost header that has one: of labels, the top entry's.
pub fn outermost(frame: &Frame, layers: &Layers) -> Option<u8> {
    let behind = match layers.net {
        Net::Ipv4 => 8,
        Net::Ipv6 => 7,
        Net::Mpls => 3,
        _ => return None,
    };
    frame.bytes().get(usize::from(layers.l3) + behind).copied()
}

/// Writes bits of the TTL or hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTtl {
    /// Value.
    pub value: u8,
    /// Which bits of it count.
    pub mask: u8,
}

impl SetTtl {
    /// Writes them into the IP header, if there is one.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let ip = match p.layers.net {
            Net::Ipv4 => Place::Ipv4(p.layers.l3.into()),
            Net::Ipv6 => Place::Ipv6(p.layers.l3.into()),
            _ => return,
        };
        if let Some(old) = ip.read(p.frame.bytes()) {
            ip.write(p.frame.bytes_mut(), old & !self.mask | self.value & self.mask);
            p.stale = Stale::Yes;
        }
    }
}

/// Copies the TTL of the next-to-outermost header to the outermost.
pub fn copy_out(p: &mut Packet<'_>) {
    copy(p, |outer, inner| (inner, outer));
}

/// Copies the TTL of the outermost header to the next one.
pub fn copy_in(p: &mut Packet<'_>) {
    copy(p, |outer, inner| (outer, inner));
}

fn copy(p: &mut Packet<'_>, from_to: fn(Place, Place) -> (Place, Place)) {
    let Some((outer, inner)) = two_outermost(p) else { return };
    let (from, to) = from_to(outer, inner);
    if let Some(ttl) = from.read(p.frame.bytes()) {
        to.write(p.frame.bytes_mut(), ttl);
        p.stale = Stale::Yes;
    }
}

/// A header with a TTL, by its first byte; the header is whole.
#[derive(Clone, Copy)]
enum Place {
    Ipv4(usize),
    Ipv6(usize),
    Mpls(usize),
}

impl Place {
    fn read(self, b: &[u8]) -> Option<u8> {
        let at = match self {
            Place::Ipv4(at) => at + 8,
            Place::Ipv6(at) => at + 7,
            Place::Mpls(at) => at + 3,
        };
        b.get(at).copied()
    }
    fn write(self, b: &mut [u8], ttl: u8) {
        match self {
            Place::Ipv4(at) => {
                let Some(h) = get_mut::<4>(b, at + 8) else { return };
                let delta = Delta::new()
                    .u16(u16::from_be_bytes([h[0], h[1]]), u16::from_be_bytes([ttl, h[1]]));
                let check = delta.apply(u16::from_be_bytes([h[2], h[3]]));
                h[0] = ttl;
                [h[2], h[3]] = check.to_be_bytes();
            }
            Place::Ipv6(at) => {
                if let Some([hops]) = get_mut(b, at + 7) {
                    *hops = ttl;
                }
            }
            Place::Mpls(at) => {
                if let Some([last]) = get_mut(b, at + 3) {
                    *last = ttl;
                }
            }
        }
    }
    /// The IP header at `at`, if it is whole; `kind` is its version.
    fn ip(b: &[u8], at: usize, version: u8) -> Option<Place> {
        let first: [u8; 1] = get(b, at)?;
        match (first[0] >> 4 == version, version) {
            (true, 4) => {
                let ihl = usize::from(first[0] & 15) * 4;
                (ihl >= 20 && b.len() >= at + ihl).then_some(Place::Ipv4(at))
            }
            (true, 6) => (b.len() >= at + 40).then_some(Place::Ipv6(at)),
            _ => None,
        }
    }
}

fn two_outermost(p: &Packet<'_>) -> Option<(Place, Place)> {
    let b = p.frame.bytes();
    let l3 = usize::from(p.layers.l3);
    let outer = match p.layers.net {
        Net::Mpls => {
            let top = Place::Mpls(l3);
            if be32(b, l3)? & 1 << 8 == 0 {
                be32(b, l3 + 4)?;
                return Some((top, Place::Mpls(l3 + 4)));
            }
            let version = b.get(l3 + 4)? >> 4;
            return Some((top, Place::ip(b, l3 + 4, version)?));
        }
        Net::Ipv4 => Place::Ipv4(l3),
        Net::Ipv6 => Place::Ipv6(l3),
        _ => return None,
    };
    let version = match p.layers.proto {
        4 => 4,
        41 => 6,
        _ => return None,
    };
    // The inner header of a later fragment is not there; that of a first fragment is.
    let inner = locate::ip_payload(b, p.layers)?;
    if inner.fragment == locate::Fragment::Later {
        return None;
    }
    Some((outer, Place::ip(b.get(..inner.end)?, inner.at, version)?))
}
