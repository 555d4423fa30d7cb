//! Room for clients: how many are there at once, what each is at, and who goes when there is no room.
//!
//! Room: numbers; [`super::service`] has the sockets. A client that has asked for nothing goes before one
//! whose request is at work, the one that has rested longest first: connections that are only held
//! open keep nobody out.

use hyper::body::{Body, Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;
use tokio::time::Instant;

/// All clients.
#[derive(Debug)]
pub struct Room {
    most: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    clients: BTreeMap<u64, Arc<Client>>,
}

/// A client's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    room: Arc<Room>,
    id: u64,
    /// Whose it is.
    pub client: Arc<Client>,
}

/// A client, and what it is at.
#[derive(Debug)]
pub struct Client {
    state: Mutex<State>,
    go: Notify,
}

#[derive(Debug)]
struct State {
    at: At,
    /// Whoever reads, and was not told of the end.
    waits: Option<Waker>,
}

/// HTTP/1.1: one request at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nothing has been asked since.
    Rests(Instant),
    /// A request that has not been read to its end.
    Asks,
    /// A request that was read, and is to be answered.
    Waits,
    /// An answer without an end.
    Listens,
}

/// Whether a client that says no more is owed an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// It has asked for nothing, or for what has no end.
    No,
    /// If its request, which has not been read to its end, has one.
    IfWhole,
    /// It is.
    Yes,
}

/// Said of an answer that has no end: who hangs up has had enough of it.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

impl Room {
    /// For so many.
    pub fn new(most: usize) -> Self {
        Self { most, inside: Mutex::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one who comes; none where all others are at something.
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut inside = self.inside();
        if inside.clients.len() >= self.most {
            let rests = |(id, c): (&u64, &Arc<Client>)| Some((c.rests_since()?, *id));
            let (_, longest) = inside.clients.iter().filter_map(rests).min()?;
            inside.clients.remove(&longest)?.go.notify_one();
        }
        let id = inside.next;
        inside.next += 1;
        let client = Arc::new(Client::new());
        inside.clients.insert(id, Arc::clone(&client));
        drop(inside);
        Some(Place { room: Arc::clone(self), id, client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.inside().clients.remove(&self.id);
    }
}

impl Client {
    /// One that has just come.
    pub fn new() -> Self {
        let state = State { at: At::Rests(Instant::now()), waits: None };
        Self { state: Mutex::new(state), go: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests_since(&self) -> Option<Instant> {
        match self.state().at {
            At::Rests(since) => Some(since),
            At::Asks | At::Waits | At::Listens => None,
        }
    }

    /// Until it has to go.
    pub async fn goes(&self) {
        self.go.notified().await;
    }

    /// It asks: what holds until its request is read, and until it is answered.
    pub fn asks(self: &Arc<Self>) -> (Held, Held) {
        self.state().at = At::Asks;
        let held = |until| Held { client: Arc::clone(self), until };
        (held(Until::Read), held(Until::Answered))
    }

    /// What it is answered has no end.
    pub fn listens(&self) {
        self.state().at = At::Listens;
        self.wake();
    }

    /// Whether it is owed an answer, though it will say no more; if it may be, `cx` hears of what changes.
    pub fn owed(&self, cx: &Context<'_>) -> Owed {
        let mut state = self.state();
        let owed = match state.at {
            At::Rests(_) | At::Listens => return Owed::No,
            At::Asks => Owed::IfWhole,
            At::Waits => Owed::Yes,
        };
        state.waits = Some(cx.waker().clone());
        owed
    }

    fn wake(&self) {
        let waits = self.state().waits.take();
        waits.into_iter().for_each(Waker::wake);
    }
}

#[derive(Debug)]
enum Until {
    Read,
    Answered,
}

/// A part of a request's time.
#[derive(Debug)]
pub struct Held {
    client: Arc<Client>,
    until: Until,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.client.state();
        match (&self.until, state.at) {
            (Until::Read, At::Asks) => state.at = At::Waits,
            (Until::Read, _) => {}
            (Until::Answered, _) => state.at = At::Rests(Instant::now()),
        }
        drop(state);
        self.client.wake();
    }
}

/// A body that holds something as long as it is there.
#[derive(Debug)]
pub struct Holding<B> {
    body: B,
    _held: Held,
}

impl<B> Holding<B> {
    /// A body with this.
    pub fn new(body: B, held: Held) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body + Unpin> Body for Holding<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_longest_goes_and_who_is_at_work_stays() {
        let room = Arc::new(Room::new(2));
        let (a, b) = (room.enter().unwrap(), room.enter().unwrap());
        let (read, answered) = a.client.asks();
        let c = room.enter().unwrap();
        assert_eq!(room.inside().clients.keys().copied().collect::<Vec<_>>(), [a.id, c.id]);
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(a.client.owed(&cx), Owed::IfWhole);
        drop(read);
        assert_eq!(a.client.owed(&cx), Owed::Yes);
        let at_work = c.client.asks();
        c.client.listens();
        assert_eq!(c.client.owed(&cx), Owed::No);
        assert!(room.enter().is_none());
        drop(answered);
        assert_eq!(a.client.owed(&cx), Owed::No);
        let d = room.enter().unwrap();
        // The places of those who went are not taken from those who came.
        drop((a, b));
        assert_eq!(room.inside().clients.len(), 2);
        drop((at_work, c, d));
        assert!(room.inside().clients.is_empty());
    }
}
