//! Other slices and another flow space for a switch that runs, at once: no message of anybody's comes
//! between.
//!
//! Room: called by whoever keeps the slicer's configuration, and where a port comes, goes or is renamed. Rules that are no longer their slice's go first,
//! behind them a barrier, then come those that are; so that no header is two slices' at any moment. Rules that
//! stay their flow's are not touched, or have their actions changed in place: a flow keeps its counters, age and time.

use super::book::{Change, Flow, FlowId, Piece};
use super::judge::Ports;
use super::ledger::{Asker, Undo, What};
use super::plan::{SlicePlan, SpaceRule};
use super::resume::Past;
use super::role::Tiding;
use super::slice::Slice;
use super::space::{FlowSpace, SliceId};
use super::switch::{NOBODY, Out, Switch};
use weir_openflow::model::{
    FlowCommand, FlowFlags, FlowMod, GroupCommand, GroupMod, Message, PortReason, PortStatus,
};

/// What a flow asked for, as it was asked.
pub(super) fn as_asked(f: &Flow) -> FlowMod {
    FlowMod {
        table: f.table,
        priority: f.priority,
        matcher: f.matcher.clone(),
        instructions: f.instructions.clone(),
        ..FlowMod::new(FlowCommand::Add)
    }
}

fn same(a: &[Piece], b: &[Piece]) -> bool {
    a.len() == b.len() && a.iter().all(|p| b.contains(p))
}

impl Switch {
    /// Slices by number, and the whole flow space, as they are from now on. `None` is a slice that is no
    /// more: its controllers must have been sent away. Numbers stay; further ones are new slices.
    ///
    /// The rules must have been found good by [`check`](super::check()).
    pub fn replan(&mut self, plans: &[Option<SlicePlan>], rules: &[SpaceRule], out: &mut Out) {
        self.become_other(plans, rules, out);
        self.touched.note_all(self.slices.len());
        self.remember(out);
    }

    fn become_other(&mut self, plans: &[Option<SlicePlan>], rules: &[SpaceRule], out: &mut Out) {
        let before: Vec<_> = self.slices.iter().map(|s| s.ports.clone()).collect();
        for (i, plan) in (0u16..).zip(plans) {
            match (self.slices.get_mut(usize::from(i)), plan) {
                (Some(s), Some(p)) => s.plan = p.clone(),
                (Some(_), None) => self.empty(NOBODY, SliceId(i), out),
                (None, plan) => {
                    // A number that was a slice's once, before this switch came.
                    let plan = plan.clone().unwrap_or_default();
                    self.slices.push(Slice::new(SliceId(i), plan));
                }
            }
        }
        self.space = FlowSpace::new();
        self.set_rules(rules);
        if !self.is_ready() {
            if matches!(self.past, Past::Compared(_)) {
                self.enter_all(out);
                self.compare(out);
            }
            return;
        }
        self.enter_all(out);
        self.recompile_all(&before, out);
        for (i, had) in (0u16..).zip(before) {
            let Some(s) = self.slices.get(usize::from(i)) else { break };
            let told = |reason, no| {
                let desc = s.port(self.ports.get(&no)?);
                Some(PortStatus { reason, desc })
            };
            let gone = had.keys().filter(|p| !s.has(**p)).map(|p| (PortReason::Delete, *p));
            let new = s.ports.keys().filter(|p| !had.contains_key(p));
            let all = gone.chain(new.map(|p| (PortReason::Add, *p)));
            for status in all.filter_map(|(reason, no)| told(reason, no)) {
                let tiding = Tiding::PortStatus(status.reason as u32);
                self.tell(s.id, tiding, &Message::PortStatus(status), out);
            }
        }
    }

    /// Compiles everybody's groups and flows anew, since the flow space or ports have changed; `before` are the
    /// ports that each slice had. What goes goes first, behind it a barrier, then comes what comes.
    pub(super) fn recompile_all(&mut self, before: &[Ports], out: &mut Out) {
        let mut coming = Vec::new();
        for i in 0..self.slices.len() {
            let Ok(i) = u16::try_from(i) else { break };
            // What is dropped for who is not there may be another's now.
            self.drop_no_more(SliceId(i), out);
            self.regroup(SliceId(i), before.get(usize::from(i)), out);
            coming.push((SliceId(i), self.recompile(SliceId(i), out)));
        }
        self.ledger.fence(&mut out.to_switch);
        for (slice, flows) in coming {
            self.carry_each(slice, flows, out);
        }
    }

    /// Sends changes of flows, each by itself: a flow that the switch does not take so is no more.
    fn carry_each(&mut self, slice: SliceId, flows: Vec<(FlowId, Vec<Change>)>, out: &mut Out) {
        for (id, changes) in flows.into_iter().filter(|(_, c)| !c.is_empty()) {
            let asker = Asker { slice, conn: NOBODY, xid: 0, head: Vec::new() };
            let op = self.ledger.begin(asker, vec![Undo::Remove(id)], Vec::new());
            self.carry_out(slice, op, &changes, FlowFlags(0), None, out);
        }
    }

    /// Compiles a slice's flows anew. Rules that go are sent; those that come are returned, by flow.
    pub(super) fn recompile(
        &mut self,
        slice: SliceId,
        out: &mut Out,
    ) -> Vec<(FlowId, Vec<Change>)> {
        let at = usize::from(slice.0);
        let Some(s) = self.slices.get(at) else { return Vec::new() };
        let (limit, mut used) = (s.plan.limits.rules, 0);
        let flows: Vec<(FlowId, Flow)> = s.book.iter().map(|(id, f)| (id, f.clone())).collect();
        let (mut lost, mut others) = (Vec::new(), Vec::new());
        for (id, f) in flows {
            match self.pieces(slice, &as_asked(&f)) {
                Ok(p) if used + p.len() > limit => lost.push(id),
                Err(_) => lost.push(id),
                Ok(p) => {
                    used += p.len();
                    others.extend((!same(&p, &f.pieces)).then_some((id, p)));
                }
            }
        }
        // First, so that what they have counted is theirs before another's rule takes the place of one of theirs.
        let asker = Asker { slice, conn: NOBODY, xid: 0, head: Vec::new() };
        self.delete(&asker, &lost, out);
        let (mut going, mut altered, mut coming) = (Vec::new(), Vec::new(), Vec::new());
        for (id, pieces) in others {
            let Some(s) = self.slices.get_mut(at) else { continue };
            let mut changes = Vec::new();
            s.book.reshape(id, pieces, &mut changes);
            s.book.flow_mut(id).into_iter().for_each(Flow::age_by_slicer);
            let (go, stay) =
                changes.into_iter().partition::<Vec<_>, _>(|c| matches!(c, Change::Remove { .. }));
            let (alter, come) = stay.into_iter().partition(|c| matches!(c, Change::Alter(..)));
            going.extend(go);
            altered.push((id, alter));
            coming.push((id, come));
        }
        if !going.is_empty() {
            let op = self.ledger.begin(asker, Vec::new(), Vec::new());
            self.carry_out(slice, op, &going, FlowFlags(0), None, out);
        }
        // Where a flow sends no more it goes no more, before another may have that.
        self.carry_each(slice, altered, out);
        coming
    }

    /// Judges a slice's groups anew: those that reach further than it may go; where its ports have changed,
    /// the others are said again.
    fn regroup(&mut self, slice: SliceId, had: Option<&Ports>, out: &mut Out) {
        let Some(s) = self.slices.get(usize::from(slice.0)) else { return };
        let moved = had != Some(&s.ports);
        let asker = Asker { slice, conn: NOBODY, xid: 0, head: Vec::new() };
        if !self.space.writes(slice) {
            return self.empty_groups(&asker, out);
        }
        let all: Vec<GroupMod> = s.group_mods.values().cloned().collect();
        let mut lost = Vec::new();
        for m in all {
            let Some(s) = self.slices.get(usize::from(slice.0)) else { return };
            let physical = s.groups.physical(m.id);
            let judged = s.judge(&mut self.space, self.version).buckets(&m.buckets);
            match (judged, physical) {
                (Ok(buckets), Some(id)) if moved => {
                    let body = GroupMod { command: GroupCommand::Modify, id, buckets, ..m };
                    let op = self.ledger.begin(asker.clone(), Vec::new(), Vec::new());
                    let to = &mut out.to_switch;
                    self.ledger.send(Some(slice), What::Part(op), Message::GroupMod(body), to);
                }
                (Ok(_), _) => {}
                (Err(_), _) => lost.push(m.id),
            }
        }
        self.delete_groups(&asker, &lost, out);
    }
}
