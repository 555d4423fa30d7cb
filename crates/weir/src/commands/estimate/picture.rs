//! A sweep as a picture: the rate over the first axis, a curve for each value of the others, with its
//! interval.
//!
//! Room: text out, by the same drawing as studies' pictures.

use super::say::number;
use super::sweep::Point;
use crate::study::report::{Axis, Extent, Point as Mark, Report, Series};
use crate::study::titled;
use anyhow::Result;

/// Draws it under a title.
///
/// # Errors
/// The library refused.
pub fn svg(title: &str, names: &[&str], points: &[Point]) -> Result<String> {
    let mut series: Vec<Series> = Vec::new();
    let x = Axis { name: axis(names.first().copied().unwrap_or_default()), unit: "" };
    for p in points {
        let others = names.iter().zip(&p.values).skip(1);
        let others: Vec<String> = others.map(|(n, v)| format!("{n} {}", number(*v))).collect();
        let name = if others.is_empty() { "estimate".to_owned() } else { others.join(", ") };
        let mark = Mark {
            x: p.values.first().copied().unwrap_or_default(),
            median: Some(p.answer.rates.mpps),
            min: Some(p.answer.interval_mpps.0),
            max: Some(p.answer.interval_mpps.1),
            samples: Vec::new(),
            remark: None,
            trials: Vec::new(),
            costs: Vec::new(),
        };
        match series.iter_mut().find(|s| s.name == name) {
            Some(s) => s.points.push(mark),
            None => series.push(Series {
                name,
                x,
                y: Axis { name: "rate", unit: "Mpps" },
                points: vec![mark],
            }),
        }
    }
    let report = Report {
        study: "estimate",
        answers: "",
        extent: Extent::Full,
        load_at_start: None,
        conditions: Vec::new(),
        series,
        tables: Vec::new(),
        cases: Vec::new(),
        figures: Vec::new(),
        published: Vec::new(),
        accounts: None,
        remarks: Vec::new(),
    };
    titled(title, &report)
}

/// What the axis is called.
fn axis(name: &str) -> &'static str {
    match name {
        "frame" => "frame (bytes)",
        "cores" => "cores",
        "burst" => "frames of a burst",
        "flows" => "flows",
        "zipf" => "exponent of Zipf's law",
        "clock_ghz" => "clock (GHz)",
        _ => "parameter",
    }
}
