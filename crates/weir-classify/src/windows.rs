//! Windows: some bits of a key, by whose values rows of bits say which rules, or groups of rules, agree; and which windows tell
//! groups apart.
//!
//! Room: data-path core. Called by `ranked` and `index`. Choosing is the control side's; pure.

use crate::simd::Line;

/// Windows looked at, at most.
pub(crate) const WINDOWS: usize = 8;

/// Some bits of one word of a key, or of what a rule demands of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) word: u8,
    pub(crate) mask: u64,
}

impl Window {
    /// Where its bits are, the lowest first.
    pub(crate) fn bits(self) -> impl Iterator<Item = usize> {
        let mut left = self.mask;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (at < 64).then_some(at)
        })
    }
    /// Its bits, next to each other.
    pub(crate) fn of(self, words: &[u64]) -> u64 {
        let word = words.get(usize::from(self.word)).copied().unwrap_or(0);
        together(word, self.mask)
    }
    /// Calls `f` for each value that a rule agrees with; for none, and says so, where it agrees with all.
    #[inline(always)]
    pub(crate) fn values(self, mask: &[u64], value: &[u64], mut f: impl FnMut(usize)) -> bool {
        let bits = together(u64::MAX, self.mask);
        let open = !self.of(mask) & bits;
        if open == bits {
            return false;
        }
        each_value(self.of(value), open, &mut f);
        true
    }
}

/// Windows of up to eight bits each, as all are picked out of a key at once.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Elsewhere they are picked one by one.
pub(crate) struct Picks {
    /// Of window `i` from `8 * i` on: where in its word its bits are, the lowest first.
    pub(crate) bits: [u8; 8 * WINDOWS],
    pub(crate) words: [u8; WINDOWS],
    /// How many these are, as the low bits of a byte for each.
    pub(crate) kept: u64,
}

impl Picks {
    pub(crate) fn new(windows: &[Window; WINDOWS]) -> Self {
        let mut out = Self { bits: [0; 8 * WINDOWS], words: [0; WINDOWS], kept: 0 };
        for ((i, w), bits) in windows.iter().enumerate().zip(out.bits.chunks_exact_mut(8)) {
            out.words[i % WINDOWS] = w.word;
            for (at, (to, bit)) in bits.iter_mut().zip(w.bits()).enumerate() {
                *to = bit as u8;
                out.kept |= 1 << (8 * i + at);
            }
        }
        out
    }
}

/// Calls `f` for `value` with any of the bits of `open`.
#[inline(always)]
pub(crate) fn each_value(value: u64, open: u64, mut f: impl FnMut(usize)) {
    let mut sub = open;
    loop {
        f((value | sub) as usize);
        if sub == 0 {
            return;
        }
        sub = (sub - 1) & open;
    }
}

/// The bits of `word` that `mask` has, next to each other.
#[inline(always)]
pub(crate) fn together(word: u64, mask: u64) -> u64 {
    if mask == 0 {
        return 0;
    }
    let shift = mask.trailing_zeros();
    let width = mask >> shift;
    if width & width.wrapping_add(1) == 0 {
        return word >> shift & width;
    }
    let (mut out, mut left, mut at) = (0, mask, 0);
    while left != 0 {
        out |= (word >> left.trailing_zeros() & 1) << at;
        (left, at) = (left & (left - 1), at + 1);
    }
    out
}

/// Where a window's bits stand in their word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// Next to each other.
    Together,
    /// So, or half of them in one place and half in another.
    Halves,
}

impl Places {
    /// The windows of a word, of `bits` bits each, that have any that are used.
    fn windows(self, bits: u32, used: u64) -> Vec<u64> {
        let neighbours = |bits: u32, step| {
            let all = (1u64 << bits) - 1;
            let from = (0..=64 - bits).step_by(step).map(move |shift| all << shift);
            from.filter(move |w| used & w != 0)
        };
        let mut out: Vec<u64> = neighbours(bits, 2).collect();
        if self == Self::Halves {
            let halves: Vec<u64> = neighbours(bits / 2, bits as usize / 2).collect();
            for (i, low) in halves.iter().enumerate() {
                let others = halves.iter().skip(i + 1).filter(|high| **high != low << (bits / 2));
                out.extend(others.map(|high| low | high));
            }
        }
        out
    }
}

/// Rules to choose windows by: of each, its group, mask and value; and keys, words as the rules have them.
pub(crate) struct Choice<'a> {
    pub(crate) rules: &'a [(usize, &'a [u64], &'a [u64])],
    pub(crate) groups: usize,
    pub(crate) keys: &'a [&'a [u64]],
    /// Bits of a window.
    pub(crate) bits: u32,
    pub(crate) places: Places,
}

impl Choice<'_> {
    /// Those that leave the fewest groups, each chosen beside those before it, as long as `pays` says so of how many fewer are
    /// left. One at least.
    pub(crate) fn windows(&self, pays: impl Fn(usize) -> bool) -> ([Window; WINDOWS], usize) {
        let lines = self.groups.div_ceil(LINE).max(1);
        let all = self.sifted(lines);
        let mut left = vec![Line([u64::MAX; 8]); self.keys.len() * lines];
        let (mut chosen, mut count) = ([Window::default(); WINDOWS], 0);
        let mut compared = usize::MAX;
        while let Some(place) = chosen.get_mut(count) {
            let with = |rows: &[Line]| -> usize { left.iter().zip(rows).map(both).sum() };
            let best = all.iter().map(|(w, rows)| (with(rows), w, rows)).min_by_key(|b| b.0);
            let Some((n, window, rows)) = best else { break };
            if !pays(compared.saturating_sub(n)) {
                break;
            }
            compared = n;
            (*place, count) = (*window, count + 1);
            for (l, r) in left.iter_mut().zip(rows) {
                l.0.iter_mut().zip(&r.0).for_each(|(l, r)| *l &= r);
            }
        }
        // Without one, places that nobody has would seem to fit.
        (chosen, count.max(1))
    }

    /// Every window that any rule asks for, and what it leaves of each key's groups.
    fn sifted(&self, lines: usize) -> Vec<(Window, Vec<Line>)> {
        let words = self.rules.first().map_or(0, |r| r.1.len());
        let mut out = Vec::new();
        for word in 0..words {
            let used = self.rules.iter().filter_map(|r| r.1.get(word)).fold(0, |u, m| u | m);
            for mask in self.places.windows(self.bits, used) {
                let window = Window { word: word as u8, mask };
                let mut rows = vec![Line::default(); lines << self.bits];
                let mut open = vec![Line::default(); lines];
                for (group, m, v) in self.rules {
                    let (line, word, bit) = (group / LINE, group / 64 % 8, 1u64 << (group % 64));
                    let mark = |at: usize| {
                        if let Some(l) = rows.get_mut(at * lines + line) {
                            l.0[word] |= bit;
                        }
                    };
                    if !window.values(m, v, mark)
                        && let Some(l) = open.get_mut(line)
                    {
                        l.0[word] |= bit;
                    }
                }
                let rows = &rows;
                let of = |k: &&[u64]| {
                    let row = rows.chunks_exact(lines).nth(window.of(k) as usize);
                    let row = row.unwrap_or(&open).iter().zip(&open);
                    row.map(|(r, o)| Line(std::array::from_fn(|i| r.0[i] | o.0[i])))
                };
                out.push((window, self.keys.iter().flat_map(of).collect()));
            }
        }
        out
    }
}

/// Groups to a line.
const LINE: usize = 512;

/// How many bits two lines have in common.
#[inline(always)]
pub(crate) fn both((left, row): (&Line, &Line)) -> usize {
    let mut n = 0;
    for i in 0..8 {
        n += (left.0[i] & row.0[i]).count_ones() as usize;
    }
    n
}

/// How far apart `most` of `n` are.
pub(crate) fn every(n: usize, most: usize) -> usize {
    n.div_ceil(most).max(1)
}

/// Writes to `key`, which has a rule's value, what that leaves open: what another rule demands, or anything. `salt` says what.
pub(crate) fn fill_key(
    key: &mut [u64],
    mask: &[u64],
    (other_mask, other): (&[u64], &[u64]),
    salt: u64,
) {
    let mut x = scattered(salt);
    for (k, ((mask, other_mask), other)) in
        key.iter_mut().zip(mask.iter().zip(other_mask).zip(other))
    {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *k |= !mask & (other | x & !other_mask);
    }
}

/// The number of the other rule that [`fill_key`] should be given, of `n`.
pub(crate) fn other_of(salt: u64, n: usize) -> usize {
    (scattered(salt) >> 32) as usize % n.max(1)
}

fn scattered(salt: u64) -> u64 {
    (salt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every window has its bits in two halves or one piece, none is offered twice, and none that could be is missing.
    #[test]
    fn windows_that_are_offered() {
        for used in [u64::MAX, 0xff, 0xf0_0000_000f, 1, 0] {
            for places in [Places::Together, Places::Halves] {
                let all = places.windows(8, used);
                let each: BTreeSet<u64> = all.iter().copied().collect();
                assert_eq!(each.len(), all.len(), "{used:x}");
                assert!(all.iter().all(|w| w.count_ones() == 8 && w & used != 0));
                let mut want: BTreeSet<u64> = (0..=56).step_by(2).map(|s| 0xff << s).collect();
                if places == Places::Halves {
                    let half = |n: u32| 0xf << (4 * n);
                    let pairs = (0..16).flat_map(|a| (0..a).map(move |b| (half(a), half(b))));
                    let pairs = pairs.filter(|(a, b)| a & used != 0 && b & used != 0);
                    want.extend(pairs.map(|(a, b): (u64, u64)| a | b));
                }
                want.retain(|w| w & used != 0);
                assert_eq!(each, want, "{used:x}");
            }
        }
    }
}
