//! What the switch says: to whom it is said on, and what it changes in the books.
//!
//! Room: one function a kind of message; the way in is [`Switch::from_switch`]. An xid that the ledger does not know
//! is nobody's, and a cookie that no book knows is no slice's: both are passed over.

use super::book::FlowId;
use super::flows::owner;
use super::ledger::{What, error};
use super::space::SliceId;
use super::switch::{Out, Switch};
use core::time::Duration;
use weir_openflow::codec::DecodeError;
use weir_openflow::model::{
    ErrorCode, ErrorMsg, FlowRemoved, Message, Msg, RemovedReason, StatsReply, Version,
};

/// Types of messages that come unasked, in both versions.
const PACKET_IN: u8 = 10;
const FLOW_REMOVED: u8 = 11;
const PORT_STATUS: u8 = 12;

/// How long a switch may take to tell of rules that are gone by a barrier.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Flows of which that is waited for, at most.
const MOST_WANING: usize = 4096;

impl Switch {
    /// A message from the switch.
    pub fn from_switch(&mut self, msg: Msg, now: Duration, out: &mut Out) {
        self.now = now;
        self.hear(msg, now, out);
        self.remember(out);
    }

    /// A message of the switch's that can't be read: what it was to answer is answered by an error.
    pub fn misread(&mut self, e: &DecodeError, now: Duration, out: &mut Out) {
        self.now = now;
        // What comes unasked answers nothing, whatever its xid; and of what the slicer asks for itself the rest may
        // be read yet.
        let unasked = matches!(e.kind, PACKET_IN | FLOW_REMOVED | PORT_STATUS);
        let own = matches!(self.ledger.peek(e.xid), Some(What::Own | What::Compared(_)));
        if !unasked && !own {
            // There is no word for what a switch says and nobody understands: it can't be had here.
            let error = ErrorMsg { code: ErrorCode::RequestEperm, data: Vec::new() };
            self.error(e.xid, &error, out);
        }
        self.remember(out);
    }

    fn hear(&mut self, msg: Msg, now: Duration, out: &mut Out) {
        let xid = msg.xid;
        match msg.body {
            Message::FeaturesReply(f) => {
                if let Some(What::Own) = self.ledger.peek(xid) {
                    self.ledger.close(xid);
                    self.learnt(f, out);
                }
            }
            Message::StatsReply { more, body } => match (self.ledger.peek(xid), body) {
                (Some(What::Own), StatsReply::PortDesc(ports)) => {
                    self.learnt_ports(ports, more, out);
                }
                (Some(What::Compared(_)), body) => self.compared(xid, more, body, out),
                (Some(What::Covered(_)), body) => self.covered(xid, more, &body, out),
                (_, body) => self.answered(xid, more, body, out),
            },
            Message::BarrierReply => self.barrier_reply(xid, out),
            Message::Error(e) => self.error(xid, &e, out),
            Message::PacketIn(p) => self.packet_in(p, now, out),
            Message::FlowRemoved(r) => self.flow_removed(&r, out),
            Message::PortStatus(p) => self.port_changed(p, out),
            Message::QueueConfigReply { port, queues } => self.queues(xid, port, queues, out),
            // Answers to what the slicer asks for itself, and what no slice has asked for.
            _ => {}
        }
    }

    fn barrier_reply(&mut self, xid: u32, out: &mut Out) {
        if !matches!(self.ledger.peek(xid), Some(What::Barrier(..) | What::OwnBarrier)) {
            return;
        }
        for op in self.ledger.settled(xid) {
            self.last_words(op.asker.slice, &op.deaths, out);
        }
        let Some(What::Barrier(asker, before)) = self.ledger.close(xid) else { return };
        let Ok(s) = self.slice(&asker) else { return };
        if s.taken_back != before {
            // What was taken back since is still on its way: the promise is kept by another barrier.
            let what = What::Barrier(asker.clone(), s.taken_back);
            self.pass(&asker, what, Message::BarrierRequest, out);
            return;
        }
        self.answer(&asker, Message::BarrierReply, out);
    }

    /// Gives the switch a time to tell of deleted flows' rules: what these have counted it may tell later than that the change is done,
    /// as Open vSwitch does.
    pub(super) fn last_words(&mut self, slice: SliceId, deaths: &[FlowId], out: &mut Out) {
        let Some(s) = self.slices.get(usize::from(slice.0)) else { return };
        let silent = deaths.iter().filter(|id| s.dying.contains_key(*id)).copied();
        let silent: Vec<FlowId> = silent.collect();
        let until = self.now + LAST_WORDS;
        self.waning.extend(silent.into_iter().map(|id| (until, slice, id)));
        while self.waning.len() > MOST_WANING
            && let Some((_, slice, id)) = self.waning.pop_front()
        {
            self.has_waned(slice, id, out);
        }
    }

    /// One less of a deleted flow's rules has still to be told of; after the last the flow is.
    pub(super) fn one_less(&mut self, slice: SliceId, id: FlowId, out: &mut Out) {
        let s = self.slices.get_mut(usize::from(slice.0));
        let Some(d) = s.and_then(|s| s.dying.get_mut(&id)) else { return };
        d.left = d.left.saturating_sub(1);
        if d.left == 0 {
            self.has_waned(slice, id, out);
        }
    }

    /// Tells slices of flows that are gone and of which the switch has said nothing, though there was time.
    pub(super) fn wane(&mut self, now: Duration, out: &mut Out) {
        while let Some((until, slice, id)) = self.waning.front().copied()
            && until <= now
        {
            self.waning.pop_front();
            self.has_waned(slice, id, out);
        }
    }

    fn has_waned(&mut self, slice: SliceId, id: FlowId, out: &mut Out) {
        let s = self.slices.get_mut(usize::from(slice.0));
        if let Some(d) = s.and_then(|s| s.dying.remove(&id)) {
            self.bury(slice, d.flow, d.lived, RemovedReason::Delete, out);
        }
    }

    fn error(&mut self, xid: u32, e: &ErrorMsg, out: &mut Out) {
        if let Some(What::Compared(_)) = self.ledger.peek(xid) {
            // A switch that has no such thing.
            return self.compared_all(xid, out);
        }
        let asker = match self.ledger.close(xid) {
            Some(What::Part(op)) => {
                // The first part that fails fails the change; the rest has no one to tell any more.
                let Some(op) = self.ledger.fail(op) else { return };
                let asker = op.asker.clone();
                self.take_back(op, out);
                asker
            }
            Some(What::Told(asker) | What::Asked(asker, _) | What::Barrier(asker, _)) => asker,
            Some(
                What::OwnBarrier
                | What::Own
                | What::OwnChange
                | What::Covered(_)
                | What::Compared(_),
            )
            | None => return,
        };
        self.touched.note(asker.slice);
        if let Ok(s) = self.slice_mut(&asker) {
            s.counters.failed += 1;
        }
        let Msg { body, .. } = error(&asker, e.code);
        self.answer(&asker, body, out);
    }

    /// OFPT_FLOW_REMOVED: the rule's flow goes with its last rule, and is told of once.
    fn flow_removed(&mut self, r: &FlowRemoved, out: &mut Out) {
        let Some((slice, id)) = owner(r.cookie) else { return };
        let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
        let lived = (r.duration_sec, r.duration_nsec);
        if let Some(d) = s.dying.get_mut(&id) {
            d.lived = d.lived.max(lived);
            d.flow.count(r.packets, r.bytes);
            return self.one_less(slice, id, out);
        }
        let Some(f) = s.book.flow_mut(id) else { return };
        if f.priority != r.priority || (self.version == Version::V13 && f.table != r.table) {
            return;
        }
        if f.has_left(r) {
            return;
        }
        self.touched.note(slice);
        let mut changes = Vec::new();
        if r.reason == RemovedReason::HardTimeout {
            s.book.over(id, &r.matcher);
        }
        let counted = (r.packets, r.bytes);
        let gone = s.book.gone(id, &r.matcher, counted, &mut changes);
        self.reinstall(slice, &changes, out);
        if let Some(flow) = gone {
            self.bury(slice, flow, lived, r.reason, out);
        }
    }
}
