//! Whether a TCP reset from outside can be its sender's own: by what inside acknowledged last. Touches the bytes and numbers given.
//! Called by `nat` and `firewall` before they believe the reset of an open connection.
//!
//! Who guesses addresses and ports can send one reset, but not know where the sequence numbers are (RFC 5961 §3). A peer that resets sends
//! either what the other side acknowledged (RFC 9293 §3.10.7.1), or its own next number, which is above that by what is on its way. A reset
//! that is not believed passes all the same: the host judges it, and where it asks back (RFC 5961 §3.2) the answer has the very number.
//! Resets from inside need none: who can send in a host's name there can have what comes for it, too.
//!
//! Linux's conntrack believes the number that was acknowledged and that of a segment's end right before the reset. Here nothing follows
//! segments, so that a first flight takes their place.

use super::tuple::packet;
use weir_wire::TcpPacket;

/// Bytes that may be on their way when a connection is reset: an initial window of ten segments (RFC 6928) and some. Each further bit halves
/// what who guesses has to send, 2^18 resets now: a fast download's window, a mebibyte and more, would leave 2^12.
///
/// So the first reset of a sender with more on its way is not believed. What inside acknowledges of that meets no connection any more and is
/// answered by resets with the very numbers (RFC 9293 §3.10.7.1), the last of them with what was acknowledged last. Where these don't come,
/// because a host is silent to what it does not know, the connection stays until its long time is over: that is a place in a table, and
/// one that is cut off by a guess is a connection.
const FLIGHT: u32 = 16 * 1024;

/// An acknowledgment number without its lowest byte, so that it fits beside a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct Acked([u8; 3]);

impl Acked {
    /// Of a segment that has its ACK flag.
    #[inline(always)]
    pub fn of(segment: &[u8]) -> Self {
        let [a, b, c, _] = TcpPacket::new_unchecked(segment).ack().to_be_bytes();
        Self([a, b, c])
    }

    /// Whether the other side may have sent this reset.
    #[cold]
    pub fn admits(self, segment: &[u8]) -> bool {
        let [a, b, c] = self.0;
        let since = u32::from_be_bytes([a, b, c, 0]);
        // The number itself is up to 255 above that.
        TcpPacket::new_unchecked(segment).seq().wrapping_sub(since) < FLIGHT + 256
    }
}

/// A frame's segment, which begins so far behind its packet's first byte.
#[inline(always)]
pub(in crate::programs) fn segment(frame: &[u8], l4: usize) -> &[u8] {
    packet(frame).get(l4..).unwrap_or(&[])
}
