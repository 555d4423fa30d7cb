//! A table's rules in tuples, and the rest: takes any rules, one change at a time.
//!
//! Room: data-path core. Called by `fast` alone, whose head says what the parts are and how they change. Where lookups do not ask
//! them (rules that stand by rank are asked for in that order alone), they are kept in no order, without a sieve.

mod copy;

pub(crate) use copy::{Copied, Copy};

use crate::key::{FlowKey, FlowMask};
use crate::rule::{Match, Rule, RuleId};
use crate::scan::Scan;
use crate::shape::choose;
use crate::sieve::Sieve;
use crate::simd::Vectors;
use crate::tuple::{Slot, Tuple};
use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// Rules that may share a slot of a tuple.
const COMPANY: usize = 64;
/// The rest is looked at for a new tuple each time it has grown by this much.
const STEP: usize = 8;
/// Rules that may be missing to a first tuple that is exact.
const OTHERS: usize = 2;
/// Rules that a tuple is not worth a probe for.
const FEW: usize = STEP / 4;
/// Tuples from which on a sieve says which of them to ask.
pub(crate) const SIFTED: usize = 8;
/// Rules of the rest, or of a tuple's slots, that are as good as a part.
pub(crate) const LONG: usize = 32;
/// One in so many rules of the rest may go before what all look at is worth computing anew.
const STALE: usize = 16;

/// What is known of the first tuple that a lookup asks.
#[derive(Clone, Copy)]
pub(crate) enum Ahead {
    Nothing,
    Hash(u64),
    Slot(Slot),
}

/// See the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Parts {
    /// Sorted by their largest priority, larger first, where lookups ask them and there is no sieve; where there is, as they
    /// were when it was made.
    pub(crate) tuples: Vec<Tuple>,
    pub(crate) rest: Scan,
    /// Where there are several tuples, and lookups ask them.
    pub(crate) sieve: Option<Box<Sieve>>,
    /// Whether lookups ask them.
    asked: bool,
    /// Who waits looks for a first tuple only when it is told to ([`Parts::shape`]).
    first_tuple: FirstTuple,
    /// Length of the rest at which a new tuple is looked for.
    trigger: u32,
    len: u32,
    /// Rules of the rest that have gone since [`Parts::is_stale`] said so.
    gone: u32,
    /// How often tuples have been disbanded, and how often that was when it last said so.
    disbanded: u32,
    said: u32,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            tuples: Vec::new(),
            rest: Scan::default(),
            sieve: None,
            asked: true,
            first_tuple: FirstTuple::WhenDue,
            trigger: STEP as u32,
            len: 0,
            gone: 0,
            disbanded: 0,
            said: 0,
        }
    }
}

impl Parts {
    /// None yet.
    pub(crate) fn with_first_tuple(first_tuple: FirstTuple) -> Self {
        Self { first_tuple, ..Self::default() }
    }
    /// With a first tuple when these parts would have theirs.
    pub(crate) fn like(self, other: &Self) -> Self {
        Self { first_tuple: other.first_tuple, ..self }
    }
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rest.heap_bytes()
            + self.sieve.as_ref().map_or(0, |s| size_of::<Sieve>() + s.heap_bytes())
            + self.tuples.capacity() * size_of::<Tuple>()
            + self.tuples.iter().map(Tuple::heap_bytes).sum::<usize>()
    }
    /// Bits that the rules look at.
    pub(crate) fn union(&self) -> FlowMask {
        self.tuples.iter().fold(self.rest.union(), |u, t| u.union(t.union()))
    }
    /// Whether many rules share slots of a tuple.
    pub(crate) fn is_crowded(&self) -> bool {
        self.tuples.iter().any(|t| t.company_kept() >= LONG)
    }
    /// Whether a lookup asks so many of them that another way is better however large the table is.
    pub(crate) fn are_many(&self) -> bool {
        self.tuples.len() >= SIFTED || self.rest.len() >= LONG || self.is_crowded()
    }
    /// Goes on with a tuple that grows or shrinks; whether there was one.
    pub(crate) fn move_on(&mut self, slots: usize) -> bool {
        self.tuples.iter_mut().any(|t| t.move_on(slots))
    }
    /// Whether they are more than a tuple that says what nearly all its rules ask, or a few rules.
    pub(crate) fn are_some(&self) -> bool {
        self.are_several() || self.are_slow() || self.are_many()
    }
    /// Whether a lookup asks more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.tuples.len() + usize::from(!self.rest.is_empty()) > 1
    }
    /// Whether it asks several tuples, or one that says little of many of its rules.
    pub(crate) fn are_slow(&self) -> bool {
        match self.tuples.as_slice() {
            [one] => one.is_inexact(),
            more => more.len() > 1,
        }
    }
    /// Whether so many rules have gone that what the others look at is worth computing. Says so once.
    pub(crate) fn is_stale(&mut self) -> bool {
        let stale = self.said != self.disbanded || self.gone as usize > self.rest.len() / STALE;
        if stale {
            (self.gone, self.said) = (0, self.disbanded);
        }
        stale
    }

    /// Which of the first 64 tuples may have a rule for a key.
    #[inline(always)]
    pub(crate) fn left(&self, key: &FlowKey) -> u64 {
        self.sieve.as_ref().map_or(u64::MAX, |s| s.left(key, 0))
    }
    /// Those of the first 64 tuples whose bit is set.
    #[inline(always)]
    pub(crate) fn each(&self, left: u64) -> impl Iterator<Item = &Tuple> {
        each(left, &self.tuples)
    }

    /// The winner for `key` where its rank is above `floor`, with that. `asked` is what [`Parts::left`] said.
    #[inline(always)]
    pub(crate) fn lookup(
        &self,
        v: Vectors,
        key: &FlowKey,
        (asked, ahead): (u64, Ahead),
        mut floor: u64,
    ) -> Option<(u64, RuleId)> {
        let mut best: Option<(u64, RuleId)> = None;
        let mut ahead = Some(ahead);
        for (word, tuples) in self.tuples.chunks(u64::BITS as usize).enumerate() {
            let left = match (&self.sieve, word) {
                (_, 0) => asked,
                (Some(sieve), _) if word < sieve.width() => sieve.left(key, word),
                _ => u64::MAX,
            };
            // What was found out ahead was of the first of these.
            ahead = ahead.filter(|_| word == 0 && left != 0);
            for t in each(left, tuples) {
                if t.top() < (floor >> 32) as u32 {
                    // Without a sieve those behind it are no better.
                    if self.sieve.is_none() {
                        break;
                    }
                    continue;
                }
                let found = match ahead.take() {
                    Some(Ahead::Slot(slot)) => t.lookup_slot(v, key, slot, floor),
                    Some(Ahead::Hash(hash)) => t.lookup(v, key, Some(hash), floor),
                    Some(Ahead::Nothing) | None => t.lookup(v, key, None, floor),
                };
                if let Some(found) = found {
                    (best, floor) = (Some(found), found.0);
                }
            }
        }
        self.rest.lookup(v, key, floor).or(best)
    }

    /// Whether lookups ask them from now on.
    pub(crate) fn set_asked(&mut self, asked: Asked) {
        let were = std::mem::replace(&mut self.asked, asked == Asked::Yes);
        if !self.asked {
            self.sieve = None;
        } else if !were {
            self.order();
        }
    }

    /// The tuple that should take a rule with this match: that with its mask, else the one with the most bits that has room.
    fn home(&self, m: &Match) -> Option<usize> {
        let covered = || self.tuples.iter().enumerate().filter(|(_, t)| m.mask().covers(t.mask()));
        if let Some((i, _)) = covered().find(|(_, t)| t.mask() == m.mask()) {
            return Some(i);
        }
        // Who has room is dear to ask: the best first.
        let mut places: Vec<(u32, usize)> = covered().map(|(i, t)| (t.bits(), i)).collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        let has_room = |i: &usize| self.tuples.get(*i).is_some_and(|t| t.company(m) < COMPANY);
        places.into_iter().map(|(_, i)| i).find(has_room)
    }

    /// Those tuples in which a rule with this match may stand, in their order.
    fn places(&self, m: &Match) -> impl Iterator<Item = usize> {
        let words = self.tuples.len().div_ceil(u64::BITS as usize);
        // Where a rule stands, the sieve has the bits of its value.
        let left = move |word: usize| match &self.sieve {
            Some(sieve) if word < sieve.width() => sieve.left(m.value(), word),
            _ => u64::MAX,
        };
        let bits = (0..words).flat_map(move |word| {
            let mut left = left(word);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < u64::BITS as usize).then_some(word * u64::BITS as usize + bit)
            })
        });
        bits.filter(|&i| self.tuples.get(i).is_some_and(|t| m.mask().covers(t.mask())))
    }
    /// The tuple with exactly this mask, where a rule like this can be nowhere else.
    pub(crate) fn only_place(&self, m: &Match) -> Option<usize> {
        let words = crate::scan::words_of(m.mask());
        if !self.rest.is_empty() && words & !self.rest.words() == 0 {
            return None;
        }
        let mut place = None;
        for (i, t) in self.tuples.iter().enumerate() {
            if t.mask() == m.mask() {
                place = Some(i);
            } else if m.mask().covers(t.mask()) {
                return None;
            }
        }
        place
    }

    /// The rule with exactly this match and priority.
    pub(crate) fn find(&self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            return self.rest.get(i).map(|r| r.1);
        }
        self.places(m).find_map(|i| self.tuples.get(i)?.id_of(m, priority))
    }
    /// Calls `f` for every rule, with its rank.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(u64, &Rule)) {
        self.each_of_rest(0..self.rest.len(), f);
        self.tuples.iter().for_each(|t| t.for_each(f));
    }
    fn each_of_rest(&self, which: Range<usize>, f: &mut dyn FnMut(u64, &Rule)) {
        for (rank, id, value, mask) in which.filter_map(|i| self.rest.get(i)) {
            let matcher = Match::new(value, mask);
            f(rank, &Rule { matcher, priority: (rank >> 32) as u32, id });
        }
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(crate) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.tuples.iter_mut().for_each(|t| t.rerank(f));
        self.rest.rerank(f);
    }

    /// Adds a rule that is not there.
    pub(crate) fn insert(&mut self, m: &Match, rank: u64, id: RuleId) {
        self.len += 1;
        if let Some(i) = self.home(m)
            && let Some(t) = self.tuples.get_mut(i)
        {
            let top = t.top();
            t.insert(m, rank, id);
            if t.top() != top {
                self.resort(i);
            }
            return self.sift_in(i, m);
        }
        self.rest.insert(rank, id, m.value(), m.mask());
        if !self.tuples.is_empty() || self.first_tuple == FirstTuple::WhenDue {
            self.shape();
        }
    }
    /// Looks for a tuple to be made out of rules of the rest, where it has grown by a step.
    pub(crate) fn shape(&mut self) {
        if self.rest.len() >= self.trigger as usize {
            self.reshape();
        }
    }
    /// Adds a rule to tuple `i`, its [`Parts::only_place`].
    ///
    /// # Errors
    /// The one with the same match and priority that is there; nothing has changed.
    pub(crate) fn insert_only(
        &mut self,
        i: usize,
        m: &Match,
        rank: u64,
        id: RuleId,
    ) -> Result<(), RuleId> {
        let Some(t) = self.tuples.get_mut(i) else { return Ok(()) };
        let top = t.top();
        t.insert_exact(m, rank, id)?;
        let moved = t.top() != top;
        self.len += 1;
        if moved {
            self.resort(i);
        }
        self.sift_in(i, m);
        Ok(())
    }
    /// Removes the rule with exactly this match and priority: its rank and id.
    pub(crate) fn remove(&mut self, m: &Match, priority: u32) -> Option<(u64, RuleId)> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            let gone = self.rest.remove(i)?;
            self.len -= 1;
            self.gone = self.gone.saturating_add(1);
            self.sift_out();
            return Some(gone);
        }
        let places: Vec<usize> = self.places(m).collect();
        let (i, gone, top) = places.into_iter().find_map(|i| {
            let t = self.tuples.get_mut(i)?;
            let top = t.top();
            Some((i, t.remove(m, priority)?, top))
        })?;
        self.len -= 1;
        let t = self.tuples.get(i)?;
        if self.sieve.is_some() {
            self.sift_out();
        } else if t.len() <= FEW {
            self.disband();
        } else if t.top() != top {
            self.resort(i);
        }
        Some(gone)
    }

    /// Restores the order of the tuples after tuple `i` changed.
    fn resort(&mut self, i: usize) {
        if self.sieve.is_some() || !self.asked {
            return;
        }
        let Some(top) = self.tuples.get(i).map(Tuple::top) else { return };
        let before = self.tuples.get(..i).unwrap_or_default();
        let to = before.partition_point(|t| t.top() >= top);
        if to < i {
            if let Some(part) = self.tuples.get_mut(to..=i) {
                part.rotate_right(1);
            }
            return;
        }
        let after = self.tuples.get(i + 1..).unwrap_or_default();
        let to = i + after.partition_point(|t| t.top() > top);
        if let Some(part) = self.tuples.get_mut(i..=to) {
            part.rotate_left(1);
        }
    }

    /// Makes a tuple out of rules of the rest, where one is worthwhile.
    fn reshape(&mut self) {
        let rules: Vec<_> = self.rest.iter().collect();
        let masks: Vec<FlowMask> = rules.iter().map(|r| r.3).collect();
        let values: Vec<FlowKey> = rules.iter().map(|r| r.2).collect();
        // One or two may stand aside of a table's only tuple.
        let others = if self.tuples.is_empty() { OTHERS } else { 0 };
        let wanted = worthwhile(self.tuples.len());
        let Some(mask) = choose(&masks, &values, wanted, others) else {
            self.trigger = (self.rest.len() + STEP.max(self.rest.len() / 4)) as u32;
            return;
        };
        let mut tuple = Tuple::new(&mask, RandomState::new().hash_one(self.len));
        let mut moved = Vec::new();
        for (rank, id, value, own) in &rules {
            let m = Match::new(*value, *own);
            if own.covers(&mask) && (*own == mask || tuple.company(&m) < COMPANY) {
                tuple.insert(&m, *rank, *id);
                moved.push(*rank);
            }
        }
        // Both are sorted, larger first.
        self.rest.retain(|rank| moved.binary_search_by(|m| rank.cmp(m)).is_err());
        // Most tables have one: no room for more until there are more.
        if self.tuples.is_empty() {
            self.tuples.reserve_exact(1);
        }
        if let Some(s) = &mut self.sieve {
            let at = self.tuples.len();
            tuple.for_each(&mut |_, r| s.add(at, &r.matcher));
        }
        self.tuples.push(tuple);
        self.resort(self.tuples.len() - 1);
        self.trigger = (self.rest.len() + STEP) as u32;
        if self.tuples.len() >= SIFTED
            && self.asked
            && self.sieve.as_ref().is_none_or(|s| !s.has_room(self.tuples.len()))
        {
            self.sift();
        }
    }

    /// Makes the sieve anew.
    fn sift(&mut self) {
        self.tuples.sort_by_key(|t| Reverse(t.top()));
        let union = self.union();
        let tuples = &self.tuples;
        let rules = tuples.iter().map(Tuple::len).sum();
        self.sieve = Some(Box::new(Sieve::new(tuples.len(), rules, &union, &mut |f| {
            for (i, t) in tuples.iter().enumerate() {
                t.for_each(&mut |_, r| f(i, &r.matcher));
            }
        })));
    }

    /// Puts the parts in order, for lookups that ask them.
    fn order(&mut self) {
        self.disband();
        if self.tuples.len() >= SIFTED {
            self.sift();
        }
    }

    /// Notes in the sieve that tuple `i` has one rule more.
    fn sift_in(&mut self, i: usize, m: &Match) {
        let Some(s) = &mut self.sieve else { return };
        s.add(i, m);
        if self.len as usize > 2 * s.made_of + COMPANY {
            self.sift();
        }
    }
    /// Notes in the sieve that a rule has gone. When more have gone than are left, the sieve is made
    /// anew; until then tuples that have become small stay where they are.
    fn sift_out(&mut self) {
        let Some(s) = &mut self.sieve else { return };
        s.removed += 1;
        if self.len == 0 || s.removed > self.len as usize + COMPANY {
            self.sieve = None;
            self.order();
        }
    }
    /// Moves the rules of tuples that have few to the rest, and puts the others in order.
    fn disband(&mut self) {
        let Self { tuples, rest, .. } = self;
        tuples.retain(|t| {
            if t.len() <= FEW {
                t.for_each(&mut |rank, r| {
                    rest.insert(rank, r.id, r.matcher.value(), r.matcher.mask());
                });
            }
            t.len() > FEW
        });
        tuples.sort_by_key(|t| Reverse(t.top()));
        if tuples.is_empty() {
            *tuples = Vec::new();
        }
        self.disbanded = self.disbanded.wrapping_add(1);
    }
}

/// When rules of the rest come to a first tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstTuple {
    WhenDue,
    WhenTold,
}

/// Whether lookups ask the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    No,
}

/// Those of the first 64 tuples whose bit is set.
#[inline(always)]
fn each(mut left: u64, tuples: &[Tuple]) -> impl Iterator<Item = &Tuple> {
    std::iter::from_fn(move || {
        let t = tuples.get(left.trailing_zeros() as usize)?;
        left &= left.wrapping_sub(1);
        Some(t)
    })
}

/// Rules that a new tuple must take from the rest when there are `tuples`: what a probe more costs
/// every lookup, against the scan that it saves.
pub(crate) fn worthwhile(tuples: usize) -> usize {
    STEP + 2 * tuples
}
