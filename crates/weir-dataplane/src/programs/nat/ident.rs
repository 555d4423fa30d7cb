//! Identifications of packets that go out: hosts inside choose theirs alike, and behind one address their fragments would be taken for one
//! another's (RFC 6864 §5.3.1). Touches numbers and a header. Called by `own.rs` and `mod.rs` for packets that are, or may become, fragments.
//!
//! Counters by destination and protocol, many of which share one: a destination meets one again after 65,536 packets of all that share its
//! counter, which is as long as 16 bits can be made to last where nobody shares it. They begin anywhere, so that who gets some knows nothing of what others get.

use crate::programs::connection::Kind;
use crate::programs::connection::tuple::{Tuple, packet, packet_mut};
use crate::programs::hash::{fold, fresh_seed};
use weir_wire::Ipv4Packet;
use weir_wire::checksum::Delta;

const COUNTERS: usize = 2048;
/// Don't fragment, and neither more fragments nor an offset.
const ATOMIC: u16 = 0x4000;
const FLAGS_OFFSET: u16 = 0x7fff;

/// Which identification a packet gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The next one, if it needs one.
    Next,
    /// That of the packet that it is a piece of.
    Of(u16),
}

#[derive(Debug)]
pub(super) struct Idents {
    next: Box<[u16]>,
    seed: u64,
}

impl Idents {
    pub fn new() -> Self {
        let seed = fresh_seed();
        Self { next: (0..COUNTERS as u64).map(|i| fold(i, seed) as u16).collect(), seed }
    }

    /// The next one for a packet's destination and protocol.
    pub fn next(&mut self, t: &Tuple) -> u16 {
        // Errors are ICMP's, too.
        let kind = t.what.kind().unwrap_or(Kind::Query);
        let word = u64::from(t.dst.addr.to_bits()) << 8 | kind as u64;
        let counter = self.next.get_mut(fold(word, self.seed) as usize % COUNTERS);
        counter.map_or(0, |n| {
            *n = n.wrapping_add(1);
            *n
        })
    }
}

/// Whether a packet is no fragment and will never be one (RFC 6864 §4): its identification says nothing.
#[inline(always)]
pub(super) fn is_atomic(frame: &[u8]) -> bool {
    Ipv4Packet::new_unchecked(packet(frame)).flags_offset() & FLAGS_OFFSET == ATOMIC
}

/// Writes a frame's identification, with the checksum mended.
pub(super) fn write(frame: &mut [u8], ident: u16) {
    let mut ip = Ipv4Packet::new_unchecked(packet_mut(frame));
    let mended = Delta::new().u16(ip.ident(), ident).apply(ip.checksum());
    ip.set_ident(ident);
    ip.set_checksum(mended);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Endpoint;
    use crate::programs::connection::tuple::What;
    use std::collections::HashSet;

    #[test]
    fn none_is_given_twice_before_all_are() {
        let mut idents = Idents::new();
        let end = |n| Endpoint::new([192, 0, 2, n].into(), 5);
        let to = |n| Tuple { src: end(1), dst: end(n), what: What::Udp, ttl: 9, l4: 20, end: 28 };
        let all: HashSet<u16> = (0..=u16::MAX).map(|_| idents.next(&to(2))).collect();
        assert_eq!(all.len(), 65_536);
        let firsts: HashSet<u16> = (0..200).map(|n| idents.next(&to(n))).collect();
        assert!(firsts.len() > 150, "each begins anywhere");
    }
}
