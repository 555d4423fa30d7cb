//! What networks count: asked of the nodes, for requests, listeners and `/metrics`.
//!
//! Room: reading only. One look serves everybody who asks within [`FRESH`]; hosts are asked beside each
//! other, and one that does not answer costs the others nothing.

use super::App;
use super::caller::Caller;
use super::networks::find;
use super::problem::Problem;
use super::take::Named;
use crate::commands::net::ends::{self, EndsLook};
use crate::commands::net::links::{self, LinkLook};
use crate::commands::stats::Stats;
use crate::net::nodes::Nodes;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use weir_supervisor::model::{Host, Lab, Tls};
use weir_supervisor::store::State as Held;

/// How long a look serves.
const FRESH: Duration = Duration::from_millis(250);

/// What a network counts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Counters {
    /// The network.
    pub network: String,
    /// Its nodes, in their order.
    pub nodes: Vec<NodeCounters>,
    /// Its links' ways, each at both ends, where they are probed.
    pub links: Vec<LinkLook>,
    /// Between its ends, over the links of the shortest way.
    pub ends: Vec<EndsLook>,
}

/// What a virtual node counts, since it was made. Frames are counted without FCS.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct NodeCounters {
    /// The node.
    pub node: String,
    /// The physical node.
    pub host: String,
    /// Whether its host has answered, and has it. If not, all else is nothing.
    pub there: bool,
    /// The host's time, in nanoseconds since it began: for rates.
    pub at_ns: u64,
    /// Frames that came to it.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that left by a port.
    pub forwarded_frames: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Frames dropped.
    pub dropped_frames: u64,
    /// By reason.
    pub dropped_by_reason: BTreeMap<String, u64>,
    /// Frames that went through the software stage.
    pub slow_frames: u64,
    /// Frames inside, now.
    pub held_frames: u64,
    /// What the data plane's worker has done for it, in units of about a forwarded frame: its part of
    /// `host_cpu_ns` is its part of `host_work`.
    pub work: u64,
    /// The same of all that its host has.
    pub host_work: u64,
    /// Processor time of its host's data plane, in nanoseconds.
    pub host_cpu_ns: u64,
    /// Processor time of the programs in its virtual router, in nanoseconds.
    pub router_cpu_ns: u64,
    /// Memory of its tables, and of the programs in its virtual router, now.
    pub memory_bytes: u64,
    /// Rules in its tables, now.
    pub rules: u64,
    /// Entries of the TCAM that it has, now.
    pub tcam_entries: u64,
    /// OpenFlow messages that came from its controllers.
    pub messages_in: u64,
    /// And that went to them.
    pub messages_out: u64,
}

/// A host, if it has answered.
pub type Seen = BTreeMap<String, Option<Stats>>;

/// A connection that is kept: to which host, by which identity.
type Kept = (Host, Option<Tls>, Nodes);

/// Asks nodes for everybody.
#[derive(Debug, Default)]
pub struct Observer {
    last: Mutex<Option<(Instant, Arc<Seen>)>>,
    /// Connections that are kept, by host and what it is reached by.
    open: Mutex<BTreeMap<String, Kept>>,
}

impl Observer {
    /// What the hosts of a lab count now, or a moment ago. Blocks.
    pub fn look(&self, lab: &Lab) -> Arc<Seen> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |s: &Seen| lab.host.iter().all(|h| s.contains_key(&h.name));
        if let Some((_, seen)) = last.as_ref().filter(|(at, s)| at.elapsed() < FRESH && known(s)) {
            return Arc::clone(seen);
        }
        let seen = Arc::new(self.ask(lab));
        *last = Some((Instant::now(), Arc::clone(&seen)));
        seen
    }

    /// What they count now. Blocks.
    pub fn ask(&self, lab: &Lab) -> Seen {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = std::mem::take(&mut *open);
        let one = |h: &Host, kept: Option<Kept>| {
            let same = |k: &Kept| k.0 == *h && k.1 == lab.tls;
            let again = kept.filter(same).and_then(|(_, _, mut n)| {
                let s = n.stats().ok()?.remove(&h.name)?;
                Some((n, s))
            });
            let (nodes, stats) = again.or_else(|| {
                let host = vec![h.clone()];
                let alone = Lab { tls: lab.tls.clone(), host, ..Lab::default() };
                let mut n = Nodes::connect([&alone]).ok()?;
                let s = n.stats().ok()?.remove(&h.name)?;
                Some((n, s))
            })?;
            Some(((h.clone(), lab.tls.clone(), nodes), stats))
        };
        let mut seen = Seen::new();
        std::thread::scope(|s| {
            let asked: Vec<_> = lab
                .host
                .iter()
                .map(|h| (h, kept.remove(&h.name)))
                .map(|(h, k)| (h.name.clone(), s.spawn(move || one(h, k))))
                .collect();
            for (name, answer) in asked {
                let (connection, stats) = answer.join().ok().flatten().unzip();
                if let Some(c) = connection {
                    open.insert(name.clone(), c);
                }
                seen.insert(name, stats);
            }
        });
        seen
    }
}

/// What the networks count that `mine` chooses.
pub fn counters(
    held: &Held,
    seen: &Seen,
    mine: impl Fn(&weir_supervisor::model::Network) -> bool,
) -> Vec<Counters> {
    let node = |n: &str, v: &weir_supervisor::model::Node| {
        let place = held.places.get(&format!("{n}/{}", v.name));
        let stats = place.and_then(|p| seen.get(&p.host)?.as_ref());
        let vdp = place.zip(stats).and_then(|(p, s)| s.whole(p.vid));
        let blank =
            NodeCounters { node: v.name.clone(), host: v.host.clone(), ..NodeCounters::default() };
        let Some((s, i)) = stats.zip(vdp) else { return blank };
        NodeCounters {
            there: true,
            at_ns: s.plane.at_ns,
            received_frames: i.received.frames,
            received_bytes: i.received.bytes,
            forwarded_frames: i.forwarded.frames,
            forwarded_bytes: i.forwarded.bytes,
            dropped_frames: i.dropped.values().sum(),
            dropped_by_reason: i.dropped.clone(),
            slow_frames: i.slow,
            held_frames: i.held as u64,
            work: i.takes.work,
            host_work: s.work(),
            host_cpu_ns: s.plane.cpu_ns,
            router_cpu_ns: i.takes.router_cpu_ns,
            memory_bytes: i.takes.memory_bytes,
            rules: i.takes.rules,
            tcam_entries: i.takes.tcam_entries,
            messages_in: i.takes.messages_in,
            messages_out: i.takes.messages_out,
            ..blank
        }
    };
    let chosen = held.lab.network.iter().filter(|n| mine(n));
    chosen
        .map(|n| {
            let stats = |host: &str| seen.get(host)?.as_ref();
            let links = links::seen(&held.lab, |o| o.name == n.name, stats);
            Counters {
                network: n.name.clone(),
                nodes: n.node.iter().map(|v| node(&n.name, v)).collect(),
                ends: ends::of(n, &links),
                links,
            }
        })
        .collect()
}

/// What all networks that a caller may see count.
///
/// # Errors
/// The store can't be read.
pub async fn visible(app: &Arc<App>, caller: &Caller) -> Result<Vec<Counters>, Problem> {
    let (a, caller) = (Arc::clone(app), caller.clone());
    app.desk(move |d| {
        let saved = d.look()?;
        let seen = a.observer.look(&saved.state.lab);
        Ok(counters(&saved.state, &seen, |n| caller.sees(&n.owner)))
    })
    .await
}

/// What a network counts, node by node.
#[utoipa::path(
    get, path = "/v1/networks/{network}/counters", tag = "networks",
    params(("network" = String, Path, description = "Its name")),
    responses((status = 200, description = "Its counters", body = Counters))
)]
pub async fn network(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named<String>,
) -> Result<Json<Counters>, Problem> {
    let a = Arc::clone(&app);
    let found = app.desk(move |d| {
        let saved = d.look()?;
        find(&saved.state.lab, &caller, &name)?;
        let seen = a.observer.look(&saved.state.lab);
        let all = counters(&saved.state, &seen, |n| n.name == name);
        all.into_iter().next().ok_or_else(|| Problem::no_network(&name))
    });
    found.await.map(Json)
}
