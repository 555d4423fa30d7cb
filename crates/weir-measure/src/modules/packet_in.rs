//! `packet-in`: how long a frame takes to the controller, how many come through, and what is lost, against
//! the rate of frames. The measurement that OFLOPS itself comes with (001 §2).
//!
//! A rule sends everything that enters by the first port to the controller, whole. Probes are sent at one
//! rate after the other; a packet-in is known by the probe in it. Its delay is from the probe's departure to
//! the moment when the message was read.

use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
use crate::module::{
    About, Bench, Context, Leaves, Load, LoadDone, LoadId, Module, Params, ns_between, rules,
};
use crate::probe::{Headers, Place, Run, Track, identify};
use crate::stats::{self, quantile};
use std::time::Duration;
use weir_openflow::model::{Field, Match, Message, Msg};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("packet-in", "How fast, how soon and how surely do frames reach the controller")
        .leaving(Leaves::Headers)
        .paper("001 §2")
        .numbers(
            "rates",
            "1/s",
            "frames a second, one after the other",
            "10,100,1000,10000",
            0.1,
            1e7,
        )
        .quick("50,500,2000")
        .number("duration", "s", "time at each rate", 30.0, 0.01, 3600.0)
        .quick("1")
        .count("frame", "B", "size of a frame, with its check sequence", 100, 64, 1518)
        .number("wait", "s", "silence after which what is missing counts as lost", 2.0, 0.01, 60.0)
        .quick("0.5")
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(PacketIns {
        rows: p.numbers("rates").iter().map(|&rate| Row { rate, ..Row::default() }).collect(),
        duration: p.number("duration"),
        frame: p.count("frame") as usize,
        wait: Duration::from_secs_f64(p.number("wait")),
        at: 0,
        load: None,
        barrier: None,
        last: Nanos(0),
        ended: false,
        early: Vec::new(),
        numbers: Track::new(WINDOW),
    })
}

/// Between two looks whether all is here.
const LOOK: Duration = Duration::from_millis(50);
/// From a barrier's reply to the first frame.
const WAKE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Row {
    rate: f64,
    sent: u64,
    sent_fps: f64,
    received: u64,
    /// Further packet-ins of frames that had come before.
    twice: u64,
    first: Option<Nanos>,
    last: Option<Nanos>,
    /// Microseconds.
    delays: Vec<f64>,
}

impl Row {
    fn loss(&self) -> f64 {
        stats::loss_percent(self.sent, self.received)
    }

    /// Packet-ins a second: intervals over their time.
    fn per_second(&self) -> f64 {
        stats::per_second(self.received, self.first, self.last)
    }
}

struct PacketIns {
    rows: Vec<Row>,
    duration: f64,
    frame: usize,
    wait: Duration,
    at: usize,
    load: Option<LoadId>,
    barrier: Option<u32>,
    last: Nanos,
    ended: bool,
    /// Packet-ins that came before it was known here when their probes had left.
    early: Vec<(u32, Nanos)>,
    /// Which frames of the load have come.
    numbers: Track,
}

/// Frames of which it is known whether they have come, in words of 64: as many as can be on their way.
const WINDOW: usize = 1024;

/// How many of them wait before they are looked through.
const EARLY: usize = 64;

impl PacketIns {
    /// Delays of packet-ins whose probes' departures are known by now; all others are given up once there are
    /// too many.
    fn look_through(&mut self, cx: &Context<'_>) {
        let (Some(load), Some(row)) = (self.load, self.rows.get_mut(self.at)) else { return };
        self.early.retain(|(number, at)| match cx.departure(load, *number) {
            Some(left) => {
                row.delays.push(ns_between(left, *at) / 1e3);
                false
            }
            None => true,
        });
        if self.early.len() >= EARLY {
            self.early.drain(..EARLY / 2);
        }
    }

    fn next(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.at as u64, self.rows.len() as u64);
        let Some(row) = self.rows.get(self.at) else { return cx.end() };
        let load = Load::new(0, Headers::default(), self.frame, row.rate);
        self.load = Some(cx.begin(load.lasting(self.duration)));
        self.numbers = Track::new(WINDOW);
        self.ended = false;
    }

    /// All is here, or nothing has come for a while.
    fn is_over(&self, cx: &Context<'_>) -> bool {
        let Some(row) = self.rows.get(self.at) else { return false };
        let silence = Duration::from_nanos(cx.now().since(self.last).0);
        self.ended && (row.received >= row.sent || silence >= self.wait)
    }
}

impl Module for PacketIns {
    fn takes(&self) -> Option<Duration> {
        let sending = |r: &Row| ((r.rate * self.duration).ceil() - 1.0).max(0.0) / r.rate;
        let all: f64 = self.rows.iter().map(|r| sending(r) + LOOK.as_secs_f64()).sum();
        Duration::try_from_secs_f64(WAKE.as_secs_f64() + all).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        let matcher = Match::default().with(Field::InPort, u128::from(cx.bench().port(0).0));
        cx.flow_mod(rules::add(matcher, 1000, vec![rules::to_controller()]));
        if cx.bench().barriers {
            self.barrier = Some(cx.barrier());
        } else {
            cx.timer_in(Duration::from_secs(1), 0);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match &msg.body {
            Message::BarrierReply if self.barrier.take() == Some(msg.xid) => {
                // A barrier may lie: the first probes find out, at leisure.
                cx.timer_in(WAKE, 0);
            }
            Message::PacketIn(p) => {
                let Some(load) = self.load else { return };
                let Some(id) = identify(&p.data, Run(load.0)) else { return };
                let left = cx.departure(load, id.number);
                let Some(row) = self.rows.get_mut(self.at) else { return };
                self.last = self.last.max(at);
                if !matches!(self.numbers.arrive(id.number), Place::InOrder | Place::Reordered) {
                    row.twice += 1;
                    return;
                }
                row.received += 1;
                row.first.get_or_insert(at);
                row.last = Some(at);
                match left {
                    Some(left) => row.delays.push(ns_between(left, at) / 1e3),
                    None => self.early.push((id.number, at)),
                }
                if self.early.len() >= EARLY {
                    self.look_through(cx);
                }
            }
            _ => {}
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if Some(done.load) != self.load {
            return;
        }
        if let Some(row) = self.rows.get_mut(self.at) {
            (row.sent, row.sent_fps) = (done.sent, done.sent_fps());
        }
        self.ended = true;
        self.last = self.last.max(cx.now());
        cx.timer_in(LOOK, 1);
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token == 0 {
            self.next(cx);
        } else if self.is_over(cx) {
            self.look_through(cx);
            self.early.clear();
            self.at += 1;
            self.next(cx);
        } else if self.ended {
            cx.timer_in(LOOK, 1);
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let most = self.rows.iter().map(|r| r.rate).fold(0.0, f64::max);
        document.probe =
            Some(ProbeResolution::shared(most, self.frame.saturating_sub(4) as u32, 1));
        let mut table = Table::new(
            "packet-in",
            "Packet-ins by rate",
            vec![
                Column::number("asked", "1/s"),
                Column::number("sent", "1/s"),
                Column::number("packet-ins", "1/s"),
                Column::number("loss", "%"),
                Column::number("come twice", ""),
                Column::number("median", "µs"),
                Column::number("p90", "µs"),
                Column::number("p99", "µs"),
                Column::number("frames", ""),
            ],
        );
        let delay = Axis::log("delay", "µs");
        let rate = || Axis::log("frames a second", "1/s");
        let mut delays = Figure::new("packet-in-delay", "Delay of packet-ins", rate(), delay);
        let loss = Axis::linear("loss", "%");
        let mut losses = Figure::new("packet-in-loss", "Loss of packet-ins", rate(), loss);
        let mut d = Series::measured("packet-in", "10th to 90th percentile");
        let mut l = Series::measured("packet-in", "");
        for r in self.rows.iter().filter(|r| r.sent > 0) {
            let q = |q| quantile(&r.delays, q).unwrap_or(f64::NAN);
            table.row([
                Cell::from(r.rate),
                Cell::from(r.sent_fps),
                Cell::from(r.per_second()),
                Cell::from(r.loss()),
                Cell::from(r.twice),
                Cell::from(q(0.5)),
                Cell::from(q(0.9)),
                Cell::from(q(0.99)),
                Cell::from(r.sent),
            ]);
            d.push(Point::with_spread(r.rate, q(0.5), q(0.1), q(0.9)));
            l.push(Point::new(r.rate, r.loss()));
            let mut samples = Samples::new("µs").in_group("packet-in delay");
            r.delays.iter().for_each(|&us| samples.record(us));
            (r.received..r.sent).for_each(|_| samples.miss());
            let id = format!("packet-in-{}", r.rate.round());
            document.distribution(&id, &format!("{} a second", r.rate), samples);
        }
        delays.series.push(d);
        losses.series.push(l);
        document.tables.push(table);
        document.figures.extend([delays, losses]);
        document.verdicts.extend([self.verdict(), self.once()]);
    }
}

impl PacketIns {
    /// Whether one frame is one packet-in.
    fn once(&self) -> Verdict {
        let (id, twice) = ("packet-ins-once", self.rows.iter().map(|r| r.twice).sum::<u64>());
        let received: u64 = self.rows.iter().map(|r| r.received).sum();
        match (received, twice) {
            (0, _) => Verdict::new(id, Outcome::Unclear, "No packet-in came."),
            (_, 0) => Verdict::new(id, Outcome::Holds, "No frame came to the controller twice."),
            (_, n) => {
                let s = format!("Of {received} frames {n} came to the controller twice or more.");
                Verdict::new(id, Outcome::Fails, s).with("come twice", n as f64, "")
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let tried: Vec<_> = self.rows.iter().filter(|r| r.sent > 0).collect();
        // A frame in a hundred may be the instrument's own.
        let lossy =
            tried.iter().filter(|r| r.loss() > 1.0).min_by(|a, b| a.rate.total_cmp(&b.rate));
        let id = "packet-ins-complete";
        // Where nothing waits: at the lowest rate.
        let slowest = tried.iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
        let delay = slowest.and_then(|r| quantile(&r.delays, 0.5)).unwrap_or(f64::NAN);
        let verdict = match (tried.is_empty(), lossy) {
            (true, _) => Verdict::new(id, Outcome::Unclear, "No frame was sent."),
            (false, None) => {
                let top = tried.iter().map(|r| r.sent_fps).fold(0.0, f64::max);
                let s =
                    format!("Frames reach the controller at every rate tried, up to {top:.0}/s.");
                Verdict::new(id, Outcome::Holds, s).with("highest rate", top, "1/s")
            }
            (false, Some(r)) => {
                let (rate, loss, got) = (r.rate, r.loss(), r.per_second());
                // Fewer than two have no rate.
                let come = match r.received {
                    0 => "no packet-in comes".to_owned(),
                    _ if got.is_nan() => format!("{} packet-ins come", r.received),
                    _ => format!("{got:.0} packet-ins a second come"),
                };
                let s = format!(
                    "Of {rate:.0} frames a second for the controller {loss:.1} % are lost; {come}."
                );
                Verdict::new(id, Outcome::Fails, s)
                    .with("loss", loss, "%")
                    .with("rate", rate, "1/s")
                    .with("packet-ins", got, "1/s")
            }
        };
        verdict.with("delay at the lowest rate, median", delay, "µs")
    }
}
