//! Verdicts: what follows from a measurement, in words, with the figures it rests on.
//!
//! Plain data. Given by modules; shown first by the report.

use serde::{Deserialize, Serialize};

/// A statement about the device, and whether it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Names the statement in its module: `barrier-truthful`. The statement is what one hopes for, so
    /// that an honest device's verdicts all hold.
    pub id: String,
    /// Whether it holds.
    pub outcome: Outcome,
    /// What was found, a whole sentence: `The barrier reply comes 0.9 ms before the first packet.`
    pub sentence: String,
    /// The figures it rests on.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// Whether a statement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// The measurement can't tell: too few samples, below the probes' resolution, ended early.
    Unclear,
}

impl Outcome {
    /// The word for it, as JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Unclear => "unclear",
        }
    }
}

/// A figure that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is.
    pub what: String,
    /// Its value; `None` where it could not be measured.
    pub value: Option<f64>,
    /// Its unit, empty for a plain number.
    #[serde(default)]
    pub unit: String,
}

impl Verdict {
    /// Without evidence yet.
    pub fn new(id: &str, outcome: Outcome, sentence: impl Into<String>) -> Self {
        Self { id: id.to_owned(), outcome, sentence: sentence.into(), evidence: Vec::new() }
    }

    /// With a figure that it rests on; one that is not finite is absent.
    #[must_use]
    pub fn with(mut self, what: &str, value: f64, unit: &str) -> Self {
        let value = Some(value).filter(|v| v.is_finite());
        self.evidence.push(Evidence { what: what.to_owned(), value, unit: unit.to_owned() });
        self
    }
}
