//! Stage 2, action matching: (VDP, key) → action result.
//!
//! A VDP has its own tables, so a lookup costs what that VDP's rules cost and can never meet
//! another VDP's rule. What no rule takes gets the VDP's default rule (004 §4.2).
//!
//! Room: called by the worker for every frame of a burst (probe all, then resolve all, so that the
//! memory each lookup needs is on its way while others compute), and by the slow path for rules
//! that live there. Changed between bursts only.

use crate::action::Action;
use crate::compile::{ActionResult, bits};
use crate::counters::{SharedLookups, SharedUsage, Side, SlowLookups, TableCounters, Tally, Usage};
use crate::execute::InvalidTtl;
use crate::group::Group;
use crate::meter::Meter;
use crate::programs::hash::Fold;
use crate::software::SlowRule;
use crate::written::{Lists, Written};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;
use weir_classify::{
    Classifier, Duplicate, FastTable, FlowCache, FlowCaching, FlowKey, Match, Probe, Rule, RuleId,
};
use weir_packet::{BURST, Nanos};

/// A rule as its owner wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Which frames, in the VDP's port numbers.
    pub matcher: Match,
    /// Larger wins; among equals the one inserted first.
    pub priority: u32,
    /// The owner's mark.
    pub cookie: u64,
    /// What to do.
    pub actions: Arc<[Action]>,
}

/// An installed rule as frames meet it: its action result with its counters beside it, so that a
/// hit touches one line of memory and nothing else. What only people ask for stands in [`Table`].
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// What to do.
    pub result: ActionResult,
    /// Frames that hit on this side.
    pub hits: Tally,
    /// When the last of them came.
    pub last_used: Nanos,
    /// The owner's mark.
    pub cookie: u64,
}

// Between its two halves a lookup waits for the rest of its burst.
const _: () = assert!(BURST <= FlowCache::UNDER_WAY);

// A million of them is a million lines.
const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    fn new(spec: &RuleSpec, result: ActionResult) -> Self {
        let mut e = Self::vacant();
        e.relink(&spec.matcher, spec.priority, result);
        e.cookie = spec.cookie;
        e
    }
    /// Gives the rule with this match and priority what its actions come down to now.
    fn relink(&mut self, matcher: &Match, priority: u32, result: ActionResult) {
        self.result = result;
        let all = priority == 0 && *matcher == Match::any();
        if all && self.result.bits & bits::PROGRAM != 0 {
            self.result.bits |= bits::TABLE_MISS;
        }
    }
    /// What stands in a slot that no rule has.
    fn vacant() -> Self {
        let result = ActionResult::drop();
        Self { result, hits: Tally::default(), last_used: Nanos(0), cookie: 0 }
    }
    /// Counts a frame that the worker saw.
    #[inline(always)]
    pub fn hit(&mut self, len: usize, now: Nanos) {
        self.hits.add(len);
        self.last_used = now;
    }
}

/// Entries from which on there are half as many more when there is no room, not twice.
const GROWS_BY_HALF: usize = 1 << 16;

/// One table of a VDP. What a frame touches in a small one whose rules have one mask is its first line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Table {
    /// Those behind the first `filled` are vacant.
    entries: Box<[Entry]>,
    /// Answers with slots of `entries`. Beside what it reads: how many lookups on this side found a rule, the low half.
    pub classifier: FastTable,
    matched_high: u32,
    filled: u32,
    /// What is known of flows, where lookups are dear.
    cache: Option<Box<FlowCache>>,
    caching: FlowCaching,
    /// What each slot's owner wrote; rules that came with one list share it, or have none.
    actions: Vec<Written>,
    /// Hits of the slow path: read by the worker, written by the slow path's own table. Only as
    /// long as the last slot that has any.
    slow: Vec<Option<Arc<SharedUsage>>>,
    free: Vec<u32>,
    /// Lookups on this side that found none.
    missed: u64,
    /// Rules that the classifier has not, since they live on the slow path; they keep their slot.
    aside: HashMap<(Match, u32), u32>,
}

// The first line of a table: entries, what a small classifier of one mask is asked, what was matched.
const _: () = assert!(std::mem::offset_of!(Table, classifier) + FastTable::ASKED <= 64);

/// No table is this large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("table holds as many rules as it can number")]
pub struct TableFull;

impl Table {
    /// Adds a rule or, when one with the same match and priority is there, replaces its actions
    /// and keeps its place and counters. Says whether it was new.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn put(&mut self, spec: &RuleSpec, result: ActionResult) -> Result<Put, TableFull> {
        let known = self.find(&spec.matcher, spec.priority);
        self.put_at(known, spec, result)?;
        Ok(if known.is_some() { Put::Replaced } else { Put::Added })
    }
    /// [`Table::put`] where [`Table::find`] has just said `known`. Gives the rule's slot.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn put_at(
        &mut self,
        known: Option<u32>,
        spec: &RuleSpec,
        result: ActionResult,
    ) -> Result<u32, TableFull> {
        let slot = match known {
            Some(s) => s,
            None => self.next_slot()?,
        };
        let back =
            !self.aside.is_empty() && self.aside.remove(&(spec.matcher, spec.priority)).is_some();
        if known.is_none() || back {
            self.classifier.insert_new(&spec.matcher, spec.priority, RuleId(slot));
            self.refit();
        }
        match known {
            Some(_) => self.replace(slot, spec, result),
            None => self.fill(slot, spec, result),
        }
        Ok(slot)
    }
    /// [`Table::put`] where no rule lives on the slow path, in one search. Gives the rule's slot.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn put_fast(
        &mut self,
        spec: &RuleSpec,
        result: ActionResult,
    ) -> Result<(Put, u32), TableFull> {
        let slot = self.next_slot()?;
        match self.classifier.try_insert(&spec.matcher, spec.priority, RuleId(slot)) {
            Ok(()) => {
                self.refit();
                self.fill(slot, spec, result);
                Ok((Put::Added, slot))
            }
            Err(Duplicate(RuleId(slot))) => {
                self.replace(slot, spec, result);
                Ok((Put::Replaced, slot))
            }
        }
    }
    /// Keeps the place and counters of a rule that lives on the slow path, and says where that
    /// counts. Frames do not find it here.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn put_aside(
        &mut self,
        spec: &RuleSpec,
        result: ActionResult,
    ) -> Result<Arc<SharedUsage>, TableFull> {
        let slot = match self.set_aside(&spec.matcher, spec.priority) {
            Some(s) => {
                self.replace(s, spec, result);
                s
            }
            None => {
                let s = self.next_slot()?;
                self.aside.insert((spec.matcher, spec.priority), s);
                self.fill(s, spec, result);
                s
            }
        };
        self.share(slot).ok_or(TableFull)
    }
    /// Takes a rule out of the frames' way; its place and counters stay.
    pub fn set_aside(&mut self, matcher: &Match, priority: u32) -> Option<u32> {
        if let Some(RuleId(slot)) = self.classifier.remove(matcher, priority) {
            self.refit();
            self.aside.insert((*matcher, priority), slot);
        }
        self.aside.get(&(*matcher, priority)).copied()
    }
    /// The slot that [`Table::fill`] fills next.
    fn next_slot(&self) -> Result<u32, TableFull> {
        match self.free.last() {
            Some(s) => Ok(*s),
            None if self.filled == u32::MAX => Err(TableFull),
            None => Ok(self.filled),
        }
    }
    /// A new rule in the slot that [`Table::next_slot`] has just named.
    fn fill(&mut self, slot: u32, spec: &RuleSpec, result: ActionResult) {
        let (entry, actions) = (Entry::new(spec, result), Written::new(&spec.actions));
        if slot == self.filled {
            self.make_room();
            self.filled += 1;
            self.actions.push(Written::default());
        } else {
            self.free.pop();
        }
        if let (Some(e), Some(a)) =
            (self.entries.get_mut(slot as usize), self.actions.get_mut(slot as usize))
        {
            (*e, *a) = (entry, actions);
        }
    }
    /// For one entry more.
    fn make_room(&mut self) {
        let filled = self.filled as usize;
        if filled == self.entries.len() {
            let mut entries = std::mem::take(&mut self.entries).into_vec();
            // The new ones are written here and now: many are made in smaller steps.
            let more = if filled < GROWS_BY_HALF { filled.max(4) } else { filled / 2 };
            entries.reserve_exact(more);
            entries.resize_with(entries.capacity(), Entry::vacant);
            self.entries = entries.into_boxed_slice();
        }
    }
    /// Other actions and another mark for a rule that is there; hits stay.
    fn replace(&mut self, slot: u32, spec: &RuleSpec, result: ActionResult) {
        let new = Entry::new(spec, result);
        if let (Some(e), Some(a)) =
            (self.entries.get_mut(slot as usize), self.actions.get_mut(slot as usize))
        {
            (e.result, e.cookie) = (new.result, new.cookie);
            *a = Written::new(&spec.actions);
        }
    }
    /// Takes a rule out, wherever it lives. Says which slot it had.
    pub fn take(&mut self, matcher: &Match, priority: u32) -> Option<u32> {
        let slot = match self.classifier.remove(matcher, priority) {
            Some(RuleId(slot)) => {
                self.refit();
                slot
            }
            None => self.aside.remove(&(*matcher, priority))?,
        };
        let at = slot as usize;
        if let (Some(e), Some(a)) = (self.entries.get_mut(at), self.actions.get_mut(at)) {
            (*e, *a) = (Entry::vacant(), Written::default());
        }
        if let Some(s) = self.slow.get_mut(at) {
            *s = None;
        }
        self.free.push(slot);
        Some(slot)
    }
    /// Takes all rules out; what lookups came to is counted on.
    pub(crate) fn empty(&mut self) -> Table {
        let (matched_high, missed, caching) = (self.matched_high, self.missed, self.caching);
        let mut new = Table { matched_high, missed, caching, ..Table::default() };
        new.classifier.beside = self.classifier.beside;
        std::mem::replace(self, new)
    }
    /// The slot of a rule, wherever it lives.
    pub fn find(&self, matcher: &Match, priority: u32) -> Option<u32> {
        match self.classifier.find(matcher, priority) {
            Some(RuleId(slot)) => Some(slot),
            None => self.aside.get(&(*matcher, priority)).copied(),
        }
    }
    /// The entry of a rule that frames find here.
    pub fn get(&self, matcher: &Match, priority: u32) -> Option<&Entry> {
        let RuleId(slot) = self.classifier.find(matcher, priority)?;
        self.entries.get(slot as usize)
    }
    /// How much the rule in `slot` was used, on both paths.
    pub fn usage(&self, slot: u32) -> Option<Usage> {
        let e = self.entries.get(slot as usize)?;
        let slow = self.slow_of(slot).map(|s| s.read()).unwrap_or_default();
        Some(Usage {
            frames: e.hits.frames + slow.frames,
            bytes: e.hits.bytes + slow.bytes,
            last_used: e.last_used.max(slow.last_used),
        })
    }
    /// What frames of the rules in `slots` came to, on both paths: of those that any has hit, in
    /// order.
    pub fn tallies(&self, slots: Range<u32>, out: &mut Vec<(u32, Tally)>) {
        let end = (self.filled.min(slots.end)) as usize;
        let entries = self.entries.get(slots.start as usize..end).unwrap_or_default();
        for (slot, e) in slots.zip(entries) {
            let mut hits = e.hits;
            if let Some(slow) = self.slow_of(slot) {
                hits.merge(slow.read().tally());
            }
            if hits.frames > 0 {
                out.push((slot, hits));
            }
        }
    }
    fn slow_of(&self, slot: u32) -> Option<&Arc<SharedUsage>> {
        self.slow.get(slot as usize)?.as_ref()
    }
    /// Where the slow path counts for a slot.
    fn slow_at(&mut self, slot: u32) -> Option<&mut Option<Arc<SharedUsage>>> {
        let at = slot as usize;
        if slot >= self.filled {
            return None;
        }
        if self.slow.len() <= at {
            self.slow.resize(at + 1, None);
        }
        self.slow.get_mut(at)
    }
    /// Where the slow path counts for the rule in `slot`, from now on at the latest.
    pub fn share(&mut self, slot: u32) -> Option<Arc<SharedUsage>> {
        Some(Arc::clone(self.slow_at(slot)?.get_or_insert_default()))
    }
    /// Forgets a rule's hits. Gives the new place where the slow path counts, if it does.
    pub fn reset(&mut self, slot: u32) -> Option<Arc<SharedUsage>> {
        self.entries.get_mut(slot as usize)?.hits = Tally::default();
        // A new one: the old may be written to at this moment.
        let slow = self.slow.get_mut(slot as usize)?.as_mut()?;
        *slow = Arc::default();
        Some(Arc::clone(slow))
    }
    /// What a rule was used for before it came here; to be said once.
    pub fn add_usage(&mut self, slot: u32, before: Usage) {
        if let Some(e) = self.entries.get_mut(slot as usize) {
            e.hits.merge(before.tally());
            e.last_used = e.last_used.max(before.last_used);
        }
    }
    /// Where this slow-path rule counts from now on.
    pub fn count_in(&mut self, matcher: &Match, priority: u32, usage: Arc<SharedUsage>) {
        let slow = self.find(matcher, priority).and_then(|s| self.slow_at(s));
        if let Some(s) = slow {
            *s = Some(usage);
        }
    }
    /// Counts a frame that found the rule in `slot` on the fast path.
    #[inline(always)]
    pub fn hit(&mut self, slot: u32, len: usize, now: Nanos) -> Option<&mut Entry> {
        let Self { entries, classifier, matched_high, .. } = self;
        let e = entries.get_mut(slot as usize)?;
        count_one(&mut classifier.beside, matched_high);
        e.hit(len, now);
        Some(e)
    }
    /// Counts frames that the rule in `slot` took, the last of them by `now`.
    pub(crate) fn hits(&mut self, slot: u32, what: Tally, now: Nanos) {
        if let Some(e) = self.entries.get_mut(slot as usize) {
            e.hits.merge(what);
            e.last_used = now;
            self.matched_more(what.frames);
        }
    }
    /// Lookups on this side that found a rule.
    fn matched(&self) -> u64 {
        u64::from(self.matched_high) << 32 | u64::from(self.classifier.beside)
    }
    /// Counts a frame that found a rule, whose entry has been told.
    #[inline(always)]
    pub(crate) fn matched_one(&mut self) {
        count_one(&mut self.classifier.beside, &mut self.matched_high);
    }
    /// What each slot's frames meet, for who counts by itself: [`Table::matched_more`].
    #[inline(always)]
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }
    /// Counts frames that found a rule, whose entries have been told.
    #[inline(always)]
    pub(crate) fn matched_more(&mut self, frames: u64) {
        let sum = self.matched() + frames;
        (self.classifier.beside, self.matched_high) = (sum as u32, (sum >> 32) as u32);
    }
    /// Counts a frame that found no rule on the fast path.
    #[inline(always)]
    pub fn miss(&mut self) {
        self.missed += 1;
    }
    /// The entry in `slot`.
    #[inline(always)]
    pub fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)
    }
    /// The entry in `slot`.
    #[inline(always)]
    pub fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)
    }
    /// Asks for the memory of a slot.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        if let Some(e) = self.entries.get(slot as usize) {
            weir_classify::simd::prefetch_read(e);
        }
    }
    /// Every rule that frames find here.
    pub fn for_each(&self, f: &mut dyn FnMut(&Rule)) {
        self.classifier.for_each(f);
    }
    /// A rule, which has `slot`, as its owner wrote it.
    pub fn spec(&self, matcher: &Match, priority: u32, slot: u32) -> Option<RuleSpec> {
        self.spec_by(matcher, priority, slot, Written::list)
    }
    /// The same, with the list of actions that `list` makes of what was written.
    pub(crate) fn spec_by(
        &self,
        matcher: &Match,
        priority: u32,
        slot: u32,
        list: impl FnOnce(&Written) -> Arc<[Action]>,
    ) -> Option<RuleSpec> {
        let cookie = self.entries.get(slot as usize)?.cookie;
        let actions = list(self.actions.get(slot as usize)?);
        Some(RuleSpec { matcher: *matcher, priority, cookie, actions })
    }
    /// The same on its way to the slow path, which counts for it from now on.
    pub(crate) fn lend(&mut self, matcher: &Match, priority: u32, slot: u32) -> Option<SlowRule> {
        let spec = self.spec(matcher, priority, slot)?;
        let result = self.entries.get(slot as usize)?.result.clone();
        Some(SlowRule { spec, result, usage: self.share(slot)? })
    }
    /// [`Table::lend`] for every rule that frames find here.
    pub(crate) fn lend_all(&mut self, f: &mut dyn FnMut(SlowRule)) {
        self.slow.resize(self.filled as usize, None);
        let Self { classifier, entries, actions, slow, .. } = self;
        let mut lists = Lists::default();
        classifier.for_each(&mut |r| {
            let at = r.id.0 as usize;
            let beside = (entries.get(at), actions.get(at), slow.get_mut(at));
            let (Some(e), Some(actions), Some(slow)) = beside else { return };
            let (cookie, actions) = (e.cookie, lists.of(actions));
            let spec = RuleSpec { matcher: r.matcher, priority: r.priority, cookie, actions };
            let usage = Arc::clone(slow.get_or_insert_default());
            f(SlowRule { spec, result: e.result.clone(), usage });
        });
    }
    /// Gives every rule, those that live on the slow path included, what its actions come down to
    /// now; one for which that can't be said stays as it is.
    pub(crate) fn relink(&mut self, now: &mut dyn FnMut(&[Action]) -> Option<ActionResult>) {
        let Self { classifier, entries, actions, aside, .. } = self;
        let mut one = |matcher: &Match, priority, slot: u32| {
            let at = slot as usize;
            let (Some(e), Some(actions)) = (entries.get_mut(at), actions.get(at)) else { return };
            if let Some(result) = actions.tell(&mut *now) {
                e.relink(matcher, priority, result);
            }
        };
        classifier.for_each(&mut |r| one(&r.matcher, r.priority, r.id.0));
        aside.iter().for_each(|((matcher, priority), slot)| one(matcher, *priority, *slot));
    }
    /// [`Table::lend`] for every rule that lives on the slow path.
    pub(crate) fn lend_aside(&mut self, f: &mut dyn FnMut(SlowRule)) {
        let aside: Vec<_> = self.aside.iter().map(|(rule, slot)| (*rule, *slot)).collect();
        for ((matcher, priority), slot) in aside {
            self.lend(&matcher, priority, slot).into_iter().for_each(&mut *f);
        }
    }
    /// Number of rules.
    pub fn len(&self) -> usize {
        self.classifier.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classifier.len() == 0
    }
    /// The classifier has changed.
    fn refit(&mut self) {
        match (self.caching, self.classifier.is_dear()) {
            (FlowCaching::After(n), true) => {
                let cache = self.cache.get_or_insert_with(|| Box::new(FlowCache::new(n)));
                cache.refit(&self.classifier);
            }
            _ => self.cache = None,
        }
    }
    /// First half of a lookup: asks for what the second reads. The table must not change in between.
    #[inline(always)]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        match &self.cache {
            // Asked first: whether there is a cache stands in another line.
            _ if self.classifier.is_plain() => self.classifier.probe(key),
            None => self.classifier.probe(key),
            Some(cache) => cache.probe(&self.classifier, key),
        }
    }
    /// Second half: the winner's slot. A burst has at most as many between its probes as a burst has frames.
    #[inline(always)]
    pub fn resolve(&mut self, key: &FlowKey, p: Probe) -> Option<u32> {
        let found = match &mut self.cache {
            _ if self.classifier.is_plain() => self.classifier.resolve(key, p),
            None => self.classifier.resolve(key, p),
            Some(cache) => cache.resolve(&self.classifier, key, p),
        };
        found.map(|RuleId(slot)| slot)
    }
    /// Whether the next `n` lookups had better be one [`Table::lookup_all`]; then they must be.
    #[inline]
    pub fn takes_all(&mut self, n: usize) -> bool {
        self.classifier.takes_all()
            && match &mut self.cache {
                None => true,
                Some(cache) => cache.lets_by(&self.classifier, n as u32),
            }
    }
    /// The winner for each key, up to a burst of them.
    pub fn lookup_all(&self, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        self.classifier.lookup_all(keys, found);
    }
    /// Asks for what of the table itself lookups read that go on from its first line. False where none do.
    #[inline(always)]
    pub fn prefetch_head(&self) -> bool {
        let far = !self.classifier.is_packed();
        if far {
            let read = std::mem::offset_of!(Self, caching);
            weir_classify::simd::prefetch_slice(std::slice::from_ref(self), read);
        }
        far
    }
    /// Asks for what those read first, beside the table itself.
    #[inline(always)]
    pub fn warm(&self) {
        if !self.classifier.is_packed() {
            self.classifier.warm();
            self.cache.iter().for_each(|c| c.prefetch());
        }
    }
    /// Whether the next lookup had better be one of many tables' ([`FastTable::lookup_several`]); then it must be.
    #[inline]
    pub fn takes_several(&mut self) -> bool {
        self.classifier.takes_all()
            && match &mut self.cache {
                None => true,
                Some(cache) => cache.lets_by(&self.classifier, 1),
            }
    }
    /// Lookups on this side so far.
    pub(crate) fn asked(&self) -> u64 {
        self.matched() + self.missed
    }
    /// The winner for `key`.
    #[inline]
    pub fn lookup(&self, key: &FlowKey) -> Option<u32> {
        self.classifier.lookup(key).map(|RuleId(s)| s)
    }
    /// Memory in bytes, roughly: what its vectors reserve.
    pub fn memory_bytes(&self) -> usize {
        let cache = self.cache.as_ref().map_or(0, |c| size_of::<FlowCache>() + c.heap_bytes());
        self.classifier.memory_bytes()
            + cache
            + self.entries.len() * size_of::<Entry>()
            + self.actions.capacity() * size_of::<Written>()
            + self.slow.capacity() * size_of::<Option<Arc<SharedUsage>>>()
            + self.free.capacity() * 4
            + self.aside.capacity() * size_of::<((Match, u32), u32)>()
    }
}

/// Counts one in a counter of two halves.
#[inline(always)]
fn count_one(low: &mut u32, high: &mut u32) {
    let over;
    (*low, over) = low.overflowing_add(1);
    if over {
        *high += 1;
    }
}

/// What [`Table::put`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// A new rule.
    Added,
    /// The actions of one that was there.
    Replaced,
}

/// A VDP's tables. The first, which every frame meets, lies in place: one memory access less.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TableSet {
    first: Table,
    later: Vec<Table>,
}

impl TableSet {
    /// Table 0.
    #[inline(always)]
    pub fn first(&self) -> &Table {
        &self.first
    }
    /// Table 0.
    #[inline(always)]
    pub fn first_mut(&mut self) -> &mut Table {
        &mut self.first
    }
    /// Whether there is, or was, more than table 0, if only as where a rule goes on.
    #[inline]
    pub fn are_several(&self) -> bool {
        !self.later.is_empty()
    }
    /// Table `n`.
    #[inline]
    pub fn get(&self, n: usize) -> Option<&Table> {
        match n.checked_sub(1) {
            None => Some(&self.first),
            Some(n) => self.later.get(n),
        }
    }
    /// Table `n`.
    #[inline]
    pub fn get_mut(&mut self, n: usize) -> Option<&mut Table> {
        match n.checked_sub(1) {
            None => Some(&mut self.first),
            Some(n) => self.later.get_mut(n),
        }
    }
    /// All, table 0 first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        std::iter::once(&mut self.first).chain(&mut self.later)
    }
    /// All, table 0 first.
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.first).chain(&self.later)
    }
}

/// A VDP's meters: as many as subscribers, perhaps, and one asked for with every frame.
pub(crate) type Meters = HashMap<u32, Meter, Fold>;

/// All that decides over a VDP's frames: tables, groups, meters.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Tables {
    /// Table 0 first.
    pub tables: TableSet,
    /// By group number.
    pub groups: BTreeMap<u32, Group<Arc<ActionResult>>>,
    /// By meter number.
    pub(crate) meters: Meters,
    /// Where lookups are counted.
    pub(crate) counting: Counting,
    /// Where frames go whose TTL can't be decremented.
    pub(crate) invalid_ttl: InvalidTtl,
}

/// Tables of a VDP at most: 0 to 254 (OpenFlow 1.3, §A.3.4.1).
pub const MAX_TABLES: usize = 255;

/// Who counts lookups and hits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    side: Side,
    /// Those of the slow path, by table.
    slow: Option<Arc<SlowLookups>>,
}

impl Counting {
    /// A frame found the rule in `slot` of `t`, table `n`.
    #[inline]
    pub fn hit<'t>(
        &self,
        t: &'t mut Table,
        n: u8,
        slot: u32,
        len: usize,
        now: Nanos,
    ) -> Option<&'t mut Entry> {
        if self.side == Side::Fast {
            return t.hit(slot, len, now);
        }
        if let Some(l) = self.of(n) {
            l.matched.fetch_add(1, Relaxed);
        }
        if let Some(s) = t.slow_of(slot) {
            s.hit(len, now);
        }
        t.entry_mut(slot)
    }
    /// A frame found no rule in `t`, table `n`.
    #[inline]
    pub fn miss(&self, t: Option<&mut Table>, n: u8) {
        match (self.side, t) {
            (Side::Fast, Some(t)) => t.miss(),
            (Side::Fast, None) => {}
            (Side::Slow, _) => {
                if let Some(l) = self.of(n) {
                    l.missed.fetch_add(1, Relaxed);
                }
            }
        }
    }
    fn of(&self, n: u8) -> Option<&SharedLookups> {
        Some(self.slow.as_ref()?.of(n))
    }
}

impl Tables {
    /// Empty tables for the fast path; flows of the first are cached so.
    pub(crate) fn with_cache(caching: FlowCaching) -> Tables {
        let mut all = Tables::default();
        all.tables.first.caching = caching;
        all
    }
    /// Empty tables for the slow path of the VDP whose fast path these are.
    pub(crate) fn slow_side(&mut self) -> Tables {
        let shared = self.counting.slow.get_or_insert_default();
        let counting = Counting { side: Side::Slow, slow: Some(Arc::clone(shared)) };
        Tables { counting, ..Tables::default() }
    }
    /// Looks a frame up in table 0 and counts it.
    pub(crate) fn lookup_first(&mut self, key: &FlowKey, len: usize, now: Nanos) -> Option<u32> {
        let t = &mut self.tables.first;
        let slot = t.lookup(key);
        match slot {
            Some(s) => _ = self.counting.hit(t, 0, s, len, now),
            None => self.counting.miss(Some(t), 0),
        }
        slot
    }
    /// What happened in each table that is there, on both paths.
    pub fn counters(&self) -> Vec<TableCounters> {
        let one = |(n, t): (usize, &Table)| {
            let n = n as u8;
            let slow = self.counting.slow.as_ref();
            let (found, not) = slow.map_or((0, 0), |l| l.read(n));
            let matched = t.matched() + found;
            let lookups = matched + t.missed + not;
            TableCounters { table: n, active: (t.len() + t.aside.len()) as u64, lookups, matched }
        };
        self.tables.iter().enumerate().map(one).collect()
    }
    /// Table `n`, made when it is not there yet.
    pub fn table_mut(&mut self, n: u8) -> &mut Table {
        let Some(n) = usize::from(n).checked_sub(1) else { return &mut self.tables.first };
        if self.tables.later.len() <= n {
            self.tables.later.resize_with(n + 1, Table::default);
        }
        &mut self.tables.later[n]
    }
    /// Rules in all tables.
    pub fn len(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(Table::is_empty)
    }
}
