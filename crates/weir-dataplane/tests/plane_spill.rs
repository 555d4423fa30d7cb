//! Rules that spill to the slow path over several tables: the VDP beside one that is on the slow path
//! from the beginning and so has one pipeline. Frames, counters and lookups must be the same.

mod plane_common;

use plane_common::*;
use proptest::prelude::*;
use weir_classify::{Field, Geometry, Match};
use weir_dataplane::*;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::{Nanos, PortId};

const PORTS: u32 = 4;
const VID: Vid = Vid(1);
/// Rules that the VDP's part of the TCAM holds.
const ROOM: u32 = 4;

struct Plane {
    p: DataPlane,
    peers: Vec<MemoryPeer>,
    clock: u64,
    placement: Placement,
}

impl Plane {
    fn new(path: Path, placement: Placement, room: Option<u32>) -> Self {
        let tcam = Geometry {
            mapping_entries: 64,
            action_entries: 1024,
            slice_entries: ROOM,
            block_slices: 4,
        };
        let mut p = DataPlane::new(Config { frames: 2048, tcam, ..Config::default() }).unwrap();
        let mut spec = VdpSpec::new(VID, "v");
        let mut peers = Vec::new();
        for n in 1..=PORTS {
            let name = format!("p{n}");
            let (port, peer) = Memory::with_peer(&name, WireSize::default());
            let id: PortId = p.add_port(&name, Box::new(port)).unwrap();
            spec.ports.push((PortNo(n), id));
            peers.push(peer);
        }
        spec.mapping = vec![MappingRule { matcher: Match::any(), priority: 1 }];
        spec.default = vec![out(4)];
        (spec.path, spec.action_limit) = (path, room);
        p.create_vdp(spec).unwrap();
        Self { p, peers, clock: 0, placement }
    }
    fn add(&mut self, r: &Rule) -> Result<Placed, ControlError> {
        let spec = rule(matcher(r.pattern), priority(r.pattern), &r.actions);
        self.p.add_rule(VID, r.table, &spec, self.placement)
    }
    fn remove(&mut self, table: u8, pattern: u8) -> bool {
        self.p.remove_rule(VID, table, &matcher(pattern), priority(pattern)).is_ok()
    }
    fn settle(&mut self) {
        settle(&mut self.p, &mut self.clock);
    }
    /// A frame through it: what came out of each port.
    fn through(&mut self, station: u8) -> Vec<(u32, Vec<u8>)> {
        let mut f = frame(0, 1, 0, 0);
        f[5] = station;
        self.peers[0].send(&f).unwrap();
        self.settle();
        let (mut all, mut f) = (Vec::new(), Vec::new());
        for (n, p) in (1..).zip(&mut self.peers) {
            while p.recv(&mut f) {
                all.push((n, f.clone()));
            }
        }
        all
    }
    fn used(&self, table: u8, pattern: u8) -> Option<(u64, u64)> {
        let at = self.p.rule_ref(VID, table, &matcher(pattern), priority(pattern))?;
        let mut usage = Vec::new();
        self.p.usage(VID, &[at], &mut usage).unwrap();
        // The rule among its neighbours: there if it was hit, with the same counts.
        let mut near = Vec::new();
        self.p.tallies(VID, table, 0..u32::MAX, &mut near).unwrap();
        assert!(near.is_sorted_by_key(|(slot, _)| *slot));
        let hit = near.into_iter().find(|(slot, _)| *slot == at.slot).map(|(_, t)| t);
        assert_eq!(hit, Some(usage[0].tally()).filter(|t| t.frames > 0));
        let mut alone = Vec::new();
        self.p.tallies(VID, table, at.slot..at.slot + 1, &mut alone).unwrap();
        assert_eq!(alone.first().map(|(_, t)| *t), hit);
        Some((usage[0].frames, usage[0].bytes))
    }
    fn lookups(&self) -> Vec<(u8, u64, u64, u64)> {
        let all = self.p.table_counters(VID).unwrap();
        all.iter().map(|t| (t.table, t.active, t.lookups, t.matched)).collect()
    }
    fn view(&self) -> VdpView {
        self.p.snapshot().vdps.into_iter().find(|v| v.vid == VID).unwrap()
    }
}

#[derive(Clone, Debug)]
struct Rule {
    table: u8,
    pattern: u8,
    actions: Vec<Action>,
}

/// Stations 0 to 7 by some of their bits, with or without the metadata of an earlier table. Twelve
/// patterns, each with a priority of its own, so that no two rules of a table tie.
const PATTERNS: u8 = 12;

fn matcher(pattern: u8) -> Match {
    let (value, mask, meta) = match pattern {
        0..8 => (u128::from(pattern), 7, pattern % 3 == 2),
        8 => (4, 4, false),
        9 => (1, 1, true),
        10 => (0, 2, false),
        _ => (0, 0, false),
    };
    let m = Match::any().with_masked(Field::EthDst, value, mask);
    if meta { m.with(Field::Metadata, 5) } else { m }
}

fn priority(pattern: u8) -> u32 {
    100 - u32::from(pattern)
}

fn actions(table: u8) -> impl Strategy<Value = Vec<Action>> {
    let change = prop_oneof![
        (1..PORTS).prop_map(out),
        any::<u8>().prop_map(|b| Action::SetField {
            field: Field::EthSrc,
            value: b.into(),
            mask: Field::EthSrc.full(),
        }),
        // The next table sees another station.
        (0..8u8).prop_map(|b| Action::SetField {
            field: Field::EthDst,
            value: 0x0200_0000_0000 + u128::from(b),
            mask: Field::EthDst.full(),
        }),
        Just(Action::DecTtl),
    ];
    let set = prop_oneof![
        Just(vec![]),
        Just(vec![]),
        Just(vec![Action::ClearActions]),
        (1..=PORTS).prop_map(|n| vec![Action::WriteActions(vec![out(n)])]),
    ];
    let on = match table {
        2 => Just(vec![]).boxed(),
        t => prop_oneof![
            Just(vec![]),
            (t + 1..=2).prop_map(|n| vec![Action::Goto(n)]),
            (t + 1..=2).prop_map(|n| {
                vec![Action::WriteMetadata { value: 5, mask: u64::MAX }, Action::Goto(n)]
            }),
        ]
        .boxed(),
    };
    (proptest::collection::vec(change, 0..3), set, on).prop_map(|(a, s, g)| {
        let all = [a, s, g].concat();
        if all.is_empty() { vec![Action::Drop] } else { all }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Rule),
    Remove(u8, u8),
    Frame(u8),
    /// Rounds without anything new: ways back to the fast path go on.
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    let table = prop_oneof![3 => Just(0u8), 1 => Just(1), 1 => Just(2)];
    let add = table.clone().prop_flat_map(|table| {
        let new = (0..PATTERNS, actions(table));
        new.prop_map(move |(pattern, actions)| Step::Add(Rule { table, pattern, actions }))
    });
    prop_oneof![
        4 => add,
        3 => (table, 0..PATTERNS).prop_map(|(t, p)| Step::Remove(t, p)),
        6 => (0..8u8).prop_map(Step::Frame),
        1 => Just(Step::Rest),
    ]
}

/// How often: in full under WEIR_SOAK.
fn cases() -> u32 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { 5_000 } else { 48 };
    println!("soak: {n} histories of a VDP that spills");
    n
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn soak_a_vdp_that_spills_is_as_one_on_the_slow_path(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        let mut spills = Plane::new(Path::Fast, Placement::Spill, Some(ROOM));
        let mut slow = Plane::new(Path::Slow, Placement::Fast, None);
        for s in &steps {
            match s {
                Step::Add(r) => {
                    let (a, b) = (spills.add(r).is_ok(), slow.add(r).is_ok());
                    prop_assert_eq!(a, b, "{:?}", r);
                }
                Step::Remove(t, p) => prop_assert_eq!(spills.remove(*t, *p), slow.remove(*t, *p)),
                Step::Frame(station) => {
                    prop_assert_eq!(spills.through(*station), slow.through(*station), "{:?}", s);
                }
                Step::Rest => spills.settle(),
            }
            let v = spills.view();
            let several = spills.lookups().len() > 1;
            prop_assert_eq!(v.spilled != Spilled::No, v.slow_rules > 0 && several);
            if v.spilled != Spilled::No {
                // Or about to be, where it was on its way back just now.
                let slow = matches!(v.phase, Phase::On(Path::Slow) | Phase::Returning);
                prop_assert!(slow, "{:?}", v.phase);
            }
        }
        for t in 0..3 {
            for p in 0..PATTERNS {
                prop_assert_eq!(spills.used(t, p), slow.used(t, p), "table {} pattern {}", t, p);
            }
        }
        prop_assert_eq!(spills.lookups(), slow.lookups());
    }
}

fn goto(pattern: u8) -> Rule {
    let actions = vec![Action::WriteMetadata { value: 5, mask: u64::MAX }, Action::Goto(1)];
    Rule { table: 0, pattern, actions }
}

fn by(table: u8, pattern: u8, port: u32) -> Rule {
    Rule { table, pattern, actions: vec![out(port)] }
}

#[test]
fn a_rule_that_spills_in_a_later_table_takes_the_vdp_along_and_its_removal_brings_it_back() {
    let mut v = Plane::new(Path::Fast, Placement::Spill, Some(ROOM));
    for n in 0..3 {
        assert_eq!(v.add(&goto(n)).unwrap(), Placed::Fast);
    }
    assert_eq!(v.add(&by(1, 0, 2)).unwrap(), Placed::Fast);
    assert_eq!(v.view().phase, Phase::On(Path::Fast));
    assert_eq!(v.add(&by(1, 1, 3)).unwrap(), Placed::Slow);
    let now = v.view();
    assert_eq!((now.phase, now.migration.spilled), (Phase::On(Path::Slow), 1));
    assert_eq!(now.spilled, Spilled::Whole { back: Path::Fast });
    let ports = |v: &mut Plane, n| v.through(n).iter().map(|(p, _)| *p).collect::<Vec<_>>();
    assert_eq!(ports(&mut v, 0), [2]);
    assert_eq!(ports(&mut v, 1), [3], "the rule that spilled, by a goto of one that did not");
    assert_eq!(ports(&mut v, 2), [4], "no rule in table 1: the default");
    // Asking for the fast path says why not; asking for the slow one is remembered.
    let e = v.p.migrate(VID, Path::Fast).unwrap_err();
    assert!(matches!(e, ControlError::Split(VID)), "{e}");
    assert!(v.remove(1, 1));
    v.settle();
    let now = v.view();
    assert_eq!((now.phase, now.spilled), (Phase::On(Path::Fast), Spilled::No));
    assert_eq!(ports(&mut v, 0), [2]);
    assert_eq!(v.used(1, 0), Some((2, 120)), "counted on both paths");
    assert_eq!(v.add(&by(1, 1, 3)).unwrap(), Placed::Slow);
    v.p.migrate(VID, Path::Slow).unwrap();
    assert!(v.remove(1, 1));
    v.settle();
    assert_eq!((v.view().phase, v.view().migration.spilled), (Phase::On(Path::Slow), 2));
    v.p.migrate(VID, Path::Fast).unwrap();
    v.settle();
    assert_eq!(v.view().phase, Phase::On(Path::Fast));
}

#[test]
fn one_table_stays_on_the_fast_path_and_a_second_one_ends_that() {
    let mut v = Plane::new(Path::Fast, Placement::Spill, Some(ROOM));
    for n in 0..6 {
        v.add(&by(0, n, 2)).unwrap();
    }
    assert_eq!((v.view().phase, v.view().slow_rules), (Phase::On(Path::Fast), 2));
    // On its way back from the slow path, it turns round.
    v.p.migrate(VID, Path::Slow).unwrap();
    v.p.migrate(VID, Path::Fast).unwrap();
    assert!(matches!(v.view().phase, Phase::Draining { .. }));
    v.peers[0].send(&frame(0, 1, 0, 0)).unwrap();
    v.add(&goto(11)).unwrap();
    v.p.poll(Nanos(1));
    v.settle();
    let now = v.view();
    assert_eq!(
        (now.phase, now.spilled),
        (Phase::On(Path::Slow), Spilled::Whole { back: Path::Fast })
    );
    assert_eq!(now.counters.forwarded.frames, 1, "nothing is lost");
}
