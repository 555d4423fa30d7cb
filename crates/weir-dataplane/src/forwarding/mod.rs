//! Stage 5, forwarding: output queues per port, and who may send next.
//!
//! A port divides what it can send among VDPs, a VDP its share among its queues (`share`). Each VDP
//! has, at each port, a guaranteed rate, a ceiling and a weight. Two passes serve the VDPs
//! (`serve`): first those below their guarantee, then all below their ceiling, by deficit round
//! robin with quanta by weight (Shreedhar and Varghese, SIGCOMM '95). Token buckets measure rates,
//! in bits of frame plus FCS.
//!
//! Frames that wait are the worker's, so how many of a VDP may is bounded three times: by its share of the port; by its part of
//! the port's places (`active`), beyond which it takes no more than it leaves; and at all ports together by what others have left of
//! the frames that there are (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998; decision 96).
//!
//! Room: called by the worker and, through it, by returning slow-path frames. While a device takes
//! everything (no backlog), frames pass by the queues in order of arrival and cost a few stores. Frames
//! of one queue of a VDP and port always leave in the order in which they were submitted.

mod active;
mod bucket;
mod serve;
mod share;
mod waiting;

pub(crate) use share::{MAX_QUEUES, QueueStats};
pub use share::{PortShare, QueueRate};

use crate::action::Vid;
use crate::control::Config;
use crate::counters::Tally;
use active::Active;
use share::{Paid, Share};
use waiting::Waiting;
use weir_packet::{BURST, Burst, Caps, Device, DropReason, Frame, Nanos, Pool};

/// FCS bytes, which rates count and frames here do not hold.
const FCS: usize = 4;
/// Bytes that weight 1 earns a round: one full frame.
const QUANTUM: i64 = 1518;

/// Whose a staged frame is: its VDP, the place of its queue, how it was paid for there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tag(u32);

impl Tag {
    /// A frame that passes by the queues of a VDP that has but one.
    #[inline(always)]
    fn plain(vid: Vid) -> Self {
        Self(vid.0.into())
    }
    fn new(vid: Vid, place: usize, paid: Paid) -> Self {
        Self(u32::from(vid.0) | (place as u32 & 0xff) << 16 | (paid as u32) << 24)
    }
    #[inline(always)]
    fn vid(self) -> Vid {
        Vid(self.0 as u16)
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self.0 >> 16 & 0xff) as usize
    }
    fn paid(self) -> Paid {
        match self.0 >> 24 {
            1 => Paid::Min,
            2 => Paid::Turn,
            _ => Paid::Not,
        }
    }
}

/// A port's output side.
pub struct TxPort {
    /// The device.
    pub device: Box<dyn Device>,
    max_frame_bytes: usize,
    /// What programs were told last of it.
    ip_bytes: usize,
    up: bool,
    /// Frames that go out with the next flush, and whose they are.
    stage: Burst,
    stage_tags: [Tag; BURST],
    /// Which pass paid for the stage, for frames that come back from it.
    stage_pass: Pass,
    shares: Vec<Option<Box<Share>>>,
    waiting: Waiting,
    active: Active,
    backlog: usize,
    /// The device refused a frame and has not caught up since.
    contended: bool,
    /// Counts rounds, in each of which a VDP has its quantum once, and sends it a part at a time.
    round: u32,
    /// Whose turn is next in what guarantees leave over.
    first: Option<u16>,
    /// VDPs with a ceiling or queues of their own.
    shaped: usize,
}

/// Which promise is being kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// None: frames pass by the queues.
    By,
    Guaranteed,
    Rest,
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
    /// Frames left.
    fn left(&mut self, what: Tally);
    /// Of those that left, these were of `vid`.
    fn sent(&mut self, vid: Vid, what: Tally);
    /// Frames of `vid` that wait at all ports; `None` where there is no such VDP.
    fn waiting(&mut self, vid: Vid) -> Option<&mut u32>;
    /// A frame of `vid` ended here.
    fn dropped(&mut self, vid: Vid, frame: Frame, why: DropReason);
}

impl TxPort {
    /// An output side for `device`; at most `waiting` frames may wait in all its queues.
    pub fn new(device: Box<dyn Device>, waiting: usize) -> Self {
        let Caps { max_frame_bytes, ip_bytes, .. } = device.caps();
        Self {
            device,
            max_frame_bytes,
            ip_bytes,
            up: true,
            stage: Burst::new(),
            stage_tags: [Tag::default(); BURST],
            stage_pass: Pass::By,
            shares: Vec::new(),
            waiting: Waiting::with_capacity(waiting),
            active: Active::default(),
            backlog: 0,
            contended: false,
            round: 0,
            first: None,
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
    /// Whether no VDP has more here than any other, or less, or queues.
    pub(crate) fn is_undivided(&self) -> bool {
        let plain = |s: &Share| {
            let queue_frames = s.share().queue_frames;
            s.share() == PortShare { queue_frames, ..PortShare::default() }
        };
        self.shaped == 0 && self.shares.iter().flatten().all(|s| plain(s))
    }
    /// Notes what the device can do, which looking at its link may have changed, here or at the worker whose it is; whether it has.
    pub fn note_caps(&mut self) -> bool {
        let Caps { max_frame_bytes, ip_bytes, .. } = self.device.caps();
        let before = (self.max_frame_bytes, self.ip_bytes);
        (self.max_frame_bytes, self.ip_bytes) = (max_frame_bytes, ip_bytes);
        before != (max_frame_bytes, ip_bytes)
    }
    /// Frames that wait in queues.
    pub fn backlog(&self) -> usize {
        self.backlog
    }
    /// Frames of one VDP that wait.
    pub fn backlog_of(&self, vid: Vid) -> usize {
        self.share(vid).map_or(0, |s| s.len() as usize)
    }
    /// Whether a VDP has queues beside queue 0, whose frames may pass one another's.
    pub fn has_queues(&self, vid: Vid) -> bool {
        self.queues(vid, Tally::default()).nth(1).is_some()
    }
    fn share(&self, vid: Vid) -> Option<&Share> {
        self.shares.get(usize::from(vid.0))?.as_deref()
    }
    #[inline(always)]
    fn share_mut(&mut self, vid: Vid) -> Option<&mut Share> {
        self.shares.get_mut(usize::from(vid.0))?.as_deref_mut()
    }
    /// Sets a VDP's share; frames that wait stay.
    pub fn set_share(&mut self, vid: Vid, share: PortShare, now: Nanos) {
        let i = usize::from(vid.0);
        if self.shares.len() <= i {
            self.shares.resize_with(i + 1, || None);
        }
        // A list of active VDPs that never has to grow while frames pass.
        self.active.turns.reserve(self.shares.len());
        if self.shares[i].is_none() {
            self.shares[i] = Some(Box::new(Share::new(share, now)));
            self.shaped += usize::from(share.ceiling_bps.is_some());
            return;
        }
        self.reshape(vid, |s, _| s.set(share, now));
    }
    /// Sets the rates of a VDP's queue, made if need be; `None` when the VDP has no share here or
    /// too many queues.
    pub(crate) fn set_queue(
        &mut self,
        vid: Vid,
        queue: u32,
        rate: QueueRate,
        now: Nanos,
    ) -> Option<()> {
        self.reshape(vid, |s, _| s.set_queue(queue, rate, now))?
    }
    /// Takes a VDP's queue away; what waits there waits on in queue 0. `None` when there is none.
    pub(crate) fn remove_queue(&mut self, vid: Vid, queue: u32) -> Option<()> {
        self.reshape(vid, |s, w| s.remove_queue(queue, w))?
    }
    /// A VDP's queues, by number. `sent` is everything that it sent by this port, of which queue 0 has
    /// what no other queue has.
    pub(crate) fn queues(&self, vid: Vid, sent: Tally) -> impl Iterator<Item = QueueStats> {
        self.share(vid).into_iter().flat_map(move |s| s.stats(sent))
    }
    fn reshape<R>(&mut self, vid: Vid, f: impl FnOnce(&mut Share, &mut Waiting) -> R) -> Option<R> {
        let s = self.shares.get_mut(usize::from(vid.0))?.as_deref_mut()?;
        self.shaped -= usize::from(s.is_shaped());
        let w = &mut self.waiting;
        let r = self.active.reshape(s, |s| f(s, w));
        self.shaped += usize::from(s.is_shaped());
        Some(r)
    }
    /// What waits for a VDP leaves as fast as the wire takes it from now on.
    pub(crate) fn unlimit(&mut self, vid: Vid) {
        self.reshape(vid, |s, _| s.unlimit());
    }
    /// Takes a VDP's share and queues away; its frames are dropped.
    pub fn remove_share<A: TxAccount>(&mut self, vid: Vid, a: &mut A) {
        self.drop_queues(vid.0, DropReason::VdpGone, a);
        if let Some(s) = self.shares.get_mut(usize::from(vid.0)).and_then(Option::take) {
            self.shaped -= usize::from(s.is_shaped());
        }
    }

    /// Takes a frame of `vid` for sending by its queue `queue`.
    #[inline(always)]
    pub fn submit<A: TxAccount>(
        &mut self,
        vid: Vid,
        queue: u32,
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
        let looked_at = self.backlog | self.shaped | queue as usize;
        if looked_at == 0 && !self.contended {
            return self.stage(Tag::plain(vid), frame, pool, a);
        }
        self.submit_queued(vid, queue, frame, now, pool, a);
    }

    /// [`TxPort::submit`] of a whole burst, whose frames are these VDPs' and go by their queue 0, in which no frame is
    /// longer than `longest`. Where nothing waits the burst is the stage from now on, and no frame is touched.
    #[inline]
    pub fn submit_all<A: TxAccount>(
        &mut self,
        vids: &[Vid; BURST],
        frames: &mut Burst,
        longest: usize,
        now: Nanos,
        pool: &mut Pool,
        a: &mut A,
    ) {
        let free = self.up && self.backlog | self.shaped == 0 && !self.contended;
        if !free || longest > self.max_frame_bytes || !self.stage.is_empty() {
            for (f, vid) in frames.drain().zip(*vids) {
                self.submit(vid, 0, f, now, pool, a);
            }
            return;
        }
        std::mem::swap(&mut self.stage, frames);
        self.stage_tags = vids.map(Tag::plain);
        if self.stage.room() == 0 {
            self.send_stage(pool, a);
        }
    }

    #[inline(always)]
    fn stage<A: TxAccount>(&mut self, tag: Tag, frame: Frame, pool: &mut Pool, a: &mut A) {
        let at = self.stage.len();
        match self.stage.push(frame) {
            Ok(()) => self.stage_tags[at] = tag,
            Err(frame) => {
                self.send_stage(pool, a);
                // Either there is room now, or the device is full and the frame must wait.
                match self.stage.push(frame) {
                    Ok(()) => self.stage_tags[self.stage.len() - 1] = tag,
                    Err(frame) => self.enqueue(tag.vid(), tag.place(), frame, pool, a),
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
        queue: u32,
        frame: Frame,
        now: Nanos,
        pool: &mut Pool,
        a: &mut A,
    ) {
        let free = !self.contended && self.stage.room() > 0;
        let Some(s) = self.share_mut(vid) else {
            return a.dropped(vid, frame, DropReason::NoSuchPort);
        };
        let place = s.place(queue);
        // With nothing waiting of its own and nobody waiting for the wire, it goes at once.
        if free && s.passes(place, 8 * (frame.len() + FCS) as i64, now) {
            return self.stage(Tag::new(vid, place, Paid::Not), frame, pool, a);
        }
        self.enqueue(vid, place, frame, pool, a);
    }

    fn enqueue<A: TxAccount>(
        &mut self,
        vid: Vid,
        place: usize,
        frame: Frame,
        pool: &Pool,
        a: &mut A,
    ) {
        let Some(s) = self.shares.get_mut(usize::from(vid.0)).and_then(Option::as_mut) else {
            return a.dropped(vid, frame, DropReason::NoSuchPort);
        };
        let left = left_to_wait(pool);
        let pushed = match a.waiting(vid) {
            Some(all) if (*all as usize) < left => {
                let due = self.active.due(s, self.waiting.places());
                s.push(place, frame, &mut self.waiting, due).inspect(|()| *all += 1)
            }
            _ => Err(s.refuse(place, frame)),
        };
        if let Err(frame) = pushed {
            return a.dropped(vid, frame, DropReason::QueueFull);
        }
        self.backlog += 1;
        if self.active.joins(s) {
            self.active.turns.push_back(vid.0);
        }
    }

    /// Offers the stage to the device; what it does not take goes (back) to the queues' heads.
    fn send_stage<A: TxAccount>(&mut self, pool: &mut Pool, a: &mut A) {
        let n = self.stage.len();
        let whose = self.stage_tags[0];
        if self.stage_tags.iter().take(n).fold(true, |all, t| all & (*t == whose)) {
            let bytes = |b: &Burst| b.as_slice().iter().map(Frame::len).sum::<usize>() as u64;
            let offered = bytes(&self.stage);
            let taken = self.device.tx(pool, &mut self.stage).min(n);
            let left = if taken < n { bytes(&self.stage) } else { 0 };
            if taken > 0 {
                let sent = Tally { frames: taken as u64, bytes: offered - left };
                a.left(sent);
                count_sent(&mut self.shares, whose, sent, a);
            }
            if taken < n {
                self.contended = true;
                self.requeue(taken, a);
            }
            return;
        }
        let mut lens = [0u16; BURST];
        for (l, f) in lens.iter_mut().zip(self.stage.as_slice()) {
            *l = f.len() as u16;
        }
        let taken = self.device.tx(pool, &mut self.stage).min(n);
        let mut all = Tally::default();
        for (&len, &tag) in lens.iter().zip(&self.stage_tags).take(taken) {
            let one = Tally { frames: 1, bytes: len.into() };
            all.merge(one);
            count_sent(&mut self.shares, tag, one, a);
        }
        a.left(all);
        if taken < n {
            self.contended = true;
            self.requeue(taken, a);
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
}

/// Frames that may wait in queues beside those that do.
pub(crate) fn left_to_wait(pool: &Pool) -> usize {
    pool.available().saturating_sub(Config::kept_from_queues(pool))
}

/// Counts frames of one VDP and queue that left. Those of queue 0 are what the others do not have.
#[inline(always)]
fn count_sent<A: TxAccount>(shares: &mut [Option<Box<Share>>], of: Tag, what: Tally, a: &mut A) {
    a.sent(of.vid(), what);
    if of.place() != 0
        && let Some(Some(s)) = shares.get_mut(usize::from(of.vid().0))
    {
        s.count_sent(of.place(), what);
    }
}
