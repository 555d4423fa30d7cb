//! `expiry`: how exact are time-outs, and is what the switch tells of a removed flow true?
//!
//! For each time-out: flows with a hard time-out and as many with an idle one are inserted, all of which are to
//! tell when they are gone. Probes go round them until hard time-outs must be over, and stop. A hard time-out is
//! measured twice: from the flow_mod being written to the flow_removed being read, and by the last probe that
//! came through. An idle time-out counts from the last probe's departure; probes that came before must have kept
//! the flow alive. What a flow_removed says (why, how long it lived, packets, bytes) is compared with the probes
//! really sent. Of flows that the switch refuses nothing is expected; how many they are is told. 1.0 §4.7, §5.4.3; 1.3 §5.5, §7.4.2.

use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::module::{
    About, Bench, Captured, Context, Load, LoadDone, LoadId, Module, Params, ns_between, rules,
};
use crate::probe::{Headers, Vary};
use crate::stats::quantile;
use std::time::Duration;
use weir_openflow::model::{FlowFlags, FlowMod, FlowRemoved, Message, Msg, RemovedReason};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("expiry", "How exact are time-outs, and what is told of removed flows")
        .counts("timeouts", "s", "time-outs, one after the other", "1,2,5,10", 1, 3600)
        .quick("1")
        .count("flows", "", "flows with an idle time-out, and as many with a hard one", 10, 1, 1000)
        .count("repetitions", "", "runs of each", 5, 1, 10_000)
        .quick("1")
        .number("longer", "s", "so much longer than the time-out probes are sent", 2.0, 0.1, 600.0)
        .quick("1.5")
        .number("wait", "s", "how late a flow may be told to be removed", 10.0, 0.1, 3600.0)
        .quick("4")
        .number("tolerance", "s", "a time-out is exact within this", 0.5, 0.001, 600.0)
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 1.0, 0.01, 10_000.0)
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let frame = p.count("frame") as usize;
    let kinds = [Kind::Hard, Kind::Idle];
    let row = |(timeout, kind)| Row { timeout, kind, ..Row::default() };
    let timeouts = p.counts("timeouts");
    let all = timeouts.into_iter().flat_map(|t| kinds.map(|k| (t as u16, k)));
    Box::new(Expiry {
        flows: p.count("flows") as usize,
        repetitions: p.count("repetitions"),
        longer: Duration::from_secs_f64(p.number("longer")),
        wait: Duration::from_secs_f64(p.number("wait")),
        tolerance_ms: p.number("tolerance") * 1e3,
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        rows: all.map(row).collect(),
        at: 0,
        runs: 0,
        step: Step::Inserting(None),
        load: None,
        entries: Vec::new(),
        open: 0,
        sent: 0,
        token: 0,
    })
}

const PRIORITY: u16 = 1000;
/// By so little a removal may be early: clocks of switches go in steps.
const EARLY_MS: f64 = 20.0;
/// By so little a duration may differ from the time between messages.
const DURATION_MS: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Hard,
    Idle,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Idle => "idle",
        }
    }
    fn reason(self) -> RemovedReason {
        match self {
            Self::Hard => RemovedReason::HardTimeout,
            Self::Idle => RemovedReason::IdleTimeout,
        }
    }
}

/// A time-out of one kind, and what was found.
#[derive(Default)]
struct Row {
    timeout: u16,
    kind: Kind,
    flows: u64,
    told: u64,
    /// Milliseconds beyond the time-out, by messages and by frames.
    late: Vec<f64>,
    late_frames: Vec<f64>,
    /// Milliseconds by which the duration told differs from the time between the messages.
    durations: Vec<f64>,
    /// All durations were whole seconds.
    fractions: u64,
    wrong_reason: u64,
    wrong_packets: u64,
    wrong_bytes: u64,
    /// The first count that was wrong.
    wrong: Option<String>,
    /// Flows that treated frames after they were told to be gone.
    alive: u64,
    /// Flows that the switch refused, which do not count as flows, and its word.
    refused: u64,
    refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Inserting(Option<u32>),
    Probing,
    /// Probes have stopped.
    Waiting,
    Over,
}

/// A flow of the run.
#[derive(Clone, Debug, Default)]
struct Entry {
    xid: u32,
    written: Option<Nanos>,
    through: u64,
    /// Departure of the last probe that came through.
    last: Option<Nanos>,
    removed: Option<(Nanos, FlowRemoved)>,
    /// A probe that left after that came through.
    alive: bool,
    refused: bool,
}

struct Expiry {
    flows: usize,
    repetitions: u64,
    longer: Duration,
    wait: Duration,
    tolerance_ms: f64,
    fps: f64,
    frame: usize,
    /// Two of each time-out.
    rows: Vec<Row>,
    at: usize,
    runs: u64,
    step: Step,
    load: Option<LoadId>,
    /// First those with a hard time-out, then those with an idle one.
    entries: Vec<Entry>,
    /// Entries that are not told to be gone.
    open: usize,
    sent: u64,
    token: u64,
}

impl Expiry {
    fn timeout(&self) -> u16 {
        self.rows.get(self.at).map_or(0, |r| r.timeout)
    }

    fn kind(&self, n: usize) -> Kind {
        if n < self.flows { Kind::Hard } else { Kind::Idle }
    }

    /// Marks the flow, and the run that it is of.
    fn cookie(&self, n: usize) -> u64 {
        (self.at as u64) << 48 | (self.runs & 0xffff_ffff) << 16 | (n as u64 + 1)
    }

    fn timer(&mut self, cx: &mut Context<'_>, after: Duration) {
        self.token += 1;
        cx.timer_in(after, self.token);
    }

    fn run(&mut self, cx: &mut Context<'_>) {
        let runs = self.rows.len() as u64 / 2 * self.repetitions;
        cx.progress(self.at as u64 / 2 * self.repetitions + self.runs, runs);
        if self.at >= self.rows.len() {
            self.step = Step::Over;
            return cx.end();
        }
        cx.clear_table();
        let timeout = self.timeout();
        let to = cx.bench().port(1);
        self.entries.clear();
        self.open = 2 * self.flows;
        for n in 0..2 * self.flows {
            let matcher =
                rules::by_destination(&Headers::default().nth(n as u16, &[Vary::DstAddr]));
            let rule = rules::add(matcher, PRIORITY, vec![rules::output(to)]);
            let (hard_timeout, idle_timeout) = match self.kind(n) {
                Kind::Hard => (timeout, 0),
                Kind::Idle => (0, timeout),
            };
            let flags = FlowFlags::SEND_FLOW_REM;
            let cookie = self.cookie(n);
            let xid = cx.flow_mod(FlowMod { hard_timeout, idle_timeout, flags, cookie, ..rule });
            self.entries.push(Entry { xid, ..Entry::default() });
        }
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Inserting(barrier);
        if barrier.is_none() {
            self.probe(cx);
        }
    }

    fn probe(&mut self, cx: &mut Context<'_>) {
        let flow = |n| Headers::default().nth(n as u16, &[Vary::DstAddr]);
        let flows = (0..2 * self.flows).map(flow).collect();
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
        self.load = Some(cx.begin(load));
        self.step = Step::Probing;
        let time = Duration::from_secs(self.timeout().into()) + self.longer;
        self.timer(cx, time);
    }

    fn end_run(&mut self, cx: &mut Context<'_>) {
        let entries = std::mem::take(&mut self.entries);
        for (n, entry) in entries.iter().enumerate().filter(|(_, e)| !e.refused) {
            let of_flow = self.sent_to(n);
            let left = |round: u64| {
                let number = round * 2 * self.flows as u64 + n as u64;
                cx.departure(self.load?, number as u32)
            };
            // An idle time-out begins with the last probe that was sent to the flow.
            let last_left = of_flow.checked_sub(1).and_then(left);
            // Of a flow that is gone, what left later counts no more.
            let in_time = match &entry.removed {
                Some((at, _)) => {
                    let too_late = |round: &u64| left(*round).is_some_and(|t| t > *at);
                    of_flow - (0..of_flow).filter(too_late).count() as u64
                }
                None => of_flow,
            };
            let kind = self.kind(n);
            let place = self.at + usize::from(kind == Kind::Idle);
            let payload = self.frame.saturating_sub(4) as u64;
            if let Some(row) = self.rows.get_mut(place) {
                row.add(entry, last_left, in_time, payload);
            }
        }
        self.load = None;
        self.runs += 1;
        if self.runs >= self.repetitions {
            (self.at, self.runs) = (self.at + 2, 0);
        }
        self.run(cx);
    }

    /// The flow that was asked for by this message is not there, and nothing is to be told of it.
    fn refuse(&mut self, cx: &mut Context<'_>, xid: u32, why: String) {
        let Some(n) = self.place(xid) else { return };
        let Some(entry) = self.entries.get_mut(n).filter(|e| !e.refused && e.removed.is_none())
        else {
            return;
        };
        entry.refused = true;
        self.open -= 1;
        if self.entries.iter().all(|e| e.refused) {
            let n = self.entries.len();
            return cx.fail(format!("the switch refuses all of {n} flows, with {why}"));
        }
        let place = self.at + usize::from(self.kind(n) == Kind::Idle);
        if let Some(row) = self.rows.get_mut(place) {
            row.refused += 1;
            row.refusal.get_or_insert(why);
        }
    }

    /// Which entry a message is of: transaction ids of a run follow each other.
    fn place(&self, xid: u32) -> Option<usize> {
        let n = xid.wrapping_sub(self.entries.first()?.xid) as usize;
        (n < self.entries.len()).then_some(n)
    }

    /// Probes that were sent to a flow: they take turns.
    fn sent_to(&self, n: usize) -> u64 {
        let flows = 2 * self.flows as u64;
        self.sent / flows + u64::from((n as u64) < self.sent % flows)
    }
}

impl Row {
    /// Counts a flow of a run that is over. `last_left`: the last probe sent to it; `sent`: how many were;
    /// `bytes`: of each, without check sequence.
    fn add(&mut self, e: &Entry, last_left: Option<Nanos>, sent: u64, bytes: u64) {
        let timeout_ms = f64::from(self.timeout) * 1e3;
        self.flows += 1;
        self.alive += u64::from(e.alive);
        let since = |from: Option<Nanos>, to: Nanos| from.map(|f| ns_between(f, to) / 1e6);
        if self.kind == Kind::Hard {
            let lived = e.last.and_then(|last| since(e.written, last));
            self.late_frames.extend(lived.map(|ms| ms - timeout_ms));
        }
        let Some((at, told)) = &e.removed else { return };
        self.told += 1;
        self.wrong_reason += u64::from(told.reason != self.kind.reason());
        let begun = match self.kind {
            Kind::Hard => e.written,
            Kind::Idle => last_left,
        };
        self.late.extend(since(begun, *at).map(|ms| ms - timeout_ms));
        let told_ms = f64::from(told.duration_sec) * 1e3 + f64::from(told.duration_nsec) / 1e6;
        self.durations.extend(since(e.written, *at).map(|ms| told_ms - ms));
        self.fractions += u64::from(told.duration_nsec != 0);
        // What came through was counted; what was sent and did not come may have been.
        if !(e.through..=sent).contains(&told.packets) {
            self.wrong_packets += 1;
            let (through, packets) = (e.through, told.packets);
            self.wrong.get_or_insert_with(|| {
                format!("{packets} packets, of {sent} sent and {through} that came through")
            });
        }
        // With or without check sequence; 1.0 and 1.3 leave it open.
        let sizes = [bytes, bytes + 4];
        let fits = sizes.iter().any(|b| told.packets.saturating_mul(*b) == told.bytes);
        self.wrong_bytes += u64::from(!fits);
    }
}

impl Module for Expiry {
    fn takes(&self) -> Option<Duration> {
        // Probes first; then the idle time-outs, those of the hard ones being over. Two rows are one run.
        let run = |r: &Row| 2.0 * f64::from(r.timeout) + self.longer.as_secs_f64();
        let all: f64 = self.rows.iter().filter(|r| r.kind == Kind::Hard).map(run).sum();
        Duration::try_from_secs_f64(all * self.repetitions as f64).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.run(cx);
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        let place = self.place(xid);
        if let Some(entry) = place.and_then(|n| self.entries.get_mut(n)) {
            entry.written = Some(at);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Inserting(Some(b))) if b == msg.xid => self.probe(cx),
            (Message::FlowRemoved(told), Step::Probing | Step::Waiting) => {
                let n = ((told.cookie & 0xffff) as usize).wrapping_sub(1);
                let ours = n < self.entries.len() && told.cookie == self.cookie(n);
                let Some(entry) = self.entries.get_mut(n).filter(|e| ours && e.removed.is_none())
                else {
                    return;
                };
                entry.removed = Some((at, told.clone()));
                self.open -= 1;
                if self.step == Step::Waiting && self.open == 0 {
                    self.end_run(cx);
                }
            }
            (Message::Error(e), Step::Inserting(_) | Step::Probing) => {
                self.refuse(cx, msg.xid, format!("{:?}", e.code));
            }
            _ => {}
        }
    }

    fn frame(&mut self, _: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        let Some(entry) = self.entries.get_mut(usize::from(id.flow)) else { return };
        entry.through += 1;
        entry.last = entry.last.max(frame.left);
        if let (Some((removed, _)), Some(left)) = (&entry.removed, frame.left) {
            entry.alive |= left > *removed;
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if Some(done.load) == self.load {
            self.sent = done.sent;
            self.step = Step::Waiting;
            let time = Duration::from_secs(self.timeout().into()) + self.wait;
            // What is on its way is waited for, too.
            let soon = Duration::from_millis(300);
            self.timer(cx, if self.open == 0 { soon } else { time });
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.token {
            return;
        }
        match self.step {
            Step::Probing => {
                if let Some(load) = self.load {
                    cx.stop(load);
                }
            }
            Step::Waiting => self.end_run(cx),
            Step::Inserting(_) | Step::Over => {}
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let (bytes, flows) = (self.frame.saturating_sub(4) as u32, 2 * self.flows as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows));
        let columns = vec![
            Column::text("time-out"),
            Column::number("after", "s"),
            Column::number("flows", ""),
            Column::number("told", ""),
            Column::number("late", "ms"),
            Column::number("late p90", "ms"),
            Column::number("late by frames", "ms"),
            Column::number("duration off", "ms"),
            Column::number("wrong reason", ""),
            Column::number("wrong packets", ""),
            Column::number("wrong bytes", ""),
            Column::number("alive after", ""),
            Column::text("remark"),
        ];
        let mut table = Table::new("expiry", "Time-outs and what is told of them", columns);
        for r in self.rows.iter().filter(|r| r.flows + r.refused > 0) {
            let q = |v: &[f64], q| Cell::from(quantile(v, q).unwrap_or(f64::NAN));
            let remark = match (&r.refusal, &r.wrong) {
                (Some(why), _) => format!("{} more refused: {why}", r.refused),
                (None, Some(w)) => format!("told: {w}"),
                (None, None) => String::new(),
            };
            table.row([
                Cell::from(r.kind.name()),
                Cell::from(u64::from(r.timeout)),
                Cell::from(r.flows),
                Cell::from(r.told),
                q(&r.late, 0.5),
                q(&r.late, 0.9),
                q(&r.late_frames, 0.5),
                q(&r.durations, 0.5),
                Cell::from(r.wrong_reason),
                Cell::from(r.wrong_packets),
                Cell::from(r.wrong_bytes),
                Cell::from(r.alive),
                Cell::from(remark),
            ]);
            if r.flows == 0 {
                continue;
            }
            let mut samples = Samples::new("ms").in_group("beyond the time-out");
            r.late.iter().for_each(|&ms| samples.record(ms));
            (r.told..r.flows).for_each(|_| samples.miss());
            let id = format!("{}-{}", r.kind.name(), r.timeout);
            let title = format!("{} time-out of {} s", r.kind.name(), r.timeout);
            document.distribution(&id, &title, samples);
        }
        document.tables.push(table);
        document.verdicts.extend([
            self.exact(),
            self.not_early(),
            self.told(),
            self.durations(),
            self.counts(),
            self.gone(),
        ]);
    }
}

/// A verdict about so many removals, of which some are not as they should be.
fn of_removals(id: &str, all: u64, wrong: u64, holds: &str, fails: &str) -> Verdict {
    let (outcome, s) = match (all, wrong) {
        (0, _) => (Outcome::Unclear, "No flow was told to be removed.".to_owned()),
        (_, 0) => (Outcome::Holds, holds.to_owned()),
        (all, n) => (Outcome::Fails, format!("{n} of {all} {fails}")),
    };
    Verdict::new(id, outcome, s).with("of", all as f64, "").with("not so", wrong as f64, "")
}

impl Expiry {
    fn sum(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().map(of).sum()
    }

    fn all(&self, of: impl Fn(&Row) -> &[f64]) -> Vec<f64> {
        self.rows.iter().flat_map(|r| of(r).iter().copied()).collect()
    }

    fn exact(&self) -> Verdict {
        let id = "time-outs-exact";
        let late = self.all(|r| &r.late);
        let (Some(p50), Some(p90)) = (quantile(&late, 0.5), quantile(&late, 0.9)) else {
            return Verdict::new(id, Outcome::Unclear, "No flow was told to be removed.");
        };
        let outcome = if p90 > self.tolerance_ms { Outcome::Fails } else { Outcome::Holds };
        let s = format!(
            "Flows are told to be removed {p50:.0} ms after their time-outs (median; 90th percentile {p90:.0} ms)."
        );
        Verdict::new(id, outcome, s)
            .with("late, median", p50, "ms")
            .with("late, 90th percentile", p90, "ms")
            .with("tolerated", self.tolerance_ms, "ms")
    }

    fn not_early(&self) -> Verdict {
        let late = self.all(|r| &r.late);
        let early = late.iter().filter(|ms| **ms < -EARLY_MS).count() as u64;
        let most = late.iter().copied().fold(0.0, f64::min);
        of_removals(
            "time-outs-not-early",
            late.len() as u64,
            early,
            "No flow was removed before its time-out.",
            "flows were removed before their time-outs; for idle ones these begin with the last frame.",
        )
        .with("earliest", -most, "ms")
    }

    fn told(&self) -> Verdict {
        let flows = self.sum(|r| r.flows);
        let wrong = self.sum(|r| r.flows - r.told + r.wrong_reason);
        let mut verdict = of_removals(
            "removals-told",
            flows,
            wrong,
            "Every removal was told, with its reason.",
            "removals were not told, or with a wrong reason.",
        );
        let why = self.rows.iter().find_map(|r| r.refusal.as_ref());
        if let (Some(why), refused) = (why, self.sum(|r| r.refused)) {
            let more = format!(
                " The switch refused {refused} more of {} flows with {why}, of which nothing is expected: '--set flows=N' takes fewer.",
                flows + refused
            );
            verdict.sentence.push_str(&more);
            verdict = verdict.with("refused", refused as f64, "");
        }
        verdict
    }

    fn durations(&self) -> Verdict {
        let off = self.all(|r| &r.durations);
        // Whole seconds are all that 1.0 asks for.
        let least = if self.sum(|r| r.fractions) == 0 { -1e3 - DURATION_MS } else { -DURATION_MS };
        let wrong = off.iter().filter(|ms| !(least..=DURATION_MS).contains(*ms)).count();
        of_removals(
            "durations-right",
            off.len() as u64,
            wrong as u64,
            "Flows lived as long as they are told to have.",
            "durations differ from the time that the flows were there.",
        )
        .with("off, median", quantile(&off, 0.5).unwrap_or(f64::NAN), "ms")
    }

    fn counts(&self) -> Verdict {
        of_removals(
            "removal-counts-right",
            self.sum(|r| r.told),
            self.sum(|r| r.wrong_packets.max(r.wrong_bytes)),
            "Packets and bytes told of removed flows are those that they treated.",
            "flows are told with other packets or bytes than they treated.",
        )
    }

    fn gone(&self) -> Verdict {
        of_removals(
            "removed-flows-gone",
            self.sum(|r| r.told),
            self.sum(|r| r.alive),
            "No flow treated a frame after it was told to be removed.",
            "flows still treated frames after they were told to be removed.",
        )
    }
}
