//! Beyond the paper: where data is found, what waits for it, and every bound on a processor.
//!
//! Room: the mode `full` on processors. An operation on a table is charged as cold for the part of its
//! lookups that misses the nearest cache, and waits for each access as long as the level that answers
//! takes; lookups of a burst wait together. Then each resource has its bound, and the least binds.

mod sum;
mod tables;

use super::charge::Tariff;
use super::expand::{Done, expand, passed, table_bytes, value};
use super::paper::short;
use super::{
    Estimate, Hits, Lengths, Limit, Question, WIRE_BYTES, chunk_beyond, cores_beyond, links_beyond,
    memory_beyond,
};
use crate::fault::Fault;
use crate::formula::Formula;
use crate::locality::{Beyond, Memo, flow_cache};
use crate::model::{Library, Model};
use crate::profile::{Processor, Profile};
use crate::traffic::Traffic;
use std::cmp::Ordering;
use sum::{Found, Sum};
use tables::{Levels, Tables, hits_of};

pub(super) fn estimate(
    library: &Library,
    model: &Model,
    profile: &Profile,
    processor: &Processor,
    question: &Question,
    memo: &Memo,
) -> Result<Estimate, Fault> {
    let traffic = |m: &Model| traffic_of(library, m, question);
    let cores = f64::from(question.cores);
    let traffic = traffic(model)?;
    let question = &Question { traffic: Some(traffic.clone()), ..question.clone() };
    // A flow cache belongs to a core, and sees its part of the flows.
    let in_cache = |m: &Model, table: usize| -> Result<f64, Fault> {
        let Some(t) = m.tables.get(table) else { return Ok(0.0) };
        let entries = value(m, question, &t.entries)?;
        Ok(if entries < 1.0 { 0.0 } else { flow_cache(&traffic, entries, cores) })
    };
    let done = passed(library, model, question, &in_cache)?;
    let (sum, hits) = charged(&done, profile, processor, question, &traffic, memo)?;
    if sum.work <= 0.0 {
        return Err(Fault::new(&model.file, "it costs no cycles at all: no rate follows"));
    }
    let lengths = Lengths::of(library, model, question, &in_cache)?;
    let notes = cores_beyond(profile, question.cores)
        .into_iter()
        .chain(chunk_beyond(question))
        .chain(memory_beyond(processor, table_bytes(&done, question)?))
        .chain(lengths.too_short(model))
        .collect();
    let mut answer = sum.answer(model, profile, question, (hits, lengths, notes))?;
    answer.notes.extend(links_beyond(profile, processor, answer.rates.gbps));
    Ok(answer)
}

/// Rounds in which a pace is looked for.
const ROUNDS: usize = 64;
/// A pace is found where the next one differs by less than this part.
const SETTLED: f64 = 1e-9;

/// What a list of operations costs on a processor.
///
/// How long ago a line was touched depends on how long frames take, and where others take lines meanwhile, that
/// depends on the former: from no time on, each round's cycles are the next one's pace.
pub(super) fn charged<'q>(
    done: &[Done<'_>],
    profile: &Profile,
    processor: &'q Processor,
    question: &Question,
    traffic: &Traffic,
    memo: &Memo,
) -> Result<(Sum<'q>, Vec<Hits>), Fault> {
    let tables = Tables::of(done, profile, question)?;
    let spread = tables.levels(processor, traffic, question, memo);
    let walks = tables.walks(processor, traffic, question, memo);
    let far = tables.beyond(processor, traffic, question, memo);
    let moves = processor.residence.is_some()
        && (question.played.is_some() || far.iter().flatten().any(|of| !of.is_empty()));
    let mut pace = 0.0;
    for _ in 0..if moves { ROUNDS } else { 0 } {
        let found = (spread.as_slice(), walks.as_slice(), far.as_deref());
        let sum = at_pace(done, profile, processor, question, (&tables, found), pace)?;
        let (before, cycles) = (pace, sum.work + sum.wait);
        pace = cycles;
        if (cycles - before).abs() <= SETTLED * cycles {
            break;
        }
    }
    let found = (spread.as_slice(), walks.as_slice(), far.as_deref());
    let sum = at_pace(done, profile, processor, question, (&tables, found), pace)?;
    Ok((sum, hits_of(&tables, processor, &spread)))
}

/// Where lookups of each table are answered, the part that walks, and how far they go.
type Spreads<'s> = (&'s [Levels], &'s [f64], Option<&'s [Vec<Beyond>]>);

/// The same, where a core's frames follow each other by so many cycles.
fn at_pace<'q>(
    done: &[Done<'_>],
    profile: &Profile,
    processor: &'q Processor,
    question: &Question,
    (tables, (spread, walks, far)): (&Tables, Spreads<'_>),
    pace: f64,
) -> Result<Sum<'q>, Fault> {
    let strewn = strewn(processor, far, pace);
    let tariff = Tariff::new(profile, question);
    let mut sum = Sum::new(processor, question);
    sum.pace = pace;
    for d in done {
        let seen = |i: usize| {
            let walks = walks.get(i).copied().unwrap_or(0.0);
            Some(Found { levels: spread.get(i)?, walks, strewn: strewn.get(i).copied().flatten() })
        };
        sum.add(&tariff, d, tables.place(d).and_then(seen))?;
    }
    Ok(sum)
}

/// Cycles of a load of each table that no cache of the core's own answers, by loads that were measured spread over
/// sizes: what was touched since the line was is where on that curve it is, and others may have taken it meanwhile.
fn strewn(p: &Processor, far: Option<&[Vec<Beyond>]>, pace: f64) -> Vec<Option<f64>> {
    let mean = |of: &Vec<Beyond>| -> Option<f64> {
        let all: f64 = of.iter().map(|b| b.part).sum();
        let after = |b: &Beyond| b.frames * pace / p.clock_hz;
        let cycles = of.iter().map(|b| Some(b.part * p.strewn_after(b.bytes, after(b))?));
        (all > 0.0).then(|| cycles.sum::<Option<f64>>().map(|c| c / all))?
    };
    // Where nothing goes so far: as near as anything was measured.
    far.unwrap_or_default().iter().map(|of| mean(of).or_else(|| p.strewn_over(0.0))).collect()
}

/// The traffic that is asked about; where none is given, every entry of the largest table alike.
pub(super) fn traffic_of(
    library: &Library,
    model: &Model,
    question: &Question,
) -> Result<Traffic, Fault> {
    if let Some(t) = &question.traffic {
        return Ok(t.clone());
    }
    // Formulas may need the number of flows to say how large a table is: one, for once.
    let one = Question { traffic: Some(Traffic::uniform(1.0)), ..question.clone() };
    let done = expand(library, model, &one, &|_, _| Ok(0.0))?;
    let mut most = 1.0f64;
    for d in &done {
        if let Some(t) = d.op.table.and_then(|t| d.model.tables.get(t)) {
            most = most.max(value(d.model, &one, &t.entries)?);
        }
    }
    Ok(Traffic::uniform(most.min(crate::traffic::MAX_FLOWS)))
}

/// Whether a formula has this name in it.
pub(super) fn mentions(formula: &Formula, name: &str) -> bool {
    let mut is_there = false;
    formula.names(&mut |n| is_there |= n == name);
    is_there
}

/// What network cards, their buses and their links carry, each way: the longer frames bound, be they those that come or
/// those that leave.
pub(crate) fn cards(profile: &Profile, lengths: Lengths) -> Vec<Limit> {
    let mut limits = Vec::new();
    if profile.nics.is_empty() {
        return limits;
    }
    let Lengths { comes, leaves, .. } = lengths;
    let longer = comes.max(leaves);
    let side = match leaves.total_cmp(&comes) {
        Ordering::Greater => format!(", as frames leave: {} bytes each", short(leaves)),
        Ordering::Less => ", as frames come in".to_owned(),
        Ordering::Equal => String::new(),
    };
    let bits = (longer + WIRE_BYTES) * 8.0;
    let rate = profile.line_rate();
    limits.push(Limit {
        name: "line rate".into(),
        mpps: rate / bits / 1e6,
        about: format!("{} Gbit/s / {} bits on the wire{side}", short(rate / 1e9), short(bits)),
    });
    let each = |of: &dyn Fn(&crate::profile::Nic) -> Option<f64>| -> Option<f64> {
        profile.nics.iter().map(of).sum()
    };
    if let Some(frames) = each(&|n| n.frames) {
        let about = "frames per second that the cards take".to_owned();
        limits.push(Limit { name: "card".into(), mpps: frames / 1e6, about });
    }
    if let Some(bytes) = each(&|n| n.bus) {
        let about = format!("{} GB/s to and from the cards{side}", short(bytes / 1e9));
        let mpps = bytes / longer / 1e6;
        limits.push(Limit { name: "bus".into(), mpps, about });
    }
    limits
}
