//! What several workers can't hold between them, and is refused where there are several.
//!
//! Room: as the rest of `control`. Replicas of one VDP have the same rules and count apart. What decides by state that
//! frames change, or promises a rate, would be there once for each worker: a meter would let its rate pass as many times as
//! there are workers, a program would know a part of its VDP's frames. A VDP that is pinned to one worker (`pins`) may have most of it.

use super::*;
use crate::action::Vid;
use crate::compile::{ActionResult, ChannelWhy, Op};
use crate::plane::DataPlane;

impl DataPlane {
    /// Data planes that have the same VDPs, this one among them.
    pub fn workers(&self) -> usize {
        self.config.workers
    }
    /// Refuses what takes one worker, be the VDP pinned or not.
    pub(super) fn takes_one_worker(
        &self,
        vid: Vid,
        what: &'static str,
        why: &'static str,
    ) -> Result<(), ControlError> {
        match self.config.workers {
            0 | 1 => Ok(()),
            workers => Err(ControlError::OneWorker { vid, what, why, mend: "", workers }),
        }
    }
    /// Refuses what one worker must do, where the VDP is not pinned to one.
    pub(super) fn takes_a_pin(
        &self,
        vid: Vid,
        what: &'static str,
        why: &'static str,
    ) -> Result<(), ControlError> {
        let mend = match vid.0 {
            0 => "",
            _ => "pin the VDP to one of them ('worker = K'), ",
        };
        match (self.config.workers, self.worker_of(vid)) {
            (0 | 1, _) | (_, Some(_)) => Ok(()),
            (workers, None) => Err(ControlError::OneWorker { vid, what, why, mend, workers }),
        }
    }
    /// Refuses what only the slow path does.
    pub(super) fn refuse_slow(&self, vid: Vid) -> Result<(), ControlError> {
        let why = "each would go there and come back when its own frames have drained";
        self.takes_one_worker(vid, "the slow path", why)
    }
    /// Refuses actions that only a learning switch does.
    pub(super) fn refuse_normal(&self, vid: Vid, r: &ActionResult) -> Result<(), ControlError> {
        let is_normal = |op: &Op| matches!(op, Op::Channel(ChannelWhy::Normal));
        if self.config.workers == 1 || !r.ops().any(is_normal) {
            return Ok(());
        }
        let why = "each would learn a part of the addresses: write rules for what it would do";
        self.takes_a_pin(vid, "NORMAL", why)
    }
    /// Refuses actions that must know what all workers did: NORMAL, and numbers that a tunnel has one row of.
    pub(super) fn refuse_apart(&self, vid: Vid, r: &ActionResult) -> Result<(), ControlError> {
        self.refuse_normal(vid, r)?;
        let numbers = |op: &Op| matches!(op, Op::Change(c) if c.sequence().is_some());
        if self.config.workers == 1 || !r.ops().any(numbers) {
            return Ok(());
        }
        let why = "each would count by itself, and receivers drop what comes twice";
        self.takes_a_pin(vid, "a GRE sequence", why)
    }
    /// Leaves frames in the ports, or takes them again: for a change that takes several steps at several workers. What comes
    /// meanwhile waits where the devices keep it.
    pub fn rest_ports(&mut self, rest: bool) {
        match &self.desk {
            Some(desk) => desk.rest_ports(rest),
            None => self.ports_rest = rest,
        }
    }
    /// Makes a change here and, where this is a desk, has every worker make the same: refused here, it is refused.
    pub(super) fn everywhere<T: Clone + PartialEq + Send + Sync + 'static>(
        &mut self,
        change: impl Fn(&mut Self) -> Result<T, ControlError> + Send + Sync + 'static,
    ) -> Result<T, ControlError> {
        let desk = self.desk.take();
        let done = change(self);
        self.desk = desk;
        if let (Ok(here), Some(desk)) = (&done, &self.desk) {
            desk.note(here.clone(), change);
        }
        done
    }
    /// Runs `f` as a change that every worker makes: what would happen once for each is refused meanwhile.
    pub(crate) fn as_one_of_many<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.one_of_many = self.config.workers > 1;
        let r = f(self);
        self.one_of_many = false;
        r
    }
    /// Refuses what would leave once for each worker.
    pub(super) fn is_sent_once(&self, vid: Vid) -> Result<(), ControlError> {
        let why = "it would leave once for each: ask one of them alone";
        match self.one_of_many {
            true => self.takes_one_worker(vid, "a packet-out in a change", why),
            false => Ok(()),
        }
    }
    /// Has devices give back what they were lent by other workers, and take what is their own.
    pub(crate) fn recall(&mut self) {
        for id in &self.polled {
            if let Some(Some(p)) = self.ports.get_mut(usize::from(id.0)) {
                p.tx.device.flush(&mut self.pool);
            }
        }
    }
}
