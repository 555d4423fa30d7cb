//! Time as an argument: nanoseconds on whatever clock the caller owns.

use core::ops::{Add, Sub};

/// Nanoseconds since the caller's epoch (Unix for capture files, monotonic for the worker).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// From whole seconds; saturates.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// From milliseconds; saturates.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// The time from `earlier` to `self`, zero when the clock went back.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        self.since(o)
    }
}
