//! The flow space: which headers are whose, and what each slice may do with them.
//!
//! Room: entries and questions about them; knows neither switches nor messages. Used by a sliced switch for
//! every change of flows and every packet. `linear` is the judge: the definition, looked up entry by entry.
//!
//! At each header the entry of the highest priority decides. Two entries of equal priority may overlap only
//! where both grant the same. One slice alone may write at a header; any number may read. So rules that slices
//! install never overlap, and none of them can outrank another's.

mod index;
pub mod linear;

use super::cube::{self, TooFine};
use index::Index;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use weir_openflow::model::Match;

/// A slice, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceId(pub u16);

/// An entry, by a number that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u64);

/// What a slice may do with headers; each right includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Be told of their packets.
    Read,
    /// Install rules for them, and send them.
    Write,
    /// Give them, or a part of them, to another slice.
    Delegate,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Larger decides.
    pub priority: u32,
    /// Which headers.
    pub matcher: Match,
    /// Who may do what.
    pub grants: Vec<(SliceId, Right)>,
}

impl Entry {
    /// Whether it grants this much.
    pub fn grants(&self, slice: SliceId, right: Right) -> bool {
        self.grants.iter().any(|(s, r)| *s == slice && *r >= right)
    }
    fn writer(&self) -> Option<SliceId> {
        self.grants.iter().find(|(_, r)| *r >= Right::Write).map(|(s, _)| *s)
    }
}

/// Why an entry was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// Another entry of the same priority grants something else for some of the same headers.
    #[error("it overlaps another entry of priority {priority}: give one of them a higher priority")]
    Clash {
        /// The other.
        other: EntryId,
        /// Of both.
        priority: u32,
    },
    /// More than one slice would write.
    #[error("slices {0:?} and {1:?} would both write: one alone may, others may read")]
    TwoWriters(SliceId, SliceId),
    /// The same slice stands in it twice.
    #[error("slice {0:?} is named twice")]
    Twice(SliceId),
    /// What is to be delegated is not, or not all, the giver's to delegate.
    #[error("it is not within what the giver may delegate")]
    NotDelegable,
    /// Whether it is can't be told in so few steps.
    #[error("it is too fine to be judged: {0}")]
    TooFine(#[from] TooFine),
    /// There is no number left.
    #[error("there are too many entries")]
    Full,
}

#[derive(Debug)]
struct Kept {
    id: EntryId,
    entry: Entry,
}

/// The flow space of one switch.
#[derive(Debug, Default)]
pub struct FlowSpace {
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    by_id: HashMap<EntryId, u32>,
    all: Index,
    of_slice: BTreeMap<SliceId, Index>,
    /// Slices that may write, of which the entries may be away with their ports.
    writers: BTreeSet<SliceId>,
    next: u64,
}

/// How many entries are looked at for one question, at most: for each piece of an answer.
const LOOKS: usize = 64;

impl FlowSpace {
    /// An empty one: every header is nobody's.
    pub fn new() -> Self {
        Self::default()
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
    /// An entry.
    pub fn get(&self, id: EntryId) -> Option<&Entry> {
        let slot = *self.by_id.get(&id)?;
        self.kept.get(slot as usize)?.as_ref().map(|k| &k.entry)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`SpaceError`]; nothing has changed.
    pub fn insert(&mut self, entry: Entry) -> Result<EntryId, SpaceError> {
        one_writer(&entry)?;
        let clash = self.first(&entry.matcher, |k| {
            k.entry.priority == entry.priority && !same_grants(&k.entry, &entry)
        });
        if let Some(other) = clash {
            return Err(SpaceError::Clash { other, priority: entry.priority });
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.kept.len()).map_err(|_| SpaceError::Full)?;
                self.kept.push(None);
                slot
            }
        };
        let id = EntryId(self.next);
        self.next += 1;
        self.all.insert(slot, &entry.matcher);
        for (slice, _) in &entry.grants {
            self.of_slice.entry(*slice).or_default().insert(slot, &entry.matcher);
        }
        self.by_id.insert(id, slot);
        if let Some(k) = self.kept.get_mut(slot as usize) {
            *k = Some(Kept { id, entry });
        }
        Ok(id)
    }

    /// Adds an entry on behalf of a slice, which must have the right to delegate all of it.
    ///
    /// # Errors
    /// [`SpaceError`]; nothing has changed.
    pub fn delegate(&mut self, giver: SliceId, entry: Entry) -> Result<EntryId, SpaceError> {
        if !self.covers(giver, Right::Delegate, &entry.matcher, LOOKS)? {
            return Err(SpaceError::NotDelegable);
        }
        self.insert(entry)
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: EntryId) -> Option<Entry> {
        let slot = self.by_id.remove(&id)?;
        let k = self.kept.get_mut(slot as usize)?.take()?;
        self.all.remove(slot, &k.entry.matcher);
        for (slice, _) in &k.entry.grants {
            if let Some(index) = self.of_slice.get_mut(slice) {
                index.remove(slot, &k.entry.matcher);
            }
        }
        self.free.push(slot);
        Some(k.entry)
    }

    /// Some entry that overlaps `m` and is wanted.
    fn first(&mut self, m: &Match, wanted: impl Fn(&Kept) -> bool) -> Option<EntryId> {
        let mut found = None;
        let Self { kept, all, .. } = self;
        let get = |slot: u32| kept.get(slot as usize).and_then(Option::as_ref);
        let _ = all.candidates(
            m,
            |s| get(s).map(|k| &k.entry.matcher),
            |slot| match get(slot) {
                Some(k) if cube::overlaps(&k.entry.matcher, m) && wanted(k) => {
                    found = Some(k.id);
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            },
        );
        found
    }

    /// The entry that decides about a single header.
    pub fn decides(&mut self, header: &Match) -> Option<&Entry> {
        let Self { kept, all, .. } = self;
        let get = |slot: u32| kept.get(slot as usize).and_then(Option::as_ref);
        let mut best: Option<&Kept> = None;
        let _ = all.candidates(
            header,
            |s| get(s).map(|k| &k.entry.matcher),
            |slot| {
                if let Some(k) = get(slot)
                    && cube::is_within(header, &k.entry.matcher)
                    && best.is_none_or(|b| (k.entry.priority, b.id) > (b.entry.priority, k.id))
                {
                    best = Some(k);
                }
                ControlFlow::Continue(())
            },
        );
        best.map(|k| &k.entry)
    }

    /// What of `m` a slice has this right to, as cubes; they may overlap where entries of the slice's
    /// own do.
    ///
    /// # Errors
    /// [`TooFine`] where it takes more than `limit` cubes.
    pub fn pieces(
        &mut self,
        slice: SliceId,
        right: Right,
        m: &Match,
        limit: usize,
    ) -> Result<Vec<Match>, TooFine> {
        let Self { kept, all, of_slice, .. } = self;
        let get = |slot: u32| kept.get(slot as usize).and_then(Option::as_ref);
        let matcher = |slot: u32| get(slot).map(|k| &k.entry.matcher);
        let mut own: Vec<&Entry> = Vec::new();
        let Some(index) = of_slice.get_mut(&slice) else { return Ok(Vec::new()) };
        let done = index.candidates(m, matcher, |slot| {
            if let Some(k) = get(slot)
                && k.entry.grants(slice, right)
                && cube::overlaps(&k.entry.matcher, m)
            {
                own.push(&k.entry);
            }
            if own.len() > limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if done.is_break() {
            return Err(TooFine(limit));
        }
        let mut out: Vec<Match> = Vec::new();
        for entry in own {
            let Some(piece) = cube::meet(&entry.matcher, m) else { continue };
            let mut holes: Vec<&Match> = Vec::new();
            let done = all.candidates(&piece, matcher, |slot| {
                if let Some(k) = get(slot)
                    && k.entry.priority > entry.priority
                    && !k.entry.grants(slice, right)
                    && cube::overlaps(&k.entry.matcher, &piece)
                {
                    holes.push(&k.entry.matcher);
                }
                let enough = holes.len() > limit.saturating_mul(LOOKS);
                if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if done.is_break() {
                return Err(TooFine(limit));
            }
            for new in cube::remainder(vec![piece], holes, limit)? {
                if out.iter().any(|o| cube::is_within(&new, o)) {
                    continue;
                }
                out.retain(|o| !cube::is_within(o, &new));
                out.push(new);
                if out.len() > limit {
                    return Err(TooFine(limit));
                }
            }
        }
        Ok(out)
    }

    /// Whether a slice is one that writes. Who only reads has no flows, and no groups and meters for them.
    pub fn writes(&self, slice: SliceId) -> bool {
        self.writers.contains(&slice)
    }

    /// Has a slice be one that writes, also while the ports at which it may are away.
    pub fn note_writer(&mut self, slice: SliceId) {
        self.writers.insert(slice);
    }

    /// Whether a slice has this right to all of `m`.
    ///
    /// # Errors
    /// [`TooFine`] where it takes more than `limit` cubes to tell.
    pub fn covers(
        &mut self,
        slice: SliceId,
        right: Right,
        m: &Match,
        limit: usize,
    ) -> Result<bool, TooFine> {
        let pieces = self.pieces(slice, right, m, limit)?;
        let left = cube::remainder(vec![m.clone()], &pieces, limit.saturating_mul(LOOKS))?;
        Ok(left.is_empty())
    }

    /// Calls `f` with every entry.
    pub fn for_each(&self, mut f: impl FnMut(EntryId, &Entry)) {
        self.kept.iter().flatten().for_each(|k| f(k.id, &k.entry));
    }
}

fn one_writer(entry: &Entry) -> Result<(), SpaceError> {
    for (i, (slice, _)) in entry.grants.iter().enumerate() {
        if entry.grants.iter().take(i).any(|(s, _)| s == slice) {
            return Err(SpaceError::Twice(*slice));
        }
    }
    let first = entry.writer();
    let second = entry.grants.iter().rev().find(|(_, r)| *r >= Right::Write).map(|(s, _)| *s);
    match (first, second) {
        (Some(a), Some(b)) if a != b => Err(SpaceError::TwoWriters(a, b)),
        _ => Ok(()),
    }
}

fn same_grants(a: &Entry, b: &Entry) -> bool {
    a.grants.len() == b.grants.len() && a.grants.iter().all(|g| b.grants.contains(g))
}
