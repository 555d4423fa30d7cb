//! Action rules: where they live, and what that costs.

use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::compile::{self, ActionResult, CompileError, Op, ResolvePort};
use crate::counters::{TableCounters, Tally, Usage};
use crate::edge::GONE;
use crate::matching::{Put, RuleSpec, placed};
use crate::plane::DataPlane;
use crate::software::SlowRule;
use crate::vdp::{Compiled, Path, Phase, Vdp};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use weir_classify::{Match, Part};
use weir_packet::PortId;

/// Where a rule shall live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the TCAM; refused when the VDP has no entry left.
    Fast,
    /// On the slow path.
    Slow,
    /// In the TCAM while there are entries, else on the slow path.
    Spill,
}

/// What becomes of what names a port that its VDP has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is refused.
    Refused,
    /// It is taken, and frames end there, counted, until the VDP has the port: what was carried here names it by
    /// rights, as [`DataPlane::relink`] leaves it where the port went.
    Kept,
}

/// A VDP's ports, and those that it may have had.
pub(super) struct Former<'v>(pub(super) &'v Vdp);

impl ResolvePort for Former<'_> {
    fn port(&self, no: PortNo) -> Option<PortId> {
        Some(self.0.port(no).unwrap_or(GONE))
    }
}

/// Where a rule went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Into the TCAM.
    Fast,
    /// On the slow path.
    Slow,
}

/// Where a rule's counters stand: good until the rule is removed, wherever it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleRef {
    /// Its table.
    pub table: u8,
    /// Its place there.
    pub slot: u32,
}

impl DataPlane {
    /// Adds a rule, or gives the one with the same match and priority other actions.
    ///
    /// # Errors
    /// [`ControlError`]; a spent budget is [`ControlError::Tcam`].
    pub fn add_rule(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        placement: Placement,
    ) -> Result<Placed, ControlError> {
        self.place_rule(vid, table, spec, placement).map(|(placed, _)| placed)
    }

    /// [`DataPlane::add_rule`], which also says where the rule's counters stand.
    ///
    /// # Errors
    /// [`ControlError`]; a spent budget is [`ControlError::Tcam`].
    pub fn place_rule(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        placement: Placement,
    ) -> Result<(Placed, RuleRef), ControlError> {
        self.place_naming(vid, table, spec, placement, Absent::Refused)
    }

    /// The same, by what becomes of a rule that names a port that the VDP has not.
    ///
    /// # Errors
    /// As [`DataPlane::place_rule`].
    pub fn place_naming(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        placement: Placement,
        absent: Absent,
    ) -> Result<(Placed, RuleRef), ControlError> {
        if placement == Placement::Slow {
            self.refuse_slow(vid)?;
        }
        // What the TCAM has no entry for is refused where no worker has the slow path.
        let placement = if self.workers() > 1 { Placement::Fast } else { placement };
        if self.desk.is_some() {
            let spec = spec.clone();
            return self.everywhere(move |p| p.place_naming(vid, table, &spec, placement, absent));
        }
        let placed = self.place(vid, table, spec, placement, absent)?;
        self.settle_path(vid)?;
        Ok(placed)
    }

    fn place(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        placement: Placement,
        absent: Absent,
    ) -> Result<(Placed, RuleRef), ControlError> {
        spec.matcher.check_prereqs()?;
        let result = match self.compile_rule(vid, table, &spec.actions) {
            Err(ControlError::Actions(CompileError::NoSuchPort(_))) if absent == Absent::Kept => {
                self.vdp_mut(vid)?.edge.names_former();
                // Not remembered: a rule of the same actions may be one that is refused.
                let v = self.vdp(vid)?;
                self.compile_by(vid, compile::compile(&spec.actions, table, &Former(v))?)?
            }
            other => other?,
        };
        let asked: Vec<u32> = result.meters().collect();
        let placed = self.place_compiled(vid, table, spec, result, placement)?;
        // Meters know which table's rules ask them.
        for id in asked {
            let m = self.vdp_mut(vid)?.fast.meters.get_mut(id);
            m.into_iter().for_each(|m| m.is_asked_by(table));
        }
        Ok(placed)
    }

    fn place_compiled(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        result: ActionResult,
        placement: Placement,
    ) -> Result<(Placed, RuleRef), ControlError> {
        if let Some(slot) = self.place_quick(vid, table, spec, &result, placement)? {
            return Ok((Placed::Fast, RuleRef { table, slot }));
        }
        let v = self.vdp(vid)?;
        let there = v.fast.tables.get(usize::from(table));
        let slot = there.and_then(|t| t.find(&spec.matcher, spec.priority));
        // One that lives on the slow path has no entry of the TCAM.
        let known = slot.is_some() && !v.is_demoted(table, &spec.matcher, spec.priority);
        // A rule below one that lives on the slow path must not be found first where they overlap.
        let shadowed = placement != Placement::Fast
            && v.slow_only.top().is_some_and(|top| spec.priority <= top);
        let room = known || self.charge(Part::Action, vid).is_ok();
        let fast = match placement {
            Placement::Slow => false,
            Placement::Spill => room && !shadowed,
            Placement::Fast if room => true,
            Placement::Fast => {
                // Ask again for the error that says what is missing.
                self.charge(Part::Action, vid)?;
                true
            }
        };
        if !fast && room && !known {
            self.uncharge(Part::Action, vid, 1);
        }
        if let Some(&Action::Goto(n)) = spec.actions.last() {
            // So that lookups there can be counted.
            self.vdp_mut(vid)?.fast.table_mut(n);
        }
        if fast {
            let v = self.vdp_mut(vid)?;
            let copy = v.phase != Phase::On(Path::Fast);
            let slot = v.fast.table_mut(table).put_at(slot, spec, result)?;
            let was_slow = v.undemoted(table, &spec.matcher, spec.priority);
            if was_slow {
                let (m, p) = (spec.matcher, spec.priority);
                self.post(vid, move |s| s.take_rule(table, &m, p))?;
            }
            let t = self.vdp_mut(vid)?.fast.table_mut(table);
            if let Some(r) = copy.then(|| t.lend(&spec.matcher, spec.priority, slot)).flatten() {
                self.post(vid, move |s| s.put_copy(table, r))?;
            }
            return Ok((Placed::Fast, RuleRef { table, slot }));
        }
        self.demote_below(vid, table, spec)?;
        let v = self.vdp_mut(vid)?;
        let t = v.fast.table_mut(table);
        let usage = t.put_aside(spec, result.clone())?;
        let slot = t.find(&spec.matcher, spec.priority).ok_or(ControlError::NoRule(vid))?;
        v.demoted(table, &spec.matcher, spec.priority);
        let r = SlowRule { spec: spec.clone(), result, usage };
        self.post(vid, move |s| s.put_own(table, r))?;
        Ok((Placed::Slow, RuleRef { table, slot }))
    }

    /// Asks for the memory that placing or removing a rule with this match will touch, so that it is
    /// on its way while others are placed.
    pub fn warm_rule(&self, vid: Vid, table: u8, matcher: &Match) {
        let tables = self.vdp(vid).ok().map(|v| &v.fast.tables);
        if let Some(t) = tables.and_then(|t| t.get(usize::from(table))) {
            t.classifier.warm_rule(matcher);
        }
    }

    /// The usual case in one search: the VDP is on the fast path with all its rules, and has an
    /// entry of the TCAM left. The rule's slot; `None`: nothing was done.
    fn place_quick(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        result: &ActionResult,
        placement: Placement,
    ) -> Result<Option<u32>, ControlError> {
        let v = self.vdp(vid)?;
        let quick = placement != Placement::Slow
            && v.slow_only.is_empty()
            && v.phase == Phase::On(Path::Fast);
        if !quick || self.tcam.add(Part::Action, owner(vid), 1).is_err() {
            return Ok(None);
        }
        let v = self.vdp_mut(vid)?;
        if let Some(&Action::Goto(n)) = spec.actions.last() {
            // So that lookups there can be counted.
            v.fast.table_mut(n);
        }
        match v.fast.table_mut(table).put_fast(spec, result.clone()) {
            Ok((Put::Added, slot)) => Ok(Some(slot)),
            Ok((Put::Replaced, slot)) => {
                self.uncharge(Part::Action, vid, 1);
                Ok(Some(slot))
            }
            Err(full) => {
                self.uncharge(Part::Action, vid, 1);
                Err(full.into())
            }
        }
    }

    /// Compiles a rule's actions; those that came with the rule before, not again.
    fn compile_rule(
        &mut self,
        vid: Vid,
        table: u8,
        actions: &Arc<[Action]>,
    ) -> Result<ActionResult, ControlError> {
        self.vdp_mut(vid)?;
        let layout = self.changes.last_layout();
        if let Some(c) = &self.compiled
            && (c.layout, c.vid, c.table) == (layout, vid, table)
            && Arc::ptr_eq(&c.actions, actions)
        {
            // Groups and meters may have gone since.
            Self::check_objects(self.vdp(vid)?, &c.result)?;
            return Ok(c.result.clone());
        }
        let result = self.compile_for(vid, table, actions)?;
        let (actions, compiled) = (Arc::clone(actions), result.clone());
        self.compiled = Some(Compiled { layout, vid, table, actions, result: compiled });
        Ok(result)
    }

    pub(super) fn compile_for(
        &self,
        vid: Vid,
        table: u8,
        actions: &[Action],
    ) -> Result<ActionResult, ControlError> {
        self.compile_by(vid, compile::compile(actions, table, self.vdp(vid)?)?)
    }

    /// What actions came to, held against what the VDP has beside ports.
    fn compile_by(&self, vid: Vid, r: ActionResult) -> Result<ActionResult, ControlError> {
        let v = self.vdp(vid)?;
        Self::check_objects(v, &r)?;
        self.refuse_apart(vid, &r)?;
        Ok(placed(r, &v.fast.meters, &v.fast.groups))
    }

    /// Checks that the groups and meters that `r` names are there.
    pub(super) fn check_objects(v: &Vdp, r: &ActionResult) -> Result<(), ControlError> {
        for op in r.ops() {
            let missing = match op {
                Op::Group(id) if !v.fast.groups.contains(*id) => Some(("group", *id)),
                Op::Meter(id) if !v.fast.meters.contains(*id) => Some(("meter", *id)),
                _ => None,
            };
            if let Some((what, id)) = missing {
                return Err(CompileError::Missing { what, id }.into());
            }
        }
        Ok(())
    }

    /// Moves rules of the fast path that a new slow-path rule would lose to over to the slow path.
    pub(super) fn demote_below(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
    ) -> Result<(), ControlError> {
        let Some(t) = self.vdp_mut(vid)?.fast.tables.get_mut(usize::from(table)) else {
            return Ok(());
        };
        let mut lower = Vec::new();
        t.for_each(&mut |r| {
            let same = r.matcher == spec.matcher && r.priority == spec.priority;
            if same || r.priority < spec.priority && r.matcher.overlaps(&spec.matcher) {
                lower.push((r.matcher, r.priority));
            }
        });
        let mut moved = Vec::new();
        for (m, p) in lower {
            moved.extend(t.set_aside(&m, p).and_then(|slot| t.lend(&m, p, slot)));
        }
        self.uncharge(Part::Action, vid, moved.len());
        let v = self.vdp_mut(vid)?;
        for r in &moved {
            v.demoted(table, &r.spec.matcher, r.spec.priority);
        }
        self.post(vid, move |slot| {
            for r in moved {
                slot.put_own(table, r);
            }
        })
    }

    /// Removes a rule, wherever it lives.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn remove_rule(
        &mut self,
        vid: Vid,
        table: u8,
        matcher: &Match,
        priority: u32,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let matcher = *matcher;
            return self.everywhere(move |p| p.remove_rule(vid, table, &matcher, priority));
        }
        let v = self.vdp_mut(vid)?;
        let taken =
            v.fast.tables.get_mut(usize::from(table)).and_then(|t| t.take(matcher, priority));
        if taken.is_none() {
            return Err(ControlError::NoRule(vid));
        }
        let was_slow = v.undemoted(table, matcher, priority);
        let copied = v.phase != Phase::On(Path::Fast);
        if !was_slow {
            self.uncharge(Part::Action, vid, 1);
        }
        if !was_slow && !copied {
            // The slow path has never heard of it.
            return Ok(());
        }
        let matcher = *matcher;
        self.post(vid, move |s| s.take_rule(table, &matcher, priority))?;
        self.settle_path(vid)
    }

    /// [`DataPlane::remove_rule`], which also says what the rule was used for until it went.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn take_rule(
        &mut self,
        vid: Vid,
        at: RuleRef,
        matcher: &Match,
        priority: u32,
    ) -> Result<Usage, ControlError> {
        if let Some(desk) = self.desk.take() {
            let here = self.take_rule(vid, at, matcher, priority);
            let matcher = *matcher;
            let used = here.map(|_| desk.take_rule(vid, at, matcher, priority));
            self.desk = Some(desk);
            return used;
        }
        let mut used = Vec::with_capacity(1);
        self.usage(vid, &[at], &mut used)?;
        self.remove_rule(vid, at.table, matcher, priority)?;
        Ok(used.pop().unwrap_or_default())
    }

    /// Forgets what a rule matched.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn reset_rule(
        &mut self,
        vid: Vid,
        table: u8,
        matcher: &Match,
        priority: u32,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let matcher = *matcher;
            return self.everywhere(move |p| p.reset_rule(vid, table, &matcher, priority));
        }
        let t = self.vdp_mut(vid)?.fast.tables.get_mut(usize::from(table));
        let t = t.ok_or(ControlError::NoRule(vid))?;
        let slot = t.find(matcher, priority).ok_or(ControlError::NoRule(vid))?;
        let Some(usage) = t.reset(slot) else { return Ok(()) };
        let matcher = *matcher;
        self.post(vid, move |s| {
            let t = s.tables.get_mut().table_mut(table);
            if let Some(slot) = t.find(&matcher, priority) {
                t.count_at(slot, usage);
            }
        })
    }

    /// Where a rule's counters stand, until it is removed.
    pub fn rule_ref(&self, vid: Vid, table: u8, matcher: &Match, priority: u32) -> Option<RuleRef> {
        let t = self.vdp(vid).ok()?.fast.tables.get(usize::from(table))?;
        Some(RuleRef { table, slot: t.find(matcher, priority)? })
    }

    /// How much rules were used up to now, on both paths, in the order of `rules`; nothing for one
    /// that is gone.
    ///
    /// # Errors
    /// No such VDP.
    pub fn usage(
        &self,
        vid: Vid,
        rules: &[RuleRef],
        out: &mut Vec<Usage>,
    ) -> Result<(), ControlError> {
        if let Some(desk) = &self.desk {
            self.vdp(vid)?;
            out.extend(desk.usage(vid, rules));
            return Ok(());
        }
        let tables = &self.vdp(vid)?.fast.tables;
        out.extend(rules.iter().map(|r| {
            let of = tables.get(usize::from(r.table)).and_then(|t| t.usage(r.slot));
            of.unwrap_or_default()
        }));
        Ok(())
    }

    /// What frames of the rules in neighbouring slots of a table came to up to now, on both paths:
    /// frames and bytes of each rule that any frame has hit, from one moment, in the order of slots.
    /// Costs what reading memory in its order costs; for many rules of a table, cheaper than
    /// [`DataPlane::usage`].
    ///
    /// # Errors
    /// No such VDP.
    pub fn tallies(
        &self,
        vid: Vid,
        table: u8,
        slots: Range<u32>,
        out: &mut Vec<(u32, Tally)>,
    ) -> Result<(), ControlError> {
        if let Some(desk) = &self.desk {
            self.vdp(vid)?;
            out.extend(desk.tallies(vid, table, slots));
            return Ok(());
        }
        if let Some(t) = self.vdp(vid)?.fast.tables.get(usize::from(table)) {
            t.tallies(slots, out);
        }
        Ok(())
    }

    /// Lookups and matches of each of a VDP's tables up to now, on both paths.
    ///
    /// # Errors
    /// No such VDP.
    pub fn table_counters(&self, vid: Vid) -> Result<Vec<TableCounters>, ControlError> {
        if let Some(desk) = &self.desk {
            self.vdp(vid)?;
            return Ok(desk.table_counters(vid));
        }
        let v = self.vdp(vid)?;
        let now = v.fast.counters();
        Ok(v.brought.as_ref().map_or_else(|| now.clone(), |b| b.tables(now.clone())))
    }

    /// The VDP's rules with their counters, which are those of both paths: the rules of the fast
    /// path now, those that only the slow path has from the receiver, after the next turn of its
    /// server.
    ///
    /// # Errors
    /// No such VDP.
    pub fn rules(
        &self,
        vid: Vid,
    ) -> Result<(Vec<RuleView>, Receiver<Vec<RuleView>>), ControlError> {
        let v = self.vdp(vid)?;
        let mut fast = v.fast.views(Placed::Fast);
        if let Some(desk) = &self.desk {
            desk.count_hits(vid, &mut fast);
        }
        let (tx, rx) = channel();
        self.post(vid, move |s| {
            // Nobody waits any more: nothing to do.
            let _ = tx.send(s.views());
        })?;
        Ok((fast, rx))
    }
}
