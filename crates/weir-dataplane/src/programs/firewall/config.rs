//! What a firewall is told, and the checks that make it sound. Plain data. Called by `mod.rs`.

use crate::action::PortNo;
use crate::programs::connection::Kind;
use crate::programs::router::Prefix;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use thiserror::Error;
use weir_packet::Nanos;

/// The most connections that can be asked for: 64 bytes for two of them.
pub const MOST_CONNECTIONS: usize = 1 << 24;

/// Connections that may be begun from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Their protocol.
    pub protocol: Kind,
    /// To whom: an IPv4 network or host.
    pub to: Prefix,
    /// To which ports; of no meaning for [`Kind::Query`].
    pub ports: RangeInclusive<u16>,
}

/// How long connections are remembered after their last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirewallTimeouts {
    /// TCP, before both sides have spoken.
    pub tcp_opening: Nanos,
    /// TCP, open.
    pub tcp_open: Nanos,
    /// TCP, after both FINs, or after a reset.
    pub tcp_closing: Nanos,
    /// UDP without an answer.
    pub udp_one_way: Nanos,
    /// UDP in both directions.
    pub udp_both_ways: Nanos,
    /// ICMP queries.
    pub query: Nanos,
}

/// What becomes of a TCP segment of no known connection that would be in the midst of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Midstream {
    /// It is dropped.
    #[default]
    Refuse,
    /// It begins one, where its side may: connections go on that a firewall knew which ran before this one. So does an ACK that a host
    /// inside sends for no reason.
    Follow,
}

impl Default for FirewallTimeouts {
    /// RFC 5382 §5 and RFC 4787 §4.3 where they have them, although those are NATs'.
    fn default() -> Self {
        Self {
            tcp_opening: Nanos::from_secs(30),
            tcp_open: Nanos::from_secs(7440),
            tcp_closing: Nanos::from_secs(10),
            udp_one_way: Nanos::from_secs(30),
            udp_both_ways: Nanos::from_secs(300),
            query: Nanos::from_secs(60),
        }
    }
}

/// Everything a firewall is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallConfig {
    /// The port that leads to what is protected.
    pub inside: PortNo,
    /// The port that leads to the rest.
    pub outside: PortNo,
    /// What may be begun from outside; everything may from inside.
    pub allow: Vec<Allow>,
    /// The most connections; a new one beyond is refused, and counted.
    pub max_connections: usize,
    /// How long they are remembered.
    pub timeouts: FirewallTimeouts,
    /// Connections that were there before it.
    pub midstream: Midstream,
}

impl FirewallConfig {
    /// Between these ports; nothing may be begun from outside.
    pub fn between(inside: PortNo, outside: PortNo) -> Self {
        let timeouts = FirewallTimeouts::default();
        let midstream = Midstream::default();
        Self { inside, outside, allow: Vec::new(), max_connections: 65_536, timeouts, midstream }
    }
}

/// A configuration that can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FirewallError {
    /// Both sides are one.
    #[error("firewall: inside and outside are both port {0}; give two ports")]
    OnePort(PortNo),
    /// Not IPv4.
    #[error("firewall: allow to {0}: only IPv4 is filtered; give an IPv4 network")]
    NotIpv4(Prefix),
    /// A prefix length out of range, or bits behind it.
    #[error("firewall: allow to {to}: did you mean {meant}?")]
    HostBits {
        /// As given.
        to: Prefix,
        /// Without bits behind the prefix.
        meant: Prefix,
    },
    /// A range that holds nothing.
    #[error("firewall: allow to {to}: ports {first}-{last} are none; the first comes first")]
    NoPorts {
        /// Whose.
        to: Prefix,
        /// As given.
        first: u16,
        /// As given.
        last: u16,
    },
    /// A table of no or too large a size.
    #[error("firewall: max_connections = {0}: 1 to {MOST_CONNECTIONS}")]
    Connections(usize),
}

pub(super) fn check(c: &FirewallConfig) -> Result<(), FirewallError> {
    if c.inside == c.outside {
        return Err(FirewallError::OnePort(c.inside));
    }
    if !(1..=MOST_CONNECTIONS).contains(&c.max_connections) {
        return Err(FirewallError::Connections(c.max_connections));
    }
    for a in &c.allow {
        let IpAddr::V4(_) = a.to.addr else { return Err(FirewallError::NotIpv4(a.to)) };
        let meant = Prefix::new(a.to.network(), a.to.len.min(32));
        if meant != a.to {
            return Err(FirewallError::HostBits { to: a.to, meant });
        }
        if a.ports.is_empty() {
            let (first, last) = (*a.ports.start(), *a.ports.end());
            return Err(FirewallError::NoPorts { to: a.to, first, last });
        }
    }
    Ok(())
}
