//! Which bits of a key tell rules apart: the windows of the leaves of `index`.
//!
//! Room: data-path core, control side. Pure. What a lookup loses is rules that agree with a key in all windows and do not fit: each is
//! a comparison, and the first of them a branch that nobody foretells. So windows are chosen one beside the other, and their
//! bits likewise, by how many such are left of a sample of keys; those before the first that fits, which a lookup compares, count for more
//! than those behind it, which it does not come to.

use crate::simd::{Lanes, Line, Vectors, Work, with_vectors};
use crate::windows::{WINDOWS, Window, both};

/// Rules to choose windows by, at most: a line of bits.
pub(crate) const RULES: usize = 512;

/// What a rule counts for, beside one, where it is before the first that fits. Those behind it count, too: for keys that the first does
/// not fit, and for changes.
const AHEAD: usize = 3;

/// Rules by rank, up to [`RULES`] of them, mask and value of each; and keys. All have the same words.
pub(crate) struct Telling<'a> {
    pub(crate) rules: &'a [(&'a [u64], &'a [u64])],
    pub(crate) keys: &'a [&'a [u64]],
    /// Bits of a window.
    pub(crate) bits: u32,
}

/// For each bit of the key, the rules that agree with a zero there, and with a one.
type Agreeing = Vec<[[Line; 2]; 64]>;

/// A key, and the rules that no window so far has told from it.
#[derive(Clone, Copy)]
struct Left<'a> {
    key: &'a [u64],
    rules: Line,
    /// Of these, those before the first that fits.
    ahead: Line,
}

impl Telling<'_> {
    /// The windows, each chosen by some keys that none before it was chosen by, too: how well it tells those apart that
    /// it was chosen by says little of others.
    pub(crate) fn windows(&self, v: Vectors) -> [Window; WINDOWS] {
        let agreeing = self.agreeing();
        let mut left: Vec<Left> = Vec::new();
        let mut chosen = [Window::default(); WINDOWS];
        let mut used = vec![0; agreeing.len()];
        let mut fresh = self.keys.chunks(self.keys.len().div_ceil(WINDOWS).max(1));
        for at in 0..WINDOWS {
            for key in fresh.next().unwrap_or_default() {
                let mut l = self.others(key);
                chosen.iter().for_each(|w| l.take(&agreeing, *w));
                left.push(l);
            }
            left.retain(|l| l.rules.0 != [0; 8]);
            // Where all is told, a further window would be a line of memory for next to nothing.
            if left.is_empty() {
                break;
            }
            let next = Next { bits: self.bits, agreeing: &agreeing, used: &used, left: &left };
            let Some(window) = with_vectors(v, next) else { break };
            chosen.get_mut(at).into_iter().for_each(|place| *place = window);
            used.get_mut(usize::from(window.word)).into_iter().for_each(|u| *u |= window.mask);
            left.iter_mut().for_each(|l| l.take(&agreeing, window));
        }
        chosen
    }

    fn agreeing(&self) -> Agreeing {
        let words = self.rules.first().map_or(0, |r| r.0.len());
        let mut out = vec![[[Line::default(); 2]; 64]; words];
        for (i, (mask, value)) in self.rules.iter().enumerate().take(RULES) {
            let (word, bit) = (i / 64, 1u64 << (i % 64));
            for ((bits, mask), value) in out.iter_mut().zip(*mask).zip(*value) {
                for (at, [zero, one]) in bits.iter_mut().enumerate() {
                    let (asks, wants) = (mask >> at & 1, value >> at & 1);
                    zero.0[word] |= if asks & wants == 0 { bit } else { 0 };
                    one.0[word] |= if asks == 0 || wants == 1 { bit } else { 0 };
                }
            }
        }
        out
    }

    /// The rules that do not fit the key.
    fn others<'a>(&self, key: &'a [u64]) -> Left<'a> {
        let (mut rules, mut ahead) = (Line::default(), Line::default());
        let mut found = false;
        for (i, (mask, value)) in self.rules.iter().enumerate().take(RULES) {
            let fits = key.iter().zip(*mask).zip(*value).all(|((k, m), v)| k & m == *v);
            found |= fits;
            rules.0[i / 64] |= u64::from(!fits) << (i % 64);
            ahead.0[i / 64] |= u64::from(!found) << (i % 64);
        }
        Left { key, rules, ahead }
    }
}

impl Left<'_> {
    fn row<'r>(&self, agreeing: &'r Agreeing, word: usize, bit: usize) -> Option<&'r Line> {
        let set = self.key.get(word)? >> bit & 1;
        agreeing.get(word)?.get(bit)?.get(set as usize)
    }
    /// Without those that the bits of a window tell.
    fn take(&mut self, agreeing: &Agreeing, w: Window) {
        for bit in w.bits() {
            if let Some(row) = self.row(agreeing, usize::from(w.word), bit) {
                self.rules.0.iter_mut().zip(&row.0).for_each(|(l, r)| *l &= r);
                self.ahead.0.iter_mut().zip(&row.0).for_each(|(l, r)| *l &= r);
            }
        }
    }
    /// What they count for.
    #[inline(always)]
    fn weight(&self) -> usize {
        ones(&self.rules) + AHEAD * ones(&self.ahead)
    }
    /// The same of those that agree with a row.
    #[inline(always)]
    fn weight_with(&self, row: &Line) -> usize {
        both((&self.rules, row)) + AHEAD * both((&self.ahead, row))
    }
}

#[inline(always)]
fn ones(line: &Line) -> usize {
    let mut n = 0;
    for word in line.0 {
        n += word.count_ones() as usize;
    }
    n
}

/// The next window; compiled for each kind of vector instructions, as it counts bits.
struct Next<'a> {
    bits: u32,
    agreeing: &'a Agreeing,
    /// Of each word, the bits that windows have.
    used: &'a [u64],
    left: &'a [Left<'a>],
}

impl Work for Next<'_> {
    type Out = Option<Window>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let mut best: Option<(Window, usize)> = None;
        let mut scratch = self.left.to_vec();
        for word in 0..self.agreeing.len() {
            scratch.copy_from_slice(self.left);
            let Some((window, after)) = self.within(lanes, word, &mut scratch) else { continue };
            let better = match best {
                Some((_, least)) => after < least,
                None => true,
            };
            if better {
                best = Some((window, after));
            }
        }
        best.map(|b| b.0)
    }
}

impl Next<'_> {
    /// The best window of a word.
    #[inline(always)]
    fn within<L: Lanes>(
        &self,
        lanes: L,
        word: usize,
        left: &mut [Left],
    ) -> Option<(Window, usize)> {
        let free = !self.used.get(word).copied().unwrap_or(0);
        let (mut mask, mut after) = (0u64, usize::MAX);
        if !lanes.any_bits() {
            // Neighbours: each place is a window by itself.
            let all = (1u64 << self.bits) - 1;
            for shift in (0..=64 - self.bits).step_by(2) {
                let window = Window { word: word as u8, mask: all << shift };
                let mut n = 0;
                for l in left.iter() {
                    let mut l = *l;
                    l.take(self.agreeing, window);
                    n += l.weight();
                }
                if n < after {
                    (mask, after) = (window.mask, n);
                }
            }
            return (mask != 0).then_some((Window { word: word as u8, mask }, after));
        }
        for _ in 0..self.bits {
            let mut best = (usize::MAX, usize::MAX, 0);
            for bit in 0..64 {
                if (free & !mask) >> bit & 1 == 0 {
                    continue;
                }
                let Some(uneven) = self.uneven(word, bit) else { continue };
                let n = self.with(word, bit, left);
                if (n, uneven) < (best.0, best.1) {
                    best = (n, uneven, bit);
                }
            }
            if best.0 == usize::MAX {
                break;
            }
            (mask, after) = (mask | 1 << best.2, best.0);
            let window = Window { word: word as u8, mask: 1 << best.2 };
            for l in left.iter_mut() {
                l.take(self.agreeing, window);
            }
        }
        (mask != 0).then_some((Window { word: word as u8, mask }, after))
    }

    /// How unlike the rules' halves by a bit are, and how many stand in both; none where all agree.
    #[inline(always)]
    fn uneven(&self, word: usize, bit: usize) -> Option<usize> {
        let [zero, one] = self.agreeing.get(word)?.get(bit)?;
        let (z, o) = (ones(zero), ones(one));
        let both = both((zero, one));
        (both < z && both < o || both < z.max(o) && both > 0).then_some(z * z + o * o)
    }

    /// What those count for that a bit leaves.
    #[inline(always)]
    fn with(&self, word: usize, bit: usize, left: &[Left]) -> usize {
        let Some(rows) = self.agreeing.get(word).and_then(|w| w.get(bit)) else {
            return usize::MAX;
        };
        let mut n = 0;
        for l in left {
            let set = match l.key.get(word) {
                Some(k) => (k >> bit & 1) as usize,
                None => 0,
            };
            n += l.weight_with(&rows[set % 2]);
        }
        n
    }
}
