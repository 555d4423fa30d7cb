//! `weir bench functions`: network functions in the data plane from memory, beside their estimates.
//!
//! Room: the same job twice: measured on this machine, and estimated by a profile, which knows nothing
//! of the function but its model. Rules and frames are made here; frames name entries uniformly or by
//! Zipf, and the estimate is asked about exactly the frames that are played.

use crate::commands::columns::Columns;
use crate::commands::estimate::{Files, ask::warn_of_stranger, shelf};
use crate::commands::style;
use crate::environment::Envelope;
use crate::fault::bad_input;
use crate::functions::{self, Function};
use crate::study::memory::{Bench, shuffle};
use anyhow::{Result, bail};
use serde::Serialize;
use std::time::Duration;
use weir_estimate::profile::Hardware;
use weir_estimate::traffic::Traffic;
use weir_estimate::{Library, Profile, Question, estimate};
use weir_packet::BURST;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// This machine's profile ('weir calibrate'): a name or a file
    #[arg(long, value_name = "P")]
    profile: String,
    /// Seconds of a measurement; the median of three counts
    #[arg(long, value_name = "S", default_value_t = 0.2)]
    seconds: f64,
    /// Only these functions
    #[arg(long, value_name = "NF,NF", value_delimiter = ',')]
    only: Vec<String>,
    /// Entries of the tables; without it, what each function is usually measured with
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    entries: Vec<u32>,
    /// Bytes of a frame, FCS included
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [64, 512, 1518])]
    frames: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Frames that are played, over and over.
const PLAYED: usize = 1 << 15;
/// Bytes of the FCS, which no frame in memory has.
const FCS: usize = 4;
/// Repetitions.
const REPEATS: usize = 3;

#[derive(Clone, Debug, Serialize)]
struct Point {
    function: &'static str,
    entries: u32,
    frame_bytes: u32,
    traffic: &'static str,
    measured_cycles: f64,
    estimated_cycles: f64,
    /// Estimate over measurement, less one.
    error: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    profile: String,
    points: Vec<Point>,
    median_absolute_error: f64,
    p90_absolute_error: f64,
    kendall_tau: f64,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if !(0.01..=60.0).contains(&a.seconds) {
        return Err(bad_input("--seconds must be 0.01 to 60"));
    }
    if let Some(n) = a.frames.iter().find(|n| !(64..=1518).contains(*n)) {
        return Err(bad_input(format!("--frames {n}: expected 64 to 1518 bytes")));
    }
    let library = shelf::library(&Files::default())?;
    let profile = shelf::profile(&library, &a.profile)?;
    warn_of_stranger(&profile);
    let mut points = Vec::new();
    for function in asked(a)? {
        for entries in entries_of(a, function)? {
            for frame in &a.frames {
                if (*frame as usize) < function.least_frame() + FCS {
                    continue;
                }
                for zipf in [None, Some(1.1)] {
                    let played = played(entries, zipf);
                    points.push(point(a, &library, &profile, function, *frame, entries, &played)?);
                    if let (Some(p), Some(_)) = (points.last_mut(), zipf) {
                        p.traffic = "zipf:1.1";
                    }
                }
            }
        }
    }
    let mut errors: Vec<f64> = points.iter().map(|p| p.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors.get((errors.len() as f64 * part) as usize).copied().unwrap_or(0.0);
    let report = Report {
        profile: profile.name.to_string(),
        median_absolute_error: at(0.5),
        p90_absolute_error: at(0.9),
        kendall_tau: kendall(&points),
        points,
    };
    if a.json {
        return style::say(
            &(serde_json::to_string(&Envelope::new("bench-functions", report))? + "\n"),
        );
    }
    style::say(&told(&report))
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

/// The entries that frames name, in an order without a pattern.
fn played(entries: u32, zipf: Option<f64>) -> Vec<u32> {
    let mut all: Vec<u32> = match zipf {
        None => (0..PLAYED as u32).map(|i| i % entries).collect(),
        Some(s) => {
            // As many frames of each rank as its part of all, the loudest first.
            let weight = |k: u32| f64::from(k + 1).powf(-s);
            let sum: f64 = (0..entries).map(weight).sum();
            let mut all = Vec::with_capacity(PLAYED);
            let mut due = 0.0;
            for k in 0..entries {
                due += weight(k) / sum * PLAYED as f64;
                while (all.len() as f64) < due - 0.5 {
                    all.push(k);
                }
            }
            all
        }
    };
    shuffle(&mut all);
    all
}

fn point(
    a: &Args,
    library: &Library,
    profile: &Profile,
    function: &dyn Function,
    frame: u32,
    entries: u32,
    played: &[u32],
) -> Result<Point> {
    let mut bench =
        Bench::new(functions::playing(function, entries, played, frame as usize - FCS)?);
    let time = Duration::from_secs_f64(a.seconds);
    bench.mfps_per_cpu_s(time / 4)?;
    let mut rates = Vec::new();
    for _ in 0..REPEATS {
        rates.push(bench.mfps_per_cpu_s(time)?);
    }
    rates.sort_by(f64::total_cmp);
    let Hardware::Processor(processor) = &profile.hardware else {
        bail!("{}: no processor: give the profile of this machine", profile.name);
    };
    let measured = processor.clock_hz / (rates[REPEATS / 2] * 1e6);
    let mut counts = vec![0u64; entries as usize];
    for e in played {
        if let Some(c) = counts.get_mut(*e as usize) {
            *c += 1;
        }
    }
    let question = Question {
        frame,
        burst: BURST as u32,
        traffic: Some(Traffic::counted(counts).map_err(bad_input)?),
        settings: function.settings(entries),
        ..Question::default()
    };
    let e = estimate(library, function.name(), profile, &question).map_err(bad_input)?;
    Ok(Point {
        function: function.name(),
        entries,
        frame_bytes: frame,
        traffic: "uniform",
        measured_cycles: measured,
        estimated_cycles: e.cycles,
        error: e.cycles / measured - 1.0,
    })
}

/// Kendall's tau between measurement and estimate: 1 where both put all points in the same order.
fn kendall(points: &[Point]) -> f64 {
    let (mut same, mut all) = (0.0, 0.0);
    for (i, a) in points.iter().enumerate() {
        for b in points.iter().skip(i + 1) {
            let measured = a.measured_cycles - b.measured_cycles;
            let estimated = a.estimated_cycles - b.estimated_cycles;
            all += 1.0;
            same += match measured * estimated {
                p if p > 0.0 => 1.0,
                p if p < 0.0 => -1.0,
                _ => 0.0,
            };
        }
    }
    if all > 0.0 { same / all } else { 1.0 }
}

fn told(r: &Report) -> String {
    let heads = ["function", "entries", "frame", "traffic", "measured", "estimate", "error %"];
    let mut rows = Columns::new(&heads);
    for p in &r.points {
        rows.row(vec![
            p.function.to_owned(),
            p.entries.to_string(),
            p.frame_bytes.to_string(),
            p.traffic.to_owned(),
            format!("{:.1}", p.measured_cycles),
            format!("{:.1}", p.estimated_cycles),
            format!("{:+.0}", p.error * 100.0),
        ]);
    }
    format!(
        "cycles for a frame, by {}\n\n{}\nabsolute error: median {:.0} %, 90th percentile {:.0} %; \
         Kendall's tau {:.2}\n",
        r.profile,
        rows.text(),
        r.median_absolute_error * 100.0,
        r.p90_absolute_error * 100.0,
        r.kendall_tau
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_name_entries_as_they_are_said_to() {
        for (entries, zipf) in [(1024, None), (1024, Some(1.1)), (131_072, Some(1.1))] {
            let all = played(entries, zipf);
            assert!(all.len().abs_diff(PLAYED) <= 1, "{}", all.len());
            assert!(all.iter().all(|e| *e < entries));
        }
        let of = |e: u32, all: &[u32]| all.iter().filter(|x| **x == e).count() as f64;
        let all = played(1024, Some(1.1));
        assert!((of(0, &all) / of(1, &all) / 2f64.powf(1.1) - 1.0).abs() < 0.05);
    }

    #[test]
    fn tau_is_one_for_the_same_order() {
        let point = |m: f64, e: f64| Point {
            function: "f",
            entries: 1,
            frame_bytes: 64,
            traffic: "uniform",
            measured_cycles: m,
            estimated_cycles: e,
            error: 0.0,
        };
        assert_eq!(kendall(&[point(1.0, 5.0), point(2.0, 6.0), point(3.0, 9.0)]), 1.0);
        assert_eq!(kendall(&[point(1.0, 9.0), point(2.0, 6.0), point(3.0, 5.0)]), -1.0);
    }
}
