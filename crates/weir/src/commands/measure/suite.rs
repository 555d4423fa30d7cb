//! `weir measure suite`: every module on every switch that was asked for, one after the other.
//!
//! Each result is written when it is there, so that what was measured survives whatever comes after; at the
//! end there is a report of all of them. A module that can't be measured on a switch is noted as that, and
//! the next one is asked.

use super::device::{Device, Manner, Wanted};
use super::{SwitchArgs, given, kept, one};
use crate::commands::say::{complain, put};
use crate::commands::style::Progress;
use crate::fault;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_measure::document::{Comparison, Document, Dut, Outcome};
use weir_measure::engine::forecast::{self, Plan};
use weir_measure::engine::wire::unix_now;
use weir_measure::engine::{Phase, Status};
use weir_measure::module::{Depth, Entry, On, Params};
use weir_measure::{modules, report};

/// Which modules, on which switches.
#[derive(Debug, clap::Args)]
#[command(
    about = "Run all of them, one after the other",
    long_about = "Runs all modules, or those of '--only', one after the other on each switch. Results, \
                  their samples and a report (report.html) go into one directory.\n\n\
                  The defaults follow the papers and RFCs, and take hours; '--quick' takes minutes, and \
                  its results are marked."
)]
pub struct SuiteArgs {
    #[command(flatten)]
    switch: SwitchArgs,
    /// Only these modules
    #[arg(long, value_name = "MODULE,…", value_delimiter = ',')]
    only: Vec<String>,
    /// A TOML file with a table of parameters for each module
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Short: to see that it works, not to the papers' and RFCs' durations
    #[arg(long)]
    quick: bool,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    /// Where results and report go
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
}

/// The report's name in the directory of results.
const PAGE: &str = "report.html";

/// What is to be done, and what was.
struct Suite<'a> {
    args: &'a SuiteArgs,
    manner: Manner,
    /// Modules, with their parameters.
    asked: Vec<(Entry, Params)>,
    depth: Depth,
    stop: &'a AtomicBool,
    progress: Progress,
    plan: Plan,
    documents: Vec<Document>,
    /// What their files were to be called.
    stems: Vec<String>,
    /// Why the first that could not be written was not.
    unsaved: Option<anyhow::Error>,
}

/// Does it.
pub fn run(args: &SuiteArgs) -> Result<()> {
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let entries = match &args.only[..] {
        [] => modules::all(),
        some => some.iter().map(|name| given::entry(name)).collect::<Result<_>>()?,
    };
    let mut asked = Vec::new();
    for entry in entries {
        let params = given::params(&entry, depth, args.config.as_deref(), &[])?;
        asked.push((entry, params));
    }
    let manner = args.switch.manner()?;
    asked.iter().try_for_each(|(entry, _)| args.switch.suits(&entry.about))?;
    let wanted = args.switch.wanted()?;
    std::fs::create_dir_all(&args.out)
        .map_err(|e| fault::file(format_args!("--out {}", args.out.display()), &e))?;
    let stop = one::stopped_by_signals()?;
    let mut suite = Suite {
        args,
        manner,
        depth,
        stop: &stop,
        progress: Progress::on_stderr(),
        plan: Plan::new(wanted.iter().flat_map(|_| asked.iter().map(takes)).collect()),
        asked,
        documents: Vec::new(),
        stems: Vec::new(),
        unsaved: None,
    };
    if !args.json {
        let (n, all) = (suite.plan.count(), forecast::in_words(suite.plan.left(None)));
        put(format!(
            "{n} {} about {all} on switches that need no time of their own.\n",
            if n == 1 { "measurement takes" } else { "measurements take" }
        ))?;
    }
    for w in &wanted {
        if !stop.load(Ordering::Relaxed) {
            suite.device(w)?;
        }
    }
    suite.end()
}

/// How long a module takes on a switch that needs no time of its own.
fn takes((entry, params): &(Entry, Params)) -> Option<Duration> {
    (entry.make)(params).takes()
}

impl Suite<'_> {
    /// All modules on one switch.
    fn device(&mut self, wanted: &Wanted) -> Result<()> {
        self.progress.say(format_args!("making {}", wanted.name()));
        let device = self.args.switch.device(wanted)?;
        for (entry, params) in self.asked.clone() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let known = self.documents.iter().any(|d| d.id == entry.about.name);
            if entry.about.on == On::Wire && known {
                // It measures the instrument, whichever switch comes next.
                self.plan.skip();
                continue;
            }
            let began = Instant::now();
            let mut document = self.one(wanted, &device, &entry, params).unwrap_or_else(|e| {
                let dut = Dut { name: wanted.name().to_owned(), ..Dut::default() };
                let mut d = one::blank(&entry, self.depth, dut);
                d.partial = Some(format!("{e:#}"));
                d
            });
            self.plan.done(began.elapsed());
            self.progress.clear();
            let stem = self.free_stem(&document);
            // The others may find room; what was measured is in the report and on the screen.
            if let Err(e) = kept::save(&mut document, &self.args.out, &stem) {
                complain(format_args!("{stem}: {e:#}"));
                self.unsaved.get_or_insert(e);
            }
            if !self.args.json {
                put(line(&document, began.elapsed()))?;
            }
            self.documents.push(document);
        }
        Ok(())
    }

    fn one(
        &mut self,
        wanted: &Wanted,
        device: &Device<'_>,
        entry: &Entry,
        params: Params,
    ) -> Result<Document> {
        let name = &entry.about.name;
        self.manner.suits(&entry.about)?;
        let target = device.target(&entry.about)?;
        let (entry, manner) = (entry.clone(), self.manner.clone());
        let ask = one::Ask { entry, params, manner, pcap: None, out: Some(self.args.out.clone()) };
        let (plan, progress) = (&self.plan, &mut self.progress);
        let mut watch = |s: Status| {
            let left = plan.left(s.left(unix_now()).filter(|_| s.phase <= Phase::Measure));
            progress.say(format_args!(
                "{name} on {} ({} of {}): {}, about {} left",
                wanted.name(),
                plan.finished() + 1,
                plan.count(),
                s.phase.name(),
                forecast::in_words(left)
            ));
        };
        one::run(ask, target, &mut watch, self.stop)
    }

    /// A name for its files that none before has.
    fn free_stem(&mut self, d: &Document) -> String {
        let first = report::stem(d);
        let again = self.stems.iter().filter(|s| **s == first).count();
        self.stems.push(first.clone());
        if again == 0 { first } else { format!("{first}-{}", again + 1) }
    }

    /// The report, and what there is to say.
    fn end(mut self) -> Result<()> {
        self.progress.clear();
        let page = self.args.out.join(PAGE);
        let written = kept::write_page(&page, &self.documents);
        if self.args.json {
            let all = Comparison::new("suite", "all modules", std::mem::take(&mut self.documents));
            put(&all.to_json()?)?;
            self.documents = all.documents;
        } else {
            let quick = match self.depth {
                Depth::Quick => "quick: not at the papers' and RFCs' durations\n",
                Depth::Full => "",
            };
            let table = report::beside::text(&self.documents);
            let there = written.is_ok().then(|| format!("the report is {}\n", page.display()));
            put(format!("\n{table}\n{quick}{}", there.unwrap_or_default()))?;
        }
        if let Some(e) = self.unsaved.take() {
            return Err(e);
        }
        written?;
        let short: Vec<_> = self.documents.iter().filter(|d| d.partial.is_some()).collect();
        if self.documents.len() < self.plan.count() {
            bail!(
                "interrupted: {} of {} measurements done",
                self.documents.len(),
                self.plan.count()
            );
        }
        if let Some(first) = short.first() {
            let why = first.partial.as_deref().unwrap_or_default();
            bail!(
                "{} of {} measurements not done to the end: {} on {}: {why}",
                short.len(),
                self.plan.count(),
                first.id,
                first.dut.name
            );
        }
        Ok(())
    }
}

/// What was measured, in a line.
fn line(d: &Document, took: Duration) -> String {
    let count = |o: Outcome| d.verdicts.iter().filter(|v| v.outcome == o).count();
    let all = [(Outcome::Holds, "✓"), (Outcome::Fails, "✗"), (Outcome::Unclear, "?")];
    let counts = all.map(|(o, sign)| (count(o), sign)).into_iter().filter(|c| c.0 > 0);
    let counts: Vec<String> = counts.map(|(n, sign)| format!("{sign} {n}")).collect();
    let partial = d.partial.as_ref().map_or_else(String::new, |why| format!("  partial: {why}"));
    let seconds = took.as_secs_f64();
    format!("{:16} {:24} {seconds:6.1} s  {}{partial}\n", d.id, d.dut.name, counts.join("  "))
}
