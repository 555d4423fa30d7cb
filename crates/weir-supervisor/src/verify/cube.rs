//! Ternary cubes: sets of bit strings in which each bit is 0, 1 or either, and what is left of one
//! when others are taken away.
//!
//! Room: arithmetic; the rest of `verify` stands on it. Words are `u64`, in whatever order the
//! caller's layout says.

use std::fmt;

/// A set of strings of `N` words: those that have `value` under `mask`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cube<const N: usize> {
    /// Bits that count.
    pub mask: [u64; N],
    /// What they are; zero where they do not count.
    pub value: [u64; N],
}

/// The words that count: place, value and mask.
impl<const N: usize> fmt::Debug for Cube<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.mask.iter().zip(self.value).enumerate().filter(|(_, (m, _))| **m != 0);
        f.write_str("{")?;
        for (w, (m, v)) in words {
            write!(f, "{w}:{v:x}/{m:x} ")?;
        }
        f.write_str("}")
    }
}

impl<const N: usize> Default for Cube<N> {
    fn default() -> Self {
        Self::any()
    }
}

impl<const N: usize> Cube<N> {
    /// Every string.
    pub const fn any() -> Self {
        Self { mask: [0; N], value: [0; N] }
    }
    /// The strings with `value` under `mask`.
    pub fn new(mask: [u64; N], value: [u64; N]) -> Self {
        let mut value = value;
        value.iter_mut().zip(mask).for_each(|(v, m)| *v &= m);
        Self { mask, value }
    }
    /// Whether `bits` is one of them.
    pub fn has(&self, bits: &[u64; N]) -> bool {
        let words = self.mask.iter().zip(self.value).zip(bits);
        words.fold(0, |wrong, ((m, v), b)| wrong | b & m ^ v) == 0
    }
    /// Whether any string is in both.
    #[inline]
    pub fn meets(&self, o: &Self) -> bool {
        let a = self.mask.iter().zip(self.value);
        let b = o.mask.iter().zip(o.value);
        a.zip(b).all(|((m, v), (n, w))| m & n & (v ^ w) == 0)
    }
    /// Whether every string of `o` is in it.
    #[inline]
    pub fn covers(&self, o: &Self) -> bool {
        let a = self.mask.iter().zip(self.value);
        let b = o.mask.iter().zip(o.value);
        a.zip(b).all(|((m, v), (n, w))| m & !n == 0 && m & (v ^ w) == 0)
    }
    /// The strings in both.
    #[inline]
    pub fn and(&self, o: &Self) -> Option<Self> {
        if !self.meets(o) {
            return None;
        }
        let mut both = *self;
        let words = both.mask.iter_mut().zip(&mut both.value);
        for ((m, v), (n, w)) in words.zip(o.mask.iter().zip(o.value)) {
            (*m, *v) = (*m | n, *v | w);
        }
        Some(both)
    }
    /// The same without any demand on `bits`.
    pub fn freed(&self, bits: &[u64; N]) -> Self {
        let mut out = *self;
        for ((m, v), b) in out.mask.iter_mut().zip(&mut out.value).zip(bits) {
            (*m, *v) = (*m & !b, *v & !b);
        }
        out
    }
    /// What bit `at` is, counted from the lowest of the first word; `None`: either.
    pub fn bit(&self, at: usize) -> Option<bool> {
        let (m, v) = (self.mask.get(at / 64)?, self.value.get(at / 64)?);
        (m >> (at % 64) & 1 == 1).then_some(v >> (at % 64) & 1 == 1)
    }
    /// Demands that bit `at` is `to`.
    pub fn demand(&mut self, at: usize, to: bool) {
        if let (Some(m), Some(v)) = (self.mask.get_mut(at / 64), self.value.get_mut(at / 64)) {
            *m |= 1 << (at % 64);
            *v = *v & !(1 << (at % 64)) | u64::from(to) << (at % 64);
        }
    }
    /// How many bits `o` demands that this leaves open.
    fn open(&self, o: &Self) -> u32 {
        self.mask.iter().zip(o.mask).map(|(m, n)| (n & !m).count_ones()).sum()
    }
    /// The first bit that `o` demands and this leaves open, and what `o` wants there.
    fn first_open(&self, o: &Self) -> Option<(usize, bool)> {
        let words = self.mask.iter().zip(o.mask).zip(o.value).enumerate();
        words
            .filter(|(_, ((m, n), _))| n & !*m != 0)
            .map(|(w, ((m, n), v))| {
                let bit = (n & !m).trailing_zeros();
                (w * 64 + bit as usize, v >> bit & 1 == 1)
            })
            .next()
    }
}

/// The search took more than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

/// The search's depth at most; each step fixes a bit.
const DEPTH: u32 = 400;

/// Some part of `cube` that meets none of `minus`, if there is one. Every string of it will do.
///
/// Exact. A cover that leaves no more than one bit open forces it; else the one that leaves the
/// fewest is split on (the question is that of tautology, so there are covers that take long:
/// `budget` is counted down by what is looked at).
///
/// # Errors
/// The budget is spent.
pub fn remainder<const N: usize>(
    cube: &Cube<N>,
    minus: &[Cube<N>],
    budget: &mut u64,
) -> Result<Option<Cube<N>>, Spent> {
    rest(*cube, minus.iter().collect(), budget, 0)
}

fn rest<const N: usize>(
    mut cube: Cube<N>,
    mut minus: Vec<&Cube<N>>,
    budget: &mut u64,
    depth: u32,
) -> Result<Option<Cube<N>>, Spent> {
    let narrowest = loop {
        *budget = budget.checked_sub(minus.len() as u64 + 1).ok_or(Spent)?;
        minus.retain(|m| m.meets(&cube));
        let Some(best) = minus.iter().min_by_key(|m| cube.open(m)).copied() else {
            return Ok(Some(cube));
        };
        match (cube.open(best), cube.first_open(best)) {
            (1, Some((at, is))) => cube.demand(at, !is),
            (_, None) => return Ok(None),
            _ => break best,
        }
    };
    if depth >= DEPTH {
        return Err(Spent);
    }
    while let Some((at, is)) = cube.first_open(narrowest) {
        let mut branch = cube;
        branch.demand(at, !is);
        if let Some(found) = rest(branch, minus.clone(), budget, depth + 1)? {
            return Ok(Some(found));
        }
        cube.demand(at, is);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cube() -> impl Strategy<Value = Cube<2>> {
        // Six bits, three in each word.
        (0u64..64, 0u64..64).prop_map(|(m, v)| {
            let split = |b: u64| [b & 7, (b >> 3 & 7) << 61];
            Cube::new(split(m), split(v))
        })
    }

    proptest! {
        /// What is left is what enumeration leaves, and every string of the part found is.
        #[test]
        fn what_is_left_is_left(c in cube(), minus in prop::collection::vec(cube(), 0..12)) {
            let all = (0u64..64).map(|b| [b & 7, (b >> 3 & 7) << 61]);
            let left = |b: &[u64; 2]| c.has(b) && !minus.iter().any(|m| m.has(b));
            let (some, mut budget) = (all.clone().any(|b| left(&b)), 1_000_000);
            let found = remainder(&c, &minus, &mut budget).expect("the budget is ample");
            prop_assert_eq!(found.is_some(), some);
            if let Some(f) = found {
                for b in all.filter(|b| f.has(b)) {
                    prop_assert!(left(&b));
                }
            }
        }
        /// Meeting, covering and intersection are those of the sets.
        #[test]
        fn cubes_are_sets(a in cube(), b in cube()) {
            let all: Vec<_> = (0u64..64).map(|b| [b & 7, (b >> 3 & 7) << 61]).collect();
            prop_assert_eq!(a.meets(&b), all.iter().any(|x| a.has(x) && b.has(x)));
            prop_assert_eq!(a.covers(&b), all.iter().all(|x| !b.has(x) || a.has(x)));
            for x in &all {
                let both = a.and(&b).is_some_and(|c| c.has(x));
                prop_assert_eq!(both, a.has(x) && b.has(x));
            }
        }
    }

    #[test]
    fn a_search_ends_when_its_budget_does() {
        let minus = [Cube::new([1], [1]), Cube::new([1], [0])];
        assert_eq!(remainder(&Cube::any(), &minus, &mut 2), Err(Spent));
        assert_eq!(remainder(&Cube::any(), &minus, &mut 100), Ok(None));
    }
}
