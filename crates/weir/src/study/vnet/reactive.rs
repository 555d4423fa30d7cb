//! A reactive controller (003 §4.2): what the first frame of a flow waits for, and what that leaves of the throughput
//! of flows of few frames.
//!
//! A learning controller of weir's own decides over the first frame of each pair of addresses and installs a flow for
//! the others. A flow's first frame is sent, and when it has come the rest of the flow; then the next flow begins.

use super::element::{Bed, Element};
use super::progress::Progress;
use super::series;
use crate::commands::measure::lab::Kind;
use crate::controller::apps::{App, attend};
use crate::study::dut::close;
use crate::study::report::{Axis, Point, Report};
use crate::study::{Plan, Watch};
use anyhow::{Context, Result, anyhow};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_io::af_packet::AfPacket;
use weir_measure::port::Port;
use weir_packet::{BURST, Burst, Device, Pool};

const LENGTH: Axis = Axis { name: "frames of a flow", unit: "" };
const FIRST: Axis =
    Axis { name: "delay of a flow's first frame, reactive controller", unit: "µs" };
const LATER: Axis = Axis { name: "delay of a flow's second frame", unit: "µs" };
const RATE: Axis = Axis { name: "throughput with a reactive controller", unit: "kp/s" };
const LENGTHS: [usize; 6] = [1, 2, 5, 10, 100, 1000];
/// A flow's first or second frame that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of later frames, those that have not come when none has come for so long are lost.
const QUIET: Duration = Duration::from_millis(20);
/// Flows of one length that begin later are not measured.
const BUDGET: Duration = Duration::from_secs(3);
/// Switches that are measured.
pub const SWITCHES: usize = 2;
/// How long a controller may take to be ready.
const START: Duration = Duration::from_secs(20);
/// Bytes of a frame without FCS.
const FRAME: usize = 60;

/// A controller that is connected to a lab's switch, until it is dropped.
struct Controller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(t) = self.thread.take() {
            // One whose switch has gone has ended, too.
            let _ = t.join();
        }
    }
}

/// Measures both switches.
pub fn run(
    plan: &Plan,
    watch: &mut Watch<'_>,
    progress: &mut Progress,
    report: &mut Report,
) -> Result<()> {
    let flows = plan.depth.of(2, 50);
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    let switches: [_; SWITCHES] = [(Element::Vdp, Kind::Weir), (Element::OpenVSwitch, Kind::Ovs)];
    for (element, kind) in switches {
        if element.missing().is_some() {
            continue;
        }
        progress.next(watch, &format!("{}, with a reactive controller", element.name()))?;
        let points = match measured(element, kind, flows) {
            Ok(points) => points,
            Err(e) => {
                report.remark(&format!(
                    "{} with a reactive controller: not measured: {e:#}.",
                    element.name()
                ));
                continue;
            }
        };
        for ((a, p), y) in all.iter_mut().zip(points).zip([FIRST, LATER, RATE]) {
            a.push(series(element.name(), LENGTH, y, p));
        }
    }
    report.series.extend(all.into_iter().flatten());
    report.condition(
        "reactive controller",
        format!(
            "weir's own learning controller over TCP; {flows} flows of each length, or as many as go within {} s, one after the other, each between \
             addresses that were not seen before; weir's ports by AF_PACKET there, Open vSwitch's datapath in user space",
            BUDGET.as_secs()
        ),
    );
    Ok(())
}

/// What `flows` flows of each length come to: first frame, second, throughput.
fn measured(element: Element, kind: Kind, flows: usize) -> Result<[Vec<Point>; 3]> {
    let bed = Bed::by_lab(element, kind)?;
    let mut wires = Wires::new(&bed)?;
    let controller = control(&bed)?;
    wires.ready()?;
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    for frames in LENGTHS {
        let (mut first, mut later, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        let until = Instant::now() + BUDGET;
        for n in 0..flows {
            if n > 0 && Instant::now() > until {
                break;
            }
            let f = wires.flow(frames)?;
            first.push(f.first.as_secs_f64() * 1e6);
            later.extend(f.second.map(|d| d.as_secs_f64() * 1e6));
            rates.push(frames as f64 / f.whole.as_secs_f64() / 1e3);
        }
        for (p, s) in points.iter_mut().zip([first, later, rates]) {
            p.push(Point::of(frames as f64, s));
        }
    }
    drop(controller);
    Ok(points)
}

/// Connects the learning controller to the bed's switch.
fn control(bed: &Bed) -> Result<Controller> {
    let lab = bed.lab().context("a switch that listens")?;
    let at = lab.at;
    let stream = lab.device()?.within(|| Ok(TcpStream::connect(at)?))?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let thread = std::thread::spawn(move || attend(stream, App::Learning13, &flag));
    Ok(Controller { stop, thread: Some(thread) })
}

/// How a flow went.
struct Flow {
    first: Duration,
    second: Option<Duration>,
    whole: Duration,
}

/// Both ends of the element.
struct Wires {
    generator: Port,
    receiver: Port,
    flows: u16,
}

impl Wires {
    fn new(bed: &Bed) -> Result<Self> {
        let open = |name: &'static str| {
            bed.tester()?.within(move || {
                let pool = Pool::new(4096, 2048)?;
                let device: Box<dyn Device> = Box::new(AfPacket::open(name, &pool)?);
                Ok(Port { device, pool })
            })
        };
        Ok(Self { generator: open("e1")?, receiver: open("e2")?, flows: 0 })
    }

    /// Waits until the controller floods what it does not know.
    fn ready(&mut self) -> Result<()> {
        let host = [2, 0, 0, 0x50, 0, 1];
        let begin = Instant::now();
        loop {
            send(&mut self.receiver, &frame([0xff; 6], host, 0), 1)?;
            match wait_for(&mut self.generator, host, (1, 1), Duration::from_millis(100)) {
                Err(e) if begin.elapsed() > START => {
                    return Err(e.context("the controller does not flood"));
                }
                Err(_) => {}
                Ok(_) => break,
            }
        }
        // What was sent in vain may come yet.
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// A flow of so many frames between addresses of its own.
    fn flow(&mut self, frames: usize) -> Result<Flow> {
        self.flows += 1;
        let [a, b] = self.flows.to_be_bytes();
        let (src, dst) = ([2, 0, 0, 0x51, a, b], [2, 0, 0, 0x52, a, b]);
        // The receiver's host is heard once, so that the controller knows where it is.
        send(&mut self.receiver, &frame([0xff; 6], dst, 0), 1)?;
        wait(&mut self.generator, dst, 1, 1)?;
        let begin = Instant::now();
        send(&mut self.generator, &frame(dst, src, 1), 1)?;
        wait(&mut self.receiver, src, 1, 1)?;
        let first = begin.elapsed();
        let (mut second, mut last) = (None, begin + first);
        let mut left = frames - 1;
        if left > 0 {
            // The flow's rule is installed before its first frame is sent on, but by which way is the switch's affair.
            let at = Instant::now();
            send(&mut self.generator, &frame(dst, src, 2), 1)?;
            last = wait(&mut self.receiver, src, 1, 1)?;
            second = Some(last.saturating_duration_since(at));
            left -= 1;
        }
        while left > 0 {
            let n = left.min(BURST);
            send(&mut self.generator, &frame(dst, src, 3), n)?;
            // A frame may be lost on a busy machine: what comes is what counts.
            last = wait(&mut self.receiver, src, n, n / 2)?;
            left -= n;
        }
        Ok(Flow { first, second, whole: last.saturating_duration_since(begin) })
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        close(&mut self.generator);
        close(&mut self.receiver);
    }
}

/// A frame between two stations, of a type for experiments (IEEE 802, 0x88b5).
fn frame(dst: [u8; 6], src: [u8; 6], mark: u8) -> Vec<u8> {
    let mut f = [&dst[..], &src[..], &[0x88, 0xb5, mark]].concat();
    f.resize(FRAME, 0);
    f
}

fn send(port: &mut Port, bytes: &[u8], n: usize) -> Result<()> {
    let Port { device, pool } = port;
    let mut burst = Burst::new();
    for _ in 0..n {
        let mut f = pool.alloc().context("no frame is free")?;
        f.copy_from(bytes).map_err(|_| anyhow!("a frame that is too long"))?;
        if let Err(f) = burst.push(f) {
            pool.free(f);
        }
    }
    device.tx(pool, &mut burst);
    device.flush(pool);
    burst.drain().for_each(|f| pool.free(f));
    Ok(())
}

/// Waits until `n` frames from `src` have come; `enough` of them will do when no more come. Says when the last came.
fn wait(port: &mut Port, src: [u8; 6], n: usize, enough: usize) -> Result<Instant> {
    wait_for(port, src, (n, enough), PATIENCE)
}

/// As [`wait`], so long.
fn wait_for(
    port: &mut Port,
    src: [u8; 6],
    (n, enough): (usize, usize),
    patience: Duration,
) -> Result<Instant> {
    let Port { device, pool } = port;
    let begin = Instant::now();
    let (mut came, mut last) = (0, begin);
    while came < n {
        let mut burst = Burst::new();
        device.rx(pool, &mut burst);
        for f in burst.drain() {
            if f.bytes().get(6..12) == Some(&src[..]) {
                (came, last) = (came + 1, Instant::now());
            }
            pool.free(f);
        }
        if came >= enough && came > 0 && last.elapsed() > QUIET {
            break;
        }
        if begin.elapsed() > patience {
            return Err(anyhow!("a frame of a new flow did not come within {patience:?}"));
        }
    }
    Ok(last)
}
