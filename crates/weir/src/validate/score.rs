//! How good estimates are: errors, and whether the order is right.
//!
//! Room: arithmetic over pairs of measured and estimated.

use serde::Serialize;

/// Of one way to estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Pairs that it is about.
    pub points: usize,
    /// Median of the absolute relative errors.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// Kendall's tau-b between measured and estimated.
    pub tau: f64,
}

impl Score {
    /// Of pairs (measured, estimated); nothing of none.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut errors: Vec<f64> = pairs.iter().map(|(m, e)| (e / m - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        Some(Self {
            points: pairs.len(),
            median: quantile(&errors, 0.5)?,
            p90: quantile(&errors, 0.9)?,
            tau: kendall(pairs),
        })
    }
}

/// A quantile of sorted numbers, between neighbours.
pub fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = part * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

/// Kendall's tau-b: 1 where both put all points in the same order. Ties in either count for neither.
pub fn kendall(pairs: &[(f64, f64)]) -> f64 {
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for (i, a) in pairs.iter().enumerate() {
        for b in pairs.iter().skip(i + 1) {
            let sign = |d: f64| if d == 0.0 { 0.0 } else { d.signum() };
            let (x, y) = (sign(a.0 - b.0), sign(a.1 - b.1));
            sum += x * y;
            first += x * x;
            second += y * y;
        }
    }
    let all: f64 = first * second;
    if all > 0.0 { sum / all.sqrt() } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_is_one_for_the_same_order() {
        assert_eq!(kendall(&[(1.0, 5.0), (2.0, 6.0), (3.0, 9.0)]), 1.0);
        assert_eq!(kendall(&[(1.0, 9.0), (2.0, 6.0), (3.0, 5.0)]), -1.0);
        // Two of three pairs are ordered by the estimate, and rightly.
        let t = kendall(&[(1.0, 5.0), (2.0, 5.0), (3.0, 9.0)]);
        assert!((t - 2.0 / 6f64.sqrt()).abs() < 1e-12, "{t}");
    }

    #[test]
    fn errors_are_relative() {
        let s = Score::of(&[(100.0, 110.0), (200.0, 180.0), (50.0, 80.0)]).expect("a score");
        assert!((s.median - 0.1).abs() < 1e-12);
        assert!((s.p90 - 0.5).abs() < 1e-12 || s.p90 < 0.6, "{s:?}");
        assert_eq!(Score::of(&[]), None);
    }
}
