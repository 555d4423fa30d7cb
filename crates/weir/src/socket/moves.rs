//! A VDP's way to another node and back, step by step: what whoever moves it asks of each node.
//!
//! Room: between the node API's threads and [`Live`]; frames are the data plane's (`send_away` and what
//! stands beside it), switches and their connections those of `crate::openflow::moves`. Each step may be
//! asked for twice; `Status` says how far it came. [`crate::net::moving`] knows the order.

use super::handler::{bad, find};
use super::lines::Lines;
use super::live::{Live, NotDone};
use super::protocol::{Done, Item, Reply, from_hex, to_hex};
use super::server::reply;
use crate::config::plan::VdpPlan;
use crate::config::vdp_steps::refill;
use crate::openflow::moves::{Ask, Pieces, Place, Stage};
use crate::openflow::relay::Peer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_agent::{count_plain, tally_plain};
use weir_dataplane::{DataPlane, Path, Phase, RuleRef, Vid};
use weir_packet::Nanos;

/// A step of a VDP's way to another node, or back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Way {
    /// Says how far it came.
    Status {},
    /// Puts its switch to rest, and gives all that it is but counters.
    Pack {},
    /// Makes ready to take pieces in: it has the rules of its section, no more.
    Renew {},
    /// Takes pieces of its switch in.
    Take {
        /// In hexadecimal digits.
        pieces: Vec<String>,
    },
    /// Has its frames go on by these ports, in the order of its own; done when they do. Of one that is away those that
    /// are handed on are counted anew.
    Leave {
        /// Their names.
        ports: Vec<String>,
        /// For how many milliseconds frames may be held before it.
        ms: u64,
    },
    /// Gives what it has counted; its frames are past.
    Tally {},
    /// Takes pieces of counters in.
    Count {
        /// In hexadecimal digits.
        pieces: Vec<String>,
    },
    /// Says where its connections can come.
    Accept {},
    /// Has its connections go on there.
    HandOver {
        /// The address.
        at: String,
        /// What it is known by.
        token: String,
    },
    /// Has its connections go back to where they came from.
    SendBack {},
    /// Ends its connections that another node has: that one does not give them back.
    LetGo {},
    /// Has its connections be its own again.
    Home {},
    /// Holds its frames, so that those that were handed on can come back, for at most so long.
    Hold {
        /// In milliseconds.
        ms: u64,
    },
    /// Waits until so many frames have come and none is inside.
    Settle {
        /// How many.
        received: u64,
        /// For at most so many milliseconds.
        ms: u64,
        /// When none has come for so many milliseconds, those that are missing are lost; they never are
        /// where this is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quiet_ms: Option<u64>,
    },
    /// Has it process its frames again when so many have come back; done when it does.
    Fetch {
        /// "fast" or "slow".
        path: String,
        /// How many.
        came: u64,
        /// See `Settle`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quiet_ms: Option<u64>,
    },
    /// Has it be away on, if its frames are held.
    Stay {},
    /// Wakes its switch; for one that is back, forgets that it was away.
    Wake {},
}

/// How far a VDP came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MovingItem {
    /// As in `show`.
    pub phase: String,
    /// Its switch: "awake", "resting", "asleep", "coming", "come" or "whole".
    pub stage: String,
    /// Pieces of counters that have come.
    pub counted: usize,
    /// Frames handed on since it left, come back, and waiting to be handed on.
    pub sent: u64,
    /// See `sent`.
    pub came: u64,
    /// See `sent`.
    pub waiting: u64,
    /// Frames of it that this data plane received, sent, and has.
    pub received: u64,
    /// See `received`.
    pub forwarded: u64,
    /// See `received`.
    pub held: usize,
    /// Frames held during the last step of its way.
    pub hold_frames: u64,
    /// How long the first of them waited.
    pub hold_ns: u64,
}

/// Where its connections can come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlaceItem {
    /// The address.
    pub at: String,
    /// What it is known by, in hexadecimal digits.
    pub token: String,
}

/// How moves of VDPs without a switch stand.
#[derive(Debug, Default)]
pub struct Plain(Mutex<BTreeMap<u16, Stage>>);

/// How moves of all VDPs stand.
pub fn stages(live: &Live) -> BTreeMap<u16, Stage> {
    let mut all = live.switches().stages();
    all.extend(live.plain().0.lock().unwrap_or_else(PoisonError::into_inner).iter());
    all
}

/// How long a VDP that was told how long it may take is waited for.
const ARRIVING: Duration = Duration::from_secs(2);
/// Frames may be held for so many milliseconds.
const MOST_MS: u64 = 1000;
/// Chunks that must be free for frames that come back to be read.
const ROOM: usize = 256;
/// How often it is looked how far a VDP is.
const LOOK: Duration = Duration::from_micros(100);

/// Carries a step out and returns the last line of its answer.
///
/// # Errors
/// The client has gone.
pub fn handle(vdp: &str, way: Way, live: &Live, lines: &mut Lines) -> io::Result<Reply> {
    let vid = match live.look(|m| find(m, vdp).map(|v| (v.vid, v.openflow.is_some()))) {
        Ok(Ok(v)) => v,
        Ok(Err(e)) => return Ok(super::handler::refusal(&e)),
        Err(e) => return Ok(super::handler::refusal(&e.into())),
    };
    let mover = Mover { live, vid: vid.0, switch: if vid.1 { Is::Switch } else { Is::Plain } };
    match way {
        Way::Pack {} | Way::Tally {} => mover.pieces(&way, lines),
        way => match mover.step(way) {
            Ok(Some(item)) => {
                reply(lines, &Reply::Item(item))?;
                Ok(Reply::Ok(Done::default()))
            }
            Ok(None) => Ok(Reply::Ok(Done::default())),
            Err(e) => Ok(super::handler::refusal(&e)),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// An OpenFlow switch.
    Switch,
    Plain,
}

struct Mover<'a> {
    live: &'a Live,
    vid: Vid,
    switch: Is,
}

impl Mover<'_> {
    fn plain<R>(&self, f: impl FnOnce(&mut BTreeMap<u16, Stage>) -> R) -> R {
        f(&mut self.live.plain().0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stage(&self) -> Stage {
        let there = match self.switch {
            Is::Switch => self.live.switches().stages().get(&self.vid.0).copied(),
            Is::Plain => self.plain(|p| p.get(&self.vid.0).copied()),
        };
        there.unwrap_or(Stage::Awake)
    }

    fn ask(
        &self,
        what: impl FnOnce(std::sync::mpsc::SyncSender<Result<(), String>>) -> Ask,
    ) -> Result<(), NotDone> {
        match self.live.switches().moving(self.vid.0, what) {
            Some(done) => done.map_err(bad),
            None => Err(bad(format!("VDP {}: its switch does not answer: try again", self.vid))),
        }
    }

    fn pieces(&self, way: &Way, lines: &mut Lines) -> io::Result<Reply> {
        let mut tell = |piece: Vec<u8>| reply(lines, &Reply::Item(Item::Piece(to_hex(&piece))));
        let (vid, tally) = (self.vid, matches!(way, Way::Tally {}));
        if self.switch == Is::Switch {
            let to = self.live.switches();
            match tally {
                true => to.pieces(vid.0, Ask::Tally, tell)?,
                false => to.pieces(vid.0, Ask::Pack, tell)?,
            }
            return Ok(Reply::Ok(Done::default()));
        }
        let next = if tally { Stage::Asleep } else { Stage::Resting };
        self.plain(|p| p.insert(vid.0, next));
        if tally {
            let pieces = self.live.with(move |p, m| {
                let v = m.plan.vdps.get(&vid.0)?;
                let (groups, meters) = (v.groups.keys().copied(), v.meters.keys().copied());
                let (groups, meters) = (groups.collect(), meters.collect());
                tally_plain(vid, &rules(p, v), groups, meters, p).ok()
            });
            match pieces {
                Ok(pieces) => pieces.into_iter().flatten().try_for_each(&mut tell)?,
                Err(e) => return Ok(super::handler::refusal(&e.into())),
            }
        }
        Ok(Reply::Ok(Done::default()))
    }

    fn step(&self, way: Way) -> Result<Option<Item>, NotDone> {
        let (live, vid) = (self.live, self.vid);
        match way {
            Way::Pack {} | Way::Tally {} => {}
            Way::Status {} => return self.status().map(|i| Some(Item::Moving(i))),
            Way::Renew {} => self.renew()?,
            Way::Take { pieces } => self.take(Pieces::Switch, &pieces)?,
            Way::Count { pieces } => self.take(Pieces::Tallies, &pieces)?,
            Way::Leave { ports, ms } => self.leave(ports, limit(ms))?,
            Way::Accept {} => return self.accept(),
            Way::HandOver { at, token } => self.hand_over(at, &token)?,
            Way::SendBack {} if self.switch == Is::Switch => self.ask(Ask::SendBack)?,
            Way::Home {} if self.switch == Is::Switch => self.ask(Ask::Home)?,
            Way::LetGo {} if self.switch == Is::Switch => self.ask(Ask::LetGo)?,
            Way::SendBack {} | Way::Home {} | Way::LetGo {} => {}
            Way::Hold { ms } => {
                live.handle().call(move |p| p.hold_for_return(vid, limit(ms)))?.map_err(bad)?;
                return self.status().map(|i| Some(Item::Moving(i)));
            }
            Way::Fetch { path, came, quiet_ms } => {
                self.fetch(super::handler::path(&path)?, came, quiet_ms)?;
                return self.status().map(|i| Some(Item::Moving(i)));
            }
            Way::Stay {} => {
                live.handle().call(move |p| p.leave_away(vid))?.map_err(bad)?;
            }
            Way::Settle { received, ms, quiet_ms } => {
                self.settle(received, limit(ms), quiet_ms)?;
                return self.status().map(|i| Some(Item::Moving(i)));
            }
            Way::Wake {} => self.wake()?,
        }
        Ok(None)
    }

    /// Waits until no frame is held, then says where the VDP is.
    fn arrived(&self) -> Result<Phase, NotDone> {
        let (vid, until) = (self.vid, Instant::now() + ARRIVING);
        loop {
            let phase = self.live.handle().call(move |p| p.phase(vid))?.map_err(bad)?;
            if !phase.is_on_its_way() {
                return Ok(phase);
            }
            if Instant::now() >= until {
                return Err(bad(format!("VDP {vid} is still on its way: try again")));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn not_in_time(&self, what: &str) -> NotDone {
        let text =
            "so it is where it was, with nothing lost: try again, or with fewer frames under way";
        bad(format!("VDP {}: its frames {what} in time, {text}", self.vid))
    }

    /// Waits until so many frames have come here, and all that came have left.
    fn settle(&self, received: u64, limit: Nanos, quiet_ms: Option<u64>) -> Result<(), NotDone> {
        let (vid, begun) = (self.vid, Instant::now());
        let (mut last, mut since) = (None, begun);
        loop {
            let now = self.live.handle().call(move |p| p.passed(vid))?.map_err(bad)?;
            if last != Some(now) {
                (last, since) = (Some(now), Instant::now());
            }
            if !now.under_way && (now.received >= received || is_quiet(since, quiet_ms)) {
                return Ok(());
            }
            if begun.elapsed() >= Duration::from_nanos(limit.0) {
                let of = format!("did not come ({} of {received})", now.received);
                return Err(self.not_in_time(&of));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Has frames processed here again when `came` have come back, or no more come.
    fn fetch(&self, path: Path, came: u64, quiet_ms: Option<u64>) -> Result<(), NotDone> {
        let (vid, mut last, mut since) = (self.vid, None, Instant::now());
        self.live.handle().call(move |p| p.bring_back(vid, path, came))?.map_err(bad)?;
        let mut back = 0;
        loop {
            let (phase, away, room) = self
                .live
                .handle()
                .call(move |p| (p.phase(vid), p.away(vid), p.pool_mut().available()))?;
            match phase.map_err(bad)? {
                Phase::On(_) => return Ok(()),
                Phase::Coming { .. } => {}
                _ => {
                    let of = format!("did not come back ({back} of {came})");
                    return Err(self.not_in_time(&of));
                }
            }
            let now = away.map_err(bad)?.map_or(0, |(_, handed)| handed.came);
            back = now;
            // Without room for frames their silence says nothing.
            if last != Some(now) || room < ROOM {
                (last, since) = (Some(now), Instant::now());
            } else if now < came && is_quiet(since, quiet_ms) {
                // Lost on the way: whoever asked says so. It may have arrived meanwhile.
                let _ = self.live.handle().call(move |p| p.bring_back(vid, path, now))?;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn status(&self) -> Result<MovingItem, NotDone> {
        let vid = self.vid;
        let (view, away) = self.live.handle().call(move |p| (p.vdp_view(vid), p.away(vid)))?;
        let view = view.ok_or_else(|| bad(format!("VDP {vid} has gone")))?;
        let (told, handed) = away.map_err(bad)?.unwrap_or_default();
        let stage = self.stage();
        let counted = if let Stage::Come(n) = stage { n } else { 0 };
        Ok(MovingItem {
            phase: super::view::phase_name(view.phase).to_owned(),
            stage: stage.word().unwrap_or_else(|| "awake".to_owned()),
            counted,
            sent: handed.sent,
            came: handed.came,
            waiting: handed.waiting,
            received: view.counters.received.frames,
            forwarded: view.counters.forwarded.frames,
            held: view.held,
            hold_frames: told.held,
            hold_ns: told.hold_ns,
        })
    }

    fn renew(&self) -> Result<(), NotDone> {
        let vid = self.vid;
        if self.switch == Is::Switch {
            self.ask(Ask::Renew)?;
        } else {
            self.plain(|p| p.insert(vid.0, Stage::Come(0)));
        }
        self.live
            .with(move |p, m| {
                // A VDP that was made for this has nothing yet.
                if p.phase(vid)? == Phase::Away {
                    p.clear_away(vid)?;
                    refill(p, m, vid);
                }
                Ok::<_, weir_dataplane::ControlError>(())
            })?
            .map_err(bad)
    }

    fn take(&self, what: Pieces, hex: &[String]) -> Result<(), NotDone> {
        let pieces: Option<Vec<Vec<u8>>> = hex.iter().map(|h| from_hex(h)).collect();
        let pieces = pieces.ok_or_else(|| bad("a piece that is not in hexadecimal digits"))?;
        let vid = self.vid;
        match (self.switch, what) {
            (Is::Switch, _) => self.ask(|to| Ask::Take(what, pieces, to)),
            (Is::Plain, Pieces::Switch) => Err(bad(format!("VDP {vid} is no switch"))),
            (Is::Plain, Pieces::Tallies) => {
                if self.stage() == Stage::Whole {
                    return Ok(());
                }
                let done = self.live.with(move |p, m| {
                    let v = m.plan.vdps.get(&vid.0)?;
                    let rules = rules(p, v);
                    Some(count_plain(vid, rules, &pieces, p))
                })?;
                done.ok_or_else(|| bad(format!("VDP {vid} has gone")))?.map_err(bad)?;
                self.plain(|p| p.insert(vid.0, Stage::Whole));
                Ok(())
            }
        }
    }

    fn leave(&self, names: Vec<String>, limit: Nanos) -> Result<(), NotDone> {
        let vid = self.vid;
        let sent = self.live.with(move |p, m| {
            if p.phase(vid).is_ok_and(|p| p == Phase::Away) {
                // It goes on at another node than the one that has gone with it.
                return p.hand_on_anew(vid).map_err(bad);
            }
            let mut ports = Vec::new();
            for n in &names {
                let id = m.ids.get(n);
                ports.push(*id.ok_or_else(|| bad(format!("there is no port '{n}'")))?);
            }
            p.send_away(vid, &ports, limit).map_err(bad)?;
            m.away.insert(vid.0, names);
            Ok::<_, NotDone>(())
        })?;
        sent?;
        match self.arrived()? {
            Phase::Away => Ok(()),
            _ => {
                self.live
                    .with(move |p, m| {
                        m.away.remove(&vid.0);
                        p.end_away(vid)
                    })?
                    .map_err(bad)?;
                Err(self.not_in_time("did not leave"))
            }
        }
    }

    fn accept(&self) -> Result<Option<Item>, NotDone> {
        if self.switch == Is::Plain {
            return Ok(None);
        }
        let place = self.live.switches().moving(self.vid.0, Ask::Accept);
        let none = || bad(format!("VDP {}: its switch does not answer: try again", self.vid));
        let Place { at, token } = place.ok_or_else(none)?.map_err(bad)?;
        Ok(Some(Item::Place(PlaceItem { at: at.to_string(), token: to_hex(&token) })))
    }

    fn hand_over(&self, at: String, token: &str) -> Result<(), NotDone> {
        if self.switch == Is::Plain {
            return Ok(());
        }
        let token = from_hex(token).and_then(|t| t.try_into().ok());
        let token = token.ok_or_else(|| bad("a token has 32 hexadecimal digits"))?;
        let peer = Peer { at, identity: self.live.switches().identity(), token };
        self.ask(|to| Ask::HandOver(Box::new(peer), to))
    }

    fn wake(&self) -> Result<(), NotDone> {
        let vid = self.vid;
        self.live
            .with(move |p, m| match p.phase(vid)? {
                Phase::On(_) => {
                    m.away.remove(&vid.0);
                    p.end_away(vid)
                }
                _ => Ok(()),
            })?
            .map_err(bad)?;
        match self.switch {
            Is::Switch => self.ask(Ask::Wake),
            Is::Plain => {
                self.plain(|p| p.remove(&vid.0));
                Ok(())
            }
        }
    }
}

/// Whether nothing has come for so long that what is missing is lost.
fn is_quiet(since: Instant, quiet_ms: Option<u64>) -> bool {
    quiet_ms.is_some_and(|ms| since.elapsed() >= Duration::from_millis(ms))
}

fn limit(ms: u64) -> Nanos {
    Nanos::from_millis(ms.min(MOST_MS))
}

/// The rules of a VDP's section, in their order there; one that is not there is left out on both nodes.
fn rules(p: &DataPlane, v: &VdpPlan) -> Vec<RuleRef> {
    let at = |r: &crate::config::plan::RulePlan| {
        p.rule_ref(v.vid, r.table, &r.spec.matcher, r.spec.priority)
    };
    v.rules_in_order().into_iter().filter_map(at).collect()
}
