//! Nodes that are processed by another host than the one whose ports they have: what must be there.
//!
//! Room: sections and observations in, sections and ports out; nothing is touched. A node's VDP stays on
//! its host, which hands its frames on by a tunnel for each port to its *body*, a VDP on the other host,
//! made of the same section. A body is known by its mark, which names the node with a `~` behind it; nobody
//! else's plans look at it. Called by whoever moves nodes, which is the binary's.

use crate::model::{Lab, Network, Node, Openflow, Rule, tunnel_end};
use crate::observed::{Observed, ObservedHost, ObservedVdp};
use crate::refusal::{Refusal, Way};
use crate::section::{Label, datapath_id, digest, section};
use crate::store::Places;
use crate::wires::mtu_between;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

/// What ends the name of a node in its body's mark.
pub const BODY: char = '~';

/// Whoever reads the flow syntax of rules.
pub trait RuleSyntax {
    /// The same rule with a node's own numbers of its ports in the place of their names, which are given in
    /// their order from number 1 on.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn by_number(&self, rule: &Rule, ports: &[String]) -> Result<Rule, String>;
}

/// A tunnel from a port of a node to its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The name of both its ends, one on each host.
    pub name: String,
    /// What the end at home is made of.
    pub at_home: String,
    /// What the end at the body is made of.
    pub at_body: String,
}

/// A node's body, as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The node, `NETWORK/NODE`.
    pub node: String,
    /// Its home and its number there.
    pub home: (String, u16),
    /// The other host and its number there.
    pub away: (String, u16),
    /// Its `[[vdp]]` section there.
    pub toml: String,
    /// A tunnel for each of its ports, in their order.
    pub tunnels: Vec<Tunnel>,
}

/// The bodies that a store keeps: host, VDP, and the node's network and name.
pub fn bodies(observed: &Observed, store: u64) -> Vec<(&str, &ObservedVdp, (String, String))> {
    let mut all = Vec::new();
    for (host, seen) in observed {
        for v in &seen.vdps {
            let label = v.label.as_deref().and_then(Label::parse).filter(|l| l.store == store);
            let Some(l) = label else { continue };
            if let Some(node) = l.node.strip_suffix(BODY) {
                all.push((host.as_str(), v, (l.network.clone(), node.to_owned())));
            }
        }
    }
    all
}

/// The name that the tunnels of a node have, but for their number behind it.
pub fn tunnels_of(store: u64, network: &str, node: &str) -> String {
    let hash = digest(&format!("{store:016x} {network}/{node}"));
    format!("mv-{:010x}-", hash & 0xff_ffff_ffff)
}

/// The mark of a tunnel.
pub fn tunnel_label(store: u64, name: &str) -> String {
    format!("weir-move:{store:016x}:{name}")
}

/// The ends of a store's tunnels that a host has: each name, and that of the node's tunnels in front of its
/// number.
pub fn tunnels_at(host: &ObservedHost, store: u64) -> impl Iterator<Item = (&str, &str)> {
    let ours = host.made.iter().filter(move |(name, label)| **label == tunnel_label(store, name));
    ours.map(|(name, _)| {
        let (front, _) = name.split_at(name.rfind('-').map_or(0, |n| n + 1));
        (name.as_str(), front)
    })
}

/// The names that tunnels of a lab's nodes have, but for their numbers.
pub fn tunnels_needed(lab: &Lab, store: u64) -> BTreeSet<String> {
    let away = |n: &Network, v: &Node| v.away.as_ref().map(|_| tunnels_of(store, &n.name, &v.name));
    lab.network.iter().flat_map(|n| n.node.iter().filter_map(|v| away(n, v))).collect()
}

/// The body of a node that shall be processed by another host.
///
/// # Errors
/// It can't be, and why.
pub fn body(
    lab: &Lab,
    n: &Network,
    v: &Node,
    vid: u16,
    observed: &Observed,
    store: u64,
    rules: &impl RuleSyntax,
) -> Result<Body, Refusal> {
    let place = |x: usize| Way::item("network", x);
    let at = lab.network.iter().position(|o| o.name == n.name).map(place).unwrap_or_default();
    let at = match n.node.iter().position(|o| o.name == v.name) {
        Some(i) => at.at("node", i).key("away"),
        None => at,
    };
    let refuse = |text: String| Refusal::new(at.clone(), text);
    let other = v.away.clone().unwrap_or_default();
    let end = |name: &str| {
        let end = lab.find_host(name).and_then(|h| tunnel_end(h.tunnel.as_ref()?));
        end.ok_or_else(|| {
            refuse(format!("host '{name}' has no 'tunnel': say where its tunnels end"))
        })
    };
    let (here, there) = (end(&v.host)?, end(&other)?);
    let Some(seen) = observed.get(&other) else {
        return Err(refuse(format!("host '{other}' was not asked what it has")));
    };
    if let Some(p) = &v.program {
        let name = p.name();
        if !matches!(name, "forward" | "reflector" | "sink" | "learning") {
            return Err(refuse(format!("program '{name}' has a state that can't be taken along")));
        }
        if p.is_told_more_than_numbers() {
            let text =
                format!("program '{name}' is told of its host's ports, which are others there");
            return Err(refuse(text));
        }
    }
    let count = lab.attachments(n, v).len();
    let first = tunnels_of(store, &n.name, &v.name);
    let mtu = mtu_between(lab, &v.host, &other).map(|m| format!(",mtu={m}")).unwrap_or_default();
    let tunnels: Vec<Tunnel> = (1..=count)
        .map(|i| {
            let name = format!("{first}{i}");
            // Drawn by the name: the same whenever it is asked for.
            let vni = digest(&name) % 0xff_fffe + 1;
            // What both ends know and no tenant can: by it the body hears of the links of the node's ports.
            let key = digest(&format!("{store:x} {name} links"));
            let device = |local: SocketAddr, remote: SocketAddr| {
                format!("vxlan:{vni},remote={remote},local={local}{mtu},key={key:016x}")
            };
            Tunnel { at_home: device(here, there), at_body: device(there, here), name }
        })
        .collect();
    let known = bodies(observed, store).into_iter().find(|(host, _, node)| {
        *host == other && (node.0.as_str(), node.1.as_str()) == (&n.name, &v.name)
    });
    let taken: BTreeSet<u16> = seen.vdps.iter().map(|v| v.vid).collect();
    let free = || (1..u16::MAX).rev().find(|vid| !taken.contains(vid));
    let number = known.as_ref().map(|(_, v, _)| v.vid).or_else(free);
    let Some(number) = number else {
        return Err(refuse(format!("host '{other}' has no number left for another VDP")));
    };
    if known.is_none() {
        let name = v.vdp_name(n);
        if seen.vdps.iter().any(|o| o.name == name) {
            return Err(refuse(format!("host '{other}' has a VDP called '{name}' already")));
        }
        let need = u32::try_from(count).unwrap_or(u32::MAX);
        for (what, need, has) in [
            ("mapping", need, seen.mapping.free_entries),
            ("action rules", v.tcam_entries, seen.action.free_entries),
        ] {
            if need > has {
                let text = format!("host '{other}' has {has} TCAM entries left for {what}");
                return Err(refuse(format!("{text}, {need} are needed: take another host")));
            }
        }
    }
    // Its ports are others there, in the same order.
    let v = &numbered(lab, n, v, rules).map_err(|e| refuse(format!("{}: {e}", v.vdp_name(n))))?;
    Ok(Body {
        node: format!("{}/{}", n.name, v.name),
        home: (v.host.clone(), vid),
        toml: text(lab, n, v, (&other, number), &tunnels, store),
        away: (other, number),
        tunnels,
    })
}

/// A node whose rules name its ports by their numbers.
fn numbered(lab: &Lab, n: &Network, v: &Node, rules: &impl RuleSyntax) -> Result<Node, String> {
    let ports = lab.attachments(n, v);
    let mut node = v.clone();
    for r in &mut node.rule {
        *r = rules.by_number(r, &ports)?;
    }
    if let Some(actions) = node.default.take() {
        let whole = Rule { priority: None, matcher: String::new(), actions };
        node.default = Some(rules.by_number(&whole, &ports)?.actions);
    }
    Ok(node)
}

/// A node that another host shall process than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its network.
    pub network: String,
    /// The node.
    pub node: String,
    /// The host that processes it.
    pub from: String,
    /// The one that shall.
    pub to: String,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "> {}/{}: from {} to {}", self.network, self.node, self.from, self.to)
    }
}

/// The nodes that move for a lab to hold.
///
/// # Errors
/// One can't be where it shall be, and why.
pub fn moves(
    lab: &Lab,
    before: &Lab,
    observed: &Observed,
    places: &Places,
    store: u64,
    rules: &impl RuleSyntax,
) -> Result<Vec<Move>, Refusal> {
    let mut all = Vec::new();
    let at = |v: &Node| v.away.clone().unwrap_or_else(|| v.host.clone());
    for n in &lab.network {
        for v in &n.node {
            let place = places.get(&format!("{}/{}", n.name, v.name));
            if let (Some(place), Some(_)) = (place, &v.away) {
                body(lab, n, v, place.vid, observed, store, rules)?;
            }
            let old = before.network(&n.name).and_then(|n| n.node(&v.name));
            // One that comes, or is made anew elsewhere, comes to its own host first.
            let old = old.filter(|o| o.host == v.host);
            let (from, to) = (old.map_or_else(|| v.host.clone(), at), at(v));
            if from != to {
                let (network, node) = (n.name.clone(), v.name.clone());
                all.push(Move { network, node, from, to });
            }
        }
    }
    Ok(all)
}

/// The section of a body: that of its node, with the tunnels in the places of the ports. Controllers and
/// tools are met at home, so it has none of its own; what it says of itself there it says here.
fn text(
    lab: &Lab,
    n: &Network,
    v: &Node,
    (other, number): (&str, u16),
    tunnels: &[Tunnel],
    store: u64,
) -> String {
    let ports: Vec<String> = lab.attachments(n, v).into_iter().map(|p| p.to_string()).collect();
    let mut node = v.clone();
    node.host = other.to_owned();
    (node.away, node.router) = (None, None);
    node.ports = tunnels.iter().map(|t| t.name.clone()).collect();
    for s in &mut node.share {
        if let Some(t) = ports.iter().position(|p| *p == s.port).and_then(|i| tunnels.get(i)) {
            s.port.clone_from(&t.name);
        }
    }
    if v.openflow.is_some() || !n.controllers.is_empty() {
        let old = v.openflow.clone().unwrap_or_default();
        node.openflow = Some(Openflow {
            datapath_id: Some(datapath_id(n, v).into_owned()),
            controllers: Vec::new(),
            listen: Vec::new(),
            tls: None,
            ..old
        });
    }
    let mut network = n.clone();
    (network.flow_space, network.controllers, network.link) = (vec![], vec![], vec![]);
    network.tls = None;
    network.node = vec![node.clone()];
    let w = section(lab, &network, &node, number, store, &Way::default());
    let body = Label { node: format!("{}{BODY}", v.name), ..w.label.clone() };
    w.toml.replace(&w.label.to_string(), &body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Host, Program};
    use crate::observed::ObservedHost;
    use crate::store::Place;

    fn lab() -> Lab {
        let host = |name: &str, tunnel: &str| Host {
            name: name.to_owned(),
            api: "unix:x".to_owned(),
            tunnel: Some(tunnel.to_owned()),
            ..Host::default()
        };
        let node = Node {
            name: "s1".to_owned(),
            host: "east".to_owned(),
            ports: vec!["e1".to_owned(), "e2".to_owned()],
            away: Some("west".to_owned()),
            share: vec![crate::model::Share {
                port: "e2".to_owned(),
                guarantee_bps: 7,
                ..crate::model::Share::default()
            }],
            ..Node::default()
        };
        let network = Network {
            name: "red".to_owned(),
            flow_space: vec!["dl_vlan=5".to_owned()],
            controllers: vec!["tcp:192.0.2.1".to_owned()],
            node: vec![node],
            ..Network::default()
        };
        Lab {
            host: vec![host("east", "192.0.2.1"), host("west", "192.0.2.2")],
            network: vec![network],
            ..Lab::default()
        }
    }

    /// `NAME` alone.
    struct Words;

    impl RuleSyntax for Words {
        fn by_number(&self, rule: &Rule, ports: &[String]) -> Result<Rule, String> {
            let no = |text: &str| match ports.iter().position(|p| p == text) {
                Some(i) => Ok((i + 1).to_string()),
                None if text.is_empty() => Ok(String::new()),
                None => Err(format!("no port '{text}'")),
            };
            let (matcher, actions) = (no(&rule.matcher)?, no(&rule.actions)?);
            Ok(Rule { matcher, actions, ..rule.clone() })
        }
    }

    fn asked(lab: &Lab, observed: &Observed) -> Result<Body, Refusal> {
        let n = &lab.network[0];
        body(lab, n, &n.node[0], 3, observed, 9, &Words)
    }

    fn seen() -> Observed {
        let budget = crate::observed::Budget { slice_entries: 1, free_entries: 9 };
        let host = ObservedHost { mapping: budget, action: budget, ..ObservedHost::default() };
        [("east".to_owned(), host.clone()), ("west".to_owned(), host)].into()
    }

    #[test]
    fn a_body_has_the_nodes_section_on_tunnels_and_is_known_again() {
        let (lab, mut observed) = (lab(), seen());
        let b = asked(&lab, &observed).unwrap();
        assert_eq!((b.home.clone(), b.tunnels.len()), (("east".to_owned(), 3), 2));
        assert_ne!(b.tunnels[0], b.tunnels[1]);
        assert!(b.tunnels[0].at_home.contains(",remote=192.0.2.2:4789,local=192.0.2.1:4789,key="));
        assert!(b.tunnels[0].at_body.contains(",remote=192.0.2.1:4789,local=192.0.2.2:4789,key="));
        for what in ["name = \"red.s1\"", "datapath_id = \"0000020aa4beb36d\"", "red/s1~"] {
            assert!(b.toml.contains(what), "{}", b.toml);
        }
        for what in ["dl_vlan", "192.0.2.1", "e2"] {
            assert!(!b.toml.replace("weir:", "").contains(&format!("\"{what}")), "{}", b.toml);
        }
        // What is there already keeps its number, and needs no room.
        let label =
            b.toml.split("label = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let v = ObservedVdp {
            vid: 77,
            name: "red.s1".to_owned(),
            label: Some(label),
            ..ObservedVdp::default()
        };
        let west = observed.get_mut("west").unwrap();
        west.vdps.push(v);
        west.mapping.free_entries = 0;
        assert_eq!(asked(&lab, &observed).unwrap().away.1, 77);
        assert_eq!(bodies(&observed, 9).len(), 1);
        assert_eq!(bodies(&observed, 8).len(), 0);
        let mut before = lab.clone();
        before.network[0].node[0].away = None;
        let places = [("red/s1".to_owned(), Place { host: "east".to_owned(), vid: 3 })].into();
        let told = |from: &Lab| -> Vec<String> {
            let all = moves(&lab, from, &observed, &places, 9, &Words).unwrap();
            all.iter().map(Move::to_string).collect()
        };
        assert_eq!(told(&before), ["> red/s1: from east to west"]);
        assert_eq!(told(&lab), [""; 0]);
    }

    #[test]
    fn rules_that_name_ports_name_their_numbers_at_the_body() {
        let mut lab = lab();
        let v = &mut lab.network[0].node[0];
        v.default = Some("e1".to_owned());
        let rule = |a: &str, b: &str| Rule {
            priority: Some(7),
            matcher: a.to_owned(),
            actions: b.to_owned(),
        };
        v.rule = vec![rule("e1", "e2"), rule("", "e1")];
        let toml = asked(&lab, &seen()).unwrap().toml;
        for what in ["default = \"1\"", "match = \"1\"\nactions = \"2\"", "actions = \"1\""] {
            assert!(toml.contains(what), "{toml}");
        }
        lab.network[0].node[0].rule = vec![rule("e1", "e9")];
        let told = asked(&lab, &seen()).unwrap_err();
        assert_eq!(told.text, "red.s1: no port 'e9'");
        assert_eq!(told.at.to_string(), "network[0].node[0].away");
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let (mut lab, mut observed) = (lab(), seen());
        observed.get_mut("west").unwrap().mapping.free_entries = 1;
        assert!(asked(&lab, &observed).unwrap_err().text.contains("2 are needed"));
        lab.host[1].tunnel = None;
        assert!(asked(&lab, &seen()).unwrap_err().text.contains("has no 'tunnel'"));
        lab.network[0].node[0].program = Some(Program::named("nat"));
        lab.host[1].tunnel = Some("192.0.2.2".to_owned());
        assert!(asked(&lab, &seen()).unwrap_err().text.contains("state that can't be taken along"));
    }
}
