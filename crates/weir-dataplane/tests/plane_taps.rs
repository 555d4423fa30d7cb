//! What captures see: every stage, and of each frame the port that it came by.

mod plane_common;

use plane_common::*;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::Null;
use weir_packet::{Nanos, PortId};

const V: Vid = Vid(1);

/// Of 20 frames, half of them to station 1, those are forwarded; of the others half are dropped, half go to the controller.
#[test]
fn each_stage_shows_what_is_left_at_its_end() {
    let mut p = DataPlane::new(Config::default()).expect("a data plane");
    let ports = [1, 2, 3].map(|dst| {
        let mut s = Sequencer::new(1, 1, if dst == 1 { 10 } else { 5 });
        s.dst = dst;
        p.add_port(&format!("in{dst}"), Box::new(s)).expect("a port")
    });
    let out = p.add_port("out", Box::new(Null::new("out"))).expect("a port");
    let mut spec = VdpSpec::new(V, "tenant");
    spec.ports = ports.into_iter().chain([out]).zip(1..).map(|(id, no)| (PortNo(no), id)).collect();
    spec.mapping = vec![MappingRule { matcher: Match::any(), priority: 1 }];
    spec.default = vec![Action::Drop];
    p.create_vdp(spec).expect("a VDP");
    for (dst, action) in
        [(1, Action::Output(Out::Port(PortNo(4)))), (2, Action::Output(Out::Controller(60)))]
    {
        let matcher = Match::any().with(Field::EthDst, 0x0200_0000_0000 | dst);
        let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions: [action].into() };
        p.add_rule(V, 0, &rule, Placement::Fast).expect("a rule");
    }
    let mut tap = |stage: Stage, filter: Match| {
        let point = TapPoint { stage: Some(stage), ..TapPoint::default() };
        p.add_tap(point, filter, 100).1
    };
    // Transmission is the device's.
    let stages = Stage::ALL[..6].iter().map(|s| tap(*s, Match::any()));
    let stages: Vec<_> = stages.collect();
    // In a filter in_port is where a frame came in, wherever it is seen.
    let by = |id: PortId| Match::any().with(Field::InPort, id.0.into());
    let came = [ports[0], out].map(|id| tap(Stage::Forwarding, by(id)));
    (0..20).for_each(|i| _ = p.poll(Nanos(3000 * i)));
    let seen: Vec<usize> = stages.iter().map(|s| s.try_iter().count()).collect();
    assert_eq!(seen, [20, 20, 20, 15, 5, 10]);
    assert_eq!(came.map(|s| s.try_iter().count()), [10, 0]);
}
