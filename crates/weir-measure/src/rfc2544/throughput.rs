//! Throughput (RFC 2544 §26.1, RFC 1242 §3.17): the highest rate at which no frame is lost.
//!
//! The highest rate is tried first. If it loses frames, the range below is halved until it is as
//! narrow as the resolution asks. The result is a rate that was tried and lost nothing, never one
//! in between. What the source could not offer is treated as the module above says.
//!
//! A device shared with other work loses frames by chance. How many trials must pass for a rate to
//! count is [`Acceptance`]; its default, one of one, is the RFC's. The search assumes that a device
//! that passes at one rate passes at lower ones; where chance breaks that, the result is still a
//! rate that passed, though not the only one.

use super::{Error, SettingsError, Trial, TrialRecord, try_rate, within};
use crate::Rate;
use std::time::Duration;

/// No search is longer than this many rates, whatever its resolution: 2^-64 of the range.
const MOST_RATES: usize = 64;

/// How often a rate is tried again when a source fell short of it that has offered as much before.
const AGAIN: u32 = 3;

/// How narrow the range must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution {
    /// In frames per second.
    Absolute(Rate),
    /// As a part of the range's upper end: 0.01 is one percent.
    Relative(f64),
}

/// How many trials at a rate must lose nothing for it to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Trials made at most.
    pub trials: u32,
    /// Of which this many must pass; no more are made once that is certain either way.
    pub must_pass: u32,
}

impl Default for Acceptance {
    /// One of one.
    fn default() -> Self {
        Self { trials: 1, must_pass: 1 }
    }
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThroughputSettings {
    /// The lowest rate worth trying.
    pub min: Rate,
    /// The highest; RFC 2544 wants the medium's, see [`Rate::of_ethernet`].
    pub max: Rate,
    /// When to stop.
    pub resolution: Resolution,
    /// Length of a trial; see [`super::TRIAL_DURATION`].
    pub duration: Duration,
    /// How many trials a rate takes.
    pub acceptance: Acceptance,
    /// The part of the rate asked for, 0 to 1, below which the source counts as too slow for it.
    pub reach: f64,
}

impl ThroughputSettings {
    /// Over this range: to half a percent, for the RFC's duration, one trial a rate, a source that
    /// reaches 99 %.
    pub fn over(min: Rate, max: Rate) -> Self {
        Self {
            min,
            max,
            resolution: Resolution::Relative(0.005),
            duration: super::TRIAL_DURATION,
            acceptance: Acceptance::default(),
            reach: 0.99,
        }
    }

    fn check(&self) -> Result<(), SettingsError> {
        let Self { min, max, acceptance: a, reach, .. } = *self;
        if min > max {
            return Err(SettingsError::Range { min, max });
        }
        if let Resolution::Relative(r) = self.resolution {
            within("the resolution", r, r > 0.0 && r < 1.0, "a part above 0 and below 1")?;
        }
        within("the source's reach", reach, (0.0..=1.0).contains(&reach), "a part from 0 to 1")?;
        let passes = f64::from(a.must_pass);
        let sense = (1..=a.trials).contains(&a.must_pass);
        within("the number of trials that must pass", passes, sense, "1 to the number of trials")
    }

    fn is_fine_enough(&self, low: Rate, high: Rate) -> bool {
        let gap = high.fps() - low.fps();
        match self.resolution {
            Resolution::Absolute(r) => gap <= r.fps(),
            Resolution::Relative(r) => gap <= r * high.fps(),
        }
    }
}

/// Why the result is not higher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitedBy {
    /// The device: this rate lost frames.
    Device {
        /// The lowest rate above the result that lost frames.
        lost_at: Rate,
    },
    /// The source: it could not offer more, and what it offered all arrived. The device may well
    /// carry more.
    Source,
    /// The settings: the highest rate passed.
    Range,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// The highest rate that passed; `None` when even the lowest lost frames. When the source was
    /// the limit, what it really offered.
    pub rate: Option<Rate>,
    /// What was really offered at that rate.
    pub offered_actual: Option<Rate>,
    /// Why it is not higher.
    pub limited_by: LimitedBy,
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
}

/// What the trials at one rate say.
enum Verdict {
    /// Nothing lost, at the rate asked for; what was offered.
    Passed(Rate),
    /// Frames lost; the lowest rate really offered while that happened.
    Lost(Rate),
    /// Nothing lost, but the source fell short; the most that it offered, if anything.
    Short(Option<Rate>),
}

struct Search<'a, T> {
    trial: &'a mut T,
    settings: ThroughputSettings,
    trials: Vec<TrialRecord>,
}

impl<T> Search<'_, T> {
    /// Whether the source reached this rate in some trial, whatever came of it.
    fn has_offered(&self, rate: Rate) -> bool {
        let enough = rate.fps() * self.settings.reach;
        self.trials.iter().any(|t| t.offered_actual.is_some_and(|a| a.fps() >= enough))
    }
}

impl<T: Trial> Search<'_, T> {
    fn judge(&mut self, offered: Rate) -> Result<Verdict, Error<T::Error>> {
        let Acceptance { trials, must_pass } = self.settings.acceptance;
        let (mut passed, mut failed, mut short) = (None, None, None);
        let (mut passes, mut failures) = (0, 0);
        for _ in 0..trials {
            let r = try_rate(self.trial, offered, self.settings.duration)?;
            self.trials.push(TrialRecord::of(offered, &r));
            // Nothing sent proves nothing: the source fell short of everything.
            let actual = r.offered_actual.filter(|_| r.sent > 0);
            let reached = actual.is_some_and(|a| a.fps() >= offered.fps() * self.settings.reach);
            if r.lost() > 0 {
                failures += 1;
                let at = actual.unwrap_or(offered).min(offered);
                failed = Some(failed.map_or(at, |f: Rate| f.min(at)));
            } else if reached {
                passes += 1;
                passed = actual;
            } else {
                short = match (short, actual) {
                    (Some(a), Some(b)) => Some(if a > b { a } else { b }),
                    (a, b) => a.or(b),
                };
            }
            if passes >= must_pass || failures > trials - must_pass {
                break;
            }
        }
        Ok(match (passed.filter(|_| passes >= must_pass), failed, short) {
            (Some(actual), ..) => Verdict::Passed(actual),
            (None, Some(at), _) if failures > trials - must_pass => Verdict::Lost(at),
            (None, _, Some(best)) => Verdict::Short(Some(best)),
            // Not enough of either: what lost, lost.
            (None, Some(at), None) => Verdict::Lost(at),
            (None, None, None) => Verdict::Short(None),
        })
    }
}

/// Searches the throughput.
///
/// # Errors
/// [`Error::Settings`]; [`Error::Trial`] when a trial could not be made.
pub fn throughput<T: Trial>(
    trial: &mut T,
    settings: &ThroughputSettings,
) -> Result<Throughput, Error<T::Error>> {
    settings.check()?;
    let mut search = Search { trial, settings: *settings, trials: Vec::new() };
    let (mut low, mut high) = (settings.min, settings.max);
    let mut best: Option<(Rate, Rate)> = None;
    let mut limited_by = LimitedBy::Range;
    let (mut next, mut again) = (high, 0);
    for _ in 0..MOST_RATES {
        match search.judge(next)? {
            Verdict::Passed(actual) => {
                best = Some((next, actual));
                low = next;
            }
            // It offered as much before, so this was a stall.
            Verdict::Short(_) if again < AGAIN && search.has_offered(next) => {
                again += 1;
                continue;
            }
            Verdict::Short(actual) => {
                // More can't be offered; and all that was, arrived.
                if let Some(actual) = actual
                    && best.is_none_or(|(b, _)| actual > b)
                {
                    best = Some((actual, actual));
                }
                limited_by = LimitedBy::Source;
                break;
            }
            Verdict::Lost(at) => {
                // A source that fell short while frames were lost shows a lower limit than `next`.
                high = if at > low { at } else { next };
                limited_by = LimitedBy::Device { lost_at: high };
                if next == low {
                    break;
                }
            }
        }
        again = 0;
        if low == settings.max {
            break;
        }
        if settings.is_fine_enough(low, high) {
            // The lower end may not have been tried yet.
            if best.is_some() || next == low {
                break;
            }
            next = low;
            continue;
        }
        next = low.midway(high);
    }
    Ok(Throughput {
        rate: best.map(|b| b.0),
        offered_actual: best.map(|b| b.1),
        limited_by,
        trials: search.trials,
    })
}

#[cfg(test)]
mod tests;
