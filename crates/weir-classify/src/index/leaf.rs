//! A leaf of an index: up to [`PLACES`] rules in the order of their ranks, with a bit each in the rows of eight windows of four
//! bits, a row being one line of memory, or a quarter of one where places are few (`rows`). Who looks up ANDs eight of them and compares what is left, nearly always one rule.
//!
//! Called by `tree` and `burst` alone; `changes` has what comes and goes, and what is meant by *in order* and *late*. A rule is found as a
//! key would find it that fits it.

mod changes;
mod rows;

pub(super) use changes::Moves;
pub(super) use rows::{Either, Narrow, Span, Whole};

use super::family::{At, Families, Kin, Kindred, Seat};
use super::place::{Asks, Kind, Place, VACANT, Words, choose_for_leaf};
use crate::rule::RuleId;
use crate::simd::{Halves, Lanes, Line, Vectors, Work, prefetch_read, prefetch_slice};
use crate::windows::{Picks, WINDOWS, Window, every};
use changes::Bits;
use rows::Rows;
use std::cmp::Reverse;

/// Places of a leaf: bits of a line.
const PLACES: usize = 512;
const BITS: u32 = 4;
/// Places to a half of a word.
const HALF: usize = 32;
/// Values of a window.
const VALUES: usize = 1 << BITS;
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
    rows: Rows,
    places: Vec<Place<W>>,
    /// Places in order; those behind are late.
    sorted: u32,
    /// The smallest number, of those that make ranks of equal priority differ, that a rule here has had: that of the youngest; of a
    /// family that of its oldest, as [`Leaf::comes_between`] looks at the others.
    youngest: u32,
    windows: [Window; WINDOWS],
    /// Of every [`HALF`] places: the first one's priority where none of them is late, else the largest there is. So no rule's priority there
    /// is above this, and where it is not the largest no rule's before is below it. It may be that of one that has gone.
    highest: Halves,
    /// Priority of every place; a vacant one has one between its neighbours'.
    priorities: Vec<u32>,
    /// Places that are taken: how many, and a bit for each.
    len: usize,
    taken: Line,
}

/// A rule that a leaf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) place: usize,
    pub(super) rank: u64,
    pub(super) id: RuleId,
    /// Its family, if it is of one.
    pub(super) of: Option<(At, Seat)>,
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
    #[inline(always)]
    fn priority(self) -> u32 {
        match self {
            Self::Priority(p) => p,
            Self::Rank(r) => priority(r),
        }
    }
}

/// Of a rank.
pub(super) fn priority(rank: u64) -> u32 {
    (rank >> 32) as u32
}

/// The places of a line's bits.
#[inline(always)]
fn each_bit(Line(mut words): Line) -> impl Iterator<Item = usize> {
    let mut word = 0;
    std::iter::from_fn(move || {
        while *words.get(word)? == 0 {
            word += 1;
        }
        let bits = words.get_mut(word)?;
        let at = word * 64 + bits.trailing_zeros() as usize;
        *bits &= bits.wrapping_sub(1);
        Some(at)
    })
}

impl<const W: usize> Leaf<W> {
    /// A leaf of these rules, each with what it asks of the keys that come here; some may stand there twice.
    /// One without rules has windows for such as `kin` has, whose families theirs are. Keys that come here beside those of its rules are like
    /// these `visitors`.
    pub(super) fn new(
        v: Vectors,
        mut rules: Vec<(Place<W>, Asks<W>)>,
        kin: &Kin<W>,
        visitors: &[[u64; W]],
    ) -> Self {
        rules.sort_unstable_by_key(|(p, _)| Reverse(p.rank));
        let others = &kin.heads;
        let of_others = || others.iter().step_by(every(others.len(), PLACES)).map(|p| &p.asks);
        let some: Vec<_> = match rules.is_empty() {
            true => of_others().enumerate().collect(),
            false => rules.iter().map(|r| &r.1).enumerate().collect(),
        };
        let windows = choose_for_leaf(v, &some, visitors, BITS);
        let mut out = Self {
            picks: Picks::new(&windows),
            rows: Rows::lines(),
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
                    out.mark_all(v, &kin.families, out.places.len() - 1, asks);
                }
                _ => out.push(v, &kin.families, place, asks),
            }
        }
        out.all_in_order();
        out
    }

    /// Takes rows of few words, where no more places are needed. Who looks up must know.
    pub(super) fn narrow(&mut self) -> bool {
        let may = self.places.len() <= rows::FEW;
        if may {
            self.rows.narrow();
        }
        may
    }
    /// Takes rows of lines again.
    pub(super) fn widen(&mut self) {
        self.rows.widen();
    }

    /// The largest rank in it, or 0.
    pub(super) fn top(&self) -> u64 {
        self.rules().map(|p| p.rank).max().unwrap_or(0)
    }
    /// All rules here, families as one.
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
    pub(super) fn rows<S: Span, L: Lanes>(&self, lanes: L, key: &Words) -> u64 {
        let picked = self.picked(lanes, key);
        S::prefetch(&self.rows, picked);
        picked
    }
    /// The places whose rules may fit.
    #[inline(always)]
    fn left<S: Span, L: Lanes>(&self, lanes: L, picked: u64) -> L::Row {
        S::left(&self.rows, lanes, picked)
    }

    /// The same, but for those whose rules can't have a rank above `floor`.
    #[inline(always)]
    fn left_above<S: Span, L: Lanes>(&self, lanes: L, picked: u64, floor: u64) -> L::Row {
        lanes.at_least(self.left::<S, L>(lanes, picked), &self.highest, priority(floor))
    }

    /// The first place whose rule may fit, which is asked for, and what else there is; see [`NONE`].
    #[inline(always)]
    pub(super) fn first<S: Span, L: Lanes>(&self, lanes: L, picked: u64) -> u64 {
        self.first_of(lanes, self.left::<S, L>(lanes, picked))
    }
    /// The same, of those whose rules may have a rank above `floor`.
    #[inline(always)]
    pub(super) fn first_above<S: Span, L: Lanes>(&self, lanes: L, picked: u64, floor: u64) -> u64 {
        self.first_of(lanes, self.left_above::<S, L>(lanes, picked, floor))
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
    pub(super) fn winner<'k, S: Span, L: Lanes>(
        &self,
        lanes: L,
        of: impl Kindred<'k>,
        key: &Words,
        picked: u64,
    ) -> Option<(u64, RuleId)> {
        let left = self.left::<S, L>(lanes, picked);
        let found = self.first_of(lanes, left);
        match self.settled(lanes, of, key, found, 0) {
            Some(winner) => winner,
            None => self.search(lanes, of, key, lanes.store(left), 0),
        }
    }

    /// The winner here, where its rank is above `floor`; [`Leaf::first`], or [`Leaf::first_above`] of the same `floor`, was `found`.
    #[inline(always)]
    pub(super) fn lookup<'k, S: Span, L: Lanes>(
        &self,
        lanes: L,
        of: impl Kindred<'k>,
        key: &Words,
        picked: u64,
        found: u64,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        match self.settled(lanes, of, key, found, floor) {
            Some(winner) => winner,
            None => {
                let left = self.left_above::<S, L>(lanes, picked, floor);
                self.search(lanes, of, key, lanes.store(left), floor)
            }
        }
    }
    /// The same, where the first place says it; else all that are left must be searched.
    #[inline(always)]
    fn settled<'k, L: Lanes>(
        &self,
        lanes: L,
        of: impl Kindred<'k>,
        key: &Words,
        found: u64,
        floor: u64,
    ) -> Option<Option<(u64, RuleId)>> {
        if found & NONE != 0 {
            return Some(None);
        }
        let first = self.fitting(lanes, of, key, found as usize % PLACES);
        let settles = found & LATER == 0 && first.is_some() || found & MORE == 0;
        settles.then_some(first.filter(|f| f.0 > floor))
    }

    /// The same, of the places that are left.
    #[inline(always)]
    fn search<'k, L: Lanes>(
        &self,
        lanes: L,
        of: impl Kindred<'k>,
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
                let won = match key.fit(lanes, &p.asks) & above {
                    true => of.told(key, p).filter(|w| w.0 > floor),
                    false => None,
                };
                if let Some(won) = won {
                    (best, floor) = (Some(won), won.0);
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
    fn fitting<'k, L: Lanes>(
        &self,
        lanes: L,
        of: impl Kindred<'k>,
        key: &Words,
        place: usize,
    ) -> Option<(u64, RuleId)> {
        let p = self.places.get(place)?;
        match key.fit(lanes, &p.asks) & (p.rank != VACANT) {
            true => of.told(key, p),
            false => None,
        }
    }
    /// The places that the rows leave to a key that fits what a rule asks, and comes here: a bit each.
    #[inline(always)]
    fn near<L: Lanes>(&self, lanes: L, asks: &Asks<W>) -> Line {
        let picked = self.rows::<Either, L>(lanes, &Words::new(&asks.value));
        lanes.store(self.left::<Either, L>(lanes, picked))
    }
    /// The same, but for those of [`HALF`]s that have no rule of this priority.
    #[inline(always)]
    fn near_of<L: Lanes>(&self, lanes: L, asks: &Asks<W>, p: u32) -> Line {
        let mut left = self.near(lanes, asks);
        for (at, bits) in left.0.iter_mut().enumerate() {
            let [low, high] = [2 * at, 2 * at + 1].map(|half| u64::from(self.may_have(half, p)));
            *bits &= low.wrapping_neg() >> 32 | high.wrapping_neg() << 32;
        }
        left
    }
    /// Whether a half may have rules of this priority.
    #[inline(always)]
    fn may_have(&self, half: usize, p: u32) -> bool {
        let highest = |half: usize| self.highest.0.get(half).copied().unwrap_or(u32::MAX);
        // Priorities fall from half to half, but for late ones, of which there may be any.
        let next = highest(half + 1);
        highest(half) >= p && (next <= p || next == u32::MAX)
    }
    /// The rules of this priority in [those places](Leaf::near_of).
    #[inline(always)]
    fn rules_near<L: Lanes>(
        &self,
        lanes: L,
        asks: &Asks<W>,
        p: u32,
    ) -> impl Iterator<Item = (usize, &Place<W>)> {
        // Sixteen priorities lie in a line, a place in one or two.
        let has = move |at: &usize| self.priorities.get(*at) == Some(&p);
        each_bit(self.near_of(lanes, asks, p)).filter(has).filter_map(|at| self.rule_at(at))
    }
    /// A place that is not vacant.
    #[inline(always)]
    fn rule_at(&self, at: usize) -> Option<(usize, &Place<W>)> {
        Some((at, self.places.get(at).filter(|p| p.rank != VACANT)?))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
            + self.places.capacity() * size_of::<Place<W>>()
            + self.priorities.capacity() * size_of::<u32>()
    }
}

/// How many places are left to a key that asks this; so many are enough.
pub(super) struct Leaving<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    pub(super) asks: &'a Asks<W>,
    pub(super) enough: usize,
}

impl<const W: usize> Work for Leaving<'_, W> {
    type Out = usize;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> usize {
        let Self { leaf, asks, enough } = self;
        each_bit(leaf.near(lanes, asks)).filter_map(|at| leaf.rule_at(at)).take(enough).count()
    }
}

/// The rule of a leaf that asks just this, of those that are asked for there first.
pub(super) struct Finding<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    pub(super) families: &'a Families,
    pub(super) asks: &'a Asks<W>,
    pub(super) which: Which,
}

impl<const W: usize> Work for Finding<'_, W> {
    type Out = Option<Found>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let Self { leaf, families, asks, which } = self;
        let is_it = |(place, p): (usize, &Place<W>)| {
            let (rank, id, of) = match p.kind() {
                Kind::One(id) => (p.asks == *asks).then_some((p.rank, id, None))?,
                Kind::Family(at) => {
                    let seat = families.seat(at, &p.asks, asks)?;
                    let (rank, id) = families.told(seat, p.rank)?;
                    (rank, id, Some((at, seat)))
                }
                Kind::Gone => return None,
            };
            which.is(rank).then_some(Found { place, rank, id, of })
        };
        leaf.rules_near(lanes, asks, which.priority()).find_map(is_it)
    }
}

/// What [`Vacating`] reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Rows,
    /// What these lead to.
    Place,
}

/// Asks for what [`Vacating`] reads of a rule of this priority that asks this of keys that come here.
pub(super) struct Expecting<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    pub(super) asks: &'a Asks<W>,
    /// What the [rows](Expected::Rows) don't need.
    pub(super) priority: u32,
    pub(super) what: Expected,
}

impl<const W: usize> Work for Expecting<'_, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { leaf, asks, priority, what } = self;
        match what {
            Expected::Rows => _ = leaf.rows::<Either, L>(lanes, &Words::new(&asks.value)),
            Expected::Place => {
                let places = leaf.near_of(lanes, asks, priority);
                if let Some(first) = each_bit(places).next() {
                    leaf.priorities.get(first).into_iter().for_each(prefetch_read);
                    leaf.places.get(first).into_iter().for_each(prefetch_read);
                }
            }
        }
    }
}

/// The place of a leaf that has this rule, or this family.
pub(super) struct Vacating<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    /// What the rule asks, or one of the family; and what it asks of keys that come here, which may be more.
    pub(super) asks: &'a Asks<W>,
    pub(super) narrowed: &'a Asks<W>,
    pub(super) rank: u64,
    pub(super) family: Option<At>,
}

impl<const W: usize> Work for Vacating<'_, W> {
    type Out = Option<usize>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let Self { leaf, asks, narrowed, rank, family } = self;
        let is_it = |p: &Place<W>| match (p.kind(), family) {
            (Kind::Family(at), Some(family)) => at == family,
            (Kind::One(_), None) => p.rank == rank && p.asks == *asks,
            _ => false,
        };
        leaf.rules_near(lanes, narrowed, priority(rank)).find(|(_, p)| is_it(p)).map(|f| f.0)
    }
}

/// The seat that a rule has left in a family.
pub(super) struct Returning<'a, const W: usize> {
    pub(super) leaf: &'a Leaf<W>,
    pub(super) families: &'a Families,
    pub(super) rule: &'a Place<W>,
}

impl<const W: usize> Work for Returning<'_, W> {
    type Out = Option<(At, Seat)>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let Self { leaf, families, rule } = self;
        let mut rules = leaf.rules_near(lanes, &rule.asks, priority(rule.rank));
        rules.find_map(|(_, p)| match p.kind() {
            Kind::Family(at) => {
                let seat = families.seat(at, &p.asks, &rule.asks)?;
                families.told(seat, p.rank).is_none().then_some((at, seat))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Form;
    use super::*;
    use crate::field::Field;
    use crate::rule::Match;
    use crate::simd::with_vectors;

    struct Search<'a> {
        leaf: &'a Leaf<3>,
        of: &'a Families,
        key: Words,
        floor: u64,
    }
    impl Work for Search<'_> {
        type Out = Option<(u64, RuleId)>;
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Self::Out {
            self.leaf.search(lanes, self.of, &self.key, self.leaf.taken, self.floor)
        }
    }

    /// A rule that came back to its family is as young as it is, whatever the rank of their place.
    #[test]
    fn a_floor_holds_for_each_of_a_family() {
        let m = |port: u32| Match::any().with(Field::TpDst, port.into());
        let form = Form::new(crate::scan::words_of(m(0).mask()));
        let rank = |n: u64| 7 << 32 | (1000 - n);
        let rules: Vec<Place<3>> =
            (0..4).map(|i| form.place(rank(i), RuleId(i as u32), &m(i as u32 * 3))).collect();
        let Kin { heads, mut families, .. } = Kin::of(&rules).unwrap();
        let kin = Kin::of(&rules).unwrap();
        assert!(heads.len() == 1);
        let v = Vectors::best();
        let leaf = Leaf::new(v, heads.iter().map(|p| (*p, p.asks)).collect(), &kin, &[]);
        let back = form.place(rank(500), RuleId(9), &m(6));
        let Kind::Family(at) = heads[0].kind() else { panic!() };
        let seat = families.seat(at, &heads[0].asks, &back.asks).unwrap();
        families.leave(seat);
        assert!(families.come_back(at, seat, &back));
        let of = |floor| {
            let key = Words::new(&back.asks.value);
            with_vectors(v, Search { leaf: &leaf, of: &families, key, floor })
        };
        assert_eq!(of(rank(501)), Some((rank(500), RuleId(9))));
        assert_eq!(of(rank(499)), None);
    }
}
