//! What each VDP was promised: shares of a port, shares of the worker, slices of the TCAM. In
//! virtual time, so that the figures are exact.

mod plane_common;

use plane_common::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_classify::{Geometry, Match};
use weir_dataplane::*;
use weir_packet::*;

/// Two VDPs flood a wire that takes `wire` frames a millisecond; what each got in two seconds.
fn flood(wire: usize, shares: [PortShare; 2]) -> [f64; 2] {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let a = p.add_port("a", Box::new(Sequencer::new(1, 1, u64::MAX).overflowing(64))).unwrap();
    let b = p.add_port("b", Box::new(Sequencer::new(2, 1, u64::MAX).overflowing(64))).unwrap();
    let (sink, taken) = SlowWire::new(wire);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    for (vid, input, share) in [(1, a, shares[0]), (2, b, shares[1])] {
        p.create_vdp(vlan_vdp(vid, vid, input, o)).unwrap();
        p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
        p.set_share(Vid(vid), o, share).unwrap();
    }
    let mut clock = 0;
    for _ in 0..2000 {
        clock += 1_000_000;
        p.poll(Nanos(clock));
    }
    p.snapshot().check().unwrap();
    let taken = taken.lock().unwrap();
    let of = |vlan: u8| taken.iter().filter(|f| f[15] == vlan).count() as f64 / 2.0;
    [of(1), of(2)]
}

#[test]
fn without_shares_a_wire_is_split_evenly() {
    let [a, b] = flood(20, [PortShare::default(); 2]);
    assert!((a / b - 1.0).abs() < 0.05, "{a} and {b} frames a second");
    assert_eq!(a + b, 20_000.0, "the wire is never idle");
}

#[test]
fn weights_split_what_is_left() {
    let three = PortShare { weight: 3, ..PortShare::default() };
    let [a, b] = flood(20, [three, PortShare::default()]);
    assert!((a / b - 3.0).abs() < 0.2, "{a} and {b} frames a second");
}

#[test]
fn a_guarantee_holds_against_any_weight() {
    // 64 bytes with FCS are 512 bits: 15,000 frames a second are 7.68 Mbit/s.
    let sure = PortShare { guarantee_bps: 7_680_000, ..PortShare::default() };
    let heavy = PortShare { weight: 100, ..PortShare::default() };
    let [a, b] = flood(20, [sure, heavy]);
    assert!((14_900.0..=15_300.0).contains(&a), "{a} of 15,000 promised; the other had {b}");
    assert_eq!(a + b, 20_000.0);
}

#[test]
fn a_ceiling_holds_on_an_idle_wire() {
    let low = PortShare { ceiling_bps: Some(2_560_000), ..PortShare::default() };
    let [a, b] = flood(200, [low, PortShare::default()]);
    assert!((4_950.0..=5_100.0).contains(&a), "{a} of 5,000 allowed");
    assert!(b > 60_000.0, "the other is not held back: {b}");
}

/// By Little's law: a frame waits for those that may wait, at the rate at which they leave.
#[test]
fn a_bound_on_delay_holds_beside_a_flood() {
    let mbps = PortShare { guarantee_bps: 50_000_000, ..PortShare::default() };
    let heavy = PortShare { weight: 1000, ..PortShare::default() };
    for ms in [1, 5, 20] {
        let bound = mbps.within(Nanos(ms * 1_000_000)).unwrap();
        // A queue that is as short is empty at times between two polls here, which makes the wait seem longer.
        let [a, _] = flood(100, [bound, heavy]);
        let waits = f64::from(bound.queue_frames) / (a / 1000.0);
        assert!(a > 0.0 && waits <= ms as f64, "{ms} ms: {waits} at {a} a second");
    }
    let frames = |g, us: u64| {
        let share = PortShare { guarantee_bps: g, ..PortShare::default() };
        share.within(Nanos(us * 1000)).map(|s| s.queue_frames)
    };
    assert_eq!(frames(12_144_000, 999), None, "a frame takes a millisecond");
    assert_eq!(frames(12_144_000, 1000), Some(1));
    assert_eq!(frames(12_144_000, 10_500), Some(10));
    assert_eq!(frames(u64::MAX, 1_000_000), Some(1024), "no more than may wait anyway");
    assert_eq!(frames(0, 1_000_000), None, "nothing is promised");
}

#[test]
fn impossible_shares_are_refused() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 1))).unwrap();
    let (sink, _) = SlowWire::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 1, i, o)).unwrap();
    let bad = PortShare { guarantee_bps: 2, ceiling_bps: Some(1), ..PortShare::default() };
    let e = p.set_share(Vid(1), o, bad).unwrap_err().to_string();
    assert!(e.contains("ceiling lies below the guarantee"), "{e}");
    assert!(p.set_share(Vid(1), weir_packet::PortId(99), PortShare::default()).is_err());
    assert!(p.set_cpu(Vid(1), 1001).unwrap_err().to_string().contains("at most 1000"));
}

/// A data plane whose VDPs come by ports of their own, VDP `n` with so many frames a round as the `n`th says, and leave
/// by the ports that its wires are.
fn tenants(each: &[(usize, &[PortId])], p: &mut DataPlane) {
    for (vid, (per_round, wires)) in (1..).zip(each) {
        let source = Sequencer::new(vid, 1, u64::MAX).overflowing(*per_round);
        let input = p.add_port(&format!("in{vid}"), Box::new(source)).unwrap();
        let mut spec = vlan_vdp(vid, vid, input, wires[0]);
        spec.ports =
            (1..).map(PortNo).zip(std::iter::once(&input).chain(*wires).copied()).collect();
        p.create_vdp(spec).unwrap();
        let all: Vec<_> = (2..).take(wires.len()).map(out).collect();
        p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &all), Placement::Fast).unwrap();
    }
}
fn wire(p: &mut DataPlane, name: &str, per_round: usize) -> PortId {
    p.add_port(name, Box::new(SlowWire::new(per_round).0)).unwrap()
}
/// What a VDP has received, and dropped, in so many rounds of a millisecond.
fn of_last(p: &mut DataPlane, vid: u16, rounds: u64) -> (u64, u64) {
    for ms in 1..=rounds {
        p.poll(Nanos(ms * 1_000_000));
    }
    let s = p.snapshot();
    s.check().unwrap();
    let c = &s.vdps.iter().find(|v| v.vid == Vid(vid)).unwrap().counters;
    (c.received.frames, c.dropped.iter().map(|(_, n)| n).sum())
}

/// Eight VDPs have as many frames waiting at a port as may wait there; the ninth's are few, and promised.
#[test]
fn a_guarantee_has_a_place_to_wait_however_many_flood() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let o = [wire(&mut p, "out", 100)];
    let mut each = [(64, &o[..]); 9];
    each[8].0 = 5;
    tenants(&each, &mut p);
    let sure = PortShare { guarantee_bps: 10 * 512 * 1000, ..PortShare::default() };
    p.set_share(Vid(9), o[0], sure).unwrap();
    assert_eq!(of_last(&mut p, 9, 1000), (5000, 0));
}

/// What is promised is had beside any number that flood, and what is left goes by weight, though a turn be longer than a burst.
#[test]
fn promises_and_weights_hold_among_many() {
    for (n, per_round, weight) in [(10, 128, 5), (60, 250, 8), (30, 100, 20)] {
        let mut p = DataPlane::new(Config::default()).unwrap();
        let o = [wire(&mut p, "out", per_round)];
        tenants(&vec![(64, &o[..]); n], &mut p);
        let sure = PortShare { guarantee_bps: 10 * 512 * 1000, ..PortShare::default() };
        p.set_share(Vid(1), o[0], sure).unwrap();
        p.set_share(Vid(2), o[0], PortShare { weight, ..PortShare::default() }).unwrap();
        (1..=1000).for_each(|ms| _ = p.poll(Nanos(ms * 1_000_000)));
        let s = p.snapshot();
        s.check().unwrap();
        let sent = |vid: usize| s.vdps[vid].counters.forwarded.frames as f64;
        let (others, weight) = (sent(3), f64::from(weight));
        let what = format!("{n} VDPs: {}, {} and {others}", sent(1), sent(2));
        // Who has more has its turns first, and the last of the others wait for theirs.
        assert!((sent(2) / others / weight - 1.0).abs() < 0.1, "{what}");
        assert!((sent(1) - 10_000.0) / others > 0.95, "{what}");
    }
}

/// Thirty promises that are nine tenths of a wire are kept beside thirty that flood with a hundred times the weight, and what these get is
/// even within a part of their quanta, each of which is longer than what is left in a second.
#[test]
fn many_promises_are_kept_at_once() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let o = [wire(&mut p, "out", 100)];
    tenants(&[(64, &o[..]); 60], &mut p);
    let promised = |vid: u16| if vid <= 30 { u64::from(vid % 5 + 1) } else { 0 };
    for vid in 1..=60 {
        let weight = if promised(vid) > 0 { 1 } else { 100 };
        let guarantee_bps = 512_000 * promised(vid);
        let share = PortShare { guarantee_bps, weight, ..PortShare::default() };
        p.set_share(Vid(vid), o[0], share).unwrap();
    }
    let mut before = vec![0; 61];
    for ms in 1..=1400 {
        p.poll(Nanos(ms * 1_000_000));
        if ms == 400 {
            before = p.snapshot().vdps.iter().map(|v| v.counters.forwarded.frames).collect();
        }
    }
    let s = p.snapshot();
    s.check().unwrap();
    let sent = |vid: u16| {
        let vid = usize::from(vid);
        s.vdps[vid].counters.forwarded.frames - before[vid]
    };
    let short: Vec<_> = (1..=30).filter(|v| sent(*v) < 990 * promised(*v)).collect();
    assert_eq!(short, [0; 0], "{:?}", (1..=30).map(sent).collect::<Vec<_>>());
    // A part is 12,144 bytes with FCS: 190 frames of 64.
    let rest: Vec<_> = (31..=60).map(sent).collect();
    let (least, most) = (rest.iter().min().unwrap(), rest.iter().max().unwrap());
    assert!(most - least <= 2 * 190, "{rest:?}");
}

/// A VDP floods many ports that are slow: what waits there are not the worker's frames, all of them.
#[test]
fn many_slow_ports_leave_others_their_frames() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let slow: Vec<_> = (0..24).map(|i| wire(&mut p, &format!("slow{i}"), 1)).collect();
    let fast = [wire(&mut p, "fast", 256)];
    tenants(&[(64, &slow), (32, &fast)], &mut p);
    assert_eq!(of_last(&mut p, 2, 1000), (32_000, 0));
}

/// A port whose ring overflows: frames of VLAN 1 and 2 arrive at rates of their own, whether or not
/// anybody takes them.
struct Ring {
    now: Arc<AtomicU64>,
    last: u64,
    /// Frames a second of VLAN 1 and VLAN 2.
    rates: [u64; 2],
    due: [u64; 2],
    ring: VecDeque<Vec<u8>>,
    lost: Arc<[AtomicU64; 2]>,
}

impl Device for Ring {
    fn name(&self) -> &str {
        "ring"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let now = self.now.load(Ordering::Relaxed);
        // A microsecond at a time, so that the two are mixed as they arrive.
        while self.last + 1000 <= now {
            self.last += 1000;
            for i in 0..2 {
                self.due[i] += self.rates[i] * 1000;
                while self.due[i] >= 1_000_000_000 {
                    self.due[i] -= 1_000_000_000;
                    if self.ring.len() < 512 {
                        self.ring.push_back(frame(i as u16 + 1, 1, 0, 0));
                    } else {
                        self.lost[i].fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        let n = self.ring.len().min(burst.room());
        for bytes in self.ring.drain(..n) {
            let mut f = pool.alloc().unwrap();
            f.copy_from(&bytes).unwrap();
            burst.push(f).unwrap();
        }
        n
    }
    fn tx(&mut self, _: &mut Pool, _: &mut Burst) -> usize {
        0
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

/// Two VDPs on one port with a ring, the first of which is promised something.
struct OneRing {
    p: DataPlane,
    ports: [PortId; 2],
    now: Arc<AtomicU64>,
    /// What found no room in the ring, by VDP.
    lost: Arc<[AtomicU64; 2]>,
}

impl OneRing {
    /// Of VDPs that get so many frames a second.
    fn new(rates: [u64; 2], permille: u16) -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let lost = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (last, due, ring) = (0, [0; 2], VecDeque::new());
        let ring = Ring { now: Arc::clone(&now), last, rates, due, ring, lost: Arc::clone(&lost) };
        let mut p = DataPlane::new(Config::default()).unwrap();
        let i = p.add_port("in", Box::new(ring)).unwrap();
        let o = p.add_port("out", Box::new(weir_io::replay::Null::new("out"))).unwrap();
        for vid in [1, 2] {
            let mut s = vlan_vdp(vid, vid, i, o);
            s.cpu_permille = if vid == 1 { permille } else { 0 };
            p.create_vdp(s).unwrap();
            p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
        }
        Self { p, ports: [i, o], now, lost }
    }
}

/// Two VDPs on one port of a worker that forwards a frame in a microsecond and drops one early in a
/// tenth of that. VDP 1 sends 100,000 frames a second, VDP 2 floods with 1.5 million; `change` is done
/// before each round. The share of VDP 1's frames that got through.
fn beside_a_flood(permille: u16, change: impl Fn(&mut DataPlane, u64, [PortId; 2])) -> f64 {
    let OneRing { mut p, ports: [i, o], now, lost } = OneRing::new([100_000, 1_500_000], permille);
    let (mut clock, mut cost_before) = (0, 0);
    for round in 0.. {
        if clock >= 400_000_000 {
            break;
        }
        change(&mut p, round, [i, o]);
        p.poll(Nanos(clock));
        let s = p.snapshot();
        let cost: u64 = s
            .vdps
            .iter()
            .map(|v| v.counters.forwarded.frames * 1000 + v.counters.dropped.total() * 100)
            .sum();
        clock += (cost - cost_before).max(1000);
        cost_before = cost;
        now.store(clock, Ordering::Relaxed);
    }
    let s = p.snapshot();
    s.check().unwrap();
    let through = s.vdps[1].counters.forwarded.frames as f64;
    through / (s.vdps[1].counters.received.frames + lost[0].load(Ordering::Relaxed)) as f64
}

#[test]
fn a_guarantee_of_cycles_holds_from_the_ring_on() {
    let without = beside_a_flood(0, |_, _, _| {});
    let with = beside_a_flood(250, |_, _, _| {});
    println!("got through beside a flood: {without:.3} without a guarantee, {with:.3} with one");
    assert!(without < 0.75, "the flood does not hurt: {without}");
    assert!(with > 0.97, "{with} of the promised VDP's frames got through");
}

/// A worker that is far from busy, but is kept from its processor now and then, or asks its ports so seldom that each time some
/// frame is there: nobody sends too much, and nobody loses a frame for it.
#[test]
fn a_worker_that_was_kept_from_work_drops_nothing_for_that() {
    let OneRing { mut p, now, lost, .. } = OneRing::new([2_000, 14_000], 200);
    // Steps between two rounds, in microseconds: never idle, kept from work for a while, idle.
    let steps =
        [[125; 40].as_slice(), &[25_000], &[125; 7], &[5_000], &[10; 200], &[300; 9], &[3_000]];
    let (mut clock, mut rounds) = (0, 0);
    for step in steps.concat().iter().cycle().take(20_000) {
        clock += step * 1000;
        now.store(clock, Ordering::Relaxed);
        p.poll(Nanos(clock));
        rounds += 1;
    }
    let s = p.snapshot();
    s.check().unwrap();
    assert_eq!(lost.each_ref().map(|l| l.load(Ordering::Relaxed)), [0, 0], "the ring is too short");
    for v in &s.vdps[1..] {
        let c = &v.counters;
        assert!(c.received.frames > 5_000, "{rounds} rounds: {c:?}");
        assert_eq!(c.dropped.total(), 0, "{c:?}");
    }
}

/// A worker that has half of a processor, some milliseconds at a time, and catches up in between: what it does in an interval of which it had little is no
/// measure either.
#[test]
fn a_worker_that_shares_its_processor_drops_nothing_for_that() {
    let OneRing { mut p, now, lost, .. } = OneRing::new([2_000, 60_000], 500);
    let mut clock = 0;
    for step in [3_000, 10, 10, 2_000, 10, 3_500, 10, 10, 10, 10, 10].iter().cycle().take(5_000) {
        clock += step * 1000;
        now.store(clock, Ordering::Relaxed);
        if *step > 500 {
            p.was_kept_from_work();
        }
        p.poll(Nanos(clock));
    }
    let s = p.snapshot();
    s.check().unwrap();
    assert_eq!(lost.each_ref().map(|l| l.load(Ordering::Relaxed)), [0, 0], "the ring is too short");
    for v in &s.vdps[1..] {
        assert!(v.counters.received.frames > 1_000);
        assert_eq!(v.counters.dropped.total(), 0, "{:?}", v.counters);
    }
}

/// Nobody's share is dealt out anew, by what a few frames did, because another VDP comes or goes or is promised something.
#[test]
fn changes_to_others_leave_a_guarantee_of_cycles_alone() {
    let with = beside_a_flood(250, |p, round, [i, o]| match round % 20 {
        0 => {
            let another = VdpSpec { cpu_permille: 10, ..vlan_vdp(3, 3, i, o) };
            p.create_vdp(another).unwrap();
        }
        5 => p.set_cpu(Vid(3), 0).unwrap(),
        10 => p.set_cpu(Vid(1), 250).unwrap(),
        15 => p.delete_vdp(Vid(3)).unwrap(),
        _ => {}
    });
    assert!(with > 0.97, "{with} of the promised VDP's frames got through");
    // A few frames after an interval's end, at these: what is promised already is promised again.
    for every in [16, 30] {
        let with = beside_a_flood(250, |p, round, _| {
            if round % every == 1 {
                p.set_cpu(Vid(1), 250).unwrap();
            }
        });
        assert!(with > 0.97, "{with} of the promised VDP's frames got through, every {every}");
    }
    // Who is promised something again and again for a moment begins anew each time, and is no worse off than without.
    let by_turns = beside_a_flood(0, |p, round, _| match round % 500 {
        0 => p.set_cpu(Vid(1), 250).unwrap(),
        250 => p.set_cpu(Vid(1), 0).unwrap(),
        _ => {}
    });
    assert!(by_turns > beside_a_flood(0, |_, _, _| {}) - 0.02, "{by_turns}");
}

fn small_tcam(action_entries: u32) -> DataPlane {
    let tcam = Geometry { mapping_entries: 64, action_entries, slice_entries: 16, block_slices: 2 };
    DataPlane::new(Config { tcam, ..Config::default() }).unwrap()
}

fn exact(d: u32) -> RuleSpec {
    let mac = u128::from(0x0200_0000_0000u64 | u64::from(d));
    rule(Match::any().with(weir_classify::Field::EthDst, mac), 1, &[out(2)])
}

#[test]
fn a_spent_budget_is_refused_and_leaves_the_others() {
    let mut p = small_tcam(64);
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 1))).unwrap();
    let (sink, _) = SlowWire::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    for vid in 1..=2 {
        p.create_vdp(vlan_vdp(vid, vid, i, o)).unwrap();
    }
    for d in 0..16 {
        p.add_rule(Vid(1), 0, &exact(d), Placement::Fast).unwrap();
    }
    for d in 0..48 {
        p.add_rule(Vid(2), 0, &exact(d), Placement::Fast).unwrap();
    }
    let e = p.add_rule(Vid(2), 0, &exact(99), Placement::Fast).unwrap_err();
    assert!(matches!(e, ControlError::Tcam(_)), "{e}");
    assert!(e.to_string().contains("0 entries free"), "{e}");
    assert_eq!(p.snapshot().vdps[1].rules, 16);
    assert_eq!(p.snapshot().vdps[2].rules, 48);
    // Replacing costs nothing, and what does not fit may spill where that is allowed.
    p.add_rule(Vid(2), 0, &exact(3), Placement::Fast).unwrap();
    let placed = p.add_rule(Vid(2), 0, &exact(99), Placement::Spill).unwrap();
    assert_eq!(placed, Placed::Slow);
    // A VDP that goes gives its slices back.
    p.delete_vdp(Vid(1)).unwrap();
    settle(&mut p, &mut 0);
    p.add_rule(Vid(2), 0, &exact(100), Placement::Fast).unwrap();
}

/// A VDP's slices: grown for its rules, given back with them, its own kept; all under traffic that
/// meets rules throughout.
#[test]
fn slices_come_and_go_while_frames_pass() {
    let action = weir_classify::Part::Action;
    let mut p = small_tcam(64);
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, u64::MAX))).unwrap();
    let (sink, _) = SlowWire::new(usize::MAX);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(VdpSpec { action_entries: 16, ..vlan_vdp(1, 1, i, o) }).unwrap();
    p.create_vdp(vlan_vdp(2, 2, i, o)).unwrap();
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let mut clock = 0;
    let mut poll = |p: &mut DataPlane| {
        clock += 20_000;
        p.poll(Nanos(clock));
    };
    let of = |p: &DataPlane, vid| p.tcam().usage(action, weir_classify::Owner(vid));
    for round in 0..50 {
        for d in 0..47 {
            p.add_rule(Vid(1), 0, &exact(d + 50 * round), Placement::Fast).unwrap();
            poll(&mut p);
        }
        assert_eq!((of(&p, 1).allowed, of(&p, 1).reserved), (48, 16));
        assert!(p.add_rule(Vid(2), 0, &exact(0), Placement::Fast).is_ok());
        let e = (1..17).find_map(|d| p.add_rule(Vid(2), 0, &exact(d), Placement::Fast).err());
        assert!(matches!(e, Some(ControlError::Tcam(_))), "{e:?}");
        for d in 0..47 {
            p.remove_rule(Vid(1), 0, &exact(d + 50 * round).matcher, 1).unwrap();
            poll(&mut p);
        }
        assert_eq!(of(&p, 1).allowed, 16, "what is its own stays");
        // The other takes what is free, but not that.
        for d in 16..48 {
            p.add_rule(Vid(2), 0, &exact(d), Placement::Fast).unwrap();
        }
        assert!(p.add_rule(Vid(2), 0, &exact(48), Placement::Fast).is_err());
        for d in 0..48 {
            p.remove_rule(Vid(2), 0, &exact(d).matcher, 1).unwrap();
            poll(&mut p);
        }
        assert_eq!(of(&p, 2).allowed, 16, "half a slice stays free with the last of them");
    }
    let s = p.snapshot();
    s.check().unwrap();
    let c = &s.vdps[1].counters;
    assert!(c.received.frames > 1000 && c.dropped.total() == 0, "{c:?}");
}

#[test]
fn a_vdps_own_limit_holds() {
    let mut p = small_tcam(64);
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 1))).unwrap();
    let (sink, _) = SlowWire::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    let mut s = vlan_vdp(1, 1, i, o);
    s.action_limit = Some(16);
    p.create_vdp(s).unwrap();
    for d in 0..16 {
        p.add_rule(Vid(1), 0, &exact(d), Placement::Fast).unwrap();
    }
    let e = p.add_rule(Vid(1), 0, &exact(16), Placement::Fast).unwrap_err().to_string();
    assert!(e.contains("may hold 16"), "{e}");
}

#[test]
fn a_refused_vdp_leaves_nothing() {
    let mut p = small_tcam(64);
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 1))).unwrap();
    let (sink, _) = SlowWire::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 1, i, o)).unwrap();
    let refuse = |p: &mut DataPlane, change: &dyn Fn(&mut VdpSpec)| {
        let before = (p.rule_counts(), p.tcam().free_entries(weir_classify::Part::Action));
        let mut s = vlan_vdp(2, 2, i, o);
        change(&mut s);
        let e = p.create_vdp(s).unwrap_err().to_string();
        let after = (p.rule_counts(), p.tcam().free_entries(weir_classify::Part::Action));
        assert_eq!(before, after, "after: {e}");
        e
    };
    let e = refuse(&mut p, &|s| s.mapping = vec![by_vlan(2), by_vlan(1)]);
    assert!(e.contains("VDP 1 has a mapping rule with the same match"), "{e}");
    let e = refuse(&mut p, &|s| s.action_entries = 1000);
    assert!(e.contains("action part of the TCAM"), "{e}");
    let e = refuse(&mut p, &|s| s.ports.push((PortNo(7), weir_packet::PortId(77))));
    assert!(e.contains("no port 77"), "{e}");
    let e = refuse(&mut p, &|s| s.ports.push((PortNo(1), o)));
    assert!(e.contains("stands twice"), "{e}");
    let e = refuse(&mut p, &|s| s.channel = Some(3));
    assert!(e.contains("shared"), "{e}");
    let e = refuse(&mut p, &|s| s.default = vec![out(9)]);
    assert!(e.contains("no port 9"), "{e}");
    let e = refuse(&mut p, &|s| s.vid = Vid(1));
    assert!(e.contains("exists already"), "{e}");
    p.create_vdp(vlan_vdp(2, 2, i, o)).unwrap();
}
