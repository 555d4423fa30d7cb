//! The generator on memory ports, by a clock that only it moves.

use super::*;
use crate::clock::Manual;
use crate::probe::{Headers, Vary, streams};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_io::replay::Null;

const RUN: Run = Run(3);

fn port(slots: usize) -> (Port, MemoryPeer) {
    let (device, peer) = Memory::with_peer("m", WireSize { slots, ..WireSize::default() });
    (Port::new(Box::new(device), 256).unwrap(), peer)
}

fn set(count: usize) -> Vec<Stream> {
    streams(Headers::default(), &[Vary::SrcPort], count, 64).unwrap()
}

fn load(fps: f64, end: End, burst: usize) -> Load {
    Load { rate: Rate::new(fps).unwrap(), end, burst, backlog: 2 * burst as u64 }
}

/// (stream, number, stamp) of the probes at a port's other end.
fn seen(peer: &mut MemoryPeer) -> Vec<(u16, u32, u64)> {
    let (mut out, mut bytes) = (Vec::new(), Vec::new());
    while peer.recv(&mut bytes) {
        let be = |r: std::ops::Range<usize>| bytes[r].iter().fold(0, |n, b| n << 8 | u64::from(*b));
        assert_eq!((bytes.len(), be(46..47)), (60, 3));
        out.push((be(44..46) as u16, be(52..56) as u32, be(47..52)));
    }
    out
}

fn run(ports: &mut [Port], streams: &[Stream], load: &Load, clock: &Manual) -> Sent {
    let sent = generate(ports, streams, RUN, load, clock, &AtomicBool::new(false)).unwrap();
    for p in ports {
        assert_eq!(p.pool.available(), p.pool.count(), "every frame is home");
    }
    sent
}

#[test]
fn frames_leave_at_their_times() {
    let (p, mut peer) = port(64);
    let clock = Manual::new();
    clock.advance(Nanos(500));
    let end = End::For(Duration::from_millis(1));
    let sent = run(&mut [p], &set(2), &load(10_000.0, end, 1), &clock);
    assert_eq!((sent.frames, sent.forgone, sent.failed), (10, 0, 0));
    assert_eq!(sent.streams, [0, 1].map(|stream| StreamSent { stream, frames: 5 }));
    assert_eq!(sent.elapsed, Duration::from_millis(1));
    assert_eq!(sent.offered(), Rate::new(10_000.0).ok());
    for (i, (stream, number, stamp)) in seen(&mut peer).into_iter().enumerate() {
        assert_eq!((usize::from(stream), number as usize), (i % 2, i / 2));
        let due = 500 + 100_000 * i as u64;
        assert!((due..due + 2).contains(&stamp), "frame {i} at {stamp}, not {due}");
    }
}

#[test]
fn a_burst_leaves_when_its_last_frame_is_due() {
    let (p, mut peer) = port(64);
    let end = End::After { frames: 10, at_most: Duration::from_secs(1) };
    let sent = run(&mut [p], &set(1), &load(1e6, end, 4), &Manual::new());
    assert_eq!(sent.frames, 10);
    let stamps: Vec<_> = seen(&mut peer).iter().map(|s| s.2 / 1_000).collect();
    assert_eq!(stamps, [3, 3, 3, 3, 7, 7, 7, 7, 9, 9], "and the rest is a burst of its own");
}

#[test]
fn ports_take_turns() {
    let (a, mut at_a) = port(64);
    let (b, mut at_b) = port(64);
    let mut s = set(3);
    s[2].entry = 1;
    let end = End::After { frames: 12, at_most: Duration::from_secs(1) };
    let sent = run(&mut [a, b], &s, &load(1e6, end, 1), &Manual::new());
    assert_eq!(sent.frames, 12);
    let ids = |v: Vec<(u16, u32, u64)>| v.iter().map(|s| s.0).collect::<Vec<_>>();
    assert_eq!(ids(seen(&mut at_a)), [0, 1, 0, 1, 0, 1]);
    assert_eq!(ids(seen(&mut at_b)), [2; 6]);
}

#[test]
fn a_full_port_is_offered_its_burst_again_and_nothing_is_skipped() {
    let (p, mut peer) = port(4);
    let mut ports = [p];
    let clock = Manual::new();
    let end = End::After { frames: 20, at_most: Duration::from_secs(1) };
    let mut g = Generator::new(&ports, &set(1), RUN, &load(1e6, end, 8), &clock).unwrap();
    let (mut got, mut turns, mut emptied) = (Vec::new(), 0, Nanos(0));
    loop {
        match g.step(&mut ports, &clock) {
            Step::Done => break,
            Step::Idle(then) => clock.wait_until(then),
            Step::Sent(_) => {}
            Step::Blocked => {
                clock.pause();
                turns += 1;
                if turns % 50 == 0 {
                    // What was there was full since the last time; the rest came after it.
                    let new = seen(&mut peer);
                    assert!(new.iter().all(|s| s.2 >= emptied.0), "stamped when it was taken");
                    emptied = clock.now();
                    got.extend(new);
                }
            }
        }
    }
    got.extend(seen(&mut peer));
    let sent = g.finish(&mut ports, &clock);
    assert_eq!(sent.frames, 20);
    assert_eq!(got.iter().map(|g| g.1).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(sent.refused > 0 && sent.forgone > 0, "{sent:?}");
    assert_eq!(ports[0].pool.available(), 256);
}

#[test]
fn a_port_that_never_takes_ends_by_time() {
    let (p, peer) = port(4);
    let end = End::After { frames: 20, at_most: Duration::from_millis(5) };
    let sent = run(&mut [p], &set(1), &load(1e6, end, 8), &Manual::new());
    assert_eq!((sent.frames, sent.streams[0].frames), (4, 4));
    assert!(sent.elapsed >= Duration::from_millis(5));
    assert!(sent.offered().unwrap().fps() < 1e6);
    // Its other end gone: nothing at all.
    drop(peer);
    let (p, peer) = port(4);
    drop(peer);
    let end = End::For(Duration::from_millis(5));
    let sent = run(&mut [p], &set(1), &load(1e6, end, 8), &Manual::new());
    assert_eq!((sent.frames, sent.offered()), (0, None));
}

#[test]
fn after_a_stall_no_more_than_the_backlog() {
    let (p, mut peer) = port(128);
    let mut ports = [p];
    let clock = Manual::new();
    let end = End::For(Duration::from_millis(1));
    let mut g = Generator::new(&ports, &set(1), RUN, &load(1e5, end, 2), &clock).unwrap();
    let mut at_once = 0;
    loop {
        let before = g.frames();
        match g.step(&mut ports, &clock) {
            Step::Done => break,
            Step::Idle(then) => clock.wait_until(then),
            _ => {}
        }
        at_once = if g.frames() > before { at_once + g.frames() - before } else { 0 };
        assert!(at_once <= 4, "{at_once} frames without a pause");
        if before < 20 && g.frames() >= 20 {
            // 300 µs: thirty frames.
            clock.advance(Nanos(300_000));
            at_once = 0;
        }
    }
    let sent = g.finish(&mut ports, &clock);
    let stamps: Vec<_> = seen(&mut peer).iter().map(|s| s.2).collect();
    assert_eq!(sent.frames + sent.forgone, 100, "{sent:?}");
    assert!((24..30).contains(&sent.forgone), "{sent:?}");
    assert_eq!(stamps.len() as u64, sent.frames);
    assert!(sent.offered().unwrap().fps() < 80_000.0);
}

#[test]
fn a_source_from_memory_reaches_what_is_asked() {
    let mut ports = [Port::new(Box::new(Null::new("null")), 256).unwrap()];
    let end = End::After { frames: 1_000, at_most: Duration::from_secs(1) };
    let sent = run(&mut ports, &set(7), &load(1e9, end, 64), &Manual::new());
    assert_eq!((sent.frames, sent.refused, sent.starved), (1_000, 0, 0));
    assert_eq!(sent.streams.iter().map(|s| s.frames).sum::<u64>(), 1_000);
}

#[test]
fn what_can_not_be_sent() {
    let try_with = |streams: &[Stream]| {
        let (p, _peer) = port(4);
        let l = load(1e3, End::For(Duration::from_secs(1)), 1);
        Generator::new(&[p], streams, RUN, &l, &Manual::new()).map(|_| ()).unwrap_err()
    };
    let good = set(1)[0];
    assert_eq!(try_with(&[]), LoadError::NoStream);
    let stray = Stream { entry: 1, ..good };
    assert_eq!(try_with(&[stray]), LoadError::NoPort { stream: 0, port: 1, ports: 1 });
    let size = Stream { frame_bytes_on_wire: 60, ..good };
    assert!(matches!(try_with(&[size]), LoadError::Probe { stream: 0, .. }));
    let (device, _peer) = Memory::with_peer("short", WireSize { slots: 4, max_frame_bytes: 100 });
    let ports = [Port::new(Box::new(device), 16).unwrap()];
    let long = Stream { frame_bytes_on_wire: 128, ..good };
    let l = load(1e3, End::For(Duration::from_secs(1)), 1);
    let error = Generator::new(&ports, &[long], RUN, &l, &Manual::new()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stream 0: frames of 124 bytes (without FCS), but 'short' takes 100"
    );
}

#[test]
fn stop_is_heard() {
    let (p, mut peer) = port(4);
    let end = End::For(Duration::from_secs(1_000_000));
    let l = load(0.001, end, 1);
    let sent =
        generate(&mut [p], &set(1), RUN, &l, &Manual::new(), &AtomicBool::new(true)).unwrap();
    assert_eq!((sent.frames, seen(&mut peer).len()), (0, 0));
}
