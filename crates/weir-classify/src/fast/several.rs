//! Lookups of a burst whose keys are many tables': in passes over all of a kind, of which each asks for what the next reads.
//!
//! Part of `fast`. What is read of a table that another frame's table follows lies in no near cache, so that a lookup by itself
//! is a row of waits; a burst's lookups wait together.

use super::{FastTable, Probe};
use crate::index::Index;
use crate::key::FlowKey;
use crate::packed::Way;
use crate::parts::{Ahead, LONG};
use crate::rule::RuleId;
use crate::scan::Scan;
use crate::simd::prefetch_slice;
use crate::sorted::{BURST, Sorted, gathered};
use crate::tuple::Slot;

impl FastTable {
    /// The winner for each key in the table at its place, as far as there are tables, keys and places in `found`; where
    /// there is no table, what was found stays as it was.
    pub fn lookup_several(
        tables: &[Option<&Self>],
        keys: &[FlowKey],
        found: &mut [Option<RuleId>],
    ) {
        let chunks = tables.chunks(BURST).zip(keys.chunks(BURST)).zip(found.chunks_mut(BURST));
        chunks.for_each(|((tables, keys), found)| burst(tables, keys, found));
    }

    /// Asks for the table itself, all that lookups read of it.
    #[inline(always)]
    fn prefetch(&self) {
        prefetch_slice(std::slice::from_ref(self), size_of::<Self>());
    }
    /// The index that lookups ask.
    #[inline(always)]
    fn asked_index(&self) -> Option<&Index> {
        match (self.packed.way, &self.ranked) {
            (Way::Ordered | Way::Beside, None) => self.index.as_deref(),
            _ => None,
        }
    }
    /// How a burst of many tables asks it.
    #[inline(always)]
    fn turn(&self) -> Turn {
        // No branches: which table is next can't be foretold.
        let in_order = matches!(self.packed.way, Way::Ordered | Way::Beside);
        let has_index = self.ranked.is_none() & self.index.is_some();
        let has_one = (self.parts.tuples.len() == 1) & (self.parts.rest.len() < LONG);
        let by_parts = [Turn::Tuples, Turn::Tuple][usize::from(has_one)];
        let by_order = [Turn::Ranked, Turn::Index][usize::from(has_index)];
        let not_packed = [by_parts, by_order][usize::from(in_order)];
        [not_packed, Turn::Packed][usize::from(self.packed.way == Way::Packed)]
    }
}

/// How a table is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Index,
    Packed,
    /// One tuple, and a few rules aside perhaps.
    Tuple,
    /// Tuples one behind another, or none; or one with a long rest.
    Tuples,
    Ranked,
}
const TURNS: usize = 5;

/// A lookup under way that asks no index.
#[derive(Clone, Copy, Default)]
struct One<'a> {
    probe: Probe,
    /// Of the first tuple that it asks.
    slot: Slot,
    bucket: Option<&'a Scan>,
}

/// The table that all of these ask, if it is one.
#[inline(always)]
fn only<'a>(tables: &[Option<&'a FastTable>]) -> Option<&'a FastTable> {
    let mut all = tables.iter().flatten();
    let first = all.next()?;
    all.all(|t| std::ptr::eq(*t, *first)).then_some(first)
}

/// Where they all ask one, as in a later table of one VDP: there is nothing to ask for ahead but what its index does.
fn of_one(
    (table, index): (&FastTable, &Index),
    tables: &[Option<&FastTable>],
    keys: &[FlowKey],
    found: &mut [Option<RuleId>],
) {
    let asked = tables.iter().zip(keys).filter(|(t, _)| t.is_some()).map(|(_, key)| key);
    let Some((asked, count)) = gathered(asked) else { return };
    let mut own = [None; BURST];
    index.lookup_strewn(table.vectors, asked.get(..count).unwrap_or_default(), &mut own);
    let places = found.iter_mut().zip(tables).filter(|(_, t)| t.is_some());
    for (((found, _), key), best) in places.zip(asked).zip(own).take(count) {
        *found = table.or_beside(key, best).or_else(|| table.miss());
    }
}

fn burst(tables: &[Option<&FastTable>], keys: &[FlowKey], found: &mut [Option<RuleId>]) {
    if let Some(one) = only(tables).and_then(|t| Some((t, t.asked_index()?))) {
        return of_one(one, tables, keys, found);
    }
    let mut turns = Sorted::<TURNS>::default();
    tables.iter().flatten().for_each(|t| t.prefetch());
    for (i, t) in tables.iter().enumerate().take(keys.len()) {
        if let Some(t) = t {
            turns.add(t.turn() as usize, i);
        }
    }
    // Each with its place.
    let each = |of: &'static [Turn]| {
        let places = of.iter().flat_map(|turn| turns.of(*turn as usize));
        places.filter_map(|i| Some((i, (*tables.get(i)?)?, keys.get(i)?)))
    };
    const BY_PARTS: &[Turn] = &[Turn::Tuple, Turn::Tuples, Turn::Ranked];
    const BY_TUPLES: &[Turn] = &[Turn::Tuple, Turn::Tuples];

    let mut all = [One::default(); BURST];
    each(&[Turn::Index]).filter_map(|(_, t, _)| t.asked_index()).for_each(Index::prefetch);
    each(BY_PARTS).for_each(|(_, t, _)| t.warm());
    each(&[Turn::Packed]).for_each(|(i, t, key)| all[i].probe = t.probe(key));
    each(BY_PARTS).for_each(|(i, t, key)| all[i].probe = t.probe(key));
    for (i, t, key) in each(BY_TUPLES) {
        let a = &mut all[i];
        if let Some(tuple) = t.parts.each(a.probe.left).next() {
            a.slot = tuple.slot(key, Some(a.probe.hash));
            a.bucket = tuple.prefetch_bucket(a.slot);
            if t.parts.tuples.len() > 1 || t.parts.rest.len() >= LONG {
                tuple.prefetch_rank(a.slot);
            }
        }
    }
    all.iter().filter_map(|a| a.bucket).for_each(Scan::prefetch);
    let mut tell = |i: usize, t: &FastTable, id: Option<RuleId>| {
        found.get_mut(i).into_iter().for_each(|f| *f = id.or_else(|| t.miss()));
    };
    for (i, t, key) in each(&[Turn::Packed, Turn::Ranked]) {
        tell(i, t, t.resolve_held(key, all[i].probe));
    }
    for (i, t, key) in each(&[Turn::Tuple]) {
        if let Some(one) = t.parts.tuples.first() {
            tell(i, t, t.resolve_aside(one, key, Ahead::Slot(all[i].slot)));
        }
    }
    for (i, t, key) in each(&[Turn::Tuples]) {
        let One { probe, slot, .. } = all[i];
        tell(i, t, t.resolve_many(key, probe.left, Ahead::Slot(slot)));
    }
    let indexed = || each(&[Turn::Index]);
    let Some((_, first, _)) = indexed().next() else { return };
    let asked = indexed().filter_map(|(_, t, key)| Some((t.asked_index()?, key)));
    let Some((asked, count)) = gathered(asked) else { return };
    let mut own = [None; BURST];
    Index::lookup_several(first.vectors, asked.get(..count).unwrap_or_default(), &mut own);
    for ((i, t, key), best) in indexed().zip(own) {
        tell(i, t, t.or_beside(key, best));
    }
}
