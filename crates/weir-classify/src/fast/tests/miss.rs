//! The table-miss entry, beside tables of every shape.

use super::*;

fn any(priority: u32, id: u32) -> Rule {
    rule(Match::any(), priority, id)
}

/// A table without it has the same shape, and answers what it has where nothing else fits.
#[test]
fn a_table_has_the_shape_that_it_has_without() {
    let cidr = |n: u32| Match::any().with_masked(Field::Ipv4Dst, u128::from(n) << 8, 0xffff_ff00);
    for kept in [Words::Here, Words::ByOwner] {
        for n in [0u32, 4, 16, 100, 2_000] {
            for first in [true, false] {
                let mut alone = FastTable::with_words(kept);
                let mut with = FastTable::with_words(kept);
                assert!(!first || with.insert(any(0, 9_999)).is_ok());
                for i in 0..n {
                    let m = if n == 100 { cidr(1 + i) } else { mac(i) };
                    let r = rule(m, 1 + i % 2, i);
                    assert!(alone.insert(r).is_ok() && with.insert(r).is_ok());
                }
                assert!(first || with.insert(any(0, 9_999)).is_ok());
                assert_eq!(with.len(), alone.len() + 1);
                assert_eq!(with.packed.way, alone.packed.way);
                assert_eq!((with.tuples(), with.scanned()), (alone.tuples(), alone.scanned()));
                assert_eq!(
                    (with.wants_index(), with.is_dear()),
                    (alone.wants_index(), alone.is_dear())
                );
                assert_eq!(with.words_union(), alone.words_union());
                let key = *mac(77_777).value();
                assert_eq!((alone.lookup(&key), with.lookup(&key)), (None, Some(RuleId(9_999))));
                assert_eq!(with.find(&Match::any(), 0), Some(RuleId(9_999)));
                assert_eq!(with.insert(any(0, 5)), Err(Duplicate(RuleId(9_999))));
                assert_eq!(
                    (with.find(&Match::any(), 1), with.remove(&Match::any(), 1)),
                    (None, None)
                );
                let mut all = Vec::new();
                with.for_each(&mut |r| all.push(r.id));
                assert_eq!((all.len(), all.contains(&RuleId(9_999))), (with.len(), true));
                assert_eq!(with.remove(&Match::any(), 0), Some(RuleId(9_999)));
                assert_eq!((with.len(), with.lookup(&key)), (alone.len(), None));
            }
        }
    }
}

/// Rules that ask nothing come and go at all priorities among others, in tables with and without an index, as numbers run out;
/// whatever way is asked, the answer is the judge's.
#[test]
fn what_asks_nothing_wins_where_it_must() {
    let mut number = dice(3);
    let (mut apart, mut demoted, mut indexed) = (0, 0, 0);
    for round in 0..60u32 {
        let (mut fast, mut judge) = (FastTable::new(), Linear::default());
        let mut there: Vec<(Match, u32)> = Vec::new();
        // Few kinds and many, few priorities and more, few rules and more than an index wants.
        let (kinds, priorities) = (1 + u64::from(round % 3) * 3, 1 + u64::from(round / 3 % 4) * 2);
        let most = [12, 90][round as usize % 2];
        if round % 5 == 0 {
            fast.inserted = u32::MAX - 150;
        }
        for step in 0..500u32 {
            // Others are seldom as low.
            let (m, priority) = match number(300) {
                ..40 => (Match::any(), number(priorities) as u32 / 2),
                n => {
                    let mask = Field::EthDst.full() << number(kinds);
                    let m = Match::any().with_masked(Field::EthDst, number(64).into(), mask);
                    (m, if n == 299 { 0 } else { 1 + number(priorities) as u32 })
                }
            };
            if there.len() < most && number(5) > 0 {
                let had = fast.miss().is_some();
                let r = rule(m, priority, step);
                let want = judge.insert(r);
                assert_eq!(fast.insert(r), want);
                there.extend(want.is_ok().then_some((m, priority)));
                demoted += u32::from(had && fast.miss().is_none());
            } else if let Some(len) = there.len().checked_sub(1) {
                let (m, priority) = there.swap_remove(number(len as u64 + 1) as usize);
                assert_eq!(fast.remove(&m, priority), judge.remove(&m, priority));
            }
            if number(20) == 0 {
                fast.index_now();
            }
            apart += u32::from(fast.miss().is_some());
            indexed += u32::from(fast.miss().is_some() && fast.is_indexed());
            assert_eq!(fast.len(), judge.len());
            assert_eq!(fast.find(&m, priority), judge.find(&m, priority));
            let keys: Vec<FlowKey> = (0..5).map(|_| *mac(number(80) as u32).value()).collect();
            let want: Vec<_> = keys.iter().map(|k| judge.lookup(k)).collect();
            let singly: Vec<_> = keys.iter().map(|k| fast.lookup(k)).collect();
            let (mut all, mut several) = (vec![None; 5], vec![None; 5]);
            fast.lookup_all(&keys, &mut all);
            FastTable::lookup_several(&[Some(&fast); 5], &keys, &mut several);
            assert_eq!((&singly, &all, &several), (&want, &want, &want), "{round} {step}");
        }
    }
    assert!(apart > 5_000 && demoted > 20 && indexed > 500, "{apart} {demoted} {indexed}");
}
