//! A report's series as one SVG picture, a panel for each quantity.
//!
//! Pure: text out. Lines join medians, bars reach from the lowest sample to the highest.

use super::report::{Axis, Report, Series, number};
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;

const WIDTH: u32 = 1000;
/// What of it the names of the series take.
const LEGEND: u32 = 190;
const PANEL: u32 = 420;
const MARGIN: u32 = 14;
/// What the names of the marks beside a panel take.
const BESIDE: u32 = 76;
/// What is left for what was varied.
const PLOT: i32 = (WIDTH - LEGEND - 2 * MARGIN - BESIDE) as i32;
/// About the width of a digit of an axis' names, and what shall be between two names.
const CHARACTER: f64 = 8.0;
const GAP: f64 = 8.0;
/// Most marks on the axis of what was varied.
const MOST_MARKS: usize = 10;
/// Colours that stay apart for people who see few of them (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Draws it.
///
/// # Errors
/// The library refused.
pub fn svg(report: &Report) -> Result<String> {
    titled(report.study, report)
}

/// Draws it under another title.
///
/// # Errors
/// The library refused.
pub fn titled(title: &str, report: &Report) -> Result<String> {
    let groups: Vec<_> =
        report.groups().into_iter().filter(|g| g.iter().any(|s| s.points.len() > 1)).collect();
    let mut text = String::new();
    let failed = |e: &dyn std::fmt::Display| anyhow!("the picture of {}: {e}", report.study);
    {
        let height = PANEL * groups.len().max(1) as u32;
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        for (area, group) in root.split_evenly((groups.len().max(1), 1)).iter().zip(&groups) {
            panel(area, group, title).map_err(|e| failed(&e))?;
        }
        root.present().map_err(|e| failed(&e))?;
    }
    text.push('\n');
    Ok(text)
}

/// A scale: where a value stands on an axis, linear or by ratio.
#[derive(Clone, Debug)]
struct Scale {
    from: f64,
    to: f64,
    law: Law,
    ticks: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Linear,
    Ratio,
}

impl Ranged for Scale {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |v: f64| if self.law == Law::Ratio { v.max(1e-9).ln() } else { v };
        let (a, b) = (place(self.from), place(self.to));
        let part = (place(*value) - a) / (b - a);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }
    fn key_points<H: KeyPointHint>(&self, _hint: H) -> Vec<f64> {
        self.ticks.clone()
    }
    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(v: &f64) -> String {
        number(*v)
    }
}

impl Scale {
    /// Over the values that were varied: each of them is marked where there is room for that, else round numbers.
    fn of_x(series: &[&Series]) -> Self {
        let mut xs: Vec<f64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (from, to) = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
        let law = if from > 0.0 && to / from > 8.0 { Law::Ratio } else { Law::Linear };
        let (from, to) = match law {
            Law::Ratio => (from / 1.1, to * 1.1),
            Law::Linear => (from - (to - from).max(1.0) / 50.0, to + (to - from).max(1.0) / 50.0),
        };
        let scale = Self { from, to, law, ticks: Vec::new() };
        let ticks = if xs.len() <= MOST_MARKS { xs } else { scale.round() };
        let ticks = scale.apart(ticks);
        Self { ticks, ..scale }
    }

    /// Round numbers within it, at most [`MOST_MARKS`] where that can be.
    fn round(&self) -> Vec<f64> {
        let within = |v: &f64| (self.from..=self.to).contains(v);
        if self.law == Law::Linear {
            let (step, marks) = steps(self.from, self.to, MOST_MARKS as f64 - 2.0);
            return marks.map(|i| i * step).filter(within).collect();
        }
        let decades = || self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let of = |parts: &[f64]| -> Vec<f64> {
            let all = decades().flat_map(|d| parts.iter().map(move |p| p * 10f64.powi(d)));
            all.filter(within).collect()
        };
        let few = [&[1.0, 2.0, 3.0, 5.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0]].map(of);
        few.into_iter().find(|t| t.len() <= MOST_MARKS).unwrap_or_else(|| of(&[1.0]))
    }

    /// Those whose names stand clear of the one before, as far as names of these widths tell.
    fn apart(&self, ticks: Vec<f64>) -> Vec<f64> {
        let middle = |v: f64| f64::from(self.map(&v, (0, PLOT)));
        let half = |v: f64| (number(v).chars().count() as f64 * CHARACTER + GAP) / 2.0;
        let mut kept: Vec<f64> = Vec::new();
        for t in ticks {
            if kept.last().is_none_or(|k| middle(t) - middle(*k) >= half(t) + half(*k)) {
                kept.push(t);
            }
        }
        kept
    }

    /// Over what was measured: from zero, or by ratio where values differ a hundredfold.
    fn of_y(series: &[&Series]) -> Self {
        let ends =
            || series.iter().flat_map(|s| &s.points).flat_map(|p| p.min.into_iter().chain(p.max));
        let (low, high) = ends().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return Self { from: 0.0, to: 1.0, law: Law::Linear, ticks: vec![0.0, 1.0] };
        }
        if low > 0.0 && high / low > 100.0 {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let ticks: Vec<f64> = decades.map(|d| 10f64.powi(d)).collect();
            let from = ticks.first().copied().unwrap_or(low);
            let to = ticks.last().copied().unwrap_or(high);
            return Self { from, to, law: Law::Ratio, ticks };
        }
        let (low, high) = (low.min(0.0), if high > low.min(0.0) { high } else { low + 1.0 });
        let (step, marks) = steps(low, high, 6.0);
        let ticks: Vec<f64> = marks.map(|i| i * step).collect();
        let from = ticks.first().copied().unwrap_or(low);
        let to = ticks.last().copied().unwrap_or(high);
        Self { from, to, law: Law::Linear, ticks }
    }

    /// What is said of it beside its name.
    fn told(&self) -> &'static str {
        if self.law == Law::Ratio { ", logarithmic" } else { "" }
    }
}

/// A step of 1, 2 or 5 times a power of ten, for about so many marks, and how many steps from zero each mark is: the first at
/// or below `low`, the last at or above `high`.
fn steps(low: f64, high: f64, marks: f64) -> (f64, impl Iterator<Item = f64>) {
    let raw = (high - low) / marks;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
    let step = step.unwrap_or(raw);
    let (from, to) = ((low / step).floor(), (high / step).ceil());
    (step, (0..=(to - from) as usize).map(move |i| from + i as f64))
}

fn label(a: Axis) -> String {
    if a.unit.is_empty() { a.name.to_owned() } else { format!("{} ({})", a.name, a.unit) }
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    group: &[&Series],
    title: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let told = |e: String| Box::<dyn std::error::Error + Send + Sync>::from(e);
    let Some(first) = group.first() else { return Ok(()) };
    let (xs, ys) = (Scale::of_x(group), Scale::of_y(group));
    let (x_ticks, y_ticks) = (xs.ticks.len(), ys.ticks.len());
    let y_name = if first.y.unit.is_empty() { first.y.name } else { first.y.unit };
    let (x_label, y_label) = (label(first.x) + xs.told(), y_name.to_owned() + ys.told());
    let font = ("sans-serif", 14).into_font();
    let (area, legend) = area.split_horizontally(WIDTH - LEGEND);
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{title}: {}", first.y.name), ("sans-serif", 18))
        .margin(MARGIN)
        .x_label_area_size(46)
        .y_label_area_size(BESIDE)
        .build_cartesian_2d(xs, ys)
        .map_err(|e| told(e.to_string()))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(x_ticks)
        .y_labels(y_ticks)
        .x_desc(x_label)
        .y_desc(y_label)
        .label_style(font.clone())
        .axis_desc_style(font.clone())
        .draw()
        .map_err(|e| told(e.to_string()))?;
    let (marks, mut lines) = (marks(group), Vec::new());
    for (s, (colour, opacity)) in group.iter().zip(marks) {
        let colour = colour.mix(opacity);
        let at: Vec<(f64, f64)> = s.points.iter().filter_map(|p| Some((p.x, p.median?))).collect();
        chart
            .draw_series(LineSeries::new(at.iter().copied(), colour.stroke_width(2)))
            .map_err(|e| told(e.to_string()))?;
        let bars = s.points.iter().filter_map(|p| Some([(p.x, p.min?), (p.x, p.max?)]));
        chart
            .draw_series(bars.map(|b| PathElement::new(b, colour.mix(0.5).stroke_width(1))))
            .map_err(|e| told(e.to_string()))?;
        chart
            .draw_series(at.iter().map(|p| Circle::new(*p, 3, colour.filled())))
            .map_err(|e| told(e.to_string()))?;
        lines.push((s.name.as_str(), colour));
    }
    for (i, (name, colour)) in lines.into_iter().enumerate() {
        let y = 60 + 22 * i as i32;
        legend
            .draw(&PathElement::new([(4, y), (26, y)], colour.stroke_width(3)))
            .map_err(|e| told(e.to_string()))?;
        legend
            .draw(&Text::new(name, (32, y - 6), font.clone()))
            .map_err(|e| told(e.to_string()))?;
    }
    Ok(())
}

/// A colour and an opacity for each series: percentiles of one thing share a colour, the second is
/// lighter.
fn marks(group: &[&Series]) -> Vec<(RGBColor, f64)> {
    let base = |s: &Series| s.name.rsplit_once(" p").map_or(s.name.as_str(), |n| n.0).to_owned();
    let mut bases: Vec<String> = Vec::new();
    group
        .iter()
        .map(|s| {
            let known = bases.iter().position(|b| *b == base(s));
            let at = known.unwrap_or_else(|| {
                bases.push(base(s));
                bases.len() - 1
            });
            let colour = COLOURS.iter().cycle().nth(at).copied().unwrap_or(BLACK);
            (colour, if known.is_some() { 0.4 } else { 1.0 })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::report::Point;

    fn over(xs: impl IntoIterator<Item = f64>) -> Scale {
        let points = xs.into_iter().map(|x| Point::of(x, vec![1.0])).collect();
        let axis = |name| Axis { name, unit: "" };
        Scale::of_x(&[&Series { name: "a".into(), x: axis("x"), y: axis("y"), points }])
    }

    #[test]
    fn few_values_are_marked_and_many_have_round_numbers() {
        let every = |from: u32, to: u32, by: usize| (from..=to).step_by(by).map(f64::from);
        assert_eq!(over([4.0, 16.0, 64.0, 256.0, 1024.0]).ticks, [4.0, 16.0, 64.0, 256.0, 1024.0]);
        let frames = over(every(64, 1518, 64));
        assert_eq!(
            (frames.law, &*frames.ticks),
            (Law::Ratio, &[100.0, 200.0, 300.0, 500.0, 1000.0][..])
        );
        let clocks = over(every(10, 50, 1).map(|x| x / 10.0));
        assert_eq!(clocks.law, Law::Linear);
        assert!((5..=10).contains(&clocks.ticks.len()), "{:?}", clocks.ticks);
        assert!(clocks.ticks.iter().all(|t| (t * 2.0).fract().abs() < 1e-9), "{:?}", clocks.ticks);
    }

    #[test]
    fn no_name_of_a_mark_lies_over_the_next() {
        let powers = |n: i32| (0..n).map(|i| 2f64.powi(i));
        for scale in [
            over(powers(40)),
            over((1..200).map(|i| f64::from(i) * 1e6)),
            over([64.0, 1280.0, 1518.0]),
        ] {
            assert!(scale.ticks.len() > 1 && scale.ticks.len() <= 13, "{:?}", scale.ticks);
            for pair in scale.ticks.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|t| f64::from(scale.map(&t, (0, PLOT))));
                let wide = number(pair[0]).len().min(number(pair[1]).len()) as f64 * CHARACTER;
                assert!(b - a >= wide, "{pair:?} of {:?}", scale.ticks);
            }
        }
    }
}
