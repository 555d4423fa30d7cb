//! `nf-all`: every function over sizes of tables and frames and localities: how far estimates are off.

use super::beside::Beside;
use super::{PLACES, WAYS, asker, conditions, elsewhere, rows, said};
use crate::functions;
use crate::study::report::{
    Axis, Bound, Extent, Figure, Point, Promise, Report, Series, Table, number,
};
use crate::study::veth_forward::SIZE;
use crate::study::{Depth, Id, Plan, Watch};
use crate::validate::{Case, Locality, Row, Score};
use anyhow::Result;

const ERROR: Axis = Axis { name: "median absolute error", unit: "%" };

/// Runs it.
pub fn all(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let depth = plan.depth;
    let mut report = Report::new(Id::NfAll, depth.of(Extent::Quick, Extent::Full));
    let mut asker = asker(plan, watch, &mut report)?;
    let frames: &[u32] = depth.of(&[64, 512], &[64, 512, 1518]);
    let localities: &[Locality] =
        depth.of(&[Locality::Uniform], &[Locality::Uniform, Locality::Zipf(1.1)]);
    let mut cases = Vec::new();
    for f in functions::ALL {
        let entries = f.measured_entries();
        let few = if depth == Depth::Quick { 1 } else { entries.len() };
        cases.extend(Case::all(*f, entries.get(..few).unwrap_or(entries), frames, localities));
    }
    let mut rows = rows(&cases, &mut asker, depth, watch, &mut report)?;
    let mut beside = Beside::new(plan, &mut report);
    for (case, row) in cases.iter().zip(&mut rows) {
        if is_elsewhere(case) {
            beside.fill(case, row, &asker, watch, &mut report)?;
        }
    }
    drop(beside);
    conditions(&mut report, depth);
    curves(&mut report, &rows);
    report.tables.push(by_function(&rows));
    figures(&mut report, &rows);
    report.tables.extend(places(&rows));
    elsewhere(&mut report, &rows);
    report.remark(
        "Errors are relative to what was measured. Estimates know nothing of a function but its model; \
         what weir's data plane does with a frame whatever the function (a VDP without rules, its \
         classifier alone, its executor, its channels) is calibrated without any of them.",
    );
    report.cases = rows;
    Ok(report)
}

/// Whether a case is measured in other places, too: each is slow to be made.
fn is_elsewhere(case: &Case) -> bool {
    let of = case.function.measured_entries();
    let first = of.iter().take(2).any(|n| *n == case.entries);
    first && case.locality == Locality::Uniform && case.frame < 1024
}

/// The same cases in each place.
fn places(rows: &[Row]) -> Option<Table> {
    let mut head = ["function", "entries", "frame", "from memory"].map(String::from).to_vec();
    for (place, _) in PLACES {
        head.extend([place.to_owned(), "estimate".into(), "error %".into()]);
    }
    let mut table = Vec::new();
    for r in rows.iter().filter(|r| PLACES.iter().any(|(_, of)| of(r).is_some())) {
        let mut row = vec![r.function.to_owned(), r.entries.to_string(), r.frame_bytes.to_string()];
        row.push(number(r.measured.round()));
        for (_, of) in PLACES {
            let Some(f) = of(r) else {
                row.extend(["–"; 3].map(String::from));
                continue;
            };
            row.push(number(f.measured.round()));
            row.push(number(f.estimate.round()));
            row.push(format!("{:+.0}", (f.estimate / f.measured - 1.0) * 100.0));
        }
        table.push(row);
    }
    let title = "cycles for a frame, measured in each place".into();
    (!table.is_empty()).then_some(Table { title, head, rows: table })
}

/// (measured, said) of one way.
fn pairs<'r>(rows: impl Iterator<Item = &'r Row>, way: usize) -> Vec<(f64, f64)> {
    rows.filter_map(|r| Some((r.measured, said(r).get(way).copied().flatten()?))).collect()
}

fn curves(report: &mut Report, rows: &[Row]) {
    let mut sizes: Vec<u32> = rows.iter().map(|r| r.frame_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Sizes that are one function's own say nothing of frames' sizes.
    sizes.retain(|s| [64, 512, 1518].contains(s));
    for (way, name) in WAYS.iter().enumerate() {
        let point = |size: &u32| -> Option<Point> {
            let of = pairs(rows.iter().filter(|r| r.frame_bytes == *size), way);
            Some(Point::of(f64::from(*size), vec![Score::of(&of)?.median * 100.0]))
        };
        let points: Vec<Point> = sizes.iter().filter_map(point).collect();
        if !points.is_empty() {
            report.series.push(Series { name: (*name).to_owned(), x: SIZE, y: ERROR, points });
        }
    }
}

/// A row for each function.
fn by_function(rows: &[Row]) -> Table {
    let mut head = vec!["function".to_owned(), "cases".to_owned(), "measured cycles".to_owned()];
    head.extend(WAYS.iter().map(|w| format!("{w}: median error % [90th percentile]")));
    let mut table = Vec::new();
    for f in functions::ALL {
        let of: Vec<&Row> = rows.iter().filter(|r| r.function == f.name()).collect();
        let least = of.iter().map(|r| r.measured).fold(f64::MAX, f64::min);
        let most = of.iter().map(|r| r.measured).fold(0.0, f64::max);
        let mut row = vec![f.name().to_owned(), of.len().to_string()];
        row.push(format!("{} to {}", number(least.round()), number(most.round())));
        for way in 0..WAYS.len() {
            let score = Score::of(&pairs(of.iter().copied(), way));
            let cell = |s: Score| format!("{:.1} [{:.1}]", s.median * 100.0, s.p90 * 100.0);
            row.push(score.map_or_else(|| "–".to_owned(), cell));
        }
        table.push(row);
    }
    Table { title: "by function".into(), head, rows: table }
}

fn figures(report: &mut Report, rows: &[Row]) {
    let scores: Vec<Option<Score>> =
        (0..WAYS.len()).map(|way| Score::of(&pairs(rows.iter(), way))).collect();
    let promise = |bound, value| Some(Promise { bound, value });
    let mut add = |what: String, value: f64, unit: &'static str, promised| {
        report.figures.push(Figure::of(what, value, unit, promised));
    };
    for (way, (name, score)) in WAYS.iter().zip(&scores).enumerate() {
        let Some(s) = score else { continue };
        let ours = |p: Option<Promise>| if way == 0 { p } else { None };
        let at_most = |v| ours(promise(Bound::AtMost, v));
        add(format!("{name}: median absolute error"), s.median * 100.0, "%", at_most(10.0));
        add(format!("{name}: 90th percentile"), s.p90 * 100.0, "%", at_most(20.0));
        let tau = ours(promise(Bound::AtLeast, 0.9));
        add(format!("{name}: Kendall's tau"), s.tau, "", tau);
    }
    if let (Some(Some(ours)), Some(Some(paper))) = (scores.first(), scores.get(1)) {
        let value = paper.median / ours.median.max(1e-9);
        let promised = promise(Bound::AtLeast, 3.0);
        add("median error of 002's formula over the estimate's".into(), value, "", promised);
    }
    let twice: Vec<(f64, f64)> = rows.iter().filter_map(|r| r.twice).collect();
    if let Some(s) = Score::of(&twice) {
        let name = "second measurement against the first";
        add(format!("{name}: median difference"), s.median * 100.0, "%", None);
        add(format!("{name}: 90th percentile"), s.p90 * 100.0, "%", None);
        add(format!("{name}: Kendall's tau"), s.tau, "", None);
    }
    add("functions".into(), functions::ALL.len() as f64, "", promise(Bound::AtLeast, 12.0));
    add("cases".into(), rows.len() as f64, "", None);
}
