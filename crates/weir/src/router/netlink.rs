//! rtnetlink, as far as virtual routers need it: links, addresses, routes, neighbours and what is forwarded of
//! the namespace that the calling thread is in.
//!
//! Room: one socket; requests wait for their answer. Called by `wires` and `follow`, inside a namespace; a
//! socket stays in the namespace it was made in, wherever it is used later. Source: rtnetlink(7), netlink(7).

use super::fib::{Fib, Hop, Prefix, Table, To};
use super::netconf::{self, Closed, Family};
use anyhow::{Context, Result, anyhow, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;
use weir_packet::LinkState;
use weir_wire::MacAddr;

/// Multicast groups: links, neighbours, IPv4's addresses and routes, IPv6's addresses and routes, what both forward.
const GROUPS: [u32; 8] = [1, 3, 5, 7, 9, 11, 24, 25];
/// Where in a message its kind and its sequence number are, and those kinds that end an answer.
const KIND: usize = 4;
const SEQUENCE: usize = 8;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
const UNSUPPORTED: i32 = Errno::OPNOTSUPP.raw_os_error();
const MAIN: u32 = 254;
const LOCAL: u32 = 255;
/// Largest answer that is read at once.
const ANSWER_BYTES: usize = 64 << 10;
/// How long the kernel may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A socket of rtnetlink.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address, if it has one.
    pub mac: Option<MacAddr>,
    /// Whether it is meant to be up; it may be without a carrier.
    pub meant_up: bool,
}

impl Netlink {
    /// A socket that asks and gets answers.
    ///
    /// # Errors
    /// The system has none.
    pub fn new() -> Result<Self> {
        Self::open().context("a netlink socket")
    }

    fn open() -> std::io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// A socket that is told of changes to links, addresses, routes and neighbours.
    ///
    /// # Errors
    /// The system has none.
    pub fn listening() -> Result<Self> {
        let n = Self::open().context("a netlink socket")?;
        for g in GROUPS {
            // Those of IPv6 are missing where the kernel is without it.
            let _ = n.socket.add_membership(g);
        }
        // Whoever listens asks for all of it then, so nothing is lost by what does not fit.
        n.socket.set_no_enobufs(true).context("a netlink socket")?;
        n.socket.set_non_blocking(true).context("a netlink socket")?;
        Ok(n)
    }

    /// Forgets what has been told. Says whether there was something.
    pub fn drain(&self) -> bool {
        let mut some = false;
        let mut buffer = Vec::with_capacity(ANSWER_BYTES);
        while self.socket.recv(&mut buffer, 0).is_ok_and(|n| n > 0) {
            some = true;
            buffer.clear();
        }
        some
    }

    /// Waits until something is told, at most so long. Says whether it is.
    pub fn wait(&self, at_most: Duration) -> bool {
        let limit = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit)).is_ok_and(|n| n > 0)
    }

    /// Sends a request and gives every part of its answer to `each`.
    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.exchange(&bytes, |one| {
            // One that this program can't read is nothing that it asks for.
            if let Ok(m) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one)
                && let NetlinkPayload::InnerMessage(m) = m.payload
            {
                each(m);
            }
        })
    }

    /// Sends a request of the present sequence number and gives every message of its answer to `each`, until its end.
    fn exchange(&mut self, request: &[u8], mut each: impl FnMut(&[u8])) -> Result<()> {
        self.socket.send(request, 0)?;
        let mut buffer = Vec::with_capacity(ANSWER_BYTES);
        loop {
            if !self.wait(PATIENCE) {
                bail!("the kernel does not answer");
            }
            buffer.clear();
            self.socket.recv(&mut buffer, 0)?;
            let mut rest = buffer.as_slice();
            while !rest.is_empty() {
                let Some(len) = rest.first_chunk().map(|b| u32::from_ne_bytes(*b) as usize) else {
                    break;
                };
                let Some(one) = rest.get(..len).filter(|_| len >= HEADER) else { break };
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
                let sequence = one.get(SEQUENCE..).and_then(<[u8]>::first_chunk);
                if sequence.map(|b| u32::from_ne_bytes(*b)) != Some(self.sequence) {
                    continue;
                }
                let kind = one.get(KIND..).and_then(<[u8]>::first_chunk);
                match kind.map(|b| u16::from_ne_bytes(*b)) {
                    Some(DONE) => return Ok(()),
                    Some(ERROR) => {
                        let code = one.get(HEADER..).and_then(<[u8]>::first_chunk);
                        return match code.map_or(0, |b| i32::from_ne_bytes(*b)) {
                            0 => Ok(()),
                            e => Err(io::Error::from_raw_os_error(e.saturating_neg()).into()),
                        };
                    }
                    _ => each(one),
                }
            }
        }
    }

    fn tell(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.ask(message, NLM_F_ACK | flags, |_| {})
    }

    /// Makes a veth pair: one end here, the other in `namespace` with this name and MAC address.
    ///
    /// # Errors
    /// The names are taken, no rights, no such device in this kernel.
    pub fn add_veth(
        &mut self,
        here: &str,
        there: &str,
        mac: MacAddr,
        namespace: BorrowedFd<'_>,
    ) -> Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(there.to_owned()),
            LinkAttribute::Address(mac.0.to_vec()),
            LinkAttribute::NetNsFd(namespace.as_raw_fd()),
        ];
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(here.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.tell(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("a veth pair {here}, {there}"))
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let mut all = Vec::new();
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.ask(request, NLM_F_DUMP, |m| {
            if let RouteNetlinkMessage::NewLink(l) = m {
                let (index, meant_up) = (l.header.index, l.header.flags.contains(LinkFlags::Up));
                let mut link = Link { index, name: String::new(), mac: None, meant_up };
                for a in l.attributes {
                    match a {
                        LinkAttribute::IfName(n) => link.name = n,
                        LinkAttribute::Address(b) => {
                            link.mac = b.try_into().ok().map(MacAddr);
                        }
                        _ => {}
                    }
                }
                all.push(link);
            }
        })
        .context("asking for interfaces")?;
        Ok(all)
    }

    fn index(&mut self, name: &str) -> Result<u32> {
        let found = self.links()?.into_iter().find(|l| l.name == name);
        found.map(|l| l.index).ok_or_else(|| anyhow!("no interface '{name}'"))
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set_up(&mut self, name: &str) -> Result<()> {
        self.set(name, LinkState::Up)
    }

    /// Sets an interface up, or down.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set(&mut self, name: &str, to: LinkState) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(name)?;
        let (flags, word) = match to {
            LinkState::Up => (LinkFlags::Up, "up"),
            LinkState::Down | LinkState::Gone => (LinkFlags::empty(), "down"),
        };
        link.header.flags = flags;
        link.header.change_mask = LinkFlags::Up;
        self.tell(RouteNetlinkMessage::SetLink(link), 0)
            .with_context(|| format!("setting {name} {word}"))
    }

    /// Gives an interface a MAC address.
    ///
    /// # Errors
    /// There is none of this name, or the kernel refuses.
    pub fn set_mac(&mut self, name: &str, mac: MacAddr) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(name)?;
        link.attributes = vec![LinkAttribute::Address(mac.0.to_vec())];
        self.tell(RouteNetlinkMessage::SetLink(link), 0)
            .with_context(|| format!("MAC address {mac} of {name}"))
    }

    /// Sets the longest packet that an interface sends.
    ///
    /// # Errors
    /// There is none of this name, or the kernel refuses.
    pub fn set_mtu(&mut self, name: &str, mtu: usize) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(name)?;
        link.attributes = vec![LinkAttribute::Mtu(u32::try_from(mtu).unwrap_or(u32::MAX))];
        self.tell(RouteNetlinkMessage::SetLink(link), 0)
            .with_context(|| format!("MTU {mtu} of {name}"))
    }

    /// Deletes an interface. One that is gone already is no error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        let Some(link) = self.links()?.into_iter().find(|l| l.name == name) else { return Ok(()) };
        let mut gone = LinkMessage::default();
        gone.header.index = link.index;
        self.tell(RouteNetlinkMessage::DelLink(gone), 0).with_context(|| format!("deleting {name}"))
    }

    /// Gives an interface an address, or takes it away.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn address(&mut self, name: &str, addr: IpAddr, len: u8, there: Wanted) -> Result<()> {
        let mut m = AddressMessage::default();
        m.header.index = self.index(name)?;
        m.header.family = family(addr);
        m.header.prefix_len = len;
        m.attributes = vec![AddressAttribute::Local(addr), AddressAttribute::Address(addr)];
        let told = match there {
            Wanted::There => {
                self.tell(RouteNetlinkMessage::NewAddress(m), NLM_F_CREATE | NLM_F_REPLACE)
            }
            Wanted::Gone => self.tell(RouteNetlinkMessage::DelAddress(m), 0),
        };
        told.with_context(|| format!("address {addr}/{len} of {name}"))
    }

    /// The routes and neighbours as they are.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn fib(&mut self) -> Result<(Fib, Vec<Stale>)> {
        let mut fib = Fib::default();
        let mut stale = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut all = RouteMessage::default();
            all.header.address_family = family;
            let request = RouteNetlinkMessage::GetRoute(all);
            self.ask(request, NLM_F_DUMP, |m| {
                if let RouteNetlinkMessage::NewRoute(r) = m {
                    route(&mut fib, &r);
                }
            })
            .context("asking for routes")?;
            let mut all = NeighbourMessage::default();
            all.header.family = family;
            let request = RouteNetlinkMessage::GetNeighbour(all);
            self.ask(request, NLM_F_DUMP, |m| {
                if let RouteNetlinkMessage::NewNeighbour(n) = m {
                    stale.extend(neighbour(&mut fib, &n));
                }
            })
            .context("asking for neighbours")?;
        }
        Ok((fib, stale))
    }

    /// What the namespace does not forward.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn closed(&mut self) -> Result<Closed> {
        let mut closed = Closed::default();
        for family in [Family::V4, Family::V6] {
            self.sequence = self.sequence.wrapping_add(1);
            let request = netconf::request(family, self.sequence);
            let asked = self.exchange(&request, |m| closed.add(family, m));
            match asked.map_err(|e| e.downcast::<io::Error>()) {
                Ok(()) => {}
                // A kernel without IPv6 forwards none of it, rules or not.
                Err(Ok(e)) if e.raw_os_error() == Some(UNSUPPORTED) => {}
                Err(Ok(e)) => return Err(e).context("asking for what is forwarded"),
                Err(Err(e)) => return Err(e.context("asking for what is forwarded")),
            }
        }
        Ok(closed)
    }

    /// Has the kernel ask a neighbour that it has not heard of for a while whether it is still there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn probe(&mut self, of: &Stale) -> Result<()> {
        let mut m = NeighbourMessage::default();
        m.header.family = family(of.addr);
        m.header.ifindex = of.link;
        m.header.flags = NeighbourFlags::Use;
        let addr = match of.addr {
            IpAddr::V4(a) => NeighbourAddress::Inet(a),
            IpAddr::V6(a) => NeighbourAddress::Inet6(a),
        };
        m.attributes = vec![NeighbourAttribute::Destination(addr)];
        self.tell(RouteNetlinkMessage::NewNeighbour(m), NLM_F_REPLACE)
    }
}

/// Whether something shall be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It shall.
    There,
    /// It shall not.
    Gone,
}

/// A neighbour that has not been heard of for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The interface's index.
    pub link: u32,
    /// Its address.
    pub addr: IpAddr,
}

fn family(a: IpAddr) -> AddressFamily {
    match a {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn address(a: &RouteAddress) -> Option<IpAddr> {
    match a {
        RouteAddress::Inet(a) => Some((*a).into()),
        RouteAddress::Inet6(a) => Some((*a).into()),
        _ => None,
    }
}

fn route(fib: &mut Fib, r: &RouteMessage) {
    let h = &r.header;
    let mut to: IpAddr = match h.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (mut table, mut metric) = (u32::from(h.table), 0);
    let mut hop = Hop { link: 0, gateway: None };
    let mut hops = Vec::new();
    // A way by another family's gateway, or through a tunnel, is the kernel's to take.
    let mut strange = false;
    for a in &r.attributes {
        match a {
            RouteAttribute::Destination(d) => to = address(d).unwrap_or(to),
            RouteAttribute::Table(t) => table = *t,
            RouteAttribute::Priority(p) => metric = *p,
            RouteAttribute::Oif(o) => hop.link = *o,
            RouteAttribute::Gateway(g) => hop.gateway = address(g),
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) => strange = true,
            RouteAttribute::MultiPath(all) => {
                for n in all.iter().filter(|n| !n.flags.contains(RouteNextHopFlags::Dead)) {
                    let gateway = n.attributes.iter().find_map(|a| match a {
                        RouteAttribute::Gateway(g) => address(g),
                        _ => None,
                    });
                    hops.push(Hop { link: n.interface_index, gateway });
                }
            }
            _ => {}
        }
    }
    // Entries made for one destination are not routes.
    let cached = h.flags.contains(RouteFlags::Cloned);
    let table = match table {
        MAIN => Table::Main,
        LOCAL => Table::Local,
        _ => return,
    };
    if hop.link != 0 {
        hops.push(hop);
    }
    // A route that the kernel passes over, by links without a carrier where it has been told to heed that. Of several next hops it says so one by one.
    let several = r.attributes.iter().any(|a| matches!(a, RouteAttribute::MultiPath(_)));
    let dead = h.flags.contains(RouteFlags::Dead) || (several && hops.is_empty());
    if cached || dead {
        return;
    }
    let how = match h.kind {
        RouteType::Unicast if !strange => To::Via(hops),
        _ => To::Itself,
    };
    let to = Prefix::new(to, h.destination_prefix_length);
    match h.tos | h.source_prefix_length {
        0 => fib.route(table, to, metric, how),
        _ => fib.route_of_some(table, to),
    }
}

fn neighbour(fib: &mut Fib, n: &NeighbourMessage) -> Option<Stale> {
    let known = matches!(
        n.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    let (mut addr, mut mac) = (None, None);
    for a in &n.attributes {
        match a {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => {
                addr = Some(IpAddr::from(*a));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => {
                addr = Some(IpAddr::from(*a));
            }
            NeighbourAttribute::LinkLayerAddress(b) => mac = b.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let addr = addr?;
    fib.neighbour(n.header.ifindex, addr, MacAddr(mac.filter(|_| known)?));
    let stale = n.header.state == NeighbourState::Stale;
    stale.then_some(Stale { link: n.header.ifindex, addr })
}

#[cfg(test)]
mod tests {
    use super::super::fib::Then;
    use super::*;
    use netlink_packet_route::route::RouteNextHop;

    /// A route all of whose next hops are passed over is none: that of the next metric counts.
    #[test]
    fn a_route_of_dead_hops_leaves_room_for_the_next() {
        let hop = |link: u32, flags: RouteNextHopFlags| {
            let mut h = RouteNextHop::default();
            h.interface_index = link;
            h.flags = flags;
            let gateway = RouteAddress::Inet(Ipv4Addr::new(10, 0, 0, link as u8));
            h.attributes = vec![RouteAttribute::Gateway(gateway)];
            h
        };
        let of = |metric: u32, hops: Vec<RouteNextHop>| {
            let mut r = RouteMessage::default();
            r.header.address_family = AddressFamily::Inet;
            r.header.table = MAIN as u8;
            r.header.kind = RouteType::Unicast;
            r.header.destination_prefix_length = 8;
            let to = RouteAddress::Inet(Ipv4Addr::new(10, 0, 0, 0));
            r.attributes = vec![
                RouteAttribute::Destination(to),
                RouteAttribute::Priority(metric),
                RouteAttribute::MultiPath(hops),
            ];
            r
        };
        let dead = RouteNextHopFlags::Dead.union(RouteNextHopFlags::Linkdown);
        // A link that is down and that nobody was told to heed is a way still.
        for (flags, way) in [(dead, 3), (RouteNextHopFlags::Linkdown, 1)] {
            let mut fib = Fib::default();
            route(&mut fib, &of(10, vec![hop(1, flags), hop(2, dead)]));
            route(&mut fib, &of(20, vec![hop(3, RouteNextHopFlags::empty())]));
            let gateway = IpAddr::from([10, 0, 0, way as u8]);
            fib.neighbour(way, gateway, MacAddr([2; 6]));
            let prefix = Prefix::new(IpAddr::from([10, 0, 0, 0]), 8);
            let forward = Then::Forward { link: way, mac: MacAddr([2; 6]) };
            assert_eq!(fib.rules(|_| true).get(&(Table::Main, prefix)), Some(&forward));
        }
    }
}
