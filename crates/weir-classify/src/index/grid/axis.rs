//! An axis of a grid: half of a word of the key, of which a table's rules ask few different things. Of a key it says of which class
//! it is: keys of one class are what just the same of these ask.
//!
//! Called by `grid` alone. A class is found by its first bits, and then a byte at a time: by three or four lines of memory at most, of few that all keys share.

use crate::simd::Half;
use std::collections::HashMap;

/// Classes that an axis may have, and different things that rules may ask of it.
const CLASSES: usize = 512;
const _: () = assert!(CLASSES <= Half::NUMBERS);
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

/// How many bits are looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Eight,
    /// A step less for 128 KiB, of which keys of few hosts or nets look at few lines.
    Sixteen,
}

impl Begin {
    #[inline(always)]
    const fn bits(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// An entry for each value of the first bits.
    first: Box<[u16]>,
    begin: Begin,
    /// An entry for each value of a byte behind, 256 a node, and a power of two of them.
    steps: Vec<u16>,
    /// Bytes behind these that any key is looked at.
    depth: u32,
    /// What rules ask, in order; and the classes whose keys are that.
    asked: Vec<Asked>,
    classes: Vec<Box<[u16]>>,
    count: usize,
}

impl Axis {
    /// For rules that ask these; none where they tell too many classes apart.
    pub(super) fn new(asked: impl Iterator<Item = Asked>, begin: Begin) -> Option<Self> {
        let mut all = std::collections::BTreeSet::new();
        for one in asked {
            all.insert(one);
            if all.len() > CLASSES {
                return None;
            }
        }
        let mut axis = Self {
            first: vec![CLASS; 1 << begin.bits()].into_boxed_slice(),
            begin,
            steps: Vec::new(),
            depth: 0,
            asked: all.into_iter().collect(),
            classes: Vec::new(),
            count: 0,
        };
        let mut made = Making::default();
        let every: Vec<u16> = (0..).take(axis.asked.len()).collect();
        for byte in 0..256 {
            let (of, bits) = axis.told(&every, byte << 24, 8);
            if begin == Begin::Eight {
                let entry = axis.entry(&mut made, of, bits, 8)?;
                *axis.first.get_mut(byte as usize)? = entry;
            } else if axis.is_said(&of, 8) {
                let class = made.class(of)? | CLASS;
                axis.first.get_mut(range(byte))?.fill(class);
            } else {
                for second in 0..256 {
                    let (of, bits) = axis.told(&of, bits | second << 16, 16);
                    let entry = axis.entry(&mut made, of, bits, 16)?;
                    *axis.first.get_mut((byte << 8 | second) as usize)? = entry;
                }
            }
        }
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
    /// Of these, those that keys may be that begin with so many of these bits; and the bits again.
    fn told(&self, of: &[u16], bits: u32, known: u32) -> (Vec<u16>, u32) {
        let known = first_bits(known);
        let may = |i: &&u16| self.asked.get(usize::from(**i)).is_some_and(|a| a.meets(known, bits));
        (of.iter().filter(may).copied().collect(), bits)
    }
    /// Whether keys that may be these are, by so many first bits.
    fn is_said(&self, of: &[u16], known: u32) -> bool {
        let asked = |i: &u16| self.asked.get(usize::from(*i));
        of.iter().filter_map(asked).all(|a| a.mask & !first_bits(known) == 0)
    }
    /// What stands where so many first bits are these, and keys may be those.
    fn entry(&mut self, made: &mut Making, of: Vec<u16>, bits: u32, known: u32) -> Option<u16> {
        match self.is_said(&of, known) {
            true => Some(made.class(of)? | CLASS),
            false => self.node(made, &of, bits, known),
        }
    }
    /// A node for those.
    fn node(&mut self, made: &mut Making, of: &[u16], bits: u32, known: u32) -> Option<u16> {
        let node = self.steps.len() >> 8;
        if node >= NODES {
            return None;
        }
        self.depth = self.depth.max((known + 8 - self.begin.bits()) / 8);
        self.steps.resize(self.steps.len() + 256, CLASS);
        for byte in 0..256u32 {
            let (of, bits) = self.told(of, bits | byte << (24 - known), known + 8);
            let entry = self.entry(made, of, bits, known + 8)?;
            *self.steps.get_mut(node << 8 | byte as usize)? = entry;
        }
        u16::try_from(node).ok()
    }
    /// The class of a key that has this.
    #[inline(always)]
    pub(super) fn class(&self, part: u32) -> usize {
        let entry = |e: Option<&u16>| e.map_or(0, |e| usize::from(*e));
        let begin = self.begin.bits();
        let mut at = entry(self.first.get((part >> (32 - begin)) as usize));
        let mut left = part << begin;
        // As many for each key, for where keys end nobody can foretell: one that has its class keeps it.
        for _ in 0..self.depth {
            let place = at << 8 | (left >> 24) as usize;
            let next = entry(self.steps.get(place & (self.steps.len() - 1)));
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
    pub(super) fn sets(&self) -> Vec<Half> {
        let mut sets = vec![Half::NONE; self.count];
        for (number, classes) in (0..).zip(&self.classes) {
            for class in classes {
                sets.get_mut(usize::from(*class)).into_iter().for_each(|s| s.put(number));
            }
        }
        sets
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let classes: usize = self.classes.iter().map(|c| size_of_val(&**c) + size_of_val(c)).sum();
        (self.first.len() + self.steps.capacity()) * 2
            + self.asked.capacity() * size_of::<Asked>()
            + classes
    }
}

/// A mask of so many first bits.
fn first_bits(bits: u32) -> u32 {
    !u32::MAX.checked_shr(bits).unwrap_or(0)
}
/// What begins with a byte, of sixteen bits.
fn range(byte: u32) -> std::ops::Range<usize> {
    let first = (byte << 8) as usize;
    first..first + 256
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
            begin in prop::sample::select(vec![Begin::Eight, Begin::Sixteen]),
            all in prop::collection::vec(asked(), 0..24),
            keys in prop::collection::vec(any::<u32>(), 40),
        ) {
            let Some(axis) = Axis::new(all.iter().copied(), begin) else { return Ok(()) };
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
        assert!(Axis::new((0..100).map(each), Begin::Sixteen).is_some());
        assert!(Axis::new((0..600).map(each), Begin::Sixteen).is_none());
    }
}
