//! The neighbours of the router's links: address to MAC, for IPv4 and IPv6 alike, with the frames
//! that wait for an answer. Pure: time comes in, what is to be sent goes out. Called by `mod.rs`.
//!
//! The states are those of RFC 4861 §7.3.2, for ARP too. A router hears nothing from the layers
//! above that would confirm a neighbour, so there is no DELAY: an entry that is no longer known to
//! be reachable is asked by unicast when it is next used, and goes on being used meanwhile.
//!
//! Bounds: entries, frames per neighbour, frames in all. At most half of the entries may be
//! unresolved, so that a scan of an empty network can't push out the neighbours that are there
//! (RFC 6583), and of one link and family no more than it leaves to the others.

use super::IfaceId;
use super::config::NeighbourConfig;
use crate::program::Origin;
use crate::programs::hash::Fold;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use weir_packet::{Frame, Nanos};
use weir_wire::MacAddr;

/// Time between two looks at what is due, at least.
const GRAIN: Nanos = Nanos::from_millis(10);
/// Time between two looks at who is idle.
const SWEEP: Nanos = Nanos::from_secs(5);

/// A neighbour: the link and the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub iface: IfaceId,
    pub addr: IpAddr,
}

impl Hash for Key {
    /// In as few words as hold it.
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        let iface = u64::from(self.iface);
        match self.addr {
            IpAddr::V4(a) => h.write_u64(iface << 32 | u64::from(a.to_bits())),
            IpAddr::V6(a) => {
                // Never the word of an IPv4 neighbour's.
                h.write_u64(iface << 32 | 1 << 63);
                h.write_u128(a.to_bits());
            }
        }
    }
}

/// A frame that waits: complete but for its Ethernet header.
#[derive(Debug)]
pub(super) struct Held {
    pub frame: Frame,
    pub origin: Origin,
}

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// To everybody who might have the address.
    Everybody,
    /// To who had it last.
    Station(MacAddr),
}

/// What using a neighbour gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Send there; and ask again, perhaps.
    Send(MacAddr, Option<Ask>),
    /// Hold the frame; and ask, if nobody has yet.
    Hold(Option<Ask>),
    /// Too many neighbours are unresolved.
    Full,
}

/// What a message says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It answered a request of ours.
    Answer,
    /// It said so by itself.
    Unasked,
}

/// Whether a neighbour that was not there is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It is: it is about to talk to us.
    Add,
    /// It is not.
    Ignore,
}

/// How a neighbour stands, as shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Confirmed not long ago.
    Reachable,
    /// Known, to be confirmed when next used.
    Stale,
    /// Known, being confirmed.
    Probe,
    /// Configured: neither asked for nor forgotten.
    Permanent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Incomplete { tries: u8, next: Nanos },
    Reachable { mac: MacAddr, until: Nanos },
    Stale { mac: MacAddr },
    Probe { mac: MacAddr, tries: u8, next: Nanos },
    Permanent { mac: MacAddr },
}

impl State {
    fn mac(&self) -> Option<MacAddr> {
        match *self {
            State::Incomplete { .. } => None,
            State::Reachable { mac, .. }
            | State::Stale { mac }
            | State::Probe { mac, .. }
            | State::Permanent { mac } => Some(mac),
        }
    }
    fn next(&self) -> Option<Nanos> {
        match *self {
            State::Incomplete { next, .. } | State::Probe { next, .. } => Some(next),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    used: Nanos,
    waiting: VecDeque<Held>,
}

/// Something that has become due.
#[derive(Debug)]
pub(super) enum Due {
    /// Ask again.
    Ask(Key, Ask),
    /// It never answered: these frames can't be delivered.
    Failed(Key, VecDeque<Held>),
}

#[derive(Debug)]
pub(super) struct Cache {
    config: NeighbourConfig,
    entries: HashMap<Key, Entry, Fold>,
    /// Neighbours that are asked for and not known, by link and family.
    incomplete: BTreeMap<(IfaceId, Family), usize>,
    held: usize,
    next_due: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    V4,
    V6,
}

impl Key {
    /// Where it is asked for.
    fn asked(self) -> (IfaceId, Family) {
        (self.iface, if self.addr.is_ipv4() { Family::V4 } else { Family::V6 })
    }
}

impl Cache {
    pub fn new(config: NeighbourConfig) -> Self {
        Self {
            config,
            entries: HashMap::default(),
            incomplete: BTreeMap::new(),
            held: 0,
            next_due: Nanos(u64::MAX),
        }
    }
    /// A neighbour that is known for good.
    pub fn pin(&mut self, key: Key, mac: MacAddr) {
        let (state, waiting) = (State::Permanent { mac }, VecDeque::new());
        self.entries.insert(key, Entry { state, used: Nanos(0), waiting });
    }
    /// Makes the neighbours of `before` its own that were found on links which are the same, as `same` says which.
    pub fn take_over(&mut self, before: Self, same: impl Fn(IfaceId) -> Option<IfaceId>) {
        for (key, e) in before.entries {
            let found = !matches!(e.state, State::Incomplete { .. } | State::Permanent { .. });
            if let Some(iface) = same(key.iface)
                && found
                && self.entries.len() < self.config.entries
            {
                self.entries
                    .entry(Key { iface, ..key })
                    .or_insert(Entry { waiting: VecDeque::new(), ..e });
            }
        }
        self.due_at(before.next_due);
    }
    /// Frames that wait.
    pub fn held(&self) -> usize {
        self.held
    }
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn due_at(&mut self, t: Nanos) {
        self.next_due = self.next_due.min(t);
    }

    /// The MAC of a neighbour that a frame may go to without more ado: [`Cache::resolve`] would say
    /// [`Use::Send`] and ask nobody.
    #[inline]
    pub fn usable(&mut self, key: Key, now: Nanos) -> Option<MacAddr> {
        let e = self.entries.get_mut(&key)?;
        let mac = match e.state {
            State::Probe { mac, .. } | State::Permanent { mac } => mac,
            State::Reachable { mac, until } if now < until => mac,
            _ => return None,
        };
        e.used = now;
        Some(mac)
    }

    /// A frame is to go to a neighbour.
    pub fn resolve(&mut self, key: Key, now: Nanos) -> Use {
        let next = now + self.config.retry;
        if let Some(e) = self.entries.get_mut(&key) {
            e.used = now;
            return match e.state {
                State::Reachable { mac, until } if now < until => Use::Send(mac, None),
                State::Reachable { mac, .. } | State::Stale { mac } => {
                    e.state = State::Probe { mac, tries: 1, next };
                    self.due_at(next);
                    Use::Send(mac, Some(Ask::Station(mac)))
                }
                State::Probe { mac, .. } | State::Permanent { mac } => Use::Send(mac, None),
                State::Incomplete { .. } => Use::Hold(None),
            };
        }
        // Whoever scans one link leaves the next as many (Choudhury and Hahne), and half of all to those that are known.
        let here = self.incomplete.get(&key.asked()).copied().unwrap_or_default();
        let all: usize = self.incomplete.values().sum();
        if here + all >= self.config.entries / 2 {
            return Use::Full;
        }
        self.make_room();
        let state = State::Incomplete { tries: 1, next };
        self.entries.insert(key, Entry { state, used: now, waiting: VecDeque::new() });
        *self.incomplete.entry(key.asked()).or_default() += 1;
        self.due_at(next);
        Use::Hold(Some(Ask::Everybody))
    }

    /// Keeps a frame for a neighbour that [`Use::Hold`] was said of. Gives back what can't be
    /// kept: the oldest when the neighbour's queue is full, this one when there is no room at all (`most`: for
    /// all neighbours, beside what the configuration says).
    pub fn hold(&mut self, key: Key, frame: Held, most: usize) -> Option<Held> {
        let Some(e) = self.entries.get_mut(&key) else { return Some(frame) };
        let oldest = match e.waiting.len() >= self.config.queue {
            true => e.waiting.pop_front(),
            false => None,
        };
        self.held -= usize::from(oldest.is_some());
        if self.held >= self.config.held.min(most) {
            return Some(frame);
        }
        e.waiting.push_back(frame);
        self.held += 1;
        oldest
    }

    /// When the table is full, the eighth that was used least recently makes room; all at once, so
    /// that the cost of finding them is shared by as many insertions.
    fn make_room(&mut self) {
        if self.entries.len() < self.config.entries {
            return;
        }
        let permanent = |e: &Entry| matches!(e.state, State::Permanent { .. });
        let known = |e: &Entry| e.state.mac().is_some() && !permanent(e);
        let mut used: Vec<Nanos> =
            self.entries.values().filter(|e| known(e)).map(|e| e.used).collect();
        let n = (used.len() / 8).min(used.len().saturating_sub(1));
        if used.is_empty() {
            return;
        }
        let limit = *used.select_nth_unstable(n).1;
        let mut gone = 0;
        self.entries.retain(|_, e| {
            let drop = known(e) && e.used <= limit && gone <= n;
            gone += usize::from(drop);
            !drop
        });
    }

    /// Something was heard from a neighbour: it has this MAC. Gives back the frames that waited
    /// for it.
    pub fn heard(
        &mut self,
        key: Key,
        mac: MacAddr,
        what: Heard,
        unknown: Unknown,
        now: Nanos,
    ) -> VecDeque<Held> {
        let until = now + self.config.reachable;
        if !self.entries.contains_key(&key) {
            if unknown == Unknown::Add {
                self.make_room();
                let (state, waiting) = (State::Stale { mac }, VecDeque::new());
                self.entries.insert(key, Entry { state, used: now, waiting });
                self.due_at(now + SWEEP);
            }
            return VecDeque::new();
        }
        let Some(e) = self.entries.get_mut(&key) else { return VecDeque::new() };
        if let (None, Some(n)) = (e.state.mac(), self.incomplete.get_mut(&key.asked())) {
            *n -= 1;
        }
        e.state = match what {
            _ if matches!(e.state, State::Permanent { .. }) => e.state,
            Heard::Answer => State::Reachable { mac, until },
            Heard::Unasked if e.state.mac() == Some(mac) => e.state,
            Heard::Unasked => State::Stale { mac },
        };
        let waiting = std::mem::take(&mut e.waiting);
        self.held -= waiting.len();
        waiting
    }

    /// The MAC that a neighbour has, as far as it is known.
    pub fn mac(&self, key: Key) -> Option<MacAddr> {
        self.entries.get(&key)?.state.mac()
    }
    /// Whether a neighbour has been asked for or is known.
    pub fn knows(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }
    /// Another MAC than the known one was heard of, which may not replace it (RFC 4861 §7.2.5):
    /// the known one is to be confirmed.
    pub fn doubt(&mut self, key: Key) {
        if let Some(e) = self.entries.get_mut(&key)
            && let State::Reachable { mac, .. } = e.state
        {
            e.state = State::Stale { mac };
        }
    }

    /// Forgets who was found on a link.
    pub fn forget(&mut self, iface: IfaceId) {
        let found =
            |e: &Entry| e.state.mac().is_some() && !matches!(e.state, State::Permanent { .. });
        self.entries.retain(|k, e| k.iface != iface || !found(e));
    }

    /// What has become due, in the order of the addresses.
    pub fn due(&mut self, now: Nanos) -> Vec<Due> {
        if now < self.next_due {
            return Vec::new();
        }
        let idle = self.config.idle;
        self.entries.retain(|_, e| {
            !(matches!(e.state, State::Reachable { .. } | State::Stale { .. })
                && now.since(e.used) >= idle)
        });
        let is_due = |e: &Entry| e.state.next().is_some_and(|t| t <= now);
        let mut keys: Vec<Key> =
            self.entries.iter().filter(|(_, e)| is_due(e)).map(|(k, _)| *k).collect();
        keys.sort_unstable();
        let due = keys.into_iter().filter_map(|k| self.retry(k, now)).collect();
        let next = self.entries.values().filter_map(|e| e.state.next()).min();
        self.next_due = next.unwrap_or(now + SWEEP).min(now + SWEEP).max(now + GRAIN);
        if self.entries.is_empty() {
            self.next_due = Nanos(u64::MAX);
        }
        due
    }

    fn retry(&mut self, key: Key, now: Nanos) -> Option<Due> {
        let (most, later) = (self.config.tries, now + self.config.retry);
        let e = self.entries.get_mut(&key)?;
        match &mut e.state {
            State::Incomplete { tries, next } if *tries < most => {
                *tries += 1;
                *next = later;
                Some(Due::Ask(key, Ask::Everybody))
            }
            State::Probe { mac, tries, next } if *tries < most => {
                *tries += 1;
                *next = later;
                Some(Due::Ask(key, Ask::Station(*mac)))
            }
            State::Incomplete { .. } | State::Probe { .. } => {
                let e = self.entries.remove(&key)?;
                if let (None, Some(n)) = (e.state.mac(), self.incomplete.get_mut(&key.asked())) {
                    *n -= 1;
                }
                self.held -= e.waiting.len();
                Some(Due::Failed(key, e.waiting))
            }
            State::Reachable { .. } | State::Stale { .. } | State::Permanent { .. } => None,
        }
    }

    /// Gives up every frame that waits, and forgets whom they waited for.
    pub fn release(&mut self) -> Vec<Held> {
        let mut all = Vec::with_capacity(self.held);
        for e in self.entries.values_mut() {
            all.extend(e.waiting.drain(..));
        }
        self.entries.retain(|_, e| e.state.mac().is_some());
        self.held = 0;
        self.incomplete.clear();
        all
    }

    /// Everybody, by link and address.
    pub fn rows(&self, now: Nanos) -> Vec<(Key, Option<MacAddr>, NeighbourState)> {
        let shown = |e: &Entry| match e.state {
            State::Incomplete { .. } => NeighbourState::Incomplete,
            State::Reachable { until, .. } if now < until => NeighbourState::Reachable,
            State::Reachable { .. } | State::Stale { .. } => NeighbourState::Stale,
            State::Probe { .. } => NeighbourState::Probe,
            State::Permanent { .. } => NeighbourState::Permanent,
        };
        let mut all: Vec<_> =
            self.entries.iter().map(|(k, e)| (*k, e.state.mac(), shown(e))).collect();
        all.sort_unstable_by_key(|r| r.0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Use(u8),
        Heard(u8, u8, bool),
        Doubt(u8),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => any::<u8>().prop_map(Step::Use),
            3 => any::<(u8, u8, bool)>().prop_map(|(k, m, answer)| Step::Heard(k, m, answer)),
            1 => any::<u8>().prop_map(Step::Doubt),
            2 => (1u64..20_000).prop_map(Step::Wait),
        ]
    }

    fn key(n: u8) -> Key {
        let addr = match n & 4 {
            0 => Ipv4Addr::new(192, 0, 2, n & 3).into(),
            _ => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(n & 3)).into(),
        };
        Key { iface: u16::from(n >> 7), addr }
    }

    proptest! {
        #[test]
        fn what_is_usable_is_what_would_be_resolved(steps in prop::collection::vec(step(), 1..80)) {
            let mac = |n: u8| MacAddr([2, 0, 0, 0, 0, n % 3]);
            let (mut quick, mut slow) =
                (Cache::new(NeighbourConfig::default()), Cache::new(NeighbourConfig::default()));
            for cache in [&mut quick, &mut slow] {
                cache.pin(key(0), mac(0));
            }
            let mut now = Nanos::from_secs(1);
            for s in steps {
                match s {
                    Step::Use(n) => {
                        let used = match quick.usable(key(n), now) {
                            Some(mac) => Use::Send(mac, None),
                            None => quick.resolve(key(n), now),
                        };
                        prop_assert_eq!(used, slow.resolve(key(n), now));
                    }
                    Step::Heard(n, m, answer) => {
                        let what = if answer { Heard::Answer } else { Heard::Unasked };
                        for cache in [&mut quick, &mut slow] {
                            cache.heard(key(n), mac(m), what, Unknown::Add, now);
                        }
                    }
                    Step::Doubt(n) => {
                        quick.doubt(key(n));
                        slow.doubt(key(n));
                    }
                    Step::Wait(ms) => {
                        now = now + Nanos::from_millis(ms);
                        prop_assert_eq!(quick.due(now).len(), slow.due(now).len());
                    }
                }
                prop_assert_eq!(quick.rows(now), slow.rows(now));
                let used = |c: &Cache| -> Vec<_> {
                    let mut all: Vec<_> = c.entries.iter().map(|(k, e)| (*k, e.used)).collect();
                    all.sort_unstable();
                    all
                };
                prop_assert_eq!(used(&quick), used(&slow));
            }
        }
    }
}
