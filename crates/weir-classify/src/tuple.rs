//! One tuple: an open-addressing hash table over the bits of one mask.
//!
//! Room: data-path core. Called by `fast`. A rule belongs here when its mask covers the tuple's;
//! a slot holds either one rule with exactly the tuple's mask (in place: masked words, tag, id) or
//! a bucket, a [`Scan`] of the rules that agree on the tuple's bits and ask for more.
//! Cost: a lookup is one hash, a probe of a line or two, one comparison, and a scan if the slot is
//! a bucket. The hash is keyed by a random seed, so that no one outside can build collisions.
//! Growth and shrinking are incremental: every change moves [`STEP`] slots of the old array, and
//! lookups ask both while that lasts. Source: Srinivasan et al., SIGCOMM '99; Daly et al.,
//! TupleMerge, ToN 2019.

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::{Match, Rule, RuleId};
use crate::scan::{Scan, each_word, words_of};
use crate::simd::{Vectors, prefetch_read};
use crate::slots::{BUCKET, GONE, RULE, Slots, hash};
use std::collections::BTreeMap;
use std::ops::Range;

/// Slots of the smallest array.
const SMALLEST: usize = 16;
/// Slots moved to the new array by each change.
const STEP: usize = 16;
/// Words of a mask up to which the code is unrolled and the masks are kept in the tuple itself;
/// a mask with more takes a slower way.
const INLINE: usize = 5;
/// Words of a mask up to which all that a lookup reads of a tuple is one line.
const NARROW: usize = 2;

/// What a resize has not moved yet. Slots below `moved` are stale copies.
#[derive(Clone, Debug)]
struct Old {
    slots: Slots,
    moved: usize,
}

/// Lookups that end in a bucket take twice as long as others: where one rule in so many has one, another way may be better.
const INEXACT: usize = 8;
/// Rules of a tuple from which on its buckets are small rather than quick: tables so large are mostly asked in other ways.
const LARGE: usize = 1024;

/// Where a slot is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    New(usize),
    Old(usize),
}

/// What [`Tuple::slot`] says of a key: where its slot is, and what that begins with.
pub(crate) type Slot = Option<(Place, u64)>;

/// A hash table over the bits of one mask. What a lookup of one rule touches is one line where the mask has bits in one word
/// or two, else two.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Tuple {
    seed: u64,
    /// Of the first words that the mask has bits in.
    masks: [u64; NARROW],
    /// Beside it the number of words that the mask has bits in, and the places of the first two.
    slots: Slots,
    /// Of the next words.
    more_masks: [u64; INLINE - NARROW],
    more_index: [u8; INLINE - NARROW],
    /// Largest and smallest priority of any rule here.
    top: u32,
    bottom: u32,
    old: Option<Box<Old>>,
    buckets: Vec<Scan>,
    cold: Box<Cold>,
}

const _: () = assert!(
    std::mem::offset_of!(Tuple, slots) + Slots::READ == 64
        && std::mem::offset_of!(Tuple, buckets) <= 128
);

/// What lookups do not touch.
#[derive(Clone, Debug)]
struct Cold {
    mask: FlowMask,
    /// How many bits that has.
    bits: u32,
    /// Places of the words that the mask has bits in.
    index: [u8; WORDS],
    /// Bits that any rule has looked at.
    union: FlowMask,
    /// Rules of each priority.
    priorities: BTreeMap<u32, u32>,
    free_buckets: Vec<u32>,
    /// Slots in use, in both arrays.
    used: usize,
    rules: usize,
    copied: CopiedTo,
}

/// How far a copy in steps has come: first what the old array has, then the new one.
#[derive(Clone, Copy, Debug)]
enum CopiedTo {
    Old(usize),
    New(usize),
}

impl Tuple {
    /// An empty tuple over `mask`, which is not empty.
    pub(crate) fn new(mask: &FlowMask, seed: u64) -> Self {
        let (mut masks, mut index, mut n) = ([0; INLINE], [0; WORDS], 0);
        for word in each_word(words_of(mask)) {
            if let (Some(slot), Some(m)) = (masks.get_mut(n), mask.0.get(word)) {
                *slot = *m;
            }
            if let Some(slot) = index.get_mut(n) {
                *slot = word as u8;
            }
            n += 1;
        }
        let ([m0, m1, more_masks @ ..], [i0, i1, i2, i3, i4, ..]) = (masks, index);
        Self {
            seed: seed | 1,
            masks: [m0, m1],
            slots: Slots::new(SMALLEST, n + 1, [n as u8, i0, i1, 0]),
            more_masks,
            more_index: [i2, i3, i4],
            top: 0,
            bottom: u32::MAX,
            old: None,
            buckets: Vec::new(),
            cold: Box::new(Cold {
                mask: *mask,
                bits: mask.bits(),
                index,
                union: *mask,
                priorities: BTreeMap::new(),
                free_buckets: Vec::new(),
                used: 0,
                rules: 0,
                copied: CopiedTo::New(0),
            }),
        }
    }

    pub(crate) fn mask(&self) -> &FlowMask {
        &self.cold.mask
    }
    /// How many bits that has.
    pub(crate) fn bits(&self) -> u32 {
        self.cold.bits
    }
    pub(crate) fn union(&self) -> &FlowMask {
        &self.cold.union
    }
    pub(crate) fn len(&self) -> usize {
        self.cold.rules
    }
    /// Of its hash, and no other tuple's.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
    /// Whether every slot holds one rule, with exactly the tuple's mask.
    pub(crate) fn is_exact(&self) -> bool {
        self.buckets.is_empty()
    }
    /// Whether more than one slot in [`INEXACT`] has rules that ask more than the tuple's mask, or several.
    pub(crate) fn is_inexact(&self) -> bool {
        (self.buckets.len() - self.cold.free_buckets.len()) * INEXACT > self.cold.used
    }
    /// How many rules stand in buckets beyond the first of each: what lookups scan.
    pub(crate) fn company_kept(&self) -> usize {
        self.cold.rules.saturating_sub(self.cold.used)
    }
    /// Largest priority of any rule here.
    #[inline]
    pub(crate) fn top(&self) -> u32 {
        self.top
    }
    /// Whether each rule here is above one of this rank.
    pub(crate) fn is_above(&self, rank: u64) -> bool {
        self.bottom > (rank >> 32) as u32
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(Scan::heap_bytes).sum();
        self.slots.bytes()
            + self.old.as_ref().map_or(0, |o| size_of::<Old>() + o.slots.bytes())
            + self.buckets.capacity() * size_of::<Scan>()
            + buckets
            + size_of::<Cold>()
            + self.cold.free_buckets.capacity() * size_of::<u32>()
            // A B-tree's nodes are at least half full: about twice its elements.
            + self.cold.priorities.len() * 2 * size_of::<(u32, u32)>()
    }
    /// Number of words that the mask has bits in.
    #[inline(always)]
    fn n(&self) -> u8 {
        self.slots.beside[0]
    }
    fn stride(&self) -> usize {
        usize::from(self.n()) + 1
    }

    /// Masked words of `key` behind a place for the hash.
    #[inline(always)]
    fn gather<const S: usize>(&self, key: &FlowKey) -> [u64; S] {
        let mut want = [0; S];
        let [_, i0, i1, _] = self.slots.beside;
        let ([m0, m1], [i2, i3, i4], [m2, m3, m4]) = (self.masks, self.more_index, self.more_masks);
        let words = [(i0, m0), (i1, m1), (i2, m2), (i3, m3), (i4, m4)];
        for (w, (i, mask)) in want.iter_mut().skip(1).zip(words) {
            *w = key.0.get(usize::from(i)).copied().unwrap_or(0) & mask;
        }
        want
    }
    #[inline(always)]
    fn hash_fixed<const S: usize>(&self, key: &FlowKey) -> u64 {
        hash(self.seed, &self.gather::<S>(key)[1..])
    }
    fn gather_slow(&self, key: &FlowKey) -> ([u64; WORDS], u64) {
        let mut want = [0; WORDS];
        let n = usize::from(self.n());
        for (w, &i) in want.iter_mut().zip(self.cold.index.iter().take(n)) {
            let i = usize::from(i);
            *w = key.0.get(i).copied().unwrap_or(0) & self.cold.mask.0.get(i).copied().unwrap_or(0);
        }
        let h = hash(self.seed, want.get(..n).unwrap_or_default());
        (want, h)
    }

    /// The hash of `key` here; asks for its cache line.
    #[inline(always)]
    pub(crate) fn probe(&self, key: &FlowKey) -> u64 {
        match self.n() {
            1 => self.probe_fixed::<2>(key),
            2 => self.probe_fixed::<3>(key),
            _ => self.probe_words(key),
        }
    }
    #[inline(always)]
    fn probe_fixed<const S: usize>(&self, key: &FlowKey) -> u64 {
        let hash = self.hash_fixed::<S>(key);
        self.slots.prefetch(hash, S);
        hash
    }

    #[inline(never)]
    fn probe_words(&self, key: &FlowKey) -> u64 {
        let hash = match self.n() {
            3 => self.hash_fixed::<4>(key),
            4 => self.hash_fixed::<5>(key),
            5 => self.hash_fixed::<6>(key),
            _ => self.gather_slow(key).1,
        };
        self.slots.prefetch(hash, self.stride());
        hash
    }

    /// Asks for the lines that a change of the rule with this value touches.
    pub(crate) fn warm(&self, value: &FlowKey) {
        let hash = self.probe(value);
        self.slots.prefetch_rank(hash);
        if let Some(old) = &self.old {
            old.slots.prefetch(hash, self.stride());
        }
    }

    /// The slot that `key` falls into. `hash` is what `probe` said of the same key, if it was
    /// asked.
    #[inline(always)]
    pub(crate) fn slot(&self, key: &FlowKey, hash: Option<u64>) -> Slot {
        match self.n() {
            1 => self.find_fixed::<2>(key, hash),
            2 => self.find_fixed::<3>(key, hash),
            3 => self.find_fixed::<4>(key, hash),
            4 => self.find_fixed::<5>(key, hash),
            5 => self.find_fixed::<6>(key, hash),
            _ => {
                let (want, hash) = self.gather_slow(key);
                self.find(hash, want.get(..usize::from(self.n())).unwrap_or_default())
            }
        }
    }

    /// The winner among the rules here that are above `floor`, with its rank.
    #[inline]
    pub(crate) fn lookup(
        &self,
        v: Vectors,
        key: &FlowKey,
        hash: Option<u64>,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        self.lookup_slot(v, key, self.slot(key, hash), floor)
    }
    /// The same, where the slot is known.
    #[inline]
    pub(crate) fn lookup_slot(
        &self,
        v: Vectors,
        key: &FlowKey,
        slot: Slot,
        floor: u64,
    ) -> Option<(u64, RuleId)> {
        let (place, head) = slot?;
        let payload = (head >> 32) as u32;
        if head & BUCKET != 0 {
            return self.buckets.get(payload as usize)?.lookup(v, key, floor);
        }
        let rank = self.rank(place)?;
        (rank > floor).then_some((rank, RuleId(payload)))
    }
    /// Asks for the bucket that a slot leads to, if it does, and says which.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, slot: Slot) -> Option<&Scan> {
        let (_, head) = slot?;
        let leads = head & BUCKET != 0;
        let bucket = leads.then(|| self.buckets.get((head >> 32) as usize))??;
        prefetch_read(bucket);
        Some(bucket)
    }
    /// Asks for the rank that [`Tuple::lookup_slot`] reads.
    #[inline(always)]
    pub(crate) fn prefetch_rank(&self, slot: Slot) {
        if let Some((Place::New(at), head)) = slot
            && head & BUCKET == 0
        {
            self.slots.ranks.get(at).into_iter().for_each(prefetch_read);
        }
    }

    /// The winner where the mask has bits in one word or two, as those of large tables mostly have, if it takes no more
    /// than a slot to say: `None` where [`Tuple::lookup_id`] must be asked.
    #[inline(always)]
    pub(crate) fn find_narrow(&self, key: &FlowKey, hash: u64) -> Option<Option<RuleId>> {
        match self.n() {
            1 => self.find_words::<2>(key, hash),
            2 => self.find_words::<3>(key, hash),
            _ => None,
        }
    }
    #[inline(never)]
    fn find_words<const S: usize>(&self, key: &FlowKey, hash: u64) -> Option<Option<RuleId>> {
        match self.slots.find_fixed(hash, &self.gather::<S>(key)) {
            Some((_, head)) if head & BUCKET == 0 => Some(Some(RuleId((head >> 32) as u32))),
            None if self.old.is_none() => Some(None),
            _ => None,
        }
    }

    /// As `lookup` without a floor and without the rank, which costs a cache line.
    #[inline(never)]
    pub(crate) fn lookup_id(&self, v: Vectors, key: &FlowKey, hash: u64) -> Option<RuleId> {
        self.id_in(v, key, self.slot(key, Some(hash)))
    }
    /// The same, where the slot is known.
    #[inline(always)]
    pub(crate) fn id_in(&self, v: Vectors, key: &FlowKey, slot: Slot) -> Option<RuleId> {
        let (_, head) = slot?;
        let payload = (head >> 32) as u32;
        if head & BUCKET != 0 {
            return self.buckets.get(payload as usize)?.lookup(v, key, 0).map(|(_, id)| id);
        }
        Some(RuleId(payload))
    }

    #[inline(always)]
    fn find_fixed<const S: usize>(
        &self,
        key: &FlowKey,
        known: Option<u64>,
    ) -> Option<(Place, u64)> {
        let want = self.gather::<S>(key);
        let hash = known.unwrap_or_else(|| hash(self.seed, &want[1..]));
        if let Some((at, head)) = self.slots.find_fixed(hash, &want) {
            return Some((Place::New(at), head));
        }
        let old = self.old.as_deref()?;
        old.slots
            .find_fixed(hash, &want)
            .filter(|&(at, _)| at >= old.moved)
            .map(|(at, h)| (Place::Old(at), h))
    }

    fn find(&self, hash: u64, want: &[u64]) -> Option<(Place, u64)> {
        if let Some((at, head)) = self.slots.find_slow(hash, want) {
            return Some((Place::New(at), head));
        }
        let old = self.old.as_deref()?;
        old.slots
            .find_slow(hash, want)
            .filter(|&(at, _)| at >= old.moved)
            .map(|(at, h)| (Place::Old(at), h))
    }

    /// The slot for what `m` demands of this tuple's bits, if there is one.
    fn slot_of(&self, m: &Match) -> Slot {
        self.slot(m.value(), None)
    }

    fn rank(&self, place: Place) -> Option<u64> {
        match place {
            Place::New(at) => self.slots.ranks.get(at).copied(),
            Place::Old(at) => self.old.as_ref()?.slots.ranks.get(at).copied(),
        }
    }

    fn set(&mut self, place: Place, head: u64, rank: u64) {
        let stride = self.stride();
        let (slots, at) = match (place, self.old.as_mut()) {
            (Place::New(at), _) => (&mut self.slots, at),
            (Place::Old(at), Some(old)) => (&mut old.slots, at),
            (Place::Old(_), None) => return,
        };
        if let Some(h) = slots.head_mut(at, stride) {
            *h = head;
        }
        if let Some(r) = slots.ranks.get_mut(at) {
            *r = rank;
        }
    }

    /// The rule with exactly this match and priority.
    pub(crate) fn id_of(&self, m: &Match, priority: u32) -> Option<RuleId> {
        let (place, head) = self.slot_of(m)?;
        let payload = (head >> 32) as u32;
        if head & BUCKET == 0 {
            let same = m.mask() == self.mask() && (self.rank(place)? >> 32) as u32 == priority;
            return same.then_some(RuleId(payload));
        }
        let (value, mask) = self.beyond(m);
        let bucket = self.buckets.get(payload as usize)?;
        bucket.find(&value, &mask, priority).map(|r| r.1)
    }

    /// How many rules share the slot that `m` would go to.
    pub(crate) fn company(&self, m: &Match) -> usize {
        match self.slot_of(m) {
            None => 0,
            Some((_, head)) if head & BUCKET == 0 => 1,
            Some((_, head)) => self.buckets.get((head >> 32) as usize).map_or(0, Scan::len),
        }
    }

    /// What `m` demands outside this tuple's bits.
    fn beyond(&self, m: &Match) -> (FlowKey, FlowMask) {
        let mut mask = *m.mask();
        for (b, t) in mask.0.iter_mut().zip(&self.cold.mask.0) {
            *b &= !t;
        }
        (m.value().masked(&mask), mask)
    }

    /// Adds a rule, whose mask covers the tuple's and which is not here yet.
    pub(crate) fn insert(&mut self, m: &Match, rank: u64, id: RuleId) {
        self.move_some();
        let exact = *m.mask() == self.cold.mask;
        let found = self.slot_of(m);
        self.insert_at(m, found, exact, rank, id);
    }

    /// Adds a rule with exactly the tuple's mask, unless one of the same priority is here.
    ///
    /// # Errors
    /// That rule; nothing has changed, nor moved: who copies the rules meanwhile need not know.
    pub(crate) fn insert_exact(&mut self, m: &Match, rank: u64, id: RuleId) -> Result<(), RuleId> {
        let found = self.slot_of(m);
        if let Some(found) = found
            && let Some(there) = self.exact_in(found, (rank >> 32) as u32)
        {
            return Err(there);
        }
        self.insert_at(m, found, true, rank, id);
        self.move_some();
        Ok(())
    }

    /// The rule with exactly the tuple's mask and this priority in a slot.
    fn exact_in(&self, (place, head): (Place, u64), priority: u32) -> Option<RuleId> {
        let payload = (head >> 32) as u32;
        if head & BUCKET == 0 {
            return ((self.rank(place)? >> 32) as u32 == priority).then_some(RuleId(payload));
        }
        let bucket = self.buckets.get(payload as usize)?;
        bucket.find(&FlowKey::default(), &FlowMask::default(), priority).map(|r| r.1)
    }

    /// Adds a rule to the slot that it falls into.
    fn insert_at(&mut self, m: &Match, found: Slot, exact: bool, rank: u64, id: RuleId) {
        let (value, mask) = match exact {
            // Nothing lies beyond.
            true => (FlowKey::default(), FlowMask::default()),
            false => self.beyond(m),
        };
        match found {
            Some((_, head)) if head & BUCKET != 0 => {
                if let Some(b) = self.buckets.get_mut((head >> 32) as usize) {
                    b.insert(rank, id, &value, &mask);
                }
            }
            Some((place, head)) => {
                let mut bucket = self.new_bucket();
                if let Some(r) = self.rank(place) {
                    let own = RuleId((head >> 32) as u32);
                    bucket.insert(r, own, &FlowKey::default(), &FlowMask::default());
                }
                bucket.insert(rank, id, &value, &mask);
                let payload = self.keep_bucket(bucket);
                self.set(place, payload << 32 | BUCKET, 0);
            }
            None => {
                let (head, rank) = if exact {
                    (u64::from(id.0) << 32 | RULE, rank)
                } else {
                    let mut bucket = self.new_bucket();
                    bucket.insert(rank, id, &value, &mask);
                    (self.keep_bucket(bucket) << 32 | BUCKET, 0)
                };
                self.make_room();
                let (want, hash) = self.gather_slow(m.value());
                let words = want.get(..usize::from(self.n())).unwrap_or_default();
                self.slots.place(hash, head, words, rank);
                self.cold.used += 1;
            }
        }
        self.cold.rules += 1;
        if !exact {
            self.cold.union = self.cold.union.union(m.mask());
        }
        let priority = (rank >> 32) as u32;
        *self.cold.priorities.entry(priority).or_insert(0) += 1;
        self.top = self.top.max(priority);
        self.bottom = self.bottom.min(priority);
    }

    fn new_bucket(&self) -> Scan {
        if self.cold.rules < LARGE { Scan::default() } else { Scan::tight() }
    }
    fn keep_bucket(&mut self, bucket: Scan) -> u64 {
        if let Some(n) = self.cold.free_buckets.pop()
            && let Some(b) = self.buckets.get_mut(n as usize)
        {
            *b = bucket;
            return u64::from(n);
        }
        if self.buckets.len() == self.buckets.capacity() {
            self.buckets.reserve_exact(self.buckets.len() / 4 + 4);
        }
        self.buckets.push(bucket);
        self.buckets.len() as u64 - 1
    }

    fn drop_bucket(&mut self, n: u32) {
        if n as usize + 1 == self.buckets.len() {
            self.buckets.pop();
        } else {
            if let Some(b) = self.buckets.get_mut(n as usize) {
                *b = Scan::default();
            }
            self.cold.free_buckets.push(n);
        }
        if self.cold.free_buckets.len() == self.buckets.len() {
            self.buckets = Vec::new();
            self.cold.free_buckets = Vec::new();
        }
    }

    /// Removes the rule with exactly this match and priority; its rank, too.
    pub(crate) fn remove(&mut self, m: &Match, priority: u32) -> Option<(u64, RuleId)> {
        let (place, head) = self.slot_of(m)?;
        let payload = (head >> 32) as u32;
        let gone = if head & BUCKET == 0 {
            let rank = self.rank(place)?;
            if m.mask() != self.mask() || (rank >> 32) as u32 != priority {
                return None;
            }
            self.erase(place);
            (rank, RuleId(payload))
        } else {
            let (value, mask) = self.beyond(m);
            let bucket = self.buckets.get_mut(payload as usize)?;
            let gone = bucket.take(&value, &mask, priority)?;
            match (bucket.len(), bucket.best()) {
                (1, Some((rank, id, _, mask))) if mask.is_empty() => {
                    self.drop_bucket(payload);
                    self.set(place, u64::from(id.0) << 32 | RULE, rank);
                }
                (0, _) => {
                    self.drop_bucket(payload);
                    self.erase(place);
                }
                _ => {}
            }
            gone
        };
        self.cold.rules -= 1;
        if let Some(n) = self.cold.priorities.get_mut(&priority) {
            *n -= 1;
            if *n == 0 {
                self.cold.priorities.remove(&priority);
                self.top = self.cold.priorities.last_key_value().map_or(0, |(&p, _)| p);
                self.bottom = self.cold.priorities.first_key_value().map_or(u32::MAX, |(&p, _)| p);
            }
        }
        self.move_some();
        Some(gone)
    }

    fn erase(&mut self, place: Place) {
        let (stride, seed) = (self.stride(), self.seed);
        match place {
            Place::New(at) => {
                let copied = match &mut self.cold.copied {
                    CopiedTo::New(to) => to,
                    CopiedTo::Old(_) => &mut 0,
                };
                self.slots.erase(at, stride, seed, copied);
            }
            Place::Old(_) => self.set(place, GONE, 0),
        }
        self.cold.used -= 1;
        let capacity = self.slots.capacity();
        if self.old.is_none() && capacity > SMALLEST && self.cold.used < capacity / 8 {
            self.resize(capacity / 2);
        }
    }

    /// Starts to grow where one more slot would fill the array past five eighths.
    fn make_room(&mut self) {
        let capacity = self.slots.capacity();
        if (self.cold.used + 1) * 8 > capacity * 5 {
            self.move_all();
            self.resize(capacity * 2);
        }
    }

    fn resize(&mut self, capacity: usize) {
        let new = Slots::new(capacity, self.stride(), self.slots.beside);
        let slots = std::mem::replace(&mut self.slots, new);
        self.old = Some(Box::new(Old { slots, moved: 0 }));
        self.cold.copied = match self.cold.copied {
            CopiedTo::New(to) => CopiedTo::Old(to),
            // All of what was old is in what has just become it.
            CopiedTo::Old(_) => CopiedTo::Old(0),
        };
        if capacity <= 64 {
            self.move_all();
        }
    }

    fn move_all(&mut self) {
        self.move_on(usize::MAX);
    }
    /// Moves so many slots of the old array, or a few more; whether there were any.
    pub(crate) fn move_on(&mut self, slots: usize) -> bool {
        let had = self.old.is_some();
        let mut steps = slots.div_ceil(STEP);
        while self.old.is_some() && steps > 0 {
            self.move_some();
            steps -= 1;
        }
        had
    }

    /// Moves the next slots of the old array, and frees it after the last.
    fn move_some(&mut self) {
        let stride = self.stride();
        let Some(old) = self.old.as_mut() else { return };
        let until = (old.moved + STEP).min(old.slots.capacity());
        for at in old.moved..until {
            let used = old.slots.tags.get(at).is_some_and(|&t| t != 0);
            if let Some((&head, words)) =
                old.slots.words.get(at * stride..(at + 1) * stride).and_then(<[u64]>::split_first)
                && used
                && head != GONE
            {
                let rank = old.slots.ranks.get(at).copied().unwrap_or(0);
                self.slots.place(hash(self.seed, words), head, words, rank);
            }
        }
        old.moved = until;
        if until == old.slots.capacity() {
            self.old = None;
            if let CopiedTo::Old(_) = self.cold.copied {
                self.cold.copied = CopiedTo::New(0);
            }
        }
    }

    /// Calls `f` for every rule, with its rank.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(u64, &Rule)) {
        self.for_slots(&self.slots, 0..self.slots.capacity(), f);
        if let Some(old) = self.old.as_deref() {
            self.for_slots(&old.slots, old.moved..old.slots.capacity(), f);
        }
    }
    /// What [`Tuple::copy_some`] calls for begins with the first slot.
    pub(crate) fn begin_copy(&mut self) {
        self.cold.copied = match &self.old {
            Some(old) => CopiedTo::Old(old.moved),
            None => CopiedTo::New(0),
        };
    }
    /// Calls `f` for every rule of some slots more, with its rank; true where those were the last. Rules that move meanwhile it
    /// may meet twice, and misses none: those that move to a new array are there when that is copied, and a copy goes back to where
    /// one moves that it had still before it.
    pub(crate) fn copy_some(&mut self, slots: usize, f: &mut dyn FnMut(u64, &Rule)) -> bool {
        match (self.cold.copied, self.old.as_deref()) {
            (CopiedTo::Old(from), Some(old)) => {
                let to = old.slots.capacity().min(from.saturating_add(slots));
                self.for_slots(&old.slots, from.max(old.moved)..to, f);
                self.cold.copied = match to == old.slots.capacity() {
                    true => CopiedTo::New(0),
                    false => CopiedTo::Old(to),
                };
                false
            }
            (at, _) => {
                let from = if let CopiedTo::New(from) = at { from } else { 0 };
                let to = self.slots.capacity().min(from.saturating_add(slots));
                self.for_slots(&self.slots, from..to, f);
                self.cold.copied = CopiedTo::New(to);
                to == self.slots.capacity()
            }
        }
    }
    fn for_slots(&self, slots: &Slots, which: Range<usize>, f: &mut dyn FnMut(u64, &Rule)) {
        let all = slots.words.chunks_exact(self.stride()).zip(&slots.ranks).zip(&slots.tags);
        for ((slot, &rank), &tag) in all.take(which.end).skip(which.start) {
            let Some((&head, words)) = slot.split_first() else { continue };
            if tag == 0 || head == GONE {
                continue;
            }
            let mut value = FlowKey::default();
            for (w, &i) in words.iter().zip(&self.cold.index) {
                if let Some(v) = value.0.get_mut(usize::from(i)) {
                    *v = *w;
                }
            }
            let payload = (head >> 32) as u32;
            if head & BUCKET == 0 {
                let matcher = Match::new(value, self.cold.mask);
                f(rank, &Rule { matcher, priority: (rank >> 32) as u32, id: RuleId(payload) });
                continue;
            }
            let bucket = self.buckets.get(payload as usize);
            for (rank, id, more, mask) in bucket.into_iter().flat_map(Scan::iter) {
                let mut value = value;
                for (v, m) in value.0.iter_mut().zip(&more.0) {
                    *v |= m;
                }
                let matcher = Match::new(value, mask.union(&self.cold.mask));
                f(rank, &Rule { matcher, priority: (rank >> 32) as u32, id });
            }
        }
    }

    /// Gives every rule the rank that `f` says; their order must stay.
    pub(crate) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.move_all();
        let stride = self.stride();
        let Slots { tags, words, ranks, .. } = &mut self.slots;
        for ((slot, rank), &tag) in words.chunks_exact(stride).zip(ranks).zip(&*tags) {
            if tag != 0 && slot.first().is_some_and(|h| h & BUCKET == 0) {
                *rank = f(*rank);
            }
        }
        self.buckets.iter_mut().for_each(|b| b.rerank(f));
    }
}
