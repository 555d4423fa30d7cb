//! Each way in which a flow_mod can be wrong, with the error that the specification asks for; the
//! flows that were there stay as they were.

mod rig;
use rig::*;
use weir_openflow::model::*;

fn with(f: impl FnOnce(&mut FlowMod)) -> Message {
    let mut m = flow(dst(1), 10, to(2));
    f(&mut m);
    Message::FlowMod(m)
}

fn apply(a: Action) -> Message {
    with(|m| m.instructions = vec![Instruction::Apply(vec![a])])
}

fn write(a: Action) -> Message {
    with(|m| m.instructions = vec![Instruction::Write(vec![a])])
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    use ErrorCode::*;
    let mut rig = Rig::new();
    rig.ok(NEW, Message::FlowMod(flow(dst(9), 5, to(3))));
    let before = rig.flows(NEW);
    let vid = |v| Action::SetField(Field::VlanVid, v);
    let cases: Vec<(Message, ErrorCode)> = vec![
        // 1.3 §6.4: the table.
        (with(|m| m.table = 4), FlowBadTableId),
        (with(|m| m.table = TABLE_ALL), FlowBadTableId),
        (with(|m| (m.command, m.table) = (FlowCommand::Delete, 200)), FlowBadTableId),
        (with(|m| m.flags = FlowFlags(1 << 9)), FlowBadFlags),
        (with(|m| (m.command, m.flags) = (FlowCommand::Delete, FlowFlags(1 << 9))), FlowBadFlags),
        // The match.
        (with(|m| m.matcher = any().with(Field::TcpDst, 1)), MatchBadPrereq),
        (with(|m| m.matcher = any().with(Field::VlanVid, 5)), MatchBadValue),
        (with(|m| m.matcher = any().with_masked(Field::EthType, 0x800, 0xff00)), MatchBadMask),
        // Actions.
        (apply(output(77)), ActionBadOutPort),
        (apply(output(0)), ActionBadOutPort),
        (apply(output(Port::TABLE.0)), ActionBadOutPort),
        (apply(output(Port::ANY.0)), ActionBadOutPort),
        (write(output(77)), ActionBadOutPort),
        (apply(Action::Group(1)), ActionBadOutGroup),
        (write(Action::Group(GROUP_ALL)), ActionBadOutGroup),
        (apply(Action::SetQueue(8)), ActionBadQueue),
        (apply(Action::SetField(Field::InPort, 1)), ActionBadSetType),
        (apply(Action::SetField(Field::Metadata, 1)), ActionBadSetType),
        (apply(Action::SetField(Field::Ipv6Exthdr, 1)), ActionBadSetType),
        (apply(vid(5)), ActionBadSetArgument),
        (apply(vid(0x2000)), ActionBadSetArgument),
        (apply(Action::PushVlan(0x800)), ActionBadArgument),
        (apply(Action::PushMpls(0x8100)), ActionBadArgument),
        (apply(Action::PushPbb(0x88e8)), ActionBadArgument),
        (apply(Action::Experimenter { experimenter: 1, data: vec![] }), ActionBadExperimenter),
        (with(|m| m.instructions = vec![Instruction::Apply(vec![output(1); 300])]), ActionTooMany),
        // Instructions.
        (with(|m| m.instructions = vec![Instruction::GotoTable(0)]), InstBadTableId),
        (with(|m| m.instructions = vec![Instruction::GotoTable(4)]), InstBadTableId),
        (
            with(|m| (m.table, m.instructions) = (2, vec![Instruction::GotoTable(1)])),
            InstBadTableId,
        ),
        (with(|m| m.instructions = vec![Instruction::Meter(1)]), MeterUnknownMeter),
        (
            with(|m| {
                let (experimenter, data) = (1, vec![]);
                m.instructions = vec![Instruction::Experimenter { experimenter, data }];
            }),
            InstBadExperimenter,
        ),
        (with(|m| m.instructions = [to(1), to(2)].concat()), InstUnsupported),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(NEW, m.clone()), code, "{m:?}");
        assert_eq!(rig.flows(NEW), before, "{m:?}");
    }
}

#[test]
fn the_corners_of_1_0_are_refused() {
    use ErrorCode::*;
    let mut rig = Rig::new();
    let cases: Vec<(Message, ErrorCode)> = vec![
        (with(|m| m.flags = FlowFlags::EMERG), FlowTableFull),
        (with(|m| (m.flags, m.idle_timeout) = (FlowFlags::EMERG, 1)), FlowBadTimeout),
        (apply(Action::Enqueue { port: Port(2), queue: 8 }), ActionBadQueue),
        (apply(Action::Enqueue { port: Port(1), queue: 7 }), ActionBadQueue),
        (apply(Action::Enqueue { port: Port(9), queue: 7 }), ActionBadOutPort),
        (apply(Action::Enqueue { port: Port::FLOOD, queue: 7 }), ActionBadOutPort),
        (apply(Action::SetVlanVid(4096)), ActionBadArgument),
        (apply(Action::SetVlanPcp(8)), ActionBadArgument),
        (apply(Action::SetNwTos(1)), ActionBadArgument),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(OLD, m.clone()), code, "{m:?}");
    }
    assert_eq!(rig.flows(OLD), vec![]);
    // 1.0.1 §5.3.3: a delete of emergency flows is no delete of others.
    rig.ok(NEW, Message::FlowMod(flow(any(), 5, to(3))));
    rig.ok(
        OLD,
        with(|m| (m.command, m.matcher, m.flags) = (FlowCommand::Delete, any(), FlowFlags::EMERG)),
    );
    assert_eq!(rig.flows(OLD).len(), 1);
    rig.ok(OLD, with(|m| (m.command, m.matcher) = (FlowCommand::Delete, any())));
    assert_eq!(rig.flows(OLD), vec![]);
    rig.ok(OLD, apply(Action::Enqueue { port: Port(2), queue: 7 }));
    // §3.4: fields that can't be looked at are ignored.
    rig.ok(OLD, with(|m| m.matcher = any().with(Field::Ipv4Src, 1)));
    assert_eq!(rig.flows(OLD)[1].matcher, any());
    // 1.3 sees the queue in its own words.
    let seen = &rig.flows(NEW)[0].instructions;
    assert_eq!(
        seen[..],
        [Instruction::Apply(vec![
            Action::SetQueue(7),
            Action::Output { port: Port(2), max_len: u16::MAX },
            Action::SetQueue(0),
        ])]
    );
}

#[test]
fn overlapping_flows_are_refused_when_asked() {
    let mut rig = Rig::new();
    let checked = |m: Match| {
        let mut f = flow(m, 10, to(2));
        f.flags = FlowFlags::CHECK_OVERLAP;
        Message::FlowMod(f)
    };
    rig.ok(NEW, checked(dst(1)));
    rig.ok(NEW, checked(dst(2)));
    assert_eq!(rig.refused(NEW, checked(dst(1))), ErrorCode::FlowOverlap);
    assert_eq!(rig.refused(NEW, checked(any())), ErrorCode::FlowOverlap);
    let port = any().with(Field::InPort, 1);
    assert_eq!(rig.refused(NEW, checked(port.clone())), ErrorCode::FlowOverlap);
    rig.ok(NEW, checked(dst(3).with(Field::InPort, 1)));
    let mut lower = flow(port, 9, to(2));
    lower.flags = FlowFlags::CHECK_OVERLAP;
    rig.ok(NEW, Message::FlowMod(lower));
    assert_eq!(rig.flows(NEW).len(), 4);
}

#[test]
fn a_full_table_says_so_and_stays_as_it_is() {
    let mut c = config();
    c.limits.flows = 3;
    let mut rig = Rig::with(c, |_| {});
    for n in 0..5 {
        rig.give(NEW, Message::FlowMod(flow(dst(n), 1, to(2))));
    }
    // A flow that is there can still be replaced.
    rig.give(NEW, Message::FlowMod(flow(dst(0), 1, to(3))));
    rig.give(NEW, Message::BarrierRequest);
    let got: Vec<Message> = rig.out.take().into_iter().map(|s| s.msg.body).collect();
    let code = |m: &Message| match m {
        Message::Error(e) => Some(e.code),
        _ => None,
    };
    let full = Some(ErrorCode::FlowTableFull);
    assert_eq!(got.iter().map(code).collect::<Vec<_>>(), [full, full, None]);
    assert_eq!(got[2], Message::BarrierReply);
    assert_eq!(rig.flows(NEW).len(), 3);
    assert_eq!(rig.send(1, &frame(0)).len(), 1);
    assert_eq!(rig.send(1, &frame(4)), vec![]);
}

/// How many flows the switch says that a table may have: 1.3's features, 1.3's and 1.0's statistics.
fn told_most(rig: &mut Rig) -> [u32; 3] {
    let ask = StatsRequest::TableFeatures(vec![]);
    let [StatsReply::TableFeatures(f)] = &rig.stats(NEW, ask)[..] else { panic!() };
    let [StatsReply::Table(new)] = &rig.stats(NEW, StatsRequest::Table)[..] else { panic!() };
    let [StatsReply::Table(old)] = &rig.stats(OLD, StatsRequest::Table)[..] else { panic!() };
    [f[3].max_entries, new[3].max_entries, old[3].max_entries]
}

#[test]
fn what_is_said_of_tables_room_is_true() {
    let mut c = config();
    assert_eq!(told_most(&mut Rig::with(c.clone(), |s| s.action_limit = Some(17))), [32; 3]);
    let tcam = Rig::new().plane.tcam().entries(weir_classify::Part::Action);
    assert_eq!(told_most(&mut Rig::new()), [tcam; 3], "all of it, with nobody else there");
    c.placement = weir_dataplane::Placement::Spill;
    let allowed = c.limits.flows;
    assert!(allowed > tcam);
    assert_eq!(told_most(&mut Rig::with(c.clone(), |s| s.action_limit = Some(16))), [allowed; 3]);
    c.limits.flows = 3;
    c.placement = weir_dataplane::Placement::Fast;
    assert_eq!(told_most(&mut Rig::with(c, |_| {})), [3; 3]);
}

#[test]
fn a_spent_slice_is_a_full_table() {
    let mut rig = Rig::with(config(), |s| s.action_limit = Some(16));
    for n in 0..20 {
        rig.give(NEW, Message::FlowMod(flow(dst(n), 1, to(2))));
    }
    rig.switch.settle(rig.now, &mut rig.plane, &mut rig.out).unwrap();
    let full = rig.out.take();
    assert_eq!(full.len(), 4);
    // The least of what is allowed and what there is room for is what is told, in both versions.
    assert_eq!(told_most(&mut rig), [16; 3]);
    assert_eq!(rig.flows(NEW).len(), 16);
    // Room again.
    let mut del = flow(dst(0), 1, vec![]);
    del.command = FlowCommand::DeleteStrict;
    rig.ok(NEW, Message::FlowMod(del));
    rig.ok(NEW, Message::FlowMod(flow(dst(19), 1, to(2))));
}
