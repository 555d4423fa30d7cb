//! Joins frames that came with the moments at which they left, when those are told separately.
//!
//! Sans-I/O. The kernel's word of a frame that left comes by another way than the frame itself, sooner or
//! later. Frames wait for it in the order in which they came, [`PATIENCE`] at most; then the stamp that
//! the program wrote into the probe has to do, and the frame is counted.

use crate::module::{Captured, LoadId};
use std::collections::VecDeque;
use weir_packet::Nanos;

/// How long a frame waits.
const PATIENCE: Nanos = Nanos::from_millis(20);
/// Moments kept of each load, as many as frames can be under way; a power of two.
const KEPT: usize = 1 << 17;
/// Loads whose moments are kept.
const LOADS: usize = 4;
/// Frames that may wait.
const WAITING: usize = 1 << 16;

#[derive(Debug)]
struct Departures {
    load: LoadId,
    /// Number and moment, at the place of the number's low bits.
    at: Vec<(u32, u64)>,
}

/// Frames that wait, and moments known.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    departures: VecDeque<Departures>,
    waiting: VecDeque<(Nanos, Captured)>,
    /// Frames that had to do with the program's stamp.
    pub(super) unpaired: u64,
    /// Frames joined.
    pub(super) paired: u64,
}

impl Pairing {
    /// A probe left.
    pub(super) fn left(&mut self, load: LoadId, number: u32, at: Nanos) {
        let found = self.departures.iter().position(|d| d.load == load);
        let place = found.unwrap_or_else(|| {
            if self.departures.len() >= LOADS {
                self.departures.pop_front();
            }
            self.departures.push_back(Departures { load, at: vec![(0, 0); KEPT] });
            self.departures.len() - 1
        });
        if let Some(d) = self.departures.get_mut(place) {
            d.at[number as usize % KEPT] = (number, at.0);
        }
    }

    /// A load's number is used again: nothing of the earlier one is known any more.
    pub(super) fn begin(&mut self, load: LoadId) {
        self.departures.retain(|d| d.load != load);
    }

    /// When a probe left, if that is known (any more).
    pub(crate) fn departure(&self, load: LoadId, number: u32) -> Option<Nanos> {
        let d = self.departures.iter().find(|d| d.load == load)?;
        let (noted, at) = d.at[number as usize % KEPT];
        (noted == number && at != 0).then_some(Nanos(at))
    }

    /// A frame came.
    pub(super) fn came(&mut self, now: Nanos, frame: Captured) {
        self.waiting.push_back((now, frame));
    }

    /// The next frame that need not wait.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Captured> {
        let (since, frame) = self.waiting.front()?;
        // Probes that the switch was given by packet-outs left by no port of ours.
        let probe = frame.probe.filter(|id| id.load != LoadId::OF_SWITCH);
        let left = probe.and_then(|id| self.departure(id.load, id.number));
        let late = now.since(*since) >= PATIENCE || self.waiting.len() > WAITING;
        if probe.is_some() && left.is_none() && !late {
            return None;
        }
        let (_, mut frame) = self.waiting.pop_front()?;
        if probe.is_some() {
            *if left.is_some() { &mut self.paired } else { &mut self.unpaired } += 1;
        }
        frame.left = left.or(frame.left);
        Some(frame)
    }

    /// When the oldest frame has waited long enough.
    pub(super) fn wake_at(&self) -> Option<Nanos> {
        self.waiting.front().map(|(since, _)| *since + PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ProbeId;

    fn frame(number: u32) -> Captured {
        let probe = Some(ProbeId { load: LoadId(1), flow: 0, number });
        Captured { probe, left: Some(Nanos(7)), ..Captured::new(0, Nanos(9), &[]) }
    }

    #[test]
    fn frames_wait_for_their_moment_in_order_and_not_for_ever() {
        let mut p = Pairing::default();
        p.came(Nanos(0), frame(1));
        p.came(Nanos(0), frame(2));
        p.left(LoadId(1), 2, Nanos(102));
        assert!(p.next(Nanos(1)).is_none(), "the first holds the second");
        p.left(LoadId(1), 1, Nanos(101));
        assert_eq!(p.next(Nanos(1)).and_then(|f| f.left), Some(Nanos(101)));
        assert_eq!(p.next(Nanos(1)).and_then(|f| f.left), Some(Nanos(102)));
        assert!(p.next(Nanos(1)).is_none());
        p.came(Nanos(5), frame(3));
        assert_eq!(p.wake_at(), Some(Nanos(5) + PATIENCE));
        let f = p.next(Nanos(5) + PATIENCE).unwrap();
        assert_eq!((f.left, p.paired, p.unpaired), (Some(Nanos(7)), 2, 1));
        p.begin(LoadId(1));
        p.came(Nanos(9), frame(1));
        assert!(p.next(Nanos(9)).is_none(), "an earlier load's moments are forgotten");
        p.came(Nanos(9), Captured::new(0, Nanos(9), &[1]));
        assert!(p.next(Nanos(9)).is_none(), "even frames that are no probes keep their order");
    }
}
