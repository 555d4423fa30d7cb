//! Counters, kept by the worker that counts and read between its bursts.
//!
//! Conservation (DESIGN.md §3), per VDP and in total:
//! received + generated + cloned = forwarded + consumed + dropped + held.

use weir_packet::DropCounts;

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
