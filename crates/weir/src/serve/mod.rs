//! `weir serve`: virtual networks over HTTP (003 §2.1's five primitives, each as an API call).
//!
//! Room: one thread for sockets, on which nothing blocks, and threads for what does: the store and the
//! physical nodes. What is decided is decided in `weir-supervisor`; `crate::net` leads a change through.
//!
//! - `service`: listener, TLS, limits of a client; `room`: how many there are; `patient`: deadlines of their
//!   bytes; `shares`: what one may have of what all share; `plan`: its configuration;
//! - `tokens`: who may ask; `caller`: what he may see and change; `problem`: what goes wrong (RFC 9457);
//!   `take`: what a request brings; `notes`: what its line in the log says; `merge`: JSON merge patches;
//! - `desk`: changes, one after the other; `events`: what has happened, as a stream; `observer`: hosts,
//!   asked; `monitor`, `metrics`: what networks count (`form`: in which text); `guards`: rules that act;
//! - `networks`, `lab`: the operations; `openapi`: the document made from them.

pub mod caller;
pub mod desk;
pub mod events;
pub mod form;
pub mod guards;
pub mod lab;
pub mod merge;
pub mod metrics;
pub mod monitor;
pub mod networks;
mod notes;
pub mod observer;
pub mod openapi;
mod patient;
pub mod plan;
pub mod problem;
mod room;
pub mod service;
mod shares;
pub mod take;
pub mod tokens;

use crate::commands::say::tell;
use anyhow::Result;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use caller::Caller;
use desk::{Change, Desk, Dry};
use notes::Notes;
use plan::Plan;
use problem::Problem;
use shares::Shares;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokens::Tokens;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use weir_supervisor::model::Lab;

/// What may block at once; what comes beyond that is asked to come again.
const JOBS: usize = 32;
/// Of these, what may take as long as a node does not answer: looks find room beside them.
const SLOW: usize = JOBS / 2;
/// Looks for listeners at once; the others wait for their turn. They take no requests' room.
const LOOKS: usize = 4;
/// How long an answer is waited for. A change goes on behind it.
const ANSWER: Duration = Duration::from_secs(120);
/// Said at the start where owners' changes are not proved.
const UNPROVED: &str = "owners have tokens, and changes are not proved: rules of theirs may send frames \
                        into others' networks; 'verify = true', here or in the lab, refuses such rules";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What all requests share.
#[derive(Debug)]
pub struct App {
    desk: Arc<Desk>,
    tokens: Tokens,
    events: Arc<events::Hub>,
    observer: observer::Observer,
    jobs: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    /// Whose requests are at work.
    at_work: Arc<Shares>,
    requests: AtomicU64,
    /// Tells the request ids of one run from another's.
    run: u64,
}

impl App {
    /// Of a plan; what was interrupted is finished.
    ///
    /// # Errors
    /// The store or the tokens can't be read.
    pub fn new(plan: Plan) -> Result<Self> {
        let run = RandomState::new().hash_one(std::process::id());
        let events = Arc::new(events::Hub::new(run));
        let tokens = Tokens::new(plan.tokens);
        if tokens.all()?.is_empty() {
            let at = tokens.path().display();
            tell(format_args!("no token yet: 'weir token add --tokens {at}' makes one"));
        }
        let (desk, left) = Desk::new(plan.store, plan.verify, Arc::clone(&events))?;
        let owners = tokens.all()?.iter().any(|t| t.role == tokens::Role::Owner);
        if owners && !desk.proves()? {
            tell(UNPROVED);
        }
        if let Some(why) = left {
            let undo = "'weir net recover --back' undoes it";
            tell(format_args!(
                "a change was interrupted, and can't be finished now: {why}; {undo}"
            ));
        }
        Ok(Self {
            desk: Arc::new(desk),
            tokens,
            events,
            observer: observer::Observer::default(),
            jobs: Arc::new(Semaphore::new(JOBS)),
            slow: Arc::new(Semaphore::new(SLOW)),
            looks: Arc::new(Semaphore::new(LOOKS)),
            at_work: Arc::default(),
            requests: AtomicU64::new(0),
            run,
        })
    }

    /// Runs what blocks, elsewhere.
    ///
    /// # Errors
    /// What it says; too much is asked at once.
    pub async fn desk<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Desk) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(place) = Arc::clone(&self.jobs).try_acquire_owned() else {
            return Err(Problem::busy(format!("{JOBS} requests are at work: try again")));
        };
        self.elsewhere(place, f).await
    }

    /// The same for listeners, who wait for each other and for no request, and no request for them.
    ///
    /// # Errors
    /// What it says.
    pub async fn for_listener<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Desk) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        // Never closed.
        let place = Arc::clone(&self.looks).acquire_owned().await.map_err(|_| defect())?;
        self.elsewhere(place, f).await
    }

    /// Runs what blocks, with a place for it.
    async fn elsewhere<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        f: impl FnOnce(&Desk) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let desk = Arc::clone(&self.desk);
        // Its place is free when what it did has been taken, so that whoever waits for that waits for both.
        let job = tokio::task::spawn_blocking(move || (f(&desk), place));
        job.await.map_err(|_| defect()).and_then(|(done, _place)| done)
    }

    /// The same, of what waits for nodes or for changes.
    ///
    /// # Errors
    /// As [`App::desk`].
    pub async fn slowly<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Desk) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(place) = Arc::clone(&self.slow).try_acquire_owned() else {
            return Err(Problem::busy(format!("{SLOW} changes and proofs are at work: try again")));
        };
        self.desk(move |d| {
            let _place = place;
            f(d)
        })
        .await
    }

    /// Makes a change of the lab.
    ///
    /// # Errors
    /// It can't be, or is not the caller's to make.
    pub async fn change(
        &self,
        caller: Caller,
        dry: Dry,
        edit: impl FnOnce(&mut Lab, &Caller) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Change, Problem> {
        let notes = caller.notes().clone();
        if dry == Dry::Run {
            notes.came_to("dry run");
        }
        let done = self.slowly(move |d| d.change(&caller, dry, |lab| edit(lab, &caller))).await;
        if let (Ok(c), Dry::Not) = (&done, dry) {
            let same = if c.made { "" } else { "nothing differed: " };
            notes.came_to(format_args!("{same}revision {}", c.revision));
        }
        done
    }

    /// Waits until nothing is at work.
    pub async fn idle(&self) {
        // Never closed.
        let _ = self.jobs.acquire_many(JOBS as u32).await;
    }
}

/// All that is served.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/networks", get(networks::list).post(networks::create))
        .route(
            "/v1/networks/{network}",
            get(networks::show).put(networks::put).patch(networks::patch).delete(networks::delete),
        )
        .route("/v1/networks/{network}/counters", get(monitor::network))
        .route("/v1/networks/{network}/nodes/{node}", get(networks::node).patch(networks::set))
        .route("/v1/networks/{network}/nodes/{node}/migrate", post(networks::migrate))
        .route("/v1/lab", get(lab::show).put(lab::apply))
        .route("/v1/revisions/{number}", get(lab::revision))
        .route("/v1/recover", post(lab::recover))
        .route("/v1/verify", post(lab::verify))
        .route("/v1/events", get(events::listen))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::document))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(Arc::clone(&app), around))
        .with_state(app)
}

async fn nowhere() -> Problem {
    let text = "nothing is here: GET /openapi.json says what is where";
    Problem::new(StatusCode::NOT_FOUND, "no-path", text)
}

async fn not_so() -> Problem {
    let text = "not by this method: the header Allow says by which";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", text)
}

/// Around every request: its id, its deadline, a line in the log for what changes something.
async fn around(State(app): State<Arc<App>>, req: Request, next: Next) -> Response {
    let number = app.requests.fetch_add(1, Ordering::Relaxed);
    let own = |v: &&HeaderValue| {
        let fine = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
        (1..=64).contains(&v.len()) && v.as_bytes().iter().all(fine)
    };
    let id = match req.headers().get(REQUEST_ID).filter(own) {
        Some(v) => v.clone(),
        None => HeaderValue::try_from(format!("{:016x}-{number}", app.run))
            .unwrap_or(HeaderValue::from_static("-")),
    };
    let mut response = match *req.method() {
        Method::GET | Method::HEAD => answer(req, next).await,
        // A change goes on and is told of, whoever has gone meanwhile.
        _ => {
            let led = tokio::spawn(told(id.clone(), req, next));
            led.await.unwrap_or_else(|_| defect().into_response())
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// What changes something, and its line in the log.
async fn told(id: HeaderValue, mut req: Request, next: Next) -> Response {
    let notes = Notes::default();
    req.extensions_mut().insert(notes.clone());
    let method = req.method().clone();
    let path: String = req.uri().path().chars().take(200).collect();
    let response = answer(req, next).await;
    let (id, status) = (id.to_str().unwrap_or("-"), response.status().as_u16());
    tell(format_args!("request {id}: {method} {path}: {status}{notes}"));
    response
}

async fn answer(req: Request, next: Next) -> Response {
    timeout(ANSWER, next.run(req)).await.unwrap_or_else(|_| {
        let text = "no answer within 120 s; a change goes on: GET /v1/networks says what holds";
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "late", text).into_response()
    })
}

fn defect() -> Problem {
    let text = "a defect of weir: its log says where; nothing is half done";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", text)
}

#[cfg(test)]
mod tests;
