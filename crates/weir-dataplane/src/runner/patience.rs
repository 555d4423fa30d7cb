//! How long who asked a worker polls for the answer before it sleeps: as virtual machines' hosts do
//! before they halt a processor, longer where that was worth it the last time.
//!
//! Room: `runner`. Shared by all handles of a worker; decides by the times that are passed in.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Less than going to sleep and being woken takes.
const LEAST: Duration = Duration::from_micros(25);
/// What a worker may take to be woken where processors that idle have gone to sleep, which in a
/// virtual machine is some fifty microseconds, and to answer.
const MOST: Duration = Duration::from_micros(120);

/// Nanoseconds that a caller polls.
#[derive(Debug)]
pub(super) struct Patience(AtomicU64);

impl Default for Patience {
    fn default() -> Self {
        Self(AtomicU64::new(MOST.as_nanos() as u64))
    }
}

impl Patience {
    /// How long to poll.
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }
    /// An answer took so long. One that took longer than anybody polls says that the worker has
    /// much to do, or nowhere to run.
    pub(super) fn took(&self, time: Duration) {
        let next = if time <= MOST { MOST } else { LEAST };
        self.0.store(next.as_nanos() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_answered_soon_polls_longer_and_who_was_not_sleeps_sooner() {
        let p = Patience::default();
        assert_eq!(p.now(), MOST);
        p.took(MOST + Duration::from_nanos(1));
        assert_eq!(p.now(), LEAST);
        p.took(MOST);
        assert_eq!(p.now(), MOST);
    }
}
