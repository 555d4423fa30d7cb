//! Functions in virtual data planes, one after the other, on one core that serves them in turn: a frame passes
//! each one's VDP on its way to it and from it, and a link to the next.
//!
//! Room: arithmetic over estimates; passes and links are models like any other. `chain` has virtual
//! functions behind one switch, which cores of their own may have. Called by the binary.

use crate::chain::{MAX_FUNCTIONS, relative};
use crate::estimate::{Estimate, Question, estimate};
use crate::fault::Fault;
use crate::model::Library;
use crate::profile::Profile;

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The function, by its model's name.
    pub function: String,
    /// What is asked of it: its frame, its traffic, its settings, and by [`Question::through`] what frames
    /// pass on their way to it.
    pub question: Question,
}

/// What a frame costs all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Each function with its pass, in order.
    pub hops: Vec<Estimate>,
    /// What a link costs a frame, in cycles: there is one fewer than there are functions.
    pub link_cycles: f64,
    /// All of it, in cycles.
    pub cycles: f64,
    /// What the cycles may be. Each hop's are taken to be off the same way: they stand on the same costs.
    pub interval: (f64, f64),
    /// Millions of frames per second by one core.
    pub mpps: f64,
}

/// What a frame costs functions in series; `link` is the model of the way from one to the next.
///
/// Every function is estimated with the caches to itself: one after the other fills them with its own
/// tables, so that long chains over large tables cost more than this says.
///
/// # Errors
/// Those of [`estimate()`]; no functions, or too many.
pub fn series(
    library: &Library,
    hops: &[Hop],
    link: &str,
    profile: &Profile,
) -> Result<Series, Fault> {
    let n = hops.len();
    if !(1..=MAX_FUNCTIONS).contains(&n) {
        let text = format!("{n} functions: expected 1 to {MAX_FUNCTIONS}");
        return Err(Fault::new("chain", text));
    }
    let ask = |h: &Hop| {
        let question = Question { cores: 1, target: None, ..h.question.clone() };
        estimate(library, &h.function, profile, &question)
    };
    let done = hops.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
    let mut links = Vec::new();
    for h in hops.iter().skip(1) {
        let Question { mode, frame, burst, .. } = h.question;
        let question = Question { mode, frame, burst, ..Question::default() };
        links.push(estimate(library, link, profile, &question)?);
    }
    let all = || done.iter().chain(&links);
    let cycles: f64 = all().map(|e| e.cycles).sum();
    let off: f64 = all().map(|e| relative(e) * e.cycles).sum();
    let hz = done.first().map_or(0.0, |e| e.clock_hz);
    Ok(Series {
        link_cycles: links.first().map_or(0.0, |e| e.cycles),
        hops: done,
        cycles,
        interval: ((cycles - off).max(0.0), cycles + off),
        mpps: hz / cycles / 1e6,
    })
}
