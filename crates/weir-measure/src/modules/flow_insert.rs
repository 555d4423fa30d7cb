//! `flow-insert`: how long until a rule that was inserted treats frames, and does the barrier tell the
//! truth? 001 §4.2, figure 3.
//!
//! For each number of entries, over and over: empty the table and wait until no probe comes through; send
//! the entries and a barrier; note when the first and the last entry were written (*transmission delay*),
//! when the barrier's reply came (*barrier notification*), and when a probe had come through every entry
//! (*first packet*). Probes go round-robin over the entries (or to the last alone) at a constant rate; so
//! a time on the data plane is known to one round of them.
//!
//! **The barrier's verdict** rests on frames alone: a probe of an entry that left after the barrier's reply
//! was read, and did not come through while a later one did, was treated by the table of before. One such
//! run may be a probe lost by chance; they are counted over all runs.

use super::updates::{Kind, Order, Row, Updates};
use super::verdicts::no_barrier;
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, Samples, Series, Table, Verdict,
};
use crate::module::{About, Bench, Captured, Context, Leaves, Module, Params};
use crate::stats::quantile;
use std::time::Duration;
use weir_openflow::model::Msg;
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("flow-insert", "How long until inserted entries treat frames; is the barrier true")
        .leaving(Leaves::Sizes)
        .paper("001 figure 3")
        .counts(
            "entries",
            "",
            "entries inserted at once, one size after the other",
            "1,2,5,10,20,50,100,200,500,1000",
            1,
            65_000,
        )
        .quick("1,10,100")
        .count("repetitions", "", "runs of each size", 100, 1, 100_000)
        .quick("10")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
        .word("match", "what the entries match", &["wildcard", "exact"])
        .word("watch", "which entries probes are sent to", &["all", "last"])
        .number("wait", "s", "how long an entry may take to work", 30.0, 0.01, 3600.0)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let kind = if p.word("match") == "exact" { Kind::Exact } else { Kind::Wildcard };
    let row = |n: u64| Row { entries: n as usize, kind, order: Order::Same, ..Row::default() };
    let rows = p.counts("entries").into_iter().map(row).collect();
    Box::new(FlowInsert { updates: Updates::new(p, rows) })
}

struct FlowInsert {
    updates: Updates,
}

impl Module for FlowInsert {
    fn takes(&self) -> Option<Duration> {
        self.updates.takes()
    }
    fn start(&mut self, cx: &mut Context<'_>) {
        self.updates.start(cx);
    }
    fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        self.updates.written(cx, xid, at);
    }
    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        self.updates.message(cx, at, msg);
    }
    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        self.updates.frame(cx, frame);
    }
    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        self.updates.timer_is_due(cx, token);
    }

    fn finish(&mut self, bench: &Bench, document: &mut Document) {
        document.probe = Some(self.updates.resolution());
        self.figure(document);
        self.table(document);
        self.verdict(bench, document);
        for row in &mut self.updates.rows {
            let mut samples = Samples::new("ms").in_group("first packet");
            row.first_packet.iter().for_each(|&ms| samples.record(ms));
            (0..row.incomplete).for_each(|_| samples.miss());
            let (n, title) = (row.entries, format!("{} entries", row.entries));
            document.distribution(&format!("first-packet-{n}"), &title, samples);
            for (name, values) in [("barrier", &row.barrier), ("transmission", &row.transmission)] {
                let mut samples = Samples::new("ms").in_group(name);
                values.iter().for_each(|&ms| samples.record(ms));
                document.distribution(&format!("{name}-{n}"), &title, samples);
            }
        }
    }
}

/// What entries take, in milliseconds.
enum Price {
    /// Before the first, and each.
    Known { start: f64, each: f64 },
    /// Less than a round of probes; each at most.
    Below { each: f64 },
}

const LO: f64 = 0.1;
const HI: f64 = 0.9;

impl FlowInsert {
    fn figure(&self, document: &mut Document) {
        let mut figure = Figure::new(
            "flow-insertion",
            "Flow entry insertion delay",
            Axis::log("flow entries", ""),
            Axis::log("delay", "ms"),
        );
        type Values = fn(&Row) -> &Vec<f64>;
        let curves: [(&str, Values); 3] = [
            ("barrier notification", |r| &r.barrier),
            ("transmission delay", |r| &r.transmission),
            ("first packet", |r| &r.first_packet),
        ];
        for (name, of) in curves {
            let mut series = Series::measured(name, "10th to 90th percentile");
            for row in self.updates.rows.iter().filter(|r| r.runs > 0) {
                let (x, v) = (row.entries as f64, of(row));
                series.push(match (quantile(v, 0.5), quantile(v, LO), quantile(v, HI)) {
                    (Some(y), Some(lo), Some(hi)) => Point::with_spread(x, y, lo, hi),
                    _ => Point::missing(x),
                });
            }
            figure.series.push(series);
        }
        document.figures.push(figure);
    }

    fn table(&self, document: &mut Document) {
        let columns = vec![
            Column::number("entries", ""),
            Column::number("runs", ""),
            Column::number("barrier", "ms"),
            Column::number("transmission", "ms"),
            Column::number("first packet", "ms"),
            Column::number("first packet p10", "ms"),
            Column::number("first packet p90", "ms"),
            Column::number("per entry", "µs"),
            Column::number("dropped after the reply", "runs"),
            Column::number("incomplete", "runs"),
            Column::number("resolution", "ms"),
            Column::text("refused"),
        ];
        let mut table = Table::new("insertion", "Insertion by number of entries", columns);
        for r in &self.updates.rows {
            let q = |v: &[f64], q| Cell::from(quantile(v, q).unwrap_or(f64::NAN));
            let flows = if self.updates.last_alone { 1.0 } else { r.entries as f64 };
            let per_entry = quantile(&r.first_packet, 0.5).unwrap_or(f64::NAN) * 1e3;
            table.row([
                Cell::from(r.entries as f64),
                Cell::from(r.runs),
                q(&r.barrier, 0.5),
                q(&r.transmission, 0.5),
                q(&r.first_packet, 0.5),
                q(&r.first_packet, LO),
                q(&r.first_packet, HI),
                Cell::from(per_entry / r.entries as f64),
                Cell::from(r.untrue),
                Cell::from(r.incomplete),
                Cell::from(flows / self.updates.fps * 1e3),
                Cell::from(r.refused.clone().unwrap_or_default()),
            ]);
        }
        document.tables.push(table);
    }

    fn verdict(&self, bench: &Bench, document: &mut Document) {
        let runs: u64 = self.updates.rows.iter().map(|r| r.runs).sum();
        let untrue: u64 = self.updates.rows.iter().map(|r| r.untrue).sum();
        let gaps: Vec<f64> = self.updates.rows.iter().flat_map(|r| r.gap.iter().copied()).collect();
        let gap = quantile(&gaps, 0.5).unwrap_or(f64::NAN);
        let share = untrue as f64 / runs.max(1) as f64;
        let (outcome, sentence) = if let Some(v) = no_barrier(bench) {
            (v.outcome, v.sentence)
        } else if runs == 0 {
            (Outcome::Unclear, "Nothing was inserted.".to_owned())
        } else if share >= 0.3 {
            let s = format!(
                "In {untrue} of {runs} runs the barrier was answered before the entries worked: probes sent after the reply were dropped; the last entry worked {gap:.2} ms after the reply (median)."
            );
            (Outcome::Fails, s)
        } else if share > 0.1 {
            let s = format!("In {untrue} of {runs} runs a probe sent after the reply was dropped.");
            (Outcome::Unclear, s)
        } else {
            let s = format!(
                "Once the barrier was answered, the entries worked: in {} of {runs} runs no probe sent after the reply was dropped.",
                runs - untrue
            );
            (Outcome::Holds, s)
        };
        let verdict = Verdict::new("barrier-truthful", outcome, sentence)
            .with("runs", runs as f64, "")
            .with("runs with a probe dropped after the reply", untrue as f64, "")
            .with("from reply to first packet, median", gap, "ms");
        document.verdicts.push(verdict);
        let incomplete: u64 = self.updates.rows.iter().map(|r| r.incomplete).sum();
        let refused = self.updates.rows.iter().find(|r| r.refused.is_some());
        let (outcome, sentence) = match (refused, incomplete, runs) {
            (None, _, 0) => (Outcome::Unclear, "Nothing was inserted.".to_owned()),
            (Some(r), ..) => (
                Outcome::Fails,
                format!(
                    "Of {} entries some were refused: {}.",
                    r.entries,
                    r.refused.as_deref().unwrap_or_default()
                ),
            ),
            (None, 0, _) => (Outcome::Holds, "Every entry came to work.".to_owned()),
            (None, n, _) => (
                Outcome::Fails,
                format!("In {n} of {runs} runs some entries never worked, without an error."),
            ),
        };
        let work = |sentence: String| {
            let v = Verdict::new("entries-work", outcome, sentence);
            v.with("incomplete runs", incomplete as f64, "")
        };
        document.verdicts.push(match self.price() {
            None => work(sentence),
            Some(Price::Known { start, each }) => work(sentence)
                .with("before the first entry", start * 1e3, "µs")
                .with("each entry", each * 1e3, "µs"),
            Some(Price::Below { each }) => {
                let finer = "What each takes is less than the probes resolve: '--set watch=last', or a higher rate, sees more.";
                work(format!("{sentence} {finer}")).with("each entry, at most", each * 1e3, "µs")
            }
        });
        document.verdicts.extend([self.prompt(bench), self.alike()]);
    }

    /// Sizes with what they took in the median, in milliseconds, the fewest entries first.
    fn medians(&self) -> Vec<(usize, f64)> {
        let rows = self.updates.rows.iter().filter(|r| r.refused.is_none());
        let median = |r: &Row| Some((r.entries, quantile(&r.first_packet, 0.5)?));
        let mut all: Vec<_> = rows.filter_map(median).collect();
        all.sort_by_key(|s| s.0);
        all
    }

    /// By the fewest and the most. `None`: there are no two sizes.
    fn price(&self) -> Option<Price> {
        let all = self.medians();
        let (few, many) = (*all.first()?, *all.last()?);
        if few.0 == many.0 {
            return None;
        }
        // What grows with the number of entries may be the probes' round, which does so, too.
        if many.1 - few.1 <= 1.5 * self.round_ms(many.0) {
            return Some(Price::Below { each: many.1 / many.0 as f64 });
        }
        let each = (many.1 - few.1) / (many.0 - few.0) as f64;
        Some(Price::Known { start: few.1 - each * few.0 as f64, each })
    }

    /// From one probe of an entry to its next, in milliseconds.
    fn round_ms(&self, entries: usize) -> f64 {
        let flows = if self.updates.last_alone { 1 } else { entries };
        flows as f64 / self.updates.fps * 1e3
    }

    /// Whether the barrier is answered long after the entries work. One that is answered before they do is prompt,
    /// too: what is wrong with it, the other verdict says.
    fn prompt(&self, bench: &Bench) -> Verdict {
        let id = "barrier-prompt";
        let mut late = (0.0_f64, 0);
        let mut compared = 0;
        for r in &self.updates.rows {
            let (Some(gap), Some(work)) = (quantile(&r.gap, 0.5), quantile(&r.first_packet, 0.5))
            else {
                continue;
            };
            compared += 1;
            if -gap > LATE_MS && -gap > work && -gap > late.0 {
                late = (-gap, r.entries);
            }
        }
        match (bench.barriers, compared, late) {
            (false, ..) => Verdict::new(id, Outcome::Unclear, "The switch has no barrier."),
            (_, 0, _) => Verdict::new(id, Outcome::Unclear, "Nothing was inserted."),
            (.., (_, 0)) => {
                let s = "The barrier is not answered long after the entries work.";
                Verdict::new(id, Outcome::Holds, s)
            }
            (.., (ms, n)) => {
                let s = format!(
                    "The barrier is answered {ms:.2} ms after the entries work (median, {n} entries)."
                );
                Verdict::new(id, Outcome::Fails, s).with("late, median", ms, "ms")
            }
        }
    }

    /// Whether each of many entries takes what each of a few takes.
    fn alike(&self) -> Verdict {
        let id = "entries-cost-alike";
        let all = self.medians();
        let mut worst = None::<(f64, usize, usize)>;
        for (i, few) in all.iter().enumerate() {
            for many in &all[i + 1..] {
                let fair = few.1 * many.0 as f64 / few.0 as f64;
                let allowed = DEARER * fair + 1.5 * self.round_ms(many.0) + 1.0;
                if many.1 > allowed && worst.is_none_or(|w| many.1 / fair > w.0) {
                    worst = Some((many.1 / fair, few.0, many.0));
                }
            }
        }
        match (all.len(), worst) {
            (0 | 1, _) => Verdict::new(id, Outcome::Unclear, "There are no two sizes to compare."),
            (_, None) => Verdict::new(
                id,
                Outcome::Holds,
                "Each of many entries takes no more than of a few.",
            ),
            (_, Some((times, few, many))) => {
                let s = format!(
                    "Each of {many} entries takes {times:.1} times what each of {few} takes."
                );
                Verdict::new(id, Outcome::Fails, s).with("times", times, "").with(
                    "among",
                    many as f64,
                    "entries",
                )
            }
        }
    }
}

/// A reply is late by so much, and by more than the insertion took.
const LATE_MS: f64 = 3.0;
/// Dearer by this factor, and by more than the probes' resolution.
const DEARER: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dut::profile::Profile;
    use crate::truth::simulated;

    #[test]
    fn a_barrier_that_is_early_is_prompt_and_no_more() {
        let device = Profile::builtin("early-barrier").unwrap();
        let d = simulated(device, None, ("flow-insert", &[("repetitions", "3")]), 0).unwrap();
        let of = |id: &str| d.verdicts.iter().find(|v| v.id == id).unwrap();
        assert_eq!(of("barrier-truthful").outcome, Outcome::Fails);
        let prompt = of("barrier-prompt");
        assert_eq!(prompt.outcome, Outcome::Holds);
        // The one sentence is not to deny the other.
        assert_eq!(prompt.sentence, "The barrier is not answered long after the entries work.");
    }
}
