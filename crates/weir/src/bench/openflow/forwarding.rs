//! What becomes of forwarding while the switch answers for all its flows, and while they change: the
//! frames that it says it sent, second by second, with and without.
//!
//! The switch must be carrying traffic by itself: from port 1, which is sent to port 2.

use super::Spread;
use super::insert::{all_flows, exact};
use crate::controller::flows::{add, delete_strict};
use crate::controller::link::Link;
use anyhow::{Result, bail};
use serde::Serialize;
use std::time::{Duration, Instant};
use weir_openflow::model::{Action, Field, Match, Message, Part, Port, StatsReply, StatsRequest};

/// What came out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Flows that stand beside those that forward.
    pub flows: u32,
    /// Frames a second, undisturbed.
    pub quiet_per_s: Spread,
    /// Frames a second while statistics of all flows are asked for, one request after the other, as
    /// a part of those of the undisturbed seconds before and after.
    pub under_stats: Spread,
    /// Replies a second meanwhile.
    pub replies_per_s: Spread,
    /// The same while flows are added and deleted.
    pub under_flow_mods: Spread,
    /// Flow_mods a second meanwhile.
    pub flow_mods_per_s: Spread,
}

/// How long each is looked at.
const WINDOW: Duration = Duration::from_secs(1);
/// Flow_mods a second that are sent.
const FLOW_MODS: u32 = 10_000;
/// Of them at once.
const BATCH: u32 = 100;

fn sent(link: &mut Link) -> Result<(Instant, u64)> {
    let body = StatsRequest::Port(Port::ANY);
    let xid = link.send(Message::StatsRequest { more: Part::Last, body })?;
    loop {
        let m = link.next()?;
        match m.body {
            Message::StatsReply { body: StatsReply::Port(ports), .. } if m.xid == xid => {
                let frames = ports.iter().map(|p| p.tx_packets).sum();
                return Ok((Instant::now(), frames));
            }
            Message::Error(e) => bail!("no port statistics: {e:?}"),
            _ => {}
        }
    }
}

/// Frames a second while `work` runs, and what it counts, a second.
fn during(link: &mut Link, work: impl FnOnce(&mut Link) -> Result<u64>) -> Result<(f64, f64)> {
    let (from, before) = sent(link)?;
    let done = work(link)?;
    let (to, after) = sent(link)?;
    let seconds = to.duration_since(from).as_secs_f64();
    Ok((after.saturating_sub(before) as f64 / seconds, done as f64 / seconds))
}

fn nothing(_: &mut Link) -> Result<u64> {
    std::thread::sleep(WINDOW);
    Ok(0)
}

fn statistics(link: &mut Link) -> Result<u64> {
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < WINDOW {
        link.count_flows(all_flows())?;
        n += 1;
    }
    Ok(n)
}

/// Flows are added and deleted by turns, so that there are as many afterwards.
fn flow_mods(link: &mut Link, flows: u32) -> Result<u64> {
    let (start, mut n) = (Instant::now(), 0u32);
    while start.elapsed() < WINDOW {
        let mut bytes = Vec::new();
        for i in 0..BATCH / 2 {
            let flow = exact(flows + i);
            link.append(Message::FlowMod(flow.clone()), &mut bytes)?;
            link.append(Message::FlowMod(delete_strict(flow)), &mut bytes)?;
        }
        let barrier = link.append(Message::BarrierRequest, &mut bytes)?;
        link.write(&bytes)?;
        link.until_barrier(barrier)?;
        n += BATCH;
        let due = Duration::from_secs(1) * n / FLOW_MODS;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    Ok(u64::from(n))
}

/// Measures.
pub fn measure(link: &mut Link, flows: u32, repeats: usize) -> Result<Report> {
    let from = Match::default().with(Field::InPort, 1);
    let to = Action::Output { port: Port(2), max_len: 0 };
    link.send(Message::FlowMod(add(1, from, to)))?;
    let mut bytes = Vec::new();
    for n in 0..flows {
        link.append(Message::FlowMod(exact(n)), &mut bytes)?;
    }
    link.write(&bytes)?;
    link.barrier()?;
    let (mut quiet, mut replies, mut mods) = (Vec::new(), Vec::new(), Vec::new());
    let (mut under_stats, mut under_mods) = (Vec::new(), Vec::new());
    let (mut before, _) = during(link, nothing)?;
    if before == 0.0 {
        bail!(
            "the switch forwards nothing: it must be receiving frames by port 1, which are sent to \
             port 2"
        );
    }
    for _ in 0..repeats {
        let (asked, n) = during(link, statistics)?;
        let (between, _) = during(link, nothing)?;
        let (changed, m) = during(link, |l| flow_mods(l, flows))?;
        let (after, _) = during(link, nothing)?;
        under_stats.push(asked / ((before + between) / 2.0));
        under_mods.push(changed / ((between + after) / 2.0));
        replies.push(n);
        mods.push(m);
        quiet.extend([between, after]);
        before = after;
    }
    Ok(Report {
        flows,
        quiet_per_s: Spread::of(quiet),
        under_stats: Spread::of(under_stats),
        replies_per_s: Spread::of(replies),
        under_flow_mods: Spread::of(under_mods),
        flow_mods_per_s: Spread::of(mods),
    })
}
