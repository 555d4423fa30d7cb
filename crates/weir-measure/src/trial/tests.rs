//! Trials on memory ports, with a device under test that does what it is told.

use super::*;
use crate::clock::{Manual, Monotonic, Wait};
use crate::probe::{Headers, Vary, streams};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::{Burst, Caps, Device, DeviceCounters, Feed, LinkState, Pool};

fn port(name: &str) -> (Port, MemoryPeer) {
    let (device, peer) = Memory::with_peer(name, WireSize { slots: 256, ..WireSize::default() });
    (Port::new(Box::new(device), 512).unwrap(), peer)
}

fn quick() -> PortTrialSettings {
    let ms = Duration::from_millis;
    let drain = Drain { settle: ms(5), quiet: ms(200), at_most: ms(2_000) };
    PortTrialSettings { drain, ..PortTrialSettings::default() }
}

fn after(frames: u64) -> End {
    End::After { frames, at_most: Duration::from_secs(20) }
}

/// Runs `device` for as long as `f` does: it is called with each frame and says what leaves.
fn beside<R>(
    mut input: MemoryPeer,
    mut output: MemoryPeer,
    mut device: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send,
    f: impl FnOnce() -> R,
) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut frame = Vec::new();
            while !over.load(Ordering::Relaxed) {
                if !input.recv(&mut frame) {
                    std::thread::yield_now();
                    continue;
                }
                for out in device(&frame) {
                    while output.send(&out).is_err() && !over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let r = f();
        over.store(true, Ordering::Relaxed);
        r
    })
}

#[test]
fn what_the_device_did_is_what_the_trial_says() {
    let (source, input) = port("in");
    let (sink, output) = port("out");
    let set = streams(Headers::default(), &[Vary::SrcPort], 2, 128).unwrap();
    let ports = Ports::Apart { sources: vec![source], sinks: vec![sink] };
    let mut trial = PortTrial::new(ports, set, Monotonic::new(Wait::Yield), quick());
    let (mut n, mut kept) = (0, Vec::new());
    let device = move |frame: &[u8]| {
        n += 1;
        let frame = frame.to_vec();
        match n {
            // Lost; lost; twice; damaged; not ours.
            10 | 11 => vec![],
            20 => vec![frame.clone(), frame],
            30 => {
                vec![frame.iter().enumerate().map(|(i, b)| if i == 90 { !b } else { *b }).collect()]
            }
            40 => vec![frame, vec![0; 60]],
            // Behind the next of its stream.
            50 => {
                kept = vec![frame];
                vec![]
            }
            53 => vec![frame, std::mem::take(&mut kept).remove(0)],
            _ => vec![frame],
        }
    };
    beside(input, output, device, || {
        let load = trial.load(Rate::new(50_000.0).unwrap(), after(1_000));
        let t = trial.trial(&load).unwrap();
        let total = t.tally.total;
        assert_eq!((total.sent, total.received(), total.lost), (1_000, 997, 3), "{:?}", t.tally);
        assert_eq!((total.duplicated, total.reordered, total.late_by_max), (1, 1, 2));
        assert_eq!((t.tally.corrupted, t.tally.foreign, t.tally.other_runs), (1, 1, 0));
        assert_eq!(t.received.by_port, [1_000]);
        assert_eq!(t.received.latency.count() + t.received.from_the_future, 997);
        assert!(!t.tally.is_perfect());
        // And the next is clean.
        let load = trial.load(Rate::new(50_000.0).unwrap(), after(500));
        assert!(trial.trial(&load).unwrap().tally.is_perfect());
    });
    let Ports::Apart { sources, sinks } = trial.into_ports() else { unreachable!() };
    for p in sources.iter().chain(&sinks) {
        assert_eq!(p.pool.available(), p.pool.count());
    }
}

#[test]
fn one_thread_serves_ports_both_ways() {
    // Two ports joined by a wire: each sends to the other. No thread, no real time.
    let (a, b) = Memory::pair(["a", "b"], WireSize::default());
    let ports = [a, b].map(|d| Port::new(Box::new(d), 2_048).unwrap());
    let mut set = streams(Headers::default(), &[Vary::SrcPort], 2, 64).unwrap();
    for (s, (entry, exit)) in set.iter_mut().zip([(0, 1), (1, 0)]) {
        (s.entry, s.exit) = (entry, Some(exit));
    }
    let mut trial =
        PortTrial::new(Ports::Together(ports.into()), set.clone(), Manual::new(), quick());
    let load = trial.load(Rate::new(1e6).unwrap(), End::For(Duration::from_millis(10)));
    let t = trial.trial(&load).unwrap();
    assert!(t.tally.is_perfect(), "{:?}", t.tally);
    assert_eq!((t.sent.frames, t.left()), (10_000, 10_000));
    assert_eq!(t.received.by_port, [5_000, 5_000]);
    assert_eq!(t.received.latency.count(), 10_000);
    // With the exits exchanged everything is misdelivered, and so lost.
    for s in &mut set {
        s.exit = Some(s.entry);
    }
    let mut trial = PortTrial::new(trial.into_ports(), set, Manual::new(), quick());
    let t = trial.trial(&load).unwrap();
    assert_eq!((t.tally.total.misdelivered, t.tally.total.lost), (10_000, 10_000));
}

/// A wire from its transmit side to its receive side that carries a known rate, by a clock that is
/// moved by hand: what comes faster finds the queue full and is lost.
struct Bottleneck {
    clock: Arc<Manual>,
    /// Time per frame.
    service: Nanos,
    queue: std::collections::VecDeque<(Nanos, Vec<u8>)>,
    free_at: Nanos,
    lost: u64,
}

const QUEUE: usize = 64;

impl Device for Bottleneck {
    fn name(&self) -> &str {
        "bottleneck"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut n = 0;
        while burst.room() > 0 && self.queue.front().is_some_and(|f| f.0 <= self.clock.now()) {
            let Some(mut frame) = pool.alloc() else { break };
            let (_, bytes) = self.queue.pop_front().unwrap();
            frame.copy_from(&bytes).unwrap();
            burst.push(frame).unwrap();
            n += 1;
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        for frame in burst.drain() {
            if self.queue.len() < QUEUE {
                self.free_at = self.free_at.max(self.clock.now()) + self.service;
                self.queue.push_back((self.free_at, frame.bytes().to_vec()));
            } else {
                self.lost += 1;
            }
            pool.free(frame);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

impl Clock for Arc<Manual> {
    fn now(&self) -> weir_packet::Nanos {
        (**self).now()
    }
    fn wait_until(&self, then: weir_packet::Nanos) {
        (**self).wait_until(then);
    }
    fn pause(&self) {
        (**self).pause();
    }
}

use weir_packet::Nanos;

fn bottleneck() -> PortTrial<Arc<Manual>> {
    let clock = Arc::new(Manual::new());
    let device = Bottleneck {
        clock: Arc::clone(&clock),
        // A quarter of a million frames a second.
        service: Nanos(4_000),
        queue: std::collections::VecDeque::new(),
        free_at: Nanos(0),
        lost: 0,
    };
    let ports = vec![Port::new(Box::new(device), 256).unwrap()];
    let set = streams(Headers::default(), &[], 1, 64).unwrap();
    let settings = PortTrialSettings { burst: Some(1), ..quick() };
    PortTrial::new(Ports::Together(ports), set, clock, settings)
}

/// The whole chain, from the search down to single frames, against a device of known capacity; all
/// in the clock's time.
#[test]
fn rfc_2544_finds_a_known_bottleneck() {
    let mut trial = bottleneck();
    let rate = |fps| Rate::new(fps).unwrap();
    let settings = rfc2544::ThroughputSettings {
        duration: Duration::from_millis(100),
        ..rfc2544::ThroughputSettings::over(rate(10_000.0), rate(900_000.0))
    };
    let found = rfc2544::throughput(&mut trial, &settings).unwrap();
    let fps = found.rate.unwrap().fps();
    // Over 100 ms a queue of 64 hides 640 frames a second.
    assert!((248_000.0..252_000.0).contains(&fps), "{fps}");
    assert!(matches!(found.limited_by, rfc2544::LimitedBy::Device { .. }));

    let settings = rfc2544::DelaySettings {
        rate: rate(100_000.0),
        duration: Duration::from_millis(20),
        repetitions: 2,
    };
    let delay = rfc2544::latency(&mut trial, &settings).unwrap();
    // 4 µs of service, and up to a tick of the clock until it is polled.
    let p50 = delay.median_ns.unwrap();
    assert!((4_000.0..6_100.0).contains(&p50), "{p50}");

    let settings = rfc2544::LossSettings {
        max: rate(500_000.0),
        step: 0.1,
        duration: Duration::from_millis(100),
    };
    let curve = rfc2544::frame_loss(&mut trial, &settings).unwrap();
    assert!((curve[0].loss_percent - 50.0).abs() < 0.5, "{curve:?}");

    let settings = rfc2544::BackToBackSettings { max_frames: 500, repetitions: 3 };
    let burst = rfc2544::back_to_back(&mut trial, &settings).unwrap();
    // The queue, and what the device forwards while the burst comes in.
    assert!((64.0..80.0).contains(&burst.mean_frames), "{burst:?}");
}

#[test]
fn a_stopped_trial_says_so() {
    let mut trial = bottleneck();
    trial.stop().store(true, Ordering::Relaxed);
    let load = trial.load(Rate::new(1e3).unwrap(), after(10));
    assert_eq!(trial.trial(&load).map(|_| ()), Err(TrialError::Stopped));
    assert!(trial.last().is_none());
}
