//! Costs over parameters: coefficients, none below zero, such that a sum of terms comes nearest to what
//! was measured. Nearest as a part of what was measured: 5 cycles weigh as much as 5,000.
//!
//! Room: numbers alone. Called by `shape`. A cost has few terms, so every choice of terms that may stay
//! is tried (2 to the power of their number), which finds the optimum without iterating.

/// Most terms of a cost.
pub const MOST_TERMS: usize = 12;

/// A point: the value of each term there, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Terms.
    pub terms: Vec<f64>,
    /// Cycles.
    pub cycles: f64,
    /// Cycles that they may be off: half their interval.
    pub noise: f64,
}

/// Coefficients, and how far they are from the points.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// One for each term, zero or more.
    pub coefficients: Vec<f64>,
    /// The largest distance of any point, as a part of what was measured there (of a cycle, where less
    /// was measured).
    pub worst: f64,
}

/// What a cost must have been measured at to weigh as a part of itself, in cycles: what is left of
/// less is noise.
const LEAST: f64 = 1.0;

impl Point {
    /// What a distance is a part of: what was measured, but for what is lost in noise.
    fn scale(&self) -> f64 {
        self.cycles.max(NOISE * self.noise).max(LEAST)
    }
}

/// So many times its noise must be measured for a point to weigh as a part of itself.
const NOISE: f64 = 4.0;

/// The coefficients that come nearest; nothing without points, or with points that don't have as many
/// terms as the first.
pub fn fit(points: &[Point]) -> Option<Fit> {
    let terms = points.first()?.terms.len();
    if terms > MOST_TERMS || points.iter().any(|p| p.terms.len() != terms) {
        return None;
    }
    let mut best: Option<(f64, Vec<f64>)> = None;
    for chosen in 0..1u32 << terms {
        let of: Vec<usize> = (0..terms).filter(|t| chosen >> t & 1 == 1).collect();
        let Some(solved) = least_squares(points, &of) else { continue };
        if solved.iter().any(|c| *c < 0.0) {
            continue;
        }
        let mut coefficients = vec![0.0; terms];
        for (t, c) in of.iter().zip(solved) {
            coefficients[*t] = c;
        }
        let off: f64 = points.iter().map(|p| distance(p, &coefficients).powi(2)).sum();
        // What a term brings must be more than rounding.
        if best.as_ref().is_none_or(|b| off < b.0 * (1.0 - 1e-9) - 1e-12) {
            best = Some((off, coefficients));
        }
    }
    let (_, coefficients) = best?;
    let worst = points.iter().map(|p| distance(p, &coefficients).abs()).fold(0.0, f64::max);
    Some(Fit { coefficients, worst })
}

/// How far a point is, as a part of what was measured.
fn distance(p: &Point, coefficients: &[f64]) -> f64 {
    let said: f64 = p.terms.iter().zip(coefficients).map(|(t, c)| t * c).sum();
    (said - p.cycles) / p.scale()
}

/// Weighted least squares over some of the terms: normal equations, by Gauss with pivots. Nothing where
/// terms can't be told from each other.
fn least_squares(points: &[Point], of: &[usize]) -> Option<Vec<f64>> {
    let n = of.len();
    let mut rows = vec![vec![0.0; n + 1]; n];
    for p in points {
        let weight = 1.0 / p.scale().powi(2);
        for (row, i) in rows.iter_mut().zip(of) {
            let a = p.terms[*i] * weight;
            for (cell, j) in row.iter_mut().zip(of) {
                *cell += a * p.terms[*j];
            }
            row[n] += a * p.cycles;
        }
    }
    for k in 0..n {
        let pivot = (k..n).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs()))?;
        rows.swap(k, pivot);
        let scale = rows[k].iter().take(n).fold(0.0f64, |m, v| m.max(v.abs()));
        if rows[k][k].abs() <= scale * 1e-9 || rows[k][k].abs() < 1e-30 {
            return None;
        }
        for i in 0..n {
            if i != k {
                let factor = rows[i][k] / rows[k][k];
                let row = rows[k].clone();
                for (cell, v) in rows[i].iter_mut().zip(row) {
                    *cell -= factor * v;
                }
            }
        }
    }
    Some((0..n).map(|i| rows[i][n] / rows[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(of: &[(f64, f64)]) -> Vec<Point> {
        of.iter().map(|(x, y)| Point { terms: vec![1.0, *x], cycles: *y, noise: 0.0 }).collect()
    }

    #[test]
    fn a_line_is_found() {
        let f = fit(&points(&[(1.0, 12.0), (2.0, 14.0), (8.0, 26.0)])).expect("a fit");
        assert!((f.coefficients[0] - 10.0).abs() < 1e-6 && (f.coefficients[1] - 2.0).abs() < 1e-6);
        assert!(f.worst < 1e-6);
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        // The line that fits has its base below zero: the best without one is taken.
        let f = fit(&points(&[(1.0, 1.0), (2.0, 4.0), (3.0, 7.0)])).expect("a fit");
        assert_eq!(f.coefficients[0], 0.0);
        assert!(f.coefficients[1] > 1.0 && f.worst > 0.1);
    }

    #[test]
    fn terms_that_are_alike_are_told_once() {
        let p = |x: f64| Point { terms: vec![x, 2.0 * x], cycles: 6.0 * x, noise: 0.0 };
        let f = fit(&[p(1.0), p(2.0), p(5.0)]).expect("a fit");
        assert!((f.coefficients[0] + 2.0 * f.coefficients[1] - 6.0).abs() < 1e-6);
        assert_eq!(fit(&[]), None);
    }

    proptest! {
        #[test]
        fn what_was_made_of_terms_is_found_again(
            truth in prop::collection::vec(0.0f64..100.0, 3),
            xs in prop::collection::vec((1.0f64..50.0, 1.0f64..50.0), 6..20),
        ) {
            let all: Vec<Point> = xs
                .iter()
                .map(|(a, b)| {
                    let terms = vec![1.0, *a, *b];
                    let cycles = terms.iter().zip(&truth).map(|(t, c)| t * c).sum();
                    Point { terms, cycles, noise: 0.0 }
                })
                .collect();
            let f = fit(&all).expect("a fit");
            prop_assert!(f.worst < 1e-3, "{:?} for {:?}", f, truth);
        }
    }
}
