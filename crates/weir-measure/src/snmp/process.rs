//! Samples of a process on this machine: a device under test that has no SNMP.
//!
//! Touches `/proc`. Percent are of one core: a process of several threads may exceed 100.

use super::client::SnmpError;
use super::{Sample, Sampler};
use crate::cpu;
use std::time::{Duration, Instant};

/// A process, its threads included.
#[derive(Clone, Debug)]
pub struct ProcessSampler {
    pid: u32,
    last: Option<(Instant, Duration)>,
}

impl ProcessSampler {
    /// Of that process.
    pub fn new(pid: u32) -> Self {
        Self { pid, last: None }
    }
}

impl Sampler for ProcessSampler {
    fn percent_of(&self) -> &'static str {
        "one core"
    }

    fn sample(&mut self) -> Result<Sample, SnmpError> {
        let begin = Instant::now();
        let times = cpu::process(self.pid).map_err(|e| SnmpError::Process(e.to_string()))?;
        let busy = times.user + times.system;
        let percent = self.last.and_then(|(then, before)| {
            let wall = begin.duration_since(then).as_secs_f64();
            (wall > 0.0).then(|| 100.0 * busy.saturating_sub(before).as_secs_f64() / wall)
        });
        self.last = Some((begin, busy));
        Ok(Sample { cpu_percent: percent, took: begin.elapsed(), interfaces: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process() {
        let mut s = ProcessSampler::new(std::process::id());
        match s.sample() {
            Ok(first) => assert_eq!(first.cpu_percent, None),
            Err(e) => return eprintln!("SKIPPED: {e}"),
        }
        // Until the counter, of ticks of 10 ms, has moved.
        let mut sum = 0_u64;
        loop {
            (0..1_000_000_u64).for_each(|i| sum = std::hint::black_box(sum.wrapping_add(i)));
            let sample = s.sample().unwrap();
            if sample.cpu_percent.unwrap() > 0.0 {
                break;
            }
        }
        let gone = ProcessSampler::new(u32::MAX).sample().unwrap_err().to_string();
        assert!(gone.starts_with("/proc/4294967295/stat: "), "{gone}");
    }
}
