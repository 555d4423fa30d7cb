//! Of small tables: what they take, and when they are packed or near.

use super::*;

#[test]
fn small_tables_are_small() {
    assert!(size_of::<FastTable>() <= 288, "{}", size_of::<FastTable>());
    for (kept, most) in [(Words::Here, 2408), (Words::ByOwner, 808)] {
        let mut same = FastTable::with_words(kept);
        (0..16).for_each(|i| assert!(same.insert(rule(mac(i), 1, i)).is_ok()));
        assert!(same.memory_bytes() <= most, "{}", same.memory_bytes());
    }
    // Five-tuples, every one with other prefixes.
    let mut mixed = FastTable::new();
    for i in 0..16u32 {
        let m = Match::any()
            .with(Field::EthType, 0x800)
            .with_masked(Field::Ipv4Src, i.into(), u128::from(u32::MAX << i))
            .with_masked(Field::Ipv4Dst, i.into(), u128::from(u32::MAX << (16 - i)))
            .with(Field::IpProto, 6)
            .with(Field::TpDst, i.into());
        assert!(mixed.insert(rule(m, i, i)).is_ok());
    }
    assert!(mixed.memory_bytes() <= 4096, "{}", mixed.memory_bytes());
}

/// Small tables of one mask are packed where its bits fit a word, and only then; they answer as the judge does, whatever
/// comes and goes.
#[test]
fn small_tables_are_packed() {
    use Field::{EthDst, EthSrc, InPort, Ipv4Src, VlanVid};
    let cases: [(&[Field], bool); 5] = [
        (&[EthDst], true),
        (&[EthDst, VlanVid], true),
        // Both in the high half of their words.
        (&[InPort, Ipv4Src], true),
        (&[EthDst, EthSrc], false),
        (&[InPort, EthDst], false),
    ];
    for (fields, fits) in cases {
        let (mut fast, mut judge) = (FastTable::new(), Linear::default());
        let of = |i: u32| {
            let parts = fields.iter().enumerate();
            parts.fold(Match::any(), |m, (at, f)| m.with(*f, u128::from(i >> (4 * at) & 0xfff)))
        };
        let mut there = Vec::new();
        let mut random = 1u32;
        for step in 0..3000u32 {
            random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            // Up to more than are packed, down to few, and up again.
            let grow = step % 1500 < 700 || there.len() < 12;
            let i = random >> 20;
            if grow && !there.contains(&of(i)) {
                assert_eq!(fast.insert(rule(of(i), 7, step)), judge.insert(rule(of(i), 7, step)));
                there.push(of(i));
            } else if !grow {
                let m = there.swap_remove(i as usize % there.len());
                assert_eq!(fast.remove(&m, 7), judge.remove(&m, 7));
            }
            if there.len() >= 12 {
                let packed = fast.packed.way == Way::Packed;
                assert!(fits || !packed);
                assert!(!fits || packed || there.len() > packed::MOST / 4 * 3, "{}", there.len());
            }
            for n in (0..4096).skip(step as usize % 61).step_by(61) {
                let key = *of(n).value();
                assert_eq!(fast.lookup(&key), judge.lookup(&key), "{fields:?} {step} {n}");
            }
        }
        // Two in one place: the better one wins, and nothing is packed.
        let twice = there[0];
        assert!(fast.insert(rule(twice, 8, 70_000)).is_ok());
        assert!(fast.packed.way != Way::Packed && !fast.packed.is_there());
        assert_eq!(fast.lookup(twice.value()), Some(RuleId(70_000)));
        assert_eq!(fast.remove(&twice, 8), Some(RuleId(70_000)));
        assert_eq!(fast.packed.way == Way::Packed, fits && there.len() <= packed::MOST / 4 * 3);
        assert_eq!(fast.lookup(twice.value()), judge.lookup(twice.value()));
    }
}

/// Very small tables of one mask say which rule it can be, where their owner keeps words: the judge's, or one that
/// another word shows to be wrong. They answer by themselves, too.
#[test]
fn very_small_tables_are_near() {
    use Field::{EthDst, EthSrc, InPort, Ipv4Src, VlanVid};
    for fields in [&[EthDst][..], &[EthSrc, VlanVid], &[InPort, Ipv4Src]] {
        let (mut fast, mut judge) = (FastTable::with_words(Words::ByOwner), Linear::default());
        let of = |i: u32| {
            let parts = fields.iter().enumerate();
            parts.fold(Match::any(), |m, (at, f)| m.with(*f, u128::from(i >> (4 * at) & 0xfff)))
        };
        // What each slot's owner keeps.
        let mut slots: [Option<(Match, u64)>; 64] = [None; 64];
        let (mut random, mut near, mut anew) = (1u32, 0, 0);
        for step in 0..6000u32 {
            random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            let m = of(random >> 20);
            let len = slots.iter().flatten().count();
            let grow = step % 300 < 130 && len < 40;
            let there = slots.iter().position(|s| s.is_some_and(|s| s.0 == m));
            if grow && there.is_none() {
                let slot = slots.iter().position(Option::is_none).unwrap();
                let r = rule(m, 7, slot as u32);
                assert_eq!(fast.insert(r), judge.insert(r));
                slots[slot] = Some((m, fast.word(&m)));
            } else if !grow && len > 0 {
                let slot = slots.iter().rposition(Option::is_some).unwrap();
                let (m, _) = slots[slot].take().unwrap();
                assert_eq!(fast.remove(&m, 7), judge.remove(&m, 7));
            }
            if fast.is_near() && fast.has_other_words() {
                slots.iter_mut().flatten().for_each(|(m, word)| *word = fast.word(m));
                anew += 1;
            }
            let len = slots.iter().flatten().count();
            near += u32::from(fast.is_near());
            assert!(!fast.is_near() || len <= near::MOST);
            assert!(fast.is_near() || !(12..=near::MOST / 4 * 3).contains(&len), "{len}");
            let there = slots.iter().flatten().map(|s| *s.0.value());
            for key in
                there.chain((0..4096).skip(step as usize % 61).step_by(61).map(|n| *of(n).value()))
            {
                let want = judge.lookup(&key);
                assert_eq!(fast.lookup(&key), want);
                if fast.is_near() {
                    let (word, id) = fast.near(&key).near();
                    let slot = id.and_then(|id| slots[id.0 as usize]);
                    assert_eq!(
                        id.filter(|_| slot.is_some_and(|s| s.1 == word)),
                        want,
                        "{fields:?} {step}"
                    );
                }
            }
        }
        assert!(near > 500 && anew > 10, "{near} {anew}");
        // What has no small id, and two in one place, are not.
        let mut fast = FastTable::with_words(Words::ByOwner);
        (0..14).for_each(|i| assert!(fast.insert(rule(of(i), 7, i)).is_ok()));
        assert!(fast.is_near());
        assert!(fast.insert(rule(of(99), 7, 255)).is_ok());
        assert!(!fast.is_near() && fast.packed.way == Way::Packed);
        assert_eq!(fast.remove(&of(99), 7), Some(RuleId(255)));
        assert!(fast.is_near() && !fast.packed.is_there());
        assert!(fast.insert(rule(of(0), 8, 60)).is_ok());
        assert!(!fast.is_near());
    }
}

/// Rules with so many masks that tables of them get an index.
pub(super) fn of_many_kinds(i: u32, id: u32) -> Rule {
    let mask = u128::from(u32::MAX) << (i % 29);
    let value = u128::from(i.wrapping_mul(0x9e37_79b9)) & mask;
    let m = Match::any().with_masked(Field::Ipv4Dst, value, mask);
    rule(m.with_masked(Field::TpDst, i.into(), 0x3ff >> (i % 7)), 1, id)
}

/// Tables whose owner keeps words, beside the judge: rules of two masks and two priorities, and ids that have no byte, come and
/// go, and so does an index. Whatever a table is, it answers as the judge does.
#[test]
fn tables_of_owners_with_words_are_what_they_must() {
    use Field::{EthDst, EthSrc, VlanVid};
    let of = |n: u32, wide: bool| {
        let m = Match::any().with(EthDst, u128::from(n & 31)).with(VlanVid, 5);
        if wide { m.with_masked(EthSrc, u128::from(n & 1) << 47, 1 << 47) } else { m }
    };
    let mut random = 7u32;
    let mut number = |below: u32| {
        random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (random >> 8) % below
    };
    let (mut near, mut not) = (0, 0);
    for round in 0..60 {
        let (mut fast, mut judge) = (FastTable::with_words(Words::ByOwner), Linear::default());
        let mut words = std::collections::HashMap::new();
        let mut there: Vec<(Match, u32)> = Vec::new();
        // One kind more from round to round.
        let (masks, priorities, most) = (1 + round % 2, 1 + round / 2 % 2, 10 + round % 30);
        for step in 0..400u32 {
            if number(5) > 1 && there.len() < most as usize {
                let m = of(number(64), number(masks) > 0);
                let r = rule(m, 7 + number(priorities), 60 * (round % 5) + step);
                let want = judge.insert(r);
                assert_eq!(fast.insert(r), want);
                if want.is_ok() {
                    there.push((m, r.priority));
                    words.insert(r.id, 0);
                    if fast.is_near() {
                        words.insert(r.id, fast.word(&m));
                    }
                }
            } else if !there.is_empty() {
                let (m, priority) = there.swap_remove(number(there.len() as u32) as usize);
                assert_eq!(fast.remove(&m, priority), judge.remove(&m, priority));
            }
            if fast.is_near() && fast.has_other_words() {
                let mut anew = Vec::new();
                fast.for_each(&mut |r| anew.push((r.id, fast.word(&r.matcher))));
                words.extend(anew);
            }
            if step == 200 && round % 3 == 0 {
                // Many kinds, an index, and none of them again.
                let many: Vec<_> = (0..400u32)
                    .map(|i| of_many_kinds(i, 70_000 + i))
                    .filter(|r| fast.insert(*r).is_ok())
                    .collect();
                fast.index_now();
                many.iter().for_each(|r| assert!(fast.remove(&r.matcher, 1) == Some(r.id)));
                assert!(fast.len() > SOME / 2 || !fast.is_indexed());
            }
            assert_eq!(fast.len(), judge.len());
            let (n, _) = (number(64), near += u32::from(fast.is_near()));
            not += u32::from(!fast.is_near());
            for wide in [false, true] {
                let key = *of(n, wide).value();
                let want = judge.lookup(&key);
                assert_eq!(fast.lookup(&key), want, "{round} {step}");
                if fast.is_near() {
                    let (word, id) = fast.near(&key).near();
                    let near = id.filter(|id| words.get(id) == Some(&word));
                    let near = near.or_else(|| fast.otherwise(&key));
                    assert_eq!(fast.aside(&key).unwrap_or(near), want, "{round} {step}");
                }
            }
        }
    }
    assert!(near > 1_500 && not > 2_000, "{near} {not}");
}

/// A table that had an index is as small as one that never had, once it has few rules.
#[test]
fn tables_are_small_again() {
    let mut t = FastTable::with_words(Words::ByOwner);
    let rules: Vec<_> =
        (0..600u32).map(|i| of_many_kinds(i, i)).filter(|r| t.insert(*r).is_ok()).collect();
    assert!(t.index_now());
    rules.iter().for_each(|r| _ = t.remove(&r.matcher, 1));
    assert!(t.is_empty() && !t.is_indexed());
    (0..16).for_each(|i| assert!(t.insert(rule(mac(i), 1, i)).is_ok()));
    let without: usize = {
        let mut t = FastTable::with_words(Words::ByOwner);
        (0..16).for_each(|i| assert!(t.insert(rule(mac(i), 1, i)).is_ok()));
        t.memory_bytes()
    };
    assert!(t.is_near());
    // What is known of making an index stays.
    assert!(t.memory_bytes() < without + 256, "{} {without}", t.memory_bytes());
}
