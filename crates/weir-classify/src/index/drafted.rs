//! What a draft becomes, and how it catches up with its table.
//!
//! Called by whoever made the draft, and by `fast`, which hands over what has changed meanwhile ([`Drafted::note`]). A rule is known by
//! its rank, so that nothing is wrong in doing a change that the copy has already.

use super::{Index, Wanted, Which};
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

/// What was made of a draft.
#[derive(Debug)]
pub(crate) enum Made {
    /// There can be no index.
    Nothing,
    Index(Box<Index>),
    /// All rules are beside it: they are better off in parts.
    Parts,
}

impl Made {
    pub(super) fn of(index: Option<Index>) -> Self {
        index.map_or(Self::Nothing, |i| Self::Index(Box::new(i)))
    }
    /// Whether so many rules may have the memory that it takes.
    pub(crate) fn is_worth(&self, rules: usize) -> bool {
        match self {
            Self::Index(index) => index.is_worth(rules),
            Self::Parts => true,
            Self::Nothing => false,
        }
    }
    /// What a change of a rule writes to, about: the leaves in which it stands; in parts one place.
    pub(crate) fn writes(&self, m: &Match) -> usize {
        match self {
            Self::Index(index) => index.writes(m),
            Self::Nothing | Self::Parts => 1,
        }
    }
    /// Its index.
    pub(crate) fn into_index(self) -> Option<Box<Index>> {
        match self {
            Self::Index(index) => Some(index),
            Self::Nothing | Self::Parts => None,
        }
    }
    /// Rules that stand in its index.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Index(index) => index.len(),
            Self::Nothing | Self::Parts => 0,
        }
    }
}

/// What a [`Draft`](crate::Draft) becomes; an index, where one can be made.
#[derive(Debug)]
pub struct Drafted {
    pub(crate) token: u64,
    /// Bits that its rules look at.
    pub(crate) union: FlowMask,
    pub(super) vectors: Vectors,
    pub(crate) made: Made,
    /// Which kind of index there is none of, where none was made; none where none was tried.
    pub(crate) tried: Option<Wanted>,
    /// Rules that the index could not take, or all.
    pub(crate) beside: Parts,
    /// What is still to be done.
    pub(super) noted: Vec<Change>,
    /// What its table had before: to be dropped by whoever has the time.
    pub(crate) replaced: Option<Replaced>,
}

/// What a table had before it took what was made.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) _parts: Parts,
    pub(crate) _index: Option<Box<Index>>,
    pub(crate) _ranked: Option<Box<Ranked>>,
}

impl Change {
    /// Does it to these parts.
    fn on(&self, parts: &mut Parts) {
        match self {
            // It was copied later than it came.
            Self::In(rank, _, m) if parts.find(m, (rank >> 32) as u32).is_some() => {}
            Self::In(rank, id, m) => parts.insert(m, *rank, *id),
            Self::Out(rank, m) => _ = parts.remove(m, (rank >> 32) as u32),
        }
    }
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
        for change in &noted {
            match &mut self.made {
                Made::Nothing => return,
                Made::Index(index) => {
                    let v = self.vectors;
                    match change {
                        // It was copied later than it came.
                        Change::In(rank, _, m)
                            if index.find(v, m, Which::Rank(*rank)).is_some() => {}
                        Change::In(rank, id, m) if index.insert(v, *rank, *id, m) => {}
                        Change::Out(rank, m)
                            if index.remove(v, m, Which::Rank(*rank)).is_some() => {}
                        other => other.on(&mut self.beside),
                    }
                }
                Made::Parts => change.on(&mut self.beside),
            }
            if let Change::In(_, _, m) = change {
                self.union = self.union.union(m.mask());
            }
        }
    }
}
