//! Moving a VDP between fast and slow path (004 §4.2): nothing lost, duplicated or reordered, shown
//! by sequence numbers carried in the frames.

#[path = "plane_migration/away.rs"]
mod away;
mod plane_common;

use plane_common::*;
use weir_classify::Match;
use weir_dataplane::*;
use weir_packet::Nanos;

/// Moves back and forth under load until `migrations` have been completed.
fn shuttle(mut p: DataPlane, vid: Vid, migrations: u64) -> (DataPlane, u64) {
    let mut clock = 0;
    let mut rounds = 0u64;
    loop {
        clock += 5_000;
        p.poll(Nanos(clock));
        rounds += 1;
        let done = p.snapshot().vdps.iter().find(|v| v.vid == vid).unwrap().migration;
        assert_eq!(done.given_up, 0, "a drain was given up after {rounds} rounds");
        if done.completed >= migrations {
            return (p, clock);
        }
        if let Phase::On(at) = p.phase(vid).unwrap()
            && rounds.is_multiple_of(7)
        {
            let to = if at == Path::Fast { Path::Slow } else { Path::Fast };
            p.migrate(vid, to).unwrap();
        }
    }
}

fn plane(source: Sequencer) -> (DataPlane, std::sync::Arc<std::sync::Mutex<Seen>>) {
    let flows = source.flows as usize;
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(source)).unwrap();
    let (sink, seen) = Checker::new(flows);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    let rewrite = rule(Match::any(), 1, &[Action::DecTtl, out(2)]);
    p.add_rule(Vid(1), 0, &rewrite, Placement::Fast).unwrap();
    (p, seen)
}

fn finish(mut p: DataPlane, mut clock: u64, seen: &std::sync::Mutex<Seen>) {
    // The source has been told to go on for ever: take its port away, then let all come out.
    let input = p.port_named("in").unwrap();
    p.remove_port(input).unwrap();
    settle(&mut p, &mut clock);
    let s = p.snapshot();
    let v = s.vdps.iter().find(|v| v.vid == Vid(1)).unwrap();
    assert_eq!(v.counters.dropped.total() + v.held as u64, 0, "{:?}", v.counters);
    let seen = seen.lock().unwrap();
    assert_eq!(v.counters.received, v.counters.forwarded);
    assert_eq!((seen.frames, seen.lost), (v.counters.received.frames, 0));
    assert_eq!(seen.reordered_or_duplicated, 0);
    assert!(v.counters.slow > 0 && v.counters.slow < v.counters.received.frames);
    let (fast, slow) = p.rules(Vid(1)).unwrap();
    p.poll(Nanos(clock + 1));
    let hits: u64 = fast.iter().chain(&slow.recv().unwrap()).map(|r| r.hits.frames).sum();
    assert_eq!(hits, v.counters.received.frames, "the rule's counter is conserved");
}

/// How often: in full under WEIR_SOAK.
fn count(reduced: u64, full: u64) -> u64 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { full } else { reduced };
    println!("soak: {n} migrations");
    n
}

#[test]
fn soak_migration_with_a_source_that_waits_at_full_rate() {
    let (p, seen) = plane(Sequencer::new(5, 16, u64::MAX));
    let (p, clock) = shuttle(p, Vid(1), count(200, 2000));
    finish(p, clock, &seen);
}

#[test]
fn soak_migration_with_a_source_that_does_not_wait() {
    // A round of the worker serves a burst of 64 on the slow path: 51 a round is 80 % of that.
    let (p, seen) = plane(Sequencer::new(5, 16, u64::MAX).overflowing(51));
    let (p, clock) = shuttle(p, Vid(1), count(200, 2000));
    finish(p, clock, &seen);
}

#[test]
fn soak_migration_with_a_server_on_its_own_thread() {
    let (mut p, seen) = plane(Sequencer::new(5, 16, u64::MAX));
    let mut server = p.take_server(3).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            if server.serve(Nanos(0)) == 0 {
                std::thread::yield_now();
            }
        }
        server
    });
    let n = count(50, 1000);
    let mut clock = 0;
    let mut rounds = 0u64;
    // The drain depends on another thread: no virtual deadline can know how long that takes.
    while p.snapshot().vdps[1].migration.completed < n {
        p.poll(Nanos(clock));
        clock += 1;
        rounds += 1;
        if let Phase::On(at) = p.phase(Vid(1)).unwrap()
            && rounds.is_multiple_of(64)
        {
            p.migrate(Vid(1), if at == Path::Fast { Path::Slow } else { Path::Fast }).unwrap();
        }
        if rounds.is_multiple_of(16) {
            std::thread::yield_now();
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    p.put_server(3, thread.join().unwrap());
    finish(p, clock, &seen);
}

#[test]
fn a_program_that_keeps_its_frames_makes_the_migration_give_up() {
    /// Keeps everything until it is released.
    #[derive(Default)]
    struct Miser(Vec<weir_packet::Frame>);
    impl Program for Miser {
        fn name(&self) -> &'static str {
            "miser"
        }
        fn frame(&mut self, rx: SlowFrame, _: &mut ProgramCx<'_>) {
            self.0.push(rx.frame);
        }
        fn held(&self) -> usize {
            self.0.len()
        }
        fn release(&mut self, cx: &mut ProgramCx<'_>) {
            for f in self.0.drain(..) {
                cx.drop(f, weir_packet::DropReason::Program);
            }
        }
    }
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 1, 500).overflowing(10))).unwrap();
    let (sink, _) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    let mut spec = vlan_vdp(1, 5, i, o);
    spec.program = Some(Box::new(Miser::default()));
    spec.path = Path::Slow;
    p.create_vdp(spec).unwrap();
    let mut clock = 0;
    for _ in 0..10 {
        clock += 1000;
        p.poll(Nanos(clock));
    }
    p.migrate(Vid(1), Path::Fast).unwrap();
    settle(&mut p, &mut clock);
    clock += 20_000_000;
    settle(&mut p, &mut clock);
    assert_eq!(p.phase(Vid(1)).unwrap(), Phase::On(Path::Slow));
    let v = p.snapshot().vdps[1].clone();
    assert_eq!((v.migration.given_up, v.migration.completed), (1, 0));
    assert_eq!((v.counters.received.frames, v.held), (500, 500));
    // Deleting it ends every frame, and only then is the VID free.
    p.delete_vdp(Vid(1)).unwrap();
    settle(&mut p, &mut clock);
    let s = p.snapshot();
    assert!(s.vdps.iter().all(|v| v.vid != Vid(1)));
    assert_eq!(s.retired.dropped.get(weir_packet::DropReason::Program), 500);
}

/// One VDP takes the place of another between two bursts; who stays has all that both have counted.
#[test]
fn a_vdp_that_goes_leaves_its_counters_to_another() {
    const FRAMES: u64 = 1000;
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 1, FRAMES))).unwrap();
    let (sink, seen) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    let mapping = vlan_vdp(1, 5, i, o).mapping;
    for n in [1, 2] {
        let mut s = vlan_vdp(n, 5, i, o);
        if n == 2 {
            s.mapping.clear();
        }
        p.create_vdp(s).unwrap();
        p.add_rule(Vid(n), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    }
    let mut clock = 0;
    let of = |p: &DataPlane, n: u16| p.snapshot().vdps.into_iter().find(|v| v.vid == Vid(n));
    while of(&p, 1).unwrap().counters.received.frames == 0 {
        assert!(clock < 1_000_000_000, "nothing comes");
        clock += 5_000;
        p.poll(Nanos(clock));
    }
    for (from, to) in [(1, 2), (2, 1), (1, 2)] {
        for m in &mapping {
            p.remove_mapping(Vid(from), m).unwrap();
            p.add_mapping(Vid(to), m).unwrap();
        }
        clock += 5_000;
        p.poll(Nanos(clock));
    }
    p.bequeath(Vid(2), Vid(1)).unwrap();
    settle(&mut p, &mut clock);
    assert!(of(&p, 2).unwrap().counters.received.frames > 0);
    p.delete_vdp(Vid(2)).unwrap();
    settle(&mut p, &mut clock);
    let v = of(&p, 1).unwrap();
    assert!(of(&p, 2).is_none());
    let seen = seen.lock().unwrap();
    assert_eq!((seen.frames, seen.lost, seen.reordered_or_duplicated), (FRAMES, 0, 0));
    assert_eq!((v.counters.received.frames, v.counters.forwarded.frames), (FRAMES, FRAMES));
    assert_eq!(v.port_counters[0].1.rx.frames, FRAMES);
    assert_eq!(v.port_counters[1].1.tx.frames, FRAMES);
    assert_eq!(v.counters.came(), v.counters.ended());
}
