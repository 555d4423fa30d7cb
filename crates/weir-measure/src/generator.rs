//! Sends probes at a stated rate through ports, and says what was really sent.
//!
//! Touches devices, their pools and a clock; runs on the thread that calls it, without allocation
//! per frame. [`generate`] is the whole loop; [`Generator::step`] is one turn of it, for whoever
//! also receives on the same thread.
//!
//! - Frames are sent in bursts: a burst goes out when its last frame is due, so a frame is up to
//!   `(burst − 1) / rate` later than its own time. Burst 1 is the most even, larger ones cost less.
//! - The frames of a burst carry one stamp, read just before they are written.
//! - Ports take turns by the burst, the streams of a port by the frame. So each port gets an equal
//!   part of the rate, and each stream of a port an equal part of that.
//! - A port that takes no more keeps its burst, which is stamped anew at each attempt. Meanwhile
//!   the schedule goes on; see [`crate::pace`] for what is forgone.

use crate::clock::Clock;
use crate::pace::Pacer;
use crate::port::{Before, Port, faults};
use crate::probe::{ProbeError, Run, Stamper, Stream, StreamSent};
use crate::{BadRate, Rate};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use weir_io::thread_cpu_time;
use weir_packet::{BURST, Burst, Nanos};

/// How long the frames that a device still holds at the end may take to leave it.
const LINGER: Nanos = Nanos::from_millis(200);

/// The longest single wait, so that a generator at a low rate still hears that it must stop.
const PATIENCE: Nanos = Nanos::from_millis(10);

/// Why nothing can be sent.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A stream's frames can't be made.
    #[error("stream {stream}: {source}")]
    Probe {
        /// Which stream.
        stream: u16,
        /// Why.
        source: ProbeError,
    },
    /// Nothing to send.
    #[error("no stream to send: give at least one")]
    NoStream,
    /// A stream that enters by a port that is not there.
    #[error("stream {stream} enters by port {port}, and there are {ports}")]
    NoPort {
        /// Which stream.
        stream: u16,
        /// Its port.
        port: u16,
        /// Ports given.
        ports: usize,
    },
    /// Frames too long for a device or for the chunks of its pool.
    #[error("stream {stream}: frames of {frame} bytes (without FCS), but '{device}' takes {most}")]
    TooLong {
        /// Which stream.
        stream: u16,
        /// Length of its frames in memory.
        frame: usize,
        /// The device.
        device: String,
        /// Its limit.
        most: usize,
    },
    /// The rate is none.
    #[error(transparent)]
    Rate(#[from] BadRate),
}

/// When a generator ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this time: `rate × time` frames, fewer when some were forgone.
    For(Duration),
    /// After so many frames; or after `at_most`, when the ports did not take them.
    After {
        /// Frames to send.
        frames: u64,
        /// The longest it may take.
        at_most: Duration,
    },
}

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Frames per second, all ports together.
    pub rate: Rate,
    /// When to end.
    pub end: End,
    /// Frames sent together, 1 to [`BURST`].
    pub burst: usize,
    /// Frames that may be made up for at once after a stall; at least a burst.
    pub backlog: u64,
}

impl Load {
    /// At `rate` for `time`, in bursts of about 20 µs (1 to 32 frames), with a backlog of two bursts.
    pub fn new(rate: Rate, time: Duration) -> Self {
        let burst = (rate.fps() * 20e-6).clamp(1.0, 32.0) as usize;
        Self { rate, end: End::For(time), burst, backlog: 2 * burst as u64 }
    }
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames taken by the devices, of each stream, in the order in which they were given.
    pub streams: Vec<StreamSent>,
    /// Their sum.
    pub frames: u64,
    /// From the first frame's time to the end; one interval beyond the last frame.
    pub elapsed: Duration,
    /// CPU time of the thread meanwhile. On an interface this includes what the kernel did for the
    /// frame inside the sending call.
    pub cpu: Duration,
    /// Frames that were due and given up, after stalls or because ports took no more. With
    /// [`End::After`] others were sent in their place, later.
    pub forgone: u64,
    /// How often a port took nothing of a burst.
    pub refused: u64,
    /// How often a pool had no frame for a burst.
    pub starved: u64,
    /// Frames that a device took and then failed to send. They are part of [`Self::frames`].
    pub failed: u64,
    /// What was wrong with devices at the end.
    pub faults: Vec<String>,
}

impl Sent {
    /// The rate that was really offered; `None` when nothing was sent.
    pub fn offered(&self) -> Option<Rate> {
        Rate::achieved(self.frames - self.failed.min(self.frames), self.elapsed)
    }
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many frames were taken.
    Sent(usize),
    /// Nothing is due before then.
    Idle(Nanos),
    /// Something is due and the port takes nothing.
    Blocked,
    /// All is sent, or the time is over.
    Done,
}

struct Source {
    stamper: Stamper,
    stream: u16,
    /// Numbers given to frames.
    numbered: u64,
    /// Frames taken.
    sent: u64,
}

/// One port's part.
struct Outlet {
    port: usize,
    sources: Vec<Source>,
    next: usize,
    /// Frames that wait to be taken, and for each its source and number.
    burst: Burst,
    waiting: Vec<(usize, u64)>,
    held_at_start: usize,
}

/// A generator in the middle of its work.
pub struct Generator {
    outlets: Vec<Outlet>,
    turn: usize,
    pacer: Pacer,
    burst: usize,
    rate: Rate,
    start: Nanos,
    deadline: Nanos,
    /// Frames to build; with those forgone when the end is a time.
    quota: u64,
    ends_by_time: bool,
    built: u64,
    last_at: Nanos,
    before: Before,
    cpu_before: Duration,
    sent: Sent,
}

impl Generator {
    /// Ready to send, the first frame due now.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn new(
        ports: &[Port],
        streams: &[Stream],
        run: Run,
        load: &Load,
        clock: &impl Clock,
    ) -> Result<Self, LoadError> {
        let outlets = outlets(ports, streams, run)?;
        let burst = load.burst.clamp(1, BURST);
        let (quota, time, ends_by_time) = match load.end {
            End::For(time) => (load.rate.frames_in(time), time, true),
            End::After { frames, at_most } => (frames, at_most, false),
        };
        let before = Before::of(ports);
        let cpu_before = thread_cpu_time();
        let start = clock.now();
        Ok(Self {
            outlets,
            turn: 0,
            pacer: Pacer::new(load.rate, load.backlog.max(burst as u64), start),
            burst,
            rate: load.rate,
            start,
            deadline: start + Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            quota,
            ends_by_time,
            built: 0,
            last_at: start,
            before,
            cpu_before,
            sent: Sent::default(),
        })
    }

    /// Frames taken so far.
    pub fn frames(&self) -> u64 {
        self.sent.frames
    }

    /// Frames still to be built.
    fn remaining(&self) -> u64 {
        let forgone = if self.ends_by_time { self.pacer.forgone() } else { 0 };
        self.quota.saturating_sub(self.built.saturating_add(forgone))
    }

    /// One turn: the next port's burst, if it is due.
    pub fn step(&mut self, ports: &mut [Port], clock: &impl Clock) -> Step {
        let now = clock.now();
        let count = self.outlets.len();
        let Some(turn) = self.turn.checked_rem(count) else { return Step::Done };
        self.turn = turn + 1;
        let due = self.pacer.due(now);
        let remaining = self.remaining();
        let waiting = self.outlets.iter().any(|o| !o.burst.is_empty());
        if now >= self.deadline || (remaining == 0 && !waiting) {
            return Step::Done;
        }
        let Some(outlet) = self.outlets.get_mut(turn) else { return Step::Done };
        let Some(port) = ports.get_mut(outlet.port) else { return Step::Done };
        if outlet.burst.is_empty() {
            let want = remaining.min(self.burst as u64);
            if want == 0 {
                // Others have frames that wait.
                return Step::Sent(0);
            }
            if due < want {
                self.turn = turn;
                // Later than now in any case, so that a clock that only waiting moves does move.
                let then = self.pacer.when(want).max(now + Nanos(1));
                let then = then.min(self.deadline).min(now + PATIENCE);
                return if waiting { self.offer_others(ports, clock) } else { Step::Idle(then) };
            }
            let built = outlet.build(port, want as usize, now);
            self.built += built;
            self.pacer.sent(built);
            if built == 0 {
                self.sent.starved += 1;
                port.device.flush(&mut port.pool);
                return Step::Blocked;
            }
        } else {
            outlet.stamp(now);
        }
        let taken = outlet.offer(port);
        self.note(taken, now);
        if taken == 0 { Step::Blocked } else { Step::Sent(taken) }
    }

    /// Nothing new is due: the frames that wait are offered again.
    fn offer_others(&mut self, ports: &mut [Port], clock: &impl Clock) -> Step {
        let now = clock.now();
        let mut taken = 0;
        for outlet in self.outlets.iter_mut().filter(|o| !o.burst.is_empty()) {
            if let Some(port) = ports.get_mut(outlet.port) {
                outlet.stamp(now);
                taken += outlet.offer(port);
            }
        }
        self.note(taken, now);
        if taken == 0 { Step::Blocked } else { Step::Sent(taken) }
    }

    fn note(&mut self, taken: usize, now: Nanos) {
        self.sent.frames += taken as u64;
        if taken == 0 {
            self.sent.refused += 1;
        } else {
            self.last_at = now;
        }
    }

    /// Ends: frames not taken are given back, those in the devices get a little time to leave.
    pub fn finish(mut self, ports: &mut [Port], clock: &impl Clock) -> Sent {
        let over = clock.now();
        let interval = Duration::from_secs_f64((1.0 / self.rate.fps()).min(3600.0));
        // Done before the time was over: to where the next frame would have been due.
        self.sent.elapsed =
            if self.remaining() == 0 && self.outlets.iter().all(|o| o.burst.is_empty()) {
                Duration::from_nanos(self.last_at.since(self.start).0) + interval
            } else {
                Duration::from_nanos(over.since(self.start).0)
            };
        let until = over + LINGER;
        for outlet in &mut self.outlets {
            let Some(port) = ports.get_mut(outlet.port) else { continue };
            for frame in outlet.burst.drain() {
                port.pool.free(frame);
            }
            port.device.flush(&mut port.pool);
            while port.device.held() > outlet.held_at_start && clock.now() < until {
                clock.pause();
                port.device.flush(&mut port.pool);
            }
        }
        self.sent.streams = self
            .outlets
            .iter()
            .flat_map(|o| &o.sources)
            .map(|s| StreamSent { stream: s.stream, frames: s.sent })
            .collect();
        self.sent.forgone = self.pacer.forgone();
        self.sent.failed = self.before.growth(ports, |c| c.tx_errors);
        self.sent.cpu = thread_cpu_time().saturating_sub(self.cpu_before);
        self.sent.faults = faults(ports);
        self.sent
    }
}

fn outlets(ports: &[Port], streams: &[Stream], run: Run) -> Result<Vec<Outlet>, LoadError> {
    let mut outlets: Vec<Outlet> = Vec::new();
    for s in streams {
        let stamper =
            Stamper::new(s, run).map_err(|source| LoadError::Probe { stream: s.id, source })?;
        let at = usize::from(s.entry);
        let Some(port) = ports.get(at) else {
            return Err(LoadError::NoPort { stream: s.id, port: s.entry, ports: ports.len() });
        };
        let most = port.device.caps().max_frame_bytes.min(port.pool.max_frame_bytes());
        if stamper.len() > most {
            let device = port.device.name().to_owned();
            return Err(LoadError::TooLong { stream: s.id, frame: stamper.len(), device, most });
        }
        let source = Source { stamper, stream: s.id, numbered: 0, sent: 0 };
        match outlets.iter_mut().find(|o| o.port == at) {
            Some(outlet) => outlet.sources.push(source),
            None => outlets.push(Outlet {
                port: at,
                sources: vec![source],
                next: 0,
                burst: Burst::new(),
                waiting: Vec::with_capacity(BURST),
                held_at_start: port.device.held(),
            }),
        }
    }
    if outlets.is_empty() { Err(LoadError::NoStream) } else { Ok(outlets) }
}

impl Outlet {
    /// Makes up to `want` frames; says how many.
    fn build(&mut self, port: &mut Port, want: usize, now: Nanos) -> u64 {
        for _ in 0..want {
            let Some(mut frame) = port.pool.alloc() else { break };
            let at = self.next;
            let Some(source) = self.sources.get_mut(at) else { break };
            let len = source.stamper.len();
            // Both were made sure of in `outlets`; a frame that does not fit is given back.
            let fits = frame.set_len(len).is_ok()
                && source.stamper.write(source.numbered, now, frame.bytes_mut()).is_some();
            if !fits {
                port.pool.free(frame);
                break;
            }
            if let Err(frame) = self.burst.push(frame) {
                port.pool.free(frame);
                break;
            }
            self.waiting.push((at, source.numbered));
            source.numbered += 1;
            self.next = if at + 1 == self.sources.len() { 0 } else { at + 1 };
        }
        self.burst.len() as u64
    }

    /// Stamps the frames that wait anew.
    fn stamp(&mut self, now: Nanos) {
        for (frame, (at, number)) in self.burst.as_mut_slice().iter_mut().zip(&self.waiting) {
            if let Some(source) = self.sources.get(*at) {
                source.stamper.write(*number, now, frame.bytes_mut());
            }
        }
    }

    /// Offers the frames that wait to the device; says how many it took.
    fn offer(&mut self, port: &mut Port) -> usize {
        let taken = port.device.tx(&mut port.pool, &mut self.burst).min(self.waiting.len());
        port.device.flush(&mut port.pool);
        for (at, _) in self.waiting.drain(..taken) {
            if let Some(source) = self.sources.get_mut(at) {
                source.sent += 1;
            }
        }
        taken
    }
}

/// Sends `load` through `ports` until it ends or `stop` is set; runs on the calling thread.
///
/// # Errors
/// [`LoadError`]; nothing was sent then.
pub fn generate(
    ports: &mut [Port],
    streams: &[Stream],
    run: Run,
    load: &Load,
    clock: &impl Clock,
    stop: &AtomicBool,
) -> Result<Sent, LoadError> {
    let mut generator = Generator::new(ports, streams, run, load, clock)?;
    while !stop.load(Ordering::Relaxed) {
        match generator.step(ports, clock) {
            Step::Sent(_) => {}
            Step::Idle(then) => clock.wait_until(then),
            Step::Blocked => clock.pause(),
            Step::Done => break,
        }
    }
    Ok(generator.finish(ports, clock))
}

#[cfg(test)]
mod tests;
