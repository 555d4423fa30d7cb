//! What can be asked of a data plane: ports, VDPs, rules, limits, migration, counters.
//!
//! Room: the logical API (004 §4.4's higher level) that configuration, the control socket and
//! OpenFlow use. Called by the thread that owns the [`DataPlane`], between bursts; each call either
//! does all of what it says or nothing.

use crate::action::{Action, PortNo, Vid};
use crate::compile::{self, ActionResult, CompileError, Op};
use crate::counters::{PortCounters, Tally, VdpCounters};
use crate::forwarding::{PortShare, TxAccount, TxPort};
use crate::group::Group;
use crate::mapping::{MappingError, MappingRule};
use crate::matching::{Put, RuleSpec, Tables};
use crate::meter::Meter;
use crate::plane::{DataPlane, Port, WorkerChannel};
use crate::program::{Program, ProgramPort};
use crate::software::{self, Dedicated, Job, Server, Slot};
use crate::tap::{Captured, TapId, TapPoint};
use crate::userfield::UserFields;
use crate::vdp::{ChannelUse, MigrationReport, Path, Phase, Renumbered, Vdp};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use thiserror::Error;
use weir_classify::{Geometry, Match, MissingPrereq, Owner, Part, Tcam, TcamError};
use weir_packet::{
    Device, DeviceCounters, DropReason, Frame, LinkState, Nanos, Pool, PoolError, PortId,
};

/// Sizes that are fixed when a data plane is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames in the worker's region.
    pub frames: usize,
    /// Bytes of a frame's chunk.
    pub chunk_bytes: usize,
    /// Channels to the software stage; all but the last can be dedicated.
    pub channels: usize,
    /// Frames a channel's ring holds.
    pub channel_frames: usize,
    /// Frames that may wait at one port, all VDPs together.
    pub queue_frames: usize,
    /// The TCAM.
    pub tcam: Geometry,
    /// How long a migration to the fast path may take.
    pub drain_limit: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            frames: 16384,
            chunk_bytes: 2048,
            channels: 4,
            channel_frames: 1024,
            queue_frames: 4096,
            tcam: Geometry {
                mapping_entries: 65536,
                action_entries: 262_144,
                slice_entries: 16,
                block_slices: 64,
            },
            drain_limit: Nanos::from_millis(10),
        }
    }
}

impl Config {
    /// Free frames below which programs get no more spares.
    pub(crate) fn reserve_frames(&self) -> usize {
        self.frames / 4
    }
}

/// A request that can't be met. Nothing has changed then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No such VDP.
    #[error("there is no VDP {0}: 'weir show' lists those there are")]
    NoVdp(Vid),
    /// Its VID is taken.
    #[error("VDP {0} exists already: delete it first or choose another VID")]
    VdpExists(Vid),
    /// Its VID can't be.
    #[error("VID {0} can't be used: 1 to 65534 are for VDPs, 0 is the default VDP")]
    BadVid(Vid),
    /// The default VDP can't be deleted or moved.
    #[error("the default VDP stays, and stays on the slow path")]
    DefaultVdp,
    /// No such port.
    #[error("there is no port {0}: 'weir show' lists those there are")]
    NoPort(PortId),
    /// A name is taken.
    #[error("port name '{0}' is taken: choose another")]
    PortName(String),
    /// Too many ports.
    #[error("no port number is left: 65534 have been given out and none is used twice")]
    NoPortNumber,
    /// A port number stands twice in a VDP.
    #[error("port number {0} stands twice: number a VDP's ports differently")]
    PortTwice(PortNo),
    /// A channel that can't be dedicated.
    #[error("channel {channel} can't be dedicated to VDP {vid}: {why}")]
    Channel {
        /// Which channel.
        channel: u8,
        /// For which VDP.
        vid: Vid,
        /// Why not.
        why: &'static str,
    },
    /// The VDP is between two paths.
    #[error("VDP {0} is migrating: try again when it has arrived")]
    Migrating(Vid),
    /// No such rule.
    #[error("VDP {0} has no rule with this match and priority")]
    NoRule(Vid),
    /// No such group or meter, or one in use.
    #[error("{what} {id} of VDP {vid}: {why}")]
    Object {
        /// "group" or "meter".
        what: &'static str,
        /// Its number.
        id: u32,
        /// Whose.
        vid: Vid,
        /// What is wrong.
        why: &'static str,
    },
    /// A share that can't be.
    #[error("share at port {port}: {why}")]
    Share {
        /// Where.
        port: PortId,
        /// What is wrong and how to mend it.
        why: &'static str,
    },
    /// Guarantees would exceed the worker.
    #[error("CPU guarantees would add up to {0} ‰: at most 1000 can be promised")]
    CpuShare(u32),
    /// A match that can't be.
    #[error(transparent)]
    Match(#[from] MissingPrereq),
    /// Actions that can't be.
    #[error(transparent)]
    Actions(#[from] CompileError),
    /// A mapping rule that can't be.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// The TCAM's budget is spent.
    #[error(transparent)]
    Tcam(#[from] TcamError),
    /// No memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A table that can't take more.
    #[error(transparent)]
    Table(#[from] crate::matching::TableFull),
    /// A size that can't be.
    #[error("{what} = {value}: {why}")]
    Size {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What is allowed.
        why: &'static str,
    },
}

/// Where a rule shall live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the TCAM; refused when the VDP has no entry left.
    Fast,
    /// On the slow path.
    Slow,
    /// In the TCAM while there are entries, else on the slow path.
    Spill,
}

/// Where a rule went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Into the TCAM.
    Fast,
    /// On the slow path.
    Slow,
}

/// A VDP to be made.
pub struct VdpSpec {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// Its ports: its own number, port of the data plane.
    pub ports: Vec<(PortNo, PortId)>,
    /// Which frames are its own.
    pub mapping: Vec<MappingRule>,
    /// What a frame without a rule gets.
    pub default: Vec<Action>,
    /// Its slow-path program.
    pub program: Option<Box<dyn Program>>,
    /// A channel of its own.
    pub channel: Option<u8>,
    /// Where it starts.
    pub path: Path,
    /// Fields of its own.
    pub fields: UserFields,
    /// TCAM entries for its action rules, reserved now; more are taken as rules come while the
    /// budget lasts.
    pub action_entries: usize,
    /// TCAM entries that it may not exceed with action rules, rounded up to slices.
    pub action_limit: Option<u32>,
    /// Its part of the worker's cycles, in thousandths; 0: no guarantee.
    pub cpu_permille: u16,
}

impl VdpSpec {
    /// A VDP on the fast path whose misses go to its channel.
    pub fn new(vid: Vid, name: &str) -> Self {
        Self {
            vid,
            name: name.to_owned(),
            ports: Vec::new(),
            mapping: Vec::new(),
            default: vec![Action::ToChannel],
            program: None,
            channel: None,
            path: Path::Fast,
            fields: UserFields::default(),
            action_entries: 0,
            action_limit: None,
            cpu_permille: 0,
        }
    }
}

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Which table.
    pub table: u8,
    /// The rule.
    pub spec: RuleSpec,
    /// What it matched.
    pub hits: Tally,
    /// Where it lives.
    pub placed: Placed,
}

/// A VDP as it is.
#[derive(Clone, Debug)]
pub struct VdpView {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub phase: Phase,
    /// Its ports.
    pub ports: Vec<(PortNo, PortId)>,
    /// Rules on the fast path.
    pub rules: usize,
    /// Rules on the slow path only.
    pub slow_rules: usize,
    /// Its channel, and whether that is its own.
    pub channel: (u8, Dedicated),
    /// Counters.
    pub counters: VdpCounters,
    /// Frames inside the data plane.
    pub held: usize,
    /// Memory of its tables in bytes.
    pub memory_bytes: usize,
    /// How migrations went.
    pub migration: MigrationReport,
}

/// A port as it is.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its number.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// Its device's name.
    pub device: String,
    /// Whether it can send.
    pub up: bool,
    /// Counters.
    pub counters: PortCounters,
    /// The device's own counters.
    pub device_counters: DeviceCounters,
    /// Frames waiting in its queues.
    pub backlog: usize,
    /// What is wrong with its device, in one line.
    pub fault: Option<String>,
    /// Whether nothing more will ever come from its device.
    pub exhausted: bool,
}

/// Everything at one moment between two bursts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Nanos,
    /// Ports.
    pub ports: Vec<PortView>,
    /// VDPs.
    pub vdps: Vec<VdpView>,
    /// VDPs that were deleted.
    pub retired: VdpCounters,
    /// Frames without a VDP: runts.
    pub unmapped: VdpCounters,
    /// Frames in the region, free ones, and ones that devices keep.
    pub frames: FramesView,
}

/// Where the region's frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesView {
    /// In all.
    pub count: usize,
    /// Free.
    pub free: usize,
    /// Lent to the kernel.
    pub lent: usize,
    /// Held for VDPs.
    pub held: usize,
    /// Spares of the software stage.
    pub spares: usize,
}

/// Frames do not add up: a defect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {came} frames came, {ended} ended, {held} are held")]
pub struct Imbalance {
    /// Whose frames.
    pub what: String,
    /// Received, generated, cloned.
    pub came: u64,
    /// Forwarded, consumed, dropped.
    pub ended: u64,
    /// Still inside.
    pub held: u64,
}

impl Snapshot {
    /// Conservation: per VDP, per port, in total.
    ///
    /// # Errors
    /// The first that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        let sum = |what: String, came: u64, ended: u64, held: u64| {
            if came == ended + held { Ok(()) } else { Err(Imbalance { what, came, ended, held }) }
        };
        let mut all = self.retired.clone();
        all.merge(&self.unmapped);
        for v in &self.vdps {
            let (came, ended) = (v.counters.came(), v.counters.ended());
            sum(format!("VDP {}", v.vid), came, ended, v.held as u64)?;
            all.merge(&v.counters);
        }
        let mut rx = Tally::default();
        let mut tx = Tally::default();
        for p in &self.ports {
            rx.merge(p.counters.rx);
            tx.merge(p.counters.tx);
        }
        if self.retired_ports_known() {
            sum("received by ports".to_owned(), rx.frames, all.received.frames, 0)?;
            sum("sent by ports".to_owned(), tx.frames, all.forwarded.frames, 0)?;
        }
        let f = self.frames;
        let used = (f.free + f.lent + f.held + f.spares) as u64;
        sum("chunks of the region".to_owned(), f.count as u64, used, 0)
    }
    /// Counters of removed ports are folded into the port list, so that totals hold.
    fn retired_ports_known(&self) -> bool {
        true
    }
}

impl DataPlane {
    /// A data plane with the default VDP and no port.
    ///
    /// # Errors
    /// [`ControlError`] for sizes that can't be.
    pub fn new(config: Config) -> Result<Self, ControlError> {
        if !(1..=64).contains(&config.channels) {
            let why = "1 to 64 channels";
            return Err(ControlError::Size { what: "channels", value: config.channels, why });
        }
        if !(64..=65536).contains(&config.channel_frames) {
            let (value, why) = (config.channel_frames, "64 to 65536 frames");
            return Err(ControlError::Size { what: "channel_frames", value, why });
        }
        let pool = Pool::new(config.frames, config.chunk_bytes)?;
        let channels = (0..config.channels)
            .map(|i| {
                let (ring, server) = software::pair(config.channel_frames);
                let shared = i + 1 == config.channels;
                let dedicated = if shared { Dedicated::No } else { Dedicated::Yes };
                WorkerChannel { ring, inline: Some(server), owner: None, dedicated }
            })
            .collect();
        let tcam = Tcam::new(config.tcam)?;
        let mut plane = Self::assemble(pool, channels, tcam, config);
        let mut spec = VdpSpec::new(Vid(0), "default");
        spec.path = Path::Slow;
        plane.insert_vdp(spec)?;
        Ok(plane)
    }

    // ---- ports

    /// Adds a port. Its number is never used again, so that nothing that still names it can reach
    /// another port.
    ///
    /// # Errors
    /// A name that is taken; the device is handed back inside nothing: it is closed and dropped.
    pub fn add_port(
        &mut self,
        name: &str,
        device: Box<dyn Device>,
    ) -> Result<PortId, ControlError> {
        if self.ports.iter().flatten().any(|p| p.name == name) {
            return Err(ControlError::PortName(name.to_owned()));
        }
        let id = u16::try_from(self.ports.len()).map_err(|_| ControlError::NoPortNumber)?;
        let id = PortId(id);
        let feed = device.caps().feed;
        let mut tx = TxPort::new(device, self.config.queue_frames);
        // The default VDP may send by every port.
        tx.set_share(Vid(0), PortShare::default(), self.now);
        self.ports.push(Some(Box::new(Port {
            id,
            name: name.to_owned(),
            tx,
            counters: PortCounters::default(),
            feed,
            parked: VecDeque::with_capacity(4 * weir_packet::BURST),
        })));
        self.polled.push(id);
        let mut ports = self.vdp(Vid(0))?.ports.clone();
        ports.push((PortNo(id.0.into()), id));
        self.vdp_mut(Vid(0))?.set_ports(ports);
        self.tell_ports(Vid(0))?;
        Ok(id)
    }

    /// Removes a port: what waits there is dropped and counted, its device gets closed.
    ///
    /// # Errors
    /// No such port.
    pub fn remove_port(&mut self, id: PortId) -> Result<PortCounters, ControlError> {
        self.with_tx(id, |tx, _, end| tx.drop_all(DropReason::NoSuchPort, &mut Ends(end)))
            .ok_or(ControlError::NoPort(id))?;
        let slot = self.ports.get_mut(usize::from(id.0)).ok_or(ControlError::NoPort(id))?;
        let mut port = slot.take().ok_or(ControlError::NoPort(id))?;
        self.polled.retain(|p| *p != id);
        for f in port.parked.drain(..) {
            match self.vdps.get_mut(usize::from(f.vid.0)).and_then(Option::as_deref_mut) {
                Some(v) => v.counters.dropped.add(DropReason::NoSuchPort),
                None => self.retired.dropped.add(DropReason::NoSuchPort),
            }
            self.pool.free(f.frame);
        }
        port.tx.device.close(&mut self.pool);
        let mut told = Vec::new();
        for v in self.vdps.iter_mut().flatten() {
            if v.ports.iter().any(|(_, p)| *p == id) {
                let rest = v.ports.iter().copied().filter(|(_, p)| *p != id).collect();
                v.set_ports(rest);
                told.push(v.vid);
            }
        }
        for vid in told {
            // One that is being deleted has no slow path any more that could be told.
            let _ = self.tell_ports(vid);
        }
        let mut gone = self.removed_ports.take().unwrap_or_default();
        gone.rx.merge(port.counters.rx);
        gone.tx.merge(port.counters.tx);
        gone.tx_dropped.merge(&port.counters.tx_dropped);
        self.removed_ports = Some(gone);
        Ok(port.counters)
    }

    /// Asks every device for its link and tells VDPs what changed. To be called a few times a
    /// second. Says which ports changed, and to what.
    pub fn check_links(&mut self) -> Vec<(PortId, LinkState)> {
        let mut changed = Vec::new();
        for i in 0..self.ports.len() {
            let id = PortId(i as u16);
            let state = self.with_tx(id, |tx, pool, end| {
                let link = tx.device.link(pool);
                let up = link == LinkState::Up;
                (up != tx.is_up()).then(|| {
                    tx.set_up(up, &mut Ends(end));
                    link
                })
            });
            changed.extend(state.flatten().map(|l| (id, l)));
        }
        if !changed.is_empty() {
            let vids: Vec<Vid> = self.vdps.iter().flatten().map(|v| v.vid).collect();
            for vid in vids {
                // The VDP exists: it was just listed.
                let _ = self.tell_ports(vid);
            }
        }
        changed
    }

    /// The worker's frames, for opening devices that are then added as ports.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The port called `name`.
    pub fn port_named(&self, name: &str) -> Option<PortId> {
        self.ports.iter().flatten().find(|p| p.name == name).map(|p| p.id)
    }

    // ---- VDPs

    fn vdp(&self, vid: Vid) -> Result<&Vdp, ControlError> {
        self.vdps
            .get(usize::from(vid.0))
            .and_then(Option::as_deref)
            .filter(|v| v.phase != Phase::Deleting)
            .ok_or(ControlError::NoVdp(vid))
    }
    fn vdp_mut(&mut self, vid: Vid) -> Result<&mut Vdp, ControlError> {
        self.vdps
            .get_mut(usize::from(vid.0))
            .and_then(Option::as_deref_mut)
            .filter(|v| v.phase != Phase::Deleting)
            .ok_or(ControlError::NoVdp(vid))
    }

    /// Makes a VDP. Its slices are reserved, its channel assigned, its mapping rules installed; or
    /// nothing of it.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn create_vdp(&mut self, spec: VdpSpec) -> Result<(), ControlError> {
        let vid = spec.vid;
        if vid.0 == 0 || vid.0 == u16::MAX {
            return Err(ControlError::BadVid(vid));
        }
        if self.vdps.get(usize::from(vid.0)).is_some_and(Option::is_some) {
            return Err(ControlError::VdpExists(vid));
        }
        self.check_ports(&spec.ports)?;
        self.check_channel(vid, spec.channel)?;
        self.check_cpu(vid, spec.cpu_permille)?;
        self.tcam.reserve(Part::Mapping, owner(vid), entries(spec.mapping.len()))?;
        let done = self
            .tcam
            .reserve(Part::Action, owner(vid), entries(spec.action_entries))
            .map_err(ControlError::from)
            .and_then(|_| {
                for r in &spec.mapping {
                    self.mapping.add(vid, r, &spec.fields)?;
                    self.charge(Part::Mapping, vid)?;
                }
                self.insert_vdp(spec)
            });
        if done.is_err() {
            self.mapping.remove_all(vid);
            self.tcam.release(owner(vid));
        }
        done
    }

    fn check_ports(&self, ports: &[(PortNo, PortId)]) -> Result<(), ControlError> {
        for (i, (no, id)) in ports.iter().enumerate() {
            if self.ports.get(usize::from(id.0)).is_none_or(Option::is_none) {
                return Err(ControlError::NoPort(*id));
            }
            if ports.iter().take(i).any(|(n, p)| n == no || p == id) {
                return Err(ControlError::PortTwice(*no));
            }
        }
        Ok(())
    }

    fn check_channel(&self, vid: Vid, wanted: Option<u8>) -> Result<(), ControlError> {
        let Some(channel) = wanted else { return Ok(()) };
        let refuse = |why| Err(ControlError::Channel { channel, vid, why });
        match self.channels.get(usize::from(channel)) {
            None => refuse("there is no such channel"),
            Some(c) if c.dedicated == Dedicated::No => refuse("it is the shared one"),
            Some(c) if c.owner.is_some_and(|o| o != vid) => refuse("another VDP has it"),
            Some(_) => Ok(()),
        }
    }

    fn check_cpu(&self, vid: Vid, permille: u16) -> Result<(), ControlError> {
        let others: u32 = self
            .vdps
            .iter()
            .flatten()
            .filter(|v| v.vid != vid)
            .map(|v| u32::from(v.cpu.guarantee_permille))
            .sum();
        let sum = others + u32::from(permille);
        if sum > 1000 { Err(ControlError::CpuShare(sum)) } else { Ok(()) }
    }

    fn insert_vdp(&mut self, spec: VdpSpec) -> Result<(), ControlError> {
        let vid = spec.vid;
        let shared = self.channels.len().saturating_sub(1) as u8;
        let channel = spec.channel.unwrap_or(shared);
        let mut v = Vdp {
            vid,
            name: spec.name,
            phase: Phase::On(spec.path),
            fast: Tables::default(),
            default: ActionResult::drop(),
            ports: Vec::new(),
            port_ids: Vec::new(),
            local: Vec::new(),
            renumbered: Renumbered::No,
            channel: ChannelUse { channel, in_flight: 0 },
            hold: VecDeque::new(),
            counters: VdpCounters::default(),
            fields: spec.fields.clone(),
            slow_only: HashSet::new(),
            miss: ActionResult::drop(),
            slow_top: None,
            migration: MigrationReport::default(),
            action_limit: spec.action_limit,
            cpu: crate::cpu_share::Usage::default(),
        };
        v.cpu.guarantee_permille = spec.cpu_permille;
        v.set_ports(spec.ports);
        v.default = compile::compile(&spec.default, 0, &v)?;
        v.set_miss();
        let default = v.default.clone();
        let mut slot = Slot::new(spec.program);
        slot.fields = spec.fields;
        slot.default = default;
        let i = usize::from(vid.0);
        if self.vdps.len() <= i {
            self.vdps.resize_with(i + 1, || None);
        }
        for id in &v.port_ids {
            if let Some(Some(p)) = self.ports.get_mut(usize::from(id.0)) {
                p.tx.set_share(vid, PortShare::default(), self.now);
            }
        }
        self.vdps[i] = Some(Box::new(v));
        self.make_room_for_vdps();
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            if c.dedicated == Dedicated::Yes {
                c.owner = Some(vid);
            }
            c.ring.post(Box::new(move |s| s.put_slot(vid, slot)));
        }
        self.tell_ports(vid)?;
        if spec.path == Path::Slow && vid.0 != 0 {
            self.copy_to_slow(vid)?;
        }
        Ok(())
    }

    /// Deletes a VDP: its rules and mapping go now, its VID is free when its last frame has left.
    ///
    /// # Errors
    /// No such VDP, or the default one.
    pub fn delete_vdp(&mut self, vid: Vid) -> Result<(), ControlError> {
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        self.vdp(vid)?;
        self.mapping.remove_all(vid);
        let (hold, channel, was) = {
            let v = self.vdp_mut(vid)?;
            let was = std::mem::replace(&mut v.phase, Phase::Deleting);
            // What it was promised can be promised to others at once.
            v.cpu.guarantee_permille = 0;
            v.fast = Tables::default();
            v.counters.dropped.add_n(DropReason::VdpGone, v.hold.len() as u64);
            (std::mem::take(&mut v.hold), v.channel.channel, was)
        };
        self.migrating -= usize::from(matches!(was, Phase::Draining { .. } | Phase::Returning));
        self.deleting += 1;
        for h in hold {
            self.pool.free(h.frame);
        }
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            if c.owner == Some(vid) {
                c.owner = None;
            }
            c.ring.post(Box::new(move |s| {
                s.take_slot(vid);
            }));
        }
        Ok(())
    }

    /// Gives a VDP another name.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_name(&mut self, vid: Vid, name: &str) -> Result<(), ControlError> {
        name.clone_into(&mut self.vdp_mut(vid)?.name);
        Ok(())
    }

    /// Gives a VDP another set of ports. Rules that send to a port it no longer has lose their
    /// frames there, counted.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_ports(
        &mut self,
        vid: Vid,
        ports: Vec<(PortNo, PortId)>,
    ) -> Result<(), ControlError> {
        self.check_ports(&ports)?;
        let old = self.vdp(vid)?.port_ids.clone();
        let now = self.now;
        for (_, id) in ports.iter().filter(|(_, id)| !old.contains(id)) {
            self.with_tx(*id, |tx, _, _| tx.set_share(vid, PortShare::default(), now));
        }
        for id in old.iter().filter(|id| !ports.iter().any(|(_, p)| p == *id)) {
            self.with_tx(*id, |tx, _, end| tx.remove_share(vid, &mut Ends(end)));
        }
        self.vdp_mut(vid)?.set_ports(ports);
        self.tell_ports(vid)
    }

    /// Tells the VDP's slow path its ports.
    fn tell_ports(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp(vid)?;
        let ports: Vec<(ProgramPort, PortId)> = v
            .ports
            .iter()
            .filter_map(|(no, id)| {
                let p = self.ports.get(usize::from(id.0))?.as_ref()?;
                let max_frame_bytes = p.tx.device.caps().max_frame_bytes;
                Some((ProgramPort { no: *no, up: p.tx.is_up(), max_frame_bytes }, *id))
            })
            .collect();
        self.post(vid, move |slot| slot.set_ports(&ports))
    }

    /// Runs `f` on the VDP's slow-path slot, before any frame that comes after this call.
    pub(crate) fn post(
        &self,
        vid: Vid,
        f: impl FnOnce(&mut Slot) + Send + 'static,
    ) -> Result<(), ControlError> {
        let channel = self.vdp(vid)?.channel.channel;
        if let Some(c) = self.channels.get(usize::from(channel)) {
            let job: Job = Box::new(move |s: &mut Server| {
                if let Some(slot) = s.slot_mut(vid) {
                    f(slot);
                }
            });
            c.ring.post(job);
        }
        Ok(())
    }

    /// Gives a VDP another slow-path program.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_program(
        &mut self,
        vid: Vid,
        program: Option<Box<dyn Program>>,
    ) -> Result<(), ControlError> {
        let channel = self.vdp(vid)?.channel.channel;
        if let Some(c) = self.channels.get(usize::from(channel)) {
            c.ring.post(Box::new(move |s| s.set_program(vid, program)));
        }
        Ok(())
    }

    /// Sets what a frame without a rule gets.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_default(&mut self, vid: Vid, actions: &[Action]) -> Result<(), ControlError> {
        let r = compile::compile(actions, 0, self.vdp(vid)?)?;
        let v = self.vdp_mut(vid)?;
        v.default = r.clone();
        v.set_miss();
        self.post(vid, move |s| s.default = r)
    }

    // ---- the TCAM's budget

    /// Takes an entry for a rule, and one more slice where the VDP's are full.
    fn charge(&mut self, part: Part, vid: Vid) -> Result<(), TcamError> {
        let limit = self.vdps.get(usize::from(vid.0)).and_then(Option::as_ref);
        let limit = limit.and_then(|v| v.action_limit).filter(|_| part == Part::Action);
        let who = owner(vid);
        match self.tcam.add(part, who, 1) {
            Err(spent @ TcamError::Spent { allowed, .. }) => {
                if limit.is_some_and(|l| allowed >= l) {
                    return Err(spent);
                }
                self.tcam.grow(part, who, 1)?;
                self.tcam.add(part, who, 1)
            }
            other => other,
        }
    }
    /// Gives entries back; the slices stay the VDP's until it shrinks or goes.
    fn uncharge(&mut self, part: Part, vid: Vid, n: usize) {
        // It was charged before, so there is something to give back.
        let _ = self.tcam.remove(part, owner(vid), entries(n));
    }

    // ---- mapping

    /// Adds a mapping rule.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn add_mapping(&mut self, vid: Vid, rule: &MappingRule) -> Result<(), ControlError> {
        let fields = self.vdp(vid)?.fields.clone();
        let before = self.mapping.len();
        self.charge(Part::Mapping, vid)?;
        let done = self.mapping.add(vid, rule, &fields);
        if done.is_err() || self.mapping.len() == before {
            self.uncharge(Part::Mapping, vid, 1);
        }
        Ok(done?)
    }
    /// Removes a mapping rule.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn remove_mapping(&mut self, vid: Vid, rule: &MappingRule) -> Result<(), ControlError> {
        self.vdp(vid)?;
        if !self.mapping.remove(vid, rule) {
            return Err(ControlError::NoRule(vid));
        }
        self.uncharge(Part::Mapping, vid, 1);
        Ok(())
    }
    /// A VDP's mapping rules.
    ///
    /// # Errors
    /// No such VDP.
    pub fn mapping_of(&self, vid: Vid) -> Result<Vec<MappingRule>, ControlError> {
        self.vdp(vid)?;
        Ok(self.mapping.rules_of(vid))
    }

    // ---- rules

    /// Adds a rule, or gives the one with the same match and priority other actions.
    ///
    /// # Errors
    /// [`ControlError`]; a spent budget is [`ControlError::Tcam`].
    pub fn add_rule(
        &mut self,
        vid: Vid,
        table: u8,
        spec: &RuleSpec,
        placement: Placement,
    ) -> Result<Placed, ControlError> {
        spec.matcher.check_prereqs()?;
        let result = self.compile_for(vid, table, &spec.actions)?;
        let v = self.vdp(vid)?;
        let known = v
            .fast
            .tables
            .get(usize::from(table))
            .is_some_and(|t| t.get(&spec.matcher, spec.priority).is_some());
        // A rule below one that lives on the slow path must not be found first where they overlap.
        let shadowed =
            placement != Placement::Fast && v.slow_top.is_some_and(|top| spec.priority <= top);
        let room = known || self.charge(Part::Action, vid).is_ok();
        let fast = match placement {
            Placement::Slow => false,
            Placement::Spill => room && !shadowed,
            Placement::Fast if room => true,
            Placement::Fast => {
                // Ask again for the error that says what is missing.
                self.charge(Part::Action, vid)?;
                true
            }
        };
        if !fast && room && !known {
            self.uncharge(Part::Action, vid, 1);
        }
        if fast {
            let v = self.vdp_mut(vid)?;
            v.fast.table_mut(table).put(spec, result.clone())?;
            let was_slow = v.undemoted(table, &spec.matcher, spec.priority);
            let copy = v.phase != Phase::On(Path::Fast);
            if was_slow {
                let (m, p) = (spec.matcher, spec.priority);
                self.post(vid, move |s| s.take_rule(table, &m, p))?;
            }
            if copy {
                let spec = spec.clone();
                self.post(vid, move |s| s.put_copy(table, &spec, result))?;
            }
            return Ok(Placed::Fast);
        }
        self.demote_below(vid, table, spec)?;
        self.vdp_mut(vid)?.demoted(table, &spec.matcher, spec.priority);
        let spec = spec.clone();
        self.post(vid, move |s| s.put_own(table, &spec, result))?;
        Ok(Placed::Slow)
    }

    fn compile_for(
        &self,
        vid: Vid,
        table: u8,
        actions: &[Action],
    ) -> Result<ActionResult, ControlError> {
        let v = self.vdp(vid)?;
        let r = compile::compile(actions, table, v)?;
        for op in r.program.iter().flatten() {
            let missing = match op {
                Op::Group(id) if !v.fast.groups.contains_key(id) => Some(("group", *id)),
                Op::Meter(id) if !v.fast.meters.contains_key(id) => Some(("meter", *id)),
                _ => None,
            };
            if let Some((what, id)) = missing {
                return Err(CompileError::Missing { what, id }.into());
            }
        }
        Ok(r)
    }

    /// Moves rules of the fast path that a new slow-path rule would lose to over to the slow path.
    fn demote_below(&mut self, vid: Vid, table: u8, spec: &RuleSpec) -> Result<(), ControlError> {
        let Some(t) = self.vdp_mut(vid)?.fast.tables.get_mut(usize::from(table)) else {
            return Ok(());
        };
        let mut lower = Vec::new();
        t.for_each(&mut |r, _| {
            let same = r.matcher == spec.matcher && r.priority == spec.priority;
            if same || r.priority < spec.priority && r.matcher.overlaps(&spec.matcher) {
                lower.push((r.matcher, r.priority));
            }
        });
        let mut moved = Vec::new();
        for (m, p) in lower {
            if let Some(e) = t.take(&m, p) {
                let (cookie, actions) = (e.cookie, e.actions);
                moved.push((RuleSpec { matcher: m, priority: p, cookie, actions }, e.result));
            }
        }
        self.uncharge(Part::Action, vid, moved.len());
        let v = self.vdp_mut(vid)?;
        for (s, _) in &moved {
            v.demoted(table, &s.matcher, s.priority);
        }
        self.post(vid, move |slot| {
            for (s, r) in moved {
                slot.put_own(table, &s, r);
            }
        })
    }

    /// Removes a rule, wherever it lives.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn remove_rule(
        &mut self,
        vid: Vid,
        table: u8,
        matcher: &Match,
        priority: u32,
    ) -> Result<(), ControlError> {
        let v = self.vdp_mut(vid)?;
        let gone = v
            .fast
            .tables
            .get_mut(usize::from(table))
            .and_then(|t| t.take(matcher, priority))
            .is_some();
        if gone {
            self.uncharge(Part::Action, vid, 1);
        } else if !v.undemoted(table, matcher, priority) {
            return Err(ControlError::NoRule(vid));
        }
        let matcher = *matcher;
        self.post(vid, move |s| s.take_rule(table, &matcher, priority))
    }

    /// The VDP's rules with their counters: those of the fast path now, those that only the slow
    /// path has (and hits counted there) from the receiver, after the next turn of its server.
    ///
    /// # Errors
    /// No such VDP.
    pub fn rules(
        &self,
        vid: Vid,
    ) -> Result<(Vec<RuleView>, Receiver<Vec<RuleView>>), ControlError> {
        let v = self.vdp(vid)?;
        let fast = v.fast.views(Placed::Fast);
        let (tx, rx) = channel();
        self.post(vid, move |s| {
            // Nobody waits any more: nothing to do.
            let _ = tx.send(s.views());
        })?;
        Ok((fast, rx))
    }

    // ---- groups and meters

    /// Adds or replaces a group.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn put_group(
        &mut self,
        vid: Vid,
        id: u32,
        group: Group<Vec<Action>>,
    ) -> Result<(), ControlError> {
        let mut failed = None;
        let compiled = group.map(|actions| match self.compile_for(vid, 0, &actions) {
            Ok(r) => Arc::new(r),
            Err(e) => {
                failed = Some(e);
                Arc::new(ActionResult::drop())
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        self.vdp_mut(vid)?.fast.groups.insert(id, compiled.clone());
        self.post(vid, move |s| {
            s.tables.groups.insert(id, compiled);
        })
    }
    /// Removes a group. Rules that name it lose their frames there, counted.
    ///
    /// # Errors
    /// No such VDP or group.
    pub fn remove_group(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.vdp_mut(vid)?.fast.groups.remove(&id).is_none() {
            let why = "there is none";
            return Err(ControlError::Object { what: "group", id, vid, why });
        }
        self.post(vid, move |s| {
            s.tables.groups.remove(&id);
        })
    }
    /// Adds or replaces a meter. On the slow path it counts for itself.
    ///
    /// # Errors
    /// No such VDP.
    pub fn put_meter(&mut self, vid: Vid, id: u32, meter: Meter) -> Result<(), ControlError> {
        self.vdp_mut(vid)?.fast.meters.insert(id, meter.clone());
        self.post(vid, move |s| {
            s.tables.meters.insert(id, meter);
        })
    }
    /// Removes a meter.
    ///
    /// # Errors
    /// No such VDP or meter.
    pub fn remove_meter(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.vdp_mut(vid)?.fast.meters.remove(&id).is_none() {
            let why = "there is none";
            return Err(ControlError::Object { what: "meter", id, vid, why });
        }
        self.post(vid, move |s| {
            s.tables.meters.remove(&id);
        })
    }

    // ---- limits

    /// Sets a VDP's share of a port.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_share(
        &mut self,
        vid: Vid,
        port: PortId,
        share: PortShare,
    ) -> Result<(), ControlError> {
        if !self.vdp(vid)?.port_ids.contains(&port) {
            return Err(ControlError::NoPort(port));
        }
        let refuse = |why| Err(ControlError::Share { port, why });
        if share.weight == 0 {
            return refuse("weight 0 would never send: 1 is the least");
        }
        if share.ceiling_bps.is_some_and(|c| c < share.guarantee_bps || c == 0) {
            return refuse("the ceiling lies below the guarantee: raise it or lower the guarantee");
        }
        let now = self.now;
        self.with_tx(port, |tx, _, _| tx.set_share(vid, share, now))
            .ok_or(ControlError::NoPort(port))
    }
    /// Sets a VDP's guaranteed part of the worker's cycles, in thousandths.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_cpu(&mut self, vid: Vid, permille: u16) -> Result<(), ControlError> {
        self.check_cpu(vid, permille)?;
        self.vdp_mut(vid)?.cpu.guarantee_permille = permille;
        Ok(())
    }
    /// Sets how many TCAM entries a VDP's action rules may not exceed. Rules that are there stay.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_action_limit(&mut self, vid: Vid, limit: Option<u32>) -> Result<(), ControlError> {
        self.vdp_mut(vid)?.action_limit = limit;
        Ok(())
    }
    /// The TCAM: who has which slice (004 §4.4's lower API).
    pub fn tcam(&self) -> &Tcam {
        &self.tcam
    }
    /// The TCAM, for the supervisor.
    pub fn tcam_mut(&mut self) -> &mut Tcam {
        &mut self.tcam
    }

    // ---- migration

    /// Moves a VDP to another path (004 §4.2). To the slow path at once; to the fast path as soon
    /// as the channel has given back all its frames, new ones being held meanwhile.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn migrate(&mut self, vid: Vid, to: Path) -> Result<(), ControlError> {
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        let deadline = self.now + self.config.drain_limit;
        let since = self.now;
        let v = self.vdp(vid)?;
        match (v.phase, to) {
            (Phase::On(at), to) if at == to => Ok(()),
            (Phase::On(_), Path::Slow) => {
                self.copy_to_slow(vid)?;
                let v = self.vdp_mut(vid)?;
                v.phase = Phase::On(Path::Slow);
                v.migration.completed += 1;
                Ok(())
            }
            (Phase::On(_), Path::Fast) => {
                let v = self.vdp_mut(vid)?;
                v.phase = Phase::Draining { deadline, since };
                v.hold.reserve(crate::plane::HOLD_FRAMES);
                self.migrating += 1;
                Ok(())
            }
            _ => Err(ControlError::Migrating(vid)),
        }
    }

    /// Gives the slow path a copy of all rules of the fast path.
    fn copy_to_slow(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp(vid)?;
        let mut rules = Vec::with_capacity(v.fast.len());
        for (n, t) in v.fast.tables.iter().enumerate() {
            t.for_each(&mut |r, e| {
                let (cookie, actions) = (e.cookie, Arc::clone(&e.actions));
                let spec = RuleSpec { matcher: r.matcher, priority: r.priority, cookie, actions };
                rules.push((n as u8, spec, e.result.clone()));
            });
        }
        self.post(vid, move |s| {
            for (n, spec, result) in rules {
                s.put_copy(n, &spec, result);
            }
        })
    }

    /// Where a VDP's frames are processed now.
    ///
    /// # Errors
    /// No such VDP.
    pub fn phase(&self, vid: Vid) -> Result<Phase, ControlError> {
        Ok(self.vdp(vid)?.phase)
    }

    // ---- channels

    /// Takes a channel's server out, to be run by a thread of its own.
    pub fn take_server(&mut self, channel: u8) -> Option<Server> {
        self.channels.get_mut(usize::from(channel))?.inline.take()
    }
    /// Puts a server back, to be run by the worker.
    pub fn put_server(&mut self, channel: u8, server: Server) {
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            c.inline = Some(server);
        }
    }
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }
    /// A VDP's program's state, after the next turn of its server.
    ///
    /// # Errors
    /// No such VDP.
    pub fn program_status(
        &self,
        vid: Vid,
    ) -> Result<Receiver<Vec<(String, String)>>, ControlError> {
        let channel_no = self.vdp(vid)?.channel.channel;
        let (tx, rx) = channel();
        if let Some(c) = self.channels.get(usize::from(channel_no)) {
            c.ring.post(Box::new(move |s| {
                // Nobody waits any more: nothing to do.
                let _ = tx.send(s.status(vid));
            }));
        }
        Ok(rx)
    }

    // ---- taps

    /// Starts a capture; see [`TapPoint`].
    pub fn add_tap(
        &mut self,
        point: TapPoint,
        filter: Match,
        queue: usize,
    ) -> (TapId, Receiver<Captured>) {
        self.taps.add(point, filter, queue)
    }
    /// Ends a capture; says how many frames did not fit its queue.
    pub fn remove_tap(&mut self, id: TapId) -> Option<u64> {
        self.taps.remove(id)
    }

    // ---- looking

    /// Everything, as it is between two bursts.
    pub fn snapshot(&self) -> Snapshot {
        let backlog =
            |vid: Vid| -> usize { self.ports.iter().flatten().map(|p| p.tx.backlog_of(vid)).sum() };
        let parked = |vid: Vid| -> usize {
            let of = |p: &Port| p.parked.iter().filter(|f| f.vid == vid).count();
            self.ports.iter().flatten().map(|p| of(p)).sum()
        };
        let vdps: Vec<VdpView> = self
            .vdps
            .iter()
            .flatten()
            .map(|v| VdpView {
                vid: v.vid,
                name: v.name.clone(),
                phase: v.phase,
                ports: v.ports.clone(),
                rules: v.fast.len(),
                slow_rules: v.slow_only.len(),
                channel: (
                    v.channel.channel,
                    self.channels
                        .get(usize::from(v.channel.channel))
                        .map_or(Dedicated::No, |c| c.dedicated),
                ),
                counters: v.counters.clone(),
                held: v.held() + backlog(v.vid) + parked(v.vid),
                memory_bytes: v.fast.tables.iter().map(|t| t.memory_bytes()).sum(),
                migration: v.migration,
            })
            .collect();
        let mut ports: Vec<PortView> = self
            .ports
            .iter()
            .flatten()
            .map(|p| PortView {
                id: p.id,
                name: p.name.clone(),
                device: p.tx.device.name().to_owned(),
                up: p.tx.is_up(),
                counters: p.counters.clone(),
                device_counters: p.tx.device.counters(),
                backlog: p.tx.backlog(),
                fault: p.tx.device.fault(),
                exhausted: p.tx.device.exhausted(),
            })
            .collect();
        if let Some(c) = &self.removed_ports {
            ports.push(PortView {
                id: PortId(0),
                name: "(removed)".to_owned(),
                device: String::new(),
                up: false,
                counters: c.clone(),
                device_counters: DeviceCounters::default(),
                backlog: 0,
                fault: None,
                exhausted: true,
            });
        }
        let in_devices: usize = self
            .ports
            .iter()
            .flatten()
            .map(|p| p.tx.device.held() + p.tx.device.in_transit())
            .sum();
        let frames = FramesView {
            count: self.pool.count(),
            free: self.pool.available(),
            lent: in_devices,
            held: vdps.iter().map(|v| v.held).sum(),
            spares: self.channels.iter().map(|c| c.ring.spares_out).sum(),
        };
        Snapshot {
            at: self.now,
            ports,
            vdps,
            retired: self.retired.clone(),
            unmapped: self.unmapped.clone(),
            frames,
        }
    }
    /// Rules in all fast tables of all VDPs and mapping rules.
    pub fn rule_counts(&self) -> (usize, usize) {
        (self.mapping.len(), self.vdps.iter().flatten().map(|v| v.fast.len()).sum())
    }
}

fn owner(vid: Vid) -> Owner {
    Owner(vid.0.into())
}

fn entries(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Lets a closure stand where the output side reports.
pub(crate) struct Ends<'a>(pub(crate) &'a mut dyn FnMut(Vid, Frame, DropReason));

impl TxAccount for Ends<'_> {
    fn sent(&mut self, _vid: Vid, _bytes: usize) {
        // Only removals and links go through here: they send nothing.
    }
    fn dropped(&mut self, vid: Vid, frame: Frame, why: DropReason) {
        (self.0)(vid, frame, why);
    }
}

impl Tables {
    /// Every rule with its counters.
    pub fn views(&self, placed: Placed) -> Vec<RuleView> {
        let mut out = Vec::with_capacity(self.len());
        for (n, t) in self.tables.iter().enumerate() {
            t.for_each(&mut |r, e| {
                out.push(RuleView {
                    table: n as u8,
                    spec: RuleSpec {
                        matcher: r.matcher,
                        priority: r.priority,
                        cookie: e.cookie,
                        actions: Arc::clone(&e.actions),
                    },
                    hits: e.hits,
                    placed,
                });
            });
        }
        out
    }
    /// Puts a rule into table `n` where that is possible.
    pub(crate) fn put(&mut self, n: u8, spec: &RuleSpec, result: ActionResult) -> Option<Put> {
        self.table_mut(n).put(spec, result).ok()
    }
}
