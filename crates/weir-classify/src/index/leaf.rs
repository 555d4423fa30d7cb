//! A leaf of an index: up to [`PLACES`] rules in the order of their ranks, with a bit each in the rows of eight windows of four
//! bits, a row being one line of memory. Who looks up ANDs eight lines and compares what is left, nearly always one rule.
//!
//! Called by `tree` and `burst` alone; `changes` has what comes and goes, and what is meant by *in order* and *late*. A rule is found as a
//! key would find it that fits it.

mod changes;

pub(super) use changes::Moves;

use super::place::{Asks, Place, Words, choose_for_leaf};
use crate::rule::RuleId;
use crate::simd::{Halves, Lanes, Line, Vectors, Work, prefetch_read, prefetch_slice};
use crate::windows::{Picks, WINDOWS, Window, every};
use changes::Bits;
use std::cmp::Reverse;

/// Places of a leaf: bits of a line.
const PLACES: usize = 512;
const BITS: u32 = 4;
/// Places to a half of a word.
const HALF: usize = 32;
/// Values of a window.
const VALUES: usize = 1 << BITS;
/// What the rank of a rule that has gone is, where lookups see it; no rule's.
const VACANT: u64 = 0;
/// What [`Leaf::first`] says beside a place: that there is none, that other rules may fit, and that one of them may be late.
const NONE: u64 = PLACES as u64;
const MORE: u64 = NONE << 1;
const LATER: u64 = NONE << 2;

/// Bytes of a leaf that its rows are found by, beside what these lead to: up to the windows, or with them. Where something has been found, a
/// lookup reads `highest`, too.
const READ: usize = 128;
const READ_BY_WINDOWS: usize = READ + size_of::<[Window; WINDOWS]>();
const _: () = assert!(std::mem::offset_of!(Leaf<{ super::NARROW }>, windows) == READ);

/// The value of a window, of what a key has in all.
#[inline(always)]
fn value_of(picked: u64, window: usize) -> usize {
    (picked >> (8 * window)) as usize % VALUES
}

/// What every lookup reads of it stands in its first lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf<const W: usize> {
    picks: Picks,
    /// Of each window, the row of each value.
    rows: Box<[[Line; VALUES]]>,
    places: Vec<Place<W>>,
    /// Places in order; those behind are late.
    sorted: u32,
    /// The smallest number, of those that make ranks of equal priority differ, that a rule here has had: that of the youngest.
    youngest: u32,
    windows: [Window; WINDOWS],
    /// Of every [`HALF`] places: no rule's priority there is above this. It may be that of one that has gone.
    highest: Halves,
    /// Priority of every place; a vacant one has one between its neighbours'.
    priorities: Vec<u32>,
    /// Places that have rules, a bit each.
    taken: Line,
    len: usize,
}

/// Which of the rules that ask the same is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Priority(u32),
    Rank(u64),
}

impl Which {
    #[inline(always)]
    fn is(self, rank: u64) -> bool {
        match self {
            Self::Priority(p) => rank != VACANT && priority(rank) == p,
            Self::Rank(r) => rank == r,
        }
    }
}

/// Of a rank.
fn priority(rank: u64) -> u32 {
    (rank >> 32) as u32
}

/// The places of a line's bits.
#[inline(always)]
fn each_bit(line: Line) -> impl Iterator<Item = usize> {
    line.0.into_iter().enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let at = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| {
                bits &= bits - 1;
                at
            })
        })
    })
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
            picks: Picks::new(&windows),
            rows: vec![[Line::default(); VALUES]; WINDOWS].into(),
            windows,
            highest: Halves([u32::MAX; PLACES / HALF]),
            places: Vec::with_capacity(rules.len()),
            sorted: 0,
            youngest: u32::MAX,
            priorities: Vec::with_capacity(rules.len()),
            taken: Line::default(),
            len: 0,
        };
        for (place, asks) in &rules {
            match out.places.last() {
                // Twice: what else it asks.
                Some(last) if last.rank == place.rank => {
                    out.mark(v, out.places.len() - 1, asks, Bits::Set);
                }
                _ => out.push(v, place, asks),
            }
        }
        out.all_in_order();
        out
    }

    /// The largest rank in it, or 0.
    pub(super) fn top(&self) -> u64 {
        self.rules().map(|p| p.rank).max().unwrap_or(0)
    }
    /// All rules here.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Place<W>> {
        each_bit(self.taken).filter_map(|at| self.places.get(at))
    }
    fn late(&self) -> usize {
        self.places.len().saturating_sub(self.sorted as usize)
    }

    /// Asks for what [`Leaf::rows`] and [`Leaf::first`] read of the leaf itself.
    #[inline(always)]
    pub(super) fn prefetch<L: Lanes>(&self, _: L) {
        let read = if L::BY_WINDOWS { READ_BY_WINDOWS } else { READ };
        prefetch_slice(std::slice::from_ref(self), read);
    }
    /// What a key has in the windows.
    #[inline(always)]
    pub(super) fn picked<L: Lanes>(&self, lanes: L, key: &Words) -> u64 {
        key.of(lanes, &self.picks, &self.windows)
    }
    /// The same; the rows that say what may fit it are asked for.
    #[inline(always)]
    pub(super) fn rows<L: Lanes>(&self, lanes: L, key: &Words) -> u64 {
        let picked = self.picked(lanes, key);
        if let Some(all) = self.rows.first_chunk::<WINDOWS>() {
            for (i, rows) in all.iter().enumerate() {
                prefetch_read(&rows[value_of(picked, i)]);
            }
        }
        picked
    }
    /// The places whose rules may fit.
    #[inline(always)]
    fn left<L: Lanes>(&self, lanes: L, picked: u64) -> L::Row {
        let mut left = lanes.ones();
        if let Some(all) = self.rows.first_chunk::<WINDOWS>() {
            for (i, rows) in all.iter().enumerate() {
                left = lanes.and(left, &rows[value_of(picked, i)]);
            }
        }
        left
    }

    /// The same, but for those whose rules can't have a rank above `floor`.
    #[inline(always)]
    fn left_above<L: Lanes>(&self, lanes: L, picked: u64, floor: u64) -> L::Row {
        lanes.at_least(self.left(lanes, picked), &self.highest, priority(floor))
    }

    /// The first place whose rule may fit, which is asked for, and what else there is; see [`NONE`].
    #[inline(always)]
    pub(super) fn first<L: Lanes>(&self, lanes: L, picked: u64) -> u64 {
        self.first_of(lanes, self.left(lanes, picked))
    }
    /// The same, of those whose rules may have a rank above `floor`.
    #[inline(always)]
    pub(super) fn first_above<L: Lanes>(&self, lanes: L, picked: u64, floor: u64) -> u64 {
        self.first_of(lanes, self.left_above(lanes, picked, floor))
    }
    /// The same, where the places that are left are known.
    #[inline(always)]
    fn first_of<L: Lanes>(&self, lanes: L, row: L::Row) -> u64 {
        let some = lanes.nonzero(row);
        let word = some.trailing_zeros() as usize % 8;
        let bits = lanes.first_word(row, some);
        let place = word * 64 + bits.trailing_zeros() as usize % 64;
        if let Some(rule) = self.places.get(place) {
            prefetch_slice(std::slice::from_ref(rule), size_of::<Place<W>>());
        }
        let late = self.late() != 0 && {
            let (left, at) = (lanes.store(row), self.sorted / 64 % 8);
            (left.0[at as usize] >> (self.sorted % 64) != 0) | (some >> at > 1)
        };
        // No branch: how many are left can't be foretold.
        let more = u64::from(some & some.wrapping_sub(1)) | bits & bits.wrapping_sub(1) != 0;
        let none = some == 0;
        place as u64
            | (u64::from(none) * NONE)
            | (u64::from(more) * MORE)
            | (u64::from(more & late) * LATER)
    }

    /// The winner here, of what the key has in the windows: the rest of a lookup at once. Nothing is asked for ahead, nor kept
    /// for later.
    #[inline(always)]
    pub(super) fn winner<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        picked: u64,
    ) -> Option<(u64, RuleId)> {
        let left = self.left(lanes, picked);
        let found = self.first_of(lanes, left);
        match self.settled(lanes, key, found, 0) {
            Some(winner) => winner,
            None => self.search(lanes, key, lanes.store(left), 0),
        }
    }

    /// The winner here, where its rank is above `floor`; [`Leaf::first`], or [`Leaf::first_above`] of the same `floor`, was `found`.
    #[inline(always)]
    pub(super) fn lookup<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        picked: u64,
        found: u64,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        match self.settled(lanes, key, found, floor) {
            Some(winner) => winner,
            None => {
                let left = self.left_above(lanes, picked, floor);
                self.search(lanes, key, lanes.store(left), floor)
            }
        }
    }
    /// The same, where the first place says it; else all that are left must be searched.
    #[inline(always)]
    fn settled<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        found: u64,
        floor: u64,
    ) -> Option<Option<(u64, RuleId)>> {
        if found & NONE != 0 {
            return Some(None);
        }
        let first = self.fitting(lanes, key, found as usize % PLACES);
        let settles = found & LATER == 0 && first.is_some() || found & MORE == 0;
        settles.then_some(first.filter(|f| f.0 > floor))
    }

    /// The same, of the places that are left.
    #[inline(always)]
    fn search<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        left: Line,
        mut floor: u64,
    ) -> Option<(u64, RuleId)> {
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
                if key.fit(lanes, &p.asks) & above {
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
    fn fitting<L: Lanes>(&self, lanes: L, key: &Words, place: usize) -> Option<(u64, RuleId)> {
        let p = self.places.get(place)?;
        (key.fit(lanes, &p.asks) & (p.rank != VACANT)).then_some((p.rank, RuleId(p.id as u32)))
    }

    /// The rule that asks just this, found by the rows of a key that fits it and comes here.
    #[inline(always)]
    fn find<L: Lanes>(
        &self,
        lanes: L,
        asks: &Asks<W>,
        key: &[u64; W],
        which: Which,
    ) -> Option<usize> {
        let picked = self.rows(lanes, &Words::new(key));
        let is_it = |p: &Place<W>| which.is(p.rank) && p.asks == *asks;
        each_bit(lanes.store(self.left(lanes, picked)))
            .find(|at| self.places.get(*at).is_some_and(is_it))
    }
    pub(super) fn rule(&self, place: usize) -> Option<&Place<W>> {
        self.places.get(place)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + self.places.capacity() * size_of::<Place<W>>()
            + self.priorities.capacity() * size_of::<u32>()
    }
}

/// Where a leaf has the rule that asks just this.
pub(super) struct Finding<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    pub(super) asks: &'a Asks<W>,
    /// What it asks of keys that come here, which may be more.
    pub(super) narrowed: &'a Asks<W>,
    pub(super) which: Which,
}

impl<const W: usize> Work for Finding<'_, W> {
    type Out = Option<usize>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        self.leaf.find(lanes, self.asks, &self.narrowed.value, self.which)
    }
}
