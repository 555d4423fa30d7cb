//! When a table has an index, and how it comes by it.
//!
//! Called by `fast`, and by whoever has the time to make one: [`FastTable::wants_index`], [`FastTable::begin_draft`] and
//! [`FastTable::draft_more`] between bursts, [`Draft::make`] on another thread, [`FastTable::adopt`]. A change ends a copy of
//! parts, whose rules move about; of an index's leaves each is copied in one go, so that it goes on. What changes meanwhile, and
//! while the index is made, is noted and done to it before it is asked.

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

/// Rules beside an index that are a reason to make another, and one in so many of all.
const BESIDE: usize = 32;
const MANY_BESIDE: usize = 256;

/// What a table had before it took an index.
#[derive(Debug)]
pub(crate) struct Replaced {
    _parts: Parts,
    _index: Option<Box<Index>>,
    _ranked: Option<Box<Ranked>>,
}

/// What is known of making an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexing {
    /// Of the last draft; 0 where that holds no more.
    token: u64,
    /// Whether all has been copied.
    whole: bool,
    /// Changes since it was whole; of an index, since it was begun.
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
pub(super) enum Change {
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
    /// Whether lookups would be faster with an index, or with another one, and none is being made.
    pub fn wants_index(&self) -> bool {
        let is_free = |i: &Indexing| i.token == 0 && !i.is_hopeless(self.len);
        let Parts { tuples, rest, .. } = &self.parts;
        self.len >= MANY
            && self.indexing.as_deref().is_none_or(is_free)
            && match &self.index {
                Some(i) => i.is_sparse() || self.parts.len() > BESIDE + self.len / MANY_BESIDE,
                None => tuples.len() >= SIFTED || rest.len() >= LONG || self.parts.is_crowded(),
            }
    }

    /// Begins a copy of all rules, to make an index of; none where that can't be done. An earlier one is of no use any more.
    pub fn begin_draft(&mut self) -> Option<Draft> {
        let indexing = self.indexing.get_or_insert_default();
        **indexing = Indexing { token: DRAFTS.fetch_add(1, Relaxed) + 1, ..Indexing::default() };
        let draft = Draft::new(indexing.token, self.vectors, self.words, self.len);
        if draft.is_none() {
            (indexing.token, indexing.refused) = (0, self.len);
        } else if self.index.is_some() {
            indexing.noted = Some(Vec::new());
        }
        draft
    }

    /// Copies some more: what stands in so many slots, or as many rules of the rest; a leaf of an index, or all beside one.
    pub fn draft_more(&mut self, draft: &mut Draft, slots: usize) -> Copying {
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == draft.token) else {
            return Copying::Broken;
        };
        let (part, from) = draft.at;
        if let Some(index) = &self.index {
            if indexing.noted.is_none() {
                return Copying::Broken;
            }
            let mut add = |rank, r: &Rule| draft.add(rank, r.id, &r.matcher);
            match part.cmp(&index.leaves()) {
                std::cmp::Ordering::Less => index.each_of(part, &mut add),
                std::cmp::Ordering::Equal => self.parts.for_each(&mut add),
                std::cmp::Ordering::Greater => {
                    indexing.whole = true;
                    return Copying::Whole;
                }
            }
            draft.at = (part + 1, 0);
            return Copying::More;
        }
        // The tuples, and behind them the rest.
        let Parts { tuples, rest, .. } = &self.parts;
        let len = match tuples.get(part) {
            Some(t) => t.slots(),
            None if part == tuples.len() => rest.len(),
            None => {
                (indexing.whole, indexing.noted) = (true, Some(Vec::new()));
                return Copying::Whole;
            }
        };
        let to = len.min(from.saturating_add(slots));
        draft.at = if to == len { (part + 1, 0) } else { (part, to) };
        match tuples.get(part) {
            Some(t) => t.for_some(from..to, &mut |rank, r| draft.add(rank, r.id, &r.matcher)),
            None => {
                for (rank, id, value, mask) in (from..to).filter_map(|i| rest.get(i)) {
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

    /// Takes an index that was made of this table's last draft, if it still can be made true and is worth its memory. Says whether
    /// it did; then `drafted` has what it replaces, and should be dropped where that takes nobody's time.
    pub fn adopt(&mut self, drafted: &mut Drafted) -> bool {
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == drafted.token) else {
            return false;
        };
        indexing.token = 0;
        let Some(noted) = indexing.noted.take().filter(|_| indexing.whole) else { return false };
        let Some(index) = &mut drafted.index else {
            indexing.refused = self.len;
            return false;
        };
        if index.heap_bytes() > BYTES * self.len + SMALL {
            indexing.refused = self.len;
            return false;
        }
        // All of it here and now: a few rules that belong everywhere may be more than a pause is worth.
        let (mut writes, mut parts, mut union) = (0, Parts::default(), drafted.union);
        for change in noted {
            let (Change::In(rank, _, m) | Change::Out(rank, m)) = &change;
            writes += index.spread(m);
            // What was copied later than it changed is as it should be.
            match &change {
                Change::In(..) if index.find(self.vectors, m, Which::Rank(*rank)).is_some() => {}
                Change::In(rank, id, m) => {
                    union = union.union(m.mask());
                    if writes > WRITES || !index.insert(self.vectors, *rank, *id, m) {
                        parts.insert(m, *rank, *id);
                    }
                }
                Change::Out(..) if writes > 2 * WRITES => return false,
                Change::Out(rank, m) => {
                    if index.remove(self.vectors, m, Which::Rank(*rank)).is_none() {
                        parts.remove(m, (rank >> 32) as u32);
                    }
                }
            }
        }
        debug_assert_eq!(index.len() + parts.len(), self.len);
        drafted.replaced = Some(Replaced {
            _parts: std::mem::replace(&mut self.parts, parts),
            _index: std::mem::replace(&mut self.index, drafted.index.take()),
            _ranked: self.ranked.take(),
        });
        self.set_union(union);
        self.settle(None);
        true
    }

    /// All of it here and now, where a pause does not matter.
    pub fn index_now(&mut self) -> bool {
        let Some(mut draft) = self.wants_index().then(|| self.begin_draft()).flatten() else {
            return false;
        };
        while self.draft_more(&mut draft, usize::MAX) == Copying::More {}
        self.adopt(&mut draft.make())
    }

    /// Its few rules go to the parts.
    pub(super) fn dissolve_index(&mut self) {
        let Some(index) = self.index.take() else { return };
        for leaf in 0..index.leaves() {
            index.each_of(leaf, &mut |rank, r| self.parts.insert(&r.matcher, rank, r.id));
        }
        self.forget_draft();
        self.narrow();
        self.rank();
        self.settle(None);
    }
    /// None is being made.
    pub(super) fn forget_draft(&mut self) {
        self.indexing.iter_mut().for_each(|i| (i.noted, i.token) = (None, 0));
    }
    #[inline]
    pub(super) fn note_change(&mut self, change: impl FnOnce() -> Change) {
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
