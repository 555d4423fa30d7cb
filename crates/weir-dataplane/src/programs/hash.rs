//! A fast, seeded hash of short keys for the programs' tables. Touches numbers only.
//!
//! One multiplication folded to 64 bits per word. The seed keeps a sender that chooses its
//! addresses from knowing which of them collide; it is no cryptographic hash, and whoever could
//! measure a program's lookups closely might still find out. Tables stay bounded whatever happens.

use std::hash::{BuildHasher, Hasher, RandomState};

/// An odd constant without structure: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of one word under a seed.
#[inline(always)]
pub(crate) fn fold(word: u64, seed: u64) -> u64 {
    folded(word ^ seed, SPREAD)
}

/// Each bit of both reaches both halves: a multiplication to 128 bits, folded.
#[inline(always)]
pub(crate) fn folded(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

/// A seed that differs from run to run.
pub(crate) fn fresh_seed() -> u64 {
    RandomState::new().hash_one(SPREAD)
}

/// Makes [`FoldHasher`]s for a `HashMap`.
#[derive(Clone, Debug)]
pub(crate) struct Fold(u64);

impl Default for Fold {
    fn default() -> Self {
        Self(fresh_seed())
    }
}

impl BuildHasher for Fold {
    type Hasher = FoldHasher;
    fn build_hasher(&self) -> FoldHasher {
        FoldHasher(self.0)
    }
}

/// Takes words one after another.
#[derive(Debug)]
pub(crate) struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0u8; 8];
            for (to, from) in word.iter_mut().zip(part) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word) ^ (part.len() as u64) << 60);
        }
    }
    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = fold(word, self.0.rotate_left(23));
    }
    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }
    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }
    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }
    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }
    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
