//! Devices whose capacity is known, for the tests of the searches. No clock, no port: arithmetic.

use super::{BurstTrial, Trial, TrialResult};
use crate::Rate;
use crate::latency::Latency;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::convert::Infallible;
use std::time::Duration;

/// A device that forwards up to its capacity and loses the rest.
pub(super) struct Simulated {
    capacity: f64,
    /// The capacity is that of each trial within ± this part.
    noise: f64,
    /// The part of the frames that it loses at any rate.
    loses: f64,
    /// The source offers no more than this.
    source: f64,
    /// Every so many trials the source stalls and offers half.
    stalls_every: Option<u32>,
    buffer: u64,
    sends: u64,
    rng: TestRng,
    pub trials: u32,
    /// The highest rate that arrived whole.
    pub best: f64,
}

impl Simulated {
    pub fn of_capacity(capacity: f64) -> Self {
        Self {
            capacity,
            noise: 0.0,
            loses: 0.0,
            source: f64::INFINITY,
            stalls_every: None,
            buffer: 0,
            sends: u64::MAX,
            rng: rng(0),
            trials: 0,
            best: 0.0,
        }
    }
    pub fn noisy(self, noise: f64, seed: u64) -> Self {
        Self { noise, rng: rng(seed), ..self }
    }
    pub fn losing(self, loses: f64, seed: u64) -> Self {
        Self { loses, rng: rng(seed), ..self }
    }
    pub fn fed_at_most(self, source: f64) -> Self {
        Self { source, ..self }
    }
    pub fn stalling_every(self, trials: u32) -> Self {
        Self { stalls_every: Some(trials), ..self }
    }
    pub fn buffering(self, buffer: u64) -> Self {
        Self { buffer, ..self }
    }
    pub fn sending_at_most(self, sends: u64) -> Self {
        Self { sends, ..self }
    }
    /// Between 0 and 1.
    fn chance(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX)
    }
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

impl Trial for Simulated {
    type Error = Infallible;

    fn run(&mut self, offered: Rate, duration: Duration) -> Result<TrialResult, Infallible> {
        self.trials += 1;
        let stalled = self.stalls_every.is_some_and(|n| self.trials.is_multiple_of(n));
        let actual = offered.fps().min(self.source) * if stalled { 0.5 } else { 1.0 };
        let sent = (actual * duration.as_secs_f64()).round() as u64;
        let capacity = self.capacity * (1.0 + self.noise * (2.0 * self.chance() - 1.0));
        let carried = (capacity * duration.as_secs_f64()).round() as u64;
        let mut received = sent.min(carried);
        if self.loses > 0.0 {
            let frames = received.min(20_000);
            let lost = (0..frames).filter(|_| self.chance() < self.loses).count() as f64;
            received -= (lost / frames.max(1) as f64 * received as f64).ceil() as u64;
        }
        if received == sent {
            self.best = self.best.max(actual);
        }
        let mut latency = Latency::new();
        for _ in 0..received.min(1000) {
            latency.record(u64::from(self.trials) * 10_000);
        }
        Ok(TrialResult { sent, received, offered_actual: Rate::new(actual).ok(), latency })
    }
}

impl BurstTrial for Simulated {
    type Error = Infallible;

    fn burst(&mut self, frames: u64) -> Result<TrialResult, Infallible> {
        let sent = frames.min(self.sends);
        let received = sent.min(self.buffer);
        Ok(TrialResult { sent, received, offered_actual: None, latency: Latency::new() })
    }
}
