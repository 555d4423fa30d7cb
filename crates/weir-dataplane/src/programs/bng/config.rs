//! What a gateway is told: ports, circuits, routes, limits; and the checks that make it sound before
//! a frame is seen. Plain data: reading it from a file is somebody else's. Called by `mod.rs`.

use super::super::dir24::Dir24;
use super::{Keys, Port, Side, Way};
use crate::action::PortNo;
use crate::programs::router::Prefix;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use thiserror::Error;
use weir_packet::Nanos;
use weir_wire::MacAddr;
use weir_wire::mpls::MAX_LABEL;

/// A port to the access network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPort {
    /// The VDP's port.
    pub port: PortNo,
    /// Its MAC address: what subscribers send to.
    pub mac: MacAddr,
}

/// A port to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePort {
    /// The VDP's port.
    pub port: PortNo,
    /// Its MAC address.
    pub mac: MacAddr,
}

/// Circuits that follow each other: one outer tag, inner tags from the first to the last, keys from
/// the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circuits {
    /// VLAN id of the outer tag, 0 to 4095.
    pub outer: u16,
    /// VLAN id of the first inner tag.
    pub first: u16,
    /// VLAN id of the last inner tag.
    pub last: u16,
    /// GRE key of the first.
    pub key: u32,
}

impl Circuits {
    /// GRE key of the last; [`BngError::Keys`] where it would not fit.
    fn last_key(&self) -> u32 {
        self.key.saturating_add(u32::from(self.last.saturating_sub(self.first)))
    }
}

impl fmt::Display for Circuits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outer, first, last, key } = self;
        if first == last {
            return write!(f, "{outer}.{first} (key {key})");
        }
        write!(f, "{outer}.{first} to {outer}.{last} (keys {key} to {})", self.last_key())
    }
}

/// Where packets from subscribers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BngRoute {
    /// Their destinations: an IPv4 network.
    pub to: Prefix,
    /// The core port.
    pub port: PortNo,
    /// The MAC address of the next node.
    pub next_hop: MacAddr,
    /// The label, 20 bits: from 16 on, or 0, IPv4's explicit null (RFC 3032 §2.1).
    pub label: u32,
    /// The other end of the tunnel.
    pub remote: Ipv4Addr,
}

/// Whether GRE headers to the core have a checksum. From there both kinds are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GreSum {
    /// Over the whole payload, as in 002 §3.2.
    #[default]
    Present,
    /// None, as the gateway that 002 §4.2 measures.
    Absent,
}

impl GreSum {
    /// Bytes of a GRE header with a key.
    #[inline(always)]
    pub(super) const fn gre_len(self) -> usize {
        match self {
            GreSum::Absent => 8,
            GreSum::Present => 12,
        }
    }
}

/// Everything a gateway is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BngConfig {
    /// Ports to subscribers.
    pub access: Vec<AccessPort>,
    /// Ports to the core.
    pub core: Vec<CorePort>,
    /// Its own end of every tunnel.
    pub tunnel: Ipv4Addr,
    /// Circuits: up to all 2^24 that two tags can name.
    pub circuits: Vec<Circuits>,
    /// Routes.
    pub routes: Vec<BngRoute>,
    /// Most subscribers that are known at a time.
    pub subscribers: usize,
    /// How long one that sends nothing is known, at least a second.
    pub idle: Nanos,
    /// GRE's checksum.
    pub checksum: GreSum,
}

impl Default for BngConfig {
    /// 002's 64 K subscribers; no ports, no routes.
    fn default() -> Self {
        Self {
            access: Vec::new(),
            core: Vec::new(),
            tunnel: Ipv4Addr::UNSPECIFIED,
            circuits: Vec::new(),
            routes: Vec::new(),
            subscribers: 65_536,
            idle: Nanos::from_secs(300),
            checksum: GreSum::default(),
        }
    }
}

/// Most subscribers: a quarter of a gigabyte of them.
const MOST_SUBSCRIBERS: usize = 1 << 22;

/// A configuration that can't be. Says which part, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BngError {
    /// A side without a port.
    #[error("bng: no {0} port; add at least one, with its MAC address")]
    NoPort(&'static str),
    /// A port that is given twice.
    #[error("bng: port {0} is given twice; it is an access port or a core port")]
    PortTwice(PortNo),
    /// More ports than can be numbered.
    #[error("bng: {0} ports; at most 65535 are possible")]
    TooManyPorts(usize),
    /// A MAC that no station can have.
    #[error("bng: port {port}: MAC {mac} is not a unicast address")]
    Mac {
        /// Whose.
        port: PortNo,
        /// The address.
        mac: MacAddr,
    },
    /// An end of a tunnel that can't be one.
    #[error("bng: {0} can't be the end of a tunnel; give a host's address")]
    Tunnel(Ipv4Addr),
    /// VLAN ids out of range or order.
    #[error(
        "bng: circuits {outer}.{first} to {outer}.{last}: VLAN ids are 0 to 4095, the first not above the last"
    )]
    Tags {
        /// The outer tag.
        outer: u16,
        /// The first inner tag.
        first: u16,
        /// The last inner tag.
        last: u16,
    },
    /// A circuit that is given twice.
    #[error("bng: circuit {outer}.{inner} is given twice")]
    CircuitTwice {
        /// The outer tag.
        outer: u16,
        /// The inner tag.
        inner: u16,
    },
    /// Keys beyond 32 bits.
    #[error("bng: circuits from {outer}.{first}: the keys from {key} on don't fit 32 bits")]
    Keys {
        /// The outer tag.
        outer: u16,
        /// The first inner tag.
        first: u16,
        /// Its key.
        key: u32,
    },
    /// Circuits that share keys: what comes from the core for one would go to the other's subscribers.
    #[error(
        "bng: circuits {one} and {other} share the key {}; a key is one circuit's: give one of them others",
        .other.key
    )]
    KeyTwice {
        /// Those whose keys begin first.
        one: Circuits,
        /// Those whose keys begin among them.
        other: Circuits,
    },
    /// A route that is no IPv4 network.
    #[error("bng: route to {0}: an IPv4 network, with no bits set behind its prefix")]
    NoNetwork(Prefix),
    /// A network routed twice.
    #[error("bng: route to {0} is given twice")]
    RouteTwice(Prefix),
    /// A route by a port that is none of the core's.
    #[error("bng: route to {to}: port {port} is no core port")]
    NoCorePort {
        /// Whose.
        to: Prefix,
        /// The port.
        port: PortNo,
    },
    /// A label out of range.
    #[error("bng: route to {to}: label {label} is above 1048575")]
    Label {
        /// Whose.
        to: Prefix,
        /// The label.
        label: u32,
    },
    /// A label with a meaning of its own.
    #[error(
        "bng: route to {to}: label {label} is reserved (RFC 3032 §2.1); give the next hop's, from 16 on, or 0, explicit null"
    )]
    LabelReserved {
        /// Whose.
        to: Prefix,
        /// The label.
        label: u32,
    },
    /// A number out of range.
    #[error("bng: {0} = {1}: {2}")]
    Limit(&'static str, u64, &'static str),
}

fn ports(config: &BngConfig) -> Result<Vec<Port>, BngError> {
    let access = config.access.iter().map(|p| (p.port, p.mac, Side::Access));
    let core = config.core.iter().map(|p| (p.port, p.mac, Side::Core));
    let mut all = Vec::new();
    for (no, mac, side) in access.chain(core) {
        if !mac.is_unicast() {
            return Err(BngError::Mac { port: no, mac });
        }
        all.push(Port { no, mac, side });
    }
    all.sort_by_key(|p| p.no);
    for (side, name) in [(Side::Access, "access"), (Side::Core, "core")] {
        if all.iter().all(|p| p.side != side) {
            return Err(BngError::NoPort(name));
        }
    }
    if all.len() > usize::from(u16::MAX) {
        return Err(BngError::TooManyPorts(all.len()));
    }
    match all.windows(2).find(|w| w[0].no == w[1].no) {
        Some(w) => Err(BngError::PortTwice(w[0].no)),
        None => Ok(all),
    }
}

fn tunnel_end(a: Ipv4Addr) -> Result<(), BngError> {
    let bad = a.is_unspecified() || a.is_multicast() || a.is_broadcast() || a.is_loopback();
    if bad { Err(BngError::Tunnel(a)) } else { Ok(()) }
}

/// Its ports by number, its routes, and where they lead.
pub(super) fn routes(config: &BngConfig) -> Result<(Vec<Port>, Dir24, Vec<Way>), BngError> {
    let ports = ports(config)?;
    tunnel_end(config.tunnel)?;
    if !(1..=MOST_SUBSCRIBERS).contains(&config.subscribers) {
        let have = config.subscribers as u64;
        return Err(BngError::Limit("subscribers", have, "1 to 4194304"));
    }
    if config.idle < Nanos::from_secs(1) {
        return Err(BngError::Limit("idle_s", config.idle.0 / 1_000_000_000, "at least 1"));
    }
    let (mut ways, mut known) = (Vec::new(), HashMap::new());
    let mut prefixes = HashMap::new();
    for r in &config.routes {
        let to = r.to;
        let IpAddr::V4(addr) = to.addr else { return Err(BngError::NoNetwork(to)) };
        if to.len > 32 || to.network() != to.addr {
            return Err(BngError::NoNetwork(to));
        }
        tunnel_end(r.remote)?;
        if r.label > MAX_LABEL {
            return Err(BngError::Label { to, label: r.label });
        }
        // 0 is IPv4's explicit null, which announces what follows here. 1 must not be the last of a stack, 2
        // announces IPv6, 3 is never sent, and those behind are for other purposes.
        if (1..16).contains(&r.label) {
            return Err(BngError::LabelReserved { to, label: r.label });
        }
        if !r.next_hop.is_unicast() {
            return Err(BngError::Mac { port: r.port, mac: r.next_hop });
        }
        let core = ports.iter().find(|p| p.no == r.port && p.side == Side::Core);
        let core = core.ok_or(BngError::NoCorePort { to, port: r.port })?;
        let way = Way {
            port: r.port,
            mac: core.mac,
            next_hop: r.next_hop,
            remote: r.remote,
            label: r.label,
        };
        let value = *known.entry(way).or_insert_with(|| {
            ways.push(way);
            ways.len() as u32 - 1
        });
        if prefixes.insert((u128::from(addr.to_bits()) << 96, to.len), value).is_some() {
            return Err(BngError::RouteTwice(to));
        }
    }
    let table = Dir24::build(prefixes.into_iter().map(|((bits, len), value)| (bits, len, value)))
        .map_err(|_| BngError::Limit("routes", config.routes.len() as u64, "fewer"))?;
    Ok((ports, table, ways))
}

/// Its circuits.
pub(super) fn keys(config: &BngConfig) -> Result<Keys, BngError> {
    let mut count = 0;
    for &Circuits { outer, first, last, key } in &config.circuits {
        if outer > 0xfff || last > 0xfff || first > last {
            return Err(BngError::Tags { outer, first, last });
        }
        if key.checked_add(u32::from(last - first)).is_none() {
            return Err(BngError::Keys { outer, first, key });
        }
        count += usize::from(last - first) + 1;
    }
    // Twice the same is an error, so that there are no more than two tags can name.
    let mut keys = Keys::new(count.min(1 << 24));
    for c in &config.circuits {
        for (inner, key) in (c.first..=c.last).zip(c.key..) {
            let circuit = u32::from(c.outer) << 12 | u32::from(inner);
            if !matches!(keys.insert(circuit, key), Ok(None)) {
                return Err(BngError::CircuitTwice { outer: c.outer, inner });
            }
        }
    }
    one_circuit_a_key(&config.circuits)?;
    Ok(keys)
}

/// A key names one circuit: by it and the address inside, what comes from the core finds its subscriber.
fn one_circuit_a_key(circuits: &[Circuits]) -> Result<(), BngError> {
    let mut by_key = circuits.to_vec();
    by_key.sort_by_key(|c| c.key);
    match by_key.windows(2).find(|w| w[0].last_key() >= w[1].key) {
        Some(w) => Err(BngError::KeyTwice { one: w[0], other: w[1] }),
        None => Ok(()),
    }
}
