//! The whole of an index: a way to the leaves, and the leaves. Where there is one leaf, of few places, every key has that (`Way::One`); where every key has one of several (`walk`), who looks up walks the
//! cuts; else rows with a bit for every leaf say which to ask (`root`), mostly one or two. Where most rules ask for a bit that others don't (`spine`) there
//! may be two trees (`two`), in each of which a key has one leaf.
//!
//! Called by `index` and `burst`. By rows, a lookup asks those leaves that have a rule which agrees with the key in all of a few windows of
//! its bits, the one with the best rule first as far as they have kept their order.
//!
//! **How it changes** (`changes`). A rule is put in or taken out where the cuts lead; in all of these leaves or, where one has no room or they
//! are too many, in none. Others move for it only where they are few. Rows before the leaves only gain bits.
//!
//! **What it costs.** Lookup: for the rows eight lines of memory, which up to 128 leaves are a cache's nearest, sixteen from 512
//! leaves on; or a step for several levels of the cuts (for each, where bits are not put together at once); and for each leaf asked a dozen lines, for a family's rule two more. Memory: 8 KiB a leaf (2 where it is the only one, of up to 120 rules of no families), and a
//! line of 64 bytes a place, two for rules of more than three words of the key. Worst case: rules of which a key agrees
//! with all in all windows are compared one after the other, as a scan does.

mod changes;
mod two;

pub(super) use two::Others;

use super::burst::{Same, burst};
use super::cuts::{Cuts, FILL, Gathered, Open};
use super::family::{Families, Kin};
use super::leaf::{Either, Leaf};
use super::place::{Asks, Form, Place, Words, choose, some_keys};
use super::root::{BITS, Left, Noting, OfAny, Root};
use super::walk::Walk;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, prefetch_read, prefetch_slice, with_vectors};
use crate::sorted::BURST;
use crate::windows::every;
use changes::To;
use std::collections::BTreeSet;

/// Rules by which windows are chosen.
const SAMPLE: usize = 20_000;
/// Keys for each leaf by which it is found out which others they come to.
const VISITS: usize = 64;
/// Leaves, at most, and rules that are worth the memory of one.
pub(super) const LEAVES: usize = 1024;
const WORTH: usize = 64;
/// Places in all.
pub(super) const PLACES: usize = LEAVES * FILL;
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
