//! The table-miss entry, which stands apart: a rule that takes every key and is under all others (OpenFlow 1.3.5 §5.4).
//!
//! Room: `fast`'s. Nearly every table of a controller's has one. Among the parts it would be one more, so that what is one hash table
//! without it would ask two; but it can win only where nothing else does.
//!
//! Which rule that is, is settled as it comes: one that asks nothing, of a priority under that of all others. A rule that is
//! not above it puts it among the others again, where it stays. The lowest priority of the others is known as that of all that have come
//! since there was none, in a byte: one that asks nothing and has a priority of 255 or more is a rule as any other.

use super::*;

/// Where there is no rule; of this priority or a higher one no rule stands apart.
pub(super) const LOWEST: u8 = u8::MAX;

/// The rule that stands apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    rank: u64,
    id: RuleId,
}

impl Miss {
    fn priority(&self) -> u32 {
        (self.rank >> 32) as u32
    }
}

impl FastTable {
    /// What a lookup finds where no other rule fits: where [`FastTable::is_near`], for its owner. Not part of what found one: that
    /// would read it, in a line of its own, before it knows.
    #[cold]
    #[inline(never)]
    pub fn miss(&self) -> Option<RuleId> {
        self.miss.as_ref().map(|m| m.id)
    }
    /// The rule that stands apart, if it has just this match and priority.
    #[inline]
    pub(super) fn find_miss(&self, m: &Match, priority: u32) -> Option<RuleId> {
        self.miss
            .as_ref()
            .filter(|miss| miss.priority() == priority && m.mask().is_empty())
            .map(|m| m.id)
    }
    /// The same, which goes.
    #[inline]
    pub(super) fn remove_miss(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        let id = self.find_miss(m, priority)?;
        self.miss = None;
        Some(id)
    }
    /// Whether a rule of this priority may have to stand apart, or the one that does not any more.
    #[inline]
    pub(super) fn may_be_last(&self, priority: u32) -> bool {
        priority < self.lowest.into()
            || self.miss.as_ref().is_some_and(|miss| priority <= miss.priority())
    }
    /// A rule comes that is not there and [may be last](FastTable::may_be_last): whether it stands apart now.
    #[cold]
    pub(super) fn comes_last(&mut self, m: &Match, rank: u64, id: RuleId) -> bool {
        let new = Miss { rank, id };
        if let Some(miss) = self.miss.take_if(|miss| new.priority() <= miss.priority()) {
            self.note_priority(miss.priority());
            self.insert_held(&Match::any(), miss.rank, miss.id);
        }
        if self.miss.is_none() && new.priority() < self.lowest.into() && m.mask().is_empty() {
            self.miss = Some(Box::new(new));
            return true;
        }
        self.note_priority(new.priority());
        false
    }
    fn note_priority(&mut self, priority: u32) {
        self.lowest = self.lowest.min(u8::try_from(priority).unwrap_or(LOWEST));
    }
    /// Insertion numbers were given out anew: it gets one as well.
    pub(super) fn renumber_miss(&mut self) {
        let Some(priority) = self.miss.as_deref().map(Miss::priority) else { return };
        let rank = self.next_rank(priority);
        self.miss.iter_mut().for_each(|m| m.rank = rank);
    }
    pub(super) fn each_miss(&self, f: &mut dyn FnMut(&Rule)) {
        let miss = self.miss.iter();
        miss.for_each(|m| f(&Rule { matcher: Match::any(), priority: m.priority(), id: m.id }));
    }
}
