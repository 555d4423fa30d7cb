//! What `weir study` writes, as a document: so that papers' figures of both kinds stand in one report.
//!
//! Pure. Reads the JSON of `crate::study::report`; the shape here is its reader's, and a test holds
//! both to each other.

use crate::study::report::{Accounts, Bound, Extent, Promise};
use serde::Deserialize;
use weir_measure::document::{
    Axis, Cell, Column, Document, Dut, Figure, Outcome, Point, Scale, Series, Table, Verdict,
};
use weir_measure::environment::{Date, Environment, UNKNOWN};
use weir_measure::report::number::quantity;
use weir_measure::stats::Summary;

#[derive(Deserialize)]
struct Envelope {
    schema: u32,
    environment: Place,
    result: Study,
}

/// The machine, as it is written now or was until then.
#[derive(Deserialize)]
#[serde(untagged, expecting = "environment is not a machine's")]
enum Place {
    Whole(Environment),
    Short(Short),
}

#[derive(Deserialize)]
struct Short {
    cpu: String,
    cores: usize,
    memory_bytes: u64,
    kernel: String,
    commit: String,
    command: String,
}

#[derive(Deserialize)]
struct Study {
    study: String,
    answers: String,
    extent: Extent,
    load_at_start: Option<f64>,
    conditions: Vec<Condition>,
    series: Vec<Curve>,
    #[serde(default)]
    tables: Vec<Rows>,
    figures: Vec<Found>,
    published: Vec<Published>,
    accounts: Option<Accounts>,
    remarks: Vec<String>,
}

#[derive(Deserialize)]
struct Condition {
    name: String,
    value: String,
}

#[derive(Deserialize, PartialEq)]
struct Quantity {
    name: String,
    unit: String,
}

#[derive(Deserialize)]
struct Curve {
    name: String,
    x: Quantity,
    y: Quantity,
    points: Vec<Spot>,
}

#[derive(Deserialize)]
struct Spot {
    x: f64,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    samples: Vec<f64>,
    remark: Option<String>,
}

#[derive(Deserialize)]
struct Rows {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct Found {
    what: String,
    value: f64,
    unit: String,
    #[serde(default)]
    samples: Vec<f64>,
    promised: Option<Promise>,
}

#[derive(Deserialize)]
struct Published {
    what: String,
    value: String,
    source: String,
    ours: String,
}

/// Reads it.
///
/// # Errors
/// Not what `weir study` writes, or of a newer one: one line.
pub fn document(text: &str) -> Result<Document, String> {
    let e: Envelope =
        serde_json::from_str(text).map_err(|e| format!("not as 'weir study' writes it: {e}"))?;
    if e.schema > crate::environment::SCHEMA {
        let (found, ours) = (e.schema, crate::environment::SCHEMA);
        return Err(format!("schema {found}, and this weir reads up to {ours}: use a newer weir"));
    }
    let (place, s) = (e.environment, e.result);
    let mut environment = match place {
        Place::Whole(e) => e,
        Place::Short(p) => Environment {
            machine: UNKNOWN.to_owned(),
            cpu_model: p.cpu,
            virtualised: false,
            cores: p.cores,
            memory_bytes: p.memory_bytes,
            kernel: p.kernel,
            architecture: UNKNOWN.to_owned(),
            version: String::new(),
            commit: p.commit,
            command: p.command,
            date: Date::default(),
            load_1min: None,
        },
    };
    environment.load_1min = s.load_at_start.or(environment.load_1min);
    let dut = Dut { name: "weir".to_owned(), ..Dut::default() };
    let mut d = Document::new(&s.study, &s.answers, dut, environment);
    d.quick = s.extent != Extent::Full;
    if s.extent == Extent::Reduced {
        d.note("Trials were shorter than RFC 2544 asks for.");
    }
    for c in &s.conditions {
        d.parameter(&c.name, c.value.as_str(), "");
    }
    d.figures = figures(&s.series);
    tables(&mut d, &s.tables);
    promises(&mut d, &s);
    published(&mut d, &s.published);
    for r in s.series.iter().flat_map(|c| &c.points).filter_map(|p| p.remark.as_ref()) {
        if !d.notes.contains(r) {
            d.note(r.as_str());
        }
    }
    if let Some(a) = s.accounts {
        d.note(format!("Frames from memory, {}.", a.told()));
    }
    s.remarks.iter().for_each(|r| d.note(r.as_str()));
    d.check().map_err(|e| e.to_string())?;
    Ok(d)
}

/// Curves over the same axes in one figure.
fn figures(curves: &[Curve]) -> Vec<Figure> {
    let mut figures: Vec<(Figure, &Quantity, &Quantity)> = Vec::new();
    for c in curves {
        let at = figures.iter().position(|f| *f.1 == c.x && *f.2 == c.y).unwrap_or_else(|| {
            let axis = |q: &Quantity, values: Vec<f64>| Axis {
                label: q.name.clone(),
                unit: q.unit.clone(),
                scale: scale(values),
                names: Vec::new(),
            };
            let same = |o: &&Curve| o.x == c.x && o.y == c.y;
            let all = || curves.iter().filter(same).flat_map(|o| &o.points);
            let x = axis(&c.x, all().map(|p| p.x).collect());
            let y = axis(&c.y, all().filter_map(|p| p.median).collect());
            let title = format!("{} by {}", c.y.name, c.x.name);
            let id = format!("figure-{}", figures.len() + 1);
            figures.push((Figure::new(&id, &title, x, y), &c.x, &c.y));
            figures.len() - 1
        });
        let mut series = Series::measured(&c.name, "lowest to highest");
        for p in &c.points {
            series.push(match (p.median, p.min, p.max) {
                (Some(y), Some(lo), Some(hi)) => Point::with_spread(p.x, y, lo, hi),
                (Some(y), ..) => Point::new(p.x, y),
                _ => Point::missing(p.x),
            });
        }
        if let Some((figure, ..)) = figures.get_mut(at) {
            figure.series.push(series);
        }
    }
    figures.into_iter().map(|f| f.0).collect()
}

/// By ratios where values are far apart, all positive.
fn scale(values: Vec<f64>) -> Scale {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if least > 0.0 && most > 20.0 * least { Scale::Log } else { Scale::Linear }
}

/// What does not fit a curve: scorecards and the like.
fn tables(d: &mut Document, all: &[Rows]) {
    for (n, t) in all.iter().enumerate() {
        let columns = t.head.iter().map(|h| Column::text(h)).collect();
        let mut table = Table::new(&format!("table-{}", n + 1), &t.title, columns);
        for r in &t.rows {
            table.row(r.iter().map(|c| Cell::from(c.as_str())));
        }
        d.tables.push(table);
    }
}

/// What follows, in a table; what weir promises of it, as verdicts.
fn promises(d: &mut Document, s: &Study) {
    if s.figures.is_empty() {
        return;
    }
    let columns = ["figure", "value", "unit"].map(Column::text).to_vec();
    let mut table = Table::new("figures", "What follows", columns);
    for f in &s.figures {
        table.row([Cell::from(f.what.as_str()), Cell::Number(f.value), f.unit.as_str().into()]);
        let Some(p) = &f.promised else { continue };
        let samples = samples(f, &s.series);
        let outcome = p.outcome(f.value, samples, s.extent);
        let word = if p.bound == Bound::AtMost { "At most" } else { "At least" };
        let mut sentence = format!("{word} {} is promised.", quantity(p.value, &f.unit));
        if s.extent == Extent::Quick {
            sentence += " A quick run shows only that the study works.";
        } else if outcome == Outcome::Unclear {
            sentence += " Its rounds lie on both sides of that.";
        }
        let mut verdict = Verdict::new(&f.what, outcome, sentence).with("found", f.value, &f.unit);
        if let Some(spread) = Summary::of(samples).filter(|s| s.min < s.max) {
            verdict =
                verdict.with("lowest", spread.min, &f.unit).with("highest", spread.max, &f.unit);
        }
        d.verdicts.push(verdict);
    }
    d.tables.push(table);
}

/// What a figure is the median of. Results of before don't say; most such figures are a point of a curve.
fn samples<'s>(f: &'s Found, curves: &'s [Curve]) -> &'s [f64] {
    if !f.samples.is_empty() {
        return &f.samples;
    }
    let mut points = curves.iter().filter(|c| c.y.unit == f.unit).flat_map(|c| &c.points);
    points.find(|p| p.median == Some(f.value)).map_or(&[], |p| &p.samples)
}

fn published(d: &mut Document, published: &[Published]) {
    if published.is_empty() {
        return;
    }
    let columns = ["published", "the paper's value", "where", "ours"].map(Column::text).to_vec();
    let mut table = Table::new("published", "Published values beside ours", columns);
    for p in published {
        let value = match p.value.as_str() {
            crate::study::report::NOT_STATED => Cell::NotStated,
            value => value.into(),
        };
        table.row([
            p.what.as_str().into(),
            value,
            p.source.as_str().into(),
            p.ours.as_str().into(),
        ]);
    }
    d.tables.push(table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::report::{self, Report};

    /// What a study writes today is read: were a field renamed there, this would fail.
    #[test]
    fn what_is_written_is_read() {
        let axis = |name, unit| report::Axis { name, unit };
        let point = |x, samples: &[f64]| report::Point::of(x, samples.to_vec());
        let mut r = Report::new(crate::study::Id::ALL[0], Extent::Quick);
        r.condition("ports", 4);
        r.remark("a word");
        r.series.push(report::Series {
            name: "fast".into(),
            x: axis("size", "bytes"),
            y: axis("delay", "ns"),
            points: vec![point(64.0, &[1.0, 3.0, 2.0]), point(128.0, &[])],
        });
        r.tables.push(report::Table {
            title: "a scorecard".into(),
            head: vec!["attack".into(), "verdict".into()],
            rows: vec![vec!["flood".into(), "holds".into()]],
        });
        let p = Some(Promise { bound: Bound::AtMost, value: 1.0 });
        r.figures.push(report::Figure::of("delay", 2.0, "ns", p));
        r.published.push(report::Published {
            what: "delay",
            value: report::NOT_STATED,
            source: "004",
            ours: "2 ns".into(),
        });
        r.accounts = Some(report::Accounts { received: 1, forwarded: 1, ..Default::default() });
        let text = serde_json::to_string(&crate::environment::Envelope::new("study", r)).unwrap();
        let d = document(&text).unwrap();
        assert!(d.quick);
        let points = &d.figures[0].series[0].points;
        assert_eq!(points[0], Point::with_spread(64.0, 2.0, 1.0, 3.0));
        assert_eq!(points[1], Point::missing(128.0));
        assert_eq!((d.verdicts[0].outcome, d.parameters.len()), (Outcome::Unclear, 1));
        assert_eq!(d.tables[0].rows[0][1], Cell::from("holds"));
        assert_eq!(d.tables[2].rows[0][1], Cell::NotStated);
        assert_eq!(d.notes.len(), 2);
    }

    /// By a figure's samples, or those of the point that it is, where an earlier weir left them out.
    #[test]
    fn verdicts_are_what_samples_can_tell() {
        let verdict = |samples: &[f64], extent, told: bool| {
            let mut r = Report::new(crate::study::Id::VdpScale, extent);
            let axis = |name, unit| report::Axis { name, unit };
            let (x, y) = (axis("VDPs", ""), axis("cost", "ns"));
            let points = vec![report::Point::of(1024.0, samples.to_vec())];
            r.series.push(report::Series { name: "fast".into(), x, y, points });
            let p = Some(Promise { bound: Bound::AtMost, value: 20.0 });
            r.figures.extend(report::Figure::median("cost", samples, "ns", p));
            r.judge();
            let of_study = r.figures[0].outcome;
            if !told {
                r.figures[0].samples.clear();
            }
            let e = crate::environment::Envelope::new("study", r);
            let v = document(&serde_json::to_string(&e).unwrap()).unwrap().verdicts.remove(0);
            assert_eq!(Some(v.outcome), of_study);
            v
        };
        for told in [true, false] {
            let v = verdict(&[202.9, -241.4, 11.5], Extent::Full, told);
            assert_eq!((v.outcome, v.evidence.len()), (Outcome::Unclear, 3));
            assert!(v.sentence.ends_with("both sides of that."), "{}", v.sentence);
            let v = verdict(&[12.9, -1.4, 11.5], Extent::Full, told);
            assert_eq!(v.outcome, Outcome::Holds);
            assert_eq!(verdict(&[32.9, 41.4], Extent::Full, told).outcome, Outcome::Fails);
            assert_eq!(verdict(&[12.9, -1.4], Extent::Quick, told).outcome, Outcome::Unclear);
        }
    }

    #[test]
    fn what_is_not_one_is_refused() {
        for (text, why) in [
            ("{\"kind\":\"study\"}", "not as 'weir study' writes it: missing field `schema`"),
            ("nothing", "not as 'weir study' writes it: expected ident"),
        ] {
            let e = document(text).unwrap_err();
            assert!(e.starts_with(why) && !e.contains('\n'), "{e}");
        }
    }
}
