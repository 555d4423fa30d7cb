//! `firewall`: a stateful firewall for IPv4 between two ports, inside and outside. Knows its ports,
//! the time and the frames that the software stage hands it.
//!
//! What it does:
//! - Whatever is inside may begin connections. From outside nothing may be begun but what `allow`
//!   says; all else that comes in belongs to a connection or is dropped.
//! - TCP by its flags (`state.rs`), from its first segment on, or from any if it is told so, UDP as connections in one or both directions, ICMP queries by
//!   their identifier. ICMP errors pass when the packet that they quote is of a connection here,
//!   they go to its sender, and their checksum is right.
//! - UDP to a group or to all passes and is no connection: from inside whatever it is, from outside what `allow` says. That is DHCP, mDNS …;
//!   who answers by its own address has to be allowed.
//! - Connections are forgotten when their time is over. The table is bounded: a connection beyond
//!   it is refused, and counted.
//! - Frames pass as they are; addresses stay. ARP passes in both directions.
//! - The reset of an open TCP connection passes. It is believed from inside, where hosts may end what is theirs, and from outside if its number is
//!   one that inside waits for (`connection/reset`).
//!
//! What it does not do: follow TCP's sequence numbers any further; put fragments together (they pass as the first of their packet did, if that came first);
//! look into IPv6, frames of VLANs (0 is none: that tag is taken out) or other protocols than TCP, UDP and ICMP (they are dropped);
//! answer what it refuses.

mod config;
mod state;

pub use config::{
    Allow, FirewallConfig, FirewallError, FirewallTimeouts, MOST_CONNECTIONS, Midstream,
};

use super::connection::Endpoint;
use super::connection::age::{Limit, SWEEP, SWEEPS, Stamp};
use super::connection::pieces::{Pieces, Went};
use super::connection::reset::{Acked, segment};
use super::connection::tuple::{Kind, Opened, Tuple, What, glance, is_host, open, packet, quoted};
use super::connection::usual;
use super::exact::Exact;
use super::priority_tag;
use crate::action::PortNo;
use crate::program::{Ahead, Program, ProgramCx, SlowFrame, of_kind};
use state::{Phase, Side, State, Verdict};
use std::net::{IpAddr, Ipv4Addr};
use weir_packet::{DropReason, Frame, Nanos};
use weir_wire::Icmpv4Packet;
use weir_wire::icmpv4::HEADER_LEN as ICMP;
use weir_wire::tcp::Flags;

/// One connection; with its key it takes half a line of cache.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    seen: Stamp,
    state: State,
    /// What TCP acknowledged last from inside.
    acked: Acked,
}

/// A line holds two of them, their keys of 16 bytes, and a word.
const _: () = assert!(size_of::<Connection>() == 12);

impl Connection {
    /// One that a packet from this side begins.
    #[inline(always)]
    fn new(state: State, seen: Stamp, t: Tuple, bytes: &[u8], from: Side) -> Self {
        let mut c = Self { seen, state, acked: Acked::default() };
        c.note(t, bytes, from);
        c
    }
    /// What a packet from this side acknowledges.
    #[inline(always)]
    fn note(&mut self, t: Tuple, bytes: &[u8], from: Side) {
        if let What::Tcp(flags) = t.what
            && from == Side::Inside
            && flags.contains(Flags::ACK)
        {
            self.acked = Acked::of(segment(bytes, t.l4));
        }
    }
    /// The reset of an open connection: from outside, its number is what inside waits for, or nothing is changed.
    #[cold]
    fn reset(&mut self, segment: &[u8], from: Side, now: Stamp) {
        if from == Side::Inside || self.acked.admits(segment) {
            (self.state, self.seen) = (State::Reset, now);
        }
    }
}

/// What happened so far, in frames where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirewallCounters {
    /// Passed.
    pub passed: u64,
    /// Of these: ICMP errors about a connection.
    pub related: u64,
    /// Of these: UDP to a group or to all.
    pub to_groups: u64,
    /// Connections begun.
    pub begun: u64,
    /// Would have begun a connection from outside that nothing allows.
    pub refused: u64,
    /// Belonged to no connection, or not to this point of one.
    pub invalid: u64,
    /// Would have begun a connection, and the table was full.
    pub full: u64,
    /// Fragments that passed, among those above.
    pub pieces: u64,
    /// Fragments whose packet is not known.
    pub fragments: u64,
    /// Of a protocol that is not looked into.
    pub other: u64,
    /// Not what their headers say.
    pub malformed: u64,
    /// Connections whose time was over.
    pub expired: u64,
}

/// By phase.
#[derive(Debug)]
struct Limits([Limit; Phase::COUNT]);

impl Limits {
    fn new(t: FirewallTimeouts) -> Self {
        Self(Phase::ALL.map(|phase| {
            Limit::of(match phase {
                Phase::TcpOpening => t.tcp_opening,
                Phase::TcpOpen => t.tcp_open,
                Phase::TcpClosing => t.tcp_closing,
                Phase::UdpOneWay => t.udp_one_way,
                Phase::UdpBothWays => t.udp_both_ways,
                Phase::Query => t.query,
            })
        }))
    }
    #[inline]
    fn of(&self, state: State) -> Limit {
        self.0[state.phase() as usize]
    }
}

/// The firewall.
#[derive(Debug)]
pub struct Firewall {
    pieces: Pieces,
    inside: PortNo,
    outside: PortNo,
    allow: Vec<Allow>,
    table: Exact<[u64; 2], Connection, 2>,
    limits: Limits,
    midstream: Midstream,
    swept: Nanos,
    counters: FirewallCounters,
}

/// A connection's key: inside end, outside end, protocol.
#[inline]
fn key(src: Endpoint, dst: Endpoint, kind: Kind, from: Side) -> [u64; 2] {
    let (inside, outside) = match from {
        Side::Inside => (src, dst),
        Side::Outside => (dst, src),
    };
    [inside.word(), outside.word() << 8 | kind as u64]
}

/// Whether a datagram is one to many, of a host or of who has no address yet (RFC 2131 §4.1): nobody can answer it by the same addresses.
fn is_to_group(src: Ipv4Addr, dst: Ipv4Addr) -> bool {
    dst == Ipv4Addr::BROADCAST && (is_host(src) || src.is_unspecified())
        || dst.is_multicast() && is_host(src)
}

/// Whether an ICMP message is what was sent. Quotes are read of errors, so theirs are looked at; queries' are their receiver's matter.
fn has_good_checksum(t: &Tuple, bytes: &[u8]) -> bool {
    let message = packet(bytes).get(t.l4..t.end).unwrap_or(&[]);
    Icmpv4Packet::new_checked(message).is_ok_and(|m| m.has_good_checksum())
}

impl Firewall {
    /// A firewall that knows no connection.
    ///
    /// # Errors
    /// [`FirewallError`] when the configuration contradicts itself.
    pub fn new(config: &FirewallConfig) -> Result<Self, FirewallError> {
        config::check(config)?;
        Ok(Self {
            pieces: Pieces::default(),
            inside: config.inside,
            outside: config.outside,
            allow: config.allow.clone(),
            table: Exact::new(config.max_connections),
            limits: Limits::new(config.timeouts),
            midstream: config.midstream,
            swept: Nanos(0),
            counters: FirewallCounters::default(),
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> FirewallCounters {
        self.counters
    }
    /// Connections that are remembered; those whose time is over may be among them for a while.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    fn allows(&self, t: &Tuple, kind: Kind) -> bool {
        self.allow.iter().any(|a| {
            a.protocol == kind
                && a.to.contains(IpAddr::V4(t.dst.addr))
                && (kind == Kind::Query || a.ports.contains(&t.dst.port))
        })
    }

    /// Whether a packet passes; counts it if not.
    #[inline(always)]
    fn judge(&mut self, t: Tuple, bytes: &[u8], from: Side, now: Stamp) -> Result<(), DropReason> {
        let Some(kind) = t.what.kind() else { return self.without_ports(&t, bytes, from, now) };
        let key = key(t.src, t.dst, kind, from);
        let found = self.table.get_mut(&key);
        let state = match &found {
            Some(c) if !c.seen.is_older(self.limits.of(c.state), now) => Some(c.state),
            _ => None,
        };
        let verdict = match t.what {
            What::Tcp(flags) => state::tcp(state, from, flags),
            What::Udp => state::udp(state, from),
            what => state::query(state, from, what == What::Ask),
        };
        match (verdict, found) {
            (Verdict::Pass(state), Some(c)) => {
                (c.state, c.seen) = (state, now);
                c.note(t, bytes, from);
            }
            (Verdict::Let, _) => {}
            (Verdict::Reset, Some(c)) => c.reset(segment(bytes, t.l4), from, now),
            (Verdict::Midstream(state), _) if self.midstream == Midstream::Follow => {
                let c = Connection::new(state, now, t, bytes, from);
                return self.begin(t, kind, key, from, c);
            }
            (Verdict::Begin(state), _) => {
                let c = Connection::new(state, now, t, bytes, from);
                return self.begin(t, kind, key, from, c);
            }
            (Verdict::Invalid | Verdict::Midstream(_) | Verdict::Pass(_) | Verdict::Reset, _) => {
                self.counters.invalid += 1;
                return Err(DropReason::Program);
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn begin(
        &mut self,
        t: Tuple,
        kind: Kind,
        key: [u64; 2],
        from: Side,
        c: Connection,
    ) -> Result<(), DropReason> {
        let refused = match from {
            Side::Inside => false,
            Side::Outside => !self.allows(&t, kind),
        };
        if refused {
            self.counters.refused += 1;
            return Err(DropReason::Program);
        }
        if kind == Kind::Udp && is_to_group(t.src.addr, t.dst.addr) {
            self.counters.to_groups += 1;
            return Ok(());
        }
        if !is_host(t.src.addr) || !is_host(t.dst.addr) {
            self.counters.invalid += 1;
            return Err(DropReason::Program);
        }
        if self.table.insert(key, c).is_err() {
            self.counters.full += 1;
            return Err(DropReason::Program);
        }
        self.counters.begun += 1;
        Ok(())
    }

    /// An ICMP error, or what nobody here knows.
    fn without_ports(
        &mut self,
        t: &Tuple,
        bytes: &[u8],
        from: Side,
        now: Stamp,
    ) -> Result<(), DropReason> {
        match t.what {
            What::Error if !has_good_checksum(t, bytes) => {
                self.counters.malformed += 1;
                Err(DropReason::Malformed)
            }
            What::Error if self.is_related(t, bytes, from, now) => {
                self.counters.related += 1;
                Ok(())
            }
            What::Error => {
                self.counters.invalid += 1;
                Err(DropReason::Program)
            }
            _ => {
                self.counters.other += 1;
                Err(DropReason::Program)
            }
        }
    }

    /// Whether an error quotes a packet of a connection, and goes to who sent that packet.
    fn is_related(&self, t: &Tuple, bytes: &[u8], from: Side, now: Stamp) -> bool {
        let about = packet(bytes).get(t.l4 + ICMP..t.end).and_then(quoted);
        let Some(q) = about.filter(|q| q.src.addr == t.dst.addr) else { return false };
        let Some(kind) = q.what.kind() else { return false };
        let found = self.table.get(&key(q.src, q.dst, kind, from.other()));
        found.is_some_and(|c| !c.seen.is_older(self.limits.of(c.state), now))
    }
}

impl Firewall {
    /// The side that a port is on, and the port that frames from there leave by.
    #[inline(always)]
    fn sides(&self, port: PortNo) -> Option<(Side, PortNo)> {
        match port {
            p if p == self.inside => Some((Side::Inside, self.outside)),
            p if p == self.outside => Some((Side::Outside, self.inside)),
            _ => None,
        }
    }

    /// An IPv4 packet.
    #[inline(always)]
    fn filter(&mut self, rx: SlowFrame, t: Tuple, cx: &mut ProgramCx<'_>) {
        let frame = rx.frame;
        let Some((from, to)) = self.sides(rx.in_port) else { return self.other(frame, cx) };
        match self.judge(t, frame.bytes(), from, Stamp::of(cx.now())) {
            Ok(()) => self.pass(frame, to, cx),
            Err(why) => cx.drop(frame, why),
        }
    }

    /// A fragment passes as the first of its packet did.
    fn fragment(&mut self, rx: SlowFrame, t: Tuple, cx: &mut ProgramCx<'_>) {
        let Some((from, to)) = self.sides(rx.in_port) else { return self.other(rx.frame, cx) };
        let now = Stamp::of(cx.now());
        let Some(piece) = self.pieces.of(rx.frame.bytes(), t, rx.in_port, now) else {
            self.counters.fragments += 1;
            return cx.drop(rx.frame, DropReason::Fragment);
        };
        if !piece.is_behind()
            && let Err(why) = self.judge(piece.tuple, rx.frame.bytes(), from, now)
        {
            self.pieces.note(&piece, Went::Nowhere, now);
            return cx.drop(rx.frame, why);
        }
        self.pieces.note(&piece, Went::On, now);
        self.counters.pieces += 1;
        self.pass(rx.frame, to, cx);
    }

    #[inline(always)]
    fn pass(&mut self, frame: Frame, to: PortNo, cx: &mut ProgramCx<'_>) {
        self.counters.passed += 1;
        cx.output(frame, to);
    }

    fn other(&mut self, frame: Frame, cx: &mut ProgramCx<'_>) {
        self.counters.other += 1;
        cx.drop(frame, DropReason::Program);
    }

    /// What is not a usual frame.
    #[inline(never)]
    fn unusual(&mut self, mut rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let Some((_, to)) = self.sides(rx.in_port) else { return self.other(rx.frame, cx) };
        priority_tag::take_out(&mut rx.frame);
        match open(rx.frame.bytes()) {
            Ok(Opened::Ipv4(_, t)) if t.what == What::Fragment => self.fragment(rx, t, cx),
            Ok(Opened::Ipv4(_, t)) => self.filter(rx, t, cx),
            Ok(Opened::Arp) => self.pass(rx.frame, to, cx),
            Ok(Opened::Other) => self.other(rx.frame, cx),
            Err(why) => {
                self.counters.malformed += 1;
                cx.drop(rx.frame, why);
            }
        }
    }
}

impl Program for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    /// Connections, where the ports are the same; their times and what may be begun are this one's own.
    fn take_over(&mut self, before: Box<dyn Program>) {
        let Some(before) = of_kind::<Self>(before) else { return };
        if (before.inside, before.outside) != (self.inside, self.outside) {
            return;
        }
        self.pieces = before.pieces;
        (self.counters, self.swept) = (before.counters, before.swept);
        if before.table.capacity() == self.table.capacity() {
            self.table = before.table;
        } else {
            self.table.take_over(&before.table, |_, _| true);
        }
    }

    fn expect(&self, frame: &Frame, in_port: PortNo) -> Ahead {
        if let Some((src, dst, kind)) = glance(frame.bytes()) {
            let from = if in_port == self.inside { Side::Inside } else { Side::Outside };
            self.table.prefetch(self.table.hash(&key(src, dst, kind, from)));
        }
        Ahead::All
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        match usual::open(rx.frame.bytes()) {
            Some((_, t)) => self.filter(rx, t, cx),
            None => self.unusual(rx, cx),
        }
    }

    /// Connections age in seconds.
    fn patience(&self) -> Nanos {
        SWEEP
    }

    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        if cx.now().since(self.swept) < SWEEP {
            return;
        }
        self.swept = cx.now();
        let (limits, now) = (&self.limits, Stamp::of(cx.now()));
        let some = self.table.buckets().div_ceil(SWEEPS);
        let gone = self.table.sweep(some, |_, c| c.seen.is_older(limits.of(c.state), now));
        self.counters.expired += gone as u64;
    }

    fn status(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let lines = [
            ("connections", format!("{} of {}", self.table.len(), self.table.capacity())),
            ("passed", c.passed.to_string()),
            ("related errors", c.related.to_string()),
            ("to groups", c.to_groups.to_string()),
            ("begun", c.begun.to_string()),
            ("refused", c.refused.to_string()),
            ("invalid", c.invalid.to_string()),
            ("table full", c.full.to_string()),
            ("fragments passed", c.pieces.to_string()),
            ("fragments dropped", c.fragments.to_string()),
            ("other protocols", c.other.to_string()),
            ("malformed", c.malformed.to_string()),
            ("expired", c.expired.to_string()),
        ];
        lines.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
