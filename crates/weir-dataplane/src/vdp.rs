//! A virtual data plane instance: its ports, tables, limits and counters.
//!
//! Room: owned by one worker. Everything here belongs to one VDP and nothing of it is ever reached
//! with another VDP's VID.

use crate::action::{Action, PortNo, Vid};
use crate::carried::{Away, Brought, Gate};
use crate::compile::{ActionResult, ResolvePort};
use crate::control::WrittenGroup;
use crate::counters::VdpCounters;
use crate::edge::{Edge, PortFlags, VdpPortCounters};
use crate::group::chains::Chains;
use crate::matching::Tables;
use crate::userfield::UserFields;
use crate::written::Written;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use weir_classify::Match;
use weir_classify::simd::prefetch_read;
use weir_packet::{Frame, Nanos, PortId};

/// Where a VDP's frames are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// By its rules in the matching stage; misses by its default rule.
    Fast,
    /// All by its channel: the default rule stands in the place of the first rule (004 §4.2).
    Slow,
}

/// What a VDP is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On one path.
    On(Path),
    /// On its way from slow to fast: new frames are held until the channel has given back all of
    /// the VDP's, for at most until this time.
    Draining {
        /// When the attempt is given up.
        deadline: Nanos,
        /// When it began.
        since: Nanos,
    },
    /// The channel has given back all: what is held goes on by the fast path, as ports take it.
    Drained {
        /// When what is still held goes on at once, and finds room or not.
        until: Nanos,
        /// Frames of its own that waited at ports when it began.
        waited: u32,
    },
    /// The way to fast was given up: what is held goes to the channel first, then the VDP is on
    /// the slow path as before.
    Returning,
    /// On its way to another data plane: new frames are held until its own have left, for at most
    /// until this time.
    Leaving {
        /// When the attempt is given up.
        deadline: Nanos,
        /// When it began.
        since: Nanos,
    },
    /// Processed by another data plane: frames are handed on from each port to its partner.
    Away,
    /// On its way back: new frames are held until those that were handed on have come back, for at
    /// most until this time.
    Coming {
        /// When the attempt is given up.
        deadline: Nanos,
        /// When it began.
        since: Nanos,
    },
    /// Deleted: waiting for the last of its frames.
    Deleting {
        /// When those that no wire has taken are dropped.
        until: Nanos,
    },
}

impl Phase {
    /// Whether it is deleted.
    pub fn is_deleting(self) -> bool {
        matches!(self, Self::Deleting { .. })
    }
    /// Whether it is one that frames are held in, which ends by itself.
    pub fn is_on_its_way(self) -> bool {
        match self {
            Self::Draining { .. } | Self::Drained { .. } | Self::Returning => true,
            Self::Leaving { .. } | Self::Coming { .. } => true,
            Self::On(_) | Self::Away | Self::Deleting { .. } => false,
        }
    }
}

/// A held frame.
#[derive(Debug)]
pub struct Held {
    /// The frame.
    pub frame: Frame,
    /// Where it came in.
    pub in_port: PortId,
}

/// What the software stage knows of a VDP.
#[derive(Clone, Copy, Debug)]
pub struct ChannelUse {
    /// Which channel.
    pub channel: u8,
    /// Frames in the server's hands.
    pub in_flight: u32,
}

/// How the last migration went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Migrations that were completed.
    pub completed: u64,
    /// Migrations to the fast path that were given up.
    pub given_up: u32,
    /// Times that all of the VDP went to the slow path since some of its rules did.
    pub spilled: u32,
    /// Frames that were held during the last one.
    pub held: u64,
    /// Time from its beginning to the fast path taking over.
    pub drain_ns: u64,
}

/// Whether a VDP is on the slow path since some of its rules are, and it has several tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spilled {
    /// It is not.
    #[default]
    No,
    /// It is, until none of its rules lives there only.
    Whole {
        /// Where it is then.
        back: Path,
    },
}

/// One VDP. What every frame touches stands first, in few cache lines that follow each other.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Vdp {
    /// What it is doing.
    pub phase: Phase,
    /// What it has had of the worker's cycles.
    pub spent: crate::cpu_share::Spent,
    /// Its ports as frames meet them.
    pub(crate) edge: Edge,
    /// Fields of its own.
    pub fields: UserFields,
    /// Tables, groups and meters of the fast path.
    pub fast: Tables,
    /// Its part of the worker's cycles.
    pub cpu: crate::cpu_share::Usage,
    /// Counters, but for frames received and forwarded: `edge` has those, by port.
    pub counters: VdpCounters,
    /// What a frame without a rule gets.
    pub default: ActionResult,
    /// What a frame gets that no rule of the fast path takes: the default, or the channel while
    /// there are rules on the slow path only, which must be asked first.
    pub miss: ActionResult,
    /// Its channel.
    pub channel: ChannelUse,
    /// Its id.
    pub vid: Vid,
    /// Whether it is on the slow path for their sake.
    pub spilled: Spilled,
    /// Who gets its counters when it is deleted.
    pub(crate) heir: Option<Vid>,
    /// TCAM entries that it may not exceed with action rules.
    pub action_limit: Option<u32>,
    /// Its name.
    pub name: Box<str>,
    /// Its ports: number, port of the data plane.
    pub ports: Box<[(PortNo, PortId)]>,
    /// Its ports without their numbers.
    pub port_ids: Box<[PortId]>,
    /// Those of its ports that an output to all goes to.
    pub all_ids: Box<[PortId]>,
    /// Frames held for a migration, oldest first.
    pub hold: VecDeque<Held>,
    /// Rules that are on the slow path only.
    pub slow_only: SlowOnly,
    /// What was asked for and is kept nowhere else.
    pub(crate) asked: Asked,
    /// Packet-outs that were lost for want of a frame; they are among the dropped.
    pub packet_outs_lost: u64,
    /// Units of work done for it in all intervals of CPU shares before this one.
    pub worked: u64,
    /// What it did.
    pub migration: MigrationReport,
    /// How it is away, while it is.
    pub(crate) away: Option<Box<Away>>,
    /// What it counted elsewhere before it came here.
    pub(crate) brought: Option<Box<Brought>>,
    /// Which change was the last that was made to it.
    pub(crate) touched: u64,
    /// Its frames that wait in ports' queues.
    pub(crate) queued: u32,
    /// The worker that does it, if one does.
    pub(crate) worker: Option<u8>,
}

/// What its owner asked for, where only what it came to is needed for frames.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The default rule's actions.
    pub default: Written<Arc<[Action]>>,
    /// Its groups as they were written.
    pub groups: BTreeMap<u32, AskedGroup>,
    /// Which groups lead to which.
    pub chains: Chains,
}

impl Asked {
    /// Nothing but a default rule's actions.
    pub fn new(default: &[Action]) -> Self {
        let (groups, chains) = (BTreeMap::new(), Chains::default());
        Self { default: Written::new(default), groups, chains }
    }
}

/// A group as it was written.
#[derive(Clone, Debug)]
pub(crate) struct AskedGroup {
    pub written: WrittenGroup,
    pub watched: Watched,
}

/// By which numbers a group names the ports that it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The VDP's.
    Own,
    /// The data plane's.
    Plane,
}

/// Rules that are on the slow path only; most VDPs have none.
#[derive(Debug, Default)]
pub struct SlowOnly(Option<Box<Demoted>>);

#[derive(Debug, Default)]
struct Demoted {
    /// Table, match, priority.
    rules: HashSet<(u8, Match, u32)>,
    /// The highest priority.
    top: Option<u32>,
}

impl SlowOnly {
    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |d| d.rules.len())
    }
    /// The highest priority among them.
    pub fn top(&self) -> Option<u32> {
        self.0.as_ref()?.top
    }
    fn contains(&self, rule: &(u8, Match, u32)) -> bool {
        self.0.as_ref().is_some_and(|d| d.rules.contains(rule))
    }
    fn insert(&mut self, rule: (u8, Match, u32)) {
        let d = self.0.get_or_insert_default();
        d.top = d.top.max(Some(rule.2));
        d.rules.insert(rule);
    }
    fn remove(&mut self, rule: &(u8, Match, u32)) -> bool {
        let Some(d) = &mut self.0 else { return false };
        let was = d.rules.remove(rule);
        if was && d.top == Some(rule.2) {
            d.top = d.rules.iter().map(|(_, _, p)| *p).max();
        }
        if d.rules.is_empty() {
            self.0 = None;
        }
        was
    }
    /// There is none from now on.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// What the last rule's actions came to, for the ports that its VDP had then: rules come in rows that do the same.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The change that was the last of ports and VDPs then: after another one this says nothing.
    pub layout: u64,
    /// Whose rule it was.
    pub vid: Vid,
    /// Of a rule in this table.
    pub table: u8,
    /// As the owner wrote them.
    pub actions: Arc<[Action]>,
    /// What they come to.
    pub result: ActionResult,
}

// What a frame looks at, what is counted at four ports, then the first table.
const _: () = assert!(
    std::mem::offset_of!(Vdp, edge) + Edge::COUNTED == 64
        && std::mem::offset_of!(Vdp, fast) == 4 * 64
);

impl Vdp {
    /// Asks for what every frame of it touches. False where its first table needs nothing more than that: by reading that,
    /// the translation of its address is known before all of it is needed.
    #[inline(always)]
    pub(crate) fn prefetch(&self) -> bool {
        prefetch_read(&self.phase);
        self.edge.prefetch();
        self.fast.tables.first().prefetch_head()
    }
    /// The worker that does it, if one does.
    pub(crate) fn worker(&self) -> Option<usize> {
        self.worker.map(usize::from)
    }
    /// Tells it its ports. What it asked of those that stay holds on.
    pub fn set_ports(&mut self, ports: Vec<(PortNo, PortId)>) {
        let before = self.edge.elsewhere();
        self.edge.set_ports(&ports);
        // What a port has counted that goes was not handed on to another data plane.
        let more = self.edge.elsewhere().since(&before);
        if let Some(out) = self.away.as_mut().and_then(|a| a.out.as_mut()) {
            out.merge(&more);
        }
        if let Some(a) = &mut self.away {
            a.follow_ports(&ports);
        }
        self.port_ids = ports.iter().map(|(_, id)| *id).collect();
        self.ports = ports.into();
        self.list_ports();
    }
    /// Asks something of one of its ports.
    pub fn set_flags(&mut self, id: PortId, flags: PortFlags) {
        self.edge.set_flags(id, flags);
        self.list_ports();
    }
    /// Lists the ports that outputs to more than one go to.
    fn list_ports(&mut self) {
        let flags = |id: &PortId| self.edge.flags(*id);
        let all = self.port_ids.iter().copied().filter(|id| flags(id).may_send());
        self.all_ids = all.collect();
    }
    /// What happened at each of its ports.
    pub fn port_counters(&self) -> Vec<(PortNo, VdpPortCounters)> {
        self.ports.iter().map(|(no, id)| (*no, self.edge.counters(*id))).collect()
    }
    /// Adds what another VDP has counted, at ports that both have and elsewhere.
    pub(crate) fn take_over(&mut self, of: &Vdp) {
        self.counters.merge(&of.counters);
        for id in &of.port_ids {
            self.edge.take_over(*id, &of.edge.counters(*id));
        }
        self.edge.take_elsewhere(&of.edge.elsewhere());
        self.packet_outs_lost += of.packet_outs_lost;
        self.worked += of.worked + of.spent.used();
    }
    /// Its counters, whole.
    pub fn tally(&self) -> VdpCounters {
        let mut c = self.counters.clone();
        let at_ports = self.edge.sum();
        c.received.merge(at_ports.rx);
        c.forwarded.merge(at_ports.tx);
        c
    }
    /// Settles what a frame gets that no rule of the fast path takes.
    pub fn set_miss(&mut self) {
        self.miss = match self.slow_only.is_empty() {
            true => self.default.clone(),
            false => ActionResult::to_channel(),
        };
    }
    /// A rule lives on the slow path only from now on.
    pub fn demoted(&mut self, table: u8, matcher: &Match, priority: u32) {
        self.slow_only.insert((table, *matcher, priority));
        self.set_miss();
    }
    /// Whether a rule lives on the slow path only.
    pub fn is_demoted(&self, table: u8, matcher: &Match, priority: u32) -> bool {
        !self.slow_only.is_empty() && self.slow_only.contains(&(table, *matcher, priority))
    }
    /// A rule is no longer on the slow path only; says whether it was.
    pub fn undemoted(&mut self, table: u8, matcher: &Match, priority: u32) -> bool {
        let was = self.slow_only.remove(&(table, *matcher, priority));
        if was {
            self.set_miss();
        }
        was
    }
    /// Whether so many frames that were let in meet its rules and nothing else first, lookups and what becomes of them granted.
    #[inline(always)]
    pub(crate) fn is_plain(&self, frames: usize) -> bool {
        self.phase == Phase::On(Path::Fast)
            && (self.spent.is_unlimited() || self.leaves_room(frames))
    }
    /// Whether its part of the worker's cycles is enough for so many frames, whatever they meet.
    #[inline(never)]
    fn leaves_room(&self, frames: usize) -> bool {
        let dearest = self.fast.tables.first().dearest().max(self.miss.cost);
        let units = u64::from(dearest) + u64::from(self.spent.lookup);
        self.spent.leaves(&self.cpu, frames as u64 * units)
    }
    /// Whether other ports than its own say what becomes of its frames: it is away, or nearly so.
    pub fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. } | Phase::Away | Phase::Coming { .. })
    }
    /// Whether frames that it holds go on.
    pub(crate) fn lets_go(&self) -> bool {
        let open = |a: &Away| a.gate == Gate::Open;
        let drained = matches!(self.phase, Phase::Drained { .. });
        !self.hold.is_empty() && (drained || self.away.as_deref().is_some_and(open))
    }
    /// Frames that it has inside the data plane, queues at ports not counted.
    pub fn held(&self) -> usize {
        self.hold.len() + self.channel.in_flight as usize
    }
}

impl ResolvePort for Vdp {
    fn port(&self, no: PortNo) -> Option<PortId> {
        self.ports.iter().find(|(n, _)| *n == no).map(|(_, id)| *id)
    }
}
