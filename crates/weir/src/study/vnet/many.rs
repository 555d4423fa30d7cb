//! `vnet-networks`, `vnet-flows`, `vnet-cpus`: 003's figures 14 and 15. A fixed 200 kp/s of 64-byte frames, split
//! equally over networks or flows, and with CPUs given to the shared plane.

use super::drive::{Drive, Spread, running, streams};
use super::element::{Arrangement, Bed, Element, Shape, Worker};
use super::rate::DELIVERED;
use super::{elements, repetitions, series};
use crate::processor;
use crate::study::report::{Axis, Bound, Figure, Point, Promise, Report, number};
use crate::study::{Plan, Watch};
use anyhow::{Result, anyhow};
use std::time::Duration;
use weir_dataplane::{Path, Runner, Serving};

const BYTES: usize = 64;
/// Frames per second in all (003 §5.2).
const FPS: f64 = 200_000.0;
/// A rate that no source here reaches.
const SATURATION: f64 = 5_000_000.0;
const NETWORKS: Axis = Axis { name: "virtual networks, a flow each", unit: "" };
const FLOWS: Axis = Axis { name: "flows of one network", unit: "" };
const CPUS: Axis = Axis { name: "CPUs of the shared plane's own", unit: "" };
const AT: Axis = Axis { name: "delivered rate at saturation", unit: "kp/s" };
const COUNTS: [u16; 6] = [1, 2, 4, 8, 64, 1024];
/// How many networks are held against each other at saturation.
const FEW: u16 = 4;
const MANY: u16 = 1024;

fn time(plan: &Plan) -> Duration {
    plan.depth.of(Duration::from_millis(10), Duration::from_millis(300))
}

fn nothing(_: &Runner) -> Result<()> {
    Ok(())
}

fn conditions(plan: &Plan, report: &mut Report) {
    report.condition("frames", format!("{BYTES} bytes (FCS included), IPv4 and UDP"));
    report.condition("offered", format!("{} frames per second in all, split equally", number(FPS)));
    report.condition(
        "trials",
        format!("{} of {} ms at each point", repetitions(plan.depth), time(plan).as_millis()),
    );
}

/// Figure 14 (a), and many networks at saturation.
pub fn networks(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    for element in elements(report) {
        watch.next(&format!("{}, by number of networks", element.name()))?;
        let points = match element {
            // A network is a VDP of its own.
            Element::Vdp => COUNTS
                .into_iter()
                .map(|n| {
                    let shape = Shape { vdps: Some(n), ..Shape::ONE };
                    let mut bed = Bed::new(element, shape)?;
                    one(plan, &mut bed, Spread::Vlans(n), Serving::Worker, nothing)
                })
                .collect::<Result<Vec<_>>>()?,
            // As in the paper: a network is a flow.
            _ => by_flows(plan, element)?,
        };
        report.series.push(series(element.name(), NETWORKS, DELIVERED, points));
    }
    conditions(plan, report);
    saturated(plan, watch, report)
}

/// Figure 14 (b).
pub fn flows(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    for element in elements(report) {
        watch.next(&format!("{}, by number of flows", element.name()))?;
        let points = by_flows(plan, element)?;
        report.series.push(series(element.name(), FLOWS, DELIVERED, points));
    }
    conditions(plan, report);
    Ok(())
}

fn by_flows(plan: &Plan, element: Element) -> Result<Vec<Point>> {
    let mut bed = Bed::new(element, Shape::ONE)?;
    let each = |n| one(plan, &mut bed, Spread::Flows(n), Serving::Worker, nothing);
    COUNTS.into_iter().map(each).collect()
}

/// One point: delivered kp/s at 200 kp/s over so many.
fn one(
    plan: &Plan,
    bed: &mut Bed,
    spread: Spread,
    serving: Serving,
    own: impl FnOnce(&Runner) -> Result<()>,
) -> Result<Point> {
    let (Spread::Flows(n) | Spread::Vlans(n)) = spread;
    let streams = streams(bed, spread, BYTES);
    let mut drive = Drive::new(bed)?;
    let samples = running(bed, serving, own, |bed| {
        drive.send(bed, &streams, 10_000.0, Duration::from_millis(5))?;
        let sample =
            |_| -> Result<f64> { Ok(drive.send(bed, &streams, FPS, time(plan))?.arrived / 1e3) };
        (0..repetitions(plan.depth)).map(sample).collect::<Result<Vec<f64>>>()
    })?;
    Ok(Point::of(n.into(), samples))
}

/// As fast as the source goes, few networks and many in turn.
fn saturated(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rounds = plan.depth.of(1, 9);
    watch.next(&format!("{FEW} and {MANY} networks at saturation"))?;
    let mut all = Vec::new();
    for n in [FEW, MANY] {
        let bed = Bed::new(Element::Vdp, Shape { vdps: Some(n), ..Shape::ONE })?;
        let streams = streams(&bed, Spread::Vlans(n), BYTES);
        let drive = Drive::new(&bed)?;
        all.push((n, bed, streams, drive, Vec::new()));
    }
    for round in 0..=rounds {
        for (_, bed, streams, drive, rates) in &mut all {
            let rate = running(bed, Serving::Worker, nothing, |bed| {
                Ok(drive.send(bed, streams, SATURATION, time(plan))?.arrived / 1e3)
            })?;
            // The first round fills caches and finds pages.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    if let [(.., few), (.., many)] = all.as_slice() {
        let ratios: Vec<f64> = many.iter().zip(few).map(|(m, f)| m / f).collect();
        let what = format!("delivered with {MANY} networks over that with {FEW}, at saturation");
        let promised = Some(Promise { bound: Bound::AtLeast, value: 0.95 });
        report.figures.extend(Figure::median(what, &ratios, "", promised));
    }
    let points = all.into_iter().map(|(n, .., rates)| Point::of(n.into(), rates)).collect();
    report.series.push(series("weir VDP", NETWORKS, AT, points));
    report.condition(
        "at saturation",
        format!("the source sends as fast as it goes; {rounds} rounds, {FEW} and {MANY} networks in turn; the ratio is taken within a round"),
    );
    Ok(())
}

/// Figure 15: what of the machine is the shared plane's.
pub fn cpus(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    for (name, path) in [("weir VDPs, fast path", Path::Fast), ("weir VDPs, slow path", Path::Slow)]
    {
        for networks in [1, FEW, 64] {
            let name = format!("{name}, {networks} networks");
            let points = by_cpus(plan, watch, &name, move |plan, cpus| {
                let shape = Shape { vdps: Some(networks), path, ..Shape::ONE };
                let mut bed = Bed::new(Element::Vdp, shape)?;
                with_cpus(plan, &mut bed, networks, cpus)
            })?;
            report.series.push(series(&name, CPUS, DELIVERED, points));
        }
    }
    let routers = elements(report).into_iter().filter_map(|e| match e {
        // Here the CPU of a router's kernel is whichever has room.
        Element::Router(a) if a != Arrangement::OwnOther => Some(a),
        _ => None,
    });
    for a in routers.collect::<Vec<_>>() {
        let element = Element::Router(a);
        let name = match a {
            Arrangement::OwnSame => "router, own (Xen-VM)",
            _ => element.name(),
        };
        let points = by_cpus(plan, watch, name, move |plan, cpus| {
            let worker = if cpus == 1 { Worker::Own } else { Worker::Free };
            if cpus == 0 {
                on_one_processor()?;
            }
            let mut bed = Bed::new(element, Shape { worker, ..Shape::ONE })?;
            // The worker has its own by now.
            if cpus == 1 {
                on_one_processor()?;
            }
            one(plan, &mut bed, Spread::Flows(1), Serving::Worker, nothing)
        })?;
        report.series.push(series(name, CPUS, DELIVERED, points));
    }
    conditions(plan, report);
    report.condition("0 CPUs", "worker, generator and receiver on one processor");
    report.condition("1 CPU", "the worker has a processor to itself, the generator another");
    report.condition(
        "2 CPUs",
        "worker and software stage a thread each (routers: weir run's threads and the router's kernel), on both \
         processors, which the generator uses, too",
    );
    Ok(())
}

/// A point for each number of CPUs, on a thread of its own, since that is bound to processors.
fn by_cpus(
    plan: &Plan,
    watch: &mut Watch<'_>,
    name: &str,
    measure: impl Fn(&Plan, u16) -> Result<Point> + Copy + Send + 'static,
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for cpus in 0..=2u16 {
        watch.next(&format!("{name}, {cpus} CPUs"))?;
        let plan = plan.clone();
        let done = std::thread::spawn(move || measure(&plan, cpus));
        let samples = done.join().map_err(|_| anyhow!("a measurement ended early"))??;
        points.push(Point::of(cpus.into(), samples.samples));
    }
    Ok(points)
}

/// From here on this thread, and what it starts, run on the first processor alone.
fn on_one_processor() -> Result<()> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(weir_calibrate::cpus::allowed().first().copied().unwrap_or(0));
    Ok(rustix::thread::sched_setaffinity(None, &only)?)
}

fn with_cpus(plan: &Plan, bed: &mut Bed, networks: u16, cpus: u16) -> Result<Point> {
    let last = weir_calibrate::cpus::allowed().last().copied().unwrap_or(0);
    let spread = Spread::Vlans(networks);
    match cpus {
        0 => {
            on_one_processor()?;
            one(plan, bed, spread, Serving::Worker, nothing)
        }
        1 => {
            let own = processor::set_aside(last)?;
            one(plan, bed, spread, Serving::Worker, move |runner| {
                runner.handle().call_there(move |_| own.take())?
            })
        }
        _ => one(plan, bed, spread, Serving::Threads(1), nothing),
    }
}
