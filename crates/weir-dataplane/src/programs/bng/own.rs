//! What becomes of a subscriber's packet that can't go to the core as it is: pieces, or words to its sender. Knows how long packets may be;
//! makes frames. Called by `mod.rs` for packets without TTL and for those that are too long alone.
//!
//! The tunnel's packets must not be cut, since the far end would have to put them together: what is put in front makes the link to the core
//! narrower for subscribers by as much (RFC 4459 §3.1). So who must not cut is told that (RFC 1191 §4), and the rest is cut before it is
//! encapsulated, and goes on as packets that came so (RFC 1812 §4.2.2.7, §5.2.6).
//!
//! Errors go back by the circuit, to the station and with the tags that the packet came from and with; from the tunnel's end, the only address
//! that the gateway has. None is about an error, a later fragment, or a packet from or to what is no host (RFC 1812 §4.3.2.7); none of
//! them is sent faster than the token bucket allows.

use super::access::Sender;
use super::{Bng, Port, QINQ, Side, Stop};
use crate::action::PortNo;
use crate::program::{End, Origin, ProgramCx};
use crate::programs::connection::tuple::is_host;
use crate::programs::cut::{cut, of_pieces};
use crate::programs::said::{self, IcmpLimit, TokenBucket};
use weir_packet::{DropReason, Frame};
use weir_wire::icmpv4::unreachable;
use weir_wire::ipv4::HEADER_LEN as IPV4;
use weir_wire::mpls::ENTRY_LEN as MPLS;
use weir_wire::{Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr};

/// What the links to the core take, and what is needed where that is too little.
#[derive(Debug)]
pub(super) struct Links {
    /// Core ports, with the longest packet of a subscriber that they take.
    mtus: Vec<(PortNo, usize)>,
    /// No longer frame of a subscriber is too long for any.
    pub room: usize,
    limit: TokenBucket,
    /// All but the first of a packet that is being cut.
    pieces: Vec<Frame>,
}

impl Links {
    pub fn new() -> Self {
        let limit = TokenBucket::new(IcmpLimit::default());
        Self { mtus: Vec::new(), room: 0, limit, pieces: Vec::new() }
    }

    /// The longest packet that leaves by a port, if one of `len` bytes is longer.
    #[cold]
    pub fn too_long(&self, port: PortNo, len: usize) -> Option<usize> {
        let mtu = self.mtus.iter().find(|m| m.0 == port)?.1;
        (len > mtu).then_some(mtu)
    }
}

impl Bng {
    /// Looks at what the links to the core take.
    pub(super) fn look_at_links(&mut self, cx: &ProgramCx<'_>) {
        let ours = MPLS + IPV4 + self.sum.gre_len();
        let ports = cx.ports().iter().filter(|p| self.side(p.no) == Some(Side::Core));
        let mtus = ports.map(|p| (p.no, (p.ip_bytes as usize).saturating_sub(ours))).collect();
        self.links.mtus = mtus;
        let least = self.links.mtus.iter().map(|m| m.1).min();
        self.links.room = least.map_or(usize::MAX, |mtu| mtu.saturating_add(QINQ));
    }

    /// A subscriber's frame that does not go to the core as it is; port, and its place.
    #[cold]
    pub(super) fn not_sent(
        &mut self,
        frame: Frame,
        why: Stop,
        from: (Port, u16),
        cx: &mut ProgramCx<'_>,
    ) {
        // Its header is read out, and written anew in pieces: a wrong one would be made a right one of something else.
        let p = Ipv4Packet::new_checked(frame.bytes().get(QINQ..).unwrap_or(&[])).ok();
        let Some(p) = p.filter(|p| p.has_good_checksum()) else {
            return self.refuse(frame, Stop::Malformed, cx);
        };
        let (may_be_cut, len) = (!p.dont_fragment(), usize::from(p.total_len()));
        match why {
            Stop::TooLong(mtu) if may_be_cut => return self.send_cut(frame, (len, mtu), from, cx),
            _ => self.say(why, frame.bytes(), from.0, cx),
        }
        self.refuse(frame, why, cx);
    }

    /// Cuts a packet of this length, and sends its pieces as if they had come so.
    fn send_cut(
        &mut self,
        mut frame: Frame,
        (len, mtu): (usize, usize),
        (port, at): (Port, u16),
        cx: &mut ProgramCx<'_>,
    ) {
        // What is behind the packet is not of it. Shorter always fits.
        let _ = frame.set_len(QINQ + len);
        let mut pieces = std::mem::take(&mut self.links.pieces);
        match cut(&mut frame, QINQ, mtu, &mut pieces, cx) {
            Ok(()) => {
                self.counters.fragmented += 1;
                self.send_piece(frame, Origin::Received, (port, at), cx);
                for piece in pieces.drain(..) {
                    self.send_piece(piece, of_pieces(Origin::Received), (port, at), cx);
                }
            }
            Err(why) => {
                self.counters.too_long += 1;
                cx.drop(frame, why);
            }
        }
        self.links.pieces = pieces;
    }

    fn send_piece(
        &mut self,
        mut piece: Frame,
        origin: Origin,
        (port, at): (Port, u16),
        cx: &mut ProgramCx<'_>,
    ) {
        match self.upstream(&mut piece, port, at, cx.now()) {
            Ok(to) => cx.end(piece, End::Output(to), origin),
            // The whole was well but for its length, so that this is for want of room in a frame.
            Err(_) => cx.end(piece, End::Drop(DropReason::NoRoom), origin),
        }
    }

    /// Tells a subscriber why his packet, whose header is sound, is dropped.
    fn say(&mut self, why: Stop, bytes: &[u8], port: Port, cx: &mut ProgramCx<'_>) {
        let Ok(from) = Sender::parse(bytes, &port) else { return };
        let Ok(p) = Ipv4Packet::new_checked(bytes.get(QINQ..).unwrap_or(&[])) else { return };
        let between_hosts = is_host(p.src()) && is_host(p.dst());
        if !between_hosts || p.fragment_offset() > 0 || said::is_error(&p) {
            return;
        }
        let quoted = said::quoted(p.as_bytes().get(..usize::from(p.total_len())).unwrap_or(&[]));
        let message = match why {
            Stop::TooLong(mtu) => Icmpv4Repr::DestinationUnreachable {
                code: unreachable::FRAGMENTATION_NEEDED,
                next_hop_mtu: said::next_hop_mtu(mtu),
                quoted,
            },
            _ => Icmpv4Repr::TimeExceeded { code: 0, quoted },
        };
        if !self.links.limit.take(cx.now()) {
            return;
        }
        let Some(mut frame) = cx.alloc() else { return };
        let ip = Ipv4Repr::new(self.tunnel, p.src(), IpProtocol::Icmp, message.buffer_len());
        if write(&mut frame, (&from, &port), &ip, &message).is_none() {
            return cx.unused(frame);
        }
        self.counters.said += 1;
        cx.emit(frame, port.no);
    }
}

/// A frame back to where another came from, with a message.
fn write(
    frame: &mut Frame,
    (to, port): (&Sender, &Port),
    ip: &Ipv4Repr<'_>,
    message: &Icmpv4Repr<'_>,
) -> Option<()> {
    frame.set_len(QINQ + ip.buffer_len() + ip.payload_len).ok()?;
    let (front, packet) = frame.bytes_mut().split_first_chunk_mut::<QINQ>()?;
    super::core::address(front, (&to.mac, &to.tags), port);
    said::write(packet, ip, message).ok()
}
