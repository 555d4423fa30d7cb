//! A leaf of an index: up to [`PLACES`] rules in the order of their ranks, with a bit each in the rows of eight windows of four
//! bits, a row being one line of memory. Who looks up ANDs eight lines and compares what is left, nearly always one rule.
//!
//! Called by `tree` and `burst` alone. *In order* means: priorities fall from place to place, and of rules of the same priority
//! that some key fits both, the one with the larger rank stands first. So the first of those in order that a key fits is the best of
//! them, while rules that never meet may stand as they come. A rule that is added has the smallest rank of its priority. It goes to a
//! vacant place in order, if there is one nearby: who leaves leaves one, with its
//! bits, which mostly are those of who comes next; only the rank says that nobody is there. Behind all others it is in
//! order as long as priorities fall, and *late* otherwise: asked whether it is better where its bit is left. When [`LATE`] rules
//! are late, or no place is left behind the last, all are put in order anew. A rule is found as a key would find it that fits it.

use super::place::{Asks, Place, Words, choose_for_leaf};
use crate::rule::RuleId;
use crate::simd::{Lanes, Line, Vectors, Work, prefetch_read, prefetch_slice, with_vectors};
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
const NEAR: usize = 256;
/// Rules that may move for one that is added, and one more.
const MOST_MOVES: usize = 24;
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
    /// The smallest number, of those that make ranks of equal priority differ, that a rule here has had: that of the youngest.
    youngest: u32,
    /// Priority of every place; a vacant one has one between its neighbours'.
    priorities: Vec<u32>,
    /// Places that have rules, a bit each.
    taken: Line,
    len: usize,
}

/// Whether rules may move for one that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    Some,
    None,
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
        out.sorted = out.places.len() as u32;
        out
    }

    /// The largest rank in it, or 0.
    pub(super) fn top(&self) -> u64 {
        self.rules().map(|p| p.rank).max().unwrap_or(0)
    }
    /// All rules here.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Place<W>> {
        let words = self.taken.0.into_iter().enumerate();
        let taken = words.flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                let at = word * 64 + bits.trailing_zeros() as usize;
                (bits != 0).then(|| {
                    bits &= bits - 1;
                    at
                })
            })
        });
        taken.filter_map(|at| self.places.get(at))
    }
    fn is_taken(&self, place: usize) -> bool {
        self.taken.0[place / 64 % 8] >> (place % 64) & 1 != 0
    }
    fn take(&mut self, place: usize) {
        self.taken.0[place / 64 % 8] |= 1 << (place % 64);
    }
    fn vacate(&mut self, place: usize) {
        self.taken.0[place / 64 % 8] &= !(1 << (place % 64));
    }
    /// Whether a rule more finds room.
    pub(super) fn has_room(&self) -> bool {
        self.len < ROOM
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
        // No branch: how many are left can't be foretold.
        let (at, bit) = (self.sorted / 64 % 8, self.sorted % 64);
        let late = ((left.0[at as usize] >> bit != 0) | (some >> at > 1)) & (self.late() != 0);
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

    /// The rule that asks just this, found by the rows of a key that fits it and comes here.
    #[inline(always)]
    fn find<L: Lanes>(
        &self,
        lanes: L,
        asks: &Asks<W>,
        key: &[u64; W],
        which: Which,
    ) -> Option<usize> {
        let rows = self.rows(lanes, &Words::new(key));
        let left = lanes.store(self.left(lanes, &rows));
        for (word, mut bits) in left.0.into_iter().enumerate() {
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let p = self.places.get(place)?;
                if which.is(p.rank) && p.asks == *asks {
                    return Some(place);
                }
            }
        }
        None
    }
    pub(super) fn rule(&self, place: usize) -> Option<&Place<W>> {
        self.places.get(place)
    }

    /// Adds a rule, or, if it is at this place already, what else it asks of keys. It must have room.
    pub(super) fn insert(
        &mut self,
        v: Vectors,
        rule: &Place<W>,
        asks: &Asks<W>,
        there: Option<usize>,
        moves: Moves,
    ) -> usize {
        if let Some(place) = there {
            self.mark(v, place, asks, Bits::Set);
            return place;
        }
        let place = match moves {
            Moves::Some => self.make_way(v, rule),
            Moves::None => self.vacancy(rule),
        };
        let place = place.or_else(|| self.last_place(rule)).unwrap_or_else(|| {
            self.sort(v);
            // Where there is room there is one now.
            self.last_place(rule).unwrap_or(self.places.len())
        });
        if self.places.get(place).is_none() {
            self.push(v, rule, asks);
            return place;
        }
        // Who left the place has left its bits.
        let (mut marked, mut old) = (false, None);
        if let (Some(p), Some(q)) = (self.places.get_mut(place), self.priorities.get_mut(place)) {
            marked = p.asks == rule.asks;
            old = Some(*p);
            (*p, *q) = (*rule, priority(rule.rank));
        }
        if let (false, Some(old)) = (marked, old) {
            self.mark(v, place, &old.asks, Bits::Clear);
            self.mark(v, place, asks, Bits::Set);
        }
        self.arrives(place, rule);
        place
    }

    /// The rule at the first place that is behind all others.
    fn push(&mut self, v: Vectors, rule: &Place<W>, asks: &Asks<W>) {
        let at = self.places.len();
        if at == self.places.capacity() {
            self.places.reserve_exact(STEP);
            self.priorities.reserve_exact(STEP);
        }
        self.priorities.push(priority(rule.rank));
        self.places.push(*rule);
        self.mark(v, at, asks, Bits::Set);
        self.arrives(at, rule);
    }
    fn arrives(&mut self, place: usize, rule: &Place<W>) {
        self.take(place);
        self.len += 1;
        self.youngest = self.youngest.min(rule.rank as u32);
    }
    /// Whether no rule that has been here of its priority is younger; there is no telling where in order it would stand otherwise.
    fn is_youngest(&self, rank: u64) -> bool {
        rank as u32 <= self.youngest
    }

    /// The first place in order of this priority, and the one behind all of it.
    fn run_of(&self, p: u32) -> (usize, usize) {
        let all = self.priorities.get(..self.sorted as usize).unwrap_or_default();
        (all.partition_point(|&q| q > p), all.partition_point(|&q| q >= p))
    }
    /// Asks for some of the lines that [`Leaf::insert`] reads to find a place.
    pub(super) fn prefetch_order(&self) {
        let n = self.priorities.len();
        for eighth in 1..8 {
            self.priorities.get(n * eighth / 8).into_iter().for_each(prefetch_read);
        }
    }

    /// A vacant place in order for this rule: that of one that has gone. Whom it passes on its way there it never meets.
    fn vacancy(&self, rule: &Place<W>) -> Option<usize> {
        let (at, end) = self.vacant_for(rule)?;
        (at == end || self.blocks(at, end, &rule.asks).is_none()).then_some(at)
    }
    /// The same, or a place in order that another leaves for a vacant one, whose place perhaps a further one takes.
    fn make_way(&mut self, v: Vectors, rule: &Place<W>) -> Option<usize> {
        let (at, end) = self.vacant_for(rule)?;
        let (mut moves, mut count) = ([end; MOST_MOVES], 0);
        let mut asks = &rule.asks;
        while let Some(blocks) = self.blocks(at, moves[count], asks) {
            asks = &self.places.get(blocks)?.asks;
            count += 1;
            *moves.get_mut(count)? = blocks;
        }
        let mut to = at;
        for from in moves.get(1..=count)?.iter().rev() {
            self.shift(v, *from, to);
            to = *from;
        }
        Some(to)
    }
    /// A vacant place near that in order for this rule, and that: only rules of its own priority stand between them.
    fn vacant_for(&self, rule: &Place<W>) -> Option<(usize, usize)> {
        if !self.is_youngest(rule.rank) {
            return None;
        }
        let p = priority(rule.rank);
        let (start, end) = self.run_of(p);
        if end < self.sorted as usize && !self.is_taken(end) {
            return Some((end, end));
        }
        let at = self.vacant_before(end)?;
        (at + 1 >= start && end - at <= NEAR).then_some((at, end))
    }
    /// The last between these places whose rule may meet one that asks so.
    fn blocks(&self, after: usize, before: usize, asks: &Asks<W>) -> Option<usize> {
        let between = self.places.get(after + 1..before)?;
        Some(after + 1 + between.iter().rposition(|p| p.asks.meet(asks))?)
    }
    /// Moves a rule to a vacant place.
    fn shift(&mut self, v: Vectors, from: usize, to: usize) {
        let (Some(p), Some(q)) = (self.places.get(from).copied(), self.places.get(to).copied())
        else {
            return;
        };
        self.mark(v, to, &q.asks, Bits::Clear);
        self.mark(v, to, &p.asks, Bits::Set);
        self.places.get_mut(to).into_iter().for_each(|to| *to = p);
        self.priorities.get_mut(to).into_iter().for_each(|to| *to = priority(p.rank));
        self.places.get_mut(from).into_iter().for_each(|from| from.rank = VACANT);
        self.take(to);
        self.vacate(from);
    }
    /// The last vacant place before this one.
    fn vacant_before(&self, end: usize) -> Option<usize> {
        let (word, bit) = (end / 64, end % 64);
        let of = |word: usize| !self.taken.0.get(word).copied().unwrap_or(u64::MAX);
        let mut left = of(word) & ((1 << bit) - 1);
        let mut word = word;
        while left == 0 {
            word = word.checked_sub(1)?;
            left = of(word);
        }
        Some(word * 64 + 63 - left.leading_zeros() as usize)
    }

    /// A place behind all others; none where all must be put in order first.
    fn last_place(&mut self, rule: &Place<W>) -> Option<usize> {
        let in_order = self.behind(rule.rank)?;
        self.sorted += u32::from(in_order);
        Some(self.places.len())
    }

    /// Whether a rule has no place before all are put in order.
    pub(super) fn must_sort(&self, rule: &Place<W>) -> bool {
        self.behind(rule.rank).is_none() && self.vacancy(rule).is_none()
    }
    /// Whether this rank would be in order behind all others; none where there is no place, or none for one more late rule.
    fn behind(&self, rank: u64) -> Option<bool> {
        let falls = |last: &u32| *last >= priority(rank);
        let in_order =
            self.late() == 0 && self.is_youngest(rank) && self.priorities.last().is_none_or(falls);
        let room = self.places.len() < PLACES && (in_order || self.late() < LATE);
        room.then_some(in_order)
    }

    /// Puts all in order.
    fn sort(&mut self, v: Vectors) {
        let mut all: Vec<Place<W>> = self.rules().copied().collect();
        all.sort_unstable_by_key(|p| Reverse(p.rank));
        self.rows.iter_mut().flatten().for_each(|l| *l = Line::default());
        (self.taken, self.len) = (Line::default(), 0);
        self.priorities.clear();
        self.places.clear();
        all.iter().for_each(|p| self.push(v, p, &p.asks));
        self.sorted = all.len() as u32;
    }

    /// Removes the rule at this place.
    pub(super) fn remove(&mut self, v: Vectors, place: usize) {
        let Some(p) = self.places.get_mut(place) else { return };
        self.len -= 1;
        if place < self.sorted as usize {
            p.rank = VACANT;
            return self.vacate(place);
        }
        let asks = p.asks;
        self.mark(v, place, &asks, Bits::Clear);
        // Late ones have no order to keep: the last takes the place.
        let last = self.places.len() - 1;
        if place != last
            && let Some(p) = self.places.get(last).copied()
        {
            self.mark(v, last, &p.asks, Bits::Clear);
            self.mark(v, place, &p.asks, Bits::Set);
            self.places.get_mut(place).into_iter().for_each(|to| *to = p);
            self.priorities.get_mut(place).into_iter().for_each(|to| *to = priority(p.rank));
        }
        self.vacate(last);
        self.priorities.pop();
        self.places.pop();
    }

    /// Gives every rule the rank that `f` says; their order must stay.
    pub(super) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.youngest = u32::MAX;
        for p in self.places.iter_mut().filter(|p| p.rank != VACANT) {
            p.rank = f(p.rank);
            self.youngest = self.youngest.min(p.rank as u32);
        }
    }

    /// Sets or clears the bit of a place in all rows of those values.
    fn mark(&mut self, v: Vectors, place: usize, asks: &Asks<W>, bits: Bits) {
        with_vectors(v, Marking { leaf: self, place, asks, bits });
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + self.places.capacity() * size_of::<Place<W>>()
            + self.priorities.capacity() * size_of::<u32>()
    }
}

/// What becomes of a place's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    Set,
    Clear,
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

struct Marking<'a, const W: usize> {
    leaf: &'a mut Leaf<W>,
    place: usize,
    asks: &'a Asks<W>,
    bits: Bits,
}

impl<const W: usize> Work for Marking<'_, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (word, bit) = (self.place / 64 % 8, 1u64 << (self.place % 64));
        for (w, rows) in self.leaf.windows.iter().zip(&mut self.leaf.rows) {
            self.asks.values(lanes, *w, |v| {
                let row = &mut rows[v % VALUES].0[word];
                match self.bits {
                    Bits::Set => *row |= bit,
                    Bits::Clear => *row &= !bit,
                }
            });
        }
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
        let v = Vectors::best();
        let mut leaf = Leaf::new(v, all, &[], &[]);
        let find = |leaf: &Leaf<3>, p: &Place<3>, rank| {
            let which = Which::Rank(rank);
            with_vectors(v, Finding { leaf, asks: &p.asks, narrowed: &p.asks, which })
        };
        let mut ranks: Vec<u64> = (0..400).map(rank).collect();
        let mut next = 400;
        // Several are gone at a time.
        for i in (0..4_000u64).map(|i| (i * 7919 % 400) as usize) {
            for i in [i, (i + 13) % 400] {
                let at = find(&leaf, &flow(i as u32, 0), ranks[i]).unwrap();
                leaf.remove(v, at);
                assert_eq!(find(&leaf, &flow(i as u32, 0), ranks[i]), None);
            }
            for i in [(i + 13) % 400, i] {
                let p = flow(i as u32, next);
                (ranks[i], next) = (p.rank, next + 1);
                assert!(leaf.has_room());
                leaf.insert(v, &p, &p.asks, None, Moves::Some);
            }
            assert_eq!((leaf.late(), leaf.rules().count()), (0, 400));
        }
        let gone = find(&leaf, &flow(5, 0), ranks[5]).unwrap();
        leaf.remove(v, gone);
        let open = form.place(rank(next), RuleId(1_000), &Match::any());
        let at = leaf.insert(v, &open, &open.asks, None, Moves::None);
        assert_eq!(find(&leaf, &open, open.rank), Some(at));
        let of = |i: usize| find(&leaf, &flow(i as u32, 0), ranks[i]).unwrap();
        assert!((0..400).filter(|i| *i != 5).all(|i| of(i) < at));
        // One that is older than what it meets has no place in order.
        let (nine, ten) = (of(9), of(10));
        leaf.remove(v, nine);
        leaf.remove(v, ten);
        let old = flow(9, 300);
        let at = leaf.insert(v, &old, &old.asks, None, Moves::Some);
        assert!(leaf.late() == 1 && find(&leaf, &old, old.rank) == Some(at));
    }
}
