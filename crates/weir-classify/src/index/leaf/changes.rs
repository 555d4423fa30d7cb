//! How the rules of a leaf come and go.
//!
//! Part of `leaf`; called by `tree`. *In order* means: priorities fall from place to place, and of rules of the same priority
//! that some key fits both, the one with the larger rank stands first. So the first of those in order that a key fits is the best of
//! them, while rules that never meet may stand as they come. A rule that is added has the smallest rank of its priority. It goes to a
//! vacant place in order, if there is one nearby, or another moves there for it: who leaves leaves one, with its
//! bits, which mostly are those of who comes next; only the rank says that nobody is there. Behind all others it is in
//! order as long as priorities fall, and *late* otherwise: asked whether it is better where its bit is left. When [`LATE`] rules
//! are late, or no place is left behind the last, all are put in order anew.

use super::super::family::{At, Families};
use super::super::place::{Asks, Kind, Place};
use super::{HALF, Leaf, PLACES, VACANT, priority};
use crate::simd::{Lanes, Line, Vectors, Work, prefetch_read, prefetch_slice, with_vectors};
use std::cmp::Reverse;

/// Late rules from which on all are put in order.
const LATE: usize = 64;
/// Places of rules of its own priority that a rule may pass on its way to a vacant one.
const NEAR: usize = 256;
/// Rules that may move for one that is added, and one more.
const MOST_MOVES: usize = 24;
/// Places made at a time.
const STEP: usize = 32;

/// Whether rules may move for one that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Moves {
    Some,
    None,
}

impl<const W: usize> Leaf<W> {
    fn is_taken(&self, place: usize) -> bool {
        self.taken.0[place / 64 % 8] >> (place % 64) & 1 != 0
    }
    fn take(&mut self, place: usize) {
        self.taken.0[place / 64 % 8] |= 1 << (place % 64);
    }
    fn vacate(&mut self, place: usize) {
        self.taken.0[place / 64 % 8] &= !(1 << (place % 64));
    }
    /// Whether a rule more finds room: some places stay for order.
    pub(in super::super) fn has_room(&self) -> bool {
        self.len < self.rows.places() / 16 * 15
    }
    /// Adds a rule, or, if it is at this place already, what else it asks of keys. It must have room.
    pub(in super::super) fn insert(
        &mut self,
        v: Vectors,
        families: &mut Families,
        rule: &Place<W>,
        asks: &Asks<W>,
        there: Option<usize>,
        moves: Moves,
    ) -> usize {
        if !families.are_none() {
            self.each_family_near(rule, |_, at| families.not_alone(at));
        }
        let families = &*families;
        if let Some(place) = there {
            self.mark(v, place, asks, Bits::Set);
            return place;
        }
        let place = match moves {
            Moves::Some => self.make_way(v, families, rule),
            Moves::None => self.vacancy(rule),
        };
        let place = place.or_else(|| self.last_place(rule)).unwrap_or_else(|| {
            self.sort(v, families);
            // Where there is room there is one now.
            self.last_place(rule).unwrap_or(self.places.len())
        });
        match self.places.get(place).map(|p| (p.asks, p.kind())) {
            None => self.push(v, families, rule, asks),
            Some((left, kind)) => {
                // Who left the place has left its bits; a family those of its rules alone.
                if left != rule.asks || kind == Kind::Gone {
                    self.mark(v, place, &left, Bits::Clear);
                    self.mark(v, place, asks, Bits::Set);
                }
                self.write(place, rule);
                self.arrives(place, rule);
            }
        }
        place
    }
    /// Another rule for a place; what it has in the rows is another matter.
    fn write(&mut self, place: usize, rule: &Place<W>) {
        if let (Some(p), Some(q)) = (self.places.get_mut(place), self.priorities.get_mut(place)) {
            (*p, *q) = (*rule, priority(rule.rank));
        }
        self.bound(place);
    }
    /// What priorities there are at most around this place, after a change there.
    fn bound(&mut self, place: usize) {
        let from = place / HALF * HALF;
        let some_late = self.late() > 0 && from + HALF > self.sorted as usize;
        let first = self.priorities.get(from).copied();
        if let Some(h) = self.highest.0.get_mut(place / HALF) {
            *h = if some_late { u32::MAX } else { first.unwrap_or(u32::MAX) };
        }
    }
    /// All rules stand in order now.
    pub(super) fn all_in_order(&mut self) {
        self.sorted = self.places.len() as u32;
        (0..PLACES).step_by(HALF).for_each(|from| self.bound(from));
    }

    /// The rule at the first place that is behind all others.
    pub(super) fn push(
        &mut self,
        v: Vectors,
        families: &Families,
        rule: &Place<W>,
        asks: &Asks<W>,
    ) {
        let at = self.places.len();
        if at == self.places.capacity() {
            self.places.reserve_exact(STEP);
            self.priorities.reserve_exact(STEP);
        }
        self.priorities.push(priority(rule.rank));
        self.places.push(*rule);
        self.mark_all(v, families, at, asks);
        self.bound(at);
        self.arrives(at, rule);
    }
    fn arrives(&mut self, place: usize, rule: &Place<W>) {
        self.take(place);
        self.len += 1;
        self.youngest = self.youngest.min(rule.rank as u32);
    }

    /// The families here of a rule's priority that meet it, with the rank of their place. None is late.
    fn each_family_near(&self, rule: &Place<W>, mut f: impl FnMut(u64, At)) {
        let (start, end) = self.run_of(priority(rule.rank));
        for place in self.places.get(start..end).unwrap_or_default() {
            if let Some(at) = place.family()
                && place.asks.meet(&rule.asks)
            {
                f(place.rank, at);
            }
        }
    }
    /// Says of families which are not alone in this leaf, when it is made.
    pub(in super::super) fn meet_each_other(&self, families: &mut Families) {
        for run in self.places.chunk_by(|a, b| priority(a.rank) == priority(b.rank)) {
            for (i, one) in run.iter().enumerate() {
                for other in run.get(i + 1..).unwrap_or_default() {
                    let both = [one.family(), other.family()];
                    if both != [None; 2] && one.asks.meet(&other.asks) {
                        both.into_iter().flatten().for_each(|at| families.not_alone(at));
                    }
                }
            }
        }
    }
    /// Whether a rule's rank lies between those of a family here: they have one place, so there is none for it.
    pub(in super::super) fn comes_between(&self, families: &Families, rule: &Place<W>) -> bool {
        let mut between = false;
        if !families.are_none() {
            self.each_family_near(rule, |rank, at| {
                let younger = families.youngest(at, rank).is_some_and(|y| y < rule.rank);
                between |= younger;
            });
        }
        between
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
    /// Asks for the leaf itself.
    pub(in super::super) fn prefetch_whole(&self) {
        prefetch_slice(std::slice::from_ref(self), size_of::<Self>());
    }
    /// Asks for some of the lines that [`Leaf::insert`] reads to find a place.
    pub(in super::super) fn prefetch_order(&self) {
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
    fn make_way(&mut self, v: Vectors, families: &Families, rule: &Place<W>) -> Option<usize> {
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
            self.shift(v, families, *from, to);
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
    fn shift(&mut self, v: Vectors, families: &Families, from: usize, to: usize) {
        let (Some(p), Some(q)) = (self.places.get(from).copied(), self.places.get(to).copied())
        else {
            return;
        };
        self.mark(v, to, &q.asks, Bits::Clear);
        self.write(to, &p);
        self.mark_all(v, families, to, &p.asks);
        if let Some(from) = self.places.get_mut(from) {
            from.vacate();
        }
        self.take(to);
        self.vacate(from);
    }
    /// The last vacant place before this one.
    fn vacant_before(&self, end: usize) -> Option<usize> {
        let of = |word: usize| !self.taken.0.get(word).copied().unwrap_or(u64::MAX);
        let mut word = end / 64;
        let mut left = of(word) & ((1 << (end % 64)) - 1);
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
    pub(in super::super) fn must_sort(&self, rule: &Place<W>) -> bool {
        self.behind(rule.rank).is_none() && self.vacancy(rule).is_none()
    }
    /// Whether this rank would be in order behind all others; none where there is no place, or none for one more late rule.
    fn behind(&self, rank: u64) -> Option<bool> {
        let falls = |last: &u32| *last >= priority(rank);
        let in_order =
            self.late() == 0 && self.is_youngest(rank) && self.priorities.last().is_none_or(falls);
        let room = self.places.len() < self.rows.places() && (in_order || self.late() < LATE);
        room.then_some(in_order)
    }

    /// Puts all in order.
    fn sort(&mut self, v: Vectors, families: &Families) {
        let mut all: Vec<Place<W>> = self.rules().copied().collect();
        all.sort_unstable_by_key(|p| Reverse(p.rank));
        self.rows.clear();
        (self.taken, self.len) = (Line::default(), 0);
        self.priorities.clear();
        self.places.clear();
        all.iter().for_each(|p| self.push(v, families, p, &p.asks));
        self.all_in_order();
    }

    /// Removes the rule at this place, or the family, of which nobody is left.
    pub(in super::super) fn remove(&mut self, v: Vectors, place: usize) {
        let Some(p) = self.places.get_mut(place) else { return };
        self.len -= 1;
        if place < self.sorted as usize {
            p.vacate();
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
            self.write(place, &p);
        }
        self.vacate(last);
        self.priorities.pop();
        self.places.pop();
        self.bound(last);
    }

    /// Gives every rule the rank that `f` says; their order must stay.
    pub(in super::super) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.youngest = u32::MAX;
        for p in self.places.iter_mut().filter(|p| p.rank != VACANT) {
            p.rank = f(p.rank);
            self.youngest = self.youngest.min(p.rank as u32);
        }
    }

    /// Sets the bits of a place in all rows of what its rules ask, of keys that come where this is asked, too.
    pub(super) fn mark_all(
        &mut self,
        v: Vectors,
        families: &Families,
        place: usize,
        asks: &Asks<W>,
    ) {
        let family = self.places.get(place).and_then(Place::family);
        families.each_ask(family, asks, |a| self.mark(v, place, a, Bits::Set));
    }
    /// Sets or clears the bit of a place in all rows of those values.
    pub(super) fn mark(&mut self, v: Vectors, place: usize, asks: &Asks<W>, bits: Bits) {
        with_vectors(v, Marking { leaf: self, place, asks, bits });
    }
}

/// What becomes of a place's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    Set,
    Clear,
}

impl Bits {
    #[inline(always)]
    pub(super) fn write(self, word: &mut u64, bit: u64) {
        match self {
            Self::Set => *word |= bit,
            Self::Clear => *word &= !bit,
        }
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
        let Self { leaf, place, asks, bits } = self;
        leaf.rows.mark(lanes, &leaf.windows, place, asks, bits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::family::Kin;
    use super::super::super::place::Form;
    use super::super::{Finding, Which};
    use super::*;
    use crate::field::Field;
    use crate::rule::{Match, RuleId};

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
        let (none, mut many) = (Families::default(), Families::default());
        let mut leaf = Leaf::new(v, all, &Kin::none(&[]), &[]);
        let find = |leaf: &Leaf<3>, p: &Place<3>, rank| {
            let which = Which::Rank(rank);
            with_vectors(v, Finding { leaf, families: &none, asks: &p.asks, which })
        };
        let mut ranks: Vec<u64> = (0..400).map(rank).collect();
        let mut next = 400;
        // Several are gone at a time.
        for i in (0..4_000u64).map(|i| (i * 7919 % 400) as usize) {
            for i in [i, (i + 13) % 400] {
                let at = find(&leaf, &flow(i as u32, 0), ranks[i]).unwrap();
                leaf.remove(v, at.place);
                assert_eq!(find(&leaf, &flow(i as u32, 0), ranks[i]), None);
            }
            for i in [(i + 13) % 400, i] {
                let p = flow(i as u32, next);
                (ranks[i], next) = (p.rank, next + 1);
                assert!(leaf.has_room());
                leaf.insert(v, &mut many, &p, &p.asks, None, Moves::Some);
            }
            assert_eq!((leaf.late(), leaf.rules().count()), (0, 400));
        }
        let gone = find(&leaf, &flow(5, 0), ranks[5]).unwrap();
        leaf.remove(v, gone.place);
        let open = form.place(rank(next), RuleId(1_000), &Match::any());
        let at = leaf.insert(v, &mut many, &open, &open.asks, None, Moves::None);
        assert_eq!(find(&leaf, &open, open.rank).map(|f| f.place), Some(at));
        let of = |i: usize| find(&leaf, &flow(i as u32, 0), ranks[i]).unwrap();
        assert!((0..400).filter(|i| *i != 5).all(|i| of(i).place < at));
        // One that is older than what it meets has no place in order.
        let (nine, ten) = (of(9), of(10));
        leaf.remove(v, nine.place);
        leaf.remove(v, ten.place);
        let old = flow(9, 300);
        let at = leaf.insert(v, &mut many, &old, &old.asks, None, Moves::Some);
        let found = find(&leaf, &old, old.rank).map(|f| f.place);
        assert!(leaf.late() == 1 && found == Some(at));
    }

    /// Whatever comes and goes, no rule has a priority above what its places are said to have at most; and mostly something is said.
    #[test]
    fn no_priority_is_above_its_bound() {
        let form = Form::new(crate::scan::words_of(Match::any().with(Field::Ipv4Src, 0).mask()));
        let (mut seed, mut youngest) = (7u64, u32::MAX);
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        let mut rule = |priority: u64, i: u64| -> Place<3> {
            youngest -= 1;
            let priority = if priority == 39 { u64::from(u32::MAX) } else { priority };
            let rank = priority << 32 | u64::from(youngest);
            form.place(rank, RuleId(0), &Match::any().with(Field::Ipv4Src, (i % 64).into()))
        };
        let v = Vectors::best();
        let mut many = Families::default();
        let all = (0..300).map(|i| rule(below(40), i)).map(|p| (p, p.asks)).collect();
        let mut leaf = Leaf::new(v, all, &Kin::none(&[]), &[]);
        let mut bounded = 0;
        for round in 0..20_000u64 {
            let taken: Vec<usize> = super::super::each_bit(leaf.taken).collect();
            if leaf.has_room() && (taken.len() < 200 || below(2) == 0) {
                let moves = if below(2) == 0 { Moves::Some } else { Moves::None };
                let p = rule(below(40), round);
                leaf.insert(v, &mut many, &p, &p.asks, None, moves);
            } else {
                leaf.remove(v, taken[below(taken.len() as u64) as usize]);
            }
            for at in super::super::each_bit(leaf.taken) {
                let (most, rank) = (leaf.highest.0[at / HALF], leaf.places[at].rank);
                assert!(priority(rank) <= most, "place {at} in round {round}");
                assert!(leaf.may_have(at / HALF, priority(rank)), "place {at} in round {round}");
                bounded += usize::from(most != u32::MAX);
            }
        }
        assert!(bounded > 1_000_000, "{bounded}");
    }
}
