//! A table's rules in tuples, and the rest: takes any rules, one change at a time.
//!
//! Room: data-path core. Called by `fast` alone, whose head says what the parts are and how they change. Where lookups do not ask
//! them (rules that stand by rank are asked for in that order alone), they are kept in no order, without a sieve. A new tuple
//! is chosen by a sample of the rest and filled by some of it at a time, so that none of this takes longer for many rules
//! ([0088](../../../docs/decisions/0088-no-change-takes-long.md)).

mod copy;

pub(crate) use copy::{Copied, Copy};

use crate::key::{FlowKey, FlowMask};
use crate::rule::{Match, Rule, RuleId};
use crate::scan::{Row, Scan};
use crate::shape::choose;
use crate::sieve::Sieve;
use crate::simd::Vectors;
use crate::tuple::{Slot, Tuple};
use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

/// Rules that may share a slot of a tuple.
const COMPANY: usize = 64;
/// The rest is looked at for a new tuple each time it has grown by this much, where it is long by more.
const STEP: usize = 8;
/// Rules of a long rest by which a new tuple's mask is chosen: no change looks at more.
const SAMPLE: usize = if cfg!(test) { 64 } else { 128 };
/// Rules of the rest that are looked at at a time for such a tuple.
const MOVED: usize = if cfg!(test) { 48 } else { 128 };
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
    /// A tuple to which rules of the rest still move.
    gathering: Option<Box<Gathering>>,
    len: u32,
    /// Rules of the rest that have gone since [`Parts::is_stale`] said so.
    gone: u32,
    /// How often tuples have been disbanded, and how often that was when it last said so.
    disbanded: u32,
    said: u32,
}

/// Rules of the rest that fit a new tuple move there a few at a time.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// Of the tuple.
    seed: u64,
    /// Rules of this rank and above have been looked at.
    from: Option<u64>,
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
            gathering: None,
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
            + self.gathering.as_ref().map_or(0, |_| size_of::<Gathering>())
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
    /// Whether rules of the rest still move to a tuple: [`Parts::gather`].
    pub(crate) fn are_gathering(&self) -> bool {
        self.gathering.is_some()
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
                let ahead = ahead.take();
                if t.top() < (floor >> 32) as u32 {
                    // Without a sieve those behind it are no better.
                    if self.sieve.is_none() {
                        break;
                    }
                    continue;
                }
                let found = match ahead {
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
        let bits = m.mask().bits();
        let own = |t: &Tuple| t.bits() == bits && t.mask() == m.mask();
        if let Some(i) = self.tuples.iter().position(own) {
            return Some(i);
        }
        let others = self.tuples.iter().enumerate();
        let covered = others.filter(|(_, t)| t.bits() < bits && m.mask().covers(t.mask()));
        // Who has room is dear to ask: the best first.
        let mut places: Vec<(u32, usize)> = covered.map(|(i, t)| (t.bits(), i)).collect();
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
        if let Some(found) = self.rest.find(m.value(), m.mask(), priority) {
            return Some(found.1);
        }
        self.places(m).find_map(|i| self.tuples.get(i)?.id_of(m, priority))
    }
    /// Calls `f` for every rule, with its rank.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(u64, &Rule)) {
        each_of(self.rest.iter(), f);
        self.tuples.iter().for_each(|t| t.for_each(f));
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(crate) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.tuples.iter_mut().for_each(|t| t.rerank(f));
        self.rest.rerank(f);
        self.gathering.iter_mut().for_each(|g| g.from = g.from.map(f));
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
        if self.gathering.is_none() && self.rest.len() >= self.trigger as usize {
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
        if let Some(gone) = self.rest.take(m.value(), m.mask(), priority) {
            self.len -= 1;
            self.gone = self.gone.saturating_add(1);
            self.trigger = self.trigger.min(self.grown(4));
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
        } else if t.len() <= FEW && !self.are_gathering() {
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

    /// What the rest's length is when it has grown by an `nth`, or by a step if that is more.
    fn grown(&self, nth: usize) -> u32 {
        (self.rest.len() + STEP.max(self.rest.len() / nth)) as u32
    }
    /// Makes a tuple out of rules of the rest, where one is worthwhile.
    fn reshape(&mut self) {
        let seed = RandomState::new().hash_one(self.len);
        let rules = self.rest.some(SAMPLE, seed);
        let masks: Vec<FlowMask> = rules.iter().map(|r| r.3).collect();
        let values: Vec<FlowKey> = rules.iter().map(|r| r.2).collect();
        // One or two may stand aside of a table's only tuple.
        let others = if self.tuples.is_empty() { OTHERS } else { 0 };
        // Of so many as there are in the sample.
        let wanted = worthwhile(self.tuples.len()) * rules.len() / self.rest.len().max(1);
        let Some(mask) = choose(&masks, &values, wanted.max(STEP / 2), others) else {
            self.trigger = self.grown(4);
            return;
        };
        self.trigger = self.grown(16);
        // Most tables have one: no room for more until there are more.
        if self.tuples.is_empty() {
            self.tuples.reserve_exact(1);
        }
        let tuple = Tuple::new(&mask, seed);
        self.gathering = Some(Box::new(Gathering { seed: tuple.seed(), from: None }));
        self.tuples.push(tuple);
        if self.tuples.len() >= SIFTED
            && self.asked
            && self.sieve.as_ref().is_none_or(|s| !s.has_room(self.tuples.len()))
        {
            self.sift();
        }
        self.gather();
    }
    /// Moves some more rules of the rest to a new tuple, if there is one that takes them: what lookups find is the same before and after.
    pub(crate) fn gather(&mut self) {
        let Some(gathering) = self.gathering.as_mut() else { return };
        let seed = gathering.seed;
        let Some(i) = self.tuples.iter().position(|t| t.seed() == seed) else {
            self.gathering = None;
            return;
        };
        let (Some(tuple), sieve) = (self.tuples.get_mut(i), &mut self.sieve) else { return };
        gathering.from = self.rest.take_some(gathering.from, MOVED, |(rank, id, value, own)| {
            let m = Match::new(*value, *own);
            let mask = tuple.mask();
            let takes = own.covers(mask) && (own == mask || tuple.company(&m) < COMPANY);
            if takes {
                tuple.insert(&m, *rank, *id);
                sieve.iter_mut().for_each(|s| s.add(i, &m));
            }
            takes
        });
        let all = gathering.from.is_none() || self.rest.below(gathering.from).next().is_none();
        let few = tuple.len() <= FEW;
        self.resort(i);
        if all {
            self.gathering = None;
            self.trigger = self.grown(16);
            match &self.sieve {
                Some(_) => self.sift_if_outgrown(),
                None if few => self.disband(),
                None => {}
            }
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
        self.sift_if_outgrown();
    }
    /// Makes the sieve anew where tuples have twice the rules that it was made of.
    fn sift_if_outgrown(&mut self) {
        let in_tuples = self.len() - self.rest.len();
        if self.sieve.as_ref().is_some_and(|s| in_tuples > 2 * s.made_of + COMPANY) {
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
        let Self { tuples, rest, gathering, .. } = self;
        // One to which rules still move has few at first.
        let grows = gathering.as_ref().map(|g| g.seed);
        tuples.retain(|t| {
            let stays = t.len() > FEW || Some(t.seed()) == grows;
            if !stays {
                t.for_each(&mut |rank, r| {
                    rest.insert(rank, r.id, r.matcher.value(), r.matcher.mask());
                });
            }
            stays
        });
        tuples.sort_by_key(|t| Reverse(t.top()));
        if tuples.is_empty() {
            *tuples = Vec::new();
        }
        self.disbanded = self.disbanded.wrapping_add(1);
    }
}

/// Calls `f` for each of these rules, with its rank.
fn each_of(rules: impl Iterator<Item = Row>, f: &mut dyn FnMut(u64, &Rule)) {
    for (rank, id, value, mask) in rules {
        f(rank, &Rule { matcher: Match::new(value, mask), priority: (rank >> 32) as u32, id });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    fn mac(i: u64) -> Match {
        Match::any().with(Field::EthDst, i.into())
    }
    fn rank(i: u64) -> u64 {
        7 << 32 | (u64::from(u32::MAX) - i)
    }

    /// What nothing could be made of says nothing of what comes when it has gone.
    #[test]
    fn a_rest_that_was_long_is_looked_at_again() {
        let mut parts = Parts::default();
        // Each with a bit of either field that few others have.
        let of_its_own = |i: u64| {
            let m = Match::any().with_masked(Field::Metadata, 0, 1 << (i % 64));
            m.with_masked(Field::Ipv6Src, 0, 1 << (i / 64))
        };
        for i in 0..600 {
            parts.insert(&of_its_own(i), rank(i), RuleId(i as u32));
            parts.gather();
        }
        let long = parts.trigger;
        assert!(long > 48 && !parts.rest.is_empty(), "{long}");
        for i in 0..600 {
            assert!(parts.remove(&of_its_own(i), 7).is_some());
        }
        (0..40).for_each(|i| parts.insert(&mac(i), rank(i), RuleId(i as u32)));
        parts.gather();
        assert_eq!((parts.tuples.len(), parts.rest.len(), parts.len()), (1, 0, 40));
    }

    /// Rules are found, and win, wherever they are while they move to a new tuple; one that comes meanwhile, too.
    #[test]
    fn rules_move_a_block_at_a_time() {
        let mut parts = Parts::with_first_tuple(FirstTuple::WhenTold);
        (0..200).for_each(|i| parts.insert(&mac(i), rank(i), RuleId(i as u32)));
        assert!(parts.tuples.is_empty());
        parts.shape();
        let (mut n, mut steps) = (200u64, 0);
        let agree = |parts: &Parts, n: u64| {
            assert_eq!(
                parts.tuples.iter().map(Tuple::len).sum::<usize>() + parts.rest.len(),
                n as usize
            );
            for i in 0..n {
                let (m, id) = (mac(i), RuleId(i as u32));
                assert_eq!(parts.find(&m, 7), Some(id));
                let asked = (u64::MAX, Ahead::Nothing);
                assert_eq!(parts.lookup(Vectors::best(), m.value(), asked, 0), Some((rank(i), id)));
            }
        };
        while parts.are_gathering() {
            agree(&parts, n);
            match steps % 2 {
                0 => parts.gather(),
                _ => {
                    parts.insert(&mac(n), rank(n), RuleId(n as u32));
                    n += 1;
                }
            }
            steps += 1;
        }
        agree(&parts, n);
        assert!(steps > 2 && parts.rest.is_empty() && parts.tuples.len() == 1, "{steps}");
    }
}
