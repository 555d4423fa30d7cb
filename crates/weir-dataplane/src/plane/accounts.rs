//! Where the fast path counts: the ways out of the executor and of the forwarding stage.

use super::*;
use crate::action::Vid;
use crate::compile::{ActionResult, PuntReason};
use crate::counters::{PortCounters, Tally, VdpCounters};
use crate::edge::{Edge, PortFlags};
use crate::execute::{ChannelTo, Egress};
use crate::forwarding::TxAccount;
use crate::matching::Tables;
use crate::program::Origin;
use crate::software::ToServer;
use crate::userfield::UserFields;
use crate::vdp::Vdp;
use weir_packet::{DropReason, Frame, Nanos, Pool, PortId};

/// Counts what the forwarding stage does, and keeps dropped frames until they can be freed.
pub(crate) struct Accounts<'a> {
    /// The port that sends or drops.
    pub(super) at: PortId,
    pub(super) vdps: &'a mut [Option<Box<Vdp>>],
    pub(super) retired: &'a mut VdpCounters,
    pub(super) port: &'a mut PortCounters,
    pub(super) grave: &'a mut Vec<Frame>,
}

impl TxAccount for Accounts<'_> {
    #[inline(always)]
    fn left(&mut self, what: Tally) {
        self.port.tx.merge(what);
    }
    #[inline(always)]
    fn sent(&mut self, vid: Vid, what: Tally) {
        match vdp_mut(self.vdps, vid) {
            Some(v) => v.edge.sent(self.at, what),
            None => self.retired.forwarded.merge(what),
        }
    }
    fn waiting(&mut self, vid: Vid) -> Option<&mut u32> {
        vdp_mut(self.vdps, vid).map(|v| &mut v.queued)
    }
    fn dropped(&mut self, vid: Vid, frame: Frame, why: DropReason) {
        self.port.tx_dropped.add(why);
        match vdp_mut(self.vdps, vid) {
            Some(v) => {
                v.counters.dropped.add(why);
                v.edge.lost(self.at);
            }
            None => self.retired.dropped.add(why),
        }
        self.grave.push(frame);
    }
}

/// The executor's way out of the fast path: everything goes into this round's lists.
pub(super) struct FastEgress<'a> {
    vid: Vid,
    now: Nanos,
    pool: &'a mut Pool,
    ports: &'a [Option<Box<Port>>],
    vdp_ports: &'a [PortId],
    edge: &'a mut Edge,
    counters: &'a mut VdpCounters,
    out: &'a mut Vec<OutItem>,
    soft: &'a mut Vec<ToServer>,
    grave: &'a mut Vec<Frame>,
}

/// What decides over a VDP's frames on the fast path.
pub(super) struct Deciders<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) fields: &'a UserFields,
    /// For frames that no rule takes.
    pub(super) miss: &'a ActionResult,
}

impl<'a> FastEgress<'a> {
    /// The way out for frames of `v`, and what decides over them.
    #[inline(always)]
    pub(super) fn of(
        v: &'a mut Vdp,
        now: Nanos,
        pool: &'a mut Pool,
        ports: &'a [Option<Box<Port>>],
        out: &'a mut Vec<OutItem>,
        soft: &'a mut Vec<ToServer>,
        grave: &'a mut Vec<Frame>,
    ) -> (Self, Deciders<'a>) {
        let (edge, counters) = (&mut v.edge, &mut v.counters);
        let way = Self {
            vid: v.vid,
            now,
            pool,
            ports,
            vdp_ports: &v.all_ids,
            edge,
            counters,
            out,
            soft,
            grave,
        };
        (way, Deciders { tables: &mut v.fast, fields: &v.fields, miss: &v.miss })
    }
}

/// Whether frames of a VDP with this edge can leave by a port, as what a bucket watches.
pub(super) fn is_live(ports: &[Option<Box<Port>>], edge: &Edge, port: PortId) -> bool {
    let up = |p: &Port| p.tx.is_up() && !edge.flags(port).any_of(PortFlags::DOWN);
    ports.get(usize::from(port.0)).and_then(Option::as_ref).is_some_and(|p| up(p))
}

impl Egress for FastEgress<'_> {
    fn output(&mut self, frame: Frame, port: PortId, queue: u32, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        if self.edge.guarded()
            && let Some(why) = self.edge.refuse_out(port)
        {
            self.counters.dropped.add(why);
            return self.grave.push(frame);
        }
        self.out.push(OutItem { frame, port, vid: self.vid, queue });
    }
    fn channel(&mut self, frame: Frame, in_port: PortId, to: ChannelTo, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        if let ChannelTo::Controller(meta) = to
            && self.edge.guarded()
            && meta.reason == PuntReason::NoMatch
            && self.edge.flags(in_port).any_of(PortFlags::NO_PACKET_IN)
        {
            self.counters.dropped.add(DropReason::PortConfig);
            return self.grave.push(frame);
        }
        self.soft.push(ToServer { frame, vid: self.vid, in_port, to });
    }
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        self.counters.dropped.add(why);
        self.grave.push(frame);
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let mut f = self.pool.alloc();
        if let Some(c) = &mut f
            && c.clone_from_frame(of).is_err()
        {
            self.grave.extend(f.take());
        }
        if f.is_none() {
            self.lost_copy(DropReason::NoFrame);
        }
        f
    }
    fn lost_copy(&mut self, why: DropReason) {
        self.counters.cloned += 1;
        self.counters.dropped.add(why);
    }
    fn ports(&self) -> &[PortId] {
        self.vdp_ports
    }
    fn floods(&self, port: PortId) -> bool {
        !self.edge.flags(port).any_of(PortFlags::NO_FLOOD)
    }
    fn is_live(&self, port: PortId) -> bool {
        is_live(self.ports, self.edge, port)
    }
    fn now(&self) -> Nanos {
        self.now
    }
}
