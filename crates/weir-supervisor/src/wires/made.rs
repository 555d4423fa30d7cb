//! The ports and relays that links need on their hosts, and the steps that make them.
//!
//! Room: text from the model, compared by marks as VDPs are. Ports come before the VDPs that use them, and go
//! after those.

use super::{Links, WayPlace};
use crate::model::{Carrier, Lab, end, far_shares, tunnel_end};
use crate::observed::Observed;
use crate::plan::{How, Step};
use crate::refusal::Way;
use crate::section::{Label, Passes, RELAY, digest};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A port that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPort {
    /// On which host.
    pub host: String,
    /// Its name there.
    pub name: String,
    /// What it is made of.
    pub device: String,
    /// Its mark.
    pub label: Label,
    /// Where the lab says so.
    pub at: Way,
}

/// A relay, without its number.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) host: String,
    pub(super) network: String,
    pub(super) name: String,
    pub(super) passes: Passes,
    pub(super) at: Way,
}

/// What links need.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) ports: Vec<WantedPort>,
    pub(super) relays: Vec<Relay>,
}

/// The ports and relays of a lab's links.
pub(super) fn made(lab: &Lab, links: &Links, store: u64) -> Made {
    let mut laid = Made::default();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, l) in n.link.iter().enumerate() {
            let [a, b] = l.between.each_ref().map(|v| n.node(v));
            let (Some(a), Some(b)) = (a, b) else { continue };
            if lab.carrier(&a.host, &b.host) == Carrier::Inside {
                let (name, at) = (n.link_name(j), Way::item("network", i).at("link", j));
                let own = Own { lab, store, network: &n.name, link: &name, at: &at };
                let ends = [(&a.host, n.end_name(j, &a.name)), (&b.host, n.end_name(j, &b.name))];
                let device = format!("memory:{}", ends[0].1);
                laid.ports.extend(ends.map(|(host, name)| own.port(host, name, device.clone())));
            }
        }
        for t in lab.tunnelled(i) {
            let Some(place) = links.get(&format!("{}/{}", n.name, t.name)) else { continue };
            // A mark has room for names of nodes.
            let far = t.far.map(|(v, far)| n.far_relay(v, far));
            let link = far.as_ref().unwrap_or(&t.name);
            let own = Own { lab, store, network: &n.name, link, at: &t.at };
            let probe = t.link.probe_ms.or((place.ways.len() > 1).then_some(100));
            let back: Vec<WayPlace> = place.ways.iter().map(reversed).collect();
            // A port on another host is down at its node when it is down there.
            let stands = match t.far {
                Some((_, far)) => [StandsFor::Node, StandsFor::Port(far.port)],
                None => [StandsFor::Link; 2],
            };
            let ends = t.hosts.iter().zip(&t.ends).zip([&place.ways, &back]).zip(stands);
            for (((host, name), ways), stands) in ends {
                if let Some(device) = own.end(ways, probe, stands) {
                    laid.ports.push(own.port(host, name.clone(), device));
                }
            }
            for w in &place.ways {
                own.relays(w, &mut laid);
            }
            if let Some((v, far)) = t.far {
                let [_, end] = &t.ends;
                laid.relays.push(Relay {
                    host: far.host.to_owned(),
                    network: n.name.clone(),
                    name: n.far_relay(v, far),
                    passes: Passes {
                        ports: [far.port.to_owned(), end.clone()],
                        space: n.flow_space.clone(),
                        share: far_shares(v, far, end),
                    },
                    at: t.key("between"),
                });
            }
        }
    }
    laid
}

fn reversed(w: &WayPlace) -> WayPlace {
    let hosts = w.hosts.iter().rev().cloned().collect();
    WayPlace { hosts, vnis: w.vnis.iter().rev().copied().collect() }
}

/// The MTU of the physical link between two hosts, if the lab says it.
pub(crate) fn mtu_between(lab: &Lab, a: &str, b: &str) -> Option<u32> {
    let joins = |l: &&crate::model::Link| {
        let ends = l.between.each_ref().map(|t| end(t));
        let is = |h: &str| ends.contains(&Some((h, None)));
        is(a) && is(b)
    };
    lab.link.iter().find(joins)?.mtu
}

/// What is at an end.
#[derive(Clone, Copy, Debug)]
enum StandsFor<'l> {
    /// A node, which goes on where the other end's does.
    Link,
    /// A node, one of whose ports is at the other end.
    Node,
    /// That port.
    Port(&'l str),
}

/// The link that something is made for.
struct Own<'l> {
    lab: &'l Lab,
    store: u64,
    network: &'l str,
    link: &'l str,
    at: &'l Way,
}

impl Own<'_> {
    fn port(&self, host: &str, name: String, device: String) -> WantedPort {
        let (network, node) = (self.network.to_owned(), self.link.to_owned());
        let label = Label { store: self.store, network, node, nature: 0, whole: digest(&device) };
        WantedPort { host: host.to_owned(), name, device, label, at: self.at.clone() }
    }

    fn address(&self, host: &str) -> Option<SocketAddr> {
        tunnel_end(self.lab.find_host(host)?.tunnel.as_ref()?)
    }

    fn mtu(&self, a: &str, b: &str) -> Option<u32> {
        mtu_between(self.lab, a, b)
    }

    /// The device of the end at the first host of these ways.
    fn end(&self, ways: &[WayPlace], probe_ms: Option<u32>, at: StandsFor<'_>) -> Option<String> {
        let first = ways.first()?;
        let hop = |w: &WayPlace| Some((*w.vnis.first()?, self.address(w.hosts.get(1)?)?));
        let (vni, remote) = hop(first)?;
        let local = self.address(first.hosts.first()?)?;
        let mut device = format!("vxlan:{vni},remote={remote},local={local}");
        let hops = |w: &WayPlace| {
            let pairs = w.hosts.iter().zip(w.hosts.iter().skip(1));
            pairs.filter_map(|(a, b)| self.mtu(a, b)).min()
        };
        if let Some(mtu) = ways.iter().filter_map(hops).min() {
            device.push_str(&format!(",mtu={mtu}"));
        }
        for w in ways.iter().skip(1) {
            let (vni, remote) = hop(w)?;
            device.push_str(&format!(",backup={vni}@{remote}"));
        }
        if let Some(ms) = probe_ms {
            device.push_str(&format!(",probe_ms={ms}"));
        }
        if let StandsFor::Port(port) = at {
            device.push_str(&format!(",link={port}"));
        }
        if probe_ms.is_some() || !matches!(at, StandsFor::Link) {
            // What both ends know and no tenant can: the store's number is in it.
            let key = digest(&format!("{:x} {}/{} probe", self.store, self.network, self.link));
            device.push_str(&format!(",key={key:016x}"));
        }
        Some(device)
    }

    /// What passes a way on at the hosts between its ends.
    fn relays(&self, w: &WayPlace, laid: &mut Made) {
        let middle = w.hosts.windows(3).zip(w.vnis.windows(2));
        for (hosts, vnis) in middle {
            let ([before, here, after], [x, y]) = (hosts, vnis) else { continue };
            let mut names = Vec::new();
            for (vni, to) in [(x, before), (y, after)] {
                let (Some(remote), Some(local)) = (self.address(to), self.address(here)) else {
                    continue;
                };
                let mut device = format!("vxlan:{vni},remote={remote},local={local}");
                if let Some(mtu) = self.mtu(here, to) {
                    device.push_str(&format!(",mtu={mtu}"));
                }
                let name = format!("_v{vni}");
                laid.ports.push(self.port(here, name.clone(), device));
                names.push(name);
            }
            if let Ok(ports) = <[String; 2]>::try_from(names) {
                laid.relays.push(Relay {
                    host: here.clone(),
                    network: self.network.to_owned(),
                    name: format!("{RELAY}{x}"),
                    passes: Passes { ports, space: Vec::new(), share: Vec::new() },
                    at: self.at.clone(),
                });
            }
        }
    }
}

/// What it takes for these ports to be there and no others of this store's: before VDPs are changed, and
/// afterwards.
pub fn steps(wanted: &[WantedPort], observed: &Observed, store: u64) -> (Vec<Step>, Vec<Step>) {
    let names: BTreeSet<(&str, &str)> =
        wanted.iter().map(|p| (p.host.as_str(), p.name.as_str())).collect();
    let mut there: BTreeMap<(&str, &str), Label> = BTreeMap::new();
    let mut after = Vec::new();
    for (host, seen) in observed {
        for (name, label) in &seen.made {
            let Some(l) = Label::parse(label).filter(|l| l.store == store) else { continue };
            if names.contains(&(host.as_str(), name.as_str())) {
                there.insert((host.as_str(), name.as_str()), l);
            } else {
                after.push(Step::PortDelete { host: host.clone(), name: name.clone() });
            }
        }
    }
    let right = |p: &WantedPort| there.get(&(p.host.as_str(), p.name.as_str())) == Some(&p.label);
    // The ends of a wire are made together: half a wire can't be joined again.
    let wire = |p: &WantedPort| p.device.starts_with("memory:");
    let broken: BTreeSet<(&str, &str)> = wanted
        .iter()
        .filter(|p| wire(p) && !right(p))
        .map(|p| (p.host.as_str(), p.device.as_str()))
        .collect();
    let halves = |p: &WantedPort| broken.contains(&(p.host.as_str(), p.device.as_str()));
    let mut before = Vec::new();
    for p in wanted.iter().filter(|p| halves(p)) {
        if there.contains_key(&(p.host.as_str(), p.name.as_str())) {
            before.push(Step::PortDelete { host: p.host.clone(), name: p.name.clone() });
        }
    }
    for p in wanted.iter().filter(|p| halves(p) || !right(p)) {
        let known = there.contains_key(&(p.host.as_str(), p.name.as_str()));
        let how = if known { How::Anew } else { How::New };
        before.push(Step::PortPut { wanted: p.clone(), how });
    }
    // A batch goes to one host.
    before.sort_by(|a, b| a.host().cmp(b.host()));
    (before, after)
}
