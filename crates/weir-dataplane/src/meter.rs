//! Meters: token buckets that drop or remark what exceeds a rate (OpenFlow 1.3, §5.7).
//!
//! Room: pure; time is an argument. A band's bucket holds `burst` and earns `rate`; a frame that
//! finds too little in it exceeds the band and takes nothing. Of the bands that are exceeded, the
//! one with the highest rate acts (§5.7.1). Arithmetic is exact: what is earned and not yet a whole
//! unit is kept.

use crate::counters::Tally;
use thiserror::Error;
use weir_packet::Nanos;

/// What rates and bursts count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Kilobits (1000 bits) a second; burst in kilobits. Frames count without FCS.
    Kilobits,
    /// Frames a second; burst in frames.
    Packets,
}

/// What a band does with frames beyond its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// Drops them.
    Drop,
    /// Raises the drop precedence of their DSCP by so many levels.
    DscpRemark(u8),
}

/// One band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// What it does.
    pub kind: BandKind,
    /// Rate, in the meter's unit.
    pub rate: u32,
    /// Depth of the bucket, in the meter's unit; 0: what the rate earns in a second (for bits at
    /// least a full frame of 1514 bytes).
    pub burst: u32,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on as it is.
    Pass,
    /// Is dropped.
    Drop,
    /// Goes on with its drop precedence raised by so many levels.
    Remark(u8),
}

/// A meter that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MeterError {
    /// A band with rate zero would let nothing pass, ever.
    #[error("a meter band needs a rate above zero")]
    NoRate,
    /// Too many bands.
    #[error("{0} meter bands: at most {max} are allowed", max = MAX_BANDS)]
    TooMany(usize),
}

/// Bands that a meter may have.
pub const MAX_BANDS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    band: Band,
    /// Tokens in bits or frames, times 10⁹.
    tokens: u128,
    counted: Tally,
}

/// A meter with its bands, buckets and counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    unit: Unit,
    bands: Vec<State>,
    at: Option<Nanos>,
    counted: Tally,
}

const NANO: u128 = 1_000_000_000;

impl Meter {
    /// A meter with full buckets.
    ///
    /// # Errors
    /// [`MeterError`].
    pub fn new(unit: Unit, bands: &[Band]) -> Result<Self, MeterError> {
        if bands.len() > MAX_BANDS {
            return Err(MeterError::TooMany(bands.len()));
        }
        if bands.iter().any(|b| b.rate == 0) {
            return Err(MeterError::NoRate);
        }
        let state =
            |b: &Band| State { band: *b, tokens: depth(unit, b), counted: Tally::default() };
        let bands = bands.iter().map(state).collect();
        Ok(Self { unit, bands, at: None, counted: Tally::default() })
    }
    /// Decides over one frame of `bytes` (without FCS) at time `now`.
    pub fn pass(&mut self, now: Nanos, bytes: usize) -> Verdict {
        let dt = self.at.map_or(0, |at| now.since(at).0);
        // A clock that went back earns nothing and is followed.
        self.at = Some(now);
        self.counted.add(bytes);
        let need = match self.unit {
            Unit::Kilobits => 8 * bytes as u128 * NANO,
            Unit::Packets => NANO,
        };
        let mut worst: Option<usize> = None;
        for i in 0..self.bands.len() {
            let unit = self.unit;
            let Some(s) = self.bands.get_mut(i) else { break };
            let rate = u128::from(s.band.rate) * if unit == Unit::Kilobits { 1000 } else { 1 };
            s.tokens = (s.tokens + rate * u128::from(dt)).min(depth(unit, &s.band));
            if s.tokens >= need {
                s.tokens -= need;
                continue;
            }
            let rate = s.band.rate;
            if worst.and_then(|w| self.bands.get(w)).is_none_or(|w| w.band.rate < rate) {
                worst = Some(i);
            }
        }
        let Some(s) = worst.and_then(|w| self.bands.get_mut(w)) else { return Verdict::Pass };
        s.counted.add(bytes);
        match s.band.kind {
            BandKind::Drop => Verdict::Drop,
            BandKind::DscpRemark(n) => Verdict::Remark(n),
        }
    }
    /// Its unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }
    /// Frames that met it.
    pub fn counted(&self) -> Tally {
        self.counted
    }
    /// Its bands, each with what it acted on.
    pub fn bands(&self) -> impl Iterator<Item = (Band, Tally)> + '_ {
        self.bands.iter().map(|s| (s.band, s.counted))
    }
}

/// A full bucket, times 10⁹.
fn depth(unit: Unit, b: &Band) -> u128 {
    let units = match (unit, b.burst) {
        (Unit::Kilobits, 0) => (u128::from(b.rate) * 1000).max(8 * 1514),
        (Unit::Kilobits, burst) => u128::from(burst) * 1000,
        (Unit::Packets, 0) => b.rate.into(),
        (Unit::Packets, burst) => burst.into(),
    };
    units * NANO
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_band(rate: u32, burst: u32) -> Band {
        Band { kind: BandKind::Drop, rate, burst }
    }

    #[test]
    fn a_second_passes_rate_and_burst() {
        let mut m = Meter::new(Unit::Packets, &[drop_band(1000, 10)]).unwrap();
        // Two frames every millisecond: half of them and the burst pass.
        let passed =
            (0..2000u64).filter(|i| m.pass(Nanos(i / 2 * 1_000_000), 60) == Verdict::Pass).count();
        assert_eq!(passed, 10 + 999);
        let (_, acted) = m.bands().next().unwrap();
        assert_eq!((m.counted().frames, acted.frames), (2000, 2000 - 1009));
    }

    #[test]
    fn bits_are_earned_exactly() {
        // 1 kbit/s, a frame of 125 bytes is a second's worth; the bucket holds one.
        let mut m = Meter::new(Unit::Kilobits, &[drop_band(1, 1)]).unwrap();
        assert_eq!(m.pass(Nanos(0), 125), Verdict::Pass);
        assert_eq!(m.pass(Nanos(999_999_999), 125), Verdict::Drop);
        assert_eq!(m.pass(Nanos(1_000_000_000), 125), Verdict::Pass);
    }

    #[test]
    fn of_two_exceeded_bands_the_higher_rate_acts() {
        let remark = Band { kind: BandKind::DscpRemark(1), rate: 10, burst: 1 };
        let mut m = Meter::new(Unit::Packets, &[remark, drop_band(20, 2)]).unwrap();
        let got: Vec<Verdict> = (0..3).map(|_| m.pass(Nanos(0), 60)).collect();
        assert_eq!(got, [Verdict::Pass, Verdict::Remark(1), Verdict::Drop]);
    }

    #[test]
    fn impossible_meters_are_refused() {
        assert_eq!(Meter::new(Unit::Packets, &[drop_band(0, 1)]), Err(MeterError::NoRate));
        let many = vec![drop_band(1, 1); 17];
        assert_eq!(Meter::new(Unit::Packets, &many), Err(MeterError::TooMany(17)));
    }

    #[test]
    fn a_clock_that_goes_back_earns_nothing() {
        let mut m = Meter::new(Unit::Packets, &[drop_band(1, 1)]).unwrap();
        assert_eq!(m.pass(Nanos(5_000_000_000), 60), Verdict::Pass);
        assert_eq!(m.pass(Nanos(0), 60), Verdict::Drop);
        assert_eq!(m.pass(Nanos(1_000_000_000), 60), Verdict::Pass);
    }
}
