//! Lookups in indexes, many at a time: in passes, of which each asks for what the next reads.
//!
//! Called by `tree` and `index`. Keys may be one table's or many tables': that is settled when this is compiled, so that a burst
//! of one table pays nothing for it; so is that keys have a leaf in two trees. Where tables differ, what is read of each lies in no near cache, and there are passes
//! more to ask for it.

use super::family::{Alone, Families, Kindred};
use super::leaf::{Leaf, Narrow, Span, Whole};
use super::place::Words;
use super::root::{Left, OfAny, OfFew, Root};
use super::tree::{Tree, Way};
use super::walk::Walk;
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Vectors, Work, with_vectors};
use std::borrow::Borrow;

/// No leaf.
const NOBODY: usize = usize::MAX;
/// Levels of a walk that are no worse one behind another.
const AT_ONCE: usize = 3;

/// What a burst asks: at each place a tree and a key.
pub(super) trait Asking<const W: usize> {
    /// Whether trees may differ; if not they are those of place 0.
    const DIFFER: bool;
    fn len(&self) -> usize;
    fn tree(&self, i: usize) -> &Tree<W>;
    fn key(&self, i: usize) -> &FlowKey;
}

/// Keys of one table, in a row or anywhere.
pub(super) struct Same<'a, K, const W: usize> {
    pub(super) tree: &'a Tree<W>,
    pub(super) keys: &'a [K],
}

impl<K: Borrow<FlowKey>, const W: usize> Asking<W> for Same<'_, K, W> {
    const DIFFER: bool = false;
    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }
    #[inline(always)]
    fn tree(&self, _: usize) -> &Tree<W> {
        self.tree
    }
    #[inline(always)]
    fn key(&self, i: usize) -> &FlowKey {
        self.keys[i].borrow()
    }
}

/// Keys of many, whose trees have ways of one kind.
pub(super) struct Each<'a, const W: usize>(pub(super) &'a [(&'a Tree<W>, &'a FlowKey)]);

impl<const W: usize> Asking<W> for Each<'_, W> {
    const DIFFER: bool = true;
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn tree(&self, i: usize) -> &Tree<W> {
        self.0[i].0
    }
    #[inline(always)]
    fn key(&self, i: usize) -> &FlowKey {
        self.0[i].1
    }
}

/// What is told of a winner.
pub(super) trait Told: Copy {
    fn of(rank: u64, id: RuleId) -> Self;
}
impl Told for RuleId {
    #[inline(always)]
    fn of(_: u64, id: RuleId) -> Self {
        id
    }
}
/// With its rank.
impl Told for (u64, RuleId) {
    #[inline(always)]
    fn of(rank: u64, id: RuleId) -> Self {
        (rank, id)
    }
}

/// At most `N` lookups.
#[inline(always)]
pub(super) fn burst<A: Asking<W>, T: Told, const N: usize, const W: usize>(
    v: Vectors,
    asked: A,
    found: &mut [Option<T>],
) {
    if asked.len() == 0 {
        return;
    }
    match asked.tree(0).way() {
        // By itself: together they would be one function, slower for all.
        Way::Two(..) => with_vectors(v, InTurn::<_, _, N, W> { asked, found }),
        Way::One | Way::Walk(_) | Way::Rows(_) => {
            with_vectors(v, Burst::<_, _, N, W> { asked, found })
        }
    }
}

/// The same, where each key has a leaf in each of two trees, which are asked in turn.
struct InTurn<'a, A, T, const N: usize, const W: usize> {
    asked: A,
    found: &'a mut [Option<T>],
}

impl<A: Asking<W>, T: Told, const N: usize, const W: usize> Work for InTurn<'_, A, T, N, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { asked, found } = self;
        let (mut all, mut own, mut others) = ([One::default(); N], [None; N], [None; N]);
        in_tree::<_, _, Alone, _, N, W, L>(lanes, &asked, Unknown, &mut all, &mut own);
        let (trees, before) = (Others(&asked), Found(&own));
        in_tree::<_, _, Alone, _, N, W, L>(lanes, &trees, before, &mut all, &mut others);
        for ((own, others), found) in own.into_iter().zip(others).zip(found).take(asked.len()) {
            *found = others.or(own).map(|b: (u64, RuleId)| T::of(b.0, b.1));
        }
    }
}

/// The same, where it is one tree.
struct Burst<'a, A, T, const N: usize, const W: usize> {
    asked: A,
    found: &'a mut [Option<T>],
}

impl<A: Asking<W>, T: Told, const N: usize, const W: usize> Work for Burst<'_, A, T, N, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { asked, found } = self;
        // `burst` has seen to that; said here again the loops below need not ask for it, a fiftieth of a lookup.
        if asked.len() == 0 {
            return;
        }
        let trees = if A::DIFFER { asked.len() } else { 1 };
        if A::DIFFER {
            (0..trees).for_each(|i| asked.tree(i).prefetch_way());
        }
        match asked.tree(0).way() {
            Way::One => in_one::<A, T, N, W, L>(lanes, &asked, found),
            Way::Walk(_) => match (0..trees).all(|i| asked.tree(i).families().are_none()) {
                true => by_walk::<A, T, Alone, N, W, L>(lanes, &asked, found),
                false => by_walk::<A, T, &Families, N, W, L>(lanes, &asked, found),
            },
            // `InTurn` asks these.
            Way::Two(..) => {}
            Way::Rows(_) => {
                let few = |i| root_of(asked.tree(i)).is_some_and(Root::has_few);
                match (0..trees).all(few) {
                    true => by_rows::<A, T, OfFew, N, W, L>(lanes, &asked, found),
                    false => by_rows::<A, T, OfAny, N, W, L>(lanes, &asked, found),
                }
            }
        }
    }
}

#[inline(always)]
fn walk_of<const W: usize>(tree: &Tree<W>) -> Option<&Walk> {
    match tree.way() {
        Way::Walk(walk) | Way::Two(walk, _) => Some(walk),
        Way::One | Way::Rows(_) => None,
    }
}
#[inline(always)]
fn root_of<const W: usize>(tree: &Tree<W>) -> Option<&Root> {
    match tree.way() {
        Way::Rows(root) => Some(root),
        Way::One | Way::Walk(_) | Way::Two(..) => None,
    }
}

/// A lookup under way, where its key has one leaf.
#[derive(Clone, Copy, Default)]
struct One {
    key: Words,
    /// Where the walk is.
    at: u16,
    leaf: usize,
    picked: u64,
    said: u64,
}

/// What is known of a burst's keys before a tree is asked.
trait Before: Copy {
    /// Whether their words are where lookups have them.
    const WORDS: bool;
    /// The rank that another tree has found.
    fn floor(self, i: usize) -> u64;
    /// [`Leaf::first`] or [`Leaf::first_above`].
    fn first<S: Span, L: Lanes, const W: usize>(
        self,
        i: usize,
        lanes: L,
        l: &Leaf<W>,
        picked: u64,
    ) -> u64;
    /// The winner of a leaf that lies in near caches.
    fn winner<'k, S: Span, L: Lanes, const W: usize>(
        self,
        i: usize,
        lanes: L,
        leaf: &Leaf<W>,
        of: impl Kindred<'k>,
        one: &One,
    ) -> Option<(u64, RuleId)>;
}

/// Nothing is.
#[derive(Clone, Copy)]
struct Unknown;

impl Before for Unknown {
    const WORDS: bool = false;
    #[inline(always)]
    fn floor(self, _: usize) -> u64 {
        0
    }
    #[inline(always)]
    fn first<S: Span, L: Lanes, const W: usize>(
        self,
        _: usize,
        lanes: L,
        l: &Leaf<W>,
        picked: u64,
    ) -> u64 {
        l.first::<S, L>(lanes, picked)
    }
    #[inline(always)]
    fn winner<'k, S: Span, L: Lanes, const W: usize>(
        self,
        _: usize,
        lanes: L,
        leaf: &Leaf<W>,
        of: impl Kindred<'k>,
        one: &One,
    ) -> Option<(u64, RuleId)> {
        leaf.winner::<S, L>(lanes, of, &one.key, one.picked)
    }
}

/// Another tree has been asked, which has found these.
#[derive(Clone, Copy)]
struct Found<'a, const N: usize>(&'a [Option<(u64, RuleId)>; N]);

impl<const N: usize> Before for Found<'_, N> {
    const WORDS: bool = true;
    #[inline(always)]
    fn floor(self, i: usize) -> u64 {
        self.0[i % N].map_or(0, |f| f.0)
    }
    #[inline(always)]
    fn first<S: Span, L: Lanes, const W: usize>(
        self,
        i: usize,
        lanes: L,
        l: &Leaf<W>,
        picked: u64,
    ) -> u64 {
        l.first_above::<S, L>(lanes, picked, self.floor(i))
    }
    #[inline(always)]
    fn winner<'k, S: Span, L: Lanes, const W: usize>(
        self,
        i: usize,
        lanes: L,
        leaf: &Leaf<W>,
        of: impl Kindred<'k>,
        one: &One,
    ) -> Option<(u64, RuleId)> {
        let said = self.first::<S, L, W>(i, lanes, leaf, one.picked);
        leaf.lookup::<S, L>(lanes, of, &one.key, one.picked, said, self.floor(i))
    }
}

#[inline(always)]
fn by_walk<'a, A: Asking<W>, T: Told, K: Kindred<'a>, const N: usize, const W: usize, L: Lanes>(
    lanes: L,
    asked: &'a A,
    found: &mut [Option<T>],
) {
    let mut all = [One::default(); N];
    in_tree::<_, _, K, _, N, W, L>(lanes, asked, Unknown, &mut all, found);
}

#[inline(always)]
fn in_tree<
    'a,
    A: Asking<W>,
    T: Told,
    K: Kindred<'a>,
    B: Before,
    const N: usize,
    const W: usize,
    L: Lanes,
>(
    lanes: L,
    asked: &'a A,
    before: B,
    all: &mut [One; N],
    found: &mut [Option<T>],
) {
    let n = asked.len().min(N);
    let mut levels = 0;
    let Some(first) = walk_of(asked.tree(0)) else { return };
    let walk = |i| if A::DIFFER { walk_of(asked.tree(i)).unwrap_or(first) } else { first };
    if A::DIFFER {
        for i in 0..n {
            walk(i).prefetch();
            levels = walk(i).levels().max(levels);
        }
    } else {
        levels = first.levels();
    }
    if let (false, true, Some(leaps)) = (A::DIFFER, lanes.any_bits(), first.leaps()) {
        if !B::WORDS {
            for (i, a) in all.iter_mut().enumerate().take(n) {
                a.key = asked.tree(i).form().words::<W, L>(lanes, asked.key(i));
            }
        }
        for a in all.iter_mut().take(n) {
            a.picked = leaps.bits(lanes, &a.key);
        }
        for a in all.iter_mut().take(n) {
            a.leaf = leaps.leaf(lanes, a.picked);
        }
    } else {
        for (i, a) in all.iter_mut().enumerate().take(n) {
            if !B::WORDS {
                a.key = asked.tree(i).form().words_for_bits::<W>(asked.key(i));
            }
            if B::WORDS {
                a.at = 0;
            }
            for _ in 0..levels.min(AT_ONCE) {
                a.at = walk(i).next(&a.key, a.at);
            }
        }
        // Level by level: a walk's steps wait for each other, those of many keys do not.
        for _ in AT_ONCE..levels {
            for (i, a) in all.iter_mut().enumerate().take(n) {
                a.at = walk(i).next(&a.key, a.at);
            }
        }
        for (i, a) in all.iter_mut().enumerate().take(n) {
            a.leaf = walk(i).leaf(a.at);
            if let (true, Some(leaf)) = (A::DIFFER, asked.tree(i).leaf(a.leaf)) {
                leaf.prefetch(lanes);
            }
        }
    }
    in_leaves::<_, _, K, _, Whole, N, W, L>(lanes, asked, before, all, found);
}

/// What the keys' leaves have, where these are known.
#[inline(always)]
fn in_leaves<
    'a,
    A: Asking<W>,
    T: Told,
    K: Kindred<'a>,
    B: Before,
    S: Span,
    const N: usize,
    const W: usize,
    L: Lanes,
>(
    lanes: L,
    asked: &'a A,
    before: B,
    all: &mut [One; N],
    found: &mut [Option<T>],
) {
    let n = asked.len().min(N);
    if !A::DIFFER && asked.tree(0).is_near() {
        for a in all.iter_mut().take(n) {
            if let Some(leaf) = asked.tree(0).leaf(a.leaf) {
                a.picked = leaf.picked(lanes, &a.key);
            }
        }
        let of = K::of(asked.tree(0).families());
        for (i, (a, found)) in all.iter().zip(found).enumerate().take(n) {
            let leaf = asked.tree(0).leaf(a.leaf);
            let winner = leaf.and_then(|l| before.winner::<S, L, W>(i, lanes, l, of, a));
            *found = winner.map(|f| T::of(f.0, f.1));
        }
        return;
    }
    for (i, a) in all.iter_mut().enumerate().take(n) {
        if let Some(leaf) = asked.tree(i).leaf(a.leaf) {
            a.picked = leaf.rows::<S, L>(lanes, &a.key);
        }
    }
    for (i, a) in all.iter_mut().enumerate().take(n) {
        if let Some(leaf) = asked.tree(i).leaf(a.leaf) {
            a.said = before.first::<S, L, W>(i, lanes, leaf, a.picked);
        }
    }
    for (i, (a, found)) in all.iter().zip(found).enumerate().take(n) {
        *found = None;
        let Some(leaf) = asked.tree(i).leaf(a.leaf) else { continue };
        *found = leaf
            .lookup::<S, L>(
                lanes,
                K::of(asked.tree(i).families()),
                &a.key,
                a.picked,
                a.said,
                before.floor(i),
            )
            .map(|f| T::of(f.0, f.1));
    }
}

/// Keys of trees of one leaf, of few places.
#[inline(always)]
fn in_one<A: Asking<W>, T: Told, const N: usize, const W: usize, L: Lanes>(
    lanes: L,
    asked: &A,
    found: &mut [Option<T>],
) {
    // The leaf of all is 0.
    let mut all = [One::default(); N];
    for (i, a) in all.iter_mut().enumerate().take(asked.len()) {
        if let (true, Some(leaf)) = (A::DIFFER, asked.tree(i).leaf(a.leaf)) {
            leaf.prefetch(lanes);
        }
        a.key = asked.tree(i).form().words::<W, L>(lanes, asked.key(i));
    }
    in_leaves::<_, _, Alone, _, Narrow, N, W, L>(lanes, asked, Unknown, &mut all, found);
}

/// The trees of others beside these.
struct Others<'a, A>(&'a A);

impl<A: Asking<W>, const W: usize> Asking<W> for Others<'_, A> {
    const DIFFER: bool = A::DIFFER;
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn tree(&self, i: usize) -> &Tree<W> {
        match self.0.tree(i).way() {
            Way::Two(_, others) => &others.tree,
            // Not asked so.
            Way::One | Way::Walk(_) | Way::Rows(_) => self.0.tree(i),
        }
    }
    #[inline(always)]
    fn key(&self, i: usize) -> &FlowKey {
        self.0.key(i)
    }
}

/// The same where it may have several, which are asked one behind another.
#[derive(Clone, Copy)]
struct Several<S> {
    key: Words,
    /// Leaves that come after this one.
    left: S,
    leaf: usize,
    picked: u64,
    said: u64,
    /// The best so far: its rank, or 0, and its id.
    best: (u64, RuleId),
}

impl<S: Left> Default for Several<S> {
    fn default() -> Self {
        Self {
            key: Words::default(),
            left: S::default(),
            leaf: NOBODY,
            picked: 0,
            said: 0,
            best: (0, RuleId(0)),
        }
    }
}

#[inline(always)]
fn by_rows<A: Asking<W>, T: Told, S: Left, const N: usize, const W: usize, L: Lanes>(
    lanes: L,
    asked: &A,
    found: &mut [Option<T>],
) {
    let n = asked.len().min(N);
    let mut all = [Several::<S>::default(); N];
    let Some(first) = root_of(asked.tree(0)) else { return };
    let root = |i| if A::DIFFER { root_of(asked.tree(i)).unwrap_or(first) } else { first };
    // In a pass of their own: what was written a moment ago, word by word by some kinds of vectors, can't be read as a line yet.
    for (i, a) in all.iter_mut().enumerate().take(n) {
        a.key = asked.tree(i).form().words::<W, L>(lanes, asked.key(i));
    }
    // What waits for a mask register holds up nothing of its own key behind it.
    for (i, a) in all.iter_mut().enumerate().take(n) {
        a.picked = root(i).picked(lanes, &a.key);
        if A::DIFFER {
            root(i).prefetch(a.picked);
        }
    }
    for (i, a) in all.iter_mut().enumerate().take(n) {
        a.start(lanes, asked.tree(i), root(i));
        if let (true, Some(leaf)) = (A::DIFFER, asked.tree(i).leaf(a.leaf)) {
            leaf.prefetch(lanes);
        }
    }
    for (i, a) in all.iter_mut().enumerate().take(n) {
        a.ask(lanes, asked.tree(i));
    }
    // Who has found the best goes, the others ask their next leaf, all of them together.
    let (mut going, mut count) = ([0u8; N], 0);
    for (i, a) in all.iter_mut().enumerate().take(n) {
        a.first(lanes, asked.tree(i));
    }
    for (i, a) in all.iter_mut().enumerate().take(n) {
        if a.settle(lanes, asked.tree(i)) {
            going[count % N] = i as u8;
            count += 1;
        }
    }
    while count > 0 {
        for i in going.iter().take(count).map(|i| usize::from(*i) % N) {
            all[i].first_above(lanes, asked.tree(i));
        }
        let mut on = 0;
        for at in 0..count {
            let i = usize::from(going[at % N]) % N;
            if all[i].settle(lanes, asked.tree(i)) {
                going[on % N] = i as u8;
                on += 1;
            }
        }
        count = on;
    }
    for (a, found) in all.iter().zip(found).take(n) {
        *found = (a.best.0 != 0).then_some(T::of(a.best.0, a.best.1));
    }
}

impl<S: Left> Several<S> {
    /// Finds out which leaves there are, by what the key has in the root's windows.
    #[inline(always)]
    fn start<const W: usize, L: Lanes>(&mut self, lanes: L, tree: &Tree<W>, root: &Root) {
        self.left.fill(lanes, root, self.picked);
        self.leaf = tree.next(&mut self.left, 0).unwrap_or(NOBODY);
    }
    /// Asks for the rows of its leaf.
    #[inline(always)]
    fn ask<const W: usize, L: Lanes>(&mut self, lanes: L, tree: &Tree<W>) {
        if let Some(leaf) = tree.leaf(self.leaf) {
            self.picked = leaf.rows::<Whole, L>(lanes, &self.key);
        }
    }
    /// Finds out the first place of its leaf whose rule may fit.
    #[inline(always)]
    fn first<const W: usize, L: Lanes>(&mut self, lanes: L, tree: &Tree<W>) {
        if let Some(leaf) = tree.leaf(self.leaf) {
            self.said = leaf.first::<Whole, L>(lanes, self.picked);
        }
    }
    /// The same in a leaf that is not its first.
    #[inline(always)]
    fn first_above<const W: usize, L: Lanes>(&mut self, lanes: L, tree: &Tree<W>) {
        if let Some(leaf) = tree.leaf(self.leaf) {
            self.said = leaf.first_above::<Whole, L>(lanes, self.picked, self.best.0);
        }
    }
    /// Takes what its leaf has. True where it has another to ask, whose rows are asked for.
    #[inline(always)]
    fn settle<const W: usize, L: Lanes>(&mut self, lanes: L, tree: &Tree<W>) -> bool {
        let of = tree.families();
        let best = tree.leaf(self.leaf).and_then(|l| {
            l.lookup::<Whole, L>(lanes, of, &self.key, self.picked, self.said, self.best.0)
        });
        if let Some(best) = best {
            self.best = best;
        }
        let Some(next) = tree.next(&mut self.left, self.best.0) else { return false };
        self.leaf = next;
        self.ask(lanes, tree);
        true
    }
}
