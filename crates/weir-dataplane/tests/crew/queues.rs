//! A port of which each worker has a queue: nothing is dealt out, and what a queue brings is its worker's.

use crate::desk::{Asked, fed, until};
use crate::plane_common::*;
use crate::rig::*;
use weir_classify::{Field, Match};
use weir_dataplane::crew::*;
use weir_dataplane::*;
use weir_packet::*;

fn add(
    a: &Asked,
    name: &'static str,
    devices: Vec<Box<dyn Device>>,
) -> Result<PortId, ControlError> {
    a.h.call(move |p| p.add_port_queues(name, devices)).unwrap()
}

#[test]
fn what_a_queue_brings_is_its_workers_and_leaves_by_its_queue() {
    let a = Asked::new(3);
    let (inn, to): (Vec<_>, Vec<_>) = (0..3).map(|_| fed()).unzip();
    let (out, kept): (Vec<_>, Vec<_>) = (0..3).map(|n| sink(&format!("out{n}"))).unzip();
    let port = add(&a, "in", inn).unwrap();
    let away = add(&a, "out", out).unwrap();
    let (one, by_home) = sink("one");
    let third = a.port(3, one, 1);
    a.vdp(Vid(1));
    a.rule("priority=5,ip,nw_src=10.0.0.0/30,actions=output:2,output:3");
    a.rule("priority=4,actions=output:2");
    for n in 0..900u64 {
        // One flow comes by all queues: who fills them decides.
        to[n as usize % 3].send(frame(0, 1, n as u32 % 20, n)).unwrap();
    }
    a.until(|s| s.ports[1].counters.tx.frames == 900);
    let each = a.crew.handle().snapshot().unwrap().workers;
    for (w, s) in each.iter().enumerate() {
        assert_eq!(s.vdps[1].counters.received.frames, 300, "worker {w}");
        let got = kept[w].take();
        assert!(got.len() == 300 && got.is_sorted_by_key(|f| read_seq(&f.bytes).1));
        assert!(got.iter().all(|f| read_seq(&f.bytes).1 % 3 == w as u64));
    }
    // A port with one queue is there for all of them.
    until(|| by_home.len() == 180);
    let s = a.snapshot();
    assert_eq!((s.ports[0].counters.rx.frames, s.ports[2].counters.tx.frames), (900, 180));
    let spread = a.crew.handle().spreads()[0].clone();
    assert!(spread.has_queues() && spread.unsent() == 0);
    assert_eq!(spread.seen()[..4], [300, 300, 300, 0]);
    assert_eq!(spread.begin(5, 1).unwrap_err(), MoveError::Queues);
    // Nothing of it moves, however unlike the workers are.
    let mut balancer = Balancer::default();
    balancer.look(&a.crew.handle()).unwrap();
    (0..100_000).for_each(|n| to[0].send(frame(0, 1, 9, n)).unwrap());
    a.until(|s| s.ports[1].counters.tx.frames == 100_900);
    assert_eq!(balancer.look(&a.crew.handle()).unwrap(), 0);
    // No worker can have it whole; a port with one queue it can.
    let told = a.h.call(move |p| p.create_vdp(pinned(7, port))).unwrap().unwrap_err();
    assert!(told.to_string().contains("port 'in' can't be kept whole by worker 1"), "{told}");
    a.h.call(move |p| p.create_vdp(pinned(8, third))).unwrap().unwrap();
    assert_eq!(a.snapshot().vdps.len(), 3);
    // It goes like any other, with what its devices counted.
    let gone = a.h.call(move |p| p.remove_port(away)).unwrap().unwrap();
    assert_eq!(gone.tx.frames, 100_900);
    assert_eq!(a.crew.handle().spreads().len(), 2);
    assert_eq!(a.crew.fault(), None);
    a.stop();
}

fn pinned(vid: u16, port: PortId) -> VdpSpec {
    let matcher = Match::any().with(Field::InPort, port.0.into());
    let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
    s.worker = Some(1);
    s.ports = vec![(PortNo(1), port)];
    s.mapping = vec![MappingRule { matcher, priority: 9 }];
    s.default = vec![Action::Drop];
    s
}

#[test]
fn queues_that_are_not_one_for_each_worker_are_refused() {
    let a = Asked::new(2);
    for n in [0, 1, 3] {
        let devices = (0..n).map(|_| sink("x").0).collect();
        let told = add(&a, "x", devices).unwrap_err();
        assert!(told.to_string().contains("a port has one, or one for each worker"), "{told}");
    }
    add(&a, "x", vec![sink("x").0, sink("x").0]).unwrap();
    let told = add(&a, "x", vec![sink("x").0, sink("x").0]).unwrap_err();
    assert!(matches!(told, ControlError::PortName(_)), "{told}");
    a.stop();
    let mut alone = DataPlane::new(Config { frames: 2048, ..Config::default() }).unwrap();
    alone.add_port_queues("one", vec![sink("one").0]).unwrap();
    assert!(alone.add_port_queues("two", vec![sink("two").0, sink("two").0]).is_err());
}
