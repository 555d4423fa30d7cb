//! The way to an index's leaf where every key has one: the cuts, walked by the key itself.
//!
//! Called by `tree` and `burst` alone, where no cut has a third way. A leaf is a step that leads to itself, so that every walk has the same
//! number of steps and none ends in a branch that nobody foretells. Where bits are put together at once, `leaps` is walked in its place.

use super::leaps::Leaps;
use super::place::Words;
use crate::simd::prefetch_slice;

/// Steps that a walk may have, which `cuts` sees to: with more, rows before the leaves cost less.
pub(super) const LEVELS: usize = 16;

/// Levels that are walked as they are: in fewer rounds they would be no fewer.
const FEW: usize = if cfg!(test) { 0 } else { 3 };

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) word: u8,
    pub(super) bit: u8,
    /// Where to go on for a zero, and for a one.
    pub(super) sides: [u16; 2],
    /// The leaf, where it is one.
    pub(super) leaf: u16,
}

impl Step {
    /// A leaf leads nowhere else; the first step is no other's side.
    pub(super) fn is_leaf(&self) -> bool {
        self.sides[0] == self.sides[1]
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    steps: Box<[Step]>,
    levels: usize,
    /// The same in fewer steps, for who can take them.
    leaps: Option<Box<Leaps>>,
}

impl Walk {
    /// From the first of these, down so many levels.
    pub(super) fn new(steps: Vec<Step>, levels: usize) -> Self {
        let leaves = steps.iter().map(|s| usize::from(s.leaf) + 1).max().unwrap_or(0);
        let leaps = (levels > FEW).then(|| Leaps::new(&steps, leaves)).flatten();
        Self { steps: steps.into(), levels, leaps: leaps.map(Box::new) }
    }
    #[inline(always)]
    pub(super) fn leaps(&self) -> Option<&Leaps> {
        self.leaps.as_deref()
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
        let leaps = self.leaps.as_ref().map_or(0, |l| size_of::<Leaps>() + l.heap_bytes());
        size_of_val(&*self.steps) + leaps
    }
}
