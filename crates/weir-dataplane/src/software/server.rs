//! The other end of a channel: it runs the slow paths of the VDPs that use it.
//!
//! Room: one thread, the worker's or its own. Whatever it does with a frame goes back as `Done`; it
//! counts nothing but hits of rules that live here.

use super::channel::{BATCH, Job, SPARES, ToServer};
use super::egress::SlowEgress;
use super::slot::{Slot, local_no};
use crate::action::{PortNo, Vid};
use crate::execute::{self, ChannelTo, Egress, Source, Subject};
use crate::packet::extract;
use crate::program::{Ahead, Done, End, Origin, Program, ProgramCx, ProgramPort, Punt, SlowFrame};
use crate::runner::Waker;
use crate::spares::Spares;
use rtrb::{Consumer, Producer};
use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use weir_classify::FlowKey;
use weir_packet::{DropReason, Frame, Nanos};

const _: () = assert!(BATCH <= 64, "a bit for each of a batch");

/// Time between two calls of a program's `tick`.
const TICK: Nanos = Nanos(1_000_000);
/// What a program is called for whenever it is: it never looks at the time.
pub(crate) const FOR_EVER: Nanos = Nanos(u64::MAX);

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
    /// Which turn it is, of those that it had.
    turn: u64,
    size: usize,
    /// Frames that all programs keep.
    kept: usize,
    /// The worker, when it does not serve itself: to be woken when something goes back.
    pub(crate) worker: Option<Waker>,
}

impl Server {
    /// The end of a channel of `size` frames.
    pub(super) fn new(
        rx: Consumer<ToServer>,
        tx: Producer<Done>,
        spare_rx: Consumer<Frame>,
        jobs: Receiver<Job>,
        size: usize,
    ) -> Self {
        Self {
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
            turn: 0,
            size,
            kept: 0,
            worker: None,
        }
    }
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
    /// Takes a VDP away; frames that its programs keep are ended.
    pub fn take_slot(&mut self, vid: Vid) -> Option<Box<Slot>> {
        let mut slot = self.slots.get_mut(usize::from(vid.0))?.take()?;
        let ports = std::mem::take(&mut slot.program_ports);
        for p in slot.programs() {
            p.release(&mut self.cx(vid, &ports));
        }
        slot.program_ports = ports;
        self.kept -= std::mem::take(&mut slot.kept);
        Some(slot)
    }
    fn cx<'a>(&'a mut self, vid: Vid, ports: &'a [ProgramPort]) -> ProgramCx<'a> {
        ProgramCx::new(vid, self.now, ports, &mut self.done, &mut self.spare, &mut self.refused)
    }

    /// Gives a VDP other programs; frames that the old ones keep are ended.
    pub(crate) fn set_programs(&mut self, vid: Vid, change: impl FnOnce(&mut Slot)) {
        if let Some(mut slot) = self.take_slot(vid) {
            change(&mut slot);
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
        self.turn += 1;
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
        // A bit for each frame.
        let mut further = 0u64;
        for (i, f) in batch.iter().enumerate() {
            if let Some((program, in_port)) = self.program_for(f) {
                let more = program.expect(&f.frame, in_port) == Ahead::Further;
                further |= u64::from(more) << (i % BATCH);
            }
        }
        while further != 0 {
            let f = batch.get(further.trailing_zeros() as usize);
            further &= further - 1;
            if let Some(f) = f
                && let Some((program, in_port)) = self.program_for(f)
            {
                program.expect_further(&f.frame, in_port);
            }
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

    /// The program that a frame goes to, if it goes to one, or will where no slow rule takes it; and the number that its VDP has
    /// for the port it came in by.
    #[inline]
    fn program_for(&self, f: &ToServer) -> Option<(&dyn Program, PortNo)> {
        if !matches!(f.to, ChannelTo::Program(_)) {
            return None;
        }
        let slot = self.slots.get(usize::from(f.vid.0))?.as_ref()?;
        Some((slot.program.as_deref()?, slot.local(f.in_port)))
    }

    fn tick(&mut self) {
        for (vid, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            let most_kept = slot.most_kept(self.kept, self.size);
            let Slot { program, own_stack, program_ports, taken, .. } = &mut **slot;
            for p in program.iter_mut().chain(own_stack) {
                let spares = Spares::part(&mut self.spare, &mut self.refused, taken, self.turn);
                let vid = Vid(vid as u16);
                let mut cx = ProgramCx::with(vid, self.now, program_ports, &mut self.done, spares);
                cx.most_kept = most_kept;
                p.tick(&mut cx);
            }
            slot.count_kept(&mut self.kept);
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
                w.wake();
            }
        }
    }

    #[inline]
    fn frame(&mut self, f: ToServer) {
        let Some(Some(slot)) = self.slots.get_mut(usize::from(f.vid.0)) else {
            let end = End::Drop(DropReason::VdpGone);
            self.done.push_back(Done::new(f.frame, f.vid, end, Origin::Received));
            return;
        };
        let judges = slot.judges();
        let mut e = SlowEgress {
            vid: f.vid,
            now: self.now,
            ports: &slot.ports,
            sink: slot.sink.as_deref_mut(),
            slot_live: &slot.live,
            slot_all: &slot.all,
            done: &mut self.done,
            spares: Spares::part(&mut self.spare, &mut self.refused, &mut slot.taken, self.turn),
            lost: 0,
            back: None,
            stands_for: Origin::Received,
        };
        // A frame that a rule sent here goes to the program; others meet the rules that live here.
        if f.to == ChannelTo::Program(Punt::Default) && judges {
            let local = local_no(&slot.ports, f.in_port).0;
            match extract(f.frame.bytes(), local, &mut self.key) {
                Err(why) => return e.drop(f.frame, why, Origin::Received),
                Ok(layers) => {
                    let t = slot.tables.get_mut();
                    let (d, fields) = (&slot.default, &slot.fields);
                    fields.extract(f.frame.bytes(), &layers, &mut self.key);
                    let hit = t.lookup_first(&self.key, f.frame.len(), self.now);
                    let src = match hit {
                        Some(s) => Some(Source::Entry { table: 0, slot: s }),
                        None if d.is_to_channel() => None,
                        None => Some(Source::Default(0)),
                    };
                    if let Some(src) = src {
                        let mut subject = Subject {
                            vid: f.vid,
                            in_port: f.in_port,
                            key: &mut self.key,
                            layers,
                            fields,
                        };
                        execute::run(src, f.frame, &mut subject, t, d, &mut e);
                    } else {
                        e.back = Some((f.frame, Punt::Default));
                    }
                }
            }
        } else {
            e.channel(f.frame, f.in_port, f.to, Origin::Received);
        }
        let (back, lost) = (e.back.take(), e.lost);
        let Some((frame, why)) = back else {
            // A copy for which there was no frame came into being and ended, whatever became of the others.
            if let Some(last) = self.done.back_mut().filter(|d| d.vid == f.vid) {
                last.lost += lost;
            }
            return;
        };
        let in_port = slot.local(f.in_port);
        let most_kept = slot.most_kept(self.kept, self.size);
        let program = match why {
            Punt::Local => &mut slot.own_stack,
            _ => &mut slot.program,
        };
        match program {
            Some(p) => {
                let spares =
                    Spares::part(&mut self.spare, &mut self.refused, &mut slot.taken, self.turn);
                let ports = &slot.program_ports;
                let mut cx = ProgramCx::with(f.vid, self.now, ports, &mut self.done, spares);
                cx.lost = lost;
                cx.most_kept = most_kept;
                p.frame(SlowFrame { frame, in_port, why }, &mut cx);
                slot.count_kept(&mut self.kept);
            }
            None => {
                let end = End::Drop(match why {
                    Punt::Local => DropReason::NoSuchPort,
                    _ => DropReason::Miss,
                });
                let done = Done::new(frame, f.vid, end, Origin::Received);
                self.done.push_back(Done { lost, ..done });
            }
        }
    }

    /// Ends everything: for shutting down. Frames go back to the worker, spares too; to be called
    /// until none is pending.
    pub fn release(&mut self) {
        while let Ok(f) = self.rx.pop() {
            let (end, origin) = (End::Drop(DropReason::VdpGone), Origin::Received);
            self.done.push_back(Done::new(f.frame, f.vid, end, origin));
        }
        for vid in 0..self.slots.len() {
            self.take_slot(Vid(vid as u16));
        }
        while let Ok(f) = self.spare_rx.pop() {
            self.spare.push(f);
        }
        for frame in self.spare.drain(..) {
            let (vid, end) = (Vid(0), End::Spare);
            self.done.push_back(Done::new(frame, vid, end, Origin::Generated));
        }
        self.give_back();
    }
    /// Frames that are done and wait for room in the ring.
    pub fn pending(&self) -> usize {
        self.done.len()
    }
    /// How late a tick may come: as late as its most impatient program says.
    pub fn patience(&self) -> Nanos {
        let programs = |s: &Slot| s.program.iter().chain(&s.own_stack).map(|p| p.patience()).min();
        let all = self.slots.iter().flatten().filter_map(|s| programs(s));
        all.min().unwrap_or(FOR_EVER)
    }
    /// Whether frames wait for it.
    pub fn has_waiting(&self) -> bool {
        !self.rx.is_empty()
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
