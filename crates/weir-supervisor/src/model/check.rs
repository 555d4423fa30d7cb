//! Whether a lab can be at all, whatever the physical nodes have: names, references, links, flow
//! spaces, limits.
//!
//! Room: arithmetic on the model. Called before anything is observed or touched. The first thing that
//! is wrong is told, with its place and how to mend it.

use super::router::{self, DataPlane};
use super::{
    Carrier, Fabric, Host, Isolation, Kind, Lab, Link, Made, Network, Node, VirtualLink, end,
};
use super::{datapaths, identity};
use crate::refusal::{Refusal, Way, instead};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

/// The port that IANA has given VXLAN.
const VXLAN_PORT: u16 = 4789;
/// Most ways of a link.
const MAX_WAYS: u32 = 8;
/// Longest name of a VDP.
const NAME_BYTES: usize = 32;

/// Whoever reads the flow syntax of flow spaces.
pub trait FlowSyntax {
    /// A match that was read.
    type Space;
    /// Reads a match that names no port.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn read(&self, text: &str) -> Result<Self::Space, String>;
    /// Whether a frame can be in both.
    fn overlap(&self, a: &Self::Space, b: &Self::Space) -> bool;
}

/// Checks a whole lab.
///
/// # Errors
/// The first thing that can't be.
pub fn check<F: FlowSyntax>(lab: &Lab, flows: &F) -> Result<(), Refusal> {
    let (mut seen, mut reached) = (BTreeSet::new(), BTreeMap::new());
    for (i, h) in lab.host.iter().enumerate() {
        let at = Way::item("host", i);
        unique("host", &h.name, &mut seen, &at.key("name"))?;
        host(lab, h, &at)?;
        if let Some(other) = reached.insert(h.api.as_str(), h.name.as_str()) {
            return Err(one_plane(h, other, &at));
        }
    }
    tunnels(lab)?;
    links(lab)?;
    let mut seen = BTreeSet::new();
    for (i, n) in lab.network.iter().enumerate() {
        let at = Way::item("network", i);
        unique("network", &n.name, &mut seen, &at.key("name"))?;
        network(lab, n, &at)?;
    }
    let mut seen = BTreeSet::new();
    for (i, g) in lab.guard.iter().enumerate() {
        let at = Way::item("guard", i);
        unique("guard", &g.name, &mut seen, &at.key("name"))?;
        super::guard::check(g, &at)?;
    }
    listeners(lab)?;
    datapaths::apart(lab)?;
    spaces(lab, flows)
}

/// Refuses a host that is the data plane of another: what one has would be taken away as the other's.
pub fn one_plane(h: &Host, other: &str, at: &Way) -> Refusal {
    let text = format!("api '{}' is where host '{other}' is reached", h.api);
    Refusal::new(at.key("api"), format!("{text}: each host is a data plane of its own"))
}

fn unique<'n>(
    what: &str,
    given: &'n str,
    seen: &mut BTreeSet<&'n str>,
    at: &Way,
) -> Result<(), Refusal> {
    name(what, given, at)?;
    if !seen.insert(given) {
        let text = format!("{what} '{given}' is there already: give another name");
        return Err(Refusal::new(at.clone(), text));
    }
    Ok(())
}

fn name(what: &str, given: &str, at: &Way) -> Result<(), Refusal> {
    let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let begins = given.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if begins && given.len() <= NAME_BYTES && given.bytes().all(ok) {
        return Ok(());
    }
    let shown: String = given.chars().take(64).collect();
    let text = format!(
        "{what} name '{shown}': 1 to {NAME_BYTES} letters, digits, '_' and '-', with a letter in front"
    );
    Err(Refusal::new(at.clone(), text))
}

fn host(lab: &Lab, h: &Host, at: &Way) -> Result<(), Refusal> {
    if !h.api.starts_with("unix:") {
        let right = h.api.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        if !right {
            let text = format!("api '{}': \"HOST:PORT\" by TLS, or \"unix:PATH\"", h.api);
            return Err(Refusal::new(at.key("api"), text));
        }
        if lab.tls.is_none() {
            let text = format!(
                "host '{}' is reached by TLS: say who asks in [tls], with certificate, key and ca",
                h.name
            );
            return Err(Refusal::new(at.key("api"), text));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, p) in h.port.iter().enumerate() {
        if !seen.insert(&p.name) {
            let text = format!("port '{}' is there already: say what it carries once", p.name);
            return Err(Refusal::new(at.at("port", i).key("name"), text));
        }
    }
    Ok(())
}

fn links(lab: &Lab) -> Result<(), Refusal> {
    let mut used = BTreeSet::new();
    let mut tunnels = BTreeSet::new();
    for (i, l @ Link { between, .. }) in lab.link.iter().enumerate() {
        let refuse = |key, what: String| Err(Refusal::new(Way::item("link", i).key(key), what));
        for (j, text) in between.iter().enumerate() {
            let at = Way::item("link", i).at("between", j);
            let Some((host, port)) = end(text) else {
                let what = "HOST:PORT twice for a cable, HOST twice for what tunnels go over";
                let what = format!("end '{text}' of a link: {what}");
                return Err(Refusal::new(at, what));
            };
            known_host(lab, host, &at)?;
            if let Some(port) = port.filter(|port| !used.insert((host, *port))) {
                let what = format!("port '{port}' of host '{host}' ends another link already");
                return Err(Refusal::new(at, format!("{what}: a port ends one link")));
            }
        }
        let [Some(a), Some(b)] = between.each_ref().map(|t| end(t)) else { continue };
        if a.0 == b.0 {
            let what = "a link from a host to itself: it joins two hosts";
            return refuse("between", what.to_owned());
        }
        match (a.1, b.1) {
            (None, None) => {}
            (Some(_), Some(_)) if l.capacity_bps.or(l.mtu.map(u64::from)).is_none() => continue,
            (Some(_), Some(_)) => {
                let what = "capacity_bps or mtu of a cable: say a port's capacity at its host";
                return refuse("between", what.to_owned());
            }
            _ => {
                let what = "one end with a port and one without: HOST:PORT twice, or HOST twice";
                return refuse("between", what.to_owned());
            }
        }
        if !tunnels.insert(if a.0 < b.0 { (a.0, b.0) } else { (b.0, a.0) }) {
            let what = format!("hosts '{}' and '{}' are joined for tunnels already", a.0, b.0);
            return refuse("between", format!("{what}: say it once"));
        }
        for (host, _) in [a, b] {
            if lab.find_host(host).is_some_and(|h| h.tunnel.is_none()) {
                let what = format!("tunnels go over this link, and host '{host}' has no 'tunnel'");
                return refuse("between", format!("{what}: say at which address they end there"));
            }
        }
        if l.mtu.is_some_and(|m| !(576..=65_535).contains(&m)) {
            return refuse("mtu", "mtu of a link: 576 to 65535 bytes".to_owned());
        }
    }
    Ok(())
}

/// Where a host's tunnels end.
pub(crate) fn tunnel_end(text: &str) -> Option<SocketAddr> {
    let whole = text.parse::<SocketAddr>().ok();
    let whole = whole.or_else(|| Some(SocketAddr::new(text.parse().ok()?, VXLAN_PORT)));
    let one = |a: &SocketAddr| !a.ip().is_unspecified() && !a.ip().is_multicast() && a.port() != 0;
    whole.filter(one)
}

/// Where tunnels end is an address, and no two hosts' are one.
fn tunnels(lab: &Lab) -> Result<(), Refusal> {
    let mut seen = BTreeMap::new();
    for (i, h) in lab.host.iter().enumerate() {
        let Some(text) = &h.tunnel else { continue };
        let at = Way::item("host", i).key("tunnel");
        let Some(end) = tunnel_end(text) else {
            let what = format!("tunnel '{text}': ADDRESS or ADDRESS:UDP-PORT of this host");
            return Err(Refusal::new(at, what));
        };
        if let Some(other) = seen.insert(end.ip(), &h.name) {
            let what = format!("tunnel '{text}' is where host '{other}' ends its own");
            return Err(Refusal::new(at, format!("{what}: each has an address")));
        }
        let first = lab.host.iter().find_map(|h| tunnel_end(h.tunnel.as_ref()?));
        if first.is_some_and(|f| f.is_ipv4() != end.is_ipv4()) {
            let what =
                format!("tunnel '{text}': all tunnels end at IPv4 addresses, or all at IPv6");
            return Err(Refusal::new(at, what));
        }
    }
    Ok(())
}

fn known_host(lab: &Lab, name: &str, at: &Way) -> Result<(), Refusal> {
    if lab.find_host(name).is_some() {
        return Ok(());
    }
    let near = instead(name, lab.host.iter().map(|h| h.name.as_str()));
    Err(Refusal::new(at.clone(), format!("no host '{name}': {near}")))
}

/// Whether an owner may be called so, in a lab and wherever else owners are named.
///
/// # Errors
/// What is allowed.
pub fn owner_name(given: &str) -> Result<(), &'static str> {
    match given.len() <= 64 && !given.chars().any(char::is_control) {
        true => Ok(()),
        false => Err("owner: at most 64 bytes, none of them a control character"),
    }
}

fn network(lab: &Lab, n: &Network, at: &Way) -> Result<(), Refusal> {
    owner_name(&n.owner).map_err(|e| Refusal::new(at.key("owner"), e))?;
    if n.node.is_empty() {
        let text = format!("network '{}' has no node: give it a [[network.node]]", n.name);
        return Err(Refusal::new(at.key("name"), text));
    }
    identity::of_network(n, at)?;
    let mut seen = BTreeSet::new();
    for (i, v) in n.node.iter().enumerate() {
        let at = at.at("node", i);
        unique("node", &v.name, &mut seen, &at.key("name"))?;
        node(lab, n, v, &at)?;
    }
    topology(lab, n, at)
}

fn node(lab: &Lab, n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    let full = v.vdp_name(n);
    let refuse = |key, text: String| Err(Refusal::new(at.key(key), text));
    if full.len() > NAME_BYTES {
        let what =
            format!("'{full}' is what its VDP would be called: at most {NAME_BYTES} letters");
        return refuse("name", format!("{what}; shorten the node's or the network's name"));
    }
    // A node that is a VDP now may say what router it becomes.
    if let Some(r) = v.router.clone().or_else(|| v.as_router()) {
        let at = at.key("router");
        let one = n.flow_space.is_empty() || router::vlan_of(&n.flow_space).is_some();
        if r.data_plane == DataPlane::Pearl && !one {
            let text = "data_plane = \"pearl\" in a network whose flow space is not one VLAN";
            let mend = "what its slow data plane sends could be another's: take \"routed\"";
            return Err(Refusal::new(at.key("data_plane"), format!("{text}; {mend}")));
        }
        let attached = lab.attached(n, v);
        let inside: Vec<&str> = attached.iter().map(|a| &*a.inside).collect();
        router::check(&r, &inside, &at)?;
    }
    known_host(lab, &v.host, &at.key("host"))?;
    if let Some(other) = &v.away {
        known_host(lab, other, &at.key("away"))?;
        if *other == v.host {
            let text = format!("host '{other}' has its ports: leave 'away' out");
            return Err(Refusal::new(at.key("away"), text));
        }
        if v.kind != Kind::Vdp {
            let text = "only a VDP can be processed by another host: leave 'away' out";
            return Err(Refusal::new(at.key("away"), text));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, p) in v.ports.iter().enumerate() {
        let (of, named) = v.spot(p);
        if of != v.host {
            far(lab, v, of, named, &at.at("ports", i))?;
        }
        if !seen.insert((of, named)) {
            let text = format!("port '{p}' is node '{}' port already: name it once", v.name);
            return Err(Refusal::new(at.at("ports", i), text));
        }
    }
    if let Some(f) = &v.fabric {
        fabric(v, f, &at.key("fabric"))?;
    }
    if v.isolated && v.kind != Kind::Vdp {
        let what =
            "isolated: only a VDP can be cut off so; stop the virtual router by deleting its node";
        return refuse("isolated", what.to_owned());
    }
    if v.cpu_permille > 1000 {
        let what = format!("cpu_permille = {}: at most 1000, a whole worker", v.cpu_permille);
        return refuse("cpu_permille", what);
    }
    match (n.isolation, v.tcam_entries, v.tcam_limit_entries) {
        (Isolation::Strong, 0, _) => {
            let what = format!("network '{}' has isolation = \"strong\"", n.name);
            return refuse("name", format!("{what}: give node '{}' tcam_entries", v.name));
        }
        (Isolation::Strong, own, Some(limit)) if limit != own => {
            let what = format!("tcam_limit_entries = {limit} in a network of strong isolation");
            return refuse("tcam_limit_entries", format!("{what}: leave it out, or say {own}"));
        }
        (_, own, Some(limit)) if limit < own => {
            let what = format!("tcam_limit_entries = {limit}: below its own tcam_entries, {own}");
            return refuse("tcam_limit_entries", what);
        }
        _ => {}
    }
    openflow(n, v, at)?;
    shares(lab, n, v, at)
}

/// A port on another host.
fn far(lab: &Lab, v: &Node, host: &str, port: &str, at: &Way) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal::new(at.clone(), text));
    known_host(lab, host, at)?;
    if port.is_empty() || port.contains(':') {
        return refuse(format!("port '{host}:{port}': HOST:PORT, or a port of '{}' alone", v.host));
    }
    let without = |h: &&&str| lab.find_host(h).is_some_and(|h| h.tunnel.is_none());
    match [v.host.as_str(), host].iter().find(without) {
        None => Ok(()),
        Some(h) => {
            let text = format!("a tunnel leads to port '{port}' of host '{host}'");
            refuse(format!("{text}, and host '{h}' has no 'tunnel': say where its tunnels end"))
        }
    }
}

/// What joins a node to its ports on other hosts.
fn fabric(v: &Node, f: &Fabric, at: &Way) -> Result<(), Refusal> {
    if v.far().next().is_none() {
        let text = format!("node '{}' has no port on another host: take 'fabric' away", v.name);
        return Err(Refusal::new(at.clone(), format!("{text}, or add a HOST:PORT to its ports")));
    }
    let asked = VirtualLink {
        guarantee_bps: f.guarantee_bps,
        ceiling_bps: f.ceiling_bps,
        mtu: f.mtu,
        backups: f.backups,
        probe_ms: f.probe_ms,
        ..VirtualLink::default()
    };
    wishes(&asked, Carrier::Tunnel, &format!("fabric of node '{}'", v.name), at)
}

fn openflow(n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    identity::of_node(n, v, at)?;
    let switch = v.openflow.is_some() || !n.controllers.is_empty();
    if switch && v.default.is_some() {
        let what = "'default' in an OpenFlow node: what frames without a flow get is for controllers \
                    and fail_mode to say; take it away";
        return Err(Refusal::new(at.key("default"), what));
    }
    let Some(o) = &v.openflow else { return Ok(()) };
    let alone = n.controllers.is_empty() && o.controllers.is_empty() && o.listen.is_empty();
    if alone && o.fail_mode.as_deref() != Some("standalone") && v.rule.is_empty() {
        let what =
            format!("node '{}' has no controller, nor may one come, nor has it rules", v.name);
        let mend = "give it or its network controllers, or listen, or fail_mode = \"standalone\"";
        return Err(Refusal::new(at.key("openflow"), format!("{what}: {mend}")));
    }
    Ok(())
}

fn shares(lab: &Lab, n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    let ports = lab.attachments(n, v);
    let mut seen = BTreeSet::new();
    for (i, s) in v.share.iter().enumerate() {
        let at = at.at("share", i);
        let given = v.ports.iter().any(|p| v.spot(p) == v.spot(&s.port));
        if !given && !ports.contains(&s.port) {
            let near = instead(&s.port, ports.iter().map(String::as_str));
            let text = format!("node '{}' has no port '{}': {near}", v.name, s.port);
            return Err(Refusal::new(at.key("port"), text));
        }
        if !seen.insert(v.spot(&s.port)) {
            let text = format!("a share of port '{}' is there already: say it once", s.port);
            return Err(Refusal::new(at.key("port"), text));
        }
        if s.ceiling_bps.is_some_and(|c| c < s.guarantee_bps || c == 0) {
            let text = "ceiling_bps is 0 or below guarantee_bps: raise it, or leave it out";
            return Err(Refusal::new(at.key("ceiling_bps"), text));
        }
        // As the data plane reckons: a frame of 1518 bytes must fit.
        let bits = |us: u32| u128::from(s.guarantee_bps) * u128::from(us) / 1_000_000;
        if let Some(us) = s.max_delay_us.filter(|us| bits(*us) < 8 * 1518) {
            let text = format!(
                "max_delay_us = {us}: a frame of 1518 bytes takes longer by guarantee_bps = {} alone: raise either",
                s.guarantee_bps
            );
            return Err(Refusal::new(at.key("max_delay_us"), text));
        }
    }
    Ok(())
}

/// Links that nothing carries, that end nowhere, in circles, or leave nodes alone.
fn topology(lab: &Lab, n: &Network, at: &Way) -> Result<(), Refusal> {
    let index: HashMap<&str, usize> =
        n.node.iter().enumerate().map(|(i, v)| (v.name.as_str(), i)).collect();
    // Nodes that reach one another; and, apart, those that do so by nodes that flood.
    let mut joined: Vec<usize> = (0..n.node.len()).collect();
    let mut flooding = joined.clone();
    let mut taken: BTreeSet<(usize, &str)> = BTreeSet::new();
    for (i, v) in n.node.iter().enumerate() {
        taken.extend(v.ports.iter().map(|p| (i, p.as_str())));
    }
    let n_at = at;
    for (i, l @ VirtualLink { between, .. }) in n.link.iter().enumerate() {
        let at = at.at("link", i).key("between");
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(between) {
            let Some(found) = index.get(name.as_str()) else {
                let near = instead(name, n.node.iter().map(|v| v.name.as_str()));
                let text = format!("network '{}' has no node '{name}': {near}", n.name);
                return Err(Refusal::new(at, text));
            };
            *end = *found;
        }
        let [Some(a), Some(b)] = ends.map(|e| n.node.get(e)) else { continue };
        let shown = format!("link {}-{} of network '{}'", a.name, b.name, n.name);
        if a.name == b.name {
            let text = format!("{shown} joins a node to itself: it joins two nodes");
            return Err(Refusal::new(at, text));
        }
        let carrier = lab.carrier(&a.host, &b.host);
        wishes(l, carrier, &shown, &n_at.at("link", i))?;
        let cable = match carrier {
            Carrier::Cable(here, there) => vec![(ends[0], here), (ends[1], there)],
            Carrier::Inside | Carrier::Tunnel => Vec::new(),
        };
        for (end, port) in cable {
            if !taken.insert((end, port)) {
                let name = n.node.get(end).map(|v| v.name.as_str()).unwrap_or_default();
                let text =
                    format!("{shown}: port '{port}' of node '{name}' has another end already");
                return Err(Refusal::new(
                    at,
                    format!("{text}; one physical link, one virtual one"),
                ));
            }
        }
        join(&mut joined, ends);
        let floods =
            |v: &Node| v.kind == Kind::Vdp && v.openflow.is_none() && n.controllers.is_empty();
        if floods(a) && floods(b) && !join(&mut flooding, ends) {
            let text = format!("{shown} closes a circle of nodes that flood");
            let mend = "take it away, or give them controllers";
            return Err(Refusal::new(
                at,
                format!("{text}: frames would go round for ever; {mend}"),
            ));
        }
    }
    let first = root(&mut joined, 0);
    match (1..n.node.len()).find(|i| root(&mut joined, *i) != first) {
        None => Ok(()),
        Some(i) => {
            let name = n.node.get(i).map(|v| v.name.as_str()).unwrap_or_default();
            let text = format!("no link leads from node '{name}' to the others of '{}'", n.name);
            let mend = "add a [[network.link]], or make it a network of its own";
            Err(Refusal::new(at.at("node", i).key("name"), format!("{text}: {mend}")))
        }
    }
}

/// What a virtual link asks for, of what carries it.
fn wishes(l: &VirtualLink, by: Carrier<'_>, shown: &str, at: &Way) -> Result<(), Refusal> {
    let refuse = |key, text: &str| Err(Refusal::new(at.key(key), format!("{shown}: {text}")));
    if l.ceiling_bps.is_some_and(|c| c == 0 || c < l.guarantee_bps) {
        return refuse("ceiling_bps", "0 or below guarantee_bps: raise it, or leave it out");
    }
    if l.backups >= MAX_WAYS {
        return refuse("backups", "at most 7");
    }
    if l.probe_ms.is_some_and(|ms| !(10..=10_000).contains(&ms)) {
        return refuse("probe_ms", "10 to 10000");
    }
    if l.mtu.is_some_and(|m| !(68..=65_000).contains(&m)) {
        return refuse("mtu", "68 to 65000 bytes");
    }
    match by {
        Carrier::Tunnel => return Ok(()),
        Carrier::Inside if l.backups > 0 => {
            return refuse("backups", "it stays inside a host, where it has one way: take it away");
        }
        Carrier::Inside if l.probe_ms.is_some() => {
            return refuse("probe_ms", "it stays inside a host, where nothing is probed");
        }
        Carrier::Inside => return Ok(()),
        Carrier::Cable(..) => {}
    }
    let asked = [
        ("guarantee_bps", l.guarantee_bps > 0),
        ("ceiling_bps", l.ceiling_bps.is_some()),
        ("mtu", l.mtu.is_some()),
        ("backups", l.backups > 0),
        ("probe_ms", l.probe_ms.is_some()),
    ];
    match asked.into_iter().find(|(_, is)| *is) {
        Some((key, _)) => refuse(
            key,
            "a cable carries it as it is: give the nodes shares of its ports, or join the hosts for \
             tunnels",
        ),
        None => Ok(()),
    }
}

fn root(of: &mut [usize], mut i: usize) -> usize {
    while let Some(up) = of.get(i).copied().filter(|up| *up != i) {
        let above = of.get(up).copied().unwrap_or(up);
        if let Some(cell) = of.get_mut(i) {
            *cell = above;
        }
        i = up;
    }
    i
}

/// Joins two; false where they were joined already.
fn join(of: &mut [usize], [a, b]: [usize; 2]) -> bool {
    let (a, b) = (root(of, a), root(of, b));
    if let Some(cell) = of.get_mut(a) {
        *cell = b;
    }
    a != b
}

/// Two switches of a host can't listen at one place.
fn listeners(lab: &Lab) -> Result<(), Refusal> {
    let mut taken: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            let Some(o) = &v.openflow else { continue };
            for l in o.listen.iter().filter(|l| !any_port(l)) {
                let other = taken.insert((&v.host, l), v.vdp_name(n));
                if let Some(other) = other {
                    let at = Way::item("network", i).at("node", j).key("openflow");
                    let text = format!("'{l}' on host '{}' is where {other} listens", v.host);
                    return Err(Refusal::new(at, format!("{text}: choose another port, or 0")));
                }
            }
        }
    }
    Ok(())
}

/// Whether a listener takes any free port: `ptcp:0`.
fn any_port(text: &str) -> bool {
    text.split(':').nth(1) == Some("0")
}

/// No frame of a port may belong to two nodes.
fn spaces<F: FlowSyntax>(lab: &Lab, flows: &F) -> Result<(), Refusal> {
    let mut of_network: Vec<Vec<F::Space>> = Vec::new();
    for (i, n) in lab.network.iter().enumerate() {
        let at = Way::item("network", i);
        let read = |(j, text): (usize, &String)| {
            flows.read(text).map_err(|e| {
                Refusal::new(at.at("flow_space", j), format!("flow space '{text}': {e}"))
            })
        };
        let mut own = n.flow_space.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        if own.is_empty() {
            own.push(flows.read("").map_err(|e| Refusal::new(at.key("flow_space"), e))?);
        }
        of_network.push(own);
    }
    let mut at_port: BTreeMap<(&str, &str), Vec<(usize, usize)>> = BTreeMap::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            for a in lab.attached(n, v) {
                // What is made for a link is nobody else's, so its frames may be any.
                if let (Made::ByHost, Cow::Borrowed(p)) = (a.made, a.port) {
                    at_port.entry((&v.host, p)).or_default().push((i, j));
                }
            }
            for far in v.far() {
                at_port.entry((far.host, far.port)).or_default().push((i, j));
            }
        }
    }
    for ((host, port), users) in &at_port {
        for (k, later) in users.iter().enumerate() {
            for before in users.iter().take(k) {
                let (Some(a), Some(b)) = (of_network.get(before.0), of_network.get(later.0)) else {
                    continue;
                };
                if a.iter().any(|x| b.iter().any(|y| flows.overlap(x, y))) {
                    return Err(clash(lab, host, port, *before, *later));
                }
            }
        }
    }
    Ok(())
}

fn clash(
    lab: &Lab,
    host: &str,
    port: &str,
    before: (usize, usize),
    later: (usize, usize),
) -> Refusal {
    let called = |(i, j): (usize, usize)| {
        let n = lab.network.get(i);
        n.and_then(|n| n.node.get(j).map(|v| v.vdp_name(n))).unwrap_or_default()
    };
    let at = Way::item("network", later.0);
    let whole = lab.network.get(later.0).is_some_and(|n| n.flow_space.is_empty());
    let at = if whole { at.key("name") } else { at.key("flow_space") };
    let text = format!(
        "port '{port}' of host '{host}': a frame could be {}'s and {}'s, too",
        called(before),
        called(later)
    );
    Refusal::new(at, format!("{text}; give their networks flow spaces that share nothing"))
}
