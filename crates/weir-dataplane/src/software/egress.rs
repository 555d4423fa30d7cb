//! The executor's way out for rules that live on the slow path.
//!
//! Room: lives as long as one frame is in a server's hands.

use crate::action::Vid;
use crate::execute::{ChannelTo, Egress};
use crate::program::{Done, End, Origin, Punt};
use std::collections::VecDeque;
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// The executor's way out of the slow path.
pub(super) struct SlowEgress<'a> {
    pub(super) vid: Vid,
    pub(super) now: Nanos,
    pub(super) slot_live: &'a [PortId],
    pub(super) slot_all: &'a [PortId],
    pub(super) done: &'a mut VecDeque<Done>,
    pub(super) spare: &'a mut Vec<Frame>,
    pub(super) refused: &'a mut u64,
    pub(super) back: Option<(Frame, Punt)>,
}

impl SlowEgress<'_> {
    fn end(&mut self, frame: Frame, end: End, origin: Origin) {
        self.done.push_back(Done { frame, vid: self.vid, end, origin });
    }
}

impl Egress for SlowEgress<'_> {
    fn output(&mut self, frame: Frame, port: PortId, queue: u32, origin: Origin) {
        self.end(frame, End::Forward(port, queue), origin);
    }
    fn channel(&mut self, frame: Frame, _in: PortId, to: ChannelTo, origin: Origin) {
        match (to, origin) {
            (ChannelTo::Controller(_) | ChannelTo::Local, _) => {
                self.end(frame, End::Consume, origin)
            }
            (ChannelTo::Program(why), Origin::Received) if self.back.is_none() => {
                self.back = Some((frame, why));
            }
            // A copy for the program: it has the original already, or will not see this frame.
            (ChannelTo::Program(_), _) => self.end(frame, End::Consume, origin),
        }
    }
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin) {
        self.end(frame, End::Drop(why), origin);
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let Some(mut f) = self.spare.pop() else {
            *self.refused += 1;
            return None;
        };
        if f.clone_from_frame(of).is_err() {
            self.spare.push(f);
            return None;
        }
        Some(f)
    }
    fn lost_copy(&mut self, _why: DropReason) {
        *self.refused += 1;
    }
    fn ports(&self) -> &[PortId] {
        self.slot_all
    }
    fn is_live(&self, port: PortId) -> bool {
        self.slot_live.contains(&port)
    }
    fn now(&self) -> Nanos {
        self.now
    }
}
