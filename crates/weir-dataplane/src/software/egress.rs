//! The executor's way out for rules that live on the slow path.
//!
//! Room: lives as long as one frame is in a server's hands.

use super::slot::SlotPort;
use crate::action::Vid;
use crate::compile::{PuntMeta, PuntReason};
use crate::edge::{PortFlags, reserved_no};
use crate::execute::{ChannelTo, Egress};
use crate::program::{Done, End, Origin, Punt};
use crate::punt::{PuntSink, Punted};
use crate::spares::Spares;
use std::collections::VecDeque;
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// The executor's way out of the slow path.
pub(super) struct SlowEgress<'a> {
    pub(super) vid: Vid,
    pub(super) now: Nanos,
    pub(super) ports: &'a [SlotPort],
    pub(super) slot_live: &'a [PortId],
    pub(super) slot_all: &'a [PortId],
    pub(super) sink: Option<&'a mut (dyn PuntSink + 'static)>,
    pub(super) done: &'a mut VecDeque<Done>,
    pub(super) spares: Spares<'a>,
    /// Copies that found no frame, since a frame ended last.
    pub(super) lost: u32,
    /// The frame for a program.
    pub(super) back: Option<(Frame, Punt)>,
    /// What the frame that came in counts as once a program has got a copy in its place: a program
    /// ends the frame that came in, whichever chunk it is in.
    pub(super) stands_for: Origin,
}

impl SlowEgress<'_> {
    fn end(&mut self, frame: Frame, end: End, origin: Origin) {
        let origin = if origin == Origin::Received { self.stands_for } else { origin };
        let lost = std::mem::take(&mut self.lost);
        self.done.push_back(Done { lost, ..Done::new(frame, self.vid, end, origin) });
    }
    /// Gives a frame to the controllers; it ends there.
    fn punt(&mut self, frame: Frame, in_port: PortId, meta: PuntMeta, origin: Origin) {
        let port = self.ports.iter().find(|p| p.id == in_port);
        let quiet = port.is_some_and(|p| p.flags.any_of(PortFlags::NO_PACKET_IN));
        if quiet && meta.reason == PuntReason::NoMatch {
            return self.end(frame, End::Drop(DropReason::PortConfig), origin);
        }
        if let Some(sink) = &mut self.sink {
            let no = port.map_or_else(|| reserved_no(in_port), |p| p.port.no);
            sink.punt(Punted::new(no, meta, frame.bytes()));
        }
        self.end(frame, End::Consume, origin);
    }
    /// Gives a frame to a program, after the rules. There is one frame for programs; further copies
    /// end here.
    fn give_program(&mut self, frame: Frame, why: Punt, origin: Origin) {
        if self.back.is_some() || self.stands_for != Origin::Received {
            return self.end(frame, End::Consume, origin);
        }
        if origin == Origin::Cloned {
            self.stands_for = Origin::Cloned;
        }
        self.back = Some((frame, why));
    }
}

impl Egress for SlowEgress<'_> {
    fn output(&mut self, frame: Frame, port: PortId, queue: u32, origin: Origin) {
        self.end(frame, End::Forward(port, queue), origin);
    }
    fn channel(&mut self, frame: Frame, in_port: PortId, to: ChannelTo, origin: Origin) {
        match to {
            ChannelTo::Controller(meta) => self.punt(frame, in_port, meta, origin),
            ChannelTo::Local => self.give_program(frame, Punt::Local, origin),
            ChannelTo::Program(why) => self.give_program(frame, why, origin),
        }
    }
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin) {
        self.end(frame, End::Drop(why), origin);
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let Some(mut f) = self.spares.take() else {
            self.lost += 1;
            return None;
        };
        if f.clone_from_frame(of).is_err() {
            self.spares.give_back(f);
            return None;
        }
        Some(f)
    }
    fn lost_copy(&mut self, _why: DropReason) {
        self.spares.refuse();
        self.lost += 1;
    }
    fn ports(&self) -> &[PortId] {
        self.slot_all
    }
    fn floods(&self, port: PortId) -> bool {
        let no_flood = |p: &SlotPort| p.flags.any_of(PortFlags::NO_FLOOD);
        !self.ports.iter().any(|p| p.id == port && no_flood(p))
    }
    fn is_live(&self, port: PortId) -> bool {
        self.slot_live.contains(&port)
    }
    fn now(&self) -> Nanos {
        self.now
    }
}
