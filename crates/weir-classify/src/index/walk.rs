//! The way to an index's leaf where every key has one: the cuts, walked by the key itself.
//!
//! Called by `tree` and `burst` alone, where no cut has a third way. A leaf is a step that leads to itself, so that every walk has the same
//! number of steps and none ends in a branch that nobody foretells.

use super::place::Words;
use crate::simd::prefetch_slice;

/// Steps that a walk may have, which `cuts` sees to: with more, rows before the leaves cost less.
pub(super) const LEVELS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) word: u8,
    pub(super) bit: u8,
    /// Where to go on for a zero, and for a one.
    pub(super) sides: [u16; 2],
    /// The leaf, where it is one.
    pub(super) leaf: u16,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    steps: Box<[Step]>,
    levels: usize,
}

impl Walk {
    /// From the first of these, down so many levels.
    pub(super) fn new(steps: Vec<Step>, levels: usize) -> Self {
        Self { steps: steps.into(), levels }
    }
    pub(super) fn levels(&self) -> usize {
        self.levels
    }
    /// Asks for its first steps.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch_slice(&self.steps, 64);
    }
    /// One level down from `at`, which is 0 before the first.
    #[inline(always)]
    pub(super) fn next(&self, key: &Words, at: u16) -> u16 {
        match self.steps.get(usize::from(at)) {
            Some(s) => s.sides[key.bit(s.word, s.bit)],
            None => at,
        }
    }
    /// The leaf that a walk has come to.
    #[inline(always)]
    pub(super) fn leaf(&self, at: u16) -> usize {
        self.steps.get(usize::from(at)).map_or(0, |s| usize::from(s.leaf))
    }
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.steps)
    }
}
