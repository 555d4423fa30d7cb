//! A router's routes and neighbours as they are, and the rules by which a data plane does what they say.
//!
//! Room: plain data and arithmetic. `netlink` fills it, `follow` turns its rules into a VDP's.
//!
//! Longest prefix first is said by priorities, so a rule stands for each route. One whose next hop can't be
//! forwarded to, since its MAC address is not known or since it is the router itself, sends frames *up*, to
//! the router's own kernel, where a shorter prefix would forward them (RFC 1812 §5.2.4.3).

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_wire::MacAddr;

/// An address and how many of its bits count, from the left; the others are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// Bits of an address, and the address as a number of as many bits.
fn number(a: IpAddr) -> (u8, u128) {
    match a {
        IpAddr::V4(a) => (32, u32::from(a).into()),
        IpAddr::V6(a) => (128, a.into()),
    }
}

impl Prefix {
    /// The prefix that an address begins with; `len` beyond the address is all of it.
    pub fn new(addr: IpAddr, len: u8) -> Self {
        let (width, n) = number(addr);
        let len = len.min(width);
        let n = n.checked_shr(u32::from(width - len)).unwrap_or(0);
        let n = n.checked_shl(u32::from(width - len)).unwrap_or(0);
        let addr = match addr {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(n).unwrap_or(0).into()),
            IpAddr::V6(_) => IpAddr::V6(n.into()),
        };
        Self { addr, len }
    }
    /// An address alone.
    pub fn host(addr: IpAddr) -> Self {
        Self::new(addr, u8::MAX)
    }
    /// Its address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }
    /// Its length in bits.
    pub fn len(&self) -> u8 {
        self.len
    }
    /// The prefixes that it lies in, itself first, the shortest last.
    pub fn within(self) -> impl Iterator<Item = Prefix> {
        (0..=self.len).rev().map(move |n| Prefix::new(self.addr, n))
    }
}

/// A way to the next router, or to the destination itself where there is no gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface's index in the router's namespace.
    pub link: u32,
    /// The next router.
    pub gateway: Option<IpAddr>,
}

/// What becomes of frames to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// They go on by one of these.
    Via(Vec<Hop>),
    /// They are the router's own to handle: its addresses, broadcasts, what it refuses.
    Itself,
}

/// Which of two tables; the local one is asked first (ip-rule(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Routes.
    Main,
    /// The router's own addresses.
    Local,
}

/// Routes and neighbours of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fib {
    routes: BTreeMap<(Table, Prefix), (u32, To)>,
    neighbours: BTreeMap<(u32, IpAddr), MacAddr>,
}

/// What a rule does with frames to its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// To this neighbour, by the port of this interface.
    Forward {
        /// The interface's index.
        link: u32,
        /// The neighbour's address.
        mac: MacAddr,
    },
    /// Up to the router's kernel.
    Up,
}

/// Rules by table and prefix: of those that a destination is in, the one of the local table wins, then the
/// longer one. What no rule takes goes up.
pub type Rules = BTreeMap<(Table, Prefix), Then>;

impl Fib {
    /// Adds a route. Of two to one prefix that of the lower metric counts.
    pub fn route(&mut self, table: Table, to: Prefix, metric: u32, how: To) {
        let there = self.routes.get(&(table, to));
        if there.is_none_or(|(m, _)| metric < *m) {
            self.routes.insert((table, to), (metric, how));
        }
    }

    /// Adds a route that is for some of the traffic to its prefix, by source or type of service: all of it is the router's own to handle.
    pub fn route_of_some(&mut self, table: Table, to: Prefix) {
        // Of no metric another is lower.
        self.routes.insert((table, to), (0, To::Itself));
    }

    /// Adds a neighbour whose MAC address is known.
    pub fn neighbour(&mut self, link: u32, addr: IpAddr, mac: MacAddr) {
        self.neighbours.insert((link, addr), mac);
    }

    /// How many routes there are.
    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    /// The rules, for interfaces that the data plane has a port for.
    pub fn rules(&self, has_port: impl Fn(u32) -> bool) -> Rules {
        let mut rules = Rules::new();
        for (key, (_, to)) in &self.routes {
            let way = match to {
                To::Itself => None,
                To::Via(hops) => {
                    hops.iter().find_map(|h| self.way(*h).filter(|_| has_port(h.link)))
                }
            };
            rules.insert(*key, way.unwrap_or(Then::Up));
        }
        // Neighbours are hosts of their own where a route says that they are reached directly.
        for ((link, addr), mac) in self.neighbours.iter().filter(|((l, _), _)| has_port(*l)) {
            let host = Prefix::host(*addr);
            let direct = |to: &To| matches!(to, To::Via(hops) if hops.iter().any(|h| h.link == *link && h.gateway.is_none()));
            let found = host.within().find_map(|p| self.routes.get(&(Table::Main, p)));
            if found.is_some_and(|(_, to)| direct(to)) {
                rules.insert((Table::Main, host), Then::Forward { link: *link, mac: *mac });
            }
        }
        // What goes up needs a rule only where another would forward it.
        let needed = |(table, prefix): (Table, Prefix), then: Then| {
            then != Then::Up || shadowed(&rules, table, prefix)
        };
        rules.iter().filter(|(k, t)| needed(**k, **t)).map(|(k, t)| (*k, *t)).collect()
    }

    fn way(&self, h: Hop) -> Option<Then> {
        let mac = self.neighbours.get(&(h.link, h.gateway?))?;
        Some(Then::Forward { link: h.link, mac: *mac })
    }
}

/// Whether a rule that comes later in the search would forward frames of a rule's prefix.
fn shadowed(rules: &Rules, table: Table, prefix: Prefix) -> bool {
    let forwards = |t: Table, p: Prefix| matches!(rules.get(&(t, p)), Some(Then::Forward { .. }));
    let shorter = prefix.within().skip(1).any(|p| forwards(table, p));
    // Of the main table also what lies inside a local prefix comes later.
    let main = || {
        prefix.within().any(|p| forwards(Table::Main, p))
            || rules.iter().any(|((t, p), then)| {
                *t == Table::Main && *then != Then::Up && p.within().any(|q| q == prefix)
            })
    };
    shorter || (table == Table::Local && main())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(n: u8) -> IpAddr {
        // Few addresses, so that prefixes meet.
        IpAddr::from([10, 0, 0, n])
    }

    /// What a kernel does: the local table first, in each the longest prefix.
    fn slow(fib: &Fib, to: IpAddr) -> Then {
        for table in [Table::Local, Table::Main] {
            let best = fib
                .routes
                .iter()
                .filter(|((t, p), _)| *t == table && Prefix::new(to, p.len) == *p)
                .max_by_key(|((_, p), _)| p.len);
            let Some((_, (_, how))) = best else { continue };
            let To::Via(hops) = how else { return Then::Up };
            for h in hops {
                let next = h.gateway.unwrap_or(to);
                if let Some(mac) = fib.neighbours.get(&(h.link, next)) {
                    return Then::Forward { link: h.link, mac: *mac };
                }
            }
            return Then::Up;
        }
        Then::Up
    }

    fn fast(rules: &Rules, to: IpAddr) -> Then {
        let hit = rules.iter().filter(|((_, p), _)| Prefix::new(to, p.len) == *p);
        hit.max_by_key(|((t, p), _)| (*t, p.len)).map_or(Then::Up, |(_, t)| *t)
    }

    proptest! {
        /// The rules forward exactly what the routes say.
        #[test]
        fn rules_do_what_routes_say(
            routes in prop::collection::vec((any::<bool>(), any::<u8>(), 20u8..=32, 0u32..3, 1u32..3, prop::option::of(any::<u8>()), any::<bool>()), 0..12),
            neighbours in prop::collection::vec((1u32..3, any::<u8>()), 0..12),
            asked in prop::collection::vec(any::<u8>(), 1..32),
        ) {
            let mut fib = Fib::default();
            for (local, n, len, metric, link, gateway, itself) in routes {
                let how = match local || itself {
                    true => To::Itself,
                    false => To::Via(vec![Hop { link, gateway: gateway.map(v4) }]),
                };
                let table = if local { Table::Local } else { Table::Main };
                fib.route(table, Prefix::new(v4(n), len), metric, how);
            }
            for (link, n) in neighbours {
                fib.neighbour(link, v4(n), MacAddr([2, 0, 0, 0, link as u8, n]));
            }
            let rules = fib.rules(|_| true);
            for n in asked {
                prop_assert_eq!(fast(&rules, v4(n)), slow(&fib, v4(n)), "to {} by {:?}", n, rules);
            }
        }
    }

    #[test]
    fn a_prefix_has_no_bits_beyond_its_length() {
        let p = Prefix::new("10.1.2.3".parse().unwrap(), 8);
        assert_eq!(p, Prefix::new("10.0.0.0".parse().unwrap(), 8));
        assert_eq!(
            Prefix::new("fe80::1".parse().unwrap(), 0).addr(),
            "::".parse::<IpAddr>().unwrap()
        );
        assert_eq!(Prefix::host("10.1.2.3".parse().unwrap()).len(), 32);
        assert_eq!(p.within().count(), 9);
    }

    #[test]
    fn a_prefix_with_a_route_of_some_goes_up() {
        let to = Prefix::new("10.1.0.0".parse().unwrap(), 16);
        let all = Prefix::new("0.0.0.0".parse().unwrap(), 0);
        let via = |n| To::Via(vec![Hop { link: 1, gateway: Some(v4(n)) }]);
        for order in [[0, 1], [1, 0]] {
            let mut fib = Fib::default();
            fib.route(Table::Main, all, 0, via(1));
            for step in order {
                match step {
                    0 => fib.route(Table::Main, to, 0, via(2)),
                    _ => fib.route_of_some(Table::Main, to),
                }
            }
            for n in [1, 2] {
                fib.neighbour(1, v4(n), MacAddr([2, 0, 0, 0, 0, n]));
            }
            let rules = fib.rules(|_| true);
            assert_eq!(rules.get(&(Table::Main, to)), Some(&Then::Up), "{order:?}");
        }
    }
    #[test]
    fn an_unresolved_longer_prefix_goes_up() {
        let mut fib = Fib::default();
        let (near, far) = (v4(1), v4(2));
        let to = |len| Prefix::new("192.168.0.0".parse().unwrap(), len);
        let via = |g| To::Via(vec![Hop { link: 1, gateway: Some(g) }]);
        fib.route(Table::Main, to(8), 0, via(near));
        fib.route(Table::Main, to(16), 0, via(far));
        fib.neighbour(1, near, MacAddr([2, 0, 0, 0, 0, 1]));
        let rules = fib.rules(|_| true);
        assert_eq!(rules.get(&(Table::Main, to(16))), Some(&Then::Up));
        // Without the shorter one there is nothing to be kept from.
        let mut alone = Fib::default();
        alone.route(Table::Main, to(16), 0, via(far));
        assert!(alone.rules(|_| true).is_empty());
    }
}
