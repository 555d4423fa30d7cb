//! `balancer`: a load balancer for TCP and UDP over IPv4, by Maglev's consistent hashing with a
//! table of connections in front. Knows its ports, the time and the frames that the software stage
//! hands it.
//!
//! What it does:
//! - A frame to its MAC and a service's address goes to one of the service's backends: its
//!   Ethernet addresses are rewritten, all else stays, and the backend answers the client itself
//!   (direct server return).
//! - A connection keeps its backend while it lasts and the backend is there, whatever happens to
//!   the others. A new one, and one that found no room in the table, goes where the service's
//!   Maglev table says (`maglev.rs`), so that balancers side by side agree and few connections
//!   move when backends change (`backends.rs`).
//! - ICMP errors about a connection (a path's MTU above all) go to its backend.
//! - Answers ARP requests for the services' addresses.
//!
//! What it does not do: look whether backends live (whoever does gives it
//! others: [`Balancer::set_backends`], or a balancer in its place, which takes over); put fragments together (they go where the first of their packet went, if that came first); answer pings; look into
//! IPv6 and frames of VLANs (they are dropped; VLAN 0 is none).
//!
//! Source: Eisenbud et al., NSDI 2016, §3.3 (what is remembered) and §3.4.

mod backends;
mod config;
pub mod maglev;

pub use config::{
    Backend, BalancerConfig, BalancerError, BalancerTimeouts, MOST_CONNECTIONS, MOST_SERVICES,
    Service,
};

use super::connection::age::{Limit, SWEEP, SWEEPS, Stamp};
use super::connection::pieces::{Pieces, Went};
use super::connection::tuple::{Kind, Opened, Tuple, What, glance, open, packet, quoted};
use super::connection::{Endpoint, arp, usual};
use super::exact::Exact;
use super::hash::fold;
use super::priority_tag;
use crate::action::PortNo;
use crate::program::{Ahead, Program, ProgramCx, SlowFrame, of_kind};
use std::collections::BTreeMap;
use weir_packet::{DropReason, Frame, Nanos};
use weir_wire::icmpv4::HEADER_LEN as ICMP;
use weir_wire::tcp::Flags;
use weir_wire::{EthernetFrame, MacAddr};

/// How a connection's time is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Tcp,
    TcpClosing,
    Udp,
}

/// One connection; with its key it takes half a line of cache.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    backend: u16,
    phase: Phase,
    seen: Stamp,
}

/// What happened so far, in frames where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalancerCounters {
    /// Sent to a backend.
    pub forwarded: u64,
    /// Connections begun.
    pub begun: u64,
    /// Sent by hashing alone, as the table was full.
    pub untracked: u64,
    /// ICMP errors sent to a connection's backend.
    pub related: u64,
    /// To no service.
    pub no_service: u64,
    /// Not to this MAC, or not IPv4.
    pub not_ours: u64,
    /// Fragments that were sent on, among those above.
    pub pieces: u64,
    /// Fragments whose packet is not known.
    pub fragments: u64,
    /// Not what their headers say.
    pub malformed: u64,
    /// ARP requests answered.
    pub answered: u64,
    /// Connections whose time was over.
    pub expired: u64,
    /// Connections that lost their backend.
    pub orphaned: u64,
}

#[derive(Debug)]
struct Limits {
    tcp: Limit,
    tcp_closing: Limit,
    udp: Limit,
}

impl Limits {
    #[inline]
    fn of(&self, phase: Phase) -> Limit {
        match phase {
            Phase::Tcp => self.tcp,
            Phase::TcpClosing => self.tcp_closing,
            Phase::Udp => self.udp,
        }
    }
}

/// A service, ready for use.
#[derive(Debug)]
struct Pool {
    at: Endpoint,
    protocol: Kind,
    /// The backend of each place of Maglev's table.
    places: Vec<u16>,
}

/// What writes a frame's new addresses.
#[derive(Clone, Copy, Debug)]
struct Hop {
    port: PortNo,
    mac: MacAddr,
}

/// The load balancer.
#[derive(Debug)]
pub struct Balancer {
    mac: MacAddr,
    pieces: Pieces,
    pools: Vec<Pool>,
    /// A service's key to its place in `pools`.
    services: Exact<u64, u32, 4>,
    /// What each service was given last, in the order of `pools`.
    given: Vec<Vec<Backend>>,
    /// By number; those that nobody has are given away again.
    backends: Vec<Hop>,
    connections: Exact<u128, Connection, 2>,
    limits: Limits,
    seed: u64,
    swept: Nanos,
    counters: BalancerCounters,
}

#[inline]
fn service_key(at: Endpoint, kind: Kind) -> u64 {
    at.word() << 8 | kind as u64
}

#[inline]
fn connection_key(client: Endpoint, service: u64) -> u128 {
    u128::from(client.word()) << 56 | u128::from(service)
}

/// The place of a connection in its service's table.
#[inline]
fn place(key: u128, seed: u64, places: usize) -> usize {
    let h = fold(fold(key as u64, seed) ^ (key >> 64) as u64, !seed);
    (h % places.max(1) as u64) as usize
}

impl Balancer {
    /// A balancer that knows no connection.
    ///
    /// # Errors
    /// [`BalancerError`] when the configuration contradicts itself.
    pub fn new(config: &BalancerConfig) -> Result<Self, BalancerError> {
        config::check(config)?;
        let t = config.timeouts;
        let mut services = Exact::new(config.services.len());
        let mut pools = Vec::new();
        for (i, s) in config.services.iter().enumerate() {
            // There is room for all, and none is there twice.
            let _ = services.insert(service_key(s.at, s.protocol), i as u32);
            pools.push(Pool { at: s.at, protocol: s.protocol, places: Vec::new() });
        }
        let mut all = Self {
            mac: config.mac,
            pieces: Pieces::default(),
            pools,
            services,
            given: Vec::new(),
            backends: Vec::new(),
            connections: Exact::new(config.max_connections),
            limits: Limits {
                tcp: Limit::of(t.tcp),
                tcp_closing: Limit::of(t.tcp_closing),
                udp: Limit::of(t.udp),
            },
            seed: config.seed,
            swept: Nanos(0),
            counters: BalancerCounters::default(),
        };
        all.adopt(config.services.iter().map(|s| s.backends.clone()).collect())?;
        Ok(all)
    }

    /// What happened so far.
    pub fn counters(&self) -> BalancerCounters {
        self.counters
    }
    /// Connections that are remembered; those whose time is over may be among them for a while.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Where a packet goes; counts it if nowhere.
    #[inline(always)]
    fn choose(&mut self, t: Tuple, bytes: &[u8], now: Stamp) -> Result<Hop, DropReason> {
        let (flags, kind) = match t.what {
            What::Tcp(flags) => (flags, Kind::Tcp),
            What::Udp => (Flags(0), Kind::Udp),
            What::Piece(kind) => (Flags(0), kind),
            _ => return self.without_ports(&t, bytes),
        };
        let service = service_key(t.dst, kind);
        let key = connection_key(t.src, service);
        let ends = flags.contains(Flags::FIN) || flags.contains(Flags::RST);
        let begins = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        let phase_of = |before: Option<Phase>| match (kind, before) {
            (Kind::Udp, _) => Phase::Udp,
            _ if ends => Phase::TcpClosing,
            (_, Some(Phase::TcpClosing)) if !begins => Phase::TcpClosing,
            _ => Phase::Tcp,
        };
        // First, as nearly all packets have one, and those that have one are to a service.
        let backend = match self.connections.get_mut(&key) {
            Some(c) if !c.seen.is_older(self.limits.of(c.phase), now) => {
                *c = Connection { phase: phase_of(Some(c.phase)), seen: now, ..*c };
                c.backend
            }
            _ => self.begin(key, service, phase_of(None), now)?,
        };
        self.hop(backend)
    }

    /// Gives a connection a backend, and remembers that if there is room.
    #[inline(never)]
    fn begin(
        &mut self,
        key: u128,
        service: u64,
        phase: Phase,
        now: Stamp,
    ) -> Result<u16, DropReason> {
        let Some(pool) = self.services.get(&service).and_then(|i| self.pools.get(*i as usize))
        else {
            self.counters.no_service += 1;
            return Err(DropReason::Program);
        };
        let at = place(key, self.seed, pool.places.len());
        let backend = pool.places.get(at).copied().unwrap_or_default();
        match self.connections.insert(key, Connection { backend, phase, seen: now }) {
            Ok(_) => self.counters.begun += 1,
            Err(_) => self.counters.untracked += 1,
        }
        Ok(backend)
    }

    #[inline]
    fn hop(&self, backend: u16) -> Result<Hop, DropReason> {
        self.backends.get(usize::from(backend)).copied().ok_or(DropReason::Unreachable)
    }

    /// An ICMP error, or what nobody here knows.
    fn without_ports(&mut self, t: &Tuple, bytes: &[u8]) -> Result<Hop, DropReason> {
        if t.what == What::Error
            && let Some(backend) = self.backend_of_quoted(t, bytes)
        {
            self.counters.related += 1;
            return self.hop(backend);
        }
        self.counters.no_service += 1;
        Err(DropReason::Program)
    }

    /// The backend of the connection that an error quotes a packet of: one from the service.
    fn backend_of_quoted(&self, t: &Tuple, bytes: &[u8]) -> Option<u16> {
        let q = packet(bytes).get(t.l4 + ICMP..t.end).and_then(quoted)?;
        let kind = q.what.kind().filter(|_| q.src.addr == t.dst.addr)?;
        let service = service_key(q.src, kind);
        let pool = self.pools.get(*self.services.get(&service)? as usize)?;
        let key = connection_key(q.dst, service);
        match self.connections.get(&key) {
            Some(c) => Some(c.backend),
            None => pool.places.get(place(key, self.seed, pool.places.len())).copied(),
        }
    }

    fn is_served(&self, addr: std::net::Ipv4Addr) -> bool {
        self.pools.iter().any(|p| p.at.addr == addr)
    }
}

impl Balancer {
    /// An IPv4 packet and the MAC that it was sent to. Whether it went on.
    #[inline(always)]
    fn balance(
        &mut self,
        mut frame: Frame,
        dst: MacAddr,
        t: Tuple,
        cx: &mut ProgramCx<'_>,
    ) -> Went {
        if dst != self.mac {
            self.not_ours(frame, cx);
            return Went::Nowhere;
        }
        match self.choose(t, frame.bytes(), Stamp::of(cx.now())) {
            Ok(hop) => {
                let mut eth = EthernetFrame::new_unchecked(frame.bytes_mut());
                eth.set_dst(hop.mac);
                eth.set_src(self.mac);
                self.counters.forwarded += 1;
                cx.output(frame, hop.port);
                Went::On
            }
            Err(why) => {
                cx.drop(frame, why);
                Went::Nowhere
            }
        }
    }

    /// A fragment goes where the first of its packet went.
    fn fragment(&mut self, rx: SlowFrame, dst: MacAddr, t: Tuple, cx: &mut ProgramCx<'_>) {
        // Who may speak of our packets' pieces.
        if dst != self.mac {
            return self.not_ours(rx.frame, cx);
        }
        let now = Stamp::of(cx.now());
        let Some(piece) = self.pieces.of(rx.frame.bytes(), t, rx.in_port, now) else {
            self.counters.fragments += 1;
            return cx.drop(rx.frame, DropReason::Fragment);
        };
        let went = self.balance(rx.frame, dst, piece.tuple, cx);
        self.counters.pieces += u64::from(went == Went::On);
        self.pieces.note(&piece, went, now);
    }

    fn not_ours(&mut self, frame: Frame, cx: &mut ProgramCx<'_>) {
        self.counters.not_ours += 1;
        cx.drop(frame, DropReason::Program);
    }

    /// What is not a usual frame.
    #[inline(never)]
    fn unusual(&mut self, mut rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        priority_tag::take_out(&mut rx.frame);
        match open(rx.frame.bytes()) {
            Ok(Opened::Ipv4(dst, t)) if t.what == What::Fragment => self.fragment(rx, dst, t, cx),
            Ok(Opened::Ipv4(dst, t)) => _ = self.balance(rx.frame, dst, t, cx),
            Ok(Opened::Arp) => {
                let answered = arp::answer(rx, self.mac, |a| self.is_served(a), cx);
                self.counters.answered += u64::from(answered);
            }
            Ok(Opened::Other) => self.not_ours(rx.frame, cx),
            Err(why) => {
                self.counters.malformed += 1;
                cx.drop(rx.frame, why);
            }
        }
    }
}

impl Program for Balancer {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn take_over(&mut self, before: Box<dyn Program>) {
        if let Some(mut before) = of_kind::<Self>(before) {
            self.pieces = std::mem::take(&mut before.pieces);
            self.succeed(*before);
        }
    }

    fn expect(&self, frame: &Frame, _: PortNo) -> Ahead {
        if let Some((client, at, kind)) = glance(frame.bytes()) {
            let key = connection_key(client, service_key(at, kind));
            self.connections.prefetch(self.connections.hash(&key));
        }
        Ahead::All
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        match usual::open(rx.frame.bytes()) {
            Some((dst, t)) => _ = self.balance(rx.frame, dst, t, cx),
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
        let some = self.connections.buckets().div_ceil(SWEEPS);
        let gone = self.connections.sweep(some, |_, c| c.seen.is_older(limits.of(c.phase), now));
        self.counters.expired += gone as u64;
    }

    fn status(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let most = self.connections.capacity();
        let lines = [
            ("services", self.pools.len().to_string()),
            ("backends", self.backends.len().to_string()),
            ("connections", format!("{} of {most}", self.connections.len())),
            ("forwarded", c.forwarded.to_string()),
            ("begun", c.begun.to_string()),
            ("untracked", c.untracked.to_string()),
            ("related errors", c.related.to_string()),
            ("to no service", c.no_service.to_string()),
            ("not ours", c.not_ours.to_string()),
            ("fragments passed", c.pieces.to_string()),
            ("fragments dropped", c.fragments.to_string()),
            ("malformed", c.malformed.to_string()),
            ("ARP answered", c.answered.to_string()),
            ("expired", c.expired.to_string()),
            ("orphaned", c.orphaned.to_string()),
        ];
        lines.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
