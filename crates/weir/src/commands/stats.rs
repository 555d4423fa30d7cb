//! `weir stats`: the counters of a running data plane.
//!
//! Room: the client's side of the control socket. [`tables`] also prints the last counters of
//! `weir run` and the live ones of `weir top`.

use super::columns::Columns;
use super::exposition;
use super::say::{put, say};
use crate::environment::Envelope;
use crate::socket::client::Where;
use crate::socket::items::{DeletedItem, PlaneItem, PortItem, VdpItem};
use crate::socket::protocol::{Item, Request};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// Arguments of `weir stats`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Print the counters of a running data plane",
    long_about = "Prints the counters of a running data plane: frames and bytes per port and per \
                  VDP, and every reason for which frames were dropped, with or without a VDP (runts). \
                  Ports that were removed are one line. Frames are counted without FCS. For each VDP, received + generated + cloned = forwarded + consumed + \
                  dropped + held.",
    after_long_help = "Examples:\n  \
                       weir stats\n  \
                       weir stats --json | jq '.result.vdps[].dropped'\n  \
                       weir stats --prometheus > weir.prom"
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// As text for Prometheus (0.0.4), as the node exporter's textfile collector reads it
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// All counters of one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// The data plane as a whole.
    pub plane: PlaneItem,
    /// Ports.
    pub ports: Vec<PortItem>,
    /// VDPs.
    pub vdps: Vec<VdpItem>,
}

impl Stats {
    /// What a VDP has counted, with what forwards for it as a part of it.
    pub fn whole(&self, vid: u16) -> Option<VdpItem> {
        let mut sum = self.vdps.iter().find(|v| v.vid == vid)?.clone();
        for p in self.vdps.iter().filter(|v| v.part_of == Some(vid)) {
            sum.add(p);
        }
        Some(sum)
    }

    /// What the worker has done for all VDPs, in units of about a forwarded frame.
    pub fn work(&self) -> u64 {
        self.vdps.iter().map(|v| v.takes.work).sum()
    }

    /// Sorts the parts of an answer.
    pub fn of(items: Vec<Item>) -> Self {
        let mut s = Self::default();
        for i in items {
            match i {
                Item::Plane(p) => s.plane = p,
                Item::Port(p) => s.ports.push(*p),
                Item::Vdp(v) => s.vdps.push(*v),
                Item::Rule(_) | Item::Frame(_) | Item::Leak(_) | Item::Router(_) => {}
                Item::Verified(_) | Item::Waiting => {}
                Item::Turn(_) | Item::Moving(_) | Item::Piece(_) | Item::Place(_) => {}
            }
        }
        s
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let stats = Stats::of(args.to.ask(&Request::Stats {})?.0);
    if args.json {
        return say(serde_json::to_string_pretty(&Envelope::new("stats", stats))?);
    }
    if args.prometheus {
        return put(exposition::text(&stats));
    }
    put(tables(
        &stats.ports,
        &stats.vdps,
        stats.plane.deleted.as_deref(),
        &stats.plane.unmapped_dropped,
    ))?;
    if let Some(e) = &stats.plane.imbalance {
        say(format_args!("frames do not add up, which is a defect of weir: {e}"))?;
    }
    Ok(())
}

/// Whether a port can send, in a word; the sum of those that were removed is no port.
pub(super) fn state(p: &PortItem) -> &'static str {
    match (p.number, p.up) {
        (0, _) => "-",
        (_, true) => "up",
        (_, false) => "down",
    }
}

/// Counters of ports and VDPs, and the reasons of drops, of frames without a VDP, too.
pub fn tables(
    ports: &[PortItem],
    vdps: &[VdpItem],
    deleted: Option<&DeletedItem>,
    unmapped: &BTreeMap<String, u64>,
) -> String {
    let mut out = String::new();
    let heads = [
        "port",
        "state",
        "rx frames",
        "rx bytes",
        "tx frames",
        "tx bytes",
        "dropped",
        "rx missed",
        "rx errors",
        "tx errors",
    ];
    let mut c = Columns::new(&heads);
    for p in ports {
        c.row(vec![
            p.name.clone(),
            state(p).to_owned(),
            p.rx.frames.to_string(),
            p.rx.bytes.to_string(),
            p.tx.frames.to_string(),
            p.tx.bytes.to_string(),
            p.tx_dropped.values().sum::<u64>().to_string(),
            p.rx_missed.to_string(),
            p.rx_errors.to_string(),
            p.tx_errors.to_string(),
        ]);
    }
    out.push_str(&c.text());
    out.push('\n');
    let heads = [
        "vdp",
        "name",
        "path",
        "received",
        "forwarded",
        "generated",
        "cloned",
        "consumed",
        "dropped",
        "held",
        "slow",
    ];
    let mut c = Columns::new(&heads);
    for v in vdps {
        c.row(vec![
            v.vid.to_string(),
            v.name.clone(),
            v.phase.clone(),
            v.received.frames.to_string(),
            v.forwarded.frames.to_string(),
            v.generated.to_string(),
            v.cloned.to_string(),
            v.consumed.to_string(),
            v.dropped.values().sum::<u64>().to_string(),
            v.held.to_string(),
            v.slow.to_string(),
        ]);
    }
    if let Some(d) = deleted {
        c.row(vec![
            "-".to_owned(),
            "(deleted)".to_owned(),
            "-".to_owned(),
            d.received.frames.to_string(),
            d.forwarded.frames.to_string(),
            d.generated.to_string(),
            d.cloned.to_string(),
            d.consumed.to_string(),
            d.dropped.values().sum::<u64>().to_string(),
            "0".to_owned(),
            d.slow.to_string(),
        ]);
    }
    out.push_str(&c.text());
    let of_vdp = |v: &VdpItem| (format!("VDP {}", v.vid), reasons(&v.dropped));
    let without = ("without a VDP".to_owned(), reasons(unmapped));
    let gone = deleted.map(|d| ("deleted VDPs".to_owned(), reasons(&d.dropped)));
    let lines: String = std::iter::once(without)
        .chain(vdps.iter().map(of_vdp))
        .chain(gone)
        .filter(|(_, why)| !why.is_empty())
        .map(|(whose, why)| format!("{whose} dropped: {why}\n"))
        .collect();
    if !lines.is_empty() {
        out.push('\n');
        out.push_str(&lines);
    }
    for p in ports {
        for what in [&p.fault, &p.caveat].into_iter().flatten() {
            out.push_str(&format!("port {}: {what}\n", p.name));
        }
    }
    out
}

/// Reasons with their counts, most frequent first.
pub fn reasons(dropped: &BTreeMap<String, u64>) -> String {
    let mut all: Vec<(&String, &u64)> = dropped.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1));
    let list: Vec<String> = all.iter().map(|(why, n)| format!("{why} {n}")).collect();
    list.join(", ")
}
