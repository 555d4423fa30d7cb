//! Which mask a new tuple should have: the one that takes most rules and tells them apart.
//!
//! Room: data-path core, control side. Called by `fast` when its rest has grown. Pure.
//! Cost: a few passes over the rules for each starting mask; the square of their number at most.

use crate::key::{FlowKey, FlowMask};
use std::collections::HashMap;

/// Rules of one slot that count for a mask: more would make its buckets long.
const COUNTED: u32 = 16;
/// Starting masks tried.
const STARTS: usize = 8;
/// Masks tried from each start.
const STEPS: usize = 24;

/// A mask for a tuple that takes at least `wanted` of the rules, or all of them if there are that
/// many. `masks[i]` and `values[i]` are rule `i`'s.
pub(crate) fn choose(masks: &[FlowMask], values: &[FlowKey], wanted: usize) -> Option<FlowMask> {
    let mut counts: HashMap<FlowMask, usize> = HashMap::new();
    for m in masks {
        *counts.entry(*m).or_default() += 1;
    }
    let mut starts: Vec<(usize, FlowMask)> =
        counts.into_iter().filter(|(m, _)| !m.is_empty()).map(|(m, n)| (n, m)).collect();
    starts.sort_unstable_by(|a, b| b.cmp(a));
    // A mask that most rules have is an exact tuple: one comparison, no buckets.
    if let Some(&(n, m)) = starts.first()
        && n >= wanted
        && 2 * n >= masks.len()
    {
        return Some(m);
    }
    let mut best: Option<(usize, u32, FlowMask)> = None;
    let every = (starts.len() / STARTS).max(1);
    for &(_, start) in starts.iter().step_by(every).take(STARTS) {
        let mut mask = start;
        for _ in 0..STEPS {
            let score = score(masks, values, &mask);
            let candidate = (score, bits(&mask), mask);
            if best.is_none_or(|b| candidate > b) {
                best = Some(candidate);
            }
            // Give up the fewest bits that let one rule more in.
            let next = masks
                .iter()
                .filter(|m| !m.covers(&mask))
                .map(|m| intersection(m, &mask))
                .max_by_key(bits);
            match next {
                Some(m) if !m.is_empty() => mask = m,
                _ => break,
            }
        }
    }
    best.filter(|b| b.0 >= wanted).map(|b| b.2)
}

/// Rules that a tuple over `mask` would take, those of crowded slots not counted.
fn score(masks: &[FlowMask], values: &[FlowKey], mask: &FlowMask) -> usize {
    let mut slots: HashMap<FlowKey, u32> = HashMap::new();
    let inside = masks.iter().zip(values).filter(|(m, _)| m.covers(mask));
    inside
        .filter(|(_, v)| {
            let n = slots.entry(v.masked(mask)).or_default();
            *n += 1;
            *n <= COUNTED
        })
        .count()
}

fn bits(mask: &FlowMask) -> u32 {
    mask.0.iter().map(|w| w.count_ones()).sum()
}

fn intersection(a: &FlowMask, b: &FlowMask) -> FlowMask {
    let mut out = *a;
    for (o, b) in out.0.iter_mut().zip(b.0) {
        *o &= b;
    }
    out
}
