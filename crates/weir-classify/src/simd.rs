//! Vector code and prefetches: the ternary scan over columns, and cache-line hints.
//!
//! Room: with `lanes`, `avx2` and `neon` the only module of this crate with `unsafe`, all of it behind safe functions. Called by
//! `scan`, `tuple` and `fast`, and (the prefetches) by the data plane. What the processor can do
//! is found out at run time; the portable path is the judge of the vector path.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::key::WORDS;

/// Which vector instructions a table uses. A value exists only where the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same where PEXT takes a few cycles.
    #[cfg(target_arch = "x86_64")]
    Pext,
    /// AVX-512 F, and AVX2 for what is done four at a time.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The same with AVX-512 BW, DQ, VL and BITALG.
    #[cfg(target_arch = "x86_64")]
    Bitalg,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Vectors {
    /// The best that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::portable())
    }
    /// None: plain Rust.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }
    /// Every kind that this processor has, the portable one first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::portable()];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("popcnt")
        {
            all.push(Self(Kind::Avx2));
            if avx2::has_fast_pext() {
                all.push(Self(Kind::Pext));
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                all.push(Self(Kind::Avx512));
                if std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512bitalg")
                {
                    all.push(Self(Kind::Bitalg));
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self(Kind::Neon));
        all
    }
    /// Its name, for reports.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Pext => "AVX2 PEXT",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Kind::Bitalg => "AVX-512 BITALG",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "NEON",
        }
    }
}

pub(crate) use lanes::{
    Half, Halves, Lanes, Line, Numbers, Set, Whole, Work, with_vectors, word_for_word,
};

/// Asks for the cache line at the start of `target`. A hint: it never fails and changes nothing.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(target: &T) {
    prefetch(std::ptr::from_ref(target).cast());
}

/// Asks for the cache line at the start of `target` for writing, where another processor may have it. A hint, as above; the
/// line is read where there is no such hint.
#[inline(always)]
pub fn prefetch_write<T: ?Sized>(target: &T) {
    let at: *const u8 = std::ptr::from_ref(target).cast();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that the program can see and faults on no address; processors without this
        // one take it for no operation.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch(at);
}

/// Asks for the cache lines of the first `bytes` of `slice` (less, where it is shorter).
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], bytes: usize) {
    let start: *const u8 = slice.as_ptr().cast();
    let mut at = 0;
    while at < bytes.min(size_of_val(slice)) {
        prefetch(start.wrapping_add(at));
        at += 64;
    }
}

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see and faults on no address; SSE is
        // part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: `prfm` is a hint that faults on no address and writes neither memory nor flags.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Rules that AVX-512 compares at a time.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 8;

/// Tags compared at a time.
pub(crate) const TAGS: usize = 16;

/// Which of `tags` equal `tag`, of those before the first 0 (bit `i` for tag `i`), and whether
/// there is no 0.
#[inline(always)]
pub(crate) fn match_tags(tags: &[u8; TAGS], tag: u8) -> (u32, bool) {
    #[cfg(target_arch = "x86_64")]
    let (equal, empty) = {
        use std::arch::x86_64::*;
        // SAFETY: 16 bytes are read, which is what the array has; SSE2 is part of x86-64.
        unsafe {
            let t = _mm_loadu_si128(tags.as_ptr().cast());
            (
                _mm_movemask_epi8(_mm_cmpeq_epi8(t, _mm_set1_epi8(tag as i8))) as u32,
                _mm_movemask_epi8(_mm_cmpeq_epi8(t, _mm_setzero_si128())) as u32,
            )
        }
    };
    #[cfg(target_arch = "aarch64")]
    let (equal, empty) = neon::match_tags(tags, tag);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let (equal, empty) = match_tags_portable(tags, tag);
    // Below the lowest bit of `empty`; all, where it has none.
    (equal & empty.wrapping_sub(1) & !empty, empty == 0)
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn match_tags_portable(tags: &[u8; TAGS], tag: u8) -> (u32, u32) {
    let bits = |x: u8| tags.iter().enumerate().fold(0, |b, (i, &t)| b | u32::from(t == x) << i);
    (bits(tag), bits(0))
}

/// Columns of ternary rules, best first. `data` holds `2 + 2 × used words` columns of `cap`
/// elements: ranks (falling), ids, then a mask and a value column for each used word. `words` has
/// bit `i` set where the key's word `i` is used. The first `len` elements of a column count.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) data: &'a [u64],
    pub(crate) words: u32,
    pub(crate) cap: usize,
    pub(crate) len: usize,
}

impl Columns<'_> {
    #[inline]
    fn is_sound(&self) -> bool {
        self.words >> WORDS == 0
            && self.len <= self.cap
            && self.data.len() == (2 + 2 * self.words.count_ones() as usize) * self.cap
    }
}

/// The first rule that fits `key`, of those whose rank is above `floor`.
#[inline]
pub(crate) fn first_match(
    v: Vectors,
    key: &[u64; WORDS],
    c: Columns<'_>,
    floor: u64,
) -> Option<usize> {
    match v.0 {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 | Kind::Bitalg if c.len > 2 => {
            assert!(c.is_sound());
            // SAFETY: `Vectors` is made with these kinds only where AVX-512 F was detected, and the
            // columns' shape was just checked.
            unsafe { first_match_avx512(key, c, floor) }
        }
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 | Kind::Pext if c.len > 2 => {
            assert!(c.is_sound());
            // SAFETY: `Vectors` is made with these kinds only where AVX2 was detected, and the
            // columns' shape was just checked.
            unsafe { first_match_avx2(key, c, floor) }
        }
        #[cfg(target_arch = "aarch64")]
        Kind::Neon if c.len > 2 => {
            assert!(c.is_sound());
            // SAFETY: the columns' shape was just checked.
            unsafe { neon::first_match(key, c, floor) }
        }
        _ => first_match_portable(key, c, floor),
    }
}

#[inline]
fn first_match_portable(key: &[u64; WORDS], c: Columns<'_>, floor: u64) -> Option<usize> {
    debug_assert!(c.is_sound());
    let ranks = c.data.get(..c.cap)?;
    (0..c.len)
        .take_while(|&i| ranks.get(i).is_some_and(|&r| r > floor))
        .find(|&i| fits_portable(key, c, i))
}

/// Whether rule `i` fits `key`.
#[inline]
fn fits_portable(key: &[u64; WORDS], c: Columns<'_>, i: usize) -> bool {
    let Some(columns) = c.data.get(2 * c.cap..) else { return false };
    let mut words = c.words;
    let mut at = i;
    while words != 0 {
        let word = words.trailing_zeros() as usize;
        words &= words - 1;
        let (Some(k), Some(m), Some(v)) = (key.get(word), columns.get(at), columns.get(at + c.cap))
        else {
            return false;
        };
        if k & m != *v {
            return false;
        }
        at += 2 * c.cap;
    }
    true
}

/// # Safety
/// AVX2 is there, and `c.is_sound()`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn first_match_avx2(key: &[u64; WORDS], c: Columns<'_>, floor: u64) -> Option<usize> {
    use std::arch::x86_64::*;
    let columns = c.data.as_ptr();
    let mut block = 0;
    while block < c.len {
        // SAFETY: `block < len <= cap`, and the first column has `cap` elements.
        if unsafe { *columns.add(block) } <= floor {
            return None;
        }
        let lanes = (c.len - block).min(4);
        let full = lanes == 4;
        let lane_mask =
            _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes as i64), _mm256_set_epi64x(3, 2, 1, 0));
        let mut live = (1u32 << lanes) - 1;
        let mut words = c.words;
        let mut column = 2 * c.cap + block;
        while words != 0 {
            let word = words.trailing_zeros() as usize;
            words &= words - 1;
            // SAFETY: `word < WORDS` as `words` has no bit from WORDS up.
            let k = _mm256_set1_epi64x(unsafe { *key.get_unchecked(word) } as i64);
            // SAFETY: the mask column of this word starts at `column - block` and the value
            // column `cap` later, both within `data`; of each, elements from `block` up to
            // `block + lanes <= len <= cap` are read, the masked loads touching no other.
            let (m, v) = unsafe {
                let m = columns.add(column).cast::<i64>();
                let v = columns.add(column + c.cap).cast::<i64>();
                if full {
                    (_mm256_loadu_si256(m.cast()), _mm256_loadu_si256(v.cast()))
                } else {
                    (_mm256_maskload_epi64(m, lane_mask), _mm256_maskload_epi64(v, lane_mask))
                }
            };
            let same = _mm256_cmpeq_epi64(_mm256_and_si256(k, m), v);
            live &= _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32;
            if live == 0 {
                break;
            }
            column += 2 * c.cap;
        }
        if live != 0 {
            let i = block + live.trailing_zeros() as usize;
            // SAFETY: `i < len`, as above.
            return (unsafe { *columns.add(i) } > floor).then_some(i);
        }
        block += 4;
    }
    None
}

/// # Safety
/// AVX-512 F is there, and `c.is_sound()`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn first_match_avx512(key: &[u64; WORDS], c: Columns<'_>, floor: u64) -> Option<usize> {
    use std::arch::x86_64::*;
    let columns = c.data.as_ptr();
    let mut block = 0;
    while block < c.len {
        // SAFETY: `block < len <= cap`, and the first column has `cap` elements.
        if unsafe { *columns.add(block) } <= floor {
            return None;
        }
        let mut live = ((1u32 << (c.len - block).min(LANES)) - 1) as __mmask8;
        let mut words = c.words;
        let mut column = 2 * c.cap + block;
        while words != 0 {
            let word = words.trailing_zeros() as usize;
            words &= words - 1;
            // SAFETY: `word < WORDS` as `words` has no bit from WORDS up.
            let k = _mm512_set1_epi64(unsafe { *key.get_unchecked(word) } as i64);
            // SAFETY: the mask column of this word starts at `column - block` and the value
            // column `cap` later, both within `data`; of each, the live elements from `block` on
            // are read, all of them below `len <= cap`: masked loads touch no other.
            let (m, v) = unsafe {
                let m = columns.add(column).cast();
                let v = columns.add(column + c.cap).cast();
                (_mm512_maskz_loadu_epi64(live, m), _mm512_maskz_loadu_epi64(live, v))
            };
            live = _mm512_mask_cmpeq_epi64_mask(live, _mm512_and_si512(k, m), v);
            if live == 0 {
                break;
            }
            column += 2 * c.cap;
        }
        if live != 0 {
            let i = block + live.trailing_zeros() as usize;
            // SAFETY: `i < len`, as above.
            return (unsafe { *columns.add(i) } > floor).then_some(i);
        }
        block += LANES;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tags_agree(tags in prop::array::uniform16(0u8..4), tag in 1u8..4) {
            let (equal, empty) = match_tags_portable(&tags, tag);
            let before = tags.iter().position(|&t| t == 0).unwrap_or(TAGS);
            prop_assert_eq!(match_tags(&tags, tag), (equal & ((1 << before) - 1), empty == 0));
        }

        /// Any columns, any key, any floor: each vector path answers as the portable one.
        #[test]
        fn vectors_agree(
            words in 0u32..1 << WORDS,
            len in 0usize..40,
            spare in 0usize..5,
            floor in 0u64..45,
            seed in prop::collection::vec(0u64..4, 32),
            key in prop::array::uniform19(0u64..4),
        ) {
            let cap = len + spare;
            let n = 2 + 2 * words.count_ones() as usize;
            let mut data = vec![0; n * cap];
            for column in 0..n {
                for i in 0..len {
                    let s = seed[(column * 7 + i * 3) % seed.len()];
                    data[column * cap + i] = match column {
                        0 => (len - i) as u64,
                        1 => i as u64,
                        // Sparse masks, so that several words in a row can fit.
                        c if c % 2 == 0 => s & seed[(i + c) % seed.len()],
                        _ => s & data[(column - 1) * cap + i],
                    };
                }
            }
            let c = Columns { data: &data, words, cap, len };
            let want = first_match(Vectors::portable(), &key, c, floor);
            for v in Vectors::available() {
                prop_assert_eq!(first_match(v, &key, c, floor), want, "{}", v.name());
            }
        }
    }
}
