//! The worker's time for those who live outside of it, so that time-outs of flows and the hits that
//! put them off are counted by one clock.
//!
//! Room: reads the system's monotonic clock. Used by everything in `openflow`.

use std::time::{Duration, Instant};
use weir_packet::Nanos;

/// What switches' clocks show when their data plane begins: a flow that comes from another node may be
/// older than the data plane here.
const BEGIN: Nanos = Nanos(1 << 58);

/// The worker's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that began when the data plane did, which shows `now` now.
    pub fn showing(now: Nanos) -> Self {
        let here = Instant::now();
        Self { epoch: here.checked_sub(Duration::from_nanos(now.0)).unwrap_or(here) }
    }
    /// What it shows: [`BEGIN`] at the beginning.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)) + BEGIN
    }
    /// When it shows `at`, for timers. A time that can't be reached is far away.
    pub fn when(&self, at: Nanos) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_secs(86_400 * 365);
        let at = Duration::from_nanos(at.0.saturating_sub(BEGIN.0));
        let instant = self.epoch.checked_add(at).unwrap_or_else(|| Instant::now() + FAR);
        tokio::time::Instant::from_std(instant)
    }
}

/// The channel's form of a time.
pub fn since_start(now: Nanos) -> Duration {
    Duration::from_nanos(now.0)
}

/// The worker's form of a channel's time.
pub fn nanos(at: Duration) -> Nanos {
    Nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}
