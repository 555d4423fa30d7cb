//! A node's ports on other hosts: one switch over several physical nodes, up to a whole physical network
//! (003 §2.1; OpenVirteX's big switch).
//!
//! Room: names. The node's tables are at its own host. Each port elsewhere is joined to them by a tunnel, which
//! is laid as a virtual link's is, and at the other host by a *relay* between the tunnel and the port, which
//! lets pass what is the network's. Read by [`super::check`](super::check()), by [`crate::wires`], which lays the
//! tunnels, and by [`crate::admission`].

use super::carry::short;
use super::{Carrier, Lab, Network, Node, Share, VirtualLink, is_nothing, is_zero};
use crate::refusal::Way;
use crate::section::{RELAY, digest};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::ToSchema;

/// What is asked of the ways from a node to each of its ports on other hosts, as of a virtual link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// Bits per second that each port's way is promised on every physical link that it goes over.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub guarantee_bps: u64,
    /// The most bits per second that go either way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_bps: Option<u64>,
    /// The longest packet that must pass whole, in bytes, without Ethernet's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Further ways that share no physical link with those before, taken when those fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backups: u32,
    /// How often ways are probed, in milliseconds; 100 where there are backups, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ms: Option<u32>,
}

/// A port of a node that is on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far<'l> {
    /// Its place among the node's ports, from 0.
    pub place: usize,
    /// The host.
    pub host: &'l str,
    /// What it is called there.
    pub port: &'l str,
}

impl Node {
    /// The host and the name there of a port of `ports` or of a share: `PORT`, or `HOST:PORT`.
    pub fn spot<'l>(&'l self, text: &'l str) -> (&'l str, &'l str) {
        text.split_once(':').unwrap_or((&self.host, text))
    }

    /// Its ports on other hosts.
    pub fn far(&self) -> impl Iterator<Item = Far<'_>> {
        let spots = self.ports.iter().enumerate().map(|(place, text)| (place, self.spot(text)));
        let far = spots.filter(|(_, (host, _))| *host != self.host);
        far.map(|(place, (host, port))| Far { place, host, port })
    }

    /// The virtual link that joins it to a port elsewhere.
    fn spoke(&self, far: Far<'_>) -> VirtualLink {
        let f = self.fabric.clone().unwrap_or_default();
        VirtualLink {
            between: [self.name.clone(), format!("{}:{}", far.host, far.port)],
            guarantee_bps: f.guarantee_bps,
            ceiling_bps: f.ceiling_bps,
            mtu: f.mtu,
            backups: f.backups,
            probe_ms: f.probe_ms,
        }
    }
}

impl Network {
    /// What either end of the tunnel to a port elsewhere is called on its host: `NETWORK.NODE.HOST.PORT`.
    /// A link's end has a number in the last place, which no port's name begins with.
    pub fn far_name(&self, v: &Node, far: Far<'_>) -> String {
        short(format!("{}.{}.{}.{}", self.name, v.name, far.host, far.port))
    }

    /// What the relay at a port elsewhere is called.
    pub(crate) fn far_relay(&self, v: &Node, far: Far<'_>) -> String {
        let of = format!("{}/{} {}:{}", self.name, v.name, far.host, far.port);
        format!("{RELAY}{:010x}", digest(&of) & 0xff_ffff_ffff)
    }
}

/// A virtual link that goes by tunnels.
#[derive(Clone, Debug)]
pub struct Tunnelled<'l> {
    /// What it is called in its network.
    pub name: String,
    /// What is asked of it.
    pub link: Cow<'l, VirtualLink>,
    /// The hosts of its ends.
    pub hosts: [&'l str; 2],
    /// What its ends are called there.
    pub ends: [String; 2],
    /// The port that it leads to, and of which node, if that is on another host.
    pub far: Option<(&'l Node, Far<'l>)>,
    /// Where the lab says so.
    pub at: Way,
}

impl Tunnelled<'_> {
    /// Where the lab says `key` of it.
    pub(crate) fn key(&self, key: &'static str) -> Way {
        match &self.far {
            Some((_, far)) if key == "between" => self.at.at("ports", far.place),
            Some(_) => self.at.key("fabric").key(key),
            None => self.at.key(key),
        }
    }
}

impl Lab {
    /// The links of network `i` that go by tunnels, and those between its nodes and their ports elsewhere.
    pub fn tunnelled(&self, i: usize) -> Vec<Tunnelled<'_>> {
        let Some(n) = self.network.get(i) else { return Vec::new() };
        let mut all = Vec::new();
        for (j, link) in n.link.iter().enumerate() {
            let [a, b] = link.between.each_ref().map(|v| n.node(v));
            let (Some(a), Some(b)) = (a, b) else { continue };
            if self.carrier(&a.host, &b.host) == Carrier::Tunnel {
                all.push(Tunnelled {
                    name: n.link_name(j),
                    link: Cow::Borrowed(link),
                    hosts: [&a.host, &b.host],
                    ends: [n.end_name(j, &a.name), n.end_name(j, &b.name)],
                    far: None,
                    at: Way::item("network", i).at("link", j),
                });
            }
        }
        for (j, v) in n.node.iter().enumerate() {
            for far in v.far() {
                let link = v.spoke(far);
                let end = n.far_name(v, far);
                all.push(Tunnelled {
                    name: format!("{}.{}", v.name, link.between[1]),
                    link: Cow::Owned(link),
                    hosts: [&v.host, far.host],
                    ends: [end.clone(), end],
                    far: Some((v, far)),
                    at: Way::item("network", i).at("node", j),
                });
            }
        }
        all
    }
}

/// The shares at the far end: what the node's say of the port, and the ceiling of what goes to the node.
pub(crate) fn far_shares(v: &Node, far: Far<'_>, end: &str) -> Vec<Share> {
    let there = |s: &&Share| v.spot(&s.port) == (far.host, far.port);
    let given = v.share.iter().filter(there);
    let mut all: Vec<Share> =
        given.map(|s| Share { port: far.port.to_owned(), ..s.clone() }).collect();
    let ceiling = v.fabric.as_ref().and_then(|f| f.ceiling_bps);
    all.extend(ceiling.map(|c| Share {
        port: end.to_owned(),
        ceiling_bps: Some(c),
        ..Share::default()
    }));
    all
}
