//! `table-capacity`: how many entries fit, of which kind, and what happens past that. 001 table 1.
//!
//! For exact, wildcard and mixed entries: insert in batches, a barrier behind each, until one is refused or
//! as many as asked for are there. Then the switch is asked how many flows it has, and probes are sent to
//! the last of those that it accepted: an entry that was accepted and treats no frame was lost silently. Those
//! of which nothing came are asked again, alone: frames that a switch loses at a steady rate may be always those
//! of the same entry, as long as probes go round in step with it.

use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Table, Verdict};
use crate::module::{About, Bench, Captured, Context, Leaves, Load, LoadId, Module, Params, rules};
use crate::probe::{Headers, Vary};
use std::time::Duration;
use weir_openflow::model::{FlowFilter, Message, Msg, StatsReply, StatsRequest};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("table-capacity", "How many entries fit, and what happens past that")
        .leaving(Leaves::Sizes)
        .paper("001 table 1")
        .count("most", "", "entries after which no more are tried", 20_000, 1, 65_000)
        .quick("2000")
        .count("batch", "", "entries before each barrier", 100, 1, 10_000)
        .number("wait", "s", "how long an accepted entry may take to work", 10.0, 0.01, 600.0)
        .quick("3")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .quick("2")
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let row = |kind| Row { kind, ..Row::default() };
    Box::new(TableCapacity {
        most: p.count("most") as usize,
        batch: p.count("batch") as usize,
        wait: Duration::from_secs_f64(p.number("wait")),
        fps: Load::fps_of(p.number("rate"), FRAME),
        rows: [Kind::Exact, Kind::Wildcard, Kind::Mixed].map(row).into(),
        at: 0,
        step: Step::Clearing,
        waiting: None,
        sent: 0,
        first_xid: 0,
        load: None,
        seen: Vec::new(),
        missing: 0,
        token: 0,
    })
}

/// Size of a probe, FCS included.
const FRAME: usize = 100;
/// The error of a table that is full, by its name.
const FULL: &str = "FlowTableFull";
/// Entries that probes are sent to: the last ones accepted.
const WATCHED: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Exact,
    Wildcard,
    /// Every other one.
    Mixed,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Wildcard => "wildcard",
            Self::Mixed => "mixed",
        }
    }
}

#[derive(Default)]
struct Row {
    kind: Kind,
    tried: usize,
    accepted: usize,
    /// The switch's word for the first that was refused.
    refused: Option<String>,
    /// Flows that the switch says it has.
    told: Option<u64>,
    watched: usize,
    dead: usize,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Clearing,
    Inserting,
    Asking,
    Watching,
    /// Only those of which nothing has come.
    WatchingAgain,
    Over,
}

struct TableCapacity {
    most: usize,
    batch: usize,
    wait: Duration,
    fps: f64,
    rows: Vec<Row>,
    at: usize,
    step: Step,
    /// The barrier or the question that is open.
    waiting: Option<u32>,
    /// Entries sent, refused ones too.
    sent: usize,
    first_xid: u32,
    load: Option<LoadId>,
    /// Entries that probes are sent to, by flow, and whether one has come.
    seen: Vec<(usize, bool)>,
    missing: usize,
    token: u64,
}

impl TableCapacity {
    fn flow(n: usize) -> Headers {
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    fn timer_in(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    fn next(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.at as u64, self.rows.len() as u64);
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            return cx.end();
        }
        (self.step, self.sent) = (Step::Clearing, 0);
        cx.clear_table();
        self.settle(cx);
    }

    /// A barrier, or half a second where there is none.
    fn settle(&mut self, cx: &mut Context<'_>) {
        if cx.bench().barriers {
            self.waiting = Some(cx.barrier());
        } else {
            self.timer_in(cx, Duration::from_millis(500));
        }
    }

    fn settled(&mut self, cx: &mut Context<'_>) {
        let Some(row) = self.rows.get_mut(self.at) else { return };
        if self.step == Step::Inserting {
            row.tried = self.sent;
            if row.refused.is_none() {
                row.accepted = self.sent;
            }
        }
        if row.refused.is_some() || self.sent >= self.most {
            self.step = Step::Asking;
            self.waiting = Some(cx.stats(StatsRequest::Aggregate(FlowFilter::every_flow())));
            return;
        }
        self.step = Step::Inserting;
        let kind = row.kind;
        let to = cx.bench().port(1);
        for i in 0..self.batch.min(self.most - self.sent) {
            let n = self.sent;
            let h = Self::flow(n);
            let exact = kind == Kind::Exact || kind == Kind::Mixed && n.is_multiple_of(2);
            let matcher = if exact {
                rules::exact(&h, cx.bench().port(0))
            } else {
                rules::by_destination(&h)
            };
            let xid = cx.flow_mod(rules::add(matcher, 1000, vec![rules::output(to)]));
            if i == 0 {
                self.first_xid = xid;
            }
            self.sent += 1;
        }
        self.settle(cx);
    }

    fn watch(&mut self, cx: &mut Context<'_>) {
        let Some(row) = self.rows.get_mut(self.at) else { return };
        row.watched = row.accepted.min(WATCHED);
        let entries = (row.accepted - row.watched..row.accepted).collect();
        self.step = Step::Watching;
        self.probe(cx, entries);
    }

    /// Sends probes to these entries.
    fn probe(&mut self, cx: &mut Context<'_>, entries: Vec<usize>) {
        let flows: Vec<_> = entries.iter().map(|n| Self::flow(*n)).collect();
        self.missing = entries.len();
        self.seen = entries.into_iter().map(|n| (n, false)).collect();
        if flows.is_empty() {
            return self.watched(cx);
        }
        self.load = Some(cx.begin(Load::new(0, Headers::default(), FRAME, self.fps).over(flows)));
        let wait = self.wait;
        self.timer_in(cx, wait);
    }

    fn watched(&mut self, cx: &mut Context<'_>) {
        if let Some(row) = self.rows.get_mut(self.at) {
            (row.dead, row.done) = (self.missing, true);
        }
        if let Some(load) = self.load.take() {
            cx.stop(load);
        }
        self.at += 1;
        self.next(cx);
    }
}

/// Whether the switch says by the right error that its table is full, and after how many entries.
fn limit(done: &[&Row]) -> Verdict {
    let id = "limit-told";
    let refused = |r: &&&Row| r.refused.is_some();
    let limited: Vec<_> = done.iter().filter(refused).collect();
    let other = limited.iter().find(|r| r.refused.as_deref() != Some(FULL));
    let verdict = match (done.first(), limited.is_empty(), other) {
        (None, ..) => Verdict::new(id, Outcome::Unclear, "Nothing was inserted."),
        (_, true, _) => {
            let fewest = done.iter().map(|r| r.accepted).min().unwrap_or(0);
            let s = format!("None of {fewest} entries of each kind was refused.");
            Verdict::new(id, Outcome::Holds, s)
        }
        (_, _, Some(r)) => {
            let (kind, n) = (r.kind.name(), r.accepted);
            let s = format!(
                "After {n} {kind} entries the next is refused by {}, which does not say that the table is full.",
                r.refused.as_deref().unwrap_or_default()
            );
            Verdict::new(id, Outcome::Fails, s)
        }
        (_, _, None) => {
            let all: Vec<_> =
                limited.iter().map(|r| format!("{} {}", r.accepted, r.kind.name())).collect();
            let s = format!(
                "The switch says that its table is full: after {} entries.",
                all.join(", ")
            );
            Verdict::new(id, Outcome::Holds, s)
        }
    };
    let with = |v: Verdict, r: &&&Row| v.with(r.kind.name(), r.accepted as f64, "entries");
    limited.iter().fold(verdict, with)
}

impl Module for TableCapacity {
    fn takes(&self) -> Option<Duration> {
        // One round of probes over the entries watched; inserting is the switch's time.
        let watched = self.most.min(WATCHED) as f64;
        Duration::try_from_secs_f64(watched / self.fps * self.rows.len() as f64).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.next(cx);
    }

    fn message(&mut self, cx: &mut Context<'_>, _: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Clearing | Step::Inserting)
                if self.waiting == Some(msg.xid) =>
            {
                self.settled(cx);
            }
            (Message::Error(e), Step::Inserting) => {
                // Entries of a batch have transaction ids one after the other.
                let place = msg.xid.wrapping_sub(self.first_xid) as usize;
                let batch = self.sent.saturating_sub(1) % self.batch + 1;
                let begun = self.sent - batch;
                if let Some(row) = self.rows.get_mut(self.at)
                    && row.refused.is_none()
                    && place < batch
                {
                    row.refused = Some(format!("{:?}", e.code));
                    row.accepted = begun + place;
                }
            }
            (Message::StatsReply { body: StatsReply::Aggregate(a), .. }, Step::Asking)
                if self.waiting == Some(msg.xid) =>
            {
                if let Some(row) = self.rows.get_mut(self.at) {
                    // Without the rule that drops the rest.
                    row.told = Some(u64::from(a.flows).saturating_sub(1));
                }
                self.watch(cx);
            }
            (Message::Error(_), Step::Asking) if self.waiting == Some(msg.xid) => self.watch(cx),
            _ => {}
        }
    }

    fn unanswered(&mut self, cx: &mut Context<'_>, xid: u32) -> bool {
        // A switch need not tell sums; a barrier it must answer.
        let goes_on = self.step == Step::Asking && self.waiting == Some(xid);
        if goes_on {
            self.watch(cx);
        }
        goes_on
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        let watching = matches!(self.step, Step::Watching | Step::WatchingAgain);
        if frame.channel != 1 || !watching {
            return;
        }
        if let Some((_, seen @ false)) = self.seen.get_mut(usize::from(id.flow)) {
            *seen = true;
            self.missing -= 1;
            if self.missing == 0 {
                self.watched(cx);
            }
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match self.step {
            _ if token != self.token => {}
            Step::Clearing | Step::Inserting => self.settled(cx),
            Step::Watching => {
                let missing = self.seen.iter().filter(|s| !s.1).map(|s| s.0).collect();
                self.step = Step::WatchingAgain;
                self.probe(cx, missing);
            }
            Step::WatchingAgain => self.watched(cx),
            Step::Asking | Step::Over => {}
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let (bytes, flows) = (FRAME as u32 - 4, WATCHED as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows));
        let columns = vec![
            Column::text("entries"),
            Column::number("accepted", ""),
            Column::number("tried", ""),
            Column::text("refused with"),
            Column::number("told by the switch", ""),
            Column::number("accepted and dead", &format!("of the last {WATCHED}")),
        ];
        let mut table = Table::new("capacity", "Entries that fit", columns);
        for r in self.rows.iter().filter(|r| r.tried > 0) {
            table.row([
                Cell::from(r.kind.name()),
                Cell::from(r.accepted as u64),
                Cell::from(r.tried as u64),
                Cell::from(r.refused.clone().unwrap_or_else(|| "nothing was refused".to_owned())),
                r.told.map_or(Cell::from(f64::NAN), Cell::from),
                Cell::from(if r.done { r.dead as f64 } else { f64::NAN }),
            ]);
        }
        document.tables.push(table);
        let done: Vec<_> = self.rows.iter().filter(|r| r.done).collect();
        let dead: usize = done.iter().map(|r| r.dead).sum();
        let id = "accepted-entries-work";
        document.verdicts.push(if done.is_empty() {
            Verdict::new(id, Outcome::Unclear, "Nothing was inserted.")
        } else if dead == 0 {
            Verdict::new(id, Outcome::Holds, "Every accepted entry that was tried treats frames.")
        } else {
            let s = format!(
                "{dead} of the entries that were accepted last treat no frame: they were lost without an error."
            );
            Verdict::new(id, Outcome::Fails, s).with("dead", dead as f64, "")
        });
        document.verdicts.push(limit(&done));
        let id = "entries-told";
        let off = done.iter().find(|r| r.told.is_some_and(|t| t != r.accepted as u64));
        document.verdicts.push(match off {
            _ if done.iter().all(|r| r.told.is_none()) => Verdict::new(
                id,
                Outcome::Unclear,
                "The switch does not tell how many flows it has.",
            ),
            None => {
                Verdict::new(id, Outcome::Holds, "The switch tells as many flows as it accepted.")
            }
            Some(r) => {
                let (told, accepted) = (r.told.unwrap_or(0), r.accepted);
                let s = format!("The switch accepted {accepted} entries and tells of {told}.");
                Verdict::new(id, Outcome::Fails, s).with("accepted", accepted as f64, "").with(
                    "told",
                    told as f64,
                    "",
                )
            }
        });
    }
}
