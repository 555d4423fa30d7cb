//! The slicer's thread: switches that connect, or are connected to, each with a desk of its own.
//!
//! Room: sockets and tasks; what messages mean is the desk's. Called by `commands::slicer`.

use super::controllers::{self, accept, connect};
use super::desk::{Desk, Stage};
use super::fvctl::{Call, Document, answer, router};
use super::journal::{self, Journal};
use super::peer::{Peer, Who};
use super::places::{Place, Places, Room, Side};
use super::pump;
use crate::commands::say::tell;
use crate::config::slicer::{ApiPlan, SlicerPlan, Tenant};
use crate::fault::bad_input;
use crate::openflow::address::{Controller, Listener, Security};
use crate::openflow::log::Lines;
use crate::openflow::stream::Stream;
use crate::serve::service as http;
use crate::serve::tokens::Tokens;
use crate::socket::pending::{self, Pending};
use anyhow::{Context, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use weir_openflow::channel::Backoff;
use weir_supervisor::slicer::SliceCounters;
use weir_supervisor::slicer::space::SliceId;

/// Connections at once whose peers have not shown a certificate yet.
const PENDING: usize = 64;
/// How long accepting rests when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);

/// FlowVisor's names, where they are served.
pub struct Shim {
    /// Where, and who may ask.
    pub plan: ApiPlan,
    /// Slices and flow space, for changes.
    pub document: Document,
    /// The way in.
    pub orders: mpsc::Sender<Order>,
}

/// What the running slicer is asked to do, one after the other.
pub enum Order {
    /// Slices and flow space become these; whoever asked hears whether they are.
    Become(Box<SlicerPlan>, oneshot::Sender<Result<(), String>>),
    /// What FlowVisor's names ask.
    Call(Call),
}

/// The running slicer, for whoever answers questions about it.
pub struct Running<'h>(&'h Rc<House>);

impl Running<'_> {
    /// Switches that are there, by their ids.
    pub fn switches(&self) -> impl Iterator<Item = (u64, Rc<Desk>)> {
        let known = |d: &Rc<Desk>| Some((d.datapath_id()?, Rc::clone(d)));
        let mut all: Vec<_> = self.0.desks.borrow().iter().filter_map(known).collect();
        all.sort_by_key(|(id, _)| *id);
        all.into_iter()
    }
    fn number(&self, slice: &str) -> Option<SliceId> {
        let at = self.0.plan.borrow().tenants.iter().position(|t| t.plan.name == slice)?;
        u16::try_from(at).ok().map(SliceId)
    }
    /// What a slice has counted at each switch, its flows, and their rules.
    pub fn counters(
        &self,
        slice: &str,
    ) -> impl Iterator<Item = (u64, (SliceCounters, usize, usize))> {
        let slice = self.number(slice);
        self.switches().filter_map(move |(id, d)| Some((id, d.counters(slice?)?)))
    }
    /// Switches at which a controller of a slice's is connected.
    pub fn connected(&self, slice: &str) -> impl Iterator<Item = u64> {
        let slice = self.number(slice);
        self.switches()
            .filter(move |(_, d)| slice.is_some_and(|s| d.connected(s) > 0))
            .map(|(id, _)| id)
    }
    /// Whether it may become this while it runs.
    ///
    /// # Errors
    /// What differs that can't.
    pub fn may_become(&self, plan: &SlicerPlan) -> Result<(), String> {
        self.0.may_become(plan)
    }
    /// It becomes this.
    ///
    /// # Errors
    /// It can't; nothing has changed.
    pub fn become_(&self, plan: SlicerPlan) -> Result<(), String> {
        self.0.replan(plan, &mut |what, at| tell(format_args!("{what}: listening at {at}")))
    }
}

/// All desks, and what they share.
struct House {
    plan: RefCell<Rc<SlicerPlan>>,
    /// Where slices' controllers may come, each with its task.
    doors: RefCell<Vec<(SliceId, Listener, AbortHandle)>>,
    desks: RefCell<Vec<Rc<Desk>>>,
    lines: Lines,
    next: Rc<Cell<u64>>,
    epoch: Instant,
    /// Who is known, or need not be.
    places: Rc<Places>,
    /// Who has not shown yet who it is.
    pending: Arc<Pending>,
    journal: Option<Rc<Journal>>,
}

/// Serves until `stop` is done. `told` hears where it listens: the address that the configuration asks for, and the
/// one that it got.
///
/// # Errors
/// An address can't be listened at.
pub fn run(
    plan: SlicerPlan,
    mut told: impl FnMut(&str, SocketAddr),
    mut orders: mpsc::Receiver<Order>,
    shim: Option<Shim>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let journal = plan.remember.as_deref().map(Journal::open).transpose().map_err(bad_input)?;
    let house = Rc::new(House {
        plan: RefCell::new(Rc::new(plan)),
        doors: RefCell::default(),
        desks: RefCell::default(),
        lines: Lines::new("slicer".to_owned()),
        next: Rc::default(),
        epoch: Instant::now(),
        places: Rc::default(),
        pending: Arc::new(Pending::new(PENDING)),
        journal: journal.map(Rc::new),
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async move {
        let plan = house.plan();
        for l in &plan.listen {
            let listener = bind(*l, &mut told, "switches")?;
            spawn_local(switches(Rc::clone(&house), *l, listener));
        }
        house.open_doors(&plan, &mut told)?;
        if house.journal.is_some() {
            spawn_local(keep(Rc::clone(&house)));
        }
        for c in &plan.connect {
            spawn_local(reach(Rc::clone(&house), c.clone()));
        }
        let mut document = None;
        if let Some(s) = shim {
            let bound = std::net::TcpListener::bind(s.plan.listen);
            let bound = bound
                .with_context(|| format!("api at {}: is the address taken?", s.plan.listen))?;
            bound.set_nonblocking(true)?;
            told("FlowVisor's names", bound.local_addr()?);
            let router = router(Tokens::new(s.plan.tokens.clone()), s.orders);
            let tls = s.plan.tls.clone().map(TlsAcceptor::from);
            tokio::spawn(http::accept(TcpListener::from_std(bound)?, move || tls.clone(), router));
            document = Some(s.document);
        }
        let obey = async {
            while let Some(o) = orders.recv().await {
                match o {
                    Order::Become(plan, done) => {
                        // Whoever asked may have gone.
                        let _ = done.send(house.replan(*plan, &mut told));
                    }
                    Order::Call(call) => {
                        // Without a document nobody is served who could ask.
                        if let Some(d) = &mut document {
                            answer(&Running(&house), d, call);
                        }
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = stop => {}
            () = obey => {}
        }
        Ok(())
    })
}

impl House {
    fn plan(&self) -> Rc<SlicerPlan> {
        Rc::clone(&self.plan.borrow())
    }

    /// How many may come.
    fn room(&self) -> Room {
        let slices: BTreeSet<SliceId> = self.doors.borrow().iter().map(|d| d.0).collect();
        Room { connections: self.plan().connections, slices: slices.len() }
    }

    fn may_become(&self, plan: &SlicerPlan) -> Result<(), String> {
        let old = self.plan();
        let doors = plan.listen != old.listen || plan.connect != old.connect;
        if doors || plan.tls != old.tls || plan.remember != old.remember {
            let text =
                "listen, connect, tls and remember are what it was started with: start it again";
            return Err(text.to_owned());
        }
        let new = |t: &&Tenant| !old.tenants.iter().any(|o| o.plan.name == t.plan.name);
        if old.tenants.len() + plan.tenants.iter().filter(new).count() > usize::from(u16::MAX) - 1 {
            return Err("more than 65534 slices since it was started: start it again".to_owned());
        }
        Ok(())
    }

    /// Listens for slices' controllers where nobody does yet. All or none.
    fn open_doors(
        self: &Rc<Self>,
        plan: &SlicerPlan,
        told: &mut impl FnMut(&str, SocketAddr),
    ) -> Result<()> {
        let mut new = Vec::new();
        for (i, t) in (0..).map(SliceId).zip(&plan.tenants) {
            for l in &t.listen {
                if !self.doors.borrow().iter().any(|(s, d, _)| *s == i && d == l) {
                    new.push((i, *l, bind(*l, told, &format!("slice {}", t.plan.name))?));
                }
            }
        }
        for (slice, l, listener) in new {
            let task = spawn_local(visitors(Rc::clone(self), slice, l, listener));
            self.doors.borrow_mut().push((slice, l, task.abort_handle()));
        }
        Ok(())
    }

    /// Slices and flow space become others, between two messages: at every switch, before anybody is heard.
    fn replan(
        self: &Rc<Self>,
        plan: SlicerPlan,
        told: &mut impl FnMut(&str, SocketAddr),
    ) -> Result<(), String> {
        self.may_become(&plan)?;
        let old = self.plan();
        let plan = plan.numbered_after(&old);
        self.open_doors(&plan, told).map_err(|e| format!("{e:#}"))?;
        let wanted = |(s, l, _): &(SliceId, Listener, AbortHandle)| {
            plan.tenants.get(usize::from(s.0)).is_some_and(|t| t.listen.contains(l))
        };
        self.doors.borrow_mut().retain(|d| {
            let stays = wanted(d);
            if !stays {
                d.2.abort();
            }
            stays
        });
        let plan = Rc::new(plan);
        *self.plan.borrow_mut() = Rc::clone(&plan);
        for desk in self.desks.borrow().iter() {
            desk.replan(&plan);
            let Stage::Ready(version) = *desk.stage().borrow() else { continue };
            for (i, t) in (0..).map(SliceId).zip(&plan.tenants) {
                let had = old.tenants.get(usize::from(i.0)).map_or(&[][..], |t| &t.controllers);
                for c in t.controllers.iter().filter(|c| !had.contains(c)) {
                    spawn_local(controllers::keep(Rc::clone(desk), i, c.clone(), version));
                }
            }
        }
        Ok(())
    }
}

fn bind(l: Listener, told: &mut impl FnMut(&str, SocketAddr), what: &str) -> Result<TcpListener> {
    let bound = std::net::TcpListener::bind(l.at);
    let bound = bound.with_context(|| format!("{what}: {l}: is the address taken?"))?;
    bound.set_nonblocking(true)?;
    told(what, bound.local_addr()?);
    Ok(TcpListener::from_std(bound)?)
}

/// Somebody who has come.
struct Visitor {
    tcp: TcpStream,
    from: SocketAddr,
    /// Where it must say first who it is.
    pending: Option<pending::Place>,
}

async fn incoming(house: &House, l: Listener, listener: &TcpListener) -> Visitor {
    let come = async || {
        let (tcp, from) = listener.accept().await?;
        let pending = match l.security {
            Security::Tls => Some(house.pending.enter(from.ip(), &tcp)?),
            Security::Plain => None,
        };
        Ok::<_, std::io::Error>(Visitor { tcp, from, pending })
    };
    loop {
        match come().await {
            Ok(v) => return v,
            Err(e) => {
                house.lines.tell(format_args!("can't accept: {e}"));
                sleep(REST).await;
            }
        }
    }
}

impl Visitor {
    /// Finds out who it is, and then gives it one of the places that there are.
    ///
    /// # Errors
    /// Why it is sent away.
    async fn enter(
        self,
        house: &House,
        side: Side,
        l: Listener,
    ) -> Result<(Stream, Place), String> {
        let Self { tcp, from, pending } = self;
        let stream = match accept(tcp, l.security, house.plan().tls.as_ref()).await {
            Ok(stream) => stream,
            Err(_) if pending.as_ref().is_some_and(pending::Place::is_lost) => {
                let why = format!("{PENDING} others had shown no certificate either");
                return Err(format!("{from} refused: {why}"));
            }
            Err(why) => return Err(format!("{from}: {why}")),
        };
        drop(pending);
        let place = house.places.take(side, house.room());
        place.map(|p| (stream, p)).ok_or_else(|| format!("{from} refused: too many connections"))
    }
}

/// Has the journal written again when it could not be, though nobody changes anything.
async fn keep(house: Rc<House>) {
    loop {
        sleep(journal::REST).await;
        if let Some(text) = house.journal.as_ref().and_then(|j| j.again()) {
            house.lines.tell(text);
        }
    }
}

/// Switches that connect.
async fn switches(house: Rc<House>, l: Listener, listener: TcpListener) {
    loop {
        let visitor = incoming(&house, l, &listener).await;
        let house = Rc::clone(&house);
        spawn_local(async move {
            let from = visitor.from;
            match visitor.enter(&house, Side::Switches, l).await {
                Ok((stream, _place)) => serve(&house, from.to_string(), stream).await,
                Err(why) => house.lines.tell(why),
            }
        });
    }
}

/// A switch that listens.
async fn reach(house: Rc<House>, to: Controller) {
    let backoff = Backoff { first: Duration::from_millis(250), ceiling: house.plan().backoff_max };
    let (mut attempt, mut said) = (0u32, String::new());
    loop {
        match connect(&to, house.plan().tls.as_ref()).await {
            Ok(stream) => {
                serve(&house, to.to_string(), stream).await;
                attempt = 0;
                said.clear();
            }
            Err(why) if why != said => {
                house.lines.tell(format_args!("switch {to}: {why}"));
                said = why;
            }
            Err(_) => {}
        }
        sleep(backoff.delay(to.port.into(), attempt)).await;
        attempt = attempt.saturating_add(1);
    }
}

/// A switch's connection, to its end.
async fn serve(house: &Rc<House>, called: String, stream: Stream) {
    let desk = Rc::new(Desk::new(
        house.plan(),
        format!("switch {called}"),
        Rc::clone(&house.next),
        house.epoch,
        house.journal.clone(),
    ));
    house.desks.borrow_mut().push(Rc::clone(&desk));
    let opening = spawn_local(open(Rc::clone(&desk)));
    let (versions, echo) = (house.plan().versions, house.plan().echo);
    let peer = Peer::new(desk.number(), Who::Switch, None, versions, echo, desk.now());
    let why = pump::run(&desk, Rc::new(peer), stream).await;
    opening.abort();
    house.desks.borrow_mut().retain(|d| !Rc::ptr_eq(d, &desk));
    desk.lines.tell(format_args!("disconnected: {why}"));
}

/// Lets the slices' controllers in once the switch is known.
async fn open(desk: Rc<Desk>) {
    let mut stage = desk.stage();
    let ready = stage.wait_for(|s| *s != Stage::Asking).await;
    let Ok(Stage::Ready(version)) = ready.map(|s| *s) else { return };
    let id = desk.datapath_id().unwrap_or_default();
    desk.lines.tell(format_args!("datapath {id:#018x} is there"));
    for (i, t) in (0..).map(SliceId).zip(&desk.plan().tenants) {
        for c in &t.controllers {
            spawn_local(controllers::keep(Rc::clone(&desk), i, c.clone(), version));
        }
    }
}

/// Controllers and tools that come to a slice by themselves: they get the switch with the lowest id.
async fn visitors(house: Rc<House>, slice: SliceId, l: Listener, listener: TcpListener) {
    loop {
        let visitor = incoming(&house, l, &listener).await;
        let house = Rc::clone(&house);
        spawn_local(async move {
            let from = visitor.from;
            let entered = visitor.enter(&house, Side::Slice(slice), l).await;
            let ready = |d: &Rc<Desk>| match *d.stage().borrow() {
                Stage::Ready(v) => Some((Rc::clone(d), v)),
                _ => None,
            };
            let mut desks: Vec<_> = house.desks.borrow().iter().filter_map(ready).collect();
            desks.sort_by_key(|(d, _)| d.datapath_id());
            match (entered, desks.first()) {
                (Ok((stream, _place)), Some((desk, version))) => {
                    controllers::talk(desk, slice, None, *version, stream).await;
                }
                (Ok(_), None) => {
                    house.lines.tell(format_args!("{from} refused: no switch is there"));
                }
                (Err(why), _) => house.lines.tell(why),
            }
        });
    }
}
