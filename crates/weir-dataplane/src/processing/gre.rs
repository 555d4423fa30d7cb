//! Wraps frames in GRE and unwraps them (RFC 2784; key and sequence number: RFC 2890), as
//! transparent Ethernet bridging (protocol 0x6558).

use super::edit;
use crate::action::{GreChecksum, Outer};
use crate::packet::{Net, Packet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_classify::Field;
use weir_packet::DropReason;
use weir_wire::checksum::internet;

const BRIDGED: u16 = 0x6558;
const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;

/// What to write in front of a frame. Copies share one sequence.
#[derive(Clone, Debug)]
pub struct Encap {
    outer: Outer,
    key: Option<u32>,
    sequence: Option<Arc<AtomicU32>>,
    checksum: GreChecksum,
}

impl PartialEq for Encap {
    fn eq(&self, o: &Self) -> bool {
        (self.outer, self.key, self.sequence.is_some(), self.checksum)
            == (o.outer, o.key, o.sequence.is_some(), o.checksum)
    }
}
impl Eq for Encap {}

impl Encap {
    pub(super) fn new(
        outer: Outer,
        key: Option<u32>,
        sequence: Option<u32>,
        checksum: GreChecksum,
    ) -> Self {
        let sequence = sequence.map(|s| Arc::new(AtomicU32::new(s)));
        Self { outer, key, sequence, checksum }
    }
    fn header_len(&self) -> usize {
        let word = |there: bool| 4 * usize::from(there);
        4 + word(self.checksum == GreChecksum::Present)
            + word(self.key.is_some())
            + word(self.sequence.is_some())
    }
}

/// Wraps.
///
/// # Errors
/// [`DropReason::NoRoom`] without headroom, or when the result would exceed 64 KiB.
pub fn encap(p: &mut Packet<'_>, e: &Encap) -> Result<(), DropReason> {
    let front = e.outer.len() + e.header_len();
    if p.frame.len() + front > usize::from(u16::MAX) {
        return Err(DropReason::NoRoom);
    }
    p.frame.push_front(front).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    let gre = e.outer.len();
    let mut flags = 0;
    let mut at = gre + 4;
    if e.checksum == GreChecksum::Present {
        flags |= CHECKSUM;
        edit::put(b, at, [0; 4]);
        at += 4;
    }
    if let Some(key) = e.key {
        flags |= KEY;
        edit::put(b, at, key.to_be_bytes());
        at += 4;
    }
    if let Some(s) = &e.sequence {
        flags |= SEQUENCE;
        edit::put(b, at, s.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    }
    edit::put(b, gre, flags.to_be_bytes());
    edit::put(b, gre + 2, BRIDGED.to_be_bytes());
    e.outer.emit(b, 47);
    if e.checksum == GreChecksum::Present {
        let sum = b.get(gre..).map_or(0, internet);
        edit::put(b, gre + 4, sum.to_be_bytes());
    }
    p.relayout()
}

/// Unwraps bridged frames. The key becomes the frame's tunnel id, zero without one. What is not
/// GRE, or carries something else than Ethernet, passes unchanged.
///
/// # Errors
/// [`DropReason::Malformed`]: cut short, a version or flag that RFC 2784 says to discard (§2.3), or
/// a wrong checksum.
pub fn decap(p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.proto != 47 || edit::is_fragment(p) {
        return Ok(());
    }
    let (b, l3) = (p.frame.bytes(), usize::from(p.layers.l3));
    let gre = match p.layers.net {
        Net::Ipv4 => l3 + usize::from(b.get(l3).copied().unwrap_or(0) & 15) * 4,
        Net::Ipv6 => {
            let (Some(&next), Some(rest)) = (b.get(l3 + 6), b.get(l3 + 40..)) else {
                return Err(DropReason::Malformed);
            };
            let walk = weir_wire::ipv6_ext::walk(next.into(), rest);
            l3 + 40 + walk.map_err(|_| DropReason::Malformed)?.at
        }
        Net::Other | Net::Arp | Net::Mpls => return Ok(()),
    };
    let end = super::set_l4::ip_end(p).ok_or(DropReason::Malformed)?;
    let body = b.get(gre..end).ok_or(DropReason::Malformed)?;
    let flags = edit::get16(body, 0).ok_or(DropReason::Malformed)?;
    if edit::get16(body, 2) != Some(BRIDGED) {
        return Ok(());
    }
    // Version 0; routing (bit 1) and the bits that must be zero are refused.
    if flags & !(CHECKSUM | KEY | SEQUENCE) != 0 {
        return Err(DropReason::Malformed);
    }
    let mut at = 4;
    if flags & CHECKSUM != 0 {
        if internet(body) != 0 {
            return Err(DropReason::Malformed);
        }
        at += 4;
    }
    let mut key = 0;
    if flags & KEY != 0 {
        key = edit::get32(body, at).ok_or(DropReason::Malformed)?;
        at += 4;
    }
    at += 4 * usize::from(flags & SEQUENCE != 0);
    if body.len() < at + 14 {
        return Err(DropReason::Malformed);
    }
    p.frame.set_len(end).map_err(|_| DropReason::Malformed)?;
    p.frame.pull_front(gre + at).map_err(|_| DropReason::Malformed)?;
    p.relayout()?;
    p.key.set(Field::TunnelId, key.into());
    Ok(())
}
