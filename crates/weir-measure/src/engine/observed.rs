//! The switch's own readings while it was measured ([`Sample`]), summed up for the document; and whether it
//! told them at all.
//!
//! Pure. Bounded: a switch may have many interfaces, and a run may be long.

use crate::document::{Cell, Column, Document, Outcome, Samples, Table, Verdict};
use crate::module::Sample;
use std::collections::BTreeMap;
use weir_packet::Nanos;

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
    /// Readings, and the moment of the last one: its samples are of that moment.
    told: u64,
    last: Option<Nanos>,
    /// Questions without an answer, and why the first had none.
    untold: u64,
    why: String,
    /// It was reset by the engine and has told nothing since.
    resetting: bool,
    /// The least and the most of the CPU's load, in percent.
    load: Option<(f64, f64)>,
}

impl Observed {
    /// A sample of that moment was told, at whatever time.
    pub(super) fn told(&mut self, at: Nanos) {
        self.resetting = false;
        if self.last != Some(at) {
            (self.told, self.last) = (self.told + 1, Some(at));
        }
    }

    /// A sample of the time that is measured.
    pub(super) fn add(&mut self, s: &Sample) {
        if s.what == Sample::CPU {
            let (least, most) = self.load.unwrap_or((s.value, s.value));
            self.load = Some((least.min(s.value), most.max(s.value)));
            return self.cpu.get_or_insert_with(|| Samples::new("%")).record(s.value);
        }
        if let Some(c) = self.counters.get_mut(&s.what) {
            c.last = s.value;
        } else if self.counters.len() < COUNTERS {
            let c = Counter { unit: s.unit.clone(), first: s.value, last: s.value };
            self.counters.insert(s.what.clone(), c);
        }
    }

    /// The engine resets it: until it tells again, that it does not is no fault of its own.
    pub(super) fn reset(&mut self) {
        self.resetting = true;
    }

    /// It was asked, at whatever time, and did not tell.
    pub(super) fn untold(&mut self, why: &str) {
        if self.resetting {
            return;
        }
        if self.untold == 0 {
            self.why = why.to_owned();
        }
        self.untold += 1;
    }

    /// Whether the switch tells its state, where it was asked to. A datagram may be lost: what it does not
    /// tell at least as often as it does, it does not tell.
    fn verdict(&self) -> Option<Verdict> {
        let id = "state-told";
        if self.told + self.untold == 0 {
            return None;
        }
        let verdict = if self.untold > 0 && self.untold >= self.told {
            let s = format!(
                "The switch was asked {} times for its CPU load and counters, and did not tell them: {}.",
                self.untold, self.why
            );
            Verdict::new(id, Outcome::Fails, s)
        } else {
            Verdict::new(
                id,
                Outcome::Holds,
                "CPU load and counters are told when they are asked for.",
            )
        };
        let verdict =
            verdict.with("not told", self.untold as f64, "").with("told", self.told as f64, "");
        let Some((least, most)) = self.load else { return Some(verdict) };
        Some(verdict.with("CPU, least", least, "%").with("CPU, most", most, "%"))
    }

    /// CPU load as a distribution; by how much counters grew, those that did, as a table.
    pub(super) fn write(&mut self, document: &mut Document) {
        document.verdicts.extend(self.verdict());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reset_silences_is_not_held_against_the_switch() {
        let mut o = Observed::default();
        o.told(Nanos(1));
        o.reset();
        (0..5).for_each(|_| o.untold("no such process"));
        assert_eq!(o.verdict().map(|v| v.outcome), Some(Outcome::Holds));
        // Once it has told again, it counts.
        o.told(Nanos(2));
        (0..5).for_each(|_| o.untold("it is silent"));
        let v = o.verdict().unwrap();
        assert_eq!(v.outcome, Outcome::Fails);
        assert!(v.sentence.contains("asked 5 times") && v.sentence.contains("it is silent"));
    }
}
