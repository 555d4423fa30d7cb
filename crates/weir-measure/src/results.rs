//! The shape that a study's result is kept in, whatever it is printed or written as.
//!
//! Plain data, no serde: formats that leave the process live at the edge, so the binary owns the
//! JSON and these types stay free to change. [`SCHEMA`] is the version of what they mean; the binary
//! writes it into each file.
//!
//! A point keeps its raw samples. What is printed (a median, a percentile) is computed from them
//! when it is printed, by [`Point::summary`], so that a result can always be summarised anew.

use crate::environment::Environment;
use crate::stats::Summary;

/// The version of these types' meaning; raised whenever a reader of an older one would be misled.
pub const SCHEMA: u32 = 1;

/// The answer to one figure or table of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyResult {
    /// The study's id, as `weir study list` has it.
    pub study: String,
    /// What it answers: the paper and its figure or table.
    pub answers: String,
    /// Where and when it was measured.
    pub environment: Environment,
    /// What was held constant, by name: durations, ports, counts, with units.
    pub conditions: Vec<(String, String)>,
    /// What was measured.
    pub series: Vec<Series>,
    /// What the paper states of the same.
    pub published: Vec<Published>,
    /// What a reader must know to judge the figures, a sentence each.
    pub remarks: Vec<String>,
    /// Whether all of it was measured.
    pub extent: Extent,
}

/// How much of a study was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All, at the durations and repetitions that paper and RFC ask for.
    Full,
    /// All, at shorter durations or fewer repetitions.
    Reduced,
    /// Not all; why it ended.
    Partial(String),
}

/// A quantity and its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it is.
    pub name: String,
    /// Its unit, empty for a plain number.
    pub unit: String,
}

impl Axis {
    /// A quantity in a unit.
    pub fn new(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned() }
    }
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is of: "fast path", "Linux bridge".
    pub name: String,
    /// What was varied.
    pub x: Axis,
    /// What was measured.
    pub y: Axis,
    /// Its points, in the order in which they were measured.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where on the axis.
    pub x: f64,
    /// Every repetition's value, in order.
    pub samples: Vec<f64>,
    /// What must be known of this point: a source that was the limit, trials that were stopped.
    pub remark: Option<String>,
}

impl Point {
    /// Its samples, summarised; `None` when there is none.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.samples)
    }
}

/// A value of the paper, beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Of what.
    pub what: String,
    /// The value.
    pub value: PublishedValue,
    /// Where it stands: paper and section.
    pub source: String,
}

/// What a paper says. Only what its text or tables state; a curve that would have to be read off a
/// picture is [`PublishedValue::NotStated`].
#[derive(Clone, Debug, PartialEq)]
pub enum PublishedValue {
    /// A number or a range, in the paper's own unit.
    Stated {
        /// The lower end; the value itself if it is one.
        from: f64,
        /// The upper end; the value itself if it is one.
        to: f64,
        /// Its unit.
        unit: String,
    },
    /// It does not say.
    NotStated,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_summarised_from_its_samples() {
        let p = Point { x: 64.0, samples: vec![3.0, 1.0, 2.0], remark: None };
        assert_eq!(p.summary().map(|s| (s.median, s.count)), Some((2.0, 3)));
        assert_eq!(Point { samples: vec![], ..p }.summary(), None);
    }
}
