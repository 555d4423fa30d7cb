//! How far translations of small pages reach: loads of one line a page, less as many lines in a row.
//!
//! Room: chases and the arithmetic that takes the reach from them. Called by `levels`, which knows what a
//! translation costs that is not at hand: here their tables stay in the nearest caches, among much data they
//! don't. A virtual machine's translations are made of its host's small pages, too: huge ones of its own
//! need not help.

use crate::chase::Track;
use crate::field::{Pages, SMALL};
use crate::fit::{Fit, Point, fit};
use crate::session::{Failed, Session};

/// What pages of 4 KiB add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tlb {
    /// Bytes that translations at hand cover.
    pub reach: f64,
    /// Cycles that a load adds whose translation is not at hand.
    pub miss_cycles: f64,
}

/// Pages whose translations are asked for: more than processors have at hand, their lines and the tables of
/// their translations well within a core's own caches.
const PAGES: [usize; 7] = [512, 1024, 1536, 2048, 3072, 4096, 8192];

/// How many figures [`reach`] takes, for progress.
pub const FIGURES: usize = 2 * PAGES.len();

/// Measures the bytes that translations at hand cover.
///
/// # Errors
/// Those of mmap(2); a machine that disturbs every sample.
pub fn reach(line: usize, session: &mut Session<'_>) -> Result<Option<f64>, Failed> {
    let mut found = Vec::new();
    for pages in PAGES {
        let strewn = Track::of_pages(pages, line)?;
        let row = Track::new(strewn.bytes(), line, Pages::Small)?;
        let mut one = |track: &Track, what: &str| -> Result<f64, Failed> {
            let what = format!("latency of {pages} lines, {what}");
            Ok(session.measure(&what, &mut track.run(1))?.cycles.value)
        };
        let beyond = one(&strewn, "one a page")? - one(&row, "in a row")?;
        found.push((strewn.lines() as f64, beyond));
    }
    Ok(fitted(&found).map(|f| f.0 * SMALL as f64))
}

/// Pages within reach, and cycles of a translation beyond it, from what loads take beyond their cache's
/// latency over numbers of pages: a translation is not at hand with probability 1 - reach / pages.
fn fitted(found: &[(f64, f64)]) -> Option<(f64, f64)> {
    const BETWEEN: [f64; 4] = [0.5, 0.6, 0.75, 1.0];
    let missing = |pages: f64, end: f64| (1.0 - end / pages).max(0.0);
    let mut best: Option<(f64, (f64, f64))> = None;
    for end in found.iter().flat_map(|f| BETWEEN.map(|b| f.0 * b)) {
        let points: Vec<Point> = found
            .iter()
            .filter(|f| missing(f.0, end) > 0.0 && f.1 > 0.0)
            .map(|f| Point { terms: vec![missing(f.0, end)], cycles: f.1, noise: 0.0 })
            .collect();
        let Some(Fit { coefficients, .. }) = fit(&points) else { continue };
        let [walk] = coefficients.as_slice() else { continue };
        let off = |f: &(f64, f64)| (f.1.max(0.0) - walk * missing(f.0, end)).powi(2);
        let off: f64 = found.iter().map(off).sum();
        if *walk >= 1.0 && best.as_ref().is_none_or(|b| off < b.0) {
            best = Some((off, (end, *walk)));
        }
    }
    best.map(|b| b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reach_and_cost_are_found() {
        let walk = |n: f64| 60.0 * (1.0 - 1536.0 / n).max(0.0);
        let found: Vec<(f64, f64)> = PAGES.iter().map(|n| (*n as f64, walk(*n as f64))).collect();
        let (pages, cycles) = fitted(&found).expect("walks");
        assert!((pages - 1536.0).abs() < 1.0 && (cycles - 60.0).abs() < 0.5, "{pages}, {cycles}");
        let none: Vec<(f64, f64)> = found.iter().map(|f| (f.0, 0.0)).collect();
        assert_eq!(fitted(&none), None);
    }
}
