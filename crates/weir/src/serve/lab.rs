//! `/v1/lab` and what concerns all networks: apply, recover, verify, revisions.
//!
//! Room: operators and readers; from requests to the desk, and to nodes for proofs.

use super::App;
use super::caller::Caller;
use super::desk::Change;
use super::networks::{How, etag, tagged};
use super::problem::Problem;
use super::take::{Asked, Named, Precondition, Said};
use crate::net::change::Way;
use crate::net::lab::checked_whole;
use crate::net::nodes::Nodes;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;
use weir_supervisor::model::Lab;

/// What holds.
#[derive(Debug, Serialize, ToSchema)]
pub struct LabItem {
    /// The revision.
    pub revision: u64,
    /// Whether a change was interrupted.
    pub interrupted: bool,
    /// The lab.
    pub lab: Lab,
}

/// Which way a change that was interrupted goes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whereto {
    /// To its end.
    On,
    /// To the state before.
    Back,
}

/// What becomes of a change that was interrupted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Recover {
    /// Which way.
    way: Whereto,
}

/// How it went.
#[derive(Debug, Serialize, ToSchema)]
pub struct Recovered {
    /// Whether there was one.
    pub interrupted: bool,
    /// Steps that it took.
    pub steps: usize,
    /// The revision that holds now.
    pub revision: u64,
}

/// What a proof came to, host by host.
#[derive(Debug, Serialize, ToSchema)]
pub struct Verified {
    /// Whether it is proved of every host that no network reaches another.
    pub isolated: bool,
    /// Hosts.
    pub hosts: Vec<HostVerified>,
}

/// What a proof came to on one host: as `weir net verify --json` tells it.
#[derive(Debug, Serialize, ToSchema)]
pub struct HostVerified {
    /// The physical node.
    pub host: String,
    /// Whether it is proved.
    pub isolated: bool,
    /// Networks, VDPs, rules, and what took too much work.
    #[schema(value_type = Object)]
    pub verified: crate::verify::VerifiedItem,
    /// Ways from one network to another, each with a frame that shows it where one can be made.
    #[schema(value_type = Vec<Object>)]
    pub leaks: Vec<crate::verify::LeakItem>,
}

/// The lab that holds: hosts, links and networks.
#[utoipa::path(
    get, path = "/v1/lab", tag = "lab",
    responses((status = 200, description = "The lab", body = LabItem,
        headers(("ETag" = String, description = "For If-Match"))))
)]
pub async fn show(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Problem> {
    caller.must_see_all("the lab")?;
    let saved = app.desk(|d| d.look().map_err(Problem::from)).await?;
    let s = &saved.state;
    let (revision, lab) = (s.revision, s.lab.clone());
    let item = LabItem { revision, interrupted: saved.under_way.is_some(), lab };
    Ok(tagged(StatusCode::OK, Some(etag(&s.lab)), item))
}

/// Makes the running networks what is said, as `weir apply` does. An operator's.
#[utoipa::path(
    put, path = "/v1/lab", tag = "lab", request_body = Lab,
    params(How, ("If-Match" = Option<String>, Header, description = "Only if its ETag is this"),
        ("If-None-Match" = Option<String>, Header, description = "Only if its ETag is none of these; `*`: only if there is nothing")),
    responses((status = 200, description = "It holds, or what a dry run would do", body = Change))
)]
pub async fn apply(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(how): Asked<How>,
    precondition: Precondition,
    Said(lab): Said<Lab>,
) -> Result<Json<Change>, Problem> {
    caller.must_operate("applying a lab")?;
    absolute(&lab)?;
    let change = app.change(caller, how.dry(), move |held, _| {
        // What could never be is that, whatever held (RFC 9110 §13.2.1).
        checked_whole(&lab, None)?;
        precondition.holds(&etag(held))?;
        *held = lab;
        Ok(())
    });
    change.await.map(Json)
}

/// Files and sockets are the daemon's machine's: beside nothing.
fn absolute(lab: &Lab) -> Result<(), Problem> {
    let tls = lab.tls.iter().flat_map(|t| {
        [("certificate", &t.certificate), ("key", &t.key), ("ca", &t.ca)].into_iter()
    });
    let tls = tls.map(|(k, v)| (format!("tls.{k}"), v.as_str()));
    let sockets = lab.host.iter().enumerate();
    let sockets = sockets.filter_map(|(i, h)| Some((i, h.api.strip_prefix("unix:")?)));
    for (at, path) in tls.chain(sockets.map(|(i, p)| (format!("host[{i}].api"), p))) {
        if !path.starts_with('/') {
            let text = "a path on the daemon's machine: write it from / on";
            return Err(Problem::refused(format_args!("{at}: '{path}': {text}")));
        }
    }
    Ok(())
}

/// What held at a revision; the last 32 are kept.
#[utoipa::path(
    get, path = "/v1/revisions/{number}", tag = "lab",
    params(("number" = u64, Path, description = "The revision")),
    responses((status = 200, description = "The lab of then", body = LabItem))
)]
pub async fn revision(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(number): Named<u64>,
) -> Result<Json<LabItem>, Problem> {
    caller.must_see_all("what held before")?;
    let lab = app.slowly(move |d| d.revision(number)).await?.ok_or_else(|| {
        let text = format!("revision {number} is not kept: the last 32 are");
        Problem::new(StatusCode::NOT_FOUND, "no-revision", text)
    })?;
    Ok(Json(LabItem { revision: number, interrupted: false, lab }))
}

/// Finishes a change that was interrupted, or undoes it. An operator's.
#[utoipa::path(
    post, path = "/v1/recover", tag = "lab", request_body = Recover,
    responses((status = 200, description = "None is under way", body = Recovered))
)]
pub async fn recover(
    State(app): State<Arc<App>>,
    caller: Caller,
    Said(asked): Said<Recover>,
) -> Result<Json<Recovered>, Problem> {
    caller.must_operate("recovering")?;
    let way = match asked.way {
        Whereto::On => Way::On,
        Whereto::Back => Way::Back,
    };
    let (done, revision) = app.slowly(move |d| d.recover(way)).await?;
    caller.notes().came_to(format_args!("revision {revision}"));
    let (interrupted, steps) = (done.is_some(), done.unwrap_or(0));
    Ok(Json(Recovered { interrupted, steps, revision }))
}

/// Proves, from the rules as installed, that no network reaches another.
#[utoipa::path(
    post, path = "/v1/verify", tag = "lab",
    responses((status = 200, description = "What every host's proof came to", body = Verified))
)]
pub async fn verify(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Verified>, Problem> {
    caller.must_see_all("the proof of isolation")?;
    let hosts = app
        .slowly(|d| {
            let saved = d.look()?;
            let proofs = Nodes::connect([&saved.state.lab])?.verify(&[])?;
            Ok(proofs)
        })
        .await?;
    let hosts: Vec<HostVerified> = hosts
        .into_iter()
        .map(|(host, p)| HostVerified {
            host,
            isolated: p.verified.isolated,
            verified: p.verified,
            leaks: p.leaks,
        })
        .collect();
    Ok(Json(Verified { isolated: hosts.iter().all(|h| h.isolated), hosts }))
}
