//! A copy of all rules of the parts, made in small steps while they change.
//!
//! Part of `parts`; called by `fast`'s `indexing`, which notes what rules come and go from the first step on. What is copied must only
//! miss no rule that stays: one that is copied twice, or has gone since, its rank tells. Rules move about: within a tuple when it grows or
//! closes a gap, which the tuple sees to ([`Tuple::copy_some`]); from the rest to a new tuple, which is copied when its turn comes; from a tuple
//! that is disbanded to the rest, which is copied last, by rank, and anew when that happens meanwhile. Tuples change places, so they
//! are known by their seeds.

use super::{Parts, each_of};
use crate::rule::Rule;
use crate::tuple::Tuple;

/// Times that the rest is begun anew.
const TRIES: u32 = 64;

/// How far a copy of parts has come.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    /// Seeds of the tuples that have been copied, and of the one under way.
    done: Vec<u64>,
    current: Option<u64>,
    rest: Option<Rest>,
    tries: u32,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Rules of this rank and above have been copied.
    from: Option<u64>,
    /// How often tuples had been disbanded when it was begun.
    disbanded: u32,
}

/// What there is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Some,
    All,
    /// It moves too much.
    Never,
}

impl Parts {
    /// Calls `f` for what stands in so many slots more, or for as many rules of the rest.
    pub(crate) fn copy_some(
        &mut self,
        copy: &mut Copy,
        slots: usize,
        f: &mut dyn FnMut(u64, &Rule),
    ) -> Copied {
        // Rules that move to a tuple must be found there.
        if self.are_gathering() {
            self.gather();
            return Copied::Some;
        }
        let is_current = |t: &Tuple| Some(t.seed()) == copy.current;
        let current = self.tuples.iter().position(is_current);
        let next = || self.tuples.iter().position(|t| !copy.done.contains(&t.seed()));
        if let Some(tuple) = current.or_else(next).and_then(|at| self.tuples.get_mut(at)) {
            if current.is_none() {
                tuple.begin_copy();
            }
            copy.current = Some(tuple.seed());
            if tuple.copy_some(slots, f) {
                copy.done.extend(copy.current.take());
            }
            return Copied::Some;
        }
        let mut rest = match copy.rest {
            Some(rest) if rest.disbanded == self.disbanded => rest,
            again => {
                copy.tries += u32::from(again.is_some());
                Rest { from: None, disbanded: self.disbanded }
            }
        };
        if copy.tries > TRIES {
            return Copied::Never;
        }
        let mut more = self.rest.below(rest.from).peekable();
        let mut from = rest.from;
        each_of(more.by_ref().take(slots).inspect(|r| from = Some(r.0)), f);
        let copied = if more.peek().is_some() { Copied::Some } else { Copied::All };
        rest.from = from;
        copy.rest = Some(rest);
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::dice;
    use crate::field::Field;
    use crate::rule::{Match, RuleId};
    use std::collections::HashSet;

    /// Whatever moves meanwhile, each rule that was there from the beginning to the end is copied.
    #[test]
    fn misses_none_that_stays() {
        let mut random = dice(3);
        let fields = [Field::EthDst, Field::Ipv4Dst, Field::TpDst, Field::VlanVid, Field::TpSrc];
        let (mut whole, mut disbanded, mut resized) = (0, 0, 0);
        for round in 0..120u64 {
            let (mut parts, mut rules, mut rank) = (Parts::default(), Vec::new(), 1 << 62);
            let mut put = |parts: &mut Parts,
                           rules: &mut Vec<(u64, Match, u64)>,
                           kind: u64,
                           random: &mut dyn FnMut(u64) -> u64| {
                let m = Match::any()
                    .with(fields[kind as usize % 5], random(1 << 12).into())
                    .with(Field::Ipv4Src, random(1 << 20).into());
                let m = match kind {
                    0..5 => m,
                    5..8 => m.with(fields[kind as usize % 4 + 1], 3),
                    // These have nothing in common: they stay in the rest.
                    _ => Match::any().with_masked(
                        Field::EthDst,
                        random(1 << 31).into(),
                        random(1 << 31).into(),
                    ),
                };
                rank -= 1 + (random(2) << 33);
                if parts.find(&m, (rank >> 32) as u32).is_none() {
                    parts.insert(&m, rank, RuleId(0));
                    rules.push((rank, m, kind));
                }
            };
            let kinds = 1 + round % 9;
            for i in 0..20 + random(1_500) {
                put(&mut parts, &mut rules, i % kinds, &mut random);
            }
            let mut stay: HashSet<u64> = rules.iter().map(|r| r.0).collect();
            let (mut copy, mut copied) = (Copy::default(), HashSet::new());
            let (grow, many) = ([9, 5, 1, 0][round as usize % 4], random(12));
            // A copy in such small steps must end some time.
            let mut steps = 0..600;
            let end = loop {
                let done = parts.copy_some(&mut copy, 1 + random(40) as usize, &mut |rank, _| {
                    copied.insert(rank);
                });
                if done != Copied::Some {
                    break done;
                }
                let (bytes, times) = (parts.heap_bytes(), parts.disbanded);
                // Now and then many at a time, so that there are other tuples afterwards.
                let burst = match steps.next() {
                    None => 0,
                    _ if random(12) == 0 => 100,
                    _ => many,
                };
                let grow = if burst == 100 { 10 * random(2) } else { grow };
                for i in 0..burst {
                    if random(10) < grow || rules.is_empty() {
                        put(&mut parts, &mut rules, i % 9, &mut random);
                    } else {
                        let (rank, m, _) = rules.swap_remove(random(rules.len() as u64) as usize);
                        assert_eq!(parts.remove(&m, (rank >> 32) as u32), Some((rank, RuleId(0))));
                        stay.remove(&rank);
                    }
                }
                resized += u32::from(parts.heap_bytes() != bytes);
                disbanded += u32::from(parts.disbanded != times);
            };
            if end == Copied::All {
                whole += 1;
                let missed: Vec<_> = stay.difference(&copied).collect();
                assert!(missed.is_empty(), "{round}: {} of {} missed", missed.len(), stay.len());
            }
        }
        assert!(whole > 110 && disbanded > 20 && resized > 1_000, "{whole} {disbanded} {resized}");
    }
}
