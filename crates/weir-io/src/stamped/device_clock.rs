//! An adapter's own clock told in the time of all others: its stamps as nanoseconds of the Unix epoch.
//!
//! [`Relation`] is pure: readings of both clocks go in, times come out. [`DeviceClock`] takes the readings.
//! Called by the sender and the capture for each stamp; reads the clock twenty times a second at most.

use crate::sys::phc::{self, Phc};
use std::io;
use std::time::{Duration, Instant};
use weir_packet::Nanos;

/// How long a reading serves.
const FRESH: Duration = Duration::from_millis(50);
/// Readings of which the quickest is taken.
const TRIES: usize = 5;
/// No adapter's clock is further off than this: a part of one.
const MOST_OFF: f64 = 1e-3;

/// Two clocks, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    device: u64,
    unix: u64,
}

/// How one clock goes against another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Relation {
    last: Option<Pair>,
    /// How much faster the Unix clock goes, as a part of one.
    faster: f64,
}

impl Relation {
    /// Takes a reading of both.
    fn note(&mut self, now: Pair) {
        if let Some(before) = self.last {
            let (device, unix) =
                (now.device.wrapping_sub(before.device), now.unix.wrapping_sub(before.unix));
            let off = (unix as i64).wrapping_sub(device as i64) as f64 / device as f64;
            // Beyond that one of them was set.
            self.faster = if off.abs() < MOST_OFF { off } else { 0.0 };
        }
        self.last = Some(now);
    }

    /// A time of the device's clock, near the last reading, in the other's.
    fn unix(&self, device: Nanos) -> Option<Nanos> {
        let at = self.last?;
        let since = device.0.wrapping_sub(at.device) as i64;
        let more = (since as f64 * self.faster) as i64;
        Some(Nanos(at.unix.wrapping_add_signed(since.wrapping_add(more))))
    }
}

/// The clock of an adapter.
#[derive(Debug)]
pub(super) struct DeviceClock {
    clock: Phc,
    relation: Relation,
    read: Option<Instant>,
}

impl DeviceClock {
    /// Opens PTP hardware clock `number`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(number: u32) -> io::Result<Self> {
        let mut this =
            Self { clock: Phc::open(number)?, relation: Relation::default(), read: None };
        this.read()?;
        Ok(this)
    }

    /// Reads both clocks: the reading during which least time passed.
    fn read(&mut self) -> io::Result<()> {
        let mut best: Option<(u64, Pair)> = None;
        for _ in 0..TRIES {
            let before = phc::unix()?;
            let device = self.clock.now()?;
            let took = phc::unix()?.wrapping_sub(before);
            if best.is_none_or(|(b, _)| took < b) {
                best = Some((took, Pair { device, unix: before.wrapping_add(took / 2) }));
            }
        }
        if let Some((_, pair)) = best {
            self.relation.note(pair);
        }
        self.read = Some(Instant::now());
        Ok(())
    }

    /// A stamp of the adapter as the time of all others; `None` if its clock can't be read.
    pub(super) fn unix(&mut self, stamp: Nanos) -> Option<Nanos> {
        if self.read.is_none_or(|at| at.elapsed() > FRESH) {
            self.read().ok()?;
        }
        self.relation.unix(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let unix = 1_800_000_000_000_000_000u64;
        // The device counts from its start and is 40 ppm slow.
        let device = |t: u64| 7_000 + t - t / 25_000;
        let mut r = Relation::default();
        assert_eq!(r.unix(Nanos(5)), None);
        for n in 0..100u64 {
            let t = n * 50_000_000;
            r.note(Pair { device: device(t), unix: unix + t });
            // From just before the reading to just before the next one.
            for later in [-1_000_000i64, 0, 20_000_000, 49_000_000] {
                let Some(at) = t.checked_add_signed(later) else { continue };
                let off = r.unix(Nanos(device(at))).unwrap().0.abs_diff(unix + at);
                // Before there is a second reading the drift is not known.
                let most = if n == 0 { 2_000 } else { 2 };
                assert!(off <= most, "{off} ns off at {at}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_begins_anew() {
        let mut r = Relation::default();
        r.note(Pair { device: 1_000, unix: 1_000_000 });
        r.note(Pair { device: 5_000_000_000, unix: 2_000_000 });
        assert_eq!(r.unix(Nanos(5_000_000_100)), Some(Nanos(2_000_100)));
        r.note(Pair { device: 5_000_000_000, unix: 3_000_000 });
        assert_eq!(r.unix(Nanos(4_999_999_999)), Some(Nanos(2_999_999)));
    }
}
