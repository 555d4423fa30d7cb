//! Whether the physical nodes can carry a lab, said before anything is touched; and which number every
//! virtual node has on its host.
//!
//! Room: a checked lab and what nodes report in, sections out. Called before a plan is made.

use crate::away::BODY;
use crate::model::router::has_cpus;
use crate::model::{Lab, Made, Network, Node};
use crate::observed::{Budget, Observed, ObservedHost, ObservedVdp};
use crate::refusal::{Refusal, Way, instead};
use crate::section::{Wanted, section, whose};
use crate::store::{Place, Places};
use std::collections::{BTreeMap, BTreeSet};

/// The VDPs that a lab comes down to, and their places. Numbers that were given before stay.
///
/// # Errors
/// The first thing that a host lacks.
pub fn admit(
    lab: &Lab,
    observed: &Observed,
    before: &Places,
    store: u64,
) -> Result<(Vec<Wanted>, Places), Refusal> {
    let mut hosts: BTreeMap<&str, Host<'_>> = BTreeMap::new();
    for (name, seen) in observed {
        hosts.insert(name, Host::new(name, seen, store, before));
    }
    // What leaves a host is there until what comes is: its number is nobody else's in the same change.
    for p in before.values() {
        hosts.get_mut(p.host.as_str()).map(|h| h.given.insert(p.vid));
    }
    let mut places = Places::new();
    // Numbers that were given before are taken first, so that no other node gets them.
    let mut open = Vec::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            let at = Way::item("network", i).at("node", j);
            let key = format!("{}/{}", n.name, v.name);
            let Some(host) = hosts.get_mut(v.host.as_str()) else {
                let text = format!("host '{}' was not asked what it has", v.host);
                return Err(Refusal::new(at.key("host"), text));
            };
            let old = before.get(&key).filter(|p| p.host == v.host).map(|p| p.vid);
            match old.filter(|vid| host.taken.insert(*vid)) {
                Some(vid) => {
                    places.insert(key, Place { host: v.host.clone(), vid });
                }
                None => open.push((key, v.host.as_str(), at)),
            }
        }
    }
    for (key, name, at) in open {
        let Some(host) = hosts.get_mut(name) else { continue };
        let Some(vid) = host.number() else {
            let text = format!("host '{name}' has no number left for another VDP: 65534 are there");
            return Err(Refusal::new(at.key("host"), text));
        };
        places.insert(key, Place { host: name.to_owned(), vid });
    }
    let mut wanted = Vec::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            let at = Way::item("network", i).at("node", j);
            let Some(place) = places.get(&format!("{}/{}", n.name, v.name)) else { continue };
            let w = section(lab, n, v, place.vid, store, &at);
            if let Some(host) = hosts.get_mut(v.host.as_str()) {
                ports(lab, host, n, v, &at)?;
                processors(host, n, v, &at)?;
                host.take(&w, v.tcam_entries, v.cpu_permille, &at)?;
            }
            // A relay at each of its ports elsewhere, for the port's frames and those of the tunnel.
            for far in v.far() {
                let need = u32::try_from(n.flow_space.len().max(1) + 1).unwrap_or(u32::MAX);
                if let Some(host) = hosts.get_mut(far.host) {
                    let whose = format!("the relay of {} at port '{}'", w.name, far.port);
                    host.map(far.host, need, &whose, &at.at("ports", far.place))?;
                }
            }
            wanted.push(w);
        }
    }
    promises(lab)?;
    Ok((wanted, places))
}

/// A host's books.
struct Host<'o> {
    seen: &'o ObservedHost,
    /// Names of VDPs that are not ours.
    others: BTreeSet<&'o str>,
    taken: BTreeSet<u16>,
    /// Numbers that nodes had before.
    given: BTreeSet<u16>,
    next: u16,
    mapping: Part,
    action: Part,
    cpu_left: u32,
}

struct Part {
    slice: u32,
    left: u32,
}

impl Part {
    fn new(b: Budget, ours: u32) -> Self {
        Self { slice: b.slice_entries.max(1), left: b.free_entries.saturating_add(ours) }
    }
    /// Takes whole slices for `entries`; `Err` says how many entries they are.
    fn take(&mut self, entries: u32) -> Result<(), u32> {
        let whole = entries.div_ceil(self.slice).saturating_mul(self.slice);
        self.left = self.left.checked_sub(whole).ok_or(whole)?;
        Ok(())
    }
}

impl<'o> Host<'o> {
    fn new(name: &str, seen: &'o ObservedHost, store: u64, before: &Places) -> Self {
        // Bodies of nodes that are away are others' here: they are let alone.
        let ours = |v: &&ObservedVdp| {
            whose(v, name, store, before).is_some_and(|o| !o.node.ends_with(BODY))
        };
        let own: Vec<&ObservedVdp> = seen.vdps.iter().filter(ours).collect();
        let others: Vec<&ObservedVdp> = seen.vdps.iter().filter(|v| !ours(v)).collect();
        let sum =
            |f: fn(&ObservedVdp) -> u32| own.iter().map(|v| f(v)).fold(0, u32::saturating_add);
        let cpu: u32 = others.iter().map(|v| v.cpu_permille).fold(0, u32::saturating_add);
        Self {
            seen,
            others: others.iter().map(|v| v.name.as_str()).collect(),
            taken: others.iter().map(|v| v.vid).collect(),
            given: BTreeSet::new(),
            next: 1,
            mapping: Part::new(seen.mapping, sum(|v| v.mapping_entries)),
            action: Part::new(seen.action, sum(|v| v.action_entries)),
            cpu_left: 1000_u32.saturating_sub(cpu),
        }
    }

    /// The lowest number that nobody has.
    fn number(&mut self) -> Option<u16> {
        while self.next < u16::MAX {
            let vid = self.next;
            self.next += 1;
            if !self.given.contains(&vid) && self.taken.insert(vid) {
                return Some(vid);
            }
        }
        None
    }

    /// Takes entries for mapping rules.
    fn map(&mut self, host: &str, rules: u32, whose: &str, at: &Way) -> Result<(), Refusal> {
        self.mapping.take(rules).map_err(|n| {
            let left = self.mapping.left;
            let text = format!("host '{host}': {whose} needs {n} TCAM entries for mapping");
            let mend = "raise its tcam.mapping_entries, or take smaller slices";
            Refusal::new(at.clone(), format!("{text}, {left} are left: {mend}"))
        })
    }

    fn take(&mut self, w: &Wanted, own: u32, cpu: u32, at: &Way) -> Result<(), Refusal> {
        let host = &w.host;
        if self.others.contains(w.name.as_str()) {
            let text = format!("host '{host}' has a VDP called '{}' that is not ours", w.name);
            return Err(Refusal::new(at.key("name"), format!("{text}: give another name")));
        }
        self.map(host, w.mapping_rules, &w.name, &at.key("host"))?;
        self.action.take(own).map_err(|n| {
            let left = self.action.left;
            let text = format!("host '{host}': {} wants {n} TCAM entries of its own", w.name);
            Refusal::new(
                at.key("tcam_entries"),
                format!("{text}, {left} are left: ask for fewer, or raise its tcam.action_entries"),
            )
        })?;
        self.cpu_left = self.cpu_left.checked_sub(cpu).ok_or_else(|| {
            let left = self.cpu_left;
            let text = format!("host '{host}': {} wants {cpu} permille of its worker", w.name);
            Refusal::new(at.key("cpu_permille"), format!("{text}, {left} are left: ask for less"))
        })?;
        Ok(())
    }
}

fn ports(lab: &Lab, host: &Host<'_>, n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    let attached = lab.attached(n, v).into_iter().enumerate();
    for (i, a) in attached.filter(|(_, a)| a.made == Made::ByHost) {
        let p = &*a.port;
        if !host.seen.has(p, &format!("{}/{}", n.name, v.name)) {
            let near = instead(p, host.seen.ports.iter().map(String::as_str));
            let at = if i < v.ports.len() { at.at("ports", i) } else { at.key("host") };
            let text = format!("host '{}' has no port '{p}': {near}", v.host);
            let text = format!("{text}; {} wants it", v.vdp_name(n));
            return Err(Refusal::new(at, text));
        }
    }
    Ok(())
}

/// A router's programs run on processors that are there.
fn processors(host: &Host<'_>, n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    let asked = v.as_router().and_then(|r| r.cpus);
    let (Some(asked), Some(there)) = (asked, &host.seen.processors) else { return Ok(()) };
    if has_cpus(there, &asked) {
        return Ok(());
    }
    let text = format!("host '{}': router {} wants processors {asked}", v.host, v.vdp_name(n));
    Err(Refusal::new(at.key("router").key("cpus"), format!("{text}, there are {there}")))
}

/// What is promised on a port is at most what it carries.
fn promises(lab: &Lab) -> Result<(), Refusal> {
    let mut left: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for h in &lab.host {
        left.extend(h.port.iter().map(|p| ((h.name.as_str(), p.name.as_str()), p.capacity_bps)));
    }
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            for (k, s) in v.share.iter().enumerate() {
                let (host, port) = v.spot(&s.port);
                let Some(free) = left.get_mut(&(host, port)) else { continue };
                *free = free.checked_sub(s.guarantee_bps).ok_or_else(|| {
                    let at = Way::item("network", i).at("node", j).at("share", k);
                    let text = format!(
                        "port '{port}' of host '{host}': {} bit/s are promised to {}, {free} are left",
                        s.guarantee_bps,
                        v.vdp_name(n)
                    );
                    let text =
                        format!("{text}: promise less, or raise capacity_bps if it carries more");
                    Refusal::new(at.key("guarantee_bps"), text)
                })?;
            }
        }
    }
    Ok(())
}
