//! Whether a worker was kept from its processor: by other processes, or by the machine's owner. Its own rests count, too; that does no harm, as
//! limits go when there is time for rests.
//!
//! Room: `runner`. Decides by the times that are passed in; asked before each round where somebody is promised a part of the worker.

use crate::cpu_share::INTERVAL;
use rustix::time::{ClockId, clock_gettime};
use weir_packet::Nanos;

/// It is looked so often at most: the clock of a thread's own time is a system call.
const LOOKS: Nanos = Nanos(INTERVAL.0 / 2);

/// What it had when it was looked last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    at: Nanos,
    used: Nanos,
}

impl Kept {
    /// Whether it did not have its processor for an interval of CPU shares, or longer, since it was looked last; `used` is the thread's own
    /// time.
    pub(super) fn look(&mut self, now: Nanos, used: impl FnOnce() -> Nanos) -> bool {
        if now.since(self.at) < LOOKS {
            return false;
        }
        let before = std::mem::replace(self, Self { at: now, used: used() });
        let had = self.used.since(before.used);
        now.since(before.at).since(had) >= INTERVAL
    }
}

/// The time that this thread has had a processor.
pub(super) fn own_time() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    let of = |n: i64, unit: u64| u64::try_from(n).unwrap_or(0).saturating_mul(unit);
    Nanos(of(t.tv_sec, 1_000_000_000).saturating_add(of(t.tv_nsec, 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn who_had_no_processor_was_kept() {
        let mut k = Kept::default();
        let us = |n: u64| Nanos(n * 1000);
        let mut asked = 0;
        let mut look = |now, used| {
            k.look(us(now), || {
                asked += 1;
                us(used)
            })
        };
        // A rest before the first round is not told apart from being kept; nobody is promised anything then.
        look(10_000, 0);
        assert!(!look(10_100, 100), "too early");
        assert!(!look(10_300, 300));
        assert!(!look(10_800, 400), "400 us without a processor");
        assert!(look(11_600, 500), "700");
        // A long round is no pause.
        assert!(!look(21_600, 10_400));
        assert!(look(24_600, 10_500));
        assert_eq!(asked, 6);
    }

    #[test]
    fn a_threads_own_time_goes_on_while_it_works_alone() {
        let before = own_time();
        thread::sleep(Duration::from_millis(20));
        let slept = own_time().since(before);
        assert!(slept < Nanos::from_millis(20), "{slept:?} of a sleep of 20 ms");
        let began = Instant::now();
        while own_time().since(before) <= slept {
            assert!(began.elapsed() < Duration::from_secs(60), "it stands still");
            std::hint::spin_loop();
        }
    }
}
