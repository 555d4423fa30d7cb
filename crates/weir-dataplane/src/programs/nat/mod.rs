//! `nat`: network address and port translation, IPv4 to IPv4 (NAT44), between two ports, inside
//! and outside. Knows its ports, the time and the frames that the software stage hands it.
//!
//! What it does, by RFC 4787 (UDP), RFC 5382 (TCP) and RFC 5508 (ICMP):
//! - An internal address and port has one external address and port, whoever it speaks to
//!   (endpoint-independent mapping), and everybody may answer there (endpoint-independent
//!   filtering). A host has one external address; ports are never shared (`mapping.rs`).
//! - Mappings are renewed by packets from inside, those of TCP also by its first peer's, and end
//!   when their time is over. That of TCP is short after a reset, if its peer can have sent that (`connection/reset`). Ports and mappings are bounded: what would need one more is dropped,
//!   and counted.
//! - Hosts inside reach each other by their external addresses (hairpinning), and are seen by them.
//! - ICMP echo and timestamp queries are translated by their identifier; errors with the packet
//!   that they quote (`icmp.rs`).
//! - As a router it checks headers, takes one from the TTL and writes Ethernet's addresses: outside
//!   the gateway's, inside those of the mapping's last frame. Checksums are mended (RFC 1624).
//! - Answers ARP requests for its addresses, each on its link, and echo requests to those inside; tells who sends what is too long or
//!   has no TTL left (`own.rs`).
//!
//! - Fragments are translated as the first of their packet, which must come first (RFC 4787 REQ-14a; `connection/pieces`). What is too long
//!   for the next link and may be cut is cut (REQ-13a), fragments, too.
//! - What goes out and is, or may become, fragments has an identification of the NAT's own (`ident.rs`).
//!
//! What it does not do: put fragments together; keep a port's parity or its range of well-known ports
//! (REQ-3b, REQ-4); look into payloads (RFC 6888's ALGs); look into frames of
//! VLANs and IPv6 (they are dropped; VLAN 0 is none).

mod config;
mod icmp;
mod ident;
mod mapping;
mod own;

pub use config::{MOST_ADDRESSES, NatConfig, NatError, NatSide, NatTimeouts, PortOrder};

use super::connection::age::{SWEEP, SWEEPS, Stamp};
use super::connection::arp;
use super::connection::pieces::{Pieces, Went};
use super::connection::reset::segment;
use super::connection::tuple::{
    Opened, Side, Tuple, What, decrement_ttl, forward, glance, is_host, open, packet_mut, rewrite,
};
use super::connection::usual;
use super::priority_tag;
use crate::action::PortNo;
use crate::program::{Ahead, Program, ProgramCx, SlowFrame, of_kind};
use ident::{Name, is_atomic};
use mapping::{Mappings, Refused};
use own::{Notice, Own};
use std::net::Ipv4Addr;
use weir_packet::{DropReason, Frame, Nanos};
use weir_wire::{EthernetFrame, MacAddr};

/// What happened so far, in frames where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatCounters {
    /// Translated on their way out.
    pub outward: u64,
    /// Translated on their way in.
    pub inward: u64,
    /// From inside to inside, by an external address.
    pub hairpinned: u64,
    /// ICMP errors among them.
    pub errors: u64,
    /// Mappings made.
    pub made: u64,
    /// From outside, to no mapping.
    pub unmapped: u64,
    /// From inside, and there were as many mappings as there may be.
    pub full: u64,
    /// From inside, and no port was free.
    pub no_port: u64,
    /// Whose TTL was over.
    pub ttl: u64,
    /// Longer than the next link takes, and not to be cut or without frames for its pieces.
    pub too_long: u64,
    /// Cut for the next link, among those that were translated.
    pub fragmented: u64,
    /// Fragments that were translated, among those above.
    pub pieces: u64,
    /// Fragments whose packet is not known.
    pub fragments: u64,
    /// Of a protocol that is not translated, or from or to an address that no host has.
    pub other: u64,
    /// Not to its MAC, or not IPv4.
    pub not_ours: u64,
    /// Not what their headers say.
    pub malformed: u64,
    /// ARP requests answered.
    pub answered: u64,
    /// Echo requests to its own addresses inside, answered.
    pub echoes: u64,
    /// ICMP errors of its own.
    pub said: u64,
    /// Mappings whose time was over.
    pub expired: u64,
}

/// The NAT.
#[derive(Debug)]
pub struct Nat {
    inside: NatSide,
    outside: NatSide,
    gateway: MacAddr,
    inside_addresses: Vec<Ipv4Addr>,
    mappings: Mappings,
    pieces: Pieces,
    own: Own,
    swept: Nanos,
    counters: NatCounters,
}

/// Where a frame came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Inside,
    Outside,
}

/// Whom a translated packet goes to.
#[derive(Clone, Copy, Debug)]
enum To {
    /// Everybody else, by the gateway.
    Outside,
    /// A host inside.
    Inside(MacAddr),
}

impl Nat {
    /// A NAT without mappings.
    ///
    /// # Errors
    /// [`NatError`] when the configuration contradicts itself.
    pub fn new(config: &NatConfig) -> Result<Self, NatError> {
        config::check(config)?;
        Ok(Self {
            inside: config.inside,
            outside: config.outside,
            gateway: config.gateway,
            inside_addresses: config.inside_addresses.clone(),
            mappings: Mappings::new(config),
            pieces: Pieces::default(),
            own: Own::new(),
            swept: Nanos(0),
            counters: NatCounters::default(),
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> NatCounters {
        self.counters
    }
    /// Mappings there are; those whose time is over may be among them for a while.
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    fn refuse<T>(&mut self, why: fn(&mut NatCounters) -> &mut u64) -> Result<T, DropReason> {
        *why(&mut self.counters) += 1;
        Err(DropReason::Program)
    }

    /// A packet from inside, translated in place.
    #[inline(always)]
    fn outward(
        &mut self,
        bytes: &mut [u8],
        t: Tuple,
        from: MacAddr,
        now: Stamp,
    ) -> Result<To, DropReason> {
        if !is_host(t.src.addr)
            || !is_host(t.dst.addr)
            || self.mappings.address(t.src.addr).is_some()
        {
            return self.refuse(|c| &mut c.other);
        }
        if self.inside_addresses.contains(&t.dst.addr) {
            return self.for_itself(bytes, &t).map(|()| To::Inside(from));
        }
        self.ttl(t)?;
        match t.what {
            What::Tcp(_) | What::Udp | What::Ask | What::Piece(_) => {}
            What::Error => {
                self.error_outward(bytes, &t, now)?;
                return self.after_outward(bytes, t, now);
            }
            _ => return self.not_translated(),
        }
        let Some(kind) = t.what.kind() else { return self.not_translated() };
        let (place, out) = match self.mappings.outward(t.src, kind, from, now) {
            Ok(found) => found,
            Err(Refused::Full) => return self.refuse(|c| &mut c.full),
            Err(Refused::NoPort) => return self.refuse(|c| &mut c.no_port),
        };
        self.counters.made += u64::from(out.new);
        if let What::Tcp(flags) = t.what {
            self.mappings.tcp_out(place, t.dst, flags, segment(bytes, t.l4));
        }
        if self.mappings.address(t.dst.addr).is_some() {
            rewrite(packet_mut(bytes), &t, Side::Source, out.external);
            return self.hairpin(bytes, Tuple { src: out.external, ..t }, now);
        }
        forward(bytes, t, Side::Source, out.external);
        self.counters.outward += 1;
        Ok(To::Outside)
    }

    /// Where an error goes whose source is translated: out, or in again.
    #[inline(never)]
    fn after_outward(&mut self, bytes: &mut [u8], t: Tuple, now: Stamp) -> Result<To, DropReason> {
        if self.mappings.address(t.dst.addr).is_some() {
            // Its source is another now.
            let Ok(Opened::Ipv4(_, t)) = open(bytes) else {
                return self.refuse(|c| &mut c.malformed);
            };
            return self.hairpin(bytes, t, now);
        }
        decrement_ttl(bytes);
        self.counters.outward += 1;
        Ok(To::Outside)
    }

    /// A packet of a host inside to another, by their external addresses; its source is one already.
    #[inline(never)]
    fn hairpin(&mut self, bytes: &mut [u8], t: Tuple, now: Stamp) -> Result<To, DropReason> {
        let mac = self.deliver_inside(bytes, t, now)?;
        self.counters.hairpinned += 1;
        Ok(To::Inside(mac))
    }

    /// A packet from outside, translated in place.
    #[inline(always)]
    fn inward(&mut self, bytes: &mut [u8], t: Tuple, now: Stamp) -> Result<To, DropReason> {
        if !is_host(t.src.addr) || self.mappings.address(t.src.addr).is_some() {
            return self.refuse(|c| &mut c.other);
        }
        self.ttl(t)?;
        let mac = self.deliver_inside(bytes, t, now)?;
        self.counters.inward += 1;
        Ok(To::Inside(mac))
    }

    /// A packet to an external address, translated in place with one taken from its TTL; its
    /// host's MAC.
    #[inline(always)]
    fn deliver_inside(
        &mut self,
        bytes: &mut [u8],
        t: Tuple,
        now: Stamp,
    ) -> Result<MacAddr, DropReason> {
        let kind = match t.what {
            What::Error => {
                let mac = self.error_inward(bytes, &t, now)?;
                decrement_ttl(bytes);
                return Ok(mac);
            }
            // Nobody inside is asked by an identifier of its own asking.
            What::Ask => return self.refuse(|c| &mut c.unmapped),
            what => what.kind(),
        };
        let Some(kind) = kind else { return self.not_translated() };
        let Some((place, inside, mac)) = self.mappings.inward(t.dst, kind, now) else {
            return self.refuse(|c| &mut c.unmapped);
        };
        if let What::Tcp(flags) = t.what {
            self.mappings.tcp_in(place, t.src, flags, segment(bytes, t.l4), now);
        }
        forward(bytes, t, Side::Destination, inside);
        Ok(mac)
    }

    #[inline]
    fn ttl(&mut self, t: Tuple) -> Result<(), DropReason> {
        if t.ttl > 1 {
            return Ok(());
        }
        self.counters.ttl += 1;
        Err(DropReason::TtlExpired)
    }

    fn not_translated<T>(&mut self) -> Result<T, DropReason> {
        self.refuse(|c| &mut c.other)
    }

    #[inline(always)]
    fn came_from(&self, port: PortNo) -> Option<From> {
        match port {
            p if p == self.inside.port => Some(From::Inside),
            p if p == self.outside.port => Some(From::Outside),
            _ => None,
        }
    }

    fn not_ours(&mut self, frame: Frame, cx: &mut ProgramCx<'_>) {
        self.counters.not_ours += 1;
        cx.drop(frame, DropReason::Program);
    }

    /// An IPv4 packet and the MAC that it was sent to. Whether it went on.
    #[inline(always)]
    fn translate(
        &mut self,
        mut rx: SlowFrame,
        dst: MacAddr,
        t: Tuple,
        name: Name,
        cx: &mut ProgramCx<'_>,
    ) -> Went {
        let now = Stamp::of(cx.now());
        let from = match self.came_from(rx.in_port) {
            Some(From::Inside) if dst == self.inside.mac => From::Inside,
            Some(From::Outside) if dst == self.outside.mac => From::Outside,
            _ => {
                self.not_ours(rx.frame, cx);
                return Went::Nowhere;
            }
        };
        if rx.frame.len() > self.own.room
            && let Some(mtu) = self.too_long(rx.frame.bytes(), &t, from)
        {
            self.counters.too_long += 1;
            self.say(Notice::TooLong(mtu), rx.frame.bytes(), &t, from, cx);
            cx.drop(rx.frame, DropReason::FrameTooLong);
            return Went::Nowhere;
        }
        let done = match from {
            From::Inside => {
                let from = EthernetFrame::new_unchecked(rx.frame.bytes()).src();
                self.outward(rx.frame.bytes_mut(), t, from, now)
            }
            From::Outside => self.inward(rx.frame.bytes_mut(), t, now),
        };
        let mut frame = rx.frame;
        let (link, mac) = match done {
            Ok(To::Outside) => (self.outside, self.gateway),
            Ok(To::Inside(mac)) => (self.inside, mac),
            Err(why) => {
                if why == DropReason::TtlExpired {
                    self.say(Notice::TtlOver, frame.bytes(), &t, from, cx);
                }
                cx.drop(frame, why);
                return Went::Nowhere;
            }
        };
        let mut eth = EthernetFrame::new_unchecked(frame.bytes_mut());
        eth.set_dst(mac);
        eth.set_src(link.mac);
        let renamed = from == From::Inside && !is_atomic(frame.bytes());
        if renamed || frame.len() > self.own.room {
            return self.send_unusual(frame, t, (from, name), link, cx);
        }
        cx.output(frame, link.port);
        Went::On
    }

    /// A fragment goes as the first of its packet did.
    fn fragment(&mut self, rx: SlowFrame, dst: MacAddr, t: Tuple, cx: &mut ProgramCx<'_>) {
        // Who may speak of our packets' pieces.
        let link = if rx.in_port == self.inside.port { self.inside } else { self.outside };
        if dst != link.mac {
            return self.not_ours(rx.frame, cx);
        }
        let now = Stamp::of(cx.now());
        let Some(mut piece) = self.pieces.of(rx.frame.bytes(), t, rx.in_port, now) else {
            self.counters.fragments += 1;
            return cx.drop(rx.frame, DropReason::Fragment);
        };
        // Who is outside has an address of its own. What has come once more stays with those that are on their way.
        if !piece.is_behind() && rx.in_port == self.inside.port {
            let next = || self.own.idents.next(&piece.tuple);
            piece.ident = piece.before.unwrap_or_else(next);
        }
        let went = self.translate(rx, dst, piece.tuple, Name::Of(piece.ident), cx);
        self.counters.pieces += u64::from(went == Went::On);
        self.pieces.note(&piece, went, now);
    }

    /// What is not a usual frame.
    #[inline(never)]
    fn unusual(&mut self, mut rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        if self.came_from(rx.in_port).is_none() {
            return self.not_ours(rx.frame, cx);
        }
        priority_tag::take_out(&mut rx.frame);
        match open(rx.frame.bytes()) {
            Ok(Opened::Ipv4(dst, t)) if t.what == What::Fragment => self.fragment(rx, dst, t, cx),
            Ok(Opened::Ipv4(dst, t)) => _ = self.translate(rx, dst, t, Name::Next, cx),
            Ok(Opened::Arp) => self.arp(rx, cx),
            Ok(Opened::Other) => self.not_ours(rx.frame, cx),
            Err(why) => {
                self.counters.malformed += 1;
                cx.drop(rx.frame, why);
            }
        }
    }

    fn arp(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let answered = if rx.in_port == self.inside.port {
            arp::answer(rx, self.inside.mac, |a| self.inside_addresses.contains(&a), cx)
        } else {
            arp::answer(rx, self.outside.mac, |a| self.mappings.address(a).is_some(), cx)
        };
        self.counters.answered += u64::from(answered);
    }
}

impl Program for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    /// Mappings whose external endpoints are this one's, too, and what it has to know of its links, where their ports are the same.
    fn take_over(&mut self, before: Box<dyn Program>) {
        let Some(before) = of_kind::<Self>(before) else { return };
        if (before.inside.port, before.outside.port) == (self.inside.port, self.outside.port) {
            (self.counters, self.swept) = (before.counters, before.swept);
            (self.pieces, self.own) = (before.pieces, before.own);
            self.mappings.take_over(before.mappings);
        }
    }

    fn expect(&self, frame: &Frame, in_port: PortNo) -> Ahead {
        match glance(frame.bytes()) {
            Some((src, _, kind)) if in_port == self.inside.port => {
                self.mappings.expect_outward(src, kind);
                return self.mappings.ahead();
            }
            Some((_, dst, kind)) => self.mappings.expect_inward(dst, kind),
            None => {}
        }
        Ahead::All
    }

    fn expect_further(&self, frame: &Frame, in_port: PortNo) {
        if in_port == self.inside.port
            && let Some((src, _, kind)) = glance(frame.bytes())
        {
            self.mappings.expect_mapping(src, kind);
        }
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        match usual::open(rx.frame.bytes()) {
            Some((dst, t)) => _ = self.translate(rx, dst, t, Name::Next, cx),
            None => self.unusual(rx, cx),
        }
    }

    /// Mappings age in seconds.
    fn patience(&self) -> Nanos {
        SWEEP
    }

    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        if cx.now().since(self.swept) < SWEEP {
            return;
        }
        self.swept = cx.now();
        self.look_at_links(cx);
        self.counters.expired += self.mappings.sweep(SWEEPS, Stamp::of(cx.now())) as u64;
    }

    fn status(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let lines = [
            ("mappings", format!("{} of {}", self.mappings.len(), self.mappings.most())),
            ("outward", c.outward.to_string()),
            ("inward", c.inward.to_string()),
            ("hairpinned", c.hairpinned.to_string()),
            ("ICMP errors", c.errors.to_string()),
            ("made", c.made.to_string()),
            ("unmapped", c.unmapped.to_string()),
            ("mappings full", c.full.to_string()),
            ("no port free", c.no_port.to_string()),
            ("TTL over", c.ttl.to_string()),
            ("too long", c.too_long.to_string()),
            ("fragmented", c.fragmented.to_string()),
            ("fragments passed", c.pieces.to_string()),
            ("fragments dropped", c.fragments.to_string()),
            ("other protocols", c.other.to_string()),
            ("not ours", c.not_ours.to_string()),
            ("malformed", c.malformed.to_string()),
            ("ARP answered", c.answered.to_string()),
            ("echo requests answered", c.echoes.to_string()),
            ("ICMP errors of its own", c.said.to_string()),
            ("expired", c.expired.to_string()),
        ];
        lines.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
