//! How late the device was itself: what a profile says is done then, and when it was done.
//!
//! Room: numbers. Whoever calls late, because it waits for a core, adds this to every figure that is measured of
//! the device; here it can be told apart from what was configured.

use hdrhistogram::Histogram;
use weir_packet::Nanos;

/// From when changes of the table were due to when they were made, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Changes that took time.
    pub changes: u64,
    /// The median.
    pub median: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The most.
    pub most: Nanos,
}

/// What was late so far.
#[derive(Debug)]
pub(super) struct Late(Option<Histogram<u64>>);

/// More counts as this.
const MOST: u64 = 60_000_000_000;

impl Default for Late {
    fn default() -> Self {
        // These bounds are some; were they not, nothing would be told.
        Self(Histogram::new_with_bounds(1, MOST, 2).ok())
    }
}

impl Late {
    /// Something due at `due` is done at `now`.
    pub(super) fn done(&mut self, due: Nanos, now: Nanos) {
        if let Some(h) = &mut self.0 {
            h.saturating_record(now.since(due).0);
        }
    }

    pub(super) fn told(&self) -> Lateness {
        let Some(h) = self.0.as_ref().filter(|h| !h.is_empty()) else { return Lateness::default() };
        let at = |q| Nanos(h.value_at_quantile(q));
        Lateness { changes: h.len(), median: at(0.5), p99: at(0.99), most: Nanos(h.max()) }
    }
}
