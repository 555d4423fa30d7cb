//! When a table has an index, and how it stays true.
//!
//! Called by `fast`, and by whoever has the time to make one: [`FastTable::wants_index`], [`FastTable::begin_draft`] and
//! [`FastTable::draft_more`] between bursts, [`Draft::make`] on another thread, [`FastTable::adopt`]. A change ends a copy; what
//! changes while the index is made is noted, and done to it before it is asked.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Drafts so far, of all tables.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Changes that are noted while an index is made; with more it is given up.
const NOTED: usize = 1024;
/// Leaves that these may write to in all.
const WRITES: usize = 4096;
/// Bytes that an index may have for each rule, and beside that.
const BYTES: usize = 512;
const SMALL: usize = 64 << 10;

/// What is known of making an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexing {
    /// Of the last draft; 0 where that holds no more.
    token: u64,
    /// Changes since it was whole.
    noted: Option<Vec<Change>>,
    /// Rules of which none could be made.
    refused: usize,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// There is more.
    More,
    /// [`Draft::make`] may be called.
    Whole,
    /// The table has changed meanwhile: it is of no use.
    Broken,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    In(u64, RuleId, Match),
    Out(u64, Match),
}

impl Indexing {
    pub(super) fn heap_bytes(&self) -> usize {
        self.noted.as_ref().map_or(0, |n| n.capacity() * size_of::<Change>())
    }
    /// Whether one of so many rules would be refused again.
    fn is_hopeless(&self, len: usize) -> bool {
        (self.refused * 3 / 4..=self.refused * 4 / 3).contains(&len) && self.refused > 0
    }
}

impl FastTable {
    /// Whether lookups would be faster with an index, which there is not, and none is being made.
    pub fn wants_index(&self) -> bool {
        let is_free = |i: &Indexing| i.token == 0 && !i.is_hopeless(self.len);
        self.len >= MANY
            && self.index.is_none()
            && self.indexing.as_deref().is_none_or(is_free)
            && (self.tuples.len() >= SIFTED || self.rest.len() >= LONG || self.is_crowded())
    }

    /// Begins a copy of all rules, to make an index of; none where that can't be done. An earlier one is of no use any more.
    pub fn begin_draft(&mut self) -> Option<Draft> {
        let indexing = self.indexing.get_or_insert_default();
        **indexing = Indexing { token: DRAFTS.fetch_add(1, Relaxed) + 1, ..Indexing::default() };
        let draft = Draft::new(indexing.token, self.vectors, self.words, self.len);
        if draft.is_none() {
            (indexing.token, indexing.refused) = (0, self.len);
        }
        draft
    }

    /// Copies some more: what stands in so many slots, or as many rules of the rest.
    pub fn draft_more(&mut self, draft: &mut Draft, slots: usize) -> Copying {
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == draft.token) else {
            return Copying::Broken;
        };
        // The tuples, and behind them the rest.
        let (part, from) = draft.at;
        let len = match self.tuples.get(part) {
            Some(t) => t.slots(),
            None if part == self.tuples.len() => self.rest.len(),
            None => {
                indexing.noted = Some(Vec::new());
                return Copying::Whole;
            }
        };
        let to = len.min(from.saturating_add(slots));
        draft.at = if to == len { (part + 1, 0) } else { (part, to) };
        match self.tuples.get(part) {
            Some(t) => t.for_some(from..to, &mut |rank, r| draft.add(rank, r.id, &r.matcher)),
            None => {
                for (rank, id, value, mask) in (from..to).filter_map(|i| self.rest.get(i)) {
                    draft.add(rank, id, &Match::new(value, mask));
                }
            }
        }
        Copying::More
    }

    /// No index will come of the last draft.
    pub fn give_up_draft(&mut self) {
        let len = self.len;
        self.indexing.iter_mut().for_each(|i| (i.token, i.noted, i.refused) = (0, None, len));
    }

    /// Takes an index that was made of this table's last draft, if it still can be made true and is worth its memory. Says whether lookups ask it now.
    pub fn adopt(&mut self, drafted: Drafted) -> bool {
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == drafted.token) else {
            return false;
        };
        indexing.token = 0;
        let Some(noted) = indexing.noted.take() else { return false };
        let Some(mut index) = drafted.index.filter(|i| i.heap_bytes() <= BYTES * self.len + SMALL)
        else {
            indexing.refused = self.len;
            return false;
        };
        // All of it here and now: a few rules that belong everywhere may be more than a pause is worth.
        let mut writes = 0;
        let whole = noted.iter().all(|change| {
            let (Change::In(_, _, m) | Change::Out(_, m)) = change;
            writes += index.spread(m);
            writes <= WRITES
                && match change {
                    Change::In(rank, id, m) => index.insert(*rank, *id, m),
                    Change::Out(rank, m) => index.remove(*rank, m),
                }
        });
        if whole {
            self.index = Some(index);
            self.ranked = None;
            self.settle(None);
        }
        whole
    }

    /// All of it here and now, where a pause does not matter.
    pub fn index_now(&mut self) -> bool {
        let Some(mut draft) = self.wants_index().then(|| self.begin_draft()).flatten() else {
            return false;
        };
        while self.draft_more(&mut draft, usize::MAX) == Copying::More {}
        self.adopt(draft.make())
    }

    /// Lookups ask what there was before it.
    fn lose_index(&mut self) {
        self.index = None;
        if self.is_diverse() {
            self.rank();
        } else if self.sieve.is_none() {
            self.order();
        }
    }

    /// There is none, and none is being made.
    pub(super) fn unindex(&mut self) {
        if self.index.is_some() {
            self.lose_index();
        }
        self.indexing.iter_mut().for_each(|i| (i.noted, i.token) = (None, 0));
    }

    pub(super) fn index_in(&mut self, rank: u64, m: &Match, id: RuleId) {
        if self.index.as_mut().is_some_and(|i| !i.insert(rank, id, m)) {
            self.lose_index();
        }
        self.note_change(|| Change::In(rank, id, *m));
    }
    pub(super) fn index_out(&mut self, rank: u64, m: &Match) {
        if self.index.as_mut().is_some_and(|i| !i.remove(rank, m)) {
            self.lose_index();
        }
        self.note_change(|| Change::Out(rank, *m));
    }
    fn note_change(&mut self, change: impl FnOnce() -> Change) {
        let Some(indexing) = &mut self.indexing else { return };
        match &mut indexing.noted {
            Some(noted) if noted.len() < NOTED => noted.push(change()),
            // A copy under way, or too many.
            noted => (*noted, indexing.token) = (None, 0),
        }
    }
    /// How many leaves its index has: the shape, for reports.
    pub fn leaves(&self) -> usize {
        self.index.as_ref().map_or(0, |i| i.leaves())
    }
}
