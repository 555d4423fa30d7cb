//! What the estimator says of a case: ours, through the VDP, and the paper's formula.
//!
//! Room: questions. Nothing measured here but the profile, which knows no function.

use super::Case;
use crate::commands::estimate::{Files, shelf};
use crate::fault::bad_input;
use crate::functions::Way;
use anyhow::{Result, bail};
use std::sync::Arc;
use weir_estimate::profile::Hardware;
use weir_estimate::traffic::Traffic;
use weir_estimate::{Estimate, Library, Mode, Profile, Question, estimate};
use weir_packet::BURST;

/// The machine that the paper's formula was written for.
const PAPER: &str = "xeon-e5-2690v2";

/// Whoever answers.
pub struct Asker {
    library: Library,
    /// This machine's profile.
    pub profile: Profile,
    paper: Profile,
}

impl Asker {
    /// Answers by this machine's profile.
    ///
    /// # Errors
    /// It is no processor's.
    pub fn new(library: Library, profile: Profile) -> Result<Self> {
        let mut paper = shelf::profile(&library, PAPER)?;
        let Hardware::Processor(here) = &profile.hardware else {
            bail!("{}: no processor: give the profile of this machine", profile.name);
        };
        // The paper's formulas with this machine's clock and latencies.
        if let (Some(c), Some(last)) = (&mut paper.corrected, here.caches.last()) {
            c.clock_hz = here.clock_hz;
            c.constants = vec![("l3".into(), last.latency_cycles)];
        }
        paper.hardware = profile.hardware.clone();
        Ok(Self { library, profile, paper })
    }

    /// By a profile's name or file.
    ///
    /// # Errors
    /// There is none.
    pub fn of(profile: &str) -> Result<Self> {
        let library = shelf::library(&Files::default())?;
        let profile = shelf::profile(&library, profile)?;
        Self::new(library, profile)
    }

    /// Ours: the function behind the pass through its VDP, for exactly these frames.
    ///
    /// # Errors
    /// Those of the estimator.
    pub fn ours(&self, case: &Case, way: &Way, order: &[u32]) -> Result<Estimate> {
        let mut counts = vec![0u64; case.entries as usize];
        for e in order {
            if let Some(c) = counts.get_mut(*e as usize) {
                *c += 1;
            }
        }
        let mut settings = case.function.settings(case.entries);
        settings.extend(way.settings.iter().cloned());
        let question = Question {
            frame: case.frame,
            burst: BURST as u32,
            traffic: Some(Traffic::counted(counts).map_err(bad_input)?),
            settings,
            through: Some(Arc::from(way.model)),
            ..Question::default()
        };
        estimate(&self.library, case.function.name(), &self.profile, &question).map_err(bad_input)
    }

    /// The paper's formula: cycles for a frame.
    ///
    /// # Errors
    /// Those of the estimator.
    pub fn paper(&self, case: &Case) -> Result<f64> {
        let question = Question {
            mode: Mode::Corrected,
            frame: case.frame,
            settings: case.function.settings(case.entries),
            ..Question::default()
        };
        let e = estimate(&self.library, case.function.name(), &self.paper, &question);
        Ok(e.map_err(bad_input)?.cycles)
    }
}
