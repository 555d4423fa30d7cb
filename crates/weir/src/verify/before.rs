//! What of an answer was so before the changes that are looked at ahead: who only joins others does not answer for what
//! these do.
//!
//! Room: sets of names. Called by [`super::verify`].

use super::gather::{Ahead, Known};
use super::told::Mark;
use std::collections::BTreeSet;
use weir_supervisor::verify::{Plane, Report};

/// What is so as it runs.
#[derive(Debug, Default)]
pub struct Before {
    /// Leaks.
    pub leaks: BTreeSet<Mark>,
    /// VDPs that are not decided.
    pub undecided: BTreeSet<(u16, String)>,
}

/// The VDPs that a report leaves undecided, by number and name.
pub fn undecided(known: &[Known], plane: &Plane, report: &Report) -> Vec<(u16, String)> {
    let one = |at: &usize| {
        let vid = known.get(*at).map_or(0, |k| k.vid.0);
        (vid, plane.vdps.get(*at).map_or_else(String::new, |v| v.name.clone()))
    };
    report.undecided.iter().map(one).collect()
}

impl Before {
    /// Whether a VDP that is not decided was so, and is let alone: of rules that are put nobody could say what they do.
    pub fn leaves(&self, after: &Ahead, vdp: &(u16, String)) -> bool {
        self.undecided.contains(vdp) && !after.put.contains(&vdp.0)
    }
}
