//! The usual frame, read and rewritten at once: Ethernet without a tag, IPv4 without options and
//! whole, TCP or UDP. All that matters lies at known places of one array, so nothing is looked for.
//! Touches bytes. Called by programs before they ask `tuple.rs`, which does the same for every
//! frame and is the judge.
//!
//! What is read stays in registers where this is part of who asks, and so do the tuple's parts
//! where whoever is called with it and is not part of that takes a copy: handed on by reference,
//! fields that were stored one by one would be loaded several at once, which a processor can't
//! forward and waits for. So programs have a way of their own for what is not usual.

use super::Endpoint;
use super::tuple::{Side, Tuple, What};
use std::net::Ipv4Addr;
use weir_wire::checksum::Delta;
use weir_wire::ethernet::HEADER_LEN as ETH;
use weir_wire::ipv4::{self, HEADER_LEN as IP};
use weir_wire::tcp::{self, Flags};
use weir_wire::{MacAddr, udp};

/// Ethernet's, IPv4's and TCP's headers without options: no frame on a wire is shorter.
const LEN: usize = ETH + IP + tcp::HEADER_LEN;

/// Where fields begin, in the frame.
mod at {
    /// The EtherType, with IPv4's version and header length behind it.
    pub const KIND: usize = 12;
    pub const TOTAL_LEN: usize = 16;
    pub const FRAGMENT: usize = 20;
    pub const TTL: usize = 22;
    pub const PROTOCOL: usize = 23;
    pub const CHECKSUM: usize = 24;
    pub const SRC: usize = 26;
    pub const DST: usize = 30;
    pub const SRC_PORT: usize = 34;
    pub const DST_PORT: usize = 36;
    pub const UDP_LEN: usize = 38;
    pub const UDP_CHECKSUM: usize = 40;
    pub const TCP_OFFSET_FLAGS: usize = 46;
    pub const TCP_CHECKSUM: usize = 50;
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// More fragments, or an offset.
const IS_FRAGMENT: u16 = 0x3fff;

type Head = [u8; LEN];

#[inline(always)]
fn word(h: &Head, at: usize) -> u16 {
    u16::from_be_bytes([h[at], h[at + 1]])
}

#[inline(always)]
fn address(h: &Head, at: usize) -> Ipv4Addr {
    Ipv4Addr::new(h[at], h[at + 1], h[at + 2], h[at + 3])
}

#[inline(always)]
fn put<const N: usize>(h: &mut Head, at: usize, value: [u8; N]) {
    h[at..at + N].copy_from_slice(&value);
}

/// A frame's destination and its packet's fields, if it is sound and usual. `None` says nothing of
/// it.
#[inline(always)]
pub(in crate::programs) fn open(bytes: &[u8]) -> Option<(MacAddr, Tuple)> {
    let h: &Head = bytes.first_chunk()?;
    let end = usize::from(word(h, at::TOTAL_LEN));
    let is_usual = h[at::KIND..at::KIND + 3] == [0x08, 0x00, 0x45]
        && end <= bytes.len() - ETH
        && word(h, at::FRAGMENT) & IS_FRAGMENT == 0
        && ipv4::is_intact(h[ETH..].first_chunk()?);
    if !is_usual {
        return None;
    }
    // What the transport header says of its own length, and the least it may say.
    let (what, len, least) = match h[at::PROTOCOL] {
        TCP => {
            let of = word(h, at::TCP_OFFSET_FLAGS);
            (What::Tcp(Flags(of & 0xfff)), usize::from(of >> 12) * 4, tcp::HEADER_LEN)
        }
        UDP => (What::Udp, usize::from(word(h, at::UDP_LEN)), udp::HEADER_LEN),
        _ => return None,
    };
    if len < least || IP + len > end {
        return None;
    }
    let [a, b, c, d, e, f, ..] = *h;
    let tuple = Tuple {
        src: Endpoint::new(address(h, at::SRC), word(h, at::SRC_PORT)),
        dst: Endpoint::new(address(h, at::DST), word(h, at::DST_PORT)),
        what,
        ttl: h[at::TTL],
        l4: IP,
        end,
    };
    Some((MacAddr([a, b, c, d, e, f]), tuple))
}

/// Rewrites one end of a packet and takes one from its TTL, which is above one. `false`: nothing
/// was done, as the frame is not a usual one.
#[inline(always)]
pub(super) fn forward(bytes: &mut [u8], t: Tuple, side: Side, new: Endpoint) -> bool {
    let Some(h) = bytes.first_chunk_mut::<LEN>().filter(|_| t.l4 == IP) else { return false };
    let (old, addr_at, port_at) = match side {
        Side::Source => (t.src, at::SRC, at::SRC_PORT),
        Side::Destination => (t.dst, at::DST, at::DST_PORT),
    };
    let addr = Delta::new().ipv4(old.addr, new.addr);
    let both = addr.u16(old.port, new.port);
    match t.what {
        What::Tcp(_) => {
            let mended = both.apply(word(h, at::TCP_CHECKSUM));
            put(h, at::TCP_CHECKSUM, mended.to_be_bytes());
        }
        What::Udp => {
            let mended = both.apply_udp(word(h, at::UDP_CHECKSUM));
            put(h, at::UDP_CHECKSUM, mended.to_be_bytes());
        }
        _ => return false,
    }
    let mended = addr.upper_byte_less().apply(word(h, at::CHECKSUM));
    put(h, at::CHECKSUM, mended.to_be_bytes());
    put(h, addr_at, new.addr.octets());
    put(h, port_at, new.port.to_be_bytes());
    h[at::TTL] = t.ttl.wrapping_sub(1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::connection::tuple::{self, Opened, decrement_ttl, packet_mut, rewrite};
    use proptest::prelude::*;
    use weir_wire::{Ipv4Packet, build::Frame};

    /// Whether a mutated header's checksum is made right again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Checksum {
        Stale,
        Filled,
    }

    prop_compose! {
        /// Sound frames, and what becomes of them when some bytes change, mostly of their headers,
        /// and their ends are cut off or padded.
        fn frame()(
            of_tcp in any::<bool>(),
            ends in any::<[u32; 2]>(),
            ports in any::<[u16; 2]>(),
            flags in 0u16..0x1000,
            payload in prop::collection::vec(any::<u8>(), 0..40),
            changes in prop::collection::vec((0usize..64, any::<u8>()), 0..4),
            ttl in any::<u8>(),
            checksum in prop_oneof![Just(Checksum::Stale), Just(Checksum::Filled)],
            no_udp_checksum in any::<bool>(),
            len in prop_oneof![3 => Just(None), 1 => (0usize..110).prop_map(Some)],
        ) -> Vec<u8> {
            let end = |i: usize| std::net::SocketAddrV4::new(ends[i].into(), ports[i]);
            let f = match of_tcp {
                true => Frame::tcp_v4(end(0), end(1), Flags(flags), &payload),
                false => Frame::udp_v4(end(0), end(1), &payload),
            };
            let mut bytes = vec![0; f.len()];
            f.ttl(ttl).emit(&mut bytes).unwrap();
            if no_udp_checksum && !of_tcp {
                bytes[40..42].fill(0);
            }
            for (at, value) in changes {
                if let Some(b) = bytes.get_mut(at) {
                    *b = value;
                }
            }
            if checksum == Checksum::Filled {
                Ipv4Packet::new_unchecked(packet_mut(&mut bytes)).fill_checksum();
            }
            bytes.resize(len.unwrap_or(bytes.len()), 0);
            bytes
        }
    }

    fn is_usual(bytes: &[u8], t: &Tuple) -> bool {
        bytes.len() >= LEN && t.l4 == IP && matches!(t.what, What::Tcp(_) | What::Udp)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn a_usual_frame_is_what_any_frame_is(bytes in frame()) {
            let usual = open(&bytes);
            match tuple::open(&bytes) {
                Ok(Opened::Ipv4(dst, t)) if is_usual(&bytes, &t) => {
                    prop_assert_eq!(usual, Some((dst, t)));
                }
                other => prop_assert_eq!(usual, None, "{:?}", other),
            }
        }

        #[test]
        fn forwarding_at_once_is_forwarding_in_steps(
            bytes in frame(),
            addr in any::<u32>(),
            port in any::<u16>(),
            side in prop_oneof![Just(Side::Source), Just(Side::Destination)],
        ) {
            let Ok(Opened::Ipv4(_, t)) = tuple::open(&bytes) else { return Ok(()) };
            prop_assume!(t.ttl > 1);
            let new = Endpoint::new(addr.into(), port);
            let mut steps = bytes.clone();
            rewrite(packet_mut(&mut steps), &t, side, new);
            decrement_ttl(&mut steps);

            let mut once = bytes.clone();
            let done = forward(&mut once, t, side, new);
            prop_assert_eq!(done, is_usual(&bytes, &t));
            prop_assert_eq!(&once, if done { &steps } else { &bytes });

            let mut either = bytes.clone();
            tuple::forward(&mut either, t, side, new);
            prop_assert_eq!(either, steps);
        }
    }
}
