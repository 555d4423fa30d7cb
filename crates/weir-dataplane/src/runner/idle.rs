//! What a thread does that found nothing to do: lets others run that it gave something, polls on for
//! a little, lets others run again, rests.
//!
//! Room: `runner`. Decides by the time that is passed in; whoever asks carries it out.

use super::WhenIdle;
use std::time::Duration;
use weir_packet::Nanos;

/// How long rests are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rests {
    /// The first; each is longer by this.
    pub(super) step: Duration,
    /// None is longer, but for [`OF_A_ROUND`].
    pub(super) longest: Duration,
    /// A sleep that frames and requests end is no longer …
    pub(super) sleep: Duration,
    /// … and no shorter than this, however impatient programs are.
    pub(super) doze: Duration,
}

/// Of the worker. Some ports can only be asked, so rests are short.
pub(super) const WORKER: Rests = Rests {
    step: Duration::from_micros(1),
    longest: Duration::from_micros(500),
    sleep: Duration::from_millis(100),
    doze: Duration::from_millis(5),
};
/// Of a server, which everything wakes that it waits for, but for the time of its programs.
pub(super) const SERVER: Rests =
    Rests { step: Duration::from_micros(1), longest: Duration::from_millis(5), ..WORKER };

/// Of a crew's desk: requests end its rest; by itself it looks after links and deletions.
pub(super) const DESK: Rests = Rests {
    step: Duration::from_millis(1),
    longest: Duration::from_millis(20),
    doze: Duration::from_millis(20),
    ..WORKER
};

/// Since a thread's last work: so long it polls on; then it lets others run; then it rests.
const SPINS: Nanos = Nanos(20_000);
const YIELDS: Nanos = Nanos(80_000);
/// A thread polls on for so long after a request: the next may be on its way.
const GRACE: Nanos = Nanos(4_000);
/// A rest is at most so many times as long as the round before it or [`Rests::longest`], whichever
/// is longer: an idle worker with a thousand ports to ask spends a fortieth of a core on it.
const OF_A_ROUND: u32 = 40;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Polls on.
    Spin,
    /// Lets another thread run.
    Yield,
    /// Rests for so long, unless it can sleep until it is told.
    Rest(Duration),
}

/// How long a thread has found nothing to do.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    pub(super) mode: WhenIdle,
    pub(super) rests: Rests,
    /// When there was work last.
    since: Nanos,
    /// Until when it polls on because of a request.
    grace: Nanos,
    /// It was asked, and others had no chance to run since: what came of it may be what a thread
    /// waits for that would run here. After frames alone it polls on: who lets others run may not
    /// run again for milliseconds.
    owing: bool,
    /// Rests since then; of who spins, rounds.
    rested: u32,
}

impl Idle {
    pub(super) fn new(mode: WhenIdle, rests: Rests) -> Self {
        Self { mode, rests, since: Nanos(0), grace: Nanos(0), owing: false, rested: 0 }
    }
    /// A request came. It says nothing about frames, so the next rests are as long as the last.
    pub(super) fn asked(&mut self, now: Nanos) {
        self.grace = now + GRACE;
        self.owing = true;
    }
    /// A round that began at `began` and ended at `now` moved so many frames.
    pub(super) fn after(&mut self, moved: usize, began: Nanos, now: Nanos) -> Pause {
        if moved > 0 {
            (self.since, self.rested) = (now, 0);
            return Pause::Spin;
        }
        if std::mem::take(&mut self.owing) && self.mode == WhenIdle::Rest {
            return Pause::Yield;
        }
        if now < self.grace {
            return Pause::Spin;
        }
        let idle = now.since(self.since);
        match self.mode {
            _ if idle < SPINS => Pause::Spin,
            WhenIdle::Spin => {
                self.rested = self.rested.wrapping_add(1);
                // Other threads of this machine may be what it waits for.
                if self.rested.is_multiple_of(1024) { Pause::Yield } else { Pause::Spin }
            }
            WhenIdle::Rest if idle < YIELDS => Pause::Yield,
            WhenIdle::Rest => {
                self.rested = self.rested.saturating_add(1);
                let round = Duration::from_nanos(now.since(began).0);
                let longest = self.rests.longest.max(round.saturating_mul(OF_A_ROUND));
                let step = self.rests.step.max(round);
                Pause::Rest(step.saturating_mul(self.rested).min(longest).min(self.limit()))
            }
        }
    }
    fn limit(&self) -> Duration {
        self.rests.longest.max(self.rests.doze)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn rest(i: &mut Idle, began: u64, now: u64) -> Duration {
        match i.after(0, Nanos(began), Nanos(now)) {
            Pause::Rest(d) => d,
            _ => NONE,
        }
    }

    #[test]
    fn polls_on_then_yields_then_rests_longer_and_longer() {
        let mut i = Idle::new(WhenIdle::Rest, WORKER);
        assert_eq!(i.after(1, Nanos(0), Nanos(1_000_000)), Pause::Spin);
        assert_eq!(i.after(0, Nanos(0), Nanos(1_019_999)), Pause::Spin);
        assert_eq!(i.after(0, Nanos(0), Nanos(1_020_000)), Pause::Yield);
        let rests: Vec<_> = (0..2000).map(|_| rest(&mut i, 1_999_900, 2_000_000)).collect();
        assert_eq!(rests[..3], [1, 2, 3].map(Duration::from_micros));
        assert_eq!(rests[1999], WORKER.longest);
        assert_eq!(i.after(7, Nanos(0), Nanos(2_000_000)), Pause::Spin);
        assert_eq!(rest(&mut i, 3_000_000, 3_000_100), Duration::from_micros(1));
    }

    #[test]
    fn a_request_is_followed_by_a_look_for_the_next_and_changes_no_rest() {
        let mut i = Idle::new(WhenIdle::Rest, WORKER);
        let before = (0..100).map(|_| rest(&mut i, 1_000_000, 1_000_100)).last().unwrap();
        i.asked(Nanos(1_100_000));
        assert_eq!(i.after(0, Nanos(0), Nanos(1_100_100)), Pause::Yield);
        assert_eq!(i.after(0, Nanos(0), Nanos(1_103_999)), Pause::Spin);
        let after = rest(&mut i, 1_104_000, 1_104_100);
        assert_eq!(after, before + Duration::from_micros(1));
    }

    #[test]
    fn who_has_much_to_ask_rests_in_proportion() {
        let mut i = Idle::new(WhenIdle::Rest, WORKER);
        // A round of 75 us.
        let last = (0..1000).map(|_| rest(&mut i, 1_000_000, 1_075_000)).last().unwrap();
        assert_eq!(last, Duration::from_micros(75 * 40));
        // However long a round is, time passes for those who wait for it.
        assert_eq!(rest(&mut i, 1_000_000, 9_000_000), WORKER.doze);
    }

    #[test]
    fn who_spins_never_rests() {
        let mut i = Idle::new(WhenIdle::Spin, WORKER);
        assert!((0..100_000).all(|n| rest(&mut i, n, n * 100) == NONE));
    }
}
