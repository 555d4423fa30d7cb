//! The result of a measurement as data: what `weir measure` writes and `weir report` reads.
//!
//! Room: plain data and its JSON. Touches files in [`Document::save`] and [`Document::load`] only.
//! Filled by the engine and its modules; read by the report and by whoever likes JSON.
//!
//! - [`Document`]: one module, run once on one device under test.
//! - [`figure`]: axes and curves. [`table`]: typed columns. [`distribution`]: percentiles, and the raw
//!   samples they come from. [`verdict`]: what follows, in words.
//! - [`comparison`]: documents of several devices in one file.
//! - [`mod@file`]: to JSON and back, with the samples in files beside it; [`whole`]: all of them or none.
//!
//! Numbers are never formatted here. A value that could not be measured is absent (`null`), not zero.
//! Two documents of the same [`Document::id`] can be laid side by side: their figures, tables and
//! distributions pair by `id`, their curves are told apart by [`Dut::name`].

pub mod comparison;
pub mod distribution;
pub mod figure;
pub mod file;
pub mod table;
pub mod verdict;
pub mod whole;

pub use comparison::Comparison;
pub use distribution::{Distribution, SampleFile, Samples};
pub use figure::{Axis, Figure, Origin, Point, Scale, Series};
pub use file::DocumentError;
pub use table::{Cell, Column, Table};
pub use verdict::{Evidence, Outcome, Verdict};

use crate::environment::Environment;
use serde::{Deserialize, Serialize};

/// The version of the JSON, and of what it means; raised whenever a reader of an older one would be
/// misled. Fields may be added without raising it: readers pass over those they don't know.
pub const SCHEMA: u32 = 1;

/// What stands in `kind`, so that no other JSON is taken for a document.
pub const KIND: &str = "measurement";

/// What one module found on one device under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`KIND`].
    pub kind: String,
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// The module's or study's id, as `weir measure list` has it: `flow-insert`.
    pub id: String,
    /// What it asks, in a few words.
    pub title: String,
    /// The paper's figure or table that it answers: `001 figure 3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// Whose numbers these are: a paper's are laid beside measured ones.
    #[serde(default, skip_serializing_if = "Origin::is_measured")]
    pub origin: Origin,
    /// What was measured.
    pub dut: Dut,
    /// Where, when, by which program and command.
    pub environment: Environment,
    /// How long it took, in seconds, without setting up the device.
    #[serde(default)]
    pub duration_s: f64,
    /// Shorter or fewer than papers and RFCs ask for (`--quick`): good to see that it works.
    #[serde(default)]
    pub quick: bool,
    /// Why the measurement ended before its end; everything in the document is from before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What it was run with, those left at their defaults too.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// What the probes can tell apart in time (001 §4.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeResolution>,
    /// The instrument's own share: the same measured over a direct wire, without the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireFloor>,
    /// What was asked of each generator, and what it really sent.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// Verdicts first, as a reader wants them.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Curves.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Tables.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Distributions.
    #[serde(default)]
    pub distributions: Vec<Distribution>,
    /// What a reader must know to judge the rest, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Document {
    /// An empty one of `id` on `dut`, from `environment`.
    pub fn new(id: &str, title: &str, dut: Dut, environment: Environment) -> Self {
        Self {
            kind: KIND.to_owned(),
            schema: SCHEMA,
            id: id.to_owned(),
            title: title.to_owned(),
            paper: None,
            origin: Origin::Measured,
            dut,
            environment,
            duration_s: 0.0,
            quick: false,
            partial: None,
            parameters: Vec::new(),
            probe: None,
            wire: None,
            loads: Vec::new(),
            verdicts: Vec::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            distributions: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes a parameter; `unit` is empty for a plain number or a word.
    pub fn parameter(&mut self, name: &str, value: impl Into<Cell>, unit: &str) {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        self.parameters.push(Parameter { name, value: value.into(), unit });
    }

    /// Notes a sentence.
    pub fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// Keeps what was recorded under `id`, with the samples for [`Self::save`] to write beside.
    pub fn distribution(&mut self, id: &str, title: &str, samples: Samples) {
        self.distributions.push(samples.into_distribution(id, title));
    }
}

/// The device under test, as it describes itself and as it was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dut {
    /// What a reader calls it, short enough for a legend: `Open vSwitch 3.1`, `early-barrier`.
    pub name: String,
    /// How its control channel was reached: `tcp:127.0.0.1:6653`; empty without one.
    #[serde(default)]
    pub control: String,
    /// The tester's ports that its ports are wired to, in the order of the data channels.
    #[serde(default)]
    pub ports: Vec<String>,
    /// What it says of itself (OpenFlow's description, version, table sizes), name and value. Text
    /// from the wire: whoever shows it escapes it.
    #[serde(default)]
    pub description: Vec<(String, String)>,
}

/// A parameter and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name, as `--set` takes it.
    pub name: String,
    /// Its value.
    pub value: Cell,
    /// Its unit; empty for a plain number or a word.
    #[serde(default)]
    pub unit: String,
}

/// What the probes can tell apart in time: frames at a rate, shared by the flows that are watched
/// (001 §4.2: 100-byte frames at 10 Mb/s are one in 80 µs).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeResolution {
    /// From one probe of a flow to its next, in nanoseconds.
    pub interval_ns: f64,
    /// Probes in a second, over all flows.
    pub rate_pps: f64,
    /// Length of a probe in bytes, without the frame check sequence.
    pub frame_bytes: u32,
    /// Flows that share them.
    pub flows: u32,
}

impl ProbeResolution {
    /// Of probes at a rate, shared round-robin by `flows`.
    pub fn shared(rate_pps: f64, frame_bytes: u32, flows: u32) -> Self {
        let interval_ns = 1e9 / rate_pps * f64::from(flows.max(1));
        Self { interval_ns, rate_pps, frame_bytes, flows }
    }
}

/// Delay over a direct wire, without the device: what no result can be below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireFloor {
    /// Which way: a direct wire of the instrument, or one made for this on the same machine, which has the
    /// floor of the stamps but not of the interfaces that the device is wired to.
    #[serde(default)]
    pub path: String,
    /// Where stamps are taken: `kernel software`, `hardware`, `user space`.
    pub stamps: String,
    /// Frames that it is from.
    pub frames: u64,
    /// Frames that did not come.
    #[serde(default)]
    pub lost: u64,
    /// Median, in nanoseconds.
    pub p50_ns: f64,
    /// 99 of 100 are no longer than this, in nanoseconds.
    pub p99_ns: f64,
    /// The longest, in nanoseconds.
    pub max_ns: f64,
    /// The mean of how much successive frames' delays differ, in nanoseconds (RFC 3393).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<f64>,
    /// The slope of the delays over time, in parts per million: of the receiver's clock against the
    /// sender's. Where one clock takes both stamps, what noise makes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ppm: Option<f64>,
}

/// What a generator was asked for, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The data channel.
    pub channel: String,
    /// Asked for, in frames a second; absent for "as fast as it goes".
    #[serde(default)]
    pub asked_fps: Option<f64>,
    /// Really sent, in frames a second.
    pub sent_fps: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back by any channel.
    pub received: u64,
}

#[cfg(test)]
mod tests;
