//! Switches that move to another node, or have come from one: packed, unpacked, put to rest, woken, their
//! connections sent after them.
//!
//! Room: on the switches' thread; `hub` hands requests on. What is long is done piece by piece, others
//! having their turn in between. Each request may be made twice.

use super::hub::Entry;
use super::relay::accept::{self, Awaited};
use super::relay::{Peer, Token};
use super::tls::Current;
use super::vdp::{Manner, Unreached, Vdp};
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;
use weir_agent::{Packing, PlaneGone, Switch, Tallying, Unpacking};

/// How long connections may take to change places.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many attempts in a row to which nobody listens, and there is nobody: who is waited for said that he listens.
const CERTAIN: u32 = 3;
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_micros(500);

/// What is asked of a switch.
#[derive(Debug)]
pub enum Ask {
    /// Rest, and give all that it is but its counters.
    Pack(mpsc::Sender<Vec<u8>>),
    /// Give what it has counted, and fall asleep: its frames are past.
    Tally(mpsc::Sender<Vec<u8>>),
    /// Fall asleep as a new switch, to take pieces in.
    Renew(SyncSender<Answer>),
    /// Take pieces in.
    Take(Pieces, Vec<Vec<u8>>, SyncSender<Answer>),
    /// Have its connections go on at another node.
    HandOver(Box<Peer>, SyncSender<Answer>),
    /// Have its connections go back to the node that they came from.
    SendBack(SyncSender<Answer>),
    /// End those of its connections that another node has, which does not give them back.
    LetGo(SyncSender<Answer>),
    /// Its connections are its own again; those that were relayed have come back.
    Home(SyncSender<Answer>),
    /// Say where connections from another node can come.
    Accept(SyncSender<Result<Place, String>>),
    /// Wake up.
    Wake(SyncSender<Answer>),
}

/// What became of it.
pub type Answer = Result<(), String>;

/// Where connections from another node can come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub at: SocketAddr,
    /// What the VDP is known by there.
    pub token: Token,
}

/// Which pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Of all but counters.
    Switch,
    /// Of counters.
    Tallies,
}

/// Where connections from other nodes come, once there is such a place.
pub struct Reception {
    /// Beside the node API: its address and identity.
    beside: Option<(IpAddr, Current)>,
    /// VDPs whose connections may come.
    pub awaited: Awaited,
    at: Cell<Option<SocketAddr>>,
}

impl Reception {
    /// Beside the node API, at its address and with its identity; else on the loopback.
    pub fn new(beside: Option<(IpAddr, Current)>) -> Self {
        Self { beside, awaited: Awaited::default(), at: Cell::new(None) }
    }
    fn open(&self) -> Result<SocketAddr, String> {
        if let Some(at) = self.at.get() {
            return Ok(at);
        }
        let (ip, identity) = match &self.beside {
            Some((ip, i)) => (*ip, Some(i.clone())),
            None => (std::net::Ipv4Addr::LOCALHOST.into(), None),
        };
        let at = accept::open(ip, identity, self.awaited.clone());
        let at = at.map_err(|e| format!("no place for connections from other nodes: {e}"))?;
        self.at.set(Some(at));
        Ok(at)
    }
}

/// How a switch's move stands.
#[derive(Debug, Default)]
pub struct Moving {
    /// What was taken in, while it is being taken in.
    unpacking: Option<Unpacking>,
    /// Pieces of counters so far.
    tallied: usize,
    token: Option<Token>,
}

/// How a switch's move stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is awake: there is none.
    Awake,
    /// It rests, to be packed.
    Resting,
    /// It sleeps: what it was is elsewhere.
    Asleep,
    /// It sleeps, and not all of it has come.
    Coming,
    /// It sleeps, and so many pieces of its counters have come.
    Come(usize),
    /// It sleeps, and all has come.
    Whole,
}

impl Stage {
    /// Its word; none for a switch that is awake.
    pub fn word(self) -> Option<String> {
        let word = match self {
            Self::Awake => return None,
            Self::Resting => "resting",
            Self::Asleep => "asleep",
            Self::Coming => "coming",
            Self::Come(_) => "come",
            Self::Whole => "whole",
        };
        Some(word.to_owned())
    }
}

impl Moving {
    /// How it stands.
    pub fn stage(&self, manner: Manner) -> Stage {
        match (manner, &self.unpacking) {
            (Manner::Awake, _) => Stage::Awake,
            (Manner::Resting, _) => Stage::Resting,
            (Manner::Asleep, None) => Stage::Asleep,
            (Manner::Asleep, Some(u)) if u.is_tallied() => Stage::Whole,
            (Manner::Asleep, Some(u)) if u.is_whole() => Stage::Come(self.tallied),
            (Manner::Asleep, Some(_)) => Stage::Coming,
        }
    }
}

/// Does what is asked, or begins to.
pub async fn serve(e: &mut Entry, reception: &Reception, ask: Ask) {
    // Whoever asked may have given up.
    match ask {
        Ask::Pack(to) => {
            if e.vdp.set_manner(Manner::Resting).is_ok() {
                spawn_local(pack(Rc::clone(&e.vdp), to));
            }
        }
        Ask::Tally(to) => {
            // What frames have asked for before they were past is told first.
            while e.lost.any_wait() && e.vdp.manner() != Manner::Asleep {
                sleep(LOOK).await;
            }
            if e.vdp.set_manner(Manner::Asleep).is_ok() {
                spawn_local(tally(Rc::clone(&e.vdp), to));
            }
        }
        Ask::Renew(to) => drop(to.send(renew(e).map_err(|g| g.to_string()))),
        Ask::Take(what, pieces, to) => drop(to.send(take(e, what, &pieces))),
        Ask::HandOver(peer, to) => {
            e.vdp.set_away(Some(Rc::new(*peer)));
            spawn_local(wait(Rc::clone(&e.vdp), to, |(here, under_way, _)| here + under_way == 0));
        }
        Ask::SendBack(to) => {
            e.vdp.send_back();
            spawn_local(wait(Rc::clone(&e.vdp), to, |(here, ..)| here == 0));
        }
        Ask::LetGo(to) => {
            e.vdp.let_go("the node that it was at has been given up");
            spawn_local(wait(Rc::clone(&e.vdp), to, |(_, under_way, gone)| under_way + gone == 0));
        }
        Ask::Home(to) => {
            e.vdp.set_away(None);
            spawn_local(wait(Rc::clone(&e.vdp), to, |(_, under_way, gone)| under_way + gone == 0));
        }
        Ask::Accept(to) => {
            let place = reception.open().map(|at| {
                let token = *e.moving.token.get_or_insert_with(token);
                reception.awaited.add(token, &e.vdp);
                Place { at, token }
            });
            drop(to.send(place));
        }
        Ask::Wake(to) => {
            e.moving.unpacking = None;
            e.moving.tallied = 0;
            drop(to.send(e.vdp.set_manner(Manner::Awake).map_err(|g| g.to_string())));
        }
    }
}

async fn pack(vdp: Rc<Vdp>, to: mpsc::Sender<Vec<u8>>) {
    let mut packing = vdp.with(|_, _, now| Packing::new(now));
    while let Some(piece) = vdp.with(|s, _, _| s.pack(&mut packing)) {
        if to.send(piece).await.is_err() {
            return;
        }
        yield_now().await;
    }
}

async fn tally(vdp: Rc<Vdp>, to: mpsc::Sender<Vec<u8>>) {
    let mut tallying = Tallying::default();
    while let Ok(Some(piece)) = vdp.with(|s, p, now| s.pack_tallies(&mut tallying, now, p)) {
        if to.send(piece).await.is_err() {
            return;
        }
        yield_now().await;
    }
}

fn renew(e: &mut Entry) -> Result<(), PlaneGone> {
    e.vdp.set_manner(Manner::Asleep)?;
    let config = e.wanted.config();
    e.vdp.with(|s, _, now| *s = Switch::new(config, now));
    e.moving.unpacking = Some(Unpacking::default());
    e.moving.tallied = 0;
    Ok(())
}

fn take(e: &mut Entry, what: Pieces, pieces: &[Vec<u8>]) -> Answer {
    let Some(u) = &mut e.moving.unpacking else {
        return Err("it was not told that pieces come: begin anew".to_owned());
    };
    for piece in pieces {
        let done = e.vdp.with(|s, p, now| match what {
            Pieces::Switch => s.unpack(u, piece, now, p),
            Pieces::Tallies => s.unpack_tallies(u, piece, now, p),
        });
        done.map_err(|e| e.to_string())?;
        e.moving.tallied += usize::from(what == Pieces::Tallies);
    }
    Ok(())
}

/// Waits until connections have changed places.
async fn wait(vdp: Rc<Vdp>, to: SyncSender<Answer>, done: impl Fn((usize, usize, usize)) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done(vdp.connections()) {
        let late = Instant::now() >= until;
        let unreached = vdp.unreached().filter(|u| late || u.times >= CERTAIN);
        if let (Some(u), Some(peer)) = (unreached, vdp.goes_to()) {
            return drop(to.send(Err(unreachable(&peer.at, &u))));
        }
        if late {
            let (here, under_way, gone) = vdp.connections();
            let text = format!(
                "connections have not changed places within {} s: {here} are here, {under_way} \
                 under way, {gone} gone: try again",
                PATIENCE.as_secs()
            );
            return drop(to.send(Err(text)));
        }
        sleep(LOOK).await;
    }
    drop(to.send(Ok(())));
}

/// Why connections can't follow their switch to this address. A host without a node API listens on its loopback, which is this one's
/// own only in one network namespace.
fn unreachable(at: &str, u: &Unreached) -> String {
    let why = &u.why;
    let loopback = at.parse::<SocketAddr>().is_ok_and(|a| a.ip().is_loopback());
    let mend = match u.times > 0 && loopback {
        true => ": both hosts must share a network namespace, or be reached by api = \"HOST:PORT\"",
        false => "",
    };
    format!("controllers' connections can't follow: can't reach {at}: {why}{mend}")
}

/// Drawn by the system for hash maps.
fn token() -> Token {
    let one = || RandomState::new().hash_one(Instant::now()).to_be_bytes();
    let (a, b) = (one(), one());
    let mut out = [0; 16];
    out.iter_mut().zip(a.into_iter().chain(b)).for_each(|(to, b)| *to = b);
    out
}
