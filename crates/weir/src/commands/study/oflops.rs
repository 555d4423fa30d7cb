//! 001's studies: a module on Open vSwitch, on weir, and on devices that do what the paper's switches did;
//! the published values beside them.
//!
//! Room: labs and files. What a study is, and what must be found, is `weir_measure::studies`'. Without root
//! (`--place memory`) the devices with configured faults alone are measured, in virtual time.

use super::RunArgs;
use crate::commands::measure::device::{Manner, Wanted, make};
use crate::commands::measure::one::{self, Ask};
use crate::commands::say::{note, put};
use crate::commands::style::Progress;
use crate::environment::PROGRAM;
use crate::fault::{self, bad_input};
use crate::study::Place;
use anyhow::{Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_measure::document::whole::Whole;
use weir_measure::document::{Comparison, Document, Dut};
use weir_measure::dut::profile::Profile;
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{EPOCH, World, simulate};
use weir_measure::engine::{Core, Settings};
use weir_measure::environment::Environment;
use weir_measure::module::{Depth, Entry, On, Params};
use weir_measure::studies::{Study, oflops};
use weir_measure::{modules, report};
use weir_openflow::channel::Versions;

/// The real switches.
const REAL: [&str; 2] = ["ovs", "weir"];
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs them.
pub fn run(args: &RunArgs, studies: &[&'static Study]) -> Result<()> {
    if args.trial.is_some() {
        return Err(bad_input("--trial: these studies have no RFC 2544 trials: leave it out"));
    }
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir)
            .map_err(|e| fault::file(format_args!("--out {}", dir.display()), &e))?;
    }
    if args.place != Place::Memory && !rustix::process::geteuid().is_root() {
        bail!(
            "these studies make network namespaces: run them as root, or take '--place memory' for the \
             devices with configured faults alone, in virtual time"
        );
    }
    let stop = one::stopped_by_signals()?;
    let mut short = Vec::new();
    for study in studies {
        if args.place == Place::Memory && study.mimics.is_empty() {
            if studies.len() > 1 {
                continue;
            }
            return Err(bad_input(format!(
                "{} measures over veth only: leave '--place' out",
                study.id
            )));
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted before {}", study.id);
        }
        let all = measure(args, study, &stop)?;
        let partial = |d: &Document| Some(format!("{}: {}", d.dut.name, d.partial.as_ref()?));
        short.extend(all.documents.iter().filter_map(partial));
        keep(args, study, all)?;
    }
    match short.first() {
        Some(first) => bail!("{} measurements not done to the end: {first}", short.len()),
        None => Ok(()),
    }
}

/// One study on all devices.
fn measure(args: &RunArgs, study: &'static Study, stop: &AtomicBool) -> Result<Comparison> {
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let entry = modules::find(study.module)
        .ok_or_else(|| anyhow!("{}: there is no module '{}'", study.id, study.module))?;
    let params = study.params(&entry, depth)?;
    let mut documents = Vec::new();
    let mut progress = Progress::on_stderr();
    if args.place == Place::Memory {
        for mimic in study.mimics {
            progress.say(format_args!("{}: {}, in virtual time", study.id, mimic.profile));
            documents.push(in_virtual_time(&entry, &params, mimic.profile)?);
        }
    } else {
        let names = REAL.into_iter().chain(study.mimics.iter().map(|m| m.profile));
        let wanted = match entry.about.on {
            On::Wire => vec![Wanted::Wires],
            On::Switch => names.map(str::parse::<Wanted>).collect::<Result<Vec<_>>>()?,
        };
        let manner = Manner {
            wire: Vec::new(),
            traffic: None,
            versions: Versions::only(oflops::VERSION),
            patience: PATIENCE,
            of_ports: None,
        };
        for (n, w) in wanted.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let title = format!("{} on {} ({} of {})", study.id, w.name(), n + 1, wanted.len());
            let done = on_device(&title, w, &entry, &params, &manner, stop, &mut progress);
            documents.push(done.unwrap_or_else(|e| {
                let dut = Dut { name: w.name().to_owned(), ..Dut::default() };
                let mut d = one::blank(&entry, depth, dut);
                d.partial = Some(format!("{e:#}"));
                d
            }));
        }
    }
    progress.clear();
    let all = study.assemble(documents, Environment::here(PROGRAM));
    Ok(Comparison::new(study.id, study.asks, all))
}

fn on_device(
    title: &str,
    wanted: &Wanted,
    entry: &Entry,
    params: &Params,
    manner: &Manner,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<Document> {
    progress.say(title);
    let device = make(wanted)?;
    let (entry, params, manner) = (entry.clone(), params.clone(), manner.clone());
    let begin = Instant::now();
    let mut watch = |s| progress.say(one::told(title, s, begin));
    let target = device.target(&entry.about)?;
    one::run(Ask { entry, params, manner, pcap: None, out: None }, target, &mut watch, stop)
}

fn in_virtual_time(entry: &Entry, params: &Params, profile: &str) -> Result<Document> {
    let dut = Dut { name: profile.to_owned(), ..Dut::default() };
    let mut document = one::blank(entry, params.depth(), dut);
    document.note("In virtual time, on a simulated device: every run is the same.");
    let channels = (1..=entry.about.channels).map(|n| format!("p{n}")).collect();
    let module = (entry.make)(params);
    let core = Core::new(Settings::new(channels), module, params.clone(), document, EPOCH);
    let mut dut = Configured::new(Profile::builtin(profile)?).speaking(oflops::VERSION);
    simulate(core, &mut dut, World::default()).map_err(|why| anyhow!("{profile}: {why}"))
}

/// Writes the results, what they look like, and a page; says where.
fn save(dir: &Path, study: &Study, all: &mut Comparison) -> Result<[PathBuf; 3]> {
    let path = all.save(dir, study.id)?;
    let mut files = Whole::default();
    let page = dir.join(format!("{}.html", study.id));
    files.write(&page, &report::html(&all.documents))?;
    let text = dir.join(format!("{}.md", study.id));
    let title = format!("{}: {}", study.id, study.figure);
    let picture = report::svg::svg(&all.documents);
    let names = picture.as_ref().map(|_| format!("{}.svg", study.id));
    files.write(&text, &report::markdown::markdown(&title, &all.documents, names.as_deref()))?;
    if let (Some(svg), Some(name)) = (picture, names) {
        files.write(&dir.join(name), &svg)?;
    }
    files.finish()?;
    Ok([path, text, page])
}

/// What was measured is printed whether or not it can be written.
fn keep(args: &RunArgs, study: &Study, mut all: Comparison) -> Result<()> {
    let saved = args.out.as_deref().map(|dir| save(dir, study, &mut all)).transpose();
    if let (Ok(Some(paths)), false) = (&saved, args.json) {
        paths.iter().for_each(|p| note(p.display()));
    }
    if args.json {
        put(all.to_json()?)?;
        return saved.map(|_| ());
    }
    let quick = if args.quick { "quick: not to the paper's durations\n" } else { "" };
    let asks = format!("{}: {} ({})\n", study.id, study.asks, study.figure);
    put(format!("{asks}{quick}\n{}\n", report::beside::text(&all.documents)))?;
    saved.map(|_| ())
}
