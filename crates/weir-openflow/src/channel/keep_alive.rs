//! When to ask a silent peer for a sign of life, and when to give it up.
//!
//! Room: one channel's; pure. What counts as a sign of life is `machine`'s to say.

use super::KeepAlive;
use core::time::Duration;

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// An echo request.
    Probe,
    /// The peer is dead.
    Dead,
}

/// The watch on one peer.
pub(super) struct Watch {
    interval: Duration,
    limit: u32,
    next: Duration,
    probes: u32,
}

impl Watch {
    /// Starts as if something had been heard just now.
    pub(super) fn new(config: KeepAlive, now: Duration) -> Self {
        // An interval of nothing would ask without end in one instant.
        let interval = config.interval.max(Duration::from_millis(1));
        Self { interval, limit: config.probes, next: now.saturating_add(interval), probes: 0 }
    }

    /// A sign of life.
    pub(super) fn heard(&mut self, now: Duration) {
        self.next = now.saturating_add(self.interval);
        self.probes = 0;
    }

    /// When something will be due, if nothing is heard.
    pub(super) fn deadline(&self) -> Duration {
        self.next
    }

    /// What is due now. Asked late, it still gives the peer a whole interval to answer each probe.
    pub(super) fn check(&mut self, now: Duration) -> Due {
        if now < self.next {
            Due::Nothing
        } else if self.probes >= self.limit {
            Due::Dead
        } else {
            self.probes += 1;
            self.next = now.saturating_add(self.interval);
            Due::Probe
        }
    }
}
