//! Lines of bits by AVX2, and bits put together by BMI2's PEXT where the processor does that in a few cycles: for those without AVX-512.
//!
//! Part of `simd`, and has `unsafe` as that does. Called by `lanes`.

use super::lanes::{Halves, Lanes, Line, Numbers, Set};
use crate::windows::together;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Whether PEXT takes a few cycles. Asked of the processor once: under a hypervisor that is a way out and back.
pub(super) fn has_fast_pext() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| {
        // Toolchains before 1.94 have it as unsafe.
        #[allow(unused_unsafe)]
        // SAFETY: x86-64 has CPUID, and every processor its leaves 0 and 1.
        let (vendor, version) = unsafe { (__cpuid(0), __cpuid(1)) };
        is_fast_pext(&vendor, &version)
    })
}
/// The same, by what CPUID's leaves 0 and 1 say. AMD's had it in microcode, up to a hundred cycles and more, before family 0x19
/// (Zen 3); so has Hygon's. Of others than these and Intel's nobody knows: shifts are slow nowhere.
fn is_fast_pext(vendor: &CpuidResult, version: &CpuidResult) -> bool {
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    let family = (version.eax >> 8 & 0xf) + (version.eax >> 20 & 0xff);
    match name.as_flattened() {
        b"GenuineIntel" => true,
        b"AuthenticAMD" => family >= 0x19,
        _ => false,
    }
}

/// How bits are put together.
pub(super) trait Together: Copy {
    /// Whether any are as soon as neighbours.
    const ANY: bool;
    fn together(self, word: u64, mask: u64) -> u64;
}

/// By PEXT. Made by `lanes`'s `with_vectors` alone, where BMI2 was detected.
#[derive(Clone, Copy)]
pub(super) struct Pext(pub(super) ());

impl Together for Pext {
    const ANY: bool = true;
    #[inline(always)]
    fn together(self, word: u64, mask: u64) -> u64 {
        // SAFETY: BMI2 is there where a value of this type is.
        unsafe { _pext_u64(word, mask) }
    }
}

/// By shifts, one for bits that are neighbours: some processors that have AVX2 have PEXT, too, and take a hundred cycles for it.
#[derive(Clone, Copy)]
pub(super) struct Shifts;

impl Together for Shifts {
    const ANY: bool = false;
    #[inline(always)]
    fn together(self, word: u64, mask: u64) -> u64 {
        together(word, mask)
    }
}

/// Made within `lanes`'s `with_avx2` alone, where AVX2 is.
#[derive(Clone, Copy)]
pub(super) struct Avx2<T>(pub(super) T);

impl<T: Together> Lanes for Avx2<T> {
    const BY_WINDOWS: bool = true;
    type Row = [__m256i; 2];
    #[inline(always)]
    fn ones(self) -> Self::Row {
        // SAFETY: AVX2 is there where a value of this type is.
        unsafe { [_mm256_set1_epi64x(-1); 2] }
    }
    #[inline(always)]
    fn row(self, words: [u64; 2]) -> Self::Row {
        // SAFETY: AVX2 is there where a value of this type is; two words are read.
        unsafe {
            let low = _mm256_zextsi128_si256(_mm_loadu_si128(words.as_ptr().cast()));
            [low, _mm256_setzero_si256()]
        }
    }
    #[inline(always)]
    fn and(self, row: Self::Row, line: &Line) -> Self::Row {
        let line = load(self, line);
        // SAFETY: AVX2 is there where a value of this type is.
        unsafe { [_mm256_and_si256(row[0], line[0]), _mm256_and_si256(row[1], line[1])] }
    }
    #[inline(always)]
    fn and_either(self, row: Self::Row, line: &Line, other: &Line) -> Self::Row {
        let (line, other) = (load(self, line), load(self, other));
        // SAFETY: AVX2 is there where a value of this type is.
        unsafe {
            let half = |i: usize| _mm256_and_si256(row[i], _mm256_or_si256(line[i], other[i]));
            [half(0), half(1)]
        }
    }
    #[inline(always)]
    fn at_least(self, row: Self::Row, numbers: &Halves, floor: u32) -> Self::Row {
        // SAFETY: AVX2 is there where a value of this type is; there are 64 bytes of numbers, aligned.
        unsafe {
            let floor = _mm256_set1_epi32(floor as i32);
            let half = |i: usize| {
                let numbers = _mm256_load_si256(numbers.0.as_ptr().add(8 * i).cast());
                let kept = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, floor), numbers);
                _mm256_and_si256(row[i], kept)
            };
            [half(0), half(1)]
        }
    }
    #[inline(always)]
    fn members<const WORDS: usize>(self, numbers: &Numbers, set: &Set<WORDS>) -> u32 {
        const { assert!(WORDS == 16 || WORDS == 32) };
        // SAFETY: AVX2 is there where a value of this type is; a set is 64 or 128 bytes and numbers are 64, aligned.
        unsafe {
            let words: [__m256i; 4] = std::array::from_fn(|i| load_words(self, set, i));
            let eight = |i: usize| {
                let some = _mm_load_si128(numbers.0.as_ptr().add(8 * i).cast());
                let some = _mm256_cvtepu16_epi32(some);
                let at = _mm256_srli_epi32::<5>(some);
                // Three bits of the index say which of eight words it is, one more which of two, and one which of these.
                let of = |i: usize| _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(words[i], at));
                let which = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
                let mut word = _mm256_blendv_ps(of(0), of(1), which);
                if WORDS == 32 {
                    let high = _mm256_blendv_ps(of(2), of(3), which);
                    let which = _mm256_castsi256_ps(_mm256_slli_epi32::<27>(at));
                    word = _mm256_blendv_ps(word, high, which);
                }
                let up = _mm256_andnot_si256(some, _mm256_set1_epi32(31));
                let bit = _mm256_sllv_epi32(_mm256_castps_si256(word), up);
                _mm256_movemask_ps(_mm256_castsi256_ps(bit)) as u32
            };
            eight(0) | eight(1) << 8 | eight(2) << 16 | eight(3) << 24
        }
    }
    #[inline(always)]
    fn nonzero(self, row: Self::Row) -> u32 {
        // SAFETY: AVX2 is there where a value of this type is.
        unsafe {
            let zero = |half| {
                let zero = _mm256_cmpeq_epi64(half, _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(zero)) as u32
            };
            (zero(row[0]) | zero(row[1]) << 4) ^ 0xff
        }
    }
    #[inline(always)]
    fn store(self, row: Self::Row) -> Line {
        let mut out = Line::default();
        // SAFETY: AVX2 is there where a value of this type is; a line is 64 bytes, aligned.
        unsafe {
            _mm256_store_si256(out.0.as_mut_ptr().cast(), row[0]);
            _mm256_store_si256(out.0.as_mut_ptr().add(4).cast(), row[1]);
        }
        out
    }
    #[inline(always)]
    fn together(self, word: u64, mask: u64) -> u64 {
        self.0.together(word, mask)
    }
    #[inline(always)]
    fn any_bits(self) -> bool {
        T::ANY
    }
}

/// Eight words of a set, if it has so many.
#[inline(always)]
fn load_words<T, const WORDS: usize>(_: Avx2<T>, set: &Set<WORDS>, at: usize) -> __m256i {
    let at = if at * 8 < WORDS { at * 8 } else { 0 };
    // SAFETY: AVX2 is there where a value of this type is; a set is aligned and has eight words from `at` on.
    unsafe { _mm256_load_si256(set.words().as_ptr().add(at).cast()) }
}

#[inline(always)]
fn load<T>(_: Avx2<T>, line: &Line) -> [__m256i; 2] {
    // SAFETY: AVX2 is there where a value of this type is; a line is 64 bytes, aligned.
    unsafe {
        [
            _mm256_load_si256(line.0.as_ptr().cast()),
            _mm256_load_si256(line.0.as_ptr().add(4).cast()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CPUID says on processors of each kind.
    #[test]
    fn who_does_it_in_microcode() {
        let fast = |name: &[u8; 12], eax| {
            let part = |at| u32::from_le_bytes(*name[at..].first_chunk().unwrap());
            let vendor = CpuidResult { eax: 0x10, ebx: part(0), edx: part(4), ecx: part(8) };
            is_fast_pext(&vendor, &CpuidResult { eax, ebx: 0, ecx: 0, edx: 0 })
        };
        // Haswell; Milan; Rome, Excavator, Dhyana.
        assert!(fast(b"GenuineIntel", 0x0003_06c3) && fast(b"AuthenticAMD", 0x00a0_0f11));
        assert!(!fast(b"AuthenticAMD", 0x0083_0f10) && !fast(b"AuthenticAMD", 0x0066_0f01));
        assert!(!fast(b"HygonGenuine", 0x0090_0f11) && !fast(b"CentaurHauls", 0x0003_06c3));
    }
}
