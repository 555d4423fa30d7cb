//! `router`: an IPv4 and IPv6 router (RFC 1812, RFC 8200) with ARP, neighbour discovery and ICMP.
//! Knows its ports, the time and the frames that the software stage hands it.
//!
//! What it does:
//! - forwards by longest prefix; decrements TTL and hop limit; trims Ethernet's padding;
//! - finds neighbours by ARP (RFC 826) and neighbour discovery (RFC 4861), keeps frames for them
//!   while it asks, asks again, gives up, forgets (`neighbour.rs`);
//! - says by MLD which groups neighbour discovery has it in (`mld.rs`);
//! - answers pings to its own addresses, and says by ICMP what it could not do (`icmp.rs`);
//! - puts packets to itself together that come in pieces, within bounds (`gather.rs`), and answers in pieces where it must
//!   (`apart.rs`);
//! - cuts IPv4 packets that are too long for the next link and may be cut (`cut.rs`, above).
//!
//! What it does not do, so that nobody looks for it:
//! - Tagged frames: an interface is a port. Frames with a VLAN tag are dropped, but for priority tags, which name no
//!   VLAN (802.1Q §6.9.1): the tag is taken out.
//! - Redirects, in either direction. A packet that leaves by the link it came from is forwarded.
//! - Router advertisements, router solicitations: neither sent nor answered nor heeded. Duplicate
//!   address detection: its addresses are configured and taken as its own.
//! - Multicast routing, IGMP: packets to groups other than neighbour discovery's end here.
//! - Source routes: a packet that is to go on by one is dropped, and its sender told (RFC 7126 §4.3, §4.4). Of other
//!   IPv4 options routes are recorded and times stamped (`options.rs`), and the rest passed on as they are, as IPv6
//!   hop-by-hop options are. Directed broadcasts are not forwarded (RFC 2644).
//! - Own services: UDP to its addresses gets "port unreachable", other protocols "protocol
//!   unreachable" or, in IPv6, "unrecognised next header"; a wrong checksum gets nothing.
//!
//! A frame ends as forwarded; or consumed, when it was for the router; or dropped with its reason.
//! ARP, neighbour discovery, MLD, echo replies and errors are frames of the router's own, for which it
//! takes spare frames; without one, it stays silent.

mod apart;
mod arp;
mod build;
mod config;
mod gather;
mod icmp;
mod intact;
mod ipv4;
mod ipv6;
mod lpm;
mod mld;
mod ndisc;
mod neighbour;
mod options;
mod routes;
mod status;

pub use crate::programs::said::IcmpLimit;
pub use config::{
    Interface, MIN_MTU_V4, MIN_MTU_V6, NeighbourConfig, NextHop, ParsePrefixError, Permanent,
    Prefix, Route, RouterConfig, RouterError,
};
pub use neighbour::NeighbourState;
pub use status::{Neighbour, RouterCounters};

use crate::action::PortNo;
use crate::program::{Ahead, End, Origin, Program, ProgramCx, ProgramPort, SlowFrame, of_kind};
use crate::programs::hash::fresh_seed;
use crate::programs::priority_tag;
use crate::programs::said::TokenBucket;
use gather::Gathered;
use mld::Listener;
use neighbour::{Ask, Cache, Due, Held, Key, Use};
use routes::Routes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_packet::{DropReason, Frame, LinkState, Nanos};
use weir_wire::ethernet::HEADER_LEN as ETH;
use weir_wire::{EtherType, EthernetFrame, EthernetRepr, MacAddr};

/// An interface's place among the router's.
type IfaceId = u16;

/// One link, ready for use.
#[derive(Debug)]
struct Iface {
    port: PortNo,
    mac: MacAddr,
    mtu: Option<u16>,
    v4: Vec<(Ipv4Addr, Prefix)>,
    /// Global ones.
    v6: Vec<(Ipv6Addr, Prefix)>,
    /// There when it speaks IPv6.
    link_local: Option<Ipv6Addr>,
    /// As it was last looked at.
    link: LinkState,
    listener: Listener,
}

impl Iface {
    /// Whether who is a neighbour of `other` is one of this.
    fn is_link_of(&self, other: &Self) -> bool {
        let link = |i: &Self| (i.port, i.mac, i.v4.clone(), i.v6.clone());
        link(self) == link(other)
    }
    /// Whether `addr` is one of its own.
    fn is_own(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => self.v4.iter().any(|own| own.0 == a),
            IpAddr::V6(a) => self.v6.iter().any(|own| own.0 == a) || self.link_local == Some(a),
        }
    }
    /// Whether `addr` is in one of its networks; all link-local addresses are (RFC 4291 §2.5.6).
    fn is_on_link(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(_) => self.v4.iter().any(|own| own.1.contains(addr)),
            IpAddr::V6(a) => {
                config::is_link_local(a) || self.v6.iter().any(|own| own.1.contains(addr))
            }
        }
    }
    /// Whether it has an address of `addr`'s family.
    fn speaks(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(_) => !self.v4.is_empty(),
            IpAddr::V6(_) => self.link_local.is_some(),
        }
    }
}

/// The next node on a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hop {
    iface: IfaceId,
    next: IpAddr,
}

/// What an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// The router itself.
    Local,
    /// Everybody on a link.
    Broadcast(IfaceId),
    /// The destination, on this link.
    Connected(IfaceId),
    /// Another router.
    Gateway(Hop),
    /// Nothing, silently.
    Discard,
}

/// Whom a frame was addressed to on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkDst {
    /// The router alone.
    Us,
    /// A group, or everybody.
    Group,
}

/// How a frame came in.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    iface: IfaceId,
    link: LinkDst,
}

/// The router.
#[derive(Debug)]
pub struct Router {
    /// By port.
    ifaces: Vec<Iface>,
    routes: Routes,
    neighbours: Cache,
    errors: TokenBucket,
    /// When groups are reported next.
    report_at: Nanos,
    /// IPv4 identification of the next packet of its own.
    ident: u16,
    /// Packets of its own that left in pieces of IPv6, and what tells their identifications.
    pieces_sent: u64,
    seed: u64,
    /// Fragments being made; empty between frames.
    pieces: Vec<Frame>,
    /// Packets to it of which fragments are missing.
    gathered: Gathered,
    counters: RouterCounters,
}

impl Router {
    /// A router with these interfaces, routes and limits.
    ///
    /// # Errors
    /// [`RouterError`] when the configuration contradicts itself or can't work.
    pub fn new(config: &RouterConfig) -> Result<Self, RouterError> {
        let (ifaces, routes) = build::build(config)?;
        let mut neighbours = Cache::new(config.neighbours);
        for (key, mac) in build::permanent(config, &ifaces)? {
            neighbours.pin(key, mac);
        }
        Ok(Self {
            ifaces,
            routes,
            neighbours,
            errors: TokenBucket::new(config.icmp),
            report_at: Nanos(0),
            ident: 0,
            pieces_sent: 0,
            seed: fresh_seed(),
            pieces: Vec::new(),
            gathered: Gathered::default(),
            counters: RouterCounters::default(),
        })
    }

    #[inline]
    fn iface_of(&self, port: PortNo) -> Option<IfaceId> {
        // Mostly they are numbered one after the other.
        let first = self.ifaces.first()?.port;
        let near = port.0.wrapping_sub(first.0) as usize;
        if self.ifaces.get(near).is_some_and(|i| i.port == port) {
            return Some(near as IfaceId);
        }
        self.ifaces.binary_search_by_key(&port, |i| i.port).ok().map(|i| i as IfaceId)
    }
    #[inline]
    fn iface(&self, id: IfaceId) -> Option<&Iface> {
        self.ifaces.get(usize::from(id))
    }

    /// The longest packet that leaves by a link, in bytes; `None` when the VDP has lost the port.
    #[inline]
    fn mtu(&self, id: IfaceId, cx: &ProgramCx<'_>) -> Option<usize> {
        let iface = self.iface(id)?;
        let port = cx.ports().iter().find(|p| p.no == iface.port)?;
        let takes = port.ip_bytes as usize;
        Some(iface.mtu.map_or(takes, |m| takes.min(m.into())))
    }

    /// Sends a packet that is ready but for its Ethernet addresses, at once or when the neighbour
    /// has answered.
    #[inline(always)]
    fn transmit(&mut self, frame: Frame, origin: Origin, hop: Hop, cx: &mut ProgramCx<'_>) {
        let key = Key { iface: hop.iface, addr: hop.next };
        match self.neighbours.usable(key, cx.now()) {
            Some(mac) => self.send(frame, origin, hop.iface, mac, cx),
            None => self.transmit_or_ask(frame, origin, hop, cx),
        }
    }

    #[inline(never)]
    fn transmit_or_ask(&mut self, frame: Frame, origin: Origin, hop: Hop, cx: &mut ProgramCx<'_>) {
        if self.iface(hop.iface).is_some_and(|i| i.link != LinkState::Up) {
            // Nobody would hear the question (RFC 1812, 5.2.7.1).
            if origin != Origin::Generated {
                self.unreachable_host(packet(&frame), hop.next, cx);
            }
            return cx.end(frame, End::Drop(DropReason::PortDown), origin);
        }
        let key = Key { iface: hop.iface, addr: hop.next };
        match self.neighbours.resolve(key, cx.now()) {
            Use::Send(mac, ask) => {
                self.send(frame, origin, hop.iface, mac, cx);
                if let Some(ask) = ask {
                    self.ask(key, ask, cx);
                }
            }
            Use::Hold(ask) => {
                if let Some(h) = self.neighbours.hold(key, Held { frame, origin }, cx.most_kept()) {
                    self.counters.queue_overflows += 1;
                    cx.end(h.frame, End::Drop(DropReason::Unreachable), h.origin);
                }
                if let Some(ask) = ask {
                    self.ask(key, ask, cx);
                }
            }
            Use::Full => {
                self.counters.queue_overflows += 1;
                cx.end(frame, End::Drop(DropReason::Unreachable), origin);
            }
        }
    }

    /// Writes a packet's Ethernet addresses and lets it go.
    #[inline(always)]
    fn send(
        &mut self,
        mut frame: Frame,
        origin: Origin,
        iface: IfaceId,
        dst: MacAddr,
        cx: &mut ProgramCx<'_>,
    ) {
        let Some(i) = self.iface(iface) else {
            return cx.end(frame, End::Drop(DropReason::NoSuchPort), origin);
        };
        let port = i.port;
        let mut eth = EthernetFrame::new_unchecked(frame.bytes_mut());
        eth.set_dst(dst);
        eth.set_src(i.mac);
        self.counters.forwarded += u64::from(origin == Origin::Received);
        cx.end(frame, End::Output(port), origin);
    }

    /// A frame of none of its protocols, if it is not one behind a priority tag.
    #[inline(never)]
    fn other(&mut self, mut frame: Frame, from: Arrival, cx: &mut ProgramCx<'_>) {
        if priority_tag::take_out(&mut frame).is_some() {
            match EthernetFrame::new_unchecked(frame.bytes()).ether_type() {
                EtherType::Ipv4 => return self.ipv4(frame, from, cx),
                EtherType::Ipv6 => return self.ipv6(frame, from, cx),
                EtherType::Arp => return self.arp(frame, from, cx),
                _ => {}
            }
        }
        self.counters.not_ours += 1;
        cx.drop(frame, DropReason::Program);
    }

    /// Who was found on a link that has gone may be another by the time it is back.
    fn look_at_links(&mut self, ports: &[ProgramPort], now: Nanos) {
        for p in ports {
            let Some(id) = self.iface_of(p.no) else { continue };
            let Some(iface) = self.ifaces.get_mut(usize::from(id)) else { continue };
            let link = p.up.into();
            if std::mem::replace(&mut iface.link, link) == link {
                continue;
            }
            match link {
                LinkState::Up => {
                    iface.listener.begin(now);
                    self.report_at = now;
                }
                LinkState::Down | LinkState::Gone => self.neighbours.forget(id),
            }
        }
    }

    /// Asks for a neighbour.
    fn ask(&mut self, key: Key, ask: Ask, cx: &mut ProgramCx<'_>) {
        match key.addr {
            IpAddr::V4(a) => self.ask_v4(key.iface, a, ask, cx),
            IpAddr::V6(a) => self.ask_v6(key.iface, a, ask, cx),
        }
    }

    /// Sends what waited for a neighbour.
    fn flush(
        &mut self,
        iface: IfaceId,
        mac: MacAddr,
        waiting: impl IntoIterator<Item = Held>,
        cx: &mut ProgramCx<'_>,
    ) {
        for h in waiting {
            self.send(h.frame, h.origin, iface, mac, cx);
        }
    }

    /// A frame of its own with an Ethernet header and `len` bytes behind it, addresses to follow.
    fn fresh(&mut self, kind: EtherType, len: usize, cx: &mut ProgramCx<'_>) -> Option<Frame> {
        let mut frame = cx.alloc()?;
        if frame.set_len(ETH + len).is_err() {
            cx.unused(frame);
            return None;
        }
        let header = EthernetRepr { src: MacAddr::ZERO, dst: MacAddr::ZERO, ether_type: kind };
        let written = header.emit(&mut EthernetFrame::new_unchecked(frame.bytes_mut()));
        debug_assert!(written.is_ok(), "{written:?}");
        Some(frame)
    }
}

/// A frame's bytes behind the Ethernet header.
#[inline]
fn packet(frame: &Frame) -> &[u8] {
    frame.bytes().get(ETH..).unwrap_or(&[])
}

/// The same, to be changed.
#[inline]
fn packet_mut(frame: &mut Frame) -> &mut [u8] {
    frame.bytes_mut().get_mut(ETH..).unwrap_or(&mut [])
}

/// Where an IPv4 packet is going.
#[inline(always)]
fn destination(frame: &Frame) -> Option<u32> {
    let h = packet(frame).first_chunk::<20>()?;
    Some(u32::from_be_bytes([h[16], h[17], h[18], h[19]]))
}

impl Program for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    /// Neighbours there are asked for anew, and told of groups.
    fn forget_port(&mut self, port: PortNo) {
        let iface = self.ifaces.iter_mut().zip(0..).find(|(i, _)| i.port == port);
        if let Some((iface, id)) = iface {
            iface.listener.begin(Nanos(0));
            self.report_at = Nanos(0);
            self.neighbours.forget(id);
        }
    }

    /// Neighbours on links that are the same.
    fn take_over(&mut self, before: Box<dyn Program>) {
        let Some(before) = of_kind::<Self>(before) else { return };
        (self.counters, self.ident) = (before.counters, before.ident);
        let same = |old: &Iface| self.ifaces.iter().position(|i| i.is_link_of(old));
        let same = |old: &Iface| same(old).map(|i| i as IfaceId);
        let same: Vec<Option<IfaceId>> = before.ifaces.iter().map(same).collect();
        let same = |old: IfaceId| same.get(usize::from(old)).copied().flatten();
        self.neighbours.take_over(before.neighbours, same);
    }

    /// Asks for the route. Only glances: what is wrong with the frame is found when its turn comes.
    #[inline]
    fn expect(&self, frame: &Frame, _: PortNo) -> Ahead {
        let bytes = frame.bytes();
        match bytes.get(12..ETH) {
            Some([0x08, 0x00]) => {
                if let Some(dst) = destination(frame) {
                    self.routes.expect_v4(dst);
                    return self.routes.ahead_v4();
                }
            }
            Some([0x86, 0xdd]) => {
                let dst = packet(frame).get(24..40).and_then(|b| <[u8; 16]>::try_from(b).ok());
                if let Some(dst) = dst {
                    self.routes.expect_v6(u128::from_be_bytes(dst));
                }
            }
            _ => {}
        }
        Ahead::All
    }

    #[inline]
    fn expect_further(&self, frame: &Frame, _: PortNo) {
        if frame.bytes().get(12..ETH) == Some(&[0x08, 0x00])
            && let Some(dst) = destination(frame)
        {
            self.routes.expect_target_v4(dst);
        }
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let SlowFrame { frame, in_port, .. } = rx;
        let Ok(eth) = EthernetFrame::new_checked(frame.bytes()) else {
            return cx.drop(frame, DropReason::Runt);
        };
        let (dst, kind) = (eth.dst(), eth.ether_type());
        let link = if dst.is_multicast() { LinkDst::Group } else { LinkDst::Us };
        let ours = |i: &Iface| link == LinkDst::Group || i.mac == dst;
        let iface = self.iface_of(in_port).filter(|i| self.iface(*i).is_some_and(ours));
        let Some(iface) = iface else {
            self.counters.not_ours += 1;
            return cx.drop(frame, DropReason::Program);
        };
        let from = Arrival { iface, link };
        match kind {
            EtherType::Ipv4 => self.ipv4(frame, from, cx),
            EtherType::Ipv6 => self.ipv6(frame, from, cx),
            EtherType::Arp => self.arp(frame, from, cx),
            _ => self.other(frame, from, cx),
        }
    }

    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        self.look_at_links(cx.ports(), cx.now());
        if cx.now() >= self.report_at {
            self.report(cx);
        }
        self.gathered.forget(cx.now());
        for due in self.neighbours.due(cx.now()) {
            match due {
                Due::Ask(key, ask) => self.ask(key, ask, cx),
                Due::Failed(key, waiting) => {
                    self.counters.neighbours_failed += 1;
                    for h in waiting {
                        if h.origin != Origin::Generated {
                            self.unreachable_host(packet(&h.frame), key.addr, cx);
                        }
                        cx.end(h.frame, End::Drop(DropReason::Unreachable), h.origin);
                    }
                }
            }
        }
    }

    fn held(&self) -> usize {
        self.neighbours.held()
    }

    fn release(&mut self, cx: &mut ProgramCx<'_>) {
        for h in self.neighbours.release() {
            cx.end(h.frame, End::Drop(DropReason::VdpGone), h.origin);
        }
    }

    fn status(&self) -> Vec<(String, String)> {
        self.describe()
    }
}
