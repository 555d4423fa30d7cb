//! Sizes that are fixed when a data plane is made.

use weir_classify::{FlowCaching, Geometry};
use weir_packet::{Nanos, Pool};

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

/// Free frames that are kept for what matters more, by what a pool has that is not lent to devices.
impl Config {
    /// Below which none may wait at ports.
    pub(crate) fn kept_from_queues(pool: &Pool) -> usize {
        Self::own(pool) / 4
    }
    /// Below which programs get no more spares.
    pub(crate) fn kept_from_spares(pool: &Pool) -> usize {
        Self::own(pool) / 8
    }
    /// Below which controllers' packets find none: the rest is for reception.
    pub(crate) fn kept_from_packet_outs(pool: &Pool) -> usize {
        Self::own(pool) / 16
    }
    /// Spares that each channel's server may have: all of them leave queues as much again.
    pub(crate) fn spares_each(&self, pool: &Pool) -> usize {
        pool.count() / 4 / self.channels.max(1)
    }
    fn own(pool: &Pool) -> usize {
        pool.count().saturating_sub(pool.lent())
    }
}
