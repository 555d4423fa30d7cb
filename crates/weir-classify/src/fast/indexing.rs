//! When a table has an index, and how it comes by it.
//!
//! Called by `fast`, and by whoever has the time to make one: [`FastTable::wants_index`], [`FastTable::begin_draft`] and
//! [`FastTable::draft_more`] between bursts, [`Draft::make`] on another thread, [`FastTable::adopt`]. What changes from the
//! beginning on is noted, and done to the index before it is asked: by that thread, as often as there is much of it, and the last of
//! it here.

use super::*;
use crate::index::Replaced;
use crate::parts::Copied;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Drafts so far, of all tables.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Changes that are noted while an index is made, and one for so many rules; with more it is given up.
const NOTED: usize = 4096;
const NOTED_OF: usize = 2;
/// Changes that are done to it between two bursts.
const FEW_NOTED: usize = 64;
/// Leaves that these may write to in all.
const FEW_WRITES: usize = 1024;
/// Times that it may be behind with more.
const BEHIND: u32 = 16;

/// Rules beside an index that are a reason to make another, and one in so many of all.
const BESIDE: usize = 32;
const MANY_BESIDE: usize = 256;

/// Rules aside of a tuple that are no reason for one.
const FEW_ASIDE: usize = 8;

/// What is known of making an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexing {
    /// Of the last draft; 0 where that holds no more.
    token: u64,
    /// Whether all has been copied.
    whole: bool,
    /// Changes since it was begun, and not handed over yet.
    noted: Option<Vec<Change>>,
    /// Times that they were.
    behind: u32,
    /// Rules of which none could be made, or parts were in its place; and what was tried.
    refused: Option<(usize, Wanted)>,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// There is more.
    More,
    /// [`Draft::make`] may be called.
    Whole,
    /// The table has changed too much meanwhile: it is of no use.
    Broken,
}

/// What becomes of an index that was made of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Adoption {
    /// Lookups ask it; or parts of all rules, where these are better than the index that the table had.
    Taken,
    /// [`Drafted::catch_up`] has much to do, and should be called elsewhere; then it is to be offered again.
    Behind,
    /// It is of no use.
    Refused,
}

impl Indexing {
    pub(super) fn heap_bytes(&self) -> usize {
        self.noted.as_ref().map_or(0, |n| n.capacity() * size_of::<Change>())
    }
    /// None of this kind could be made of so many.
    fn refuse(&mut self, len: usize, tried: Wanted) {
        (self.token, self.noted, self.refused) = (0, None, Some((len, tried)));
    }
    /// Whether one of so many rules would be refused again.
    fn is_hopeless(&self, len: usize, wanted: Wanted) -> bool {
        // Where keys may have several leaves there may be one all the same; of so few rules they may not.
        let is_more = |before| (wanted, before) == (Wanted::Index, Wanted::OneLeaf) && len > MOST;
        let again = |(refused, before): (usize, Wanted)| {
            (refused * 3 / 4..=refused * 4 / 3).contains(&len) && !is_more(before)
        };
        self.refused.is_some_and(again)
    }
}

impl FastTable {
    /// Whether lookups would be faster with an index, or with another one, and none is being made.
    pub fn wants_index(&self) -> bool {
        let is_free = |w: Wanted| match self.indexing.as_deref() {
            Some(i) => i.token == 0 && !i.is_hopeless(self.held(), w),
            None => true,
        };
        self.held() >= SOME && self.wanted().is_some_and(is_free)
    }
    fn wanted(&self) -> Option<Wanted> {
        let held = self.held();
        let are_due = match &self.index {
            Some(i) => {
                let is_due = i.is_sparse() || self.parts.len() > BESIDE + held / MANY_BESIDE;
                return is_due.then_some(Wanted::Either);
            }
            // Of one tuple and a few rules aside most keys ask the tuple alone.
            None if self.is_near() || self.has_few_aside() => self.parts.are_slow(),
            None if held <= MOST => self.parts.are_some(),
            None => self.parts.are_slow(),
        };
        match self.parts.are_many() {
            _ if held > Index::MOST => None,
            true => Some(Wanted::Index),
            false => are_due.then_some(Wanted::OneLeaf),
        }
    }

    /// Whether a lookup asks one tuple, and a few rules at most.
    fn has_few_aside(&self) -> bool {
        self.packed.way == Way::Aside && self.parts.rest.len() <= FEW_ASIDE
    }

    /// Begins a copy of all rules, to make an index of; none where that can't be done. An earlier one is of no use any more.
    pub fn begin_draft(&mut self) -> Option<Draft> {
        let (len, wanted) = (self.held(), self.wanted().unwrap_or_default());
        let indexing = self.indexing.get_or_insert_default();
        let (token, noted) = (DRAFTS.fetch_add(1, Relaxed) + 1, Some(Vec::new()));
        **indexing = Indexing { token, noted, ..Indexing::default() };
        let draft = Draft::new(token, self.vectors, self.words, len, wanted);
        if draft.is_none() {
            indexing.refuse(len, Wanted::Index);
        }
        draft
    }

    /// Copies some more: a leaf of an index; what stands in so many slots of tuples, or as many rules of the rest.
    pub fn draft_more(&mut self, draft: &mut Draft, slots: usize) -> Copying {
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == draft.token) else {
            return Copying::Broken;
        };
        if indexing.whole {
            return Copying::Whole;
        }
        if let Some(index) = self.index.as_ref().filter(|i| draft.leaf < i.leaves()) {
            let leaf = draft.leaf;
            index.each_of(leaf, &mut |rank, r| draft.add(rank, r.id, &r.matcher));
            draft.leaf += 1;
            return Copying::More;
        }
        let mut copy = std::mem::take(&mut draft.parts);
        let mut add = |rank, r: &Rule| draft.add(rank, r.id, &r.matcher);
        let gathers = self.parts.are_gathering();
        let copied = self.parts.copy_some(&mut copy, slots, &mut add);
        draft.parts = copy;
        if gathers {
            self.settle(None);
            return Copying::More;
        }
        match copied {
            Copied::Some => Copying::More,
            Copied::All => {
                indexing.whole = true;
                Copying::Whole
            }
            Copied::Never => {
                self.forget_draft();
                Copying::Broken
            }
        }
    }

    /// No index will come of the last draft.
    pub fn give_up_draft(&mut self) {
        self.refuse_draft(Wanted::Index);
    }
    fn refuse_draft(&mut self, tried: Wanted) {
        let len = self.held();
        self.indexing.iter_mut().for_each(|i| i.refuse(len, tried));
    }

    /// Takes what was made of this table's last draft, if it can be made true and is worth its memory. What it replaces
    /// is in `drafted` then, and should be dropped where that takes nobody's time.
    pub fn adopt(&mut self, drafted: &mut Drafted) -> Adoption {
        let len = self.held();
        let Some(indexing) = self.indexing.as_mut().filter(|i| i.token == drafted.token) else {
            return Adoption::Refused;
        };
        let noted = indexing.noted.take().filter(|_| indexing.whole);
        let Some(noted) = noted.filter(|_| drafted.made.is_worth(len)) else {
            self.refuse_draft(drafted.tried.unwrap_or(Wanted::Index));
            return Adoption::Refused;
        };
        // Few, but for those that belong to many leaves.
        let mut writes = 0;
        let few = noted.len() <= FEW_NOTED
            && noted.iter().all(|change| {
                let (Change::In(_, _, m) | Change::Out(_, m)) = change;
                writes += drafted.made.writes(m);
                writes <= FEW_WRITES
            });
        drafted.note(noted);
        if !few {
            indexing.behind += 1;
            if indexing.behind > BEHIND {
                indexing.token = 0;
                return Adoption::Refused;
            }
            indexing.noted = Some(Vec::new());
            return Adoption::Behind;
        }
        indexing.token = 0;
        if matches!(drafted.made, Made::Parts) {
            indexing.refused = drafted.tried.map(|tried| (len, tried));
        }
        drafted.catch_up();
        let beside = std::mem::take(&mut drafted.beside).like(&self.parts);
        let made = std::mem::replace(&mut drafted.made, Made::Nothing);
        debug_assert_eq!(made.len() + beside.len(), self.held());
        drafted.replaced = Some(Replaced {
            _parts: std::mem::replace(&mut self.parts, beside),
            _index: std::mem::replace(&mut self.index, made.into_index()),
            _ranked: self.ranked.take(),
        });
        self.set_union(drafted.union);
        if self.index.is_none() {
            self.rank();
        }
        self.settle(None);
        Adoption::Taken
    }

    /// All of it here and now, where a pause does not matter. Whether something came of it, of which [`FastTable::is_indexed`] says what.
    pub fn index_now(&mut self) -> bool {
        let Some(mut draft) = self.wants_index().then(|| self.begin_draft()).flatten() else {
            return false;
        };
        while self.draft_more(&mut draft, usize::MAX) == Copying::More {}
        self.adopt(&mut draft.make()) == Adoption::Taken
    }

    /// Where few rules are left, and no other index would be made of them, they go to the parts.
    #[inline]
    pub(super) fn dissolve_small(&mut self) {
        let few = |i: &Index| i.leaves() > 1 && i.is_sparse() || self.held() <= SOME / 2;
        if self.held() < SOME && self.index.as_deref().is_some_and(few) {
            self.dissolve_index();
        }
    }
    #[cold]
    fn dissolve_index(&mut self) {
        let Some(index) = self.index.take() else { return };
        for leaf in 0..index.leaves() {
            index.each_of(leaf, &mut |rank, r| self.parts.insert(&r.matcher, rank, r.id));
        }
        self.forget_draft();
        self.narrow();
        self.rank();
        self.settle(None);
    }
    /// None will come of the last draft; another may be begun.
    pub fn forget_draft(&mut self) {
        self.indexing.iter_mut().for_each(|i| (i.noted, i.token) = (None, 0));
    }
    #[inline]
    pub(super) fn note_change(&mut self, change: impl FnOnce() -> Change) {
        let len = self.held();
        let Some(indexing) = &mut self.indexing else { return };
        match &mut indexing.noted {
            Some(noted) if noted.len() < NOTED + len / NOTED_OF => noted.push(change()),
            None => {}
            noted => (*noted, indexing.token) = (None, 0),
        }
    }
    #[cfg(test)]
    pub(super) fn has_narrow_index(&self) -> bool {
        self.index.as_ref().is_some_and(|i| i.is_narrow())
    }
    /// How many leaves its index has: the shape, for reports.
    pub fn leaves(&self) -> usize {
        self.index.as_ref().map_or(0, |i| i.leaves())
    }
}
