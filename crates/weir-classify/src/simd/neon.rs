//! What AArch64's vectors (NEON, two words at a time) do; part of the room of `simd`, called by it alone.
//! Every AArch64 processor that Rust's standard library runs on has them.

use super::{Columns, TAGS, WORDS};
use std::arch::aarch64::*;

/// Rules compared at a time: two pairs, so that one's loads pass while the other's are compared.
const LANES: usize = 4;

/// The first rule that fits `key`, of those whose rank is above `floor`.
///
/// # Safety
/// `c.is_sound()`.
pub(super) unsafe fn first_match(key: &[u64; WORDS], c: Columns<'_>, floor: u64) -> Option<usize> {
    let columns = c.data.as_ptr();
    let whole = c.len - c.len % LANES;
    let mut block = 0;
    while block < whole {
        // SAFETY: `block < len <= cap`, and the first column has `cap` elements.
        if unsafe { *columns.add(block) } <= floor {
            return None;
        }
        // SAFETY: NEON is part of AArch64, and of each column the elements from `block` up to
        // `block + LANES <= len <= cap` are read.
        let live = unsafe { fits_of_four(key, c, block) };
        if live != 0 {
            let i = block + (live.trailing_zeros() / 16) as usize;
            // SAFETY: `i < len`, as above.
            return (unsafe { *columns.add(i) } > floor).then_some(i);
        }
        block += LANES;
    }
    (whole..c.len).find(|&i| super::fits_portable(key, c, i)).filter(|&i| {
        // SAFETY: `i < len <= cap`.
        unsafe { *columns.add(i) > floor }
    })
}

/// Which of the four rules from `block` on fit: 16 bits each, all or none of them set.
///
/// # Safety
/// `c.is_sound()`, and `block + 4 <= c.len`.
#[inline(always)]
unsafe fn fits_of_four(key: &[u64; WORDS], c: Columns<'_>, block: usize) -> u64 {
    let columns = c.data.as_ptr();
    let mut words = c.words;
    let mut column = 2 * c.cap + block;
    let mut live = u64::MAX;
    while words != 0 && live != 0 {
        let word = words.trailing_zeros() as usize;
        words &= words - 1;
        // SAFETY: `word < WORDS` as `words` has no bit from WORDS up; the mask column of this word starts at
        // `column - block` and the value column `cap` later, both within `data`, each of `cap` elements, of which
        // four from `block` on are read.
        live &= unsafe {
            let k = vdupq_n_u64(*key.get_unchecked(word));
            let (m, v) = (columns.add(column), columns.add(column + c.cap));
            let low = vceqq_u64(vandq_u64(k, vld1q_u64(m)), vld1q_u64(v));
            let high = vceqq_u64(vandq_u64(k, vld1q_u64(m.add(2))), vld1q_u64(v.add(2)));
            let four = vcombine_u32(vmovn_u64(low), vmovn_u64(high));
            vget_lane_u64::<0>(vreinterpret_u64_u16(vmovn_u32(four)))
        };
        column += 2 * c.cap;
    }
    live
}

/// Which of `tags` equal `tag`, and which are 0, a bit each.
#[inline(always)]
pub(super) fn match_tags(tags: &[u8; TAGS], tag: u8) -> (u32, u32) {
    // SAFETY: NEON is part of AArch64; 16 bytes are read, which is what the array has.
    unsafe {
        let t = vld1q_u8(tags.as_ptr());
        (bit_each(vceqq_u8(t, vdupq_n_u8(tag))), bit_each(vceqzq_u8(t)))
    }
}

/// A bit for each of sixteen bytes that are all ones or all zeros.
///
/// # Safety
/// None needed on AArch64, which has NEON.
#[inline(always)]
unsafe fn bit_each(bytes: uint8x16_t) -> u32 {
    const WEIGHTS: [u8; TAGS] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: NEON is part of AArch64; 16 bytes of a constant of 16 are read.
    unsafe {
        let bits = vandq_u8(bytes, vld1q_u8(WEIGHTS.as_ptr()));
        let (low, high) = (vaddv_u8(vget_low_u8(bits)), vaddv_u8(vget_high_u8(bits)));
        u32::from(low) | u32::from(high) << 8
    }
}
