//! What networks count: asked of the nodes, for requests, listeners and `/metrics`.
//!
//! Room: reading only. One look serves everybody who asks within [`FRESH`]; [`super::observer`] asks hosts.

use super::App;
use super::caller::Caller;
use super::networks::find;
use super::observer::Seen;
use super::problem::Problem;
use super::take::Named;
use crate::commands::net::ends::{self, EndsLook};
use crate::commands::net::links::{self, LinkLook};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;
use weir_supervisor::model::{Network, Node};
use weir_supervisor::store::{Saved, State as Held};

/// How long a look serves.
pub const FRESH: Duration = Duration::from_millis(250);

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

/// The hosts on which something of these networks is.
fn hosts(held: &Held, mine: impl Fn(&Network) -> bool) -> BTreeSet<String> {
    let chosen = held.lab.network.iter().enumerate().filter(|(_, n)| mine(n));
    let of = |(i, n): (usize, &Network)| {
        let place = |v: &Node| held.places.get(&format!("{}/{}", n.name, v.name));
        let nodes = n.node.iter().filter_map(|v| Some(place(v)?.host.clone()));
        let ends = held.lab.tunnelled(i).into_iter().flat_map(|t| t.hosts.map(str::to_owned));
        nodes.chain(ends).collect::<Vec<_>>()
    };
    chosen.flat_map(of).collect()
}

/// What the networks count that `mine` chooses.
pub fn counters(held: &Held, seen: &Seen, mine: impl Fn(&Network) -> bool) -> Vec<Counters> {
    let node = |n: &str, v: &Node| {
        let place = held.places.get(&format!("{n}/{}", v.name));
        let stats = place.and_then(|p| seen.get(&p.host)?.as_deref());
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
            let stats = |host: &str| seen.get(host)?.as_deref();
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

/// What the hosts say that the networks are on which `mine` chooses, asked now or a moment ago. Only these are
/// waited for, and nothing is at work meanwhile.
async fn seen(app: &App, saved: &Saved, mine: impl Fn(&Network) -> bool) -> Seen {
    let hosts = hosts(&saved.state, mine);
    app.observer.look(&saved.state.lab, &hosts, FRESH).await
}

/// What all networks that a listener may see count.
///
/// # Errors
/// The store can't be read.
pub async fn visible(app: &App, caller: &Caller) -> Result<Vec<Counters>, Problem> {
    let saved = app.for_listener(|d| Ok(d.look()?)).await?;
    let seen = seen(app, &saved, |n| caller.sees(&n.owner)).await;
    let caller = caller.clone();
    app.for_listener(move |_| Ok(counters(&saved.state, &seen, |n| caller.sees(&n.owner)))).await
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
    let saved = app.desk(|d| Ok(d.look()?)).await?;
    find(&saved.state.lab, &caller, &name)?;
    let seen = seen(&app, &saved, |n| n.name == name).await;
    let of = name.clone();
    let all = app.desk(move |_| Ok(counters(&saved.state, &seen, |n| n.name == of))).await?;
    all.into_iter().next().map(Json).ok_or_else(|| Problem::no_network(&name))
}
