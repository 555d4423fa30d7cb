//! Checksums: the Internet checksum whole ([`Sum`]) and by difference ([`Delta`]), the
//! pseudo-headers of IPv4 and IPv6, and SCTP's CRC32c. Touches bytes only. Called by the layers
//! of this crate and by whoever rewrites fields in place.
//!
//! Source: RFC 1071 (the sum and its byte-order independence), RFC 1624 (updates).

pub mod crc32c;
mod delta;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip::Protocol;

pub use delta::Delta;

/// What a look at a checksum that may be left out has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is there and right.
    Good,
    /// It is there and wrong.
    Bad,
    /// The sender left it out, in the way the protocol has for that.
    Absent,
}

/// A ones' complement sum in the making, over any number of byte strings laid end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Sum of 16-bit big-endian words, not yet folded.
    words: u64,
    /// An odd number of bytes has gone in, so the next one is the low half of its word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Sum {
        Sum { words: 0, odd: false }
    }

    /// Goes on with these bytes. An odd last byte counts as padded by a zero, unless more follow.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        let part = u64::from(sum_be(bytes));
        // One byte further on, every byte moves to the other half of its word (RFC 1071 §2(B)).
        let part = if self.odd { u64::from((part as u16).swap_bytes()) } else { part };
        Sum { words: self.words + part, odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Adds a 16-bit word; after an even number of bytes only.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Sum {
        Sum { words: self.words + word as u64, ..self }
    }

    /// Adds both halves of a 32-bit word; after an even number of bytes only.
    #[inline]
    #[must_use]
    pub const fn word32(self, word: u32) -> Sum {
        Sum { words: self.words + (word >> 16) as u64 + (word & 0xffff) as u64, ..self }
    }

    /// The sum folded to 16 bits, not complemented.
    #[inline]
    pub const fn fold(self) -> u16 {
        fold(self.words)
    }

    /// The value for the checksum field: the complement of the sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether bytes that include their checksum are intact.
    #[inline]
    pub const fn is_intact(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The Internet checksum of some bytes (RFC 1071), for their checksum field.
#[inline]
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// The folded sum of an IPv4 header without options, in the machine's own order.
#[inline(always)]
pub(crate) fn fold_five(bytes: &[u8; 20]) -> u16 {
    let (words, _) = bytes.as_chunks::<4>();
    fold(words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum())
}

/// Halves added with the carry brought around, twice: a number plus itself with its halves
/// exchanged has that sum in the upper half, as the lower half's carry is the one that is missing.
#[inline]
const fn fold(words: u64) -> u16 {
    let words = (words.wrapping_add(words.rotate_left(32)) >> 32) as u32;
    (words.wrapping_add(words.rotate_left(16)) >> 16) as u16
}

/// The folded big-endian sum. Eight bytes a step, in the machine's own order: the sum commutes
/// with swapping the bytes of every word, so one swap at the end is enough.
#[inline]
fn sum_be(bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut sum = 0u64;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        // Halves, so that 2^32 steps cannot overflow.
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    let (words, tail) = tail.as_chunks::<4>();
    if let [word] = words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    sum += match *tail {
        [a] => u64::from(u16::from_ne_bytes([a, 0])),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_ne_bytes([a, b, c, 0])),
        _ => 0,
    };
    u16::from_be(fold(sum))
}

/// The two addresses that the checksums of TCP, UDP and ICMPv6 cover besides their own bytes
/// (RFC 9293 §3.1, RFC 768, RFC 8200 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PseudoHeader {
    /// Source and destination of an IPv4 header.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source of an IPv6 header, and the final destination: with a routing header that is the
    /// last address there while segments are left.
    V6(Ipv6Addr, Ipv6Addr),
}

impl PseudoHeader {
    /// From two addresses of one family; `None` if they are of two.
    pub const fn new(src: IpAddr, dst: IpAddr) -> Option<PseudoHeader> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(PseudoHeader::V4(src, dst)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(PseudoHeader::V6(src, dst)),
            _ => None,
        }
    }

    /// The pseudo-header's sum, to go on with the layer's own bytes. `len` is their number.
    #[inline]
    pub fn sum(&self, protocol: Protocol, len: usize) -> Sum {
        let sum = match self {
            PseudoHeader::V4(src, dst) => Sum::new().bytes(&src.octets()).bytes(&dst.octets()),
            PseudoHeader::V6(src, dst) => Sum::new().bytes(&src.octets()).bytes(&dst.octets()),
        };
        sum.word32(len as u32).word(u16::from(u8::from(protocol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// RFC 1071 §1 as it reads.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn rfc_1071_example() {
        // §3: 0001 f203 f4f5 f6f7 sums to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet(&bytes), !0xddf2);
    }

    #[test]
    fn folding_brings_carries_around() {
        // By division: all but 0 folds to 1 … 0xffff.
        for words in [0, 1, 0xffff, 0x1_0000, 0xffff_0000, 0xffff_ffff, u64::MAX - 1, u64::MAX] {
            let rest = if words == 0 { 0 } else { (words - 1) % 0xffff + 1 };
            assert_eq!(u64::from(fold(words)), rest, "{words:#x}");
        }
    }

    #[test]
    fn long_and_full() {
        let bytes = std::vec![0xff; 70_001];
        assert_eq!(internet(&bytes), slow(&bytes));
    }

    proptest! {
        #[test]
        fn equals_the_slow_sum_at_any_alignment(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            skip in 0usize..9,
        ) {
            let bytes = bytes.get(skip..).unwrap_or(&[]);
            prop_assert_eq!(internet(bytes), slow(bytes));
        }

        #[test]
        fn folding_is_division(words in any::<u64>()) {
            let rest = if words == 0 { 0 } else { (words - 1) % 0xffff + 1 };
            prop_assert_eq!(u64::from(fold(words)), rest);
        }

        #[test]
        fn five_words_sum_as_ten(
            words in prop::array::uniform5(prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)]),
        ) {
            let mut bytes = [0; 20];
            for (to, from) in bytes.chunks_mut(4).zip(words) {
                to.copy_from_slice(&from.to_be_bytes());
            }
            prop_assert_eq!(u16::from_be(fold_five(&bytes)), Sum::new().bytes(&bytes).fold());
        }

        #[test]
        fn pieces_equal_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
        ) {
            let whole: Vec<u8> = pieces.concat();
            let sum = pieces.iter().fold(Sum::new(), |sum, piece| sum.bytes(piece));
            prop_assert_eq!(sum.checksum(), slow(&whole));
        }

        #[test]
        fn intact_with_its_checksum(mut bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            if bytes.len() % 2 == 1 {
                bytes.push(0);
            }
            let check = internet(&bytes);
            bytes.extend(check.to_be_bytes());
            prop_assert!(Sum::new().bytes(&bytes).is_intact());
        }

        #[test]
        fn pseudo_headers_are_what_the_rfcs_draw(
            src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), len in 0u16.., protocol in any::<u8>(),
        ) {
            let (src4, dst4): ([u8; 4], [u8; 4]) =
                (src[..4].try_into().unwrap(), dst[..4].try_into().unwrap());
            let mut drawn = Vec::new();
            drawn.extend(src4);
            drawn.extend(dst4);
            drawn.extend([0, protocol]);
            drawn.extend(len.to_be_bytes());
            let sum = PseudoHeader::V4(src4.into(), dst4.into())
                .sum(protocol.into(), usize::from(len));
            prop_assert_eq!(sum.checksum(), slow(&drawn));

            let mut drawn = Vec::new();
            drawn.extend(src);
            drawn.extend(dst);
            drawn.extend(u32::from(len).to_be_bytes());
            drawn.extend([0, 0, 0, protocol]);
            let sum = PseudoHeader::V6(src.into(), dst.into())
                .sum(protocol.into(), usize::from(len));
            prop_assert_eq!(sum.checksum(), slow(&drawn));
        }
    }
}
