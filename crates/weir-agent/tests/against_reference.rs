//! Random sequences of messages and frames, beside the reference: the same answers, the same errors,
//! the same flows told of as gone, the same frames at the same ports, the same counters.

mod reference;
mod rig;

use proptest::prelude::*;
use reference::packet::{PLAIN, Packet, Udp};
use reference::{Flow, Group, Reference, Removed};
use rig::{NEW, OLD, PORTS, Rig, config, flow, output};
use weir_agent::{ConnId, Purpose, Sent};
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

const TABLES: u8 = 3;
const FLOWS: u32 = 12;

/// A second controller of 1.3.
const SECOND: ConnId = ConnId(14);

/// One step of a story.
#[derive(Clone, Debug)]
enum Step {
    Flow(Version, FlowMod),
    Group(GroupMod),
    Meter(MeterMod),
    /// One of the two controllers of 1.3 asks for a role.
    Role(ConnId, RoleMsg),
    /// What 1.3 says next is said by that controller.
    Speaker(ConnId),
    /// For the match, priority and table of a flow that is there.
    Again(Version, usize, FlowMod),
    Frame(u32, Packet),
    /// A frame made to fit a flow that is there.
    Hit(usize, u32, Packet),
    Pass(u64),
    Barrier,
    /// The switch goes to another data plane, connections and all.
    Move,
}

fn station() -> impl Strategy<Value = u64> {
    (1u64..4).prop_map(|n| 0x0200_0000_0000 + n)
}

fn address() -> impl Strategy<Value = u32> {
    (0u32..4).prop_map(|n| 0x0a00_0000 + n)
}

fn packet() -> impl Strategy<Value = Packet> {
    let udp = (0u8..3, address(), address(), 1u16..3, 1u16..3)
        .prop_map(|(dscp, src, dst, from, to)| Udp { dscp, src, dst, from, to });
    let tags = prop_oneof![
        3 => prop::collection::vec((0u8..3, 1u16..4), 0..2),
        1 => prop::collection::vec((0u8..3, 1u16..4), 2..4),
    ];
    (station(), station(), tags, prop::option::of(udp)).prop_map(|(dst, src, tags, udp)| Packet {
        dst,
        src,
        tags,
        udp,
    })
}

/// A match with its prerequisites, of fields that 1.0 has too where it must.
fn matcher(version: Version) -> impl Strategy<Value = Match> {
    let new = version == Version::V13;
    let l2 = (
        prop::option::of(1u32..=PORTS),
        prop::option::of(station()),
        prop::option::of(station()),
        prop::option::weighted(
            0.3,
            prop_oneof![Just(None), Just(Some(0u16)), (1u16..4).prop_map(Some)],
        ),
    );
    let l3 = (0u8..4, prop::option::of(address()), prop::option::of(1u16..3), 30u32..=32);
    let meta = prop::option::weighted(0.2, 0u64..3);
    (l2, l3, meta).prop_map(move |((port, dst, src, vlan), (kind, ip, to, len), meta)| {
        let mut m = Match::default();
        if let Some(p) = port {
            m = m.with(Field::InPort, p.into());
        }
        if let Some(n) = meta.filter(|_| new) {
            m = m.with_masked(Field::Metadata, n.into(), 3);
        }
        match dst {
            // Any of two stations.
            Some(d) if new && d & 1 == 0 => {
                m = m.with_masked(Field::EthDst, d.into(), 0xffff_ffff_fffe);
            }
            Some(d) => m = m.with(Field::EthDst, d.into()),
            None => {}
        }
        if let Some(s) = src {
            m = m.with(Field::EthSrc, s.into());
        }
        m = match vlan {
            Some(None) if new => m.with_masked(Field::VlanVid, 0x1000, 0x1000),
            Some(Some(0)) => m.with(Field::VlanVid, 0),
            Some(Some(v)) => m.with(Field::VlanVid, 0x1000 | u128::from(v)),
            _ => m,
        };
        match kind {
            1 => m = m.with(Field::EthType, PLAIN.into()),
            2 | 3 => {
                m = m.with(Field::EthType, 0x0800);
                if let Some(a) = ip {
                    let mask = u128::from(u32::MAX << (32 - len));
                    m = m.with_masked(Field::Ipv4Dst, a.into(), mask);
                }
                if let Some(t) = to.filter(|_| kind == 3) {
                    m = m.with(Field::IpProto, 17).with(Field::UdpDst, t.into());
                }
            }
            _ => {}
        }
        m
    })
}

fn port() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (1u32..=PORTS).prop_map(output),
        1 => Just(output(9)),
        1 => Just(output(Port::IN_PORT.0)),
        1 => Just(output(Port::CONTROLLER.0)),
        1 => Just(output(Port::ALL.0)),
        1 => Just(output(Port::FLOOD.0)),
    ]
}

fn change() -> impl Strategy<Value = Action> {
    prop_oneof![
        station().prop_map(|n| Action::SetField(Field::EthDst, n.into())),
        station().prop_map(|n| Action::SetField(Field::EthSrc, n.into())),
        (1u16..4).prop_map(|v| Action::SetField(Field::VlanVid, 0x1000 | u128::from(v))),
        address().prop_map(|a| Action::SetField(Field::Ipv4Dst, a.into())),
        Just(Action::PushVlan(0x8100)),
        Just(Action::PopVlan),
        prop_oneof![9 => Just(7u32), 1 => Just(0), 1 => Just(8)].prop_map(Action::SetQueue),
    ]
}

/// Changes and outputs, and perhaps a group in the end.
fn list() -> impl Strategy<Value = Vec<Action>> {
    let some = prop::collection::vec(prop_oneof![change(), port()], 0..4);
    let group = prop::option::weighted(0.3, (1u32..4).prop_map(Action::Group));
    (some, group).prop_map(|(mut a, g)| {
        a.extend(g);
        a
    })
}

fn old_list() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        2 => port(),
        1 => station().prop_map(|n| Action::SetField(Field::EthDst, n.into())),
        1 => (1u16..4).prop_map(Action::SetVlanVid),
        1 => (prop_oneof![6 => Just(2u32), 1 => Just(1), 1 => Just(9)], prop_oneof![6 => Just(7u32), 1 => Just(8)])
            .prop_map(|(port, queue)| Action::Enqueue { port: Port(port), queue }),
        1 => Just(Action::PopVlan),
    ];
    prop::collection::vec(one, 0..4)
}

fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    (
        prop::option::weighted(0.15, 1u32..4),
        prop::option::weighted(0.7, list()),
        prop::option::weighted(0.3, Just(())),
        prop::option::weighted(0.4, list()),
        prop::option::weighted(0.2, 0u64..3),
        prop::option::weighted(0.5, 1u8..4),
    )
        .prop_map(|(meter, apply, clear, write, meta, goto)| {
            let mut out: Vec<Instruction> = meter.map(Instruction::Meter).into_iter().collect();
            out.extend(apply.map(Instruction::Apply));
            out.extend(clear.map(|()| Instruction::Clear));
            out.extend(write.map(Instruction::Write));
            out.extend(meta.map(|value| Instruction::WriteMetadata { value, mask: 3 }));
            out.extend(goto.map(Instruction::GotoTable));
            out
        })
}

fn flow_mod(version: Version) -> impl Strategy<Value = FlowMod> {
    let new = version == Version::V13;
    let command = prop_oneof![
        6 => Just(FlowCommand::Add),
        1 => Just(FlowCommand::Modify),
        1 => Just(FlowCommand::ModifyStrict),
        1 => Just(FlowCommand::Delete),
        1 => Just(FlowCommand::DeleteStrict),
    ];
    let does = match new {
        true => instructions().boxed(),
        false => old_list()
            .prop_map(|a| match a.is_empty() {
                true => vec![],
                false => vec![Instruction::Apply(a)],
            })
            .boxed(),
    };
    let table = prop_oneof![10 => 0..TABLES, 1 => Just(TABLES), 1 => Just(TABLE_ALL)];
    let marks = (0u64..4, prop_oneof![Just(0u64), Just(1), Just(3)]);
    let times =
        (prop_oneof![3 => Just(0u16), 1 => 1u16..4], prop_oneof![3 => Just(0u16), 1 => 1u16..4]);
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let out = (prop::option::weighted(0.3, 1u32..=PORTS), prop::option::weighted(0.3, 1u32..4));
    (command, does, table, marks, times, flags, out, (matcher(version), 1u16..4)).prop_map(
        move |(command, instructions, table, marks, times, flags, out, (matcher, priority))| {
            let mut f = flow(matcher, priority, instructions);
            f.command = command;
            f.table = if new { table } else { 0 };
            (f.cookie, f.cookie_mask) = (marks.0, if new { marks.1 } else { 0 });
            (f.idle_timeout, f.hard_timeout) = times;
            let (tell, overlap, reset) = flags;
            if tell {
                f.flags = f.flags | FlowFlags::SEND_FLOW_REM;
            }
            if overlap {
                f.flags = f.flags | FlowFlags::CHECK_OVERLAP;
            }
            if reset && new {
                f.flags = f.flags | FlowFlags::RESET_COUNTS;
            }
            f.out_port = out.0.map_or(Port::ANY, Port);
            f.out_group = out.1.filter(|_| new).unwrap_or(GROUP_ANY);
            f
        },
    )
}

fn group_mod() -> impl Strategy<Value = GroupMod> {
    let command = prop_oneof![
        4 => Just(GroupCommand::Add),
        2 => Just(GroupCommand::Modify),
        1 => Just(GroupCommand::Delete),
    ];
    let kind = prop_oneof![
        Just(GroupKind::All),
        Just(GroupKind::Indirect),
        Just(GroupKind::FastFailover),
        Just(GroupKind::Select),
    ];
    // One action of a kind: which of two outputs in a set counts is for the set's own tests.
    let bucket =
        (prop::option::of(change()), 1u32..=PORTS, prop::option::weighted(0.3, 1u32..4), 0u16..4);
    let bucket = bucket.prop_map(|(change, port, group, weight)| {
        let mut actions: Vec<Action> = change.into_iter().collect();
        actions.push(group.map_or(output(port), Action::Group));
        Bucket { weight, watch_port: Port(1), watch_group: GROUP_ANY, actions }
    });
    let id = prop_oneof![8 => 1u32..4, 1 => Just(GROUP_ALL)];
    let weighs = prop::bool::weighted(0.05);
    (command, kind, id, prop::collection::vec(bucket, 0..4), weighs).prop_map(
        |(command, kind, id, mut buckets, weighs)| {
            // Of the others, some that are wrong.
            if kind != GroupKind::Select && !weighs {
                buckets.iter_mut().for_each(|b| b.weight = 0);
            }
            let id = if command != GroupCommand::Delete && id == GROUP_ALL { 1 } else { id };
            GroupMod { command, kind, id, buckets }
        },
    )
}

fn meter_mod() -> impl Strategy<Value = MeterMod> {
    let command = prop_oneof![
        4 => Just(MeterCommand::Add),
        1 => Just(MeterCommand::Modify),
        1 => Just(MeterCommand::Delete),
    ];
    let id = prop_oneof![8 => 1u32..4, 1 => Just(METER_ALL)];
    (command, id).prop_map(|(command, id)| {
        let id = if command != MeterCommand::Delete && id == METER_ALL { 1 } else { id };
        MeterMod { command, flags: MeterFlags::KBPS, id, bands: vec![] }
    })
}

fn who() -> impl Strategy<Value = ConnId> {
    prop_oneof![Just(NEW), Just(SECOND)]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        2 => Just(Role::Equal),
        2 => Just(Role::Master),
        1 => Just(Role::Slave),
        1 => Just(Role::NoChange),
    ]
}

/// Elections, also around the end of the numbers.
fn generation() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..4, 1 => Just(u64::MAX), 1 => Just(1 << 63)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => flow_mod(Version::V13).prop_map(|m| Step::Flow(Version::V13, m)),
        3 => flow_mod(Version::V10).prop_map(|m| Step::Flow(Version::V10, m)),
        3 => group_mod().prop_map(Step::Group),
        1 => meter_mod().prop_map(Step::Meter),
        2 => (0usize..9, flow_mod(Version::V13)).prop_map(|(i, m)| Step::Again(Version::V13, i, m)),
        1 => (0usize..9, flow_mod(Version::V10)).prop_map(|(i, m)| Step::Again(Version::V10, i, m)),
        6 => (1u32..=PORTS, packet()).prop_map(|(n, p)| Step::Frame(n, p)),
        8 => (0usize..9, 1u32..=PORTS, packet()).prop_map(|(i, n, p)| Step::Hit(i, n, p)),
        1 => (who(), role(), generation())
            .prop_map(|(c, role, generation)| Step::Role(c, RoleMsg { role, generation })),
        1 => who().prop_map(Step::Speaker),
        1 => (1u64..1500).prop_map(Step::Pass),
        1 => Just(Step::Barrier),
        1 => Just(Step::Move),
    ]
}

/// A step with what it means now.
fn settled(s: Step, flows: &[Flow]) -> Step {
    let at = |i: usize| flows.get(i % flows.len().max(1)).map(|f| &f.m);
    match s {
        Step::Again(v, i, mut m) => {
            let Some(f) = at(i) else { return Step::Barrier };
            let new = |f: &FieldMatch| f.field == Field::Metadata || f.mask != f.field.full();
            if v == Version::V10 && (f.table != 0 || f.matcher.0.iter().any(new)) {
                return Step::Barrier;
            }
            (m.table, m.priority, m.matcher) = (f.table, f.priority, f.matcher.clone());
            Step::Flow(v, m)
        }
        Step::Hit(i, mut port, mut p) => {
            for f in at(i).map(|f| &f.matcher.0[..]).unwrap_or_default() {
                match f.field {
                    Field::InPort => port = f.value as u32,
                    Field::EthType if f.value == u128::from(PLAIN) => p.udp = None,
                    Field::EthType => {
                        let (src, dst) = (1, 2);
                        p.udp.get_or_insert(Udp { dscp: 0, src, dst, from: 1, to: 1 });
                    }
                    Field::VlanVid if f.value == 0 => p.tags.clear(),
                    Field::VlanVid if p.tags.is_empty() => p.tags.push((0, f.value as u16 & 0xfff)),
                    Field::VlanVid if f.mask == 0x1000 => {}
                    field => p.set(field, f.value),
                }
            }
            Step::Frame(port, p)
        }
        s => s,
    }
}

/// Whether it can come by a wire: a flow of 1.3 changes no header that it does not match.
fn may_come(s: &Step) -> bool {
    let Step::Flow(version @ Version::V13, m) = s else { return true };
    let (mut bytes, msg) = (Vec::new(), Msg { xid: 0, body: Message::FlowMod(m.clone()) });
    encode(*version, &msg, &mut bytes).is_ok() && decode(*version, &bytes).is_ok()
}

/// The port behind which a controller stands here: none that a switch has.
fn behind(who: u64) -> u32 {
    0x8000_0000 + who as u32
}

/// A packet-in as the reference's frame to the controller.
fn up(s: Sent) -> (u32, Vec<u8>) {
    match s.msg.body {
        Message::PacketIn(p) => {
            assert_eq!((p.buffer_id, usize::from(p.total_len)), (NO_BUFFER, p.data.len()));
            (behind(s.to.0), p.data)
        }
        m => panic!("{m:?}"),
    }
}

/// Where copies went; those to the controller to each that listens. Ports are read one after the other; the order
/// at each stays.
fn everywhere(judge: &Reference, sent: Vec<(u32, Packet)>) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for (n, p) in sent {
        if n == Port::CONTROLLER.0 {
            all.extend(judge.listeners().into_iter().map(|who| (behind(who), p.bytes())));
        } else {
            all.push((n, p.bytes()));
        }
    }
    all.sort_by_key(|(n, _)| *n);
    all
}

/// What a frame becomes of.
fn through(rig: &mut Rig, port: u32, p: &Packet) -> Vec<(u32, Vec<u8>)> {
    let mut got = rig.send(port, &p.bytes());
    got.extend(rig.out.take().into_iter().map(up));
    got.sort_by_key(|(n, _)| *n);
    got
}

/// A group with what leads to it, and what it and its buckets have counted.
type Counted = (u32, u32, u64, u64, Vec<(u64, u64)>);

fn told_of_groups(rig: &mut Rig) -> Vec<Counted> {
    let [StatsReply::Group(groups)] = &rig.stats(NEW, StatsRequest::Group(GROUP_ALL))[..] else {
        panic!("one part")
    };
    let of = |g: &GroupStats| (g.group, g.references, g.packets, g.bytes, g.buckets.clone());
    groups.iter().map(of).collect()
}

fn true_of_groups(judge: &Reference) -> Vec<Counted> {
    let of = |g: &Group| (g.id, judge.references(g.id), g.packets, g.bytes, g.each.clone());
    let mut all: Vec<_> = judge.groups.iter().map(of).collect();
    all.sort();
    all
}

/// What a switch said: errors, and which controller it told of which flows that are gone.
type Said = (Vec<ErrorCode>, Vec<(u64, FlowRemoved)>);

fn said(sent: Vec<Sent>) -> Said {
    let mut out: Said = (vec![], vec![]);
    for s in sent {
        match s.msg.body {
            Message::Error(e) => out.0.push(e.code),
            Message::FlowRemoved(r) => out.1.push((s.to.0, r)),
            Message::BarrierReply => {}
            m => panic!("{m:?}"),
        }
    }
    out.1.sort_by_key(key_of_removed);
    out
}

fn key_of_removed((who, r): &(u64, FlowRemoved)) -> (u64, u8, u16, Vec<FieldMatch>) {
    (*who, r.table, r.priority, r.matcher.0.clone())
}

fn expected(judge: &Reference, done: Result<Removed, ErrorCode>) -> Said {
    let now = judge.now;
    let gone = match done {
        Err(code) => return (vec![code], vec![]),
        Ok(gone) => gone,
    };
    let of = |(reason, f): (RemovedReason, Flow)| FlowRemoved {
        cookie: f.m.cookie,
        priority: f.m.priority,
        reason,
        table: f.m.table,
        duration_sec: ((now - f.added) / 1000) as u32,
        duration_nsec: ((now - f.added) % 1000 * 1_000_000) as u32,
        idle_timeout: f.m.idle_timeout,
        hard_timeout: f.m.hard_timeout,
        packets: f.packets,
        bytes: f.bytes,
        matcher: f.m.matcher,
    };
    let gone: Vec<FlowRemoved> = gone.into_iter().map(of).collect();
    let each = |who: u64| gone.iter().map(move |r| (who, r.clone()));
    let mut gone: Vec<_> = judge.listeners().into_iter().flat_map(each).collect();
    gone.sort_by_key(key_of_removed);
    (vec![], gone)
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut c = config();
    c.tables = TABLES;
    c.limits.flows = FLOWS;
    let mut rig = Rig::with(c, |_| {});
    rig.connect(SECOND, Version::V13, Purpose::Controller);
    let mut judge = Reference::new(PORTS, TABLES, FLOWS as usize);
    judge.controllers.all = vec![(NEW.0, Role::Equal), (SECOND.0, Role::Equal)];
    let mut speaker = NEW;
    for s in steps {
        let s = settled(s, &judge.flows);
        if !may_come(&s) {
            continue;
        }
        let (got, want) = match &s {
            Step::Again(..) | Step::Hit(..) => unreachable!("settled"),
            Step::Flow(Version::V10, m) => {
                let done = judge.flow_mod(Version::V10, m);
                (said(rig.tell(OLD, Message::FlowMod(m.clone()))), done)
            }
            Step::Flow(v, m) => {
                let done = judge.may(speaker.0).and_then(|()| judge.flow_mod(*v, m));
                (said(rig.tell(speaker, Message::FlowMod(m.clone()))), done)
            }
            Step::Group(m) => {
                let done = judge.may(speaker.0).and_then(|()| judge.group_mod(m));
                (said(rig.tell(speaker, Message::GroupMod(m.clone()))), done)
            }
            Step::Meter(m) => {
                let done = judge.may(speaker.0).and_then(|()| judge.meter_mod(m));
                (said(rig.tell(speaker, Message::MeterMod(m.clone()))), done)
            }
            Step::Speaker(who) => {
                speaker = *who;
                continue;
            }
            Step::Role(who, m) => {
                let got = match &rig.ask(*who, Message::RoleRequest(*m))[..] {
                    [Message::RoleReply(r)] => Ok(*r),
                    [Message::Error(e)] => Err(e.code),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(got, judge.role(who.0, *m), "{:?}", s);
                continue;
            }
            Step::Frame(n, p) => {
                let got = through(&mut rig, *n, p);
                judge = taken(&mut rig, &judge, (*n, p), &got)?;
                // Whatever chose a bucket chooses the same one again.
                if judge.select.is_used() {
                    let sent = judge.same_way(*n, p);
                    prop_assert_eq!(through(&mut rig, *n, p), everywhere(&judge, sent), "{:?}", s);
                }
                continue;
            }
            Step::Pass(ms) => (said(rig.pass(*ms)), Ok(judge.pass(*ms))),
            // A switch that has moved may choose another of two flows that are as good (1.3.5, 5.3).
            Step::Move if judge.leaves_open() => continue,
            Step::Move => {
                rig = rig.moved([NEW, OLD, SECOND]);
                continue;
            }
            Step::Barrier => (said(rig.tell(speaker, Message::BarrierRequest)), Ok(vec![])),
        };
        prop_assert_eq!(got, expected(&judge, want), "{:?}", s);
    }
    compare(&mut rig, &judge)
}

/// The reference after the way that the frame took, which must be one that it may take.
fn taken(
    rig: &mut Rig,
    judge: &Reference,
    (port, p): (u32, &Packet),
    got: &[(u32, Vec<u8>)],
) -> Result<Reference, TestCaseError> {
    let mut ways = judge.ways(port, p);
    let first = everywhere(&ways[0].0, ways[0].1.clone());
    let many = ways.len() > 1;
    ways.retain(|(then, sent)| everywhere(then, sent.clone()) == got);
    // Buckets may do the same: then their counters tell.
    if ways.len() > 1 {
        let told = told_of_groups(rig);
        ways.retain(|(then, _)| true_of_groups(then) == told);
    }
    let shown =
        |all: &[(u32, Vec<u8>)]| all.iter().map(|(n, f)| (*n, Packet::read(f))).collect::<Vec<_>>();
    match ways.pop() {
        Some((then, _)) => Ok(then),
        None => {
            let also = if many { "the first of several ways" } else { "the only way" };
            prop_assert_eq!(shown(got), shown(&first), "{} {:?} {:#?}", also, p, judge.flows);
            Err(TestCaseError::fail(format!("{also}: {got:?}, {first:?}, of {p:?}")))
        }
    }
}

/// All statistics.
fn compare(rig: &mut Rig, judge: &Reference) -> Result<(), TestCaseError> {
    let mut got: Vec<_> = rig
        .flows(NEW)
        .into_iter()
        .map(|f| {
            let life = u64::from(f.duration_sec) * 1000 + u64::from(f.duration_nsec) / 1_000_000;
            // 1.0's actions are shown in other words; they are judged by frames.
            ((f.table, f.priority, f.matcher.0), (f.packets, f.bytes, f.cookie, life, f.flags))
        })
        .collect();
    let mut want: Vec<_> = judge
        .flows
        .iter()
        .map(|f| {
            let m = &f.m;
            let life = judge.now - f.added;
            (
                (m.table, m.priority, m.matcher.0.clone()),
                (f.packets, f.bytes, m.cookie, life, m.flags),
            )
        })
        .collect();
    got.sort_by(|a, b| a.0.cmp(&b.0));
    want.sort_by(|a, b| a.0.cmp(&b.0));
    prop_assert_eq!(got, want);

    let [StatsReply::Table(tables)] = &rig.stats(NEW, StatsRequest::Table)[..] else { panic!() };
    let got: Vec<_> = tables.iter().map(|t| (t.active as usize, t.lookups, t.matched)).collect();
    let want: Vec<_> = judge
        .lookups
        .iter()
        .enumerate()
        .map(|(n, (l, m))| {
            (judge.flows.iter().filter(|f| usize::from(f.m.table) == n).count(), *l, *m)
        })
        .collect();
    prop_assert_eq!(got, want);

    prop_assert_eq!(told_of_groups(rig), true_of_groups(judge));

    let [StatsReply::Meter(meters)] = &rig.stats(NEW, StatsRequest::Meter(METER_ALL))[..] else {
        panic!()
    };
    let got: Vec<_> = meters.iter().map(|m| (m.meter, m.packets, m.bytes)).collect();
    let mut want: Vec<_> = judge.meters.iter().map(|m| (m.id, m.packets, m.bytes)).collect();
    want.sort();
    prop_assert_eq!(got, want);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_switch_does_as_the_reference(steps in prop::collection::vec(step(), 1..80)) {
        run(steps)?;
    }
}
