//! Vector code and prefetches: the ternary scan over columns, and cache-line hints.
//!
//! Room: the only module of this crate with `unsafe`, all of it behind safe functions. Called by
//! `scan`, `tuple` and `fast`, and (the prefetches) by the data plane. What the processor can do
//! is found out at run time; the portable path is the judge of the vector path.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod neon;

use crate::key::WORDS;
use crate::windows::together;

/// Which vector instructions a table uses. A value exists only where the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, and AVX2 for what is done four at a time.
    #[cfg(target_arch = "x86_64")]
    Avx512,
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
            if std::arch::is_x86_feature_detected!("avx512f") {
                all.push(Self(Kind::Avx512));
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
            Kind::Avx512 => "AVX-512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "NEON",
        }
    }
}

/// A cache line of words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// What a kind of vector instructions does that the compiler does not find by itself.
pub(crate) trait Lanes: Copy {
    /// Eight words, where there are registers for them.
    type Row: Copy;
    /// All bits.
    fn ones(self) -> Self::Row;
    /// `row & line`, word by word.
    fn and(self, row: Self::Row, line: &Line) -> Self::Row;
    /// `row & (line | other)`, word by word.
    fn and_either(self, row: Self::Row, line: &Line, other: &Line) -> Self::Row;
    /// Bit `i` set where word `i` is not zero.
    fn nonzero(self, row: Self::Row) -> u32;
    /// The words.
    fn store(self, row: Self::Row) -> Line;
    /// The bits of `word` that `mask` has, next to each other.
    fn together(self, word: u64, mask: u64) -> u64;
    /// Whether that costs the same for any bits; else they should be neighbours.
    fn any_bits(self) -> bool;
}

/// Work that is compiled once for each kind of vector instructions, if all of it is `inline(always)`.
pub(crate) trait Work {
    type Out;
    fn run<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// Does `work` with the instructions that `v` stands for.
#[inline]
pub(crate) fn with_vectors<W: Work>(v: Vectors, work: W) -> W::Out {
    match v.0 {
        Kind::Portable => work.run(Plain),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Vectors` is made with this kind only where AVX2, BMI1, BMI2 and POPCNT were detected.
        Kind::Avx2 => unsafe { with_avx2(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Vectors` is made with this kind only where AVX-512 F, AVX2, BMI1, BMI2 and POPCNT were detected.
        Kind::Avx512 => unsafe { with_avx512(work) },
        // What is compiled for AArch64 has NEON anyway, and lines of words are what compilers find by themselves.
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => work.run(Plain),
    }
}

/// Of [`Lanes`] without any: plain Rust, for which the compiler finds what vectors there are.
#[derive(Clone, Copy)]
struct Plain;

impl Lanes for Plain {
    type Row = [u64; 8];
    #[inline(always)]
    fn ones(self) -> [u64; 8] {
        [u64::MAX; 8]
    }
    #[inline(always)]
    fn and(self, row: [u64; 8], line: &Line) -> [u64; 8] {
        std::array::from_fn(|i| row[i] & line.0[i])
    }
    #[inline(always)]
    fn and_either(self, row: [u64; 8], line: &Line, other: &Line) -> [u64; 8] {
        std::array::from_fn(|i| row[i] & (line.0[i] | other.0[i]))
    }
    #[inline(always)]
    fn nonzero(self, row: [u64; 8]) -> u32 {
        row.iter().enumerate().fold(0, |bits, (i, &w)| bits | u32::from(w != 0) << i)
    }
    #[inline(always)]
    fn store(self, row: [u64; 8]) -> Line {
        Line(row)
    }
    #[inline(always)]
    fn together(self, word: u64, mask: u64) -> u64 {
        together(word, mask)
    }
    // Some processors that have AVX2 and not AVX-512 have BMI2's PEXT, too, and take a hundred cycles for it.
    #[inline(always)]
    fn any_bits(self) -> bool {
        false
    }
}

/// # Safety
/// AVX2, BMI1, BMI2 and POPCNT are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn with_avx2<W: Work>(work: W) -> W::Out {
    work.run(Plain)
}

/// A value exists only within [`with_avx512`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    type Row = std::arch::x86_64::__m512i;
    #[inline(always)]
    fn ones(self) -> Self::Row {
        // SAFETY: AVX-512 F is there where a value of this type is.
        unsafe { std::arch::x86_64::_mm512_set1_epi64(-1) }
    }
    #[inline(always)]
    fn and(self, row: Self::Row, line: &Line) -> Self::Row {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F is there where a value of this type is; a line is 64 bytes, aligned.
        unsafe { _mm512_and_si512(row, _mm512_load_si512(line.0.as_ptr().cast())) }
    }
    #[inline(always)]
    fn and_either(self, row: Self::Row, line: &Line, other: &Line) -> Self::Row {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F is there where a value of this type is; lines are 64 bytes, aligned.
        unsafe {
            let line = _mm512_load_si512(line.0.as_ptr().cast());
            let other = _mm512_load_si512(other.0.as_ptr().cast());
            _mm512_ternarylogic_epi64::<0xe0>(row, line, other)
        }
    }
    #[inline(always)]
    fn nonzero(self, row: Self::Row) -> u32 {
        // SAFETY: AVX-512 F is there where a value of this type is.
        unsafe { u32::from(std::arch::x86_64::_mm512_test_epi64_mask(row, row)) }
    }
    #[inline(always)]
    fn store(self, row: Self::Row) -> Line {
        let mut out = Line::default();
        // SAFETY: AVX-512 F is there where a value of this type is; a line is 64 bytes, aligned.
        unsafe { std::arch::x86_64::_mm512_store_si512(out.0.as_mut_ptr().cast(), row) };
        out
    }
    #[inline(always)]
    fn together(self, word: u64, mask: u64) -> u64 {
        // SAFETY: BMI2 is there where a value of this type is.
        unsafe { std::arch::x86_64::_pext_u64(word, mask) }
    }
    #[inline(always)]
    fn any_bits(self) -> bool {
        true
    }
}

/// # Safety
/// AVX-512 F, AVX2, BMI1, BMI2 and POPCNT are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,popcnt")]
unsafe fn with_avx512<W: Work>(work: W) -> W::Out {
    work.run(Avx512(()))
}

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
        Kind::Avx512 if c.len > 2 => {
            assert!(c.is_sound());
            // SAFETY: `Vectors` is made with this kind only where AVX-512 F was detected, and the
            // columns' shape was just checked.
            unsafe { first_match_avx512(key, c, floor) }
        }
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 if c.len > 2 => {
            assert!(c.is_sound());
            // SAFETY: `Vectors` is made with this kind only where AVX2 was detected, and the
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

        /// Bits are put together the same way, whoever does it.
        #[test]
        fn bits_together(word: u64, mask: u64, shift in 0u32..64, width in 0u32..64) {
            struct Of(u64, u64);
            impl Work for Of {
                type Out = u64;
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> u64 {
                    lanes.together(self.0, self.1)
                }
            }
            for mask in [mask, u64::MAX >> width << shift, 0] {
                let bits = (0..64).filter(|b| mask >> b & 1 == 1).map(|b| word >> b & 1);
                let want = bits.enumerate().fold(0, |all, (i, b)| all | b << i);
                prop_assert_eq!(together(word, mask), want);
                for v in Vectors::available() {
                    prop_assert_eq!(with_vectors(v, Of(word, mask)), want, "{}", v.name());
                }
            }
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
