//! The slow processor of a switch whose hardware can't carry out every action: a share of frames
//! lost, a rate, a queue, a delay that wanders (001's table 2, where a median of 302 µs stands beside
//! a deviation of 615 and a loss of 88 %).
//!
//! Room: times alone. Called by `forward` with each frame that comes here.

use super::profile::Cpu;
use super::random::{Random, Share, Wander};
use weir_packet::Nanos;

/// A server of so many a second, with so many places for those that wait.
#[derive(Debug)]
pub(super) struct Rated {
    /// Time that each takes; 0: none.
    each: Nanos,
    queue: u64,
    free_at: Nanos,
}

impl Rated {
    pub(super) fn new(per_second: u32, queue: usize) -> Self {
        let each = 1_000_000_000u64.checked_div(per_second.into()).unwrap_or(0);
        Self { each: Nanos(each), queue: queue as u64, free_at: Nanos(0) }
    }

    /// When what comes at `now` is served; `None`: there is no place for it.
    pub(super) fn serve(&mut self, now: Nanos) -> Option<Nanos> {
        let waiting = self.free_at.since(now).0.checked_div(self.each.0).unwrap_or(0);
        if waiting > self.queue {
            return None;
        }
        self.free_at = self.free_at.max(now) + self.each;
        Some(self.free_at)
    }
}

/// The processor.
#[derive(Debug)]
pub(super) struct Slow {
    loses: Share,
    rated: Rated,
    delay: Wander,
    random: Random,
    last: Nanos,
}

impl Slow {
    pub(super) fn new(cpu: &Cpu, mut random: Random) -> Self {
        Self {
            loses: Share::new(cpu.loss_percent.part()),
            rated: Rated::new(cpu.per_second, cpu.queue),
            delay: Wander::new(cpu.delay_us, cpu.sd_us, &mut random),
            random,
            last: Nanos(0),
        }
    }

    /// When a frame that comes at `now` leaves; `None`: never.
    pub(super) fn pass(&mut self, now: Nanos) -> Option<Nanos> {
        let delay = self.delay.at(now, &mut self.random);
        if self.loses.picks() {
            return None;
        }
        let served = self.rated.serve(now)?;
        // One processor: nothing overtakes.
        self.last = self.last.max(served.max(now + delay));
        Some(self.last)
    }
}
