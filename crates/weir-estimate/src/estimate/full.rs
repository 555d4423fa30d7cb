//! Beyond the paper: where data is found, what waits for it, and every bound on a processor.
//!
//! Room: the mode `full` on processors. An operation on a table is charged as cold for the part of its
//! lookups that misses the nearest cache, and waits for each access as long as the level that answers
//! takes; lookups of a burst wait together. Then each resource has its bound, and the least binds.

use super::charge::{Case, Charge, Tariff};
use super::expand::{Done, expand, passed, table_bytes, value};
use super::paper::short;
use super::{
    Estimate, GIGA, Hits, Lengths, Limit, Line, Mode, Numa, Pages, Question, Rates, WIRE_BYTES,
    cores_beyond, gbps, memory_beyond,
};
use crate::fault::Fault;
use crate::formula::Formula;
use crate::locality::{Beyond, Capacity, ERROR, Footprint, Memo, Stream, flow_cache};
use crate::model::{Library, Model};
use crate::operation::{Touches, Where};
use crate::profile::{Processor, Profile, Shared};
use crate::traffic::Traffic;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewer lines a frame than this are none: what is left of a subtraction.
const SEEN: f64 = 1e-6;

/// Bytes of a page where a profile does not say.
const PAGE_BYTES: f64 = 4096.0;

/// Translations of a set, as processors have had them for long.
const TLB_WAYS: f64 = 8.0;

/// How the accesses to something spread over the levels, main memory last.
type Levels = Vec<f64>;

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
        .chain(memory_beyond(processor, table_bytes(&done, question)?))
        .chain(lengths.too_short(model))
        .collect();
    sum.answer(model, profile, question, (hits, lengths, notes))
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

/// What a core's frames put into caches, in whole.
fn whole_stream(p: &Processor, question: &Question) -> Stream {
    Stream {
        lines: (f64::from(question.frame) / p.line_bytes).ceil(),
        buffers: question.played.unwrap_or(p.buffers),
    }
}

/// What they put into its own caches: those see headers alone, but where the core copies what a source plays.
fn near_stream(p: &Processor, question: &Question) -> Stream {
    let whole = whole_stream(p, question);
    if question.played.is_some() { whole } else { Stream { lines: 1.0, ..whole } }
}

/// How far the lookups of a table go.
struct Found<'s> {
    levels: &'s Levels,
    /// The part whose address is translated by a walk.
    walks: f64,
    /// Cycles of a load that no cache of the core's own answers, where it was measured over sizes.
    strewn: Option<f64>,
}

/// The tables of a model and of those that it uses, with how often each is asked.
struct Tables {
    names: Vec<(Arc<str>, usize)>,
    shown: Vec<String>,
    footprints: Vec<Footprint>,
}

impl Tables {
    fn of(done: &[Done<'_>], profile: &Profile, question: &Question) -> Result<Self, Fault> {
        let mut all = Self { names: Vec::new(), shown: Vec::new(), footprints: Vec::new() };
        let mut places: BTreeMap<(Arc<str>, usize), usize> = BTreeMap::new();
        let tariff = Tariff::new(profile, question);
        for d in done {
            let Some(t) = d.op.table else { continue };
            let Some(table) = d.model.tables.get(t) else { continue };
            let key = (Arc::clone(&d.model.name), t);
            let place = match places.get(&key) {
                Some(p) => *p,
                None => {
                    let place = all.footprints.len();
                    all.footprints.push(Footprint {
                        entries: value(d.model, question, &table.entries)?,
                        entry_bytes: value(d.model, question, &table.entry)?.max(1.0),
                        rate: 0.0,
                    });
                    all.shown.push(format!("{}.{}", d.model.name, table.name));
                    all.names.push(key.clone());
                    places.insert(key, place);
                    place
                }
            };
            let cost = tariff.cost(d)?;
            let cold = tariff.charge(d, cost, Case { cold: 1.0, remote: false })?;
            if let Some(f) = all.footprints.get_mut(place)
                && cold.accesses > 0.0
                && d.at != Where::Cache
            {
                f.rate += d.times;
            }
        }
        Ok(all)
    }

    fn place(&self, d: &Done<'_>) -> Option<usize> {
        let table = d.op.table?;
        self.names.iter().position(|n| n.1 == table && n.0 == d.model.name)
    }

    /// How the accesses to each table spread over caches and main memory.
    fn levels(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Vec<Levels> {
        let cores = question.cores.max(1);
        let mut before = vec![0.0; self.footprints.len()];
        let mut spread = vec![Levels::new(); self.footprints.len()];
        for cache in &p.caches {
            let split = match cache.shared {
                Shared::Core => f64::from(cores),
                // Cores fill one socket after the other, and sockets share flows as cores do.
                Shared::Socket => (f64::from(cores) / f64::from(p.cores_per_socket)).max(1.0),
            };
            let capacity = Capacity {
                lines: cache.bytes / p.line_bytes,
                line_bytes: p.line_bytes,
                ways: f64::from(cache.ways),
                split,
            };
            let stream = match cache.shared {
                Shared::Core => near_stream(p, question),
                Shared::Socket => {
                    let buffers = p.buffers * f64::from(cores) / split;
                    Stream {
                        buffers: question.played.unwrap_or(buffers),
                        ..whole_stream(p, question)
                    }
                }
            };
            let found = memo.hits(&self.footprints, traffic, capacity, stream);
            for ((before, levels), h) in before.iter_mut().zip(&mut spread).zip(found) {
                // A farther cache holds what a nearer one does.
                let h = h.max(*before);
                levels.push(h - *before);
                *before = h;
            }
        }
        for (before, levels) in before.iter().zip(&mut spread) {
            levels.push(1.0 - before);
        }
        spread
    }
}

impl Tables {
    /// How far lookups of each table go that no cache of the core's own answers; nothing where no profile says what
    /// that costs.
    fn beyond(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Option<Vec<Vec<Beyond>>> {
        let own = p.caches.iter().rfind(|c| c.shared == Shared::Core);
        let own = own.filter(|_| question.pages == Pages::Small && !p.strewn.is_empty())?;
        let split = f64::from(question.cores.max(1));
        let own = Capacity {
            lines: own.bytes / p.line_bytes,
            line_bytes: p.line_bytes,
            ways: f64::from(own.ways),
            split,
        };
        let page = p.tlb.map_or(PAGE_BYTES, |t| t.page_bytes);
        let (near, stream) = (near_stream(p, question), whole_stream(p, question));
        Some(memo.beyond(&self.footprints, traffic, (own, near), page, stream))
    }

    /// The part of the accesses to each table whose address has to be translated by a walk: the cache of
    /// translations is one of lines as long as pages.
    fn walks(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Vec<f64> {
        // What was measured over sizes has walks in it.
        let small = question.pages == Pages::Small && p.strewn.is_empty();
        let Some(tlb) = p.tlb.filter(|_| small) else {
            return vec![0.0; self.footprints.len()];
        };
        let capacity = Capacity {
            lines: (tlb.reach_bytes / tlb.page_bytes).max(1.0),
            line_bytes: tlb.page_bytes,
            ways: TLB_WAYS,
            split: f64::from(question.cores.max(1)),
        };
        let found = memo.hits(&self.footprints, traffic, capacity, Stream::default());
        found.into_iter().map(|h| 1.0 - h).collect()
    }
}

fn hits_of(tables: &Tables, p: &Processor, spread: &[Levels]) -> Vec<Hits> {
    let names = || p.caches.iter().map(|c| c.name.to_string()).chain(["memory".to_owned()]);
    let one = |(table, levels): (&String, &Levels)| Hits {
        table: table.clone(),
        levels: names().zip(levels.iter().copied()).collect(),
    };
    tables.shown.iter().zip(spread).map(one).collect()
}

/// What a frame costs, added up.
pub(super) struct Sum<'q> {
    processor: &'q Processor,
    /// The part of the frames that came in at another socket.
    far: f64,
    pub work: f64,
    pub wait: f64,
    /// Lines from each level, main memory last.
    lines: Vec<f64>,
    /// Squares of what each operation's cycles may be off.
    variance: f64,
    /// What misjudged locality may add.
    misjudged: f64,
    /// What it may take: no operation waits less than not at all.
    spared: f64,
    pub operations: Vec<Line>,
    /// Cycles from a core's frame to its next.
    pace: f64,
    /// Frames that a source in memory plays over and over.
    played: f64,
}

impl<'q> Sum<'q> {
    fn new(processor: &'q Processor, question: &Question) -> Self {
        let far = match question.numa {
            Numa::Local => 0.0,
            Numa::Spread => 1.0 - 1.0 / f64::from(processor.sockets),
        };
        Self {
            processor,
            far,
            work: 0.0,
            wait: 0.0,
            lines: vec![0.0; processor.caches.len() + 1],
            variance: 0.0,
            misjudged: 0.0,
            spared: 0.0,
            operations: Vec::new(),
            pace: 0.0,
            played: question.played.unwrap_or(0.0),
        }
    }

    /// The part of a played frame's lines that others have taken since it was played, beyond what they had taken where
    /// an operation was measured that takes so many cycles of a frame, with as many frames. Frames of so many bytes that the
    /// cache can not hold them all came from further away there, too.
    fn gone(&self, cycles: f64, frame: f64) -> f64 {
        let p = self.processor;
        let Some(r) = &p.residence else { return 0.0 };
        let seconds = |cycles: f64| self.played * cycles / p.clock_hz;
        let bytes = self.played * (frame / p.line_bytes).ceil() * p.line_bytes;
        (p.taken(seconds(self.pace)) - r.taken(seconds(cycles))).max(0.0) * r.held(bytes)
    }

    /// Cycles until a level's data can be used: none of the nearest, whose are in the work.
    fn latency(&self, level: usize) -> f64 {
        let p = self.processor;
        let cycles = match p.caches.get(level) {
            Some(_) if level == 0 => 0.0,
            Some(c) => c.latency_cycles,
            None => (p.memory.latency_s + self.far * p.memory.remote_s) * p.clock_hz,
        };
        cycles * p.wait_factor
    }

    fn add(
        &mut self,
        tariff: &Tariff<'_>,
        d: &Done<'_>,
        found: Option<Found<'_>>,
    ) -> Result<(), Fault> {
        // Behind what hands frames over one by one a burst is as long as the core looks ahead.
        let cost = tariff.cost(d)?;
        let ahead = d.together.as_ref().and_then(|eo| tariff.profile.costs.get(eo));
        let longest = tariff.burst;
        let most = ahead.and_then(|c| c.parallel).unwrap_or(longest);
        let burst = most.clamp(1.0, longest);
        let mut tariff = Tariff { burst, ..*tariff };
        if self.played > 0.0 && mentions(&cost.cycles, "gone") {
            let near = tariff.charge(d, cost, Case { cold: 0.0, remote: false })?;
            tariff.gone = self.gone(near.cycles, tariff.frame);
        }
        let tariff = &tariff;
        let charge = |cold, remote| tariff.charge(d, cost, Case { cold, remote });
        let last = self.processor.caches.len();
        // Where its accesses are answered: a table's by locality, a frame's by the shared cache into
        // which cards write, all else by the nearest.
        let mut levels = vec![0.0; last + 1];
        let (mut far, mut together, mut table) = (self.far, 1.0, false);
        let cold = charge(1.0, false)?;
        match (d.at, d.operation.touches, &found) {
            (Where::Cache, ..) | (_, Touches::Nothing, _) => levels[0] = 1.0,
            (_, Touches::Table, Some(f)) => {
                levels.clone_from(f.levels);
                // Lookups of a burst don't depend on each other.
                (together, table) = (burst, true);
            }
            (_, Touches::Table, None) => levels[last] = 1.0,
            (_, Touches::Packet, _) => {
                levels[last.saturating_sub(1)] = 1.0;
                // Nor do a frame's lines; without a measurement they are taken one by one.
                together = cost.parallel.map_or(1.0, |_| burst * cold.accesses.max(1.0));
            }
        }
        // A core waits for so many loads at once, and an operation leaves it so many to wait for.
        let processor = self.processor;
        let overlap = |level: usize, latency: f64| {
            let of_level = processor.caches.get(level).and_then(|c| c.outstanding);
            let most = of_level.unwrap_or(processor.outstanding);
            // As it was measured; what a refinement says of waits is said of these.
            let cycles = latency / processor.wait_factor;
            let looks = ahead.filter(|_| table).and_then(|c| c.under_way(cycles));
            let together = looks.map_or(together, |l| l.clamp(1.0, longest));
            together.min(most).min(cost.under_way(cycles).unwrap_or(f64::MAX)).max(1.0)
        };
        if cost.remote.is_none() {
            far = 0.0;
        }
        let near = levels.first().copied().unwrap_or(0.0);
        let blend = |a: Charge, b: Charge, part: f64| Charge {
            cycles: a.cycles * part + b.cycles * (1.0 - part),
            accesses: a.accesses * part + b.accesses * (1.0 - part),
        };
        let here = blend(charge(0.0, false)?, cold, near);
        let there = charge(1.0 - near, true)?;
        let all = blend(here, there, 1.0 - far);
        // Accesses beyond the nearest cache are those of a cold operation, where it misses; a frame
        // of another socket comes through main memory.
        let mut wait = 0.0;
        let mut dram = 0.0;
        for (level, part) in levels.iter().enumerate().skip(1) {
            let lines = cold.accesses * part * (1.0 - far);
            self.take(d.times, lines, level);
            let own = processor.caches.get(level).is_some_and(|c| c.shared == Shared::Core);
            let strewn = found.as_ref().and_then(|f| f.strewn).filter(|_| !own);
            let latency = strewn.map_or_else(|| self.latency(level), |s| s * processor.wait_factor);
            wait += lines * latency / overlap(level, latency);
            dram += if level == last { lines } else { 0.0 };
        }
        if let (Some(Found { walks, .. }), Some(tlb)) = (&found, self.processor.tlb)
            && d.at != Where::Cache
        {
            let cycles = tlb.miss_cycles * self.processor.wait_factor;
            let overlap = overlap(last, self.latency(last));
            wait += cold.accesses * (1.0 - far) * walks * cycles / overlap;
        }
        if far > 0.0 {
            let lines = there.accesses * far;
            self.take(d.times, lines, last);
            // The lines of a frame follow each other: the core asks for them together.
            wait += self.latency(last)
                * far
                * (there.accesses / self.processor.outstanding).max(1.0)
                * f64::from(u8::from(there.accesses > 0.0));
            dram += lines;
        }
        if found.is_some() {
            let latency = self.latency(last);
            let misjudged = cold.accesses * ERROR * latency / overlap(last, latency);
            self.misjudged += d.times * misjudged;
            self.spared += d.times * misjudged.min(wait);
        }
        self.work += d.times * all.cycles;
        self.wait += d.times * wait;
        self.variance += (d.times * all.cycles * cost.error).powi(2);
        self.operations.push(Line {
            eo: Arc::clone(d.eo(tariff.profile)),
            place: (Arc::clone(&d.model.name), d.op.line),
            arguments: d.arguments.clone(),
            times: d.times,
            cycles: all.cycles,
            wait_cycles: wait,
            accesses: cold.accesses * (1.0 - near) * (1.0 - far) + there.accesses * far,
            dram_accesses: dram,
            at: d.at,
            formulas: (cost.cycles.to_string(), cost.accesses.to_string()),
            provenance: (cost.provenance, cost.source.clone()),
            error: cost.error,
        });
        Ok(())
    }

    fn take(&mut self, times: f64, lines: f64, level: usize) {
        if let Some(l) = self.lines.get_mut(level) {
            *l += times * lines;
        }
    }

    fn answer(
        self,
        model: &Model,
        profile: &Profile,
        question: &Question,
        (hits, lengths, notes): (Vec<Hits>, Lengths, Vec<String>),
    ) -> Result<Estimate, Fault> {
        let p = self.processor;
        let cores = f64::from(question.cores);
        let cycles = self.work + self.wait;
        let core = cores * p.clock_hz / cycles / 1e6;
        let about = format!(
            "{} cores x {} MHz / {} cycles",
            question.cores,
            short(p.clock_hz / 1e6),
            short(cycles)
        );
        let mut limits = vec![Limit { name: "core".into(), mpps: core, about }];
        limits.extend(self.caches(cores));
        limits.extend(self.memory(cores));
        limits.extend(cards(profile, lengths));
        let least = limits.iter().min_by(|a, b| a.mpps.total_cmp(&b.mpps));
        let (mpps, bottleneck) =
            least.map_or((core, "core".to_owned()), |l| (l.mpps, l.name.clone()));
        let memory = limits
            .iter()
            .filter(|l| l.name.starts_with("memory"))
            .map(|l| l.mpps)
            .min_by(f64::total_cmp);
        // What else bounds is known better than what operations cost.
        let others =
            limits.iter().skip(1).map(|l| l.mpps).min_by(f64::total_cmp).unwrap_or(f64::MAX);
        // Of each operation no more is taken than it has: further work never makes the best case better, since what it
        // may be off adds less to the root of squares than itself to the sum.
        let off = |locality: f64| (self.variance + locality.powi(2)).sqrt().min(cycles * 0.9);
        let at = |cycles: f64| (cores * p.clock_hz / cycles / 1e6).min(others);
        let interval = (at(cycles + off(self.misjudged)), at(cycles - off(self.spared)));
        let g = |mpps| gbps(mpps, question.frame, GIGA);
        Ok(Estimate {
            model: Arc::clone(&model.name),
            profile: Arc::clone(&profile.name),
            mode: Mode::Full,
            frame: question.frame,
            lengths,
            cores: question.cores,
            cycles,
            wait_cycles: self.wait,
            dram_accesses: self.lines.last().copied().unwrap_or(0.0),
            clock_hz: p.clock_hz,
            operations: self.operations,
            bottleneck,
            rates: Rates {
                core_mpps: core,
                core_gbps: g(core),
                memory_mpps: memory,
                memory_gbps: memory.map(g),
                mpps,
                gbps: g(mpps),
            },
            interval_mpps: interval,
            interval_gbps: (g(interval.0), g(interval.1)),
            hits,
            needed: None,
            limits,
            quoted: Vec::new(),
            notes,
        })
    }

    /// What each cache beyond the nearest can give.
    fn caches(&self, cores: f64) -> Vec<Limit> {
        let p = self.processor;
        let one = |(level, cache): (usize, &crate::profile::Cache)| {
            let lines = self.lines.get(level).copied().filter(|l| *l > SEEN)?;
            let bytes = cache.bytes_per_cycle?;
            let mpps = cores * bytes * p.clock_hz / (lines * p.line_bytes) / 1e6;
            let about = format!(
                "{} lines a frame, {} bytes a cycle for each core",
                short(lines),
                short(bytes)
            );
            Some(Limit { name: cache.name.to_string(), mpps, about })
        };
        p.caches.iter().enumerate().skip(1).filter_map(one).collect()
    }

    /// What main memory can give: by what a core can have under way, and by its channels.
    fn memory(&self, cores: f64) -> Vec<Limit> {
        let p = self.processor;
        let Some(lines) = self.lines.last().copied().filter(|l| *l > SEEN) else {
            return Vec::new();
        };
        let seconds = p.memory.latency_s + self.far * p.memory.remote_s;
        let under_way = Limit {
            name: "memory latency".into(),
            mpps: cores * p.outstanding / (lines * seconds) / 1e6,
            about: format!(
                "{} lines a frame, {} under way for each core, {} ns",
                short(lines),
                short(p.outstanding),
                short(seconds * 1e9)
            ),
        };
        let sockets = (cores / f64::from(p.cores_per_socket)).ceil().min(f64::from(p.sockets));
        let bandwidth = p.memory.bandwidth() * sockets;
        let channels = Limit {
            name: "memory bandwidth".into(),
            mpps: bandwidth / (lines * p.line_bytes) / 1e6,
            about: format!("{} lines a frame, {} GB/s", short(lines), short(bandwidth / 1e9)),
        };
        vec![under_way, channels]
    }
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
