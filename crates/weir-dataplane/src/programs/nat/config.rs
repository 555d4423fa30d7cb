//! What a NAT is told, and the checks that make it sound. Plain data. Called by `mod.rs`.

use crate::action::PortNo;
use crate::programs::connection::tuple::is_host;
use crate::programs::connection::twice;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use thiserror::Error;
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// The most external addresses: each takes up to 7 MiB.
pub const MOST_ADDRESSES: usize = 256;

/// One of a NAT's two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatSide {
    /// The port that leads there.
    pub port: PortNo,
    /// The NAT's own MAC address on that link.
    pub mac: MacAddr,
}

/// How long mappings are kept after the last packet that renews them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatTimeouts {
    /// UDP: at least 2 minutes, 5 recommended (RFC 4787 REQ-5).
    pub udp: Nanos,
    /// TCP, open: at least 2 hours and 4 minutes (RFC 5382 REQ-5).
    pub tcp_open: Nanos,
    /// TCP, being opened or closed: at least 4 minutes (RFC 5382 REQ-5).
    pub tcp_transitory: Nanos,
    /// ICMP queries: at least 60 seconds (RFC 5508 REQ-2).
    pub query: Nanos,
}

impl Default for NatTimeouts {
    fn default() -> Self {
        Self {
            udp: Nanos::from_secs(300),
            tcp_open: Nanos::from_secs(7440),
            tcp_transitory: Nanos::from_secs(240),
            query: Nanos::from_secs(60),
        }
    }
}

/// In which order an address's ports are given out at first; later, in that in which they came
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortOrder {
    /// In one that nobody can foretell (RFC 6056).
    #[default]
    Shuffled,
    /// From the least on, where mappings have to be known beforehand.
    Ascending,
}

/// Everything a NAT is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatConfig {
    /// The link of the hosts with private addresses.
    pub inside: NatSide,
    /// The link to everybody else.
    pub outside: NatSide,
    /// The MAC address of the router outside.
    pub gateway: MacAddr,
    /// Addresses that hosts inside know the NAT by: it answers ARP requests for them.
    pub inside_addresses: Vec<Ipv4Addr>,
    /// External addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// External ports, and identifiers of ICMP queries, of each address.
    pub ports: RangeInclusive<u16>,
    /// In which order they are given out.
    pub port_order: PortOrder,
    /// The most mappings in all; a new one beyond is refused, and counted.
    pub max_mappings: usize,
    /// How long they are kept.
    pub timeouts: NatTimeouts,
}

impl NatConfig {
    /// Between these links, with these external addresses, and what is usual else.
    pub fn new(
        inside: NatSide,
        outside: NatSide,
        gateway: MacAddr,
        addresses: Vec<Ipv4Addr>,
    ) -> Self {
        Self {
            inside,
            outside,
            gateway,
            inside_addresses: Vec::new(),
            addresses,
            ports: 1024..=65_535,
            port_order: PortOrder::Shuffled,
            max_mappings: 65_536,
            timeouts: NatTimeouts::default(),
        }
    }
}

/// A configuration that can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NatError {
    /// Both links are one.
    #[error("nat: inside and outside are both port {0}; give two ports")]
    OnePort(PortNo),
    /// A MAC that no station can have.
    #[error("nat: {whose}: MAC {mac} is not a unicast address")]
    Mac {
        /// Whose.
        whose: &'static str,
        /// The address.
        mac: MacAddr,
    },
    /// A router outside that would be the NAT.
    #[error("nat: outside_mac and gateway_mac are both {0}; give the MAC of the router outside")]
    OwnGateway(MacAddr),
    /// No external addresses, or too many.
    #[error("nat: {0} external addresses; 1 to {MOST_ADDRESSES}")]
    Addresses(usize),
    /// An address that no host can have.
    #[error("nat: {0} is not a host's address")]
    Address(Ipv4Addr),
    /// An address that is there twice, be it inside and outside.
    #[error("nat: address {0} is given twice")]
    AddressTwice(Ipv4Addr),
    /// A range without ports, or with port 0.
    #[error("nat: ports {first}-{last}: from at least 1 up to at least as much")]
    Ports {
        /// As given.
        first: u16,
        /// As given.
        last: u16,
    },
    /// A table of no size, or larger than there are ports.
    #[error("nat: max_mappings = {given}: 1 to {most}, three protocols' ports of all addresses")]
    Mappings {
        /// As given.
        given: usize,
        /// What there are ports for.
        most: usize,
    },
}

pub(super) fn check(c: &NatConfig) -> Result<(), NatError> {
    if c.inside.port == c.outside.port {
        return Err(NatError::OnePort(c.inside.port));
    }
    let macs = [("inside", c.inside.mac), ("outside", c.outside.mac), ("gateway", c.gateway)];
    if let Some((whose, mac)) = macs.into_iter().find(|(_, m)| !m.is_unicast()) {
        return Err(NatError::Mac { whose, mac });
    }
    if c.gateway == c.outside.mac {
        return Err(NatError::OwnGateway(c.gateway));
    }
    if !(1..=MOST_ADDRESSES).contains(&c.addresses.len()) {
        return Err(NatError::Addresses(c.addresses.len()));
    }
    let mut all: Vec<_> = c.addresses.iter().chain(&c.inside_addresses).copied().collect();
    if let Some(a) = all.iter().find(|a| !is_host(**a)) {
        return Err(NatError::Address(*a));
    }
    if let Some(a) = twice(&mut all) {
        return Err(NatError::AddressTwice(a));
    }
    let (first, last) = (*c.ports.start(), *c.ports.end());
    if first == 0 || first > last {
        return Err(NatError::Ports { first, last });
    }
    let most = c.addresses.len() * c.ports.len() * 3;
    match (1..=most).contains(&c.max_mappings) {
        true => Ok(()),
        false => Err(NatError::Mappings { given: c.max_mappings, most }),
    }
}
