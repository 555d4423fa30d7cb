//! One list of actions for many rules: what it comes to is each VDP's affair, and that of the ports that it has.

mod plane_common;

use plane_common::*;
use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::Null;
use weir_packet::{Nanos, PortId};

/// Adds a rule for a station to a VDP, with this very list.
fn add(p: &mut DataPlane, vid: u16, dst: u16, list: &Arc<[Action]>) {
    let matcher = Match::any().with(Field::EthDst, 0x0200_0000_0000 | u128::from(dst));
    let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions: Arc::clone(list) };
    p.add_rule(Vid(vid), 0, &rule, Placement::Fast).expect("a rule");
}

fn create(p: &mut DataPlane, vid: u16, ports: Vec<(PortNo, PortId)>) {
    let mut spec = VdpSpec::new(Vid(vid), "tenant");
    spec.ports = ports;
    let matcher = Match::any().with(Field::VlanVid, 0x1000 | u128::from(vid));
    spec.mapping = vec![MappingRule { matcher, priority: 1 }];
    spec.default = vec![Action::Drop];
    p.create_vdp(spec).expect("a VDP");
}

#[test]
fn a_list_means_what_its_vdp_has_at_that_time() {
    let mut p = DataPlane::new(Config::default()).expect("a data plane");
    let outs = ["a", "b"].map(|n| p.add_port(n, Box::new(Null::new(n))).expect("a port"));
    // Frames of VLAN 1 to station 1, of VLAN 2 to station 1, and of VLAN 1 to station 3.
    let mut source = |vlan: u16, dst: u16| {
        let mut s = Sequencer::new(vlan, 1, 10);
        s.dst = dst;
        p.add_port(&format!("in{vlan}{dst}"), Box::new(s)).expect("a port")
    };
    let ins = [source(1, 1), source(2, 1), source(1, 3)];
    let mine = |out: PortId| {
        let ins = ins.iter().zip(3..).map(|(id, no)| (PortNo(no), *id));
        ins.chain([(PortNo(2), out)]).collect::<Vec<_>>()
    };
    let list: Arc<[Action]> = [Action::Output(Out::Port(PortNo(2)))].into();
    create(&mut p, 1, mine(outs[0]));
    create(&mut p, 2, mine(outs[1]));
    add(&mut p, 1, 1, &list);
    add(&mut p, 2, 1, &list);
    // The first one's port 2 is another now, and a rule more has that list.
    p.set_ports(Vid(1), mine(outs[1])).expect("ports");
    add(&mut p, 1, 3, &list);
    let sent = |p: &DataPlane| {
        let s = p.snapshot();
        s.check().expect("balanced");
        outs.map(|id| s.ports.iter().find(|v| v.id == id).expect("it").counters.tx.frames)
    };
    (0..20).for_each(|i| _ = p.poll(Nanos(3000 * i)));
    // A rule that names a port by what it was loses its frames; the others are the second port's.
    assert_eq!(sent(&p), [0, 20]);
    // Another VDP by the same number.
    p.delete_vdp(Vid(1)).expect("it was there");
    (20..40).for_each(|i| _ = p.poll(Nanos(3000 * i)));
    create(&mut p, 1, mine(outs[0]));
    add(&mut p, 1, 1, &list);
    let mut again = Sequencer::new(1, 1, 10);
    again.dst = 1;
    p.add_port("again", Box::new(again)).expect("a port");
    (40..60).for_each(|i| _ = p.poll(Nanos(3000 * i)));
    assert_eq!(sent(&p), [10, 20]);
}
