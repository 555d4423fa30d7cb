//! Fields of a known length at an offset that may lie outside the frame. Touches bytes; called by
//! every function module, so that none of them can index past an end.

/// `N` bytes at `at`.
#[inline(always)]
pub(super) fn get<const N: usize>(b: &[u8], at: usize) -> Option<[u8; N]> {
    b.get(at..)?.first_chunk().copied()
}

/// `N` bytes at `at`, to be changed.
#[inline(always)]
pub(super) fn get_mut<const N: usize>(b: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    b.get_mut(at..)?.first_chunk_mut()
}

/// A big-endian 16-bit number at `at`.
#[inline(always)]
pub(super) fn be16(b: &[u8], at: usize) -> Option<u16> {
    get(b, at).map(u16::from_be_bytes)
}

/// A big-endian 32-bit number at `at`.
#[inline(always)]
pub(super) fn be32(b: &[u8], at: usize) -> Option<u32> {
    get(b, at).map(u32::from_be_bytes)
}

/// `old` with the bits of `mask` taken from `value`.
#[inline(always)]
pub(super) const fn merge(old: u64, value: u64, mask: u64) -> u64 {
    old & !mask | value & mask
}

/// Writes the low 48 bits of `value` under `mask` into the MAC address at `at`; gives the old and
/// the new one.
#[inline]
pub(super) fn merge_mac(b: &mut [u8], at: usize, value: u64, mask: u64) -> Option<(u64, u64)> {
    let mac: &mut [u8; 6] = get_mut(b, at)?;
    let [b0, b1, b2, b3, b4, b5] = *mac;
    let old = u64::from_be_bytes([0, 0, b0, b1, b2, b3, b4, b5]);
    let new = merge(old, value, mask);
    let [_, _, new_bytes @ ..] = new.to_be_bytes();
    *mac = new_bytes;
    Some((old, new))
}

/// A 128-bit number as two halves, which align like the rest of a change.
pub(super) const fn halves(n: u128) -> [u64; 2] {
    [(n >> 64) as u64, n as u64]
}
