//! Whether the machine is as it was calibrated: what an empty VDP takes of a frame now, against what the profile
//! says it took then.
//!
//! Room: a data plane without a function, and no estimate but one operation's. Neighbours of a shared machine take
//! cache and memory for seconds or minutes; a chain of instructions, by which the clock is watched, feels nothing
//! of it. Called by `validate::row`.

use super::measure::cycles;
use crate::platform;
use crate::study::memory::Bench;
use anyhow::Result;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_estimate::Profile;

/// So much more than the profile says is another state of the machine, not noise.
const MOST: f64 = 1.1;
/// How often a case is tried.
const TRIES: usize = 3;
/// Seconds of a reading.
const SECONDS: f64 = 0.02;
/// Time for tries beyond the first, of all cases together.
const PATIENCE: Duration = Duration::from_secs(90);

/// An empty VDP for each length of frames, and what is left of the patience.
pub struct Yardstick {
    profile: Option<Profile>,
    planes: BTreeMap<usize, Bench>,
    patience: Duration,
}

impl Yardstick {
    /// By a profile.
    pub fn new(profile: &Profile) -> Self {
        Self { profile: Some(profile.clone()), planes: BTreeMap::new(), patience: PATIENCE }
    }

    /// None: nothing is read, and every case tried once.
    pub fn none() -> Self {
        Self { profile: None, planes: BTreeMap::new(), patience: Duration::ZERO }
    }

    /// What the profile says of an empty VDP and frames of so many bytes without FCS.
    fn said(&self, len: usize) -> Option<f64> {
        let cost = self.profile.as_ref()?.costs.get("vdp_pass")?;
        let names = |name: &str| match name {
            "b" => Some(len as f64),
            "line" => Some(64.0),
            "sources" | "usual" | "ip4" | "transports" => Some(1.0),
            // It runs at the pace that it was measured at.
            "tags" | "labels" | "ip6" | "gone" => Some(0.0),
            name => cost.coefficients.iter().find(|c| *c.0 == *name).map(|c| c.1),
        };
        cost.cycles.value(&names).ok()
    }

    /// What it takes now, as a multiple of what the profile says; nothing where that says nothing.
    fn reading(&mut self, len: usize) -> Result<Option<f64>> {
        let Some(said) = self.said(len) else { return Ok(None) };
        let bench = match self.planes.entry(len) {
            std::collections::btree_map::Entry::Occupied(o) => o.into_mut(),
            std::collections::btree_map::Entry::Vacant(v) => {
                v.insert(Bench::new(platform::pass(len)?))
            }
        };
        Ok(Some(cycles(bench, 0, SECONDS)?.0 / said))
    }

    /// Measures between two readings, again where they say that the machine is another one, as long as there is
    /// patience; gives what was measured at the least reading, and that.
    ///
    /// # Errors
    /// Those of the measurement.
    pub fn between<T>(
        &mut self,
        len: usize,
        mut measure: impl FnMut() -> Result<T>,
    ) -> Result<(T, Option<f64>)> {
        let mut best: Option<(T, f64)> = None;
        for round in 0..TRIES {
            let begin = Instant::now();
            let before = self.reading(len)?;
            let found = measure()?;
            let (Some(before), Some(after)) = (before, self.reading(len)?) else {
                return Ok((found, None));
            };
            let reading = before.max(after);
            if round > 0 {
                self.patience = self.patience.saturating_sub(begin.elapsed());
            }
            if best.as_ref().is_none_or(|b| reading < b.1) {
                best = Some((found, reading));
            }
            if best.as_ref().is_some_and(|b| b.1 <= MOST) || self.patience.is_zero() {
                break;
            }
        }
        let (found, reading) = best.ok_or_else(|| anyhow::anyhow!("nothing was measured"))?;
        Ok((found, Some(reading)))
    }
}

/// Whether a reading says that the machine is as it was calibrated.
pub fn is_as_calibrated(reading: f64) -> bool {
    reading <= MOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::estimate::{Files, shelf};

    fn yardstick(cycles: &str) -> Yardstick {
        let library = shelf::library(&Files::default()).expect("a library");
        let mut profile = shelf::profile(&library, "xeon-e5-2690v2").expect("a profile");
        let cost = profile.costs.get_mut("vdp_pass").expect("the pass");
        cost.cycles = weir_estimate::formula::Formula::read(cycles).expect("a formula");
        Yardstick::new(&profile)
    }

    /// What is measured on a machine that is said to be slower is taken at once; else the least is kept.
    #[test]
    fn a_case_is_tried_again_where_the_machine_is_another_one() {
        let mut tries = 0;
        let mut count = |y: &mut Yardstick| {
            tries = 0;
            let found = y.between(60, || {
                tries += 1;
                Ok(tries)
            });
            (found.expect("a measurement"), tries)
        };
        let ((found, reading), tries) = count(&mut yardstick("b * 1000000"));
        assert_eq!((found, tries), (1, 1));
        assert!(reading.is_some_and(is_as_calibrated));
        let ((found, reading), tries) = count(&mut yardstick("0.001"));
        assert!(tries == TRIES && (1..=TRIES).contains(&found), "{tries} {found}");
        assert!(reading.is_some_and(|r| !is_as_calibrated(r)));
        let mut impatient = yardstick("0.001");
        impatient.patience = Duration::ZERO;
        assert_eq!(count(&mut impatient).1, 1);
        assert_eq!(count(&mut Yardstick::none()), ((1, None), 1));
    }
}
