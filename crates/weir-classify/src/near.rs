//! Very small tables of one mask as a line of their own, where who asks keeps what tells their rules apart.
//!
//! Room: data-path core. Called by `fast`, beside the rest or the one [`Tuple`](crate::tuple::Tuple) that is the truth, for owners that
//! keep each rule's bits ([`FastTable::word`](crate::FastTable::word)) with what they read of a rule anyway. Then nothing
//! of the classifier's must say whether the rule is the right one, and a lookup is a byte of a line that lies beside the table's
//! first one: the one rule that it can be. [`crate::packed`] has a line more to fetch, from elsewhere.
//!
//! No two rules have the same byte: for at most [`MOST`] in [`PLACES`] some seed does that, one in about 140 when there are
//! most. Seeds are random, so that no one outside can choose rules for which there is none in [`TRIES`].

use crate::rule::RuleId;

/// Rules at most.
pub(crate) const MOST: usize = 24;
/// Places for them.
pub(crate) const PLACES: usize = 64;
/// Seeds that are tried. That none of so many will do happens to one set of [`MOST`] rules in more than 10¹².
const TRIES: u32 = 4096;
/// Stands where no rule is.
const VACANT: u8 = u8::MAX;

/// Which rule it may be.
#[derive(Clone, Debug)]
pub(crate) struct Near([u8; PLACES]);

impl Default for Near {
    fn default() -> Self {
        Self([VACANT; PLACES])
    }
}

impl Near {
    /// Whether a rule with this id can stand here.
    pub(crate) fn takes(id: RuleId) -> bool {
        id.0 < u32::from(VACANT)
    }
    /// The one rule that may be meant.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize) -> Option<RuleId> {
        let id = self.0[place % PLACES];
        (id != VACANT).then_some(RuleId(id.into()))
    }
    /// Adds one, where its place is free.
    pub(crate) fn insert(&mut self, place: usize, id: RuleId) -> bool {
        let there = &mut self.0[place % PLACES];
        let free = *there == VACANT && Self::takes(id);
        if free {
            *there = id.0 as u8;
        }
        free
    }
    /// Takes one out.
    pub(crate) fn remove(&mut self, place: usize) {
        self.0[place % PLACES] = VACANT;
    }
    /// These rules, each where `place` says by a seed; with which one no two have the same place.
    pub(crate) fn all(
        rules: &[(u64, RuleId)],
        seeds: u32,
        place: impl Fn(u32, u64) -> usize,
    ) -> Option<(u32, Self)> {
        if rules.len() > MOST || !rules.iter().all(|r| Self::takes(r.1)) {
            return None;
        }
        // No seed tells such apart.
        let twice = |(i, r): (usize, &(u64, RuleId))| rules.iter().take(i).any(|o| o.0 == r.0);
        if rules.iter().enumerate().any(twice) {
            return None;
        }
        (0..TRIES).map(|n| seeds.wrapping_add(n)).find_map(|seed| {
            let mut near = Self::default();
            let all = rules.iter().all(|&(word, id)| near.insert(place(seed, word), id));
            all.then_some((seed, near))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bad as a hash can be: everyone's place is the same, whatever the seed.
    #[test]
    fn crowds_are_refused() {
        let rules = [(1, RuleId(0)), (2, RuleId(1))];
        assert!(Near::all(&rules, 7, |_, _| 3).is_none());
        let (seed, near) =
            Near::all(&rules, 7, |seed, word| (seed as usize * word as usize) % 5).unwrap();
        assert_eq!(seed, 7);
        assert_eq!((near.at(2), near.at(4), near.at(0)), (Some(RuleId(0)), Some(RuleId(1)), None));
        assert!(Near::all(&[(1, RuleId(255))], 7, |_, _| 3).is_none());
        assert!(Near::all(&[(1, RuleId(254))], 7, |_, _| 3).is_some());
        let many: Vec<_> = (0..=MOST).map(|i| (i as u64, RuleId(i as u32))).collect();
        assert!(Near::all(&many, 7, |_, word| word as usize).is_none());
        assert!(Near::all(&many[1..], 7, |_, word| word as usize).is_some());
    }
}
