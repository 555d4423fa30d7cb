//! The switch's own readings while it was measured ([`Sample`]), summed up for the document.
//!
//! Pure. Bounded: a switch may have many interfaces, and a run may be long.

use crate::document::{Cell, Column, Document, Samples, Table};
use crate::module::Sample;
use std::collections::BTreeMap;

/// Counters that are kept.
const COUNTERS: usize = 512;

#[derive(Debug)]
struct Counter {
    unit: String,
    first: f64,
    last: f64,
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    cpu: Option<Samples>,
    counters: BTreeMap<String, Counter>,
}

impl Observed {
    pub(super) fn add(&mut self, s: &Sample) {
        if s.what == Sample::CPU {
            return self.cpu.get_or_insert_with(|| Samples::new("%")).record(s.value);
        }
        if let Some(c) = self.counters.get_mut(&s.what) {
            c.last = s.value;
        } else if self.counters.len() < COUNTERS {
            let c = Counter { unit: s.unit.clone(), first: s.value, last: s.value };
            self.counters.insert(s.what.clone(), c);
        }
    }

    /// CPU load as a distribution; by how much counters grew, those that did, as a table.
    pub(super) fn write(&mut self, document: &mut Document) {
        if let Some(cpu) = self.cpu.take() {
            document.distribution("device-cpu", "CPU load of the switch", cpu);
        }
        if self.counters.is_empty() {
            return;
        }
        let columns =
            vec![Column::text("counter"), Column::number("grown by", ""), Column::text("unit")];
        let title = "The switch's own counters while it was measured";
        let mut table = Table::new("device-counters", title, columns);
        for (what, c) in self.counters.iter().filter(|(_, c)| c.last != c.first) {
            let grown = Cell::from(c.last - c.first);
            table.row([Cell::from(what.as_str()), grown, Cell::from(c.unit.as_str())]);
        }
        document.tables.push(table);
    }
}
