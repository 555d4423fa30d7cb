//! `weir demo`: the tour. No root, no configuration, real traffic; ends with a report.
//!
//! - `tenants`: the capture's hosts, and the four VDPs that carry them;
//! - `forward`: the capture through the fast and the slow path, compared frame by frame;
//! - `networks`, `hosts`: four networks, each with an OpenFlow controller of its own;
//! - `shared`: two tenants and a guest by `weir apply` of `labs/demo.toml`, attacked, moved, proved;
//! - `load`, `moving`: numbered frames at full rate, and VDPs that change paths meanwhile;
//! - `growth`: from 4 to 1024 VDPs; - `tcam`: what their lookups wake;
//! - `measuring`: the embedded switch and one with faults, under weir's own instrument;
//! - `predicting`: two network functions, predicted by a brief calibration, then measured;
//! - `report`: what was found, as JSON; `show`: the same for people.
//!
//! Every number is measured in this run. A frame lost, doubled, out of order or unaccounted for,
//! or a difference between the paths, is a failure: exit status 1.

mod forward;
mod growth;
mod hosts;
mod load;
mod measuring;
mod moving;
mod networks;
mod predicting;
mod report;
mod shared;
mod show;
mod tcam;
mod tenants;

use crate::commands::measure::kept::nth;
use crate::commands::say::put;
use crate::commands::style::{Progress, Style};
use crate::environment::Envelope;
use crate::fault;
use anyhow::{Result, bail};
use measuring::Length;
use report::Report;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_measure::document::Document;
use weir_measure::report::html;

/// The page's name in `--out`.
const PAGE: &str = "report.html";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  \
                       weir demo\n  \
                       weir demo --quick --out tour\n  \
                       weir demo --quick --json >demo.json")]
pub struct Args {
    /// Write demo.json, the forwarded frames (pcapng), and the page into this directory; without it the
    /// page goes where temporary files go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Fewer moves and shorter runs; the counts used are printed
    #[arg(long)]
    quick: bool,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
struct Amounts {
    /// Round trips of a VDP between the paths.
    moves: u32,
    /// Numbers of VDPs.
    vdps: &'static [usize],
    /// Measurements of each rate.
    runs: usize,
    /// Length of each.
    run: Duration,
    /// How long the guest network floods.
    flood: Duration,
}

const FULL: Amounts = Amounts {
    moves: 1000,
    vdps: &[4, 16, 64, 256, 1024],
    runs: 5,
    run: Duration::from_millis(200),
    flood: Duration::from_millis(1000),
};
const QUICK: Amounts = Amounts {
    moves: 50,
    vdps: &[4, 64],
    runs: 3,
    run: Duration::from_millis(20),
    flood: Duration::from_millis(100),
};

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if let Some(dir) = &a.out {
        std::fs::create_dir_all(dir)
            .map_err(|e| fault::file(format_args!("--out {}", dir.display()), &e))?;
    }
    let begin = Instant::now();
    let amounts = if a.quick { QUICK } else { FULL };
    let style = Style::of_stdout();
    let mut progress = Progress::on_stderr();
    let tell = |text: String| if a.json { Ok(()) } else { put(text) };

    let capture = tenants::Capture::load()?;
    tell(show::opening(&style, &capture.facts()))?;

    progress.say("forwarding the capture by both paths");
    let (forwarding, played) = forward::run(&capture)?;
    progress.clear();
    tell(show::forwarding(&style, &forwarding))?;

    let networks = networks::run(&mut progress)?;
    progress.clear();
    tell(show::networks(&style, &networks))?;

    let shared = shared::run(amounts.flood, &mut progress)?;
    progress.clear();
    tell(show::shared(&style, &shared))?;

    let moving = moving::run(amounts.moves, &mut progress)?;
    progress.clear();
    tell(show::moving(&style, &moving))?;

    let growth = growth::run(&amounts, &mut progress)?;
    progress.clear();
    tell(show::growth(&style, &growth))?;

    let length = if a.quick { Length::Quick } else { Length::Usual };
    let (measuring, mut documents) = measuring::run(length, &mut progress)?;
    progress.clear();
    tell(show::measuring(&style, &measuring))?;

    progress.say("calibrating this machine, predicting two network functions");
    let (predicting, document) = predicting::run()?;
    documents.push(document);
    progress.clear();
    tell(show::predicting(&style, &predicting))?;

    let mut report = Report {
        capture: capture.facts(),
        forwarding,
        networks,
        shared,
        moving,
        growth,
        measuring,
        predicting,
        seconds: begin.elapsed().as_secs_f64(),
        failures: Vec::new(),
    };
    report.judge();
    tell(show::summary(&style, &report))?;
    // What was found is told even where nothing can be written.
    if a.json {
        put(serde_json::to_string(&Envelope::new("demo", &report))? + "\n")?;
    }
    if let Some(dir) = &a.out {
        write_out(dir, &report, &capture, &played)?;
        tell(show::written(&style, dir))?;
    }
    let page = write_page(a.out.as_deref(), &documents)?;
    tell(show::page(&style, &page))?;
    if !report.failures.is_empty() {
        bail!("the demo found what must not be: {}", report.failures.join("; "));
    }
    Ok(())
}

/// Writes the page into that directory, or else under a name that nobody has among temporary files.
fn write_page(dir: Option<&Path>, documents: &[Document]) -> Result<PathBuf> {
    let mut options = std::fs::OpenOptions::new();
    let (path, opened) = match dir {
        Some(dir) => {
            let path = dir.join(PAGE);
            let opened = options.write(true).create(true).truncate(true).open(&path);
            (path, opened)
        }
        None => unnamed(&std::env::temp_dir(), std::process::id()),
    };
    let written = opened.and_then(|mut f| f.write_all(html(documents).as_bytes()));
    written.map_err(|e| fault::file(path.display(), &e))?;
    Ok(path)
}

/// Names of pages that are tried.
const NAMES: usize = 1000;

/// A page of its own in a directory: a process's number is in its name, which another in a container may have had.
fn unnamed(dir: &Path, process: u32) -> (PathBuf, std::io::Result<std::fs::File>) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    let stem = format!("weir-demo-{process}");
    let mut at = 1;
    loop {
        let path = dir.join(nth(&stem, at) + ".html");
        match options.open(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && at < NAMES => at += 1,
            opened => return (path, opened),
        }
    }
}

fn write_out(
    dir: &Path,
    report: &Report,
    capture: &tenants::Capture,
    played: &forward::Both,
) -> Result<()> {
    let named = |name: &str, e: std::io::Error| fault::file(dir.join(name).display(), &e);
    for (name, path) in [("fast.pcapng", &played.fast), ("slow.pcapng", &played.slow)] {
        forward::write(&dir.join(name), capture, path).map_err(|e| named(name, e))?;
    }
    let mut json = serde_json::to_string_pretty(&Envelope::new("demo", report))?;
    json.push('\n');
    std::fs::write(dir.join("demo.json"), json).map_err(|e| named("demo.json", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In containers a process has the number that another had.
    #[test]
    fn a_page_takes_a_name_that_is_free() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["weir-demo-7.html", "weir-demo-7-2.html", "weir-demo-7-3.html"] {
            let (path, opened) = unnamed(dir.path(), 7);
            opened.unwrap();
            assert_eq!(path, dir.path().join(name));
        }
        let (path, opened) = unnamed(&dir.path().join("none"), 7);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(path.ends_with("none/weir-demo-7.html"));
    }
}
