//! Several controllers: roles, who hears of what, what a slave may not do; a switch left alone.

mod rig;
use rig::*;
use weir_agent::{ConnId, FailMode, Link, PortUpdate, Purpose};
use weir_openflow::model::*;
use weir_packet::Nanos;

const SECOND: ConnId = ConnId(14);

fn role(role: Role, generation: u64) -> Message {
    Message::RoleRequest(RoleMsg { role, generation })
}

#[test]
fn a_slave_reads_and_hears_of_ports() {
    let mut rig = Rig::new();
    rig.connect(SECOND, Version::V13, Purpose::Controller);
    let got = rig.ask(SECOND, role(Role::Slave, 1));
    assert_eq!(got, [Message::RoleReply(RoleMsg { role: Role::Slave, generation: 1 })]);
    let mut f = flow(dst(1), 5, to(2));
    (f.flags, f.hard_timeout) = (FlowFlags::SEND_FLOW_REM, 1);
    let changes = [
        Message::FlowMod(f.clone()),
        Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port::CONTROLLER,
            actions: vec![output(1)],
            data: frame(1),
        }),
        Message::TableMod { table: 0, config: 0 },
        Message::MeterMod(MeterMod {
            command: MeterCommand::Add,
            flags: MeterFlags::KBPS,
            id: 1,
            bands: vec![],
        }),
        Message::StatsRequest { more: Part::More, body: StatsRequest::TableFeatures(vec![]) },
    ];
    for m in changes {
        assert_eq!(rig.refused(SECOND, m), ErrorCode::IsSlave);
    }
    assert_eq!(rig.flows(SECOND), vec![]);
    rig.ok(NEW, Message::FlowMod(f));
    let gone = rig.pass(1000);
    assert_eq!(gone.iter().map(|s| s.to).collect::<Vec<_>>(), [NEW]);
    rig.switch.port_changed(PortUpdate::Link(Port(1), Link::Down), rig.now, &mut rig.out);
    let told = rig.out.take();
    assert_eq!(told.iter().map(|s| s.to).collect::<Vec<_>>(), [NEW, SECOND]);
    // It asks for more, and for less.
    let wants = AsyncConfig { packet_in: [0, 0], port_status: [0, 0], flow_removed: [0, 0xf] };
    rig.ok(SECOND, Message::SetAsync(wants));
    assert_eq!(rig.ask(SECOND, Message::GetAsyncRequest), [Message::GetAsyncReply(wants)]);
    rig.switch.port_changed(PortUpdate::Gone(Port(1)), rig.now, &mut rig.out);
    assert_eq!(rig.out.take().len(), 1);
    // Its master leaves it the switch.
    assert_eq!(rig.refused(SECOND, role(Role::Master, 0)), ErrorCode::RoleStale);
    rig.ask(SECOND, role(Role::Master, 2));
    rig.ok(SECOND, Message::FlowMod(flow(dst(1), 5, to(2))));
    rig.ask(NEW, role(Role::Master, 3));
    let m = Message::FlowMod(flow(dst(1), 5, to(2)));
    assert_eq!(rig.refused(SECOND, m), ErrorCode::IsSlave);
}

#[test]
fn nicira_roles_of_1_0_know_no_elections() {
    let mut rig = Rig::alone(config(), |_| {});
    rig.connect(OLD, Version::V10, Purpose::Controller);
    rig.connect(SECOND, Version::V10, Purpose::Controller);
    rig.ask(OLD, role(Role::Master, 0));
    rig.ask(SECOND, role(Role::Master, 0));
    let m = Message::FlowMod(flow(dst(1), 5, to(2)));
    assert_eq!(rig.refused(OLD, m.clone()), ErrorCode::IsSlave);
    rig.ok(SECOND, m);
}

#[test]
fn configuration_is_a_connections_own_but_for_fragments() {
    let mut rig = Rig::new();
    let set =
        |fragments, miss_send_len| Message::SetConfig(SwitchConfig { fragments, miss_send_len });
    let now = |rig: &mut Rig, c| match &rig.ask(c, Message::GetConfigRequest)[..] {
        [Message::GetConfigReply(c)] => (c.fragments, c.miss_send_len),
        m => panic!("{m:?}"),
    };
    assert_eq!(now(&mut rig, NEW), (Fragments::Normal, 128));
    assert_eq!(rig.refused(NEW, set(Fragments::Reassemble, 5)), ErrorCode::ConfigBadFlags);
    rig.ok(NEW, set(Fragments::Drop, 5));
    assert_eq!(now(&mut rig, NEW), (Fragments::Drop, 5));
    assert_eq!(now(&mut rig, OLD), (Fragments::Drop, 128));
    // Past OFPCML_MAX (1.3.5 §7.3.7) are the lengths that tools ask for whole packets by.
    for len in [0xffe5, 0xffe6, 0xfffe, 0xffff] {
        for conn in [NEW, OLD] {
            rig.ok(conn, set(Fragments::Drop, len));
            assert_eq!(now(&mut rig, conn), (Fragments::Drop, len));
        }
    }
    // A slave sets what is its own.
    rig.ask(NEW, role(Role::Slave, 1));
    rig.ok(NEW, set(Fragments::Normal, 7));
    assert_eq!(now(&mut rig, NEW), (Fragments::Drop, 7));
}

#[test]
fn what_a_switch_has_no_use_for_is_refused() {
    let mut rig = Rig::new();
    let e = Message::Experimenter { experimenter: 1, kind: 2, data: vec![] };
    assert_eq!(rig.refused(NEW, e), ErrorCode::BadExperimenter);
    assert_eq!(rig.refused(NEW, Message::BarrierReply), ErrorCode::BadType);
    let body = StatsRequest::Experimenter { experimenter: 1, kind: 2, data: vec![] };
    let m = Message::StatsRequest { more: Part::Last, body };
    assert_eq!(rig.refused(NEW, m), ErrorCode::BadExperimenter);
    assert_eq!(rig.ask(NEW, Message::EchoRequest(vec![1])), [Message::EchoReply(vec![1])]);
    let [Message::FeaturesReply(f)] = &rig.ask(NEW, Message::FeaturesRequest)[..] else { panic!() };
    assert_eq!((f.datapath_id, f.tables, f.auxiliary_id, f.ports.len()), (0xda7a, 4, 0, 4));
}

#[test]
fn left_alone_it_keeps_its_flows_and_stands_alone_if_it_is_to() {
    let mut c = config();
    c.fail_mode = FailMode::Standalone { after: Nanos::from_secs(5) };
    let mut rig = Rig::with(c, |_| {});
    rig.ok(NEW, Message::FlowMod(flow(dst(1), 5, to(2))));
    rig.pass(6000);
    assert_eq!(rig.switch.next_deadline(), None, "it has a controller");
    rig.disconnect(NEW);
    assert_eq!(rig.send(1, &frame(1)).len(), 1);
    assert_eq!(rig.switch.next_deadline(), Some(rig.now + Nanos::from_secs(5)));
    rig.pass(5000);
    assert_eq!(rig.switch.next_deadline(), None);
    // Flows are passed over; nothing here does what NORMAL says.
    assert_eq!(rig.send(1, &frame(1)).len(), 0);
    // Elsewhere, too, where it is moved meanwhile.
    let mut rig = rig.moved([]);
    rig.tick();
    assert_eq!(rig.send(1, &frame(1)).len(), 0);
    rig.connect(NEW, Version::V13, Purpose::Controller);
    assert_eq!(rig.send(1, &frame(1)).len(), 1);
    rig.disconnect(NEW);
    assert_eq!(rig.switch.next_deadline(), Some(rig.now + Nanos::from_secs(5)));
}

#[test]
fn whom_no_controller_could_rule_goes_by_its_flows() {
    let mut c = config();
    c.fail_mode = FailMode::Plain;
    let mut rig = Rig::with(c, |_| {});
    rig.disconnect(NEW);
    rig.connect(NEW, Version::V13, Purpose::Management);
    rig.ok(NEW, Message::FlowMod(flow(dst(1), 5, to(2))));
    assert_eq!(rig.switch.next_deadline(), None, "it waits for nobody");
    rig.pass(60_000);
    assert_eq!(rig.send(1, &frame(1)).len(), 1);
    // Now there could be one.
    rig.switch.set_fail_mode(FailMode::Standalone { after: Nanos::from_secs(5) }, rig.now);
    rig.tick();
    assert_eq!(rig.send(1, &frame(1)).len(), 1);
    assert_eq!(rig.switch.next_deadline(), Some(rig.now + Nanos::from_secs(5)));
    rig.pass(5000);
    assert_eq!(rig.send(1, &frame(1)).len(), 0);
    rig.switch.set_fail_mode(FailMode::Plain, rig.now);
    rig.tick();
    assert_eq!(rig.send(1, &frame(1)).len(), 1);
}
