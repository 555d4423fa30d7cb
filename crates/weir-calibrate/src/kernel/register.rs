//! Operations on fields that are in registers, and the price of a branch that was guessed wrongly.
//!
//! Room: registers. Called by `bench`.

use super::{Memory, Pace, over};
use crate::meter::Run;
use std::hint::black_box;

/// 'increase': one is added to a field of up to 8 bytes.
pub fn increase(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |_, at| at + 1)
}

/// 'increase' of a field of 16 bytes.
pub fn increase_wide(memory: &Memory, pace: Pace, places: u64) -> Run {
    let low = black_box(u64::MAX - 3);
    over(memory, pace, places, move |_, at| {
        let (low, carry) = (at ^ low).overflowing_add(1);
        low ^ at.wrapping_add(u64::from(carry))
    })
}

/// 'decrease': one is taken from a field, which stays zero where it is.
pub fn decrease(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |_, at| at.wrapping_sub(1))
}

/// 'sum' of two fields of up to 8 bytes.
pub fn sum(memory: &Memory, pace: Pace, places: u64) -> Run {
    let other = black_box(12345u64);
    over(memory, pace, places, move |_, at| at.wrapping_add(other))
}

/// 'sum' of two fields of 16 bytes.
pub fn sum_wide(memory: &Memory, pace: Pace, places: u64) -> Run {
    let (low, high) = (black_box(u64::MAX - 3), black_box(77u64));
    over(memory, pace, places, move |_, at| {
        let (a, carry) = at.overflowing_add(low);
        a ^ high.wrapping_add(u64::from(carry))
    })
}

/// How well a branch can be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Always the same way.
    Steady,
    /// Either way by chance: every second guess is wrong.
    Random,
}

/// A branch that depends on a bit of a random number.
pub fn branch(kind: Branch) -> Run {
    let mask = black_box(match kind {
        Branch::Steady => 0u64,
        Branch::Random => 1 << 17,
    });
    let mut x = 0x2545_f491_4f6c_dd1du64;
    Box::new(move |operations| {
        let mut sum = 0u64;
        for _ in 0..operations {
            // Marsaglia's xorshift.
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // What the compiler can't look into, it can't turn into a choice without a branch.
            if x & mask == 0 {
                sum = black_box(sum + 1);
            } else {
                sum = black_box(sum ^ 3);
            }
        }
        sum ^ x
    })
}
