//! Frames on their way from the software stage to the switches' thread.
//!
//! Room: one ring for each VDP and worker, bounded: whoever writes never waits. A frame that finds no room is
//! dropped and counted here, and harms nobody else's.

use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use weir_agent::Arrived;
use weir_dataplane::{PuntSink, Punted};
use weir_packet::SHORTEST_FRAME;

/// Frames of one VDP that may wait.
const FRAMES: usize = 1024;
/// Bytes of them.
const BYTES: usize = 256 * 1024;

/// What both ends look at.
#[derive(Debug, Default)]
struct Between {
    wake: Notify,
    /// Bytes that wait.
    bytes: AtomicUsize,
    dropped: AtomicU64,
    /// Rings of other workers that the reader has not seen yet.
    more: Mutex<Vec<Consumer<Arrived>>>,
    any_more: AtomicBool,
}

/// The software stage's end.
#[derive(Debug)]
pub struct Sink {
    frames: Producer<Arrived>,
    between: Arc<Between>,
}

/// The switches' end.
#[derive(Debug)]
pub struct Punts {
    /// One for each worker.
    frames: Vec<Consumer<Arrived>>,
    /// Whose turn it is.
    next: usize,
    between: Arc<Between>,
}

/// Counts what was lost; outlives both.
#[derive(Clone, Debug)]
pub struct Lost(Arc<Between>);

/// A ring.
pub fn ring() -> (Sink, Punts) {
    let (to, from) = RingBuffer::new(FRAMES);
    let between = Arc::new(Between::default());
    let sink = Sink { frames: to, between: Arc::clone(&between) };
    (sink, Punts { frames: vec![from], next: 0, between })
}

impl PuntSink for Sink {
    fn punt(&mut self, p: Punted<'_>) {
        let b = &*self.between;
        if self.frames.is_full() || b.bytes.load(Ordering::Relaxed) + p.frame.len() > BYTES {
            b.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut arrived = Arrived::from(p);
        // As a wire would carry it: what a popped label leaves may be less.
        arrived.frame.resize(arrived.frame.len().max(SHORTEST_FRAME), 0);
        b.bytes.fetch_add(arrived.frame.len(), Ordering::Relaxed);
        if self.frames.push(arrived).is_ok() {
            // One atomic operation while the other end is awake; a system call only when it sleeps.
            b.wake.notify_one();
        }
    }
    fn another(&self) -> Option<Box<dyn PuntSink>> {
        let (frames, from) = RingBuffer::new(FRAMES);
        let between = Arc::clone(&self.between);
        between.more.lock().unwrap_or_else(PoisonError::into_inner).push(from);
        between.any_more.store(true, Ordering::Release);
        Some(Box::new(Self { frames, between }))
    }
}

impl Punts {
    /// The oldest frame of one worker, of each in turn.
    pub fn pop(&mut self) -> Option<Arrived> {
        // Read for each frame, and hardly ever set.
        let more = &self.between.any_more;
        if more.load(Ordering::Relaxed) && more.swap(false, Ordering::Acquire) {
            let mut more = self.between.more.lock().unwrap_or_else(PoisonError::into_inner);
            self.frames.append(&mut more);
        }
        let n = self.frames.len();
        let arrived = (0..n).find_map(|i| self.frames.get_mut((self.next + i) % n)?.pop().ok())?;
        self.next = (self.next + 1) % n;
        self.between.bytes.fetch_sub(arrived.frame.len(), Ordering::Relaxed);
        Some(arrived)
    }
    /// Waits until there may be one.
    pub async fn wait(&self) {
        self.between.wake.notified().await;
    }
    /// What counts losses.
    pub fn lost(&self) -> Lost {
        Lost(Arc::clone(&self.between))
    }
}

impl Lost {
    /// Whether frames wait.
    pub fn any_wait(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) > 0
    }
    /// Frames that found no room.
    pub fn frames(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}
