//! Lookups in the rules of a table by rank: one by one, in two halves, or a burst at once.
//!
//! Room: data-path core. Called by `fast`. The ways are compiled for each number of lines and of values, and chosen once a burst:
//! a call for each key, and what it finds out each time, is a third of what a lookup costs.

use super::{LINE, Ranked};
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Line, Vectors, Work, prefetch_read, prefetch_slice, with_vectors};
use crate::windows::Window;

/// What [`Ranked::probe`] says where nothing can fit, instead of a place.
const NONE: u64 = 0xffff;
/// Set by it where other rules may fit, and where one of them may be a late one.
const MORE: u64 = 1 << 16;
const LATE: u64 = 1 << 17;
/// Lookups under way at a time.
const BURST: usize = 32;

impl Ranked {
    /// Asks for the lines that [`Ranked::probe`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_slice(std::slice::from_ref(self), size_of::<Self>());
    }

    /// First half of a lookup: the first place whose rule may fit.
    #[inline]
    pub(crate) fn probe(&self, v: Vectors, key: &FlowKey) -> u64 {
        let mut first = [NONE];
        let keys = std::slice::from_ref(key);
        with_vectors(v, Probing { ranked: self, keys, firsts: &mut first });
        first[0]
    }

    /// Second half: the winner.
    #[inline]
    pub(crate) fn resolve(&self, v: Vectors, key: &FlowKey, found: u64) -> Option<RuleId> {
        let id = self.fitting(key, (found & NONE) as usize);
        self.settled(v, key, found, id)
    }

    /// The winner for each key.
    pub(crate) fn lookup_all(&self, v: Vectors, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            let mut firsts = [NONE; BURST];
            with_vectors(v, Probing { ranked: self, keys, firsts: &mut firsts });
            match self.width {
                1 => self.resolve_words::<1, 1>(v, keys, &firsts, found),
                2 => self.resolve_words::<2, 1>(v, keys, &firsts, found),
                3 => self.resolve_words::<3, 1>(v, keys, &firsts, found),
                _ => {
                    for ((key, first), found) in keys.iter().zip(firsts).zip(found) {
                        *found = self.resolve(v, key, first);
                    }
                }
            }
        }
    }

    /// Second halves, where rules look at `W` words and have `S` lines.
    #[inline(always)]
    fn resolve_words<const W: usize, const S: usize>(
        &self,
        v: Vectors,
        keys: &[FlowKey],
        firsts: &[u64; BURST],
        found: &mut [Option<RuleId>],
    ) {
        for ((key, first), found) in keys.iter().zip(firsts).zip(found) {
            let id = self.fitting_words::<W, S>(key, (first & NONE) as usize);
            *found = self.settled(v, key, *first, id);
        }
    }

    /// The winner, where [`Ranked::probe`] was `found` and the rule there, if it fits, is `id`.
    #[inline(always)]
    fn settled(&self, v: Vectors, key: &FlowKey, found: u64, id: Option<RuleId>) -> Option<RuleId> {
        if found & LATE == 0 && id.is_some() || found & MORE == 0 {
            return id;
        }
        let from = (found & NONE) as usize + usize::from(id.is_none());
        self.resolve_from(v, key, from)
    }

    #[inline(never)]
    fn resolve_from(&self, v: Vectors, key: &FlowKey, from: usize) -> Option<RuleId> {
        with_vectors(v, Searching { ranked: self, key, from })
    }

    /// Of the places of one line, those whose rules may fit.
    #[inline(always)]
    fn left_of<L: Lanes>(&self, lanes: L, key: &FlowKey, line: usize) -> L::Row {
        let mut left = lanes.ones();
        let (mut rows, mut open) = (line, line);
        for w in self.windows.iter().take(self.count) {
            let row = self.rows.get(rows + value_of(lanes, key, w) * self.lines);
            if let (Some(row), Some(open)) = (row, self.open.get(open)) {
                left = lanes.and_either(left, row, open);
            }
            (rows, open) = (rows + (self.lines << self.bits), open + self.lines);
        }
        left
    }

    /// The same for all lines, where there is room for `LINES` lines of them, and windows have
    /// `VALUES` values.
    #[inline(always)]
    fn left_of_all<const LINES: usize, const VALUES: usize, const LOOSE: bool, L: Lanes>(
        &self,
        lanes: L,
        key: &FlowKey,
    ) -> [L::Row; LINES] {
        let mut left = [lanes.ones(); LINES];
        let rows = self.rows.as_chunks::<LINES>().0.as_chunks::<VALUES>().0;
        let windows = self.windows.iter().zip(rows);
        for ((w, rows), open) in windows.zip(self.open.as_chunks::<LINES>().0) {
            let row = &rows[value_of(lanes, key, w) % VALUES];
            for ((l, r), o) in left.iter_mut().zip(row).zip(open) {
                *l = if LOOSE { lanes.and_either(*l, r, o) } else { lanes.and(*l, r) };
            }
        }
        left
    }

    /// The first place of these lines whose rule may fit.
    #[inline(always)]
    fn first_of<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        rows: [L::Row; N],
        from: usize,
        is_all: bool,
    ) -> u64 {
        let mut some = 0u64;
        let mut left = [Line::default(); N];
        for (i, (l, r)) in left.iter_mut().zip(rows).enumerate() {
            some |= u64::from(lanes.nonzero(r)) << (8 * i);
            *l = lanes.store(r);
        }
        let word = some.trailing_zeros() as usize;
        let Some(line) = left.get(word / 8) else { return NONE };
        let bits = line.0[word % 8];
        let first = from * LINE + word * 64 + bits.trailing_zeros() as usize;
        if let Some(rule) = self.data.get(first * self.stride) {
            prefetch_read(rule);
        }
        let more = (some & some.wrapping_sub(1) | bits & bits.wrapping_sub(1)) != 0 || !is_all;
        // No branch: how many are left can't be foretold. By whole words: who looks for a late rule
        // where there is none answers as well.
        let words = (self.sorted() / 64).saturating_sub(from * 8) as u32;
        let late = !self.late.is_empty() & (some.checked_shr(words).unwrap_or(0) != 0 || !is_all);
        first as u64 | (u64::from(more) * MORE) | (u64::from(more & late) * LATE)
    }

    #[inline(always)]
    fn firsts_of<const LINES: usize, const VALUES: usize, L: Lanes>(
        &self,
        lanes: L,
        keys: &[FlowKey],
        firsts: &mut [u64],
    ) {
        for (key, first) in keys.iter().zip(firsts) {
            let left = match self.loose {
                0 => self.left_of_all::<LINES, VALUES, false, L>(lanes, key),
                _ => self.left_of_all::<LINES, VALUES, true, L>(lanes, key),
            };
            *first = self.first_of(lanes, left, 0, true);
        }
    }

    /// The first place for each key whose rule may fit.
    #[inline(always)]
    fn firsts<L: Lanes>(&self, lanes: L, keys: &[FlowKey], firsts: &mut [u64]) {
        match (self.lines, self.bits) {
            (1, 6) => self.firsts_of::<1, 64, L>(lanes, keys, firsts),
            (1, 7) => self.firsts_of::<1, 128, L>(lanes, keys, firsts),
            (1, 8) => self.firsts_of::<1, 256, L>(lanes, keys, firsts),
            (2, 7) => self.firsts_of::<2, 128, L>(lanes, keys, firsts),
            (2, 8) => self.firsts_of::<2, 256, L>(lanes, keys, firsts),
            (3, 8) => self.firsts_of::<3, 256, L>(lanes, keys, firsts),
            (4, 8) => self.firsts_of::<4, 256, L>(lanes, keys, firsts),
            (5, 8) => self.firsts_of::<5, 256, L>(lanes, keys, firsts),
            (6, 8) => self.firsts_of::<6, 256, L>(lanes, keys, firsts),
            (7, 8) => self.firsts_of::<7, 256, L>(lanes, keys, firsts),
            (8, 8) => self.firsts_of::<8, 256, L>(lanes, keys, firsts),
            _ => {
                for (key, first) in keys.iter().zip(firsts) {
                    *first = self.first_by_lines(lanes, key);
                }
            }
        }
    }

    #[inline(always)]
    fn first_by_lines<L: Lanes>(&self, lanes: L, key: &FlowKey) -> u64 {
        for line in 0..self.used {
            let left = [self.left_of(lanes, key, line)];
            let found = self.first_of(lanes, left, line, line + 1 == self.used);
            if found & NONE != NONE {
                return found;
            }
        }
        NONE
    }

    /// The rule of a place, if it fits.
    #[inline(always)]
    fn fitting(&self, key: &FlowKey, place: usize) -> Option<RuleId> {
        match self.width {
            1 => self.fitting_words::<1, 1>(key, place),
            2 => self.fitting_words::<2, 1>(key, place),
            3 => self.fitting_words::<3, 1>(key, place),
            4 => self.fitting_words::<4, 2>(key, place),
            5 => self.fitting_words::<5, 2>(key, place),
            _ => self.fitting_slow(key, place),
        }
    }

    /// The same where rules look at `W` words and have `S` lines.
    #[inline(always)]
    fn fitting_words<const W: usize, const S: usize>(
        &self,
        key: &FlowKey,
        place: usize,
    ) -> Option<RuleId> {
        let lines = self.data.as_chunks::<S>().0.get(place)?;
        let data = |i: usize| lines[i / 8 % S].0[i % 8];
        let mut differ = 0;
        for (i, &w) in self.words.iter().enumerate().take(W) {
            let word = key.0.get(usize::from(w)).copied().unwrap_or(0);
            differ |= (word & data(1 + 2 * i)) ^ data(2 + 2 * i);
        }
        (differ == 0).then(|| RuleId(data(0) as u32))
    }

    #[inline(never)]
    fn fitting_slow(&self, key: &FlowKey, place: usize) -> Option<RuleId> {
        let data = self.data.get(place * self.stride..(place + 1) * self.stride)?;
        let at = |i: usize| data.get(i / 8).map_or(0, |l| l.0[i % 8]);
        let words = self.words.iter().enumerate().take(self.width);
        let differ = words.fold(0, |differ, (i, &w)| {
            let word = key.0.get(usize::from(w)).copied().unwrap_or(0);
            differ | ((word & at(1 + 2 * i)) ^ at(2 + 2 * i))
        });
        (differ == 0).then(|| RuleId(at(0) as u32))
    }

    /// The winner, where all places before `from` have none.
    #[inline(always)]
    fn search<L: Lanes>(&self, lanes: L, key: &FlowKey, mut from: usize) -> Option<RuleId> {
        let (mut best, mut floor) = (None, 0);
        let mut line = from / LINE;
        while line < self.used {
            let row = self.left_of(lanes, key, line);
            let (mut some, mut left) = (lanes.nonzero(row), lanes.store(row));
            while some != 0 {
                let word = some.trailing_zeros() as usize % 8;
                let bits = left.0[word];
                let place = line * LINE + word * 64 + bits.trailing_zeros() as usize;
                left.0[word] = bits & bits.wrapping_sub(1);
                some = if left.0[word] == 0 { some & (some - 1) } else { some };
                if place < from {
                    continue;
                }
                let Some(id) = self.fitting(key, place) else { continue };
                let rank = self.ranks.get(place).copied().unwrap_or(0);
                if rank > floor {
                    (best, floor) = (Some(id), rank);
                }
                if place < self.sorted() {
                    // Of those in order no other is better.
                    if self.late.is_empty() || self.late_top < floor {
                        return best;
                    }
                    from = self.sorted();
                    if from / LINE > line {
                        break;
                    }
                }
            }
            line = (line + 1).max(from / LINE);
        }
        best
    }
}

/// What a window has of a key.
#[inline(always)]
fn value_of<L: Lanes>(lanes: L, key: &FlowKey, w: &Window) -> usize {
    let word = key.0.get(usize::from(w.word)).copied().unwrap_or(0);
    lanes.together(word, w.mask) as usize
}

struct Probing<'a> {
    ranked: &'a Ranked,
    keys: &'a [FlowKey],
    firsts: &'a mut [u64],
}

impl Work for Probing<'_> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        self.ranked.firsts(lanes, self.keys, self.firsts);
    }
}

struct Searching<'a> {
    ranked: &'a Ranked,
    key: &'a FlowKey,
    from: usize,
}

impl Work for Searching<'_> {
    type Out = Option<RuleId>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<RuleId> {
        self.ranked.search(lanes, self.key, self.from)
    }
}
