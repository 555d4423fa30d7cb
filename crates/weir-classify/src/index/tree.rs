//! The whole of an index: rows with a bit for every leaf, and the leaves. Who looks up ANDs eight rows, and eight more in each
//! leaf left, mostly one or two.
//!
//! Called by `index`. A lookup never walks the cuts: it asks those leaves that have a rule which agrees with the key in all of a
//! few windows of its bits, the one with the best rule first as far as they have kept their order.
//!
//! **How it changes.** A rule is put in or taken out where the cuts lead. Rows before the leaves only gain bits.
//!
//! **What it costs.** Lookup: eight lines of memory for the rows (sixteen from 512 leaves on), and for each leaf asked ten.
//! Memory: 32 KiB a leaf, and a line of 64 bytes a place, two for rules of more than three words of the key. Worst case:
//! rules of which a key agrees with all in all windows are compared one after the other, as a scan does.

use super::cuts::{Cuts, Gathered};
use super::leaf::Leaf;
use super::place::{Asks, Form, Place, Words, choose};
use super::root::{BITS, Root};
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, with_vectors};

/// Rules by which windows are chosen.
const SAMPLE: usize = 20_000;
/// Leaves that a rule may be added to.
const SPREAD: usize = 64;
/// No leaf.
const NOBODY: u16 = u16::MAX;
/// Leaves that are kept of a lookup under way.
const AHEAD: usize = 4;
/// Lookups under way at a time.
const BURST: usize = 32;

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree<const W: usize> {
    root: Root,
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
    pub(super) fn new(form: Form, rules: Vec<Place<W>>) -> Option<Self> {
        let (cuts, gathered) = Cuts::new(&rules)?;
        let all = gathered.iter().enumerate();
        let all = all.flat_map(|(leaf, g)| g.iter().map(move |(_, asks)| (leaf, asks)));
        let windows = choose(&all.collect::<Vec<_>>(), gathered.len(), SAMPLE, BITS);
        let mut root = Root::new(gathered.len(), windows)?;
        for (leaf, all) in gathered.iter().enumerate() {
            all.iter().for_each(|(_, asks)| root.note(leaf, asks));
        }
        let whole = |(i, asks): &(u32, Asks<W>)| rules.get(*i as usize).map(|r| (*r, *asks));
        let leaf = |g: &Gathered<W>| Leaf::new(g.iter().filter_map(whole).collect(), &rules);
        let leaves: Vec<Leaf<W>> = gathered.iter().map(leaf).collect();
        Some(Self {
            root,
            tops: leaves.iter().map(Leaf::top).collect(),
            leaves,
            form,
            cuts,
            len: rules.len(),
            made_of: rules.len(),
        })
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The winner for `key`, without asking ahead.
    #[inline]
    pub(super) fn lookup(&self, v: Vectors, key: &FlowKey) -> Option<RuleId> {
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

    /// Three passes, of which each asks for what the next reads.
    #[inline(always)]
    fn burst<const N: usize, L: Lanes>(
        &self,
        lanes: L,
        keys: &[FlowKey],
        found: &mut [Option<RuleId>],
    ) {
        let mut asked = [Asked::default(); N];
        for (a, key) in asked.iter_mut().zip(keys) {
            a.key = self.form.words::<W>(key);
            self.ask(lanes, a);
        }
        for a in asked.iter_mut().take(keys.len()) {
            if let Some(leaf) = self.leaves.get(usize::from(a.leaves[0])) {
                a.said = leaf.first(lanes, &a.key);
            }
        }
        for (a, found) in asked.iter().zip(found) {
            *found = self.answer(lanes, a);
        }
    }

    /// Which leaves must be asked; asks for the rows of the first.
    #[inline(always)]
    fn ask<L: Lanes>(&self, lanes: L, a: &mut Asked) {
        if let Some(words) = self.root.few(&a.key) {
            for (i, mut left) in words.into_iter().enumerate() {
                while left != 0 {
                    if !self.note(a, i * 64 + left.trailing_zeros() as usize) {
                        return;
                    }
                    left &= left - 1;
                }
            }
        }
        for line in 0..self.root.lines() {
            let (mut some, mut left) = self.root.line(lanes, &a.key, line);
            while some != 0 {
                if !self.note(a, Root::next(line, &mut some, &mut left)) {
                    return;
                }
            }
        }
    }

    /// A leaf that must be asked; false where there is no room to note it.
    #[inline(always)]
    fn note(&self, a: &mut Asked, at: usize) -> bool {
        let Some(leaf) = a.leaves.get_mut(a.count) else {
            a.more = true;
            return false;
        };
        *leaf = at as u16;
        if a.count == 0
            && let Some(leaf) = self.leaves.get(at)
        {
            leaf.prefetch(&a.key);
        }
        a.count += 1;
        true
    }

    #[inline(always)]
    fn answer<L: Lanes>(&self, lanes: L, a: &Asked) -> Option<RuleId> {
        let leaf = self.leaves.get(usize::from(a.leaves[0]))?;
        let mut best = leaf.lookup(lanes, &a.key, a.said, 0);
        for at in a.leaves.iter().take(a.count).skip(1) {
            best = self.better(lanes, &a.key, usize::from(*at), best);
        }
        if a.more {
            best = self.others(lanes, &a.key, usize::from(a.leaves[AHEAD - 1]), best);
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
        let said = leaf.first(lanes, key);
        leaf.lookup(lanes, key, said, floor).or(best)
    }

    /// The winner, where that of all leaves up to `from` is `best`.
    #[inline(always)]
    fn others<L: Lanes>(
        &self,
        lanes: L,
        key: &Words,
        from: usize,
        mut best: Option<(u64, RuleId)>,
    ) -> Option<(u64, RuleId)> {
        if let Some(words) = self.root.few(key) {
            for (i, mut left) in words.into_iter().enumerate() {
                while left != 0 {
                    let at = i * 64 + left.trailing_zeros() as usize;
                    left &= left - 1;
                    if at > from {
                        best = self.better(lanes, key, at, best);
                    }
                }
            }
        }
        for line in Root::line_of(from)..self.root.lines() {
            let (mut some, mut left) = self.root.line(lanes, key, line);
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
        to.len() <= SPREAD
            && to.iter().all(|(leaf, asks)| {
                self.root.note(*leaf, asks);
                let (Some(l), Some(top)) = (self.leaves.get_mut(*leaf), self.tops.get_mut(*leaf))
                else {
                    return false;
                };
                *top = (*top).max(rule.rank);
                l.insert(rule, asks)
            })
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
        self.root.heap_bytes()
            + self.tops.capacity() * size_of::<u64>()
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
    /// What the first has said.
    said: u64,
}

impl Default for Asked {
    fn default() -> Self {
        Self { key: Words::default(), leaves: [NOBODY; AHEAD], count: 0, more: false, said: 0 }
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
