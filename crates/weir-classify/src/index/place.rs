//! A rule as an index has it: the few words of the key that its table looks at, in one line of memory or two.

use super::NARROW;
use super::family::At;
use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::{Match, RuleId};
use crate::scan::each_word;
use crate::simd::{Lanes, Vectors, word_for_word};
use crate::telling::Telling;
use crate::windows::{
    Choice, Picks, Places, WINDOWS, Window, each_value, every, fill_key, other_of,
};

/// Which words of the key a table's rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    words: [u8; WORDS],
    width: usize,
    bits: u32,
}

impl Form {
    pub(super) fn new(bits: u32) -> Self {
        let (mut words, mut width) = ([0; WORDS], 0);
        for (to, word) in words.iter_mut().zip(each_word(bits)) {
            (*to, width) = (word as u8, width + 1);
        }
        Self { words, width, bits }
    }
    /// Whether rules that look at these words have this form.
    pub(super) fn has(&self, words: u32) -> bool {
        words & !self.bits == 0
    }
    /// What a place's rule asks of whole keys.
    pub(super) fn matcher<const W: usize>(&self, asks: &Asks<W>) -> Match {
        let (mut value, mut mask) = (FlowKey::default(), FlowMask::default());
        let words = self.words.iter().take(self.width);
        for ((word, m), v) in words.zip(asks.mask).zip(asks.value) {
            let word = usize::from(*word);
            mask.0.get_mut(word).into_iter().for_each(|to| *to = m);
            value.0.get_mut(word).into_iter().for_each(|to| *to = v);
        }
        Match::new(value, mask)
    }
    pub(super) fn place<const W: usize>(&self, rank: u64, id: RuleId, m: &Match) -> Place<W> {
        let mut out = Place { id: id.0.into(), rank, asks: Asks { mask: [0; W], value: [0; W] } };
        let words = self.words.iter().take(self.width);
        for ((word, mask), value) in words.zip(&mut out.asks.mask).zip(&mut out.asks.value) {
            let word = usize::from(*word);
            *mask = m.mask().0.get(word).copied().unwrap_or(0);
            *value = m.value().0.get(word).copied().unwrap_or(0);
        }
        out
    }
    /// The words of a key that rules look at, for who reads some bits of them next.
    #[inline(always)]
    pub(super) fn words_for_bits<const W: usize>(&self, key: &FlowKey) -> Words {
        match self.words.first_chunk() {
            Some(words) => Words(word_for_word::<W>(&key.0, words)),
            None => Words::default(),
        }
    }
    /// The same, for who reads all of them at once next.
    #[inline(always)]
    pub(super) fn words<const W: usize, L: Lanes>(&self, lanes: L, key: &FlowKey) -> Words {
        // No closure: that would be compiled without the lanes' instructions.
        match self.words.first_chunk() {
            Some(words) => Words(lanes.chosen::<W>(&key.0, words)),
            None => Words::default(),
        }
    }
}

/// Those words of a key that a table's rules look at, and zeros.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Words([u64; 8]);

impl Words {
    pub(super) fn new<const W: usize>(words: &[u64; W]) -> Self {
        Self(std::array::from_fn(|i| words.get(i).copied().unwrap_or(0)))
    }
    /// What it has in windows, a byte each.
    #[inline(always)]
    pub(super) fn of<L: Lanes>(&self, lanes: L, p: &Picks, w: &[Window; WINDOWS]) -> u64 {
        lanes.pick(&self.0, p, w)
    }
    /// One bit.
    #[inline(always)]
    pub(super) fn bit(&self, word: u8, bit: u8) -> usize {
        (self.0[usize::from(word) % 8] >> (bit % 64) & 1) as usize
    }
    #[inline(always)]
    pub(super) fn all(&self) -> &[u64; 8] {
        &self.0
    }
    /// Whether they are what is asked.
    #[inline(always)]
    pub(super) fn fit<const W: usize, L: Lanes>(&self, lanes: L, asks: &Asks<W>) -> bool {
        lanes.fits(&self.0, &asks.mask, &asks.value)
    }
}

/// What a rule asks of `W` words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Asks<const W: usize> {
    pub(super) mask: [u64; W],
    pub(super) value: [u64; W],
}

impl<const W: usize> Asks<W> {
    /// Of its mask and its value what a window has.
    #[inline(always)]
    pub(super) fn within<L: Lanes>(&self, lanes: L, w: Window) -> [u64; 2] {
        let of = |words: &[u64; W]| lanes.together(words[usize::from(w.word) % W], w.mask);
        [of(&self.mask), of(&self.value)]
    }
    /// Calls `f` for each value of a window that it agrees with.
    #[inline(always)]
    pub(super) fn values<L: Lanes>(&self, lanes: L, w: Window, f: impl FnMut(usize)) {
        let [mask, value] = self.within(lanes, w);
        each_value(value, !mask & lanes.together(u64::MAX, w.mask), f);
    }
    /// Whether some key is what both ask.
    #[inline]
    pub(super) fn meet(&self, other: &Self) -> bool {
        let mut differ = 0;
        for i in 0..W {
            differ |= (self.value[i] ^ other.value[i]) & self.mask[i] & other.mask[i];
        }
        differ == 0
    }
    /// Which side of a bit it asks for.
    #[inline]
    pub(super) fn side(&self, word: u8, bit: u8) -> Side {
        let at = |words: &[u64; W]| words.get(usize::from(word)).map_or(0, |w| w >> bit & 1);
        match (at(&self.mask), at(&self.value)) {
            (0, _) => Side::Open,
            (_, 0) => Side::Zero,
            _ => Side::One,
        }
    }
    /// The same, asked for a side of that bit, too.
    #[inline]
    pub(super) fn on(mut self, word: u8, bit: u8, side: Side) -> Self {
        let word = usize::from(word) % W;
        self.mask[word] |= 1 << bit;
        self.value[word] |= u64::from(side == Side::One) << bit;
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Zero,
    One,
    /// Both.
    Open,
}

/// A rule with its place in a leaf; or a family of rules, and what all of them ask.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Place<const W: usize> {
    /// See [`Place::kind`].
    pub(super) id: u64,
    /// Of a family: one of their priority that is no smaller than any of theirs.
    pub(super) rank: u64,
    pub(super) asks: Asks<W>,
}

/// What the rank of a rule that has gone is, where lookups see it; no rule's.
pub(super) const VACANT: u64 = 0;
const FAMILY: u64 = 1 << 63;
const GONE: u64 = FAMILY | 1 << 62;

/// What a place has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    One(RuleId),
    Family(At),
    /// A family that has gone, all of it, or moved to another place.
    Gone,
}

impl<const W: usize> Place<W> {
    #[inline(always)]
    pub(super) fn kind(&self) -> Kind {
        match self.id & GONE {
            0 => Kind::One(RuleId(self.id as u32)),
            FAMILY => Kind::Family(At { first: self.id as u32, eights: (self.id >> 32) as u8 }),
            _ => Kind::Gone,
        }
    }
    pub(super) fn family(&self) -> Option<At> {
        match self.kind() {
            Kind::Family(at) => Some(at),
            Kind::One(_) | Kind::Gone => None,
        }
    }
    /// Nobody is there any more.
    pub(super) fn vacate(&mut self) {
        self.rank = VACANT;
        if self.id & FAMILY != 0 {
            self.set(Kind::Gone);
        }
    }
    pub(super) fn set(&mut self, kind: Kind) {
        self.id = match kind {
            Kind::One(id) => u64::from(id.0),
            Kind::Family(At { first, eights }) => {
                FAMILY | u64::from(eights) << 32 | u64::from(first)
            }
            Kind::Gone => GONE,
        };
    }
}

const _: () = assert!(
    size_of::<Place<{ super::NARROW }>>() == 64 && size_of::<Place<{ super::WIDE }>>() == 128
);

/// Keys by which windows are chosen.
const KEYS: usize = 128;

/// Keys that some of the rules fit; what a rule leaves open is another's, or anything.
pub(super) fn some_keys<const W: usize>(rules: &[(usize, &Asks<W>)], most: usize) -> Vec<[u64; W]> {
    let key = |(i, (_, asks)): (usize, &(usize, &Asks<W>))| {
        let mut key = asks.value;
        let other = rules.get(other_of(i as u64, rules.len())).map_or(*asks, |o| o.1);
        fill_key(&mut key, &asks.mask, (&other.mask, &other.value), i as u64);
        key
    };
    rules.iter().step_by(every(rules.len(), most)).enumerate().map(key).collect()
}

/// Groups from which on windows may be halves, for rules of few words: more to choose from takes longer, and fewer gain by it.
const MANY: usize = if cfg!(test) { 8 } else { 160 };

/// The windows for rules in `groups`, by `sample` of them.
pub(super) fn choose<const W: usize>(
    v: Vectors,
    rules: &[(usize, &Asks<W>)],
    groups: usize,
    sample: usize,
    bits: u32,
) -> [Window; WINDOWS] {
    let keys = some_keys(rules, 4 * KEYS);
    let keys: Vec<&[u64]> = keys.iter().map(<[u64; W]>::as_slice).collect();
    let sample = rules.iter().step_by(every(rules.len(), sample));
    let sample: Vec<_> =
        sample.map(|(group, a)| (*group, a.mask.as_slice(), a.value.as_slice())).collect();
    let places = match groups {
        MANY.. if W <= NARROW && v.any_bits() => Places::Halves,
        _ => Places::Together,
    };
    Choice { rules: &sample, groups, keys: &keys, bits, places }.windows(|fewer| fewer > 0).0
}

/// The windows that tell rules of a leaf apart.
pub(super) fn choose_for_leaf<const W: usize>(
    v: Vectors,
    rules: &[(usize, &Asks<W>)],
    visitors: &[[u64; W]],
    bits: u32,
) -> [Window; WINDOWS] {
    let mut own = some_keys(rules, 4 * KEYS - visitors.len().min(2 * KEYS));
    let visitors = visitors.iter().step_by(every(visitors.len(), 2 * KEYS));
    // Each window is chosen by some of both.
    let every = own.len() / visitors.len().max(1) + 1;
    for (i, key) in visitors.enumerate() {
        own.insert((i * (every + 1)).min(own.len()), *key);
    }
    let keys: Vec<&[u64]> = own.iter().map(<[u64; W]>::as_slice).collect();
    let rules: Vec<_> =
        rules.iter().map(|(_, a)| (a.mask.as_slice(), a.value.as_slice())).collect();
    Telling { rules: &rules, keys: &keys, bits }.windows(v)
}
