//! A few rules beside the one [`Tuple`](crate::tuple::Tuple) of a table, as one of stations has for other frames (LLDP, ARP): a word of
//! bits that says of most keys that none of these fits.
//!
//! Room: data-path core. Called by `fast`. The word of the key in which all of them ask for most bits is looked at, and by a hash of these
//! bits one of 32: so one key in 32 for each such rule, and each key where they have no bits in common, is looked up in the rules themselves.

use crate::key::FlowKey;
use crate::scan::Scan;

/// See the head of this file. Of no rules: no key fits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aside {
    mask: u64,
    bits: u32,
    word: u8,
    /// Whether each rule of the tuple is above all of these.
    pub(crate) below: bool,
}

/// One of the bits of a word.
#[inline(always)]
fn bit(of: u64) -> u32 {
    1 << (of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59)
}

impl Aside {
    /// Of these rules.
    pub(crate) fn of(rules: &Scan) -> Self {
        let (word, mask) = rules.common();
        let of = |value: FlowKey| value.0.get(word).copied().unwrap_or(0) & mask;
        let bits = rules.iter().fold(0, |bits, (_, _, value, _)| bits | bit(of(value)));
        Self { mask, bits, word: word as u8, below: false }
    }
    /// Whether one of those rules may fit.
    #[inline(always)]
    pub(crate) fn lets(&self, key: &FlowKey) -> bool {
        let word = key.0.get(usize::from(self.word)).copied().unwrap_or(0);
        bit(word & self.mask) & self.bits != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::rule::{Match, RuleId};
    use proptest::prelude::*;

    proptest! {
        /// Whatever a rule takes is let by.
        #[test]
        fn who_fits_is_let_by(
            rules in prop::collection::vec((0u32..4, 0u64..6, any::<u16>()), 0..9),
            key: [u64; 4],
        ) {
            let mut scan = Scan::default();
            let of = |(kind, value, mask): (u32, u64, u16)| match kind {
                0 => Match::any().with(Field::EthType, 0x800 + u128::from(value)),
                1 => Match::any().with_masked(Field::EthDst, value.into(), mask.into()),
                2 => Match::any().with(Field::InPort, value.into()).with(Field::EthType, 0x806),
                _ => Match::any(),
            };
            for (i, r) in rules.iter().enumerate() {
                let m = of(*r);
                scan.insert(100 - i as u64, RuleId(i as u32), m.value(), m.mask());
            }
            let aside = Aside::of(&scan);
            for r in &rules {
                let m = of(*r);
                let mut fits = *m.value();
                for (at, (k, mask)) in fits.0.iter_mut().zip(m.mask().0).enumerate() {
                    *k |= key[at % 4] & !mask;
                }
                prop_assert!(aside.lets(&fits), "{r:?}");
            }
            if rules.is_empty() {
                prop_assert!(!aside.lets(&FlowKey::default()));
            }
        }
    }
}
