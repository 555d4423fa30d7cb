//! Flows whose winner is known: an exact-match cache before a table whose lookups are dear.
//!
//! Room: data-path core. Owned by whoever owns the table, beside it; tells of keys only what that table's rules look at,
//! so that flows which differ in nothing else share an entry. Judge: `linear.rs`, by way of the table.
//!
//! **Never stale.** Each change of the table is followed by [`FlowCache::refit`], after which no entry from before is
//! believed: entries carry the number of the change after which they were made.
//! **Only where it pays.** It serves for a window at a time and counts what it answered. Where that is little it grows,
//! and where growing does not help it gives its memory back and waits, each time longer: what trials cost is a small
//! part of what goes by meanwhile. What it grows to is made by and by while it serves; its first entries are made at once.
//! The hash is keyed by a random seed, and all that a hash stands for is compared.
//! **What it takes.** [`MOST`] entries of a line each at most for a table, half as many more while it grows, [`ALL`] bytes for all of a process; who finds none
//! left has what it would have without.

use crate::fast::{FastTable, Probe};
use crate::key::FlowKey;
use crate::rule::{Classifier, RuleId};
use crate::simd::{prefetch_read, prefetch_slice};
use crate::slots::hash;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Words of a key that it can tell of: rules that look at more are not cached.
const TOLD: usize = 5;
/// Words that rules mostly look at, at most: what frames carry, its addresses and ports.
const MOSTLY: usize = 3;
/// Windows are looked at after so many lookups: a power of two, of which every window is a multiple.
const WINDOW_STEP: u32 = 16;
/// Entries of a set: a flow may be in any.
const WAYS: usize = 2;
/// Entries at first, and at most.
const FEW: usize = 4096;
const MOST: usize = 32_768;
/// Sets made at a time of a cache that grows: no frames wait for all of it.
const AT_ONCE: usize = 64;
/// Bytes of all caches of a process.
const ALL: usize = if cfg!(test) { 12 << 20 } else { 64 << 20 };
/// Lookups after a trial that failed, at first and at most.
const WAIT: u32 = 1 << 20;
const LONGEST_WAIT: u32 = 1 << 24;

/// Bytes that caches hold.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// One flow and what was found for it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Entry {
    hash: u64,
    /// The change after which it was made; 0: none.
    made: u64,
    found: Option<RuleId>,
    words: [u64; TOLD],
}

const _: () = assert!(size_of::<Entry>() == 64);

/// Whether and when flows are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowCaching {
    /// Not at all.
    #[default]
    Never,
    /// Where lookups are dear, after so many of them.
    After(u32),
}

impl FlowCaching {
    /// What serves most: a table that is hardly asked gets no memory.
    pub const WHERE_DEAR: Self = Self::After(4096);
}

/// What is known of the flows that a table was asked about.
#[derive(Debug)]
pub struct FlowCache {
    serves: bool,
    /// Whether rules look at no more than [`MOSTLY`] words.
    few: bool,
    index: [u8; TOLD],
    masks: [u64; TOLD],
    seed: u64,
    /// Changes so far, and one: no entry is of change 0.
    changes: u64,
    sets: Vec<[Entry; WAYS]>,
    /// What it grows to, as far as that is made; without memory unless it grows.
    larger: Vec<[Entry; WAYS]>,
    /// Bytes of both, as they were taken.
    held: usize,
    /// Lookups left of the window, of which the second half is judged.
    left: u32,
    hits: u32,
    /// Flows that took another's entry, which still held.
    displaced: u32,
    sizes: Sizes,
    /// Whether what is no near flow is asked as fast of the table itself: then it does not grow.
    cheap: bool,
    /// Lookups until the next trial, and how many the next failure costs.
    waits: u32,
    wait: u32,
    /// Probes that may still be this cache's, though it serves no more.
    late: u32,
}

/// Entries at first, and at most; sets made at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    first: usize,
    most: usize,
    at_once: usize,
}

impl FlowCache {
    /// Probes that may be under way when a change of who answers is made: a burst has no more frames.
    pub const UNDER_WAY: usize = 64;

    /// One for a table of which nothing is known.
    pub fn new(after: u32) -> Self {
        Self::sized(after, Sizes { first: FEW, most: MOST, at_once: AT_ONCE })
    }
    fn sized(after: u32, sizes: Sizes) -> Self {
        Self {
            serves: false,
            few: true,
            index: [0; TOLD],
            masks: [0; TOLD],
            seed: RandomState::new().hash_one(after) | 1,
            changes: 1,
            sets: Vec::new(),
            larger: Vec::new(),
            held: 0,
            left: 0,
            hits: 0,
            displaced: 0,
            sizes,
            cheap: false,
            waits: after,
            wait: WAIT,
            late: 0,
        }
    }
    /// Bytes held beside its own.
    pub fn heap_bytes(&self) -> usize {
        (self.sets.capacity() + self.larger.capacity()) * size_of::<[Entry; WAYS]>()
    }

    /// The table has changed: nothing that was known holds. Between two bursts.
    pub fn refit(&mut self, table: &FastTable) {
        self.changes += 1;
        let union = table.mask_union();
        (self.index, self.masks) = ([0; TOLD], [0; TOLD]);
        let used = union.0.iter().enumerate().filter(|(_, m)| **m != 0);
        let places = self.index.iter_mut().zip(&mut self.masks);
        for ((i, m), (index, mask)) in used.zip(places) {
            (*index, *mask) = (i as u8, *m);
        }
        let words = table.words_union().count_ones() as usize;
        self.few = words <= MOSTLY;
        self.cheap = table.is_cheap();
        let too_large = self.cheap && self.heap_bytes() > self.sizes.first * size_of::<Entry>();
        if self.serves && (too_large || words > TOLD) {
            self.stop();
        }
        self.late = 0;
    }

    #[inline(always)]
    fn gather<const N: usize>(&self, key: &FlowKey) -> [u64; TOLD] {
        let mut words = [0; TOLD];
        for ((w, &i), &mask) in words.iter_mut().zip(&self.index).zip(&self.masks).take(N) {
            *w = key.0.get(usize::from(i)).copied().unwrap_or(0) & mask;
        }
        words
    }
    #[inline(always)]
    fn set_of(&self, hash: u64) -> usize {
        // The upper half decides: the lower is what entries differ in.
        ((hash >> 32) as usize * self.sets.len()) >> 32
    }

    /// Asks for the cache itself.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_slice(std::slice::from_ref(self), size_of::<Self>());
    }
    /// First half of a lookup in `table`: asks for the lines where the flow may be, or as the table does while this does not
    /// serve. Not part of the loops of who has tables without.
    #[inline(never)]
    pub fn probe(&self, table: &FastTable, key: &FlowKey) -> Probe {
        match (self.serves, self.few) {
            (false, _) => table.probe(key),
            (true, true) => self.probe_fixed::<MOSTLY>(key),
            (true, false) => self.probe_fixed::<TOLD>(key),
        }
    }
    #[inline(always)]
    fn probe_fixed<const N: usize>(&self, key: &FlowKey) -> Probe {
        let near = hash(self.seed, self.gather::<N>(key).get(..N).unwrap_or_default());
        // Sets are small: neighbouring flows must not be neighbours here, whatever the seed.
        let hash = (near ^ near >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some([a, b]) = self.sets.get(self.set_of(hash)) {
            prefetch_read(a);
            prefetch_read(b);
        }
        Probe::of_hash(hash)
    }

    /// Second half, of the same table.
    #[inline(never)]
    pub fn resolve(&mut self, table: &FastTable, key: &FlowKey, p: Probe) -> Option<RuleId> {
        match (self.serves, self.few) {
            (false, _) => self.resolve_without(table, key, p),
            (true, true) => self.resolve_fixed::<MOSTLY>(table, key, p),
            (true, false) => self.resolve_fixed::<TOLD>(table, key, p),
        }
    }
    #[inline(always)]
    fn resolve_fixed<const N: usize>(
        &mut self,
        table: &FastTable,
        key: &FlowKey,
        p: Probe,
    ) -> Option<RuleId> {
        // A probe from before it served has another hash: then the flow is not found, or kept where nobody looks.
        let (words, hash, now) = (self.gather::<N>(key), p.hash(), self.changes);
        let known = |e: &&Entry| {
            let same = (0..N).fold(e.hash ^ hash | e.made ^ now, |d, i| d | e.words[i] ^ words[i]);
            same == 0
        };
        self.left -= 1;
        let found = match self.sets.get(self.set_of(hash)).and_then(|s| s.iter().find(known)) {
            Some(e) => {
                self.hits += 1;
                e.found
            }
            None => self.resolve_new(table, key, Entry { hash, made: now, found: None, words }),
        };
        if self.left & (WINDOW_STEP - 1) == 0 {
            self.window_passes();
        }
        found
    }
    #[inline(never)]
    fn resolve_new(&mut self, table: &FastTable, key: &FlowKey, new: Entry) -> Option<RuleId> {
        let found = table.lookup(key);
        self.keep(self.set_of(new.hash), Entry { found, ..new });
        found
    }
    /// Whether the table itself answers all of the next `lookups`, which are counted as what goes by.
    #[inline]
    pub fn lets_by(&mut self, table: &FastTable, lookups: u32) -> bool {
        if self.serves {
            return false;
        }
        self.waits = self.waits.saturating_sub(lookups);
        self.begin_when_due(table);
        true
    }
    fn begin_when_due(&mut self, table: &FastTable) {
        if self.waits == 0 && table.words_union().count_ones() as usize <= TOLD {
            self.begin();
        }
    }
    /// While it does not serve.
    fn resolve_without(&mut self, table: &FastTable, key: &FlowKey, p: Probe) -> Option<RuleId> {
        if self.late > 0 {
            self.late -= 1;
            return table.lookup(key);
        }
        self.waits = self.waits.saturating_sub(1);
        self.begin_when_due(table);
        table.resolve(key, p)
    }
    /// Some lookups of the window are over.
    fn window_passes(&mut self) {
        if self.larger.capacity() > 0 {
            self.grow_on();
        } else if self.left == self.judged() {
            (self.hits, self.displaced) = (0, 0);
        } else if self.left == 0 {
            self.judge();
        }
    }

    /// In the place of what no longer holds; else of one or the other.
    fn keep(&mut self, at: usize, new: Entry) {
        let now = self.changes;
        if let Some(set) = self.sets.get_mut(at) {
            let stale = set.iter().position(|e| e.made != now);
            self.displaced += u32::from(stale.is_none());
            if let Some(e) = set.get_mut(stale.unwrap_or(self.left as usize % WAYS)) {
                *e = new;
            }
        }
    }

    /// Lookups of a window that count.
    fn judged(&self) -> u32 {
        (2 * self.sets.len() * WAYS) as u32
    }

    // Not part of the loops that ask whether it is due.
    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        let entries = self.sizes.first;
        if !self.take(entries) {
            return self.stop();
        }
        self.sets = vec![Default::default(); entries / WAYS];
        self.serves = true;
        self.go_on();
    }
    /// Grows by and by: what it has serves meanwhile. False where there is no memory for it: then nothing has changed.
    fn grow(&mut self) -> bool {
        let entries = (4 * self.sets.len() * WAYS).min(self.sizes.most);
        let taken = self.take(entries);
        if taken {
            self.larger = Vec::with_capacity(entries / WAYS);
            self.go_on();
        }
        taken
    }
    #[cold]
    #[inline(never)]
    fn grow_on(&mut self) {
        let all = self.larger.capacity();
        let more = self.larger.len() + self.sizes.at_once;
        self.larger.resize(more.min(all), Default::default());
        if self.larger.len() == all {
            let larger = std::mem::take(&mut self.larger);
            self.give_back(size_of_val(&*self.sets));
            self.sets = larger;
            self.go_on();
        } else if self.left == 0 {
            self.go_on();
        }
    }
    /// Whether there is memory for so many entries; then they are counted.
    fn take(&mut self, entries: usize) -> bool {
        let bytes = entries * size_of::<Entry>();
        let more = |held: usize| held.checked_add(bytes).filter(|all| *all <= ALL);
        let taken = HELD.fetch_update(Relaxed, Relaxed, more).is_ok();
        self.held += if taken { bytes } else { 0 };
        taken
    }
    fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        HELD.fetch_sub(bytes, Relaxed);
    }
    fn go_on(&mut self) {
        (self.left, self.hits, self.displaced) = (2 * self.judged(), 0, 0);
    }

    #[cold]
    #[inline(never)]
    fn judge(&mut self) {
        let (of, entries) = (self.judged(), self.sets.len() * WAYS);
        let (most, enough) = match self.cheap {
            true => (self.sizes.first, of / 4 * 3),
            false => (self.sizes.most, of / 2),
        };
        // Of those that find no entry, what a change made stale would find none in a larger one, either.
        let crowded = self.displaced * 2 > of - self.hits;
        let would_gain = match self.hits >= of / 4 * 3 {
            true => crowded && self.hits < of / 8 * 7,
            false => self.hits >= of / 16,
        };
        let serves = self.hits >= enough;
        if serves {
            self.wait = WAIT;
        }
        if would_gain && entries < most && self.grow() {
            return;
        }
        match serves {
            true => self.go_on(),
            false => self.stop(),
        }
    }

    /// Gives its memory back, and waits.
    fn stop(&mut self) {
        self.late = if self.serves { Self::UNDER_WAY as u32 } else { self.late };
        self.serves = false;
        self.release();
        self.waits = self.wait;
        self.wait = (2 * self.wait).min(LONGEST_WAIT);
    }

    fn release(&mut self) {
        (self.sets, self.larger) = (Vec::new(), Vec::new());
        self.give_back(self.held);
    }
}

impl Drop for FlowCache {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::linear::Linear;
    use crate::rule::{Match, Rule};
    use proptest::prelude::*;

    fn rule(n: u32, a: u8, b: u8, mask: u8) -> Rule {
        let matcher = Match::any()
            .with(Field::EthDst, u128::from(a % 8))
            .with(Field::Ipv4Src, u128::from(b & mask));
        Rule { matcher, priority: n % 5, id: RuleId(n) }
    }

    fn key(a: u8, b: u8) -> FlowKey {
        let m = Match::any().with(Field::EthDst, a.into()).with(Field::Ipv4Src, b.into());
        *m.value()
    }

    proptest! {
        /// Changes and bursts in turn, a cache that begins, grows and gives up within them: as the oracle.
        #[test]
        fn as_without(
            rounds in prop::collection::vec(
                (any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>(), prop::collection::vec((0u8..10, any::<u8>()), 0..80)),
                1..60,
            ),
            few in any::<bool>(),
        ) {
            let (mut table, mut oracle) = (FastTable::new(), Linear::default());
            let mut cache = FlowCache::sized(1, Sizes { first: 8, most: if few { 8 } else { 64 }, at_once: 1 });
            cache.wait = 8;
            let mut served = 0;
            for (n, (a, b, mask, remove, asked)) in rounds.into_iter().enumerate() {
                let r = rule(n as u32, a, b, mask);
                if remove {
                    let m = rule(0, a, b, mask).matcher;
                    prop_assert_eq!(table.remove(&m, 0), oracle.remove(&m, 0));
                } else {
                    prop_assert_eq!(table.insert(r).is_ok(), oracle.insert(r).is_ok());
                }
                cache.refit(&table);
                prop_assert_eq!(cache.held, cache.heap_bytes());
                for burst in asked.chunks(FlowCache::UNDER_WAY) {
                    let keys: Vec<FlowKey> = burst.iter().map(|&(a, b)| key(a, b % 16)).collect();
                    let probes: Vec<Probe> = keys.iter().map(|k| cache.probe(&table, k)).collect();
                    for (k, p) in keys.iter().zip(probes) {
                        served += u32::from(cache.serves);
                        prop_assert_eq!(cache.resolve(&table, k, p), oracle.lookup(k));
                    }
                }
                cache.wait = cache.wait.min(8);
            }
            prop_assert!(HELD.load(Relaxed) <= ALL, "{served}");
        }
    }

    /// Asks for so many flows, told apart by this field, so often in all.
    fn ask(table: &FastTable, cache: &mut FlowCache, by: Field, flows: u64, times: u64) {
        ask_on(table, cache, by, flows, 0..times);
    }
    fn ask_on(
        table: &FastTable,
        cache: &mut FlowCache,
        by: Field,
        flows: u64,
        asked: std::ops::Range<u64>,
    ) {
        for i in asked {
            let flow = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % flows;
            let k = *Match::any().with(by, flow.into()).value();
            let p = cache.probe(table, &k);
            assert_eq!(cache.resolve(table, &k, p), table.lookup(&k));
        }
    }

    /// A table where every key has one leaf.
    fn of_one_leaf() -> FastTable {
        let mut table = FastTable::new();
        for n in 0..1000 {
            let to = Match::any().with(Field::Ipv4Dst, u128::from(n / 2));
            let matcher = if n % 2 == 0 { to.with(Field::TpDst, 7) } else { to };
            table
                .insert(Rule { matcher, priority: n % 2, id: RuleId(n) })
                .expect("a rule of its own");
        }
        assert!(table.index_now() && table.is_cheap());
        table
    }

    /// Few flows are served; many more than there are entries are not, and memory is given back.
    #[test]
    fn it_serves_where_it_pays() {
        let mut table = FastTable::new();
        for n in 0..64 {
            let matcher = Match::any().with(Field::Ipv4Src, n.into());
            let rule = Rule { matcher, priority: 1, id: RuleId(n) };
            table.insert(rule).expect("a rule of its own");
        }
        let mut cache = FlowCache::new(1);
        cache.refit(&table);
        let ask =
            |cache: &mut FlowCache, flows, times| ask(&table, cache, Field::Ipv4Src, flows, times);
        // Every bit of the address is looked at.
        assert_eq!(table.mask_union().get(Field::Ipv4Src), Field::Ipv4Src.full());
        ask(&mut cache, 1000, 100_000);
        assert!(cache.serves && cache.heap_bytes() == FEW * 64);
        // Half as many entries would serve, but one flow in six would not find its own.
        ask(&mut cache, 11_000, 1_000_000);
        assert!(cache.serves && cache.heap_bytes() == MOST * 64);
        ask(&mut cache, 1 << 30, 1_000_000);
        assert!(!cache.serves && cache.heap_bytes() == 0);
    }

    /// A larger one is made by and by, and what there was serves meanwhile.
    #[test]
    fn it_grows_in_steps() {
        let mut table = FastTable::new();
        let matcher = Match::any().with(Field::Ipv4Src, 1);
        table.insert(Rule { matcher, priority: 1, id: RuleId(0) }).expect("a rule of its own");
        let mut cache = FlowCache::new(1);
        cache.refit(&table);
        let (mut steps, mut made, mut asked) = (0, 0, 0);
        while cache.sets.len() * WAYS < MOST && asked < 2_000_000 {
            let more = asked..asked + u64::from(WINDOW_STEP);
            asked = more.end;
            ask_on(&table, &mut cache, Field::Ipv4Src, 11_000, more);
            assert!(cache.serves && cache.larger.len().saturating_sub(made) <= AT_ONCE);
            made = cache.larger.len();
            steps += u32::from(made > 0);
        }
        assert!(steps as usize > MOST / WAYS / AT_ONCE, "{steps}");
        assert!(cache.heap_bytes() == MOST * size_of::<Entry>());
    }

    /// An index that comes and goes with each change, faster than flows come back: trials become rare.
    #[test]
    fn who_changes_much_has_few_trials() {
        let mut table = of_one_leaf();
        let beside = Match::any().with(Field::InPort, 77);
        let mut cache = FlowCache::new(1);
        let (mut exchanges, mut cheap, mut held) = (0, 0, 0);
        for n in 0..160u64 {
            match n % 2 {
                0 => _ = table.insert(Rule { matcher: beside, priority: 9, id: RuleId(1000) }),
                _ => _ = table.remove(&beside, 9),
            }
            cheap += u32::from(table.is_cheap());
            cache.refit(&table);
            for more in (0..64).map(|i| 128 * (64 * n + i)) {
                ask_on(&table, &mut cache, Field::Ipv4Dst, 12_000, more..more + 128);
                exchanges += u32::from(cache.heap_bytes() != held);
                held = cache.heap_bytes();
            }
        }
        assert_eq!(cheap, 80);
        // Two trials in 1.3 million lookups, the next in two million more.
        assert!((4..=8).contains(&exchanges) && cache.wait == 4 * WAIT, "{exchanges}");
    }

    /// What serves well goes on where there is no memory for more.
    #[test]
    fn it_goes_on_where_it_can_not_grow() {
        let mut table = FastTable::new();
        let matcher = Match::any().with(Field::Ipv4Src, 1);
        table.insert(Rule { matcher, priority: 1, id: RuleId(0) }).expect("a rule of its own");
        let first = 40_960;
        let mut cache = FlowCache::sized(1, Sizes { first, most: 4 * first, at_once: AT_ONCE });
        cache.refit(&table);
        ask(&table, &mut cache, Field::Ipv4Src, 27_500, 900_000);
        assert!(cache.serves && cache.heap_bytes() == first * 64);
    }

    /// Where the table itself is as fast as a flow that lies in no near cache, few are served and no more.
    #[test]
    fn it_does_not_grow_where_every_key_has_one_leaf() {
        let table = of_one_leaf();
        let mut cache = FlowCache::new(1);
        cache.refit(&table);
        let ask =
            |cache: &mut FlowCache, flows, times| ask(&table, cache, Field::Ipv4Dst, flows, times);
        ask(&mut cache, 1000, 100_000);
        assert!(cache.serves && cache.heap_bytes() == FEW * 64);
        ask(&mut cache, 12_000, 100_000);
        assert!(!cache.serves && cache.heap_bytes() == 0);
    }
}
