//! Other slices and another flow space while controllers and flows are there.

use super::bench::*;
use super::ordinary::packet;
use weir_openflow::model::*;
use weir_supervisor::slicer::space::SliceId;
use weir_supervisor::slicer::{ConnId, SlicePlan};

fn plans(of: &[&str]) -> Vec<Option<SlicePlan>> {
    of.iter().map(|n| (!n.is_empty()).then(|| slice(n))).collect()
}

fn any(actions: Vec<Action>) -> Message {
    add(Match::default(), actions)
}

fn told() -> Vec<Action> {
    vec![out(Port::CONTROLLER)]
}

/// What was sent: deletions, then a barrier, then what comes; matches alone.
fn parts(b: &mut Bench) -> (Vec<Match>, Vec<Match>) {
    let (mut gone, mut new, mut fenced) = (Vec::new(), Vec::new(), 0);
    for m in b.sent() {
        match m.body {
            Message::FlowMod(f) if f.command == FlowCommand::DeleteStrict => {
                assert_eq!(fenced, 0, "deleted behind the barrier: {f:?}");
                gone.push(f.matcher);
            }
            Message::FlowMod(f) => {
                assert_eq!((fenced, f.command), (1, FlowCommand::Add), "{f:?}");
                new.push(f.matcher);
            }
            Message::BarrierRequest => {
                fenced += 1;
                b.says(m.xid, Message::BarrierReply);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fenced, 1);
    (gone, new)
}

fn at(vid: u16, port: u32) -> Match {
    vlan(vid).with(Field::InPort, port.into())
}

/// The same, in whatever order.
fn same(a: Vec<Match>, b: Vec<Match>) {
    let parts = |m: &Match| {
        let mut p: Vec<String> = m.0.iter().map(|f| format!("{f:?}")).collect();
        p.sort();
        p
    };
    let sorted = |all: Vec<Match>| {
        let mut t: Vec<_> = all.iter().map(parts).collect();
        t.sort();
        t
    };
    assert_eq!(sorted(a), sorted(b));
}

#[test]
fn what_one_loses_another_has_only_afterwards() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, any(told()));
        b.ask(2, any(told()));
        assert_eq!(b.flow_mods().len(), 6);
        b.answer_barriers();
        // Ports 2 and 3 of VLAN 10 become blue's.
        let rules = vec![
            grant(0, vlan(10), &[1]),
            grant(1, vlan(11), &[1, 2, 3]),
            grant(1, vlan(10), &[2, 3]),
        ];
        b.switch.replan(&plans(&["red", "blue"]), &rules, &mut b.out);
        let (gone, new) = parts(&mut b);
        same(gone, vec![at(10, 2), at(10, 3)]);
        // What stays is not said again.
        same(new, vec![at(10, 2), at(10, 3)]);
        // Red is told that two of its ports are gone.
        let ports = b.to(1).into_iter().filter_map(|m| match m.body {
            Message::PortStatus(p) => Some((p.reason, p.desc.no.0)),
            _ => None,
        });
        assert_eq!(ports.collect::<Vec<_>>(), [(PortReason::Delete, 2), (PortReason::Delete, 3)]);
        assert!(b.to(2).is_empty());
        // From now on it is judged so.
        let there = add(at(10, 2), told());
        assert_eq!(b.refused(1, there.clone()), ErrorCode::FlowEperm);
        b.ask(2, there);
        assert_eq!(b.flow_mods().len(), 1);
    }
}

#[test]
fn what_does_not_differ_is_not_touched() {
    let mut b = Bench::two(Version::V13);
    b.ask(1, any(vec![out(Port::FLOOD)]));
    b.ask(2, add(vlan(11), vec![out(Port(2))]));
    b.sent();
    b.answer_barriers();
    b.switch.replan(&plans(&["red", "blue"]), &by_vlan(2), &mut b.out);
    let (gone, new) = parts(&mut b);
    assert!(gone.is_empty() && new.is_empty(), "{gone:?} {new:?}");
    assert!(b.to(1).is_empty() && b.to(2).is_empty() && b.out.told.is_empty());
}

#[test]
fn a_slice_that_is_no_more_leaves_nothing_and_a_new_one_has_its_own() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, any(told()));
        b.ask(2, any(told()));
        b.sent();
        b.answer_barriers();
        b.switch.disconnected(ConnId(1), &mut b.out);
        let mut rules = by_vlan(3);
        rules.remove(0);
        b.switch.replan(&plans(&["", "blue", "green"]), &rules, &mut b.out);
        let (gone, new) = parts(&mut b);
        same(gone, vec![at(10, 1), at(10, 2), at(10, 3)]);
        assert!(new.is_empty(), "{new:?}");
        assert_eq!(
            b.switch.counters(SliceId(0)).map(|(_, flows, rules)| (flows, rules)),
            Some((0, 0))
        );
        b.switch.connected(ConnId(3), SliceId(2), &mut b.out);
        b.ask(3, any(told()));
        assert_eq!(b.flow_mods().len(), 3);
        assert_eq!(b.refused(2, add(vlan(12), told())), ErrorCode::FlowEperm);
    }
}

#[test]
fn a_flow_that_sends_where_its_slice_may_no_more_is_gone_and_its_slice_is_told() {
    let mut b = Bench::two(Version::V13);
    let flags = FlowFlags::SEND_FLOW_REM;
    let f = FlowMod { flags, cookie: 7, ..flow(at(10, 1), vec![out(Port(3))]) };
    b.ask(1, Message::FlowMod(f));
    let rule = b.flow_mods().remove(0).1;
    b.answer_barriers();
    let rules = vec![grant(0, vlan(10), &[1, 2]), grant(1, vlan(11), &[1, 2, 3])];
    b.switch.replan(&plans(&["red", "blue"]), &rules, &mut b.out);
    let (gone, new) = parts(&mut b);
    same(gone, vec![at(10, 1)]);
    assert!(new.is_empty());
    b.now += std::time::Duration::from_secs(2);
    b.switch.settle(b.now, &mut b.out);
    let told = b.to(1);
    let removed = told.iter().find_map(|m| match &m.body {
        Message::FlowRemoved(r) => Some((r.cookie, r.reason)),
        _ => None,
    });
    assert_eq!(removed, Some((7, RemovedReason::Delete)), "{told:?} {rule:?}");
}

#[test]
fn a_change_that_fails_afterwards_brings_nothing_back_that_is_not_its_slices_any_more() {
    let mut b = Bench::two(Version::V13);
    b.ask(1, add(at(10, 2), told()));
    b.sent();
    b.answer_barriers();
    // In its place another; before the switch has said anything, the port is blue's.
    b.ask(1, add(at(10, 2), vec![]));
    let (xid, _) = b.flow_mods().remove(0);
    let rules = vec![grant(0, vlan(10), &[1]), grant(1, vlan(11), &[1]), grant(1, vlan(10), &[2])];
    b.switch.replan(&plans(&["red", "blue"]), &rules, &mut b.out);
    b.sent();
    let e = ErrorMsg { code: ErrorCode::FlowTableFull, data: Vec::new() };
    b.says(xid, Message::Error(e));
    let sent = b.flow_mods();
    assert!(sent.iter().all(|(_, f)| f.command == FlowCommand::DeleteStrict), "{sent:?}");
}

/// A slice whose only port is away for a moment is one that writes still: meters say nothing when they go.
#[test]
fn meters_stay_while_the_port_is_away() {
    let mut b = Bench::new(Version::V13, vec![slice("red")], vec![grant(0, vlan(10), &[3])]);
    let bands = vec![Band { rate: 10, burst: 0, kind: BandKind::Drop }];
    let (command, flags) = (MeterCommand::Add, MeterFlags::KBPS);
    b.ask(1, Message::MeterMod(MeterMod { command, flags, id: 7, bands }));
    b.sent();
    b.answer_barriers();
    for reason in [PortReason::Delete, PortReason::Add] {
        b.says(0, Message::PortStatus(PortStatus { reason, desc: port(3) }));
        assert!(b.sent().iter().all(|m| !matches!(m.body, Message::MeterMod(_))));
        b.answer_barriers();
    }
    let metered = vec![Instruction::Meter(7)];
    b.ask(1, Message::FlowMod(FlowMod { instructions: metered, ..flow(at(10, 3), vec![]) }));
    assert_eq!(b.flow_mods().len(), 1);
}

/// What is dropped at the switch while a slice has nobody there is dropped no more when it may be another's.
#[test]
fn drops_do_not_outlive_what_their_slice_may() {
    let mut red = slice("red");
    red.loss = weir_supervisor::slicer::Loss::Drop { seconds: 600 };
    let mut b = Bench::new(Version::V13, vec![red.clone(), slice("blue")], by_vlan(2));
    b.switch.disconnected(ConnId(1), &mut b.out);
    b.says(0, packet(Version::V13, 10, 1, u64::MAX));
    let dropped = b.flow_mods();
    assert_eq!(dropped.len(), 1);
    b.answer_barriers();
    let plans = vec![Some(red), Some(slice("blue"))];
    b.switch.replan(&plans, &[grant(1, vlan(10), &[1, 2, 3])], &mut b.out);
    let sent: Vec<Message> = b.sent().into_iter().map(|m| m.body).collect();
    let fence = sent.iter().position(|m| *m == Message::BarrierRequest).unwrap();
    let gone = |m: &Message| matches!(m, Message::FlowMod(f) if f.command == FlowCommand::Delete && f.cookie == dropped[0].1.cookie);
    assert!(sent[..fence].iter().any(gone), "{sent:?}");
}
