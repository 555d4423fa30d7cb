//! What most rules of a table ask for: a bit.
//!
//! Called by `tree` alone. Most rules of stations say whom a frame is sent to, and some beside them who sent it, or what is in it. No bit that tells the
//! many apart says anything of these, so that they would go both ways at every cut.

use super::place::{Asks, Place, Side};

/// One in so many rules may not ask for it.
const OTHERS: usize = 4;
/// Bits, of so many different numbers of rules that ask for them.
const TRIED: usize = 3;

/// A bit that most rules ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spine {
    word: u8,
    bit: u8,
}

impl Spine {
    /// Those that may serve, the one that most ask for first; none that all do.
    pub(super) fn of<const W: usize>(rules: &[Place<W>]) -> impl Iterator<Item = Self> {
        let mut counts = [[0; 64]; W];
        for rule in rules {
            for (counts, mask) in counts.iter_mut().zip(rule.asks.mask) {
                for (bit, n) in counts.iter_mut().enumerate() {
                    *n += (mask >> bit & 1) as usize;
                }
            }
        }
        let bits = (0u8..).zip(&counts).flat_map(|(word, bits)| {
            (0u8..).zip(bits).map(move |(bit, asking)| (*asking, word, bit))
        });
        let may = rules.len() - rules.len() / OTHERS..rules.len();
        let mut bits: Vec<_> = bits.filter(|b| may.contains(&b.0)).collect();
        bits.sort_unstable_by(|a, b| b.cmp(a));
        bits.dedup_by_key(|b| b.0);
        bits.into_iter().take(TRIED).map(|(_, word, bit)| Self { word, bit })
    }
    /// Whether a rule that asks this asks for it.
    #[inline]
    pub(super) fn is_of<const W: usize>(self, asks: &Asks<W>) -> bool {
        asks.side(self.word, self.bit) != Side::Open
    }
}
