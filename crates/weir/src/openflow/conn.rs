//! One connection as its VDP sees it: the channel, who is at the other end, and how to wake its task.
//!
//! Room: shared between the connection's task (`session`) and the switch that writes to it (`vdp`),
//! on one thread. Nothing here reads or writes a socket.

use super::clock::since_start;
use super::relay::State;
use crate::config::openflow::ConnectionsPlan;
use std::cell::{Cell, RefCell};
use std::task::Waker;
use std::time::Duration;
use weir_agent::{ConnId, Purpose};
use weir_openflow::channel::{Channel, Config, KeepAlive, Limits, Side};
use weir_openflow::model::{Role, Version};
use weir_packet::Nanos;

/// Echo requests without an answer before a peer is held to be dead.
const PROBES: u32 = 3;
/// Time for both ends to agree on a version.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Which controller or listener a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointId(pub u64);

/// A connection.
pub struct Conn {
    /// Its number, never used twice.
    pub id: ConnId,
    /// Whose it is.
    pub endpoint: EndpointId,
    /// Who is at the other end, for people.
    pub peer: String,
    /// Controller or tool.
    pub purpose: Purpose,
    /// Since when.
    pub since: Nanos,
    /// Its state machine.
    pub channel: RefCell<Channel>,
    /// The version, once agreed.
    pub version: Cell<Option<Version>>,
    /// The role it was told last.
    pub role: Cell<Role>,
    /// Messages that came, and that went, before it was what it is now: its switch was elsewhere meanwhile.
    pub before: (u64, u64),
    /// Messages of it that another node had, where its switch is.
    pub elsewhere: Cell<(u64, u64)>,
    /// That node's address, while its bytes go there.
    pub by: RefCell<Option<String>>,
    waker: RefCell<Option<Waker>>,
    stop: RefCell<Option<String>>,
}

impl Conn {
    /// Messages that came, and that went.
    pub fn messages(&self) -> (u64, u64) {
        let channel = self.channel.borrow();
        let s = channel.stats();
        let here = (s.received.iter().sum(), s.sent.iter().sum());
        [self.before, self.elsewhere.get()].into_iter().fold(here, |a, b| (a.0 + b.0, a.1 + b.1))
    }
    /// A connection that was just made.
    pub fn new(
        id: ConnId,
        endpoint: EndpointId,
        peer: String,
        purpose: Purpose,
        how: &ConnectionsPlan,
        now: Nanos,
    ) -> Self {
        Self {
            id,
            endpoint,
            peer,
            purpose,
            since: now,
            channel: RefCell::new(Channel::new(channel(how), since_start(now))),
            version: Cell::new(None),
            role: Cell::new(Role::Equal),
            before: (0, 0),
            elsewhere: Cell::default(),
            by: RefCell::default(),
            waker: RefCell::new(None),
            stop: RefCell::new(None),
        }
    }

    /// A connection that goes on, of a switch that was somewhere else until now.
    pub fn resumed(
        id: ConnId,
        endpoint: EndpointId,
        peer: String,
        state: &State,
        how: &ConnectionsPlan,
        now: Nanos,
    ) -> Self {
        let (s, at) = (&state.session, since_start(now));
        let channel = Channel::resume(channel(how), s.version(), &state.input, at);
        Self {
            channel: RefCell::new(channel),
            version: Cell::new(Some(s.version())),
            role: Cell::new(s.role()),
            ..Self::new(id, endpoint, peer, s.purpose(), how, now)
        }
    }

    /// The same connection as another one, which it goes on from.
    #[must_use]
    pub fn after(self, old: &Self) -> Self {
        Self { since: old.since, before: old.messages(), ..self }
    }

    /// Remembers whom to wake.
    pub fn watched_by(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
    /// Wakes its task: there is something to write, or it is to end.
    pub fn wake(&self) {
        if let Some(w) = &*self.waker.borrow() {
            w.wake_by_ref();
        }
    }
    /// Ends it.
    pub fn stop(&self, why: &str) {
        *self.stop.borrow_mut() = Some(why.to_owned());
        self.wake();
    }
    /// Why it is to end, if it is.
    pub fn stopped(&self) -> Option<String> {
        self.stop.borrow_mut().take()
    }
}

fn channel(how: &ConnectionsPlan) -> Config {
    Config {
        versions: how.versions,
        keep_alive: (!how.echo_interval.is_zero())
            .then_some(KeepAlive { interval: how.echo_interval, probes: PROBES }),
        limits: Limits {
            output: how.queue_bytes,
            // The VDP's, which its connections share.
            messages: None,
            flow_mods: None,
            handshake: HANDSHAKE,
        },
        ..Config::new(Side::Switch)
    }
}
