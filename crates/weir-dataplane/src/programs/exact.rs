//! An exact-match table for programs: keys and values of fixed size, room for so many and no more.
//!
//! Room: touches numbers only. Owned and called by one program on one thread; time, if entries age,
//! is the caller's and lies in its values.
//!
//! One array of buckets, each of a cache line (two for large entries): a word of tags, then `W` keys,
//! then `W` values. A key's home follows from its hash; where that bucket is full, the key is in the
//! next one that had room, and the buckets that it passed over count it. So a lookup reads its home,
//! and the next line only if a key that belongs here had to go on: one line for nearly all keys at
//! the load that [`Exact::new`] provides for. Counts instead of tombstones: removal leaves no trace,
//! whatever was there before.
//!
//! Memory is bounded: all of it is taken at the beginning, nothing afterwards. The hash is keyed by
//! a seed of the run's own, so that a sender that chooses its addresses can't know which collide.
//!
//! Waits for memory overlap where several keys are asked for: [`Exact::hash`] all of them, then
//! [`Exact::prefetch`] all, then [`Exact::get_hashed`] all.
//!
//! Source: buckets with tags and overflow counts as in Bronson and Shi, *F14* (2019). Oracle: the
//! standard library's `HashMap`.

use super::hash::fresh_seed;
use std::fmt;
use thiserror::Error;

/// Tags are zero in empty slots; the word's highest byte counts keys that went on.
const TAGS: u32 = 56;
const GONE_ON: u64 = 1 << TAGS;
const MOST_GONE_ON: u64 = 0xff << TAGS;
const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// Slots of which so many quarters may be taken.
const QUARTERS: usize = 3;

/// What may be a key: words that can be compared and hashed as they are.
pub trait Key: Copy + Eq + Default + fmt::Debug {
    /// Its hash under a secret.
    fn hash(&self, secret: Secret) -> u64;
}

/// Two words that nobody outside knows.
#[derive(Clone, Copy, Debug)]
pub struct Secret(u64, u64);

impl Secret {
    /// From a seed; each seed gives another.
    fn new(seed: u64) -> Self {
        let next = |s: u64| fold(s ^ 0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03);
        let a = next(seed.wrapping_add(1));
        // Odd: a factor with zeros at its end would shift.
        Self(a, next(a ^ seed) | 1)
    }
    #[inline(always)]
    fn pair(self, x: u64, y: u64) -> u64 {
        // One product of keys that follow each other would be as regular as they are.
        fold(fold(x ^ self.0, y ^ self.1) ^ self.0, 0xd1b5_4a32_d192_ed03)
    }
}

/// 64 bits of a product of 128, each of which every bit of both factors has a part in.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    p as u64 ^ (p >> 64) as u64
}

impl Key for u32 {
    #[inline(always)]
    fn hash(&self, secret: Secret) -> u64 {
        secret.pair(u64::from(*self), 0)
    }
}

impl Key for u64 {
    #[inline(always)]
    fn hash(&self, secret: Secret) -> u64 {
        secret.pair(*self, 0)
    }
}

impl<const N: usize> Key for [u64; N]
where
    [u64; N]: Default,
{
    #[inline(always)]
    fn hash(&self, secret: Secret) -> u64 {
        let mut h = 0;
        for pair in self.chunks(2) {
            let (x, y) = (pair.first().copied(), pair.get(1).copied());
            // What came before enters one side, so that the order of words counts.
            h = secret.pair(x.unwrap_or(0) ^ h, y.unwrap_or(0).wrapping_add(h.rotate_left(32)));
        }
        h
    }
}

impl Key for u128 {
    #[inline(always)]
    fn hash(&self, secret: Secret) -> u64 {
        secret.pair(*self as u64, (*self >> 64) as u64)
    }
}

/// A key's hash in one table, to be asked for later.
#[derive(Clone, Copy, Debug)]
pub struct Hash(u64);

impl Hash {
    /// Never 0, which marks an empty slot.
    #[inline(always)]
    fn tag(self) -> u64 {
        let tag = self.0 & 0xff;
        tag + u64::from(tag == 0)
    }
}

/// A table that holds as many entries as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the table is full: {0} entries")]
pub struct Full(pub usize);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket<K, V, const W: usize> {
    /// From the lowest byte: a tag for each slot; at the end, how many keys went on.
    meta: u64,
    keys: [K; W],
    values: [V; W],
}

impl<K: Key, V: Copy + Default, const W: usize> Bucket<K, V, W> {
    /// Tags are bytes 0 to 6 of a word; a bucket is at most two lines.
    const SOUND: () = assert!(W > 0 && W <= 7 && size_of::<Self>() <= 128);
    /// The highest bit of each tag's byte.
    const SLOTS: u64 = (EVERY_BYTE << 7) & (u64::MAX >> (64 - 8 * W as u32));

    fn empty() -> Self {
        const { Self::SOUND };
        Self { meta: 0, keys: [K::default(); W], values: [V::default(); W] }
    }
    /// The highest bit of each byte whose slot has this tag. Exact: a carry can't mark another.
    #[inline(always)]
    fn tagged(&self, tag: u64) -> u64 {
        let x = self.meta ^ (tag * EVERY_BYTE);
        !(((x & LOW_BITS) + LOW_BITS) | x) & Self::SLOTS
    }
    #[inline(always)]
    fn slot_of(&self, key: &K, tag: u64) -> Option<usize> {
        let mut hits = self.tagged(tag);
        while hits != 0 {
            let i = (hits.trailing_zeros() / 8) as usize;
            if self.keys.get(i) == Some(key) {
                return Some(i);
            }
            hits &= hits - 1;
        }
        None
    }
    fn free_slot(&self) -> Option<usize> {
        let free = self.tagged(0);
        (free != 0).then_some((free.trailing_zeros() / 8) as usize)
    }
    #[inline(always)]
    fn went_on(&self) -> bool {
        self.meta >= GONE_ON
    }
    fn set_tag(&mut self, slot: usize, tag: u64) {
        self.meta = self.meta & !(0xff << (8 * slot)) | tag << (8 * slot);
    }
    /// One more key went on. A count that is at its end stays there.
    fn passed(&mut self) {
        if self.meta < MOST_GONE_ON {
            self.meta += GONE_ON;
        }
    }
    fn passed_no_more(&mut self) {
        if self.meta < MOST_GONE_ON && self.went_on() {
            self.meta -= GONE_ON;
        }
    }
}

/// The table: at most so many keys, `W` of them in a bucket, 1 to 7.
///
/// `W` is best what fills a line of 64 bytes: 8 bytes are the tags', so `W` keys and values have 56
/// (7 for `u32` to `u32`, 4 for `u64` to `u32`, 2 for `u128` to `u64`), or 120 where two lines are
/// taken for want of room.
pub struct Exact<K, V, const W: usize> {
    buckets: Box<[Bucket<K, V, W>]>,
    len: usize,
    capacity: usize,
    secret: Secret,
    /// Where the next sweep begins.
    hand: usize,
}

impl<K: Key, V: Copy + Default, const W: usize> Exact<K, V, W> {
    /// A table with room for `capacity` entries (at least one), all of whose memory is taken now.
    pub fn new(capacity: usize) -> Self {
        Self::with_seed(capacity, fresh_seed())
    }

    /// The same with a seed of one's own, where runs have to be alike.
    pub fn with_seed(capacity: usize, seed: u64) -> Self {
        let capacity = capacity.max(1);
        let buckets = vec![Bucket::empty(); Self::buckets_for(capacity)].into();
        Self { buckets, len: 0, capacity, secret: Secret::new(seed), hand: 0 }
    }

    const fn buckets_for(capacity: usize) -> usize {
        // A bucket more than is filled, so that there is always a free slot.
        capacity.saturating_mul(4).div_ceil(QUARTERS * W).saturating_add(1)
    }

    /// Bytes that a table for so many entries takes.
    pub const fn bytes_for(capacity: usize) -> usize {
        Self::buckets_for(capacity).saturating_mul(size_of::<Bucket<K, V, W>>())
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Most entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The hash of a key in this table.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> Hash {
        Hash(key.hash(self.secret))
    }

    #[inline(always)]
    fn home(&self, hash: Hash) -> usize {
        // By the upper bits; the tag is the lowest ones.
        ((u128::from(hash.0) * self.buckets.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Has the key's bucket on its way into the cache when it is asked for.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        if let Some(b) = self.buckets.get(self.home(hash)) {
            weir_classify::simd::prefetch_read(&b.meta);
        }
    }

    /// A key's home, and its slot if it is there.
    #[inline(always)]
    fn at_home(&self, key: &K, hash: Hash) -> Option<(usize, Option<usize>)> {
        let home = self.home(hash);
        Some((home, self.buckets.get(home)?.slot_of(key, hash.tag())))
    }

    #[inline(always)]
    fn find(&self, key: &K, hash: Hash) -> Option<(usize, usize)> {
        match self.at_home(key, hash)? {
            (home, Some(slot)) => Some((home, slot)),
            (home, None) => self.find_away(key, hash, home),
        }
    }

    #[inline(always)]
    fn find_away(&self, key: &K, hash: Hash, home: usize) -> Option<(usize, usize)> {
        match self.buckets.get(home)?.went_on() {
            true => self.find_further(key, hash, home),
            false => None,
        }
    }

    /// In the buckets behind a key's home: few keys are there.
    #[inline(never)]
    fn find_further(&self, key: &K, hash: Hash, home: usize) -> Option<(usize, usize)> {
        let mut at = home;
        // Every bucket once, at most: counts at their end might say so of all.
        for _ in 1..self.buckets.len() {
            at = self.after(at);
            let b = self.buckets.get(at)?;
            if let Some(slot) = b.slot_of(key, hash.tag()) {
                return Some((at, slot));
            }
            if !b.went_on() {
                return None;
            }
        }
        None
    }

    /// A key's value.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.get_hashed(key, self.hash(key))
    }

    /// The same for a key whose hash is known: [`Exact::hash`] of the same table.
    #[inline(always)]
    pub fn get_hashed(&self, key: &K, hash: Hash) -> Option<&V> {
        let (at, slot) = match self.at_home(key, hash)? {
            // Read here, where the bucket is at hand.
            (home, Some(slot)) => return self.buckets.get(home)?.values.get(slot),
            (home, None) => self.find_away(key, hash, home)?,
        };
        self.buckets.get(at)?.values.get(slot)
    }

    /// A key's value, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hash(key);
        let (at, slot) = match self.at_home(key, hash)? {
            (home, Some(slot)) => return self.buckets.get_mut(home)?.values.get_mut(slot),
            (home, None) => self.find_away(key, hash, home)?,
        };
        self.buckets.get_mut(at)?.values.get_mut(slot)
    }

    /// Puts a key in, or changes its value; gives back what it replaced.
    ///
    /// # Errors
    /// [`Full`] where the key is new and there is no room; nothing changed then.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full> {
        let hash = self.hash(&key);
        if let Some((at, slot)) = self.find(&key, hash) {
            let old = &mut self.buckets[at].values[slot];
            return Ok(Some(std::mem::replace(old, value)));
        }
        self.place(key, value, hash)?;
        Ok(None)
    }

    fn place(&mut self, key: K, value: V, hash: Hash) -> Result<(), Full> {
        if self.len >= self.capacity {
            return Err(Full(self.capacity));
        }
        let mut at = self.home(hash);
        loop {
            let b = &mut self.buckets[at];
            if let Some(slot) = b.free_slot() {
                b.set_tag(slot, hash.tag());
                (b.keys[slot], b.values[slot]) = (key, value);
                self.len += 1;
                return Ok(());
            }
            b.passed();
            at = self.after(at);
        }
    }

    /// Takes a key out; gives back its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hash(key);
        let (at, slot) = self.find(key, hash)?;
        Some(self.take(at, slot, hash))
    }

    fn take(&mut self, at: usize, slot: usize, hash: Hash) -> V {
        let mut passed = self.home(hash);
        while passed != at {
            self.buckets[passed].passed_no_more();
            passed = self.after(passed);
        }
        let b = &mut self.buckets[at];
        b.set_tag(slot, 0);
        self.len -= 1;
        std::mem::take(&mut b.values[slot])
    }

    /// Looks at the entries of so many buckets, from where the last sweep ended and around, and
    /// takes out those that `is_dead` names; says how many. For ageing: a little at each tick,
    /// [`Exact::buckets`] for all.
    pub fn sweep(&mut self, buckets: usize, mut is_dead: impl FnMut(&K, &V) -> bool) -> usize {
        let before = self.len;
        for _ in 0..buckets.min(self.buckets.len()) {
            let at = self.hand;
            self.hand = self.after(at);
            for slot in 0..W {
                let b = &self.buckets[at];
                let key = b.keys[slot];
                if b.meta >> (8 * slot) & 0xff != 0 && is_dead(&key, &b.values[slot]) {
                    self.take(at, slot, self.hash(&key));
                }
            }
        }
        before - self.len
    }

    /// Makes the entries of `before` its own, those that `keep` has looked at, and perhaps changed, and said so of, as far as
    /// there is room; says how many are gone.
    pub fn take_over(&mut self, before: &Self, mut keep: impl FnMut(&K, &mut V) -> bool) -> usize {
        let mut gone = 0;
        for (k, v) in before.iter() {
            let mut v = *v;
            gone += usize::from(!keep(k, &mut v) || self.insert(*k, v).is_err());
        }
        gone
    }

    /// Buckets that a sweep of everything looks at.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Everything there is, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.buckets.iter().flat_map(|b| {
            let all = b.keys.iter().zip(&b.values).zip(0..W);
            all.filter(|(_, slot)| b.meta >> (8 * slot) & 0xff != 0).map(|(entry, _)| entry)
        })
    }
}

impl<K, V, const W: usize> fmt::Debug for Exact<K, V, W> {
    /// How full it is; its entries may be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exact({} of {})", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A key that has one of few hashes, so that buckets overflow and counts reach their end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    struct Crowded(u32);

    impl Key for Crowded {
        fn hash(&self, _: Secret) -> u64 {
            // The upper bits choose among few homes, the lowest are the tag.
            u64::from(self.0 % 3) << 62 | u64::from(self.0 % 2)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32, u32),
        Remove(u32),
        Sweep(usize, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u32..60, any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            5 => (0u32..60).prop_map(Step::Remove),
            1 => (1usize..20, 0u32..4).prop_map(|(n, r)| Step::Sweep(n, r)),
        ]
    }

    fn run<K: Key + std::hash::Hash, const W: usize>(
        steps: &[Step],
        seed: u64,
        key: impl Fn(u32) -> K,
    ) -> Result<(), TestCaseError> {
        let mut table = Exact::<K, u32, W>::with_seed(32, seed);
        let mut oracle = HashMap::<K, u32>::new();
        for (i, s) in steps.iter().enumerate() {
            match *s {
                Step::Insert(k, v) => {
                    let (k, full) = (key(k), oracle.len() == 32);
                    let done = table.insert(k, v);
                    if full && !oracle.contains_key(&k) {
                        prop_assert_eq!(done, Err(Full(32)));
                    } else {
                        prop_assert_eq!(done, Ok(oracle.insert(k, v)));
                    }
                }
                Step::Remove(k) => {
                    prop_assert_eq!(table.remove(&key(k)), oracle.remove(&key(k)));
                }
                Step::Sweep(n, rest) => {
                    let mut gone = Vec::new();
                    let dead = |k: &K, v: &u32| {
                        let dead = v % 4 == rest;
                        gone.extend(dead.then_some(*k));
                        dead
                    };
                    let count = table.sweep(n, dead);
                    prop_assert_eq!(count, gone.len());
                    for k in gone {
                        prop_assert!(oracle.remove(&k).is_some_and(|v| v % 4 == rest));
                    }
                    if n >= table.buckets() {
                        prop_assert!(oracle.values().all(|v| v % 4 != rest));
                    }
                }
            }
            prop_assert_eq!(table.len(), oracle.len());
            if i % 16 != 0 && i + 1 != steps.len() {
                continue;
            }
            for k in (0..60).map(&key) {
                prop_assert_eq!(table.get(&k), oracle.get(&k));
            }
            let all: HashMap<K, u32> = table.iter().map(|(k, v)| (*k, *v)).collect();
            prop_assert_eq!(&all, &oracle);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_a_map(steps in prop::collection::vec(step(), 1..300), seed in any::<u64>()) {
            run::<u32, 7>(&steps, seed, |k| k)?;
            run::<u64, 4>(&steps, seed, |k| u64::from(k) << 40)?;
            run::<u128, 2>(&steps, seed, |k| u128::from(k) << 90)?;
            run::<[u64; 5], 1>(&steps, seed, |k| [0, 0, u64::from(k), 0, 7])?;
        }

        #[test]
        fn equals_a_map_where_all_collide(steps in prop::collection::vec(step(), 1..300)) {
            run::<Crowded, 1>(&steps, 0, Crowded)?;
            run::<Crowded, 3>(&steps, 0, Crowded)?;
        }
    }

    #[test]
    fn counts_at_their_end_stay_there_and_nothing_is_lost() {
        let mut t = Exact::<Crowded, u32, 1>::with_seed(1000, 0);
        for k in 0..1000 {
            assert_eq!(t.insert(Crowded(3 * k), k), Ok(None));
        }
        assert!(t.buckets[0].meta >= MOST_GONE_ON);
        assert_eq!(t.insert(Crowded(1), 0), Err(Full(1000)));
        assert!((0..1000).all(|k| t.get(&Crowded(3 * k)) == Some(&k)));
        assert!((0..1000).all(|k| t.remove(&Crowded(3 * k)) == Some(k)));
        assert_eq!((t.len(), t.get(&Crowded(0))), (0, None));
    }

    /// At its capacity, few keys lie outside their home bucket, whatever the keys' pattern.
    #[test]
    fn a_full_table_is_read_a_line_at_a_time() {
        for step in [1u32, 8, 4096, 65_536 + 1, 0x0101_0101] {
            let mut t = Exact::<u32, u32, 7>::with_seed(20_000, u64::from(step));
            for k in 0..20_000u32 {
                t.insert(k.wrapping_mul(step), k).unwrap();
            }
            let away = t.iter().filter(|(k, _)| {
                let h = t.hash(k);
                t.find(k, h).map(|f| f.0) != Some(t.home(h))
            });
            let away = away.count();
            assert!(away < 20_000 / 12, "step {step}: {away}");
        }
    }

    #[test]
    fn a_bucket_is_a_line() {
        assert_eq!(size_of::<Bucket<u32, u32, 7>>(), 64);
        assert_eq!(size_of::<Bucket<u64, u32, 4>>(), 64);
        assert_eq!(size_of::<Bucket<u128, u64, 2>>(), 64);
        // All QinQ tags that there are, to a key of GRE.
        assert!(Exact::<u32, u32, 7>::bytes_for(1 << 24) < 210 << 20);
    }

    #[test]
    fn seeds_differ() {
        let (a, b) = (Exact::<u32, u32, 7>::new(1), Exact::<u32, u32, 7>::new(1));
        assert_ne!(a.hash(&1).0, b.hash(&1).0);
    }
}
