//! CRC32c (Castagnoli), SCTP's checksum (RFC 9260 appendix A). Touches bytes only.
//! Eight bytes a step through eight tables of 256 entries made at compile time (8 KiB).

/// The polynomial 0x1edc6f41 with its bits reversed, because the CRC goes least bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: what byte `b` adds to the register when `k` more bytes follow it in the step.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// A CRC in the making, over byte strings laid end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Crc {
        Crc::new()
    }
}

impl Crc {
    /// The CRC of nothing.
    pub const fn new() -> Crc {
        Crc(!0)
    }

    /// Goes on with these bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Crc {
        let mut crc = self.0;
        let (steps, tail) = bytes.as_chunks::<8>();
        for step in steps {
            // A u8 index into 256 entries: no bound to check, none to break.
            let [a, b, c, d, e, f, g, h] =
                (u64::from_le_bytes(*step) ^ u64::from(crc)).to_le_bytes().map(usize::from);
            crc = TABLES[7][a]
                ^ TABLES[6][b]
                ^ TABLES[5][c]
                ^ TABLES[4][d]
                ^ TABLES[3][e]
                ^ TABLES[2][f]
                ^ TABLES[1][g]
                ^ TABLES[0][h];
        }
        for byte in tail {
            crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        }
        Crc(crc)
    }

    /// The CRC. SCTP sends its least significant byte first.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

/// The CRC32c of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    Crc::new().bytes(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn known_values() {
        // RFC 3720 (iSCSI) appendix B.4, and the customary check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        let ascending: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(crc32c(&ascending).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
    }

    proptest! {
        #[test]
        fn equals_bit_by_bit(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
            prop_assert_eq!(crc32c(&bytes), slow(&bytes));
            let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(Crc::new().bytes(head).bytes(tail).finish(), slow(&bytes));
        }
    }
}
