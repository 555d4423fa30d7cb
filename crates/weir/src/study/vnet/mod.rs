//! 003's measurements (§5.2, figures 11 to 15): a traffic generator, one forwarding element, a receiver.
//!
//! - `element`: what forwards, and the namespaces around it; - `drive`: frames at a rate, and what of them arrives;
//! - `rate`: figures 11 and 12; - `delay`: figure 13 and §4.2; - `many`: figures 14 and 15;
//! - `progress`: how far a long one is; - `published`: what the paper's text states.
//!
//! Everything is over veth: the paper's three machines are namespaces, its Gigabit links are pairs of interfaces.

mod delay;
mod drive;
mod element;
mod many;
mod progress;
mod published;
mod rate;
mod reactive;

use super::report::{Axis, Extent, Point, Report, Series};
use super::{Depth, Id, Plan, Watch};
use anyhow::Result;
use element::Element;

/// Runs one of them.
pub fn run(id: Id, plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let extent = plan.depth.of(Extent::Quick, Extent::Full);
    let mut report = Report::new(id, extent);
    match id {
        Id::VnetRate1512 => rate::run(1512, plan, watch, &mut report)?,
        Id::VnetDelay => delay::run(plan, watch, &mut report)?,
        Id::VnetNetworks => many::networks(plan, watch, &mut report)?,
        Id::VnetFlows => many::flows(plan, watch, &mut report)?,
        Id::VnetCpus => many::cpus(plan, watch, &mut report)?,
        _ => rate::run(64, plan, watch, &mut report)?,
    }
    conditions(&mut report);
    published::add(id, &mut report);
    Ok(report)
}

/// The elements that can be had here; those that can't are named in the report.
fn elements(report: &mut Report) -> Vec<Element> {
    let (here, missing): (Vec<_>, Vec<_>) =
        Element::ALL.into_iter().partition(|e| e.missing().is_none());
    for e in missing {
        let why = e.missing().unwrap_or_default();
        report.remark(&format!("{}: not measured: {why}.", e.name()));
    }
    here
}

fn conditions(report: &mut Report) {
    report.condition(
        "elements",
        "Linux's router, bridge, and router between two bridges (hybrid), without netfilter; a VDP of weir by \
         AF_XDP with a worker that rests when idle; virtual routers of a 'weir run' whose worker has a processor to itself, in each arrangement (docs/guide/routers.md); Open vSwitch with its datapath in user space",
    );
    report.remark(
        "Generator, element and receiver share the machine's cores. The kernel forwards inside the sender's own call, \
         so a sender on the same machine can't overrun it; data planes in user space have a thread of their own, which \
         needs a core. The receiver's kernel counts what arrives and drops it at the first look.",
    );
}

/// A series with its points.
fn series(name: &str, x: Axis, y: Axis, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), x, y, points }
}

/// How often each point is measured.
const fn repetitions(depth: Depth) -> usize {
    match depth {
        Depth::Quick => 1,
        Depth::Full => 3,
    }
}
