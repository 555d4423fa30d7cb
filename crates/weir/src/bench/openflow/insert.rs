//! Flow_mods a second, statistics of what they made, deletion.

use super::{Percentiles, Spread};
use crate::controller::flows::add;
use crate::controller::link::Link;
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;
use weir_openflow::model::{
    Action, Field, FlowFilter, FlowMod, Match, Message, Port, StatsRequest,
};

/// What came out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Rules inserted in each measurement.
    pub rules: u32,
    /// Flow_mods a second, from the first byte sent to the barrier's reply.
    pub per_s: Spread,
    /// Milliseconds until the statistics of all of them were here.
    pub stats_ms: Spread,
    /// Flows in those.
    pub flows_seen: usize,
    /// Milliseconds until one flow_mod had deleted all of them.
    pub delete_ms: Spread,
    /// Microseconds for a hundred rules and a barrier.
    pub hundred_us: Percentiles,
    /// Errors that came.
    pub errors: u64,
}

/// Asks for the statistics of all flows.
pub fn all_flows() -> StatsRequest {
    StatsRequest::Flow(FlowFilter::every_flow())
}

/// An exact rule on a destination MAC.
pub fn exact(n: u32) -> FlowMod {
    let m = Match::default().with(Field::EthDst, 0x0200_0000_0000 | u128::from(n));
    let to = Action::Output { port: Port(1), max_len: 0 };
    FlowMod { cookie: u64::from(n), ..add(1000, m, to) }
}

/// Measures.
pub fn measure(link: &mut Link, rules: u32, repeats: usize) -> Result<Report> {
    let errors = link.errors;
    let (mut rates, mut stats, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = 0;
    for _ in 0..repeats {
        let mut bytes = Vec::new();
        for n in 0..rules {
            link.append(Message::FlowMod(exact(n)), &mut bytes)?;
        }
        let barrier = link.append(Message::BarrierRequest, &mut bytes)?;
        let start = Instant::now();
        link.write(&bytes)?;
        link.until_barrier(barrier)?;
        rates.push(f64::from(rules) / start.elapsed().as_secs_f64());
        let start = Instant::now();
        seen = link.count_flows(all_flows())?;
        stats.push(start.elapsed().as_secs_f64() * 1e3);
        deletes.push(link.delete_flows()?.as_secs_f64() * 1e3);
    }
    let mut hundred = Vec::new();
    for _ in 0..50 {
        let mut bytes = Vec::new();
        for n in 0..100 {
            link.append(Message::FlowMod(exact(n)), &mut bytes)?;
        }
        let barrier = link.append(Message::BarrierRequest, &mut bytes)?;
        let start = Instant::now();
        link.write(&bytes)?;
        link.until_barrier(barrier)?;
        hundred.push(start.elapsed().as_nanos() as u64);
        link.delete_flows()?;
    }
    Ok(Report {
        rules,
        per_s: Spread::of(rates),
        stats_ms: Spread::of(stats),
        flows_seen: seen,
        delete_ms: Spread::of(deletes),
        hundred_us: Percentiles::of(hundred),
        errors: link.errors - errors,
    })
}
