//! Reset recovery (RFC 2544 §26.6): from the last frame before a reset to the first after it.
//!
//! Sans-I/O, a part of the module. The reset itself is made by hand, while frames go; the longest silence is
//! what it took. A control connection that goes with it is made again, and the rule with it.

use crate::Rate;
use crate::document::{Document, Outcome, Verdict};
use crate::module::{Context, Load, LoadId};
use crate::probe::Headers;
use std::time::Duration;
use weir_packet::Nanos;

/// Token of the timer after which a connection is tried again, and of the end.
pub(super) const CONNECT: u64 = 2;
const END: u64 = 3;
/// A silence of so many intervals is a reset.
const INTERVALS: f64 = 100.0;
/// Frames a second at most: enough to tell a tenth of a millisecond.
const MOST: f64 = 10_000.0;

pub(super) struct Recovery {
    load: LoadId,
    interval: Nanos,
    last: Option<Nanos>,
    longest: Nanos,
}

impl Recovery {
    pub(super) fn begin(
        cx: &mut Context<'_>,
        size: usize,
        throughput: Option<Rate>,
        watch_s: f64,
    ) -> Self {
        let fps = throughput.map_or(MOST, Rate::fps).min(MOST);
        let load = cx.begin(Load::new(0, Headers::default(), size, fps));
        cx.timer_in(Duration::from_secs_f64(watch_s), END);
        Self { load, interval: Nanos((1e9 / fps) as u64), last: None, longest: Nanos(0) }
    }

    pub(super) fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match token {
            CONNECT => cx.connect(),
            END => {
                cx.stop(self.load);
                cx.end();
            }
            _ => {}
        }
    }

    pub(super) fn frame(&mut self, load: LoadId, at: Nanos) {
        if load == self.load {
            let silence = self.last.map_or(Nanos(0), |last| at.since(last));
            self.longest = self.longest.max(silence);
            self.last = Some(at);
        }
    }

    pub(super) fn tell(&self, document: &mut Document) {
        let s = self.longest.0 as f64 / 1e9;
        let seen = self.longest.0 as f64 > self.interval.0 as f64 * INTERVALS;
        let (outcome, sentence) = match (seen, self.last) {
            (_, None) => (Outcome::Unclear, "No frame came while a reset was watched for.".into()),
            (false, _) => (Outcome::Unclear, "No reset was seen while it was watched for.".into()),
            (true, _) => {
                (Outcome::Holds, format!("After a reset frames come again: {s:.3} s of silence."))
            }
        };
        let verdict = Verdict::new("reset-recovers", outcome, sentence);
        document.verdicts.push(verdict.with("longest silence", s, "s"));
    }
}
