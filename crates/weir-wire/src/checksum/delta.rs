//! Checksums mended after a field has changed, without reading the rest (RFC 1624 equation 3).
//! Touches numbers only. Called by whoever rewrites a field in place.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The difference that some changed fields make to an Internet checksum.
///
/// One `Delta` serves every checksum that covers the fields: an address changes both the IPv4
/// header's and the transport's. Fields must lie at even offsets of the checksummed bytes, as all
/// those of Ethernet's payloads do.
///
/// ```
/// use weir_wire::checksum::Delta;
/// // TTL 64 to 63: the field shares its word with the protocol.
/// let check = Delta::new().u16(0x4011, 0x3f11).apply(0xb861);
/// assert_eq!(check, 0xb961);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delta {
    /// Sum of ~m + m' over the changed words of 16 or 32 bits. A u64 holds 2^31 changes.
    sum: u64,
}

impl Delta {
    /// No change.
    pub const fn new() -> Delta {
        Delta { sum: 0 }
    }

    /// A 16-bit field went from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn u16(self, old: u16, new: u16) -> Delta {
        Delta { sum: self.sum + !old as u64 + new as u64 }
    }

    /// A 32-bit field went from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn u32(self, old: u32, new: u32) -> Delta {
        // Folding adds upper halves to lower ones, so they need not be taken apart here.
        Delta { sum: self.sum + !old as u64 + new as u64 }
    }

    /// A 128-bit field went from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn u128(self, old: u128, new: u128) -> Delta {
        self.u32((old >> 96) as u32, (new >> 96) as u32)
            .u32((old >> 64) as u32, (new >> 64) as u32)
            .u32((old >> 32) as u32, (new >> 32) as u32)
            .u32(old as u32, new as u32)
    }

    /// One was taken from the upper byte of a 16-bit field, as from a TTL: what the lower byte
    /// is does not matter.
    #[inline]
    #[must_use]
    pub const fn upper_byte_less(self) -> Delta {
        self.u16(0x0100, 0)
    }

    /// An IPv4 address changed.
    #[inline]
    #[must_use]
    pub const fn ipv4(self, old: Ipv4Addr, new: Ipv4Addr) -> Delta {
        self.u32(old.to_bits(), new.to_bits())
    }

    /// An IPv6 address changed.
    #[inline]
    #[must_use]
    pub const fn ipv6(self, old: Ipv6Addr, new: Ipv6Addr) -> Delta {
        self.u128(old.to_bits(), new.to_bits())
    }

    /// The checksum after the change: HC' = ~(~HC + ~m + m').
    ///
    /// Equal to a full recomputation whenever the checksummed bytes are not all zero after the
    /// change, which no header with a version, a length or a port is.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        !super::fold(self.sum + !checksum as u64)
    }

    /// The same for UDP (RFC 768): zero means the sender made no checksum and stays zero; a
    /// checksum that comes out as zero is sent as all ones.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        match checksum {
            0 => 0,
            _ => match self.apply(checksum) {
                0 => 0xffff,
                mended => mended,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::internet;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn rfc_1624_example() {
        // §4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 gives 0x0000 and not 0xffff.
        assert_eq!(Delta::new().u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
        assert_eq!(Delta::new().u16(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
    }

    #[test]
    fn udp_without_checksum_stays_without() {
        assert_eq!(Delta::new().u16(1, 2).apply_udp(0), 0);
    }

    fn rewrite(bytes: &mut [u8], at: usize, new: &[u8]) -> Vec<u8> {
        let field = &mut bytes[at..at + new.len()];
        let old = field.to_vec();
        field.copy_from_slice(new);
        old
    }

    proptest! {
        // Words of 0, 1, 0xfffe and 0xffff are where ones' complement has its edges.
        #[test]
        fn equals_recomputing(
            words in prop::collection::vec(
                prop_oneof![any::<u16>(), Just(0), Just(1), Just(0xfffe), Just(0xffff)], 9..40),
            at in any::<prop::sample::Index>(),
            new in prop_oneof![any::<u128>(), Just(0), Just(u128::MAX), any::<u16>().prop_map(u128::from)],
        ) {
            let original: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            let before = internet(&original);
            let at = 2 * at.index(words.len() - 8);

            let mut bytes = original.clone();
            let old = rewrite(&mut bytes, at, &(new as u16).to_be_bytes());
            prop_assume!(bytes.iter().any(|b| *b != 0));
            let old = u16::from_be_bytes(old.try_into().unwrap());
            prop_assert_eq!(Delta::new().u16(old, new as u16).apply(before), internet(&bytes));

            let mut bytes = original.clone();
            let old = rewrite(&mut bytes, at, &(new as u32).to_be_bytes());
            prop_assume!(bytes.iter().any(|b| *b != 0));
            let old = u32::from_be_bytes(old.try_into().unwrap());
            prop_assert_eq!(Delta::new().u32(old, new as u32).apply(before), internet(&bytes));

            let mut bytes = original.clone();
            let old = rewrite(&mut bytes, at, &new.to_be_bytes());
            prop_assume!(bytes.iter().any(|b| *b != 0));
            let old = u128::from_be_bytes(old.try_into().unwrap());
            let delta = Delta::new().u128(old, new);
            prop_assert_eq!(delta.apply(before), internet(&bytes));

            // UDP: the same with zero sent as all ones, before and after.
            let sent = |check: u16| if check == 0 { 0xffff } else { check };
            prop_assert_eq!(delta.apply_udp(sent(before)), sent(internet(&bytes)));
        }

        #[test]
        fn one_less_in_the_upper_byte(upper in 1u8.., lower in any::<u8>(), check in any::<u16>()) {
            let word = |upper| u16::from_be_bytes([upper, lower]);
            let less = Delta::new().u16(word(upper), word(upper - 1));
            prop_assert_eq!(Delta::new().upper_byte_less().apply(check), less.apply(check));
        }

        #[test]
        fn changes_add_up(a in any::<u16>(), b in any::<u16>(), c in any::<u16>(), check in 1u16..0xffff) {
            let there = Delta::new().u16(a, b).apply(check);
            let on = Delta::new().u16(b, c).apply(there);
            prop_assert_eq!(on, Delta::new().u16(a, b).u16(b, c).apply(check));
        }
    }
}
