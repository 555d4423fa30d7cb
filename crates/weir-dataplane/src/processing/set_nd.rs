//! Neighbour discovery: target address and link-layer address options (RFC 4861 §4.3, §4.4).
//! Touches the field and ICMPv6's checksum. A message without the option is not given one.

use super::bytes::{get, halves, merge_mac};
use super::locate::ip_payload;
use super::set_ipv6;
use super::transport::{Under, mend};
use crate::packet::{Net, Packet, Stale};
use weir_wire::checksum::Delta;

const SOLICIT: u8 = 135;
const ADVERT: u8 = 136;

/// Bits for the target address of a solicitation or advertisement, as two 64-bit halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTarget {
    /// Value.
    pub value: [u64; 2],
    /// Which bits of it count.
    pub mask: [u64; 2],
}

impl SetTarget {
    /// From numbers of 128 bits.
    pub const fn new(value: u128, mask: u128) -> Self {
        Self { value: halves(value), mask: halves(mask) }
    }
    /// Writes them; another frame is not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let Some(m) = message(p) else { return };
        let b = p.frame.bytes_mut();
        let at = m.at + 8;
        if let Some(old) = set_ipv6::write(b, at, self.value, self.mask)
            && let Some(new) = get(b, at)
        {
            let delta = Delta::new().u128(old, u128::from_be_bytes(new));
            mend(b, p.layers, Under::Transport, delta);
            p.stale = Stale::Yes;
        }
    }
}

/// Which link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The source's, in a solicitation (option 1).
    Source,
    /// The target's, in an advertisement (option 2).
    Target,
}

/// Bits for a link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLinkLayer {
    /// Which one.
    pub which: Which,
    /// Value, 48 bits.
    pub value: u64,
    /// Which bits of it count.
    pub mask: u64,
}

impl SetLinkLayer {
    /// Writes them into every such option; another frame is not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let Some(m) = message(p) else { return };
        let (kind, option) = match self.which {
            Which::Source => (SOLICIT, 1),
            Which::Target => (ADVERT, 2),
        };
        if m.kind != kind {
            return;
        }
        let b = p.frame.bytes_mut();
        let mut at = m.at + 24;
        // Each turn moves on by at least 8 bytes.
        while at + 8 <= m.end {
            let Some([found, units]) = get(b, at) else { return };
            if units == 0 {
                return;
            }
            if (found, units) == (option, 1)
                && let Some((old, new)) = merge_mac(b, at + 2, self.value, self.mask)
            {
                let delta = Delta::new()
                    .u16((old >> 32) as u16, (new >> 32) as u16)
                    .u32(old as u32, new as u32);
                mend(b, p.layers, Under::Transport, delta);
                p.stale = Stale::Yes;
            }
            at += usize::from(units) * 8;
        }
    }
}

/// A whole fixed part of a solicitation or advertisement.
struct Message {
    at: usize,
    end: usize,
    kind: u8,
}

fn message(p: &Packet<'_>) -> Option<Message> {
    if p.layers.l4 == 0 || (p.layers.net, p.layers.proto) != (Net::Ipv6, 58) {
        return None;
    }
    let b = p.frame.bytes();
    let end = ip_payload(b, p.layers)?.end;
    let at = usize::from(p.layers.l4);
    let [kind] = get(b, at)?;
    (matches!(kind, SOLICIT | ADVERT) && at + 24 <= end).then_some(Message { at, end, kind })
}
