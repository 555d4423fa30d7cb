//! What well-behaved controllers see: a switch of their own.

use super::bench::*;
use weir_openflow::channel::Rate;
use weir_openflow::codec;
use weir_openflow::model::*;
use weir_supervisor::slicer::space::{Right, SliceId};
use weir_supervisor::slicer::{ConnId, Loss, Out, PortRef, SpaceRule, Switch};

pub fn packet(v: Version, vid: u16, in_port: u32, cookie: u64) -> Message {
    Message::PacketIn(PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 64,
        reason: PacketInReason::NoMatch,
        table: 0,
        cookie: if v == Version::V10 { u64::MAX } else { cookie },
        matcher: Match::default().with(Field::InPort, in_port.into()),
        data: frame(vid),
    })
}

fn stats(body: StatsRequest) -> Message {
    Message::StatsRequest { more: Part::Last, body }
}

#[test]
fn each_sees_its_own_ports_and_tables() {
    let mut rules = by_vlan(1);
    rules.push(grant(1, vlan(11), &[2, 4]));
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules.clone());
        for (conn, own) in [(1, vec![1, 2, 3]), (2, vec![2, 4])] {
            b.ask(conn, Message::FeaturesRequest);
            let told = b.to(conn);
            let Message::FeaturesReply(f) = &told[0].body else { panic!("{told:?}") };
            assert_eq!((f.datapath_id, f.tables), (0x99, if v == Version::V10 { 1 } else { 8 }));
            let ports = match v {
                Version::V10 => f.ports.clone(),
                Version::V13 => {
                    b.ask(conn, stats(StatsRequest::PortDesc));
                    let told = b.to(conn);
                    let Message::StatsReply { body: StatsReply::PortDesc(p), .. } = &told[0].body
                    else {
                        panic!("{told:?}")
                    };
                    p.clone()
                }
            };
            assert_eq!(ports.iter().map(|p| p.no.0).collect::<Vec<_>>(), own);
            b.ask(conn, stats(StatsRequest::Port(Port::ANY)));
            let xid = b.sent()[0].xid;
            let all = (1..=4).map(|p| PortStats { port: Port(p), ..PortStats::default() });
            let body = StatsReply::Port(all.collect());
            b.says(xid, Message::StatsReply { more: Part::Last, body });
            let told = b.to(conn);
            let Message::StatsReply { body: StatsReply::Port(p), .. } = &told[0].body else {
                panic!("{told:?}")
            };
            assert_eq!(p.iter().map(|p| p.port.0).collect::<Vec<_>>(), own);
        }
        // 1.0 has no word for it but that it is not allowed.
        let code = if v == Version::V10 { ErrorCode::RequestEperm } else { ErrorCode::BadPort };
        assert_eq!(b.refused(1, stats(StatsRequest::Port(Port(4)))), code);
        // A port that goes and comes is told of to those who see it.
        for reason in [PortReason::Delete, PortReason::Add] {
            b.says(0, Message::PortStatus(PortStatus { reason, desc: port(4) }));
            assert!(b.to(1).is_empty());
            let told = b.to(2);
            assert!(matches!(&told[0].body, Message::PortStatus(p) if p.reason == reason));
        }
    }
}

#[test]
fn floods_stay_among_the_slices_ports() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        for port in [Port::FLOOD, Port::ALL] {
            b.ask(1, add(vlan(10), vec![out(port)]));
            let sent = b.flow_mods();
            assert_eq!(sent.len(), 3);
            for (_, m) in sent {
                let wanted: Vec<Action> = (1..=3).map(|p| out(Port(p))).collect();
                assert_eq!(m.instructions, [Instruction::Apply(wanted)]);
            }
        }
        let (in_port, data) = (Port(1), frame(10));
        let actions = vec![out(Port::FLOOD)];
        b.ask(1, Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data }));
        let sent = b.sent();
        let Message::PacketOut(p) = &sent[0].body else { panic!("{sent:?}") };
        assert_eq!(p.actions.len(), 3);
    }
    // NO_FLOOD is a slice's own affair.
    let mut b = Bench::two(Version::V10);
    let own = PortConfig::NO_FLOOD;
    let (mac, advertise) = (port(2).mac, PortFeatures::default());
    b.ask(1, Message::PortMod(PortMod { port: Port(2), mac, config: own, mask: own, advertise }));
    assert!(b.sent().is_empty() && b.to(1).is_empty());
    for (conn, n) in [(1, 2), (2, 3)] {
        b.ask(conn, add(vlan(9 + conn as u16), vec![out(Port::FLOOD)]));
        let sent = b.flow_mods();
        assert_eq!(
            sent[0].1.instructions,
            [Instruction::Apply({
                let all = [1, 2, 3].into_iter().filter(|p| n == 3 || *p != 2);
                all.map(|p| out(Port(p))).collect()
            })]
        );
    }
}

#[test]
fn packets_come_to_whose_they_are() {
    let mut rules = by_vlan(2);
    rules[0].grants.push((SliceId(2), Right::Read));
    let slices = || vec![slice("red"), slice("blue"), slice("watch")];
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::new(v, slices(), rules.clone());
        b.says(0, packet(v, 10, 1, u64::MAX));
        assert_eq!([1, 2, 3].map(|c| b.to(c).len()), [1, 0, 1]);
        b.says(0, packet(v, 11, 1, u64::MAX));
        assert_eq!([1, 2, 3].map(|c| b.to(c).len()), [0, 1, 0]);
        // Nobody's: another VLAN, a port that is no slice's.
        b.says(0, packet(v, 12, 1, u64::MAX));
        b.says(0, packet(v, 10, 4, u64::MAX));
        assert_eq!([1, 2, 3].map(|c| b.to(c).len()), [0, 0, 0]);
        // Who only reads can't write.
        assert_eq!(b.refused(3, add(vlan(10), vec![])), ErrorCode::FlowEperm);
    }
    // The cookie is the one that the slice gave, and only its own.
    let mut b = Bench::new(Version::V13, slices(), rules);
    b.ask(1, Message::FlowMod(FlowMod { cookie: 0xabc, ..flow(vlan(10), vec![]) }));
    let at_switch = b.flow_mods()[0].1.cookie;
    b.says(0, packet(Version::V13, 10, 1, at_switch));
    let cookie = |told: Vec<Msg>| match &told[0].body {
        Message::PacketIn(p) => p.cookie,
        other => panic!("{other:?}"),
    };
    let (red, watch) = (b.to(1), b.to(3));
    assert_eq!((cookie(red), cookie(watch)), (0xabc, u64::MAX));
}

#[test]
fn flows_are_told_as_they_were_asked_for() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        let of = |conn: u64, mac: u128| FlowMod {
            cookie: 40 + mac as u64,
            ..flow(vlan(9 + conn as u16).with(Field::EthDst, mac), vec![out(Port::FLOOD)])
        };
        let mut at_switch = Vec::new();
        for (conn, mac) in [(1, 1), (1, 2), (2, 3)] {
            b.ask(conn, Message::FlowMod(of(conn, mac)));
            at_switch.extend(b.flow_mods());
        }
        let counted = |(i, (_, m)): (usize, &(u32, FlowMod))| FlowStats {
            table: 0,
            duration_sec: i as u32,
            duration_nsec: 0,
            priority: m.priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags(0),
            cookie: m.cookie,
            packets: 1,
            bytes: 100,
            matcher: m.matcher.clone(),
            instructions: m.instructions.clone(),
        };
        let all: Vec<FlowStats> = at_switch.iter().enumerate().map(counted).collect();
        let answer = |b: &mut Bench, conn, body| {
            let xid = b.ask(conn, stats(body));
            let asked = b.sent();
            // In two parts, as a switch may.
            let (first, rest) = all.split_at(4);
            let part = |f: &[FlowStats]| StatsReply::Flow(f.to_vec());
            let more = Part::More;
            b.says(asked[0].xid, Message::StatsReply { more, body: part(first) });
            assert!(b.to(conn).is_empty());
            b.says(asked[0].xid, Message::StatsReply { more: Part::Last, body: part(rest) });
            let told = b.to(conn);
            assert_eq!((told.len(), told[0].xid), (1, xid));
            told[0].body.clone()
        };
        let everything = FlowFilter { table: 0, ..FlowFilter::every_flow() };
        let body = answer(&mut b, 1, StatsRequest::Flow(everything.clone()));
        let Message::StatsReply { body: StatsReply::Flow(f), .. } = body else { panic!() };
        assert_eq!(f.len(), 2);
        for (f, mac) in f.iter().zip([1, 2]) {
            let was = of(1, mac);
            assert_eq!((&f.matcher, &f.instructions), (&was.matcher, &was.instructions));
            assert_eq!((f.cookie, f.packets, f.bytes), (was.cookie, 3, 300));
        }
        let one = FlowFilter { matcher: vlan(10).with(Field::EthDst, 2), ..everything.clone() };
        let body = answer(&mut b, 1, StatsRequest::Aggregate(one));
        let sum = Aggregate { packets: 3, bytes: 300, flows: 1 };
        assert_eq!(
            body,
            Message::StatsReply { more: Part::Last, body: StatsReply::Aggregate(sum) }
        );
        let body = answer(&mut b, 2, StatsRequest::Aggregate(everything));
        let Message::StatsReply { body: StatsReply::Aggregate(a), .. } = body else { panic!() };
        assert_eq!((a.flows, a.packets), (1, 3));
    }
}

#[test]
fn one_rule_of_two_flows_returns_when_the_later_goes() {
    let mut b = Bench::two(Version::V13);
    // Within the flow space both mean the same.
    let wide = flow(Match::default(), vec![out(Port(1))]);
    let narrow = flow(vlan(10), vec![out(Port(2))]);
    b.ask(1, Message::FlowMod(wide));
    let first = b.flow_mods();
    b.ask(1, Message::FlowMod(narrow.clone()));
    let second = b.flow_mods();
    assert_eq!((first.len(), second.len()), (3, 3));
    assert_eq!(first[0].1.matcher, second[0].1.matcher);
    b.ask(1, Message::FlowMod(FlowMod { command: FlowCommand::DeleteStrict, ..narrow }));
    let back = b.flow_mods();
    assert_eq!(back.len(), 3);
    for ((_, m), (_, was)) in back.iter().zip(&first) {
        assert_eq!((m.command, m.cookie), (FlowCommand::Add, was.cookie));
        assert_eq!(m.instructions, [Instruction::Apply(vec![out(Port(1))])]);
    }
}

#[test]
fn roles_are_a_slices_own() {
    let mut b = Bench::two(Version::V13);
    b.switch.connected(ConnId(9), SliceId(0), &mut b.out);
    let role = |role, generation| Message::RoleRequest(RoleMsg { role, generation });
    b.ask(1, role(Role::Master, 5));
    b.ask(2, role(Role::Master, 1));
    b.ask(9, role(Role::Master, 6));
    for conn in [1, 2, 9] {
        assert!(matches!(b.to(conn)[0].body, Message::RoleReply(r) if r.role == Role::Master));
    }
    // The second master of a slice makes the first a slave; the other slice's stays.
    assert_eq!(b.refused(1, add(vlan(10), vec![])), ErrorCode::IsSlave);
    assert_eq!(b.refused(1, role(Role::Master, 5)), ErrorCode::RoleStale);
    b.ask(2, add(vlan(11), vec![]));
    b.ask(9, add(vlan(10), vec![]));
    assert_eq!(b.flow_mods().len(), 6);
    // Packets are for the master alone, ports for both; and when the master goes, another may be it.
    b.says(0, packet(Version::V13, 10, 1, u64::MAX));
    assert_eq!((b.to(1).len(), b.to(9).len()), (0, 1));
    b.says(0, Message::PortStatus(PortStatus { reason: PortReason::Modify, desc: port(1) }));
    assert_eq!((b.to(1).len(), b.to(9).len()), (1, 1));
    b.switch.disconnected(ConnId(9), &mut b.out);
    b.ask(1, role(Role::Master, 7));
    b.says(0, packet(Version::V13, 10, 1, u64::MAX));
    assert_eq!(b.to(1).len(), 2);
}

#[test]
fn what_a_lost_controller_leaves_is_as_configured() {
    for loss in [Loss::Keep, Loss::Delete, Loss::Drop { seconds: 5 }] {
        let mut red = slice("red");
        red.loss = loss;
        let mut b = Bench::new(Version::V13, vec![red, slice("blue")], by_vlan(2));
        b.ask(1, add(vlan(10).with(Field::EthDst, 1), vec![]));
        b.ask(2, add(vlan(11), vec![]));
        b.sent();
        b.switch.disconnected(ConnId(1), &mut b.out);
        let gone = b.flow_mods();
        assert_eq!(gone.len(), if loss == Loss::Delete { 3 } else { 0 });
        b.says(0, packet(Version::V13, 10, 1, u64::MAX));
        let dropped = b.flow_mods();
        if loss != (Loss::Drop { seconds: 5 }) {
            assert!(dropped.is_empty());
            continue;
        }
        let [(_, m)] = dropped.as_slice() else { panic!("{dropped:?}") };
        // Above what has no match alone (1.3's table-miss entry).
        assert_eq!((m.priority, m.hard_timeout, m.instructions.len()), (1, 5, 0));
        assert_eq!(m.matcher.get(Field::VlanVid).unwrap().value, 0x100a);
        assert_eq!(m.matcher.get(Field::InPort).unwrap().value, 1);
        // Whoever comes back is asked again.
        b.switch.connected(ConnId(1), SliceId(0), &mut b.out);
        let taken = b.flow_mods();
        let [(_, d)] = taken.as_slice() else { panic!("{taken:?}") };
        assert_eq!((d.command, d.cookie, d.cookie_mask), (FlowCommand::Delete, m.cookie, u64::MAX));
        assert_eq!(d.table, TABLE_ALL);
        b.switch.connected(ConnId(9), SliceId(0), &mut b.out);
        assert!(b.flow_mods().is_empty());
    }
}

/// What a slice's table-miss entry tells is a miss, though at the switch it is a rule for each port and VLAN.
#[test]
fn what_a_table_miss_entry_tells_is_a_miss() {
    let mut red = slice("red");
    red.loss = Loss::Drop { seconds: 5 };
    let mut b = Bench::new(Version::V13, vec![red, slice("blue")], by_vlan(2));
    b.ask(
        1,
        Message::FlowMod(FlowMod {
            priority: 0,
            ..flow(Match::default(), vec![out(Port::CONTROLLER)])
        }),
    );
    b.ask(1, Message::FlowMod(flow(vlan(10), vec![out(Port::CONTROLLER)])));
    let rules = b.flow_mods();
    b.answer_barriers();
    let told = |b: &mut Bench, m: &FlowMod| {
        let Message::PacketIn(p) = packet(Version::V13, 10, 1, m.cookie) else { panic!() };
        let long = PacketIn { reason: PacketInReason::Action, buffer_id: 7, ..p };
        b.says(0, Message::PacketIn(long));
        b.to(1).into_iter().find_map(|m| match m.body {
            Message::PacketIn(p) => Some(p.reason),
            _ => None,
        })
    };
    let (miss, other) = (&rules[0].1, &rules[3].1);
    assert_eq!((miss.priority, other.priority), (0, 10));
    assert_eq!(told(&mut b, miss), Some(PacketInReason::NoMatch));
    assert_eq!(told(&mut b, other), Some(PacketInReason::Action));
    b.switch.disconnected(ConnId(1), &mut b.out);
    assert_eq!((told(&mut b, other), b.flow_mods().len()), (None, 0));
    assert_eq!((told(&mut b, miss), b.flow_mods().len()), (None, 1));
}

/// A switch may answer the barrier behind a deletion before it tells what the rules have counted, as Open vSwitch does.
#[test]
fn a_deleted_flows_counters_may_come_behind_the_barrier() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        let flags = FlowFlags::SEND_FLOW_REM;
        b.ask(1, Message::FlowMod(FlowMod { flags, cookie: 7, ..flow(vlan(10), vec![]) }));
        let rules = b.flow_mods();
        b.answer_barriers();
        let m = FlowMod { matcher: vlan(10), ..FlowMod::new(FlowCommand::Delete) };
        b.ask(1, Message::FlowMod(m));
        b.answer_barriers();
        assert!(b.to(1).is_empty());
        for (_, m) in &rules {
            b.says(
                0,
                Message::FlowRemoved(FlowRemoved {
                    cookie: m.cookie,
                    priority: m.priority,
                    reason: RemovedReason::Delete,
                    table: 0,
                    duration_sec: 1,
                    duration_nsec: 0,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    packets: 4,
                    bytes: 400,
                    matcher: m.matcher.clone(),
                }),
            );
        }
        let told = b.to(1);
        let [Msg { body: Message::FlowRemoved(r), .. }] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!((r.cookie, r.packets, r.bytes), (7, 12, 1200));
        b.now += std::time::Duration::from_secs(3);
        b.switch.settle(b.now, &mut b.out);
        assert!(b.to(1).is_empty());
    }
}

#[test]
fn drops_say_what_the_version_can_say_of_a_frame_and_nothing_that_is_anothers() {
    let of = |kind: u16, rest: &[u8]| {
        let mut f = frame(10);
        f.truncate(16);
        f.extend(kind.to_be_bytes());
        f.extend(rest);
        f.resize(90, 0);
        f
    };
    let ipv4 = of(0x800, &[0x45, 1, 0, 40, 0, 0, 0, 0, 9, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let ipv6 = of(0x86dd, &[0x60, 0x10, 0, 0, 0, 8, 17, 9]);
    let arp = of(0x806, &[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    for v in [Version::V10, Version::V13] {
        let mut red = slice("red");
        red.loss = Loss::Drop { seconds: 5 };
        // Of IPv6 one field that 1.0 has no word for is blue's.
        let six = vlan(10).with(Field::EthType, 0x86dd);
        let theirs = SpaceRule { priority: 200, ..grant(1, six.with(Field::Ipv6Dst, 1), &[1]) };
        let mut rules = by_vlan(2);
        rules.push(theirs);
        let mut b = Bench::new(v, vec![red, slice("blue")], rules);
        b.switch.disconnected(ConnId(1), &mut b.out);
        for (data, field) in
            [(&ipv4, Field::Ipv4Dst), (&arp, Field::ArpSpa), (&ipv6, Field::EthType)]
        {
            let Message::PacketIn(p) = packet(v, 10, 1, 0) else { panic!() };
            let total_len = 90;
            b.says(0, Message::PacketIn(PacketIn { data: data.clone(), total_len, ..p }));
            let dropped = b.flow_mods();
            if v == Version::V10 && field == Field::EthType {
                assert!(dropped.is_empty(), "{dropped:?}");
                continue;
            }
            let [(_, m)] = dropped.as_slice() else { panic!("{v:?} {field:?}: {dropped:?}") };
            assert!(m.matcher.get(field).is_some(), "{m:?}");
            assert!(v == Version::V13 || m.matcher.get(Field::IpDscp).is_none(), "{m:?}");
        }
    }
}

#[test]
fn an_answer_that_can_not_be_read_is_an_error_to_who_asked() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        let reply = if v == Version::V10 { 17 } else { 19 };
        let misread = |b: &mut Bench, xid: u32, kind| {
            let mut frame = vec![v as u8, kind, 0, 8];
            frame.extend(xid.to_be_bytes());
            let e = codec::decode(v, &frame).unwrap_err();
            b.switch.misread(&e, b.now, &mut b.out);
        };
        // More than may be open at once.
        for _ in 0..2000 {
            assert!(b.switch.takes_from(ConnId(1)));
            let xid = b.ask(1, stats(StatsRequest::Desc));
            let at_switch = b.sent()[0].xid;
            // What comes unasked is no answer to it.
            misread(&mut b, at_switch, 10);
            assert!(b.to(1).is_empty());
            misread(&mut b, at_switch, reply);
            assert_eq!(b.error(1, xid), ErrorCode::RequestEperm);
        }
        misread(&mut b, 0xdead_beef, reply);
        assert!(b.to(1).is_empty() && b.to(2).is_empty());
    }
}

#[test]
fn ports_of_which_a_part_can_not_be_read_are_known_by_the_rest() {
    let (mut sliced, mut out) =
        (Switch::new(Version::V13, vec![slice("red")], by_vlan(1)), Out::default());
    let now = std::time::Duration::ZERO;
    sliced.begin(&mut out);
    for Msg { xid, body } in std::mem::take(&mut out.to_switch) {
        let says = match body {
            Message::FeaturesRequest => Message::FeaturesReply(Features {
                datapath_id: 1,
                buffers: 0,
                tables: 1,
                auxiliary_id: 0,
                capabilities: Capabilities::FLOW_STATS,
                actions: 0,
                ports: Vec::new(),
            }),
            Message::StatsRequest { .. } => {
                let mut frame = vec![4, 19, 0, 8];
                frame.extend(xid.to_be_bytes());
                let e = codec::decode(Version::V13, &frame).unwrap_err();
                sliced.misread(&e, now, &mut out);
                let body = StatsReply::PortDesc(vec![port(1)]);
                Message::StatsReply { more: Part::Last, body }
            }
            _ => continue,
        };
        sliced.from_switch(Msg { xid, body: says }, now, &mut out);
    }
    assert!(sliced.is_ready());
}

#[test]
fn a_controller_that_comes_back_after_many_drops_is_heard() {
    for v in [Version::V10, Version::V13] {
        let mut red = slice("red");
        red.loss = Loss::Drop { seconds: 5 };
        let mut b = Bench::new(v, vec![red, slice("blue")], by_vlan(2));
        b.switch.disconnected(ConnId(1), &mut b.out);
        for _ in 0..2000 {
            b.says(0, packet(v, 10, 1, u64::MAX));
            b.answer_barriers();
        }
        b.switch.connected(ConnId(9), SliceId(0), &mut b.out);
        assert!(b.switch.takes_from(ConnId(9)));
        // As long as the switch says nothing no more is sent than it may hold back.
        b.switch.disconnected(ConnId(9), &mut b.out);
        for _ in 0..2000 {
            b.says(0, packet(v, 10, 1, u64::MAX));
        }
        assert_eq!(b.flow_mods().len(), 1024);
    }
}

#[test]
fn drops_for_nobody_keep_to_the_rate_of_packets() {
    let mut red = slice("red");
    red.loss = Loss::Drop { seconds: 5 };
    red.limits.packet_ins = Some(Rate { per_second: 10, burst: 5 });
    let mut b = Bench::new(Version::V13, vec![red, slice("blue")], by_vlan(2));
    b.switch.disconnected(ConnId(1), &mut b.out);
    for _ in 0..100 {
        b.says(0, packet(Version::V13, 10, 1, u64::MAX));
    }
    assert_eq!(b.flow_mods().len(), 5);
}

#[test]
fn a_packet_that_waits_is_its_slices_alone() {
    let v = Version::V10;
    let mut b = Bench::two(v);
    let Message::PacketIn(p) = packet(v, 10, 1, 0) else { panic!() };
    b.says(0, Message::PacketIn(PacketIn { buffer_id: 0x77, ..p }));
    let told = b.to(1);
    let Message::PacketIn(PacketIn { buffer_id, .. }) = &told[0].body else { panic!("{told:?}") };
    let release = |buffer_id| {
        let (in_port, actions) = (Port(1), vec![out(Port(2))]);
        Message::PacketOut(PacketOut { buffer_id, in_port, actions, data: Vec::new() })
    };
    assert_ne!(*buffer_id, 0x77);
    for wrong in [*buffer_id, 0x77] {
        assert_eq!(b.refused(2, release(wrong)), ErrorCode::BufferUnknown);
    }
    assert_eq!(b.refused(1, release(0x77)), ErrorCode::BufferUnknown);
    // It goes with the rule that it meets, once.
    let m = FlowMod { buffer_id: *buffer_id, ..flow(vlan(10), vec![out(Port(2))]) };
    b.ask(1, Message::FlowMod(m));
    let with: Vec<_> = b.flow_mods().into_iter().filter(|(_, m)| m.buffer_id == 0x77).collect();
    let [(_, m)] = with.as_slice() else { panic!("{with:?}") };
    assert_eq!(m.matcher.get(Field::InPort).unwrap().value, 1);
    assert_eq!(b.refused(1, release(*buffer_id)), ErrorCode::BufferUnknown);
}

#[test]
fn a_packet_that_waits_goes_to_the_tables_where_no_rule_meets_it() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        let of = |command, buffer_id| {
            let other = vlan(10).with(Field::EthDst, 7);
            Message::FlowMod(FlowMod { command, buffer_id, ..flow(other, vec![out(Port(2))]) })
        };
        // The second finds a flow to modify in 1.0 and 1.3, the third none.
        for (i, command) in
            [FlowCommand::Add, FlowCommand::Modify, FlowCommand::Modify].into_iter().enumerate()
        {
            let Message::PacketIn(p) = packet(v, 10, 1, 0) else { panic!() };
            b.says(0, Message::PacketIn(PacketIn { buffer_id: 0x77, ..p }));
            let told = b.to(1);
            let Message::PacketIn(p) = &told[0].body else { panic!("{told:?}") };
            if i == 2 {
                b.ask(1, Message::FlowMod(FlowMod::delete_all(v)));
                b.sent();
            }
            b.ask(1, of(command, p.buffer_id));
            let sent = b.sent();
            let outs: Vec<_> = sent
                .iter()
                .filter_map(|m| match &m.body {
                    Message::PacketOut(p) => Some((p.buffer_id, p.in_port, p.actions.clone())),
                    _ => None,
                })
                .collect();
            let to_tables = vec![out(Port::TABLE)];
            assert_eq!(outs, [(0x77, Port(1), to_tables)], "{v:?} {i}");
            // Nothing is left open by it.
            b.answer_barriers();
        }
    }
}

#[test]
fn a_packet_that_is_its_slices_no_more_is_dropped() {
    let mut b = Bench::two(Version::V13);
    let Message::PacketIn(p) = packet(Version::V13, 10, 1, 0) else { panic!() };
    b.says(0, Message::PacketIn(PacketIn { buffer_id: 0x77, ..p }));
    let told = b.to(1);
    let Message::PacketIn(p) = &told[0].body else { panic!("{told:?}") };
    let rules = vec![grant(0, vlan(10), &[2]), grant(1, vlan(10), &[1])];
    b.switch.replan(&[Some(slice("red")), Some(slice("blue"))], &rules, &mut b.out);
    b.sent();
    let m = FlowMod { buffer_id: p.buffer_id, ..flow(vlan(10), vec![out(Port(2))]) };
    b.ask(1, Message::FlowMod(m));
    let sent = b.sent();
    let dropped = |m: &Msg| matches!(&m.body, Message::PacketOut(p) if p.buffer_id == 0x77 && p.actions.is_empty());
    assert!(sent.iter().any(dropped), "{sent:?}");
}

#[test]
fn named_ports_come_and_go() {
    let mut rules = by_vlan(1);
    rules[0].ports = vec![PortRef::Name("eth9".to_owned()), PortRef::Number(Port(1))];
    let mut b = Bench::new(Version::V13, vec![slice("red")], rules);
    b.ask(1, add(vlan(10), vec![]));
    assert_eq!(b.flow_mods().len(), 1);
    b.says(0, Message::PortStatus(PortStatus { reason: PortReason::Add, desc: port(9) }));
    assert!(matches!(&b.to(1)[0].body, Message::PortStatus(p) if p.reason == PortReason::Add));
    // What is there already holds at the new port, too; its rule at the other is not said again.
    let new = b.flow_mods();
    assert!(new.len() == 1 && new[0].1.matcher.get(Field::InPort).is_some_and(|p| p.value == 9));
    b.ask(1, add(vlan(10), vec![out(Port::FLOOD)]));
    assert_eq!(b.flow_mods().len(), 2);
}

#[test]
fn a_ports_number_under_another_name_is_whose_the_name_is() {
    let named = |slice, name: &str| {
        let ports = vec![PortRef::Name(name.to_owned()), PortRef::Number(Port(2))];
        SpaceRule { ports, ..grant(slice, vlan(10 + slice), &[]) }
    };
    let said = |reason, name: &str| {
        let desc = PortDesc { name: name.to_owned(), ..port(1) };
        Message::PortStatus(PortStatus { reason, desc })
    };
    let ports = |told: Vec<Msg>| {
        let reason = |m: Msg| match m.body {
            Message::PortStatus(p) => Some(p.reason),
            _ => None,
        };
        told.into_iter().filter_map(reason).collect::<Vec<_>>()
    };
    for v in [Version::V10, Version::V13] {
        for renames in [vec![PortReason::Modify], vec![PortReason::Delete, PortReason::Add]] {
            let rules = vec![named(0, "eth1"), named(1, "eth9")];
            let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules);
            let at_1 = |vid| vlan(vid).with(Field::InPort, 1);
            b.ask(1, add(at_1(10), vec![out(Port(2))]));
            b.ask(1, add(vlan(10), vec![out(Port::FLOOD)]));
            b.ask(2, add(vlan(11), vec![out(Port::FLOOD)]));
            assert_eq!(b.flow_mods().len(), 4);
            b.answer_barriers();
            // Up or down, it is whose it was.
            b.says(0, said(PortReason::Modify, "eth1"));
            assert_eq!((ports(b.to(1)), ports(b.to(2))), (vec![PortReason::Modify], vec![]));
            assert!(b.sent().is_empty());
            let mut sent = Vec::new();
            for reason in renames {
                b.says(0, said(reason, "eth9"));
                sent.extend(b.flow_mods().into_iter().map(|(_, m)| m));
            }
            assert_eq!(
                (ports(b.to(1)), ports(b.to(2))),
                (vec![PortReason::Delete], vec![PortReason::Add])
            );
            let (gone, new): (Vec<_>, Vec<_>) =
                sent.into_iter().partition(|m| m.command == FlowCommand::DeleteStrict);
            let of_1 = |m: &&FlowMod| m.matcher.get(Field::InPort).is_some_and(|p| p.value == 1);
            let vid = |m: &FlowMod| m.matcher.get(Field::VlanVid).map(|f| f.value);
            // What was red's there goes, and what is blue's comes.
            assert_eq!(gone.iter().filter(of_1).map(vid).collect::<Vec<_>>(), [Some(0x100a)]);
            assert_eq!(new.iter().filter(of_1).map(vid).collect::<Vec<_>>(), [Some(0x100b)]);
            // Nor does red send there any more.
            let last = new.iter().rev().find(|m| vid(m) == Some(0x100a)).unwrap();
            assert_eq!(last.instructions, [Instruction::Apply(vec![out(Port(2))])]);
            assert_eq!(b.refused(1, add(at_1(10), vec![])), ErrorCode::FlowEperm);
            b.ask(2, add(at_1(11), vec![]));
            assert_eq!(b.flow_mods().len(), 1);
        }
    }
}

#[test]
fn parts_of_which_nothing_is_the_slices_are_not_sent() {
    let mut b = Bench::two(Version::V13);
    let xid = b.ask(1, stats(StatsRequest::TableFeatures(Vec::new())));
    let asked = b.sent()[0].xid;
    let of = |table| TableFeatures { table, max_entries: 1_000_000, ..TableFeatures::default() };
    for table in 0..20 {
        let more = if table < 19 { Part::More } else { Part::Last };
        let body = StatsReply::TableFeatures(vec![of(table)]);
        b.says(asked, Message::StatsReply { more, body });
    }
    let told = b.to(1);
    assert_eq!(told.len(), 8);
    for (table, m) in (0..).zip(&told) {
        let Message::StatsReply { more, body: StatsReply::TableFeatures(t) } = &m.body else {
            panic!("{m:?}")
        };
        assert_eq!((m.xid, t.len(), t[0].table, t[0].max_entries), (xid, 1, table, 4096));
        assert_eq!(*more, if table < 7 { Part::More } else { Part::Last });
    }
}

#[test]
fn ranges_are_said_value_by_value_where_there_is_no_mask() {
    for v in [Version::V10, Version::V13] {
        // VLANs 20 and 21, and what has no tag.
        let vlans = Match::default().with_masked(Field::VlanVid, 0x1014, 0x1ffe);
        let untagged = Match::default().with(Field::VlanVid, 0);
        let mut rules = vec![grant(0, vlans, &[1]), grant(0, untagged.clone(), &[1])];
        let mut b = Bench::new(v, vec![slice("red")], rules.clone());
        b.ask(1, add(Match::default(), vec![out(Port::CONTROLLER)]));
        let mut got: Vec<Match> = b.flow_mods().into_iter().map(|(_, m)| m.matcher).collect();
        let at = |m: Match| m.with(Field::InPort, 1);
        let mut all = match v {
            Version::V10 => vec![at(untagged), at(vlan(20)), at(vlan(21))],
            Version::V13 => vec![at(untagged), at(rules[0].matchers[0].clone())],
        };
        for all in [&mut got, &mut all] {
            all.sort_by_key(|m| format!("{m:?}"));
        }
        assert_eq!(got, all);
        // Within the limit for one flow.
        rules[0].matchers = vec![Match::default().with_masked(Field::VlanVid, 0x1000, 0x1f80)];
        let mut b = Bench::new(v, vec![slice("red")], rules);
        let any = add(Match::default(), vec![out(Port::CONTROLLER)]);
        match v {
            Version::V10 => assert_eq!(b.refused(1, any), ErrorCode::FlowEperm),
            Version::V13 => {
                b.ask(1, any);
                assert_eq!(b.flow_mods().len(), 2);
            }
        }
    }
}
