//! A controller or a listener of a VDP, as it goes: what became of it so far, and how to end it.
//!
//! Room: facts, shared between its task (`connect`, `listen`), `hub` and `status`, on one thread.

use super::conn::EndpointId;
use super::log::Lines;
use super::vdp::Vdp;
use crate::config::openflow::ConnectionsPlan;
use crate::openflow::address::{Controller, Listener};
use crate::openflow::tls::Identity;
use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::watch;
use weir_packet::Nanos;

/// With whom, or where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// We connect.
    Controller(Controller),
    /// They do.
    Listener(Listener),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(c) => write!(f, "controller {c}"),
            Self::Listener(l) => write!(f, "listener {l}"),
        }
    }
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where it listens in truth.
    pub at: Option<SocketAddr>,
    /// Attempts in a row that led to no connection.
    pub attempts: u32,
    /// When the next one is made.
    pub retry_at: Option<Nanos>,
    /// Connections so far.
    pub connections: u64,
    /// Connections that came beyond the limit, or whose TLS failed.
    pub refused: u64,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
}

/// A controller or a listener.
pub struct Endpoint {
    /// Its number.
    pub id: EndpointId,
    /// Which.
    pub what: What,
    /// Our identity, where it needs one.
    pub tls: Option<Identity>,
    /// What became of it.
    pub facts: RefCell<Facts>,
    /// What is said about it.
    pub lines: Lines,
    stop: watch::Sender<Stop>,
}

/// Whether it is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Yes,
}

impl Endpoint {
    /// One of a VDP that is called so.
    pub fn new(id: u64, called: &str, what: What, tls: Option<Identity>) -> Rc<Self> {
        let lines = Lines::new(format!("{called}: {what}"));
        let (stop, _) = watch::channel(Stop::No);
        let facts = RefCell::default();
        Rc::new(Self { id: EndpointId(id), what, tls, facts, lines, stop })
    }

    /// Ends it, with its connections.
    pub fn stop(&self, vdp: &Vdp) {
        self.stop.send_replace(Stop::Yes);
        vdp.stop(Some(self.id), "it is no longer configured");
    }
    /// Whether it is to go.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow() == Stop::Yes
    }
    /// Runs `f`, unless the end comes first.
    pub async fn unless_stopped<T>(&self, f: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|s| *s == Stop::Yes) => None,
            t = f => Some(t),
        }
    }
    /// Notes what went wrong; says it if it is not what went wrong before.
    pub fn failed(&self, why: String) {
        let mut facts = self.facts.borrow_mut();
        if facts.last_error.as_ref() != Some(&why) {
            self.lines.tell(&why);
        }
        facts.last_error = Some(why);
    }
    /// How connections are made now.
    pub fn how(&self, vdp: &Vdp) -> ConnectionsPlan {
        vdp.how.get()
    }
}
