//! A crew on threads: changes that all have made when they are answered, readings that add up, moves while frames flow.

use crate::plane_common::*;
use crate::rig::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use weir_dataplane::crew::flow::bucket;
use weir_dataplane::crew::*;
use weir_dataplane::*;
use weir_packet::{Burst, Pool};

type Seen = Arc<Mutex<crate::plane_common::Seen>>;

fn started(workers: usize, total: u64) -> (Crew, Seen) {
    let source = Box::new(Sequencer::new(0, 40, total));
    let (checker, seen) = Checker::new(40);
    let mut rig = Rig::new(workers, vec![source, Box::new(checker)]);
    rig.vdp(&[Action::Drop]);
    if total > 0 {
        rig.change(|p| {
            p.add_rule(Vid(1), 0, &rule_of("actions=output:2"), Placement::Fast).unwrap();
        });
    }
    let planes = std::mem::take(&mut rig.planes);
    let spreads = std::mem::take(&mut rig.spreads);
    (Crew::start(planes, spreads, Serving::Worker, WhenIdle::Rest).unwrap(), seen)
}

fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("a minute has passed");
}

#[test]
fn frames_change_hands_while_buckets_move_and_rules_change() {
    const TOTAL: u64 = 300_000;
    let (crew, seen) = started(3, TOTAL);
    let h = crew.handle();
    let add = rule_of("actions=output:2");
    let port = h.spreads()[0].clone();
    let (ended, began) = (AtomicBool::new(false), Instant::now());
    let (mut arrived, mut stayed) = (0, 0);
    thread::scope(|s| {
        // A rule that frames of all flows meet, replaced by one that does the same: no frame is without.
        s.spawn(|| {
            for n in 0.. {
                let rule = RuleSpec { cookie: n, ..add.clone() };
                h.change(move |p| p.add_rule(Vid(1), 0, &rule, Placement::Fast)).unwrap().unwrap();
                h.snapshot().unwrap().check().unwrap();
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for n in 0.. {
            let b = bucket(&frame(0, 1, n % 40, 0));
            let to = (port.owner(b).unwrap() + 1) % 3;
            match h.move_bucket(&port, b, to, Duration::from_millis(50)).unwrap() {
                Moved::Arrived => arrived += 1,
                Moved::Stayed => stayed += 1,
            }
            if seen.lock().unwrap().frames == TOTAL || began.elapsed() > Duration::from_secs(60) {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let seen = seen.lock().unwrap().clone();
    let told = (seen.frames, seen.lost, seen.reordered_or_duplicated);
    assert_eq!(told, (TOTAL, 0, 0), "{arrived} moves, {stayed} given up");
    assert!(arrived > 0, "{stayed} moves given up, none arrived");
    let planes = crew.stop().unwrap();
    snapshot_of(&planes).check().unwrap();
    for p in &planes {
        let f = p.snapshot().frames;
        assert_eq!(f.free + f.held + f.spares, f.count, "frames are abroad: {f:?}");
    }
}

/// Held frames of one bucket go into a lane that another thread empties meanwhile: its room grows between two looks at it.
#[test]
fn held_frames_keep_their_order_while_the_lane_is_emptied() {
    for round in 0..300 {
        let all = frames(&vec![0; 900]);
        let b = bucket(&all[0]);
        let (each, port) = spread(source(&all), 0, 2).unwrap();
        let [mut home, mut far] = <[_; 2]>::try_from(each).ok().unwrap();
        let moving = port.begin(b, 1).unwrap();
        let mut pool = Pool::new(1024, 2048).unwrap();
        let mut burst = Burst::new();
        while home.rx(&mut pool, &mut burst) > 0 {}
        assert!(burst.is_empty() && home.held() >= 900, "{} are held", home.held());
        port.arrive(moving, 1);
        let taking = thread::spawn(move || {
            let (mut pool, mut burst) = (Pool::new(64, 2048).unwrap(), Burst::new());
            let mut taken = Vec::new();
            let began = Instant::now();
            while taken.len() < 900 && began.elapsed() < Duration::from_secs(30) {
                far.rx(&mut pool, &mut burst);
                for f in burst.drain() {
                    taken.push(read_seq(f.bytes()).1);
                    pool.free(f);
                }
            }
            taken
        });
        while !taking.is_finished() {
            home.rx(&mut pool, &mut burst);
        }
        assert_eq!(taking.join().unwrap(), (0..900).collect::<Vec<u64>>(), "round {round}");
    }
}

#[test]
fn a_change_that_is_answered_holds_at_every_worker() {
    let (crew, _) = started(3, 0);
    let h = crew.handle();
    for n in 0..200u32 {
        let rule = rule_of(&format!("priority={n},ip,nw_src=10.0.0.{n},actions=output:2"));
        let there = rule.clone();
        let at = h
            .change(move |p| {
                p.add_rule(Vid(1), 0, &there, Placement::Fast)?;
                Ok::<_, ControlError>(p.rule_ref(Vid(1), 0, &there.matcher, there.priority))
            })
            .unwrap()
            .unwrap();
        let find = move |p: &mut DataPlane| p.rule_ref(Vid(1), 0, &rule.matcher, rule.priority);
        assert_eq!(h.read(find).unwrap(), vec![at; 3]);
    }
    let s = h.snapshot().unwrap();
    assert!(s.workers.iter().all(|s| s.vdps[1].rules == 200));
    assert_eq!(s.merged().unwrap().vdps[1].rules, 200);
    crew.stop().unwrap();
}

/// Several who change the same thing at once: replicas stay the same, for changes reach all in one order.
#[test]
fn changes_of_several_reach_all_workers_in_one_order() {
    let (crew, _) = started(3, 0);
    let h = crew.handle();
    thread::scope(|s| {
        for who in 0..3u64 {
            let h = h.clone();
            s.spawn(move || {
                for n in 0..200 {
                    let rule = rule_of(&format!("ip,nw_src=10.0.0.{},actions=output:2", n % 7));
                    let rule = RuleSpec { cookie: who << 32 | n, ..rule };
                    h.change(move |p| p.add_rule(Vid(1), 0, &rule, Placement::Fast))
                        .unwrap()
                        .unwrap();
                }
            });
        }
    });
    let rules = h.read(|p| p.rules(Vid(1)).unwrap().0).unwrap();
    assert!(rules.iter().all(|r| r.len() == 7 && *r == rules[0]));
    crew.stop().unwrap();
}

#[test]
fn what_all_refuse_is_refused_and_what_leaves_once_for_each_is_no_change() {
    let (crew, _) = started(2, 0);
    let h = crew.handle();
    let told = h.change(|p| p.set_name(Vid(9), "none")).unwrap().unwrap_err();
    assert!(matches!(told, ControlError::NoVdp(Vid(9))));
    let send = |p: &mut DataPlane| {
        let actions = [Action::Output(Out::Port(PortNo(2)))];
        let out = PacketOut { frame: &frame(0, 1, 0, 0), in_port: PortIn::None, actions: &actions };
        p.packet_out(Vid(1), out)
    };
    let told = h.change(send).unwrap().unwrap_err();
    assert!(told.to_string().contains("a packet-out in a change takes one worker"), "{told}");
    // One of them sends it, whichever has the port.
    h.worker(0).unwrap().call(send).unwrap().unwrap();
    until(|| {
        let s = h.snapshot().unwrap().merged().unwrap();
        s.ports[1].counters.tx.frames == 1
    });
    // Answers that differ are told: replicas are no longer the same.
    let first = Arc::new(AtomicBool::new(false));
    let told = h.change(move |_| Ok::<_, ControlError>(first.swap(true, Ordering::SeqCst)));
    assert!(matches!(told, Err(CrewError::Diverged { worker: 1, .. })));
    crew.stop().unwrap();
}

#[test]
fn data_planes_that_are_no_crew_are_refused() {
    let planes = vec![DataPlane::new(config(2)).unwrap()];
    let told = Crew::start(planes, Vec::new(), Serving::Worker, WhenIdle::Rest).unwrap_err();
    assert!(matches!(told, CrewError::Size { said: 2, crew: 1, .. }), "{told}");
}

/// All flows begin with one worker; whoever balances looks again and again, and what is left is as even as buckets allow.
#[test]
fn a_balancer_moves_flows_until_workers_have_as_much_to_do_and_then_none() {
    let (crew, seen) = started(2, u64::MAX);
    let h = crew.handle();
    let port = h.spreads()[0].clone();
    for b in 0..=u8::MAX {
        let mut tries = 0..100;
        while port.owner(b) != Some(0) {
            assert!(tries.next().is_some(), "bucket {b} does not move");
            h.move_bucket(&port, b, 0, Duration::from_millis(50)).unwrap();
        }
    }
    let mut balancer = Balancer::default();
    let (mut moved, mut still) = (0, 0);
    assert_eq!(balancer.look(&h).unwrap(), 0, "nothing has been seen yet");
    until(|| {
        let before: u64 = port.seen().iter().sum();
        // As many frames as a look wants at least, whatever this machine does meanwhile.
        until(|| port.seen().iter().sum::<u64>() - before > 3 * Balancer::LEAST);
        let pauses = balancer.pauses();
        let n = balancer.look(&h).unwrap();
        assert!(n <= Balancer::AT_ONCE && (n == 0 || !pauses));
        (moved, still) = (
            moved + n,
            if n == 0 { still + usize::from(!pauses && !balancer.pauses()) } else { 0 },
        );
        still == 3
    });
    let mut load = [0u64; 2];
    for (b, n) in (0..=u8::MAX).zip(port.seen()) {
        load[port.owner(b).unwrap()] += n;
    }
    let (few, many) = (load[0].min(load[1]), load[0].max(load[1]));
    assert!(moved > 0 && few * 10 > many * 7, "{moved} moves: {load:?}");
    // A worker that has little to do is left alone.
    assert_eq!(balancer.look(&h).unwrap(), 0);
    let seen = seen.lock().unwrap().clone();
    assert_eq!((seen.lost, seen.reordered_or_duplicated), (0, 0));
    crew.stop().unwrap();
}
