//! Fragments of packets with connections: those behind the first have no ports of their own, so the first one's are remembered.
//! Touches bytes, writes none. Called by programs that remember connections, which remember a first piece when it has passed.
//!
//! Nothing is put together: each piece goes where the first went, in the order in which they come (RFC 4787 REQ-14a). One that comes before the
//! first, or whose first was refused, is nobody's. A packet's pieces are known by addresses, identification and protocol (RFC 791
//! §3.2); what two senders behind an address translator choose alike is alike outside, as ever (RFC 6864 §5.1).
//!
//! A piece that would write over the transport header of the first is refused (RFC 1858 §4), as is one that ends beyond the longest
//! packet. Memory is so many slots, each the newest packet's that falls on it: a flood of first pieces costs packets in pieces, and
//! nothing else.

use super::age::{Limit, Stamp};
use super::tuple::{Kind, Tuple, What, packet};
use crate::action::PortNo;
use crate::programs::hash::{fold, fresh_seed};
use weir_packet::Nanos;
use weir_wire::icmpv4::Message;
use weir_wire::{Icmpv4Packet, IpProtocol, Ipv4Packet, TcpPacket};

/// Packets whose pieces may be on their way at once.
const SLOTS: usize = 1024;
/// How long pieces are waited for (RFC 791 §3.2).
const LIFE: Limit = Limit::of(Nanos::from_secs(15));
/// Bytes of TCP's header without options, and of UDP's and ICMP's.
const TCP: usize = 20;
const SHORT: usize = 8;
/// What a fragment's offset counts, in bytes.
const UNIT: usize = 8;
/// The longest packet.
const LONGEST: usize = 65_535;

/// Packets whose first piece has passed.
#[derive(Debug)]
pub(in crate::programs) struct Pieces {
    /// [`SLOTS`], or none as long as nothing has come in pieces.
    slots: Box<[Slot]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u128,
    ports: [u16; 2],
    sum: u16,
    ident: u16,
    kind: Kind,
    seen: Stamp,
}

/// No packet's: none has this [`key`].
const NONE: Slot =
    Slot { key: 0, ports: [0; 2], sum: 0, ident: 0, kind: Kind::Udp, seen: Stamp::of(Nanos(0)) };

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum Went {
    On,
    Nowhere,
}

/// A fragment, with the ports of the packet that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct Piece {
    /// As of the whole packet: [`What::Piece`] where it is not the first, which alone has a transport header.
    pub tuple: Tuple,
    /// Its identification where it goes: the first one's own, or what that was given before it was noted.
    pub ident: u16,
    /// What a first one was noted with before, if this is that once more.
    pub before: Option<u16>,
    /// The checksum of its transport header, if it has one.
    sum: u16,
    key: u128,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { slots: Box::default(), seed: fresh_seed() }
    }
}

impl Pieces {
    /// A frame that [`open`](super::tuple::open) has found to be a fragment; `None` where the ports of its packet are not known, or it is
    /// not one that a packet can have.
    pub fn of(&self, frame: &[u8], t: Tuple, from: PortNo, now: Stamp) -> Option<Piece> {
        let ip = Ipv4Packet::new_unchecked(packet(frame));
        let kind = kind_of(ip.protocol())?;
        let at = usize::from(ip.fragment_offset()) * UNIT;
        let payload = packet(frame).get(t.l4..t.end)?;
        let key = key(&ip, from);
        let slot = self.slots.get(self.place(key));
        let known = slot.filter(|s| s.key == key && !s.seen.is_older(LIFE, now));
        if at == 0 {
            let (what, ports, sum) = head(kind, payload)?;
            // Frames may come twice. Another packet that its host calls the same is another by its ports or its sum.
            let before = known.filter(|s| s.ports == ports && s.sum == sum).map(|s| s.ident);
            return Some(Piece {
                tuple: with(t, what, ports),
                ident: ip.ident(),
                before,
                sum,
                key,
            });
        }
        let header = if kind == Kind::Tcp { TCP } else { SHORT };
        if at < header || at + payload.len() > LONGEST - t.l4 {
            return None;
        }
        known.map(|slot| Piece {
            tuple: with(t, What::Piece(slot.kind), slot.ports),
            ident: slot.ident,
            before: None,
            sum: 0,
            key,
        })
    }

    /// What became of a piece, as it was when it came: those behind a first one go as that, and as no other that was called the same before.
    pub fn note(&mut self, piece: &Piece, went: Went, now: Stamp) {
        let t = &piece.tuple;
        let Some(kind) = t.what.kind().filter(|_| !piece.is_behind()) else { return };
        if self.slots.is_empty() {
            self.slots = vec![NONE; SLOTS].into();
        }
        let at = self.place(piece.key);
        let Some(slot) = self.slots.get_mut(at) else { return };
        match went {
            Went::On => {
                let Piece { key, ident, sum, .. } = *piece;
                *slot = Slot { key, ports: [t.src.port, t.dst.port], sum, ident, kind, seen: now };
            }
            Went::Nowhere if slot.key == piece.key => *slot = NONE,
            Went::Nowhere => {}
        }
    }

    fn place(&self, key: u128) -> usize {
        fold((key >> 64) as u64 ^ fold(key as u64, self.seed), self.seed) as usize % SLOTS
    }
}

impl Piece {
    /// Whether the first one has passed before it.
    pub fn is_behind(&self) -> bool {
        matches!(self.tuple.what, What::Piece(_))
    }
}

fn kind_of(protocol: IpProtocol) -> Option<Kind> {
    match protocol {
        IpProtocol::Tcp => Some(Kind::Tcp),
        IpProtocol::Udp => Some(Kind::Udp),
        IpProtocol::Icmp => Some(Kind::Query),
        _ => None,
    }
}

fn with(t: Tuple, what: What, [src, dst]: [u16; 2]) -> Tuple {
    let mut t = Tuple { what, ..t };
    (t.src.port, t.dst.port) = (src, dst);
    t
}

fn key(ip: &Ipv4Packet<&[u8]>, from: PortNo) -> u128 {
    let ends = u128::from(u32::from(ip.src())) << 32 | u128::from(u32::from(ip.dst()));
    let which = u128::from(ip.ident()) << 8 | u128::from(u8::from(ip.protocol()));
    // Never that of a slot that nobody has taken.
    1 << 127 | u128::from(from.0) << 88 | which << 64 | ends
}

/// What the transport header of a first piece says, if all of it is there: what it is, ports, checksum.
fn head(kind: Kind, payload: &[u8]) -> Option<(What, [u16; 2], u16)> {
    match kind {
        Kind::Tcp => {
            let t = TcpPacket::new_checked(payload).ok()?;
            Some((What::Tcp(t.flags()), [t.src_port(), t.dst_port()], t.checksum()))
        }
        Kind::Udp => {
            // Its length is the whole datagram's.
            let h: &[u8; SHORT] = payload.first_chunk()?;
            let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
            Some((What::Udp, [word(0), word(2)], word(6)))
        }
        Kind::Query => {
            let m = Icmpv4Packet::new_checked(payload).ok()?;
            let what = match m.message() {
                Message::EchoRequest | Message::TimestampRequest => What::Ask,
                Message::EchoReply | Message::TimestampReply => What::Answer,
                _ => return None,
            };
            Some((what, [m.echo_ident(); 2], m.checksum()))
        }
    }
}
