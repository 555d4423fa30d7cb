//! When to send: a schedule of frames at a constant rate, and what becomes of it after a stall.
//!
//! Pure: time is an argument. Called by the generator, once per burst.
//!
//! Frame *k* is due at *start + k / rate*; nothing accumulates, so the mean rate is exact to the
//! clock. A sender that is late catches up, but never by more than [`Pacer::backlog`] frames at
//! once: what is due beyond that after a stall is *forgone*, for good. The offered rate is then
//! lower than asked for, which shows in the count of frames sent and in [`Pacer::forgone`]; the
//! device under test never sees a burst longer than the backlog that the measurement did not ask
//! for.

use crate::Rate;
use weir_packet::Nanos;

/// A schedule.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: Rate,
    start: Nanos,
    backlog: u64,
    sent: u64,
    forgone: u64,
}

impl Pacer {
    /// A schedule whose first frame is due at `start`, with at most `backlog` frames (at least one)
    /// due at once.
    pub fn new(rate: Rate, backlog: u64, start: Nanos) -> Self {
        Self { rate, start, backlog: backlog.max(1), sent: 0, forgone: 0 }
    }

    /// Frames that may be sent now, at most [`Self::backlog`]. What is due beyond is forgone by
    /// asking.
    pub fn due(&mut self, now: Nanos) -> u64 {
        if now < self.start {
            return 0;
        }
        let elapsed_s = now.since(self.start).0 as f64 / 1e9;
        // The casts saturate.
        let scheduled = ((elapsed_s * self.rate.fps()) as u64).saturating_add(1);
        let due = scheduled.saturating_sub(self.sent.saturating_add(self.forgone));
        self.forgone += due.saturating_sub(self.backlog);
        due.min(self.backlog)
    }

    /// Notes that so many frames were sent.
    pub fn sent(&mut self, frames: u64) {
        self.sent = self.sent.saturating_add(frames);
    }

    /// When `frames` frames (at least one) will be due together, if none is sent before.
    pub fn when(&self, frames: u64) -> Nanos {
        let last = self.sent.saturating_add(self.forgone).saturating_add(frames.max(1) - 1);
        // Rounded up; the rounding of the quotient itself can still make it a nanosecond early.
        self.start + Nanos((last as f64 / self.rate.fps() * 1e9).ceil() as u64)
    }

    /// Frames that were due and will not be sent.
    pub fn forgone(&self) -> u64 {
        self.forgone
    }

    /// Frames that may be sent at once after a stall.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pacer(fps: f64, backlog: u64) -> Pacer {
        Pacer::new(Rate::new(fps).unwrap(), backlog, Nanos(1_000))
    }

    #[test]
    fn a_frame_is_due_at_its_time() {
        let mut p = pacer(1e6, 64);
        assert_eq!(p.due(Nanos(999)), 0);
        assert_eq!(p.due(Nanos(1_000)), 1);
        p.sent(1);
        assert_eq!(p.due(Nanos(1_999)), 0);
        assert_eq!(p.when(1), Nanos(2_000));
        assert_eq!(p.when(3), Nanos(4_000));
        assert_eq!(p.due(Nanos(4_000)), 3);
        p.sent(2);
        assert_eq!(p.due(Nanos(4_000)), 1);
    }

    #[test]
    fn a_stall_is_not_caught_up_beyond_the_backlog() {
        let mut p = pacer(1e6, 10);
        assert_eq!(p.due(Nanos(1_000)), 1);
        p.sent(1);
        // Ten milliseconds of nothing: 10,000 frames, of which ten are made up for.
        assert_eq!(p.due(Nanos(10_001_000)), 10);
        assert_eq!(p.forgone(), 9_990);
        p.sent(10);
        assert_eq!(p.due(Nanos(10_001_000)), 0);
        assert_eq!(p.due(Nanos(10_002_000)), 1, "and then the rate as before");
    }

    #[test]
    fn the_mean_rate_is_exact() {
        // Awkward rates over a minute, asked every 50 µs or so: the count is right to one frame.
        for fps in [1.0, 3.0, 812.74, 14_880.95, 1_488_095.238] {
            let mut p = pacer(fps, 1_000);
            let (mut now, mut step, mut sent) = (1_000u64, 49_999u64, 0u64);
            while now < 60_000_000_000 {
                let due = p.due(Nanos(now));
                p.sent(due);
                sent += due;
                now += step;
                step = 40_000 + (step * 7) % 20_011;
            }
            now = 60_000_001_000;
            sent += p.due(Nanos(now));
            let want = 60.0 * fps + 1.0;
            assert!((sent as f64 - want).abs() <= 1.0, "{sent} frames at {fps}, not {want}");
            assert_eq!(p.forgone(), 0);
        }
    }

    proptest! {
        #[test]
        fn never_more_than_the_backlog_and_never_ahead(
            fps in 0.5..5e7f64, backlog in 0u64..200,
            steps in prop::collection::vec((0u64..3_000_000, 0u64..300), 1..100),
        ) {
            let mut p = pacer(fps, backlog);
            let (mut now, mut sent) = (1_000u64, 0u64);
            for (step, take) in steps {
                now += step;
                let due = p.due(Nanos(now));
                prop_assert!(due <= backlog.max(1));
                let take = take.min(due);
                p.sent(take);
                sent += take;
                let schedule = (now - 1_000) as f64 / 1e9 * fps + 1.0;
                prop_assert!((sent + p.forgone()) as f64 <= schedule * (1.0 + 1e-12) + 1e-3);
                // `when` is the first moment at which something is due (to a nanosecond of rounding).
                let at = p.when(1);
                if at.0 > now {
                    prop_assert_eq!(p.clone().due(Nanos(at.0 - 2).max(Nanos(now))), 0);
                    prop_assert!(p.clone().due(at + Nanos(1)) >= 1);
                }
            }
        }
    }
}
