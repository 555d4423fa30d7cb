//! Small tables of one mask as one line, and a line a lookup: what makes many small tables cheap.
//!
//! Room: data-path core. Called by `fast`, which keeps it beside the one [`Tuple`] that is the truth. Where a table's rules
//! have one mask, of words whose bits fit one word together, no two of them in one slot, and are at most [`MOST`], each
//! rule's bits stand with its id in a bucket of five: what a lookup reads is the head, which lies in the table's own first
//! line, and one bucket (with a tuple it is the tuple, its tags, its words). Where thousands of VDPs have a table each,
//! nearly every line that a frame touches is fetched from afar, and their number is the price.
//!
//! A bucket that is full sends what it can't take on to the next, and says so. Who would have to go on further than
//! [`FAR`] makes the table grow; the hash is keyed by a random seed, so that no one outside can choose who that is.

use crate::key::{FlowKey, FlowMask};
use crate::near::{self, Near};
use crate::rule::RuleId;
use crate::scan::{each_word, words_of};
use crate::simd::prefetch_read;

/// Rules in a table that is packed at most: it is made anew when it grows, in one go.
pub(crate) const MOST: usize = 512;
/// Rules in a bucket.
const PLACES: usize = 5;
/// Buckets further than its own that a rule may stand.
const FAR: usize = 2;
/// Rules to a bucket when buckets are made, and beyond which more are made.
const LOOSE: usize = 2;
const TIGHT: usize = 3;
/// Seeds tried with so many buckets before more are.
const SEEDS: usize = 4;
/// Buckets for each rule beyond which there are no more.
const SPARSE: usize = 8;

/// How lookups in a table go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// A part after the other.
    #[default]
    Parts,
    /// An order of all rules is asked, instead of the parts.
    Ordered,
    /// An index, and then the parts, which have what it could not take.
    Beside,
    // In an order in which what lookups ask about stands together.
    /// There is one tuple and nothing else; many of its rules share slots.
    Crowded,
    /// One tuple, packed.
    Packed,
    /// There is one tuple and nothing else.
    Tuple,
    /// One tuple, or the rest alone, of one mask; the owner says whether it is the right rule.
    Near,
    /// One tuple that is near, and a few rules [`Aside`](crate::aside::Aside).
    NearAside,
    /// The same, where it is not near.
    Aside,
}

/// Five rules: a line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    words: [u64; PLACES],
    ids: [u32; PLACES],
    /// Places in use, the first ones.
    used: u8,
    /// Whether a rule whose bucket this is stands further on.
    spilled: bool,
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The head: how bits are put together, and where the buckets are. Without buckets it is no table.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Packed {
    masks: [u64; 2],
    buckets: Box<[Bucket]>,
    seed: u32,
    /// Of the words that `masks` are of.
    places: [u8; 2],
    /// How far the second word is turned left, so that its bits lie beside the first one's.
    turn: u8,
    /// The owner's, beside what a lookup reads.
    pub(crate) way: Way,
}

const _: () = assert!(size_of::<Packed>() == 40);

/// One of `places`.
#[inline(always)]
fn hash(seed: u32, word: u64, places: usize) -> usize {
    let seed = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let product = u128::from(word ^ seed) * u128::from(seed);
    let folded = (product >> 64) as u64 ^ product as u64;
    ((u128::from(folded) * places as u128) >> 64) as usize
}

impl Packed {
    /// With these rules, all different.
    pub(crate) fn with(mut self, seed: u32, rules: &[(FlowKey, RuleId)]) -> Self {
        self.seed = seed;
        let rules: Vec<_> = rules.iter().map(|(value, id)| (self.word(value), *id)).collect();
        self.fill(&rules);
        self
    }

    /// No table yet: how the bits of this mask are put together; `None` where they do not fit a word.
    pub(crate) fn of_mask(mask: &FlowMask) -> Option<Self> {
        let mut words = each_word(words_of(mask));
        let (first, second) = (words.next()?, words.next());
        if words.next().is_some() {
            return None;
        }
        let of = |word: usize| mask.0.get(word).copied().unwrap_or(0);
        let (a, b) = (of(first), second.map_or(0, of));
        let turn = (0..u64::BITS).find(|&by| a & b.rotate_left(by) == 0)?;
        Some(Self {
            masks: [a, b.rotate_left(turn)],
            places: [first as u8, second.unwrap_or(first) as u8],
            turn: turn as u8,
            ..Self::default()
        })
    }

    /// The bits of keys are put together this way for [`Near`](crate::near::Near) places, which these rules have then;
    /// `None` where they have none.
    pub(crate) fn near(mut self, seed: u32, rules: &[(FlowKey, RuleId)]) -> Option<(Self, Near)> {
        let rules: Vec<_> = rules.iter().map(|(value, id)| (self.word(value), *id)).collect();
        let (seed, near) = Near::all(&rules, seed, |seed, word| hash(seed, word, near::PLACES))?;
        self.seed = seed;
        Some((self, near))
    }
    /// A key's place among [`Near`](crate::near::Near) ones.
    #[inline(always)]
    pub(crate) fn place_near(&self, word: u64) -> usize {
        hash(self.seed, word, near::PLACES)
    }

    /// Is no table any more.
    pub(crate) fn give_up(&mut self) {
        self.buckets = Box::default();
    }

    /// Whether it is a table.
    #[inline(always)]
    pub(crate) fn is_there(&self) -> bool {
        !self.buckets.is_empty()
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// A key's bits, in one word.
    #[inline(always)]
    pub(crate) fn word(&self, key: &FlowKey) -> u64 {
        let [a, b] = self.places.map(|i| key.0.get(usize::from(i)).copied().unwrap_or(0));
        a & self.masks[0] | b.rotate_left(self.turn.into()) & self.masks[1]
    }
    /// The bucket of such a word.
    #[inline(always)]
    fn home(&self, word: u64) -> usize {
        hash(self.seed, word, self.buckets.len())
    }
    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        if at + 1 < self.buckets.len() { at + 1 } else { 0 }
    }

    /// A key's bits and its bucket, which is asked for.
    #[inline(always)]
    pub(crate) fn probe(&self, key: &FlowKey) -> (u64, usize) {
        let word = self.word(key);
        let home = self.home(word);
        if let Some(b) = self.buckets.get(home) {
            prefetch_read(b);
        }
        (word, home)
    }
    /// The rule with these bits, whose bucket [`Packed::probe`] said.
    #[inline(always)]
    pub(crate) fn find(&self, word: u64, home: usize) -> Option<RuleId> {
        let bucket = self.buckets.get(home)?;
        match bucket.find(word) {
            None if bucket.spilled => self.find_further(word, home),
            found => found,
        }
    }
    #[cold]
    fn find_further(&self, word: u64, home: usize) -> Option<RuleId> {
        let mut at = home;
        for _ in 0..FAR {
            at = self.next(at);
            if let Some(found) = self.buckets.get(at)?.find(word) {
                return Some(found);
            }
        }
        None
    }

    /// Adds a rule that is not there, to `len` others.
    pub(crate) fn insert(&mut self, value: &FlowKey, id: RuleId, len: usize) {
        let word = self.word(value);
        if len < TIGHT * self.buckets.len() && self.place(word, id) {
            return;
        }
        let mut rules: Vec<_> = self.buckets.iter().flat_map(Bucket::each).collect();
        rules.push((word, id));
        self.fill(&rules);
    }
    /// Removes one that is, and leaves `len` others.
    pub(crate) fn remove(&mut self, value: &FlowKey, len: usize) {
        let word = self.word(value);
        let home = self.home(word);
        let mut at = home;
        for _ in 0..=FAR {
            if self.buckets.get_mut(at).is_some_and(|b| b.remove(word)) {
                break;
            }
            at = self.next(at);
        }
        let spills = self.spills(home);
        self.buckets.get_mut(home).into_iter().for_each(|b| b.spilled &= spills);
        if len * SPARSE < self.buckets.len() {
            let rules: Vec<_> = self.buckets.iter().flat_map(Bucket::each).collect();
            self.fill(&rules);
        }
    }

    /// Whether a rule of this bucket stands further on.
    fn spills(&self, home: usize) -> bool {
        let mut at = home;
        (0..FAR).any(|_| {
            at = self.next(at);
            let further = self.buckets.get(at).filter(|_| at != home);
            further.is_some_and(|b| b.each().any(|(word, _)| self.home(word) == home))
        })
    }

    /// Into the first bucket with room, if one is near.
    fn place(&mut self, word: u64, id: RuleId) -> bool {
        let home = self.home(word);
        let mut at = home;
        for _ in 0..=FAR {
            if self.buckets.get_mut(at).is_some_and(|b| b.push(word, id)) {
                self.buckets.get_mut(home).into_iter().for_each(|b| b.spilled |= at != home);
                return true;
            }
            at = self.next(at);
        }
        false
    }

    /// New buckets for all of these; none where there would have to be too many.
    fn fill(&mut self, rules: &[(u64, RuleId)]) {
        let mut n = rules.len().div_ceil(LOOSE);
        while (1..=MOST).contains(&rules.len()) && n <= SPARSE * rules.len() {
            // Rules that are one behind the other have one bucket by one seed in a hundred: larger tables are no help then.
            for _ in 0..SEEDS {
                self.buckets = vec![Bucket::default(); n].into();
                if rules.iter().all(|&(word, id)| self.place(word, id)) {
                    return;
                }
                self.seed = self.seed.wrapping_mul(0x2545_f491).wrapping_add(0x9e37_79b9);
            }
            n *= 2;
        }
        self.buckets = Box::default();
    }
}

impl Bucket {
    #[inline(always)]
    fn find(&self, word: u64) -> Option<RuleId> {
        // Without a branch for each: where the rule stands can't be foretold.
        let mut at = PLACES;
        for i in (0..PLACES).rev() {
            at = if self.words[i] == word { i } else { at };
        }
        (at < usize::from(self.used)).then(|| RuleId(self.ids[at % PLACES]))
    }
    fn each(&self) -> impl Iterator<Item = (u64, RuleId)> {
        let all = self.words.iter().zip(&self.ids).take(self.used.into());
        all.map(|(&word, &id)| (word, RuleId(id)))
    }
    fn push(&mut self, word: u64, id: RuleId) -> bool {
        let at = usize::from(self.used);
        let (Some(w), Some(i)) = (self.words.get_mut(at), self.ids.get_mut(at)) else {
            return false;
        };
        (*w, *i) = (word, id.0);
        self.used += 1;
        true
    }
    fn remove(&mut self, word: u64) -> bool {
        let used = usize::from(self.used);
        let Some(at) = self.words.iter().take(used).position(|&w| w == word) else { return false };
        self.words.swap(at, used - 1);
        self.ids.swap(at, used - 1);
        self.used -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    /// Rules that all have the same bucket go on to the next ones, then the table grows, and if that is of no use it is none.
    #[test]
    fn crowds_are_bounded() {
        let mut mask = FlowMask::default();
        mask.set(Field::EthDst, Field::EthDst.full());
        let value = |n: u64| {
            let mut value = FlowKey::default();
            value.set(Field::EthDst, n.into());
            value
        };
        let of = |n: u64| (value(n), RuleId(n as u32));
        let rules: Vec<_> = (0..40).map(of).collect();
        let mut t = Packed::of_mask(&mask).unwrap().with(5, &rules);
        let home = |t: &Packed, n| t.home(t.word(&value(n)));
        let crowd: Vec<u64> = (1000..).filter(|&n| home(&t, n) == home(&t, 0)).take(100).collect();
        let (mut len, mut buckets) = (40, t.buckets.len());
        for &n in &crowd {
            t.insert(&value(n), RuleId(n as u32), len);
            len += 1;
            assert!(t.buckets.len() <= SPARSE * len);
            buckets = buckets.max(t.buckets.len());
            let all = (0..40).chain(crowd.iter().copied().take(len - 40));
            for n in all.filter(|_| t.is_there()) {
                let (word, home) = t.probe(&value(n));
                assert_eq!(t.find(word, home), Some(RuleId(n as u32)));
            }
        }
        assert!(buckets > 40 / LOOSE);
        let (word, home) = t.probe(&value(999));
        assert_eq!(t.find(word, home), None);
        for (gone, &n) in (1..).zip(&crowd) {
            t.remove(&value(n), len - gone);
            let (word, home) = t.probe(&value(n));
            assert_eq!(t.find(word, home), None);
        }
        // Who has gone leaves no sign of having stood too far.
        assert!(t.buckets.iter().enumerate().all(|(at, b)| b.spilled == t.spills(at)));
        for n in 0..40 {
            t.remove(&value(n), 39 - n as usize);
        }
        assert!(!t.is_there());
    }
}
