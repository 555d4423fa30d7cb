//! `vdp-latency`: paper 004's figure 4, lower half. Percentiles at a stated rate, for the fast path,
//! the slow path, and over veth the Linux kernel's own forwarding; beside each what the instrument
//! itself takes.

use super::dut::{Weir, close, serving, tester};
use super::lab::{Kind, Lab};
use super::load::{self, PORTS, SIZES, To};
use super::report::{Accounts, Axis, Extent, NOT_STATED, Point, Published, Report, Series, number};
use super::veth_forward::SIZE;
use super::{Id, Plan, Watch};
use anyhow::{Result, bail};
use std::time::Duration;
use weir_dataplane::{Config, DataPlane, Path, WhenIdle};
use weir_io::memory::{Memory, WireSize};
use weir_measure::Rate;
use weir_measure::clock::{Clock, Monotonic, Wait};
use weir_measure::generator::{Generator, Load, Step};
use weir_measure::latency::LatencySummary;
use weir_measure::port::Port;
use weir_measure::probe::{Checker, Run, Stream, Window};
use weir_measure::receiver::{AllSent, Arrived, Drain, Receiver};
use weir_measure::rfc2544::{DelaySettings, latency};
use weir_measure::trial::{PortTrial, PortTrialSettings, Ports};

const MEMORY: Axis = Axis { name: "latency from memory", unit: "ns" };
const VETH: Axis = Axis { name: "latency over veth", unit: "µs" };
const APART: Axis = Axis { name: "latency over veth, weir on a thread of its own", unit: "µs" };
const KINDS: [Kind; 5] = [Kind::Wire, Kind::Fast, Kind::Slow, Kind::Bridge, Kind::Router];
/// Frames per second over all ports.
const MEMORY_FPS: f64 = 100_000.0;
const VETH_FPS: f64 = 10_000.0;

/// How long frames that are still on their way are waited for.
const DRAIN: Drain = Drain {
    settle: Duration::from_millis(2),
    quiet: Duration::from_millis(60),
    at_most: Duration::from_millis(1000),
};

/// Of a distribution, what becomes a series.
type Percentile = (&'static str, fn(&LatencySummary) -> u64);
const PERCENTILES: [Percentile; 2] = [("p50", |s| s.p50_ns), ("p99", |s| s.p99_ns)];

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let repetitions = plan.depth.of(1, 3);
    let time =
        plan.trial.unwrap_or(plan.depth.of(Duration::from_millis(30), Duration::from_millis(400)));
    let mut report = Report::new(Id::VdpLatency, plan.depth.of(Extent::Quick, Extent::Reduced));
    report.condition("ports and VDPs", "four, each VDP by its port, with one explicit rule: IPv4 gets new MAC addresses and leaves by the adjacent port; all four ports send");
    report.condition("slow path", "the same rule, carried out by the software stage on the same core; a channel for each of three VDPs, the shared one for the fourth");
    report.condition("repetitions", format!("{repetitions} of {} ms each (RFC 2544 asks for 20 of 120 s); a sample is a repetition's percentile", time.as_millis()));
    if plan.memory() {
        from_memory(repetitions, time, watch, &mut report)?;
    }
    if plan.veth() {
        over_veth(repetitions, time, watch, &mut report)?;
    }
    published(&mut report);
    report.remark(
        "The paper says that the hardware path takes 'merely 5 milliseconds to tens of \
         milliseconds' and the software path 'about 1 to 2 microseconds', close to the kernel's. The \
         two units look interchanged: a path through software can't be a thousand times faster than \
         the same frames through hardware alone, and the sentence calls the hardware path's the low \
         one. Both values are quoted as printed.",
    );
    Ok(report)
}

/// Collects percentiles of repetitions into series.
struct Collector {
    y: Axis,
    divisor: f64,
    series: Vec<Series>,
}

impl Collector {
    fn add(&mut self, name: &str, size: usize, repetitions: &[LatencySummary]) {
        for (percentile, of) in PERCENTILES {
            let name = format!("{name} {percentile}");
            let samples = repetitions.iter().map(|s| of(s) as f64 / self.divisor).collect();
            let point = Point::of(size as f64, samples);
            match self.series.iter_mut().find(|s| s.name == name) {
                Some(s) => s.points.push(point),
                None => self.series.push(Series { name, x: SIZE, y: self.y, points: vec![point] }),
            }
        }
    }
}

fn from_memory(
    repetitions: usize,
    time: Duration,
    watch: &mut Watch<'_>,
    report: &mut Report,
) -> Result<()> {
    let mut all = Collector { y: MEMORY, divisor: 1.0, series: Vec::new() };
    let mut accounts = Accounts::default();
    let kinds =
        [("rings alone", None), ("fast path", Some(Path::Fast)), ("slow path", Some(Path::Slow))];
    for size in SIZES {
        watch.next(&format!("from memory, frames of {size} bytes"))?;
        for (name, path) in kinds {
            let mut rig = Rig::new(path)?;
            let mut samples = Vec::with_capacity(repetitions);
            for n in 0..repetitions {
                samples.push(rig.measure(Run(n as u8), size, time)?);
            }
            all.add(name, size, &samples);
            rig.account(&mut accounts)?;
        }
    }
    report.series.extend(all.series);
    report.accounts = Some(accounts);
    report.condition(
        "rate from memory",
        format!("{} frames per second over all ports, evenly spaced", number(MEMORY_FPS)),
    );
    report.remark(
        "From memory one thread writes a frame into a ring, polls the data plane and takes the frame \
         out of the ring on the other side: the latency is that of the program, without waiting for \
         another core. It includes two copies and the checks of the receiver up to the time stamp; \
         'rings alone' is the same without a data plane.",
    );
    Ok(())
}

/// A data plane, or none, between four rings, and the tester's ends of them.
struct Rig {
    plane: Option<DataPlane>,
    ports: Vec<Port>,
    clock: Monotonic,
}

impl Rig {
    fn new(path: Option<Path>) -> Result<Self> {
        let size = WireSize { slots: 256, ..WireSize::default() };
        let port = |device: Memory| Port::new(Box::new(device), 512);
        let clock = Monotonic::new(Wait::Spin);
        let mut ports = Vec::new();
        let Some(path) = path else {
            for _ in (0..PORTS).step_by(2) {
                let (a, b) = Memory::pair(["a", "b"], size);
                ports.extend([port(a)?, port(b)?]);
            }
            return Ok(Self { plane: None, ports, clock });
        };
        let mut plane = DataPlane::new(Config::default())?;
        let mut ids = Vec::new();
        for n in 1..=PORTS {
            let (far, near) = Memory::pair(["tester", "device"], size);
            ports.push(port(far)?);
            ids.push(plane.add_port(&format!("p{n}"), Box::new(near))?);
        }
        load::vdps(&mut plane, &ids, path, load::Kinds::Ipv4)?;
        Ok(Self { plane: Some(plane), ports, clock })
    }

    fn measure(&mut self, run: Run, size: usize, time: Duration) -> Result<LatencySummary> {
        let streams = load::streams(&[0, 1, 2, 3], size, To::Device);
        let settings = InTurn { rate: Rate::new(MEMORY_FPS)?, time, run };
        let (found, lost) =
            settings.measure(self.plane.as_mut(), &mut self.ports, &streams, &self.clock)?;
        match found {
            Some(s) if lost == 0 => Ok(s),
            _ => bail!("from memory, frames of {size} bytes: {lost} did not arrive as they left"),
        }
    }

    fn account(&self, sums: &mut Accounts) -> Result<()> {
        let Some(plane) = &self.plane else { return Ok(()) };
        let s = plane.snapshot();
        s.check()?;
        sums.add(&s);
        Ok(())
    }
}

/// A trial on one thread, which sends, polls the data plane and receives in turn.
struct InTurn {
    rate: Rate,
    time: Duration,
    run: Run,
}

impl InTurn {
    /// The distribution of delays, and how many frames did not arrive exactly once.
    fn measure(
        &self,
        mut plane: Option<&mut DataPlane>,
        ports: &mut [Port],
        streams: &[Stream],
        clock: &Monotonic,
    ) -> Result<(Option<LatencySummary>, u64)> {
        let checker = Checker::new(streams, self.run, Window::default())?;
        let load = Load { burst: 1, ..Load::new(self.rate, self.time) };
        let mut poll = || plane.as_mut().map_or(0, |p| p.poll(clock.now()));
        let mut generator = Generator::new(ports, streams, self.run, &load, clock)?;
        let mut receiver = Receiver::new(ports, checker, Arrived::Taken, DRAIN, clock);
        while generator.step(ports, clock) != Step::Done {
            poll();
            receiver.step(ports, clock);
        }
        let sent = generator.finish(ports, clock);
        let all_sent = AllSent::new();
        all_sent.announce(sent.frames.saturating_sub(sent.failed));
        while !receiver.is_done(&all_sent, clock) {
            poll();
            receiver.step(ports, clock);
        }
        let (checker, received) = receiver.finish(ports);
        let t = checker.tally(&sent.streams);
        let wrong = t.total.lost + t.total.duplicated + t.total.misdelivered + t.corrupted;
        Ok((received.latency.summary(), wrong.saturating_sub(sent.failed)))
    }
}

fn over_veth(
    repetitions: usize,
    time: Duration,
    watch: &mut Watch<'_>,
    report: &mut Report,
) -> Result<()> {
    watch.next("making namespaces")?;
    let mut labs = Vec::new();
    for kind in KINDS {
        let lab = Lab::new(kind)?;
        let weir = Weir::of(&lab)?;
        labs.push((lab, weir));
    }
    let settings = DelaySettings {
        rate: Rate::new(VETH_FPS)?,
        duration: time,
        repetitions: u32::try_from(repetitions)?,
    };
    let mut all = Collector { y: VETH, divisor: 1e3, series: Vec::new() };
    let mut apart = Collector { y: APART, divisor: 1e3, series: Vec::new() };
    let mut lost = 0;
    for size in SIZES {
        for (lab, weir) in &mut labs {
            let name = lab.kind.name();
            watch.next(&format!("over veth, {name}, frames of {size} bytes"))?;
            let (samples, missing) = in_turn(lab, weir, size, &settings)?;
            lost += missing;
            all.add(name, size, &samples);
            if weir.is_some() {
                let (samples, missing) =
                    serving(weir, WhenIdle::Spin, || delays(lab, size, &settings))?;
                lost += missing;
                apart.add(name, size, &samples);
            }
        }
    }
    report.series.extend(all.series);
    report.series.extend(apart.series);
    report.condition(
        "rate over veth",
        format!("{} frames per second over all ports, evenly spaced", number(VETH_FPS)),
    );
    report.condition("frames lost over veth", lost);
    report.condition(
        "tester over veth",
        "AF_PACKET at the far ends, stamps taken by the program in user space",
    );
    report.remark(
        "Over veth each latency holds a send and a receive call of the tester: 'wire alone' is the \
         same over a veth pair without a device. One thread sends, polls weir and receives in turn; \
         the kernel's bridge and router do their work inside the send. So nothing waits for another \
         thread to get a core. With weir's worker on a thread of its own, which polls without \
         resting, it is otherwise: where the machine has other work to do, that table's figures are \
         the scheduler's, in milliseconds.",
    );
    Ok(())
}

/// Latency with weir polled by the tester's thread.
fn in_turn(
    lab: &Lab,
    weir: &mut Option<Weir>,
    size: usize,
    settings: &DelaySettings,
) -> Result<(Vec<LatencySummary>, u64)> {
    let streams = load::streams(&[0, 1, 2, 3], size, lab.kind.to());
    let mut ports = tester(lab)?;
    let clock = Monotonic::new(Wait::Spin);
    let mut all = (Vec::new(), 0);
    let mut run = Run(0);
    for _ in 0..settings.repetitions {
        run = run.next();
        let plane = weir.as_mut().and_then(Weir::plane);
        let trial = InTurn { rate: settings.rate, time: settings.duration, run };
        let (found, wrong) = trial.measure(plane, &mut ports, &streams, &clock)?;
        all.0.extend(found);
        all.1 += wrong;
    }
    ports.iter_mut().for_each(close);
    Ok(all)
}

/// Latency with weir on a thread of its own.
fn delays(lab: &Lab, size: usize, settings: &DelaySettings) -> Result<(Vec<LatencySummary>, u64)> {
    let trial_settings =
        PortTrialSettings { burst: Some(1), drain: DRAIN, ..PortTrialSettings::default() };
    let streams = load::streams(&[0, 1, 2, 3], size, lab.kind.to());
    let ports = Ports::Together(tester(lab)?);
    let mut trial = PortTrial::new(ports, streams, Monotonic::new(Wait::Spin), trial_settings);
    let found = latency(&mut trial, settings);
    if let Ports::Together(mut ports) = trial.into_ports() {
        ports.iter_mut().for_each(close);
    }
    let found = found?;
    let lost = found.trials.iter().map(|t| t.sent - t.received).sum();
    Ok((found.repetitions.into_iter().flatten().collect(), lost))
}

/// What the paper's text says, beside ours.
fn published(report: &mut Report) {
    let range = |name: &str, y: Axis| {
        let s = report.find(&format!("{name} p50"), y)?;
        let medians = || s.points.iter().filter_map(|p| p.median);
        let (low, high) = (medians().reduce(f64::min)?, medians().reduce(f64::max)?);
        Some(format!("{} to {} {}", number(low), number(high), y.unit))
    };
    let ours = |name: &str| {
        let all: Vec<String> = [("from memory", MEMORY), ("over veth", VETH)]
            .into_iter()
            .filter_map(|(place, y)| Some(format!("{place} {}", range(name, y)?)))
            .collect();
        if all.is_empty() { "not measured".to_owned() } else { format!("p50 {}", all.join(", ")) }
    };
    let kernel = [ours("Linux bridge"), ours("Linux router")].join(" (bridge), ") + " (router)";
    report.published = vec![
        Published {
            what: "hardware path (our fast path)",
            value: "5 milliseconds to tens of milliseconds, depending on packet size",
            source: "004 §5",
            ours: ours("fast path"),
        },
        Published {
            what: "software path (our slow path)",
            value: "about 1 to 2 microseconds",
            source: "004 §5",
            ours: ours("slow path"),
        },
        Published {
            what: "raw Linux kernel",
            value: "close to the software path's (in words)",
            source: "004 §5",
            ours: kernel,
        },
        Published {
            what: "latency at each frame size",
            value: NOT_STATED,
            source: "004 figure 4",
            ours: "the tables above".to_owned(),
        },
    ];
}
