//! Longest-prefix match by arrays: 24 bits at once, then 8 a step. Touches numbers only.
//!
//! DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998), with as many further steps as IPv6's prefixes
//! need, as DPDK's `rte_lpm6`. An IPv4 address costs one access, or two where prefixes longer than
//! 24 bits lie. Built once from all prefixes. The first array has 2^24 entries of 4 bytes, of which
//! only pages that prefixes lie in take memory; a route to everything is kept beside it for that
//! reason. A few prefixes ([`FEW`]) don't deserve that: for them the first step is one of 8 bits, too.
//!
//! Called by programs that route: `router`, `bng`. Oracle: looking at every prefix.

use thiserror::Error;
use weir_classify::simd::prefetch_read;

/// Bits of the first step; of each further one there are 8.
const FIRST: u32 = 24;
/// So many prefixes have a first step of 8 bits: they and their groups stay in the nearest caches.
const FEW: usize = 128;
/// In an entry: the rest is a group's number. Otherwise it is a value plus one, or 0 for nothing.
const GROUP: u32 = 1 << 31;
/// The largest value.
pub(crate) const MOST: u32 = GROUP - 2;

/// More prefixes, or longer ones, than groups can be numbered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many long prefixes for one routing table")]
pub(crate) struct TooMany;

/// Prefixes of one family to values.
pub(crate) struct Dir24 {
    first: Box<[u32]>,
    /// Bits of the first step.
    bits: u32,
    groups: Vec<[u32; 256]>,
    default: u32,
}

impl Dir24 {
    /// From prefixes (bits left-aligned in 128, length, value); of equal ones the last counts.
    ///
    /// # Errors
    /// [`TooMany`], which takes some billions.
    pub fn build(prefixes: impl IntoIterator<Item = (u128, u8, u32)>) -> Result<Self, TooMany> {
        let all: Vec<_> = prefixes.into_iter().collect();
        let bits = if all.len() <= FEW { 8 } else { FIRST };
        Self::with_first(bits, all)
    }

    fn with_first(bits: u32, mut all: Vec<(u128, u8, u32)>) -> Result<Self, TooMany> {
        let first = vec![0; 1 << bits].into();
        let mut table = Self { first, bits, groups: Vec::new(), default: 0 };
        // The longer ones paint over the shorter.
        all.sort_by_key(|p| p.1);
        for (bits, len, value) in all {
            if value > MOST {
                return Err(TooMany);
            }
            table.paint(bits, u32::from(len.min(128)), value + 1)?;
        }
        Ok(table)
    }

    fn paint(&mut self, bits: u128, len: u32, entry: u32) -> Result<(), TooMany> {
        if len == 0 {
            self.default = entry;
            return Ok(());
        }
        let at = (bits >> (128 - self.bits)) as usize;
        if len <= self.bits {
            self.first[at..][..1 << (self.bits - len)].fill(entry);
            return Ok(());
        }
        let mut group = extend(&mut self.first[at], &mut self.groups)?;
        let mut done = self.bits;
        while len > done + 8 {
            done += 8;
            let (step, mut next) = (usize::from((bits >> (128 - done)) as u8), 0);
            std::mem::swap(&mut next, &mut self.groups[group][step]);
            let inner = extend(&mut next, &mut self.groups)?;
            self.groups[group][step] = next;
            group = inner;
        }
        let at = usize::from((bits >> (120 - done)) as u8);
        self.groups[group][at..][..1 << (done + 8 - len)].fill(entry);
        Ok(())
    }

    /// The value of the longest prefix of an IPv4 address, in a table of such.
    #[inline(always)]
    pub fn lookup_v4(&self, addr: u32) -> Option<u32> {
        let mut e = *self.first.get((addr >> (32 - self.bits)) as usize)?;
        let mut rest = addr << self.bits;
        while e & GROUP != 0 {
            e = self.groups.get((e & !GROUP) as usize)?[(rest >> 24) as usize];
            rest <<= 8;
        }
        self.value(e)
    }

    /// The value of the longest prefix of an address.
    #[inline(always)]
    pub fn lookup_v6(&self, bits: u128) -> Option<u32> {
        // The first step lies in the upper half, each further one is a byte: no shifts of 128 bits.
        let mut e = *self.first.get(((bits >> 64) as u64 >> (64 - self.bits)) as usize)?;
        let (bytes, mut at) = (bits.to_be_bytes(), self.bits as usize / 8);
        while e & GROUP != 0 {
            e = self.groups.get((e & !GROUP) as usize)?[usize::from(*bytes.get(at)?)];
            at += 1;
        }
        self.value(e)
    }

    /// Has the first entry that an IPv4 address leads to on its way into the cache.
    #[inline(always)]
    pub fn expect_v4(&self, addr: u32) {
        if let Some(e) = self.first.get((addr >> (32 - self.bits)) as usize) {
            prefetch_read(e);
        }
    }

    /// Bytes that are read behind first entries, at the least: a line of each group, which has sixteen.
    #[inline]
    pub fn bytes_behind(&self) -> usize {
        self.groups.len() * 64
    }

    #[inline(always)]
    fn value(&self, e: u32) -> Option<u32> {
        let e = if e == 0 { self.default } else { e };
        e.checked_sub(1)
    }
}

/// The group behind an entry; one is made, full of what the entry said, where there was none.
fn extend(entry: &mut u32, groups: &mut Vec<[u32; 256]>) -> Result<usize, TooMany> {
    if *entry & GROUP == 0 {
        let new = u32::try_from(groups.len()).ok().filter(|n| *n <= MOST).ok_or(TooMany)?;
        groups.push([*entry; 256]);
        *entry = GROUP | new;
    }
    Ok((*entry & !GROUP) as usize)
}

impl std::fmt::Debug for Dir24 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir24({} groups)", self.groups.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(len: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
    }

    /// The value of the longest of all prefixes, the last of equals.
    fn slow(all: &[(u128, u8, u32)], addr: u128) -> Option<u32> {
        let of = all.iter().filter(|p| addr & mask(p.1) == p.0);
        of.max_by_key(|p| p.1).map(|p| p.2)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_looking_at_every_prefix(
            prefixes in prop::collection::vec((any::<u64>(), 0u8..=128, 0u32..1000), 0..40),
            asked in prop::collection::vec((any::<u64>(), any::<u128>()), 1..100),
            widest in prop::sample::select(vec![32u8, 64, 128]),
            first in prop::sample::select(vec![8, FIRST]),
        ) {
            // Few distinct first bits, so that prefixes contain each other; and all the rest.
            let spread = |b: u64| {
                let b = u128::from(b);
                (b & 0x81) << 120 | (b >> 8 & 3) << 103 | (b >> 10 & 0x83) << 96
                    | (b >> 18 & 0x43) << 64 | (b >> 26 & 0xc1)
            };
            let all: Vec<_> = prefixes
                .into_iter()
                .map(|(b, len, v)| (len % (widest + 1), b, v))
                .map(|(len, b, v)| (spread(b) & mask(len), len, v))
                .collect();
            let table = Dir24::with_first(first, all.clone()).unwrap();
            let near = all.iter().flat_map(|p| [p.0, p.0 | !mask(p.1), p.0.wrapping_sub(1)]);
            let noise = asked.iter().flat_map(|(b, n)| [spread(*b), spread(*b) | n & 0xff << 64, *n]);
            for addr in near.chain(noise) {
                prop_assert_eq!(table.lookup_v6(addr), slow(&all, addr));
                if widest == 32 {
                    let v4 = (addr >> 96) as u32;
                    prop_assert_eq!(table.lookup_v4(v4), slow(&all, u128::from(v4) << 96));
                }
            }
        }
    }

    #[test]
    fn few_prefixes_take_little_memory() {
        let some = |n: u32| Dir24::build((0..n).map(|i| (u128::from(i) << 100, 28, i))).unwrap();
        assert_eq!((some(100).first.len(), some(1000).first.len()), (1 << 8, 1 << 24));
    }

    #[test]
    fn values_have_an_end() {
        assert_eq!(Dir24::build([(0, 0, MOST)]).unwrap().lookup_v4(7), Some(MOST));
        assert_eq!(Dir24::build([(0, 0, MOST + 1)]).err(), Some(TooMany));
    }
}
