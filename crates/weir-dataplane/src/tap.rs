//! Taps: copies of frames for `weir capture`, at a port, a VDP or a stage, filtered.
//!
//! Room: the worker looks at taps only while there are any. A tap's queue is bounded; what does not
//! fit is counted as missed, and the frames themselves are never held up.

use crate::action::Vid;
use crate::packet::extract;
use crate::timing::Stage;
use std::sync::mpsc::{SyncSender, TrySendError};
use weir_classify::{FlowKey, Match};
use weir_packet::{Frame, Nanos, PortId};

/// Stands for "not yet mapped".
pub(crate) const NO_VDP: Vid = Vid(u16::MAX);

/// Where a tap listens. Everything that is given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapPoint {
    /// Frames that enter or leave by this port.
    pub port: Option<PortId>,
    /// Frames of this VDP.
    pub vid: Option<Vid>,
    /// Frames at the end of this stage, those that were dropped there left out; without it, at reception and at
    /// forwarding (with a VDP: at mapping and at forwarding).
    pub stage: Option<Stage>,
}

/// A copy of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its bytes.
    pub bytes: Box<[u8]>,
    /// The round's time, on the worker's clock.
    pub at: Nanos,
    /// When the port received it, on the port's clock (Unix for capture files), where it took a
    /// stamp.
    pub stamp: Option<Nanos>,
    /// The port it came by or leaves by.
    pub port: PortId,
    /// Its VDP, if it has one yet.
    pub vid: Option<Vid>,
    /// Where on its way.
    pub stage: Stage,
}

/// Identifies a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapId(u64);

#[derive(Debug)]
struct Tap {
    id: TapId,
    point: TapPoint,
    filter: Match,
    to: SyncSender<Captured>,
    missed: u64,
    closed: bool,
}

/// Where a frame is seen.
pub(crate) struct Seen {
    pub stage: Stage,
    pub port: PortId,
    /// The port it came by, where that is known: not of what comes back from the software stage, or was put in.
    pub came_by: Option<PortId>,
    pub vid: Vid,
}

impl Seen {
    /// A frame on its way in: the port that it came by is where it is seen.
    pub fn came(stage: Stage, port: PortId, vid: Vid) -> Self {
        Self { stage, port, came_by: Some(port), vid }
    }
}

/// All taps of a data plane.
#[derive(Debug, Default)]
pub struct Taps {
    taps: Vec<Tap>,
    next: u64,
}

impl Taps {
    /// Whether there is any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        !self.taps.is_empty()
    }
    /// A new tap; several may have one queue.
    pub(crate) fn add_to(
        &mut self,
        point: TapPoint,
        filter: Match,
        to: SyncSender<Captured>,
    ) -> TapId {
        let id = TapId(self.next);
        self.next += 1;
        self.taps.push(Tap { id, point, filter, to, missed: 0, closed: false });
        id
    }
    /// Removes a tap; says how many frames did not fit its queue.
    pub fn remove(&mut self, id: TapId) -> Option<u64> {
        let i = self.taps.iter().position(|t| t.id == id)?;
        Some(self.taps.remove(i).missed)
    }
    pub(crate) fn see(&mut self, s: &Seen, frame: &Frame, now: Nanos) {
        let mut key: Option<FlowKey> = None;
        for t in &mut self.taps {
            let p = &t.point;
            let here = match (p.stage, p.vid) {
                (Some(st), _) => st == s.stage,
                (None, Some(_)) => matches!(s.stage, Stage::Mapping | Stage::Forwarding),
                (None, None) => matches!(s.stage, Stage::Receive | Stage::Forwarding),
            };
            if !here || p.port.is_some_and(|p| p != s.port) || p.vid.is_some_and(|v| v != s.vid) {
                continue;
            }
            let key = key.get_or_insert_with(|| {
                let mut k = FlowKey::default();
                // A runt has an empty key: only a filter that asks for nothing takes it.
                let _ = extract(frame.bytes(), s.came_by.map_or(0, |p| p.0.into()), &mut k);
                k
            });
            if !t.filter.matches(key) {
                continue;
            }
            let c = Captured {
                bytes: frame.bytes().into(),
                at: now,
                stamp: frame.stamp(),
                port: s.port,
                vid: (s.vid != NO_VDP).then_some(s.vid),
                stage: s.stage,
            };
            match t.to.try_send(c) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => t.missed += 1,
                Err(TrySendError::Disconnected(_)) => t.closed = true,
            }
        }
        self.taps.retain(|t| !t.closed);
    }
}
