//! Frames at a rate through an element, and what of them arrives.
//!
//! Room: one generator, on the caller's thread; weir's worker has a thread of its own meanwhile.

use super::element::{Bed, GENERATOR};
use crate::study::dut::close;
use crate::study::load::tester_mac;
use anyhow::{Context, Result, anyhow};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};
use weir_dataplane::{DataPlane, Runner, Serving, WhenIdle};
use weir_io::af_xdp::{AfXdp, Options, OtherEnd, Umem};
use weir_measure::Rate;
use weir_measure::clock::{Monotonic, Wait};
use weir_measure::generator::{Generator, Load, Step};
use weir_measure::port::Port;
use weir_measure::probe::{Headers, Run, Stream};
use weir_packet::Pool;
use weir_wire::VlanRepr;

/// Frames on their way are waited for until none has come for so long.
const QUIET: Duration = Duration::from_millis(20);

/// How frames are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Over so many flows of one network.
    Flows(u16),
    /// Over so many networks by VLAN, a flow each.
    Vlans(u16),
}

/// What was sent and what came, in frames per second.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Offered, as far as the source went.
    pub offered: f64,
    /// Arrived.
    pub arrived: f64,
}

/// Whether something beside a load wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// It does.
    GoesOn,
    /// It has all that it wants.
    IsOver,
}

/// A generator at an element.
pub struct Drive {
    port: [Port; 1],
    clock: Monotonic,
}

impl Drive {
    /// At this bed's generator.
    ///
    /// # Errors
    /// The port can't be opened.
    pub fn new(bed: &Bed) -> Result<Self> {
        let port = bed.tester()?.within(|| {
            let mut pool = Pool::new(4096, 2048)?;
            let options = Options { other_end: OtherEnd::Leave, ..Options::default() };
            let device = AfXdp::open("e1", options, &Umem::new(), &mut pool)?;
            Ok(Port { device: Box::new(device), pool })
        })?;
        Ok(Self { port: [port], clock: Monotonic::new(Wait::Spin) })
    }

    /// Sends at that rate for so long, and counts what arrives. The element is running.
    ///
    /// # Errors
    /// A rate or a stream that can't be.
    pub fn send(
        &mut self,
        bed: &Bed,
        streams: &[Stream],
        fps: f64,
        time: Duration,
    ) -> Result<Delivered> {
        self.send_beside(bed, streams, fps, time, |_| Beside::GoesOn)
    }

    /// Has the port to itself until `beside` is over.
    pub fn idle(&mut self, mut beside: impl FnMut(&mut Port) -> Beside) {
        let [port] = &mut self.port;
        while beside(port) == Beside::GoesOn {
            std::hint::spin_loop();
        }
    }

    /// As [`Drive::send`], while `beside` uses the same port between frames; when that is over, so is this.
    ///
    /// # Errors
    /// A rate or a stream that can't be.
    pub fn send_beside(
        &mut self,
        bed: &Bed,
        streams: &[Stream],
        fps: f64,
        time: Duration,
        mut beside: impl FnMut(&mut Port) -> Beside,
    ) -> Result<Delivered> {
        let mut arrivals = bed.arrivals()?;
        let before = arrivals.frames()?;
        let load = Load::new(Rate::new(fps)?, time);
        let begin = Instant::now();
        let mut generator = Generator::new(&self.port, streams, Run(0), &load, &self.clock)?;
        let mut ended_early = false;
        while generator.step(&mut self.port, &self.clock) != Step::Done {
            let [port] = &mut self.port;
            if beside(port) == Beside::IsOver {
                ended_early = true;
                break;
            }
        }
        let sent = generator.finish(&mut self.port, &self.clock);
        let least = if ended_early { Duration::ZERO } else { time };
        let elapsed = begin.elapsed().max(least).as_secs_f64();
        let (mut last, mut since) = (arrivals.frames()?, Instant::now());
        while since.elapsed() < QUIET {
            std::thread::sleep(Duration::from_millis(2));
            let now = arrivals.frames()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        let frames = sent.frames.saturating_sub(sent.failed);
        // The kernel may have had a word of its own to say on that wire.
        let arrived = last.saturating_sub(before).min(frames);
        Ok(Delivered { offered: frames as f64 / elapsed, arrived: arrived as f64 / elapsed })
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.port.iter_mut().for_each(close);
    }
}

/// The streams of a load.
pub fn streams(bed: &Bed, spread: Spread, bytes: usize) -> Vec<Stream> {
    let (n, tagged) = match spread {
        Spread::Flows(n) => (n, false),
        Spread::Vlans(n) => (n, true),
    };
    let stream = |id: u16| {
        let [a, b] = id.to_be_bytes();
        let headers = Headers {
            src_mac: tester_mac(0),
            dst_mac: bed.to_host(),
            vlan: tagged.then(|| VlanRepr::dot1q(id + 1)),
            src: SocketAddrV4::new(GENERATOR, 1024 + id % 32_768),
            dst: SocketAddrV4::new(Ipv4Addr::new(198, 20, a, b), 7),
            ttl: 64,
        };
        Stream { id, headers, frame_bytes_on_wire: bytes, entry: 0, exit: None }
    };
    (0..n).map(stream).collect()
}

/// Does `work` with weir on threads of its own, where it is the element.
///
/// # Errors
/// That of the work; frames that do not add up.
pub fn running<T>(
    bed: &mut Bed,
    serving: Serving,
    own: impl FnOnce(&Runner) -> Result<()>,
    work: impl FnOnce(&mut Bed) -> Result<T>,
) -> Result<T> {
    let Some(slot) = bed.plane() else { return work(bed) };
    let plane: DataPlane = *slot.take().ok_or_else(|| anyhow!("the data plane has gone"))?;
    let runner = Runner::start(plane, serving, WhenIdle::Rest).context("a worker's thread")?;
    let done = own(&runner).and_then(|()| work(bed));
    let plane = runner.stop()?;
    plane.snapshot().check()?;
    if let Some(slot) = bed.plane() {
        *slot = Some(Box::new(plane));
    }
    done
}
