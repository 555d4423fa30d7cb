//! Longest-prefix match: one hash table per prefix length in use, the longest first. Touches
//! numbers only. One family per table; addresses are left-aligned in 128 bits.
//!
//! What routes are gathered in and checked against; `routes.rs` makes from it what frames are looked up
//! in, and is judged by it. A lookup costs at most one probe per length in use.

use super::config::mask;
use crate::programs::hash::Fold;
use std::collections::HashMap;

#[derive(Debug)]
struct Level<T> {
    len: u8,
    mask: u128,
    targets: HashMap<u128, T, Fold>,
}

#[derive(Debug)]
pub(super) struct Lpm<T> {
    levels: Vec<Level<T>>,
}

impl<T> Lpm<T> {
    pub fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Puts a prefix in; gives back what it replaced.
    pub fn insert(&mut self, bits: u128, len: u8, target: T) -> Option<T> {
        let at = self.levels.partition_point(|l| l.len > len);
        if self.levels.get(at).is_none_or(|l| l.len != len) {
            let level = Level { len, mask: mask(len), targets: HashMap::default() };
            self.levels.insert(at, level);
        }
        let level = self.levels.get_mut(at)?;
        level.targets.insert(bits & level.mask, target)
    }

    /// What exactly this prefix leads to.
    pub fn get(&self, bits: u128, len: u8) -> Option<&T> {
        let level = self.levels.iter().find(|l| l.len == len)?;
        level.targets.get(&(bits & level.mask))
    }

    /// What the longest prefix of an address leads to.
    pub fn lookup(&self, bits: u128) -> Option<&T> {
        self.levels.iter().find_map(|l| l.targets.get(&(bits & l.mask)))
    }

    /// Every prefix: bits, length, target.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u8, &T)> {
        self.levels.iter().flat_map(|l| l.targets.iter().map(|(bits, t)| (*bits, l.len, t)))
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.levels.iter().map(|l| l.targets.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_looking_at_every_prefix(
            prefixes in prop::collection::vec((any::<u8>(), 0u8..=128), 0..40),
            asked in prop::collection::vec((any::<u8>(), any::<u128>()), 1..40),
        ) {
            // Few distinct first bytes, so that prefixes contain each other.
            let spread = |b: u8| u128::from(b & 0x83) << 120 | u128::from(b & 0x7c) << 40;
            let mut lpm = Lpm::new();
            let mut all: Vec<(u128, u8, usize)> = Vec::new();
            for (i, (b, len)) in prefixes.into_iter().enumerate() {
                let p = spread(b) & mask(len);
                let old = all.iter().position(|x| (x.0, x.1) == (p, len)).map(|at| all.remove(at).2);
                prop_assert_eq!(lpm.insert(spread(b), len, i), old);
                all.push((p, len, i));
            }
            prop_assert_eq!(lpm.len(), all.len());
            for (b, noise) in asked {
                let addr = spread(b) | noise & 0xffff;
                let slow = all.iter().filter(|x| addr & mask(x.1) == x.0).max_by_key(|x| x.1);
                prop_assert_eq!(lpm.lookup(addr), slow.map(|x| &x.2));
            }
            for (p, len, i) in &all {
                prop_assert_eq!(lpm.get(*p, *len), Some(i));
            }
        }
    }

    #[test]
    fn masks() {
        assert_eq!((mask(0), mask(1), mask(128)), (0, 1 << 127, u128::MAX));
    }
}
