//! Stage 2, action matching: (VDP, key) → action result.
//!
//! A VDP has its own tables, so a lookup costs what that VDP's rules cost and can never meet
//! another VDP's rule. What no rule takes gets the VDP's default rule (004 §4.2).
//!
//! Room: called by the worker for every frame of a burst (probe all, then resolve all, so that the
//! memory each lookup needs is on its way while others compute), and by the slow path for rules
//! that live there. Changed between bursts only.

use crate::action::Action;
use crate::compile::ActionResult;
use crate::counters::Tally;
use crate::group::Group;
use crate::meter::Meter;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use weir_classify::{Classifier, FastTable, FlowKey, Match, Rule, RuleId};

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

/// An installed rule: its action result with its counters beside it, so that a hit touches one
/// line of memory; what only people ask for lies in the next.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// What to do.
    pub result: ActionResult,
    /// Frames that hit.
    pub hits: Tally,
    /// The owner's mark.
    pub cookie: u64,
    /// As the owner wrote it.
    pub actions: Arc<[Action]>,
}

impl Entry {
    /// What stands in a slot that no rule has.
    fn vacant() -> Self {
        let (hits, cookie) = (Tally::default(), 0);
        Self { result: ActionResult::drop(), hits, cookie, actions: Arc::default() }
    }
}

/// One table of a VDP.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Table {
    /// Answers with slots of `entries`.
    pub classifier: FastTable,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

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
        let entry = Entry {
            result,
            hits: Tally::default(),
            cookie: spec.cookie,
            actions: Arc::clone(&spec.actions),
        };
        if let Some(RuleId(slot)) = self.classifier.find(&spec.matcher, spec.priority) {
            if let Some(e) = self.entries.get_mut(slot as usize) {
                let hits = e.hits;
                *e = Entry { hits, ..entry };
            }
            return Ok(Put::Replaced);
        }
        let slot = match self.free.pop() {
            Some(s) => s,
            None => {
                let s = u32::try_from(self.entries.len()).map_err(|_| TableFull)?;
                self.entries.push(Entry::vacant());
                s
            }
        };
        let rule = Rule { matcher: spec.matcher, priority: spec.priority, id: RuleId(slot) };
        if self.classifier.insert(rule).is_err() {
            self.free.push(slot);
            return Ok(Put::Replaced);
        }
        if let Some(e) = self.entries.get_mut(slot as usize) {
            *e = entry;
        }
        Ok(Put::Added)
    }
    /// Takes a rule out.
    pub fn take(&mut self, matcher: &Match, priority: u32) -> Option<Entry> {
        let RuleId(slot) = self.classifier.remove(matcher, priority)?;
        self.free.push(slot);
        let e = self.entries.get_mut(slot as usize)?;
        Some(std::mem::replace(e, Entry::vacant()))
    }
    /// The entry of a rule.
    pub fn get(&self, matcher: &Match, priority: u32) -> Option<&Entry> {
        let RuleId(slot) = self.classifier.find(matcher, priority)?;
        self.entries.get(slot as usize)
    }
    /// The entry of a rule, to be changed.
    pub fn get_mut(&mut self, matcher: &Match, priority: u32) -> Option<&mut Entry> {
        let RuleId(slot) = self.classifier.find(matcher, priority)?;
        self.entries.get_mut(slot as usize)
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
    /// Every rule with its entry.
    pub fn for_each(&self, f: &mut dyn FnMut(&Rule, &Entry)) {
        self.classifier.for_each(&mut |r| {
            if let Some(e) = self.entries.get(r.id.0 as usize) {
                f(r, e);
            }
        });
    }
    /// Number of rules.
    pub fn len(&self) -> usize {
        self.classifier.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classifier.len() == 0
    }
    /// The winner for `key`.
    #[inline]
    pub fn lookup(&self, key: &FlowKey) -> Option<u32> {
        self.classifier.lookup(key).map(|RuleId(s)| s)
    }
    /// Memory in bytes, roughly: what its vectors reserve.
    pub fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes()
            + self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * 4
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
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.first).chain(&self.later)
    }
}

/// All that decides over a VDP's frames: tables, groups, meters.
#[derive(Debug, Default)]
pub struct Tables {
    /// Table 0 first.
    pub tables: TableSet,
    /// By group number.
    pub groups: BTreeMap<u32, Group<Arc<ActionResult>>>,
    /// By meter number.
    pub meters: BTreeMap<u32, Meter>,
}

impl Tables {
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
