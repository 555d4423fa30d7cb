//! What happened, as a module is told it.
//!
//! Plain data of fixed size, so that it crosses a ring without allocation. All times are nanoseconds of
//! the Unix epoch on a real interface, of the simulation's own in a simulated one.

use super::LoadId;
use crate::probe::Contents;
use weir_packet::Nanos;

/// Bytes kept of a captured frame: headers, proof and the beginning of the fill of any probe.
pub const SNAP: usize = 160;

/// Whether a message is one of those from the first transaction id to the last: those of messages that are sent together follow
/// each other.
pub(crate) fn is_among(xid: u32, (first, last): (u32, u32)) -> bool {
    xid.wrapping_sub(first) <= last.wrapping_sub(first)
}

/// From one moment to another, in nanoseconds, negative if the second was first. Moments of the Unix epoch
/// have more digits than an `f64`: the difference is taken before it becomes one.
pub fn ns_between(from: Nanos, to: Nanos) -> f64 {
    to.0.wrapping_sub(from.0) as i64 as f64
}

/// Whose a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId {
    /// Which load sent it.
    pub load: LoadId,
    /// Which of the load's flows: the place in [`super::Load::flows`].
    pub flow: u16,
    /// Which frame of the load, counted over all its flows, from 0, modulo 2^32.
    pub number: u32,
}

/// A frame that came in by a data channel.
#[derive(Clone, Copy, Debug)]
pub struct Captured {
    /// By which.
    pub channel: usize,
    /// When.
    pub at: Nanos,
    /// The probe in it; `None` for a frame that is none of ours.
    pub probe: Option<ProbeId>,
    /// Whether all of the probe is as it was sent.
    pub contents: Contents,
    /// When the probe left, if that is known.
    pub left: Option<Nanos>,
    /// When the program made the probe, by its own clock.
    pub made: Option<Nanos>,
    /// When the program had it, by its own clock.
    pub read: Nanos,
    /// Its length in bytes, without FCS.
    pub len: u16,
    pub(crate) bytes: [u8; SNAP],
}

impl Captured {
    /// A frame as it came; `bytes` without FCS.
    pub fn new(channel: usize, at: Nanos, bytes: &[u8]) -> Self {
        let mut kept = [0; SNAP];
        let n = bytes.len().min(SNAP);
        kept[..n].copy_from_slice(&bytes[..n]);
        Self {
            channel,
            at,
            probe: None,
            contents: Contents::AsSent,
            left: None,
            made: None,
            read: at,
            len: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
            bytes: kept,
        }
    }

    /// Its first bytes, at most [`SNAP`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(SNAP)]
    }

    /// From where it left to where it came, in nanoseconds.
    pub fn delay_ns(&self) -> Option<f64> {
        let left = self.left?;
        // Two readings of one clock by two threads may be a little the wrong way round.
        Some(ns_between(left, self.at))
    }
}

/// Frames that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Each number once.
    pub frames: u64,
    /// Of those, so many after one of their flow with a higher number (RFC 4737 §3.3).
    pub reordered: u64,
    /// Further copies.
    pub duplicated: u64,
    /// Frames that are not as they were sent; none of them is among the others.
    pub changed: u64,
}

impl Count {
    /// What there is more than in an earlier one.
    pub(crate) fn less(&self, before: &Self) -> Self {
        Self {
            frames: self.frames - before.frames.min(self.frames),
            reordered: self.reordered - before.reordered.min(self.reordered),
            duplicated: self.duplicated - before.duplicated.min(self.duplicated),
            changed: self.changed - before.changed.min(self.changed),
        }
    }

    /// Both together.
    pub fn add(&mut self, more: &Self) {
        self.frames += more.frames;
        self.reordered += more.reordered;
        self.duplicated += more.duplicated;
        self.changed += more.changed;
    }
}

/// A load that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadDone {
    /// Which.
    pub load: LoadId,
    /// Its data channel.
    pub channel: usize,
    /// Frames a second that were asked for.
    pub asked_fps: f64,
    /// Frames really sent.
    pub sent: u64,
    /// The first frame's time.
    pub from: Nanos,
    /// The last frame's time.
    pub to: Nanos,
    /// Frames that were due and given up: the generator stalled, or the port took no more.
    pub forgone: u64,
    /// CPU time that the generator's thread took for it, in nanoseconds.
    pub cpu_ns: u64,
}

impl LoadDone {
    /// Frames a second really sent: intervals over the time between the first frame and the last.
    pub fn sent_fps(&self) -> f64 {
        let time = self.to.since(self.from).0;
        if self.sent < 2 || time == 0 { 0.0 } else { (self.sent - 1) as f64 * 1e9 / time as f64 }
    }
}

/// A reading of the switch's own state.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// What: [`Sample::CPU`]; or an interface's counter since the switch began, then a space and the
    /// interface's name: `rx_frames`, `tx_frames`, `rx_bytes`, `tx_bytes`, `dropped`.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit: `%`.
    pub unit: String,
}

impl Sample {
    /// CPU time at work since the reading before, in percent.
    pub const CPU: &'static str = "cpu";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_keep_their_nanoseconds() {
        let epoch = 1_800_000_000_000_000_000;
        assert_eq!(ns_between(Nanos(epoch), Nanos(epoch + 1)), 1.0);
        assert_eq!(ns_between(Nanos(epoch + 20_501), Nanos(epoch)), -20_501.0);
    }
}
