//! Each operation's cost: its benchmarks run near and far, alone and in bursts; what the loop itself
//! costs taken away; coefficients fitted.
//!
//! Room: from figures to costs. Called by `calibrate`; what it makes is written by `text`.

use crate::chase::Track;
use crate::field::{Field, Pages};
use crate::fit::{Fit, Point as Fitted, fit};
use crate::kernel::register::{Branch, branch};
use crate::kernel::{Memory, Pace, frame, nothing};
use crate::levels::Levels;
use crate::machine::Machine;
use crate::residence::Residence;
use crate::session::{Depth, Failed, Session};
use crate::shape::{Home, Own, Point, Shape};
use crate::stats::Figure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_estimate::formula::Formula;
use weir_estimate::profile::Deeper;

/// Bytes of what is near: a part of any nearest cache.
const NEAR: usize = 8 * 1024;
/// Most loads that are taken to be under way at once.
const MOST_UNDER_WAY: f64 = 64.0;
/// What lines of a frame cost more that others have taken.
pub const GONE: &str = "line_gone * gone * ceil(b / line)";
/// No cost is known better than this, as a part of it.
const LEAST_ERROR: f64 = 0.01;

/// What an operation costs here.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The operation.
    pub eo: &'static str,
    /// The formula of its cycles.
    pub cycles: String,
    /// That of its accesses.
    pub accesses: Option<String>,
    /// Coefficients, by name.
    pub coefficients: Vec<(String, f64)>,
    /// How many of its accesses a core has under way at once in a burst.
    pub parallel: Option<f64>,
    /// How that goes on where memory of its own is larger.
    pub beyond: Option<Deeper>,
    /// Half the interval, as a part of the cycles.
    pub error: f64,
    /// Whether it was measured.
    pub measured: bool,
    /// What was done.
    pub about: String,
}

/// What several operations share, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Apart {
    /// A reading of the clock.
    pub clock: f64,
    /// A line's way from one core to another, where there are two.
    pub crossing: Option<f64>,
    /// What a line of a frame costs more that others have taken from the last cache, where they do.
    pub gone: Option<f64>,
}

/// Both paces of something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Both {
    alone: Figure,
    burst: Figure,
}

/// A figure, and what all that was done for it took: less where the machine was quieter.
#[derive(Clone, Copy, Debug)]
struct Taken {
    found: Both,
    level: f64,
    /// What was done, and what is taken away from it, each where it was quietest.
    turns: Option<(Figure, Figure)>,
}

impl Taken {
    /// Noise only adds, to either: what is between the two is told best where each was quietest.
    fn of_turns(all: Figure, none: Figure) -> Self {
        let cycles = all.without(&none);
        let found = Both { alone: cycles, burst: cycles };
        Self { found, level: all.value, turns: Some((all, none)) }
    }

    fn quieter(self, other: Self) -> Self {
        match (self.turns, other.turns) {
            (Some((a, b)), Some((c, d))) => Self::of_turns(quieter(a, c), quieter(b, d)),
            _ if other.level < self.level => other,
            _ => self,
        }
    }
}

fn quieter(a: Figure, b: Figure) -> Figure {
    if b.value < a.value { b } else { a }
}

/// What a shape's points took: near, and far.
#[derive(Clone, Debug)]
struct Round {
    near: Vec<Taken>,
    far: Vec<Far>,
}

/// What a point took far away.
#[derive(Clone, Copy, Debug)]
struct Far {
    /// Which point, and which of its own memories, nearest first.
    at: (usize, usize),
    taken: Taken,
    accesses: f64,
    /// Cycles of a load there.
    load: f64,
}

/// Cycles that a point took more far away, with its accesses and the cycles of a load there.
#[derive(Clone, Copy, Debug)]
struct Wait {
    more: Both,
    accesses: f64,
    load: f64,
}

impl Round {
    /// Of each point the quieter.
    fn quieter(mut self, other: Round) -> Self {
        for (a, b) in self.near.iter_mut().zip(other.near) {
            *a = a.quieter(b);
        }
        for (a, b) in self.far.iter_mut().zip(other.far) {
            // A load is one of the round in which all that was done was quieter.
            let load = if b.taken.level < a.taken.level { b.load } else { a.load };
            *a = Far { taken: a.taken.quieter(b.taken), load, ..*a };
        }
        self
    }
}

impl Both {
    fn without(&self, other: &Both) -> Both {
        Both { alone: self.alone.without(&other.alone), burst: self.burst.without(&other.burst) }
    }
}

/// Memory to measure in, and what it costs to be there.
pub struct Scene {
    /// Bytes of a line.
    line: usize,
    near: Memory,
    /// Where frames are that a card wrote, bytes of it, and cycles of a load from there.
    shared: (Memory, usize, f64),
    /// Where tables are that are large, bytes of it, and cycles of a load from there.
    far: (Memory, usize, f64),
    /// Cycles of a load from the last cache.
    near_load: f64,
    /// Bytes that the last cache is said to hold.
    last_bytes: Option<f64>,
    /// Bytes that there is room for.
    room: f64,
    /// How long lines stay in the last cache, and how long a cycle is.
    residence: Option<Residence>,
    cycle_ns: f64,
}

/// The memories of its own that a point is measured in: in short, the nearest.
fn owned(point: &Point, depth: Depth) -> &[Own] {
    let n = if depth == Depth::Quick { 1 } else { point.own.len() };
    point.own.get(..n).unwrap_or_default()
}

/// How many figures [`costs`] takes, for progress.
pub fn figures(shapes: &[Shape], depth: Depth) -> usize {
    let of = |s: &Shape| -> usize {
        let own: usize = s.points.iter().map(|p| owned(p, depth).len()).sum();
        let far = s.points.iter().filter(|p| p.far && p.own.is_empty()).count();
        let far = far + own + s.points.len();
        let turns = s.points.iter().map(|p| p.turns).max().unwrap_or(0) as usize;
        (if turns > 0 { 2 * turns } else { 4 }) * far + own
    };
    shapes.iter().map(of).sum::<usize>() + 6
}

impl Scene {
    /// Makes the memory: what is shared lies well beyond a core's own caches, what is far well beyond
    /// that.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(
        machine: &Machine,
        levels: &Levels,
        session: &mut Session<'_>,
    ) -> Result<Self, Failed> {
        let line = machine.line_bytes() as usize;
        let own = machine.caches.iter().filter(|c| c.sharers < machine.cpus.max(2));
        let own = own.map(|c| c.bytes).fold(32.0 * 1024.0, f64::max);
        let last = levels.caches.last().map_or(own, |c| c.bytes);
        // Lines of frames that are touched: in slots they take much more room than in a row.
        let touched = (4.0 * own).min((last / 2.0).max(2.0 * own));
        let slots = touched / machine.line_bytes() * (frame::SLOT * crate::field::WORD) as f64;
        let slots = slots.min(session.largest(machine));
        let far = (4.0 * last).max(64e6).min(session.largest(machine)).min(512e6);
        let place = |bytes: f64, dense: f64, what: &str, session: &mut Session<'_>| {
            let track = Track::new(dense as usize, line, Pages::Huge)?;
            let what = format!("latency of {what}");
            let load = session.measure(&what, &mut track.run(1))?.cycles.value;
            // In the same pages, where it is the same memory: huge ones may come or not.
            if bytes <= dense {
                return Ok((track.memory(), track.bytes(), load));
            }
            drop(track);
            let field = Field::new(bytes as usize, Pages::Huge)?;
            Ok::<_, Failed>((Rc::new(RefCell::new(field)), bytes as usize, load))
        };
        let near = Rc::new(RefCell::new(Field::new(64 * 1024, Pages::Small)?));
        Ok(Self {
            line,
            near,
            shared: place(slots, touched, "frames", session)?,
            far: place(far, far, "large tables", session)?,
            near_load: levels.strewn.first().map_or(0.0, |s| s.1),
            last_bytes: machine.caches.last().map(|c| c.bytes),
            room: session.largest(machine),
            residence: None,
            cycle_ns: 1.0,
        })
    }

    /// The same, where others take lines of the last cache; a cycle is so long.
    #[must_use]
    pub fn with(self, residence: Option<Residence>, cycle_ns: f64) -> Self {
        Self { residence, cycle_ns, ..self }
    }

    /// Cycles of a load that takes so many where so many lines are gone through one after the other, where as many
    /// operations as `round` of so many cycles each lie between a line and its next time.
    fn at_pace(&self, load: f64, lines: f64, round: f64, cycles: f64) -> f64 {
        let Some(r) = &self.residence else { return load };
        let taken = weir_estimate::profile::Residence {
            load_cycles: r.load_ns / self.cycle_ns,
            taken: r.taken.clone(),
            bytes: self.last_bytes,
        };
        let seconds = |cycles: f64| cycles * self.cycle_ns / 1e9;
        let near = self.near_load.min(load);
        let bytes = lines * self.line as f64;
        taken.load_after(bytes, (near, load), seconds(lines * load), seconds(round * cycles))
    }
}

/// Places of so many words in so many bytes: a power of two.
fn places(bytes: usize, words: usize) -> u64 {
    let places = (bytes / (words.max(1) * crate::field::WORD)).max(1) as u64;
    1 << places.ilog2()
}

/// Slots of frames, of so many bytes, of which so many lines are touched each: as many lines in all as if
/// it were one of each slot.
fn slots(bytes: usize, lines: f64) -> u64 {
    let all = places(bytes, frame::SLOT) as f64;
    1 << ((all / lines.max(1.0)).max(1.0) as u64).ilog2()
}

fn paces(
    point: &Point,
    memory: &Memory,
    places: u64,
    what: &str,
    session: &mut Session<'_>,
) -> Result<Both, Failed> {
    let mut one = |pace| -> Result<Figure, Failed> {
        let how = if pace == Pace::Alone { "one by one" } else { "in bursts" };
        let what = format!("{what}, {how}");
        let all = session.measure(&what, &mut (point.make)(memory, pace, places))?;
        let mut none = match &point.less {
            Some(less) => less(memory, pace, places),
            None => nothing(memory, pace, places),
        };
        let none = session.measure(&what, &mut none)?;
        Ok(all.cycles.without(&none.cycles))
    };
    Ok(Both { alone: one(Pace::Alone)?, burst: one(Pace::Burst)? })
}

/// A figure for both paces, of what has a pace of its own; over so many places, after so many operations.
fn of_pace(
    point: &Point,
    memory: &Memory,
    (places, warm): (u64, u64),
    what: &str,
    session: &mut Session<'_>,
) -> Result<Taken, Failed> {
    if point.turns == 0 {
        let found = paces(point, memory, places, what, session)?;
        return Ok(Taken { found, level: found.burst.value, turns: None });
    }
    let mut all = (point.make)(memory, Pace::Burst, places);
    let mut none = point.less.as_ref().map(|less| less(memory, Pace::Burst, places));
    let mut found: Option<Taken> = None;
    for _ in 0..point.turns {
        all(warm);
        let a = session.measure_bursts(what, &mut all)?.cycles;
        let b = match &mut none {
            Some(none) => {
                none(warm);
                session.measure_bursts(what, none)?.cycles
            }
            None => Figure::default(),
        };
        let taken = Taken::of_turns(a, b);
        found = Some(found.map_or(taken, |f| f.quieter(taken)));
    }
    Ok(found.unwrap_or_else(|| Taken::of_turns(Figure::default(), Figure::default())))
}

/// Operations that are measured several times, far apart: of each point the quietest counts. What a machine's
/// neighbours take of its memory comes and goes for seconds, and whoever only repeats at once repeats that.
pub struct Again<'a> {
    /// Makes the shapes anew: what they have made goes with them.
    pub make: &'a dyn Fn() -> Vec<Shape>,
    /// How often.
    pub rounds: usize,
}

/// Measures every operation.
///
/// Those of which every sample is disturbed are left out, which the session tells.
///
/// # Errors
/// A benchmark that does nothing; memory that is not given.
pub fn costs(
    shapes: Vec<Shape>,
    again: &Again<'_>,
    scene: &Scene,
    apart: Apart,
    session: &mut Session<'_>,
) -> Result<Vec<Costs>, Failed> {
    let mut all = Vec::new();
    // What a benchmark has made goes with it: tables may be large.
    for shape in shapes {
        let round = round(&shape, scene, session);
        let round = session.or_left_out(shape.eo, round)?;
        all.extend(round.map(|round| assembled(&shape, round, apart)));
    }
    // What is left out in one round has the others.
    let mut kept: BTreeMap<usize, Round> = BTreeMap::new();
    for left in (0..again.rounds).rev() {
        for (i, shape) in (again.make)().into_iter().enumerate() {
            let round = round(&shape, scene, session);
            let found = session.or_left_out(shape.eo, round)?;
            let best = match (found, kept.remove(&i)) {
                (Some(now), Some(before)) => Some(now.quieter(before)),
                (now, before) => now.or(before),
            };
            let Some(best) = best else { continue };
            if left == 0 {
                all.push(assembled(&shape, best, apart));
            } else {
                kept.insert(i, best);
            }
        }
    }
    let misses = misses(session);
    all.extend(session.or_left_out("branch_miss", misses)?);
    session.left_out.retain(|(eo, _)| all.iter().all(|c| c.eo != *eo));
    Ok(all)
}

fn round(shape: &Shape, scene: &Scene, session: &mut Session<'_>) -> Result<Round, Failed> {
    let mut round = Round { near: Vec::new(), far: Vec::new() };
    for (i, point) in shape.points.iter().enumerate() {
        let what = named(shape.eo, &point.given);
        let is_frame = point.words == frame::SLOT;
        let close = if is_frame { 4 } else { places(NEAR, point.words) };
        let (memory, at) = match shape.home {
            Home::Card => {
                let hdr = value("ceil(hdr / line)", &point.given, 1.0);
                (&scene.shared.0, slots(scene.shared.1, hdr))
            }
            _ => (&scene.near, close),
        };
        let warm = point.own.first().map_or(0, |o| o.places);
        round.near.push(of_pace(point, memory, (at, warm), &what, session)?);
        let accesses = shape.accesses.map_or(0.0, |f| value(f, &point.given, 1.0));
        if point.far && point.own.is_empty() {
            let ((memory, _, load), at) = if shape.home == Home::Packet {
                (&scene.shared, slots(scene.shared.1, accesses))
            } else {
                (&scene.far, places(scene.far.1, point.words))
            };
            let taken = of_pace(point, memory, (at, 0), &format!("{what}, far"), session)?;
            round.far.push(Far { at: (i, 0), taken, accesses, load: *load });
        }
        let own = owned(point, session.depth()).iter().enumerate();
        for (nth, own) in own.filter(|(nth, own)| *nth == 0 || own.bytes <= scene.room) {
            let what = format!("{what}, far, {} places", own.places);
            let taken = of_pace(point, &scene.near, (own.places, own.places), &what, session)?;
            let track = Track::new(own.bytes as usize, scene.line, Pages::Small)?;
            let load = session.measure(&format!("{what}, a load"), &mut track.run(1))?;
            let lines = track.lines() as f64;
            let load = scene.at_pace(load.cycles.value, lines, own.places as f64, taken.level);
            round.far.push(Far { at: (i, nth), taken, accesses, load });
        }
    }
    Ok(round)
}

/// The cost that follows from what was taken.
fn assembled(shape: &Shape, round: Round, apart: Apart) -> Costs {
    let near: Vec<Both> = round.near.iter().map(|t| t.found).collect();
    let waits = [0, 1].map(|nth| -> Vec<Wait> {
        let far = round.far.iter().filter(|f| f.at.1 == nth);
        far.filter_map(|f| {
            let more = f.taken.found.without(near.get(f.at.0)?);
            Some(Wait { more, accesses: f.accesses, load: f.load })
        })
        .collect()
    });
    put_together(shape, &near, &waits, apart)
}

/// Cycles of a load where so much was waited for, and how many accesses are under way at once.
fn under_way(waits: &[Wait]) -> Option<(f64, f64)> {
    let seen: Vec<&Wait> = waits.iter().filter(|w| w.accesses > 0.0 && w.load > 0.0).collect();
    let mean = |of: &dyn Fn(&Wait) -> f64| {
        (!seen.is_empty()).then(|| seen.iter().map(|w| of(w)).sum::<f64>() / seen.len() as f64)
    };
    let at_once =
        |w: &Wait| (w.accesses * w.load / w.more.burst.value.max(0.1)).clamp(1.0, MOST_UNDER_WAY);
    Some((mean(&|w| w.load)?, mean(&at_once)?))
}

/// The cost that follows from figures: near ones at each point, waits at those that are far, and at those that are
/// farther.
fn put_together(shape: &Shape, near: &[Both], waits: &[Vec<Wait>; 2], apart: Apart) -> Costs {
    let of = |pace: fn(&Both) -> Figure| {
        let point = |(p, b): (&Point, &Both)| {
            let terms = shape.terms.iter().map(|t| {
                value(t.1, &p.given, 0.0) * shape.factor.map_or(1.0, |f| value(f, &p.given, 0.0))
            });
            let f = pace(b);
            // At a pace of its own it is a difference of two that are much larger.
            let noise = if p.turns > 0 { (f.high - f.low) / 2.0 } else { 0.0 };
            Fitted { terms: terms.collect(), cycles: f.value, noise }
        };
        let points: Vec<Fitted> = shape.points.iter().zip(near).map(point).collect();
        let noise = near.iter().map(pace).map(|f| off(&f)).fold(0.0, f64::max);
        let none = Fit { coefficients: vec![0.0; shape.terms.len()], worst: 1.0 };
        (fit(&points).unwrap_or(none), noise)
    };
    let ((alone, noise_alone), (burst, noise_burst)) = (of(|b| b.alone), of(|b| b.burst));
    let mut coefficients = Vec::new();
    let mut sum = |fit: &Fit, ending: &str| -> String {
        let mut parts = Vec::new();
        for ((name, term), c) in shape.terms.iter().zip(&fit.coefficients) {
            if *c >= 5e-4 {
                let name = format!("{name}{ending}");
                parts.push(if *term == "1" {
                    name.clone()
                } else {
                    format!("{name} * {}", braced(term))
                });
                coefficients.push((name, *c));
            }
        }
        if parts.is_empty() { "0".into() } else { parts.join(" + ") }
    };
    let (one, many) = (sum(&alone, "_alone"), sum(&burst, ""));
    let steady = shape.points.iter().all(|p| p.turns > 0);
    let mut cycles =
        if steady { many } else { format!("({one}) / burst + ({many}) * (1 - 1 / burst)") };
    if steady {
        coefficients.retain(|c| !c.0.ends_with("_alone"));
    }
    if let Some(factor) = shape.factor {
        cycles = format!("({cycles}) * ({factor})");
    }
    let mut error = (alone.worst + noise_alone).max(burst.worst + noise_burst);
    if let Some(more) = shape.more {
        cycles = format!("{cycles} + {more}");
        match more {
            "clock / burst" => coefficients.push(("clock".into(), apart.clock)),
            GONE => coefficients.push(("line_gone".into(), apart.gone.unwrap_or(0.0))),
            _ => coefficients.push(("cross".into(), apart.crossing.unwrap_or(0.0))),
        }
    }
    let mut about = shape.about.to_owned();
    if shape.more == Some("cross / n") && apart.crossing.is_none() {
        about += "; there is one CPU: no line changes cores";
    }
    let [here, there] = waits.each_ref().map(|w| under_way(w));
    let parallel = here.map(|h| h.1);
    let beyond = here.zip(there).map(|((from, _), (to, parallel))| Deeper { from, to, parallel });
    if !error.is_finite() {
        error = 1.0;
    }
    Costs {
        eo: shape.eo,
        cycles,
        accesses: shape.accesses.map(str::to_owned),
        coefficients,
        parallel,
        beyond,
        error: error.clamp(LEAST_ERROR, 1.0),
        measured: true,
        about,
    }
}

/// Half an interval as a part of the figure; of a cycle, where the figure is less.
fn off(f: &Figure) -> f64 {
    (f.high - f.low) / 2.0 / f.value.max(1.0)
}

/// A formula as a factor.
fn braced(formula: &str) -> String {
    let plain = formula.bytes().all(|b| b.is_ascii_alphanumeric());
    let call = formula.ends_with(')')
        && formula.matches('(').count() == 1
        && !formula.starts_with('(')
        && formula.split('(').next().is_some_and(|f| f.bytes().all(|b| b.is_ascii_alphanumeric()));
    if plain || call { formula.to_owned() } else { format!("({formula})") }
}

/// A formula's value at parameters, `cold` or not.
fn value(formula: &str, given: &[(&'static str, f64)], cold: f64) -> f64 {
    let names = |name: &str| match name {
        "line" => Some(64.0),
        "cold" => Some(cold),
        _ => given.iter().find(|g| g.0 == name).map(|g| g.1),
    };
    // Formulas of the table are read by a test.
    Formula::read(formula).ok().and_then(|f| f.value(&names).ok()).unwrap_or(0.0)
}

fn named(eo: &str, given: &[(&'static str, f64)]) -> String {
    let all: Vec<String> = given.iter().map(|(n, v)| format!("{n} = {v}")).collect();
    format!("{eo} ({})", all.join(", "))
}

/// What a branch costs that was guessed wrongly: a random one is guessed so every second time.
fn misses(session: &mut Session<'_>) -> Result<Costs, Failed> {
    let steady = session.measure("branch_miss, steady", &mut branch(Branch::Steady))?.cycles;
    let random = session.measure("branch_miss, random", &mut branch(Branch::Random))?.cycles;
    let penalty = random.without(&steady).times(2.0);
    Ok(Costs {
        eo: "branch_miss",
        cycles: "penalty * p".into(),
        accesses: None,
        coefficients: vec![("penalty".into(), penalty.value)],
        parallel: None,
        beyond: None,
        error: off(&penalty).clamp(LEAST_ERROR, 1.0),
        measured: true,
        about: "a branch by chance against one that always goes the same way".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape;

    fn flat(value: f64) -> Figure {
        Figure { value, low: value, high: value, kept: 20, rejected: 0 }
    }

    #[test]
    fn every_formula_of_the_table_is_one() {
        for s in shape::all() {
            let all = s.terms.iter().map(|t| t.1).chain(s.factor).chain(s.accesses);
            for f in all {
                let read = Formula::read(f).expect(f);
                for p in &s.points {
                    let names = |n: &str| match n {
                        "line" => Some(64.0),
                        "cold" => Some(1.0),
                        n => p.given.iter().find(|g| g.0 == n).map(|g| g.1),
                    };
                    read.value(&names).unwrap_or_else(|e| panic!("{}: {f}: {e}", s.eo));
                }
            }
            assert!(!s.points.is_empty(), "{}", s.eo);
        }
    }

    #[test]
    fn a_cost_is_put_together() {
        let shapes = shape::all();
        let s = shapes.iter().find(|s| s.eo == "ht_lookup").expect("it");
        // Alone 20 + 3 a word of the key + 1 a word of the entry, in bursts a quarter of it.
        let near: Vec<Both> = s
            .points
            .iter()
            .map(|p| {
                let cycles =
                    20.0 + 3.0 * value("N / 2", &p.given, 0.0) + value("HE / 8", &p.given, 0.0);
                Both { alone: flat(cycles), burst: flat(cycles / 4.0) }
            })
            .collect();
        // Loads take 100 cycles; alone 10 more, in bursts five at once.
        let wait = Both { alone: flat(110.0), burst: flat(20.0) };
        let far = Wait { more: wait, accesses: 1.0, load: 100.0 };
        let farther = Wait { more: Both { burst: flat(40.0), ..wait }, load: 400.0, ..far };
        let c = put_together(s, &near, &[vec![far], vec![farther]], Apart::default());
        assert_eq!(c.parallel, Some(5.0));
        assert_eq!(c.beyond, Some(Deeper { from: 100.0, to: 400.0, parallel: 10.0 }));
        assert!(c.error < 0.02, "{c:?}");
        let at = |burst: f64, cold: f64| {
            let names = |n: &str| match n {
                "burst" => Some(burst),
                "cold" => Some(cold),
                "line" => Some(64.0),
                "N" => Some(4.0),
                "HE" => Some(32.0),
                "p" => Some(0.5),
                n => c.coefficients.iter().find(|c| c.0 == n).map(|c| c.1),
            };
            Formula::read(&c.cycles).expect("a formula").value(&names).expect("a value")
        };
        assert!((at(1.0, 0.0) - 1.5 * 30.0).abs() < 0.1, "{}: {}", c.cycles, at(1.0, 0.0));
        // What is far is waited for; it costs no cycles of its own.
        assert!((at(1.0, 1.0) - at(1.0, 0.0)).abs() < 0.1);
        assert!((at(1e9, 0.0) - 1.5 * 7.5).abs() < 0.1);
    }

    #[test]
    fn the_quietest_of_several_rounds_counts() {
        let taken = |found: f64, level| {
            let found = Both { alone: flat(found), burst: flat(found) };
            Taken { found, level, turns: None }
        };
        let far = |taken, load| Far { at: (0, 0), taken, accesses: 1.0, load };
        let first = Round {
            near: vec![taken(5.0, 100.0), taken(6.0, 90.0)],
            far: vec![far(taken(70.0, 300.0), 140.0)],
        };
        let second = Round {
            near: vec![taken(2.0, 110.0), taken(7.0, 80.0)],
            far: vec![far(taken(50.0, 200.0), 100.0)],
        };
        let kept = second.quieter(first);
        let near: Vec<f64> = kept.near.iter().map(|t| t.found.burst.value).collect();
        assert_eq!(near, [5.0, 7.0]);
        // A load was measured in the same round.
        assert_eq!((kept.far[0].taken.found.burst.value, kept.far[0].load), (50.0, 100.0));
        // Of a difference both ends: in the first round what is taken away was disturbed, in the second all was.
        let turns = |all, none| Taken::of_turns(flat(all), flat(none));
        let kept = turns(100.0, 95.0).quieter(turns(130.0, 60.0));
        assert_eq!((kept.found.burst.value, kept.level), (40.0, 100.0));
    }

    #[test]
    fn factors_are_braced_where_they_must() {
        assert_eq!(braced("n"), "n");
        assert_eq!(braced("ceil(b / 8)"), "ceil(b / 8)");
        assert_eq!(braced("1 + p"), "(1 + p)");
        assert_eq!(braced("cold * ceil(b)"), "(cold * ceil(b))");
    }
}
