//! One module on one switch: from what is to be asked to a document.
//!
//! Called by `run`, `suite` and the studies, which open the switch and keep the document.

use super::device::Manner;
use super::floor;
use super::flows::{self, Flows};
use super::held;
use super::target::{Owner, Target};
use crate::commands::style::Progress;
use crate::environment::PROGRAM;
use crate::left;
use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_measure::control;
use weir_measure::control::pcap::Conversation;
use weir_measure::document::{Document, Dut};
use weir_measure::engine::keeping::Keep;
use weir_measure::engine::run::{Rig, run as measure};
use weir_measure::engine::wire::unix_now;
use weir_measure::engine::{Core, Departures, Keeps, Phase, Resets, Settings, Status, forecast};
use weir_measure::environment::Environment;
use weir_measure::module::{Depth, Entry, Params};
use weir_measure::report;

/// What is asked.
pub struct Ask {
    /// The module.
    pub entry: Entry,
    /// Its parameters.
    pub params: Params,
    /// How to speak to the switch.
    pub manner: Manner,
    /// Where to save the conversation.
    pub pcap: Option<Conversation>,
    /// Where files of the result go.
    pub out: Option<PathBuf>,
}

/// Signals so soon after the first are one with it: `timeout` signals the program, and then the group that it is in.
const ONE: Duration = Duration::from_secs(1);

/// Raised by SIGINT and SIGTERM, and by SIGHUP unless the program was started to outlive its terminal ('nohup'), so
/// that everything is taken down again; a second SIGINT or SIGTERM, later than [`ONE`], puts the user's interfaces
/// back, takes away what was made here, says where the flows are that a switch has lost, and ends the program at once. A terminal that goes may say so twice.
///
/// # Errors
/// Signals can't be caught.
pub fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let own = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!ignored(&own, SIGHUP)).then_some(SIGHUP);
    let caught = [SIGINT, SIGTERM].into_iter().chain(hangup);
    let mut signals = Signals::new(caught).context("catching signals")?;
    let raised = Arc::clone(&stop);
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            raised.store(true, Ordering::Release);
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if since > ONE && signal != SIGHUP {
                held::put_all_back();
                left::take_own_away();
                flows::left().into_iter().for_each(Progress::past);
                std::process::exit(1);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("a thread")?;
    Ok(stop)
}

/// Whether a process whose `/proc/PID/status` this is ignores a signal.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// An empty document for it.
pub fn blank(entry: &Entry, depth: Depth, dut: Dut) -> Document {
    let about = &entry.about;
    let mut document = Document::new(&about.name, &about.asks, dut, Environment::here(PROGRAM));
    document.paper = about.paper.clone();
    document.quick = depth == Depth::Quick;
    document
}

/// Measures.
///
/// # Errors
/// Nothing could be measured, and why.
pub fn run(
    ask: Ask,
    target: Target,
    watch: &mut dyn FnMut(Status),
    stop: &AtomicBool,
) -> Result<Document> {
    let Ask { entry, params, manner, pcap, out } = ask;
    let mut document = blank(&entry, params.depth(), target.dut.clone());
    let stem = report::stem(&document);
    target.held.iter().for_each(|h| h.note(&mut document));
    floor::note(&mut document, &manner.wire, &entry.about, &target, stop)?;
    let mut settings = Settings::new(target.channels.iter().map(|c| c.name.clone()).collect());
    settings.versions = manner.versions;
    settings.patience = manner.patience;
    settings.departures = Departures::Kernel;
    settings.expected_ports = manner.of_ports;
    settings.traffic = manner.traffic;
    settings.resets = target.reset.as_ref().map_or(Resets::ByHand, |_| Resets::ByCommand);
    // A lab is gone afterwards, its flows with it.
    let keep = (target.owner == Owner::User).then(|| -> Box<dyn Keep> {
        let flows = Flows::new(out, stem);
        flows.tell_of_earlier();
        Box::new(flows)
    });
    settings.keeps = keep.as_ref().map_or(Keeps::InMind, |_| Keeps::ByCommand);
    let module = (entry.make)(&params);
    let core = Core::new(settings, module, params, document, unix_now());
    let (versions, patience) = (manner.versions, manner.patience);
    let rig = Rig {
        channels: target.channels,
        control: control::Settings {
            dial: target.dial,
            comes: target.comes,
            versions,
            patience,
            pcap,
        },
        sampler: target.sampler,
        reset: target.reset,
        keep,
    };
    measure(core, rig, watch, stop).map_err(|why| anyhow!("{}: {why}", entry.about.name))
}

/// How long it will take, as far as that can be known beforehand.
pub fn beforehand(what: &str, ask: &Ask) -> String {
    match (ask.entry.make)(&ask.params).takes() {
        Some(t) => format!(
            "{what} takes about {} on a switch that needs no time of its own.\n",
            forecast::in_words(t)
        ),
        None => format!("{what}: how long it takes depends on the switch.\n"),
    }
}

/// Where it stands, in a line.
pub fn told(what: &str, s: Status, begin: Instant) -> String {
    let left = s.left(unix_now()).filter(|_| s.phase <= Phase::Measure);
    let left = left.map_or_else(String::new, |l| format!(", about {} left", forecast::in_words(l)));
    let done = match s.of {
        0 => String::new(),
        of => format!(", {:.0} %", s.done as f64 / of as f64 * 100.0),
    };
    format!("{what} ({}): {}{done}{left}", forecast::in_words(begin.elapsed()), s.phase.name())
}
