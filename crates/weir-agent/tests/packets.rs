//! Packets to and from controllers: who gets how much of what, buffers, reserved ports.

mod rig;
use rig::*;
use weir_agent::{Arrived, ConnId, Kind, Purpose};
use weir_openflow::model::*;
use weir_packet::Nanos;

/// A controller of 1.0 beside the one of 1.3.
const OLDER: ConnId = ConnId(11);

fn arrived(reason: PacketInReason, cookie: u64, max_len: u16) -> Arrived {
    Arrived {
        in_port: Port(3),
        reason,
        table: 1,
        cookie,
        max_len,
        metadata: 5,
        tunnel_id: 0,
        frame: frame(9),
    }
}

fn ins(rig: &mut Rig, a: Arrived) -> Vec<(ConnId, PacketIn)> {
    rig.switch.punted(a, rig.now, &mut rig.out);
    let of = |s: weir_agent::Sent| match s.msg.body {
        Message::PacketIn(p) => {
            assert_eq!(s.kind, Kind::Async);
            (s.to, p)
        }
        m => panic!("{m:?}"),
    };
    rig.out.take().into_iter().map(of).collect()
}

fn out(buffer_id: u32, in_port: Port, actions: Vec<Action>, data: Vec<u8>) -> Message {
    Message::PacketOut(PacketOut { buffer_id, in_port, actions, data })
}

#[test]
fn each_gets_what_is_for_it_and_no_more_than_it_wants() {
    use PacketInReason::*;
    let mut rig = Rig::new();
    rig.connect(OLDER, Version::V10, Purpose::Controller);
    // No flow: 1.0's alone, so much of it as it has set.
    let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 20 };
    rig.ok(OLDER, Message::SetConfig(config));
    let got = ins(&mut rig, arrived(NoMatch, u64::MAX, NO_MAX_LEN));
    let [(OLDER, p)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((p.data.len(), p.total_len, p.reason), (20, 64, NoMatch));
    assert_ne!(p.buffer_id, NO_BUFFER);
    assert_eq!(p.matcher, any().with(Field::InPort, 3));
    // A miss entry or an action: whoever wants such.
    let got = ins(&mut rig, arrived(Action, 7, 10));
    let [(OLDER, a), (NEW, b)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((a.buffer_id, a.data.len()), (b.buffer_id, b.data.len()));
    assert_eq!((b.cookie, b.table, b.data.len()), (7, 1, 10));
    assert_eq!(b.matcher, any().with(Field::InPort, 3).with(Field::Metadata, 5));
    let got = ins(&mut rig, arrived(NoMatch, 7, NO_MAX_LEN));
    assert_eq!((got[1].1.buffer_id, got[1].1.data.len()), (NO_BUFFER, 64));
    // Invalid TTLs only where asked for.
    assert_eq!(ins(&mut rig, arrived(InvalidTtl, 7, NO_MAX_LEN)), vec![]);
    let wants = AsyncConfig { packet_in: [4, 0], port_status: [0, 0], flow_removed: [0, 0] };
    rig.ok(NEW, Message::SetAsync(wants));
    let got = ins(&mut rig, arrived(InvalidTtl, 7, NO_MAX_LEN));
    assert_eq!((got.len(), got[0].0), (1, NEW));
    // A tool listens when it has said so.
    let listens = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 };
    rig.ok(OLD, Message::SetConfig(listens));
    assert_eq!(ins(&mut rig, arrived(Action, 7, 10)).len(), 2);
}

#[test]
fn a_limit_holds_packet_ins_back() {
    let mut c = config();
    c.limits.packet_ins = Some(100);
    let mut rig = Rig::with(c, |_| {});
    let mut got = 0;
    for _ in 0..50 {
        got += ins(&mut rig, arrived(PacketInReason::Action, 7, 10)).len();
    }
    assert_eq!((got, rig.switch.packets_kept_back()), (10, 40));
    rig.now = rig.now + Nanos::from_millis(50);
    got = (0..50).map(|_| ins(&mut rig, arrived(PacketInReason::Action, 7, 10)).len()).sum();
    assert_eq!(got, 5);
}

#[test]
fn without_buffers_packets_come_whole() {
    let mut c = config();
    c.buffers = 0;
    let mut rig = Rig::with(c, |_| {});
    let got = ins(&mut rig, arrived(PacketInReason::Action, 7, 10));
    assert_eq!((got[0].1.buffer_id, got[0].1.data.len()), (NO_BUFFER, 64));
}

#[test]
fn wrong_packet_outs_are_refused() {
    use ErrorCode::*;
    let mut rig = Rig::new();
    let c = Port::CONTROLLER;
    let cases = [
        (out(NO_BUFFER, Port(9), vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, Port::ANY, vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, Port::FLOOD, vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, c, vec![output(9)], frame(1)), ActionBadOutPort),
        (out(NO_BUFFER, c, vec![Action::Group(1)], frame(1)), ActionBadOutGroup),
        (out(NO_BUFFER, c, vec![output(1)], vec![0; 13]), BadPacket),
        (out(5, c, vec![output(1)], vec![]), BufferUnknown),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(NEW, m.clone()), code, "{m:?}");
    }
    let b = ins(&mut rig, arrived(PacketInReason::Action, 7, 10))[0].1.buffer_id;
    rig.ok(NEW, out(b, Port(3), vec![], vec![]));
    assert_eq!(rig.refused(NEW, out(b, Port(3), vec![], vec![])), BufferEmpty);
}

/// A packet that waits for controllers' word.
fn buffered(rig: &mut Rig) -> u32 {
    ins(rig, arrived(PacketInReason::Action, 7, 10))[0].1.buffer_id
}

#[test]
fn a_change_whose_packet_is_not_there_is_refused_whole() {
    use FlowCommand::*;
    let mut rig = Rig::new();
    rig.ok(NEW, Message::FlowMod(flow(dst(1), 5, to(3))));
    let gone = buffered(&mut rig);
    rig.ok(NEW, out(gone, Port(3), vec![], vec![]));
    let before = rig.flows(NEW);
    for conn in [NEW, OLD] {
        for (buffer_id, code) in [(gone, ErrorCode::BufferEmpty), (5, ErrorCode::BufferUnknown)] {
            for (command, n) in [(Add, 9), (Add, 1), (Modify, 1), (ModifyStrict, 1), (Modify, 8)] {
                let m = FlowMod { command, buffer_id, cookie: 6, ..flow(dst(n), 5, to(2)) };
                assert_eq!(rig.refused(conn, Message::FlowMod(m.clone())), code, "{m:?}");
                assert_eq!(rig.flows(NEW), before, "{m:?}");
            }
            // Not meaningful for a delete (1.3 §7.3.4.1).
            let m = FlowMod { command: DeleteStrict, buffer_id, ..flow(dst(9), 5, vec![]) };
            rig.ok(conn, Message::FlowMod(m));
        }
    }
}

#[test]
fn a_change_that_is_refused_leaves_its_packet() {
    let mut c = config();
    c.limits.flows = 1;
    let mut rig = Rig::with(c, |_| {});
    rig.ok(NEW, Message::FlowMod(flow(any(), 1, to(4))));
    let buffer_id = buffered(&mut rig);
    let naming = |n, port| Message::FlowMod(FlowMod { buffer_id, ..flow(dst(n), 5, to(port)) });
    assert_eq!(rig.refused(NEW, naming(9, 2)), ErrorCode::FlowTableFull);
    assert_eq!(rig.settle(), [], "no flow, no packet");
    // Gathered: what became of the packet is known before the next that names it is judged.
    rig.give(NEW, naming(9, 2));
    rig.give(NEW, Message::FlowMod(FlowMod { buffer_id, ..flow(any(), 1, to(3)) }));
    rig.give(NEW, out(buffer_id, Port(3), vec![output(1)], vec![]));
    rig.switch.settle(rig.now, &mut rig.plane, &mut rig.out).unwrap();
    let codes = rig.out.take().into_iter().map(|s| match s.msg.body {
        Message::Error(e) => e.code,
        m => panic!("{m:?}"),
    });
    assert_eq!(codes.collect::<Vec<_>>(), [ErrorCode::FlowTableFull, ErrorCode::BufferEmpty]);
    // It came in at port 3, so it does not go out there; the flow counted it.
    assert_eq!(rig.settle(), []);
    assert_eq!(rig.flows(NEW)[0].packets, 1);
    // A modify of many.
    let buffer_id = buffered(&mut rig);
    let command = FlowCommand::Modify;
    rig.ok(NEW, Message::FlowMod(FlowMod { command, buffer_id, ..flow(any(), 1, to(2)) }));
    assert_eq!(rig.settle(), [(2, frame(9))]);
}

#[test]
fn a_packet_out_that_can_not_be_sent_leaves_its_packet() {
    let mut c = config();
    // The data plane has no such port.
    c.ports.push(port_desc(5));
    let mut rig = Rig::with(c, |_| {});
    let b = buffered(&mut rig);
    let sent = |port| out(b, Port(port), vec![output(1)], vec![]);
    assert_eq!(rig.refused(NEW, sent(5)), ErrorCode::BadPort);
    rig.ok(NEW, sent(3));
    assert_eq!(rig.settle(), [(1, frame(9))]);
    assert_eq!(rig.refused(NEW, sent(3)), ErrorCode::BufferEmpty);
}

/// A frame in, what came out of each port, and the packet-ins.
fn through(rig: &mut Rig, port: u32, f: &[u8]) -> (Vec<u32>, Vec<(ConnId, PacketIn)>) {
    let out = rig.send(port, f).into_iter().map(|(n, _)| n).collect();
    (out, told(rig))
}

fn told(rig: &mut Rig) -> Vec<(ConnId, PacketIn)> {
    let of = |s: weir_agent::Sent| match s.msg.body {
        Message::PacketIn(p) => (s.to, p),
        m => panic!("{m:?}"),
    };
    rig.out.take().into_iter().map(of).collect()
}

#[test]
fn misses_go_to_1_0_and_miss_entries_to_all() {
    let mut rig = Rig::new();
    assert_eq!(through(&mut rig, 1, &frame(1)), (vec![], vec![]), "1.3 drops");
    rig.connect(OLDER, Version::V10, Purpose::Controller);
    let (_, got) = through(&mut rig, 2, &frame(1));
    let [(OLDER, p)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((p.reason, p.data.len(), p.cookie), (PacketInReason::NoMatch, 64, u64::MAX));
    assert_eq!(p.matcher, any().with(Field::InPort, 2));
    rig.disconnect(OLDER);
    assert_eq!(through(&mut rig, 2, &frame(1)), (vec![], vec![]));
    let max_len = NO_MAX_LEN;
    let up = Action::Output { port: Port::CONTROLLER, max_len };
    let mut miss = flow(any(), 0, vec![Instruction::Apply(vec![up.clone()])]);
    miss.cookie = 77;
    rig.ok(NEW, Message::FlowMod(miss));
    let (_, got) = through(&mut rig, 3, &frame(1));
    let [(NEW, p)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((p.reason, p.cookie, p.table), (PacketInReason::NoMatch, 77, 0));
    assert_eq!(p.data, frame(1));
    // 1.0 has no miss entries: it is a flow, and sends the whole frame as it says.
    rig.connect(OLDER, Version::V10, Purpose::Controller);
    let (_, got) = through(&mut rig, 3, &frame(1));
    let reasons: Vec<_> = got.iter().map(|(to, p)| (*to, p.reason, p.data.len())).collect();
    let of = |to, reason| (to, reason, 64);
    assert_eq!(reasons, [of(OLDER, PacketInReason::Action), of(NEW, PacketInReason::NoMatch)]);
    rig.disconnect(OLDER);
    rig.ok(NEW, Message::FlowMod(flow(any(), 1, vec![Instruction::Apply(vec![up])])));
    let (_, got) = through(&mut rig, 3, &frame(1));
    assert_eq!(got[0].1.reason, PacketInReason::Action);
}

#[test]
fn packets_go_out_by_every_port_there_is() {
    let mut rig = Rig::new();
    let mut sent = |actions: Vec<Action>, in_port| {
        let (in_port, data) = (Port(in_port), frame(5));
        rig.ok(NEW, out(NO_BUFFER, in_port, actions, data));
        let all: Vec<u32> = rig.settle().into_iter().map(|(n, _)| n).collect();
        (all, told(&mut rig).len())
    };
    assert_eq!(sent(vec![output(3)], Port::CONTROLLER.0), (vec![3], 0));
    assert_eq!(sent(vec![output(Port::ALL.0)], 2), (vec![1, 3, 4], 0));
    assert_eq!(sent(vec![output(Port::FLOOD.0)], Port::CONTROLLER.0), (vec![1, 2, 3, 4], 0));
    assert_eq!(sent(vec![output(Port::IN_PORT.0)], 2), (vec![2], 0));
    assert_eq!(sent(vec![output(2), output(3)], 2), (vec![3], 0));
    assert_eq!(sent(vec![output(Port::CONTROLLER.0)], 2), (vec![], 1));
    assert_eq!(sent(vec![output(Port::LOCAL.0)], 2), (vec![], 0));
    assert_eq!(sent(vec![output(Port::TABLE.0)], 2), (vec![], 0), "no flow");
    assert_eq!(sent(vec![], 2), (vec![], 0));
}

#[test]
fn a_flow_takes_the_buffered_packet_and_order_is_kept() {
    let mut rig = Rig::new();
    let up = Action::Output { port: Port::CONTROLLER, max_len: 16 };
    rig.ok(NEW, Message::FlowMod(flow(any(), 0, vec![Instruction::Apply(vec![up])])));
    let (_, got) = through(&mut rig, 1, &frame(6));
    let p = &got[0].1;
    assert_eq!((p.data.len(), p.total_len), (16, 64));
    let mut f = flow(dst(6), 5, to(4));
    f.buffer_id = p.buffer_id;
    rig.ok(NEW, Message::FlowMod(f));
    assert_eq!(rig.settle(), [(4, frame(6))]);
    assert_eq!(rig.flows(NEW)[1].packets, 1);
    // Gathered with changes of flows: each frame meets the flows that were asked for before it.
    for port in [2, 3, 2] {
        rig.give(NEW, Message::FlowMod(flow(dst(6), 5, to(port))));
        rig.give(NEW, out(NO_BUFFER, Port(1), vec![output(Port::TABLE.0)], frame(6)));
    }
    rig.switch.settle(rig.now, &mut rig.plane, &mut rig.out).unwrap();
    let ports: Vec<u32> = rig.settle().into_iter().map(|(n, _)| n).collect();
    assert_eq!(ports, [2, 2, 3]);
}

/// The packets that somebody was sent.
fn packets(rig: &mut Rig, to: ConnId) -> Vec<PacketIn> {
    let of = |s: weir_agent::Sent| match s.msg.body {
        Message::PacketIn(p) if s.to == to => Some(p),
        _ => None,
    };
    rig.out.take().into_iter().filter_map(of).collect()
}

/// What a bucket or the action set sends is no one flow's: not that of the last table, least of all (1.3.5 §7.4.1).
#[test]
fn what_no_one_flow_sends_has_no_cookie() {
    let to_controller = || Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    let mut rig = Rig::new();
    let buckets = vec![Bucket {
        weight: 0,
        watch_port: Port::ANY,
        watch_group: GROUP_ANY,
        actions: vec![to_controller()],
    }];
    let (command, kind) = (GroupCommand::Add, GroupKind::All);
    rig.ok(NEW, Message::GroupMod(GroupMod { command, kind, id: 1, buckets }));
    let set = vec![Instruction::Write(vec![to_controller()]), Instruction::GotoTable(1)];
    let group = vec![Instruction::Apply(vec![Action::Group(1)])];
    let own = vec![Instruction::Apply(vec![to_controller()])];
    // Carried out at once, since no table follows.
    let at_once = vec![Instruction::Write(vec![to_controller()])];
    for (i, instructions) in [set, group, own, at_once.clone()].into_iter().enumerate() {
        let cookie = 0x70 + i as u64;
        let f = flow(dst(i as u8), 5, instructions);
        rig.ok(NEW, Message::FlowMod(FlowMod { cookie, ..f }));
    }
    let last = FlowMod { cookie: 0x88, table: 1, ..flow(any(), 0, vec![]) };
    rig.ok(NEW, Message::FlowMod(last));
    let miss = flow(any(), 0, at_once);
    rig.ok(NEW, Message::FlowMod(FlowMod { cookie: 0x99, ..miss }));
    let cookies = [u64::MAX, u64::MAX, 0x72, u64::MAX, u64::MAX];
    for (i, cookie) in cookies.into_iter().enumerate() {
        rig.send(1, &frame(i as u8));
        let got = packets(&mut rig, NEW);
        let [p] = &got[..] else { panic!("{i}: {got:?}") };
        assert_eq!((p.cookie, p.reason), (cookie, PacketInReason::Action), "{i}");
    }
}

/// A tool of 1.0 that has asked for packets gets what no flow takes, with a controller of 1.3 there, or nobody.
#[test]
fn a_listening_tool_gets_what_no_flow_takes() {
    let mut rig = Rig::new();
    let listens = |miss_send_len| {
        Message::SetConfig(SwitchConfig { fragments: Fragments::Normal, miss_send_len })
    };
    rig.send(1, &frame(1));
    assert_eq!(packets(&mut rig, OLD), []);
    rig.ok(OLD, listens(64));
    for alone in [false, true] {
        if alone {
            rig.disconnect(NEW);
        }
        rig.send(1, &frame(1));
        let got = packets(&mut rig, OLD);
        let [p] = &got[..] else { panic!("{alone}: {got:?}") };
        assert_eq!(p.reason, PacketInReason::NoMatch);
    }
    rig.disconnect(OLD);
    rig.send(1, &frame(1));
    assert_eq!(rig.out.take(), []);
}

/// A packet-out from no port says so where it comes back (1.0.1 §5.3.6: OFPP_NONE), and a queue of the port that a frame will come in by can
/// be named (§5.2.4).
#[test]
fn no_port_and_the_port_it_came_in_by() {
    let mut rig = Rig::new();
    rig.ok(
        OLD,
        Message::SetConfig(SwitchConfig { fragments: Fragments::Normal, miss_send_len: 64 }),
    );
    let back = vec![Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN }];
    rig.ok(OLD, out(NO_BUFFER, Port::ANY, back, frame(1)));
    rig.settle();
    let got = packets(&mut rig, OLD);
    let [p] = &got[..] else { panic!("{got:?}") };
    assert_eq!(p.matcher, any().with(Field::InPort, Port::ANY.0.into()));
    let enqueue = |queue| Action::Enqueue { port: Port::IN_PORT, queue };
    let f = |queue| flow(any(), 5, vec![Instruction::Apply(vec![enqueue(queue)])]);
    rig.ok(OLD, Message::FlowMod(f(7)));
    assert_eq!(rig.refused(OLD, Message::FlowMod(f(8))), ErrorCode::ActionBadQueue);
    assert_eq!(rig.send(2, &frame(3)), [(2, frame(3))]);
}
