//! `weir estimate NF`: one question, one answer.

use super::{Files, capture, explain, json, say, shelf};
use crate::commands::say::{complain, put};
use crate::fault::bad_input;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_calibrate::Machine;
use weir_estimate::estimate::{Mode, Numa, Pages, Target};
use weir_estimate::profile::Hardware;
use weir_estimate::quantity::Dimension;
use weir_estimate::traffic::Traffic;
use weir_estimate::{Library, Profile, Question, estimate};

/// Which function, where, and how to answer.
#[derive(Clone, Debug, clap::Args)]
pub struct AskArgs {
    /// The network function: a name ('weir estimate list'), or a model's file
    #[arg(value_name = "NF")]
    function: Option<String>,
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Every operation with its formula and where it comes from
    #[arg(long)]
    explain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is asked, but for the function.
#[derive(Clone, Debug, clap::Args)]
pub struct QuestionArgs {
    /// The machine: a name ('weir estimate list'), or a profile's file
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// paper: 002's figures to the digit; corrected: its formulas as printed; full: with locality
    #[arg(long, value_name = "MODE", default_value = "full", value_parser = mode)]
    pub mode: Mode,
    /// Bytes of a frame as it comes in, FCS included: what a function adds or takes off is its model's
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub frame: u32,
    /// Cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cores: u32,
    /// How frames are spread over flows: uniform,flows=N or zipf:EXPONENT,flows=N
    #[arg(long, value_name = "SPREAD", value_parser = Traffic::read)]
    pub traffic: Option<Traffic>,
    /// As in a capture: its flows, as often as they stand in it
    #[arg(long, value_name = "FILE", conflicts_with = "traffic")]
    pub pcap: Option<PathBuf>,
    /// Where a hardware pipeline's software runs: a processor's profile; '--cores' are its cores
    #[arg(long, value_name = "P")]
    pub host: Option<String>,
    /// Frames come in at every socket alike, whichever processes them
    #[arg(long)]
    pub numa: bool,
    /// Frames that are processed together
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub burst: u32,
    /// Tables are in huge pages
    #[arg(long)]
    pub huge_pages: bool,
    /// A parameter of the model, as in entries=1000; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, f64)>,
    /// What frames pass on their way to the function: a model, as vdp-rules or vdp-program
    #[arg(long, value_name = "MODEL")]
    pub through: Option<String>,
    /// How many cores it takes to reach a rate, as in 20Mpps or 10Gbps
    #[arg(long, value_name = "RATE", value_parser = target)]
    pub target: Option<Target>,
    #[command(flatten)]
    pub files: Files,
}

fn mode(text: &str) -> Result<Mode, String> {
    shelf::word(text, Mode::NAMES)
}

fn setting(text: &str) -> Result<(String, f64), String> {
    let expected = || format!("'{text}': expected NAME=VALUE, as in entries=1000");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let value = weir_estimate::traffic::number(value).ok_or_else(|| {
        format!("'{text}': expected a number from 0 to less than 1e18, as in entries=64k")
    })?;
    Ok((name.to_owned(), value))
}

fn target(text: &str) -> Result<Target, String> {
    let expected = || format!("'{text}': expected a rate, as in 20Mpps or 10Gbps");
    let kinds = [(Dimension::FrameRate, 1e6), (Dimension::BitRate, 1e9)];
    let ending = |(of, unit): (Dimension, f64)| {
        let (digits, base) = of.ending(text)?;
        Some((of, digits.trim(), base / unit))
    };
    let (of, digits, factor) = kinds.into_iter().find_map(ending).ok_or_else(expected)?;
    let n = digits.parse::<f64>().map_err(|_| expected())? * factor;
    if !(n > 0.0 && n < 1e9) {
        return Err(format!("'{text}': expected more than 0 and less than 1e9 Mpps or Gbps"));
    }
    Ok(match of {
        Dimension::FrameRate => Target::Mpps(n),
        _ => Target::Gbps(n),
    })
}

impl QuestionArgs {
    /// The machine.
    pub fn profile(&self, library: &Library) -> Result<Profile> {
        let name = self.profile.as_ref();
        let name = name.ok_or_else(|| {
            bad_input("--profile is missing: a profile's name ('weir estimate list'), or its file")
        })?;
        shelf::profile(library, name)
    }
    /// The files that are read to answer it.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let named = [&self.profile, &self.host].into_iter().flatten();
        let named = named.filter_map(|n| shelf::named(n));
        self.files.paths().chain(named).chain(self.pcap.as_deref())
    }
    /// As the library asks.
    pub fn question(&self, library: &Library, profile: &Profile) -> Result<Question> {
        let traffic = match &self.pcap {
            Some(path) => Some(capture::traffic(path)?),
            None => self.traffic.clone(),
        };
        let by_itself = match &profile.hardware {
            Hardware::Pipeline(p) => p.software.as_ref().map(|s| s.host.to_string()),
            Hardware::Processor(_) => None,
        };
        if let (Some(host), None) = (&self.host, &by_itself) {
            return Err(bad_input(format!(
                "--host {host}: '{}' is no hardware pipeline with software beside it: leave '--host' out",
                profile.name
            )));
        }
        if let Some(through) = &self.through {
            // What is in front of a function is known to 'full' on processors alone.
            let why = match (&profile.hardware, self.mode) {
                (_, Mode::Paper | Mode::Corrected) => format!("mode {}", self.mode.name()),
                (Hardware::Pipeline(_), Mode::Full) => {
                    format!("the hardware pipeline '{}'", profile.name)
                }
                (Hardware::Processor(_), Mode::Full) => String::new(),
            };
            if !why.is_empty() {
                return Err(bad_input(format!(
                    "--through {through}: {why} knows nothing in front of a function: leave '--through' out"
                )));
            }
        }
        let mut seen = BTreeSet::new();
        if let Some((name, _)) = self.set.iter().find(|s| !seen.insert(&s.0)) {
            return Err(bad_input(format!("--set {name}: it is given twice, leave one out")));
        }
        if self.mode != Mode::Full {
            let burst = (self.burst != 1).then_some("--burst");
            let huge_pages = self.huge_pages.then_some("--huge-pages");
            if let Some(option) = burst.or(huge_pages) {
                return Err(bad_input(format!(
                    "{option}: mode {} knows nothing of it: leave '{option}' out, or ask '--mode full'",
                    self.mode.name()
                )));
            }
        }
        // A host that a profile names need not come along; one that was asked for must.
        let host = match (&self.host, by_itself) {
            (Some(name), _) => Some(shelf::profile(library, name)?),
            (None, Some(name)) => shelf::profile(library, &name).ok(),
            (None, None) => None,
        };
        Ok(Question {
            played: None,
            mode: self.mode,
            frame: self.frame,
            cores: self.cores,
            traffic,
            numa: if self.numa { Numa::Spread } else { Numa::Local },
            burst: self.burst,
            pages: if self.huge_pages { Pages::Huge } else { Pages::Small },
            settings: self.set.clone(),
            target: self.target,
            through: self.through.as_deref().map(Arc::from),
            host: host.map(Arc::new),
        })
    }
}

/// A warning where a profile was measured on another machine.
pub fn warn_of_stranger(profile: &Profile) {
    let here = Machine::here().fingerprint;
    if let Some(there) = profile.calibrated_on.as_ref().filter(|c| **c != here) {
        complain(format_args!(
            "warning: {}: calibrated on '{there}', and this is '{here}': 'weir calibrate' here \
             gives this machine's figures",
            profile.file
        ));
    }
}

/// Answers.
pub fn run(a: &AskArgs) -> Result<()> {
    let mut library = shelf::library(&a.question.files)?;
    let name = a.function.as_ref().ok_or_else(|| {
        bad_input("which network function? A name ('weir estimate list'), or a model's file")
    })?;
    let name = shelf::function(&mut library, name)?;
    let profile = a.question.profile(&library)?;
    warn_of_stranger(&profile);
    let question = a.question.question(&library, &profile)?;
    let answer = estimate(&library, &name, &profile, &question).map_err(bad_input)?;
    if a.json {
        return put(&(serde_json::to_string(&json::answer(&answer))? + "\n"));
    }
    let mut text = say::answer(&answer);
    if a.explain {
        text += &explain::operations(&answer);
    }
    put(&text)
}
