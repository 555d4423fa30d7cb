//! GRE (RFC 2784) with key and sequence number (RFC 2890): encapsulation as transparent Ethernet
//! bridging, decapsulation of that and of anything with an EtherType. Touches everything in front
//! of the payload, and cuts padding behind it.

use super::bytes::get_mut;
use super::{ecn, outer};
use crate::action::{GreChecksum, Outer};
use crate::packet::Packet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_classify::Field;
use weir_packet::DropReason;
use weir_wire::checksum::{Verdict, internet};
use weir_wire::{EtherType, GrePacket};

const GRE: u8 = 47;
/// A whole Ethernet frame follows.
const BRIDGED: u16 = 0x6558;
const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;

/// What an encapsulation writes.
#[derive(Clone, Debug)]
pub struct Encap {
    /// Outer headers.
    pub outer: Outer,
    /// Key.
    pub key: Option<u32>,
    /// The next sequence number. Clones count on together: a tunnel has one sequence, however many
    /// workers send by it.
    pub sequence: Option<Arc<AtomicU32>>,
    /// Whether a checksum is written.
    pub checksum: GreChecksum,
}

impl Encap {
    /// Wraps the frame.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`]; the frame is as it was, and no sequence number is used up.
    pub fn apply(&self, p: &mut Packet<'_>) -> Result<(), DropReason> {
        let words = [
            (self.checksum == GreChecksum::Present).then_some((CHECKSUM, 0)),
            self.key.map(|k| (KEY, k)),
            self.sequence.as_ref().map(|_| (SEQUENCE, 0)),
        ];
        let inside = 4 + 4 * words.iter().flatten().count();
        outer::push(&self.outer, GRE, inside, p)?;
        let at = outer::len(&self.outer);
        let gre = p.frame.bytes_mut().get_mut(at..).unwrap_or_default();
        let (mut flags, mut next) = (0, 4);
        for (flag, word) in words.into_iter().flatten() {
            flags |= flag;
            let word = match &self.sequence {
                Some(n) if flag == SEQUENCE => n.fetch_add(1, Ordering::Relaxed),
                _ => word,
            };
            if let Some(field) = get_mut(gre, next) {
                *field = word.to_be_bytes();
            }
            next += 4;
        }
        if let Some(first) = get_mut(gre, 0) {
            *first = (u32::from(flags) << 16 | u32::from(BRIDGED)).to_be_bytes();
        }
        if flags & CHECKSUM != 0 {
            let check = internet(gre);
            if let Some(field) = get_mut(gre, 4) {
                *field = check.to_be_bytes();
            }
        }
        p.relayout()
    }
}

/// Unwraps a frame; the key becomes its tunnel id, zero without one. A bridged frame takes the
/// place of the whole; another payload keeps the Ethernet header and VLAN tags in front of it, with
/// GRE's protocol type as their EtherType. Congestion that the outer header marks is marked inside.
///
/// # Errors
/// [`DropReason::NoSuchHeader`] when it is not GRE over IP, [`DropReason::Fragment`] when it is a
/// fragment, [`DropReason::Malformed`] when it is cut short, of another version, has a wrong
/// checksum, or carries no frame and no EtherType, [`DropReason::Congestion`] when the packet inside
/// can't be marked. The frame is as it was.
pub fn decap(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let malformed = |_| DropReason::Malformed;
    let ip = outer::payload(p, GRE)?;
    let bytes = p.frame.bytes().get(ip.at..ip.end).ok_or(DropReason::Malformed)?;
    let gre = GrePacket::new_checked(bytes).map_err(malformed)?;
    if gre.verify_checksum() == Verdict::Bad {
        return Err(DropReason::Malformed);
    }
    let (key, header) = (gre.key().unwrap_or(0), gre.header_len());
    let protocol = gre.protocol();
    let payload = ip.at + header;
    let len = bytes.len().checked_sub(header).ok_or(DropReason::Malformed)?;
    if protocol == EtherType::TransparentEthernet {
        if len < 14 {
            return Err(DropReason::Malformed);
        }
        ecn::carry_in(p, protocol, payload..payload + len)?;
        p.frame.pull_front(payload).map_err(|_| DropReason::Malformed)?;
        p.frame.set_len(len).map_err(|_| DropReason::Malformed)?;
    } else {
        let head = usize::from(p.layers.l3);
        // Of an 802.3 frame the length would have to change, too.
        let has_type = head == 14 + usize::from(p.layers.vlans) * 4;
        if u16::from(protocol) < 0x600 || !has_type || payload < head {
            return Err(DropReason::Malformed);
        }
        ecn::carry_in(p, protocol, payload..payload + len)?;
        let b = p.frame.bytes_mut();
        if let Some(field) = get_mut(b, head - 2) {
            *field = u16::from(protocol).to_be_bytes();
        }
        b.copy_within(..head, payload - head);
        p.frame.pull_front(payload - head).map_err(|_| DropReason::Malformed)?;
        p.frame.set_len(head + len).map_err(|_| DropReason::Malformed)?;
    }
    p.key.set(Field::TunnelId, key.into());
    p.relayout()
}
