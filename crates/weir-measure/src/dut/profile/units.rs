//! Numbers with their units, checked where they are read: a profile can't ask for the impossible.
//!
//! Room: plain data with serde's words; part of `profile`.

use serde::{Deserialize, Serialize};
use weir_packet::Nanos;

/// The longest time that a profile may name: an hour, in microseconds.
const LONGEST_US: f64 = 3.6e9;

/// A time in microseconds, 0 to an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Micros(f64);

impl Micros {
    /// So many nanoseconds.
    pub fn nanos(self) -> Nanos {
        Nanos((self.0 * 1e3).round() as u64)
    }
    /// So many microseconds.
    pub fn micros(self) -> f64 {
        self.0
    }
    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl TryFrom<f64> for Micros {
    type Error = String;
    fn try_from(us: f64) -> Result<Self, String> {
        match us {
            0.0..=LONGEST_US => Ok(Self(us)),
            _ => Err(format!("{us} µs: a time from 0 to {LONGEST_US} µs (an hour)")),
        }
    }
}

impl From<Micros> for f64 {
    fn from(m: Micros) -> f64 {
        m.0
    }
}

/// A part of a hundred, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Percent(f64);

impl Percent {
    /// As a part of one.
    pub fn part(self) -> f64 {
        self.0 / 100.0
    }
    /// As it was given.
    pub fn percent(self) -> f64 {
        self.0
    }
    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl TryFrom<f64> for Percent {
    type Error = String;
    fn try_from(p: f64) -> Result<Self, String> {
        match p {
            0.0..=100.0 => Ok(Self(p)),
            _ => Err(format!("{p} %: a part from 0 to 100")),
        }
    }
}

impl From<Percent> for f64 {
    fn from(p: Percent) -> f64 {
        p.0
    }
}

/// How far a counter is off, in percent of the truth: -100 (counts nothing) to 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Deviation(f64);

impl Deviation {
    /// As it was given.
    pub fn percent(self) -> f64 {
        self.0
    }
    /// What is told of a true count.
    pub fn tell(self, count: u64) -> u64 {
        if self.0 == 0.0 { count } else { (count as f64 * (1.0 + self.0 / 100.0)).round() as u64 }
    }
}

impl TryFrom<f64> for Deviation {
    type Error = String;
    fn try_from(p: f64) -> Result<Self, String> {
        match p {
            -100.0..=1000.0 => Ok(Self(p)),
            _ => Err(format!("{p} %: from -100 (counts nothing) to 1000")),
        }
    }
}

impl From<Deviation> for f64 {
    fn from(p: Deviation) -> f64 {
        p.0
    }
}
