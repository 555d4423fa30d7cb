//! Frames on their way from the software stage to the switches' thread.
//!
//! Room: one ring for each VDP, bounded: whoever writes never waits. A frame that finds no room is
//! dropped and counted here, and harms nobody else's.

use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    frames: Consumer<Arrived>,
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
    (sink, Punts { frames: from, between })
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
}

impl Punts {
    /// The oldest frame.
    pub fn pop(&mut self) -> Option<Arrived> {
        let arrived = self.frames.pop().ok()?;
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
