//! `nf-chains`: chains of one to four functions, each in a VDP of its own, from memory: estimated and measured.

use super::shared::shared;
use super::{asker, seconds};
use crate::functions::arena;
use crate::functions::chain::{LINKS, Link, chained, frame};
use crate::study::memory::Bench;
use crate::study::report::{Axis, Extent, Figure, Point, Report, Series, Table, number};
use crate::study::{Depth, Id, Plan, Watch};
use crate::validate::{Asker, FCS, Locality, Score, cycles, order};
use anyhow::{Result, bail};
use std::sync::Arc;
use weir_io::replay::{Null, Passes, Replay};

const X: Axis = Axis { name: "functions", unit: "" };
const Y: Axis = Axis { name: "cycles for a frame of 64 bytes", unit: "" };

/// One chain, measured and estimated.
struct Found {
    functions: Vec<&'static str>,
    connections: u32,
    frame: u32,
    measured: f64,
    estimate: f64,
    interval: (f64, f64),
}

/// Runs it.
pub fn chains(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let depth = plan.depth;
    let mut report = Report::new(Id::NfChains, depth.of(Extent::Quick, Extent::Full));
    let asker = asker(plan, watch, &mut report)?;
    let connections: &[u32] = depth.of(&[1024], &[1024, 16_384]);
    let frames: &[u32] = depth.of(&[64], &[64, 512]);
    let turns = depth.of(1, LINKS.len());
    let mut found = Vec::new();
    for n in 1..=LINKS.len() {
        for turn in 0..turns {
            let names: Vec<&str> = LINKS.iter().cycle().skip(turn).take(n).copied().collect();
            for connections in connections {
                for frame in frames {
                    watch.next(&format!("{}, {frame} bytes", names.join(" → ")))?;
                    found.push(one(&names, *connections, *frame, &asker, depth)?);
                }
            }
        }
    }
    told(&mut report, &found);
    shared(&LINKS, &asker.profile, depth, &mut report, watch)?;
    report.condition(
        "chains",
        format!(
            "{} in every order of a circle; each function in a VDP of its own, joined by wires in memory, all on \
             one worker; UDP, as many flows as connections, every connection alike",
            LINKS.join(", ")
        ),
    );
    report.condition("measurement", format!("lower quartile of 12 samples, {:.0} ms in all, each between two chains of known cycles", seconds(depth) * 1e3));
    report.condition("estimate", "the sum over the functions, each behind the pass through its VDP (vdp-rules, vdp-program), and of a link (model 'link') between any two; operations calibrated alone");
    report.remark(
        "On one worker functions take turns by bursts, so nothing is lost to changes of context; what an \
         operating system's turns cost is the table of tasks of one core.",
    );
    Ok(report)
}

fn one(names: &[&str], connections: u32, bytes: u32, asker: &Asker, depth: Depth) -> Result<Found> {
    let links: Vec<Link> =
        names.iter().map(|n| Link::new(n, connections)).collect::<Result<_>>()?;
    let len = bytes as usize - FCS;
    let order = order(connections, Locality::Uniform);
    let estimate = asker.series(&links, bytes, &order)?;
    let frames = arena(order.iter().map(|c| frame(*c, len)))?;
    let first = Replay::new("first", Arc::clone(&frames), Passes::Forever);
    let plane = chained(&links, Box::new(first), Box::new(Null::new("last")))?;
    // Each VDP receives every frame once.
    let mut bench = Bench::new(plane);
    let measured = cycles(&mut bench, 0, seconds(depth))?.0 * links.len() as f64;
    let dropped = |v: &weir_dataplane::VdpView| v.counters.dropped.total();
    let lost: u64 = bench.plane.snapshot().vdps.iter().map(dropped).sum();
    if lost > 0 {
        bail!("{}: {lost} frames are lost on the way", names.join(" → "));
    }
    Ok(Found {
        functions: links.iter().map(|l| l.function.name()).collect(),
        connections,
        frame: bytes,
        measured,
        estimate: estimate.cycles,
        interval: estimate.interval,
    })
}

fn told(report: &mut Report, found: &[Found]) {
    for (name, of) in
        [("measured", (|f: &Found| f.measured) as fn(&Found) -> f64), ("estimate", |f| f.estimate)]
    {
        let points = (1..=LINKS.len()).map(|n| {
            let those = found.iter().filter(|f| f.functions.len() == n && f.frame == 64);
            Point::of(n as f64, those.map(of).collect())
        });
        report.series.push(Series { name: name.into(), x: X, y: Y, points: points.collect() });
    }
    let head = ["chain", "connections", "frame", "measured", "estimate", "from", "to", "error %"];
    let row = |f: &Found| {
        vec![
            f.functions.join(" → "),
            f.connections.to_string(),
            f.frame.to_string(),
            number(f.measured.round()),
            number(f.estimate.round()),
            number(f.interval.0.round()),
            number(f.interval.1.round()),
            format!("{:+.0}", (f.estimate / f.measured - 1.0) * 100.0),
        ]
    };
    report.tables.push(Table {
        title: "cycles for a frame".into(),
        head: head.map(String::from).into(),
        rows: found.iter().map(row).collect(),
    });
    for n in 0..=LINKS.len() {
        let of = found.iter().filter(|f| n == 0 || f.functions.len() == n);
        let pairs: Vec<(f64, f64)> = of.map(|f| (f.measured, f.estimate)).collect();
        let Some(s) = Score::of(&pairs) else { continue };
        let which = match n {
            0 => "all chains".to_owned(),
            1 => "chains of 1 function".to_owned(),
            n => format!("chains of {n} functions"),
        };
        let mut add = |what: &str, value: f64, unit: &'static str| {
            let what = format!("{which}: {what}");
            report.figures.push(Figure::of(what, value, unit, None));
        };
        add("median absolute error", s.median * 100.0, "%");
        if n == 0 {
            add("90th percentile", s.p90 * 100.0, "%");
            add("Kendall's tau", s.tau, "");
            let within = |f: &&Found| (f.interval.0..=f.interval.1).contains(&f.measured);
            let part = found.iter().filter(within).count() as f64 / found.len() as f64;
            add("within the estimate's interval", part * 100.0, "%");
        }
    }
}
