//! One table of a VDP: its rules by slot, what they do, what they came to.
//!
//! Room: `matching`'s. Changed between bursts; asked by the worker for every frame ([`lookup`]).

mod ahead;
mod lookup;

use super::{Entry, RuleSpec};
use crate::action::Action;
use crate::compile::ActionResult;
use crate::counters::{SharedUsage, Tally, Usage};
use crate::software::SlowRule;
use crate::written::{Alone, Lists, Written};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;
use weir_classify::{
    Adoption, Classifier, Copying, Draft, Drafted, Duplicate, FastTable, FlowCache, FlowCaching,
    Match, Rule, RuleId, Words,
};
use weir_packet::Nanos;

/// Entries from which on there are half as many more when there is no room, not twice.
const GROWS_BY_HALF: usize = 1 << 16;

/// One table of a VDP. What a frame touches in a small one whose rules have one mask is its first line, or two.
#[derive(Debug)]
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
    pub(super) caching: FlowCaching,
    /// The most that a frame has cost at a rule that was ever here ([`ActionResult::cost`]).
    dearest: u8,
    /// What each slot's owner wrote, where it is one simple thing. As many as entries.
    written: Box<[Option<Alone>]>,
    few: Option<Box<Few>>,
    /// Lookups on this side that found none.
    pub(super) missed: u64,
}

/// What tables do without that only gain simple rules; made when it is needed.
#[derive(Debug, Default)]
struct Few {
    /// Hits of the slow path: read by the worker, written by the slow path's own table. Only as
    /// long as the last slot that has any.
    slow: Vec<Option<Arc<SharedUsage>>>,
    /// The owners' marks, where one is not 0. As long as the last slot that has had such a one.
    cookies: Vec<u64>,
    /// What owners wrote otherwise. As long as the last slot that has had such a one.
    lists: Vec<Option<Arc<[Action]>>>,
    free: Vec<u32>,
    /// Rules that the classifier has not, since they live on the slow path; they keep their slot.
    aside: HashMap<(Match, u32), u32>,
    /// How often a slot that is far has got a rule with a program that is read; see `ahead`.
    far: u32,
}

impl Few {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.slow.capacity() * size_of::<Option<Arc<SharedUsage>>>()
            + self.cookies.capacity() * 8
            + self.lists.capacity() * size_of::<Arc<[Action]>>()
            + self.free.capacity() * 4
            + self.aside.capacity() * size_of::<((Match, u32), u32)>()
    }
}

/// Bytes of a table that lookups in a very small one read.
const FIRST: usize = 128;

// The first line of a table: entries, what a small classifier of one mask is asked, what was matched. The second: which
// rule of a very small one it can be.
const _: () = assert!(std::mem::offset_of!(Table, classifier) + FastTable::ASKED == 64);

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: Box::default(),
            classifier: FastTable::with_words(Words::ByOwner),
            matched_high: 0,
            filled: 0,
            cache: None,
            caching: FlowCaching::default(),
            dearest: 0,
            written: Box::default(),
            few: None,
            missed: 0,
        }
    }
}

/// No table is this large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("table holds as many rules as it can number")]
pub struct TableFull;

impl Table {
    /// An empty one whose flows are cached so.
    pub(super) fn with_cache(caching: FlowCaching) -> Self {
        Self { caching, ..Self::default() }
    }
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
        let back = self.no_longer_aside(&spec.matcher, spec.priority).is_some();
        if known.is_none() || back {
            self.classifier.insert_new(&spec.matcher, spec.priority, RuleId(slot));
        }
        match known {
            Some(_) => self.replace(slot, spec, result),
            None => self.fill(slot, spec, result),
        }
        if known.is_none() || back {
            self.refit(Some((&spec.matcher, slot)));
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
                self.fill(slot, spec, result);
                self.refit(Some((&spec.matcher, slot)));
                Ok((Put::Added, slot))
            }
            Err(Duplicate(RuleId(slot))) => {
                self.replace(slot, spec, result);
                // Numbers may have been given out anew, and the table be another one.
                self.refit(None);
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
                self.few_mut().aside.insert((spec.matcher, spec.priority), s);
                self.fill(s, spec, result);
                s
            }
        };
        self.share(slot).ok_or(TableFull)
    }
    /// Takes a rule out of the frames' way; its place and counters stay.
    pub fn set_aside(&mut self, matcher: &Match, priority: u32) -> Option<u32> {
        if let Some(RuleId(slot)) = self.classifier.remove(matcher, priority) {
            self.refit(None);
            self.few_mut().aside.insert((*matcher, priority), slot);
        }
        self.aside(matcher, priority)
    }
    fn few_mut(&mut self) -> &mut Few {
        self.few.get_or_insert_default()
    }
    /// Rules that live on the slow path.
    pub(super) fn len_aside(&self) -> usize {
        self.few.as_ref().map_or(0, |f| f.aside.len())
    }
    /// The slot of a rule that lives on the slow path.
    fn aside(&self, matcher: &Match, priority: u32) -> Option<u32> {
        let aside = &self.few.as_ref().filter(|f| !f.aside.is_empty())?.aside;
        aside.get(&(*matcher, priority)).copied()
    }
    fn no_longer_aside(&mut self, matcher: &Match, priority: u32) -> Option<u32> {
        let aside = &mut self.few.as_mut().filter(|f| !f.aside.is_empty())?.aside;
        aside.remove(&(*matcher, priority))
    }
    /// The slot that [`Table::fill`] fills next.
    fn next_slot(&self) -> Result<u32, TableFull> {
        match self.few.as_ref().and_then(|f| f.free.last()) {
            Some(s) => Ok(*s),
            None if self.filled == u32::MAX => Err(TableFull),
            None => Ok(self.filled),
        }
    }
    /// A new rule in the slot that [`Table::next_slot`] has just named.
    fn fill(&mut self, slot: u32, spec: &RuleSpec, result: ActionResult) {
        if slot == self.filled {
            self.make_room();
            self.filled += 1;
        } else if let Some(few) = &mut self.few {
            few.free.pop();
        }
        self.note(slot, &result);
        if let Some(e) = self.entries.get_mut(slot as usize) {
            *e = Entry::new(spec, result);
        }
        self.write(slot, spec);
    }
    /// A rule that does this comes to a slot. What is kept of it does not change with the VDP's ports.
    fn note(&mut self, slot: u32, result: &ActionResult) {
        self.dearest = self.dearest.max(result.cost);
        self.note_far(slot, result);
    }
    /// What a frame costs at most that one of its rules takes.
    pub fn dearest(&self) -> u8 {
        self.dearest
    }
    /// Keeps what the owner wrote.
    fn write(&mut self, slot: u32, spec: &RuleSpec) {
        let at = slot as usize;
        let alone = Alone::of(&spec.actions);
        self.written.get_mut(at).into_iter().for_each(|w| *w = alone);
        if spec.cookie != 0 {
            reach(&mut self.few_mut().cookies, at);
        }
        if alone.is_none() {
            reach(&mut self.few_mut().lists, at);
        }
        let Some(few) = &mut self.few else { return };
        few.cookies.get_mut(at).into_iter().for_each(|c| *c = spec.cookie);
        if let Some(list) = few.lists.get_mut(at) {
            *list = alone.is_none().then(|| Arc::clone(&spec.actions));
        }
    }
    /// What the owner of the rule in `slot` wrote.
    fn written(&self, slot: u32) -> Option<Written<&Arc<[Action]>>> {
        let lists = self.few.as_ref().map_or(&[][..], |f| &f.lists);
        of_slot(&self.written, lists, slot as usize)
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
            let mut written = std::mem::take(&mut self.written).into_vec();
            written.reserve_exact(self.entries.len() - written.len());
            written.resize(self.entries.len(), None);
            self.written = written.into_boxed_slice();
        }
    }
    /// Other actions and another mark for a rule that is there; hits stay.
    fn replace(&mut self, slot: u32, spec: &RuleSpec, result: ActionResult) {
        self.note(slot, &result);
        if let Some(e) = self.entries.get_mut(slot as usize) {
            e.result = Entry::new(spec, result).result;
        }
        self.write(slot, spec);
    }
    /// Takes a rule out, wherever it lives. Says which slot it had.
    pub fn take(&mut self, matcher: &Match, priority: u32) -> Option<u32> {
        let slot = match self.classifier.remove(matcher, priority) {
            Some(RuleId(slot)) => {
                self.refit(None);
                slot
            }
            None => self.no_longer_aside(matcher, priority)?,
        };
        let at = slot as usize;
        if let (Some(e), Some(w)) = (self.entries.get_mut(at), self.written.get_mut(at)) {
            (*e, *w) = (Entry::vacant(), None);
        }
        let few = self.few_mut();
        few.slow.get_mut(at).into_iter().for_each(|s| *s = None);
        few.cookies.get_mut(at).into_iter().for_each(|c| *c = 0);
        few.lists.get_mut(at).into_iter().for_each(|l| *l = None);
        few.free.push(slot);
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
            None => self.aside(matcher, priority),
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
    pub(super) fn slow_of(&self, slot: u32) -> Option<&Arc<SharedUsage>> {
        self.few.as_ref()?.slow.get(slot as usize)?.as_ref()
    }
    /// Where the slow path counts for a slot.
    fn slow_at(&mut self, slot: u32) -> Option<&mut Option<Arc<SharedUsage>>> {
        let at = slot as usize;
        if slot >= self.filled {
            return None;
        }
        let slow = &mut self.few_mut().slow;
        reach(slow, at);
        slow.get_mut(at)
    }
    /// Where the slow path counts for the rule in `slot`, from now on at the latest.
    pub fn share(&mut self, slot: u32) -> Option<Arc<SharedUsage>> {
        Some(Arc::clone(self.slow_at(slot)?.get_or_insert_default()))
    }
    /// Forgets a rule's hits. Gives the new place where the slow path counts, if it does.
    pub fn reset(&mut self, slot: u32) -> Option<Arc<SharedUsage>> {
        self.entries.get_mut(slot as usize)?.hits = Tally::default();
        // A new one: the old may be written to at this moment.
        let slow = self.few.as_mut()?.slow.get_mut(slot as usize)?.as_mut()?;
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
    /// Where the rule in `slot`, which is the slow path's, counts from now on.
    pub fn count_at(&mut self, slot: u32, usage: Arc<SharedUsage>) {
        if let Some(s) = self.slow_at(slot) {
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
    pub(super) fn matched(&self) -> u64 {
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
    /// The mark of the rule in `slot`, all ones where there is none.
    #[inline]
    pub(crate) fn cookie(&self, slot: u32) -> u64 {
        match self.few.as_ref().and_then(|f| f.cookies.get(slot as usize)) {
            Some(cookie) => *cookie,
            None if slot < self.filled => 0,
            None => u64::MAX,
        }
    }
    /// Every rule that frames find here.
    pub fn for_each(&self, f: &mut dyn FnMut(&Rule)) {
        self.classifier.for_each(f);
    }
    /// A rule, which has `slot`, as its owner wrote it.
    pub fn spec(&self, matcher: &Match, priority: u32, slot: u32) -> Option<RuleSpec> {
        self.spec_by(matcher, priority, slot, |w| w.list())
    }
    /// The same, with the list of actions that `list` makes of what was written.
    pub(crate) fn spec_by(
        &self,
        matcher: &Match,
        priority: u32,
        slot: u32,
        list: impl FnOnce(Written<&Arc<[Action]>>) -> Arc<[Action]>,
    ) -> Option<RuleSpec> {
        let (actions, cookie) = (list(self.written(slot)?), self.cookie(slot));
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
        let filled = self.filled as usize;
        self.few_mut().slow.resize(filled, None);
        let Self { classifier, entries, written, few: Some(few), .. } = self else { return };
        let Few { slow, cookies, lists, .. } = &mut **few;
        let mut shared = Lists::default();
        classifier.for_each(&mut |r| {
            let at = r.id.0 as usize;
            let beside = (entries.get(at), of_slot(written, lists, at), slow.get_mut(at));
            let (Some(e), Some(written), Some(slow)) = beside else { return };
            let (cookie, actions) = (cookies.get(at).copied().unwrap_or(0), shared.of(written));
            let spec = RuleSpec { matcher: r.matcher, priority: r.priority, cookie, actions };
            let usage = Arc::clone(slow.get_or_insert_default());
            f(SlowRule { spec, result: e.result.clone(), usage });
        });
    }
    /// Gives every rule, those that live on the slow path included, what its actions come down to
    /// now; one for which that can't be said stays as it is.
    pub(crate) fn relink(&mut self, now: &mut dyn FnMut(&[Action]) -> Option<ActionResult>) {
        let Self { classifier, entries, written, few, .. } = self;
        let lists = few.as_ref().map_or(&[][..], |f| &f.lists);
        let mut one = |matcher: &Match, priority, slot: u32| {
            let at = slot as usize;
            let beside = (entries.get_mut(at), of_slot(written, lists, at));
            let (Some(e), Some(written)) = beside else { return };
            if let Some(result) = written.tell(&mut *now) {
                e.relink(matcher, priority, result);
            }
        };
        classifier.for_each(&mut |r| one(&r.matcher, r.priority, r.id.0));
        for ((matcher, priority), slot) in few.iter().flat_map(|f| &f.aside) {
            one(matcher, *priority, *slot);
        }
    }
    /// [`Table::lend`] for every rule that lives on the slow path.
    pub(crate) fn lend_aside(&mut self, f: &mut dyn FnMut(SlowRule)) {
        let aside = self.few.iter().flat_map(|f| &f.aside);
        let aside: Vec<_> = aside.map(|(rule, slot)| (*rule, *slot)).collect();
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
    /// The classifier has changed; the rule that came, if one did, has its slot.
    fn refit(&mut self, came: Option<(&Match, u32)>) {
        if self.classifier.is_near() {
            let Self { classifier, entries, .. } = self;
            let other_words = classifier.has_other_words();
            let mut tell = |m: &Match, slot: u32| {
                let word = classifier.word(m);
                entries.get_mut(slot as usize).into_iter().for_each(|e| e.word = word);
            };
            match came {
                _ if other_words => classifier.for_each(&mut |r| tell(&r.matcher, r.id.0)),
                Some((m, slot)) => tell(m, slot),
                None => {}
            }
        }
        self.refit_cache();
    }
    /// Goes on with what its classifier has still to move, as [`FastTable::move_on`] says.
    pub(crate) fn move_on(&mut self, slots: usize) -> bool {
        self.while_moving(|c| c.move_on(slots))
    }
    /// Copies some more, as [`FastTable::draft_more`] says.
    pub(crate) fn draft_more(&mut self, draft: &mut Draft, slots: usize) -> Copying {
        self.while_moving(|c| c.draft_more(draft, slots))
    }
    /// Where rules move to a new hash table others may be near than before.
    fn while_moving<T>(&mut self, f: impl FnOnce(&mut FastTable) -> T) -> T {
        let moves = self.classifier.is_gathering();
        let out = f(&mut self.classifier);
        if moves {
            self.refit(None);
        }
        out
    }
    /// Takes what was made of its classifier's draft, as [`FastTable::adopt`] says.
    pub(crate) fn adopt(&mut self, drafted: &mut Drafted) -> Adoption {
        let adoption = self.classifier.adopt(drafted);
        if adoption == Adoption::Taken {
            self.refit(None);
        }
        adoption
    }
    /// Whether a cache pays may be another matter now.
    fn refit_cache(&mut self) {
        match (self.caching, self.classifier.is_dear()) {
            (FlowCaching::After(n), true) => {
                let cache = self.cache.get_or_insert_with(|| Box::new(FlowCache::new(n)));
                cache.refit(&self.classifier);
            }
            _ => self.cache = None,
        }
    }
    /// Lookups on this side so far.
    pub(crate) fn asked(&self) -> u64 {
        self.matched() + self.missed
    }
    /// Memory in bytes, roughly: what its vectors reserve.
    pub fn memory_bytes(&self) -> usize {
        let cache = self.cache.as_ref().map_or(0, |c| size_of::<FlowCache>() + c.heap_bytes());
        self.classifier.memory_bytes()
            + cache
            + self.entries.len() * size_of::<Entry>()
            + size_of_val(&*self.written)
            + self.few.as_ref().map_or(0, |f| f.memory_bytes())
    }
}

/// Makes it reach to this place.
fn reach<T: Clone + Default>(all: &mut Vec<T>, at: usize) {
    if all.len() <= at {
        all.resize(at + 1, T::default());
    }
}

/// What the owner of the rule in this slot wrote.
fn of_slot<'l>(
    written: &[Option<Alone>],
    lists: &'l [Option<Arc<[Action]>>],
    at: usize,
) -> Option<Written<&'l Arc<[Action]>>> {
    match written.get(at)? {
        Some(one) => Some(Written::Alone(*one)),
        None => lists.get(at)?.as_ref().map(Written::List),
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

#[cfg(test)]
mod tests;
