//! `vdp-throughput`: paper 004's figure 4, upper half. Four VDPs by port, frames of seven sizes,
//! fast path and slow path; over veth the Linux kernel's own forwarding beside them.

use super::dut::{Weir, close, serving, tester};
use super::lab::{Kind, Lab};
use super::load::{self, PORTS, SIZES};
use super::memory::Bench;
use super::report::{Accounts, Axis, Bound, Extent, Figure, NOT_STATED, Point, Promise, Published};
use super::report::{Report, Series, Trial, number};
use super::veth_forward::{METHOD, RATE as WHOLE, SIZE};
use super::whole_path::{self, WholePath};
use super::{Id, Plan, Watch};
use anyhow::Result;
use std::time::{Duration, Instant};
use weir_dataplane::{Config, DataPlane, Path, WhenIdle};
use weir_io::thread_cpu_time;
use weir_measure::Rate;
use weir_measure::clock::{Monotonic, Wait};
use weir_measure::receiver::Drain;
use weir_measure::rfc2544::{
    Acceptance, LimitedBy, Resolution, TRIAL_DURATION, Throughput, ThroughputSettings, throughput,
};
use weir_measure::trial::{PortTrial, PortTrialSettings, Ports};
use weir_packet::{Burst, Device, Pool};

/// What is measured from memory.
const MEMORY: Axis = Axis { name: "rate from memory", unit: "million frames per CPU-second" };
const VETH: Axis =
    Axis { name: "throughput over veth (RFC 2544, no frame lost)", unit: "frames per second" };
/// What forwards, beside the wire.
const KINDS: [Kind; 4] = [Kind::Fast, Kind::Slow, Kind::Bridge, Kind::Router];
/// The range of the search, in frames per second over all ports.
const RANGE: (f64, f64) = (5_000.0, 1_000_000.0);

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let trial =
        plan.trial.unwrap_or(plan.depth.of(Duration::from_millis(50), Duration::from_millis(300)));
    let extent = if plan.veth() && trial < TRIAL_DURATION { Extent::Reduced } else { Extent::Full };
    let mut report = Report::new(Id::VdpThroughput, plan.depth.of(Extent::Quick, extent));
    report.condition("ports and VDPs", "four, each VDP by its port, with one explicit rule: IPv4 gets new MAC addresses and leaves by the adjacent port; all four ports send");
    report.condition("slow path", "the same rule, carried out by the software stage on the same core; a channel for each of three VDPs, the shared one for the fourth");
    if plan.memory() {
        from_memory(plan, watch, &mut report)?;
    }
    if plan.veth() {
        zero_loss(trial, plan.depth.of(1, 3), watch, &mut report)?;
        whole_paths(plan, watch, &mut report)?;
    }
    published(&mut report);
    Ok(report)
}

/// Two paths, and the loop without a data plane.
fn from_memory(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rounds = plan.depth.of(2, 7);
    let time = plan.depth.of(Duration::from_millis(10), Duration::from_millis(200));
    let names = ["fast path", "slow path", "copies alone"];
    let mut series: Vec<Series> =
        names.map(|n| Series { name: n.to_owned(), x: SIZE, y: MEMORY, points: Vec::new() }).into();
    let mut accounts = Accounts::default();
    for size in SIZES {
        watch.next(&format!("from memory, frames of {size} bytes"))?;
        let mut benches = [bench(size, Path::Fast)?, bench(size, Path::Slow)?];
        let mut samples = vec![Vec::new(); names.len()];
        for round in 0..=rounds {
            let [fast, slow] = &mut benches;
            let rates =
                [fast.mfps_per_cpu_s(time)?, slow.mfps_per_cpu_s(time)?, copies(size, time)?];
            // The first round fills caches and finds pages.
            for (s, rate) in samples.iter_mut().zip(rates).filter(|_| round > 0) {
                s.push(rate);
            }
        }
        for (s, samples) in series.iter_mut().zip(samples) {
            s.points.push(Point::of(size as f64, samples));
        }
        benches.iter().for_each(|b| b.account(&mut accounts));
    }
    for (s, least) in series.iter().zip([20.0, 8.0]) {
        let what = format!("{}, from memory, frames of 64 bytes", s.name);
        let samples = s.points.iter().find(|p| p.x == 64.0).map_or(&[][..], |p| &p.samples);
        let promised = Some(Promise { bound: Bound::AtLeast, value: least });
        report.figures.extend(Figure::median(
            what,
            samples,
            "million frames per CPU-second",
            promised,
        ));
    }
    report.series.extend(series);
    report.accounts = Some(accounts);
    report.condition(
        "from memory",
        format!("{rounds} rounds of {} ms for each path and size", time.as_millis()),
    );
    report.remark(
        "From memory the source waits until it is asked, so no frame can be lost and RFC 2544's \
         throughput does not exist there: the figure is frames per CPU-second of the one thread \
         that does everything, the copy of each frame out of the source included. 'Copies alone' is \
         the same loop without a data plane.",
    );
    Ok(())
}

fn bench(size: usize, path: Path) -> Result<Bench> {
    let arena = load::arena(size)?;
    let mut plane = DataPlane::new(Config::default())?;
    let mut ports = Vec::new();
    for port in 0..PORTS {
        let player = load::player(&arena, port);
        ports.push(plane.add_port(&format!("p{}", port + 1), Box::new(player))?);
    }
    load::vdps(&mut plane, &ports, path, load::Kinds::Ipv4)?;
    Ok(Bench::new(plane))
}

/// The source and the sink of the measurements from memory, nothing between them.
fn copies(size: usize, time: Duration) -> Result<f64> {
    let arena = load::arena(size)?;
    let mut players: Vec<_> = (0..PORTS).map(|p| load::player(&arena, p)).collect();
    let config = Config::default();
    let mut pool = Pool::new(config.frames, config.chunk_bytes)?;
    let mut burst = Burst::new();
    let (begin, cpu) = (Instant::now(), thread_cpu_time());
    let mut frames = 0;
    // Once at least, however late this thread gets its core.
    loop {
        for _ in 0..64 {
            for p in &mut players {
                frames += p.rx(&mut pool, &mut burst);
                p.tx(&mut pool, &mut burst);
            }
        }
        if begin.elapsed() >= time {
            break;
        }
    }
    Ok(frames as f64 / thread_cpu_time().saturating_sub(cpu).as_secs_f64() / 1e6)
}

/// RFC 2544 throughput over veth.
fn zero_loss(
    trial: Duration,
    searches: usize,
    watch: &mut Watch<'_>,
    report: &mut Report,
) -> Result<()> {
    let settings = ThroughputSettings {
        resolution: Resolution::Relative(0.05),
        duration: trial,
        acceptance: Acceptance { trials: 3, must_pass: 2 },
        reach: 0.95,
        ..ThroughputSettings::over(Rate::new(RANGE.0)?, Rate::new(RANGE.1)?)
    };
    watch.next("making namespaces")?;
    let mut labs = Vec::new();
    for kind in KINDS {
        let lab = Lab::new(kind)?;
        let weir = Weir::of(&lab)?;
        let series = Series { name: kind.name().to_owned(), x: SIZE, y: VETH, points: Vec::new() };
        labs.push((lab, weir, series));
    }
    for size in SIZES {
        for (lab, weir, series) in &mut labs {
            watch.next(&format!("over veth, {}, frames of {size} bytes", lab.kind.name()))?;
            let search = || search(lab, size, searches, &settings);
            series.points.push(serving(weir, WhenIdle::Rest, search)?);
        }
    }
    report.series.extend(labs.into_iter().map(|(.., series)| series));
    report.condition("over veth", format!("{searches} searches, with trials of {} ms (RFC 2544 asks for 60 s), to 5 %; a rate counts if 2 of at most 3 trials lose nothing; {} to {} frames per second over all ports", trial.as_millis(), number(RANGE.0), number(RANGE.1)));
    report.condition(
        "tester over veth",
        "AF_PACKET at the far ends, one thread that sends and receives; weir's worker has another",
    );
    report.remark(
        "Over veth the tester, the wires and the device share the machine's cores: a rate without \
         loss says how long whoever needs a core goes without it, as much as it says what the \
         device can do. Where the source was the limit, the device lost nothing of what could be \
         offered and may carry more. The kernel \
         forwards inside the sender's own call, so a sender on the same machine can't overrun it: its \
         rate is always the source's. The rate of the whole path does not depend on any of this.",
    );
    Ok(())
}

fn search(lab: &Lab, size: usize, searches: usize, settings: &ThroughputSettings) -> Result<Point> {
    let ms = Duration::from_millis;
    let trial_settings = PortTrialSettings {
        drain: Drain { settle: ms(5), quiet: ms(60), at_most: ms(1000) },
        ..PortTrialSettings::default()
    };
    let streams = load::streams(&[0, 1, 2, 3], size, lab.kind.to());
    let ports = Ports::Together(tester(lab)?);
    let mut trial = PortTrial::new(ports, streams, Monotonic::new(Wait::Spin), trial_settings);
    let found: Result<Vec<Throughput>, _> =
        (0..searches).map(|_| throughput(&mut trial, settings)).collect();
    if let Ports::Together(mut ports) = trial.into_ports() {
        ports.iter_mut().for_each(close);
    }
    let found = found?;
    let rates: Vec<f64> = found.iter().filter_map(|t| t.rate.map(Rate::fps)).collect();
    let by_source = found.iter().filter(|t| t.limited_by == LimitedBy::Source).count();
    let remark = if rates.len() < searches {
        Some("in some searches frames were lost even at the lowest rate".to_owned())
    } else if by_source > 0 {
        Some(format!("the source was the limit in {by_source} of {searches} searches"))
    } else {
        None
    };
    let trials = found.iter().flat_map(|t| &t.trials).map(|t| Trial {
        asked_fps: t.offered.fps(),
        offered_fps: t.offered_actual.map(Rate::fps),
        sent: t.sent,
        received: t.received,
    });
    Ok(Point { remark, trials: trials.collect(), ..Point::of(size as f64, rates) })
}

/// CPU time over veth.
fn whole_paths(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rounds = plan.depth.of(1, 3);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(200));
    let mut paths = Vec::new();
    for kind in [Kind::Wire].into_iter().chain(KINDS) {
        paths.push(WholePath::new(Lab::new(kind)?)?);
    }
    let mut series: Vec<Series> = KINDS
        .map(|k| Series { name: k.name().to_owned(), x: SIZE, y: WHOLE, points: Vec::new() })
        .into();
    for size in SIZES {
        watch.next(&format!("the whole path over veth, frames of {size} bytes"))?;
        let all = whole_path::rounds(&mut paths, size, rounds, time)?;
        for (s, point) in series.iter_mut().zip(all) {
            s.points.push(point);
        }
    }
    report.series.extend(series);
    report.condition(
        "the whole path",
        format!(
            "{rounds} rounds of {} ms for each path and size, one port sending",
            time.as_millis()
        ),
    );
    report.remark(METHOD);
    Ok(())
}

/// What the paper's text says, beside ours.
fn published(report: &mut Report) {
    let gbps = |name: &str| {
        let s = report.find(name, MEMORY)?;
        // A frame takes 20 bytes more of an Ethernet than it has (RFC 2544 appendix B).
        let gbps = |size: f64| Some(number(s.at(size)? * (size + 20.0) * 8.0 / 1e3));
        let (small, large) = (gbps(64.0)?, gbps(1518.0)?);
        Some(format!(
            "from memory, a core: {small} Gb/s with 64 bytes, {large} Gb/s with 1518 bytes"
        ))
    };
    let ours = |name| gbps(name).unwrap_or_else(|| "not measured".to_owned());
    let kernel = {
        let of = |kind: Kind| {
            let lossless = report.find(kind.name(), VETH)?.at(64.0)?;
            let whole = report.find(kind.name(), WHOLE)?.at(64.0)?;
            Some(format!(
                "{}: {} kpps without loss, {} kpps a CPU-second of the whole path, 64 bytes over veth",
                kind.name(),
                number(lossless / 1e3),
                number(whole * 1e3)
            ))
        };
        let all: Vec<String> = [Kind::Bridge, Kind::Router].into_iter().filter_map(of).collect();
        if all.is_empty() { "not measured".to_owned() } else { all.join("; ") }
    };
    report.published = vec![
        Published {
            what: "hardware path (our fast path)",
            value: "4 Gb/s, line rate of four ports",
            source: "004 §5",
            ours: ours("fast path"),
        },
        Published {
            what: "software path (our slow path)",
            value: "4 Gb/s, line rate of four ports",
            source: "004 §5",
            ours: ours("slow path"),
        },
        Published {
            what: "raw Linux kernel forwarding",
            value: "approximately 500 kpps",
            source: "004 §5",
            ours: kernel,
        },
        Published {
            what: "rate at each frame size",
            value: NOT_STATED,
            source: "004 figure 4",
            ours: "the tables above".to_owned(),
        },
    ];
}
