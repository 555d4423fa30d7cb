//! Tables as rows of cells, whatever they are written as: HTML, CSV.
//!
//! Pure. A document's tables beside another's, a picture's values, distributions in numbers.

use super::number::{Shown, number, with_digits};
use super::pair::{Module, Plot, told_apart};
use crate::document::table::{ColumnKind, NOT_STATED};
use crate::document::{Cell, Column, Distribution, Document};
use std::collections::BTreeMap;

/// A table to be shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Names it in its module.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Shape>>,
}

/// A cell to be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Words.
    Text(String),
    /// A number; what is shown is rounded.
    Number(f64),
    /// A number and its spread.
    Spread(f64, f64, f64),
    /// A paper has none.
    NotStated,
    /// Nothing belongs here.
    Empty,
}

impl Shape {
    /// As it is read.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(t) => t.clone(),
            Self::Number(n) => number(*n),
            Self::Spread(n, lo, hi) => format!("{} [{}, {}]", number(*n), number(*lo), number(*hi)),
            Self::NotStated => NOT_STATED.to_owned(),
            Self::Empty => String::new(),
        }
    }
}

impl From<&Cell> for Shape {
    fn from(c: &Cell) -> Self {
        match c {
            Cell::Number(n) if !n.is_finite() => Self::Text("none".to_owned()),
            Cell::Number(n) => Self::Number(*n),
            Cell::Text(t) => Self::Text(t.clone()),
            Cell::NotStated => Self::NotStated,
        }
    }
}

/// `name (unit)`.
pub fn head(c: &Column) -> String {
    if c.unit.is_empty() { c.name.clone() } else { format!("{} ({})", c.name, c.unit) }
}

/// The tables of a module: those of one id with the same columns are one, a device after the other
/// within each first cell, so that what is compared stands together.
pub fn tables(module: &Module<'_>) -> Vec<Grid> {
    let alone = module.documents.len() == 1;
    let mut grids: Vec<(Grid, &[Column], Groups)> = Vec::new();
    for (label, d) in &module.documents {
        for t in &d.tables {
            let known = |g: &(Grid, &[Column], Groups)| g.0.id == t.id && *g.1 == t.columns;
            let at = grids.iter().position(known).unwrap_or_else(|| {
                let mut columns = t.columns.clone();
                if !alone {
                    columns.insert(columns.len().min(1), Column::text("device"));
                }
                let (id, title) = (t.id.clone(), t.title.clone());
                let grid = Grid { id, title, columns, rows: Vec::new() };
                grids.push((grid, &t.columns, Groups::default()));
                grids.len() - 1
            });
            let Some((_, _, groups)) = grids.get_mut(at) else { continue };
            for row in &t.rows {
                let mut cells: Vec<Shape> = row.iter().map(Shape::from).collect();
                let first = cells.first().cloned().unwrap_or(Shape::Empty);
                if !alone {
                    cells.insert(cells.len().min(1), Shape::Text(label.clone()));
                }
                groups.add(if alone { None } else { Some(&first) }, cells);
            }
        }
    }
    let whole = |(grid, _, groups): (Grid, &[Column], Groups)| Grid {
        rows: groups.rows.into_iter().flatten().collect(),
        ..grid
    };
    grids.into_iter().map(whole).collect()
}

/// Rows that belong together, each group where its first row came.
#[derive(Default)]
struct Groups {
    /// By what their first cells show.
    places: BTreeMap<String, usize>,
    rows: Vec<Vec<Vec<Shape>>>,
}

impl Groups {
    /// One more row: with those of this first cell, or at the end.
    fn add(&mut self, first: Option<&Shape>, row: Vec<Shape>) {
        let end = self.rows.len();
        let at = first.map_or(end, |f| *self.places.entry(format!("{f:?}")).or_insert(end));
        match self.rows.get_mut(at) {
            Some(group) => group.push(row),
            None => self.rows.push(vec![row]),
        }
    }
}

/// A picture's values: a row for each x, a column for each curve.
pub fn values(plot: &Plot) -> Grid {
    let number_column = |label: &str, unit: &str| Column::number(label, unit);
    let names = &plot.x.names;
    let mut columns = vec![if names.is_empty() {
        number_column(&plot.x.label, &plot.x.unit)
    } else {
        Column::text(&plot.x.label)
    }];
    columns.extend(plot.series.iter().map(|s| number_column(&s.name, &plot.y.unit)));
    let mut xs: Vec<f64> =
        plot.series.iter().flat_map(|s| &s.points).filter_map(|p| p[0]).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut rows: Vec<Vec<Shape>> = Vec::new();
    for &x in &xs {
        let mut row = vec![Shape::Empty; columns.len()];
        // Whole numbers from 0 on, where they have names.
        row[0] = match names.get(x as usize) {
            Some(name) => Shape::Text(name.clone()),
            None => Shape::Number(x),
        };
        rows.push(row);
    }
    for (column, s) in plot.series.iter().enumerate() {
        for p in &s.points {
            let Some(x) = p[0] else { continue };
            let Ok(at) = xs.binary_search_by(|v| v.total_cmp(&x)) else { continue };
            let Some(cell) = rows.get_mut(at).and_then(|r| r.get_mut(column + 1)) else { continue };
            *cell = match *p {
                [_, Some(y), Some(lo), Some(hi)] => Shape::Spread(y, lo, hi),
                [_, Some(y), ..] => Shape::Number(y),
                _ => Shape::Text("none".to_owned()),
            };
        }
    }
    Grid { id: plot.id.clone(), title: plot.title.clone(), columns, rows }
}

/// The distributions of a module in numbers, in their own units.
pub fn distributions(module: &Module<'_>) -> Grid {
    let mut columns = vec![Column::text("of")];
    if module.documents.len() > 1 {
        columns.push(Column::text("device"));
    }
    columns.push(Column::number("values", ""));
    columns.push(Column::number("missing", ""));
    columns.push(Column::text("unit"));
    let names = ["least", "median", "p90", "p99", "p99.9", "most", "mean", "deviation"];
    columns.extend(names.map(|n| Column::number(n, "")));
    let mut groups = module.documents.iter().flat_map(|m| &m.1.distributions).map(|s| &s.group);
    let first = groups.next();
    let one_group = groups.all(|g| Some(g) == first);
    let mut rows = Vec::new();
    for (label, d) in &module.documents {
        for s in &d.distributions {
            let name = if one_group || s.group.is_empty() || s.group == s.title {
                s.title.clone()
            } else {
                format!("{}: {}", s.group, s.title)
            };
            let mut row = vec![Shape::Text(name)];
            if module.documents.len() > 1 {
                row.push(Shape::Text(label.clone()));
            }
            row.extend(in_numbers(s));
            rows.push(row);
        }
    }
    Grid { id: "distributions".into(), title: "Distributions in numbers".into(), columns, rows }
}

fn in_numbers(s: &Distribution) -> Vec<Shape> {
    let unit = Shown::of(&s.unit, s.percentiles.iter().map(|p| p.1));
    let value = |v: Option<f64>| v.map_or(Shape::Empty, |v| Shape::Number(v * unit.factor));
    let p = |percent: f64| value(told_apart(s).find(|p| p.0 == percent).map(|p| p.1));
    vec![
        Shape::Number(s.count as f64),
        Shape::Number(s.missing as f64),
        Shape::Text(unit.unit.to_owned()),
        value(s.min),
        p(50.0),
        p(90.0),
        p(99.0),
        p(99.9),
        value(s.max),
        value(s.mean),
        value(s.standard_deviation),
    ]
}

/// Asked and sent, of one document.
pub fn loads(d: &Document) -> Option<Grid> {
    if d.loads.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("channel"),
        Column::number("asked", "frames/s"),
        Column::number("sent", "frames/s"),
        Column::number("frames sent", ""),
        Column::number("frames received", ""),
    ];
    let row = |l: &crate::document::Load| {
        vec![
            Shape::Text(l.channel.clone()),
            l.asked_fps.map_or_else(|| Shape::Text("as fast as it goes".into()), Shape::Number),
            // Generators are judged in parts per million.
            Shape::Text(with_digits(l.sent_fps, 8)),
            Shape::Number(l.sent as f64),
            Shape::Number(l.received as f64),
        ]
    };
    let rows = d.loads.iter().map(row).collect();
    Some(Grid { id: "loads".into(), title: "Load, asked and sent".into(), columns, rows })
}

impl Grid {
    /// Whether a column's cells stand to the right.
    pub fn is_number(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|c| c.kind == ColumnKind::Number)
    }
}
