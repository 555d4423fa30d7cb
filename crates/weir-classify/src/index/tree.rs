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
use crate::key::FlowKey;
use crate::rule::RuleId;
use crate::simd::{Lanes, Line, Vectors, Work, with_vectors};
use crate::windows::{WINDOWS, Window};

/// Leaves to a line of bits, and lines, at most.
const LINE: usize = 512;
const LINES: usize = 2;
/// Bits of a window of the rows before the leaves.
const BITS: u32 = 8;
const VALUES: usize = 1 << BITS;
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

/// Of each window, the row of each value.
type Rows = [[Line; VALUES]; WINDOWS];

/// Values of one window, a bit each.
type Values = [u64; VALUES / 64];

/// A table's rules for lookups; see the head of this file.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Tree<const W: usize> {
    rows: Box<[Rows]>,
    windows: [Window; WINDOWS],
    leaves: Vec<Leaf<W>>,
    form: Form,
    /// The largest rank that a leaf has had.
    tops: Vec<u64>,
    /// Of each leaf and window: the values whose rows have its bit.
    noted: Vec<[Values; WINDOWS]>,
    cuts: Cuts,
    len: usize,
    made_of: usize,
}

impl<const W: usize> Tree<W> {
    /// All rules of a table, in any order; none where it would be no use.
    pub(super) fn new(form: Form, rules: Vec<Place<W>>) -> Option<Self> {
        let (cuts, gathered) = Cuts::new(&rules)?;
        if gathered.len() > LINE * LINES {
            return None;
        }
        let all = gathered.iter().enumerate();
        let all = all.flat_map(|(leaf, g)| g.iter().map(move |(_, asks)| (leaf, asks)));
        let windows = choose(&all.collect::<Vec<_>>(), gathered.len(), SAMPLE, BITS);
        let whole = |(i, asks): &(u32, Asks<W>)| rules.get(*i as usize).map(|r| (*r, *asks));
        let leaf = |g: &Gathered<W>| Leaf::new(g.iter().filter_map(whole).collect(), &rules);
        let leaves: Vec<Leaf<W>> = gathered.iter().map(leaf).collect();
        let mut out = Self {
            rows: vec![[[Line::default(); VALUES]; WINDOWS]; gathered.len().div_ceil(LINE)].into(),
            windows,
            tops: leaves.iter().map(Leaf::top).collect(),
            noted: vec![Default::default(); leaves.len()],
            leaves,
            form,
            cuts,
            len: rules.len(),
            made_of: rules.len(),
        };
        for (leaf, all) in gathered.iter().enumerate() {
            all.iter().for_each(|(_, asks)| out.note(leaf, asks));
        }
        Some(out)
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The leaves left, of one line.
    #[inline(always)]
    fn left<L: Lanes>(&self, lanes: L, key: &Words, rows: &Rows) -> L::Row {
        let mut left = lanes.ones();
        for (w, rows) in self.windows.iter().zip(rows) {
            left = lanes.and(left, &rows[key.of(*w) % VALUES]);
        }
        left
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
        for (line, rows) in self.rows.iter().enumerate() {
            let row = self.left(lanes, &a.key, rows);
            let (mut some, mut left) = (lanes.nonzero(row), lanes.store(row));
            while some != 0 {
                let at = (line * LINE + next(&mut some, &mut left)) as u16;
                let Some(leaf) = a.leaves.get_mut(a.count) else {
                    a.more = true;
                    return;
                };
                *leaf = at;
                if a.count == 0
                    && let Some(leaf) = self.leaves.get(usize::from(at))
                {
                    leaf.prefetch(&a.key);
                }
                a.count += 1;
            }
        }
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
        for (line, rows) in self.rows.iter().enumerate().skip(from / LINE) {
            let row = self.left(lanes, key, rows);
            let (mut some, mut left) = (lanes.nonzero(row), lanes.store(row));
            while some != 0 {
                let at = line * LINE + next(&mut some, &mut left);
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
                self.note(*leaf, asks);
                let (Some(l), Some(top)) = (self.leaves.get_mut(*leaf), self.tops.get_mut(*leaf))
                else {
                    return false;
                };
                *top = (*top).max(rule.rank);
                l.insert(rule, asks)
            })
    }

    /// Sets a leaf's bit in the rows where a rule agrees.
    fn note(&mut self, leaf: usize, asks: &Asks<W>) {
        let (word, bit) = (leaf / 64 % 8, 1u64 << (leaf % 64));
        let (Some(rows), Some(noted)) = (self.rows.get_mut(leaf / LINE), self.noted.get_mut(leaf))
        else {
            return;
        };
        for ((w, rows), noted) in self.windows.iter().zip(rows).zip(noted) {
            for (i, (has, agrees)) in noted.iter_mut().zip(agreeing(*w, asks)).enumerate() {
                let mut new = agrees & !*has;
                *has |= agrees;
                while new != 0 {
                    let value = i * 64 + new.trailing_zeros() as usize;
                    new &= new - 1;
                    rows[value % VALUES].0[word] |= bit;
                }
            }
        }
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
        size_of_val(&*self.rows)
            + self.tops.capacity() * size_of::<u64>()
            + self.noted.capacity() * size_of::<[Values; WINDOWS]>()
            + self.leaves.capacity() * size_of::<Leaf<W>>()
            + self.leaves.iter().map(Leaf::heap_bytes).sum::<usize>()
            + self.cuts.heap_bytes()
    }
}

/// Takes the first bit of those words of a line that `some` says are not zero.
#[inline(always)]
fn next(some: &mut u32, left: &mut Line) -> usize {
    let word = some.trailing_zeros() as usize % 8;
    let bits = left.0[word];
    left.0[word] = bits & bits.wrapping_sub(1);
    if left.0[word] == 0 {
        *some &= *some - 1;
    }
    word * 64 + bits.trailing_zeros() as usize % 64
}

/// The values of a window that a rule agrees with.
fn agreeing<const W: usize>(w: Window, asks: &Asks<W>) -> Values {
    let open = !w.of(&asks.mask) as usize % VALUES;
    let value = w.of(&asks.value) as usize % VALUES;
    // Within words of 64 bits, then whole words.
    let mut low = 1u64 << (value % 64);
    for bit in (0..6).filter(|b| open >> b & 1 != 0) {
        low |= low << (1 << bit);
    }
    std::array::from_fn(|i| if (i ^ (value / 64)) & !(open / 64) == 0 { low } else { 0 })
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
