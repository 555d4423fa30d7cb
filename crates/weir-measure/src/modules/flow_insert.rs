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

use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
use crate::module::{About, Bench, Captured, Context, Load, LoadId, Module, Params, rules};
use crate::probe::{Headers, Vary};
use crate::stats::quantile;
use std::time::Duration;
use weir_openflow::model::{Match, Message, Msg};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("flow-insert", "How long until inserted entries treat frames; is the barrier true")
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
    let sizes = p.counts("entries");
    let frame = p.count("frame") as usize;
    Box::new(FlowInsert {
        repetitions: p.count("repetitions"),
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        exact: p.word("match") == "exact",
        last_alone: p.word("watch") == "last",
        wait: Duration::from_secs_f64(p.number("wait")),
        rows: sizes.iter().map(|&n| Row { entries: n as usize, ..Row::default() }).collect(),
        at: 0,
        load: None,
        step: Step::Clearing { barrier: None },
        run: Run::default(),
        last_seen: Nanos(0),
        token: 0,
        quiet_until: None,
    })
}

/// What was found for one number of entries.
#[derive(Default)]
struct Row {
    entries: usize,
    runs: u64,
    /// Milliseconds since the first entry was written.
    barrier: Vec<f64>,
    transmission: Vec<f64>,
    first_packet: Vec<f64>,
    /// From the barrier's reply to the first packet; positive: the reply came before.
    gap: Vec<f64>,
    /// Runs in which a probe sent after the reply was dropped.
    untrue: u64,
    /// Runs in which entries never worked, and the most of them.
    incomplete: u64,
    /// Entries were refused, in the switch's word.
    refused: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// The table is emptied; its barrier.
    Clearing {
        barrier: Option<u32>,
    },
    /// Until no probe comes through.
    Quiet,
    /// Entries are on their way.
    Inserting,
    Over,
}

/// One insertion.
#[derive(Default)]
struct Run {
    first: u32,
    last: u32,
    barrier: u32,
    first_at: Option<Nanos>,
    last_at: Option<Nanos>,
    replied: Option<Nanos>,
    /// For each flow that is probed: its first probe that came through, and when.
    seen: Vec<Option<(u32, Nanos)>>,
    missing: usize,
}

struct FlowInsert {
    repetitions: u64,
    fps: f64,
    frame: usize,
    exact: bool,
    last_alone: bool,
    wait: Duration,
    rows: Vec<Row>,
    at: usize,
    load: Option<LoadId>,
    step: Step,
    run: Run,
    last_seen: Nanos,
    /// Of the timer that counts; earlier ones are passed over.
    token: u64,
    quiet_until: Option<Nanos>,
}

impl FlowInsert {
    fn entries(&self) -> usize {
        self.rows.get(self.at).map_or(0, |r| r.entries)
    }

    fn flow(n: usize) -> Headers {
        // At most 65,000, as the parameter's range says.
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    /// The flows that are probed.
    fn probed(&self) -> Vec<Headers> {
        let n = self.entries();
        let first = if self.last_alone { n.saturating_sub(1) } else { 0 };
        (first..n).map(Self::flow).collect()
    }

    /// From one probe of a flow to its next.
    fn round(&self) -> Duration {
        let flows = if self.last_alone { 1 } else { self.entries() };
        Duration::from_secs_f64(flows as f64 / self.fps)
    }

    fn matcher(&self, cx: &Context<'_>, n: usize) -> Match {
        let h = Self::flow(n);
        if self.exact { rules::exact(&h, cx.bench().port(0)) } else { rules::by_destination(&h) }
    }

    fn timer(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    /// The next size: its probes begin, and go on through all its runs.
    fn next_size(&mut self, cx: &mut Context<'_>) {
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            return cx.end();
        }
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(self.probed());
        self.load = Some(cx.begin(load));
        self.clear(cx);
    }

    fn clear(&mut self, cx: &mut Context<'_>) {
        let done: u64 = self.rows.iter().map(|r| r.runs).sum();
        cx.progress(done, self.repetitions * self.rows.len() as u64);
        cx.clear_table();
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Clearing { barrier };
        if barrier.is_none() {
            self.quiet(cx);
        }
    }

    /// Waits until nothing has come through for two rounds.
    fn quiet(&mut self, cx: &mut Context<'_>) {
        self.step = Step::Quiet;
        self.last_seen = cx.now();
        let wait = Nanos(u64::try_from(self.wait.as_nanos()).unwrap_or(u64::MAX));
        self.quiet_until = Some(cx.now() + wait);
        let silence = self.silence();
        self.timer(cx, silence);
    }

    fn silence(&self) -> Duration {
        self.round() * 2 + Duration::from_millis(10)
    }

    fn insert(&mut self, cx: &mut Context<'_>) {
        let n = self.entries();
        let to = cx.bench().port(1);
        let probed = if self.last_alone { 1 } else { n };
        self.run = Run { seen: vec![None; probed], missing: probed, ..Run::default() };
        self.step = Step::Inserting;
        for i in 0..n {
            let matcher = self.matcher(cx, i);
            let xid = cx.flow_mod(rules::add(matcher, 1000, vec![rules::output(to)]));
            if i == 0 {
                self.run.first = xid;
            }
            self.run.last = xid;
        }
        if cx.bench().barriers {
            self.run.barrier = cx.barrier();
        }
        let wait = self.wait;
        self.timer(cx, wait);
    }

    /// All that is waited for has come.
    fn is_complete(&self, cx: &Context<'_>) -> bool {
        let r = &self.run;
        let replied = !cx.bench().barriers || r.replied.is_some();
        replied && r.missing == 0 && r.first_at.is_some() && r.last_at.is_some()
    }

    fn check(&mut self, cx: &mut Context<'_>) {
        if self.step == Step::Inserting && self.is_complete(cx) {
            self.end_run(cx);
        }
    }

    /// Whether a probe that left after the reply was dropped.
    fn is_untrue(&self, cx: &Context<'_>) -> bool {
        let (Some(replied), Some(load)) = (self.run.replied, self.load) else { return false };
        let flows = self.run.seen.len() as u32;
        self.run.seen.iter().flatten().any(|(number, _)| {
            // Probes go round: the flow's one before has the number a round earlier.
            let before = number.checked_sub(flows).and_then(|n| cx.departure(load, n));
            before.is_some_and(|left| left > replied)
        }) || self.run.missing > 0
    }

    fn end_run(&mut self, cx: &mut Context<'_>) {
        let untrue = self.is_untrue(cx);
        let repetitions = self.repetitions;
        let (Some(row), run) = (self.rows.get_mut(self.at), &self.run) else { return };
        row.runs += 1;
        let since = |at: Nanos| {
            run.first_at
                .map(|first| (at.0 as f64 - first.0 as f64) / 1e6)
                .filter(|ms| ms.is_finite())
        };
        row.transmission.extend(run.last_at.and_then(since));
        row.barrier.extend(run.replied.and_then(since));
        if run.missing > 0 {
            row.incomplete += 1;
        } else if let Some(at) = run.seen.iter().flatten().map(|s| s.1).max() {
            row.first_packet.extend(since(at));
            if let Some(replied) = run.replied {
                row.gap.push((at.0 as f64 - replied.0 as f64) / 1e6);
            }
        }
        row.untrue += u64::from(untrue);
        if row.runs >= repetitions || row.refused.is_some() {
            self.at += 1;
            if let Some(load) = self.load.take() {
                cx.stop(load);
            }
            self.next_size(cx);
        } else {
            self.clear(cx);
        }
    }
}

impl Module for FlowInsert {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.next_size(cx);
    }

    fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        if self.step != Step::Inserting {
            return;
        }
        if xid == self.run.first {
            self.run.first_at = Some(at);
        }
        if xid == self.run.last {
            self.run.last_at = Some(at);
            self.check(cx);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Clearing { barrier: Some(b) }) if b == msg.xid => {
                self.quiet(cx);
            }
            (Message::BarrierReply, Step::Inserting) if msg.xid == self.run.barrier => {
                self.run.replied = Some(at);
                self.check(cx);
            }
            (Message::Error(e), Step::Inserting) => {
                // An entry was refused: larger sizes would be, too, so this size's runs end.
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.refused.get_or_insert_with(|| format!("{:?}", e.code));
                }
            }
            _ => {}
        }
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        self.last_seen = self.last_seen.max(frame.at);
        if self.step != Step::Inserting {
            return;
        }
        if let Some(seen @ None) = self.run.seen.get_mut(usize::from(id.flow)) {
            *seen = Some((id.number, frame.at));
            self.run.missing -= 1;
            self.check(cx);
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.token {
            return;
        }
        match self.step {
            Step::Quiet => {
                let silence = Nanos(u64::try_from(self.silence().as_nanos()).unwrap_or(u64::MAX));
                let quiet_at = self.last_seen + silence;
                if cx.now() >= quiet_at {
                    self.insert(cx);
                } else if self.quiet_until.is_some_and(|until| cx.now() >= until) {
                    cx.fail("probes still come through rules that were deleted: the table can't be emptied");
                } else {
                    self.timer(cx, Duration::from_nanos(quiet_at.since(cx.now()).0.max(100_000)));
                }
            }
            Step::Inserting => self.end_run(cx),
            Step::Clearing { .. } | Step::Over => {}
        }
    }

    fn finish(&mut self, bench: &Bench, document: &mut Document) {
        let most = self.rows.iter().map(|r| r.entries).max().unwrap_or(1);
        let flows = if self.last_alone { 1 } else { most };
        document.probe = Some(ProbeResolution::shared(
            self.fps,
            self.frame.saturating_sub(4) as u32,
            u32::try_from(flows).unwrap_or(u32::MAX),
        ));
        self.figure(document);
        self.table(document);
        self.verdict(bench, document);
        for row in &mut self.rows {
            let mut samples = Samples::new("ms").in_group("first packet");
            row.first_packet.iter().for_each(|&ms| samples.record(ms));
            (0..row.incomplete).for_each(|_| samples.miss());
            let id = format!("first-packet-{}", row.entries);
            document.distribution(&id, &format!("{} entries", row.entries), samples);
        }
    }
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
            for row in self.rows.iter().filter(|r| r.runs > 0) {
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
        for r in &self.rows {
            let q = |v: &[f64], q| Cell::from(quantile(v, q).unwrap_or(f64::NAN));
            let flows = if self.last_alone { 1.0 } else { r.entries as f64 };
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
                Cell::from(flows / self.fps * 1e3),
                Cell::from(r.refused.clone().unwrap_or_default()),
            ]);
        }
        document.tables.push(table);
    }

    fn verdict(&self, bench: &Bench, document: &mut Document) {
        let runs: u64 = self.rows.iter().map(|r| r.runs).sum();
        let untrue: u64 = self.rows.iter().map(|r| r.untrue).sum();
        let gaps: Vec<f64> = self.rows.iter().flat_map(|r| r.gap.iter().copied()).collect();
        let gap = quantile(&gaps, 0.5).unwrap_or(f64::NAN);
        let share = untrue as f64 / runs.max(1) as f64;
        let (outcome, sentence) = if !bench.barriers {
            (Outcome::Unclear, "The switch has no barrier.".to_owned())
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
        let incomplete: u64 = self.rows.iter().map(|r| r.incomplete).sum();
        let refused = self.rows.iter().find(|r| r.refused.is_some());
        let (outcome, sentence) = match (refused, incomplete, runs) {
            (_, _, 0) => (Outcome::Unclear, "Nothing was inserted.".to_owned()),
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
        document.verdicts.push(Verdict::new("entries-work", outcome, sentence).with(
            "incomplete runs",
            incomplete as f64,
            "",
        ));
    }
}
