//! The life of flows: added, replaced, changed, run out, deleted; what is counted and told meanwhile.

mod rig;
use rig::*;
use weir_agent::{Kind, Sent};
use weir_openflow::model::*;

fn removed(sent: Vec<Sent>) -> Vec<FlowRemoved> {
    let of = |s: Sent| match s.msg.body {
        Message::FlowRemoved(m) if s.to == NEW => {
            assert_eq!(s.kind, Kind::Async);
            Some(m)
        }
        m => panic!("{m:?}"),
    };
    sent.into_iter().filter_map(of).collect()
}

fn command(mut m: FlowMod, c: FlowCommand) -> Message {
    m.command = c;
    Message::FlowMod(m)
}

#[test]
fn adding_again_keeps_counters_in_1_3_and_clears_them_in_1_0() {
    let mut rig = Rig::new();
    let f = |p| Message::FlowMod(flow(dst(1), 10, to(p)));
    rig.ok(NEW, f(2));
    rig.send(1, &frame(1));
    rig.pass(1000);
    rig.ok(NEW, f(3));
    let s = &rig.flows(NEW)[0];
    assert_eq!((s.packets, s.bytes, s.duration_sec, s.duration_nsec), (1, 64, 0, 0));
    assert_eq!(rig.send(1, &frame(1))[0].0, 3);
    let mut reset = flow(dst(1), 10, to(3));
    reset.flags = FlowFlags::RESET_COUNTS;
    rig.ok(NEW, Message::FlowMod(reset));
    assert_eq!(rig.flows(NEW)[0].packets, 0);
    rig.send(1, &frame(1));
    rig.ok(OLD, f(2));
    assert_eq!(rig.flows(NEW)[0].packets, 0);
    assert_eq!(rig.out.take(), vec![]);
}

#[test]
fn a_modify_changes_what_it_means_and_nothing_else() {
    let mut rig = Rig::new();
    for n in 1..=3 {
        let mut f = flow(dst(n), 10, to(2));
        (f.cookie, f.hard_timeout) = (u64::from(n), 9);
        rig.ok(NEW, Message::FlowMod(f));
    }
    rig.send(1, &frame(2));
    rig.pass(500);
    let mut m = flow(any(), 99, to(4));
    (m.cookie, m.cookie_mask) = (2, 2);
    rig.ok(NEW, command(m.clone(), FlowCommand::Modify));
    let ports: Vec<u32> = (1..=3).map(|n| rig.send(1, &frame(n))[0].0).collect();
    assert_eq!(ports, [2, 4, 4]);
    let s = &rig.flows(NEW)[1];
    assert_eq!((s.packets, s.cookie, s.hard_timeout, s.duration_nsec), (2, 2, 9, 500_000_000));
    // Strictly, only the one with its priority.
    rig.ok(NEW, command(m, FlowCommand::ModifyStrict));
    assert_eq!(rig.flows(NEW).len(), 3);
    // In 1.0 a modify that finds nothing adds; in 1.3 it does not.
    let none = flow(dst(8), 10, to(3));
    rig.ok(NEW, command(none.clone(), FlowCommand::Modify));
    rig.ok(NEW, command(none.clone(), FlowCommand::ModifyStrict));
    assert_eq!(rig.flows(NEW).len(), 3);
    rig.ok(OLD, command(none, FlowCommand::Modify));
    rig.ok(OLD, command(flow(dst(9), 10, to(3)), FlowCommand::ModifyStrict));
    assert_eq!(rig.flows(NEW).len(), 5);
}

#[test]
fn deletes_go_by_match_cookie_port_and_group() {
    let mut rig = Rig::new();
    let left = |rig: &mut Rig| {
        let mut cookies: Vec<_> = rig.flows(NEW).iter().map(|f| f.cookie).collect();
        cookies.sort_unstable();
        cookies
    };
    let group =
        GroupMod { command: GroupCommand::Add, kind: GroupKind::All, id: 1, buckets: vec![] };
    rig.ok(NEW, Message::GroupMod(group));
    let to_group = vec![Instruction::Write(vec![Action::Group(1)])];
    let flows = [
        (dst(1), to(2)),
        (dst(2), to(3)),
        (dst(3).with(Field::InPort, 1), to(2)),
        (dst(4), to_group),
    ];
    for (n, (m, i)) in flows.iter().enumerate() {
        let mut f = flow(m.clone(), 10, i.clone());
        (f.cookie, f.table, f.flags) = (n as u64, n as u8 % 2, FlowFlags::SEND_FLOW_REM);
        rig.ok(NEW, Message::FlowMod(f));
    }
    let delete = |f: &dyn Fn(&mut FlowMod)| {
        let mut m = flow(any(), 0, vec![]);
        (m.table, m.command) = (TABLE_ALL, FlowCommand::Delete);
        f(&mut m);
        Message::FlowMod(m)
    };
    rig.ok(NEW, delete(&|m| m.out_port = Port(4)));
    rig.ok(NEW, delete(&|m| (m.cookie, m.cookie_mask) = (4, 4)));
    rig.ok(NEW, delete(&|m| m.matcher = dst(7)));
    rig.ok(NEW, delete(&|m| (m.matcher, m.command) = (dst(1), FlowCommand::DeleteStrict)));
    assert_eq!(left(&mut rig), [0, 1, 2, 3]);
    let gone = rig.tell(NEW, delete(&|m| m.out_group = 1));
    assert_eq!(removed(gone)[0].cookie, 3);
    rig.ok(NEW, delete(&|m| (m.out_port, m.matcher) = (Port(2), any().with(Field::InPort, 1))));
    assert_eq!(left(&mut rig), [0, 1]);
    let strict = |m: &mut FlowMod| {
        (m.matcher, m.priority, m.command) = (dst(2), 10, FlowCommand::DeleteStrict);
    };
    rig.ok(NEW, delete(&strict));
    assert_eq!(left(&mut rig), [0]);
    let gone = removed(rig.tell(NEW, delete(&|_| {})));
    assert_eq!((gone.len(), gone[0].reason), (1, RemovedReason::Delete));
    assert_eq!(gone[0].matcher, dst(1));
}

#[test]
fn flows_run_out_when_their_time_has_come() {
    let mut rig = Rig::new();
    let add = |rig: &mut Rig, n, idle, hard| {
        let mut f = flow(dst(n), 10, to(2));
        (f.idle_timeout, f.hard_timeout, f.flags) = (idle, hard, FlowFlags::SEND_FLOW_REM);
        rig.ok(NEW, Message::FlowMod(f));
    };
    add(&mut rig, 1, 2, 0);
    add(&mut rig, 2, 0, 3);
    add(&mut rig, 3, 2, 3);
    assert_eq!(rig.pass(1500), vec![]);
    rig.send(1, &frame(1));
    rig.send(1, &frame(3));
    // At 2 s nobody has been idle since the beginning.
    assert_eq!(rig.pass(1400), vec![]);
    assert_eq!(rig.switch.next_deadline(), Some(rig.now + weir_packet::Nanos::from_millis(100)));
    let gone = removed(rig.pass(100));
    let told = |r: &FlowRemoved| (r.matcher.clone(), r.reason, r.packets, r.duration_sec);
    let hard = RemovedReason::HardTimeout;
    let mut told: Vec<_> = gone.iter().map(told).collect();
    told.sort_by_key(|t| t.0.0[0].value);
    assert_eq!(told, [(dst(2), hard, 0, 3), (dst(3), hard, 1, 3)]);
    assert_eq!(rig.pass(499), vec![]);
    let gone = removed(rig.pass(1));
    assert_eq!((gone[0].reason, gone[0].packets), (RemovedReason::IdleTimeout, 1));
    assert_eq!((gone[0].bytes, gone[0].duration_sec, gone[0].duration_nsec), (64, 3, 500_000_000));
    assert_eq!(rig.switch.next_deadline(), None);
    assert_eq!(rig.send(1, &frame(1)), vec![]);
}

#[test]
fn what_is_not_counted_is_all_ones() {
    let mut rig = Rig::new();
    let mut f = flow(dst(1), 10, to(2));
    f.flags = FlowFlags::NO_PKT_COUNTS;
    rig.ok(NEW, Message::FlowMod(f));
    rig.send(1, &frame(1));
    let s = &rig.flows(NEW)[0];
    assert_eq!((s.packets, s.bytes, s.flags), (u64::MAX, 64, FlowFlags::NO_PKT_COUNTS));
}

#[test]
fn gathered_changes_keep_their_order_and_a_barrier_has_them_done() {
    let mut rig = Rig::new();
    for n in 0..1000u32 {
        rig.give(NEW, Message::FlowMod(flow(dst(1), 10, to(1 + n % 4))));
        if n % 3 == 0 {
            rig.give(NEW, command(flow(dst(1), 10, vec![]), FlowCommand::DeleteStrict));
        }
    }
    rig.give(NEW, Message::FlowMod(flow(dst(1), 10, to(3))));
    assert_eq!(rig.out.take(), vec![]);
    let xid = rig.give(NEW, Message::BarrierRequest);
    let sent = rig.out.take();
    assert_eq!((sent.len(), sent[0].msg.xid), (1, xid));
    assert_eq!(rig.send(1, &frame(1))[0].0, 3);
}

#[test]
fn many_flows_come_in_parts_and_sum_up() {
    let mut rig = Rig::new();
    let nth = |n: u16| {
        let m = any().with(Field::EthDst, n.into());
        FlowMod { cookie: u64::from(n % 4), ..flow(m, 10, to(2)) }
    };
    for n in 0..4000 {
        rig.give(NEW, Message::FlowMod(nth(n)));
    }
    // Some leave holes.
    for n in (0..4000).filter(|n| n % 5 == 1) {
        let m = FlowMod { command: FlowCommand::DeleteStrict, ..nth(n) };
        rig.give(NEW, Message::FlowMod(m));
    }
    rig.ask(NEW, Message::BarrierRequest);
    for n in [7u16, 1500, 7, 2999] {
        let [high, low] = n.to_be_bytes();
        let mut f = vec![0; 64];
        (f[4], f[5]) = (high, low);
        rig.send(1, &f);
    }
    let flows = rig.flows(NEW);
    assert_eq!(flows.len(), 3200);
    // A part at a time; who asks for something else gets the rest first.
    let all = FlowFilter {
        table: 0,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        cookie: 0,
        cookie_mask: 0,
        matcher: any(),
    };
    let body = StatsRequest::Flow(all);
    let asked = rig.give(NEW, Message::StatsRequest { more: Part::Last, body });
    assert_eq!(rig.out.take().len(), 1);
    assert!(rig.switch.owes(NEW));
    let (now, p, o) = (rig.now, &mut rig.plane, &mut rig.out);
    rig.switch.tell_part_to(NEW, now, p, o).unwrap();
    assert_eq!(rig.out.take().len(), 1);
    let barrier = rig.give(NEW, Message::BarrierRequest);
    let xids: Vec<u32> = rig.out.take().iter().map(|s| s.msg.xid).collect();
    assert_eq!(xids, [asked, asked, barrier]);
    let hits = |flows: &[FlowStats]| {
        let hit = flows.iter().filter(|f| f.packets + f.bytes > 0);
        hit.map(|f| (f.matcher.0[0].value, f.packets, f.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(hits(&flows), [(7, 2, 128), (1500, 1, 64), (2999, 1, 64)]);
    // A quarter of them, which lie apart.
    let of_cookie = FlowFilter { cookie: 3, cookie_mask: 3, ..FlowFilter::every_flow() };
    let parts = rig.stats(NEW, StatsRequest::Flow(of_cookie));
    let [StatsReply::Flow(flows)] = &parts[..] else { panic!("{}", parts.len()) };
    assert_eq!((flows.len(), hits(flows)), (800, vec![(7, 2, 128), (2999, 1, 64)]));
    let all = FlowFilter {
        table: 0,
        out_port: Port(2),
        out_group: GROUP_ANY,
        cookie: 0,
        cookie_mask: 0,
        matcher: any(),
    };
    let sum = Aggregate { packets: 4, bytes: 256, flows: 3200 };
    assert_eq!(rig.stats(OLD, StatsRequest::Aggregate(all)), [StatsReply::Aggregate(sum)]);
}

/// An answer that is under way tells nothing that was not asked for, though its flows went and others have their places.
#[test]
fn an_answer_under_way_tells_no_flow_that_took_anothers_place() {
    let mut rig = Rig::new();
    let nth = |n: u16, cookie| {
        let m = any().with(Field::EthDst, n.into());
        FlowMod { cookie, ..flow(m, 10, to(2)) }
    };
    for n in 0..3000 {
        rig.give(NEW, Message::FlowMod(nth(n, 7)));
    }
    let asked = FlowFilter { cookie: 7, cookie_mask: u64::MAX, ..FlowFilter::every_flow() };
    let body = StatsRequest::Flow(asked);
    rig.give(NEW, Message::StatsRequest { more: Part::Last, body });
    let mut told = rig.out.take();
    for n in 0..3000 {
        let delete = FlowMod { command: FlowCommand::DeleteStrict, ..nth(n, 7) };
        rig.give(OLD, Message::FlowMod(delete));
    }
    for n in 0..3000 {
        rig.give(OLD, Message::FlowMod(nth(3000 + n, 9)));
    }
    while rig.switch.owes(NEW) {
        let (now, p, o) = (rig.now, &mut rig.plane, &mut rig.out);
        rig.switch.tell_part_to(NEW, now, p, o).unwrap();
        told.extend(rig.out.take());
    }
    let mut cookies = vec![];
    for sent in told {
        let Message::StatsReply { body: StatsReply::Flow(flows), .. } = sent.msg.body else {
            panic!("{sent:?}")
        };
        cookies.extend(flows.iter().map(|f| f.cookie));
    }
    assert_eq!(cookies, [7; 1024]);
}

/// No frame's physical port is 0, and none is another than its port: that is told apart all the same.
#[test]
fn flows_by_physical_port_are_one_only_if_their_matches_are() {
    let mut rig = Rig::new();
    let by = |port, phy, out| {
        let m = any().with(Field::InPort, port).with(Field::InPhyPort, phy);
        Message::FlowMod(flow(m, 10, to(out)))
    };
    for (port, phy, out) in [(1, 1, 2), (1, 0, 3), (1, 2, 4), (2, 1, 4)] {
        rig.ok(NEW, by(port, phy, out));
    }
    assert_eq!(rig.flows(NEW).len(), 4);
    assert_eq!(rig.send(1, &frame(1)), [(2, frame(1))]);
    assert_eq!(rig.send(2, &frame(1)), []);
}

/// A delete of everything is no walk through the flows; what it leaves must be the same.
#[test]
fn a_delete_of_everything_leaves_nothing_behind() {
    let mut rig = Rig::new();
    let delete = |table| {
        let mut m = flow(any(), 0, vec![]);
        (m.table, m.command) = (table, FlowCommand::Delete);
        Message::FlowMod(m)
    };
    for round in 0..3u8 {
        for n in 0..60u8 {
            let mut f = flow(dst(n), u16::from(n % 3), to(2));
            (f.table, f.idle_timeout) = (n % 2, u16::from(n % 5 == 0));
            if round == 1 && n == 7 {
                f.flags = FlowFlags::SEND_FLOW_REM;
            }
            rig.ok(NEW, Message::FlowMod(f));
        }
        assert_eq!(rig.send(1, &frame(4)), [(2, frame(4))]);
        // One table, then what is left.
        let told = rig.tell(NEW, delete(1));
        assert_eq!(removed(told).len(), usize::from(round == 1));
        assert_eq!((rig.flows(NEW).len(), rig.switch.flow_count()), (30, 30));
        assert_eq!(rig.send(1, &frame(4)), [(2, frame(4))]);
        rig.ok(NEW, delete(TABLE_ALL));
        assert_eq!((rig.flows(NEW).len(), rig.switch.flow_count()), (0, 0));
        assert_eq!(rig.send(1, &frame(4)), []);
        let of_vdp = rig.plane.snapshot().vdps.into_iter().find(|v| v.vid == VID).unwrap();
        assert_eq!((of_vdp.rules, of_vdp.slow_rules), (0, 0));
        // The time-outs went along, and lookups are counted on.
        assert_eq!(rig.pass(3000), vec![]);
        let [StatsReply::Table(t)] = &rig.stats(NEW, StatsRequest::Table)[..] else { panic!() };
        let round = u64::from(round) + 1;
        assert_eq!((t[0].active, t[0].lookups, t[0].matched), (0, 3 * round, 2 * round));
    }
}

#[test]
fn a_controller_of_1_0_sees_and_empties_all_tables_and_adds_to_the_first() {
    let mut rig = Rig::new();
    let table = 3;
    rig.ok(NEW, Message::FlowMod(FlowMod { table, ..flow(dst(1), 5, to(2)) }));
    rig.ok(OLD, Message::FlowMod(flow(dst(1), 5, to(3))));
    let tables = |rig: &mut Rig| rig.flows(OLD).iter().map(|f| f.table).collect::<Vec<_>>();
    assert_eq!(tables(&mut rig), [0, 3]);
    // A modify changes the first table's alone.
    let command = FlowCommand::Modify;
    rig.ok(OLD, Message::FlowMod(FlowMod { command, ..flow(any(), 5, to(4)) }));
    let outs: Vec<_> = rig.flows(NEW).into_iter().map(|f| f.instructions).collect();
    assert_eq!(outs[1], to(2));
    assert_ne!(outs[0], to(3));
    // As it comes from the wire (1.0.1's one table is all there is).
    let (command, table) = (FlowCommand::Delete, TABLE_ALL);
    rig.ok(OLD, Message::FlowMod(FlowMod { command, table, ..flow(any(), 0, vec![]) }));
    assert_eq!(tables(&mut rig), []);
}
