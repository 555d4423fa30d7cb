//! The device as the worker at home has it: receives for all, deals out, sends for all.
//!
//! Room: crew. A frame for another worker that finds that worker's lane full is lost there where the source
//! would lose it (a network), and left waiting in the source where it waits. So who stalls harms its own flows.

use super::{HELD, HOLD_FRAMES, LANE_FRAMES, Shared};
use crate::crew::flow;
use crate::crew::lane::{Borrower, Lender};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use weir_packet::{
    Arrival, BURST, Burst, Caps, Device, DeviceCounters, Feed, Frame, LinkState, Nanos, Pool,
    WayQuality,
};

/// Bursts of another worker's frames that are sent at once: then it is others' turn.
const BURSTS_AT_ONCE: usize = 4;

/// The way to and from one other worker.
#[derive(Debug)]
pub(super) struct Lane {
    worker: usize,
    to: Lender,
    /// What it gets of this burst.
    part: Vec<Frame>,
    /// Held frames that may still join the part: asked once for all of them, since it grows meanwhile, and what
    /// came later would find room that an earlier frame had not found.
    room: usize,
    from: Borrower,
    /// What it sends, copied, and not taken by the device yet.
    sending: Burst,
    /// Of what it sends, the frames that are not done.
    due: usize,
}

impl Lane {
    pub(super) fn new(worker: usize, to: Lender, from: Borrower) -> Self {
        let part = Vec::with_capacity(BURST + HOLD_FRAMES);
        Self { worker, to, part, room: 0, from, sending: Burst::new(), due: 0 }
    }
    /// Frames of the region that are not home.
    fn out(&self) -> usize {
        self.to.lent() + self.part.len() + self.sending.len()
    }
    fn has_room(&self) -> bool {
        self.to.room() >= self.part.len() + BURST
    }
}

pub(super) struct Home {
    inner: Box<dyn Device>,
    shared: Arc<Shared>,
    lanes: Vec<Lane>,
    /// Which of the lanes a worker has; home's own is not one.
    lane_of: Box<[usize]>,
    got: Burst,
    /// Frames of buckets that are on their way, oldest first.
    held: VecDeque<(u8, Frame)>,
    counters: DeviceCounters,
    others_first: bool,
}

impl Home {
    pub(super) fn new(inner: Box<dyn Device>, shared: Arc<Shared>, lanes: Vec<Lane>) -> Self {
        let mut lane_of = vec![usize::MAX; shared.between.len()].into_boxed_slice();
        lanes.iter().enumerate().for_each(|(i, l)| lane_of[l.worker] = i);
        let held = VecDeque::with_capacity(HOLD_FRAMES);
        let counters = DeviceCounters::default();
        let got = Burst::new();
        Self { inner, shared, lanes, lane_of, got, held, counters, others_first: false }
    }

    /// Lets held frames go whose bucket has a worker again, oldest first. `false`: some are left, for want of room, and
    /// what comes later must not pass them.
    fn let_go(&mut self, burst: &mut Burst) -> bool {
        let mut all = true;
        let overflows = self.shared.feed == Feed::Overflows;
        for l in &mut self.lanes {
            l.room = if overflows { usize::MAX } else { l.to.room().saturating_sub(l.part.len()) };
        }
        for _ in 0..self.held.len() {
            let Some((bucket, frame)) = self.held.pop_front() else { break };
            let owner = self.shared.owner[usize::from(bucket)].load(Relaxed);
            let kept = if owner == HELD {
                Some(frame)
            } else if usize::from(owner) == self.shared.home {
                let kept = burst.push(frame).err();
                all &= kept.is_none();
                kept
            } else {
                let lane =
                    self.lane_of.get(usize::from(owner)).and_then(|i| self.lanes.get_mut(*i));
                match lane {
                    Some(l) if l.room > 0 => {
                        l.room -= 1;
                        l.part.push(frame);
                        None
                    }
                    _ => {
                        all = false;
                        Some(frame)
                    }
                }
            };
            if let Some(frame) = kept {
                self.held.push_back((bucket, frame));
            }
        }
        all
    }

    /// Whether a burst finds room, whosever its frames are. Where the source loses what is not taken, it is lost here.
    fn takes_more(&self) -> bool {
        self.shared.feed == Feed::Overflows
            || self.held.len() + BURST <= HOLD_FRAMES && self.lanes.iter().all(Lane::has_room)
    }

    /// What comes by a port that one worker has whole is not looked at.
    fn give_whole(&mut self, to: usize, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = match self.lane_of.get(to).and_then(|i| self.lanes.get_mut(*i)) {
            Some(lane) => {
                let n = self.inner.rx(pool, &mut self.got).max(self.got.len());
                lane.part.extend(self.got.drain());
                n
            }
            // Home itself, which has no lane.
            None => self.inner.rx(pool, burst).max(burst.len()),
        };
        let [seen, ..] = &*self.shared.seen;
        seen.store(seen.load(Relaxed) + n as u64, Relaxed);
        n
    }

    fn deal(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if let Some(to) = self.shared.whole() {
            return self.give_whole(to, pool, burst);
        }
        let n = self.inner.rx(pool, &mut self.got).max(self.got.len());
        let home = self.shared.home;
        for frame in self.got.drain() {
            let bucket = flow::bucket(frame.bytes());
            let seen = &self.shared.seen[usize::from(bucket)];
            seen.store(seen.load(Relaxed) + 1, Relaxed);
            let owner = self.shared.owner[usize::from(bucket)].load(Relaxed);
            let lost = if usize::from(owner) == home {
                // There is room: nothing is dealt into a burst that has frames.
                burst.push(frame).err()
            } else if owner != HELD {
                match self.lane_of.get(usize::from(owner)).and_then(|i| self.lanes.get_mut(*i)) {
                    Some(l) => {
                        l.part.push(frame);
                        None
                    }
                    None => Some(frame),
                }
            } else if self.held.len() < HOLD_FRAMES {
                self.held.push_back((bucket, frame));
                None
            } else {
                Some(frame)
            };
            if let Some(frame) = lost {
                self.counters.rx_missed += 1;
                pool.free(frame);
            }
        }
        n
    }

    /// Lends each worker its part; what finds no room is lost.
    fn hand_out(&mut self, pool: &mut Pool) {
        for l in self.lanes.iter_mut().filter(|l| !l.part.is_empty()) {
            let n = l.to.send(pool, &mut l.part);
            if n > 0 {
                if let Some(b) = self.shared.between.get(l.worker) {
                    b.dealt.add(n);
                }
                self.shared.wake(l.worker);
            }
            self.counters.rx_missed += l.part.len() as u64;
            l.part.drain(..).for_each(|f| pool.free(f));
        }
    }

    /// Sends what other workers gave.
    fn send_for_others(&mut self, pool: &mut Pool) {
        for l in &mut self.lanes {
            for _ in 0..BURSTS_AT_ONCE {
                if l.sending.is_empty() {
                    if l.from.is_empty() {
                        break;
                    }
                    let t = l.from.copy(pool, &mut l.sending);
                    self.counters.tx_errors += t.unfit as u64;
                    l.due = t.frames + t.unfit;
                }
                if !l.sending.is_empty() {
                    self.inner.tx(pool, &mut l.sending);
                }
                if !l.sending.is_empty() {
                    break;
                }
                l.from.give_back();
                if let Some(b) = self.shared.between.get(l.worker) {
                    b.done.add(std::mem::take(&mut l.due));
                }
            }
        }
    }

    /// Everything home.
    fn give_up(&mut self, pool: &mut Pool) {
        self.counters.rx_missed += self.held.len() as u64;
        self.held.drain(..).for_each(|(_, f)| pool.free(f));
        for l in &mut self.lanes {
            l.part.drain(..).for_each(|f| pool.free(f));
            l.to.reclaim(pool);
            let lost = l.sending.len() + l.from.refuse_all();
            self.counters.tx_errors += lost as u64;
            l.sending.drain().for_each(|f| pool.free(f));
        }
    }
}

impl Device for Home {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        let link = self.inner.link(pool);
        self.shared.note(self.inner.caps(), link);
        self.shared.ended.store(self.exhausted(), Release);
        link
    }
    fn stand_for(&mut self, link: LinkState) {
        self.inner.stand_for(link);
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.shared.is_closing() {
            self.give_up(pool);
            return 0;
        }
        self.lanes.iter_mut().for_each(|l| l.to.reclaim(pool));
        let mut moved = 0;
        let mut past = !self.shared.pauses();
        if past && !self.held.is_empty() {
            let before = self.held.len();
            past = self.let_go(burst);
            moved = before - self.held.len();
        }
        if past && burst.is_empty() && self.takes_more() {
            moved += self.deal(pool, burst);
        }
        self.hand_out(pool);
        moved
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.others_first && !self.shared.is_closing() {
            self.send_for_others(pool);
        }
        self.inner.tx(pool, burst)
    }
    fn flush(&mut self, pool: &mut Pool) {
        self.others_first = !self.others_first;
        match self.shared.is_closing() {
            true => self.give_up(pool),
            false => self.send_for_others(pool),
        }
        self.inner.flush(pool);
    }
    fn held(&self) -> usize {
        self.inner.held() + self.held.len() + self.lanes.iter().map(Lane::out).sum::<usize>()
    }
    fn in_transit(&self) -> usize {
        self.inner.in_transit()
    }
    fn arrival(&self) -> Arrival<'_> {
        let waits = |l: &Lane| !l.from.is_empty() || !l.sending.is_empty();
        match self.held.is_empty() && !self.lanes.iter().any(waits) {
            true => self.inner.arrival(),
            false => Arrival::Polled,
        }
    }
    fn patience(&self) -> Nanos {
        self.inner.patience()
    }
    fn exhausted(&self) -> bool {
        let done = |l: &Lane| l.out() == 0 && l.from.is_empty();
        self.inner.exhausted() && self.held.is_empty() && self.lanes.iter().all(done)
    }
    fn fault(&self) -> Option<String> {
        self.inner.fault()
    }
    fn caveat(&self) -> Option<String> {
        self.inner.caveat()
    }
    fn ways(&self) -> Vec<WayQuality> {
        self.inner.ways()
    }
    fn counters(&self) -> DeviceCounters {
        let c = self.inner.counters();
        DeviceCounters {
            rx_missed: c.rx_missed + self.counters.rx_missed,
            tx_errors: c.tx_errors + self.counters.tx_errors,
            ..c
        }
    }
    fn close(&mut self, pool: &mut Pool) {
        self.give_up(pool);
        self.inner.close(pool);
    }
}

// What a port may have lent is less than the smallest region that a data plane is made with.
const _: () = assert!(LANE_FRAMES >= 2 * BURST);
