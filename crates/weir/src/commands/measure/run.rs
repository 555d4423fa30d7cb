//! `weir measure run`: one module, on one switch or on several.

use super::device::{Device, Wanted};
use super::target::Target;
use super::{RunArgs, given, kept, one};
use crate::commands::say::{complain, note, put};
use crate::commands::style::{Progress, Style, Verdict};
use crate::fault::{self, bad_input};
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_measure::control::pcap::Conversation;
use weir_measure::document::{Comparison, Document, Dut};
use weir_measure::engine::recorded::recorded;
use weir_measure::module::Depth;
use weir_measure::report;

/// Does it.
pub fn run(args: &RunArgs) -> Result<()> {
    let entry = given::entry(&args.module)?;
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let params = given::params(&entry, depth, args.config.as_deref(), &args.set)?;
    let manner = args.switch.manner()?;
    manner.suits(&entry.about)?;
    args.switch.suits(&entry.about)?;
    let wanted = args.switch.wanted()?;
    if args.pcap.is_some() && wanted.len() > 1 {
        return Err(bad_input("--pcap: one file holds the conversation with one switch"));
    }
    if args.capture.is_some() && wanted.len() > 1 {
        return Err(bad_input("--capture: one directory holds the frames of one switch"));
    }
    for (option, dir) in [("--out", &args.out), ("--capture", &args.capture)] {
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir)
                .map_err(|e| fault::file(format_args!("{option} {}", dir.display()), &e))?;
        }
    }
    let stop = one::stopped_by_signals()?;
    let module = entry.about.name.clone();
    let mut unsaved = None;
    let mut measure = |wanted: &Wanted| {
        let device = args.switch.device(wanted)?;
        // Begun anew only by who has the switch.
        let pcap = args.pcap.as_deref().map(Conversation::create).transpose().map_err(bad_input)?;
        unsaved = pcap.as_ref().map(Conversation::unsaved);
        let (entry, params, manner) = (entry.clone(), params.clone(), manner.clone());
        let ask = one::Ask { entry, params, manner, pcap, out: args.out.clone() };
        let name = match &device {
            Device::Given { .. } => module.clone(),
            Device::Made { .. } | Device::Wires => format!("{module} on {}", wanted.name()),
        };
        let mut target = device.target(&ask.entry.about)?;
        if let Some(dir) = &args.capture {
            let save = |c| recorded(c, dir).map_err(|e| bad_input(format!("--capture: {e}")));
            target.channels = target.channels.into_iter().map(save).collect::<Result<_>>()?;
        }
        if !args.json {
            put(one::beforehand(&name, &ask))?;
        }
        watched(&name, ask, target, &stop)
    };
    if let [alone] = &wanted[..] {
        let done = measure(alone).and_then(|d| keep_one(args, &entry.about.name, d));
        return and_saved(done, unsaved.as_ref().and_then(|u| u.get()));
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
    keep_all(args, Comparison::new(&entry.about.name, title, documents), wanted.len())
}

fn watched(name: &str, ask: one::Ask, target: Target, stop: &AtomicBool) -> Result<Document> {
    let mut progress = Progress::on_stderr();
    let begin = Instant::now();
    let mut watch = |s| progress.say(one::told(name, s, begin));
    let done = one::run(ask, target, &mut watch, stop);
    progress.clear();
    done
}

/// A conversation that was asked for and is not whole is no success.
fn and_saved(done: Result<()>, unsaved: Option<&String>) -> Result<()> {
    let Some(why) = unsaved else { return done };
    let why = format!("--pcap: the conversation is not saved whole: {why}");
    match done {
        Ok(()) => Err(anyhow!(why)),
        // The reason why it ended is the last line.
        Err(e) => {
            complain(why);
            Err(e)
        }
    }
}

/// What was measured is printed whether or not it can be written.
fn keep_one(args: &RunArgs, name: &str, mut document: Document) -> Result<()> {
    let stem = report::stem(&document);
    let saved = args.out.as_deref().map(|dir| kept::save(&mut document, dir, &stem)).transpose();
    if let (Ok(Some(path)), false) = (&saved, args.json) {
        note(path.display());
    }
    if args.json {
        put(document.to_json()? + "\n")?;
    } else {
        put(summary(&document))?;
    }
    saved?;
    match &document.partial {
        Some(why) => Err(anyhow!("{}: ended early, results are partial: {why}", name)),
        None => Ok(()),
    }
}

/// Writes all results, and the page.
fn save_all(all: &mut Comparison, dir: &Path) -> Result<[PathBuf; 2]> {
    let devices: Vec<_> = all.documents.iter().map(|d| d.dut.name.as_str()).collect();
    let stem = kept::free(dir, &all.id, &devices);
    let path = all.save(dir, &stem).map_err(|e| anyhow!("the results could not be saved: {e}"))?;
    let page = dir.join(format!("{stem}.html"));
    kept::write_page(&page, &all.documents)?;
    Ok([path, page])
}

fn keep_all(args: &RunArgs, mut all: Comparison, of: usize) -> Result<()> {
    let saved = args.out.as_deref().map(|dir| save_all(&mut all, dir)).transpose();
    if let (Ok(Some(paths)), false) = (&saved, args.json) {
        paths.iter().for_each(|p| note(p.display()));
    }
    if args.json {
        put(all.to_json()?)?;
    } else {
        put(report::beside::text(&all.documents))?;
    }
    saved?;
    let short: Vec<_> = all.documents.iter().filter(|d| d.partial.is_some()).collect();
    if all.documents.len() < of {
        let (whole, begun) = (all.documents.len() - short.len(), all.documents.len());
        bail!(
            "interrupted: {whole} of {of} switches measured to the end, {} not begun",
            of - begun
        );
    }
    if let Some(first) = short.first() {
        let why = first.partial.as_deref().unwrap_or_default();
        bail!(
            "{} of {of} switches not measured to the end: {}: {why}",
            short.len(),
            first.dut.name
        );
    }
    Ok(())
}

/// The result on a screen, verdicts coloured.
fn summary(d: &Document) -> String {
    let (width, height) = screen();
    let style = Style::of_stdout();
    let mark = |line: &str| match line.chars().next() {
        Some('✓') => style.verdict(Verdict::Holds, line.trim_start_matches(['✓', ' '])),
        Some('✗') => style.verdict(Verdict::Fails, line.trim_start_matches(['✗', ' '])),
        _ => line.to_owned(),
    };
    report::terminal::summary(d, width, height).lines().map(|l| mark(l) + "\n").collect()
}

/// Columns and lines of the terminal, one line left for the prompt; in a pipe as many as a report likes.
fn screen() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(s) if s.ws_col > 0 && s.ws_row > 0 => (s.ws_col.into(), usize::from(s.ws_row) - 1),
        _ => (100, 40),
    }
}
