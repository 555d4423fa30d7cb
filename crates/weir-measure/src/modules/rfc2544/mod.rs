//! `rfc2544`: throughput, latency, frame loss rate and back-to-back frames (RFC 2544 §26.1 to 26.4), NDR and
//! PDR by the multiple loss ratio search of bmwg, and reset recovery (§26.6), from the first port to the second
//! by one rule. 004 figure 4.
//!
//! Frames are counted where they come; one in some hundreds tells its delay. Frames that the kernel dropped
//! because the capture was too slow had come through the switch: they count as received, and the result says
//! how many there were. Frames that came changed were not received, and the result says how many came so, twice or
//! out of order. After each trial frames on their way are waited for (§23).

mod came;
mod plan;
mod recovery;
mod tape;
mod told;

use crate::document::Document;
use crate::engine::Resets;
use crate::latency::Latency;
use crate::module::{
    About, Bench, Captured, Context, Count, Leaves, Load, LoadDone, LoadId, Module, Params, rules,
};
use crate::probe::{Contents, Headers};
use crate::rfc2544::TrialResult;
use came::Ledger;
use plan::{Plan, Stage};
use recovery::{By, Recovery};
use std::time::Duration;
use tape::Ask;
use weir_openflow::model::{Field, Match, Message, Msg};
use weir_packet::Nanos;

/// How often what came is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Delays taken in a second of a trial.
const DELAYS: f64 = 500.0;
/// Frames that may be made up for at once after a stall, at least.
const BACKLOG: u64 = 64;
/// What stands for a barrier where the switch has none, and for one that lies.
const SETTLE: Duration = Duration::from_millis(500);
/// The longest a burst may take to leave.
const BURST: Duration = Duration::from_secs(10);
/// A rate that no source reaches: there is always a frame due.
const ALWAYS: f64 = 1e9;

pub(super) fn about() -> About {
    About::new("rfc2544", "How much does the switch carry, how late, and what does it lose")
        .paper("004 figure 4")
        .leaving(Leaves::All)
        .word("benchmark", "which", &plan::WORDS)
        .counts(
            "sizes",
            "B",
            "frame sizes, with their check sequence",
            "64,128,256,512,1024,1280,1518",
            64,
            1518,
        )
        .quick("64,1518")
        .number("line", "Mb/s", "speed of the slowest line: no higher rate is tried", 1000.0, 0.01, 4e5)
        .quick("100")
        .number("trial", "s", "length of a trial (RFC 2544 §24)", 60.0, 0.01, 3600.0)
        .quick("0.3")
        .number("resolution", "%", "when a search ends, in percent of the rate", 0.5, 0.01, 50.0)
        .quick("5")
        .number("goal-time", "s", "trial time that decides a load for NDR and PDR", 21.0, 0.01, 3600.0)
        .quick("0.9")
        .number("pdr", "%", "loss that the PDR allows", 0.5, 0.0, 99.0)
        .number("latency-trial", "s", "length of a trial of the latency (§26.2)", 120.0, 0.01, 3600.0)
        .quick("0.5")
        .count("latency-repetitions", "", "trials of the latency", 20, 1, 1000)
        .quick("2")
        .number("longest-burst", "s", "longest burst tried, at the line's speed (§26.4)", 2.0, 1e-6, 10.0)
        .quick("0.01")
        .count("bursts", "", "repetitions of the search for the longest burst", 50, 1, 1000)
        .quick("2")
        .number("wait", "s", "silence after which what is missing counts as lost (§23)", 2.0, 0.25, 60.0)
        .quick("0.3")
        .number(
            "reset",
            "s",
            "how long a reset of the switch is watched for; 0: not measured (§26.6, RFC 6201)",
            60.0,
            0.0,
            3600.0,
        )
        .quick("20")
        .word(
            "reset-by",
            "who makes it: the engine, in a lab or by --reset-command, and nobody where it can't; or you",
            &["engine", "hand"],
        )
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(Rfc2544 {
        plan: Plan::new(p),
        wait: Duration::from_secs_f64(p.number("wait")),
        watch: p.number("reset"),
        reset_by: if p.word("reset-by") == "hand" { By::Hand } else { By::Engine },
        barrier: None,
        trial: None,
        spent: 0.0,
        estimate: 0.0,
        missed: 0,
        ledger: Ledger::default(),
        recovery: None,
    })
}

/// A trial at work.
struct Running {
    ask: Ask,
    load: LoadId,
    came: Count,
    missed: u64,
    last: Nanos,
    done: Option<LoadDone>,
    latency: Latency,
    begun: Nanos,
}

struct Rfc2544 {
    plan: Plan,
    wait: Duration,
    /// Seconds for a reset, and who makes it.
    watch: f64,
    reset_by: By,
    barrier: Option<u32>,
    trial: Option<Running>,
    /// Seconds of trials, done and in all.
    spent: f64,
    estimate: f64,
    missed: u64,
    ledger: Ledger,
    recovery: Option<Recovery>,
}

/// Tokens of timers.
const BEGIN: u64 = 0;
const LOOK_AGAIN: u64 = 1;
/// And more: the trial's number of load, to stop it.
const STOP: u64 = 256;

impl Rfc2544 {
    fn rule(&mut self, cx: &mut Context<'_>) {
        let bench = cx.bench();
        let matcher = Match::default().with(Field::InPort, u128::from(bench.port(0).0));
        let (to, barriers) = (bench.port(1), bench.barriers);
        cx.flow_mod(rules::add(matcher, 1000, vec![rules::output(to)]));
        if barriers {
            self.barrier = Some(cx.barrier());
        } else {
            cx.timer_in(SETTLE, BEGIN);
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) {
        match self.plan.next() {
            Err(why) => cx.fail(why),
            Ok(Some(ask)) => self.begin(cx, ask),
            Ok(None) if self.recovery.is_none() && self.is_reset(cx) => {
                let fastest = self.plan.found.first().and_then(|f| f.throughput.as_ref()?.rate);
                let size = self.plan.found.first().map_or(64, |f| f.size);
                self.recovery = Some(Recovery::begin(cx, self.reset_by, size, fastest, self.watch));
            }
            Ok(None) => cx.end(),
        }
    }

    fn is_reset(&self, cx: &Context<'_>) -> bool {
        let can_be = self.reset_by == By::Hand || cx.bench().resets == Resets::ByCommand;
        self.watch > 0.0 && can_be
    }

    /// Seconds for a reset that can be told beforehand: the engine's ends when frames come again.
    fn watched(&self) -> f64 {
        if self.reset_by == By::Hand { self.watch } else { 0.0 }
    }

    fn begin(&mut self, cx: &mut Context<'_>, ask: Ask) {
        let size = self.plan.size().unwrap_or(64);
        let load = match ask {
            Ask::Trial(rate, duration) => {
                let fps = rate.fps();
                let frames = rate.frames_in(duration).max(1);
                // About 20 µs of frames leave together, as few sources can do better.
                let burst = (fps * 20e-6).clamp(1.0, 32.0) as u64;
                let load = Load::new(0, Headers::default(), size, fps).only(frames);
                let backlog = BACKLOG.max(2 * burst);
                // A trial at a rate is of no higher rate for a while: what a stall costs is not offered.
                let load = Load { burst, backlog, owed: Duration::ZERO, ..load };
                load.telling_one_in((fps / DELAYS).ceil() as u64)
            }
            Ask::Burst(frames) => {
                let load = Load::new(0, Headers::default(), size, ALWAYS).only(frames);
                Load { burst: frames, ..load }.telling_one_in(frames.max(2))
            }
        };
        // Of a load that tells of each frame none are counted.
        let one_in = load.one_in.max(2);
        let id = cx.begin(Load { one_in, ..load });
        let latency = match self.plan.stage() {
            Some(Stage::Latency) => Latency::new(),
            _ => Latency::none(),
        };
        let begun = cx.now();
        self.trial = Some(Running {
            ask,
            load: id,
            came: Count::default(),
            missed: 0,
            last: begun,
            done: None,
            latency,
            begun,
        });
        let at_most = match ask {
            Ask::Trial(_, duration) => duration,
            Ask::Burst(_) => BURST,
        };
        cx.timer_in(at_most, STOP + u64::from(id.0));
    }

    /// Whether all is here, or nothing has come for a while.
    fn look(&mut self, cx: &mut Context<'_>) {
        let Some(t) = &self.trial else { return };
        let Some(done) = &t.done else { return };
        let silence = Duration::from_nanos(cx.now().since(t.last).0);
        if t.came.frames < done.sent && silence < self.wait {
            return cx.timer_in(LOOK, LOOK_AGAIN);
        }
        let Some(t) = self.trial.take() else { return };
        let Some(done) = t.done else { return };
        let received = (t.came.frames + t.missed).min(done.sent);
        self.missed += received.saturating_sub(t.came.frames);
        if let Some(of) = self.plan.size().zip(self.plan.stage()) {
            self.ledger.enter(of, (done.sent, received), &t.came);
        }
        let result = TrialResult {
            sent: done.sent,
            received,
            offered_actual: crate::Rate::new(done.sent_fps()).ok(),
            latency: t.latency,
        };
        self.spent += cx.now().since(t.begun).0 as f64 / 1e9;
        // Searches may take longer than they usually do.
        let of = self.estimate.max(self.spent * 1.05);
        cx.progress((self.spent * 10.0) as u64, (of * 10.0) as u64);
        self.plan.tell(t.ask, result);
        self.next(cx);
    }
}

impl Module for Rfc2544 {
    fn takes(&self) -> Option<Duration> {
        let seconds = self.plan.estimate(self.wait.as_secs_f64() / 4.0) + self.watched();
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.estimate = self.plan.estimate(self.wait.as_secs_f64() / 4.0) + self.watched();
        cx.progress(0, (self.estimate * 10.0) as u64);
        self.rule(cx);
    }

    fn message(&mut self, cx: &mut Context<'_>, _: Nanos, msg: &Msg) {
        if matches!(msg.body, Message::BarrierReply) && self.barrier == Some(msg.xid) {
            self.barrier = None;
            if self.recovery.is_none() {
                cx.timer_in(SETTLE, BEGIN);
            }
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if let Some(r) = &mut self.recovery {
            return r.timer(cx, token);
        }
        match token {
            BEGIN => self.next(cx),
            LOOK_AGAIN => self.look(cx),
            stop => {
                let load = self.trial.as_ref().filter(|t| t.done.is_none()).map(|t| t.load);
                if let Some(load) = load.filter(|l| STOP + u64::from(l.0) == stop) {
                    cx.stop(load);
                }
            }
        }
    }

    fn counted(&mut self, cx: &mut Context<'_>, load: LoadId, channel: usize, count: Count) {
        if let Some(t) = self.trial.as_mut().filter(|t| t.load == load && channel == 1) {
            t.came.add(&count);
            t.last = cx.now();
        }
    }

    fn missed(&mut self, cx: &mut Context<'_>, channel: usize, frames: u64) {
        if let Some(t) = self.trial.as_mut().filter(|_| channel == 1) {
            t.missed += frames;
            t.last = cx.now();
        }
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let is_sound = frame.channel == 1 && frame.contents == Contents::AsSent;
        let Some(probe) = frame.probe.filter(|_| is_sound) else { return };
        if let Some(r) = &mut self.recovery {
            return r.frame(probe.load, probe.number, frame.at);
        }
        let Some(t) = self.trial.as_mut().filter(|t| t.load == probe.load) else { return };
        t.last = t.last.max(cx.now());
        if let Some(ns) = frame.delay_ns() {
            // Two readings of one clock may be a little the wrong way round.
            t.latency.record(ns.max(0.0) as u64);
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if let Some(t) = self.trial.as_mut().filter(|t| t.load == done.load) {
            t.done = Some(*done);
            t.last = t.last.max(cx.now());
            cx.timer_in(LOOK, LOOK_AGAIN);
        }
    }

    fn connection(&mut self, cx: &mut Context<'_>, _: Nanos, up: bool) -> bool {
        if self.recovery.is_none() {
            return false;
        }
        if up {
            self.rule(cx);
        } else {
            cx.timer_in(SETTLE, recovery::CONNECT);
        }
        true
    }

    fn was_reset(&mut self, _: &mut Context<'_>, at: Nanos) {
        if let Some(r) = &mut self.recovery {
            r.was_reset(at);
        }
    }

    fn unanswered(&mut self, _: &mut Context<'_>, _: u32) -> bool {
        // A switch that is being reset answers nothing.
        self.recovery.is_some()
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        told::tell(&self.plan.found, document);
        self.ledger.tell(document);
        if let Some(r) = &self.recovery {
            r.tell(document);
        }
        if self.missed > 0 {
            document.note(format!(
                "{} frames came and the instrument was too slow to take them; they count as received.",
                self.missed
            ));
        }
    }
}
