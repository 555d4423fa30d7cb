//! What one VDP costs another: migrations, queues and packets of controllers, beside VDPs that have nothing to do with them, and
//! beside ports that have the frames of the pool lent.

mod plane_common;

use plane_common::keeper::{keeper, of};
use plane_common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use weir_classify::Match;
use weir_dataplane::*;
use weir_packet::*;

fn wire(
    p: &mut DataPlane,
    name: &str,
    per_round: usize,
) -> (PortId, Arc<std::sync::Mutex<Vec<Vec<u8>>>>) {
    let (w, taken) = SlowWire::new(per_round);
    (p.add_port(name, Box::new(w)).unwrap(), taken)
}

/// VDP 1 is on its way to the fast path; VDP 2 has nothing to do with it.
fn received_while_another_drains(
    ports: usize,
    flood: usize,
    keep: usize,
    rounds: u64,
) -> (u64, u64, Phase) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let a = p
        .add_port(
            "a",
            Box::new(
                Sequencer::new(1, 1, if flood == 1 { 1 } else { u64::MAX }).overflowing(flood),
            ),
        )
        .unwrap();
    let b = p.add_port("b", Box::new(Sequencer::new(2, 1, u64::MAX).overflowing(16))).unwrap();
    let (oa, _) = wire(&mut p, "oa", usize::MAX);
    let (ob, _) = wire(&mut p, "ob", usize::MAX);
    for i in 4..ports {
        wire(&mut p, &format!("idle{i}"), usize::MAX);
    }
    let mut s = vlan_vdp(1, 1, a, oa);
    (s.program, s.path) = (Some(keeper(keep).0), Path::Slow);
    p.create_vdp(s).unwrap();
    p.create_vdp(vlan_vdp(2, 2, b, ob)).unwrap();
    p.add_rule(Vid(2), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let mut clock = 0;
    let mut poll = |p: &mut DataPlane, n: u64| {
        for _ in 0..n {
            clock += 20_000;
            p.poll(Nanos(clock));
        }
    };
    poll(&mut p, 20);
    let before = of(&p, 2).counters.received.frames;
    assert_eq!(before, 16 * 20);
    p.migrate(Vid(1), Path::Fast).unwrap();
    poll(&mut p, rounds);
    p.snapshot().check().unwrap();
    let phase = p.phase(Vid(1)).unwrap();
    (of(&p, 2).counters.received.frames - before, of(&p, 1).held as u64, phase)
}

/// One frame of VDP 1 is in its program's hands, and what the ports might bring is more than may be held.
#[test]
fn a_drain_among_many_ports_leaves_others_polled() {
    let (few, ..) = received_while_another_drains(60, 1, 1, 400);
    assert_eq!(few, 16 * 400, "60 ports");
    let (many, ..) = received_while_another_drains(70, 1, 1, 400);
    assert_eq!(many, 16 * 400, "70 ports");
}

/// VDP 1 floods while it drains, and its hold fills.
#[test]
fn a_full_hold_is_its_own_vdps_affair() {
    let (got, ..) = received_while_another_drains(4, 64, 1, 400);
    assert_eq!(got, 16 * 400, "within drain_limit");
}

/// The same with a program that keeps what it has.
#[test]
fn a_vdp_that_returns_does_not_stop_the_worker_for_ever() {
    let (got, held, phase) = received_while_another_drains(4, 64, 100_000, 50_000);
    assert_eq!(got, 16 * 50_000, "a second after drain_limit: {held} held, {phase:?}");
}

/// VDP 1 has a few frames waiting at each of some ports with a ceiling; the sources of others wait.
fn waits_beside_few(frames: usize, sources: u16, queues: u32) -> (u64, usize) {
    let mut p = DataPlane::new(Config { frames, ..Config::default() }).unwrap();
    let a = p.add_port("a", Box::new(Sequencer::new(1, 1, u64::MAX).overflowing(1))).unwrap();
    let mut s = vlan_vdp(1, 1, a, a);
    s.ports = vec![(PortNo(1), a)];
    let mut slow = Vec::new();
    for k in 0..queues {
        let (o, _) = wire(&mut p, &format!("oa{k}"), usize::MAX);
        s.ports.push((PortNo(2 + k), o));
        slow.push(o);
    }
    p.create_vdp(s).unwrap();
    let all: Vec<_> = (2..).take(queues as usize).map(out).collect();
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &all), Placement::Fast).unwrap();
    for o in slow {
        let share =
            PortShare { ceiling_bps: Some(64_000), queue_frames: 2, ..PortShare::default() };
        p.set_share(Vid(1), o, share).unwrap();
    }
    for k in 0..sources {
        let b =
            p.add_port(&format!("b{k}"), Box::new(Sequencer::new(100 + k, 1, u64::MAX))).unwrap();
        let (o, _) = wire(&mut p, &format!("ob{k}"), usize::MAX);
        p.create_vdp(vlan_vdp(100 + k, 100 + k, b, o)).unwrap();
        p.add_rule(Vid(100 + k), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    }
    for round in 1..=1000u64 {
        p.poll(Nanos(round * 1_000_000));
    }
    let s = p.snapshot();
    s.check().unwrap();
    let waiting = of(&p, 1).held;
    (of(&p, 100).counters.received.frames, waiting)
}

#[test]
fn few_frames_that_wait_do_not_stop_sources_that_wait() {
    let (got, waiting) = waits_beside_few(16384, 16, 8);
    assert!(
        got > 64 * 900,
        "16 sources, 8 ports of the first's: {got} of 64000, while {waiting} frames wait"
    );
}
#[test]
fn few_frames_that_wait_do_not_stop_sources_that_wait_in_a_small_pool() {
    let (got, waiting) = waits_beside_few(2048, 2, 2);
    assert!(
        got > 64 * 900,
        "2 sources, 2 ports of the first's: {got} of 64000, while {waiting} frames wait"
    );
}

/// A port as AF_XDP has it: chunks are lent for reception, as many as `af_xdp::Port` would (`fill`, REFILL = 64);
/// `per_round` frames come a round and find a chunk or are missed.
struct Lending {
    fill: usize,
    lent: Vec<Lent>,
    vlan: u16,
    per_round: usize,
    came: u64,
    missed: Arc<AtomicU64>,
}
impl Lending {
    fn new(pool: &mut Pool, vlan: u16, per_round: usize) -> (Self, Arc<AtomicU64>) {
        let fill = (pool.count() / 4).min(pool.available() / 2).clamp(1, 2048);
        let missed = Arc::new(AtomicU64::new(0));
        let mut this =
            Self { fill, lent: Vec::new(), vlan, per_round, came: 0, missed: Arc::clone(&missed) };
        this.refill(pool);
        (this, missed)
    }
    fn refill(&mut self, pool: &mut Pool) {
        let missing = self.fill - self.lent.len();
        if missing < 64.min(self.fill) {
            return;
        }
        for _ in 0..missing.min(pool.available()) {
            let Some(f) = pool.alloc() else { break };
            self.lent.push(pool.lend(f).unwrap());
        }
    }
}
impl Device for Lending {
    fn name(&self) -> &str {
        "lent"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut n = 0;
        for _ in 0..self.per_round.min(burst.room()) {
            let Some(l) = self.lent.pop() else {
                self.missed.fetch_add(1, Relaxed);
                continue;
            };
            let mut f = pool.reclaim(l).unwrap();
            // Every sixteenth frame is VDP 2's.
            let vlan = if self.came.is_multiple_of(16) { 2 } else { self.vlan };
            self.came += 1;
            f.copy_from(&frame(vlan, (self.came % 8) as u16, 0, self.came)).unwrap();
            burst.push(f).unwrap();
            n += 1;
        }
        self.refill(pool);
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        burst.drain().for_each(|f| pool.free(f));
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        self.lent.len()
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, pool: &mut Pool) {
        for l in self.lent.drain(..) {
            let f = pool.reclaim(l).unwrap();
            pool.free(f);
        }
    }
}

fn add_lent(
    p: &mut DataPlane,
    name: &str,
    vlan: u16,
    per_round: usize,
) -> (PortId, Arc<AtomicU64>) {
    let (d, missed) = Lending::new(p.pool_mut(), vlan, per_round);
    (p.add_port(name, Box::new(d)).unwrap(), missed)
}

/// Ports that lend, of which one has frames: VDP 1 has them queued at slow ports, and chunks in the other ports' rings are
/// none that this port can have.
fn missed_at_a_port(idle: usize, slow: u32) -> (u64, u64, FramesView, usize) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for i in 0..idle {
        add_lent(&mut p, &format!("idle{i}"), 9, 0);
    }
    let (x, missed) = add_lent(&mut p, "x", 1, 32);
    let mut s = vlan_vdp(1, 1, x, x);
    s.ports = vec![(PortNo(1), x)];
    for k in 0..slow {
        let (o, _) = wire(&mut p, &format!("slow{k}"), 1);
        s.ports.push((PortNo(2 + k), o));
    }
    p.create_vdp(s).unwrap();
    for k in 0..8u32 {
        let to = Match::any().with(weir_classify::Field::EthDst, 0x0200_0000_0000 | u128::from(k));
        p.add_rule(Vid(1), 0, &rule(to, 1, &[out(2 + k % slow)]), Placement::Fast).unwrap();
    }
    let (fast, _) = wire(&mut p, "fast", usize::MAX);
    p.create_vdp(vlan_vdp(2, 2, x, fast)).unwrap();
    p.add_rule(Vid(2), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    for round in 1..=2000u64 {
        p.poll(Nanos(round * 20_000));
    }
    let s = p.snapshot();
    s.check().unwrap();
    (missed.load(Relaxed), of(&p, 2).counters.received.frames, s.frames, of(&p, 1).held)
}

#[test]
fn chunks_that_other_ports_have_lent_are_not_left_to_wait() {
    let (missed, got, frames, held) = missed_at_a_port(0, 6);
    assert_eq!((missed, got), (0, 4000), "alone: {frames:?}, {held} wait");
    let (missed, got, frames, held) = missed_at_a_port(7, 6);
    assert_eq!((missed, got), (0, 4000), "beside seven idle AF_XDP ports: {frames:?}, {held} wait");
}

/// A learning switch that floods one frame a round to so many ports.
fn learning(p: &mut DataPlane, vid: u16, ports: u32) {
    let input = p.add_port("in", Box::new(Sequencer::new(vid, 1, 1000).overflowing(1))).unwrap();
    let mut s = vlan_vdp(vid, vid, input, input);
    s.ports = vec![(PortNo(1), input)];
    for k in 0..ports {
        let (o, _) = wire(p, &format!("o{k}"), usize::MAX);
        s.ports.push((PortNo(2 + k), o));
    }
    s.program = programs::by_name("learning").ok();
    p.create_vdp(s).unwrap();
}

/// A switch that floods to ten ports has fewer spares than copies; those that it lacks are counted.
#[test]
fn copies_that_find_no_frame_are_counted() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let a = p.add_port("a", Box::new(Sequencer::new(1, 1, 20_000).overflowing(64))).unwrap();
    let mut s = vlan_vdp(1, 1, a, a);
    s.ports = vec![(PortNo(1), a)];
    for k in 0..10 {
        let (o, _) = wire(&mut p, &format!("a{k}"), usize::MAX);
        s.ports.push((PortNo(2 + k), o));
    }
    s.program = programs::by_name("learning").ok();
    p.create_vdp(s).unwrap();
    (1..=1200u64).for_each(|round| _ = p.poll(Nanos(round * 20_000)));
    p.snapshot().check().unwrap();
    let c = of(&p, 1).counters;
    let lost = c.dropped.get(DropReason::NoFrame);
    assert!(lost > 10_000 && lost == c.dropped.total(), "{lost}");
    assert_eq!(
        (c.received.frames, c.cloned, c.forwarded.frames + lost),
        (20_000, 180_000, 200_000)
    );
}

/// VDP 2 floods one frame a round to two ports, as a learning switch; VDP 1 beside it floods to ten.
fn copies_of_second(first_per_round: usize) -> (u64, u64, u64) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for (vid, per_round, n) in [(1u16, first_per_round, 10), (2, 1, 2)] {
        let total = if vid == 2 { 1000 } else { u64::MAX };
        let total = if per_round == 0 { 0 } else { total };
        let source = Sequencer::new(vid, 1, total).overflowing(per_round);
        let input = p.add_port(&format!("in{vid}"), Box::new(source)).unwrap();
        let mut s = vlan_vdp(vid, vid, input, input);
        s.ports = vec![(PortNo(1), input)];
        for k in 0..n {
            let (o, _) = wire(&mut p, &format!("o{vid}-{k}"), usize::MAX);
            s.ports.push((PortNo(2 + k), o));
        }
        s.program = programs::by_name("learning").ok();
        p.create_vdp(s).unwrap();
    }
    for round in 1..=1200u64 {
        p.poll(Nanos(round * 20_000));
    }
    let s = p.snapshot();
    s.check().unwrap();
    let v = of(&p, 2);
    (v.counters.received.frames, v.counters.forwarded.frames, v.counters.dropped.total())
}

#[test]
fn spares_of_a_shared_channel_are_nobodys_alone() {
    assert_eq!(copies_of_second(0), (1000, 2000, 0), "alone");
    assert_eq!(copies_of_second(64), (1000, 2000, 0), "beside a VDP that floods to ten ports");
}

/// A learning switch with two ports, beside so many idle AF_XDP ports.
fn flooded_beside(idle: usize) -> (u64, u64) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for i in 0..idle {
        add_lent(&mut p, &format!("idle{i}"), 9, 0);
    }
    learning(&mut p, 2, 2);
    for round in 1..=1200u64 {
        p.poll(Nanos(round * 20_000));
    }
    let v = of(&p, 2);
    (v.counters.received.frames, v.counters.forwarded.frames)
}

#[test]
fn programs_have_spares_beside_many_ports_that_lend() {
    assert_eq!(flooded_beside(4), (1000, 2000), "four idle AF_XDP ports");
    assert_eq!(flooded_beside(6), (1000, 2000), "six idle AF_XDP ports");
}

/// Seven ports have all but an eighth of the frames lent.
#[test]
fn packet_outs_have_frames_beside_many_ports_that_lend() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for i in 0..7 {
        add_lent(&mut p, &format!("idle{i}"), 9, 0);
    }
    let input = p.add_port("in", Box::new(Sequencer::new(2, 1, 0))).unwrap();
    let (o, _) = wire(&mut p, "o", usize::MAX);
    p.create_vdp(vlan_vdp(2, 2, input, o)).unwrap();
    let bytes = frame(0, 1, 0, 0);
    let actions = [out(2)];
    let one = PacketOut { in_port: PortIn::Controller, frame: &bytes, actions: &actions };
    let refused = p.packet_outs(Vid(2), vec![one; 10]);
    assert!(
        refused.is_empty(),
        "{} of 10 refused: {}; {:?}",
        refused.len(),
        refused[0].1,
        p.snapshot().frames
    );
}

/// `n` VDPs flood eight slow ports each; VDP 99 is a learning switch with three ports, whose frames are few.
fn beside_queues(n: u16) -> (u64, u64, usize, FramesView) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for vid in 1..=n {
        let a = p
            .add_port(&format!("a{vid}"), Box::new(Sequencer::new(vid, 1, u64::MAX).overflowing(8)))
            .unwrap();
        let mut s = vlan_vdp(vid, vid, a, a);
        s.ports = vec![(PortNo(1), a)];
        for k in 0..8 {
            let (o, _) = wire(&mut p, &format!("s{vid}-{k}"), 1);
            s.ports.push((PortNo(2 + k), o));
        }
        p.create_vdp(s).unwrap();
        let all: Vec<_> = (2..10).map(out).collect();
        p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &all), Placement::Fast).unwrap();
    }
    let rounds = |p: &mut DataPlane, from: u64, n: u64| {
        (from..from + n).for_each(|r| _ = p.poll(Nanos(r * 20_000)))
    };
    rounds(&mut p, 1, 1000);
    learning(&mut p, 99, 3);
    rounds(&mut p, 1001, 1200);
    let v = of(&p, 99);
    let bytes = frame(0, 1, 0, 0);
    let actions = [out(2)];
    let one = PacketOut { in_port: PortIn::Controller, frame: &bytes, actions: &actions };
    let refused = p.packet_outs(Vid(99), vec![one; 10]).len();
    let s = p.snapshot();
    s.check().unwrap();
    (v.counters.received.frames, v.counters.forwarded.frames, refused, s.frames)
}

#[test]
fn queues_of_a_few_leave_programs_their_spares() {
    let alone = beside_queues(0);
    assert_eq!((alone.0, alone.1), (1000, 3000), "alone");
    let got = beside_queues(4);
    assert_eq!((got.0, got.1), (1000, 3000), "beside four VDPs that flood: {:?}", got.3);
}
#[test]
fn queues_of_some_leave_packet_outs_their_frames() {
    let (.., refused, frames) = beside_queues(12);
    assert_eq!(refused, 0, "of 10, beside twelve VDPs that flood: {frames:?}");
}

/// A VDP is deleted while its frames wait for a device that takes nothing, though its link is up.
#[test]
fn a_vdp_is_gone_although_a_wire_stands_still() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let a = p.add_port("a", Box::new(Sequencer::new(1, 1, 100).overflowing(64))).unwrap();
    let (o, _) = wire(&mut p, "o", 0);
    p.create_vdp(vlan_vdp(1, 1, a, o)).unwrap();
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    for round in 1..=10u64 {
        p.poll(Nanos(round * 20_000));
    }
    p.delete_vdp(Vid(1)).unwrap();
    let begun = 10 * 20_000;
    for ms in 1..=5000u64 {
        p.poll(Nanos(begun + ms * 1_000_000));
        p.snapshot().check().unwrap();
        assert_eq!(p.create_vdp(vlan_vdp(1, 1, a, o)).is_ok(), ms >= 5000, "{ms} ms later");
    }
    assert_eq!(p.snapshot().retired.dropped.get(DropReason::VdpGone), 100);
}
