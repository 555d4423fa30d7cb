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

use crate::counters::{SharedTally, Side, Tally};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thiserror::Error;
use weir_classify::simd::prefetch_read;
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

/// A band's bucket. The worker and the slow path take from it both.
#[derive(Debug)]
struct Bucket {
    band: Band,
    /// Tokens, in billionths of the unit.
    tokens: AtomicU64,
    /// The most it holds.
    full: u64,
}

impl Bucket {
    /// Fills it for `elapsed` nanoseconds and takes `cost`, if it holds as much.
    fn take(&self, elapsed: u64, cost: u64) -> bool {
        let mut old = self.tokens.load(Relaxed);
        loop {
            let gained = u128::from(self.band.rate) * u128::from(elapsed);
            let filled = u64::try_from(u128::from(old) + gained).unwrap_or(u64::MAX);
            let filled = filled.min(self.full);
            let left = filled.checked_sub(cost);
            match self.tokens.compare_exchange_weak(old, left.unwrap_or(filled), Relaxed, Relaxed) {
                Ok(_) => return left.is_some(),
                // The other path was quicker.
                Err(now) => old = now,
            }
        }
    }
}

/// What both paths take from, and what the fast one counts: with one band a line of memory, all that a frame reads of a meter
/// beside what leads there.
#[derive(Debug)]
#[repr(C, align(64))]
struct Rates {
    /// Up to when the buckets are filled. They begin full, so it need not begin with the first
    /// frame.
    last: AtomicU64,
    first: Option<Bucket>,
    counted: SharedTally,
    more: Option<Box<More>>,
}

const _: () = assert!(size_of::<Rates>() == 64);

/// Bands after the first; boxed once more, so that what leads there is one word of [`Rates`].
#[derive(Debug)]
struct More(Box<[Bucket]>);

impl Rates {
    fn new(mut buckets: impl Iterator<Item = Bucket>, last: u64, counted: Tally) -> Arc<Self> {
        let (first, rest) = (buckets.next(), buckets.collect::<Box<[_]>>());
        let more = (!rest.is_empty()).then(|| Box::new(More(rest)));
        let rates = Self { last: AtomicU64::new(last), first, counted: Default::default(), more };
        rates.counted.merge(counted);
        Arc::new(rates)
    }
    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.first.iter().chain(self.more.iter().flat_map(|m| m.0.iter()))
    }
}

/// What is counted seldom.
#[derive(Debug)]
struct Seldom {
    /// Frames that each band decided.
    decided: Vec<Tally>,
    /// What the slow path counts: the meter, then its bands.
    slow: Option<Arc<[SharedTally]>>,
}

/// Whose rules ask a meter, or have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Never,
    /// This table's.
    Of(u8),
    /// Several tables', or what stands behind all of them.
    Elsewhere,
}

/// A meter. Clones limit and count on their own; see `share`.
#[derive(Debug)]
pub struct Meter {
    rates: Arc<Rates>,
    seldom: Box<Seldom>,
    unit: Unit,
    side: Side,
    asked: Asked,
}

impl Clone for Meter {
    fn clone(&self) -> Self {
        let copy = |b: &Bucket| {
            let tokens = AtomicU64::new(b.tokens.load(Relaxed));
            Bucket { band: b.band, tokens, full: b.full }
        };
        let last = self.rates.last.load(Relaxed);
        let rates = Rates::new(self.rates.buckets().map(copy), last, self.counted());
        let decided = self.bands().map(|(_, t)| t).collect();
        let seldom = Box::new(Seldom { decided, slow: None });
        Self { unit: self.unit, rates, seldom, side: Side::Fast, asked: self.asked }
    }
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
            buckets.push(Bucket { band, tokens: AtomicU64::new(full), full });
        }
        let decided = vec![Tally::default(); buckets.len()];
        let rates = Rates::new(buckets.into_iter(), 0, Tally::default());
        let seldom = Box::new(Seldom { decided, slow: None });
        Ok(Self { unit, rates, seldom, side: Side::Fast, asked: Asked::Never })
    }

    /// The same meter for the slow path: one limit for both, and what it counts there is counted
    /// here.
    pub(crate) fn share(&mut self) -> Self {
        let bands = self.seldom.decided.len();
        let new = || (0..=bands).map(|_| SharedTally::default()).collect();
        let slow = Some(Arc::clone(self.seldom.slow.get_or_insert_with(new)));
        let seldom = Box::new(Seldom { decided: vec![Tally::default(); bands], slow });
        let rates = Arc::clone(&self.rates);
        Self { unit: self.unit, rates, seldom, side: Side::Slow, asked: self.asked }
    }

    /// A rule of this table asks it from now on.
    pub(crate) fn is_asked_by(&mut self, table: u8) {
        self.asked = match self.asked {
            Asked::Never => Asked::Of(table),
            Asked::Of(other) if other == table => return,
            _ => Asked::Elsewhere,
        };
    }
    /// What stands behind all tables asks it from now on.
    pub(crate) fn is_asked_by_default(&mut self) {
        self.asked = Asked::Elsewhere;
    }
    /// It takes the place of another.
    pub(crate) fn is_asked_as(&mut self, other: &Meter) {
        self.asked = other.asked;
    }
    /// Whether no rules but this table's ask it.
    #[inline(always)]
    pub(crate) fn is_of(&self, table: u8) -> bool {
        self.asked == Asked::Of(table)
    }

    /// Asks for what [`Meter::pass`] reads of one with a band.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch_read(&*self.rates);
    }

    fn count(&mut self, band: Option<usize>, len: usize) {
        match self.side {
            Side::Fast => {
                self.rates.counted.add(len);
                // What is counted seldom is looked at no more often.
                let decided = band.and_then(|b| self.seldom.decided.get_mut(b));
                decided.into_iter().for_each(|t| t.add(len));
            }
            Side::Slow => {
                let slow = self.seldom.slow.as_deref().unwrap_or_default();
                for i in std::iter::once(0).chain(band.map(|b| b + 1)) {
                    slow.get(i).into_iter().for_each(|t| t.add(len));
                }
            }
        }
    }

    /// Takes one frame of `len` bytes at `now`. A clock that goes back adds no tokens.
    pub fn pass(&mut self, now: Nanos, len: usize) -> Verdict {
        // Frames of a burst have one time: only the first of them fills. Whoever moves the time on
        // fills for what lies between.
        let rates = &*self.rates;
        let last = rates.last.load(Relaxed);
        let elapsed = match now.0 > last {
            true => now.0.saturating_sub(rates.last.fetch_max(now.0, Relaxed)),
            false => 0,
        };
        let cost = match self.unit {
            Unit::Packets => SCALE,
            Unit::Kilobits => (len as u64).saturating_mul(PER_BYTE),
        };
        let mut exceeded: Option<(usize, Band)> = None;
        for (i, b) in rates.buckets().enumerate() {
            if !b.take(elapsed, cost) && exceeded.is_none_or(|(_, e)| e.rate < b.band.rate) {
                exceeded = Some((i, b.band));
            }
        }
        self.count(exceeded.map(|(i, _)| i), len);
        match exceeded {
            None => Verdict::Pass,
            Some((_, Band { kind: BandKind::Drop, .. })) => Verdict::Drop,
            Some((_, Band { kind: BandKind::DscpRemark(levels), .. })) => Verdict::Remark(levels),
        }
    }

    /// What it got and its bands decided before it came here; to be said once.
    pub(crate) fn add_counted(&mut self, counted: Tally, decided: &[Tally]) {
        self.rates.counted.merge(counted);
        self.seldom.decided.iter_mut().zip(decided).for_each(|(t, more)| t.merge(*more));
    }
    /// How full its bands' buckets are, in billionths of the unit.
    pub(crate) fn levels(&self) -> Vec<u64> {
        self.rates.buckets().map(|b| b.tokens.load(Relaxed)).collect()
    }
    /// Fills its bands' buckets to these levels as of `now`, as far as they hold that much.
    pub(crate) fn set_levels(&self, levels: &[u64], now: Nanos) {
        for (b, n) in self.rates.buckets().zip(levels) {
            b.tokens.store((*n).min(b.full), Relaxed);
        }
        self.rates.last.fetch_max(now.0, Relaxed);
    }
    /// What its rates and bursts count.
    pub fn unit(&self) -> Unit {
        self.unit
    }
    /// Frames that came to it.
    pub fn counted(&self) -> Tally {
        match self.side {
            Side::Fast => self.with_slow(0, self.rates.counted.read()),
            Side::Slow => self.with_slow(0, Tally::default()),
        }
    }
    /// Its bands in the order given, and the frames that each decided.
    pub fn bands(&self) -> impl Iterator<Item = (Band, Tally)> + '_ {
        let own = self.rates.buckets().zip(&self.seldom.decided);
        (1..).zip(own).map(|(i, (b, t))| (b.band, self.with_slow(i, *t)))
    }
    fn with_slow(&self, i: usize, mut t: Tally) -> Tally {
        if let Some(s) = self.seldom.slow.as_ref().and_then(|s| s.get(i)) {
            t.merge(s.read());
        }
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bands past the first, and what both paths count of them, are as those of the first: in copies and where it is carried to, too.
    #[test]
    fn three_bands_on_two_paths() {
        let band = |kind, rate| Band { kind, rate, burst: rate };
        let bands = [
            band(BandKind::DscpRemark(1), 2),
            band(BandKind::Drop, 5),
            band(BandKind::DscpRemark(2), 3),
        ];
        let mut fast = Meter::new(Unit::Packets, &bands).unwrap();
        let mut slow = fast.share();
        // Two pass, one is over the first band's rate, two over the third's as well, the rest over all; by turns.
        let verdicts: Vec<Verdict> = (0..8)
            .map(|i| if i % 2 == 0 { &mut fast } else { &mut slow }.pass(Nanos(0), 100))
            .collect();
        use Verdict::{Drop, Pass, Remark};
        let want = [Pass, Pass, Remark(1), Remark(2), Remark(2), Drop, Drop, Drop];
        assert_eq!(verdicts, want);
        let tally = |frames: u64| Tally { frames, bytes: 100 * frames };
        let all = |m: &Meter| (m.counted(), m.bands().map(|b| b.1).collect::<Vec<_>>());
        let both = (tally(8), vec![tally(1), tally(3), tally(2)]);
        assert_eq!(all(&fast), both);
        // The slow path's own.
        assert_eq!(all(&slow), (tally(4), vec![tally(0), tally(2), tally(1)]));
        let mut copy = fast.clone();
        assert_eq!((all(&copy), copy.levels()), (both, fast.levels()));
        copy.pass(Nanos(0), 100);
        assert_eq!((copy.counted(), fast.counted()), (tally(9), tally(8)));
        let mut carried = Meter::new(Unit::Packets, &bands).unwrap();
        carried.add_counted(fast.counted(), &all(&fast).1);
        carried.set_levels(&[2 * SCALE, 0, SCALE], Nanos(7));
        assert_eq!((all(&carried), carried.levels()), (all(&fast), vec![2 * SCALE, 0, SCALE]));
        assert_eq!(carried.pass(Nanos(7), 100), Drop);
    }
}
