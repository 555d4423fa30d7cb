//! The known holes of FlowVisor, and some more: each an attack that must fail.

use super::bench::*;
use std::time::Duration;
use weir_openflow::channel::Rate;
use weir_openflow::model::*;
use weir_supervisor::slicer::ConnId;
use weir_supervisor::slicer::cube;
use weir_supervisor::slicer::space::{Right, SliceId};

const BOTH: [Version; 2] = [Version::V10, Version::V13];

#[test]
fn nothing_of_a_vendors_passes() {
    for v in BOTH {
        let mut b = Bench::two(v);
        let data = vec![0; 16];
        let kind = 0;
        // In 1.0 the channel itself refuses it: only what is understood comes further.
        if v == Version::V13 {
            let e = b.refused(1, Message::Experimenter { experimenter: 0x1234, kind, data });
            assert_eq!(e, ErrorCode::BadExperimenter);
        }
        let action = Action::Experimenter { experimenter: 0x2320, data: vec![0; 8] };
        assert_eq!(
            b.refused(1, add(vlan(10), vec![action.clone()])),
            ErrorCode::ActionBadExperimenter
        );
        let p = PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port(1),
            actions: vec![action],
            data: frame(10),
        };
        assert_eq!(b.refused(1, Message::PacketOut(p)), ErrorCode::ActionBadExperimenter);
        if v == Version::V13 {
            let body = StatsRequest::Experimenter { experimenter: 0x2320, kind, data: vec![0; 8] };
            let e = b.refused(1, Message::StatsRequest { more: Part::Last, body });
            assert_eq!(e, ErrorCode::BadExperimenter);
        }
    }
}

#[test]
fn no_quota_is_evaded_by_deleting_nothing_or_by_modify() {
    for v in BOTH {
        let mut red = slice("red");
        red.limits.rules = 6;
        let mut b = Bench::new(v, vec![red, slice("blue")], by_vlan(2));
        // Each takes three rules: one for each port.
        let of = |mac: u128| vlan(10).with(Field::EthDst, mac);
        for mac in [1, 2] {
            b.ask(1, add(of(mac), vec![]));
        }
        b.sent();
        assert_eq!(b.refused(1, add(of(3), vec![])), ErrorCode::FlowTableFull);
        // A delete that deletes nothing frees nothing.
        for _ in 0..100 {
            let none = FlowMod { matcher: of(9), ..FlowMod::new(FlowCommand::Delete) };
            b.ask(1, Message::FlowMod(none));
        }
        assert!(b.sent().is_empty());
        assert_eq!(b.refused(1, add(of(3), vec![])), ErrorCode::FlowTableFull);
        // In 1.0 a MODIFY of nothing adds, and pays; in 1.3 it does nothing.
        for command in [FlowCommand::Modify, FlowCommand::ModifyStrict] {
            let m = FlowMod { command, ..flow(of(3), vec![]) };
            match v {
                Version::V10 => {
                    assert_eq!(b.refused(1, Message::FlowMod(m)), ErrorCode::FlowTableFull);
                }
                Version::V13 => {
                    b.ask(1, Message::FlowMod(m));
                    assert!(b.sent().is_empty() && b.to(1).is_empty());
                }
            }
        }
        // The same again takes no more; one less makes room for one.
        b.ask(1, add(of(2), vec![out(Port(1))]));
        assert_eq!(b.flow_mods().len(), 3);
        let one = FlowMod { command: FlowCommand::DeleteStrict, ..flow(of(1), vec![]) };
        b.ask(1, Message::FlowMod(one));
        assert_eq!(b.flow_mods().len(), 3);
        b.ask(1, add(of(3), vec![]));
        assert_eq!(b.flow_mods().len(), 3);
        // And the other slice has all of its own.
        b.ask(2, add(vlan(11), vec![]));
        assert_eq!(b.flow_mods().len(), 3);
    }
}

#[test]
fn what_the_switch_refuses_in_part_is_taken_back_whole() {
    for v in BOTH {
        let mut b = Bench::two(v);
        let xid = b.ask(1, add(vlan(10), vec![out(Port(2))]));
        let sent = b.flow_mods();
        assert_eq!(sent.len(), 3);
        // A barrier behind it waits until it is taken back.
        let barrier = b.ask(1, Message::BarrierRequest);
        let at_switch = b.sent()[0].xid;
        let e = ErrorMsg { code: ErrorCode::FlowTableFull, data: vec![0; 64] };
        b.says(sent[1].0, Message::Error(e.clone()));
        assert_eq!(b.error(1, xid), ErrorCode::FlowTableFull);
        let back = b.flow_mods();
        assert_eq!(back.len(), 3);
        for (m, was) in back.iter().zip(&sent) {
            assert_eq!(m.1.command, FlowCommand::DeleteStrict);
            assert_eq!((&m.1.matcher, m.1.priority), (&was.1.matcher, was.1.priority));
        }
        // A second part that fails is no second error.
        b.says(sent[2].0, Message::Error(e));
        assert!(b.to(1).is_empty() && b.sent().is_empty());
        b.says(at_switch, Message::BarrierReply);
        assert!(b.to(1).is_empty());
        b.answer_barriers();
        assert_eq!(b.to(1), [Msg { xid: barrier, body: Message::BarrierReply }]);
        // The slice has nothing, and is charged nothing.
        assert_eq!(b.switch.counters(weir_supervisor::slicer::space::SliceId(0)).unwrap().2, 0);
    }
}

#[test]
fn a_barrier_waits_for_what_is_taken_back() {
    let mut b = Bench::two(Version::V13);
    b.ask(1, add(vlan(10), vec![]));
    let sent = b.flow_mods();
    let barrier = b.ask(1, Message::BarrierRequest);
    let first = b.sent();
    let e = ErrorMsg { code: ErrorCode::FlowTableFull, data: vec![0; 64] };
    b.says(sent[0].0, Message::Error(e));
    b.to(1);
    b.sent();
    b.says(first[0].xid, Message::BarrierReply);
    // Not yet: another goes to the switch, behind the deletes.
    assert!(b.to(1).is_empty());
    let second = b.sent();
    assert_eq!(second[0].body, Message::BarrierRequest);
    b.says(second[0].xid, Message::BarrierReply);
    assert_eq!(b.to(1), [Msg { xid: barrier, body: Message::BarrierReply }]);
}

#[test]
fn a_modify_that_fails_leaves_what_was() {
    for v in BOTH {
        let mut b = Bench::two(v);
        b.ask(1, add(vlan(10), vec![out(Port(1))]));
        b.answer_barriers();
        b.sent();
        let m = FlowMod { command: FlowCommand::Modify, ..flow(vlan(10), vec![out(Port(2))]) };
        b.ask(1, Message::FlowMod(m));
        let sent = b.flow_mods();
        assert_eq!(sent.len(), 3);
        let e = ErrorMsg { code: ErrorCode::ActionTooMany, data: vec![0; 64] };
        b.says(sent[2].0, Message::Error(e));
        let back = b.flow_mods();
        assert_eq!(back.len(), 3);
        for (_, m) in back {
            assert_eq!(m.command, FlowCommand::ModifyStrict);
            assert_eq!(m.instructions, [Instruction::Apply(vec![out(Port(1))])]);
        }
    }
}

#[test]
fn nobody_evicts_anothers_xids_or_cookies() {
    let mut b = Bench::two(Version::V13);
    let ask = Message::StatsRequest { more: Part::Last, body: StatsRequest::Desc };
    let waits = b.ask(2, ask.clone());
    let theirs = b.sent()[0].xid;
    let mut mine = Vec::new();
    // The flood ends where the slice has to wait, long before numbers run out.
    while b.switch.takes_from(weir_supervisor::slicer::ConnId(1)) {
        b.ask(1, ask.clone());
        mine.extend(b.sent().iter().map(|m| m.xid));
    }
    assert!(mine.len() <= 1024 && !mine.contains(&theirs));
    assert!(b.switch.takes_from(weir_supervisor::slicer::ConnId(2)));
    let desc = SwitchDesc { hardware: "h".to_owned(), ..SwitchDesc::default() };
    let reply = Message::StatsReply { more: Part::Last, body: StatsReply::Desc(desc) };
    b.says(theirs, reply.clone());
    assert!(b.to(1).is_empty());
    let told = b.to(2);
    assert_eq!((told.len(), told[0].xid), (1, waits));
    // Nor is an answer taken twice, or one to what nobody asked.
    b.says(theirs, reply.clone());
    b.says(0xdead_beef, reply);
    assert!(b.to(2).is_empty());
    // Both use the same cookie, and a third that looks like the slicer's own: flows are told apart.
    let mut b = Bench::two(Version::V13);
    for (conn, vid) in [(1, 10), (2, 11)] {
        for cookie in [7, 2 << 48 | 1] {
            let m =
                FlowMod { cookie, ..flow(vlan(vid).with(Field::EthDst, cookie.into()), vec![]) };
            b.ask(conn, Message::FlowMod(m));
        }
    }
    let mut cookies: Vec<u64> = b.flow_mods().iter().map(|(_, m)| m.cookie).collect();
    cookies.dedup();
    assert_eq!(cookies.len(), 4);
    let delete = FlowMod { cookie: 7, cookie_mask: u64::MAX, ..FlowMod::new(FlowCommand::Delete) };
    b.ask(2, Message::FlowMod(delete));
    let gone = b.flow_mods();
    assert_eq!(gone.len(), 3);
    assert!(gone.iter().all(|(_, m)| cube::is_within(&m.matcher, &vlan(11))));
}

#[test]
fn nobody_has_many_whole_tables_on_their_way() {
    for v in BOTH {
        let mut b = Bench::two(v);
        let (red, blue) = (ConnId(1), ConnId(2));
        let body = StatsRequest::Flow(FlowFilter { table: 0, ..FlowFilter::every_flow() });
        let ask = Message::StatsRequest { more: Part::Last, body };
        let mut asked = 0;
        while b.switch.takes_from(red) {
            b.ask(1, ask.clone());
            asked += 1;
        }
        assert_eq!(asked, 8);
        assert!(b.switch.takes_from(blue));
        let waits = b.sent();
        let reply = StatsReply::Flow(Vec::new());
        b.says(waits[0].xid, Message::StatsReply { more: Part::More, body: reply.clone() });
        assert!(!b.switch.takes_from(red));
        b.says(waits[0].xid, Message::StatsReply { more: Part::Last, body: reply });
        assert!(b.switch.takes_from(red));
        // An answer that is an error is one, too.
        b.ask(1, ask);
        assert!(!b.switch.takes_from(red));
        let e = ErrorMsg { code: ErrorCode::BadMultipart, data: vec![0; 64] };
        b.says(waits[1].xid, Message::Error(e));
        assert!(b.switch.takes_from(red));
    }
}

#[test]
fn priorities_are_the_slices_own_order() {
    for v in BOTH {
        // The other slice's rule of the flow space decides before red's.
        let mut rules = by_vlan(1);
        let mut web = grant(1, vlan(10).with(Field::VlanPcp, 5), &[1, 2, 3]);
        web.priority = 200;
        rules.push(web);
        let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules);
        let of = |priority, m, actions| Message::FlowMod(FlowMod { priority, ..flow(m, actions) });
        b.ask(1, of(1, vlan(10), vec![]));
        b.ask(1, of(65535, vlan(10).with(Field::EthDst, 5), vec![]));
        b.ask(1, of(300, Match::default(), vec![]));
        let mine = b.flow_mods();
        b.ask(2, of(2, Match::default(), vec![]));
        let theirs = b.flow_mods();
        assert!(!mine.is_empty() && !theirs.is_empty());
        for (_, a) in &mine {
            assert!([1, 300, 65535].contains(&a.priority));
            for (_, b) in &theirs {
                assert_eq!(b.priority, 2);
                // Whatever their priorities: nothing of one is anything of the other.
                assert!(!cube::overlaps(&a.matcher, &b.matcher), "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn a_burst_is_no_larger_than_its_limit() {
    let mut red = slice("red");
    red.limits.packet_ins = Some(Rate { per_second: 10, burst: 5 });
    let mut b = Bench::new(Version::V13, vec![red, slice("blue")], by_vlan(2));
    let packet = |vid| {
        Message::PacketIn(PacketIn {
            buffer_id: NO_BUFFER,
            total_len: 64,
            reason: PacketInReason::NoMatch,
            table: 0,
            cookie: u64::MAX,
            matcher: Match::default().with(Field::InPort, 1),
            data: frame(vid),
        })
    };
    for pause in [0, 1, 10, 100_000] {
        b.now += Duration::from_secs(pause);
        for _ in 0..100 {
            b.says(0, packet(10));
            b.says(0, packet(11));
        }
        assert_eq!(b.to(1).len(), 5, "after {pause} s");
        assert_eq!(b.to(2).len(), 100);
        b.now += Duration::from_millis(500);
    }
}

#[test]
fn no_rewrite_leaves_the_flow_space() {
    let mut b = Bench::two(Version::V10);
    let refused = |b: &mut Bench, actions: Vec<Action>, code| {
        assert_eq!(b.refused(1, add(vlan(10), actions.clone())), code, "{actions:?}");
        let (in_port, data) = (Port(1), frame(10));
        let p = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data };
        assert_eq!(b.refused(1, Message::PacketOut(p)), code);
    };
    let eperm = ErrorCode::ActionEperm;
    refused(&mut b, vec![Action::SetVlanVid(11), out(Port(2))], eperm);
    refused(&mut b, vec![Action::PopVlan, out(Port(2))], eperm);
    refused(&mut b, vec![Action::SetVlanVid(11), out(Port::CONTROLLER)], eperm);
    refused(&mut b, vec![out(Port(2)), Action::SetVlanVid(11), out(Port(3))], eperm);
    refused(&mut b, vec![Action::SetVlanVid(11), out(Port::IN_PORT)], eperm);
    // Nor does a port that is not the slice's take anything, nor the switch's own stack, or no OpenFlow at all.
    for p in [Port(4), Port::NORMAL, Port::LOCAL, Port(77)] {
        refused(&mut b, vec![out(p)], ErrorCode::ActionBadOutPort);
    }
    refused(&mut b, vec![Action::Enqueue { port: Port(1), queue: 9 }], ErrorCode::ActionBadQueue);
    // What comes back into the space, or never leaves it, passes.
    for actions in [
        vec![Action::SetVlanVid(11), Action::SetVlanVid(10), out(Port(2))],
        vec![Action::SetField(Field::EthDst, 5), out(Port(2))],
        vec![Action::SetVlanVid(11)],
        vec![Action::Enqueue { port: Port(1), queue: 1 }],
    ] {
        b.ask(1, add(vlan(10), actions));
        assert_eq!(b.flow_mods().len(), 3);
    }

    let mut b = Bench::two(Version::V13);
    let set = |vid: u16| Action::SetField(Field::VlanVid, u128::from(0x1000 | vid));
    let instructions = |i: Vec<Instruction>| {
        Message::FlowMod(FlowMod { instructions: i, ..flow(vlan(10), vec![]) })
    };
    use Instruction::{Apply, GotoTable, Write};
    let cases = [
        (vec![Apply(vec![set(11), out(Port(2))])], eperm),
        (vec![Apply(vec![Action::PushVlan(0x8100), set(11), out(Port(2))])], eperm),
        (vec![Apply(vec![Action::PopVlan, out(Port(2))])], eperm),
        (vec![Write(vec![out(Port(2)), set(11)])], eperm),
        // A later table's rules are other slices', too.
        (vec![Apply(vec![set(11)]), GotoTable(1)], ErrorCode::InstEperm),
        // What an action set becomes on the way is not known here.
        (vec![Write(vec![set(11)]), GotoTable(1)], eperm),
        (vec![GotoTable(8)], ErrorCode::InstBadTableId),
    ];
    for (i, code) in cases {
        assert_eq!(b.refused(1, instructions(i.clone())), code, "{i:?}");
    }
    for i in [vec![Write(vec![set(11), out(Port(4))])], vec![Write(vec![out(Port(4))])]] {
        assert_eq!(b.refused(1, instructions(i)), ErrorCode::ActionBadOutPort);
    }
    for i in [
        vec![Apply(vec![set(11), set(10), out(Port(2))])],
        vec![Write(vec![out(Port(2))]), GotoTable(1)],
        vec![Apply(vec![Action::SetField(Field::EthSrc, 9)]), GotoTable(1)],
    ] {
        b.ask(1, instructions(i));
        assert_eq!(b.flow_mods().len(), 3);
    }
    // A group is judged for whatever comes to it.
    let bucket =
        |actions| Bucket { weight: 0, watch_port: Port::ANY, watch_group: GROUP_ANY, actions };
    let group = |id, actions| {
        let (command, kind) = (GroupCommand::Add, GroupKind::Indirect);
        Message::GroupMod(GroupMod { command, kind, id, buckets: vec![bucket(actions)] })
    };
    assert_eq!(b.refused(1, group(1, vec![set(11), out(Port(2))])), eperm);
    assert_eq!(b.refused(1, group(1, vec![out(Port(4))])), ErrorCode::ActionBadOutPort);
    assert_eq!(b.refused(1, group(1, vec![Action::Group(7)])), ErrorCode::ActionBadOutGroup);
    b.ask(1, group(1, vec![out(Port(2))]));
    assert_eq!(b.sent().len(), 1);
    // Frames come there as the slice's alone; and another slice's group is none.
    let to_group = |vid| vec![set(vid), Action::Group(1)];
    assert_eq!(b.refused(1, instructions(vec![Apply(to_group(11))])), eperm);
    assert_eq!(b.refused(2, add(vlan(11), vec![Action::Group(1)])), ErrorCode::ActionBadOutGroup);
}

#[test]
fn a_pushed_tag_is_nobodys_until_its_vlan_is_set() {
    let mut b = Bench::two(Version::V13);
    let (push, to) = (Action::PushVlan(0x8100), out(Port(2)));
    let set = |vid: u16| Action::SetField(Field::VlanVid, u128::from(0x1000 | vid));
    // The old tag's VLAN by the specification, VLAN 0 by Open vSwitch.
    let bare = vec![push.clone(), to.clone()];
    let priority = vec![push.clone(), Action::SetField(Field::VlanPcp, 5), to.clone()];
    for actions in [bare, priority] {
        assert_eq!(b.refused(1, add(vlan(10), actions.clone())), ErrorCode::ActionEperm);
        let (in_port, data) = (Port(1), frame(10));
        let p = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data };
        assert_eq!(b.refused(1, Message::PacketOut(p)), ErrorCode::ActionEperm);
    }
    b.ask(1, add(vlan(10), vec![push, set(10), to]));
    assert_eq!(b.flow_mods().len(), 3);
}

#[test]
fn flow_removed_goes_to_its_slice_once() {
    for v in BOTH {
        let mut b = Bench::two(v);
        let flags = FlowFlags::SEND_FLOW_REM;
        for (conn, vid) in [(1, 10), (2, 11)] {
            let m = FlowMod { flags, cookie: 7, idle_timeout: 5, ..flow(vlan(vid), vec![]) };
            b.ask(conn, Message::FlowMod(m));
        }
        let sent = b.flow_mods();
        let removed = |m: &FlowMod, reason| {
            Message::FlowRemoved(FlowRemoved {
                cookie: m.cookie,
                priority: m.priority,
                reason,
                table: 0,
                duration_sec: 9,
                duration_nsec: 0,
                idle_timeout: 5,
                hard_timeout: 0,
                packets: 3,
                bytes: 300,
                matcher: m.matcher.clone(),
            })
        };
        // Red's three rules go one after the other; it hears of its flow, once, with all of them added up.
        for (i, (_, m)) in sent.iter().take(3).enumerate() {
            assert!(b.to(1).is_empty(), "{i}");
            b.says(0, removed(m, RemovedReason::IdleTimeout));
        }
        let told = b.to(1);
        assert!(b.to(2).is_empty());
        let [Msg { body: Message::FlowRemoved(r), .. }] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!((r.cookie, r.packets, r.bytes, &r.matcher), (7, 9, 900, &vlan(10)));
        // Said again, or of nobody's: nothing.
        for (_, m) in sent.iter().take(3) {
            b.says(0, removed(m, RemovedReason::IdleTimeout));
        }
        let stranger = FlowMod { cookie: 0x1234, ..sent[0].1.clone() };
        b.says(0, removed(&stranger, RemovedReason::Delete));
        let forged = FlowMod { cookie: 99 << 48 | 1, ..sent[0].1.clone() };
        b.says(0, removed(&forged, RemovedReason::Delete));
        assert!(b.to(1).is_empty() && b.to(2).is_empty());
        // Blue deletes: told once its rules are gone and have said what they have counted, or once there was time for that.
        let m = FlowMod { matcher: vlan(11), ..FlowMod::new(FlowCommand::Delete) };
        b.ask(2, Message::FlowMod(m));
        b.switch.settle(b.now, &mut b.out);
        let deletes = b.sent();
        b.says(0, removed(&sent[3].1, RemovedReason::Delete));
        b.says(0, removed(&sent[4].1, RemovedReason::Delete));
        assert!(b.to(2).is_empty());
        b.says(deletes.last().unwrap().xid, Message::BarrierReply);
        assert!(b.to(2).is_empty());
        b.now += std::time::Duration::from_secs(2);
        assert_eq!(b.switch.wake_at(), Some(b.now));
        b.switch.settle(b.now, &mut b.out);
        assert_eq!(b.switch.wake_at(), None);
        let told = b.to(2);
        assert_eq!(told.len(), 1, "{told:?}");
        b.says(0, removed(&sent[5].1, RemovedReason::Delete));
        assert!(b.to(1).is_empty() && b.to(2).is_empty());
    }
}

#[test]
fn what_is_everybodys_is_nobodys_to_change() {
    let mut b = Bench::two(Version::V13);
    let mac = port(1).mac;
    let down = PortMod {
        port: Port(1),
        mac,
        config: PortConfig::DOWN,
        mask: PortConfig::DOWN,
        advertise: PortFeatures::default(),
    };
    assert_eq!(b.refused(1, Message::PortMod(down.clone())), ErrorCode::PortEperm);
    let other = PortMod { port: Port(4), mac: port(4).mac, ..down };
    assert_eq!(b.refused(1, Message::PortMod(other)), ErrorCode::PortBadPort);
    assert_eq!(b.refused(1, Message::TableMod { table: 0, config: 3 }), ErrorCode::TableEperm);
    // Another slice's headers, and none in particular of one's own.
    assert_eq!(b.refused(1, add(vlan(11), vec![])), ErrorCode::FlowEperm);
    let p = |vid, in_port| {
        let (actions, data) = (vec![out(Port(2))], frame(vid));
        Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data })
    };
    assert_eq!(b.refused(1, p(11, Port(1))), ErrorCode::ActionEperm);
    assert_eq!(b.refused(1, p(11, Port::CONTROLLER)), ErrorCode::ActionEperm);
    assert_eq!(b.refused(1, p(10, Port(4))), ErrorCode::BadPort);
    let drops = SwitchConfig { fragments: Fragments::Drop, miss_send_len: 1 };
    assert_eq!(b.refused(1, Message::SetConfig(drops)), ErrorCode::ConfigEperm);
    // 1.0 has no error for it: what it has is in the answer to GET_CONFIG.
    let mut b = Bench::two(Version::V10);
    b.ask(1, Message::SetConfig(drops));
    assert!(b.sent().is_empty() && b.to(1).is_empty());
    let xid = b.ask(1, Message::GetConfigRequest);
    let has = Message::GetConfigReply(SwitchConfig { fragments: Fragments::Normal, ..drops });
    assert_eq!(b.to(1), [Msg { xid, body: has }]);
}

#[test]
fn who_only_reads_takes_no_packet_that_waits() {
    for v in BOTH {
        let mut rules = by_vlan(1);
        rules[0].grants.push((SliceId(1), Right::Read));
        let mut b = Bench::new(v, vec![slice("red"), slice("watch")], rules);
        b.says(
            0,
            Message::PacketIn(PacketIn {
                buffer_id: 0x77,
                total_len: 64,
                reason: PacketInReason::NoMatch,
                table: 0,
                cookie: u64::MAX,
                matcher: Match::default().with(Field::InPort, 1),
                data: frame(10),
            }),
        );
        let told = |b: &mut Bench, conn| match b.to(conn).remove(0).body {
            Message::PacketIn(p) => (p.buffer_id, p.data),
            other => panic!("{other:?}"),
        };
        assert_ne!(told(&mut b, 1).0, NO_BUFFER);
        assert_eq!(told(&mut b, 2), (NO_BUFFER, frame(10)));
    }
}
