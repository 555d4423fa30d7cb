//! Counters, kept by the worker that counts and read between its bursts.
//!
//! Conservation (ARCHITECTURE.md), per VDP and in total:
//! received + generated + cloned = forwarded + consumed + dropped + held.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use weir_packet::{DropCounts, Nanos};

/// Frames and bytes (without FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames.
    pub frames: u64,
    /// Bytes, Ethernet header included, FCS not.
    pub bytes: u64,
}

impl Tally {
    /// Counts one frame.
    #[inline(always)]
    pub fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
    /// Adds another tally.
    pub fn merge(&mut self, o: Tally) {
        self.frames += o.frames;
        self.bytes += o.bytes;
    }
    /// Without another tally that is part of it.
    pub(crate) fn less(self, part: Tally) -> Tally {
        Tally {
            frames: self.frames.saturating_sub(part.frames),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }
}

/// What happened to a VDP's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VdpCounters {
    /// Mapped to the VDP.
    pub received: Tally,
    /// Left by a port.
    pub forwarded: Tally,
    /// Made by its slow-path program.
    pub generated: u64,
    /// Copies made for it (several outputs, groups, mirror, flooding).
    pub cloned: u64,
    /// Ended at its slow-path program, or its controller or stack.
    pub consumed: u64,
    /// Went through the software stage.
    pub slow: u64,
    /// Dropped, by reason.
    pub dropped: DropCounts,
}

impl VdpCounters {
    /// Frames that came into being for this VDP.
    pub fn came(&self) -> u64 {
        self.received.frames + self.generated + self.cloned
    }
    /// Frames that came to an end.
    pub fn ended(&self) -> u64 {
        self.forwarded.frames + self.consumed + self.dropped.total()
    }
    /// Adds another VDP's.
    pub fn merge(&mut self, o: &VdpCounters) {
        self.received.merge(o.received);
        self.forwarded.merge(o.forwarded);
        self.generated += o.generated;
        self.cloned += o.cloned;
        self.consumed += o.consumed;
        self.slow += o.slow;
        self.dropped.merge(&o.dropped);
    }
}

/// What happened at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Received from the device.
    pub rx: Tally,
    /// Taken by the device.
    pub tx: Tally,
    /// Dropped at this port's output, by reason.
    pub tx_dropped: DropCounts,
}

/// A tally that one path writes and the other may read at any time. One thread writes; what the slow path
/// counted for a frame is seen by whoever has that frame back, since a ring lies between.
#[derive(Debug, Default)]
pub struct SharedTally {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl SharedTally {
    /// Counts one frame.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.merge(Tally { frames: 1, bytes: bytes as u64 });
    }
    /// Counts what was counted elsewhere.
    #[inline]
    pub fn merge(&self, more: Tally) {
        // No other thread writes: nothing comes between.
        self.frames.store(self.frames.load(Relaxed).wrapping_add(more.frames), Relaxed);
        self.bytes.store(self.bytes.load(Relaxed).wrapping_add(more.bytes), Relaxed);
    }
    /// What was counted so far.
    pub fn read(&self) -> Tally {
        Tally { frames: self.frames.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// Hits of a rule on the slow path.
#[derive(Debug, Default)]
pub struct SharedUsage {
    hits: SharedTally,
    last_used: AtomicU64,
}

impl SharedUsage {
    /// Counts one frame at `now`.
    pub fn hit(&self, bytes: usize, now: Nanos) {
        self.hits.add(bytes);
        self.last_used.store(now.0, Relaxed);
    }
    /// What was counted so far.
    pub fn read(&self) -> Usage {
        let Tally { frames, bytes } = self.hits.read();
        Usage { frames, bytes, last_used: Nanos(self.last_used.load(Relaxed)) }
    }
}

/// Lookups in one table on the slow path.
#[derive(Debug, Default)]
pub struct SharedLookups {
    /// That found a rule.
    pub matched: AtomicU64,
    /// That found none.
    pub missed: AtomicU64,
}

/// Lookups of the slow path in all tables of a VDP. Most VDPs have one table: room for the counts of
/// others is made when the first frame comes there.
#[derive(Debug, Default)]
pub struct SlowLookups {
    first: SharedLookups,
    later: OnceLock<Box<[SharedLookups]>>,
}

impl SlowLookups {
    /// Where lookups in table `n` are counted.
    pub fn of(&self, n: u8) -> &SharedLookups {
        let Some(n) = usize::from(n).checked_sub(1) else { return &self.first };
        let room = || (1..=u8::MAX).map(|_| SharedLookups::default()).collect();
        self.later.get_or_init(room).get(n).unwrap_or(&self.first)
    }
    /// What was counted for table `n` so far: found, not found.
    pub fn read(&self, n: u8) -> (u64, u64) {
        let read = |l: &SharedLookups| (l.matched.load(Relaxed), l.missed.load(Relaxed));
        match usize::from(n).checked_sub(1) {
            None => read(&self.first),
            Some(n) => self.later.get().and_then(|l| l.get(n)).map_or((0, 0), read),
        }
    }
}

/// Who counts: the worker, plainly, or the slow path, where the worker can read it at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The worker that owns the data plane.
    #[default]
    Fast,
    /// A server of the software stage.
    Slow,
}

/// How much a rule was used, on both paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Frames that hit.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The worker's time at the last hit; zero before the first.
    pub last_used: Nanos,
}

impl Usage {
    /// Frames and bytes.
    pub fn tally(&self) -> Tally {
        Tally { frames: self.frames, bytes: self.bytes }
    }
}

/// What happened in one table of a VDP, on both paths, rules that are gone included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Which table.
    pub table: u8,
    /// Rules in it.
    pub active: u64,
    /// Frames that were looked up in it.
    pub lookups: u64,
    /// Frames that a rule of it took.
    pub matched: u64,
}
