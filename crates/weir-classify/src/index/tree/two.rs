//! Two trees: where most rules ask for a bit that others don't, the others have one of their own, and each key a leaf in both.
//!
//! Part of `tree`. Called by `index`, which asks whether a table's keys ask so many leaves by rows that one in each of two trees is less, and by
//! `changes`, as a rule goes to the tree that its spine says.

use super::{NEAR, Tree, Way};
use crate::index::cuts::{FILL, Open};
use crate::index::family::Kin;
use crate::index::leaf::{Leaving, Whole};
use crate::index::place::{Asks, Form, Place, Words, some_keys};
use crate::index::root::{Left as _, OfAny, Root};
use crate::index::spine::Spine;
use crate::simd::{Lanes, Vectors, Work, with_vectors};

/// Leaves, of a hundred keys, that are more than one in each of two trees; and keys that are asked.
const MANY_ASKED: usize = 125;
const ASKING: usize = 2048;
/// Places that a leaf of others may leave to a rule that comes; and to a key on an average, of which lookups pass over most by their ranks.
pub(super) const MANY_LEFT: usize = 16;
const LEFT: usize = 3;

/// A tree of the rules that don't ask what most do.
#[derive(Clone, Debug)]
pub(in super::super) struct Others<const W: usize> {
    spine: Spine,
    pub(in super::super) tree: Tree<W>,
}

/// Keys that some of these rules fit.
fn keys_of<const W: usize>(rules: &[Place<W>]) -> Vec<[u64; W]> {
    let all: Vec<_> = rules.iter().map(|p| (0, &p.asks)).collect();
    some_keys(&all, ASKING)
}

impl<const W: usize> Tree<W> {
    /// The same, where most have something in common, and the others a tree of their own. None but if each key has one leaf in both, and
    /// the others' leaves leave few of them to these rules' keys.
    pub(in super::super) fn with_others(
        v: Vectors,
        form: Form,
        rules: &[Place<W>],
    ) -> Option<Self> {
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
    pub(super) fn others(&self, asks: &Asks<W>) -> Option<&Self> {
        match &self.way {
            Way::Two(_, others) if !others.spine.is_of(asks) => Some(&others.tree),
            _ => None,
        }
    }
    #[inline]
    pub(super) fn others_mut(&mut self, asks: &Asks<W>) -> Option<&mut Self> {
        match &mut self.way {
            Way::Two(_, others) if !others.spine.is_of(asks) => Some(&mut others.tree),
            _ => None,
        }
    }
    /// It and the tree of others, if there is one.
    pub(in super::super) fn trees(&self) -> impl Iterator<Item = &Self> {
        let others = match &self.way {
            Way::Two(_, others) => Some(&others.tree),
            Way::One | Way::Walk(_) | Way::Rows(_) => None,
        };
        std::iter::once(self).chain(others)
    }

    /// Whether keys of these rules, all of its own, ask many leaves.
    pub(in super::super) fn asks_many(&self, v: Vectors, rules: &[Place<W>]) -> bool {
        let Way::Rows(root) = &self.way else { return false };
        let keys = keys_of(rules);
        let many = keys.len() * MANY_ASKED / 100;
        with_vectors(v, Counting { tree: self, root, keys: &keys, enough: many + 1 }) > many
    }
    /// How many places the leaves of these keys leave to them, if keys have one; of each as far as [`MANY_LEFT`].
    pub(super) fn left_to(&self, v: Vectors, keys: &[[u64; W]]) -> usize {
        let left = |key: &[u64; W]| {
            let asks = Asks { mask: [u64::MAX; W], value: *key };
            let leaf = self.cuts.first(&asks).and_then(|leaf| self.leaves.get(leaf));
            leaf.map_or(0, |leaf| with_vectors(v, Leaving { leaf, asks: &asks, enough: MANY_LEFT }))
        };
        keys.iter().map(left).sum()
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
