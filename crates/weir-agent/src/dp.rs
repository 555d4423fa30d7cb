//! What is asked of the data plane beside rules, in its own words.

use crate::apply::Frame;
use weir_dataplane::{Action, DataPlane, QueueCounters, Vid};
use weir_openflow::model::{Fragments, Port, PortConfig, PortStats, QueueStats};
use weir_packet::Nanos;

/// Counters of a thing and of its parts: packets, bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parted {
    pub whole: (u64, u64),
    pub parts: Vec<(u64, u64)>,
}

pub(crate) fn send(_: &mut DataPlane, _: Vid, _: &Frame) {}
pub(crate) fn set_miss(dp: &mut DataPlane, vid: Vid, actions: &[Action]) {
    // The VDP is there as long as its switch.
    let _ = dp.set_default(vid, actions);
}
pub(crate) fn set_port_config(_: &mut DataPlane, _: Vid, _: Port, _: PortConfig) {}
pub(crate) fn set_fragments(_: &mut DataPlane, _: Vid, _: Fragments) {}
pub(crate) fn port_counters(_: &DataPlane, _: Vid) -> Vec<PortStats> {
    Vec::new()
}
/// What left by each queue.
pub(crate) fn queue_counters(dp: &DataPlane, vid: Vid) -> Vec<QueueStats> {
    let of = |c: QueueCounters| QueueStats {
        port: Port(c.port.0),
        queue: c.queue,
        tx_bytes: c.sent.bytes,
        tx_packets: c.sent.frames,
        tx_errors: c.dropped,
        ..QueueStats::default()
    };
    // The VDP is there as long as its switch.
    dp.queue_counters(vid).unwrap_or_default().into_iter().map(of).collect()
}
pub(crate) fn group_counters(_: &DataPlane, _: Vid, ids: &[u32]) -> Vec<Parted> {
    vec![Parted::default(); ids.len()]
}
pub(crate) fn meter_counters(_: &DataPlane, _: Vid, ids: &[u32]) -> Vec<Parted> {
    vec![Parted::default(); ids.len()]
}
pub(crate) fn in_our_time(_: &DataPlane, last: Nanos, _: Nanos) -> Nanos {
    last
}
