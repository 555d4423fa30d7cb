//! Latency (RFC 2544 §26.2, RFC 1242 §3.8), at the throughput rate.
//!
//! The RFC tags one frame of a stream of at least 120 s, twenty times, and reports the mean of the
//! twenty. Here every frame carries a stamp, so each repetition gives a distribution; the one over
//! all of them and the median of the repetitions' medians are reported beside the single ones.

use super::{Error, SettingsError, Trial, TrialRecord, try_rate, within};
use crate::Rate;
use crate::latency::{Latency, LatencySummary};
use crate::stats::median;
use std::time::Duration;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySettings {
    /// The rate: the throughput.
    pub rate: Rate,
    /// Length of a repetition; the RFC asks for 120 s.
    pub duration: Duration,
    /// Repetitions; the RFC asks for 20.
    pub repetitions: u32,
}

impl DelaySettings {
    /// As the RFC has it.
    pub fn at(rate: Rate) -> Self {
        Self { rate, duration: Duration::from_secs(120), repetitions: 20 }
    }
}

/// Delays at a rate.
#[derive(Clone, Debug)]
pub struct Delay {
    /// All delays of all repetitions.
    pub all: Latency,
    /// Each repetition's; `None` where nothing arrived or nothing was stamped.
    pub repetitions: Vec<Option<LatencySummary>>,
    /// The median of the repetitions' medians, in nanoseconds; the result.
    pub median_ns: Option<f64>,
    /// Every trial. One that lost frames was above the throughput, and its delays are those of an
    /// overloaded device.
    pub trials: Vec<TrialRecord>,
}

/// Measures latency.
///
/// # Errors
/// [`Error::Settings`] for no repetitions; [`Error::Trial`] when a trial could not be made.
pub fn latency<T: Trial>(
    trial: &mut T,
    settings: &DelaySettings,
) -> Result<Delay, Error<T::Error>> {
    let n = settings.repetitions;
    let bound: Result<(), SettingsError> =
        within("the number of repetitions", f64::from(n), n > 0, "1 or more");
    bound?;
    let (mut all, mut repetitions, mut trials) = (Latency::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let r = try_rate(trial, settings.rate, settings.duration)?;
        trials.push(TrialRecord::of(settings.rate, &r));
        repetitions.push(r.latency.summary());
        all.merge(&r.latency);
    }
    let medians: Vec<f64> = repetitions.iter().flatten().map(|s| s.p50_ns as f64).collect();
    Ok(Delay { all, repetitions, median_ns: median(&medians), trials })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;

    #[test]
    fn repetitions_are_kept_apart_and_together() {
        let mut device = Simulated::of_capacity(1e6);
        let rate = Rate::new(1e5).unwrap();
        let settings = DelaySettings { rate, duration: Duration::from_millis(10), repetitions: 3 };
        let d = latency(&mut device, &settings).unwrap();
        // The simulated device takes 10 µs in the first trial, 20 in the second, and so on.
        assert_eq!(d.all.count(), 3 * 1000);
        assert!((d.median_ns.unwrap() - 20_000.0).abs() < 20.0);
        assert_eq!(d.repetitions.len(), 3);
        let none = DelaySettings { repetitions: 0, ..settings };
        assert!(matches!(latency(&mut device, &none), Err(Error::Settings(_))));
    }
}
