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
//! **The parts** ([`Parts`]). *The rest* is a [`Scan`](crate::scan::Scan): columns of values and masks, only of the words that a
//! rule looks at, compared four or eight rules at a time, best first. A *tuple* ([`Tuple`]) is a hash table
//! over the bits of one mask; every rule whose mask covers those bits may live in it, rules with
//! exactly its mask in place, others in small buckets (scans again) of few dozen rules.
//! A table starts as a rest alone. Tuples are sorted by the largest priority in them, and a lookup
//! stops at the first whose priority is under what it has found. From [`SIFTED`](crate::parts::SIFTED) tuples on a
//! [`Sieve`](crate::sieve::Sieve) says first which of them can have a rule for the key at all; they are asked in the order
//! that they had when it was made, and those whose priority is too low are passed over. Between
//! [`MANY`] and [`MOST`] rules in [`FEW_PARTS`] parts or more, or with many to a slot, all stand once more in the order of their
//! ranks ([`Ranked`]): who looks up asks that alone, and the parts serve changes. From [`SOME`] rules on that are more than one tuple and a few rules, or one that says little of many,
//! an [`Index`] takes the place of all of it, beyond [`MOST`] in fewer than [`SIFTED`](crate::parts::SIFTED) parts only one whose keys have one leaf, or a grid. It is not made here but by who has the time (`indexing`). What it can't take later
//! goes to parts beside it, which lookups then ask, too, until another is made. A small table of one tuple,
//! whose mask has bits for a word and no more, is [`Packed`] beside it: a lookup is the first line of the table and another.
//! Where a few rules stand beside one tuple, a lookup asks first whether any of these can fit ([`Way::Aside`]).
//! Where whoever owns the table keeps each rule's bits ([`Words::ByOwner`]), up to 24 rules of such a mask are [`Near`] in place of that,
//! and stay in the rest: a first tuple is looked for only when they can't be. A table-miss entry stands beside all of this (`miss`).
//!
//! **How it changes.** A new rule goes to the tuple with its mask; else to the tuple with the most
//! bits that its mask covers and whose slot has room; else to the rest. When the rest has grown by
//! a step, where it is long by a quarter, `shape` looks for a mask that many of its rules cover and that tells them apart, by a sample
//! of them, and those rules move to a new tuple, some at each change or between bursts ([`FastTable::move_on`]). A new tuple
//! must take more rules the more tuples there are, so that inserting `n` rules makes about `√n` tuples at most however their masks are
//! chosen: tuple explosion ends in merged tuples and a vectorised rest.
//!
//! **What it costs.** Lookup: one hash and one probe a tuple, plus the rest's scan; for a table
//! with one mask, one hash, one probe, one comparison. Insert: a probe of each tuple whose mask the
//! rule covers (to find a duplicate or room), or a block of the rest; sometimes a choice by 128 of its rules, and where rules stand by
//! rank that order anew, of 4,096 at most: none of these longer for more rules (`worst_change`, an example, has figures). A sieve is made anew
//! when rules have doubled or halved, which goes through all of them. Growth and shrinking of tuples are incremental. Rules
//! which differ in priority alone share a bucket without limit; a lookup meets only the best.
//!
//! **Equal priorities.** Each rule has a rank: its priority above the complement of its insertion
//! number. Ranks are unique and larger wins, so that the first inserted wins among equals. After
//! 2³² − 1 insertions the numbers are given out anew, in one pass.

use crate::aside::Aside;
use crate::index::{Change, Draft, Drafted, Index, Made, Wanted, Which};
use crate::key::{FlowKey, FlowMask};
use crate::near::{self, Near};
use crate::packed::{self, Packed, Way};
use crate::parts::{Ahead, Asked, FirstTuple, LONG, Parts};
use crate::ranked::{MOST, Ranked};
use crate::rule::{Classifier, Duplicate, Match, Rule, RuleId};
use crate::scan::{each_word, words_of};
use crate::simd::{Vectors, prefetch_slice};
use crate::sorted::{BURST, gathered};
use crate::tuple::Tuple;
use std::hash::{BuildHasher, RandomState};

/// Rules from which on they may stand by rank, too, and parts that they must have for that.
const MANY: usize = 128;
const FEW_PARTS: usize = 3;

/// Rules from which on they may have an index: with fewer a leaf is more memory for each, and nothing gained.
const SOME: usize = 32;

/// What [`FastTable::probe`] found out about a key, for [`FastTable::resolve`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    /// The hash of the key in the first tuple that must be asked, if it is one of those; in a packed table its bits, as of
    /// [`FastTable::near`].
    hash: u64,
    /// Which of the first 64 tuples must be asked; in a packed table, which bucket; of [`FastTable::near`] one more than the
    /// rule's id, 0 for none.
    left: u64,
}

/// Who keeps what tells the rules of a very small table of one mask apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Words {
    /// The table does.
    #[default]
    Here,
    /// Its owner, beside what it reads of a rule anyway, by [`FastTable::word`]: what [`FastTable::near`] says is to be compared with it.
    ByOwner,
}

/// What the owner knows of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    #[default]
    KeepsNone,
    WasTold,
    /// All rules have other words than it was told.
    ToBeTold,
}

/// What became of a rule.
#[derive(Clone, Copy)]
enum Edit {
    In(RuleId),
    Out(RuleId),
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
    /// What [`FastTable::near`] said: the key's word, and which rule may be meant.
    #[inline(always)]
    pub const fn near(self) -> (u64, Option<RuleId>) {
        let id = match self.left {
            0 => None,
            id => Some(RuleId(id as u32 - 1)),
        };
        (self.hash, id)
    }
}

/// A ternary classifier for rule sets of any size and shape; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FastTable {
    /// How lookups go, and what those of a small table of one mask read: of this nothing else but a bucket, or a byte of `near`.
    packed: Packed,
    /// Words that any rule looks at.
    words: u32,
    /// The owner's, beside what every lookup reads.
    pub beside: u32,
    /// A line of its own: which rule it can be, where the owner keeps words.
    near: Near,
    /// All rules, or, where there is an index, those that it could not take.
    parts: Parts,
    /// Where there are many rules in several parts: who looks up asks it alone.
    ranked: Option<Box<Ranked>>,
    /// All rules but those of the parts, where somebody has made one; and what is known of making it.
    index: Option<Box<Index>>,
    indexing: Option<Box<Indexing>>,
    /// Whether many rules share slots of the few tuples that there are.
    crowded: bool,
    vectors: Vectors,
    owner: Owner,
    /// No rule but the table-miss entry has had a lower priority since there was none, as far as this can say.
    lowest: u8,
    /// Insertions so far, since the numbers were last given out.
    inserted: u32,
    /// Of the rules beside the one tuple, where lookups ask whether they must look at them.
    aside: Aside,
    /// The table-miss entry.
    miss: Option<Box<Miss>>,
    /// Bits that rules look at, of those words alone in which there are any.
    union: Box<[u64]>,
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
            near: Near::default(),
            aside: Aside::default(),
            parts: Parts::default(),
            ranked: None,
            index: None,
            indexing: None,
            crowded: false,
            vectors,
            owner: Owner::default(),
            lowest: LOWEST,
            inserted: 0,
            miss: None,
            union: Box::default(),
        }
    }

    /// An empty table whose words are kept so.
    pub fn with_words(kept: Words) -> Self {
        let (owner, first_tuple) = match kept {
            Words::Here => (Owner::KeepsNone, FirstTuple::WhenDue),
            Words::ByOwner => (Owner::WasTold, FirstTuple::WhenTold),
        };
        Self { owner, parts: Parts::with_first_tuple(first_tuple), ..Self::new() }
    }

    /// What is read for a lookup in a small table of one mask is so long, and what a larger one's owner has beside it; behind it
    /// is the line that is read, too, where the owner keeps words.
    pub const ASKED: usize = std::mem::offset_of!(FastTable, near);

    /// Bits that the rules look at: all of them, and perhaps some that removed rules looked at
    /// (they go with their tuple, or when an index is made).
    pub fn mask_union(&self) -> FlowMask {
        let mut mask = FlowMask::default();
        for (word, bits) in each_word(self.words).zip(&self.union) {
            mask.0.get_mut(word).into_iter().for_each(|w| *w = *bits);
        }
        mask
    }
    /// The same, of the key's first word.
    #[inline]
    pub fn first_union(&self) -> u64 {
        match self.words & 1 {
            0 => 0,
            _ => self.union.first().copied().unwrap_or(0),
        }
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
            + self.parts.heap_bytes()
            + self.ranked.as_ref().map_or(0, |r| size_of::<Ranked>() + r.heap_bytes())
            + self.index.as_ref().map_or(0, |i| size_of::<Index>() + i.heap_bytes())
            + self.indexing.as_ref().map_or(0, |i| size_of_val(&**i) + i.heap_bytes())
            + size_of_val(&*self.union)
            + self.miss.as_ref().map_or(0, |_| size_of::<Miss>())
    }
    /// Moves so many slots of a hash table that grows or shrinks, or some rules that wait for a new one: every change moves some, and while
    /// there are any left, lookups look in two places. Whether there were any. For whoever has the time, between bursts; who keeps words
    /// asks [`FastTable::has_other_words`] afterwards where rules waited.
    pub fn move_on(&mut self, slots: usize) -> bool {
        if self.parts.are_gathering() {
            self.parts.gather();
            self.settle(None);
            return true;
        }
        self.parts.move_on(slots)
    }
    /// Whether rules wait to be moved to a new hash table.
    pub fn is_gathering(&self) -> bool {
        self.parts.are_gathering()
    }
    /// Number of hash tables that a lookup may probe, beside an index if there is one: the shape, for reports.
    pub fn tuples(&self) -> usize {
        self.parts.tuples.len()
    }
    /// Number of rules that are scanned, beside an index if there is one: the shape, for reports.
    pub fn scanned(&self) -> usize {
        self.parts.rest.len()
    }

    /// Whether a lookup is answered by one slot of one hash table, or a few rules beside it.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        matches!(
            self.packed.way,
            Way::Packed | Way::Near | Way::NearAside | Way::Tuple | Way::Aside
        )
    }
    /// Whether a lookup reads the first line of the table and another, and nothing else.
    #[inline(always)]
    pub fn is_packed(&self) -> bool {
        matches!(self.packed.way, Way::Packed | Way::Near)
    }
    /// After a change to one rule, with which others may move to a new tuple.
    fn settle_all(&mut self, m: &Match, edit: Edit) {
        let waited = self.parts.are_gathering();
        if waited {
            self.parts.gather();
        }
        self.settle((!waited).then_some((m, edit)));
    }
    /// After every change, to one rule perhaps.
    fn settle(&mut self, change: Option<(&Match, Edit)>) {
        let near = self.settle_near(change);
        // Where there are more tuples, lookups are dear as it is.
        let Parts { tuples, rest, .. } = &self.parts;
        self.crowded = tuples.len() <= FEW_PARTS && self.parts.is_crowded();
        let alone = rest.is_empty() && tuples.len() == 1 && self.index.is_none();
        let way = match alone {
            _ if near && (alone || tuples.is_empty()) => Way::Near,
            _ if near => self.put_aside(Way::NearAside),
            true if self.crowded => Way::Crowded,
            true => self.pack(change),
            false if self.index.is_some() && !self.parts.is_empty() => Way::Beside,
            false if self.ranked.is_some() || self.index.is_some() => Way::Ordered,
            false if tuples.len() == 1 && !self.crowded && rest.len() < LONG => {
                self.put_aside(Way::Aside)
            }
            false => Way::Parts,
        };
        if way != Way::Packed && self.packed.is_there() {
            self.packed.give_up();
        }
        self.packed.way = way;
    }
    /// Whether all rules are near. If not, and there is no tuple, one is made where that is due.
    fn settle_near(&mut self, change: Option<(&Match, Edit)>) -> bool {
        if self.owner == Owner::KeepsNone {
            return false;
        }
        let Parts { tuples, rest, .. } = &self.parts;
        let one = tuples.is_empty() || tuples.len() == 1 && rest.len() < LONG;
        let one = one && self.index.is_none() && self.ranked.is_none();
        // Of rules that move nobody is told.
        let one = one && !self.parts.are_gathering();
        if one && self.bring_near(change) {
            return true;
        }
        if !self.parts.tuples.is_empty() {
            return false;
        }
        // What was near was so of no tuple.
        self.packed.way = Way::Parts;
        self.parts.shape();
        let Parts { tuples, rest, .. } = &self.parts;
        let one = one && tuples.len() == 1 && rest.len() < LONG;
        one && !self.parts.are_gathering() && self.bring_near(None)
    }
    /// Whether a lookup may be worth remembering: many parts are asked, or many rules scanned, or an index of more than a leaf's few.
    pub fn is_dear(&self) -> bool {
        self.crowded
            || self.ranked.is_some()
            || self.index.as_ref().is_some_and(|i| i.len() >= MANY)
            || self.parts.tuples.len() + self.parts.rest.len() / LONG > FEW_PARTS
    }
    /// Whether a lookup is no dearer than a flow that lies in no near cache: each asks one leaf, of few.
    pub(crate) fn is_cheap(&self) -> bool {
        self.parts.is_empty() && self.index.as_ref().is_some_and(|i| i.asks_one_of_few())
    }
    /// Asks for the lines that [`FastTable::probe`] will read. Where a burst meets many tables,
    /// calling it for all of them before the first probe hides one more cache miss.
    #[inline]
    pub fn warm(&self) {
        match self.packed.way {
            Way::Packed | Way::Near => {}
            Way::Tuple | Way::Crowded | Way::Aside | Way::NearAside => {
                prefetch_slice(&self.parts.tuples, 64);
            }
            Way::Ordered => self.ranked.iter().for_each(|r| r.prefetch()),
            Way::Parts | Way::Beside => {
                prefetch_slice(&self.parts.tuples, 128);
                self.parts.rest.prefetch();
            }
        }
    }
    /// Asks for the lines that inserting or removing a rule with this match will touch: for a row
    /// of changes of a large table.
    pub fn warm_rule(&self, m: &Match) {
        if let Some(t) = self.parts.tuples.first() {
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
        if let (Way::Tuple | Way::Crowded | Way::Near | Way::Aside | Way::NearAside, Some(one)) =
            (self.packed.way, self.parts.tuples.first())
        {
            return Probe { hash: one.probe(key), left: 1 };
        }
        // A few rules in a scan: there is nothing to ask for.
        if matches!(self.packed.way, Way::Parts | Way::Near) && self.parts.tuples.is_empty() {
            return Probe::default();
        }
        self.probe_parts(key)
    }
    #[inline(never)]
    fn probe_parts(&self, key: &FlowKey) -> Probe {
        if let Way::Ordered | Way::Beside = self.packed.way {
            let hash = match (&self.ranked, &self.index) {
                (Some(ranked), _) => ranked.probe(self.vectors, key),
                (_, Some(index)) => index.probe(self.vectors, key),
                _ => 0,
            };
            return Probe { hash, left: 0 };
        }
        match self.parts.tuples.as_slice() {
            [one] => Probe { hash: one.probe(key), left: 1 },
            _ => self.probe_many(key),
        }
    }

    #[inline(never)]
    fn probe_many(&self, key: &FlowKey) -> Probe {
        let left = self.parts.left(key);
        Probe { hash: self.parts.each(left).next().map_or(0, |t| t.probe(key)), left }
    }
    /// Whether an index answers.
    #[inline]
    pub fn is_indexed(&self) -> bool {
        self.index.is_some()
    }
    /// Whether [`FastTable::lookup_all`] is better than probes and what follows them.
    #[inline]
    pub fn takes_all(&self) -> bool {
        matches!(self.packed.way, Way::Ordered | Way::Beside)
    }
    /// The winner for each key, as far as there is a place in `found` for it.
    #[inline(never)]
    pub fn lookup_all(&self, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        let n = keys.len().min(found.len());
        let (keys, found) = (&keys[..n], &mut found[..n]);
        match (self.packed.way, &self.ranked, &self.index) {
            (Way::Beside, _, Some(index)) => self.lookup_beside(index, keys, found),
            (Way::Ordered, Some(ranked), _) => ranked.lookup_all(self.vectors, keys, found),
            (Way::Ordered, _, Some(index)) => index.lookup_all(self.vectors, keys, found),
            _ => return keys.iter().zip(found.iter_mut()).for_each(|(k, f)| *f = self.lookup(k)),
        }
        if let Some(miss) = self.miss() {
            found.iter_mut().for_each(|f| *f = f.or(Some(miss)));
        }
    }
    fn lookup_beside(&self, index: &Index, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            let Some((asked, count)) = gathered(keys.iter()) else { continue };
            let mut best = [None; BURST];
            index.lookup_strewn(self.vectors, asked.get(..count).unwrap_or_default(), &mut best);
            for ((key, best), found) in keys.iter().zip(best).zip(found) {
                *found = self.or_beside(key, best);
            }
        }
    }
    /// The winner, where an index has said this.
    #[inline(always)]
    fn or_beside(&self, key: &FlowKey, best: Option<(u64, RuleId)>) -> Option<RuleId> {
        let beside = || {
            let first = (self.parts.left(key), Ahead::Nothing);
            self.parts.lookup(self.vectors, key, first, best.map_or(0, |b| b.0))
        };
        match self.packed.way {
            Way::Beside => beside().or(best),
            _ => best,
        }
        .map(|b| b.1)
    }
    /// Second half of a lookup: the winner for `key`, whose [`FastTable::probe`] here was `p`. The
    /// table must not have changed in between, or a winner may be missed.
    #[inline(always)]
    pub fn resolve(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        match self.resolve_held(key, p) {
            None => self.miss(),
            found => found,
        }
    }
    /// The same, but for the table-miss entry.
    #[inline(always)]
    fn resolve_held(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        if self.packed.way == Way::Packed {
            return self.packed.find(p.hash, p.left as usize);
        }
        if let (Way::Tuple | Way::Crowded | Way::Near | Way::Aside | Way::NearAside, Some(one)) =
            (self.packed.way, self.parts.tuples.first())
        {
            let aside =
                matches!(self.packed.way, Way::Aside | Way::NearAside) && self.aside.lets(key);
            if aside && !self.aside.below {
                return self.resolve_aside(one, key, Ahead::Hash(p.hash));
            }
            let found = match one.find_narrow(key, p.hash) {
                Some(found) => found,
                None => one.lookup_id(self.vectors, key, p.hash),
            };
            return match found {
                None if aside => self.rest_alone(key),
                found => found,
            };
        }
        if let Way::Ordered | Way::Beside = self.packed.way {
            return self.resolve_ordered(key, p);
        }
        // Tables without tuples are answered in place; for the others a call costs little.
        match self.parts.tuples.as_slice() {
            [] => self.parts.rest.lookup(self.vectors, key, 0).map(|(_, id)| id),
            [one] if self.parts.rest.len() < LONG => {
                self.resolve_aside(one, key, Ahead::Hash(p.hash))
            }
            _ => self.resolve_many(key, p.left, Ahead::Hash(p.hash)),
        }
    }

    /// The best of the rules that stand in no tuple.
    #[inline(never)]
    fn rest_alone(&self, key: &FlowKey) -> Option<RuleId> {
        self.parts.rest.lookup(self.vectors, key, 0).map(|(_, id)| id)
    }

    /// One tuple, and rules aside, as a table of stations has a few for other frames: these first, as they are near. Where none of them
    /// fits, nobody asks for the rank of the tuple's, which is another line.
    #[inline(never)]
    fn resolve_aside(&self, one: &Tuple, key: &FlowKey, ahead: Ahead) -> Option<RuleId> {
        let slot = match ahead {
            Ahead::Slot(slot) => slot,
            Ahead::Hash(hash) => one.slot(key, Some(hash)),
            Ahead::Nothing => one.slot(key, None),
        };
        match self.parts.rest.lookup(self.vectors, key, 0) {
            None => one.id_in(self.vectors, key, slot),
            // What is for all others mostly has a priority below theirs.
            Some((rank, id)) if one.is_above(rank) => {
                one.id_in(self.vectors, key, slot).or(Some(id))
            }
            Some(aside) => {
                let found = one.lookup_slot(self.vectors, key, slot, aside.0);
                Some(found.unwrap_or(aside).1)
            }
        }
    }

    #[inline(never)]
    fn resolve_ordered(&self, key: &FlowKey, p: Probe) -> Option<RuleId> {
        match (&self.ranked, &self.index) {
            (Some(ranked), _) => ranked.resolve(self.vectors, key, p.hash),
            (_, Some(index)) => self.or_beside(key, index.resolve(self.vectors, key, p.hash)),
            _ => None,
        }
    }

    #[inline(never)]
    fn resolve_many(&self, key: &FlowKey, asked: u64, ahead: Ahead) -> Option<RuleId> {
        self.parts.lookup(self.vectors, key, (asked, ahead), 0).map(|b| b.1)
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
        let mut ranks = Vec::with_capacity(self.held());
        self.each_ranked(&mut |rank, _| ranks.push(rank));
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        let anew = |rank: u64| {
            let n = ranks.partition_point(|&r| r > rank) as u64;
            (rank >> 32 << 32) | (u64::from(u32::MAX) - n)
        };
        self.parts.rerank(&anew);
        self.index.iter_mut().for_each(|i| i.rerank(&anew));
        self.inserted = ranks.len() as u32;
        self.renumber_miss();
        if self.ranked.is_some() {
            self.rank();
        }
        self.forget_draft();
        self.settle(None);
    }

    /// Rules but for the table-miss entry.
    fn held(&self) -> usize {
        self.parts.len() + self.index.as_ref().map_or(0, |i| i.len())
    }
    /// Calls `f` for each of these, with its rank.
    fn each_ranked(&self, f: &mut dyn FnMut(u64, &Rule)) {
        self.parts.for_each(f);
        if let Some(index) = &self.index {
            (0..index.leaves()).for_each(|leaf| index.each_of(leaf, f));
        }
    }

    /// Notes that there is a rule more in the parts.
    fn note_in(&mut self, rank: u64, m: &Match, id: RuleId) {
        let len = self.held();
        let room = match &mut self.ranked {
            Some(r) => len <= MOST && r.insert(rank, id, m),
            None => !(MANY..=MOST / 4 * 3).contains(&len) || !self.is_diverse(),
        };
        if !room {
            self.rank();
        }
        self.note_change(|| Change::In(rank, id, *m));
    }
    /// Notes that a rule of the parts has gone.
    fn note_out(&mut self, rank: u64, m: &Match) {
        self.rank_out(rank);
        self.note_change(|| Change::Out(rank, *m));
    }
    /// Whether lookups in the parts would ask many.
    fn is_diverse(&self) -> bool {
        let Parts { tuples, rest, .. } = &self.parts;
        (MANY / 2..=MOST).contains(&self.held())
            && self.index.is_none()
            && (tuples.len() >= FEW_PARTS || rest.len() >= LONG || self.parts.is_crowded())
    }
    /// Puts the rules in order of their ranks, beside the parts, or ceases to.
    fn rank(&mut self) {
        if self.is_diverse() {
            self.parts.set_asked(Asked::No);
            let mut rules = Vec::with_capacity(self.held());
            self.each_ranked(&mut |rank, r| rules.push((rank, r.id, r.matcher)));
            self.ranked = Some(Box::new(Ranked::new(&rules, self.ranked.as_deref())));
        } else if self.ranked.take().is_some() {
            self.parts.set_asked(Asked::Yes);
        }
    }

    fn rank_out(&mut self, rank: u64) {
        let few = self.held() < MANY / 2;
        if let Some(r) = &mut self.ranked
            && (!r.remove(rank) || few)
        {
            self.rank();
        }
    }

    /// Computes the union anew, where the parts are all that there is.
    fn narrow(&mut self) {
        if self.index.is_none() {
            self.set_union(self.parts.union());
        }
    }
    fn set_union(&mut self, union: FlowMask) {
        self.words = words_of(&union);
        self.union = union.0.into_iter().filter(|bits| *bits != 0).collect();
    }
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
        if self.index.is_none()
            && !self.may_be_last(priority)
            && let Some(i) = self.parts.only_place(m)
        {
            self.parts.insert_only(i, m, rank, id).map_err(Duplicate)?;
            self.note_in(rank, m, id);
            self.settle_all(m, Edit::In(id));
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

    /// [`Classifier::insert`] of a rule of which [`Classifier::find`] has just said that it is not
    /// there. One that is there would stand twice.
    pub fn insert_new(&mut self, m: &Match, priority: u32, id: RuleId) {
        let rank = self.next_rank(priority);
        self.insert_ranked(m, rank, id);
    }
    fn insert_ranked(&mut self, m: &Match, rank: u64, id: RuleId) {
        if !(self.may_be_last((rank >> 32) as u32) && self.comes_last(m, rank, id)) {
            self.insert_held(m, rank, id);
        }
    }
    fn insert_held(&mut self, m: &Match, rank: u64, id: RuleId) {
        let union = self.mask_union();
        if !union.covers(m.mask()) {
            self.set_union(union.union(m.mask()));
        }
        if self.index.as_mut().is_some_and(|i| i.insert(self.vectors, rank, id, m)) {
            // Lookups go as they went.
            return self.note_change(|| Change::In(rank, id, *m));
        }
        self.parts.insert(m, rank, id);
        self.note_in(rank, m, id);
        self.settle_all(m, Edit::In(id));
    }
}

impl Classifier for FastTable {
    fn insert(&mut self, rule: Rule) -> Result<(), Duplicate> {
        self.try_insert(&rule.matcher, rule.priority, rule.id)
    }

    fn remove(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        let removed = match self.remove_miss(m, priority) {
            None => self.remove_held(m, priority),
            miss => miss,
        };
        if self.parts.is_empty() && self.index.is_none() {
            self.lowest = LOWEST;
        }
        removed
    }

    fn find(&self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(miss) = self.find_miss(m, priority) {
            return Some(miss);
        }
        let which = Which::Priority(priority);
        let indexed = self.index.as_ref().and_then(|i| i.find(self.vectors, m, which));
        indexed.map(|f| f.1).or_else(|| self.parts.find(m, priority))
    }

    #[inline]
    fn lookup(&self, key: &FlowKey) -> Option<RuleId> {
        self.resolve(key, self.probe(key))
    }

    fn len(&self) -> usize {
        self.held() + usize::from(self.miss.is_some())
    }

    fn for_each(&self, f: &mut dyn FnMut(&Rule)) {
        self.each_ranked(&mut |_, r| f(r));
        self.each_miss(f);
    }
}

impl FastTable {
    fn remove_held(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        if let Some(index) = &mut self.index
            && let Some((rank, id)) = index.remove(self.vectors, m, Which::Priority(priority))
        {
            self.note_change(|| Change::Out(rank, *m));
            self.dissolve_small();
            return Some(id);
        }
        let (rank, id) = self.parts.remove(m, priority)?;
        if self.parts.is_stale() {
            self.narrow();
        }
        self.note_out(rank, m);
        self.settle_all(m, Edit::Out(id));
        self.dissolve_small();
        Some(id)
    }
}

mod indexing;
mod miss;
mod several;
mod small;
use indexing::Indexing;
pub use indexing::{Adoption, Copying};
use miss::{LOWEST, Miss};

#[cfg(test)]
mod aside_tests;
#[cfg(test)]
mod tests;
