//! Frames per CPU-second of the whole path over veth: from the moment a frame is on the first wire
//! until it is on the second, softirqs included, the generator's own cost subtracted.
//!
//! One thread does everything in turn: it sends a burst by AF_XDP from the tester's first port, and
//! polls weir until nothing moves; the kernel's bridge and router do their work inside the send
//! itself, in softirq. The frames end at the tester's second port, whose kernel drops them at the
//! first look. So nothing is lost for want of a core, no time is spent waiting, and the thread's CPU
//! time is that of the path and of the generator. The generator's cost a frame is measured over a
//! wire that leads straight to such an end, in the same round. Softirqs that did not run on the
//! thread run in `ksoftirqd`, whose CPU time is added.

use super::dut::{Weir, close, sender};
use super::lab::{Arrivals, Lab};
use super::load;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use weir_io::thread_cpu_time;
use weir_measure::Rate;
use weir_measure::clock::{Clock, Monotonic, Wait};
use weir_measure::cpu::parse_schedstat;
use weir_measure::generator::{End, Generator, Load, Step};
use weir_measure::port::Port;
use weir_measure::probe::Run;

/// A lab ready to be measured.
pub struct WholePath {
    lab: Lab,
    weir: Option<Weir>,
    sender: [Port; 1],
    arrivals: Arrivals,
    clock: Monotonic,
    softirqd: Vec<PathBuf>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Frames that left the generator.
    pub sent: u64,
    /// Frames that came out at the other end.
    pub delivered: u64,
    /// CPU time of the thread and of `ksoftirqd`.
    pub cpu: Duration,
    /// The part of it that was `ksoftirqd`'s.
    pub softirqd: Duration,
}

impl Cost {
    /// CPU time a frame sent, in nanoseconds.
    pub fn ns_per_frame(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.sent as f64
    }
    /// Million frames delivered per CPU-second, where the generator costs `generator_ns` a frame.
    /// `None` where that leaves nothing.
    pub fn mfps_per_cpu_s(&self, generator_ns: f64) -> Option<f64> {
        let ns = self.cpu.as_nanos() as f64 - generator_ns * self.sent as f64;
        (ns > 0.0).then(|| self.delivered as f64 / ns * 1e3)
    }
    /// What must be said of it, if anything.
    pub fn remark(&self) -> Option<String> {
        (self.delivered < self.sent).then(|| "frames were lost on the way; they count as cost".into())
    }
}

impl WholePath {
    /// In this lab.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn new(lab: Lab) -> Result<Self> {
        let weir = Weir::of(&lab)?;
        let sender = [sender(&lab)?];
        let arrivals = lab.arrivals(1)?;
        let clock = Monotonic::new(Wait::Spin);
        Ok(Self { lab, weir, sender, arrivals, clock, softirqd: softirqd() })
    }

    /// What forwards.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Sends frames of that size for so long.
    ///
    /// # Errors
    /// Nothing came out.
    pub fn measure(&mut self, frame_bytes: usize, time: Duration) -> Result<Cost> {
        let streams = load::streams(&[0], frame_bytes, self.lab.kind.to());
        let load = Load {
            // A rate that no source reaches: there is always a burst due.
            rate: Rate::new(1e12)?,
            end: End::For(time),
            burst: weir_packet::BURST,
            backlog: weir_packet::BURST as u64,
        };
        let clock = self.clock;
        let arrived = self.arrivals.frames()?;
        let (cpu, softirqd) = (thread_cpu_time(), self.softirqd_time());
        let mut generator = Generator::new(&self.sender, &streams, Run(0), &load, &clock)?;
        while generator.step(&mut self.sender, &clock) != Step::Done {
            self.poll();
        }
        let sent = generator.finish(&mut self.sender, &clock);
        self.poll();
        let softirqd = self.softirqd_time().saturating_sub(softirqd);
        let cpu = thread_cpu_time().saturating_sub(cpu) + softirqd;
        // What a softirq elsewhere still has in hand comes out soon.
        std::thread::sleep(Duration::from_millis(2));
        self.poll();
        if let Some(w) = self.weir.as_mut().and_then(Weir::plane) {
            w.snapshot().check()?;
        }
        let delivered = self.arrivals.frames()?.saturating_sub(arrived);
        let sent = sent.frames.saturating_sub(sent.failed);
        if delivered == 0 {
            bail!("{}: nothing comes out at the other end", self.lab.kind.name());
        }
        Ok(Cost { sent, delivered, cpu, softirqd })
    }

    /// Polls weir, where it is the device, until nothing moves.
    fn poll(&mut self) {
        if let Some(plane) = self.weir.as_mut().and_then(Weir::plane) {
            while plane.poll(self.clock.now()) > 0 {}
        }
    }

    fn softirqd_time(&self) -> Duration {
        let read = |p: &PathBuf| parse_schedstat(&std::fs::read_to_string(p).ok()?);
        self.softirqd.iter().filter_map(read).sum()
    }
}

impl Drop for WholePath {
    fn drop(&mut self) {
        self.sender.iter_mut().for_each(close);
    }
}

/// Where the kernel says what its softirq threads have used.
fn softirqd() -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|e| e.path());
    let is_one = |p: &PathBuf| {
        std::fs::read_to_string(p.join("comm")).is_ok_and(|c| c.starts_with("ksoftirqd/"))
    };
    processes.filter(is_one).map(|p| p.join("schedstat")).collect()
}

/// Measures all of `paths` in turn, `rounds` times; the first must be the wire. For each of the
/// others: its rate in each round, and what must be said of it.
///
/// # Errors
/// Nothing came out.
pub fn rounds(
    paths: &mut [WholePath],
    frame_bytes: usize,
    rounds: usize,
    time: Duration,
) -> Result<Vec<(Vec<f64>, Option<String>)>> {
    let Some((wire, devices)) = paths.split_first_mut() else { return Ok(Vec::new()) };
    let mut all = vec![(Vec::new(), None); devices.len()];
    for round in 0..=rounds {
        let generator_ns = wire.measure(frame_bytes, time)?.ns_per_frame();
        for (path, (rates, remark)) in devices.iter_mut().zip(&mut all) {
            let cost = path.measure(frame_bytes, time)?;
            // The first round fills caches and finds pages.
            if round > 0 {
                rates.extend(cost.mfps_per_cpu_s(generator_ns));
                *remark = remark.take().or(cost.remark());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_subtracted_by_the_frame_sent() {
        let c = Cost {
            sent: 1000,
            delivered: 500,
            cpu: Duration::from_micros(3000),
            softirqd: Duration::ZERO,
        };
        // 3000 ns a frame, of which the generator has 1000: 2 ms for 500 frames.
        assert_eq!(c.mfps_per_cpu_s(1000.0), Some(0.25));
        assert_eq!(c.mfps_per_cpu_s(3000.0), None);
        assert!(c.remark().is_some());
    }
}
