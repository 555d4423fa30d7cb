//! Which CPUs there are for us, and staying on one of them.
//!
//! Room: the scheduler's affinities. Called by `calibrate`, and by the threads that measure together: a
//! thread inherits what its maker was bound to, so the list is made first.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that the calling thread may use.
pub fn allowed() -> Vec<usize> {
    let Ok(may) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|c| may.is_set(*c)).collect()
}

/// Binds the calling thread to a CPU. One that can't be bound wanders, and its samples are noisier.
pub fn pin(cpu: usize) {
    let mut one = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        one.set(cpu);
        // See above.
        let _ = sched_setaffinity(None, &one);
    }
}
