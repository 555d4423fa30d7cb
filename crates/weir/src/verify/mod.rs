//! Proof of isolation of a running data plane: what `weir net verify` asks for.
//!
//! - `gather`: from the running data plane to what is verified; - `keep`: what was proved last;
//! - `header`, `acts`: keys and actions in the verifier's words; - `frame`: a frame for a leak;
//! - `told`: the answer in people's words.
//!
//! The deciding is `weir_supervisor::verify`'s. Each frame that it finds is held against the running
//! data plane's own trace.
//!
//! Room: called by the control socket's threads, beside the worker.

pub mod acts;
mod frame;
mod gather;
pub mod header;
mod keep;
mod told;

use gather::Gathered;
pub use gather::{Ahead, Grouping};
pub use keep::Kept;
pub use told::{LeakItem, VerifiedItem};

use crate::socket::live::{Live, NotDone};
use std::time::{Duration, Instant};
use told::Shown;
use weir_dataplane::DataPlane;
use weir_dataplane::trace::Step;
use weir_supervisor::verify::{Plane, Report};

/// Leaks that are told at most.
pub const MOST_LEAKS: usize = 1000;
/// How long the slow path's part of a trace is waited for.
const SLOW_PATH: Duration = Duration::from_secs(1);

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Verifies what runs, or what would run after changes, with so many leaks told at most.
///
/// # Errors
/// The worker has ended, or its mapping changes all the time; the changes can't be.
pub fn verify(
    live: &Live,
    groups: &[Grouping],
    most: usize,
    after: Option<&Ahead>,
) -> Result<(Vec<LeakItem>, VerifiedItem), NotDone> {
    let most = most.min(MOST_LEAKS);
    let Some(after) = after else {
        return live.proof().with(live, groups, |p| {
            let (report, plane) = (p.verifier.report(most), p.verifier.plane());
            let shown = told::leaks(&p.whole.gathered, plane, &report);
            let items = shown.into_iter().map(|s| traced(live, s)).collect::<Result<_, _>>()?;
            Ok((items, ended(&p.whole.gathered, plane, &report, (p.read_us, p.decide_us))))
        });
    };
    let began = Instant::now();
    let mut whole = gather::ahead(live, groups, after)?;
    let read_us = micros(began);
    let began = Instant::now();
    let verifier = keep::decide(&mut whole);
    let (report, plane) = (verifier.report(most), verifier.plane());
    let decide_us = micros(began);
    // What is not there yet can't be asked for its trace.
    let shown = told::leaks(&whole.gathered, plane, &report);
    let items = shown.into_iter().map(|s| s.item).collect();
    Ok((items, ended(&whole.gathered, plane, &report, (read_us, decide_us))))
}

fn ended(g: &Gathered, plane: &Plane, report: &Report, took: (u64, u64)) -> VerifiedItem {
    let name = |at: &usize| plane.vdps.get(*at).map_or_else(String::new, |v| v.name.clone());
    VerifiedItem {
        isolated: report.isolated(),
        networks: plane.networks.len(),
        vdps: plane.vdps.len(),
        rules: report.rules,
        more: report.more,
        undecided: report.undecided.iter().map(name).collect(),
        notes: g.notes.clone(),
        read_us: took.0,
        decide_us: took.1,
    }
}

/// Asks the running data plane about a leak's frame.
fn traced(live: &Live, s: Shown) -> Result<LeakItem, NotDone> {
    let Shown { mut item, frame, in_port, out, vid } = s;
    let Some(frame) = frame else { return Ok(item) };
    let way = live.with(move |p: &mut DataPlane, _| p.trace(in_port, &frame).ok())?;
    let Some(way) = way else { return Ok(item) };
    let mut steps = way.steps;
    for more in way.software {
        steps.extend(more.recv_timeout(SLOW_PATH).unwrap_or_default());
    }
    let goes = |step: &Step| match (out, step) {
        (Some(out), Step::Output { port, .. }) => *port == out,
        (None, Step::Mapped { vid: v, .. }) => v.0 == vid,
        // What a program does is not in a trace.
        _ => false,
    };
    let secret = steps.iter().any(|s| matches!(s, Step::Program { .. }));
    item.traced = match steps.iter().any(goes) {
        false if secret => None,
        goes => Some(goes),
    };
    Ok(item)
}
