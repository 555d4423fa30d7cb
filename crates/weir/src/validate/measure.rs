//! What a frame costs a function in weir's data plane, in cycles of the clock that it ran at.
//!
//! Room: clocks and a data plane. Samples stand between two chains of known cycles, as in a
//! calibration; noise only adds, so that the lower quartile counts.

use super::{Case, FCS, Locality};
use crate::functions::{Way, playing};
use crate::study::memory::{Bench, shuffle};
use anyhow::Result;
use std::time::Duration;
use weir_calibrate::clock;

/// Frames that are played, over and over.
pub const PLAYED: usize = crate::platform::SOURCE;
/// Cycles of the chain before and after a sample.
const CHAIN: u64 = 40_000;
/// Samples of a measurement.
const SAMPLES: u32 = 12;

/// What was found.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Cycles for a frame.
    pub cycles: f64,
    /// Half the distance of the quartiles, as a part of them.
    pub spread: f64,
    /// What it asked of the data plane.
    pub way: Way,
}

/// Measures for about so many seconds.
///
/// # Errors
/// The function can't be made, or nothing moved.
pub fn measure(case: &Case, order: &[u32], seconds: f64) -> Result<Measured> {
    let p = playing(case.function, case.entries, order, case.frame as usize - FCS)?;
    let (cycles, spread) = cycles(&mut Bench::new(p.plane), p.first, seconds)?;
    Ok(Measured { cycles, spread, way: p.way })
}

/// Cycles for a frame that a data plane receives, once `first` frames are through that are others, and half the
/// distance of the quartiles as a part of them.
///
/// # Errors
/// Nothing moved.
pub fn cycles(bench: &mut Bench, first: u64, seconds: f64) -> Result<(f64, f64)> {
    let time = Duration::from_secs_f64(seconds / f64::from(SAMPLES));
    // What comes first is played, pages are found, caches filled: twice all frames at least.
    let mut warm = 0.0;
    while warm < (first as f64 + 2.0 * PLAYED as f64) / 1e6 {
        warm += bench.mfps_per_cpu_s(time)? * time.as_secs_f64();
    }
    let mut cycles = Vec::new();
    for _ in 0..SAMPLES {
        let before = clock::cycle_ns(CHAIN);
        let rate = bench.mfps_per_cpu_s(time)?;
        // A chain that was disturbed says that cycles are long, and a frame takes few of such.
        let cycle_ns = before.min(clock::cycle_ns(CHAIN));
        cycles.push(1e3 / rate / cycle_ns);
    }
    cycles.sort_by(f64::total_cmp);
    let at = |all: &[f64], part: f64| {
        all.get((all.len() as f64 * part) as usize).copied().unwrap_or(0.0)
    };
    let quarter = at(&cycles, 0.25);
    Ok((quarter, (at(&cycles, 0.75) - quarter) / 2.0 / quarter))
}

/// The entries that frames name, in an order without a pattern.
pub fn order(entries: u32, locality: Locality) -> Vec<u32> {
    let mut all: Vec<u32> = match locality {
        Locality::Uniform => (0..PLAYED as u32).map(|i| i % entries).collect(),
        Locality::Zipf(s) => {
            // As many frames of each rank as its part of all, the loudest first.
            let weight = |k: u32| f64::from(k + 1).powf(-s);
            let sum: f64 = (0..entries).map(weight).sum();
            let mut all = Vec::with_capacity(PLAYED);
            let mut due = 0.0;
            for k in 0..entries {
                due += weight(k) / sum * PLAYED as f64;
                while (all.len() as f64) < due - 0.5 {
                    all.push(k);
                }
            }
            all
        }
    };
    shuffle(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_name_entries_as_they_are_said_to() {
        let zipf = Locality::Zipf(1.1);
        for (entries, locality) in [(1024, Locality::Uniform), (1024, zipf), (131_072, zipf)] {
            let all = order(entries, locality);
            assert!(all.len().abs_diff(PLAYED) <= 1, "{}", all.len());
            assert!(all.iter().all(|e| *e < entries));
        }
        let of = |e: u32, all: &[u32]| all.iter().filter(|x| **x == e).count() as f64;
        let all = order(1024, zipf);
        assert!((of(0, &all) / of(1, &all) / 2f64.powf(1.1) - 1.0).abs() < 0.05);
    }
}
