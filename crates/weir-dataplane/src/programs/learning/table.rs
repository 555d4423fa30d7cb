//! The learning switch's table: (VLAN, MAC) to port, bounded, in the order of last use.
//! Touches numbers only. Called by `learning/mod.rs` once per frame to learn and once to look up.
//!
//! Two arrays. `slots` is an open-addressing hash (linear probing, deletion by shifting back, at
//! most half full) that holds key and port, so that a lookup is one cache line. `entries` holds
//! what learning needs: when an address was last seen, and its place in its port's list, least
//! recently seen first. Both double as they fill, up to the bound, so that a small network costs
//! little and a frame costs no allocation of its own.
//!
//! When the table is full, the least recently seen address of the port that has most makes room,
//! as in Open vSwitch: a port that floods invented addresses pushes out its own, not its
//! neighbours'.

use crate::action::PortNo;
use crate::program::Ahead;
use crate::programs::hash::fold;
use weir_classify::simd::prefetch_read;
use weir_packet::Nanos;

/// No entry, no list.
const NONE: u32 = u32::MAX;
/// Slots of an empty table.
const FIRST_SLOTS: usize = 64;

/// VLAN id and MAC address in one word: 12 and 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Station(pub u64);

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Station,
    entry: u32,
    port: PortNo,
}

const EMPTY: Slot = Slot { key: Station(0), entry: NONE, port: PortNo(0) };

/// Half a line of cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry {
    key: Station,
    seen: Nanos,
    /// Its port's list; `NONE` for a static entry, which is in none.
    list: u32,
    prev: u32,
    next: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// One port's addresses, the least recently seen first.
#[derive(Clone, Copy, Debug)]
struct List {
    port: PortNo,
    head: u32,
    tail: u32,
    len: usize,
}

/// What learning an address did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// It was there, at this port.
    Known,
    /// It is new.
    New,
    /// It is new, and another made room for it.
    Evicted,
    /// It was at this other port before.
    Moved(PortNo),
    /// A static entry says where it is; nothing changed.
    Static,
    /// There is no room: every entry is static.
    Full,
}

/// An entry, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub key: Station,
    pub port: PortNo,
    /// `None` for a static entry.
    pub seen: Option<Nanos>,
}

#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    entries: Vec<Entry>,
    /// Unused entries, chained by `next`.
    free: u32,
    lists: Vec<List>,
    len: usize,
    statics: usize,
    max: usize,
    seed: u64,
    /// A sighting sooner than this after the last does not reorder the list.
    grain: Nanos,
}

impl Table {
    /// An empty table for at most `max` entries.
    pub fn new(max: usize, grain: Nanos, seed: u64) -> Self {
        Self {
            slots: vec![EMPTY; FIRST_SLOTS],
            entries: Vec::new(),
            free: NONE,
            lists: Vec::new(),
            len: 0,
            statics: 0,
            max: max.clamp(1, NONE as usize / 4),
            seed,
            grain,
        }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn statics(&self) -> usize {
        self.statics
    }
    pub fn max(&self) -> usize {
        self.max
    }

    #[inline(always)]
    fn home(&self, key: Station) -> usize {
        fold(key.0, self.seed) as usize & (self.slots.len() - 1)
    }
    #[inline(always)]
    fn after(&self, i: usize) -> usize {
        (i + 1) & (self.slots.len() - 1)
    }
    /// The slot that holds `key`, or else the empty one where it belongs.
    #[inline(always)]
    fn find(&self, key: Station) -> Result<usize, usize> {
        let mut i = self.home(key);
        loop {
            let s = &self.slots[i];
            if s.entry == NONE {
                return Err(i);
            }
            if s.key == key {
                return Ok(i);
            }
            i = self.after(i);
        }
    }

    /// Asks for the line that a station's slot is in.
    #[inline]
    pub fn expect(&self, key: Station) {
        if let Some(s) = self.slots.get(self.home(key)) {
            prefetch_read(s);
        }
    }

    /// Whether when stations were seen lies farther away than their slots.
    #[inline]
    pub fn ahead(&self) -> Ahead {
        Ahead::of(self.entries.len() * size_of::<Entry>())
    }

    /// Asks for the line that says when a station was seen, where its slot is near.
    #[inline]
    pub fn expect_sighting(&self, key: Station) {
        if let Ok(i) = self.find(key)
            && let Some(e) = self.entries.get(self.slots[i].entry as usize)
        {
            prefetch_read(e);
        }
    }

    /// Where a station is.
    #[inline]
    pub fn port_of(&self, key: Station) -> Option<PortNo> {
        self.find(key).ok().map(|i| self.slots[i].port)
    }

    /// Notes that a station was seen at a port.
    #[inline]
    pub fn learn(&mut self, key: Station, port: PortNo, now: Nanos) -> Learned {
        let Ok(i) = self.find(key) else { return self.insert(key, port, now) };
        let slot = self.slots[i];
        let e = &mut self.entries[slot.entry as usize];
        if e.list == NONE {
            return Learned::Static;
        }
        if slot.port == port && now.since(e.seen) < self.grain {
            return Learned::Known;
        }
        e.seen = now;
        self.unlink(slot.entry);
        let list = self.list_of(port);
        self.link(slot.entry, list);
        if slot.port == port {
            return Learned::Known;
        }
        self.slots[i].port = port;
        Learned::Moved(slot.port)
    }

    fn insert(&mut self, key: Station, port: PortNo, now: Nanos) -> Learned {
        let mut learned = Learned::New;
        if self.len >= self.max {
            if !self.evict() {
                return Learned::Full;
            }
            learned = Learned::Evicted;
        }
        let entry = self.place(key, port, now);
        let list = self.list_of(port);
        self.link(entry, list);
        learned
    }

    /// Puts a new key into a table that has room; its entry is in no list yet.
    fn place(&mut self, key: Station, port: PortNo, now: Nanos) -> u32 {
        if (self.len + 1) * 2 > self.slots.len() {
            self.double();
        }
        let e = Entry { key, seen: now, list: NONE, prev: NONE, next: NONE };
        let entry = if self.free == NONE {
            self.entries.push(e);
            (self.entries.len() - 1) as u32
        } else {
            let i = self.free;
            self.free = self.entries[i as usize].next;
            self.entries[i as usize] = e;
            i
        };
        if let Err(i) = self.find(key) {
            self.slots[i] = Slot { key, entry, port };
        }
        self.len += 1;
        entry
    }

    fn double(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        for s in old.into_iter().filter(|s| s.entry != NONE) {
            if let Err(i) = self.find(s.key) {
                self.slots[i] = s;
            }
        }
    }

    /// Pins a station to a port; `false` when there is no room, every entry being static.
    pub fn pin(&mut self, key: Station, port: PortNo, now: Nanos) -> bool {
        if let Ok(i) = self.find(key) {
            let entry = self.slots[i].entry;
            self.slots[i].port = port;
            self.statics += usize::from(self.unlink(entry));
            return true;
        }
        if self.len >= self.max && !self.evict() {
            return false;
        }
        self.place(key, port, now);
        self.statics += 1;
        true
    }

    /// Makes what `before` has learned its own, those seen last where there is not room for all.
    pub fn take_over(&mut self, mut before: Self, now: Nanos) {
        let is_static = |r: &Row| r.seen.is_none();
        let old: Vec<Row> = before.rows().filter(is_static).collect();
        old.iter().for_each(|r| _ = before.forget(r.key));
        (before.max, before.grain) = (self.max, self.grain);
        while before.len > before.max && before.evict() {}
        let own: Vec<Row> = self.rows().filter(is_static).collect();
        // There is room: they are no more than its most, and others go.
        own.iter().for_each(|r| _ = before.pin(r.key, r.port, now));
        *self = before;
    }

    /// Forgets a station, a static one too; `false` when it was not there.
    pub fn forget(&mut self, key: Station) -> bool {
        let Ok(i) = self.find(key) else { return false };
        let entry = self.slots[i].entry;
        if !self.unlink(entry) {
            self.statics -= 1;
        }
        self.entries[entry as usize].next = self.free;
        self.free = entry;
        self.len -= 1;
        self.clear_slot(i);
        true
    }

    /// Empties a slot and moves back what had been pushed past it.
    fn clear_slot(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut i = hole;
        loop {
            i = self.after(i);
            let s = self.slots[i];
            if s.entry == NONE {
                break;
            }
            let from_home = i.wrapping_sub(self.home(s.key)) & mask;
            if from_home >= i.wrapping_sub(hole) & mask {
                self.slots[hole] = s;
                hole = i;
            }
        }
        self.slots[hole] = EMPTY;
    }

    /// Drops the least recently seen entry of the port that has most; `false` when there is none.
    fn evict(&mut self) -> bool {
        let fullest = self.lists.iter().max_by_key(|l| l.len).filter(|l| l.len > 0);
        let Some(l) = fullest else { return false };
        let key = self.entries[l.head as usize].key;
        self.forget(key)
    }

    /// Forgets what was last seen before `before`, `most` entries at once; says how many.
    pub fn expire(&mut self, before: Nanos, most: usize) -> usize {
        self.forget_heads(|_, e| e.seen < before, most)
    }

    /// Forgets what was learned at ports that `is_gone` names, `most` entries at once; says how many.
    pub fn forget_ports(&mut self, is_gone: impl Fn(PortNo) -> bool, most: usize) -> usize {
        let gone: Vec<bool> = self.lists.iter().map(|l| l.len > 0 && is_gone(l.port)).collect();
        self.forget_heads(|list, _| gone.get(list).copied().unwrap_or(false), most)
    }

    fn forget_heads(&mut self, due: impl Fn(usize, &Entry) -> bool, most: usize) -> usize {
        let before = self.len;
        for list in 0..self.lists.len() {
            while before - self.len < most
                && let Some(e) = self.entries.get(self.lists[list].head as usize)
                && due(list, e)
            {
                let key = e.key;
                self.forget(key);
            }
        }
        before - self.len
    }

    /// Everything there is, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.slots.iter().filter(|s| s.entry != NONE).map(|s| {
            let e = &self.entries[s.entry as usize];
            Row { key: s.key, port: s.port, seen: (e.list != NONE).then_some(e.seen) }
        })
    }

    /// The list of a port; one that is empty is taken over, so there are never more than entries.
    fn list_of(&mut self, port: PortNo) -> u32 {
        let found = self.lists.iter().position(|l| l.port == port);
        if let Some(i) = found.or_else(|| self.lists.iter().position(|l| l.len == 0)) {
            self.lists[i].port = port;
            return i as u32;
        }
        self.lists.push(List { port, head: NONE, tail: NONE, len: 0 });
        (self.lists.len() - 1) as u32
    }

    fn link(&mut self, entry: u32, list: u32) {
        let l = &mut self.lists[list as usize];
        let tail = std::mem::replace(&mut l.tail, entry);
        l.len += 1;
        if tail == NONE {
            l.head = entry;
        } else {
            self.entries[tail as usize].next = entry;
        }
        let e = &mut self.entries[entry as usize];
        (e.list, e.prev, e.next) = (list, tail, NONE);
    }

    /// Takes an entry out of its list; `false` when it was in none.
    fn unlink(&mut self, entry: u32) -> bool {
        let Entry { list, prev, next, .. } = self.entries[entry as usize];
        if list == NONE {
            return false;
        }
        let l = &mut self.lists[list as usize];
        l.len -= 1;
        match prev {
            NONE => l.head = next,
            p => self.entries[p as usize].next = next,
        }
        match next {
            NONE => self.lists[list as usize].tail = prev,
            n => self.entries[n as usize].prev = prev,
        }
        let e = &mut self.entries[entry as usize];
        (e.list, e.prev, e.next) = (NONE, NONE, NONE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Step {
        Learn(u64, u32),
        Pin(u64, u32),
        Forget(u64),
        Expire(u64),
        Gone(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => (0u64..40, 1u32..5).prop_map(|(k, p)| Step::Learn(k, p)),
            1 => (0u64..40, 1u32..5).prop_map(|(k, p)| Step::Pin(k, p)),
            2 => (0u64..40).prop_map(Step::Forget),
            1 => (0u64..60).prop_map(Step::Expire),
            1 => (1u32..5).prop_map(Step::Gone),
        ]
    }

    /// Key to port and last sighting; `None` is static.
    type Oracle = HashMap<u64, (u32, Option<u64>)>;

    fn make_room(oracle: &mut Oracle, table: &Table, max: usize) -> bool {
        if oracle.len() < max {
            return true;
        }
        // Which of several equally full ports gives is not promised: ask, then check the promise.
        let left: Vec<u64> =
            oracle.keys().copied().filter(|k| table.port_of(Station(*k)).is_none()).collect();
        let [victim] = left[..] else {
            return left.is_empty() && oracle.values().all(|v| v.1.is_none());
        };
        let (port, seen) = oracle[&victim];
        let seen = seen.expect("a static entry was evicted");
        let count = |p| oracle.values().filter(|v| v.0 == p && v.1.is_some()).count();
        assert!((1..5).all(|p| count(p) <= count(port)), "port {port} has not most");
        assert!(oracle.values().all(|v| v.0 != port || v.1.is_none_or(|s| s >= seen)));
        oracle.remove(&victim);
        true
    }

    #[test]
    fn when_many_stations_were_seen_is_asked_for_ahead() {
        let mut table = Table::new(100_000, Nanos(1), 7);
        // A megabyte of entries is still near.
        for n in 0..32_768 {
            table.learn(Station(n), PortNo(1), Nanos(1));
        }
        assert_eq!(table.ahead(), Ahead::All);
        table.learn(Station(32_768), PortNo(1), Nanos(1));
        assert_eq!(table.ahead(), Ahead::Further);
    }

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec(step(), 1..400), seed in any::<u64>()) {
            let max = 12;
            let mut table = Table::new(max, Nanos(1), seed);
            let mut oracle = Oracle::new();
            for (now, s) in steps.into_iter().enumerate() {
                let now = now as u64 + 1;
                match s {
                    Step::Learn(k, p) => {
                        let learned = table.learn(Station(k), PortNo(p), Nanos(now));
                        match oracle.get(&k).copied() {
                            Some((_, None)) => prop_assert_eq!(learned, Learned::Static),
                            Some((old, Some(_))) => {
                                let moved = Learned::Moved(PortNo(old));
                                prop_assert_eq!(learned, if old == p { Learned::Known } else { moved });
                                oracle.insert(k, (p, Some(now)));
                            }
                            None => {
                                let full = oracle.len() == max;
                                prop_assert!(make_room(&mut oracle, &table, max));
                                if oracle.len() == max {
                                    prop_assert_eq!(learned, Learned::Full);
                                } else {
                                    let new = if full { Learned::Evicted } else { Learned::New };
                                    prop_assert_eq!(learned, new);
                                    oracle.insert(k, (p, Some(now)));
                                }
                            }
                        }
                    }
                    Step::Pin(k, p) => {
                        let done = table.pin(Station(k), PortNo(p), Nanos(now));
                        if !oracle.contains_key(&k) {
                            prop_assert!(make_room(&mut oracle, &table, max));
                        }
                        prop_assert_eq!(done, oracle.contains_key(&k) || oracle.len() < max);
                        if done {
                            oracle.insert(k, (p, None));
                        }
                    }
                    Step::Forget(k) => {
                        prop_assert_eq!(table.forget(Station(k)), oracle.remove(&k).is_some());
                    }
                    Step::Expire(age) => {
                        let before = now.saturating_sub(age);
                        let n = oracle.len();
                        oracle.retain(|_, v| v.1.is_none_or(|s| s >= before));
                        prop_assert_eq!(table.expire(Nanos(before), usize::MAX), n - oracle.len());
                    }
                    Step::Gone(p) => {
                        let n = oracle.len();
                        oracle.retain(|_, v| v.0 != p || v.1.is_none());
                        prop_assert_eq!(table.forget_ports(|q| q.0 == p, usize::MAX), n - oracle.len());
                    }
                }
                let mut have: Vec<_> =
                    table.rows().map(|r| (r.key.0, (r.port.0, r.seen.map(|s| s.0)))).collect();
                let mut want: Vec<_> = oracle.iter().map(|(k, v)| (*k, *v)).collect();
                have.sort_unstable();
                want.sort_unstable();
                prop_assert_eq!(have, want);
                prop_assert_eq!(table.len(), oracle.len());
                let statics = oracle.values().filter(|v| v.1.is_none()).count();
                prop_assert_eq!(table.statics(), statics);
            }
        }
    }

    #[test]
    fn a_flood_of_addresses_keeps_to_its_own_port() {
        let mut t = Table::new(1024, Nanos(1), 7);
        for k in 0..100 {
            t.learn(Station(k), PortNo(1), Nanos(k));
        }
        for k in 1000..100_000 {
            t.learn(Station(k), PortNo(2), Nanos(k));
        }
        assert_eq!(t.len(), 1024);
        assert!((0..100).all(|k| t.port_of(Station(k)) == Some(PortNo(1))));
        assert!(t.slots.len() <= 2048 && t.entries.len() <= 1024, "grew past its bound");
    }
}
