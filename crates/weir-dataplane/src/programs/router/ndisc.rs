//! The router's neighbour discovery (RFC 4861 §7): answers solicitations for its own addresses,
//! asks for others'. Touches ICMPv6 messages and the neighbour cache.
//!
//! Router solicitations and advertisements, and redirects, are not for a router with static routes
//! and end unread. Its addresses are taken as its own without duplicate address detection.

use super::neighbour::{Ask, Heard, Key, Unknown};
use super::{Arrival, IfaceId, Router, packet, packet_mut};
use crate::program::{Origin, ProgramCx};
use std::net::{IpAddr, Ipv6Addr};
use weir_packet::Frame;
use weir_wire::icmpv6::HEADER_LEN as ICMP;
use weir_wire::ipv6::HEADER_LEN as IP6;
use weir_wire::ndisc::NeighborFlags;
use weir_wire::ndisc_option::{NdiscOption, emit_all};
use weir_wire::{
    EtherType, EthernetFrame, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, MacAddr,
    NdiscRepr,
};

/// ff02::1, every node of the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2, every router of the link.
pub(super) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Hop limit of neighbour discovery: no router can have passed it on.
const HOP_LIMIT: u8 = 255;
/// The option with an Ethernet address.
const OPTION: usize = 8;
/// An IPv6 packet of neighbour discovery with one such option.
const LEN: usize = IP6 + ICMP + 20 + OPTION;

/// The group in which whoever has `a` listens (RFC 4291 §2.7.1).
pub(super) fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    let [.., x, y, z] = a.octets();
    let low = u16::from_be_bytes([y, z]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(x), low)
}

/// The Ethernet group of an IPv6 group (RFC 2464 §7).
pub(super) fn group_mac(a: Ipv6Addr) -> MacAddr {
    let [.., w, x, y, z] = a.octets();
    MacAddr([0x33, 0x33, w, x, y, z])
}

/// The address options of a message; `None` when an option is broken and all must be ignored.
fn link_addrs(m: &NdiscRepr<'_>) -> Option<(Option<MacAddr>, Option<MacAddr>)> {
    let (mut source, mut target) = (None, None);
    for o in m.options() {
        match o.ok()? {
            NdiscOption::SourceLinkAddr(mac) => source = Some(mac),
            NdiscOption::TargetLinkAddr(mac) => target = Some(mac),
            _ => {}
        }
    }
    Some((source.filter(|m| m.is_unicast()), target.filter(|m| m.is_unicast())))
}

impl Router {
    /// A message of neighbour discovery with a good checksum; what is not valid by RFC 4861 §7.1
    /// is ignored.
    pub(super) fn ndisc(
        &mut self,
        m: NdiscRepr<'_>,
        ip: Ipv6Repr,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) {
        if ip.hop_limit != HOP_LIMIT {
            return;
        }
        let Some((source, target_mac)) = link_addrs(&m) else { return };
        match m {
            NdiscRepr::NeighborSolicit { target, .. } if !target.is_multicast() => {
                self.solicited(target, source, ip, from, cx);
            }
            NdiscRepr::NeighborAdvert { flags, target, .. } if !target.is_multicast() => {
                self.advertised(flags, target, target_mac, ip, from, cx);
            }
            _ => {}
        }
    }

    /// Whether a packet that comes from an address of the link's interface, itself sound, is neighbour discovery of another station: it
    /// has that address, too, and says so as it asks, answers or announces itself. What the router sent itself and came back is none.
    #[cold]
    pub(super) fn is_claim(&self, frame: &Frame, iface: IfaceId) -> bool {
        let p = Ipv6Packet::new_unchecked(packet(frame));
        let sender = EthernetFrame::new_unchecked(frame.bytes()).src();
        let others = self.iface(iface).is_some_and(|i| i.is_own(p.src().into()) && i.mac != sender);
        if !others || p.next_header() != IpProtocol::Icmpv6 || p.hop_limit() != HOP_LIMIT {
            return false;
        }
        let Ok(m) = Icmpv6Packet::new_checked(p.payload()) else { return false };
        let whole = m.has_good_checksum(&p.pseudo_header());
        match Icmpv6Repr::parse(&m) {
            Ok(Icmpv6Repr::Ndisc(
                m @ (NdiscRepr::NeighborSolicit { .. } | NdiscRepr::NeighborAdvert { .. }),
            )) => whole && link_addrs(&m).is_some(),
            _ => false,
        }
    }

    fn own_v6(&self, iface: IfaceId, a: Ipv6Addr) -> bool {
        self.iface(iface).is_some_and(|i| i.link_local == Some(a) || i.v6.iter().any(|x| x.0 == a))
    }

    fn solicited(
        &mut self,
        target: Ipv6Addr,
        source: Option<MacAddr>,
        ip: Ipv6Repr,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) {
        let iface = from.iface;
        let detecting = ip.src.is_unspecified();
        if detecting && (source.is_some() || ip.dst != solicited_node(target)) {
            return;
        }
        if !self.own_v6(iface, target) {
            return;
        }
        let key = Key { iface, addr: ip.src.into() };
        if let (false, Some(mac)) = (detecting, source) {
            let now = cx.now();
            let waiting = self.neighbours.heard(key, mac, Heard::Unasked, Unknown::Add, now);
            self.flush(iface, mac, waiting, cx);
        }
        let about = NeighborFlags::ROUTER | NeighborFlags::OVERRIDE;
        let (dst, flags) = match detecting {
            true => (ALL_NODES, about),
            false => (ip.src, about | NeighborFlags::SOLICITED),
        };
        let Some(mac) = self.iface(iface).map(|i| i.mac) else { return };
        let mut option = [0; OPTION];
        if emit_all(&[NdiscOption::TargetLinkAddr(mac)], &mut option).is_err() {
            return;
        }
        let m = NdiscRepr::NeighborAdvert { flags, target, options: &option };
        let known = if detecting { Some(group_mac(dst)) } else { self.neighbours.mac(key) };
        self.counters.answered += u64::from(self.send_ndisc(iface, target, dst, known, m, cx));
    }

    fn advertised(
        &mut self,
        flags: NeighborFlags,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
        ip: Ipv6Repr,
        from: Arrival,
        cx: &mut ProgramCx<'_>,
    ) {
        let solicited = flags.contains(NeighborFlags::SOLICITED);
        if solicited && ip.dst.is_multicast() {
            return;
        }
        if self.own_v6(from.iface, target) {
            self.counters.conflicts += 1;
            return;
        }
        let key = Key { iface: from.iface, addr: target.into() };
        if !self.neighbours.knows(key) {
            return;
        }
        let known = self.neighbours.mac(key);
        let Some(mac) = mac.or(known) else { return };
        if known.is_some_and(|k| k != mac) && !flags.contains(NeighborFlags::OVERRIDE) {
            return self.neighbours.doubt(key);
        }
        let what = if solicited { Heard::Answer } else { Heard::Unasked };
        let waiting = self.neighbours.heard(key, mac, what, Unknown::Ignore, cx.now());
        self.flush(from.iface, mac, waiting, cx);
    }

    pub(super) fn ask_v6(
        &mut self,
        iface: IfaceId,
        target: Ipv6Addr,
        ask: Ask,
        cx: &mut ProgramCx<'_>,
    ) {
        let Some((src, own)) = self.iface(iface).and_then(|i| Some((i.link_local?, i.mac))) else {
            return;
        };
        let mut option = [0; OPTION];
        if emit_all(&[NdiscOption::SourceLinkAddr(own)], &mut option).is_err() {
            return;
        }
        let m = NdiscRepr::NeighborSolicit { target, options: &option };
        let (dst, mac) = match ask {
            Ask::Everybody => (solicited_node(target), group_mac(solicited_node(target))),
            Ask::Station(mac) => (target, mac),
        };
        self.counters.asked += u64::from(self.send_ndisc(iface, src, dst, Some(mac), m, cx));
    }

    /// Sends a message; to a neighbour whose MAC is not known, once it is. `false` without a spare
    /// frame.
    fn send_ndisc(
        &mut self,
        iface: IfaceId,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Option<MacAddr>,
        m: NdiscRepr<'_>,
        cx: &mut ProgramCx<'_>,
    ) -> bool {
        let Some(mut frame) = self.fresh(EtherType::Ipv6, LEN, cx) else { return false };
        let payload_len = LEN - IP6;
        let ip = Ipv6Repr {
            hop_limit: HOP_LIMIT,
            ..Ipv6Repr::new(src, dst, IpProtocol::Icmpv6, payload_len)
        };
        let mut packet = Ipv6Packet::new_unchecked(packet_mut(&mut frame));
        let mut written = ip.emit(&mut packet);
        let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
        written = written.and(Icmpv6Repr::Ndisc(m).emit(&mut icmp));
        icmp.fill_checksum(&ip.pseudo_header());
        debug_assert!(written.is_ok(), "{written:?}");
        match mac {
            Some(mac) => self.send(frame, Origin::Generated, iface, mac, cx),
            None => {
                let hop = super::Hop { iface, next: IpAddr::V6(dst) };
                self.transmit(frame, Origin::Generated, hop, cx);
            }
        }
        true
    }
}
