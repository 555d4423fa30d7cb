//! VDPs that one of several workers does: which worker, and which ports that one has whole.
//!
//! Room: as the rest of `control`. Whose a frame is, is known only after mapping, at the worker that got it. So a pinned VDP's
//! mapping rules name their ports, and where one of them leads nothing is dealt out: that worker gets all that comes by
//! the port, other VDPs' frames, too. The list here follows from mapping rules and is the same at each replica; a desk
//! sees to it that ports are kept whole before a rule holds, and until it has gone at every worker. Decision 54.

use super::*;
use crate::action::Vid;
use crate::crew::desk::WhyNot;
use crate::mapping::MappingRule;
use crate::plane::DataPlane;
use std::collections::BTreeMap;
use weir_classify::Field;
use weir_packet::PortId;

/// Ports that a worker has whole: which worker, and a VDP that it does for it.
pub(crate) type Pins = BTreeMap<PortId, (usize, Vid)>;

/// The one port whose frames a rule takes.
fn port_of(rule: &MappingRule) -> Option<PortId> {
    let (mask, value) = (rule.matcher.mask().get(Field::InPort), rule.matcher.value());
    let exact = mask == Field::InPort.full();
    exact.then(|| u16::try_from(value.get(Field::InPort)).ok().map(PortId)).flatten()
}

impl DataPlane {
    /// The worker that a VDP is pinned to; `None`: it is not, or there is one worker.
    pub fn worker_of(&self, vid: Vid) -> Option<usize> {
        let v = self.vdps.get(usize::from(vid.0))?.as_deref()?;
        v.worker().filter(|_| self.config.workers > 1)
    }
    /// The worker that gets all frames of a port, for a VDP that is pinned to it.
    pub fn keeps_whole(&self, port: PortId) -> Option<usize> {
        self.pins.get(&port).map(|(w, _)| *w)
    }

    /// A port's name for errors, or its number where it has gone.
    fn name_of(&self, port: PortId) -> String {
        let p = self.ports.get(usize::from(port.0)).and_then(Option::as_ref);
        p.map_or_else(|| port.to_string(), |p| p.name.clone())
    }

    /// Refuses a worker that is not there.
    pub(super) fn check_worker(&self, vid: Vid, worker: Option<usize>) -> Result<(), ControlError> {
        let Some(value) = worker else { return Ok(()) };
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        let workers = self.config.workers.max(1);
        if value < workers {
            return Ok(());
        }
        Err(ControlError::NoWorker { vid, worker: value, workers })
    }

    /// Which ports such rules of a VDP that is done by `worker` have it keep whole.
    pub(super) fn check_pins(
        &self,
        vid: Vid,
        worker: Option<usize>,
        rules: &[MappingRule],
    ) -> Result<Pins, ControlError> {
        let mut pins = Pins::new();
        let Some(worker) = worker.filter(|_| self.config.workers > 1) else { return Ok(pins) };
        for r in rules {
            let port = port_of(r).ok_or(ControlError::PinnedAnywhere { vid, worker })?;
            match self.pins.get(&port) {
                Some(&(there, other)) if there != worker => {
                    let port = self.name_of(port);
                    return Err(ControlError::PinnedApart { vid, worker, port, there, other });
                }
                _ => _ = pins.insert(port, (worker, vid)),
            }
        }
        Ok(pins)
    }

    /// Brings the list up to date after mapping rules of a pinned VDP have gone.
    pub(super) fn repin(&mut self) {
        if self.pins.is_empty() {
            return;
        }
        let rules = self.mapping.rules().into_iter();
        let pin = |(vid, r): (Vid, MappingRule)| Some((port_of(&r)?, (self.worker_of(vid)?, vid)));
        self.pins = rules.filter_map(pin).collect();
    }

    /// Where this is a desk: has workers keep ports whole, before anything else is done.
    pub(super) fn keep_whole(&mut self, pins: &Pins) -> Result<(), ControlError> {
        let Some(desk) = self.desk.take() else { return Ok(()) };
        let kept = desk.keep_whole(pins).map_err(|(port, worker, why)| {
            let port = self.name_of(port);
            match why {
                WhyNot::Busy => ControlError::NotWhole { port, worker },
                WhyNot::Queues => ControlError::HasQueues { port, worker },
            }
        });
        self.desk = Some(desk);
        if kept.is_err() {
            self.let_go();
        }
        kept
    }
    /// Where this is a desk: has ports dealt out again that nobody needs whole, when that is so at every worker.
    pub(super) fn let_go(&self) {
        if let Some(desk) = &self.desk {
            desk.let_go(&self.pins);
        }
    }
}
