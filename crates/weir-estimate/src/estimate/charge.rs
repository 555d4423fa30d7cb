//! What one operation costs on one profile: formulas made numbers.
//!
//! Room: a profile's costs. Called by `paper` and `full`.

use super::Question;
use super::expand::Done;
use crate::fault::{Fault, unknown};
use crate::formula::{Formula, Names};
use crate::profile::{Cost, Hardware, Profile};
use std::sync::Arc;

/// Cycles, and accesses beyond the nearest cache in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Charge {
    /// Cycles.
    pub cycles: f64,
    /// Accesses.
    pub accesses: f64,
}

/// What all operations of an estimate have in common.
pub(super) struct Tariff<'p> {
    pub profile: &'p Profile,
    /// Names that a mode gives another meaning.
    pub constants: &'p [(Arc<str>, f64)],
    pub frame: f64,
    pub burst: f64,
    /// The part of a frame's lines that others have taken from the last cache, beyond what they had when costs were
    /// measured.
    pub gone: f64,
}

/// Where the data is, and where the frame came in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    /// 1 where the data is not in the nearest cache, else 0.
    pub cold: f64,
    /// Whether the frame came by another socket's card.
    pub remote: bool,
}

struct Scope<'a> {
    tariff: &'a Tariff<'a>,
    cost: &'a Cost,
    arguments: &'a [(Arc<str>, f64)],
    cold: f64,
}

impl Names for Scope<'_> {
    fn value(&self, name: &str) -> Option<f64> {
        let of = |list: &[(Arc<str>, f64)]| list.iter().find(|n| *n.0 == *name).map(|n| n.1);
        let given = of(self.arguments).or_else(|| of(&self.cost.coefficients));
        if let Some(v) = given.or_else(|| of(self.tariff.constants)) {
            return Some(v);
        }
        match (name, &self.tariff.profile.hardware) {
            ("cold", _) => Some(self.cold),
            ("gone", _) => Some(self.tariff.gone),
            ("frame", _) => Some(self.tariff.frame),
            ("burst", _) => Some(self.tariff.burst),
            ("line", Hardware::Processor(p)) => Some(p.line_bytes),
            ("line" | "width", Hardware::Pipeline(p)) => Some(p.width_bytes),
            (_, Hardware::Processor(p)) => {
                p.caches.iter().find(|c| *c.name == *name).map(|c| c.latency_cycles)
            }
            _ => None,
        }
    }
}

impl<'p> Tariff<'p> {
    /// That of a profile as it is, for a question.
    pub fn new(profile: &'p Profile, question: &Question) -> Self {
        let (frame, burst) = (f64::from(question.frame), f64::from(question.burst));
        Self { profile, constants: &[], frame, burst, gone: 0.0 }
    }

    /// The cost of an operation.
    pub fn cost(&self, done: &Done<'_>) -> Result<&'p Cost, Fault> {
        self.profile.costs.get(done.eo(self.profile)).ok_or_else(|| {
            let known = self.profile.costs.keys().map(|k| &**k);
            let what = format!("cost of an operation (model {})", done.model.name);
            let text = unknown(&what, &done.op.eo, known);
            Fault::new(&self.profile.file, format!("eo: {text}"))
        })
    }

    /// What it charges in a case.
    pub fn charge(&self, done: &Done<'_>, cost: &Cost, case: Case) -> Result<Charge, Fault> {
        let scope = Scope { tariff: self, cost, arguments: &done.arguments, cold: case.cold };
        let (cycles, accesses) = match &cost.remote {
            Some((c, a)) if case.remote => (c, a),
            _ => (&cost.cycles, &cost.accesses),
        };
        let value = |key: &str, f: &Formula| -> Result<f64, Fault> {
            let at = || format!("eo.{}.{key}", done.eo(self.profile));
            let v = f
                .value(&scope)
                .map_err(|e| Fault::new(&self.profile.file, format!("{}: {e}", at())))?;
            if (0.0..1e15).contains(&v) {
                return Ok(v);
            }
            let text = format!("{}: '{f}' is {v}: expected 0 to 1e15", at());
            Err(Fault::new(&self.profile.file, text))
        };
        Ok(Charge { cycles: value("cycles", cycles)?, accesses: value("accesses", accesses)? })
    }
}
