//! The whole of an index: a way to the leaves, and the leaves. Where every key has one leaf (`walk`), who looks up walks the
//! cuts; else rows with a bit for every leaf say which to ask (`root`), mostly one or two.
//!
//! Called by `index`. By rows, a lookup asks those leaves that have a rule which agrees with the key in all of a few windows of
//! its bits, the one with the best rule first as far as they have kept their order.
//!
//! **How it changes.** A rule is put in or taken out where the cuts lead. Rows before the leaves only gain bits.
//!
//! **What it costs.** Lookup: for the rows eight lines of memory, which up to 128 leaves are a cache's nearest, sixteen from 512
//! leaves on; or a step for each level of the cuts; and for each leaf asked a dozen lines. Memory: 8 KiB a leaf, and a
//! line of 64 bytes a place, two for rules of more than three words of the key. Worst case: rules of which a key agrees
//! with all in all windows are compared one after the other, as a scan does.

use super::cuts::{Cuts, Gathered, Open};
use super::leaf::{Leaf, Rows};
use super::place::{Asks, Form, Place, Words, choose};
use super::root::{BITS, Root};
use super::walk::Walk;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, with_vectors};

/// Rules by which windows are chosen.
const SAMPLE: usize = 20_000;
/// Leaves, at most, and rules that are worth the memory of one.
const LEAVES: usize = 1024;
const WORTH: usize = 64;
/// Leaves that a rule may be added to; and those of which many may have to be put in order for it.
const SPREAD: usize = 256;
const SORTED: usize = 16;
/// No leaf.
const NOBODY: u16 = u16::MAX;
/// Leaves that are kept of a lookup under way.
const AHEAD: usize = 4;
/// Levels of a walk that are no worse one behind another.
const AT_ONCE: usize = 3;
/// Lookups under way at a time.
const BURST: usize = 32;

/// How a key comes to leaves.
#[derive(Clone, Debug)]
enum Way {
    /// To one.
    Walk(Walk),
    /// To those that rows leave.
    Rows(Root),
}

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree<const W: usize> {
    way: Way,
    leaves: Vec<Leaf<W>>,
    form: Form,
    /// The largest rank that a leaf has had.
    tops: Vec<u64>,
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
        let leaf = |g: &Gathered<W>| Leaf::new(v, g.iter().filter_map(whole).collect(), rules);
        let leaves: Vec<Leaf<W>> = gathered.iter().map(leaf).collect();
        Some(Self {
            way,
            tops: leaves.iter().map(Leaf::top).collect(),
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

    pub(super) fn form(&self) -> Form {
        self.form
    }
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
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
        with_vectors(v, Burst::<1, W> { tree: self, keys, found: &mut found });
        found[0]
    }
    /// The winner for each key.
    #[inline]
    pub(super) fn lookup_all(&self, v: Vectors, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            with_vectors(v, Burst::<BURST, W> { tree: self, keys, found });
        }
    }

    #[inline(always)]
    fn burst<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        keys: &[FlowKey],
        found: &mut [Option<RuleId>],
    ) {
        match &self.way {
            Way::Walk(walk) => self.burst_by_walk::<N, L>(lanes, walk, keys, found),
            Way::Rows(root) => self.burst_by_rows::<N, L>(lanes, root, keys, found),
        }
    }

    /// Three passes, of which each asks for what the next reads.
    #[inline(always)]
    fn burst_by_walk<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        walk: &Walk,
        keys: &[FlowKey],
        found: &mut [Option<RuleId>],
    ) {
        let mut asked = [One::default(); N];
        for (a, key) in asked.iter_mut().zip(keys) {
            a.key = self.form.words::<W>(key);
            for _ in 0..walk.levels().min(AT_ONCE) {
                a.at = walk.next(&a.key, a.at);
            }
        }
        // Level by level: a walk's steps wait for each other, those of many keys do not.
        for _ in AT_ONCE..walk.levels() {
            for a in asked.iter_mut().take(keys.len()) {
                a.at = walk.next(&a.key, a.at);
            }
        }
        for a in asked.iter_mut().take(keys.len()) {
            a.leaf = walk.leaf(a.at);
            if let Some(leaf) = self.leaves.get(a.leaf) {
                a.rows = leaf.rows(lanes, &a.key);
            }
        }
        for a in asked.iter_mut().take(keys.len()) {
            if let Some(leaf) = self.leaves.get(a.leaf) {
                a.said = leaf.first(lanes, &a.rows);
            }
        }
        for (a, found) in asked.iter().zip(found) {
            *found = None;
            let Some(leaf) = self.leaves.get(a.leaf) else { continue };
            *found = leaf.lookup(lanes, &a.key, &a.rows, a.said, 0).map(|f| f.1);
        }
    }

    /// The same where a key may have several leaves.
    #[inline(always)]
    fn burst_by_rows<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        root: &Root,
        keys: &[FlowKey],
        found: &mut [Option<RuleId>],
    ) {
        let mut asked = [Asked::default(); N];
        for (a, key) in asked.iter_mut().zip(keys) {
            a.key = self.form.words::<W>(key);
            self.ask(lanes, root, a);
        }
        for a in asked.iter_mut().take(keys.len()) {
            if let Some(leaf) = self.leaves.get(usize::from(a.leaves[0])) {
                a.said = leaf.first(lanes, &a.rows);
            }
        }
        for (a, found) in asked.iter().zip(found) {
            *found = self.answer(lanes, root, a);
        }
    }

    /// Which leaves must be asked; asks for the rows of the first.
    #[inline(always)]
    fn ask<L: Lanes>(&self, lanes: L, root: &Root, a: &mut Asked) {
        if let Some(words) = root.few(lanes, &a.key) {
            for (i, mut left) in words.into_iter().enumerate() {
                while left != 0 {
                    if !self.note(lanes, a, i * 64 + left.trailing_zeros() as usize) {
                        return;
                    }
                    left &= left - 1;
                }
            }
            return;
        }
        for line in 0..root.lines() {
            let (mut some, mut left) = root.line(lanes, &a.key, line);
            while some != 0 {
                if !self.note(lanes, a, Root::next(line, &mut some, &mut left)) {
                    return;
                }
            }
        }
    }

    /// A leaf that must be asked; false where there is no room to note it.
    #[inline(always)]
    fn note<L: Lanes>(&self, lanes: L, a: &mut Asked, at: usize) -> bool {
        let Some(leaf) = a.leaves.get_mut(a.count) else {
            a.more = true;
            return false;
        };
        *leaf = at as u16;
        if a.count == 0
            && let Some(leaf) = self.leaves.get(at)
        {
            a.rows = leaf.rows(lanes, &a.key);
        }
        a.count += 1;
        true
    }

    #[inline(always)]
    fn answer<L: Lanes>(&self, lanes: L, root: &Root, a: &Asked) -> Option<RuleId> {
        let leaf = self.leaves.get(usize::from(a.leaves[0]))?;
        let mut best = leaf.lookup(lanes, &a.key, &a.rows, a.said, 0);
        for at in a.leaves.iter().take(a.count).skip(1) {
            best = self.better(lanes, &a.key, usize::from(*at), best);
        }
        if a.more {
            best = self.others(lanes, root, &a.key, usize::from(a.leaves[AHEAD - 1]), best);
        }
        best.map(|b| b.1)
    }

    /// The better of `best` and what a leaf has.
    #[inline(always)]
    fn better<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        leaf: usize,
        best: Option<(u64, RuleId)>,
    ) -> Option<(u64, RuleId)> {
        let floor = match best {
            Some((rank, _)) => rank,
            None => 0,
        };
        if self.tops.get(leaf).is_none_or(|t| *t <= floor) {
            return best;
        }
        let Some(leaf) = self.leaves.get(leaf) else { return best };
        leaf.winner(lanes, key, floor).or(best)
    }

    /// The winner, where that of all leaves up to `from` is `best`.
    #[inline(always)]
    fn others<L: Lanes>(
        &self,
        lanes: L,
        root: &Root,
        key: &Words,
        from: usize,
        mut best: Option<(u64, RuleId)>,
    ) -> Option<(u64, RuleId)> {
        for line in Root::line_of(from)..root.lines() {
            let (mut some, mut left) = root.line(lanes, key, line);
            while some != 0 {
                let at = Root::next(line, &mut some, &mut left);
                if at > from {
                    best = self.better(lanes, key, at, best);
                }
            }
        }
        best
    }

    /// Adds a rule. False where there is no room; then it may be in some leaves and not in others.
    pub(super) fn insert(&mut self, rule: &Place<W>) -> bool {
        let mut to: Vec<(usize, Asks<W>)> = Vec::with_capacity(1);
        self.cuts.walk(&rule.asks, &mut |leaf, asks| to.push((leaf, *asks)));
        self.len += 1;
        let sorts = |(leaf, _): &(usize, Asks<W>)| {
            self.leaves.get(*leaf).is_some_and(|l| l.must_sort(rule.rank))
        };
        to.len() <= SPREAD
            && (to.len() <= SORTED || !to.iter().any(sorts))
            && to.iter().all(|(leaf, asks)| {
                if let Way::Rows(root) = &mut self.way {
                    root.note(*leaf, asks);
                }
                let (Some(l), Some(top)) = (self.leaves.get_mut(*leaf), self.tops.get_mut(*leaf))
                else {
                    return false;
                };
                *top = (*top).max(rule.rank);
                l.insert(rule, asks)
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
        way + self.tops.capacity() * size_of::<u64>()
            + self.leaves.capacity() * size_of::<Leaf<W>>()
            + self.leaves.iter().map(Leaf::heap_bytes).sum::<usize>()
            + self.cuts.heap_bytes()
    }
}

/// A lookup under way.
#[derive(Clone, Copy)]
struct Asked {
    key: Words,
    /// The first leaves left, how many these are, and whether there are more.
    leaves: [u16; AHEAD],
    count: usize,
    more: bool,
    /// The rows of the first, and what it has said.
    rows: Rows,
    said: u64,
}

/// The same where a key has one leaf.
#[derive(Clone, Copy, Default)]
struct One {
    key: Words,
    /// Where the walk is.
    at: u16,
    leaf: usize,
    rows: Rows,
    said: u64,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            key: Words::default(),
            leaves: [NOBODY; AHEAD],
            count: 0,
            more: false,
            rows: Rows::default(),
            said: 0,
        }
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

struct Burst<'a, const N: usize, const W: usize> {
    tree: &'a Tree<W>,
    keys: &'a [FlowKey],
    found: &'a mut [Option<RuleId>],
}

impl<const N: usize, const W: usize> Work for Burst<'_, N, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        self.tree.burst::<N, L>(lanes, self.keys, self.found);
    }
}
