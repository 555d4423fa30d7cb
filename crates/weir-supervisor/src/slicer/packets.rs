//! Packets to and from controllers: each to the slice whose it is, each from a slice only where it is the slice's.
//!
//! Room: between `replies`, `requests` and the flow space.

use super::book::{Flow, FlowId};
use super::cube;
use super::flows::{cookie, owner};
use super::header;
use super::ledger::{Asker, What};
use super::plan::Loss;
use super::role::Tiding;
use super::space::{Right, SliceId};
use super::switch::{Out, Switch};
use super::tags::{self, Beneath};
use core::time::Duration;
use weir_openflow::model::{
    ErrorCode, Field, FlowCommand, FlowMod, Instruction, Match, Message, NO_BUFFER, PacketIn,
    PacketInReason, PacketOut, Port, TABLE_ALL, Version,
};

/// Pieces of the flow space among which that of a packet is looked for.
const LOOKS: usize = 64;
/// The flow of rules that are no flow's.
const NOBODYS: FlowId = FlowId(0);

impl Switch {
    /// OFPT_PACKET_OUT.
    ///
    /// # Errors
    /// What the controller is told.
    pub(super) fn packet_out(
        &mut self,
        asker: &Asker,
        mut p: PacketOut,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        let s = self.slices.get(usize::from(asker.slice.0)).ok_or(ErrorCode::RequestEperm)?;
        let real = p.in_port.is_physical() || p.in_port == Port::LOCAL;
        if real && !s.has(p.in_port) {
            return Err(ErrorCode::BadPort);
        }
        let (header, beneath) = match p.buffer_id {
            NO_BUFFER => tags::read(&p.data, p.in_port),
            waits => {
                let header = s.buffers.look(waits).ok_or(ErrorCode::BufferUnknown)?;
                (header.clone(), Beneath::default())
            }
        };
        let mut judge = s.judge(&mut self.space, self.version);
        p.actions = judge.packet_out(&header, beneath, &p.actions)?;
        if p.buffer_id != NO_BUFFER {
            let taken = self.slice_mut(asker)?.buffers.take(p.buffer_id);
            p.buffer_id = taken.map_or(NO_BUFFER, |(physical, _)| physical);
        }
        self.pass(asker, What::Told(asker.clone()), Message::PacketOut(p), out);
        Ok(())
    }

    /// OFPT_PACKET_IN: to whoever may read it, and to the slice whose rule sent it.
    pub(super) fn packet_in(&mut self, p: PacketIn, now: Duration, out: &mut Out) {
        let in_port = p.matcher.get(Field::InPort).map_or(0, |m| m.value);
        let in_port = Port(u32::try_from(in_port).unwrap_or(0));
        let mut header = header::of_frame(&p.data, in_port);
        if let Some(t) = p.matcher.get(Field::TunnelId) {
            header = header.with(Field::TunnelId, t.value);
        }
        let grants = self.space.decides(&header).map(|e| e.grants.clone()).unwrap_or_default();
        let by_rule = match self.version {
            Version::V13 => owner(p.cookie).filter(|(s, f)| {
                self.slices.get(usize::from(s.0)).is_some_and(|s| s.book.get(*f).is_some())
            }),
            Version::V10 => None,
        };
        let mut p = p;
        if let Some((s, f)) = by_rule
            && self.slices.get(usize::from(s.0)).and_then(|s| s.book.get(f)).is_some_and(is_miss)
            && p.reason == PacketInReason::Action
        {
            p.reason = PacketInReason::NoMatch;
        }
        let theirs = |slice| by_rule.is_none_or(|(s, _)| s == slice);
        // Who only reads along gets no number for what waits: with one it could take it from whose it is.
        let read = PacketIn { buffer_id: NO_BUFFER, ..p.clone() };
        for (slice, right) in &grants {
            // A rule's packet is its slice's; others of the same header only read along.
            let by_rule = by_rule.filter(|(s, _)| s == slice);
            match right {
                Right::Read => self.hand(*slice, &read, &header, by_rule, now, out),
                _ if theirs(*slice) => self.hand(*slice, &p, &header, by_rule, now, out),
                _ => {}
            }
        }
        if let Some((slice, _)) = by_rule
            && !grants.iter().any(|(s, _)| *s == slice)
        {
            self.hand(slice, &p, &header, by_rule, now, out);
        }
    }

    /// Gives a slice a packet.
    fn hand(
        &mut self,
        slice: SliceId,
        p: &PacketIn,
        header: &Match,
        by_rule: Option<(SliceId, FlowId)>,
        now: Duration,
        out: &mut Out,
    ) {
        let there = self.controllers.values().any(|c| c.slice == slice);
        let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
        // What nobody is told of costs the switch a change, and so goes by the same rate.
        let may = s.may_tell(now);
        if !there || !may {
            s.counters.packet_ins_dropped += 1;
            let loss = s.plan.loss;
            if let (false, true, Loss::Drop { seconds }) = (there, may, loss)
                && self.ledger.has_room(slice)
                && p.reason == PacketInReason::NoMatch
            {
                self.drop_like(slice, p.table, header, seconds, out);
            }
            return;
        }
        let cookie = by_rule.and_then(|(_, f)| s.book.get(f)).map_or(u64::MAX, |f| f.cookie);
        let mut told = PacketIn { cookie, ..p.clone() };
        if p.buffer_id != NO_BUFFER {
            told.buffer_id = s.buffers.insert(p.buffer_id, tags::sure(header.clone(), &p.data).0);
            // What waits at the switch need not come whole.
            let wanted = usize::from(s.config.miss_send_len);
            if self.version == Version::V10 && p.reason == PacketInReason::NoMatch {
                told.data.truncate(wanted);
            }
        }
        let tiding = Tiding::PacketIn(p.reason as u32);
        if self.tell(slice, tiding, &Message::PacketIn(told), out)
            && let Some(s) = self.slices.get_mut(usize::from(slice.0))
        {
            s.counters.packet_ins += 1;
        }
    }

    /// Nobody is there to say what becomes of such packets: they are dropped in the switch for a while. The rule is
    /// in no book: it is the slicer's, goes by itself or when a controller comes, and outranks what has no match alone.
    fn drop_like(
        &mut self,
        slice: SliceId,
        table: u8,
        header: &Match,
        seconds: u16,
        out: &mut Out,
    ) {
        let like = super::compile::alike(self.version, header);
        // What matches more than the frame must be cut to what is the slice's.
        let Ok(own) = self.space.pieces(slice, Right::Write, &like, LOOKS) else { return };
        let Some(own) = own.into_iter().find(|m| cube::is_within(header, m)) else { return };
        let Ok(said) = super::compile::speakable(self.version, own, LOOKS) else { return };
        let fits = |m: &Match| seconds > 0 && cube::is_within(header, m);
        let Some(matcher) = said.into_iter().find(fits) else { return };
        let m = FlowMod {
            table,
            priority: u16::from(self.version == Version::V13),
            cookie: cookie(slice, NOBODYS),
            hard_timeout: seconds,
            matcher,
            instructions: Vec::<Instruction>::new(),
            ..FlowMod::new(FlowCommand::Add)
        };
        self.ledger.send(Some(slice), What::OwnChange, Message::FlowMod(m), &mut out.to_switch);
        if let Some(s) = self.slices.get_mut(usize::from(slice.0)) {
            s.drops = true;
        }
    }

    /// Takes away what drops a slice's packets, since somebody is there again. 1.0 has no way to name it.
    pub(super) fn drop_no_more(&mut self, slice: SliceId, out: &mut Out) {
        let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
        if std::mem::take(&mut s.drops) && self.version == Version::V13 {
            let m = FlowMod {
                table: TABLE_ALL,
                cookie: cookie(slice, NOBODYS),
                cookie_mask: u64::MAX,
                ..FlowMod::new(FlowCommand::Delete)
            };
            self.ledger.send(Some(slice), What::OwnChange, Message::FlowMod(m), &mut out.to_switch);
        }
    }
}

/// A table-miss flow entry (1.3.5 §5.4), which at the switch is a rule for each piece of the flow space: what it tells
/// is told as a miss.
fn is_miss(f: &Flow) -> bool {
    f.priority == 0 && f.matcher == Match::default()
}
