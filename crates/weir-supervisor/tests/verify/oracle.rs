//! The verifier against an oracle that follows every frame: random planes, random changes.

use crate::planes::{DATA, IN_PORT, META, TAG, bits_at, frames, layout, maps, oracle, with_more};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_supervisor::verify::{
    Act, Case, Controller, Edit, Group, Match, Plane, Port, Program, Report, Rule, Share, Sure,
    Table, To, Vdp, Verifier, WORK,
};

const PORTS: usize = 3;
const VDPS: usize = 3;
const NETWORKS: usize = 2;

fn matcher(meta: bool) -> impl Strategy<Value = Match> {
    let field = || (0u64..4, 0u64..4);
    // Ports are named oftener than not.
    let port = prop_oneof![Just((0, 0)), (1u64..4).prop_map(|p| (3, p)), field()];
    (port, field(), field(), 0u64..2, 0u64..2).prop_map(move |(p, t, d, m, mv)| {
        let parts = [(IN_PORT, p), (TAG, t), (DATA, d), (META, (m & u64::from(meta), mv))];
        parts.into_iter().fold(Match::any(), |all, (f, (mask, value))| {
            all.and(&bits_at(f, mask, value)).expect("fields do not overlap")
        })
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    let field = || prop_oneof![Just(TAG), Just(DATA)];
    prop_oneof![
        4 => (field(), 0u64..4, 0u64..4)
            .prop_map(|(f, m, v)| Edit::Set(Box::new(bits_at(f, m, v)))),
        1 => (0u64..2).prop_map(|v| Edit::Set(Box::new(META.is(v)))),
        2 => (field(), field()).prop_map(|(a, b)| Edit::Copy(a, b)),
        1 => field().prop_map(|f| Edit::Reveal(Box::new(f.bits()))),
        1 => field().prop_map(|f| Edit::Unknown(Box::new(f.bits()))),
        2 => field().prop_map(|f| Edit::Reveal(Box::new(with_more(f.bits())))),
        1 => field().prop_map(|f| Edit::Unknown(Box::new(with_more(f.bits())))),
    ]
}

fn simple() -> impl Strategy<Value = Act> {
    let case = (matcher(false), prop::collection::vec(matcher(false), 0..2), edit())
        .prop_map(|(when, unless, e)| Case { when: Box::new(when), unless, edits: vec![e] });
    prop_oneof![
        4 => (0..PORTS).prop_map(|p| Act::Output(To::Port(p))),
        1 => Just(Act::Output(To::InPort)),
        1 => Just(Act::Output(To::All)),
        3 => edit().prop_map(Act::Edit),
        1 => prop::collection::vec(case, 1..3).prop_map(Act::Cases),
        1 => Just(Act::Controller),
        1 => Just(Act::Program),
        1 => (0u32..3).prop_map(Act::Group),
    ]
}

fn acts(goto: Option<u8>) -> impl Strategy<Value = Arc<[Act]>> {
    let kind = prop_oneof![0u8..4, 126u8..128];
    let list = prop::collection::vec(simple(), 1..3);
    let set = prop::collection::vec((kind, list), 1..3).prop_map(Act::Write);
    let front = prop_oneof![
        5 => Just(Vec::new()),
        1 => set.prop_map(|s| vec![s]),
        1 => Just(vec![Act::Clear]),
    ];
    let last = match goto {
        Some(n) => prop_oneof![Just(vec![]), Just(vec![Act::Goto(n)])].boxed(),
        None => Just(vec![]).boxed(),
    };
    (front, prop::collection::vec(simple(), 0..3), last)
        .prop_map(|(f, l, g)| [f, l, g].concat().into())
}

fn rule(goto: Option<u8>) -> impl Strategy<Value = Rule> {
    (matcher(true), 0u32..3, acts(goto)).prop_map(|(matcher, priority, acts)| Rule {
        matcher,
        priority,
        acts,
    })
}

fn ports() -> impl Strategy<Value = Vec<(u32, usize)>> {
    prop::collection::btree_map(0..PORTS, 1u32..4, 0..=PORTS)
        .prop_map(|m| m.into_iter().map(|(at, no)| (no, at)).collect())
}

fn vdp() -> impl Strategy<Value = Vdp> {
    let tables =
        (prop::collection::vec(rule(Some(1)), 0..5), prop::collection::vec(rule(None), 0..4));
    let group = (
        0..NETWORKS,
        prop::collection::vec(prop::collection::vec(simple(), 0..3).prop_map(Arc::from), 0..3),
    );
    let program = prop_oneof![4 => Just(Program::Nothing), 1 => Just(Program::Passes)];
    (
        0..NETWORKS,
        ports(),
        tables,
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(simple(), 0..2)],
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(simple(), 1..3)],
        program,
        prop::collection::vec(0usize..2, 0..2),
        prop::collection::btree_map(0u32..3, group, 0..2),
    )
        .prop_map(|(network, ports, (a, b), default, alone, program, controllers, groups)| {
            Vdp {
                name: String::new(),
                network,
                ports,
                tables: vec![Table::new(a), Table::new(b)],
                default,
                alone,
                program,
                controllers,
                groups: groups
                    .into_iter()
                    .map(|(id, (network, buckets))| (id, Group { network, buckets }))
                    .collect(),
            }
        })
}

fn plane() -> impl Strategy<Value = Plane> {
    let share = (0..NETWORKS, matcher(false), 0i64..3)
        .prop_map(|(network, matcher, priority)| Share { network, matcher, priority });
    let shares = prop_oneof![
        3 => Just(None),
        1 => prop::collection::vec(share, 0..4).prop_map(Some),
    ];
    let mapping = prop::collection::vec((0..VDPS, matcher(false), 0i64..3), 0..6);
    (prop::collection::vec(vdp(), VDPS), mapping, shares, any::<bool>(), any::<bool>()).prop_map(
        |(vdps, mapping, shares, shapes, rest)| Plane {
            layout: layout(shapes),
            networks: vec!["red".into(), "blue".into()],
            ports: (1..=PORTS as u32)
                .map(|number| Port { name: format!("p{number}"), number })
                .collect(),
            controllers: [vec![0], vec![0, 1]]
                .map(|networks| Controller { name: String::new(), networks })
                .into(),
            mapping: mapping.into_iter().map(|(v, m, p)| maps(v, m, p)).collect(),
            rest: rest.then_some(0),
            vdps,
            shares,
        },
    )
}

/// Whether a report says what following every frame says.
fn agrees(plane: &Plane, report: &Report) -> Result<(), TestCaseError> {
    let seen = oracle(plane);
    prop_assert!(report.undecided.is_empty() && report.more == 0);
    // Shares may tie where mapping does not; those ties have an oracle of their own below.
    let told = |l: &&weir_supervisor::verify::Leak| {
        plane.shares.is_none() || l.reaches != weir_supervisor::verify::Reaches::Claimed
    };
    let mut keys = BTreeSet::new();
    for l in report.leaks.iter().filter(told) {
        let key = (l.vdp, l.by, l.reaches);
        keys.insert(key);
        let Some(s) = seen.get(&key) else {
            return Err(TestCaseError::fail(format!("no frame does {l:?}")));
        };
        prop_assert!(s.to.contains(&l.to), "{l:?} reaches {:?}", s.to);
        let shown: Vec<_> =
            frames(plane).into_iter().filter(|(p, h)| *p == l.in_port && l.frames.has(h)).collect();
        prop_assert!(!shown.is_empty(), "{l:?} shows no frame");
        let does = |f: &_| s.frames.contains(f);
        match l.sure {
            Sure::Frame => prop_assert!(shown.iter().all(does), "not all frames do {l:?}"),
            _ => prop_assert!(shown.iter().any(does), "no frame of these does {l:?}"),
        }
    }
    let missing: BTreeMap<_, _> = seen.iter().filter(|(k, _)| !keys.contains(k)).collect();
    prop_assert!(missing.is_empty(), "not told: {missing:?}");
    Ok(())
}

/// A change of a plane.
#[derive(Clone, Debug)]
enum Change {
    Put(usize, u8, Rule),
    Remove(usize, u8, usize),
    Map(usize, Match, i64),
    Unmap(usize),
    Ports(usize, Vec<(u32, usize)>),
    Whole(usize, Vec<Rule>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..VDPS, rule(Some(1))).prop_map(|(v, r)| Change::Put(v, 0, r)),
        (0..VDPS, rule(None)).prop_map(|(v, r)| Change::Put(v, 1, r)),
        (0..VDPS, 0u8..2, 0usize..4).prop_map(|(v, t, i)| Change::Remove(v, t, i)),
        (0..VDPS, matcher(false), 0i64..3).prop_map(|(v, m, p)| Change::Map(v, m, p)),
        (0usize..6).prop_map(Change::Unmap),
        (0..VDPS, ports()).prop_map(|(v, p)| Change::Ports(v, p)),
        (0..VDPS, prop::collection::vec(rule(Some(1)), 0..3))
            .prop_map(|(v, r)| Change::Whole(v, r)),
    ]
}

fn carry_out(v: &mut Verifier, change: Change) {
    match change {
        Change::Put(vdp, table, rule) => v.put_rule(vdp, table, rule),
        Change::Remove(vdp, table, i) => {
            let rules = v.plane().vdps[vdp].tables[usize::from(table)].rules();
            let Some(r) = rules.get(i).cloned() else { return };
            assert!(v.remove_rule(vdp, table, &r.matcher, r.priority));
        }
        Change::Map(vdp, matcher, priority) => v.put_mapping(maps(vdp, matcher, priority)),
        Change::Unmap(i) => {
            let there = |r: &&weir_supervisor::verify::MapRule| r.vdp < VDPS && r.priority >= 0;
            let Some(r) = v.plane().mapping.iter().filter(there).nth(i).cloned() else { return };
            assert!(v.remove_mapping(r.vdp, &r.matcher, r.priority));
        }
        Change::Ports(vdp, ports) => v.set_ports(vdp, ports),
        Change::Whole(at, rules) => {
            let vdp = v.plane().vdps[at].clone();
            let foreign = weir_supervisor::verify::Vdp { network: vdp.network + 1, ..vdp.clone() };
            assert!(!v.put_vdp(at, foreign));
            let tables = vec![Table::new(rules), Table::default()];
            assert!(v.put_vdp(at, weir_supervisor::verify::Vdp { tables, ..vdp }));
        }
    }
}

/// What leaks, whatever the places of mapping rules.
fn gist(v: &Verifier) -> Vec<String> {
    use weir_supervisor::verify::By;
    let mapping = |by: By| match by {
        By::Mapping(i) => v.plane().mapping.get(i).map(|r| (r.vdp, r.matcher, r.priority)),
        _ => None,
    };
    let report = v.report(usize::MAX);
    let by = |b: By| if let By::Mapping(_) = b { By::Program } else { b };
    let line = |l: &weir_supervisor::verify::Leak| {
        format!("{} {:?} {:?} {:?}", l.vdp, by(l.by), mapping(l.by), l.reaches)
    };
    let mut all: Vec<String> = report.leaks.iter().map(line).collect();
    all.sort();
    all.dedup();
    all
}

/// Random planes a test: few by default, `WEIR_VERIFY_CASES` where there is time.
fn cases() -> u32 {
    std::env::var("WEIR_VERIFY_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// What the verifier says is what following every frame says.
    #[test]
    fn as_the_oracle(p in plane()) {
        let v = Verifier::new(p, WORK);
        agrees(v.plane(), &v.report(usize::MAX))?;
    }

    /// After changes it says what it would say from scratch.
    #[test]
    fn changes_are_followed(p in plane(), changes in prop::collection::vec(change(), 1..6)) {
        let mut v = Verifier::new(p, WORK);
        for c in changes {
            carry_out(&mut v, c);
            let mut fresh = v.plane().clone();
            fresh.mapping.retain(|r| r.vdp < VDPS && r.priority >= 0);
            prop_assert_eq!(gist(&v), gist(&Verifier::new(fresh, WORK)));
        }
    }
}
