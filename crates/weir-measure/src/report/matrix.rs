//! Which statement holds on which device: a row for each statement, a column for each device that was
//! measured. A paper's documents have no columns, nor has what is about no device.
//!
//! Pure. Shown by the page and on terminals.

use super::pair::Module;
use crate::document::{Document, Outcome};

/// Statements and devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix<'a> {
    /// What the columns are called.
    pub devices: Vec<&'a str>,
    /// The rows, in the modules' order.
    pub rows: Vec<Row<'a>>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The module that makes it.
    pub module: &'a str,
    /// Its id.
    pub verdict: &'a str,
    /// Of each device; `None` where it was not made.
    pub outcomes: Vec<Option<Outcome>>,
}

/// The statements of these modules.
pub fn of<'a>(modules: &'a [Module<'a>]) -> Matrix<'a> {
    let mut devices: Vec<&str> = Vec::new();
    let mut rows: Vec<Row<'a>> = Vec::new();
    for m in modules {
        let measured = |d: &Document| d.origin.is_measured() && !d.dut.name.is_empty();
        for (label, d) in m.documents.iter().filter(|(_, d)| measured(d)) {
            let column = devices.iter().position(|d| d == label).unwrap_or_else(|| {
                devices.push(label);
                devices.len() - 1
            });
            for v in &d.verdicts {
                let same = |r: &Row<'_>| r.module == m.id && r.verdict == v.id;
                let at = rows.iter().position(same).unwrap_or_else(|| {
                    rows.push(Row { module: m.id, verdict: &v.id, outcomes: Vec::new() });
                    rows.len() - 1
                });
                let Some(row) = rows.get_mut(at) else { continue };
                row.outcomes.resize(row.outcomes.len().max(column + 1), None);
                row.outcomes[column] = Some(v.outcome);
            }
        }
    }
    for row in &mut rows {
        row.outcomes.resize(devices.len(), None);
    }
    Matrix { devices, rows }
}
