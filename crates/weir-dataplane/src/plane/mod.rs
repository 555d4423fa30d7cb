//! The data plane of one worker: ports, VDPs, and the loop that takes bursts through the stages.
//!
//! ```text
//!  rx ─► 1 mapping ─► 2 matching ─► 3 processing ─┬─────────────► 5 forwarding ─► tx
//!                                                 └► 4 software ──┘
//! ```
//! Room: one thread owns a `DataPlane` and nothing in it is shared, so the way of a frame has no
//! lock. Control (`control.rs`) happens between bursts, by the same thread. Time is an argument, so
//! tests run in virtual time.

mod accounts;
mod alike;
mod away;
mod carrying;
mod grouped;
mod handover;
mod indexing;
mod inject;
mod metered;
mod mixed;
mod onward;
mod phases;
mod quiet;
mod stages;

use crate::action::Vid;
use crate::counters::{PortCounters, Tally, VdpCounters};
use crate::cpu_share::{self, Load, MOST_UNITS, Spent};
use crate::forwarding::{TxPort, left_to_wait};
use crate::mapping::Mapping;
use crate::packet::{Depth, Layers};
use crate::software::{Channel, Dedicated, Server, ToServer};
use crate::tap::{NO_VDP, Seen, Taps};
use crate::timing::{NoTimer, Stage, StageTimer};
use crate::userfield::UserFields;
use crate::vdp::{Compiled, Vdp};
use accounts::{Accounts, FastEgress};
use alike::Sizes;
use carrying::Carrying;
pub(crate) use inject::Injected;
use std::collections::VecDeque;
use weir_classify::{FlowKey, Probe};
use weir_packet::{BURST, Burst, DeviceCounters, DropReason, Feed, Frame, Nanos, Pool, PortId};

/// One port: its device inside its output side, and what is ours of it.
#[derive(Debug)]
pub struct Port {
    /// Its number.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// Output side and device.
    pub tx: TxPort,
    /// Counters.
    pub counters: PortCounters,
    /// What happens to frames that nobody polls.
    pub feed: Feed,
    /// Frames of a waiting source for which a channel had no room; polled on when they are gone.
    pub parked: VecDeque<ToServer>,
    /// Where frames leave that come by it from the data plane at which their VDP is.
    pub back_by: Option<PortId>,
    /// Which port's link its other end is told.
    pub stands_for: Option<PortId>,
}

/// A channel as the worker has it.
#[derive(Debug)]
pub struct WorkerChannel {
    /// Rings.
    pub ring: Channel,
    /// Its server, when the worker runs it.
    pub inline: Option<Server>,
    /// Whose it is.
    pub owner: Option<Vid>,
    /// Whether it is kept for one VDP.
    pub dedicated: Dedicated,
}

/// A frame that leaves the processing stage for the forwarding stage.
#[derive(Debug)]
struct OutItem {
    frame: Frame,
    port: PortId,
    vid: Vid,
    /// Which of the VDP's queues at that port.
    queue: u32,
}

/// What is known of each frame of a burst.
struct Work {
    burst: Burst,
    keys: Box<[FlowKey; BURST]>,
    layers: [Layers; BURST],
    probes: [Probe; BURST],
    vids: [Vid; BURST],
    slots: [Slot; BURST],
    /// Of a burst that is one VDP's: how much keys say, and which rules took the frames.
    depth: Depth,
    /// Of one that may be several VDPs', or goes through several tables: how much each frame's key says.
    depths: [Depth; BURST],
    found: [u32; BURST],
    /// Of frames that have gone on to later tables: who carries an action set.
    carrying: Carrying,
    out: Vec<OutItem>,
    soft: Vec<ToServer>,
    grave: Vec<Frame>,
}

/// What stage 2 found for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// A rule of table 0.
    Rule(u32),
    /// No rule: the default.
    Default,
    /// A rule of a table, where the frame is counted.
    At { table: u8, slot: u32 },
    /// No rule of this table, where that is counted: the default.
    DefaultOf(u8),
    /// To be held: the VDP is migrating.
    Hold,
    /// To be handed on: the VDP is away.
    Relay(PortId),
    /// Counted and changed: to leave by this port.
    Out(PortId),
    /// To be dropped.
    Drop(DropReason),
}

impl Slot {
    /// The rule that takes the frame: its table and its slot there.
    #[inline(always)]
    fn rule(self) -> Option<(u8, u32)> {
        match self {
            Self::Rule(slot) => Some((0, slot)),
            Self::At { table, slot } => Some((table, slot)),
            _ => None,
        }
    }
}

/// The places of a burst whose bits are set.
fn each(of: u64) -> impl Iterator<Item = usize> {
    (0..BURST).filter(move |i| of >> i & 1 == 1)
}

/// With this many VDPs what their frames touch of them stays in the nearest cache by itself.
const FEW_VDPS: usize = 16;

/// Frames that a migration may hold.
pub const HOLD_FRAMES: usize = 4096;

/// A data plane with its VDPs.
pub struct DataPlane {
    pub(crate) pool: Pool,
    /// By their numbers, none of which is used twice.
    pub(crate) ports: Vec<Option<Box<Port>>>,
    /// Those that are there.
    pub(crate) polled: Vec<PortId>,
    pub(crate) mapping: Mapping,
    pub(crate) vdps: Vec<Option<Box<Vdp>>>,
    pub(crate) channels: Vec<WorkerChannel>,
    pub(crate) tcam: weir_classify::Tcam,
    /// The last rule's.
    pub(crate) compiled: Option<Compiled>,
    pub(crate) taps: Taps,
    pub(crate) shortcuts: crate::shortcut::Shortcuts,
    pub(crate) subscribers: crate::control::Subscribers,
    pub(crate) now: Nanos,
    /// Counters of VDPs that were deleted.
    pub(crate) retired: VdpCounters,
    /// What happened to frames before they had a VDP.
    pub(crate) unmapped: VdpCounters,
    pub(crate) migrating: usize,
    pub(crate) deleting: usize,
    /// A change is being made that every worker of a crew makes.
    pub(crate) one_of_many: bool,
    /// Ports are not asked for frames.
    pub(crate) ports_rest: bool,
    /// Ports that a worker of several has whole.
    pub(crate) pins: crate::control::Pins,
    /// By which a crew is asked.
    pub(crate) desk: Option<Box<crate::crew::desk::Desk>>,
    /// VDPs that were seen in this interval.
    seen: Vec<Vid>,
    /// What was dealt out for this interval.
    dealt: Vec<(Vid, cpu_share::Usage)>,
    interval: Nanos,
    interval_units: u64,
    /// VDPs that are promised a part of the worker.
    promised: usize,
    idle_rounds: u32,
    /// The worker did not have its processor for much of this interval.
    was_kept: bool,
    /// Polls in this interval that gave a whole burst: there may be more.
    whole_bursts: u32,
    /// The place in the list of ports from which a round goes on, where the last one had not room for all of them.
    first_polled: usize,
    pub(crate) config: crate::control::Config,
    pub(crate) changes: crate::control::Changes,
    /// Counters of ports that were removed, and of their devices.
    pub(crate) removed_ports: Option<(PortCounters, DeviceCounters)>,
    indexing: indexing::Indexing,
    work: Work,
}

impl std::fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataPlane")
            .field("ports", &self.polled.len())
            .field("vdps", &self.vdps.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

/// Finds a VDP by its id.
#[inline(always)]
pub(crate) fn vdp_mut(vdps: &mut [Option<Box<Vdp>>], vid: Vid) -> Option<&mut Vdp> {
    vdps.get_mut(usize::from(vid.0))?.as_deref_mut()
}

impl DataPlane {
    pub(crate) fn assemble(
        pool: Pool,
        channels: Vec<WorkerChannel>,
        tcam: weir_classify::Tcam,
        config: crate::control::Config,
    ) -> Self {
        Self {
            pool,
            ports: vec![None],
            polled: Vec::new(),
            mapping: Mapping::default(),
            vdps: Vec::new(),
            channels,
            tcam,
            compiled: None,
            taps: Taps::default(),
            shortcuts: crate::shortcut::Shortcuts::default(),
            subscribers: crate::control::Subscribers::default(),
            now: Nanos(0),
            retired: VdpCounters::default(),
            unmapped: VdpCounters::default(),
            migrating: 0,
            deleting: 0,
            one_of_many: false,
            ports_rest: false,
            pins: crate::control::Pins::new(),
            desk: None,
            seen: Vec::new(),
            dealt: Vec::new(),
            interval: Nanos(0),
            interval_units: 0,
            promised: 0,
            was_kept: false,
            idle_rounds: 0,
            whole_bursts: 0,
            first_polled: 0,
            config,
            changes: crate::control::Changes::default(),
            removed_ports: None,
            indexing: indexing::Indexing::default(),
            work: Work {
                burst: Burst::new(),
                keys: Box::new([FlowKey::default(); BURST]),
                layers: [Layers::default(); BURST],
                probes: [Probe::default(); BURST],
                vids: [Vid(0); BURST],
                slots: [Slot::Default; BURST],
                depth: Depth::Whole,
                depths: [Depth::Whole; BURST],
                carrying: Carrying::default(),
                found: [0; BURST],
                out: Vec::with_capacity(BURST * 64),
                soft: Vec::with_capacity(BURST * 4),
                grave: Vec::with_capacity(BURST * 64),
            },
        }
    }

    /// One round at time `now`: every port once, the software stage, the output side. Says how
    /// many frames it moved; zero means that there was nothing to do.
    pub fn poll(&mut self, now: Nanos) -> usize {
        self.poll_timed(now, &mut NoTimer)
    }

    /// As [`DataPlane::poll`], telling `timer` when each stage ends.
    pub fn poll_timed<T: StageTimer>(&mut self, now: Nanos, timer: &mut T) -> usize {
        self.now = now;
        let mut moved = 0;
        let (mut polling, mut waiting) = self.sources_must_wait();
        let (n, first) = (self.polled.len(), std::mem::take(&mut self.first_polled));
        for k in 0..n {
            let i = if first == 0 { k } else { (first + k) % n };
            let Some(&id) = self.polled.get(i) else { break };
            if polling == Polling::All && !waiting.leaves_room(&self.pool) {
                // Those that have not been asked are first in the next round.
                self.first_polled = i;
                polling = Polling::NotWaiting;
            }
            let came = self.poll_port(id, polling, timer);
            moved += came;
            self.whole_bursts += u32::from(came >= BURST);
            waiting.frames += came * waiting.queues;
        }
        moved += self.software_round(timer);
        if self.migrating + self.deleting > 0 {
            // What this round has staged has left before anybody asks whether it has.
            self.flush_ports(timer);
            self.advance_phases();
        }
        // Last: what a migration has let go is staged by now, and a round leaves nothing staged.
        self.flush_ports(timer);
        self.idle_rounds += u32::from(moved == 0);
        if now.since(self.interval) >= cpu_share::INTERVAL || self.interval_units >= MOST_UNITS {
            self.end_interval();
            self.tend_shortcuts();
        }
        if self.indexing.is_due(now) {
            self.tend_indexes();
        }
        moved
    }

    /// The ports that are there. Who does something each round goes by these: a walk over all numbers would take longer
    /// with each port that ever was.
    #[inline]
    pub(crate) fn present(&self) -> impl Iterator<Item = &Port> {
        self.polled.iter().filter_map(|id| self.ports.get(usize::from(id.0))?.as_deref())
    }

    /// Whether sources that wait should be left waiting: an output queue or a migration's hold has
    /// not room enough for a burst of each port, or too few frames are left to wait in queues.
    fn sources_must_wait(&self) -> (Polling, Waiting) {
        let mut waiting = Waiting::default();
        if self.ports_rest {
            return (Polling::None, waiting);
        }
        if self.migrating > 0 {
            // Networks go on: what a VDP can't hold is lost to it, and to nobody else.
            let room = (self.polled.len() * BURST).min(HOLD_FRAMES / 2);
            let full = |v: &Vdp| v.hold.len() + room > HOLD_FRAMES;
            if self.vdps.iter().flatten().any(|v| full(v)) {
                return (Polling::NotWaiting, waiting);
            }
            // Else one that is never empty would keep what is held from ever being past.
            if self.vdps.iter().flatten().any(|v| v.lets_go()) {
                return (Polling::NotWaiting, waiting);
            }
        }
        for p in self.present() {
            if is_full(p) {
                return (Polling::NotWaiting, waiting);
            }
            waiting.queues += usize::from(p.tx.backlog() > 0);
            waiting.frames += p.tx.backlog();
        }
        (Polling::All, waiting)
    }

    /// Whether frames come by this port from where their VDP is, and there is room where they leave.
    #[cold]
    fn takes_back(&self, id: PortId) -> bool {
        let port = |id: PortId| self.ports.get(usize::from(id.0))?.as_deref();
        let near = port(id).and_then(|p| port(p.back_by?));
        near.is_some_and(|p| !is_full(p))
    }

    #[inline]
    fn poll_port<T: StageTimer>(&mut self, id: PortId, polling: Polling, timer: &mut T) -> usize {
        let comes_back = polling != Polling::All && self.takes_back(id);
        let Some(port) = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut)
        else {
            return 0;
        };
        match (polling, port.feed) {
            (Polling::All, _) => {}
            // What comes back to a VDP that is away is waited for, by what it holds or where it is.
            _ if comes_back => {}
            (Polling::None, _) | (Polling::NotWaiting, Feed::Waits) => return 0,
            _ => {}
        }
        if !port.parked.is_empty() {
            self.unpark(id);
            return 0;
        }
        timer.begin();
        let moved = port.tx.device.rx(&mut self.pool, &mut self.work.burst);
        let n = self.work.burst.len();
        if n == 0 {
            // What a device gave to other workers was work, too.
            return moved;
        }
        let sizes = Sizes::of(&self.work.burst);
        port.counters.rx.merge(Tally { frames: n as u64, bytes: sizes.bytes as u64 });
        timer.end(Stage::Receive, n);
        match self.all_of(id, sizes) {
            Some(vid) => self.stages_alike(vid, id, sizes, timer),
            None if self.may_mix(sizes) => self.stages_mixed(id, timer),
            None => self.stages(id, timer),
        }
        n
    }

    /// Takes the burst in `work` through stages 1 to 3 and on to 4 and 5.
    fn stages<T: StageTimer>(&mut self, in_port: PortId, timer: &mut T) {
        if self.taps.any() {
            self.tap_in(in_port);
        }
        let n = self.work.burst.len();
        self.map(in_port);
        timer.end(Stage::Mapping, n);
        if self.taps.any() {
            self.tap_mapped(in_port);
        }
        self.match_rules(in_port);
        timer.end(Stage::Matching, n);
        self.process(in_port);
        timer.end(Stage::Processing, n);
        self.hand_over(in_port);
        timer.end(Stage::Forwarding, n);
        self.bury();
    }

    /// [`DataPlane::stages`] for a burst of one VDP's.
    fn stages_alike<T: StageTimer>(
        &mut self,
        vid: Vid,
        in_port: PortId,
        sizes: Sizes,
        timer: &mut T,
    ) {
        let n = self.work.burst.len();
        timer.end(Stage::Mapping, n);
        self.match_alike(vid, in_port, sizes);
        timer.end(Stage::Matching, n);
        if let Some(by) = self.process_alike(vid, in_port, sizes) {
            timer.end(Stage::Processing, n);
            self.forward_all(by);
        } else {
            self.process(in_port);
            timer.end(Stage::Processing, n);
            self.hand_over(in_port);
        }
        timer.end(Stage::Forwarding, n);
        self.bury();
    }

    /// [`DataPlane::stages`] for a burst that may be many VDPs'.
    fn stages_mixed<T: StageTimer>(&mut self, in_port: PortId, timer: &mut T) {
        let n = self.work.burst.len();
        let known = self.map_mixed(in_port);
        timer.end(Stage::Mapping, n);
        let apart = self.match_mixed(in_port, known);
        timer.end(Stage::Matching, n);
        if let Some(by) = self.process_mixed(in_port, apart) {
            timer.end(Stage::Processing, n);
            self.forward_all(by);
        } else {
            self.process(in_port);
            timer.end(Stage::Processing, n);
            self.hand_over(in_port);
        }
        timer.end(Stage::Forwarding, n);
        self.bury();
    }

    /// A VDP was promised `before` thousandths of the worker, and is promised `now`. With the first promise, and the last,
    /// everything begins anew: what was done before says nothing about it, and nobody has a limit.
    pub(crate) fn repromise(&mut self, before: u16, now: u16) {
        let nobody = self.promised == 0;
        self.promised = self.promised + usize::from(now > 0) - usize::from(before > 0);
        if nobody == (self.promised == 0) {
            return;
        }
        for v in self.vdps.iter_mut().flatten() {
            v.worked += v.spent.used();
            (v.cpu.asked, v.cpu.limit, v.spent) = (0, None, Spent::default());
            v.edge.guard_lookups(false);
        }
        self.seen.clear();
        self.dealt.clear();
        self.begin_interval();
    }

    fn begin_interval(&mut self) {
        (self.interval, self.interval_units) = (self.now, 0);
        (self.idle_rounds, self.whole_bursts, self.was_kept) = (0, 0, false);
    }

    /// Who polls did not have its processor for an interval of CPU shares or longer since that was looked at last: what it does until this interval
    /// ends says little of what it can do, so nobody is held to a part of that.
    pub fn was_kept_from_work(&mut self) {
        self.was_kept = true;
    }
    /// Whether any VDP is promised a part of the worker.
    pub(crate) fn is_promised(&self) -> bool {
        self.promised > 0
    }

    /// Lists with a place for each VDP never grow while frames pass.
    pub(crate) fn make_room_for_vdps(&mut self) {
        let n = self.vdps.len();
        self.seen.reserve(n);
        self.dealt.reserve(n);
    }

    /// Ends an interval of CPU shares. Where nobody is promised anything, or held to anything, that can wait: who did how
    /// much of what is asked of each VDP then, in lines of memory that frames need.
    fn end_interval(&mut self) {
        if self.promised == 0 && self.dealt.is_empty() && self.interval_units < MOST_UNITS {
            (self.interval, self.idle_rounds, self.whole_bursts) = (self.now, 0, 0);
            self.was_kept = false;
            return;
        }
        let load = match self.idle_rounds {
            _ if self.was_kept || self.now.since(self.interval) >= cpu_share::PAUSE => Load::Paused,
            0 if self.whole_bursts > 0 => Load::Saturated,
            _ => Load::Idle,
        };
        let capacity = self.interval_units;
        self.begin_interval();
        // Those who had a limit and sent nothing since lose it: they are not dealt to again.
        for (vid, _) in self.dealt.drain(..) {
            if let Some(v) = vdp_mut(&mut self.vdps, vid)
                && !v.spent.is_listed()
            {
                v.spent.set_free(&mut v.cpu);
            }
        }
        for vid in self.seen.drain(..) {
            if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                v.worked += v.spent.used();
                self.dealt.push((vid, v.spent.end(&v.cpu)));
            }
        }
        // Where nothing is promised nobody is held to anything, and nothing needs to be charged for.
        let promised = self.dealt.iter().any(|(_, u)| u.guarantee_permille > 0);
        cpu_share::deal(capacity, load, &mut self.dealt);
        for (vid, usage) in &self.dealt {
            if let Some(v) = vdp_mut(&mut self.vdps, *vid) {
                let lookup = if promised { cpu_share::lookup_units(&v.fast.tables) } else { 0 };
                v.cpu = *usage;
                v.spent = Spent::new(usage, lookup);
                v.edge.guard_lookups(lookup > 0);
            }
        }
        if !promised && self.dealt.iter().all(|(_, u)| u.limit.is_none()) {
            self.dealt.clear();
        }
    }

    fn tap_in(&mut self, in_port: PortId) {
        for f in self.work.burst.as_slice() {
            self.taps.see(&Seen::came(Stage::Receive, in_port, NO_VDP), f, self.now);
        }
    }

    fn tap_mapped(&mut self, in_port: PortId) {
        let w = &self.work;
        for (f, vid) in w.burst.as_slice().iter().zip(&w.vids) {
            self.taps.see(&Seen::came(Stage::Mapping, in_port, *vid), f, self.now);
        }
    }

    /// Frames that are held are matched when they are let go.
    fn tap_matched(&mut self, in_port: PortId) {
        let w = &self.work;
        for ((f, vid), slot) in w.burst.as_slice().iter().zip(&w.vids).zip(&w.slots) {
            if !matches!(slot, Slot::Drop(_) | Slot::Hold) {
                self.taps.see(&Seen::came(Stage::Matching, in_port, *vid), f, self.now);
            }
        }
    }

    /// What the burst has come to, whichever way it goes on: nothing else is staged meanwhile.
    fn tap_processed(&mut self, in_port: PortId) {
        let w = &self.work;
        let out = w.out.iter().map(|o| (&o.frame, o.vid));
        for (f, vid) in out.chain(w.soft.iter().map(|s| (&s.frame, s.vid))) {
            self.taps.see(&Seen::came(Stage::Processing, in_port, vid), f, self.now);
        }
    }

    fn tap_out(&mut self, came_by: Option<PortId>) {
        for o in &self.work.out {
            let seen = Seen { stage: Stage::Forwarding, port: o.port, came_by, vid: o.vid };
            self.taps.see(&seen, &o.frame, self.now);
        }
    }

    /// Runs `f` with the output side of a port and the accounts for it.
    pub(crate) fn with_tx<R>(
        &mut self,
        id: PortId,
        f: impl FnOnce(&mut TxPort, &mut Pool, &mut Accounts<'_>) -> R,
    ) -> Option<R> {
        let p = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut)?;
        let mut accounts = Accounts {
            at: p.id,
            vdps: &mut self.vdps,
            retired: &mut self.retired,
            port: &mut p.counters,
            grave: &mut self.work.grave,
        };
        let r = f(&mut p.tx, &mut self.pool, &mut accounts);
        self.bury();
        Some(r)
    }
}

impl Drop for DataPlane {
    /// Brings every frame home and lets go of the devices, since a region with frames about can't
    /// be given back to the system. Frames of a server that is elsewhere stay out, and the region
    /// with them.
    fn drop(&mut self) {
        for i in 0..self.ports.len() {
            let id = PortId(i as u16);
            self.with_tx(id, |tx, pool, a| {
                tx.drop_all(DropReason::NoSuchPort, a);
                tx.device.close(pool);
            });
        }
        for f in self.ports.iter_mut().flatten().flat_map(|p| p.parked.drain(..)) {
            self.pool.free(f.frame);
        }
        for h in self.vdps.iter_mut().flatten().flat_map(|v| v.hold.drain(..)) {
            self.pool.free(h.frame);
        }
        for c in &mut self.channels {
            loop {
                c.inline.as_mut().map(Server::release);
                while let Some(d) = c.ring.pop() {
                    self.pool.free(d.frame);
                }
                if c.inline.as_ref().is_none_or(|s| s.pending() == 0) {
                    break;
                }
            }
        }
    }
}

/// Whether an output queue has not room enough for a burst of each port.
fn is_full(p: &Port) -> bool {
    p.tx.backlog() > 0 && p.tx.backlog() + 2 * BURST > 512
}

/// What waits at ports when a round begins, and in how many of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Waiting {
    frames: usize,
    queues: usize,
}

impl Waiting {
    /// Whether nothing waits, or a burst more may go to all of these queues.
    #[inline]
    fn leaves_room(self, pool: &Pool) -> bool {
        let brought = BURST * self.queues;
        self.frames == 0 || self.frames + 2 * brought <= left_to_wait(pool)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Polling {
    All,
    NotWaiting,
    None,
}
