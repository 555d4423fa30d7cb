//! A table's rules in leaves of some hundreds, each with a bit for every rule: for lookups, and for changes.
//!
//! Room: data-path core. Called by `fast`, whose parts hold what an index can't take and refuses. It is made at once of a copy of all
//! rules ([`Draft`]), which knows
//! nothing of its table, in some hundredths of a second for ten thousand of them and half a second for a hundred thousand; so
//! another thread should do it. `cuts` says which leaves a rule belongs to, `leaf` what is done in one, `tree` is the whole.
//! `walk`, `leaps` and `root` say which leaves a key has, `spine` which rules have a tree of their own, `burst` looks up many keys at a time. Decisions 53 and 56 have what else was tried,
//! 57, 59, 62, 64 to 67, 71, 77, 78, 80, 84, 89, 90 and 99 what this does. `family`: rules that have one place together; `grid`: what is there in place of
//! leaves where rules ask few different things of two fields.

mod burst;
mod cuts;
mod drafted;
mod family;
mod grid;
mod leaf;
mod leaps;
mod place;
mod root;
mod spine;
mod tree;
mod walk;

use crate::key::{FlowKey, FlowMask};
use crate::parts::{Copy, FirstTuple, Parts};
use crate::ranked::MOST;
use crate::rule::{Match, Rule, RuleId};
use crate::scan::words_of;
use crate::simd::{Vectors, prefetch_slice};
use crate::sorted::{BURST, Sorted, gathered};
use burst::{Each, Same, burst};
use cuts::Open;
use family::Kin;
use grid::Grid;
use place::{Form, Place};
use tree::Tree;

pub use drafted::Drafted;
pub(crate) use drafted::{Change, Made, Replaced};
pub(crate) use leaf::Which;

/// Words of the key that rules may look at, in places of one line and of two.
const NARROW: usize = 3;
const WIDE: usize = 7;

/// Leaves that lie in a second-level cache with all that a lookup reads: about a megabyte.
const FEW: usize = 32;

/// Bytes that an index may have for each rule, and beside that.
const BYTES: usize = 512;
const SMALL: usize = 64 << 10;

/// All rules of a table, to make an index of.
#[derive(Debug)]
pub struct Draft {
    /// Of this copy.
    pub(crate) token: u64,
    /// What lookups will use.
    vectors: Vectors,
    /// The leaf of an index that is copied next; and how far parts have been.
    pub(crate) leaf: usize,
    pub(crate) parts: Copy,
    rules: Rules,
    /// Bits that the rules look at.
    union: FlowMask,
    wanted: Wanted,
}

/// What may be made of a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An index: lookups ask many parts now.
    Index,
    /// An index whose keys have one leaf each: parts are few.
    #[default]
    OneLeaf,
    /// Either, or parts: what there is is an index of what the table was.
    Either,
}

#[derive(Debug)]
enum Rules {
    Narrow(Form, Vec<Place<NARROW>>),
    Wide(Form, Vec<Place<WIDE>>),
}

/// Ways to make an index, the best first: who has a place together, and what becomes of rules that look at little.
type Make = (Together, Open);
const ONE_LEAF: [Make; 2] = [(Together::Nobody, Open::Both), (Together::Families, Open::Both)];
const WAYS: [Make; 4] = [
    ONE_LEAF[0],
    ONE_LEAF[1],
    (Together::FamiliesIfMany, Open::OrApart),
    (Together::Nobody, Open::OrApart),
];

impl Draft {
    /// For `len` rules that look at these words of the key; none where those are too many.
    pub(crate) fn new(
        token: u64,
        vectors: Vectors,
        words: u32,
        len: usize,
        wanted: Wanted,
    ) -> Option<Self> {
        let form = Form::new(words);
        let rules = match words.count_ones() as usize {
            1..=NARROW => Rules::Narrow(form, Vec::with_capacity(len)),
            n if n <= WIDE && n > NARROW => Rules::Wide(form, Vec::with_capacity(len)),
            _ => return None,
        };
        let (parts, union) = (Copy::default(), FlowMask::default());
        Some(Self { token, vectors, leaf: 0, parts, rules, union, wanted })
    }
    pub(crate) fn add(&mut self, rank: u64, id: RuleId, m: &Match) {
        // One of other words came after the beginning; then it is told of, too.
        let words = words_of(m.mask());
        match &mut self.rules {
            Rules::Narrow(form, rules) if form.has(words) => rules.push(form.place(rank, id, m)),
            Rules::Wide(form, rules) if form.has(words) => rules.push(form.place(rank, id, m)),
            _ => return,
        }
        self.union = self.union.union(m.mask());
    }
    /// Rules that have been copied so far; one that was moved meanwhile may be among them twice.
    pub fn rules(&self) -> usize {
        match &self.rules {
            Rules::Narrow(_, rules) => rules.len(),
            Rules::Wide(_, rules) => rules.len(),
        }
    }
    /// Makes the index, or parts where these are better than the one that there was: a pure computation, of about ten microseconds a rule.
    pub fn make(mut self) -> Drafted {
        self.sort_out();
        let len = self.rules();
        let mut parts = self.in_parts();
        if let Some(parts) = parts.take_if(|p| !p.are_some()) {
            return self.made(Made::Parts, None, parts);
        }
        // A grid, where there may be one.
        if len >= MOST
            && parts.is_none()
            && let Some(grid) = self.grid().filter(|g| g.is_worth(len))
        {
            return self.made(Made::of(Some(grid)), Some(Wanted::Index), Parts::default());
        }
        // One leaf a key, if there is a way; rules by rank, or few parts, are better than several. Else rules by themselves tell
        // leaves apart better than families do, unless that takes twice as many places.
        let (tried, ways): (_, &[_]) = match self.wanted {
            Wanted::Index | Wanted::Either if len > MOST && parts.is_none() => {
                (Wanted::Index, &WAYS)
            }
            _ => (Wanted::OneLeaf, &ONE_LEAF),
        };
        let is_good = |i: &Index| i.is_worth(len) && !i.would_scatter();
        let index = ways.iter().find_map(|(kin, open)| self.index(*kin, *open).filter(is_good));
        // Of two trees each key asks two leaves.
        let index = match index {
            Some(rows) if self.asks_many(&rows) => {
                self.with_others().filter(is_good).or(Some(rows))
            }
            index => index,
        };
        match (index, parts) {
            (None, Some(parts)) => self.made(Made::Parts, Some(tried), parts),
            (index, _) => self.made(Made::of(index), Some(tried), Parts::default()),
        }
    }
    /// One whose keys may have several leaves.
    #[cfg(test)]
    pub(crate) fn make_by_rows(self) -> Drafted {
        self.make_first(&[(Together::Families, Open::OrApart), (Together::Nobody, Open::OrApart)])
    }
    /// One of two trees, if there can be one.
    #[cfg(test)]
    pub(crate) fn make_with_others(mut self) -> Drafted {
        self.sort_out();
        match self.with_others() {
            None => self.make_by_rows(),
            index => self.made(Made::of(index), Some(Wanted::Index), Parts::default()),
        }
    }
    /// One with families, whether they spare much or not, whose keys have one leaf or, if need be, several.
    #[cfg(test)]
    pub(crate) fn make_by_families(self) -> Drafted {
        self.make_first(&[(Together::Families, Open::Both), (Together::Families, Open::OrApart)])
    }
    /// One by classes on two axes, if there can be one.
    #[cfg(test)]
    pub(crate) fn make_by_grid(mut self) -> Drafted {
        self.sort_out();
        match self.grid() {
            None => self.make_by_rows(),
            grid => self.made(Made::of(grid), Some(Wanted::Index), Parts::default()),
        }
    }
    /// The first of these that there can be.
    #[cfg(test)]
    fn make_first(mut self, ways: &[Make]) -> Drafted {
        self.sort_out();
        let index = ways.iter().find_map(|(kin, open)| self.index(*kin, *open));
        self.made(Made::of(index), Some(Wanted::Index), Parts::default())
    }
    fn made(&self, made: Made, tried: Option<Wanted>, beside: Parts) -> Drafted {
        let Self { token, union, vectors, .. } = *self;
        Drafted { token, union, vectors, made, tried, beside, noted: Vec::new(), replaced: None }
    }
    /// All rules in parts, where the draft says so, and these are few or so few rules that they may stand by rank beside them.
    fn in_parts(&self) -> Option<Parts> {
        if self.wanted != Wanted::Either {
            return None;
        }
        let mut parts = Parts::with_first_tuple(FirstTuple::WhenDue);
        let mut add = |rank: u64, id, m: &Match| {
            // What went and came again while it was copied may stand here twice; what is noted settles which holds.
            if parts.find(m, (rank >> 32) as u32).is_none() {
                parts.insert(m, rank, id);
                parts.gather();
            }
            self.rules() <= MOST || !parts.are_many()
        };
        let few = match &self.rules {
            Rules::Narrow(form, rules) => {
                rules.iter().all(|p| add(p.rank, RuleId(p.id as u32), &form.matcher(&p.asks)))
            }
            Rules::Wide(form, rules) => {
                rules.iter().all(|p| add(p.rank, RuleId(p.id as u32), &form.matcher(&p.asks)))
            }
        };
        while parts.are_gathering() {
            parts.gather();
        }
        few.then_some(parts)
    }
    /// Each rule once, however often it was copied.
    fn sort_out(&mut self) {
        match &mut self.rules {
            Rules::Narrow(_, rules) => once(rules),
            Rules::Wide(_, rules) => once(rules),
        }
    }
    /// One whose keys have a leaf in each of two trees.
    fn with_others(&self) -> Option<Index> {
        let v = self.vectors;
        match &self.rules {
            Rules::Narrow(form, rules) => Tree::with_others(v, *form, rules).map(Index::Narrow),
            Rules::Wide(form, rules) => Tree::with_others(v, *form, rules).map(Index::Wide),
        }
    }
    /// Whether lookups ask so many leaves of it that one in each of two trees is less.
    fn asks_many(&self, index: &Index) -> bool {
        let v = self.vectors;
        match (index, &self.rules) {
            (Index::Narrow(tree), Rules::Narrow(_, rules)) => tree.asks_many(v, rules),
            (Index::Wide(tree), Rules::Wide(_, rules)) => tree.asks_many(v, rules),
            _ => false,
        }
    }
    /// One by classes on two axes.
    fn grid(&self) -> Option<Index> {
        match &self.rules {
            Rules::Narrow(form, rules) => {
                Grid::new(self.vectors, *form, rules).map(Box::new).map(Index::Grid)
            }
            Rules::Wide(..) => None,
        }
    }
    fn index(&self, kin: Together, open: Open) -> Option<Index> {
        let v = self.vectors;
        match &self.rules {
            Rules::Narrow(form, rules) => {
                Tree::new(v, *form, kin.of(rules)?, open).map(Tree::narrowed).map(Index::Narrow)
            }
            Rules::Wide(form, rules) => {
                Tree::new(v, *form, kin.of(rules)?, open).map(Tree::narrowed).map(Index::Wide)
            }
        }
    }
}

/// Which rules have one place together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    Nobody,
    Families,
    /// The same, where that spares half of all places.
    FamiliesIfMany,
}

impl Together {
    fn of<const W: usize>(self, rules: &[Place<W>]) -> Option<Kin<W>> {
        match self {
            Self::Nobody => Some(Kin::none(rules)),
            Self::Families => Kin::of(rules),
            Self::FamiliesIfMany => Kin::of(rules).filter(|k| k.heads.len() * 2 <= rules.len()),
        }
    }
}

fn once<const W: usize>(rules: &mut Vec<Place<W>>) {
    rules.sort_unstable_by_key(|r| std::cmp::Reverse(r.rank));
    rules.dedup_by_key(|r| r.rank);
}

/// Kinds of indexes: trees' ways, of both widths, and grids.
const KINDS: usize = GRIDS + 1;
const GRIDS: usize = 2 * tree::KINDS;

/// Bytes of an index up to which way its tree has: what lookups read of it first, and all of it where it has one leaf of few places.
const READ: usize = 16 + std::mem::offset_of!(Tree<WIDE>, way);
const _: () =
    assert!(std::mem::offset_of!(Tree<WIDE>, way) == std::mem::offset_of!(Tree<NARROW>, way));

/// Some of a burst's lookups, of what is asked alike: what each has found goes to its place.
#[inline(always)]
fn some<'a, T: std::marker::Copy>(
    asked: &[(&'a Index, &'a FlowKey)],
    places: impl Iterator<Item = usize> + Clone,
    of: impl Fn(&'a Index) -> Option<T>,
    look_up: impl FnOnce(&[(T, &'a FlowKey)], &mut [Option<(u64, RuleId)>]),
    found: &mut [Option<(u64, RuleId)>],
) {
    let these = places.clone().filter_map(|i| asked.get(i));
    let Some((some, count)) = gathered(these.filter_map(|a| Some((of(a.0)?, a.1)))) else { return };
    let mut own = [None; BURST];
    look_up(some.get(..count).unwrap_or_default(), &mut own);
    for (own, place) in own.into_iter().zip(places) {
        found.get_mut(place).into_iter().for_each(|f| *f = own);
    }
}

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) enum Index {
    Narrow(Tree<NARROW>),
    Wide(Tree<WIDE>),
    Grid(Box<Grid>),
}

macro_rules! each {
    ($index:expr, $own:ident => $do:expr) => {
        each!($index, $own => $do, $own => $do)
    };
    ($index:expr, $tree:ident => $do:expr, $grid:ident => $by_grid:expr) => {
        match $index {
            Index::Narrow($tree) => $do,
            Index::Wide($tree) => $do,
            Index::Grid($grid) => $by_grid,
        }
    };
}

impl Index {
    /// Rules of which one is made, at most; more than have room where each has a place, fewer than where all are of families.
    pub(crate) const MOST: usize = 4 * tree::PLACES;
    /// First half of a lookup: asks for what the second reads.
    #[inline]
    pub(crate) fn probe(&self, v: Vectors, key: &FlowKey) -> u64 {
        each!(self, i => i.probe(v, key))
    }
    /// Second half: rank and id of the winner for `key`.
    #[inline]
    pub(crate) fn resolve(&self, v: Vectors, key: &FlowKey, probe: u64) -> Option<(u64, RuleId)> {
        each!(self, i => i.resolve(v, key, probe))
    }
    /// The winner for each key.
    #[inline(always)]
    pub(crate) fn lookup_all(&self, v: Vectors, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        each!(self, i => i.lookup_all(v, keys, found));
    }
    /// Asks for what a burst reads of it first.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch_slice(std::slice::from_ref(self), READ);
    }
    /// Rank and id of the winner for each key; up to [`BURST`] of them.
    pub(crate) fn lookup_strewn(
        &self,
        v: Vectors,
        keys: &[&FlowKey],
        found: &mut [Option<(u64, RuleId)>],
    ) {
        each!(self, tree => {
            burst::<_, _, BURST, _>(v, Same { tree, keys }, found);
        }, grid => grid.lookup_all(v, keys, found));
    }
    /// Rank and id of the winner for each of the keys in the index beside it; up to [`BURST`] of them.
    pub(crate) fn lookup_several<'a>(
        v: Vectors,
        asked: &[(&'a Self, &'a FlowKey)],
        found: &mut [Option<(u64, RuleId)>],
    ) {
        let mut kinds = Sorted::<KINDS>::default();
        for (i, (index, _)) in asked.iter().enumerate().take(BURST) {
            kinds.add(index.kind(), i);
        }
        let narrow = |index: &'a Self| match index {
            Self::Narrow(tree) => Some(tree),
            Self::Wide(_) | Self::Grid(_) => None,
        };
        let wide = |index: &'a Self| match index {
            Self::Wide(tree) => Some(tree),
            Self::Narrow(_) | Self::Grid(_) => None,
        };
        let grid = |index: &'a Self| match index {
            Self::Grid(grid) => Some(&**grid),
            Self::Narrow(_) | Self::Wide(_) => None,
        };
        for kind in 0..tree::KINDS {
            let own = kinds.of(kind);
            some(asked, own, narrow, |a, f| burst::<_, _, BURST, NARROW>(v, Each(a), f), found);
            let own = kinds.of(tree::KINDS + kind);
            some(asked, own, wide, |a, f| burst::<_, _, BURST, WIDE>(v, Each(a), f), found);
        }
        some(asked, kinds.of(GRIDS), grid, |a, f| grid::lookup_several(v, a, f), found);
    }
    /// Which of the [`KINDS`]: those of one are asked together.
    fn kind(&self) -> usize {
        match self {
            Self::Narrow(tree) => tree.way().kind(),
            Self::Wide(tree) => tree::KINDS + tree.way().kind(),
            Self::Grid(_) => GRIDS,
        }
    }
    /// Adds a rule that is not there. False where it has no room for it; then it is nowhere.
    pub(crate) fn insert(&mut self, v: Vectors, rank: u64, id: RuleId, m: &Match) -> bool {
        let words = words_of(m.mask());
        each!(self, i => i.form().has(words) && i.insert(v, &i.form().place(rank, id, m)))
    }
    /// The rule that asks just this: its rank and id.
    pub(crate) fn find(&self, v: Vectors, m: &Match, which: Which) -> Option<(u64, RuleId)> {
        let words = words_of(m.mask());
        each!(self, i => match i.form().has(words) {
            true => i.find(v, &i.form().place(0, RuleId(0), m).asks, which),
            false => None,
        })
    }
    /// Removes the rule that asks just this: its rank and id.
    pub(crate) fn remove(&mut self, v: Vectors, m: &Match, which: Which) -> Option<(u64, RuleId)> {
        let words = words_of(m.mask());
        each!(self, i => match i.form().has(words) {
            true => i.remove(v, &i.form().place(0, RuleId(0), m).asks, which),
            false => None,
        })
    }
    /// Whether every key has one leaf, of so few that they lie in the caches that a flow would lie in.
    pub(crate) fn asks_one_of_few(&self) -> bool {
        each!(self, t => t.has_walk() && t.leaves() <= FEW, _g => false)
    }
    /// Whether so many have gone that another would be better.
    pub(crate) fn is_sparse(&self) -> bool {
        each!(self, i => i.is_sparse())
    }
    /// Whether changes would scatter its families soon, so that it would be made again and again.
    fn would_scatter(&self) -> bool {
        each!(self, t => t.would_scatter(), _g => false)
    }
    /// Whether it may have the memory that it takes, for so many rules.
    pub(crate) fn is_worth(&self, rules: usize) -> bool {
        self.heap_bytes() <= BYTES * rules + SMALL
    }
    /// Whether it has one leaf, of few places.
    #[cfg(test)]
    pub(crate) fn is_narrow(&self) -> bool {
        each!(self, t => matches!(t.way(), tree::Way::One), _g => false)
    }
    /// Number of rules.
    pub(crate) fn len(&self) -> usize {
        each!(self, i => i.len())
    }
    /// Calls `f` for every rule that stands in this leaf before all others, with its rank.
    pub(crate) fn each_of(&self, leaf: usize, f: &mut dyn FnMut(u64, &Rule)) {
        each!(self, t => t.each_of(leaf, &mut |p| {
            let (matcher, priority) = (t.form().matcher(&p.asks), (p.rank >> 32) as u32);
            f(p.rank, &Rule { matcher, priority, id: RuleId(p.id as u32) });
        }), g => g.each_of(leaf, f));
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(crate) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        each!(self, i => i.rerank(f));
    }
    /// Whether it is by classes on two axes.
    #[cfg(test)]
    pub(crate) fn is_grid(&self) -> bool {
        matches!(self, Self::Grid(_))
    }
    /// Trees that each key has a leaf in.
    #[cfg(test)]
    pub(crate) fn trees(&self) -> usize {
        each!(self, t => t.trees().count(), _g => 1)
    }
    /// Lines of eight that families have.
    #[cfg(test)]
    pub(crate) fn eights(&self) -> usize {
        each!(self, t => t.families().eights(), _g => 0)
    }
    /// Places that are taken, in all leaves.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        each!(self, t => t.places(), g => g.len())
    }
    /// What a change of a rule writes to, about: the leaves in which it stands, if it takes them; else a place beside, when
    /// leaves have been counted.
    pub(crate) fn writes(&self, m: &Match) -> usize {
        let words = words_of(m.mask());
        each!(self, i => match i.form().has(words) {
            true => i.writes(&i.form().place(0, RuleId(0), m)),
            false => 1,
        })
    }
    pub(crate) fn leaves(&self) -> usize {
        each!(self, i => i.leaves())
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        each!(self, i => i.heap_bytes())
    }
}
