//! Action rules: where they live, and what that costs.

use super::*;
use crate::action::{Action, Vid};
use crate::compile::{self, ActionResult, CompileError, Op};
use crate::matching::RuleSpec;
use crate::plane::DataPlane;
use crate::vdp::{Path, Phase};
use std::sync::mpsc::{Receiver, channel};
use weir_classify::{Match, Part};

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

/// Where a rule went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Into the TCAM.
    Fast,
    /// On the slow path.
    Slow,
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
        spec.matcher.check_prereqs()?;
        let result = self.compile_for(vid, table, &spec.actions)?;
        let v = self.vdp(vid)?;
        let known = v
            .fast
            .tables
            .get(usize::from(table))
            .is_some_and(|t| t.get(&spec.matcher, spec.priority).is_some());
        // A rule below one that lives on the slow path must not be found first where they overlap.
        let shadowed =
            placement != Placement::Fast && v.slow_top.is_some_and(|top| spec.priority <= top);
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
        if fast {
            let v = self.vdp_mut(vid)?;
            v.fast.table_mut(table).put(spec, result.clone())?;
            let was_slow = v.undemoted(table, &spec.matcher, spec.priority);
            let copy = v.phase != Phase::On(Path::Fast);
            if was_slow {
                let (m, p) = (spec.matcher, spec.priority);
                self.post(vid, move |s| s.take_rule(table, &m, p))?;
            }
            if copy {
                let spec = spec.clone();
                self.post(vid, move |s| s.put_copy(table, &spec, result))?;
            }
            return Ok(Placed::Fast);
        }
        self.demote_below(vid, table, spec)?;
        self.vdp_mut(vid)?.demoted(table, &spec.matcher, spec.priority);
        let spec = spec.clone();
        self.post(vid, move |s| s.put_own(table, &spec, result))?;
        Ok(Placed::Slow)
    }

    pub(super) fn compile_for(
        &self,
        vid: Vid,
        table: u8,
        actions: &[Action],
    ) -> Result<ActionResult, ControlError> {
        let v = self.vdp(vid)?;
        let r = compile::compile(actions, table, v)?;
        for op in r.program.iter().flatten() {
            let missing = match op {
                Op::Group(id) if !v.fast.groups.contains_key(id) => Some(("group", *id)),
                Op::Meter(id) if !v.fast.meters.contains_key(id) => Some(("meter", *id)),
                _ => None,
            };
            if let Some((what, id)) = missing {
                return Err(CompileError::Missing { what, id }.into());
            }
        }
        Ok(r)
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
        t.for_each(&mut |r, _| {
            let same = r.matcher == spec.matcher && r.priority == spec.priority;
            if same || r.priority < spec.priority && r.matcher.overlaps(&spec.matcher) {
                lower.push((r.matcher, r.priority));
            }
        });
        let mut moved = Vec::new();
        for (m, p) in lower {
            if let Some(e) = t.take(&m, p) {
                let (cookie, actions) = (e.cookie, e.actions);
                moved.push((RuleSpec { matcher: m, priority: p, cookie, actions }, e.result));
            }
        }
        self.uncharge(Part::Action, vid, moved.len());
        let v = self.vdp_mut(vid)?;
        for (s, _) in &moved {
            v.demoted(table, &s.matcher, s.priority);
        }
        self.post(vid, move |slot| {
            for (s, r) in moved {
                slot.put_own(table, &s, r);
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
        let v = self.vdp_mut(vid)?;
        let gone = v
            .fast
            .tables
            .get_mut(usize::from(table))
            .and_then(|t| t.take(matcher, priority))
            .is_some();
        if gone {
            self.uncharge(Part::Action, vid, 1);
        } else if !v.undemoted(table, matcher, priority) {
            return Err(ControlError::NoRule(vid));
        }
        let matcher = *matcher;
        self.post(vid, move |s| s.take_rule(table, &matcher, priority))
    }

    /// The VDP's rules with their counters: those of the fast path now, those that only the slow
    /// path has (and hits counted there) from the receiver, after the next turn of its server.
    ///
    /// # Errors
    /// No such VDP.
    pub fn rules(
        &self,
        vid: Vid,
    ) -> Result<(Vec<RuleView>, Receiver<Vec<RuleView>>), ControlError> {
        let v = self.vdp(vid)?;
        let fast = v.fast.views(Placed::Fast);
        let (tx, rx) = channel();
        self.post(vid, move |s| {
            // Nobody waits any more: nothing to do.
            let _ = tx.send(s.views());
        })?;
        Ok((fast, rx))
    }
}
