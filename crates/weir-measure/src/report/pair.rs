//! Documents side by side: those of one module together, and what of them belongs in one picture.
//!
//! Pure. Called by the page and the tables; the shapes here are what the page's script reads.

use super::number::Shown;
use crate::document::{Distribution, Document, Origin, Scale};
use serde::Serialize;

/// The documents of one module, and what each is called among them.
#[derive(Debug)]
pub struct Module<'a> {
    /// The module's id.
    pub id: &'a str,
    /// Each document and its device's label, told apart where two are of one name.
    pub documents: Vec<(String, &'a Document)>,
}

/// By module, in order of first appearance.
pub fn modules(documents: &[Document]) -> Vec<Module<'_>> {
    let mut modules: Vec<Module<'_>> = Vec::new();
    for d in documents {
        let at = modules.iter().position(|m| m.id == d.id).unwrap_or_else(|| {
            modules.push(Module { id: &d.id, documents: Vec::new() });
            modules.len() - 1
        });
        let Some(m) = modules.get_mut(at) else { continue };
        let same = m.documents.iter().filter(|(_, o)| o.dut.name == d.dut.name).count();
        let name = if d.dut.name.is_empty() { "all of them" } else { &d.dut.name };
        let label = match same {
            0 => name.to_owned(),
            n => format!("{name} (run {})", n + 1),
        };
        m.documents.push((label, d));
    }
    modules
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// Names it in its module.
    #[serde(skip)]
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: PlotAxis,
    /// The vertical axis.
    pub y: PlotAxis,
    /// The curves.
    pub series: Vec<Curve>,
}

/// An axis, in the unit that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlotAxis {
    /// What it is.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// How it is divided.
    pub scale: PlotScale,
    /// What 0, 1 and so on stand for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlotScale {
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Log,
    /// Percent; what is above it by equal ratios, so that 90, 99 and 99.9 are as far apart.
    Percentile,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Its name, with the device's where there are several.
    pub name: String,
    /// Where a published one stands.
    pub published: Option<String>,
    /// What its spread is.
    pub spread: String,
    /// Which colour: a device's, or a curve's of the only device.
    pub colour: usize,
    /// Which mark and dashes: a curve's name.
    pub mark: usize,
    /// `[x, y, lo, hi]`.
    pub points: Vec<[Option<f64>; 4]>,
}

/// Which colours and marks are given to whom.
#[derive(Debug, Default)]
struct Palette {
    names: Vec<String>,
}

impl Palette {
    fn of(&mut self, name: &str) -> usize {
        self.names.iter().position(|n| n == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

impl Module<'_> {
    /// What it asks, by its first document.
    pub fn title(&self) -> &str {
        self.documents.first().map_or("", |(_, d)| &d.title)
    }

    /// The paper's figure.
    pub fn paper(&self) -> Option<&str> {
        self.documents.iter().find_map(|(_, d)| d.paper.as_deref())
    }

    fn alone(&self) -> bool {
        self.documents.len() == 1
    }

    /// Its figures: those of one id with the same axes are one picture.
    pub fn figures(&self) -> Vec<Plot> {
        let mut plots: Vec<(Plot, Palette)> = Vec::new();
        for (device, (label, d)) in self.documents.iter().enumerate() {
            for f in &d.figures {
                let axis = |a: &crate::document::Axis| PlotAxis {
                    label: a.label.clone(),
                    unit: a.unit.clone(),
                    scale: match a.scale {
                        Scale::Linear => PlotScale::Linear,
                        Scale::Log => PlotScale::Log,
                    },
                    names: a.names.clone(),
                };
                let (x, y) = (axis(&f.x), axis(&f.y));
                let at = plots.iter().position(|(p, _)| p.id == f.id && p.x == x && p.y == y);
                let at = at.unwrap_or_else(|| {
                    let (id, title) = (f.id.clone(), f.title.clone());
                    let plot = Plot { id, title, x, y, series: Vec::new() };
                    plots.push((plot, Palette::default()));
                    plots.len() - 1
                });
                let Some((plot, marks)) = plots.get_mut(at) else { continue };
                for s in &f.series {
                    let mark = marks.of(&s.name);
                    let published = match &s.origin {
                        Origin::Measured => None,
                        Origin::Published(source) => Some(source.clone()),
                    };
                    let paper = !d.origin.is_measured();
                    let (name, colour) = match (&published, self.alone()) {
                        (Some(_), false) if paper => (format!("{label}: {}", s.name), device),
                        (None, false) => (format!("{label}: {}", s.name), device),
                        (None, true) => (s.name.clone(), mark),
                        // A paper's curves have the colours after the devices'.
                        (Some(_), _) => (s.name.clone(), self.documents.len() + mark),
                    };
                    let points = s.points.iter().map(|p| [Some(p.x), p.y, p.lo, p.hi]).collect();
                    let spread = s.spread.clone();
                    let curve = Curve { name, published, spread, colour, mark, points };
                    let again = |c: &Curve| c.published.is_some() && *c == curve;
                    if !plot.series.iter().any(again) {
                        plot.series.push(curve);
                    }
                }
            }
        }
        plots.into_iter().map(|(p, _)| p.in_readable_units()).collect()
    }

    /// Its distributions as percentile curves: those of one group and unit are one picture.
    pub fn percentile_curves(&self) -> Vec<Plot> {
        let mut plots: Vec<(Plot, Palette)> = Vec::new();
        for (device, (label, d)) in self.documents.iter().enumerate() {
            for s in d.distributions.iter().filter(|s| s.count > 0) {
                let title = if s.group.is_empty() { &s.title } else { &s.group };
                let at = plots.iter().position(|(p, _)| p.title == *title && p.y.unit == s.unit);
                let at = at.unwrap_or_else(|| {
                    let x = PlotAxis {
                        label: "percentile".to_owned(),
                        unit: "%".to_owned(),
                        scale: PlotScale::Percentile,
                        names: Vec::new(),
                    };
                    let y = PlotAxis {
                        label: title.clone(),
                        unit: s.unit.clone(),
                        scale: PlotScale::Linear,
                        names: Vec::new(),
                    };
                    let (id, title) = (s.id.clone(), title.clone());
                    let plot = Plot { id, title, x, y, series: Vec::new() };
                    plots.push((plot, Palette::default()));
                    plots.len() - 1
                });
                let Some((plot, marks)) = plots.get_mut(at) else { continue };
                let mark = marks.of(&s.title);
                let (name, colour) = if self.alone() {
                    (s.title.clone(), mark)
                } else if s.group.is_empty() || s.title == s.group {
                    (label.clone(), device)
                } else {
                    (format!("{label}: {}", s.title), device)
                };
                let points = told_apart(s).map(|(p, v)| [Some(p), Some(v), None, None]).collect();
                let (published, spread) = (None, String::new());
                plot.series.push(Curve { name, published, spread, colour, mark, points });
            }
        }
        plots.into_iter().map(|(p, _)| p.on_a_suitable_scale().in_readable_units()).collect()
    }
}

/// The percentiles that so many values tell apart: the 99.9th of a hundred is only the largest.
pub fn told_apart(d: &Distribution) -> impl Iterator<Item = (f64, f64)> + '_ {
    let last = 100.0 - 100.0 / d.count.max(1) as f64;
    d.percentiles.iter().copied().filter(move |(p, _)| *p <= last || *p == 100.0)
}

impl Plot {
    fn values(&self, at: usize) -> impl Iterator<Item = f64> + '_ {
        let points = self.series.iter().flat_map(|s| &s.points);
        points.filter_map(move |p| p.get(at).copied().flatten())
    }

    /// By ratios where all are positive and far apart.
    fn on_a_suitable_scale(mut self) -> Self {
        let (least, most) = self
            .values(1)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if least > 0.0 && most > 20.0 * least {
            self.y.scale = PlotScale::Log;
        }
        self
    }

    fn in_readable_units(mut self) -> Self {
        let (x, y) = (self.x.unit.clone(), self.y.unit.clone());
        let (x, y) = (Shown::of(&x, self.values(0)), Shown::of(&y, self.values(1)));
        let factors = [x.factor, y.factor, y.factor, y.factor];
        for p in self.series.iter_mut().flat_map(|s| &mut s.points) {
            for (v, f) in p.iter_mut().zip(factors) {
                *v = v.map(|v| v * f).filter(|v| v.is_finite());
            }
        }
        let (x, y) = (x.unit.to_owned(), y.unit.to_owned());
        (self.x.unit, self.y.unit) = (x, y);
        self
    }
}
