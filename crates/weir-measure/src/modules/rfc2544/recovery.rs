//! Reset recovery (RFC 2544 §26.6, RFC 6201 §4): what a reset costs at a constant rate, by frames lost and by
//! the silence between the last frame before it and the first after it.
//!
//! Sans-I/O, a part of the module. Where the engine can reset the switch it does so once frames come steadily,
//! and the measurement ends when they do so again; otherwise a reset is made by hand while frames go. A control
//! connection that goes with it is made again, and the rule with it: that takes part of the time.

use crate::Rate;
use crate::document::{Document, Outcome, Verdict};
use crate::module::{Context, Load, LoadId};
use crate::probe::{Headers, Place, Track};
use std::time::Duration;
use weir_packet::Nanos;

/// Token of the timer after which a connection is tried again, of the end, and of looks.
pub(super) const CONNECT: u64 = 2;
const END: u64 = 3;
const LOOK: u64 = 4;
/// A silence of so many intervals is a reset, where nobody says when it was.
const INTERVALS: f64 = 100.0;
/// Frames a second at most: enough to tell a tenth of a millisecond.
const MOST: f64 = 10_000.0;
/// Frames come steadily when none was missing for so long.
const STEADY: Duration = Duration::from_millis(500);
/// Frames of which it is known whether they have come, in words of 64.
const WINDOW: usize = 1024;

/// Who makes the reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Engine,
    Hand,
}

/// Where it stands, if the engine makes the reset.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// Until frames come steadily.
    Before,
    /// It is being reset.
    Asked,
    /// It was, and frames come steadily again, or will.
    After(Nanos),
}

pub(super) struct Recovery {
    load: LoadId,
    by: By,
    step: Step,
    fps: f64,
    /// Since when frames have come without a gap.
    steady_since: Option<Nanos>,
    first: Option<u32>,
    last: Option<(u32, Nanos)>,
    longest: Nanos,
    track: Track,
}

impl Recovery {
    pub(super) fn begin(
        cx: &mut Context<'_>,
        by: By,
        size: usize,
        throughput: Option<Rate>,
        watch_s: f64,
    ) -> Self {
        let fps = throughput.map_or(MOST, Rate::fps).min(MOST);
        let load = cx.begin(Load::new(0, Headers::default(), size, fps));
        cx.timer_in(Duration::from_secs_f64(watch_s), END);
        if by == By::Engine {
            cx.timer_in(STEADY, LOOK);
        }
        Self {
            load,
            by,
            step: Step::Before,
            fps,
            steady_since: None,
            first: None,
            last: None,
            longest: Nanos(0),
            track: Track::new(WINDOW),
        }
    }

    /// A silence that is more than chance.
    fn gap(&self) -> f64 {
        1e9 / self.fps * INTERVALS
    }

    fn is_steady(&self, now: Nanos) -> bool {
        let steady = STEADY.as_nanos();
        let comes = self.last.is_some_and(|l| now.since(l.1).0 as f64 <= self.gap());
        comes && self.steady_since.is_some_and(|s| u128::from(now.since(s).0) >= steady)
    }

    pub(super) fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match token {
            CONNECT => cx.connect(),
            END => self.end(cx),
            LOOK => self.look(cx),
            _ => {}
        }
    }

    fn end(&self, cx: &mut Context<'_>) {
        cx.stop(self.load);
        cx.end();
    }

    fn look(&mut self, cx: &mut Context<'_>) {
        let steady = self.is_steady(cx.now());
        match self.step {
            Step::Before if steady => {
                self.step = Step::Asked;
                cx.reset();
            }
            // What was on its way when it was reset has come by then.
            Step::After(at) if steady && self.steady_since.is_some_and(|s| s > at) => {
                return self.end(cx);
            }
            // None was lost by it.
            Step::After(at) if steady && cx.now().since(at) > Nanos::from_secs(5) => {
                return self.end(cx);
            }
            _ => {}
        }
        cx.timer_in(STEADY / 5, LOOK);
    }

    pub(super) fn was_reset(&mut self, at: Nanos) {
        if self.step == Step::Asked {
            self.step = Step::After(at);
        }
    }

    pub(super) fn frame(&mut self, load: LoadId, number: u32, at: Nanos) {
        if load != self.load {
            return;
        }
        if !matches!(self.track.arrive(number), Place::InOrder | Place::Reordered) {
            return;
        }
        let silence = self.last.map_or(Nanos(0), |l| at.since(l.1));
        if silence.0 as f64 > self.gap() || self.steady_since.is_none() {
            self.steady_since = Some(at);
        }
        // Of frames before the reset nothing is asked but that they come.
        if self.by == By::Hand || self.step != Step::Before {
            self.longest = self.longest.max(silence);
        }
        self.first = Some(self.first.map_or(number, |f| f.min(number)));
        self.last = Some(self.last.map_or((number, at), |l| (l.0.max(number), at.max(l.1))));
    }

    /// Frames that are missing between the first and the last that came.
    fn lost(&self) -> u64 {
        let (Some(first), Some((last, _))) = (self.first, self.last) else { return 0 };
        let all = u64::from(last.wrapping_sub(first)) + 1;
        all.saturating_sub(self.track.in_order + self.track.reordered)
    }

    pub(super) fn tell(&self, document: &mut Document) {
        let silence = self.longest.0 as f64 / 1e9;
        let (lost, seen) = (self.lost(), self.longest.0 as f64 > self.gap());
        let by_loss = lost as f64 / self.fps;
        let again = || {
            format!(
                "After a reset frames come again: {lost} lost at {:.0} a second are {by_loss:.3} s, from the last before it to the first after it {silence:.3} s.",
                self.fps
            )
        };
        let (outcome, sentence) = match (self.by, self.step, seen) {
            _ if self.last.is_none() => {
                (Outcome::Unclear, "No frame came while a reset was watched for.".to_owned())
            }
            (By::Hand, _, false) => {
                (Outcome::Unclear, "No reset was seen while it was watched for.".to_owned())
            }
            (By::Hand, ..) => (Outcome::Holds, again()),
            (By::Engine, Step::Before, _) => {
                (Outcome::Unclear, "Frames did not come steadily: nothing was reset.".to_owned())
            }
            (By::Engine, Step::Asked, _) => {
                (Outcome::Unclear, "The reset was not done in time.".to_owned())
            }
            (By::Engine, Step::After(at), _) if self.last.is_some_and(|l| l.1 < at) => {
                (Outcome::Fails, "After the reset no frame came.".to_owned())
            }
            (By::Engine, Step::After(_), _) => (Outcome::Holds, again()),
        };
        let verdict = Verdict::new("reset-recovers", outcome, sentence)
            .with("by frames lost", by_loss, "s")
            .with("frames lost", lost as f64, "")
            .with("longest silence", silence, "s");
        document.verdicts.push(verdict);
    }
}
