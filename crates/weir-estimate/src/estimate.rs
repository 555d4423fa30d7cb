//! The estimator: a model, a profile and a question in; rates, what binds them, and an interval out.
//!
//! Room: arithmetic. `expand` makes one list of operations from a model, `charge` says what each costs,
//! `paper` adds them up as 002 does, `full` with locality, waits and every bound. Called by the binary,
//! by placement and by sweeps.

mod charge;
mod expand;
mod full;
mod paper;
mod pipeline;
mod size;
mod target;

pub use charge::Charge;
pub(crate) use full::cards;
pub use size::Lengths;
pub(crate) use target::fewest;

use crate::fault::Fault;
use crate::locality::Memo;
use crate::model::Library;
use crate::operation::Where;
use crate::profile::{Hardware, Processor, Profile, Provenance};
use crate::quantity::apart;
use crate::traffic::Traffic;
use std::sync::Arc;

/// Shortest and longest frame, with FCS, in bytes: Ethernet's shortest, and IP's longest packet.
pub const FRAME_BYTES: (u32, u32) = (64, 65_535);
/// Bytes on the wire that are no part of a frame: preamble and gap (IEEE 802.3).
pub const WIRE_BYTES: f64 = 20.0;
/// Ethernet's header and FCS.
pub const ETHERNET_BYTES: f64 = 18.0;
/// Millions of bits that make a thousand of them.
const GIGA: f64 = 1000.0;
/// Most cores that may be asked for.
pub const MAX_CORES: u32 = 65_536;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// By which conventions.
    pub mode: Mode,
    /// Bytes of a frame as it comes in, FCS included.
    pub frame: u32,
    /// Cores.
    pub cores: u32,
    /// The traffic; nothing for the worst that the tables allow: every entry alike.
    pub traffic: Option<Traffic>,
    /// Where frames come in.
    pub numa: Numa,
    /// Frames that are processed together.
    pub burst: u32,
    /// Frames that a source in memory plays over and over, instead of a card's buffers: the core that
    /// copies them has all their lines pass its caches.
    pub played: Option<f64>,
    /// What pages tables are in.
    pub pages: Pages,
    /// Parameters of the model.
    pub settings: Vec<(String, f64)>,
    /// What shall be reached.
    pub target: Option<Target>,
    /// The model of what a frame passes on its way to the function and from it, as a switch's virtual
    /// data plane: it comes first, and what it does the function need not do again.
    pub through: Option<Arc<str>>,
    /// Where a pipeline's software runs, and on how many cores: [`Question::cores`] of it.
    pub host: Option<Arc<Profile>>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            mode: Mode::Full,
            frame: FRAME_BYTES.0,
            cores: 1,
            traffic: None,
            numa: Numa::Local,
            burst: 1,
            played: None,
            pages: Pages::Small,
            settings: Vec::new(),
            target: None,
            through: None,
            host: None,
        }
    }
}

/// By which conventions figures are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the paper did, to the digit.
    Paper,
    /// The paper's formulas as printed, with a decimal clock.
    Corrected,
    /// With locality, parallelism, bandwidths and cards.
    Full,
}

impl Mode {
    /// As it is written.
    pub const NAMES: &[(&str, Mode)] =
        &[("paper", Mode::Paper), ("corrected", Mode::Corrected), ("full", Mode::Full)];
    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }
}

/// Where frames come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numa {
    /// At the socket that processes them.
    Local,
    /// At any socket alike (002 §4.2).
    Spread,
}

/// What pages tables are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The usual size: translations are walked for where a profile knows what that takes.
    Small,
    /// So large that translations are always at hand.
    Huge,
}

/// A rate to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Millions of frames per second.
    Mpps(f64),
    /// Thousands of millions of bits per second, on the wire.
    Gbps(f64),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The model.
    pub model: Arc<str>,
    /// The profile.
    pub profile: Arc<str>,
    /// By which conventions.
    pub mode: Mode,
    /// Bytes of a frame as it comes in, FCS included: rates in bits are of these.
    pub frame: u32,
    /// How long frames are on both sides. The paper knows one length.
    pub lengths: Lengths,
    /// Cores.
    pub cores: u32,
    /// Cycles for a frame, waits included.
    pub cycles: f64,
    /// Of these, those that wait for data.
    pub wait_cycles: f64,
    /// Accesses to main memory for a frame.
    pub dram_accesses: f64,
    /// Clock in Hz.
    pub clock_hz: f64,
    /// Each operation.
    pub operations: Vec<Line>,
    /// What bounds the rate.
    pub limits: Vec<Limit>,
    /// The binding one, by its name.
    pub bottleneck: String,
    /// Rates.
    pub rates: Rates,
    /// The interval around the rate, in Mpps.
    pub interval_mpps: (f64, f64),
    /// The same in Gbps.
    pub interval_gbps: (f64, f64),
    /// The part of the accesses to each table that each cache answers.
    pub hits: Vec<Hits>,
    /// What a target takes.
    pub needed: Option<Needed>,
    /// Figures of the paper that can't be derived.
    pub quoted: Vec<crate::profile::Quoted>,
    /// What whoever reads the figures should know.
    pub notes: Vec<String>,
}

/// Rates: Mpps, and Gbps on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// By the cores.
    pub core_mpps: f64,
    /// The same in Gbps.
    pub core_gbps: f64,
    /// By main memory, where it is known.
    pub memory_mpps: Option<f64>,
    /// The same in Gbps.
    pub memory_gbps: Option<f64>,
    /// By what binds.
    pub mpps: f64,
    /// The same in Gbps.
    pub gbps: f64,
}

/// A bound on the rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Mpps.
    pub mpps: f64,
    /// How it comes about.
    pub about: String,
}

/// An operation in an estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The operation.
    pub eo: Arc<str>,
    /// The model it stands in, and its line there.
    pub place: (Arc<str>, usize),
    /// Its arguments.
    pub arguments: Vec<(Arc<str>, f64)>,
    /// How often it is done for a frame.
    pub times: f64,
    /// Cycles each time, waits not included.
    pub cycles: f64,
    /// Cycles each time that wait for data.
    pub wait_cycles: f64,
    /// Accesses beyond the nearest cache each time.
    pub accesses: f64,
    /// Of these, those that main memory answers.
    pub dram_accesses: f64,
    /// Where its data is.
    pub at: Where,
    /// The formula of its cycles, and of its accesses.
    pub formulas: (String, String),
    /// How its cost came to be, and where it stands.
    pub provenance: (Provenance, String),
    /// Half the width of the interval around its cycles, as a part of them.
    pub error: f64,
}

/// How the accesses to a table spread over the levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// The table.
    pub table: String,
    /// The part that each level answers, nearest first, main memory last.
    pub levels: Vec<(String, f64)>,
}

/// What a target takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Needed {
    /// The target in Mpps.
    pub mpps: f64,
    /// Cores, where any number is enough.
    pub cores: Option<u32>,
    /// What no number of cores mends.
    pub hindered_by: Option<String>,
}

/// Answers a question.
///
/// # Errors
/// A model that is not known or uses itself; an operation that the profile has no cost for; a setting
/// that is not the model's; a frame or a number of cores out of range; a mode that the profile does
/// not have.
pub fn estimate(
    library: &Library,
    name: &str,
    profile: &Profile,
    question: &Question,
) -> Result<Estimate, Fault> {
    estimate_again(library, name, profile, question, &Memo::default())
}

/// As [`estimate()`], for whoever asks many times: `memo` keeps what locality has worked out.
///
/// # Errors
/// Those of [`estimate()`].
pub fn estimate_again(
    library: &Library,
    name: &str,
    profile: &Profile,
    question: &Question,
    memo: &Memo,
) -> Result<Estimate, Fault> {
    let wrong = |text: String| Err(Fault::new("question", text));
    let (shortest, longest) = FRAME_BYTES;
    if !(shortest..=longest).contains(&question.frame) {
        let text = format!("frame = {}: expected {shortest} to {longest} bytes", question.frame);
        return wrong(text);
    }
    if !(1..=MAX_CORES).contains(&question.cores) {
        return wrong(format!("cores = {}: expected 1 to {MAX_CORES}", question.cores));
    }
    if !(1..=4096).contains(&question.burst) {
        return wrong(format!("burst = {}: expected 1 to 4096 frames", question.burst));
    }
    let model = library.model(name)?;
    let ask = |question: &Question| match question.mode {
        Mode::Paper | Mode::Corrected => paper::estimate(library, model, profile, question),
        Mode::Full => match &profile.hardware {
            Hardware::Processor(p) => full::estimate(library, model, profile, p, question, memo),
            Hardware::Pipeline(p) => pipeline::estimate(library, model, profile, p, question),
        },
    };
    let mut answer = ask(question)?;
    if let Some(target) = question.target {
        let mut with = |cores| ask(&Question { cores, ..question.clone() });
        let needed = target::needed(target, profile, &answer, &mut with)?;
        answer.notes.extend(target_beyond(profile, question, &needed));
        answer.needed = Some(needed);
    }
    Ok(answer)
}

/// Gbps on the wire of so many Mpps; `giga` millions of bits make a thousand of them.
pub fn gbps(mpps: f64, frame: u32, giga: f64) -> f64 {
    mpps * (f64::from(frame) + WIRE_BYTES) * 8.0 / giga
}

/// Says so where more cores are asked for than a profile's machine has; nothing of a pipeline, which has none.
pub fn cores_beyond(profile: &Profile, asked: u32) -> Option<String> {
    let has = profile.cores();
    (has > 0 && asked > has)
        .then(|| format!("{asked} cores are asked for, and the machine has {has}"))
}

/// Says so where tables are larger than all of a machine's memory.
fn memory_beyond(processor: &Processor, table_bytes: f64) -> Option<String> {
    let has = processor.memory.bytes * f64::from(processor.sockets);
    (table_bytes > has).then(|| {
        let [take, has] = apart([table_bytes / 1e9, has / 1e9], 0);
        format!("tables take {take} GB of memory, and the machine has {has}")
    })
}

/// Says so where no cards are known, and frames come faster than memory could move them: nothing counts their bytes.
fn links_beyond(profile: &Profile, processor: &Processor, gbps: f64) -> Option<String> {
    let moved = processor.memory.bandwidth() * f64::from(processor.sockets) * 8.0 / 1e9;
    (profile.nics.is_empty() && gbps > moved).then(|| {
        let [rate, moved] = apart([gbps, moved], 0);
        format!(
            "links are no limit without [[nic]]: {rate} Gbps of frames are more than the {moved} that memory moves"
        )
    })
}

/// Bytes of a chunk that are no frame's, of AF_XDP's longest chunks, and of the longest that weir knows.
const CHUNK_BYTES: (u32, u32, u32) = (264, 4096, 32768);
/// Bytes of a frame check sequence, which is in a frame's length and in no chunk.
const FCS_BYTES: u32 = 4;

/// Says so where frames go through a VDP and are longer than a chunk: a frame lives in one.
fn chunk_beyond(question: &Question) -> Option<String> {
    question.through.as_ref().filter(|m| m.starts_with("vdp-"))?;
    let (taken, xdp, longest) = CHUNK_BYTES;
    let holds = |chunk: u32| chunk - taken + FCS_BYTES;
    let frame = question.frame;
    if frame > holds(longest) {
        let most = holds(longest);
        return Some(format!("no VDP carries frames of {frame} bytes: the longest have {most}"));
    }
    (frame > holds(xdp)).then(|| {
        format!(
            "frames of {frame} bytes don't go over AF_XDP, whose longest have {}: a VDP takes them from other ports, with \
             a larger chunk_bytes",
            holds(xdp)
        )
    })
}

/// The same of the cores that a target takes: a pipeline's are its host's.
fn target_beyond(profile: &Profile, question: &Question, needed: &Needed) -> Option<String> {
    let cores = needed.cores?;
    let beyond = |has: u32| has > 0 && cores > has;
    if beyond(profile.cores()) {
        let has = profile.cores();
        return Some(format!("the target takes {cores} cores, and the machine has {has}"));
    }
    let host = question.host.as_ref().filter(|h| profile.cores() == 0 && beyond(h.cores()))?;
    let has = host.cores();
    Some(format!("the target takes {cores} cores, and the host ({}) has {has}", host.name))
}

/// Bytes of a model's tables, and of those of the models that it uses.
///
/// # Errors
/// Those of [`estimate`], as far as they are the model's.
pub fn table_bytes(library: &Library, name: &str, question: &Question) -> Result<f64, Fault> {
    let model = library.model(name)?;
    let traffic = full::traffic_of(library, model, question)?;
    let question = Question { traffic: Some(traffic), ..question.clone() };
    let done = expand::expand(library, model, &question, &|_, _| Ok(0.0))?;
    expand::table_bytes(&done, &question)
}
