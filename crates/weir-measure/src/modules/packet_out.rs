//! `packet-out`: how long a packet of the controller takes onto the wire, how many get there, and what is
//! lost, against their rate. The measurement that OFLOPS itself comes with (001 §2).
//!
//! Packet-outs are written evenly, as many as are due each millisecond; each carries a probe to the second
//! port. The delay is from when the message was written to when the frame came. The rate that was really
//! written is reported beside the one asked for. A frame that comes again makes up for none that is lost, and one
//! that comes with other bytes has not come.

use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, Samples, Series, Table, Verdict,
};
use crate::module::load::Packets;
use crate::module::{About, Bench, Captured, Context, LoadId, Module, Params, ns_between, rules};
use crate::probe::{Contents, Headers, Place, Track};
use crate::stats::{self, quantile};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::model::{Message, NO_BUFFER, PacketOut, Port};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("packet-out", "How fast, how soon and how surely do the controller's packets leave")
        .paper("001 §2")
        .numbers(
            "rates",
            "1/s",
            "packets a second, one after the other",
            "10,100,1000,10000",
            0.1,
            1e6,
        )
        .quick("50,500,2000")
        .number("duration", "s", "time at each rate", 30.0, 0.01, 3600.0)
        .quick("1")
        .count("frame", "B", "size of a frame, with its check sequence", 100, 64, 1518)
        .number("wait", "s", "silence after which what is missing counts as lost", 2.0, 0.01, 60.0)
        .quick("0.5")
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(PacketOuts {
        rows: p.numbers("rates").iter().map(|&rate| Row::new(rate)).collect(),
        duration: p.number("duration"),
        frame: p.count("frame") as usize,
        wait: Duration::from_secs_f64(p.number("wait")),
        at: 0,
        packets: None,
        begun: Nanos(0),
        pending: BTreeMap::new(),
        written: BTreeMap::new(),
        early: BTreeMap::new(),
        last: Nanos(0),
    })
}

/// Messages whose probe has not come are remembered up to this many.
const OPEN: usize = 1 << 18;

/// Between two looks whether all is here.
const LOOK: Duration = Duration::from_millis(50);

/// Frames of which it is known whether they have come, in words of 64: as many as can be on their way.
const WINDOW: usize = OPEN / 64;

struct Row {
    rate: f64,
    frames: u64,
    sent: u64,
    received: u64,
    /// Frames that came again.
    twice: u64,
    /// Frames that came with other bytes, which are not received.
    changed: u64,
    /// Which have come.
    numbers: Track,
    first: Option<Nanos>,
    last: Option<Nanos>,
    delays: Vec<f64>,
}

impl Row {
    fn new(rate: f64) -> Self {
        Self {
            rate,
            frames: 0,
            sent: 0,
            received: 0,
            twice: 0,
            changed: 0,
            numbers: Track::new(WINDOW),
            first: None,
            last: None,
            delays: Vec::new(),
        }
    }

    fn loss(&self) -> f64 {
        stats::loss_percent(self.sent, self.received)
    }

    fn sent_per_second(&self) -> f64 {
        stats::per_second(self.sent, self.first, self.last)
    }
}

struct PacketOuts {
    rows: Vec<Row>,
    duration: f64,
    frame: usize,
    wait: Duration,
    at: usize,
    packets: Option<Packets>,
    begun: Nanos,
    /// Messages on their way to the socket: their numbers by transaction.
    pending: BTreeMap<u32, u32>,
    /// Messages written: when, by number.
    written: BTreeMap<u32, Nanos>,
    /// Frames that came before it was known here when their message was written.
    early: BTreeMap<u32, Nanos>,
    last: Nanos,
}

impl PacketOuts {
    fn next(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.at as u64, self.rows.len() as u64);
        let Some(row) = self.rows.get_mut(self.at) else { return cx.end() };
        row.frames = (row.rate * self.duration).ceil().max(1.0) as u64;
        self.packets = Packets::new(Headers::default(), self.frame, self.at as u16);
        if self.packets.is_none() {
            return cx.fail("packets of this size can't be made");
        }
        self.begun = cx.now();
        (self.last, self.pending, self.written) = (cx.now(), BTreeMap::new(), BTreeMap::new());
        self.early.clear();
        self.send(cx);
    }

    /// Sends what is due.
    fn send(&mut self, cx: &mut Context<'_>) {
        let (Some(row), Some(packets)) = (self.rows.get_mut(self.at), &mut self.packets) else {
            return;
        };
        let elapsed = cx.now().since(self.begun).0 as f64 / 1e9;
        let due = ((elapsed * row.rate) as u64 + 1).min(row.frames);
        let in_port = if cx.bench().is_13() { Port::CONTROLLER } else { Port::ANY };
        while row.sent < due {
            let number = row.sent as u32;
            let message = Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port,
                actions: vec![rules::output(cx.bench().port(1))],
                data: packets.frame(number, cx.now()),
            });
            let xid = cx.send(message);
            row.sent += 1;
            self.pending.insert(xid, number);
        }
        if row.sent < row.frames {
            let next = Duration::from_secs_f64((1.0 / row.rate).clamp(0.001, 1.0));
            cx.timer_in(next, 0);
        } else {
            self.last = cx.now();
            cx.timer_in(LOOK, 1);
        }
    }
}

impl Module for PacketOuts {
    fn takes(&self) -> Option<Duration> {
        let sending = |r: &Row| ((r.rate * self.duration).ceil() - 1.0).max(0.0) / r.rate;
        let all: f64 = self.rows.iter().map(|r| sending(r) + LOOK.as_secs_f64()).sum();
        Duration::try_from_secs_f64(all).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.next(cx);
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        let Some(number) = self.pending.remove(&xid) else { return };
        let Some(row) = self.rows.get_mut(self.at) else { return };
        row.first.get_or_insert(at);
        row.last = Some(at);
        if let Some(came) = self.early.remove(&number) {
            return row.delays.push(ns_between(at, came) / 1e3);
        }
        if self.written.len() >= OPEN {
            self.written.pop_first();
        }
        self.written.insert(number, at);
    }

    fn frame(&mut self, _: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| id.load == LoadId::OF_SWITCH) else { return };
        if frame.channel != 1 {
            return;
        }
        if frame.contents == Contents::Changed {
            return self.changed(frame.at);
        }
        let at = usize::from(id.flow);
        let Some(row) = self.rows.get_mut(at) else { return };
        match row.numbers.arrive(id.number) {
            Place::InOrder | Place::Reordered if at == self.at => row.received += 1,
            // Of the rate before: it counts as lost already.
            Place::InOrder | Place::Reordered => return,
            Place::Duplicated => {
                row.twice += 1;
                return;
            }
            // Whether it is the first is not known any more.
            Place::TooOld => return,
        }
        self.last = self.last.max(frame.at);
        if let Some(at) = self.written.remove(&id.number) {
            row.delays.push(ns_between(at, frame.at) / 1e3);
        } else if self.early.len() < OPEN {
            self.early.insert(id.number, frame.at);
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token == 0 {
            return self.send(cx);
        }
        let Some(row) = self.rows.get(self.at) else { return };
        let silence = Duration::from_nanos(cx.now().since(self.last).0);
        if row.received >= row.sent || silence >= self.wait {
            self.at += 1;
            self.next(cx);
        } else {
            cx.timer_in(LOOK, 1);
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let mut table = Table::new(
            "packet-out",
            "Packet-outs by rate",
            vec![
                Column::number("asked", "1/s"),
                Column::number("sent", "1/s"),
                Column::number("loss", "%"),
                Column::number("come twice", ""),
                Column::number("changed", ""),
                Column::number("median", "µs"),
                Column::number("p90", "µs"),
                Column::number("p99", "µs"),
                Column::number("packets", ""),
            ],
        );
        let rate = Axis::log("packets a second", "1/s");
        let delay = Axis::log("delay", "µs");
        let mut figure = Figure::new("packet-out-delay", "Delay of packet-outs", rate, delay);
        let mut series = Series::measured("packet-out", "10th to 90th percentile");
        for r in self.rows.iter().filter(|r| r.sent > 0) {
            let q = |q| quantile(&r.delays, q).unwrap_or(f64::NAN);
            table.row([
                Cell::from(r.rate),
                Cell::from(r.sent_per_second()),
                Cell::from(r.loss()),
                Cell::from(r.twice),
                Cell::from(r.changed),
                Cell::from(q(0.5)),
                Cell::from(q(0.9)),
                Cell::from(q(0.99)),
                Cell::from(r.sent),
            ]);
            series.push(Point::with_spread(r.rate, q(0.5), q(0.1), q(0.9)));
            let mut samples = Samples::new("µs").in_group("packet-out delay");
            r.delays.iter().for_each(|&us| samples.record(us));
            (r.received..r.sent).for_each(|_| samples.miss());
            let id = format!("packet-out-{}", r.rate.round());
            document.distribution(&id, &format!("{} a second", r.rate), samples);
        }
        figure.series.push(series);
        document.tables.push(table);
        document.figures.push(figure);
        let tried = self.rows.iter().filter(|r| r.sent > 0);
        let worst = tried.max_by(|a, b| a.loss().total_cmp(&b.loss()));
        let id = "packet-outs-complete";
        // Where nothing waits: at the lowest rate.
        let slowest =
            self.rows.iter().filter(|r| r.sent > 0).min_by(|a, b| a.rate.total_cmp(&b.rate));
        let delay = slowest.and_then(|r| quantile(&r.delays, 0.5)).unwrap_or(f64::NAN);
        let verdict = match worst {
            None => Verdict::new(id, Outcome::Unclear, "No packet was sent."),
            Some(r) if r.loss() > 1.0 => {
                let s = format!(
                    "Of {:.0} packet-outs a second {:.1} % do not leave the switch{}.",
                    r.rate,
                    r.loss(),
                    if r.changed > 0 { " as they are" } else { "" }
                );
                Verdict::new(id, Outcome::Fails, s).with("loss", r.loss(), "%")
            }
            Some(r) => Verdict::new(
                id,
                Outcome::Holds,
                "Packet-outs leave the switch at every rate tried.",
            )
            .with("loss", r.loss(), "%"),
        };
        document.verdicts.push(verdict.with("delay at the lowest rate, median", delay, "µs"));
        document.verdicts.extend([self.once(), self.unchanged()]);
    }
}

impl PacketOuts {
    /// A frame came that is not as it was written: which one it is, and of which rate, may be the damage.
    fn changed(&mut self, at: Nanos) {
        self.last = self.last.max(at);
        if let Some(row) = self.rows.get_mut(self.at) {
            row.changed += 1;
        }
    }

    /// Whether frames leave with the bytes that the packet-outs have.
    fn unchanged(&self) -> Verdict {
        let id = "packet-outs-unchanged";
        let changed: u64 = self.rows.iter().map(|r| r.changed).sum();
        let all = changed + self.rows.iter().map(|r| r.received).sum::<u64>();
        let (outcome, s) = match (all, changed) {
            (0, _) => (Outcome::Unclear, "No frame came.".to_owned()),
            (_, 0) => (Outcome::Holds, "Packet-outs leave the switch as they are.".to_owned()),
            (_, n) => {
                let s = format!(
                    "{n} of {all} packet-outs left the switch with other bytes; they count as lost."
                );
                (Outcome::Fails, s)
            }
        };
        Verdict::new(id, outcome, s).with("changed", changed as f64, "")
    }

    /// Whether one packet-out is one frame.
    fn once(&self) -> Verdict {
        let (id, twice) = ("packet-outs-once", self.rows.iter().map(|r| r.twice).sum::<u64>());
        let received: u64 = self.rows.iter().map(|r| r.received).sum();
        match (received, twice) {
            (0, _) => Verdict::new(id, Outcome::Unclear, "No frame came."),
            (_, 0) => Verdict::new(id, Outcome::Holds, "No packet-out left the switch twice."),
            (_, n) => {
                let s = format!("Of {received} packet-outs {n} left the switch twice or more.");
                Verdict::new(id, Outcome::Fails, s).with("come twice", n as f64, "")
            }
        }
    }
}
