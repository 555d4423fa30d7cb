//! The indexed flow space against its definition, on header spaces small enough to look at every header.

use proptest::prelude::*;
use weir_openflow::model::{Field, Match};
use weir_supervisor::slicer::space::linear::Linear;
use weir_supervisor::slicer::space::{Entry, EntryId, FlowSpace, Right, SliceId, SpaceError};

const FIELDS: [(Field, u128); 3] = [(Field::EthDst, 7), (Field::EthSrc, 3), (Field::TunnelId, 7)];

fn cube() -> impl Strategy<Value = Match> {
    let part = |(field, top): (Field, u128)| (Just(field), 0..=top, 0..=top);
    (part(FIELDS[0]), part(FIELDS[1]), part(FIELDS[2])).prop_map(|(a, b, c)| {
        let parts = [a, b, c].into_iter().filter(|(_, _, mask)| *mask != 0);
        parts.fold(Match::default(), |m, (f, v, mask)| m.with_masked(f, v, mask))
    })
}

fn headers() -> Vec<Match> {
    let mut all = vec![Match::default()];
    for (field, top) in FIELDS {
        all = all.iter().flat_map(|m| (0..=top).map(move |v| m.clone().with(field, v))).collect();
    }
    all
}

fn entry() -> impl Strategy<Value = Entry> {
    let right = prop_oneof![Just(Right::Read), Just(Right::Write), Just(Right::Delegate)];
    let grants = proptest::collection::vec((0..3u16, right), 0..3);
    (0..4u32, cube(), grants).prop_map(|(priority, matcher, grants)| {
        let grants = grants.into_iter().map(|(s, r)| (SliceId(s), r)).collect();
        Entry { priority, matcher, grants }
    })
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Entry),
    Remove(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => entry().prop_map(Op::Insert),
        1 => (0..40usize).prop_map(Op::Remove),
    ];
    proptest::collection::vec(op, 1..40)
}

fn is_sound(e: &Entry) -> bool {
    let writers = e.grants.iter().filter(|(_, r)| *r >= Right::Write).count();
    let twice =
        e.grants.iter().enumerate().any(|(i, (s, _))| e.grants.iter().take(i).any(|(t, _)| s == t));
    writers < 2 && !twice
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn index_and_definition_agree(ops in ops(), asked in cube()) {
        let (mut space, mut linear) = (FlowSpace::new(), Linear::default());
        let mut ids: Vec<EntryId> = Vec::new();
        for op in ops {
            match op {
                Op::Insert(e) => {
                    let expected = is_sound(&e) && !linear.clashes(&e);
                    let got = space.insert(e.clone());
                    prop_assert_eq!(expected, got.is_ok(), "{:?}: {:?}", &e, &got);
                    if let Ok(id) = got {
                        ids.push(id);
                        linear.0.push(e);
                    }
                }
                Op::Remove(n) if n < ids.len() => {
                    let was = space.remove(ids.remove(n));
                    prop_assert_eq!(was, Some(linear.0.remove(n)));
                }
                Op::Remove(_) => {}
            }
        }
        prop_assert_eq!(space.len(), linear.0.len());
        let headers = headers();
        for h in &headers {
            prop_assert_eq!(space.decides(h).map(|e| e.priority), linear.decides(h).map(|e| e.priority));
            for s in 0..3 {
                let granted = linear.decides(h).map(|e| e.grants(SliceId(s), Right::Write));
                prop_assert_eq!(space.decides(h).map(|e| e.grants(SliceId(s), Right::Write)), granted);
            }
        }
        for slice in (0..3).map(SliceId) {
            for right in [Right::Read, Right::Write, Right::Delegate] {
                let Ok(pieces) = space.pieces(slice, right, &asked, 1000) else { continue };
                let mut all = true;
                for h in &headers {
                    let within = |m: &Match| weir_supervisor::slicer::cube::is_within(h, m);
                    let wanted = within(&asked) && linear.grants(slice, right, h);
                    all &= wanted || !within(&asked);
                    prop_assert_eq!(pieces.iter().any(within), wanted, "{:?} {:?}", slice, h);
                }
                prop_assert_eq!(space.covers(slice, right, &asked, 1000), Ok(all));
            }
        }
    }
}

#[test]
fn a_crowd_makes_views_and_answers_stay_true() {
    let (mut space, mut linear) = (FlowSpace::new(), Linear::default());
    let entry = |i: u128| Entry {
        priority: 1,
        matcher: Match::default().with(Field::EthDst, i % 7).with(Field::TunnelId, i),
        grants: vec![(SliceId((i % 3) as u16), Right::Write)],
    };
    let ids: Vec<EntryId> = (0..700)
        .map(|i| {
            linear.0.push(entry(i));
            space.insert(entry(i)).unwrap()
        })
        .collect();
    // Asked by one of two fields, a tuple of 700 entries answers from a view of that field.
    for round in 0..2 {
        for (field, top) in [(Field::EthDst, 7), (Field::TunnelId, 700), (Field::EthSrc, 2)] {
            for v in 0..top {
                let asked = Match::default().with(field, v);
                let overlapping = |s: u16| {
                    let own = |e: &&Entry| e.grants(SliceId(s), Right::Write);
                    let fits =
                        |e: &&Entry| weir_supervisor::slicer::cube::overlaps(&e.matcher, &asked);
                    linear.0.iter().filter(own).filter(fits).count()
                };
                for s in 0..3 {
                    let n = space.pieces(SliceId(s), Right::Write, &asked, 1000).unwrap().len();
                    assert_eq!(n, overlapping(s), "{asked:?}");
                }
            }
        }
        if round == 0 {
            for (i, id) in ids.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
                assert_eq!(space.remove(*id), Some(entry(i as u128)));
            }
            linear.0.retain(|e| e.matcher.get(Field::TunnelId).unwrap().value % 2 == 1);
        }
    }
}

#[test]
fn what_may_be_delegated_can_be_and_no_more() {
    let mut space = FlowSpace::new();
    let tagged = |vid: u128| Match::default().with(Field::VlanVid, 0x1000 | vid);
    let grants = vec![(SliceId(0), Right::Delegate)];
    for vid in [10, 11] {
        space.insert(Entry { priority: 1, matcher: tagged(vid), grants: grants.clone() }).unwrap();
    }
    let to =
        |matcher, priority| Entry { priority, matcher, grants: vec![(SliceId(1), Right::Write)] };
    let web = tagged(10).with(Field::EthType, 0x800);
    space.delegate(SliceId(0), to(web.clone(), 5)).unwrap();
    assert!(space.covers(SliceId(1), Right::Write, &web, 64).unwrap());
    assert!(!space.covers(SliceId(0), Right::Write, &web, 64).unwrap());
    // Neither what is another's, nor what was given away already, nor by one who may only write.
    let refused = |space: &mut FlowSpace, giver, m: Match| {
        assert_eq!(space.delegate(SliceId(giver), to(m, 9)), Err(SpaceError::NotDelegable));
    };
    refused(&mut space, 0, tagged(12));
    refused(&mut space, 0, Match::default());
    refused(&mut space, 0, tagged(10));
    refused(&mut space, 1, web);
    // Two entries together may cover what neither does alone.
    let both = Match::default().with_masked(Field::VlanVid, 0x100a, 0x1ffe);
    let rest = both.with(Field::EthType, 0x806);
    space.delegate(SliceId(0), to(rest, 9)).unwrap();
}
