//! Time for generators and receivers, as an argument: monotonic, Unix, or made by hand for tests.
//!
//! Touches the system's clocks. The TSC is read through them: on Linux `clock_gettime` is a call
//! into the vDSO that reads the TSC and scales it (26 ns against 11 ns for the bare instruction,
//! which Rust offers only as unsafe code). Pacing reads it once a burst, so that costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_packet::Nanos;

/// A clock, and what to do until a time has come. One clock may be shared by threads.
pub trait Clock: Sync {
    /// Now, in nanoseconds of the clock's own epoch. Must not go back unless the clock says so.
    fn now(&self) -> Nanos;

    /// Returns at `then` or a little later; at once when `then` has passed.
    fn wait_until(&self, then: Nanos);

    /// Lets a little time pass: nothing can be done just now.
    fn pause(&self);
}

/// How a thread waits. Costs CPU time, and on few cores the CPU time of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Never lets go of the core: exact, where the core is the thread's own.
    Spin,
    /// Offers the core to whoever is ready at each turn: fair where cores are shared.
    #[default]
    Yield,
    /// Sleeps while more than [`SLEEP_SLACK`] is left, then yields: cheap at low rates; late by
    /// what the system takes to wake a thread if that is more.
    Sleep,
}

/// What [`Wait::Sleep`] keeps back from a sleep: Linux rounds sleeps by 50 µs (`timer_slack_ns`).
pub const SLEEP_SLACK: Duration = Duration::from_micros(200);

/// The longest single sleep or pause, so that a wait that makes no sense does not hold a thread.
const PAUSE: Duration = Duration::from_micros(50);

impl Wait {
    fn until(self, then: Nanos, now: impl Fn() -> Nanos) {
        loop {
            let left = then.since(now());
            if left == Nanos(0) {
                return;
            }
            match self {
                Wait::Spin => std::hint::spin_loop(),
                Wait::Sleep if u128::from(left.0) > SLEEP_SLACK.as_nanos() => {
                    std::thread::sleep(Duration::from_nanos(left.0).saturating_sub(SLEEP_SLACK));
                }
                Wait::Yield | Wait::Sleep => std::thread::yield_now(),
            }
        }
    }
    fn pause(self) {
        match self {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Yield => std::thread::yield_now(),
            Wait::Sleep => std::thread::sleep(PAUSE),
        }
    }
}

/// Nanoseconds since the clock was made; never goes back. For stamps that this process takes itself.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    epoch: Instant,
    wait: Wait,
}

impl Monotonic {
    /// A clock that begins now.
    pub fn new(wait: Wait) -> Self {
        Self { epoch: Instant::now(), wait }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
    fn wait_until(&self, then: Nanos) {
        self.wait.until(then, || self.now());
    }
    fn pause(&self) {
        self.wait.pause();
    }
}

/// Nanoseconds of the Unix epoch: the clock of the kernel's receive stamps, for delays measured
/// from this process to them. Moves when the machine's time is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unix {
    /// How its threads wait.
    pub wait: Wait,
}

impl Clock for Unix {
    fn now(&self) -> Nanos {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
    fn wait_until(&self, then: Nanos) {
        self.wait.until(then, || self.now());
    }
    fn pause(&self) {
        self.wait.pause();
    }
}

/// A clock that moves only when told to, or when somebody waits: for tests and simulations.
#[derive(Debug, Default)]
pub struct Manual {
    now: AtomicU64,
}

impl Manual {
    /// What a [`Clock::pause`] lets pass.
    pub const TICK: Nanos = Nanos(1_000);

    /// A clock at zero.
    pub const fn new() -> Self {
        Self { now: AtomicU64::new(0) }
    }
    /// Moves it on.
    pub fn advance(&self, by: Nanos) {
        self.now.fetch_add(by.0, Ordering::SeqCst);
    }
}

impl Clock for Manual {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::SeqCst))
    }
    fn wait_until(&self, then: Nanos) {
        self.now.fetch_max(then.0, Ordering::SeqCst);
    }
    fn pause(&self) {
        self.advance(Self::TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_and_never_early() {
        for wait in [Wait::Spin, Wait::Yield, Wait::Sleep] {
            let clock = Monotonic::new(wait);
            let then = clock.now() + Nanos(300_000);
            clock.wait_until(then);
            assert!(clock.now() >= then, "{wait:?}");
            clock.wait_until(Nanos(0));
            clock.pause();
        }
    }

    #[test]
    fn a_manual_clock_goes_only_forward() {
        let clock = Manual::new();
        clock.wait_until(Nanos(500));
        clock.wait_until(Nanos(100));
        assert_eq!(clock.now(), Nanos(500));
        clock.pause();
        assert_eq!(clock.now(), Nanos(500) + Manual::TICK);
    }
}
