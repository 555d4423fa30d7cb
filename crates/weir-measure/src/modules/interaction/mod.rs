//! `interaction`: does polling statistics slow down changes of the flow table? 001 §4.4, figure 6.
//!
//! The table is filled with exact entries. Then some of them, spread over the table, are modified together, over
//! and over: they send on by the second port, and next time back by the one that probes came in by, so both
//! states are seen. Meanwhile statistics of all flows are asked for at one rate after the other, first at none:
//! that is what the others are compared with. An update's delay is from its first message being written to the
//! first probe that shows the last of its entries.
//!
//! Updates begin at times that fall everywhere between two requests: each is shifted against an even rhythm
//! by another multiple of the golden section.

mod told;

use super::verdicts::{barrier_truthful, refused};
use crate::document::{Cell, Document, ProbeResolution, Samples};
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadId, Module, Params, Sample, ns_between,
    rules,
};
use crate::probe::{Headers, Vary};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::model::{
    FlowCommand, FlowFilter, FlowMod, Message, Msg, Part, Port, StatsReply, StatsRequest,
};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("interaction", "Does polling statistics slow down changes of the flow table")
        .leaving(Leaves::Sizes)
        .paper("001 figure 6")
        .count("flows", "", "exact entries in the table", 1024, 1, 65_000)
        .count(
            "changed",
            "",
            "of them, entries that an update modifies; all, if there are fewer",
            100,
            1,
            65_000,
        )
        .numbers(
            "rates",
            "1/s",
            "requests for statistics a second, one rate after the other",
            "0.5,1,2,5,10,20,50",
            0.01,
            1e5,
        )
        .quick("5,50")
        .count("repetitions", "", "updates at each rate", 50, 1, 100_000)
        .quick("5")
        .number("interval", "s", "between the beginnings of two updates", 1.0, 0.01, 3600.0)
        .quick("0.2")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
        .number("cpu", "s", "CPU readings are averaged over so long", 10.0, 0.1, 3600.0)
        .quick("1")
        .number("wait", "s", "how long an update may take to work", 30.0, 0.01, 3600.0)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(new(p))
}

fn new(p: &Params) -> Interaction {
    let frame = p.count("frame") as usize;
    let flows = p.count("flows") as usize;
    let rates = [0.0].into_iter().chain(p.numbers("rates").iter().copied());
    Interaction {
        flows,
        changed: (p.count("changed") as usize).min(flows),
        repetitions: p.count("repetitions"),
        interval: Duration::from_secs_f64(p.number("interval")),
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        cpu: Nanos((p.number("cpu") * 1e9) as u64),
        wait: Duration::from_secs_f64(p.number("wait")),
        rows: rates.map(|rate| Row { rate, ..Row::default() }).collect(),
        at: 0,
        step: Step::Filling(None),
        load: None,
        to_second: false,
        run: Run::default(),
        row_began: Nanos(0),
        next_poll: Nanos(0),
        open: BTreeMap::new(),
        reading: Reading::default(),
        token: 0,
    }
}

/// Requests that may be without an answer before no more are sent.
const MOST_OPEN: usize = 64;
/// From one look whether all is answered to the next.
const LOOK: Duration = Duration::from_millis(50);
/// Of timers: from here on they ask for statistics, one number for each rate; below, they have a step's number.
const POLL: u64 = 1 << 32;
/// The golden section's smaller part: its multiples lie evenly in the unit, whatever else has a rhythm.
const GOLDEN: f64 = 0.381_966_011_250_105_2;
const PRIORITY: u16 = 1000;

/// A rate of polling, and what was found.
#[derive(Default)]
struct Row {
    rate: f64,
    updates: u64,
    incomplete: u64,
    untrue: u64,
    /// Milliseconds.
    delays: Vec<f64>,
    barriers: Vec<f64>,
    replies: Vec<f64>,
    asked: u64,
    answered: u64,
    /// Requests that were due and not sent, since too many were open.
    skipped: u64,
    /// Percent.
    cpu: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The table is filled; its barrier.
    Filling(Option<u32>),
    /// Until probes show every entry that will be changed.
    Showing,
    /// Until the next update.
    Pausing,
    Updating,
    /// Until the last requests of a rate are answered.
    Emptying,
    Over,
}

/// One update.
#[derive(Default)]
struct Run {
    /// Before any of its messages was written.
    begun: Nanos,
    first: u32,
    barrier: Option<u32>,
    first_at: Option<Nanos>,
    replied: Option<Nanos>,
    /// Of each changed entry: when its first probe came that showed the change.
    shown: Vec<Option<Nanos>>,
    missing: usize,
    /// When the latest probe left that was treated as before.
    old_left: Option<Nanos>,
}

/// CPU readings of one window.
#[derive(Default)]
struct Reading {
    since: Option<Nanos>,
    sum: f64,
    count: u32,
}

struct Interaction {
    flows: usize,
    changed: usize,
    repetitions: u64,
    interval: Duration,
    fps: f64,
    frame: usize,
    cpu: Nanos,
    wait: Duration,
    rows: Vec<Row>,
    at: usize,
    step: Step,
    load: Option<LoadId>,
    /// Where changed entries send: by the second port, or back.
    to_second: bool,
    run: Run,
    row_began: Nanos,
    next_poll: Nanos,
    /// Requests without an answer: the row, and when it was written.
    open: BTreeMap<u32, (usize, Option<Nanos>)>,
    reading: Reading,
    /// Of the timer of this step.
    token: u64,
}

fn nanos(d: Duration) -> Nanos {
    Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

impl Interaction {
    fn flow(n: usize) -> Headers {
        // At most 65,000, as the parameter's range says.
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    /// Which flow of the table is the `n`th of those that change.
    fn place(&self, n: usize) -> usize {
        n * self.flows / self.changed.max(1)
    }

    fn rule(cx: &Context<'_>, n: usize, to: Port) -> FlowMod {
        let matcher = rules::exact(&Self::flow(n), cx.bench().port(0));
        rules::add(matcher, PRIORITY, vec![rules::output(to)])
    }

    /// From one probe of an entry to its next.
    fn round_ms(&self) -> f64 {
        self.changed as f64 / self.fps * 1e3
    }

    fn timer(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    /// Probes begin.
    fn show(&mut self, cx: &mut Context<'_>) {
        let flows = (0..self.changed).map(|n| Self::flow(self.place(n))).collect();
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
        self.load = Some(cx.begin(load));
        self.run = self.fresh();
        self.step = Step::Showing;
        let wait = self.wait;
        self.timer(cx, wait);
    }

    fn fresh(&self) -> Run {
        Run { shown: vec![None; self.changed], missing: self.changed, ..Run::default() }
    }

    fn begin_row(&mut self, cx: &mut Context<'_>) {
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            if let Some(load) = self.load.take() {
                cx.stop(load);
            }
            return cx.end();
        }
        (self.row_began, self.next_poll) = (cx.now(), cx.now());
        self.reading = Reading::default();
        self.pause(cx);
        self.poll(cx);
    }

    fn pause(&mut self, cx: &mut Context<'_>) {
        let Some(row) = self.rows.get(self.at) else { return };
        let done: u64 = self.rows.iter().map(|r| r.updates).sum();
        cx.progress(done, self.repetitions * self.rows.len() as u64);
        let n = (row.updates + 1) as f64;
        let after = self.interval.mul_f64(n + (n * GOLDEN).fract());
        let due = self.row_began + nanos(after);
        self.step = Step::Pausing;
        self.timer(cx, Duration::from_nanos(due.since(cx.now()).0));
    }

    /// Asks for statistics, and sees to it that the next request follows.
    fn poll(&mut self, cx: &mut Context<'_>) {
        let at = self.at;
        let Some(row) = self.rows.get_mut(at).filter(|r| r.rate > 0.0) else { return };
        if !matches!(self.step, Step::Pausing | Step::Updating) {
            return;
        }
        if self.open.len() < MOST_OPEN {
            row.asked += 1;
            let xid = cx.stats(StatsRequest::Flow(FlowFilter::every_flow()));
            self.open.insert(xid, (at, None));
        } else {
            row.skipped += 1;
        }
        let interval = Nanos((1e9 / row.rate) as u64);
        self.next_poll = self.next_poll + interval;
        cx.timer_in(Duration::from_nanos(self.next_poll.since(cx.now()).0), POLL + at as u64);
    }

    fn update(&mut self, cx: &mut Context<'_>) {
        self.to_second = !self.to_second;
        let to = if self.to_second { cx.bench().port(1) } else { Port::IN_PORT };
        self.run = Run { begun: cx.now(), ..self.fresh() };
        self.step = Step::Updating;
        for n in 0..self.changed {
            let flow = Self::rule(cx, self.place(n), to);
            let xid = cx.flow_mod(FlowMod { command: FlowCommand::ModifyStrict, ..flow });
            if n == 0 {
                self.run.first = xid;
            }
        }
        self.run.barrier = cx.bench().barriers.then(|| cx.barrier());
        let wait = self.wait;
        self.timer(cx, wait);
    }

    fn check(&mut self, cx: &mut Context<'_>) {
        let r = &self.run;
        let replied = r.barrier.is_none() || r.replied.is_some();
        if self.step == Step::Updating && r.missing == 0 && replied && r.first_at.is_some() {
            self.end_update(cx);
        }
    }

    fn end_update(&mut self, cx: &mut Context<'_>) {
        let run = std::mem::take(&mut self.run);
        let Some(row) = self.rows.get_mut(self.at) else { return };
        row.updates += 1;
        let ms = |at: Nanos| run.first_at.map(|first| ns_between(first, at) / 1e6);
        row.barriers.extend(run.replied.and_then(ms));
        if run.missing > 0 {
            row.incomplete += 1;
        } else {
            row.delays.extend(run.shown.iter().flatten().max().copied().and_then(ms));
        }
        let late = |replied: Nanos| run.old_left.is_some_and(|left| left > replied);
        row.untrue += u64::from(run.replied.is_some_and(late));
        if row.updates >= self.repetitions {
            self.end_window();
            self.step = Step::Emptying;
            self.timer(cx, LOOK);
        } else {
            self.pause(cx);
        }
    }

    /// What was read of the CPU in this window becomes one value.
    fn end_window(&mut self) {
        let r = std::mem::take(&mut self.reading);
        if let Some(row) = self.rows.get_mut(self.at).filter(|_| r.count > 0) {
            row.cpu.push(r.sum / f64::from(r.count));
        }
    }
}

impl Module for Interaction {
    fn takes(&self) -> Option<Duration> {
        // Updates begin at their interval; the last is over soon after it began.
        let row = (self.repetitions as f64 + GOLDEN) * self.interval.as_secs_f64();
        Duration::try_from_secs_f64(row * self.rows.len() as f64).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        for n in 0..self.flows {
            let rule = Self::rule(cx, n, Port::IN_PORT);
            cx.flow_mod(rule);
        }
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Filling(barrier);
        if barrier.is_none() {
            self.show(cx);
        }
    }

    fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        if let Some((_, written)) = self.open.get_mut(&xid) {
            *written = Some(at);
        } else if self.step == Step::Updating && xid == self.run.first {
            self.run.first_at = Some(at);
            self.check(cx);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Filling(Some(b))) if b == msg.xid => self.show(cx),
            (Message::BarrierReply, Step::Updating) if self.run.barrier == Some(msg.xid) => {
                self.run.replied = Some(at);
                self.check(cx);
            }
            (Message::StatsReply { more: Part::Last, body: StatsReply::Flow(_) }, _) => {
                let Some((row, Some(written))) = self.open.remove(&msg.xid) else { return };
                let Some(row) = self.rows.get_mut(row) else { return };
                row.answered += 1;
                row.replies.push(ns_between(written, at) / 1e6);
            }
            (Message::Error(e), _) => {
                let is_poll = self.open.remove(&msg.xid).is_some();
                if !is_poll && matches!(self.step, Step::Filling(_) | Step::Showing) {
                    let why = format!("{:?}", e.code);
                    cx.fail(refused(self.flows, "exact entries", &why, "flows"));
                }
            }
            _ => {}
        }
    }

    fn unanswered(&mut self, _: &mut Context<'_>, xid: u32) -> bool {
        // A poll is counted by its absence; a barrier must be answered.
        self.open.remove(&xid).is_some()
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        let shows = match self.step {
            Step::Showing => 0,
            Step::Updating => usize::from(self.to_second),
            _ => return,
        };
        if frame.channel != shows {
            self.run.old_left = self.run.old_left.max(frame.left);
            return;
        }
        // One that came before shows what was then, however late the program hears of it.
        if frame.at < self.run.begun {
            return;
        }
        let Some(shown @ None) = self.run.shown.get_mut(usize::from(id.flow)) else { return };
        *shown = Some(frame.at);
        self.run.missing -= 1;
        if self.step == Step::Showing && self.run.missing == 0 {
            self.begin_row(cx);
        } else {
            self.check(cx);
        }
    }

    fn sample(&mut self, _: &mut Context<'_>, sample: &Sample) {
        if sample.what != "cpu" || !matches!(self.step, Step::Pausing | Step::Updating) {
            return;
        }
        // The first of a row speaks of the time before it.
        let Some(since) = self.reading.since else {
            self.reading.since = Some(sample.at);
            return;
        };
        self.reading.sum += sample.value;
        self.reading.count += 1;
        if sample.at.since(since) >= self.cpu {
            self.end_window();
            self.reading.since = Some(sample.at);
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match self.step {
            // One that is left over from the rate before ends there.
            _ if token >= POLL => {
                if token == POLL + self.at as u64 {
                    self.poll(cx);
                }
            }
            _ if token != self.token => {}
            Step::Showing => {
                cx.fail("entries that were inserted to be changed do not come to work")
            }
            Step::Pausing => self.update(cx),
            Step::Updating => self.end_update(cx),
            Step::Emptying if self.open.is_empty() => {
                self.at += 1;
                self.begin_row(cx);
            }
            Step::Emptying => self.timer(cx, LOOK),
            Step::Filling(_) | Step::Over => {}
        }
    }

    fn finish(&mut self, bench: &Bench, document: &mut Document) {
        let (bytes, flows) = (self.frame.saturating_sub(4) as u32, self.changed as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows));
        // What was done stands there: no more can change than there are.
        if let Some(p) = document.parameters.iter_mut().find(|p| p.name == "changed") {
            p.value = Cell::from(self.changed as f64);
        }
        self.table(document);
        self.figures(document);
        for r in self.rows.iter().filter(|r| r.updates > 0) {
            let mut samples = Samples::new("ms").in_group("update delay");
            r.delays.iter().for_each(|&ms| samples.record(ms));
            (0..r.incomplete).for_each(|_| samples.miss());
            let id = format!("update-{}", (r.rate * 100.0).round());
            document.distribution(&id, &format!("{} polls a second", r.rate), samples);
        }
        document.verdicts.extend([self.undisturbed(), self.complete()]);
        let (updates, untrue) =
            self.rows.iter().fold((0, 0), |(n, u), r| (n + r.updates, u + r.untrue));
        document.verdicts.push(barrier_truthful(bench, updates, untrue));
    }
}
