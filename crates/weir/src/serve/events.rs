//! What happens, for whoever listens: changes, revisions, observations, with numbers to resume from.
//!
//! Room: one ring of the last events for all; a listener is a place in it. So a listener that is slow
//! costs nothing, and one that is too slow is told how much it has missed.

use super::App;
use super::caller::{Caller, now_s};
use super::desk::{About, StepItem, shown};
use super::problem::Problem;
use super::room::Endless;
use super::shares::{Share, Shares};
use super::take::Asked;
use crate::net::diff::Told;
use axum::Extension;
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
use tokio::time::{Interval, MissedTickBehavior, interval};
use utoipa::{IntoParams, ToSchema};

/// Events that are kept.
const KEPT: usize = 1024;
/// Listeners at once.
const MOST: usize = 64;
/// How often a listener to whom nothing happens is shown that somebody is there.
const ALIVE: Duration = Duration::from_secs(15);
/// How often it is asked whether a listener's token is still one.
const HOLDS: Duration = Duration::from_secs(1);
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
    /// Whose they are.
    shares: Arc<Shares>,
}

impl Hub {
    /// An empty one, of this run.
    pub fn new(epoch: u64) -> Self {
        let (count, _) = watch::channel(0);
        let (ring, listeners, shares) = Default::default();
        Self { epoch, ring, count, listeners, shares }
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
struct Counted(Arc<App>, #[expect(dead_code, reason = "held")] Share);

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
    let caller = caller.at_rest();
    let part = caller.part(MOST);
    let Some(share) = app.events.shares.take(caller.payer(), part) else {
        return Err(Problem::busy(format!("{part} listen to events for you already: end one")));
    };
    if app.events.listeners.fetch_add(1, Ordering::AcqRel) >= MOST {
        app.events.listeners.fetch_sub(1, Ordering::AcqRel);
        return Err(Problem::busy(format!("{MOST} listen to events already: try again later")));
    }
    let counted = Counted(Arc::clone(&app), share);
    let last = headers.get("last-event-id").map(|v| v.to_str().unwrap_or_default().to_owned());
    // One event waits here; the others stay in the ring.
    let (to, from) = mpsc::channel(1);
    tokio::spawn(async move {
        let line = Line { app: &counted.0, caller: &caller, to };
        // Whoever listened has gone, or may not any more.
        let _ = line.feed(last.as_deref(), asked.observe_ms).await;
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Extension(Endless), Body::from_stream(Fed(from))).into_response())
}

/// Nobody listens any more, or nobody who may.
struct Gone;

/// A listener, as whoever feeds him has him.
struct Line<'a> {
    app: &'a Arc<App>,
    caller: &'a Caller,
    to: mpsc::Sender<String>,
}

impl Line<'_> {
    /// A token that has ended, was removed or is another one now hears no more.
    fn holds(&self) -> Result<(), Gone> {
        if self.caller.holds(&self.app.tokens) { Ok(()) } else { Err(Gone) }
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        let room = self.to.reserve().await.map_err(|_| Gone)?;
        // Asked when it is told, not when it was to be.
        self.holds()?;
        room.send(text);
        Ok(())
    }

    async fn feed(&self, last: Option<&str>, observe_ms: Option<u64>) -> Result<(), Gone> {
        let hub = &self.app.events;
        let mut count = hub.count.subscribe();
        // Whoever has heard the head hears of everything from then on.
        let begin = hub.count();
        self.send(": weir\n\n".to_owned()).await?;
        let mut next = match last {
            None => begin + 1,
            Some(id) => match hub.number(id).filter(|n| *n <= begin) {
                Some(n) => n + 1,
                None => {
                    self.send(block("missed", Some(&hub.id(begin)), "{}")).await?;
                    begin + 1
                }
            },
        };
        let mut every = rarely(Duration::from_millis(observe_ms.unwrap_or(60_000)));
        let (mut holds, mut alive) = (rarely(HOLDS), rarely(ALIVE));
        alive.reset();
        loop {
            match hub.get(next) {
                Err(first) => {
                    let missed = format!("{{\"events\":{}}}", first - next);
                    self.send(block("missed", Some(&hub.id(first - 1)), &missed)).await?;
                    next = first;
                    continue;
                }
                Ok(Some(e)) => {
                    if let Some(item) = told(&e, self.caller) {
                        let data = serde_json::to_string(&item).unwrap_or_default();
                        let kind = if item.guard.is_some() { "guard" } else { "change" };
                        self.send(block(kind, Some(&hub.id(next)), &data)).await?;
                        alive.reset();
                    }
                    next += 1;
                    continue;
                }
                Ok(None) => {}
            }
            tokio::select! {
                more = count.changed() => if more.is_err() {
                    return Ok(());
                },
                _ = holds.tick() => self.holds()?,
                _ = alive.tick() => self.send(": here\n\n".to_owned()).await?,
                _ = every.tick(), if observe_ms.is_some() => {
                    let counters = super::monitor::visible(self.app, self.caller).await;
                    let data = match &counters {
                        Ok(c) => serde_json::to_string(c),
                        Err(p) => serde_json::to_string(p),
                    };
                    let kind = if counters.is_ok() { "counters" } else { "problem" };
                    self.send(block(kind, None, &data.unwrap_or_default())).await?;
                }
                () = self.to.closed() => return Err(Gone),
            }
        }
    }
}

/// A clock that does not catch up.
fn rarely(every: Duration) -> Interval {
    let mut clock = interval(every);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock
}

/// An event for this listener; nothing where it is about others' networks alone.
fn told(e: &Event, caller: &Caller) -> Option<EventItem> {
    let mine: Vec<&About> = e.about.iter().filter(|a| caller.sees(&a.owner)).collect();
    if mine.is_empty() && !caller.sees_all() {
        return None;
    }
    let mut names: Vec<String> = mine.iter().map(|a| a.network.clone()).collect();
    // What has changed hands is about two owners.
    names.dedup();
    let steps = shown(&e.steps, &e.about, caller);
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
pub struct Fed(mpsc::Receiver<String>);

#[cfg(test)]
impl Fed {
    /// Of this.
    pub fn new(from: mpsc::Receiver<String>) -> Self {
        Self(from)
    }
}

impl Stream for Fed {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|t| t.map(|t| Ok(Bytes::from(t))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::desk::Part;
    use crate::serve::tokens::{Entry, Role};

    fn event(revision: u64, owner: &str) -> Event {
        let (network, owned) = (format!("{owner}-net"), owner.to_owned());
        let about = vec![About { network, owner: owned, part: Part::Whole }];
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
