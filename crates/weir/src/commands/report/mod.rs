//! `weir report`: results of measurements and studies as a page of HTML, CSV, JSON lines, or a screen of
//! text.
//!
//! Room: arguments and files. What the page looks like is `weir_measure::report`'s.

mod study;

use super::say::{complain, note, put};
use crate::fault::{self, bad_input};
use anyhow::Result;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use weir_measure::document::comparison::{self, Comparison};
use weir_measure::document::whole::{self, Whole};
use weir_measure::document::{Document, file};
use weir_measure::report;

/// Where the page goes when nothing else is asked for.
const PAGE: &str = "report.html";

/// Arguments of `weir report`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Turn results into a page: verdicts, plots, tables, raw data",
    long_about = "Turns results of 'weir measure' and 'weir study' into one self-contained page of \
                  HTML: verdicts in words, the papers' figures as interactive plots, tables, where \
                  it comes from, the raw data to save. It opens from disk without a network, in \
                  light and dark, and prints. Results of one module on several devices are laid \
                  side by side. Without --out, --csv, --jsonl or --text the page goes to \
                  report.html.",
    after_long_help = "Examples:\n  \
                       weir report results/ --out report.html\n  \
                       weir report results/flow-insert-ovs.json --text\n  \
                       weir report results/ --jsonl - | jq 'select(.fact == \"verdict\")'"
)]
pub struct Args {
    /// Results: files, or directories whose *.json are taken
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// Write the page here; '-' is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write figures, tables, distributions and verdicts as CSV into this directory
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write every fact as a line of JSON here; '-' is standard output
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Print a summary that fits a screen, for each result
    #[arg(long)]
    text: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let mut inputs = Inputs::default();
    let documents = read_all(&args.results, &mut inputs)?;
    let nothing_else = args.csv.is_none() && args.jsonl.is_none() && !args.text;
    let page = args.out.clone().or_else(|| nothing_else.then(|| PathBuf::from(PAGE)));
    let tables = args.csv.as_deref().map(|dir| (dir, report::csv::files(&documents)));
    // Before anything is written.
    page.iter().chain(&args.jsonl).try_for_each(|path| inputs.spare(path))?;
    if let Some((dir, files)) = &tables {
        files.iter().try_for_each(|(name, _)| inputs.spare(&dir.join(name)))?;
    }
    if let (Some(page), Some(lines)) = (&page, &args.jsonl)
        && page != Path::new("-")
        && weir_io::is_one_file(page, lines)
    {
        return Err(bad_input("--out and --jsonl are one file: give each its own"));
    }
    if let Some(path) = page {
        write(&path, &report::html(&documents), "the report")?;
    }
    if let Some((dir, files)) = &tables {
        std::fs::create_dir_all(dir)
            .map_err(|e| fault::file(format_args!("--csv {}", dir.display()), &e))?;
        let mut all = Whole::default();
        files
            .iter()
            .try_for_each(|(name, text)| all.write(&dir.join(name), text))
            .map_err(bad_input)?;
        all.finish().map_err(bad_input)?;
        note(format_args!("{} files of CSV are in {}", files.len(), dir.display()));
    }
    if let Some(path) = &args.jsonl {
        write(path, &report::lines::lines(&documents), "JSON lines")?;
    }
    if args.text {
        let (width, height) = screen();
        let texts: Vec<String> =
            documents.iter().map(|d| report::terminal::summary(d, width, height)).collect();
        put(texts.join("\n"))?;
    }
    Ok(())
}

/// Characters and lines of the terminal; those of an old one where there is none.
fn screen() -> (usize, usize) {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    match size {
        // A line is left for the prompt.
        Some(s) if s.ws_col > 0 && s.ws_row > 0 => (s.ws_col.into(), usize::from(s.ws_row) - 1),
        _ => (80, 24),
    }
}

fn write(path: &Path, text: &str, what: &str) -> Result<()> {
    if path == Path::new("-") {
        return put(text);
    }
    whole::write(path, text).map_err(bad_input)?;
    note(format_args!("{what} is in {}", path.display()));
    Ok(())
}

/// Files that are read, whatever they are called: nothing is written over them.
#[derive(Default)]
struct Inputs(BTreeSet<(u64, u64)>);

impl Inputs {
    fn add(&mut self, path: &Path) {
        self.0.extend(weir_io::file_id(path));
    }

    /// Refuses an output that is one of them.
    fn spare(&self, output: &Path) -> Result<()> {
        // '-' is no file.
        let there = weir_io::file_id(output).filter(|_| output != Path::new("-"));
        match there {
            Some(id) if self.0.contains(&id) => Err(bad_input(format!(
                "{} is one of the results that are read: write elsewhere",
                output.display()
            ))),
            _ => Ok(()),
        }
    }
}

fn read_all(results: &[PathBuf], inputs: &mut Inputs) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for path in results {
        if !path.is_dir() {
            documents.extend(read(path, inputs)?);
            continue;
        }
        let mut inside = json_files(path)?;
        inside.sort();
        let before = documents.len();
        for file in &inside {
            match read(file, inputs) {
                Ok(all) => documents.extend(all),
                // A directory may hold other things; what is left out is said.
                Err(e) => complain(format_args!("left out: {e:#}")),
            }
        }
        if documents.len() == before {
            return Err(bad_input(format!(
                "{}: no results in it: 'weir measure run MODULE --out DIR' writes some",
                path.display()
            )));
        }
    }
    Ok(documents)
}

fn json_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e: std::io::Error| fault::file(dir.display(), &e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "json") && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
}

/// A file's results, whichever shape they have.
fn read(path: &Path, inputs: &mut Inputs) -> Result<Vec<Document>> {
    inputs.add(path);
    let documents = shaped(path)?;
    let samples =
        documents.iter().flat_map(|d| &d.distributions).filter_map(|d| d.samples.as_ref());
    samples.for_each(|s| inputs.add(&path.with_file_name(&s.file)));
    Ok(documents)
}

fn shaped(path: &Path) -> Result<Vec<Document>> {
    let text = file::read(path, file::LONGEST).map_err(bad_input)?;
    let head: Option<Head> = serde_json::from_str(&text).ok();
    match head.and_then(|h| h.kind).as_deref() {
        Some("study") => study::document(&text)
            .map(|d| vec![d])
            .map_err(|e| bad_input(format!("{}: {e}", path.display()))),
        Some(comparison::KIND) => {
            Comparison::load(path).map(|all| all.documents).map_err(bad_input)
        }
        _ => Document::load(path).map(|d| vec![d]).map_err(bad_input),
    }
}
