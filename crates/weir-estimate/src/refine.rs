//! Refinement: measurements of a running function correct a profile's figures, by recursive least
//! squares with forgetting, and tell when the world has changed.
//!
//! Each operation's cycles are taken as the profile's times a factor, 1 to begin with; a measurement of
//! cycles for a frame is the sum over the operations. Directions that no measurement excites stay
//! as they are. (Ljung, Söderström, *Theory and Practice of Recursive
//! Identification*, 1983, §2.2.) Drift is found by a two-sided CUSUM over the errors of prediction
//! (Page, Biometrika 1954).
//!
//! Room: arithmetic over measurements. Reading them is `pmd`'s and the binary's.

pub mod pmd;
mod rewrite;

pub use rewrite::rewrite;

use crate::estimate::Estimate;
use crate::formula::Formula;
use crate::profile::{Profile, Provenance};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How quickly old measurements are forgotten: the last 1 / (1 - this) count.
const FORGETTING: f64 = 0.98;
/// What the profile's factors are trusted at first: a standard deviation of one half.
const FIRST_VARIANCE: f64 = 0.25;
/// A measurement's own error, as a part of it.
const NOISE: f64 = 0.03;
/// CUSUM's slack and threshold, in standard deviations.
const SLACK: f64 = 0.5;
const THRESHOLD: f64 = 5.0;
/// Measurements before errors of prediction count as drift: the factors must have settled.
const SETTLED: usize = 10;
/// Least and most that a factor may become.
const FACTORS: (f64, f64) = (0.05, 20.0);
/// A measurement has fewer cycles for a frame.
const MOST_CYCLES: f64 = 1e12;

/// Factors of a profile's costs, refined by measurements.
#[derive(Clone, Debug)]
pub struct Refiner {
    names: Vec<Arc<str>>,
    factors: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    seen: usize,
    since_drift: usize,
    scale: f64,
    above: f64,
    below: f64,
}

/// What a measurement taught.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Cycles that were predicted with the factors as they were.
    pub predicted: f64,
    /// Cycles that were measured.
    pub measured: f64,
    /// The error of prediction, as a part of what was measured.
    pub error: f64,
    /// Whether the world seems to have changed.
    pub drift: Drift,
}

/// Whether the world seems to have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// No.
    None,
    /// Frames cost more than before.
    Dearer,
    /// Frames cost less than before.
    Cheaper,
}

impl Refiner {
    /// For the operations of a profile.
    pub fn new(profile: &Profile) -> Self {
        let names: Vec<Arc<str>> =
            profile.costs.keys().cloned().chain([Arc::from("memory")]).collect();
        let n = names.len();
        let row = |i: usize| (0..n).map(|j| if i == j { FIRST_VARIANCE } else { 0.0 }).collect();
        Self {
            factors: vec![1.0; n],
            covariance: (0..n).map(row).collect(),
            names,
            seen: 0,
            since_drift: 0,
            scale: NOISE,
            above: 0.0,
            below: 0.0,
        }
    }

    /// How much each operation takes part in an estimate, in cycles of the profile, waits last.
    fn shares(&self, e: &Estimate) -> Vec<f64> {
        let mut shares = vec![0.0; self.names.len()];
        for o in &e.operations {
            let place = self.names.iter().position(|n| *n == o.eo);
            if let Some(s) = place.and_then(|p| shares.get_mut(p)) {
                *s += o.times * o.cycles;
            }
            if let Some(s) = shares.last_mut() {
                *s += o.times * o.wait_cycles;
            }
        }
        shares
    }

    /// Cycles for a frame, by an estimate of the unrefined profile and what was learned since.
    pub fn predict(&self, e: &Estimate) -> f64 {
        self.shares(e).iter().zip(&self.factors).map(|(s, f)| s * f).sum()
    }

    /// Learns from a measurement of what `e` estimates, on the unrefined profile: cycles for a frame.
    ///
    /// # Errors
    /// A measurement that is no number above zero, or beyond all that a frame takes.
    pub fn learn(&mut self, e: &Estimate, measured: f64) -> Result<Step, String> {
        if !(measured > 0.0 && measured < MOST_CYCLES) {
            // Hundreds of digits tell nobody anything.
            let shown =
                if measured.abs() < 1e15 { measured.to_string() } else { format!("{measured:e}") };
            return Err(format!(
                "{shown} cycles for a frame: expected a number above zero and below {MOST_CYCLES:e}"
            ));
        }
        // In parts of what is measured, so that cheap and dear functions teach alike.
        let shares: Vec<f64> = self.shares(e).iter().map(|s| s / measured).collect();
        let predicted: f64 = shares.iter().zip(&self.factors).map(|(s, f)| s * f).sum();
        let error = 1.0 - predicted;
        let gain: Vec<f64> = self
            .covariance
            .iter()
            .map(|row| row.iter().zip(&shares).map(|(p, s)| p * s).sum())
            .collect();
        let spread: f64 = shares.iter().zip(&gain).map(|(s, g)| s * g).sum();
        let whole = FORGETTING * NOISE * NOISE + spread;
        for (f, g) in self.factors.iter_mut().zip(&gain) {
            *f = (*f + g / whole * error).clamp(FACTORS.0, FACTORS.1);
        }
        for (row, gi) in self.covariance.iter_mut().zip(&gain) {
            row.iter_mut().zip(&gain).for_each(|(p, gj)| *p -= gi * gj / whole);
        }
        self.fade(&shares);
        self.seen += 1;
        self.since_drift += 1;
        Ok(Step { predicted: predicted * measured, measured, error, drift: self.watch(error) })
    }

    /// Trusts what was learned a little less, where this measurement had a say, and up to a bound:
    /// directions that are seldom excited must not lose all that is known of them.
    fn fade(&mut self, shares: &[f64]) {
        let excited: Vec<bool> = shares.iter().map(|s| *s > 0.0).collect();
        let widest = self
            .covariance
            .iter()
            .enumerate()
            .filter(|(i, _)| excited.get(*i) == Some(&true))
            .filter_map(|(i, row)| row.get(i).copied())
            .fold(0.0, f64::max);
        if widest / FORGETTING > FIRST_VARIANCE {
            return;
        }
        for (row, ei) in self.covariance.iter_mut().zip(&excited) {
            for (p, ej) in row.iter_mut().zip(&excited) {
                if *ei && *ej {
                    *p /= FORGETTING;
                }
            }
        }
    }

    /// CUSUM over errors of prediction, in their own standard deviations.
    fn watch(&mut self, error: f64) -> Drift {
        if self.since_drift <= SETTLED {
            return Drift::None;
        }
        let z = error / self.scale.max(NOISE);
        self.above = (self.above + z - SLACK).max(0.0);
        self.below = (self.below - z - SLACK).max(0.0);
        // A slow mean of the errors' size; a jump must not excuse itself.
        self.scale += (error.abs().min(3.0 * self.scale) - self.scale) / 50.0;
        let drift = match (self.above > THRESHOLD, self.below > THRESHOLD) {
            (true, _) => Drift::Dearer,
            (_, true) => Drift::Cheaper,
            _ => return Drift::None,
        };
        self.forget();
        drift
    }

    /// The world has changed: factors stay where they are, and are trusted as little as at first.
    fn forget(&mut self) {
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, p) in row.iter_mut().enumerate() {
                *p = if i == j { FIRST_VARIANCE } else { 0.0 };
            }
        }
        (self.above, self.below, self.since_drift) = (0.0, 0.0, 0);
    }

    /// Measurements so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// The factor of each operation that differs from 1, and of waits for memory as `memory`.
    pub fn factors(&self) -> BTreeMap<Arc<str>, f64> {
        let changed = |(_, f): &(&Arc<str>, &f64)| (**f - 1.0).abs() > 1e-9;
        let all = self.names.iter().zip(&self.factors).filter(changed);
        all.map(|(n, f)| (Arc::clone(n), *f)).collect()
    }

    /// The profile with its costs corrected: its estimates are what [`Refiner::predict`] says.
    pub fn apply(&self, profile: &Profile) -> Profile {
        let mut refined = profile.clone();
        for (name, factor) in self.factors() {
            if *name == *"memory"
                && let crate::profile::Hardware::Processor(p) = &mut refined.hardware
            {
                p.wait_factor *= factor;
            }
            if let Some(cost) = refined.costs.get_mut(&name) {
                cost.cycles = Formula::times(factor, &cost.cycles);
                if let Some((cycles, _)) = &mut cost.remote {
                    *cycles = Formula::times(factor, cycles);
                }
                cost.provenance = Provenance::Fitted;
                cost.source = format!("{}; refined by {} measurements", cost.source, self.seen);
            }
        }
        refined
    }
}
