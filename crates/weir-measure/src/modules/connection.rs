//! `connection`: what becomes of flows and frames while the controller is away, and how soon a connection
//! is there again.
//!
//! A rule forwards probes all the time. Over and over the control connection is closed, for a while nobody is
//! there, and it is made again: the time from asking for a connection to the versions being agreed is noted
//! (where the switch connects, it is the switch's own patience that is measured), then the switch is asked
//! for its flows. Probes that did not come through between leaving and being back are counted.

use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::module::{About, Bench, Captured, Context, Leaves, Load, LoadId, Module, Params, rules};
use crate::probe::Headers;
use std::time::Duration;
use weir_openflow::model::{
    Field, FlowFilter, Match, Message, Msg, Part, StatsReply, StatsRequest,
};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("connection", "What becomes of flows and frames while the controller is away")
        .leaving(Leaves::Headers)
        .count("repetitions", "", "times the controller goes away", 20, 1, 10_000)
        .quick("3")
        .number("away", "s", "how long it stays away", 5.0, 0.0, 3600.0)
        .quick("0.5")
        .number("wait", "s", "how long a connection may take to be there again", 60.0, 0.1, 3600.0)
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 1.0, 0.01, 10_000.0)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(Connection {
        repetitions: p.count("repetitions"),
        away: Duration::from_secs_f64(p.number("away")),
        wait: Duration::from_secs_f64(p.number("wait")),
        fps: Load::fps_of(p.number("rate"), FRAME),
        load: None,
        step: Step::Installing,
        runs: Vec::new(),
        asked_at: Nanos(0),
        give_up_at: Nanos(0),
        waiting: None,
        flows: 0,
        window: Window::default(),
        reconnects: Samples::new("ms"),
    })
}

/// Size of a probe, FCS included.
const FRAME: usize = 100;
/// With the controller there, before it goes.
const SETTLE: Duration = Duration::from_millis(200);
/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Installing,
    /// Probes flow, the controller is there.
    There,
    Leaving,
    Away,
    Returning,
    /// Back; the switch is asked for its flows.
    Asking,
}

/// Probes that came while the controller was away.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    first: Option<u32>,
    last: u32,
    came: u64,
}

impl Window {
    fn lost(&self) -> u64 {
        let all = self.first.map_or(0, |f| u64::from(self.last.wrapping_sub(f)) + 1);
        all.saturating_sub(self.came)
    }
}

struct Run {
    reconnect_ms: f64,
    /// Probes that came while it was away, and that did not.
    came: u64,
    lost: u64,
    flows: Option<u64>,
}

struct Connection {
    repetitions: u64,
    away: Duration,
    wait: Duration,
    fps: f64,
    load: Option<LoadId>,
    step: Step,
    runs: Vec<Run>,
    asked_at: Nanos,
    give_up_at: Nanos,
    waiting: Option<u32>,
    flows: u64,
    window: Window,
    reconnects: Samples,
}

impl Connection {
    fn leave(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.runs.len() as u64, self.repetitions);
        if self.runs.len() as u64 >= self.repetitions {
            return cx.end();
        }
        (self.step, self.window) = (Step::Leaving, Window::default());
        cx.disconnect();
    }

    fn back(&mut self, cx: &mut Context<'_>, flows: Option<u64>) {
        if let Some(run) = self.runs.last_mut() {
            run.flows = flows;
        }
        self.step = Step::There;
        cx.timer_in(SETTLE, 0);
    }
}

impl Module for Connection {
    fn takes(&self) -> Option<Duration> {
        let all = (self.away + SETTLE).as_secs_f64() * self.repetitions as f64;
        Duration::try_from_secs_f64(SETTLE.as_secs_f64() + all).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        let matcher = Match::default().with(Field::InPort, u128::from(cx.bench().port(0).0));
        cx.flow_mod(rules::add(matcher, 1000, vec![rules::output(cx.bench().port(1))]));
        self.load = Some(cx.begin(Load::new(0, Headers::default(), FRAME, self.fps)));
        // The first probe that comes through shows that the rule works.
        cx.timer_in(self.wait, 1);
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        match self.step {
            Step::Installing => {
                self.step = Step::There;
                cx.timer_in(SETTLE, 0);
            }
            Step::Leaving | Step::Away | Step::Returning => {
                self.window.first.get_or_insert(id.number);
                self.window.last = id.number;
                self.window.came += 1;
            }
            Step::There | Step::Asking => {}
        }
    }

    fn connection(&mut self, cx: &mut Context<'_>, at: Nanos, up: bool) -> bool {
        match (self.step, up) {
            (Step::Leaving, false) => {
                self.step = Step::Away;
                cx.timer_in(self.away, 0);
                true
            }
            // Refused, perhaps: the switch is not ready again.
            (Step::Returning, false) => {
                if cx.now() >= self.give_up_at {
                    cx.fail("the switch takes no new control connection");
                } else {
                    cx.timer_in(AGAIN, 0);
                }
                true
            }
            (Step::Returning, true) => {
                let ms = at.since(self.asked_at).0 as f64 / 1e6;
                self.reconnects.record(ms);
                let (came, lost) = (self.window.came, self.window.lost());
                self.runs.push(Run { reconnect_ms: ms, came, lost, flows: None });
                (self.step, self.flows) = (Step::Asking, 0);
                self.waiting = Some(cx.stats(StatsRequest::Flow(FlowFilter::every_flow())));
                true
            }
            _ => false,
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, _: Nanos, msg: &Msg) {
        if self.waiting != Some(msg.xid) {
            return;
        }
        match &msg.body {
            Message::StatsReply { more, body: StatsReply::Flow(f) } => {
                self.flows += f.len() as u64;
                if *more == Part::Last {
                    self.waiting = None;
                    let flows = self.flows;
                    self.back(cx, Some(flows));
                }
            }
            Message::Error(_) => {
                self.waiting = None;
                self.back(cx, None);
            }
            _ => {}
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match self.step {
            Step::Installing if token == 1 => {
                cx.fail("no probe comes through a rule that was inserted");
            }
            _ if token == 1 => {}
            Step::There => self.leave(cx),
            Step::Away => {
                self.step = Step::Returning;
                self.asked_at = cx.now();
                let wait = Nanos(u64::try_from(self.wait.as_nanos()).unwrap_or(u64::MAX));
                self.give_up_at = cx.now() + wait;
                cx.connect();
            }
            Step::Returning => cx.connect(),
            Step::Installing | Step::Leaving | Step::Asking => {}
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let bytes = FRAME as u32 - 4;
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, 1));
        let columns = vec![
            Column::number("time", ""),
            Column::number("connected again", "ms"),
            Column::number("probes while away", ""),
            Column::number("lost", ""),
            Column::number("flows left", ""),
        ];
        let mut table = Table::new("connection", "Each time the controller went away", columns);
        for (n, r) in self.runs.iter().enumerate() {
            table.row([
                Cell::from(n as u64 + 1),
                Cell::from(r.reconnect_ms),
                Cell::from(r.came + r.lost),
                Cell::from(r.lost),
                r.flows.map_or(Cell::from(f64::NAN), Cell::from),
            ]);
        }
        document.tables.push(table);
        let samples = std::mem::replace(&mut self.reconnects, Samples::new("ms"));
        document.distribution("reconnect", "connection there again", samples);
        let came: u64 = self.runs.iter().map(|r| r.came).sum();
        let lost: u64 = self.runs.iter().map(|r| r.lost).sum();
        let share = lost as f64 / (came + lost).max(1) as f64 * 100.0;
        let stopped = self.runs.iter().filter(|r| r.came == 0).count();
        let id = "forwarding-survives";
        document.verdicts.push(if self.runs.is_empty() {
            Verdict::new(id, Outcome::Unclear, "The controller was never away.")
        } else if stopped > 0 {
            let s = format!("Frames of an installed flow stopped {stopped} times while the controller was away.");
            Verdict::new(id, Outcome::Fails, s)
        } else if share > 1.0 {
            let s = format!("While the controller was away {share:.1} % of an installed flow's frames were lost.");
            Verdict::new(id, Outcome::Fails, s).with("loss", share, "%")
        } else {
            let s = "Frames of an installed flow pass while the controller is away.";
            Verdict::new(id, Outcome::Holds, s).with("loss", share, "%")
        });
        let asked = self.runs.iter().filter_map(|r| r.flows);
        let fewest = asked.min();
        let id = "flows-survive";
        document.verdicts.push(match fewest {
            None => Verdict::new(id, Outcome::Unclear, "The switch was not asked for its flows."),
            // The rule, and the one that drops the rest.
            Some(2..) => {
                Verdict::new(id, Outcome::Holds, "Flows are kept while the controller is away.")
            }
            Some(n) => {
                let s = format!("Of 2 flows {n} are left when the controller returns.");
                Verdict::new(id, Outcome::Fails, s)
            }
        });
    }
}
