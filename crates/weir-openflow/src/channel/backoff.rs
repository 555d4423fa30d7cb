//! How long to wait before the next attempt to connect: pure, a seed and an attempt in, a delay out.
//!
//! Room: plain arithmetic, called by whoever opens connections. Delays double up to a ceiling; half
//! of each is drawn by lot, so that a thousand switches which lost one controller do not all return
//! in the same instant.

use core::time::Duration;

/// The delays of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay is at most this.
    pub first: Duration,
    /// No delay is longer.
    pub ceiling: Duration,
}

impl Default for Backoff {
    /// From a second to eight.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), ceiling: Duration::from_secs(8) }
    }
}

impl Backoff {
    /// The delay before attempt number `attempt` (0: the first after a loss), for a connection whose
    /// lots are drawn by `seed`. At least half of `min(first * 2^attempt, ceiling)`, at most all of it.
    pub fn delay(&self, seed: u64, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).filter(|f| *f != 0).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.ceiling);
        let half = whole / 2;
        let spread = u64::try_from((whole - half).as_nanos()).unwrap_or(u64::MAX);
        let lot = mix(seed ^ mix(u64::from(attempt)));
        // The upper half of the product is a number below `spread + 1`, each equally likely.
        let part = (u128::from(lot) * (u128::from(spread) + 1)) >> 64;
        half + Duration::from_nanos(part as u64)
    }
}

/// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
