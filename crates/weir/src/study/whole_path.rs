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

use super::bare::Bare;
use super::dut::{Weir, close, sender};
use super::lab::{Arrivals, Lab};
use super::load;
use super::report::{Cost, Point};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use weir_io::thread_cpu_time;
use weir_measure::Rate;
use weir_measure::clock::{Clock, Monotonic, Wait};
use weir_measure::cpu::parse_schedstat;
use weir_measure::generator::{End, Generator, Load, Step};
use weir_measure::port::Port;
use weir_measure::probe::{Run, Stream};

/// How long frames that are still on their way are waited for.
const PATIENCE_MS: u32 = 300;

/// A lab ready to be measured.
pub struct WholePath {
    lab: Lab,
    weir: Option<Weir>,
    bare: Option<Bare>,
    sender: [Port; 1],
    streams: Streams,
    arrivals: Arrivals,
    clock: Monotonic,
    softirqd: Softirqd,
}

/// What is sent by the first port, frames of so many bytes.
pub type Streams = Box<dyn Fn(usize) -> Vec<Stream>>;

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Spent {
    sent: u64,
    delivered: u64,
    cpu: Duration,
    softirqd: Duration,
}

impl Spent {
    fn ns_per_frame(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.sent.max(1) as f64
    }
    fn beside(&self, generator_ns: f64) -> Cost {
        Cost {
            sent: self.sent,
            delivered: self.delivered,
            total_ns: self.ns_per_frame(),
            ksoftirqd_ns: self.softirqd.as_nanos() as f64 / self.sent.max(1) as f64,
            generator_ns,
        }
    }
}

/// Million frames delivered per CPU-second of the path. `None` where the generator leaves nothing.
fn mfps_per_cpu_s(c: &Cost) -> Option<f64> {
    let ns = (c.total_ns - c.generator_ns) * c.sent as f64;
    (ns > 0.0).then(|| c.delivered as f64 / ns * 1e3)
}

impl WholePath {
    /// In this lab.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn new(lab: Lab) -> Result<Self> {
        let (weir, to) = (Weir::of(&lab)?, lab.kind.to());
        Self::with(lab, weir, Box::new(move |bytes| load::streams(&[0], bytes, to)))
    }

    /// In this lab, with weir as it is and a load of one's own, which must leave by the second port.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn with(lab: Lab, weir: Option<Weir>, streams: Streams) -> Result<Self> {
        let (sender, bare) = ([sender(&lab)?], Bare::of(&lab)?);
        let arrivals = lab.arrivals(1)?;
        let clock = Monotonic::new(Wait::Spin);
        Ok(Self { lab, weir, bare, sender, streams, arrivals, clock, softirqd: Softirqd::new() })
    }

    /// Sends frames of that size for so long.
    fn measure(&mut self, frame_bytes: usize, time: Duration) -> Result<Spent> {
        let streams = (self.streams)(frame_bytes);
        let load = Load {
            // A rate that no source reaches: there is always a burst due.
            rate: Rate::new(1e12)?,
            end: End::For(time),
            burst: weir_packet::BURST,
            backlog: weir_packet::BURST as u64,
        };
        let clock = self.clock;
        let arrived = self.arrivals.frames()?;
        let (cpu, softirqd) = (thread_cpu_time(), self.softirqd.time());
        let mut generator = Generator::new(&self.sender, &streams, Run(0), &load, &clock)?;
        while generator.step(&mut self.sender, &clock) != Step::Done {
            self.poll();
        }
        let sent = generator.finish(&mut self.sender, &clock);
        self.poll();
        let softirqd = self.softirqd.time().saturating_sub(softirqd);
        let cpu = thread_cpu_time().saturating_sub(cpu) + softirqd;
        let sent = sent.frames.saturating_sub(sent.failed);
        // What a softirq elsewhere still has in hand comes out soon, as far as it was not lost.
        let mut delivered = 0;
        for _ in 0..PATIENCE_MS {
            self.poll();
            delivered = self.arrivals.frames()?.saturating_sub(arrived);
            if delivered >= sent {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(w) = self.weir.as_mut().and_then(Weir::plane) {
            w.snapshot().check()?;
        }
        if delivered == 0 {
            bail!("{}: nothing comes out at the other end", self.lab.kind.name());
        }
        Ok(Spent { sent, delivered, cpu, softirqd })
    }

    /// Polls the device, where it is not the kernel, until nothing moves.
    fn poll(&mut self) {
        if let Some(bare) = &mut self.bare {
            while bare.poll() > 0 {}
        }
        if let Some(plane) = self.weir.as_mut().and_then(Weir::plane) {
            while plane.poll(self.clock.now()) > 0 {}
        }
    }
}

impl Drop for WholePath {
    fn drop(&mut self) {
        self.sender.iter_mut().for_each(close);
    }
}

/// The kernel's softirq threads.
pub struct Softirqd(Vec<PathBuf>);

impl Softirqd {
    /// All of them: where the kernel says what they have used.
    pub fn new() -> Self {
        let processes =
            std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|e| e.path());
        let is_one = |p: &PathBuf| {
            std::fs::read_to_string(p.join("comm")).is_ok_and(|c| c.starts_with("ksoftirqd/"))
        };
        Self(processes.filter(is_one).map(|p| p.join("schedstat")).collect())
    }
    /// CPU time that they have used.
    pub fn time(&self) -> Duration {
        let read = |p: &PathBuf| parse_schedstat(&std::fs::read_to_string(p).ok()?);
        self.0.iter().filter_map(read).sum()
    }
}

/// Measures all of `paths` in turn, `rounds` times; the first must be the wire. A point for each of
/// the others: its rate in each round.
///
/// # Errors
/// Nothing came out.
pub fn rounds(
    paths: &mut [WholePath],
    frame_bytes: usize,
    rounds: usize,
    time: Duration,
) -> Result<Vec<Point>> {
    let Some((wire, devices)) = paths.split_first_mut() else { return Ok(Vec::new()) };
    let mut all = vec![Vec::new(); devices.len()];
    for round in 0..=rounds {
        let generator_ns = wire.measure(frame_bytes, time)?.ns_per_frame();
        for (path, costs) in devices.iter_mut().zip(&mut all) {
            let cost = path.measure(frame_bytes, time)?.beside(generator_ns);
            // The first round fills caches and finds pages.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(all.into_iter().map(|costs| point(frame_bytes, costs)).collect())
}

fn point(frame_bytes: usize, costs: Vec<Cost>) -> Point {
    let lossy = costs.iter().any(|c| c.delivered < c.sent);
    let remark = lossy.then(|| "frames were lost on the way: they count as cost".to_owned());
    let rates = costs.iter().filter_map(mfps_per_cpu_s).collect();
    Point { remark, costs, ..Point::of(frame_bytes as f64, rates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_subtracted_by_the_frame_sent() {
        let spent = Spent {
            sent: 1000,
            delivered: 500,
            cpu: Duration::from_micros(3000),
            softirqd: Duration::ZERO,
        };
        // 3000 ns a frame, of which the generator has 1000: 2 ms for 500 frames.
        assert_eq!(mfps_per_cpu_s(&spent.beside(1000.0)), Some(0.25));
        assert_eq!(mfps_per_cpu_s(&spent.beside(3000.0)), None);
        let p = point(64, vec![spent.beside(1000.0)]);
        assert!(p.remark.is_some() && p.samples == [0.25]);
    }
}
