//! An axis of a grid: half of a word of the key, of which a table's rules ask few different things. Of a key it says of which class
//! it is: keys of one class are what just the same of these ask.
//!
//! Called by `grid` alone. A class is found a byte at a time, by four lines of memory at most, of few that all keys share.

use crate::simd::{MEMBERS, Set};
use std::collections::HashMap;

/// Classes that an axis may have, and different things that rules may ask of it.
const CLASSES: usize = 512;
const _: () = assert!(CLASSES <= MEMBERS);
/// Nodes of half a KiB.
const NODES: usize = 1024;
/// An entry that has this says a class; others the next node.
const CLASS: u16 = 1 << 15;

/// What a rule asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Asked {
    /// Whether a key with these bits, of those of `known`, may be what it asks.
    fn meets(self, known: u32, bits: u32) -> bool {
        (self.value ^ bits) & self.mask & known == 0
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// An entry for each byte, 256 a node, and a power of two of them; the first node is the root.
    steps: Vec<u16>,
    /// Bytes that any key is looked at.
    depth: u32,
    /// What rules ask, in order; and the classes whose keys are that.
    asked: Vec<Asked>,
    classes: Vec<Box<[u16]>>,
    count: usize,
}

impl Axis {
    /// For rules that ask these; none where they tell too many classes apart.
    pub(super) fn new(asked: impl Iterator<Item = Asked>) -> Option<Self> {
        let mut all = std::collections::BTreeSet::new();
        for one in asked {
            all.insert(one);
            if all.len() > CLASSES {
                return None;
            }
        }
        let mut axis = Self {
            steps: Vec::new(),
            depth: 0,
            asked: all.into_iter().collect(),
            classes: Vec::new(),
            count: 0,
        };
        let mut made = Making::default();
        let every: Vec<u16> = (0..).take(axis.asked.len()).collect();
        axis.node(&mut made, &every, 0, 0)?;
        axis.count = made.classes.len();
        axis.steps.resize(axis.steps.len().next_power_of_two(), CLASS);
        let mut classes = vec![Vec::new(); axis.asked.len()];
        for (asked, class) in &made.classes {
            for one in asked {
                classes.get_mut(usize::from(*one))?.push(*class);
            }
        }
        axis.classes = classes.into_iter().map(Vec::into_boxed_slice).collect();
        Some(axis)
    }
    /// A node for keys with these first bits, so many, and those of `of` that they may be.
    fn node(&mut self, made: &mut Making, of: &[u16], bits: u32, depth: u32) -> Option<u16> {
        let node = self.steps.len() >> 8;
        self.depth = self.depth.max(depth / 8 + 1);
        if node >= NODES {
            return None;
        }
        self.steps.resize(self.steps.len() + 256, CLASS);
        let known = !(u32::MAX >> 8).checked_shr(depth).unwrap_or(0);
        for byte in 0..256u32 {
            let bits = bits | byte << (24 - depth);
            let may =
                |i: &&u16| self.asked.get(usize::from(**i)).is_some_and(|a| a.meets(known, bits));
            let of: Vec<u16> = of.iter().filter(may).copied().collect();
            let is_said = of
                .iter()
                .all(|i| self.asked.get(usize::from(*i)).is_none_or(|a| a.mask & !known == 0));
            let entry = match is_said {
                true => made.class(of)? | CLASS,
                false => self.node(made, &of, bits, depth + 8)?,
            };
            *self.steps.get_mut(node << 8 | byte as usize)? = entry;
        }
        u16::try_from(node).ok()
    }
    /// The class of a key that has this.
    #[inline(always)]
    pub(super) fn class(&self, part: u32) -> usize {
        let (mut at, mut left) = (0, part);
        // As many for each key, for where keys end nobody can foretell: one that has its class keeps it.
        for _ in 0..self.depth {
            let place = at << 8 | (left >> 24) as usize;
            let next =
                self.steps.get(place & (self.steps.len() - 1)).map_or(0, |e| usize::from(*e));
            at = if at & usize::from(CLASS) == 0 { next } else { at };
            left <<= 8;
        }
        at & !usize::from(CLASS)
    }
    /// Classes that there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }
    /// Which of what rules ask this is, if any did when it was made.
    pub(super) fn number(&self, asked: Asked) -> Option<u16> {
        self.asked.binary_search(&asked).ok().and_then(|i| u16::try_from(i).ok())
    }
    /// What has this number, and the classes whose keys are that.
    pub(super) fn asked(&self, number: u16) -> Option<(Asked, &[u16])> {
        let number = usize::from(number);
        Some((*self.asked.get(number)?, self.classes.get(number)?))
    }
    /// For each class, the numbers of what its keys are.
    pub(super) fn sets(&self) -> Vec<Set> {
        let mut sets = vec![Set::default(); self.count];
        for (number, classes) in (0..).zip(&self.classes) {
            for class in classes {
                sets.get_mut(usize::from(*class)).into_iter().for_each(|s| s.put(number));
            }
        }
        sets
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let classes: usize = self.classes.iter().map(|c| size_of_val(&**c) + size_of_val(c)).sum();
        self.steps.capacity() * 2 + self.asked.capacity() * size_of::<Asked>() + classes
    }
}

/// Classes so far: which of what rules ask their keys are.
#[derive(Default)]
struct Making {
    classes: HashMap<Vec<u16>, u16>,
}

impl Making {
    fn class(&mut self, of: Vec<u16>) -> Option<u16> {
        let next = u16::try_from(self.classes.len()).ok().filter(|n| usize::from(*n) < CLASSES);
        match self.classes.get(&of) {
            Some(class) => Some(*class),
            None => {
                self.classes.insert(of, next?);
                next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked() -> impl Strategy<Value = Asked> {
        let mask = prop_oneof![
            (0u32..33).prop_map(|n| u32::MAX.checked_shl(n).unwrap_or(0)),
            prop::sample::select(vec![0x0000_ff00, 0x8000_0001, 0x00f0_0000]),
        ];
        (mask, any::<u32>(), 0u32..6).prop_map(|(mask, value, near)| {
            // Most lie together.
            let value = if near > 0 { value & 0x8101_0103 } else { value };
            Asked { mask, value: value & mask }
        })
    }

    proptest! {
        /// Keys of one class are what the same rules ask, and an axis says which classes those are.
        #[test]
        fn a_class_says_what_a_key_is(
            all in prop::collection::vec(asked(), 0..24),
            keys in prop::collection::vec(any::<u32>(), 40),
        ) {
            let Some(axis) = Axis::new(all.iter().copied()) else { return Ok(()) };
            let near = keys.iter().map(|k| k & 0x8101_0103);
            let of = all.iter().zip(&keys).map(|(a, k)| a.value | k & !a.mask);
            for key in keys.iter().copied().chain(near).chain(of) {
                let class = axis.class(key);
                prop_assert!(class < axis.count());
                for one in &all {
                    let (own, classes) = axis.asked(axis.number(*one).unwrap()).unwrap();
                    prop_assert_eq!(own, *one);
                    let said = classes.contains(&u16::try_from(class).unwrap());
                    prop_assert_eq!(said, key & one.mask == one.value);
                }
            }
        }
    }

    #[test]
    fn too_many_classes_are_refused() {
        // Hosts anywhere, each with nodes of its own.
        let each = |i: u32| Asked { mask: u32::MAX, value: i.wrapping_mul(0x9e37_79b9) };
        assert!(Axis::new((0..100).map(each)).is_some());
        assert!(Axis::new((0..600).map(each)).is_none());
    }
}
