//! Summaries of few numbers: median, percentiles, fairness. Pure arithmetic over slices.
//!
//! Percentiles of samples are values at a rank ([`quantile`]), as a document's distributions have them
//! ([`crate::document::Distribution`]). Of repetitions, which are few, [`median`] and [`Summary`] go between the two
//! middle ones.
//!
//! For distributions of millions see [`crate::latency`]. Values that are not finite are left out
//! everywhere: a summary speaks of what could be measured, and says of how many.

use weir_packet::Nanos;

/// The finite values, smallest first.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    v.sort_unstable_by(f64::total_cmp);
    v
}

/// Frames lost of those sent, in percent; not a number where none was sent.
pub fn loss_percent(sent: u64, received: u64) -> f64 {
    if sent == 0 {
        return f64::NAN;
    }
    sent.saturating_sub(received) as f64 / sent as f64 * 100.0
}

/// Events a second: their intervals over the time from the first to the last; not a number where
/// that is none.
pub fn per_second(events: u64, first: Option<Nanos>, last: Option<Nanos>) -> f64 {
    match (first, last) {
        (Some(a), Some(b)) if b > a => events.saturating_sub(1) as f64 * 1e9 / b.since(a).0 as f64,
        _ => f64::NAN,
    }
}

/// The `q`-quantile, `q` from 0 to 1: the value at rank ⌈`q` · n⌉ (type 1 of Hyndman and Fan 1996), `q` in thousandths of
/// a percent. `None` of nothing, or for a `q` that is no number.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if q.is_nan() {
        return None;
    }
    // At most 100,000.
    let thousandths = (q.clamp(0.0, 1.0) * 1e5).round() as u32;
    let v = sorted(values);
    let rank = usize::try_from(rank(v.len() as u64, thousandths)).ok()?;
    v.get(rank.checked_sub(1)?).copied()
}

/// The nearest rank of a percentile, in thousandths of a percent, among `count`: from 1.
pub(crate) fn rank(count: u64, thousandths: u32) -> u64 {
    let rank = (u128::from(count) * u128::from(thousandths)).div_ceil(100_000);
    // Not above `count`, which is a `u64`.
    (rank as u64).max(1)
}

/// By linear interpolation between the closest ranks (type 7 of Hyndman and Fan 1996; what NumPy and R do by default).
fn between_ranks(v: &[f64], q: f64) -> Option<f64> {
    let last = v.len().checked_sub(1)?;
    // Between 0 and `last`.
    let at = q * last as f64;
    let low = *v.get(at.floor() as usize)?;
    let high = *v.get(at.ceil() as usize)?;
    let part = at - at.floor();
    // Weighted rather than `low + part × (high − low)`, which overflows for far ends.
    Some(low * (1.0 - part) + high * part)
}

/// Of repetitions: the middle value, or the mean of the two middle ones. `None` of nothing. Of samples that stand in a
/// document take [`quantile`], as its distributions do.
pub fn median(values: &[f64]) -> Option<f64> {
    between_ranks(&sorted(values), 0.5)
}

/// One-sided, of the normal distribution: by chance in one of twenty.
const SELDOM: f64 = 1.645;

/// Whether values are so large that it can't well be chance: larger than what `least` makes of those that they are
/// compared with, by the rank-sum test of Mann and Whitney (1947) with its continuity correction. Three values
/// beside three must all be; of fewer the test can say nothing, and all must be, too.
pub fn clearly_more(values: &[f64], others: &[f64], least: impl Fn(f64) -> f64) -> bool {
    let (a, b) = (sorted(values), sorted(others));
    let (n, m) = (a.len() as f64, b.len() as f64);
    let below = |v: f64| b.iter().filter(|&&o| v > least(o)).count() as f64;
    let more: f64 = a.iter().map(|&v| below(v)).sum();
    let all = n * m;
    if all < 9.0 {
        return all > 0.0 && more == all;
    }
    (more - all / 2.0 - 0.5) / (all * (n + m + 1.0) / 12.0).sqrt() > SELDOM
}

/// The slope of the straight line through points (x, y) whose squared distances in y are least. Points that
/// are not finite are left out; `None` of fewer than two, or of one x.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let all = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let n = all().count() as f64;
    let mean_x = all().map(|p| p.0).sum::<f64>() / n;
    let mean_y = all().map(|p| p.1).sum::<f64>() / n;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in all() {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x) * (x - mean_x);
    }
    (xx > 0.0).then(|| xy / xx)
}

/// Jain's fairness index of shares: 1 when all are equal, 1/n when one has all (Jain, Chiu, Hawe,
/// DEC-TR-301, 1984). `None` of nothing, or when every share is zero.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let v = sorted(shares);
    // Scaled, so that squares neither overflow nor vanish; the index does not change by it.
    let top = v.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if top == 0.0 {
        return None;
    }
    let (sum, squares) = v.iter().fold((0.0, 0.0), |(s, q), x| {
        let x = x / top;
        (s + x, q + x * x)
    });
    Some(sum * sum / (v.len() as f64 * squares))
}

/// Several runs of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The lower quartile.
    pub lower_quartile: f64,
    /// The median of the runs: what is reported as the result.
    pub median: f64,
    /// The upper quartile.
    pub upper_quartile: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample's standard deviation (over n − 1); 0 of one value.
    pub standard_deviation: f64,
}

impl Summary {
    /// Of these values; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let v = sorted(values);
        let at = |q| between_ranks(&v, q);
        let n = v.len() as f64;
        let mean = v.iter().map(|x| x / n).sum::<f64>();
        let spread = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let standard_deviation = if v.len() > 1 { (spread / (n - 1.0)).sqrt() } else { 0.0 };
        Some(Self {
            count: v.len(),
            min: at(0.0)?,
            lower_quartile: at(0.25)?,
            median: at(0.5)?,
            upper_quartile: at(0.75)?,
            max: at(1.0)?,
            mean,
            standard_deviation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        // numpy.percentile([15, 20, 35, 40, 50], 40, method='inverted_cdf') is 20; it never lies between two values.
        for (q, value) in
            [(0.0, 15.0), (0.4, 20.0), (0.401, 35.0), (0.5, 35.0), (0.9, 50.0), (1.0, 50.0)]
        {
            assert_eq!(quantile(&[50.0, 15.0, 20.0, 35.0, 40.0], q), Some(value), "{q}");
        }
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.0));
        assert_eq!(quantile(&[1.0, 2.0], f64::NAN), None);
        let s = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.count, s.min, s.median, s.max, s.mean), (8, 2.0, 4.5, 9.0, 5.0));
        assert!((s.standard_deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[5.0]).unwrap().standard_deviation, 0.0);
    }

    #[test]
    fn slopes() {
        // numpy.polyfit([0, 1, 2, 3], [1, 3, 2, 5], 1)[0] is 1.1.
        let s = slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (f64::NAN, 7.0), (3.0, 5.0)]).unwrap();
        assert!((s - 1.1).abs() < 1e-12, "{s}");
        assert_eq!(slope(&[(1.0, 1.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn fairness() {
        assert_eq!(jain_index(&[]), None);
        assert_eq!(jain_index(&[0.0, 0.0]), None);
        assert_eq!(jain_index(&[7.0, 7.0, 7.0]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[f64::MAX, f64::MAX]), Some(1.0));
    }

    proptest! {
        /// Tables and distributions of the same values say the same of them.
        #[test]
        fn quantiles_are_those_of_distributions(v in prop::collection::vec(-1e6..1e6f64, 0..300), percent in 0u32..=100) {
            let mut samples = crate::document::Samples::new("");
            v.iter().for_each(|&x| samples.record(x));
            let percent = f64::from(percent);
            prop_assert_eq!(quantile(&v, percent / 100.0), samples.percentile(percent));
        }

        #[test]
        fn median_has_half_on_each_side(v in prop::collection::vec(-1e6..1e6f64, 1..60)) {
            let m = median(&v).unwrap();
            let below = v.iter().filter(|x| **x < m).count();
            let above = v.iter().filter(|x| **x > m).count();
            prop_assert!(below <= v.len() / 2 && above <= v.len() / 2);
        }

        #[test]
        fn any_numbers_are_survived(v in prop::collection::vec(any::<f64>(), 0..20), q in any::<f64>()) {
            let _ = (quantile(&v, q), Summary::of(&v));
            let shares: Vec<f64> = v.iter().map(|x| x.abs()).collect();
            if let Some(j) = jain_index(&shares) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&j), "{j}");
            }
        }
    }

    #[test]
    fn what_may_be_chance_is_not_clearly_more() {
        let twice = |v: f64| 2.0 * v;
        assert!(clearly_more(&[5.0, 6.0, 9.0], &[1.0, 2.0, 1.0], twice));
        // Two of three repetitions stood still for a while.
        assert!(!clearly_more(&[1.0, 6.0, 9.0], &[1.0, 2.0, 1.0], twice));
        assert!(!clearly_more(&[5.0, 6.0, 9.0], &[1.0, 2.0, 4.0], twice));
        // Of many a few may be anything.
        let many = |v: f64, odd: f64| [vec![v; 18], vec![odd; 2]].concat();
        assert!(clearly_more(&many(5.0, 1.0), &many(1.0, 30.0), twice));
        assert!(!clearly_more(&many(1.5, 30.0), &many(1.0, 1.0), twice));
        assert!(clearly_more(&[5.0], &[1.0], twice) && !clearly_more(&[], &[1.0], twice));
        // What is no number is left out.
        assert!(clearly_more(&[7.0, f64::NAN], &[3.0], twice));
    }
}
