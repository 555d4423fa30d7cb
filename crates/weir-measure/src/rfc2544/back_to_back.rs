//! Back-to-back frames (RFC 2544 §26.4, RFC 1242 §3.1; updated by RFC 9004): the longest burst at
//! the smallest gaps of which no frame is lost.
//!
//! Each repetition halves the range between a length that passed and one that did not. The result is
//! the mean over the repetitions, as the RFC has it.

use super::{BurstTrial, Error, within};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackToBackSettings {
    /// The longest burst worth trying; the RFC asks for two seconds of frames.
    pub max_frames: u64,
    /// Repetitions; the RFC asks for 50.
    pub repetitions: u32,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct BackToBack {
    /// Each repetition's longest burst without loss, in frames; 0 when even one frame was lost.
    pub longest: Vec<u64>,
    /// Their mean: the result.
    pub mean_frames: f64,
    /// Whether some repetition passed at the longest burst tried: the device may take longer ones.
    pub at_limit: bool,
    /// Whether a burst lost frames: else what ended the search was the limit, or the source.
    pub lost: bool,
}

/// Searches the longest burst without loss.
///
/// A burst that the source sent only in part counts as the part that it sent.
///
/// # Errors
/// [`Error::Settings`]; [`Error::Burst`] when a burst could not be sent.
pub fn back_to_back<T: BurstTrial>(
    trial: &mut T,
    settings: &BackToBackSettings,
) -> Result<BackToBack, Error<T::Error>> {
    let BackToBackSettings { max_frames: max, repetitions: n } = *settings;
    within("the longest burst", max as f64, max > 0, "1 frame or more")?;
    within("the number of repetitions", f64::from(n), n > 0, "1 or more")?;
    let (mut longest, mut lost) = (Vec::new(), false);
    for _ in 0..n {
        // Lengths up to `low` pass, those from `high` on are taken to fail.
        let (mut low, mut high) = (0, max.saturating_add(1));
        let mut next = max;
        while high - low > 1 {
            let r = trial.burst(next).map_err(|source| Error::Burst { frames: next, source })?;
            if r.lost() > 0 {
                (high, lost) = (next, true);
            } else if r.sent < next {
                low = low.max(r.sent);
                break;
            } else {
                low = next;
            }
            next = low + (high - low) / 2;
        }
        longest.push(low);
    }
    let mean_frames = longest.iter().map(|l| *l as f64 / f64::from(n)).sum();
    let at_limit = longest.contains(&max);
    Ok(BackToBack { longest, mean_frames, at_limit, lost })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_buffer(buffer in 0u64..5_000, max in 1u64..5_000) {
            let mut device = Simulated::of_capacity(1.0).buffering(buffer);
            let got = back_to_back(&mut device, &BackToBackSettings { max_frames: max, repetitions: 2 }).unwrap();
            prop_assert_eq!(got.longest, vec![buffer.min(max); 2]);
            prop_assert_eq!((got.at_limit, got.lost), (buffer >= max, buffer < max));
        }
    }

    #[test]
    fn a_source_that_stops_short() {
        let mut device = Simulated::of_capacity(1.0).buffering(100).sending_at_most(40);
        let s = BackToBackSettings { max_frames: 60, repetitions: 1 };
        let got = back_to_back(&mut device, &s).unwrap();
        assert_eq!((got.longest, got.at_limit, got.lost), (vec![40], false, false));
        assert!(back_to_back(&mut device, &BackToBackSettings { max_frames: 0, ..s }).is_err());
    }
}
