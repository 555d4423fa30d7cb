//! Documents as CSV (RFC 4180): a file for each figure, table, and for all distributions, verdicts and
//! parameters.
//!
//! Pure. Numbers are whole, in the document's units; what is not stated or not measured is empty.

use super::stems;
use crate::document::{Cell, Document, Origin};

/// The files of all documents: name and content.
pub fn files(documents: &[Document]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (d, stem) in documents.iter().zip(stems(documents)) {
        let mut add = |what: &str, table: Csv| {
            if table.rows > 1 {
                files.push((format!("{stem}.{}.csv", plain(what)), table.text));
            }
        };
        let mut t = Csv::default();
        t.row(&["name", "value", "unit"]);
        for p in &d.parameters {
            t.row(&[&p.name, &cell(&p.value), &p.unit]);
        }
        add("parameters", t);
        let mut t = Csv::default();
        t.row(&["verdict", "outcome", "sentence", "evidence", "value", "unit"]);
        for v in &d.verdicts {
            if v.evidence.is_empty() {
                t.row(&[&v.id, v.outcome.word(), &v.sentence, "", "", ""]);
            }
            for e in &v.evidence {
                let value = optional(e.value);
                t.row(&[&v.id, v.outcome.word(), &v.sentence, &e.what, &value, &e.unit]);
            }
        }
        add("verdicts", t);
        for f in &d.figures {
            let mut t = Csv::default();
            t.row(&["series", "origin", &f.x.text(), &f.y.text(), "low", "high", "spread"]);
            for s in &f.series {
                let origin = match &s.origin {
                    Origin::Measured => "measured",
                    Origin::Published(source) => source,
                };
                for p in &s.points {
                    let (x, y) = (p.x.to_string(), optional(p.y));
                    t.row(&[&s.name, origin, &x, &y, &optional(p.lo), &optional(p.hi), &s.spread]);
                }
            }
            add(&format!("figure.{}", f.id), t);
        }
        for table in &d.tables {
            let mut t = Csv::default();
            let heads: Vec<String> = table.columns.iter().map(super::grid::head).collect();
            t.row(&heads.iter().map(String::as_str).collect::<Vec<_>>());
            for row in &table.rows {
                let cells: Vec<String> = row.iter().map(cell).collect();
                t.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            }
            add(&format!("table.{}", table.id), t);
        }
        let mut t = Csv::default();
        t.row(&["distribution", "group", "unit", "quantity", "percentile", "value"]);
        for s in &d.distributions {
            let mut say = |quantity: &str, percent: &str, value: &str| {
                t.row(&[&s.title, &s.group, &s.unit, quantity, percent, value]);
            };
            say("count", "", &s.count.to_string());
            say("missing", "", &s.missing.to_string());
            say("mean", "", &optional(s.mean));
            say("standard deviation", "", &optional(s.standard_deviation));
            for (p, v) in &s.percentiles {
                say("percentile", &p.to_string(), &v.to_string());
            }
        }
        add("distributions", t);
    }
    files
}

#[derive(Default)]
struct Csv {
    text: String,
    rows: usize,
}

impl Csv {
    fn row(&mut self, fields: &[&str]) {
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            if field.contains([',', '"', '\n', '\r']) {
                self.text.push('"');
                self.text.push_str(&field.replace('"', "\"\""));
                self.text.push('"');
            } else {
                self.text.push_str(field);
            }
        }
        self.text.push_str("\r\n");
        self.rows += 1;
    }
}

/// A part of a file's name.
fn plain(what: &str) -> String {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    what.chars().take(80).map(|c| if fit(c) { c } else { '-' }).collect()
}

fn optional(v: Option<f64>) -> String {
    v.map_or_else(String::new, |v| v.to_string())
}

fn cell(c: &Cell) -> String {
    match c {
        Cell::Number(n) => n.to_string(),
        Cell::Text(t) => t.clone(),
        Cell::NotStated => String::new(),
    }
}
