//! What slices have outlives the slicer: a change that was cut off is whole afterwards, and what was as it should be
//! is not touched.

use super::bench::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use weir_openflow::model::*;
use weir_supervisor::slicer::space::{Right, SliceId};
use weir_supervisor::slicer::{ConnId, Fact, Key, Out, SlicePlan, SpaceRule, Switch};

type RuleKey = (u8, u16, Match);

/// The switch: what it has come to by the messages that reached it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tables {
    rules: HashMap<RuleKey, (u64, u16, Vec<Instruction>)>,
    groups: BTreeMap<u32, (GroupKind, Vec<Bucket>)>,
    meters: BTreeMap<u32, Vec<Band>>,
}

impl Tables {
    fn hear(&mut self, m: &Message) {
        match m {
            Message::FlowMod(f) => {
                // 1.0 has one table, and does not say which.
                let table = if f.table == TABLE_ALL { 0 } else { f.table };
                let key = (table, f.priority, f.matcher.clone());
                match f.command {
                    FlowCommand::Add => {
                        self.rules.insert(key, (f.cookie, f.idle_timeout, f.instructions.clone()));
                    }
                    FlowCommand::ModifyStrict => {
                        if let Some(r) = self.rules.get_mut(&key) {
                            r.2.clone_from(&f.instructions);
                        }
                    }
                    FlowCommand::DeleteStrict => drop(self.rules.remove(&key)),
                    FlowCommand::Delete if f.table == TABLE_ALL || f.matcher.0.is_empty() => {
                        self.rules.clear();
                    }
                    other => panic!("{other:?}"),
                }
            }
            Message::GroupMod(g) => match g.command {
                GroupCommand::Delete if g.id == GROUP_ALL => self.groups.clear(),
                GroupCommand::Delete => drop(self.groups.remove(&g.id)),
                _ => drop(self.groups.insert(g.id, (g.kind, g.buckets.clone()))),
            },
            Message::MeterMod(m) => match m.command {
                MeterCommand::Delete if m.id == METER_ALL => self.meters.clear(),
                MeterCommand::Delete => drop(self.meters.remove(&m.id)),
                _ => drop(self.meters.insert(m.id, m.bands.clone())),
            },
            _ => {}
        }
    }

    /// What it says of itself, a part for each thing; `bare`: it knows neither groups nor meters.
    fn says(&self, asked: &StatsRequest, bare: bool) -> Vec<Message> {
        let parts: Vec<StatsReply> =
            match asked {
                StatsRequest::PortDesc => {
                    vec![StatsReply::PortDesc((1..=4).map(port).collect())]
                }
                StatsRequest::GroupDesc | StatsRequest::MeterConfig(_) if bare => {
                    let e = ErrorMsg { code: ErrorCode::BadMultipart, data: vec![0; 64] };
                    return vec![Message::Error(e)];
                }
                StatsRequest::GroupDesc => {
                    let one = |(id, (kind, buckets)): (&u32, &(GroupKind, Vec<Bucket>))| {
                        GroupDesc { id: *id, kind: *kind, buckets: buckets.clone() }
                    };
                    self.groups.iter().map(|g| StatsReply::GroupDesc(vec![one(g)])).collect()
                }
                StatsRequest::MeterConfig(_) => {
                    let one = |(id, bands): (&u32, &Vec<Band>)| MeterConfig {
                        id: *id,
                        flags: MeterFlags::PKTPS,
                        bands: bands.clone(),
                    };
                    self.meters.iter().map(|m| StatsReply::MeterConfig(vec![one(m)])).collect()
                }
                StatsRequest::Flow(_) => {
                    let one = |(k, r): (&RuleKey, &(u64, u16, Vec<Instruction>))| FlowStats {
                        table: k.0,
                        duration_sec: 1,
                        duration_nsec: 0,
                        priority: k.1,
                        idle_timeout: r.1,
                        hard_timeout: 0,
                        flags: FlowFlags(0),
                        cookie: r.0,
                        packets: 5,
                        bytes: 500,
                        matcher: k.2.clone(),
                        instructions: r.2.clone(),
                    };
                    self.rules.iter().map(|r| StatsReply::Flow(vec![one(r)])).collect()
                }
                other => panic!("{other:?}"),
            };
        let last = match asked {
            StatsRequest::PortDesc => None,
            StatsRequest::GroupDesc => Some(StatsReply::GroupDesc(Vec::new())),
            StatsRequest::MeterConfig(_) => Some(StatsReply::MeterConfig(Vec::new())),
            _ => Some(StatsReply::Flow(Vec::new())),
        };
        let more = |part: &StatsReply| match (last.is_some(), part) {
            (true, _) => Part::More,
            (false, _) => Part::Last,
        };
        let said = |body: StatsReply| Message::StatsReply { more: more(&body), body };
        let mut all: Vec<Message> = parts.into_iter().map(said).collect();
        all.extend(last.map(|body| Message::StatsReply { more: Part::Last, body }));
        all
    }
}

/// Facts as a journal has them.
#[derive(Clone, Default)]
struct Kept(BTreeMap<Key, Fact>);

impl Kept {
    fn note(&mut self, facts: Vec<Fact>) {
        for f in facts {
            match f.held {
                Some(_) => drop(self.0.insert(f.key, f)),
                None => drop(self.0.remove(&f.key)),
            }
        }
    }
    fn all(&self) -> Vec<Fact> {
        self.0.values().cloned().collect()
    }
}

/// A slicer that comes to a switch which has these tables, with what was kept; what it sends is heard and returned.
fn comes(
    b: &mut Bench,
    tables: &mut Tables,
    kept: &mut Kept,
    plans: Vec<SlicePlan>,
    rules: Vec<SpaceRule>,
    bare: bool,
) -> Vec<Message> {
    let slices = plans.len() as u64;
    b.switch = Switch::new(b.version, plans, rules);
    b.out = Out::default();
    b.switch.begin_again(&mut b.out);
    let mut sent = Vec::new();
    loop {
        if b.switch.awaits().is_some() {
            b.switch.resume(kept.all(), &mut b.out);
        }
        kept.note(std::mem::take(&mut b.out.facts));
        let new = b.sent();
        if new.is_empty() {
            break;
        }
        for m in new {
            tables.hear(&m.body);
            match &m.body {
                Message::FeaturesRequest => {
                    b.says(m.xid, Message::FeaturesReply(features(b.version)))
                }
                Message::BarrierRequest => b.says(m.xid, Message::BarrierReply),
                Message::StatsRequest { body, .. } => {
                    tables.says(body, bare).into_iter().for_each(|r| b.says(m.xid, r));
                }
                _ => {}
            }
            sent.push(m.body);
        }
        b.switch.settle(b.now, &mut b.out);
    }
    assert!(b.switch.is_ready());
    for i in 0..slices {
        b.switch.connected(ConnId(i + 1), SliceId(i as u16), &mut b.out);
    }
    sent
}

fn features(version: Version) -> Features {
    Features {
        datapath_id: 0x99,
        buffers: 0,
        tables: if version == Version::V10 { 1 } else { 254 },
        auxiliary_id: 0,
        capabilities: Capabilities::FLOW_STATS,
        actions: if version == Version::V10 { 0xfff } else { 0 },
        ports: if version == Version::V10 { (1..=4).map(port).collect() } else { Vec::new() },
    }
}

fn two() -> Vec<SlicePlan> {
    vec![slice("red"), slice("blue")]
}

/// A bench whose switch has been taken up with nothing.
fn new(version: Version) -> (Bench, Tables, Kept) {
    let mut b = Bench::two(version);
    let (mut tables, mut kept) = (Tables::default(), Kept::default());
    comes(&mut b, &mut tables, &mut kept, two(), by_vlan(2), false);
    (b, tables, kept)
}

/// Something that a controller asks for.
fn request(version: Version, (op, at, prio, to): (u8, u32, u16, u8)) -> Message {
    let matcher = match at {
        0 => Match::default(),
        p => Match::default().with(Field::InPort, p.into()),
    };
    let actions = match to {
        0 => vec![out(Port::CONTROLLER)],
        1 => vec![out(Port::FLOOD)],
        2 if version == Version::V13 => vec![Action::Group(5)],
        n => vec![out(Port(u32::from(n % 3) + 1))],
    };
    let f =
        FlowMod { priority: prio, cookie: u64::from(to) + 70, ..flow(matcher, actions.clone()) };
    match op {
        0..=4 => Message::FlowMod(f),
        5 => Message::FlowMod(FlowMod { command: FlowCommand::ModifyStrict, ..f }),
        6 => Message::FlowMod(FlowMod { command: FlowCommand::Modify, ..f }),
        7 => Message::FlowMod(FlowMod { command: FlowCommand::DeleteStrict, ..f }),
        8 => Message::FlowMod(FlowMod { command: FlowCommand::Delete, ..f }),
        _ if version == Version::V10 => Message::FlowMod(f),
        9 | 10 => Message::GroupMod(GroupMod {
            command: if op == 9 { GroupCommand::Add } else { GroupCommand::Modify },
            kind: GroupKind::Indirect,
            id: 5,
            buckets: vec![Bucket {
                weight: 0,
                watch_port: Port::ANY,
                watch_group: GROUP_ANY,
                actions: vec![out(Port(u32::from(to % 3) + 1))],
            }],
        }),
        _ => Message::MeterMod(MeterMod {
            command: if op == 11 { MeterCommand::Add } else { MeterCommand::Delete },
            flags: MeterFlags::PKTPS,
            id: 4,
            bands: vec![Band { rate: 100 + u32::from(to), burst: 0, kind: BandKind::Drop }],
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// Killed after any request was kept, with any number of the messages that came of it and those before on the
    /// wire: the switch is as if all had arrived, and what was so already is not touched.
    #[test]
    fn a_change_that_was_cut_off_is_whole_afterwards(
        v13: bool,
        script in prop::collection::vec((0u16..2, (0u8..13, 0u32..4, 1u16..4, 0u8..5)), 1..30),
        arrived: prop::sample::Index,
    ) {
        let version = if v13 { Version::V13 } else { Version::V10 };
        let (mut b, _, mut kept) = new(version);
        let mut messages = Vec::new();
        for (slice, what) in script {
            b.ask(u64::from(slice) + 1, request(version, what));
            kept.note(std::mem::take(&mut b.out.facts));
            for m in b.sent() {
                if m.body == Message::BarrierRequest {
                    b.says(m.xid, Message::BarrierReply);
                }
                messages.push(m.body);
            }
        }
        let mut whole = Tables::default();
        messages.iter().for_each(|m| whole.hear(m));
        let mut tables = Tables::default();
        let n = arrived.index(messages.len() + 1);
        messages[..n].iter().for_each(|m| tables.hear(m));
        let before = tables.clone();
        let sent = comes(&mut b, &mut tables, &mut kept, two(), by_vlan(2), false);
        prop_assert_eq!(&tables, &whole);
        for m in &sent {
            if let Message::FlowMod(f) = m {
                let table = if f.table == TABLE_ALL { 0 } else { f.table };
                let key = (table, f.priority, f.matcher.clone());
                let same = before.rules.get(&key) == whole.rules.get(&key);
                prop_assert!(!same || kept.0.is_empty(), "touched for nothing: {:?}", f);
            }
        }
        // Once more, nothing is to be done.
        let sent = comes(&mut b, &mut tables, &mut kept, two(), by_vlan(2), false);
        let touches = |m: &&Message| matches!(
            m,
            Message::FlowMod(_) | Message::GroupMod(_) | Message::MeterMod(_)
        );
        prop_assert!(kept.0.is_empty() || !sent.iter().any(|m| touches(&m)), "{:?}", sent);
        prop_assert_eq!(tables, whole);
    }
}

#[test]
fn flows_are_their_slices_again_with_their_own_marks() {
    for v in [Version::V10, Version::V13] {
        let (mut b, mut tables, mut kept) = new(v);
        let f = FlowMod { cookie: 7, ..flow(Match::default(), vec![out(Port(2))]) };
        b.ask(1, Message::FlowMod(f));
        kept.note(std::mem::take(&mut b.out.facts));
        b.sent().iter().for_each(|m| tables.hear(&m.body));
        // Slices stand in another order now, and so have other numbers.
        let plans = vec![slice("blue"), slice("red")];
        let rules = vec![grant(1, vlan(10), &[1, 2, 3]), grant(0, vlan(11), &[1, 2, 3])];
        let red = kept
            .all()
            .into_iter()
            .map(|f| Fact { held: f.held.map(|(_, m)| (SliceId(1), m)), ..f });
        let mut kept = Kept(red.map(|f| (f.key, f)).collect());
        comes(&mut b, &mut tables, &mut kept, plans, rules, true);
        assert_eq!(tables.rules.len(), 3);
        let (_, flows, rules) = b.switch.counters(SliceId(1)).unwrap();
        assert_eq!((flows, rules), (1, 3));
        // Its own by its cookie, and no other's.
        let delete = FlowMod { command: FlowCommand::Delete, ..flow(Match::default(), vec![]) };
        b.ask(1, Message::FlowMod(delete.clone()));
        assert!(b.flow_mods().is_empty());
        b.ask(2, Message::FlowMod(delete));
        b.sent().iter().for_each(|m| tables.hear(&m.body));
        assert!(tables.rules.is_empty(), "{tables:?}");
    }
}

#[test]
fn a_rule_whose_time_was_over_meanwhile_is_not_brought_back() {
    for v in [Version::V10, Version::V13] {
        let (mut b, mut tables, mut kept) = new(v);
        let f = FlowMod { idle_timeout: 9, ..flow(vlan(10), vec![out(Port(2))]) };
        b.ask(1, Message::FlowMod(f));
        let stays = FlowMod { priority: 11, ..flow(vlan(10), vec![out(Port(1))]) };
        b.ask(1, Message::FlowMod(stays));
        kept.note(std::mem::take(&mut b.out.facts));
        b.sent().iter().for_each(|m| tables.hear(&m.body));
        assert_eq!((tables.rules.len(), kept.0.len()), (6, 2));
        // While nobody looked, one rule of the first went by itself; then all of both.
        tables.rules.remove(&(0, 10, vlan(10).with(Field::InPort, 2)));
        comes(&mut b, &mut tables, &mut kept, two(), by_vlan(2), false);
        assert_eq!((tables.rules.len(), kept.0.len()), (5, 2));
        tables.rules.clear();
        comes(&mut b, &mut tables, &mut kept, two(), by_vlan(2), false);
        assert_eq!((tables.rules.len(), kept.0.len()), (3, 1));
    }
}

#[test]
fn what_its_slice_may_not_have_any_more_goes() {
    let (mut b, mut tables, mut kept) = new(Version::V13);
    b.ask(1, add(Match::default(), vec![out(Port(2))]));
    b.ask(2, add(Match::default(), vec![out(Port(2))]));
    kept.note(std::mem::take(&mut b.out.facts));
    b.sent().iter().for_each(|m| tables.hear(&m.body));
    // Somebody else's rule, and a group of nobody's.
    tables.rules.insert((3, 1, vlan(44)), (1, 0, Vec::new()));
    tables.groups.insert(9, (GroupKind::All, Vec::new()));
    // Red has less than it had.
    let rules = vec![grant(0, vlan(10), &[1]), grant(1, vlan(11), &[1, 2, 3])];
    comes(&mut b, &mut tables, &mut kept, two(), rules, false);
    let mut all: Vec<_> = tables.rules.keys().map(|k| k.2.clone()).collect();
    all.sort_by_key(|m| format!("{m:?}"));
    let mut expected: Vec<_> =
        [1, 2, 3].map(|p| vlan(11).with(Field::InPort, p)).into_iter().collect();
    // What red may have sends to a port that is not its own.
    expected.sort_by_key(|m| format!("{m:?}"));
    assert_eq!((all, tables.groups.len(), kept.0.len()), (expected, 0, 1));
}

#[test]
fn who_only_reads_now_has_no_groups_and_meters_any_more() {
    let (mut b, mut tables, mut kept) = new(Version::V13);
    let (command, kind, buckets) = (GroupCommand::Add, GroupKind::All, Vec::new());
    b.ask(1, Message::GroupMod(GroupMod { command, kind, id: 5, buckets }));
    b.ask(1, request(Version::V13, (11, 0, 1, 0)));
    kept.note(std::mem::take(&mut b.out.facts));
    b.sent().iter().for_each(|m| tables.hear(&m.body));
    assert_eq!((tables.groups.len(), tables.meters.len(), kept.0.len()), (1, 1, 2));
    let mut rules = by_vlan(2);
    rules[0].grants = vec![(SliceId(0), Right::Read)];
    comes(&mut b, &mut tables, &mut kept, two(), rules, false);
    assert_eq!((tables.groups.len(), tables.meters.len(), kept.0.len()), (0, 0, 0));
}

#[test]
fn the_configuration_may_change_while_the_switch_is_asked() {
    let (mut b, mut tables, mut kept) = new(Version::V13);
    b.ask(1, add(Match::default(), vec![out(Port::CONTROLLER)]));
    kept.note(std::mem::take(&mut b.out.facts));
    b.sent().iter().for_each(|m| tables.hear(&m.body));
    assert_eq!(tables.rules.len(), 3);
    b.switch = Switch::new(b.version, two(), by_vlan(2));
    b.out = Out::default();
    b.switch.begin_again(&mut b.out);
    let (mut flows, mut changed) = (Vec::new(), false);
    for _ in 0..20 {
        if b.switch.awaits().is_some() {
            b.switch.resume(kept.all(), &mut b.out);
        }
        for m in b.sent() {
            tables.hear(&m.body);
            match &m.body {
                Message::FeaturesRequest => {
                    b.says(m.xid, Message::FeaturesReply(features(b.version)));
                }
                Message::BarrierRequest => b.says(m.xid, Message::BarrierReply),
                Message::StatsRequest { body: StatsRequest::Flow(_), .. } if !changed => {
                    // The answer is on its way when red loses port 3.
                    flows.push(m.xid);
                    changed = true;
                    let plans: Vec<_> = two().into_iter().map(Some).collect();
                    let rules = vec![grant(0, vlan(10), &[1, 2]), grant(1, vlan(11), &[1, 2, 3])];
                    b.switch.replan(&plans, &rules, &mut b.out);
                    let all = tables.says(&StatsRequest::Flow(FlowFilter::every_flow()), false);
                    all.into_iter().for_each(|r| b.says(m.xid, r));
                }
                Message::StatsRequest { body, .. } => {
                    tables.says(body, false).into_iter().for_each(|r| b.says(m.xid, r));
                }
                _ => {}
            }
        }
        b.switch.settle(b.now, &mut b.out);
    }
    assert!(changed && b.switch.is_ready());
    assert_eq!(tables.rules.len(), 2, "{tables:?}");
}
