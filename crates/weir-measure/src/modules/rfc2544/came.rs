//! What came beside what was lost: frames twice, out of order, changed. RFC 2544 §10 would have the first two in the
//! report.
//!
//! Pure. Each trial is entered as it ends; by frame size and benchmark in the end.

use super::super::verdicts::frames_unchanged;
use super::plan::Stage;
use crate::document::{Cell, Column, Document, Outcome, Table, Verdict};
use crate::module::Count;

/// The trials of one benchmark at one frame size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    size: usize,
    stage: Stage,
    trials: u64,
    /// Trials in which some frame came so.
    marred: u64,
    sent: u64,
    received: u64,
    came: Count,
}

/// All of them, in the order in which they began.
#[derive(Default)]
pub(super) struct Ledger(Vec<Row>);

/// Out of order in a thousand: so many may be the instrument's own, which was given another core meanwhile.
const CHANCE: f64 = 1.0;

impl Ledger {
    /// A trial has ended.
    pub(super) fn enter(
        &mut self,
        (size, stage): (usize, Stage),
        (sent, received): (u64, u64),
        came: &Count,
    ) {
        if self.0.last().is_none_or(|r| (r.size, r.stage) != (size, stage)) {
            let (came, received) = (Count::default(), 0);
            self.0.push(Row { size, stage, trials: 0, marred: 0, sent: 0, received, came });
        }
        let Some(row) = self.0.last_mut() else { return };
        row.trials += 1;
        row.marred += u64::from(came.duplicated + came.reordered + came.changed > 0);
        row.sent += sent;
        row.received += received;
        row.came.add(came);
    }

    /// Writes all of it into the document.
    pub(super) fn tell(&self, document: &mut Document) {
        if self.0.is_empty() {
            return;
        }
        document.tables.push(self.table());
        document.verdicts.extend([self.unchanged(), self.once(), self.in_order()]);
    }

    fn table(&self) -> Table {
        let columns = vec![
            Column::number("frame size", "B"),
            Column::text("benchmark"),
            Column::number("trials", ""),
            Column::number("sent", "frames"),
            Column::number("received", "frames"),
            Column::number("changed", "frames"),
            Column::number("twice", "frames"),
            Column::number("out of order", "frames"),
            Column::number("in", "trials"),
        ];
        let mut table = Table::new("came", "Frames changed, doubled or out of order", columns);
        for r in &self.0 {
            table.row([
                Cell::from(r.size as u64),
                Cell::from(r.stage.word()),
                Cell::from(r.trials),
                Cell::from(r.sent),
                Cell::from(r.received),
                Cell::from(r.came.changed),
                Cell::from(r.came.duplicated),
                Cell::from(r.came.reordered),
                Cell::from(r.marred),
            ]);
        }
        table
    }

    fn sum(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    fn unchanged(&self) -> Verdict {
        let (changed, whole) = (self.sum(|r| r.came.changed), self.sum(|r| r.came.frames));
        frames_unchanged(changed, whole)
    }

    fn once(&self) -> Verdict {
        let id = "frames-once";
        let (twice, of) = (self.sum(|r| r.came.duplicated), self.sum(|r| r.came.frames));
        let (outcome, s) = match (of, twice) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) => (Outcome::Holds, "No frame came twice.".to_owned()),
            (_, n) => {
                let s = format!("Beside {of} frames {n} came that had come before.");
                (Outcome::Fails, s)
            }
        };
        Verdict::new(id, outcome, s).with("twice", twice as f64, "")
    }

    fn in_order(&self) -> Verdict {
        let id = "frames-in-order";
        let (late, of) = (self.sum(|r| r.came.reordered), self.sum(|r| r.came.frames));
        let share = |r: &Row| r.came.reordered as f64 * 1e3 / r.came.frames.max(1) as f64;
        let most = self.0.iter().map(share).fold(0.0, f64::max);
        let behind = format!("{late} of {of} frames came behind a later one of their flow");
        let (outcome, s) = match (of, late) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) => (Outcome::Holds, "Frames of a flow leave in their order.".to_owned()),
            _ if most > CHANCE => (Outcome::Fails, format!("{behind}.")),
            _ => (
                Outcome::Unclear,
                format!("{behind}: so few may have changed places in the instrument."),
            ),
        };
        Verdict::new(id, outcome, s).with("reordered", late as f64, "").with(
            "of a benchmark's frames, at most",
            most / 10.0,
            "%",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Dut;
    use crate::environment::Environment;

    fn of(trials: &[Count]) -> Document {
        let mut ledger = Ledger::default();
        for t in trials {
            ledger.enter((64, Stage::Loss), (t.frames + t.changed, t.frames), t);
        }
        let mut d = Document::new("rfc2544", "", Dut::default(), Environment::nowhere());
        ledger.tell(&mut d);
        d
    }

    fn outcomes(d: &Document) -> Vec<Outcome> {
        d.verdicts.iter().map(|v| v.outcome).collect()
    }

    #[test]
    fn each_kind_has_its_verdict() {
        use Outcome::{Fails, Holds, Unclear};
        let whole = Count { frames: 10_000, ..Count::default() };
        assert_eq!(outcomes(&of(&[whole])), [Holds, Holds, Holds]);
        assert_eq!(outcomes(&of(&[Count { changed: 1, ..whole }])), [Fails, Holds, Holds]);
        assert_eq!(outcomes(&of(&[Count { duplicated: 1, ..whole }])), [Holds, Fails, Holds]);
        // One in a thousand may be the sender's own, beyond that it is the switch.
        for (reordered, outcome) in [(10, Unclear), (11, Fails)] {
            let d = of(&[Count { reordered, ..whole }]);
            assert_eq!(outcomes(&d), [Holds, Holds, outcome]);
        }
        assert_eq!(outcomes(&of(&[Count::default()])), [Unclear; 3]);
        assert_eq!(outcomes(&of(&[])), []);
    }

    #[test]
    fn trials_are_counted_apart_and_summed_up() {
        let whole = Count { frames: 100, ..Count::default() };
        let d = of(&[whole, Count { changed: 2, duplicated: 3, ..whole }]);
        let want = [2, 202, 200, 2, 3, 0, 1].map(|n: u64| Cell::from(n));
        assert_eq!(d.tables[0].rows.len(), 1);
        assert_eq!(d.tables[0].rows[0][2..], want);
        assert_eq!(
            d.verdicts[0].sentence,
            "2 of 202 frames came with other bytes; they count as lost."
        );
    }
}
