//! Events as scripts see them: maps of numbers and words; what is not known is `()`.
//!
//! Pure. Moments are nanoseconds of the Unix epoch, whole numbers; a script that takes their difference
//! loses none.

use crate::module::{Captured, LoadDone, Sample};
use crate::probe::identify_any;
use rhai::{Array, Dynamic, Map};
use weir_openflow::model::{FlowStats, Message, Msg, Part, StatsReply};
use weir_packet::Nanos;

/// Flows of one message that a script is told.
const FLOWS: usize = 10_000;

pub(super) fn moment(at: Nanos) -> Dynamic {
    whole(at.0)
}

fn whole(n: u64) -> Dynamic {
    Dynamic::from_int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn put(map: &mut Map, key: &str, value: impl Into<Dynamic>) {
    map.insert(key.into(), value.into());
}

/// A probe's load, flow and number.
fn probe(map: &mut Map, load: u8, flow: u16, number: u32) {
    put(map, "load", i64::from(load));
    put(map, "flow", i64::from(flow));
    put(map, "number", i64::from(number));
}

pub(super) fn frame(f: &Captured) -> Map {
    let mut m = Map::new();
    put(&mut m, "channel", f.channel as i64);
    put(&mut m, "at", moment(f.at));
    put(&mut m, "len", i64::from(f.len));
    if let Some(id) = f.probe {
        probe(&mut m, id.load.0, id.flow, id.number);
    }
    if let Some(left) = f.left {
        put(&mut m, "left", moment(left));
    }
    m
}

pub(super) fn load_done(d: &LoadDone) -> Map {
    let mut m = Map::new();
    put(&mut m, "load", i64::from(d.load.0));
    put(&mut m, "channel", d.channel as i64);
    put(&mut m, "asked_fps", d.asked_fps);
    put(&mut m, "sent_fps", d.sent_fps());
    put(&mut m, "sent", whole(d.sent));
    put(&mut m, "forgone", whole(d.forgone));
    put(&mut m, "from", moment(d.from));
    put(&mut m, "to", moment(d.to));
    m
}

pub(super) fn sample(s: &Sample) -> Map {
    let mut m = Map::new();
    put(&mut m, "at", moment(s.at));
    put(&mut m, "what", s.what.clone());
    put(&mut m, "value", s.value);
    put(&mut m, "unit", s.unit.clone());
    m
}

/// A message: `kind`, `xid`, when it was read (`at`), and what its kind has.
pub(super) fn message(at: Nanos, msg: &Msg) -> Map {
    let mut m = Map::new();
    put(&mut m, "at", moment(at));
    put(&mut m, "xid", i64::from(msg.xid));
    let kind = match &msg.body {
        Message::EchoReply(data) => {
            put(&mut m, "len", data.len() as i64);
            put(
                &mut m,
                "same",
                data.iter().enumerate().all(|(n, b)| *b == super::desk::echo_byte(n)),
            );
            "echo_reply"
        }
        Message::BarrierReply => "barrier_reply",
        Message::Error(e) => {
            put(&mut m, "code", format!("{:?}", e.code));
            "error"
        }
        Message::PacketIn(p) => {
            put(&mut m, "len", i64::from(p.total_len));
            if let Some((run, id)) = identify_any(&p.data) {
                probe(&mut m, run.0, id.stream, id.number);
            }
            "packet_in"
        }
        Message::FlowRemoved(f) => {
            put(&mut m, "reason", format!("{:?}", f.reason));
            put(&mut m, "cookie", whole(f.cookie));
            put(&mut m, "priority", i64::from(f.priority));
            put(&mut m, "packets", whole(f.packets));
            put(&mut m, "bytes", whole(f.bytes));
            put(&mut m, "duration_s", seconds(f.duration_sec, f.duration_nsec));
            "flow_removed"
        }
        Message::PortStatus(_) => "port_status",
        Message::StatsReply { more, body } => {
            put(&mut m, "more", *more == Part::More);
            match body {
                StatsReply::Flow(flows) => {
                    let all: Array = flows.iter().take(FLOWS).map(|f| flow(f).into()).collect();
                    put(&mut m, "flows", all);
                    "flow_stats"
                }
                StatsReply::Aggregate(a) => {
                    put(&mut m, "packets", whole(a.packets));
                    put(&mut m, "bytes", whole(a.bytes));
                    put(&mut m, "flows", i64::from(a.flows));
                    "aggregate_stats"
                }
                _ => "other_stats",
            }
        }
        _ => "other",
    };
    put(&mut m, "kind", kind);
    m
}

fn seconds(s: u32, ns: u32) -> f64 {
    f64::from(s) + f64::from(ns) / 1e9
}

fn flow(f: &FlowStats) -> Map {
    let mut m = Map::new();
    put(&mut m, "priority", i64::from(f.priority));
    put(&mut m, "cookie", whole(f.cookie));
    put(&mut m, "packets", whole(f.packets));
    put(&mut m, "bytes", whole(f.bytes));
    put(&mut m, "duration_s", seconds(f.duration_sec, f.duration_nsec));
    m
}
