//! The NAT's mappings: internal endpoint to external one and back, one to one. Touches numbers
//! only. Called by `mod.rs`, once or twice for each packet.
//!
//! External endpoints are places in one array: by address, protocol and port. So a packet from
//! outside finds its mapping by an index, one from inside by a hash table that names the place.
//! Ports that are free wait in a queue for each address and protocol: what was given back last is
//! given out last, so that a mapping's late packets meet nobody else's for as long as possible. The
//! queue is shuffled at first, so that ports can't be foretold (RFC 6056).
//!
//! Everything is allocated at the beginning.

use super::config::{NatConfig, NatTimeouts, PortOrder};
use crate::program::Ahead;
use crate::programs::connection::age::{Limit, Stamp};
use crate::programs::connection::reset::Acked;
use crate::programs::connection::{Endpoint, Kind};
use crate::programs::exact::Exact;
use crate::programs::hash::{fold, fresh_seed};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_classify::simd::prefetch_read;
use weir_wire::MacAddr;
use weir_wire::tcp::Flags;

/// A mapping's place in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// What is remembered of TCP's connections that share a mapping: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tcp(u8);

impl Tcp {
    /// Both sides have spoken.
    const OPEN: u8 = 1;
    /// Who has said FIN.
    const FIN_OUT: u8 = 2;
    const FIN_IN: u8 = 4;
    /// Somebody has said RST.
    const RESET: u8 = 8;
    /// There was another connection: none of them can be said to be closed.
    const MANY: u8 = 16;
    /// Inside has acknowledged something to its first peer.
    const ACKED: u8 = 32;

    #[inline]
    fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
    #[inline]
    fn note(&mut self, bits: u8, when: bool) {
        self.0 |= if when { bits } else { 0 };
    }
    #[inline]
    fn is_open(self) -> bool {
        let closed = self.has(Self::RESET) || self.has(Self::FIN_OUT | Self::FIN_IN);
        self.has(Self::OPEN) && (self.has(Self::MANY) || !closed)
    }
}

/// One mapping: half a line of cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Mapping {
    /// The internal endpoint; 0, which is nobody's, while the place is free.
    inside: u64,
    seen: Stamp,
    /// Who sent its last packet, on the link inside.
    mac: [u8; 6],
    /// The outside end of TCP's first connection; [`NOBODY`] before there is one.
    peer: [u8; 6],
    /// What inside acknowledged to it last.
    acked: Acked,
    tcp: Tcp,
    /// Its external port, and which address and protocol that is of: the place says it, too, by divisions.
    port: u16,
    queue: u16,
}

const _: () = assert!(size_of::<Mapping>() == 32);

const NOBODY: [u8; 6] = [0; 6];

/// An endpoint in as few bytes as it has.
#[inline(always)]
const fn short(e: Endpoint) -> [u8; 6] {
    let [_, _, a, b, c, d, e, f] = e.word().to_be_bytes();
    [a, b, c, d, e, f]
}

/// Why there is no mapping for a new endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// As many as there may be.
    Full,
    /// No port of its address is free.
    NoPort,
}

/// Where a packet from inside stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Out {
    pub external: Endpoint,
    /// The mapping was made for this packet.
    pub new: bool,
}

#[derive(Debug)]
pub(super) struct Mappings {
    by_inside: Exact<u64, u32, 4>,
    places: Vec<Mapping>,
    /// Free ports, by address and protocol.
    free: Vec<VecDeque<u16>>,
    addresses: Addresses,
    first_port: u16,
    /// Ports of each address and protocol.
    span: usize,
    limits: Limits,
    hand: usize,
}

/// External addresses, in the order given.
#[derive(Debug)]
struct Addresses {
    all: Vec<Ipv4Addr>,
    least: u32,
    /// From the least to the greatest.
    reach: u32,
}

impl Addresses {
    fn new(all: &[Ipv4Addr]) -> Self {
        let bits = || all.iter().map(|a| a.to_bits());
        let least = bits().min().unwrap_or_default();
        let reach = bits().max().map_or(0, |greatest| greatest - least);
        Self { all: all.to_vec(), least, reach }
    }
    /// The place of an address, if it is one of these: few packets' are.
    #[inline(always)]
    fn place(&self, a: Ipv4Addr) -> Option<usize> {
        let at = a.to_bits().wrapping_sub(self.least);
        if at > self.reach {
            return None;
        }
        // Mostly they follow each other.
        match self.all.get(at as usize) {
            Some(x) if *x == a => Some(at as usize),
            _ => self.all.iter().position(|x| *x == a),
        }
    }
    /// A mapping's external endpoint.
    #[inline]
    fn endpoint(&self, m: &Mapping) -> Option<Endpoint> {
        let address = self.all.get(usize::from(m.queue) / Kind::ALL.len())?;
        Some(Endpoint::new(*address, m.port))
    }
}

#[derive(Debug)]
struct Limits {
    udp: Limit,
    tcp_open: Limit,
    tcp_transitory: Limit,
    query: Limit,
}

impl Limits {
    fn new(t: NatTimeouts) -> Self {
        Self {
            udp: Limit::of(t.udp),
            tcp_open: Limit::of(t.tcp_open),
            tcp_transitory: Limit::of(t.tcp_transitory),
            query: Limit::of(t.query),
        }
    }
    #[inline]
    fn of(&self, kind: Kind, m: &Mapping) -> Limit {
        match kind {
            Kind::Udp => self.udp,
            Kind::Query => self.query,
            Kind::Tcp if m.tcp.is_open() => self.tcp_open,
            Kind::Tcp => self.tcp_transitory,
        }
    }
    /// Whether a mapping's time is over.
    #[inline(always)]
    fn are_over(&self, kind: Kind, m: &Mapping, now: Stamp) -> bool {
        m.seen.is_older(self.of(kind, m), now)
    }
}

#[inline]
fn inside_key(e: Endpoint, kind: Kind) -> u64 {
    e.word() << 8 | kind as u64
}

impl Mappings {
    pub fn new(c: &NatConfig) -> Self {
        let (span, kinds) = (c.ports.len(), Kind::ALL.len());
        let mut random = fresh_seed();
        let mut order = || {
            let mut ports: Vec<u16> = c.ports.clone().collect();
            if c.port_order == PortOrder::Shuffled {
                for i in (1..ports.len()).rev() {
                    random = fold(random, 0x2545_f491_4f6c_dd1d).wrapping_add(i as u64);
                    ports.swap(i, (random % (i as u64 + 1)) as usize);
                }
            }
            VecDeque::from(ports)
        };
        let queues = c.addresses.len() * kinds;
        Self {
            by_inside: Exact::new(c.max_mappings),
            places: vec![Mapping::default(); queues * span],
            free: (0..queues).map(|_| order()).collect(),
            addresses: Addresses::new(&c.addresses),
            first_port: *c.ports.start(),
            span,
            limits: Limits::new(c.timeouts),
            hand: 0,
        }
    }

    /// Makes the mappings of `before` its own whose external endpoints it has. Their times are its own.
    pub fn take_over(&mut self, mut before: Self) {
        let shape = |m: &Self| (m.addresses.all.clone(), m.first_port, m.span, m.most());
        if shape(self) == shape(&before) {
            std::mem::swap(&mut self.limits, &mut before.limits);
            *self = before;
            return;
        }
        let mut taken = vec![false; self.places.len()];
        for m in before.places.iter().filter(|m| m.inside != 0) {
            let Some(kind) = Kind::ALL.get(usize::from(m.queue) % Kind::ALL.len()) else {
                continue;
            };
            let key = inside_key(Endpoint::from_word(m.inside), *kind);
            let external = before.addresses.endpoint(m);
            if let Some(place) = external.and_then(|e| self.place_of(e, *kind))
                && self.by_inside.insert(key, place as u32).is_ok()
            {
                self.places[place] = Mapping { queue: (place / self.span) as u16, ..*m };
                taken[place] = true;
            }
        }
        for (free, taken) in self.free.iter_mut().zip(taken.chunks(self.span)) {
            free.retain(|port| !taken[usize::from(*port - self.first_port)]);
        }
    }

    pub fn len(&self) -> usize {
        self.by_inside.len()
    }
    pub fn most(&self) -> usize {
        self.by_inside.capacity()
    }

    /// Whether an address is one of the external ones, and which.
    #[inline(always)]
    pub fn address(&self, a: Ipv4Addr) -> Option<usize> {
        self.addresses.place(a)
    }

    #[inline]
    fn is_dead(&self, m: &Mapping, kind: Kind, now: Stamp) -> bool {
        self.limits.are_over(kind, m, now)
    }

    /// The mapping of an internal endpoint, made if there is none; its time begins again.
    ///
    /// # Errors
    /// [`Refused`].
    #[inline(always)]
    pub fn outward(
        &mut self,
        inside: Endpoint,
        kind: Kind,
        from: MacAddr,
        now: Stamp,
    ) -> Result<(Place, Out), Refused> {
        let key = inside_key(inside, kind);
        let (place, new) = match self.by_inside.get(&key) {
            Some(p) => (*p, false),
            None => (self.make(inside, kind, key)?, true),
        };
        let Some(m) = self.places.get_mut(place as usize) else { return Err(Refused::NoPort) };
        let external = self.addresses.endpoint(m).ok_or(Refused::NoPort)?;
        // One that is over begins anew, at the same port.
        let fresh = new || self.limits.are_over(kind, m, now);
        if fresh {
            (m.tcp, m.peer) = (Tcp::default(), NOBODY);
        }
        (m.seen, m.mac) = (now, from.octets());
        Ok((Place(place), Out { external, new: fresh }))
    }

    #[inline(never)]
    fn make(&mut self, inside: Endpoint, kind: Kind, key: u64) -> Result<u32, Refused> {
        if self.by_inside.len() >= self.by_inside.capacity() {
            return Err(Refused::Full);
        }
        // A host has one external address for all it does (RFC 4787 REQ-2); neighbours have others.
        let address = inside.addr.to_bits() as usize % self.addresses.all.len().max(1);
        let queue = address * Kind::ALL.len() + kind as usize;
        let port = self.free.get_mut(queue).and_then(VecDeque::pop_front);
        let port = port.ok_or(Refused::NoPort)?;
        let place = (queue * self.span + usize::from(port - self.first_port)) as u32;
        self.by_inside.insert(key, place).map_err(|_| Refused::Full)?;
        if let Some(m) = self.places.get_mut(place as usize) {
            *m = Mapping { inside: inside.word(), port, queue: queue as u16, ..Mapping::default() };
        }
        Ok(place)
    }

    /// The mapping of an internal endpoint, if there is one. Nothing is renewed.
    pub fn external_of(&self, inside: Endpoint, kind: Kind, now: Stamp) -> Option<Endpoint> {
        let place = *self.by_inside.get(&inside_key(inside, kind))?;
        let m = self.places.get(place as usize)?;
        (!self.is_dead(m, kind, now)).then(|| self.addresses.endpoint(m))?
    }

    /// The place of an external endpoint, if it is one.
    #[inline(always)]
    fn place_of(&self, external: Endpoint, kind: Kind) -> Option<usize> {
        let queue = self.address(external.addr)? * Kind::ALL.len() + kind as usize;
        let port = usize::from(external.port.checked_sub(self.first_port)?);
        (port < self.span).then_some(queue * self.span + port)
    }

    /// Asks for the line that [`Mappings::outward`] will read first.
    #[inline]
    pub fn expect_outward(&self, inside: Endpoint, kind: Kind) {
        self.by_inside.prefetch(self.by_inside.hash(&inside_key(inside, kind)));
    }

    /// Whether mappings lie farther away than what leads to them from inside.
    #[inline]
    pub fn ahead(&self) -> Ahead {
        Ahead::of(self.by_inside.len() * size_of::<Mapping>())
    }

    /// Asks for the mapping of an internal endpoint, where what leads to it is near.
    #[inline]
    pub fn expect_mapping(&self, inside: Endpoint, kind: Kind) {
        if let Some(place) = self.by_inside.get(&inside_key(inside, kind))
            && let Some(m) = self.places.get(*place as usize)
        {
            prefetch_read(m);
        }
    }

    /// Asks for the line that [`Mappings::inward`] will read.
    #[inline]
    pub fn expect_inward(&self, external: Endpoint, kind: Kind) {
        if let Some(m) = self.place_of(external, kind).and_then(|p| self.places.get(p)) {
            prefetch_read(m);
        }
    }

    /// The mapping at an external endpoint, and whom a frame there goes to. Nothing is renewed.
    #[inline(always)]
    pub fn inward(
        &self,
        external: Endpoint,
        kind: Kind,
        now: Stamp,
    ) -> Option<(Place, Endpoint, MacAddr)> {
        let place = self.place_of(external, kind)?;
        let m = self.places.get(place)?;
        let there = m.inside != 0 && !self.is_dead(m, kind, now);
        there.then(|| (Place(place as u32), Endpoint::from_word(m.inside), MacAddr(m.mac)))
    }

    /// A segment from inside to its destination. Its reset is believed: who can send in a host's name on the link inside can have what
    /// comes for it, too.
    #[inline]
    pub fn tcp_out(&mut self, at: Place, to: Endpoint, flags: Flags, segment: &[u8]) {
        let Some(m) = self.places.get_mut(at.0 as usize) else { return };
        let peer = short(to);
        let begins = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        if begins && !m.tcp.is_open() {
            // The first, or the next after one that is closed.
            (m.tcp, m.peer) = (Tcp::default(), peer);
        } else if m.peer == NOBODY {
            m.peer = peer;
        }
        if m.peer == peer && flags.contains(Flags::ACK) {
            m.acked = Acked::of(segment);
            m.tcp.note(Tcp::ACKED, true);
        }
        m.tcp.note(Tcp::MANY, m.peer != peer);
        m.tcp.note(Tcp::FIN_OUT, flags.contains(Flags::FIN));
        m.tcp.note(Tcp::RESET, flags.contains(Flags::RST));
    }

    /// A segment from outside; it renews the mapping (TCP alone is renewed from outside: RFC 4787
    /// REQ-6 has it as a choice, and whoever knows a port could keep it for ever). A reset that can't be the peer's own changes nothing.
    #[inline]
    pub fn tcp_in(&mut self, at: Place, from: Endpoint, flags: Flags, segment: &[u8], now: Stamp) {
        let Some(m) = self.places.get_mut(at.0 as usize) else { return };
        if m.peer != short(from) {
            return;
        }
        if flags.contains(Flags::RST) {
            if m.tcp.has(Tcp::OPEN | Tcp::ACKED) && !m.acked.admits(segment) {
                return;
            }
            m.tcp.note(Tcp::RESET, true);
        }
        m.tcp.note(Tcp::OPEN, !flags.contains(Flags::RST));
        m.tcp.note(Tcp::FIN_IN, flags.contains(Flags::FIN));
        m.seen = now;
    }

    /// Looks at some of the places, and frees those whose time is over; says how many.
    pub fn sweep(&mut self, parts: usize, now: Stamp) -> usize {
        let mut freed = 0;
        for _ in 0..self.places.len().div_ceil(parts.max(1)) {
            let at = self.hand;
            self.hand = if at + 1 >= self.places.len() { 0 } else { at + 1 };
            let Some(m) = self.places.get(at) else { continue };
            let Mapping { inside, port, queue, .. } = *m;
            let kind = Kind::ALL[usize::from(queue) % Kind::ALL.len()];
            if inside == 0 || !self.is_dead(m, kind, now) {
                continue;
            }
            self.by_inside.remove(&inside_key(Endpoint::from_word(inside), kind));
            if let Some(m) = self.places.get_mut(at) {
                m.inside = 0;
            }
            if let Some(q) = self.free.get_mut(usize::from(queue)) {
                q.push_back(port);
            }
            freed += 1;
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_is_found_where_it_was_given(
            all in prop::collection::hash_set(0u32..300, 1..40),
            base in prop_oneof![Just(0u32), any::<u32>(), Just(u32::MAX - 150)],
            asked in 0u32..300,
        ) {
            let of = |n: u32| Ipv4Addr::from_bits(base.wrapping_add(n));
            let given: Vec<_> = all.into_iter().map(of).collect();
            let addresses = Addresses::new(&given);
            for (at, a) in given.iter().enumerate() {
                prop_assert_eq!(addresses.place(*a), Some(at));
            }
            let a = of(asked);
            prop_assert_eq!(addresses.place(a), given.iter().position(|x| *x == a));
        }

        #[test]
        fn addresses_in_a_row_are_found(base in any::<u32>(), n in 1u32..256) {
            let given: Vec<_> = (0..n).map(|i| Ipv4Addr::from_bits(base.wrapping_add(i))).collect();
            let addresses = Addresses::new(&given);
            for (at, a) in given.iter().enumerate() {
                prop_assert_eq!(addresses.place(*a), Some(at));
            }
            prop_assert_eq!(addresses.place(Ipv4Addr::from_bits(base.wrapping_add(n))), None);
        }
    }
}
