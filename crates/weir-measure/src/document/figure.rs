//! Figures: axes with unit and scale, curves that are measured or published.
//!
//! Plain data. Filled by modules; drawn by the report.

use serde::{Deserialize, Serialize};

/// A figure: curves over common axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Names it in its document: `delay`. Figures of two documents with the same are side by side.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What was varied.
    pub x: Axis,
    /// What was measured.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
}

/// A quantity, its unit, and how its axis is divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it is: `flow entries`.
    pub label: String,
    /// Its unit, empty for a plain number.
    #[serde(default)]
    pub unit: String,
    /// How it is divided.
    #[serde(default)]
    pub scale: Scale,
    /// What 0, 1 and so on stand for, where values are no quantity; empty: for themselves. Such points are not
    /// joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal ratios; values that are not positive are not drawn, and said to be missing.
    Log,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is of, without the device's name: `barrier`.
    pub name: String,
    /// Whose numbers these are.
    #[serde(default)]
    pub origin: Origin,
    /// What [`Point::lo`] and [`Point::hi`] are, as `10th to 90th percentile`; empty without them.
    #[serde(default)]
    pub spread: String,
    /// Its points, by rising x.
    pub points: Vec<Point>,
}

/// Whose numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Measured in this run.
    #[default]
    Measured,
    /// A paper's own, from its text or tables: where it stands, as `001 §4.1`.
    Published(String),
}

impl Origin {
    /// Whether they were measured here.
    pub fn is_measured(&self) -> bool {
        *self == Self::Measured
    }
}

/// A point, in JSON `[x, y, lo, hi]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Quadruple", from = "Quadruple")]
pub struct Point {
    /// Where on the axis.
    pub x: f64,
    /// The value, a median mostly; `None` where nothing could be measured.
    pub y: Option<f64>,
    /// The lower end of its spread.
    pub lo: Option<f64>,
    /// The upper end.
    pub hi: Option<f64>,
}

type Quadruple = (f64, Option<f64>, Option<f64>, Option<f64>);

impl From<Quadruple> for Point {
    fn from((x, y, lo, hi): Quadruple) -> Self {
        Self { x, y, lo, hi }
    }
}

impl From<Point> for Quadruple {
    fn from(p: Point) -> Self {
        let finite = |v: Option<f64>| v.filter(|v| v.is_finite());
        (p.x, finite(p.y), finite(p.lo), finite(p.hi))
    }
}

impl Point {
    /// A value without spread; one that is not finite is absent.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y: Some(y).filter(|y| y.is_finite()), lo: None, hi: None }
    }

    /// A value and its spread.
    pub fn with_spread(x: f64, y: f64, lo: f64, hi: f64) -> Self {
        Self { lo: Some(lo), hi: Some(hi), ..Self::new(x, y) }
    }

    /// Where nothing could be measured.
    pub fn missing(x: f64) -> Self {
        Self { x, y: None, lo: None, hi: None }
    }
}

impl Axis {
    /// Divided in equal steps.
    pub fn linear(label: &str, unit: &str) -> Self {
        let (label, unit) = (label.to_owned(), unit.to_owned());
        Self { label, unit, scale: Scale::Linear, names: Vec::new() }
    }

    /// Of things, not of a quantity: 0 is the first of them.
    pub fn of_names(label: &str, names: Vec<String>) -> Self {
        Self { names, ..Self::linear(label, "") }
    }

    /// Divided in equal ratios.
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// `label (unit)`.
    pub fn text(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} ({})", self.label, self.unit)
        }
    }
}

impl Series {
    /// Measured here, without points yet; `spread` says what their `lo` and `hi` will be.
    pub fn measured(name: &str, spread: &str) -> Self {
        let (name, spread) = (name.to_owned(), spread.to_owned());
        Self { name, origin: Origin::Measured, spread, points: Vec::new() }
    }

    /// A paper's, from `source`.
    pub fn published(name: &str, source: &str) -> Self {
        Self { origin: Origin::Published(source.to_owned()), ..Self::measured(name, "") }
    }

    /// Adds a point.
    pub fn push(&mut self, point: Point) {
        self.points.push(point);
    }
}

impl Figure {
    /// Without curves yet.
    pub fn new(id: &str, title: &str, x: Axis, y: Axis) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), x, y, series: Vec::new() }
    }
}
