//! What comes and goes: a rule is put in or taken out where the cuts lead.
//!
//! Part of `tree`. Called by `index`. In all of its leaves or, where one has no room or they are too many, in none; what is read of several
//! leaves is asked for ahead.

use super::two::MANY_LEFT;
use super::{Tree, Way};
use crate::index::leaf::{
    Expected, Expecting, Finding, Found, Leaf, Moves, Returning, Vacating, Which, priority,
};
use crate::index::place::{Asks, Place};
use crate::index::root::Noting;
use crate::rule::RuleId;
use crate::simd::{Vectors, with_vectors};
use std::ops::ControlFlow;

/// Leaves that a rule may be added to; and those of which many may have to be put in order for it.
const SPREAD: usize = 256;
const SORTED: usize = 16;
/// Writes that counting [`SPREAD`] leaves takes as long as.
const COUNTED: usize = 16;
/// Leaves of which what a removal reads is asked for at a time: near caches hold it.
const AHEAD: usize = if cfg!(test) { 2 } else { 32 };

/// A leaf that a rule is added to or removed from, its place there once it has one, and what it asks of keys that come that way.
#[derive(Clone, Copy, Debug)]
pub(super) struct To<const W: usize> {
    leaf: u32,
    place: u32,
    asks: Asks<W>,
}

impl<const W: usize> Tree<W> {
    /// The rule that asks just this: its rank and id.
    pub(in super::super) fn find(
        &self,
        v: Vectors,
        asks: &Asks<W>,
        which: Which,
    ) -> Option<(u64, RuleId)> {
        if let Some(others) = self.others(asks) {
            return others.find(v, asks, which);
        }
        let leaf = self.leaves.get(self.cuts.first(asks)?)?;
        // Who asks before it adds a rule goes on there.
        leaf.prefetch_order();
        let found = with_vectors(v, Finding { leaf, families: &self.families, asks, which })?;
        Some((found.rank, found.id))
    }

    /// Adds a rule that is not there. False where there is no room; then it is nowhere.
    pub(in super::super) fn insert(&mut self, v: Vectors, rule: &Place<W>) -> bool {
        if let Some(others) = self.others_mut(&rule.asks) {
            // Its leaves are few, and their windows may tell nothing of what comes later: parts do.
            return others.left_to(v, &[rule.asks.value]) < MANY_LEFT && others.insert(v, rule);
        }
        self.widen_if_full();
        let added = self.come_back(v, rule) || self.put(v, rule);
        if added {
            self.youngest = self.youngest.min(rule.rank as u32);
            self.len += 1;
        }
        added
    }
    /// Puts a rule into a place of its own in each of its leaves. False where there is no room; then it is nowhere.
    fn put(&mut self, v: Vectors, rule: &Place<W>) -> bool {
        let mut to = std::mem::take(&mut self.to);
        to.clear();
        self.cuts.walk(&rule.asks, &mut |leaf, asks| {
            to.push(To { leaf: leaf as u32, place: 0, asks: *asks });
            if to.len() > SPREAD { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // In more it has none, whatever they say.
        let room = to.len() <= SPREAD && {
            self.expect(&to);
            self.has_room(rule, &to)
        };
        // Others may move for it where that is one place or few.
        let moves = if to.len() <= SORTED { Moves::Some } else { Moves::None };
        for at in 0..if room { to.len() } else { 0 } {
            let (done, rest) = to.split_at_mut(at);
            let Some(To { leaf, place, asks }) = rest.first_mut() else { continue };
            // Small leaves share one.
            let there = done.iter().find(|t| t.leaf == *leaf).map(|t| t.place as usize);
            let leaf = *leaf as usize;
            if let Way::Rows(root) = &mut self.way {
                with_vectors(v, Noting { root, leaf, asks });
            }
            self.raise(leaf, rule.rank);
            if let Some(leaf) = self.leaves.get_mut(leaf) {
                *place = leaf.insert(v, &mut self.families, rule, asks, there, moves) as u32;
            }
        }
        self.to = to;
        room
    }
    /// A rule that has gone from its family comes back to it, if it may.
    fn come_back(&mut self, v: Vectors, rule: &Place<W>) -> bool {
        let Self { leaves, cuts, families, .. } = self;
        if families.are_none() {
            return false;
        }
        let leaf = cuts.first(&rule.asks).and_then(|leaf| leaves.get(leaf));
        let Some(leaf) = leaf else { return false };
        let to = with_vectors(v, Returning { leaf, families, rule });
        to.is_some_and(|(at, seat)| families.come_back(at, seat, rule))
    }
    /// Asks for some of what adding a rule to these leaves reads, where they are several: read one behind another they are a row of waits.
    fn expect(&self, to: &[To<W>]) {
        if to.len() > 1 {
            let leaves = || to.iter().filter_map(|to| self.leaves.get(to.leaf as usize));
            leaves().for_each(Leaf::prefetch_whole);
            leaves().for_each(Leaf::prefetch_order);
        }
    }
    /// The same for all that removing one of this priority reads.
    fn expect_vacating(v: Vectors, leaves: &[Leaf<W>], from: &[To<W>], priority: u32) {
        if from.len() > 1 {
            let of = || from.iter().filter_map(|f| Some((leaves.get(f.leaf as usize)?, &f.asks)));
            of().for_each(|(leaf, _)| leaf.prefetch_whole());
            for what in [Expected::Rows, Expected::Place] {
                of().for_each(|(leaf, asks)| {
                    with_vectors(v, Expecting { leaf, asks, priority, what })
                });
            }
        }
    }
    fn has_room(&self, rule: &Place<W>, to: &[To<W>]) -> bool {
        let mut leaves = to.iter().filter_map(|to| self.leaves.get(to.leaf as usize));
        let is_youngest = (rule.rank as u32) < self.youngest;
        // A table's new rule is its youngest; others come where an index catches up.
        let between = |l: &Leaf<W>| !is_youngest && l.comes_between(&self.families, rule);
        leaves.clone().all(|l| l.has_room() && !between(l))
            && (to.len() <= SORTED || !leaves.any(|l| l.must_sort(rule)))
    }

    /// What a change of a rule writes to, about: the leaves in which it stands. One that stands in more than it may goes beside, for
    /// which they are counted.
    pub(in super::super) fn writes(&self, rule: &Place<W>) -> usize {
        if let Some(others) = self.others(&rule.asks) {
            return others.writes(rule);
        }
        let mut n = 0;
        self.cuts.walk(&rule.asks, &mut |_, _| {
            n += 1;
            if n > SPREAD { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if n > SPREAD { COUNTED } else { n }
    }

    /// Removes the rule that asks just this: its rank and id.
    pub(in super::super) fn remove(
        &mut self,
        v: Vectors,
        asks: &Asks<W>,
        which: Which,
    ) -> Option<(u64, RuleId)> {
        if let Some(others) = self.others_mut(asks) {
            return others.remove(v, asks, which);
        }
        let Self { leaves, cuts, families, to, .. } = self;
        let leaf = leaves.get(cuts.first(asks)?)?;
        let Found { place, rank, id, of } =
            with_vectors(v, Finding { leaf, families: &*families, asks, which })?;
        let family = of.map(|(at, seat)| {
            families.leave(seat);
            at
        });
        // A place goes with the last of its family.
        if family.is_none_or(|at| families.is_empty(at)) {
            let mut first = Some(place);
            let mut vacate = |from: &mut Vec<To<W>>| {
                Self::expect_vacating(v, leaves, from, priority(rank));
                for To { leaf, asks: narrowed, .. } in from.drain(..) {
                    let Some(leaf) = leaves.get_mut(leaf as usize) else { continue };
                    let narrowed = &narrowed;
                    let seek = || with_vectors(v, Vacating { leaf, asks, narrowed, rank, family });
                    let place = first.take().or_else(seek);
                    // A leaf that is there more than once has it no more.
                    place.into_iter().for_each(|at| leaf.remove(v, at));
                }
            };
            to.clear();
            cuts.walk(asks, &mut |leaf, asks| {
                to.push(To { leaf: leaf as u32, place: 0, asks: *asks });
                if to.len() == AHEAD {
                    vacate(to);
                }
                ControlFlow::Continue(())
            });
            vacate(to);
        }
        self.len -= 1;
        Some((rank, id))
    }
    /// A leaf has a rule of this rank.
    fn raise(&mut self, leaf: usize, rank: u64) {
        let Some(upto) = self.tops.get_mut(..=leaf) else { return };
        if let Some(top) = upto.last_mut() {
            top.own = top.own.max(rank);
        }
        for top in upto.iter_mut().rev().take_while(|t| t.onward < rank) {
            top.onward = rank;
        }
    }
    /// With rows of lines again, where a leaf of narrow ones has no room.
    fn widen_if_full(&mut self) {
        if let (Way::One, [leaf]) = (&self.way, self.leaves.as_mut_slice())
            && !leaf.has_room()
            && let Some(walk) = self.cuts.walk_of_keys()
        {
            leaf.widen();
            self.way = Way::Walk(walk);
        }
    }
}
