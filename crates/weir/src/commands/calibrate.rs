//! `weir calibrate`: this machine, measured into a profile.
//!
//! Room: arguments, progress, files, output; what is measured is `weir-calibrate`'s.

use super::columns::Columns;
use super::estimate::shelf;
use super::estimate::{Files, say::number};
use super::say::put;
use crate::environment::{Envelope, PROGRAM};
use crate::fault::{self, bad_input};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use weir_calibrate::levels::size;
use weir_calibrate::{Calibration, Depth, Progress, calibrate_with, text};
use weir_estimate::Profile;
use weir_measure::document::whole;
use weir_measure::environment::Environment;

/// Measure this machine into a profile for 'weir estimate' and 'weir place'
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Takes less than three minutes, and needs neither root nor counters. Let the \
    machine rest meanwhile.\nExample: weir calibrate --out here.toml && weir estimate l2-basic \
    --profile ./here.toml"
)]
pub struct Args {
    /// Some ten seconds, and wider intervals
    #[arg(long)]
    quick: bool,
    /// Write the profile into this file
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    machine: String,
    depth: &'static str,
    seconds: f64,
    clock_mhz: f64,
    counter_mhz: Option<f64>,
    clock_reading_cycles: f64,
    core_to_core_cycles: Option<f64>,
    contention: Option<ShownSharing>,
    caches: Vec<ShownCache>,
    memory: ShownMemory,
    tlb: Option<ShownTlb>,
    huge_pages: bool,
    curve: Vec<ShownSpread>,
    operations: BTreeMap<String, ShownCost>,
    figures: usize,
    samples_kept: usize,
    samples_rejected: usize,
    /// Figures that did not get narrow, with half their interval as a part of them.
    wide: BTreeMap<String, f64>,
    /// Operations that the profile is without, and at what every sample was disturbed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left_out: BTreeMap<String, String>,
    /// The profile as it is written.
    profile: String,
}

#[derive(Serialize)]
struct ShownSharing {
    context_cycles: f64,
    timeslice_ms: f64,
}

#[derive(Serialize)]
struct ShownCache {
    level: u32,
    bytes: f64,
    bytes_said: f64,
    latency_cycles: f64,
    interval: f64,
    outstanding: f64,
    bytes_per_cycle: f64,
}

#[derive(Serialize)]
struct ShownMemory {
    latency_ns: f64,
    interval: f64,
    outstanding: f64,
    one_core_bytes_per_s: f64,
    all_cores_bytes_per_s: f64,
}

#[derive(Serialize)]
struct ShownTlb {
    reach_bytes: f64,
    miss_cycles: f64,
}

#[derive(Serialize)]
struct ShownSpread {
    bytes: f64,
    huge_pages_ns: f64,
    small_pages_ns: f64,
}

#[derive(Serialize)]
struct ShownBeyond {
    from_cycles: f64,
    to_cycles: f64,
    parallel: f64,
}

#[derive(Serialize)]
struct ShownCost {
    cycles: String,
    accesses: Option<String>,
    coefficients: BTreeMap<String, f64>,
    parallel: Option<f64>,
    beyond: Option<ShownBeyond>,
    error: f64,
}

/// Measures.
pub fn run(a: &Args) -> Result<()> {
    let name = match &a.out {
        Some(path) => profile_name(path)?,
        None => "here".to_owned(),
    };
    if let Some(path) = &a.out {
        writable(path)?;
    }
    let depth = if a.quick { Depth::Quick } else { Depth::Full };
    let mut watch = Watch { shown: std::io::stderr().is_terminal(), last: None };
    let done = calibrate_with(depth, &crate::platform::shapes, &mut |p| watch.tell(p));
    watch.end();
    let c = done?;
    let text = text::profile(&c, &name, &sources());
    let library = shelf::library(&Files::default())?;
    // What is written must be readable, and complete but for what is told.
    let profile = Profile::read(&name, &text, library.operations())?;
    let untold =
        |n: &&str| !profile.costs.contains_key(*n) && c.left_out.iter().all(|(eo, _)| eo != n);
    if let Some(eo) = library.operations().names().find(untold) {
        bail!("the operation '{eo}' has no benchmark: it is missing in the profile");
    }
    let saved = a.out.as_deref().map(|path| whole::write(path, &text)).transpose();
    let shown = shown(&c, text);
    // What was measured is printed whether or not it can be written.
    if a.json {
        put(&(serde_json::to_string(&Envelope::new("calibration", shown))? + "\n"))?;
    } else {
        put(told(&shown, a.out.as_deref().filter(|_| saved.is_ok())))?;
    }
    saved.map(|_| ()).context("the profile could not be saved")?;
    // Enough for estimates without them, and not what was asked for.
    c.whole().map(|_| ()).context("the profile is not whole")
}

/// The name of a profile in a file.
fn profile_name(path: &std::path::Path) -> Result<String> {
    let stem = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".toml"));
    let plain = |n: &&str| !n.is_empty() && !n.contains(|c: char| c.is_control() || c == '"');
    let wrong = || {
        bad_input(format!(
            "--out {}: expected a file's name that ends with .toml, as in here.toml",
            path.display()
        ))
    };
    stem.filter(plain).map(str::to_owned).ok_or_else(wrong)
}

/// That the file can be written, before three minutes are spent.
fn writable(path: &std::path::Path) -> Result<()> {
    let new = !path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| fault::file(format_args!("--out {}", path.display()), &e))?;
    if new {
        // Nothing is left where the calibration fails.
        std::fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn sources() -> Vec<String> {
    let e = Environment::here(PROGRAM);
    vec![
        format!("machine: {}, kernel {}, {}", e.machine, e.kernel, e.architecture),
        format!("weir {}, commit {}", e.version, e.commit),
        format!("command: {}", command()),
        format!("date: {}", e.date),
    ]
}

/// How the program was called, without the directory that it is in.
fn command() -> String {
    let word = |w: std::ffi::OsString| w.to_string_lossy().into_owned();
    let words = std::iter::once("weir".to_owned()).chain(std::env::args_os().skip(1).map(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Progress on a terminal; a pipe sees nothing.
struct Watch {
    shown: bool,
    last: Option<std::time::Instant>,
}

impl Watch {
    fn tell(&mut self, p: &Progress) {
        const OFTEN: std::time::Duration = std::time::Duration::from_millis(100);
        if !self.shown || self.last.is_some_and(|l| l.elapsed() < OFTEN) {
            return;
        }
        self.last = Some(std::time::Instant::now());
        let left = p.left.as_secs();
        // Progress that can't be shown is none.
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{} of {}, about {left} s left: {}",
            p.done,
            p.of,
            p.what
        );
    }

    fn end(&mut self) {
        if self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn shown(c: &Calibration, profile: String) -> Shown {
    let m = &c.levels.memory;
    Shown {
        machine: c.machine.fingerprint.clone(),
        depth: if c.depth == Depth::Quick { "quick" } else { "full" },
        seconds: c.time.as_secs_f64(),
        clock_mhz: c.clock_hz / 1e6,
        counter_mhz: c.machine.counter_hz.map(|hz| hz / 1e6),
        clock_reading_cycles: c.clock_cycles,
        core_to_core_cycles: c.crossing_cycles,
        contention: c.sharing.map(|s| ShownSharing {
            context_cycles: s.context_ns * c.clock_hz / 1e9,
            timeslice_ms: s.timeslice_s * 1e3,
        }),
        caches: c
            .levels
            .caches
            .iter()
            .map(|l| ShownCache {
                level: l.cache.level,
                bytes: l.bytes,
                bytes_said: l.cache.bytes,
                latency_cycles: l.latency,
                interval: l.off,
                outstanding: l.outstanding,
                bytes_per_cycle: l.bytes_per_cycle,
            })
            .collect(),
        memory: ShownMemory {
            latency_ns: m.latency_ns,
            interval: m.off,
            outstanding: m.outstanding,
            one_core_bytes_per_s: m.one,
            all_cores_bytes_per_s: m.all,
        },
        tlb: c.levels.tlb.map(|t| ShownTlb { reach_bytes: t.reach, miss_cycles: t.miss_cycles }),
        huge_pages: c.levels.huge,
        curve: c
            .levels
            .curve
            .iter()
            .map(|s| ShownSpread {
                bytes: s.bytes,
                huge_pages_ns: s.huge.ns.value,
                small_pages_ns: s.small.ns.value,
            })
            .collect(),
        operations: c
            .costs
            .iter()
            .map(|o| {
                let cost = ShownCost {
                    cycles: o.cycles.clone(),
                    accesses: o.accesses.clone(),
                    coefficients: o.coefficients.iter().cloned().collect(),
                    parallel: o.parallel,
                    beyond: o.beyond.map(|b| ShownBeyond {
                        from_cycles: b.from,
                        to_cycles: b.to,
                        parallel: b.parallel,
                    }),
                    error: o.error,
                };
                (o.eo.to_owned(), cost)
            })
            .collect(),
        figures: c.figures,
        samples_kept: c.samples.0,
        samples_rejected: c.samples.1,
        wide: c.wide.iter().cloned().collect(),
        left_out: c.left_out.iter().map(|(eo, what)| ((*eo).to_owned(), what.clone())).collect(),
        profile,
    }
}

fn told(s: &Shown, out: Option<&std::path::Path>) -> String {
    let n = number;
    let mut text = format!("{}, calibrated in {} s\n\n", s.machine, n(s.seconds));
    let counter = s.counter_mhz.map(|c| format!(", counter {c:.0} MHz")).unwrap_or_default();
    text += &format!("clock     {:.0} MHz{counter}\n", s.clock_mhz);
    if let Some(c) = s.core_to_core_cycles {
        text += &format!("cores     a line crosses in {c:.0} cycles\n");
    }
    if let Some(c) = &s.contention {
        text += &format!(
            "sharing   a change of context takes {:.0} cycles, a turn {} ms\n",
            c.context_cycles,
            n(c.timeslice_ms)
        );
    }
    if let Some(t) = &s.tlb {
        text += &format!(
            "pages     of 4 KiB: {} cycles more beyond {}\n",
            n(t.miss_cycles),
            size(t.reach_bytes)
        );
    }
    text += "\n";
    let heads = ["level", "size", "latency", "+- %", "loads at once", "bandwidth"];
    let mut levels = Columns::new(&heads);
    for c in &s.caches {
        levels.row(vec![
            format!("L{}", c.level),
            size(c.bytes),
            format!("{} cycles", n(c.latency_cycles)),
            n(c.interval * 100.0),
            n(c.outstanding),
            format!("{} B/cycle", n(c.bytes_per_cycle)),
        ]);
    }
    let m = &s.memory;
    levels.row(vec![
        "memory".into(),
        String::new(),
        format!("{} ns", n(m.latency_ns)),
        n(m.interval * 100.0),
        n(m.outstanding),
        format!(
            "{} GB/s, all {} GB/s",
            n(m.one_core_bytes_per_s / 1e9),
            n(m.all_cores_bytes_per_s / 1e9)
        ),
    ]);
    text += &levels.text();
    let mut costs = Columns::new(&["operation", "+- %", "loads at once", "coefficients"]);
    for (eo, c) in &s.operations {
        let all: Vec<String> =
            c.coefficients.iter().map(|(k, v)| format!("{k} {}", n(*v))).collect();
        let mut parallel = c.parallel.map(n).unwrap_or_default();
        if let Some(b) = &c.beyond {
            parallel += &format!(", {} far", n(b.parallel));
        }
        costs.row(vec![eo.clone(), n(c.error * 100.0), parallel, all.join(", ")]);
    }
    text += "\n";
    text += &costs.text();
    text += &format!(
        "\n{} figures; {} samples, {} rejected; {} figures did not get narrow\n",
        s.figures,
        s.samples_kept,
        s.samples_rejected,
        s.wide.len()
    );
    for (what, off) in &s.wide {
        text += &format!("  {what}: +- {} %\n", n(off * 100.0));
    }
    if !s.left_out.is_empty() {
        text += "\nwithout these, of which every sample was disturbed; functions that need them can't be estimated:\n";
    }
    for (eo, what) in &s.left_out {
        text += &format!("  {eo}: at {what}\n");
    }
    text += &match out {
        Some(path) => format!("\nthe profile is in {}\n", path.display()),
        None => "\nwith --out FILE.toml the profile is written\n".to_owned(),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn profiles_are_named_after_their_file() {
        assert_eq!(profile_name(Path::new("/tmp/x/here.toml")).expect("a name"), "here");
        for wrong in ["here", ".toml", "a\"b.toml", "/"] {
            let e = profile_name(Path::new(wrong)).expect_err(wrong);
            assert!(e.to_string().contains("ends with .toml"), "{e}");
        }
    }
}
