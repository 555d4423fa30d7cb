//! Verdicts that several modules give, from what each of them counted.
//!
//! Pure.

use crate::document::{Outcome, Verdict};
use crate::module::Bench;

/// Of so many runs: from here on it is no chance, and the verdict is that it fails.
const OFTEN: f64 = 0.3;
/// Up to here it may be chance: a probe lost on its way.
const SELDOM: f64 = 0.1;

/// What is to be thought of something that happened in `share` of all runs and should in none.
pub(super) fn by_share(share: f64) -> Outcome {
    match share {
        s if s >= OFTEN => Outcome::Fails,
        s if s > SELDOM => Outcome::Unclear,
        _ => Outcome::Holds,
    }
}

/// Whether frames came as they were sent: `whole` of them did, `changed` did not.
pub(super) fn frames_unchanged(changed: u64, whole: u64) -> Verdict {
    let (outcome, s) = match (whole, changed) {
        (0, 0) => (Outcome::Unclear, "No frame came.".to_owned()),
        (_, 0) => (Outcome::Holds, "Every frame that came was as it was sent.".to_owned()),
        (_, n) => {
            let all = whole + n;
            (
                Outcome::Fails,
                format!("{n} of {all} frames came with other bytes; they count as lost."),
            )
        }
    };
    Verdict::new("frames-unchanged", outcome, s).with("changed", changed as f64, "")
}

/// Why a module ends whose entries are not all accepted: of `n` entries the switch refuses one; `parameter` says how
/// many there are.
pub(super) fn refused(n: usize, what: &str, why: &str, parameter: &str) -> String {
    format!("the switch refuses one of {n} {what} with {why}: take fewer by '--set {parameter}=N'")
}

/// What is to be said of barriers of a switch that has none, or none that works: 1.0 and 1.3 ask for one.
pub(super) fn no_barrier(bench: &Bench) -> Option<Verdict> {
    let id = "barrier-truthful";
    match &bench.barrier_fault {
        _ if bench.barriers => None,
        Some(fault) => Some(Verdict::new(id, Outcome::Fails, fault.as_str())),
        None => Some(Verdict::new(id, Outcome::Unclear, "The switch has no barrier.")),
    }
}

/// Whether a barrier's reply says that frames meet what was asked for before it.
pub(super) fn barrier_truthful(bench: &Bench, runs: u64, untrue: u64) -> Verdict {
    let id = "barrier-truthful";
    if let Some(verdict) = no_barrier(bench) {
        return verdict;
    }
    if runs == 0 {
        return Verdict::new(id, Outcome::Unclear, "Nothing was changed.");
    }
    let s = format!(
        "In {untrue} of {runs} runs a probe sent after the barrier's reply was treated by the table of before."
    );
    let outcome = by_share(untrue as f64 / runs as f64);
    Verdict::new(id, outcome, s).with("runs", runs as f64, "").with("untrue", untrue as f64, "")
}
