//! The whole of an index: a way to the leaves, and the leaves. Where every key has one leaf (`walk`), who looks up walks the
//! cuts; else rows with a bit for every leaf say which to ask (`root`), mostly one or two.
//!
//! Called by `index` and `burst`. By rows, a lookup asks those leaves that have a rule which agrees with the key in all of a few windows of
//! its bits, the one with the best rule first as far as they have kept their order.
//!
//! **How it changes.** A rule is put in or taken out where the cuts lead. Rows before the leaves only gain bits.
//!
//! **What it costs.** Lookup: for the rows eight lines of memory, which up to 128 leaves are a cache's nearest, sixteen from 512
//! leaves on; or a step for each level of the cuts; and for each leaf asked a dozen lines. Memory: 8 KiB a leaf, and a
//! line of 64 bytes a place, two for rules of more than three words of the key. Worst case: rules of which a key agrees
//! with all in all windows are compared one after the other, as a scan does.

use super::burst::{Burst, Same};
use super::cuts::{Cuts, Gathered, Open};
use super::leaf::Leaf;
use super::place::{Asks, Form, Place, Words, choose, some_keys};
use super::root::{BITS, Left, Root};
use super::walk::Walk;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, with_vectors};
use crate::windows::every;

/// Rules by which windows are chosen.
const SAMPLE: usize = 20_000;
/// Keys for each leaf by which it is found out which others they come to.
const VISITS: usize = 64;
/// Leaves, at most, and rules that are worth the memory of one.
const LEAVES: usize = 1024;
const WORTH: usize = 64;
/// Leaves that a rule may be added to; and those of which many may have to be put in order for it.
const SPREAD: usize = 256;
const SORTED: usize = 16;
/// Lookups under way at a time.
pub(crate) const BURST: usize = 32;

/// How a key comes to leaves.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// To one.
    Walk(Walk),
    /// To those that rows leave.
    Rows(Root),
}

/// What lookups know of a leaf before they ask it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    /// The largest rank that it has had.
    own: u64,
    /// And that it or one behind it has had.
    onward: u64,
}

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree<const W: usize> {
    way: Way,
    leaves: Vec<Leaf<W>>,
    form: Form,
    pub(super) tops: Vec<Top>,
    cuts: Cuts,
    len: usize,
    made_of: usize,
}

impl<const W: usize> Tree<W> {
    /// All rules of a table, in any order; none where it would be no use.
    pub(super) fn new(v: Vectors, form: Form, rules: &[Place<W>], open: Open) -> Option<Self> {
        let (cuts, gathered) = Cuts::new(rules, open)?;
        // More would be refused for their memory in the end.
        if gathered.len() > LEAVES.min(rules.len() / WORTH + 2) {
            return None;
        }
        let way = match open {
            Open::Both => Way::Walk(cuts.walk_of_keys()?),
            Open::OrApart => Way::Rows(Self::root(&gathered)?),
        };
        let whole = |(i, asks): &(u32, Asks<W>)| rules.get(*i as usize).map(|r| (*r, *asks));
        let visitors = match &way {
            Way::Walk(_) => Vec::new(),
            Way::Rows(root) => Self::visitors(v, root, &gathered),
        };
        let of = |leaf: usize| visitors.get(leaf).map_or(&[][..], Vec::as_slice);
        let leaf = |(i, g): (usize, &Gathered<W>)| {
            Leaf::new(v, g.iter().filter_map(whole).collect(), rules, of(i))
        };
        let leaves: Vec<Leaf<W>> = gathered.iter().enumerate().map(leaf).collect();
        Some(Self {
            way,
            tops: Self::tops(&leaves),
            leaves,
            form,
            cuts,
            len: rules.len(),
            made_of: rules.len(),
        })
    }

    /// The rows before these leaves.
    fn root(gathered: &[Gathered<W>]) -> Option<Root> {
        let all = gathered.iter().enumerate();
        let all = all.flat_map(|(leaf, g)| g.iter().map(move |(_, asks)| (leaf, asks)));
        let windows = choose(&all.collect::<Vec<_>>(), gathered.len(), SAMPLE, BITS);
        let mut root = Root::new(gathered.len(), windows)?;
        for (leaf, all) in gathered.iter().enumerate() {
            all.iter().for_each(|(_, asks)| root.note(leaf, asks));
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
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }
    #[inline(always)]
    pub(super) fn way(&self) -> &Way {
        &self.way
    }
    #[inline(always)]
    pub(super) fn has_walk(&self) -> bool {
        matches!(self.way, Way::Walk(_))
    }
    #[inline(always)]
    pub(super) fn leaf(&self, at: usize) -> Option<&Leaf<W>> {
        self.leaves.get(at)
    }

    /// First half of a lookup: where every key has one leaf, that and 1, of which the rows are asked for.
    #[inline]
    pub(super) fn probe(&self, v: Vectors, key: &FlowKey) -> u64 {
        match &self.way {
            Way::Walk(walk) => with_vectors(v, Probing { tree: self, walk, key }),
            Way::Rows(_) => 0,
        }
    }
    /// Second half: the winner for `key`.
    #[inline]
    pub(super) fn resolve(&self, v: Vectors, key: &FlowKey, probe: u64) -> Option<RuleId> {
        if let Some(leaf) = (probe as usize).checked_sub(1) {
            return with_vectors(v, Resolving { tree: self, leaf, key });
        }
        let mut found = [None];
        let keys = std::slice::from_ref(key);
        with_vectors(v, Burst::<_, 1, W> { asked: Same { tree: self, keys }, found: &mut found });
        found[0]
    }
    /// The winner for each key.
    #[inline]
    pub(super) fn lookup_all(&self, v: Vectors, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            with_vectors(v, Burst::<_, BURST, W> { asked: Same { tree: self, keys }, found });
        }
    }

    /// The next leaf to ask of those that are left, where what was found has a rank of `floor`, 0 for nothing.
    #[inline(always)]
    pub(super) fn next(&self, left: &mut Left, floor: u64) -> Option<usize> {
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

    /// Adds a rule. False where there is no room; then it may be in some leaves and not in others.
    pub(super) fn insert(&mut self, rule: &Place<W>) -> bool {
        let mut to: Vec<(usize, Asks<W>)> = Vec::with_capacity(1);
        self.cuts.walk(&rule.asks, &mut |leaf, asks| to.push((leaf, *asks)));
        self.len += 1;
        let sorts = |(leaf, _): &(usize, Asks<W>)| {
            self.leaves.get(*leaf).is_some_and(|l| l.must_sort(rule))
        };
        to.len() <= SPREAD
            && (to.len() <= SORTED || !to.iter().any(sorts))
            && to.iter().all(|(leaf, asks)| {
                if let Way::Rows(root) = &mut self.way {
                    root.note(*leaf, asks);
                }
                self.raise(*leaf, rule.rank);
                self.leaves.get_mut(*leaf).is_some_and(|l| l.insert(rule, asks))
            })
    }

    pub(super) fn spread(&self, rule: &Place<W>) -> usize {
        let mut n = 0;
        self.cuts.walk(&rule.asks, &mut |_, _| n += 1);
        n
    }

    /// Removes a rule that is there. False where so many have gone that another index would be better.
    pub(super) fn remove(&mut self, rule: &Place<W>) -> bool {
        let Self { leaves, cuts, .. } = self;
        cuts.walk(&rule.asks, &mut |leaf, _| {
            leaves.get_mut(leaf).into_iter().for_each(|l| l.remove(rule.rank));
        });
        self.len -= 1;
        self.len * 2 > self.made_of
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let way = match &self.way {
            Way::Walk(walk) => walk.heap_bytes(),
            Way::Rows(root) => root.heap_bytes(),
        };
        way + self.tops.capacity() * size_of::<Top>()
            + self.leaves.capacity() * size_of::<Leaf<W>>()
            + self.leaves.iter().map(Leaf::heap_bytes).sum::<usize>()
            + self.cuts.heap_bytes()
    }
}

/// The leaves of a key.
struct Visiting<'a> {
    root: &'a Root,
    key: Words,
}

impl Work for Visiting<'_> {
    type Out = Left;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Left {
        let mut left = Left::default();
        self.root.leave(lanes, &self.key, &mut left);
        left
    }
}

/// The leaf of a key, and 1.
struct Probing<'a, const W: usize> {
    tree: &'a Tree<W>,
    walk: &'a Walk,
    key: &'a FlowKey,
}

impl<const W: usize> Work for Probing<'_, W> {
    type Out = u64;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u64 {
        let key = self.tree.form.words::<W>(self.key);
        let mut at = 0;
        for _ in 0..self.walk.levels() {
            at = self.walk.next(&key, at);
        }
        let leaf = self.walk.leaf(at);
        if let Some(leaf) = self.tree.leaves.get(leaf) {
            leaf.rows(lanes, &key);
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
    type Out = Option<RuleId>;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<RuleId> {
        let leaf = self.tree.leaves.get(self.leaf)?;
        let key = self.tree.form.words::<W>(self.key);
        leaf.winner(lanes, &key, 0).map(|f| f.1)
    }
}
