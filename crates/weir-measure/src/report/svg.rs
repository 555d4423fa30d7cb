//! The documents' figures as one SVG picture: what stands in a repository beside the Markdown, where no script
//! runs.
//!
//! Pure. A panel for each figure, its legend below. Colours are devices, dashes and marks are curves, as on
//! the page; published values have hollow marks and no line.

use super::html::Html;
use super::number::with_digits;
use super::pair::{Curve, Plot, PlotAxis, PlotScale, modules};
use crate::document::Document;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
/// Of the drawing itself.
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
/// The title above, the axis below.
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;
/// Of names that stand aslant below the axis.
const NAMES: f64 = 64.0;
const ROW: f64 = 19.0;
/// Of the legend.
const COLUMNS: usize = 3;
/// As the page has them in the light.
const COLOURS: [&str; 8] =
    ["#0072b2", "#c44e00", "#00795a", "#a83f86", "#80660a", "#4a5bc4", "#8c2d2d", "#44484d"];
const DASHES: [&str; 5] = ["", "7 4", "2 3", "10 3 2 3", "5 2 1 2"];

/// Draws them; `None` where no figure has a value.
pub fn svg(documents: &[Document]) -> Option<String> {
    let modules = modules(documents);
    let plots: Vec<Plot> = modules.iter().flat_map(|m| m.figures()).filter(has_values).collect();
    if plots.is_empty() {
        return None;
    }
    let height: f64 = plots.iter().map(tall).sum();
    let mut h = Html::default();
    h.raw("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"")
        .attribute("viewBox", &format!("0 0 {WIDTH} {height}"))
        .attribute("width", &WIDTH.to_string())
        .attribute("height", &height.to_string())
        .attribute("font-family", "Helvetica, Arial, sans-serif")
        .attribute("font-size", "13")
        .raw("><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    let mut top = 0.0;
    for plot in &plots {
        h.raw("<g").attribute("transform", &format!("translate(0 {top})")).raw(">\n");
        panel(&mut h, plot);
        h.raw("</g>\n");
        top += tall(plot);
    }
    h.raw("</svg>\n");
    Some(h.into_string())
}

fn has_values(p: &Plot) -> bool {
    !drawn(p).is_empty()
}

/// Curves with something to draw.
fn drawn(p: &Plot) -> Vec<&Curve> {
    p.series.iter().filter(|s| spots(p, s).iter().any(Option::is_some)).collect()
}

/// What stands below the drawing.
fn below(p: &Plot) -> f64 {
    if p.x.names.is_empty() { BOTTOM } else { BOTTOM + NAMES }
}

fn tall(p: &Plot) -> f64 {
    TOP + HEIGHT + below(p) + drawn(p).len().div_ceil(COLUMNS) as f64 * ROW + 14.0
}

/// Points that can be drawn: x, y and the spread's ends; `None` breaks the line.
fn spots(p: &Plot, c: &Curve) -> Vec<Option<[f64; 4]>> {
    let fits = |scale: PlotScale, v: f64| v.is_finite() && (scale != PlotScale::Log || v > 0.0);
    let one = |q: &[Option<f64>; 4]| {
        let (x, y) = (q[0]?, q[1]?);
        let end = |v: Option<f64>| v.filter(|v| fits(p.y.scale, *v)).unwrap_or(y);
        (fits(p.x.scale, x) && fits(p.y.scale, y)).then(|| [x, y, end(q[2]), end(q[3])])
    };
    c.points.iter().map(one).collect()
}

/// Where values stand on an axis.
struct Ruler {
    scale: PlotScale,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    fn over(axis: &PlotAxis, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        match axis.scale {
            PlotScale::Log => Self::by_ratios(low, high),
            PlotScale::Linear | PlotScale::Percentile => Self::by_steps(low, high),
        }
    }

    /// Marks at 1, 2, 5 of each power of ten, or at the powers where these are many.
    fn by_ratios(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let steps: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (first..=last).flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
        let all: Vec<f64> = all.collect();
        let from = all.iter().copied().filter(|t| *t <= low * 1.0001).fold(low / 1.2, f64::max);
        let to = all.iter().copied().filter(|t| *t >= high * 0.9999).fold(high * 1.2, f64::min);
        let (from, to) = if to > from { (from, to) } else { (low / 2.0, high * 2.0) };
        let inside = |t: &f64| (from * 0.9999..=to * 1.0001).contains(t);
        Self { scale: PlotScale::Log, from, to, ticks: all.into_iter().filter(inside).collect() }
    }

    /// From zero, where values are not negative, by steps of 1, 2 or 5 times a power of ten.
    fn by_steps(low: f64, high: f64) -> Self {
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        let raw = (high - low) / 6.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        Self { scale: PlotScale::Linear, from: first as f64 * step, to: last as f64 * step, ticks }
    }

    /// From 0 to 1.
    fn place(&self, v: f64) -> f64 {
        match self.scale {
            PlotScale::Log => (v / self.from).ln() / (self.to / self.from).ln(),
            _ => (v - self.from) / (self.to - self.from),
        }
    }
}

fn panel(h: &mut Html, p: &Plot) {
    let curves = drawn(p);
    let all: Vec<[f64; 4]> = curves.iter().flat_map(|c| spots(p, c)).flatten().collect();
    let x = if p.x.names.is_empty() {
        Ruler::over(&p.x, all.iter().map(|s| s[0]))
    } else {
        let ticks: Vec<f64> = (0..p.x.names.len()).map(|n| n as f64).collect();
        Ruler { scale: PlotScale::Linear, from: -0.5, to: ticks.len() as f64 - 0.5, ticks }
    };
    let y = Ruler::over(&p.y, all.iter().flat_map(|s| [s[1], s[2], s[3]]));
    let wide = WIDTH - LEFT - RIGHT;
    let at = |v: f64| LEFT + x.place(v) * wide;
    let up = |v: f64| TOP + HEIGHT - y.place(v) * HEIGHT;
    text(h, (LEFT, 26.0), "start", Some("16"), &p.title);
    let mut grid = String::new();
    for t in &x.ticks {
        let (px, end) = (at(*t), TOP + HEIGHT);
        let _ = write!(grid, "M{px:.1} {TOP}V{end}");
        match p.x.names.get(*t as usize) {
            Some(name) => {
                let turned = format!("rotate(-35 {px:.1} {:.1})", end + 16.0);
                h.raw("<g").attribute("transform", &turned).raw(">");
                text(h, (px, end + 16.0), "end", Some("12"), name);
                h.raw("</g>");
            }
            None => text(h, (px, end + 18.0), "middle", None, &with_digits(*t, 3)),
        }
    }
    for t in &y.ticks {
        let py = up(*t);
        let _ = write!(grid, "M{LEFT} {py:.1}h{wide}");
        text(h, (LEFT - 8.0, py + 4.0), "end", None, &with_digits(*t, 3));
    }
    path(h, &grid, "#dfe2e6", "1", "");
    path(h, &format!("M{LEFT} {TOP}v{HEIGHT}h{wide}"), "#44484d", "1", "");
    text(h, (LEFT + wide / 2.0, TOP + HEIGHT + below(p) - 14.0), "middle", None, &name(&p.x));
    h.raw("<text transform=\"rotate(-90)\" text-anchor=\"middle\"")
        .attribute("x", &(-(TOP + HEIGHT / 2.0)).to_string())
        .raw(" y=\"18\">")
        .text(&name(&p.y))
        .raw("</text>\n");
    for (n, c) in curves.iter().enumerate() {
        let colour = of(&COLOURS, c.colour);
        let dashes = of(&DASHES, c.mark);
        let (mut line, mut spread, mut fresh) = (String::new(), String::new(), true);
        // Curves of things stand beside each other.
        let beside = match p.x.names.is_empty() {
            true => 0.0,
            false => (n as f64 - (curves.len() as f64 - 1.0) / 2.0) * 7.0,
        };
        let at = |v: f64| at(v) + beside;
        for spot in spots(p, c) {
            let Some([vx, vy, lo, hi]) = spot else {
                fresh = true;
                continue;
            };
            let _ = write!(line, "{}{:.1} {:.1}", if fresh { 'M' } else { 'L' }, at(vx), up(vy));
            fresh = false;
            if hi > lo {
                let _ = write!(spread, "M{:.1} {:.1}V{:.1}", at(vx), up(lo), up(hi));
            }
            mark(h, (at(vx), up(vy)), colour, c.published.is_some());
        }
        let joined = c.published.is_none() && p.x.names.is_empty();
        if joined {
            path(h, &line, colour, "2", dashes);
        }
        path(h, &spread, colour, "1", "");
        let (column, row) = (n % COLUMNS, n / COLUMNS);
        let lx = LEFT + column as f64 * wide / COLUMNS as f64;
        let ly = TOP + HEIGHT + below(p) + row as f64 * ROW + 6.0;
        if joined {
            path(h, &format!("M{lx:.1} {ly}h26"), colour, "2", dashes);
        }
        mark(h, (lx + 13.0, ly), colour, c.published.is_some());
        text(h, (lx + 33.0, ly + 4.0), "start", Some("12"), &c.name);
    }
}

fn of(all: &[&'static str], n: usize) -> &'static str {
    all.get(n % all.len().max(1)).copied().unwrap_or_default()
}

fn name(axis: &PlotAxis) -> String {
    if axis.unit.is_empty() {
        axis.label.clone()
    } else {
        format!("{} ({})", axis.label, axis.unit)
    }
}

fn text(h: &mut Html, (x, y): (f64, f64), anchor: &str, size: Option<&str>, said: &str) {
    h.raw("<text fill=\"#1c1f23\"")
        .attribute("x", &format!("{x:.1}"))
        .attribute("y", &format!("{y:.1}"))
        .attribute("text-anchor", anchor);
    if let Some(size) = size {
        h.attribute("font-size", size);
    }
    h.raw(">").text(said).raw("</text>\n");
}

fn path(h: &mut Html, way: &str, colour: &str, width: &str, dashes: &str) {
    if way.is_empty() {
        return;
    }
    h.raw("<path fill=\"none\"").attribute("stroke", colour).attribute("stroke-width", width);
    if !dashes.is_empty() {
        h.attribute("stroke-dasharray", dashes);
    }
    h.attribute("d", way).raw("/>\n");
}

fn mark(h: &mut Html, (x, y): (f64, f64), colour: &str, hollow: bool) {
    h.raw("<circle r=\"3\"")
        .attribute("cx", &format!("{x:.1}"))
        .attribute("cy", &format!("{y:.1}"))
        .attribute("stroke", colour)
        .attribute("fill", if hollow { "#ffffff" } else { colour })
        .raw("/>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Axis, Dut, Figure, Point, Series};
    use crate::environment::Environment;

    fn with(points: Vec<Point>, scale: fn(&str, &str) -> Axis) -> Document {
        let dut = Dut { name: "a<b".to_owned(), ..Dut::default() };
        let mut d = Document::new("m", "", dut, Environment::nowhere());
        let mut figure = Figure::new("f", "A figure", scale("x", ""), scale("y", "widgets"));
        let mut series = Series::measured("first & second", "");
        series.points = points;
        figure.series.push(series);
        d.figures.push(figure);
        d
    }

    #[test]
    fn whatever_is_drawn_is_well_formed_and_finite() {
        let some =
            |y: f64| vec![Point::new(1.0, y), Point::missing(2.0), Point::new(1000.0, 2.0 * y)];
        for scale in [Axis::log, Axis::linear] {
            for y in [0.0, 1e-9, 1.0, 5.0, 1e12] {
                let Some(text) = svg(&[with(some(y), scale)]) else {
                    assert_eq!(y, 0.0, "zero is not drawn by ratios");
                    continue;
                };
                assert!(!text.contains("NaN") && !text.contains("inf"), "{y}: {text}");
                assert!(text.contains("first &amp; second") && !text.contains("a<b"));
                // One for each point that there is, and the legend's.
                assert_eq!(text.matches("<circle").count(), 3, "{y}");
            }
        }
        assert_eq!(svg(&[with(Vec::new(), Axis::linear)]), None);
    }

    #[test]
    fn marks_of_an_axis_are_round_and_hold_the_values() {
        let r = Ruler::by_ratios(1.0, 1000.0);
        assert_eq!(r.ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!((r.place(1.0), r.place(1000.0)), (0.0, 1.0));
        let r = Ruler::by_steps(3.0, 37.0);
        assert_eq!((r.from, r.to), (0.0, 40.0));
        let one = Ruler::by_ratios(7.0, 7.0);
        assert!((0.0..=1.0).contains(&one.place(7.0)));
    }
}
