//! What the estimator says of a case: ours, through the VDP, and the paper's formula.
//!
//! Room: questions. Nothing measured here but the profile, which knows no function.

use super::{Case, FCS};
use crate::commands::estimate::{Files, shelf};
use crate::fault::bad_input;
use crate::functions::chain::Link;
use crate::functions::{Job, Way};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_calibrate::machine::Machine;
use weir_estimate::profile::{Hardware, Residence};
use weir_estimate::series::{Hop, Series, series};
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

    /// Measures what others take of the last cache now, which changes by the minute, and answers by that from here
    /// on; says which part of lines they take that are not touched for so many seconds. Nothing where the profile knows
    /// of no others.
    ///
    /// # Errors
    /// There is no memory to measure with.
    pub fn look_around(&mut self, rounds: usize, seconds: f64) -> Result<Option<f64>> {
        let Hardware::Processor(p) = &mut self.profile.hardware else { return Ok(None) };
        let [.., own, last] = p.caches.as_slice() else { return Ok(None) };
        if p.residence.is_none() {
            return Ok(None);
        }
        // Of a cache that others fill a profile says how much of it acts as ours: it is as large as it is said to be.
        let said = Machine::here().caches.last().map_or(0.0, |c| c.bytes);
        let (own, last, line) = (own.bytes, last.bytes.max(said), p.line_bytes as usize);
        let found = weir_calibrate::residence::between(own, last, line, rounds)?;
        let now = found.map_or_else(Residence::default, |r| Residence {
            load_cycles: r.load_ns * p.clock_hz / 1e9,
            taken: r.taken,
            bytes: None,
        });
        let taken = now.taken(seconds);
        p.now = Some(now);
        Ok(Some(taken))
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
        self.behind(case, way.model, &way.settings, order)
    }

    /// Functions of a chain, each in a VDP of its own, for frames that name these connections.
    ///
    /// # Errors
    /// Those of the estimator.
    pub fn series(&self, links: &[Link], frame: u32, order: &[u32]) -> Result<Series> {
        let hop = |l: &Link| -> Result<Hop> {
            let way = l.way(frame as usize - FCS)?;
            let own: Vec<u32> = order.iter().map(|c| l.entry(*c)).collect();
            let mut settings = l.function.settings(l.entries);
            settings.extend(way.settings);
            let question = Question {
                frame,
                burst: BURST as u32,
                traffic: Some(Traffic::played(&own).map_err(bad_input)?),
                settings,
                through: Some(Arc::from(way.model)),
                ..Question::default()
            };
            Ok(Hop { function: l.function.name().to_owned(), question })
        };
        let hops = links.iter().map(hop).collect::<Result<Vec<_>>>()?;
        series(&self.library, &hops, "link", &self.profile).map_err(bad_input)
    }

    /// What Open vSwitch with these rules does beyond what any frame costs it: cycles for a frame.
    ///
    /// # Errors
    /// Those of the estimator; rules that are none.
    pub fn ovs(&self, case: &Case, rules: &str, order: &[u32]) -> Result<f64> {
        let mut asked: Vec<u32> = order.to_vec();
        asked.sort_unstable();
        asked.dedup();
        let job = Job::rules(rules, &[1, 2])?;
        let masks: BTreeSet<Vec<u64>> =
            job.rules.iter().map(|r| r.matcher.mask().0.to_vec()).collect();
        let settings = [
            ("megaflows".to_owned(), asked.len() as f64),
            ("subtables".to_owned(), masks.len().max(1) as f64),
        ];
        Ok(self.behind(case, "ovs-rules", &settings, order)?.cycles)
    }

    /// The function behind a model that its frames pass.
    fn behind(
        &self,
        case: &Case,
        through: &str,
        more: &[(String, f64)],
        order: &[u32],
    ) -> Result<Estimate> {
        let mut settings = case.function.settings(case.entries);
        settings.extend(more.iter().cloned());
        let question = Question {
            frame: case.frame,
            burst: BURST as u32,
            played: Some(crate::platform::SOURCE as f64),
            traffic: Some(Traffic::played(order).map_err(bad_input)?),
            settings,
            through: Some(Arc::from(through)),
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
