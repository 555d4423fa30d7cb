//! When frames are due, at times that are not even: Poisson arrivals, or those of a recording. [`crate::pace`]
//! is the even one; a stall is treated alike: what is due beyond the backlog is forgone.
//!
//! Pure: time is an argument. Called by [`crate::module::load::Source`].

use crate::Rate;
use crate::pace::Pacer;
use std::sync::Arc;
use weir_packet::Nanos;

/// A schedule of either kind.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At an even rate.
    Even(Pacer),
    /// At times of their own.
    Uneven(Uneven),
}

/// After a stall of more than this the schedule begins anew.
const STALL: u64 = 1_000_000_000;

/// Where times come from.
#[derive(Clone, Debug)]
pub enum Times {
    /// Gaps are exponential, mean one over the rate.
    Poisson(Random),
    /// Nanoseconds from the first frame, not falling; over and over, with the mean gap between the last and
    /// the first. At least one.
    Recorded(Arc<[u64]>),
}

/// Times of their own.
#[derive(Clone, Debug)]
pub struct Uneven {
    times: Times,
    mean_gap_ns: f64,
    backlog: u64,
    /// Due, not sent.
    waiting: u64,
    forgone: u64,
    /// When the frame after those waiting is due, and which of a recording it is.
    next: Nanos,
    place: usize,
    /// When the first of this pass through a recording was due.
    pass: Nanos,
}

impl Uneven {
    /// The first frame is due at `start`. `rate`: the mean.
    pub fn new(times: Times, rate: Rate, backlog: u64, start: Nanos) -> Self {
        let mean_gap_ns = 1e9 / rate.fps();
        let backlog = backlog.max(1);
        Self {
            times,
            mean_gap_ns,
            backlog,
            waiting: 0,
            forgone: 0,
            next: start,
            place: 0,
            pass: start,
        }
    }

    fn step(&mut self) {
        match &mut self.times {
            Times::Poisson(random) => {
                self.next = self.next + Nanos(random.exponential(self.mean_gap_ns) as u64);
            }
            Times::Recorded(at) => {
                self.place += 1;
                if self.place >= at.len() {
                    self.place = 0;
                    let last = at.last().copied().unwrap_or(0);
                    // At least a nanosecond, so that a recording of no length ends a turn.
                    self.pass = self.pass + Nanos(last + (self.mean_gap_ns as u64).max(1));
                }
                self.next = self.pass + Nanos(at.get(self.place).copied().unwrap_or(0));
            }
        }
    }

    fn due(&mut self, now: Nanos) -> u64 {
        if now.since(self.next).0 > STALL {
            // About as many as were due; then as from here.
            let missed = now.since(self.next).0;
            self.forgone += self.waiting + (missed as f64 / self.mean_gap_ns) as u64;
            self.waiting = 0;
            self.pass = self.pass + Nanos(missed);
            self.next = now;
        }
        while self.next <= now {
            self.waiting += 1;
            self.step();
        }
        let over = self.waiting.saturating_sub(self.backlog);
        self.forgone += over;
        self.waiting -= over;
        self.waiting
    }

    /// When `frames` will be due together.
    fn when(&self, frames: u64) -> Nanos {
        if self.waiting >= frames {
            return Nanos(0);
        }
        let mut ahead = self.clone();
        while ahead.waiting + 1 < frames.min(ahead.backlog) {
            ahead.waiting += 1;
            ahead.step();
        }
        ahead.next
    }
}

impl Schedule {
    /// Frames that may be sent now; what is due beyond the backlog is forgone by asking.
    pub fn due(&mut self, now: Nanos) -> u64 {
        match self {
            Self::Even(p) => p.due(now),
            Self::Uneven(u) => u.due(now),
        }
    }

    /// Notes that one frame was sent.
    pub fn sent_one(&mut self) {
        match self {
            Self::Even(p) => p.sent(1),
            Self::Uneven(u) => u.waiting = u.waiting.saturating_sub(1),
        }
    }

    /// When `frames` frames (at least one, at most the backlog) will be due together.
    pub fn when(&self, frames: u64) -> Nanos {
        match self {
            Self::Even(p) => p.when(frames),
            Self::Uneven(u) => u.when(frames),
        }
    }

    /// Frames that were due and will not be sent.
    pub fn forgone(&self) -> u64 {
        match self {
            Self::Even(p) => p.forgone(),
            Self::Uneven(u) => u.forgone,
        }
    }
}

/// Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// From this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next, any of 2^64.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Exponential, of that mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        // Above 0, at most 1: 53 bits.
        let u = ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -u.ln() * mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fps(n: f64) -> Rate {
        Rate::new(n).unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // Vigna's splitmix64.c, seed 1234567.
        let mut r = Random::new(1_234_567);
        let got: Vec<_> = (0..3).map(|_| r.next_u64()).collect();
        assert_eq!(
            got,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// Sends each frame when it is due; the times.
    fn play(s: &mut Schedule, frames: usize) -> Vec<u64> {
        let mut at = Vec::new();
        while at.len() < frames {
            let now = s.when(1).max(Nanos(at.last().copied().unwrap_or(0)));
            for _ in 0..s.due(now) {
                s.sent_one();
                at.push(now.0);
            }
        }
        at
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_exponential_ones() {
        let times = Times::Poisson(Random::new(7));
        let mut s = Schedule::Uneven(Uneven::new(times, fps(1e4), 1000, Nanos(0)));
        let at = play(&mut s, 50_000);
        let gaps: Vec<f64> = at.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of 50,000 the mean is within 2 % but for one seed in 10^5; this one is fixed.
        assert!((mean / 1e5 - 1.0).abs() < 0.02, "{mean}");
        assert!((var.sqrt() / mean - 1.0).abs() < 0.02, "{var}");
        let over = gaps.iter().filter(|g| **g > mean).count() as f64 / gaps.len() as f64;
        assert!((over - (-1.0f64).exp()).abs() < 0.01, "{over}");
        assert_eq!(s.forgone(), 0);
    }

    #[test]
    fn a_recording_is_played_at_its_times_and_again() {
        let recorded: Arc<[u64]> = [0, 5, 5, 100].into();
        let times = Times::Recorded(recorded);
        // Four frames in 100 ns and a mean gap of 50.
        let mut s = Schedule::Uneven(Uneven::new(times, fps(2e7), 8, Nanos(1_000)));
        let at = play(&mut s, 9);
        assert_eq!(at, [1000, 1005, 1005, 1100, 1150, 1155, 1155, 1250, 1300]);
    }

    #[test]
    fn a_stall_is_not_caught_up_beyond_the_backlog() {
        for times in [Times::Poisson(Random::new(1)), Times::Recorded([0, 900, 2000].into())] {
            let u = Uneven::new(times, fps(1e6), 10, Nanos(0));
            let mut s = Schedule::Uneven(u);
            assert_eq!(s.due(Nanos(10_000_000)), 10);
            assert!(s.forgone() > 5_000, "{}", s.forgone());
            (0..10).for_each(|_| s.sent_one());
            // A clock that is set by years: neither for ever nor a burst.
            assert!(s.due(Nanos(u64::MAX / 2)) <= 10);
            assert!(s.when(1) >= Nanos(u64::MAX / 2) || s.due(Nanos(u64::MAX / 2)) > 0);
        }
        let mut empty =
            Schedule::Uneven(Uneven::new(Times::Recorded([0].into()), fps(1e12), 4, Nanos(0)));
        assert_eq!(empty.due(Nanos(1000)), 4);
    }
}
