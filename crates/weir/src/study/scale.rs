//! `vdp-scale`: what a frame costs with 4 to 1024 VDPs, from memory and over veth.
//!
//! All data planes exist at once and are measured in turn, round by round, so that what else the
//! machine does falls on all of them; differences are taken within a round.

use super::dut::Weir;
use super::lab::{Kind, Lab};
use super::memory::{Bench, shuffle};
use super::report::{Accounts, Axis, Bound, Extent, Figure, NOT_STATED, Point, Promise, Published};
use super::report::{Report, Series};
use super::veth_forward::{METHOD, RATE as WHOLE};
use super::whole_path::{self, WholePath};
use super::{Id, Plan, Watch};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_classify::{Field, Match, VLAN_PRESENT};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Out, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_measure::probe::{Headers, Run, Stamper, Stream};
use weir_packet::{Nanos, PortId};
use weir_wire::{MacAddr, VlanRepr};

const VDPS: [usize; 5] = [4, 16, 64, 256, 1024];
const RULES: usize = 16;
/// Frames that are played over and over: one for each rule of the largest step.
const FRAMES: usize = 16 * 1024;
const FRAME_BYTES: usize = 64;
/// Streams over veth.
const STREAMS: usize = 4096;
const X: Axis = Axis { name: "VDPs", unit: "" };
const RATE: Axis = Axis { name: "rate", unit: "million frames per CPU-second" };
const COST: Axis = Axis { name: "cost of a frame beyond that with 4 VDPs", unit: "ns" };
const MAKING: Axis = Axis { name: "time to create the VDPs with their rules", unit: "ms" };

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let mut report = Report::new(Id::VdpScale, plan.depth.of(Extent::Quick, Extent::Full));
    report
        .condition("frames", format!("{FRAME_BYTES} bytes (FCS included), IPv4 and UDP, VLAN tag"));
    report.condition("VDPs", format!("by VLAN, {RULES} rules each on the destination MAC"));
    let mut ours = Vec::new();
    if plan.memory() {
        let more = from_memory(plan, watch, &mut report)?;
        ours.extend(more.map(|e| format!("from memory {e:+.1} ns a frame from 4 to 1024")));
    }
    if plan.veth() {
        let rates = over_veth(plan, watch, &mut report)?;
        if let [Some(few), .., Some(most)] = rates.as_slice() {
            ours.push(format!(
                "over veth {:+.1} ns a frame from 4 to 1024",
                1e3 / most - 1e3 / few
            ));
        }
    }
    let ours = ours.join("; ");
    report.published = vec![
        Published {
            what: "influence of more VDPs on the overall performance",
            value: "none (in words)",
            source: "004 §5",
            ours,
        },
        Published {
            what: "rate at each number of VDPs",
            value: NOT_STATED,
            source: "004 figure 5",
            ours: "the table above".to_owned(),
        },
    ];
    Ok(report)
}

/// At saturation; the cost of a frame with most VDPs beyond that with fewest, in ns.
fn from_memory(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<Option<f64>> {
    let rounds = plan.depth.of(3, 11);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(300));
    let mut benches = Vec::new();
    let mut making = Vec::new();
    for n in VDPS {
        watch.next(&format!("creating {n} VDPs"))?;
        let (bench, took) = bench(n)?;
        benches.push(bench);
        making.push(Point::of(n as f64, vec![took.as_secs_f64() * 1e3]));
    }
    let mut rates = vec![Vec::new(); VDPS.len()];
    for round in 0..=rounds {
        watch.next(&format!("round {round} of {rounds}"))?;
        for (bench, rates) in benches.iter_mut().zip(&mut rates) {
            let rate = bench.mfps_per_cpu_s(time)?;
            // The first round fills caches and finds pages.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let few = rates.first().cloned().unwrap_or_default();
    let more: Vec<Vec<f64>> = rates
        .iter()
        .map(|r| r.iter().zip(&few).map(|(r, f)| 1e3 / r - 1e3 / f).collect())
        .collect();
    let series = |y, samples: Vec<Vec<f64>>| Series {
        name: "fast path, from memory".to_owned(),
        x: X,
        y,
        points: VDPS.iter().zip(samples).map(|(n, s)| Point::of(*n as f64, s)).collect(),
    };
    let beyond = more.last().and_then(|m| {
        let what = "a frame's cost with 1024 VDPs beyond that with 4";
        Figure::median(what, m, "ns", Some(Promise { bound: Bound::AtMost, value: 20.0 }))
    });
    let extra = beyond.as_ref().map(|f| f.value);
    report.series.push(series(RATE, rates));
    report.series.push(series(COST, more));
    report.series.push(Series {
        name: "fast path, from memory".to_owned(),
        x: X,
        y: MAKING,
        points: making.clone(),
    });
    report.figures.extend(beyond);
    report.figures.extend(making.last().and_then(|p| {
        let what = "creating 1024 VDPs with 16 rules each";
        Figure::median(
            what,
            &p.samples,
            "ms",
            Some(Promise { bound: Bound::AtMost, value: 1000.0 }),
        )
    }));
    let mut accounts = Accounts::default();
    benches.iter().for_each(|b| b.account(&mut accounts));
    report.accounts = Some(accounts);
    report.condition("load from memory", format!("at saturation; {FRAMES} frames, evenly over all rules of all VDPs, without order, played over and over: the same number for every number of VDPs"));
    report.condition(
        "rounds from memory",
        format!("{rounds}, each of {} ms for each number of VDPs", time.as_millis()),
    );
    report.remark(
        "From memory the source waits, so nothing is lost; a rate counts the CPU time of the one thread that \
         does everything, the copy of each frame out of the source included. Differences are taken \
         within a round.",
    );
    Ok(extra)
}

/// The whole path over veth: million frames per CPU-second for each number of VDPs.
fn over_veth(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<Vec<Option<f64>>> {
    let rounds = plan.depth.of(1, 7);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(200));
    watch.next("making namespaces")?;
    let mut paths = vec![WholePath::new(Lab::new(Kind::Wire)?)?];
    for vdps in VDPS {
        let lab = Lab::new(Kind::Fast)?;
        let weir = Weir::with(&lab, |plane, ports| {
            let ports: Vec<_> = (1..).map(PortNo).zip(ports.iter().copied()).collect();
            (1..=u16::try_from(vdps)?).try_for_each(|vid| create(plane, vid, &ports))
        })?;
        let load = Box::new(move |bytes| streams(vdps, bytes));
        paths.push(WholePath::with(lab, Some(weir), load)?);
    }
    watch.next(&format!("{rounds} rounds over veth"))?;
    let all = whole_path::rounds(&mut paths, FRAME_BYTES, rounds, time)?;
    let points: Vec<Point> =
        VDPS.iter().zip(all).map(|(n, p)| Point { x: *n as f64, ..p }).collect();
    let rates = points.iter().map(|p| p.median).collect();
    report.series.push(Series { name: "fast path, over veth".to_owned(), x: X, y: WHOLE, points });
    report.condition("load over veth", format!("as fast as the generator sends, the same for every number of VDPs: {STREAMS} streams, evenly over all VDPs, in no order; {rounds} rounds of {} ms", time.as_millis()));
    report.remark(METHOD);
    Ok(rates)
}

/// The streams over veth, one after the other: each a rule's.
fn streams(vdps: usize, frame_bytes: usize) -> Vec<Stream> {
    let mut order: Vec<usize> = (0..STREAMS).collect();
    shuffle(&mut order);
    let stream = |(id, nth): (u16, usize)| {
        let (vdp, rule) = (nth % vdps, nth / vdps % RULES);
        stream(id, vdp as u16 + 1, rule, frame_bytes)
    };
    (0..).zip(order).map(stream).collect()
}

/// Frames for a rule of a VDP.
fn stream(id: u16, vid: u16, rule: usize, frame_bytes_on_wire: usize) -> Stream {
    let headers =
        Headers { dst_mac: host(rule), vlan: Some(VlanRepr::dot1q(vid)), ..Headers::default() };
    Stream { id, headers, frame_bytes_on_wire, entry: 0, exit: None }
}

fn bench(vdps: usize) -> Result<(Bench, Duration)> {
    let source = Replay::new("load", Arc::new(arena(vdps)?), Passes::Forever);
    let mut plane = DataPlane::new(Config::default())?;
    let ports = vec![
        (PortNo(1), plane.add_port("load", Box::new(source))?),
        (PortNo(2), plane.add_port("sink", Box::new(Null::new("sink")))?),
    ];
    let begin = Instant::now();
    for vid in 1..=vdps {
        create(&mut plane, u16::try_from(vid)?, &ports)?;
    }
    Ok((Bench::new(plane), begin.elapsed()))
}

fn host(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n as u8])
}

fn arena(vdps: usize) -> Result<Arena> {
    let mut order: Vec<usize> = (0..FRAMES).map(|i| i % (vdps * RULES)).collect();
    shuffle(&mut order);
    let mut arena = Arena::new();
    let mut bytes = vec![0; FRAME_BYTES];
    for nth in order {
        let vlan = u16::try_from(nth / RULES + 1)?;
        let stamper = Stamper::new(&stream(0, vlan, nth % RULES, FRAME_BYTES), Run(0))?;
        let len = stamper.write(0, Nanos(0), &mut bytes).unwrap_or(0);
        arena.push(bytes.get(..len).unwrap_or_default(), None, 0);
    }
    Ok(arena)
}

/// A VDP by its VLAN, with a rule for each of its hosts.
fn create(plane: &mut DataPlane, vid: u16, ports: &[(PortNo, PortId)]) -> Result<()> {
    let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
    spec.ports = ports.to_vec();
    let matcher = Match::any().with(Field::VlanVid, (VLAN_PRESENT | vid).into());
    spec.mapping = vec![MappingRule { matcher, priority: 1 }];
    spec.default = vec![Action::Drop];
    spec.action_entries = RULES;
    plane.create_vdp(spec)?;
    for n in 0..RULES {
        let MacAddr([a, b, c, d, e, f]) = host(n);
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let rule = RuleSpec {
            matcher: Match::any().with(Field::EthDst, mac.into()),
            priority: 1,
            cookie: 0,
            actions: [Action::Output(Out::Port(PortNo(2)))].into(),
        };
        plane.add_rule(Vid(vid), 0, &rule, Placement::Fast)?;
    }
    Ok(())
}
