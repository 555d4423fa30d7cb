//! What a script's `finish` writes into: `doc`.
//!
//! Pure. Series of samples become the document's distributions by themselves, after whatever `finish` says.

use super::bounds::ARRAY;
use super::desk::Cx;
use super::rules::{Keys, number, text};
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Series, Table, Verdict,
};
use rhai::{Array, Dynamic, Engine, EvalAltResult, Map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Verdicts, figures and tables, each.
const MOST: usize = 100;
/// Characters of a sentence.
const SENTENCE: usize = 2_000;

/// Parts of a document as they are written.
#[derive(Default)]
pub(super) struct Parts {
    verdicts: Vec<Verdict>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    notes: Vec<String>,
    probe: Option<ProbeResolution>,
    partial: Option<String>,
    words: usize,
}

/// The script's hold on them.
#[derive(Clone)]
pub(super) struct Doc {
    parts: Arc<Mutex<Parts>>,
    cx: Cx,
}

type Fails<T> = Result<T, Box<EvalAltResult>>;

fn wrong(what: &str, why: impl std::fmt::Display) -> Box<EvalAltResult> {
    format!("{what}: {why}").into()
}

impl Doc {
    pub(super) fn new(cx: Cx, document: &Document) -> Self {
        let parts = Parts { partial: document.partial.clone(), ..Parts::default() };
        Self { parts: Arc::new(Mutex::new(parts)), cx }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was written, into the document.
    pub(super) fn write(&self, document: &mut Document) {
        let mut parts = self.parts();
        document.verdicts.append(&mut parts.verdicts);
        document.figures.append(&mut parts.figures);
        document.tables.append(&mut parts.tables);
        document.notes.append(&mut parts.notes);
        document.probe = parts.probe.take().or(document.probe);
        let mut desk = self.cx.desk();
        document.notes.append(&mut desk.notes);
        for (id, s) in std::mem::take(&mut desk.series) {
            document.distribution(&id, &s.title, s.samples);
        }
    }

    fn verdict(&mut self, id: &str, outcome: &str, sentence: &str) -> Fails<()> {
        self.verdict_with(id, outcome, sentence, Array::new())
    }

    /// `evidence`: lists of what, value and unit.
    fn verdict_with(
        &mut self,
        id: &str,
        outcome: &str,
        sentence: &str,
        evidence: Array,
    ) -> Fails<()> {
        let outcome = match outcome {
            "holds" => Outcome::Holds,
            "fails" => Outcome::Fails,
            "unclear" => Outcome::Unclear,
            other => {
                let why = format!("'{other}': it is 'holds', 'fails' or 'unclear'");
                return Err(wrong("verdict", why));
            }
        };
        let sentence: String = sentence.chars().take(SENTENCE).collect();
        let mut verdict = Verdict::new(id, outcome, sentence);
        for e in evidence.into_iter().take(MOST) {
            let [what, value, unit] = triple(e).map_err(|e| wrong("verdict", e))?;
            let (what, unit) = (cut(what)?, cut(unit)?);
            let value = number(value).map_err(|e| wrong("verdict", e))?;
            verdict = verdict.with(&what, value, &unit);
        }
        let mut parts = self.parts();
        if parts.verdicts.len() >= MOST {
            return Err(wrong("verdict", format!("more than {MOST}")));
        }
        parts.verdicts.push(verdict);
        Ok(())
    }

    /// `columns`: names and units as pairs, a name alone for words. `rows`: lists of cells.
    fn table(&mut self, id: &str, title: &str, columns: Array, rows: Array) -> Fails<()> {
        let columns = columns.into_iter().take(MOST).map(column).collect::<Fails<Vec<_>>>()?;
        let mut table = Table::new(id, title, columns);
        for row in rows {
            let cells = row.try_cast::<Array>().ok_or_else(|| wrong("table", "a row is a list"))?;
            let (n, width) = (cells.len(), table.columns.len());
            if n != width {
                let why = format!("{id:?}: a row has {n} cells for {width} columns");
                return Err(wrong("table", why));
            }
            table.row(cells.into_iter().map(cell).collect::<Fails<Vec<_>>>()?);
        }
        let mut parts = self.parts();
        parts.words += table.rows.len() * table.columns.len();
        if parts.tables.len() >= MOST || parts.words > ARRAY {
            return Err(wrong("table", "too many tables, or cells in them"));
        }
        parts.tables.push(table);
        Ok(())
    }

    fn figure(&mut self, map: Map) -> Fails<()> {
        let figure = figure(map).map_err(|e| wrong("figure", e))?;
        let mut parts = self.parts();
        parts.words += figure.series.iter().map(|s| s.points.len()).sum::<usize>();
        if parts.figures.len() >= MOST || parts.words > ARRAY {
            return Err(wrong("figure", "too many figures, or points in them"));
        }
        parts.figures.push(figure);
        Ok(())
    }
}

fn cut(v: Dynamic) -> Fails<String> {
    let t = text(v).map_err(|e| wrong("a word", e))?;
    Ok(t.chars().take(200).collect())
}

fn triple(v: Dynamic) -> Result<[Dynamic; 3], String> {
    let all = v.try_cast::<Array>().and_then(|a| <[Dynamic; 3]>::try_from(a).ok());
    all.ok_or_else(|| "give [what, value, unit]".to_owned())
}

fn column(v: Dynamic) -> Fails<Column> {
    match v.try_cast_result::<Array>() {
        Ok(pair) => {
            let mut pair = pair.into_iter();
            let (Some(name), Some(unit)) = (pair.next(), pair.next()) else {
                return Err(wrong("table", "a column is a name, or [name, unit]"));
            };
            Ok(Column::number(&cut(name)?, &cut(unit)?))
        }
        Err(name) => Ok(Column::text(&cut(name)?)),
    }
}

fn cell(v: Dynamic) -> Fails<Cell> {
    if v.is_unit() {
        return Ok(Cell::from(None));
    }
    match number(v.clone()) {
        Ok(n) => Ok(Cell::from(n)),
        Err(_) => Ok(Cell::from(cut(v)?)),
    }
}

/// `x`, `y`: label, unit, and 'log' or 'linear'.
fn axis(v: Dynamic) -> Result<Axis, String> {
    let [label, unit, scale] = triple(v).map_err(|_| "must be [label, unit, scale]".to_owned())?;
    let (label, unit) = (text(label)?, text(unit)?);
    match text(scale)?.as_str() {
        "log" => Ok(Axis::log(&label, &unit)),
        "linear" => Ok(Axis::linear(&label, &unit)),
        other => Err(format!("'{other}': a scale is 'log' or 'linear'")),
    }
}

fn list(v: Dynamic) -> Result<Array, String> {
    v.try_cast().ok_or_else(|| "must be a list".to_owned())
}

fn figure(map: Map) -> Result<Figure, String> {
    let mut keys = Keys::new(map, &["id", "title", "x", "y", "series"])?;
    let (id, title) = (keys.needed("id", text)?, keys.needed("title", text)?);
    let mut figure = Figure::new(&id, &title, keys.needed("x", axis)?, keys.needed("y", axis)?);
    for s in keys.needed("series", list)?.into_iter().take(MOST) {
        let map = s.try_cast::<Map>().ok_or("a series is a map: name, spread, points")?;
        let mut keys = Keys::new(map, &["name", "spread", "points"])?;
        let spread = keys.take("spread", text)?.unwrap_or_default();
        let mut series = Series::measured(&keys.needed("name", text)?, &spread);
        for p in keys.needed("points", list)? {
            series.push(point(list(p)?)?);
        }
        figure.series.push(series);
    }
    Ok(figure)
}

/// `[x, y]` or `[x, y, low, high]`; `()` for what could not be measured.
fn point(p: Array) -> Result<Point, String> {
    let n = |i: usize| p.get(i).cloned().and_then(|v| number(v).ok());
    if n(0).is_some_and(|x| !x.is_finite()) {
        return Err("a point's x is a finite number".to_owned());
    }
    match (n(0), n(1), n(2), n(3)) {
        (Some(x), Some(y), Some(lo), Some(hi)) => Ok(Point::with_spread(x, y, lo, hi)),
        (Some(x), Some(y), ..) => Ok(Point::new(x, y)),
        (Some(x), None, ..) => Ok(Point::missing(x)),
        _ => Err("a point is [x, y] or [x, y, low, high]".to_owned()),
    }
}

/// Makes the calls known.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Doc>("doc");
    engine.register_fn("verdict", Doc::verdict);
    engine.register_fn("verdict", Doc::verdict_with);
    engine.register_fn("table", Doc::table);
    engine.register_fn("figure", Doc::figure);
    engine.register_fn("note", |d: &mut Doc, sentence: &str| {
        let sentence: String = sentence.chars().take(SENTENCE).collect();
        let mut parts = d.parts();
        if parts.notes.len() < MOST {
            parts.notes.push(sentence);
        }
    });
    engine.register_fn("resolution", |d: &mut Doc, fps: Dynamic, frame: i64, flows: i64| {
        let fps = number(fps).map_err(|e| wrong("resolution", e))?;
        if !(fps > 0.0 && fps.is_finite()) {
            return Err(wrong("resolution", "the rate must be more than 0"));
        }
        let n = |n: i64| u32::try_from(n).unwrap_or(0);
        d.parts().probe = Some(ProbeResolution::shared(fps, n(frame).saturating_sub(4), n(flows)));
        Ok::<_, Box<EvalAltResult>>(())
    });
    engine.register_fn("is_partial", |d: &mut Doc| d.parts().partial.is_some());
    engine.register_fn("cx", |d: &mut Doc| d.cx.clone());
}
