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
//! rule looks at, compared four or eight rules at a time, best first. A *tuple* ([`Tuple`]) is a hash table
//! over the bits of one mask; every rule whose mask covers those bits may live in it, rules with
//! exactly its mask in place, others in small buckets (scans again) of at most [`COMPANY`] rules.
//! A table starts as a rest alone. Tuples are sorted by the largest priority in them, and a lookup
//! stops at the first whose priority is under what it has found. From [`SIFTED`] tuples on a
//! [`Sieve`] says first which of them can have a rule for the key at all; they are asked in the order
//! that they had when it was made, and those whose priority is too low are passed over. Between
//! [`MANY`] and [`MOST`] rules in [`PARTS`] parts or more, or with many to a slot, all stand once more in the order of their
//! ranks ([`Ranked`]): who looks up asks that alone, and the parts serve changes. From [`MANY`] rules in [`SIFTED`] parts on an
//! [`Index`] does the same in its place, which is not made here but by who has the time (`indexing`). A small table of one tuple,
//! whose mask has bits for a word and no more, is [`Packed`] beside it: a lookup is the first line of the table and another.
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

use crate::index::{Draft, Drafted, Index};
use crate::key::{FlowKey, FlowMask};
use crate::packed::{self, Packed, Way};
use crate::ranked::{MOST, Ranked};
use crate::rule::{Classifier, Duplicate, Match, Rule, RuleId};
use crate::scan::{Scan, words_of};
use crate::shape::choose;
use crate::sieve::Sieve;
use crate::simd::{Vectors, prefetch_slice};
use crate::tuple::{Slot, Tuple};
use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

/// Rules that may share a slot of a tuple.
const COMPANY: usize = 64;
/// The rest is looked at for a new tuple each time it has grown by this much.
const STEP: usize = 8;
/// Rules that a tuple is not worth a probe for.
const FEW: usize = STEP / 4;
/// Tuples from which on a sieve says which of them to ask.
const SIFTED: usize = 8;
/// Rules from which on they may stand by rank, too, and parts that they must have for that.
const MANY: usize = 128;
const PARTS: usize = 3;
/// Rules of the rest that are as good as parts.
const LONG: usize = 32;

/// What [`FastTable::probe`] found out about a key, for [`FastTable::resolve`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    /// The hash of the key in the first tuple that must be asked, if it is one of those; in a packed table its bits.
    hash: u64,
    /// Which of the first 64 tuples must be asked; in a packed table, which bucket.
    left: u64,
}

/// What is known of the first tuple that a lookup asks.
#[derive(Clone, Copy)]
enum Ahead {
    Hash(u64),
    Slot(Slot),
}

/// What became of a rule.
#[derive(Clone, Copy)]
enum Edit {
    In(RuleId),
    Out,
}

impl Probe {
    /// Of a [`crate::FlowCache`].
    #[inline(always)]
    pub(crate) const fn of_hash(hash: u64) -> Self {
        Self { hash, left: 0 }
    }
    #[inline(always)]
    pub(crate) const fn hash(self) -> u64 {
        self.hash
    }
}

/// A ternary classifier for rule sets of any size and shape; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FastTable {
    /// How lookups go, and what those of a small table of one mask read: of this nothing else but a bucket.
    packed: Packed,
    /// Words that any rule looks at.
    words: u32,
    /// The owner's, beside what every lookup reads.
    pub beside: u32,
    /// Sorted by their largest priority, larger first, where lookups ask them and there is no sieve; where there is, as they
    /// were when it was made.
    tuples: Vec<Tuple>,
    /// Whether many rules share slots of the few tuples that there are.
    crowded: bool,
    rest: Scan,
    /// Where there are many rules in several parts: who looks up asks it alone.
    ranked: Option<Box<Ranked>>,
    /// In its place, where somebody has made one; and what is known of making it.
    index: Option<Box<Index>>,
    indexing: Option<Box<Indexing>>,
    /// Where there are several tuples, and rules do not stand by rank.
    sieve: Option<Box<Sieve>>,
    vectors: Vectors,
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
            packed: Packed::default(),
            words: 0,
            beside: 0,
            tuples: Vec::new(),
            crowded: false,
            rest: Scan::default(),
            ranked: None,
            index: None,
            indexing: None,
            sieve: None,
            vectors,
            inserted: 0,
            trigger: STEP as u32,
            len: 0,
            union: None,
        }
    }

    /// What is read for a lookup in a small table of one mask is so long, and what a larger one's owner has beside it.
    pub const ASKED: usize = std::mem::offset_of!(FastTable, tuples);

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
            + self.packed.heap_bytes()
            + self.rest.heap_bytes()
            + self.ranked.as_ref().map_or(0, |r| size_of::<Ranked>() + r.heap_bytes())
            + self.index.as_ref().map_or(0, |i| size_of::<Index>() + i.heap_bytes())
            + self.indexing.as_ref().map_or(0, |i| size_of_val(&**i) + i.heap_bytes())
            + self.sieve.as_ref().map_or(0, |s| size_of::<Sieve>() + s.heap_bytes())
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

    /// Whether a lookup is answered by one slot of one hash table.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        matches!(self.packed.way, Way::Packed | Way::Tuple)
    }
    /// Whether a lookup reads the first line of the table and another, and nothing else.
    #[inline(always)]
    pub fn is_packed(&self) -> bool {
        self.packed.way == Way::Packed
    }
    /// After every change, to one rule perhaps.
    fn settle(&mut self, change: Option<(&Match, Edit)>) {
        // Where there are more tuples, lookups are dear as it is.
        self.crowded = self.tuples.len() <= PARTS && self.is_crowded();
        let alone = self.rest.is_empty() && self.tuples.len() == 1 && self.index.is_none();
        let way = match alone {
            true if self.crowded => Way::Crowded,
            true => self.pack(change),
            false if self.ranked.is_some() || self.index.is_some() => Way::Ordered,
            false => Way::Parts,
        };
        if way != Way::Packed && self.packed.is_there() {
            self.packed = Packed::default();
        }
        self.packed.way = way;
    }
    /// Packs the one tuple that there is, where that can be.
    fn pack(&mut self, change: Option<(&Match, Edit)>) -> Way {
        // Who goes to and fro at the limit is not packed anew each time.
        let most = if self.packed.is_there() { packed::MOST } else { packed::MOST / 4 * 3 };
        let Some(one) = self.tuples.first().filter(|t| t.len() <= most && t.is_exact()) else {
            return Way::Tuple;
        };
        match change {
            Some((m, Edit::In(id))) if self.packed.is_there() => {
                self.packed.insert(m.value(), id, one.len() - 1);
            }
            Some((m, Edit::Out)) if self.packed.is_there() => {
                self.packed.remove(m.value(), one.len())
            }
            _ => {
                // Before anything is copied: most masks of several fields do not fit.
                let Some(none) = Packed::of_mask(one.mask()) else { return Way::Tuple };
                let mut rules = Vec::with_capacity(one.len());
                one.for_each(&mut |_, r| rules.push((*r.matcher.value(), r.id)));
                self.packed = none.with(RandomState::new().hash_one(self.inserted) as u32, &rules);
            }
        }
        if self.packed.is_there() { Way::Packed } else { Way::Tuple }
    }
    /// Whether a lookup may be worth remembering: many parts are asked, or many rules scanned.
    pub fn is_dear(&self) -> bool {
        self.crowded
            || self.ranked.is_some()
            || self.index.is_some()
            || self.tuples.len() + self.rest.len() / LONG > PARTS
    }
    /// Asks for the lines that [`FastTable::probe`] will read. Where a burst meets many tables,
    /// calling it for all of them before the first probe hides one more cache miss.
    #[inline]
    pub fn warm(&self) {
        match self.packed.way {
            Way::Packed => {}
            Way::Tuple | Way::Crowded => prefetch_slice(&self.tuples, 64),
            Way::Ordered => self.ranked.iter().for_each(|r| r.prefetch()),
            Way::Parts => {
                prefetch_slice(&self.tuples, 128);
                self.rest.prefetch();
            }
        }
    }
    /// Asks for the lines that inserting or removing a rule with this match will touch: for a row
    /// of changes of a large table.
    pub fn warm_rule(&self, m: &Match) {
        if let Some(t) = self.tuples.first() {
            t.warm(m.value());
        }
    }
    /// First half of a lookup: hashes what must be hashed and asks for its cache line.
    #[inline(always)]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        if self.packed.way == Way::Packed {
            let (word, home) = self.packed.probe(key);
            return Probe { hash: word, left: home as u64 };
        }
        if let (Way::Tuple | Way::Crowded, Some(one)) = (self.packed.way, self.tuples.first()) {
            return Probe { hash: one.probe(key), left: 1 };
        }
        self.probe_parts(key)
    }
    #[inline(never)]
    fn probe_parts(&self, key: &FlowKey) -> Probe {
        if self.packed.way == Way::Ordered {
            let hash = match (&self.ranked, &self.index) {
                (Some(ranked), _) => ranked.probe(self.vectors, key),
                (_, Some(index)) => index.probe(self.vectors, key),
                _ => 0,
            };
            return Probe { hash, left: 0 };
        }
        match self.tuples.as_slice() {
            [] => Probe::default(),
            [one] => Probe { hash: one.probe(key), left: 1 },
            _ => self.probe_many(key),
        }
    }

    #[inline(never)]
    fn probe_many(&self, key: &FlowKey) -> Probe {
        let left = self.sieve.as_ref().map_or(u64::MAX, |s| s.left(key, 0));
        Probe { hash: each(left, &self.tuples).next().map_or(0, |t| t.probe(key)), left }
    }
    /// Whether an index answers.
    #[inline]
    pub fn is_indexed(&self) -> bool {
        self.index.is_some()
    }
    /// Whether [`FastTable::lookup_all`] is better than probes and what follows them.
    #[inline]
    pub fn takes_all(&self) -> bool {
        self.packed.way == Way::Ordered
    }
    /// The winner for each key, as far as there is a place in `found` for it.
    #[inline(never)]
    pub fn lookup_all(&self, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        let n = keys.len().min(found.len());
        let (keys, found) = (&keys[..n], &mut found[..n]);
        match (&self.ranked, &self.index) {
            (Some(ranked), _) if self.takes_all() => ranked.lookup_all(self.vectors, keys, found),
            (_, Some(index)) if self.takes_all() => index.lookup_all(self.vectors, keys, found),
            _ => keys.iter().zip(found).for_each(|(k, f)| *f = self.lookup(k)),
        }
    }
    /// Second half of a lookup: the winner for `key`, whose [`FastTable::probe`] here was `p`. The
    /// table must not have changed in between, or a winner may be missed.
    #[inline(always)]
    pub fn resolve(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        if self.packed.way == Way::Packed {
            return self.packed.find(p.hash, p.left as usize);
        }
        if let (Way::Tuple | Way::Crowded, Some(one)) = (self.packed.way, self.tuples.first()) {
            return match one.find_narrow(key, p.hash) {
                Some(found) => found,
                None => one.lookup_id(self.vectors, key, p.hash),
            };
        }
        if self.packed.way == Way::Ordered {
            return self.resolve_ordered(key, p);
        }
        // Tables without tuples are answered in place; for the others a call costs little.
        match self.tuples.as_slice() {
            [] => self.rest.lookup(self.vectors, key, 0).map(|(_, id)| id),
            _ => self.resolve_many(key, p.left, Ahead::Hash(p.hash)),
        }
    }

    #[inline(never)]
    fn resolve_ordered(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        match (&self.ranked, &self.index) {
            (Some(ranked), _) => ranked.resolve(self.vectors, key, p.hash),
            (_, Some(index)) => index.resolve(self.vectors, key, p.hash),
            _ => None,
        }
    }

    #[inline(never)]
    fn resolve_many(&self, key: &FlowKey, asked: u64, ahead: Ahead) -> Option<RuleId> {
        let v = self.vectors;
        let mut best: Option<(u64, RuleId)> = None;
        let mut floor = 0;
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
                    None => t.lookup(v, key, None, floor),
                };
                if let Some(found) = found {
                    (best, floor) = (Some(found), found.0);
                }
            }
        }
        self.rest.lookup(v, key, floor).or(best).map(|b| b.1)
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
        // Who loses an index is put in order by that.
        if self.index.is_none() && self.ranked.is_some() {
            self.rank();
        }
        self.unindex();
        self.settle(None);
    }

    fn each_ranked(&self, f: &mut dyn FnMut(u64, &Rule)) {
        for (rank, id, value, mask) in self.rest.iter() {
            let matcher = Match::new(value, mask);
            f(rank, &Rule { matcher, priority: (rank >> 32) as u32, id });
        }
        self.tuples.iter().for_each(|t| t.for_each(f));
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

    /// Restores the order of the tuples after tuple `i` changed.
    fn resort(&mut self, i: usize) {
        if self.sieve.is_some() || self.ranked.is_some() || self.index.is_some() {
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
        if let Some(s) = &mut self.sieve {
            let at = self.tuples.len();
            tuple.for_each(&mut |_, r| s.add(at, &r.matcher));
        }
        self.tuples.push(tuple);
        self.resort(self.tuples.len() - 1);
        self.trigger = (self.rest.len() + STEP) as u32;
        if self.tuples.len() >= SIFTED
            && self.ranked.is_none()
            && self.sieve.as_ref().is_none_or(|s| !s.has_room(self.tuples.len()))
        {
            self.sift();
        }
    }

    /// Makes the sieve anew.
    fn sift(&mut self) {
        self.tuples.sort_by_key(|t| Reverse(t.top()));
        let union = self.mask_union();
        let tuples = &self.tuples;
        let rules = tuples.iter().map(Tuple::len).sum();
        self.sieve = Some(Box::new(Sieve::new(tuples.len(), rules, &union, &mut |f| {
            for (i, t) in tuples.iter().enumerate() {
                t.for_each(&mut |_, r| f(i, &r.matcher));
            }
        })));
    }

    /// Notes that there is a rule more, beside the parts.
    fn note_in(&mut self, rank: u64, m: &Match, id: RuleId) {
        self.rank_in(rank, m, id);
        self.index_in(rank, m, id);
    }
    /// Notes that a rule has gone, beside the parts.
    fn note_out(&mut self, rank: u64, m: &Match) {
        self.rank_out(rank);
        self.index_out(rank, m);
    }
    /// The same, of those that stand by rank.
    fn rank_in(&mut self, rank: u64, m: &Match, id: RuleId) {
        let room = match &mut self.ranked {
            Some(r) => self.len <= MOST && r.insert(rank, id, m),
            None => !(MANY..=MOST / 4 * 3).contains(&self.len) || !self.is_diverse(),
        };
        if !room {
            self.rank();
        }
    }
    /// Whether lookups in the parts would ask many.
    fn is_diverse(&self) -> bool {
        (MANY / 2..=MOST).contains(&self.len)
            && self.index.is_none()
            && (self.tuples.len() >= PARTS || self.rest.len() >= LONG || self.is_crowded())
    }
    /// Whether many rules share slots of a tuple.
    fn is_crowded(&self) -> bool {
        self.tuples.iter().any(|t| t.company_kept() >= LONG)
    }
    /// Puts the rules in order of their ranks, beside the parts, or ceases to.
    fn rank(&mut self) {
        if self.is_diverse() {
            self.sieve = None;
            let mut rules = Vec::with_capacity(self.len);
            self.each_ranked(&mut |rank, r| rules.push((rank, r.id, r.matcher)));
            self.ranked = Some(Box::new(Ranked::new(&rules, self.ranked.as_deref())));
        } else if self.ranked.take().is_some() {
            self.order();
        }
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
        if self.len > 2 * s.made_of + COMPANY {
            self.sift();
        }
    }
    /// Notes in the sieve that a rule has gone. When more have gone than are left, the sieve is made
    /// anew; until then tuples that have become small stay where they are.
    fn sift_out(&mut self) {
        let Some(s) = &mut self.sieve else { return };
        s.removed += 1;
        if self.len == 0 || s.removed > self.len + COMPANY {
            self.sieve = None;
            self.order();
        }
    }
    fn rank_out(&mut self, rank: u64) {
        if let Some(r) = &mut self.ranked
            && (!r.remove(rank) || self.len < MANY / 2)
        {
            self.rank();
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
        self.narrow();
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
fn worthwhile(tuples: usize) -> usize {
    STEP + 2 * tuples
}

impl FastTable {
    /// [`Classifier::insert`], whose rule need not be moved to be tried.
    ///
    /// # Errors
    /// [`Duplicate`] when one with the same match and priority is there; nothing changes.
    pub fn try_insert(&mut self, m: &Match, priority: u32, id: RuleId) -> Result<(), Duplicate> {
        // Before the place is looked for: when numbers have run out, tuples may be put in another order.
        let rank = self.next_rank(priority);
        // The usual rule of an exact table: finding its place and finding its like are one search.
        if let Some(i) = self.only_place(m) {
            let Some(t) = self.tuples.get_mut(i) else { return Ok(()) };
            let top = t.top();
            t.insert_exact(m, rank, id).map_err(Duplicate)?;
            let moved = t.top() != top;
            self.len += 1;
            if moved {
                self.resort(i);
            }
            self.sift_in(i, m);
            self.note_in(rank, m, id);
            self.settle(Some((m, Edit::In(id))));
            return Ok(());
        }
        match self.find(m, priority) {
            Some(there) => Err(Duplicate(there)),
            None => {
                self.insert_ranked(m, rank, id);
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
        self.insert_ranked(m, rank, id);
    }
    fn insert_ranked(&mut self, m: &Match, rank: u64, id: RuleId) {
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
            self.sift_in(i, m);
            self.note_in(rank, m, id);
            return self.settle(Some((m, Edit::In(id))));
        }
        self.rest.insert(rank, id, m.value(), m.mask());
        if self.rest.len() >= self.trigger as usize {
            self.reshape();
        }
        self.note_in(rank, m, id);
        self.settle(None);
    }
}

impl Classifier for FastTable {
    fn insert(&mut self, rule: Rule) -> Result<(), Duplicate> {
        self.try_insert(&rule.matcher, rule.priority, rule.id)
    }

    fn remove(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            let (rank, id) = self.rest.remove(i)?;
            self.len -= 1;
            self.narrow();
            self.sift_out();
            self.note_out(rank, m);
            self.settle(None);
            return Some(id);
        }
        let places: Vec<usize> = self.places(m).collect();
        let (i, (rank, id), top) = places.into_iter().find_map(|i| {
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
        self.note_out(rank, m);
        self.settle(Some((m, Edit::Out)));
        Some(id)
    }

    fn find(&self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(i) = self.rest.position(m.value(), m.mask(), priority) {
            return self.rest.get(i).map(|r| r.1);
        }
        self.places(m).find_map(|i| self.tuples.get(i)?.id_of(m, priority))
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

mod indexing;
mod several;
pub use indexing::Copying;
use indexing::Indexing;

#[cfg(test)]
mod tests;
