//! The learning switch's table: (VLAN, MAC) to port, bounded, in the order of last use.
//! Touches numbers only. Called by `learning/mod.rs` once per frame to learn and once to look up.
//!
//! Two arrays. `slots` is a hash that holds key and port, so that a lookup is one cache line. `entries` holds
//! what learning needs: when an address was last seen, and its place in its port's list, least
//! recently seen first. Both double as they fill, up to the bound, so that a small network costs
//! little and a frame costs no allocation of its own; no frame waits until they have.
//!
//! When the table is full, the least recently seen address of the port that has most makes room,
//! as in Open vSwitch: a port that floods invented addresses pushes out its own, not its
//! neighbours'.

use super::entries::{Entries, Entry};
use super::slots::Slots;
use crate::action::PortNo;
use crate::program::Ahead;
use weir_classify::simd::prefetch_read;
use weir_packet::Nanos;

/// No entry, no list.
const NONE: u32 = u32::MAX;

/// VLAN id and MAC address in one word: 12 and 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Station(pub u64);

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
    slots: Slots,
    entries: Entries,
    /// Unused entries, chained by `next`.
    free: u32,
    lists: Vec<List>,
    len: usize,
    statics: usize,
    max: usize,
    /// A sighting sooner than this after the last does not reorder the list.
    grain: Nanos,
}

impl Table {
    /// An empty table for at most `max` entries.
    pub fn new(max: usize, grain: Nanos, seed: u64) -> Self {
        Self {
            slots: Slots::new(seed),
            entries: Entries::default(),
            free: NONE,
            lists: Vec::new(),
            len: 0,
            statics: 0,
            max: max.clamp(1, NONE as usize / 4),
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

    /// Asks for the line that a station's slot is in.
    #[inline]
    pub fn expect(&self, key: Station) {
        self.slots.expect(key);
    }

    /// Whether when stations were seen lies farther away than their slots.
    #[inline]
    pub fn ahead(&self) -> Ahead {
        Ahead::of(self.entries.len() * size_of::<Entry>())
    }

    /// Asks for the line that says when a station was seen, where its slot is near.
    #[inline]
    pub fn expect_sighting(&self, key: Station) {
        if let Some((entry, _)) = self.slots.get(key)
            && let Some(e) = self.entries.get(entry)
        {
            prefetch_read(e);
        }
    }

    /// Where a station is.
    #[inline]
    pub fn port_of(&self, key: Station) -> Option<PortNo> {
        self.slots.get(key).map(|(_, port)| port)
    }

    /// Notes that a station was seen at a port.
    #[inline]
    pub fn learn(&mut self, key: Station, port: PortNo, now: Nanos) -> Learned {
        let Some(at) = self.slots.find(key) else { return self.insert(key, port, now) };
        let (entry, before) = self.slots.at(at);
        let e = &mut self.entries[entry];
        if e.list == NONE {
            return Learned::Static;
        }
        if before == port && now.since(e.seen) < self.grain {
            return Learned::Known;
        }
        e.seen = now;
        self.unlink(entry);
        let list = self.list_of(port);
        self.link(entry, list);
        if before == port {
            return Learned::Known;
        }
        self.slots.set_port(at, port);
        Learned::Moved(before)
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
        let e = Entry { key, seen: now, list: NONE, prev: NONE, next: NONE };
        let entry = if self.free == NONE {
            self.entries.push(e)
        } else {
            let i = self.free;
            self.free = self.entries[i].next;
            self.entries[i] = e;
            i
        };
        self.slots.insert(key, entry, port, self.len);
        self.len += 1;
        entry
    }

    /// Pins a station to a port; `false` when there is no room, every entry being static.
    pub fn pin(&mut self, key: Station, port: PortNo, now: Nanos) -> bool {
        if let Some(at) = self.slots.find(key) {
            let (entry, _) = self.slots.at(at);
            self.slots.set_port(at, port);
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
        let Some(at) = self.slots.find(key) else { return false };
        let (entry, _) = self.slots.at(at);
        if !self.unlink(entry) {
            self.statics -= 1;
        }
        self.entries[entry].next = self.free;
        self.free = entry;
        self.len -= 1;
        self.slots.remove(at);
        true
    }

    /// Drops the least recently seen entry of the port that has most; `false` when there is none.
    fn evict(&mut self) -> bool {
        let fullest = self.lists.iter().max_by_key(|l| l.len).filter(|l| l.len > 0);
        let Some(l) = fullest else { return false };
        let key = self.entries[l.head].key;
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
                && let Some(e) = self.entries.get(self.lists[list].head)
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
        self.slots.iter().map(|(key, entry, port)| {
            let e = &self.entries[entry];
            Row { key, port, seen: (e.list != NONE).then_some(e.seen) }
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
            self.entries[tail].next = entry;
        }
        let e = &mut self.entries[entry];
        (e.list, e.prev, e.next) = (list, tail, NONE);
    }

    /// Takes an entry out of its list; `false` when it was in none.
    fn unlink(&mut self, entry: u32) -> bool {
        let Entry { list, prev, next, .. } = self.entries[entry];
        if list == NONE {
            return false;
        }
        let l = &mut self.lists[list as usize];
        l.len -= 1;
        match prev {
            NONE => l.head = next,
            p => self.entries[p].next = next,
        }
        match next {
            NONE => self.lists[list as usize].tail = prev,
            n => self.entries[n].prev = prev,
        }
        let e = &mut self.entries[entry];
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

    /// Steps on so many stations.
    fn step(n: u64) -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => (0..n, 1u32..5).prop_map(|(k, p)| Step::Learn(k, p)),
            1 => (0..n, 1u32..5).prop_map(|(k, p)| Step::Pin(k, p)),
            2 => (0..n).prop_map(Step::Forget),
            1 => (0..n * 3 / 2).prop_map(Step::Expire),
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

    /// While one hash takes the other's place, each step is a few slots, and all is found in either.
    #[test]
    fn a_table_grows_little_by_little() {
        let mut t = Table::new(300_000, Nanos(1), 7);
        let (mut grew, mut most) = (0, 0);
        for k in 0..200_000 {
            let before = t.slots.leaving();
            t.learn(Station(k), PortNo(k as u32 % 7), Nanos(k));
            grew += usize::from(t.slots.leaving() > before);
            most = most.max(t.slots.leaving());
            for found in [0, k / 2, k] {
                assert_eq!(
                    t.port_of(Station(found)),
                    Some(PortNo(found as u32 % 7)),
                    "{found} at {k}"
                );
            }
            assert_eq!(t.port_of(Station(k + 1)), None);
        }
        assert!(grew >= 10 && most >= 65_536, "{grew} {most}");
        // One that is met while it is in the old one, and one that goes from there.
        let mut t = Table::new(1000, Nanos(1), 7);
        (0..33).for_each(|k| _ = t.learn(Station(k), PortNo(1), Nanos(k)));
        assert!(t.slots.leaving() > 0);
        (0..16).for_each(|k| assert!(t.forget(Station(k))));
        let moved = t.learn(Station(20), PortNo(2), Nanos(50));
        assert_eq!(moved, Learned::Moved(PortNo(1)));
        assert_eq!((t.rows().count(), t.len()), (17, 17));
        let port = |k: u64| t.port_of(Station(k)).map(|p| p.0);
        assert_eq!([0, 16, 20, 32].map(port), [None, Some(1), Some(2), Some(1)]);
    }

    proptest! {
        #[test]
        fn equals_a_map(
            // In a table that is full, and in one that grows.
            (max, steps) in prop_oneof![Just((12, 40)), Just((250, 600))]
                .prop_flat_map(|(max, n)| (Just(max), prop::collection::vec(step(n), 1..400))),
            seed in any::<u64>(),
        ) {
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
        assert!(t.slots.len() <= 2048 + 1024 && t.entries.len() <= 1024, "grew past its bound");
    }
}
