//! Which cores the engine's threads run on: the generator has one of its own, all others share the rest.
//!
//! Room: the calling threads' affinity. A thread that captures is woken by the frame that the generator has
//! just sent, in the sender's own system call, and the system likes to run it where it was woken: in the
//! generator's place. Other processes go where they like, unless they were started [`beside_generator`].
//! Called by [`super::run`], and by whoever starts a device of one thread for a measurement.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::{Mutex, PoisonError};

/// The cores of one measurement; the thread that made it goes back to all when it is dropped.
#[derive(Debug)]
pub(super) struct Cores {
    /// All that the thread could use; `None`: they are not told.
    before: Option<CpuSet>,
    /// Where there are at least two.
    parted: Option<Parted>,
    /// Its place in [`MEASUREMENTS`].
    nth: usize,
}

/// The generator's, and the others'.
#[derive(Clone, Copy, Debug)]
struct Parted {
    generator: CpuSet,
    others: CpuSet,
}

/// Which places measurements of this process have: those at the same time have their generators on different
/// cores, one after the other on the same one.
static MEASUREMENTS: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// The first place that nobody has.
fn take_place() -> usize {
    let mut places = MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((nth, free)) = places.iter_mut().enumerate().find(|(_, taken)| !**taken) {
        *free = true;
        return nth;
    }
    places.push(true);
    places.len() - 1
}

/// Does this where the next measurement's generator will not be; what is started by it stays away from there.
///
/// For a device under test that is a process of this machine: beside a generator that never rests, it would wait
/// for a core whenever it wakes there, and that would be measured as its own.
pub fn beside_generator<T>(act: impl FnOnce() -> T) -> T {
    let _others = Cores::part();
    act()
}

impl Cores {
    /// Parts the cores that the calling thread may use; it stays on those of the others, and so do the threads
    /// that it makes from now on.
    pub(super) fn part() -> Self {
        let before = sched_getaffinity(None).ok();
        let nth = take_place();
        let allowed = |set: &CpuSet| (0..CpuSet::MAX_CPU).filter(|n| set.is_set(*n)).collect();
        let parted = before.as_ref().and_then(|set| part(allowed(set), nth));
        let to_set = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|n| set.set(*n));
            set
        };
        let parted = parted.map(|(generator, others)| Parted {
            generator: to_set(&[generator]),
            others: to_set(&others),
        });
        if let Some(p) = &parted {
            // What is not allowed is done without: the pacing says what it was worth.
            let _ = sched_setaffinity(None, &p.others);
        }
        Self { before, parted, nth }
    }

    /// Puts the calling thread, the generator's, on its own.
    pub(super) fn take_generators(&self) {
        if let Some(p) = &self.parted {
            let _ = sched_setaffinity(None, &p.generator);
        }
    }

    /// Lets the calling thread use all of them again, and so the programs that it starts.
    pub(super) fn take_all(&self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.take_all();
        let mut places = MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = places.get_mut(self.nth) {
            *taken = false;
        }
    }
}

/// One core for the generator, from the last on for one measurement after the other (the first ones take the
/// most interrupts), and the others. `None`: there is but one.
fn part(mut allowed: Vec<usize>, nth: usize) -> Option<(usize, Vec<usize>)> {
    if allowed.len() < 2 {
        return None;
    }
    let generator = allowed.remove(allowed.len() - 1 - nth % allowed.len());
    Some((generator, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_the_generator_and_the_rest_for_the_others() {
        assert_eq!(part(vec![], 0), None);
        assert_eq!(part(vec![3], 5), None);
        assert_eq!(part(vec![0, 1], 0), Some((1, vec![0])));
        assert_eq!(part(vec![0, 1], 1), Some((0, vec![1])));
        assert_eq!(part(vec![2, 4, 7], 0), Some((7, vec![2, 4])));
        assert_eq!(part(vec![2, 4, 7], 4), Some((4, vec![2, 7])));
    }

    #[test]
    fn threads_go_apart_and_back() {
        let now = || sched_getaffinity(None).unwrap();
        let before = now();
        {
            let cores = Cores::part();
            let others = now();
            let generators = std::thread::scope(|s| {
                let on_its_own = || {
                    cores.take_generators();
                    now()
                };
                s.spawn(on_its_own).join().unwrap()
            });
            if before.count() > 1 {
                assert_eq!((generators.count(), others.count()), (1, before.count() - 1));
                let both = (0..CpuSet::MAX_CPU).any(|n| generators.is_set(n) && others.is_set(n));
                assert!(!both, "{generators:?} {others:?}");
            }
        }
        assert_eq!(now(), before);
    }

    #[test]
    fn what_is_started_beside_a_generator_stays_off_its_core() {
        let before = sched_getaffinity(None).unwrap();
        let child = beside_generator(|| std::thread::spawn(|| sched_getaffinity(None).unwrap()));
        let child = child.join().unwrap();
        assert_eq!(child.count(), (before.count() - 1).max(1));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
