//! What the NAT does itself, as the router that it is to both sides: it cuts what is too long for the next link and may be cut, answers echo requests to its own addresses inside, and tells
//! senders whose packets are too long for the next link or whose TTL is over (RFC 1812 §4.3.3.3, §5.3.1; RFC 1191 §4).
//! Touches frames. Called by `mod.rs`, never for a usual frame that fits.
//!
//! No error is about an error, about a fragment but the first, or to who can't be one host; so many a second at most.

use super::ident::{self, Idents, Name, is_atomic};
use super::{From, Nat, NatSide};
use crate::program::{End, Origin, ProgramCx};
use crate::programs::connection::pieces::Went;
use crate::programs::connection::tuple::{Tuple, What, is_host, packet, packet_mut};
use crate::programs::cut::{cut, of_pieces};
use crate::programs::said::{self, IcmpLimit, TokenBucket};
use std::net::Ipv4Addr;
use weir_packet::{DropReason, Frame};
use weir_wire::ethernet::HEADER_LEN as ETH;
use weir_wire::icmpv4::{Message, unreachable};
use weir_wire::{
    EtherType, EthernetFrame, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr, MacAddr,
};

/// What it has to know for that.
#[derive(Debug)]
pub(super) struct Own {
    /// Longest IP packet on the link inside, and outside.
    mtus: [usize; 2],
    /// No longer frame is too long for either.
    pub room: usize,
    /// Of errors to inside, and to outside: nobody outside takes those of hosts inside.
    limits: [TokenBucket; 2],
    /// All but the first of a packet that is being cut.
    pieces: Vec<Frame>,
    pub idents: Idents,
}

impl Own {
    pub fn new() -> Self {
        let limits = [(); 2].map(|()| TokenBucket::new(IcmpLimit::default()));
        Self {
            mtus: [usize::MAX; 2],
            room: usize::MAX,
            limits,
            pieces: Vec::new(),
            idents: Idents::new(),
        }
    }
}

impl Nat {
    /// Looks at what its links take.
    pub(super) fn look_at_links(&mut self, cx: &ProgramCx<'_>) {
        let mtu = |no| {
            let port = cx.ports().iter().find(|p| p.no == no);
            port.map_or(usize::MAX, |p| p.ip_bytes as usize)
        };
        self.own.mtus = [self.inside.port, self.outside.port].map(mtu);
        self.own.room = self.own.mtus.into_iter().min().unwrap_or(usize::MAX).saturating_add(ETH);
    }

    /// The next link's MTU, if a packet must not be cut and is longer.
    #[cold]
    pub(super) fn too_long(&self, bytes: &[u8], t: &Tuple, from: From) -> Option<usize> {
        let [inside, outside] = self.own.mtus;
        let mtu = match from {
            From::Inside if self.inside_addresses.contains(&t.dst.addr) => return None,
            From::Inside if self.mappings.address(t.dst.addr).is_none() => outside,
            _ => inside,
        };
        let whole = Ipv4Packet::new_checked(packet(bytes)).ok()?;
        (whole.dont_fragment() && t.end > mtu).then_some(mtu)
    }

    /// Sends a translated packet that may be too long for its link, if so in pieces, or whose identification counts.
    #[inline(never)]
    pub(super) fn send_unusual(
        &mut self,
        mut frame: Frame,
        t: Tuple,
        (from, name): (From, Name),
        link: NatSide,
        cx: &mut ProgramCx<'_>,
    ) -> Went {
        // Who is outside has an address of its own.
        if from == From::Inside && !is_atomic(frame.bytes()) {
            let ident = match name {
                Name::Next => self.own.idents.next(&t),
                Name::Of(ident) => ident,
            };
            ident::write(frame.bytes_mut(), ident);
        }
        // What is behind the packet is not of it. Shorter always fits.
        let _ = frame.set_len(ETH + t.end);
        let [inside, outside] = self.own.mtus;
        let mtu = if link.port == self.inside.port { inside } else { outside };
        if t.end <= mtu {
            cx.output(frame, link.port);
            return Went::On;
        }
        if let Err(why) = cut(&mut frame, ETH, mtu, &mut self.own.pieces, cx) {
            self.counters.too_long += 1;
            cx.drop(frame, why);
            return Went::Nowhere;
        }
        self.counters.fragmented += 1;
        cx.output(frame, link.port);
        for piece in self.own.pieces.drain(..) {
            cx.end(piece, End::Output(link.port), of_pieces(Origin::Received));
        }
        Went::On
    }

    /// A packet to one of its own addresses inside: an echo request becomes its answer, in place.
    #[cold]
    pub(super) fn for_itself(&mut self, bytes: &mut [u8], t: &Tuple) -> Result<(), DropReason> {
        let whole = |p: &[u8]| {
            let m = Icmpv4Packet::new_checked(p.get(t.l4..t.end)?).ok()?;
            (m.message() == Message::EchoRequest && m.has_good_checksum()).then_some(())
        };
        if t.what != What::Ask || whole(packet(bytes)).is_none() {
            return self.refuse(|c| &mut c.other);
        }
        let p = packet_mut(bytes);
        let mut m = Icmpv4Packet::new_unchecked(p.get_mut(t.l4..t.end).unwrap_or(&mut []));
        m.set_message(Message::EchoReply);
        m.fill_checksum();
        let mut ip = Ipv4Packet::new_unchecked(p);
        ip.set_src(t.dst.addr);
        ip.set_dst(t.src.addr);
        ip.set_ttl(64);
        if t.end > self.own.mtus[0] {
            // It will be cut; what it answers may not.
            ip.set_flags_offset(0);
        }
        ip.fill_checksum();
        self.counters.echoes += 1;
        Ok(())
    }

    /// Tells the sender of a packet why it is dropped.
    #[cold]
    pub(super) fn say(
        &mut self,
        why: Notice,
        bytes: &[u8],
        t: &Tuple,
        from: From,
        cx: &mut ProgramCx<'_>,
    ) {
        let about = !matches!(t.what, What::Error | What::Fragment | What::Piece(_));
        let link = if from == From::Inside { self.inside } else { self.outside };
        let own = match from {
            From::Inside => self.inside_addresses.first().copied(),
            From::Outside => Some(t.dst.addr).filter(|a| self.mappings.address(*a).is_some()),
        };
        let sender = EthernetFrame::new_unchecked(bytes).src();
        let one = is_host(t.src.addr) && self.mappings.address(t.src.addr).is_none();
        let (true, true, Some(own)) = (about, one && !sender.is_multicast(), own) else { return };
        let [inside, outside] = &mut self.own.limits;
        if !(if from == From::Inside { inside } else { outside }).take(cx.now()) {
            return;
        }
        let Some(mut frame) = cx.alloc() else { return };
        let quoted = said::quoted(packet(bytes).get(..t.end).unwrap_or(&[]));
        let message = match why {
            Notice::TtlOver => Icmpv4Repr::TimeExceeded { code: 0, quoted },
            Notice::TooLong(mtu) => Icmpv4Repr::DestinationUnreachable {
                code: unreachable::FRAGMENTATION_NEEDED,
                next_hop_mtu: said::next_hop_mtu(mtu),
                quoted,
            },
        };
        if write(&mut frame, (link.mac, sender), (own, t.src.addr), message).is_none() {
            return cx.unused(frame);
        }
        self.counters.said += 1;
        cx.emit(frame, link.port);
    }
}

/// What is said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// It would have had no TTL left.
    TtlOver,
    /// It is longer than the next link's MTU, and must not be cut.
    TooLong(usize),
}

/// A frame with a message; from and to, in both kinds of address.
fn write(
    frame: &mut Frame,
    (src, dst): (MacAddr, MacAddr),
    (from, to): (Ipv4Addr, Ipv4Addr),
    message: Icmpv4Repr<'_>,
) -> Option<()> {
    let ip = Ipv4Repr::new(from, to, IpProtocol::Icmp, message.buffer_len());
    frame.set_len(ETH + ip.buffer_len() + ip.payload_len).ok()?;
    let mut eth = EthernetFrame::new_unchecked(frame.bytes_mut());
    eth.set_dst(dst);
    eth.set_src(src);
    eth.set_ether_type(EtherType::Ipv4);
    said::write(packet_mut(frame.bytes_mut()), &ip, &message).ok()
}
