//! Which mask a new tuple should have: the one that takes most rules and tells them apart.
//!
//! Room: data-path core, control side. Called by `parts` when its rest has grown. Pure.
//! Cost: a few passes over the rules for each starting mask; the square of their number at most.

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::scan::{each_word, words_of};
use crate::slots::{Hashed, hash};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

/// Rules of one slot that count for a mask: more would make its buckets long.
const COUNTED: u32 = 16;
/// Starting masks tried.
const STARTS: usize = 8;
/// Masks tried from each start.
const STEPS: usize = 24;

/// A mask for a tuple that takes at least `wanted` of the rules, or all of them if there are that
/// many; one that takes nothing but rules that ask just this may lack so many `others`. `masks[i]` and `values[i]` are rule `i`'s.
pub(crate) fn choose(
    masks: &[FlowMask],
    values: &[FlowKey],
    wanted: usize,
    others: usize,
) -> Option<FlowMask> {
    let mut counts: HashMap<FlowMask, usize> = HashMap::new();
    for m in masks {
        *counts.entry(*m).or_default() += 1;
    }
    let mut starts: Vec<(usize, FlowMask)> =
        counts.into_iter().filter(|(m, _)| !m.is_empty()).map(|(m, n)| (n, m)).collect();
    starts.sort_unstable_by(|a, b| b.cmp(a));
    // A mask that most rules have is an exact tuple: one comparison, no buckets.
    if let Some(&(n, m)) = starts.first()
        && n + others >= wanted
        && 2 * n >= masks.len()
    {
        return Some(m);
    }
    let seed = RandomState::new().hash_one(masks.len()) | 1;
    let mut best: Option<(usize, u32, FlowMask)> = None;
    // What comes behind a mask is the same, whichever start led there; how far is a matter of the step at which it did.
    let mut scored: HashMap<FlowMask, usize> = HashMap::new();
    let every = (starts.len() / STARTS).max(1);
    for &(_, start) in starts.iter().step_by(every).take(STARTS) {
        let mut mask = start;
        for step in 0..STEPS {
            let before = scored.insert(mask, step);
            if before.is_some_and(|before| before <= step) {
                break;
            }
            if before.is_none() {
                let score = score(seed, masks, values, &mask);
                let candidate = (score, mask.bits(), mask);
                if best.is_none_or(|b| candidate > b) {
                    best = Some(candidate);
                }
            }
            // Give up the fewest bits that let one rule more in.
            let (words, n) = words_in(&mask);
            let words = words.get(..n).unwrap_or_default();
            let (all, mut most, mut next) = (mask.bits(), 0, None);
            for (_, m) in &starts {
                let common = common_bits(words, m, &mask);
                if (most..all).contains(&common) {
                    (most, next) = (common, Some(m));
                }
            }
            match next.map(|m| intersection(m, &mask)) {
                Some(m) if !m.is_empty() => mask = m,
                _ => break,
            }
        }
    }
    best.filter(|b| b.0 >= wanted).map(|b| b.2)
}

/// Rules that a tuple over `mask` would take, those of crowded slots not counted. Slots are told by their hash alone: who shares one
/// by chance is no more than counted wrong.
fn score(seed: u64, masks: &[FlowMask], values: &[FlowKey], mask: &FlowMask) -> usize {
    let mut slots: HashMap<u64, u32, BuildHasherDefault<Hashed>> = HashMap::default();
    let (words, n) = words_in(mask);
    let words = words.get(..n).unwrap_or_default();
    let all = mask.bits();
    let inside = masks.iter().zip(values).filter(|(m, _)| common_bits(words, m, mask) == all);
    inside
        .filter(|(_, v)| {
            let mut asked = [0; WORDS];
            for (to, word) in asked.iter_mut().zip(words) {
                let pair = v.0.get(*word).zip(mask.0.get(*word));
                *to = pair.map_or(0, |(v, m)| v & m);
            }
            let n = slots.entry(hash(seed, asked.get(..n).unwrap_or_default())).or_default();
            *n += 1;
            *n <= COUNTED
        })
        .count()
}

/// The places of the words that a mask has bits in, and how many these are.
fn words_in(mask: &FlowMask) -> ([usize; WORDS], usize) {
    let (mut words, mut n) = ([0; WORDS], 0);
    for (to, word) in words.iter_mut().zip(each_word(words_of(mask))) {
        (*to, n) = (word, n + 1);
    }
    (words, n)
}

/// How many bits two masks have in common, one of which has bits in these words alone.
fn common_bits(words: &[usize], a: &FlowMask, b: &FlowMask) -> u32 {
    let both = words.iter().filter_map(|&w| Some(a.0.get(w)? & b.0.get(w)?));
    both.map(u64::count_ones).sum()
}

fn intersection(a: &FlowMask, b: &FlowMask) -> FlowMask {
    let mut out = *a;
    for (o, b) in out.0.iter_mut().zip(&b.0) {
        *o &= b;
    }
    out
}
