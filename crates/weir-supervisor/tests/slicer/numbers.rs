//! Groups and meters: every slice counts from one, within its quota.

use super::bench::*;
use weir_openflow::model::*;
use weir_supervisor::slicer::space::{Right, SliceId};

fn group(command: GroupCommand, id: u32) -> Message {
    let actions = vec![out(Port(2))];
    let bucket = Bucket { weight: 0, watch_port: Port::ANY, watch_group: GROUP_ANY, actions };
    let buckets = if command == GroupCommand::Delete { vec![] } else { vec![bucket] };
    Message::GroupMod(GroupMod { command, kind: GroupKind::All, id, buckets })
}

fn meter(command: MeterCommand, id: u32) -> Message {
    let bands = match command {
        MeterCommand::Delete => vec![],
        _ => vec![Band { rate: 10, burst: 0, kind: BandKind::Drop }],
    };
    Message::MeterMod(MeterMod { command, flags: MeterFlags::KBPS, id, bands })
}

fn sent(b: &mut Bench) -> (Option<u32>, Option<u32>) {
    let (mut g, mut m) = (None, None);
    for msg in b.sent() {
        match msg.body {
            Message::GroupMod(x) => g = Some(x.id),
            Message::MeterMod(x) => m = Some(x.id),
            _ => {}
        }
    }
    (g, m)
}

#[test]
fn the_same_number_is_anothers_at_the_switch() {
    let mut red = slice("red");
    (red.limits.groups, red.limits.meters) = (1, 1);
    let mut b = Bench::new(Version::V13, vec![red, slice("blue")], by_vlan(2));
    let mut seen = Vec::new();
    for conn in [1, 2] {
        b.ask(conn, group(GroupCommand::Add, 1));
        b.ask(conn, meter(MeterCommand::Add, 1));
        let (g, m) = sent(&mut b);
        seen.extend([g.unwrap(), m.unwrap()]);
    }
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4);
    // Quotas, and what is there already or is not.
    assert_eq!(b.refused(1, group(GroupCommand::Add, 2)), ErrorCode::GroupOutOfGroups);
    assert_eq!(b.refused(1, meter(MeterCommand::Add, 2)), ErrorCode::MeterOutOfMeters);
    assert_eq!(b.refused(2, group(GroupCommand::Add, 1)), ErrorCode::GroupExists);
    assert_eq!(b.refused(2, group(GroupCommand::Modify, 9)), ErrorCode::GroupUnknown);
    assert_eq!(b.refused(2, meter(MeterCommand::Modify, 9)), ErrorCode::MeterUnknownMeter);
    // A flow names its own.
    let instructions = vec![Instruction::Meter(1), Instruction::Apply(vec![Action::Group(1)])];
    let f = FlowMod { instructions, ..flow(vlan(11), vec![]) };
    b.ask(2, Message::FlowMod(f));
    for (_, m) in b.flow_mods() {
        let wanted =
            [Instruction::Meter(seen[3]), Instruction::Apply(vec![Action::Group(seen[2])])];
        assert_eq!(m.instructions, wanted);
    }
    // Statistics of all: one's own, by one's own number.
    let body = StatsRequest::Group(GROUP_ALL);
    let xid = b.ask(2, Message::StatsRequest { more: Part::Last, body });
    let at_switch = b.sent()[0].xid;
    let of = |group| GroupStats { group, ..GroupStats::default() };
    let all = StatsReply::Group(vec![of(seen[0]), of(seen[2]), of(4711)]);
    b.says(at_switch, Message::StatsReply { more: Part::Last, body: all });
    let body = StatsReply::Group(vec![of(1)]);
    assert_eq!(b.to(2), [Msg { xid, body: Message::StatsReply { more: Part::Last, body } }]);
    // All of one's own go, no other's.
    b.ask(1, group(GroupCommand::Delete, GROUP_ALL));
    assert_eq!(sent(&mut b), (Some(seen[0]), None));
    b.ask(1, meter(MeterCommand::Delete, METER_ALL));
    assert_eq!(sent(&mut b), (None, Some(seen[1])));
    b.ask(1, group(GroupCommand::Add, 2));
    assert!(sent(&mut b).0.is_some_and(|g| !seen.contains(&g)));
}

#[test]
fn a_group_that_the_switch_refuses_is_none() {
    let mut b = Bench::two(Version::V13);
    let xid = b.ask(1, group(GroupCommand::Add, 1));
    let at_switch = b.sent()[0].xid;
    let e = ErrorMsg { code: ErrorCode::GroupOutOfGroups, data: vec![0; 64] };
    b.says(at_switch, Message::Error(e));
    assert_eq!(b.error(1, xid), ErrorCode::GroupOutOfGroups);
    assert_eq!(b.refused(1, add(vlan(10), vec![Action::Group(1)])), ErrorCode::ActionBadOutGroup);
    b.ask(1, group(GroupCommand::Add, 1));
    assert_eq!(b.sent().len(), 1);
}

#[test]
fn who_only_reads_has_no_groups_and_meters() {
    let rules = |right| {
        let mut rules = by_vlan(1);
        rules[0].grants = vec![(SliceId(0), Right::Read)];
        rules.push(grant(1, vlan(11), &[1]));
        rules[1].grants = vec![(SliceId(1), right)];
        rules
    };
    let plans = || vec![slice("watch"), slice("blue")];
    let mut b = Bench::new(Version::V13, plans(), rules(Right::Write));
    let empty = Message::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind: GroupKind::All,
        id: 1,
        buckets: vec![],
    });
    assert_eq!(b.refused(1, empty.clone()), ErrorCode::GroupEperm);
    assert_eq!(b.refused(1, meter(MeterCommand::Add, 1)), ErrorCode::RequestEperm);
    // Who may not write any more loses them.
    b.ask(2, empty);
    b.ask(2, meter(MeterCommand::Add, 1));
    let (Some(g), Some(m)) = sent(&mut b) else { panic!("not both") };
    let all: Vec<_> = plans().into_iter().map(Some).collect();
    b.switch.replan(&all, &rules(Right::Write), &mut b.out);
    assert_eq!(sent(&mut b), (None, None));
    b.switch.replan(&all, &rules(Right::Read), &mut b.out);
    assert_eq!(sent(&mut b), (Some(g), Some(m)));
    assert_eq!(b.refused(2, meter(MeterCommand::Add, 1)), ErrorCode::RequestEperm);
}
