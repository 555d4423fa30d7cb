//! Cutting an IPv4 packet for a link that is too narrow for it (RFC 791 §3.2). Touches the packet
//! and the fragments. Called by the router, the NAT and the gateway for packets that may be cut.
//!
//! The frame that came in becomes the first fragment; the others are copies of its parts, each behind what lies in front of the
//! packet, tags among it. Either all are there or none. A fragment is cut like a packet.

use crate::program::{Origin, ProgramCx};
use weir_packet::{DropReason, Frame};
use weir_wire::ipv4::{HEADER_LEN, MAX_OPTIONS_LEN};
use weir_wire::ipv4_option::select;
use weir_wire::{Ipv4Packet, Ipv4Repr};

/// In an option's kind: it belongs in every fragment (RFC 791 §3.1).
pub(super) const COPIED: u8 = 0x80;

/// What fragments but the first are, where their packet came so.
pub(super) fn of_pieces(whole: Origin) -> Origin {
    match whole {
        Origin::Generated => Origin::Generated,
        Origin::Received | Origin::Cloned => Origin::Cloned,
    }
}

/// Cuts a packet, which lies behind `front` bytes of its frame, into pieces of at most `mtu` bytes: `frame` becomes the first, `pieces`,
/// which is empty, has the others.
///
/// # Errors
/// Why it can't be cut; `frame` is as it was, and `pieces` empty.
pub(super) fn cut(
    frame: &mut Frame,
    front: usize,
    mtu: usize,
    pieces: &mut Vec<Frame>,
    cx: &mut ProgramCx<'_>,
) -> Result<(), DropReason> {
    let cut = fill(frame, front, mtu, pieces, cx);
    if cut.is_err() {
        pieces.drain(..).for_each(|piece| cx.unused(piece));
    }
    cut
}

/// The same, but for pieces where there is an error. The first is made last, when nothing can fail any more.
fn fill(
    frame: &mut Frame,
    front: usize,
    mtu: usize,
    pieces: &mut Vec<Frame>,
    cx: &mut ProgramCx<'_>,
) -> Result<(), DropReason> {
    let whole = frame.bytes().get(front..).unwrap_or(&[]);
    let whole = Ipv4Packet::new_checked(whole).map_err(|_| DropReason::Malformed)?;
    let header = Ipv4Repr::parse(&whole).map_err(|_| DropReason::Malformed)?;
    let payload = whole.payload();
    let units = |header_len: usize| mtu.saturating_sub(header_len) / 8;
    let mut options = [0; MAX_OPTIONS_LEN];
    let options: &[u8] = select(header.options, |kind| kind & COPIED != 0, &mut options);
    let first = units(header.buffer_len()) * 8;
    let later = units(HEADER_LEN + options.len()) * 8;
    let end = usize::from(header.fragment_offset) * 8 + payload.len();
    if first == 0 || later == 0 || first >= payload.len() || end > usize::from(u16::MAX) {
        return Err(DropReason::Malformed);
    }
    let mut at = first;
    for part in payload.get(first..).unwrap_or(&[]).chunks(later) {
        let more = at + part.len() < payload.len() || header.more_fragments;
        let piece = Ipv4Repr {
            options,
            more_fragments: more,
            fragment_offset: header.fragment_offset + (at / 8) as u16,
            payload_len: part.len(),
            ..header
        };
        pieces.push(write_piece(&piece, part, (frame, front), cx)?);
        at += part.len();
    }
    let total = header.buffer_len() + first;
    let mut packet = behind(frame, front);
    packet.set_total_len(total as u16);
    packet.set_flags_offset(packet.flags_offset() | 0x2000);
    packet.fill_checksum();
    frame.set_len(front + total).map_err(|_| DropReason::NoRoom)
}

/// The packet behind so many bytes of a frame.
fn behind(frame: &mut Frame, front: usize) -> Ipv4Packet<&mut [u8]> {
    Ipv4Packet::new_unchecked(frame.bytes_mut().get_mut(front..).unwrap_or(&mut []))
}

/// One fragment in a frame of its own, behind the front of the whole.
fn write_piece(
    header: &Ipv4Repr<'_>,
    part: &[u8],
    (whole, front): (&Frame, usize),
    cx: &mut ProgramCx<'_>,
) -> Result<Frame, DropReason> {
    let mut f = cx.alloc().ok_or(DropReason::NoFrame)?;
    if f.set_len(front + header.buffer_len() + part.len()).is_err() {
        cx.unused(f);
        return Err(DropReason::NoRoom);
    }
    if let (Some(to), Some(from)) = (f.bytes_mut().get_mut(..front), whole.bytes().get(..front)) {
        to.copy_from_slice(from);
    }
    let mut packet = behind(&mut f, front);
    let written = header.emit(&mut packet);
    debug_assert!(written.is_ok(), "{written:?}");
    packet.payload_mut().copy_from_slice(part);
    Ok(f)
}
