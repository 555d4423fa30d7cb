//! What tasks lose that share a core: a change of context, and how long a task has the core before the next
//! one's turn.
//!
//! Room: two threads on one CPU. Called by `calibrate`. Where the kernel does not tell how often a thread was
//! given a core there is no figure.

use crate::clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// Nanoseconds from one task that waits to the next that goes on.
    pub context_ns: f64,
    /// Seconds that a task has the core while others want it.
    pub timeslice_s: f64,
}

/// Iterations of work between two looks at the time.
const WORK: u64 = 10_000;

/// Measures on this CPU, which the calling thread is bound to, for so long each.
pub fn measure(cpu: usize, time: Duration) -> Option<Sharing> {
    let timeslice_s = timeslice(cpu, time)?;
    Some(Sharing { context_ns: handed_over(cpu, time)?, timeslice_s })
}

/// Two threads that wake each other in turns.
fn handed_over(cpu: usize, time: Duration) -> Option<f64> {
    let (theirs, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || {
            crate::cpus::pin(cpu);
            while !over.load(Ordering::Acquire) {
                if theirs.swap(false, Ordering::AcqRel) {
                    caller.unpark();
                }
                std::thread::park();
            }
        });
        let other = other.ok()?;
        let (begin, mut turns) = (Instant::now(), 0u32);
        while begin.elapsed() < time {
            theirs.store(true, Ordering::Release);
            other.thread().unpark();
            while theirs.load(Ordering::Acquire) {
                std::thread::park();
            }
            turns += 1;
        }
        let spent = begin.elapsed();
        over.store(true, Ordering::Release);
        other.thread().unpark();
        // There and back.
        (turns > 0).then(|| spent.as_nanos() as f64 / f64::from(turns) / 2.0)
    })
}

/// Two threads that both want to work.
fn timeslice(cpu: usize, time: Duration) -> Option<f64> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || {
            crate::cpus::pin(cpu);
            while !over.load(Ordering::Relaxed) {
                std::hint::black_box(clock::chain(WORK));
            }
        });
        other.ok()?;
        let before = given();
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::black_box(clock::chain(WORK));
        }
        let after = given();
        over.store(true, Ordering::Relaxed);
        let ((ran, turns), (ran_before, turns_before)) = (after?, before?);
        let turns = turns.saturating_sub(turns_before);
        (turns > 0).then(|| ran.saturating_sub(ran_before) as f64 / 1e9 / turns as f64)
    })
}

/// Nanoseconds that this thread ran, and how often it was given a core.
fn given() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut all = text.split_whitespace().map(str::parse);
    let (ran, _waited) = (all.next()?.ok()?, all.next()?);
    Some((ran, all.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_take_turns() {
        let Some(cpu) = crate::cpus::allowed().first().copied() else { return };
        crate::cpus::pin(cpu);
        if let Some(s) = measure(cpu, Duration::from_millis(50)) {
            assert!(s.context_ns > 0.0 && s.timeslice_s > 0.0, "{s:?}");
        }
    }
}
