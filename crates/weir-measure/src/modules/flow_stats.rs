//! `flow-stats`: how long the switch takes to tell its flows' statistics, in how many parts, how fresh they
//! are, what that costs its CPU and the frames, against the rate of asking. 001 §4.3, figure 5.
//!
//! Flows are inserted and probes go round them all the time. At one rate after the other statistics of all
//! flows are asked for, whether or not the last answer has come. A reply's delay is from the request being
//! written to its last part being read. *Age*: the probes that had left when the request was written, less
//! those that the reply counts, at the probes' rate: how old the numbers are. A reply that counts more than had left
//! when it was read is *ahead*: such frames do not exist, and its age says nothing. Both want every flow to be there: a
//! switch that refuses one is asked nothing.

use super::verdicts::refused;
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadId, Module, Params, Sample, ns_between,
    rules,
};
use crate::probe::{Headers, Vary};
use crate::stats::quantile;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::model::{FlowFilter, Message, Msg, Part, StatsReply, StatsRequest};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("flow-stats", "How soon, how fresh and at what price are flow statistics told")
        .leaving(Leaves::Sizes)
        .paper("001 figure 5")
        .count("flows", "", "flows in the table", 1024, 1, 65_000)
        .quick("100")
        .numbers(
            "rates",
            "1/s",
            "requests a second, one after the other",
            "0.5,1,2,5,10,20,50",
            0.01,
            1e5,
        )
        .quick("2,20")
        .number("duration", "s", "time at each rate", 60.0, 0.1, 3600.0)
        .quick("2")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .quick("2")
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let frame = p.count("frame") as usize;
    Box::new(FlowStats {
        flows: p.count("flows") as usize,
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        duration: Duration::from_secs_f64(p.number("duration")),
        rows: p.numbers("rates").iter().map(|&rate| Row { rate, ..Row::default() }).collect(),
        at: 0,
        barrier: None,
        first: 0,
        load: None,
        seen: None,
        open: BTreeMap::new(),
        until: Nanos(0),
    })
}

#[derive(Default)]
struct Row {
    rate: f64,
    asked: u64,
    answered: u64,
    refused: u64,
    /// Milliseconds.
    delays: Vec<f64>,
    parts: Vec<f64>,
    /// From one part of a reply to the next, on average.
    between: Vec<f64>,
    flows: Vec<f64>,
    ages: Vec<f64>,
    /// By how much a reply counts more than had left when it was read; negative: it does not.
    leads: Vec<f64>,
    /// Replies that do not tell what flows counted.
    unkept: u64,
    cpu: Vec<f64>,
    /// Microseconds.
    probes: Vec<f64>,
}

/// A request without its whole answer.
struct Open {
    row: usize,
    written: Option<Nanos>,
    first_part: Option<Nanos>,
    parts: u32,
    flows: u64,
    packets: u128,
    /// Flows whose packets the switch does not count, in its word: all ones (1.3 §5.8).
    unkept: u64,
}

struct FlowStats {
    flows: usize,
    fps: f64,
    frame: usize,
    duration: Duration,
    rows: Vec<Row>,
    at: usize,
    barrier: Option<u32>,
    /// Transaction id of the first flow; the others' follow.
    first: u32,
    load: Option<LoadId>,
    /// The latest probe that came: its number, and when it left.
    seen: Option<(u32, Nanos)>,
    open: BTreeMap<u32, Open>,
    until: Nanos,
}

/// For what is still on its way.
const SETTLE: Duration = Duration::from_millis(500);
const ASK: u64 = 0;
const NEXT: u64 = 1;
const BEGIN: u64 = 2;

impl FlowStats {
    fn flow(n: usize) -> Headers {
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    fn begin_row(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.at as u64, self.rows.len() as u64);
        if self.at >= self.rows.len() {
            if let Some(load) = self.load {
                cx.stop(load);
            }
            return cx.end();
        }
        let time = Nanos(u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX));
        self.until = cx.now() + time;
        self.ask(cx);
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        let Some(row) = self.rows.get_mut(self.at) else { return };
        if cx.now() >= self.until {
            // Answers still on their way have as long again as an answer may take.
            return cx.timer_in(SETTLE, NEXT);
        }
        row.asked += 1;
        let interval = Duration::from_secs_f64(1.0 / row.rate);
        let xid = cx.stats(StatsRequest::Flow(FlowFilter::every_flow()));
        let open = Open {
            row: self.at,
            written: None,
            first_part: None,
            parts: 0,
            flows: 0,
            packets: 0,
            unkept: 0,
        };
        self.open.insert(xid, open);
        cx.timer_in(interval, ASK);
    }

    /// Probes that had left by then.
    fn left_by(&self, at: Nanos) -> Option<f64> {
        let (number, left) = self.seen?;
        let seconds = ns_between(left, at) / 1e9;
        Some(f64::from(number) + 1.0 + seconds * self.fps)
    }
}

impl Module for FlowStats {
    fn takes(&self) -> Option<Duration> {
        let asking = |r: &Row| (self.duration.as_secs_f64() * r.rate).ceil() / r.rate;
        let all: f64 = self.rows.iter().map(|r| asking(r) + SETTLE.as_secs_f64()).sum();
        Duration::try_from_secs_f64(SETTLE.as_secs_f64() + all).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        let to = cx.bench().port(1);
        for n in 0..self.flows {
            let matcher = rules::exact(&Self::flow(n), cx.bench().port(0));
            let xid = cx.flow_mod(rules::add(matcher, 1000, vec![rules::output(to)]));
            if n == 0 {
                self.first = xid;
            }
        }
        if cx.bench().barriers {
            self.barrier = Some(cx.barrier());
        } else {
            cx.timer_in(Duration::from_secs(2), BEGIN);
        }
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        if let Some(open) = self.open.get_mut(&xid) {
            open.written = Some(at);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match &msg.body {
            Message::BarrierReply if self.barrier.take() == Some(msg.xid) => {
                cx.timer_in(SETTLE, BEGIN);
            }
            Message::StatsReply { more, body: StatsReply::Flow(flows) } => {
                let Some(open) = self.open.get_mut(&msg.xid) else { return };
                open.parts += 1;
                open.first_part.get_or_insert(at);
                // The rule that drops the rest counts other frames.
                let ours = flows.iter().filter(|f| f.priority != rules::DROP_PRIORITY);
                for f in ours {
                    open.flows += 1;
                    match f.packets {
                        u64::MAX => open.unkept += 1,
                        packets => open.packets += u128::from(packets),
                    }
                }
                if *more == Part::More {
                    return;
                }
                let Some(open) = self.open.remove(&msg.xid) else { return };
                let left = open.written.and_then(|at| self.left_by(at));
                let left_since = self.left_by(at);
                let (Some(row), Some(written)) = (self.rows.get_mut(open.row), open.written) else {
                    return;
                };
                row.answered += 1;
                row.delays.push(ns_between(written, at) / 1e6);
                row.parts.push(f64::from(open.parts));
                if let Some(first) = open.first_part.filter(|_| open.parts > 1) {
                    row.between.push(ns_between(first, at) / 1e6 / f64::from(open.parts - 1));
                }
                row.flows.push(open.flows as f64);
                if open.unkept > 0 {
                    row.unkept += 1;
                    return;
                }
                if let Some(left) = left {
                    row.ages.push((left - open.packets as f64) / self.fps * 1e3);
                }
                if let Some(left) = left_since {
                    row.leads.push((open.packets as f64 - left) / self.fps * 1e3);
                }
            }
            Message::Error(e) if (msg.xid.wrapping_sub(self.first) as usize) < self.flows => {
                cx.fail(refused(self.flows, "exact entries", &format!("{:?}", e.code), "flows"));
            }
            Message::Error(_) => {
                if let Some(open) = self.open.remove(&msg.xid)
                    && let Some(row) = self.rows.get_mut(open.row)
                {
                    row.refused += 1;
                }
            }
            _ => {}
        }
    }

    fn unanswered(&mut self, _: &mut Context<'_>, xid: u32) -> bool {
        // Counted by its absence.
        self.open.remove(&xid).is_some()
    }

    fn frame(&mut self, _: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        if let Some(left) = frame.left {
            self.seen = Some((id.number, left));
        }
        if let (Some(ns), Some(row)) = (frame.delay_ns(), self.rows.get_mut(self.at)) {
            row.probes.push(ns / 1e3);
        }
    }

    fn sample(&mut self, _: &mut Context<'_>, sample: &Sample) {
        if sample.what == "cpu"
            && let Some(row) = self.rows.get_mut(self.at)
        {
            row.cpu.push(sample.value);
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match token {
            BEGIN => {
                let flows = (0..self.flows).map(Self::flow).collect();
                let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
                self.load = Some(cx.begin(load));
                self.begin_row(cx);
            }
            ASK => self.ask(cx),
            _ => {
                self.at += 1;
                self.begin_row(cx);
            }
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let (bytes, flows) = (self.frame.saturating_sub(4) as u32, self.flows as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows));
        let mut table = Table::new(
            "flow-stats",
            "Flow statistics by rate of asking",
            vec![
                Column::number("asked", "1/s"),
                Column::number("requests", ""),
                Column::number("answered", "%"),
                Column::number("delay", "ms"),
                Column::number("delay p90", "ms"),
                Column::number("parts", ""),
                Column::number("flows told", ""),
                Column::number("age", "ms"),
                Column::number("CPU", "%"),
                Column::number("probe delay", "µs"),
            ],
        );
        let rate = || Axis::log("requests a second", "1/s");
        let time = Axis::log("time to the reply", "ms");
        let mut delay = Figure::new("stats-delay", "Time to receive flow statistics", rate(), time);
        let load = Axis::linear("CPU utilisation", "%");
        let mut cpu = Figure::new("stats-cpu", "CPU while statistics are asked for", rate(), load);
        let mut d = Series::measured("reply", "10th to 90th percentile");
        let mut c = Series::measured("cpu", "");
        for r in self.rows.iter().filter(|r| r.asked > 0) {
            let q = |v: &[f64], q| quantile(v, q).unwrap_or(f64::NAN);
            table.row([
                Cell::from(r.rate),
                Cell::from(r.asked),
                Cell::from(r.answered as f64 / r.asked as f64 * 100.0),
                Cell::from(q(&r.delays, 0.5)),
                Cell::from(q(&r.delays, 0.9)),
                Cell::from(q(&r.parts, 0.5)),
                Cell::from(q(&r.flows, 0.5)),
                Cell::from(q(&r.ages, 0.5)),
                Cell::from(q(&r.cpu, 0.5)),
                Cell::from(q(&r.probes, 0.5)),
            ]);
            let p = |at| q(&r.delays, at);
            d.push(Point::with_spread(r.rate, p(0.5), p(0.1), p(0.9)));
            c.push(quantile(&r.cpu, 0.5).map_or(Point::missing(r.rate), |v| Point::new(r.rate, v)));
            let mut samples = Samples::new("ms").in_group("time to the reply");
            r.delays.iter().for_each(|&ms| samples.record(ms));
            (r.answered..r.asked).for_each(|_| samples.miss());
            let id = format!("stats-{}", (r.rate * 100.0).round());
            document.distribution(&id, &format!("{} a second", r.rate), samples);
        }
        delay.series.push(d);
        cpu.series.push(c);
        document.tables.push(table);
        document.figures.extend([delay, cpu]);
        document.verdicts.extend([self.answered(), self.fresh(), self.whole(), self.packed()]);
    }
}

/// Older than this is old, beyond one round of the probes.
const OLD_MS: f64 = 100.0;
/// Flows in each part of a reply: fewer are a reply in pieces. A part has room for hundreds.
const FEW: f64 = 16.0;

impl FlowStats {
    fn answered(&self) -> Verdict {
        let id = "statistics-answered";
        let asked: u64 = self.rows.iter().map(|r| r.asked).sum();
        let answered: u64 = self.rows.iter().map(|r| r.answered).sum();
        let share = answered as f64 / asked.max(1) as f64 * 100.0;
        let (outcome, s) = match (asked, answered == asked) {
            (0, _) => (Outcome::Unclear, "Nothing was asked.".to_owned()),
            (_, true) => (Outcome::Holds, format!("All {asked} requests were answered.")),
            (_, false) => {
                (Outcome::Fails, format!("Of {asked} requests {answered} were answered."))
            }
        };
        let first = self.rows.first().and_then(|r| quantile(&r.delays, 0.5)).unwrap_or(f64::NAN);
        Verdict::new(id, outcome, s).with("answered", share, "%").with(
            "delay at the first rate, median",
            first,
            "ms",
        )
    }

    fn fresh(&self) -> Verdict {
        let id = "statistics-fresh";
        let ages: Vec<f64> = self.rows.iter().flat_map(|r| r.ages.iter().copied()).collect();
        let unkept: u64 = self.rows.iter().map(|r| r.unkept).sum();
        let Some(age) = quantile(&ages, 0.9) else {
            let s = match unkept {
                0 => "No reply could be compared with the probes.",
                _ => "The switch says of its flows' packets that it does not count them.",
            };
            return Verdict::new(id, Outcome::Unclear, s);
        };
        let allowed = OLD_MS + self.flows as f64 / self.fps * 1e3;
        let leads: Vec<f64> = self.rows.iter().flat_map(|r| r.leads.iter().copied()).collect();
        let lead = quantile(&leads, 0.9).unwrap_or(f64::NAN);
        if lead > allowed {
            let s = format!(
                "Counters tell of frames that were not sent: they are {lead:.0} ms of probes ahead (90th percentile), and how old they are can't be told."
            );
            return Verdict::new(id, Outcome::Fails, s).with("ahead, 90th percentile", lead, "ms");
        }
        let (outcome, s) = if age <= allowed {
            (Outcome::Holds, "Counters are as new as the probes can tell.".to_owned())
        } else {
            (Outcome::Fails, format!("Counters are {age:.0} ms old (90th percentile)."))
        };
        Verdict::new(id, outcome, s).with("age, 90th percentile", age, "ms")
    }

    fn whole(&self) -> Verdict {
        let id = "statistics-whole";
        let told: Vec<f64> = self.rows.iter().flat_map(|r| r.flows.iter().copied()).collect();
        let right = told.iter().filter(|n| **n == self.flows as f64).count();
        let parts: Vec<f64> = self.rows.iter().flat_map(|r| r.parts.iter().copied()).collect();
        let parts = quantile(&parts, 0.5).unwrap_or(f64::NAN);
        let (outcome, s) = match (told.len(), right == told.len()) {
            (0, _) => (Outcome::Unclear, "No reply came.".to_owned()),
            (_, true) => (Outcome::Holds, format!("Every reply tells all {} flows.", self.flows)),
            (n, false) => {
                (Outcome::Fails, format!("{} of {n} replies do not tell all flows.", n - right))
            }
        };
        Verdict::new(id, outcome, s).with("parts of a reply, median", parts, "")
    }

    /// 001 §4.3: a switch may tell each flow by itself, and several at once only where it is asked often.
    fn packed(&self) -> Verdict {
        let id = "statistics-packed";
        let parts = self.rows.iter().filter_map(|r| Some((r.rate, quantile(&r.parts, 0.5)?)));
        let parts: Vec<(f64, f64)> = parts.collect();
        let most = parts.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let least = parts.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(most), Some(least)) = (most, least) else {
            return Verdict::new(id, Outcome::Unclear, "No reply came.");
        };
        let between: Vec<f64> = self.rows.iter().flat_map(|r| r.between.iter().copied()).collect();
        let between = quantile(&between, 0.5).unwrap_or(f64::NAN);
        let each = |parts: f64| self.flows as f64 / parts;
        let verdict = if most.1 <= 1.0 + (self.flows as f64 / FEW).ceil() {
            Verdict::new(id, Outcome::Holds, "Each part of a reply tells many flows.")
        } else if least.1 < most.1 / 2.0 {
            let s = format!(
                "How a reply is split depends on the rate: {:.0} parts at {} requests a second, {:.0} at {}.",
                most.1, most.0, least.1, least.0
            );
            Verdict::new(id, Outcome::Fails, s)
        } else {
            let s =
                format!("A reply is split into {:.0} parts of {:.1} flows.", most.1, each(most.1));
            Verdict::new(id, Outcome::Fails, s)
        };
        verdict.with("flows in a part, fewest", each(most.1), "").with(
            "from part to part, median",
            between,
            "ms",
        )
    }
}
