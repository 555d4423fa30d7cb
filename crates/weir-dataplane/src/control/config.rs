//! Sizes that are fixed when a data plane is made.

use weir_classify::{FlowCaching, Geometry};
use weir_packet::Nanos;

/// Sizes that are fixed when a data plane is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames in the worker's region.
    pub frames: usize,
    /// Bytes of a frame's chunk.
    pub chunk_bytes: usize,
    /// Channels to the software stage; all but the last can be dedicated.
    pub channels: usize,
    /// Frames a channel's ring holds.
    pub channel_frames: usize,
    /// Frames that may wait at one port, all VDPs together.
    pub queue_frames: usize,
    /// The TCAM.
    pub tcam: Geometry,
    /// How long a migration to the fast path may take.
    pub drain_limit: Nanos,
    /// Data planes that have the same VDPs, this one among them ([`crate::crew`]); 1: it is alone.
    pub workers: usize,
    /// Whether winners of flows are remembered where lookups are dear.
    pub flow_caching: FlowCaching,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            frames: 16384,
            chunk_bytes: 2048,
            channels: 4,
            channel_frames: 1024,
            queue_frames: 4096,
            tcam: Geometry {
                mapping_entries: 65536,
                action_entries: 262_144,
                slice_entries: 16,
                block_slices: 64,
            },
            drain_limit: Nanos::from_millis(10),
            workers: 1,
            flow_caching: FlowCaching::WHERE_DEAR,
        }
    }
}

impl Config {
    /// Free frames below which programs get no more spares.
    pub(crate) fn reserve_frames(&self) -> usize {
        self.frames / 4
    }
    /// Free frames below which controllers' packets find none: they are kept for reception. Less
    /// than the above, since spares may be as many as are left, whether or not a program uses them.
    pub(crate) fn reserve_for_reception(&self) -> usize {
        self.frames / 8
    }
    /// Free frames below which none may wait at ports. Less again: a VDP leaves more than it has waiting, and the servers' spares
    /// may be all but the first of these.
    pub(crate) fn reserve_beside_queues(&self) -> usize {
        self.frames / 32
    }
}
