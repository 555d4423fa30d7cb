//! The slots of a tuple: open addressing with tags, and the keyed hash that says where to look.
//!
//! Room: data-path core. Called by `tuple`; its hash and hasher by `scan`, `shape` and `flow_cache`, too. Knows masked words, heads and ranks; what a head
//! means is the tuple's affair, but for [`GONE`].

use crate::simd::{TAGS, match_tags, prefetch_read};
use std::hash::Hasher;

/// A slot's head is `payload << 32 | kind`: the id of its only rule, the number of its bucket, or,
/// in an array that a resize is leaving, nothing: its rule is gone, but searches must go on.
pub(crate) const RULE: u64 = 0;
pub(crate) const BUCKET: u64 = 1;
pub(crate) const GONE: u64 = 2;

/// Multipliers that turn the seed into one secret per word: odd, from the digits of the
/// golden ratio's multiples.
const fn secret_factor(i: usize) -> u64 {
    0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * i as u64 + 1) ^ (i as u64) << 57
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    p as u64 ^ (p >> 64) as u64
}

/// Hash of `words`, two to a multiplication.
#[inline(always)]
pub(crate) fn hash(seed: u64, words: &[u64]) -> u64 {
    let mut h = 0;
    for (i, pair) in words.chunks(2).enumerate() {
        let a = seed.wrapping_mul(secret_factor(2 * i));
        let b = seed.wrapping_mul(secret_factor(2 * i + 1));
        h ^= match *pair {
            [x, y] => fold(x ^ a, y ^ b),
            [x] => fold(x ^ a, b),
            _ => 0,
        };
    }
    h
}

/// For numbers that are hashes.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.0 = self.0.rotate_left(8) ^ u64::from(b));
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = x;
    }
}

/// The tag of a hash: never 0, which marks an empty slot.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    let tag = hash as u8;
    tag + u8::from(tag == 0)
}

/// Slots, `stride` words each (head, then masked words), probed linearly through their tags: one
/// comparison of [`TAGS`] of them says which slots are worth reading, so that a miss rarely reads
/// any and its cost hardly varies.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Slots {
    /// One byte a slot, 0 where it is empty; the first [`TAGS`] again at the end.
    pub(crate) tags: Box<[u8]>,
    pub(crate) words: Box<[u64]>,
    /// 64 less the logarithm of the number of slots.
    shift: u32,
    /// The owner's, beside what a search reads.
    pub(crate) beside: [u8; 4],
    /// The rank of each slot's rule: searches do not read it.
    pub(crate) ranks: Box<[u64]>,
}

impl Slots {
    /// What a search reads is so long.
    pub(crate) const READ: usize = std::mem::offset_of!(Slots, ranks);

    pub(crate) fn new(capacity: usize, stride: usize, beside: [u8; 4]) -> Self {
        Self {
            beside,
            tags: vec![0; capacity + TAGS].into(),
            words: vec![0; capacity * stride].into(),
            ranks: vec![0; capacity].into(),
            shift: 64 - capacity.trailing_zeros(),
        }
    }
    pub(crate) fn capacity(&self) -> usize {
        self.ranks.len()
    }
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }
    #[inline(always)]
    fn wrap(&self, at: usize) -> usize {
        at & (self.tags.len() - 1 - TAGS)
    }
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64, stride: usize) {
        let home = self.home(hash);
        if let (Some(tag), Some(slot)) = (self.tags.get(home), self.words.get(home * stride)) {
            prefetch_read(tag);
            prefetch_read(slot);
        }
    }
    /// The same where a rule is to be written.
    pub(crate) fn prefetch_rank(&self, hash: u64) {
        if let Some(rank) = self.ranks.get(self.home(hash)) {
            prefetch_read(rank);
        }
    }
    /// The slot of this hash for which `is` holds, and its head.
    #[inline(always)]
    fn find(&self, hash: u64, is: impl Fn(usize) -> Option<u64>) -> Option<(usize, u64)> {
        let mut from = self.home(hash);
        loop {
            let (mut hits, full) = match_tags(self.tags.get(from..)?.first_chunk()?, tag_of(hash));
            while hits != 0 {
                let at = self.wrap(from + hits.trailing_zeros() as usize);
                if let Some(head) = is(at) {
                    return Some((at, head));
                }
                hits &= hits - 1;
            }
            if !full {
                return None;
            }
            from = self.wrap(from + TAGS);
        }
    }
    #[inline(always)]
    pub(crate) fn find_fixed<const S: usize>(
        &self,
        hash: u64,
        want: &[u64; S],
    ) -> Option<(usize, u64)> {
        let (slots, _) = self.words.as_chunks::<S>();
        self.find(hash, |at| {
            let slot = slots.get(at)?;
            // Word by word: what is wanted was just stored so, and can't be loaded two words at once without waiting.
            let mut differ = 0;
            for i in 1..S {
                differ |= slot[i] ^ want[i];
            }
            (differ == 0 && slot[0] != GONE).then_some(slot[0])
        })
    }
    /// As `find_fixed`, for any number of words.
    pub(crate) fn find_slow(&self, hash: u64, want: &[u64]) -> Option<(usize, u64)> {
        let stride = want.len() + 1;
        self.find(hash, |at| {
            let (&head, words) = self.words.get(at * stride..(at + 1) * stride)?.split_first()?;
            (words == want && head != GONE).then_some(head)
        })
    }
    fn set_tag(&mut self, at: usize, tag: u8) {
        let capacity = self.capacity();
        if let Some(t) = self.tags.get_mut(at) {
            *t = tag;
        }
        if at < TAGS
            && let Some(t) = self.tags.get_mut(capacity + at)
        {
            *t = tag;
        }
    }
    pub(crate) fn head_mut(&mut self, at: usize, stride: usize) -> Option<&mut u64> {
        self.words.get_mut(at * stride)
    }
    /// Writes a slot that is not there yet into the first empty place.
    pub(crate) fn place(&mut self, hash: u64, head: u64, words: &[u64], rank: u64) {
        let stride = words.len() + 1;
        let mut at = self.home(hash);
        while self.tags.get(at).is_some_and(|&t| t != 0) {
            at = self.wrap(at + 1);
        }
        self.set_tag(at, tag_of(hash));
        if let Some((h, w)) =
            self.words.get_mut(at * stride..(at + 1) * stride).and_then(<[u64]>::split_first_mut)
        {
            *h = head;
            w.copy_from_slice(words);
        }
        if let Some(r) = self.ranks.get_mut(at) {
            *r = rank;
        }
    }
    /// Empties a slot and closes the gap, so that no search ends early. Slots before `copied` have been copied: it goes back to where one
    /// is moved from behind it.
    pub(crate) fn erase(&mut self, mut hole: usize, stride: usize, seed: u64, copied: &mut usize) {
        let mut at = hole;
        loop {
            at = self.wrap(at + 1);
            let tag = self.tags.get(at).copied().unwrap_or(0);
            let slot = self.words.get(at * stride + 1..(at + 1) * stride);
            let (1.., Some(words)) = (tag, slot) else { break };
            let home = self.home(hash(seed, words));
            // It may move into the hole if its home is not between the hole and itself.
            if self.wrap(at.wrapping_sub(home)) >= self.wrap(at.wrapping_sub(hole)) {
                self.words.copy_within(at * stride..(at + 1) * stride, hole * stride);
                self.ranks.copy_within(at..=at, hole);
                self.set_tag(hole, tag);
                if at >= *copied {
                    *copied = hole.min(*copied);
                }
                hole = at;
            }
        }
        self.set_tag(hole, 0);
    }
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.tags) + size_of_val(&*self.words) + size_of_val(&*self.ranks)
    }
}
