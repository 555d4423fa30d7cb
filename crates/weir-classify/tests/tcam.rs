//! The TCAM's budget: conserved, disjoint, and unchanged by whatever it refuses.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_classify::{Activation, Geometry, Owner, Part, Tcam, TcamError, Usage};

/// Slices of 8 entries in blocks of 4.
fn tcam(entries: u32) -> Tcam {
    Tcam::new(Geometry {
        mapping_entries: entries,
        action_entries: entries,
        slice_entries: 8,
        block_slices: 4,
    })
    .unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Reserve(u32),
    Grow(u32),
    Guarantee(u32),
    Borrow,
    GiveBackIdle,
    Shrink(u32),
    Release,
    Add(u32),
    Remove(u32),
    Assign(u32),
    Free(u32),
}

fn op() -> impl Strategy<Value = (Part, Owner, Op)> {
    let n = || prop_oneof![12 => 0u32..60, 1 => Just(u32::MAX)];
    let op = prop_oneof![
        n().prop_map(Op::Reserve),
        n().prop_map(Op::Grow),
        n().prop_map(Op::Guarantee),
        Just(Op::Borrow),
        Just(Op::GiveBackIdle),
        n().prop_map(Op::Shrink),
        Just(Op::Release),
        n().prop_map(Op::Add),
        n().prop_map(Op::Remove),
        (0u32..34).prop_map(Op::Assign),
        (0u32..34).prop_map(Op::Free),
    ];
    (prop::sample::select(Part::ALL.to_vec()), (0u32..5).prop_map(Owner), op)
}

/// Everything one can see of a part.
type Seen = (Vec<Option<Owner>>, Vec<(Owner, Usage)>);

fn seen(t: &Tcam) -> [Seen; 2] {
    Part::ALL.map(|p| (t.slices(p).to_vec(), t.owners(p).map(|o| (o, t.usage(p, o))).collect()))
}

/// What each owner should have in use.
type Used = BTreeMap<(Part, Owner), u32>;

fn check(t: &Tcam, used: &Used) {
    for part in Part::ALL {
        let slices = t.slices(part);
        let free = slices.iter().filter(|s| s.is_none()).count() as u32;
        assert_eq!(t.free_entries(part), free * 8);
        let held: u32 = t.owners(part).map(|o| t.usage(part, o).allowed).sum();
        assert_eq!(held + t.free_entries(part), t.entries(part));
        let in_use = slices.chunks(4).filter(|b| b.iter().any(Option::is_some)).count();
        assert_eq!(t.blocks_in_use(part), in_use as u32);
        for owner in (0..5).map(Owner) {
            let usage = t.usage(part, owner);
            let own = slices.iter().filter(|s| **s == Some(owner)).count() as u32;
            assert_eq!((usage.slices, usage.allowed), (own, own * 8));
            assert!(usage.used <= usage.allowed && usage.reserved <= usage.allowed);
            assert_eq!(usage.used, used.get(&(part, owner)).copied().unwrap_or(0));
            let blocks = slices.chunks(4).filter(|b| b.contains(&Some(owner))).count();
            assert_eq!(t.blocks_woken(part, owner), blocks as u32);
        }
    }
}

proptest! {
    /// After any calls: each slice has one owner or none, sums are conserved, no one uses more
    /// than it may, and a refusal leaves everything as it was.
    #[test]
    fn budget(ops in prop::collection::vec(op(), 1..120)) {
        let mut t = tcam(8 * 32);
        let mut used = Used::new();
        for (part, owner, op) in ops {
            let before = seen(&t);
            let (free, had) = (t.free_entries(part), t.usage(part, owner));
            let now = |t: &Tcam| t.usage(part, owner).allowed;
            let done = match op {
                Op::Reserve(n) => t.reserve(part, owner, n).map(|got| {
                    assert!(got >= n && got < n + 8 && got == now(&t));
                    assert_eq!(t.free_entries(part), free - got);
                }),
                Op::Grow(n) => t.grow(part, owner, n).map(|got| {
                    let more = got - had.allowed;
                    assert!(more >= n && more < n + 8 && got == now(&t));
                }),
                Op::Guarantee(n) => t.guarantee(part, owner, n).map(|got| {
                    let own = n.next_multiple_of(8);
                    assert_eq!(t.usage(part, owner).reserved, own);
                    assert_eq!(got, own.max(had.used.next_multiple_of(8)));
                }),
                Op::Borrow => t.borrow_slice(part, owner).map(|()| {
                    let has = t.usage(part, owner);
                    assert_eq!((has.allowed, has.reserved), (had.allowed + 8, had.reserved));
                }),
                Op::GiveBackIdle => {
                    let freed = t.give_back_idle(part, owner);
                    let has = t.usage(part, owner);
                    assert_eq!((has.allowed, has.reserved), (had.allowed - freed, had.reserved));
                    assert!(freed == 0 || has.allowed - has.used >= 4);
                    let idle = (has.allowed - has.used.max(has.reserved)).saturating_sub(4 + 7) / 8;
                    assert!(idle * 16 <= has.slices);
                    Ok(())
                }
                Op::Shrink(n) => t.shrink(part, owner, n).map(|got| {
                    let less = had.allowed - got;
                    assert!(less <= n && got == now(&t));
                    assert!(got == 0 || n - less < 8);
                }),
                Op::Release => {
                    let both: u32 = Part::ALL.iter().map(|&p| t.usage(p, owner).allowed).sum();
                    assert_eq!(t.release(owner), both);
                    Part::ALL.iter().for_each(|&p| { used.remove(&(p, owner)); });
                    Ok(())
                }
                Op::Add(n) => {
                    t.add(part, owner, n).map(|()| *used.entry((part, owner)).or_default() += n)
                }
                Op::Remove(n) => {
                    t.remove(part, owner, n).map(|()| *used.entry((part, owner)).or_default() -= n)
                }
                Op::Assign(s) => t.assign(part, s, owner).map(|()| {
                    assert_eq!(t.slices(part)[s as usize], Some(owner));
                    assert_eq!(now(&t), had.allowed + 8);
                }),
                Op::Free(s) => {
                    t.free(part, s).map(|()| assert_eq!(t.slices(part)[s as usize], None))
                }
            };
            if let Err(e) = done {
                prop_assert_eq!(seen(&t), before);
                // Refused only for lack of room, where that is what it says.
                match e {
                    TcamError::Full { asked, free: left, .. } => {
                        prop_assert!(asked > u64::from(left) && left == free);
                    }
                    TcamError::Spent { asked, used, allowed, .. } => {
                        prop_assert!(asked > allowed - used);
                    }
                    _ => {}
                }
            }
            check(&t, &used);
        }
    }
}

#[test]
fn full_says_how_many() {
    let mut t = tcam(64);
    t.reserve(Part::Action, Owner(1), 40).unwrap();
    let e = t.reserve(Part::Action, Owner(2), 30).unwrap_err();
    assert_eq!(e, TcamError::Full { part: Part::Action, asked: 32, free: 24 });
    assert_eq!(
        e.to_string(),
        "the action part of the TCAM has 24 entries free and 32 were asked for (in whole slices): \
         shrink or release another VDP, or enlarge the part"
    );
    // The other part has its own budget.
    t.reserve(Part::Mapping, Owner(2), 64).unwrap();
    t.reserve(Part::Action, Owner(2), 24).unwrap();
    assert_eq!(t.free_entries(Part::Action), 0);
    t.add(Part::Action, Owner(2), 24).unwrap();
    assert_eq!(
        t.add(Part::Action, Owner(2), 1).unwrap_err().to_string(),
        "VDP 2 may hold 24 action entries, uses 24, and asked for 1 more: remove rules, or grow \
         its share"
    );
    assert_eq!(
        t.shrink(Part::Action, Owner(2), 8).unwrap_err().to_string(),
        "VDP 2 uses 24 action entries and would keep 16: remove 8 rules first"
    );
    assert_eq!(t.shrink(Part::Action, Owner(1), 8), Ok(32));
    assert_eq!(t.grow(Part::Action, Owner(2), 1), Ok(32));
    t.add(Part::Action, Owner(2), 1).unwrap();
    assert_eq!(t.release(Owner(2)), 64 + 32);
    assert_eq!(t.free_entries(Part::Mapping), 64);
}

#[test]
fn few_blocks_are_woken() {
    // 16 blocks in each part.
    let mut t = tcam(16 * 32);
    for vid in 0..8 {
        t.reserve(Part::Mapping, Owner(vid), 4).unwrap();
        t.reserve(Part::Action, Owner(vid), 24).unwrap();
    }
    // Three slices each: one block each, since no block has room for two.
    assert!((0..8).all(|vid| t.blocks_woken(Part::Action, Owner(vid)) == 1));
    // One slice more stays in the block.
    t.grow(Part::Action, Owner(3), 8).unwrap();
    assert_eq!(t.blocks_woken(Part::Action, Owner(3)), 1);
    // Nine slices: two whole blocks, and one slice in the fullest block that has room.
    t.reserve(Part::Action, Owner(9), 72).unwrap();
    assert_eq!(t.blocks_woken(Part::Action, Owner(9)), 3);
    assert_eq!(t.blocks_in_use(Part::Action), 10);
    // A slice less, and it leaves the block of which it has least.
    t.shrink(Part::Action, Owner(9), 8).unwrap();
    assert_eq!(t.blocks_woken(Part::Action, Owner(9)), 2);
    // Eight mapping slices lie in two blocks; a frame of VDP 0 wakes those and its own.
    let a = t.activation(Owner(0));
    assert_eq!(a, Activation { mapping: 2, action: 1, whole: 32 });
    assert!((a.share() - 3.0 / 32.0).abs() < 1e-12);
}

#[test]
fn shapes() {
    let shape = |entries, slice_entries, block_slices| {
        let (mapping_entries, action_entries) = (entries, entries);
        Tcam::new(Geometry { mapping_entries, action_entries, slice_entries, block_slices })
    };
    assert!(shape(64, 0, 4).is_err());
    assert!(shape(64, 8, 0).is_err());
    assert!(shape(60, 8, 4).is_err());
    assert!(shape(u32::MAX, 1, 4).is_err());
    assert!(shape(0, 8, 4).unwrap().activation(Owner(1)).share() == 0.0);
    // The last block is a short one; a block may be longer than the part.
    assert_eq!(shape(40, 8, 4).unwrap().blocks(Part::Action), 2);
    let mut t = shape(40, 8, u32::MAX).unwrap();
    assert_eq!(t.blocks(Part::Action), 1);
    // Such a block is not gone through beyond the part's end: that would take seconds.
    for _ in 0..1000 {
        assert_eq!(t.reserve(Part::Action, Owner(1), 20), Ok(24));
        assert_eq!(t.release(Owner(1)), 24);
    }
}
