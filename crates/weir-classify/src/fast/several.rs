//! Lookups of a burst whose keys are many tables': in passes over all of them, of which each asks for what the next reads.
//!
//! Part of `fast`. What is read of a table that another frame's table follows lies in no near cache, so that a lookup by itself
//! is a row of waits; a burst's lookups wait together.

use super::{FastTable, Probe};
use crate::index::{BURST, Index};
use crate::key::FlowKey;
use crate::packed::Way;
use crate::parts::{Ahead, LONG};
use crate::rule::RuleId;
use crate::scan::Scan;
use crate::simd::{Vectors, prefetch_slice};
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
    /// Whether lookups ask tuples, and go on from the first one's slot by [`FastTable::resolve_many`].
    #[inline(always)]
    fn asks_tuples(&self) -> bool {
        matches!(
            self.packed.way,
            Way::Tuple | Way::Crowded | Way::Near | Way::NearAside | Way::Aside | Way::Parts
        )
    }
}

/// A lookup under way.
#[derive(Clone, Copy, Default)]
struct One<'a> {
    probe: Probe,
    /// Of the first tuple that it asks.
    slot: Slot,
    bucket: Option<&'a Scan>,
}

/// Of a burst, the lookups that ask an index, and their places.
struct Indexed<'a> {
    asked: [(&'a Index, &'a FlowKey); BURST],
    places: [u8; BURST],
    count: usize,
    vectors: Vectors,
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
    let Some(mut asked) = keys.first().map(|k| [k; BURST]) else { return };
    let mut count = 0;
    for (_, key) in tables.iter().zip(keys).filter(|(t, _)| t.is_some()) {
        asked[count % BURST] = key;
        count += 1;
    }
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
    let mut all = [One::default(); BURST];
    let asked =
        || tables.iter().zip(keys).enumerate().filter_map(|(i, (t, k))| Some((i, (*t)?, k)));
    tables.iter().flatten().for_each(|t| t.prefetch());
    for (i, t, key) in asked() {
        match (t.asked_index(), t.packed.way) {
            (Some(index), _) => index.prefetch(),
            (None, Way::Packed) => all[i % BURST].probe = t.probe(key),
            _ => t.warm(),
        }
    }
    let mut indexed: Option<Indexed> = None;
    for (i, t, key) in asked() {
        match t.asked_index() {
            Some(index) => Indexed::add(&mut indexed, t.vectors, (index, key), i),
            None if t.packed.way == Way::Packed => {}
            None => all[i % BURST].probe = t.probe(key),
        }
    }
    for (i, t, key) in asked().filter(|(_, t, _)| t.asks_tuples()) {
        let a = &mut all[i % BURST];
        if let Some(tuple) = t.parts.each(a.probe.left).next() {
            a.slot = tuple.slot(key, Some(a.probe.hash));
            a.bucket = tuple.prefetch_bucket(a.slot);
            if t.parts.tuples.len() > 1 || t.parts.rest.len() >= LONG {
                tuple.prefetch_rank(a.slot);
            }
        }
    }
    all.iter().filter_map(|a| a.bucket).for_each(Scan::prefetch);
    for (i, t, key) in asked().filter(|(_, t, _)| t.asked_index().is_none()) {
        let a = &all[i % BURST];
        let id = match (t.asks_tuples(), t.parts.tuples.as_slice()) {
            (true, [one]) if t.parts.rest.len() < LONG => {
                t.resolve_aside(one, key, Ahead::Slot(a.slot))
            }
            (true, _) => t.resolve_many(key, a.probe.left, Ahead::Slot(a.slot)),
            (false, _) => t.resolve_held(key, a.probe),
        };
        found.get_mut(i).into_iter().for_each(|f| *f = id.or_else(|| t.miss()));
    }
    for (i, best) in indexed.iter().flat_map(Indexed::lookup) {
        let table = tables.get(i).copied().flatten().zip(keys.get(i));
        let id = table.and_then(|(t, key)| t.or_beside(key, best).or_else(|| t.miss()));
        found.get_mut(i).into_iter().for_each(|f| *f = id);
    }
}

impl<'a> Indexed<'a> {
    #[inline(always)]
    fn add(some: &mut Option<Self>, vectors: Vectors, one: (&'a Index, &'a FlowKey), place: usize) {
        let some = some.get_or_insert_with(|| Self {
            asked: [one; BURST],
            places: [0; BURST],
            count: 0,
            vectors,
        });
        let at = some.count % BURST;
        (some.asked[at], some.places[at]) = (one, place as u8);
        some.count += 1;
    }
    /// Of each its place, and rank and id of what its index has.
    fn lookup(&self) -> impl Iterator<Item = (usize, Option<(u64, RuleId)>)> {
        let mut own = [None; BURST];
        let asked = self.asked.get(..self.count).unwrap_or_default();
        Index::lookup_several(self.vectors, asked, &mut own);
        self.places.into_iter().map(usize::from).zip(own).take(self.count)
    }
}
