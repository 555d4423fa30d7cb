//! The data plane of one worker: ports, VDPs, and the loop that takes bursts through the stages.
//!
//! ```text
//!  rx ─► 1 mapping ─► 2 matching ─► 3 processing ─┬─────────────► 5 forwarding ─► tx
//!                                                 └► 4 software ──┘
//! ```
//! Room: one thread owns a `DataPlane` and nothing in it is shared, so the way of a frame has no
//! lock. Control (`control.rs`) happens between bursts, by the same thread. Time is an argument, so
//! tests run in virtual time.

use crate::action::Vid;
use crate::compile::bits;
use crate::counters::{PortCounters, Tally, VdpCounters};
use crate::cpu_share::{self, Grant, Load};
use crate::execute::{self, ChannelTo, Egress, Source, Subject, apply_paper_bits};
use crate::forwarding::{TxAccount, TxPort};
use crate::mapping::Mapping;
use crate::packet::{Layers, extract};
use crate::program::{Done, End, Origin, Punt};
use crate::software::{Channel, CopyHits, Dedicated, Server, ToServer};
use crate::tap::{NO_VDP, Seen, Taps};
use crate::timing::{NoTimer, Stage, StageTimer};
use crate::vdp::{Held, Path, Phase, Renumbered, Vdp};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};
use weir_classify::simd::prefetch_read;
use weir_classify::{FlowKey, Probe};
use weir_packet::{BURST, Burst, DropReason, Feed, Frame, Nanos, Pool, PortId};

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
}

/// What is known of each frame of a burst.
struct Work {
    burst: Burst,
    keys: Box<[FlowKey; BURST]>,
    layers: [Layers; BURST],
    probes: [Probe; BURST],
    vids: [Vid; BURST],
    slots: [Slot; BURST],
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
    /// To be held: the VDP is migrating.
    Hold,
    /// To be dropped.
    Drop(DropReason),
}

/// With this many VDPs their tables stay in the nearest cache by themselves.
const FEW_VDPS: usize = 16;

/// Frames that a migration may hold.
pub const HOLD_FRAMES: usize = 4096;

/// A data plane with its VDPs.
pub struct DataPlane {
    pub(crate) pool: Pool,
    pub(crate) ports: Vec<Option<Box<Port>>>,
    pub(crate) polled: Vec<PortId>,
    pub(crate) mapping: Mapping,
    pub(crate) vdps: Vec<Option<Box<Vdp>>>,
    pub(crate) channels: Vec<WorkerChannel>,
    pub(crate) tcam: weir_classify::Tcam,
    pub(crate) taps: Taps,
    pub(crate) now: Nanos,
    /// Counters of VDPs that were deleted.
    pub(crate) retired: VdpCounters,
    /// What happened to frames before they had a VDP.
    pub(crate) unmapped: VdpCounters,
    pub(crate) migrating: usize,
    pub(crate) deleting: usize,
    /// VDPs that were seen in this interval.
    seen: Vec<Vid>,
    /// What was dealt out for this interval.
    dealt: Vec<(Vid, cpu_share::Usage)>,
    interval: Nanos,
    interval_units: u64,
    idle_rounds: u32,
    pub(crate) config: crate::control::Config,
    /// Counters of ports that were removed.
    pub(crate) removed_ports: Option<PortCounters>,
    /// Hits on the slow path, on their way back to the rules of the fast path.
    merges: Vec<(Vid, Receiver<Vec<CopyHits>>)>,
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
fn vdp_mut(vdps: &mut [Option<Box<Vdp>>], vid: Vid) -> Option<&mut Vdp> {
    vdps.get_mut(usize::from(vid.0))?.as_deref_mut()
}

/// Counts what the forwarding stage does, and keeps dropped frames until they can be freed.
struct Accounts<'a> {
    vdps: &'a mut [Option<Box<Vdp>>],
    retired: &'a mut VdpCounters,
    port: &'a mut PortCounters,
    grave: &'a mut Vec<Frame>,
}

impl TxAccount for Accounts<'_> {
    #[inline(always)]
    fn sent(&mut self, vid: Vid, bytes: usize) {
        self.port.tx.add(bytes);
        match vdp_mut(self.vdps, vid) {
            Some(v) => v.counters.forwarded.add(bytes),
            None => self.retired.forwarded.add(bytes),
        }
    }
    fn dropped(&mut self, vid: Vid, frame: Frame, why: DropReason) {
        self.port.tx_dropped.add(why);
        match vdp_mut(self.vdps, vid) {
            Some(v) => v.counters.dropped.add(why),
            None => self.retired.dropped.add(why),
        }
        self.grave.push(frame);
    }
}

/// The executor's way out of the fast path: everything goes into this round's lists.
struct FastEgress<'a> {
    vid: Vid,
    now: Nanos,
    pool: &'a mut Pool,
    ports: &'a [Option<Box<Port>>],
    vdp_ports: &'a [PortId],
    counters: &'a mut VdpCounters,
    out: &'a mut Vec<OutItem>,
    soft: &'a mut Vec<ToServer>,
    grave: &'a mut Vec<Frame>,
}

impl Egress for FastEgress<'_> {
    fn output(&mut self, frame: Frame, port: PortId, _queue: u32, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        self.out.push(OutItem { frame, port, vid: self.vid });
    }
    fn channel(&mut self, frame: Frame, in_port: PortId, to: ChannelTo, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        match to {
            ChannelTo::Program(why) => {
                self.soft.push(ToServer { frame, vid: self.vid, in_port, why });
            }
            ChannelTo::Consumer => {
                self.counters.consumed += 1;
                self.grave.push(frame);
            }
        }
    }
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin) {
        self.counters.cloned += u64::from(origin == Origin::Cloned);
        self.counters.dropped.add(why);
        self.grave.push(frame);
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let mut f = self.pool.alloc();
        if let Some(c) = &mut f
            && c.clone_from_frame(of).is_err()
        {
            self.grave.extend(f.take());
        }
        if f.is_none() {
            // The copy that could not be is counted as made and lost, so that its loss shows.
            self.counters.cloned += 1;
            self.counters.dropped.add(DropReason::NoFrame);
        }
        f
    }
    fn ports(&self) -> &[PortId] {
        self.vdp_ports
    }
    fn is_live(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port.0)).and_then(Option::as_ref).is_some_and(|p| p.tx.is_up())
    }
    fn now(&self) -> Nanos {
        self.now
    }
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
            taps: Taps::default(),
            now: Nanos(0),
            retired: VdpCounters::default(),
            unmapped: VdpCounters::default(),
            migrating: 0,
            deleting: 0,
            seen: Vec::new(),
            dealt: Vec::new(),
            interval: Nanos(0),
            interval_units: 0,
            idle_rounds: 0,
            config,
            removed_ports: None,
            merges: Vec::new(),
            work: Work {
                burst: Burst::new(),
                keys: Box::new([FlowKey::default(); BURST]),
                layers: [Layers::default(); BURST],
                probes: [Probe::default(); BURST],
                vids: [Vid(0); BURST],
                slots: [Slot::Default; BURST],
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
        let wait = self.sources_must_wait();
        for i in 0..self.polled.len() {
            let Some(&id) = self.polled.get(i) else { break };
            moved += self.poll_port(id, wait, timer);
        }
        moved += self.software_round(timer);
        self.flush_ports(timer);
        if self.migrating + self.deleting > 0 {
            self.advance_phases();
        }
        self.idle_rounds += u32::from(moved == 0);
        if now.since(self.interval) >= cpu_share::INTERVAL {
            self.end_interval();
        }
        moved
    }

    /// Whether sources that wait should be left waiting: an output queue or a migration's hold has
    /// not room enough for a burst of each port.
    fn sources_must_wait(&self) -> Polling {
        let backlog = |p: &Port| p.tx.backlog() > 0 && p.tx.backlog() + 2 * BURST > 512;
        if self.migrating > 0 {
            let room = self.polled.len() * BURST;
            let full = |v: &Vdp| v.hold.len() + room > HOLD_FRAMES;
            if self.vdps.iter().flatten().any(|v| full(v)) {
                return Polling::None;
            }
        }
        if self.ports.iter().flatten().any(|p| backlog(p)) {
            return Polling::NotWaiting;
        }
        Polling::All
    }

    #[inline]
    fn poll_port<T: StageTimer>(&mut self, id: PortId, polling: Polling, timer: &mut T) -> usize {
        let Some(port) = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut)
        else {
            return 0;
        };
        match (polling, port.feed) {
            (Polling::None, _) | (Polling::NotWaiting, Feed::Waits) => return 0,
            _ => {}
        }
        if !port.parked.is_empty() {
            self.unpark(id);
            return 0;
        }
        timer.begin();
        let n = port.tx.device.rx(&mut self.pool, &mut self.work.burst);
        if n == 0 {
            return 0;
        }
        let bytes: usize = self.work.burst.as_slice().iter().map(Frame::len).sum();
        port.counters.rx.merge(Tally { frames: n as u64, bytes: bytes as u64 });
        timer.end(Stage::Receive, n);
        self.stages(id, timer);
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
        self.hand_to_software(in_port);
        self.hand_to_forwarding();
        timer.end(Stage::Forwarding, n);
        self.bury();
    }

    /// Stage 1.
    #[inline]
    fn map(&mut self, in_port: PortId) {
        let w = &mut self.work;
        let frames = w.burst.as_slice();
        for f in frames {
            prefetch_read(f.bytes());
        }
        let outs = w.slots.iter_mut().zip(&mut w.probes);
        let ins = frames.iter().zip(w.keys.iter_mut().zip(&mut w.layers));
        for ((f, (key, layers)), (slot, probe)) in ins.zip(outs) {
            match extract(f.bytes(), in_port.0.into(), key) {
                Ok(l) => {
                    *layers = l;
                    *slot = Slot::Default;
                    *probe = self.mapping.probe(key);
                }
                Err(why) => *slot = Slot::Drop(why),
            }
        }
        let outs = w.slots.iter().zip(&w.probes).zip(&mut w.vids);
        let ins = frames.iter().zip(w.keys.iter().zip(&w.layers));
        for ((f, (key, layers)), ((slot, probe), vid)) in ins.zip(outs) {
            if let Slot::Drop(_) = slot {
                *vid = Vid(u16::MAX);
                continue;
            }
            *vid = self.mapping.resolve(key, *probe, f.bytes(), layers);
            if let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) {
                prefetch_read(&v.counters);
                prefetch_read(&v.phase);
                prefetch_read(&v.fast.tables.first().classifier);
            }
        }
    }

    /// Stage 2.
    #[inline]
    fn match_rules(&mut self, in_port: PortId) {
        let w = &mut self.work;
        let frames = w.burst.as_slice();
        // Many VDPs mean many tables: their first lines are asked for before any is needed.
        let many = if self.vdps.len() > FEW_VDPS { frames.len() } else { 0 };
        for vid in w.vids.iter().take(many) {
            if let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) {
                v.fast.tables.first().classifier.warm();
            }
        }
        let outs = w.slots.iter_mut().zip(&mut w.probes).zip(&w.vids);
        let ins = frames.iter().zip(w.keys.iter_mut().zip(&w.layers));
        for ((f, (key, layers)), ((slot, probe), &vid)) in ins.zip(outs) {
            if let Slot::Drop(_) = slot {
                continue;
            }
            let Some(v) = vdp_mut(&mut self.vdps, vid) else {
                *slot = Slot::Drop(DropReason::VdpGone);
                continue;
            };
            v.counters.received.add(f.len());
            if v.cpu.first_seen() {
                self.seen.push(vid);
            }
            match v.phase {
                Phase::On(Path::Fast) => {
                    if v.renumbered == Renumbered::Yes {
                        let local = v.local_no(in_port);
                        key.0[0] = key.0[0] & 0xffff_ffff | u64::from(local) << 32;
                    }
                    v.fields.extract(f.bytes(), layers, key);
                    *probe = v.fast.tables.first().classifier.probe(key);
                    *slot = Slot::Rule(0);
                }
                Phase::On(Path::Slow) => {}
                Phase::Draining { .. } | Phase::Returning => *slot = Slot::Hold,
                Phase::Deleting => *slot = Slot::Drop(DropReason::VdpGone),
            }
        }
        let outs = w.slots.iter_mut().zip(&w.probes).zip(&w.vids);
        for (key, ((slot, probe), vid)) in w.keys.iter().zip(outs).take(frames.len()) {
            let Slot::Rule(_) = slot else { continue };
            let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) else { continue };
            let t = v.fast.tables.first();
            *slot = match t.classifier.resolve(key, *probe) {
                Some(r) => {
                    t.prefetch(r.0);
                    Slot::Rule(r.0)
                }
                None => Slot::Default,
            };
        }
    }

    /// Stage 3.
    #[inline]
    fn process(&mut self, in_port: PortId) {
        let w = &mut self.work;
        for (i, mut frame) in w.burst.drain().enumerate() {
            let vid = w.vids[i];
            let slot = w.slots[i];
            let Some(v) = vdp_mut(&mut self.vdps, vid) else {
                let why = match slot {
                    Slot::Drop(why) => why,
                    _ => DropReason::VdpGone,
                };
                self.unmapped.received.add(frame.len());
                self.unmapped.dropped.add(why);
                w.grave.push(frame);
                continue;
            };
            let entry = match slot {
                Slot::Rule(s) => v.fast.tables.first_mut().entry_mut(s),
                Slot::Default => None,
                Slot::Hold => {
                    if v.hold.len() < HOLD_FRAMES {
                        v.hold.push_back(Held { frame, in_port });
                    } else {
                        v.counters.dropped.add(DropReason::HoldFull);
                        w.grave.push(frame);
                    }
                    continue;
                }
                Slot::Drop(why) => {
                    v.counters.dropped.add(why);
                    w.grave.push(frame);
                    continue;
                }
            };
            let (r, source) = match (entry, slot) {
                (Some(e), Slot::Rule(s)) => {
                    e.hits.add(frame.len());
                    (&e.result, Source::Entry { table: 0, slot: s })
                }
                // On the slow path the default rule is the first rule: everything by the channel.
                _ if v.phase == Phase::On(Path::Slow) => {
                    self.interval_units += 2;
                    if v.cpu.ask(2) == Grant::Exceeded {
                        v.counters.dropped.add(DropReason::CpuShare);
                        w.grave.push(frame);
                    } else {
                        w.soft.push(ToServer { frame, vid, in_port, why: Punt::Default });
                    }
                    continue;
                }
                _ => (&v.miss, Source::Default),
            };
            let units = u64::from(r.cost);
            self.interval_units += units;
            if v.cpu.ask(units) == Grant::Exceeded {
                v.counters.dropped.add(DropReason::CpuShare);
                w.grave.push(frame);
                continue;
            }
            // The common shapes, straight.
            if r.bits & (bits::PROGRAM | bits::DROP | bits::FORWARD) == bits::FORWARD {
                match apply_paper_bits(r, &mut frame, w.layers[i], &mut w.keys[i]) {
                    Ok(()) if r.port != in_port => {
                        w.out.push(OutItem { frame, port: r.port, vid });
                    }
                    Ok(()) => {
                        v.counters.dropped.add(DropReason::Action);
                        w.grave.push(frame);
                    }
                    Err(why) => {
                        v.counters.dropped.add(why);
                        w.grave.push(frame);
                    }
                }
                continue;
            }
            if r.bits & (bits::PROGRAM | bits::DROP | bits::FORWARD) == 0 {
                let why = match source {
                    Source::Default => Punt::Default,
                    Source::Entry { .. } => Punt::Action,
                };
                w.soft.push(ToServer { frame, vid, in_port, why });
                continue;
            }
            let mut e = FastEgress {
                vid,
                now: self.now,
                pool: &mut self.pool,
                ports: &self.ports,
                vdp_ports: &v.port_ids,
                counters: &mut v.counters,
                out: &mut w.out,
                soft: &mut w.soft,
                grave: &mut w.grave,
            };
            let mut s = Subject {
                vid,
                in_port,
                key: &mut w.keys[i],
                layers: w.layers[i],
                fields: &v.fields,
            };
            execute::run(source, frame, &mut s, &mut v.fast, &v.miss, &mut e);
        }
    }

    /// Hands frames to the software stage.
    #[inline]
    fn hand_to_software(&mut self, in_port: PortId) {
        if self.work.soft.is_empty() {
            return;
        }
        let mut soft = std::mem::take(&mut self.work.soft);
        if self.taps.any() {
            for f in &soft {
                let seen = Seen { stage: Stage::Software, port: in_port, vid: f.vid };
                self.taps.see(&seen, &f.frame, self.now);
            }
        }
        for f in soft.drain(..) {
            if let Err((f, why)) = self.push_channel(f) {
                self.no_room(in_port, f, why);
            }
        }
        self.work.soft = soft;
    }

    /// A frame for which its channel has no room: a waiting source waits, others lose it.
    #[cold]
    fn no_room(&mut self, in_port: PortId, f: ToServer, why: DropReason) {
        let port = self.ports.get_mut(usize::from(in_port.0)).and_then(Option::as_deref_mut);
        if let Some(p) = port
            && p.feed == Feed::Waits
            && why == DropReason::ChannelFull
            && p.parked.len() < 4 * BURST
        {
            p.parked.push_back(f);
            return;
        }
        self.end_dropped(f.vid, f.frame, why);
    }

    fn unpark(&mut self, id: PortId) {
        loop {
            let port = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
            let Some(f) = port.and_then(|p| p.parked.pop_front()) else { return };
            match self.push_channel(f) {
                Ok(()) => {}
                Err((f, DropReason::ChannelFull)) => {
                    let port = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
                    if let Some(p) = port {
                        p.parked.push_front(f);
                    }
                    return;
                }
                Err((f, why)) => self.end_dropped(f.vid, f.frame, why),
            }
        }
    }

    #[inline]
    fn push_channel(&mut self, f: ToServer) -> Result<(), (ToServer, DropReason)> {
        let Some(v) = vdp_mut(&mut self.vdps, f.vid) else { return Err((f, DropReason::VdpGone)) };
        let Some(c) = self.channels.get_mut(usize::from(v.channel.channel)) else {
            return Err((f, DropReason::ChannelFull));
        };
        if v.channel.in_flight >= c.ring.part(c.dedicated) {
            return Err((f, DropReason::ChannelFull));
        }
        c.ring.push(f).map_err(|f| (f, DropReason::ChannelFull))?;
        c.ring.users += usize::from(v.channel.in_flight == 0);
        v.channel.in_flight += 1;
        c.ring.in_flight += 1;
        v.counters.slow += 1;
        Ok(())
    }

    fn end_dropped(&mut self, vid: Vid, frame: Frame, why: DropReason) {
        match vdp_mut(&mut self.vdps, vid) {
            Some(v) => v.counters.dropped.add(why),
            None => self.retired.dropped.add(why),
        }
        self.pool.free(frame);
    }

    /// Hands this round's frames to the forwarding stage.
    #[inline]
    fn hand_to_forwarding(&mut self) {
        if self.taps.any() {
            self.tap_out();
        }
        let w = &mut self.work;
        let mut out = std::mem::take(&mut w.out);
        let mut items = out.drain(..).peekable();
        while let Some(first) = items.next() {
            let at = first.port;
            let Some(p) = self.ports.get_mut(usize::from(at.0)).and_then(Option::as_deref_mut)
            else {
                match vdp_mut(&mut self.vdps, first.vid) {
                    Some(v) => v.counters.dropped.add(DropReason::NoSuchPort),
                    None => self.retired.dropped.add(DropReason::NoSuchPort),
                }
                w.grave.push(first.frame);
                continue;
            };
            let mut a = Accounts {
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut w.grave,
            };
            p.tx.submit(first.vid, first.frame, self.now, &mut self.pool, &mut a);
            // A run of frames for one port finds the port once.
            while let Some(next) = items.next_if(|n| n.port == at) {
                p.tx.submit(next.vid, next.frame, self.now, &mut self.pool, &mut a);
            }
        }
        drop(items);
        w.out = out;
    }

    fn bury(&mut self) {
        for f in self.work.grave.drain(..) {
            self.pool.free(f);
        }
    }

    /// Stage 4: servers that run here, and what has come back from all.
    fn software_round<T: StageTimer>(&mut self, timer: &mut T) -> usize {
        let mut moved = 0;
        for i in 0..self.channels.len() {
            let Some(c) = self.channels.get_mut(i) else { break };
            if c.ring.wants_spares() {
                while self.pool.available() > self.config.reserve_frames() {
                    let Some(f) = self.pool.alloc() else { break };
                    if let Err(f) = c.ring.give_spare(f) {
                        self.pool.free(f);
                        break;
                    }
                }
            }
            if let Some(s) = &mut c.inline
                && (c.ring.in_flight > 0 || c.ring.has_posted() || s.is_due(self.now))
            {
                timer.begin();
                let n = s.serve(self.now);
                if n > 0 {
                    timer.end(Stage::Software, n);
                }
                moved += n;
            }
            let n = c.ring.returned();
            if n == 0 {
                continue;
            }
            timer.begin();
            for _ in 0..n {
                let Some(d) = self.channels.get_mut(i).and_then(|c| c.ring.pop()) else { break };
                self.came_back(i, d);
            }
            self.hand_to_forwarding();
            self.bury();
            timer.end(Stage::Forwarding, n);
            moved += n;
        }
        moved
    }

    #[inline]
    fn came_back(&mut self, channel: usize, d: Done) {
        let Done { frame, vid, end, origin } = d;
        let Some(c) = self.channels.get_mut(channel) else { return self.pool.free(frame) };
        if origin != Origin::Received {
            c.ring.spares_out = c.ring.spares_out.saturating_sub(1);
        }
        if let End::Spare = end {
            return self.pool.free(frame);
        }
        let (counters, port) = match vdp_mut(&mut self.vdps, vid) {
            Some(v) => {
                if origin == Origin::Received {
                    v.channel.in_flight -= 1;
                    c.ring.in_flight -= 1;
                    c.ring.users -= usize::from(v.channel.in_flight == 0);
                }
                let port = match end {
                    End::Output(no) => v.ports.iter().find(|(n, _)| *n == no).map(|(_, id)| *id),
                    End::Forward(id) => Some(id),
                    _ => None,
                };
                (&mut v.counters, port)
            }
            None => (&mut self.retired, None),
        };
        match origin {
            Origin::Received => {}
            Origin::Cloned => counters.cloned += 1,
            Origin::Generated => counters.generated += 1,
        }
        match (end, port) {
            (_, Some(port)) => self.work.out.push(OutItem { frame, port, vid }),
            (End::Drop(why), _) => {
                counters.dropped.add(why);
                self.work.grave.push(frame);
            }
            (End::Consume, _) => {
                counters.consumed += 1;
                self.work.grave.push(frame);
            }
            _ => {
                counters.dropped.add(DropReason::NoSuchPort);
                self.work.grave.push(frame);
            }
        }
    }

    fn flush_ports<T: StageTimer>(&mut self, timer: &mut T) {
        timer.begin();
        for p in self.ports.iter_mut().flatten() {
            let mut a = Accounts {
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut self.work.grave,
            };
            p.tx.flush(self.now, &mut self.pool, &mut a);
        }
        timer.end(Stage::Transmit, 0);
        self.bury();
    }

    /// Lists with a place for each VDP never grow while frames pass.
    pub(crate) fn make_room_for_vdps(&mut self) {
        let n = self.vdps.len();
        self.seen.reserve(n);
        self.dealt.reserve(n);
    }

    /// Ends an interval of CPU shares.
    fn end_interval(&mut self) {
        let load = if self.idle_rounds == 0 { Load::Saturated } else { Load::Idle };
        let capacity = self.interval_units;
        (self.interval, self.interval_units, self.idle_rounds) = (self.now, 0, 0);
        // Those who had a limit and sent nothing since lose it: they are not dealt to again.
        for (vid, _) in self.dealt.drain(..) {
            if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                v.cpu.limit = None;
            }
        }
        for vid in self.seen.drain(..) {
            if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                self.dealt.push((vid, v.cpu));
            }
        }
        cpu_share::deal(capacity, load, &mut self.dealt);
        for (vid, usage) in &self.dealt {
            if let Some(v) = vdp_mut(&mut self.vdps, *vid) {
                v.cpu = *usage;
            }
        }
        if !self.merges.is_empty() {
            self.merge_hits();
        }
    }

    /// Carries migrations and deletions on.
    fn advance_phases(&mut self) {
        for i in 0..self.vdps.len() {
            let Some(Some(v)) = self.vdps.get(i) else { continue };
            match v.phase {
                Phase::On(_) => {}
                Phase::Draining { deadline, since } => {
                    if v.channel.in_flight == 0 && !self.parked_of(Vid(i as u16)) {
                        self.finish_drain(Vid(i as u16), since);
                    } else if self.now >= deadline {
                        self.give_up_drain(Vid(i as u16));
                    }
                }
                Phase::Returning => self.return_held(Vid(i as u16)),
                Phase::Deleting => self.finish_delete(Vid(i as u16)),
            }
        }
    }

    pub(crate) fn parked_of(&self, vid: Vid) -> bool {
        self.ports.iter().flatten().any(|p| p.parked.iter().any(|f| f.vid == vid))
    }

    fn finish_drain(&mut self, vid: Vid, since: Nanos) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        v.phase = Phase::On(Path::Fast);
        v.migration.completed += 1;
        v.migration.held = v.hold.len() as u64;
        v.migration.drain_ns = self.now.since(since).0;
        self.migrating -= 1;
        let mut hold = std::mem::take(&mut v.hold);
        // Held frames were counted as received when they came: not again.
        let before = v.counters.received;
        while let Some(first) = hold.front() {
            let in_port = first.in_port;
            while self.work.burst.room() > 0 && hold.front().is_some_and(|h| h.in_port == in_port) {
                let Some(h) = hold.pop_front() else { break };
                if let Err(f) = self.work.burst.push(h.frame) {
                    self.work.grave.push(f);
                }
            }
            self.map(in_port);
            // They belong to this VDP whatever the mapping rules say by now.
            self.work.vids = [vid; BURST];
            self.match_rules(in_port);
            self.process(in_port);
            self.hand_to_software(in_port);
            self.hand_to_forwarding();
        }
        let mut channel = 0;
        if let Some(v) = vdp_mut(&mut self.vdps, vid) {
            v.counters.received = before;
            v.hold = hold;
            channel = v.channel.channel;
        }
        self.bury();
        self.take_copies_back(vid, channel);
    }

    /// The slow path's copies of the rules go, and what they matched comes back.
    fn take_copies_back(&mut self, vid: Vid, channel: u8) {
        let Some(c) = self.channels.get_mut(usize::from(channel)) else { return };
        let (tx, rx) = std::sync::mpsc::channel();
        c.ring.post(Box::new(move |s| {
            let hits = s.slot_mut(vid).map(|slot| slot.end_copy()).unwrap_or_default();
            // A data plane that is gone needs no counters.
            let _ = tx.send(hits);
        }));
        self.merges.push((vid, rx));
        if let Some(s) = &mut c.inline {
            s.run_jobs();
        }
        self.merge_hits();
    }

    /// Adds hits that have come back from the slow path to the rules of the fast path.
    pub(crate) fn merge_hits(&mut self) {
        let merges = std::mem::take(&mut self.merges);
        for (vid, rx) in merges {
            match rx.try_recv() {
                Ok(hits) => {
                    let Some(v) = vdp_mut(&mut self.vdps, vid) else { continue };
                    for h in hits {
                        let t = v.fast.tables.get_mut(usize::from(h.table));
                        if let Some(e) = t.and_then(|t| t.get_mut(&h.matcher, h.priority)) {
                            e.hits.merge(h.hits);
                        }
                    }
                }
                Err(TryRecvError::Empty) => self.merges.push((vid, rx)),
                Err(TryRecvError::Disconnected) => {}
            }
        }
    }

    fn give_up_drain(&mut self, vid: Vid) {
        if let Some(v) = vdp_mut(&mut self.vdps, vid) {
            v.phase = Phase::Returning;
            v.migration.given_up += 1;
        }
        self.return_held(vid);
    }

    /// Sends held frames by the channel, oldest first, as far as there is room.
    fn return_held(&mut self, vid: Vid) {
        loop {
            let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
            let Some(h) = v.hold.pop_front() else {
                v.phase = Phase::On(Path::Slow);
                self.migrating -= 1;
                return;
            };
            let f = ToServer { frame: h.frame, vid, in_port: h.in_port, why: Punt::Default };
            if let Err((f, _)) = self.push_channel(f) {
                if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                    v.hold.push_front(Held { frame: f.frame, in_port: f.in_port });
                }
                return;
            }
        }
    }

    fn finish_delete(&mut self, vid: Vid) {
        let backlog: usize = self.ports.iter().flatten().map(|p| p.tx.backlog_of(vid)).sum();
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        if v.channel.in_flight > 0 || backlog > 0 {
            return;
        }
        self.retired.merge(&v.counters);
        if let Some(slot) = self.vdps.get_mut(usize::from(vid.0)) {
            *slot = None;
        }
        for p in self.ports.iter_mut().flatten() {
            let mut a = Accounts {
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut self.work.grave,
            };
            p.tx.remove_share(vid, &mut a);
        }
        self.bury();
        self.tcam.release(weir_classify::Owner(vid.0.into()));
        self.deleting -= 1;
    }

    fn tap_in(&mut self, in_port: PortId) {
        for f in self.work.burst.as_slice() {
            let seen = Seen { stage: Stage::Receive, port: in_port, vid: NO_VDP };
            self.taps.see(&seen, f, self.now);
        }
    }

    fn tap_mapped(&mut self, in_port: PortId) {
        let w = &self.work;
        for (f, vid) in w.burst.as_slice().iter().zip(&w.vids) {
            self.taps.see(&Seen { stage: Stage::Mapping, port: in_port, vid: *vid }, f, self.now);
        }
    }

    fn tap_out(&mut self) {
        for o in &self.work.out {
            let seen = Seen { stage: Stage::Forwarding, port: o.port, vid: o.vid };
            self.taps.see(&seen, &o.frame, self.now);
        }
    }

    /// Runs `f` with the output side of a port and the accounts for it.
    pub(crate) fn with_tx<R>(
        &mut self,
        id: PortId,
        f: impl FnOnce(&mut TxPort, &mut Pool, &mut dyn FnMut(Vid, Frame, DropReason)) -> R,
    ) -> Option<R> {
        let p = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut)?;
        let (vdps, retired) = (&mut self.vdps, &mut self.retired);
        let counters = &mut p.counters;
        let grave = &mut self.work.grave;
        let mut end = |vid: Vid, frame: Frame, why: DropReason| {
            Accounts { vdps, retired, port: counters, grave }.dropped(vid, frame, why);
        };
        let r = f(&mut p.tx, &mut self.pool, &mut end);
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
            self.with_tx(id, |tx, pool, end| {
                tx.drop_all(DropReason::NoSuchPort, &mut crate::control::Ends(end));
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Polling {
    All,
    NotWaiting,
    None,
}
