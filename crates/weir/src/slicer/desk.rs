//! One switch with its controllers: where their messages meet.
//!
//! Room: owns the sliced switch and knows the connections; reads and writes no sockets. What the switch does not
//! take yet waits here, and while it does, no controller's messages are taken: so what waits is bounded by
//! what one message of a controller's leads to.

use super::journal::{Journal, Turn as Writing};
use super::peer::{Peer, Who};
use super::share::CpuShare;
use crate::config::slicer::{SlicerPlan, Tenant};
use crate::openflow::log::Lines;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use weir_openflow::channel::{Budget, Event, Gate, Rate, SendError, Sent};
use weir_openflow::model::{Msg, PortDesc, Version};
use weir_supervisor::slicer::space::SliceId;
use weir_supervisor::slicer::{ConnId, Out, SliceCounters, Switch};

/// Messages of a peer's that are handled before others have their turn.
const BATCH: usize = 64;

/// What a turn leaves to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More messages may be there.
    More,
    /// None is there.
    Drained,
    /// The switch has to take something first.
    Waits,
    /// There is time for it then.
    Until(Duration),
    /// The connection is over.
    Closed(String),
}

/// Whether the switch is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being asked who it is.
    Asking,
    /// Controllers may come.
    Ready(Version),
    /// It has gone.
    Gone,
}

/// One switch's desk.
pub struct Desk {
    plan: RefCell<Rc<SlicerPlan>>,
    /// What is said about it.
    pub lines: Lines,
    stage: watch::Sender<Stage>,
    epoch: Instant,
    next: Rc<Cell<u64>>,
    journal: Option<Rc<Journal>>,
    inner: RefCell<Inner>,
}

struct Inner {
    switch: Option<Switch>,
    /// In whose name the journal is written.
    writing: Option<Writing>,
    out: Out,
    link: Option<Rc<Peer>>,
    waiting: VecDeque<Msg>,
    peers: BTreeMap<ConnId, Rc<Peer>>,
    budgets: Vec<Budget>,
    shares: Vec<CpuShare>,
    unsendable: u64,
}

impl Desk {
    /// For a switch that has just connected; `next` numbers connections, `epoch` is when time began, `journal` keeps
    /// what slices have.
    pub fn new(
        plan: Rc<SlicerPlan>,
        called: String,
        next: Rc<Cell<u64>>,
        epoch: Instant,
        journal: Option<Rc<Journal>>,
    ) -> Self {
        let now = epoch.elapsed();
        let share = |t: &Tenant| CpuShare::new(t.cpu_permille, now);
        let inner = Inner {
            switch: None,
            writing: None,
            out: Out::default(),
            link: None,
            waiting: VecDeque::new(),
            peers: BTreeMap::new(),
            budgets: plan.tenants.iter().map(|_| Budget::default()).collect(),
            shares: plan.tenants.iter().map(share).collect(),
            unsendable: 0,
        };
        let (stage, _) = watch::channel(Stage::Asking);
        Self {
            plan: RefCell::new(plan),
            lines: Lines::new(called),
            stage,
            epoch,
            next,
            journal,
            inner: RefCell::new(inner),
        }
    }

    /// The configuration, as it is now.
    pub fn plan(&self) -> Rc<SlicerPlan> {
        Rc::clone(&self.plan.borrow())
    }

    /// From now on this is the configuration: slices keep their numbers. Who is connected for a slice or a
    /// controller that is no more is sent away.
    pub fn replan(&self, plan: &Rc<SlicerPlan>) {
        *self.plan.borrow_mut() = Rc::clone(plan);
        let inner = &mut *self.inner.borrow_mut();
        let now = self.now();
        for (i, t) in plan.tenants.iter().enumerate() {
            match inner.shares.get_mut(i) {
                Some(s) => s.set(t.cpu_permille),
                None => inner.shares.push(CpuShare::new(t.cpu_permille, now)),
            }
        }
        inner.budgets.resize_with(plan.tenants.len(), Budget::default);
        for p in inner.peers.values() {
            let Who::Controller(slice) = p.who else { continue };
            if plan.wants(slice, p.of.as_ref()) {
                continue;
            }
            if let Some(s) = &mut inner.switch {
                s.disconnected(p.id, &mut inner.out);
            }
            p.stop("the configuration has no place for it any more");
        }
        if let Some(s) = &mut inner.switch {
            let there = |t: &Tenant| (!t.is_gone()).then(|| t.plan.clone());
            let plans: Vec<_> = plan.tenants.iter().map(there).collect();
            s.replan(&plans, &plan.rules, &mut inner.out);
            s.settle(now, &mut inner.out);
        }
        self.distribute(inner);
        // Who keeps controllers looks again.
        self.stage.send_modify(|_| {});
    }

    /// What a slice has counted here: requests and the like, flows, rules.
    pub fn counters(&self, slice: SliceId) -> Option<(SliceCounters, usize, usize)> {
        self.inner.borrow().switch.as_ref()?.counters(slice)
    }

    /// Ports of the switch.
    pub fn ports(&self) -> Vec<PortDesc> {
        let inner = self.inner.borrow();
        inner.switch.as_ref().map(|s| s.ports().cloned().collect()).unwrap_or_default()
    }

    /// Controllers of a slice that are connected.
    pub fn connected(&self, slice: SliceId) -> usize {
        let inner = self.inner.borrow();
        let of = |p: &&Rc<Peer>| p.who == Who::Controller(slice) && p.up.get();
        inner.peers.values().filter(of).count()
    }

    /// Messages to and from the switch so far.
    pub fn messages(&self) -> (u64, u64) {
        let inner = self.inner.borrow();
        inner.link.as_ref().map_or((0, 0), |l| {
            let s = l.channel.borrow().stats().clone();
            (s.received.iter().sum(), s.sent.iter().sum())
        })
    }

    /// When the switch's connection is to have its turn though nothing has come.
    pub fn wake_at(&self) -> Option<Duration> {
        self.inner.borrow().switch.as_ref().and_then(Switch::wake_at)
    }

    /// Time since it began.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
    /// A time as the runtime counts it.
    pub fn when(&self, at: Duration) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_secs(86_400);
        let at = self.epoch.checked_add(at.min(self.now() + FAR));
        tokio::time::Instant::from_std(at.unwrap_or_else(Instant::now))
    }
    /// A number for a connection.
    pub fn number(&self) -> ConnId {
        self.next.set(self.next.get() + 1);
        ConnId(self.next.get())
    }
    /// How far the switch is, now and from now on.
    pub fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }
    /// The switch's id, once it is known.
    pub fn datapath_id(&self) -> Option<u64> {
        self.inner.borrow().switch.as_ref().and_then(Switch::datapath_id)
    }

    /// A connection has been made.
    pub fn enter(&self, peer: Rc<Peer>) {
        let inner = &mut *self.inner.borrow_mut();
        match peer.who {
            Who::Switch => inner.link = Some(peer),
            Who::Controller(_) => drop(inner.peers.insert(peer.id, peer)),
        }
    }

    /// A connection has ended.
    pub fn leave(&self, peer: &Peer) {
        let inner = &mut *self.inner.borrow_mut();
        match peer.who {
            Who::Switch => {
                self.stage.send_replace(Stage::Gone);
                inner.link = None;
                inner.switch = None;
                inner.peers.values().for_each(|p| p.stop("the switch has gone"));
            }
            Who::Controller(slice) => {
                inner.peers.remove(&peer.id);
                if let Some(b) = inner.budgets.get_mut(usize::from(slice.0)) {
                    b.of(peer.id.0).rest();
                }
                if let Some(s) = &mut inner.switch {
                    s.disconnected(peer.id, &mut inner.out);
                    s.settle(self.now(), &mut inner.out);
                }
                self.distribute(inner);
            }
        }
    }

    /// Handles what a connection has brought, up to a batch of it.
    pub fn turn(&self, peer: &Peer) -> Turn {
        let inner = &mut *self.inner.borrow_mut();
        let turn = match peer.who {
            Who::Switch => self.hear_switch(inner, peer),
            Who::Controller(slice) => self.hear_controller(inner, peer, slice),
        };
        if let Some(s) = &mut inner.switch {
            s.settle(self.now(), &mut inner.out);
        }
        self.distribute(inner);
        turn
    }

    /// Gives a connection what waits for it; whether there was something.
    pub fn refill(&self, peer: &Peer) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        if peer.who != Who::Switch || inner.waiting.is_empty() {
            return false;
        }
        self.distribute(inner);
        true
    }

    fn hear_switch(&self, inner: &mut Inner, peer: &Peer) -> Turn {
        for _ in 0..BATCH {
            let now = self.now();
            let event = peer.channel.borrow_mut().next_event(now);
            match event {
                None => return Turn::Drained,
                Some(Event::Up(version)) => {
                    peer.up.set(true);
                    let mut s = self.plan().switch(version);
                    match self.journal {
                        Some(_) => s.begin_again(&mut inner.out),
                        None => s.begin(&mut inner.out),
                    }
                    inner.switch = Some(s);
                }
                Some(Event::Message(r)) => {
                    if let Some(s) = &mut inner.switch {
                        s.from_switch(r.msg, now, &mut inner.out);
                    }
                    self.take_up(inner, peer);
                }
                Some(Event::Misread(e)) => {
                    self.lines.tell(format_args!("can't be read: {e}"));
                    if let Some(s) = &mut inner.switch {
                        s.misread(&e, now, &mut inner.out);
                    }
                }
                Some(Event::Closed(why)) => return Turn::Closed(why.to_string()),
            }
            self.distribute(inner);
            let ready = inner.switch.as_ref().is_some_and(Switch::is_ready);
            let version = peer.channel.borrow().version();
            if let (true, Some(v)) = (ready && *self.stage.borrow() == Stage::Asking, version) {
                self.stage.send_replace(Stage::Ready(v));
            }
        }
        Turn::More
    }

    /// Gives the switch what was kept of it, once it is known which it is.
    fn take_up(&self, inner: &mut Inner, peer: &Peer) {
        let (Some(journal), Some(s)) = (&self.journal, &mut inner.switch) else { return };
        let (Some(id), Some(version)) = (s.awaits(), peer.channel.borrow().version()) else {
            return;
        };
        let plan = self.plan();
        let (writing, facts) = journal.take_up(id, version, |name| plan.number_of(name));
        if !facts.is_empty() {
            self.lines.tell(format_args!(
                "datapath {id:#018x}: {} flows, groups and meters of before are taken up",
                facts.len()
            ));
        }
        inner.writing = Some(writing);
        s.resume(facts, &mut inner.out);
    }

    /// Keeps what has changed, before anything that came of it is sent.
    fn keep(&self, inner: &mut Inner) {
        if inner.out.facts.is_empty() {
            return;
        }
        let (Some(journal), Some(writing)) = (&self.journal, inner.writing) else {
            inner.out.facts.clear();
            return;
        };
        let plan = self.plan();
        for f in inner.out.facts.drain(..) {
            let slice = f.held.as_ref().map(|(s, _)| *s);
            let name = slice.map_or("", |s| plan.name_of(s)).to_owned();
            journal.note(writing, f, &name);
        }
        if let Some(text) = journal.flush() {
            self.lines.tell(text);
        }
    }

    fn hear_controller(&self, inner: &mut Inner, peer: &Peer, slice: SliceId) -> Turn {
        let at = usize::from(slice.0);
        let rates = self.plan.borrow().tenants.get(at).map(|t| (t.messages, t.flow_mods));
        for _ in 0..BATCH {
            let takes = inner.switch.as_ref().is_none_or(|s| s.takes_from(peer.id));
            if !takes || !inner.waiting.is_empty() {
                peer.waits.set(true);
                return Turn::Waits;
            }
            let now = self.now();
            if let Some(at) = inner.shares.get_mut(at).and_then(|s| s.wait(now)) {
                return Turn::Until(at);
            }
            let Some(budget) = inner.budgets.get_mut(at) else { return Turn::Drained };
            let (messages, flow_mods): (Option<Rate>, _) = rates.unwrap_or_default();
            budget.set(messages, flow_mods, now);
            let mut share = budget.of(peer.id.0);
            let event = peer.channel.borrow_mut().next_event_by(&mut share, now);
            let Some(s) = &mut inner.switch else { return Turn::Drained };
            match event {
                None => return Turn::Drained,
                Some(Event::Up(_)) => {
                    peer.up.set(true);
                    s.connected(peer.id, slice, &mut inner.out);
                }
                Some(Event::Message(r)) => {
                    s.from_controller(peer.id, r.msg, r.head.as_bytes(), now, &mut inner.out);
                }
                // A switch, as which it is spoken to, answers by itself.
                Some(Event::Misread(_)) => {}
                Some(Event::Closed(why)) => return Turn::Closed(why.to_string()),
            }
            self.distribute(inner);
            if let Some(s) = inner.shares.get_mut(at) {
                s.charge(self.now().saturating_sub(now));
            }
        }
        Turn::More
    }

    /// Hands messages to the channels that they are for, and wakes their tasks.
    fn distribute(&self, inner: &mut Inner) {
        self.keep(inner);
        for line in inner.out.told.drain(..) {
            self.lines.tell(line);
        }
        for (to, msg) in inner.out.to_controllers.drain(..) {
            let Some(peer) = inner.peers.get(&to) else { continue };
            match peer.channel.borrow_mut().send(&msg) {
                Ok(Sent::Queued) => peer.wake(),
                Ok(Sent::Dropped) => inner.switch.iter_mut().for_each(|s| s.unread(to)),
                Err(_) => inner.unsendable += 1,
            }
        }
        inner.waiting.extend(inner.out.to_switch.drain(..));
        let Some(link) = &inner.link else {
            inner.waiting.clear();
            return;
        };
        let mut channel = link.channel.borrow_mut();
        let mut any = false;
        while let Some(msg) = inner.waiting.front() {
            match channel.send(msg) {
                Err(SendError::Full) => break,
                Err(_) => inner.unsendable += 1,
                Ok(_) => {}
            }
            any = true;
            inner.waiting.pop_front();
        }
        drop(channel);
        if any {
            link.wake();
        }
        // Those who wait ask again: it costs them a look each.
        if inner.waiting.is_empty() {
            let takes = |p: &&Rc<Peer>| {
                p.waits.get() && inner.switch.as_ref().is_none_or(|s| s.takes_from(p.id))
            };
            for p in inner.peers.values().filter(takes) {
                p.waits.set(false);
                p.wake();
            }
        }
    }
}
