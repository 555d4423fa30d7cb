//! Lookups in grids, many at a time: in passes, of which each asks for what the next reads. Keys may be one table's or many tables'.
//!
//! Called by `grid` alone.

use super::lists::{Beside, Best};
use super::{Grid, Kind, W};
use crate::index::burst::Told;
use crate::index::place::Words;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Half, Lanes, Set, Vectors, Whole, Work, with_vectors};
use crate::sorted::BURST;
use std::borrow::Borrow;

/// What a burst asks: at each place a grid and a key.
pub(super) trait Asking {
    /// Whether grids may differ; if not they are that of place 0.
    const DIFFER: bool;
    fn len(&self) -> usize;
    fn grid(&self, i: usize) -> &Grid;
    fn key(&self, i: usize) -> &FlowKey;
}

/// Keys of one table.
pub(super) struct Same<'a, K> {
    pub(super) grid: &'a Grid,
    pub(super) keys: &'a [K],
}

impl<K: Borrow<FlowKey>> Asking for Same<'_, K> {
    const DIFFER: bool = false;
    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline(always)]
    fn grid(&self, _: usize) -> &Grid {
        self.grid
    }
    #[inline(always)]
    fn key(&self, i: usize) -> &FlowKey {
        self.keys[i].borrow()
    }
}

/// Keys of many.
struct Each<'a>(&'a [(&'a Grid, &'a FlowKey)]);

impl Asking for Each<'_> {
    const DIFFER: bool = true;
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn grid(&self, i: usize) -> &Grid {
        self.0[i].0
    }
    #[inline(always)]
    fn key(&self, i: usize) -> &FlowKey {
        self.0[i].1
    }
}

/// Rank and id of the winner for each of the keys in the grid beside it; up to [`BURST`] of them.
pub(in crate::index) fn lookup_several(
    v: Vectors,
    asked: &[(&Grid, &FlowKey)],
    found: &mut [Option<(u64, RuleId)>],
) {
    with_vectors(v, Burst { asked: Each(asked), found });
}

/// One lookup.
pub(super) struct One<'a> {
    pub(super) grid: &'a Grid,
    pub(super) key: &'a FlowKey,
}

impl Work for One<'_> {
    type Out = Option<(u64, RuleId)>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let Self { grid, key } = self;
        let mut at = grid.plan.place(&grid.form().words_for_bits::<W>(key));
        let set: Whole = grid.plan.compared.set(at.word);
        at.first = grid.of(Kind::Cell).first(lanes, at.cell, at.word, &set);
        grid.best(lanes, &at, &set).map(|b| (b.rank, b.id))
    }
}

/// Where a key is.
#[derive(Clone, Copy, Default)]
pub(super) struct At {
    /// The word that the axes don't have.
    pub(super) word: u64,
    pub(super) cell: usize,
    pub(super) across: u16,
    pub(super) down: u16,
    /// It is not what all rules ask.
    pub(super) is_other: bool,
    /// The first of its cell's rules that it fits.
    pub(super) first: usize,
}

/// At most [`BURST`] lookups.
pub(super) struct Burst<'a, A, T> {
    pub(super) asked: A,
    pub(super) found: &'a mut [Option<T>],
}

impl<A: Asking, T: Told> Work for Burst<'_, A, T> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Where grids differ a whole set is right for all.
        if !A::DIFFER && self.asked.len() > 0 && self.asked.grid(0).plan.compared.is_half() {
            self.by::<L, { Half::WORDS }>(lanes);
        } else {
            self.by::<L, { Whole::WORDS }>(lanes);
        }
    }
}

impl<A: Asking, T: Told> Burst<'_, A, T> {
    /// By sets of so many words.
    #[inline(always)]
    fn by<L: Lanes, const SET: usize>(self, lanes: L) {
        let Self { asked, found } = self;
        let n = asked.len().min(BURST);
        let mut all = [At::default(); BURST];
        // Of what rules ask of the word that the axes don't have, what each key is.
        let mut sets = [Set::<SET>::NONE; BURST];
        for (i, at) in all.iter_mut().enumerate().take(n) {
            let grid = asked.grid(i);
            *at = grid.plan.place(&grid.form().words_for_bits::<W>(asked.key(i)));
            grid.of(Kind::Cell).prefetch(at.cell);
        }
        for (i, (at, set)) in all.iter().zip(&mut sets).enumerate().take(n) {
            let grid = asked.grid(i);
            grid.of(Kind::Cell).prefetch_rules(at.cell);
            *set = grid.plan.compared.set(at.word);
        }
        for (i, (at, set)) in all.iter_mut().zip(&sets).enumerate().take(n) {
            at.first = asked.grid(i).of(Kind::Cell).first(lanes, at.cell, at.word, set);
        }
        for (i, ((at, set), found)) in all.iter().zip(&sets).zip(found).enumerate().take(n) {
            *found = asked.grid(i).best(lanes, at, set).map(|b| T::of(b.rank, b.id));
        }
    }
}

/// Lines that a lookup looks at.
pub(super) struct Looked<'a> {
    pub(super) grid: &'a Grid,
    pub(super) key: Words,
}

impl Work for Looked<'_> {
    type Out = usize;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> usize {
        let grid = self.grid;
        let mut at = grid.plan.place(&self.key);
        let set: Whole = grid.plan.compared.set(at.word);
        let (key, cells) = (grid.plan.key(&at, &set), grid.of(Kind::Cell));
        at.first = cells.first(lanes, at.cell, at.word, &set);
        let mut lines = cells.lines(lanes, at.cell, &key, Best::NONE);
        let mut best = cells.told(at.first);
        let lists = [
            (Kind::Column, at.across, Beside::Down),
            (Kind::Row, at.down, Beside::Across),
            (Kind::Other, 0, Beside::Both),
        ];
        for (kind, list, beside) in lists {
            lines += grid.of(kind).lines(lanes, list.into(), &key, best);
            best = grid.of(kind).best(lanes, list.into(), &key, best, beside);
        }
        lines
    }
}
