//! `weir net monitor`: what networks carry and lose, per network, live.
//!
//! Room: reading only; counters of the physical nodes, added up by network.

use super::Kept;
use super::edit::find;
use crate::commands::columns::Columns;
use crate::commands::say::{Reader, offer};
use crate::commands::top::{Ended, Screen, cut, waited};
use crate::fault::bad_input;
use crate::net::nodes::Nodes;
use anyhow::Result;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_supervisor::model::Lab;
use weir_supervisor::store::Places;

/// Watch what networks carry and lose
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir net monitor\n  weir net monitor red --count 10 -o json"
)]
pub struct Args {
    /// Only this one
    network: Option<String>,
    /// Time between two looks, 50 to 60000
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    interval_ms: u64,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// How it is printed: a table, or a JSON object a network and look
    #[arg(short, long, value_parser = ["table", "json"], default_value = "table")]
    output: String,
    #[command(flatten)]
    kept: Kept,
}

/// What a network has counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: (u64, u64),
    forwarded: (u64, u64),
    dropped: u64,
    slow: u64,
    held: u64,
}

/// A look at a network: what happened since the one before.
#[derive(Debug, Serialize)]
struct Look<'n> {
    network: &'n str,
    interval_ns: u64,
    received_frames: u64,
    received_bytes: u64,
    forwarded_frames: u64,
    forwarded_bytes: u64,
    dropped_frames: u64,
    slow_frames: u64,
    /// Inside, now.
    held_frames: u64,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if !(50..=60_000).contains(&args.interval_ms) {
        return Err(bad_input(format!("--interval-ms {}: 50 to 60000", args.interval_ms)));
    }
    let saved = args.kept.open()?.saved;
    let lab = &saved.state.lab;
    if let Some(name) = &args.network {
        find(lab, name)?;
    }
    let names: Vec<&str> = lab.network.iter().map(|n| n.name.as_str()).collect();
    let names: Vec<&str> =
        names.into_iter().filter(|n| args.network.as_deref().is_none_or(|o| o == *n)).collect();
    let mut nodes = Nodes::connect([lab])?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut before = counted(&mut nodes, lab, &saved.state.places)?;
    let table = args.output == "table";
    let screen = if table { Screen::take() } else { None };
    let mut shown = 0;
    while args.count.is_none_or(|n| shown < n) {
        if waited(&mut signals, Duration::from_millis(args.interval_ms)) == Ended::Yes {
            return Ok(());
        }
        let now = counted(&mut nodes, lab, &saved.state.places)?;
        let ns = now.0.saturating_sub(before.0).max(1);
        let looks: Vec<Look<'_>> = names.iter().map(|n| look(n, ns, &before.1, &now.1)).collect();
        let text = match table {
            true => as_table(&looks),
            false => looks
                .iter()
                .map(|l| serde_json::to_string(l).map(|t| t + "\n"))
                .collect::<Result<String, _>>()?,
        };
        let text = match &screen {
            Some(_) => format!("\x1b[H\x1b[J{}", cut(&text)),
            None if table => format!("{text}\n"),
            None => text,
        };
        if offer(text)? == Reader::Gone {
            return Ok(());
        }
        (before, shown) = (now, shown + 1);
    }
    Ok(())
}

/// Counters by network, and the nodes' time.
fn counted(
    nodes: &mut Nodes,
    lab: &Lab,
    places: &Places,
) -> Result<(u64, BTreeMap<String, Counts>)> {
    let stats = nodes.stats()?;
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for n in &lab.network {
        let sum = all.entry(n.name.clone()).or_default();
        for v in &n.node {
            let place = places.get(&format!("{}/{}", n.name, v.name));
            let at = place.and_then(|p| Some((stats.get(&p.host)?, p.vid)));
            let Some(i) = at.and_then(|(s, vid)| s.whole(vid)) else {
                continue;
            };
            sum.received.0 += i.received.frames;
            sum.received.1 += i.received.bytes;
            sum.forwarded.0 += i.forwarded.frames;
            sum.forwarded.1 += i.forwarded.bytes;
            sum.dropped += i.dropped.values().sum::<u64>();
            sum.slow += i.slow;
            sum.held += i.held as u64;
        }
    }
    // The nodes' clocks run alike; one of them tells how long it was.
    let at = stats.values().next().map_or(0, |s| s.plane.at_ns);
    Ok((at, all))
}

fn look<'n>(
    network: &'n str,
    interval_ns: u64,
    before: &BTreeMap<String, Counts>,
    now: &BTreeMap<String, Counts>,
) -> Look<'n> {
    let b = before.get(network).copied().unwrap_or_default();
    let n = now.get(network).copied().unwrap_or_default();
    Look {
        network,
        interval_ns,
        received_frames: n.received.0.saturating_sub(b.received.0),
        received_bytes: n.received.1.saturating_sub(b.received.1),
        forwarded_frames: n.forwarded.0.saturating_sub(b.forwarded.0),
        forwarded_bytes: n.forwarded.1.saturating_sub(b.forwarded.1),
        dropped_frames: n.dropped.saturating_sub(b.dropped),
        slow_frames: n.slow.saturating_sub(b.slow),
        held_frames: n.held,
    }
}

fn as_table(looks: &[Look<'_>]) -> String {
    let heads =
        ["network", "rx/s", "rx Mbit/s", "tx/s", "tx Mbit/s", "dropped/s", "slow/s", "inside"];
    let mut c = Columns::new(&heads);
    for l in looks {
        let rate = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(l.interval_ns)).to_string();
        let mbps = |bytes: u64| format!("{:.1}", bytes as f64 * 8e3 / l.interval_ns as f64);
        c.row(vec![
            l.network.to_owned(),
            rate(l.received_frames),
            mbps(l.received_bytes),
            rate(l.forwarded_frames),
            mbps(l.forwarded_bytes),
            rate(l.dropped_frames),
            rate(l.slow_frames),
            l.held_frames.to_string(),
        ]);
    }
    c.text()
}
