//! The router's way of an IPv6 packet (RFC 8200): check, look up, then deliver here or pass on.
//! Touches the packet's hop limit.

use super::config::{is_link_local, not_a_host};
use super::gather::{Came, Follow, Piece, Which};
use super::icmp::{Error6, unreachable6};
use super::intact::is_intact;
use super::ndisc::{ALL_NODES, ALL_ROUTERS, solicited_node};
use super::{Arrival, ETH, Hop, LinkDst, Router, Target, packet, packet_mut};
use crate::program::{Origin, ProgramCx};
use std::net::{IpAddr, Ipv6Addr};
use weir_packet::{DropReason, Frame};
use weir_wire::icmpv6::Message;
use weir_wire::ipv6::HEADER_LEN as IP6;
use weir_wire::ipv6_ext::{Fragment, FragmentRepr, Headers, MAX_HEADERS, walk};
use weir_wire::ipv6_option::{Ipv6Option, OPTIONS_AT, Options, Unrecognised};
use weir_wire::{Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr};

/// Where the fixed header says what follows it.
const NEXT_HEADER_AT: usize = 6;
/// Where it says how much follows; and where a fragment header says where its bytes belong.
const PAYLOAD_LEN_AT: usize = 4;
const OFFSET_AT: usize = 2;
/// Bytes of a fragment header, and what its offset counts.
const FRAGMENT: usize = 8;
const UNIT: usize = 8;

/// What a packet for the router carries.
struct Upper {
    protocol: IpProtocol,
    /// Where it begins, in the packet.
    at: usize,
    /// Where the field lies that names it.
    named_at: usize,
    /// Of the router alert option, where there is one.
    alert: Option<u16>,
    form: Form,
}

/// How a packet for the router came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    /// In fragments, or as the only one.
    Fragments,
}

/// Why a packet for the router goes no further.
enum Stop {
    Drop(DropReason),
    Error(Error6),
    /// It is a fragment, by the header that lies at `at` and is named at `named_at`.
    Fragment {
        header: FragmentRepr,
        at: usize,
        named_at: usize,
    },
}

/// Reads a header of options that lies at `at` in the packet (RFC 8200 §4.2): the value of a router alert. One that is
/// not known here says itself what becomes of the packet.
#[inline(never)]
fn options(header: &[u8], at: usize) -> Result<Option<u16>, Stop> {
    let mut options = Options::new(header.get(OPTIONS_AT..).unwrap_or(&[]));
    let mut alert = None;
    loop {
        let option_at = at + OPTIONS_AT + options.at();
        let Some(option) = options.next() else { return Ok(alert) };
        let option = option.map_err(|_| Stop::Drop(DropReason::Malformed))?;
        match (option, option.unrecognised()) {
            (Ipv6Option::RouterAlert(value), _) => alert = Some(value),
            (_, Unrecognised::Skip) => {}
            (_, Unrecognised::Drop) => return Err(Stop::Drop(DropReason::Program)),
            (_, Unrecognised::Tell) => return Err(Stop::Error(Error6::Option(option_at))),
            (_, Unrecognised::TellUnlessGroup) => {
                return Err(Stop::Error(Error6::Parameter(2, option_at)));
            }
        }
    }
}

/// Walks over the extension headers of a packet for the router, which came so. A fragment that is all of its packet is no
/// fragment (RFC 6946 §4).
fn upper(p: &Ipv6Packet<&[u8]>, form: Form) -> Result<Upper, Stop> {
    let (protocol, named_at) = (p.next_header(), NEXT_HEADER_AT);
    let mut u = Upper { protocol, at: IP6, named_at, alert: None, form };
    for (n, header) in Headers::new(u.protocol, p.payload()).enumerate() {
        let Ok(h) = header else { return Err(Stop::Drop(DropReason::Malformed)) };
        if n >= MAX_HEADERS {
            return Err(Stop::Drop(DropReason::Malformed));
        }
        match h.kind {
            IpProtocol::Fragment => {
                let header = FragmentRepr::parse(&Fragment::new_unchecked(h.bytes))
                    .map_err(|_| Stop::Drop(DropReason::Malformed))?;
                if header.offset > 0 || header.more {
                    let (at, named_at) = (u.at, u.named_at);
                    return Err(Stop::Fragment { header, at, named_at });
                }
                u.form = Form::Fragments;
            }
            // No type of routing header is known here; RFC 8200 §4.4 says which byte to name.
            IpProtocol::Routing if h.segments_left() != Some(0) => {
                return Err(Stop::Error(Error6::Parameter(0, u.at + 2)));
            }
            // Anywhere but in front it is no next header (RFC 8200 §4).
            IpProtocol::HopByHop if n > 0 => {
                return Err(Stop::Error(Error6::Parameter(1, u.named_at)));
            }
            IpProtocol::HopByHop => u.alert = options(h.bytes, u.at)?,
            IpProtocol::Destination => {
                options(h.bytes, u.at)?;
            }
            _ => {}
        }
        u = Upper { protocol: h.next, at: u.at + h.bytes.len(), named_at: u.at, ..u };
    }
    Ok(u)
}

impl Router {
    #[inline]
    pub(super) fn ipv6(&mut self, mut frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        let Ok(p) = Ipv6Packet::new_checked(packet(&frame)) else {
            self.counters.malformed += 1;
            return cx.drop(frame, DropReason::Malformed);
        };
        let (src, dst, len) = (p.src(), p.dst(), p.total_len());
        // Ethernet's padding ends here. Shorter always fits.
        let _ = frame.set_len(ETH + len);
        let Some(link_local) = self.iface(from.iface).and_then(|i| i.link_local) else {
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        };
        let unspecified = src.is_unspecified();
        let bad = |a: Ipv6Addr| not_a_host(a.into()).is_some();
        // Its own address as source: a packet that came back, or a lie.
        let own = src == link_local || self.routes.is_own(src.into());
        if own && self.is_claim(&frame, from.iface) {
            self.counters.conflicts += 1;
            return cx.consume(frame);
        }
        if own || !unspecified && bad(src) || !dst.is_multicast() && bad(dst) {
            self.counters.martian += 1;
            return cx.drop(frame, DropReason::Program);
        }
        if dst.is_multicast() {
            if self.listens(from, dst) {
                return self.local_v6(frame, from, cx);
            }
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        }
        if dst == link_local {
            return self.local_v6(frame, from, cx);
        }
        let target = self.routes.lookup_v6(dst);
        if target == Some(&Target::Local) {
            return self.local_v6(frame, from, cx);
        }
        if unspecified {
            self.counters.martian += 1;
            return cx.drop(frame, DropReason::Program);
        }
        // Link-local destinations are not for routers to pass on, nor is what came to a group.
        if is_link_local(dst) || from.link == LinkDst::Group {
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        }
        if is_link_local(src) {
            let what = Error6::Unreachable(unreachable6::BEYOND_SCOPE);
            self.error_v6(packet(&frame), what, from.link, Some(from.iface), cx);
            return cx.drop(frame, DropReason::Unreachable);
        }
        let hop = match target {
            Some(Target::Connected(iface)) => Hop { iface: *iface, next: IpAddr::V6(dst) },
            Some(Target::Gateway(hop)) => *hop,
            Some(Target::Local | Target::Broadcast(_) | Target::Discard) => {
                return cx.drop(frame, DropReason::Program);
            }
            None => {
                self.counters.no_route += 1;
                let what = Error6::Unreachable(unreachable6::NO_ROUTE);
                self.error_v6(packet(&frame), what, from.link, Some(from.iface), cx);
                return cx.drop(frame, DropReason::Unreachable);
            }
        };
        self.forward_v6(frame, hop, from, cx);
    }

    /// Whether a group is one of those that the router is in on a link.
    fn listens(&self, from: Arrival, group: Ipv6Addr) -> bool {
        let Some(i) = self.iface(from.iface) else { return false };
        let own = i.v6.iter().map(|a| a.0).chain(i.link_local);
        group == ALL_NODES
            || group == ALL_ROUTERS
            || own.into_iter().any(|a| solicited_node(a) == group)
    }

    #[inline(always)]
    fn forward_v6(&mut self, mut frame: Frame, hop: Hop, from: Arrival, cx: &mut ProgramCx<'_>) {
        let Some(mtu) = self.mtu(hop.iface, cx) else {
            return cx.drop(frame, DropReason::NoSuchPort);
        };
        let limit = Ipv6Packet::new_unchecked(packet(&frame)).hop_limit();
        if limit <= 1 {
            self.counters.ttl_expired += 1;
            let what = Error6::TimeExceeded;
            self.error_v6(packet(&frame), what, from.link, Some(from.iface), cx);
            return cx.drop(frame, DropReason::TtlExpired);
        }
        if frame.len() > ETH + mtu {
            self.counters.too_long += 1;
            let what = Error6::TooBig(mtu);
            self.error_v6(packet(&frame), what, from.link, Some(from.iface), cx);
            return cx.drop(frame, DropReason::FrameTooLong);
        }
        Ipv6Packet::new_unchecked(packet_mut(&mut frame)).set_hop_limit(limit - 1);
        self.transmit(frame, Origin::Received, hop, cx);
    }

    /// A packet for the router itself.
    fn local_v6(&mut self, frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        self.counters.local += 1;
        match self.deliver_v6(packet(&frame), Form::Whole, from, cx) {
            Ok(()) => cx.consume(frame),
            Err(why) => cx.drop(frame, why),
        }
    }

    /// A fragment of a packet for the router itself, which lies at `at` and is named at `named_at`; with the last that is missing,
    /// the packet.
    fn piece_v6(
        &mut self,
        packet: &[u8],
        (header, header_at, named_at): (FragmentRepr, usize, usize),
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) -> Result<(), DropReason> {
        let p = Ipv6Packet::new_unchecked(packet);
        let bytes = packet.get(header_at + FRAGMENT..).unwrap_or(&[]);
        let at = usize::from(header.offset) * UNIT;
        let follow = if header.more { Follow::More } else { Follow::None };
        // RFC 8200 §4.5 says which of these are told, and which byte is named.
        let fault = if follow == Follow::More && bytes.len() % UNIT != 0 {
            Some(Error6::Parameter(0, PAYLOAD_LEN_AT))
        } else if at + bytes.len() > usize::from(u16::MAX) {
            Some(Error6::Parameter(0, header_at + OFFSET_AT))
        } else if at == 0 && walk(header.next_header, bytes).is_ok_and(|w| w.at >= bytes.len()) {
            // The first has all headers (RFC 7112 §5).
            Some(Error6::Parameter(3, 0))
        } else {
            None
        };
        if let Some(what) = fault {
            self.counters.malformed += 1;
            self.error_v6(packet, what, from.link, Some(from.iface), cx);
            return Err(DropReason::Malformed);
        }
        let which = Which {
            link: [p.src(), p.dst()].into_iter().any(is_link_local).then_some(from.iface),
            src: p.src().into(),
            dst: p.dst().into(),
            ident: header.ident,
            protocol: 0,
        };
        let head = (at == 0).then(|| {
            let mut head: Vec<u8> = packet.iter().copied().take(header_at).collect();
            if let Some(names) = head.get_mut(named_at) {
                *names = header.next_header.into();
            }
            head
        });
        match self.gathered.add(which, Piece { at, follow, bytes, head }, cx.now()) {
            Came::Kept => Ok(()),
            Came::Refused => Err(DropReason::Fragment),
            Came::Whole(mut whole) => {
                self.counters.reassembled += 1;
                let len = u16::try_from(whole.len().saturating_sub(IP6)).unwrap_or(u16::MAX);
                Ipv6Packet::new_unchecked(&mut whole[..]).set_payload_len(len);
                self.deliver_v6(&whole, Form::Fragments, from, cx)
            }
        }
    }

    /// What a packet for the router itself says, which came so; what it is dropped for.
    fn deliver_v6(
        &mut self,
        packet: &[u8],
        form: Form,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) -> Result<(), DropReason> {
        let p = Ipv6Packet::new_unchecked(packet);
        let u = match upper(&p, form) {
            Ok(u) => u,
            Err(Stop::Error(what)) => {
                self.error_v6(packet, what, from.link, Some(from.iface), cx);
                return Ok(());
            }
            Err(Stop::Drop(why)) => {
                self.counters.malformed += u64::from(why == DropReason::Malformed);
                return Err(why);
            }
            // Fragments of fragments are nobody's.
            Err(Stop::Fragment { .. }) if form == Form::Fragments => {
                return Err(DropReason::Fragment);
            }
            Err(Stop::Fragment { header, at, named_at }) => {
                return self.piece_v6(packet, (header, at, named_at), from, cx);
            }
        };
        let bytes = packet.get(u.at..).unwrap_or(&[]);
        match u.protocol {
            IpProtocol::Icmpv6 => {
                let good = Icmpv6Packet::new_checked(bytes)
                    .ok()
                    .filter(|m| m.has_good_checksum(&p.pseudo_header()))
                    .and_then(|m| Some((Icmpv6Repr::parse(&m).ok()?, Ipv6Repr::parse(&p).ok()?)));
                let Some((message, ip)) = good else {
                    self.counters.malformed += 1;
                    return Err(DropReason::Malformed);
                };
                match message {
                    // Its code is ignored (RFC 2710 §3.2, RFC 3810 §5.1.1).
                    Icmpv6Repr::Other { message: Message::MldQuery, body, .. } => {
                        self.mld_query(body, &ip, u.alert, from, cx.now());
                    }
                    // Whoever sends it in fragments is no neighbour (RFC 6980 §5).
                    Icmpv6Repr::Ndisc(_) if u.form == Form::Fragments => {}
                    m => self.icmpv6(m, ip, from, cx),
                }
            }
            IpProtocol::NoNext => {}
            other if !is_intact(other, bytes, &p.pseudo_header()) => {
                self.counters.malformed += 1;
                return Err(DropReason::Malformed);
            }
            IpProtocol::Udp => {
                let what = Error6::Unreachable(unreachable6::PORT);
                self.error_v6(packet, what, from.link, Some(from.iface), cx);
            }
            _ => {
                // Code 1: unrecognised next header.
                let what = Error6::Parameter(1, u.named_at);
                self.error_v6(packet, what, from.link, Some(from.iface), cx);
            }
        }
        Ok(())
    }

    fn icmpv6(&mut self, m: Icmpv6Repr<'_>, ip: Ipv6Repr, from: Arrival, cx: &mut ProgramCx<'_>) {
        match m {
            Icmpv6Repr::Ndisc(m) => self.ndisc(m, ip, from, cx),
            Icmpv6Repr::EchoRequest { ident, seq, data } if !ip.src.is_unspecified() => {
                let reply = Icmpv6Repr::EchoReply { ident, seq, data };
                let Some(hop) = self.hop_v6(ip.src, Some(from.iface)) else { return };
                // A ping to a group is answered too (RFC 4443 §4.2).
                let own = match ip.dst.is_multicast() {
                    true => self.source_v6(ip.src, hop),
                    false => Some(ip.dst),
                };
                let Some(own) = own else { return };
                let answer = Ipv6Repr {
                    traffic_class: ip.traffic_class & 0xfc,
                    ..Ipv6Repr::new(own, ip.src, IpProtocol::Icmpv6, reply.buffer_len())
                };
                if self.send_icmp_v6(answer, reply, hop, cx) {
                    self.counters.echo_replies += 1;
                }
            }
            _ => {}
        }
    }
}
