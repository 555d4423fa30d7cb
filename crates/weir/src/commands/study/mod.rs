//! `weir study list | run`: one figure of a paper, measured here, published values beside ours.
//!
//! - here: the studies of weir's own data plane. - `oflops`: those of OpenFlow switches.

mod oflops;

use super::say::{note, put, say};
use super::style::Progress;
use crate::config::error::nearest;
use crate::environment::Envelope;
use crate::fault::{self, bad_input};
use crate::study::{Depth, Id, Place, Plan, Watch, report::Report, svg};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_measure::document::whole::Whole;
use weir_measure::environment::UNKNOWN;
use weir_measure::studies::{Study, oflops as studies};

/// What to do.
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "Examples:\n  \
                       weir study list\n  \
                       weir study run vdp-throughput --place memory --quick\n  \
                       weir study run oflops-all --place memory --quick --out results")]
pub enum Args {
    /// The studies there are
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run one, or several one after the other
    Run(RunArgs),
}

/// Which, and how.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Which studies; 'weir study list' lists them
    #[arg(value_name = "ID", value_parser = which, required = true)]
    ids: Vec<Which>,
    /// Short durations: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Where to measure
    #[arg(long, value_name = "PLACE", default_value = "all")]
    place: Place,
    /// Length of an RFC 2544 trial in seconds; the RFC asks for 60
    #[arg(long, value_name = "S")]
    trial: Option<f64>,
    /// For estimates: this machine's profile; without it the machine is calibrated first
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write ID.md, ID.json and pictures (ID.svg or ID.html) into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A study, wherever it comes from.
#[derive(Clone, Debug)]
enum Which {
    /// Of the data plane.
    Own(Id),
    /// Of OpenFlow switches.
    Oflops(Vec<&'static Study>),
}

impl Which {
    fn name(&self) -> &'static str {
        match self {
            Which::Own(id) => id.name(),
            Which::Oflops(all) => match all.as_slice() {
                [one] => one.id,
                _ => OFLOPS_ALL,
            },
        }
    }
}

/// All of 001's in one go.
const OFLOPS_ALL: &str = "oflops-all";

fn which(text: &str) -> Result<Which, String> {
    if let Some(id) = Id::ALL.into_iter().find(|id| id.name() == text) {
        return Ok(Which::Own(id));
    }
    if text == OFLOPS_ALL {
        return Ok(Which::Oflops(studies::ALL.iter().collect()));
    }
    if let Some(s) = studies::find(text) {
        return Ok(Which::Oflops(vec![s]));
    }
    let known = Id::ALL.iter().map(|id| id.name()).chain(studies::ALL.iter().map(|s| s.id));
    let near = nearest(text, known.chain([OFLOPS_ALL]));
    let near = near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"));
    Err(format!("there is no such study{near}: 'weir study list' lists them"))
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    answers: String,
    places: Vec<&'static str>,
}

/// Does it.
pub fn run(args: &Args) -> Result<()> {
    match args {
        Args::List { json } => list(*json),
        Args::Run(a) => {
            a.ids.iter().try_for_each(|which| fits(a, which))?;
            let stop = stopped_by_signals()?;
            let mut failed = Ok(());
            for (i, which) in a.ids.iter().enumerate() {
                let done = match which {
                    Which::Own(id) => study(a, *id, &stop),
                    Which::Oflops(all) => oflops::run(a, all),
                };
                let goes_on = i + 1 < a.ids.len() && !stop.load(Ordering::Relaxed);
                match done {
                    // What is left does not depend on it.
                    Err(e) if goes_on => {
                        note(format_args!("{}: {e:#}", which.name()));
                        failed = Err(e);
                    }
                    Err(e) => return Err(e),
                    Ok(()) => {}
                }
            }
            failed
        }
    }
}

/// What is set when somebody wants an end.
fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catching signals")?;
    }
    Ok(stop)
}

/// Refuses, before anything is measured, what can't be.
fn fits(a: &RunArgs, which: &Which) -> Result<()> {
    match which {
        Which::Own(id) => check_place(*id, &planned(a)?),
        Which::Oflops(_) => Ok(()),
    }
}

/// What the arguments ask of a study of the data plane.
fn planned(a: &RunArgs) -> Result<Plan> {
    let trial = match a.trial {
        Some(s) if !(0.01..=3600.0).contains(&s) => {
            return Err(bad_input("--trial must be 0.01 to 3600 seconds"));
        }
        t => t.map(Duration::from_secs_f64),
    };
    let depth = if a.quick { Depth::Quick } else { Depth::Full };
    Ok(Plan { depth, place: a.place, trial, profile: a.profile.clone() })
}

fn listed(id: Id) -> Listed {
    let places =
        [(id.has_memory(), "memory"), (id.has_veth(), "veth"), (id.has_functions(), "peer")];
    let places = places.iter().filter(|p| p.0).map(|p| p.1).collect();
    Listed { id: id.name(), answers: id.answers().to_owned(), places }
}

fn listed_oflops(s: &Study) -> Listed {
    let answers = format!("paper {}: {}", s.figure, s.asks);
    let places = if s.mimics.is_empty() { vec!["veth"] } else { vec!["veth", "memory"] };
    Listed { id: s.id, answers, places }
}

fn list(json: bool) -> Result<()> {
    let own = Id::ALL.into_iter().map(listed);
    let all: Vec<Listed> = own.chain(studies::ALL.iter().map(listed_oflops)).collect();
    if json {
        return say(serde_json::to_string(&Envelope::new("studies", all))?);
    }
    for s in all {
        say(format_args!("{:18} {}", s.id, s.answers))?;
        say(format_args!("{:18} measured: {}", "", s.places.join(", ")))?;
    }
    say(format_args!("{OFLOPS_ALL:18} all of paper 001's, one after the other"))
}

fn study(a: &RunArgs, id: Id, stop: &Arc<AtomicBool>) -> Result<()> {
    let plan = planned(a)?;
    if let Some(dir) = &a.out {
        std::fs::create_dir_all(dir)
            .map_err(|e| fault::file(format_args!("--out {}", dir.display()), &e))?;
    }
    let mut progress = Progress::on_stderr();
    let about = id.seconds(&plan);
    let begin = std::time::Instant::now();
    let report = {
        let mut say = |what: &str| {
            let s = begin.elapsed().as_secs();
            progress.say(format_args!("{} ({s} of about {about} s): {what}", id.name()));
        };
        id.run(&plan, &mut Watch::new(&mut say, Arc::clone(stop)))
    };
    progress.clear();
    let envelope = Envelope::new("study", report?);
    let saved = a.out.as_deref().map(|dir| write(dir, &envelope)).transpose();
    // What was measured is printed whether or not it can be written.
    if a.json {
        say(serde_json::to_string(&envelope)?)?;
    } else {
        put(envelope.result.markdown())?;
    }
    saved.map(|_| ())
}

/// Refuses a study where it can't be measured, before anything is done.
fn check_place(id: Id, plan: &Plan) -> Result<()> {
    let name = id.name();
    if plan.place == Place::Memory && !id.has_memory() {
        return Err(bad_input(format!("{name} measures over veth only: leave '--place' out")));
    }
    if plan.place == Place::Veth && !id.has_veth() {
        return Err(bad_input(format!("{name} measures from memory only: leave '--place' out")));
    }
    if plan.place == Place::Peer && !id.has_functions() {
        let text = "has no network functions that Open vSwitch could be: leave '--place' out";
        return Err(bad_input(format!("{name} {text}")));
    }
    // Where not asked for by name, what needs root is left out of a study of functions, which says so.
    let besides = id.has_functions() && plan.place == Place::All;
    if (plan.veth() || plan.peer())
        && id.has_veth()
        && !besides
        && !rustix::process::geteuid().is_root()
    {
        let way = if id.has_memory() { ", or take '--place memory'" } else { "" };
        bail!("{name} measures in network namespaces that it makes: run it as root{way}");
    }
    Ok(())
}

fn write(dir: &Path, envelope: &Envelope<Report>) -> Result<()> {
    let report = &envelope.result;
    let e = &envelope.environment;
    let said = |load: Option<f64>| load.map_or_else(|| UNKNOWN.to_owned(), |l| l.to_string());
    let mut text = report.markdown();
    text += &format!("![{0}]({0}.svg)\n\n", report.study);
    text += &format!(
        "Measured on {} ({} cores), Linux {}, by weir {} with `{}`; load of the machine over the \
         last minute: {} at the start, {} at the end. Samples: [{}.json]({}.json).\n",
        e.cpu_model,
        e.cores,
        e.kernel,
        e.commit,
        e.command,
        said(report.load_at_start),
        said(e.load_1min),
        report.study,
        report.study,
    );
    let json = serde_json::to_string_pretty(envelope)? + "\n";
    let mut files = Whole::default();
    for (kind, content) in [("md", text), ("json", json), ("svg", svg(report)?)] {
        files.write(&dir.join(format!("{}.{kind}", report.study)), &content)?;
    }
    Ok(files.finish()?)
}
