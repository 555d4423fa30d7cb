//! Proof of isolation of a running data plane: what `weir net verify` asks for.
//!
//! - `gather`: from the running data plane to what is verified; - `header`, `acts`: keys and actions
//!   in the verifier's words; - `frame`: a frame for a leak; - `told`: the answer in people's words.
//!
//! The deciding is `weir_supervisor::verify`'s. Each frame that it finds is held against the running
//! data plane's own trace.
//!
//! Room: called by the control socket's threads, beside the worker.

pub mod acts;
mod frame;
mod gather;
pub mod header;
mod told;

pub use gather::{Ahead, Grouping};
pub use told::{LeakItem, VerifiedItem};

use crate::socket::live::{Live, NotDone};
use std::time::{Duration, Instant};
use told::Shown;
use weir_dataplane::DataPlane;
use weir_dataplane::trace::Step;
use weir_supervisor::verify::{Verifier, WORK};

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
    let began = Instant::now();
    let mut gathered = match after {
        None => gather::gather(live, groups)?,
        Some(after) => gather::ahead(live, groups, after)?,
    };
    let read_us = micros(began);
    let began = Instant::now();
    let plane = gathered.plane.clone();
    let verifier = Verifier::new(plane, WORK);
    let report = verifier.report(most.min(MOST_LEAKS));
    let decide_us = micros(began);
    let plane = verifier.plane();
    let shown = told::leaks(&gathered, plane, &report);
    let mut items = Vec::with_capacity(shown.len());
    for s in shown {
        // What is not there yet can't be asked.
        items.push(if after.is_none() { traced(live, s)? } else { s.item });
    }
    let name = |at: &usize| plane.vdps.get(*at).map_or_else(String::new, |v| v.name.clone());
    let done = VerifiedItem {
        isolated: report.isolated(),
        networks: plane.networks.len(),
        vdps: plane.vdps.len(),
        rules: report.rules,
        more: report.more,
        undecided: report.undecided.iter().map(name).collect(),
        notes: std::mem::take(&mut gathered.notes),
        read_us,
        decide_us,
    };
    Ok((items, done))
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
