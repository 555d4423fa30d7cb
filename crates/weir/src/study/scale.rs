//! `vdp-scale`: what a frame costs with 4 to 1024 VDPs, from memory.
//!
//! All data planes exist at once and are measured in turn, round by round, so that what else the
//! machine does falls on all of them; differences are taken within a round.

use super::memory::{Bench, shuffle};
use super::report::{Accounts, Axis, Bound, Extent, Figure, NOT_STATED, Point, Promise, Published};
use super::report::{Report, Series};
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
use weir_measure::stats::median;
use weir_packet::{Nanos, PortId};
use weir_wire::{MacAddr, VlanRepr};

const VDPS: [usize; 5] = [4, 16, 64, 256, 1024];
const RULES: usize = 16;
/// Frames that are played over and over: one for each rule of the largest step.
const FRAMES: usize = 16 * 1024;
const FRAME_BYTES: usize = 64;
const X: Axis = Axis { name: "VDPs", unit: "" };
const RATE: Axis = Axis { name: "rate", unit: "million frames per CPU-second" };
const COST: Axis = Axis { name: "cost of a frame beyond that with 4 VDPs", unit: "ns" };
const MAKING: Axis = Axis { name: "time to create the VDPs with their rules", unit: "ms" };

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let rounds = plan.depth.of(3, 11);
    let time = plan.depth.of(Duration::from_millis(20), Duration::from_millis(300));
    let mut report = Report::new(Id::VdpScale, plan.depth.of(Extent::Quick, Extent::Full));
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
    let extra = more.last().and_then(|m| median(m));
    report.series.push(series(RATE, rates));
    report.series.push(series(COST, more));
    report.series.push(Series {
        name: "fast path, from memory".to_owned(),
        x: X,
        y: MAKING,
        points: making.clone(),
    });
    if let Some(value) = extra {
        report.figures.push(Figure {
            what: "a frame's cost with 1024 VDPs beyond that with 4".to_owned(),
            value,
            unit: "ns",
            promised: Some(Promise { bound: Bound::AtMost, value: 20.0 }),
        });
    }
    if let Some(value) = making.last().and_then(|p| p.median) {
        report.figures.push(Figure {
            what: "creating 1024 VDPs with 16 rules each".to_owned(),
            value,
            unit: "ms",
            promised: Some(Promise { bound: Bound::AtMost, value: 1000.0 }),
        });
    }
    let mut accounts = Accounts::default();
    benches.iter().for_each(|b| b.account(&mut accounts));
    report.accounts = Some(accounts);
    let ours = extra.map_or_else(String::new, |e| format!("{e:+.1} ns a frame from 4 to 1024"));
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
    report
        .condition("frames", format!("{FRAME_BYTES} bytes (FCS included), IPv4 and UDP, VLAN tag"));
    report.condition("load", format!("at saturation; {FRAMES} frames, evenly over all rules of all VDPs, without order, played over and over: the same number for every number of VDPs"));
    report.condition("VDPs", format!("by VLAN, {RULES} rules each on the destination MAC"));
    report.condition(
        "rounds",
        format!("{rounds}, each of {} ms for each number of VDPs", time.as_millis()),
    );
    report.remark(
        "The source waits, so nothing is lost; a rate counts the CPU time of the one thread that \
         does everything, the copy of each frame out of the source included. Differences are taken \
         within a round.",
    );
    Ok(report)
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
        let headers = Headers {
            dst_mac: host(nth % RULES),
            vlan: Some(VlanRepr::dot1q(vlan)),
            ..Headers::default()
        };
        let stream =
            Stream { id: 0, headers, frame_bytes_on_wire: FRAME_BYTES, entry: 0, exit: None };
        let stamper = Stamper::new(&stream, Run(0))?;
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
