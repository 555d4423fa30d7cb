//! One stream's numbers as they arrive: in order, reordered, duplicated, too old to say.
//!
//! Touches one bitmap of fixed size; no frame, no clock. Called by [`super::Checker`] once per
//! intact frame. Cost: one bit test, and the clearing of the bits between two numbers.
//!
//! Definitions (RFC 4737 §3.3, applied within a stream):
//! - *next* is one more than the highest number seen, 0 at first;
//! - a number of *next* or above is **in order**, however many it skips;
//! - a number below *next* that was not seen before is **reordered**;
//! - a number that was seen before is **duplicated**; only its first copy is judged for order;
//! - a number further below *next* than the bitmap reaches is **too old**: it is one of the last
//!   two, and which can't be said.

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    InOrder,
    Reordered,
    Duplicated,
    TooOld,
}

#[derive(Clone, Debug)]
pub(crate) struct Track {
    /// Seen numbers of `next − window .. next`, number n at bit n modulo the window.
    seen: Box<[u64]>,
    /// One more than the highest number seen.
    next: u64,
    pub in_order: u64,
    pub reordered: u64,
    pub duplicated: u64,
    pub too_old: u64,
    /// How far below *next* a reordered number was at most.
    pub late_by_max: u64,
}

impl Track {
    /// With a bitmap of `words` × 64 numbers; at least one word.
    pub fn new(words: usize) -> Self {
        Self {
            seen: vec![0; words.max(1)].into_boxed_slice(),
            next: 0,
            in_order: 0,
            reordered: 0,
            duplicated: 0,
            too_old: 0,
            late_by_max: 0,
        }
    }

    /// One more than the highest number seen.
    pub fn next(&self) -> u64 {
        self.next
    }

    fn window(&self) -> u64 {
        self.seen.len() as u64 * 64
    }

    /// The word and the bit of a number.
    #[inline]
    fn bit(&mut self, number: u64) -> Option<(&mut u64, u64)> {
        let at = number % self.window();
        // Below the number of words.
        self.seen.get_mut((at / 64) as usize).map(|word| (word, 1 << (at % 64)))
    }

    /// Takes a number as the wire carries it, modulo 2^32: the nearest to *next* is meant, so a
    /// gap of 2^31 numbers or more is misread.
    #[inline]
    pub fn arrive(&mut self, low: u32) -> Place {
        let distance = low.wrapping_sub(self.next as u32) as i32;
        let place = match self.next.checked_add_signed(distance.into()) {
            Some(number) if distance >= 0 => {
                self.skip_to(number);
                Place::InOrder
            }
            Some(number) if self.next - number <= self.window() => {
                let late_by = self.next - number;
                match self.bit(number) {
                    Some((word, bit)) if *word & bit == 0 => {
                        *word |= bit;
                        self.late_by_max = self.late_by_max.max(late_by);
                        Place::Reordered
                    }
                    _ => Place::Duplicated,
                }
            }
            // Older than the bitmap, or than the first.
            _ => Place::TooOld,
        };
        let count = match place {
            Place::InOrder => &mut self.in_order,
            Place::Reordered => &mut self.reordered,
            Place::Duplicated => &mut self.duplicated,
            Place::TooOld => &mut self.too_old,
        };
        *count += 1;
        place
    }

    /// Moves the bitmap's front behind `number`, which is seen.
    #[inline]
    fn skip_to(&mut self, number: u64) {
        if number - self.next >= self.window() {
            self.seen.fill(0);
        } else {
            let mut n = self.next;
            while n < number {
                // Whole words at once, where the gap covers them.
                let whole = n.is_multiple_of(64) && number - n >= 64;
                if let Some((word, bit)) = self.bit(n) {
                    *word = if whole { 0 } else { *word & !bit };
                }
                n += if whole { 64 } else { 1 };
            }
        }
        if let Some((word, bit)) = self.bit(number) {
            *word |= bit;
        }
        self.next = number + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definitions as they read, with everything remembered.
    #[derive(Default)]
    struct Oracle {
        arrived: Vec<u64>,
    }
    impl Oracle {
        fn arrive(&mut self, number: u64, window: u64) -> Place {
            let next = self.arrived.iter().max().map_or(0, |n| n + 1);
            let place = if number >= next {
                Place::InOrder
            } else if next - number > window {
                Place::TooOld
            } else if self.arrived.contains(&number) {
                Place::Duplicated
            } else {
                Place::Reordered
            };
            // One that is too old leaves no trace.
            if place != Place::TooOld {
                self.arrived.push(number);
            }
            place
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions(
            words in 1usize..4,
            // Steps from the last number: mostly one ahead, some back, some far.
            steps in prop::collection::vec(prop_oneof![
                6 => Just(1i64), 3 => -90i64..90, 1 => -400i64..400,
            ], 0..400),
        ) {
            let mut track = Track::new(words);
            let mut oracle = Oracle::default();
            let mut at = -1i64;
            for step in steps {
                at = (at + step).max(0);
                let wanted = oracle.arrive(at as u64, words as u64 * 64);
                prop_assert_eq!(track.arrive(at as u32), wanted, "number {}", at);
            }
            let all = track.in_order + track.reordered + track.duplicated;
            prop_assert_eq!(all, oracle.arrived.len() as u64);
        }

        #[test]
        fn any_numbers_are_survived(numbers in prop::collection::vec(any::<u32>(), 0..200)) {
            let mut track = Track::new(2);
            for n in &numbers {
                track.arrive(*n);
            }
            let all = track.in_order + track.reordered + track.duplicated + track.too_old;
            prop_assert_eq!(all, numbers.len() as u64);
        }
    }

    #[test]
    fn numbers_go_on_past_32_bits() {
        let mut t = Track::new(1);
        // Up to the edge in steps that are not misread.
        for n in [0, 1 << 30, 2 << 30, 3 << 30, u32::MAX] {
            assert_eq!(t.arrive(n), Place::InOrder);
        }
        assert_eq!(t.arrive(1), Place::InOrder);
        assert_eq!(t.next(), (1 << 32) + 2);
        assert_eq!(t.arrive(0), Place::Reordered);
        assert_eq!(t.arrive(u32::MAX), Place::Duplicated);
        assert_eq!(t.late_by_max, 2);
    }

    #[test]
    fn before_the_first_there_is_nothing() {
        let mut t = Track::new(1);
        assert_eq!(t.arrive(u32::MAX), Place::TooOld);
        assert_eq!(t.arrive(0), Place::InOrder);
    }
}
