//! `flow-modify`: is changing entries dearer than inserting them; does it matter what they match, and in
//! which order their priorities come? 001 §4.2, figure 4.
//!
//! Insertion, modification and deletion, of exact and of wildcard entries, without priorities in order and
//! with rising and falling ones, each as `flow-insert` measures insertion: from the first message written to
//! the moment when probes show the last change.

use super::updates::{Kind, Operation, Order, Row, Updates};
use super::verdicts::barrier_truthful;
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, Samples, Series, Table, Verdict,
};
use crate::module::{About, Bench, Captured, Context, Leaves, Module, Params};
use crate::stats::{clearly_more, quantile};
use std::time::Duration;
use weir_openflow::model::Msg;
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new(
        "flow-modify",
        "Is changing entries dearer than inserting them, and for which entries",
    )
    .leaving(Leaves::Sizes)
    .paper("001 figure 4")
    .counts("entries", "", "entries changed at once", "1,2,5,10,20,50,100,200,500,1000", 1, 65_000)
    .quick("10,100")
    .count("repetitions", "", "runs of each", 100, 1, 100_000)
    .quick("3")
    .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
    .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
    .word("watch", "which entries probes are sent to", &["all", "last"])
    .number("wait", "s", "how long a change may take to work", 30.0, 0.01, 3600.0)
}

/// What is compared: operation, match, priorities, name.
const KINDS: [(Operation, Kind, Order, &str); 8] = [
    (Operation::Insert, Kind::Exact, Order::Same, "insert, exact"),
    (Operation::Insert, Kind::Wildcard, Order::Same, "insert, wildcard"),
    (Operation::Insert, Kind::Wildcard, Order::Rising, "insert, rising priorities"),
    (Operation::Insert, Kind::Wildcard, Order::Falling, "insert, falling priorities"),
    (Operation::Modify, Kind::Exact, Order::Same, "modify, exact"),
    (Operation::Modify, Kind::Wildcard, Order::Same, "modify, wildcard"),
    (Operation::Delete, Kind::Exact, Order::Same, "delete, exact"),
    (Operation::Delete, Kind::Wildcard, Order::Same, "delete, wildcard"),
];

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let mut rows = Vec::new();
    for (operation, kind, order, _) in KINDS {
        for n in p.counts("entries") {
            rows.push(Row { operation, kind, order, entries: n as usize, ..Row::default() });
        }
    }
    Box::new(FlowModify { updates: Updates::new(p, rows) })
}

struct FlowModify {
    updates: Updates,
}

fn name(r: &Row) -> &'static str {
    let found = KINDS.iter().find(|k| (k.0, k.1, k.2) == (r.operation, r.kind, r.order));
    found.map_or("", |k| k.3)
}

impl Module for FlowModify {
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
        let u = &self.updates;
        document.probe = Some(u.resolution());
        let mut table = Table::new(
            "changes",
            "Changes by kind and number of entries",
            vec![
                Column::text("change"),
                Column::number("entries", ""),
                Column::number("runs", ""),
                Column::number("barrier", "ms"),
                Column::number("data plane", "ms"),
                Column::number("p10", "ms"),
                Column::number("p90", "ms"),
                Column::number("per entry", "µs"),
                Column::number("untrue barriers", "runs"),
                Column::number("incomplete", "runs"),
                Column::text("refused"),
            ],
        );
        let mut figure = Figure::new(
            "flow-modification",
            "Delay of flow insertion and flow modification, as observed from the data plane",
            Axis::log("flow entries", ""),
            Axis::log("delay", "ms"),
        );
        for k in KINDS {
            let mut series = Series::measured(k.3, "10th to 90th percentile");
            for r in u.rows.iter().filter(|r| name(r) == k.3 && (r.runs > 0 || r.refused.is_some()))
            {
                let q = |v: &[f64], q| quantile(v, q).unwrap_or(f64::NAN);
                let (p10, p50, p90) =
                    (q(&r.first_packet, 0.1), q(&r.first_packet, 0.5), q(&r.first_packet, 0.9));
                let x = r.entries as f64;
                table.row([
                    Cell::from(k.3),
                    Cell::from(x),
                    Cell::from(r.runs),
                    Cell::from(q(&r.barrier, 0.5)),
                    Cell::from(p50),
                    Cell::from(p10),
                    Cell::from(p90),
                    Cell::from(p50 * 1e3 / x),
                    Cell::from(r.untrue),
                    Cell::from(r.incomplete),
                    Cell::from(r.refused.clone().unwrap_or_default()),
                ]);
                if r.runs == 0 {
                    continue;
                }
                series.push(Point::with_spread(x, p50, p10, p90));
                let mut samples = Samples::new("ms").in_group(k.3);
                r.first_packet.iter().for_each(|&ms| samples.record(ms));
                (0..r.incomplete).for_each(|_| samples.miss());
                let id = format!("{}-{}", k.3.replace(", ", "-").replace(' ', "-"), r.entries);
                document.distribution(&id, &format!("{} entries", r.entries), samples);
            }
            figure.series.push(series);
        }
        document.tables.push(table);
        document.figures.push(figure);
        document.verdicts.push(self.complete());
        document.verdicts.push(self.dearer(Operation::Modify, "modification-as-cheap"));
        document.verdicts.push(self.dearer(Operation::Delete, "deletion-as-cheap"));
        document.verdicts.push(self.order());
        let runs = u.rows.iter().map(|r| r.runs).sum();
        let untrue = u.rows.iter().map(|r| r.untrue).sum();
        document.verdicts.push(barrier_truthful(bench, runs, untrue));
    }
}

/// Dearer by this factor, and by more than the probes' resolution.
const DEARER: f64 = 2.0;

/// Why a figure is no verdict.
const SPREAD: &str = "repetitions are too few, or differ too much, to tell it from chance";

/// What comparing two kinds of changes came to.
#[derive(Default)]
struct Compared {
    /// Sizes at which it was done.
    sizes: usize,
    /// Those at which the first is dearer by the median, with the factor.
    dearer: Vec<(usize, f64)>,
    /// Those of them at which that can't be chance.
    clearly: usize,
    /// And nor can the factor.
    strictly: usize,
    /// Most runs that one of the compared rows has.
    runs: usize,
}

impl Compared {
    fn and(mut self, other: Self) -> Self {
        self.dearer.extend(other.dearer);
        self.sizes += other.sizes;
        self.clearly += other.clearly;
        self.strictly += other.strictly;
        self.runs = self.runs.max(other.runs);
        self
    }

    /// What follows. A machine that stands still for a tenth of a second does so over all of a few runs: of so few
    /// one comparison of several proves nothing.
    fn outcome(&self) -> Outcome {
        let needed = if self.runs < FEW && self.sizes > 1 { 2 } else { 1 };
        match (self.sizes, self.dearer.len()) {
            (0, _) => Outcome::Unclear,
            (_, 0) => Outcome::Holds,
            _ if self.clearly >= needed => Outcome::Fails,
            _ => Outcome::Unclear,
        }
    }
}

/// Fewer runs of each kind than this are soon over.
const FEW: usize = 10;

impl FlowModify {
    /// From one probe of an entry to its next, in milliseconds.
    fn round_ms(&self, entries: usize) -> f64 {
        let flows = if self.updates.last_alone { 1 } else { entries };
        flows as f64 / self.updates.fps * 1e3
    }

    /// Compares two kinds at every size.
    fn compare(&self, one: impl Fn(&Row) -> bool, other: impl Fn(&Row) -> bool) -> Compared {
        let rows = &self.updates.rows;
        let mut sizes: Vec<usize> = rows.iter().map(|r| r.entries).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut found = Compared::default();
        for n in sizes {
            let of = |like: &dyn Fn(&Row) -> bool| {
                rows.iter().find(|r| r.entries == n && like(r)).map_or(&[][..], |r| &r.first_packet)
            };
            let (ones, others) = (of(&one), of(&other));
            let (Some(a), Some(b)) = (quantile(ones, 0.5), quantile(others, 0.5)) else { continue };
            found.sizes += 1;
            found.runs = found.runs.max(ones.len());
            // By the factor, and by more than the probes' resolution; the latter by more than chance.
            let resolved = |ms: f64| ms + 1.5 * self.round_ms(n) + 1.0;
            if a > DEARER * b && a > resolved(b) {
                found.dearer.push((n, a / b));
                found.clearly += usize::from(clearly_more(ones, others, resolved));
                let strict = |ms: f64| resolved(ms).max(DEARER * ms);
                found.strictly += usize::from(clearly_more(ones, others, strict));
            }
        }
        found
    }

    /// Whether frames met every change within `wait`.
    fn complete(&self) -> Verdict {
        let id = "changes-work";
        let rows = &self.updates.rows;
        let runs: u64 = rows.iter().map(|r| r.runs).sum();
        let incomplete: u64 = rows.iter().map(|r| r.incomplete).sum();
        let wait = self.updates.wait.as_secs_f64();
        let mut kinds = Vec::new();
        for k in KINDS {
            let of_kind = || rows.iter().filter(|r| name(r) == k.3);
            let n: u64 = of_kind().map(|r| r.incomplete).sum();
            if n > 0 {
                let of: u64 = of_kind().map(|r| r.runs).sum();
                kinds.push(format!("{} in {n} of {of} runs", k.3));
            }
        }
        let (outcome, s) = match (runs, incomplete) {
            (0, _) => (Outcome::Unclear, "Nothing was changed.".to_owned()),
            (_, 0) => (Outcome::Holds, "Every change came to work.".to_owned()),
            _ => (
                Outcome::Fails,
                format!(
                    "Of some entries frames were still treated as before {wait} s after the change was sent: {}.",
                    kinds.join("; ")
                ),
            ),
        };
        Verdict::new(id, outcome, s).with("incomplete runs", incomplete as f64, "")
    }

    fn dearer(&self, operation: Operation, id: &str) -> Verdict {
        let what = operation.name();
        let mut found = Compared::default();
        for kind in [Kind::Exact, Kind::Wildcard] {
            found = found.and(self.compare(
                |r| r.operation == operation && r.kind == kind,
                |r| r.operation == Operation::Insert && r.kind == kind && r.order == Order::Same,
            ));
        }
        let worst = found.dearer.iter().map(|d| d.1).fold(1.0, f64::max);
        let from = found.dearer.iter().map(|d| d.0).min();
        let rows = self.updates.rows.iter().filter(|r| r.operation == operation);
        let most = rows.filter(|r| !r.first_packet.is_empty()).max_by_key(|r| r.entries);
        let each =
            most.and_then(|r| Some(quantile(&r.first_packet, 0.5)? * 1e3 / r.entries as f64));
        let outcome = found.outcome();
        let verdict = match (found.sizes, from) {
            (0, _) => Verdict::new(id, outcome, format!("Nothing to compare '{what}' with.")),
            (_, None) => {
                let s = format!("To {what} entries takes no more than to insert them.");
                Verdict::new(id, outcome, s)
            }
            (_, Some(n)) => {
                let s = match outcome {
                    Outcome::Fails => format!(
                        "To {what} entries is dearer than to insert them, from {n} entries on: up to {worst:.1} times."
                    ),
                    _ => format!(
                        "To {what} entries looks up to {worst:.1} times as dear as to insert them, but {SPREAD}."
                    ),
                };
                Verdict::new(id, outcome, s).with("times", worst, "").with("from", n as f64, "")
            }
        };
        verdict.with("each of the most, median", each.unwrap_or(f64::NAN), "µs")
    }

    fn order(&self) -> Verdict {
        let id = "priorities-cost-nothing";
        let of = |order: Order| {
            move |r: &Row| {
                r.operation == Operation::Insert && r.kind == Kind::Wildcard && r.order == order
            }
        };
        let rising = self.compare(of(Order::Rising), of(Order::Same));
        let falling = self.compare(of(Order::Falling), of(Order::Same));
        let all = rising.dearer.iter().chain(&falling.dearer);
        let worst = all.map(|d| d.1).fold(1.0, f64::max);
        let named = match (rising.dearer.is_empty(), falling.dearer.is_empty()) {
            (true, true) if rising.sizes + falling.sizes == 0 => {
                return Verdict::new(id, Outcome::Unclear, "Priorities were not compared.");
            }
            (true, true) => {
                let s = "Insertion takes the same in whichever order priorities come.";
                return Verdict::new(id, Outcome::Holds, s);
            }
            (false, true) => "rising",
            (true, false) => "falling",
            (false, false) => "rising or falling",
        };
        // One order alone may be dear, and at the most entries only: there the factor itself is proof enough.
        let all = rising.and(falling);
        let (outcome, s) = if all.strictly > 0 || all.outcome() == Outcome::Fails {
            let s = format!("Insertion in {named} priorities is dearer: up to {worst:.1} times.");
            (Outcome::Fails, s)
        } else {
            let s = format!(
                "Insertion in {named} priorities looks up to {worst:.1} times as dear, but {SPREAD}."
            );
            (Outcome::Unclear, s)
        };
        Verdict::new(id, outcome, s).with("times", worst, "")
    }
}
