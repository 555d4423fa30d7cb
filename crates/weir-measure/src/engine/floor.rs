//! The wire first: delay over a wire without the device, by the stamps that the measurement will use. No
//! result can be below it.
//!
//! Room: one outlet and one inlet, on the calling thread, before the engine begins. [`summary`] is pure.
//! Called by the binary, with the way that it has: a direct wire, or a veth pair made for this.

use super::wire::{Inlet, Outlet, unix_now};
use crate::document::WireFloor;
use crate::module::load::Source;
use crate::module::{Load, LoadId, ns_between};
use crate::probe::{Headers, Run, identify};
use crate::stats;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_packet::Nanos;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorSettings {
    /// Frames a second.
    pub fps: f64,
    /// Frames; at most [`MOST`].
    pub frames: u32,
    /// Their size, FCS included.
    pub frame_bytes_on_wire: usize,
}

impl Default for FloorSettings {
    /// 100-byte frames at 10,000 a second, for a second.
    fn default() -> Self {
        Self { fps: 10_000.0, frames: 10_000, frame_bytes_on_wire: 100 }
    }
}

/// The most frames whose moments are kept.
pub const MOST: u32 = 1 << 20;
/// How long the last frames, and the kernel's word of them, may take.
const LINGER: Nanos = Nanos::from_millis(200);
/// How long a port may take no frame.
const STUCK: Nanos = Nanos::from_secs(2);

/// Sends probes and takes them back. `path` says in words which way that is, `stamps` where the moments are
/// taken. Ends early, with what it has, when `stop` is raised.
///
/// # Errors
/// A line: the ports can't be used, or nothing came.
pub fn measure(
    outlet: &mut dyn Outlet,
    inlet: &mut dyn Inlet,
    settings: FloorSettings,
    path: &str,
    stamps: &str,
    stop: &AtomicBool,
) -> Result<WireFloor, String> {
    const ID: LoadId = LoadId(1);
    let frames = settings.frames.clamp(1, MOST);
    let load = Load::new(0, Headers::default(), settings.frame_bytes_on_wire, settings.fps);
    let mut source =
        Source::new(ID, &load.only(frames.into()), unix_now()).map_err(|e| e.to_string())?;
    let mut seen = Seen { left: vec![Nanos(0); frames as usize], came: Vec::new(), run: Run(ID.0) };
    seen.came = seen.left.clone();
    let says = outlet.tells_departures();
    let failed = |e: std::io::Error| e.to_string();
    let mut frame = [Vec::new()];
    while !source.is_done() && !stop.load(Ordering::Relaxed) {
        let now = unix_now();
        if source.due(now) > 0 {
            let number = source.built() as usize;
            source.next(now, &mut frame[0]);
            while outlet.send(&frame).map_err(failed)? == 0 {
                if unix_now().since(now) > STUCK {
                    return Err("the port takes no frames".to_owned());
                }
            }
            if !says {
                seen.left[number] = now;
            }
        }
        seen.take(outlet, inlet, Duration::ZERO).map_err(failed)?;
    }
    let (sent, end) = (source.built(), unix_now());
    while unix_now().since(end) < LINGER && !seen.is_all(sent as usize) {
        seen.take(outlet, inlet, Duration::from_millis(1)).map_err(failed)?;
    }
    let passed: Vec<_> = seen.left.iter().copied().zip(seen.came.iter().copied()).collect();
    summary(&passed[..sent as usize], path, stamps)
        .ok_or_else(|| format!("none of {sent} frames came"))
}

/// Moments by number; zero where not known.
struct Seen {
    left: Vec<Nanos>,
    came: Vec<Nanos>,
    run: Run,
}

impl Seen {
    fn take(
        &mut self,
        outlet: &mut dyn Outlet,
        inlet: &mut dyn Inlet,
        at_most: Duration,
    ) -> std::io::Result<()> {
        let Self { left, came, run } = self;
        let note = |to: &mut Vec<Nanos>, bytes: &[u8], at| {
            let id = identify(bytes, *run);
            if let Some(to) = id.and_then(|id| to.get_mut(id.number as usize)) {
                *to = at;
            }
        };
        if outlet.tells_departures() {
            outlet.departures(usize::MAX, &mut |bytes, at| note(left, bytes, at))?;
        }
        inlet.receive(at_most, &mut |bytes, at| note(came, bytes, at)).map(drop)
    }

    fn is_all(&self, sent: usize) -> bool {
        let known = |v: &[Nanos]| v.iter().take(sent).all(|at| at.0 > 0);
        known(&self.came) && known(&self.left)
    }
}

/// What the moments of departure and arrival of successive frames, zero where not known, come to. `None`: no
/// frame has both.
///
/// Percentiles are by the nearest rank. *Jitter*: the mean of how much successive frames' delays differ
/// (RFC 3393, type-P-one-way-ipdv, without its sign). *Drift*: the slope of the delays over time, by least
/// squares; where one clock takes both stamps, that is what noise alone makes of it.
pub fn summary(passed: &[(Nanos, Nanos)], path: &str, stamps: &str) -> Option<WireFloor> {
    let both: Vec<_> = passed.iter().filter(|(l, c)| l.0 > 0 && c.0 > 0).collect();
    let begin = both.first()?.0;
    let delays: Vec<f64> = both.iter().map(|(l, c)| ns_between(*l, *c)).collect();
    let mut sorted = delays.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    };
    let changes: Vec<f64> = delays.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    // Nanoseconds over nanoseconds.
    let over_time = both.iter().zip(&delays).map(|((l, _), d)| (ns_between(begin, *l), *d));
    Some(WireFloor {
        path: path.to_owned(),
        stamps: stamps.to_owned(),
        frames: delays.len() as u64,
        lost: passed.iter().filter(|(_, c)| c.0 == 0).count() as u64,
        p50_ns: rank(50),
        p99_ns: rank(99),
        max_ns: rank(100),
        jitter_ns: (!changes.is_empty())
            .then(|| changes.iter().sum::<f64>() / changes.len() as f64),
        drift_ppm: stats::slope(&over_time.collect::<Vec<_>>()).map(|s| s * 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::super::wire::memory;
    use super::*;
    use weir_io::memory::Memory;
    use weir_packet::{Burst, Device, Pool};

    #[test]
    fn floor_jitter_and_drift_are_those_of_the_delays() {
        // 1000 frames in a second; each 200 or 300 ns in turn, and 5 ns more every millisecond.
        let base = 1_800_000_000_000_000_000;
        let at = |n: u64| Nanos(base + n * 1_000_000);
        let delay = |n: u64| 200 + 100 * (n % 2) + 5 * n;
        let mut all: Vec<_> = (0..1000).map(|n| (at(n), at(n) + Nanos(delay(n)))).collect();
        all[10].1 = Nanos(0);
        all[20].0 = Nanos(0);
        let f = summary(&all, "here", "simulated").unwrap();
        assert_eq!((f.frames, f.lost), (998, 1));
        let mut sorted: Vec<_> = (0..1000).filter(|n| ![10, 20].contains(n)).map(delay).collect();
        sorted.sort_unstable();
        assert_eq!(f.p50_ns, sorted[498] as f64);
        assert_eq!(f.p99_ns, sorted[988] as f64);
        assert_eq!(f.max_ns, sorted[997] as f64);
        // 5 ns in a millisecond are five parts in a million.
        assert!((f.drift_ppm.unwrap() - 5.0).abs() < 0.01, "{f:?}");
        assert!((f.jitter_ns.unwrap() - 100.0).abs() < 1.0, "{f:?}");
        assert_eq!(summary(&[(Nanos(0), Nanos(9)), (Nanos(9), Nanos(0))], "", ""), None);
        let one = summary(&[(Nanos(5), Nanos(9))], "", "").unwrap();
        assert_eq!((one.p99_ns, one.jitter_ns, one.drift_ppm), (4.0, None, None));
    }

    /// Hands back what it gets.
    fn echo(mut device: Memory, stop: &AtomicBool) {
        let mut pool = Pool::new(256, 2048).unwrap();
        let mut burst = Burst::new();
        while !stop.load(Ordering::Relaxed) {
            device.rx(&mut pool, &mut burst);
            while !burst.is_empty() && device.tx(&mut pool, &mut burst) > 0 {}
            device.flush(&mut pool);
            std::thread::yield_now();
        }
        burst.drain().for_each(|f| pool.free(f));
        device.close(&mut pool);
    }

    #[test]
    fn a_wire_is_measured_and_one_that_is_cut_is_told() {
        let settings = FloorSettings { fps: 20_000.0, frames: 500, ..FloorSettings::default() };
        let (over, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mut channel, device) = memory("loop");
        let floor = std::thread::scope(|scope| {
            scope.spawn(|| echo(device, &over));
            let (o, i) = (channel.outlet.as_mut(), channel.inlet.as_mut());
            let floor = measure(o, i, settings, "a loop in memory", "user space", &never);
            over.store(true, Ordering::Relaxed);
            floor
        });
        let floor = floor.unwrap();
        assert_eq!((floor.frames, floor.lost), (500, 0));
        assert!(0.0 < floor.p50_ns && floor.p50_ns <= floor.p99_ns && floor.p99_ns <= floor.max_ns);
        let (mut cut, _device) = memory("cut");
        let few = FloorSettings { frames: 20, ..settings };
        let (o, i) = (cut.outlet.as_mut(), cut.inlet.as_mut());
        let e = measure(o, i, few, "", "", &never).unwrap_err();
        assert_eq!(e, "none of 20 frames came");
    }
}
