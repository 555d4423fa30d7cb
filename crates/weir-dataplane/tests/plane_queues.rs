//! Queues of VDPs at ports: rates, isolation, order, counters, removal. In virtual time, so that the
//! figures are exact.

mod plane_common;

use plane_common::*;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::memory::{Memory, WireSize};
use weir_packet::*;

/// Frames here are 60 bytes: 64 with FCS, 512 bits.
const BITS: u64 = 512;

fn rate(min_fps: u64, max_fps: Option<u64>) -> QueueRate {
    QueueRate { min_bps: min_fps * BITS, max_bps: max_fps.map(|m| m * BITS) }
}

fn share(guarantee_fps: u64, ceiling_fps: Option<u64>) -> PortShare {
    PortShare {
        guarantee_bps: guarantee_fps * BITS,
        ceiling_bps: ceiling_fps.map(|c| c * BITS),
        ..PortShare::default()
    }
}

/// Frames for MAC `dst` go to the queue of that number.
fn to_queues(dsts: &[u16]) -> Vec<RuleSpec> {
    let by_dst = |d: &u16| {
        let mac = 0x0200_0000_0000 | u128::from(*d);
        let actions = [Action::SetQueue((*d).into()), out(100)];
        rule(Match::any().with(Field::EthDst, mac), 1, &actions)
    };
    dsts.iter().map(by_dst).collect()
}

/// VDP and MAC of a frame that left, which stand for its sender and queue.
fn whose(f: &[u8]) -> (u16, u16) {
    (u16::from_be_bytes([f[14], f[15]]), u16::from_be_bytes([f[4], f[5]]))
}

type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

/// One VDP of a rig.
struct Tenant<'a> {
    share: PortShare,
    /// Queues that are set.
    queues: &'a [(u32, QueueRate)],
    /// Queues that it sends to, a source each.
    sends: &'a [u16],
}

/// VDPs 1, 2, … with a source for each queue they send to, and a wire that takes `wire` frames
/// a round. Their port 100 is the wire.
fn rig(
    wire: usize,
    of: &[Tenant<'_>],
    source: impl Fn(Sequencer) -> Sequencer,
) -> (DataPlane, Taken) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let (sink, taken) = SlowWire::new(wire);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    for (i, t) in of.iter().enumerate() {
        let vid = i as u16 + 1;
        let mut s = vlan_vdp(vid, vid, o, o);
        s.ports = vec![(PortNo(100), o)];
        for dst in t.sends {
            let mut from = source(Sequencer::new(vid, 1, u64::MAX));
            from.dst = *dst;
            let id = p.add_port(&format!("in {vid} {dst}"), Box::new(from)).unwrap();
            s.ports.push((PortNo(u32::from(*dst) + 1), id));
        }
        p.create_vdp(s).unwrap();
        for r in to_queues(t.sends) {
            p.add_rule(Vid(vid), 0, &r, Placement::Fast).unwrap();
        }
        p.set_share(Vid(vid), o, t.share).unwrap();
        for (queue, rate) in t.queues {
            p.set_queue(Vid(vid), PortNo(100), *queue, *rate).unwrap();
        }
    }
    (p, taken)
}

/// All flood for two seconds; frames a second that each queue of each VDP got.
fn flood(wire: usize, of: &[Tenant<'_>]) -> Vec<Vec<f64>> {
    let (mut p, taken) = rig(wire, of, |s| s.overflowing(32));
    let mut clock = 0;
    for _ in 0..2000 {
        clock += 1_000_000;
        p.poll(Nanos(clock));
    }
    p.snapshot().check().unwrap();
    check_counters(&p);
    let taken = taken.lock().unwrap();
    check_sent(&p, |vid, queue| taken.iter().filter(|f| whose(f) == (vid, queue)).count() as u64);
    let count = |v: u16, d: u16| taken.iter().filter(|f| whose(f) == (v, d)).count() as f64 / 2.0;
    let of = of.iter().enumerate();
    of.map(|(i, t)| t.sends.iter().map(|d| count(i as u16 + 1, *d)).collect()).collect()
}

/// What queues counted is what VDPs counted, but for what queues that are gone sent.
fn check_counters(p: &DataPlane) {
    for v in &p.snapshot().vdps {
        let queues = p.queue_counters(v.vid).unwrap();
        let mut sent = Tally::default();
        queues.iter().for_each(|q| sent.merge(q.sent));
        assert!(sent.frames <= v.counters.forwarded.frames, "VDP {}: {sent:?}", v.vid);
        let dropped: u64 = queues.iter().map(|q| q.dropped).sum();
        assert_eq!(dropped, v.counters.dropped.get(DropReason::QueueFull), "VDP {}", v.vid);
    }
}

/// What queues counted as sent is what the device took of each; queue 0 has what goes to none.
fn check_sent(p: &DataPlane, taken: impl Fn(u16, u16) -> u64) {
    for v in p.snapshot().vdps.iter().filter(|v| v.vid != Vid(0)) {
        let mut queues = p.queue_counters(v.vid).unwrap();
        queues.retain(|q| q.port == PortNo(100));
        let here = |n: u16| queues.iter().any(|q| q.queue == u32::from(n));
        for q in &queues {
            let of = |n: &u16| if here(*n) { q.queue == u32::from(*n) } else { q.queue == 0 };
            let all: u64 = (0..16).filter(of).map(|n| taken(v.vid.0, n)).sum();
            assert_eq!(q.sent.frames, all, "VDP {} queue {}", v.vid, q.queue);
        }
    }
}

fn near(what: &str, got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 0.05, "{what}: {got} frames a second of {wanted}");
}

#[test]
fn a_least_rate_is_kept_and_the_rest_is_split_evenly() {
    let queues = [(1, rate(12_000, None)), (2, rate(0, None)), (3, rate(0, None))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[0, 1, 2, 3] };
    let got = &flood(20, &[t])[0];
    // 12,000 and a quarter of the other 8,000; a quarter each for the others.
    near("promised", got[1], 14_000.0);
    for i in [0, 2, 3] {
        near("the rest", got[i], 2_000.0);
    }
    assert_eq!(got.iter().sum::<f64>(), 20_000.0, "the wire is never idle");
}

#[test]
fn a_greatest_rate_is_not_exceeded_and_holds_back_nobody_else() {
    let queues = [(1, rate(0, Some(5_000))), (2, rate(0, None))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[1, 2] };
    let got = &flood(200, &[t])[0];
    near("limited", got[0], 5_000.0);
    near("free, all that comes", got[1], 32_000.0);
    // Queue 0 can be limited, too, and alone.
    let queues = [(0, rate(0, Some(5_000)))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[0] };
    near("queue 0", flood(200, &[t])[0][0], 5_000.0);
}

#[test]
fn promises_beyond_what_is_there_are_broken_evenly() {
    let queues = [(1, rate(20_000, None)), (2, rate(20_000, None))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[1, 2] };
    let got = &flood(20, &[t])[0];
    near("first", got[0], 10_000.0);
    near("second", got[1], 10_000.0);
}

#[test]
fn queues_divide_a_vdps_share_and_never_take_from_another() {
    let greedy: Vec<(u32, QueueRate)> = (1..=6).map(|q| (q, rate(1_000_000, None))).collect();
    let sends = [1, 2, 3, 4, 5, 6];
    let plain = PortShare::default();
    let of = |a, b| {
        let got = flood(
            20,
            &[
                Tenant { share: a, queues: &greedy, sends: &sends },
                Tenant { share: b, queues: &[], sends: &[0] },
            ],
        );
        [got[0].iter().sum::<f64>(), got[1][0]]
    };
    let [a, b] = of(plain, plain);
    near("six queues", a, 10_000.0);
    near("no queues", b, 10_000.0);
    // A guarantee of another VDP, and a ceiling of its own, stand above any queue.
    let [a, b] = of(plain, share(15_000, None));
    near("the guarantee and half of the rest", b, 17_500.0);
    near("what is left", a, 2_500.0);
    let [a, b] = of(share(0, Some(4_000)), plain);
    near("the ceiling", a, 4_000.0);
    near("the others", b, 16_000.0);
}

#[test]
fn a_queue_that_is_held_back_leaves_the_others_room_to_wait() {
    // The limited queue is full all the time; the other one must not lose its burst for that.
    let queues = [(1, rate(0, Some(100))), (2, rate(0, None))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[1, 2] };
    let (mut p, _) = rig(40, &[t], |s| s.overflowing(32));
    for ms in 1..500 {
        p.poll(Nanos(ms * 1_000_000));
    }
    let q = p.queue_counters(Vid(1)).unwrap();
    let of = |n: u32| q.iter().find(|q| q.queue == n && q.port == PortNo(100)).unwrap();
    assert!(of(1).dropped > 10_000, "{:?}", of(1));
    assert_eq!(of(2).dropped, 0, "{:?}", of(2));
}

#[test]
fn a_queue_that_goes_loses_nothing_and_keeps_its_order() {
    let queues = [(1, rate(0, Some(1_000)))];
    let t = Tenant { share: PortShare::default(), queues: &queues, sends: &[1] };
    let (mut p, taken) = rig(1000, &[t], |_| Sequencer::new(1, 1, 400).overflowing(64));
    let mut clock = 0;
    for _ in 0..10 {
        clock += 1_000_000;
        p.poll(Nanos(clock));
        p.snapshot().check().unwrap();
    }
    let held = p.snapshot().vdps[1].held;
    assert!(held > 300, "frames wait: {held}");
    p.remove_queue(Vid(1), PortNo(100), 1).unwrap();
    assert_eq!(p.snapshot().vdps[1].held, held);
    settle(&mut p, &mut clock);
    let seqs: Vec<u64> = taken.lock().unwrap().iter().map(|f| read_seq(f).1).collect();
    assert_eq!(seqs, (0..400).collect::<Vec<_>>());
    check_counters(&p);
    let q = p.queue_counters(Vid(1)).unwrap();
    let zero = q.iter().find(|q| q.port == PortNo(100)).unwrap();
    assert_eq!((zero.queue, zero.sent.frames), (0, held as u64));
}

#[test]
fn a_queue_that_is_not_there_is_queue_0_and_counted() {
    let t = Tenant { share: PortShare::default(), queues: &[(1, rate(0, None))], sends: &[1, 7] };
    let of_one = |_| Sequencer::new(1, 1, 100);
    let (mut p, taken) = rig(1000, &[t], of_one);
    let mut clock = 0;
    settle(&mut p, &mut clock);
    let q = p.queue_counters(Vid(1)).unwrap();
    let wire: Vec<_> = q.iter().filter(|q| q.port == PortNo(100)).collect();
    let figures: Vec<_> = wire.iter().map(|q| (q.queue, q.sent.frames, q.strays)).collect();
    assert_eq!(figures, [(0, 100, 100), (1, 100, 0)]);
    assert_eq!(wire[1].sent.bytes, 100 * 60);
    assert_eq!(taken.lock().unwrap().len(), 200);
    // A VDP without any queue of its own counts them, too.
    let t = Tenant { share: PortShare::default(), queues: &[], sends: &[7] };
    let (mut p, _) = rig(1000, &[t], of_one);
    settle(&mut p, &mut clock);
    let q = p.queue_counters(Vid(1)).unwrap();
    assert_eq!((q[0].queue, q[0].sent.frames, q[0].strays), (0, 100, 100));
}

#[test]
fn rules_on_the_slow_path_set_queues_too() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(1, 1, 50))).unwrap();
    let (sink, _) = SlowWire::new(1000);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    let mut s = vlan_vdp(1, 1, i, o);
    s.ports = vec![(PortNo(1), i), (PortNo(100), o)];
    p.create_vdp(s).unwrap();
    p.set_queue(Vid(1), PortNo(100), 1, rate(0, None)).unwrap();
    p.add_rule(Vid(1), 0, &to_queues(&[1])[0], Placement::Slow).unwrap();
    settle(&mut p, &mut 0);
    let q = p.queue_counters(Vid(1)).unwrap();
    assert_eq!(q.iter().find(|q| q.queue == 1).unwrap().sent.frames, 50);
    assert_eq!(p.snapshot().vdps[1].counters.slow, 50);
}

#[test]
fn impossible_queues_are_refused() {
    let t = Tenant { share: PortShare::default(), queues: &[], sends: &[1] };
    let (mut p, _) = rig(1, &[t], |s| s);
    let before = p.queues(Vid(1)).unwrap();
    let mut refuse = |port, queue, rate, says: &str| {
        let e = p.set_queue(Vid(1), PortNo(port), queue, rate).unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
        assert_eq!(p.queues(Vid(1)).unwrap(), before);
    };
    refuse(100, 1, rate(2, Some(1)), "below the least");
    refuse(100, 1, rate(0, Some(0)), "or is 0");
    refuse(100, u32::MAX, rate(0, None), "stands for all queues");
    refuse(55, 1, rate(0, None), "has no port 55");
    assert!(p.set_queue(Vid(9), PortNo(100), 1, rate(0, None)).is_err());
    assert!(p.remove_queue(Vid(1), PortNo(100), 0).unwrap_err().to_string().contains("stays"));
    assert!(p.remove_queue(Vid(1), PortNo(100), 3).unwrap_err().to_string().contains("no such"));
    for q in 1..=255 {
        p.set_queue(Vid(1), PortNo(100), q, rate(0, None)).unwrap();
    }
    let e = p.set_queue(Vid(1), PortNo(100), 256, rate(0, None)).unwrap_err().to_string();
    assert!(e.contains("255 queues"), "{e}");
    // Numbers need not be small; changing one that is there needs no room.
    p.remove_queue(Vid(1), PortNo(100), 17).unwrap();
    p.set_queue(Vid(1), PortNo(100), u32::MAX - 1, rate(5, None)).unwrap();
    p.set_queue(Vid(1), PortNo(100), u32::MAX - 1, rate(6, None)).unwrap();
    let last = *p.queues(Vid(1)).unwrap().iter().rfind(|q| q.port == PortNo(100)).unwrap();
    assert_eq!((last.queue, last.rate), (u32::MAX - 1, rate(6, None)));
}

#[derive(Clone, Debug)]
enum Change {
    Set(u16, u32, u64, Option<u64>),
    Remove(u16, u32),
    Share(u16, u64, Option<u64>),
    Rounds(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let max = || proptest::option::of(8_000..30_000u64);
    prop_oneof![
        (1..=2u16, 0..4u32, 0..8_000u64, max()).prop_map(|(v, q, a, b)| Change::Set(v, q, a, b)),
        (1..=2u16, 1..4u32).prop_map(|(v, q)| Change::Remove(v, q)),
        (1..=2u16, 0..8_000u64, max()).prop_map(|(v, a, b)| Change::Share(v, a, b)),
        (1..20u8).prop_map(Change::Rounds),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is set and removed while frames wait: each is sent once or counted as dropped,
    /// those of a queue in order as long as the queue is not made anew.
    #[test]
    fn frames_are_conserved_with_queues(
        wire in 1..60usize,
        changes in proptest::collection::vec(change(), 1..40),
    ) {
        let t = || Tenant { share: PortShare::default(), queues: &[], sends: &[0, 1, 2, 3] };
        let (mut p, taken) = rig(wire, &[t(), t()], |s| s.overflowing(9));
        let mut made = false;
        let o = p.port_named("out").unwrap();
        let mut clock = 0;
        for c in changes {
            match c {
                Change::Set(v, q, min, max) => {
                    made |= q != 0;
                    p.set_queue(Vid(v), PortNo(100), q, rate(min, max)).unwrap();
                }
                Change::Remove(v, q) => {
                    let _ = p.remove_queue(Vid(v), PortNo(100), q);
                }
                Change::Share(v, g, c) => p.set_share(Vid(v), o, share(g, c)).unwrap(),
                Change::Rounds(n) => for _ in 0..n {
                    clock += 1_000_000;
                    p.poll(Nanos(clock));
                    p.snapshot().check().unwrap();
                },
            }
            check_counters(&p);
        }
        let taken = taken.lock().unwrap();
        for v in 1..=2 {
            for d in 0..4 {
                let mine = taken.iter().filter(|f| whose(f) == (v, d));
                let mut seqs: Vec<u64> = mine.map(|f| read_seq(f).1).collect();
                if made {
                    seqs.sort_unstable();
                }
                prop_assert!(seqs.windows(2).all(|w| w[0] < w[1]), "VDP {v} queue {d}");
            }
        }
        let sent: u64 = p.snapshot().vdps.iter().map(|v| v.counters.forwarded.frames).sum();
        prop_assert_eq!(sent, taken.len() as u64);
    }
}

/// A frame longer than what a low rate may send at once is not waited for in vain: it goes when nothing is owed, and
/// what it took is owed then.
#[test]
fn frames_longer_than_a_burst_pass_a_low_rate() {
    const BYTES: usize = 9000;
    let mbps = Some(1_000_000);
    let of_queue = (PortShare::default(), [(7, QueueRate { min_bps: 0, max_bps: mbps })]);
    let ceiling = PortShare { ceiling_bps: mbps, ..PortShare::default() };
    let of_share = (ceiling, [(7, QueueRate::default())]);
    for (share, queues) in [of_queue, of_share] {
        let config = Config { chunk_bytes: 16384, ..Config::default() };
        let mut p = DataPlane::new(config).unwrap();
        let size = WireSize { max_frame_bytes: BYTES, ..WireSize::default() };
        let [(i, mut from), (o, mut to)] = ["in", "out"].map(|name| {
            let (port, peer) = Memory::with_peer(name, size);
            (p.add_port(name, Box::new(port)).unwrap(), peer)
        });
        let mut s = vlan_vdp(1, 1, i, o);
        s.ports = vec![(PortNo(1), i), (PortNo(100), o)];
        p.create_vdp(s).unwrap();
        for r in to_queues(&[7]) {
            p.add_rule(Vid(1), 0, &r, Placement::Fast).unwrap();
        }
        p.set_share(Vid(1), o, share).unwrap();
        for (queue, rate) in queues {
            p.set_queue(Vid(1), PortNo(100), queue, rate).unwrap();
        }
        let mut long = frame(1, 7, 0, 0);
        long.resize(BYTES, 0);
        (0..50).for_each(|_| from.send(&long).unwrap());
        let (mut came, mut into) = (0, Vec::new());
        for ms in 1..=1000 {
            p.poll(Nanos(ms * 1_000_000));
            while to.recv(&mut into) {
                came += 1;
            }
        }
        // 72,032 bits each with FCS, and one that nothing was owed for.
        assert!((13..=15).contains(&came), "{came} in a second");
        p.snapshot().check().unwrap();
        // A VDP that is deleted takes its rates with it, and loses no frame.
        p.delete_vdp(Vid(1)).unwrap();
        for ms in 1001..=1400 {
            p.poll(Nanos(ms * 1_000_000));
            while to.recv(&mut into) {
                came += 1;
            }
        }
        assert_eq!(came, 50);
        p.snapshot().check().unwrap();
        p.create_vdp(vlan_vdp(1, 1, i, o)).unwrap();
    }
}
