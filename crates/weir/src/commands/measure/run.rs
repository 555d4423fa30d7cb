//! `weir measure run`: from arguments to a document.

use super::{RunArgs, given, target};
use crate::commands::style::{Progress, Style, Verdict, say};
use crate::environment::PROGRAM;
use crate::fault::bad_input;
use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use weir_measure::control;
use weir_measure::control::pcap::Conversation;
use weir_measure::document::{Cell, Document, Outcome, Table};
use weir_measure::engine::run::{Rig, run as measure};
use weir_measure::engine::wire::unix_now;
use weir_measure::engine::{Core, Departures, Settings, Status};
use weir_measure::environment::Environment;
use weir_openflow::channel::Versions;
use weir_openflow::model::Version;

fn versions(text: &str) -> Result<Versions> {
    match text {
        "1.0" => Ok(Versions::only(Version::V10)),
        "1.3" => Ok(Versions::only(Version::V13)),
        "any" => Ok(Versions::ALL),
        other => Err(bad_input(format!("--openflow {other}: give 1.0, 1.3 or any"))),
    }
}

/// Does it.
pub fn run(args: &RunArgs) -> Result<()> {
    let entry = given::entry(&args.module)?;
    let params = given::params(args, &entry)?;
    let versions = versions(&args.openflow)?;
    if !(0.1..=3600.0).contains(&args.patience) {
        return Err(bad_input("--patience must be 0.1 to 3600 seconds"));
    }
    let patience = Duration::from_secs_f64(args.patience);
    let pcap = args.pcap.as_deref().map(Conversation::create).transpose().map_err(bad_input)?;
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir)
            .map_err(|e| bad_input(format!("--out {}: {e}", dir.display())))?;
    }
    // Caught before anything is made, so that everything is taken down again.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("catching signals")?;
    }
    let target = target::target(args)?;
    let about = &entry.about;
    let environment = Environment::here(PROGRAM);
    let mut document = Document::new(&about.name, &about.asks, target.dut.clone(), environment);
    document.paper = about.paper.clone();
    document.quick = args.quick;
    let mut settings = Settings::new(target.channels.iter().map(|c| c.name.clone()).collect());
    settings.patience = patience;
    settings.departures = Departures::Kernel;
    settings.expected_ports = Some(args.of_ports.clone()).filter(|p| !p.is_empty());
    let module = (entry.make)(&params);
    let core = Core::new(settings, module, params, document, unix_now());
    let rig = Rig {
        channels: target.channels,
        control: control::Settings { dial: target.dial, versions, patience, pcap },
        sampler: target.sampler,
    };
    let mut progress = Progress::on_stderr();
    let begin = Instant::now();
    let done = measure(
        core,
        rig,
        &mut |s: Status| progress.say(format_args!("{}", told(&about.name, s, begin))),
        &stop,
    );
    progress.clear();
    let mut document = done.map_err(|why| anyhow!("{}: {why}", about.name))?;
    if let Some(dir) = &args.out {
        let path = document.save(dir, &about.name)?;
        if !args.json {
            eprintln!("{}", path.display());
        }
    }
    if args.json {
        say(&(document.to_json()? + "\n"))?;
    } else {
        say(&summary(&document))?;
    }
    match &document.partial {
        Some(why) => Err(anyhow!("{}: ended early, results are partial: {why}", about.name)),
        None => Ok(()),
    }
}

/// Where it stands, in a line.
fn told(name: &str, s: Status, begin: Instant) -> String {
    let seconds = begin.elapsed().as_secs_f64();
    let left = match (s.done, s.of) {
        (1.., of) if of >= s.done => {
            let left = seconds / s.done as f64 * (of - s.done) as f64;
            format!(", {} of {of}, about {left:.0} s left", s.done)
        }
        _ => String::new(),
    };
    format!("{name} ({seconds:.0} s): {}{left}", s.phase.name())
}

/// What fits a screen: verdicts, tables, notes.
fn summary(d: &Document) -> String {
    let style = Style::of_stdout();
    let mut text = format!("{}\n", style.head(format_args!("{}: {}", d.dut.name, d.title)));
    if d.quick {
        text += &format!("{}\n", style.faint("quick: not at the papers' durations"));
    }
    for v in &d.verdicts {
        let line = format!("{}: {}", v.id, v.sentence);
        text += &match v.outcome {
            Outcome::Holds => style.verdict(Verdict::Holds, line),
            Outcome::Fails => style.verdict(Verdict::Fails, line),
            Outcome::Unclear => style.faint(format_args!("? {line}")),
        };
        text.push('\n');
    }
    for t in &d.tables {
        text += &format!("\n{}\n{}", style.strong(&t.title), columns(t));
    }
    for x in &d.distributions {
        if let (Some(p50), Some(p99), Some(max)) = (x.median(), x.percentile(99.0), x.max) {
            text += &format!(
                "{}: median {p50:.1}, p99 {p99:.1}, max {max:.1} {} of {}\n",
                x.title, x.unit, x.count
            );
        }
    }
    for n in &d.notes {
        text += &format!("{}\n", style.faint(n));
    }
    text
}

/// A table in columns.
fn columns(t: &Table) -> String {
    let head = t.columns.iter().map(|c| match c.unit.as_str() {
        "" => c.name.clone(),
        unit => format!("{} ({unit})", c.name),
    });
    let cell = |c: &Cell| match c {
        Cell::Number(n) if !n.is_finite() => "-".to_owned(),
        Cell::Number(n) if n.fract() == 0.0 && n.abs() < 1e9 => format!("{n:.0}"),
        Cell::Number(n) => format!("{n:.3}"),
        Cell::Text(t) => t.clone(),
        Cell::NotStated => "not stated".to_owned(),
    };
    let mut rows = vec![head.collect::<Vec<_>>()];
    rows.extend(t.rows.iter().map(|r| r.iter().map(cell).collect()));
    let width = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max();
    let widths: Vec<_> = (0..t.columns.len()).map(|n| width(n).unwrap_or(0)).collect();
    let line = |r: &Vec<String>| {
        let cells = r.iter().zip(&widths).map(|(c, w)| format!("{c:>w$}"));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}
