//! A port for several workers. With a queue for each (`own`), each has its own; with one queue: one of them, at home there, has the device and deals its frames out by
//! flow; the others have a device each that gets its part and sends by way of home.
//!
//! Room: crew. What each worker's data plane has is a [`Device`] like any other, so the way of a frame inside a data plane
//! knows nothing of this. [`Spread`] is for control: it says where each bucket of flows goes, and moves buckets.
//! Numbers that cross between threads are atomics with one writer each; frames cross by `lane`.

mod far;
mod home;
mod moving;
mod own;
mod watch;

use super::flow::BUCKETS;
use super::lane::lane;
use crate::runner::Waker;
use far::Far;
use home::Home;
pub use moving::{MoveError, Moving};
use own::Own;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use weir_packet::{Caps, Device, Feed, LinkState};

/// In place of a worker: frames of the bucket are held.
const HELD: u8 = u8::MAX;
/// Workers are told apart by a byte, less what stands for none.
pub const MAX_WORKERS: usize = 64;
/// Frames that one worker may have lent another at a port.
pub const LANE_FRAMES: usize = 512;
/// Frames of moving buckets that a port holds at most.
pub(super) const HOLD_FRAMES: usize = 1024;

/// A number that one thread writes, alone in its line of memory.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Told(AtomicU64);

impl Told {
    fn add(&self, n: usize) {
        // One writer: no other addition can be lost.
        self.0.store(self.0.load(Relaxed) + n as u64, Release);
    }
    fn read(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// What one worker and home tell each other.
#[derive(Debug, Default)]
struct Between {
    /// Frames that home has dealt to it; home writes.
    dealt: Told,
    /// Frames that it has received; it writes.
    taken: Told,
    /// Frames that it has given home to send; it writes.
    given: Told,
    /// Of these, the ones that the device has taken, or that were lost before it; home writes.
    done: Told,
}

#[derive(Debug)]
struct Shared {
    name: String,
    home: usize,
    /// Whose each bucket is.
    owner: [AtomicU8; BUCKETS],
    /// Each worker has a queue of its own: buckets say nothing.
    queues: bool,
    /// Who has all of them for good, or none ([`HELD`]).
    whole: AtomicU8,
    /// Frames of each bucket so far; home writes. Of a port that is kept whole all count with the first, of
    /// one with queues with the number of the worker, who writes it then.
    seen: Box<[AtomicU64; BUCKETS]>,
    /// By worker; home's own is not used.
    between: Box<[Between]>,
    /// Of the device, as it was last.
    up: AtomicBool,
    max_frame_bytes: AtomicUsize,
    ip_bytes: AtomicUsize,
    feed: Feed,
    /// Nothing more will come from the device.
    ended: AtomicBool,
    /// Frames are left in the device.
    pauses: AtomicBool,
    /// Frames are given back where they came from, and no more are taken.
    closing: AtomicBool,
    wakers: OnceLock<Box<[Waker]>>,
}

impl Shared {
    fn new(device: &dyn Device, home: usize, workers: usize, queues: bool) -> Self {
        let caps = device.caps();
        Self {
            name: device.name().to_owned(),
            home,
            owner: std::array::from_fn(|b| AtomicU8::new((b % workers) as u8)),
            queues,
            whole: AtomicU8::new(HELD),
            seen: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
            between: (0..workers).map(|_| Between::default()).collect(),
            up: AtomicBool::new(true),
            max_frame_bytes: AtomicUsize::new(caps.max_frame_bytes),
            ip_bytes: AtomicUsize::new(caps.ip_bytes),
            feed: caps.feed,
            ended: AtomicBool::new(false),
            pauses: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            wakers: OnceLock::new(),
        }
    }
    fn caps(&self) -> Caps {
        let max_frame_bytes = self.max_frame_bytes.load(Relaxed);
        Caps { max_frame_bytes, ip_bytes: self.ip_bytes.load(Relaxed), feed: self.feed }
    }
    fn note(&self, caps: Caps, link: LinkState) {
        self.max_frame_bytes.store(caps.max_frame_bytes, Relaxed);
        self.ip_bytes.store(caps.ip_bytes, Relaxed);
        self.up.store(link == LinkState::Up, Relaxed);
    }
    fn wake(&self, worker: usize) {
        if let Some(w) = self.wakers.get().and_then(|all| all.get(worker)) {
            w.wake();
        }
    }
    /// What a worker has given and home has not done.
    fn unsent(&self, worker: usize) -> u64 {
        // In this order: what is done was given before.
        let of = |b: &Between| {
            let done = b.done.read();
            b.given.read().saturating_sub(done)
        };
        self.between.get(worker).map_or(0, of)
    }
    /// What home has dealt to a worker and it has not received.
    fn untaken(&self, worker: usize) -> u64 {
        let of = |b: &Between| {
            let taken = b.taken.read();
            b.dealt.read().saturating_sub(taken)
        };
        self.between.get(worker).map_or(0, of)
    }
    fn whole(&self) -> Option<usize> {
        let w = self.whole.load(Relaxed);
        (w != HELD).then_some(usize::from(w))
    }
    fn pauses(&self) -> bool {
        self.pauses.load(Acquire)
    }
    fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }
}

/// The control of a port with one queue that several workers have. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Spread(Arc<Shared>);

/// Deals `device` out to workers; `home` is the one that has it. Gives a device for each worker's data plane, in their
/// order, all to be added at the same place, and the port's control. Buckets are dealt in turn.
///
/// # Errors
/// Workers that can't be.
pub fn spread(
    device: Box<dyn Device>,
    home: usize,
    workers: usize,
) -> Result<(Vec<Box<dyn Device>>, Spread), MoveError> {
    if home >= workers || workers > MAX_WORKERS {
        return Err(MoveError::NoWorker { worker: home, workers: workers.min(MAX_WORKERS) });
    }
    let shared = Arc::new(Shared::new(&*device, home, workers, false));
    let mut devices: Vec<Box<dyn Device>> = Vec::with_capacity(workers);
    let mut lanes = Vec::with_capacity(workers);
    for w in (0..workers).filter(|w| *w != home) {
        let ((to, inn), (out, from)) = (lane(LANE_FRAMES), lane(LANE_FRAMES));
        lanes.push(home::Lane::new(w, to, from));
        devices.push(Box::new(Far::new(Arc::clone(&shared), w, inn, out)));
    }
    devices.insert(home, Box::new(Home::new(device, Arc::clone(&shared), lanes)));
    Ok((devices, Spread(shared)))
}

/// A port with a queue for each worker, in their order; as [`spread`].
///
/// # Errors
/// Workers that can't be.
pub fn queues(devices: Vec<Box<dyn Device>>) -> Result<(Vec<Box<dyn Device>>, Spread), MoveError> {
    let workers = devices.len();
    let Some(first) = devices.first().filter(|_| workers <= MAX_WORKERS) else {
        return Err(MoveError::NoWorker { worker: 0, workers: workers.min(MAX_WORKERS) });
    };
    let shared = Arc::new(Shared::new(&**first, 0, workers, true));
    let own = |(w, d)| Box::new(Own::new(d, Arc::clone(&shared), w)) as Box<dyn Device>;
    Ok((devices.into_iter().enumerate().map(own).collect(), Spread(shared)))
}

impl Spread {
    /// The device's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// The worker that has the device.
    pub fn home(&self) -> usize {
        self.0.home
    }
    /// Whose a bucket is; `None` while it is on its way.
    pub fn owner(&self, bucket: u8) -> Option<usize> {
        let w = self.0.owner[usize::from(bucket)].load(Relaxed);
        (w != HELD).then_some(usize::from(w))
    }
    /// Whether each worker has a queue of its own.
    pub fn has_queues(&self) -> bool {
        self.0.queues
    }
    /// The worker that gets all of its frames, and keeps them.
    pub fn whole(&self) -> Option<usize> {
        self.0.whole()
    }
    /// Gives all buckets to one worker, from which none moves until the next call; or lets them move again. To be called between
    /// two rounds of home's, while none of its frames is under way at another worker.
    pub(super) fn give_whole(&self, worker: Option<usize>) {
        let to = worker.map_or(HELD, |w| w as u8);
        if worker.is_some() {
            self.0.owner.iter().for_each(|o| o.store(to, Relaxed));
        }
        self.0.whole.store(to, Relaxed);
    }
    /// Leaves frames in the device, or takes them again; says how it was.
    pub(super) fn pause(&self, pauses: bool) -> bool {
        self.0.pauses.swap(pauses, AcqRel)
    }
    /// Whether a worker has received all that was dealt to it.
    pub(super) fn has_taken(&self, worker: usize) -> bool {
        self.0.untaken(worker) == 0
    }
    /// Whether all that a worker has given is sent.
    pub(super) fn has_sent(&self, worker: usize) -> bool {
        self.0.unsent(worker) == 0
    }
    /// Frames of each bucket so far; of a port that is kept whole all count with the first.
    pub fn seen(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|b| self.0.seen[b].load(Relaxed))
    }
    /// Frames that workers have sent by this port and that its device has not taken yet.
    pub fn unsent(&self) -> u64 {
        (0..self.workers()).map(|w| self.0.unsent(w)).sum()
    }
    /// Whether both are the same port's.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// The device as who has none of its frames sees it.
    pub(super) fn watch(&self) -> Box<dyn Device> {
        Box::new(watch::Watch(Arc::clone(&self.0)))
    }
    pub(super) fn workers(&self) -> usize {
        self.0.between.len()
    }
    pub(super) fn set_wakers(&self, wakers: &[Waker]) {
        // A port is one crew's.
        let _ = self.0.wakers.set(wakers.into());
    }
    /// From now on frames that are in a lane go back where they came from when a worker finds them, so that each region
    /// has its own again; what waited is lost, and counted by the device.
    pub fn close(&self) {
        self.0.closing.store(true, Release);
    }
}
