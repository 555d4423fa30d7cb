//! A virtual data plane instance: its ports, tables, limits and counters.
//!
//! Room: owned by one worker. Everything here belongs to one VDP and nothing of it is ever reached
//! with another VDP's VID.

use crate::action::{PortNo, Vid};
use crate::compile::{ActionResult, ResolvePort};
use crate::counters::VdpCounters;
use crate::matching::Tables;
use crate::userfield::UserFields;
use std::collections::{HashSet, VecDeque};
use weir_classify::Match;
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
    /// The way to fast was given up: what is held goes to the channel first, then the VDP is on
    /// the slow path as before.
    Returning,
    /// Deleted: waiting for the last of its frames.
    Deleting,
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
    pub in_flight: usize,
}

/// How the last migration went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Migrations that were completed.
    pub completed: u64,
    /// Migrations to the fast path that were given up.
    pub given_up: u64,
    /// Frames that were held during the last one.
    pub held: u64,
    /// Time from its beginning to the fast path taking over.
    pub drain_ns: u64,
}

/// One VDP. What every frame touches stands first, in few cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Vdp {
    /// What it is doing.
    pub phase: Phase,
    /// Whether its numbers are the data plane's own, so that keys need no change.
    pub renumbered: Renumbered,
    /// Its part of the worker's cycles.
    pub cpu: crate::cpu_share::Usage,
    /// Fields of its own.
    pub fields: UserFields,
    /// Counters.
    pub counters: VdpCounters,
    /// Tables, groups and meters of the fast path.
    pub fast: Tables,
    /// What a frame without a rule gets.
    pub default: ActionResult,
    /// What a frame gets that no rule of the fast path takes: the default, or the channel while
    /// there are rules on the slow path only, which must be asked first.
    pub miss: ActionResult,
    /// Its number for each port of the data plane, 0 where it has none.
    pub local: Vec<u32>,
    /// Its channel.
    pub channel: ChannelUse,
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// Its ports: number, port of the data plane.
    pub ports: Vec<(PortNo, PortId)>,
    /// Its ports without their numbers.
    pub port_ids: Vec<PortId>,
    /// Frames held for a migration, oldest first.
    pub hold: VecDeque<Held>,
    /// Rules that are on the slow path only: table, match, priority.
    pub slow_only: HashSet<(u8, Match, u32)>,
    /// Highest priority among those.
    pub slow_top: Option<u32>,
    /// What it did.
    pub migration: MigrationReport,
    /// TCAM entries that it may not exceed with action rules.
    pub action_limit: Option<u32>,
}

/// Whether a VDP's port numbers differ from the data plane's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renumbered {
    /// They do.
    Yes,
    /// They are the same.
    No,
}

impl Vdp {
    /// The VDP's number for a port of the data plane.
    #[inline]
    pub fn local_no(&self, id: PortId) -> u32 {
        self.local.get(usize::from(id.0)).copied().unwrap_or(0)
    }
    /// Tells it its ports.
    pub fn set_ports(&mut self, ports: Vec<(PortNo, PortId)>) {
        let top = ports.iter().map(|(_, id)| usize::from(id.0) + 1).max().unwrap_or(0);
        self.local = vec![0; top];
        for (no, id) in &ports {
            if let Some(l) = self.local.get_mut(usize::from(id.0)) {
                *l = no.0;
            }
        }
        let same = ports.iter().all(|(no, id)| no.0 == u32::from(id.0));
        self.renumbered = if same { Renumbered::No } else { Renumbered::Yes };
        self.port_ids = ports.iter().map(|(_, id)| *id).collect();
        self.ports = ports;
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
        self.slow_top = self.slow_top.max(Some(priority));
        self.set_miss();
    }
    /// A rule is no longer on the slow path only; says whether it was.
    pub fn undemoted(&mut self, table: u8, matcher: &Match, priority: u32) -> bool {
        let was = self.slow_only.remove(&(table, *matcher, priority));
        if was && self.slow_top == Some(priority) {
            self.slow_top = self.slow_only.iter().map(|(_, _, p)| *p).max();
        }
        self.set_miss();
        was
    }
    /// Frames that it has inside the data plane, queues at ports not counted.
    pub fn held(&self) -> usize {
        self.hold.len() + self.channel.in_flight
    }
}

impl ResolvePort for Vdp {
    fn port(&self, no: PortNo) -> Option<PortId> {
        self.ports.iter().find(|(n, _)| *n == no).map(|(_, id)| *id)
    }
}
