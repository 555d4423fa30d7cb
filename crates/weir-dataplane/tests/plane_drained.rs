//! What a drain to the fast path has held goes on in order and without loss, and keeps nobody else up.

mod plane_common;

use plane_common::keeper::{keeper, of};
use plane_common::*;
use std::sync::atomic::Ordering::Relaxed;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::*;

const ROUND: u64 = 20_000;

struct Clock(u64);
impl Clock {
    fn poll(&mut self, p: &mut DataPlane, rounds: u64) {
        for _ in 0..rounds {
            self.0 += ROUND;
            p.poll(Nanos(self.0));
        }
    }
}

/// What was held during a drain is more than the port's queue, whose wire takes so many frames a round. How many
/// were held, and dropped.
fn drained(feed: Feed, wire_takes: usize, rounds: u64) -> (u64, VdpView) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let source = Sequencer::new(1, 1, 20_000);
    let source = match feed {
        Feed::Waits => source,
        Feed::Overflows => source.overflowing(32),
    };
    let i = p.add_port("in", Box::new(source)).unwrap();
    let o = p.add_port("out", Box::new(SlowWire::new(wire_takes).0)).unwrap();
    let (program, open) = keeper(1);
    let mut s = vlan_vdp(1, 1, i, o);
    (s.program, s.path) = (Some(program), Path::Slow);
    p.create_vdp(s).unwrap();
    let mut clock = 0;
    let mut poll = |p: &mut DataPlane, n: u64| {
        for _ in 0..n {
            clock += 20_000;
            p.poll(Nanos(clock));
        }
    };
    // The first frame is in the program's hands.
    poll(&mut p, 1);
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    poll(&mut p, 20);
    assert_eq!(of(&p, 1).counters.dropped.total(), 0);
    p.migrate(Vid(1), Path::Fast).unwrap();
    poll(&mut p, 70);
    open.store(true, Relaxed);
    poll(&mut p, rounds);
    p.snapshot().check().unwrap();
    let v = of(&p, 1);
    assert_eq!(
        (v.migration.completed, v.migration.given_up, v.phase),
        (1, 0, Phase::On(Path::Fast))
    );
    (v.migration.held, v)
}

/// The wire takes twice as much as comes.
#[test]
fn what_is_more_than_a_queue_finds_room() {
    for feed in [Feed::Overflows, Feed::Waits] {
        let (held, v) = drained(feed, 64, 3000);
        assert!(held > 2000, "{held}");
        let counted = (v.counters.dropped.total(), v.counters.forwarded.frames);
        assert_eq!(counted, (0, 20_000), "of {held} held, {feed:?}");
    }
}

/// A wire that takes less than comes, and one that takes nothing: what is held does not end, and the way does.
#[test]
fn a_drain_ends_where_the_wire_does_not_keep_up() {
    for takes in [16, 0] {
        let (held, v) = drained(Feed::Overflows, takes, 51_000);
        assert!(held > 2000, "{held}");
        let d = &v.counters.dropped;
        assert_eq!(d.total(), d.get(DropReason::QueueFull) + d.get(DropReason::HoldFull));
    }
}

/// VDP 1's frames all go to its program, on either path; beside it four VDPs flood the channel, or nobody. What comes out at the
/// end of its way.
fn all_to_the_channel(channel_frames: usize, floods: u16, feed: Feed) -> (Seen, VdpView) {
    let mut p = DataPlane::new(Config { channel_frames, ..Config::default() }).unwrap();
    let s = Sequencer::new(1, 1, 20_000);
    let s = if feed == Feed::Waits { s } else { s.overflowing(32) };
    let i = p.add_port("in", Box::new(s)).unwrap();
    let (sink, seen) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    let (program, open) = keeper(1);
    let mut s = vlan_vdp(1, 1, i, o);
    (s.program, s.path) = (Some(program), Path::Slow);
    p.create_vdp(s).unwrap();
    for k in 2..2 + floods {
        let flood = Sequencer::new(k, 1, u64::MAX).overflowing(64);
        let b = p.add_port(&format!("b{k}"), Box::new(flood)).unwrap();
        let ob = p.add_port(&format!("ob{k}"), Box::new(SlowWire::new(usize::MAX).0)).unwrap();
        let mut s = vlan_vdp(k, k, b, ob);
        (s.program, s.path) = (Some(keeper(0).0), Path::Slow);
        p.create_vdp(s).unwrap();
    }
    let mut clock = Clock(0);
    clock.poll(&mut p, 1);
    p.migrate(Vid(1), Path::Fast).unwrap();
    clock.poll(&mut p, 90);
    open.store(true, Relaxed);
    clock.poll(&mut p, 3_000);
    p.snapshot().check().unwrap();
    let seen = seen.lock().unwrap().clone();
    let v = of(&p, 1);
    assert!(v.migration.completed == 1 && v.migration.held > 2000, "{:?}", v.migration);
    (seen, v)
}

#[test]
fn what_goes_to_the_channel_stays_in_order_and_finds_room() {
    for (frames, floods) in [(128, 0), (1024, 0), (1024, 4)] {
        let (s, v) = all_to_the_channel(frames, floods, Feed::Waits);
        // The frame that its program kept comes when that lets it go.
        assert_eq!(
            (s.reordered_or_duplicated, v.counters.dropped.total()),
            (1, 0),
            "{frames} {floods}: {v:?}"
        );
    }
    for frames in [512, 1024] {
        let (s, v) = all_to_the_channel(frames, 0, Feed::Overflows);
        assert_eq!(
            (s.reordered_or_duplicated, v.counters.dropped.total()),
            (1, 0),
            "{frames}: {v:?}"
        );
    }
    // Beside those who flood some find no room, as ever.
    let (s, _) = all_to_the_channel(1024, 4, Feed::Overflows);
    assert_eq!(s.reordered_or_duplicated, 1);
}

/// One of VDP 1's ports is slow and full; its other port is free, and VDP 2 has nothing to do with either.
#[test]
fn a_slow_port_keeps_up_neither_other_ports_nor_others() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let mut a = Sequencer::new(1, 1, u64::MAX).overflowing(1);
    let mut b = Sequencer::new(1, 1, u64::MAX).overflowing(32);
    (a.dst, b.dst) = (1, 2);
    let a = p.add_port("a", Box::new(a)).unwrap();
    let b = p.add_port("b", Box::new(b)).unwrap();
    let c = p.add_port("c", Box::new(Sequencer::new(2, 1, u64::MAX))).unwrap();
    let mut port = |n: &str| p.add_port(n, Box::new(SlowWire::new(usize::MAX).0)).unwrap();
    let (slow, fast, oc) = (port("slow"), port("fast"), port("oc"));
    let mut s = vlan_vdp(1, 1, a, slow);
    s.ports = vec![(PortNo(1), a), (PortNo(4), b), (PortNo(2), slow), (PortNo(3), fast)];
    s.program = Some(keeper(0).0);
    p.create_vdp(s).unwrap();
    for (dst, o) in [(1u128, 2), (2, 3)] {
        let m = Match::any().with(Field::EthDst, 0x0200_0000_0000 | dst);
        p.add_rule(Vid(1), 0, &rule(m, 1, &[out(o)]), Placement::Fast).unwrap();
    }
    let share =
        PortShare { ceiling_bps: Some(1_000_000), queue_frames: 300, ..PortShare::default() };
    p.set_share(Vid(1), slow, share).unwrap();
    p.create_vdp(vlan_vdp(2, 2, c, oc)).unwrap();
    p.add_rule(Vid(2), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let mut clock = Clock(0);
    clock.poll(&mut p, 1000);
    p.migrate(Vid(1), Path::Slow).unwrap();
    clock.poll(&mut p, 10);
    let before = of(&p, 2).counters.received.frames;
    p.migrate(Vid(1), Path::Fast).unwrap();
    clock.poll(&mut p, 1000);
    p.snapshot().check().unwrap();
    let (v, w) = (of(&p, 1), of(&p, 2));
    assert_eq!(v.phase, Phase::On(Path::Fast));
    assert_eq!(v.counters.dropped.total(), v.counters.dropped.get(DropReason::QueueFull));
    let sent = v.port_counters.iter().find(|c| c.0 == PortNo(3)).unwrap().1.tx.frames;
    assert!(sent >= 32 * 2009, "{sent}");
    let got = w.counters.received.frames - before;
    assert!(got >= 64 * 990, "{got} of VDP 2 in 1000 rounds");
}

/// More comes in a round than ports take at once, and no port is slow.
#[test]
fn many_ports_are_kept_up_with() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let mut s = VdpSpec::new(Vid(1), "v1");
    s.mapping = vec![by_vlan(1)];
    for k in 0..8u32 {
        let source = Sequencer::new(1, 1, u64::MAX).overflowing(if k == 0 { 20 } else { 40 });
        let id = p.add_port(&format!("i{k}"), Box::new(source)).unwrap();
        s.ports.push((PortNo(10 + k), id));
    }
    let o = p.add_port("o", Box::new(SlowWire::new(usize::MAX).0)).unwrap();
    s.ports.push((PortNo(2), o));
    s.program = Some(keeper(0).0);
    p.create_vdp(s).unwrap();
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let mut clock = Clock(0);
    clock.poll(&mut p, 100);
    p.migrate(Vid(1), Path::Slow).unwrap();
    clock.poll(&mut p, 1);
    p.migrate(Vid(1), Path::Fast).unwrap();
    clock.poll(&mut p, 100);
    p.snapshot().check().unwrap();
    let v = of(&p, 1);
    assert_eq!((v.counters.dropped.total(), v.phase), (0, Phase::On(Path::Fast)));
    assert_eq!(v.counters.forwarded.frames, 300 * 201);
}

/// Deleted, or sent back to the slow path by a rule there, at each round while what was held goes on.
#[test]
fn deleted_or_spilled_while_held_frames_go_on() {
    let mut met = 0;
    for (spilled, at) in [false, true].into_iter().flat_map(|s| (0..9u64).map(move |at| (s, at))) {
        let mut p = DataPlane::new(Config::default()).unwrap();
        let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 20_000).overflowing(32))).unwrap();
        let (wire, _) = SlowWire::new(100);
        let o = p.add_port("out", Box::new(wire)).unwrap();
        let mut s = vlan_vdp(1, 1, i, o);
        (s.program, s.path) = (Some(keeper(0).0), Path::Slow);
        p.create_vdp(s).unwrap();
        p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
        let mut server = p.take_server(3).unwrap();
        let mut clock = 0;
        let mut round = |p: &mut DataPlane, server: Option<&mut Server>| {
            clock += ROUND;
            p.poll(Nanos(clock));
            server.into_iter().for_each(|s| _ = s.serve(Nanos(clock)));
        };
        let is_going_on = |p: &DataPlane| matches!(p.phase(Vid(1)), Ok(Phase::Drained { .. }));
        (0..3).for_each(|_| round(&mut p, None));
        p.migrate(Vid(1), Path::Fast).unwrap();
        // Nobody serves for a while.
        (0..60).for_each(|_| round(&mut p, None));
        let began = (0..40).any(|_| {
            round(&mut p, Some(&mut server));
            is_going_on(&p)
        });
        assert!(began);
        for _ in 0..at {
            round(&mut p, Some(&mut server));
            p.snapshot().check().unwrap();
        }
        met += u32::from(is_going_on(&p));
        if spilled {
            let other = Match::any().with(Field::EthDst, 7);
            p.add_rule(Vid(1), 1, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
            p.add_rule(Vid(1), 0, &rule(other, 9, &[out(2)]), Placement::Slow).unwrap();
        } else {
            p.delete_vdp(Vid(1)).unwrap();
        }
        for _ in 0..1000 {
            round(&mut p, Some(&mut server));
            p.snapshot().check().unwrap();
        }
        p.put_server(3, server);
        settle(&mut p, &mut clock);
        match p.phase(Vid(1)) {
            Ok(phase) => {
                assert_eq!((phase, of(&p, 1).held, spilled), (Phase::On(Path::Slow), 0, true))
            }
            Err(_) => assert!(!spilled),
        }
    }
    assert!(met >= 10, "{met} of 18 were while it went on");
}
