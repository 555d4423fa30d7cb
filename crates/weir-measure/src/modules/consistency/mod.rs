//! `consistency`: what do frames meet while rules change? Neither the old rule nor the new one; the old one
//! after the barrier said that it is gone; changes in another order than they were asked for; frames twice, out of
//! order, or with other bytes.
//!
//! Probes go round-robin over some flows all the time. Each flow is forwarded by the second port, or back by the
//! first; an update turns all of them over, and the next one back. Where a probe comes out says which rule treated
//! it; where it does not, none did. Probes lost at other times say how many may be lost by chance. What becomes
//! of each probe is `watch`'s question, what is said in the end `told`'s; what is done to the rules is here:
//!
//! - *modify*: each entry by MODIFY_STRICT (1.0 §4.6; 1.3 §6.4),
//! - *replace*: each entry by ADD of the same match and priority, which takes the other's place,
//! - *two steps*: new entries of higher priority, a barrier, then the old ones deleted: the way for which a gap
//!   has no excuse.

mod missing;
mod told;
mod watch;

use self::missing::Missing;
use self::watch::{Order, Rule, Watch};
use super::verdicts::refused;
use crate::document::Document;
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadDone, LoadId, Module, Params, ns_between,
    rules,
};
use crate::probe::{Contents, Headers, Vary};
use std::time::Duration;
use weir_openflow::model::{FlowCommand, FlowMod, Message, Msg, Port};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("consistency", "What do frames meet while rules change")
        .leaving(Leaves::Sizes)
        .count("flows", "", "flows that change together", 32, 1, 10_000)
        .count("repetitions", "", "updates of each kind", 100, 1, 10_000)
        .quick("10")
        .number("pause", "s", "between two updates", 0.2, 0.0, 60.0)
        .quick("0.05")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
        .number("wait", "s", "how long an update may take to work", 10.0, 0.01, 3600.0)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let frame = p.count("frame") as usize;
    let kinds = [Kind::Modify, Kind::Replace, Kind::TwoSteps];
    Box::new(Consistency {
        flows: p.count("flows") as usize,
        repetitions: p.count("repetitions"),
        pause: Duration::from_secs_f64(p.number("pause")),
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        wait: Duration::from_secs_f64(p.number("wait")),
        rows: kinds.map(|kind| Row { kind, ..Row::default() }).into(),
        at: 0,
        step: Step::Filling(None),
        load: None,
        order: Order::new(0),
        missing: Missing::of_flows(0),
        to_second: false,
        priority: FIRST_PRIORITY,
        run: Run::default(),
        token: 0,
    })
}

/// Of entries that are changed by taking a higher one, it rises by one with each update.
const FIRST_PRIORITY: u16 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Modify,
    Replace,
    TwoSteps,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Modify => "modify",
            Self::Replace => "replace",
            Self::TwoSteps => "two steps",
        }
    }
}

/// A kind of update, and what was found.
#[derive(Default)]
struct Row {
    kind: Kind,
    updates: u64,
    /// Updates in which it happened.
    with_gap: u64,
    with_stale: u64,
    with_overtaken: u64,
    with_back: u64,
    incomplete: u64,
    /// Flows of all updates, and those of them with a gap.
    turned: u64,
    gaps: u64,
    lost_in_gaps: u64,
    longest_ms: f64,
    stale_ms: f64,
    /// Milliseconds from the first message to the barrier's reply, and to the last flow's first new frame.
    barriers: Vec<f64>,
    delays: Vec<f64>,
    refused: Option<String>,
    sent: u64,
    came: u64,
    /// Frames that came with other bytes: as if they had not come, since what they say of themselves may be the damage.
    changed: u64,
    twice: u64,
    late: u64,
    late_to_others: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Entries are put there; their barrier.
    Filling(Option<u32>),
    /// Until probes show all of them.
    Showing,
    Pausing,
    Updating,
    /// The load has ended; what is on its way is waited for.
    Draining,
    Over,
}

/// One update.
#[derive(Default)]
struct Run {
    watch: Watch,
    first: u32,
    first_at: Option<Nanos>,
    barrier: Option<u32>,
    replied: Option<Nanos>,
    /// The latest of the flows' first frames by the new rule.
    shown_at: Option<Nanos>,
    shown: Vec<bool>,
    /// For two steps: the old entries are deleted, by this barrier.
    second: Option<Second>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    Asked(u32),
    Done,
}

struct Consistency {
    flows: usize,
    repetitions: u64,
    pause: Duration,
    fps: f64,
    frame: usize,
    wait: Duration,
    rows: Vec<Row>,
    at: usize,
    step: Step,
    load: Option<LoadId>,
    order: Order,
    missing: Missing,
    to_second: bool,
    priority: u16,
    run: Run,
    token: u64,
}

impl Consistency {
    fn flow(n: usize) -> Headers {
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    fn rule(&self, cx: &Context<'_>, n: usize) -> FlowMod {
        let to = if self.to_second { cx.bench().port(1) } else { Port::IN_PORT };
        rules::add(rules::by_destination(&Self::flow(n)), self.priority, vec![rules::output(to)])
    }

    fn timer(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    /// Begins with the next kind: its entries are put there.
    fn fill(&mut self, cx: &mut Context<'_>) {
        // Without barriers there are no two steps.
        if !cx.bench().barriers && self.rows.get(self.at).is_some_and(|r| r.kind == Kind::TwoSteps)
        {
            self.at += 1;
        }
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            return cx.end();
        }
        cx.clear_table();
        (self.to_second, self.priority) = (false, FIRST_PRIORITY);
        for n in 0..self.flows {
            let rule = self.rule(cx, n);
            cx.flow_mod(rule);
        }
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Filling(barrier);
        if barrier.is_none() {
            self.show(cx);
        }
    }

    fn show(&mut self, cx: &mut Context<'_>) {
        let flows = (0..self.flows).map(Self::flow).collect();
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
        self.load = Some(cx.begin(load));
        self.order = Order::new(self.flows);
        self.missing = Missing::of_flows(self.flows);
        self.run = Run { shown: vec![false; self.flows], ..Run::default() };
        self.step = Step::Showing;
        let wait = self.wait;
        self.timer(cx, wait);
    }

    fn pause(&mut self, cx: &mut Context<'_>) {
        let done: u64 = self.rows.iter().map(|r| r.updates).sum();
        cx.progress(done, self.repetitions * self.rows.len() as u64);
        self.step = Step::Pausing;
        // Never the same place in the probes' round.
        let odd = Duration::from_micros(done * 137 % 1000);
        let pause = self.pause + odd;
        self.timer(cx, pause);
    }

    fn update(&mut self, cx: &mut Context<'_>) {
        let Some(kind) = self.rows.get(self.at).map(|r| r.kind) else { return };
        self.to_second = !self.to_second;
        if kind == Kind::TwoSteps {
            self.priority += 1;
        }
        let command = match kind {
            Kind::Modify => FlowCommand::ModifyStrict,
            Kind::Replace | Kind::TwoSteps => FlowCommand::Add,
        };
        self.run =
            Run { watch: Watch::new(self.flows), shown: vec![false; self.flows], ..Run::default() };
        self.step = Step::Updating;
        for n in 0..self.flows {
            let rule = self.rule(cx, n);
            let xid = cx.flow_mod(FlowMod { command, ..rule });
            if n == 0 {
                self.run.first = xid;
            }
        }
        self.run.barrier = cx.bench().barriers.then(|| cx.barrier());
        let wait = self.wait;
        self.timer(cx, wait);
    }

    /// The barrier is answered: of two steps the second.
    fn delete_old(&mut self, cx: &mut Context<'_>) {
        self.priority -= 1;
        for n in 0..self.flows {
            let rule = self.rule(cx, n);
            let command = FlowCommand::DeleteStrict;
            cx.flow_mod(FlowMod { command, instructions: Vec::new(), ..rule });
        }
        self.priority += 1;
        self.run.second = Some(Second::Asked(cx.barrier()));
    }

    fn check(&mut self, cx: &mut Context<'_>) {
        let two = self.rows.get(self.at).is_some_and(|r| r.kind == Kind::TwoSteps);
        let replied = self.run.barrier.is_none() || self.run.replied.is_some();
        let second = !two || self.run.second == Some(Second::Done);
        if self.step == Step::Updating
            && replied
            && second
            && self.run.watch.settled() == self.flows
        {
            self.end_update(cx);
        }
    }

    fn end_update(&mut self, cx: &mut Context<'_>) {
        let run = std::mem::take(&mut self.run);
        let found = run.watch.found(run.replied);
        let flows = self.flows as u64;
        let Some(row) = self.rows.get_mut(self.at) else { return };
        self.missing.enter(row.updates, run.watch.between(), &self.order);
        row.updates += 1;
        row.turned += flows;
        row.with_stale += u64::from(found.stale > 0);
        row.with_overtaken += u64::from(found.overtaken > 0);
        row.with_back += u64::from(found.back > 0);
        row.incomplete += u64::from(found.unchanged > 0);
        row.stale_ms = row.stale_ms.max(found.stale_ms);
        let ms = |at: Nanos| run.first_at.map(|first| ns_between(first, at) / 1e6);
        row.barriers.extend(run.replied.and_then(ms));
        if found.unchanged == 0 {
            row.delays.extend(run.shown_at.and_then(ms));
        }
        if row.updates < self.repetitions {
            return self.pause(cx);
        }
        self.end_row(cx);
    }

    /// What a row lacks and has not come by now is lost.
    fn count_lost(&mut self) {
        let missing = std::mem::replace(&mut self.missing, Missing::of_flows(0));
        let lost = missing.lost(1e3 / self.fps);
        let Some(row) = self.rows.get_mut(self.at) else { return };
        (row.with_gap, row.gaps) = (lost.updates, lost.gaps);
        (row.lost_in_gaps, row.longest_ms) = (lost.probes, lost.longest_ms);
    }

    fn end_row(&mut self, cx: &mut Context<'_>) {
        // Its end is told by `load_done`.
        if let Some(load) = self.load {
            cx.stop(load);
        }
        self.step = Step::Draining;
    }
}

impl Module for Consistency {
    fn takes(&self) -> Option<Duration> {
        // A pause, with half a millisecond of oddness on average, and a round that shows the new rules.
        let round = self.flows as f64 / self.fps;
        let update = self.pause.as_secs_f64() + 0.000_5 + round;
        let row = update * self.repetitions as f64 + round + 0.3;
        Duration::try_from_secs_f64(row * self.rows.len() as f64).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.fill(cx);
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        if self.step == Step::Updating && xid == self.run.first {
            self.run.first_at = Some(at);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Filling(Some(b))) if b == msg.xid => self.show(cx),
            (Message::BarrierReply, Step::Updating) if self.run.barrier == Some(msg.xid) => {
                self.run.replied = Some(at);
                if self.rows.get(self.at).is_some_and(|r| r.kind == Kind::TwoSteps) {
                    self.delete_old(cx);
                }
                self.check(cx);
            }
            (Message::BarrierReply, Step::Updating)
                if self.run.second == Some(Second::Asked(msg.xid)) =>
            {
                self.run.second = Some(Second::Done);
                self.check(cx);
            }
            (Message::Error(e), Step::Filling(_) | Step::Showing) => {
                cx.fail(refused(self.flows, "entries", &format!("{:?}", e.code), "flows"));
            }
            // Frames are not to show what the switch said that it does not do: this update does not count.
            (Message::Error(e), Step::Updating) => {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.refused.get_or_insert_with(|| format!("{:?}", e.code));
                }
                self.end_row(cx);
            }
            _ => {}
        }
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.contents == Contents::Changed {
            let row = self.rows.get_mut(self.at);
            return row.into_iter().for_each(|row| row.changed += 1);
        }
        self.order.came(id.flow, id.number, frame.channel);
        self.missing.came(id.number);
        let by = if frame.channel == usize::from(self.to_second) { Rule::New } else { Rule::Old };
        // One of before the update, which comes late, was treated by the rule before the old one.
        let is_before = frame.left.zip(self.run.first_at).is_some_and(|(left, at)| left < at);
        if self.step == Step::Updating && by == Rule::New && is_before {
            return;
        }
        let shown = self.run.shown.get_mut(usize::from(id.flow));
        match self.step {
            Step::Showing => {
                if let (Some(shown), Rule::New) = (shown, by) {
                    *shown = true;
                }
                if self.run.shown.iter().all(|s| *s) {
                    self.pause(cx);
                }
            }
            Step::Updating => {
                if let (Some(shown @ false), Rule::New) = (shown, by) {
                    *shown = true;
                    self.run.shown_at = self.run.shown_at.max(Some(frame.at));
                }
                self.run.watch.came(id.flow, id.number, frame.left, by);
                self.check(cx);
            }
            _ => {}
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if Some(done.load) == self.load && self.step == Step::Draining {
            if let Some(row) = self.rows.get_mut(self.at) {
                row.sent = done.sent;
            }
            self.timer(cx, Duration::from_millis(300));
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.token {
            return;
        }
        match self.step {
            Step::Showing => {
                cx.fail("entries that were inserted to be changed do not come to work")
            }
            Step::Pausing => self.update(cx),
            Step::Updating => self.end_update(cx),
            Step::Draining => {
                let order = std::mem::replace(&mut self.order, Order::new(0));
                self.count_lost();
                if let Some(row) = self.rows.get_mut(self.at) {
                    (row.came, row.twice, row.late) = (order.came, order.twice, order.late);
                    row.late_to_others = order.late_to_others;
                }
                self.load = None;
                self.at += 1;
                self.fill(cx);
            }
            Step::Filling(_) | Step::Over => {}
        }
    }

    fn finish(&mut self, bench: &Bench, document: &mut Document) {
        // Of a row that did not come to its end.
        self.count_lost();
        self.tell(bench, document);
    }
}
