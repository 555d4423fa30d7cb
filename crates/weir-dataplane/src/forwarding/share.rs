//! One VDP at one port: what it may send, and the queues among which it divides that.
//!
//! A VDP has queue 0 at each of its ports, and as many more as it was given (OpenFlow 1.0 §5.3.4,
//! 1.3 §7.2.2). When the port gives the VDP a turn, its queues below their least rate come first, then
//! all below their greatest by deficit round robin. What the VDP as a whole may send is decided by
//! the port before: queues divide a share, they never enlarge it.
//!
//! Room: forwarding. [`super::TxPort`] holds one for each VDP and asks it which frame is next.

use super::bucket::Bucket;
use super::waiting::{Fifo, Waiting};
use super::{FCS, QUANTUM};
use crate::counters::Tally;
use weir_packet::{Frame, Nanos};

/// What a VDP may send by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortShare {
    /// Bits per second that it gets whatever the others do; 0: none.
    pub guarantee_bps: u64,
    /// Bits per second that it never exceeds; `None`: no ceiling.
    pub ceiling_bps: Option<u64>,
    /// Its part, relative to the others', of what guarantees leave over. At least 1.
    pub weight: u16,
    /// Frames that may wait, divided evenly among its queues.
    pub queue_frames: u32,
}

impl Default for PortShare {
    fn default() -> Self {
        Self { guarantee_bps: 0, ceiling_bps: None, weight: 1, queue_frames: 1024 }
    }
}

/// Bytes of the longest frame, FCS included, that a bound on delay reckons with.
const LONGEST: u128 = 1518;

/// Parts of a port's places that a VDP may have, where others have one.
pub(super) const MOST_PARTS: u32 = 8;

impl PortShare {
    /// What can't be of it, and how to mend that.
    pub fn problem(&self) -> Option<&'static str> {
        match self {
            Self { weight: 0, .. } => Some("weight 0 would never send: 1 is the least"),
            Self { ceiling_bps: Some(0), .. } => {
                Some("a ceiling of 0 would never send: leave it out for none, or raise it")
            }
            Self { ceiling_bps: Some(c), guarantee_bps, .. } if c < guarantee_bps => {
                Some("the ceiling lies below the guarantee: raise it or lower the guarantee")
            }
            _ => None,
        }
    }
    /// How many parts of a port's places are the VDP's, where others have one: a turn of more is no use to a shorter queue.
    fn parts(&self) -> u32 {
        match self.guarantee_bps {
            0 => u32::from(self.weight).clamp(1, MOST_PARTS),
            _ => MOST_PARTS,
        }
    }
    /// The same with so few frames waiting that one of up to 1518 bytes leaves within `delay` by the guarantee
    /// alone, whatever the others send. `None`: the guarantee takes longer for a single one.
    pub fn within(self, delay: Nanos) -> Option<Self> {
        let bits = u128::from(self.guarantee_bps) * u128::from(delay.0) / 1_000_000_000;
        let frames = u32::try_from(bits / (8 * LONGEST)).unwrap_or(u32::MAX);
        (frames > 0).then_some(Self { queue_frames: frames.min(self.queue_frames), ..self })
    }
}

/// What one queue of a VDP may send, in bits per second of frame plus FCS, within the VDP's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRate {
    /// It gets this much of the VDP's share before others get more; 0: nothing is promised.
    pub min_bps: u64,
    /// It never exceeds this; `None`: no limit.
    pub max_bps: Option<u64>,
}

/// Queues that a VDP may have at a port beside queue 0.
pub(crate) const MAX_QUEUES: usize = 255;

/// What happened in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueStats {
    pub(crate) queue: u32,
    pub(crate) rate: QueueRate,
    pub(crate) sent: Tally,
    pub(crate) dropped: u64,
    pub(crate) strays: u64,
    pub(crate) since: Nanos,
}

/// How a frame that left its queue was paid for there, so that it can be paid back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paid {
    /// Not at all, but for the greatest rate: it never waited, or there is one queue.
    Not = 0,
    /// Out of the least rate.
    Min = 1,
    /// Out of its turn.
    Turn = 2,
}

/// A queue: what waits there, and what became of it.
#[derive(Debug)]
struct Queue {
    fifo: Fifo,
    dropped: u64,
    since: Nanos,
}

impl Queue {
    fn new(now: Nanos) -> Self {
        Self { fifo: Fifo::default(), dropped: 0, since: now }
    }
    /// Bytes with FCS of its next frame.
    fn head(&self, w: &Waiting) -> Option<i64> {
        self.fifo.head_bytes(w).map(|b| (b + FCS) as i64)
    }
}

/// What a queue may send, and how much of it it has had.
#[derive(Debug)]
struct Rates {
    rate: QueueRate,
    deficit: i64,
    min: Bucket,
    max: Option<Bucket>,
}

impl Rates {
    fn new(rate: QueueRate, now: Nanos) -> Self {
        let max = rate.max_bps.map(|r| Bucket::new(r, now));
        Self { rate, deficit: 0, min: Bucket::new(rate.min_bps, now), max }
    }
    fn set(&mut self, rate: QueueRate, now: Nanos) {
        *self = Self { deficit: self.deficit, ..Self::new(rate, now) };
    }
    fn below_max(&mut self, bits: i64, now: Nanos) -> bool {
        let Some(m) = &mut self.max else { return true };
        m.refill(now);
        m.has(bits)
    }
    fn below_min(&mut self, bits: i64, now: Nanos) -> bool {
        if self.rate.min_bps == 0 {
            return false;
        }
        self.min.refill(now);
        self.min.has(bits)
    }
}

/// A queue beside queue 0.
#[derive(Debug)]
struct Class {
    number: u32,
    queue: Queue,
    rates: Rates,
    sent: Tally,
}

/// What few VDPs have at a port: a share unlike everybody's, queues with rates.
#[derive(Debug)]
struct Terms {
    share: PortShare,
    guarantee: Bucket,
    ceiling: Option<Bucket>,
    /// Of queue 0.
    first: Rates,
    /// The other queues, by number.
    more: Vec<Class>,
    /// Whose turn it is: among queues below their least rate, and among all.
    min_turn: usize,
    turn: usize,
    /// Sent by queues that were removed.
    gone: Tally,
}

impl Terms {
    fn new(now: Nanos) -> Self {
        Self {
            share: PortShare::default(),
            guarantee: Bucket::default(),
            ceiling: None,
            first: Rates::new(QueueRate::default(), now),
            more: Vec::new(),
            min_turn: 0,
            turn: 0,
            gone: Tally::default(),
        }
    }
    fn have_one_plain_queue(&self) -> bool {
        self.more.is_empty() && self.first.rate == QueueRate::default()
    }
}

/// One VDP at one port.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) deficit: i64,
    /// The port's round in which it had a quantum.
    pub(super) round: u32,
    /// Bytes of its quantum that it sends before the next may.
    pub(super) part: i32,
    pub(super) active: bool,
    /// Frames that wait in all its queues.
    len: u32,
    /// Queue 0.
    first: Queue,
    /// Frames for queues that are not there; queue 0 took them.
    strays: u64,
    /// None: [`PortShare::default`], and no queue but the first, whose rate has no limits.
    terms: Option<Box<Terms>>,
}

impl Share {
    pub(super) fn new(share: PortShare, now: Nanos) -> Self {
        let mut s = Self {
            deficit: 0,
            round: 0,
            part: 0,
            active: false,
            len: 0,
            first: Queue::new(now),
            strays: 0,
            terms: None,
        };
        s.set(share, now);
        s
    }
    pub(super) fn set(&mut self, share: PortShare, now: Nanos) {
        if self.terms.is_none() && share == PortShare::default() {
            return;
        }
        let t = self.make_terms(now);
        t.share = share;
        t.guarantee = Bucket::new(share.guarantee_bps, now);
        t.ceiling = share.ceiling_bps.map(|r| Bucket::new(r, now));
    }
    /// Lifts what limits it and its queues.
    pub(super) fn unlimit(&mut self) {
        let Some(t) = self.terms.as_deref_mut() else { return };
        t.ceiling = None;
        t.first.max = None;
        t.more.iter_mut().for_each(|c| c.rates.max = None);
    }
    fn make_terms(&mut self, now: Nanos) -> &mut Terms {
        self.terms.get_or_insert_with(|| Box::new(Terms::new(now)))
    }
    /// What it was given.
    pub(super) fn share(&self) -> PortShare {
        self.terms.as_ref().map_or_else(PortShare::default, |t| t.share)
    }
    /// Parts of the port's places that are its.
    pub(super) fn parts(&self) -> u32 {
        self.share().parts()
    }
    /// Frames that wait.
    pub(super) fn len(&self) -> u32 {
        self.len
    }
    /// Whether its frames have to be looked at one by one, even while the device takes everything.
    pub(super) fn is_shaped(&self) -> bool {
        self.terms.as_ref().is_some_and(|t| t.ceiling.is_some() || !t.have_one_plain_queue())
    }
    fn has_one_plain_queue(&self) -> bool {
        self.terms.as_ref().is_none_or(|t| t.have_one_plain_queue())
    }
    /// Queues beside queue 0.
    fn more(&self) -> &[Class] {
        self.terms.as_ref().map_or(&[], |t| &t.more)
    }
    fn class_mut(&mut self, place: usize) -> Option<&mut Class> {
        self.terms.as_mut()?.more.get_mut(place.checked_sub(1)?)
    }
    #[inline(always)]
    fn queue_mut(&mut self, place: usize) -> Option<&mut Queue> {
        match place {
            0 => Some(&mut self.first),
            _ => self.class_mut(place).map(|c| &mut c.queue),
        }
    }
    /// A queue and its rates, where there are any.
    #[inline(always)]
    fn rated_mut(&mut self, place: usize) -> Option<(&mut Queue, &mut Rates)> {
        let t = self.terms.as_deref_mut()?;
        match place.checked_sub(1) {
            None => Some((&mut self.first, &mut t.first)),
            Some(i) => t.more.get_mut(i).map(|c| (&mut c.queue, &mut c.rates)),
        }
    }
    fn queues(&self) -> impl Iterator<Item = &Queue> {
        std::iter::once(&self.first).chain(self.more().iter().map(|c| &c.queue))
    }
    /// The place of queue `number`; that of queue 0 where there is none.
    pub(super) fn place(&mut self, number: u32) -> usize {
        if number == 0 {
            return 0;
        }
        match self.more().binary_search_by_key(&number, |c| c.number) {
            Ok(i) => i + 1,
            Err(_) => {
                self.strays += 1;
                0
            }
        }
    }
    /// Sets a queue's rates; `None` when there are too many queues. What waits and what was counted
    /// stays.
    pub(super) fn set_queue(&mut self, number: u32, rate: QueueRate, now: Nanos) -> Option<()> {
        let t = self.make_terms(now);
        if number == 0 {
            t.first.set(rate, now);
            return Some(());
        }
        match t.more.binary_search_by_key(&number, |c| c.number) {
            Ok(i) => t.more.get_mut(i)?.rates.set(rate, now),
            Err(_) if t.more.len() >= MAX_QUEUES => return None,
            Err(i) => {
                let (queue, rates) = (Queue::new(now), Rates::new(rate, now));
                t.more.insert(i, Class { number, queue, rates, sent: Tally::default() });
            }
        }
        Some(())
    }
    /// Takes a queue away; its frames wait on at the end of queue 0. `None` when there is none.
    pub(super) fn remove_queue(&mut self, number: u32, w: &mut Waiting) -> Option<()> {
        let t = self.terms.as_deref_mut()?;
        let i = t.more.binary_search_by_key(&number, |c| c.number).ok()?;
        let c = t.more.remove(i);
        t.gone.merge(c.sent);
        self.first.fifo.append(c.queue.fifo, w);
        self.first.dropped += c.queue.dropped;
        Some(())
    }
    /// Its queues, where it sent so much in all.
    pub(super) fn stats(&self, all: Tally) -> impl Iterator<Item = QueueStats> {
        let terms = self.terms.as_deref();
        let gone = terms.map_or_else(Tally::default, |t| t.gone);
        let others = self.more().iter().fold(gone, |mut sum, c| {
            sum.merge(c.sent);
            sum
        });
        let of = |queue, rate, q: &Queue, sent, strays| QueueStats {
            queue,
            rate,
            sent,
            dropped: q.dropped,
            strays,
            since: q.since,
        };
        let rate = terms.map_or_else(QueueRate::default, |t| t.first.rate);
        let first = of(0, rate, &self.first, all.less(others), self.strays);
        let more = self.more().iter();
        std::iter::once(first)
            .chain(more.map(move |c| of(c.number, c.rates.rate, &c.queue, c.sent, 0)))
    }
    /// Counts what a queue other than the first sent.
    pub(super) fn count_sent(&mut self, place: usize, what: Tally) {
        if let Some(c) = self.class_mut(place) {
            c.sent.merge(what);
        }
    }
    fn count_dropped(&mut self, place: usize) {
        if let Some(q) = self.queue_mut(place) {
            q.dropped += 1;
        }
    }

    /// Its buckets have earned what they earn until now.
    pub(super) fn refill(&mut self, now: Nanos) {
        let Some(t) = self.terms.as_deref_mut() else { return };
        t.guarantee.refill(now);
        if let Some(c) = &mut t.ceiling {
            c.refill(now);
        }
    }
    /// Whether `bits` are within what it was promised, and that much was promised at all.
    pub(super) fn is_promised(&self, bits: i64) -> bool {
        let promised = |t: &Terms| t.share.guarantee_bps > 0 && t.guarantee.has(bits);
        self.terms.as_deref().is_some_and(promised)
    }
    /// Pays `bits` out of what it was promised; fewer than none are paid back.
    pub(super) fn pay_promised(&mut self, bits: i64) {
        if let Some(t) = &mut self.terms {
            t.guarantee.bits -= bits;
        }
    }
    /// Whether its ceiling, if it has one, allows for so many bits.
    pub(super) fn is_below_ceiling(&self, bits: i64) -> bool {
        self.terms.as_ref().and_then(|t| t.ceiling.as_ref()).is_none_or(|c| c.has(bits))
    }

    /// Whether a frame of `bits` may pass by the queues at once; then it is paid for.
    pub(super) fn passes(&mut self, place: usize, bits: i64, now: Nanos) -> bool {
        if self.len > 0 {
            return false;
        }
        let Some(t) = &mut self.terms else { return place == 0 };
        if let Some(c) = &mut t.ceiling {
            c.refill(now);
            if !c.has(bits) {
                return false;
            }
        }
        if !self.rated_mut(place).is_some_and(|(_, r)| r.below_max(bits, now)) {
            return false;
        }
        self.pay(place, Paid::Not, bits);
        true
    }
    /// Puts a frame into a queue; gives it back, counted there, when it may not wait. `due` of the port's places are its.
    pub(super) fn push(
        &mut self,
        place: usize,
        frame: Frame,
        w: &mut Waiting,
        due: u32,
    ) -> Result<(), Frame> {
        let all = self.share().queue_frames;
        // A queue that its rate holds back leaves the others of this VDP their room.
        let part = (all / (self.more().len() as u32 + 1)).max(1);
        // Beyond what is due to it, it takes no more than it leaves, and that not of the last quarter: what is due to others who
        // have nothing waiting just now must not be taken by whoever is asked before them, round after round.
        let more = w.left().saturating_sub(w.places() / 4);
        let full = self.len >= all.min(due.max(more));
        let r = match self.queue_mut(place) {
            Some(q) if !full && q.fifo.len() < part => q.fifo.push(frame, w),
            _ => Err(frame),
        };
        match &r {
            Ok(()) => self.len += 1,
            Err(_) => self.count_dropped(place),
        }
        r
    }
    /// A frame that may not wait, counted where it would have.
    pub(super) fn refuse(&mut self, place: usize, frame: Frame) -> Frame {
        self.count_dropped(place);
        frame
    }
    /// Puts a frame back where [`Share::take`] had it from; what it paid is paid back.
    pub(super) fn put_back(
        &mut self,
        place: usize,
        paid: Paid,
        frame: Frame,
        w: &mut Waiting,
    ) -> Result<(), Frame> {
        let bits = 8 * (frame.len() + FCS) as i64;
        let Some(q) = self.queue_mut(place) else { return Err(frame) };
        if let Err(frame) = q.fifo.push_front(frame, w) {
            q.dropped += 1;
            return Err(frame);
        }
        self.len += 1;
        self.pay(place, paid, -bits);
        Ok(())
    }
    /// Which queue's head is next, and what pays for it.
    pub(super) fn next(&mut self, w: &Waiting, now: Nanos) -> Option<Next> {
        if self.has_one_plain_queue() {
            let bytes = self.first.head(w)?;
            return Some(Next { place: 0, paid: Paid::Not, bytes });
        }
        let n = self.more().len() + 1;
        let turns = self.terms.as_ref().map_or((0, 0), |t| (t.min_turn, t.turn));
        for step in 0..n {
            let place = (turns.0 + step) % n;
            let Some((q, r)) = self.rated_mut(place) else { continue };
            let Some(bytes) = q.head(w) else { continue };
            if r.below_min(8 * bytes, now) && r.below_max(8 * bytes, now) {
                return Some(Next { place, paid: Paid::Min, bytes });
            }
        }
        // Once round, and back to where it began with a new turn.
        let mut turn = turns.1;
        for _ in 0..=n {
            let place = turn % n;
            if let Some((q, r)) = self.rated_mut(place) {
                match q.head(w) {
                    None => r.deficit = 0,
                    Some(bytes) if r.deficit >= bytes && r.below_max(8 * bytes, now) => {
                        return Some(Next { place, paid: Paid::Turn, bytes });
                    }
                    Some(_) => {}
                }
            }
            turn = (place + 1) % n;
            if let Some(t) = &mut self.terms {
                t.turn = turn;
            }
            if let Some((q, r)) = self.rated_mut(turn) {
                // One turn is enough for its next frame, however long, and turns are not saved up.
                let quantum = QUANTUM.max(q.head(w).unwrap_or(0));
                r.deficit = (r.deficit + quantum).min(2 * quantum);
            }
        }
        None
    }
    /// Takes what [`Share::next`] named.
    pub(super) fn take(&mut self, n: &Next, w: &mut Waiting) -> Option<Frame> {
        let f = self.queue_mut(n.place)?.fifo.pop(w)?;
        self.len -= 1;
        self.pay(n.place, n.paid, 8 * n.bytes);
        if n.paid == Paid::Min
            && let Some(t) = &mut self.terms
        {
            t.min_turn = n.place + 1;
        }
        Some(f)
    }
    /// Takes the frames of all queues, counted as dropped there.
    pub(super) fn take_any(&mut self, w: &mut Waiting) -> Option<Frame> {
        for place in 0..=self.more().len() {
            if let Some(f) = self.queue_mut(place).and_then(|q| q.fifo.pop(w)) {
                self.len -= 1;
                self.count_dropped(place);
                return Some(f);
            }
        }
        None
    }
    /// The longest frame, with FCS, that is next in any queue.
    pub(super) fn longest_head(&self, w: &Waiting) -> i64 {
        self.queues().filter_map(|q| q.head(w)).max().unwrap_or(0)
    }
    /// Takes `bits` from the buckets that pay; from those of the VDP the ceiling only, the rest is
    /// the port's business.
    fn pay(&mut self, place: usize, paid: Paid, bits: i64) {
        if let Some(c) = self.terms.as_mut().and_then(|t| t.ceiling.as_mut()) {
            c.bits -= bits;
        }
        let Some((_, r)) = self.rated_mut(place) else { return };
        if let Some(m) = &mut r.max {
            m.bits -= bits;
        }
        match paid {
            Paid::Not => {}
            Paid::Min => r.min.bits -= bits,
            Paid::Turn => r.deficit -= bits / 8,
        }
    }
}

/// The frame that is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// The place of its queue.
    pub(super) place: usize,
    /// What pays for it in its queue.
    pub(super) paid: Paid,
    /// Its length with FCS.
    pub(super) bytes: i64,
}
