//! A walk in few steps: the bits of all its cuts are picked out of a key at once, and a step goes by several of them.
//!
//! Called by `walk` alone. A cut's bit waits for the cut before it; eight cuts one behind another are eight waits. Here a node has the bits
//! of its own cut and of those behind it that lead furthest down, up to [`BITS`], and where each of their values leads. Only for
//! processors that put any bits of a word together at once ([`Lanes::any_bits`]).

use super::place::Words;
use super::walk::Step;
use crate::simd::Lanes;
use crate::windows::{Picks, WINDOWS, Window};
use std::cmp::Reverse;

/// Bits of a node, at most.
const BITS: u32 = 6;

/// A leaf has no bits and leads to itself, so that every walk has the same number of steps.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Of the picked bits.
    bits: u64,
    /// Where the first of their values has its place in `to`.
    first: u32,
}

/// See the head of this file.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Leaps {
    picks: Picks,
    rounds: usize,
    /// The first node.
    root: u16,
    /// Leaves first, each at its own number.
    nodes: Box<[Node]>,
    /// Of each node and value: the next node.
    to: Box<[u16]>,
    windows: [Window; WINDOWS],
}

impl Leaps {
    /// Of these steps, from the first on, which lead to leaves under `leaves`; none where their bits are too many to be picked at once.
    pub(super) fn new(steps: &[Step], leaves: usize) -> Option<Self> {
        let windows = windows(steps)?;
        let m = Making { steps, windows: &windows, nodes: vec![], to: vec![] };
        let (root, rounds, nodes, to) = m.make(leaves)?;
        Some(Self {
            picks: Picks::new(&windows),
            rounds,
            root,
            nodes: nodes.into(),
            to: to.into(),
            windows,
        })
    }
    /// The bits of a key that it goes by.
    #[inline(always)]
    pub(super) fn bits<L: Lanes>(&self, lanes: L, key: &Words) -> u64 {
        key.of(lanes, &self.picks, &self.windows)
    }
    /// The leaf that these lead to.
    #[inline(always)]
    pub(super) fn leaf<L: Lanes>(&self, lanes: L, bits: u64) -> usize {
        let mut at = self.root;
        for _ in 0..self.rounds {
            let Some(node) = self.nodes.get(usize::from(at)) else { break };
            let value = lanes.together(bits, node.bits) as usize;
            at = self.to.get(node.first as usize + value).copied().unwrap_or(0);
        }
        usize::from(at)
    }
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.to)
    }
}

/// Windows that have all bits of these steps.
fn windows(steps: &[Step]) -> Option<[Window; WINDOWS]> {
    let mut used = [0u64; 8];
    for s in steps.iter().filter(|s| !s.is_leaf()) {
        *used.get_mut(usize::from(s.word))? |= 1 << s.bit;
    }
    let mut out = [Window::default(); WINDOWS];
    let mut places = out.iter_mut();
    for (word, mut left) in (0..).zip(used) {
        while left != 0 {
            let mask = Window { word, mask: left }.bits().take(8).fold(0, |m, b| m | 1 << b);
            *places.next()? = Window { word, mask };
            left &= !mask;
        }
    }
    Some(out)
}

/// Nodes under way.
struct Making<'a> {
    steps: &'a [Step],
    windows: &'a [Window; WINDOWS],
    nodes: Vec<Node>,
    to: Vec<u16>,
}

impl Making<'_> {
    /// The first node, how many steps lead to any leaf, the nodes, and where they lead.
    fn make(mut self, leaves: usize) -> Option<(u16, usize, Vec<Node>, Vec<u16>)> {
        for leaf in 0..leaves {
            self.nodes.push(Node { bits: 0, first: leaf as u32 });
            self.to.push(u16::try_from(leaf).ok()?);
        }
        let (root, rounds) = self.node(0)?;
        Some((root, rounds, self.nodes, self.to))
    }

    /// The node for what begins at a step, and how many rounds lead from it to any leaf.
    fn node(&mut self, step: usize) -> Option<(u16, usize)> {
        let s = self.steps.get(step)?;
        if s.is_leaf() {
            return Some((s.leaf, 0));
        }
        let bits = self.chosen(step)?;
        let values = 1usize << bits.count_ones();
        let (at, first) = (self.nodes.len(), self.to.len());
        self.nodes.push(Node { bits, first: first as u32 });
        self.to.resize(first + values, 0);
        // Many values lead to the same.
        let (mut known, mut rounds) = (Vec::<(usize, u16)>::new(), 0);
        for value in 0..values {
            let end = self.end(step, bits, value)?;
            let to = match known.iter().find(|k| k.0 == end) {
                Some((_, to)) => *to,
                None => {
                    let (to, more) = self.node(end)?;
                    known.push((end, to));
                    rounds = rounds.max(more);
                    to
                }
            };
            *self.to.get_mut(first + value)? = to;
        }
        Some((u16::try_from(at).ok()?, rounds + 1))
    }

    /// Where a step's bit is among those that are picked.
    fn picked(&self, s: &Step) -> Option<u32> {
        let here = |w: &Window| w.word == s.word && w.mask >> s.bit & 1 == 1;
        let at = self.windows.iter().position(here)?;
        let below = self.windows.get(at)?.mask & ((1 << s.bit) - 1);
        Some(8 * at as u32 + below.count_ones())
    }

    /// The bits by which one gets down furthest from a step on.
    fn chosen(&self, step: usize) -> Option<u64> {
        let mut bits = 1 << self.picked(self.steps.get(step)?)?;
        while u64::count_ones(bits) < BITS {
            let mut ends = Vec::new();
            self.ends(step, bits, &mut ends)?;
            let Some(furthest) = ends.into_iter().max_by_key(|e| (e.1, Reverse(e.0))) else {
                break;
            };
            bits |= 1 << self.picked(self.steps.get(furthest.0)?)?;
        }
        Some(bits)
    }
    /// Steps that are no leaves, to which one gets from a step on by these bits, and how many steps there are from each to the furthest leaf.
    fn ends(&self, step: usize, bits: u64, out: &mut Vec<(usize, usize)>) -> Option<()> {
        let s = self.steps.get(step)?;
        if s.is_leaf() {
            return Some(());
        }
        if bits >> self.picked(s)? & 1 == 0 {
            out.push((step, self.height(step)?));
            return Some(());
        }
        s.sides.iter().try_for_each(|to| self.ends(usize::from(*to), bits, out))
    }
    fn height(&self, step: usize) -> Option<usize> {
        let s = self.steps.get(step)?;
        if s.is_leaf() {
            return Some(0);
        }
        let [zero, one] = s.sides.map(usize::from);
        Some(1 + self.height(zero)?.max(self.height(one)?))
    }

    /// Where one gets from a step on by these bits, of which `value` has the values.
    fn end(&self, mut step: usize, bits: u64, value: usize) -> Option<usize> {
        loop {
            let s = self.steps.get(step)?;
            if s.is_leaf() {
                return Some(step);
            }
            let bit = self.picked(s)?;
            if bits >> bit & 1 == 0 {
                return Some(step);
            }
            let at = (bits & ((1 << bit) - 1)).count_ones();
            step = usize::from(s.sides[value >> at & 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::walk::Walk;
    use crate::simd::{Vectors, Work, with_vectors};
    use proptest::prelude::*;

    /// Steps from here on, of a tree whose cuts are `at`, as long as there are any.
    fn grow(cuts: &mut &[(u8, u8, bool)], steps: &mut Vec<Step>, leaves: &mut u16, level: usize) {
        let me = steps.len() as u16;
        let leaf = Step { word: 0, bit: 0, sides: [me; 2], leaf: *leaves };
        match cuts.split_first() {
            Some((&(word, bit, true), rest)) if level < 16 => {
                *cuts = rest;
                steps.push(Step { word, bit, sides: [me + 1, 0], leaf: 0 });
                grow(cuts, steps, leaves, level + 1);
                let next = steps.len() as u16;
                steps[usize::from(me)].sides[1] = next;
                grow(cuts, steps, leaves, level + 1);
            }
            other => {
                *cuts = other.map_or(&[], |o| o.1);
                steps.push(leaf);
                // Some share one.
                *leaves += u16::from(*leaves % 3 != 2 || me.is_multiple_of(2));
            }
        }
    }

    struct Both<'a>(&'a Leaps, [u64; 7]);
    impl Work for Both<'_> {
        type Out = usize;
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> usize {
            self.0.leaf(lanes, self.0.bits(lanes, &Words::new(&self.1)))
        }
    }

    proptest! {
        /// Leaps lead where the steps do, with any instructions.
        #[test]
        fn leaps_lead_where_steps_do(
            cuts in prop::collection::vec((0u8..3, 0u8..24, prop::bool::weighted(0.8)), 0..200),
            keys in prop::collection::vec(prop::array::uniform7(any::<u64>()), 1..40),
        ) {
            let (mut steps, mut leaves) = (Vec::new(), 0);
            grow(&mut cuts.as_slice(), &mut steps, &mut leaves, 0);
            let number = steps.iter().map(|s| usize::from(s.leaf) + 1).max().unwrap();
            // Three words of 24 bits are nine windows, if all are asked for.
            let mut used = std::collections::BTreeMap::<u8, std::collections::BTreeSet<u8>>::new();
            for s in steps.iter().filter(|s| !s.is_leaf()) {
                used.entry(s.word).or_default().insert(s.bit);
            }
            let needed: usize = used.values().map(|bits| bits.len().div_ceil(8)).sum();
            let leaps = Leaps::new(&steps, number);
            prop_assert_eq!(leaps.is_some(), needed <= WINDOWS);
            let Some(leaps) = leaps else { return Ok(()) };
            let walk = Walk::new(steps, 16);
            for key in keys {
                let words = Words::new(&key);
                let at = (0..16).fold(0, |at, _| walk.next(&words, at));
                for v in Vectors::available() {
                    prop_assert_eq!(with_vectors(v, Both(&leaps, key)), walk.leaf(at), "{}", v.name());
                }
            }
        }
    }

    /// Sixteen cuts one behind another are three steps, not sixteen.
    #[test]
    fn a_long_walk_is_a_few_leaps() {
        let mut steps = Vec::new();
        for level in 0..16 {
            let me = 2 * level;
            steps.push(Step { word: 0, bit: level as u8, sides: [me + 1, me + 2], leaf: 0 });
            steps.push(Step { word: 0, bit: 0, sides: [me + 1; 2], leaf: level });
        }
        steps.push(Step { word: 0, bit: 0, sides: [32; 2], leaf: 16 });
        let leaps = Leaps::new(&steps, 17).unwrap();
        assert_eq!(leaps.rounds, 3);
        for zeros in 0..17u64 {
            let key = (0..16).filter(|b| *b != zeros).fold(0, |k, b| k | 1 << b);
            let leaf = with_vectors(Vectors::best(), Both(&leaps, [key; 7]));
            assert_eq!(leaf as u64, zeros);
        }
    }
}
