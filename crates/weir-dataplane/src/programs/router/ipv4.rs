//! The router's way of an IPv4 packet (RFC 1812 §5.2): check, look up, then deliver here or pass
//! on. Touches the packet's TTL, checksum and options.

use super::config::not_a_host;
use super::gather::{Came, Follow, Piece, Which};
use super::icmp::Error4;
use super::intact::is_intact;
use super::options::{Fault, Mark, SourceRoute, check, fill, sent_back, timestamp};
use super::{Arrival, ETH, Hop, LinkDst, Router, Target, packet, packet_mut};
use crate::program::{End, Origin, ProgramCx};
use crate::programs::cut::{cut, of_pieces};
use std::net::{IpAddr, Ipv4Addr};
use weir_packet::{DropReason, Frame};
use weir_wire::icmpv4::unreachable;
use weir_wire::ipv4::{HEADER_LEN, MAX_OPTIONS_LEN};
use weir_wire::{Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr};

/// What a fragment's offset counts, in bytes.
const UNIT: usize = 8;

impl Router {
    #[inline]
    pub(super) fn ipv4(&mut self, mut frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        let good = Ipv4Packet::new_checked(packet(&frame)).ok().filter(|p| p.has_good_checksum());
        let Some(p) = good else {
            self.counters.malformed += 1;
            return cx.drop(frame, DropReason::Malformed);
        };
        let (src, dst, len) = (p.src(), p.dst(), usize::from(p.total_len()));
        // Ethernet's padding ends here. Shorter always fits.
        let _ = frame.set_len(ETH + len);
        if self.iface(from.iface).is_none_or(|i| i.v4.is_empty()) {
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        }
        if dst == Ipv4Addr::BROADCAST {
            self.counters.local += 1;
            return cx.consume(frame);
        }
        if dst.is_multicast() {
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        }
        // Its own address as source: a packet that came back, or a lie (RFC 1812 §5.3.7). A link's broadcast address is nobody's.
        let nobodys = self.routes.is_no_source_v4(src);
        if nobodys || not_a_host(src.into()).is_some() || not_a_host(dst.into()).is_some() {
            self.counters.martian += 1;
            return cx.drop(frame, DropReason::Program);
        }
        // A packet for one host that came to all stations of a link (RFC 1812 §5.3.4), and
        // directed broadcasts, are not passed on.
        let hop = match self.routes.lookup_v4(dst) {
            Some(Target::Local) => return self.local_v4(frame, from, cx),
            Some(Target::Broadcast(link)) if *link == from.iface => {
                self.counters.local += 1;
                return cx.consume(frame);
            }
            _ if from.link == LinkDst::Group => return cx.drop(frame, DropReason::Program),
            Some(Target::Connected(iface)) => Hop { iface: *iface, next: IpAddr::V4(dst) },
            Some(Target::Gateway(hop)) => *hop,
            Some(Target::Broadcast(_) | Target::Discard) => {
                return cx.drop(frame, DropReason::Program);
            }
            None => {
                self.counters.no_route += 1;
                let what = Error4::Unreachable(unreachable::NETWORK);
                self.error_v4(packet(&frame), what, from.link, cx);
                return cx.drop(frame, DropReason::Unreachable);
            }
        };
        self.forward_v4(frame, hop, cx);
    }

    #[inline(always)]
    fn forward_v4(&mut self, mut frame: Frame, hop: Hop, cx: &mut ProgramCx<'_>) {
        let Some(mtu) = self.mtu(hop.iface, cx) else {
            return cx.drop(frame, DropReason::NoSuchPort);
        };
        let p = Ipv4Packet::new_unchecked(packet(&frame));
        if p.ttl() <= 1 {
            self.counters.ttl_expired += 1;
            self.error_v4(packet(&frame), Error4::TimeExceeded, LinkDst::Us, cx);
            return cx.drop(frame, DropReason::TtlExpired);
        }
        if usize::from(p.total_len()) > mtu && p.dont_fragment() {
            self.counters.too_long += 1;
            let what = Error4::FragmentationNeeded(mtu);
            self.error_v4(packet(&frame), what, LinkDst::Us, cx);
            return cx.drop(frame, DropReason::FrameTooLong);
        }
        if p.header_len() > HEADER_LEN && self.pass_options(&mut frame, hop, cx).is_err() {
            return cx.drop(frame, DropReason::Malformed);
        }
        Ipv4Packet::new_unchecked(packet_mut(&mut frame)).decrement_ttl();
        self.fit_v4(frame, Origin::Received, hop, mtu, cx);
    }

    /// Writes into a packet's options what routers write there; tells its sender of one that is broken.
    #[inline(never)]
    fn pass_options(
        &mut self,
        frame: &mut Frame,
        hop: Hop,
        cx: &mut ProgramCx<'_>,
    ) -> Result<(), Fault> {
        let mut options = [0; MAX_OPTIONS_LEN];
        let p = Ipv4Packet::new_unchecked(packet(frame));
        let len = p.option_bytes().len();
        let Some(options) = options.get_mut(..len) else { return Ok(()) };
        options.copy_from_slice(p.option_bytes());
        // As what it is known where the packet goes (RFC 791 §3.1).
        let Some(own) = self.source_v4(Ipv4Addr::UNSPECIFIED, hop) else { return Ok(()) };
        let mark = Mark { own, time: timestamp(cx.now()) };
        if let Err(fault) = fill(options, mark, |a| self.routes.is_own(a.into())) {
            self.counters.malformed += 1;
            self.error_v4(packet(frame), Error4::Parameter(fault.0), LinkDst::Us, cx);
            return Err(fault);
        }
        let packet = packet_mut(frame);
        if let Some(to) = packet.get_mut(HEADER_LEN..HEADER_LEN + len) {
            to.copy_from_slice(options);
        }
        Ipv4Packet::new_unchecked(packet).fill_checksum();
        Ok(())
    }

    /// Says why a packet for the router can't be taken, by its options.
    #[inline(never)]
    fn options_refused(
        &mut self,
        frame: &Frame,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) -> Option<DropReason> {
        let p = Ipv4Packet::new_unchecked(packet(frame));
        let (what, why) = match check(p.option_bytes()) {
            Ok(SourceRoute::Done) => return None,
            Ok(SourceRoute::Further) => {
                (Error4::Unreachable(unreachable::SOURCE_ROUTE), DropReason::Program)
            }
            Err(fault) => (Error4::Parameter(fault.0), DropReason::Malformed),
        };
        self.counters.malformed += u64::from(why == DropReason::Malformed);
        self.error_v4(packet(frame), what, from.link, cx);
        Some(why)
    }

    #[inline(always)]
    fn fit_v4(
        &mut self,
        frame: Frame,
        origin: Origin,
        hop: Hop,
        mtu: usize,
        cx: &mut ProgramCx<'_>,
    ) {
        match frame.len() > ETH + mtu {
            true => self.fragment(frame, origin, hop, mtu, cx),
            false => self.transmit(frame, origin, hop, cx),
        }
    }

    /// Cuts a packet into pieces of at most `mtu` bytes and sends them.
    fn fragment(
        &mut self,
        mut frame: Frame,
        origin: Origin,
        hop: Hop,
        mtu: usize,
        cx: &mut ProgramCx<'_>,
    ) {
        let mut pieces = std::mem::take(&mut self.pieces);
        match cut(&mut frame, ETH, mtu, &mut pieces, cx) {
            Ok(()) => {
                self.counters.fragmented += 1;
                self.counters.fragments += 1 + pieces.len() as u64;
                self.transmit(frame, origin, hop, cx);
                for piece in pieces.drain(..) {
                    self.transmit(piece, of_pieces(origin), hop, cx);
                }
            }
            Err(why) => cx.end(frame, End::Drop(why), origin),
        }
        self.pieces = pieces;
    }

    /// A packet for the router itself.
    fn local_v4(&mut self, frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        self.counters.local += 1;
        let p = Ipv4Packet::new_unchecked(packet(&frame));
        if p.header_len() > HEADER_LEN
            && let Some(why) = self.options_refused(&frame, from, cx)
        {
            return cx.drop(frame, why);
        }
        let taken = match p.is_fragment() {
            true => self.piece_v4(&p, from, cx),
            false => self.deliver_v4(packet(&frame), from, cx),
        };
        match taken {
            Ok(()) => cx.consume(frame),
            Err(why) => cx.drop(frame, why),
        }
    }

    /// A fragment of a packet for the router itself; with the last that is missing, the packet.
    fn piece_v4(
        &mut self,
        p: &Ipv4Packet<&[u8]>,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) -> Result<(), DropReason> {
        let (at, bytes) = (usize::from(p.fragment_offset()) * UNIT, p.payload());
        let follow = if p.more_fragments() { Follow::More } else { Follow::None };
        if from.link == LinkDst::Group || follow == Follow::More && bytes.len() % UNIT != 0 {
            return Err(DropReason::Fragment);
        }
        let which = Which {
            link: None,
            src: p.src().into(),
            dst: p.dst().into(),
            ident: p.ident().into(),
            protocol: p.protocol().into(),
        };
        let head = (at == 0).then(|| p.as_bytes().iter().copied().take(p.header_len()).collect());
        match self.gathered.add(which, Piece { at, follow, bytes, head }, cx.now()) {
            Came::Kept => Ok(()),
            Came::Refused => Err(DropReason::Fragment),
            Came::Whole(mut whole) => {
                self.counters.reassembled += 1;
                let len = u16::try_from(whole.len()).unwrap_or(u16::MAX);
                let mut p = Ipv4Packet::new_unchecked(&mut whole[..]);
                p.set_total_len(len);
                p.set_flags_offset(0);
                p.fill_checksum();
                self.deliver_v4(&whole, from, cx)
            }
        }
    }

    /// A whole packet for the router itself; what it is dropped for.
    fn deliver_v4(
        &mut self,
        bytes: &[u8],
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) -> Result<(), DropReason> {
        let p = Ipv4Packet::new_unchecked(bytes);
        match p.protocol() {
            IpProtocol::Icmp => {
                let icmp = Icmpv4Packet::new_checked(p.payload());
                let Ok(icmp) =
                    icmp.map_err(drop).and_then(|m| m.has_good_checksum().then_some(m).ok_or(()))
                else {
                    self.counters.malformed += 1;
                    return Err(DropReason::Malformed);
                };
                if let (Ok(Icmpv4Repr::EchoRequest { ident, seq, data }), LinkDst::Us) =
                    (Icmpv4Repr::parse(&icmp), from.link)
                {
                    let reply = Icmpv4Repr::EchoReply { ident, seq, data };
                    let mark = Mark { own: p.dst(), time: timestamp(cx.now()) };
                    let mut options = [0; MAX_OPTIONS_LEN];
                    let options = match p.header_len() > HEADER_LEN {
                        true => {
                            let ours = |a: Ipv4Addr| self.routes.is_own(a.into());
                            sent_back(p.option_bytes(), mark, ours, &mut options)
                        }
                        false => &[],
                    };
                    let ip = Ipv4Repr {
                        dscp: p.dscp(),
                        options,
                        ..Ipv4Repr::new(p.dst(), p.src(), IpProtocol::Icmp, reply.buffer_len())
                    };
                    if let Some(hop) = self.routes.hop(IpAddr::V4(ip.dst))
                        && self.send_icmp_v4(ip, reply, hop, cx)
                    {
                        self.counters.echo_replies += 1;
                    }
                }
            }
            other => {
                if !is_intact(other, p.payload(), &p.pseudo_header()) {
                    self.counters.malformed += 1;
                    return Err(DropReason::Malformed);
                }
                let code = match other {
                    IpProtocol::Udp => unreachable::PORT,
                    _ => unreachable::PROTOCOL,
                };
                self.error_v4(bytes, Error4::Unreachable(code), from.link, cx);
            }
        }
        Ok(())
    }
}
