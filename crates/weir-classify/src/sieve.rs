//! Which tuples a key need not ask: a few bits of it, looked up, leave out nearly all of them.
//!
//! Room: data-path core. Called by `parts` where a table has several tuples. For each of a few
//! windows of neighbouring bits there is a row of bits for each value that a window can have: bit
//! `i` is set where tuple `i` has a rule that the value agrees with. The rows that a key comes to,
//! one a window, are ANDed; tuples whose bit is left are asked. A rule that leaves most of a window
//! open stands in the window's `always` instead of in many rows. Rows only ever gain bits: a rule
//! that goes leaves its own behind, which costs lookups a probe and never an answer, and when that
//! may have become much the sieve is made anew. Source: the idea is the bit vectors of Lakshman and
//! Stiliadis, SIGCOMM '98, over tuples instead of rules, as in Srinivasan et al.'s pruned tuple
//! space search, SIGCOMM '99.

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::Match;

/// Tuples to a word of a row.
const WORD: usize = 64;
/// Words of a row, at most: tuples beyond are always asked.
pub(crate) const WIDTH: usize = 4;
/// Windows looked at, at most.
const WINDOWS: usize = 6;
/// Bits of a window that a rule may leave open and still stand in rows.
const OPEN: u32 = 6;
/// Rules and keys by which windows are chosen.
const SAMPLE: usize = 256;

/// Bits of tuples.
pub(crate) type Bits = [u64; WIDTH];

/// Takes a rule and its tuple.
type Take<'a> = &'a mut dyn FnMut(usize, &Match);

/// Neighbouring bits of one word of the key.
#[derive(Clone, Copy, Debug)]
struct Window {
    word: u8,
    shift: u8,
}

/// One window with its rows.
#[derive(Clone, Debug)]
struct Sifted {
    window: Window,
    always: Bits,
    rows: Box<[u64]>,
}

/// The sieve of one table.
#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    windows: Vec<Sifted>,
    /// Ones in the low bits, as many as a window has.
    mask: u64,
    /// Words of a row.
    width: usize,
    /// Rules when it was made, and removed since.
    pub(crate) made_of: usize,
    pub(crate) removed: usize,
}

impl Window {
    fn of(self, words: &[u64; WORDS]) -> u64 {
        words.get(usize::from(self.word)).map_or(0, |w| w >> self.shift)
    }
}

impl Sifted {
    fn new(window: Window, width: usize, values: usize) -> Self {
        Self { window, always: [0; WIDTH], rows: vec![0; width * values].into() }
    }
    fn add(&mut self, tuple: usize, m: &Match, mask: u64, width: usize) {
        let (word, bit) = (tuple / WORD, 1u64 << (tuple % WORD));
        let open = !self.window.of(&m.mask().0) & mask;
        if open.count_ones() > OPEN {
            if let Some(w) = self.always.get_mut(word) {
                *w |= bit;
            }
            return;
        }
        let value = self.window.of(&m.value().0) & mask;
        let mut sub = open;
        loop {
            if let Some(w) = self.rows.get_mut((value | sub) as usize * width + word) {
                *w |= bit;
            }
            if sub == 0 {
                return;
            }
            sub = (sub - 1) & open;
        }
    }
    /// The bit of tuple `64 * word + i` stays set in `bits[i]` where its rules may agree with `key`.
    #[inline(always)]
    fn row(&self, key: &FlowKey, mask: u64, width: usize, word: usize) -> u64 {
        let at = (self.window.of(&key.0) & mask) as usize * width + word;
        self.rows.get(at).copied().unwrap_or(u64::MAX) | self.always[word % WIDTH]
    }
}

impl Sieve {
    /// A sieve for `tuples` tuples; `each` calls its argument with every rule and its tuple.
    pub(crate) fn new(
        tuples: usize,
        rules: usize,
        union: &FlowMask,
        each: &mut dyn FnMut(Take<'_>),
    ) -> Self {
        // A row for every few rules, and room for more tuples.
        let bits = (rules.max(2).ilog2()).clamp(6, 12);
        let width = (tuples + tuples / 4 + 2).div_ceil(WORD).min(WIDTH);
        let mut out =
            Self { windows: Vec::new(), mask: (1 << bits) - 1, width, made_of: rules, removed: 0 };
        let mut sample = Vec::new();
        let (every, mut n) = (rules.div_ceil(8 * SAMPLE).max(1), 0);
        each(&mut |tuple, m| {
            if n % every == 0 {
                sample.push((tuple, *m));
            }
            n += 1;
        });
        for window in out.choose(&sample, union) {
            out.windows.push(Sifted::new(window, width, 1 << bits));
        }
        each(&mut |tuple, m| out.add(tuple, m));
        out
    }

    /// Whether another tuple has a bit.
    pub(crate) fn has_room(&self, tuples: usize) -> bool {
        tuples <= self.width * WORD || self.width == WIDTH
    }

    /// Notes that a tuple has this rule.
    pub(crate) fn add(&mut self, tuple: usize, m: &Match) {
        if tuple / WORD < self.width {
            let (mask, width) = (self.mask, self.width);
            self.windows.iter_mut().for_each(|w| w.add(tuple, m, mask, width));
        }
    }

    /// Words of bits that [`Sieve::left`] is asked for.
    #[inline(always)]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Which of the tuples `64 * word ..` may have a rule for `key`.
    #[inline(always)]
    pub(crate) fn left(&self, key: &FlowKey, word: usize) -> u64 {
        let rows = self.windows.iter().map(|w| w.row(key, self.mask, self.width, word));
        rows.fold(u64::MAX, |a, b| a & b)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.windows.capacity() * size_of::<Sifted>()
            + self.windows.iter().map(|w| size_of_val(&*w.rows)).sum::<usize>()
    }

    /// The windows that leave the fewest tuples, each chosen beside those before it.
    fn choose(&self, sample: &[(usize, Match)], union: &FlowMask) -> Vec<Window> {
        let mut candidates = Vec::new();
        for (word, bits) in union.0.iter().enumerate().filter(|(_, b)| **b != 0) {
            let width = self.mask.count_ones();
            let (low, high) = (bits.trailing_zeros(), 64 - bits.leading_zeros());
            let last = high.saturating_sub(width).max(low).min(64 - width);
            let places = (low.min(last)..=last).rev().step_by(4);
            candidates.extend(places.map(|shift| Window { word: word as u8, shift: shift as u8 }));
        }
        let keys: Vec<FlowKey> = sample
            .iter()
            .step_by(sample.len().div_ceil(SAMPLE).max(1))
            .enumerate()
            .map(|(i, (_, m))| some_key(m, i as u64))
            .collect();
        let sift = |window: Window| {
            let mut one = Sifted::new(window, self.width, self.mask as usize + 1);
            for (tuple, m) in sample.iter().filter(|(t, _)| t / WORD < self.width) {
                one.add(*tuple, m, self.mask, self.width);
            }
            let rows = |k: &FlowKey| {
                let mut bits = [0; WIDTH];
                for (word, b) in bits.iter_mut().enumerate().take(self.width) {
                    *b = one.row(k, self.mask, self.width, word);
                }
                bits
            };
            keys.iter().map(rows).collect::<Vec<Bits>>()
        };
        let sifted: Vec<(Window, Vec<Bits>)> =
            candidates.into_iter().map(|w| (w, sift(w))).collect();
        let mut left = vec![[u64::MAX; WIDTH]; keys.len()];
        let mut chosen = Vec::new();
        let mut asked = usize::MAX;
        while chosen.len() < WINDOWS {
            let with = |bits: &[Bits]| -> usize { left.iter().zip(bits).map(both).sum() };
            let best = sifted.iter().map(|(w, bits)| (with(bits), w, bits)).min_by_key(|b| b.0);
            let Some((n, window, bits)) = best else { break };
            // A window costs about as much as a twentieth of a probe for each key.
            if asked != usize::MAX && n + keys.len() / 8 >= asked {
                break;
            }
            (asked, _) = (n, chosen.push(*window));
            for (l, b) in left.iter_mut().zip(bits) {
                l.iter_mut().zip(b).for_each(|(l, b)| *l &= b);
            }
        }
        chosen
    }
}

fn both((left, bits): (&Bits, &Bits)) -> usize {
    left.iter().zip(bits).map(|(l, b)| (l & b).count_ones() as usize).sum()
}

/// A key that a rule fits; what the rule leaves open is anything.
fn some_key(m: &Match, salt: u64) -> FlowKey {
    let mut key = *m.value();
    let mut x = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (k, mask) in key.0.iter_mut().zip(m.mask().0) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *k |= x & !mask;
    }
    key
}
