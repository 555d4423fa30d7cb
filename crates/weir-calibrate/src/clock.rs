//! The clock: how long a core's cycle is right now.
//!
//! A rotation by a constant and an addition of registers, each waiting for the one before, take a cycle
//! each (x86-64: `rol`, `add`, which renaming does not shorten, as it does additions of constants on
//! recent cores; ARMv8: `ror`, `add`). So a chain of them tells cycles from nanoseconds without a
//! counter, turbo included.
//!
//! Room: registers and the monotonic clock. Called by `meter` around every sample.

use std::hint::black_box;
use std::time::Instant;

/// Cycles of a step of the chain.
const STEP: u64 = 2;
/// Steps that are unrolled.
const UNROLLED: u64 = 16;

/// Runs a chain of at least so many cycles; cycles that it took.
#[inline(never)]
pub fn chain(cycles: u64) -> u64 {
    let rounds = cycles.div_ceil(STEP * UNROLLED).max(1);
    // A number that the compiler does not know: nothing can be folded.
    let add = black_box(0x9e37_79b9_7f4a_7c15u64);
    let mut x = black_box(1u64);
    for _ in 0..rounds {
        for _ in 0..UNROLLED {
            x = x.rotate_left(7).wrapping_add(add);
        }
    }
    black_box(x);
    rounds * UNROLLED * STEP
}

/// Nanoseconds of a cycle, over so many of them.
pub fn cycle_ns(cycles: u64) -> f64 {
    let begin = Instant::now();
    let done = chain(cycles);
    begin.elapsed().as_nanos() as f64 / done as f64
}
