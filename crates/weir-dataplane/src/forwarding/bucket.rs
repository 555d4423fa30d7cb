//! Token buckets that measure guarantees, ceilings and the rates of queues.
//!
//! Room: forwarding. Counts bits of frame plus FCS; time is an argument.

use super::FCS;
use weir_packet::Nanos;

/// A bucket holds what its rate earns in this time, or two full frames if that is more.
const BURST_TIME: Nanos = Nanos(10_000_000);
const NANO: u128 = 1_000_000_000;

/// A token bucket, exact in bits: what is earned and not yet a whole bit is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    rate_bps: u64,
    pub(super) bits: i64,
    fraction: u64,
    at: Nanos,
}

impl Bucket {
    pub(super) fn new(rate_bps: u64, now: Nanos) -> Self {
        let mut b = Self { rate_bps, bits: 0, fraction: 0, at: now };
        b.bits = b.depth();
        b
    }
    fn depth(&self) -> i64 {
        let earned = u128::from(self.rate_bps) * u128::from(BURST_TIME.0) / NANO;
        i64::try_from(earned).unwrap_or(i64::MAX / 2).max(2 * 8 * (1518 + FCS as i64))
    }
    pub(super) fn refill(&mut self, now: Nanos) {
        let dt = now.since(self.at).0;
        if dt == 0 {
            return;
        }
        self.at = now;
        let earned = u128::from(self.rate_bps) * u128::from(dt) + u128::from(self.fraction);
        let whole = i64::try_from(earned / NANO).unwrap_or(i64::MAX / 2);
        self.fraction = (earned % NANO) as u64;
        let depth = self.depth();
        self.bits = self.bits.saturating_add(whole);
        if self.bits >= depth {
            (self.bits, self.fraction) = (depth, 0);
        }
    }
    /// Whether so many bits may go. What is longer than a bucket goes when it is full, and is paid back out of what
    /// comes then: nothing waits for ever, and the rate holds.
    pub(super) fn has(&self, bits: i64) -> bool {
        self.bits >= bits || bits > self.depth() && self.bits >= self.depth()
    }
}
