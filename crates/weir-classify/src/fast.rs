//! The fast classifier: its shape follows the rules, one change at a time.
//!
//! Room: data-path core. Touches keys, masks, rules. Never frames, sockets, clocks or logs. One per
//! VDP and table: changed by whoever owns it, looked up by one worker without a lock. Judge:
//! `linear.rs`.
//!
//! **The problem.** A VDP with one rule should cost a few nanoseconds and a few hundred bytes, one
//! with a million MAC addresses one cache line a lookup, and one whose rules all have masks of
//! their own must not cost thousands of probes.
//!
//! **The parts.** *The rest* is a [`Scan`]: columns of values and masks, only of the words that a
//! rule looks at, compared four rules at a time, best first. A *tuple* ([`Tuple`]) is a hash table
//! over the bits of one mask; every rule whose mask covers those bits may live in it, rules with
//! exactly its mask in place, others in small buckets (scans again) of at most [`COMPANY`] rules.
//! A table starts as a rest alone. Tuples are sorted by the largest priority in them, and a lookup
//! stops at the first whose priority is under what it has found.
//!
//! **How it changes.** A new rule goes to the tuple with its mask; else to the tuple with the most
//! bits that its mask covers and whose slot has room; else to the rest. When the rest has grown by
//! a step, [`choose`] looks for a mask that many of its rules cover and that tells them apart, and
//! those rules move to a new tuple. A new tuple must take more rules the more tuples there are
//! ([`worthwhile`]), so that inserting `n` rules makes at most `√n` tuples however their masks are
//! chosen: tuple explosion ends in merged tuples and a vectorised rest.
//!
//! **What it costs.** Lookup: one hash and one probe a tuple, plus the rest's scan; for a table
//! with one mask, one hash, one probe, one comparison. Insert: a probe of each tuple whose mask the
//! rule covers (to find a duplicate or room), and sometimes a reorganisation of the rest, which
//! costs at most the square of its length. Growth and shrinking of tuples are incremental. Rules
//! which differ in priority alone share a bucket without limit; a lookup meets only the best.
//!
//! **Equal priorities.** Each rule has a rank: its priority above the complement of its insertion
//! number. Ranks are unique and larger wins, so that the first inserted wins among equals. After
//! 2³² − 1 insertions the numbers are given out anew, in one pass.

use crate::key::{FlowKey, FlowMask};
use crate::rule::{Classifier, Duplicate, Match, Rule, RuleId};
use crate::scan::{Scan, words_of};
use crate::shape::choose;
use crate::simd::{Vectors, prefetch_slice};
use crate::tuple::Tuple;
use std::hash::{BuildHasher, RandomState};

/// Rules that may share a slot of a tuple.
const COMPANY: usize = 64;
/// The rest is looked at for a new tuple each time it has grown by this much.
const STEP: usize = 8;

/// What [`FastTable::probe`] found out about a key, for [`FastTable::resolve`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe(u64);

/// A ternary classifier for rule sets of any size and shape; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FastTable {
    /// Sorted by their largest priority, larger first.
    tuples: Vec<Tuple>,
    rest: Scan,
    vectors: Vectors,
    /// Words that any rule looks at.
    words: u32,
    /// Insertions so far, since the numbers were last given out.
    inserted: u32,
    /// Length of the rest at which a new tuple is looked for.
    trigger: u32,
    len: usize,
    union: Option<Box<FlowMask>>,
}

impl Default for FastTable {
    fn default() -> Self {
        Self::new()
    }
}

impl FastTable {
    /// An empty table, which needs no memory beyond its own few words.
    pub fn new() -> Self {
        Self::with_vectors(Vectors::best())
    }
    /// An empty table that uses the vector instructions given, for tests and comparisons.
    pub fn with_vectors(vectors: Vectors) -> Self {
        Self {
            tuples: Vec::new(),
            rest: Scan::default(),
            vectors,
            words: 0,
            inserted: 0,
            trigger: STEP as u32,
            len: 0,
            union: None,
        }
    }

    /// Bits that the rules look at: all of them, and perhaps some that removed rules looked at
    /// (they go with their tuple).
    pub fn mask_union(&self) -> FlowMask {
        self.union.as_deref().copied().unwrap_or_default()
    }
    /// Bit `i` set where [`FastTable::mask_union`] has bits in word `i` of the key.
    #[inline]
    pub fn words_union(&self) -> u32 {
        self.words
    }
    /// Bytes of memory held, the table itself included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.rest.heap_bytes()
            + self.union.as_ref().map_or(0, |u| size_of_val(&**u))
            + self.tuples.capacity() * size_of::<Tuple>()
            + self.tuples.iter().map(Tuple::heap_bytes).sum::<usize>()
    }
    /// Number of hash tables that a lookup may probe: the shape, for reports.
    pub fn tuples(&self) -> usize {
        self.tuples.len()
    }
    /// Number of rules that are scanned: the shape, for reports.
    pub fn scanned(&self) -> usize {
        self.rest.len()
    }

    /// Asks for the lines that [`FastTable::probe`] will read. Where a burst meets many tables,
    /// calling it for all of them before the first probe hides one more cache miss.
    #[inline]
    pub fn warm(&self) {
        prefetch_slice(&self.tuples, 128);
        self.rest.prefetch();
    }
    /// Asks for the lines that inserting or removing a rule with this match will touch: for a row
    /// of changes of a large table.
    pub fn warm_rule(&self, m: &Match) {
        if let Some(t) = self.tuples.first() {
            t.warm(m.value());
        }
    }
    /// First half of a lookup: hashes what must be hashed and asks for its cache line.
    #[inline]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        match self.tuples.first() {
            Some(t) => Probe(t.probe(key)),
            None => Probe(0),
        }
    }
    /// Second half of a lookup: the winner for `key`, whose [`FastTable::probe`] here was `p`. The
    /// table must not have changed in between, or a winner may be missed.
    #[inline(always)]
    pub fn resolve(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        // Tables without tuples are answered in place; for the others a call costs little.
        match self.tuples.as_slice() {
            [] => self.rest.lookup(self.vectors, key, 0).map(|(_, id)| id),
            // One field, one mask: the commonest of large tables.
            [one] if self.rest.is_empty() && one.has_one_word() => match one.find_word(key, p.0) {
                Some(found) => found,
                None => one.lookup_id(self.vectors, key, p.0),
            },
            [one] if self.rest.is_empty() => one.lookup_id(self.vectors, key, p.0),
            [first, others @ ..] => self.resolve_many(key, p, first, others),
        }
    }

    #[inline(never)]
    fn resolve_many(
        &self,
        key: &FlowKey,
        p: Probe,
        first: &Tuple,
        others: &[Tuple],
    ) -> Option<RuleId> {
        let v = self.vectors;
        let mut best = first.lookup(v, key, Some(p.0), 0);
        let floor = |best: &Option<(u64, RuleId)>| best.map_or(0, |b| b.0);
        for t in others {
            if t.top() < (floor(&best) >> 32) as u32 {
                break;
            }
            best = t.lookup(v, key, None, floor(&best)).or(best);
        }
        self.rest.lookup(v, key, floor(&best)).or(best).map(|b| b.1)
    }

    fn next_rank(&mut self, priority: u32) -> u64 {
        if self.inserted == u32::MAX {
            self.renumber();
        }
        self.inserted += 1;
        u64::from(priority) << 32 | u64::from(u32::MAX - self.inserted + 1)
    }

    /// Gives out insertion numbers anew, from 1.
    fn renumber(&mut self) {
        let mut ranks = Vec::with_capacity(self.len);
        self.each_ranked(&mut |rank, _| ranks.push(rank));
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        let anew = |rank: u64| {
            let n = ranks.partition_point(|&r| r > rank) as u64;
            (rank >> 32 << 32) | (u64::from(u32::MAX) - n)
        };
        self.tuples.iter_mut().for_each(|t| t.rerank(&anew));
        self.rest.rerank(anew);
        self.inserted = ranks.len() as u32;
    }

    fn each_ranked(&self, f: &mut dyn FnMut(u64, &Rule)) {
        for (rank, id, value, mask) in self.rest.iter() {
            let matcher = Match::new(value, mask);
            f(rank, &Rule { matcher, priority: (rank >> 32) as u32, id });
        }
        self.tuples.iter().for_each(|t| t.for_each(f));
    }

    /// The tuple that should take a rule with this match.
    fn home(&self, m: &Match) -> Option<usize> {
        let covered = || self.tuples.iter().enumerate().filter(|(_, t)| m.mask().covers(t.mask()));
        if let Some((i, _)) = covered().find(|(_, t)| t.mask() == m.mask()) {
            return Some(i);
        }
        covered()
            .filter(|(_, t)| t.company(m) < COMPANY)
            .max_by_key(|(_, t)| t.mask().0.iter().map(|w| w.count_ones()).sum::<u32>())
            .map(|(i, _)| i)
    }

    /// Restores the order of the tuples after tuple `i` changed.
    fn resort(&mut self, i: usize) {
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
        let Some(mask) = choose(&masks, &values, worthwhile(self.tuples.len())) else {
            self.trigger = (self.rest.len() + STEP.max(self.rest.len() / 4)) as u32;
            return;
        };
        let mut tuple = Tuple::new(&mask, RandomState::new().hash_one(self.inserted));
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
        self.tuples.push(tuple);
        self.resort(self.tuples.len() - 1);
        self.trigger = (self.rest.len() + STEP) as u32;
    }

    fn widen(&mut self, mask: &FlowMask) {
        let union = self.union.get_or_insert_default();
        **union = union.union(mask);
        self.words |= words_of(mask);
    }

    /// Computes the union anew from the parts.
    fn narrow(&mut self) {
        let union = self.tuples.iter().fold(self.rest.union(), |u, t| u.union(t.union()));
        self.words = words_of(&union);
        self.union = (self.len > 0).then(|| Box::new(union));
    }
}

/// Rules that a new tuple must take from the rest when there are `tuples`: what a probe more costs
/// every lookup, against the scan that it saves.
fn worthwhile(tuples: usize) -> usize {
    STEP + 2 * tuples
}

impl FastTable {
    /// [`Classifier::insert`], whose rule need not be moved to be tried.
    ///
    /// # Errors
    /// [`Duplicate`] when one with the same match and priority is there; nothing changes.
    pub fn try_insert(&mut self, m: &Match, priority: u32, id: RuleId) -> Result<(), Duplicate> {
        // The usual rule of an exact table: finding its place and finding its like are one search.
        if let Some(i) = self.only_place(m) {
            let rank = self.next_rank(priority);
            let Some(t) = self.tuples.get_mut(i) else { return Ok(()) };
            let top = t.top();
            t.insert_exact(m, rank, id).map_err(Duplicate)?;
            let moved = t.top() != top;
            self.len += 1;
            if moved {
                self.resort(i);
            }
            return Ok(());
        }
        match self.find(m, priority) {
            Some(there) => Err(Duplicate(there)),
            None => {
                self.insert_new(m, priority, id);
                Ok(())
            }
        }
    }

    /// The tuple with exactly this mask, where a rule like this can be nowhere else.
    fn only_place(&self, m: &Match) -> Option<usize> {
        if !self.rest.is_empty() && words_of(m.mask()) & !self.rest.words() == 0 {
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

    /// [`Classifier::insert`] of a rule of which [`Classifier::find`] has just said that it is not
    /// there. One that is there would stand twice.
    pub fn insert_new(&mut self, m: &Match, priority: u32, id: RuleId) {
        let rank = self.next_rank(priority);
        if !self.union.as_ref().is_some_and(|u| u.covers(m.mask())) {
            self.widen(m.mask());
        }
        self.len += 1;
        if let Some(i) = self.home(m)
            && let Some(t) = self.tuples.get_mut(i)
        {
            let top = t.top();
            t.insert(m, rank, id);
            if t.top() != top {
                self.resort(i);
            }
            return;
        }
        self.rest.insert(rank, id, m.value(), m.mask());
        if self.rest.len() >= self.trigger as usize {
            self.reshape();
        }
    }
}

impl Classifier for FastTable {
    fn insert(&mut self, rule: Rule) -> Result<(), Duplicate> {
        self.try_insert(&rule.matcher, rule.priority, rule.id)
    }

    fn remove(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            let id = self.rest.remove(i)?;
            self.len -= 1;
            self.narrow();
            return Some(id);
        }
        let covers = |t: &Tuple| m.mask().covers(t.mask());
        let (i, id, top) = self.tuples.iter_mut().enumerate().find_map(|(i, t)| {
            let top = t.top();
            let id = covers(t).then(|| t.remove(m, priority))??;
            Some((i, id, top))
        })?;
        self.len -= 1;
        let t = self.tuples.get(i)?;
        if t.len() <= STEP / 4 {
            let t = self.tuples.remove(i);
            t.for_each(&mut |rank, r| {
                self.rest.insert(rank, r.id, r.matcher.value(), r.matcher.mask());
            });
            if self.tuples.is_empty() {
                self.tuples = Vec::new();
            }
            self.narrow();
        } else if t.top() != top {
            self.resort(i);
        }
        Some(id)
    }

    fn find(&self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            return self.rest.get(i).map(|r| r.1);
        }
        self.tuples.iter().filter(|t| m.mask().covers(t.mask())).find_map(|t| t.id_of(m, priority))
    }

    #[inline]
    fn lookup(&self, key: &FlowKey) -> Option<RuleId> {
        self.resolve(key, self.probe(key))
    }

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&self, f: &mut dyn FnMut(&Rule)) {
        self.each_ranked(&mut |_, r| f(r));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::linear::Linear;

    fn rule(m: Match, priority: u32, id: u32) -> Rule {
        Rule { matcher: m, priority, id: RuleId(id) }
    }

    fn mac(n: u32) -> Match {
        Match::any().with(Field::EthDst, n.into())
    }

    /// When the insertion numbers are used up, they are given out anew and no order changes.
    #[test]
    fn insertion_numbers_run_out() {
        let (mut fast, mut judge) = (FastTable::new(), Linear::default());
        fast.inserted = u32::MAX - 60;
        for i in 0..200 {
            // Prefixes of one address and full addresses: overlapping, of equal priorities.
            let m = match i % 4 {
                0 => Match::any().with_masked(Field::EthDst, 0, Field::EthDst.full() << (i / 4)),
                _ => mac(i),
            };
            let r = rule(m, i % 3, i);
            assert_eq!(fast.insert(r), judge.insert(r));
            for n in 0..=i {
                assert_eq!(fast.lookup(mac(n).value()), judge.lookup(mac(n).value()), "{i} {n}");
            }
        }
        assert!(fast.inserted < 400);
    }

    #[test]
    fn small_tables_are_small() {
        assert!(size_of::<FastTable>() <= 128);
        let mut same = FastTable::new();
        (0..16).for_each(|i| assert!(same.insert(rule(mac(i), 1, i)).is_ok()));
        assert!(same.memory_bytes() <= 2304, "{}", same.memory_bytes());
        // Five-tuples, every one with other prefixes.
        let mut mixed = FastTable::new();
        for i in 0..16u32 {
            let m = Match::any()
                .with(Field::EthType, 0x800)
                .with_masked(Field::Ipv4Src, i.into(), u128::from(u32::MAX << i))
                .with_masked(Field::Ipv4Dst, i.into(), u128::from(u32::MAX << (16 - i)))
                .with(Field::IpProto, 6)
                .with(Field::TpDst, i.into());
            assert!(mixed.insert(rule(m, i, i)).is_ok());
        }
        assert!(mixed.memory_bytes() <= 4096, "{}", mixed.memory_bytes());
    }

    /// However the masks are chosen, `n` rules make at most `√n` tuples.
    #[test]
    fn tuple_explosion_is_bounded() {
        let mut t = FastTable::new();
        let mut x = 1u64;
        for i in 0..4096u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let m = Match::any()
                .with_masked(Field::EthDst, u128::from(x >> 9), u128::from(x >> 16))
                .with_masked(Field::Ipv4Src, u128::from(x >> 3), u128::from(x.rotate_left(17)));
            let _ = t.insert(rule(m, i % 50, i));
            assert!(t.tuples() * t.tuples() <= t.len(), "{} of {}", t.tuples(), t.len());
        }
        assert!(t.len() > 4000);
    }

    /// A table that was large and is small again has given its memory back.
    #[test]
    fn memory_is_given_back() {
        let mut t = FastTable::new();
        for i in 0..20_000 {
            assert!(t.insert(rule(mac(i), 1, i)).is_ok());
        }
        let large = t.memory_bytes();
        for i in 16..20_000 {
            assert_eq!(t.remove(&mac(i), 1), Some(RuleId(i)));
        }
        assert!(t.memory_bytes() < large / 100, "{} of {large}", t.memory_bytes());
        (0..16).for_each(|i| assert_eq!(t.lookup(mac(i).value()), Some(RuleId(i))));
    }
}
