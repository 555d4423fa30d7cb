//! One VDP's switch with its connections: messages go in, answers go to whom they are for.
//!
//! Room: on the switches' thread; owns the [`Switch`]. No sockets and no waiting, but the data plane
//! is asked here and answers at once. Called by `session` (a turn of a connection), `keeper` (time and
//! frames for controllers) and `hub` (changes of the configuration).

use super::clock::{Clock, since_start};
use super::conn::{Conn, EndpointId};
use super::log::Lines;
use super::punts::Punts;
use super::relay::home::NotReached;
use super::relay::{PeerRef, State};
use crate::config::openflow::ConnectionsPlan;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;
use weir_agent::{ConnId, Outbox, PlaneGone, PortUpdate, Switch};
use weir_dataplane::{Handle, Vid};
use weir_openflow::channel::{Budget, CloseReason, Event, Gate, Rate};
use weir_openflow::model::{Message, Role};
use weir_packet::Nanos;

/// Messages that one connection may have handled before others have their turn.
const BATCH: usize = 256;
/// Frames for controllers that one VDP may have handled before others have their turn.
const PUNTS: usize = 64;

/// How a turn ended.
#[derive(Debug)]
pub enum Turn {
    /// There is nothing more to handle now.
    Drained,
    /// There is, but it is others' turn.
    More,
    /// The connection is over.
    Closed(CloseReason),
    /// The data plane is.
    Gone,
}

/// What all VDPs of the thread share.
#[derive(Debug)]
pub struct Common {
    /// What sockets are read into.
    pub buffer: RefCell<Box<[u8]>>,
    /// The worker's clock.
    pub clock: Clock,
    /// The data plane.
    pub plane: Handle,
    next: Cell<u64>,
}

impl Common {
    /// For a thread.
    pub fn new(plane: Handle, clock: Clock) -> Self {
        let buffer = RefCell::new(vec![0; 64 * 1024].into());
        Self { buffer, clock, plane, next: Cell::new(0) }
    }
    /// A number that was never given before.
    pub fn number(&self) -> u64 {
        let n = self.next.get() + 1;
        self.next.set(n);
        n
    }
}

/// A VDP's switch.
pub struct Vdp {
    /// Its number.
    pub vid: Vid,
    /// The thread's.
    pub common: Rc<Common>,
    /// How connections are made from now on.
    pub how: Cell<ConnectionsPlan>,
    /// Its time-outs have changed.
    pub rearm: Notify,
    /// Whether its VDP was deleted: another may have its number by now.
    deleted: Cell<bool>,
    /// Whether its switch does anything now.
    manner: Cell<Manner>,
    /// Where connections go on, as long as its switch is there.
    away: RefCell<Option<PeerRef>>,
    /// That its connections can't go there, since one last could.
    unreached: RefCell<Option<Unreached>>,
    /// Whether connections go back to the node that they came from.
    returns: Cell<Returns>,
    /// What is said about it as a whole.
    lines: Lines,
    /// Packet-outs that were lost when that was last said.
    told_lost: Cell<u64>,
    inner: RefCell<Inner>,
}

/// Whether a switch does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// All that there is to do.
    Awake,
    /// Frames for controllers are told; messages and time wait.
    Resting,
    /// Nothing: all waits.
    Asleep,
}

/// Attempts in a row that nobody listened to.
#[derive(Clone, Debug, Default)]
pub struct Unreached {
    /// So many.
    pub times: u32,
    /// Why the last attempt failed, whichever it was.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    No,
    Yes,
}

struct Inner {
    /// Connections whose bytes go on to another node, and those about to.
    relayed: BTreeMap<ConnId, Rc<Conn>>,
    /// Those of them that the other node has taken up.
    taken_up: usize,
    switch: Switch,
    plane: Handle,
    out: Outbox,
    conns: BTreeMap<ConnId, Rc<Conn>>,
    /// What all of them together may have handled.
    budget: Budget,
    /// What the keeper waits for.
    armed: Option<Nanos>,
    /// Messages that had no form in their connection's version.
    unsendable: u64,
    /// Messages that came, and that went, by connections that are past.
    past: (u64, u64),
}

impl Inner {
    /// A connection is no longer here.
    fn forget(&mut self, id: ConnId) -> Option<Rc<Conn>> {
        let conn = self.conns.remove(&id)?;
        let (came, went) = conn.messages();
        self.past.0 += came;
        self.past.1 += went;
        Some(conn)
    }
}

impl Vdp {
    /// A VDP, called so, with a new switch.
    pub fn new(
        vid: Vid,
        called: String,
        common: Rc<Common>,
        how: ConnectionsPlan,
        switch: Switch,
    ) -> Self {
        let plane = common.plane.clone();
        let (out, conns) = (Outbox::default(), BTreeMap::new());
        let budget = Budget::default();
        let (armed, relayed) = (None, BTreeMap::new());
        let inner = Inner {
            relayed,
            taken_up: 0,
            switch,
            plane,
            out,
            conns,
            budget,
            armed,
            unsendable: 0,
            past: (0, 0),
        };
        Self {
            vid,
            common,
            how: Cell::new(how),
            rearm: Notify::new(),
            deleted: Cell::new(false),
            manner: Cell::new(Manner::Awake),
            away: RefCell::new(None),
            unreached: RefCell::new(None),
            returns: Cell::new(Returns::No),
            lines: Lines::new(called),
            told_lost: Cell::new(0),
            inner: RefCell::new(inner),
        }
    }

    fn now(&self) -> Nanos {
        self.common.clock.now()
    }

    /// Its VDP was deleted: the data plane is asked nothing more in its name.
    pub fn delete(&self) {
        self.deleted.set(true);
    }

    /// A connection has been made; its greeting comes next, or it goes on from a state.
    pub fn enter(&self, conn: Rc<Conn>, state: Option<&State>) {
        let inner = &mut *self.inner.borrow_mut();
        inner.relayed.remove(&conn.id);
        if let Some(s) = state {
            inner.switch.take_session(conn.id, &s.session);
        }
        // What it had before counts with it again.
        let (came, went) = conn.before;
        inner.past = (inner.past.0.saturating_sub(came), inner.past.1.saturating_sub(went));
        inner.conns.insert(conn.id, conn);
    }

    /// A connection is about to go on elsewhere.
    pub fn departs(&self, conn: &Rc<Conn>) {
        self.inner.borrow_mut().relayed.insert(conn.id, Rc::clone(conn));
    }
    /// Lets go of a connection that goes on elsewhere: as it is between two messages.
    pub fn release(&self, conn: &Conn) -> Option<State> {
        let inner = &mut *self.inner.borrow_mut();
        inner.forget(conn.id)?;
        inner.budget.of(conn.id.0).rest();
        let session = inner.switch.release_session(conn.id)?;
        Some(State { session, input: conn.channel.borrow_mut().let_go() })
    }
    /// Another node has taken a connection up.
    pub fn relays(&self, conn: &Conn, by: &PeerRef) {
        *conn.by.borrow_mut() = Some(by.at.clone());
        *self.unreached.borrow_mut() = None;
        self.inner.borrow_mut().taken_up += 1;
    }
    /// That is over.
    pub fn relays_no_more(&self, conn: &Conn) {
        let inner = &mut *self.inner.borrow_mut();
        inner.taken_up = inner.taken_up.saturating_sub(1);
        inner.relayed.remove(&conn.id);
        *conn.by.borrow_mut() = None;
        let (came, went) = conn.elsewhere.get();
        inner.past.0 += came;
        inner.past.1 += went;
    }
    /// A connection was not taken up elsewhere.
    pub fn came_back(&self, conn: &Conn) {
        self.inner.borrow_mut().relayed.remove(&conn.id);
    }
    /// The node where its switch is was not reached.
    pub fn not_reached(&self, e: &NotReached) {
        let mut kept = self.unreached.borrow_mut();
        let u = kept.get_or_insert_default();
        u.times = if matches!(e, NotReached::Nobody(_)) { u.times + 1 } else { 0 };
        e.why().clone_into(&mut u.why);
    }
    /// Whether that node was reached last.
    pub fn unreached(&self) -> Option<Unreached> {
        self.unreached.borrow().clone()
    }
    /// How many connections are here, how many are about to go on elsewhere, and how many have.
    pub fn connections(&self) -> (usize, usize, usize) {
        let inner = self.inner.borrow();
        let gone = inner.taken_up;
        (inner.conns.len(), inner.relayed.len().saturating_sub(gone), gone)
    }

    /// Where connections go on, if not here.
    pub fn goes_to(&self) -> Option<PeerRef> {
        self.away.borrow().clone()
    }
    /// That node has sent a connection back: none goes there any more.
    pub fn sent_back(&self, by: &PeerRef) {
        self.away.borrow_mut().take_if(|to| Rc::ptr_eq(to, by));
    }
    /// Says where its switch is; its connections follow.
    pub fn set_away(&self, to: Option<PeerRef>) {
        *self.unreached.borrow_mut() = None;
        *self.away.borrow_mut() = to;
        self.inner.borrow().conns.values().for_each(|c| c.wake());
    }
    /// Ends connections that go on at another node.
    pub fn let_go(&self, why: &str) {
        self.set_away(None);
        self.inner.borrow().relayed.values().for_each(|c| c.stop(why));
    }
    /// Whether connections go back to the node that they came from.
    pub fn returns(&self) -> bool {
        self.returns.get() == Returns::Yes
    }
    /// Sends connections back to the node that they came from.
    pub fn send_back(&self) {
        self.returns.set(Returns::Yes);
        self.inner.borrow().conns.values().for_each(|c| c.wake());
    }
    /// Whether its switch does anything now.
    pub fn manner(&self) -> Manner {
        self.manner.get()
    }
    /// Says whether its switch does anything.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn set_manner(&self, to: Manner) -> Result<(), PlaneGone> {
        if self.manner.replace(to) == to {
            return Ok(());
        }
        if to == Manner::Awake {
            self.returns.set(Returns::No);
            self.tick(self.now())?;
            self.inner.borrow().conns.values().for_each(|c| c.wake());
        }
        self.rearm.notify_one();
        Ok(())
    }
    /// Answers what a connection is owed, whole.
    pub fn tell_all(&self, conn: &Conn) {
        let inner = &mut *self.inner.borrow_mut();
        while inner.switch.owes(conn.id) {
            let now = self.now();
            if inner.switch.tell_part_to(conn.id, now, &mut inner.plane, &mut inner.out).is_err() {
                return;
            }
            inner.distribute();
        }
    }
    /// Runs `f` with the switch and the data plane.
    pub fn with<R>(&self, f: impl FnOnce(&mut Switch, &mut Handle, Nanos) -> R) -> R {
        let (now, inner) = (self.now(), &mut *self.inner.borrow_mut());
        f(&mut inner.switch, &mut inner.plane, now)
    }

    /// A connection has ended.
    pub fn leave(&self, conn: &Conn) {
        let inner = &mut *self.inner.borrow_mut();
        inner.forget(conn.id);
        inner.budget.of(conn.id.0).rest();
        if self.manner.get() != Manner::Awake {
            // What follows from it follows when the switch is awake again.
            let _ = inner.switch.release_session(conn.id);
        } else if conn.version.get().is_some() && !self.deleted.get() {
            let now = self.now();
            // Without a data plane there is nobody to tell, and everything ends.
            let _ = inner.switch.disconnected(conn.id, now, &mut inner.plane, &mut inner.out);
            self.settled(inner);
        }
    }

    /// Handles what a connection has brought, up to a batch of it.
    pub fn turn(&self, conn: &Conn, now: Nanos) -> Turn {
        if self.deleted.get() {
            return Turn::Gone;
        }
        if self.manner.get() != Manner::Awake {
            return Turn::Drained;
        }
        let inner = &mut *self.inner.borrow_mut();
        let how = self.how.get();
        // A tenth of a second's worth at once.
        let rate = |n: u32| Rate { per_second: n, burst: (n / 10).max(1) };
        let (messages, flow_mods) = (how.messages_per_s.map(rate), how.flow_mods_per_s.map(rate));
        inner.budget.set(messages, flow_mods, since_start(now));
        match inner.turn(conn, now) {
            Ok(how) => {
                self.settled(inner);
                how
            }
            Err(PlaneGone) => Turn::Gone,
        }
    }

    /// Does what is due by time; says when that is next.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn tick(&self, now: Nanos) -> Result<(), PlaneGone> {
        if self.deleted.get() {
            return Err(PlaneGone);
        }
        if self.manner.get() != Manner::Awake {
            return Ok(());
        }
        let inner = &mut *self.inner.borrow_mut();
        inner.switch.tick(now, &mut inner.plane, &mut inner.out)?;
        self.settled(inner);
        Ok(())
    }

    /// When `tick` is due.
    pub fn deadline(&self) -> Option<Nanos> {
        let inner = &mut *self.inner.borrow_mut();
        let awake = self.manner.get() == Manner::Awake;
        inner.armed = inner.switch.next_deadline().filter(|_| awake);
        inner.armed
    }

    /// Takes frames for controllers out of a queue, up to a batch of them; whether there are more.
    pub fn take_punts(&self, from: &mut Punts) -> bool {
        let now = self.now();
        let inner = &mut *self.inner.borrow_mut();
        for _ in 0..PUNTS {
            let Some(arrived) = from.pop() else { return false };
            inner.switch.punted(arrived, now, &mut inner.out);
            inner.distribute();
        }
        true
    }

    /// Something happened to a port.
    pub fn port_changed(&self, change: PortUpdate) {
        let inner = &mut *self.inner.borrow_mut();
        inner.switch.port_changed(change, self.now(), &mut inner.out);
        self.settled(inner);
    }

    /// Ends the connections of an endpoint, or all.
    pub fn stop(&self, of: Option<EndpointId>, why: &str) {
        let inner = self.inner.borrow();
        let meant = |c: &&Rc<Conn>| of.is_none_or(|e| e == c.endpoint);
        let all = inner.conns.values().chain(inner.relayed.values());
        all.filter(meant).for_each(|c| c.stop(why));
    }

    /// Looks at the switch and its connections.
    pub fn look<R>(&self, f: impl FnOnce(&Switch, &BTreeMap<ConnId, Rc<Conn>>, u64) -> R) -> R {
        let inner = self.inner.borrow();
        f(&inner.switch, &inner.conns, inner.unsendable)
    }

    /// Messages that came from controllers and tools so far, and that went to them.
    pub fn messages(&self) -> (u64, u64) {
        let inner = self.inner.borrow();
        let sum = |sum: (u64, u64), c: (u64, u64)| (sum.0 + c.0, sum.1 + c.1);
        let elsewhere = inner.relayed.values().map(|c| c.elsewhere.get());
        inner.conns.values().map(|c| c.messages()).chain(elsewhere).fold(inner.past, sum)
    }

    /// Connections whose bytes go on to the node where its switch is.
    pub fn relayed(&self) -> Vec<Rc<Conn>> {
        let inner = self.inner.borrow();
        inner.relayed.values().filter(|c| c.by.borrow().is_some()).cloned().collect()
    }

    /// Changes something about the switch itself.
    pub fn switch(&self, f: impl FnOnce(&mut Switch)) {
        f(&mut self.inner.borrow_mut().switch);
    }

    /// Says that packet-outs were lost: at most once in a while, and how many since.
    fn tell_lost(&self, lost: u64) {
        let before = self.told_lost.get();
        let line = || {
            let (n, verb) = (lost - before, if lost - before == 1 { " was" } else { "s were" });
            format!("{n} packet-out{verb} lost: no frame is free; raise 'frames'")
        };
        if lost > before && self.lines.tell_rarely(line) {
            self.told_lost.set(lost);
        }
    }

    /// Sends what waits, and sees to it that the keeper is awake in time.
    fn settled(&self, inner: &mut Inner) {
        inner.distribute();
        self.tell_lost(inner.switch.packet_outs_lost());
        let next = inner.switch.next_deadline();
        if next.is_some_and(|n| inner.armed.is_none_or(|a| n < a)) {
            inner.armed = next;
            self.rearm.notify_one();
        }
    }
}

impl Inner {
    fn turn(&mut self, conn: &Conn, now: Nanos) -> Result<Turn, PlaneGone> {
        let mut how = Turn::More;
        for _ in 0..BATCH {
            if self.switch.owes(conn.id) {
                // A long answer goes on as the other end reads it; what was asked next waits.
                if conn.channel.borrow().output_room() == 0 {
                    how = Turn::Drained;
                    break;
                }
                self.switch.tell_part_to(conn.id, now, &mut self.plane, &mut self.out)?;
                self.distribute();
                continue;
            }
            let Self { switch, plane, out, budget, .. } = self;
            let mut share = budget.of(conn.id.0);
            let event = conn.channel.borrow_mut().next_event_by(&mut share, since_start(now));
            match event {
                None => {
                    how = Turn::Drained;
                    break;
                }
                Some(Event::Up(version)) => {
                    conn.version.set(Some(version));
                    switch.connected(conn.id, version, conn.purpose, now, plane, out)?;
                }
                Some(Event::Message(r)) => {
                    switch.handle(conn.id, r.msg, r.head.as_bytes(), now, plane, out)?;
                }
                // A controller's alone.
                Some(Event::Misread(_)) => {}
                Some(Event::Closed(why)) => {
                    how = Turn::Closed(why);
                    break;
                }
            }
            // At once, so that the channel knows how full it is before it gives the next message.
            self.distribute();
        }
        self.switch.settle(now, &mut self.plane, &mut self.out)?;
        Ok(how)
    }

    /// Hands messages to the channels that they are for, and wakes their tasks.
    fn distribute(&mut self) {
        for sent in self.out.sent.drain(..) {
            let Some(conn) = self.conns.get(&sent.to) else { continue };
            if let Message::RoleReply(r) = &sent.msg.body {
                conn.role.set(r.role);
                if r.role == Role::Master {
                    // There is one (1.3 §6.3.4).
                    let others = self.conns.values().filter(|o| o.id != conn.id);
                    for o in others.filter(|o| o.role.get() == Role::Master) {
                        o.role.set(Role::Slave);
                    }
                }
            }
            match conn.channel.borrow_mut().send(&sent.msg) {
                Ok(_) => conn.wake(),
                Err(_) => self.unsendable += 1,
            }
        }
    }
}
