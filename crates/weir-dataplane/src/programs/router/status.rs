//! A router's state for people: counters, neighbours, `weir show`'s lines. Reads only.

use super::neighbour::NeighbourState;
use super::{Router, Target};
use crate::action::PortNo;
use std::net::IpAddr;
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// What a router has done so far, in frames unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets for the router itself.
    pub local: u64,
    /// Frames for other stations, from ports without an interface, of other protocols.
    pub not_ours: u64,
    /// Broken headers and wrong checksums.
    pub malformed: u64,
    /// Source or destination addresses that no packet may have.
    pub martian: u64,
    /// Packets without a route.
    pub no_route: u64,
    /// Packets whose TTL or hop limit ran out.
    pub ttl_expired: u64,
    /// Packets too long for the next link that could not be cut.
    pub too_long: u64,
    /// Packets cut into fragments.
    pub fragmented: u64,
    /// Fragments made.
    pub fragments: u64,
    /// Packets for the router itself put together of fragments.
    pub reassembled: u64,
    /// Requests for neighbours sent.
    pub asked: u64,
    /// Requests for the router's own addresses answered.
    pub answered: u64,
    /// Stations that claim an address of the router's.
    pub conflicts: u64,
    /// Neighbours that never answered.
    pub neighbours_failed: u64,
    /// Packets that found no room to wait for a neighbour.
    pub queue_overflows: u64,
    /// Messages that say which groups it is in.
    pub reports: u64,
    /// Pings answered.
    pub echo_replies: u64,
    /// ICMP errors sent.
    pub errors_sent: u64,
    /// ICMP errors not sent, by the rate limit.
    pub errors_limited: u64,
}

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The port it is behind.
    pub port: PortNo,
    /// Its address.
    pub addr: IpAddr,
    /// Its MAC, once known.
    pub mac: Option<MacAddr>,
    /// How it stands.
    pub state: NeighbourState,
}

impl Router {
    /// What it has done so far.
    pub fn counters(&self) -> RouterCounters {
        self.counters
    }

    /// Its neighbours at time `now`, by port and address.
    pub fn neighbours(&self, now: Nanos) -> Vec<Neighbour> {
        let rows = self.neighbours.rows(now).into_iter();
        rows.filter_map(|(key, mac, state)| {
            let port = self.iface(key.iface)?.port;
            Some(Neighbour { port, addr: key.addr, mac, state })
        })
        .collect()
    }

    /// What an address leads to, in words: for `weir trace`.
    pub fn explain(&self, addr: IpAddr) -> String {
        let port = |id| self.iface(id).map_or(PortNo(0), |i| i.port);
        match self.routes.lookup(addr) {
            None => "no route".into(),
            Some(Target::Local) => "the router itself".into(),
            Some(Target::Broadcast(i)) => format!("broadcast on port {}", port(i)),
            Some(Target::Connected(i)) => format!("on the link of port {}", port(i)),
            Some(Target::Gateway(h)) => format!("gateway {} on port {}", h.next, port(h.iface)),
            Some(Target::Discard) => "discard".into(),
        }
    }

    pub(super) fn describe(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let mut lines = vec![
            ("routes".into(), self.routes.len().to_string()),
            ("neighbours".into(), self.neighbours.len().to_string()),
            ("waiting for a neighbour".into(), self.neighbours.held().to_string()),
        ];
        for i in &self.ifaces {
            let given = i.v4.iter().map(|a| a.1).chain(i.v6.iter().map(|a| a.1));
            let mut text: Vec<String> = given.map(|p| p.to_string()).collect();
            text.extend(i.link_local.map(|a| a.to_string()));
            lines.push((format!("port {}", i.port), format!("{} {}", i.mac, text.join(" "))));
        }
        let counts: [(&str, u64); 20] = [
            ("forwarded", c.forwarded),
            ("to the router", c.local),
            ("not for the router", c.not_ours),
            ("malformed", c.malformed),
            ("martian", c.martian),
            ("without a route", c.no_route),
            ("TTL expired", c.ttl_expired),
            ("too long", c.too_long),
            ("fragmented", c.fragmented),
            ("fragments", c.fragments),
            ("reassembled", c.reassembled),
            ("neighbours asked for", c.asked),
            ("own addresses answered", c.answered),
            ("address conflicts", c.conflicts),
            ("neighbours unreachable", c.neighbours_failed),
            ("queue overflows", c.queue_overflows),
            ("group reports", c.reports),
            ("echo replies", c.echo_replies),
            ("ICMP errors", c.errors_sent),
            ("ICMP errors limited", c.errors_limited),
        ];
        lines.extend(counts.iter().map(|(name, n)| ((*name).into(), n.to_string())));
        lines
    }
}
