//! `vnet-delay`: 003's figure 13, round-trip time and jitter under background load; and what §4.2 says of a flow's
//! first frame where a controller decides (`reactive`).
//!
//! An ICMP echo request goes from the generator through the element to the receiver, whose kernel answers, and back,
//! while background traffic passes from generator to receiver. Jitter is the standard deviation of the round-trip
//! times of a repetition, as in the paper.

use super::drive::{Beside, Drive, Spread, running, streams};
use super::element::{Bed, GENERATOR, RECEIVER, Shape};
use super::progress::Progress;
use super::{elements, reactive, repetitions, series};
use crate::study::load::tester_mac;
use crate::study::report::{Axis, Point, Report};
use crate::study::{Plan, Watch};
use anyhow::Result;
use std::time::{Duration, Instant};
use weir_dataplane::Serving;
use weir_measure::port::Port;
use weir_packet::Burst;
use weir_wire::build::Frame;
use weir_wire::{EthernetFrame, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, MacAddr};

const BACKGROUND: Axis = Axis { name: "background load", unit: "Mb/s" };
const RTT: Axis = Axis { name: "round-trip time", unit: "µs" };
const JITTER: Axis = Axis { name: "jitter: standard deviation of round-trip times", unit: "µs" };
const PASSED: Axis = Axis { name: "background that came through", unit: "%" };
/// Background in Mb/s (003 figure 13 goes to 500).
const LOADS: [f64; 6] = [0.0, 100.0, 200.0, 300.0, 400.0, 500.0];
/// Bytes of its frames, FCS included: figure 13 assumes 128-byte packets.
const BYTES: usize = 128;
/// What its echoes are known by.
const IDENT: u16 = 3;
/// Between two echo requests.
const PAUSE: Duration = Duration::from_millis(2);
/// An answer that takes longer is none: far beyond what the paper measured (1.7 ms).
const PATIENCE: Duration = Duration::from_millis(50);
/// A repetition ends then, whatever was sent by then: where a load drowns the answers, each that is missing takes all
/// of the patience.
const BUDGET: Duration = Duration::from_millis(600);

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let echoes = plan.depth.of(3, 100);
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    let (mut sent, mut lost) = (0, 0);
    let elements = elements(report);
    let mut progress = Progress::over(elements.len() + reactive::SWITCHES);
    for element in elements {
        progress.next(watch, &format!("{}, echoes under background load", element.name()))?;
        let mut bed = Bed::new(element, Shape::ONE)?;
        let mut points = [Vec::new(), Vec::new(), Vec::new()];
        let none = |_: &weir_dataplane::Runner| Ok(());
        running(&mut bed, Serving::Worker, none, |bed| {
            for mbps in LOADS {
                let mut samples = [Vec::new(), Vec::new(), Vec::new()];
                for _ in 0..repetitions(plan.depth) {
                    let (echoed, passed) = under(bed, mbps, echoes)?;
                    sent += echoed.sent;
                    lost += echoed.sent - echoed.times.len();
                    if let Some((mean, deviation)) = moments(&echoed.times) {
                        samples[0].push(mean);
                        samples[1].push(deviation);
                    }
                    samples[2].extend(passed);
                }
                for (p, s) in points.iter_mut().zip(samples) {
                    p.push(Point::of(mbps, s));
                }
            }
            Ok(())
        })?;
        for ((a, p), y) in all.iter_mut().zip(points).zip([RTT, JITTER, PASSED]) {
            a.push(series(element.name(), BACKGROUND, y, p));
        }
    }
    report.series.extend(all.into_iter().flatten());
    report.condition(
        "echoes",
        format!(
            "{echoes} in each of {} repetitions, {} ms apart, or as many as go within {} ms; 64 bytes; a sample is a repetition's mean or deviation; {lost} of {sent} were not answered within {} ms",
            repetitions(plan.depth), PAUSE.as_millis(), BUDGET.as_millis(), PATIENCE.as_millis()
        ),
    );
    report.condition(
        "background",
        format!("{BYTES}-byte frames (FCS included), IPv4 and UDP, from generator to receiver; Mb/s of frames"),
    );
    reactive::run(plan, watch, &mut progress, report)
}

/// Echoes of a repetition.
struct Echoed {
    sent: usize,
    /// Round-trip times of those that were answered, in microseconds.
    times: Vec<f64>,
}

/// Echoes beside such a load, and the part of the load that came through, in percent.
fn under(bed: &Bed, mbps: f64, echoes: usize) -> Result<(Echoed, Option<f64>)> {
    let mut pinger = Pinger::new(bed.to_receiver(), echoes)?;
    let mut drive = Drive::new(bed)?;
    if mbps == 0.0 {
        drive.idle(|port| pinger.step(port));
        return Ok((pinger.echoed, None));
    }
    let fps = mbps * 1e6 / (8.0 * BYTES as f64);
    let streams = streams(bed, Spread::Flows(16), BYTES);
    // It ends with the echoes.
    let time = 2 * (BUDGET + PATIENCE);
    let d = drive.send_beside(bed, &streams, fps, time, |port| pinger.step(port))?;
    Ok((pinger.echoed, (d.offered > 0.0).then(|| 100.0 * d.arrived / d.offered)))
}

/// Mean and standard deviation.
fn moments(times: &[f64]) -> Option<(f64, f64)> {
    let n = times.len() as f64;
    if times.is_empty() {
        return None;
    }
    let mean = times.iter().sum::<f64>() / n;
    let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n;
    Some((mean, variance.sqrt()))
}

/// Echo requests, one after the other, by the generator's own port: what takes its frames leaves none to
/// others.
struct Pinger {
    request: Vec<u8>,
    to: MacAddr,
    echoes: usize,
    echoed: Echoed,
    seq: u16,
    /// The request that has no answer yet.
    sent_at: Option<Instant>,
    next_at: Instant,
    /// No request begins later.
    until: Instant,
}

impl Pinger {
    fn new(to: MacAddr, echoes: usize) -> Result<Self> {
        let now = Instant::now();
        let echoed = Echoed { sent: 0, times: Vec::with_capacity(echoes) };
        let (next_at, until) = (now + PAUSE, now + PAUSE + BUDGET);
        let mut this =
            Self { request: Vec::new(), to, echoes, echoed, seq: 0, sent_at: None, next_at, until };
        this.request = this.request()?;
        Ok(this)
    }

    /// Takes what has come, and sends what is due.
    fn step(&mut self, port: &mut Port) -> Beside {
        let now = Instant::now();
        if let Some(at) = self.sent_at {
            let has_come = self.has_come(port);
            let took = at.elapsed();
            if has_come {
                self.echoed.times.push(took.as_secs_f64() * 1e6);
            }
            if has_come || took > PATIENCE {
                (self.sent_at, self.next_at) = (None, now + PAUSE);
            }
            return Beside::GoesOn;
        }
        let none_yet = self.echoed.sent == 0;
        if self.echoed.sent >= self.echoes || (now > self.until && !none_yet) {
            return Beside::IsOver;
        }
        if now >= self.next_at {
            self.seq += 1;
            if let Ok(request) = self.request() {
                self.request = request;
            }
            self.echoed.sent += 1;
            self.sent_at = Some(Instant::now());
            send(port, &self.request);
        }
        Beside::GoesOn
    }

    fn request(&self) -> Result<Vec<u8>> {
        let message = Icmpv4Repr::EchoRequest { ident: IDENT, seq: self.seq, data: b"vnet-delay" };
        let mut body = vec![0; message.buffer_len()];
        let mut packet = Icmpv4Packet::new_unchecked(&mut body[..]);
        message.emit(&mut packet)?;
        packet.fill_checksum();
        let frame = Frame::ipv4(GENERATOR, RECEIVER, IpProtocol::Icmp, &body).ttl(64);
        let frame = Frame { src: tester_mac(0), dst: self.to, ..frame };
        let mut bytes = vec![0; 128];
        let len = frame.emit(&mut bytes)?.max(60);
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Whether the reply to the last request is here.
    fn has_come(&self, port: &mut Port) -> bool {
        let Port { device, pool } = port;
        let mut burst = Burst::new();
        device.rx(pool, &mut burst);
        let mut found = false;
        for f in burst.drain() {
            found |= reply(f.bytes()) == Some(self.seq);
            pool.free(f);
        }
        found
    }
}

fn send(port: &mut Port, bytes: &[u8]) {
    let Port { device, pool } = port;
    let mut burst = Burst::new();
    let Some(mut f) = pool.alloc() else { return };
    if f.copy_from(bytes).is_err() {
        return pool.free(f);
    }
    if let Err(f) = burst.push(f) {
        pool.free(f);
    }
    device.tx(pool, &mut burst);
    device.flush(pool);
    // A wire that is full loses it, and it has no answer.
    burst.drain().for_each(|f| pool.free(f));
}

/// The number of an echo reply to this program.
fn reply(frame: &[u8]) -> Option<u16> {
    let eth = EthernetFrame::new_checked(frame).ok()?;
    let ip = Ipv4Packet::new_checked(eth.payload()).ok()?;
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    match Icmpv4Repr::parse(&icmp).ok()? {
        Icmpv4Repr::EchoReply { ident: IDENT, seq, .. } => Some(seq),
        _ => None,
    }
}
