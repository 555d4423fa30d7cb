//! An estimate as JSON.
//!
//! Room: names and shapes of what leaves the process. The figures stand at the top, beside schema and
//! environment, under the names that issue and documentation give them.

use crate::environment::{PROGRAM, SCHEMA};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_estimate::Estimate;
use weir_estimate::operation::Where;
use weir_measure::environment::Environment;

#[derive(Debug, Serialize)]
pub struct Answer {
    schema: u32,
    kind: &'static str,
    environment: Environment,
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of an estimate.
#[derive(Debug, Serialize)]
pub struct Figures {
    function: String,
    profile: String,
    mode: &'static str,
    frame_bytes: u32,
    /// Of a frame as it leaves, on average.
    frame_leaves_bytes: f64,
    cores: u32,
    clock_mhz: f64,
    cycles: f64,
    wait_cycles: f64,
    dram_accesses: f64,
    core_mpps: f64,
    core_gbps: f64,
    memory_mpps: Option<f64>,
    memory_gbps: Option<f64>,
    mpps: f64,
    gbps: f64,
    bottleneck: String,
    interval: Interval,
    limits: Vec<Limit>,
    operations: Vec<Operation>,
    hits: BTreeMap<String, BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<Needed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quoted: Vec<Quoted>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Interval {
    mpps: [f64; 2],
    gbps: [f64; 2],
}

#[derive(Debug, Serialize)]
struct Limit {
    name: String,
    mpps: f64,
    about: String,
}

#[derive(Debug, Serialize)]
struct Operation {
    eo: String,
    model: String,
    line: usize,
    parameters: BTreeMap<String, f64>,
    times: f64,
    cycles: f64,
    wait_cycles: f64,
    accesses: f64,
    dram_accesses: f64,
    at: &'static str,
    cycles_formula: String,
    accesses_formula: String,
    provenance: &'static str,
    source: String,
}

#[derive(Debug, Serialize)]
struct Needed {
    mpps: f64,
    cores: Option<u32>,
    hindered_by: Option<String>,
}

#[derive(Debug, Serialize)]
struct Quoted {
    figure: String,
    value: f64,
    source: String,
}

/// With where it comes from.
pub fn answer(e: &Estimate) -> Answer {
    Answer {
        schema: SCHEMA,
        kind: "estimate",
        environment: Environment::here(PROGRAM),
        figures: figures(e),
    }
}

/// Alone.
pub fn figures(e: &Estimate) -> Figures {
    let operation = |l: &weir_estimate::estimate::Line| Operation {
        eo: l.eo.to_string(),
        model: l.place.0.to_string(),
        line: l.place.1,
        parameters: l.arguments.iter().map(|(n, v)| (n.to_string(), *v)).collect(),
        times: l.times,
        cycles: l.cycles,
        wait_cycles: l.wait_cycles,
        accesses: l.accesses,
        dram_accesses: l.dram_accesses,
        at: Where::NAMES.iter().find(|n| n.1 == l.at).map_or("", |n| n.0),
        cycles_formula: l.formulas.0.clone(),
        accesses_formula: l.formulas.1.clone(),
        provenance: l.provenance.0.name(),
        source: l.provenance.1.clone(),
    };
    Figures {
        function: e.model.to_string(),
        profile: e.profile.to_string(),
        mode: e.mode.name(),
        frame_bytes: e.frame,
        frame_leaves_bytes: e.lengths.leaves,
        cores: e.cores,
        clock_mhz: e.clock_hz / 1e6,
        cycles: e.cycles,
        wait_cycles: e.wait_cycles,
        dram_accesses: e.dram_accesses,
        core_mpps: e.rates.core_mpps,
        core_gbps: e.rates.core_gbps,
        memory_mpps: e.rates.memory_mpps,
        memory_gbps: e.rates.memory_gbps,
        mpps: e.rates.mpps,
        gbps: e.rates.gbps,
        bottleneck: e.bottleneck.clone(),
        interval: Interval { mpps: e.interval_mpps.into(), gbps: e.interval_gbps.into() },
        limits: e
            .limits
            .iter()
            .map(|l| Limit { name: l.name.clone(), mpps: l.mpps, about: l.about.clone() })
            .collect(),
        operations: e.operations.iter().map(operation).collect(),
        hits: e
            .hits
            .iter()
            .map(|h| (h.table.clone(), h.levels.iter().cloned().collect()))
            .collect(),
        needed: e.needed.as_ref().map(|n| Needed {
            mpps: n.mpps,
            cores: n.cores,
            hindered_by: n.hindered_by.clone(),
        }),
        quoted: e
            .quoted
            .iter()
            .map(|q| Quoted { figure: q.figure.clone(), value: q.value, source: q.source.clone() })
            .collect(),
        notes: e.notes.clone(),
    }
}
