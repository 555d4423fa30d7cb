//! Profiles from TOML.
//!
//! Room: the schema of `profiles/*.toml`, key by key. Called by `Profile::read`.

use super::{
    Cache, Contention, Convention, Cost, Deeper, Hardware, Memory, Nic, Pipeline, Power, Processor,
    Profile, Provenance, Published, Quoted, Residence, Shared, Software, Strewn, Tlb,
};
use crate::fault::{Fault, unknown};
use crate::formula::Formula;
use crate::operation::{Operation, Operations};
use crate::quantity::Dimension;
use crate::read::{Bounds, Section};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn profile(top: &Section<'_>, operations: &Operations) -> Result<Profile, Fault> {
    let name: Arc<str> = top.need_name("name", "the profile's name")?.into();
    let about = top.need_text("about", "what the machine is, in a line")?;
    let sources = top.texts("source")?;
    if sources.is_empty() {
        return Err(top.missing("source", "a list of where the profile comes from"));
    }
    let calibrated_on = top.text("calibrated_on")?.map(|t| t.value);
    let hardware = match (top.section("processor")?, top.section("pipeline")?) {
        (Some(p), None) => Hardware::Processor(processor(top, &p)?),
        (None, Some(p)) => Hardware::Pipeline(pipeline(&p)?),
        (Some(_), Some(p)) => {
            return Err(p.wrong("[processor] is there, too: expected one of the two".to_owned()));
        }
        (None, None) => return Err(top.missing("processor", "one of [processor] and [pipeline]")),
    };
    let mut nics: Vec<Nic> = Vec::new();
    for s in top.sections("nic")? {
        let name = s.need_name("name", "the card's name")?;
        if nics.iter().any(|o| *o.name == *name) {
            return Err(s.wrong(format!("nic '{name}' is there already: give each card its name")));
        }
        nics.push(Nic {
            name,
            ports: whole(&s, "ports", 1, 1024)?,
            rate: s.need_quantity("rate", Dimension::BitRate)?,
            frames: s.quantity("frames", Dimension::FrameRate)?,
            bus: s.quantity("bus", Dimension::ByteRate)?,
            socket: s.number("socket", Bounds::Whole(0, 63))?.unwrap_or(0.0) as u32,
        });
        s.finish()?;
    }
    let power = match top.section("power")? {
        Some(s) => {
            let power = Power {
                idle: s.need_quantity("idle", Dimension::Power)?,
                core: s.need_quantity("core", Dimension::Power)?,
            };
            s.text("source")?;
            s.finish()?;
            Some(power)
        }
        None => None,
    };
    let (mut paper, mut corrected) = (None, None);
    if let Some(s) = top.section("mode")? {
        for (key, mode) in [("paper", &mut paper), ("corrected", &mut corrected)] {
            if let Some(c) = s.section(key)? {
                *mode = Some(convention(&c)?);
                c.finish()?;
            }
        }
        s.finish()?;
    }
    let mut published = BTreeMap::new();
    if let Some(s) = top.section("published")? {
        for key in s.keys() {
            if let Some(p) = s.section(&key.value)? {
                published.insert(Arc::from(key.value.as_str()), of_paper(&p)?);
                p.finish()?;
            }
        }
    }
    let contention = match top.section("contention")? {
        Some(s) => Some(contention(&s)?),
        None => None,
    };
    let names = names(&hardware);
    let costs = costs(top, operations, &hardware, &names)?;
    let file = top.file().into();
    Ok(Profile {
        name,
        about,
        sources,
        file,
        calibrated_on,
        hardware,
        nics,
        power,
        costs,
        paper,
        corrected,
        published,
        contention,
    })
}

fn whole(s: &Section<'_>, key: &str, from: u64, to: u64) -> Result<u32, Fault> {
    Ok(s.need_number(key, Bounds::Whole(from, to))? as u32)
}

fn processor(top: &Section<'_>, s: &Section<'_>) -> Result<Processor, Fault> {
    let sockets = whole(s, "sockets", 1, 64)?;
    let cores_per_socket = whole(s, "cores_per_socket", 1, 1024)?;
    let clock_hz = s.need_quantity("clock", Dimension::Frequency)?;
    let line_bytes = s.quantity("line", Dimension::Size)?.unwrap_or(64.0);
    let outstanding = s.need_number("outstanding", Bounds::Positive)?;
    let buffers = s.need_number("buffers", Bounds::Positive)?;
    let wait_factor = s.number("wait_factor", Bounds::Positive)?.unwrap_or(1.0);
    s.finish()?;
    let mut caches: Vec<Cache> = Vec::new();
    for c in top.sections("cache")? {
        let name: Arc<str> = c.need_name("name", "l1, l2, l3 …")?.into();
        if caches.iter().any(|o| o.name == name) {
            return Err(c.wrong(format!("cache '{name}' is there already")));
        }
        let shared = [("core", Shared::Core), ("socket", Shared::Socket)];
        let cache = Cache {
            name,
            bytes: c.need_quantity("size", Dimension::Size)?,
            ways: whole(&c, "ways", 1, 4096)?,
            latency_cycles: c.need_number("latency_cycles", Bounds::Positive)?,
            bytes_per_cycle: c.number("bytes_per_cycle", Bounds::Positive)?,
            outstanding: c.number("outstanding", Bounds::Positive)?,
            shared: c
                .word("shared", &shared)?
                .ok_or_else(|| c.missing("shared", "core or socket"))?,
        };
        if let Some(near) = caches.last()
            && (cache.bytes <= near.bytes || cache.latency_cycles < near.latency_cycles)
        {
            let text =
                format!("cache '{}' is not larger and slower than '{}'", cache.name, near.name);
            return Err(c.wrong(format!("{text}: write the nearest first")));
        }
        c.text("source")?;
        c.finish()?;
        caches.push(cache);
    }
    if caches.is_empty() {
        return Err(top.missing("cache", "[[cache]] for each level, nearest first"));
    }
    let m = top.section("memory")?.ok_or_else(|| top.missing("memory", "[memory]"))?;
    let memory = Memory {
        channels: whole(&m, "channels", 1, 64)?,
        rate: m.need_quantity("rate", Dimension::TransferRate)?,
        bus_bytes: m.quantity("bus", Dimension::Size)?.unwrap_or(8.0),
        cas: m.number("cas", Bounds::Positive)?,
        latency_s: m.need_quantity("latency", Dimension::Time)?,
        bytes: m.need_quantity("size", Dimension::Size)?,
        remote_s: m.quantity("remote", Dimension::Time)?.unwrap_or(0.0),
    };
    m.text("source")?;
    m.finish()?;
    let tlb = match top.section("tlb")? {
        Some(t) => {
            let tlb = Tlb {
                page_bytes: t.need_quantity("page", Dimension::Size)?,
                reach_bytes: t.need_quantity("reach", Dimension::Size)?,
                miss_cycles: t.need_number("miss_cycles", Bounds::NotNegative)?,
            };
            t.text("source")?;
            t.finish()?;
            Some(tlb)
        }
        None => None,
    };
    let mut strewn: Vec<Strewn> = Vec::new();
    for s in top.sections("strewn")? {
        let bytes = s.need_quantity("size", Dimension::Size)?;
        let cycles = s.need_number("cycles", Bounds::Positive)?;
        let one = Strewn { bytes, cycles, round_s: bytes / line_bytes * cycles / clock_hz };
        if strewn.last().is_some_and(|l| l.bytes >= one.bytes) {
            return Err(s.wrong("strewn: sizes must grow"));
        }
        s.finish()?;
        strewn.push(one);
    }
    let residence = top.section("residence")?.map(|r| residence(&r)).transpose()?;
    Ok(Processor {
        sockets,
        cores_per_socket,
        clock_hz,
        line_bytes,
        outstanding,
        wait_factor,
        buffers,
        caches,
        memory,
        tlb,
        strewn,
        residence,
        now: None,
    })
}

fn residence(s: &Section<'_>) -> Result<Residence, Fault> {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for t in s.sections("taken")? {
        let after = t.need_quantity("after", Dimension::Time)?;
        let part = t.need_number("part", Bounds::Part)?;
        if taken.last().is_some_and(|l| l.0 >= after || l.1 > part) {
            return Err(t.wrong("residence.taken: times must grow, and parts not fall"));
        }
        t.finish()?;
        taken.push((after, part));
    }
    let load_cycles = s.need_number("load_cycles", Bounds::NotNegative)?;
    s.text("source")?;
    let bytes = s.quantity("size", Dimension::Size)?;
    s.finish()?;
    Ok(Residence { load_cycles, taken, bytes })
}

fn pipeline(s: &Section<'_>) -> Result<Pipeline, Fault> {
    let stages: Vec<Arc<str>> = s.texts("stages")?.into_iter().map(Arc::from).collect();
    if stages.is_empty() {
        return Err(s.missing("stages", "a list of the stages' names"));
    }
    let software = match s.section("software")? {
        Some(w) => {
            let software = Software {
                channels: whole(&w, "channels", 1, 1024)?,
                bandwidth: w.need_quantity("bandwidth", Dimension::ByteRate)?,
                host: w.need_text("host", "the host's profile")?.into(),
            };
            w.text("source")?;
            w.finish()?;
            Some(software)
        }
        None => None,
    };
    let pipeline = Pipeline {
        width_bytes: s.need_quantity("width", Dimension::Size)?,
        clock_hz: s.need_quantity("clock", Dimension::Frequency)?,
        stages,
        stage_cycles: s.need_number("stage_cycles", Bounds::NotNegative)?,
        tcam_entries: s.number("tcam_entries", Bounds::Whole(1, 1 << 40))?,
        software,
    };
    s.finish()?;
    Ok(pipeline)
}

fn convention(s: &Section<'_>) -> Result<Convention, Fault> {
    Ok(Convention {
        clock_hz: s.need_quantity("clock", Dimension::Frequency)?,
        giga: s.need_number("giga", Bounds::Positive)?,
        constants: named_numbers(s, "constants")?,
        decimals: s.number("decimals", Bounds::Whole(0, 9))?.map(|d| d as u32),
        error: s.need_number("error", Bounds::Part)?,
        source: s.need_text("source", "where it comes from")?,
    })
}

fn named_numbers(s: &Section<'_>, key: &str) -> Result<Vec<(Arc<str>, f64)>, Fault> {
    let mut all = Vec::new();
    if let Some(c) = s.section(key)? {
        for key in c.keys() {
            let value = c.need_number(&key.value, Bounds::NotNegative)?;
            all.push((key.value.into(), value));
        }
    }
    Ok(all)
}

fn of_paper(s: &Section<'_>) -> Result<Published, Fault> {
    let mut quoted = Vec::new();
    for q in s.sections("quoted")? {
        quoted.push(Quoted {
            figure: q.need_name("figure", "the figure's name")?,
            cores: whole(&q, "cores", 1, 65536)?,
            frame: q.need_number("frame", Bounds::Whole(64, 65535))?,
            value: q.need_number("value", Bounds::Positive)?,
            source: q.need_text("source", "where it stands, and why it is quoted")?,
        });
        q.finish()?;
    }
    Ok(Published {
        transfers: s.number("transfers", Bounds::Positive)?,
        accesses: s.number("accesses", Bounds::NotNegative)?,
        cut: s.texts("cut")?,
        decimals: s.number("decimals", Bounds::Whole(0, 9))?.map(|d| d as u32),
        quoted,
        source: s.need_text("source", "where it stands")?,
    })
}

fn contention(s: &Section<'_>) -> Result<Contention, Fault> {
    let contention = Contention {
        context_cycles: s.need_number("context_cycles", Bounds::NotNegative)?,
        timeslice_s: s.need_quantity("timeslice", Dimension::Time)?,
        provenance: provenance(s)?,
        source: s.need_text("source", "where it comes from")?,
    };
    s.finish()?;
    Ok(contention)
}

fn provenance(s: &Section<'_>) -> Result<Provenance, Fault> {
    let words: Vec<&str> = Provenance::NAMES.iter().map(|n| n.0).collect();
    let found = s.word("provenance", Provenance::NAMES)?;
    found.ok_or_else(|| s.missing("provenance", &words.join(", ")))
}

/// What formulas may name, beside parameters and coefficients.
fn names(hardware: &Hardware) -> Vec<Arc<str>> {
    let mut all: Vec<Arc<str>> = ["cold", "gone", "line", "frame", "burst"].map(Arc::from).into();
    match hardware {
        Hardware::Processor(p) => all.extend(p.caches.iter().map(|c| Arc::clone(&c.name))),
        Hardware::Pipeline(_) => all.push("width".into()),
    }
    all
}

fn costs(
    top: &Section<'_>,
    operations: &Operations,
    hardware: &Hardware,
    names: &[Arc<str>],
) -> Result<BTreeMap<Arc<str>, Cost>, Fault> {
    let all = top.section("eo")?;
    let all = all.ok_or_else(|| top.missing("eo", "a table for each elementary operation"))?;
    let mut costs = BTreeMap::new();
    for key in all.keys() {
        let Some(operation) = operations.get(&key.value) else {
            let text = unknown("operation", &key.value, operations.names());
            return Err(all.fault(&key.span, format!("eo: {text}")));
        };
        if let Some(s) = all.section(&key.value)? {
            costs.insert(Arc::clone(&operation.name), cost(&s, operation, hardware, names)?);
            s.finish()?;
        }
    }
    Ok(costs)
}

fn cost(
    s: &Section<'_>,
    operation: &Operation,
    hardware: &Hardware,
    names: &[Arc<str>],
) -> Result<Cost, Fault> {
    let coefficients = named_numbers(s, "coefficients")?;
    // A formula could not say which of the two it means.
    let twice = coefficients.iter().find(|c| operation.parameters.iter().any(|p| p.name == c.0));
    if let Some((name, _)) = twice {
        return Err(s.wrong(format!(
            "coefficients.{name}: a parameter of the operation is called so: give it another name"
        )));
    }
    let known = || {
        let parameters = operation.parameters.iter().map(|p| &*p.name);
        let coefficients = coefficients.iter().map(|c| &*c.0);
        parameters.chain(coefficients).chain(names.iter().map(|n| &**n))
    };
    let cycles = s.need_formula("cycles")?;
    only(s, "cycles", &cycles, known())?;
    let accesses = match s.formula("accesses")? {
        Some(f) => f.value,
        None => Formula::number(0.0),
    };
    only(s, "accesses", &accesses, known())?;
    let remote = match s.section("remote")? {
        Some(r) => {
            let far = (r.need_formula("cycles")?, r.need_formula("accesses")?);
            only(&r, "cycles", &far.0, known())?;
            only(&r, "accesses", &far.1, known())?;
            r.finish()?;
            Some(far)
        }
        None => None,
    };
    let beyond = match s.section("beyond")? {
        Some(b) => {
            let number = |key| b.need_number(key, Bounds::Positive);
            let (from, to) = (number("from")?, number("to")?);
            let deeper = Deeper { from, to, parallel: number("parallel")? };
            b.finish()?;
            Some(deeper)
        }
        None => None,
    };
    let stage = match hardware {
        Hardware::Processor(_) => None,
        Hardware::Pipeline(p) => {
            let stage =
                s.text("stage")?.ok_or_else(|| s.missing("stage", "the stage that does it"))?;
            let at = p.stages.iter().position(|n| **n == *stage.value).ok_or_else(|| {
                let known: Vec<&str> = p.stages.iter().map(|n| &**n).collect();
                s.fault(&stage.span, unknown("stage", &stage.value, known.into_iter()))
            })?;
            Some(at)
        }
    };
    Ok(Cost {
        cycles,
        accesses,
        remote,
        parallel: s.number("parallel", Bounds::Positive)?,
        beyond,
        stage,
        error: s.need_number("error", Bounds::Part)?,
        provenance: provenance(s)?,
        source: s.need_text("source", "where it comes from")?,
        coefficients,
    })
}

/// That a formula names nothing else.
fn only<'k>(
    s: &Section<'_>,
    key: &str,
    formula: &Formula,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Result<(), Fault> {
    let mut strange = None;
    formula.names(&mut |n| {
        if !known.clone().any(|k| k == n) {
            strange.get_or_insert(n);
        }
    });
    match strange {
        Some(n) => Err(s.wrong(format!("{key}: {}", unknown("name", n, known)))),
        None => Ok(()),
    }
}
