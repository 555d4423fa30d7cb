//! Frame loss rate (RFC 2544 §26.3, RFC 1242 §3.6): what part is lost, over the offered rate.
//!
//! Begins at the highest rate and goes down by a constant step, until two trials in a row lose
//! nothing or the step leads to zero.

use super::{Error, Trial, TrialRecord, try_rate, within};
use crate::Rate;
use std::time::Duration;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSettings {
    /// The highest rate; RFC 2544 wants the medium's, see [`Rate::of_ethernet`].
    pub max: Rate,
    /// The step as a part of `max`; the RFC wants 0.1 or finer. At least 0.001.
    pub step: f64,
    /// Length of a trial.
    pub duration: Duration,
}

impl LossSettings {
    /// As the RFC has it: in steps of a tenth.
    pub fn from_rate(max: Rate) -> Self {
        Self { max, step: 0.1, duration: super::TRIAL_DURATION }
    }
}

/// One point of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPoint {
    /// The trial.
    pub trial: TrialRecord,
    /// Frames lost per 100 sent: (input − output) × 100 / input.
    pub loss_percent: f64,
}

/// Measures the frame loss rate, from the highest rate down.
///
/// # Errors
/// [`Error::Settings`]; [`Error::Trial`] when a trial could not be made.
pub fn frame_loss<T: Trial>(
    trial: &mut T,
    settings: &LossSettings,
) -> Result<Vec<LossPoint>, Error<T::Error>> {
    let step = settings.step;
    within("the step", step, (0.001..=1.0).contains(&step), "a part from 0.001 to 1")?;
    let mut points = Vec::new();
    let mut clean = 0;
    for i in 0.. {
        // Multiplied rather than summed up, so that rounding does not add another step.
        let part = 1.0 - f64::from(i) * step;
        let Some(offered) = settings.max.times(part).ok().filter(|_| part > step / 2.0) else {
            break;
        };
        let r = try_rate(trial, offered, settings.duration)?;
        let trial = TrialRecord::of(offered, &r);
        points.push(LossPoint { trial, loss_percent: r.loss_ratio() * 100.0 });
        clean = if r.lost() == 0 { clean + 1 } else { 0 };
        if clean == 2 {
            break;
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;

    fn settings(max: f64, step: f64) -> LossSettings {
        LossSettings { max: Rate::new(max).unwrap(), step, duration: Duration::from_secs(1) }
    }

    #[test]
    fn the_curve_of_a_device_of_known_capacity() {
        let mut device = Simulated::of_capacity(500_000.0);
        let points = frame_loss(&mut device, &settings(1e6, 0.1)).unwrap();
        let curve: Vec<_> =
            points.iter().map(|p| (p.trial.offered.fps().round(), p.loss_percent)).collect();
        assert_eq!(curve.len(), 7, "down to two rates without loss: {curve:?}");
        for (offered, loss) in curve {
            let want = (1.0 - 500_000.0 / offered).max(0.0) * 100.0;
            assert!((loss - want).abs() < 0.01, "{loss} % at {offered}, not {want}");
        }
    }

    #[test]
    fn a_device_that_loses_by_chance_has_a_point_at_each_step() {
        let mut device = Simulated::of_capacity(1e9).losing(0.02, 1);
        let points = frame_loss(&mut device, &settings(1e6, 0.1)).unwrap();
        assert_eq!(points.len(), 10);
        assert!(points.iter().all(|p| (p.loss_percent - 2.0).abs() < 0.3), "{points:?}");
        assert!(frame_loss(&mut device, &settings(1e6, 0.0)).is_err());
        assert!(frame_loss(&mut device, &settings(1e6, f64::NAN)).is_err());
    }
}
