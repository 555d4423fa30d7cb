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
//! it is *astray*, where the rank of who left says what order places are in. If it meets some, others of them go
//! to the vacant place first, past those that they don't meet, until none is in its way. Else it is *late*: it stands
//! behind all others in no order, and is asked whether it is better where its bit is left. When late rules,
//! vacant places or those that other rules took have become many, all is made anew, which each of them has paid for. A late rule that agrees with all values of a window is *loose* until there are
//! [`LOOSE`] of them: its bit stands in one row, which is ORed to the others, and is written to all of
//! them together with those of the rest. The bits of a rule that has gone stay until another takes its place: it costs
//! later lookups a comparison at most, and itself little to come back.
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
/// Late rules, vacant places, and those that others took, that are no reason to make all anew.
const SOME: usize = 64;
/// Times that windows are taken over.
const KEPT: u32 = 8;
/// Places of its own priority that a rule may pass on its way to a vacant one.
const NEAR: usize = 256;
/// The same where others are moved for it, and how many: each move takes a comparison for each two of them at most.
const PASSED: usize = 32;
const MOVES: usize = 16;
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
    /// Of vacant places: mask and value of the first word of who left. And those among them where late rules were.
    left: HashMap<u32, (u64, u64)>,
    left_late: Vec<u32>,
    /// Where the late rules are, and the largest rank that one of them had.
    late: HashMap<u64, u32>,
    late_top: u64,
    len: usize,
    made_of: usize,
    /// Places that another rule took than the one that had left it, since all was made.
    taken_over: usize,
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
            left: HashMap::new(),
            left_late: Vec::new(),
            late: HashMap::new(),
            late_top: 0,
            len: n,
            made_of: n,
            taken_over: 0,
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

    /// Adds a rule. False where there is no room, or most are others than it was made of: all must be made anew.
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
        if self.left.contains_key(&(place as u32)) {
            self.succeed(place, rank, id, m);
        } else {
            // Tables that are filled in order have no loose rules.
            self.put(place, rank, id, m, place < self.sorted());
        }
        if self.loose > LOOSE {
            self.fold();
        }
        // Windows were chosen by other rules.
        self.taken_over <= self.len + SOME
    }

    /// A place in order for this rule: that of a rule that has gone, or of one that goes there.
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
        let hole = last.map(|p| first + p);
        let meets_none = |p: &usize| (p + 1..at).all(|p| !self.meets(p, m));
        if let Some(place) = hole.filter(meets_none) {
            self.note_taken(place, m);
            self.astray.insert(rank, place as u32);
            return Some(place);
        }
        let vacant = |p: &usize| *p < self.sorted() && self.ranks.get(*p) == Some(&VACANT);
        if let Some(place) = [at, at.wrapping_sub(1)].into_iter().find(vacant) {
            self.note_taken(place, m);
            self.order.get_mut(place).into_iter().for_each(|r| *r = rank);
            return Some(place);
        }
        let hole = hole.filter(|p| at - p <= PASSED)?;
        self.note_taken(hole, m);
        let place = self.make_way(hole, at, m)?;
        self.astray.insert(rank, place as u32);
        Some(place)
    }

    /// Some of those between a vacant place and `end`, all of one priority, go to it, one after the other, each past rules that
    /// it does not meet and as far as can be, until none is left behind the vacant place that this rule meets.
    fn make_way(&mut self, vacant: usize, end: usize, m: &Match) -> Option<usize> {
        let (mut hole, mut moves) = (vacant, 0..MOVES);
        while (hole + 1..end).any(|p| self.meets(p, m)) {
            moves.next()?;
            // The next one can always go.
            let (place, (id, goes)) = (hole + 1..end).rev().find_map(|p| {
                let rule = self.rule(p)?;
                (hole + 1..p)
                    .all(|on_its_way| !self.meets(on_its_way, &rule.1))
                    .then_some((p, rule))
            })?;
            let of = self.ranks.get(place).copied()?;
            self.vacate(place);
            self.succeed(hole, of, id, &goes);
            self.astray.insert(of, hole as u32);
            hole = place;
        }
        Some(hole)
    }

    /// The rule of a place, or that which has left it: id and match, as far as its words are kept.
    fn rule(&self, place: usize) -> Option<(RuleId, Match)> {
        let data = self.data.get(place * self.stride..(place + 1) * self.stride)?;
        let at = |i: usize| data.get(i / 8).map_or(0, |l| l.0[i % 8]);
        let is_vacant = self.ranks.get(place) == Some(&VACANT);
        let left = if is_vacant { self.left.get(&(place as u32)) } else { None };
        let (mut mask, mut value) = (FlowMask::default(), FlowKey::default());
        for (i, &w) in self.words.iter().enumerate().take(self.width) {
            let w = usize::from(w);
            if let (Some(m), Some(v)) = (mask.0.get_mut(w), value.0.get_mut(w)) {
                let there = (at(1 + 2 * i), at(2 + 2 * i));
                (*m, *v) = left.copied().filter(|_| i == 0).unwrap_or(there);
            }
        }
        Some((RuleId(at(0) as u32), Match::new(value, mask)))
    }

    /// Notes that a rule takes a vacant place, or has one made for it there, if it is not the one who left it.
    fn note_taken(&mut self, place: usize, m: &Match) {
        let came_back = self.rule(place).is_some_and(|(_, left)| left == *m);
        self.taken_over += usize::from(!came_back);
    }

    /// Nothing fits the place from now on, whose rule and bits are kept for who comes back.
    fn vacate(&mut self, place: usize) {
        let data = self.data.get(place * self.stride);
        let first = data.map_or((0, 0), |l| (l.0[1], l.0[2]));
        // Nothing fits a place that demands a bit outside its mask.
        self.demand(place, 0, 0, 1);
        self.ranks.get_mut(place).into_iter().for_each(|r| *r = VACANT);
        self.left.insert(place as u32, first);
    }

    /// A rule takes the place of one who has left.
    fn succeed(&mut self, place: usize, rank: u64, id: RuleId, m: &Match) {
        let Some((_, old)) = self.rule(place) else { return };
        let left = self.left.remove(&(place as u32));
        if old == *m {
            left.into_iter().for_each(|(mask, value)| self.demand(place, 0, mask, value));
            self.data.get_mut(place * self.stride).into_iter().for_each(|l| l.0[0] = id.0.into());
            self.ranks.get_mut(place).into_iter().for_each(|r| *r = rank);
            self.youngest = self.youngest.min(rank as u32);
            return;
        }
        self.clear(place, &old, m);
        self.put(place, rank, id, m, place < self.sorted());
    }

    /// Takes the bits of a place out of the rows that were written for a rule, but where both that and the next agree with all
    /// values of a window.
    fn clear(&mut self, place: usize, old: &Match, next: &Match) {
        let (line, word, bit) = (place / LINE, place / 64 % 8, 1u64 << (place % 64));
        let (lines, bits) = (self.lines, self.bits);
        let windows = self.windows.iter().zip(self.rows.chunks_exact_mut(lines << bits));
        for ((w, rows), open) in windows.zip(self.open.chunks_exact_mut(lines)) {
            let mut clear = |v: usize| {
                if let Some(l) = rows.get_mut(v * lines + line) {
                    l.0[word] &= !bit;
                }
            };
            let Some(open) = open.get_mut(line).and_then(|l| l.0.get_mut(word)) else { continue };
            let was_open = !w.values(&old.mask().0, &old.value().0, |_| {});
            if was_open && w.values(&next.mask().0, &next.value().0, |_| {}) {
                *open &= !bit;
                (0..1 << bits).for_each(clear);
            } else if !was_open {
                w.values(&old.mask().0, &old.value().0, &mut clear);
            }
        }
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
        if crowded || at == self.lines * LINE && self.left_late.is_empty() {
            return None;
        }
        if !in_order {
            let place = self.left_late.pop().map_or_else(|| self.add_place(), |p| p as usize);
            self.late.insert(rank, place as u32);
            self.late_top = self.late_top.max(rank);
            return Some(place);
        }
        self.order.push(rank);
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
        if self.late.is_empty() {
            self.late_top = 0;
        }
        let place = match apart {
            Some(place) => Some(place as usize),
            None => {
                let at = self.order.partition_point(|&r| r > rank);
                (self.ranks.get(at) == Some(&rank)).then_some(at)
            }
        };
        if let Some(place) = place {
            self.vacate(place);
            self.len -= 1;
            if place >= self.sorted() {
                self.left_late.push(place as u32);
            }
        }
        self.left.len() <= self.len + SOME
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
            + self.left_late.capacity() * size_of::<u32>()
            // A control byte an entry, and an eighth of them vacant at least.
            + (self.late.capacity() + self.astray.capacity()) * (size_of::<(u64, u32)>() + 1) * 8 / 7
            + self.left.capacity() * (size_of::<(u32, (u64, u64))>() + 1) * 8 / 7
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

    /// Rules of few priorities of which many meet go and come back, or others in their place, and the winner is the judge's.
    /// Rows have the bits of those that are there and of vacant places' last ones, and no others.
    #[test]
    fn who_comes_back_goes_behind_those_it_meets() {
        // So many of a priority, and one in so many comes back as another rule.
        for (each, other, late_ones) in [(20, usize::MAX, false), (20, 3, false), (150, 50, true)] {
            let mut random = 9u32;
            let mut below = |n: u32| {
                random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                (random >> 16) % n
            };
            let mut any = || {
                let mut part = || u128::from(below(64) & below(64) | 1 << below(6));
                let m = Match::any().with_masked(Field::Ipv4Src, part(), part());
                m.with_masked(Field::Ipv4Dst, part(), part() << 8 | 1 | part())
            };
            let mut rules: Vec<(u64, Match)> = (0..300).map(|i| (i / each, any())).collect();
            let rank = |priority: u64, n: usize| priority << 32 | (u64::from(u32::MAX) - n as u64);
            let mut ranks: Vec<u64> =
                rules.iter().enumerate().map(|(i, (p, _))| rank(*p, i)).collect();
            let entries = |ranks: &[u64], rules: &[(u64, Match)]| -> Vec<Entry> {
                let all = ranks.iter().zip(rules).enumerate();
                all.map(|(i, (r, (_, m)))| (*r, RuleId(i as u32), *m)).collect()
            };
            let mut t = Ranked::new(&entries(&ranks, &rules), None);
            let (mut moved, mut anew, mut checked, mut late) = (0, 0, 0, 0);
            let v = Vectors::best();
            for step in 0..4_000usize {
                let i = step * 7919 % rules.len();
                let places = |t: &Ranked, ranks: &[u64]| -> Vec<Option<usize>> {
                    ranks.iter().map(|r| t.ranks.iter().position(|x| x == r)).collect()
                };
                let before = places(&t, &ranks);
                let mut again = !t.remove(ranks[i]);
                if step % other == other - 1 {
                    rules[i].1 = any();
                }
                let (priority, m) = rules[i];
                ranks[i] = rank(priority, rules.len() + step);
                again |= !t.insert(ranks[i], RuleId(i as u32), &m);
                let after = places(&t, &ranks);
                moved += (0..rules.len()).filter(|&o| o != i && after[o] != before[o]).count();
                let key = *rules[step * 31 % rules.len()].1.value();
                // One that found no room is not there yet.
                for key in [*m.value(), key].into_iter().take(if again { 0 } else { 2 }) {
                    let fit = (0..rules.len()).filter(|&i| rules[i].1.matches(&key));
                    let want = fit.max_by_key(|&i| ranks[i]).map(|i| RuleId(i as u32));
                    assert_eq!(t.resolve(v, &key, t.probe(v, &key)), want, "{step}");
                }
                late += usize::from(t.has_late());
                if again {
                    t = Ranked::new(&entries(&ranks, &rules), Some(&t));
                    anew += 1;
                }
                if step % 100 == 0 {
                    let (mut is, mut ought) = (t.clone(), t.clone());
                    ought.rows.fill(Line::default());
                    ought.open.fill(Line::default());
                    for place in 0..t.ranks.len() {
                        let (id, m) = t.rule(place).unwrap();
                        ought.put(place, t.ranks[place], id, &m, place < t.sorted());
                    }
                    [&mut is, &mut ought].into_iter().for_each(Ranked::fold);
                    assert!(is.rows.iter().zip(&ought.rows).all(|(a, b)| a.0 == b.0), "{step}");
                    assert!(is.open.iter().zip(&ought.open).all(|(a, b)| a.0 == b.0), "{step}");
                    checked += 1;
                }
            }
            assert!(moved > 100 && checked == 40, "{moved} {checked}");
            assert_eq!(late > 1_000, late_ones, "{late}");
            // Those that are the same as before are no reason.
            let others = if other == usize::MAX { 0 } else { 4_000 / other };
            let most = if late_ones { 200 } else { others / 300 + usize::from(others > 0) };
            assert!((others / 400..=most).contains(&anew), "{anew}");
        }
    }

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
