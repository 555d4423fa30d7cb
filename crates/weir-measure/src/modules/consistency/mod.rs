//! `consistency`: what do frames meet while rules change? Neither the old rule nor the new one; the old one
//! after the barrier said that it is gone; changes in another order than they were asked for; frames twice, or
//! out of order.
//!
//! Probes go round-robin over some flows all the time. Each flow is forwarded by the second port, or back by the
//! first; an update turns all of them over, and the next one back. Where a probe comes out says which rule treated
//! it; where it does not, none did. Probes lost at other times say how many may be lost by chance. What becomes
//! of each probe is `watch`'s question; what is done to the rules is here:
//!
//! - *modify*: each entry by MODIFY_STRICT (1.0 §4.6; 1.3 §6.4),
//! - *replace*: each entry by ADD of the same match and priority, which takes the other's place,
//! - *two steps*: new entries of higher priority, a barrier, then the old ones deleted: the way for which a gap
//!   has no excuse.

mod watch;

use self::watch::{Order, Rule, Watch};
use super::verdicts::{barrier_truthful, by_share};
use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadDone, LoadId, Module, Params, ns_between,
    rules,
};
use crate::probe::{Headers, Vary};
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
        let found = run.watch.found(run.replied, 1e3 / self.fps);
        let flows = self.flows as u64;
        let Some(row) = self.rows.get_mut(self.at) else { return };
        row.updates += 1;
        row.turned += flows;
        row.with_gap += u64::from(found.gaps > 0);
        row.with_stale += u64::from(found.stale > 0);
        row.with_overtaken += u64::from(found.overtaken > 0);
        row.with_back += u64::from(found.back > 0);
        row.incomplete += u64::from(found.unchanged > 0);
        row.gaps += found.gaps as u64;
        row.lost_in_gaps += found.lost;
        row.longest_ms = row.longest_ms.max(found.longest_ms);
        row.stale_ms = row.stale_ms.max(found.stale_ms);
        let ms = |at: Nanos| run.first_at.map(|first| ns_between(first, at) / 1e6);
        row.barriers.extend(run.replied.and_then(ms));
        if found.unchanged == 0 {
            row.delays.extend(run.shown_at.and_then(ms));
        }
        if row.updates < self.repetitions && row.refused.is_none() {
            return self.pause(cx);
        }
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
            (Message::Error(e), Step::Filling(_) | Step::Showing | Step::Updating) => {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.refused.get_or_insert_with(|| format!("{:?}", e.code));
                }
            }
            _ => {}
        }
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        self.order.came(id.flow, id.number, frame.channel);
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
        document.verdicts.push(self.gapless());
        let verdict = barrier_truthful(bench, updates, stale);
        document.verdicts.push(verdict.with("after the reply, at most", latest, "ms"));
        document.verdicts.extend([self.ordered(), self.lasting(), self.in_order(), self.once()]);
    }
}

impl Consistency {
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
            Column::text("refused"),
        ];
        let mut table = Table::new("consistency", "Frames while rules change", columns);
        for r in self.rows.iter().filter(|r| r.updates > 0) {
            let q = |v: &[f64]| Cell::from(crate::stats::median(v).unwrap_or(f64::NAN));
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
                Cell::from(r.refused.clone().unwrap_or_default()),
            ]);
        }
        document.tables.push(table);
    }

    fn gapless(&self) -> Verdict {
        let id = "one-rule-or-the-other";
        if self.sum(|r| r.updates) == 0 {
            return Verdict::new(id, Outcome::Unclear, "Nothing was changed.");
        }
        // A flow looks as if it had a gap when a probe next to its change is lost, before or behind.
        let chance = self.lost_by_chance();
        let by_chance = 2.0 * chance;
        let mut worst = (Outcome::Holds, String::new());
        for r in self.rows.iter().filter(|r| r.updates > 0) {
            let flows = r.gaps as f64 / r.turned.max(1) as f64;
            let is_more = flows > 3.0 * by_chance + 0.002;
            let outcome = by_share(r.with_gap as f64 / r.updates as f64);
            if is_more && outcome != Outcome::Holds && worst.0 != Outcome::Fails {
                let s = format!(
                    "In {} of {} updates ('{}') frames met neither the old rule nor the new one, for {:.2} ms and more.",
                    r.with_gap,
                    r.updates,
                    r.kind.name(),
                    r.longest_ms
                );
                worst = (outcome, s);
            }
        }
        let (outcome, s) = match worst {
            (Outcome::Holds, _) => {
                (Outcome::Holds, "Every frame met the old rule or the new one.".to_owned())
            }
            found => found,
        };
        Verdict::new(id, outcome, s)
            .with("updates with a gap", self.sum(|r| r.with_gap) as f64, "")
            .with("frames in gaps", self.sum(|r| r.lost_in_gaps) as f64, "")
            .with("frames lost otherwise", chance * 100.0, "%")
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
        let (outcome, s) = match (of, n) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) => (Outcome::Holds, "Frames of a flow leave in their order.".to_owned()),
            _ => (
                Outcome::Fails,
                format!("{n} of {of} frames came behind a later one of their flow."),
            ),
        };
        let others = self.sum(|r| r.late_to_others) as f64;
        Verdict::new(id, outcome, s).with("reordered", n as f64, "").with(
            "behind frames of other flows only",
            others,
            "",
        )
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
}
