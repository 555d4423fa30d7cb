//! How long a measurement will take, and how much of that is left.
//!
//! Pure. The module says how long it takes on a switch that needs no time of its own
//! ([`crate::module::Module::takes`]); the engine adds its own times. Shown by the binary.

use std::time::Duration;

/// Of a measurement that takes `takes` where the switch needs no time, after `measured`, with `done` of `of`
/// done as the module counts; `None`: nothing is known yet.
///
/// What was done tells the switch's pace, once there is enough of it; before that the plan is believed.
pub fn left(takes: Option<Duration>, measured: Duration, done: u64, of: u64) -> Option<Duration> {
    let share = if of == 0 { 0.0 } else { (done as f64 / of as f64).min(1.0) };
    let planned = takes.map(|t| t.saturating_sub(measured)).filter(|left| !left.is_zero());
    if share < ENOUGH {
        return planned;
    }
    Duration::try_from_secs_f64(measured.as_secs_f64() * (1.0 - share) / share).ok()
}

/// The share that must be done before it tells the switch's pace.
const ENOUGH: f64 = 0.05;

/// Several measurements, one after the other.
///
/// Each takes what its module says ([`crate::module::Module::takes`]) and something around it: making the switch,
/// looking at it, putting it back. What that is the first ones tell.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    takes: Vec<Option<Duration>>,
    finished: usize,
    /// What those that are finished took beyond what their modules said.
    around: Duration,
}

impl Plan {
    /// Measurements that take so long on a switch that needs no time; `None`: nobody knows.
    pub fn new(takes: Vec<Option<Duration>>) -> Self {
        Self { takes, finished: 0, around: Duration::ZERO }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.takes.len()
    }

    /// How many are over.
    pub fn finished(&self) -> usize {
        self.finished
    }

    /// The next one is over.
    pub fn done(&mut self, took: Duration) {
        let planned = self.takes.get(self.finished).copied().flatten().unwrap_or_default();
        self.around += took.saturating_sub(planned);
        self.finished += 1;
    }

    /// The next one is not made at all.
    pub fn skip(&mut self) {
        if self.finished < self.takes.len() {
            self.takes.remove(self.finished);
        }
    }

    /// What is left while the next one has `this` left.
    pub fn left(&self, this: Option<Duration>) -> Duration {
        let around = self.around.checked_div(u32::try_from(self.finished).unwrap_or(u32::MAX));
        let around = around.unwrap_or_default();
        let next = self.takes.get(self.finished).copied().flatten().unwrap_or_default();
        let after = self.takes.iter().skip(self.finished + 1);
        let after = after.fold(Duration::ZERO, |sum, t| {
            sum.saturating_add(t.unwrap_or_default()).saturating_add(around)
        });
        after.saturating_add(this.unwrap_or(next))
    }
}

/// A time for people: `12 s`, `4 min`, `2.5 h`.
pub fn in_words(time: Duration) -> String {
    let s = time.as_secs_f64();
    if s < 99.5 {
        format!("{:.0} s", s.ceil())
    } else if s < 99.5 * 60.0 {
        format!("{:.0} min", s / 60.0)
    } else {
        format!("{:.1} h", s / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn the_plan_first_and_then_the_pace() {
        assert_eq!(left(Some(S(100)), S(10), 0, 0), Some(S(90)));
        assert_eq!(left(Some(S(100)), S(10), 1, 100), Some(S(90)), "too little to tell");
        // A switch that is ten times slower than the plan.
        assert_eq!(left(Some(S(100)), S(100), 1, 10), Some(S(900)));
        assert_eq!(left(None, S(30), 3, 4), Some(S(10)));
        assert_eq!(left(None, S(30), 0, 4), None);
        assert_eq!(left(Some(S(10)), S(30), 0, 4), None, "the plan is over");
        assert_eq!(left(Some(S(10)), S(30), 9, 4), Some(S(0)));
    }

    #[test]
    fn several() {
        let mut p = Plan::new(vec![Some(S(10)), Some(S(20)), None, Some(S(40))]);
        assert_eq!(p.left(None), S(70));
        // Two seconds around it.
        p.done(S(12));
        assert_eq!((p.left(Some(S(5))), p.left(None)), (S(5 + 2 + 42), S(20 + 2 + 42)));
        p.done(S(22));
        p.skip();
        assert_eq!((p.count(), p.finished(), p.left(None)), (3, 2, S(40)));
        p.done(S(1));
        p.done(S(1));
        p.skip();
        assert_eq!(p.left(None), S(0));
    }

    #[test]
    fn words() {
        for (ms, words) in
            [(0, "0 s"), (400, "1 s"), (99_000, "99 s"), (120_000, "2 min"), (9_000_000, "2.5 h")]
        {
            assert_eq!(in_words(Duration::from_millis(ms)), words);
        }
    }
}
