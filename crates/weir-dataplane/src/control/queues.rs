//! Queues of a VDP at its ports (OpenFlow 1.0 §5.3.4, 1.3 §7.2.2): set, removed, read.
//!
//! Room: control. The queues themselves live in the forwarding stage, inside the VDP's share of a
//! port: whatever is set here, other VDPs do not notice.

use super::*;
use crate::action::{PortNo, Vid};
use crate::counters::Tally;
use crate::forwarding::{MAX_QUEUES, QueueRate, QueueStats};
use crate::plane::DataPlane;
use crate::shortcut::Ways;
use weir_packet::{Nanos, PortId};

/// The largest queue number; the one above stands for all queues (OFPQ_ALL).
const LAST_QUEUE: u32 = u32::MAX - 1;

/// A queue as it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// The VDP's number of the port.
    pub port: PortNo,
    /// Its number at that port.
    pub queue: u32,
    /// Its rates.
    pub rate: QueueRate,
}

/// What happened in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounters {
    /// The VDP's number of the port.
    pub port: PortNo,
    /// Its number at that port.
    pub queue: u32,
    /// What left by it.
    pub sent: Tally,
    /// Frames that it had no room for, or that ended while they waited.
    pub dropped: u64,
    /// Frames for queues that did not exist, which queue 0 took; counted there only.
    pub strays: u64,
    /// When it was made.
    pub since: Nanos,
}

impl DataPlane {
    /// Sets the rates of a VDP's queue at one of its ports, and makes it where it is new. What
    /// waits in it and what was counted stays. Queue 0 exists always.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_queue(
        &mut self,
        vid: Vid,
        port: PortNo,
        queue: u32,
        rate: QueueRate,
    ) -> Result<(), ControlError> {
        let id = self.queue_port(vid, port)?;
        let refuse = |why| Err(ControlError::Queue { vid, port, queue, why });
        if queue > LAST_QUEUE {
            return refuse("this number stands for all queues: 0 to 4294967294 can be used");
        }
        if rate.max_bps.is_some_and(|m| m < rate.min_bps || m == 0) {
            return refuse("the greatest rate lies below the least, or is 0: raise it");
        }
        let why = "each has queues of its own at a port, which would give it the whole rate";
        self.takes_a_pin(vid, "a queue", why)?;
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_queue(vid, port, queue, rate));
        }
        let now = self.now;
        self.shorten_not(Ways::All);
        match self.with_tx(id, |tx, _, _| tx.set_queue(vid, queue, rate, now)) {
            Some(Some(())) => Ok(()),
            Some(None) => {
                const { assert!(MAX_QUEUES == 255) };
                refuse("a VDP may have 255 queues beside queue 0 at a port: remove one first")
            }
            None => Err(ControlError::NoPort(id)),
        }
    }
    /// Removes a VDP's queue. What waits in it waits on in queue 0, which takes its frames from now.
    ///
    /// # Errors
    /// [`ControlError`]; queue 0 can't be removed.
    pub fn remove_queue(&mut self, vid: Vid, port: PortNo, queue: u32) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.remove_queue(vid, port, queue));
        }
        let id = self.queue_port(vid, port)?;
        let refuse = |why| Err(ControlError::Queue { vid, port, queue, why });
        if queue == 0 {
            return refuse("queue 0 stays: it takes what is for no other queue");
        }
        self.shorten_not(Ways::All);
        match self.with_tx(id, |tx, _, _| tx.remove_queue(vid, queue)) {
            Some(Some(())) => Ok(()),
            Some(None) => refuse("there is no such queue"),
            None => Err(ControlError::NoPort(id)),
        }
    }
    /// A VDP's queues, by port and number, queue 0 included.
    ///
    /// # Errors
    /// No such VDP.
    pub fn queues(&self, vid: Vid) -> Result<Vec<QueueView>, ControlError> {
        self.each_queue(vid, |port, s| QueueView { port, queue: s.queue, rate: s.rate })
    }
    /// What happened in a VDP's queues, by port and number, queue 0 included.
    ///
    /// # Errors
    /// No such VDP.
    pub fn queue_counters(&self, vid: Vid) -> Result<Vec<QueueCounters>, ControlError> {
        if let Some(desk) = &self.desk {
            self.vdp(vid)?;
            return Ok(desk.queue_counters(vid));
        }
        self.each_queue(vid, |port, s| QueueCounters {
            port,
            queue: s.queue,
            sent: s.sent,
            dropped: s.dropped,
            strays: s.strays,
            since: s.since,
        })
    }
    fn each_queue<T>(
        &self,
        vid: Vid,
        f: impl Fn(PortNo, QueueStats) -> T,
    ) -> Result<Vec<T>, ControlError> {
        let mut all = Vec::new();
        let v = self.vdp(vid)?;
        for (no, id) in &v.ports {
            let sent = v.edge.counters(*id).tx;
            let port = self.ports.get(usize::from(id.0)).and_then(Option::as_deref);
            all.extend(port.into_iter().flat_map(|p| p.tx.queues(vid, sent)).map(|s| f(*no, s)));
        }
        Ok(all)
    }
    fn queue_port(&self, vid: Vid, port: PortNo) -> Result<PortId, ControlError> {
        let v = self.vdp(vid)?;
        let of = |(no, id): &(PortNo, PortId)| (*no == port).then_some(*id);
        v.ports.iter().find_map(of).ok_or(ControlError::NoVdpPort { vid, port })
    }
}
