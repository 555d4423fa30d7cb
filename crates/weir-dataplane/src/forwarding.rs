//! Stage 5, forwarding: output queues per port, and who may send next.
//!
//! Each VDP has a queue at each port, with a guaranteed rate, a ceiling and a weight. Two passes
//! serve the queues: first those below their guarantee, then all below their ceiling, by deficit
//! round robin with quanta by weight (Shreedhar and Varghese, SIGCOMM '95). Token buckets
//! measure guarantee and ceiling, in bits of frame plus FCS.
//!
//! Room: called by the worker and, through it, by returning slow-path frames. While a device takes
//! everything (no backlog), frames pass by the queues in order of arrival and cost a few stores. Frames
//! of one VDP and port always leave in the order in which they were submitted.

use crate::action::Vid;
use std::collections::VecDeque;
use weir_packet::{BURST, Burst, Device, DropReason, Frame, Nanos, Pool};

/// What a VDP may send by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortShare {
    /// Bits per second that it gets whatever the others do; 0: none.
    pub guarantee_bps: u64,
    /// Bits per second that it never exceeds; `None`: no ceiling.
    pub ceiling_bps: Option<u64>,
    /// Its part, relative to the others', of what guarantees leave over. At least 1.
    pub weight: u16,
    /// Frames that may wait.
    pub queue_frames: u32,
}

impl Default for PortShare {
    fn default() -> Self {
        Self { guarantee_bps: 0, ceiling_bps: None, weight: 1, queue_frames: 1024 }
    }
}

/// FCS bytes, which rates count and frames here do not hold.
const FCS: usize = 4;
/// Bytes that weight 1 earns a round: one full frame.
const QUANTUM: i64 = 1518;
/// Frames that one port sends out of its queues in a round, so that ports share the worker.
const ROUND_FRAMES: usize = 256;
/// A bucket holds what its rate earns in this time, or two full frames if that is more.
const BURST_TIME: Nanos = Nanos(10_000_000);
const NANO: u128 = 1_000_000_000;

/// A token bucket, exact in bits: what is earned and not yet a whole bit is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    rate_bps: u64,
    bits: i64,
    fraction: u64,
    at: Nanos,
}

impl Bucket {
    fn new(rate_bps: u64, now: Nanos) -> Self {
        let mut b = Self { rate_bps, bits: 0, fraction: 0, at: now };
        b.bits = b.depth();
        b
    }
    fn depth(&self) -> i64 {
        let earned = u128::from(self.rate_bps) * u128::from(BURST_TIME.0) / NANO;
        i64::try_from(earned).unwrap_or(i64::MAX / 2).max(2 * 8 * (1518 + FCS as i64))
    }
    fn refill(&mut self, now: Nanos) {
        let dt = now.since(self.at).0;
        if dt == 0 {
            return;
        }
        self.at = now;
        let earned = u128::from(self.rate_bps) * u128::from(dt) + u128::from(self.fraction);
        let whole = i64::try_from(earned / NANO).unwrap_or(i64::MAX / 2);
        self.fraction = (earned % NANO) as u64;
        let depth = self.depth();
        self.bits = self.bits.saturating_add(whole);
        if self.bits >= depth {
            (self.bits, self.fraction) = (depth, 0);
        }
    }
    fn has(&self, bits: i64) -> bool {
        self.bits >= bits
    }
}

const NONE: u32 = u32::MAX;

/// One VDP at one port.
#[derive(Debug)]
struct Queue {
    share: PortShare,
    head: u32,
    tail: u32,
    len: u32,
    deficit: i64,
    guarantee: Bucket,
    ceiling: Option<Bucket>,
    active: bool,
}

impl Queue {
    fn new(share: PortShare, now: Nanos) -> Self {
        Self {
            share,
            head: NONE,
            tail: NONE,
            len: 0,
            deficit: 0,
            guarantee: Bucket::new(share.guarantee_bps, now),
            ceiling: share.ceiling_bps.map(|r| Bucket::new(r, now)),
            active: false,
        }
    }
}

/// Frames that wait, linked into queues: one store for all queues, so that a VDP costs a port only
/// its queue's head.
#[derive(Debug, Default)]
struct Waiting {
    slots: Vec<(Option<Frame>, u32)>,
    free: u32,
}

impl Waiting {
    fn with_capacity(n: usize) -> Self {
        let slots = (0..n).map(|i| (None, if i + 1 < n { i as u32 + 1 } else { NONE })).collect();
        Self { slots, free: if n > 0 { 0 } else { NONE } }
    }
    fn put(&mut self, frame: Frame) -> Result<u32, Frame> {
        let i = self.free;
        let Some(s) = self.slots.get_mut(i as usize) else { return Err(frame) };
        self.free = s.1;
        *s = (Some(frame), NONE);
        Ok(i)
    }
    fn take(&mut self, i: u32) -> Option<(Frame, u32)> {
        let s = self.slots.get_mut(i as usize)?;
        let f = s.0.take()?;
        let next = std::mem::replace(&mut s.1, self.free);
        self.free = i;
        Some((f, next))
    }
    fn link(&mut self, i: u32, next: u32) {
        if let Some(s) = self.slots.get_mut(i as usize) {
            s.1 = next;
        }
    }
    fn bytes(&self, i: u32) -> usize {
        self.slots.get(i as usize).and_then(|s| s.0.as_ref()).map_or(0, Frame::len)
    }
}

/// A port's output side.
pub struct TxPort {
    /// The device.
    pub device: Box<dyn Device>,
    max_frame_bytes: usize,
    up: bool,
    /// Frames that go out with the next flush, and whose they are.
    stage: Burst,
    stage_vids: [u16; BURST],
    /// By which pass the stage was filled, for frames that come back from it.
    stage_pass: Pass,
    queues: Vec<Option<Box<Queue>>>,
    waiting: Waiting,
    active: VecDeque<u16>,
    backlog: usize,
    /// The device refused a frame and has not caught up since.
    contended: bool,
    /// Whose turn was cut short by that, so that its turn goes on without a new quantum.
    resume: Option<u16>,
    shaped: usize,
}

impl std::fmt::Debug for TxPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxPort")
            .field("device", &self.device.name())
            .field("backlog", &self.backlog)
            .finish_non_exhaustive()
    }
}

/// What a port tells about frames that it sent or dropped, so that they are counted where they
/// belong.
pub trait TxAccount {
    /// A frame of `vid` left.
    fn sent(&mut self, vid: Vid, bytes: usize);
    /// A frame of `vid` ended here.
    fn dropped(&mut self, vid: Vid, frame: Frame, why: DropReason);
}

impl TxPort {
    /// An output side for `device`; at most `waiting` frames may wait in all its queues.
    pub fn new(device: Box<dyn Device>, waiting: usize) -> Self {
        let max_frame_bytes = device.caps().max_frame_bytes;
        Self {
            device,
            max_frame_bytes,
            up: true,
            stage: Burst::new(),
            stage_vids: [0; BURST],
            stage_pass: Pass::Rest,
            queues: Vec::new(),
            waiting: Waiting::with_capacity(waiting),
            active: VecDeque::new(),
            backlog: 0,
            contended: false,
            resume: None,
            shaped: 0,
        }
    }
    /// Whether the device can send.
    pub fn is_up(&self) -> bool {
        self.up
    }
    /// Notes the device's link; frames that wait for a port that went down are dropped.
    pub fn set_up<A: TxAccount>(&mut self, up: bool, a: &mut A) {
        self.up = up;
        if !up {
            self.drop_all(DropReason::PortDown, a);
        }
    }
    /// Frames that wait in queues.
    pub fn backlog(&self) -> usize {
        self.backlog
    }
    /// Frames of one VDP that wait.
    pub fn backlog_of(&self, vid: Vid) -> usize {
        self.queues.get(usize::from(vid.0)).and_then(Option::as_ref).map_or(0, |q| q.len as usize)
    }
    /// Sets a VDP's share; frames that wait stay.
    pub fn set_share(&mut self, vid: Vid, share: PortShare, now: Nanos) {
        let i = usize::from(vid.0);
        if self.queues.len() <= i {
            self.queues.resize_with(i + 1, || None);
        }
        // A list of active queues that never has to grow while frames pass.
        self.active.reserve(self.queues.len());
        match &mut self.queues[i] {
            Some(q) => {
                self.shaped -= usize::from(q.ceiling.is_some());
                q.share = share;
                q.guarantee = Bucket::new(share.guarantee_bps, now);
                q.ceiling = share.ceiling_bps.map(|r| Bucket::new(r, now));
            }
            none => *none = Some(Box::new(Queue::new(share, now))),
        }
        self.shaped += usize::from(share.ceiling_bps.is_some());
    }
    /// Takes a VDP's queue away; its frames are dropped.
    pub fn remove_share<A: TxAccount>(&mut self, vid: Vid, a: &mut A) {
        self.drop_queue(vid.0, DropReason::VdpGone, a);
        if let Some(q) = self.queues.get_mut(usize::from(vid.0)).and_then(Option::take) {
            self.shaped -= usize::from(q.ceiling.is_some());
        }
        self.active.retain(|&v| v != vid.0);
    }

    /// Takes a frame of `vid` for sending.
    #[inline(always)]
    pub fn submit<A: TxAccount>(
        &mut self,
        vid: Vid,
        frame: Frame,
        now: Nanos,
        pool: &mut Pool,
        a: &mut A,
    ) {
        if !self.up {
            return a.dropped(vid, frame, DropReason::PortDown);
        }
        if frame.len() > self.max_frame_bytes {
            return a.dropped(vid, frame, DropReason::FrameTooLong);
        }
        if self.backlog == 0 && self.shaped == 0 && !self.contended {
            return self.stage(vid, frame, pool, a);
        }
        self.submit_queued(vid, frame, now, pool, a);
    }

    #[inline(always)]
    fn stage<A: TxAccount>(&mut self, vid: Vid, frame: Frame, pool: &mut Pool, a: &mut A) {
        let at = self.stage.len();
        match self.stage.push(frame) {
            Ok(()) => self.stage_vids[at] = vid.0,
            Err(frame) => {
                self.send_stage(pool, a);
                // Either there is room now, or the device is full and the frame must wait.
                match self.stage.push(frame) {
                    Ok(()) => self.stage_vids[self.stage.len() - 1] = vid.0,
                    Err(frame) => self.enqueue(vid, frame, a),
                }
                return;
            }
        }
        if self.stage.room() == 0 {
            self.send_stage(pool, a);
        }
    }

    fn submit_queued<A: TxAccount>(
        &mut self,
        vid: Vid,
        frame: Frame,
        now: Nanos,
        pool: &mut Pool,
        a: &mut A,
    ) {
        let Some(q) = self.queues.get_mut(usize::from(vid.0)).and_then(Option::as_mut) else {
            return a.dropped(vid, frame, DropReason::NoSuchPort);
        };
        // With nothing waiting of its own and nobody waiting for the wire, it goes at once.
        if q.len == 0 && !self.contended && self.stage.room() > 0 {
            let bits = 8 * (frame.len() + FCS) as i64;
            let free = match &mut q.ceiling {
                None => true,
                Some(c) => {
                    c.refill(now);
                    let ok = c.has(bits);
                    c.bits -= if ok { bits } else { 0 };
                    ok
                }
            };
            if free {
                return self.stage(vid, frame, pool, a);
            }
        }
        self.enqueue(vid, frame, a);
    }

    fn enqueue<A: TxAccount>(&mut self, vid: Vid, frame: Frame, a: &mut A) {
        let Some(q) = self.queues.get_mut(usize::from(vid.0)).and_then(Option::as_mut) else {
            return a.dropped(vid, frame, DropReason::NoSuchPort);
        };
        if q.len >= q.share.queue_frames {
            return a.dropped(vid, frame, DropReason::QueueFull);
        }
        let i = match self.waiting.put(frame) {
            Ok(i) => i,
            Err(frame) => return a.dropped(vid, frame, DropReason::QueueFull),
        };
        if q.tail == NONE {
            q.head = i;
        } else {
            self.waiting.link(q.tail, i);
        }
        q.tail = i;
        q.len += 1;
        self.backlog += 1;
        if !q.active {
            q.active = true;
            self.active.push_back(vid.0);
        }
    }

    /// Puts a frame that was taken out of its queue back at its head.
    fn put_back<A: TxAccount>(&mut self, vid: Vid, frame: Frame, a: &mut A) {
        let Some(q) = self.queues.get_mut(usize::from(vid.0)).and_then(Option::as_mut) else {
            return a.dropped(vid, frame, DropReason::VdpGone);
        };
        let bits = 8 * (frame.len() + FCS) as i64;
        match self.waiting.put(frame) {
            Ok(i) => {
                self.waiting.link(i, q.head);
                if q.tail == NONE {
                    q.tail = i;
                }
                q.head = i;
                q.len += 1;
                match self.stage_pass {
                    Pass::Guaranteed => q.guarantee.bits += bits,
                    Pass::Rest => q.deficit += bits / 8,
                }
                if let Some(c) = &mut q.ceiling {
                    c.bits += bits;
                }
                self.backlog += 1;
                if !q.active {
                    q.active = true;
                    self.active.push_front(vid.0);
                }
            }
            Err(frame) => a.dropped(vid, frame, DropReason::QueueFull),
        }
    }

    /// Offers the stage to the device; what it does not take goes (back) to the queues' heads.
    fn send_stage<A: TxAccount>(&mut self, pool: &mut Pool, a: &mut A) {
        let n = self.stage.len();
        let mut lens = [0u16; BURST];
        for (l, f) in lens.iter_mut().zip(self.stage.as_slice()) {
            *l = f.len() as u16;
        }
        let taken = self.device.tx(pool, &mut self.stage).min(n);
        for (&len, &vid) in lens.iter().zip(&self.stage_vids).take(taken) {
            a.sent(Vid(vid), len.into());
        }
        if taken < n {
            self.contended = true;
            self.requeue(taken, a);
        }
    }

    #[cold]
    fn requeue<A: TxAccount>(&mut self, taken: usize, a: &mut A) {
        let vids = self.stage_vids;
        let mut rest = [const { None }; BURST];
        for (slot, f) in rest.iter_mut().zip(self.stage.drain()) {
            *slot = Some(f);
        }
        // Last first, so that each queue's head ends up as the oldest.
        for i in (0..BURST).rev() {
            if let (Some(f), Some(&vid)) = (rest[i].take(), vids.get(taken + i)) {
                self.put_back(Vid(vid), f, a);
            }
        }
    }

    /// Ends a round: sends what is staged, then serves the queues while the device takes frames.
    #[inline]
    pub fn flush<A: TxAccount>(&mut self, now: Nanos, pool: &mut Pool, a: &mut A) {
        if !self.stage.is_empty() {
            self.send_stage(pool, a);
        }
        if self.backlog > 0 {
            self.serve(now, pool, a);
        }
        self.device.flush(pool);
    }

    /// Serves the queues: guarantees first, then the rest, until the device is full, nothing that
    /// waits may be sent, or this port has had its part of the worker's round.
    #[cold]
    fn serve<A: TxAccount>(&mut self, now: Nanos, pool: &mut Pool, a: &mut A) {
        self.contended = false;
        let mut budget = ROUND_FRAMES;
        for pass in [Pass::Guaranteed, Pass::Rest] {
            // A pass is over when a whole turn through the list has moved nothing.
            let mut still = 0;
            while still < self.active.len() && budget > 0 {
                let Some(vid) = self.active.pop_front() else { return };
                let n = self.visit(vid, now, pass);
                if n == 0 {
                    still += 1;
                } else {
                    still = 0;
                    budget = budget.saturating_sub(n);
                    self.send_stage(pool, a);
                }
                let cut_short = self.contended;
                if let Some(q) = self.queues.get_mut(usize::from(vid)).and_then(Option::as_mut) {
                    match (q.head, cut_short) {
                        (NONE, _) => (q.active, q.deficit) = (false, 0),
                        // `put_back` has listed it when its queue had become empty meanwhile.
                        (_, true) => {
                            self.active.retain(|&v| v != vid);
                            self.active.push_front(vid);
                        }
                        (_, false) => self.active.push_back(vid),
                    }
                }
                if cut_short {
                    self.resume = (pass == Pass::Rest).then_some(vid);
                    return;
                }
            }
        }
        // Whatever still waits is held back by its own ceiling, or by this round's budget.
        self.contended = budget == 0;
    }

    /// One queue's turn: moves what it may send now to the stage; says how many frames.
    fn visit(&mut self, vid: u16, now: Nanos, pass: Pass) -> usize {
        let resumed = pass == Pass::Rest && self.resume.take() == Some(vid);
        let Some(q) = self.queues.get_mut(usize::from(vid)).and_then(Option::as_mut) else {
            return 0;
        };
        q.guarantee.refill(now);
        if let Some(c) = &mut q.ceiling {
            c.refill(now);
        }
        let quantum = QUANTUM * i64::from(q.share.weight.max(1));
        if pass == Pass::Rest && !resumed {
            // A queue held back by its ceiling must not save up turns, beyond one frame's need.
            let head = (self.waiting.bytes(q.head) + FCS) as i64;
            q.deficit = (q.deficit + quantum).min(quantum.max(head));
        }
        let mut moved = 0;
        let mut turn = QUANTUM;
        while q.head != NONE && self.stage.room() > 0 {
            let bytes = (self.waiting.bytes(q.head) + FCS) as i64;
            let bits = 8 * bytes;
            let due = match pass {
                Pass::Guaranteed => {
                    q.share.guarantee_bps > 0 && q.guarantee.has(bits) && (turn > 0)
                }
                Pass::Rest => q.deficit >= bytes,
            };
            if !due || q.ceiling.as_ref().is_some_and(|c| !c.has(bits)) {
                break;
            }
            let Some((f, next)) = self.waiting.take(q.head) else { break };
            q.head = next;
            if next == NONE {
                q.tail = NONE;
            }
            q.len -= 1;
            self.backlog -= 1;
            match pass {
                Pass::Guaranteed => {
                    q.guarantee.bits -= bits;
                    turn -= bytes;
                }
                Pass::Rest => q.deficit -= bytes,
            }
            if let Some(c) = &mut q.ceiling {
                c.bits -= bits;
            }
            self.stage_vids[self.stage.len()] = vid;
            self.stage_pass = pass;
            if self.stage.push(f).is_err() {
                break;
            }
            moved += 1;
        }
        moved
    }

    fn drop_queue<A: TxAccount>(&mut self, vid: u16, why: DropReason, a: &mut A) {
        let Some(q) = self.queues.get_mut(usize::from(vid)).and_then(Option::as_mut) else {
            return;
        };
        while let Some((f, next)) = self.waiting.take(q.head) {
            q.head = next;
            self.backlog -= 1;
            a.dropped(Vid(vid), f, why);
        }
        (q.head, q.tail, q.len, q.deficit, q.active) = (NONE, NONE, 0, 0, false);
        self.active.retain(|&v| v != vid);
    }

    /// Drops everything that waits here.
    pub fn drop_all<A: TxAccount>(&mut self, why: DropReason, a: &mut A) {
        for (i, f) in self.stage.drain().enumerate() {
            a.dropped(Vid(self.stage_vids[i.min(BURST - 1)]), f, why);
        }
        for vid in 0..self.queues.len() {
            self.drop_queue(vid as u16, why, a);
        }
    }
}

/// Which promise is being kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Guaranteed,
    Rest,
}
