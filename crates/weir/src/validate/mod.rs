//! Estimates held against measurements: network functions in weir's data plane from memory, and what a
//! profile, the paper's formula, counted instructions and a regression say of them.
//!
//! Room: between `functions` (what is measured), `weir-estimate` (what is asked) and whoever tells of
//! it: `weir bench functions`, the studies `nf-…`, the demo. `measure` runs, `ask` estimates, `yardstick` says
//! whether the machine is as it was calibrated, `rivals` are the other ways to
//! estimate, `score` says how good they are.

mod ask;
mod instructions;
mod measure;
mod rivals;
mod score;
mod yardstick;

pub use ask::Asker;
pub use instructions::instructions;
pub use measure::{cycles, measure, order};
pub use rivals::{by_instructions, by_regression};
pub use score::Score;
pub use yardstick::{Yardstick, is_as_calibrated};

use crate::functions::{Function, Way};
use serde::Serialize;

/// Bytes of the FCS, which no frame in memory has.
pub const FCS: usize = 4;

/// How frames name entries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// Every entry alike.
    Uniform,
    /// By Zipf's law with this exponent.
    Zipf(f64),
}

impl Locality {
    /// As `--traffic` has it.
    pub fn name(self) -> String {
        match self {
            Locality::Uniform => "uniform".into(),
            Locality::Zipf(s) => format!("zipf:{s}"),
        }
    }
}

/// What is measured, and asked about.
#[derive(Clone, Copy)]
pub struct Case {
    /// The function.
    pub function: &'static dyn Function,
    /// Entries of its table.
    pub entries: u32,
    /// Bytes of a frame, FCS included.
    pub frame: u32,
    /// How frames name entries.
    pub locality: Locality,
}

impl Case {
    /// All of a function's: its tables' sizes, frames' sizes, localities.
    pub fn all(
        function: &'static dyn Function,
        entries: &[u32],
        frames: &[u32],
        localities: &[Locality],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for entries in entries {
            for frame in frames {
                let frame = (*frame).max((function.least_frame() + FCS) as u32);
                for locality in localities {
                    all.push(Self { function, entries: *entries, frame, locality: *locality });
                }
            }
        }
        all
    }
}

/// The same case in another place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Cycles for a frame, measured.
    pub measured: f64,
    /// Ours.
    pub estimate: f64,
}

/// One case, measured and estimated.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The function.
    pub function: &'static str,
    /// Entries of its table.
    pub entries: u32,
    /// Bytes of a frame, FCS included.
    pub frame_bytes: u32,
    /// How frames named entries.
    pub traffic: String,
    /// Cycles for a frame, measured: lower quartile of the samples; of two measurements the less.
    pub measured: f64,
    /// The first measurement and the second, minutes apart, where there were two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twice: Option<(f64, f64)>,
    /// Half the distance of the quartiles, as a part of it.
    pub spread: f64,
    /// What an empty VDP took of a frame around the measurement, as a multiple of what the profile says.
    pub yardstick: Option<f64>,
    /// Ours.
    pub estimate: f64,
    /// What it is made of: each operation, and its cycles with their waits.
    pub parts: Vec<(String, f64)>,
    /// The paper's formula with this machine's clock and caches.
    pub paper: Option<f64>,
    /// Instructions of a frame, counted at the smallest table and frame.
    pub instructions: Option<f64>,
    /// Instructions times the constant that fits the other functions best.
    pub by_instructions: Option<f64>,
    /// A linear regression fitted to the other functions.
    pub by_regression: Option<f64>,
    /// Over veth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub veth: Option<Found>,
    /// Open vSwitch with the same job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovs: Option<Found>,
    /// What the regression knows of it.
    #[serde(skip)]
    pub features: Vec<f64>,
}

impl Row {
    /// The same case measured once more: noise only adds, so that the less counts.
    #[must_use]
    pub fn with(self, again: Row) -> Self {
        let twice = Some((self.measured, again.measured));
        let quieter = if again.measured < self.measured { again } else { self };
        Self { twice, ..quieter }
    }
}

/// Measures a case and asks about it; again where the machine is not as it was calibrated.
///
/// # Errors
/// The function can't be made, or not be asked about.
pub fn row(
    case: &Case,
    asker: &Asker,
    yardstick: &mut Yardstick,
    seconds: f64,
) -> anyhow::Result<Row> {
    let order = order(case.entries, case.locality);
    let len = case.frame as usize - FCS;
    let (m, yardstick) = yardstick.between(len, || measure(case, &order, seconds))?;
    let e = asker.ours(case, &m.way, &order)?;
    Ok(Row {
        function: case.function.name(),
        entries: case.entries,
        frame_bytes: case.frame,
        traffic: case.locality.name(),
        measured: m.cycles,
        twice: None,
        spread: m.spread,
        yardstick,
        estimate: e.cycles,
        parts: parts(&e),
        paper: asker.paper(case).ok(),
        instructions: None,
        by_instructions: None,
        by_regression: None,
        veth: None,
        ovs: None,
        features: features(case, &m.way, &e),
    })
}

/// An estimate's operations, those of a name together.
fn parts(e: &weir_estimate::Estimate) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for o in &e.operations {
        let cycles = o.times * (o.cycles + o.wait_cycles);
        match all.iter_mut().find(|a| a.0 == *o.eo) {
            Some(a) => a.1 += cycles,
            None => all.push((o.eo.to_string(), cycles)),
        }
    }
    all
}

/// A prediction, and what came of it.
pub struct Prediction {
    /// What was said before any frame ran.
    pub estimate: weir_estimate::Estimate,
    /// Cycles for a frame, measured.
    pub measured: f64,
}

/// Asks about a case, then measures it.
///
/// # Errors
/// Those of [`row`].
pub fn predicted(case: &Case, asker: &Asker, seconds: f64) -> anyhow::Result<Prediction> {
    let order = order(case.entries, case.locality);
    let job = case.function.job(case.entries)?;
    let way = Way::of_function(&job, case.function, case.entries, case.frame as usize - FCS);
    let estimate = asker.ours(case, &way, &order)?;
    let measured = measure(case, &order, seconds)?.cycles;
    Ok(Prediction { estimate, measured })
}

/// What a regression is told: size of the frame, of the tables, how many operations the model has, and
/// whether there is a slow path.
fn features(case: &Case, way: &Way, e: &weir_estimate::Estimate) -> Vec<f64> {
    let program = f64::from(u8::from(way.model == "vdp-program"));
    let operations: f64 = e.operations.iter().map(|o| o.times).sum();
    vec![1.0, f64::from(case.frame), f64::from(case.entries).log2(), operations, program]
}
