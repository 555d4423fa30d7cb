//! `weir bench dataplane`: frames per second and per CPU-second of the worker, from memory.
//!
//! Every pass copies each frame from the unmodified capture into a frame of the worker's, parses,
//! classifies, changes and releases it. Nothing survives from one pass to the next but counters.

use super::rig::{Output, Rig, load_rules, load_trace};
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_dataplane::{Path, Stage, StageTimer, Vid};
use weir_io::capture_file::{Format, Writer};
use weir_io::replay::Passes;
use weir_io::thread_cpu_time;
use weir_packet::Nanos;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rules in Open vSwitch's flow syntax, a line each
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// Frames to play, pcap or pcapng
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Split the rules over this many VDPs
    #[arg(long, value_name = "N", default_value_t = 1)]
    vdps: usize,
    /// Port number by which the frames come in
    #[arg(long, value_name = "PORT", default_value_t = 1)]
    in_port: u32,
    /// Which path the VDPs take
    #[arg(long, value_name = "PATH", default_value = "fast")]
    path: PathArg,
    /// Length of one measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Measurements; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Keep one pass of the output in this pcap instead of measuring
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    wall_s: f64,
    cpu_s: f64,
    mpps_wall: f64,
    mpps_per_cpu_s: f64,
}

#[derive(Debug, Serialize)]
struct StageCost {
    stage: &'static str,
    ns_per_frame: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    rules: usize,
    vdps: usize,
    frames_in_trace: usize,
    path: &'static str,
    mpps_wall: f64,
    mpps_per_cpu_s: f64,
    ns_per_frame: f64,
    cycles_per_frame: Option<f64>,
    forwarded_share: f64,
    stages: Vec<StageCost>,
    repeats: Vec<Repeat>,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if !(0.01..=3600.0).contains(&a.seconds) || a.repeats == 0 {
        return Err(bad_input("--seconds must be 0.01 to 3600 and --repeats at least 1"));
    }
    let arena = load_trace(&a.trace)?;
    let rules = load_rules(&a.rules)?;
    if let Some(out) = &a.out {
        let passes = Passes::Times(1);
        let mut rig = Rig::new(&arena, &rules, a.in_port, a.vdps, passes, Output::Keep)?;
        return keep(&mut rig, a.path, out);
    }
    let mut rig = Rig::new(&arena, &rules, a.in_port, a.vdps, Passes::Forever, Output::Swallow)?;
    to_path(&mut rig, a.path)?;
    let length = Duration::from_secs_f64(a.seconds);
    let mut clock = 0;
    measure(&mut rig, length.mul_f64(0.2), &mut clock)?;
    let mut repeats = Vec::with_capacity(a.repeats);
    for _ in 0..a.repeats {
        repeats.push(measure(&mut rig, length, &mut clock)?);
    }
    let s = rig.plane.snapshot();
    s.check()?;
    let (rx, tx) = s
        .ports
        .iter()
        .fold((0, 0), |(r, t), p| (r + p.counters.rx.frames, t + p.counters.tx.frames));
    let stages = profile(&mut rig, length.mul_f64(0.5), &mut clock);
    let median = |f: &dyn Fn(&Repeat) -> f64| {
        let mut v: Vec<f64> = repeats.iter().map(f).collect();
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    let per_cpu = median(&|r| r.mpps_per_cpu_s);
    let report = Report {
        rules: rig.rules,
        vdps: rig.vdps,
        frames_in_trace: arena.len(),
        path: if a.path == PathArg::Fast { "fast" } else { "slow" },
        mpps_wall: median(&|r| r.mpps_wall),
        mpps_per_cpu_s: per_cpu,
        ns_per_frame: 1e3 / per_cpu,
        cycles_per_frame: clock_mhz().map(|mhz| mhz / per_cpu),
        forwarded_share: tx as f64 / rx as f64,
        stages,
        repeats,
    };
    if a.json {
        println!("{}", serde_json::to_string(&Envelope::new("bench-dataplane", &report))?);
    } else {
        show(&report);
    }
    Ok(())
}

/// The first core's clock in MHz, as the kernel states it.
fn clock_mhz() -> Option<f64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("cpu MHz"))?;
    line.split(':').nth(1)?.trim().parse().ok()
}

fn to_path(rig: &mut Rig, path: PathArg) -> Result<()> {
    if path == PathArg::Slow {
        for vid in 1..=rig.vdps {
            rig.plane.migrate(Vid(vid as u16), Path::Slow)?;
        }
    }
    Ok(())
}

fn measure(rig: &mut Rig, length: Duration, clock: &mut u64) -> Result<Repeat> {
    let frames = |rig: &Rig| -> u64 {
        rig.plane.snapshot().ports.iter().map(|p| p.counters.rx.frames).sum()
    };
    let before = frames(rig);
    let (wall, cpu) = (Instant::now(), thread_cpu_time());
    loop {
        for _ in 0..256 {
            // The plane's own time runs at a pace near the real one: a burst in some microseconds.
            *clock += 3000;
            rig.plane.poll(Nanos(*clock));
        }
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
        wall_s,
        cpu_s,
        mpps_wall: frames as f64 / wall_s / 1e6,
        mpps_per_cpu_s: frames as f64 / cpu_s / 1e6,
    })
}

/// Adds up the time between the ends of stages.
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

/// A run with the clock read after each stage of each burst: shares are right, sums a little high.
fn profile(rig: &mut Rig, length: Duration, clock: &mut u64) -> Vec<StageCost> {
    let start = Instant::now();
    let mut w = Stopwatch { last: start, ns: [0; Stage::ALL.len()], received: 0 };
    while start.elapsed() < length {
        for _ in 0..256 {
            *clock += 3000;
            rig.plane.poll_timed(Nanos(*clock), &mut w);
        }
    }
    let n = w.received.max(1) as f64;
    let cost = |(s, ns): (Stage, u64)| StageCost { stage: s.name(), ns_per_frame: ns as f64 / n };
    Stage::ALL.into_iter().zip(w.ns).map(cost).collect()
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
    let file =
        std::fs::File::create(out).map_err(|e| bad_input(format!("{}: {e}", out.display())))?;
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
    eprintln!("{n} frames in {}", out.display());
    Ok(())
}

fn show(r: &Report) {
    println!(
        "{} rules in {} VDP{}, {} frames in the trace, {} path",
        r.rules,
        r.vdps,
        if r.vdps == 1 { "" } else { "s" },
        r.frames_in_trace,
        r.path
    );
    println!("  {:8.2} million frames per CPU-second of the worker", r.mpps_per_cpu_s);
    println!("  {:8.2} million frames per second (wall)", r.mpps_wall);
    println!("  {:8.1} ns per frame", r.ns_per_frame);
    if let Some(c) = r.cycles_per_frame {
        println!("  {c:8.0} cycles per frame");
    }
    println!("  {:8.1} % forwarded", 100.0 * r.forwarded_share);
    for s in &r.stages {
        println!("  {:8.1} ns {}", s.ns_per_frame, s.stage);
    }
}
