//! Distributions: every sample while there is room, and percentiles of all of them.
//!
//! Touches nothing. [`Samples`] is filled one value at a time by modules, in bounded memory; what
//! leaves the process is the [`Distribution`], and a file of the samples beside it.
//!
//! While all samples are kept, percentiles are exact: the nearest rank. Past [`KEEP`] they are an
//! HdrHistogram's, to three significant digits; the distribution says which. Count, extremes, mean and
//! standard deviation are of all samples either way (Welford, Technometrics 4, 1962).

use crate::stats::rank;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Samples that are kept one by one: 32 MB of them.
pub const KEEP: usize = 4_000_000;

/// The percentiles of every distribution, in thousandths of a percent: enough for a curve.
const PERCENTILES: [u32; 29] = [
    0, 100, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000,
    50_000, 55_000, 60_000, 65_000, 70_000, 75_000, 80_000, 85_000, 90_000, 95_000, 97_500, 99_000,
    99_500, 99_900, 99_990, 100_000,
];

/// The histogram counts in thousandths of the unit, up to 10^12 units.
const STEP: f64 = 1e-3;
const LARGEST: u64 = 1_000_000_000_000_000;
const DIGITS: u8 = 3;

/// A distribution, as it stands in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Names it in its document, and its file of samples: letters, digits, `-`, `_`.
    pub id: String,
    /// What it is of, short enough for a legend.
    pub title: String,
    /// Distributions of one group and unit are drawn together; the group is that figure's title.
    #[serde(default)]
    pub group: String,
    /// Unit of all its values.
    pub unit: String,
    /// Values recorded.
    pub count: u64,
    /// Attempts that gave no value: probes that did not come back.
    #[serde(default)]
    pub missing: u64,
    /// The smallest; `None` of nothing, as all that follow.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// The arithmetic mean.
    pub mean: Option<f64>,
    /// The sample's standard deviation (over n − 1); 0 of one value.
    pub standard_deviation: Option<f64>,
    /// How the percentiles were computed.
    pub method: Method,
    /// (percent, value): so many of a hundred values are not above it. By rising percent.
    pub percentiles: Vec<(f64, f64)>,
    /// The samples' file, beside the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleFile>,
    /// The samples, in the order in which they were taken; in the file, not in the JSON.
    #[serde(skip)]
    pub raw: Vec<f64>,
}

/// How percentiles were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// From all samples: the value at rank ⌈p/100 × n⌉.
    Exact,
    /// By HdrHistogram, to three significant digits.
    Histogram,
}

/// A file of samples: a line of text with the unit, then a decimal number on each line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleFile {
    /// Its name, in the document's directory.
    pub file: String,
    /// Samples in it: the first so many of those counted.
    pub count: u64,
}

impl Distribution {
    /// The value that `percent` of a hundred do not exceed; `None` unless the curve has that percent.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentiles.iter().find(|p| p.0 == percent).map(|p| p.1)
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        self.percentile(50.0)
    }
}

/// Samples being taken.
#[derive(Clone, Debug)]
pub struct Samples {
    unit: String,
    group: String,
    keep: usize,
    raw: Vec<f64>,
    count: u64,
    missing: u64,
    min: f64,
    max: f64,
    mean: f64,
    squares: f64,
    /// From the moment when not all are kept.
    histograms: Option<Signed>,
}

impl Samples {
    /// In `unit`, none yet.
    pub fn new(unit: &str) -> Self {
        Self::keeping(unit, KEEP)
    }

    /// None yet; the first `keep` are kept one by one.
    pub fn keeping(unit: &str, keep: usize) -> Self {
        Self {
            unit: unit.to_owned(),
            group: String::new(),
            keep,
            raw: Vec::new(),
            count: 0,
            missing: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
            histograms: None,
        }
    }

    /// To be drawn together with the others of that group.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        group.clone_into(&mut self.group);
        self
    }

    /// Adds a value; one that is not finite counts as missing.
    pub fn record(&mut self, value: f64) {
        if !value.is_finite() {
            return self.miss();
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        if self.raw.len() < self.keep {
            return self.raw.push(value);
        }
        let raw = &self.raw;
        self.histograms.get_or_insert_with(|| Signed::of(raw)).record(value);
    }

    /// An attempt that gave no value.
    pub fn miss(&mut self) {
        self.missing += 1;
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Attempts without a value.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The samples that are kept, in the order in which they were taken.
    pub fn kept(&self) -> &[f64] {
        &self.raw
    }

    /// The value that `percent` (0 to 100) of a hundred do not exceed; `None` of nothing.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        // Thousandths: at most 100,000.
        let p = (percent.clamp(0.0, 100.0) * 1e3).round() as u32;
        self.curve(&[p]).first().map(|p| p.1)
    }

    fn curve(&self, thousandths: &[u32]) -> Vec<(f64, f64)> {
        let sorted = self.histograms.is_none().then(|| {
            let mut v = self.raw.clone();
            v.sort_unstable_by(f64::total_cmp);
            v
        });
        let at = |p: u32| {
            let rank = rank(self.count, p);
            match (p, &sorted, &self.histograms) {
                _ if self.count == 0 => None,
                (0, ..) => Some(self.min),
                (100_000, ..) => Some(self.max),
                (_, Some(v), _) => v.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied(),
                (_, _, Some(h)) => Some(h.at_rank(rank).clamp(self.min, self.max)),
                _ => None,
            }
        };
        thousandths.iter().filter_map(|&p| at(p).map(|v| (f64::from(p) / 1e3, v))).collect()
    }

    /// What stands in a document.
    pub fn into_distribution(self, id: &str, title: &str) -> Distribution {
        let some = |v: f64| (self.count > 0).then_some(v);
        let deviation = match self.count {
            0 | 1 => 0.0,
            n => (self.squares / (n - 1) as f64).max(0.0).sqrt(),
        };
        Distribution {
            id: id.to_owned(),
            title: title.to_owned(),
            count: self.count,
            missing: self.missing,
            min: some(self.min),
            max: some(self.max),
            mean: some(self.mean),
            standard_deviation: some(deviation),
            method: if self.histograms.is_some() { Method::Histogram } else { Method::Exact },
            percentiles: self.curve(&PERCENTILES),
            samples: None,
            group: self.group,
            unit: self.unit,
            raw: self.raw,
        }
    }
}

/// A histogram of values of either sign.
#[derive(Clone, Debug)]
struct Signed {
    // `None` only if the library refused its constant bounds, which a test rules out.
    above: Option<Histogram<u64>>,
    below: Option<Histogram<u64>>,
}

impl Signed {
    fn of(values: &[f64]) -> Self {
        let new = || Histogram::new_with_bounds(1, LARGEST, DIGITS).ok();
        let mut all = Self { above: new(), below: new() };
        for &v in values {
            all.record(v);
        }
        all
    }

    fn record(&mut self, value: f64) {
        let side = if value < 0.0 { &mut self.below } else { &mut self.above };
        if let Some(h) = side {
            // Casts of floats saturate.
            h.saturating_record((value.abs() / STEP).round() as u64);
        }
    }

    /// The value at a rank, from 1: the smallest is the last of those below zero.
    fn at_rank(&self, rank: u64) -> f64 {
        let at = |h: &Option<Histogram<u64>>, rank: u64| {
            let h = h.as_ref().filter(|h| !h.is_empty());
            // Half a rank back, so that rounding in the library's division can't reach the next one.
            let value = |h: &Histogram<u64>| {
                h.value_at_quantile((rank as f64 - 0.5) / h.len() as f64) as f64 * STEP
            };
            h.map_or(0.0, value)
        };
        let below = self.below.as_ref().map_or(0, Histogram::len);
        if rank <= below {
            -at(&self.below, below - rank + 1)
        } else {
            at(&self.above, rank - below)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(keep: usize, values: &[f64]) -> Distribution {
        let mut s = Samples::keeping("ns", keep);
        for &v in values {
            s.record(v);
        }
        s.into_distribution("d", "delay")
    }

    #[test]
    fn a_known_distribution() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let d = of(KEEP, &values);
        assert_eq!((d.count, d.method), (1000, Method::Exact));
        for (p, v) in [(0.0, 1.0), (50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)] {
            assert_eq!(d.percentile(p), Some(v), "{p}");
        }
        assert_eq!(d.mean, Some(500.5));
        // numpy.std(range(1, 1001), ddof=1)
        assert!((d.standard_deviation.unwrap() - 288.819_436_095_748_9).abs() < 1e-9);
        let none = of(KEEP, &[]);
        assert_eq!((none.count, none.min, none.percentiles.len()), (0, None, 0));
        let one = of(KEEP, &[-4.0, f64::NAN]);
        assert_eq!((one.median(), one.missing, one.standard_deviation), (Some(-4.0), 1, Some(0.0)));
    }

    #[test]
    fn past_what_is_kept_it_is_a_histogram() {
        let values: Vec<f64> = (0..5000).map(|i| f64::from(i) - 2500.0).collect();
        let d = of(100, &values);
        assert_eq!((d.count, d.method, d.raw.len()), (5000, Method::Histogram, 100));
        assert!(Signed::of(&[]).above.is_some());
    }

    proptest! {
        /// The histogram never strays further from the exact percentiles than its three digits.
        #[test]
        fn both_methods_agree(v in prop::collection::vec(-1e9..1e9f64, 1..300), keep in 0..40usize) {
            let (exact, rough) = (of(KEEP, &v), of(keep, &v));
            prop_assert_eq!(exact.percentiles.len(), rough.percentiles.len());
            for (a, b) in exact.percentiles.iter().zip(&rough.percentiles) {
                prop_assert!((a.1 - b.1).abs() <= a.1.abs() * 1e-3 + STEP, "{a:?} {b:?}");
            }
            prop_assert!(exact.percentiles.is_sorted_by(|a, b| a.1 <= b.1));
            prop_assert_eq!(exact.mean, rough.mean);
        }

        #[test]
        fn any_numbers_are_survived(v in prop::collection::vec(any::<f64>(), 0..30), keep in 0..40usize) {
            let d = of(keep, &v);
            prop_assert_eq!(d.count + d.missing, v.len() as u64);
        }
    }
}
