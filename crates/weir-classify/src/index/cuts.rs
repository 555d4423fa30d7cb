//! Which leaves a rule belongs to: a tree of bits, chosen once for all rules that there are.
//!
//! Called by `tree`; no lookup comes here. At a cut, rules that ask for a zero go one way, for a one the other. Those that
//! don't ask go both ways where they are few beside the others, and a third way of their own where they are many.

use super::family::Kin;
use super::place::{Asks, Place, Side};
use super::walk::{LEVELS, Step, Walk};
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// Rules of a leaf when it is made, at most.
pub(super) const FILL: usize = 416;
/// Bytes of places, with their part of a leaf's rows, that a last-level cache holds beside other things.
const CACHED: usize = 8 << 20;
const ROWS: usize = 20;
/// Rules that are too few for a leaf of their own.
const FEW: usize = 64;
/// Cuts and leaves in all.
const NODES: usize = 8192;
/// Rules by which a bit is chosen.
const SAMPLE: usize = 2048;
/// What a rule that does not ask for a bit costs, beside one that does: those beside it are asked, too.
const OPEN: f64 = 1.5;
/// Rules that don't ask for a bit go both ways where those that do are so many times as many.
const COPIED: usize = 10;

/// What becomes of rules that don't ask for a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// They go both ways, always: so a key has one leaf. There may be two and a half times as many places as rules;
    /// with families up to four and a half times, as long as a last-level cache holds them.
    Both,
    /// They go both ways where they are few, else a third way. There may be twice as many places as rules.
    OrApart,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(u32),
    /// Its bit, and where to go: for a zero, a one, and, if it is not the same as both, for neither.
    Cut {
        word: u8,
        bit: u8,
        sides: [u32; 2],
        open: Option<u32>,
    },
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts {
    nodes: Vec<Node>,
    root: u32,
}

/// Rules that become a leaf: of each, which it is, and what it asks of keys that come that way.
pub(super) type Gathered<const W: usize> = Vec<(u32, Asks<W>)>;

/// Cuts under way.
struct Making<'a, const W: usize> {
    kin: &'a Kin<W>,
    open: Open,
    cuts: Cuts,
    leaves: Vec<(u32, Gathered<W>)>,
    /// Places more than rules that there may be.
    room: usize,
}

impl Open {
    /// Places that there may be for so many rules, of which so many have places of their own or are a family's.
    fn places<const W: usize>(self, rules: usize, heads: usize) -> usize {
        let cached = CACHED / (size_of::<Place<W>>() + ROWS);
        match self {
            Self::Both if heads < rules => (rules / 2 * 5).max((rules / 2 * 9).min(cached)),
            Self::Both => rules / 2 * 5,
            Self::OrApart => rules * 2,
        }
    }
    /// Cuts one behind another, at most.
    fn levels(self) -> usize {
        match self {
            Self::Both => LEVELS,
            // Each bit once or twice.
            Self::OrApart => 1024,
        }
    }
}

impl Cuts {
    /// The cuts for all these rules, and the leaves, those with the best rule first; behind them one without rules, if something may
    /// come another way than any of these. None where no bits tell the rules apart, or in so many places that it would be no use.
    pub(super) fn new<const W: usize>(
        kin: &Kin<W>,
        open: Open,
    ) -> Option<(Self, Vec<Gathered<W>>)> {
        let all: Gathered<W> = (0..).zip(&kin.heads).map(|(i, r)| (i, r.asks)).collect();
        let places = open.places::<W>(kin.rules, all.len());
        let room = (places + FILL).saturating_sub(all.len());
        let mut m = Making { kin, open, cuts: Self::default(), leaves: vec![], room };
        m.cuts.root = m.cut(all, 0)?;
        Some(m.settle())
    }

    /// Calls `f` for each leaf that a rule belongs to, and what it asks of keys that come that way, as long as `f` says to go on; for
    /// some leaves more than once.
    pub(super) fn walk<const W: usize>(
        &self,
        asks: &Asks<W>,
        f: &mut dyn FnMut(usize, &Asks<W>) -> ControlFlow<()>,
    ) {
        let _ = self.walk_from(self.root, asks, asks, f);
    }

    /// The first leaf that a rule belongs to.
    pub(super) fn first<const W: usize>(&self, asks: &Asks<W>) -> Option<usize> {
        let mut at = self.root;
        loop {
            at = match self.nodes.get(at as usize)? {
                Node::Leaf(leaf) => return Some(*leaf as usize),
                Node::Cut { word, bit, sides: [zero, one], open } => {
                    match (asks.side(*word, *bit), open) {
                        (Side::One, _) => *one,
                        (Side::Open, Some(open)) => *open,
                        _ => *zero,
                    }
                }
            }
        }
    }

    fn walk_from<const W: usize>(
        &self,
        mut at: u32,
        asks: &Asks<W>,
        narrowed: &Asks<W>,
        f: &mut dyn FnMut(usize, &Asks<W>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            match self.nodes.get(at as usize) {
                None => return ControlFlow::Continue(()),
                Some(Node::Leaf(leaf)) => return f(*leaf as usize, narrowed),
                // What the rule itself asks says where it goes, not what it was narrowed to on the way.
                Some(Node::Cut { word, bit, sides: [zero, one], open }) => {
                    at = match (asks.side(*word, *bit), open) {
                        (Side::Zero, _) => *zero,
                        (Side::One, _) => *one,
                        (Side::Open, Some(open)) => *open,
                        (Side::Open, None) => {
                            for (at, side) in [(zero, Side::Zero), (one, Side::One)] {
                                self.walk_from(*at, asks, &narrowed.on(*word, *bit, side), f)?;
                            }
                            return ControlFlow::Continue(());
                        }
                    }
                }
            }
        }
    }

    /// The way that keys go, where that is one.
    pub(super) fn walk_of_keys(&self) -> Option<Walk> {
        let mut steps = Vec::with_capacity(self.nodes.len());
        let levels = self.steps_from(self.root, 0, &mut steps)?;
        Some(Walk::new(steps, levels))
    }
    /// Adds the steps from a node on; gives the levels down to the deepest.
    fn steps_from(&self, at: u32, level: usize, steps: &mut Vec<Step>) -> Option<usize> {
        let me = u16::try_from(steps.len()).ok()?;
        match self.nodes.get(at as usize)? {
            Node::Leaf(leaf) => {
                let leaf = u16::try_from(*leaf).ok()?;
                steps.push(Step { word: 0, bit: 0, sides: [me; 2], leaf });
                Some(level)
            }
            Node::Cut { open: Some(_), .. } => None,
            Node::Cut { word, bit, sides: [zero, one], open: None } => {
                let (word, bit) = (*word, *bit);
                steps.push(Step { word, bit, sides: [me.checked_add(1)?, 0], leaf: 0 });
                let of_zero = self.steps_from(*zero, level + 1, steps)?;
                let next = u16::try_from(steps.len()).ok()?;
                steps.get_mut(usize::from(me))?.sides[1] = next;
                Some(of_zero.max(self.steps_from(*one, level + 1, steps)?))
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }
}

impl<const W: usize> Making<'_, W> {
    fn node(&mut self, n: Node) -> u32 {
        self.cuts.nodes.push(n);
        self.cuts.nodes.len() as u32 - 1
    }

    fn cut(&mut self, rules: Gathered<W>, level: usize) -> Option<u32> {
        // A rule may lead to all of them.
        if self.cuts.nodes.len() >= NODES {
            return None;
        }
        if rules.len() <= FILL {
            let node = self.node(Node::Leaf(u32::MAX));
            if !rules.is_empty() {
                self.leaves.push((node, rules));
            }
            return Some(node);
        }
        if level == self.open.levels() {
            return None;
        }
        let (word, bit) = self.best(&rules)?;
        let (mut zero, mut one, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for (i, asks) in rules {
            // Where it goes is what the rule itself asks.
            let whole = self.kin.heads.get(i as usize)?.asks;
            match whole.side(word, bit) {
                Side::Zero => zero.push((i, asks)),
                Side::One => one.push((i, asks)),
                Side::Open => open.push((i, asks)),
            }
        }
        let few =
            !zero.is_empty() && !one.is_empty() && open.len() * COPIED <= zero.len() + one.len();
        let copied = few || self.open == Open::Both;
        if copied {
            self.room = self.room.checked_sub(open.len())?;
            for (i, asks) in open.drain(..) {
                zero.push((i, asks.on(word, bit, Side::Zero)));
                one.push((i, asks.on(word, bit, Side::One)));
            }
        }
        let sides = [self.cut(zero, level + 1)?, self.cut(one, level + 1)?];
        let open = if copied { None } else { Some(self.cut(open, level + 1)?) };
        Some(self.node(Node::Cut { word, bit, sides, open }))
    }

    /// The bit that tells these rules apart best.
    fn best(&self, rules: &Gathered<W>) -> Option<(u8, u8)> {
        // Of each bit: how many rules ask for a zero, and for a one.
        let mut counts = vec![[[0u32; 2]; 64]; W];
        let step = rules.len().div_ceil(SAMPLE);
        // Where all are copied, a bit that was cut by tells no more; else who was copied may still go a third way.
        let asked = |(i, narrowed): &(u32, Asks<W>)| match self.open {
            Open::Both => Some(*narrowed),
            Open::OrApart => self.kin.heads.get(*i as usize).map(|r| r.asks),
        };
        let mut n = 0;
        for asks in rules.iter().step_by(step).filter_map(asked) {
            n += 1;
            for ((counts, mask), value) in counts.iter_mut().zip(asks.mask).zip(asks.value) {
                let mut left = mask;
                while left != 0 {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    counts[bit as usize][(value >> bit & 1) as usize] += 1;
                }
            }
        }
        let bits = counts
            .iter()
            .enumerate()
            .flat_map(|(word, c)| c.iter().enumerate().map(move |c| (word, c)));
        // A family stays whole.
        let of = |(i, _): &(u32, Asks<W>)| self.kin.splits.get(*i as usize);
        let torn = rules.iter().filter_map(of).fold(0, |all, bits| all | bits);
        let cost = |(word, (bit, [zero, one])): (usize, (usize, &[u32; 2]))| {
            let open = n - zero - one;
            if word == self.kin.word() && torn >> bit & 1 != 0 {
                return None;
            }
            if zero.max(one) == &0 || zero.min(one) == &0 && open == 0 {
                return None;
            }
            let [z, o, open, n] = [*zero, *one, open, n].map(f64::from);
            Some(((z * z + o * o) / n + open * OPEN, word as u8, bit as u8))
        };
        bits.filter_map(cost).min_by(|a, b| a.0.total_cmp(&b.0)).map(|b| (b.1, b.2))
    }

    /// Gives each leaf its number: small ones share one.
    fn settle(mut self) -> (Cuts, Vec<Gathered<W>>) {
        let rank = |g: &Gathered<W>| {
            let heads = g.iter().filter_map(|(i, _)| self.kin.heads.get(*i as usize));
            heads.map(|r| r.rank).max()
        };
        self.leaves.sort_by_cached_key(|(_, g)| Reverse(rank(g)));
        let (mut leaves, mut shared): (Vec<Gathered<W>>, Option<usize>) = (Vec::new(), None);
        for (node, rules) in self.leaves {
            let few = rules.len() < FEW;
            let open = shared
                .filter(|s| few && leaves.get(*s).is_some_and(|l| l.len() + rules.len() <= FILL));
            let at = match open {
                Some(at) => {
                    leaves.get_mut(at).into_iter().for_each(|l| l.extend(&rules));
                    at
                }
                None => {
                    leaves.push(rules);
                    leaves.len() - 1
                }
            };
            if few {
                shared = Some(at);
            }
            if let Some(n) = self.cuts.nodes.get_mut(node as usize) {
                *n = Node::Leaf(at as u32);
            }
        }
        let (last, mut others) = (leaves.len() as u32, false);
        for n in &mut self.cuts.nodes {
            if let Node::Leaf(leaf @ u32::MAX) = n {
                (*leaf, others) = (last, true);
            }
        }
        if others {
            leaves.push(Vec::new());
        }
        (self.cuts, leaves)
    }
}
