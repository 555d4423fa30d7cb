//! The flow space as it is defined: a list, looked through from end to end.
//!
//! Room: the judge of [`FlowSpace`](super::FlowSpace) in tests; slow and obvious, kept for ever.

use super::{Entry, Right, SliceId};
use crate::slicer::cube;
use weir_openflow::model::Match;

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Linear(pub Vec<Entry>);

impl Linear {
    /// Whether [`FlowSpace::insert`](super::FlowSpace::insert) must refuse it for what is there.
    pub fn clashes(&self, new: &Entry) -> bool {
        self.0.iter().any(|e| {
            e.priority == new.priority
                && cube::overlaps(&e.matcher, &new.matcher)
                && !super::same_grants(e, new)
        })
    }
    /// The entry that decides about a single header.
    pub fn decides(&self, header: &Match) -> Option<&Entry> {
        let fit = self.0.iter().filter(|e| cube::is_within(header, &e.matcher));
        // The first of the highest.
        fit.rev().max_by_key(|e| e.priority)
    }
    /// Whether a slice has a right to a single header.
    pub fn grants(&self, slice: SliceId, right: Right, header: &Match) -> bool {
        self.decides(header).is_some_and(|e| e.grants(slice, right))
    }
}
