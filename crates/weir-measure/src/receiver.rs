//! Takes everything that ports receive, judges it, and measures delays.
//!
//! Touches devices, their pools and a clock; runs on the thread that calls it, without allocation
//! per frame. [`receive`] is the whole loop; [`Receiver::step`] is one turn of it, for whoever also
//! sends on the same thread.
//!
//! A delay ends with the device's own stamp or, without one, when the burst that the frame came in
//! was taken from the port: see [`Arrived`]. The end of a trial is described at [`Drain`].

use crate::clock::Clock;
use crate::latency::Latency;
use crate::port::{Before, Port, faults};
use crate::probe::{Checker, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_io::thread_cpu_time;
use weir_packet::{Burst, Nanos};

/// Which moment counts as a frame's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrived {
    /// When its burst was taken from the port, by the clock of the receiver.
    #[default]
    Taken,
    /// The device's stamp; frames without one have no delay. The clock of the generator must be the
    /// one that stamps: [`crate::clock::Unix`] for the kernel's.
    Stamped,
}

/// How long to go on once all is sent (RFC 2544 §23 waits two seconds for residual frames).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Ends when all frames have arrived and then nothing came for so long: time for further copies.
    pub settle: Duration,
    /// Ends when nothing came for so long, though frames are missing.
    pub quiet: Duration,
    /// Ends in any case after so long: foreign frames may never cease.
    pub at_most: Duration,
}

impl Default for Drain {
    /// 20 ms when all is there, two seconds otherwise, at most ten.
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(20),
            quiet: Duration::from_secs(2),
            at_most: Duration::from_secs(10),
        }
    }
}

/// By which the sender tells the receiver that all is sent, and how much.
#[derive(Debug)]
pub struct AllSent(AtomicU64);

impl Default for AllSent {
    fn default() -> Self {
        Self::new()
    }
}

impl AllSent {
    const NOT_YET: u64 = u64::MAX;

    /// Not yet.
    pub const fn new() -> Self {
        Self(AtomicU64::new(Self::NOT_YET))
    }
    /// All is sent: so many frames left.
    pub fn announce(&self, frames: u64) {
        self.0.store(frames.min(Self::NOT_YET - 1), Ordering::Release);
    }
    /// How many were sent, once all are.
    pub fn frames(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|n| *n != Self::NOT_YET)
    }
}

/// What was received, beside what the checker knows.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Delays of whole probes, first copies only.
    pub latency: Latency,
    /// Probes whose stamp lay in the future: the two clocks disagree.
    pub from_the_future: u64,
    /// Whole probes of this trial that arrived in order or reordered.
    pub frames: u64,
    /// Frames of any kind, by port.
    pub by_port: Vec<u64>,
    /// From the first probe to the last.
    pub span: Duration,
    /// CPU time of the thread meanwhile.
    pub cpu: Duration,
    /// Frames that the ports themselves lost: the instrument's own loss, which looks like the
    /// device's.
    pub missed: u64,
    /// What was wrong with devices at the end.
    pub faults: Vec<String>,
}

/// A receiver in the middle of its work.
pub struct Receiver {
    checker: Checker,
    arrived: Arrived,
    drain: Drain,
    burst: Burst,
    first_at: Option<Nanos>,
    last_at: Nanos,
    /// When something came last, and when it was learnt that all is sent.
    busy_at: Nanos,
    all_sent_at: Option<Nanos>,
    before: Before,
    cpu_before: Duration,
    received: Received,
}

impl Receiver {
    /// Ready to receive what `checker` knows.
    pub fn new(
        ports: &[Port],
        checker: Checker,
        arrived: Arrived,
        drain: Drain,
        clock: &impl Clock,
    ) -> Self {
        let now = clock.now();
        Self {
            checker,
            arrived,
            drain,
            burst: Burst::new(),
            first_at: None,
            last_at: now,
            busy_at: now,
            all_sent_at: None,
            before: Before::of(ports),
            cpu_before: thread_cpu_time(),
            received: Received { by_port: vec![0; ports.len()], ..Received::default() },
        }
    }

    /// One burst from each port; says how many frames came.
    pub fn step(&mut self, ports: &mut [Port], clock: &impl Clock) -> usize {
        let mut came = 0;
        for (i, port) in ports.iter_mut().enumerate() {
            let n = port.device.rx(&mut port.pool, &mut self.burst);
            port.device.flush(&mut port.pool);
            if n == 0 {
                continue;
            }
            came += n;
            let now = clock.now();
            self.busy_at = now;
            if let Some(count) = self.received.by_port.get_mut(i) {
                *count += n as u64;
            }
            let number = u16::try_from(i).unwrap_or(u16::MAX);
            for frame in self.burst.drain() {
                let at = match self.arrived {
                    Arrived::Taken => Some(now),
                    Arrived::Stamped => frame.stamp(),
                };
                let arrival = self.checker.check(frame.bytes(), number, at.unwrap_or(now));
                port.pool.free(frame);
                if !matches!(arrival.outcome, Outcome::InOrder | Outcome::Reordered) {
                    continue;
                }
                self.received.frames += 1;
                self.first_at.get_or_insert(now);
                self.last_at = now;
                match (at, arrival.delay_ns) {
                    (Some(_), Some(delay)) => self.received.latency.record(delay),
                    (Some(_), None) => self.received.from_the_future += 1,
                    (None, _) => {}
                }
            }
        }
        came
    }

    /// Whether nothing more is to be waited for; see [`Drain`].
    pub fn is_done(&mut self, all_sent: &AllSent, clock: &impl Clock) -> bool {
        let Some(sent) = all_sent.frames() else { return false };
        let now = clock.now();
        let since = *self.all_sent_at.get_or_insert(now);
        let quiet = now.since(self.busy_at.max(since));
        let wait = if self.received.frames >= sent { self.drain.settle } else { self.drain.quiet };
        let over = |time: Nanos, limit: Duration| u128::from(time.0) >= limit.as_nanos();
        over(quiet, wait) || over(now.since(since), self.drain.at_most)
    }

    /// Ends; gives the checker back for its tally.
    pub fn finish(mut self, ports: &[Port]) -> (Checker, Received) {
        let first = self.first_at.unwrap_or(self.last_at);
        self.received.span = Duration::from_nanos(self.last_at.since(first).0);
        self.received.missed = self.before.growth(ports, |c| c.rx_missed + c.rx_errors);
        self.received.cpu = thread_cpu_time().saturating_sub(self.cpu_before);
        self.received.faults = faults(ports);
        (self.checker, self.received)
    }
}

/// Receives from `ports` until all is sent and has had its time to arrive; runs on the calling
/// thread.
pub fn receive(
    ports: &mut [Port],
    checker: Checker,
    arrived: Arrived,
    drain: Drain,
    clock: &impl Clock,
    all_sent: &AllSent,
) -> (Checker, Received) {
    let mut receiver = Receiver::new(ports, checker, arrived, drain, clock);
    while !receiver.is_done(all_sent, clock) {
        if receiver.step(ports, clock) == 0 {
            clock.pause();
        }
    }
    receiver.finish(ports)
}

#[cfg(test)]
mod tests;
