//! Locality: which part of the accesses to a table each cache answers.
//!
//! By Che's approximation (Che, Tung, Wang, *Hierarchical Web Caching Systems*, IEEE JSAC 2002): a
//! cache under LRU holds what was asked for within a characteristic time T, the same for all that share
//! it; T is where what is held fills the cache. Tables that share a cache do so by their access rates,
//! and entries that share a line share its fate: entries are strewn over lines, as hashing does.
//!
//! Where the order of frames is known, that decides instead: a line is still held if it was asked for within
//! T, and what a window of T frames touches follows from how far a flow's frames are apart (Denning,
//! Schwartz, *Properties of the Working-Set Model*, CACM 15:3, 1972). Frames that come round and round are
//! farther apart than those that come by chance. A table that only some frames ask is asked by the same ones each time round.
//!
//! Room: arithmetic; time is counted in frames. Called by the estimator. Its judge is `simulation`.

mod beyond;
mod flow_cache;
mod memo;
pub mod simulation;

pub use beyond::{Beyond, beyond};
pub use flow_cache::flow_cache;
pub use memo::Memo;

use crate::traffic::{Class, Gap, Traffic};
use std::sync::Arc;

/// How far, as a part of all accesses, the hit rates may be from a set-associative cache's: the
/// estimator widens its interval by this. `tests/locality.rs` holds it.
pub const ERROR: f64 = 0.03;

/// A table, as caches see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint {
    /// Entries that it has room for.
    pub entries: f64,
    /// Bytes of an entry.
    pub entry_bytes: f64,
    /// Lookups for a frame.
    pub rate: f64,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Lines.
    pub lines: f64,
    /// Bytes of a line.
    pub line_bytes: f64,
    /// Lines of a set.
    pub ways: f64,
    /// The cores that have one of these caches each, among which flows are spread by their hash: each
    /// cache sees its part of the flows. 1 for a cache that all of them share.
    pub split: f64,
}

/// What frames themselves put into a cache: lines that are not asked for again until their buffer is
/// used anew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stream {
    /// Lines of a frame.
    pub lines: f64,
    /// Buffers in turn.
    pub buffers: f64,
}

impl Stream {
    /// Lines of the frames of so long a time.
    fn held(self, frames: f64) -> f64 {
        self.lines * frames.min(self.buffers)
    }
}

/// The part of the lookups in each table that a cache answers.
pub fn hits(tables: &[Footprint], traffic: &Traffic, cache: Capacity, stream: Stream) -> Vec<f64> {
    let tables = Seen::all(tables, traffic, cache);
    let held = |t: f64| stream.held(t) + tables.iter().map(|s| s.lines(t)).sum::<f64>();
    let mut found = vec![0.0; tables.len()];
    for (filling, weight) in fillings(cache.ways) {
        let t = characteristic_time(held, cache.lines * filling);
        for (f, s) in found.iter_mut().zip(&tables) {
            *f += weight * t.map_or(1.0, |t| s.hit(t));
        }
    }
    found
}

/// What others must have filled before a line leaves, as a part of the cache, and how likely that is:
/// a gamma distribution of as many ways, mean 1, by Gauss and Hermite's three points.
fn fillings(ways: f64) -> [(f64, f64); 3] {
    let off = (3.0 / ways.max(4.0)).sqrt();
    [(1.0 - off, 1.0 / 6.0), (1.0, 2.0 / 3.0), (1.0 + off, 1.0 / 6.0)]
}

/// The time at which `held`, which never falls, reaches `capacity`; nothing where it never does.
fn characteristic_time(held: impl Fn(f64) -> f64, capacity: f64) -> Option<f64> {
    const LONGEST: f64 = 1e18;
    if held(LONGEST) <= capacity {
        return None;
    }
    // The Illinois method, on logarithms: a false position that can't get stuck at one end.
    let at = |x: f64| (held(x.exp()) / capacity).max(1e-12).ln();
    let (mut a, mut b) = (-20.0f64, LONGEST.ln());
    let (mut fa, mut fb) = (at(a), at(b));
    if fa >= 0.0 {
        return Some(a.exp());
    }
    let mut last = 0i8;
    for _ in 0..60 {
        let x = if fb.is_finite() && fa.is_finite() {
            (a * fb - b * fa) / (fb - fa)
        } else {
            f64::midpoint(a, b)
        };
        let f = at(x);
        if f.abs() < 1e-4 || (b - a) < 1e-5 {
            return Some(x.exp());
        }
        if f < 0.0 {
            (a, fa) = (x, f);
            if last == -1 {
                fb /= 2.0;
            }
            last = -1;
        } else {
            (b, fb) = (x, f);
            if last == 1 {
                fa /= 2.0;
            }
            last = 1;
        }
    }
    Some(f64::midpoint(a, b).exp())
}

/// A table and who asks for what in it.
struct Seen {
    /// Entries, and those that are ever asked for: classes of like rate.
    entries: f64,
    active: Vec<Class>,
    /// How far lookups of an entry are apart, where that is known, in those of all cores.
    gaps: Option<Arc<[Gap]>>,
    /// Lookups in a frame's time.
    rate: f64,
    /// Cores among which frames are spread.
    split: f64,
    /// Entries of a line, at least one.
    per_line: f64,
    /// Lines of an entry, at least one.
    lines_each: f64,
}

impl Seen {
    fn all(tables: &[Footprint], traffic: &Traffic, cache: Capacity) -> Vec<Self> {
        let flows = traffic.classes();
        tables.iter().map(|t| Self::new(t, traffic, &flows, cache)).collect()
    }

    fn new(t: &Footprint, traffic: &Traffic, flows: &[Class], cache: Capacity) -> Self {
        let entries = t.entries.max(1.0);
        // Where flows share entries, they are not a flow's any more.
        let gaps = if traffic.flows <= entries { traffic.gaps_of(t.rate) } else { None };
        let part = |c: &Class| Class { flows: c.flows / cache.split, part: c.part * cache.split };
        let active = fold(flows.iter().map(part), entries);
        let per_line = (cache.line_bytes / t.entry_bytes).max(1.0);
        let lines_each = (t.entry_bytes / cache.line_bytes).max(1.0);
        Self { entries, active, gaps, rate: t.rate, split: cache.split, per_line, lines_each }
    }

    /// The part of the entries, weighed by how many they are and by how often they are asked for,
    /// that was not asked for within `t`.
    fn absent(&self, t: f64) -> (f64, f64) {
        if let Some(gaps) = &self.gaps {
            let window = t * self.rate * self.split;
            let (mut touched, mut asked) = (0.0, 0.0);
            for g in gaps.iter() {
                touched += g.part * g.frames.min(window);
                asked += if g.frames > window { g.part } else { 0.0 };
            }
            // Of each core's part of the flows.
            return ((1.0 - touched / self.split / self.entries).max(0.0), asked);
        }
        let (mut entries, mut asked, mut weight) = (self.entries, 0.0, 0.0);
        for c in &self.active {
            let silent = (-c.part * self.rate * t).exp();
            entries -= c.flows * (1.0 - silent);
            asked += c.flows * c.part * silent;
            weight += c.flows * c.part;
        }
        ((entries / self.entries).max(0.0), asked / weight)
    }

    /// Lines held at a characteristic time.
    fn lines(&self, t: f64) -> f64 {
        if self.rate <= 0.0 {
            return 0.0;
        }
        let (absent, _) = self.absent(t);
        let lines = self.entries / self.per_line * self.lines_each;
        lines * (1.0 - absent.powf(self.per_line))
    }

    /// The part of the lookups that are answered.
    fn hit(&self, t: f64) -> f64 {
        let (absent, asked) = self.absent(t);
        1.0 - asked * absent.powf(self.per_line - 1.0)
    }
}

/// Flows onto entries: where there are more flows than entries, the loudest have an entry each, and
/// the rest is spread over all.
fn fold(flows: impl Iterator<Item = Class>, entries: f64) -> Vec<Class> {
    let mut active: Vec<Class> = Vec::new();
    let (mut room, mut rest) = (entries, 0.0);
    for c in flows {
        let taken = c.flows.min(room);
        room -= taken;
        rest += (c.flows - taken) * c.part;
        if taken > 0.0 {
            active.push(Class { flows: taken, part: c.part });
        }
    }
    active.iter_mut().for_each(|c| c.part += rest / entries);
    active
}
