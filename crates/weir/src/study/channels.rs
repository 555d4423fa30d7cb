//! `channels`: what the software stage carries when its channels are served by the worker itself,
//! or by one to four threads of their own. From memory.
//!
//! Every frame crosses a channel: four VDPs on the slow path, three with a channel of their own,
//! the fourth on the shared one (004 §4.2). The data planes are measured in turn, round by round.

use super::load::{self, PORTS};
use super::report::{Accounts, Axis, Extent, NOT_STATED, Point, Published, Report, Series};
use super::{Id, Plan, Watch};
use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use weir_dataplane::{Config, DataPlane, Path, Runner, Serving, WhenIdle};

const FRAME_BYTES: usize = 64;
const SERVING: [Serving; 5] = [
    Serving::Worker,
    Serving::Threads(1),
    Serving::Threads(2),
    Serving::Threads(3),
    Serving::Threads(4),
];
const X: Axis = Axis { name: "threads that serve channels (0: the worker does)", unit: "" };
const WALL: Axis = Axis { name: "rate", unit: "million frames per second" };
const CPU: Axis =
    Axis { name: "rate by the CPU time of all threads", unit: "million frames per CPU-second" };

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let rounds = plan.depth.of(2, 9);
    let time = plan.depth.of(Duration::from_millis(30), Duration::from_millis(300));
    let mut report = Report::new(Id::Channels, plan.depth.of(Extent::Quick, Extent::Full));
    let mut planes = SERVING.iter().map(|_| plane()).collect::<Result<Vec<_>>>()?;
    let mut samples = vec![(Vec::new(), Vec::new()); SERVING.len()];
    for round in 0..=rounds {
        watch.next(&format!("round {round} of {rounds}"))?;
        for ((plane, serving), (wall, cpu)) in planes.iter_mut().zip(SERVING).zip(&mut samples) {
            let (by_wall, by_cpu) = rates(plane, serving, time)?;
            // The first round fills caches and finds pages.
            if round > 0 {
                wall.push(by_wall);
                cpu.push(by_cpu);
            }
        }
    }
    let mut accounts = Accounts::default();
    planes.iter().flatten().for_each(|p| accounts.add(&p.snapshot()));
    report.accounts = Some(accounts);
    let (wall, cpu): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
    report.series = [(WALL, wall), (CPU, cpu)]
        .map(|(y, of)| {
            let points = (0u8..).zip(of).map(|(n, s)| Point::of(n.into(), s)).collect();
            Series { name: "slow path, from memory".to_owned(), x: X, y, points }
        })
        .into();
    report.published.push(Published {
        what: "rate by the number of threads",
        value: NOT_STATED,
        source: "004 §4.2",
        ours: "the tables above".to_owned(),
    });
    let cores = available_parallelism().map_or(1, usize::from);
    report.condition("frames", format!("{FRAME_BYTES} bytes (FCS included), IPv4 and UDP"));
    report.condition("VDPs", format!("{PORTS} by port, all on the slow path, one rule each: new MAC addresses, out by the adjacent port; three channels of their own, one shared"));
    report.condition("threads", format!("the worker and those that serve, on {cores} processors: with more threads than processors they take turns"));
    report
        .condition("rounds", format!("{rounds}, each of {} ms for each number", time.as_millis()));
    report.remark(
        "The source waits, so nothing is lost. Where the worker serves, a frame stays in one core's \
         caches; a thread of its own takes work off the worker and costs the way from cache to cache, \
         twice a frame.",
    );
    Ok(report)
}

fn plane() -> Result<Option<DataPlane>> {
    let arena = load::arena(FRAME_BYTES)?;
    let mut plane = DataPlane::new(Config::default())?;
    let mut ports = Vec::new();
    for port in 0..PORTS {
        let player = load::player(&arena, port);
        ports.push(plane.add_port(&format!("p{}", port + 1), Box::new(player))?);
    }
    load::vdps(&mut plane, &ports, Path::Slow, load::Kinds::Ipv4)?;
    Ok(Some(plane))
}

/// How long threads may take to move the first frame where others have the processors.
const PATIENCE: Duration = Duration::from_secs(10);

/// Frames that left, in millions by the second and by the CPU-second.
fn rates(place: &mut Option<DataPlane>, serving: Serving, time: Duration) -> Result<(f64, f64)> {
    let Some(plane) = place.take() else { bail!("the data plane has gone") };
    let sent = |plane: &DataPlane| -> u64 {
        plane.snapshot().ports.iter().map(|p| p.counters.tx.frames).sum()
    };
    let before = sent(&plane);
    let (begin, cpu) = (Instant::now(), cpu_time());
    let runner = Runner::start(plane, serving, WhenIdle::Rest)?;
    let handle = runner.handle();
    sleep(time);
    while handle.call(move |plane| sent(plane))? == before && begin.elapsed() < PATIENCE {
        sleep(time);
    }
    let plane = runner.stop()?;
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    plane.snapshot().check()?;
    let frames = (sent(&plane) - before) as f64 / 1e6;
    *place = Some(plane);
    if frames == 0.0 || cpu <= 0.0 {
        bail!("no frame moved: the data plane stands still");
    }
    Ok((frames / wall, frames / cpu))
}

/// CPU seconds of all threads of this process.
fn cpu_time() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}
