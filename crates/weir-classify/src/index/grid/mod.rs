//! A table's rules by classes of keys on two axes: for tables whose rules ask few different things of two halves of a word, such as
//! of source and destination address, and tell apart by the rest what has both.
//!
//! Called by `index` alone. A key is of one class on each axis (`axis`), and its rules are in four lists (`lists`): that of the cell where both
//! meet, whose rules ask so much that they are in few cells; those of its column and of its row, whose rules ask little of one axis; and one
//! of rules that ask little of both. What rules ask of the rest has numbers (`rest`), and so has what they ask of an axis: a key is a set of numbers of
//! each, and of 32 rules it is said at once which of their numbers are in it. Of a cell's rules that is the rest's alone.
//!
//! **How it changes.** A rule is put into its lists or taken out, in order, so that none is ever late. What asks of an axis what no rule asked when it
//! was made, or of another word anything else than all do, or finds a list full, is refused.
//!
//! **What it costs.** Lookup: of each axis up to four bytes of nodes which all keys share, of the rest up to eight, a line of a cell, and for every 32 of its
//! rules one, up to the first that fits; columns, rows and the last list lie in near caches, and are left as soon as they have nothing
//! better. Rules whose ask has no number are compared one by one. Change: up to [`CELLS`] cells, [`LISTS`] columns or rows, or one list. Memory: 34 to 38 bytes
//! for a place in a list, of which there are a power of two, 8 a cell. Worst case: four lists of [`lists::MOST`] rules. Decisions 99 and 100.

mod axis;
mod burst;
mod lists;
mod rest;

use super::Which;
use super::burst::Told;
use super::place::{Asks, Form, Place, Words, some_keys};
use crate::key::FlowKey;
use crate::rule::{Rule, RuleId};
use crate::simd::{Half, Lanes, Set, Vectors, with_vectors};
use crate::sorted::BURST;
use axis::{Asked, Axis, Begin};
use burst::{At, Burst, Looked, One, Same};
use lists::{Beside, Best, Key, Known, Lists, NOBODY, Row};
use rest::Rest;
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::HashMap;

pub(super) use burst::lookup_several;

/// Words of the key that rules may look at.
const W: usize = super::NARROW;

/// Cells that a rule may be in, and columns or rows.
const CELLS: usize = 16;
const LISTS: usize = 64;
/// Cells in all, and of how many rules.
const ALL: usize = 1 << 16;
/// Keys by which it is found out what lookups take, and lines that they may look at, on average.
const KEYS: usize = 512;
const LINES: usize = 24;
/// Cells that are copied at a time.
const COPIED: usize = 64;

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    plan: Plan,
    /// Of each [`Kind`].
    lists: [Lists; KINDS],
    len: usize,
    made_of: usize,
}

/// What says where rules and keys are.
#[derive(Clone, Debug)]
struct Plan {
    form: Form,
    /// The axes' word, and the one that is compared.
    axes: usize,
    rest: usize,
    /// What all rules ask of the others.
    common: Asks<W>,
    across: Axis,
    down: Axis,
    /// Of what rules ask of each axis, what keys of each of its classes are.
    sets: [Vec<Half>; 2],
    /// What rules ask of the other word.
    compared: Rest,
}

/// Which lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cell,
    Column,
    Row,
    /// There is one.
    Other,
}
const KINDS: usize = 4;

impl Kind {
    const ALL: [Self; KINDS] = [Self::Cell, Self::Column, Self::Row, Self::Other];
}

/// The lists that a rule is in.
enum Home<'a> {
    /// These columns of these rows.
    Cells(&'a [u16], &'a [u16]),
    Columns(&'a [u16]),
    Rows(&'a [u16]),
    Others,
}

/// Halves of a word: the upper is across.
fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

/// What a rule asks of the halves of a word.
fn asked(asks: &Asks<W>, word: usize) -> [Asked; 2] {
    let of = |words: &[u64; W]| halves(words.get(word).copied().unwrap_or(0));
    let (mask, value) = (of(&asks.mask), of(&asks.value));
    [0, 1].map(|i| Asked { mask: mask[i], value: value[i] })
}

/// What a rule asks of a word; nothing of one that there is not.
fn word(asks: &Asks<W>, word: usize) -> lists::Asks {
    let of = |words: &[u64; W]| words.get(word).copied().unwrap_or(0);
    lists::Asks { mask: of(&asks.mask), value: of(&asks.value) }
}

impl Plan {
    /// Where the axes are of this word and another is compared; none where too many classes would be told apart.
    fn new(form: Form, rules: &[Place<W>], axes: usize, rest: usize) -> Option<Self> {
        let axis =
            |i: usize| Axis::new(rules.iter().map(|r| asked(&r.asks, axes)[i]), Begin::Sixteen);
        let (across, down) = (axis(0)?, axis(1)?);
        if across.count() * down.count() > ALL.min(4 * rules.len()) {
            return None;
        }
        let mut common = rules.first()?.asks;
        for word in [axes, rest] {
            common.mask.get_mut(word).into_iter().for_each(|m| *m = 0);
            common.value.get_mut(word).into_iter().for_each(|v| *v = 0);
        }
        let mut asks = HashMap::<_, usize>::new();
        rules.iter().for_each(|r| *asks.entry(word(&r.asks, rest)).or_default() += 1);
        let mut asks: Vec<_> = asks.into_iter().collect();
        asks.sort_unstable_by_key(|(a, rules)| (Reverse(*rules), a.mask, a.value));
        let asks: Vec<_> = asks.into_iter().map(|(asks, _)| asks).collect();
        let sets = [across.sets(), down.sets()];
        let compared = Rest::new(&asks)?;
        Some(Self { form, axes, rest, common, across, down, sets, compared })
    }
    /// Lists that there are of each kind.
    fn counts(&self) -> [usize; KINDS] {
        let (width, height) = (self.across.count(), self.down.count());
        [width * height, width, height, 1]
    }
    /// A rule's row, if it can have one.
    fn row(&self, asks: &Asks<W>, rank: u64, id: RuleId) -> Option<Row> {
        let is_common = (0..W)
            .filter(|w| ![self.axes, self.rest].contains(w))
            .all(|w| word(asks, w) == word(&self.common, w));
        let [across, down] = asked(asks, self.axes);
        let asked = [self.across.number(across)?, self.down.number(down)?];
        let known = Known { rank, id: id.0, asked };
        let rest = word(asks, self.rest);
        is_common.then(|| Row { known, rest, number: self.compared.number(rest) })
    }
    /// Where rules are that ask these of the axes.
    fn home(&self, asked: [u16; 2]) -> Option<Home<'_>> {
        let (across, down) = (self.across.asked(asked[0])?.1, self.down.asked(asked[1])?.1);
        Some(match (across.len(), down.len()) {
            (x, y) if x * y <= CELLS => Home::Cells(across, down),
            (x, y) if x <= y && x <= LISTS => Home::Columns(across),
            (_, y) if y <= LISTS => Home::Rows(down),
            _ => Home::Others,
        })
    }
    /// Calls `f` with the kind and the number of each list.
    fn each_list(&self, home: &Home<'_>, mut f: impl FnMut(Kind, usize)) {
        match home {
            Home::Cells(across, down) => {
                for x in *across {
                    let cell = |y: &u16| self.cell(usize::from(*x), usize::from(*y));
                    down.iter().for_each(|y| f(Kind::Cell, cell(y)));
                }
            }
            Home::Columns(across) => across.iter().for_each(|x| f(Kind::Column, usize::from(*x))),
            Home::Rows(down) => down.iter().for_each(|y| f(Kind::Row, usize::from(*y))),
            Home::Others => f(Kind::Other, 0),
        }
    }
    /// The first of a rule's lists: its kind and number.
    fn first(&self, asked: [u16; 2]) -> Option<(Kind, usize)> {
        let mut first = None;
        self.each_list(&self.home(asked)?, |kind, list| {
            first.get_or_insert((kind, list));
        });
        first
    }
    /// The lists of a rule, which are of one kind.
    fn lists_of(&self, asked: [u16; 2]) -> Option<(Kind, Vec<usize>)> {
        let (mut of, mut lists) = (Kind::Other, Vec::with_capacity(LISTS));
        self.each_list(&self.home(asked)?, |kind, list| {
            of = kind;
            lists.push(list);
        });
        Some((of, lists))
    }
    #[inline(always)]
    fn cell(&self, across: usize, down: usize) -> usize {
        across * self.down.count() + down
    }
    /// All that a rule asks.
    fn asks(&self, row: &Row) -> Asks<W> {
        let mut asks = self.common;
        let of = |axis: &Axis, at: usize| {
            let number = row.known.asked[at];
            axis.asked(number).map_or(Asked { mask: 0, value: 0 }, |a| a.0)
        };
        let (across, down) = (of(&self.across, 0), of(&self.down, 1));
        let join = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let axes = (join(across.mask, down.mask), join(across.value, down.value));
        for (word, (mask, value)) in
            [(self.axes, axes), (self.rest, (row.rest.mask, row.rest.value))]
        {
            asks.mask.get_mut(word).into_iter().for_each(|m| *m = mask);
            asks.value.get_mut(word).into_iter().for_each(|v| *v = value);
        }
        asks
    }
    /// Where a key is.
    #[inline(always)]
    fn place(&self, words: &Words) -> At {
        let all = words.all();
        let mut differ = 0;
        for i in 0..W {
            differ |= (all[i % 8] & self.common.mask[i]) ^ self.common.value[i];
        }
        let [across, down] = halves(all[self.axes % 8]);
        let (across, down) = (self.across.class(across), self.down.class(down));
        let cell = self.cell(across, down);
        let (across, down) = (across as u16, down as u16);
        let word = all[self.rest % 8];
        At { word, cell, across, down, is_other: differ != 0, first: NOBODY }
    }
    /// What a key is.
    #[inline(always)]
    fn key<'a, const SET: usize>(&'a self, at: &At, rest: &'a Set<SET>) -> Key<'a, SET> {
        let none = const { &Half::NONE };
        let [across, down] = &self.sets;
        let across = across.get(usize::from(at.across)).unwrap_or(none);
        let down = down.get(usize::from(at.down)).unwrap_or(none);
        Key { word: at.word, rest, axes: [across, down] }
    }
}

impl Grid {
    /// Of these rules, the best first; none where they have no such axes, or where lookups would look at many of them.
    pub(super) fn new(v: Vectors, form: Form, rules: &[Place<W>]) -> Option<Self> {
        let one = rules.first()?.asks;
        let differ: Vec<usize> =
            (0..W).filter(|w| rules.iter().any(|r| word(&r.asks, *w) != word(&one, *w))).collect();
        // Of the words that rules differ in, one has the axes and the other is compared.
        let ways = match *differ.as_slice() {
            [axes] => vec![(axes, W)],
            [one, other] => vec![(one, other), (other, one)],
            _ => return None,
        };
        let plan = |(axes, rest)| Plan::new(form, rules, axes, rest);
        let by = |way| plan(way).and_then(|p| Self::by(p, rules));
        ways.into_iter().find_map(by).filter(|g| g.takes_few(v, rules))
    }
    fn by(plan: Plan, rules: &[Place<W>]) -> Option<Self> {
        let mut all = plan.counts().map(|n| vec![Vec::new(); n]);
        let mut sorted: Vec<&Place<W>> = rules.iter().collect();
        sorted.sort_unstable_by_key(|r| Reverse(r.rank));
        for rule in sorted {
            let row = plan.row(&rule.asks, rule.rank, RuleId(rule.id as u32))?;
            let home = plan.home(row.known.asked)?;
            plan.each_list(&home, |kind, list| {
                all[kind as usize].get_mut(list).into_iter().for_each(|l| l.push(row));
            });
        }
        let [cells, columns, rows, others] = &all;
        let lists = [
            Lists::new(Beside::Neither, cells)?,
            Lists::new(Beside::Down, columns)?,
            Lists::new(Beside::Across, rows)?,
            Lists::new(Beside::Both, others)?,
        ];
        Some(Self { plan, lists, len: rules.len(), made_of: rules.len() })
    }
    /// Whether lookups look at few lines.
    fn takes_few(&self, v: Vectors, rules: &[Place<W>]) -> bool {
        let rules: Vec<_> = rules.iter().map(|r| &r.asks).enumerate().collect();
        let keys = some_keys(&rules, KEYS);
        let lines = |key| with_vectors(v, Looked { grid: self, key: Words::new(key) });
        keys.iter().map(lines).sum::<usize>() <= LINES * keys.len()
    }

    #[inline(always)]
    fn of(&self, kind: Kind) -> &Lists {
        &self.lists[kind as usize]
    }
    pub(super) fn form(&self) -> &Form {
        &self.plan.form
    }
    /// Adds a rule that is not there. False where it can't have it; then it is nowhere.
    pub(super) fn insert(&mut self, _: Vectors, place: &Place<W>) -> bool {
        let row = self.plan.row(&place.asks, place.rank, RuleId(place.id as u32));
        let lists = row.and_then(|r| self.plan.lists_of(r.known.asked));
        let (Some(mut row), Some((kind, lists))) = (row, lists) else { return false };
        row.number = self.plan.compared.learn(row.rest);
        let of = &mut self.lists[kind as usize];
        let Some(full) = lists.iter().position(|list| !of.insert(*list, &row)) else {
            self.len += 1;
            return true;
        };
        for list in lists.iter().take(full) {
            of.remove(*list, row.known.rank);
        }
        false
    }
    fn known(&self, asks: &Asks<W>, which: Which) -> Option<Known> {
        let row = self.plan.row(asks, 0, RuleId(0))?;
        let (kind, list) = self.plan.first(row.known.asked)?;
        self.of(kind).find(list, row.known.asked, row.rest, which)
    }
    /// The rule that asks just this: its rank and id.
    pub(super) fn find(&self, _: Vectors, asks: &Asks<W>, which: Which) -> Option<(u64, RuleId)> {
        self.known(asks, which).map(|k| (k.rank, RuleId(k.id)))
    }
    /// Removes the rule that asks just this: its rank and id.
    pub(super) fn remove(
        &mut self,
        _: Vectors,
        asks: &Asks<W>,
        which: Which,
    ) -> Option<(u64, RuleId)> {
        let known = self.known(asks, which)?;
        let (kind, lists) = self.plan.lists_of(known.asked)?;
        for list in lists {
            self.lists[kind as usize].remove(list, known.rank);
        }
        self.len -= 1;
        Some((known.rank, RuleId(known.id)))
    }
    /// Whether so many have gone that another index would be better.
    pub(super) fn is_sparse(&self) -> bool {
        self.len * 2 < self.made_of
    }
    pub(super) fn len(&self) -> usize {
        self.len
    }
    /// Groups of lists, to be copied one by one.
    pub(super) fn leaves(&self) -> usize {
        self.count().div_ceil(COPIED)
    }
    fn count(&self) -> usize {
        self.lists.iter().map(Lists::len).sum()
    }
    /// Calls `f` for every rule whose first list is of this group, with its rank.
    pub(super) fn each_of(&self, leaf: usize, f: &mut dyn FnMut(u64, &Rule)) {
        for at in leaf * COPIED..((leaf + 1) * COPIED).min(self.count()) {
            let mut list = at;
            let Some(kind) = Kind::ALL.into_iter().find(|kind| {
                let of = self.of(*kind).len();
                let is_here = list < of;
                list -= if is_here { 0 } else { of };
                is_here
            }) else {
                continue;
            };
            for row in self.of(kind).rows(list) {
                if self.plan.first(row.known.asked) == Some((kind, list)) {
                    let matcher = self.plan.form.matcher(&self.plan.asks(&row));
                    let (priority, id) = ((row.known.rank >> 32) as u32, RuleId(row.known.id));
                    f(row.known.rank, &Rule { matcher, priority, id });
                }
            }
        }
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(super) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        self.lists.iter_mut().for_each(|l| l.rerank(f));
    }
    /// What a change of a rule writes to: the lists that it is in, or a place beside.
    pub(super) fn writes(&self, place: &Place<W>) -> usize {
        let row = self.plan.row(&place.asks, 0, RuleId(0));
        let lists = row.and_then(|r| self.plan.lists_of(r.known.asked));
        lists.map_or(1, |(_, lists)| lists.len())
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(Lists::heap_bytes).sum();
        let axes = self.plan.across.heap_bytes() + self.plan.down.heap_bytes();
        let sets: usize = self.plan.sets.iter().map(|s| s.capacity() * size_of::<Half>()).sum();
        size_of::<Self>() + axes + sets + self.plan.compared.heap_bytes() + lists
    }

    /// The best of a key's rules.
    #[inline(always)]
    fn best<L: Lanes, const SET: usize>(&self, lanes: L, at: &At, set: &Set<SET>) -> Option<Best> {
        let key = self.plan.key(at, set);
        let best = self.of(Kind::Cell).told(at.first);
        let best = self.of(Kind::Column).best(lanes, at.across.into(), &key, best, Beside::Down);
        let best = self.of(Kind::Row).best(lanes, at.down.into(), &key, best, Beside::Across);
        let best = self.of(Kind::Other).best(lanes, 0, &key, best, Beside::Both);
        (best.rank != 0 && !at.is_other).then_some(best)
    }
    /// First half of a lookup: asks for what the second reads.
    #[inline(always)]
    pub(super) fn probe(&self, _: Vectors, key: &FlowKey) -> u64 {
        let at = self.plan.place(&self.form().words_for_bits::<W>(key));
        self.of(Kind::Cell).prefetch(at.cell);
        0
    }
    /// Second half: rank and id of the winner.
    #[inline]
    pub(super) fn resolve(&self, v: Vectors, key: &FlowKey, _: u64) -> Option<(u64, RuleId)> {
        with_vectors(v, One { grid: self, key })
    }
    /// The winner for each key, and what is to be told of it.
    #[inline(always)]
    pub(super) fn lookup_all<K: Borrow<FlowKey>, T: Told>(
        &self,
        v: Vectors,
        keys: &[K],
        found: &mut [Option<T>],
    ) {
        for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
            with_vectors(v, Burst { asked: Same { grid: self, keys }, found });
        }
    }
}
