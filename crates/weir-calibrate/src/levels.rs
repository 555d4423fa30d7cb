//! What each cache and main memory answer: latency, parallelism, bandwidth, with small pages and huge.
//!
//! Room: chases and readers, and the arithmetic that takes one level's figure from a mixture. Called by
//! `calibrate`. What a cache is said to hold may be shared with other machines on the same host: how
//! much of the last one is really ours is seen in how latency grows with size.

use crate::bandwidth::reader;
use crate::chase::{CHAINS, Track};
use crate::field::{Field, Pages};
use crate::fit::{Fit, Point, fit};
use crate::machine::{Cache, Machine};
use crate::meter::Measured;
use crate::session::{Failed, Session};
use crate::tlb::{self, Tlb};
use std::cell::RefCell;
use std::rc::Rc;

/// A point of the curve: latency of loads that are spread over so many bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Bytes.
    pub bytes: f64,
    /// With huge pages.
    pub huge: Measured,
    /// With small pages.
    pub small: Measured,
}

/// What a cache answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// What the machine says of it.
    pub cache: Cache,
    /// Bytes of it that are ours: fewer than the machine says where others share it.
    pub bytes: f64,
    /// Cycles until data can be used.
    pub latency: f64,
    /// Half the interval, as a part of it.
    pub off: f64,
    /// Loads from it that a core has under way at once.
    pub outstanding: f64,
    /// Bytes that it gives a core in a cycle.
    pub bytes_per_cycle: f64,
}

/// What main memory answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Main {
    /// Nanoseconds until data can be used, translations at hand.
    pub latency_ns: f64,
    /// Half the interval, as a part of it.
    pub off: f64,
    /// Loads from it that a core has under way at once.
    pub outstanding: f64,
    /// Bytes per second that one core reads.
    pub one: f64,
    /// Bytes per second that all cores read together.
    pub all: f64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// Caches, nearest first.
    pub caches: Vec<Level>,
    /// Main memory.
    pub memory: Main,
    /// What small pages add, where it can be told.
    pub tlb: Option<Tlb>,
    /// Bytes that loads are spread over, and cycles of one that no cache of the core's own answers, in small
    /// pages.
    pub strewn: Vec<(f64, f64)>,
    /// Latency over sizes.
    pub curve: Vec<Spread>,
    /// Whether huge pages came where they were asked for.
    pub huge: bool,
}

/// How large a field must be for a cache to answer: well beyond the one before, well within itself. Of
/// one that is shared nobody knows how much is ours: no more is asked of it than twice the one before.
fn spot(near: f64, cache: &Cache) -> f64 {
    match (near <= 0.0, cache.sharers > 1) {
        (true, _) => cache.bytes / 2.0,
        (_, true) => (2.0 * near).min(cache.bytes / 2.0).max(1.5 * near),
        (_, false) => (near * cache.bytes).sqrt().max(4.0 * near).min(cache.bytes / 2.0),
    }
}

/// The latency of a level from that of a mixture: loads spread over `bytes`, of which `near` are in a
/// cache that takes `before`.
fn unmixed(mixed: f64, bytes: f64, near: f64, before: f64) -> f64 {
    let hit = (near / bytes).min(0.9);
    ((mixed - hit * before) / (1.0 - hit)).max(before)
}

/// What lies behind the last cache.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Behind {
    /// Latency of memory.
    memory: f64,
    /// Bytes that the last cache holds.
    held: f64,
    /// What translations add.
    tlb: Option<Tlb>,
}

/// What lies behind a cache that takes `last`, from latencies over sizes in small pages. A load misses
/// the cache with probability 1 - held / size, and where `reach` is known the translations at hand with
/// probability 1 - reach / size. Where the cache ends is tried for all sizes; what memory and translations
/// add is fitted.
fn behind(points: &[(f64, f64)], last: f64, reach: Option<f64>) -> Option<Behind> {
    const BETWEEN: [f64; 3] = [0.5, 0.7, 1.0];
    let missing = |size: f64, end: f64| (1.0 - end / size).max(0.0);
    let beyond = |size: f64| reach.map_or(0.0, |r| missing(size, r));
    let mut best: Option<(f64, Behind)> = None;
    for held in points.iter().flat_map(|p| BETWEEN.map(|b| p.0 * b)) {
        let over: Vec<Point> = points
            .iter()
            .filter(|p| p.1 > last)
            .map(|(size, latency)| Point {
                terms: vec![missing(*size, held), beyond(*size)],
                cycles: latency - last,
                noise: 0.0,
            })
            .collect();
        let Some(Fit { coefficients, .. }) = fit(&over) else { continue };
        let [memory, walk] = coefficients.as_slice() else { continue };
        let off = |(size, latency): &(f64, f64)| {
            ((last + memory * missing(*size, held) + walk * beyond(*size)) / latency - 1.0).powi(2)
        };
        let off: f64 = points.iter().map(off).sum();
        if *memory > 0.0 && best.as_ref().is_none_or(|b| off < b.0) {
            let tlb = reach.map(|reach| Tlb { reach, miss_cycles: *walk });
            let tlb = tlb.filter(|t| t.miss_cycles >= 1.0);
            best = Some((off, Behind { memory: last + memory, held, tlb }));
        }
    }
    best.map(|b| b.1)
}

/// How many figures [`levels`] takes, for progress.
pub fn figures(machine: &Machine, session: &Session<'_>) -> usize {
    let sizes = sizes(machine, session).len();
    2 * sizes + machine.caches.len() * (1 + CHAINS.len()) + CHAINS.len() + 2 + tlb::FIGURES
}

/// Bytes over which the curve goes.
fn sizes(machine: &Machine, session: &Session<'_>) -> Vec<f64> {
    let most = session.largest(machine);
    let mut all = Vec::new();
    let mut bytes = 16.0 * 1024.0;
    while bytes <= most {
        all.push(bytes);
        bytes *= session.step();
    }
    all
}

/// Measures it.
///
/// # Errors
/// Those of mmap(2); a machine that disturbs every sample.
pub fn levels(machine: &Machine, session: &mut Session<'_>) -> Result<Levels, Failed> {
    let line = machine.line_bytes() as usize;
    let mut curve = Vec::new();
    let mut is_huge = true;
    for bytes in sizes(machine, session) {
        let latency = |pages, session: &mut Session<'_>| -> Result<(Measured, bool), Failed> {
            let track = Track::new(bytes as usize, line, pages)?;
            let what = format!("latency over {}", size(bytes));
            Ok((session.measure(&what, &mut track.run(1))?, track.is_huge()))
        };
        let (huge, came) = latency(Pages::Huge, session)?;
        // Fields of less than a huge page may get small ones.
        is_huge &= came || bytes < 4e6;
        let (small, _) = latency(Pages::Small, session)?;
        curve.push(Spread { bytes, huge, small });
    }
    let mut caches: Vec<Level> = Vec::new();
    for cache in &machine.caches {
        let (near, before) = caches.last().map_or((0.0, 0.0), |l| (l.bytes, l.latency));
        let bytes = spot(near, cache);
        let track = Track::new(bytes as usize, line, Pages::Huge)?;
        let (latency, outstanding) = chains(&track, &format!("L{}", cache.level), session)?;
        let field = Rc::new(RefCell::new(Field::new(bytes as usize, Pages::Huge)?));
        let read = session
            .measure(&format!("bandwidth of L{}", cache.level), &mut reader(&field, line))?;
        caches.push(Level {
            cache: *cache,
            bytes: cache.bytes,
            latency: unmixed(latency.cycles.value, track.bytes() as f64, near, before),
            off: latency.cycles.half_width(),
            outstanding,
            bytes_per_cycle: cache.line_bytes / read.cycles.value.max(0.01),
        });
    }
    let own = caches.iter().rev().find(|l| l.cache.sharers < machine.cpus.max(2));
    let strewn = own.map(|own| strewn(&curve, own.bytes, own.latency)).unwrap_or_default();
    let most = curve.last().map_or(64e6, |s| s.bytes);
    let track = Track::new(most as usize, line, Pages::Huge)?;
    let (far, outstanding) = chains(&track, "memory", session)?;
    drop(track);
    let field = Rc::new(RefCell::new(Field::new(most.min(256e6) as usize, Pages::Huge)?));
    let read = session.measure("bandwidth of memory", &mut reader(&field, line))?;
    drop(field);
    let all = session.together(machine)?;
    let mut memory = Main {
        latency_ns: far.ns.value,
        off: far.ns.half_width(),
        outstanding,
        one: machine.line_bytes() / read.ns.value * 1e9,
        all: all.max(machine.line_bytes() / read.ns.value * 1e9),
    };
    let reach = tlb::reach(line, session)?;
    let mut tlb = None;
    if let Some(last) = caches.last_mut() {
        let cycle_ns = far.ns.value / far.cycles.value.max(0.01);
        let near = spot(0.0, &last.cache).min(4.0 * 1024.0 * 1024.0);
        let beyond: Vec<(f64, f64)> = curve
            .iter()
            .filter(|s| s.bytes >= near)
            .map(|s| (s.bytes, s.small.ns.value / cycle_ns))
            .collect();
        if let Some(b) = behind(&beyond, last.latency, reach) {
            memory.latency_ns = b.memory * cycle_ns;
            last.bytes = last.bytes.min(b.held);
            tlb = b.tlb;
        }
    }
    // A farther cache must be larger, or it is none to the estimator.
    let mut kept: Vec<Level> = Vec::new();
    for level in caches {
        if kept.last().is_none_or(|n| level.bytes > n.bytes && level.latency >= n.latency) {
            kept.push(level);
        }
    }
    Ok(Levels { caches: kept, memory, tlb, strewn, curve, huge: is_huge })
}

/// What loads take that are spread over so much and that no cache of the core's own answers, of which the
/// last holds `own` bytes and takes `latency`. Noise only adds, and more memory is never nearer: what was
/// measured over more bounds what is true of less.
fn strewn(curve: &[Spread], own: f64, latency: f64) -> Vec<(f64, f64)> {
    let beyond = curve.iter().filter(|s| s.bytes >= 2.0 * own);
    let mut all: Vec<(f64, f64)> =
        beyond.map(|s| (s.bytes, unmixed(s.small.cycles.value, s.bytes, own, latency))).collect();
    let mut least = f64::MAX;
    for s in all.iter_mut().rev() {
        least = least.min(s.1);
        s.1 = least;
    }
    all
}

/// Latency of a track, and how many loads a core has under way at once in it.
fn chains(track: &Track, what: &str, session: &mut Session<'_>) -> Result<(Measured, f64), Failed> {
    let mut one = None;
    let mut most = 1.0f64;
    for chains in CHAINS {
        let name = format!("{what}, {chains} loads at once");
        let each = session.measure(&name, &mut track.run(chains))?;
        let first = one.get_or_insert(each);
        most = most.max(first.ns.value / each.ns.value.max(1e-3));
    }
    let one = one.ok_or(Failed::Disturbed { what: what.to_owned() })?;
    Ok((one, most))
}

/// Bytes for people.
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 1024.0 * 1024.0 * 1024.0 => format!("{:.4} GiB", b / 1024f64.powi(3)),
        b if b >= 1024.0 * 1024.0 => format!("{:.4} MiB", b / 1024f64.powi(2)),
        b => format!("{:.0} KiB", b / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_told_from_a_mixture() {
        // An eighth of the loads is answered by the cache before.
        let mixed = 0.125 * 5.0 + 0.875 * 14.0;
        assert!((unmixed(mixed, 8.0, 1.0, 5.0) - 14.0).abs() < 1e-9);
        let cache = |bytes, sharers| Cache { level: 1, bytes, ways: 8, line_bytes: 64.0, sharers };
        assert_eq!(spot(0.0, &cache(32768.0, 1)), 16384.0);
        let two = cache(2048.0 * 1024.0, 1);
        assert_eq!(spot(48.0 * 1024.0, &two), (48.0f64 * 2048.0).sqrt() * 1024.0);
        assert_eq!(spot(two.bytes, &cache(480e6, 2)), 2.0 * two.bytes);
    }

    #[test]
    fn what_is_strewn_wide_is_never_nearer() {
        let at = |bytes: f64, cycles: f64| {
            let value = crate::stats::Figure { value: cycles, ..Default::default() };
            let small = Measured { cycles: value, ns: value };
            Spread { bytes, huge: small, small }
        };
        // Half, a quarter, an eighth of the loads take 20; one size was disturbed.
        let mixed = |part: f64, far: f64| part * 20.0 + (1.0 - part) * far;
        let curve = [
            at(1.0, 20.0),
            at(4.0, mixed(0.5, 100.0)),
            at(8.0, 900.0),
            at(16.0, mixed(0.125, 200.0)),
        ];
        let found = strewn(&curve, 2.0, 20.0);
        let want = [(4.0, 100.0), (8.0, 200.0), (16.0, 200.0)];
        assert_eq!(found.len(), want.len());
        for (f, w) in found.iter().zip(want) {
            assert!(f.0 == w.0 && (f.1 - w.1).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn what_lies_behind_is_told_apart() {
        // 64 MiB of the last cache are ours, whatever the machine says: 70 cycles, and 300 beyond.
        // Translations reach over 8 MiB, and a walk takes 100.
        let mib = |n: f64| n * 1024.0 * 1024.0;
        let miss = |s: f64, end: f64| (1.0 - mib(end) / s).max(0.0);
        let t = |s: f64| 70.0 + 230.0 * miss(s, 64.0) + 100.0 * miss(s, 8.0);
        let points: Vec<(f64, f64)> =
            (0..12).map(|i| mib(2f64.powi(i))).map(|s| (s, t(s))).collect();
        let b = behind(&points, 70.0, Some(mib(8.0))).expect("something");
        assert!((b.memory - 300.0).abs() < 1.0 && (b.held / mib(64.0) - 1.0).abs() < 1e-6, "{b:?}");
        let tlb = b.tlb.expect("walks");
        assert!((tlb.miss_cycles - 100.0).abs() < 1.0, "{b:?}");
        // Where nothing takes longer, nothing lies behind.
        assert_eq!(behind(&points[..2], 80.0, None), None);
    }
}
