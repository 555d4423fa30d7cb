//! Groups, meters, ports, queues, tables: each error, and what deletion takes along.

mod rig;
use rig::*;
use weir_agent::{ConnId, Link, PortUpdate, Purpose};
use weir_dataplane::PortNo;
use weir_openflow::codec::encode;
use weir_openflow::model::*;

fn bucket(actions: Vec<Action>) -> Bucket {
    Bucket { weight: 0, watch_port: Port::ANY, watch_group: GROUP_ANY, actions }
}

fn group(command: GroupCommand, kind: GroupKind, id: u32, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command, kind, id, buckets })
}

fn add(id: u32, actions: Vec<Action>) -> Message {
    group(GroupCommand::Add, GroupKind::All, id, vec![bucket(actions)])
}

fn delete(id: u32) -> Message {
    group(GroupCommand::Delete, GroupKind::All, id, vec![])
}

/// What a group leads to is looked at while frames wait: it may be as much as a fabric needs, and not a tenant's all.
#[test]
fn a_group_that_leads_to_too_much_is_refused() {
    let mut rig = Rig::new();
    let to =
        |groups: std::ops::Range<u32>| groups.map(|g| bucket(vec![Action::Group(g)])).collect();
    for id in 0..256 {
        rig.ok(NEW, add(id, vec![output(2)]));
    }
    for id in 300..316 {
        rig.ok(NEW, group(GroupCommand::Add, GroupKind::All, id, to(0..256)));
    }
    rig.ok(NEW, group(GroupCommand::Add, GroupKind::All, 400, to(300..316)));
    let most = group(GroupCommand::Add, GroupKind::All, 401, to(400..401));
    assert_eq!(rig.refused(NEW, most), ErrorCode::GroupChainingUnsupported);
}

#[test]
fn wrong_groups_are_refused() {
    use ErrorCode::*;
    use GroupCommand::{Add, Modify};
    use GroupKind::*;
    let mut c = config();
    c.limits.groups = 3;
    let mut rig = Rig::with(c, |_| {});
    rig.ok(NEW, add(1, vec![output(2)]));
    rig.ok(NEW, add(2, vec![Action::Group(1)]));
    let watching =
        |port, watch_group| Bucket { watch_port: Port(port), watch_group, ..bucket(vec![]) };
    let weighty = Bucket { weight: 1, ..bucket(vec![]) };
    let cases: Vec<(Message, ErrorCode)> = vec![
        (add(1, vec![]), GroupExists),
        (group(Modify, All, 5, vec![]), GroupUnknown),
        (add(GROUP_MAX + 1, vec![]), GroupInvalid),
        (add(GROUP_ALL, vec![]), GroupInvalid),
        (delete(GROUP_ANY), GroupInvalid),
        (group(Add, Indirect, 3, vec![]), GroupInvalid),
        (group(Add, Indirect, 3, vec![bucket(vec![]), bucket(vec![])]), GroupInvalid),
        (group(Add, All, 3, vec![weighty.clone()]), GroupInvalid),
        (group(Add, FastFailover, 3, vec![bucket(vec![])]), GroupInvalid),
        (group(Add, FastFailover, 3, vec![watching(9, GROUP_ANY)]), GroupBadWatch),
        (group(Add, FastFailover, 3, vec![watching(Port::ANY.0, 9)]), GroupBadWatch),
        (group(Add, All, 3, vec![bucket(vec![]); 257]), GroupOutOfBuckets),
        (add(3, vec![Action::Group(3)]), GroupLoop),
        (group(Modify, All, 1, vec![bucket(vec![Action::Group(2)])]), GroupLoop),
        (add(3, vec![Action::Group(9)]), ActionBadOutGroup),
        (add(3, vec![output(9)]), ActionBadOutPort),
        (delete(1), GroupChained),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(NEW, m.clone()), code, "{m:?}");
    }
    rig.ok(NEW, group(Add, Select, 3, vec![weighty]));
    assert_eq!(rig.refused(NEW, add(4, vec![])), GroupOutOfGroups);
    rig.ok(NEW, delete(4));
    let [StatsReply::GroupDesc(d)] = &rig.stats(NEW, StatsRequest::GroupDesc)[..] else { panic!() };
    assert_eq!(d.iter().map(|d| d.id).collect::<Vec<_>>(), [1, 2, 3]);
    rig.ok(NEW, delete(GROUP_ALL));
    assert_eq!(rig.stats(NEW, StatsRequest::GroupDesc), [StatsReply::GroupDesc(vec![])]);
}

#[test]
fn a_group_takes_its_flows_along() {
    let mut rig = Rig::new();
    rig.ok(NEW, add(1, vec![output(2)]));
    let mut f = flow(dst(1), 5, vec![Instruction::Write(vec![Action::Group(1)])]);
    f.flags = FlowFlags::SEND_FLOW_REM;
    rig.ok(NEW, Message::FlowMod(f));
    rig.ok(NEW, Message::FlowMod(flow(dst(2), 5, to(3))));
    assert_eq!(rig.send(1, &frame(1))[0].0, 2);
    // Another way for the same group: flows follow.
    let there = vec![bucket(vec![output(4)])];
    rig.ok(NEW, group(GroupCommand::Modify, GroupKind::Indirect, 1, there));
    assert_eq!(rig.send(1, &frame(1))[0].0, 4);
    let gone = rig.tell(NEW, delete(1));
    let [weir_agent::Sent { to, msg: Msg { body: Message::FlowRemoved(r), .. }, .. }] = &gone[..]
    else {
        panic!("{gone:?}")
    };
    // 1.0 has no such reason.
    assert_eq!((*to, r.reason, r.packets), (NEW, RemovedReason::GroupDelete, 2));
    assert_eq!(rig.send(1, &frame(1)), vec![]);
    assert_eq!(rig.flows(NEW).len(), 1);
}

fn meter(command: MeterCommand, id: u32, flags: MeterFlags, bands: Vec<Band>) -> Message {
    Message::MeterMod(MeterMod { command, flags, id, bands })
}

#[test]
fn wrong_meters_are_refused() {
    use ErrorCode::*;
    use MeterCommand::*;
    let mut c = config();
    c.limits.meters = 2;
    let mut rig = Rig::with(c, |_| {});
    let k = MeterFlags::KBPS;
    let band = |kind, rate| vec![Band { rate, burst: 0, kind }];
    let drop = || band(BandKind::Drop, 10);
    rig.ok(NEW, meter(Add, 1, k | MeterFlags::STATS, drop()));
    let cases: Vec<(Message, ErrorCode)> = vec![
        (meter(Add, 1, k, drop()), MeterExists),
        (meter(Modify, 2, k, drop()), MeterUnknownMeter),
        (meter(Add, 0, k, drop()), MeterInvalid),
        (meter(Add, METER_MAX + 1, k, drop()), MeterInvalid),
        (meter(Add, METER_CONTROLLER, k, drop()), MeterInvalid),
        (meter(Add, METER_ALL, k, drop()), MeterInvalid),
        (meter(Add, 2, MeterFlags(1 << 5), drop()), MeterBadFlags),
        (meter(Add, 2, k | MeterFlags::PKTPS, drop()), MeterBadFlags),
        (meter(Add, 2, k, band(BandKind::Drop, 0)), MeterBadRate),
        (meter(Add, 2, k, band(BandKind::DscpRemark(0), 1)), MeterBadBandValue),
        (meter(Add, 2, k, band(BandKind::DscpRemark(4), 1)), MeterBadBandValue),
        (meter(Add, 2, k, band(BandKind::Experimenter(1), 1)), MeterBadBand),
        (meter(Add, 2, k, drop().repeat(17)), MeterOutOfBands),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(NEW, m.clone()), code, "{m:?}");
    }
    rig.ok(NEW, meter(Add, 2, MeterFlags::PKTPS, drop()));
    assert_eq!(rig.refused(NEW, meter(Add, 3, k, drop())), MeterOutOfMeters);
    let unknown = Message::StatsRequest { more: Part::Last, body: StatsRequest::Meter(9) };
    assert_eq!(rig.refused(NEW, unknown), MeterUnknownMeter);
    rig.ok(NEW, Message::FlowMod(flow(dst(1), 5, [vec![Instruction::Meter(2)], to(2)].concat())));
    rig.ok(NEW, Message::FlowMod(flow(dst(2), 5, to(2))));
    rig.send(1, &frame(1));
    let [StatsReply::Meter(m)] = &rig.stats(NEW, StatsRequest::Meter(2))[..] else { panic!() };
    assert_eq!((m[0].flows, m[0].packets, m[0].bytes, &m[0].bands[..]), (1, 1, 64, &[(0, 0)][..]));
    rig.ok(NEW, meter(Delete, 2, k, vec![]));
    assert_eq!(rig.flows(NEW).len(), 1);
    rig.ok(NEW, meter(Delete, METER_ALL, k, vec![]));
    let none = [StatsReply::MeterConfig(vec![])];
    assert_eq!(rig.stats(NEW, StatsRequest::MeterConfig(METER_ALL)), none);
}

#[test]
fn ports_are_changed_and_told_of() {
    use ErrorCode::*;
    const STP: PortConfig = PortConfig::NO_STP;
    let mut rig = Rig::new();
    rig.ok(NEW, Message::FlowMod(flow(any(), 1, to(2))));
    let change = |f: &dyn Fn(&mut PortMod)| {
        let (config, mask) = (PortConfig::NO_FWD, PortConfig::NO_FWD);
        let (port, mac) = (Port(2), port_desc(2).mac);
        let mut m = PortMod { port, mac, config, mask, advertise: PortFeatures::default() };
        f(&mut m);
        Message::PortMod(m)
    };
    assert_eq!(rig.refused(NEW, change(&|m| m.port = Port(9))), PortBadPort);
    assert_eq!(rig.refused(NEW, change(&|m| m.mac[5] = 9)), PortBadHwAddr);
    assert_eq!(rig.refused(NEW, change(&|m| m.mask = PortConfig(1 << 20))), PortBadConfig);
    assert_eq!(rig.refused(NEW, change(&|m| m.advertise = PortFeatures::FD_10G)), PortBadAdvertise);
    assert_eq!(rig.refused(OLD, change(&|m| (m.config, m.mask) = (STP, STP))), PortEperm);
    assert_eq!(rig.send(1, &frame(1))[0].0, 2);
    let told = rig.tell(NEW, change(&|_| {}));
    let [one] = &told[..] else { panic!("{told:?}") };
    let Message::PortStatus(s) = &one.msg.body else { panic!() };
    assert_eq!((s.reason, s.desc.config), (PortReason::Modify, PortConfig::NO_FWD));
    assert_eq!(rig.send(1, &frame(1)), vec![]);
    assert_eq!(rig.tell(NEW, change(&|_| {})), vec![], "nothing changed");
    let [StatsReply::PortDesc(d)] = &rig.stats(NEW, StatsRequest::PortDesc)[..] else { panic!() };
    assert_eq!(d[1].config, PortConfig::NO_FWD);

    let [StatsReply::Port(p)] = &rig.stats(NEW, StatsRequest::Port(Port::ANY))[..] else {
        panic!()
    };
    assert_eq!((p[0].rx_packets, p[0].rx_bytes, p[1].tx_packets, p[1].tx_dropped), (2, 128, 1, 1));
    assert_eq!(p[0].collisions, u64::MAX);
    let unknown = Message::StatsRequest { more: Part::Last, body: StatsRequest::Port(Port(9)) };
    assert_eq!(rig.refused(NEW, unknown), BadPort);

    let queue = |port, queue| {
        let body = StatsRequest::Queue { port: Port(port), queue };
        Message::StatsRequest { more: Part::Last, body }
    };
    assert_eq!(rig.refused(NEW, queue(9, QUEUE_ALL)), QueueBadPort);
    assert_eq!(rig.refused(NEW, queue(2, 8)), QueueBadQueue);
    assert_eq!(rig.refused(NEW, Message::QueueConfigRequest(Port(9))), QueueBadPort);
    let table = |table, config| Message::TableMod { table, config };
    assert_eq!(rig.refused(NEW, table(4, 0)), TableBadTable);
    assert_eq!(rig.refused(NEW, table(1, 8)), TableBadConfig);
    rig.ok(NEW, table(TABLE_ALL, 3));
}

/// What 1.0 has no words or no numbers for is left out; all else is told, to the last part.
#[test]
fn older_ones_are_told_what_they_have_words_for() {
    let mut c = config();
    c.ports.push(PortDesc { no: Port(70_000), ..port_desc(9) });
    c.queues.push(QueueDesc { id: 7, port: Port(70_000), properties: vec![] });
    let mut rig = Rig::with(c, |_| {});
    let ip = || any().with(Field::EthType, 0x0800);
    let no_words = [
        any().with_masked(Field::EthDst, 1 << 40, 1 << 40),
        ip().with_masked(Field::Ipv4Src, 1, 0xff00_00ff),
        any().with_masked(Field::VlanVid, 0x1000, 0x1000),
        any().with(Field::EthType, 0x0806).with(Field::ArpOp, 0x100),
    ];
    for (i, m) in no_words.into_iter().chain([ip()]).enumerate() {
        rig.ok(NEW, Message::FlowMod(flow(m, i as u16, to(2))));
    }
    assert_eq!(rig.flows(NEW).len(), 5);
    let shown: Vec<u16> = rig.flows(OLD).iter().map(|f| f.priority).collect();
    assert_eq!(shown, [4]);
    let numbers = |rig: &mut Rig, conn| -> Vec<u32> {
        let parts = rig.stats(conn, StatsRequest::Port(Port::ANY));
        let [StatsReply::Port(all)] = &parts[..] else { panic!("{parts:?}") };
        all.iter().map(|p| p.port.0).collect()
    };
    assert_eq!(numbers(&mut rig, NEW), [1, 2, 3, 4, 70_000]);
    assert_eq!(numbers(&mut rig, OLD), [1, 2, 3, 4]);
    let all = StatsRequest::Queue { port: Port::ANY, queue: QUEUE_ALL };
    let parts = rig.stats(OLD, all);
    let [StatsReply::Queue(queues)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(queues.iter().map(|q| q.port).collect::<Vec<_>>(), [Port(2)]);
    let got = rig.ask(OLD, Message::FeaturesRequest);
    let [Message::FeaturesReply(f)] = &got[..] else { panic!("{got:?}") };
    assert_eq!(f.ports.len(), 4);
    // All of it can be said.
    let asks = [StatsRequest::Flow(FlowFilter::every_flow()), StatsRequest::Port(Port::ANY)];
    let asks = asks.map(|body| Message::StatsRequest { more: Part::Last, body });
    for ask in asks.into_iter().chain([Message::FeaturesRequest]) {
        for body in rig.ask(OLD, ask) {
            encode(Version::V10, &Msg { xid: 1, body }, &mut Vec::new()).unwrap();
        }
    }
    // Nor of its changes.
    rig.connect(ConnId(11), Version::V10, Purpose::Controller);
    rig.switch.port_changed(PortUpdate::Link(Port(70_000), Link::Down), rig.now, &mut rig.out);
    assert_eq!(rig.out.take().iter().map(|s| s.to).collect::<Vec<_>>(), [NEW]);
}

#[test]
fn tables_say_what_they_can_do_and_stay_so() {
    let mut rig = Rig::new();
    let parts = rig.stats(NEW, StatsRequest::TableFeatures(vec![]));
    let [StatsReply::TableFeatures(t)] = &parts[..] else { panic!() };
    assert_eq!(t.len(), 4);
    let next = |t: &TableFeatures| {
        t.properties.iter().find_map(|p| match p {
            TableProperty::NextTables(Entries::Regular, n) => Some(n.clone()),
            _ => None,
        })
    };
    assert_eq!((next(&t[0]), next(&t[3])), (Some(vec![1, 2, 3]), Some(vec![])));
    // What it says can be set can be set, and nothing else.
    let set = t[0].properties.iter().find_map(|p| match p {
        TableProperty::ApplySetField(_, f) => Some(f.clone()),
        _ => None,
    });
    for f in Field::all() {
        let value = if f == Field::VlanVid { 0x1005 } else { 1 };
        let does = vec![Instruction::Apply(vec![Action::SetField(f, value), output(2)])];
        let got = rig.ask(NEW, Message::FlowMod(flow(dst(1), 5, does)));
        assert_eq!(got.is_empty(), set.as_ref().unwrap().contains(&f), "{f:?} {got:?}");
    }
    let body = StatsRequest::TableFeatures(t.clone());
    let m = Message::StatsRequest { more: Part::Last, body };
    assert_eq!(rig.refused(NEW, m), ErrorCode::TableFeaturesEperm);
}

#[test]
fn a_port_that_does_not_receive_takes_1_0_s_spanning_tree() {
    let mut rig = Rig::new();
    rig.ok(NEW, Message::FlowMod(flow(any(), 1, to(2))));
    let mut bridges = frame(1);
    bridges[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
    let (none, all, stp) = (PortConfig(0), PortConfig::NO_RECV, PortConfig::NO_RECV_STP);
    // Who says what under which mask, and whether others' frames and bridges' frames come in.
    for (conn, config, mask, [others, bridged]) in [
        (OLD, all, all, [0, 1]),
        (OLD, all | stp, all | stp, [0, 0]),
        (OLD, stp, all, [1, 0]),
        (OLD, PortConfig::NO_STP, stp, [1, 1]),
        (NEW, all, all, [0, 0]),
        (NEW, none, PortConfig::NO_FWD, [0, 0]),
        (NEW, none, all, [1, 1]),
    ] {
        let (port, mac) = (Port(1), port_desc(1).mac);
        let m = PortMod { port, mac, config, mask, advertise: PortFeatures::default() };
        rig.tell(conn, Message::PortMod(m));
        let came = [rig.send(1, &frame(1)).len(), rig.send(1, &bridges).len()];
        assert_eq!(came, [others, bridged], "{config:?} under {mask:?}");
    }
}

/// A flow, a group and a queue that name a port which the switch has lost stay at home, where their frames end. They are
/// carried, and end there too, until the port is back; a controller is refused as ever.
#[test]
fn what_names_a_lost_port_is_carried() {
    let mut rig = Rig::new();
    let add_flow = |n, instructions| Message::FlowMod(flow(dst(n), 5, instructions));
    let all = vec![bucket(vec![output(2)]), bucket(vec![output(3)])];
    rig.ok(NEW, group(GroupCommand::Add, GroupKind::All, 1, all));
    let watched = Bucket { watch_port: Port(2), ..bucket(vec![output(2)]) };
    let other = Bucket { watch_port: Port(3), ..bucket(vec![output(3)]) };
    rig.ok(NEW, group(GroupCommand::Add, GroupKind::FastFailover, 2, vec![watched, other]));
    rig.ok(NEW, add_flow(1, to(2)));
    rig.ok(NEW, add_flow(2, vec![Instruction::Apply(vec![output(2), output(3)])]));
    rig.ok(NEW, add_flow(3, vec![Instruction::Apply(vec![Action::Group(1)])]));
    rig.ok(NEW, add_flow(4, vec![Instruction::Apply(vec![Action::Group(2)])]));
    let queued = vec![Action::SetQueue(7), output(2)];
    rig.ok(NEW, add_flow(5, vec![Instruction::Write(queued)]));
    let by = |rig: &mut Rig| -> Vec<Vec<u32>> {
        let one = |n| rig.send(1, &frame(n)).into_iter().map(|(port, _)| port).collect();
        (1..=5).map(one).collect()
    };
    let whole = [vec![2], vec![2, 3], vec![2, 3], vec![2], vec![2]];
    assert_eq!(by(&mut rig), whole);
    let before: Vec<_> = rig.flows(NEW).into_iter().map(|f| f.instructions).collect();

    let mut less = config();
    less.ports.retain(|p| p.no != Port(2));
    less.queues.clear();
    let mut all = Vec::new();
    let new = Rig::alone(less, |spec| {
        all.clone_from(&spec.ports);
        spec.ports.retain(|(no, _)| *no != PortNo(2));
    });
    let mut rig = rig.moved_to(new, [NEW]);
    let seen: Vec<_> = rig.flows(NEW).into_iter().map(|f| f.instructions).collect();
    assert_eq!(seen, before);
    assert_eq!(by(&mut rig), [vec![], vec![3], vec![3], vec![3], vec![]]);
    // Of two that are away one comes back by itself.
    rig.plane.set_ports(VID, all.iter().copied().filter(|p| p.0 == PortNo(1)).collect()).unwrap();
    rig.plane.relink(VID).unwrap();
    assert_eq!(by(&mut rig), vec![vec![0; 0]; 5]);
    rig.plane.set_ports(VID, all.iter().copied().filter(|p| p.0 != PortNo(3)).collect()).unwrap();
    rig.plane.relink(VID).unwrap();
    assert_eq!(by(&mut rig), [vec![2], vec![2], vec![2], vec![2], vec![2]]);
    rig.plane.set_ports(VID, all.iter().copied().filter(|p| p.0 != PortNo(2)).collect()).unwrap();
    rig.plane.relink(VID).unwrap();
    assert_eq!(by(&mut rig), [vec![], vec![3], vec![3], vec![3], vec![]]);
    assert_eq!(rig.refused(NEW, add_flow(6, to(2))), ErrorCode::ActionBadOutPort);
    assert_eq!(rig.refused(NEW, add(7, vec![output(2)])), ErrorCode::ActionBadOutPort);
    rig.plane.set_ports(VID, all).unwrap();
    rig.plane.relink(VID).unwrap();
    assert_eq!(by(&mut rig), whole);
}
