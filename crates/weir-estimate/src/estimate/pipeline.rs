//! A pipeline in hardware (004): frames flow through its stages word by word, and each stage is busy
//! for as long as the frame's words or its operations take. What the pipeline has no cost for is done
//! by software, behind its channels.
//!
//! Room: the mode `full` on pipelines. The same models as on processors.

use super::charge::{Case, Tariff};
use super::expand::{Done, expand, table_bytes, value};
use super::full::{cards, charged, traffic_of};
use super::paper::short;
use super::{
    Estimate, GIGA, Lengths, Limit, Line, Mode, Question, Rates, cores_beyond, gbps, memory_beyond,
};
use crate::fault::Fault;
use crate::locality::{Memo, flow_cache};
use crate::model::{Library, Model};
use crate::profile::{Hardware, Pipeline, Profile};
use std::sync::Arc;

pub(super) fn estimate(
    library: &Library,
    model: &Model,
    profile: &Profile,
    pipeline: &Pipeline,
    question: &Question,
) -> Result<Estimate, Fault> {
    let traffic = traffic_of(library, model, question)?;
    let question = &Question { traffic: Some(traffic.clone()), ..question.clone() };
    let in_cache = |m: &Model, table: usize| -> Result<f64, Fault> {
        let Some(t) = m.tables.get(table) else { return Ok(0.0) };
        let entries = value(m, question, &t.entries)?;
        Ok(if entries < 1.0 { 0.0 } else { flow_cache(&traffic, entries, 1.0) })
    };
    let done = expand(library, model, question, &in_cache)?;
    let (hard, soft): (Vec<Done<'_>>, Vec<Done<'_>>) =
        done.into_iter().partition(|d| profile.costs.contains_key(&d.op.eo));
    let frame = f64::from(question.frame);
    let tariff = Tariff::new(profile, question);
    let mut busy = vec![0.0f64; pipeline.stages.len()];
    let (mut operations, mut variance) = (Vec::new(), 0.0f64);
    for d in &hard {
        let cost = tariff.cost(d)?;
        let c = tariff.charge(d, cost, Case { cold: 0.0, remote: false })?;
        if let Some(b) = cost.stage.and_then(|s| busy.get_mut(s)) {
            *b += d.times * c.cycles;
        }
        variance = variance.max(cost.error);
        operations.push(Line {
            eo: Arc::clone(&d.op.eo),
            place: (Arc::clone(&d.model.name), d.op.line),
            arguments: d.arguments.clone(),
            times: d.times,
            cycles: c.cycles,
            wait_cycles: 0.0,
            accesses: 0.0,
            dram_accesses: 0.0,
            at: d.at,
            formulas: (cost.cycles.to_string(), cost.accesses.to_string()),
            provenance: (cost.provenance, cost.source.clone()),
            error: cost.error,
        });
    }
    let words = (frame / pipeline.width_bytes).ceil();
    let mut limits = Vec::new();
    for (stage, busy) in pipeline.stages.iter().zip(&busy) {
        let cycles = busy.max(words);
        limits.push(Limit {
            name: format!("stage {stage}"),
            mpps: pipeline.clock_hz / cycles / 1e6,
            about: format!(
                "{} MHz / {} cycles ({} words, {} cycles of operations)",
                short(pipeline.clock_hz / 1e6),
                short(cycles),
                short(words),
                short(*busy)
            ),
        });
    }
    let slowest = busy.iter().copied().fold(words, f64::max);
    let hardware = pipeline.clock_hz / slowest / 1e6;
    let mut notes = Vec::new();
    let mut host_error = 0.0;
    if !soft.is_empty() {
        let (bounds, error) = software(&soft, pipeline, profile, question, &mut notes)?;
        limits.extend(bounds);
        host_error = error;
    }
    let lengths = Lengths::of(library, model, question, &in_cache)?;
    notes.extend(lengths.too_short(model));
    limits.extend(cards(profile, lengths));
    let least = limits.iter().min_by(|a, b| a.mpps.total_cmp(&b.mpps));
    let (mpps, bottleneck) = least.map_or((hardware, String::new()), |l| (l.mpps, l.name.clone()));
    // Each limit is as well known as what it stands on, and none reaches beyond another.
    let error = |l: &Limit| match l.name.as_str() {
        "line rate" | "card" | "bus" => 0.0,
        "host" => host_error,
        _ => variance,
    };
    let least = |of: &dyn Fn(&Limit) -> f64| limits.iter().map(of).fold(f64::MAX, f64::min);
    let interval = (least(&|l| l.mpps * (1.0 - error(l))), least(&|l| l.mpps * (1.0 + error(l))));
    let g = |mpps| gbps(mpps, question.frame, GIGA);
    Ok(Estimate {
        model: Arc::clone(&model.name),
        profile: Arc::clone(&profile.name),
        mode: Mode::Full,
        frame: question.frame,
        lengths,
        cores: question.cores,
        cycles: slowest,
        wait_cycles: 0.0,
        dram_accesses: 0.0,
        clock_hz: pipeline.clock_hz,
        operations,
        bottleneck,
        rates: Rates {
            core_mpps: hardware,
            core_gbps: g(hardware),
            memory_mpps: None,
            memory_gbps: None,
            mpps,
            gbps: g(mpps),
        },
        interval_mpps: interval,
        interval_gbps: (g(interval.0), g(interval.1)),
        hits: Vec::new(),
        needed: None,
        limits,
        quoted: Vec::new(),
        notes,
    })
}

/// The bounds of what is done by software, and how far the host's may be off.
fn software(
    soft: &[Done<'_>],
    pipeline: &Pipeline,
    profile: &Profile,
    question: &Question,
    notes: &mut Vec<String>,
) -> Result<(Vec<Limit>, f64), Fault> {
    let mut names: Vec<&str> = soft.iter().map(|d| &*d.op.eo).collect();
    names.sort_unstable();
    names.dedup();
    let names = names.join(", ");
    let Some(way) = &pipeline.software else {
        let text = format!("eo: no cost of {names}, and no [pipeline.software] that could do it");
        return Err(Fault::new(&profile.file, text));
    };
    notes.push(format!("by software: {names}"));
    // A frame crosses once, however much is done to it there.
    let crossing = soft.iter().map(|d| d.times.min(1.0)).fold(0.0, f64::max);
    let mut limits = vec![Limit {
        name: "channel".into(),
        mpps: way.bandwidth / (f64::from(question.frame) * crossing) / 1e6,
        about: format!(
            "{} channels, {} GB/s each way in all, for {} of the frames",
            way.channels,
            short(way.bandwidth / 1e9),
            short(crossing)
        ),
    }];
    limits.retain(|l| l.mpps.is_finite());
    let Some(host) = &question.host else {
        notes.push(format!("the host ({}) was not given: it is no bound here", way.host));
        return Ok((limits, 0.0));
    };
    let Hardware::Processor(processor) = &host.hardware else {
        return Err(Fault::new(&host.file, "a host must be a processor"));
    };
    let traffic = question.traffic.clone().unwrap_or_else(|| crate::traffic::Traffic::uniform(1.0));
    let (sum, _) = charged(soft, host, processor, question, &traffic, &Memo::default())?;
    let cycles = sum.work + sum.wait;
    let beyond = memory_beyond(processor, table_bytes(soft, question)?);
    notes.extend(beyond.map(|n| format!("the host ({}): {n}", host.name)));
    if cycles > 0.0 {
        let beyond = cores_beyond(host, question.cores);
        notes.extend(beyond.map(|n| format!("the host ({}): {n}", host.name)));
        limits.push(Limit {
            name: "host".into(),
            mpps: f64::from(question.cores) * processor.clock_hz / cycles / 1e6,
            about: format!(
                "{} cores of {} / {} cycles of software a frame",
                question.cores,
                host.name,
                short(cycles)
            ),
        });
    }
    let error = sum.operations.iter().map(|o| o.error).fold(0.0, f64::max);
    Ok((limits, error))
}
