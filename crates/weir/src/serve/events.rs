//! What happens, for whoever listens: changes, revisions, observations, with numbers to resume from.
//!
//! Room: one ring of the last events for all; a listener is a place in it. So a listener that is slow
//! costs nothing, and one that is too slow is told how much it has missed.

use super::App;
use super::caller::{Caller, now_s};
use super::desk::{About, StepItem};
use super::problem::Problem;
use super::take::Asked;
use crate::net::diff::Told;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

/// Events that are kept.
const KEPT: usize = 1024;
/// Listeners at once.
const MOST: usize = 64;
/// How often a listener to whom nothing happens is shown that somebody is there.
const ALIVE: Duration = Duration::from_secs(15);
/// How often counters are looked at for listeners who ask for them.
const OBSERVE_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// A revision that holds.
#[derive(Clone, Debug)]
pub struct Event {
    /// When: seconds since 1970.
    pub at_s: u64,
    /// The revision that holds.
    pub revision: u64,
    /// Whose token; none where it came another way.
    pub by: Option<String>,
    /// What it is about.
    pub about: Vec<About>,
    /// What was done.
    pub steps: Vec<Told>,
    /// The guard that it is about, if it is about one.
    pub guard: Option<GuardItem>,
}

/// A guard that applied.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GuardItem {
    /// Its name.
    pub guard: String,
    /// The network.
    pub network: String,
    /// The node that went beyond its rate.
    pub node: String,
    /// Which rate.
    pub rate: String,
    /// What the node did a second.
    pub per_s: u64,
    /// "isolate" or "delete".
    pub act: String,
    /// "done", "dry-run", or why it could not be; for owners only whether.
    pub outcome: String,
}

/// An event as it is told.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventItem {
    /// When: seconds since 1970.
    pub at_s: u64,
    /// The revision that holds.
    pub revision: u64,
    /// The token that did it; left out where it was `weir apply` or `weir net`, and for owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Networks that have changed.
    pub networks: Vec<String>,
    /// What was done.
    pub steps: Vec<StepItem>,
    /// In a `guard`: which applied, and what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardItem>,
}

/// The ring.
#[derive(Debug)]
pub struct Hub {
    /// Tells one run of the daemon from another.
    epoch: u64,
    ring: Mutex<VecDeque<Arc<Event>>>,
    /// How many there have been.
    count: watch::Sender<u64>,
    listeners: AtomicUsize,
}

impl Hub {
    /// An empty one, of this run.
    pub fn new(epoch: u64) -> Self {
        let (count, _) = watch::channel(0);
        Self { epoch, ring: Mutex::default(), count, listeners: AtomicUsize::new(0) }
    }

    /// Tells of something; `make` is given the time.
    pub fn tell(&self, make: impl FnOnce(u64) -> Event) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(Arc::new(make(now_s())));
        self.count.send_modify(|n| *n += 1);
    }

    /// How many there have been.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// The event of this number, from 1; `Err` is the first that is still there.
    fn get(&self, number: u64) -> Result<Option<Arc<Event>>, u64> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let count = *self.count.borrow();
        let first = count + 1 - ring.len() as u64;
        if number < first {
            return Err(first);
        }
        let at = usize::try_from(number - first).unwrap_or(usize::MAX);
        Ok(ring.get(at).cloned())
    }

    fn id(&self, number: u64) -> String {
        format!("{:x}-{number}", self.epoch)
    }

    /// The number behind an id; `None` for one of another run.
    fn number(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        (u64::from_str_radix(epoch, 16).ok()? == self.epoch).then_some(())?;
        number.parse().ok()
    }
}

/// What is asked of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Listen {
    /// Also what networks count, so often in milliseconds: 100 to 60000.
    #[serde(default)]
    #[param(minimum = 100, maximum = 60000)]
    observe_ms: Option<u64>,
}

/// Counted as long as it lives.
struct Counted(Arc<App>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.events.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What happens, as Server-Sent Events.
///
/// `event: change` with an `id` for each revision; `event: guard` likewise where the daemon watches
/// guards and one applies; `event: counters` where `observe_ms` asks for them;
/// `event: missed` where the id to resume from is too old, or of another run: read everything anew.
/// An owner hears of his own networks.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", params(
        Listen,
        ("Last-Event-ID" = Option<String>, Header, description = "Resume behind this event"),
    ),
    responses((status = 200, description = "Events, without end", body = String, content_type = "text/event-stream"))
)]
pub async fn listen(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(asked): Asked<Listen>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if asked.observe_ms.is_some_and(|ms| !OBSERVE_MS.contains(&ms)) {
        let text = format!("observe_ms: {} to {}", OBSERVE_MS.start(), OBSERVE_MS.end());
        return Err(Problem::new(StatusCode::BAD_REQUEST, "query", text));
    }
    if app.events.listeners.fetch_add(1, Ordering::AcqRel) >= MOST {
        app.events.listeners.fetch_sub(1, Ordering::AcqRel);
        return Err(Problem::busy(format!("{MOST} listen to events already: try again later")));
    }
    let counted = Counted(Arc::clone(&app));
    let last = headers.get("last-event-id").map(|v| v.to_str().unwrap_or_default().to_owned());
    // One event waits here; the others stay in the ring.
    let (to, from) = mpsc::channel(1);
    tokio::spawn(async move {
        // Whoever listened has gone.
        let _ = feed(&counted.0, &caller, last.as_deref(), asked.observe_ms, &to).await;
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(Fed(from))).into_response())
}

/// Nobody listens any more.
struct Gone;

type To = mpsc::Sender<String>;

async fn send(to: &To, text: String) -> Result<(), Gone> {
    to.send(text).await.map_err(|_| Gone)
}

async fn feed(
    app: &Arc<App>,
    caller: &Caller,
    last: Option<&str>,
    observe_ms: Option<u64>,
    to: &To,
) -> Result<(), Gone> {
    let hub = &app.events;
    let mut count = hub.count.subscribe();
    // Whoever has heard the head hears of everything from then on.
    let begin = hub.count();
    send(to, ": weir\n\n".to_owned()).await?;
    let mut next = match last {
        None => begin + 1,
        Some(id) => match hub.number(id).filter(|n| *n <= begin) {
            Some(n) => n + 1,
            None => {
                send(to, block("missed", Some(&hub.id(begin)), "{}")).await?;
                begin + 1
            }
        },
    };
    let mut every = tokio::time::interval(Duration::from_millis(observe_ms.unwrap_or(60_000)));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        match hub.get(next) {
            Err(first) => {
                let missed = format!("{{\"events\":{}}}", first - next);
                send(to, block("missed", Some(&hub.id(first - 1)), &missed)).await?;
                next = first;
                continue;
            }
            Ok(Some(e)) => {
                if let Some(item) = told(&e, caller) {
                    let data = serde_json::to_string(&item).unwrap_or_default();
                    let kind = if item.guard.is_some() { "guard" } else { "change" };
                    send(to, block(kind, Some(&hub.id(next)), &data)).await?;
                }
                next += 1;
                continue;
            }
            Ok(None) => {}
        }
        tokio::select! {
            more = timeout(ALIVE, count.changed()) => match more {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(()),
                Err(_) => send(to, ": here\n\n".to_owned()).await?,
            },
            _ = every.tick(), if observe_ms.is_some() => {
                let counters = super::monitor::visible(app, caller).await;
                let data = match &counters {
                    Ok(c) => serde_json::to_string(c),
                    Err(p) => serde_json::to_string(p),
                };
                let kind = if counters.is_ok() { "counters" } else { "problem" };
                send(to, block(kind, None, &data.unwrap_or_default())).await?;
            }
            () = to.closed() => return Err(Gone),
        }
    }
}

/// An event for this listener; nothing where it is about others' networks alone.
fn told(e: &Event, caller: &Caller) -> Option<EventItem> {
    let mine: Vec<&About> = e.about.iter().filter(|a| caller.sees(&a.owner)).collect();
    if mine.is_empty() && !caller.sees_all() {
        return None;
    }
    let names: Vec<String> = mine.iter().map(|a| a.network.clone()).collect();
    let of = |t: &&Told| caller.sees_all() || t.network.as_ref().is_some_and(|n| names.contains(n));
    let steps = e.steps.iter().filter(of).cloned().map(StepItem::from).collect();
    let by = e.by.clone().filter(|_| caller.sees_all());
    let (at_s, revision) = (e.at_s, e.revision);
    let guard = e.guard.clone().map(|mut g| {
        // Why not may be another's affair.
        if !caller.sees_all() && !["done", "dry-run"].contains(&g.outcome.as_str()) {
            "not done".clone_into(&mut g.outcome);
        }
        g
    });
    Some(EventItem { at_s, revision, by, networks: names, steps, guard })
}

/// An event in the stream's form. Data is JSON, which has no line breaks.
fn block(kind: &str, id: Option<&str>, data: &str) -> String {
    let id = id.map(|i| format!("id: {i}\n")).unwrap_or_default();
    format!("event: {kind}\n{id}data: {data}\n\n")
}

/// What a task feeds, as a stream.
struct Fed(mpsc::Receiver<String>);

impl Stream for Fed {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|t| t.map(|t| Ok(Bytes::from(t))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tokens::{Entry, Role};

    fn event(revision: u64, owner: &str) -> Event {
        let about = vec![About { network: format!("{owner}-net"), owner: owner.to_owned() }];
        let told = Told { network: Some(format!("{owner}-net")), ..Told::default() };
        let by = Some("id".to_owned());
        Event { at_s: 0, revision, by, about, steps: vec![told], guard: None }
    }

    fn caller(role: Role, owner: &str) -> Caller {
        let (id, hash) = (String::new(), String::new());
        let owner = Some(owner.to_owned()).filter(|_| role == Role::Owner);
        Caller::new(Entry { id, hash, role, owner, created_s: 0, expires_s: None })
    }

    #[test]
    fn the_ring_keeps_the_last_and_knows_what_is_missed() {
        let hub = Hub::new(0xab);
        for n in 1..=KEPT as u64 + 10 {
            hub.tell(|at_s| Event { at_s, ..event(n, "alice") });
        }
        assert_eq!(hub.get(10).unwrap_err(), 11);
        assert_eq!(hub.get(11).unwrap().unwrap().revision, 11);
        assert_eq!(hub.get(KEPT as u64 + 10).unwrap().unwrap().revision, KEPT as u64 + 10);
        assert!(hub.get(KEPT as u64 + 11).unwrap().is_none());
        assert_eq!(hub.number(&hub.id(7)), Some(7));
        assert_eq!(Hub::new(1).number(&hub.id(7)), None);
        for wrong in ["", "-", "ab", "ab-x", "x-1", "ab-99999999999999999999"] {
            assert_eq!(hub.number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_owner_hears_of_his_own_alone() {
        let e = event(3, "alice");
        assert!(told(&e, &caller(Role::Owner, "bob")).is_none());
        let own = told(&e, &caller(Role::Owner, "alice")).unwrap();
        assert_eq!((own.networks.len(), own.steps.len(), own.by), (1, 1, None));
        let all = told(&e, &caller(Role::Reader, "")).unwrap();
        assert_eq!(all.by.as_deref(), Some("id"));
        // A network that nobody owns is no owner's, whatever he is called.
        assert!(told(&event(3, ""), &caller(Role::Owner, "")).is_none());
    }
}
