//! Probes to send: which headers, how fast, how many; and the source that makes them.
//!
//! Sans-I/O: a [`Source`] says when a frame is due and writes it; whoever owns a port sends it. Used
//! by the generator's thread and by the simulation alike.

use crate::pace::Pacer;
use crate::probe::{Headers, ProbeError, Run, Stamper, Stream};
use crate::{BadRate, Rate};
use thiserror::Error;
use weir_packet::Nanos;

/// Tells the frames of one load from those of another; numbers return after 256 loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadId(pub u8);

impl LoadId {
    /// Of probes that leave by the switch: [`Packets`], which packet-outs carry. No load has it.
    pub const OF_SWITCH: LoadId = LoadId(0);
}

/// Frames to send by one data channel. Flows take turns by the frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The data channel.
    pub channel: usize,
    /// The flows' headers; at least one, at most 65536.
    pub flows: Vec<Headers>,
    /// Size of each frame in bytes, FCS included: 64 to 1518.
    pub frame_bytes_on_wire: usize,
    /// Frames a second, all flows together.
    pub fps: f64,
    /// Ends after so many frames; `None`: when it is stopped.
    pub frames: Option<u64>,
    /// Frames that leave together: 1 is the most even.
    pub burst: u64,
}

impl Load {
    /// One flow at a rate in frames a second, until it is stopped.
    pub fn new(channel: usize, flow: Headers, frame_bytes_on_wire: usize, fps: f64) -> Self {
        Self { channel, flows: vec![flow], frame_bytes_on_wire, fps, frames: None, burst: 1 }
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
    stampers: Vec<Stamper>,
    pacer: Pacer,
    burst: u64,
    built: u64,
    frames: Option<u64>,
    backlog: u64,
}

/// A stall is made up for by at most this many frames at once, or two bursts.
const BACKLOG: u64 = 8;

impl Source {
    /// The first frame is due at `now`.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn new(id: LoadId, load: &Load, now: Nanos) -> Result<Self, LoadError> {
        if load.flows.is_empty() || load.flows.len() > 1 << 16 {
            return Err(LoadError::Flows(load.flows.len()));
        }
        let stampers = load.flows.iter().enumerate().map(|(n, headers)| {
            let stream = Stream {
                id: n as u16,
                headers: *headers,
                frame_bytes_on_wire: load.frame_bytes_on_wire,
                entry: 0,
                exit: None,
            };
            Stamper::new(&stream, Run(id.0)).map_err(|source| LoadError::Probe { flow: n, source })
        });
        let backlog = BACKLOG.max(2 * load.burst);
        Ok(Self {
            load: id,
            stampers: stampers.collect::<Result<_, _>>()?,
            pacer: Pacer::new(Rate::new(load.fps)?, backlog, now),
            burst: load.burst.max(1),
            built: 0,
            frames: load.frames,
            backlog,
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
        self.pacer.forgone()
    }

    /// Whether all frames are made.
    pub fn is_done(&self) -> bool {
        self.frames.is_some_and(|n| self.built >= n)
    }

    /// Another rate from now on.
    ///
    /// # Errors
    /// It is none.
    pub fn set_fps(&mut self, fps: f64, now: Nanos) -> Result<(), BadRate> {
        self.pacer = Pacer::new(Rate::new(fps)?, self.backlog, now);
        Ok(())
    }

    fn left(&self) -> u64 {
        self.frames.map_or(u64::MAX, |n| n.saturating_sub(self.built))
    }

    /// Frames that are to be sent now: none before a whole burst is due.
    pub fn due(&mut self, now: Nanos) -> u64 {
        let (due, left) = (self.pacer.due(now), self.left());
        if due >= self.burst.min(left) { due.min(left) } else { 0 }
    }

    /// When frames are due next; `None` when all are made.
    pub fn when(&self) -> Option<Nanos> {
        let n = self.burst.min(self.left());
        (n > 0).then(|| self.pacer.when(n))
    }

    /// Writes the next frame, stamped `now`, to `out`, which is made as long as the frame.
    pub fn next(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let flow = (self.built % self.stampers.len() as u64) as usize;
        let Some(stamper) = self.stampers.get(flow) else { return };
        out.resize(stamper.len(), 0);
        // As long as it must be.
        let _ = stamper.write(self.built, now, out);
        self.built += 1;
        self.pacer.sent(1);
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

    #[test]
    fn bursts_leave_whole_and_stalls_are_not_caught_up() {
        let mut load = Load::new(0, Headers::default(), 64, 1e6).only(10);
        load.burst = 4;
        let mut s = Source::new(LoadId(0), &load, Nanos(0)).unwrap();
        assert_eq!(s.when(), Some(Nanos(3_000)));
        assert_eq!(s.due(Nanos(2_000)), 0);
        assert_eq!(s.due(Nanos(3_000)), 4);
        assert_eq!(s.due(Nanos(1_000_000)), 8, "the backlog");
        assert!(s.forgone() > 900);
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
