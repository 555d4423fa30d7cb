//! Meters (OpenFlow 1.3, §5.7): token buckets, a drop or DSCP-remark band each. Touches numbers
//! only; time is an argument. Called by the executor.
//!
//! A band's bucket fills at its rate up to its burst, and begins full. Every frame that comes to
//! the meter takes its cost from each band's bucket that holds as much; a band whose bucket does
//! not is exceeded. Of the exceeded bands the one with the highest rate decides (§5.7.1); with none,
//! the frame passes.
//!
//! Exact: tokens are counted in billionths of the burst's unit (a packet or 1000 bits), so that a
//! rate times nanoseconds is a whole number of them and nothing is ever rounded.

use crate::counters::Tally;
use thiserror::Error;
use weir_packet::Nanos;

/// What rates and bursts of a meter count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 1000 bits of Ethernet frame without FCS; a rate is kilobits per second.
    Kilobits,
    /// Frames; a rate is frames per second.
    Packets,
}

/// What a band does with frames above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// Drop.
    Drop,
    /// Raise the DSCP's drop precedence by so many levels.
    DscpRemark(u8),
}

/// A band as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What happens above it.
    pub kind: BandKind,
    /// Rate in the meter's unit per second.
    pub rate: u32,
    /// Burst in the meter's unit. Zero: what the rate gives in one second, as Open vSwitch has it,
    /// and for bits at least one frame of 1514 bytes, so that slow rates let something through.
    pub burst: u32,
}

/// A meter that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MeterError {
    /// A rate of zero.
    #[error("band {0} has rate 0, which would stop everything: use a drop rule for that")]
    NoRate(usize),
    /// A remark by zero levels.
    #[error("band {0} remarks by 0 levels, which changes nothing: give 1 to 3")]
    NoLevels(usize),
    /// Too many bands.
    #[error("{0} bands: at most {max} are allowed", max = MAX_BANDS)]
    TooMany(usize),
}

/// Bands of a meter at most.
pub const MAX_BANDS: usize = 16;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Pass,
    /// It is dropped.
    Drop,
    /// It goes on with its drop precedence raised by so many levels.
    Remark(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    band: Band,
    /// Tokens, in billionths of the unit.
    tokens: u64,
    /// The most it holds.
    full: u64,
    decided: Tally,
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    unit: Unit,
    buckets: Vec<Bucket>,
    last: Option<Nanos>,
    counted: Tally,
}

/// Tokens to the unit.
const SCALE: u64 = 1_000_000_000;
/// Tokens of one byte: 8 of 1000 bits.
const PER_BYTE: u64 = SCALE / 1000 * 8;
/// Bytes of a full Ethernet frame without FCS and tags.
const FRAME: u64 = 1514;

impl Meter {
    /// A meter with these bands; without any it only counts.
    ///
    /// # Errors
    /// [`MeterError`].
    pub fn new(unit: Unit, bands: &[Band]) -> Result<Self, MeterError> {
        if bands.len() > MAX_BANDS {
            return Err(MeterError::TooMany(bands.len()));
        }
        let mut buckets = Vec::with_capacity(bands.len());
        for (i, &band) in bands.iter().enumerate() {
            match band {
                Band { rate: 0, .. } => return Err(MeterError::NoRate(i)),
                Band { kind: BandKind::DscpRemark(0), .. } => return Err(MeterError::NoLevels(i)),
                _ => {}
            }
            // At most 2^32 * 10^9, which is less than 2^62.
            let full = match (band.burst, unit) {
                (0, Unit::Packets) => u64::from(band.rate) * SCALE,
                (0, Unit::Kilobits) => (u64::from(band.rate) * SCALE).max(FRAME * PER_BYTE),
                (burst, _) => u64::from(burst) * SCALE,
            };
            buckets.push(Bucket { band, tokens: full, full, decided: Tally::default() });
        }
        Ok(Self { unit, buckets, last: None, counted: Tally::default() })
    }

    /// Takes one frame of `len` bytes at `now`. A clock that goes back adds no tokens.
    pub fn pass(&mut self, now: Nanos, len: usize) -> Verdict {
        let elapsed = self.last.map_or(0, |last| now.since(last).0);
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        self.counted.add(len);
        let cost = match self.unit {
            Unit::Packets => SCALE,
            Unit::Kilobits => (len as u64).saturating_mul(PER_BYTE),
        };
        let mut exceeded: Option<&mut Bucket> = None;
        for b in &mut self.buckets {
            let filled = u128::from(b.tokens) + u128::from(b.band.rate) * u128::from(elapsed);
            b.tokens = u64::try_from(filled).unwrap_or(u64::MAX).min(b.full);
            match b.tokens.checked_sub(cost) {
                Some(rest) => b.tokens = rest,
                None if exceeded.as_ref().is_none_or(|e| e.band.rate < b.band.rate) => {
                    exceeded = Some(b);
                }
                None => {}
            }
        }
        let Some(b) = exceeded else { return Verdict::Pass };
        b.decided.add(len);
        match b.band.kind {
            BandKind::Drop => Verdict::Drop,
            BandKind::DscpRemark(levels) => Verdict::Remark(levels),
        }
    }

    /// What its rates and bursts count.
    pub fn unit(&self) -> Unit {
        self.unit
    }
    /// Frames that came to it.
    pub fn counted(&self) -> Tally {
        self.counted
    }
    /// Its bands in the order given, and the frames that each decided.
    pub fn bands(&self) -> impl Iterator<Item = (Band, Tally)> + '_ {
        self.buckets.iter().map(|b| (b.band, b.decided))
    }
}
