//! Buckets of flows move between workers while frames flow: nothing is lost, doubled or reordered.

use crate::plane_common::*;
use crate::rig::*;
use proptest::prelude::*;
use weir_dataplane::crew::flow::bucket;
use weir_dataplane::crew::*;
use weir_dataplane::*;

/// Who does what next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Poll(usize),
    Begin(usize, usize),
    /// Looks whether the oldest move is past, and ends it then; if not, it may be given up.
    Look(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..4).prop_map(Step::Poll),
        2 => (0usize..40, 0usize..4).prop_map(|(f, w)| Step::Begin(f, w)),
        4 => prop::bool::weighted(0.05).prop_map(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn buckets_move_and_no_flow_is_reordered(
        workers in 2usize..5,
        slow in any::<bool>(),
        steps in prop::collection::vec(step(), 50..400),
    ) {
        let source = Box::new(Sequencer::new(0, 40, 6_000));
        let (checker, seen) = Checker::new(40);
        let (wire, taken) = SlowWire::new(9);
        let out: Box<dyn weir_packet::Device> =
            if slow { Box::new(wire) } else { Box::new(checker) };
        let mut rig = Rig::new(workers, vec![source, out]);
        rig.vdp(&[Action::Drop]);
        rig.change(|p| {
            p.add_rule(Vid(1), 0, &rule_of("ip,actions=dec_ttl,output:2"), Placement::Fast).unwrap();
        });
        let port = rig.spreads[0].clone();
        let mut moves: Vec<Moving> = Vec::new();
        let end = |moves: &mut Vec<Moving>, rig: &Rig, give_up: bool| {
            let Some(mut m) = (!moves.is_empty()).then(|| moves.remove(0)) else { return };
            let (to, from) = (m.to(), m.from());
            if m.is_past(&port, &rig.planes[from], &rig.spreads) {
                port.arrive(m, to);
            } else if give_up {
                port.arrive(m, from);
            } else {
                moves.push(m);
            }
        };
        for s in steps {
            match s {
                Step::Poll(w) => _ = rig.poll(w % workers),
                Step::Begin(flow, to) => {
                    let b = bucket(&frame(0, 1, flow as u32, 0));
                    match port.begin(b, to % workers) {
                        Ok(m) => moves.push(m),
                        Err(e) => prop_assert_eq!(e, MoveError::Moving(b)),
                    }
                }
                Step::Look(give_up) => end(&mut moves, &rig, give_up),
            }
        }
        // Then all goes on until nothing is left.
        for _ in 0..1500 {
            (0..workers).for_each(|w| _ = rig.poll(w));
            end(&mut moves, &rig, false);
            let left = |p: &DataPlane| p.snapshot().ports[1].backlog;
            let waits = rig.planes.iter().map(left).sum::<usize>();
            if moves.is_empty() && waits == 0 && rig.planes[0].snapshot().ports[0].exhausted {
                break;
            }
        }
        // What home has not sent of the others' yet: nine frames a round by the slow wire, from lanes that no
        // backlog tells of.
        let dropped = |rig: &Rig| {
            let s = rig.snapshot();
            s.vdps.iter().find(|v| v.vid == Vid(1)).unwrap().counters.dropped.total()
        };
        for n in 0..4_000 {
            if !slow || dropped(&rig) + taken.lock().unwrap().len() as u64 == 6_000 {
                break;
            }
            rig.poll(n % workers);
        }
        rig.settle();
        prop_assert!(moves.is_empty(), "{} moves never end", moves.len());
        let s = rig.snapshot();
        prop_assert_eq!(s.ports[0].device_counters.rx_missed, 0);
        prop_assert_eq!(s.ports[0].counters.rx.frames, 6_000);
        if slow {
            let mut next = vec![0; 40];
            for f in taken.lock().unwrap().iter() {
                let (flow, seq) = read_seq(f);
                prop_assert!(seq >= next[flow as usize], "flow {} goes back to {}", flow, seq);
                next[flow as usize] = seq + 1;
            }
            prop_assert_eq!(dropped(&rig) + taken.lock().unwrap().len() as u64, 6_000);
        } else {
            let seen = seen.lock().unwrap();
            prop_assert_eq!((seen.frames, seen.lost, seen.reordered_or_duplicated), (6_000, 0, 0));
        }
    }
}

/// A move without a drain would reorder: the test above can fail.
#[test]
fn a_bucket_that_does_not_wait_is_reordered() {
    let source = Box::new(Sequencer::new(0, 1, 2000));
    let (checker, seen) = Checker::new(1);
    let mut rig = Rig::new(2, vec![source, Box::new(checker)]);
    rig.vdp(&[Action::Drop]);
    rig.change(|p| {
        p.add_rule(Vid(1), 0, &rule_of("actions=output:2"), Placement::Fast).unwrap();
    });
    let port = rig.spreads[0].clone();
    let b = bucket(&frame(0, 1, 0, 0));
    let from = port.owner(b).unwrap();
    // One that is not at home has frames in its lane when the other gets the bucket.
    if from == 0 {
        let m = port.begin(b, 1).unwrap();
        port.arrive(m, 1);
    }
    (0..4).for_each(|_| _ = rig.poll(0));
    let mut m = port.begin(b, 0).unwrap();
    assert!(!m.is_past(&port, &rig.planes[1], &rig.spreads));
    port.arrive(m, 0);
    (0..4).for_each(|_| _ = rig.poll(0));
    rig.settle();
    assert!(seen.lock().unwrap().reordered_or_duplicated > 0);
}

#[test]
fn moves_that_can_not_be_are_refused() {
    let (out, _) = sink("out");
    let rig = Rig::new(2, vec![out]);
    let port = &rig.spreads[0];
    assert_eq!(port.begin(3, 2).unwrap_err(), MoveError::NoWorker { worker: 2, workers: 2 });
    let m = port.begin(3, 0).unwrap();
    assert_eq!(port.begin(3, 0).unwrap_err(), MoveError::Moving(3));
    assert_eq!(port.owner(3), None);
    port.arrive(m, 0);
    assert_eq!(port.owner(3), Some(0));
}
