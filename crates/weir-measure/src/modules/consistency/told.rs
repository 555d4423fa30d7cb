//! What `consistency` says of what it found: its table and its verdicts.
//!
//! Pure. Part of `consistency`, when all has been measured.

use super::super::verdicts::{barrier_truthful, by_share, frames_unchanged};
use super::{Consistency, Row};
use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::module::Bench;

impl Consistency {
    /// Writes all of it into the document.
    pub(super) fn tell(&self, bench: &Bench, document: &mut Document) {
        let (bytes, flows) = (self.frame.saturating_sub(4) as u32, self.flows as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows));
        self.table(document);
        for r in self.rows.iter().filter(|r| r.updates > 0) {
            let mut samples = Samples::new("ms").in_group("update delay");
            r.delays.iter().for_each(|&ms| samples.record(ms));
            (0..r.incomplete).for_each(|_| samples.miss());
            let id = format!("update-{}", r.kind.name().replace(' ', "-"));
            document.distribution(&id, r.kind.name(), samples);
        }
        let updates: u64 = self.rows.iter().map(|r| r.updates).sum();
        let stale = self.rows.iter().map(|r| r.with_stale).sum();
        let latest = self.rows.iter().map(|r| r.stale_ms).fold(0.0, f64::max);
        document.verdicts.push(gapless(&self.rows, self.lost_by_chance()));
        let verdict = barrier_truthful(bench, updates, stale);
        document.verdicts.push(verdict.with("after the reply, at most", latest, "ms"));
        document.verdicts.extend([self.ordered(), self.lasting(), self.in_order(), self.once()]);
        document.verdicts.push(self.unchanged());
    }

    fn sum(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().map(of).sum()
    }

    /// Of a hundred probes outside of gaps, so many were lost; of rows that came to their end.
    fn lost_by_chance(&self) -> f64 {
        let ended = || self.rows.iter().filter(|r| r.came > 0);
        let sent: u64 = ended().map(|r| r.sent).sum();
        let there: u64 = ended().map(|r| r.came + r.lost_in_gaps).sum();
        sent.saturating_sub(there) as f64 / sent.max(1) as f64
    }

    fn table(&self, document: &mut Document) {
        let columns = vec![
            Column::text("change"),
            Column::number("updates", ""),
            Column::number("barrier", "ms"),
            Column::number("data plane", "ms"),
            Column::number("neither rule", "updates"),
            Column::number("probes lost there", ""),
            Column::number("longest", "ms"),
            Column::number("old after the reply", "updates"),
            Column::number("out of order", "updates"),
            Column::number("back to the old", "updates"),
            Column::number("incomplete", "updates"),
            Column::number("probes", ""),
            Column::number("lost otherwise", ""),
            Column::number("twice", ""),
            Column::number("reordered", ""),
            Column::number("changed", ""),
            Column::text("refused"),
        ];
        let mut table = Table::new("consistency", "Frames while rules change", columns);
        for r in self.rows.iter().filter(|r| r.updates > 0 || r.refused.is_some()) {
            let q = |v: &[f64]| Cell::from(crate::stats::quantile(v, 0.5).unwrap_or(f64::NAN));
            let lost = match r.came {
                0 => f64::NAN,
                n => r.sent.saturating_sub(n + r.lost_in_gaps) as f64,
            };
            table.row([
                Cell::from(r.kind.name()),
                Cell::from(r.updates),
                q(&r.barriers),
                q(&r.delays),
                Cell::from(r.with_gap),
                Cell::from(r.lost_in_gaps),
                Cell::from(r.longest_ms),
                Cell::from(r.with_stale),
                Cell::from(r.with_overtaken),
                Cell::from(r.with_back),
                Cell::from(r.incomplete),
                Cell::from(r.sent),
                Cell::from(lost),
                Cell::from(r.twice),
                Cell::from(r.late),
                Cell::from(r.changed),
                Cell::from(r.refused.clone().unwrap_or_default()),
            ]);
        }
        document.tables.push(table);
    }

    fn ordered(&self) -> Verdict {
        let id = "changes-in-order";
        let (n, of) = (self.sum(|r| r.with_overtaken), self.sum(|r| r.updates));
        if of == 0 {
            return Verdict::new(id, Outcome::Unclear, "Nothing was changed.");
        }
        // The barriers' row by row: a kind of change that is always in order does not excuse another.
        let share = |r: &Row| r.with_overtaken as f64 / r.updates.max(1) as f64;
        let worst = self.rows.iter().map(share).fold(0.0, f64::max);
        let outcome = by_share(worst);
        let s = match outcome {
            Outcome::Holds => {
                "Changes come to work in the order in which they were sent.".to_owned()
            }
            _ => format!(
                "In {n} of {of} updates a change worked before one that was sent earlier; without a barrier between them that is allowed (1.3 §6.2)."
            ),
        };
        Verdict::new(id, outcome, s).with("updates", n as f64, "")
    }

    fn lasting(&self) -> Verdict {
        let id = "changes-last";
        let (back, missing) = (self.sum(|r| r.with_back), self.sum(|r| r.incomplete));
        let of = self.sum(|r| r.updates);
        let outcome = match (of, back + missing) {
            (0, _) => Outcome::Unclear,
            (_, 0) => Outcome::Holds,
            (of, n) if missing == 0 => by_share(n as f64 / of as f64),
            _ => Outcome::Fails,
        };
        let s = match (of, back + missing) {
            (0, _) => "Nothing was changed.".to_owned(),
            (_, 0) => "Once a frame met the new rule, so did all that followed.".to_owned(),
            _ => format!(
                "In {back} of {of} updates a frame met the old rule after another of its flow had met the new; in {missing} some flows never changed."
            ),
        };
        Verdict::new(id, outcome, s).with("fallen back", back as f64, "").with(
            "incomplete",
            missing as f64,
            "",
        )
    }

    fn in_order(&self) -> Verdict {
        let id = "frames-in-order";
        let (n, of) = (self.sum(|r| r.late), self.sum(|r| r.came));
        let others = self.sum(|r| r.late_to_others);
        // Who overtakes the next frame alone is seen with one flow.
        let apart_ms = self.flows as f64 / self.fps * 1e3;
        let (outcome, s) = match (of, n) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) if self.flows > 1 => {
                let more = match others {
                    0 => String::new(),
                    n => format!(
                        " {n} were overtaken by frames of other flows: '--set flows=1' looks closer."
                    ),
                };
                let s = format!(
                    "No frame came behind one of its flow that had left {apart_ms:.2} ms later, or more.{more}"
                );
                (Outcome::Holds, s)
            }
            (_, 0) => (Outcome::Holds, "Frames of a flow leave in their order.".to_owned()),
            _ => (
                Outcome::Fails,
                format!("{n} of {of} frames came behind a later one of their flow."),
            ),
        };
        Verdict::new(id, outcome, s)
            .with("reordered", n as f64, "")
            .with("behind frames of other flows only", others as f64, "")
            .with("between two frames of a flow", apart_ms, "ms")
    }

    fn once(&self) -> Verdict {
        let id = "frames-once";
        let (n, of) = (self.sum(|r| r.twice), self.sum(|r| r.came));
        let (outcome, s) = match (of, n) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) => (Outcome::Holds, "No frame came twice.".to_owned()),
            _ => (Outcome::Fails, format!("{n} of {of} frames came twice.")),
        };
        Verdict::new(id, outcome, s).with("twice", n as f64, "")
    }

    fn unchanged(&self) -> Verdict {
        let (changed, whole) = (self.sum(|r| r.changed), self.sum(|r| r.came));
        frames_unchanged(changed, whole)
    }
}

/// Whether frames met one rule or the other; `chance`: of probes outside of gaps, the share that was lost.
fn gapless(rows: &[Row], chance: f64) -> Verdict {
    let id = "one-rule-or-the-other";
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let (updates, with_gap) = (sum(|r| r.updates), sum(|r| r.with_gap));
    let lost = sum(|r| r.lost_in_gaps);
    if updates == 0 {
        return Verdict::new(id, Outcome::Unclear, "Nothing was changed.");
    }
    // A flow looks as if it had a gap when a probe next to its change is lost, before or behind.
    let by_chance = 2.0 * chance;
    let is_more = |r: &Row| r.gaps as f64 / r.turned.max(1) as f64 > 3.0 * by_chance + 0.002;
    let mut worst: Option<(Outcome, &Row)> = None;
    for r in rows.iter().filter(|r| r.updates > 0 && is_more(r)) {
        let outcome = by_share(r.with_gap as f64 / r.updates as f64);
        if outcome != Outcome::Holds && worst.is_none_or(|w| w.0 != Outcome::Fails) {
            worst = Some((outcome, r));
        }
    }
    let longest = rows.iter().map(|r| r.longest_ms).fold(0.0, f64::max);
    let (outcome, s) = match worst {
        Some((outcome, r)) => {
            // The evidence is of all kinds.
            let all = match with_gap - r.with_gap {
                0 => String::new(),
                _ => format!("; of all kinds, in {with_gap} of {updates}"),
            };
            let s = format!(
                "In {} of {} updates ('{}') frames met neither the old rule nor the new one, for {:.2} ms and more{all}.",
                r.with_gap,
                r.updates,
                r.kind.name(),
                r.longest_ms
            );
            (outcome, s)
        }
        None if with_gap == 0 => {
            (Outcome::Holds, "Every frame met the old rule or the new one.".to_owned())
        }
        None => {
            let why = if rows.iter().any(is_more) {
                "up to one update of a kind in ten may be chance"
            } else {
                "so few of the flows may be probes lost by chance"
            };
            let s = format!(
                "In {with_gap} of {updates} updates {lost} frames between the old rule and the new one did not come, for {longest:.2} ms and more: {why}."
            );
            (Outcome::Holds, s)
        }
    };
    Verdict::new(id, outcome, s)
        .with("updates with a gap", with_gap as f64, "")
        .with("frames in gaps", lost as f64, "")
        .with("frames lost otherwise", chance * 100.0, "%")
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    /// Ten updates of 32 flows, of which so many had a gap of 17 frames each.
    fn row(kind: Kind, with_gap: u64) -> Row {
        let (turned, gaps, lost_in_gaps) = (320, 5 * with_gap, 17 * with_gap);
        let longest_ms = if with_gap > 0 { 4.25 } else { 0.0 };
        let updates = 10;
        Row { kind, updates, with_gap, turned, gaps, lost_in_gaps, longest_ms, ..Row::default() }
    }

    fn check(modify: u64, replace: u64, chance: f64, outcome: Outcome, words: &str) {
        let rows = [row(Kind::Modify, modify), row(Kind::Replace, replace)];
        let v = gapless(&rows, chance);
        assert_eq!((v.outcome, v.sentence.as_str()), (outcome, words));
    }

    #[test]
    fn gaps_are_told_also_where_they_may_be_chance() {
        use Outcome::{Fails, Holds, Unclear};
        check(0, 0, 0.0, Holds, "Every frame met the old rule or the new one.");
        check(
            1,
            0,
            0.0,
            Holds,
            "In 1 of 20 updates 17 frames between the old rule and the new one did not come, for 4.25 ms and more: up to one update of a kind in ten may be chance.",
        );
        check(
            3,
            3,
            0.01,
            Holds,
            "In 6 of 20 updates 102 frames between the old rule and the new one did not come, for 4.25 ms and more: so few of the flows may be probes lost by chance.",
        );
        check(
            2,
            0,
            0.0,
            Unclear,
            "In 2 of 10 updates ('modify') frames met neither the old rule nor the new one, for 4.25 ms and more.",
        );
        check(
            2,
            5,
            0.0,
            Fails,
            "In 5 of 10 updates ('replace') frames met neither the old rule nor the new one, for 4.25 ms and more; of all kinds, in 7 of 20.",
        );
    }
}
