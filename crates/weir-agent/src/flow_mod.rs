//! Flow modifications (1.3 §6.4, §7.3.4.1; 1.0 §4.6, §5.3.3): checked here, gathered, carried out by
//! `apply`. Non-strict ones look through the book of flows first, outside the data plane's thread.

use crate::apply::{self, Command, FlowJob, Frame, Job};
use crate::flows::{Behaviour, Filter};
use crate::instructions::{still_right, turn_all};
use crate::matches;
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::switch::Switch;
use weir_dataplane::{Action, Out};
use weir_openflow::model::{
    ErrorCode, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, NO_BUFFER, Port, RemovedReason,
    TABLE_ALL, Version,
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
        self.check_head(who.version, &m, deletes)?;
        matches::check(&mut m.matcher, who.version)?;
        let behaviour = match deletes {
            true => None,
            false => Some(self.behaviour(&m)?),
        };
        let filter = filter_of(who.version, &m, deletes);
        // A strict delete in every table is one of each; so is a non-strict one's search.
        let wide = m.table == TABLE_ALL;
        match m.command {
            FlowCommand::Delete => return self.delete(filter, &m, cx),
            FlowCommand::DeleteStrict if wide => return self.delete_strict_all(filter, &m, cx),
            FlowCommand::Modify => {
                let Some(b) = behaviour else { return Ok(()) };
                if !self.modify(who, &filter, &m, b, cx)? {
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
        let id = self.flows.identity(m.table, m.priority, &m.matcher);
        self.pending.push(Job::Flow(Box::new(FlowJob {
            asker: *who,
            command,
            id,
            keys: matches::keys(&m.matcher),
            filter: match command {
                Command::Add => Filter { cookie_mask: 0, ..filter },
                _ => filter,
            },
            cookie: m.cookie,
            idle_timeout: m.idle_timeout,
            hard_timeout: m.hard_timeout,
            flags: m.flags,
            behaviour,
        })));
        if !deletes {
            self.release_buffer(who, m.buffer_id)?;
        }
        self.flush_when_full(cx)
    }

    /// What can be told from the message's head.
    fn check_head(&self, version: Version, m: &FlowMod, deletes: bool) -> Result<(), ErrorCode> {
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
        if m.flags.0 & !known.0 != 0 && !deletes {
            return Err(ErrorCode::FlowBadFlags);
        }
        Ok(())
    }

    /// Checks what a flow shall do; its number, counted once for the caller.
    fn behaviour(&mut self, m: &FlowMod) -> Result<u32, ErrorCode> {
        let all = &m.instructions;
        let is = |b: &Behaviour| *b.instructions == all[..];
        // Most flows do what others do.
        if let Some(i) = self.flows.behaviours.find(all, is)
            && self.flows.behaviours.get(i).is_some_and(|b| still_right(b, m.table, &self.state))
        {
            self.flows.behaviours.more(i);
            return Ok(i);
        }
        let turned = turn_all(all, m.table, &self.state)?;
        Ok(self.flows.behaviours.take(all, is, || turned))
    }

    fn check_overlap<P: Plane>(
        &mut self,
        m: &FlowMod,
        behaviour: Option<u32>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let id = self.flows.identity(m.table, m.priority, &m.matcher);
        let modifies = m.command == FlowCommand::ModifyStrict && self.flows.find(&id).is_some();
        let overlaps = !modifies && self.flows.overlaps(&id, &m.matcher);
        self.flows.forget(id);
        if overlaps {
            if let Some(b) = behaviour {
                self.flows.behaviours.release(b);
            }
            return Err(ErrorCode::FlowOverlap.into());
        }
        Ok(())
    }

    /// A buffered packet meets the tables after the change that names it.
    fn release_buffer(&mut self, who: &Asker, id: u32) -> Result<(), ErrorCode> {
        if id == NO_BUFFER {
            return Ok(());
        }
        let b = self.buffers.take(id)?;
        self.pending.push(Job::Send(Frame {
            asker: *who,
            in_port: b.in_port,
            bytes: b.frame,
            actions: vec![Action::Output(Out::Table)],
        }));
        Ok(())
    }

    fn delete<P: Plane>(
        &mut self,
        filter: Filter,
        m: &FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let which = self.flows.select(&filter, &m.matcher);
        self.remove_flows(which, RemovedReason::Delete, cx)
    }

    fn delete_strict_all<P: Plane>(
        &mut self,
        filter: Filter,
        m: &FlowMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let mut which = Vec::new();
        for table in 0..self.state.tables {
            let id = self.flows.identity(table, m.priority, &m.matcher);
            which.extend(self.flows.find(&id).filter(|i| {
                self.flows
                    .get(*i)
                    .is_some_and(|f| filter.admits(f, self.flows.behaviours.get(f.behaviour)))
            }));
            self.flows.forget(id);
        }
        self.remove_flows(which, RemovedReason::Delete, cx)
    }

    /// Takes flows out, some hundred in a call, and tells who wants to know.
    pub(crate) fn remove_flows<P: Plane>(
        &mut self,
        which: Vec<u32>,
        reason: RemovedReason,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        for chunk in which.chunks(CHUNK) {
            let chunk = chunk.to_vec();
            self.with_flows(cx, move |dp, flows, set, events| {
                apply::remove(dp, set, flows, &chunk, reason, events);
            })?;
        }
        Ok(())
    }

    /// Changes all flows that a non-strict modify means. Says whether there was none and one is to
    /// be added instead; then `behaviour` is still counted for the caller.
    fn modify<P: Plane>(
        &mut self,
        who: &Asker,
        filter: &Filter,
        m: &FlowMod,
        behaviour: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<bool, Stop> {
        self.flush(cx)?;
        let which = self.flows.select(filter, &m.matcher);
        if which.is_empty() && who.version == Version::V10 {
            return Ok(true);
        }
        let cookie = (who.version == Version::V10).then_some(m.cookie);
        let to = apply::Change { behaviour, cookie, flags: m.flags };
        for chunk in which.chunks(CHUNK) {
            let chunk = chunk.to_vec();
            let refused = self.with_flows(cx, move |dp, flows, set, _| {
                for i in chunk {
                    let Some(keys) = apply::keys_of(flows, i) else { continue };
                    flows.behaviours.more(behaviour);
                    apply::change(dp, set, flows, i, &keys, to)?;
                }
                Ok(())
            })?;
            if let Err(code) = refused {
                self.flows.behaviours.release(behaviour);
                return Err(Stop::Refused(code));
            }
        }
        self.flows.behaviours.release(behaviour);
        self.release_buffer(who, m.buffer_id)?;
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
