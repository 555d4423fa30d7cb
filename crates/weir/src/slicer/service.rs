//! The slicer's thread: switches that connect, or are connected to, each with a desk of its own.
//!
//! Room: sockets and tasks; what messages mean is the desk's. Called by `commands::slicer`.

use super::controllers::{self, accept, connect};
use super::desk::{Desk, Stage};
use super::peer::{Peer, Who};
use super::pump;
use crate::config::slicer::SlicerPlan;
use crate::openflow::address::{Controller, Listener};
use crate::openflow::log::Lines;
use crate::openflow::stream::Stream;
use anyhow::{Context, Result};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;
use weir_openflow::channel::Backoff;
use weir_supervisor::slicer::space::SliceId;

/// How long accepting rests when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);

/// All desks, and what they share.
struct House {
    plan: Rc<SlicerPlan>,
    desks: RefCell<Vec<Rc<Desk>>>,
    lines: Lines,
    next: Rc<Cell<u64>>,
    epoch: Instant,
    open: Cell<usize>,
}

/// Serves until `stop` is done. `told` hears where it listens: the address that the configuration asks for, and the
/// one that it got.
///
/// # Errors
/// An address can't be listened at.
pub fn run(
    plan: SlicerPlan,
    mut told: impl FnMut(&str, SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let house = Rc::new(House {
        plan: Rc::new(plan),
        desks: RefCell::default(),
        lines: Lines::new("slicer".to_owned()),
        next: Rc::default(),
        epoch: Instant::now(),
        open: Cell::new(0),
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async move {
        for l in &house.plan.listen {
            let listener = bind(*l, &mut told, "switches")?;
            spawn_local(switches(Rc::clone(&house), *l, listener));
        }
        for (i, t) in (0..).zip(&house.plan.tenants) {
            for l in &t.listen {
                let listener = bind(*l, &mut told, &format!("slice {}", t.plan.name))?;
                spawn_local(visitors(Rc::clone(&house), SliceId(i), *l, listener));
            }
        }
        for c in &house.plan.connect {
            spawn_local(reach(Rc::clone(&house), c.clone()));
        }
        stop.await;
        Ok(())
    })
}

fn bind(l: Listener, told: &mut impl FnMut(&str, SocketAddr), what: &str) -> Result<TcpListener> {
    let bound = std::net::TcpListener::bind(l.at);
    let bound = bound.with_context(|| format!("{what}: {l}: is the address taken?"))?;
    bound.set_nonblocking(true)?;
    told(what, bound.local_addr()?);
    Ok(TcpListener::from_std(bound)?)
}

async fn incoming(house: &House, listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) if house.open.get() < house.plan.connections => return (tcp, from),
            Ok((_, from)) => {
                house.lines.tell(format_args!("{from} refused: too many connections"));
            }
            Err(e) => {
                house.lines.tell(format_args!("can't accept: {e}"));
                sleep(REST).await;
            }
        }
    }
}

/// Switches that connect.
async fn switches(house: Rc<House>, l: Listener, listener: TcpListener) {
    loop {
        let (tcp, from) = incoming(&house, &listener).await;
        let house = Rc::clone(&house);
        house.open.set(house.open.get() + 1);
        spawn_local(async move {
            match accept(tcp, l.security, house.plan.tls.as_ref()).await {
                Ok(stream) => serve(&house, from.to_string(), stream).await,
                Err(why) => house.lines.tell(format_args!("{from}: {why}")),
            }
            house.open.set(house.open.get() - 1);
        });
    }
}

/// A switch that listens.
async fn reach(house: Rc<House>, to: Controller) {
    let backoff = Backoff { first: Duration::from_millis(250), ceiling: house.plan.backoff_max };
    let (mut attempt, mut said) = (0u32, String::new());
    loop {
        match connect(&to, house.plan.tls.as_ref()).await {
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
        Rc::clone(&house.plan),
        format!("switch {called}"),
        Rc::clone(&house.next),
        house.epoch,
    ));
    house.desks.borrow_mut().push(Rc::clone(&desk));
    let opening = spawn_local(open(Rc::clone(&desk)));
    let versions = house.plan.versions;
    let peer = Peer::new(desk.number(), Who::Switch, versions, house.plan.echo, desk.now());
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
    for (i, t) in (0..).zip(&desk.plan.tenants) {
        for c in &t.controllers {
            spawn_local(controllers::keep(Rc::clone(&desk), SliceId(i), c.clone(), version));
        }
    }
}

/// Controllers and tools that come to a slice by themselves: they get the switch with the lowest id.
async fn visitors(house: Rc<House>, slice: SliceId, l: Listener, listener: TcpListener) {
    loop {
        let (tcp, from) = incoming(&house, &listener).await;
        let house = Rc::clone(&house);
        house.open.set(house.open.get() + 1);
        spawn_local(async move {
            let ready = |d: &Rc<Desk>| match *d.stage().borrow() {
                Stage::Ready(v) => Some((Rc::clone(d), v)),
                _ => None,
            };
            let mut desks: Vec<_> = house.desks.borrow().iter().filter_map(ready).collect();
            desks.sort_by_key(|(d, _)| d.datapath_id());
            match (accept(tcp, l.security, house.plan.tls.as_ref()).await, desks.first()) {
                (Ok(stream), Some((desk, version))) => {
                    controllers::talk(desk, slice, *version, stream).await;
                }
                (Ok(_), None) => {
                    house.lines.tell(format_args!("{from} refused: no switch is there"));
                }
                (Err(why), _) => house.lines.tell(format_args!("{from}: {why}")),
            }
            house.open.set(house.open.get() - 1);
        });
    }
}
