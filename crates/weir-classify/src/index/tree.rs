//! The whole of an index: a way to the leaves, and the leaves. Where there is one leaf, of few places, every key has that (`Way::One`); where every key has one of several (`walk`), who looks up walks the
//! cuts; else rows with a bit for every leaf say which to ask (`root`), mostly one or two. Where most rules ask for a bit that others don't (`spine`) there
//! may be two trees, in each of which a key has one leaf.
//!
//! Called by `index` and `burst`. By rows, a lookup asks those leaves that have a rule which agrees with the key in all of a few windows of
//! its bits, the one with the best rule first as far as they have kept their order.
//!
//! **How it changes.** A rule is put in or taken out where the cuts lead; in all of these leaves or, where one has no room or they
//! are too many, in none. Others move for it only where they are few. Rows before the leaves only gain bits.
//!
//! **What it costs.** Lookup: for the rows eight lines of memory, which up to 128 leaves are a cache's nearest, sixteen from 512
//! leaves on; or a step for several levels of the cuts (for each, where bits are not put together at once); and for each leaf asked a dozen lines, for a family's rule two more. Memory: 8 KiB a leaf (2 where it is the only one, of up to 120 rules of no families), and a
//! line of 64 bytes a place, two for rules of more than three words of the key. Worst case: rules of which a key agrees
//! with all in all windows are compared one after the other, as a scan does.

use super::burst::{Same, burst};
use super::cuts::{Cuts, FILL, Gathered, Open};
use super::family::{Families, Kin};
use super::leaf::{
    Either, Expected, Expecting, Finding, Found, Leaf, Leaving, Moves, Returning, Vacating, Which,
    Whole, priority,
};
use super::place::{Asks, Form, Place, Words, choose, some_keys};
use super::root::{BITS, Left, Noting, OfAny, Root};
use super::spine::Spine;
use super::walk::Walk;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, prefetch_read, prefetch_slice, with_vectors};
use crate::sorted::BURST;
use crate::windows::every;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Rules by which windows are chosen.
const SAMPLE: usize = 20_000;
/// Keys for each leaf by which it is found out which others they come to.
const VISITS: usize = 64;
/// Leaves, at most, and rules that are worth the memory of one.
pub(super) const LEAVES: usize = 1024;
const WORTH: usize = 64;
/// Places in all.
pub(super) const PLACES: usize = LEAVES * FILL;
/// Leaves, of a hundred keys, that are more than one in each of two trees; and keys that are asked.
const MANY_ASKED: usize = 125;
const ASKING: usize = 2048;
/// Places that a leaf of others may leave to a rule that comes; and to a key on an average, of which lookups pass over most by their ranks.
const MANY_LEFT: usize = 16;
const LEFT: usize = 3;
/// Leaves that a rule may be added to; and those of which many may have to be put in order for it.
const SPREAD: usize = 256;
const SORTED: usize = 16;
/// Writes that counting [`SPREAD`] leaves takes as long as.
const COUNTED: usize = 16;
/// Leaves of which what a removal reads is asked for at a time: near caches hold it.
const AHEAD: usize = if cfg!(test) { 2 } else { 32 };
/// Leaves, of 20 to 40 KiB each, that a second-level cache of one MiB holds beside other things.
const NEAR: usize = 24;

/// How a key comes to leaves.
#[derive(Clone, Debug)]
pub(super) enum Way<const W: usize> {
    /// To the one that there is, whose rows are narrow; its rules are of no families.
    One,
    /// To one.
    Walk(Walk),
    /// To one, and to one of another tree's.
    Two(Walk, Box<Others<W>>),
    /// To those that rows leave.
    Rows(Root),
}

/// Kinds of ways.
pub(super) const KINDS: usize = 4;

impl<const W: usize> Way<W> {
    /// Which of the [`KINDS`]: trees of one are asked together.
    #[inline(always)]
    pub(super) fn kind(&self) -> usize {
        match self {
            Self::One => 0,
            Self::Walk(_) => 1,
            Self::Two(..) => 2,
            Self::Rows(_) => 3,
        }
    }
}

/// A tree of the rules that don't ask what most do.
#[derive(Clone, Debug)]
pub(super) struct Others<const W: usize> {
    spine: Spine,
    pub(super) tree: Tree<W>,
}

/// What lookups know of a leaf before they ask it.
#[derive(Clone, Copy, Debug)]
struct Top {
    /// The largest rank that it has had.
    own: u64,
    /// And that it or one behind it has had.
    onward: u64,
}

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree<const W: usize> {
    // What every lookup reads, then what those read whose way is not `Way::One`.
    leaves: Vec<Leaf<W>>,
    form: Form,
    pub(super) way: Way<W>,
    families: Families,
    /// The smallest number of those that make ranks of equal priority differ, that a rule here has had.
    youngest: u32,
    tops: Vec<Top>,
    cuts: Cuts,
    len: usize,
    made_of: usize,
    /// Leaves that a change goes to, while it does.
    to: Vec<To<W>>,
}

/// A leaf that a rule is added to or removed from, its place there once it has one, and what it asks of keys that come that way.
#[derive(Clone, Copy, Debug)]
struct To<const W: usize> {
    leaf: u32,
    place: u32,
    asks: Asks<W>,
}

/// Keys that some of these rules fit.
fn keys_of<const W: usize>(rules: &[Place<W>]) -> Vec<[u64; W]> {
    let all: Vec<_> = rules.iter().map(|p| (0, &p.asks)).collect();
    some_keys(&all, ASKING)
}

impl<const W: usize> Tree<W> {
    /// All rules of a table; none where it would be no use.
    pub(super) fn new(v: Vectors, form: Form, kin: Kin<W>, open: Open) -> Option<Self> {
        if kin.heads.len() > PLACES {
            return None;
        }
        let (cuts, gathered) = Cuts::new(&kin, open)?;
        // More would be refused for their memory in the end.
        if gathered.len() > LEAVES.min(kin.rules / WORTH + 2) {
            return None;
        }
        let way = match open {
            Open::Both => Way::Walk(cuts.walk_of_keys()?),
            Open::OrApart => Way::Rows(Self::root(v, &kin, &gathered)?),
        };
        let whole = |(i, asks): &(u32, Asks<W>)| kin.heads.get(*i as usize).map(|r| (*r, *asks));
        let visitors = match &way {
            Way::One | Way::Walk(_) | Way::Two(..) => Vec::new(),
            Way::Rows(root) => Self::visitors(v, root, &gathered),
        };
        let of = |leaf: usize| visitors.get(leaf).map_or(&[][..], Vec::as_slice);
        let leaf = |(i, g): (usize, &Gathered<W>)| {
            Leaf::new(v, g.iter().filter_map(whole).collect(), &kin, of(i))
        };
        let leaves: Vec<Leaf<W>> = gathered.iter().enumerate().map(leaf).collect();
        let (len, youngest, mut families) = (kin.rules, kin.youngest(), kin.families);
        if !families.are_none() {
            leaves.iter().for_each(|l| l.meet_each_other(&mut families));
        }
        Some(Self {
            way,
            tops: Self::tops(&leaves),
            leaves,
            form,
            families,
            youngest,
            cuts,
            len,
            made_of: len,
            to: Vec::new(),
        })
    }

    /// With narrow rows, if it has one leaf for which they are enough.
    pub(super) fn narrowed(mut self) -> Self {
        if let (Way::Walk(_), [leaf], true) =
            (&self.way, self.leaves.as_mut_slice(), self.families.are_none())
            && leaf.narrow()
        {
            self.way = Way::One;
        }
        self
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

    /// The same, where most have something in common, and the others a tree of their own. None but if each key has one leaf in both, and
    /// the others' leaves leave few of them to these rules' keys.
    pub(super) fn with_others(v: Vectors, form: Form, rules: &[Place<W>]) -> Option<Self> {
        Spine::of(rules).find_map(|spine| Self::by_spine(v, form, rules, spine))
    }
    fn by_spine(v: Vectors, form: Form, rules: &[Place<W>], spine: Spine) -> Option<Self> {
        let (own, others): (Vec<_>, Vec<_>) = rules.iter().partition(|r| spine.is_of(&r.asks));
        let tree = |rules: &[_]| Self::new(v, form, Kin::none(rules), Open::Both);
        if others.len() > NEAR * FILL {
            return None;
        }
        let others = tree(&others).filter(|t| t.is_near())?;
        let keys = keys_of(rules);
        if others.left_to(v, &keys) > keys.len() * LEFT {
            return None;
        }
        let mut own = tree(&own)?;
        own.way = match own.way {
            Way::Walk(walk) => Way::Two(walk, Box::new(Others { spine, tree: others })),
            Way::One | Way::Two(..) | Way::Rows(_) => return None,
        };
        Some(own)
    }
    /// The tree of others, where a rule that asks this is one of them.
    #[inline]
    fn others(&self, asks: &Asks<W>) -> Option<&Self> {
        match &self.way {
            Way::Two(_, others) if !others.spine.is_of(asks) => Some(&others.tree),
            _ => None,
        }
    }
    #[inline]
    fn others_mut(&mut self, asks: &Asks<W>) -> Option<&mut Self> {
        match &mut self.way {
            Way::Two(_, others) if !others.spine.is_of(asks) => Some(&mut others.tree),
            _ => None,
        }
    }
    /// It and the tree of others, if there is one.
    pub(super) fn trees(&self) -> impl Iterator<Item = &Self> {
        let others = match &self.way {
            Way::Two(_, others) => Some(&others.tree),
            Way::One | Way::Walk(_) | Way::Rows(_) => None,
        };
        std::iter::once(self).chain(others)
    }

    /// The rows before these leaves.
    fn root(v: Vectors, kin: &Kin<W>, gathered: &[Gathered<W>]) -> Option<Root> {
        let all = gathered.iter().enumerate();
        let all = all.flat_map(|(leaf, g)| g.iter().map(move |(_, asks)| (leaf, asks)));
        let windows = choose(v, &all.collect::<Vec<_>>(), gathered.len(), SAMPLE, BITS);
        let mut root = Root::new(gathered.len(), windows)?;
        for (leaf, all) in gathered.iter().enumerate() {
            for (i, asks) in all {
                let family = kin.heads.get(*i as usize).and_then(Place::family);
                kin.families.each_ask(family, asks, |asks| {
                    with_vectors(v, Noting { root: &mut root, leaf, asks });
                });
            }
        }
        Some(root)
    }

    /// Keys of other leaves' rules that come to each.
    fn visitors(v: Vectors, root: &Root, gathered: &[Gathered<W>]) -> Vec<Vec<[u64; W]>> {
        let all: Vec<(usize, &Asks<W>)> = gathered
            .iter()
            .enumerate()
            .flat_map(|(leaf, g)| g.iter().map(move |(_, asks)| (leaf, asks)))
            .collect();
        let keys = some_keys(&all, gathered.len() * VISITS);
        let homes = all.iter().step_by(every(all.len(), gathered.len() * VISITS)).map(|a| a.0);
        let mut visitors = vec![Vec::new(); gathered.len()];
        for (key, home) in keys.iter().zip(homes) {
            let mut left = with_vectors(v, Visiting { root, key: Words::new(key) });
            while let Some(leaf) = left.next() {
                if leaf != home
                    && let Some(v) = visitors.get_mut(leaf)
                {
                    v.push(*key);
                }
            }
        }
        visitors
    }

    #[inline(always)]
    pub(super) fn form(&self) -> Form {
        self.form
    }
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.trees().flat_map(|t| &t.leaves).map(|l| l.rules().count()).sum()
    }
    pub(super) fn leaves(&self) -> usize {
        self.trees().map(|t| t.leaves.len()).sum()
    }
    #[inline(always)]
    pub(super) fn way(&self) -> &Way<W> {
        &self.way
    }
    #[inline(always)]
    pub(super) fn families(&self) -> &Families {
        &self.families
    }
    #[inline(always)]
    pub(super) fn has_walk(&self) -> bool {
        matches!(self.way, Way::One | Way::Walk(_))
    }
    /// Asks for what lookups read of it beside [`READ`](super::READ) bytes, by which way it has.
    #[inline(always)]
    pub(super) fn prefetch_way(&self) {
        match self.way {
            Way::One | Way::Two(..) => {}
            Way::Walk(_) => prefetch_read(&self.families),
            Way::Rows(_) => {
                prefetch_slice(std::slice::from_ref(&self.way), size_of::<Way<W>>());
                prefetch_read(&self.families);
                prefetch_read(&self.tops);
            }
        }
    }
    /// Whether what lookups read lies in near caches, if it is asked often.
    #[inline(always)]
    pub(super) fn is_near(&self) -> bool {
        self.leaves.len() <= NEAR
    }
    #[inline(always)]
    pub(super) fn leaf(&self, at: usize) -> Option<&Leaf<W>> {
        self.leaves.get(at)
    }

    /// First half of a lookup: where every key has one leaf, that and 1, of which the rows are asked for.
    #[inline]
    pub(super) fn probe(&self, v: Vectors, key: &FlowKey) -> u64 {
        match &self.way {
            Way::One => with_vectors(v, Probing { tree: self, walk: None, key }),
            Way::Walk(walk) => with_vectors(v, Probing { tree: self, walk: Some(walk), key }),
            Way::Two(..) | Way::Rows(_) => 0,
        }
    }
    /// Second half: rank and id of the winner for `key`.
    #[inline]
    pub(super) fn resolve(&self, v: Vectors, key: &FlowKey, probe: u64) -> Option<(u64, RuleId)> {
        if let Some(leaf) = (probe as usize).checked_sub(1) {
            return with_vectors(v, Resolving { tree: self, leaf, key });
        }
        let mut found = [None];
        let asked = Same { tree: self, keys: std::slice::from_ref(key) };
        burst::<_, _, 1, W>(v, asked, &mut found);
        found[0]
    }
    /// The winner for each key.
    #[inline]
    pub(super) fn lookup_all(&self, v: Vectors, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            burst::<_, _, BURST, W>(v, Same { tree: self, keys }, found);
        }
    }

    /// The next leaf to ask of those that are left, where what was found has a rank of `floor`, 0 for nothing.
    #[inline(always)]
    pub(super) fn next(&self, left: &mut impl Left, floor: u64) -> Option<usize> {
        loop {
            let at = left.next()?;
            // The first is asked as it is: what its best rule would be is a line more to read.
            if floor == 0 {
                return Some(at);
            }
            let top = self.tops.get(at)?;
            if top.onward <= floor {
                left.end();
                return None;
            }
            if top.own > floor {
                return Some(at);
            }
        }
    }

    fn tops(leaves: &[Leaf<W>]) -> Vec<Top> {
        let mut onward = 0;
        let mut tops: Vec<Top> = leaves
            .iter()
            .rev()
            .map(|leaf| {
                let own = leaf.top();
                onward = onward.max(own);
                Top { own, onward }
            })
            .collect();
        tops.reverse();
        tops
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

    /// Whether keys of these rules, all of its own, ask many leaves.
    pub(super) fn asks_many(&self, v: Vectors, rules: &[Place<W>]) -> bool {
        let Way::Rows(root) = &self.way else { return false };
        let keys = keys_of(rules);
        let many = keys.len() * MANY_ASKED / 100;
        with_vectors(v, Counting { tree: self, root, keys: &keys, enough: many + 1 }) > many
    }
    /// How many places the leaves of these keys leave to them, if keys have one; of each as far as [`MANY_LEFT`].
    fn left_to(&self, v: Vectors, keys: &[[u64; W]]) -> usize {
        let left = |key: &[u64; W]| {
            let asks = Asks { mask: [u64::MAX; W], value: *key };
            let leaf = self.cuts.first(&asks).and_then(|leaf| self.leaves.get(leaf));
            leaf.map_or(0, |leaf| with_vectors(v, Leaving { leaf, asks: &asks, enough: MANY_LEFT }))
        };
        keys.iter().map(left).sum()
    }

    /// The rule that asks just this: its rank and id.
    pub(super) fn find(&self, v: Vectors, asks: &Asks<W>, which: Which) -> Option<(u64, RuleId)> {
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
    pub(super) fn insert(&mut self, v: Vectors, rule: &Place<W>) -> bool {
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
    pub(super) fn writes(&self, rule: &Place<W>) -> usize {
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
    pub(super) fn remove(
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

    /// Whether a change scatters more than a quarter of its families, as they are among others of their priority.
    pub(super) fn would_scatter(&self) -> bool {
        // Where there are two trees there are no families.
        let all = || self.leaves.iter().flat_map(Leaf::rules).filter_map(Place::family);
        all().filter(|at| self.families.is_alone(*at)).count() * 4 < all().count() * 3
    }
    /// Whether so many have gone that another index would be better.
    pub(super) fn is_sparse(&self) -> bool {
        // A tree without rules is asked all the same.
        self.len() * 2 <= self.trees().map(|t| t.made_of).sum() || self.trees().any(|t| t.len == 0)
    }
    pub(super) fn len(&self) -> usize {
        self.trees().map(|t| t.len).sum()
    }
    /// Calls `f` for every rule that stands in this leaf before all others.
    pub(super) fn each_of(&self, leaf: usize, f: &mut dyn FnMut(&Place<W>)) {
        if let (Way::Two(_, others), Some(leaf)) = (&self.way, leaf.checked_sub(self.leaves.len()))
        {
            return others.tree.each_of(leaf, f);
        }
        let places = self.leaves.get(leaf).into_iter().flat_map(Leaf::rules);
        for p in places.filter(|p| self.cuts.first(&p.asks) == Some(leaf)) {
            match p.family() {
                Some(at) => self.families.rules(at, *p).for_each(|p| f(&p)),
                None => f(p),
            }
        }
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(super) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.youngest = 0;
        let mut done = BTreeSet::new();
        for p in self.leaves.iter().flat_map(Leaf::rules) {
            if let Some(at) = p.family()
                && done.insert(at.first)
            {
                self.families.rerank(at, p.rank, f);
            }
        }
        self.leaves.iter_mut().for_each(|l| l.rerank(f));
        self.tops = Self::tops(&self.leaves);
        if let Way::Two(_, others) = &mut self.way {
            others.tree.rerank(f);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let way = match &self.way {
            Way::One => 0,
            Way::Walk(walk) => walk.heap_bytes(),
            Way::Two(walk, others) => {
                walk.heap_bytes() + size_of::<Others<W>>() + others.tree.heap_bytes()
            }
            Way::Rows(root) => root.heap_bytes(),
        };
        way + self.tops.capacity() * size_of::<Top>()
            + self.leaves.capacity() * size_of::<Leaf<W>>()
            + self.leaves.iter().map(Leaf::heap_bytes).sum::<usize>()
            + self.cuts.heap_bytes()
            + self.families.heap_bytes()
            + self.to.capacity() * size_of::<To<W>>()
    }
}

/// The leaves of a key.
struct Visiting<'a> {
    root: &'a Root,
    key: Words,
}

impl Work for Visiting<'_> {
    type Out = OfAny;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> OfAny {
        let mut left = OfAny::default();
        left.fill(lanes, self.root, self.root.picked(lanes, &self.key));
        left
    }
}

/// How many leaves these keys ask; so many are enough.
struct Counting<'a, const W: usize> {
    tree: &'a Tree<W>,
    root: &'a Root,
    keys: &'a [[u64; W]],
    enough: usize,
}

impl<const W: usize> Work for Counting<'_, W> {
    type Out = usize;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> usize {
        let Self { tree, root, keys, enough } = self;
        let mut asked = 0;
        for key in keys {
            if asked >= enough {
                break;
            }
            let (key, mut left, mut best) = (Words::new(key), OfAny::default(), 0);
            left.fill(lanes, root, root.picked(lanes, &key));
            while let Some(leaf) = tree.next(&mut left, best).and_then(|at| tree.leaf(at)) {
                asked += 1;
                let winner =
                    leaf.winner::<Whole, L>(lanes, &tree.families, &key, leaf.picked(lanes, &key));
                best = winner.map_or(best, |w| w.0.max(best));
            }
        }
        asked
    }
}

/// The leaf of a key, and 1.
struct Probing<'a, const W: usize> {
    tree: &'a Tree<W>,
    /// None where there is one leaf.
    walk: Option<&'a Walk>,
    key: &'a FlowKey,
}

impl<const W: usize> Work for Probing<'_, W> {
    type Out = u64;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u64 {
        let (key, leaf) = match self.walk.map(|walk| (walk, walk.leaps())) {
            None => (self.tree.form.words::<W, L>(lanes, self.key), 0),
            Some((_, Some(leaps))) if lanes.any_bits() => {
                let key = self.tree.form.words::<W, L>(lanes, self.key);
                (key, leaps.leaf(lanes, leaps.bits(lanes, &key)))
            }
            Some((walk, _)) => {
                let key = self.tree.form.words_for_bits::<W>(self.key);
                let mut at = 0;
                for _ in 0..walk.levels() {
                    at = walk.next(&key, at);
                }
                (key, walk.leaf(at))
            }
        };
        if let Some(leaf) = self.tree.leaves.get(leaf) {
            leaf.rows::<Either, L>(lanes, &key);
        }
        leaf as u64 + 1
    }
}

/// The winner, where the key's leaf is known.
struct Resolving<'a, const W: usize> {
    tree: &'a Tree<W>,
    leaf: usize,
    key: &'a FlowKey,
}

impl<const W: usize> Work for Resolving<'_, W> {
    type Out = Option<(u64, RuleId)>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Out {
        let leaf = self.tree.leaves.get(self.leaf)?;
        let key = self.tree.form.words::<W, L>(lanes, self.key);
        leaf.winner::<Either, L>(lanes, &self.tree.families, &key, leaf.picked(lanes, &key))
    }
}
