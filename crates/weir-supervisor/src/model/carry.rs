//! What carries a virtual link, as far as the lab alone says, and what its ends are called.
//!
//! Room: names. Two nodes on one host are joined inside its data plane; over a cable between two hosts'
//! ports their frames are told apart by the flow space, so its ports are the nodes' own; else tunnels
//! carry them, by [`crate::wires`], and each end is a port that is made for it.

use super::{Far, Lab, Network, Node, VirtualLink};
use crate::section::digest;
use std::borrow::Cow;

/// Longest name of a port.
pub const NAME_BYTES: usize = 32;

/// What carries a virtual link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier<'l> {
    /// A cable: its port at either end.
    Cable(&'l str, &'l str),
    /// A wire inside a data plane.
    Inside,
    /// Tunnels, over one physical link or several.
    Tunnel,
}

/// An end of a physical link: host and port, or a host whose tunnels end there.
pub(crate) fn end(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    (!host.is_empty() && port != Some("")).then_some((host, port))
}

/// A port of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment<'l> {
    /// What it is called on the host.
    pub port: Cow<'l, str>,
    /// What the node itself calls it: as the host does, or by the node at the other end of its link.
    pub inside: Cow<'l, str>,
    /// Whether it is made for a link and nobody else's.
    pub made: Made,
}

/// Whose a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The host's, and perhaps other nodes' too.
    ByHost,
    /// One virtual link's.
    ForLink,
}

fn by_host(port: &str) -> Attachment<'_> {
    Attachment { port: port.into(), inside: port.into(), made: Made::ByHost }
}

impl Network {
    /// What link `i` is called in its network: its nodes, and which of several between them it is.
    pub fn link_name(&self, i: usize) -> String {
        let Some(l) = self.link.get(i) else { return String::new() };
        let [a, b] = &l.between;
        let before = self.link.iter().take(i).filter(|o| same(o, l)).count();
        match before {
            0 => format!("{a}.{b}"),
            n => format!("{a}.{b}.{}", n + 1),
        }
    }

    /// What the end of link `i` at `node` is called there: the node at its other end, and which of several.
    fn other(&self, i: usize, node: &str) -> String {
        let Some(l) = self.link.get(i) else { return String::new() };
        let other = if l.between[0] == node { &l.between[1] } else { &l.between[0] };
        match self.link.iter().take(i).filter(|o| same(o, l)).count() {
            0 => other.clone(),
            n => format!("{other}.{}", n + 1),
        }
    }

    /// What the end of link `i` at `node` is called on its host, where a port is made for it:
    /// `NETWORK.NODE.OTHER`.
    pub fn end_name(&self, i: usize, node: &str) -> String {
        short(format!("{}.{node}.{}", self.name, self.other(i, node)))
    }
}

/// A name of a port, cut with a digest behind where it is too long for one.
pub(super) fn short(whole: String) -> String {
    if whole.len() <= NAME_BYTES {
        return whole;
    }
    let head: String = whole.chars().take(NAME_BYTES - 17).collect();
    format!("{head}.{:016x}", digest(&whole))
}

fn same(a: &VirtualLink, b: &VirtualLink) -> bool {
    let [x, y] = &a.between;
    a.between == b.between || [y, x] == [&b.between[0], &b.between[1]]
}

impl Lab {
    /// What carries a link between nodes on these hosts: the first physical link that joins them.
    pub(crate) fn carrier(&self, a: &str, b: &str) -> Carrier<'_> {
        if a == b {
            return Carrier::Inside;
        }
        let found = self.link.iter().find_map(|l| {
            let (x, y) = (end(&l.between[0])?, end(&l.between[1])?);
            let (x, y) = match () {
                () if x.0 == a && y.0 == b => (x, y),
                () if x.0 == b && y.0 == a => (y, x),
                () => return None,
            };
            Some(match (x.1, y.1) {
                (Some(here), Some(there)) => Carrier::Cable(here, there),
                _ => Carrier::Tunnel,
            })
        });
        found.unwrap_or(Carrier::Tunnel)
    }

    /// What carries link `i` of a network, in a word: "inside", "cable" or "tunnel".
    pub fn carried(&self, n: &Network, i: usize) -> &'static str {
        let [a, b] = match n.link.get(i) {
            Some(l) => l.between.each_ref().map(|v| n.node(v).map_or("", |v| v.host.as_str())),
            None => ["", "?"],
        };
        match self.carrier(a, b) {
            Carrier::Cable(..) => "cable",
            Carrier::Inside => "inside",
            Carrier::Tunnel => "tunnel",
        }
    }

    /// The ports of a node, numbered from 1: its own first, then an end of each of its links. Links
    /// that nothing carries, which [`check`](super::check()) refuses, have theirs all the same.
    pub fn attached<'l>(&'l self, network: &'l Network, node: &'l Node) -> Vec<Attachment<'l>> {
        let own = node.ports.iter().enumerate().map(|(place, text)| match node.spot(text) {
            (host, port) if host == node.host => by_host(port),
            (host, port) => Attachment {
                port: network.far_name(node, Far { place, host, port }).into(),
                inside: format!("{host}.{port}").into(),
                made: Made::ForLink,
            },
        });
        let mut all: Vec<Attachment<'l>> = own.collect();
        for (i, l) in network.link.iter().enumerate() {
            let [a, b] = &l.between;
            let other = match () {
                () if *a == node.name => b,
                () if *b == node.name => a,
                () => continue,
            };
            let Some(other) = network.node(other) else { continue };
            let new = match self.carrier(&node.host, &other.host) {
                Carrier::Cable(here, _) => by_host(here),
                Carrier::Inside | Carrier::Tunnel => {
                    let port = Cow::Owned(network.end_name(i, &node.name));
                    let inside = network.other(i, &node.name).into();
                    Attachment { port, inside, made: Made::ForLink }
                }
            };
            if !all.iter().any(|o| o.port == new.port) {
                all.push(new);
            }
        }
        all
    }
}
