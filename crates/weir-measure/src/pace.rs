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
//!
//! [`Pacer::owing`] lets more be owed: what is due beyond the backlog is then made up for at
//! [`CATCH_UP`] times the rate, and forgone only beyond what may be owed. So the mean rate outlives
//! a stall, and in any time *t* at most *backlog + CATCH_UP × rate × t* frames leave.

use crate::Rate;
use weir_packet::Nanos;

/// How many times as fast as the rate frames leave while some are owed.
pub const CATCH_UP: f64 = 1.25;

/// A schedule.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: Rate,
    start: Nanos,
    backlog: u64,
    sent: u64,
    forgone: u64,
    /// Where more than the backlog may be owed.
    debt: Option<Debt>,
}

/// What keeps a debt from being paid at once: a token bucket as deep as the backlog.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// The most frames that may be owed.
    most: u64,
    /// Frames that might leave at `at`.
    bucket: f64,
    at: Nanos,
}

impl Pacer {
    /// A schedule whose first frame is due at `start`, with at most `backlog` frames (at least one)
    /// due at once.
    pub fn new(rate: Rate, backlog: u64, start: Nanos) -> Self {
        Self { rate, start, backlog: backlog.max(1), sent: 0, forgone: 0, debt: None }
    }

    /// The same, with so many frames that may be owed; no more than the backlog: none.
    #[must_use]
    pub fn owing(mut self, most: u64) -> Self {
        let bucket = self.backlog as f64;
        let debt = Debt { most, bucket, at: self.start };
        self.debt = Some(debt).filter(|_| most > self.backlog);
        self
    }

    /// Frames that may be sent now, at most [`Self::backlog`]. What is due beyond what may be owed is
    /// forgone by asking.
    pub fn due(&mut self, now: Nanos) -> u64 {
        if now < self.start {
            return 0;
        }
        let elapsed_s = now.since(self.start).0 as f64 / 1e9;
        // The casts saturate.
        let scheduled = ((elapsed_s * self.rate.fps()) as u64).saturating_add(1);
        let due = scheduled.saturating_sub(self.sent.saturating_add(self.forgone));
        let most = self.debt.map_or(self.backlog, |d| d.most);
        self.forgone += due.saturating_sub(most);
        let due = due.min(most);
        let Some(debt) = &mut self.debt else { return due };
        let filled = now.since(debt.at).0 as f64 / 1e9 * self.rate.fps() * CATCH_UP;
        debt.bucket = (debt.bucket + filled).min(self.backlog as f64);
        debt.at = debt.at.max(now);
        due.min(debt.bucket as u64)
    }

    /// Notes that so many frames were sent.
    pub fn sent(&mut self, frames: u64) {
        self.sent = self.sent.saturating_add(frames);
        if let Some(debt) = &mut self.debt {
            // A frame of which nobody asked whether it was due.
            debt.bucket = (debt.bucket - frames as f64).max(0.0);
        }
    }

    /// When `frames` frames (at least one, at most the backlog) will be due together, if none is sent
    /// before.
    pub fn when(&self, frames: u64) -> Nanos {
        let frames = frames.max(1);
        let last = self.sent.saturating_add(self.forgone).saturating_add(frames - 1);
        // Rounded up; the rounding of the quotient itself can still make it a nanosecond early.
        let at = self.start + Nanos((last as f64 / self.rate.fps() * 1e9).ceil() as u64);
        let Some(debt) = &self.debt else { return at };
        let short = (frames.min(self.backlog) as f64 - debt.bucket).max(0.0);
        let filled = debt.at + Nanos((short / self.rate.fps() / CATCH_UP * 1e9).ceil() as u64);
        at.max(filled)
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
    fn a_debt_is_paid_a_little_faster_than_the_rate_and_no_more_than_may_be_owed() {
        let mut p = pacer(1e5, 8).owing(1_000);
        assert_eq!(p.due(Nanos(1_000)), 1);
        p.sent(1);
        // A stall of 4 ms: 400 frames are owed; eight leave at once, the others one in 8 µs.
        let mut now = 4_001_000;
        let mut left = Vec::new();
        while now < 40_000_000 {
            for _ in 0..p.due(Nanos(now)) {
                p.sent(1);
                left.push(now);
            }
            // The schedule's own rounding.
            now = p.when(1).0.max(now + 1);
        }
        assert_eq!(p.forgone(), 0);
        assert_eq!(left.iter().filter(|at| **at == 4_001_000).count(), 8);
        let gaps: Vec<u64> = left.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps[8..1_900].iter().all(|g| (7_999..=8_001).contains(g)), "{:?}", &gaps[8..20]);
        // Then as before: the debt is paid after 16 ms more, and the count is that of the rate.
        assert!(gaps[2_100..].iter().all(|g| (9_998..=10_002).contains(g)), "{gaps:?}");
        assert_eq!(left.len() as u64 + 1, (left[left.len() - 1] - 1_000) / 10_000 + 1);
        // Longer than may be owed.
        let mut p = pacer(1e5, 8).owing(1_000);
        assert_eq!((p.due(Nanos(50_001_000)), p.forgone()), (8, 4_001));
        // No more may be owed than leaves at once: as without.
        let mut p = pacer(1e5, 8).owing(8);
        assert_eq!((p.due(Nanos(50_001_000)), p.forgone()), (8, 4_993));
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
        fn in_no_time_more_than_the_backlog_and_a_quarter_over_the_rate(
            fps in 1.0..1e6f64, backlog in 1u64..40, owing in 1u64..5_000,
            steps in prop::collection::vec(1u64..30_000_000, 2..200),
        ) {
            let mut p = pacer(fps, backlog).owing(owing);
            let (mut now, mut left) = (1_000u64, Vec::new());
            for step in steps {
                now += step;
                let due = p.due(Nanos(now));
                p.sent(due);
                left.push((now, due));
                prop_assert!(due <= backlog);
                let all: u64 = left.iter().map(|l| l.1).sum();
                let schedule = (now - 1_000) as f64 / 1e9 * fps + 1.0;
                prop_assert!((all + p.forgone()) as f64 <= schedule * (1.0 + 1e-12) + 1e-3);
                prop_assert!((schedule - (all + p.forgone()) as f64) <= owing.max(backlog) as f64 + 1.0);
                if owing > backlog {
                    let mut sum = 0;
                    for (at, n) in left.iter().rev() {
                        sum += n;
                        let over = (now - at) as f64 / 1e9 * fps * CATCH_UP;
                        prop_assert!(sum as f64 <= backlog as f64 + over + 1e-3);
                    }
                }
                let at = p.when(1);
                prop_assert!(at.0 <= now || p.clone().due(at + Nanos(1)) >= 1);
            }
        }

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
