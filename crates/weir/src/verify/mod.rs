//! Proof of isolation of a running data plane: what `weir net verify` asks for.
//!
//! - `gather`: from the running data plane to what is verified; - `planned`: what of plans matters there;
//! - `keep`: what was proved last; - `before`: what of it changes did not make; - `notes`: what the answer leaves open;
//! - `header`, `acts`: keys and actions in the verifier's words; - `frame`: a frame for a leak;
//! - `told`: the answer in people's words.
//!
//! The deciding is `weir_supervisor::verify`'s. Each frame that it finds is held against the running
//! data plane's own trace.
//!
//! Room: called by the control socket's threads, beside the worker.

pub mod acts;
mod before;
mod frame;
mod gather;
pub mod header;
mod keep;
mod notes;
mod planned;
mod told;

use before::Before;
use gather::Gathered;
pub use gather::{Ahead, Grouping};
pub use keep::Kept;
use keep::Proved;
pub use told::{Added, LeakItem, VerifiedItem};

use crate::socket::live::{Live, NotDone};
use std::time::{Duration, Instant};
use told::{Mark, Shown};
use weir_dataplane::DataPlane;
use weir_dataplane::trace::Step;
use weir_supervisor::verify::{Leak, Plane, Report};

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
    let (report, plane) = (verifier.report(usize::MAX), verifier.plane());
    let decide_us = micros(began);
    let before = match report.isolated() {
        true => Before::default(),
        false => live.proof().with(live, groups, |p| Ok(so_far(p)))?,
    };
    let g = &whole.gathered;
    let there = |mark: Mark| before.leaks.contains(&mark);
    let there: Vec<bool> = told::marks(g, plane, &report).into_iter().map(there).collect();
    let undecided = before::undecided(&g.vdps, plane, &report);
    let left = undecided.into_iter().filter(|v| !before.leaves(after, v));
    let added = Added {
        leaks: there.iter().filter(|t| !**t).count(),
        undecided: left.map(|(_, name)| name).collect(),
    };
    // What changes make comes first.
    let mut leaks: Vec<(bool, Leak)> = there.into_iter().zip(report.leaks).collect();
    leaks.sort_by_key(|(there, _)| *there);
    let more = leaks.len().saturating_sub(most);
    leaks.truncate(most);
    let (there, leaks): (Vec<bool>, Vec<Leak>) = leaks.into_iter().unzip();
    let report = Report { leaks, more, ..report };
    // What is not there yet can't be asked for its trace.
    let shown = told::leaks(g, plane, &report).into_iter().zip(there);
    let items = shown.map(|(s, there_before)| LeakItem { there_before, ..s.item }).collect();
    let done = ended(g, plane, &report, (read_us, decide_us));
    Ok((items, VerifiedItem { added: Some(added), ..done }))
}

/// What is so as it runs.
fn so_far(p: &Proved) -> Before {
    let (report, plane, g) = (p.verifier.report(usize::MAX), p.verifier.plane(), &p.whole.gathered);
    Before {
        leaks: told::marks(g, plane, &report).into_iter().collect(),
        undecided: before::undecided(&g.vdps, plane, &report).into_iter().collect(),
    }
}

fn ended(g: &Gathered, plane: &Plane, report: &Report, took: (u64, u64)) -> VerifiedItem {
    // Where frames only end it is nobody's.
    let nobodys = plane.rest.and_then(|at| plane.vdps.get(at)).filter(|v| v.is_sink());
    let counted = |n: usize| n - usize::from(nobodys.is_some());
    let alone = nobodys.is_some_and(|v| {
        let of = plane.vdps.iter().filter(|o| o.network == v.network);
        of.count() == 1
    });
    VerifiedItem {
        isolated: report.isolated(),
        networks: if alone { counted(plane.networks.len()) } else { plane.networks.len() },
        vdps: counted(plane.vdps.len()),
        rules: report.rules,
        more: report.more,
        undecided: before::undecided(&g.vdps, plane, report).into_iter().map(|(_, n)| n).collect(),
        added: None,
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

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
