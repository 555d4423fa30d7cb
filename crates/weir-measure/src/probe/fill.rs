//! The pattern behind the proof. Touches nothing; called by both ends of a probe's way.

/// The longest fill: a whole Ethernet payload.
const LONGEST: usize = 1500;
/// Where a stream's pattern may begin in the table.
const STARTS: usize = 256;

/// Bytes without a period that matters, so that no shift of the pattern equals itself: the high
/// bytes of a linear congruential sequence (Knuth's MMIX constants).
const TABLE: [u8; STARTS + LONGEST] = {
    let mut table = [0; STARTS + LONGEST];
    let mut state = 1u64;
    let mut i = 0;
    while i < table.len() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        table[i] = (state >> 56) as u8;
        i += 1;
    }
    table
};

/// The first `len` bytes of a stream's fill; `None` when no frame has that many.
pub(super) fn of(stream: u16, len: usize) -> Option<&'static [u8]> {
    let start = usize::from(stream) % STARTS;
    if len > LONGEST {
        return None;
    }
    TABLE.get(start..start + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ() {
        let fills: std::collections::BTreeSet<_> = (0..256).map(|s| of(s, 8).unwrap()).collect();
        assert_eq!(fills.len(), 256);
        assert_eq!(of(255, LONGEST).unwrap().len(), LONGEST);
        assert_eq!(of(0, LONGEST + 1), None);
    }
}
