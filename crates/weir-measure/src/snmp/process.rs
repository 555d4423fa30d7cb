//! Samples of a process on this machine: a device under test that has no SNMP.
//!
//! Touches `/proc`. Percent are of one core: a process of several threads may exceed 100.

use super::client::SnmpError;
use super::{Sample, Sampler};
use crate::cpu;
use std::time::{Duration, Instant};

/// A process, its threads included.
pub struct ProcessSampler {
    pid: Box<dyn Fn() -> u32 + Send>,
    /// Which one, when, and how long it had been at work.
    last: Option<(u32, Instant, Duration)>,
}

impl ProcessSampler {
    /// Of that process.
    pub fn new(pid: u32) -> Self {
        Self::following(move || pid)
    }

    /// Of the process that `pid` says at each reading: it may be another one after a reset.
    pub fn following(pid: impl Fn() -> u32 + Send + 'static) -> Self {
        Self { pid: Box::new(pid), last: None }
    }
}

impl Sampler for ProcessSampler {
    fn percent_of(&self) -> &'static str {
        "one core"
    }

    fn sample(&mut self) -> Result<Sample, SnmpError> {
        let pid = (self.pid)();
        let begin = Instant::now();
        let times = cpu::process(pid).map_err(|e| SnmpError::Process(e.to_string()))?;
        let busy = times.user + times.system;
        let same = self.last.filter(|(of, ..)| *of == pid);
        let percent = same.and_then(|(_, then, before)| {
            let wall = begin.duration_since(then).as_secs_f64();
            (wall > 0.0).then(|| 100.0 * busy.saturating_sub(before).as_secs_f64() / wall)
        });
        self.last = Some((pid, begin, busy));
        Ok(Sample { cpu_percent: percent, took: begin.elapsed(), interfaces: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_takes_its_place() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let now = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(child.id()));
        let followed = std::sync::Arc::clone(&now);
        let mut s =
            ProcessSampler::following(move || followed.load(std::sync::atomic::Ordering::Acquire));
        assert_eq!(s.sample().unwrap().cpu_percent, None);
        assert!(s.sample().unwrap().cpu_percent.is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(s.sample().is_err(), "it is gone");
        now.store(std::process::id(), std::sync::atomic::Ordering::Release);
        // Of the new one nothing is known before.
        assert_eq!(s.sample().unwrap().cpu_percent, None);
        assert!(s.sample().unwrap().cpu_percent.is_some());
    }

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
