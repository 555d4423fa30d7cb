//! `bng`: a broadband network gateway (002 §3.2, figures 7 and 8): subscribers in QinQ on one side,
//! MPLS with GRE on the other. Touches headers; knows its ports and the time.
//!
//! Access to core (`access.rs`): the two tags give the GRE key of the subscriber's circuit; the
//! longest prefix of the destination gives tunnel end, next hop, label and port. TTL down, the
//! subscriber noted for the way back, Ethernet and tags off; GRE, IPv4, MPLS and Ethernet on.
//! Core to access (`core.rs`): GRE key and inner destination give tags, MAC and port. TTL down,
//! everything to the inner packet off, Ethernet and tags on. Congestion that the core marks in the
//! outer header is marked in the inner one (RFC 6040 §4.2).
//! What is too long for the core with the headers that it gets is cut before, if it may be, and its pieces sent; else its sender is told,
//! as he is when his packet has no TTL left (`own.rs`).
//!
//! What it does not do, so that nobody looks for it:
//! - ARP: next hops are configured.
//! - ICMP errors to the core, and others than these to subscribers: what ends here ends in silence.
//! - Verify IPv4's checksums: TTL's change is made good in the inner header's, so one that was wrong stays
//!   so for whoever is addressed. (As 002's model.) GRE's, where it is written, covers what came; where it
//!   comes, it has to be right.
//! - Fragment what comes from the core: frames too long for their port are dropped there.
//! - IPv6, and label stacks of more than one entry.
//! - Know who may use an address: a circuit's addresses are those it sends from, the last circuit
//!   does not take them from another, since the key is part of the entry. All circuits share room
//!   for subscribers; a full table refuses new ones until old ones have been idle for long enough.
//!
//! A frame ends as sent, or dropped with its reason. It makes frames for pieces and errors, and keeps none.

mod access;
mod config;
mod core;
mod own;

pub use config::{AccessPort, BngConfig, BngError, BngRoute, Circuits, CorePort, GreSum};

use super::dir24::Dir24;
use super::exact::Exact;
use crate::action::PortNo;
use crate::program::{Ahead, Program, ProgramCx, SlowFrame, of_kind};
use own::Links;
use std::net::Ipv4Addr;
use weir_packet::{DropReason, Frame, Nanos};
use weir_wire::MacAddr;
use weir_wire::checksum::Delta;

/// Ethernet's header.
const ETH: usize = 14;
/// An IPv4 header without options.
const IPV4: usize = 20;
/// Ethernet's header with two tags.
const QINQ: usize = ETH + 8;
/// Ethernet, one label, IPv4, and GRE's first word.
const CORE: usize = ETH + 4 + IPV4 + 4;

/// One of its ports: what it looks at first.
#[derive(Clone, Copy, Debug)]
struct Port {
    no: PortNo,
    mac: MacAddr,
    side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Access,
    Core,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    port: PortNo,
    mac: MacAddr,
    next_hop: MacAddr,
    remote: Ipv4Addr,
    label: u32,
}

/// How a subscriber is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Subscriber {
    /// Both tags as they came: TPID and tag control of the first, tag control of the second; the
    /// priorities zero.
    tags: [u8; 6],
    mac: [u8; 6],
    /// Its place among the ports.
    port: u16,
    /// When it last sent, in units of `GRAIN`.
    seen: u32,
}

/// The circuit of a subscriber's tags: 12 bits of each.
#[inline(always)]
fn circuit_of(tags: &[u8; 6]) -> u32 {
    let [_, _, outer0, outer1, inner0, inner1] = *tags;
    let (outer, inner) = ([outer0, outer1], [inner0, inner1]);
    u32::from(u16::from_be_bytes(outer)) << 12 | u32::from(u16::from_be_bytes(inner))
}

/// 2^30 ns: near enough a second.
const GRAIN: u32 = 30;

const fn grains(t: Nanos) -> u32 {
    (t.0 >> GRAIN) as u32
}

/// Circuits (12 bits of each tag) to keys. Seven to a line.
type Keys = Exact<u32, u32, 7>;
/// (Key, inner address) to subscribers. Two to a line.
type Subscribers = Exact<u64, Subscriber, 2>;

fn subscriber_key(key: u32, addr: u32) -> u64 {
    u64::from(key) << 32 | u64::from(addr)
}

/// What it has done so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BngCounters {
    /// Sent to the core.
    pub to_core: u64,
    /// Sent to subscribers.
    pub to_access: u64,
    /// For other stations or tunnels, from other ports, of other protocols.
    pub not_ours: u64,
    /// Broken headers.
    pub malformed: u64,
    /// From circuits that are not configured.
    pub no_circuit: u64,
    /// Without a route.
    pub no_route: u64,
    /// For subscribers that never sent, or not for long.
    pub no_subscriber: u64,
    /// Whose TTL ran out.
    pub ttl_expired: u64,
    /// Too long for the core, and not to be cut or without frames for its pieces.
    pub too_long: u64,
    /// Cut for the core; their pieces are among those sent.
    pub fragmented: u64,
    /// ICMP errors to subscribers.
    pub said: u64,
    /// Marked as congested by the core, with a packet inside that can't carry the mark on.
    pub congested: u64,
    /// Subscribers learned.
    pub learned: u64,
    /// Frames of subscribers for whom there was no room; they were sent all the same.
    pub no_room: u64,
    /// Subscribers forgotten, having sent nothing for long.
    pub aged: u64,
}

/// The gateway.
#[derive(Debug)]
pub struct Bng {
    /// By number.
    ports: Vec<Port>,
    tunnel: Ipv4Addr,
    sum: GreSum,
    circuits: Vec<Circuits>,
    keys: Keys,
    routes: Dir24,
    ways: Vec<Way>,
    subscribers: Subscribers,
    links: Links,
    idle: Nanos,
    swept: Nanos,
    counters: BngCounters,
}

/// Time between two looks at some of the subscribers.
const SWEEP: Nanos = Nanos::from_millis(100);

impl Bng {
    /// A gateway with these ports, circuits and routes.
    ///
    /// # Errors
    /// [`BngError`] when the configuration contradicts itself or can't work.
    pub fn new(config: &BngConfig) -> Result<Self, BngError> {
        let (ports, routes, ways) = config::routes(config)?;
        Ok(Self {
            ports,
            tunnel: config.tunnel,
            sum: config.checksum,
            circuits: config.circuits.clone(),
            keys: config::keys(config)?,
            routes,
            ways,
            subscribers: Exact::new(config.subscribers),
            links: Links::new(),
            idle: config.idle,
            swept: Nanos(0),
            counters: BngCounters::default(),
        })
    }

    /// What it has done so far.
    pub fn counters(&self) -> BngCounters {
        self.counters
    }

    /// Subscribers that are known.
    pub fn subscribers(&self) -> usize {
        self.subscribers.len()
    }

    #[inline]
    fn port_at(&self, no: PortNo) -> Option<usize> {
        self.ports.iter().position(|p| p.no == no)
    }
    #[inline]
    fn side(&self, no: PortNo) -> Option<Side> {
        self.ports.get(self.port_at(no)?).map(|p| p.side)
    }
}

/// Why a frame went no further; the program counts it by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    NotOurs,
    NoSuchHeader,
    Malformed,
    Runt,
    Fragment,
    NoCircuit,
    NoRoute,
    NoSubscriber,
    TtlExpired,
    /// For the core, which takes packets of so many bytes from a subscriber.
    TooLong(usize),
    NoRoom,
    Congestion,
}

impl Bng {
    fn refuse(&mut self, frame: Frame, why: Stop, cx: &mut ProgramCx<'_>) {
        let c = &mut self.counters;
        let (counter, reason) = match why {
            Stop::NotOurs => (&mut c.not_ours, DropReason::Program),
            Stop::NoSuchHeader => (&mut c.not_ours, DropReason::NoSuchHeader),
            Stop::Malformed => (&mut c.malformed, DropReason::Malformed),
            Stop::Runt => (&mut c.malformed, DropReason::Runt),
            Stop::Fragment => (&mut c.not_ours, DropReason::Fragment),
            Stop::NoCircuit => (&mut c.no_circuit, DropReason::Program),
            Stop::NoRoute => (&mut c.no_route, DropReason::Unreachable),
            Stop::NoSubscriber => (&mut c.no_subscriber, DropReason::Unreachable),
            Stop::TtlExpired => (&mut c.ttl_expired, DropReason::TtlExpired),
            Stop::TooLong(_) => (&mut c.too_long, DropReason::FrameTooLong),
            Stop::NoRoom => (&mut c.malformed, DropReason::NoRoom),
            Stop::Congestion => (&mut c.congested, DropReason::Congestion),
        };
        *counter += 1;
        cx.drop(frame, reason);
    }
}

/// An IPv4 packet at the beginning of `bytes`: its header's first 20 bytes and its length, which
/// `bytes` has.
#[inline(always)]
fn ipv4(bytes: &[u8]) -> Result<(&[u8; IPV4], usize), Stop> {
    let h = bytes.first_chunk::<IPV4>().ok_or(Stop::Malformed)?;
    let header = usize::from(h[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if h[0] >> 4 != 4 || header < IPV4 || total < header || total > bytes.len() {
        return Err(Stop::Malformed);
    }
    Ok((h, total))
}

/// The ToS byte anew, with the header checksum that goes with it (RFC 1624): the header's first 20
/// bytes.
#[inline(always)]
fn mark(h: &mut [u8; IPV4], tos: u8) {
    if h[1] != tos {
        let old = u16::from_be_bytes([h[0], h[1]]);
        h[1] = tos;
        let delta = Delta::new().u16(old, u16::from_be_bytes([h[0], h[1]]));
        let sum = delta.apply(u16::from_be_bytes([h[10], h[11]]));
        [h[10], h[11]] = sum.to_be_bytes();
    }
}

/// One hop less to live, with the header checksum that goes with it (RFC 1624): the header's first
/// 20 bytes.
#[inline(always)]
fn hop(h: &mut [u8; IPV4]) {
    let old = u16::from_be_bytes([h[8], h[9]]);
    h[8] = h[8].wrapping_sub(1);
    let new = u16::from_be_bytes([h[8], h[9]]);
    let sum = Delta::new().u16(old, new).apply(u16::from_be_bytes([h[10], h[11]]));
    [h[10], h[11]] = sum.to_be_bytes();
}

/// Takes `strip` bytes from the front of a frame and puts `N` in their place; the frame is cut or
/// kept at `payload` bytes behind them.
#[inline(always)]
fn replace_front<const N: usize>(
    frame: &mut Frame,
    strip: usize,
    payload: usize,
) -> Result<&mut [u8; N], Stop> {
    let room = |_| Stop::NoRoom;
    match N.checked_sub(strip) {
        Some(more) => frame.push_front(more).map_err(room)?,
        None => frame.pull_front(strip - N).map_err(room)?,
    }
    // Ethernet's padding ends here. Shorter always fits.
    frame.set_len(N + payload).map_err(room)?;
    frame.bytes_mut().first_chunk_mut().ok_or(Stop::NoRoom)
}

impl Program for Bng {
    fn name(&self) -> &'static str {
        "bng"
    }

    fn forget_port(&mut self, port: PortNo) {
        if let Some(at) = self.port_at(port) {
            let buckets = self.subscribers.buckets();
            self.subscribers.sweep(buckets, |_, s| usize::from(s.port) == at);
        }
    }

    /// Subscribers whose circuits have their keys still, at ports that are still there.
    fn take_over(&mut self, before: Box<dyn Program>) {
        let Some(mut before) = of_kind::<Self>(before) else { return };
        (self.counters, self.swept) = (before.counters, before.swept);
        self.links = std::mem::replace(&mut before.links, Links::new());
        let place = |old: &Port| {
            let same = |p: &Port| (p.no, p.mac, p.side) == (old.no, old.mac, Side::Access);
            self.ports.iter().position(same).map(|at| at as u16)
        };
        let places: Vec<Option<u16>> = before.ports.iter().map(place).collect();
        let stay = (0..)
            .zip(&places)
            .all(|(i, p)| before.ports[i].side == Side::Core || *p == Some(i as u16));
        let size = |b: &Self| b.subscribers.capacity();
        if stay && before.circuits == self.circuits && size(&before) == size(self) {
            self.subscribers = before.subscribers;
            return;
        }
        let keys = &self.keys;
        self.subscribers.take_over(&before.subscribers, |k, s| {
            let Some(Some(port)) = places.get(usize::from(s.port)) else { return false };
            s.port = *port;
            keys.get(&circuit_of(&s.tags)).is_some_and(|key| u64::from(*key) == *k >> 32)
        });
    }

    #[inline]
    fn expect(&self, frame: &Frame, in_port: PortNo) -> Ahead {
        match self.side(in_port) {
            Some(Side::Access) => {
                self.expect_upstream(frame.bytes());
                return self.ahead_upstream();
            }
            Some(Side::Core) => self.expect_downstream(frame.bytes()),
            None => {}
        }
        Ahead::All
    }

    #[inline]
    fn expect_further(&self, frame: &Frame, in_port: PortNo) {
        if self.side(in_port) == Some(Side::Access) {
            self.expect_way(frame.bytes());
        }
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let SlowFrame { mut frame, in_port, .. } = rx;
        let Some(at) = self.port_at(in_port) else {
            return self.refuse(frame, Stop::NotOurs, cx);
        };
        let Some(port) = self.ports.get(at).copied() else {
            return self.refuse(frame, Stop::NotOurs, cx);
        };
        let done = match port.side {
            Side::Access => self.upstream(&mut frame, port, at as u16, cx.now()),
            Side::Core => self.downstream(&mut frame, port),
        };
        match done {
            Ok(to) => cx.output(frame, to),
            Err(why @ (Stop::TtlExpired | Stop::TooLong(_))) if port.side == Side::Access => {
                self.not_sent(frame, why, (port, at as u16), cx);
            }
            Err(why) => self.refuse(frame, why, cx),
        }
    }

    /// Forgets subscribers that were idle for long: a little at a time, all of them within an eighth
    /// of that time.
    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        let past = cx.now().since(self.swept);
        if past < SWEEP {
            return;
        }
        self.swept = cx.now();
        self.look_at_links(cx);
        let all = self.subscribers.buckets() as u128;
        let part = all * 8 * u128::from(past.0) / u128::from(self.idle.0.max(1)) + 1;
        let (now, idle) = (grains(cx.now()), grains(self.idle));
        let dead = |_: &u64, s: &Subscriber| now.wrapping_sub(s.seen) > idle;
        self.counters.aged += self.subscribers.sweep(part.min(all) as usize, dead) as u64;
    }

    fn patience(&self) -> Nanos {
        SWEEP
    }

    fn status(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let line = |name: &str, n: u64| (name.to_owned(), n.to_string());
        let of = |len, most| format!("{len} of {most}");
        vec![
            ("circuits".into(), self.keys.len().to_string()),
            ("subscribers".into(), of(self.subscribers.len(), self.subscribers.capacity())),
            line("to core", c.to_core),
            line("to access", c.to_access),
            line("not ours", c.not_ours),
            line("malformed", c.malformed),
            line("unknown circuits", c.no_circuit),
            line("no route", c.no_route),
            line("unknown subscribers", c.no_subscriber),
            line("TTL expired", c.ttl_expired),
            line("too long", c.too_long),
            line("fragmented", c.fragmented),
            line("ICMP errors", c.said),
            line("congested in the core", c.congested),
            line("subscribers learned", c.learned),
            line("no room for subscribers", c.no_room),
            line("subscribers aged", c.aged),
        ]
    }
}
