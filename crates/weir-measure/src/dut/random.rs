//! Choices by chance that are the same for the same seed, and a delay that wanders.
//!
//! Room: numbers. Source: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), public domain constants.

use super::profile::Micros;
use weir_packet::Nanos;

/// A stream of numbers by a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `n`; 0 for 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }
    /// A number from 0 to 1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }
    /// Normally distributed (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (u, v) = (self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// Picks a part of what comes: spread evenly, so that a part of 0.88 is 88 of every 100.
#[derive(Clone, Debug)]
pub(super) struct Share {
    part: f64,
    sum: f64,
}

impl Share {
    pub(super) fn new(part: f64) -> Self {
        Self { part, sum: 0.0 }
    }
    /// The same, in the middle between those that another of this part picks.
    pub(super) fn between(part: f64) -> Self {
        Self { part, sum: 0.5 }
    }
    /// Whether this one is picked.
    pub(super) fn picks(&mut self) -> bool {
        self.sum += self.part;
        let picked = self.sum >= 1.0 - 1e-9;
        if picked {
            self.sum -= 1.0;
        }
        picked
    }
}

/// A log-normal delay, by its median and standard deviation, that wanders instead of leaping, so
/// that frames keep their order although each has its own.
#[derive(Clone, Debug)]
pub(super) struct Wander {
    median: f64,
    /// Of the logarithm.
    sigma: f64,
    from: f64,
    to: f64,
    knot: Nanos,
}

/// Time from one random value to the next.
const KNOTS: Nanos = Nanos(20_000_000);

impl Wander {
    pub(super) fn new(median: Micros, sd: Micros, random: &mut Random) -> Self {
        let median = median.nanos().0 as f64;
        // The variance of a log-normal is median² x (x - 1) with x = exp(σ²).
        let ratio = if median > 0.0 { sd.nanos().0 as f64 / median } else { 0.0 };
        let x = (1.0 + (1.0 + 4.0 * ratio * ratio).sqrt()) / 2.0;
        Self {
            median,
            sigma: x.ln().sqrt(),
            from: random.normal(),
            to: random.normal(),
            knot: Nanos(0),
        }
    }

    /// The delay of what comes at `now`; times never go back.
    pub(super) fn at(&mut self, now: Nanos, random: &mut Random) -> Nanos {
        if self.sigma == 0.0 {
            return Nanos(self.median as u64);
        }
        let passed = now.since(self.knot).0 / KNOTS.0;
        if passed > 0 {
            self.knot = Nanos(self.knot.0 + passed * KNOTS.0);
            // After a longer pause both are new.
            self.from = if passed == 1 { self.to } else { random.normal() };
            self.to = random.normal();
        }
        // Weights on a circle keep the variance what it is between two knots.
        let part = now.since(self.knot).0 as f64 / KNOTS.0 as f64;
        let (sin, cos) = (part * std::f64::consts::FRAC_PI_2).sin_cos();
        let g = self.from * cos + self.to * sin;
        Nanos((self.median * (self.sigma * g).exp()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact() {
        let mut s = Share::new(0.88);
        assert_eq!((0..1000).filter(|_| s.picks()).count(), 880);
        assert!((0..1000).all(|_| !Share::new(0.0).picks()));
        let mut all = Share::new(1.0);
        assert!((0..1000).all(|_| all.picks()));
        let (mut one, mut other) = (Share::new(0.01), Share::between(0.01));
        let picked: Vec<_> = (0..1000).map(|_| (one.picks(), other.picks())).collect();
        assert!(!picked.contains(&(true, true)));
        assert_eq!(picked.iter().filter(|p| p.1).count(), 10);
    }

    #[test]
    fn the_delay_has_the_median_and_deviation_asked_for_and_keeps_order() {
        let mut random = Random::new(7);
        let micros = |us: f64| Micros::try_from(us).unwrap();
        let mut w = Wander::new(micros(302.0), micros(615.0), &mut random);
        let step = 1_000_000;
        let mut all: Vec<f64> =
            (0..2_000_000u64).map(|i| w.at(Nanos(i * step), &mut random).0 as f64 / 1e3).collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let sd = (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        all.sort_by(f64::total_cmp);
        let median = all[all.len() / 2];
        assert!((median / 302.0 - 1.0).abs() < 0.03, "{median}");
        assert!((sd / 615.0 - 1.0).abs() < 0.1, "{sd}");
    }
}
