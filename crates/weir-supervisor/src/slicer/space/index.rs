//! Which of a million matches overlap a given one: hash tables by shape.
//!
//! Room: numbers of entries and hashes of their values; the entries themselves are its owner's. Called by
//! the flow space alone, which looks at every candidate itself: too many cost time, too few would be wrong.
//!
//! Matches with the same masks are a *tuple* (Srinivasan, Suri, Varghese, "Packet Classification using Tuple
//! Space Search", SIGCOMM 1999). Two matches can overlap only where they agree in the bits that both look at, so
//! a tuple is asked by these: it keeps *views* of itself, each a hash table by some of its bits. The first has
//! them all; another is made when a question was answered by too many candidates, and only a few are kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use weir_openflow::model::{Field, Match};

/// Views of a tuple.
const VIEWS_MAX: usize = 8;
/// Candidates from which on a better view is worth its while.
const CROWD: usize = 64;

/// Which bits are looked at, by field.
type Shape = Vec<(Field, u128)>;

fn shape_of(m: &Match) -> Shape {
    m.0.iter().filter(|f| f.mask != 0).map(|f| (f.field, f.mask)).collect()
}

/// The bits that both look at.
fn common(a: &Shape, m: &Match) -> Shape {
    let both = |(field, mask): &(Field, u128)| {
        let mask = m.get(*field).map_or(0, |f| f.mask) & mask;
        (mask != 0).then_some((*field, mask))
    };
    a.iter().filter_map(both).collect()
}

fn looks_at_no_more(a: &Shape, b: &Shape) -> bool {
    a.iter().all(|(f, m)| b.iter().any(|(g, n)| f == g && m & !n == 0))
}

fn bits(s: &Shape) -> u32 {
    s.iter().map(|(_, m)| m.count_ones()).sum()
}

/// Entries with the same hash; mostly one.
#[derive(Debug)]
enum Bucket {
    One(u32),
    Many(Vec<u32>),
}

impl Bucket {
    fn slots(&self) -> &[u32] {
        match self {
            Self::One(n) => std::slice::from_ref(n),
            Self::Many(all) => all,
        }
    }
}

#[derive(Debug)]
struct View {
    shape: Shape,
    by_value: HashMap<u64, Bucket>,
}

impl View {
    fn new(shape: Shape) -> Self {
        Self { shape, by_value: HashMap::new() }
    }
    fn hash(&self, m: &Match, by: &RandomState) -> u64 {
        // A shape of few fields: the values one after the other say all.
        let mut values = [0u128; Field::COUNT];
        for (at, (field, mask)) in values.iter_mut().zip(&self.shape) {
            *at = m.get(*field).map_or(0, |f| f.value & mask);
        }
        by.hash_one(values.get(..self.shape.len()).unwrap_or_default())
    }
    fn insert(&mut self, slot: u32, m: &Match, by: &RandomState) {
        let hash = self.hash(m, by);
        let bucket = self.by_value.entry(hash);
        bucket
            .and_modify(|b| match b {
                Bucket::One(n) => *b = Bucket::Many(vec![*n, slot]),
                Bucket::Many(all) => all.push(slot),
            })
            .or_insert(Bucket::One(slot));
    }
    fn remove(&mut self, slot: u32, m: &Match, by: &RandomState) {
        let hash = self.hash(m, by);
        let empty = match self.by_value.get_mut(&hash) {
            Some(Bucket::One(n)) => *n == slot,
            Some(Bucket::Many(all)) => {
                if let Some(at) = all.iter().position(|n| *n == slot) {
                    all.swap_remove(at);
                }
                all.is_empty()
            }
            None => false,
        };
        if empty {
            self.by_value.remove(&hash);
        }
    }
}

#[derive(Debug)]
struct Tuple {
    /// The first looks at all of the tuple's bits.
    views: Vec<View>,
    entries: usize,
}

impl Tuple {
    fn shape(&self) -> Option<&Shape> {
        self.views.first().map(|v| &v.shape)
    }
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    tuples: Vec<Tuple>,
    by_shape: HashMap<Shape, usize>,
    hasher: RandomState,
}

impl Index {
    /// Adds an entry under a number of its owner's.
    pub fn insert(&mut self, slot: u32, m: &Match) {
        let shape = shape_of(m);
        let at = *self.by_shape.entry(shape).or_insert_with_key(|shape| {
            self.tuples.push(Tuple { views: vec![View::new(shape.clone())], entries: 0 });
            self.tuples.len() - 1
        });
        if let Some(t) = self.tuples.get_mut(at) {
            t.entries += 1;
            t.views.iter_mut().for_each(|v| v.insert(slot, m, &self.hasher));
        }
    }

    /// Removes what was inserted so.
    pub fn remove(&mut self, slot: u32, m: &Match) {
        let shape = shape_of(m);
        let Some(at) = self.by_shape.get(&shape).copied() else { return };
        let Some(t) = self.tuples.get_mut(at) else { return };
        t.views.iter_mut().for_each(|v| v.remove(slot, m, &self.hasher));
        t.entries -= 1;
        if t.entries > 0 {
            return;
        }
        self.by_shape.remove(&shape);
        self.tuples.swap_remove(at);
        if let Some(moved) = self.tuples.get(at).and_then(Tuple::shape) {
            self.by_shape.insert(moved.clone(), at);
        }
    }

    /// Calls `f` with every entry that may overlap `m`, until it has had enough. `matcher` is what an
    /// entry matches.
    pub fn candidates<'a>(
        &mut self,
        m: &Match,
        matcher: impl Fn(u32) -> Option<&'a Match>,
        mut f: impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for t in &mut self.tuples {
            let Some(all) = t.shape() else { continue };
            let wanted = common(all, m);
            let fit = t.views.iter().enumerate();
            let fit = fit.filter(|(_, v)| looks_at_no_more(&v.shape, &wanted));
            let best = fit.max_by_key(|(_, v)| bits(&v.shape)).map(|(i, _)| i);
            let view = match best.and_then(|i| t.views.get(i)) {
                Some(v) if v.shape == wanted => Some(v),
                other => {
                    let hash = other.map(|v| v.hash(m, &self.hasher));
                    let crowd = match (other, hash) {
                        (Some(v), Some(h)) => v.by_value.get(&h).map_or(0, |b| b.slots().len()),
                        _ => t.entries,
                    };
                    // A view of no bits at all holds everything: it says no more than the first.
                    if crowd > CROWD && t.views.len() < VIEWS_MAX && !wanted.is_empty() {
                        let mut new = View::new(wanted);
                        if let Some(first) = t.views.first() {
                            for slot in first.by_value.values().flat_map(Bucket::slots) {
                                if let Some(m) = matcher(*slot) {
                                    new.insert(*slot, m, &self.hasher);
                                }
                            }
                        }
                        t.views.push(new);
                        t.views.last()
                    } else {
                        best.and_then(|i| t.views.get(i))
                    }
                }
            };
            match view {
                Some(v) => {
                    let bucket = v.by_value.get(&v.hash(m, &self.hasher));
                    for slot in bucket.map_or(&[][..], Bucket::slots) {
                        f(*slot)?;
                    }
                }
                None => {
                    let first = t.views.first().map(|v| v.by_value.values());
                    for slot in first.into_iter().flatten().flat_map(Bucket::slots) {
                        f(*slot)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}
