//! Waking a worker, whichever way it sleeps.
//!
//! Room: `runner`. Held by whoever has something for a worker: handles, servers.

use rustix::thread::sched_getcpu;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread::{self, Thread};
use weir_packet::Bell;

/// The processor on which a thread was seen last.
#[derive(Debug)]
pub(super) struct Place(AtomicUsize);

/// It was not seen yet.
const NOWHERE: usize = usize::MAX;

impl Default for Place {
    fn default() -> Self {
        Self(AtomicUsize::new(NOWHERE))
    }
}

impl Place {
    /// The calling thread is here.
    pub(super) fn note(&self) {
        self.0.store(sched_getcpu(), Ordering::Relaxed);
    }
}

/// Wakes a worker. While it is awake that costs two atomic operations; a system call only when it
/// sleeps.
#[derive(Clone)]
pub struct Waker {
    thread: Thread,
    place: Arc<Place>,
    sleeper: Option<Sleeper>,
}

/// A worker that sleeps by a [`weir_packet::Waiter`].
#[derive(Clone)]
struct Sleeper {
    asleep: Arc<AtomicBool>,
    bell: Arc<dyn Bell>,
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

impl Waker {
    /// Of the calling thread. `asleep` is true while it sleeps by the waiter whose bell this is.
    pub(super) fn mine(
        place: &Arc<Place>,
        sleeps: Option<(Arc<AtomicBool>, Arc<dyn Bell>)>,
    ) -> Self {
        let sleeper = sleeps.map(|(asleep, bell)| Sleeper { asleep, bell });
        Self { thread: thread::current(), place: Arc::clone(place), sleeper }
    }
    /// Whether it was seen last on the calling thread's processor, where it can't run while the
    /// caller goes on. A guess: both may be moved.
    pub(super) fn is_here(&self) -> bool {
        self.place.0.load(Ordering::Relaxed) == sched_getcpu()
    }
    /// To be called when there is something for the worker to find.
    #[inline]
    pub fn wake(&self) {
        self.thread.unpark();
        if let Some(s) = &self.sleeper {
            // Between what was left for the worker and the look at whether it sleeps; the worker
            // has one between saying that it sleeps and looking for the last time.
            fence(Ordering::SeqCst);
            if s.asleep.load(Ordering::Relaxed) {
                s.bell.ring();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn a_worker_is_where_it_was_seen_last() {
        // In a thread of its own, since it is kept in its place.
        let seen = thread::spawn(|| {
            let place = Arc::default();
            let waker = Waker::mine(&place, None);
            let unseen = waker.is_here();
            let (here, all) = (sched_getcpu(), sched_getaffinity(None).unwrap());
            let mut only = CpuSet::new();
            only.set(here);
            sched_setaffinity(None, &only).unwrap();
            place.note();
            let there = waker.is_here();
            // Elsewhere, if there is such a place.
            let mut others = all;
            others.unset(here);
            let moved = others.count() > 0 && sched_setaffinity(None, &others).is_ok();
            (unseen, there, moved && waker.is_here())
        });
        assert_eq!(seen.join().unwrap(), (false, true, false));
    }
}
