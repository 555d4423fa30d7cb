//! `weir estimate refine`: measurements of running functions correct a profile.
//!
//! Room: arguments, files, output; the arithmetic is `weir_estimate::refine`'s.

use super::say::number;
use super::{Files, shelf};
use crate::commands::columns::Columns;
use crate::commands::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_estimate::refine::{Drift, Refiner, pmd, rewrite};
use weir_estimate::traffic::Traffic;
use weir_estimate::{Profile, Question, estimate};
use weir_measure::document::whole;

/// Which measurements, and of what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Measurements are JSON, a list of\n  \
    {\"function\": \"l2-basic\", \"frame\": 64, \"cycles\": 231.5, \"traffic\": \"zipf:1.1,flows=1M\"}\n\
    where traffic may be left out; or what Open vSwitch's dpif-netdev/pmd-stats-show prints.")]
pub struct Args {
    /// The profile: a name or a file
    #[arg(long, value_name = "P")]
    profile: String,
    /// Measurements as JSON
    #[arg(value_name = "MEASUREMENTS.json", required_unless_present = "pmd")]
    measurements: Option<PathBuf>,
    /// What 'ovs-appctl dpif-netdev/pmd-stats-show' printed; '--function' and '--frame' say of what
    #[arg(long, value_name = "FILE", requires = "function")]
    pmd: Option<PathBuf>,
    /// The network function that Open vSwitch ran
    #[arg(long, value_name = "NF")]
    function: Option<String>,
    /// Bytes of its frames, FCS included
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    frame: u32,
    /// How its frames were spread over flows
    #[arg(long, value_name = "SPREAD", value_parser = Traffic::read)]
    traffic: Option<Traffic>,
    /// Also write the corrected profile into this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: Files,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    function: String,
    frame: u32,
    cycles: f64,
    #[serde(default)]
    traffic: Option<String>,
}

/// A measurement that is farther from what was predicted, as a part of it, and of which less than this part was made up by
/// what was learned, taught nothing.
const FAR: f64 = 0.05;
const LEAST: f64 = 1e-3;

/// A measurement, ready to be learned from.
struct Sample {
    function: String,
    cycles: f64,
    question: Question,
}

#[derive(Serialize)]
struct Shown {
    profile: String,
    samples: Vec<ShownSample>,
    /// What each operation's cycles are to be multiplied with; `memory`: waits for main memory.
    factors: BTreeMap<String, f64>,
    error_before: f64,
    error_after: f64,
}

#[derive(Serialize)]
struct ShownSample {
    function: String,
    measured: f64,
    predicted: f64,
    error: f64,
    drift: Option<&'static str>,
    /// Whether nothing was learned from it.
    disregarded: bool,
}

/// Refines.
pub fn run(a: &Args) -> Result<()> {
    if let Some(out) = &a.out {
        // The profile itself may be written anew: what was learned is in it.
        let read = a.measurements.iter().chain(&a.pmd).map(PathBuf::as_path);
        shelf::spare(out, "--out", read.chain(a.files.paths()))?;
    }
    let library = shelf::library(&a.files)?;
    let profile = shelf::profile(&library, &a.profile)?;
    let mut samples = Vec::new();
    if let Some(path) = &a.measurements {
        samples.extend(recorded(path)?);
    }
    if let Some(path) = &a.pmd {
        samples.extend(open_vswitch(path, a)?);
    }
    let mut refiner = Refiner::new(&profile);
    let mut shown = Vec::new();
    let mut estimates = Vec::new();
    for s in &samples {
        let e = estimate(&library, &s.function, &profile, &s.question).map_err(bad_input)?;
        let step = refiner.learn(&e, s.cycles).map_err(bad_input)?;
        let learned = (refiner.predict(&e) - step.predicted) / (s.cycles - step.predicted);
        let drift = match step.drift {
            Drift::None => None,
            Drift::Dearer => Some("dearer"),
            Drift::Cheaper => Some("cheaper"),
        };
        shown.push(ShownSample {
            function: s.function.clone(),
            measured: s.cycles,
            predicted: step.predicted,
            error: step.error,
            drift,
            disregarded: step.error.abs() > FAR && learned.abs() < LEAST,
        });
        estimates.push((e, s.cycles));
    }
    if let Some(path) = &a.out {
        let (file, text) = shelf::profile_text(&a.profile)?;
        let wrong = |e: String| bad_input(format!("{file}: {e}"));
        let text = rewrite(&text, &refiner.factors()).map_err(wrong)?;
        // Nobody shall find later that what was written can't be read.
        let name = path.display().to_string();
        Profile::read(&name, &text, library.operations()).map_err(bad_input)?;
        whole::write(path, &text).map_err(|e| bad_input(format_args!("--out {e}")))?;
    }
    let mean = |f: &dyn Fn(&weir_estimate::Estimate) -> f64| {
        let sum: f64 = estimates.iter().map(|(e, m)| (f(e) / m - 1.0).abs()).sum();
        sum / estimates.len().max(1) as f64
    };
    let shown = Shown {
        profile: profile.name.to_string(),
        samples: shown,
        factors: refiner.factors().into_iter().map(|(n, f)| (n.to_string(), f)).collect(),
        error_before: mean(&|e| e.cycles),
        error_after: mean(&|e| refiner.predict(e)),
    };
    if a.json {
        return put(&(serde_json::to_string(&Envelope::new("refinement", shown))? + "\n"));
    }
    put(text(&shown))
}

fn recorded(path: &Path) -> Result<Vec<Sample>> {
    let wrong = |e: String| bad_input(format!("{}: {e}", path.display()));
    let given: Vec<Given> =
        serde_json::from_str(&shelf::read(path)?).map_err(|e| wrong(e.to_string()))?;
    if given.is_empty() {
        return Err(wrong("no measurement is in it: expected a list of at least one".into()));
    }
    let one = |g: Given| -> Result<Sample> {
        let traffic = g.traffic.map(|t| Traffic::read(&t)).transpose().map_err(wrong)?;
        let question = Question { frame: g.frame, traffic, ..Question::default() };
        Ok(Sample { function: g.function, cycles: g.cycles, question })
    };
    given.into_iter().map(one).collect()
}

fn open_vswitch(path: &Path, a: &Args) -> Result<Vec<Sample>> {
    let wrong = |e: String| bad_input(format!("{}: {e}", path.display()));
    let threads = pmd::read(&shelf::read(path)?).map_err(wrong)?;
    let question = Question { frame: a.frame, traffic: a.traffic.clone(), ..Question::default() };
    let sample = |cycles| Sample {
        function: a.function.clone().unwrap_or_default(),
        cycles,
        question: question.clone(),
    };
    let all: Vec<Sample> = threads.iter().filter_map(|t| t.cycles()).map(sample).collect();
    if all.is_empty() {
        return Err(wrong("no thread has processed a packet".into()));
    }
    Ok(all)
}

fn text(s: &Shown) -> String {
    let mut samples = Columns::new(&["function", "measured", "predicted", "error %", "drift"]);
    for x in &s.samples {
        samples.row(vec![
            x.function.clone(),
            number(x.measured),
            number(x.predicted),
            format!("{:.1}", x.error * 100.0),
            x.drift.unwrap_or_default().to_owned(),
        ]);
    }
    let mut factors = Columns::new(&["operation", "factor"]);
    for (name, f) in &s.factors {
        factors.row(vec![name.clone(), format!("{f:.3}")]);
    }
    let mut disregarded = String::new();
    for (i, x) in s.samples.iter().enumerate().filter(|(_, x)| x.disregarded) {
        disregarded += &format!(
            "measurement {}, {} cycles for {}, was disregarded: no factors bring the estimate near it\n",
            i + 1,
            number(x.measured),
            x.function
        );
    }
    format!(
        "{}{disregarded}\n{}\nmean error over these samples: {:.1} % before, {:.1} % after\n",
        samples.text(),
        factors.text(),
        s.error_before * 100.0,
        s.error_after * 100.0
    )
}
