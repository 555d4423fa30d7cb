//! What a figure is when the machine is noisy: which samples count, and how sure their figure is.
//!
//! Room: numbers alone; no clock. Called by `meter`, which goes on until a figure is narrow or its time
//! is over. Noise on a shared machine only ever adds, and comes in phases: the figure is the lower
//! quartile of what was not disturbed, its interval by order statistics (no distribution is supposed).

/// Fewer samples than these make no figure that anybody could trust.
pub const FEWEST: usize = 12;
/// And fewer than these say nothing of how sure it is.
const FEW: usize = 4;
/// The quantile that stands for all samples.
const QUANTILE: f64 = 0.25;
/// Of a normal distribution: 95 % are within.
const SIGMAS: f64 = 1.96;
/// The median of absolute deviations times this is a normal distribution's standard deviation.
const MAD: f64 = 1.4826;
/// A sample so many deviations from the median is none of the distribution's.
const OUTLIER: f64 = 5.0;
/// Nor is anything nearer to the median than this an outlier, as a part of it.
const ALIKE: f64 = 0.005;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// What was measured.
    pub value: f64,
    /// Whether something is known to have disturbed it: it does not count.
    pub disturbed: bool,
}

/// What a series of samples says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Samples that count.
    pub kept: usize,
    /// Samples that do not.
    pub rejected: usize,
}

impl Figure {
    /// Half the interval, as a part of the figure; all of it, where nothing is known of how sure it is.
    pub fn half_width(&self) -> f64 {
        if self.value > 0.0 && self.kept >= FEW {
            (self.high - self.low) / 2.0 / self.value
        } else {
            1.0
        }
    }

    /// Whether it is known to this part of itself.
    pub fn is_narrow(&self, part: f64) -> bool {
        self.kept >= FEWEST && self.half_width() <= part
    }

    /// What is left of it without another, zero at least; the intervals add up.
    pub fn without(&self, other: &Figure) -> Figure {
        Figure {
            value: (self.value - other.value).max(0.0),
            low: (self.low - other.high).max(0.0),
            high: (self.high - other.low).max(0.0),
            kept: self.kept.min(other.kept),
            rejected: self.rejected.max(other.rejected),
        }
    }

    /// So many times the figure.
    pub fn times(&self, factor: f64) -> Figure {
        let Figure { value, low, high, .. } = *self;
        Figure { value: value * factor, low: low * factor, high: high * factor, ..*self }
    }
}

/// The figure of a series; nothing where no sample counts.
pub fn figure(samples: &[Sample]) -> Option<Figure> {
    let sound = |s: &&Sample| !s.disturbed && s.value.is_finite();
    let mut values: Vec<f64> = samples.iter().filter(sound).map(|s| s.value).collect();
    values.sort_by(f64::total_cmp);
    let middle = quantile(&values, 0.5)?;
    let mut off: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    off.sort_by(f64::total_cmp);
    let spread = (quantile(&off, 0.5)? * MAD * OUTLIER).max(middle.abs() * ALIKE);
    values.retain(|v| (v - middle).abs() <= spread);
    let n = values.len() as f64;
    // Ranks between which the quantile lies: a binomial distribution, by the normal one.
    let (rank, reach) = (n * QUANTILE, SIGMAS * (n * QUANTILE * (1.0 - QUANTILE)).sqrt());
    let at = |rank: f64| quantile(&values, (rank / n).clamp(0.0, 1.0));
    Some(Figure {
        value: quantile(&values, QUANTILE)?,
        low: at(rank - reach)?,
        high: at(rank + reach)?,
        kept: values.len(),
        rejected: samples.len() - values.len(),
    })
}

/// A quantile of sorted values, between two of them where it lies there.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = part * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers from 0 to 1 that look random: Marsaglia's xorshift.
    fn numbers(seed: u64) -> impl Iterator<Item = f64> {
        let mut x = seed | 1;
        std::iter::from_fn(move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            Some((x >> 11) as f64 / (1u64 << 53) as f64)
        })
    }

    fn samples(values: impl Iterator<Item = f64>) -> Vec<Sample> {
        values.map(|value| Sample { value, disturbed: false }).collect()
    }

    #[test]
    fn interrupts_and_steal_move_nothing() {
        // A tenth of the samples are hit by something that takes half as long again, or twice.
        let noisy = |(i, r): (usize, f64)| match i % 10 {
            3 => 150.0,
            7 => 100.0 * (1.0 + r),
            _ => 100.0 + r,
        };
        let f = figure(&samples(numbers(7).enumerate().take(200).map(noisy))).expect("a figure");
        assert!((100.0..100.7).contains(&f.value), "{f:?}");
        assert!(f.is_narrow(0.01) && f.rejected >= 20, "{f:?}");
    }

    #[test]
    fn disturbed_samples_do_not_count() {
        let mut all = samples(std::iter::repeat_n(50.0, 20));
        all.extend([Sample { value: 10.0, disturbed: true }; 30]);
        let f = figure(&all).expect("a figure");
        assert_eq!((f.value, f.kept, f.rejected), (50.0, 20, 30));
        all.iter_mut().for_each(|s| s.disturbed = true);
        assert_eq!(figure(&all), None);
        assert_eq!(figure(&[]), None);
    }

    #[test]
    fn few_samples_are_never_narrow() {
        let f = figure(&samples(std::iter::repeat_n(50.0, FEWEST - 1))).expect("a figure");
        assert!(!f.is_narrow(0.5));
    }

    #[test]
    fn intervals_hold_the_quantile_as_often_as_they_say() {
        // Of a uniform distribution from 100 to 110 the lower quartile is 102.5.
        let mut hits = 0;
        for seed in 1..=400u64 {
            let values = numbers(seed * 0x9e37_79b9).skip(8).take(60).map(|r| 100.0 + 10.0 * r);
            let f = figure(&samples(values)).expect("a figure");
            hits += usize::from((f.low..=f.high).contains(&102.5));
        }
        assert!((360..=400).contains(&hits), "{hits} of 400");
    }

    proptest! {
        #[test]
        fn a_figure_lies_within_its_interval_and_its_samples(
            values in prop::collection::vec((0.0f64..1e9, any::<bool>()), 0..200),
        ) {
            let all: Vec<Sample> =
                values.iter().map(|v| Sample { value: v.0, disturbed: v.1 }).collect();
            if let Some(f) = figure(&all) {
                prop_assert!(f.low <= f.value && f.value <= f.high);
                prop_assert_eq!(f.kept + f.rejected, all.len());
                prop_assert!(f.kept > 0);
            }
        }
    }
}
