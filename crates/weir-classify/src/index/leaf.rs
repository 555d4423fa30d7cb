//! A leaf of an index: up to [`PLACES`] rules in the order of their ranks, with a bit each in the rows of eight windows of four
//! bits, a row being one line of memory. Who looks up ANDs eight lines and compares what is left, nearly always one rule.
//!
//! Called by `tree` and `burst` alone. *In order* means: priorities fall from place to place, and of rules of the same priority
//! that some key fits both, the one with the larger rank stands first. So the first of those in order that a key fits is the best of
//! them, while rules that never meet may stand as they come. A rule that is added has the smallest rank of its priority. It goes to a
//! vacant place in order, if there is one nearby: who leaves leaves one, with its
//! bits, which mostly are those of who comes next; only the rank says that nobody is there. Behind all others it is in
//! order as long as priorities fall, and *late* otherwise: asked whether it is better where its bit is left. When [`LATE`] rules
//! are late, or no place is left behind the last, all are put in order anew.

use super::place::{Asks, Place, Words, choose_for_leaf};
use crate::rule::RuleId;
use crate::simd::{Lanes, Line, Vectors, prefetch_read, prefetch_slice};
use crate::windows::{WINDOWS, Window, every};
use std::cmp::Reverse;

/// Places of a leaf: bits of a line.
const PLACES: usize = 512;
/// Rules of a leaf, at most: some places stay for order.
const ROOM: usize = PLACES / 16 * 15;
const BITS: u32 = 4;
/// Values of a window.
const VALUES: usize = 1 << BITS;
/// Late rules from which on all are put in order.
const LATE: usize = 64;
/// What the rank of a rule that has gone is, where lookups see it; no rule's.
const VACANT: u64 = 0;
/// Places of rules of its own priority that a rule may pass on its way to a vacant one.
const NEAR: usize = 32;
/// Places made at a time.
const STEP: usize = 32;
/// What [`Leaf::first`] says beside a place: that there is none, that other rules may fit, and that one of them may be late.
const NONE: u64 = PLACES as u64;
const MORE: u64 = NONE << 1;
const LATER: u64 = NONE << 2;

/// Bytes of a leaf that lookups read, beside what these lead to.
const READ: usize = 192;

/// Of each window, the value that a key has.
pub(super) type Rows = [u8; WINDOWS];

/// What a lookup reads of it stands in its first lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf<const W: usize> {
    /// Of each window, the row of each value.
    rows: Box<[[Line; VALUES]]>,
    windows: [Window; WINDOWS],
    places: Vec<Place<W>>,
    /// Places in order; those behind are late.
    sorted: u32,
    /// Rank of every place; a vacant one has a priority between its neighbours'.
    ranks: Vec<u64>,
    len: usize,
}

/// Of a rank.
fn priority(rank: u64) -> u32 {
    (rank >> 32) as u32
}

impl<const W: usize> Leaf<W> {
    /// A leaf of these rules, each with what it asks of the keys that come here; some may stand there twice.
    /// One without rules has windows for such as these `others`. Keys that come here beside those of its rules are like
    /// these `visitors`.
    pub(super) fn new(
        v: Vectors,
        mut rules: Vec<(Place<W>, Asks<W>)>,
        others: &[Place<W>],
        visitors: &[[u64; W]],
    ) -> Self {
        rules.sort_unstable_by_key(|(p, _)| Reverse(p.rank));
        let of_others = || others.iter().step_by(every(others.len(), PLACES)).map(|p| &p.asks);
        let some: Vec<_> = match rules.is_empty() {
            true => of_others().enumerate().collect(),
            false => rules.iter().map(|r| &r.1).enumerate().collect(),
        };
        let windows = choose_for_leaf(v, &some, visitors, BITS);
        let mut out = Self {
            rows: vec![[Line::default(); VALUES]; WINDOWS].into(),
            windows,
            places: Vec::with_capacity(rules.len()),
            sorted: 0,
            ranks: Vec::with_capacity(rules.len()),
            len: 0,
        };
        for (place, asks) in &rules {
            out.put(place, asks);
        }
        out
    }

    /// The largest rank in it, or 0.
    pub(super) fn top(&self) -> u64 {
        self.taken().filter_map(|p| self.ranks.get(p)).copied().max().unwrap_or(0)
    }
    /// Places that have rules.
    fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ranks.len()).filter(|&p| self.is_taken(p))
    }
    fn is_taken(&self, place: usize) -> bool {
        self.places.get(place).is_some_and(|p| p.rank != VACANT)
    }
    fn late(&self) -> usize {
        self.places.len().saturating_sub(self.sorted as usize)
    }

    /// Asks for what [`Leaf::rows`] and [`Leaf::first`] read of the leaf itself.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch_slice(std::slice::from_ref(self), READ);
    }
    /// The rows that say what may fit a key, which are asked for.
    #[inline(always)]
    pub(super) fn rows<L: Lanes>(&self, lanes: L, key: &Words) -> Rows {
        let mut out = [0; WINDOWS];
        if let Some(all) = self.rows.first_chunk::<WINDOWS>() {
            for i in 0..WINDOWS {
                let value = key.of(lanes, &self.windows[i]) % VALUES;
                out[i] = value as u8;
                prefetch_read(&all[i][value]);
            }
        }
        out
    }
    /// The places whose rules may fit.
    #[inline(always)]
    fn left<L: Lanes>(&self, lanes: L, rows: &Rows) -> L::Row {
        let mut left = lanes.ones();
        if let Some(all) = self.rows.first_chunk::<WINDOWS>() {
            for i in 0..WINDOWS {
                left = lanes.and(left, &all[i][usize::from(rows[i]) % VALUES]);
            }
        }
        left
    }

    /// The first place whose rule may fit, which is asked for, and what else there is; see [`NONE`].
    #[inline(always)]
    pub(super) fn first<L: Lanes>(&self, lanes: L, rows: &Rows) -> u64 {
        let row = self.left(lanes, rows);
        let some = lanes.nonzero(row);
        let left = lanes.store(row);
        let word = some.trailing_zeros() as usize % 8;
        let bits = left.0[word];
        let place = word * 64 + bits.trailing_zeros() as usize % 64;
        if let Some(rule) = self.places.get(place) {
            prefetch_slice(std::slice::from_ref(rule), size_of::<Place<W>>());
        }
        // No branch: how many are left can't be foretold. By whole words: who looks for a late rule where there is none
        // answers as well.
        let late = (self.late() != 0) & (some >> (self.sorted / 64).min(7) != 0);
        let more = u64::from(some & some.wrapping_sub(1)) | bits & bits.wrapping_sub(1) != 0;
        let none = some == 0;
        place as u64
            | (u64::from(none) * NONE)
            | (u64::from(more) * MORE)
            | (u64::from(more & late) * LATER)
    }

    /// The winner here, where its rank is above `floor`: all of a lookup at once.
    #[inline(always)]
    pub(super) fn winner<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        let rows = self.rows(lanes, key);
        let said = self.first(lanes, &rows);
        self.lookup(lanes, key, &rows, said, floor)
    }

    /// The winner here, where its rank is above `floor`; [`Leaf::first`] was `found`.
    #[inline(always)]
    pub(super) fn lookup<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        rows: &Rows,
        found: u64,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        if found & NONE != 0 {
            return None;
        }
        let first = self.fitting(key, found as usize % PLACES);
        if found & LATER == 0 && first.is_some() || found & MORE == 0 {
            return first.filter(|f| f.0 > floor);
        }
        let left = lanes.store(self.left(lanes, rows));
        self.search(key, left, floor)
    }

    /// The same, of the places that are left.
    #[inline(always)]
    fn search(&self, key: &Words, left: Line, mut floor: u64) -> Option<(u64, RuleId)> {
        let (mut best, mut from) = (None, 0);
        for (word, mut bits) in left.0.into_iter().enumerate() {
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if place < from {
                    continue;
                }
                let Some(p) = self.places.get(place) else { return best };
                let in_order = place < self.sorted as usize;
                let above = p.rank > floor;
                if key.fit(&p.asks) & above {
                    (best, floor) = (Some((p.rank, RuleId(p.id as u32))), p.rank);
                } else if (priority(p.rank) >= priority(floor)) | (p.rank == VACANT) | !in_order {
                    continue;
                }
                // Of those in order none behind it that the key fits is better.
                if self.late() == 0 {
                    return best;
                }
                from = from.max(self.sorted as usize);
            }
        }
        best
    }

    /// Rank and id of a place's rule, if it fits.
    #[inline(always)]
    fn fitting(&self, key: &Words, place: usize) -> Option<(u64, RuleId)> {
        let p = self.places.get(place)?;
        (key.fit(&p.asks) & (p.rank != VACANT)).then_some((p.rank, RuleId(p.id as u32)))
    }

    /// Adds a rule, or, if it is there, what else it asks of keys. False where there is no room.
    pub(super) fn insert(&mut self, rule: &Place<W>, asks: &Asks<W>) -> bool {
        let room = self.len < ROOM || self.place_of(rule.rank).is_some();
        if room {
            self.put(rule, asks);
        }
        room
    }

    fn put(&mut self, rule: &Place<W>, asks: &Asks<W>) {
        if let Some(place) = self.place_of(rule.rank) {
            return self.mark(place, asks, |row, bit| *row |= bit);
        }
        let place = match self.vacancy(rule).or_else(|| self.last_place(rule)) {
            Some(place) => place,
            None => {
                self.sort();
                match self.last_place(rule) {
                    Some(place) => place,
                    None => return,
                }
            }
        };
        match self.places.get(place) {
            Some(p) if place < self.sorted as usize && p.asks != rule.asks => self.clear(place),
            _ => {}
        }
        self.write(place, rule, asks);
        self.len += 1;
    }

    /// The place in order behind all of this priority, and the first of this priority.
    fn run_of(&self, priority_of: u64) -> (usize, usize) {
        let ranks = self.ranks.get(..self.sorted as usize).unwrap_or_default();
        let p = priority(priority_of);
        (ranks.partition_point(|&r| priority(r) > p), ranks.partition_point(|&r| priority(r) >= p))
    }

    /// A vacant place in order for this rule: that of one that has gone. Whom it passes on its way there it never meets.
    fn vacancy(&self, rule: &Place<W>) -> Option<usize> {
        let (_, end) = self.run_of(rule.rank);
        if end < self.sorted as usize && !self.is_taken(end) {
            return Some(end);
        }
        for at in (end.saturating_sub(NEAR)..end).rev() {
            let there = self.places.get(at)?;
            if there.rank == VACANT {
                return Some(at);
            }
            if priority(there.rank) != priority(rule.rank) || there.asks.meet(&rule.asks) {
                return None;
            }
        }
        None
    }

    /// A place behind all others; none where all must be put in order first.
    fn last_place(&mut self, rule: &Place<W>) -> Option<usize> {
        let in_order = self.behind(rule.rank)?;
        let at = self.ranks.len();
        self.sorted += u32::from(in_order);
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact(STEP);
            self.ranks.reserve_exact(STEP);
        }
        self.ranks.push(rule.rank);
        self.places.push(*rule);
        Some(at)
    }

    /// Whether a rule of this rank has no place before all are put in order.
    pub(super) fn must_sort(&self, rule: &Place<W>) -> bool {
        self.behind(rule.rank).is_none() && self.vacancy(rule).is_none()
    }
    /// Whether this rank would be in order behind all others; none where there is no place, or none for one more late rule.
    fn behind(&self, rank: u64) -> Option<bool> {
        let falls = |last: &u64| priority(*last) >= priority(rank);
        let in_order = self.late() == 0 && self.ranks.last().is_none_or(falls);
        let room = self.ranks.len() < PLACES && (in_order || self.late() < LATE);
        room.then_some(in_order)
    }

    /// Puts all in order.
    fn sort(&mut self) {
        let mut all: Vec<Place<W>> =
            self.taken().filter_map(|p| self.places.get(p)).copied().collect();
        all.sort_unstable_by_key(|p| Reverse(p.rank));
        self.rows.iter_mut().flatten().for_each(|l| *l = Line::default());
        self.ranks.clear();
        self.places.clear();
        self.sorted = all.len() as u32;
        for (at, p) in all.iter().enumerate() {
            self.ranks.push(p.rank);
            self.places.push(*p);
            self.write(at, p, &p.asks);
        }
    }

    /// Removes the rule with this rank, if it is there.
    pub(super) fn remove(&mut self, rank: u64) {
        let Some(place) = self.place_of(rank) else { return };
        self.len -= 1;
        if place < self.sorted as usize {
            self.places.get_mut(place).into_iter().for_each(|p| p.rank = VACANT);
            return;
        }
        self.clear(place);
        // Late ones have no order to keep: the last takes the place.
        let last = self.ranks.len() - 1;
        if place != last
            && let Some(p) = self.places.get(last).copied()
        {
            self.clear(last);
            self.write(place, &p, &p.asks);
        }
        self.ranks.pop();
        self.places.pop();
    }

    fn place_of(&self, rank: u64) -> Option<usize> {
        let is_there = |p: &usize| self.ranks.get(*p) == Some(&rank) && self.is_taken(*p);
        let (start, end) = self.run_of(rank);
        // Mostly ranks fall, too.
        let run = self.ranks.get(start..end)?;
        let there = start + run.partition_point(|&r| r > rank);
        std::iter::once(there)
            .filter(|p| *p < end)
            .chain(start..end)
            .chain(self.sorted as usize..self.ranks.len())
            .find(is_there)
    }

    fn write(&mut self, place: usize, rule: &Place<W>, asks: &Asks<W>) {
        if let (Some(p), Some(r)) = (self.places.get_mut(place), self.ranks.get_mut(place)) {
            // Who left the place has left its bits.
            let marked = place < self.sorted as usize && p.asks == rule.asks && p.rank == VACANT;
            (*p, *r) = (*rule, rule.rank);
            if !marked {
                self.mark(place, asks, |row, bit| *row |= bit);
            }
        }
    }
    /// Takes a place's bits out of the rows.
    fn clear(&mut self, place: usize) {
        let Some(p) = self.places.get(place).copied() else { return };
        self.mark(place, &p.asks, |row, bit| *row &= !bit);
    }

    /// Does `f` to the bit of a place in all rows of those values.
    #[inline(always)]
    fn mark(&mut self, place: usize, asks: &Asks<W>, f: impl Fn(&mut u64, u64)) {
        let (word, bit) = (place / 64 % 8, 1u64 << (place % 64));
        for (w, rows) in self.windows.iter().zip(&mut self.rows) {
            asks.values(*w, VALUES, |v| f(&mut rows[v % VALUES].0[word], bit));
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + self.places.capacity() * size_of::<Place<W>>()
            + self.ranks.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Form;
    use super::*;
    use crate::field::Field;
    use crate::rule::Match;

    /// Rules of one priority that never meet, such as most flows are, go and come back without ever being late, whichever
    /// the order; one that meets another comes behind it.
    #[test]
    fn who_comes_back_is_not_late() {
        let form = Form::new(crate::scan::words_of(
            Match::any().with(Field::EthDst, 0).with(Field::Ipv4Src, 0).mask(),
        ));
        let rank = |n: u64| 7 << 32 | (u64::from(u32::MAX) - n);
        let flow = |i: u32, n: u64| -> Place<3> {
            form.place(rank(n), RuleId(i), &Match::any().with(Field::Ipv4Src, i.into()))
        };
        let all = (0..400).map(|i| flow(i, i.into())).map(|p| (p, p.asks)).collect();
        let mut leaf = Leaf::new(Vectors::best(), all, &[], &[]);
        let mut ranks: Vec<u64> = (0..400).map(rank).collect();
        let mut next = 400;
        // Several are gone at a time.
        for i in (0..4_000u64).map(|i| (i * 7919 % 400) as usize) {
            leaf.remove(ranks[i]);
            leaf.remove(ranks[(i + 13) % 400]);
            for i in [(i + 13) % 400, i] {
                let p = flow(i as u32, next);
                (ranks[i], next) = (p.rank, next + 1);
                assert!(leaf.insert(&p, &p.asks));
            }
            assert_eq!((leaf.late(), leaf.taken().count()), (0, 400));
        }
        leaf.remove(ranks[5]);
        let open = form.place(rank(next), RuleId(1_000), &Match::any());
        assert!(leaf.insert(&open, &open.asks));
        let at = leaf.place_of(open.rank).unwrap();
        assert!((0..400).filter(|i| *i != 5).all(|i| leaf.place_of(ranks[i]).unwrap() < at));
    }
}
