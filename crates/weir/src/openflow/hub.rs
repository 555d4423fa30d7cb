//! All switches of the process: one thread, one runtime, changed by commands.
//!
//! Room: makes and ends switches, controllers and listeners as `wanted` says. Knows tasks, not what
//! they do. `service` speaks to it.

use super::address::Security;
use super::connect;
use super::endpoint::{Endpoint, What};
use super::keeper::{self, Stay};
use super::listen;
use super::moves::{self, Ask, Moving, Reception, Stage};
use super::punts::{self, Lost};
use super::status::{self, SwitchItem};
use super::vdp::{Common, Vdp};
use super::wanted::Wanted;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use tokio::sync::{mpsc, watch};
use tokio::task::{spawn_local, yield_now};
use weir_agent::{Link, PortUpdate, Switch};
use weir_dataplane::Vid;
use weir_openflow::model::Port;

/// Turns of all others that a listener needs to end, and some more.
const LETTING_GO: usize = 8;

/// What is asked of the thread.
#[derive(Debug)]
pub enum Command {
    /// Make the switches these; answers with what could not be had, a line each.
    Update(Vec<Wanted>, SyncSender<Vec<String>>),
    /// The link of a port, by the data plane's name, came or went.
    Link(String, Link),
    /// Do something about a switch that moves; dropped where there is no such switch.
    Move(u16, Ask),
    /// Say how each switch's move stands.
    Stages(SyncSender<BTreeMap<u16, Stage>>),
    /// Say what there is.
    Status(SyncSender<BTreeMap<u16, SwitchItem>>),
    /// How many messages came and went, by VID.
    Messages(SyncSender<BTreeMap<u16, (u64, u64)>>),
    /// End.
    Stop,
}

/// A switch with all that belongs to it.
pub struct Entry {
    /// What it was made from.
    pub wanted: Wanted,
    /// The switch.
    pub vdp: Rc<Vdp>,
    /// Its controllers and listeners.
    pub endpoints: Vec<Rc<Endpoint>>,
    /// What the software stage could not hand over.
    pub lost: Lost,
    /// How its move to another node stands.
    pub moving: Moving,
    stay: watch::Sender<Stay>,
}

/// Serves commands until the last one.
pub async fn serve(
    common: Rc<Common>,
    reception: Reception,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut all: BTreeMap<u16, Entry> = BTreeMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Update(wanted, answer) => {
                let told = update(&common, &reception, &mut all, wanted).await;
                // Whoever asked may have given up.
                let _ = answer.send(told);
            }
            Command::Link(name, link) => {
                for e in all.values() {
                    for (_, p) in e.wanted.ports.iter().filter(|(n, _)| *n == name) {
                        e.vdp.port_changed(PortUpdate::Link(p.no, link));
                    }
                }
            }
            Command::Move(vid, ask) => {
                if let Some(e) = all.get_mut(&vid) {
                    moves::serve(e, &reception, ask).await;
                }
            }
            Command::Stages(answer) => {
                let stage = |(v, e): (&u16, &Entry)| (*v, e.moving.stage(e.vdp.manner()));
                let _ = answer.send(all.iter().map(stage).collect());
            }
            Command::Status(answer) => {
                let item = |(vid, e): (&u16, &Entry)| (*vid, status::of(e));
                let _ = answer.send(all.iter().map(item).collect());
            }
            Command::Messages(answer) => {
                let item = |(vid, e): (&u16, &Entry)| (*vid, e.vdp.messages());
                let _ = answer.send(all.iter().map(item).collect());
            }
            Command::Stop => return,
        }
    }
}

async fn update(
    common: &Rc<Common>,
    reception: &Reception,
    all: &mut BTreeMap<u16, Entry>,
    wanted: Vec<Wanted>,
) -> Vec<String> {
    let stays = |vid: &u16| wanted.iter().any(|w| w.vid.0 == *vid);
    let gone: Vec<u16> = all.keys().copied().filter(|v| !stays(v)).collect();
    for e in gone.iter().filter_map(|vid| all.remove(vid)) {
        e.vdp.delete();
        reception.awaited.forget(&e.vdp);
        e.vdp.stop(None, "its VDP was deleted");
        e.endpoints.iter().for_each(|p| p.stop(&e.vdp));
        e.stay.send_replace(Stay::No);
    }
    if !gone.is_empty() {
        let_go().await;
    }
    let mut told = Vec::new();
    for w in wanted {
        let vid = w.vid.0;
        let entry = match all.remove(&vid) {
            Some(old) => changed(old, w),
            None => match made(common, w) {
                Ok(e) => e,
                Err(why) => {
                    told.push(why);
                    continue;
                }
            },
        };
        all.insert(vid, endpoints(entry, &mut told).await);
    }
    told
}

/// A switch for a VDP that had none.
fn made(common: &Rc<Common>, w: Wanted) -> Result<Entry, String> {
    let (sink, punts) = punts::ring();
    let lost = punts.lost();
    let vid = w.vid;
    let sunk = common.plane.call(move |p| p.set_punt_sink(vid, Some(Box::new(sink))));
    match sunk {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Err(format!("{}: {e}", called(w.vid, &w.name))),
        Err(e) => return Err(format!("{}: {e}", called(w.vid, &w.name))),
    }
    let switch = Switch::new(w.config(), common.clock.now());
    let vdp = Rc::new(Vdp::new(
        w.vid,
        called(w.vid, &w.name),
        Rc::clone(common),
        w.plan.connections,
        switch,
    ));
    let (stay, staying) = watch::channel(Stay::Yes);
    // Its VDP drops what it has no flow for, or whatever its fail mode says, from here on.
    vdp.tick(common.clock.now()).map_err(|e| format!("{}: {e}", called(w.vid, &w.name)))?;
    spawn_local(keeper::keep(Rc::clone(&vdp), punts, staying));
    let moving = Moving::default();
    Ok(Entry { wanted: w, vdp, endpoints: Vec::new(), lost, moving, stay })
}

/// A switch whose ports, queues or manners may have changed.
fn changed(mut e: Entry, w: Wanted) -> Entry {
    let stays = |no: Port| w.ports.iter().any(|(_, p)| p.no == no);
    for (_, p) in e.wanted.ports.iter().filter(|(_, p)| !stays(p.no)) {
        e.vdp.port_changed(PortUpdate::Gone(p.no));
    }
    for (_, p) in &w.ports {
        e.vdp.port_changed(PortUpdate::Is(p.clone()));
    }
    if e.wanted.queues != w.queues {
        e.vdp.switch(|s| s.set_queues(w.queues.clone()));
    }
    e.vdp.how.set(w.plan.connections);
    let (before, mode) = (e.wanted.fail_mode(), w.fail_mode());
    e.wanted = w;
    if before != mode {
        let now = e.vdp.common.clock.now();
        e.vdp.switch(|s| s.set_fail_mode(mode, now));
        // Whose VDP is gone is deleted next.
        let _ = e.vdp.tick(now);
    }
    e
}

/// Starts and ends controllers and listeners; those that stay are not touched.
async fn endpoints(mut e: Entry, told: &mut Vec<String>) -> Entry {
    let plan = &e.wanted.plan;
    let controllers = plan.controllers.iter().map(|c| {
        let tls = plan.tls.clone().filter(|_| c.security == Security::Tls);
        (What::Controller(c.clone()), tls)
    });
    let listeners = plan.listen.iter().map(|l| {
        let tls = plan.tls.clone().filter(|_| l.security == Security::Tls);
        (What::Listener(*l), tls)
    });
    let mut wanted: Vec<_> = controllers.chain(listeners).collect();
    let vdp = &e.vdp;
    let before = e.endpoints.len();
    e.endpoints.retain(|p| {
        let found = wanted.iter().position(|(what, tls)| *what == p.what && *tls == p.tls);
        match found {
            Some(at) => {
                wanted.remove(at);
            }
            None => p.stop(vdp),
        }
        found.is_some()
    });
    if e.endpoints.len() < before {
        let_go().await;
    }
    let called = called(e.wanted.vid, &e.wanted.name);
    for (what, tls) in wanted {
        let p = Endpoint::new(vdp.common.number(), &called, what.clone(), tls);
        match what {
            What::Controller(c) => {
                spawn_local(connect::keep(Rc::clone(vdp), Rc::clone(&p), c));
            }
            What::Listener(l) => {
                let bound = match listen::bind(l.at) {
                    Ok(bound) => {
                        p.facts.borrow_mut().at = bound.local_addr().ok();
                        Some(bound)
                    }
                    Err(error) => {
                        let why = format!("can't listen: {error}");
                        told.push(format!("{called}: {}: {why}", p.what));
                        p.facts.borrow_mut().last_error = Some(why);
                        None
                    }
                };
                spawn_local(listen::serve(Rc::clone(vdp), Rc::clone(&p), l, bound));
            }
        }
        e.endpoints.push(p);
    }
    e
}

/// Whoever was stopped lets go of its address, which may be wanted again at once.
async fn let_go() {
    for _ in 0..LETTING_GO {
        yield_now().await;
    }
}

fn called(vid: Vid, name: &str) -> String {
    format!("VDP {vid} ({name})")
}
