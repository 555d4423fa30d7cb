//! The counters of one data plane as text for Prometheus: `weir stats --prometheus`.
//!
//! Room: counters in, text out; pure. The form is the older one (0.0.4), which the node exporter's textfile collector reads.
//! A label is a port's name, a VDP's number and name, or a reason of drops, and nothing that a frame brings.

use super::stats::Stats;
use crate::serve::form::{Form, escaped};
use crate::socket::items::{DeletedItem, PortItem, VdpItem};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// What is told of each port or VDP: name, kind, help, value; none where it has no such thing.
type Family<T> = (&'static str, &'static str, &'static str, fn(&T) -> Option<f64>);

/// Whether it is a port, and not the sum of those that were removed.
fn is_there(p: &PortItem) -> bool {
    p.number != 0
}

const PORTS: [Family<PortItem>; 9] = [
    ("weir_port_up", "gauge", "Whether the port can send", |p| {
        is_there(p).then_some(f64::from(u8::from(p.up)))
    }),
    ("weir_port_received_frames", "counter", "Frames received", |p| Some(p.rx.frames as f64)),
    ("weir_port_received_bytes", "counter", "Their bytes, without FCS", |p| {
        Some(p.rx.bytes as f64)
    }),
    ("weir_port_sent_frames", "counter", "Frames that the device took", |p| {
        Some(p.tx.frames as f64)
    }),
    ("weir_port_sent_bytes", "counter", "Their bytes, without FCS", |p| Some(p.tx.bytes as f64)),
    (
        "weir_port_receive_missed_frames",
        "counter",
        "Frames lost by the device before reception",
        |p| Some(p.rx_missed as f64),
    ),
    ("weir_port_receive_errors", "counter", "Frames that the device did not hand over", |p| {
        Some(p.rx_errors as f64)
    }),
    ("weir_port_send_errors", "counter", "Frames that the device took and could not send", |p| {
        Some(p.tx_errors as f64)
    }),
    ("weir_port_waiting_frames", "gauge", "Frames that wait to leave", |p| {
        is_there(p).then_some(p.backlog as f64)
    }),
];

const VDPS: [Family<VdpItem>; 16] = [
    ("weir_vdp_received_frames", "counter", "Frames mapped to the VDP", |v| {
        Some(v.received.frames as f64)
    }),
    ("weir_vdp_received_bytes", "counter", "Their bytes, without FCS", |v| {
        Some(v.received.bytes as f64)
    }),
    ("weir_vdp_forwarded_frames", "counter", "Frames that left by a port", |v| {
        Some(v.forwarded.frames as f64)
    }),
    ("weir_vdp_forwarded_bytes", "counter", "Their bytes, without FCS", |v| {
        Some(v.forwarded.bytes as f64)
    }),
    ("weir_vdp_generated_frames", "counter", "Frames made by its program or controllers", |v| {
        Some(v.generated as f64)
    }),
    ("weir_vdp_cloned_frames", "counter", "Copies", |v| Some(v.cloned as f64)),
    ("weir_vdp_consumed_frames", "counter", "Frames that ended at its program", |v| {
        Some(v.consumed as f64)
    }),
    ("weir_vdp_slow_frames", "counter", "Frames that went through the software stage", |v| {
        Some(v.slow as f64)
    }),
    ("weir_vdp_held_frames", "gauge", "Frames inside", |v| Some(v.held as f64)),
    (
        "weir_vdp_work_units",
        "counter",
        "What the workers have done for it, a forwarded frame being about one",
        |v| Some(v.takes.work as f64),
    ),
    (
        "weir_vdp_router_cpu_seconds",
        "counter",
        "Processor time of its virtual router's programs",
        |v| Some(seconds(v.takes.router_cpu_ns)),
    ),
    (
        "weir_vdp_memory_bytes",
        "gauge",
        "Memory of its tables and of its virtual router's programs",
        |v| Some(v.takes.memory_bytes as f64),
    ),
    ("weir_vdp_rules", "gauge", "Rules in its tables", |v| Some(v.takes.rules as f64)),
    ("weir_vdp_tcam_entries", "gauge", "Entries of the TCAM that it has", |v| {
        Some(v.takes.tcam_entries as f64)
    }),
    ("weir_vdp_control_messages_in", "counter", "OpenFlow messages from its controllers", |v| {
        Some(v.takes.messages_in as f64)
    }),
    ("weir_vdp_control_messages_out", "counter", "OpenFlow messages to its controllers", |v| {
        Some(v.takes.messages_out as f64)
    }),
];

/// Text that grows by families.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// One family with its samples: labels (`name="value"`, or nothing) and value.
    fn family<V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        // One without samples says nothing.
        if samples.peek().is_none() {
            return;
        }
        let total = Form::Text.head(&mut self.0, name, kind, help);
        for (labels, value) in samples {
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            // A text takes what is written to it.
            let _ = writeln!(self.0, "{name}{total}{labels} {value}");
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
fn of_port(p: &PortItem) -> String {
    format!("port=\"{}\"", escaped(&p.name))
}
fn of_vdp(v: &VdpItem) -> String {
    format!("vdp=\"{}\",name=\"{}\"", v.vid, escaped(&v.name))
}
/// Labels of those that were deleted.
const DELETED: &str = "vdp=\"-\",name=\"(deleted)\"";

/// What VDPs that are no more had counted, as one.
fn deleted(d: &DeletedItem) -> [(&'static str, u64); 8] {
    [
        ("weir_vdp_received_frames", d.received.frames),
        ("weir_vdp_received_bytes", d.received.bytes),
        ("weir_vdp_forwarded_frames", d.forwarded.frames),
        ("weir_vdp_forwarded_bytes", d.forwarded.bytes),
        ("weir_vdp_generated_frames", d.generated),
        ("weir_vdp_cloned_frames", d.cloned),
        ("weir_vdp_consumed_frames", d.consumed),
        ("weir_vdp_slow_frames", d.slow),
    ]
}

/// A sample for each reason.
fn reasons(labels: &str, dropped: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let with = |why: &String| match labels {
        "" => format!("reason=\"{}\"", escaped(why)),
        of => format!("{of},reason=\"{}\"", escaped(why)),
    };
    dropped.iter().map(|(why, n)| (with(why), *n)).collect()
}

/// All counters of one moment.
pub fn text(s: &Stats) -> String {
    let mut out = Exposition::default();
    let gone = s.plane.deleted.as_deref();
    for (name, kind, help, value) in PORTS {
        let samples = s.ports.iter().filter_map(|p| Some((of_port(p), value(p)?)));
        out.family((name, kind, help), samples);
    }
    let at_output = s.ports.iter().flat_map(|p| reasons(&of_port(p), &p.tx_dropped));
    out.family(
        ("weir_port_dropped_frames", "counter", "Frames dropped at the port's output"),
        at_output,
    );
    for (name, kind, help, value) in VDPS {
        let samples = s.vdps.iter().filter_map(|v| Some((of_vdp(v), value(v)?)));
        let last = gone.into_iter().flat_map(deleted).filter(|(of, _)| *of == name);
        let last = last.map(|(_, n)| (DELETED.to_owned(), n as f64));
        out.family((name, kind, help), samples.chain(last));
    }
    let dropped = s.vdps.iter().flat_map(|v| reasons(&of_vdp(v), &v.dropped));
    let last = gone.into_iter().flat_map(|d| reasons(DELETED, &d.dropped));
    out.family(
        ("weir_vdp_dropped_frames", "counter", "Frames dropped, whatever for"),
        dropped.chain(last),
    );
    out.family(
        ("weir_unmapped_dropped_frames", "counter", "Frames without a VDP that were dropped"),
        reasons("", &s.plane.unmapped_dropped),
    );
    let f = s.plane.frames;
    let frames = [("free", f.free), ("lent", f.lent), ("held", f.held), ("spare", f.spares)];
    let frames = frames.map(|(state, n)| (format!("state=\"{state}\""), n));
    out.family(("weir_region_frames", "gauge", "Frames of the workers' memory"), frames);
    let part = |p: &String| format!("part=\"{}\"", escaped(p));
    let entries = s.plane.tcam.iter().map(|t| (part(&t.part), t.entries));
    out.family(("weir_tcam_entries", "gauge", "Entries of the TCAM"), entries);
    let free = s.plane.tcam.iter().map(|t| (part(&t.part), t.free_entries));
    out.family(("weir_tcam_free_entries", "gauge", "Entries in slices that nobody has"), free);
    let mut one = |name, kind, help, value: f64| {
        out.family((name, kind, help), [(String::new(), value)]);
    };
    one("weir_workers", "gauge", "Threads that forward", s.plane.workers as f64);
    one("weir_cpu_seconds", "counter", "Processor time of the process", seconds(s.plane.cpu_ns));
    one(
        "weir_log_lines_left_out",
        "counter",
        "Lines of the log that nobody read",
        s.plane.log_left_out as f64,
    );
    let adds_up = f64::from(u8::from(s.plane.imbalance.is_none()));
    one("weir_frames_add_up", "gauge", "Whether every frame is accounted for", adds_up);
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::items::Count;

    fn some() -> Stats {
        let port = |name: &str, number: u16| -> PortItem {
            serde_json::from_value(serde_json::json!({
                "name": name, "number": number, "device": "null", "up": true,
                "rx": {"frames": 7, "bytes": 420}, "tx": {"frames": 0, "bytes": 0},
                "tx_dropped": {"queue_full": 3}, "rx_missed": 0, "rx_errors": 0, "tx_errors": 0,
                "csum_completed": 0, "segmented": 0, "vlan_restored": 0, "backlog": 2,
                "fault": null, "exhausted": false
            }))
            .unwrap()
        };
        let vdp: VdpItem = serde_json::from_value(serde_json::json!({
            "vid": 4095, "name": "a\"b\\", "phase": "fast", "received": {"frames": 9, "bytes": 540},
            "forwarded": {"frames": 0, "bytes": 0}, "generated": 0, "cloned": 0, "consumed": 0,
            "slow": 0, "dropped": {"rule": 8, "no_rule": 1}, "held": 0
        }))
        .unwrap();
        let mut s = Stats { ports: vec![port("p", 1), port("(removed)", 0)], ..Stats::default() };
        s.vdps.push(vdp);
        s.plane.deleted = Some(Box::new(DeletedItem {
            received: Count { frames: 5, bytes: 300 },
            dropped: BTreeMap::from([("rule".to_owned(), 5)]),
            ..DeletedItem::default()
        }));
        s
    }

    #[test]
    fn what_stats_says_is_told_line_by_line() {
        let out = text(&some());
        for line in [
            "weir_port_up{port=\"p\"} 1",
            "weir_port_received_bytes_total{port=\"p\"} 420",
            "weir_port_received_bytes_total{port=\"(removed)\"} 420",
            "weir_port_dropped_frames_total{port=\"p\",reason=\"queue_full\"} 3",
            "weir_vdp_received_frames_total{vdp=\"4095\",name=\"a\\\"b\\\\\"} 9",
            "weir_vdp_received_frames_total{vdp=\"-\",name=\"(deleted)\"} 5",
            "weir_vdp_dropped_frames_total{vdp=\"-\",name=\"(deleted)\",reason=\"rule\"} 5",
            "weir_frames_add_up 1",
        ] {
            assert!(out.lines().any(|l| l == line), "{line} is not in\n{out}");
        }
        // A sum of ports that are no more is no port that is up or down.
        assert!(!out.contains("weir_port_up{port=\"(removed)\"}"));
    }

    /// By the form's rules: one `# TYPE` for each family, in front of all of its samples, and no sample twice.
    #[test]
    fn families_are_whole_and_samples_are_there_once() {
        let out = text(&some());
        let (mut families, mut samples, mut now) = (Vec::new(), Vec::new(), "");
        for l in out.lines() {
            if let Some(of) = l.strip_prefix("# TYPE ") {
                now = of.split(' ').next().unwrap();
                assert!(!families.contains(&now), "{l}");
                families.push(now);
            } else if !l.starts_with('#') {
                let (sample, value) = l.rsplit_once(' ').unwrap();
                assert_eq!(sample.split('{').next(), Some(now));
                assert!(value.parse::<f64>().is_ok() && !samples.contains(&sample), "{l}");
                samples.push(sample);
            }
        }
        assert!(families.len() > 25, "{families:?}");
    }
}
