//! Frames that carry proof: whose they are, which they are, when they left.
//!
//! Touches bytes only. [`Stamper`] writes them (called by the generator), [`Checker`] judges what
//! arrives (called by the receiver).
//!
//! A probe is an Ethernet frame, untagged or with one VLAN tag, with IPv4 and UDP. Right behind the
//! UDP header, all numbers big-endian:
//!
//! ```text
//! 0        2        4      5             10            14
//! | magic  | stream | run  | stamp (ns)  | number      | fill …
//! | 0x5ee1 | 16 bit | 8 bit| 40 bit      | 32 bit      |
//! ```
//! These [`PROOF_BYTES`] fit a tagged frame of 64 bytes, the smallest that Ethernet has.
//! - *stream* counts of its own; *number* is the frame's place in its stream, from 0, modulo 2^32.
//! - *run* tells the frames of one trial from those of an earlier one that was still in a queue.
//! - *stamp* is the sender's clock in nanoseconds modulo 2^40 (18 minutes).
//! - *fill* is a fixed pattern that depends on the stream: cut, stretched or mixed-up frames are
//!   seen even when whoever damaged them made the checksum right again.
//!
//! **Sizes.** `frame_bytes_on_wire` counts as RFC 2544 does: from the destination address to the
//! FCS. A frame in memory has no FCS, so it is [`FCS_BYTES`] shorter: 64 on the wire are 60 in
//! memory.
//!
//! What a device under test may change without being blamed: MAC addresses, VLAN tags (up to
//! [`MAX_TAGS`]), ToS, TTL, identification, IP options, addresses and ports, as long as both
//! checksums are right afterwards. A probe that was encapsulated (MPLS, GRE, VXLAN) counts as
//! foreign.

mod checker;
mod fill;
mod stamper;
mod stream;
mod track;

use weir_packet::Nanos;

pub use checker::{
    Arrival, Checker, Contents, Counts, Identity, Outcome, StreamSent, StreamTally, Tally, Window,
    examine, identify, identify_any,
};
pub use stamper::Stamper;
pub use stream::{Headers, ProbeError, Stream, Vary, streams};
pub(crate) use track::{Place, Track};

/// Bytes of the proof in front of the fill.
pub const PROOF_BYTES: usize = 14;
/// Bytes of the frame check sequence, which frames in memory do not have.
pub const FCS_BYTES: usize = 4;
/// The smallest frame, FCS included (IEEE 802.3 §4A.4.2).
pub const MIN_FRAME_BYTES_ON_WIRE: usize = 64;
/// The largest frame without a VLAN tag, FCS included; a tag adds [`weir_wire::vlan::TAG_LEN`].
pub const MAX_FRAME_BYTES_ON_WIRE: usize = 1518;
/// The frame sizes that RFC 2544 §9.1 asks for on Ethernet, FCS included.
pub const RFC2544_FRAME_BYTES_ON_WIRE: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// VLAN tags that a checker passes over.
pub const MAX_TAGS: usize = 4;

/// Marks the proof.
const MAGIC: u16 = 0x5ee1;
/// Where in the proof the parts lie that differ from frame to frame: stamp and number.
const VARIABLE: std::ops::Range<usize> = 4..14;
/// A stamp's modulus.
const STAMP_BITS: u32 = 40;

/// The trial a frame belongs to; see the module's text. Give successive trials different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Run(pub u8);

impl Run {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// From a stamp's low bits to a delay: `now` less the stamp, in nanoseconds. `None` when the stamp
/// lies in the future of `now` (by less than 9 minutes): two clocks that disagree.
fn delay_ns(now: u64, stamp: u64) -> Option<u64> {
    let mask = (1 << STAMP_BITS) - 1;
    let delay = now.wrapping_sub(stamp) & mask;
    (delay <= mask >> 1).then_some(delay)
}

/// The whole time of a stamp's low bits, near `now`: the nearest that is not more than nine minutes off.
pub fn whole_stamp(stamp: Nanos, now: Nanos) -> Nanos {
    let full = 1u64 << STAMP_BITS;
    let base = now.0 & !(full - 1) | stamp.0 & (full - 1);
    let (half, off) = (full / 2, base.abs_diff(now.0));
    match (off > half, base > now.0) {
        (false, _) => Nanos(base),
        (true, true) => Nanos(base.saturating_sub(full)),
        (true, false) => Nanos(base.saturating_add(full)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_made_whole_again() {
        let full = 1u64 << STAMP_BITS;
        for now in [full, 5 * full - 3, 5 * full + 3, 1_800_000_000_000_000_123] {
            for stamp in [now - 1_000_000, now, now + 1_000] {
                assert_eq!(whole_stamp(Nanos(stamp & (full - 1)), Nanos(now)), Nanos(stamp));
            }
        }
    }

    #[test]
    fn delays_across_the_modulus() {
        let full = 1u64 << STAMP_BITS;
        assert_eq!(delay_ns(100, 40), Some(60));
        assert_eq!(delay_ns(full + 5, full - 5), Some(10));
        assert_eq!(delay_ns(full + 5, (full - 5) & (full - 1)), Some(10));
        assert_eq!(delay_ns(40, 41), None);
        assert_eq!(delay_ns(7, 7), Some(0));
        // Any clock: the Unix epoch's nanoseconds.
        assert_eq!(delay_ns(1_800_000_000_000_000_123, 1_800_000_000_000_000_000), Some(123));
    }
}
