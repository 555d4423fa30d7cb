//! `weir net monitor`: what networks carry and lose, per network, live; how good their links are, by the
//! probes that their tunnels send in band; and which of the lab's guards apply.
//!
//! Room: counters of the physical nodes, added up by network. Reading only, unless guards are to act: they
//! do so like `weir net set` and `delete`.

use super::Kept;
use super::edit::{self, find};
use super::ends::{self, EndsLook};
use super::links::{self, LinkLook};
use crate::commands::columns::Columns;
use crate::commands::say::{Reader, offer};
use crate::commands::top::{Ended, Screen, cut, waited};
use crate::fault::bad_input;
use crate::net::nodes::Nodes;
use anyhow::Result;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_supervisor::guard::{self, Alarm, Watch};
use weir_supervisor::store::State;

/// Watch what networks carry and lose
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir net monitor\n  weir net monitor red --count 10 -o json\n  \
                       weir net monitor --act\n\n\
                       What the [[guard]]s of the lab would do is only told, unless --act is given."
)]
pub struct Args {
    /// Only this one
    network: Option<String>,
    /// Time between two looks, 50 to 60000
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    interval_ms: u64,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// How it is printed: a table, or a JSON object a network and look
    #[arg(short, long, value_parser = ["table", "json"], default_value = "table")]
    output: String,
    /// Do what the lab's guards say, rather than only telling it
    #[arg(long)]
    act: bool,
    #[command(flatten)]
    kept: Kept,
}

/// What a node, or a network, has counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: (u64, u64),
    forwarded: (u64, u64),
    dropped: u64,
    slow: u64,
    held: u64,
}

impl Counts {
    fn add(&mut self, o: &Self) {
        self.received.0 += o.received.0;
        self.received.1 += o.received.1;
        self.forwarded.0 += o.forwarded.0;
        self.forwarded.1 += o.forwarded.1;
        self.dropped += o.dropped;
        self.slow += o.slow;
        self.held += o.held;
    }
    /// What was counted since `b`; what is inside is inside now.
    fn since(&self, b: &Self) -> Self {
        let since =
            |now: (u64, u64), b: (u64, u64)| (now.0.saturating_sub(b.0), now.1.saturating_sub(b.1));
        Self {
            received: since(self.received, b.received),
            forwarded: since(self.forwarded, b.forwarded),
            dropped: self.dropped.saturating_sub(b.dropped),
            slow: self.slow.saturating_sub(b.slow),
            held: self.held,
        }
    }
}

/// A look at a network: what happened since the one before.
#[derive(Debug, Serialize)]
struct Look<'n> {
    network: &'n str,
    interval_ns: u64,
    received_frames: u64,
    received_bytes: u64,
    forwarded_frames: u64,
    forwarded_bytes: u64,
    dropped_frames: u64,
    slow_frames: u64,
    /// Inside, now.
    held_frames: u64,
    /// Its links' ways, each at both ends, where they are probed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkLook>,
    /// Between its ends, over several links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ends: Vec<EndsLook>,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if !(50..=60_000).contains(&args.interval_ms) {
        return Err(bad_input(format!("--interval-ms {}: 50 to 60000", args.interval_ms)));
    }
    let mut lab = Watched::open(args)?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut before = lab.counted()?;
    let screen = if args.output == "table" { Screen::take() } else { None };
    let mut watch = Watch::default();
    // Kept on a screen, where they would be gone with the next look.
    let mut told = Vec::new();
    let mut shown = 0;
    while args.count.is_none_or(|n| shown < n) {
        if waited(&mut signals, Duration::from_millis(args.interval_ms)) == Ended::Yes {
            return Ok(());
        }
        let now = lab.counted()?;
        let ns = now.at.saturating_sub(before.at).max(1);
        let alarms = watch.look(&lab.state.lab, now.at, ns, &nodes_since(&before, &now));
        if screen.is_none() {
            told.clear();
        }
        let mut changed = false;
        for a in alarms {
            let outcome = outcome(args, &mut watch, &a);
            changed |= outcome == Outcome::Done;
            told.push(Told { alarm: a, outcome });
        }
        // What is not shown any more is not kept.
        if screen.is_some() {
            told.drain(..told.len().saturating_sub(SHOWN));
        }
        let text = match args.output.as_str() {
            "table" => lab.as_table(ns, &before, &now, &told),
            _ => lab.as_json(ns, &before, &now, &told)?,
        };
        let text = match &screen {
            Some(_) => format!("\x1b[H\x1b[J{}", cut(&text)),
            None if args.output == "table" => format!("{text}\n"),
            None => text,
        };
        if offer(text)? == Reader::Gone {
            return Ok(());
        }
        (before, shown) = (now, shown + 1);
        if changed {
            lab = Watched::open(args)?;
            before = lab.counted()?;
        }
    }
    Ok(())
}

/// What became of what a guard says.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was only told.
    DryRun,
    Done,
    /// Why it could not be.
    Failed(String),
}

/// Does what a guard says, if guards are to act, and says what became of it.
fn outcome(args: &Args, watch: &mut Watch, a: &Alarm) -> Outcome {
    if !args.act {
        return Outcome::DryRun;
    }
    match edit::made(&args.kept, |lab| guard::act(lab, a)) {
        Ok(_) => Outcome::Done,
        Err(e) => {
            watch.failed(a);
            Outcome::Failed(format!("{e:#}"))
        }
    }
}

/// A guard that applied, and what became of it.
struct Told {
    alarm: Alarm,
    outcome: Outcome,
}

impl Told {
    fn line(&self) -> String {
        let Self { alarm: a, outcome } = self;
        let (rate, act) = (a.rate.name(), a.act.name());
        let what = match outcome {
            Outcome::DryRun => format!("would {act} (--act does)"),
            Outcome::Done => format!("{act}: done"),
            Outcome::Failed(why) => format!("{act} could not be: {why}"),
        };
        format!("guard '{}': {}/{}: {} {rate}/s: {what}\n", a.guard, a.network, a.node, a.per_s)
    }
    fn json(&self) -> serde_json::Value {
        let Self { alarm: a, outcome } = self;
        let outcome = match outcome {
            Outcome::DryRun => "dry-run",
            Outcome::Done => "done",
            Outcome::Failed(why) => why,
        };
        serde_json::json!({
            "guard": a.guard, "network": a.network, "node": a.node, "rate": a.rate.name(),
            "per_s": a.per_s, "act": a.act.name(), "outcome": outcome,
        })
    }
}

/// The networks that are watched, and their physical nodes.
struct Watched {
    state: State,
    names: Vec<String>,
    nodes: Nodes,
}

/// All that is looked at, at one moment.
struct Counted {
    /// The nodes' time, in nanoseconds.
    at: u64,
    /// By network and node.
    all: BTreeMap<(String, String), Counts>,
    links: Vec<LinkLook>,
}

impl Watched {
    fn open(args: &Args) -> Result<Self> {
        let state = args.kept.open()?.saved.state;
        if let Some(name) = &args.network {
            find(&state.lab, name)?;
        }
        let names = state.lab.network.iter().map(|n| n.name.clone());
        let names = names.filter(|n| args.network.as_ref().is_none_or(|o| o == n)).collect();
        let nodes = Nodes::connect([&state.lab])?;
        Ok(Self { state, names, nodes })
    }

    /// Counters by node, and of the links of the networks that are looked at.
    fn counted(&mut self) -> Result<Counted> {
        let stats = self.nodes.stats()?;
        let mut all = BTreeMap::new();
        for n in self.state.lab.network.iter().filter(|n| self.names.contains(&n.name)) {
            for v in &n.node {
                let place = self.state.places.get(&format!("{}/{}", n.name, v.name));
                let at = place.and_then(|p| Some((stats.get(&p.host)?, p.vid)));
                let Some(i) = at.and_then(|(s, vid)| s.whole(vid)) else {
                    continue;
                };
                let counts = Counts {
                    received: (i.received.frames, i.received.bytes),
                    forwarded: (i.forwarded.frames, i.forwarded.bytes),
                    dropped: i.dropped.values().sum::<u64>(),
                    slow: i.slow,
                    held: i.held as u64,
                };
                all.insert((n.name.clone(), v.name.clone()), counts);
            }
        }
        // The nodes' clocks run alike; one of them tells how long it was.
        let at = stats.values().next().map_or(0, |s| s.plane.at_ns);
        let links =
            links::seen(&self.state.lab, |n| self.names.contains(&n.name), |host| stats.get(host));
        Ok(Counted { at, all, links })
    }

    fn looks(&self, ns: u64, before: &Counted, now: &Counted) -> Vec<Look<'_>> {
        let sums = |c: &Counted| {
            let mut sums: BTreeMap<String, Counts> = BTreeMap::new();
            for ((network, _), one) in &c.all {
                sums.entry(network.clone()).or_default().add(one);
            }
            sums
        };
        let (b, n) = (sums(before), sums(now));
        let one = |name| {
            let links = links::since(&before.links, &now.links, name);
            let network = self.state.lab.network.iter().find(|n| n.name == name);
            let ends = network.map(|n| ends::of(n, &links)).unwrap_or_default();
            Look { links, ends, ..look(name, ns, &b, &n) }
        };
        self.names.iter().map(String::as_str).map(one).collect()
    }

    fn as_table(&self, ns: u64, before: &Counted, now: &Counted, told: &[Told]) -> String {
        let looks = self.looks(ns, before, now);
        let links: Vec<&LinkLook> = looks.iter().flat_map(|l| &l.links).collect();
        let lines: String = told.iter().rev().take(SHOWN).map(Told::line).collect();
        let apart = if lines.is_empty() { "" } else { "\n" };
        let ends: Vec<(&str, &EndsLook)> =
            looks.iter().flat_map(|l| l.ends.iter().map(|e| (l.network, e))).collect();
        as_table(&looks)
            + &links::as_table(&links, ns)
            + &ends::as_table(&ends, ns)
            + apart
            + &lines
    }

    fn as_json(&self, ns: u64, before: &Counted, now: &Counted, told: &[Told]) -> Result<String> {
        let mut text = String::new();
        for l in self.looks(ns, before, now) {
            text += &(serde_json::to_string(&l)? + "\n");
        }
        told.iter().for_each(|t| text += &format!("{}\n", t.json()));
        Ok(text)
    }
}

/// Guards that are shown below a table, the last ones.
const SHOWN: usize = 8;

/// What each node did between two looks.
fn nodes_since(before: &Counted, now: &Counted) -> BTreeMap<(String, String), guard::Counted> {
    let since = |(at, n): (&(String, String), &Counts)| {
        // One that was made meanwhile has done all of it since.
        let c = n.since(&before.all.get(at).copied().unwrap_or_default());
        let counted = guard::Counted {
            received_frames: c.received.0,
            received_bytes: c.received.1,
            forwarded_frames: c.forwarded.0,
            dropped_frames: c.dropped,
            slow_frames: c.slow,
        };
        (at.clone(), counted)
    };
    now.all.iter().map(since).collect()
}

fn look<'n>(
    network: &'n str,
    interval_ns: u64,
    before: &BTreeMap<String, Counts>,
    now: &BTreeMap<String, Counts>,
) -> Look<'n> {
    let of = |all: &BTreeMap<String, Counts>| all.get(network).copied().unwrap_or_default();
    let c = of(now).since(&of(before));
    Look {
        network,
        interval_ns,
        received_frames: c.received.0,
        received_bytes: c.received.1,
        forwarded_frames: c.forwarded.0,
        forwarded_bytes: c.forwarded.1,
        dropped_frames: c.dropped,
        slow_frames: c.slow,
        held_frames: c.held,
        links: Vec::new(),
        ends: Vec::new(),
    }
}

fn as_table(looks: &[Look<'_>]) -> String {
    let heads =
        ["network", "rx/s", "rx Mbit/s", "tx/s", "tx Mbit/s", "dropped/s", "slow/s", "inside"];
    let mut c = Columns::new(&heads);
    for l in looks {
        let rate = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(l.interval_ns)).to_string();
        let mbps = |bytes: u64| format!("{:.1}", bytes as f64 * 8e3 / l.interval_ns as f64);
        c.row(vec![
            l.network.to_owned(),
            rate(l.received_frames),
            mbps(l.received_bytes),
            rate(l.forwarded_frames),
            mbps(l.forwarded_bytes),
            rate(l.dropped_frames),
            rate(l.slow_frames),
            l.held_frames.to_string(),
        ]);
    }
    c.text()
}
