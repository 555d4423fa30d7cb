//! How long lines stay in a cache that others fill, too.
//!
//! Whoever shares a host's last cache with strangers holds what it touched for a time, not for as many bytes: what
//! they bring in pushes out ours, however little that is. So the part of the lines that are gone is a curve over time.
//!
//! Room: a profile's. Asked by the estimator.

/// What others take of the last cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residence {
    /// Cycles that a load waits longer where others have taken its line.
    pub load_cycles: f64,
    /// Seconds since a line was touched, and the part of such lines that others have taken: growing.
    pub taken: Vec<(f64, f64)>,
    /// Bytes that the cache is said to hold: what goes through more is gone, whoever takes it.
    pub bytes: Option<f64>,
}

impl Residence {
    /// The part of the lines that others have taken, of those that were touched so many seconds ago: between what was
    /// measured, a straight line over the logarithm of time; before, in proportion to it.
    pub fn taken(&self, seconds: f64) -> f64 {
        let after = self.taken.partition_point(|t| t.0 < seconds);
        let (low, high) =
            (after.checked_sub(1).and_then(|l| self.taken.get(l)), self.taken.get(after));
        match (low, high) {
            (Some(l), Some(h)) => l.1 + (h.1 - l.1) * (seconds / l.0).ln() / (h.0 / l.0).ln(),
            (None, Some(h)) => h.1 * (seconds / h.0).max(0.0),
            (Some(l), None) => l.1,
            (None, None) => 0.0,
        }
    }

    /// Cycles of a load whose line was touched so many seconds ago, with so many bytes since, where others' loads took `near` in the cache and
    /// `far` when each was measured so many seconds after it was touched. What was measured where most lines were taken says
    /// itself what one that is taken costs.
    pub fn load_after(&self, bytes: f64, loads: (f64, f64), measured: f64, seconds: f64) -> f64 {
        self.load_where(bytes, self.taken(seconds), loads, measured)
    }
    /// The part of the lines that the cache may hold of so many bytes that are gone through: all of half of it, none of
    /// all of it, since sets do not fill evenly and who goes round in order finds nothing of what is larger.
    pub fn held(&self, bytes: f64) -> f64 {
        self.bytes.map_or(1.0, |all| (all / bytes).log2().clamp(0.0, 1.0))
    }
    /// The same where this part of the lines is taken now, by others than when this was measured, perhaps. What the cache
    /// can not hold is not nearer for being asked for sooner.
    pub fn load_where(
        &self,
        bytes: f64,
        taken: f64,
        (near, far): (f64, f64),
        measured: f64,
    ) -> f64 {
        let had = self.taken(measured);
        let each = if had > MOST { (far - near).max(0.0) / had } else { self.load_cycles };
        let put_right = (far + each * (taken - had)).max(near);
        far + (put_right - far) * self.held(bytes)
    }
}

/// Where more than this part of the lines was taken, a load's cycles are those of lines that were.
const MOST: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_grows_with_time() {
        let r = Residence {
            load_cycles: 100.0,
            taken: vec![(0.002, 0.1), (0.008, 0.5), (0.032, 0.9)],
            bytes: None,
        };
        assert_eq!(r.taken(0.0), 0.0);
        assert!((r.taken(0.001) - 0.05).abs() < 1e-9);
        assert!((r.taken(0.002) - 0.1).abs() < 1e-9);
        assert!((r.taken(0.004) - 0.3).abs() < 1e-9);
        assert!((r.taken(0.032) - 0.9).abs() < 1e-9);
        assert!((r.taken(5.0) - 0.9).abs() < 1e-9);
        assert_eq!(Residence::default().taken(1.0), 0.0);
    }

    #[test]
    fn a_load_is_as_far_as_its_line_is_gone() {
        let r = Residence {
            load_cycles: 300.0,
            taken: vec![(0.002, 0.1), (0.008, 0.5), (0.032, 0.9)],
            bytes: None,
        };
        // Measured with nine tenths taken: 50 of them cost 450 cycles, not 300 each.
        let strewn = |seconds| r.load_after(8e6, (50.0, 500.0), 0.032, seconds);
        assert!((strewn(0.032) - 500.0).abs() < 1e-9 && (strewn(0.002) - 100.0).abs() < 1e-9);
        assert!((strewn(0.0) - 50.0).abs() < 1e-9);
        // Measured with next to none taken: what one costs was measured elsewhere.
        let dense = |seconds| r.load_after(8e6, (50.0, 80.0), 0.002, seconds);
        assert!((dense(0.002) - 80.0).abs() < 1e-9 && (dense(0.032) - 320.0).abs() < 1e-9);
        // What is larger than the cache is not held, whatever others do.
        let of = Residence { bytes: Some(32e6), ..r.clone() };
        assert_eq!([8e6, 16e6, 32e6, 64e6].map(|b| of.held(b)), [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(r.held(1e12), 1.0);
        // Never nearer than the cache.
        assert_eq!(dense(0.0), 50.0);
        // Nobody takes any now: what was measured while they did is put right.
        assert!((r.load_where(8e6, 0.0, (50.0, 500.0), 0.032) - 50.0).abs() < 1e-9);
        assert!((r.load_where(8e6, 1.0, (50.0, 500.0), 0.032) - 550.0).abs() < 1e-9);
    }
}
