//! An installed rule as frames meet it.
//!
//! Room: `matching`'s; one line of memory a rule, which the worker writes to with every frame that hits.

use super::RuleSpec;
use crate::compile::{ActionResult, bits};
use crate::counters::Tally;
use weir_classify::Match;
use weir_packet::Nanos;

/// An installed rule as frames meet it: its action result with its counters beside it, so that a
/// hit touches one line of memory and nothing else. What only people ask for stands in [`Table`].
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// What to do.
    pub result: ActionResult,
    /// Frames that hit on this side.
    pub hits: Tally,
    /// When the last of them came.
    pub last_used: Nanos,
    /// What tells it from the table's other rules, where that is [`FastTable::is_near`].
    pub(super) word: u64,
}

// A million of them is a million lines.
const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    pub(super) fn new(spec: &RuleSpec, result: ActionResult) -> Self {
        let mut e = Self::vacant();
        e.relink(&spec.matcher, spec.priority, result);
        e
    }
    /// Gives the rule with this match and priority what its actions come down to now.
    pub(super) fn relink(&mut self, matcher: &Match, priority: u32, mut result: ActionResult) {
        result.count_on(&self.result);
        self.result = result;
        let all = priority == 0 && *matcher == Match::any();
        if all && self.result.bits & bits::PROGRAM != 0 {
            self.result.bits |= bits::TABLE_MISS;
        }
    }
    /// What stands in a slot that no rule has.
    pub(super) fn vacant() -> Self {
        let result = ActionResult::drop();
        Self { result, hits: Tally::default(), last_used: Nanos(0), word: 0 }
    }
    /// Counts a frame that the worker saw.
    #[inline(always)]
    pub fn hit(&mut self, len: usize, now: Nanos) {
        self.hits.add(len);
        self.last_used = now;
    }
}
