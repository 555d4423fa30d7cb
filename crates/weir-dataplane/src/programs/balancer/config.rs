//! What a load balancer is told, and the checks that make it sound. Plain data. Called by `mod.rs`.

use super::maglev::MOST_BACKENDS;
use crate::action::PortNo;
use crate::programs::connection::tuple::is_host;
use crate::programs::connection::{Endpoint, Kind, twice};
use thiserror::Error;
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// The most connections that can be asked for: 64 bytes for two of them.
pub const MOST_CONNECTIONS: usize = 1 << 24;
/// The most services: each has a table of 128 KiB.
pub const MOST_SERVICES: usize = 1024;

/// A server behind the balancer. It has the services' addresses on an interface that does not
/// answer ARP, and answers clients itself (direct server return).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its name, from which its places in the tables follow.
    pub name: String,
    /// The port that leads to it.
    pub port: PortNo,
    /// Its MAC address on that link.
    pub mac: MacAddr,
}

/// An address and port that clients use, and who serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What clients use.
    pub at: Endpoint,
    /// TCP or UDP.
    pub protocol: Kind,
    /// Who serves. A backend of several services is the same in all of them.
    pub backends: Vec<Backend>,
}

/// How long a connection keeps its backend after its last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerTimeouts {
    /// TCP.
    pub tcp: Nanos,
    /// TCP after a FIN or a reset.
    pub tcp_closing: Nanos,
    /// UDP.
    pub udp: Nanos,
}

impl Default for BalancerTimeouts {
    fn default() -> Self {
        Self {
            tcp: Nanos::from_secs(900),
            tcp_closing: Nanos::from_secs(30),
            udp: Nanos::from_secs(120),
        }
    }
}

/// Everything a load balancer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerConfig {
    /// Its own MAC address, on all ports.
    pub mac: MacAddr,
    /// What it serves.
    pub services: Vec<Service>,
    /// The most connections that are remembered; others go by consistent hashing alone.
    pub max_connections: usize,
    /// How long they are.
    pub timeouts: BalancerTimeouts,
    /// Balancers side by side agree when they have the same.
    pub seed: u64,
}

impl BalancerConfig {
    /// With these services, and what is usual else.
    pub fn new(mac: MacAddr, services: Vec<Service>) -> Self {
        let timeouts = BalancerTimeouts::default();
        Self { mac, services, max_connections: 65_536, timeouts, seed: 0 }
    }
}

/// A configuration that can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BalancerError {
    /// Nothing to serve, or too much.
    #[error("balancer: {0} services; 1 to {MOST_SERVICES}, each with an address and backends")]
    Services(usize),
    /// A MAC that no station can have.
    #[error("balancer: {whose}: MAC {mac} is not a unicast address")]
    Mac {
        /// Whose.
        whose: String,
        /// The address.
        mac: MacAddr,
    },
    /// An address that is nobody's.
    #[error("balancer: service {0}: not a host's address")]
    Address(Endpoint),
    /// A backend that would be the balancer.
    #[error("balancer: backend '{backend}' has the balancer's own MAC {mac}; give its own")]
    OwnMac {
        /// Whose.
        backend: String,
        /// The address.
        mac: MacAddr,
    },
    /// A port that no frame has.
    #[error("balancer: service {0}: ports are 1 to 65535")]
    Port(Endpoint),
    /// Neither TCP nor UDP.
    #[error("balancer: service {0}: the protocol must be TCP or UDP")]
    Protocol(Endpoint),
    /// Two services at one address, port and protocol.
    #[error("balancer: service {0} is there twice; put all backends into one")]
    ServiceTwice(Endpoint),
    /// No backends, or too many.
    #[error("balancer: service {service}: {count} backends; 1 to {MOST_BACKENDS}")]
    Backends {
        /// Whose.
        service: Endpoint,
        /// How many.
        count: usize,
    },
    /// One name twice in a service.
    #[error("balancer: service {service}: two backends are called '{name}'")]
    BackendTwice {
        /// Whose.
        service: Endpoint,
        /// The name.
        name: String,
    },
    /// One name for two backends.
    #[error("balancer: backend '{0}' has another port or MAC in another service")]
    BackendDiffers(String),
    /// More backends than can be numbered.
    #[error("balancer: {0} backends in all; at most 65535")]
    TooManyBackends(usize),
    /// No service at this address.
    #[error("balancer: there is no service {0}")]
    NoSuchService(Endpoint),
    /// A table of no or too large a size.
    #[error("balancer: max_connections = {0}: 1 to {MOST_CONNECTIONS}")]
    Connections(usize),
}

/// Of a balancer whose own MAC address is `own`.
pub(super) fn check_service(s: &Service, own: MacAddr) -> Result<(), BalancerError> {
    if !is_host(s.at.addr) {
        return Err(BalancerError::Address(s.at));
    }
    // Reserved (RFC 6335 §6).
    if s.at.port == 0 {
        return Err(BalancerError::Port(s.at));
    }
    if s.protocol == Kind::Query {
        return Err(BalancerError::Protocol(s.at));
    }
    if !(1..=MOST_BACKENDS).contains(&s.backends.len()) {
        let count = s.backends.len();
        return Err(BalancerError::Backends { service: s.at, count });
    }
    let mut names: Vec<&str> = s.backends.iter().map(|b| b.name.as_str()).collect();
    if let Some(name) = twice(&mut names) {
        return Err(BalancerError::BackendTwice { service: s.at, name: name.to_owned() });
    }
    // What went to itself would come in again.
    if let Some(b) = s.backends.iter().find(|b| b.mac == own) {
        return Err(BalancerError::OwnMac { backend: b.name.clone(), mac: own });
    }
    match s.backends.iter().find(|b| !b.mac.is_unicast()) {
        Some(b) => Err(BalancerError::Mac { whose: format!("backend '{}'", b.name), mac: b.mac }),
        None => Ok(()),
    }
}

pub(super) fn check(c: &BalancerConfig) -> Result<(), BalancerError> {
    if !(1..=MOST_SERVICES).contains(&c.services.len()) {
        return Err(BalancerError::Services(c.services.len()));
    }
    if !c.mac.is_unicast() {
        return Err(BalancerError::Mac { whose: "its own".to_owned(), mac: c.mac });
    }
    if !(1..=MOST_CONNECTIONS).contains(&c.max_connections) {
        return Err(BalancerError::Connections(c.max_connections));
    }
    c.services.iter().try_for_each(|s| check_service(s, c.mac))?;
    let mut at: Vec<_> = c.services.iter().map(|s| (s.at, s.protocol)).collect();
    match twice(&mut at) {
        Some((at, _)) => Err(BalancerError::ServiceTwice(at)),
        None => Ok(()),
    }
}
