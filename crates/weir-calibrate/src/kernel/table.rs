//! Operations on tables: arrays, hash tables, prefixes, buckets, counters, ports.
//!
//! Room: entries in memory, `places` of them, as large as the operation says. Keys are made from the
//! place in registers, as if they had been parsed. Called by `bench`; `classify` hashes alike.

use super::{Memory, Pace, over};
use crate::field::{WORD, Word, get, put};
use crate::meter::Run;
use std::hint::black_box;

/// Hash of a key: two words to a multiplication of 64 by 64 bits, whose halves are folded.
#[inline(always)]
pub fn hash<const K: usize>(key: &[u64; K]) -> u64 {
    let mut h = 0;
    for (i, pair) in key.chunks(2).enumerate() {
        let odd = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * i as u64 + 1);
        let (a, b) = (pair[0] ^ odd, pair.get(1).copied().unwrap_or(0) ^ odd.rotate_left(32));
        let p = u128::from(a) * u128::from(b);
        h ^= p as u64 ^ (p >> 64) as u64;
    }
    h
}

/// A key of `K` words of 64 bits.
#[inline(always)]
pub fn key<const K: usize>(at: u64) -> [u64; K] {
    let mut key = [0; K];
    for (i, k) in key.iter_mut().enumerate() {
        *k = at.wrapping_add(i as u64 * 0x0101);
    }
    key
}

/// The entry of `W` words at a place.
#[inline(always)]
pub fn entry<const W: usize>(words: &mut [Word], at: u64) -> &mut [Word] {
    words.get_mut(at as usize * W..).and_then(|w| w.get_mut(..W)).unwrap_or_default()
}

/// All words of an entry together.
#[inline(always)]
fn all(entry: &[Word]) -> u64 {
    entry.iter().fold(0, |x, w| x ^ get(w))
}

/// 'array_access': an entry of `W` words by its index.
pub fn array<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| all(entry::<W>(words, at)))
}

/// 'hash' of a key of `K` words of 64 bits.
pub fn hashed<const K: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |_, at| hash(&key::<K>(at)))
}

/// What differs between a key and an entry of `W` words that begins with one, and the entry's value.
#[inline(always)]
fn compared<const K: usize>(key: &[u64; K], entry: &[Word]) -> (u64, u64) {
    let differs = key.iter().zip(entry).fold(0, |x, (k, e)| x | (k ^ get(e)));
    (differs, all(entry.get(K..).unwrap_or_default()))
}

/// 'ht_lookup' of a key of `K` words of 64 bits in entries of `W` words.
pub fn lookup<const K: usize, const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    let mask = places.next_power_of_two() - 1;
    over(memory, pace, places, move |words, at| {
        let key = key::<K>(at);
        let (differs, value) = compared(&key, entry::<W>(words, hash(&key) & mask));
        value.wrapping_add(u64::from(differs == 0))
    })
}

/// 'ct_insertion': as a lookup; then the entry is written, with the time.
pub fn insertion<const K: usize, const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    let mask = places.next_power_of_two() - 1;
    let mut now = black_box(1u64);
    over(memory, pace, places, move |words, at| {
        let key = key::<K>(at);
        let entry = entry::<W>(words, hash(&key) & mask);
        let (differs, value) = compared(&key, entry);
        now += 3;
        let (keys, values) = entry.split_at_mut(K.min(entry.len()));
        keys.iter_mut().zip(key).for_each(|(w, k)| put(w, k));
        values.iter_mut().for_each(|w| put(w, now));
        value.wrapping_add(u64::from(differs == 0))
    })
}

/// 'lpm_lookup' by DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998), `STEPS` of its tables, which lie in the
/// same memory; 'lpm6_lookup' is the same with more steps of 8 bits. Entries of 4 bytes, two to a place.
pub fn prefix<const STEPS: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    let mask = 2 * places.next_power_of_two() - 1;
    let half = |words: &[Word], at: u64| {
        let word = words.get(at as usize / 2).map_or(0, get);
        (word >> (32 * (at & 1))) & 0xffff_ffff
    };
    over(memory, pace, 2 * places, move |words, at| {
        let mut next = half(words, at);
        for step in 1..STEPS as u64 {
            // The entry says which block of 256 is next; the address, which entry of it.
            next = half(words, ((next * 256) ^ at.wrapping_mul(2 * step + 1)) & mask);
        }
        next
    })
}

/// 'token_bucket': filled by the time that has passed, and taken from; the time is known already.
pub fn bucket(memory: &Memory, pace: Pace, places: u64) -> Run {
    let (rate, most, frame) = (black_box(7u64), black_box(100_000u64), black_box(64u64));
    let mut now = 0u64;
    over(memory, pace, places, move |words, at| {
        now += 50;
        let entry = entry::<2>(words, at);
        let [tokens, last] = entry else { return 0 };
        let passed = now.saturating_sub(get(last));
        let filled = (get(tokens) + ((passed * rate) >> 3)).min(most);
        let enough = filled >= frame;
        put(tokens, filled - if enough { frame } else { 0 });
        put(last, now);
        u64::from(enough)
    })
}

/// 'counter_update' of `C` counters.
pub fn counters<const C: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        for w in entry::<C>(words, at) {
            put(w, get(w).wrapping_add(at | 1));
        }
        at
    })
}

/// 'port_allocation': the first free bit of a bitmap of `W` words is taken; a full one is emptied.
pub fn port<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        let map = entry::<W>(words, at);
        let mut taken = 0;
        for (i, w) in map.iter_mut().enumerate() {
            let bits = get(w);
            // Without a branch: the first word with room gives its first free bit.
            let here = taken == 0 && bits != u64::MAX;
            put(w, if here { bits | bits.wrapping_add(1) } else { bits });
            taken |=
                if here { (i as u64) << 6 | u64::from(bits.trailing_ones()) | 1 << 32 } else { 0 };
        }
        if taken == 0 {
            map.iter_mut().for_each(|w| put(w, 0));
        }
        taken
    })
}

/// Bytes of an entry of so many words.
pub const fn bytes(words: usize) -> f64 {
    (words * WORD) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Pages};
    use std::cell::RefCell;
    use std::rc::Rc;

    fn memory() -> Memory {
        Rc::new(RefCell::new(Field::new(1 << 16, Pages::Small).expect("memory")))
    }

    #[test]
    fn what_was_inserted_is_found() {
        // One place: the same key each time.
        let m = memory();
        insertion::<2, 4>(&m, Pace::Alone, 1)(1);
        let w: Vec<u64> = m.borrow_mut().words()[..4].iter().map(get).collect();
        assert_eq!(w, [key::<2>(0)[0], key::<2>(0)[1], 4, 4]);
        // The two values cancel out; that the key is the same is told.
        assert_eq!(lookup::<2, 4>(&m, Pace::Alone, 1)(1), 1);
    }

    #[test]
    fn buckets_ports_and_counters_count() {
        let m = memory();
        bucket(&m, Pace::Alone, 1)(10);
        assert_eq!(get(&m.borrow_mut().words()[1]), 500);
        let m = memory();
        m.borrow_mut().words()[0] = [0; 8];
        assert_eq!(port::<1>(&m, Pace::Alone, 1)(3), 2 | 1 << 32);
        assert_eq!(get(&m.borrow_mut().words()[0]), 7);
        let m = memory();
        m.borrow_mut().words()[0] = [0; 8];
        counters::<2>(&m, Pace::Burst, 1)(64);
        assert_eq!(get(&m.borrow_mut().words()[1]), 64);
    }

    #[test]
    fn prefixes_stay_inside() {
        let m = memory();
        m.borrow_mut().words().iter_mut().enumerate().for_each(|(i, w)| put(w, i as u64 * 77777));
        for places in [8, 1 << 13] {
            prefix::<1>(&m, Pace::Burst, places)(1000);
            prefix::<6>(&m, Pace::Alone, places)(1000);
        }
    }

    #[test]
    fn hashes_differ() {
        let mut seen: Vec<u64> = (0..4096).map(|i| hash(&key::<2>(i)) & 0xffff).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 3500, "{}", seen.len());
    }
}
