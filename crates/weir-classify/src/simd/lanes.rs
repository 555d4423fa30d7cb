//! Lines of bits, and bits picked out of keys, in the vector instructions that there are: work is written once and compiled for each kind.
//!
//! Part of `simd`, and has `unsafe` as that does. Called by `ranked` and `index`.

#[cfg(target_arch = "x86_64")]
use super::avx2::{Avx2, Pext, Shifts, Together};
use super::{Kind, Vectors};
use crate::key::WORDS;
use crate::windows::{Picks, WINDOWS, Window, together};

/// A cache line of words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// A number for each half of a line's words, the lower half first.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Halves(pub(crate) [u32; 16]);

/// Numbers below [`MEMBERS`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Numbers(pub(crate) [u16; 32]);

/// Numbers that a whole set may have.
pub(crate) const MEMBERS: usize = 1024;

/// A set of numbers below 32 for each of its words: of each a bit, the lowest first. There are whole ones, and [`Half`] of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Set<const WORDS: usize>([u32; WORDS]);

/// A set of numbers below half of [`MEMBERS`].
pub(crate) type Half = Set<{ MEMBERS / 64 }>;
/// A set of numbers below [`MEMBERS`].
pub(crate) type Whole = Set<{ MEMBERS / 32 }>;

impl<const WORDS: usize> Set<WORDS> {
    /// Words that it has, and numbers that it may have.
    pub(crate) const WORDS: usize = WORDS;
    pub(crate) const NUMBERS: usize = WORDS * 32;
    /// Without any.
    pub(crate) const NONE: Self = Self([0; WORDS]);
    /// Puts a number in; one that is too great is in no set.
    pub(crate) fn put(&mut self, number: u16) {
        let word = self.0.get_mut(usize::from(number >> 5));
        word.into_iter().for_each(|w| *w |= 1 << (number & 31));
    }
    /// Whether it has a number.
    pub(crate) fn has(&self, number: u16) -> bool {
        self.0.get(usize::from(number >> 5)).is_some_and(|w| w >> (number & 31) & 1 != 0)
    }
    /// Of a whole set what this kind of set may have.
    #[inline(always)]
    pub(crate) fn of(whole: &Whole) -> Self {
        const { assert!(WORDS <= MEMBERS / 32) };
        Self(std::array::from_fn(|i| whole.0[i]))
    }
    /// What a whole set has as well.
    #[inline(always)]
    pub(crate) fn and(&self, whole: &Whole) -> Self {
        const { assert!(WORDS <= MEMBERS / 32) };
        Self(std::array::from_fn(|i| self.0[i] & whole.0[i]))
    }
    #[inline(always)]
    pub(super) fn words(&self) -> &[u32; WORDS] {
        &self.0
    }
}

/// What a kind of vector instructions does that the compiler does not find by itself.
pub(crate) trait Lanes: Copy {
    /// Whether [`Lanes::pick`] looks at the windows themselves.
    const BY_WINDOWS: bool;
    /// Eight words, where there are registers for them.
    type Row: Copy;
    /// All bits.
    fn ones(self) -> Self::Row;
    /// These words first, and zeros.
    fn row(self, words: [u64; 2]) -> Self::Row;
    /// `row & line`, word by word.
    fn and(self, row: Self::Row, line: &Line) -> Self::Row;
    /// `row & (line | other)`, word by word.
    fn and_either(self, row: Self::Row, line: &Line, other: &Line) -> Self::Row;
    /// `row` without those halves of its words whose numbers are below `floor`.
    fn at_least(self, row: Self::Row, numbers: &Halves, floor: u32) -> Self::Row;
    /// Bit `i` set where word `i` is not zero.
    fn nonzero(self, row: Self::Row) -> u32;
    /// The words.
    fn store(self, row: Self::Row) -> Line;
    /// The first word that is not zero, where there is one; `some` says which are not.
    #[inline(always)]
    fn first_word(self, row: Self::Row, some: u32) -> u64 {
        self.store(row).0[some.trailing_zeros() as usize % 8]
    }
    /// The words of a key that `words` names, of these the first `W`, and zeros. Every name must be one of a key's words.
    #[inline(always)]
    fn chosen<const W: usize>(self, key: &[u64; WORDS], words: &[u8; 8]) -> [u64; 8] {
        word_for_word::<W>(key, words)
    }
    /// The bits of `word` that `mask` has, next to each other.
    fn together(self, word: u64, mask: u64) -> u64;
    /// Whether that costs the same for any bits; else they should be neighbours.
    fn any_bits(self) -> bool;
    /// What a key has in windows, of each a byte, the first one's the lowest; `picks` is made of them.
    #[inline(always)]
    fn pick(self, key: &[u64; 8], _picks: &Picks, windows: &[Window; WINDOWS]) -> u64 {
        one_by_one(self, key, windows)
    }
    /// Whether a key is what a rule asks, word by word.
    #[inline(always)]
    fn fits<const W: usize>(self, key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool {
        word_by_word(key, mask, value)
    }
    /// Which of these a set has: a bit each. All are below what it may have.
    #[inline(always)]
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32 {
        let each = numbers.0.iter().enumerate();
        each.fold(0, |bits, (i, n)| bits | u32::from(set.has(*n)) << i)
    }
}

/// Words that are compared one by one.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 4;

#[inline(always)]
fn one_by_one<L: Lanes>(lanes: L, key: &[u64; 8], windows: &[Window; WINDOWS]) -> u64 {
    let mut out = 0;
    for (i, w) in windows.iter().enumerate() {
        out |= lanes.together(key[usize::from(w.word) % 8], w.mask) << (8 * i);
    }
    out
}

/// [`Lanes::chosen`], for who reads them one by one.
#[inline(always)]
pub(crate) fn word_for_word<const W: usize>(key: &[u64; WORDS], words: &[u8; 8]) -> [u64; 8] {
    let mut out = [0; 8];
    for (to, from) in out.iter_mut().zip(words).take(W) {
        *to = key.get(usize::from(*from)).copied().unwrap_or(0);
    }
    out
}

#[inline(always)]
fn word_by_word<const W: usize>(key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool {
    let mut differ = 0;
    for i in 0..W {
        differ |= (key[i % 8] & mask[i]) ^ value[i];
    }
    differ == 0
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
        Kind::Avx2 => unsafe { with_avx2(work, Shifts) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Vectors` is made with this kind only where these were detected; BMI2 is what `Pext` stands for.
        Kind::Pext => unsafe { with_avx2(work, Pext(())) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Vectors` is made with this kind only where AVX-512 F, AVX2, BMI1, BMI2 and POPCNT were detected.
        Kind::Avx512 => unsafe { with_avx512(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Vectors` is made with this kind only where these and AVX-512 BW, DQ, VL and BITALG were detected.
        Kind::Bitalg => unsafe { with_bitalg(work) },
        // What is compiled for AArch64 has NEON anyway, and lines of words are what compilers find by themselves.
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => work.run(Plain),
    }
}

impl Vectors {
    /// Whether any bits of a word are put together at the same cost.
    pub(crate) fn any_bits(self) -> bool {
        struct Any;
        impl Work for Any {
            type Out = bool;
            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) -> bool {
                lanes.any_bits()
            }
        }
        with_vectors(self, Any)
    }
}

/// Of [`Lanes`] without any: plain Rust, for which the compiler finds what vectors there are.
#[derive(Clone, Copy)]
struct Plain;

impl Lanes for Plain {
    const BY_WINDOWS: bool = true;
    type Row = [u64; 8];
    #[inline(always)]
    fn ones(self) -> [u64; 8] {
        [u64::MAX; 8]
    }
    #[inline(always)]
    fn row(self, words: [u64; 2]) -> [u64; 8] {
        [words[0], words[1], 0, 0, 0, 0, 0, 0]
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
    fn at_least(self, row: [u64; 8], numbers: &Halves, floor: u32) -> [u64; 8] {
        let kept = |at: usize| if numbers.0[at] < floor { 0 } else { u64::from(u32::MAX) };
        std::array::from_fn(|i| row[i] & (kept(2 * i) | kept(2 * i + 1) << 32))
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
    #[inline(always)]
    fn any_bits(self) -> bool {
        false
    }
}

/// # Safety
/// AVX2, BMI1, BMI2 and POPCNT are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn with_avx2<W: Work, T: Together>(work: W, together: T) -> W::Out {
    work.run(Avx2(together))
}

/// # Safety
/// AVX-512 F, AVX2, BMI1, BMI2 and POPCNT are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,popcnt")]
unsafe fn with_avx512<W: Work>(work: W) -> W::Out {
    work.run(Avx512(Foundation(())))
}

/// # Safety
/// AVX-512 F, BW, DQ, VL and BITALG, AVX2, BMI1, BMI2 and POPCNT are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bitalg,avx2,bmi1,bmi2,popcnt")]
unsafe fn with_bitalg<W: Work>(work: W) -> W::Out {
    work.run(Avx512(Bitalg(())))
}

/// What kinds of AVX-512 differ in.
#[cfg(target_arch = "x86_64")]
trait Extension: Copy {
    const BY_WINDOWS: bool;
    fn pick(
        self,
        lanes: Avx512<Self>,
        key: &[u64; 8],
        picks: &Picks,
        windows: &[Window; WINDOWS],
    ) -> u64;
    fn fits<const W: usize>(self, key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool;
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32;
}

/// AVX-512 F by itself.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Foundation(());

#[cfg(target_arch = "x86_64")]
impl Extension for Foundation {
    const BY_WINDOWS: bool = true;
    #[inline(always)]
    fn pick(
        self,
        lanes: Avx512<Self>,
        key: &[u64; 8],
        _: &Picks,
        windows: &[Window; WINDOWS],
    ) -> u64 {
        one_by_one(lanes, key, windows)
    }
    #[inline(always)]
    fn fits<const W: usize>(self, key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool {
        word_by_word(key, mask, value)
    }
    #[inline(always)]
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32 {
        use std::arch::x86_64::*;
        const { assert!(WORDS == 16 || WORDS == 32) };
        // SAFETY: AVX-512 F and AVX2 are there where a value of this type is; a set is 64 or 128 bytes and numbers are 64, aligned.
        unsafe {
            let low = _mm512_load_si512(set.0.as_ptr().cast());
            let half = |i: usize| {
                let some = _mm256_load_si256(numbers.0.as_ptr().add(16 * i).cast());
                let some = _mm512_cvtepu16_epi32(some);
                let at = _mm512_srli_epi32::<5>(some);
                // Of the index four or five bits are looked at, and five of what is turned by.
                let word = if WORDS == 16 {
                    _mm512_permutexvar_epi32(at, low)
                } else {
                    let high = _mm512_load_si512(set.0.as_ptr().add(16).cast());
                    _mm512_permutex2var_epi32(low, at, high)
                };
                let bit = _mm512_rorv_epi32(word, some);
                u32::from(_mm512_test_epi32_mask(bit, _mm512_set1_epi32(1)))
            };
            half(0) | half(1) << 16
        }
    }
}

/// A value exists only within [`with_bitalg`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Bitalg(());

#[cfg(target_arch = "x86_64")]
impl Extension for Bitalg {
    const BY_WINDOWS: bool = false;
    #[inline(always)]
    fn pick(self, _: Avx512<Self>, key: &[u64; 8], picks: &Picks, _: &[Window; WINDOWS]) -> u64 {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F, BW and BITALG are there where a value of this type is; 64 bytes are read of the key and of the
        // bits, and 8 of the words, which is what they have.
        let picked = unsafe {
            let key = _mm512_loadu_si512(key.as_ptr().cast());
            let words = _mm512_cvtepu8_epi64(_mm_loadl_epi64(picks.words.as_ptr().cast()));
            let bits = _mm512_loadu_si512(picks.bits.as_ptr().cast());
            _mm512_bitshuffle_epi64_mask(_mm512_permutexvar_epi64(words, key), bits)
        };
        picked & picks.kept
    }
    #[inline(always)]
    fn fits<const W: usize>(self, key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool {
        // Few words are compared sooner than a mask register is read.
        if W <= FEW {
            return word_by_word(key, mask, value);
        }
        use std::arch::x86_64::*;
        const { assert!(W <= 8) };
        let some = ((1u32 << W) - 1) as __mmask8;
        // SAFETY: AVX-512 F is there where a value of this type is; the first `W` words of each are read, which all have:
        // masked loads touch no other.
        let differ = unsafe {
            let key = _mm512_maskz_loadu_epi64(some, key.as_ptr().cast());
            let mask = _mm512_maskz_loadu_epi64(some, mask.as_ptr().cast());
            let value = _mm512_maskz_loadu_epi64(some, value.as_ptr().cast());
            _mm512_cmpneq_epi64_mask(_mm512_and_si512(key, mask), value)
        };
        differ == 0
    }
    #[inline(always)]
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32 {
        use std::arch::x86_64::*;
        const { assert!(WORDS == 16 || WORDS == 32) };
        // SAFETY: AVX-512 F and BW are there where a value of this type is; a set is 64 or 128 bytes and numbers are 64, aligned.
        unsafe {
            let low = _mm512_load_si512(set.0.as_ptr().cast());
            let some = _mm512_load_si512(numbers.0.as_ptr().cast());
            let at = _mm512_srli_epi16::<4>(some);
            // Of the index five or six bits are looked at.
            let part = if WORDS == 16 {
                _mm512_permutexvar_epi16(at, low)
            } else {
                let high = _mm512_load_si512(set.0.as_ptr().add(16).cast());
                _mm512_permutex2var_epi16(low, at, high)
            };
            let bit = _mm512_srlv_epi16(part, _mm512_and_si512(some, _mm512_set1_epi16(15)));
            _mm512_test_epi16_mask(bit, _mm512_set1_epi16(1))
        }
    }
}

/// A value exists only within [`with_avx512`] and [`with_bitalg`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx512<E>(E);

#[cfg(target_arch = "x86_64")]
impl<E: Extension> Lanes for Avx512<E> {
    const BY_WINDOWS: bool = E::BY_WINDOWS;
    type Row = std::arch::x86_64::__m512i;
    #[inline(always)]
    fn ones(self) -> Self::Row {
        // SAFETY: AVX-512 F is there where a value of this type is.
        unsafe { std::arch::x86_64::_mm512_set1_epi64(-1) }
    }
    #[inline(always)]
    fn row(self, words: [u64; 2]) -> Self::Row {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F is there where a value of this type is; two words are read.
        unsafe { _mm512_zextsi128_si512(_mm_loadu_si128(words.as_ptr().cast())) }
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
    fn at_least(self, row: Self::Row, numbers: &Halves, floor: u32) -> Self::Row {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F is there where a value of this type is; there are 64 bytes of numbers, aligned.
        unsafe {
            let numbers = _mm512_load_si512(numbers.0.as_ptr().cast());
            let kept = _mm512_cmpge_epu32_mask(numbers, _mm512_set1_epi32(floor as i32));
            _mm512_maskz_mov_epi32(kept, row)
        }
    }
    #[inline(always)]
    fn nonzero(self, row: Self::Row) -> u32 {
        // SAFETY: AVX-512 F is there where a value of this type is.
        unsafe { u32::from(std::arch::x86_64::_mm512_test_epi64_mask(row, row)) }
    }
    #[inline(always)]
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32 {
        self.0.members(numbers, set)
    }
    #[inline(always)]
    fn store(self, row: Self::Row) -> Line {
        let mut out = Line::default();
        // SAFETY: AVX-512 F is there where a value of this type is; a line is 64 bytes, aligned.
        unsafe { std::arch::x86_64::_mm512_store_si512(out.0.as_mut_ptr().cast(), row) };
        out
    }
    #[inline(always)]
    fn first_word(self, row: Self::Row, some: u32) -> u64 {
        use std::arch::x86_64::*;
        // SAFETY: AVX-512 F is there where a value of this type is.
        unsafe {
            let first = _mm512_maskz_compress_epi64(some as __mmask8, row);
            _mm_cvtsi128_si64(_mm512_castsi512_si128(first)) as u64
        }
    }
    #[inline(always)]
    fn chosen<const W: usize>(self, key: &[u64; WORDS], words: &[u8; 8]) -> [u64; 8] {
        use std::arch::x86_64::*;
        const { assert!(W <= 8 && WORDS > 16 && WORDS <= 24) };
        let mut out = Line::default();
        let first = ((1u32 << W) - 1) as __mmask8;
        // SAFETY: AVX-512 F is there where a value of this type is; of the key's words three times eight are read, which it has,
        // of `words` all, and a line is 64 bytes, aligned. No name leads out of what was read: only its low bits are looked at.
        unsafe {
            let at = _mm512_cvtepu8_epi64(_mm_loadl_epi64(words.as_ptr().cast()));
            let low = _mm512_loadu_si512(key.as_ptr().cast());
            let high = _mm512_loadu_si512(key.as_ptr().add(8).cast());
            let end = _mm512_loadu_si512(key.as_ptr().add(WORDS - 8).cast());
            let chosen = _mm512_maskz_permutex2var_epi64(first, low, at, high);
            let last = (WORDS - 8) as i64;
            let behind = first & _mm512_cmpge_epu64_mask(at, _mm512_set1_epi64(16));
            let from_last = _mm512_sub_epi64(at, _mm512_set1_epi64(last));
            let chosen = _mm512_mask_permutexvar_epi64(chosen, behind, from_last, end);
            _mm512_store_si512(out.0.as_mut_ptr().cast(), chosen);
        }
        out.0
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
    #[inline(always)]
    fn pick(self, key: &[u64; 8], picks: &Picks, windows: &[Window; WINDOWS]) -> u64 {
        self.0.pick(self, key, picks, windows)
    }
    #[inline(always)]
    fn fits<const W: usize>(self, key: &[u64; 8], mask: &[u64; W], value: &[u64; W]) -> bool {
        self.0.fits(key, mask, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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

        /// Halves of words are kept the same way, whoever does it.
        #[test]
        fn halves_that_are_kept(row: [u64; 8], numbers: [u32; 16], floor in any::<prop::sample::Index>(), near in 0u32..3) {
            struct Of(Line, Halves, u32);
            impl Work for Of {
                type Out = [u64; 8];
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> [u64; 8] {
                    let row = lanes.and(lanes.ones(), &self.0);
                    lanes.store(lanes.at_least(row, &self.1, self.2)).0
                }
            }
            let floor = floor.get(&numbers).wrapping_add(near).wrapping_sub(1);
            let mut want = row;
            for i in (0..16).filter(|i| numbers[*i] < floor) {
                want[i / 2] &= if i % 2 == 0 { !0 << 32 } else { !0 >> 32 };
            }
            for v in Vectors::available() {
                let kept = with_vectors(v, Of(Line(row), Halves(numbers), floor));
                prop_assert_eq!(kept, want, "{}", v.name());
            }
        }

        /// Which numbers a set has is the same, whoever says it.
        #[test]
        fn numbers_of_a_set(all in prop::collection::vec(0u16..1024, 0..400), numbers: [u16; 32], own: u32) {
            struct Of<const WORDS: usize>(Numbers, Set<WORDS>);
            impl<const WORDS: usize> Work for Of<WORDS> {
                type Out = u32;
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> u32 {
                    lanes.members(&self.0, &self.1)
                }
            }
            let mut set = Whole::NONE;
            all.iter().for_each(|n| set.put(*n));
            let numbers: [u16; 32] = std::array::from_fn(|i| match all.get(i * 7) {
                Some(n) if own >> i & 1 == 1 => *n,
                _ => numbers[i] % 1024,
            });
            let want = |numbers: [u16; 32]| {
                (0..32).filter(|i| all.contains(&numbers[*i])).fold(0, |bits, i| bits | 1 << i)
            };
            let lower = numbers.map(|n| n % 512);
            for v in Vectors::available() {
                let found = with_vectors(v, Of(Numbers(numbers), set));
                prop_assert_eq!(found, want(numbers), "{}", v.name());
                let found = with_vectors(v, Of(Numbers(lower), Half::of(&set)));
                prop_assert_eq!(found, want(lower), "{}", v.name());
            }
        }

        /// What is left of a row, and its first word, are the same, whoever finds them.
        #[test]
        fn rows_that_are_looked_at(
            row in prop::array::uniform8(prop::option::of(any::<u64>())),
            line: [u64; 8],
            other in prop::array::uniform8(prop::option::of(any::<u64>())),
        ) {
            struct Of(Line, Line, Line);
            impl Work for Of {
                type Out = (u32, u64, [u64; 8], [u64; 8]);
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> Self::Out {
                    let row = lanes.and(lanes.ones(), &self.0);
                    let some = lanes.nonzero(row);
                    let either = lanes.and_either(row, &self.1, &self.2);
                    let short = lanes.store(lanes.row([self.1.0[0], self.1.0[1]]));
                    (some, lanes.first_word(row, some), lanes.store(either).0, short.0)
                }
            }
            let [row, other] = [row, other].map(|words| words.map(Option::unwrap_or_default));
            let some = (0..8).filter(|i| row[*i] != 0).fold(0, |bits, i| bits | 1 << i);
            let first = row.iter().copied().find(|w| *w != 0).unwrap_or(0);
            let either: [u64; 8] = std::array::from_fn(|i| row[i] & (line[i] | other[i]));
            for v in Vectors::available() {
                let found = with_vectors(v, Of(Line(row), Line(line), Line(other)));
                let short = [line[0], line[1], 0, 0, 0, 0, 0, 0];
                prop_assert_eq!(found, (some, first, either, short), "{}", v.name());
            }
        }

        /// Words of a key are chosen the same way, whoever does it.
        #[test]
        fn words_that_are_chosen(words: [u64; WORDS], names in prop::array::uniform8(0..WORDS as u8)) {
            struct Of<'a, const W: usize>(&'a [u64; WORDS], &'a [u8; 8]);
            impl<const W: usize> Work for Of<'_, W> {
                type Out = [u64; 8];
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> [u64; 8] {
                    lanes.chosen::<W>(self.0, self.1)
                }
            }
            let want = |width| std::array::from_fn(|i| if i < width { words[names[i] as usize] } else { 0 });
            prop_assert_eq!(word_for_word::<7>(&words, &names), want(7));
            for v in Vectors::available() {
                prop_assert_eq!(with_vectors(v, Of::<3>(&words, &names)), want(3), "{}", v.name());
                prop_assert_eq!(with_vectors(v, Of::<7>(&words, &names)), want(7), "{}", v.name());
            }
        }

        /// Windows are picked the same way by all, and rules fit the same keys.
        #[test]
        fn picks_and_fits(
            key: [u64; 8],
            words in prop::array::uniform8(0u8..8),
            bits in prop::collection::vec(prop::collection::vec(0u32..64, 0..9), 0..9),
            mask: [u64; 7],
            flip in 0u32..512,
        ) {
            struct Of<'a>([u64; 8], &'a Picks, &'a [Window; WINDOWS]);
            impl Work for Of<'_> {
                type Out = u64;
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> u64 {
                    lanes.pick(&self.0, self.1, self.2)
                }
            }
            struct Fits<const W: usize>([u64; 8], [u64; W], [u64; W]);
            impl<const W: usize> Work for Fits<W> {
                type Out = bool;
                #[inline(always)]
                fn run<L: Lanes>(self, lanes: L) -> bool {
                    lanes.fits(&self.0, &self.1, &self.2)
                }
            }
            let mut windows = [Window::default(); WINDOWS];
            for ((w, word), bits) in windows.iter_mut().zip(words).zip(&bits) {
                *w = Window { word, mask: bits.iter().fold(0, |m, b| m | 1 << b) };
            }
            let picks = Picks::new(&windows);
            let want = windows.iter().enumerate().fold(0, |all, (i, w)| all | w.of(&key) << (8 * i));
            let mut value: [u64; 7] = std::array::from_fn(|i| key[i] & mask[i]);
            // Mostly in none of the words.
            if let Some(v) = value.get_mut(flip as usize / 64) {
                *v ^= 1 << (flip % 64);
            }
            let narrow = |all: [u64; 7]| -> [u64; 3] { std::array::from_fn(|i| all[i]) };
            for v in Vectors::available() {
                prop_assert_eq!(with_vectors(v, Of(key, &picks, &windows)), want, "{}", v.name());
                let fits = with_vectors(v, Fits(key, mask, value));
                prop_assert_eq!(fits, flip >= 448, "{}", v.name());
                let fits = with_vectors(v, Fits(key, narrow(mask), narrow(value)));
                prop_assert_eq!(fits, flip >= 192, "{}", v.name());
            }
        }
    }
}
