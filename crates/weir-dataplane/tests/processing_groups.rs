//! Groups: how each kind chooses, that a select group moves no flow without need, and which chains
//! of groups are accepted, against a search that follows every way.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::{
    Action, Bucket, ChainError, Chosen, Config, DataPlane, Group, GroupError, GroupKind,
    LIVENESS_STEPS, MAX_BUCKETS, MAX_CHAIN, VdpSpec, Vid, Watch, check_chains, choose_bucket,
};

/// Buckets whose payload and id are 0, 1, …, of these weights.
fn group(kind: GroupKind, weights: &[u16]) -> Group<u32> {
    let bucket = |(i, w): (u32, &u16)| Bucket { id: Some(i), weight: *w, ..Bucket::new(i) };
    Group::new(kind, (0..).zip(weights).map(bucket).collect()).unwrap()
}

/// Hashes as flows have them: any number.
fn hashes(n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(|h| h.wrapping_mul(2_654_435_761) ^ 0x5bd1_e995)
}

fn payload(g: &Group<u32>, c: Chosen) -> Option<u32> {
    match c {
        Chosen::One(i) => g.payload(i).copied(),
        _ => None,
    }
}

/// What a group alone chooses for a frame, which it counts.
fn choose(g: &mut Group<u32>, hash: u32, len: usize, live: &dyn Fn(u32) -> bool) -> Chosen {
    let chosen = g.pick(hash, &|w| matches!(w, Watch::Port(p) if live(p)));
    g.count(chosen, len);
    chosen
}

#[test]
fn select_follows_the_weights() {
    let mut g = group(GroupKind::Select, &[1, 2, 0, 5]);
    let mut got = [0u32; 4];
    for h in hashes(80_000) {
        let c = choose(&mut g, h, 60, &|_| true);
        got[payload(&g, c).unwrap() as usize] += 1;
    }
    assert_eq!(got[2], 0);
    for (n, w) in [(got[0], 1.0), (got[1], 2.0), (got[3], 5.0)] {
        // Five standard deviations of 10,000 are about 500.
        assert!((f64::from(n) / 10_000.0 / w - 1.0).abs() < 0.05, "{got:?}");
    }
    assert_eq!((g.counted().frames, g.counted().bytes), (80_000, 80_000 * 60));
    let taken: Vec<u64> = g.taken().iter().map(|t| t.frames).collect();
    assert_eq!(taken, got.map(u64::from));
}

#[test]
fn flows_stay_where_they_are() {
    let before = group(GroupKind::Select, &[3, 1, 4, 2]);
    let pick = |g: &Group<u32>, h| payload(g, g.pick(h, &|_| true)).unwrap();
    let moved = |after: &Group<u32>, from_to: fn(u32, u32) -> bool| {
        let mut n = 0;
        for h in hashes(5000) {
            let (a, b) = (pick(&before, h), pick(after, h));
            assert!(a == b || from_to(a, b), "flow {h} went from {a} to {b}");
            n += u32::from(a != b);
        }
        assert!(n > 0, "nothing moved at all");
    };
    // Bucket 1 goes: only its flows move, though others are at other places now.
    let mut less = before.buckets().to_vec();
    less.remove(1);
    less.reverse();
    moved(&Group::new(GroupKind::Select, less).unwrap(), |from, _| from == 1);
    // Another comes: flows move to it only.
    let mut more = before.buckets().to_vec();
    more.insert(0, Bucket { id: Some(77), weight: 3, ..Bucket::new(77) });
    moved(&Group::new(GroupKind::Select, more).unwrap(), |_, to| to == 77);
    // One becomes heavier: flows move to it only; lighter: away from it only.
    moved(&group(GroupKind::Select, &[3, 5, 4, 2]), |_, to| to == 1);
    moved(&group(GroupKind::Select, &[3, 1, 1, 2]), |from, _| from == 2);
}

#[test]
fn flows_of_a_dead_bucket_move_and_come_back() {
    let mut buckets = group(GroupKind::Select, &[1, 1, 1]).buckets().to_vec();
    buckets[1].watch_port = Some(7);
    let mut g = Group::new(GroupKind::Select, buckets).unwrap();
    for h in hashes(1000) {
        let before = choose(&mut g, h, 60, &|_| true);
        let after = choose(&mut g, h, 60, &|_| false);
        assert_eq!(before != after, before == Chosen::One(1));
        assert_eq!(choose(&mut g, h, 60, &|_| true), before);
    }
}

#[test]
fn failover_takes_the_first_live() {
    let mut buckets = group(GroupKind::FastFailover, &[1, 1, 1]).buckets().to_vec();
    buckets[0].watch_port = Some(1);
    buckets[1].watch_port = Some(2);
    let mut g = Group::new(GroupKind::FastFailover, buckets.clone()).unwrap();
    assert_eq!(choose(&mut g, 0, 60, &|_| true), Chosen::One(0));
    assert_eq!(choose(&mut g, 0, 60, &|p| p != 1), Chosen::One(1));
    assert_eq!(choose(&mut g, 0, 60, &|_| false), Chosen::One(2));
    buckets[2].watch_port = Some(3);
    g = Group::new(GroupKind::FastFailover, buckets).unwrap();
    assert_eq!(choose(&mut g, 0, 60, &|_| false), Chosen::None);
    assert_eq!((g.counted().frames, g.taken()[2].frames), (1, 0));
}

#[test]
fn all_and_indirect() {
    let mut all = group(GroupKind::All, &[1, 1]);
    assert_eq!(choose(&mut all, 1, 60, &|_| true), Chosen::All);
    assert_eq!(all.taken().iter().map(|t| t.frames).sum::<u64>(), 2);
    assert_eq!(choose(&mut group(GroupKind::All, &[]), 1, 60, &|_| true), Chosen::None);
    assert_eq!(choose(&mut group(GroupKind::Select, &[]), 1, 60, &|_| true), Chosen::None);
    assert_eq!(choose(&mut group(GroupKind::Select, &[0]), 1, 60, &|_| true), Chosen::None);
    assert_eq!(choose(&mut group(GroupKind::Indirect, &[1]), 1, 60, &|_| true), Chosen::One(0));
}

#[test]
fn impossible_groups_are_refused() {
    let new = |kind, n: u32| Group::new(kind, (0..n).map(Bucket::new).collect()).map(drop);
    assert_eq!(new(GroupKind::Indirect, 2), Err(GroupError::Indirect(2)));
    assert_eq!(new(GroupKind::All, 257), Err(GroupError::TooMany(257)));
    assert_eq!(new(GroupKind::All, MAX_BUCKETS as u32), Ok(()));
    // An id given by hand meets the place of another.
    let twice = vec![Bucket { id: Some(1), ..Bucket::new(0) }, Bucket::new(1)];
    assert_eq!(Group::new(GroupKind::All, twice), Err(GroupError::SameId(1)));
}

/// A bucket that watches another group.
fn watching(group: u32) -> Bucket<Vec<u32>> {
    Bucket { watch_group: Some(group), ..Bucket::new(vec![]) }
}

#[test]
fn a_watched_group_lives_by_its_buckets() {
    let port = |p| Bucket { watch_port: Some(p), ..Bucket::new(vec![]) };
    let failover = |buckets| Group::new(GroupKind::FastFailover, buckets).unwrap();
    let mut groups = BTreeMap::from([
        (1, failover(vec![watching(2), watching(3)])),
        (2, failover(vec![port(20)])),
        (3, failover(vec![port(30), watching(2)])),
    ]);
    let choose = |groups: &mut _, up: &[u32]| choose_bucket(groups, 1, 0, 60, &|p| up.contains(&p));
    assert_eq!(choose(&mut groups, &[20, 30]), Some(Chosen::One(0)));
    assert_eq!(choose(&mut groups, &[30]), Some(Chosen::One(1)));
    assert_eq!(choose(&mut groups, &[]), Some(Chosen::None));
    groups.remove(&2);
    assert_eq!(
        choose(&mut groups, &[20, 30]),
        Some(Chosen::One(1)),
        "a group that is gone is dead"
    );
    assert_eq!(choose_bucket(&mut groups, 9, 0, 60, &|_| true), None);
    assert_eq!(groups[&1].counted().frames, 4);
}

/// Who watches a port and a group lives by either (1.3.5 §6.5).
#[test]
fn one_of_two_that_are_watched_will_do() {
    let port = |p| Bucket { watch_port: Some(p), ..Bucket::new(vec![]) };
    let both = Bucket { watch_port: Some(10), ..watching(2) };
    let failover = |buckets| Group::new(GroupKind::FastFailover, buckets).unwrap();
    let mut groups = BTreeMap::from([(1, failover(vec![both])), (2, failover(vec![port(20)]))]);
    let mut choose = |up: &[u32]| choose_bucket(&mut groups, 1, 0, 60, &|p| up.contains(&p));
    for up in [&[10, 20][..], &[10], &[20]] {
        assert_eq!(choose(up), Some(Chosen::One(0)), "{up:?}");
    }
    assert_eq!(choose(&[]), Some(Chosen::None));
}

#[test]
fn watching_in_circles_ends() {
    // Each of many groups watches all of them: without a bound this would never end.
    let all: Vec<u32> = (0..200).collect();
    let g = |_| {
        let buckets = all.iter().map(|&n| watching(n)).collect();
        Group::new(GroupKind::FastFailover, buckets).unwrap()
    };
    let mut groups: BTreeMap<u32, _> = all.iter().map(|&n| (n, g(n))).collect();
    assert_eq!(choose_bucket(&mut groups, 0, 0, 60, &|_| false), Some(Chosen::None));
    const { assert!(LIVENESS_STEPS >= 16) };
}

/// The longest way from `from`, or what is wrong with it, by following every way.
fn naive(edges: &BTreeMap<u32, Vec<u32>>, from: u32, way: &mut Vec<u32>) -> Option<usize> {
    if way.contains(&from) {
        return None;
    }
    way.push(from);
    let mut longest = 0;
    for to in edges.get(&from)? {
        longest = longest.max(naive(edges, *to, way)?);
    }
    way.pop();
    Some(longest + 1)
}

proptest! {
    #[test]
    fn chains_are_judged_rightly(
        edges in prop::collection::btree_map(
            0u32..9, prop::collection::vec(0u32..9, 0..3), 1..9),
        complete in any::<bool>(),
        upwards in any::<bool>(),
    ) {
        let mut edges = edges;
        for (from, to) in &mut edges {
            to.retain(|t| !upwards || t > from);
        }
        if complete {
            let named: BTreeSet<u32> = edges.values().flatten().copied().collect();
            for n in named {
                edges.entry(n).or_default();
            }
        }
        let groups: BTreeMap<u32, Group<Vec<u32>>> = edges.iter().map(|(&n, to)| {
            let buckets = to.iter().map(|t| Bucket::new(vec![*t])).collect();
            (n, Group::new(GroupKind::All, buckets).unwrap())
        }).collect();
        let depths: Vec<_> = edges.keys().map(|&n| naive(&edges, n, &mut Vec::new())).collect();
        match check_chains(&groups, |p| p.clone()) {
            Ok(()) => prop_assert!(depths.iter().all(Option::is_some)),
            Err(ChainError::Loop(n)) => {
                // From its successors it can be reached again.
                let mut seen = BTreeSet::new();
                let mut todo = edges[&n].clone();
                while let Some(t) = todo.pop() {
                    if seen.insert(t) {
                        todo.extend(edges.get(&t).into_iter().flatten());
                    }
                }
                prop_assert!(seen.contains(&n));
            }
            Err(ChainError::Missing { from, to }) => {
                prop_assert!(edges[&from].contains(&to) && !edges.contains_key(&to));
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}

#[test]
fn long_chains_are_refused() {
    let chain = |n: u32| -> BTreeMap<u32, Group<Vec<u32>>> {
        let next = |i: u32| if i + 1 < n { vec![i + 1] } else { vec![] };
        let group = |i| Group::new(GroupKind::Indirect, vec![Bucket::new(next(i))]).unwrap();
        // Numbered from the end, too, so that the walk meets known depths.
        (0..n).map(|i| (i, group(i))).collect()
    };
    let names = |p: &Vec<u32>| p.clone();
    assert_eq!(check_chains(&chain(MAX_CHAIN as u32), names), Ok(()));
    assert_eq!(check_chains(&chain(MAX_CHAIN as u32 + 1), names), Err(ChainError::TooDeep(0)));
    // A short way beside the long one, before it or behind.
    for order in [[0, 15], [15, 0]] {
        let mut groups = chain(MAX_CHAIN as u32);
        let fork = order.map(|to| Bucket::new(vec![to]));
        groups.insert(99, Group::new(GroupKind::All, fork.into()).unwrap());
        assert_eq!(check_chains(&groups, names), Err(ChainError::TooDeep(99)));
    }
    // Long enough to overflow a stack that recursed.
    assert!(matches!(check_chains(&chain(100_000), names), Err(ChainError::TooDeep(_))));
    // Watching counts like naming.
    let loops =
        BTreeMap::from([(1, Group::new(GroupKind::FastFailover, vec![watching(1)]).unwrap())]);
    assert_eq!(check_chains(&loops, names), Err(ChainError::Loop(1)));
}

/// What others miss is no reason to refuse a group that does not lead to them.
#[test]
fn a_group_is_put_beside_one_that_misses_another() {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    plane.create_vdp(VdpSpec::new(Vid(1), "one")).unwrap();
    let put = |plane: &mut DataPlane, id, to: Option<u32>| {
        let does = to.map(Action::Group).unwrap_or(Action::Drop);
        let group = Group::new(GroupKind::Indirect, vec![Bucket::new(vec![does])]).unwrap();
        plane.put_group(Vid(1), id, group)
    };
    put(&mut plane, 2, None).unwrap();
    put(&mut plane, 1, Some(2)).unwrap();
    // One that would close a loop stays out, and what was there stays.
    assert!(put(&mut plane, 2, Some(1)).is_err());
    plane.remove_group(Vid(1), 2).unwrap();
    put(&mut plane, 3, None).unwrap();
    put(&mut plane, 4, Some(3)).unwrap();
    assert!(put(&mut plane, 4, Some(1)).is_err());
    // What comes back is named still.
    assert!(put(&mut plane, 2, Some(1)).is_err());
    put(&mut plane, 2, None).unwrap();
    put(&mut plane, 4, Some(1)).unwrap();
}
