//! The router's two routing tables, as frames look in them. Made from what `build.rs` has put together,
//! once; touches numbers only. Called by the packets' ways (`ipv4.rs`, `ipv6.rs`, `icmp.rs`).
//!
//! Both families are looked up by arrays (`programs/dir24.rs`): one or two accesses for IPv4, whatever the
//! number of routes; what is found there is a place in one list of targets. The tables of prefixes
//! that these were made from (`lpm.rs`) stay: they know single prefixes, and they are the judge.

use super::config::bits;
use super::lpm::Lpm;
use super::{Hop, Target};
use crate::program::Ahead;
use crate::programs::dir24::{Dir24, TooMany};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_classify::simd::prefetch_read;

/// Prefixes of both families.
#[derive(Debug)]
pub(super) struct Prefixes {
    pub v4: Lpm<Target>,
    pub v6: Lpm<Target>,
}

impl Prefixes {
    pub fn new() -> Self {
        Self { v4: Lpm::new(), v6: Lpm::new() }
    }
    pub fn table(&mut self, like: IpAddr) -> &mut Lpm<Target> {
        match like {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        }
    }
    /// What an address leads to, slowly.
    pub fn lookup(&self, addr: IpAddr) -> Option<Target> {
        let table = match addr {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        table.lookup(bits(addr)).copied()
    }
}

#[derive(Debug)]
pub(super) struct Routes {
    prefixes: Prefixes,
    v4: Dir24,
    v6: Dir24,
    /// Each once.
    targets: Vec<Target>,
    own: Sieve,
}

/// A bit for each of the router's own addresses and its networks' broadcast addresses, by its hash: most packets' sources
/// have none, and need not be looked for. Addresses of both families share it, and two may share a bit.
#[derive(Clone, Copy, Debug, Default)]
struct Sieve(u64);

impl Sieve {
    #[inline(always)]
    fn bit(addr: IpAddr) -> u64 {
        let word = match addr {
            IpAddr::V4(a) => u64::from(a.to_bits()),
            IpAddr::V6(a) => a.to_bits() as u64 ^ (a.to_bits() >> 64) as u64,
        };
        // The product's upper bits are the mixed ones: 2^64 divided by the golden ratio.
        1 << (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
    }
    fn add(&mut self, addr: IpAddr) {
        self.0 |= Self::bit(addr);
    }
    #[inline(always)]
    fn may_hold(self, addr: IpAddr) -> bool {
        self.0 & Self::bit(addr) != 0
    }
}

impl Routes {
    /// From all prefixes.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn new(prefixes: Prefixes) -> Result<Self, TooMany> {
        let (mut targets, mut known) = (Vec::new(), HashMap::new());
        let mut of = |lpm: &Lpm<Target>| {
            let value = |t: Target| {
                *known.entry(t).or_insert_with(|| {
                    targets.push(t);
                    (targets.len() - 1) as u32
                })
            };
            let mut value = value;
            Dir24::build(lpm.iter().map(|(bits, len, t)| (bits, len, value(*t))))
        };
        let (v4, v6) = (of(&prefixes.v4)?, of(&prefixes.v6)?);
        let mut own = Sieve::default();
        for (bits, len, target) in prefixes.v4.iter() {
            if len == 32 && matches!(target, Target::Local | Target::Broadcast(_)) {
                own.add(Ipv4Addr::from_bits((bits >> 96) as u32).into());
            }
        }
        for (bits, len, target) in prefixes.v6.iter() {
            if len == 128 && *target == Target::Local {
                own.add(Ipv6Addr::from_bits(bits).into());
            }
        }
        Ok(Self { prefixes, v4, v6, targets, own })
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.prefixes.v4.len() + self.prefixes.v6.len()
    }

    /// What an address leads to.
    pub fn lookup(&self, addr: IpAddr) -> Option<Target> {
        match addr {
            IpAddr::V4(a) => self.lookup_v4(a),
            IpAddr::V6(a) => self.lookup_v6(a),
        }
        .copied()
    }

    /// What an IPv4 address leads to, for packets on their way.
    #[inline(always)]
    pub fn lookup_v4(&self, addr: Ipv4Addr) -> Option<&Target> {
        self.targets.get(self.v4.lookup_v4(addr.to_bits())? as usize)
    }

    /// The same of an IPv6 address.
    #[inline(always)]
    pub fn lookup_v6(&self, addr: Ipv6Addr) -> Option<&Target> {
        self.targets.get(self.v6.lookup_v6(addr.to_bits())? as usize)
    }

    /// Asks for what [`Routes::lookup`] will read of an IPv4 address's way: its first step.
    #[inline]
    pub fn expect_v4(&self, addr: u32) {
        self.v4.expect_v4(addr);
    }

    /// Whether what is behind that step lies farther away.
    #[inline]
    pub fn ahead_v4(&self) -> Ahead {
        Ahead::of(self.v4.bytes_behind() + size_of_val(&*self.targets))
    }

    /// Asks for what an IPv4 address leads to, where its first step is near.
    #[inline]
    pub fn expect_target_v4(&self, addr: u32) {
        if let Some(t) = self.v4.lookup_v4(addr).and_then(|at| self.targets.get(at as usize)) {
            prefetch_read(t);
        }
    }

    /// The same for IPv6, whose steps depend on each other: they are taken, for several packets at
    /// once as far as the core looks ahead.
    #[inline]
    pub fn expect_v6(&self, bits: u128) {
        if let Some(t) = self.v6.lookup_v6(bits).and_then(|at| self.targets.get(at as usize)) {
            prefetch_read(t);
        }
    }

    /// Whether an address is the router's own, link-local ones aside.
    #[inline(always)]
    pub fn is_own(&self, addr: IpAddr) -> bool {
        self.own.may_hold(addr) && self.owns(addr)
    }

    /// Whether no packet from elsewhere can have this source: the router's own addresses, and the broadcast addresses of its
    /// links' networks in both forms (RFC 1812 §5.3.7, §4.2.2.11(d)).
    #[inline(always)]
    pub fn is_no_source_v4(&self, addr: Ipv4Addr) -> bool {
        self.own.may_hold(addr.into()) && self.is_own_or_all(addr)
    }

    #[inline(never)]
    fn is_own_or_all(&self, addr: Ipv4Addr) -> bool {
        matches!(self.exactly(addr.into()), Some(Target::Local | Target::Broadcast(_)))
    }

    #[inline(never)]
    fn owns(&self, addr: IpAddr) -> bool {
        self.exactly(addr) == Some(&Target::Local)
    }

    /// What this address alone leads to.
    fn exactly(&self, addr: IpAddr) -> Option<&Target> {
        let (table, len) = match addr {
            IpAddr::V4(_) => (&self.prefixes.v4, 32),
            IpAddr::V6(_) => (&self.prefixes.v6, 128),
        };
        table.get(bits(addr), len)
    }

    /// The next hop of a packet that the router itself sends to `addr`.
    pub fn hop(&self, addr: IpAddr) -> Option<Hop> {
        match self.lookup(addr)? {
            Target::Connected(iface) => Some(Hop { iface, next: addr }),
            Target::Gateway(hop) => Some(hop),
            Target::Local | Target::Broadcast(_) | Target::Discard => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn arrays_say_what_the_prefixes_say(
            all in prop::collection::vec((any::<u8>(), any::<u8>(), 0u8..=128, 0u16..5), 0..30),
            asked in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u64>()), 1..60),
        ) {
            // Few first bytes, the rest far behind.
            let v4 = |a: u8, b: u8| Ipv4Addr::new(10 + a % 2, a & 0x80, 0, b);
            let v6 = |a: u8, b: u8| Ipv6Addr::new(0x2001, 0xd00 | u16::from(a), 0, u16::from(b), 0, 0, 0, u16::from(a));
            let mut p = Prefixes::new();
            for (a, b, len, port) in all {
                p.v4.insert(bits(v4(a, b).into()), len % 33, Target::Connected(port));
                p.v6.insert(bits(v6(a, b).into()), len, Target::Connected(port));
                if port == 4 {
                    p.v4.insert(bits(v4(a, b).into()), 32, Target::Local);
                    p.v6.insert(bits(v6(a, b).into()), 128, Target::Local);
                }
                if port == 3 {
                    p.v4.insert(bits(v4(a, b).into()), 32, Target::Broadcast(port));
                }
            }
            let r = Routes::new(p).unwrap();
            for (a, b, noise) in asked {
                let near = Ipv6Addr::from_bits(v6(a, b).to_bits() | u128::from(noise & 0xff));
                for addr in [IpAddr::V4(v4(a, b)), v6(a, b).into(), near.into()] {
                    prop_assert_eq!(r.lookup(addr), r.prefixes.lookup(addr), "{}", addr);
                    prop_assert_eq!(r.is_own(addr), r.owns(addr), "{}", addr);
                    if let IpAddr::V4(a) = addr {
                        prop_assert_eq!(r.is_no_source_v4(a), r.is_own_or_all(a), "{}", a);
                    }
                }
            }
        }
    }
}
