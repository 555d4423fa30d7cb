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
//! one. So does one whose way there passes only rules of its own priority that no key fits beside it:
//! it is *astray*, where the rank of who left says what order places are in. Else it is *late*: it stands
//! behind all others in no order, and is asked whether it is better where its bit is left. When late or
//! removed rules have become many, all is made anew, which each of them has paid for. A late rule that agrees with all values of a window is *loose* until there are
//! [`LOOSE`] of them: its bit stands in one row, which is ORed to the others, and is written to all of
//! them together with those of the rest. Rows only gain bits: a rule that has gone costs later lookups
//! a comparison at most.
//!
//! **What it costs.** Lookup: a line of memory for each window and 512 places, and one for each rule
//! compared of up to three words (two of up to seven). What is done for each window is what a lookup
//! costs, a hundred nanoseconds or thirty: so the ways are compiled for each number of lines, and an
//! index needs no check. Memory: at most eight windows of 256 rows with a bit for each place, these
//! lines of rules, and an eighth more for what may come. Worst case: rules that agree in all windows
//! are compared one after the other, as a scan does, of [`MOST`] rules at most. Source: the bit vectors
//! of Lakshman and Stiliadis, SIGCOMM '98, made updatable.

mod lookup;

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::{Match, RuleId};
use crate::scan::{each_word, words_of};
use crate::simd::Line;
use crate::windows::{Choice, WINDOWS, Window, every, fill_key, other_of};
use std::collections::HashMap;

/// Places to a line of a row.
const LINE: usize = 512;
/// Late rules that agree with a whole window and are asked for apart, at most.
const LOOSE: usize = 64;
/// Rules that there may be: more rows would cost a lookup more than they save.
pub(crate) const MOST: usize = 4096;
/// Rules by which windows are chosen, and keys.
const SAMPLE: usize = LINE;
const KEYS: usize = 128;
/// Late or removed rules that are no reason to make all anew.
const SOME: usize = 64;
/// Times that windows are taken over.
const KEPT: u32 = 8;
/// Places of its own priority that a rule may pass on its way to a vacant one.
const NEAR: usize = 256;
/// The rank of no rule.
const VACANT: u64 = 0;

/// A rule as it is handed over: rank, id, match.
pub(crate) type Entry = (u64, RuleId, Match);

/// The rules of one table by rank.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    /// Of each window: the row of each value.
    rows: Box<[Line]>,
    windows: [Window; WINDOWS],
    /// How many these are.
    count: usize,
    /// Of each window: those that agree with all values.
    open: Box<[Line]>,
    /// How many of these have come since that was last noted in all the rows.
    loose: usize,
    /// Bits of a window.
    bits: u32,
    /// Lines of a row that there is room for, and that are in use.
    lines: usize,
    used: usize,
    /// Of each place `stride` lines: the id, then mask and value of each word.
    data: Vec<Line>,
    stride: usize,
    /// Words of the key that are compared; behind them zeros.
    words: [u8; WORDS],
    /// How many these are.
    width: usize,
    /// Rank of every place's rule; [`VACANT`] where there is none.
    ranks: Vec<u64>,
    /// Of the places in order: ranks that fall from one to the next, those of their rules, but for vacant ones and those that have
    /// one who is astray.
    order: Vec<u64>,
    /// Where rules are that are astray.
    astray: HashMap<u64, u32>,
    /// The rank of the youngest rule so far, without its priority.
    youngest: u32,
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
        let (mut words, mut width) = ([0; WORDS], 0);
        for word in each_word(words_of(&union).max(1)) {
            if let Some(w) = words.get_mut(width) {
                (*w, width) = (word as u8, width + 1);
            }
        }
        let stride = (1 + 2 * width).div_ceil(8);
        let n = order.len();
        let bits = n.max(2).ilog2().saturating_sub(1).clamp(6, 8);
        let lines = (n + n / 8 + SOME).div_ceil(LINE);
        let same = |o: &&Self| {
            (o.bits, o.words) == (bits, words)
                && o.kept < KEPT
                && (o.chosen_of / 2..o.chosen_of * 3 / 2).contains(&n)
        };
        let ((windows, count), chosen_of, kept) = match old.filter(same) {
            Some(o) => ((o.windows, o.count), o.chosen_of, o.kept + 1),
            None => (choose(&order, bits), n, 0),
        };
        let mut out = Self {
            rows: vec![Line::default(); (count << bits) * lines].into(),
            open: vec![Line::default(); count * lines].into(),
            loose: 0,
            windows,
            count,
            bits,
            lines,
            used: 0,
            data: Vec::with_capacity(n * stride),
            stride,
            words,
            width,
            ranks: Vec::with_capacity(n),
            order: order.iter().map(|r| r.0).collect(),
            astray: HashMap::new(),
            youngest: u32::MAX,
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
            out.put(place, *rank, *id, m, false);
        }
        out.fold();
        out
    }

    /// Adds a rule. False where there is no room: all must be made anew.
    pub(crate) fn insert(&mut self, rank: u64, id: RuleId, m: &Match) -> bool {
        let known = self.words.iter().take(self.width);
        let known = known.fold(0, |words, &w| words | 1u32 << w);
        if words_of(m.mask()) & !known != 0 {
            return false;
        }
        let Some(place) = self.vacancy(rank, m).or_else(|| self.last_place(rank)) else {
            return false;
        };
        self.len += 1;
        // Tables that are filled in order have no loose rules.
        self.put(place, rank, id, m, place < self.sorted());
        if self.loose > LOOSE {
            self.fold();
        }
        true
    }

    /// A vacant place in order for this rule: that of a rule that has gone.
    fn vacancy(&mut self, rank: u64, m: &Match) -> Option<usize> {
        // Where a younger one is astray nobody can tell.
        if !self.is_youngest(rank) {
            return None;
        }
        let at = self.order.partition_point(|&r| r > rank);
        // All of its priority are older, so that only those it meets must stand before it.
        let near = self.order.get(at.saturating_sub(NEAR)..at)?;
        let first = at - (near.len() - near.partition_point(|r| r >> 32 > rank >> 32));
        let last = self.ranks.get(first..at)?.iter().rposition(|&r| r == VACANT);
        if let Some(place) = last.map(|p| first + p)
            && (place + 1..at).all(|p| !self.meets(p, m))
        {
            self.astray.insert(rank, place as u32);
            return Some(place);
        }
        let vacant = |p: &usize| *p < self.sorted() && self.ranks.get(*p) == Some(&VACANT);
        let place = [at, at.wrapping_sub(1)].into_iter().find(vacant)?;
        self.order.get_mut(place).into_iter().for_each(|r| *r = rank);
        Some(place)
    }

    /// Places in order; those behind are late.
    #[inline(always)]
    fn sorted(&self) -> usize {
        self.order.len()
    }
    fn is_youngest(&self, rank: u64) -> bool {
        (rank as u32) < self.youngest
    }

    /// Whether some key fits both this rule and that of a place.
    fn meets(&self, place: usize, m: &Match) -> bool {
        let Some(data) = self.data.get(place * self.stride..(place + 1) * self.stride) else {
            return true;
        };
        let at = |i: usize| data.get(i / 8).map_or(0, |l| l.0[i % 8]);
        let words = self.words.iter().enumerate().take(self.width);
        let differ = words.fold(0, |differ, (i, &w)| {
            let of = |words: &[u64]| words.get(usize::from(w)).copied().unwrap_or(0);
            let (mask, value) = (of(&m.mask().0), of(&m.value().0));
            differ | (value ^ at(2 + 2 * i)) & mask & at(1 + 2 * i)
        });
        differ == 0
    }

    /// A place behind all others.
    fn last_place(&mut self, rank: u64) -> Option<usize> {
        let at = self.ranks.len();
        let falls = self.order.last().is_none_or(|&last| last > rank);
        let in_order = at == self.sorted() && falls && self.is_youngest(rank);
        let crowded = !in_order && self.late.len() > self.made_of / 8 + SOME;
        if crowded || at == self.lines * LINE {
            return None;
        }
        if in_order {
            self.order.push(rank);
        } else {
            self.late.insert(rank, at as u32);
            self.late_top = self.late_top.max(rank);
        }
        Some(self.add_place())
    }

    fn add_place(&mut self) -> usize {
        let at = self.ranks.len();
        self.ranks.push(VACANT);
        self.data.extend(std::iter::repeat_n(Line::default(), self.stride));
        self.used = (at + 1).div_ceil(LINE);
        at
    }

    /// Removes the rule with this rank. False where so many have gone that all should be made anew.
    pub(crate) fn remove(&mut self, rank: u64) -> bool {
        let apart = self.late.remove(&rank).or_else(|| self.astray.remove(&rank));
        let place = match apart {
            Some(place) => Some(place as usize),
            None => {
                let at = self.order.partition_point(|&r| r > rank);
                (self.ranks.get(at) == Some(&rank)).then_some(at)
            }
        };
        if let Some(place) = place {
            // Nothing fits a place that demands a bit outside its mask.
            self.demand(place, 0, 0, 1);
            self.ranks.get_mut(place).into_iter().for_each(|r| *r = VACANT);
            self.len -= 1;
            self.removed += 1;
        }
        self.removed <= self.len + SOME
    }

    /// Writes what a place demands of word `n`.
    fn demand(&mut self, place: usize, n: usize, mask: u64, value: u64) {
        for (i, x) in [(1 + 2 * n, mask), (2 + 2 * n, value)] {
            if let Some(l) = self.data.get_mut(place * self.stride + i / 8) {
                l.0[i % 8] = x;
            }
        }
    }

    /// Writes a rule to a place, and its bits to the rows; those of a loose one too where `all`.
    fn put(&mut self, place: usize, rank: u64, id: RuleId, m: &Match, all: bool) {
        for n in 0..self.width {
            let word = usize::from(self.words.get(n).copied().unwrap_or(0));
            if let (Some(&mask), Some(&value)) = (m.mask().0.get(word), m.value().0.get(word)) {
                self.demand(place, n, mask, value);
            }
        }
        if let Some(l) = self.data.get_mut(place * self.stride) {
            l.0[0] = u64::from(id.0);
        }
        if let Some(r) = self.ranks.get_mut(place) {
            *r = rank;
        }
        self.youngest = self.youngest.min(rank as u32);
        let (line, word, bit) = (place / LINE, place / 64 % 8, 1u64 << (place % 64));
        let windows = self.windows.iter().zip(self.rows.chunks_exact_mut(self.lines << self.bits));
        let mut loose = false;
        for ((w, rows), open) in windows.zip(self.open.chunks_exact_mut(self.lines)) {
            let mut mark = |v: usize| {
                if let Some(l) = rows.get_mut(v * self.lines + line) {
                    l.0[word] |= bit;
                }
            };
            let Some(open) = open.get_mut(line).and_then(|l| l.0.get_mut(word)) else { continue };
            let (mask, value) = (&m.mask().0, &m.value().0);
            if *open & bit == 0 && !w.values(mask, value, &mut mark) {
                *open |= bit;
                if all {
                    (0..1 << self.bits).for_each(mark);
                }
                loose |= !all;
            }
        }
        self.loose += usize::from(loose);
    }

    /// Notes in all rows of a window who agrees with all its values, so that nobody need ask for that.
    fn fold(&mut self) {
        let windows = self.rows.chunks_exact_mut(self.lines << self.bits);
        for (rows, open) in windows.zip(self.open.chunks_exact(self.lines)) {
            for row in rows.chunks_exact_mut(self.lines) {
                for (r, o) in row.iter_mut().zip(open) {
                    r.0.iter_mut().zip(o.0).for_each(|(r, o)| *r |= o);
                }
            }
        }
        self.loose = 0;
    }

    #[cfg(test)]
    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + size_of_val(&*self.open)
            + self.data.capacity() * size_of::<Line>()
            + (self.ranks.capacity() + self.order.capacity()) * size_of::<u64>()
            // A control byte an entry, and an eighth of them vacant at least.
            + (self.late.capacity() + self.astray.capacity()) * (size_of::<(u64, u32)>() + 1) * 8 / 7
    }
}

/// The windows that leave the fewest rules, by a sample.
fn choose(order: &[&Entry], bits: u32) -> ([Window; WINDOWS], usize) {
    let sample: Vec<&Match> =
        order.iter().step_by(every(order.len(), SAMPLE)).map(|r| &r.2).collect();
    let some = sample.iter().step_by(every(sample.len(), KEYS)).enumerate();
    let keys: Vec<FlowKey> = some.map(|(i, m)| some_key(m, order, i as u64)).collect();
    let keys: Vec<&[u64]> = keys.iter().map(|k| k.0.as_slice()).collect();
    let rules =
        sample.iter().enumerate().map(|(i, m)| (i, m.mask().0.as_slice(), m.value().0.as_slice()));
    let rules: Vec<_> = rules.collect();
    let scale = 20 * order.len() / sample.len().max(1);
    // A window costs about as much as a twentieth of a comparison for each key.
    let pays = |saved: usize| saved.saturating_mul(scale) > keys.len();
    Choice { rules: &rules, groups: rules.len(), keys: &keys, bits }.windows(pays)
}

/// A key that a rule fits; what the rule leaves open is another rule's, or anything.
fn some_key(m: &Match, order: &[&Entry], salt: u64) -> FlowKey {
    let mut key = *m.value();
    let other = order.get(other_of(salt, order.len())).map_or(m, |r| &r.2);
    fill_key(&mut key.0, &m.mask().0, (&other.mask().0, &other.value().0), salt);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::simd::Vectors;

    /// Rules of few priorities that never meet go and come back, several at a time, without ever being late; one that meets
    /// another comes behind it.
    #[test]
    fn who_comes_back_is_not_late() {
        let rank = |i: u64, n: u64| (i / 40) << 32 | (u64::from(u32::MAX) - n);
        let flow = |i: u64| Match::any().with(Field::Ipv4Src, i.into());
        let all: Vec<Entry> = (0..400).map(|i| (rank(i, i), RuleId(i as u32), flow(i))).collect();
        let mut t = Ranked::new(&all, None);
        let mut ranks: Vec<u64> = all.iter().map(|r| r.0).collect();
        let (mut next, mut astray) = (400, 0);
        let found = |t: &Ranked, i: u64| {
            let (v, key) = (Vectors::best(), *flow(i).value());
            t.resolve(v, &key, t.probe(v, &key))
        };
        for i in (0..4_000u64).map(|i| i * 7919 % 400) {
            let mut anew = false;
            for i in [i, (i + 13) % 400] {
                anew |= !t.remove(ranks[i as usize]);
                assert_eq!(found(&t, i), None);
            }
            for i in [(i + 13) % 400, i] {
                let rank = rank(i, next);
                assert!(t.insert(rank, RuleId(i as u32), &flow(i)));
                (ranks[i as usize], next) = (rank, next + 1);
                assert_eq!(found(&t, i), Some(RuleId(i as u32)));
            }
            astray += t.astray.len();
            assert!(!t.has_late() && t.len == 400);
            if anew {
                let all = ranks.iter().zip(0..).map(|(r, i)| (*r, RuleId(i as u32), flow(i)));
                t = Ranked::new(&all.collect::<Vec<_>>(), Some(&t));
            }
        }
        assert!(astray > 1_000, "{astray}");
        // What all meet stands behind those of its priority: the place of the first of them is not for it.
        let place = |t: &Ranked, i: u64| t.ranks.iter().position(|r| *r == ranks[i as usize]);
        let first = (360..400).min_by_key(|i| place(&t, *i)).unwrap();
        assert!(t.remove(ranks[first as usize]));
        assert!(t.insert(rank(399, next), RuleId(999), &Match::any()) && t.has_late());
        let all = [first, 399, 361, 3].map(|i| found(&t, i).map(|r| u64::from(r.0)));
        assert_eq!(all, [999, 399, 361, 999].map(Some));
    }
}
