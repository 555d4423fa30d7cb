//! What `flow-insert` and `flow-modify` share: change many entries at once, over and over, and note when the
//! barrier is answered and when probes are treated anew.
//!
//! A run: empty the table and wait until no probe comes through; for changes of entries that are there,
//! put them there and wait until probes show it; send the changes and a barrier; note when the first and
//! the last change were written (*transmission delay*), when the barrier's reply came (*barrier
//! notification*), and when probes showed the last change (*first packet*). Probes go round-robin over the
//! entries at a constant rate, so a time on the data plane is known to one round of them.
//!
//! Where the last entry alone is watched, probes go to all of them while the table is emptied: a switch that
//! answers its barrier early may still be deleting the others when the last is gone, and would begin with the
//! changes only then.
//!
//! Entries that are to be modified send back by the port they came in by, and afterwards on by the second:
//! so both states are seen. Beneath entries that are to be deleted lies a rule that sends back what they no
//! longer send on: a probe that comes back shows that its entry is gone, and one that was lost shows nothing. One that
//! left later and was treated by the entry all the same takes that back, and a run of deletions ends a round or two
//! after the last was seen. A change that has not worked after `wait` is one that never came to work.
//!
//! A run in which the switch refuses an entry is none: frames would say of that entry what the switch said already.
//! Its row ends there.

use super::verdicts::refused;
use crate::document::ProbeResolution;
use crate::module::{
    Captured, Context, Load, LoadId, Params, ProbeId, is_among, ns_between, rules,
};
use crate::probe::{Headers, Vary};
use std::time::Duration;
use weir_openflow::model::{Field, FlowCommand, FlowMod, Match, Message, Msg, Port};
use weir_packet::Nanos;

/// What is done to entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Operation {
    #[default]
    Insert,
    Modify,
    Delete,
}

/// What entries match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Wildcard,
    Exact,
}

/// The entries' priorities, in the order in which they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Same,
    Rising,
    Falling,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Modify => "modify",
            Self::Delete => "delete",
        }
    }
}

/// A kind of change to a number of entries, and what was found.
#[derive(Default)]
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) kind: Kind,
    pub(super) order: Order,
    pub(super) entries: usize,
    pub(super) runs: u64,
    /// Milliseconds since the first entry was written.
    pub(super) barrier: Vec<f64>,
    pub(super) transmission: Vec<f64>,
    pub(super) first_packet: Vec<f64>,
    /// From the barrier's reply to the first packet; positive: the reply came before.
    pub(super) gap: Vec<f64>,
    /// Runs in which a probe sent after the reply was dropped.
    pub(super) untrue: u64,
    /// Runs in which entries never worked, and the most of them.
    pub(super) incomplete: u64,
    /// Entries were refused, in the switch's word; that run does not count.
    pub(super) refused: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// The table is emptied; its barrier.
    Clearing {
        barrier: Option<u32>,
    },
    /// Until no probe comes through.
    Quiet,
    /// The rule beneath entries that are to be deleted is put there.
    Underlaying,
    /// Entries that are to be changed are put there.
    Preparing,
    /// Changes are on their way.
    Changing,
    Over,
}

/// One insertion.
#[derive(Default)]
struct Run {
    /// Before any of its messages was written.
    begun: Nanos,
    first: u32,
    last: u32,
    barrier: u32,
    first_at: Option<Nanos>,
    last_at: Option<Nanos>,
    replied: Option<Nanos>,
    /// For each flow that is probed: its first probe that showed the change, and when.
    seen: Vec<Option<(u32, Nanos)>>,
    missing: usize,
    /// When the latest probe left that was treated by the table of before.
    old_left: Option<Nanos>,
    /// Nothing new shows from then on.
    until: Nanos,
    /// All was seen; it must stay so for a moment.
    confirming: bool,
}

/// Below the priority of every entry.
const BENEATH: u16 = 50;

/// Without a probe for so long, none comes through: two rounds and a little.
fn silence(round: Duration) -> Duration {
    round * 2 + Duration::from_millis(10)
}

fn nanos(d: Duration) -> Nanos {
    Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// The runs of all rows, one after the other.
pub(super) struct Updates {
    repetitions: u64,
    pub(super) fps: f64,
    pub(super) frame: usize,
    pub(super) last_alone: bool,
    pub(super) wait: Duration,
    pub(super) rows: Vec<Row>,
    at: usize,
    load: Option<LoadId>,
    step: Step,
    run: Run,
    last_seen: Nanos,
    /// Of the timer that counts; earlier ones are passed over.
    token: u64,
    quiet_until: Option<Nanos>,
}

impl Updates {
    /// By the parameters `repetitions`, `rate`, `frame`, `watch` and `wait`.
    pub(super) fn new(p: &Params, rows: Vec<Row>) -> Self {
        let frame = p.count("frame") as usize;
        Self {
            repetitions: p.count("repetitions"),
            fps: Load::fps_of(p.number("rate"), frame),
            frame,
            last_alone: p.word("watch") == "last",
            wait: Duration::from_secs_f64(p.number("wait")),
            rows,
            at: 0,
            load: None,
            step: Step::Clearing { barrier: None },
            run: Run::default(),
            last_seen: Nanos(0),
            token: 0,
            quiet_until: None,
        }
    }

    fn operation(&self) -> Operation {
        self.rows.get(self.at).map_or(Operation::Insert, |r| r.operation)
    }

    fn entries(&self) -> usize {
        self.rows.get(self.at).map_or(0, |r| r.entries)
    }

    fn flow(n: usize) -> Headers {
        // At most 65,000, as the parameter's range says.
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    /// Sends probes to the entries from `first` on, in place of what is sent.
    fn probe_from(&mut self, cx: &mut Context<'_>, first: usize) {
        let flows = (first..self.entries()).map(Self::flow).collect();
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
        self.load = Some(cx.begin(load));
    }

    /// Whether fewer entries are watched than there are.
    fn sweeps(&self) -> bool {
        self.last_alone && self.entries() > 1
    }

    /// From one probe of a flow to its next.
    fn round(&self) -> Duration {
        let flows = if self.last_alone { 1 } else { self.entries() };
        Duration::from_secs_f64(flows as f64 / self.fps)
    }

    /// The flow_mod for entry `n`: `command`, sending by `to`.
    fn change(&self, cx: &Context<'_>, n: usize, command: FlowCommand, to: Port) -> FlowMod {
        let (h, entries) = (Self::flow(n), self.entries());
        let row = self.rows.get(self.at);
        let matcher: Match = match row.map_or(Kind::Wildcard, |r| r.kind) {
            Kind::Wildcard => rules::by_destination(&h),
            Kind::Exact => rules::exact(&h, cx.bench().port(0)),
        };
        // At most 65,000 entries: priorities from 100 on.
        let priority = match row.map_or(Order::Same, |r| r.order) {
            Order::Same => 1000,
            Order::Rising => 100 + n as u16,
            Order::Falling => 100 + (entries - 1 - n.min(entries - 1)) as u16,
        };
        let flow = rules::add(matcher, priority, vec![rules::output(to)]);
        match command {
            FlowCommand::DeleteStrict => FlowMod { command, instructions: Vec::new(), ..flow },
            _ => FlowMod { command, ..flow },
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    /// The next size: its probes begin, and go on through all its runs.
    fn next_size(&mut self, cx: &mut Context<'_>) {
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            return match self.all_refused() {
                Some(why) => cx.fail(why),
                None => cx.end(),
            };
        }
        // Where they sweep, each run begins with that.
        if !self.sweeps() {
            self.probe_from(cx, 0);
        }
        self.clear(cx);
    }

    fn clear(&mut self, cx: &mut Context<'_>) {
        // By the time that they take: runs of many entries are longer.
        let ms = |r: &Row, runs: u64| self.run_takes(r).as_secs_f64() * 1e3 * runs as f64;
        // A row that was refused is over with fewer runs.
        let runs = |(n, r): (usize, &Row)| if n < self.at { self.repetitions } else { r.runs };
        let done: f64 = self.rows.iter().enumerate().map(|(n, r)| ms(r, runs((n, r)))).sum();
        let of: f64 = self.rows.iter().map(|r| ms(r, self.repetitions)).sum();
        cx.progress(done as u64, of as u64);
        if self.sweeps() {
            self.probe_from(cx, 0);
        }
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
        self.quiet_until = Some(cx.now() + nanos(self.wait));
        let silence = self.quiet_for();
        self.timer(cx, silence);
    }

    fn silence(&self) -> Duration {
        silence(self.round())
    }

    /// The same while the table is emptied.
    fn quiet_for(&self) -> Duration {
        silence(Duration::from_secs_f64(self.entries() as f64 / self.fps))
    }

    /// How many flows are probed.
    fn watched(&self) -> usize {
        if self.last_alone { 1 } else { self.entries() }
    }

    /// The table is empty: what is to be changed is put there, or changes begin at once.
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.sweeps() {
            self.probe_from(cx, self.entries() - 1);
        }
        match self.operation() {
            Operation::Insert => self.apply(cx),
            Operation::Modify => self.prepare(cx, Port::IN_PORT),
            Operation::Delete => self.underlay(cx),
        }
    }

    /// What will be seen once entries are gone.
    fn underlay(&mut self, cx: &mut Context<'_>) {
        self.await_all(cx, Step::Underlaying);
        let from = Match::default().with(Field::InPort, u128::from(cx.bench().port(0).0));
        let back = rules::add(from, BENEATH, vec![rules::output(Port::IN_PORT)]);
        self.send(cx, 0, back);
    }

    /// Puts entries there that are to be changed.
    fn prepare(&mut self, cx: &mut Context<'_>, to: Port) {
        self.await_all(cx, Step::Preparing);
        for i in 0..self.entries() {
            let flow = self.change(cx, i, FlowCommand::Add, to);
            self.send(cx, i, flow);
        }
    }

    /// Every watched flow is to show something new within `wait`.
    fn await_all(&mut self, cx: &mut Context<'_>, step: Step) {
        let (n, begun) = (self.watched(), cx.now());
        let until = begun + nanos(self.wait);
        self.run = Run { begun, seen: vec![None; n], missing: n, until, ..Run::default() };
        self.step = step;
        let wait = self.wait;
        self.timer(cx, wait);
    }

    /// Sends the flow_mod for entry `n` of this run.
    fn send(&mut self, cx: &mut Context<'_>, n: usize, flow: FlowMod) {
        self.run.last = cx.flow_mod(flow);
        if n == 0 {
            self.run.first = self.run.last;
        }
    }

    /// Sends the changes and a barrier.
    fn apply(&mut self, cx: &mut Context<'_>) {
        let command = match self.operation() {
            Operation::Insert => FlowCommand::Add,
            Operation::Modify => FlowCommand::ModifyStrict,
            Operation::Delete => FlowCommand::DeleteStrict,
        };
        self.await_all(cx, Step::Changing);
        let to = cx.bench().port(1);
        for i in 0..self.entries() {
            let flow = self.change(cx, i, command, to);
            self.send(cx, i, flow);
        }
        if cx.bench().barriers {
            self.run.barrier = cx.barrier();
        }
    }

    /// All that is waited for has come.
    fn is_complete(&self, cx: &Context<'_>) -> bool {
        let r = &self.run;
        let replied = !cx.bench().barriers || r.replied.is_some();
        replied && r.missing == 0 && r.first_at.is_some() && r.last_at.is_some()
    }

    fn check(&mut self, cx: &mut Context<'_>) {
        if self.step != Step::Changing || self.run.confirming || !self.is_complete(cx) {
            return;
        }
        if self.operation() != Operation::Delete {
            return self.end_run(cx);
        }
        // Of an entry that is gone for a moment only, the next probes tell.
        self.run.confirming = true;
        let silence = self.silence();
        self.timer(cx, silence);
    }

    /// A probe was treated by the table of before.
    fn treated_as_before(&mut self, cx: &mut Context<'_>, id: ProbeId, left: Option<Nanos>) {
        if self.step != Step::Changing {
            return;
        }
        self.run.old_left = self.run.old_left.max(left);
        // One that left before the one by which the change was seen may have been overtaken.
        let Some(seen) = self.run.seen.get_mut(usize::from(id.flow)) else { return };
        if seen.is_some_and(|(number, _)| id.number > number) {
            *seen = None;
            self.run.missing += 1;
            if std::mem::take(&mut self.run.confirming) {
                let left = Duration::from_nanos(self.run.until.since(cx.now()).0);
                self.timer(cx, left);
            }
        }
    }

    /// Whether a probe that left after the reply was treated by the table of before.
    fn is_untrue(&self, cx: &Context<'_>) -> bool {
        let (Some(replied), Some(load)) = (self.run.replied, self.load) else { return false };
        if self.operation() == Operation::Delete {
            return self.run.old_left.is_some_and(|left| left > replied);
        }
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
            run.first_at.map(|first| ns_between(first, at) / 1e6).filter(|ms| ms.is_finite())
        };
        row.transmission.extend(run.last_at.and_then(since));
        row.barrier.extend(run.replied.and_then(since));
        if run.missing > 0 {
            row.incomplete += 1;
        } else if let Some(at) = run.seen.iter().flatten().map(|s| s.1).max() {
            row.first_packet.extend(since(at));
            if let Some(replied) = run.replied {
                row.gap.push(ns_between(replied, at) / 1e6);
            }
        }
        row.untrue += u64::from(untrue);
        if row.runs >= repetitions { self.end_row(cx) } else { self.clear(cx) }
    }

    fn end_row(&mut self, cx: &mut Context<'_>) {
        self.at += 1;
        if let Some(load) = self.load.take() {
            cx.stop(load);
        }
        self.next_size(cx);
    }

    /// Whether the message is one of the run's changes. Transaction ids of a run follow each other.
    fn is_of_run(&self, xid: u32) -> bool {
        is_among(xid, (self.run.first, self.run.last))
    }

    /// Why there is nothing to tell, where not one run was possible.
    fn all_refused(&self) -> Option<String> {
        let fewest = self.rows.iter().min_by_key(|r| r.entries)?;
        let why = fewest.refused.as_ref().filter(|_| self.rows.iter().all(|r| r.runs == 0))?;
        Some(refused(fewest.entries, "entries", why, "entries"))
    }
}

/// The handlers that a module passes on to.
impl Updates {
    /// What the probes resolve at their densest: with the most flows watched.
    pub(super) fn resolution(&self) -> ProbeResolution {
        let most = self.rows.iter().map(|r| r.entries).max().unwrap_or(1);
        let flows = if self.last_alone { 1 } else { u32::try_from(most).unwrap_or(u32::MAX) };
        ProbeResolution::shared(self.fps, self.frame.saturating_sub(4) as u32, flows)
    }

    /// Of one run of a row: quiet before it, and what its operation waits for.
    fn run_takes(&self, row: &Row) -> Duration {
        let flows = if self.last_alone { 1 } else { row.entries };
        let round = Duration::from_secs_f64(flows as f64 / self.fps);
        let quiet = silence(Duration::from_secs_f64(row.entries as f64 / self.fps));
        match row.operation {
            Operation::Insert => quiet + round,
            Operation::Modify => quiet + round * 2,
            Operation::Delete => quiet + silence(round) + round * 3,
        }
    }

    pub(super) fn takes(&self) -> Option<Duration> {
        let all = |r| self.run_takes(r).as_secs_f64() * self.repetitions as f64;
        Duration::try_from_secs_f64(self.rows.iter().map(all).sum()).ok()
    }

    pub(super) fn start(&mut self, cx: &mut Context<'_>) {
        self.next_size(cx);
    }

    pub(super) fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        if self.step != Step::Changing {
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

    pub(super) fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Clearing { barrier: Some(b) }) if b == msg.xid => {
                self.quiet(cx);
            }
            (Message::BarrierReply, Step::Changing) if msg.xid == self.run.barrier => {
                self.run.replied = Some(at);
                self.check(cx);
            }
            (Message::Error(e), Step::Underlaying | Step::Preparing | Step::Changing)
                if self.is_of_run(msg.xid) =>
            {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.refused.get_or_insert_with(|| format!("{:?}", e.code));
                }
                self.end_row(cx);
            }
            _ => {}
        }
    }

    pub(super) fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        self.last_seen = self.last_seen.max(frame.at);
        let operation = self.operation();
        // Which channel shows what is waited for.
        let shows = match (self.step, operation) {
            (Step::Underlaying, _)
            | (Step::Preparing, Operation::Modify)
            | (Step::Changing, Operation::Delete) => 0,
            (Step::Preparing | Step::Changing, _) => 1,
            _ => return,
        };
        // One that came before shows what was then, however late the program hears of it.
        if frame.at < self.run.begun {
            return;
        }
        if frame.channel != shows {
            return self.treated_as_before(cx, id, frame.left);
        }
        let Some(seen) = self.run.seen.get_mut(usize::from(id.flow)) else { return };
        if seen.is_some() {
            return;
        }
        *seen = Some((id.number, frame.at));
        self.run.missing -= 1;
        match (self.step, self.run.missing) {
            (Step::Underlaying, 0) => {
                let to = cx.bench().port(1);
                self.prepare(cx, to);
            }
            (Step::Preparing, 0) => self.apply(cx),
            _ => self.check(cx),
        }
    }

    pub(super) fn timer_is_due(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.token {
            return;
        }
        match self.step {
            Step::Quiet => {
                let quiet_at = self.last_seen + nanos(self.quiet_for());
                if cx.now() >= quiet_at {
                    self.begin(cx);
                } else if self.quiet_until.is_some_and(|until| cx.now() >= until) {
                    cx.fail("probes still come through rules that were deleted: the table can't be emptied");
                } else {
                    self.timer(cx, Duration::from_nanos(quiet_at.since(cx.now()).0.max(100_000)));
                }
            }
            Step::Changing => self.end_run(cx),
            Step::Underlaying => {
                cx.fail("the rule beneath entries that are to be deleted does not come to work")
            }
            Step::Preparing => {
                cx.fail("entries that were inserted to be changed do not come to work")
            }
            Step::Clearing { .. } | Step::Over => {}
        }
    }
}
