//! `weir bench openflow`: what a switch's control channel sustains, weir's or anybody's.
//!
//! Room: a controller over one blocking TCP connection; nothing of a switch is known here. One run
//! against weir and one against another switch are comparable, since they send the same bytes.

mod forwarding;
mod insert;
mod punt;

use crate::commands::say::{complain, put, say};
use crate::controller::link::{Link, Target};
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::{Result, anyhow, bail};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use weir_openflow::model::Version;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    about = "A switch's control channel: flow_mods, barriers, packet_ins, statistics",
    long_about = "Connects to a switch as its controller and measures: flow_mods a second until the \
                  barrier's reply, barrier round trips, packet_in to packet_out, flow statistics. The \
                  switch must listen (weir: listen = [\"ptcp:6633\"]; Open vSwitch: ovs-vsctl \
                  set-controller BRIDGE ptcp:6633).\n\n\
                  The switch is filled with rules of the measurement, which are deleted afterwards, also \
                  after an interruption. One that has flows is left alone, unless '--delete-flows' says \
                  that they may go: they are not put back."
)]
pub struct Args {
    /// Where the switch listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6633")]
    target: String,
    /// Version to speak
    #[arg(long, value_name = "V", default_value = "1.3")]
    of: OfVersion,
    /// Exact rules to insert
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rules: u32,
    /// Measurements; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = super::repeats())]
    repeats: usize,
    /// Only these
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<What>,
    /// Delete the flows that the switch has, for good
    #[arg(long)]
    delete_flows: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OfVersion {
    #[value(name = "1.0")]
    V10,
    #[value(name = "1.3")]
    V13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Barrier round trips
    Barrier,
    /// flow_mods until the barrier's reply, then statistics of all flows, then their deletion
    Insert,
    /// packet_in to packet_out, in a closed loop through the switch's tables
    Punt,
    /// Forwarding while statistics of all flows are asked for, and while flows change: only when it
    /// is named, since frames must be coming by port 1, which are sent to port 2
    Forwarding,
}

/// How often flows are deleted after an interruption, and how long such as are under way may take each time.
const EMPTYING: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Median and spread of several measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    /// Of values of any order; zeros where there is none.
    pub fn of(mut v: Vec<f64>) -> Self {
        v.sort_by(f64::total_cmp);
        let at = |i: usize| v.get(i).copied().unwrap_or(0.0);
        Self { median: at(v.len() / 2), low: at(0), high: at(v.len().saturating_sub(1)) }
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    switch: String,
    version: &'static str,
    barrier_us: Option<Percentiles>,
    insert: Option<insert::Report>,
    punt: Option<punt::Report>,
    forwarding: Option<forwarding::Report>,
}

/// Percentiles of a time in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Percentiles {
    samples: usize,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Percentiles {
    /// Of times in nanoseconds.
    pub fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let at = |p: f64| {
            let i = (p * ns.len().saturating_sub(1) as f64).round() as usize;
            ns.get(i).map_or(0.0, |v| *v as f64 / 1e3)
        };
        Self { samples: ns.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if a.rules == 0 || a.rules > 4_000_000 {
        return Err(bad_input("--rules must be 1 to 4000000"));
    }
    let (version, name) = match a.of {
        OfVersion::V10 => (Version::V10, "1.0"),
        OfVersion::V13 => (Version::V13, "1.3"),
    };
    let target = Target { address: a.target.clone(), version };
    let mut link = Link::open(&target)?;
    let report = Report { switch: link.describe()?, version: name, ..Report::default() };
    let there = link.count_flows(insert::all_flows())?;
    if there > 0 && !a.delete_flows {
        return Err(bad_input(format!(
            "{}: the switch has {there} flows, which would be deleted and not put back: save them and say \
             '--delete-flows', or measure one that has none",
            a.target
        )));
    }
    link.delete_flows()?;
    let report = unless_interrupted(&target, link, |link| measure(link, a, report))?;
    if a.json {
        say(serde_json::to_string(&Envelope::new("bench-openflow", &report))?)
    } else {
        put(told(&report))
    }
}

/// All that is asked for, in a switch that has no flow and has none afterwards.
fn measure(link: &mut Link, a: &Args, mut report: Report) -> Result<Report> {
    let wanted = |w: What| a.only.is_empty() || a.only.contains(&w);
    if wanted(What::Barrier) {
        let mut times = Vec::with_capacity(2000);
        for _ in 0..2000 {
            times.push(link.barrier()?.as_nanos() as u64);
        }
        report.barrier_us = Some(Percentiles::of(times));
    }
    if wanted(What::Insert) {
        report.insert = Some(insert::measure(link, a.rules, a.repeats)?);
    }
    if wanted(What::Punt) {
        report.punt = Some(punt::measure(link)?);
    }
    if a.only.contains(&What::Forwarding) {
        report.forwarding = Some(forwarding::measure(link, a.rules, a.repeats)?);
    }
    link.delete_flows()?;
    Ok(report)
}

/// Whoever ends a measurement by Ctrl-C does not leave its rules in the switch; whoever asks again does not wait for that.
fn unless_interrupted<T: Send>(
    target: &Target,
    mut link: Link,
    work: impl FnOnce(&mut Link) -> Result<T> + Send,
) -> Result<T> {
    let hang_up = link.hang_up()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (ended, events) = channel();
    let asked = ended.clone();
    std::thread::spawn(move || {
        let mut all = signals.forever();
        if let Some(signal) = all.next() {
            let _ = asked.send(Err(signal));
        }
        if let Some(signal) = all.next() {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    std::thread::scope(|s| {
        let work = s.spawn(move || {
            let _ended = Ended(ended);
            work(&mut link)
        });
        if let Ok(Err(signal)) = events.recv() {
            hang_up();
            let _ = work.join();
            if let Err(e) = empty(target) {
                let what = "rules of the measurement may be in the switch still";
                complain(format!("{}: {what}: {e:#}", target.address));
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            bail!("interrupted");
        }
        let done = work.join().map_err(|_| anyhow!("the measurement has panicked")).flatten();
        // What failed in the middle leaves nothing either, if the switch can still be asked.
        if done.is_err() {
            let _ = empty(target);
        }
        done
    })
}

/// Says that the measurement has ended, however it did.
struct Ended(Sender<Result<(), i32>>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Who has been interrupted does not listen.
        let _ = self.0.send(Ok(()));
    }
}

/// Deletes flows until there are none: what was sent before may come yet.
fn empty(target: &Target) -> Result<()> {
    let mut link = Link::open(target)?;
    for _ in 0..EMPTYING {
        link.delete_flows()?;
        std::thread::sleep(PAUSE);
        if link.count_flows(insert::all_flows())? == 0 {
            return Ok(());
        }
    }
    bail!("others come all the time")
}

fn told(r: &Report) -> String {
    let mut out = format!("{}, OpenFlow {}\n", r.switch, r.version);
    let times = |what: &str, p: &Percentiles| {
        format!(
            "  {what}: median {:.1} us, p90 {:.1}, p99 {:.1}, max {:.0}\n",
            p.p50, p.p90, p.p99, p.max
        )
    };
    if let Some(p) = &r.barrier_us {
        out += &times("barrier round trip", p);
    }
    if let Some(i) = &r.insert {
        out += &format!(
            "  {} exact rules: {:.0} flow_mods a second until the barrier's reply ({:.0} to {:.0})\n",
            i.rules, i.per_s.median, i.per_s.low, i.per_s.high
        );
        out +=
            &format!("  statistics of all: {:.1} ms, {} flows\n", i.stats_ms.median, i.flows_seen);
        out += &format!("  deleted by one flow_mod: {:.1} ms\n", i.delete_ms.median);
        out += &times("100 rules and a barrier", &i.hundred_us);
        if i.errors > 0 {
            out += &format!("  {} flow_mods were refused\n", i.errors);
        }
    }
    if let Some(p) = &r.punt {
        out += &format!(
            "  packet_in to packet_out: {:.0} a second, {} in flight\n",
            p.per_s.median, p.in_flight
        );
        out += &times("packet_out to packet_in at 1000 a second", &p.round_us);
    }
    if let Some(f) = &r.forwarding {
        out += &format!(
            "  forwarding beside {} flows: {:.0} frames a second\n",
            f.flows, f.quiet_per_s.median
        );
        let under = |what: &str, part: &Spread, n: &Spread| {
            format!(
                "  under {:.1} {what} a second: {:.1} % of it ({:.1} to {:.1})\n",
                n.median,
                100.0 * part.median,
                100.0 * part.low,
                100.0 * part.high
            )
        };
        out += &under("statistics of all flows", &f.under_stats, &f.replies_per_s);
        out += &under("flow_mods", &f.under_flow_mods, &f.flow_mods_per_s);
    }
    out
}
