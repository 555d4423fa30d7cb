//! Micro-benchmarks that turn a machine into a profile: what each elementary operation costs here.
//!
//! Room: measures the machine that it runs on and writes what `weir-estimate` reads. No ports, no
//! rules, no counters of the hardware's. May depend on `weir-estimate` alone. Called by the binary's
//! `calibrate`.
//!
//! `machine` says what the machine says of itself; `clock` and `meter` measure, `stats` says how well;
//! `chase`, `bandwidth`, `tlb` and `levels` measure caches and memory, `residence` how long lines stay in a shared one, `sharing` what
//! tasks of one core lose; `kernel` has the benchmarks, `shape` over
//! which parameters they run, `bench` makes costs of them, `fit` coefficients; `text` writes the profile.
#![forbid(unsafe_code)]

pub mod bandwidth;
pub mod bench;
pub mod chase;
pub mod clock;
pub mod cpus;
pub mod field;
pub mod fit;
pub mod kernel;
pub mod levels;
pub mod machine;
pub mod meter;
pub mod residence;
mod session;
pub mod shape;
pub mod sharing;
pub mod stats;
pub mod text;
pub mod tlb;

pub use machine::Machine;
pub use session::{Depth, Failed, Progress};

use bench::{Again, Apart, Costs, Scene};
use levels::Levels;
use residence::Residence;
use session::Session;
use sharing::Sharing;
use std::time::{Duration, Instant};

/// What was found.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The machine.
    pub machine: Machine,
    /// How thoroughly.
    pub depth: Depth,
    /// Hz of a core while it works.
    pub clock_hz: f64,
    /// Cycles of a reading of the clock.
    pub clock_cycles: f64,
    /// Cycles of a line's way from one core to another, where there are two.
    pub crossing_cycles: Option<f64>,
    /// What tasks lose that share a core, where it can be told.
    pub sharing: Option<Sharing>,
    /// Caches and memory.
    pub levels: Levels,
    /// How long lines stay in a cache that others fill, too, where they do.
    pub residence: Option<Residence>,
    /// Operations.
    pub costs: Vec<Costs>,
    /// Figures whose interval did not get narrow: their name, and half the interval as a part of them.
    pub wide: Vec<(String, f64)>,
    /// Operations that are not among the costs, since every sample was disturbed, and at what that was found.
    pub left_out: Vec<(&'static str, String)>,
    /// Figures.
    pub figures: usize,
    /// Samples that counted, and that did not.
    pub samples: (usize, usize),
    /// How long it took.
    pub time: Duration,
}

impl Calibration {
    /// The same, where no operation was left out.
    ///
    /// # Errors
    /// [`Failed::Disturbed`], of the first that was.
    pub fn whole(self) -> Result<Self, Failed> {
        match self.left_out.first() {
            Some((_, what)) => Err(Failed::Disturbed { what: what.clone() }),
            None => Ok(self),
        }
    }
}

/// Measures this machine, on the calling thread, which is bound to one CPU from then on. `watch` is told
/// before each figure.
///
/// # Errors
/// [`Failed`].
pub fn calibrate(depth: Depth, watch: &mut dyn FnMut(&Progress)) -> Result<Calibration, Failed> {
    calibrate_with(depth, &Vec::new, watch)
}

/// As [`calibrate_with`], for these operations alone, and near alone: in some seconds.
///
/// # Errors
/// [`Failed`].
pub fn calibrate_only(
    eos: &[&str],
    more: Vec<shape::Shape>,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Calibration, Failed> {
    let all = shape::all().into_iter().chain(more);
    let mut all: Vec<shape::Shape> = all.filter(|s| eos.contains(&s.eo)).collect();
    all.iter_mut().flat_map(|s| &mut s.points).for_each(|p| p.far = false);
    run(Depth::Quick, all, &Again { make: &Vec::new, rounds: 0 }, watch)
}

/// As [`calibrate`], with operations that the caller has benchmarks for, which it makes anew for each of several
/// rounds.
///
/// # Errors
/// [`Failed`].
pub fn calibrate_with(
    depth: Depth,
    more: &dyn Fn() -> Vec<shape::Shape>,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Calibration, Failed> {
    let rounds = match depth {
        Depth::Quick => 1,
        Depth::Full => ROUNDS,
    };
    run(depth, shape::all(), &Again { make: more, rounds }, watch)
}

/// Rounds in which a caller's operations are measured.
const ROUNDS: usize = 3;

/// Measures this machine, and these operations.
fn run(
    depth: Depth,
    shapes: Vec<shape::Shape>,
    again: &Again<'_>,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Calibration, Failed> {
    let machine = Machine::here();
    let begin = Instant::now();
    let cpus = cpus::allowed();
    cpus.first().copied().into_iter().for_each(cpus::pin);
    let mut clock = meter::Here::new();
    let mut session = Session::new(depth, cpus.clone(), &mut clock, watch);
    let more =
        if again.rounds > 0 { again.rounds * bench::figures(&(again.make)(), depth) } else { 0 };
    let all = 2 + levels::figures(&machine, &session) + bench::figures(&shapes, depth) + more;
    session.expect(all);
    let mut chain: meter::Run = Box::new(|n| clock::chain(n * 1000));
    let cycles = clock::chain(1000) as f64;
    let clock_ns = session.measure("clock", &mut chain)?.ns.value / cycles;
    let mut reading: meter::Run = Box::new(|n| {
        let begin = Instant::now();
        (0..n).fold(0, |x, _| x ^ begin.elapsed().as_nanos() as u64)
    });
    let clock_cycles = session.measure("reading of the clock", &mut reading)?.cycles.value;
    let crossing = kernel::queue::crossing_ns(&cpus, Duration::from_millis(100));
    let crossing_cycles = crossing.map(|ns| ns / clock_ns);
    let sharing = cpus.first().and_then(|cpu| sharing::measure(*cpu, Duration::from_millis(100)));
    let levels = levels::levels(&machine, &mut session)?;
    let rounds = if depth == Depth::Quick { 3 } else { 7 };
    let residence = residence::measure(&levels, rounds)?;
    let scene = Scene::new(&machine, &levels, &mut session)?.with(residence.clone(), clock_ns);
    let gone = residence.as_ref().map(|r| r.line_ns / clock_ns);
    let apart = Apart { clock: clock_cycles, crossing: crossing_cycles, gone };
    let costs = bench::costs(shapes, again, &scene, apart, &mut session)?;
    let (wide, samples) = (std::mem::take(&mut session.wide), session.samples);
    let left_out = std::mem::take(&mut session.left_out);
    Ok(Calibration {
        machine,
        depth,
        clock_hz: 1e9 / clock_ns,
        clock_cycles,
        crossing_cycles,
        sharing,
        levels,
        residence,
        costs,
        wide,
        left_out,
        figures: all,
        samples,
        time: begin.elapsed(),
    })
}
