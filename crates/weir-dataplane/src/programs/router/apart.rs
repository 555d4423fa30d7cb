//! Packets of the router's own that are longer than the link, or a frame: sent in pieces (RFC 791 §3.2, RFC 8200 §4.5). Touches frames
//! that it makes, all of a packet's or none. Called by `icmp.rs`: only answers to pings are as long.

use super::{ETH, Hop, Router, packet_mut};
use crate::program::{Origin, ProgramCx};
use crate::programs::cut::COPIED;
use crate::programs::hash::fold;
use weir_packet::Frame;
use weir_wire::ipv4::MAX_OPTIONS_LEN;
use weir_wire::ipv4_option::select;
use weir_wire::ipv6::HEADER_LEN as IP6;
use weir_wire::ipv6_ext::{Fragment, FragmentRepr};
use weir_wire::{EtherType, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr};

/// Bytes of a fragment header.
const FRAGMENT: usize = 8;
/// The longest piece of an IPv6 packet: what every link on its way takes (RFC 8200 §5), since nobody remembers what theirs do.
const MOST_V6: usize = 1280;

/// How much of a packet goes into a piece behind so many bytes.
fn room(mtu: usize, header: usize) -> usize {
    mtu.saturating_sub(header) / 8 * 8
}

impl Router {
    /// Sends `payload` behind `ip`; `false` without spare frames.
    pub(super) fn send_apart_v4(
        &mut self,
        ip: Ipv4Repr<'_>,
        payload: &[u8],
        mtu: usize,
        hop: Hop,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        let mut kept = [0; MAX_OPTIONS_LEN];
        let later = select(ip.options, |kind| kind & COPIED != 0, &mut kept);
        let (mut at, mut options, mut pieces) = (0, ip.options, Vec::new());
        while let Some(rest) = payload.get(at..).filter(|r| !r.is_empty()) {
            let head = Ipv4Repr { options, ..ip };
            let part = rest.get(..room(mtu, head.buffer_len())).unwrap_or(rest);
            let piece = Ipv4Repr {
                more_fragments: part.len() < rest.len(),
                fragment_offset: (at / 8) as u16,
                payload_len: part.len(),
                ..head
            };
            let len = piece.buffer_len() + part.len();
            let frame = if part.is_empty() { None } else { self.fresh(EtherType::Ipv4, len, cx) };
            let Some(mut frame) = frame else { return none_of(pieces, cx) };
            let mut packet = Ipv4Packet::new_unchecked(packet_mut(&mut frame));
            let written = piece.emit(&mut packet);
            debug_assert!(written.is_ok(), "{written:?}");
            packet.payload_mut().copy_from_slice(part);
            pieces.push(frame);
            at += part.len();
            options = later;
        }
        self.send_pieces(pieces, hop, cx)
    }

    /// The same of IPv6.
    pub(super) fn send_apart_v6(
        &mut self,
        ip: Ipv6Repr,
        payload: &[u8],
        mtu: usize,
        hop: Hop,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        self.pieces_sent = self.pieces_sent.wrapping_add(1);
        // Not to be guessed from the last one (RFC 7739 §5.3).
        let ident = fold(self.pieces_sent, self.seed) as u32;
        let (mut at, mut pieces) = (0, Vec::new());
        while let Some(rest) = payload.get(at..).filter(|r| !r.is_empty()) {
            let part = rest.get(..room(mtu.min(MOST_V6), IP6 + FRAGMENT)).unwrap_or(rest);
            let payload_len = FRAGMENT + part.len();
            let head = Ipv6Repr { next_header: IpProtocol::Fragment, payload_len, ..ip };
            let piece = FragmentRepr {
                next_header: ip.next_header,
                offset: (at / 8) as u16,
                more: part.len() < rest.len(),
                ident,
            };
            let Some(mut frame) = self.fresh(EtherType::Ipv6, IP6 + payload_len, cx) else {
                return none_of(pieces, cx);
            };
            let mut packet = Ipv6Packet::new_unchecked(packet_mut(&mut frame));
            let mut written = head.emit(&mut packet);
            if let Some((to, behind)) = packet.payload_mut().split_at_mut_checked(FRAGMENT) {
                written = written.and(piece.emit(&mut Fragment::new_unchecked(to)));
                behind.copy_from_slice(part);
            }
            debug_assert!(written.is_ok(), "{written:?}");
            pieces.push(frame);
            at += part.len();
        }
        self.send_pieces(pieces, hop, cx)
    }

    fn send_pieces(&mut self, pieces: Vec<Frame>, hop: Hop, cx: &mut ProgramCx<'_>) -> bool {
        self.counters.fragmented += 1;
        self.counters.fragments += pieces.len() as u64;
        for piece in pieces {
            debug_assert!(piece.len() > ETH);
            self.transmit(piece, Origin::Generated, hop, cx);
        }
        true
    }
}

/// Gives frames back: a packet of which one is missing is none.
fn none_of(pieces: Vec<Frame>, cx: &mut ProgramCx<'_>) -> bool {
    pieces.into_iter().for_each(|piece| cx.unused(piece));
    false
}
