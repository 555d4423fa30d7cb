//! Ground truth: devices with one configured fault each, the module that must name it, and how it must be said.
//!
//! Room: data and pure functions; a result in, a judgement out. Who measures is a test (in virtual time) or the
//! example `ground_truth` (both in virtual time and against processes of `weir dut`). An instrument is trusted
//! for what it says of things that are known already.
//!
//! A fault that makes a statement untrue must make its verdict fail, and no other verdict. What a thing merely
//! takes, or holds, is no lie: it must stand in the verdict, in words or as a figure, and be what was configured.
//!
//! - [`cases`]: a case for each fault that a profile can have.

pub mod cases;

use crate::document::{Document, Dut, Outcome, Verdict};
use crate::dut::profile::{Profile, ProfileError};
use crate::engine::configured::Configured;
use crate::engine::simulation::{EPOCH, World, simulate};
use crate::engine::{Core, Settings};
use crate::environment::Environment;
use crate::module::{Depth, Params};
use weir_openflow::model::Version;
use weir_packet::Nanos;

/// A module's parameters.
pub type Set = &'static [(&'static str, &'static str)];

/// A fault, and how it must be found.
#[derive(Clone, Debug)]
pub struct Case {
    /// The fault, as [`Profile::faults`] calls it; or the name of a profile that comes along.
    pub fault: String,
    /// The profile's tables, as TOML; `None`: it comes along.
    pub profile: Option<String>,
    /// The module that can see it.
    pub module: &'static str,
    /// Its parameters, beside those for short measurements.
    pub set: Set,
    /// What it must say.
    pub must: Must,
    /// The one version that is offered; `None`: all.
    pub offers: Option<Version>,
}

/// What must be found.
#[derive(Clone, Debug)]
pub enum Must {
    /// Exactly these verdicts fail (none: it must not be seen), and the first says this of it.
    Fail(&'static [&'static str], &'static str),
    /// No verdict fails; this one says this.
    Say(&'static str, &'static str),
    /// No verdict fails; this one rests on a figure that was configured.
    Tell(&'static str, &'static str, Figure),
    /// As [`Must::Fail`] of one verdict, resting on a figure that was configured.
    FailBy(&'static [&'static str], &'static str, Figure),
    /// There is no result, and the reason has these words.
    Refuse(&'static str),
}

/// A figure that was configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its value, in the verdict's unit.
    pub want: f64,
    /// It may be off by so much, or by 5 %, whichever is more.
    pub by: f64,
}

/// What was found as it must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The verdict's words, or the reason why there is no result.
    pub said: String,
    /// The figure, where one was configured.
    pub figure: Option<f64>,
}

impl Case {
    /// The device.
    ///
    /// # Errors
    /// The tables are none: this crate's mistake.
    pub fn device(&self) -> Result<Profile, ProfileError> {
        let fault = &self.fault;
        let Some(tables) = &self.profile else { return Profile::builtin(fault) };
        let text = format!("name = \"{fault}\"\nabout = \"has one fault: {fault}\"\n{tables}\n");
        Profile::read(fault, &text)
    }

    /// Whether the result is as it must be.
    ///
    /// # Errors
    /// What is missing or too much, in words.
    pub fn judge(&self, result: &Result<Document, String>) -> Result<Found, String> {
        let d = match (result, &self.must) {
            (Err(why), Must::Refuse(words)) if why.contains(words) => {
                return Ok(Found { said: why.clone(), figure: None });
            }
            (Err(why), _) => return Err(format!("no result: {why}")),
            (Ok(_), Must::Refuse(words)) => {
                return Err(format!("there is a result, and none was expected: '{words}'"));
            }
            (Ok(d), _) => d,
        };
        let (fails, id, words, figure): (&[&str], &str, &str, _) = match self.must {
            Must::Fail(fails, words) => (fails, first(fails), words, None),
            Must::FailBy(fails, what, figure) => (fails, first(fails), "", Some((what, figure))),
            Must::Say(id, words) => (&[], id, words, None),
            Must::Tell(id, what, figure) => (&[], id, "", Some((what, figure))),
            Must::Refuse(_) => return Err("there is a result".to_owned()),
        };
        let found = failing(d);
        if found != fails {
            return Err(format!("{found:?} fail, and {fails:?} must: {}", sentences(d)));
        }
        if id.is_empty() {
            return Ok(Found::default());
        }
        let Some(v) = d.verdicts.iter().find(|v| v.id == id) else {
            return Err(format!("there is no verdict {id}"));
        };
        if !v.sentence.contains(words) {
            return Err(format!("{id} does not say '{words}': {}", v.sentence));
        }
        let Some((what, figure)) = figure else {
            return Ok(Found { said: v.sentence.clone(), figure: None });
        };
        let value = v.evidence.iter().find(|e| e.what == what).and_then(|e| e.value);
        match value {
            Some(got) if figure.is_met(got) => {
                Ok(Found { said: v.sentence.clone(), figure: Some(got) })
            }
            _ => Err(format!("{id}: {what} is {value:?}, and {} was configured", figure.want)),
        }
    }
}

/// A module on a device, in virtual time. Runs differ by the device's seed and by where in the probes' round
/// messages arrive: the control channel takes [`control_ns`] of it.
///
/// # Errors
/// Why there is no result; parameters that the module has not.
pub fn simulated(
    mut device: Profile,
    offers: Option<Version>,
    (module, set): (&str, Set),
    run: u64,
) -> Result<Document, String> {
    let entry = crate::modules::find(module).ok_or_else(|| format!("no module '{module}'"))?;
    let mut params = Params::defaults(&entry.about, Depth::Quick).map_err(|e| e.to_string())?;
    for (name, value) in set {
        params.set(name, value).map_err(|e| format!("{name}={value}: {e}"))?;
    }
    let dut = Dut { name: device.name.clone(), ..Dut::default() };
    let document = Document::new(module, &entry.about.asks, dut, Environment::nowhere());
    let names = ["a", "b"].iter().take(entry.about.channels).map(|n| (*n).to_owned());
    let settings = Settings::new(names.collect());
    let core = Core::new(settings, (entry.make)(&params), params, document, EPOCH);
    device.seed = device.seed.wrapping_add(run.wrapping_mul(0x9e37_79b9));
    let mut dut = Configured::new(device);
    if let Some(version) = offers {
        dut = dut.speaking(version);
    }
    let (control, state) = (Nanos(control_ns(run)), Some(STATE));
    let world = World { control, state, ..World::default() };
    simulate(core, &mut dut, world)
}

/// How often a device's agent is asked, so that short measurements have some answers.
const STATE: Nanos = Nanos::from_millis(100);

/// How long the control channel takes one way in that run: 20 to 100 µs, a round of probes at their usual rate.
pub fn control_ns(run: u64) -> u64 {
    20_000 + run.wrapping_mul(7_919) % 80_000
}

impl Figure {
    /// Whether `got` is within its tolerance.
    pub fn is_met(&self, got: f64) -> bool {
        (got - self.want).abs() <= self.by.max(self.want.abs() * 0.05)
    }
}

fn first(fails: &[&'static str]) -> &'static str {
    fails.first().copied().unwrap_or_default()
}

/// Names of the verdicts that fail, in the document's order.
pub fn failing(d: &Document) -> Vec<&str> {
    let fails = d.verdicts.iter().filter(|v| v.outcome == Outcome::Fails);
    fails.map(|v| v.id.as_str()).collect()
}

/// All that verdicts say, for whoever must find out why.
pub fn sentences(d: &Document) -> String {
    let one = |v: &Verdict| format!("{} {}: {}", v.id, v.outcome.word(), v.sentence);
    d.verdicts.iter().map(one).collect::<Vec<_>>().join(" | ")
}
