//! Frames per second, as a type of its own so that it is never taken for bits or bytes.
//!
//! Touches nothing. Used by every part of this crate that speaks of load.

use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Bytes that a frame occupies on an Ethernet beside itself: preamble and start delimiter (8) and
/// the smallest gap (12) (IEEE 802.3 §3.1.1 and §4.4.2).
const ETHERNET_OVERHEAD_BYTES: usize = 20;

/// A frame rate in frames per second: finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// A number that is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("{0} is no frame rate: give a number of frames per second above zero")]
pub struct BadRate(pub f64);

impl Rate {
    /// From frames per second.
    ///
    /// # Errors
    /// [`BadRate`] unless the number is finite and above zero.
    pub fn new(frames_per_second: f64) -> Result<Self, BadRate> {
        if frames_per_second.is_finite() && frames_per_second > 0.0 {
            Ok(Self(frames_per_second))
        } else {
            Err(BadRate(frames_per_second))
        }
    }

    /// The most that an Ethernet of `bits_per_second` carries of frames of that size, FCS included
    /// (RFC 2544 appendix B: 64-byte frames at 10 Mb/s are 14,880 a second).
    ///
    /// # Errors
    /// [`BadRate`] when the speed is zero.
    pub fn of_ethernet(bits_per_second: u64, frame_bytes_on_wire: usize) -> Result<Self, BadRate> {
        let bits = (frame_bytes_on_wire + ETHERNET_OVERHEAD_BYTES) as f64 * 8.0;
        Self::new(bits_per_second as f64 / bits)
    }

    /// What was achieved: `frames` in `time`; `None` when either is zero.
    pub fn achieved(frames: u64, time: Duration) -> Option<Self> {
        Self::new(frames as f64 / time.as_secs_f64()).ok()
    }

    /// Frames per second.
    pub const fn fps(self) -> f64 {
        self.0
    }

    /// This rate times `factor`, unless that is no rate.
    ///
    /// # Errors
    /// [`BadRate`] when the product is not finite and above zero.
    pub fn times(self, factor: f64) -> Result<Self, BadRate> {
        Self::new(self.0 * factor)
    }

    /// Frames that this rate makes in `time`, rounded to the nearest.
    pub fn frames_in(self, time: Duration) -> u64 {
        // The cast saturates.
        (self.0 * time.as_secs_f64()).round() as u64
    }

    /// Halfway between two rates.
    #[must_use]
    pub fn midway(self, other: Self) -> Self {
        Self(self.0.midpoint(other.0))
    }

    /// The lower of two rates.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) = match self.0 {
            n if n >= 1e6 => (n / 1e6, "Mfps"),
            n if n >= 1e3 => (n / 1e3, "kfps"),
            n => (n, "fps"),
        };
        write!(f, "{n:.3} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_2544_appendix_b() {
        // Its table for 10 Mb/s Ethernet, rounded down as there.
        for (size, fps) in
            [(64, 14_880), (128, 8_445), (256, 4_528), (512, 2_349), (1024, 1_197), (1518, 812)]
        {
            assert_eq!(Rate::of_ethernet(10_000_000, size).unwrap().fps() as u64, fps);
        }
    }

    #[test]
    fn what_is_no_rate() {
        for n in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Rate::new(n).is_err(), "{n}");
        }
        assert!(Rate::of_ethernet(0, 64).is_err());
        assert_eq!(Rate::achieved(0, Duration::from_secs(1)), None);
        assert_eq!(Rate::achieved(5, Duration::ZERO), None);
        assert!(Rate::new(1e300).unwrap().times(1e300).is_err());
    }
}
