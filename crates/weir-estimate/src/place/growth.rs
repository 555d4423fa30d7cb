//! When a function outgrows its place: a straight line through its counters (least squares), and the
//! time at which it reaches what the place sustains.
//!
//! Room: arithmetic.

/// What the counters say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The rate now, by the line, in Mpps.
    pub now_mpps: f64,
    /// What it gains a day, in Mpps.
    pub per_day_mpps: f64,
    /// Seconds from the last sample until the place is full; nothing where it never is, zero where it
    /// is already.
    pub full_in_s: Option<f64>,
}

/// From samples of seconds and Mpps, for a place that sustains so many Mpps.
///
/// # Errors
/// Fewer than two samples, or none apart in time; numbers that are none.
pub fn growth(samples: &[(f64, f64)], capacity_mpps: f64) -> Result<Growth, String> {
    if samples.iter().any(|(t, m)| !t.is_finite() || !m.is_finite() || *m < 0.0) {
        return Err("a sample is not a number: expected seconds, and Mpps from zero".into());
    }
    let n = samples.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| samples.iter().map(f).sum::<f64>() / n;
    let (t, m) = (mean(|s| s.0), mean(|s| s.1));
    let across: f64 = samples.iter().map(|s| (s.0 - t) * (s.1 - m)).sum();
    let along: f64 = samples.iter().map(|s| (s.0 - t).powi(2)).sum();
    if samples.len() < 2 || along <= 0.0 {
        return Err(format!("{} samples: expected two at least, apart in time", samples.len()));
    }
    let slope = across / along;
    let last = samples.iter().map(|s| s.0).fold(f64::MIN, f64::max);
    let now = m + slope * (last - t);
    let full_in_s = match (now >= capacity_mpps, slope > 0.0) {
        (true, _) => Some(0.0),
        (false, true) => Some((capacity_mpps - now) / slope),
        (false, false) => None,
    };
    Ok(Growth { now_mpps: now, per_day_mpps: slope * 86_400.0, full_in_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_followed_to_where_it_ends() {
        let g = growth(&[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0)], 5.0).unwrap();
        assert!((g.now_mpps - 3.0).abs() < 1e-9);
        assert!((g.full_in_s.unwrap() - 20.0).abs() < 1e-9);
        assert_eq!(growth(&[(0.0, 2.0), (9.0, 1.0)], 5.0).unwrap().full_in_s, None);
        assert_eq!(growth(&[(0.0, 7.0), (9.0, 6.0)], 5.0).unwrap().full_in_s, Some(0.0));
        assert!(growth(&[(0.0, 1.0)], 5.0).is_err());
        assert!(growth(&[(1.0, 1.0), (1.0, 2.0)], 5.0).is_err());
        assert!(growth(&[(0.0, f64::NAN), (1.0, 2.0)], 5.0).is_err());
    }
}
