//! `veth-forward`: what a frame costs over veth with AF_XDP, beside the Linux bridge.

use super::lab::{Kind, Lab};
use super::report::{Axis, Bound, Extent, Figure, Point, Promise, Report, Series};
use super::whole_path::{self, WholePath};
use super::{Id, Plan, Watch};
use anyhow::Result;
use std::time::Duration;

const SIZES: [usize; 3] = [64, 512, 1518];
const KINDS: [Kind; 6] =
    [Kind::Wire, Kind::Bridge, Kind::Fast, Kind::Shortcut, Kind::Bare, Kind::Router];
/// What frames per CPU-second are called, wherever the whole path is measured.
pub const RATE: Axis =
    Axis { name: "rate of the whole path over veth", unit: "million frames per CPU-second" };
const PROMISE: Promise = Promise { bound: Bound::AtLeast, value: 1.0 };
const OF_BARE: Promise = Promise { bound: Bound::AtLeast, value: 0.9 };
/// Frame sizes, as every study counts them.
pub const SIZE: Axis = Axis { name: "frame size", unit: "bytes, FCS included" };
/// How the whole path is measured.
pub const METHOD: &str = "Rate of the whole path: one thread sends bursts of 64 by AF_XDP from one \
    veth pair and polls weir until nothing moves; the kernel's bridge and router work inside the \
    send, in softirq. The CPU time is that thread's, softirqs on top of it included, and \
    ksoftirqd's; the generator's cost a frame, measured in the same round over a veth pair whose \
    other end drops, is subtracted. ksoftirqd also serves whatever else the machine does.";

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let rounds = plan.depth.of(1, 9);
    let time = plan.depth.of(Duration::from_millis(40), Duration::from_millis(300));
    let mut report = Report::new(Id::VethForward, plan.depth.of(Extent::Quick, Extent::Full));
    watch.next("making namespaces")?;
    let mut paths =
        KINDS.into_iter().map(|k| WholePath::new(Lab::new(k)?)).collect::<Result<Vec<_>>>()?;
    let empty = |name: &str| Series { name: name.to_owned(), x: SIZE, y: RATE, points: Vec::new() };
    let mut series: Vec<Series> = KINDS.iter().skip(1).map(|k| empty(name(*k))).collect();
    let mut generator = empty("generator alone");
    for size in SIZES {
        watch.next(&format!("{rounds} rounds with frames of {size} bytes"))?;
        let all = whole_path::rounds(&mut paths, size, rounds, time)?;
        if size == 64
            && let [bridge, weir, shortcut, bare, ..] = all.as_slice()
        {
            let ways = [
                (shortcut, bridge, "by the shortcut, over the Linux bridge's", Some(PROMISE)),
                (weir, bridge, "by the fast path, over the Linux bridge's", None),
                (weir, bare, "by the fast path, over a bare AF_XDP forwarder's", Some(OF_BARE)),
            ];
            for (point, beside, what, promised) in ways {
                let ratios: Vec<f64> =
                    point.samples.iter().zip(&beside.samples).map(|(w, b)| w / b).collect();
                let what = format!("weir's rate, {what}, frames of 64 bytes");
                report.figures.extend(Figure::median(what, &ratios, "", promised));
            }
        }
        let alone = |p: &Point| p.costs.iter().map(|c| 1e3 / c.generator_ns).collect();
        generator.points.extend(all.first().map(|p| Point::of(size as f64, alone(p))));
        for (s, point) in series.iter_mut().zip(all) {
            s.points.push(point);
        }
    }
    series.push(generator);
    report.series = series;
    report.condition("weir", "AF_XDP in copy mode, native, one umem; four VDPs by port, one rule each: new MAC addresses, out by the adjacent port");
    report.condition("shortcut", "the same ports, XDP behind the driver; one rule for all frames of a port, not for IPv4 alone: the kernel carries it out by the port's XDP program, and weir counts");
    report
        .condition("bare AF_XDP", "the same ports in one umem without a data plane: what comes in by one leaves by the adjacent one, unchanged, not looked at");
    report
        .condition("Linux bridge", "bridge-nf-call-iptables=0, a static entry for the destination");
    report.condition("Linux router", "IPv4, static routes and neighbours, rp_filter=0");
    report.condition(
        "rounds",
        format!(
            "{rounds} for each size, all in turn, {} ms each; the ratio is taken within a round",
            time.as_millis()
        ),
    );
    report.remark(METHOD);
    report.remark(
        "The shortcut is no data plane in user space: an XDP program, behind the driver, looks the \
         frame's way up in what weir has told it, writes the new addresses, counts, and hands the \
         socket buffer to the other interface. It does so for VDPs that need no more than that, and \
         whatever else they need, or a change of their rules, brings their frames back to weir.",
    );
    report.remark(
        "'Generator alone' is what was subtracted, as a rate: making a frame in user space, handing \
         it to the kernel by AF_XDP, and its end at the far side. A data plane in user space does the \
         like once more for each frame that it forwards (in copy mode the kernel allocates and fills \
         a socket buffer), after it has received it; \
         the kernel's bridge passes on the socket buffer that it has. Where the bridge's rate is \
         above the generator's, a frame costs the bridge less than it costs to make, send and drop \
         one.",
    );
    Ok(report)
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fast => "weir, fast path",
        Kind::Shortcut => "weir, shortcut",
        _ => kind.name(),
    }
}
