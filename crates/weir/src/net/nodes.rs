//! Physical nodes, asked and changed by their node APIs.
//!
//! Room: connections to `weir run`s; from their answers to what `weir-supervisor` looks at, and from
//! its steps to their requests. A node is known by nothing else; for a change [`super::reach`] connects to it.

use super::moving::is_moving;
use crate::commands::stats::Stats;
use crate::config::read::read_file;
use crate::fault::{bad_input, is_bad_input};
use crate::openflow::tls::{Identity, Part, PeerName, Pem};
use crate::socket::client::Client;
use crate::socket::items::{TcamItem, VdpItem};
use crate::socket::protocol::{Addresses, Became, Done, Item, Request, WithRules};
use crate::verify::{LeakItem, VerifiedItem};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use tokio_rustls::rustls::pki_types::ServerName;
use weir_io::vxlan::Settings;
use weir_supervisor::model::router::Router;
use weir_supervisor::model::{self, Host, Kind, Lab, Tls};
use weir_supervisor::observed::{Budget, Observed, ObservedHost, ObservedVdp};
use weir_supervisor::plan::{How, Step};
use weir_supervisor::section::Label;

/// Most changes in one request: each holds up the node's worker for a moment only, but those of one
/// request have its plan to themselves.
const BATCH: usize = 64;

/// Leaks that a node tells at most.
const TOLD: usize = 20;

/// What a node's proof of isolation came to.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// How it ended; not isolated where the node did not say.
    pub verified: VerifiedItem,
    /// Ways from one network to another.
    pub leaks: Vec<LeakItem>,
}

/// Connections to physical nodes, by name.
#[derive(Debug, Default)]
pub struct Nodes {
    pub(super) all: BTreeMap<String, Client>,
    /// The turn of ours that has begun: the store's number, and the turn's at each node.
    turn: Option<(u64, BTreeMap<String, u64>)>,
}

impl Nodes {
    /// Connects to every host of these labs; of two of one name to the first.
    ///
    /// # Errors
    /// One can't be reached, or an identity can't be used.
    pub fn connect<'l>(labs: impl IntoIterator<Item = &'l Lab>) -> Result<Self> {
        let mut nodes = Self::default();
        for lab in labs {
            for h in &lab.host {
                if !nodes.answers(&h.name) {
                    nodes.add(h, lab.tls.as_ref())?;
                }
            }
        }
        Ok(nodes)
    }

    /// Connects to one more.
    ///
    /// # Errors
    /// It can't be reached, or an identity can't be used.
    pub fn add(&mut self, h: &Host, tls: Option<&Tls>) -> Result<()> {
        let client = client(h, tls).with_context(|| format!("host '{}'", h.name))?;
        self.all.insert(h.name.clone(), client);
        Ok(())
    }
    /// Ends a connection.
    pub fn remove(&mut self, host: &str) {
        self.all.remove(host);
    }

    fn client(&mut self, host: &str) -> Result<&mut Client> {
        self.all.get_mut(host).ok_or_else(|| anyhow!("host '{host}' is not connected"))
    }

    /// Where a node is that says it is at an address: all its addresses are where it was reached.
    pub fn reached(&self, host: &str, at: &str) -> String {
        let all = at.parse::<SocketAddr>().ok().filter(|a| a.ip().is_unspecified());
        match (all, self.all.get(host).and_then(Client::host)) {
            (Some(a), Some(host)) if host.contains(':') => format!("[{host}]:{}", a.port()),
            (Some(a), Some(host)) => format!("{host}:{}", a.port()),
            _ => at.to_owned(),
        }
    }

    /// Asks a node for one thing, in our turn where one has begun.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub fn ask(&mut self, host: &str, request: Request) -> Result<Vec<Item>> {
        Ok(self.asked(host, request)?.0)
    }

    fn asked(&mut self, host: &str, request: Request) -> Result<(Vec<Item>, Done)> {
        let turn = self.turn.as_ref().and_then(|(s, all)| Some((*s, *all.get(host)?)));
        let request = match turn {
            Some((store, turn)) => Request::InTurn { store, turn, what: Box::new(request) },
            None => request,
        };
        let asked = self.client(host)?.ask(&request);
        asked.with_context(|| format!("host '{host}'"))
    }

    /// Begins our turn at every node: what was asked for before us for this store is done, or won't be.
    ///
    /// # Errors
    /// One does not answer.
    pub fn begin_turn(&mut self, store: u64) -> Result<()> {
        let mut turns = BTreeMap::new();
        for (host, client) in &mut self.all {
            let asked = client.ask(&Request::Turn { store });
            let (items, _) = asked.with_context(|| format!("host '{host}'"))?;
            let number = |i: Item| match i {
                Item::Turn(n) => Some(n),
                _ => None,
            };
            let turn = items.into_iter().find_map(number);
            let older = || anyhow!("host '{host}': its answer has no end: is it older?");
            turns.insert(host.clone(), turn.ok_or_else(older)?);
        }
        self.turn = Some((store, turns));
        Ok(())
    }

    /// Whether a node is connected.
    pub fn answers(&self, host: &str) -> bool {
        self.all.contains_key(host)
    }

    /// Asks every node what it has.
    ///
    /// # Errors
    /// One does not answer.
    pub fn observe(&mut self) -> Result<Observed> {
        let mut all = Observed::new();
        for (name, client) in &mut self.all {
            let (items, _) = client.ask(&show()).with_context(|| format!("host '{name}'"))?;
            all.insert(name.clone(), seen(items));
        }
        Ok(all)
    }

    /// All counters of a node.
    ///
    /// # Errors
    /// It does not answer.
    pub fn stats(&mut self, host: &str) -> Result<Stats> {
        let got = self.client(host)?.ask(&Request::Stats {});
        Ok(Stats::of(got.with_context(|| format!("host '{host}'"))?.0))
    }

    /// Proofs of isolation: of what runs everywhere, or, before steps are taken, of what would run where
    /// they are.
    ///
    /// # Errors
    /// A node does not answer, or the steps can't be.
    pub fn verify(&mut self, steps: &[Step]) -> Result<BTreeMap<String, Proof>> {
        let mut all = BTreeMap::new();
        for (name, client) in &mut self.all {
            let after: Vec<Request> =
                steps.iter().filter(|s| s.host() == name).map(request).collect();
            if after.is_empty() && !steps.is_empty() {
                continue;
            }
            let asked = Request::Verify { networks: Vec::new(), leaks: TOLD, after };
            let (items, _) = client.ask(&asked).with_context(|| format!("host '{name}'"))?;
            let mut proof = Proof::default();
            for i in items {
                match i {
                    Item::Leak(l) => proof.leaks.push(*l),
                    Item::Verified(v) => proof.verified = *v,
                    _ => {}
                }
            }
            all.insert(name.clone(), proof);
        }
        Ok(all)
    }

    /// What a node says of one VDP, if it has one of this number.
    ///
    /// # Errors
    /// It does not answer.
    pub fn vdp(&mut self, host: &str, vid: u16) -> Result<Option<VdpItem>> {
        let request = Request::Show { vdp: Some(vid.to_string()), rules: WithRules::No };
        let items = match self.client(host)?.ask(&request) {
            Ok((items, _)) => items,
            // Of what was asked only the number can be wrong.
            Err(e) if is_bad_input(&e) => return Ok(None),
            Err(e) => return Err(e).with_context(|| format!("host '{host}'")),
        };
        Ok(items.into_iter().find_map(|i| match i {
            Item::Vdp(v) => Some(*v),
            _ => None,
        }))
    }

    /// What a node says of the VDPs that forward for one, as parts of it.
    ///
    /// # Errors
    /// It does not answer.
    pub fn parts(&mut self, host: &str, vid: u16) -> Result<Vec<VdpItem>> {
        let answer = self.client(host)?.ask(&Request::Stats {});
        let (items, _) = answer.with_context(|| format!("host '{host}'"))?;
        let part = |i| match i {
            Item::Vdp(v) if v.part_of == Some(vid) => Some(*v),
            _ => None,
        };
        Ok(items.into_iter().filter_map(part).collect())
    }

    /// Carries out steps in order. Says which nodes became ones of the other kind, and how.
    ///
    /// # Errors
    /// The first that a node refuses, or does not answer.
    pub fn perform(&mut self, steps: &[Step]) -> Result<Vec<Became>> {
        let (mut rest, mut became) = (steps, Vec::new());
        while let Some(first) = rest.first() {
            let host = first.host();
            if alone(first) {
                let (_, done) = self.asked(host, request(first))?;
                became.extend(done.became.map(|b| *b));
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let together = |s: &&Step| s.host() == host && !alone(s);
            let n = rest.iter().take(BATCH).take_while(together).count();
            let of = rest.iter().take(n).map(request).collect();
            self.ask(host, Request::Batch { of })?;
            rest = rest.get(n..).unwrap_or_default();
        }
        Ok(became)
    }
}

/// The question what a node has.
pub(super) fn show() -> Request {
    Request::Show { vdp: None, rules: WithRules::No }
}

/// Whether a step is a request of its own: one that is waited for.
fn alone(s: &Step) -> bool {
    match s {
        Step::Migrate { .. } => true,
        Step::Delete { kind, .. } => *kind == Kind::Router,
        Step::Put { wanted, how } => {
            wanted.router.is_some() || matches!(how, How::Become | How::Reroute)
        }
        Step::PortPut { .. } | Step::PortDelete { .. } => false,
    }
}

fn request(s: &Step) -> Request {
    match s {
        Step::Delete { vid, kind: Kind::Router, .. } => {
            Request::RouterDelete { router: vid.to_string() }
        }
        Step::Delete { vid, .. } => Request::VdpDelete { vdp: vid.to_string() },
        Step::Put { wanted, how } => match &wanted.router {
            Some(r) => {
                let router = Router::clone(r);
                let addresses = match how {
                    How::Elsewhere | How::Anew => Addresses::Kept,
                    How::New | How::Change | How::Reroute | How::Become => Addresses::New,
                };
                Request::RouterPut { toml: wanted.toml.clone(), router, addresses }
            }
            None => Request::VdpPut { toml: wanted.toml.clone() },
        },
        Step::PortPut { wanted: p, .. } => Request::PortPut {
            name: p.name.clone(),
            device: p.device.clone(),
            label: p.label.to_string(),
        },
        Step::PortDelete { name, .. } => Request::PortDelete { name: name.clone() },
        Step::Migrate { vid, to, .. } => {
            Request::VdpMigrate { vdp: vid.to_string(), to: to.name().to_owned() }
        }
    }
}

/// Connects to a host.
///
/// # Errors
/// It can't be reached, or an identity can't be used.
pub(super) fn client(h: &Host, tls: Option<&Tls>) -> Result<Client> {
    if let Some(path) = h.api.strip_prefix("unix:") {
        return Client::unix(Path::new(path));
    }
    let tls = tls.ok_or_else(|| bad_input("is reached by TLS: say who asks in [tls]"))?;
    Client::tls(&h.api, &identity(tls, h.peer_name.as_deref())?)
}

fn identity(t: &Tls, peer: Option<&str>) -> Result<Identity> {
    let read = |path: &str| read_file(Path::new(path)).map_err(bad_input);
    let (certificate, key, ca) = (read(&t.certificate)?, read(&t.key)?, read(&t.ca)?);
    let name = match peer {
        None => PeerName::Host,
        Some("*") => PeerName::Any,
        Some(n) => ServerName::try_from(n.to_owned())
            .map(PeerName::Is)
            .map_err(|_| bad_input("peer_name: a host's name, or \"*\" for any"))?,
    };
    let pem = Pem { certificate: certificate.as_bytes(), key: key.as_bytes(), ca: ca.as_bytes() };
    Identity::new(&pem, name).map_err(|(part, e)| {
        let path = match part {
            Part::Certificate => &t.certificate,
            Part::Key => &t.key,
            Part::Ca => &t.ca,
        };
        bad_input(format_args!("{path}: {e}"))
    })
}

/// What the supervisor looks at of an answer to `show`.
pub(super) fn seen(items: Vec<Item>) -> ObservedHost {
    let stats = Stats::of(items);
    let budget = |part: &str| {
        let of =
            |t: &TcamItem| Budget { slice_entries: t.slice_entries, free_entries: t.free_entries };
        stats.plane.tcam.iter().find(|t| t.part == part).map(of).unwrap_or_default()
    };
    let (mapping, action) = (budget("mapping"), budget("action"));
    ObservedHost {
        // Port 0 is the sum of those that were removed.
        ports: stats.ports.iter().filter(|p| p.number != 0).map(|p| p.name.clone()).collect(),
        made: stats.ports.iter().filter_map(|p| Some((p.name.clone(), p.label.clone()?))).collect(),
        devices: stats
            .ports
            .iter()
            .filter(|p| p.label.is_some())
            .map(|p| (p.name.clone(), p.device.clone()))
            .collect(),
        gone: BTreeMap::new(),
        vnis: stats.ports.iter().flat_map(|p| identifiers(&p.device)).collect(),
        vdps: stats.vdps.iter().filter(|v| v.vid != 0).map(vdp).collect(),
        mapping,
        action,
        processors: stats.plane.processors.clone(),
    }
}

/// Network identifiers of a tunnel's end, by its device's name.
fn identifiers(device: &str) -> Vec<u32> {
    let settings = device.strip_prefix("vxlan:").and_then(|t| t.parse::<Settings>().ok());
    settings.into_iter().flat_map(|s| s.ways).map(|w| w.vni).collect()
}

fn vdp(v: &VdpItem) -> ObservedVdp {
    let path = match v.phase.as_str() {
        "fast" => Some(model::Path::Fast),
        "slow" => Some(model::Path::Slow),
        _ => None,
    };
    let mut out = ObservedVdp { vid: v.vid, name: v.name.clone(), path, ..ObservedVdp::default() };
    // What forwards for a node is a part of it: what it takes is the node's to take.
    if let Some(d) = v.detail.as_ref().filter(|_| v.part_of.is_none()) {
        let entries = |part: &str| d.tcam.iter().find(|t| t.part == part).map_or(0, |t| t.allowed);
        out.label.clone_from(&d.label);
        out.kind = if d.router.is_some() { Kind::Router } else { Kind::Vdp };
        out.moving = is_moving(&v.phase, d.moving.as_deref());
        // It is not what it shall be, and is put once more; what is away its host renews by itself.
        if d.certificate_renewed && !out.moving {
            let label = out.label.take().and_then(|l| Label::parse(&l));
            out.label = label.map(|l| Label { whole: !l.whole, ..l }.to_string());
        }
        (out.mapping_entries, out.action_entries) = (entries("mapping"), entries("action"));
        out.cpu_permille = d.cpu_permille.into();
    }
    out
}
