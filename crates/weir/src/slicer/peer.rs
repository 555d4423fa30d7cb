//! One connection as its desk sees it: the channel, who is at the other end, and how to wake its task.
//!
//! Room: shared between the connection's task (`pump`) and the desk that writes to it, on one thread.

use crate::openflow::address::Controller;
use std::cell::{Cell, RefCell};
use std::task::Waker;
use std::time::Duration;
use weir_openflow::channel::{Channel, Config, KeepAlive, Limits, Side, Versions};
use weir_supervisor::slicer::ConnId;
use weir_supervisor::slicer::space::SliceId;

/// Echo requests without an answer before a peer is held to be dead.
const PROBES: u32 = 3;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The switch.
    Switch,
    /// A controller of this slice's.
    Controller(SliceId),
}

/// A connection.
pub struct Peer {
    /// Its number.
    pub id: ConnId,
    /// Who.
    pub who: Who,
    /// The controller that was connected to; none where it came by itself.
    pub of: Option<Controller>,
    /// Its state machine.
    pub channel: RefCell<Channel>,
    /// Whether a version is agreed.
    pub up: Cell<bool>,
    /// Whether its messages wait for the switch.
    pub waits: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    stop: RefCell<Option<String>>,
}

impl Peer {
    /// A connection that was just made, which may speak these versions.
    pub fn new(
        id: ConnId,
        who: Who,
        of: Option<Controller>,
        versions: Versions,
        echo: Duration,
        now: Duration,
    ) -> Self {
        let side = match who {
            Who::Switch => Side::Controller,
            Who::Controller(_) => Side::Switch,
        };
        let config = Config {
            versions,
            keep_alive: (!echo.is_zero()).then_some(KeepAlive { interval: echo, probes: PROBES }),
            limits: Limits::default(),
            ..Config::new(side)
        };
        Self {
            id,
            who,
            of,
            channel: RefCell::new(Channel::new(config, now)),
            up: Cell::new(false),
            waits: Cell::new(false),
            waker: RefCell::new(None),
            stop: RefCell::new(None),
        }
    }

    /// Remembers whom to wake.
    pub fn watched_by(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
    /// Wakes its task.
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
