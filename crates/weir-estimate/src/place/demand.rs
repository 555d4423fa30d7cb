//! What each demand takes of each kind of host: cores, links, memory and its bandwidth.
//!
//! Room: estimates. Called by `place`.

use super::request::{Demand, Request};
use crate::chain::{Chain, Cores, join, turn};
use crate::estimate::{
    Estimate, Lengths, Mode, Question, Target, WIRE_BYTES, estimate_again, fewest, gbps,
};
use crate::fault::{Fault, unknown};
use crate::locality::Memo;
use crate::model::Library;
use crate::profile::{Hardware, Profile};
use crate::quantity::apart;
use std::collections::BTreeMap;

/// Resources of a host, with their units.
pub const RESOURCES: [(&str, &str); 5] = [
    ("cores", ""),
    ("links in", "Gbit/s"),
    ("links out", "Gbit/s"),
    ("memory bandwidth", "GB/s"),
    ("memory", "GB"),
];

/// So much of each of [`RESOURCES`].
pub type Amounts = [f64; RESOURCES.len()];

/// What a function takes of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Of each resource.
    pub takes: Amounts,
    /// The part of its cores that its rate keeps busy.
    pub busy: f64,
    /// What a frame takes, in seconds.
    pub latency_s: f64,
    /// The longest that it waits besides where a chain's functions take turns at their cores: a scheduler's doing, and no part
    /// of `latency_s`.
    pub turn_s: f64,
}

/// A placement, as numbers.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub hosts: Vec<Site>,
    pub demands: Vec<Wanted>,
    /// What whoever reads a plan should know.
    pub notes: Vec<String>,
}

/// A host, as numbers.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub name: String,
    pub profile: String,
    /// A place in [`Wanted::needs`]: hosts of one profile, whatever else has its name, are alike to a function.
    pub kind: usize,
    /// What there is of each resource; infinite where nothing limits it.
    pub whole: Amounts,
    /// Taken already.
    pub taken: Amounts,
    /// Of that, the cores that no function may have.
    pub set_aside: f64,
    pub idle_watts: f64,
    pub core_watts: f64,
}

/// Why a demand can't run on a kind of host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unfit {
    pub why: String,
    /// What would mend it.
    pub mends: &'static str,
}

/// A demand, as numbers: what it takes of each kind of host, or why it can't run there.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub name: String,
    pub needs: Vec<Result<Need, Unfit>>,
}

pub(super) fn problem(
    library: &Library,
    profiles: &BTreeMap<String, Profile>,
    request: &Request,
) -> Result<Problem, Fault> {
    let mut kinds: Vec<&Profile> = Vec::new();
    let mut hosts = Vec::new();
    // Equal demands are estimated once.
    let mut known: Vec<(&Demand, usize, Result<Need, Unfit>)> = Vec::new();
    for h in &request.hosts {
        let Some(profile) = profiles.get(&h.profile) else {
            let text = unknown("profile", &h.profile, profiles.keys().map(String::as_str));
            return Err(Fault::new(&request.file, format!("host '{}': {text}", h.name)));
        };
        let kind = kinds
            .iter()
            .position(|p| std::ptr::eq(*p, profile) || *p == profile)
            .unwrap_or_else(|| {
                kinds.push(profile);
                kinds.len() - 1
            });
        let Hardware::Processor(p) = &profile.hardware else {
            let text = format!("host '{}': {} is no [processor]", h.name, profile.name);
            return Err(Fault::new(&request.file, text));
        };
        let set_aside = f64::from(h.reserved_cores) + f64::from(h.switch_cores);
        let cores = f64::from(profile.cores());
        if set_aside > cores {
            let text = format!("host '{}': {set_aside} cores set aside of {cores}", h.name);
            return Err(Fault::new(&request.file, text));
        }
        let sockets = f64::from(p.sockets);
        let mut site = Site {
            name: h.name.clone(),
            profile: h.profile.clone(),
            kind,
            whole: [
                cores,
                links(profile),
                links(profile),
                p.memory.bandwidth() * sockets / 1e9,
                p.memory.bytes * sockets / 1e9,
            ],
            taken: only_cores(set_aside),
            set_aside,
            idle_watts: profile.power.map_or(0.0, |p| p.idle),
            core_watts: profile.power.map_or(0.0, |p| p.core),
        };
        for r in &h.running {
            let need = once(&mut known, r, kind, || need(library, profile, request, r))?;
            match need {
                Ok(n) => site.taken.iter_mut().zip(n.takes).for_each(|(t, n)| *t += n),
                Err(unfit) => {
                    let text = format!("host '{}', running '{}': {}", h.name, r.name, unfit.why);
                    return Err(Fault::new(&request.file, text));
                }
            }
        }
        hosts.push(site);
    }
    let mut demands = Vec::new();
    for d in &request.demands {
        let mut needs = Vec::new();
        for (kind, profile) in kinds.iter().enumerate() {
            needs.push(once(&mut known, d, kind, || need(library, profile, request, d))?);
        }
        demands.push(Wanted { name: d.name.clone(), needs });
    }
    let notes = unlimited(&kinds).into_iter().collect();
    Ok(Problem { hosts, demands, notes })
}

/// So many cores, and nothing else.
pub(super) fn only_cores(cores: f64) -> Amounts {
    let mut all = Amounts::default();
    if let Some(first) = all.first_mut() {
        *first = cores;
    }
    all
}

/// Gbit/s of a profile's ports: without cards nothing is known that limits them, as in an estimate.
fn links(profile: &Profile) -> f64 {
    if profile.nics.is_empty() { f64::INFINITY } else { profile.line_rate() / 1e9 }
}

/// Says so where links limit nothing.
fn unlimited(kinds: &[&Profile]) -> Option<String> {
    let names: Vec<&str> =
        kinds.iter().filter(|p| p.nics.is_empty()).map(|p| p.name.as_ref()).collect();
    (!names.is_empty()).then(|| format!("links are no limit without [[nic]]: {}", names.join(", ")))
}

fn once<'d>(
    known: &mut Vec<(&'d Demand, usize, Result<Need, Unfit>)>,
    d: &'d Demand,
    kind: usize,
    ask: impl FnOnce() -> Result<Result<Need, Unfit>, Fault>,
) -> Result<Result<Need, Unfit>, Fault> {
    let same = |o: &Demand| Demand { name: String::new(), ..o.clone() };
    // The latest are the likeliest to be alike; looking farther back would cost what it saves.
    let found = known.iter().rev().take(64).find(|k| k.1 == kind && same(k.0) == same(d));
    if let Some(k) = found {
        return Ok(k.2.clone());
    }
    let need = ask()?;
    known.push((d, kind, need.clone()));
    Ok(need)
}

/// What a demand takes of a host of a profile, or why it can't run there.
fn need(
    library: &Library,
    profile: &Profile,
    request: &Request,
    d: &Demand,
) -> Result<Result<Need, Unfit>, Fault> {
    let question = Question {
        mode: Mode::Full,
        frame: d.frame,
        traffic: d.traffic.clone(),
        burst: d.burst,
        settings: d.settings.clone(),
        ..Question::default()
    };
    let mpps = match d.rate {
        Target::Mpps(m) => m,
        Target::Gbps(g) => g / gbps(1.0, d.frame, 1000.0),
    };
    let memo = Memo::default();
    let ask = |name: &str, cores: u32| {
        let question = Question { cores, ..question.clone() };
        estimate_again(library, name, profile, &question, &memo)
            .map_err(|e| Fault::new(&request.file, format!("'{}': {e}", d.name)))
    };
    let alone = d.functions.len() == 1;
    // Cores share caches, and see a part of the flows each: a function's are those whose own estimate carries the rate.
    // A chain's tasks are on several, each with what one core gives it.
    let carried =
        |e: &Estimate| e.limits.iter().filter(|l| is_cores(&l.name)).all(|l| l.mpps >= mpps);
    let with = match d.functions.as_slice() {
        [name] => fewest(profile.cores(), &mut |n| Ok(carried(&ask(name, n)?)))?,
        _ => Some(1),
    };
    let mut estimates = Vec::new();
    for name in &d.functions {
        estimates.push(ask(name, with.unwrap_or(profile.cores()))?);
    }
    let (cycles, passes) = if alone {
        (estimates.iter().map(|e| e.cycles).sum::<f64>(), 1.0)
    } else {
        let chain = Chain {
            functions: d.functions.clone(),
            switch: request.switch.clone(),
            channel: ("channel-send".into(), "channel-receive".into()),
            cores: Cores::Own(1),
        };
        let j = join(library, &chain, profile, &question)
            .map_err(|e| Fault::new(&request.file, format!("'{}': {e}", d.name)))?;
        (j.cycles, f64::from(j.passes + j.crossings) + d.functions.len() as f64)
    };
    let clock = estimates.first().map_or(1.0, |e| e.clock_hz);
    let busy = mpps * 1e6 * cycles / clock;
    let beyond = f64::from(profile.cores()) + 1.0;
    let cores = match (alone, with) {
        (true, Some(n)) => f64::from(n),
        (true, None) => busy.ceil().max(beyond),
        (false, _) => busy.ceil().max(1.0),
    };
    if cores > f64::from(profile.cores()) {
        let why = format!(
            "{mpps:.2} Mpps take {cores} cores of {}, and it has {}",
            profile.name,
            profile.cores()
        );
        let mends = "a faster host, a lower rate, or the function in several parts";
        return Ok(Err(Unfit { why, mends }));
    }
    let Lengths { comes, leaves, .. } =
        Lengths::through(d.frame, estimates.iter().map(|e| &e.lengths));
    let wire = |bytes: f64| (bytes + WIRE_BYTES) * 8.0 * mpps / 1e3;
    let line = match &profile.hardware {
        Hardware::Processor(p) => p.line_bytes,
        Hardware::Pipeline(_) => 64.0,
    };
    let dram: f64 = estimates.iter().map(|e| e.dram_accesses).sum();
    let memory: f64 = d.functions.iter().map(|f| tables(library, f, &question)).sum::<f64>() / 1e9;
    // A burst is gathered, then processed, at each place where it stops; while the cores are busy with
    // other bursts it waits: an M/D/1 queue.
    let load = (busy / cores).min(0.999);
    let burst = f64::from(d.burst) * cycles / clock;
    let processed_s = burst * (1.0 + load / (2.0 * (1.0 - load)));
    let gathered_s = passes * f64::from(d.burst) / (mpps.max(1e-6) * 1e6);
    let latency_s = processed_s + gathered_s;
    if let Some(limit) = d.latency_s.filter(|l| latency_s > *l) {
        let [takes, may] = apart([latency_s * 1e6, limit * 1e6], 1);
        let why = format!("a frame takes {takes} us on {}, and may take {may}", profile.name);
        // At a lower rate a burst is gathered for longer yet.
        let mends = match (gathered_s > processed_s, d.burst > 1) {
            (true, true) => "a smaller burst, or a longer latency",
            (true, false) => "a higher rate, or a longer latency",
            (false, true) => "a faster host, a smaller burst, a lower rate, or a longer latency",
            (false, false) => "a faster host, a lower rate, or a longer latency",
        };
        return Ok(Err(Unfit { why, mends }));
    }
    // The switch is a task, too.
    let tasks = d.functions.len() + 1;
    let turn_s = match &profile.contention {
        Some(c) if !alone => turn(c, tasks, cores),
        _ => 0.0,
    };
    let takes = [cores, wire(comes), wire(leaves), dram * line * mpps / 1e3, memory];
    Ok(Ok(Need { takes, busy: load, latency_s, turn_s }))
}

/// Whether a bound is one that a function's cores move: what cards and main memory give, a host's functions share.
fn is_cores(limit: &str) -> bool {
    !matches!(limit, "memory bandwidth" | "line rate" | "card" | "bus")
}

/// Bytes of a model's tables, and of those that it uses.
fn tables(library: &Library, name: &str, question: &Question) -> f64 {
    crate::estimate::table_bytes(library, name, question).unwrap_or(0.0)
}
