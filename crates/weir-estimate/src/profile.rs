//! Profiles: a machine as 002's figure 2 describes it (cores, clocks, caches, memory, network cards,
//! sockets), and what each elementary operation costs on it.
//!
//! Room: hardware, without a word of any network function. Read from `profiles/*.toml` by `read`
//! below; asked by the estimator.

mod reading;
mod residence;

pub use residence::Residence;

use crate::fault::Fault;
use crate::formula::Formula;
use crate::operation::Operations;
use crate::read::document;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A machine, and what operations cost on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub about: String,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// The file, for errors.
    pub file: Arc<str>,
    /// The CPU's name as its kernel gives it, where the profile was measured on one.
    pub calibrated_on: Option<String>,
    /// What computes.
    pub hardware: Hardware,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// Power in watts, where it is known.
    pub power: Option<Power>,
    /// What each operation costs.
    pub costs: BTreeMap<Arc<str>, Cost>,
    /// The conventions of the paper's own figures, where it used this machine.
    pub paper: Option<Convention>,
    /// The paper's formulas as printed.
    pub corrected: Option<Convention>,
    /// What the paper published, by model.
    pub published: BTreeMap<Arc<str>, Published>,
    /// What tasks lose that share a core, where it is known.
    pub contention: Option<Contention>,
}

/// What computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Hardware {
    /// Cores with caches.
    Processor(Processor),
    /// Stages through which frames flow word by word.
    Pipeline(Pipeline),
}

/// Cores with caches and memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// Sockets.
    pub sockets: u32,
    /// Cores of each.
    pub cores_per_socket: u32,
    /// Clock in Hz.
    pub clock_hz: f64,
    /// Bytes of a cache line.
    pub line_bytes: f64,
    /// Cache misses that a core can have under way at once.
    pub outstanding: f64,
    /// What waits are to be multiplied with: 1, but for what refinement learned.
    pub wait_factor: f64,
    /// Buffers of frames that a core's ports use in turn.
    pub buffers: f64,
    /// Caches, nearest first.
    pub caches: Vec<Cache>,
    /// Main memory, of one socket.
    pub memory: Memory,
    /// What pages of the usual size add, where it is known.
    pub tlb: Option<Tlb>,
    /// Loads spread over so much, in pages of the usual size, that no cache of the core's own answers: smallest
    /// first, where it is known.
    pub strewn: Vec<Strewn>,
    /// How long lines stay in a cache that others fill, too, where it is known: while the rest was measured.
    pub residence: Option<Residence>,
    /// How long they do now, where that has been looked at since. No profile's.
    pub now: Option<Residence>,
}

/// What loads take that are spread over so much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strewn {
    /// Bytes.
    pub bytes: f64,
    /// Cycles until data can be used that is in no cache of the core's own.
    pub cycles: f64,
    /// Seconds in which the measurement came round once: one load after the other, each line once. By the clock that
    /// it was measured at, whatever clock is asked about.
    pub round_s: f64,
}

impl Processor {
    /// Cycles until data can be used that no cache of the core's own holds, of so many bytes that are asked for:
    /// between what was measured, a straight line over the logarithm of the size.
    pub fn strewn_over(&self, bytes: f64) -> Option<f64> {
        let after = self.strewn.partition_point(|s| s.bytes < bytes);
        let (low, high) = (after.checked_sub(1), self.strewn.get(after));
        match (low.and_then(|l| self.strewn.get(l)), high) {
            (Some(l), Some(h)) => Some(between((l.bytes, l.cycles), (h.bytes, h.cycles), bytes)),
            (one, other) => one.or(other).map(|s| s.cycles),
        }
    }

    /// The part of the lines that others have taken, of those that were touched so many seconds ago.
    pub fn taken(&self, seconds: f64) -> f64 {
        self.now.as_ref().or(self.residence.as_ref()).map_or(0.0, |r| r.taken(seconds))
    }

    /// As [`Processor::strewn_over`], of lines that were touched so many seconds ago. What was measured was measured
    /// at a pace of its own: one load after the other, each line once in a round.
    pub fn strewn_after(&self, bytes: f64, seconds: f64) -> Option<f64> {
        let Some(r) = &self.residence else { return self.strewn_over(bytes) };
        let (taken, least) = (self.taken(seconds), self.strewn.first()?.cycles);
        let mut before: Option<(f64, f64)> = None;
        for s in &self.strewn {
            // Put right where it was measured: between two sizes neither had as many lines taken as a line through
            // both would say. What is spread over more is not nearer.
            let near = least.min(s.cycles);
            let cycles = r.load_where(s.bytes, taken, (near, s.cycles), s.round_s);
            let cycles = before.map_or(cycles, |b| cycles.max(b.1));
            if s.bytes >= bytes {
                return Some(before.map_or(cycles, |b| between(b, (s.bytes, cycles), bytes)));
            }
            before = Some((s.bytes, cycles));
        }
        before.map(|b| b.1)
    }
}

/// A straight line over the logarithm of the size, from one size and its cycles to a larger one's.
fn between(low: (f64, f64), high: (f64, f64), bytes: f64) -> f64 {
    low.1 + (high.1 - low.1) * (bytes / low.0).ln() / (high.0 / low.0).ln()
}

/// The cache of translations of addresses, as far as loads feel it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tlb {
    /// Bytes of a page.
    pub page_bytes: f64,
    /// Bytes that translations at hand cover.
    pub reach_bytes: f64,
    /// Cycles that a load adds whose translation is not at hand.
    pub miss_cycles: f64,
}

/// A level of cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Its name in formulas: `l1`, `l2`, `l3`.
    pub name: Arc<str>,
    /// Bytes.
    pub bytes: f64,
    /// Lines of a set.
    pub ways: u32,
    /// Cycles until data from it can be used.
    pub latency_cycles: f64,
    /// Bytes it gives a core in a cycle, where it is known.
    pub bytes_per_cycle: Option<f64>,
    /// Loads from it that a core can have under way at once, where it is known.
    pub outstanding: Option<f64>,
    /// Who shares it.
    pub shared: Shared,
}

/// Who shares a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Each core has its own.
    Core,
    /// The cores of a socket.
    Socket,
}

/// Main memory of a socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Channels.
    pub channels: u32,
    /// Transfers per second of a channel.
    pub rate: f64,
    /// Bytes of a transfer.
    pub bus_bytes: f64,
    /// CAS latency in cycles of the memory's clock, half its transfers.
    pub cas: Option<f64>,
    /// Seconds from a miss in the last cache until data can be used.
    pub latency_s: f64,
    /// Bytes.
    pub bytes: f64,
    /// Additional seconds to another socket's memory.
    pub remote_s: f64,
}

impl Memory {
    /// Bytes per second of all channels.
    pub fn bandwidth(&self) -> f64 {
        f64::from(self.channels) * self.rate * self.bus_bytes
    }
}

/// A pipeline in hardware: 004's card.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Bytes that it takes in a cycle.
    pub width_bytes: f64,
    /// Clock in Hz.
    pub clock_hz: f64,
    /// Stages, in order.
    pub stages: Vec<Arc<str>>,
    /// Cycles that each stage takes beyond the frame's own words, for the latency.
    pub stage_cycles: f64,
    /// Entries of its TCAM.
    pub tcam_entries: Option<f64>,
    /// The way to software.
    pub software: Option<Software>,
}

/// A pipeline's way to software: what it can't do itself is done there.
#[derive(Clone, Debug, PartialEq)]
pub struct Software {
    /// Channels.
    pub channels: u32,
    /// Bytes per second of all channels, each way.
    pub bandwidth: f64,
    /// The profile of the host, by name.
    pub host: Arc<str>,
}

/// A network card.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Ports.
    pub ports: u32,
    /// Bits per second of a port.
    pub rate: f64,
    /// Frames per second of the whole card, where it is less than its ports would allow.
    pub frames: Option<f64>,
    /// Bytes per second of its bus, each way.
    pub bus: Option<f64>,
    /// Its socket.
    pub socket: u32,
}

/// Power in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// When on, and idle.
    pub idle: f64,
    /// For each busy core.
    pub core: f64,
}

/// What an operation costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Cycles. Names: the operation's parameters, the coefficients, each cache's latency by its name,
    /// `line`, `burst`, the frames that are processed together, and `cold`: 1 where the data is not in
    /// the nearest cache, else 0.
    pub cycles: Formula,
    /// Accesses beyond the nearest cache, in lines.
    pub accesses: Formula,
    /// The cost when the frame came by another socket's card.
    pub remote: Option<(Formula, Formula)>,
    /// Named numbers of the formulas: what calibration measures and refinement corrects.
    pub coefficients: Vec<(Arc<str>, f64)>,
    /// Accesses that a core has under way at once in a burst of this operation, where it was measured.
    pub parallel: Option<f64>,
    /// How that goes on where loads take longer than where it was measured.
    pub beyond: Option<Deeper>,
    /// The stage of a pipeline that does it; nothing on a processor.
    pub stage: Option<usize>,
    /// Half the width of the interval around the cycles, as a part of them.
    pub error: f64,
    /// How the figures came to be.
    pub provenance: Provenance,
    /// Where they come from.
    pub source: String,
}

/// Accesses under way at once where loads take longer: the longer, the more of what follows a core begins meanwhile, unless
/// each hangs on the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deeper {
    /// Cycles of a load where [`Cost::parallel`] was measured.
    pub from: f64,
    /// Cycles of a load there.
    pub to: f64,
    /// Accesses under way there.
    pub parallel: f64,
}

impl Cost {
    /// Accesses under way at once where a load takes so many cycles; nothing where that was not measured.
    ///
    /// What is waited for an access follows a line through both measurements; before the nearer one, as many are under
    /// way as there, and everywhere where the two are no octave apart: a line through those says what noise was.
    pub fn under_way(&self, cycles: f64) -> Option<f64> {
        let near = self.parallel?;
        let Some(Deeper { from, to, parallel }) = self.beyond.filter(|d| 2.0 * d.from <= d.to)
        else {
            return Some(near);
        };
        if cycles <= from {
            return Some(near);
        }
        let wait = from / near;
        // Nobody waits less where data is farther away.
        let more = (to / parallel - wait).max(0.0);
        Some(cycles / (wait + more * (cycles - from) / (to - from)))
    }
}

/// How a figure came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Printed in a publication.
    Published,
    /// Computed from published figures.
    Derived,
    /// Chosen so that a published figure comes out.
    Fitted,
    /// Measured.
    Measured,
    /// Supposed, for want of better.
    Assumed,
}

impl Provenance {
    /// As written in files.
    pub const NAMES: &[(&str, Provenance)] = &[
        ("published", Provenance::Published),
        ("derived", Provenance::Derived),
        ("fitted", Provenance::Fitted),
        ("measured", Provenance::Measured),
        ("assumed", Provenance::Assumed),
    ];
    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }
}

/// How figures are computed where a mode asks for its own way.
#[derive(Clone, Debug, PartialEq)]
pub struct Convention {
    /// Clock in Hz.
    pub clock_hz: f64,
    /// Millions of bits that make one thousand of them: 1000, or the paper's 1024.
    pub giga: f64,
    /// Names of formulas that mean something else.
    pub constants: Vec<(Arc<str>, f64)>,
    /// Decimals of published figures.
    pub decimals: Option<u32>,
    /// Half the width of the interval, as a part of the rate.
    pub error: f64,
    /// Why.
    pub source: String,
}

/// What the paper published of a model on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Transfers of the memory's data rate for a frame, fitted to the published rate.
    pub transfers: Option<f64>,
    /// With how many accesses that holds.
    pub accesses: Option<f64>,
    /// The figures that were cut and not rounded.
    pub cut: Vec<String>,
    /// Decimals, where they are not the mode's.
    pub decimals: Option<u32>,
    /// Figures that can't be derived.
    pub quoted: Vec<Quoted>,
    /// Where.
    pub source: String,
}

/// A figure of the paper that can't be derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Quoted {
    /// Which.
    pub figure: String,
    /// Cores it holds for.
    pub cores: u32,
    /// Bytes of a frame it holds for.
    pub frame: f64,
    /// The figure.
    pub value: f64,
    /// Where, and why it can't be derived.
    pub source: String,
}

/// What tasks lose that share a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Contention {
    /// Cycles of a change of context.
    pub context_cycles: f64,
    /// Seconds between two of them.
    pub timeslice_s: f64,
    /// How the figures came to be.
    pub provenance: Provenance,
    /// Where they come from.
    pub source: String,
}

impl Profile {
    /// Reads one; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn read(file: &str, text: &str, operations: &Operations) -> Result<Self, Fault> {
        document(file, text, |top| reading::profile(top, operations))
    }

    /// Cores of all sockets; none of a pipeline.
    pub fn cores(&self) -> u32 {
        match &self.hardware {
            Hardware::Processor(p) => p.sockets * p.cores_per_socket,
            Hardware::Pipeline(_) => 0,
        }
    }

    /// Bits per second of all ports.
    pub fn line_rate(&self) -> f64 {
        self.nics.iter().map(|n| f64::from(n.ports) * n.rate).sum()
    }
}
