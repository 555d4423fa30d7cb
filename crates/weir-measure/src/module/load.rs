//! Probes to send: which headers, how fast, how many; and the source that makes them.
//!
//! Sans-I/O: a [`Source`] says when a frame is due and writes it; whoever owns a port sends it. Used
//! by the generator's thread and by the simulation alike.

use crate::pace::Pacer;
use crate::probe::{Headers, ProbeError, Run, Stamper, Stream};
use crate::schedule::{Random, Schedule, Times, Uneven};
use crate::{BadRate, Rate};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use weir_packet::Nanos;

/// Tells the frames of one load from those of another; numbers return after 256 loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadId(pub u8);

impl LoadId {
    /// Of probes that leave by the switch: [`Packets`], which packet-outs carry. No load has it.
    pub const OF_SWITCH: LoadId = LoadId(0);
}

/// Frames to send by one data channel. Flows take turns by the frame, sizes too.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The data channel.
    pub channel: usize,
    /// The flows' headers; at least one, at most 65536.
    pub flows: Vec<Headers>,
    /// Size of each frame in bytes, FCS included: 64 to 1518.
    pub frame_bytes_on_wire: usize,
    /// Sizes that frames have one after the other, over and over; empty: all have that size.
    pub sizes: Vec<usize>,
    /// Frames a second, all flows together; the mean where they are not even.
    pub fps: f64,
    /// When they leave.
    pub shape: Shape,
    /// Ends after so many frames; `None`: when it is stopped.
    pub frames: Option<u64>,
    /// The time that `frames` are for, where a module asks for a time: frames of a recording go at its own pace,
    /// and end with this time whatever their number.
    pub lasts: Option<Duration>,
    /// Frames that leave together: 1 is the most even.
    pub burst: u64,
    /// Frames that may be made up for at once after a stall; at least two bursts.
    pub backlog: u64,
    /// What may be owed beyond that after a stall, as time, and is made up for a quarter faster than the rate
    /// ([`crate::pace::CATCH_UP`]); the rest is given up. Where frames leave at an even rate.
    pub owed: Duration,
    /// One frame in so many is told of, with its moments; the others are counted
    /// ([`super::Module::counted`]), which takes far less. 1: each is told of, and none counted.
    pub one_in: u64,
}

/// When frames leave.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    /// One after the other at an even rate.
    #[default]
    Even,
    /// With exponential gaps, from this seed.
    Poisson(u64),
    /// As they were recorded.
    Recorded(Arc<Recording>),
}

/// Frames of a capture and their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Nanoseconds from the first, not falling.
    pub times: Arc<[u64]>,
    /// The frames without FCS, one for each time, where they are to be sent as they were; empty: probes go at
    /// these times.
    pub frames: Vec<Vec<u8>>,
}

/// What of a module's loads is not its question, so that a user may choose it: each more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// When frames leave.
    #[default]
    Times,
    /// Their sizes, too.
    Sizes,
    /// Their headers, too.
    Headers,
    /// All of them: frames need not be probes.
    All,
}

impl Leaves {
    /// The parts, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Times => "times",
            Self::Sizes => "times, sizes",
            Self::Headers => "times, sizes, vary",
            Self::All => "times, sizes, vary, content",
        }
    }
}

impl Load {
    /// One flow at an even rate in frames a second, until it is stopped.
    pub fn new(channel: usize, flow: Headers, frame_bytes_on_wire: usize, fps: f64) -> Self {
        Self {
            channel,
            flows: vec![flow],
            frame_bytes_on_wire,
            sizes: Vec::new(),
            fps,
            shape: Shape::Even,
            frames: None,
            lasts: None,
            burst: 1,
            backlog: BACKLOG,
            owed: OWED,
            one_in: 1,
        }
    }

    /// Several flows in its place.
    #[must_use]
    pub fn over(mut self, flows: Vec<Headers>) -> Self {
        self.flows = flows;
        self
    }

    /// Only so many frames.
    #[must_use]
    pub fn only(mut self, frames: u64) -> Self {
        self.frames = Some(frames);
        self
    }

    /// For so long: the frames that the rate makes of it, or what a recording has in that time.
    #[must_use]
    pub fn lasting(mut self, seconds: f64) -> Self {
        self.lasts = Duration::try_from_secs_f64(seconds).ok();
        let frames = (self.fps * seconds).ceil().max(1.0) as u64;
        self.only(frames)
    }

    /// Of which one in so many is told of, at least one; the others are counted.
    #[must_use]
    pub fn telling_one_in(mut self, frames: u64) -> Self {
        self.one_in = frames.max(1);
        self
    }

    /// Frames a second of `mbps` Mb/s, counted as 001 §4 does: the frame's own bits, without preamble
    /// and gap (100 bytes at 10 Mb/s are one in 80 µs).
    pub fn fps_of(mbps: f64, frame_bytes_on_wire: usize) -> f64 {
        mbps * 1e6 / (frame_bytes_on_wire as f64 * 8.0)
    }
}

/// Probes for packet-outs: whole frames, recognised when they are captured as of [`LoadId::OF_SWITCH`].
#[derive(Clone, Debug)]
pub struct Packets {
    stamper: Stamper,
}

impl Packets {
    /// Frames of this look and size (FCS included), told apart from others by `flow`. `None`: frames of
    /// this size can't be.
    pub fn new(headers: Headers, frame_bytes_on_wire: usize, flow: u16) -> Option<Self> {
        Self::of(LoadId::OF_SWITCH, headers, frame_bytes_on_wire, flow)
    }

    /// Frames as the probes of a load are; to compare with what came.
    pub fn of(
        load: LoadId,
        headers: Headers,
        frame_bytes_on_wire: usize,
        flow: u16,
    ) -> Option<Self> {
        let stream = Stream { id: flow, headers, frame_bytes_on_wire, entry: 0, exit: None };
        Some(Self { stamper: Stamper::new(&stream, Run(load.0)).ok()? })
    }

    /// The frame of that number, stamped `now`, without FCS.
    pub fn frame(&mut self, number: u32, now: Nanos) -> Vec<u8> {
        let mut frame = vec![0; self.stamper.len()];
        // As long as it must be.
        let _ = self.stamper.write(number.into(), now, &mut frame);
        frame
    }
}

/// Why a load can't be made.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its frames can't be.
    #[error("flow {flow} of a load: {source}")]
    Probe {
        /// Which.
        flow: usize,
        /// Why.
        source: ProbeError,
    },
    /// No flow, or more than 65536.
    #[error("a load of {0} flows: 1 to 65536 can be sent")]
    Flows(usize),
    /// More frames to keep ready than there is memory for.
    #[error("a load of {flows} flows in {sizes} sizes: together at most 65536 can be sent")]
    Kinds {
        /// Its flows.
        flows: usize,
        /// Its sizes.
        sizes: usize,
    },
    /// A recording without frames.
    #[error("a recording without frames can't be played")]
    Empty,
    /// Its rate is none.
    #[error(transparent)]
    Rate(#[from] BadRate),
    /// No such data channel.
    #[error("a load for data channel {0}, which is not there: give a port more")]
    Channel(usize),
}

/// The frames of a load, one after the other.
#[derive(Debug)]
pub struct Source {
    load: LoadId,
    /// Of each flow in each size.
    stampers: Vec<Stamper>,
    flows: u64,
    /// Places of `sizes` of the load among a flow's stampers; one after the other.
    sequence: Vec<usize>,
    sizes: usize,
    recording: Option<Arc<Recording>>,
    shape: Shape,
    schedule: Schedule,
    burst: u64,
    /// Frames of a burst that has begun.
    open: u64,
    built: u64,
    frames: Option<u64>,
    /// Frames that are due from here on are not sent.
    until: Option<Nanos>,
    backlog: u64,
    owed: Duration,
    one_in: u64,
}

/// A stall is made up for by at most this many frames at once, unless a load says otherwise.
const BACKLOG: u64 = 8;
/// Stalls up to so long are made up for: turns of other threads on the generator's core, and a virtual machine that
/// stands still (27 ms were seen).
const OWED: Duration = Duration::from_millis(50);
/// The most frames of different looks.
const KINDS: usize = 1 << 16;

fn schedule(
    shape: &Shape,
    fps: f64,
    (backlog, owed): (u64, Duration),
    now: Nanos,
) -> Result<Schedule, LoadError> {
    let rate = Rate::new(fps)?;
    Ok(match shape {
        Shape::Even => Schedule::Even(Pacer::new(rate, backlog, now).owing(rate.frames_in(owed))),
        Shape::Poisson(seed) => {
            let times = Times::Poisson(Random::new(*seed));
            Schedule::Uneven(Uneven::new(times, rate, backlog, now))
        }
        Shape::Recorded(r) if r.times.is_empty() => return Err(LoadError::Empty),
        Shape::Recorded(r) => {
            let times = Times::Recorded(Arc::clone(&r.times));
            Schedule::Uneven(Uneven::new(times, rate, backlog, now))
        }
    })
}

impl Source {
    /// The first frame is due at `now`.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn new(id: LoadId, load: &Load, now: Nanos) -> Result<Self, LoadError> {
        if load.flows.is_empty() || load.flows.len() > KINDS {
            return Err(LoadError::Flows(load.flows.len()));
        }
        let mut sizes = load.sizes.clone();
        if sizes.is_empty() {
            sizes.push(load.frame_bytes_on_wire);
        }
        sizes.sort_unstable();
        sizes.dedup();
        if load.flows.len().saturating_mul(sizes.len()) > KINDS {
            return Err(LoadError::Kinds { flows: load.flows.len(), sizes: sizes.len() });
        }
        let mut stampers = Vec::with_capacity(load.flows.len() * sizes.len());
        for (n, headers) in load.flows.iter().enumerate() {
            for &frame_bytes_on_wire in &sizes {
                let id16 = n as u16;
                let headers = *headers;
                let stream =
                    Stream { id: id16, headers, frame_bytes_on_wire, entry: 0, exit: None };
                let made = Stamper::new(&stream, Run(id.0));
                stampers.push(made.map_err(|source| LoadError::Probe { flow: n, source })?);
            }
        }
        let place = |s: &usize| sizes.binary_search(s).unwrap_or(0);
        let sequence = match load.sizes.as_slice() {
            [] => vec![0],
            all => all.iter().map(place).collect(),
        };
        let burst = load.burst.max(1);
        let backlog = load.backlog.max(2 * burst);
        let recording = match &load.shape {
            Shape::Recorded(r) if !r.frames.is_empty() => Some(Arc::clone(r)),
            _ => None,
        };
        let until = match (&load.shape, load.lasts) {
            (Shape::Recorded(_), Some(lasts)) => {
                let ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX).max(1);
                Some(Nanos(now.0.saturating_add(ns)))
            }
            _ => None,
        };
        Ok(Self {
            load: id,
            stampers,
            flows: load.flows.len() as u64,
            sequence,
            sizes: sizes.len(),
            recording,
            shape: load.shape.clone(),
            schedule: schedule(&load.shape, load.fps, (backlog, load.owed), now)?,
            burst,
            open: 0,
            built: 0,
            frames: load.frames.filter(|_| until.is_none()),
            until,
            backlog,
            owed: load.owed,
            one_in: load.one_in.max(1),
        })
    }

    /// Which load it is of.
    pub fn load(&self) -> LoadId {
        self.load
    }

    /// Frames made.
    pub fn built(&self) -> u64 {
        self.built
    }

    /// Frames that were due and given up.
    pub fn forgone(&self) -> u64 {
        self.schedule.forgone()
    }

    /// Whether all frames are made.
    pub fn is_done(&self) -> bool {
        self.left() == 0
    }

    /// One frame in so many is told of: that of number 0, and so on.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Another rate from now on; a recording goes faster or slower.
    ///
    /// # Errors
    /// It is none.
    pub fn set_fps(&mut self, fps: f64, now: Nanos) -> Result<(), BadRate> {
        Rate::new(fps)?;
        if let Ok(s) = schedule(&self.shape, fps, (self.backlog, self.owed), now) {
            self.schedule = s;
            self.open = 0;
        }
        Ok(())
    }

    fn left(&self) -> u64 {
        if self.until.is_some_and(|end| self.open == 0 && self.schedule.when(1) >= end) {
            return 0;
        }
        self.frames.map_or(u64::MAX, |n| n.saturating_sub(self.built))
    }

    /// Frames that are to be sent now: none before a whole burst is due, then all of it.
    pub fn due(&mut self, now: Nanos) -> u64 {
        let left = self.left();
        let now = self.until.map_or(now, |end| now.min(Nanos(end.0.saturating_sub(1))));
        // Where the rest leaves at once, nothing more falls due.
        if self.open < left {
            let due = self.schedule.due(now).min(left);
            let more = due.saturating_sub(self.open);
            self.open += if due == left { more } else { more - more % self.burst };
        }
        self.open.min(left)
    }

    /// When frames are due next; `None` when all are made.
    pub fn when(&self) -> Option<Nanos> {
        let n = self.burst.min(self.left());
        match (n, self.open) {
            (0, _) => None,
            (_, 0) => Some(self.schedule.when(n)),
            _ => Some(Nanos(0)),
        }
    }

    /// Writes the next frame, stamped `now`, to `out`, which is made as long as the frame.
    pub fn next(&mut self, now: Nanos, out: &mut Vec<u8>) {
        if let Some(r) = &self.recording {
            let n = (self.built % r.frames.len() as u64) as usize;
            out.clear();
            out.extend_from_slice(r.frames.get(n).map_or(&[], Vec::as_slice));
        } else {
            let flow = self.built % self.flows;
            // Not in step with the flows, so that each of them has every size.
            let turn = (self.built + self.built / self.flows) % self.sequence.len() as u64;
            let size = self.sequence.get(turn as usize).copied().unwrap_or(0);
            let Some(stamper) = self.stampers.get(flow as usize * self.sizes + size) else {
                return;
            };
            out.resize(stamper.len(), 0);
            // As long as it must be.
            let _ = stamper.write(self.built, now, out);
        }
        self.built += 1;
        self.open = self.open.saturating_sub(1);
        self.schedule.sent_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Vary, identify};

    #[test]
    fn flows_take_turns_and_the_end_comes() {
        let flows = (0..3).map(|n| Headers::default().nth(n, &[Vary::DstAddr])).collect();
        let load = Load::new(0, Headers::default(), 100, 1000.0).over(flows).only(5);
        let mut s = Source::new(LoadId(9), &load, Nanos(0)).unwrap();
        let mut frame = Vec::new();
        let mut seen = Vec::new();
        while let Some(at) = s.when() {
            assert_eq!(s.clone_due(at), 1);
            s.next(at, &mut frame);
            assert_eq!(frame.len(), 96);
            let id = identify(&frame, Run(9)).unwrap();
            seen.push((id.stream, id.number, id.stamp.0));
        }
        let want: Vec<_> = (0..5u64).map(|n| ((n % 3) as u16, n as u32, n * 1_000_000)).collect();
        assert_eq!(seen, want);
        assert!(s.is_done() && s.due(Nanos(u64::MAX)) == 0);
    }

    impl Source {
        fn clone_due(&mut self, at: Nanos) -> u64 {
            self.due(at)
        }
    }

    /// A capture of 3 frames in 2 s and a mean gap of 1 s, of which a module asks for a time.
    #[test]
    fn a_recording_ends_with_the_time_that_was_asked_for() {
        let times: Arc<[u64]> = [0, 500_000_000, 2_000_000_000].into();
        let recorded = Recording { times, frames: Vec::new() };
        // Rates at which the frames asked for would take another time; the last one is due right at the end.
        for (fps, seconds, frames) in [(1000.0, 7.0, 8), (0.1, 7.0, 8), (1000.0, 3.0, 3)] {
            let mut load = Load::new(0, Headers::default(), 64, fps).lasting(seconds);
            load.shape = Shape::Recorded(Arc::new(recorded.clone()));
            load.fps = 1.0;
            let mut s = Source::new(LoadId(1), &load, Nanos(0)).unwrap();
            let (mut frame, mut last) = (Vec::new(), Nanos(0));
            while let Some(at) = s.when() {
                last = at.max(last);
                for _ in 0..s.due(last) {
                    s.next(last, &mut frame);
                }
            }
            assert_eq!((s.built(), s.is_done()), (frames, true), "{fps} {seconds}");
            assert!((last.0 as f64) < seconds * 1e9);
            // A generator that stands still until it is over sends what it may make up for, and no more.
            let mut s = Source::new(LoadId(1), &load, Nanos(0)).unwrap();
            let mut late = 0;
            while !s.is_done() && late < 100 {
                for _ in 0..s.due(Nanos(60_000_000_000)) {
                    s.next(Nanos(60_000_000_000), &mut frame);
                }
                late += 1;
            }
            assert!(s.built() <= BACKLOG && late < 100, "{} {late}", s.built());
        }
        // At an even rate it is a number of frames, as ever.
        let load = Load::new(0, Headers::default(), 64, 10.0).lasting(0.95);
        assert_eq!(load.frames, Some(10));
    }

    #[test]
    fn bursts_leave_whole_and_stalls_are_not_caught_up() {
        let mut load = Load::new(0, Headers::default(), 64, 1e6).only(10);
        (load.burst, load.owed) = (4, Duration::ZERO);
        let mut s = Source::new(LoadId(0), &load, Nanos(0)).unwrap();
        assert_eq!(s.when(), Some(Nanos(3_000)));
        assert_eq!(s.due(Nanos(2_000)), 0);
        assert_eq!(s.due(Nanos(3_000)), 4);
        assert_eq!(s.due(Nanos(1_000_000)), 8, "the backlog");
        assert!(s.forgone() > 900);
    }

    #[test]
    fn a_burst_longer_than_a_batch_leaves_whole() {
        let mut load = Load::new(0, Headers::default(), 64, 1e6).only(250);
        load.burst = 100;
        let mut s = Source::new(LoadId(0), &load, Nanos(0)).unwrap();
        let mut frame = Vec::new();
        for (at, want) in [(99_000, 100), (199_000, 100), (249_000, 50)] {
            assert_eq!(s.when(), Some(Nanos(at)));
            // The schedule's own rounding.
            let at = Nanos(at + 1);
            for n in 0..want {
                assert_eq!(s.due(at), want - n);
                s.next(at, &mut frame);
            }
            assert_eq!(s.due(at), 0);
        }
        assert!(s.is_done() && s.forgone() == 0);
        // One burst that takes a thousand times as long to leave as its rate would have it: none is given up.
        let load = Load { burst: 1000, ..Load::new(0, Headers::default(), 64, 1e9).only(1000) };
        let mut s = Source::new(LoadId(0), &load, Nanos(0)).unwrap();
        for n in 0..1000 {
            assert_eq!(s.due(Nanos(1_000 + n * 1_000)), 1000 - n);
            s.next(Nanos(0), &mut frame);
        }
        assert_eq!(s.forgone(), 0);
    }

    #[test]
    fn sizes_take_turns_in_every_flow() {
        let flows = (0..4).map(|n| Headers::default().nth(n, &[Vary::DstAddr])).collect();
        let mut load = Load::new(0, Headers::default(), 100, 1e6).over(flows).only(48);
        load.sizes = vec![64, 64, 64, 1518];
        let mut s = Source::new(LoadId(1), &load, Nanos(0)).unwrap();
        let (mut frame, mut seen) = (Vec::new(), std::collections::BTreeMap::new());
        while !s.is_done() {
            s.next(Nanos(0), &mut frame);
            let id = identify(&frame, Run(1)).unwrap();
            *seen.entry((id.stream, frame.len() + 4)).or_insert(0) += 1;
        }
        let want = (0..4u16).flat_map(|f| [((f, 64), 9), ((f, 1518), 3)]).collect();
        assert_eq!(seen, want);
        load.sizes = vec![64, 63];
        assert!(matches!(Source::new(LoadId(1), &load, Nanos(0)), Err(LoadError::Probe { .. })));
        load.flows = vec![Headers::default(); 40_000];
        load.sizes = vec![64, 65];
        let e = Source::new(LoadId(1), &load, Nanos(0)).map(drop);
        assert_eq!(e, Err(LoadError::Kinds { flows: 40_000, sizes: 2 }));
    }

    #[test]
    fn a_recording_is_sent_as_it_was() {
        let frames = vec![vec![1u8; 60], vec![2; 70]];
        let r = Recording { times: [0, 10].into(), frames: frames.clone() };
        let mut load = Load::new(0, Headers::default(), 64, 5e7).only(5);
        load.shape = Shape::Recorded(Arc::new(r));
        let mut s = Source::new(LoadId(1), &load, Nanos(0)).unwrap();
        let (mut frame, mut got) = (Vec::new(), Vec::new());
        while let Some(at) = s.when() {
            for _ in 0..s.due(at) {
                s.next(at, &mut frame);
                got.push((at.0, frame.clone()));
            }
        }
        let at = [0, 10, 30, 40, 60];
        let want: Vec<_> = at.into_iter().zip(frames.into_iter().cycle()).collect();
        assert_eq!(got, want);
        load.shape = Shape::Recorded(Arc::default());
        assert_eq!(Source::new(LoadId(1), &load, Nanos(0)).map(drop), Err(LoadError::Empty));
    }

    #[test]
    fn what_can_not_be() {
        let of = |l: &Load| Source::new(LoadId(0), l, Nanos(0)).map(drop);
        let load = Load::new(0, Headers::default(), 100, 10.0);
        assert_eq!(of(&load.clone().over(vec![])), Err(LoadError::Flows(0)));
        assert!(matches!(
            of(&Load { frame_bytes_on_wire: 10, ..load.clone() }),
            Err(LoadError::Probe { .. })
        ));
        assert!(matches!(of(&Load { fps: f64::NAN, ..load }), Err(LoadError::Rate(_))));
        assert_eq!(Load::fps_of(10.0, 100), 12_500.0);
    }
}
