//! A data plane that is fed from memory, and what a frame costs it.
//!
//! The source waits until it is asked, so nothing can be lost and a zero-loss rate does not exist:
//! what is measured is frames per CPU-second of the one thread that does everything, the copy of
//! each frame out of the source's memory included.

use super::report::Accounts;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};
use weir_dataplane::DataPlane;
use weir_io::thread_cpu_time;
use weir_packet::Nanos;

/// What the data plane's clock is moved on by in each round: about what a burst takes.
const ROUND: u64 = 3000;
/// Rounds between two looks at the time.
const ROUNDS: usize = 64;

/// A data plane whose sources are in memory.
pub struct Bench {
    /// The data plane.
    pub plane: DataPlane,
    clock: u64,
}

impl Bench {
    /// Ready to be measured.
    pub fn new(plane: DataPlane) -> Self {
        Self { plane, clock: 0 }
    }

    fn received(&self) -> u64 {
        self.plane.snapshot().ports.iter().map(|p| p.counters.rx.frames).sum()
    }

    /// Runs it for `time`; frames received per CPU-second, in millions.
    ///
    /// # Errors
    /// Nothing moved, or frames do not add up.
    pub fn mfps_per_cpu_s(&mut self, time: Duration) -> Result<f64> {
        let before = self.received();
        let (begin, cpu) = (Instant::now(), thread_cpu_time());
        // Once at least, however late this thread gets its core.
        loop {
            for _ in 0..ROUNDS {
                self.clock += ROUND;
                self.plane.poll(Nanos(self.clock));
            }
            if begin.elapsed() >= time {
                break;
            }
        }
        let cpu_s = thread_cpu_time().saturating_sub(cpu).as_secs_f64();
        let s = self.plane.snapshot();
        s.check()?;
        let frames = self.received() - before;
        if frames == 0 || cpu_s <= 0.0 {
            bail!("no frame moved: the data plane stands still");
        }
        Ok(frames as f64 / cpu_s / 1e6)
    }

    /// Adds what became of its frames to `sums`.
    pub fn account(&self, sums: &mut Accounts) {
        sums.add(&self.plane.snapshot());
    }
}

/// Numbers in an order without a pattern that a cache could like: Fisher and Yates' shuffle by
/// Marsaglia's xorshift, the same in every run.
pub fn shuffle<T>(items: &mut [T]) {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..items.len()).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        items.swap(i, (x % (i as u64 + 1)) as usize);
    }
}
