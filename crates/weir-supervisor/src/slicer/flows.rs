//! Changes of flows: met with the flow space, judged whole, booked, sent, and taken back whole where the switch
//! refuses a part.
//!
//! Room: between `requests` and the switch. A change is carried out in two steps: everything that can be
//! refused is found out without touching anything; then book and messages follow without a way to fail.

use super::book::{Change, Flow, FlowId, Piece, Selection};
use super::compile;
use super::ledger::{Asker, Op, Undo, What};
use super::replan::as_asked;
use super::role::Tiding;
use super::slice::Dying;
use super::space::{Right, SliceId};
use super::switch::{ConnId, NOBODY, Out, Switch};
use super::tags::Beneath;
use weir_openflow::model::{
    Action, ErrorCode, Field, FlowCommand, FlowFlags, FlowMod, FlowRemoved, GROUP_ANY, Instruction,
    Match, Message, NO_BUFFER, PacketOut, Port, RemovedReason, TABLE_ALL, Version,
};

/// Where the slice's number begins in a cookie at the switch; below it, the flow's.
const SLICE_SHIFT: u32 = 48;

/// The cookie of a flow's rules, and whose they are.
pub(super) fn cookie(slice: SliceId, flow: FlowId) -> u64 {
    (u64::from(slice.0) + 1) << SLICE_SHIFT | flow.0
}

/// Whose a cookie is.
pub(super) fn owner(cookie: u64) -> Option<(SliceId, FlowId)> {
    let slice = u16::try_from(cookie >> SLICE_SHIFT).ok()?.checked_sub(1)?;
    Some((SliceId(slice), FlowId(cookie & ((1 << SLICE_SHIFT) - 1))))
}

/// Value and mask of all cookies of a slice.
pub(super) fn cookies_of(slice: SliceId) -> (u64, u64) {
    (cookie(slice, FlowId(0)), u64::MAX << SLICE_SHIFT)
}

/// Rules of `matchers` for a flow of the slice's.
type Pieces = Result<Vec<Piece>, ErrorCode>;

impl Switch {
    /// OFPT_FLOW_MOD.
    ///
    /// # Errors
    /// What the controller is told; nothing has happened then.
    pub(super) fn flow_mod(
        &mut self,
        asker: &Asker,
        m: FlowMod,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        if m.flags.has(FlowFlags::EMERG) {
            return Err(ErrorCode::FlowBadFlags);
        }
        let deletes = matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let all = deletes && m.table == TABLE_ALL;
        if !all && m.table >= self.slice(asker)?.tables(self.version) {
            return Err(ErrorCode::FlowBadTableId);
        }
        if m.buffer_id != NO_BUFFER
            && !deletes
            && self.slice(asker)?.buffers.look(m.buffer_id).is_none()
        {
            return Err(ErrorCode::BufferUnknown);
        }
        match m.command {
            FlowCommand::Add => self.add_flow(asker, &m, out),
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify_flows(asker, &m, out),
            FlowCommand::Delete | FlowCommand::DeleteStrict => self.delete_flows(asker, &m, out),
        }
    }

    /// The rules of a flow of this slice.
    pub(super) fn pieces(&mut self, slice: SliceId, m: &FlowMod) -> Pieces {
        let s = self.slices.get(usize::from(slice.0)).ok_or(ErrorCode::FlowEperm)?;
        let limit = s.plan.limits.pieces;
        let parts = self.space.pieces(slice, Right::Write, &m.matcher, limit);
        let parts = parts.map_err(|_| ErrorCode::FlowEperm)?;
        let mut matchers: Vec<Match> = Vec::new();
        for part in parts {
            let said = compile::speakable(self.version, part, limit);
            for new in said.map_err(|_| ErrorCode::FlowEperm)? {
                if !matchers.contains(&new) {
                    matchers.push(new);
                }
            }
        }
        // What meets nothing of the slice's would do nothing: whoever sends it is wrong about what it has.
        if matchers.is_empty() || matchers.len() > limit {
            return Err(ErrorCode::FlowEperm);
        }
        self.judged(slice, m.table, &m.instructions, matchers)
    }

    fn judged(
        &mut self,
        slice: SliceId,
        table: u8,
        asked: &[Instruction],
        matchers: Vec<Match>,
    ) -> Pieces {
        let s = self.slices.get(usize::from(slice.0)).ok_or(ErrorCode::FlowEperm)?;
        let mut judge = s.judge(&mut self.space, self.version);
        let piece = |matcher: Match| {
            let instructions = judge.instructions(&matcher, table, asked)?;
            Ok(Piece { matcher, instructions })
        };
        matchers.into_iter().map(piece).collect()
    }

    fn add_flow(&mut self, asker: &Asker, m: &FlowMod, out: &mut Out) -> Result<(), ErrorCode> {
        let book = &self.slice(asker)?.book;
        let old = book.find(m.table, m.priority, &m.matcher);
        if m.flags.has(FlowFlags::CHECK_OVERLAP) && book.overlaps(m.table, m.priority, &m.matcher) {
            return Err(ErrorCode::FlowOverlap);
        }
        let pieces = self.pieces(asker.slice, m)?;
        let s = self.slices.get_mut(usize::from(asker.slice.0)).ok_or(ErrorCode::FlowEperm)?;
        let freed = old.and_then(|id| s.book.get(id)).map_or(0, |f| f.pieces.len());
        if s.book.pieces() - freed + pieces.len() > s.plan.limits.rules {
            return Err(ErrorCode::FlowTableFull);
        }
        self.next_flow += 1;
        let id = FlowId(self.next_flow);
        let (mut undo, mut changes) = (Vec::new(), Vec::new());
        // 1.3 §6.4: without the flag the counters go on.
        let goes_on = self.version == Version::V13 && !m.flags.has(FlowFlags::RESET_COUNTS);
        let was = old.and_then(|id| s.book.get(id)).filter(|_| goes_on);
        let flow = Flow {
            table: m.table,
            priority: m.priority,
            matcher: m.matcher.clone(),
            cookie: m.cookie,
            flags: m.flags,
            idle_timeout: m.idle_timeout,
            hard_timeout: m.hard_timeout,
            instructions: m.instructions.clone(),
            pieces,
            counted: was.map_or((0, 0), |f| f.counted),
            lived: None,
            since: Some(self.now),
            leaving: Vec::new(),
        };
        match old {
            Some(old) => {
                let was = s.book.replace(old, id, flow, &mut changes);
                undo.extend(was.map(|w| Undo::Restore(old, Box::new(w))));
            }
            None => s.book.add(id, flow, &mut changes),
        }
        undo.push(Undo::Remove(id));
        let op = self.ledger.begin(asker.clone(), undo, Vec::new());
        self.carry_out(asker.slice, op, &changes, m.flags, Some(m.buffer_id), out);
        Ok(())
    }

    fn modify_flows(&mut self, asker: &Asker, m: &FlowMod, out: &mut Out) -> Result<(), ErrorCode> {
        let book = &self.slice(asker)?.book;
        let s = Selection {
            table: m.table,
            matcher: &m.matcher,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            cookie: m.cookie,
            cookie_mask: m.cookie_mask,
        };
        let meant = match m.command {
            FlowCommand::ModifyStrict => book.select_strictly(m, &s),
            _ => book.select(&s),
        };
        if meant.is_empty() {
            // 1.0 §4.6: it is an addition then, with everything that is asked of one.
            return match self.version {
                Version::V10 => self.add_flow(asker, m, out),
                Version::V13 => {
                    if let Some(waits) = self.slice_mut(asker)?.buffers.take(m.buffer_id) {
                        self.release(asker.slice, waits, out);
                    }
                    Ok(())
                }
            };
        }
        // All is judged before anything is changed.
        let mut new = Vec::with_capacity(meant.len());
        for id in meant {
            let Some(f) = self.slice(asker)?.book.get(id) else { continue };
            let (table, matchers) = (f.table, f.pieces.iter().map(|p| p.matcher.clone()).collect());
            new.push((id, self.judged(asker.slice, table, &m.instructions, matchers)?));
        }
        let (mut undo, mut changes) = (Vec::new(), Vec::new());
        let book = &mut self.slice_mut(asker)?.book;
        for (id, pieces) in new {
            let was = book.alter(id, m.instructions.clone(), pieces, &mut changes);
            undo.extend(was.map(|(i, _)| Undo::Alter(id, i)));
        }
        let op = self.ledger.begin(asker.clone(), undo, Vec::new());
        self.carry_out(asker.slice, op, &changes, m.flags, Some(m.buffer_id), out);
        Ok(())
    }

    fn delete_flows(&mut self, asker: &Asker, m: &FlowMod, out: &mut Out) -> Result<(), ErrorCode> {
        let book = &self.slice(asker)?.book;
        let s = Selection {
            table: m.table,
            matcher: &m.matcher,
            out_port: m.out_port,
            out_group: m.out_group,
            cookie: m.cookie,
            cookie_mask: m.cookie_mask,
        };
        let meant = match m.command {
            FlowCommand::DeleteStrict => book.select_strictly(m, &s),
            _ => book.select(&s),
        };
        self.delete(asker, &meant, out);
        Ok(())
    }

    pub(super) fn delete(&mut self, asker: &Asker, meant: &[FlowId], out: &mut Out) {
        let Ok(s) = self.slice_mut(asker) else { return };
        let (mut changes, mut deaths, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for id in meant {
            let before = changes.len();
            let Some(flow) = s.book.remove(*id, &mut changes) else { continue };
            // A rule that goes is told of; what one counted that another takes the place of is asked for.
            let left = changes.len() - before + flow.leaving.len();
            if !flow.flags.has(FlowFlags::SEND_FLOW_REM) {
                continue;
            }
            let dying = Dying { flow, left, lived: (0, 0) };
            if left == 0 {
                over.push(dying);
            } else {
                s.dying.insert(*id, dying);
                deaths.push(*id);
            }
        }
        if changes.is_empty() {
            self.last_words(asker.slice, &deaths, out);
        } else {
            let op = self.ledger.begin(asker.clone(), Vec::new(), deaths);
            self.carry_out(asker.slice, op, &changes, FlowFlags(0), None, out);
        }
        for d in over {
            self.bury(asker.slice, d.flow, d.lived, RemovedReason::Delete, out);
        }
    }

    /// Deletes everything that a slice has, since its last controller has gone.
    pub(super) fn empty(&mut self, conn: ConnId, slice: SliceId, out: &mut Out) {
        let asker = Asker { slice, conn, xid: 0, head: Vec::new() };
        let Ok(s) = self.slice(&asker) else { return };
        let all: Vec<FlowId> = s.book.iter().map(|(id, _)| id).collect();
        self.delete(&asker, &all, out);
        self.empty_groups(&asker, out);
    }

    /// Tells a slice that a flow is gone, if it wants to know.
    pub(super) fn bury(
        &mut self,
        slice: SliceId,
        f: Flow,
        lived: (u32, u32),
        reason: RemovedReason,
        out: &mut Out,
    ) {
        if !f.flags.has(FlowFlags::SEND_FLOW_REM) {
            return;
        }
        let lived = f.age(lived, self.now);
        let removed = FlowRemoved {
            cookie: f.cookie,
            priority: f.priority,
            reason,
            table: f.table,
            duration_sec: lived.0,
            duration_nsec: lived.1,
            idle_timeout: f.idle_timeout,
            hard_timeout: if self.version == Version::V13 { f.hard_timeout } else { 0 },
            packets: f.counted.0,
            bytes: f.counted.1,
            matcher: f.matcher,
        };
        let told = Tiding::FlowRemoved(reason as u32);
        if self.tell(slice, told, &Message::FlowRemoved(removed), out)
            && let Some(s) = self.slices.get_mut(usize::from(slice.0))
        {
            s.counters.flows_removed += 1;
        }
    }

    /// Sends changes of the book to the switch. A packet of the slice's that waits goes with the rule
    /// that it meets, or as the tables say.
    pub(super) fn carry_out(
        &mut self,
        slice: SliceId,
        op: u64,
        changes: &[Change],
        flags: FlowFlags,
        buffer: Option<u32>,
        out: &mut Out,
    ) {
        let at = usize::from(slice.0);
        let Some(s) = self.slices.get_mut(at) else { return };
        let mut waits = buffer.filter(|b| *b != NO_BUFFER).and_then(|b| s.buffers.take(b));
        let counting = FlowFlags::NO_PKT_COUNTS.0 | FlowFlags::NO_BYT_COUNTS.0;
        for change in changes {
            let m = match change {
                Change::Install(id, matcher)
                | Change::Cover { id, matcher, .. }
                | Change::Alter(id, matcher) => {
                    let Some(f) = self.slices.get(at).and_then(|s| s.book.get(*id)) else {
                        continue;
                    };
                    let Some(piece) = f.pieces.iter().find(|p| p.matcher == *matcher) else {
                        continue;
                    };
                    let fits =
                        waits.as_ref().is_some_and(|(_, h)| super::cube::is_within(h, matcher));
                    let installs = !matches!(change, Change::Alter(..));
                    // Always told of its end, since the book must be true.
                    let kept = FlowFlags(f.flags.0 & counting) | FlowFlags::SEND_FLOW_REM;
                    // In 1.0 every addition does, without a flag for it.
                    let resets = match change {
                        Change::Cover { .. } if self.version == Version::V13 => {
                            FlowFlags::RESET_COUNTS.0
                        }
                        _ => flags.0 & FlowFlags::RESET_COUNTS.0,
                    };
                    let m = FlowMod {
                        cookie: cookie(slice, *id),
                        table: f.table,
                        idle_timeout: f.idle_timeout,
                        hard_timeout: f.time_left(self.now),
                        priority: f.priority,
                        buffer_id: match fits {
                            true => waits.take().map_or(NO_BUFFER, |(physical, _)| physical),
                            false => NO_BUFFER,
                        },
                        flags: kept | FlowFlags(resets),
                        matcher: matcher.clone(),
                        instructions: piece.instructions.clone(),
                        ..FlowMod::new(match installs {
                            true => FlowCommand::Add,
                            false => FlowCommand::ModifyStrict,
                        })
                    };
                    if let Change::Cover { of, .. } = change {
                        self.ask_covered(slice, *of, (m.table, m.priority, matcher), out);
                    }
                    m
                }
                Change::Remove { table, priority, matcher } => FlowMod {
                    table: *table,
                    priority: *priority,
                    matcher: matcher.clone(),
                    ..FlowMod::new(FlowCommand::DeleteStrict)
                },
            };
            let what = What::Part(op);
            self.ledger.send(Some(slice), what, Message::FlowMod(m), &mut out.to_switch);
        }
        if let Some(waits) = waits {
            self.release(slice, waits, out);
        }
    }

    /// Lets go of a packet that none of its flow's rules met: a flow_mod with a buffer is the flow_mod and a packet-out
    /// to the tables (1.3 §7.3.4.1). One that is no longer the slice's is dropped: nobody else knows of it.
    fn release(&mut self, slice: SliceId, (buffer_id, header): (u32, Match), out: &mut Out) {
        let Some(s) = self.slices.get(usize::from(slice.0)) else { return };
        let to_tables = [Action::Output { port: Port::TABLE, max_len: 0 }];
        let mut judge = s.judge(&mut self.space, self.version);
        let judged = judge.packet_out(&header, Beneath::default(), &to_tables);
        let in_port = header.get(Field::InPort).and_then(|p| u32::try_from(p.value).ok());
        let p = PacketOut {
            buffer_id,
            in_port: in_port.map_or(Port::CONTROLLER, Port),
            actions: judged.unwrap_or_default(),
            data: Vec::new(),
        };
        let to = &mut out.to_switch;
        self.ledger.send(Some(slice), What::OwnChange, Message::PacketOut(p), to);
    }

    /// Brings rules back that were covered by rules that went by themselves.
    pub(super) fn reinstall(&mut self, slice: SliceId, changes: &[Change], out: &mut Out) {
        if !changes.is_empty() {
            let asker = Asker { slice, conn: NOBODY, xid: 0, head: Vec::new() };
            let op = self.ledger.begin(asker, Vec::new(), Vec::new());
            self.carry_out(slice, op, changes, FlowFlags(0), None, out);
        }
    }

    /// Takes back a change of which the switch has refused a part: the last step first.
    pub(super) fn take_back(&mut self, op: Op, out: &mut Out) {
        let slice = op.asker.slice;
        self.last_words(slice, &op.deaths, out);
        let mut changes = Vec::new();
        for step in op.undo.into_iter().rev() {
            // What was good then is judged by the flow space of now.
            let judged = match &step {
                Undo::Restore(_, flow) => self.pieces(slice, &as_asked(flow)),
                Undo::Alter(id, instructions) => {
                    let book = self.slices.get(usize::from(slice.0)).map(|s| &s.book);
                    let was = book.and_then(|b| b.get(*id)).cloned();
                    let matchers = |f: &Flow| f.pieces.iter().map(|p| p.matcher.clone()).collect();
                    match was {
                        Some(f) => self.judged(slice, f.table, instructions, matchers(&f)),
                        None => continue,
                    }
                }
                _ => Ok(Vec::new()),
            };
            let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
            match step {
                Undo::Restore(..) if judged.is_err() => {}
                Undo::Alter(id, ..) if judged.is_err() => {
                    s.book.remove(id, &mut changes);
                }
                Undo::Remove(id) => {
                    s.book.remove(id, &mut changes);
                }
                Undo::Restore(id, flow) => {
                    // Somebody may have taken its place meanwhile.
                    if s.book.find(flow.table, flow.priority, &flow.matcher).is_none() {
                        let pieces = judged.unwrap_or_default();
                        let leaving = Vec::new();
                        s.book.add(id, Flow { pieces, leaving, ..*flow }, &mut changes);
                    }
                }
                Undo::Alter(id, instructions) => {
                    let pieces = judged.unwrap_or_default();
                    s.book.alter(id, instructions, pieces, &mut changes);
                }
                Undo::Group(id, was) => self.restore_group(&op.asker, id, was),
                Undo::Meter(id, was) => self.restore_meter(&op.asker, id, was),
            }
        }
        if let Some(s) = self.slices.get_mut(usize::from(slice.0)) {
            s.taken_back += 1;
        }
        if !changes.is_empty() {
            // The slice has been told of one failure; there is nobody to tell of another.
            let asker = Asker { conn: NOBODY, ..op.asker };
            let op = self.ledger.begin(asker, Vec::new(), Vec::new());
            self.carry_out(slice, op, &changes, FlowFlags(0), None, out);
        }
    }
}
