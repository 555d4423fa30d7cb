//! Changes: each leads to what was asked for, from wherever it was interrupted, and touches nothing of
//! others.

mod world;

use proptest::prelude::*;
use weir_supervisor::admission::admit;
use weir_supervisor::model::{Kind, Lab, Path};
use weir_supervisor::plan::{How, Step, plan};
use weir_supervisor::section::Label;
use weir_supervisor::store::{Memory, Places, State, Store};
use world::{World, lab};

const STORE: u64 = 7;

/// The steps to a lab from what there is, and its places.
fn steps(lab: &Lab, world: &World, known: &Places) -> (Vec<Step>, Places) {
    let (wanted, places) = admit(lab, &world.observed(), known, STORE).unwrap();
    (plan(&wanted, &world.observed(), STORE, known), places)
}

/// Makes a lab hold, or stops before step `killed`; as the supervisor does.
fn change(store: &mut Memory, world: &mut World, lab: &Lab, killed: Option<usize>) {
    let saved = store.load().unwrap();
    let (all, places) = steps(lab, world, &saved.state.places);
    let revision = saved.state.revision + 1;
    store.begin(&State { revision, lab: lab.clone(), places, ..State::default() }).unwrap();
    for (i, s) in all.iter().enumerate() {
        if killed == Some(i) {
            return;
        }
        world.perform(s);
    }
    if killed.is_none() {
        store.finish().unwrap();
    }
}

/// The lab, made: where it is kept, what there is, and its places.
fn made() -> (Lab, Memory, World, Places) {
    let (lab, mut store) = (lab(), Memory::new(STORE));
    let mut world = World::of(&lab);
    change(&mut store, &mut world, &lab, None);
    let places = store.load().unwrap().state.places;
    (lab, store, world, places)
}

fn all_but(lab: &Lab, name: &str) -> Lab {
    let mut out = lab.clone();
    out.network.retain(|n| n.name != name);
    out
}

#[test]
fn a_lab_is_made_once_and_deleted_without_a_trace() {
    let (lab, mut store) = (lab(), Memory::new(STORE));
    let mut world = World::of(&lab);
    world.host("east").put(1, "theirs", Some("somebody"));
    world.host("west").put(1, "default-of-file", None);
    let before = world.clone();
    change(&mut store, &mut world, &lab, None);
    let places = store.load().unwrap().state.places;
    assert_eq!(world.hosts["east"].vdps.len(), 3);
    assert_eq!(world.hosts["west"].vdps.len(), 2);
    assert!(places.values().all(|p| p.vid != 1), "{places:?}");
    // The link's end is the node's second port, and its flow space holds on both.
    let toml = &world.hosts["east"].vdps[&places["red/s1"].vid].toml;
    assert!(toml.contains("ports = [\"e1\", \"trunk\"]"), "{toml}");
    assert!(toml.contains("\"in_port=e1,dl_vlan=10\", \"in_port=trunk,dl_vlan=10\""), "{toml}");
    assert!(toml.contains("tcam_limit_entries = 20"), "{toml}");
    assert_eq!(steps(&lab, &world, &places).0, []);
    let mut none = lab.clone();
    none.network.clear();
    change(&mut store, &mut world, &none, None);
    assert_eq!(world, before);
    assert!(store.load().unwrap().state.places.is_empty());
}

/// On a host that was given up and is back all is there, by the numbers of then.
#[test]
fn what_was_given_up_goes_before_what_comes_back_by_another_number() {
    let (lab, _, world, places) = made();
    assert_eq!(places["blue/s1"].vid, 2, "{places:?}");
    let (steps, places) = steps(&all_but(&lab, "red"), &world, &Places::new());
    let first = steps.iter().position(|s| matches!(s, Step::Put { .. })).unwrap();
    assert_eq!((first, places["blue/s1"].vid), (3, 1), "{steps:?}");
    assert!(steps.iter().skip(first).all(|s| !matches!(s, Step::Delete { .. })), "{steps:?}");
}

#[test]
fn what_differs_is_changed_and_no_other_node_is_touched() {
    let (first, mut store) = (lab(), Memory::new(STORE));
    let mut world = World::of(&first);
    change(&mut store, &mut world, &first, None);
    let places = store.load().unwrap().state.places;
    let only = |change: &dyn Fn(&mut Lab)| {
        let mut next = first.clone();
        change(&mut next);
        let (all, _) = steps(&next, &world, &places);
        let told: Vec<String> = all.iter().map(|s| s.to_string()).collect();
        told.join("\n")
    };
    let vid = places["red/s1"].vid;
    assert_eq!(
        only(&|l| l.network[0].node[0].cpu_permille = 1),
        format!("~ east: VDP {vid} red.s1")
    );
    // What a switch is made with is another switch.
    let blue = places["blue/s1"].vid;
    let anew = only(&|l| {
        l.network[1].node[0].openflow = Some(weir_supervisor::model::Openflow {
            fail_mode: Some("standalone".into()),
            ..Default::default()
        });
    });
    assert_eq!(anew, format!("- east: VDP {blue} blue.s1\n~ east: VDP {blue} blue.s1, made anew"));
    assert_eq!(only(&|l| l.network[0].owner = "bob".into()), "");
    // A node that moves is there before it goes.
    let mut next = all_but(&first, "blue");
    next.network[0].link.clear();
    next.network[0].node.truncate(1);
    next.network[0].node[0].share.clear();
    let mut moved = next.clone();
    moved.network[0].node[0].host = "west".into();
    change(&mut store, &mut world, &next, None);
    let (all, _) = steps(&moved, &world, &store.load().unwrap().state.places);
    let [Step::Put { how: How::Elsewhere, .. }, Step::Delete { .. }] = &all[..] else {
        panic!("{all:?}")
    };
}

#[test]
fn what_somebody_else_has_changed_is_seen_and_put_right() {
    let (lab, _, mut world, places) = made();
    let vid = places["red/s1"].vid;
    let v = world.host("east").vdps.get_mut(&vid).unwrap();
    v.label = None;
    let (all, _) = steps(&lab, &world, &places);
    assert!(matches!(&all[..], [Step::Put { how: How::Change, .. }]), "{all:?}");
    // Without its mark it is still ours to delete.
    let (all, _) = steps(&all_but(&lab, "red"), &world, &places);
    let deleted = |s: &&Step| matches!(s, Step::Delete { .. });
    assert_eq!(all.iter().filter(deleted).count(), 2, "{all:?}");
    // A path is not in the mark, since a data plane may leave it by itself.
    let mut world = World::of(&lab);
    change(&mut Memory::new(STORE), &mut world, &lab, None);
    world.host("east").vdps.get_mut(&vid).unwrap().path = Path::Slow;
    let (all, _) = steps(&lab, &world, &places);
    assert!(matches!(&all[..], [Step::Migrate { to: Path::Fast, .. }]), "{all:?}");
}

/// A router is put without its path, which is a step of its own in the same change.
#[test]
fn a_routers_path_is_changed_with_what_else_is() {
    let (lab, _, world, places) = made();
    let (mut wanted, _) = admit(&lab, &world.observed(), &places, STORE).unwrap();
    let mut seen = world.observed();
    let w = wanted.iter_mut().find(|w| w.label.network == "red" && w.label.node == "s1").unwrap();
    w.router = Some(Box::default());
    let v = seen.get_mut(&w.host).unwrap().vdps.iter_mut().find(|v| v.vid == w.vid).unwrap();
    v.kind = Kind::Router;
    let (path, whole) = (w.path, w.label.whole);
    for (to, whole, how) in [(path, whole, 0), (Path::Slow, whole, 1), (Path::Slow, whole + 1, 2)] {
        let w = wanted.iter_mut().find(|w| w.router.is_some()).unwrap();
        (w.path, w.label.whole) = (to, whole);
        let all = plan(&wanted, &seen, STORE, &places);
        let done = match &all[..] {
            [] => 0,
            [Step::Migrate { to: Path::Slow, .. }] => 1,
            [Step::Put { how: How::Change, .. }, Step::Migrate { to: Path::Slow, .. }] => 2,
            _ => panic!("{all:?}"),
        };
        assert_eq!(done, how);
    }
}

/// A VDP becomes a router, and a router a VDP, on the other path: both in one change.
#[test]
fn a_nodes_path_is_changed_with_its_kind() {
    let (lab, _, world, places) = made();
    for router in [true, false] {
        let (mut wanted, _) = admit(&lab, &world.observed(), &places, STORE).unwrap();
        let mut seen = world.observed();
        let w = wanted.iter_mut().find(|w| w.label.network == "red" && w.label.node == "s1");
        let w = w.unwrap();
        let v = seen.get_mut(&w.host).unwrap().vdps.iter_mut().find(|v| v.vid == w.vid).unwrap();
        v.kind = if router { Kind::Vdp } else { Kind::Router };
        w.router = router.then(Box::default);
        w.label.whole += 1;
        let all = plan(&wanted, &seen, STORE, &places);
        assert!(matches!(&all[..], [Step::Put { how: How::Become, .. }]), "{all:?}");
        let w = wanted.iter_mut().find(|w| w.label.network == "red" && w.label.node == "s1");
        w.unwrap().path = Path::Slow;
        let all = plan(&wanted, &seen, STORE, &places);
        let [Step::Put { how: How::Become, .. }, Step::Migrate { to: Path::Slow, .. }] = &all[..]
        else {
            panic!("{all:?}")
        };
    }
}

#[test]
fn marks_are_read_as_they_are_written_and_nothing_else_is_one() {
    let l = Label { store: 1, network: "n".into(), node: "s".into(), nature: 2, whole: u64::MAX };
    assert_eq!(Label::parse(&l.to_string()), Some(l.clone()));
    for text in ["", "weir:", "weir:1:n/s:2:3", &format!("{l}:"), &l.to_string().replace('/', "")] {
        assert_eq!(Label::parse(text), None, "{text}");
    }
}

proptest! {
    /// From lab to lab, killed before any step, and then on or back: what is there is what holds.
    #[test]
    fn a_change_that_was_killed_is_led_on_or_back(
        networks in prop::collection::vec((any::<bool>(), any::<bool>(), 1u32..400, any::<bool>()), 1..8),
        killed in any::<prop::sample::Index>(),
        back in any::<bool>(),
    ) {
        let full = lab();
        let of = |red: bool, blue: bool, cpu: u32, slow: bool| {
            let mut l = full.clone();
            l.network[0].node[0].cpu_permille = cpu;
            l.network[0].node[1].path = if slow { Path::Slow } else { Path::Fast };
            l.network.retain(|n| if n.name == "red" { red } else { blue });
            l
        };
        let mut store = Memory::new(STORE);
        let mut world = World::of(&full);
        world.host("west").put(1, "theirs", Some("somebody"));
        for (red, blue, cpu, slow) in networks {
            let next = of(red, blue, cpu, slow);
            let saved = store.load().unwrap();
            let n = steps(&next, &world, &saved.state.places).0.len();
            let killed = (n > 0).then(|| killed.index(n));
            change(&mut store, &mut world, &next, killed);
            let left = store.load().unwrap();
            if let Some(target) = left.under_way.clone() {
                let goal = if back { left.state.clone() } else { target.clone() };
                let mut known = left.state.places.clone();
                known.extend(target.places.clone());
                known.extend(goal.places.clone());
                for s in steps(&goal.lab, &world, &known).0 {
                    world.perform(&s);
                }
                if back { store.abandon().unwrap() } else { store.finish().unwrap() }
            }
            let now = store.load().unwrap();
            prop_assert_eq!(&now.under_way, &None);
            // What holds is there, once, and nothing else but what is another's.
            prop_assert_eq!(steps(&now.state.lab, &world, &now.state.places).0, vec![]);
            let ours: usize = world.hosts.values().map(|h| h.vdps.len()).sum();
            prop_assert_eq!(ours - 1, now.state.places.len());
        }
    }
}
