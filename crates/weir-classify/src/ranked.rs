//! The rules of a table once more, in the order of their ranks, with a bit each: who looks up ANDs a
//! few rows of bits and compares what is left, nearly always one rule.
//!
//! Room: data-path core. Called by `fast` where a table of up to [`MOST`] rules has several parts;
//! `tuple` and `scan` hold the rules all the same, to find what is the same and to make this anew.
//! For each of a few windows of neighbouring bits of the key there is a row for each value that a
//! window can have: bit `i` is set where rule `i` agrees with the value. Ranks fall from place to
//! place, so that the first rule that fits is the winner.
//!
//! **How it changes.** A rule goes where its rank belongs, if that place is vacant: who leaves leaves
//! one. Else it is *late*: it stands behind all others in no order, and is asked whether it is better
//! where its bit is left. When late or removed rules have become many, all is made anew, which each
//! of them has paid for. Rows only gain bits: a rule that has gone costs later lookups a comparison
//! at most.
//!
//! **What it costs.** Lookup: two lines of memory for each window and 512 places, and one for each
//! rule compared and four words that rules look at. Memory: at most eight windows of 256 rows with a
//! bit for each place, 64 bytes a rule for every four words that rules look at, and a fourth more for
//! what may come. Worst case: rules that agree in all windows are compared one after the other, as a
//! scan does, of [`MOST`] rules at most. Source: the bit vectors of Lakshman and Stiliadis, SIGCOMM
//! '98, made updatable.

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::{Match, RuleId};
use crate::scan::{each_word, words_of};
use crate::simd::{Lanes, Line, Vectors, Work, prefetch_read, with_vectors};
use std::collections::HashMap;

/// Windows looked at, at most.
const WINDOWS: usize = 8;
/// Places to a line of a row.
const LINE: usize = 512;
/// Lines that are looked at before it is asked whether one has a bit.
const SPAN: usize = 4;
/// Rules that there may be: more rows would cost a lookup more than they save.
pub(crate) const MOST: usize = 4096;
/// Words of the key compared at a time.
const PART: usize = 4;
/// Rules by which windows are chosen, and keys.
const SAMPLE: usize = LINE;
const KEYS: usize = 128;
/// Late or removed rules that are no reason to make all anew.
const SOME: usize = 64;
/// Times that windows are taken over.
const KEPT: u32 = 8;
/// What [`Ranked::probe`] says where nothing can fit.
const NONE: u64 = u64::MAX;
/// Set by [`Ranked::probe`] where a late rule may fit, too.
const LATE: u64 = 1 << 32;

/// Neighbouring bits of one word of the key.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    word: u8,
    shift: u8,
}

impl Window {
    #[inline(always)]
    fn of(self, words: &[u64; WORDS]) -> u64 {
        words.get(usize::from(self.word)).map_or(0, |w| w >> self.shift)
    }
    /// Calls `f` for each value of `mask`'s bits that a rule agrees with; for none, and says so,
    /// where it agrees with all.
    fn values(self, m: &Match, mask: u64, f: &mut dyn FnMut(usize)) -> bool {
        let open = !self.of(&m.mask().0) & mask;
        if open == mask {
            return false;
        }
        let value = self.of(&m.value().0) & mask;
        let mut sub = open;
        loop {
            f((value | sub) as usize);
            if sub == 0 {
                return true;
            }
            sub = (sub - 1) & open;
        }
    }
}

/// A rule as it is handed over: rank, id, match.
pub(crate) type Entry = (u64, RuleId, Match);

/// The rules of one table by rank.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    /// Of each window: the row of each value, and a row of those that agree with all.
    rows: Box<[Line]>,
    windows: Vec<Window>,
    /// Bits of a window.
    bits: u32,
    /// Lines of a row that there is room for, and that are in use.
    lines: usize,
    used: usize,
    /// Of each place `stride` lines: masks of [`PART`] words, their values, and the next words.
    data: Vec<Line>,
    stride: usize,
    /// Words of the key that are compared; behind them zeros.
    words: [[u8; PART]; WORDS.div_ceil(PART)],
    /// How many these are.
    width: usize,
    /// Rank and id of every place; a vacant one has a rank between its neighbours'.
    ranks: Vec<u64>,
    ids: Vec<u32>,
    /// Places in order; those behind are late.
    sorted: usize,
    /// Where the late rules are, and the largest rank that one of them had.
    late: HashMap<u64, u32>,
    late_top: u64,
    len: usize,
    made_of: usize,
    removed: usize,
    /// Rules by which the windows were chosen, and times that they were taken over since.
    chosen_of: usize,
    kept: u32,
}

impl Ranked {
    /// All the rules of a table, in any order; `old` is what there was before.
    pub(crate) fn new(rules: &[Entry], old: Option<&Self>) -> Self {
        let mut order: Vec<&Entry> = rules.iter().collect();
        order.sort_unstable_by_key(|r| std::cmp::Reverse(r.0));
        let union = order.iter().fold(FlowMask::default(), |u, r| u.union(r.2.mask()));
        let (mut words, mut width) = ([[0; PART]; WORDS.div_ceil(PART)], 0);
        for word in each_word(words_of(&union).max(1)) {
            if let Some(w) = words.as_flattened_mut().get_mut(width) {
                (*w, width) = (word as u8, width + 1);
            }
        }
        let n = order.len();
        let bits = n.max(2).ilog2().saturating_sub(1).clamp(6, 8);
        let lines = (n + n / 4 + SOME).div_ceil(LINE);
        let same = |o: &&Self| {
            (o.bits, o.words) == (bits, words)
                && o.kept < KEPT
                && (o.chosen_of / 2..o.chosen_of * 3 / 2).contains(&n)
        };
        let (windows, chosen_of, kept) = match old.filter(same) {
            Some(o) => (o.windows.clone(), o.chosen_of, o.kept + 1),
            None => (choose(&order, &union, bits), n, 0),
        };
        let mut out = Self {
            rows: vec![Line::default(); windows.len() * ((1 << bits) + 1) * lines].into(),
            windows,
            bits,
            lines,
            used: 0,
            data: Vec::with_capacity(n * width.div_ceil(PART)),
            stride: width.div_ceil(PART),
            words,
            width,
            ranks: Vec::with_capacity(n),
            ids: Vec::with_capacity(n),
            sorted: n,
            late: HashMap::new(),
            late_top: 0,
            len: n,
            made_of: n,
            removed: 0,
            chosen_of,
            kept,
        };
        for (rank, id, m) in order {
            let place = out.add_place();
            out.put(place, *rank, *id, m);
        }
        out
    }

    /// First half of a lookup: the first place whose rule may fit.
    #[inline]
    pub(crate) fn probe(&self, v: Vectors, key: &FlowKey) -> u64 {
        with_vectors(v, Probing { ranked: self, key })
    }

    /// Second half: the winner.
    #[inline]
    pub(crate) fn resolve(&self, v: Vectors, key: &FlowKey, first: u64) -> Option<RuleId> {
        if first == NONE {
            return None;
        }
        let place = first as u32 as usize;
        let fits = self.fits(key, place);
        if fits && first & LATE == 0 {
            return self.id(place);
        }
        with_vectors(v, Searching { ranked: self, key, from: place + usize::from(!fits) })
    }

    /// Of the places from `LINE * from` on, those whose rules may fit, and which words have any.
    #[inline(always)]
    fn left<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        key: &FlowKey,
        from: usize,
    ) -> (u32, [Line; N]) {
        let mut left = [Line([u64::MAX; 8]); N];
        let mask = (1u64 << self.bits) - 1;
        let mut start = from;
        for w in &self.windows {
            let row = start + (w.of(&key.0) & mask) as usize * self.lines;
            let open = start + (self.lines << self.bits);
            start = open + self.lines;
            let lines = |at: usize| self.rows.get(at..)?.first_chunk::<N>();
            let (Some(row), Some(open)) = (lines(row), lines(open)) else { continue };
            for ((l, r), o) in left.iter_mut().zip(row).zip(open) {
                *l = lanes.sift(l, r, o);
            }
        }
        let mut some = 0;
        for (i, l) in left.iter().enumerate() {
            some |= lanes.nonzero(l) << (8 * i);
        }
        (some, left)
    }

    /// The first place of `N` lines whose rule may fit, and whether a late one's may.
    #[inline(always)]
    fn first_of<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        key: &FlowKey,
        from: usize,
    ) -> Option<u64> {
        let (some, left) = self.left::<N, L>(lanes, key, from);
        let word = some.trailing_zeros() as usize;
        let bits = left.get(word / 8)?.0[word % 8];
        let first = (from * LINE + word * 64) as u64 + u64::from(bits.trailing_zeros());
        if self.late.is_empty() {
            return Some(first);
        }
        let word = some.ilog2() as usize;
        let bits = left.get(word / 8)?.0[word % 8];
        let last = from * LINE + word * 64 + bits.checked_ilog2()? as usize;
        let late = last >= self.sorted || from + N < self.used;
        Some(first | if late { LATE } else { 0 })
    }

    #[inline(always)]
    fn first<L: Lanes>(&self, lanes: L, key: &FlowKey) -> u64 {
        let mut line = 0;
        while line < self.used {
            let first = match self.used - line {
                1 => self.first_of::<1, L>(lanes, key, line),
                2 => self.first_of::<2, L>(lanes, key, line),
                3 => self.first_of::<3, L>(lanes, key, line),
                _ => self.first_of::<SPAN, L>(lanes, key, line),
            };
            if let Some(first) = first {
                if let Some(rule) = self.data.get(first as u32 as usize * self.stride) {
                    prefetch_read(rule);
                }
                return first;
            }
            line += SPAN;
        }
        NONE
    }

    /// Whether the rule of a place fits.
    #[inline(always)]
    fn fits(&self, key: &FlowKey, place: usize) -> bool {
        let from = place * self.stride;
        let Some(data) = self.data.get(from..from + self.stride) else { return false };
        let word = |w: u8| key.0.get(usize::from(w)).copied().unwrap_or(0);
        let mut differ = 0;
        for (part, line) in self.words.iter().zip(data) {
            let (masks, values) = line.0.split_at(PART);
            for ((w, mask), value) in part.iter().zip(masks).zip(values) {
                differ |= (word(*w) & mask) ^ value;
            }
        }
        differ == 0
    }

    #[inline(always)]
    fn id(&self, place: usize) -> Option<RuleId> {
        self.ids.get(place).map(|&id| RuleId(id))
    }

    /// The winner, where all places before `from` have none.
    #[inline(always)]
    fn search<L: Lanes>(&self, lanes: L, key: &FlowKey, mut from: usize) -> Option<RuleId> {
        let mut best = None;
        let mut floor = 0;
        let mut line = from / LINE;
        while line < self.used {
            let (mut some, [mut left]) = self.left::<1, L>(lanes, key, line);
            while some != 0 {
                let word = some.trailing_zeros() as usize % 8;
                let bits = left.0[word];
                let place = line * LINE + word * 64 + bits.trailing_zeros() as usize;
                left.0[word] = bits & bits.wrapping_sub(1);
                some = if left.0[word] == 0 { some & (some - 1) } else { some };
                if place < from || !self.fits(key, place) {
                    continue;
                }
                let rank = self.ranks.get(place).copied().unwrap_or(0);
                if rank > floor {
                    (best, floor) = (self.id(place), rank);
                }
                if place < self.sorted {
                    // Of those in order no other is better.
                    if self.late.is_empty() || self.late_top < floor {
                        return best;
                    }
                    from = self.sorted;
                }
            }
            line = (line + 1).max(from / LINE);
        }
        best
    }

    /// Adds a rule. False where there is no room: all must be made anew.
    pub(crate) fn insert(&mut self, rank: u64, id: RuleId, m: &Match) -> bool {
        let known = self.words.as_flattened().iter().take(self.width);
        let known = known.fold(0, |words, &w| words | 1u32 << w);
        if words_of(m.mask()) & !known != 0 {
            return false;
        }
        let Some(place) = self.vacancy(rank).or_else(|| self.last_place(rank)) else {
            return false;
        };
        self.len += 1;
        self.put(place, rank, id, m);
        true
    }

    /// A vacant place in order for this rank: that of a rule that has gone.
    fn vacancy(&self, rank: u64) -> Option<usize> {
        let at = self.ranks.get(..self.sorted)?.partition_point(|&r| r > rank);
        let vacant = |p: &usize| *p < self.sorted && self.is_vacant(*p);
        [at, at.wrapping_sub(1)].into_iter().find(vacant)
    }

    /// A place behind all others.
    fn last_place(&mut self, rank: u64) -> Option<usize> {
        let at = self.ranks.len();
        let in_order = at == self.sorted && self.ranks.last().is_none_or(|&last| last > rank);
        let crowded = !in_order && self.late.len() > self.made_of / 8 + SOME;
        if crowded || at == self.lines * LINE {
            return None;
        }
        if in_order {
            self.sorted += 1;
        } else {
            self.late.insert(rank, at as u32);
            self.late_top = self.late_top.max(rank);
        }
        Some(self.add_place())
    }

    fn add_place(&mut self) -> usize {
        let at = self.ranks.len();
        self.ranks.push(0);
        self.ids.push(0);
        self.data.extend(std::iter::repeat_n(Line::default(), self.stride));
        self.used = (at + 1).div_ceil(LINE);
        at
    }

    /// Removes the rule with this rank. False where so many have gone that all should be made anew.
    pub(crate) fn remove(&mut self, rank: u64) -> bool {
        let place = match self.late.remove(&rank) {
            Some(place) => Some(place as usize),
            None => {
                let ranks = self.ranks.get(..self.sorted).unwrap_or_default();
                let at = ranks.partition_point(|&r| r > rank);
                (ranks.get(at) == Some(&rank)).then_some(at)
            }
        };
        if let Some(place) = place {
            // Nothing fits a place that demands a bit outside its mask.
            if let Some((mask, value)) = self.column(place, 0) {
                (*mask, *value) = (0, 1);
            }
            self.len -= 1;
            self.removed += 1;
        }
        self.removed <= self.len + SOME
    }

    fn is_vacant(&self, place: usize) -> bool {
        self.data.get(place * self.stride).is_some_and(|l| l.0[0] == 0 && l.0[PART] == 1)
    }

    /// Mask and value of a place's word `n`.
    fn column(&mut self, place: usize, n: usize) -> Option<(&mut u64, &mut u64)> {
        let line = self.data.get_mut(place * self.stride + n / PART)?;
        let (masks, values) = line.0.split_at_mut(PART);
        Some((masks.get_mut(n % PART)?, values.get_mut(n % PART)?))
    }

    /// Writes a rule to a place, and its bits to the rows.
    fn put(&mut self, place: usize, rank: u64, id: RuleId, m: &Match) {
        for n in 0..self.width {
            let word = usize::from(self.words.as_flattened().get(n).copied().unwrap_or(0));
            let demanded = (m.mask().0.get(word).copied(), m.value().0.get(word).copied());
            if let (Some((mask, value)), (Some(of_mask), Some(of_value))) =
                (self.column(place, n), demanded)
            {
                (*mask, *value) = (of_mask, of_value);
            }
        }
        if let (Some(r), Some(i)) = (self.ranks.get_mut(place), self.ids.get_mut(place)) {
            (*r, *i) = (rank, id.0);
        }
        let (word, bit) = (place / 64 % 8, 1u64 << (place % 64));
        let mut start = place / LINE;
        for w in &self.windows {
            let mut mark = |v: usize| {
                if let Some(l) = self.rows.get_mut(start + v * self.lines) {
                    l.0[word] |= bit;
                }
            };
            if !w.values(m, (1 << self.bits) - 1, &mut mark) {
                mark(1 << self.bits);
            }
            start += ((1 << self.bits) + 1) * self.lines;
        }
    }

    #[cfg(test)]
    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + self.windows.capacity() * size_of::<Window>()
            + self.data.capacity() * size_of::<Line>()
            + self.ranks.capacity() * size_of::<u64>()
            + self.ids.capacity() * size_of::<u32>()
            // A control byte an entry, and an eighth of them vacant at least.
            + self.late.capacity() * (size_of::<(u64, u32)>() + 1) * 8 / 7
    }
}

struct Probing<'a> {
    ranked: &'a Ranked,
    key: &'a FlowKey,
}

impl Work for Probing<'_> {
    type Out = u64;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u64 {
        self.ranked.first(lanes, self.key)
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

/// The windows that leave the fewest rules, each chosen beside those before it, by a sample.
fn choose(order: &[&Entry], union: &FlowMask, bits: u32) -> Vec<Window> {
    let mask = (1u64 << bits) - 1;
    let every = |n: usize, most: usize| n.div_ceil(most).max(1);
    let sample: Vec<&Match> =
        order.iter().step_by(every(order.len(), SAMPLE)).map(|r| &r.2).collect();
    let some = sample.iter().step_by(every(sample.len(), KEYS)).enumerate();
    let keys: Vec<FlowKey> = some.map(|(i, m)| some_key(m, order, i as u64)).collect();
    let mut sifted: Vec<(Window, Vec<Line>)> = Vec::new();
    for (word, used) in union.0.iter().enumerate() {
        for shift in (0..=64 - bits).step_by(2).filter(|s| used >> s & mask != 0) {
            let window = Window { word: word as u8, shift: shift as u8 };
            let (mut rows, mut open) = (vec![Line::default(); 1 << bits], Line::default());
            for (i, m) in sample.iter().enumerate() {
                let (word, bit) = (i / 64 % 8, 1u64 << (i % 64));
                let mut mark = |v: usize| {
                    if let Some(l) = rows.get_mut(v) {
                        l.0[word] |= bit;
                    }
                };
                if !window.values(m, mask, &mut mark) {
                    open.0[word] |= bit;
                }
            }
            let row = |k: &FlowKey| {
                let row = rows.get((window.of(&k.0) & mask) as usize).copied().unwrap_or(open);
                Line(std::array::from_fn(|i| row.0[i] | open.0[i]))
            };
            sifted.push((window, keys.iter().map(row).collect()));
        }
    }
    let mut left = vec![Line([u64::MAX; 8]); keys.len()];
    let mut chosen = vec![];
    let mut compared = usize::MAX;
    while chosen.len() < WINDOWS {
        let with = |rows: &[Line]| -> usize { left.iter().zip(rows).map(both).sum() };
        let best = sifted.iter().map(|(w, rows)| (with(rows), w, rows)).min_by_key(|b| b.0);
        let Some((n, window, rows)) = best else { break };
        // A window costs about as much as a twentieth of a comparison for each key.
        let saved =
            compared.saturating_sub(n).saturating_mul(20 * order.len() / sample.len().max(1));
        if saved <= keys.len() {
            break;
        }
        compared = n;
        chosen.push(*window);
        for (l, r) in left.iter_mut().zip(rows) {
            l.0.iter_mut().zip(&r.0).for_each(|(l, r)| *l &= r);
        }
    }
    // Without one, places that nobody has would seem to fit.
    if chosen.is_empty() {
        chosen.push(Window::default());
    }
    chosen
}

fn both((left, row): (&Line, &Line)) -> usize {
    left.0.iter().zip(&row.0).map(|(l, r)| (l & r).count_ones() as usize).sum()
}

/// A key that a rule fits; what the rule leaves open is another rule's, or anything.
fn some_key(m: &Match, order: &[&Entry], salt: u64) -> FlowKey {
    let mut key = *m.value();
    let mut x = (salt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let other = order.get((x >> 32) as usize % order.len().max(1)).map_or(m, |r| &r.2);
    let masks = m.mask().0.iter().zip(other.mask().0).zip(other.value().0);
    for (k, ((mask, other), value)) in key.0.iter_mut().zip(masks) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *k |= !mask & (value | x & !other);
    }
    key
}
