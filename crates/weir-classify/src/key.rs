//! The flow key: what the mapping and matching stages see of a frame, and masks of its shape.
//!
//! A key is [`WORDS`] 64-bit words, each holding fields as plain numbers (host order, most
//! significant bit of a field first), so that a ternary comparison is `key & mask == value` word by
//! word and a prefix is a mask with leading ones. Where each field lies: `field.rs`.

use crate::field::Field;

/// 64-bit words in a key.
pub const WORDS: usize = 19;

/// A fixed-size flow key (or the value of a rule). Fields that the frame has not are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(8))]
pub struct FlowKey(pub [u64; WORDS]);

impl Default for FlowKey {
    #[inline]
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl FlowKey {
    /// The value of `f`, right-aligned. Fields are at most 128 bits wide.
    #[inline]
    pub fn get(&self, f: Field) -> u128 {
        let i = f.info();
        if i.width > 64 {
            return u128::from(self.0[i.word]) << 64 | u128::from(self.0[i.word + 1]);
        }
        u128::from(self.0[i.word] >> i.shift) & ones(i.width)
    }
    /// Sets `f` to the low bits of `v`.
    #[inline]
    pub fn set(&mut self, f: Field, v: u128) {
        let i = f.info();
        if i.width > 64 {
            self.0[i.word] = (v >> 64) as u64;
            self.0[i.word + 1] = v as u64;
            return;
        }
        let m = (ones(i.width) as u64) << i.shift;
        self.0[i.word] = self.0[i.word] & !m | (v as u64) << i.shift & m;
    }
    /// `self & mask`, word by word.
    #[inline]
    pub fn masked(&self, mask: &FlowMask) -> FlowKey {
        let mut out = *self;
        for (o, m) in out.0.iter_mut().zip(&mask.0) {
            *o &= m;
        }
        out
    }
}

/// `n` ones, right-aligned; `n` at most 128.
pub const fn ones(n: u32) -> u128 {
    if n >= 128 { u128::MAX } else { (1u128 << n) - 1 }
}

/// Which bits of a key a rule looks at. One bit, one don't-care less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C, align(8))]
pub struct FlowMask(pub [u64; WORDS]);

impl Default for FlowMask {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl FlowMask {
    /// The mask's bits for `f`, right-aligned.
    pub fn get(&self, f: Field) -> u128 {
        FlowKey(self.0).get(f)
    }
    /// Replaces the mask's bits for `f`.
    pub fn set(&mut self, f: Field, bits: u128) {
        let mut k = FlowKey(self.0);
        k.set(f, bits);
        self.0 = k.0;
    }
    /// Whether it looks at any bit of `f`.
    pub fn looks_at(&self, f: Field) -> bool {
        self.get(f) != 0
    }
    /// Whether every bit of `other` is also in this mask.
    pub fn covers(&self, other: &FlowMask) -> bool {
        // Without a way out in between: so words are compared several at a time.
        self.0.iter().zip(&other.0).fold(0, |more, (a, b)| more | b & !a) == 0
    }
    /// How many bits it looks at.
    pub(crate) fn bits(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }
    /// The bits of either.
    pub fn union(&self, other: &FlowMask) -> FlowMask {
        let mut out = *self;
        for (o, b) in out.0.iter_mut().zip(&other.0) {
            *o |= b;
        }
        out
    }
    /// Whether it looks at nothing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&w| w == 0)
    }
}
