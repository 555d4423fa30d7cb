//! What a frame costs on a processor, added up operation by operation, and what each resource bounds then.
//!
//! Room: the mode `full` on processors, where it is known how far lookups go.

use super::super::charge::{Case, Charge, Tariff};
use super::super::expand::Done;
use super::super::paper::short;
use super::super::{Estimate, GIGA, Hits, Lengths, Limit, Line, Mode, Numa, Question, Rates, gbps};
use super::tables::Levels;
use super::{cards, mentions};
use crate::fault::Fault;
use crate::locality::ERROR;
use crate::model::Model;
use crate::operation::{Touches, Where};
use crate::profile::{Processor, Profile, Shared};
use std::sync::Arc;

/// Fewer lines a frame than this are none: what is left of a subtraction.
const SEEN: f64 = 1e-6;

/// How far the lookups of a table go.
pub(super) struct Found<'s> {
    pub(super) levels: &'s Levels,
    /// The part whose address is translated by a walk.
    pub(super) walks: f64,
    /// Cycles of a load that no cache of the core's own answers, where it was measured over sizes.
    pub(super) strewn: Option<f64>,
}

/// What a frame costs, added up.
pub(in super::super) struct Sum<'q> {
    processor: &'q Processor,
    /// The part of the frames that came in at another socket.
    far: f64,
    pub(in super::super) work: f64,
    pub(in super::super) wait: f64,
    /// Lines from each level, main memory last.
    lines: Vec<f64>,
    /// Squares of what each operation's cycles may be off.
    variance: f64,
    /// What misjudged locality may add.
    misjudged: f64,
    /// What it may take: no operation waits less than not at all.
    spared: f64,
    pub(in super::super) operations: Vec<Line>,
    /// Cycles from a core's frame to its next.
    pub(super) pace: f64,
    /// Frames that a source in memory plays over and over.
    played: f64,
}

impl<'q> Sum<'q> {
    pub(super) fn new(processor: &'q Processor, question: &Question) -> Self {
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

    pub(super) fn add(
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

    pub(super) fn answer(
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
