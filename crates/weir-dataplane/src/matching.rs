//! Stage 2, action matching: (VDP, key) → action result.
//!
//! A VDP has its own tables, so a lookup costs what that VDP's rules cost and can never meet
//! another VDP's rule. What no rule takes gets the VDP's default rule (004 §4.2).
//!
//! Room: called by the worker for every frame of a burst (probe all, then resolve all, so that the
//! memory each lookup needs is on its way while others compute), and by the slow path for rules
//! that live there. Changed between bursts only.

mod entry;
mod table;

use crate::action::Action;
use crate::compile::ActionResult;
use crate::counters::{SharedLookups, Side, SlowLookups, TableCounters};
use crate::execute::InvalidTtl;
use crate::group::Group;
use crate::meter::Meter;
use crate::numbered::Numbered;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_classify::{FlowCaching, FlowKey, Match};
use weir_packet::Nanos;

pub use entry::Entry;
pub use table::{Put, Table, TableFull};

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

/// A VDP's meters.
pub(crate) type Meters = Numbered<Meter>;
/// A VDP's groups.
pub(crate) type Groups = Numbered<Group<Arc<ActionResult>>>;

/// What a rule's actions come down to, with the places of the meter that it begins with, and of the group by which frames leave.
pub(crate) fn placed(r: ActionResult, meters: &Meters, groups: &Groups) -> ActionResult {
    let mut r = r;
    if let Some(place) = r.meter().and_then(|m| meters.place(m.id)) {
        r.named_is_at(place);
    }
    let group = r.group().or_else(|| r.group_by_set());
    if let Some(place) = group.and_then(|g| groups.place(g.id)) {
        r.named_is_at(place);
    }
    r
}

/// All that decides over a VDP's frames: tables, groups, meters.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Tables {
    /// Table 0 first.
    pub tables: TableSet,
    /// Its groups.
    pub(crate) groups: Groups,
    /// Its meters.
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
    /// Empty tables for the fast path, whose flows are cached so.
    pub(crate) fn with_cache(caching: FlowCaching) -> Tables {
        let tables = TableSet { first: Table::with_cache(caching), later: Vec::new() };
        Tables { tables, ..Tables::default() }
    }
    /// How the slow path counts lookups of the VDP whose fast path these are.
    pub(crate) fn slow_side(&mut self) -> Counting {
        let shared = self.counting.slow.get_or_insert_default();
        Counting { side: Side::Slow, slow: Some(Arc::clone(shared)) }
    }
    /// Empty tables whose lookups are counted so.
    pub(crate) fn counted(counting: &Counting) -> Tables {
        Tables { counting: counting.clone(), ..Tables::default() }
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
            TableCounters { table: n, active: (t.len() + t.len_aside()) as u64, lookups, matched }
        };
        self.tables.iter().enumerate().map(one).collect()
    }
    /// Table `n`, made when it is not there yet.
    pub fn table_mut(&mut self, n: u8) -> &mut Table {
        let Some(n) = usize::from(n).checked_sub(1) else { return &mut self.tables.first };
        if self.tables.later.len() <= n {
            let caching = self.tables.first.caching;
            self.tables.later.resize_with(n + 1, || Table::with_cache(caching));
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
