//! What is asked of the data plane beside rules, in its own words.

use crate::apply::{Frame, blank, code_of};
use crate::fail::Alone;
use weir_dataplane::{
    Action, ControlError, DataPlane, Fragments, InvalidTtl, Out, PacketOut, Placement, PortFlags,
    PortIn, PortNo, QueueCounters, RuleSpec, Tally, VdpPortCounters, Vid,
};
use weir_openflow::model::{self, ErrorCode, Port, PortConfig, PortStats, QueueStats};
use weir_packet::Nanos;

/// Counters of a thing and of its parts: packets, bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parted {
    pub whole: (u64, u64),
    pub parts: Vec<(u64, u64)>,
}

impl Parted {
    fn of(whole: Tally, parts: &[Tally]) -> Self {
        let pair = |t: &Tally| (t.frames, t.bytes);
        Self { whole: pair(&whole), parts: parts.iter().map(pair).collect() }
    }
}

/// Sends frames, in order; places of those that can't be sent, and why not. `None`: for want of a
/// free frame, as on any wire that is full.
pub(crate) fn send(
    dp: &mut DataPlane,
    vid: Vid,
    frames: &[Frame],
) -> Vec<(usize, Option<ErrorCode>)> {
    fn of(f: &Frame) -> PacketOut<'_> {
        let in_port = match f.in_port {
            Port::CONTROLLER => PortIn::Controller,
            Port::ANY => PortIn::None,
            p => PortIn::Port(PortNo(p.0)),
        };
        PacketOut { in_port, frame: &f.bytes, actions: &f.actions }
    }
    let why = |e: ControlError| match e {
        ControlError::NoFrame => None,
        ControlError::Size { .. } => Some(ErrorCode::BadPacket),
        ControlError::NoVdpPort { .. } => Some(ErrorCode::BadPort),
        e => Some(code_of(e)),
    };
    let refused = dp.packet_outs(vid, frames.iter().map(of));
    refused.into_iter().map(|(i, e)| (i, why(e))).collect()
}
pub(crate) fn set_miss(dp: &mut DataPlane, vid: Vid, actions: &[Action]) {
    // The VDP is there as long as its switch.
    let _ = dp.set_default(vid, actions);
}
/// Above every flow's priority, which has 16 bits.
const ABOVE: u32 = 1 << 16;

/// Has all frames treated as by a switch without OpenFlow, whatever flows say (1.3.5 §6.3.2). Where there is no room for the rule
/// those that no flow takes are.
pub(crate) fn set_alone(dp: &mut DataPlane, vid: Vid, alone: Alone, place: Placement) {
    // No flow makes room for it: they would not come back to the TCAM by themselves.
    let place = if place == Placement::Spill { Placement::Fast } else { place };
    let actions = [Action::Output(Out::Normal)].into();
    let spec = RuleSpec { priority: ABOVE, actions, ..blank() };
    let _ = match alone {
        Alone::Yes => dp.add_rule(vid, 0, &spec, place).map(drop),
        Alone::No => dp.remove_rule(vid, 0, &spec.matcher, ABOVE).map(drop),
    };
}
/// What is asked of a port.
pub(crate) fn set_port_config(dp: &mut DataPlane, vid: Vid, port: Port, config: PortConfig) {
    let flags = [
        (PortConfig::DOWN, PortFlags::DOWN),
        (PortConfig::NO_RECV, PortFlags::NO_RECV),
        (PortConfig::NO_RECV_STP, PortFlags::NO_RECV_STP),
        (PortConfig::NO_FWD, PortFlags::NO_FWD),
        (PortConfig::NO_FLOOD, PortFlags::NO_FLOOD),
        (PortConfig::NO_PACKET_IN, PortFlags::NO_PACKET_IN),
    ];
    let set = flags.iter().filter(|(c, _)| config.has(*c));
    let flags = set.fold(PortFlags::NONE, |all, (_, f)| all | *f);
    // A port that went meanwhile is told of by itself.
    let _ = dp.set_port_config(vid, PortNo(port.0), flags);
}
/// What becomes of fragments.
pub(crate) fn set_fragments(dp: &mut DataPlane, vid: Vid, f: model::Fragments) {
    let f = match f {
        model::Fragments::Drop => Fragments::Drop,
        _ => Fragments::Normal,
    };
    // The VDP is there as long as its switch.
    let _ = dp.set_fragments(vid, f);
}
/// What came and went by each port.
pub(crate) fn port_counters(dp: &DataPlane, vid: Vid) -> Vec<PortStats> {
    let of = |(no, c): (PortNo, VdpPortCounters)| PortStats {
        port: Port(no.0),
        rx_packets: c.rx.frames,
        tx_packets: c.tx.frames,
        rx_bytes: c.rx.bytes,
        tx_bytes: c.tx.bytes,
        rx_dropped: c.rx_dropped,
        tx_dropped: c.tx_dropped,
        ..PortStats::default()
    };
    // As above.
    dp.vdp_port_counters(vid).unwrap_or_default().into_iter().map(of).collect()
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
/// What groups and their buckets got.
pub(crate) fn group_counters(dp: &DataPlane, vid: Vid, ids: &[u32]) -> Vec<Parted> {
    // A group that the switch has is there.
    let of = |id: &u32| dp.group_counters(vid, *id).unwrap_or_default();
    ids.iter().map(of).map(|c| Parted::of(c.counted, &c.buckets)).collect()
}
/// What meters and their bands got.
pub(crate) fn meter_counters(dp: &DataPlane, vid: Vid, ids: &[u32]) -> Vec<Parted> {
    // As above.
    let of = |id: &u32| dp.meter_counters(vid, *id).unwrap_or_default();
    ids.iter().map(of).map(|c| Parted::of(c.counted, &c.bands)).collect()
}
/// What becomes of frames whose TTL can't be decremented.
pub(crate) fn set_invalid_ttl(dp: &mut DataPlane, vid: Vid, to: InvalidTtl) {
    // The VDP is there as long as its switch.
    let _ = dp.set_invalid_ttl(vid, to);
}
/// When a rule was last used, on the switch's clock, which says `now`; zero: never.
pub(crate) fn in_our_time(dp: &DataPlane, then: Nanos, now: Nanos) -> Nanos {
    if then == Nanos(0) { then } else { now - dp.now().since(then) }
}
