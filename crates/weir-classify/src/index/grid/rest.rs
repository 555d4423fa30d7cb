//! What a grid's rules ask of the word that its axes don't have: each different thing has a number, and of a key it is said which
//! numbers it is, as a set.
//!
//! Called by `grid` alone. A set is what four quarters of the word have in common, each found as an axis finds a class. What has no number, since there were too
//! many or a quarter was never asked for that, is [`OTHER`], which all keys are: those rules are compared one by one.

use super::axis::{Asked, Axis, Begin};
use super::lists::Asks;
use crate::simd::{Half, Set, Whole};
use std::collections::HashMap;

/// Whatever has no number of its own: every set has it.
pub(super) const OTHER: u16 = 0;
/// Where there is no rule: no set has it.
pub(super) const NONE: u16 = 1;
/// The first of those that are given.
const FIRST: usize = 2;
/// So many can be given.
const MOST: usize = Whole::NUMBERS - FIRST;

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    /// What keys are that no quarter tells apart.
    all: Whole,
    /// Those that any rule asks something of.
    quarters: Vec<Quarter>,
    asks: Vec<Asks>,
    numbers: HashMap<Asks, u16>,
}

#[derive(Clone, Debug)]
struct Quarter {
    shift: u32,
    axis: Axis,
    sets: Vec<Whole>,
}

impl Quarter {
    fn of(shift: u32, asks: &[Asks]) -> Option<Self> {
        let axis = Axis::new(asks.iter().map(|a| part(shift, *a)), Begin::Eight)?;
        let sets = vec![Whole::NONE; axis.count()];
        Some(Self { shift, axis, sets })
    }
    /// The classes whose keys are what is asked, if that was asked when it was made.
    fn classes(&self, asks: Asks) -> Option<&[u16]> {
        let number = self.axis.number(part(self.shift, asks))?;
        self.axis.asked(number).map(|(_, classes)| classes)
    }
}

/// Sixteen bits of a word, where an axis looks first.
fn upper(shift: u32, word: u64) -> u32 {
    ((word >> shift) as u32) << 16
}
fn part(shift: u32, asks: Asks) -> Asked {
    Asked { mask: upper(shift, asks.mask), value: upper(shift, asks.value) }
}

impl Rest {
    /// For rules that ask these, the most frequent first; none where quarters can't tell enough of them apart.
    pub(super) fn new(asks: &[Asks]) -> Option<Self> {
        [MOST, MOST / 4].into_iter().find_map(|n| Self::of(asks.get(..n).unwrap_or(asks)))
    }
    fn of(asks: &[Asks]) -> Option<Self> {
        let is_asked = |shift: &u32| asks.iter().any(|a| part(*shift, *a).mask != 0);
        let quarters = [48, 32, 16, 0].into_iter().filter(is_asked);
        let mut rest = Self {
            all: Whole::NONE,
            quarters: quarters.map(|shift| Quarter::of(shift, asks)).collect::<Option<_>>()?,
            asks: Vec::with_capacity(asks.len()),
            numbers: HashMap::with_capacity(asks.len()),
        };
        rest.put(OTHER, Asks::default());
        asks.iter().for_each(|a| _ = rest.learn(*a));
        Some(rest)
    }
    /// Has every key that is asked for be that number.
    fn put(&mut self, number: u16, asks: Asks) {
        self.all.put(number);
        for Quarter { shift, axis, sets } in &mut self.quarters {
            let asked = axis.number(part(*shift, asks)).and_then(|n| axis.asked(n));
            match asked {
                Some((_, classes)) => classes.iter().for_each(|class| {
                    sets.get_mut(usize::from(*class)).into_iter().for_each(|s| s.put(number));
                }),
                // Of it nothing is asked, which nobody did before.
                None => sets.iter_mut().for_each(|s| s.put(number)),
            }
        }
    }
    /// The number of what a rule asks, which is given one if it can have it.
    pub(super) fn learn(&mut self, asks: Asks) -> u16 {
        if let Some(number) = self.numbers.get(&asks) {
            return *number;
        }
        let next = u16::try_from(FIRST + self.asks.len()).ok().filter(|_| self.asks.len() < MOST);
        let told = |mask: u64, q: &Quarter| mask & !(0xffff << q.shift);
        let is_known = self.quarters.iter().fold(asks.mask, told) == 0
            && self.quarters.iter().all(|q| q.classes(asks).is_some());
        let Some(number) = next.filter(|_| is_known) else { return OTHER };
        self.asks.push(asks);
        self.numbers.insert(asks, number);
        self.put(number, asks);
        number
    }
    /// The number of what a rule asks.
    pub(super) fn number(&self, asks: Asks) -> u16 {
        self.numbers.get(&asks).copied().unwrap_or(OTHER)
    }
    /// Whether half a set has all that was given.
    pub(super) fn is_half(&self) -> bool {
        FIRST + self.asks.len() <= Half::NUMBERS
    }
    /// What a key is.
    #[inline(always)]
    pub(super) fn set<const WORDS: usize>(&self, word: u64) -> Set<WORDS> {
        let mut set = Set::of(&self.all);
        for q in &self.quarters {
            let class = q.axis.class(upper(q.shift, word));
            if let Some(of) = q.sets.get(class) {
                set = set.and(of);
            }
        }
        set
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let quarter = |q: &Quarter| {
            size_of::<Quarter>() + q.axis.heap_bytes() + q.sets.capacity() * size_of::<Whole>()
        };
        let asks = self.asks.capacity() * size_of::<Asks>()
            + self.numbers.capacity() * (size_of::<(Asks, u16)>() + 1);
        self.quarters.iter().map(quarter).sum::<usize>() + asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asks() -> impl Strategy<Value = Asks> {
        let mask = prop::sample::select(vec![0, 0xff_0000_ffff, 0xffff_ffff, 0xff00_0000_fff0, !0]);
        (mask, 0u64..6, any::<u64>()).prop_map(|(mask, few, any)| {
            let value = if few > 0 { few * 0x0001_0001_0001_0001 } else { any };
            Asks { mask, value: value & mask }
        })
    }

    proptest! {
        /// A key is the numbers of what it meets, of all that have one; and what has none is every key.
        #[test]
        fn a_set_says_what_a_key_is(
            first in prop::collection::vec(asks(), 1..60),
            later in prop::collection::vec(asks(), 0..60),
            keys in prop::collection::vec(any::<u64>(), 40),
        ) {
            let Some(mut rest) = Rest::new(&first) else { return Ok(()) };
            let numbers: Vec<u16> = first.iter().map(|a| rest.number(*a)).collect();
            prop_assert!(!numbers.contains(&OTHER));
            later.iter().for_each(|a| _ = rest.learn(*a));
            let all = || first.iter().chain(&later);
            let of = all().zip(&keys).map(|(a, k)| a.value | k & !a.mask);
            for key in keys.iter().copied().chain(of) {
                let set: Whole = rest.set(key);
                let half: Half = rest.set(key);
                prop_assert_eq!(half, Half::of(&set));
                prop_assert!(set.has(OTHER) && !set.has(NONE));
                for one in all() {
                    let number = rest.number(*one);
                    let fits = key & one.mask == one.value;
                    prop_assert!(number == OTHER || set.has(number) == fits, "{one:?} {key:x}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_many_has_no_number() {
        let each = |i: u64| Asks { mask: 0xff_00ff, value: ((i % 128) << 16) | (i / 128) };
        let all: Vec<Asks> = (0..2000).map(each).collect();
        let mut rest = Rest::new(&all).unwrap();
        let with = all.iter().filter(|a| rest.number(**a) != OTHER).count();
        assert_eq!(with, MOST);
        assert_eq!(rest.learn(Asks { mask: 0xff, value: 3 }), OTHER);
    }
}
