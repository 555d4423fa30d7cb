//! What is to be measured, in which order, and what was found: the searches of [`crate::rfc2544`], one after
//! the other, for each frame size.
//!
//! Pure: trials are asked for and told.

use super::tape::{Ask, Came, Tape};
use crate::Rate;
use crate::module::Params;
use crate::rfc2544::{
    BackToBack, BackToBackSettings, Delay, DelaySettings, Goal, LossPoint, LossSettings, Mlr,
    MlrSettings, Resolution, Throughput, ThroughputSettings, TrialResult, back_to_back, frame_loss,
    latency, mlr, throughput,
};
use std::time::Duration;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Throughput,
    Mlr,
    Latency,
    Loss,
    BackToBack,
}

const ALL: [Stage; 5] =
    [Stage::Throughput, Stage::Mlr, Stage::Latency, Stage::Loss, Stage::BackToBack];

impl Stage {
    /// Its name as a parameter.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Mlr => "mlr",
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::BackToBack => "back-to-back",
        }
    }
}

/// What the parameter `benchmark` may be.
pub(super) const WORDS: [&str; 6] = ["all", "throughput", "mlr", "latency", "loss", "back-to-back"];

/// What was found of one frame size.
#[derive(Default)]
pub(super) struct Found {
    pub size: usize,
    pub line: Option<Rate>,
    pub throughput: Option<Throughput>,
    pub mlr: Option<Mlr>,
    pub latency: Option<Delay>,
    pub loss: Option<Vec<LossPoint>>,
    pub back_to_back: Option<BackToBack>,
}

/// All of it.
pub(super) struct Plan {
    pub found: Vec<Found>,
    stages: Vec<Stage>,
    /// Which size, which stage.
    at: (usize, usize),
    tape: Tape,
    trial: Duration,
    resolution: f64,
    goal_sum: Duration,
    pdr: f64,
    latency_trial: Duration,
    latency_repetitions: u32,
    longest_burst: f64,
    bursts: u32,
}

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s.clamp(0.0, 1e6))
}

impl Plan {
    pub(super) fn new(p: &Params) -> Self {
        let wanted = p.word("benchmark");
        let is_wanted = |s: &Stage| match (wanted, s) {
            ("all", _) => true,
            // It is measured at that rate.
            ("latency", Stage::Throughput) => true,
            (w, s) => w == s.word(),
        };
        let bits = (p.number("line") * 1e6) as u64;
        let found = |size: &u64| Found {
            size: *size as usize,
            line: Rate::of_ethernet(bits, *size as usize).ok(),
            ..Found::default()
        };
        Self {
            found: p.counts("sizes").iter().map(found).collect(),
            stages: ALL.into_iter().filter(is_wanted).collect(),
            at: (0, 0),
            tape: Tape::default(),
            trial: seconds(p.number("trial")),
            resolution: p.number("resolution") / 100.0,
            goal_sum: seconds(p.number("goal-time")),
            pdr: p.number("pdr") / 100.0,
            latency_trial: seconds(p.number("latency-trial")),
            latency_repetitions: p.count("latency-repetitions") as u32,
            longest_burst: p.number("longest-burst"),
            bursts: p.count("bursts") as u32,
        }
    }

    /// The frame size that is at work.
    pub(super) fn size(&self) -> Option<usize> {
        self.found.get(self.at.0).map(|f| f.size)
    }

    /// Which benchmark is at work.
    pub(super) fn stage(&self) -> Option<Stage> {
        self.stages.get(self.at.1).copied()
    }

    /// Length of a trial of the multiple loss ratio search: the draft's second, or less if all are short.
    fn goal_trial(&self) -> Duration {
        self.trial.min(Duration::from_secs(1))
    }

    /// About how long it all takes, in seconds, with so much quiet after each trial. Of searches the usual
    /// number of steps is taken.
    pub(super) fn estimate(&self, wait: f64) -> f64 {
        let steps = (1.0 / self.resolution).log2().ceil() + 1.0;
        let sum = self.goal_sum.max(self.goal_trial()).as_secs_f64();
        let per_load = sum / self.goal_trial().as_secs_f64();
        let one = |s: &Stage| match s {
            Stage::Throughput => steps * (self.trial.as_secs_f64() + wait),
            // Half of a load's time decides it, mostly; the second goal begins near the first.
            Stage::Mlr => 1.5 * steps * (sum / 2.0 + per_load / 2.0 * wait),
            Stage::Latency => {
                f64::from(self.latency_repetitions) * (self.latency_trial.as_secs_f64() + wait)
            }
            Stage::Loss => 10.0 * (self.trial.as_secs_f64() + wait),
            Stage::BackToBack => f64::from(self.bursts) * 12.0 * (self.longest_burst / 4.0 + wait),
        };
        self.found.len() as f64 * self.stages.iter().map(one).sum::<f64>()
    }

    /// Takes what came of a trial.
    pub(super) fn tell(&mut self, ask: Ask, result: TrialResult) {
        self.tape.keep(ask, result);
    }

    /// What is to be tried next; `None`: all is measured.
    ///
    /// # Errors
    /// Parameters that make no sense together.
    pub(super) fn next(&mut self) -> Result<Option<Ask>, String> {
        loop {
            let (Some(found), Some(stage)) = (self.found.get(self.at.0), self.stage()) else {
                return Ok(None);
            };
            let Some(line) = found.line else {
                return Err("a line of no speed carries nothing: give 'line' in Mb/s".to_owned());
            };
            // A thousandth of the line: a device that loses there is taken to lose always.
            let min = line.times(1e-3).unwrap_or(line);
            let next = match stage {
                Stage::Throughput => {
                    let settings = ThroughputSettings {
                        resolution: Resolution::Relative(self.resolution),
                        duration: self.trial,
                        ..ThroughputSettings::over(min, line)
                    };
                    self.step(|t| throughput(t, &settings), |f, r| f.throughput = Some(r))?
                }
                Stage::Mlr => {
                    let goal = |name: &str, ratio| Goal {
                        duration_sum: self.goal_sum,
                        width: self.resolution,
                        ..Goal::new(name, ratio)
                    };
                    let settings = MlrSettings {
                        min,
                        max: line,
                        duration: self.goal_trial(),
                        reach: 0.99,
                        goals: vec![goal("NDR", 0.0), goal("PDR", self.pdr)],
                    };
                    self.step(|t| mlr(t, &settings), |f, r| f.mlr = Some(r))?
                }
                Stage::Latency => {
                    let rate = found.throughput.as_ref().and_then(|t| t.rate);
                    let settings = DelaySettings {
                        rate: rate.unwrap_or(min),
                        duration: self.latency_trial,
                        repetitions: self.latency_repetitions,
                    };
                    self.step(|t| latency(t, &settings), |f, r| f.latency = Some(r))?
                }
                Stage::Loss => {
                    let duration = self.trial;
                    let settings = LossSettings { duration, ..LossSettings::from_rate(line) };
                    self.step(|t| frame_loss(t, &settings), |f, r| f.loss = Some(r))?
                }
                Stage::BackToBack => {
                    let settings = BackToBackSettings {
                        max_frames: line.frames_in(seconds(self.longest_burst)).max(1),
                        repetitions: self.bursts,
                    };
                    self.step(|t| back_to_back(t, &settings), |f, r| f.back_to_back = Some(r))?
                }
            };
            if next.is_some() {
                return Ok(next);
            }
            self.tape.clear();
            self.at.1 += 1;
            if self.at.1 == self.stages.len() {
                self.at = (self.at.0 + 1, 0);
            }
        }
    }

    /// Runs a search as far as it comes; keeps what it found.
    fn step<R>(
        &mut self,
        search: impl FnOnce(&mut super::tape::Player<'_>) -> Result<R, crate::rfc2544::Error<Ask>>,
        keep: impl FnOnce(&mut Found, R),
    ) -> Result<Option<Ask>, String> {
        match self.tape.play(search)? {
            Came::Wants(ask) => Ok(Some(ask)),
            Came::Done(r) => {
                if let Some(f) = self.found.get_mut(self.at.0) {
                    keep(f, r);
                }
                Ok(None)
            }
        }
    }
}
