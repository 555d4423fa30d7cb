//! `/v1/networks`: instantiate, delete, set, migrate, and look (003 §2.1).
//!
//! Room: from requests to edits of the lab; [`super::desk`] makes them hold.

use super::App;
use super::caller::Caller;
use super::desk::{Change, Dry};
use super::merge::merged;
use super::problem::Problem;
use super::take::{Asked, Named, Precondition, Said};
use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use utoipa::{IntoParams, ToSchema};
use weir_supervisor::model::{Kind, Lab, Network, Node, Path};
use weir_supervisor::store::Places;

/// All networks that the caller may see.
#[derive(Debug, Serialize, ToSchema)]
pub struct Networks {
    /// The revision that holds.
    pub revision: u64,
    /// Whether a change was interrupted; the next one, or `POST /v1/recover`, finishes it.
    pub interrupted: bool,
    /// The networks.
    pub networks: Vec<NetworkItem>,
}

/// A network and where its nodes live.
#[derive(Debug, Serialize, ToSchema)]
pub struct NetworkItem {
    /// As it is wanted.
    pub network: Network,
    /// Its nodes' places, in the order of its nodes.
    pub places: Vec<PlaceItem>,
}

/// Where a virtual node lives.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlaceItem {
    /// The node.
    pub node: String,
    /// The physical node.
    pub host: String,
    /// Its VDP's number there.
    pub vid: Option<u16>,
}

/// How a change is made.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// Only say what would be done.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

impl How {
    /// The same, by name.
    pub fn dry(&self) -> Dry {
        if self.dry_run { Dry::Run } else { Dry::Not }
    }
}

/// Whereto a node moves; what is not said stays.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The path.
    path: Option<Path>,
    /// What it becomes.
    kind: Option<Kind>,
    /// The host that shall process its frames: its own, or another with a tunnel's end.
    to: Option<String>,
}

/// What a network or a lab is known by: it changes whenever that does.
pub fn etag(of: &impl Serialize) -> String {
    // Plain data: JSON has a form for all of it.
    let text = serde_json::to_string(of).unwrap_or_default();
    let digest = super::tokens::hash(&text);
    format!("\"{}\"", digest.get(..16).unwrap_or_default())
}

/// The network of this name, if the caller may know of it.
///
/// # Errors
/// There is none, or he may not: the same answer.
pub fn find<'l>(lab: &'l Lab, caller: &Caller, name: &str) -> Result<&'l Network, Problem> {
    let found = lab.network(name).filter(|n| caller.sees(&n.owner));
    found.ok_or_else(|| Problem::no_network(name))
}

fn find_mut<'l>(lab: &'l mut Lab, caller: &Caller, name: &str) -> Result<&'l mut Network, Problem> {
    let found = lab.network.iter_mut().find(|n| n.name == name && caller.sees(&n.owner));
    found.ok_or_else(|| Problem::no_network(name))
}

fn node_of<'n>(n: &'n mut Network, name: &str) -> Result<&'n mut Node, Problem> {
    let network = n.name.clone();
    n.node.iter_mut().find(|v| v.name == name).ok_or_else(|| no_node(&network, name))
}

/// A network has no node of this name.
pub fn no_node(network: &str, name: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    let text = format!("network '{network}' has no node '{name}': GET it to see those it has");
    Problem::new(StatusCode::NOT_FOUND, "no-node", text)
}

fn item(n: &Network, places: &Places) -> NetworkItem {
    let place = |v: &Node| {
        let at = places.get(&format!("{}/{}", n.name, v.name));
        PlaceItem { node: v.name.clone(), host: v.host.clone(), vid: at.map(|p| p.vid) }
    };
    NetworkItem { network: n.clone(), places: n.node.iter().map(place).collect() }
}

/// An answer with what it is known by.
pub fn tagged(status: StatusCode, tag: Option<String>, body: impl Serialize) -> Response {
    let mut r = (status, Json(body)).into_response();
    if let Some(v) = tag.and_then(|t| HeaderValue::try_from(t).ok()) {
        r.headers_mut().insert(ETAG, v);
    }
    r
}

/// The networks that are yours to see.
#[utoipa::path(
    get, path = "/v1/networks", tag = "networks",
    responses((status = 200, description = "The networks", body = Networks))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<Networks>, Problem> {
    let saved = app.desk(|d| d.look().map_err(Problem::from)).await?;
    let s = &saved.state;
    let mine = s.lab.network.iter().filter(|n| caller.sees(&n.owner));
    let networks = mine.map(|n| item(n, &s.places)).collect();
    Ok(Json(Networks { revision: s.revision, interrupted: saved.under_way.is_some(), networks }))
}

/// One network.
#[utoipa::path(
    get, path = "/v1/networks/{network}", tag = "networks",
    params(("network" = String, Path, description = "Its name")),
    responses((status = 200, description = "The network", body = NetworkItem,
        headers(("ETag" = String, description = "For If-Match"))))
)]
pub async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let saved = app.desk(|d| d.look().map_err(Problem::from)).await?;
    let n = find(&saved.state.lab, &caller, &name)?;
    Ok(tagged(StatusCode::OK, Some(etag(n)), item(n, &saved.state.places)))
}

/// Instantiates a network. An operator's.
#[utoipa::path(
    post, path = "/v1/networks", tag = "networks", params(How), request_body = Network,
    responses(
        (status = 200, description = "What a dry run would do", body = Change),
        (status = 201, description = "It is there", body = Change,
            headers(("Location" = String, description = "Where it is"), ("ETag" = String, description = "For If-Match"))),
    )
)]
pub async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(how): Asked<How>,
    Said(network): Said<Network>,
) -> Result<Response, Problem> {
    caller.must_operate("instantiating a network")?;
    let (tag, at) = (etag(&network), location(&network.name));
    let change = app.change(caller, how.dry(), move |lab, _| {
        if lab.network(&network.name).is_some() {
            let text = format!("network '{}' is there already: PUT or PATCH it", network.name);
            return Err(Problem::new(StatusCode::CONFLICT, "exists", text));
        }
        lab.network.push(network);
        Ok(())
    });
    Ok(put_answer(change.await?, Some((tag, at))))
}

fn location(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let mut out = "/v1/networks/".to_owned();
    for c in name.chars() {
        match plain(c) {
            true => out.push(c),
            false => {
                let mut bytes = [0; 4];
                out.extend(c.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")));
            }
        }
    }
    out
}

fn put_answer(change: Change, new: Option<(String, String)>) -> Response {
    match new.filter(|_| change.made) {
        None => tagged(StatusCode::OK, None, change),
        Some((tag, at)) => {
            let mut r = tagged(StatusCode::CREATED, Some(tag), change);
            if let Ok(v) = HeaderValue::try_from(at) {
                r.headers_mut().insert(LOCATION, v);
            }
            r
        }
    }
}

/// Makes a network exactly so: new, or changed in what differs.
#[utoipa::path(
    put, path = "/v1/networks/{network}", tag = "networks", request_body = Network,
    params(("network" = String, Path, description = "Its name"), How,
        ("If-Match" = Option<String>, Header, description = "Only if its ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its ETag is none of these; `*`: only if there is nothing")),
    responses(
        (status = 200, description = "It is so", body = Change),
        (status = 201, description = "It was made", body = Change),
    )
)]
pub async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named<String>,
    Asked(how): Asked<How>,
    held: Precondition,
    Said(network): Said<Network>,
) -> Result<Response, Problem> {
    if network.name != name {
        let text = "name: must be the path's: a network keeps its name";
        return Err(Problem::refused(text));
    }
    let (tag, at) = (etag(&network), location(&name));
    let new = Arc::new(Mutex::new(false));
    let is_new = Arc::clone(&new);
    let change = app.change(caller, how.dry(), move |lab, caller| {
        match find_mut(lab, caller, &name) {
            Ok(old) => {
                held.holds(&etag(old))?;
                caller.may_make(old, &network)?;
                *old = network;
            }
            // What is there and not his, and what is not there, are the same to an owner.
            Err(missing) if !caller.is_operator() => {
                return Err(match caller.sees_all() {
                    true => Problem::forbidden("a reader's token changes nothing"),
                    false => missing,
                });
            }
            Err(_) => {
                held.holds_of_nothing()?;
                lab.network.push(network);
                *is_new.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = true;
            }
        }
        Ok(())
    });
    let change = change.await?;
    let new = *new.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(put_answer(change, Some((tag, at)).filter(|_| new)))
}

/// Changes what is named of a network, by a JSON merge patch (RFC 7396): `null` takes a key away.
#[utoipa::path(
    patch, path = "/v1/networks/{network}", tag = "networks",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(("network" = String, Path, description = "Its name"), How,
        ("If-Match" = Option<String>, Header, description = "Only if its ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its ETag is none of these; `*`: only if there is nothing")),
    responses((status = 200, description = "It is so", body = Change))
)]
pub async fn patch(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named<String>,
    Asked(how): Asked<How>,
    held: Precondition,
    Said(patch): Said<Value>,
) -> Result<Json<Change>, Problem> {
    let change = app.change(caller, how.dry(), move |lab, caller| {
        let old = find_mut(lab, caller, &name)?;
        held.holds(&etag(old))?;
        let new: Network = merged(old, &patch)?;
        if new.name != name {
            return Err(Problem::refused("name: a network keeps its name"));
        }
        caller.may_make(old, &new)?;
        *old = new;
        Ok(())
    });
    change.await.map(Json)
}

/// Deletes a network, with all that it has.
#[utoipa::path(
    delete, path = "/v1/networks/{network}", tag = "networks",
    params(("network" = String, Path, description = "Its name"), How,
        ("If-Match" = Option<String>, Header, description = "Only if its ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its ETag is none of these; `*`: only if there is nothing")),
    responses((status = 200, description = "It is gone", body = Change))
)]
pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named<String>,
    Asked(how): Asked<How>,
    held: Precondition,
) -> Result<Json<Change>, Problem> {
    let change = app.change(caller, how.dry(), move |lab, caller| {
        let old = find(lab, caller, &name)?;
        held.holds(&etag(old))?;
        // Whoever owns it may let it go.
        caller.may_make(old, old)?;
        lab.network.retain(|n| n.name != name);
        Ok(())
    });
    change.await.map(Json)
}

/// One node of a network.
#[utoipa::path(
    get, path = "/v1/networks/{network}/nodes/{node}", tag = "nodes",
    params(("network" = String, Path, description = "The network"), ("node" = String, Path, description = "Its node")),
    responses((status = 200, description = "The node", body = Node,
        headers(("ETag" = String, description = "Its network's, for If-Match"))))
)]
pub async fn node(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named((network, node)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let saved = app.desk(|d| d.look().map_err(Problem::from)).await?;
    let n = find(&saved.state.lab, &caller, &network)?;
    let found = n.node(&node).ok_or_else(|| no_node(&n.name, &node))?;
    Ok(tagged(StatusCode::OK, Some(etag(n)), found))
}

/// Sets resources of a running node, by a JSON merge patch; what is not named stays as it is.
#[utoipa::path(
    patch, path = "/v1/networks/{network}/nodes/{node}", tag = "nodes",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(("network" = String, Path, description = "The network"), ("node" = String, Path, description = "Its node"), How,
        ("If-Match" = Option<String>, Header, description = "Only if its network's ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its network's ETag is none of these; `*`: only if there is nothing")),
    responses((status = 200, description = "It is so", body = Change))
)]
pub async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named((network, node)): Named<(String, String)>,
    Asked(how): Asked<How>,
    held: Precondition,
    Said(patch): Said<Value>,
) -> Result<Json<Change>, Problem> {
    let change = app.change(caller, how.dry(), move |lab, caller| {
        edit_node(lab, caller, (&network, &node), &held, |v| {
            let new: Node = merged(v, &patch)?;
            if new.name != v.name {
                return Err(Problem::refused("name: a node keeps its name"));
            }
            *v = new;
            Ok(())
        })
    });
    change.await.map(Json)
}

/// Moves a node to another path or another host, or makes it one of the other kind, frames flowing.
#[utoipa::path(
    post, path = "/v1/networks/{network}/nodes/{node}/migrate", tag = "nodes", request_body = Move,
    params(("network" = String, Path, description = "The network"), ("node" = String, Path, description = "Its node"), How,
        ("If-Match" = Option<String>, Header, description = "Only if its network's ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its network's ETag is none of these; `*`: only if there is nothing")),
    responses((status = 200, description = "It is there", body = Change))
)]
pub async fn migrate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named((network, node)): Named<(String, String)>,
    Asked(how): Asked<How>,
    held: Precondition,
    Said(to): Said<Move>,
) -> Result<Json<Change>, Problem> {
    let change = app.change(caller, how.dry(), move |lab, caller| {
        edit_node(lab, caller, (&network, &node), &held, |v| {
            v.path = to.path.unwrap_or(v.path);
            v.kind = to.kind.unwrap_or(v.kind);
            if let Some(host) = to.to {
                v.away = (host != v.host).then_some(host);
            }
            Ok(())
        })
    });
    change.await.map(Json)
}

fn edit_node(
    lab: &mut Lab,
    caller: &Caller,
    (network, node): (&str, &str),
    held: &Precondition,
    edit: impl FnOnce(&mut Node) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let old = find_mut(lab, caller, network)?;
    held.holds(&etag(old))?;
    let mut new = old.clone();
    edit(node_of(&mut new, node)?)?;
    caller.may_make(old, &new)?;
    *old = new;
    Ok(())
}
