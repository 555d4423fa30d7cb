//! `weir bench functions`: network functions in the data plane from memory, beside their estimates.
//!
//! Room: arguments and a table; `validate` measures and asks. The estimate knows nothing of a function
//! but its model, and what its rules ask of the data plane.

use crate::commands::columns::Columns;
use crate::commands::estimate::ask::warn_of_stranger;
use crate::commands::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use crate::functions::{self, Function};
use crate::validate::{Asker, Case, Locality, Row, Score, Yardstick, row};
use anyhow::Result;
use serde::Serialize;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// This machine's profile ('weir calibrate'): a name or a file
    #[arg(long, value_name = "P")]
    profile: String,
    /// Seconds of a measurement
    #[arg(long, value_name = "S", default_value_t = 0.2)]
    seconds: f64,
    /// Only these functions
    #[arg(long, value_name = "NF,NF", value_delimiter = ',')]
    only: Vec<String>,
    /// Entries of the tables; without it, what each function is usually measured with
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    entries: Vec<u32>,
    /// Bytes of a frame, FCS included; a function's shortest where that is longer
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [64, 512, 1518])]
    frames: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    profile: String,
    points: Vec<Row>,
    ours: Score,
    paper: Option<Score>,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if !(0.01..=60.0).contains(&a.seconds) {
        return Err(bad_input("--seconds must be 0.01 to 60"));
    }
    if let Some(n) = a.frames.iter().find(|n| !(64..=1518).contains(*n)) {
        return Err(bad_input(format!("--frames {n}: expected 64 to 1518 bytes")));
    }
    let asker = Asker::of(&a.profile)?;
    warn_of_stranger(&asker.profile);
    let mut yardstick = Yardstick::new(&asker.profile);
    let mut points = Vec::new();
    for function in asked(a)? {
        let entries = entries_of(a, function)?;
        let localities = [Locality::Uniform, Locality::Zipf(1.1)];
        for case in Case::all(function, &entries, &a.frames, &localities) {
            points.push(row(&case, &asker, &mut yardstick, a.seconds)?);
        }
    }
    let ours: Vec<_> = points.iter().map(|p| (p.measured, p.estimate)).collect();
    let paper: Vec<_> = points.iter().filter_map(|p| Some((p.measured, p.paper?))).collect();
    let report = Report {
        profile: asker.profile.name.to_string(),
        ours: Score::of(&ours).unwrap_or_default(),
        paper: Score::of(&paper),
        points,
    };
    if a.json {
        return put(&(serde_json::to_string(&Envelope::new("bench-functions", report))? + "\n"));
    }
    put(told(&report))
}

/// The functions that were asked for.
fn asked(a: &Args) -> Result<Vec<&'static dyn Function>> {
    if a.only.is_empty() {
        return Ok(functions::ALL.to_vec());
    }
    let all = || functions::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
    let one = |name: &String| {
        let unknown = || bad_input(format!("--only {name}: no such function: there are {}", all()));
        functions::named(name).ok_or_else(unknown)
    };
    a.only.iter().map(one).collect()
}

/// How many entries a function is measured with.
fn entries_of(a: &Args, f: &dyn Function) -> Result<Vec<u32>> {
    let (most, name) = (f.most_entries(), f.name());
    if let Some(n) = a.entries.iter().find(|n| !(1..=most).contains(*n)) {
        return Err(bad_input(format!("--entries {n}: {name} takes 1 to {most}")));
    }
    Ok(if a.entries.is_empty() { f.measured_entries().to_vec() } else { a.entries.clone() })
}

fn told(r: &Report) -> String {
    let heads = [
        "function",
        "entries",
        "frame",
        "traffic",
        "measured",
        "+- %",
        "yardstick",
        "estimate",
        "error %",
        "paper",
        "error %",
    ];
    let mut rows = Columns::new(&heads);
    for p in &r.points {
        let error = |e: f64| format!("{:+.0}", (e / p.measured - 1.0) * 100.0);
        rows.row(vec![
            p.function.to_owned(),
            p.entries.to_string(),
            p.frame_bytes.to_string(),
            p.traffic.clone(),
            format!("{:.1}", p.measured),
            format!("{:.1}", p.spread * 100.0),
            p.yardstick.map_or_else(String::new, |y| format!("{y:.2}")),
            format!("{:.1}", p.estimate),
            error(p.estimate),
            p.paper.map_or_else(String::new, |e| format!("{e:.1}")),
            p.paper.map_or_else(String::new, error),
        ]);
    }
    let say = |name: &str, s: &Score| {
        format!(
            "{name}: absolute error: median {:.1} %, 90th percentile {:.1} %; Kendall's tau {:.3}\n",
            s.median * 100.0,
            s.p90 * 100.0,
            s.tau
        )
    };
    let paper = r.paper.as_ref().map(|s| say("the paper's formula", s)).unwrap_or_default();
    format!(
        "cycles for a frame, by {}\n\n{}\n{}{paper}",
        r.profile,
        rows.text(),
        say("estimate", &r.ours)
    )
}
