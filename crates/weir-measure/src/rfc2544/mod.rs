//! The benchmarks of RFC 2544, in the terms of RFC 1242.
//!
//! Pure: time, load and ports are the [`Trial`]'s, so the searches are tested against simulated
//! devices whose capacity is known. Called by studies.
//!
//! | benchmark | RFC 2544 | here |
//! | --- | --- | --- |
//! | throughput: the highest rate at which no frame is lost | §26.1 | [`throughput`] |
//! | the same for devices that lose a little by chance | draft-ietf-bmwg-mlrsearch | [`mlr`] |
//! | latency at the throughput rate | §26.2 | [`latency`] |
//! | frame loss rate over the offered rate | §26.3 | [`frame_loss`] |
//! | back-to-back: the longest burst without loss | §26.4 | [`back_to_back`] |
//!
//! **A source has limits too.** What was really offered is measured in each trial. A frame that the
//! source never sent is not lost: a trial that lost nothing but fell short of the rate asked for
//! says that the device carries what was offered, and nothing about the rate asked for.

mod back_to_back;
mod delay;
mod loss;
mod mlr;
mod throughput;

#[cfg(test)]
mod simulated;

use crate::Rate;
use crate::latency::Latency;
use std::time::Duration;
use thiserror::Error;

pub use back_to_back::{BackToBack, BackToBackSettings, back_to_back};
pub use delay::{Delay, DelaySettings, latency};
pub use loss::{LossPoint, LossSettings, frame_loss};
pub use mlr::{Bounds, Goal, Mlr, MlrSettings, mlr};
pub use throughput::{
    Acceptance, LimitedBy, Resolution, Throughput, ThroughputSettings, throughput,
};

/// The duration that RFC 2544 §24 asks of a trial whose result counts.
pub const TRIAL_DURATION: Duration = Duration::from_secs(60);

/// One trial: load at a rate for a time, and what came of it (RFC 2544 §23).
pub trait Trial {
    /// Why a trial can't be made at all. Loss is no error.
    type Error;

    /// Offers `offered` for `duration`, waits for what is still on its way, and reports.
    ///
    /// # Errors
    /// When the trial could not be made; the search ends.
    fn run(&mut self, offered: Rate, duration: Duration) -> Result<TrialResult, Self::Error>;
}

/// A trial that can send a burst as fast as the source goes (RFC 2544 §26.4).
pub trait BurstTrial {
    /// Why a trial can't be made at all.
    type Error;

    /// Sends `frames` frames with the smallest gaps that the source is capable of, and reports.
    ///
    /// # Errors
    /// When the trial could not be made; the search ends.
    fn burst(&mut self, frames: u64) -> Result<TrialResult, Self::Error>;
}

/// What came of one trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// Frames that left the source.
    pub sent: u64,
    /// Frames of which a whole copy arrived where it should. At most `sent`.
    pub received: u64,
    /// The rate at which frames really left; `None` when none did.
    pub offered_actual: Option<Rate>,
    /// Delays of those received; empty when the trial does not measure them.
    pub latency: Latency,
}

impl TrialResult {
    /// Frames lost.
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Part of the frames sent that was lost, 0 to 1 (RFC 2544 §26.3 gives it in percent).
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost() as f64 / self.sent as f64 }
    }
}

/// A trial, as it is kept with a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialRecord {
    /// The rate asked for.
    pub offered: Rate,
    /// The rate at which frames really left; `None` when none did.
    pub offered_actual: Option<Rate>,
    /// Frames that left the source.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
}

impl TrialRecord {
    fn of(offered: Rate, r: &TrialResult) -> Self {
        let TrialResult { sent, received, offered_actual, .. } = *r;
        Self { offered, offered_actual, sent, received }
    }
}

/// Settings that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The range is upside down.
    #[error("the lowest rate, {min}, is above the highest, {max}")]
    Range {
        /// The lowest.
        min: Rate,
        /// The highest.
        max: Rate,
    },
    /// A number out of its range.
    #[error("{what} is {have}: give {range}")]
    Number {
        /// Which.
        what: &'static str,
        /// What it is.
        have: f64,
        /// What it may be.
        range: &'static str,
    },
}

/// Why a benchmark has no result.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A trial could not be made.
    #[error("the trial at {offered}: {source}")]
    Trial {
        /// The rate asked for.
        offered: Rate,
        /// Why.
        source: E,
    },
    /// A burst could not be sent.
    #[error("the burst of {frames} frames: {source}")]
    Burst {
        /// Its length.
        frames: u64,
        /// Why.
        source: E,
    },
}

fn within(
    what: &'static str,
    have: f64,
    ok: bool,
    range: &'static str,
) -> Result<(), SettingsError> {
    if ok { Ok(()) } else { Err(SettingsError::Number { what, have, range }) }
}

fn try_rate<T: Trial>(
    trial: &mut T,
    offered: Rate,
    duration: Duration,
) -> Result<TrialResult, Error<T::Error>> {
    trial.run(offered, duration).map_err(|source| Error::Trial { offered, source })
}
