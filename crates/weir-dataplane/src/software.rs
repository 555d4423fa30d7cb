//! Stage 4, software processing: channels, and the servers behind them.
//!
//! A channel is a pair of rings between the worker and a [`Server`] (004's DMA channels): frames go
//! out with their VDP, port and reason, and come back with what became of them. Four channels by
//! default: the first three can be dedicated to one VDP each, the last is shared by the others. A
//! server runs on the worker's own thread or on a thread of its own; it is the same code.
//!
//! Order: a server first looks how many frames wait, then carries out the jobs in its inbox, then
//! takes that many frames. A job that the worker posted before it pushed a frame is therefore done
//! before that frame is seen: rule changes and frames keep their order without a lock.
//!
//! Fairness on a shared channel: a VDP may have at most its part of the ring in flight, the ring
//! divided by the VDPs that use it now. A flood finds its part full and loses its own frames.

use crate::action::{PortNo, Vid};
use crate::compile::ActionResult;
use crate::control::{Placed, RuleView};
use crate::counters::Tally;
use crate::execute::{self, ChannelTo, Egress, Source, Subject};
use crate::matching::{Put, RuleSpec, Tables};
use crate::packet::extract;
use crate::program::{Done, End, Origin, Program, ProgramCx, ProgramPort, Punt, SlowFrame};
use rtrb::{Consumer, Producer, RingBuffer};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Thread;
use weir_classify::{FlowKey, Match};
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// A frame on its way to a server.
#[derive(Debug)]
pub struct ToServer {
    /// The frame.
    pub frame: Frame,
    /// Its VDP.
    pub vid: Vid,
    /// Where it came in.
    pub in_port: PortId,
    /// Why it comes.
    pub why: Punt,
}

/// Work for a server, done between two of its batches.
pub type Job = Box<dyn FnOnce(&mut Server) + Send>;

/// Frames that a server takes at once.
pub const BATCH: usize = 64;
/// Time between two calls of a program's `tick`.
const TICK: Nanos = Nanos(1_000_000);

/// The worker's end of a channel.
#[derive(Debug)]
pub struct Channel {
    to: Producer<ToServer>,
    from: Consumer<Done>,
    spares: Producer<Frame>,
    /// Spare frames that the server has.
    pub spares_out: usize,
    inbox: Sender<Job>,
    /// Whether a job was posted or a frame pushed since the worker last looked.
    posted: Cell<bool>,
    /// Who serves it, when that is not the worker: to be woken.
    pub(crate) server: Option<Thread>,
    size: usize,
    /// Frames of VDPs that are in the server's hands.
    pub in_flight: usize,
    /// VDPs with frames in flight.
    pub users: usize,
}

/// Spare frames that a server may hold for copies and frames of its programs' making.
const SPARES: usize = 256;

/// A channel of `size` frames each way, and its server.
pub fn pair(size: usize) -> (Channel, Server) {
    let (to, rx) = RingBuffer::new(size);
    // Everything that can be in the server's hands must fit back.
    let (tx, from) = RingBuffer::new(2 * size + SPARES);
    let (spares, spare_rx) = RingBuffer::new(SPARES);
    let (inbox, jobs) = channel();
    let server = Server {
        rx,
        tx,
        spare_rx,
        jobs,
        slots: Vec::new(),
        done: VecDeque::with_capacity(2 * size),
        spare: Vec::with_capacity(2 * SPARES),
        refused: 0,
        batch: Vec::with_capacity(BATCH),
        key: FlowKey::default(),
        last_tick: Nanos(0),
        now: Nanos(0),
        worker: None,
    };
    let ch = Channel {
        to,
        from,
        spares,
        spares_out: 0,
        inbox,
        posted: Cell::new(false),
        server: None,
        size,
        in_flight: 0,
        users: 0,
    };
    (ch, server)
}

impl Channel {
    /// Posts a job. Frames pushed afterwards are handled after it. A server that is gone drops it.
    pub fn post(&self, job: Job) {
        self.posted.set(true);
        // The receiver lives in the server; when that has ended there is nothing to change.
        let _ = self.inbox.send(job);
    }
    /// Whether a job was posted or a frame pushed since this was last asked.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.posted.replace(false)
    }
    /// Wakes the server's thread if there is something new for it.
    #[inline]
    pub fn wake(&self) {
        if self.has_posted()
            && let Some(t) = &self.server
        {
            t.unpark();
        }
    }
    /// How many frames one VDP may have in flight now.
    #[inline]
    pub fn part(&self, dedicated: Dedicated) -> usize {
        match dedicated {
            Dedicated::Yes => self.size,
            Dedicated::No => (self.size / self.users.max(1)).max(BATCH),
        }
    }
    /// Hands a frame over.
    ///
    /// # Errors
    /// Gives it back when the ring is full.
    #[inline]
    pub fn push(&mut self, f: ToServer) -> Result<(), ToServer> {
        self.posted.set(true);
        self.to.push(f).map_err(|rtrb::PushError::Full(f)| f)
    }
    /// Frames that have come back and wait.
    #[inline]
    pub fn returned(&self) -> usize {
        self.from.slots()
    }
    /// Takes one that came back.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        self.from.pop().ok()
    }
    /// Whether the server could use spare frames.
    #[inline]
    pub fn wants_spares(&self) -> bool {
        self.spares.slots() > SPARES / 2
    }
    /// Gives the server a spare frame.
    ///
    /// # Errors
    /// Gives it back when it has enough.
    pub fn give_spare(&mut self, f: Frame) -> Result<(), Frame> {
        let r = self.spares.push(f).map_err(|rtrb::PushError::Full(f)| f);
        self.spares_out += usize::from(r.is_ok());
        r
    }
}

/// Whether a channel belongs to one VDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedicated {
    /// To one.
    Yes,
    /// Shared.
    No,
}

/// A VDP on the slow path: the rules that live there, then its program.
pub struct Slot {
    /// Rules that are not (or not only) on the fast path.
    pub tables: Tables,
    /// What a frame without a rule gets.
    pub default: ActionResult,
    /// The program.
    pub program: Option<Box<dyn Program>>,
    /// The VDP's ports: number, port of the data plane.
    pub ports: Vec<(PortNo, PortId)>,
    live: Vec<PortId>,
    all: Vec<PortId>,
    program_ports: Vec<ProgramPort>,
    /// The VDP's own fields.
    pub fields: crate::userfield::UserFields,
    /// Rules of the fast path that stand here, too, while the VDP is on the slow path.
    copied: Vec<(u8, Match, u32)>,
}

/// Hits that a copied rule had on the slow path.
#[derive(Clone, Copy, Debug)]
pub struct CopyHits {
    /// Its table.
    pub table: u8,
    /// Its match.
    pub matcher: Match,
    /// Its priority.
    pub priority: u32,
    /// What it matched.
    pub hits: Tally,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("rules", &self.tables.len())
            .field("program", &self.program.as_ref().map(|p| p.name()))
            .finish_non_exhaustive()
    }
}

impl Slot {
    /// A VDP with this program and no rules.
    pub fn new(program: Option<Box<dyn Program>>) -> Self {
        Self {
            tables: Tables::default(),
            default: ActionResult::to_channel(),
            program,
            ports: Vec::new(),
            live: Vec::new(),
            all: Vec::new(),
            program_ports: Vec::new(),
            fields: crate::userfield::UserFields::default(),
            copied: Vec::new(),
        }
    }
    /// Whether frames that come by the default rule meet anything here before the program.
    #[inline]
    pub(crate) fn judges(&self) -> bool {
        !self.tables.is_empty() || !self.default.is_to_channel()
    }
    /// Puts a copy of a fast-path rule here.
    pub(crate) fn put_copy(&mut self, table: u8, spec: &RuleSpec, result: ActionResult) {
        if self.tables.put(table, spec, result) == Some(Put::Added) {
            self.copied.push((table, spec.matcher, spec.priority));
        }
    }
    /// Puts a rule here that the fast path has not.
    pub(crate) fn put_own(&mut self, table: u8, spec: &RuleSpec, result: ActionResult) {
        self.copied.retain(|c| *c != (table, spec.matcher, spec.priority));
        self.tables.put(table, spec, result);
    }
    /// Takes a rule away.
    pub(crate) fn take_rule(&mut self, table: u8, matcher: &Match, priority: u32) {
        if let Some(t) = self.tables.tables.get_mut(usize::from(table)) {
            t.take(matcher, priority);
        }
    }
    /// Takes all copies away and says what they matched.
    pub(crate) fn end_copy(&mut self) -> Vec<CopyHits> {
        let take = |(table, matcher, priority): (u8, Match, u32)| {
            let e = self.tables.tables.get_mut(usize::from(table))?.take(&matcher, priority)?;
            Some(CopyHits { table, matcher, priority, hits: e.hits })
        };
        std::mem::take(&mut self.copied).into_iter().filter_map(take).collect()
    }
    /// Every rule here with its counters.
    pub(crate) fn views(&self) -> Vec<RuleView> {
        self.tables.views(Placed::Slow)
    }
    /// Tells the slot its ports: number, port of the data plane, whether up, longest frame.
    pub fn set_ports(&mut self, ports: &[(ProgramPort, PortId)]) {
        self.ports = ports.iter().map(|(p, id)| (p.no, *id)).collect();
        self.all = ports.iter().map(|(_, id)| *id).collect();
        self.live = ports.iter().filter(|(p, _)| p.up).map(|(_, id)| *id).collect();
        self.program_ports = ports.iter().map(|(p, _)| *p).collect();
    }
    /// Its ports that are up.
    pub(crate) fn live(&self) -> &[PortId] {
        &self.live
    }
    /// All its ports.
    pub(crate) fn all(&self) -> &[PortId] {
        &self.all
    }
    /// Its number for a port of the data plane, 0 where it has none.
    pub(crate) fn local(&self, id: PortId) -> PortNo {
        self.ports.iter().find(|(_, i)| *i == id).map_or(PortNo(0), |(n, _)| *n)
    }
}

/// The other end of a channel: it runs the slow paths of the VDPs that use it.
#[derive(Debug)]
pub struct Server {
    rx: Consumer<ToServer>,
    tx: Producer<Done>,
    spare_rx: Consumer<Frame>,
    jobs: Receiver<Job>,
    slots: Vec<Option<Box<Slot>>>,
    done: VecDeque<Done>,
    spare: Vec<Frame>,
    /// Copies and frames that programs could not have for want of spares.
    pub refused: u64,
    batch: Vec<ToServer>,
    key: FlowKey,
    last_tick: Nanos,
    now: Nanos,
    /// The worker, when it does not serve itself: to be woken when something goes back.
    pub(crate) worker: Option<Thread>,
}

impl Server {
    /// A VDP's slot.
    pub fn slot_mut(&mut self, vid: Vid) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(vid.0))?.as_deref_mut()
    }
    /// Puts a VDP here.
    pub fn put_slot(&mut self, vid: Vid, slot: Slot) {
        let i = usize::from(vid.0);
        if self.slots.len() <= i {
            self.slots.resize_with(i + 1, || None);
        }
        self.slots[i] = Some(Box::new(slot));
    }
    /// Takes a VDP away; frames that its program keeps are ended.
    pub fn take_slot(&mut self, vid: Vid) -> Option<Box<Slot>> {
        let mut slot = self.slots.get_mut(usize::from(vid.0))?.take()?;
        if let Some(p) = &mut slot.program {
            let mut cx = ProgramCx::new(
                vid,
                self.now,
                &slot.program_ports,
                &mut self.done,
                &mut self.spare,
                &mut self.refused,
            );
            p.release(&mut cx);
        }
        Some(slot)
    }

    /// Gives a VDP another program; frames that the old one keeps are ended.
    pub(crate) fn set_program(&mut self, vid: Vid, program: Option<Box<dyn Program>>) {
        if let Some(mut slot) = self.take_slot(vid) {
            slot.program = program;
            self.slots[usize::from(vid.0)] = Some(slot);
        }
    }
    /// Carries out the jobs in the inbox.
    pub(crate) fn run_jobs(&mut self) {
        while let Ok(job) = self.jobs.try_recv() {
            job(self);
        }
    }

    /// One turn: jobs, then at most `BATCH` frames, then what is due. Says how many frames it
    /// handled; zero means that there was nothing to do.
    pub fn serve(&mut self, now: Nanos) -> usize {
        self.now = now;
        // Count first, then jobs: see the module's text.
        let n = self.rx.slots().min(BATCH);
        self.run_jobs();
        let room = self.spare.capacity().saturating_sub(self.spare.len());
        if let Ok(c) = self.spare_rx.read_chunk(self.spare_rx.slots().min(room)) {
            self.spare.extend(c);
        }
        let mut batch = std::mem::take(&mut self.batch);
        if let Ok(c) = self.rx.read_chunk(n) {
            batch.extend(c);
        }
        for f in batch.drain(..) {
            self.frame(f);
        }
        self.batch = batch;
        if now.since(self.last_tick) >= TICK {
            self.last_tick = now;
            self.tick();
        }
        self.give_back();
        n
    }

    fn tick(&mut self) {
        for (vid, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            if let Some(p) = &mut slot.program {
                let mut cx = ProgramCx::new(
                    Vid(vid as u16),
                    self.now,
                    &slot.program_ports,
                    &mut self.done,
                    &mut self.spare,
                    &mut self.refused,
                );
                p.tick(&mut cx);
            }
        }
    }

    /// Whether programs are due for a tick, or something waits to be given back.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.last_tick) >= TICK || !self.done.is_empty()
    }

    /// Moves what is done into the ring, as far as it goes.
    fn give_back(&mut self) {
        let n = self.tx.slots().min(self.done.len());
        if n > 0
            && let Ok(c) = self.tx.write_chunk_uninit(n)
        {
            c.fill_from_iter(self.done.drain(..n));
            if let Some(w) = &self.worker {
                w.unpark();
            }
        }
    }

    #[inline]
    fn frame(&mut self, f: ToServer) {
        let Some(Some(slot)) = self.slots.get_mut(usize::from(f.vid.0)) else {
            let end = End::Drop(DropReason::VdpGone);
            self.done.push_back(Done { frame: f.frame, vid: f.vid, end, origin: Origin::Received });
            return;
        };
        let mut e = SlowEgress {
            vid: f.vid,
            now: self.now,
            slot_live: &slot.live,
            slot_all: &slot.all,
            done: &mut self.done,
            spare: &mut self.spare,
            refused: &mut self.refused,
            back: None,
        };
        // A frame that a rule sent here goes to the program; others meet the rules that live here.
        if f.why == Punt::Default && slot.judges() {
            let local = slot.ports.iter().find(|(_, i)| *i == f.in_port).map_or(0, |(n, _)| n.0);
            match extract(f.frame.bytes(), local, &mut self.key) {
                Err(why) => return e.drop(f.frame, why, Origin::Received),
                Ok(layers) => {
                    slot.fields.extract(f.frame.bytes(), &layers, &mut self.key);
                    let hit = Some(slot.tables.tables.first_mut()).and_then(|t| {
                        let s = t.lookup(&self.key)?;
                        t.entry_mut(s)?.hits.add(f.frame.len());
                        Some(s)
                    });
                    let src = match hit {
                        Some(s) => Some(Source::Entry { table: 0, slot: s }),
                        None if slot.default.is_to_channel() => None,
                        None => Some(Source::Default),
                    };
                    if let Some(src) = src {
                        let mut subject = Subject {
                            vid: f.vid,
                            in_port: f.in_port,
                            key: &mut self.key,
                            layers,
                            fields: &slot.fields,
                        };
                        let (t, d) = (&mut slot.tables, &slot.default);
                        execute::run(src, f.frame, &mut subject, t, d, &mut e);
                    } else {
                        e.back = Some((f.frame, Punt::Default));
                    }
                }
            }
        } else {
            e.back = Some((f.frame, f.why));
        }
        let Some((frame, why)) = e.back.take() else { return };
        let in_port = slot.local(f.in_port);
        match &mut slot.program {
            Some(p) => {
                let mut cx = ProgramCx::new(
                    f.vid,
                    self.now,
                    &slot.program_ports,
                    &mut self.done,
                    &mut self.spare,
                    &mut self.refused,
                );
                p.frame(SlowFrame { frame, in_port, why }, &mut cx);
            }
            None => {
                let end = End::Drop(DropReason::Miss);
                self.done.push_back(Done { frame, vid: f.vid, end, origin: Origin::Received });
            }
        }
    }

    /// Ends everything: for shutting down. Frames go back to the worker, spares too; to be called
    /// until none is pending.
    pub fn release(&mut self) {
        while let Ok(f) = self.rx.pop() {
            let (end, origin) = (End::Drop(DropReason::VdpGone), Origin::Received);
            self.done.push_back(Done { frame: f.frame, vid: f.vid, end, origin });
        }
        for vid in 0..self.slots.len() {
            self.take_slot(Vid(vid as u16));
        }
        while let Ok(f) = self.spare_rx.pop() {
            self.spare.push(f);
        }
        for frame in self.spare.drain(..) {
            let (vid, end) = (Vid(0), End::Spare);
            self.done.push_back(Done { frame, vid, end, origin: Origin::Generated });
        }
        self.give_back();
    }
    /// Frames that are done and wait for room in the ring.
    pub fn pending(&self) -> usize {
        self.done.len()
    }
    /// A VDP's program's state in words.
    pub fn status(&self, vid: Vid) -> Vec<(String, String)> {
        self.slots
            .get(usize::from(vid.0))
            .and_then(Option::as_ref)
            .and_then(|s| s.program.as_ref())
            .map_or_else(Vec::new, |p| p.status())
    }
}

/// The executor's way out of the slow path.
struct SlowEgress<'a> {
    vid: Vid,
    now: Nanos,
    slot_live: &'a [PortId],
    slot_all: &'a [PortId],
    done: &'a mut VecDeque<Done>,
    spare: &'a mut Vec<Frame>,
    refused: &'a mut u64,
    back: Option<(Frame, Punt)>,
}

impl SlowEgress<'_> {
    fn end(&mut self, frame: Frame, end: End, origin: Origin) {
        self.done.push_back(Done { frame, vid: self.vid, end, origin });
    }
}

impl Egress for SlowEgress<'_> {
    fn output(&mut self, frame: Frame, port: PortId, _queue: u32, origin: Origin) {
        self.end(frame, End::Forward(port), origin);
    }
    fn channel(&mut self, frame: Frame, _in: PortId, to: ChannelTo, origin: Origin) {
        match (to, origin) {
            (ChannelTo::Consumer, _) => self.end(frame, End::Consume, origin),
            (ChannelTo::Program(why), Origin::Received) if self.back.is_none() => {
                self.back = Some((frame, why));
            }
            // A copy for the program: it has the original already, or will not see this frame.
            (ChannelTo::Program(_), _) => self.end(frame, End::Consume, origin),
        }
    }
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin) {
        self.end(frame, End::Drop(why), origin);
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let Some(mut f) = self.spare.pop() else {
            *self.refused += 1;
            return None;
        };
        if f.clone_from_frame(of).is_err() {
            self.spare.push(f);
            return None;
        }
        Some(f)
    }
    fn lost_copy(&mut self, _why: DropReason) {
        *self.refused += 1;
    }
    fn ports(&self) -> &[PortId] {
        self.slot_all
    }
    fn is_live(&self, port: PortId) -> bool {
        self.slot_live.contains(&port)
    }
    fn now(&self) -> Nanos {
        self.now
    }
}
