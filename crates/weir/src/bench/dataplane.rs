//! `weir bench dataplane`: frames per second and per CPU-second of the worker, from memory.
//!
//! Every pass copies each frame from the unmodified capture into a frame of the worker's, parses it as
//! far as the rules look, classifies, changes and releases it. Nothing survives from one pass to the next but counters.

use super::rig::{Output, Rig, load_rules, load_trace};
use super::workers;
use crate::commands::say::{note, put, say};
use crate::environment::Envelope;
use crate::fault::{self, bad_input};
use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_calibrate::clock::cycle_ns;
use weir_classify::{Field, Match};
use weir_dataplane::{Action, Path, Placement, RuleSpec, Stage, StageTimer, Vid};
use weir_io::capture_file::{Format, Writer};
use weir_io::replay::Passes;
use weir_io::thread_cpu_time;
use weir_packet::Nanos;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rules in Open vSwitch's flow syntax, a line each
    #[arg(long, value_name = "FILE")]
    pub(super) rules: PathBuf,
    /// Frames to play, pcap or pcapng
    #[arg(long, value_name = "FILE")]
    pub(super) trace: PathBuf,
    /// Split the rules over this many VDPs
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_534))]
    pub(super) vdps: usize,
    /// Port number by which the frames come in
    #[arg(long, value_name = "PORT", default_value_t = 1)]
    pub(super) in_port: u32,
    /// Which path the VDPs take
    #[arg(long, value_name = "PATH", default_value = "fast")]
    path: PathArg,
    /// Length of one measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(super) seconds: f64,
    /// Measurements; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = super::repeats())]
    pub(super) repeats: usize,
    /// Rules of other destinations added and deleted meanwhile, so many changes a second, by the worker
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "out",
        value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    flow_mods: u32,
    /// Show where the time goes, stage by stage
    #[arg(long, conflicts_with = "out")]
    profile: bool,
    /// Keep one pass of the output in this pcap instead of measuring
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// So many workers, each with a part of the flows, beside as many processes of one worker each
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["profile", "out", "path", "flow_mods"],
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(super) workers: usize,
    /// With --workers: the port has one queue, and worker 0 deals its frames out
    #[arg(long)]
    pub(super) one_queue: bool,
    /// One of those processes
    #[arg(long, hide = true, value_name = "I/N")]
    alone: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PathArg {
    /// Through the matching stage's tables
    Fast,
    /// Through a channel to the software stage, on the same core
    Slow,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Repeat {
    frames: u64,
    flow_mods: u64,
    wall_s: f64,
    cpu_s: f64,
    mpps_wall: f64,
    mpps_per_cpu_s: f64,
}

#[derive(Debug, Serialize)]
struct StageCost {
    stage: &'static str,
    ns_per_frame: f64,
    cycles_per_frame: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    rules: usize,
    vdps: usize,
    frames_in_trace: usize,
    path: &'static str,
    flow_mods_per_s: f64,
    mpps_wall: f64,
    mpps_per_cpu_s: f64,
    ns_per_frame: f64,
    cycles_per_frame: f64,
    forwarded_share: f64,
    stages: Vec<StageCost>,
    repeats: Vec<Repeat>,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if !(0.01..=3600.0).contains(&a.seconds) {
        return Err(bad_input("--seconds must be 0.01 to 3600"));
    }
    let arena = load_trace(&a.trace)?;
    let rules = load_rules(&a.rules)?;
    if let Some(which) = &a.alone {
        return workers::alone(a, which, &arena, &rules);
    }
    if a.one_queue && a.workers == 1 {
        return Err(bad_input("--one-queue: one worker deals to nobody: give --workers 2 or more"));
    }
    if a.workers > 1 {
        return workers::run(a, &arena, &rules);
    }
    if let Some(out) = &a.out {
        for (input, option) in [(&a.trace, "--trace"), (&a.rules, "--rules")] {
            if weir_io::is_one_file(out, input) {
                return Err(bad_input(format!(
                    "--out and {option} are one file, which would be lost: write another"
                )));
            }
        }
        let passes = Passes::Times(1);
        let mut rig = Rig::new(&arena, &rules, a.in_port, a.vdps, passes, Output::Keep)?;
        return keep(&mut rig, a.path, out);
    }
    let mut rig = Rig::new(&arena, &rules, a.in_port, a.vdps, Passes::Forever, Output::Swallow)?;
    to_path(&mut rig, a.path)?;
    let length = Duration::from_secs_f64(a.seconds);
    let mut clock = 0;
    let mut mods = FlowMods { a_second: a.flow_mods.into(), made: 0 };
    measure(&mut rig, length.mul_f64(0.2), &mut clock, &mut mods)?;
    let mut repeats = Vec::with_capacity(a.repeats);
    for _ in 0..a.repeats {
        repeats.push(measure(&mut rig, length, &mut clock, &mut mods)?);
    }
    let s = rig.plane.snapshot();
    s.check()?;
    let (rx, tx) = s
        .ports
        .iter()
        .fold((0, 0), |(r, t), p| (r + p.counters.rx.frames, t + p.counters.tx.frames));
    // Just before and just behind what it is applied to.
    let before = cycles_per_ns();
    let costs = match a.profile || a.json {
        true => profile(&mut rig, length.mul_f64(0.5), &mut clock),
        false => Default::default(),
    };
    let cycles = before.max(cycles_per_ns());
    let stages = Stage::ALL.into_iter().zip(costs).map(|(stage, ns)| StageCost {
        stage: stage.name(),
        ns_per_frame: ns,
        cycles_per_frame: ns * cycles,
    });
    let of = |f: &dyn Fn(&Repeat) -> f64| median(repeats.iter().map(f).collect());
    let per_cpu = of(&|r| r.mpps_per_cpu_s);
    let report = Report {
        rules: rig.rules,
        vdps: rig.vdps,
        frames_in_trace: arena.len(),
        path: if a.path == PathArg::Fast { "fast" } else { "slow" },
        flow_mods_per_s: of(&|r| r.flow_mods as f64 / r.wall_s),
        mpps_wall: of(&|r| r.mpps_wall),
        mpps_per_cpu_s: per_cpu,
        ns_per_frame: 1e3 / per_cpu,
        cycles_per_frame: 1e3 / per_cpu * cycles,
        forwarded_share: tx as f64 / rx as f64,
        stages: stages.collect(),
        repeats,
    };
    if a.json {
        say(serde_json::to_string(&Envelope::new("bench-dataplane", &report))?)
    } else {
        put(told(&report, a.profile))
    }
}

fn to_path(rig: &mut Rig, path: PathArg) -> Result<()> {
    if path == PathArg::Slow {
        for vid in 1..=rig.vdps {
            rig.plane.migrate(Vid(vid as u16), Path::Slow)?;
        }
    }
    Ok(())
}

/// Rules that are added and deleted while frames pass, between bursts and on the worker's time, as what controllers ask
/// for is: each is of a destination that the trace has not, in the place that a controller's would have.
struct FlowMods {
    a_second: u64,
    made: u64,
}

impl FlowMods {
    /// Of those added, so many stay for a while.
    const STAY: u64 = 64;

    /// Makes those that are due, `passed` after `before` were made.
    fn make(&mut self, rig: &mut Rig, before: u64, passed: Duration) -> Result<()> {
        let due = before + (passed.as_secs_f64() * self.a_second as f64) as u64;
        while self.made < due {
            let n = self.made / 2;
            match self.made % 2 {
                0 => drop(rig.plane.add_rule(Vid(1), 0, &Self::rule(n), Placement::Fast)?),
                _ if n >= Self::STAY => {
                    let gone = Self::rule(n - Self::STAY);
                    rig.plane.remove_rule(Vid(1), 0, &gone.matcher, gone.priority)?;
                }
                _ => {}
            }
            self.made += 1;
        }
        Ok(())
    }
    fn rule(n: u64) -> RuleSpec {
        let mac = 0x0600_0000_0000 | u128::from(n & 0xff_ffff_ffff);
        let matcher = Match::any().with(Field::EthDst, mac);
        RuleSpec { matcher, priority: 100, cookie: 0, actions: Arc::new([Action::Drop]) }
    }
}

fn measure(
    rig: &mut Rig,
    length: Duration,
    clock: &mut u64,
    mods: &mut FlowMods,
) -> Result<Repeat> {
    let frames = |rig: &Rig| -> u64 {
        rig.plane.snapshot().ports.iter().map(|p| p.counters.rx.frames).sum()
    };
    let (before, mods_before) = (frames(rig), mods.made);
    let (wall, cpu) = (Instant::now(), thread_cpu_time());
    loop {
        for _ in 0..256 {
            // The plane's own time runs at a pace near the real one: a burst in some microseconds.
            *clock += 3000;
            rig.plane.poll(Nanos(*clock));
        }
        mods.make(rig, mods_before, wall.elapsed())?;
        if wall.elapsed() >= length {
            break;
        }
    }
    let cpu_s = (thread_cpu_time() - cpu).as_secs_f64();
    let wall_s = wall.elapsed().as_secs_f64();
    let frames = frames(rig) - before;
    if frames == 0 {
        anyhow::bail!("no frame moved: the data plane stands still");
    }
    Ok(Repeat {
        frames,
        flow_mods: mods.made - mods_before,
        wall_s,
        cpu_s,
        mpps_wall: frames as f64 / wall_s / 1e6,
        mpps_per_cpu_s: frames as f64 / cpu_s / 1e6,
    })
}

/// Adds up the time between the ends of stages, over a few rounds.
struct Stopwatch {
    last: Instant,
    ns: [u64; Stage::ALL.len()],
    received: u64,
}

impl StageTimer for Stopwatch {
    fn begin(&mut self) {
        self.last = Instant::now();
    }
    fn end(&mut self, stage: Stage, frames: usize) {
        let now = Instant::now();
        let at = Stage::ALL.iter().position(|s| *s == stage).unwrap_or(0);
        self.ns[at] += now.duration_since(self.last).as_nanos() as u64;
        self.received += if stage == Stage::Receive { frames as u64 } else { 0 };
        self.last = now;
    }
}

/// Rounds of a sample: a burst of each stage may be in another round than its frames were received
/// in, and a thread that has to stand back spoils no more than one sample.
const ROUNDS: usize = 16;

/// Nanoseconds per frame that each stage takes in the median of samples, the clock being read after each
/// stage of each burst: shares are right, sums a little high.
fn profile(rig: &mut Rig, length: Duration, clock: &mut u64) -> [f64; Stage::ALL.len()] {
    let mut samples: [Vec<f64>; Stage::ALL.len()] = Default::default();
    let start = Instant::now();
    while start.elapsed() < length {
        let mut w = Stopwatch { last: start, ns: Default::default(), received: 0 };
        for _ in 0..ROUNDS {
            *clock += 3000;
            rig.plane.poll_timed(Nanos(*clock), &mut w);
        }
        if w.received > 0 {
            let each = w.ns.map(|ns| ns as f64 / w.received as f64);
            samples.iter_mut().zip(each).for_each(|(s, ns)| s.push(ns));
        }
    }
    samples.map(median)
}

/// The middle of some values; zero where there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = |i: usize| values.get(i).copied().unwrap_or(0.0);
    f64::midpoint(middle(values.len().saturating_sub(1) / 2), middle(values.len() / 2))
}

/// Cycles of this core in a nanosecond: the most of some short looks, since whoever is in the way makes
/// it seem slower.
fn cycles_per_ns() -> f64 {
    let looks = (0..64).map(|_| 1.0 / cycle_ns(20_000));
    looks.fold(0.0, f64::max)
}

fn keep(rig: &mut Rig, path: PathArg, out: &std::path::Path) -> Result<()> {
    to_path(rig, path)?;
    let mut clock = 0;
    let mut idle = 0;
    while idle < 64 {
        clock += 3000;
        idle = if rig.plane.poll(Nanos(clock)) == 0 { idle + 1 } else { 0 };
    }
    rig.plane.snapshot().check()?;
    let file = std::fs::File::create(out)
        .map_err(|e| fault::file(format_args!("--out {}", out.display()), &e))?;
    let mut w = Writer::new(std::io::BufWriter::new(file), Format::Pcap, 65535)?;
    let interface = w.add_interface("out")?;
    let mut n = 0;
    for (_, kept) in &rig.kept {
        for f in kept.take() {
            w.write(interface, f.stamp.unwrap_or_default(), None, &f.bytes)?;
            n += 1;
        }
    }
    w.flush()?;
    note(format_args!("{n} frames in {}", out.display()));
    Ok(())
}

fn told(r: &Report, profile: bool) -> String {
    let of = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut out = format!(
        "{} in {}, {} in the trace, {} path\n",
        of(r.rules, "rule"),
        of(r.vdps, "VDP"),
        of(r.frames_in_trace, "frame"),
        r.path
    );
    out += &format!("  {:8.2} million frames per CPU-second of the worker\n", r.mpps_per_cpu_s);
    out += &format!("  {:8.2} million frames per second (wall)\n", r.mpps_wall);
    out += &format!("  {:8.1} ns per frame\n", r.ns_per_frame);
    out += &format!("  {:8.0} cycles per frame\n", r.cycles_per_frame);
    out += &format!("  {:8.1} % forwarded\n", 100.0 * r.forwarded_share);
    if r.flow_mods_per_s > 0.0 {
        out += &format!("  {:8.0} rules added or deleted a second meanwhile\n", r.flow_mods_per_s);
    }
    for s in r.stages.iter().filter(|_| profile) {
        out += &format!(
            "  {:8.1} ns, {:.0} cycles: {}\n",
            s.ns_per_frame, s.cycles_per_frame, s.stage
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_was_disturbed_moves_no_median() {
        assert_eq!(median(vec![3.0, 9e9, 1.0, 2.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 2.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
