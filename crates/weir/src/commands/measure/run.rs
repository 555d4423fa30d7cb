//! `weir measure run`: one module, on one switch or on several.

use super::device::{Device, Wanted};
use super::{RunArgs, given, one};
use crate::commands::style::{Progress, Style, Verdict, say};
use crate::fault::bad_input;
use anyhow::{Result, anyhow, bail};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_measure::control::pcap::Conversation;
use weir_measure::document::{Cell, Comparison, Document, Dut, Outcome, Table};
use weir_measure::module::Depth;
use weir_measure::report;

/// Does it.
pub fn run(args: &RunArgs) -> Result<()> {
    let entry = given::entry(&args.module)?;
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let params = given::params(&entry, depth, args.config.as_deref(), &args.set)?;
    let manner = args.switch.manner()?;
    let wanted = args.switch.wanted()?;
    if args.pcap.is_some() && wanted.len() > 1 {
        return Err(bad_input("--pcap: one file holds the conversation with one switch"));
    }
    let mut pcap = args.pcap.as_deref().map(Conversation::create).transpose().map_err(bad_input)?;
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir)
            .map_err(|e| bad_input(format!("--out {}: {e}", dir.display())))?;
    }
    let stop = one::stopped_by_signals()?;
    let mut measure = |wanted: &Wanted| {
        let device = args.switch.device(wanted)?;
        let (entry, params, manner) = (entry.clone(), params.clone(), manner.clone());
        let ask = one::Ask { entry, params, manner, pcap: pcap.take() };
        let name = match &device {
            Device::Given(_) => args.module.clone(),
            Device::Made(..) | Device::Wires => format!("{} on {}", args.module, wanted.name()),
        };
        watched(&name, ask, &device, &stop)
    };
    if let [alone] = &wanted[..] {
        return keep_one(args, measure(alone)?);
    }
    let mut documents = Vec::new();
    for w in &wanted {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        documents.push(measure(w).unwrap_or_else(|e| {
            let dut = Dut { name: w.name().to_owned(), ..Dut::default() };
            let mut d = one::blank(&entry, depth, dut);
            d.partial = Some(format!("{e:#}"));
            d
        }));
    }
    let title = &entry.about.asks;
    keep_all(args, Comparison::new(&args.module, title, documents), wanted.len())
}

fn watched(name: &str, ask: one::Ask, device: &Device<'_>, stop: &AtomicBool) -> Result<Document> {
    let mut progress = Progress::on_stderr();
    let begin = Instant::now();
    let target = device.target(&ask.entry.about)?;
    let mut watch = |s| progress.say(one::told(name, s, begin));
    let done = one::run(ask, target, &mut watch, stop);
    progress.clear();
    done
}

fn keep_one(args: &RunArgs, mut document: Document) -> Result<()> {
    if let Some(dir) = &args.out {
        let path = document.save(dir, &args.module)?;
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
        Some(why) => Err(anyhow!("{}: ended early, results are partial: {why}", args.module)),
        None => Ok(()),
    }
}

fn keep_all(args: &RunArgs, mut all: Comparison, of: usize) -> Result<()> {
    if let Some(dir) = &args.out {
        let path = all.save(dir, &args.module)?;
        let page = dir.join(format!("{}.html", args.module));
        write_page(&page, &all.documents)?;
        if !args.json {
            eprintln!("{}\n{}", path.display(), page.display());
        }
    }
    if args.json {
        say(&all.to_json()?)?;
    } else {
        say(&report::beside::text(&all.documents))?;
    }
    let short: Vec<_> = all.documents.iter().filter(|d| d.partial.is_some()).collect();
    if let Some(first) = short.first() {
        let why = first.partial.as_deref().unwrap_or_default();
        bail!(
            "{} of {of} switches not measured to the end: {}: {why}",
            short.len(),
            first.dut.name
        );
    }
    if all.documents.len() < of {
        bail!("interrupted: {} of {of} switches measured", all.documents.len());
    }
    Ok(())
}

/// Writes the report.
///
/// # Errors
/// The file can't be written.
pub fn write_page(path: &Path, documents: &[Document]) -> Result<()> {
    std::fs::write(path, report::html(documents))
        .map_err(|e| anyhow!("the report {}: {e}", path.display()))
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
