//! Nodes moved from one physical node to another, and back, frames flowing.
//!
//! Room: the order of the steps that [`crate::socket::moves`] carries out on each node; what must be there
//! is worked out by `weir_supervisor::away`. Nothing is remembered here: each node says how far it came,
//! so whoever is killed in between is followed by another that goes on, or back. Called by [`super::change`]
//! once everything else of a lab holds.
//!
//! Out: tunnels and the body are made; the switch rests and is packed into the body's (frames go on being
//! forwarded at home); the home hands frames on from one moment to the next; counters follow, which add up
//! in any order; connections follow; the body's switch wakes. Back: the body's switch rests and is packed
//! into the one at home; the home holds frames until those under way have come back, and processes them
//! again; counters and connections follow; the body goes.

use super::flows::Flows;
use super::nodes::Nodes;
use crate::socket::moves::{MovingItem, PlaceItem, Way};
use crate::socket::protocol::{Item, Request};
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use weir_supervisor::away::{self, Body, Tunnel};
use weir_supervisor::model::{Lab, Network, Node};
use weir_supervisor::observed::Observed;
use weir_supervisor::store::{Places, State};

/// How long frames may be held, in milliseconds, attempt by attempt: a node that is late is tried again, and
/// has its frames meanwhile. What a tunnel has lost is found out by the last alone.
const HOLD_MS: [u64; 10] = [8, 8, 8, 16, 32, 64, 64, 64, 64, LAST_MS];
const LAST_MS: u64 = 400;
/// After so many milliseconds without a frame those that are missing are lost, in an attempt as long as the last.
const QUIET_MS: u64 = 100;
/// Between two attempts, the more the longer they are, so that frames are not held most of the time.
fn pause(ms: u64) -> Duration {
    Duration::from_millis(3).max(Duration::from_millis((2 * ms).saturating_sub(16)))
}
/// Between two looks at a node that others hold frames for.
const PAUSE: Duration = Duration::from_millis(3);
/// How long it is waited for tunnels without a queue before frames are held for what is in them. An attempt leaves
/// a queue behind, which goes the slower the busier the nodes are.
const CALMING: Duration = Duration::from_millis(500);
/// How long a node is waited for that holds frames for somebody who was killed.
const SETTLING: Duration = Duration::from_secs(3);
/// Digits of pieces in one request.
const TOGETHER: usize = 3 << 20;

/// How a node was moved: the proof that nothing was lost, for programs.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Moved {
    /// `NETWORK/NODE`.
    pub node: String,
    /// From this host.
    pub from: String,
    /// To this one.
    pub to: String,
    /// Frames that the home handed on, since the node left it.
    pub sent: u64,
    /// Frames of those that the body received.
    pub received: u64,
    /// Frames that the body sent back.
    pub returned: u64,
    /// Frames of those that the home received.
    pub back: u64,
    /// Frames that tunnels have lost, both ways.
    pub lost: u64,
    /// Frames that were held for a moment, at the home.
    pub buffered: u64,
    /// The longest that a frame was held, in nanoseconds.
    pub longest_pause_ns: u64,
    /// Bytes of the switch, and of its counters.
    pub state_bytes: usize,
    /// How long messages of controllers waited at most, in nanoseconds.
    pub control_pause_ns: u64,
}

impl Moved {
    /// Whether it is a node of a network.
    pub fn is_of(&self, n: &Network) -> bool {
        self.node.split_once('/').is_some_and(|(of, _)| of == n.name)
    }
}

/// What is known of nodes beside what their hosts say.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// Where they live.
    pub places: &'k Places,
    /// States that they may be in.
    pub states: &'k [State],
    /// Whose they are.
    pub store: u64,
}

/// A body of a node: its host and its number there.
type Here<'b> = &'b (String, u16, (String, String));

impl Known<'_> {
    /// Which of a node's bodies is its own. There are several where one was given up with a host that did not
    /// answer, and has come back with it: it is not the one that was made since, even where the node shall go there now.
    fn own<'b>(&self, n: &Network, v: &Node, bodies: &[Here<'b>]) -> Option<Here<'b>> {
        let old = |s: &State| s.lab.network(&n.name)?.node(&v.name)?.away.clone();
        let held = self.states.iter().filter_map(old);
        let wanted = v.away.iter().cloned();
        let places: Vec<String> = match self.states {
            // Nothing was interrupted: it is where it was.
            [_] => held.chain(wanted).collect(),
            // It may have gone already.
            _ => wanted.chain(held).collect(),
        };
        let mut likely = places.iter().filter_map(|p| bodies.iter().find(|(host, ..)| host == p));
        likely.next().or(bodies.first()).copied()
    }
}

/// Makes every node of a lab be where it shall be. Returns how nodes were moved. What is at a host that does
/// not answer is let alone.
///
/// # Errors
/// A node refuses a step, or does not answer; asked again, it goes on where it was.
pub fn lead(nodes: &mut Nodes, lab: &Lab, known: Known<'_>) -> Result<Vec<Moved>> {
    let store = known.store;
    let observed = nodes.observe()?;
    let mut out = Vec::new();
    let there = bodies(&observed, store);
    // Bodies of nodes that are no more.
    for (host, vid, (network, node)) in &there {
        let known = lab.network(network).and_then(|n| n.node(node));
        if known.is_none() {
            remove(nodes, host, *vid)?;
        }
    }
    for (n, v) in lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v))) {
        if !both_answer(nodes, v) {
            continue;
        }
        let Some(one) = one(nodes, (n, v), known, &observed, &there)? else { continue };
        let One { m, vid, body, moving } = one;
        if v.away.is_none() && body.is_none() && !moving {
            continue;
        }
        m.settled(nodes)?;
        // Where it is now and shall not be, it leaves first.
        if let Some((host, vid, _)) = body.filter(|(h, ..)| v.away.as_ref() != Some(h)) {
            out.extend(m.fetch(nodes, (host, *vid))?);
        } else if v.away.is_none() {
            m.wake_home(nodes)?;
        } else if body.is_some() && m.is_half_back(nodes)? {
            let (host, vid, _) = body.ok_or_else(|| anyhow!("it was there"))?;
            out.extend(m.fetch(nodes, (host, *vid))?);
        }
        if v.away.is_some() {
            let observed = nodes.observe()?;
            let body = away::body(lab, n, v, vid, &observed, store, &Flows);
            let body = body.map_err(|r| crate::net::lab::refused(None, &r))?;
            out.extend(m.send(nodes, &body, &observed)?);
        }
    }
    tunnels_go(nodes, lab, store)?;
    Ok(out)
}

/// Has nodes of a lab, each by its network and name, come home, wherever they shall be then: their hosts change none that is
/// away. Returns how they were moved.
///
/// # Errors
/// As [`lead`].
pub fn come_home(
    nodes: &mut Nodes,
    lab: &Lab,
    known: Known<'_>,
    which: &[(String, String)],
) -> Result<Vec<Moved>> {
    if which.is_empty() {
        return Ok(Vec::new());
    }
    let observed = nodes.observe()?;
    let there = bodies(&observed, known.store);
    let mut out = Vec::new();
    for (network, node) in which {
        let found = lab.network(network).and_then(|n| Some((n, n.node(node)?)));
        // Where it shall be it need not go now.
        let Some(at) = found.filter(|(_, v)| nodes.answers(&v.host)) else { continue };
        let Some(One { m, body, .. }) = one(nodes, at, known, &observed, &there)? else { continue };
        m.settled(nodes)?;
        match body {
            Some((host, vid, _)) => out.extend(m.fetch(nodes, (host, *vid))?),
            None => m.wake_home(nodes)?,
        }
    }
    Ok(out)
}

/// Whether its own host and the one that shall process a node answer.
fn both_answer(nodes: &Nodes, v: &Node) -> bool {
    [Some(&v.host), v.away.as_ref()].into_iter().flatten().all(|h| nodes.answers(h))
}

/// A node that may have to be moved.
struct One<'b> {
    m: Mover,
    /// Its number at home.
    vid: u16,
    /// Where it is processed, or was to be.
    body: Option<Here<'b>>,
    /// Whether its home says that it is away, or on its way.
    moving: bool,
}

/// How things are with a node; what is not its own body of several goes. `None`: it lives nowhere yet.
fn one<'b>(
    nodes: &mut Nodes,
    (n, v): (&Network, &Node),
    known: Known<'_>,
    observed: &Observed,
    there: &'b [(String, u16, (String, String))],
) -> Result<Option<One<'b>>> {
    let Some(place) = known.places.get(&format!("{}/{}", n.name, v.name)) else { return Ok(None) };
    let home = observed.get(&v.host).and_then(|h| h.vdps.iter().find(|o| o.vid == place.vid));
    let of = |(_, _, (nw, nd)): &Here<'_>| (nw, nd) == (&n.name, &v.name);
    let bodies: Vec<Here<'_>> = there.iter().filter(of).collect();
    let body = known.own(n, v, &bodies);
    for (host, vid, _) in bodies.iter().filter(|b| Some(**b) != body) {
        remove(nodes, host, *vid)?;
    }
    let m = Mover {
        node: format!("{}/{}", n.name, v.name),
        home: (v.host.clone(), place.vid),
        path: v.path.name(),
        store: known.store,
    };
    Ok(Some(One { m, vid: place.vid, body, moving: home.is_some_and(|o| o.moving) }))
}

/// All bodies that a store keeps.
fn bodies(observed: &Observed, store: u64) -> Vec<(String, u16, (String, String))> {
    let all = away::bodies(observed, store).into_iter();
    all.map(|(host, v, node)| (host.to_owned(), v.vid, node)).collect()
}

/// A node that moves.
struct Mover {
    node: String,
    home: (String, u16),
    path: &'static str,
    store: u64,
}

/// A VDP on a host.
type At<'a> = (&'a str, u16);

fn ask(nodes: &mut Nodes, (host, vid): At<'_>, way: Way) -> Result<Vec<Item>> {
    let request = Request::VdpMove { vdp: vid.to_string(), way };
    nodes.ask(host, request)
}

fn status(nodes: &mut Nodes, at: At<'_>, way: Way) -> Result<MovingItem> {
    ask(nodes, at, way)?
        .into_iter()
        .find_map(|i| match i {
            Item::Moving(m) => Some(m),
            _ => None,
        })
        .ok_or_else(|| anyhow!("host '{}': its answer has no end: is it older?", at.0))
}

fn pieces(nodes: &mut Nodes, at: At<'_>, way: Way) -> Result<Vec<String>> {
    let of = |i: Item| match i {
        Item::Piece(p) => Some(p),
        _ => None,
    };
    Ok(ask(nodes, at, way)?.into_iter().filter_map(of).collect())
}

fn give(
    nodes: &mut Nodes,
    at: At<'_>,
    pieces: &[String],
    way: impl Fn(Vec<String>) -> Way,
) -> Result<usize> {
    let mut rest = pieces;
    while !rest.is_empty() {
        let mut left = TOGETHER;
        let mut fits = |p: &&String| {
            let fits = p.len() <= left;
            left = left.saturating_sub(p.len());
            fits
        };
        let n = rest.iter().take_while(|p| fits(p)).count().max(1);
        ask(nodes, at, way(rest.get(..n).unwrap_or_default().to_vec()))?;
        rest = rest.get(n..).unwrap_or_default();
    }
    Ok(pieces.iter().map(|p| p.len() / 2).sum())
}

fn remove(nodes: &mut Nodes, host: &str, vid: u16) -> Result<()> {
    nodes.ask(host, Request::VdpDelete { vdp: vid.to_string() }).map(drop)
}

/// Takes tunnels away that no node of a lab needs, on every host.
fn tunnels_go(nodes: &mut Nodes, lab: &Lab, store: u64) -> Result<()> {
    let needed = away::tunnels_needed(lab, store);
    for (host, seen) in nodes.observe()? {
        for (name, _) in away::tunnels_at(&seen, store).filter(|(_, t)| !needed.contains(*t)) {
            nodes.ask(&host, Request::PortDelete { name: name.to_owned() })?;
        }
    }
    Ok(())
}

impl Mover {
    fn home(&self) -> At<'_> {
        (&self.home.0, self.home.1)
    }

    /// Whether frames are at home again and its counters are not.
    fn is_half_back(&self, nodes: &mut Nodes) -> Result<bool> {
        let s = status(nodes, self.home(), Way::Status {})?;
        Ok(s.phase != "away" && matches!(s.stage.as_str(), "come" | "whole"))
    }

    /// A node that never left, or is back, goes on. One whose body has gone with its host is again what it was
    /// when it left, and what was on its way is lost.
    fn wake_home(&self, nodes: &mut Nodes) -> Result<()> {
        if status(nodes, self.home(), Way::Status {})?.phase == "away" {
            // First, since who is killed in between is not followed by another that would.
            ask(nodes, self.home(), Way::LetGo {})?;
            self.resume(nodes)?;
        }
        ask(nodes, self.home(), Way::Home {})?;
        ask(nodes, self.home(), Way::Wake {}).map(drop)
    }

    /// Has frames processed at home again that went nowhere.
    fn resume(&self, nodes: &mut Nodes) -> Result<()> {
        let mut last = Ok(());
        for ms in HOLD_MS {
            let came = status(nodes, self.home(), Way::Hold { ms })?.came;
            let path = self.path.to_owned();
            last = ask(nodes, self.home(), Way::Fetch { path, came, quiet_ms: None }).map(drop);
            if last.is_err() {
                ask(nodes, self.home(), Way::Stay {})?;
            }
            if self.settled(nodes)?.phase != "away" {
                return Ok(());
            }
            std::thread::sleep(pause(ms));
        }
        last.with_context(|| self.node.clone())
    }

    /// How far the node came at home, where frames are held for nobody: whoever had them held is past.
    fn settled(&self, nodes: &mut Nodes) -> Result<MovingItem> {
        let until = Instant::now() + SETTLING;
        loop {
            let s = status(nodes, self.home(), Way::Status {})?;
            if matches!(s.phase.as_str(), "fast" | "slow" | "away") {
                return Ok(s);
            }
            if Instant::now() >= until {
                bail!("{}: it is '{}' at host '{}': try again", self.node, s.phase, self.home.0);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn tunnel_comes(&self, nodes: &mut Nodes, host: &str, t: &Tunnel, device: &str) -> Result<()> {
        let (name, device) = (t.name.clone(), device.to_owned());
        let label = away::tunnel_label(self.store, &name);
        nodes.ask(host, Request::PortPut { name, device, label }).map(drop)
    }

    /// To another host.
    fn send(&self, nodes: &mut Nodes, b: &Body, observed: &Observed) -> Result<Option<Moved>> {
        let home = self.home();
        let there = (b.away.0.as_str(), b.away.1);
        let is_body =
            observed.get(there.0).is_some_and(|h| h.vdps.iter().any(|v| v.vid == there.1));
        let left = status(nodes, home, Way::Status {})?.phase == "away";
        let seen = observed.get(home.0);
        let is_there = |t: &Tunnel| seen.is_some_and(|h| h.made.contains_key(&t.name));
        // Of one that goes on elsewhere than where it went the ways at home come last, so that nothing comes there that is not
        // counted at both ends; and whose are not there has not got there.
        let anew = left && !(is_body && b.tunnels.iter().all(is_there));
        if anew {
            // Where it was it may be still, cut off from us and not from its home.
            ask(nodes, home, Way::LetGo {})?;
            for t in b.tunnels.iter().filter(|t| is_there(t)) {
                nodes.ask(home.0, Request::PortDelete { name: t.name.clone() })?;
            }
        }
        let mut moved =
            Moved { node: self.node.clone(), from: home.0.to_owned(), ..Moved::default() };
        there.0.clone_into(&mut moved.to);
        for t in &b.tunnels {
            if !anew {
                self.tunnel_comes(nodes, home.0, t, &t.at_home)?;
            }
            self.tunnel_comes(nodes, there.0, t, &t.at_body)?;
        }
        let mut begun = Instant::now();
        if !left || anew {
            if is_body {
                remove(nodes, there.0, there.1)?;
            }
            nodes.ask(there.0, Request::VdpPut { toml: b.toml.clone() })?;
            ask(nodes, there, Way::Renew {})?;
            begun = Instant::now();
            let all = pieces(nodes, home, Way::Pack {})?;
            moved.state_bytes += give(nodes, there, &all, |pieces| Way::Take { pieces })?;
            self.leave(nodes, b)?;
        }
        if anew {
            for t in &b.tunnels {
                self.tunnel_comes(nodes, home.0, t, &t.at_home)?;
            }
        }
        if status(nodes, there, Way::Status {})?.stage == "awake" {
            return Ok(None);
        }
        moved.state_bytes += counters_follow(nodes, home, there)?;
        self.connections_follow(nodes, home, there)?;
        ask(nodes, there, Way::Wake {})?;
        moved.control_pause_ns = nanos(begun.elapsed());
        self.proof(nodes, there, &mut moved)?;
        Ok(Some(moved))
    }

    /// Frames go on at the body from one moment to the next.
    fn leave(&self, nodes: &mut Nodes, b: &Body) -> Result<()> {
        let mut last = Ok(());
        for ms in HOLD_MS {
            let ports = b.tunnels.iter().map(|t| t.name.clone()).collect();
            last = ask(nodes, self.home(), Way::Leave { ports, ms }).map(drop);
            if last.is_ok() {
                break;
            }
            // What was late may be in time; what is refused is refused again.
            self.settled(nodes)?;
            std::thread::sleep(pause(ms));
        }
        last.with_context(|| self.node.clone())
    }

    fn connections_follow(&self, nodes: &mut Nodes, home: At<'_>, there: At<'_>) -> Result<()> {
        let place = ask(nodes, there, Way::Accept {})?.into_iter().find_map(|i| match i {
            Item::Place(p) => Some(p),
            _ => None,
        });
        // A VDP that is no switch has none.
        let Some(PlaceItem { at, token }) = place else { return Ok(()) };
        let at = nodes.reached(there.0, &at);
        ask(nodes, home, Way::HandOver { at, token }).map(drop)
    }

    /// What passed the tunnels so far, once nothing is under way that could be waited for.
    fn proof(&self, nodes: &mut Nodes, there: At<'_>, moved: &mut Moved) -> Result<()> {
        let h = status(nodes, self.home(), Way::Status {})?;
        let b = status(nodes, there, Way::Status {})?;
        (moved.sent, moved.received) = (h.sent, b.received);
        (moved.returned, moved.back) = (b.forwarded, h.came);
        (moved.buffered, moved.longest_pause_ns) = (h.hold_frames, h.hold_ns);
        Ok(())
    }

    /// Home.
    fn fetch(&self, nodes: &mut Nodes, there: At<'_>) -> Result<Option<Moved>> {
        let home = self.home();
        let mut moved = Moved { node: self.node.clone(), ..Moved::default() };
        (moved.from, moved.to) = (there.0.to_owned(), home.0.to_owned());
        let begun = Instant::now();
        if status(nodes, home, Way::Status {})?.phase == "away" {
            // Whoever was killed when frames had left, and no counters.
            counters_follow(nodes, home, there)?;
            ask(nodes, home, Way::Renew {})?;
            let all = pieces(nodes, there, Way::Pack {})?;
            moved.state_bytes += give(nodes, home, &all, |pieces| Way::Take { pieces })?;
            self.frames_return(nodes, there, &mut moved)?;
        }
        moved.state_bytes += counters_follow(nodes, there, home)?;
        if status(nodes, home, Way::Status {})?.stage != "awake" {
            ask(nodes, there, Way::SendBack {})?;
        }
        ask(nodes, home, Way::Home {})?;
        ask(nodes, home, Way::Wake {})?;
        moved.control_pause_ns = nanos(begun.elapsed());
        remove(nodes, there.0, there.1)?;
        Ok(Some(moved))
    }

    /// Frames are held at home until those under way are back; then they are processed there.
    fn frames_return(&self, nodes: &mut Nodes, there: At<'_>, moved: &mut Moved) -> Result<()> {
        let mut last = Ok(());
        let mut missing = 0;
        for (n, ms) in HOLD_MS.into_iter().enumerate() {
            // Whatever is missing all that time, and still is after an attempt, no attempt brings back.
            missing = match self.calm(nodes, there)? {
                Calm::Missing => missing + 1,
                Calm::Arrived => 0,
            };
            let ms = if missing > 1 { LAST_MS } else { ms };
            let quiet_ms = (missing > 1 || n + 1 == HOLD_MS.len()).then_some(QUIET_MS);
            last = self.frames_return_within(nodes, there, ms, quiet_ms, moved);
            if last.is_err() {
                // They go on where they went. A node that does not answer can't be told.
                ask(nodes, self.home(), Way::Stay {})?;
            }
            let at = self.settled(nodes)?;
            moved.buffered += at.hold_frames;
            moved.longest_pause_ns = moved.longest_pause_ns.max(at.hold_ns);
            if at.phase != "away" {
                return Ok(());
            }
            std::thread::sleep(pause(ms));
        }
        last.with_context(|| self.node.clone())
    }

    /// Waits, for a while, until whatever was handed on arrives sooner than the next question is answered.
    fn calm(&self, nodes: &mut Nodes, there: At<'_>) -> Result<Calm> {
        let until = Instant::now() + CALMING;
        loop {
            let left = status(nodes, self.home(), Way::Status {})?.sent;
            let body = status(nodes, there, Way::Status {})?;
            let home = status(nodes, self.home(), Way::Status {})?;
            let arrived = body.received >= left && home.came >= body.forwarded;
            if arrived {
                return Ok(Calm::Arrived);
            }
            // What a tunnel has lost never arrives: an attempt finds that out.
            if Instant::now() >= until {
                return Ok(Calm::Missing);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The same within a time. Nodes wait by themselves, so frames are held for three questions and what is
    /// under way.
    fn frames_return_within(
        &self,
        nodes: &mut Nodes,
        there: At<'_>,
        ms: u64,
        quiet_ms: Option<u64>,
        moved: &mut Moved,
    ) -> Result<()> {
        let (home, path) = (self.home(), self.path.to_owned());
        let held = status(nodes, home, Way::Hold { ms })?;
        let received = held.sent + held.waiting;
        let b = status(nodes, there, Way::Settle { received, ms, quiet_ms })?;
        let h = status(nodes, home, Way::Fetch { path, came: b.forwarded, quiet_ms })?;
        (moved.sent, moved.received, moved.returned, moved.back) =
            (received, b.received, b.forwarded, h.came);
        moved.lost = received.saturating_sub(b.received) + b.forwarded.saturating_sub(h.came);
        Ok(())
    }
}

/// Whether whatever was handed on has arrived at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calm {
    Arrived,
    /// Some of it never did.
    Missing,
}

/// What is counted at one place goes to the other, if it is not there yet.
fn counters_follow(nodes: &mut Nodes, from: At<'_>, to: At<'_>) -> Result<usize> {
    let at = status(nodes, to, Way::Status {})?;
    if at.stage != "come" {
        return Ok(0);
    }
    let all = pieces(nodes, from, Way::Tally {})?;
    let rest = all.get(at.counted..).unwrap_or_default();
    give(nodes, to, rest, |pieces| Way::Count { pieces })
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a node says that a VDP of it is away or moving.
pub fn is_moving(phase: &str, stage: Option<&str>) -> bool {
    matches!(phase, "away" | "leaving" | "coming") || stage.is_some()
}
