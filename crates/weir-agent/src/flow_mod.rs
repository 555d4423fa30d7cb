//! Flow modifications (1.3 §6.4, §7.3.4.1; 1.0 §4.6, §5.3.3): checked here, gathered, carried out by
//! `apply`. Non-strict ones look through the book of flows first, outside the data plane's thread.

use crate::apply::{self, Command, FlowJob, Frame, Job};
use crate::buffers::Lent;
use crate::flows::{Behaviour, Filter, Selection};
use crate::instructions::{still_right, turn_all};
use crate::matches;
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::state::Known;
use crate::switch::Switch;
use weir_dataplane::{Absent, RuleRef};
use weir_openflow::model::{
    ErrorCode, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Match, Port, RemovedReason, TABLE_ALL,
    Version,
};

/// Flows that are changed or read in one call of the data plane.
pub(crate) const CHUNK: usize = 256;

impl Switch {
    pub(crate) fn flow_mod<P: Plane>(
        &mut self,
        who: &Asker,
        mut m: FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let deletes = matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if deletes && who.version == Version::V10 && m.flags.has(FlowFlags::EMERG) {
            // Of the emergency flows (1.0.1 §5.3.3), and there are none.
            return Ok(());
        }
        self.check_head(who.version, &m, deletes)?;
        matches::check(&mut m.matcher, who.version)?;
        let behaviour = match deletes {
            true => None,
            false => Some(self.behaviour(&m, Absent::Refused)?),
        };
        let filter = filter_of(who.version, &m, deletes);
        // A strict delete in every table is one of each; so is a non-strict one's search.
        let wide = m.table == TABLE_ALL;
        match m.command {
            FlowCommand::Delete => return self.delete(filter, &m, cx),
            FlowCommand::DeleteStrict if wide => return self.delete_strict_all(filter, &m, cx),
            FlowCommand::Modify => {
                let Some(b) = behaviour else { return Ok(()) };
                if !self.modify(who, filter.clone(), &m, b, cx)? {
                    return Ok(());
                }
                // 1.0: nothing was found, so it is added.
                m.command = FlowCommand::Add;
            }
            _ => {}
        }
        let command = match m.command {
            FlowCommand::ModifyStrict => Command::ModifyStrict,
            FlowCommand::DeleteStrict => Command::DeleteStrict,
            _ => Command::Add,
        };
        // 1.0 §4.6: a modify that finds nothing acts like an add, this check included.
        let adds = command == Command::Add
            || command == Command::ModifyStrict && who.version == Version::V10;
        if adds && m.flags.has(FlowFlags::CHECK_OVERLAP) {
            self.check_overlap(&m, behaviour, cx)?;
        }
        let buffer = match behaviour {
            None => None,
            Some(b) => self.lend_for(b, &m, cx)?,
        };
        let id = self.flows.identity(m.table, m.priority, &m.matcher);
        self.pending.push(Job::Flow(FlowJob {
            asker: *who,
            command,
            id,
            filter: match command {
                Command::Add => Filter { cookie_mask: 0, ..filter },
                _ => filter,
            },
            cookie: m.cookie,
            idle_timeout: m.idle_timeout,
            hard_timeout: m.hard_timeout,
            flags: m.flags,
            behaviour,
            buffer,
        }));
        self.flush_when_full(cx)
    }

    /// What can be told from the message's head.
    pub(crate) fn check_head(
        &self,
        version: Version,
        m: &FlowMod,
        deletes: bool,
    ) -> Result<(), ErrorCode> {
        let any_table = deletes && m.table == TABLE_ALL;
        if m.table >= self.state.tables && !any_table {
            return Err(ErrorCode::FlowBadTableId);
        }
        if m.flags.has(FlowFlags::EMERG) && version == Version::V10 {
            // There is no emergency cache: as full as it can be (1.0 §4.6).
            return Err(match (m.idle_timeout, m.hard_timeout) {
                (0, 0) => ErrorCode::FlowTableFull,
                _ => ErrorCode::FlowBadTimeout,
            });
        }
        let known = match version {
            Version::V10 => FlowFlags::SEND_FLOW_REM | FlowFlags::CHECK_OVERLAP,
            _ => FlowFlags(FlowFlags::KNOWN.0 & !FlowFlags::EMERG.0),
        };
        // Of deletes too, as Open vSwitch does: nothing says that their flags mean nothing.
        if m.flags.0 & !known.0 != 0 {
            return Err(ErrorCode::FlowBadFlags);
        }
        Ok(())
    }

    /// Checks what a flow shall do; its number, counted once for the caller.
    pub(crate) fn behaviour(&mut self, m: &FlowMod, absent: Absent) -> Result<u32, ErrorCode> {
        let (all, world) = (&m.instructions, Known { state: &self.state, absent });
        let is = |b: &Behaviour| *b.instructions == all[..];
        // Most flows do what others do.
        if let Some(i) = self.flows.behaviours.find(all, is)
            && self.flows.behaviours.get(i).is_some_and(|b| still_right(b, m.table, &world))
        {
            self.flows.behaviours.more(i);
            return Ok(i);
        }
        let turned = turn_all(all, m.table, &world)?;
        Ok(self.flows.behaviours.take(all, is, || turned))
    }

    fn check_overlap<P: Plane>(
        &mut self,
        m: &FlowMod,
        behaviour: Option<u32>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let modifies = m.command == FlowCommand::ModifyStrict;
        let (table, priority, matcher) = (m.table, m.priority, m.matcher.clone());
        let overlaps = self.with_flows(cx, move |dp, flows, set, _| {
            let id = flows.identity(table, priority, &matcher);
            let there = flows.find(dp, set.vid, &id, &flows.keys(&id)).is_some();
            let overlaps = match there {
                true => !modifies,
                false => flows.others_overlap(&id, &matcher),
            };
            flows.forget(id);
            overlaps
        })?;
        if overlaps {
            if let Some(b) = behaviour {
                self.flows.behaviours.release(b);
            }
            return Err(ErrorCode::FlowOverlap.into());
        }
        Ok(())
    }

    /// The packet that meets the tables after a change, before the change is made: one that names a
    /// packet that is not there is refused whole. Then `behaviour` is not counted any more.
    fn lend_for<P: Plane>(
        &mut self,
        behaviour: u32,
        m: &FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<Option<Box<Lent>>, Stop> {
        self.lend(m.buffer_id, cx).inspect_err(|_| self.flows.behaviours.release(behaviour))
    }

    fn delete<P: Plane>(
        &mut self,
        filter: Filter,
        m: &FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        if m.matcher.0.is_empty() && filter.admits_all() && self.flows.may_go_silently() {
            self.delete_tables(&filter, cx)?;
        }
        let which = self.select(filter, &m.matcher, cx)?;
        self.remove_flows(which, RemovedReason::Delete, cx)
    }

    /// Takes all flows out of the tables that a filter means, where that can be done at once.
    fn delete_tables<P: Plane>(&mut self, filter: &Filter, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        let mut tables = self.flows.in_use();
        tables.retain(|t| filter.means_table(*t));
        let gone = self.with_flows(cx, move |dp, flows, set, _| {
            let take = |t| {
                let rules = dp.take_table(set.vid, t, flows.active(t) as usize)?;
                Some((rules, flows.take_table(t)?))
            };
            tables.into_iter().filter_map(take).collect::<Vec<_>>()
        })?;
        // What is left is long work, and not the worker's.
        for (rules, flows) in gone {
            drop(rules);
            self.flows.let_go(flows);
        }
        Ok(())
    }

    fn delete_strict_all<P: Plane>(
        &mut self,
        filter: Filter,
        m: &FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let places: Vec<_> = (0..self.state.tables).map(|table| (table, m.priority)).collect();
        let which = self.find_each(places, filter, &m.matcher, cx)?;
        self.remove_flows(which.into(), RemovedReason::Delete, cx)
    }

    /// The flows that a non-strict request means.
    pub(crate) fn select<P: Plane>(
        &mut self,
        filter: Filter,
        within: &Match,
        cx: &mut Cx<'_, P>,
    ) -> Result<Selection, Stop> {
        match self.flows.places(&filter, within) {
            None => Ok(Selection::walk(filter, within.clone())),
            Some(places) if places.is_empty() => Ok(Vec::new().into()),
            Some(places) => self.find_each(places, filter, within, cx).map(Selection::from),
        }
    }

    /// The flows with just this match, of these tables and priorities.
    fn find_each<P: Plane>(
        &mut self,
        places: Vec<(u8, u16)>,
        filter: Filter,
        m: &Match,
        cx: &mut Cx<'_, P>,
    ) -> Result<Vec<RuleRef>, Stop> {
        let m = m.clone();
        self.with_flows(cx, move |dp, flows, set, _| {
            flows.find_each(dp, set.vid, &places, &filter, &m)
        })
    }

    /// Takes flows out, some hundred in a call, and tells who wants to know.
    pub(crate) fn remove_flows<P: Plane>(
        &mut self,
        mut which: Selection,
        reason: RemovedReason,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        loop {
            let chunk = which.next(&self.flows, CHUNK);
            if chunk.is_empty() {
                return Ok(());
            }
            self.with_flows(cx, move |dp, flows, set, events| {
                apply::remove(dp, set, flows, &chunk, reason, events);
            })?;
        }
    }

    /// Changes all flows that a non-strict modify means. Says whether there was none and one is to
    /// be added instead; then `behaviour` is still counted for the caller.
    fn modify<P: Plane>(
        &mut self,
        who: &Asker,
        filter: Filter,
        m: &FlowMod,
        behaviour: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<bool, Stop> {
        self.flush(cx)?;
        let mut which = self.select(filter, &m.matcher, cx)?;
        let mut chunk = which.next(&self.flows, CHUNK);
        if chunk.is_empty() && who.version == Version::V10 {
            return Ok(true);
        }
        let lent = self.lend_for(behaviour, m, cx)?;
        let cookie = (who.version == Version::V10).then_some(m.cookie);
        let to = apply::Change { behaviour, cookie, flags: m.flags };
        while !chunk.is_empty() {
            let refused = self.with_flows(cx, move |dp, flows, set, _| {
                let mut spec = apply::blank();
                for at in chunk {
                    let Some(f) = flows.get(at) else { continue };
                    spec.matcher = flows.keys_of(f);
                    flows.behaviours.more(behaviour);
                    apply::change(dp, set, flows, at, &mut spec, to)?;
                }
                Ok(())
            })?;
            if let Err(code) = refused {
                self.flows.behaviours.release(behaviour);
                lent.into_iter().for_each(|l| self.buffers.give_back(*l));
                return Err(Stop::Refused(code));
            }
            chunk = which.next(&self.flows, CHUNK);
        }
        self.flows.behaviours.release(behaviour);
        self.pending.extend(lent.map(|l| Job::Send(Frame::behind(*who, *l))));
        Ok(false)
    }
}

/// Which flows a modify or delete means. 1.0 has neither cookie mask nor groups; ports count for
/// deletes alone.
fn filter_of(version: Version, m: &FlowMod, deletes: bool) -> Filter {
    let cookie_mask = match version {
        Version::V10 => 0,
        _ => m.cookie_mask,
    };
    let (out_port, out_group) = match (deletes, version) {
        (true, Version::V10) => (m.out_port, GROUP_ANY),
        (true, _) => (m.out_port, m.out_group),
        (false, _) => (Port::ANY, GROUP_ANY),
    };
    Filter { table: m.table, cookie: m.cookie, cookie_mask, out_port, out_group }
}
