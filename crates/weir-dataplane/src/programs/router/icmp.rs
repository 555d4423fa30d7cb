//! The ICMP errors that a router sends, and when it does not (RFC 1812 §4.3.2, RFC 4443 §2.4).
//! Touches nothing of the packet at fault; makes frames of the router's own.
//!
//! Never about an ICMP error or redirect, a packet to or from more than one host (but for IPv6 options that ask for it), a frame to a
//! group on its link, a fragment but the first; never faster than the token bucket allows. An IPv4
//! error quotes what fits 576 bytes in all (`said`), an IPv6 error what fits 1280. The source is the address
//! that the packet was for if that is the router's, else one of the interface that the error leaves
//! by. IPv4 errors have precedence 6 (RFC 1812 §4.3.2.5).

use super::config::{is_link_local, not_a_host};
use super::{Hop, IfaceId, LinkDst, Router, Target, packet_mut};
use crate::program::{Origin, ProgramCx};
use crate::programs::said;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::ipv6_ext::walk;
use weir_wire::{
    EtherType, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet,
    Ipv6Repr, icmpv4, icmpv6, ipv6,
};

/// The longest IPv6 error: the least MTU (RFC 4443 §2.4(c)).
const MOST_V6: usize = 1280;
/// What one has in front of the quoted packet.
const ICMP: usize = 8;
/// CS6, the code point of the old precedence 6.
const DSCP: u8 = 48;

/// Codes of ICMPv6's destination unreachable (RFC 4443 §3.1).
pub(super) mod unreachable6 {
    pub const NO_ROUTE: u8 = 0;
    pub const BEYOND_SCOPE: u8 = 2;
    pub const ADDRESS: u8 = 3;
    pub const PORT: u8 = 4;
}

/// What went wrong with an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Error4 {
    /// [`icmpv4::unreachable`].
    Unreachable(u8),
    /// With the MTU of the next link.
    FragmentationNeeded(usize),
    TimeExceeded,
    /// The byte at fault.
    Parameter(u8),
}

/// What went wrong with an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Error6 {
    /// [`unreachable6`].
    Unreachable(u8),
    /// With the MTU of the next link.
    TooBig(usize),
    TimeExceeded,
    /// RFC 4443 §3.4: the code, and the byte at fault.
    Parameter(u8, usize),
    /// Code 2 of these, about an option at that byte that says so even of packets to a group.
    Option(usize),
}

/// Whether a packet is an error or redirect; or may be one, as its headers can't be followed.
fn is_error_v6(p: &Ipv6Packet<&[u8]>) -> bool {
    use icmpv6::Message;
    let Ok(w) = walk(p.next_header(), p.payload()) else { return true };
    w.protocol == IpProtocol::Icmpv6
        && (w.is_later_fragment()
            || p.payload().get(w.at).is_none_or(|t| {
                let m = Message::from(*t);
                m.is_error() || m == Message::Redirect
            }))
}

impl Router {
    /// Says that a neighbour did not answer, to the sender of a packet for it.
    pub(super) fn unreachable_host(&mut self, bad: &[u8], next: IpAddr, cx: &mut ProgramCx<'_>) {
        match next {
            IpAddr::V4(_) => {
                let what = Error4::Unreachable(icmpv4::unreachable::HOST);
                self.error_v4(bad, what, LinkDst::Us, cx);
            }
            IpAddr::V6(_) => {
                let what = Error6::Unreachable(unreachable6::ADDRESS);
                self.error_v6(bad, what, LinkDst::Us, None, cx);
            }
        }
    }

    /// Takes a token for an error.
    fn may_complain(&mut self, cx: &ProgramCx<'_>) -> bool {
        let may = self.errors.take(cx.now());
        self.counters.errors_limited += u64::from(!may);
        may
    }

    pub(super) fn source_v4(&self, about: Ipv4Addr, hop: Hop) -> Option<Ipv4Addr> {
        if self.routes.lookup(about.into()) == Some(Target::Local) {
            return Some(about);
        }
        let i = self.iface(hop.iface)?;
        let near = i.v4.iter().find(|a| a.1.contains(hop.next));
        near.or(i.v4.first()).map(|a| a.0)
    }

    /// Tells the sender of `bad`, an IPv4 packet, what went wrong with it. The caller has ended
    /// packets to a network's broadcast address before.
    pub(super) fn error_v4(
        &mut self,
        bad: &[u8],
        what: Error4,
        link: LinkDst,
        cx: &mut ProgramCx<'_>,
    ) {
        let Ok(p) = Ipv4Packet::new_checked(bad) else { return };
        let (src, dst) = (p.src(), p.dst());
        if link == LinkDst::Group
            || p.fragment_offset() > 0
            || not_a_host(src.into()).is_some()
            || not_a_host(dst.into()).is_some()
            || said::is_error(&p)
        {
            return;
        }
        let Some(hop) = self.routes.hop(src.into()) else { return };
        let Some(own) = self.source_v4(dst, hop) else { return };
        if !self.may_complain(cx) {
            return;
        }
        let quoted = said::quoted(bad.get(..p.total_len().into()).unwrap_or(bad));
        let message = match what {
            Error4::Unreachable(code) => {
                Icmpv4Repr::DestinationUnreachable { code, next_hop_mtu: 0, quoted }
            }
            Error4::FragmentationNeeded(mtu) => Icmpv4Repr::DestinationUnreachable {
                code: icmpv4::unreachable::FRAGMENTATION_NEEDED,
                next_hop_mtu: said::next_hop_mtu(mtu),
                quoted,
            },
            Error4::TimeExceeded => Icmpv4Repr::TimeExceeded { code: 0, quoted },
            Error4::Parameter(pointer) => Icmpv4Repr::ParameterProblem { code: 0, pointer, quoted },
        };
        let ip = Ipv4Repr {
            dscp: DSCP,
            ..Ipv4Repr::new(own, src, IpProtocol::Icmp, message.buffer_len())
        };
        self.counters.errors_sent += u64::from(self.send_icmp_v4(ip, message, hop, cx));
    }

    /// Sends a message of the router's own; `false` without a spare frame it fits in.
    pub(super) fn send_icmp_v4(
        &mut self,
        ip: Ipv4Repr<'_>,
        message: Icmpv4Repr<'_>,
        hop: Hop,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        self.ident = self.ident.wrapping_add(1);
        let ip = Ipv4Repr { ident: self.ident, dont_fragment: false, ..ip };
        let len = ip.buffer_len() + ip.payload_len;
        let Some(mtu) = self.mtu(hop.iface, cx) else { return false };
        if len > mtu {
            let mut whole = vec![0; len];
            let written = said::write(&mut whole, &ip, &message);
            debug_assert!(written.is_ok(), "{written:?}");
            let payload = whole.get(ip.buffer_len()..).unwrap_or_default();
            return self.send_apart_v4(ip, payload, mtu, hop, cx);
        }
        let Some(mut frame) = self.fresh(EtherType::Ipv4, len, cx) else { return false };
        let written = said::write(packet_mut(&mut frame), &ip, &message);
        debug_assert!(written.is_ok(), "{written:?}");
        self.transmit(frame, Origin::Generated, hop, cx);
        true
    }

    /// The next hop of a packet of the router's own; to a link-local address it is the link that
    /// the packet is about.
    pub(super) fn hop_v6(&self, dst: Ipv6Addr, iface: Option<IfaceId>) -> Option<Hop> {
        match is_link_local(dst) {
            true => iface.map(|iface| Hop { iface, next: dst.into() }),
            false => self.routes.hop(dst.into()),
        }
    }

    pub(super) fn source_v6(&self, dst: Ipv6Addr, hop: Hop) -> Option<Ipv6Addr> {
        let i = self.iface(hop.iface)?;
        if is_link_local(dst) {
            return i.link_local;
        }
        let near = i.v6.iter().find(|a| a.1.contains(dst.into()));
        let near = near.or_else(|| i.v6.iter().find(|a| a.1.contains(hop.next)));
        // A link that has only a link-local address borrows another's.
        let any = || self.ifaces.iter().find_map(|i| i.v6.first());
        near.or(i.v6.first()).or_else(any).map(|a| a.0).or(i.link_local)
    }

    /// Tells the sender of `bad`, an IPv6 packet that came in by `iface`, what went wrong with it.
    pub(super) fn error_v6(
        &mut self,
        bad: &[u8],
        what: Error6,
        link: LinkDst,
        iface: Option<IfaceId>,
        cx: &mut ProgramCx<'_>,
    ) {
        let Ok(p) = Ipv6Packet::new_checked(bad) else { return };
        let (src, dst) = (p.src(), p.dst());
        // RFC 4443 §2.4(e.3).
        let to_many = link == LinkDst::Group || not_a_host(dst.into()).is_some();
        if to_many && !matches!(what, Error6::Option(_))
            || not_a_host(src.into()).is_some()
            || is_error_v6(&p)
        {
            return;
        }
        let Some(hop) = self.hop_v6(src, iface) else { return };
        let link_local = self.iface(hop.iface).and_then(|i| i.link_local);
        let for_us = self.routes.lookup(dst.into()) == Some(Target::Local)
            || is_link_local(dst) && link_local == Some(dst);
        let own = if for_us { Some(dst) } else { self.source_v6(src, hop) };
        let Some(own) = own else { return };
        if !self.may_complain(cx) {
            return;
        }
        let most = p.total_len().min(MOST_V6 - ipv6::HEADER_LEN - ICMP);
        let quoted = bad.get(..most).unwrap_or(bad);
        let problem = |code, at| Icmpv6Repr::ParameterProblem {
            code,
            pointer: u32::try_from(at).unwrap_or(u32::MAX),
            quoted,
        };
        let message = match what {
            Error6::Unreachable(code) => Icmpv6Repr::DestinationUnreachable { code, quoted },
            Error6::TooBig(mtu) => {
                Icmpv6Repr::PacketTooBig { mtu: u32::try_from(mtu).unwrap_or(u32::MAX), quoted }
            }
            Error6::TimeExceeded => Icmpv6Repr::TimeExceeded { code: 0, quoted },
            Error6::Parameter(code, at) => problem(code, at),
            Error6::Option(at) => problem(2, at),
        };
        let ip = Ipv6Repr::new(own, src, IpProtocol::Icmpv6, message.buffer_len());
        self.counters.errors_sent += u64::from(self.send_icmp_v6(ip, message, hop, cx));
    }

    /// Sends a message of the router's own; `false` without a spare frame it fits in.
    pub(super) fn send_icmp_v6(
        &mut self,
        ip: Ipv6Repr,
        message: Icmpv6Repr<'_>,
        hop: Hop,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        let len = ip.buffer_len() + ip.payload_len;
        let Some(mtu) = self.mtu(hop.iface, cx) else { return false };
        if len > mtu {
            let mut whole = vec![0; ip.payload_len];
            let mut icmp = Icmpv6Packet::new_unchecked(&mut whole);
            let written = message.emit(&mut icmp);
            icmp.fill_checksum(&ip.pseudo_header());
            debug_assert!(written.is_ok(), "{written:?}");
            return self.send_apart_v6(ip, &whole, mtu, hop, cx);
        }
        let Some(mut frame) = self.fresh(EtherType::Ipv6, len, cx) else { return false };
        let mut packet = Ipv6Packet::new_unchecked(packet_mut(&mut frame));
        let mut written = ip.emit(&mut packet);
        let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
        written = written.and(message.emit(&mut icmp));
        icmp.fill_checksum(&ip.pseudo_header());
        debug_assert!(written.is_ok(), "{written:?}");
        self.transmit(frame, Origin::Generated, hop, cx);
        true
    }
}
