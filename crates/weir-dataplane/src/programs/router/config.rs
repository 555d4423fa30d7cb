//! What a router is told: interfaces, routes, limits; and the checks that make it sound before a
//! frame is seen. Plain data: reading it from a file is somebody else's. Called by `mod.rs`.

use crate::action::PortNo;
use crate::programs::said::IcmpLimit;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// The least MTU of a link that carries IPv4 (RFC 791 §3.2).
pub const MIN_MTU_V4: u16 = 68;
/// The least MTU of a link that carries IPv6 (RFC 8200 §5).
pub const MIN_MTU_V6: u16 = 1280;

/// An address and the length of its network's prefix; or, as a route's target, a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The address.
    pub addr: IpAddr,
    /// Bits of it that are the network's: to 32 or 128.
    pub len: u8,
}

impl Prefix {
    /// Of these parts.
    pub const fn new(addr: IpAddr, len: u8) -> Self {
        Self { addr, len }
    }
    pub(super) const fn width(&self) -> u8 {
        width(self.addr)
    }
    /// The network: the address with every bit behind the prefix zero.
    pub fn network(&self) -> IpAddr {
        masked(self.addr, self.len)
    }
    /// Whether an address of the same family is in this network.
    pub fn contains(&self, addr: IpAddr) -> bool {
        width(addr) == self.width() && masked(addr, self.len) == self.network()
    }
    /// The address with every bit behind the prefix one.
    pub(super) fn last(&self) -> IpAddr {
        from_bits(bits(self.addr) | !mask(self.len), self.addr)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// Text that is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not an address with its prefix length, as in 192.0.2.1/24 or 2001:db8::1/64")]
pub struct ParsePrefixError(String);

impl FromStr for Prefix {
    type Err = ParsePrefixError;
    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let parse = || {
            let (addr, len) = text.split_once('/')?;
            let p = Self { addr: addr.parse().ok()?, len: len.parse().ok()? };
            (p.len <= p.width()).then_some(p)
        };
        parse().ok_or_else(|| ParsePrefixError(text.chars().take(64).collect()))
    }
}

const fn width(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// An address's bits, the first one uppermost.
pub(super) fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits((bits >> 96) as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

/// The first `len` bits.
pub(super) fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

fn masked(addr: IpAddr, len: u8) -> IpAddr {
    from_bits(bits(addr) & mask(len), addr)
}

/// fe80::/10.
pub(super) const fn is_link_local(a: Ipv6Addr) -> bool {
    a.segments()[0] & 0xffc0 == 0xfe80
}

/// One of the router's links. It speaks IPv4 or IPv6 when it has an address of that family; with
/// IPv6 it also has a link-local address, made from its MAC (RFC 4291 appendix A) unless given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The VDP's port that leads there. An interface is untagged; one per port.
    pub port: PortNo,
    /// Its own MAC address.
    pub mac: MacAddr,
    /// Its own addresses, each with its network's prefix length.
    pub addresses: Vec<Prefix>,
    /// The longest IP packet to send, in bytes; if unset, what the port takes.
    pub mtu: Option<u16>,
}

/// Where packets for a network go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// To this router, which is in a network of one of the interfaces.
    Gateway(IpAddr),
    /// To this router by this port: for link-local addresses.
    GatewayOn(IpAddr, PortNo),
    /// Straight to the destination, by this port.
    OnLink(PortNo),
    /// Nowhere, without a word.
    Discard,
}

/// A static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Prefix,
    /// Where to.
    pub via: NextHop,
}

/// How neighbours are found and remembered (ARP and neighbour discovery alike).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourConfig {
    /// How long a confirmed address is used without asking again; at least a second.
    pub reachable: Nanos,
    /// Between two requests.
    pub retry: Nanos,
    /// How many requests before a neighbour counts as unreachable.
    pub tries: u8,
    /// How long an address that nobody uses is kept.
    pub idle: Nanos,
    /// The most neighbours.
    pub entries: usize,
    /// The most frames that wait for one neighbour; the oldest makes room.
    pub queue: usize,
    /// The most frames that wait in all.
    pub held: usize,
}

impl Default for NeighbourConfig {
    /// RFC 4861 §10's values where it has them.
    fn default() -> Self {
        Self {
            reachable: Nanos::from_secs(30),
            retry: Nanos::from_secs(1),
            tries: 3,
            idle: Nanos::from_secs(600),
            entries: 4096,
            queue: 8,
            held: 128,
        }
    }
}

/// A neighbour whose MAC address is known beforehand: never asked for, never forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permanent {
    /// The port it is behind.
    pub port: PortNo,
    /// Its address.
    pub addr: IpAddr,
    /// Its MAC.
    pub mac: MacAddr,
}

/// Everything a router is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterConfig {
    /// Its links.
    pub interfaces: Vec<Interface>,
    /// Static routes, beside those to the interfaces' own networks.
    pub routes: Vec<Route>,
    /// Neighbours.
    pub neighbours: NeighbourConfig,
    /// Those that are known beforehand; at most half of all.
    pub permanent: Vec<Permanent>,
    /// ICMP errors, both families together.
    pub icmp: IcmpLimit,
}

/// A configuration that can't be. Says which part, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouterError {
    /// Nothing to route between.
    #[error("router: no interfaces; add at least one, with a port, a MAC and an address")]
    NoInterfaces,
    /// More than can be numbered.
    #[error("router: {0} interfaces; at most 65535 are possible")]
    TooManyInterfaces(usize),
    /// Two interfaces on one port.
    #[error("router: two interfaces on port {0}; put all addresses into one")]
    PortTwice(PortNo),
    /// A MAC that no station can have.
    #[error("router: interface on port {port}: MAC {mac} is not a unicast address")]
    Mac {
        /// Whose.
        port: PortNo,
        /// The address.
        mac: MacAddr,
    },
    /// An interface without an address.
    #[error("router: interface on port {0} has no address; give it one, as in 192.0.2.1/24")]
    NoAddress(PortNo),
    /// A prefix length out of range.
    #[error("router: {0}: the prefix length must be 0 to {max}", max = .0.width())]
    PrefixLength(Prefix),
    /// An address that an interface can't have.
    #[error("router: interface on port {port}: {address} is {what}; an interface needs a host's")]
    Address {
        /// Whose.
        port: PortNo,
        /// The address.
        address: Prefix,
        /// What it is instead.
        what: &'static str,
    },
    /// One address on two interfaces.
    #[error("router: address {0} is given twice")]
    AddressTwice(IpAddr),
    /// Two interfaces in one network.
    #[error("router: ports {first} and {second} both have the network {network}; networks differ")]
    NetworkTwice {
        /// An interface.
        first: PortNo,
        /// The other one.
        second: PortNo,
        /// The network they share.
        network: Prefix,
    },
    /// Two link-local addresses on one interface.
    #[error("router: interface on port {0} has two link-local addresses; one is enough")]
    LinkLocalTwice(PortNo),
    /// An MTU too small for IP.
    #[error("router: interface on port {port}: MTU {mtu} is below {least}")]
    Mtu {
        /// Whose.
        port: PortNo,
        /// The MTU.
        mtu: u16,
        /// The least that its families need.
        least: u16,
    },
    /// A route's target with bits behind its prefix.
    #[error("router: route to {to}: bits behind the prefix are set; did you mean {meant}?")]
    HostBits {
        /// As given.
        to: Prefix,
        /// Without them.
        meant: Prefix,
    },
    /// A route's target that is no unicast network.
    #[error("router: route to {0}: only unicast networks are routed")]
    NotUnicast(Prefix),
    /// A network routed twice.
    #[error("router: route to {0}: there is a route or an interface of that network already")]
    RouteTwice(Prefix),
    /// More routes than a table can hold.
    #[error("router: {0} routes are too many")]
    TooManyRoutes(usize),
    /// A gateway that is not in an interface's network.
    #[error("router: route to {to}: gateway {gateway} is in no interface's network")]
    GatewayOffLink {
        /// Whose.
        to: Prefix,
        /// The gateway.
        gateway: IpAddr,
    },
    /// A gateway that can't be one.
    #[error("router: route to {to}: gateway {gateway} is {what}")]
    Gateway {
        /// Whose.
        to: Prefix,
        /// The gateway.
        gateway: IpAddr,
        /// What it is instead.
        what: &'static str,
    },
    /// A neighbour that can't be one.
    #[error("router: neighbour {addr} on port {port}: {what}")]
    Permanent {
        /// Behind which port.
        port: PortNo,
        /// Its address.
        addr: IpAddr,
        /// What is wrong.
        what: &'static str,
    },
    /// A route by a port that has no interface of its family.
    #[error("router: route to {to}: port {port} has no interface with an address of that family")]
    NoInterface {
        /// Whose.
        to: Prefix,
        /// The port.
        port: PortNo,
    },
    /// A limit that leaves others too little.
    #[error("router: {0} must be at most {1}")]
    TooMany(&'static str, usize),
    /// A limit that leaves nothing.
    #[error("router: {0} must be at least {1}")]
    Limit(&'static str, u64),
}

/// Why an address can't be a host's; `None` when it can. Asked of each packet: inlined, as the
/// reason is then not made.
#[inline(always)]
pub(super) fn not_a_host(addr: IpAddr) -> Option<&'static str> {
    match addr {
        IpAddr::V4(a) => match a.octets()[0] {
            0 => Some("in 0.0.0.0/8"),
            127 => Some("a loopback address"),
            224..=239 => Some("a multicast address"),
            240.. => Some("a reserved or broadcast address"),
            _ => None,
        },
        IpAddr::V6(a) if a.is_multicast() => Some("a multicast address"),
        // All others lie in ::/64.
        IpAddr::V6(a) if a.to_bits() >> 64 != 0 => None,
        IpAddr::V6(a) if a.is_unspecified() => Some("the unspecified address"),
        IpAddr::V6(a) if a.is_loopback() => Some("the loopback address"),
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => Some("an IPv4-mapped address"),
        IpAddr::V6(_) => None,
    }
}

/// Why an address can't be an interface's; `None` when it can.
pub(super) fn not_an_interfaces(p: Prefix) -> Option<&'static str> {
    if p.len == 0 {
        return Some("in a network of everything");
    }
    let (first, last) = (p.addr == p.network(), p.addr == p.last());
    match p.addr {
        IpAddr::V4(_) if p.len < 31 && first => Some("its network's own address"),
        IpAddr::V4(_) if p.len < 31 && last => Some("its network's broadcast address"),
        IpAddr::V6(_) if p.len < 127 && first => Some("its network's router anycast address"),
        _ => not_a_host(p.addr),
    }
}
