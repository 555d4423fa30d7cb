//! `weir net monitor`: what networks carry, lose and take, per network and node, live; how good their links are, by the
//! probes that their tunnels send in band; and which of the lab's guards apply.
//!
//! Room: counters of the physical nodes, added up by network. Reading only, unless guards are to act: they
//! do so like `weir net set` and `delete`.

use super::Kept;
use super::edit::{self, find};
use super::ends::{self, EndsLook};
use super::links::{self, LinkLook};
use super::looking::Looking;
use crate::commands::columns::Columns;
use crate::commands::say::{Reader, offer};
use crate::commands::stats::Stats;
use crate::commands::top::{Ended, Screen, cut, waited};
use crate::fault::bad_input;
use crate::socket::items::Takes;
use anyhow::Result;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use weir_supervisor::guard::{self, Alarm, Watch};
use weir_supervisor::model::{Network, Node};
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
    /// As JSON, as by -o json
    #[arg(long, conflicts_with = "output")]
    json: bool,
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
    takes: Takes,
    /// Processor time that the worker spent for it, since the look before: nothing in what was counted.
    cpu_ns: u64,
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
        self.takes.add(&o.takes);
        self.cpu_ns += o.cpu_ns;
    }
    /// What was counted since `b`; what is inside, and what memory and tables it has, it has now.
    fn since(&self, b: &Self) -> Self {
        let since =
            |now: (u64, u64), b: (u64, u64)| (now.0.saturating_sub(b.0), now.1.saturating_sub(b.1));
        Self {
            received: since(self.received, b.received),
            forwarded: since(self.forwarded, b.forwarded),
            dropped: self.dropped.saturating_sub(b.dropped),
            slow: self.slow.saturating_sub(b.slow),
            held: self.held,
            takes: Takes {
                work: self.takes.work.saturating_sub(b.takes.work),
                router_cpu_ns: self.takes.router_cpu_ns.saturating_sub(b.takes.router_cpu_ns),
                messages_in: self.takes.messages_in.saturating_sub(b.takes.messages_in),
                messages_out: self.takes.messages_out.saturating_sub(b.takes.messages_out),
                ..self.takes
            },
            cpu_ns: 0,
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
    #[serde(flatten)]
    takes: TakesLook,
    /// Its nodes, one by one.
    nodes: Vec<NodeLook<'n>>,
    /// Its links' ways, each at both ends, where they are probed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkLook>,
    /// Between its ends, over several links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ends: Vec<EndsLook>,
}

/// What a network, or a node, took of what all share.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct TakesLook {
    /// Processor time: its part of what its data plane's process took, by the work done for it, and that of a virtual
    /// router's programs.
    cpu_ns: u64,
    /// Memory of its tables and of a virtual router's programs, now.
    memory_bytes: u64,
    /// Rules in its tables, now.
    rules: u64,
    /// Entries of the TCAM, now.
    tcam_entries: u64,
    /// OpenFlow messages of its controllers.
    messages_in: u64,
    /// And to them.
    messages_out: u64,
}

/// A look at a node.
#[derive(Debug, Serialize)]
struct NodeLook<'n> {
    node: &'n str,
    /// Whether its host has it, as far as that is known.
    there: bool,
    /// Why nothing is known of it, where its host does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<String>,
    received_frames: u64,
    received_bytes: u64,
    forwarded_frames: u64,
    forwarded_bytes: u64,
    dropped_frames: u64,
    slow_frames: u64,
    held_frames: u64,
    #[serde(flatten)]
    takes: TakesLook,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if !(50..=60_000).contains(&args.interval_ms) {
        return Err(bad_input(format!("--interval-ms {}: 50 to 60000", args.interval_ms)));
    }
    let mut lab = Watched::open(args, None)?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut before = lab.counted()?;
    let table = !args.json && args.output == "table";
    let screen = if table { Screen::take() } else { None };
    let mut watch = Watch::default();
    // Kept on a screen, where they would be gone with the next look.
    let mut told = Vec::new();
    let (mut shown, mut clock) = (0, 0);
    while args.count.is_none_or(|n| shown < n) {
        if waited(&mut signals, Duration::from_millis(args.interval_ms)) == Ended::Yes {
            return Ok(());
        }
        let now = lab.counted()?;
        let ns = now.ns_since(&before);
        clock += ns;
        let alarms = watch.look(&lab.state.lab, clock, ns, &nodes_since(&before, &now));
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
        let text = match table {
            true => lab.as_table(ns, &before, &now, &told),
            false => lab.as_json(ns, &before, &now, &told)?,
        };
        let text = match &screen {
            Some(_) => format!("\x1b[H\x1b[J{}", cut(&text)),
            None if table => format!("{text}\n"),
            None => text,
        };
        if offer(text)? == Reader::Gone {
            return Ok(());
        }
        (before, shown) = (now, shown + 1);
        if changed {
            lab = Watched::open(args, Some(lab.hosts))?;
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
    match edit::guarded(&args.kept, |lab| guard::act(lab, a)) {
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
    hosts: Looking,
}

/// All that is looked at, at one moment.
struct Counted {
    /// Each host's time, in nanoseconds since its start.
    at: BTreeMap<String, u64>,
    when: Instant,
    /// By network and node; of hosts that do not answer nothing.
    all: BTreeMap<(String, String), Counts>,
    /// Nodes of hosts that do not answer.
    unknown: BTreeSet<(String, String)>,
    /// By host: processor time of the data plane's process, and the work of each of its VDPs.
    hosts: BTreeMap<String, (u64, BTreeMap<u16, u64>)>,
    links: Vec<LinkLook>,
}

impl Counted {
    /// How long it was: the hosts' clocks run alike, and one that has answered both times, and was not started meanwhile, tells
    /// it; else ours.
    fn ns_since(&self, before: &Self) -> u64 {
        let one = |(host, at): (&String, &u64)| at.checked_sub(*before.at.get(host)?);
        let ours = || self.when.duration_since(before.when).as_nanos() as u64;
        self.at.iter().filter_map(one).find(|ns| *ns > 0).unwrap_or_else(ours).max(1)
    }
    /// What a node had counted that has `now`: one that was not there nothing, and one of which nothing was known as much, as
    /// nobody knows when it did that.
    fn of(&self, at: &(String, String), now: &Counts) -> Counts {
        let unknown = self.unknown.contains(at).then_some(*now);
        self.all.get(at).copied().or(unknown).unwrap_or_default()
    }
    /// Processor time that a unit of work took at each host since `before`, in nanoseconds.
    fn unit_ns(&self, before: &Self) -> BTreeMap<&str, f64> {
        let one = |(host, (cpu, work)): (&'_ String, &'_ (u64, BTreeMap<u16, u64>))| {
            let (earlier, old) = before.hosts.get(host)?;
            let since =
                |(vid, w): (&u16, &u64)| w.saturating_sub(old.get(vid).copied().unwrap_or(0));
            let all: u64 = work.iter().map(since).sum();
            Some((host.clone(), cpu.saturating_sub(*earlier) as f64 / all.max(1) as f64))
        };
        self.hosts.iter().filter_map(|h| Some((h.0.as_str(), one(h)?.1))).collect()
    }
}

impl Watched {
    /// With the hosts of before, if they are the same.
    fn open(args: &Args, before: Option<Looking>) -> Result<Self> {
        let state = args.kept.open()?.saved.state;
        if let Some(name) = &args.network {
            find(&state.lab, name)?;
        }
        let names = state.lab.network.iter().map(|n| n.name.clone());
        let names = names.filter(|n| args.network.as_ref().is_none_or(|o| o == n)).collect();
        let hosts = match before.filter(|b| b.is_at(&state.lab)) {
            Some(hosts) => hosts,
            None => Looking::at(&state.lab)?,
        };
        Ok(Self { state, names, hosts })
    }

    /// Counters by node, and of the links of the networks that are looked at.
    fn counted(&mut self) -> Result<Counted> {
        let stats = self.hosts.stats()?;
        let (mut all, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        for n in self.state.lab.network.iter().filter(|n| self.names.contains(&n.name)) {
            for v in &n.node {
                let place = self.state.places.get(&format!("{}/{}", n.name, v.name));
                if place.is_some_and(|p| !stats.contains_key(&p.host)) {
                    unknown.insert((n.name.clone(), v.name.clone()));
                }
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
                    takes: i.takes,
                    cpu_ns: 0,
                };
                all.insert((n.name.clone(), v.name.clone()), counts);
            }
        }
        let at = stats.iter().map(|(host, s)| (host.clone(), s.plane.at_ns)).collect();
        let when = Instant::now();
        let links =
            links::seen(&self.state.lab, |n| self.names.contains(&n.name), |host| stats.get(host));
        let work = |s: &Stats| s.vdps.iter().map(|v| (v.vid, v.takes.work)).collect();
        let host = |(name, s): (&String, &Stats)| (name.clone(), (s.plane.cpu_ns, work(s)));
        let hosts = stats.iter().map(host).collect();
        Ok(Counted { at, when, all, unknown, hosts, links })
    }

    /// What each node did between two looks.
    fn since(&self, before: &Counted, now: &Counted) -> BTreeMap<(String, String), Counts> {
        let unit = now.unit_ns(before);
        let one = |(at, n): (&(String, String), &Counts)| {
            // One that was made meanwhile has done all of it since.
            let mut c = n.since(&before.of(at, n));
            let place = self.state.places.get(&format!("{}/{}", at.0, at.1));
            let unit = place.and_then(|p| unit.get(p.host.as_str()).copied()).unwrap_or(0.0);
            c.cpu_ns = (c.takes.work as f64 * unit) as u64 + c.takes.router_cpu_ns;
            (at.clone(), c)
        };
        now.all.iter().map(one).collect()
    }

    fn looks(&self, ns: u64, before: &Counted, now: &Counted) -> Vec<Look<'_>> {
        let each = self.since(before, now);
        let one = |n: &'_ Network| {
            let of = |v: &'_ Node| each.get(&(n.name.clone(), v.name.clone())).copied();
            let mut sum = Counts::default();
            n.node.iter().filter_map(of).for_each(|c| sum.add(&c));
            let links = links::since(&before.links, &now.links, &n.name, |host| {
                before.hosts.contains_key(host)
            });
            let ends = ends::of(n, &links);
            (sum, links, ends)
        };
        let watched = self.state.lab.network.iter().filter(|n| self.names.contains(&n.name));
        watched
            .map(|n| {
                let (c, links, ends) = one(n);
                let node = |v: &'_ Node| each.get(&(n.name.clone(), v.name.clone())).copied();
                let why = |v: &'_ Node| {
                    let place = self.state.places.get(&format!("{}/{}", n.name, v.name))?;
                    self.hosts.why_silent(&place.host).map(str::to_owned)
                };
                let nodes = n.node.iter().map(|v| look_at(&v.name, node(v), why(v)));
                Look { nodes: nodes.collect(), links, ends, ..look(&n.name, ns, &c) }
            })
            .collect()
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
        let c = n.since(&before.of(at, n));
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

fn look<'n>(network: &'n str, interval_ns: u64, c: &Counts) -> Look<'n> {
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
        takes: c.into(),
        nodes: Vec::new(),
        links: Vec::new(),
        ends: Vec::new(),
    }
}

fn look_at(node: &str, counted: Option<Counts>, silent: Option<String>) -> NodeLook<'_> {
    let (there, c) = (counted.is_some(), &counted.unwrap_or_default());
    NodeLook {
        node,
        there,
        silent,
        received_frames: c.received.0,
        received_bytes: c.received.1,
        forwarded_frames: c.forwarded.0,
        forwarded_bytes: c.forwarded.1,
        dropped_frames: c.dropped,
        slow_frames: c.slow,
        held_frames: c.held,
        takes: c.into(),
    }
}

impl From<&Counts> for TakesLook {
    fn from(c: &Counts) -> Self {
        let t = c.takes;
        Self {
            cpu_ns: c.cpu_ns,
            memory_bytes: t.memory_bytes,
            rules: t.rules,
            tcam_entries: t.tcam_entries,
            messages_in: t.messages_in,
            messages_out: t.messages_out,
        }
    }
}

/// A line a network, and below it one a node, where it has several.
fn as_table(looks: &[Look<'_>]) -> String {
    let heads = [
        "network",
        "rx/s",
        "rx Mbit/s",
        "tx/s",
        "tx Mbit/s",
        "dropped/s",
        "slow/s",
        "inside",
        "cpu %",
        "KiB",
        "rules",
        "tcam",
        "control/s",
    ];
    let mut c = Columns::new(&heads);
    for l in looks {
        let rate = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(l.interval_ns)).to_string();
        let mbps = |bytes: u64| format!("{:.1}", bytes as f64 * 8e3 / l.interval_ns as f64);
        let taken = |t: &TakesLook| {
            [
                format!("{:.1}", t.cpu_ns as f64 * 100.0 / l.interval_ns as f64),
                t.memory_bytes.div_ceil(1024).to_string(),
                t.rules.to_string(),
                t.tcam_entries.to_string(),
                rate(t.messages_in + t.messages_out),
            ]
        };
        let mut row =
            |name: String, rx: (u64, u64), tx: (u64, u64), rest: [u64; 3], t: &TakesLook| {
                let [dropped, slow, held] = rest;
                let mut all = vec![name, rate(rx.0), mbps(rx.1), rate(tx.0), mbps(tx.1)];
                all.extend([rate(dropped), rate(slow), held.to_string()]);
                all.extend(taken(t));
                c.row(all);
            };
        row(
            l.network.to_owned(),
            (l.received_frames, l.received_bytes),
            (l.forwarded_frames, l.forwarded_bytes),
            [l.dropped_frames, l.slow_frames, l.held_frames],
            &l.takes,
        );
        for n in l.nodes.iter().filter(|_| l.nodes.len() > 1) {
            row(
                format!("  {}", n.node),
                (n.received_frames, n.received_bytes),
                (n.forwarded_frames, n.forwarded_bytes),
                [n.dropped_frames, n.slow_frames, n.held_frames],
                &n.takes,
            );
        }
    }
    let mut text = c.text();
    for l in looks {
        for n in l.nodes.iter().filter(|n| !n.there) {
            let (network, node) = (l.network, n.node);
            text += &match &n.silent {
                Some(why) => format!("node {network}.{node}: {why}\n"),
                None => {
                    format!("node {network}.{node} is not there: 'weir apply' makes it again\n")
                }
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(nodes: &[(&str, u64)], unknown: &[&str], at: &[(&str, u64)]) -> Counted {
        let node = |n: &str| ("net".to_owned(), n.to_owned());
        let counts = |n: u64| Counts { received: (n, 0), ..Counts::default() };
        Counted {
            at: at.iter().map(|(h, t)| ((*h).to_owned(), *t)).collect(),
            when: Instant::now(),
            all: nodes.iter().map(|(name, n)| (node(name), counts(*n))).collect(),
            unknown: unknown.iter().map(|n| node(n)).collect(),
            hosts: BTreeMap::new(),
            links: Vec::new(),
        }
    }

    /// What a host did while it was silent is no rate of the look at which it answers again: guards would act on it.
    #[test]
    fn a_host_that_answers_again_has_done_nothing_since() {
        let before = counted(&[("a", 5)], &["b"], &[]);
        let now = counted(&[("a", 7), ("b", 1_000_000), ("new", 3)], &[], &[]);
        let since = nodes_since(&before, &now);
        let received: Vec<_> = since.values().map(|c| c.received_frames).collect();
        assert_eq!(received, [2, 0, 3]);
    }

    #[test]
    fn a_look_is_as_long_as_a_host_says_that_was_there_all_the_time() {
        let before = counted(&[], &[], &[("a", 900), ("b", 10)]);
        // Host a was started anew, and c is another.
        let now = counted(&[], &[], &[("a", 5), ("b", 60), ("c", 7)]);
        assert_eq!(now.ns_since(&before), 50);
        let now = counted(&[], &[], &[("c", 7)]);
        assert!(now.ns_since(&before) >= 1);
    }
}
