//! `/metrics`: what networks and the daemon itself count, as text for Prometheus.
//!
//! Room: counters in, text out, in the [`Form`] that is asked for. A host that has not answered, and its nodes, are told as
//! down and have no other line: a counter that falls to zero is one that began anew to whoever computes rates. Labels are names of networks, nodes and hosts, which are as many as the
//! lab has, and at most [`MOST`] nodes; nothing that a frame or a request brings becomes a label.

use super::App;
use super::caller::Caller;
use super::form::{Form, escaped};
use super::monitor::{Counters, FRESH, NodeCounters, counters};
use super::problem::Problem;
use crate::commands::net::ends::EndsLook;
use crate::commands::net::links::LinkLook;
use crate::commands::stats::Stats;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Nodes that have lines of their own.
const MOST: usize = 10_000;

/// What is told of each node whose host has answered: name, kind, unit's words, value.
type Family = (&'static str, &'static str, &'static str, fn(&NodeCounters) -> f64);

const FAMILIES: [Family; 14] = [
    ("weir_node_received_frames", "counter", "Frames that came to the virtual node", |c| {
        c.received_frames as f64
    }),
    ("weir_node_received_bytes", "counter", "Their bytes, without FCS", |c| {
        c.received_bytes as f64
    }),
    ("weir_node_forwarded_frames", "counter", "Frames that left by a port", |c| {
        c.forwarded_frames as f64
    }),
    ("weir_node_forwarded_bytes", "counter", "Their bytes, without FCS", |c| {
        c.forwarded_bytes as f64
    }),
    ("weir_node_dropped_frames", "counter", "Frames dropped, for whatever reason", |c| {
        c.dropped_frames as f64
    }),
    ("weir_node_slow_frames", "counter", "Frames that went through the software stage", |c| {
        c.slow_frames as f64
    }),
    ("weir_node_held_frames", "gauge", "Frames inside", |c| c.held_frames as f64),
    (
        "weir_node_work_units",
        "counter",
        "What its host's worker has done for it, of weir_host_work_units",
        |c| c.work as f64,
    ),
    (
        "weir_node_router_cpu_seconds",
        "counter",
        "Processor time of its virtual router's programs",
        |c| seconds(c.router_cpu_ns),
    ),
    (
        "weir_node_memory_bytes",
        "gauge",
        "Memory of its tables and of its virtual router's programs",
        |c| c.memory_bytes as f64,
    ),
    ("weir_node_rules", "gauge", "Rules in its tables", |c| c.rules as f64),
    ("weir_node_tcam_entries", "gauge", "Entries of the TCAM that it has", |c| {
        c.tcam_entries as f64
    }),
    ("weir_node_control_messages_in", "counter", "OpenFlow messages from its controllers", |c| {
        c.messages_in as f64
    }),
    ("weir_node_control_messages_out", "counter", "OpenFlow messages to its controllers", |c| {
        c.messages_out as f64
    }),
];

/// What is told of each way of a link at one of its ends.
type LinkFamily = (&'static str, &'static str, &'static str, fn(&LinkLook) -> Option<f64>);

const LINKS: [LinkFamily; 7] = [
    ("weir_link_up", "gauge", "Whether the way is up in both directions", |l| {
        Some(f64::from(u8::from(l.up)))
    }),
    ("weir_link_taken", "gauge", "Whether frames take the way", |l| {
        Some(f64::from(u8::from(l.taken)))
    }),
    ("weir_link_delay_seconds", "gauge", "Delay there and back, smoothed", |l| {
        l.delay.map(|d| seconds(d.smoothed_ns))
    }),
    ("weir_link_jitter_seconds", "gauge", "How delays to this end vary (RFC 3550)", |l| {
        Some(seconds(l.jitter_ns))
    }),
    ("weir_link_probes_heard", "counter", "Probes that came", |l| Some(l.probes_heard as f64)),
    ("weir_link_probes_lost", "counter", "Probes that did not", |l| Some(l.probes_lost as f64)),
    ("weir_link_received_bytes", "counter", "Bytes that came by the link, without FCS", |l| {
        Some(l.received_bytes as f64)
    }),
];

/// What is told of each pair of a network's ends.
type EndsFamily = (&'static str, &'static str, fn(&EndsLook) -> Option<f64>);

const ENDS: [EndsFamily; 3] = [
    ("weir_ends_delay_seconds", "Delay there and back, summed over the links between", |e| {
        e.delay_ns.map(seconds)
    }),
    ("weir_ends_jitter_seconds", "At most so much do delays vary between the ends", |e| {
        e.jitter_ns.map(seconds)
    }),
    (
        "weir_ends_lost_ratio",
        "The part of probes that was lost on the way, since it was made",
        |e| e.lost,
    ),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Links' and ends' families.
fn quality(all: &[Counters], form: Form) -> String {
    let mut out = String::new();
    for (name, kind, help, value) in LINKS {
        let total = form.head(&mut out, name, kind, help);
        let links = all.iter().flat_map(|c| c.links.iter().map(move |l| (c, l)));
        for (c, l) in links.take(MOST) {
            let Some(v) = value(l) else { continue };
            let words = [&c.network, &l.node, &l.peer, &l.way].map(|w| escaped(w));
            let [network, node, peer, way] = words;
            let labels = format!(
                "network=\"{network}\",node=\"{node}\",peer=\"{peer}\",port=\"{}\",way=\"{way}\"",
                escaped(&l.port)
            );
            let _ = writeln!(out, "{name}{total}{{{labels}}} {v}");
        }
    }
    for (name, help, value) in ENDS {
        form.head(&mut out, name, "gauge", help);
        let ends = all.iter().flat_map(|c| c.ends.iter().map(move |e| (c, e)));
        for (c, e) in ends.take(MOST) {
            let Some(v) = value(e) else { continue };
            let [network, from, to] = [&c.network, &e.from, &e.to].map(|w| escaped(w));
            let labels = format!("network=\"{network}\",from=\"{from}\",to=\"{to}\"");
            let _ = writeln!(out, "{name}{{{labels}}} {v}");
        }
    }
    out
}

/// Prometheus' text: OpenMetrics 1.0, or the older one (0.0.4) where `Accept` prefers that. A reader's or an operator's.
#[utoipa::path(
    get, path = "/metrics", tag = "events",
    responses((status = 200, description = "Text for Prometheus", content(
        (String = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (String = "text/plain; version=0.0.4; charset=utf-8")
    )))
)]
pub async fn metrics(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = Form::asked(&headers);
    caller.must_see_all("all metrics")?;
    let saved = app.desk(|d| Ok(d.look()?)).await?;
    let wanted = saved.state.lab.host.iter().map(|h| h.name.clone()).collect();
    let seen = app.observer.look(&saved.state.lab, &wanted, FRESH).await;
    let (revision, hosts, all) = app
        .desk(move |_| {
            let host = |(h, s): (&String, &Option<Arc<Stats>>)| {
                let took = s.as_ref().map(|s| (seconds(s.plane.cpu_ns), s.work()));
                (h.clone(), took)
            };
            let hosts: Vec<_> = seen.iter().map(host).collect();
            Ok((saved.state.revision, hosts, counters(&saved.state, &seen, |_| true)))
        })
        .await?;
    let mut out = text(&all, form) + &quality(&all, form);
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        let total = form.head(&mut out, name, kind, help);
        // A text takes what is written to it.
        let _ = writeln!(out, "{name}{total} {value}");
    };
    one("weir_revision", "gauge", "The revision that holds", revision);
    one("weir_events", "counter", "Events so far", app.events.count());
    one("weir_event_listeners", "gauge", "Listeners to events", app.events.listeners() as u64);
    one("weir_http_requests", "counter", "Requests so far", app.requests.load(Ordering::Relaxed));
    form.head(&mut out, "weir_host_up", "gauge", "Whether the host has answered");
    for (h, took) in &hosts {
        let _ =
            writeln!(out, "weir_host_up{{host=\"{}\"}} {}", escaped(h), u8::from(took.is_some()));
    }
    let there = || hosts.iter().filter_map(|(h, took)| Some((escaped(h), (*took)?)));
    let name = "weir_host_cpu_seconds";
    let total = form.head(&mut out, name, "counter", "Processor time of its data plane");
    for (h, (cpu, _)) in there() {
        let _ = writeln!(out, "{name}{total}{{host=\"{h}\"}} {cpu}");
    }
    let name = "weir_host_work_units";
    let help = "What its worker has done, a forwarded frame being about one";
    let total = form.head(&mut out, name, "counter", help);
    for (h, (_, work)) in there() {
        let _ = writeln!(out, "{name}{total}{{host=\"{h}\"}} {work}");
    }
    out.push_str(form.end());
    Ok(([(CONTENT_TYPE, form.content_type()), (VARY, "Accept")], out).into_response())
}

/// All nodes' families.
fn text(all: &[Counters], form: Form) -> String {
    let mut out = String::new();
    let nodes = || all.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n)));
    let labels = |c: &Counters, n: &NodeCounters| {
        let (network, node, host) = (escaped(&c.network), escaped(&n.node), escaped(&n.host));
        format!("network=\"{network}\",node=\"{node}\",host=\"{host}\"")
    };
    for (name, kind, help, value) in FAMILIES {
        let total = form.head(&mut out, name, kind, help);
        for (c, n) in nodes().take(MOST).filter(|(_, n)| n.there) {
            let _ = writeln!(out, "{name}{total}{{{}}} {}", labels(c, n), value(n));
        }
    }
    let name = "weir_node_up";
    form.head(&mut out, name, "gauge", "Whether its host has answered and has it");
    for (c, n) in nodes().take(MOST) {
        let _ = writeln!(out, "{name}{{{}}} {}", labels(c, n), u8::from(n.there));
    }
    let beyond = nodes().count().saturating_sub(MOST);
    let name = "weir_nodes_not_shown";
    form.head(&mut out, name, "gauge", &format!("Nodes beyond {MOST}"));
    let _ = writeln!(out, "{name} {beyond}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_of_a_family_and_a_name_stays_in_its_label() {
        let node = NodeCounters { node: "a\"b\\\n".to_owned(), ..NodeCounters::default() };
        let silent = NodeCounters { node: "s2".to_owned(), ..NodeCounters::default() };
        let nodes = vec![NodeCounters { received_frames: 7, there: true, ..node }, silent];
        let ends = EndsLook {
            from: "a".to_owned(),
            to: "b".to_owned(),
            hops: 2,
            measured: 2,
            delay_ns: Some(1_500_000),
            jitter_ns: Some(0),
            lost: Some(0.25),
            frames: 0,
            bytes: 0,
        };
        let all =
            [Counters { network: "red".to_owned(), nodes, links: Vec::new(), ends: vec![ends] }];
        for form in [Form::OpenMetrics, Form::Text] {
            let out = text(&all, form) + &quality(&all, form);
            let line = "weir_ends_delay_seconds{network=\"red\",from=\"a\",to=\"b\"} 0.0015";
            assert!(out.lines().any(|l| l == line), "{out}");
            let line = "weir_node_received_frames_total{network=\"red\",node=\"a\\\"b\\\\\\n\",host=\"\"} 7";
            assert!(out.lines().any(|l| l == line), "{out}");
            // Of one that has not answered, nothing is known but that.
            let silent: Vec<_> = out.lines().filter(|l| l.contains("\"s2\"")).collect();
            assert_eq!(silent, ["weir_node_up{network=\"red\",node=\"s2\",host=\"\"} 0"]);
            for l in out.lines().filter(|l| !l.starts_with('#')) {
                let name = l.split(['{', ' ']).next().unwrap();
                let family = match form {
                    Form::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
                    Form::Text => name,
                };
                assert!(out.contains(&format!("# TYPE {family} ")), "{l}");
            }
        }
    }
}
