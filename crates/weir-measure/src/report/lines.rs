//! Documents as JSON lines: one flat object for each fact, so that `jq`, `grep` and data frames take
//! them as they are.
//!
//! Pure. Each line says what it is (`"fact"`), of which module, device and run.

use crate::document::{Cell, Document, Origin};
use serde_json::{Value, json};

/// All documents' facts, a line each.
pub fn lines(documents: &[Document]) -> String {
    let mut text = String::new();
    for d in documents {
        let mut add = |fact: &str, object: Value| {
            let mut line = json!({
                "fact": fact, "module": d.id, "device": d.dut.name, "date": d.environment.date,
            });
            if let (Some(line), Value::Object(rest)) = (line.as_object_mut(), object) {
                line.extend(rest);
            }
            text.push_str(&line.to_string());
            text.push('\n');
        };
        add(
            "run",
            json!({
                "title": d.title, "published": source(&d.origin), "quick": d.quick, "partial": d.partial,
                "duration_s": d.duration_s, "command": d.environment.command,
                "commit": d.environment.commit, "kernel": d.environment.kernel,
            }),
        );
        for p in &d.parameters {
            add("parameter", json!({ "name": p.name, "value": cell(&p.value), "unit": p.unit }));
        }
        for v in &d.verdicts {
            let (outcome, evidence) = (v.outcome.word(), &v.evidence);
            add(
                "verdict",
                json!({
                    "verdict": v.id, "outcome": outcome, "sentence": v.sentence,
                    "evidence": evidence,
                }),
            );
        }
        for f in &d.figures {
            for s in &f.series {
                let published = source(&s.origin);
                for p in &s.points {
                    add(
                        "point",
                        json!({
                            "figure": f.id, "series": s.name, "published": published,
                            "x": p.x, "y": p.y, "lo": p.lo, "hi": p.hi,
                            "x_unit": f.x.unit, "y_unit": f.y.unit,
                        }),
                    );
                }
            }
        }
        for t in &d.tables {
            for r in &t.rows {
                let cells = t.columns.iter().zip(r);
                let row: serde_json::Map<String, Value> =
                    cells.map(|(c, v)| (super::grid::head(c), cell(v))).collect();
                add("row", json!({ "table": t.id, "row": row }));
            }
        }
        for s in &d.distributions {
            add(
                "distribution",
                json!({
                    "distribution": s.id, "title": s.title, "group": s.group, "unit": s.unit,
                    "count": s.count, "missing": s.missing, "mean": s.mean, "min": s.min,
                    "max": s.max, "standard_deviation": s.standard_deviation,
                    "percentiles": s.percentiles,
                }),
            );
        }
        for n in &d.notes {
            add("note", json!({ "note": n }));
        }
    }
    text
}

/// Where a paper has it.
fn source(origin: &Origin) -> Option<&str> {
    match origin {
        Origin::Measured => None,
        Origin::Published(source) => Some(source),
    }
}

fn cell(c: &Cell) -> Value {
    serde_json::to_value(c).unwrap_or(Value::Null)
}
