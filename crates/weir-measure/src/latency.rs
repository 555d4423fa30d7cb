//! Distributions of delays: a histogram of fixed size, and the percentiles that are reported.
//!
//! Touches nothing. Filled by the receiver, once per probe. Values are nanoseconds, kept to three
//! significant digits up to [`LONGEST`]; longer ones are kept as that.

use hdrhistogram::Histogram;

/// The longest delay that is told from longer ones: 1000 s, in nanoseconds.
pub const LONGEST: u64 = 1_000_000_000_000;
const DIGITS: u8 = 3;

/// A distribution of delays in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    // `None`: nothing is to be recorded. The library could refuse its constant bounds too, which a test
    // rules out.
    histogram: Option<Histogram<u64>>,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self { histogram: Histogram::new_with_bounds(1, LONGEST, DIGITS).ok() }
    }

    /// Of nothing, for ever: takes no memory.
    pub const fn none() -> Self {
        Self { histogram: None }
    }

    /// Adds one delay.
    #[inline]
    pub fn record(&mut self, delay_ns: u64) {
        if let Some(h) = &mut self.histogram {
            h.saturating_record(delay_ns);
        }
    }

    /// Adds another distribution's delays.
    pub fn merge(&mut self, other: &Self) {
        if let (Some(a), Some(b)) = (&mut self.histogram, &other.histogram) {
            // Both have the same bounds, so this can't fail.
            let _ = a.add(b);
        }
    }

    /// Delays recorded.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// The delay that a share `q` (0 to 1) of all does not exceed, in nanoseconds.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let h = self.histogram.as_ref().filter(|h| !h.is_empty())?;
        Some(h.value_at_quantile(q))
    }

    /// What is reported; `None` of nothing.
    pub fn summary(&self) -> Option<LatencySummary> {
        let h = self.histogram.as_ref().filter(|h| !h.is_empty())?;
        Some(LatencySummary {
            count: h.len(),
            min_ns: h.min(),
            p50_ns: h.value_at_quantile(0.5),
            p90_ns: h.value_at_quantile(0.9),
            p99_ns: h.value_at_quantile(0.99),
            p99_9_ns: h.value_at_quantile(0.999),
            max_ns: h.max(),
            mean_ns: h.mean(),
            standard_deviation_ns: h.stdev(),
        })
    }

    /// The percentile curve as (share of all delays, delay in nanoseconds), from the shortest to
    /// the longest, `steps` points for each halving of what remains.
    pub fn curve(&self, steps: u32) -> Vec<(f64, u64)> {
        let Some(h) = self.histogram.as_ref().filter(|h| !h.is_empty()) else { return Vec::new() };
        h.iter_quantiles(steps.clamp(1, 100))
            .map(|v| (v.quantile_iterated_to(), v.value_iterated_to().min(h.max())))
            .collect()
    }
}

/// A distribution in a few numbers, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySummary {
    /// Delays recorded.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 of 100 are no longer than this.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1000.
    pub p99_9_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub standard_deviation_ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_distribution() {
        let mut l = Latency::new();
        assert_eq!((l.summary(), l.quantile(0.5), l.curve(5).len()), (None, None, 0));
        for i in 1..=1000 {
            l.record(i * 1000);
        }
        let s = l.summary().unwrap();
        let near = |got: u64, want: u64| got.abs_diff(want) * 1000 <= want;
        assert_eq!(s.count, 1000);
        for (got, want) in
            [(s.min_ns, 1_000), (s.p50_ns, 500_000), (s.p99_ns, 990_000), (s.max_ns, 1_000_000)]
        {
            assert!(near(got, want), "{got} for {want}");
        }
        let curve = l.curve(5);
        assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!(curve.last().map(|p| p.0), Some(1.0));
        let mut more = Latency::new();
        more.record(u64::MAX);
        more.merge(&l);
        assert_eq!(more.count(), 1001);
        assert!(near(more.quantile(1.0).unwrap(), LONGEST));
    }
}
