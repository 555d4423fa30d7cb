//! Micro-benchmarks of elementary operations: each does one operation, plainly, over memory that is
//! near or far, in two paces.
//!
//! Room: what an operation is made of. None is the code of a network function: those are estimated from
//! these figures, and must not be measured twice. `frame` has what touches frames, `table` what looks
//! up, `classify` what compares rules, `queue` rings and bursts, `payload` what goes through all bytes,
//! `register` what needs no memory. Called by `bench`.

pub mod classify;
pub mod frame;
pub mod payload;
pub mod queue;
pub mod register;
pub mod table;

use crate::field::{Field, Word};
use crate::meter::Run;
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

/// Operations of a burst.
pub const BURST: u64 = 32;

/// How operations follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each waits for the result of the one before: a burst of one.
    Alone,
    /// [`BURST`] of them wait for nothing of each other's, and each burst for the one before.
    Burst,
}

/// Memory, shared by those that measure in it one after the other.
pub type Memory = Rc<RefCell<Field>>;

/// Numbers without a pattern, of which each from 0 to a power of two comes once before any comes again:
/// a multiplication by an odd number, whose high bits are folded into the low ones.
#[inline(always)]
pub fn scatter(k: u64) -> u64 {
    let x = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 32
}

/// Runs `op` at one place after the other, of `places` (a power of two): `op` has the words of the
/// memory and a place.
#[inline(always)]
pub fn over(
    memory: &Memory,
    pace: Pace,
    places: u64,
    mut op: impl FnMut(&mut [Word], u64) -> u64 + 'static,
) -> Run {
    let memory = Rc::clone(memory);
    let mask = places.next_power_of_two() - 1;
    let mut k = 0u64;
    match pace {
        Pace::Alone => Box::new(move |operations| {
            let mut memory = memory.borrow_mut();
            let words = memory.words();
            // The compiler does not know that results don't matter.
            let nothing = black_box(0u64);
            let mut x = 0;
            for _ in 0..operations {
                x = op(words, scatter(k ^ (x & nothing)) & mask);
                k = k.wrapping_add(1);
            }
            x
        }),
        Pace::Burst => Box::new(move |operations| {
            let mut memory = memory.borrow_mut();
            let words = memory.words();
            let nothing = black_box(0u64);
            let mut x = 0;
            for _ in 0..operations.div_ceil(BURST) {
                let after = x & nothing;
                for i in 0..BURST {
                    // Not to be done for several at once by vectors.
                    x ^= black_box(op(words, scatter((k + i) ^ after) & mask));
                }
                k = k.wrapping_add(BURST);
            }
            x
        }),
    }
}

/// What the loop itself costs: an operation that does nothing.
pub fn nothing(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |_, at| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Pages;

    #[test]
    fn places_are_met_alike() {
        let memory = Rc::new(RefCell::new(Field::new(4096, Pages::Small).expect("memory")));
        for pace in [Pace::Alone, Pace::Burst] {
            let seen = Rc::new(RefCell::new(vec![0u32; 64]));
            let counted = Rc::clone(&seen);
            let mut run = over(&memory, pace, 64, move |_, at| {
                counted.borrow_mut()[at as usize] += 1;
                at
            });
            run(64 * 64);
            let seen = seen.borrow();
            assert_eq!(seen.iter().sum::<u32>(), 64 * 64);
            assert!(seen.iter().all(|s| (20..200).contains(s)), "{seen:?}");
        }
    }
}
