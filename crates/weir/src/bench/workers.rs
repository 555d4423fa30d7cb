//! `weir bench dataplane --workers N`: a crew of workers beside as many processes of one worker each, in one run.
//!
//! Each worker, and each process, plays the flows of its own part of the capture, as a port with a queue for each would
//! deal them out, and has all rules. Crew and processes take turns, so that what the machine does meanwhile meets both;
//! who is not measured stands still. `--one-queue` has worker 0 deal the whole capture out instead.

use super::bare;
use super::dataplane::{Args, median};
use super::rig::{Output, Rig};
use super::scaling::{Costs, Flows, Scaled, one_queue, table};
use crate::commands::say::{put, say};
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use weir_classify::{Field, Match};
use weir_dataplane::crew::{self, Crew, CrewHandle, flow::bucket};
use weir_dataplane::flowtext::FlowSpec;
use weir_dataplane::{
    Action, ControlError, DataPlane, Placement, RuleSpec, Serving, Vid, WhenIdle,
};
use weir_io::replay::{Arena, Passes, Replay};
use weir_io::thread_cpu_time;
use weir_packet::Device;

/// Changes whose way to the workers is timed, for each second of a measurement.
const CHANGES: f64 = 3000.0;
/// How long frames of a bucket may wait while it moves.
const MOVE: Duration = Duration::from_millis(20);
/// Between two of them.
const APART: Duration = Duration::from_micros(300);

/// What some workers did in one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Done {
    frames: u64,
    cpu_s: f64,
    wall_s: f64,
}

impl Done {
    fn per_cpu(&self) -> f64 {
        self.frames as f64 / self.cpu_s / 1e6
    }
    fn per_wall(&self) -> f64 {
        self.frames as f64 / self.wall_s / 1e6
    }
    /// Of workers that ran beside each other.
    fn beside(all: impl IntoIterator<Item = Done>) -> Done {
        all.into_iter().fold(Done::default(), |a, d| Done {
            frames: a.frames + d.frames,
            cpu_s: a.cpu_s + d.cpu_s,
            wall_s: a.wall_s.max(d.wall_s),
        })
    }
}

#[derive(Debug, Serialize)]
struct Repeat {
    crew: Done,
    processes: Done,
}

/// How long after it was asked a change held.
#[derive(Debug, Serialize)]
struct Visible {
    /// Workers that ran meanwhile.
    workers: usize,
    /// Whether the one that asked had a processor that no worker has.
    undisturbed: bool,
    changes: u32,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// The same of a word that as many threads look at, which read memory meanwhile: what the machine itself takes.
    bare_p50_us: f64,
    bare_p99_us: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    workers: usize,
    processors: usize,
    queues: &'static str,
    rules: usize,
    vdps: usize,
    frames_in_trace: usize,
    crew_mpps_per_cpu_s: f64,
    crew_mpps_wall: f64,
    processes_mpps_per_cpu_s: f64,
    processes_mpps_wall: f64,
    ratio_per_cpu_s: f64,
    ratio_wall: f64,
    visible: Vec<Visible>,
    /// By simulation, where worker 0 deals.
    scaling: Option<Scaling>,
    repeats: Vec<Repeat>,
}

#[derive(Debug, Serialize)]
struct Scaling {
    /// By what two workers forward with all, three quarters, a quarter and none of the buckets at worker 0.
    costs: Costs,
    /// What says whether the simulation is right: of these buckets the costs know nothing.
    checks: Vec<Check>,
    workers: Vec<Scaled>,
}

/// What two workers forward with so many of the 256 buckets at worker 0, in million frames a second.
#[derive(Debug, Serialize)]
struct Check {
    buckets_at_home: usize,
    measured: f64,
    simulated: f64,
}

/// The flows of a capture that are one worker's.
fn part(arena: &Arc<Arena>, worker: usize, of: usize) -> Result<Box<dyn Device>> {
    let mine = |f: &[u8]| usize::from(bucket(f)) % of == worker;
    let source = Replay::filtered("trace", Arc::clone(arena), Passes::Forever, |f| mine(f.bytes));
    if source.frames_per_pass() == 0 {
        return Err(bad_input(format!(
            "--workers {of}: none of the capture's flows falls to worker {worker}: give a capture of more flows"
        )));
    }
    Ok(Box::new(source))
}

/// Replicas, each with a source of its own or a part of one.
fn start(
    a: &Args,
    arena: &Arc<Arena>,
    rules: &[FlowSpec],
    alone: Option<(usize, usize)>,
) -> Result<(Crew, usize)> {
    let n = if alone.is_some() { 1 } else { a.workers };
    let (sources, spreads) = match alone {
        Some((i, of)) => (vec![part(arena, i, of)?], Vec::new()),
        None if a.one_queue => {
            let whole = Replay::new("trace", Arc::clone(arena), Passes::Forever);
            let (sources, control) = crew::spread(Box::new(whole), 0, n)?;
            (sources, vec![control])
        }
        None => ((0..n).map(|i| part(arena, i, n)).collect::<Result<_>>()?, Vec::new()),
    };
    let mut vdps = a.vdps;
    let mut planes = Vec::with_capacity(n);
    for source in sources {
        let rig = Rig::of(source, rules, a.in_port, a.vdps, Output::Swallow, n)?;
        vdps = rig.vdps;
        planes.push(rig.plane);
    }
    let crew = Crew::start(planes, spreads, Serving::Worker, WhenIdle::Spin)?;
    let first = alone.map_or(0, |(i, _)| i);
    for i in 0..n {
        let worker = crew.handle().worker(i).cloned().context("no worker")?;
        worker.call_there(move |_| stay(first + i))??;
    }
    Ok((crew, vdps))
}

fn processors() -> usize {
    sched_getaffinity(None).map_or(1, |s| s.count() as usize)
}

/// The calling thread stays on the `n`th processor that it may use, where there are so many.
fn stay(n: usize) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut all = (0..CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c));
    if let Some(cpu) = all.nth(n) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}

/// Workers that stand still until this is dropped.
struct Still(#[allow(dead_code, reason = "dropped, it lets them go on")] Vec<Sender<()>>);

/// Has workers stand still from one on.
fn still(h: &CrewHandle, from: usize) -> Result<Still> {
    let hold = |i: usize| {
        let (go, wait) = channel();
        let (tell, told) = channel();
        let worker = h.worker(i).context("no worker")?;
        worker.post(move |_| {
            let _ = tell.send(());
            // Ends when the sender is dropped.
            let _ = wait.recv();
        })?;
        Ok((go, told))
    };
    let held: Vec<(_, Receiver<()>)> = (from..h.workers()).map(hold).collect::<Result<_>>()?;
    held.iter().for_each(|(_, told)| _ = told.recv());
    Ok(Still(held.into_iter().map(|(go, _)| go).collect()))
}

/// What the workers of a crew do in some time.
fn measure(h: &CrewHandle, length: Duration) -> Result<Done> {
    let look = |p: &mut DataPlane| {
        let frames: u64 = p.snapshot().ports.iter().map(|p| p.counters.rx.frames).sum();
        (frames, thread_cpu_time(), Instant::now())
    };
    thread::sleep(length.mul_f64(0.2));
    let before = h.read(look)?;
    thread::sleep(length);
    let after = h.read(look)?;
    let each = before.into_iter().zip(after).map(|(b, a)| Done {
        frames: a.0 - b.0,
        cpu_s: (a.1 - b.1).as_secs_f64(),
        wall_s: (a.2 - b.2).as_secs_f64(),
    });
    let done = Done::beside(each);
    if done.frames == 0 {
        bail!("no frame moved: the workers stand still");
    }
    Ok(done)
}

/// One of the processes that a crew is measured beside: measures when it reads how many seconds.
pub fn alone(a: &Args, which: &str, arena: &Arc<Arena>, rules: &[FlowSpec]) -> Result<()> {
    let number = |s: &str| s.parse::<usize>().ok();
    let place = which.split_once('/').and_then(|(i, n)| Some((number(i)?, number(n)?)));
    let place = place.filter(|(i, n)| i < n).ok_or_else(|| bad_input("--alone I/N"))?;
    let (crew, _) = start(a, arena, rules, Some(place))?;
    let h = crew.handle();
    let mut at_rest = Some(still(&h, 0)?);
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let length = Duration::from_secs_f64(line?.trim().parse()?);
        drop(at_rest.take());
        let done = measure(&h, length)?;
        at_rest = Some(still(&h, 0)?);
        say(serde_json::to_string(&done)?)?;
    }
    drop(at_rest);
    crew::snapshot_of(&crew.stop()?).check()?;
    Ok(())
}

/// A process with one worker.
struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    fn start(a: &Args, i: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "dataplane", "--rules"])
            .arg(&a.rules)
            .arg("--trace")
            .arg(&a.trace)
            .args(["--vdps", &a.vdps.to_string(), "--in-port", &a.in_port.to_string()])
            .args(["--alone", &format!("{i}/{}", a.workers)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a process to compare with")?;
        let said = BufReader::new(child.stdout.take().context("its output")?);
        Ok(Self { child, said })
    }
    fn heard(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.said.read_line(&mut line)? == 0 {
            bail!("a process to compare with has ended: its error stands above");
        }
        Ok(line.trim().to_owned())
    }
    fn begin(&mut self, length: Duration) -> Result<()> {
        let to = self.child.stdin.as_mut().context("its input")?;
        writeln!(to, "{}", length.as_secs_f64())?;
        Ok(to.flush()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ends when nothing more can be asked.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Times how long after it was asked a change holds at every worker that runs: a rule that no frame meets comes and goes.
fn visible(h: &CrewHandle, running: usize, length: Duration) -> Result<Visible> {
    let changes = (CHANGES * length.as_secs_f64()).max(50.0) as u32;
    let others = still(h, running)?;
    let matcher = Match::any().with(Field::InPort, 0xffff_fe00);
    let rule = RuleSpec { matcher, priority: 65_535, cookie: 0, actions: [Action::Drop].into() };
    let mut waits = Vec::with_capacity(changes as usize);
    for i in 0..changes {
        thread::sleep(APART);
        let rule = rule.clone();
        let change = move |p: &mut DataPlane| {
            match i % 2 {
                0 => p.add_rule(Vid(1), 0, &rule, Placement::Fast).map(|_| ())?,
                _ => p.remove_rule(Vid(1), 0, &rule.matcher, rule.priority).map(|_| ())?,
            }
            Ok::<_, ControlError>(Instant::now())
        };
        let asked = Instant::now();
        // Those that stand still answer later: only who runs is waited for.
        let mut last = asked;
        for at in h.read_first(running, change)? {
            last = last.max(at?);
        }
        waits.push((last - asked).as_secs_f64() * 1e6);
    }
    waits.sort_by(f64::total_cmp);
    drop(others);
    let bare = {
        let _all = still(h, 0)?;
        bare::waits((0..running).map(|n| move || stay(n)).collect(), changes, APART)?
    };
    let of = |waits: &[f64], q: f64| waits[((waits.len() - 1) as f64 * q) as usize];
    let at = |q| of(&waits, q);
    Ok(Visible {
        workers: running,
        undisturbed: running < processors(),
        changes,
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
        bare_p50_us: of(&bare, 0.5),
        bare_p99_us: of(&bare, 0.99),
    })
}

/// What frames take, by two workers' rates with all, three quarters, a quarter and none of the buckets at worker 0; what the simulation makes of
/// that, beside what they do with other shares; and what more would do.
fn scaling(
    h: &CrewHandle,
    length: Duration,
    alone_ns: f64,
    arena: &Arena,
) -> Result<Option<Scaling>> {
    let ports = h.spreads();
    let (Some(port), 2) = (ports.first(), h.workers()) else { return Ok(None) };
    let rate = |own: usize| {
        for b in 0..=u8::MAX {
            // In turn, so that neighbours are not one worker's.
            let to = usize::from((usize::from(b) * own) % 256 + own < 256);
            while port.owner(b) != Some(to) {
                h.move_bucket(port, b, to, MOVE)?;
            }
        }
        Ok::<_, anyhow::Error>(measure(h, length)?.per_wall())
    };
    let [all, most, some, none] = [rate(256)?, rate(192)?, rate(64)?, rate(0)?];
    let home_ns = 1e3 / all;
    // Of 1e3 / most = 3/4 home + 1/4 deal + mixed, and the same with a quarter and three; the other is the slower one in neither.
    let deal_ns = (2.0 * (1e3 / some - 1e3 / most) + home_ns).max(0.1);
    let mixed_ns = (1e3 / most - 0.75 * home_ns - 0.25 * deal_ns).max(0.0);
    // If dealing took longest with none, the other takes no longer than this.
    let costs = Costs { deal_ns, home_ns, mixed_ns, far_ns: 1e3 / none, alone_ns };
    let check = |own| {
        let (measured, simulated) = (rate(own)?, one_queue(&costs, 2, own));
        Ok(Check { buckets_at_home: own, measured, simulated })
    };
    let checks = [224, 128, 32].into_iter().map(check).collect::<Result<_>>()?;
    let flows = Flows::of(arena.iter().map(|f| f.bytes));
    let workers = table(&costs, &flows, &[1, 2, 3, 4, 6, 8, 16]);
    Ok(Some(Scaling { costs, checks, workers }))
}

/// Runs it.
pub fn run(a: &Args, arena: &Arc<Arena>, rules: &[FlowSpec]) -> Result<()> {
    let (crew, vdps) = start(a, arena, rules, None)?;
    let h = crew.handle();
    let mut at_rest = Some(still(&h, 0)?);
    let mut processes = (0..a.workers).map(|i| Process::start(a, i)).collect::<Result<Vec<_>>>()?;
    for p in &mut processes {
        let said = p.heard()?;
        if said != "ready" {
            bail!("a process to compare with said '{said}'");
        }
    }
    let length = Duration::from_secs_f64(a.seconds);
    let mut repeats = Vec::with_capacity(a.repeats);
    for i in 0..a.repeats {
        let mut of_crew = || {
            drop(at_rest.take());
            let done = measure(&h, length);
            at_rest = Some(still(&h, 0)?);
            done
        };
        let mut of_processes = || {
            processes.iter_mut().try_for_each(|p| p.begin(length))?;
            let done = processes.iter_mut().map(|p| Ok(serde_json::from_str(&p.heard()?)?));
            Ok::<_, anyhow::Error>(Done::beside(done.collect::<Result<Vec<Done>>>()?))
        };
        // Who comes first changes, so that neither is always the one after a pause.
        let (crew, processes) = if i % 2 == 0 {
            let crew = of_crew()?;
            (crew, of_processes()?)
        } else {
            let processes = of_processes()?;
            (of_crew()?, processes)
        };
        repeats.push(Repeat { crew, processes });
    }
    drop(processes);
    drop(at_rest);
    let mut running: Vec<usize> = vec![a.workers, a.workers.min(processors().saturating_sub(1))];
    running.dedup();
    let visible = running
        .into_iter()
        .filter(|n| *n > 0)
        .map(|n| visible(&h, n, length))
        .collect::<Result<_>>()?;
    // By the clock on the wall, as all of the simulation.
    let alone = median(repeats.iter().map(|r| r.processes.per_wall()).collect());
    let alone_ns = 1e3 * a.workers as f64 / alone;
    let scaling = scaling(&h, length, alone_ns, arena)?;
    let planes = crew.stop()?;
    crew::snapshot_of(&planes).check()?;
    let of = |f: &dyn Fn(&Repeat) -> f64| median(repeats.iter().map(f).collect());
    let report = Report {
        workers: a.workers,
        processors: processors(),
        queues: if a.one_queue {
            "one, worker 0 deals its frames out"
        } else {
            "one for each worker"
        },
        rules: rules.len(),
        vdps,
        frames_in_trace: arena.len(),
        crew_mpps_per_cpu_s: of(&|r| r.crew.per_cpu()),
        crew_mpps_wall: of(&|r| r.crew.per_wall()),
        processes_mpps_per_cpu_s: of(&|r| r.processes.per_cpu()),
        processes_mpps_wall: of(&|r| r.processes.per_wall()),
        ratio_per_cpu_s: of(&|r| r.crew.per_cpu() / r.processes.per_cpu()),
        ratio_wall: of(&|r| r.crew.per_wall() / r.processes.per_wall()),
        visible,
        scaling,
        repeats,
    };
    if a.json {
        say(serde_json::to_string(&Envelope::new("bench-workers", &report))?)
    } else {
        put(told(&report))
    }
}

fn told(r: &Report) -> String {
    let mut out = format!(
        "{} workers on {} processors, queues: {}; {} rules in {} VDPs, {} frames in the trace\n",
        r.workers, r.processors, r.queues, r.rules, r.vdps, r.frames_in_trace
    );
    for (who, cpu, wall) in [
        ("the crew", r.crew_mpps_per_cpu_s, r.crew_mpps_wall),
        ("as many processes", r.processes_mpps_per_cpu_s, r.processes_mpps_wall),
    ] {
        out +=
            &format!("  {cpu:8.2} million frames per CPU-second, {wall:8.2} per second: {who}\n");
    }
    out += &format!(
        "  {:8.3} of the processes' rate per CPU-second, {:.3} per second (medians of {})\n",
        r.ratio_per_cpu_s,
        r.ratio_wall,
        r.repeats.len()
    );
    for v in &r.visible {
        out += &format!(
            "  {:8.1} us until a change holds at {} worker{} (p50), {:.1} (p99), {:.1} (most of {}), and {:.1}, {:.1} (p99) until threads that only read memory see a word; who asks has {}\n",
            v.p50_us,
            v.workers,
            if v.workers == 1 { "" } else { "s" },
            v.p99_us,
            v.max_us,
            v.changes,
            v.bare_p50_us,
            v.bare_p99_us,
            if v.undisturbed { "a processor of its own" } else { "to take one from a worker" }
        );
    }
    if let Some(s) = &r.scaling {
        let c = s.costs;
        out += &format!(
            "  {:8.1} ns for worker 0 to deal a frame out, {:.1} for one of its own, {:.1} more where it has both; {:.1} for another worker\n",
            c.deal_ns, c.home_ns, c.mixed_ns, c.far_ns
        );
        for c in &s.checks {
            out += &format!(
                "  {:8.2} million frames per second with {} of 256 buckets at worker 0, {:.2} by simulation\n",
                c.measured, c.buckets_at_home, c.simulated
            );
        }
        for w in &s.workers {
            out += &format!(
                "  {:8.1} by simulation: {} workers, a queue each, {:.1} before the busiest loses any; {:.1} with one queue and {} of 256 buckets at worker 0\n",
                w.queue_each, w.workers, w.queue_each_without_loss, w.one_queue, w.buckets_at_home
            );
        }
    }
    out
}
