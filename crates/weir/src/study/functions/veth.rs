//! Network functions over veth: what the way through weir costs a frame by AF_XDP, beyond a wire.
//!
//! Room: one thread does everything in turn, as in `whole_path`: it sends a burst from the tester's ports,
//! polls weir until nothing moves, and takes in what arrives. What the same frames cost over a wire
//! between the same ports is subtracted. Needs root; namespaces are `lab`'s.
//!
//! What a port over veth costs more than one from memory is measured by a VDP that is no function; an
//! estimate over veth is the estimate from memory and that. So no function is fitted here either.

use crate::functions::{Frames, Function, Job, Place, arena, function, room};
use crate::study::dut::close;
use crate::study::lab::{Kind, Lab};
use crate::study::memory::Bench;
use crate::study::whole_path::Softirqd;
use crate::validate::{Case, FCS, Found, order};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_calibrate::clock;
use weir_classify::Match;
use weir_dataplane::{DataPlane, PortNo, Vid};
use weir_io::af_xdp::{AfXdp, Mode, Options, OtherEnd, Umem};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_io::thread_cpu_time;
use weir_measure::clock::{Clock, Monotonic, Wait};
use weir_measure::port::Port;
use weir_measure::stats::median;
use weir_packet::{BURST, Burst, Device, Pool};

/// Cycles of the chain before and after a sample.
const CHAIN: u64 = 40_000;
/// Ports of the tester that functions are between.
const ENDS: [u16; 2] = [1, 2];
/// What passes without anything being done.
const BARE: &str = "in_port=1,actions=output:2\nin_port=2,actions=output:1\n";

/// One of the tester's ports.
struct End {
    port: Port,
    burst: Burst,
}

/// Frames on their way through a lab.
struct Way {
    ends: Vec<End>,
    plane: Option<DataPlane>,
    clock: Monotonic,
    softirqd: Softirqd,
    /// Keeps the namespaces.
    _lab: Lab,
}

impl Way {
    /// Over a wire, or through a data plane that is made from this job.
    fn new(job: Option<Job>) -> Result<Self> {
        let lab = Lab::new(if job.is_some() { Kind::Fast } else { Kind::Wire })?;
        let plane = job.map(|j| lab.at_device(|| device(j))).transpose()?;
        let open = |no: &u16| {
            let mut pool = Pool::new(4096, 2048)?;
            let options =
                Options { mode: Mode::Native, other_end: OtherEnd::Leave, ..Options::default() };
            let device = AfXdp::open(&format!("e{no}"), options, &Umem::new(), &mut pool)?;
            Ok(End { port: Port { device: Box::new(device), pool }, burst: Burst::new() })
        };
        let ends = lab.at_tester(|| ENDS.iter().map(open).collect::<Result<Vec<_>>>())?;
        let clock = Monotonic::new(Wait::Spin);
        Ok(Self { ends, plane, clock, softirqd: Softirqd::new(), _lab: lab })
    }

    /// Sends these frames, a burst at a time; says how many left and how many arrived.
    fn send(&mut self, frames: &Arena, which: std::ops::Range<usize>) -> (u64, u64) {
        let (mut sent, mut arrived) = (0, 0);
        for i in which {
            let Some(f) = frames.get(i % frames.len()) else { break };
            let end = self.ends.iter_mut().zip(ENDS).find(|(_, no)| *no == f.port);
            let Some((end, _)) = end else { continue };
            let Some(mut frame) = end.port.pool.alloc() else { continue };
            let kept = match frame.copy_from(f.bytes) {
                Ok(()) => end.burst.push(frame),
                Err(_) => Err(frame),
            };
            match kept {
                Ok(()) => sent += 1,
                Err(frame) => end.port.pool.free(frame),
            }
        }
        for end in &mut self.ends {
            end.port.device.tx(&mut end.port.pool, &mut end.burst);
            for frame in end.burst.drain() {
                // The ring has no room: it was never sent.
                sent -= 1;
                end.port.pool.free(frame);
            }
            end.port.device.flush(&mut end.port.pool);
        }
        if let Some(plane) = &mut self.plane {
            while plane.poll(self.clock.now()) > 0 {}
        }
        for end in &mut self.ends {
            while end.port.device.rx(&mut end.port.pool, &mut end.burst) > 0 {
                for frame in end.burst.drain() {
                    arrived += 1;
                    end.port.pool.free(frame);
                }
            }
            // What was taken in is lent again, what was sent comes home.
            end.port.device.flush(&mut end.port.pool);
        }
        (sent, arrived)
    }

    /// Cycles for a frame, all of the way; frames that left, frames that arrived.
    fn cycles(
        &mut self,
        frames: &Arena,
        at: &mut usize,
        time: Duration,
    ) -> Result<(f64, u64, u64)> {
        let before = clock::cycle_ns(CHAIN);
        let (cpu, softirq) = (thread_cpu_time(), self.softirqd.time());
        let begin = Instant::now();
        let (mut sent, mut arrived) = (0, 0);
        while begin.elapsed() < time || sent == 0 {
            let (s, a) = self.send(frames, *at..*at + BURST);
            *at = (*at + BURST) % frames.len();
            (sent, arrived) = (sent + s, arrived + a);
            if s == 0 {
                bail!("over veth: nothing can be sent");
            }
        }
        let spent =
            thread_cpu_time().saturating_sub(cpu) + self.softirqd.time().saturating_sub(softirq);
        let cycle_ns = f64::midpoint(before, clock::cycle_ns(CHAIN));
        Ok((spent.as_nanos() as f64 / sent as f64 / cycle_ns, sent, arrived))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.ends.iter_mut().for_each(|e| close(&mut e.port));
    }
}

/// weir in front of the lab's first two ports, with one VDP that is the job.
fn device(job: Job) -> Result<DataPlane> {
    let mut plane = room(job.rules.len())?;
    let umem = Umem::new();
    let mut ports = Vec::new();
    for no in ENDS {
        let name = format!("p{no}");
        let options = Options { mode: Mode::Native, ..Options::default() };
        let device = AfXdp::open(&name, options, &umem, plane.pool_mut())?;
        ports.push((PortNo(no.into()), plane.add_port(&name, Box::new(device))?));
    }
    let place = Place { vid: Vid(1), matcher: Match::any(), ports, channel: None };
    function(&mut plane, place, job)?;
    Ok(plane)
}

/// Frames that no function has, as many from each side.
fn bare_frames(len: usize) -> Result<Arc<Arena>> {
    let one = |i: u32| {
        let [_, _, c, d] = i.to_be_bytes();
        let mut bytes = vec![6, 0, 0, 7, c, d, 6, 0, 0, 9, d, c, 0x88, 0xb6];
        bytes.resize(len, 0);
        crate::functions::At { port: 1 + i % 2, bytes }
    };
    arena((0..4096).map(one))
}

/// Measures functions over veth.
pub struct Veth {
    rounds: usize,
    time: Duration,
    wire: Way,
    bare: Way,
    /// What a port over veth costs more than one from memory, by frames' length.
    ports: BTreeMap<u32, f64>,
}

impl Veth {
    /// Makes a wire, and weir without a function.
    ///
    /// # Errors
    /// Namespaces or ports can't be made: no rights, no iproute2.
    pub fn new(rounds: usize, time: Duration) -> Result<Self> {
        let bare = Way::new(Some(Job::rules(BARE, &[1, 2])?))?;
        Ok(Self { rounds, time, wire: Way::new(None)?, bare, ports: BTreeMap::new() })
    }

    /// What a port over veth costs more than one from memory, for frames of so many bytes with FCS.
    fn port(&mut self, frame: u32) -> Result<f64> {
        if let Some(c) = self.ports.get(&frame) {
            return Ok(*c);
        }
        let frames = bare_frames(frame as usize - FCS)?;
        let over = beyond(&mut self.wire, &mut self.bare, &frames, self.rounds, self.time)?;
        let plane = crate::functions::plane(Job::rules(BARE, &[1, 2])?, |no| {
            let name = format!("p{no}");
            match u16::try_from(no) {
                Ok(n) => Box::new(Replay::of_port(&name, Arc::clone(&frames), Passes::Forever, n)),
                Err(_) => Box::new(Null::new(&name)) as Box<dyn Device>,
            }
        })?;
        let mut bench = Bench::new(plane);
        let mut samples = Vec::new();
        for _ in 0..=self.rounds {
            let before = clock::cycle_ns(CHAIN);
            let rate = bench.mfps_per_cpu_s(self.time / 4)?;
            samples.push(1e3 / rate / f64::midpoint(before, clock::cycle_ns(CHAIN)));
        }
        let here = median(samples.get(1..).unwrap_or_default()).context("no sample")?;
        let more = over - here;
        self.ports.insert(frame, more);
        Ok(more)
    }

    /// A case: measured, and what `estimate` cycles from memory say of it.
    ///
    /// # Errors
    /// The function can't be made; nothing came out.
    pub fn found(&mut self, case: &Case, estimate: f64) -> Result<Found> {
        let port = self.port(case.frame)?;
        let f: &dyn Function = case.function;
        let len = case.frame as usize - FCS;
        let frames = Frames::of(f, case.entries, &order(case.entries, case.locality), len)?;
        let mut way = Way::new(Some(f.job(case.entries)?))?;
        let first = &frames.first;
        for at in (0..first.len()).step_by(BURST) {
            way.send(first, at..(at + BURST).min(first.len()));
        }
        let measured = beyond(&mut self.wire, &mut way, &frames.rest, self.rounds, self.time)?;
        if let Some(plane) = &way.plane {
            plane.snapshot().check()?;
        }
        Ok(Found { measured, estimate: estimate + port })
    }
}

/// Cycles of a frame through `way` beyond those over `wire`, frame for frame the same: the median of
/// so many rounds.
fn beyond(
    wire: &mut Way,
    way: &mut Way,
    frames: &Arena,
    rounds: usize,
    time: Duration,
) -> Result<f64> {
    let (mut at_wire, mut at_way) = (0, 0);
    let mut all = Vec::new();
    // The first round fills caches and finds pages.
    for round in 0..=rounds {
        let (alone, ..) = wire.cycles(frames, &mut at_wire, time / 2)?;
        let (whole, sent, arrived) = way.cycles(frames, &mut at_way, time)?;
        if arrived * 2 < sent {
            bail!("over veth: {arrived} of {sent} frames came out");
        }
        if round > 0 {
            all.push(whole - alone);
        }
    }
    median(&all).context("no round")
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "tests say what they skip")]
mod tests {
    use super::*;
    use crate::functions::named;
    use crate::validate::Locality;

    const ENTRIES: u32 = 48;

    /// By rules and by a program, one way and both ways, longer behind it and shorter.
    #[test]
    fn every_frame_comes_out_at_the_other_end() {
        let mut wire = match Way::new(None) {
            Ok(w) => w,
            Err(e) => return eprintln!("SKIPPED: functions over veth: {e:#}"),
        };
        let frames = bare_frames(60).expect("frames");
        assert_eq!(wire.send(&frames, 0..BURST), (BURST as u64, BURST as u64), "a wire");
        for name in ["mpls-switch", "nat44", "l2-learning", "bng-plain"] {
            let function = named(name).expect(name);
            let order = order(ENTRIES, Locality::Uniform);
            let order = &order[..4 * BURST];
            let frames = Frames::of(function, ENTRIES, order, 200).expect("frames");
            let mut way = Way::new(Some(function.job(ENTRIES).expect("a job"))).expect("a way");
            let mut sent = (0, 0);
            for arena in [&frames.first, &frames.rest] {
                for at in (0..arena.len()).step_by(BURST) {
                    let some = way.send(arena, at..(at + BURST).min(arena.len()));
                    sent = (sent.0 + some.0, sent.1 + some.1);
                }
            }
            let all = (frames.first.len() + frames.rest.len()) as u64;
            assert_eq!(sent, (all, all), "{name}");
            way.plane
                .as_ref()
                .expect("weir")
                .snapshot()
                .check()
                .expect("every frame accounted for");
        }
    }
}
