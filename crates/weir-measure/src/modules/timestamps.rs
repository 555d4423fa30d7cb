//! `timestamps`: drift and jitter of each way to say when a frame came, against each other. 001 figure 2.
//!
//! No switch: probes at an even rate go over a wire, and each mechanism's moment is compared with that at which
//! the kernel (or the adapter) says that the frame left; the paper has a DAG card for that. By the first wire,
//! channels 0 to 1, come the stamps of AF_PACKET: the kernel's, and that of the program that reads. By a second
//! wire, channels 2 to 3, if there is one, the stamp of a program that reads by AF_XDP, which takes frames
//! before the kernel stamps them. libpcap's stamps are the kernel's of AF_PACKET.

use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
use crate::engine::floor;
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadDone, Module, Params, ns_between,
};
use crate::probe::{Headers, Vary};
use crate::stats::{self, quantile};
use std::time::Duration;
use weir_packet::Nanos;

/// Points of a curve.
const POINTS: usize = 200;
/// Fewer samples say nothing about a drift.
const FEW: usize = 100;

pub(super) fn about() -> About {
    About::new("timestamps", "How do the ways to say when a frame came drift and jitter")
        .paper("001 figure 2")
        .on_a_wire()
        .leaving(Leaves::All)
        .number("rate", "Mb/s", "probes on each wire", 100.0, 0.001, 1e5)
        .quick("10")
        .count("frame", "B", "size of a frame, with its check sequence", 100, 64, 1518)
        .number("duration", "s", "time", 120.0, 0.1, 3600.0)
        .quick("5")
        .count("samples", "1/s", "probes a second whose moments are compared", 1000, 1, 1_000_000)
        .number(
            "drift",
            "ppm",
            "drift of the stamps used elsewhere that is too much",
            1.0,
            0.0,
            1e6,
        )
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let frame = p.count("frame") as usize;
    let fps = Load::fps_of(p.number("rate"), frame);
    let duration = p.number("duration");
    Box::new(Timestamps {
        fps,
        frame,
        duration,
        // No more than memory is meant for, however long.
        samples: (p.count("samples") as f64).min(MOST / duration).max(1e-3),
        one_in: 1,
        too_much_ppm: p.number("drift"),
        loads: 0,
        ended: 0,
        by_packet: Vec::new(),
        by_xdp: Vec::new(),
        strangers: 0,
        to: String::new(),
    })
}

/// Samples kept of each wire.
const MOST: f64 = 500_000.0;

/// A frame's moments.
#[derive(Clone, Copy)]
struct Moments {
    number: u32,
    made: Nanos,
    left: Nanos,
    at: Nanos,
    read: Nanos,
}

struct Timestamps {
    fps: f64,
    frame: usize,
    duration: f64,
    /// A second.
    samples: f64,
    one_in: u64,
    too_much_ppm: f64,
    loads: usize,
    ended: usize,
    by_packet: Vec<Moments>,
    by_xdp: Vec<Moments>,
    /// Frames that came and are no probes.
    strangers: u64,
    to: String,
}

impl Module for Timestamps {
    fn takes(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.duration).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.to = cx.bench().wired.get(1).map_or_else(String::new, |w| w.name.clone());
        self.fps = cx.pace(self.fps);
        self.one_in = (self.fps / self.samples).ceil().max(1.0) as u64;
        for channel in (0..cx.bench().wired.len().saturating_sub(1)).step_by(2) {
            let flow = Headers::default().nth(channel as u16, &[Vary::DstAddr]);
            let load = Load::new(channel, flow, self.frame, self.fps);
            let load = load.lasting(self.duration);
            cx.begin(load.telling_one_in(self.one_in));
            self.loads += 1;
        }
        cx.timer_in(Duration::from_secs(1), 0);
    }

    fn timer(&mut self, cx: &mut Context<'_>, seconds: u64) {
        cx.progress(seconds + 1, self.duration.ceil() as u64);
        cx.timer_in(Duration::from_secs(1), seconds + 1);
    }

    fn frame(&mut self, _: &mut Context<'_>, f: &Captured) {
        self.strangers += u64::from(f.probe.is_none() && f.channel % 2 == 1);
        let (Some(left), Some(made), Some(probe)) = (f.left, f.made, f.probe) else { return };
        let moments = Moments { number: probe.number, made, left, at: f.at, read: f.read };
        let to = match f.channel {
            1 => &mut self.by_packet,
            3 => &mut self.by_xdp,
            _ => return,
        };
        if to.len() < 2 * MOST as usize {
            to.push(moments);
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, _: &LoadDone) {
        self.ended += 1;
        if self.ended == self.loads {
            cx.end();
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let told = self.fps / self.one_in as f64;
        document.probe =
            Some(ProbeResolution::shared(told, self.frame.saturating_sub(4) as u32, 1));
        let stamps = document.wire.take().map_or_else(String::new, |w| w.stamps);
        let passed: Vec<_> = self.by_packet.iter().map(|m| (m.left, m.at)).collect();
        document.wire = floor::summary(&passed, &format!("the wire to '{}'", self.to), &stamps);
        let mut table = Table::new(
            "timestamps",
            "From a frame's departure, as the sender's stamp has it",
            vec![
                Column::text("moment"),
                Column::number("median", "µs"),
                Column::number("p99", "µs"),
                Column::number("jitter", "µs"),
                Column::number("drift", "ppm"),
                Column::number("drift in that time", "µs"),
                Column::number("samples", ""),
            ],
        );
        let time = Axis::linear("time", "s");
        let y = Axis::linear("difference to the first", "µs");
        let mut figure = Figure::new("timestamps", "Stamps against the sender's", time, y);
        let mut verdict = None;
        let packet: fn(&Moments) -> Nanos = |m| m.at;
        let came = [
            ("af-packet-kernel", "AF_PACKET, kernel's stamp", &self.by_packet, packet),
            ("af-packet-program", "AF_PACKET, when it was read", &self.by_packet, |m| m.read),
            ("af-xdp-program", "AF_XDP, when it was read", &self.by_xdp, |m| m.read),
            ("sender-program", "sender's program, before sending", &self.by_packet, |m| m.made),
        ];
        for (id, title, all, moment) in came {
            let Some(begin) = all.first().map(|m| m.left) else { continue };
            let over_time: Vec<(f64, f64)> = all
                .iter()
                .map(|m| (ns_between(begin, m.left) / 1e9, ns_between(m.left, moment(m)) / 1e3))
                .collect();
            let mechanism = Mechanism::of(&over_time);
            table.row([
                Cell::from(title),
                Cell::from(mechanism.median_us),
                Cell::from(mechanism.p99_us),
                Cell::from(mechanism.jitter_us),
                Cell::from(mechanism.drift_ppm),
                Cell::from(mechanism.drift_ppm.map(|d| d * mechanism.seconds)),
                Cell::from(all.len() as u64),
            ]);
            figure.series.push(curve(title, &over_time));
            let mut samples = Samples::new("µs").in_group("from departure");
            over_time.iter().for_each(|(_, us)| samples.record(*us));
            document.distribution(id, title, samples);
            if verdict.is_none() {
                verdict = Some(self.verdict(&mechanism, document.partial.is_some()));
            }
        }
        document.tables.push(table);
        document.tables.extend(self.pacing());
        document.figures.push(figure);
        document.verdicts.push(verdict.unwrap_or_else(|| self.none()));
    }
}

const VERDICT: &str = "stamps-keep-time";

/// What the moments of one mechanism come to.
struct Mechanism {
    seconds: f64,
    count: usize,
    median_us: Option<f64>,
    p99_us: Option<f64>,
    /// The mean of how much successive frames differ (RFC 3393).
    jitter_us: Option<f64>,
    /// Microseconds in a second.
    drift_ppm: Option<f64>,
}

impl Mechanism {
    /// Of seconds and microseconds.
    fn of(over_time: &[(f64, f64)]) -> Self {
        let delays: Vec<f64> = over_time.iter().map(|p| p.1).collect();
        let changes: Vec<f64> = delays.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
        Self {
            seconds: over_time.last().map_or(0.0, |p| p.0),
            count: delays.len(),
            median_us: quantile(&delays, 0.5),
            p99_us: quantile(&delays, 0.99),
            jitter_us: (!changes.is_empty())
                .then(|| changes.iter().sum::<f64>() / changes.len() as f64),
            drift_ppm: stats::slope(over_time),
        }
    }
}

/// Medians of equal parts of the time, against the median of the first.
fn curve(title: &str, over_time: &[(f64, f64)]) -> Series {
    let mut series = Series::measured(title, "10th to 90th percentile");
    let part = over_time.len().div_ceil(POINTS).max(1);
    let mut zero = None;
    for chunk in over_time.chunks(part) {
        let delays: Vec<f64> = chunk.iter().map(|p| p.1).collect();
        let q = |q| quantile(&delays, q).unwrap_or(f64::NAN);
        let zero = *zero.get_or_insert(q(0.5));
        let middle = chunk.get(chunk.len() / 2).map_or(0.0, |p| p.0);
        series.push(Point::with_spread(middle, q(0.5) - zero, q(0.1) - zero, q(0.9) - zero));
    }
    series
}

impl Timestamps {
    /// How even the frames left: the rate, and how much the time from one frame that is told of to the next
    /// differs from what the rate makes it.
    fn pacing(&self) -> Option<Table> {
        let (first, last) = (self.by_packet.first()?, self.by_packet.last()?);
        let frames = |a: &Moments, b: &Moments| f64::from(b.number.wrapping_sub(a.number));
        let sent_fps = frames(first, last) / ns_between(first.left, last.left) * 1e9;
        let errors: Vec<f64> = self
            .by_packet
            .windows(2)
            .map(|w| {
                let want = frames(&w[0], &w[1]) / self.fps * 1e9;
                (ns_between(w[0].left, w[1].left) - want).abs() / 1e3
            })
            .collect();
        let mut table = Table::new(
            "pacing",
            "Departures on the first wire",
            vec![
                Column::number("asked", "1/s"),
                Column::number("sent", "1/s"),
                Column::number("off", "ppm"),
                Column::number("interval off, median", "µs"),
                Column::number("p99", "µs"),
                Column::number("most", "µs"),
                Column::number("one frame in", ""),
            ],
        );
        table.row([
            Cell::from(self.fps),
            Cell::from(sent_fps),
            Cell::from((sent_fps / self.fps - 1.0) * 1e6),
            Cell::from(quantile(&errors, 0.5)),
            Cell::from(quantile(&errors, 0.99)),
            Cell::from(quantile(&errors, 1.0)),
            Cell::from(self.one_in),
        ]);
        Some(table)
    }

    /// Where no probe came.
    fn none(&self) -> Verdict {
        let s = match self.strangers {
            0 => "No frame came over the wire.".to_owned(),
            n => format!(
                "{n} frames came over the wire and none of them is a probe, of which alone both moments are known."
            ),
        };
        Verdict::new(VERDICT, Outcome::Unclear, s)
    }

    /// Of the stamps that all other modules use.
    fn verdict(&self, m: &Mechanism, partial: bool) -> Verdict {
        let Some(drift) = m.drift_ppm.filter(|_| m.count >= FEW && !partial) else {
            let few = format!("{} samples are too few to see a drift.", m.count);
            return Verdict::new(VERDICT, Outcome::Unclear, few);
        };
        let us = drift * m.seconds;
        let (outcome, verb) = if drift.abs() > self.too_much_ppm {
            (Outcome::Fails, "drift apart")
        } else {
            (Outcome::Holds, "keep time with each other")
        };
        let s = format!(
            "The stamps of departure and arrival {verb}: {us:.2} µs in {:.0} s.",
            m.seconds
        );
        Verdict::new(VERDICT, outcome, s)
            .with("drift", drift, "ppm")
            .with("jitter", m.jitter_us.unwrap_or(f64::NAN), "µs")
            .with("median", m.median_us.unwrap_or(f64::NAN), "µs")
    }
}
