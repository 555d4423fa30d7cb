//! A token bucket by time given: exact to the nanosecond, without drift.
//!
//! Room: arithmetic; `machine` has one for messages and one for flow_mods.

use super::Rate;
use core::time::Duration;

/// One token, in the bucket's unit: a billionth, so that a nanosecond at one a second is 1.
const TOKEN: u128 = 1_000_000_000;

/// The bucket.
pub(super) struct TokenBucket {
    per_second: u64,
    full: u128,
    level: u128,
    filled_at: Duration,
}

impl TokenBucket {
    /// A full one.
    pub(super) fn new(rate: Rate, now: Duration) -> Self {
        let full = u128::from(rate.burst.max(1)) * TOKEN;
        // A rate of 0 means none at all, from the start.
        let level = if rate.per_second == 0 { 0 } else { full };
        Self { per_second: rate.per_second.into(), full, level, filled_at: now }
    }

    /// Takes what flowed in up to `now`; a `now` before the last one changes nothing.
    fn fill(&mut self, now: Duration) {
        if let Some(passed) = now.checked_sub(self.filled_at) {
            let more = passed.as_nanos().saturating_mul(self.per_second.into());
            self.level = self.level.saturating_add(more).min(self.full);
            self.filled_at = now;
        }
    }

    /// When there is a token: `None`, now; else that time ([`Duration::MAX`]: never).
    pub(super) fn wait(&mut self, now: Duration) -> Option<Duration> {
        self.fill(now);
        let missing = TOKEN.saturating_sub(self.level);
        if missing == 0 {
            return None;
        }
        if self.per_second == 0 {
            return Some(Duration::MAX);
        }
        // At most a second, so it fits.
        let nanos = missing.div_ceil(self.per_second.into()) as u64;
        Some(self.filled_at.saturating_add(Duration::from_nanos(nanos)))
    }

    /// Takes a token that [`wait`](Self::wait) has found.
    pub(super) fn take(&mut self) {
        self.level = self.level.saturating_sub(TOKEN);
    }
}
