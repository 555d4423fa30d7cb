//! What programs that remember connections share: an IPv4 packet's five fields (`tuple.rs`, of
//! usual frames `usual.rs`), whose fragments are whose (`pieces.rs`), time in few bits (`age.rs`), which resets are believed (`reset.rs`), and
//! answers to ARP (`arp.rs`). Touches the bytes and numbers given.
//! Called by `nat`, `firewall` and `balancer`; their tables are `exact`'s.

pub(super) mod age;
pub(super) mod arp;
pub(super) mod pieces;
pub(super) mod reset;
pub(super) mod tuple;
pub(super) mod usual;

pub use tuple::Kind;

use std::fmt;
use std::net::Ipv4Addr;

/// Something that is there more than once; what is given is sorted.
pub(super) fn twice<T: Ord + Copy>(all: &mut [T]) -> Option<T> {
    all.sort_unstable();
    all.windows(2).find_map(|w| match w {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

/// An IPv4 address and a port, or the identifier of an ICMP query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub addr: Ipv4Addr,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// Of these parts.
    pub const fn new(addr: Ipv4Addr, port: u16) -> Self {
        Self { addr, port }
    }
    /// In one word, of which 48 bits are used.
    #[inline(always)]
    pub(super) const fn word(self) -> u64 {
        (self.addr.to_bits() as u64) << 16 | self.port as u64
    }
    /// From such a word.
    #[inline(always)]
    pub(super) const fn from_word(word: u64) -> Self {
        Self { addr: Ipv4Addr::from_bits((word >> 16) as u32), port: word as u16 }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.addr, self.port)
    }
}
