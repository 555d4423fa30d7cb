//! What a draft becomes, and how it catches up with its table.
//!
//! Called by whoever made the draft, and by `fast`, which hands over what has changed meanwhile ([`Drafted::note`]). A rule is known by
//! its rank, so that nothing is wrong in doing a change that the copy has already.

use super::{Index, Which};
use crate::key::FlowMask;
use crate::parts::Parts;
use crate::ranked::Ranked;
use crate::rule::{Match, RuleId};
use crate::simd::Vectors;

/// A rule that came or went, and its rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    In(u64, RuleId, Match),
    Out(u64, Match),
}

/// What a [`Draft`](crate::Draft) becomes; an index, where one can be made.
#[derive(Debug)]
pub struct Drafted {
    pub(crate) token: u64,
    /// Bits that its rules look at.
    pub(crate) union: FlowMask,
    pub(super) vectors: Vectors,
    pub(crate) index: Option<Box<Index>>,
    /// Rules that the index could not take.
    pub(crate) beside: Parts,
    /// What is still to be done.
    pub(super) noted: Vec<Change>,
    /// What its table had before: to be dropped by whoever has the time.
    pub(crate) replaced: Option<Replaced>,
}

/// What a table had before it took an index.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) _parts: Parts,
    pub(crate) _index: Option<Box<Index>>,
    pub(crate) _ranked: Option<Box<Ranked>>,
}

impl Drafted {
    /// Hands over what has changed since the last time, in that order.
    pub(crate) fn note(&mut self, changes: Vec<Change>) {
        if self.noted.is_empty() {
            // Without a copy: this is the worker's time.
            self.noted = changes;
        } else {
            self.noted.extend(changes);
        }
    }

    /// Does what has changed: for who has the time, when [`FastTable::adopt`](crate::FastTable::adopt) says that it is behind.
    pub fn catch_up(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        let Some(index) = &mut self.index else { return };
        let v = self.vectors;
        for change in noted {
            match &change {
                // It was copied later than it came.
                Change::In(rank, _, m) if index.find(v, m, Which::Rank(*rank)).is_some() => {}
                Change::In(rank, id, m) => {
                    self.union = self.union.union(m.mask());
                    if !index.insert(v, *rank, *id, m) {
                        self.beside.insert(m, *rank, *id);
                    }
                }
                Change::Out(rank, m) => {
                    if index.remove(v, m, Which::Rank(*rank)).is_none() {
                        self.beside.remove(m, (rank >> 32) as u32);
                    }
                }
            }
        }
    }
}
