//! `weir net list` and `show`: the networks that are kept, and what their nodes say.
//!
//! Room: reading only. `list` asks the store alone, `show` the physical nodes, too.

use super::edit::find;
use super::looking::Looking;
use super::{Kept, Output, Printed};
use crate::commands::columns::Columns;
use crate::commands::say::{note, put, say};
use crate::environment::Envelope;
use crate::net::change::Keeper;
use crate::socket::items::VdpItem;
use anyhow::Result;
use serde::Serialize;
use weir_supervisor::model::{Kind, Lab, Network, Path};
use weir_supervisor::store::Places;
use weir_supervisor::wires::{Links, WayPlace};

/// List the networks
#[derive(Debug, clap::Args)]
pub struct List {
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    kept: Kept,
}

/// Show a network: its nodes, where they live, and what they count
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Which
    network: String,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    kept: Kept,
}

#[derive(Debug, Serialize)]
struct Listed<'l> {
    revision: u64,
    /// Whether a change was interrupted.
    interrupted: bool,
    networks: Vec<One<'l>>,
}

#[derive(Debug, Serialize)]
struct One<'l> {
    #[serde(flatten)]
    network: &'l Network,
    /// Its nodes' places, in the order of its nodes.
    places: Vec<Placed<'l>>,
    /// What carries its links, in their order. In place of the network's own list.
    links: Vec<Carried>,
}

#[derive(Debug, Serialize)]
struct Placed<'l> {
    node: &'l str,
    host: &'l str,
    vid: Option<u16>,
    /// What its data plane says.
    #[serde(skip_serializing_if = "Option::is_none")]
    vdp: Option<VdpItem>,
    /// Why it says nothing, where its host does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<String>,
}

#[derive(Debug, Serialize)]
struct Carried {
    link: String,
    /// "inside" a host, by "cable" or by "tunnel".
    carried: &'static str,
    /// Its ways, the preferred first: the hosts, and the network identifier between each two.
    ways: Vec<WayPlace>,
}

fn carried(lab: &Lab, n: &Network, links: &Links) -> Vec<Carried> {
    let one = |i: usize| {
        let link = n.link_name(i);
        let ways = links.get(&format!("{}/{link}", n.name)).map(|p| p.ways.clone());
        Carried { carried: lab.carried(n, i), ways: ways.unwrap_or_default(), link }
    };
    let mut all: Vec<Carried> = (0..n.link.len()).map(one).collect();
    // Nodes' ports on other hosts, as links to them.
    let i = lab.network.iter().position(|o| o.name == n.name).unwrap_or(usize::MAX);
    all.extend(lab.tunnelled(i).into_iter().filter(|t| t.far.is_some()).map(|t| {
        let ways = links.get(&format!("{}/{}", n.name, t.name)).map(|p| p.ways.clone());
        Carried { carried: "tunnel", ways: ways.unwrap_or_default(), link: t.name }
    }));
    all
}

/// A way in one line: `east -4096- west`.
fn way(w: &WayPlace) -> String {
    let mut text = w.hosts.first().cloned().unwrap_or_default();
    for (vni, host) in w.vnis.iter().zip(w.hosts.iter().skip(1)) {
        text.push_str(&format!(" -{vni}- {host}"));
    }
    text
}

fn one<'l>(lab: &Lab, n: &'l Network, places: &Places, links: &Links) -> One<'l> {
    let placed = |v: &'l weir_supervisor::model::Node| {
        let vid = places.get(&format!("{}/{}", n.name, v.name)).map(|p| p.vid);
        Placed { node: &v.name, host: &v.host, vid, vdp: None, silent: None }
    };
    let places = n.node.iter().map(placed).collect();
    One { network: n, places, links: carried(lab, n, links) }
}

/// Networks as a LAB file has them.
fn sections(networks: Vec<Network>) -> Result<String> {
    #[derive(Serialize)]
    struct Networks {
        network: Vec<Network>,
    }
    Ok(toml::to_string(&Networks { network: networks })?)
}

fn remind(keeper: &Keeper) {
    if keeper.saved.under_way.is_some() {
        note(
            "weir: a change was interrupted: 'weir net recover' finishes it, with --back undoes it",
        );
    }
}

/// Lists them.
pub fn list(args: &List) -> Result<()> {
    let keeper = args.kept.open()?;
    let s = &keeper.saved.state;
    remind(&keeper);
    match args.printed.output() {
        Output::Toml => put(sections(s.lab.network.clone())?),
        Output::Json => {
            let interrupted = keeper.saved.under_way.is_some();
            let networks =
                s.lab.network.iter().map(|n| one(&s.lab, n, &s.places, &s.links)).collect();
            let all = Listed { revision: s.revision, interrupted, networks };
            say(serde_json::to_string_pretty(&Envelope::new("networks", all))?)
        }
        Output::Table => {
            let mut c =
                Columns::new(&["network", "owner", "isolation", "nodes", "links", "flow space"]);
            for n in &s.lab.network {
                let isolation = format!("{:?}", n.isolation).to_lowercase();
                let space = if n.flow_space.is_empty() { "all" } else { &n.flow_space.join("; ") };
                let (nodes, links) = (n.node.len().to_string(), n.link.len().to_string());
                let owner = if n.owner.is_empty() { "-" } else { &n.owner };
                let cells = [&n.name, owner, &isolation, &nodes, &links, space];
                c.row(cells.iter().map(|t| (*t).to_owned()).collect());
            }
            put(c.text())
        }
    }
}

/// Shows one.
pub fn show(args: &Show) -> Result<()> {
    let keeper = args.kept.open()?;
    remind(&keeper);
    let saved = keeper.saved.clone();
    // Others may use the store while the nodes are asked.
    drop(keeper);
    let s = &saved.state;
    let network = find(&s.lab, &args.network)?;
    if args.printed.output() == Output::Toml {
        return put(sections(vec![network.clone()])?);
    }
    let mut shown = one(&s.lab, network, &s.places, &s.links);
    let used = |h: &&weir_supervisor::model::Host| network.node.iter().any(|v| v.host == h.name);
    let hosts = s.lab.host.iter().filter(used).cloned().collect();
    let lab = Lab { tls: s.lab.tls.clone(), host: hosts, ..Lab::default() };
    let mut hosts = Looking::at(&lab)?;
    for (p, v) in shown.places.iter_mut().zip(&network.node) {
        let Some(vid) = p.vid else { continue };
        p.vdp = hosts.ask(p.host, |nodes| nodes.vdp(p.host, vid))?.flatten();
        if let (Kind::Router, Some(all)) = (v.kind, &mut p.vdp) {
            let parts = hosts.ask(p.host, |nodes| nodes.parts(p.host, vid))?;
            parts.iter().flatten().for_each(|part| all.add(part));
        }
        p.silent = hosts.why_silent(p.host).map(str::to_owned);
    }
    let is_gone = |p: &&Placed<'_>| p.vid.is_some() && p.vdp.is_none() && p.silent.is_none();
    for p in shown.places.iter().filter(is_gone) {
        let (network, node, host) = (&network.name, p.node, p.host);
        note(format_args!(
            "weir: node {network}.{node} is not at host '{host}' any more: 'weir apply' makes it again"
        ));
    }
    if args.printed.output() == Output::Json {
        return say(serde_json::to_string_pretty(&Envelope::new("network", shown))?);
    }
    let owner = if network.owner.is_empty() { "nobody" } else { &network.owner };
    let isolation = format!("{:?}", network.isolation).to_lowercase();
    put(format_args!("network {}: of {owner}, {isolation} isolation\n\n", network.name))?;
    let heads =
        ["node", "host", "vdp", "path", "received", "forwarded", "dropped", "flows", "controllers"];
    let mut c = Columns::new(&heads);
    for (p, v) in shown.places.iter().zip(&network.node) {
        let path = if v.path == Path::Fast { "fast" } else { "slow" };
        let mut row = vec![p.node.to_owned(), p.host.to_owned()];
        row.push(p.vid.map_or("-".to_owned(), |n| n.to_string()));
        match &p.vdp {
            None if p.silent.is_some() => row.push("host is silent".to_owned()),
            None => row.extend([format!("{path} wanted"), "not there".to_owned()]),
            Some(i) => {
                let dropped: u64 = i.dropped.values().sum();
                let flow = i.detail.as_ref().and_then(|d| d.openflow.as_ref());
                let connected = flow.map(|o| {
                    let up = o.controllers.iter().filter(|c| !c.connections.is_empty()).count();
                    format!("{up} of {}", o.controllers.len())
                });
                let phase = match &v.away {
                    Some(other) if i.phase == "away" => format!("at {other}"),
                    _ => i.phase.clone(),
                };
                row.extend([
                    phase,
                    i.received.frames.to_string(),
                    i.forwarded.frames.to_string(),
                    dropped.to_string(),
                    flow.map_or("-".to_owned(), |o| o.flows.to_string()),
                    connected.unwrap_or_else(|| "-".to_owned()),
                ]);
            }
        }
        c.row(row);
    }
    put(c.text())?;
    if shown.links.is_empty() {
        return Ok(());
    }
    let mut c = Columns::new(&["link", "carried", "ways"]);
    for l in &shown.links {
        let ways: Vec<String> = l.ways.iter().map(way).collect();
        let ways = if ways.is_empty() { "-".to_owned() } else { ways.join("; ") };
        c.row(vec![l.link.clone(), l.carried.to_owned(), ways]);
    }
    put(format_args!("\n{}", c.text()))
}
