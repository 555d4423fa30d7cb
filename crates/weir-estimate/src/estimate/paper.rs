//! The paper's own arithmetic (002 §3): cycles and accesses added up, a clock over the one, a latency
//! over the other.
//!
//! Room: the modes `paper` and `corrected`. What differs between them is data: a profile's
//! [`Convention`]s.

use super::charge::{Case, Tariff};
use super::expand::{Done, expand, table_bytes};
use super::full::mentions;
use super::{
    Estimate, Lengths, Limit, Line, Mode, Numa, Pages, Question, Rates, cores_beyond, gbps,
    memory_beyond,
};
use crate::fault::Fault;
use crate::model::{Library, Model};
use crate::operation::Where;
use crate::profile::{Convention, Hardware, Processor, Profile, Published};
use std::sync::Arc;

pub(super) fn estimate(
    library: &Library,
    model: &Model,
    profile: &Profile,
    question: &Question,
) -> Result<Estimate, Fault> {
    let convention = match question.mode {
        Mode::Paper => &profile.paper,
        _ => &profile.corrected,
    };
    let (Some(convention), Hardware::Processor(hardware)) = (convention, &profile.hardware) else {
        let mode = question.mode.name();
        let text = format!("no [mode.{mode}]: the paper's figures are of another machine");
        return Err(Fault::new(&profile.file, text));
    };
    // The paper knows no cache in front of a table: every frame is looked up.
    let done = expand(library, model, question, &|_, _| Ok(0.0))?;
    let frame = f64::from(question.frame);
    let tariff = Tariff { profile, constants: &convention.constants, frame, burst: 1.0, gone: 0.0 };
    let far = match question.numa {
        Numa::Local => 0.0,
        Numa::Spread => 1.0 - 1.0 / f64::from(hardware.sockets),
    };
    let (mut cycles, mut accesses, mut operations) = (0.0, 0.0, Vec::new());
    for d in &done {
        let cost = tariff.cost(d)?;
        let cold = if d.at != Where::Cache { 1.0 } else { 0.0 };
        let near = tariff.charge(d, cost, Case { cold, remote: false })?;
        let remote = tariff.charge(d, cost, Case { cold, remote: true })?;
        let mix = |n: f64, r: f64| n * (1.0 - far) + r * far;
        let (c, a) = (mix(near.cycles, remote.cycles), mix(near.accesses, remote.accesses));
        cycles += c * d.times;
        accesses += a * d.times;
        operations.push(Line {
            eo: Arc::clone(&d.op.eo),
            place: (Arc::clone(&d.model.name), d.op.line),
            arguments: d.arguments.clone(),
            times: d.times,
            cycles: c,
            wait_cycles: 0.0,
            accesses: a,
            dram_accesses: a,
            at: d.at,
            formulas: (cost.cycles.to_string(), cost.accesses.to_string()),
            provenance: (cost.provenance, cost.source.clone()),
            error: cost.error,
        });
    }
    if cycles <= 0.0 {
        return Err(Fault::new(&model.file, "it costs no cycles at all: no rate follows"));
    }
    let published = match question.mode {
        Mode::Paper => profile.published.get(&model.name),
        _ => None,
    };
    let round = |figure: &str, v: f64| publish(convention, published, figure, v);
    let core = f64::from(question.cores) * convention.clock_hz / cycles / 1e6;
    let memory = memory(hardware, question.mode, published, accesses);
    let bound = memory.as_ref().map_or(core, |m| m.mpps.min(core));
    let giga = |mpps| gbps(mpps, question.frame, convention.giga);
    let bottleneck = if bound < core { "memory" } else { "core" };
    // What binds is the very figure that is printed for it, cut as that one is.
    let (binding, binding_gbps) = match bottleneck {
        "memory" => ("memory_mpps", "memory_gbps"),
        _ => ("core_mpps", "core_gbps"),
    };
    let rates = Rates {
        core_mpps: round("core_mpps", core),
        core_gbps: round("core_gbps", giga(core)),
        memory_mpps: memory.as_ref().map(|m| round("memory_mpps", m.mpps)),
        memory_gbps: memory.as_ref().map(|m| round("memory_gbps", giga(m.mpps))),
        mpps: round(binding, bound),
        gbps: round(binding_gbps, giga(bound)),
    };
    let e = convention.error;
    let about = format!(
        "{} cores x {} MHz / {} cycles",
        question.cores,
        convention.clock_hz / 1e6,
        short(cycles)
    );
    let mut limits = vec![Limit { name: "core".into(), mpps: core, about }];
    limits.extend(memory);
    let mut notes = vec![convention.source.clone()];
    let line = profile.line_rate() / ((frame + super::WIRE_BYTES) * 8.0) / 1e6;
    if line > 0.0 && line < bound {
        notes.push(format!(
            "the ports carry {} Mpps of such frames, which the paper's estimate leaves out (002 §4.1.1)",
            short(line)
        ));
    }
    notes.extend(not_known(&done, question));
    notes.extend(cores_beyond(profile, question.cores));
    notes.extend(memory_beyond(hardware, table_bytes(&done, question)?));
    let quoted: Vec<_> = published
        .map(|p| p.quoted.as_slice())
        .unwrap_or_default()
        .iter()
        .filter(|q| q.cores == question.cores && q.frame == frame)
        .cloned()
        .collect();
    Ok(Estimate {
        model: Arc::clone(&model.name),
        profile: Arc::clone(&profile.name),
        mode: question.mode,
        frame: question.frame,
        lengths: Lengths::unchanged(question.frame),
        cores: question.cores,
        cycles,
        wait_cycles: 0.0,
        dram_accesses: accesses,
        clock_hz: convention.clock_hz,
        operations,
        limits,
        bottleneck: bottleneck.into(),
        rates,
        interval_mpps: (rates.mpps * (1.0 - e), rates.mpps * (1.0 + e)),
        interval_gbps: (rates.gbps * (1.0 - e), rates.gbps * (1.0 + e)),
        hits: Vec::new(),
        needed: None,
        quoted,
        notes,
    })
}

/// Says so where something was asked about that the paper's arithmetic does not know.
fn not_known(done: &[Done<'_>], question: &Question) -> Option<String> {
    let in_formulas = || {
        let ops =
            done.iter().flat_map(|d| d.op.arguments.iter().map(|a| &a.1).chain([&d.op.times]));
        let tables = done.iter().flat_map(|d| d.model.tables.iter());
        ops.chain(tables.flat_map(|t| [&t.entries, &t.entry])).any(|f| mentions(f, "flows"))
    };
    let all = [
        (question.traffic.is_some() && !in_formulas(), "traffic"),
        (question.burst > 1, "bursts"),
        (question.pages == Pages::Huge, "huge pages"),
    ];
    let named: Vec<&str> = all.iter().filter(|(given, _)| *given).map(|(_, what)| *what).collect();
    (!named.is_empty()).then(|| {
        let mode = question.mode.name();
        format!("mode {mode} knows nothing of {}: the figures are those without", named.join(", "))
    })
}

/// What main memory sustains: by the constant fitted to the published figure, or by the printed
/// formula, (2 × CAS latency + 3) / data rate for each access (002 §3.1.1).
fn memory(
    hardware: &Processor,
    mode: Mode,
    published: Option<&Published>,
    accesses: f64,
) -> Option<Limit> {
    let rate = hardware.memory.rate;
    let (transfers, about) = match mode {
        Mode::Paper => {
            let p = published?;
            // The constant stands for so many accesses; with others nothing is known.
            p.accesses.filter(|a| (a - accesses).abs() < 1e-9)?;
            let t = p.transfers?;
            (t, format!("fitted: {} MT/s / {t} transfers", short(rate / 1e6)))
        }
        _ => {
            let one = 2.0 * hardware.memory.cas? + 3.0;
            let about = format!("{} accesses x (2 CL + 3) / data rate", short(accesses));
            (one * accesses, about)
        }
    };
    let mpps = rate / transfers / 1e6;
    mpps.is_finite().then(|| Limit { name: "memory".into(), mpps, about })
}

/// A figure with the decimals it was published with, rounded or cut.
fn publish(c: &Convention, published: Option<&Published>, figure: &str, value: f64) -> f64 {
    let Some(decimals) = published.and_then(|p| p.decimals).or(c.decimals) else { return value };
    let scale = 10f64.powi(decimals as i32);
    let cut = published.is_some_and(|p| p.cut.iter().any(|f| f == figure));
    // A figure that is exact but for its last binary digit is not cut below itself.
    if cut { (value * scale + 1e-6).floor() / scale } else { (value * scale).round() / scale }
}

/// A number for people: at most two decimals.
pub(super) fn short(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
