//! `echo`: how long the control channel takes there and back.
//!
//! One echo request after the other, each with the payload asked for, at an even rate. A request that
//! is not answered in time ends the measurement. The reply must repeat the request's bytes (1.0 §5.5.3,
//! 1.3 §7.5.3), and come once.

use crate::document::{Document, Outcome, Samples, Verdict};
use crate::module::{About, Bench, Context, Module, Params, is_among};
use std::time::Duration;
use weir_openflow::model::{Message, Msg};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("echo", "How long does the control channel take there and back")
        .control_only()
        .count("requests", "", "echo requests", 1000, 1, 10_000_000)
        .quick("200")
        .number("rate", "1/s", "requests a second", 100.0, 0.001, 100_000.0)
        .quick("400")
        .count("bytes", "B", "payload of a request", 64, 0, 60_000)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(Echo {
        requests: p.count("requests"),
        interval: Duration::from_secs_f64(1.0 / p.number("rate")),
        payload: (0..p.count("bytes")).map(|n| (n % 251) as u8).collect(),
        sent: 0,
        asked: None,
        open: None,
        again: 0,
        due: false,
        changed: 0,
        delays: Samples::new("µs"),
    })
}

struct Echo {
    requests: u64,
    interval: Duration,
    payload: Vec<u8>,
    sent: u64,
    /// Transaction ids of the first request and the latest; those between follow each other.
    asked: Option<(u32, u32)>,
    /// Replies to requests that were answered already.
    again: u64,
    /// The request that is not answered yet, and when it went out.
    open: Option<(u32, Option<Nanos>)>,
    /// The next one's time came while one was open.
    due: bool,
    changed: u64,
    delays: Samples,
}

impl Echo {
    fn ask(&mut self, cx: &mut Context<'_>) {
        self.due = false;
        let xid = cx.request(Message::EchoRequest(self.payload.clone()));
        self.open = Some((xid, None));
        self.asked = Some((self.asked.map_or(xid, |f| f.0), xid));
        self.sent += 1;
        cx.timer_in(self.interval, self.sent);
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        cx.progress(self.delays.count(), self.requests);
        if self.sent >= self.requests {
            cx.end();
        } else if self.due {
            self.ask(cx);
        }
    }
}

impl Module for Echo {
    fn takes(&self) -> Option<Duration> {
        Some(self.interval.mul_f64(self.requests.saturating_sub(1) as f64))
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.ask(cx);
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.sent || self.sent >= self.requests {
            return;
        }
        self.due = true;
        if self.open.is_none() {
            self.ask(cx);
        }
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        if let Some((_, when)) = self.open.as_mut().filter(|(x, _)| *x == xid) {
            *when = Some(at);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        let Message::EchoReply(data) = &msg.body else { return };
        let Some((_, Some(written))) = self.open.filter(|(x, _)| *x == msg.xid) else {
            self.again += u64::from(self.asked.is_some_and(|all| is_among(msg.xid, all)));
            return;
        };
        self.open = None;
        self.changed += u64::from(*data != self.payload);
        self.delays.record(at.since(written).0 as f64 / 1e3);
        self.go_on(cx);
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let (count, changed) = (self.delays.count(), self.changed);
        let outcome = match (count, changed) {
            (0, _) => Outcome::Unclear,
            (_, 0) => Outcome::Holds,
            _ => Outcome::Fails,
        };
        let sentence = match outcome {
            Outcome::Unclear => "No echo reply came.".to_owned(),
            Outcome::Holds => format!("All {count} echo replies repeat their request."),
            Outcome::Fails => format!("{changed} of {count} echo replies carry other bytes."),
        };
        let delays = std::mem::replace(&mut self.delays, Samples::new("µs"));
        document.distribution("echo", "echo request to reply", delays);
        let median = document.distributions.last().and_then(|d| d.percentile(50.0));
        let verdict = Verdict::new("echo-repeats", outcome, sentence);
        document.verdicts.push(verdict.with("changed replies", changed as f64, "").with(
            "delay, median",
            median.unwrap_or(f64::NAN),
            "µs",
        ));
        let (id, again) = ("echo-once", self.again);
        document.verdicts.push(match (count, again) {
            (0, _) => Verdict::new(id, Outcome::Unclear, "No echo reply came."),
            (_, 0) => Verdict::new(id, Outcome::Holds, "No echo request was answered twice."),
            _ => {
                let s = format!("Of {count} echo requests {again} were answered twice or more.");
                Verdict::new(id, Outcome::Fails, s).with("further replies", again as f64, "")
            }
        });
    }
}
