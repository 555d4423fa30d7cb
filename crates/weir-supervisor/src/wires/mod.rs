//! Virtual links that are not just a cable: which ways they take over physical links, which ports they end
//! at, who passes them on in between.
//!
//! Room: pure. [`lay`] takes a checked lab, what nodes report and what was given before; out come the ports
//! and relays that must be there and what is to be remembered; [`steps`] says what it takes. Called with
//! [`crate::admission`], whose nodes these join.
//!
//! A link within a host is a wire in its data plane: two ports of one device. Between hosts each physical
//! link on its way carries it by VXLAN, under a network identifier of its own, so any number of them share
//! a physical link, whatever addresses their tenants use. Where a way leads through a third host, a *relay*
//! joins the two tunnels there: a VDP of two ports and two rules that is the supervisor's, not the
//! tenant's. So is what joins a tunnel to a node's port on another host.

mod made;
mod route;

pub(crate) use made::mtu_between;
pub use made::{WantedPort, steps};

use crate::model::Lab;
use crate::observed::Observed;
use crate::refusal::{Refusal, instead};
use crate::section::{Label, Wanted, relay};
use crate::store::{Place, Places};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Virtual links by tunnels, by `NETWORK/LINK`.
pub type Links = BTreeMap<String, LinkPlace>;

/// Where a virtual link goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlace {
    /// Its ways, the one that is preferred first.
    pub ways: Vec<WayPlace>,
}

/// A way from one end of a link to the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayPlace {
    /// The hosts, from the first end's to the second's.
    pub hosts: Vec<String>,
    /// The network identifier on each hop.
    pub vnis: Vec<u32>,
}

/// What there was.
#[derive(Clone, Copy, Debug)]
pub struct Before<'b> {
    /// Where virtual nodes and relays live.
    pub places: &'b Places,
    /// Where virtual links go.
    pub links: &'b Links,
}

/// What a lab's links come down to.
#[derive(Clone, Debug, Default)]
pub struct Laid {
    /// Where they go, to be remembered.
    pub links: Links,
    /// Ports that must be there.
    pub ports: Vec<WantedPort>,
    /// Relays that must be there.
    pub relays: Vec<Wanted>,
    /// Where the relays live, to be remembered.
    pub places: Places,
}

/// Finds ways for a lab's links, and what must be there for them. What was found before stays where it can.
///
/// # Errors
/// A link that no way carries; a name that is somebody else's.
pub fn lay(
    lab: &Lab,
    observed: &Observed,
    before: Before<'_>,
    store: u64,
) -> Result<Laid, Refusal> {
    let theirs = observed.values().flat_map(|h| h.vnis.iter().copied());
    let busy: BTreeSet<u32> = theirs.collect();
    let links = route::route(lab, before.links, &busy, store)?;
    let made::Made { ports, relays } = made::made(lab, &links, store);
    for p in &ports {
        let Some(host) = observed.get(&p.host) else {
            let text = format!("host '{}' was not asked what it has", p.host);
            return Err(Refusal::new(p.at.clone(), text));
        };
        let ours = |l: &String| Label::parse(l).is_some_and(|l| l.store == store);
        if host.ports.contains(&p.name) && !host.made.get(&p.name).is_some_and(ours) {
            let text = format!("host '{}' has a port called '{}' that is not ours", p.host, p.name);
            return Err(Refusal::new(p.at.clone(), format!("{text}: give it another name there")));
        }
    }
    let mut laid = Laid { links, ports, ..Laid::default() };
    laid.seat(relays, observed, before.places, store)?;
    Ok(laid)
}

impl Laid {
    /// Gives relays their numbers: from the top, where nodes have theirs from the bottom.
    fn seat(
        &mut self,
        relays: Vec<made::Relay>,
        observed: &Observed,
        before: &Places,
        store: u64,
    ) -> Result<(), Refusal> {
        let mut taken: BTreeSet<(&str, u16)> = BTreeSet::new();
        for (host, seen) in observed {
            let ours = |l: &String| Label::parse(l).is_some_and(|l| l.store == store);
            let theirs = seen.vdps.iter().filter(|v| !v.label.as_ref().is_some_and(ours));
            taken.extend(theirs.map(|v| (host.as_str(), v.vid)));
        }
        taken.extend(before.values().map(|p| (p.host.as_str(), p.vid)));
        for r in relays {
            let key = format!("{}/{}", r.network, r.name);
            let old = before.get(&key).filter(|p| p.host == r.host).map(|p| p.vid);
            let Some((host, seen)) = observed.get_key_value(&r.host) else { continue };
            // What it passes on to is there, or is made for it.
            let of = |node: &str| node.split_once('/').is_some_and(|(n, _)| n == r.network);
            let gone = |p: &str| seen.gone.iter().any(|(node, all)| of(node) && all.contains(p));
            let made = |p: &str| self.ports.iter().any(|w| w.host == *host && w.name == p);
            let known = |p: &str| seen.ports.contains(p) || made(p) || gone(p);
            if let Some(p) = r.passes.ports.iter().find(|p| !known(p)) {
                let near = instead(p, seen.ports.iter().map(String::as_str));
                let text = format!("host '{host}' has no port '{p}': {near}");
                let text = format!("{text}; network '{}' wants it", r.network);
                return Err(Refusal::new(r.at, text));
            }
            let free = || (1..u16::MAX).rev().find(|vid| !taken.contains(&(host.as_str(), *vid)));
            let Some(vid) = old.or_else(free) else {
                let text = format!("host '{host}' has no number left for a relay");
                return Err(Refusal::new(r.at, text));
            };
            taken.insert((host.as_str(), vid));
            let label = (store, r.network.as_str(), r.name.as_str());
            self.relays.push(relay(&r.host, vid, label, r.passes, &r.at));
            self.places.insert(key, Place { host: r.host, vid });
        }
        Ok(())
    }
}
