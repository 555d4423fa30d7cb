//! Of the shapes of a table, which its answers do not show.

use super::*;
use crate::field::Field;
use crate::key::WORDS;
use crate::linear::Linear;

fn rule(m: Match, priority: u32, id: u32) -> Rule {
    Rule { matcher: m, priority, id: RuleId(id) }
}

fn mac(n: u32) -> Match {
    Match::any().with(Field::EthDst, n.into())
}

/// When the insertion numbers are used up, they are given out anew and no order changes.
#[test]
fn insertion_numbers_run_out() {
    let (mut fast, mut judge) = (FastTable::new(), Linear::default());
    fast.inserted = u32::MAX - 60;
    for i in 0..200 {
        // Prefixes of one address and full addresses: overlapping, of equal priorities.
        let m = match i % 4 {
            0 => Match::any().with_masked(Field::EthDst, 0, Field::EthDst.full() << (i / 4)),
            _ => mac(i),
        };
        let r = rule(m, i % 3, i);
        assert_eq!(fast.insert(r), judge.insert(r));
        for n in 0..=i {
            assert_eq!(fast.lookup(mac(n).value()), judge.lookup(mac(n).value()), "{i} {n}");
        }
    }
    assert!(fast.inserted < 400);
}

#[test]
fn small_tables_are_small() {
    assert!(size_of::<FastTable>() <= 128);
    let mut same = FastTable::new();
    (0..16).for_each(|i| assert!(same.insert(rule(mac(i), 1, i)).is_ok()));
    assert!(same.memory_bytes() <= 2304, "{}", same.memory_bytes());
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

/// However the masks are chosen, `n` rules make at most `√n` tuples.
#[test]
fn tuple_explosion_is_bounded() {
    let mut t = FastTable::new();
    let mut x = 1u64;
    for i in 0..4096u32 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let m = Match::any()
            .with_masked(Field::EthDst, u128::from(x >> 9), u128::from(x >> 16))
            .with_masked(Field::Ipv4Src, u128::from(x >> 3), u128::from(x.rotate_left(17)));
        let _ = t.insert(rule(m, i % 50, i));
        assert!(t.tuples() * t.tuples() <= t.len(), "{} of {}", t.tuples(), t.len());
    }
    assert!(t.len() > 4000);
}

/// A table that was large and is small again has given its memory back.
#[test]
fn memory_is_given_back() {
    let mut t = FastTable::new();
    for i in 0..20_000 {
        assert!(t.insert(rule(mac(i), 1, i)).is_ok());
    }
    let large = t.memory_bytes();
    for i in 16..20_000 {
        assert_eq!(t.remove(&mac(i), 1), Some(RuleId(i)));
    }
    assert!(t.memory_bytes() < large / 100, "{} of {large}", t.memory_bytes());
    (0..16).for_each(|i| assert_eq!(t.lookup(mac(i).value()), Some(RuleId(i))));
}

/// Masks none of which is within another, each with more rules than the one before, so that there are
/// more tuples than a word of the sieve has bits: the answers are the oracle's while rules come and
/// while they go.
#[test]
fn a_sieve_leaves_nothing_out() {
    let (mut fast, mut judge) = (FastTable::new(), Linear::default());
    let mut x = 7u64;
    let mut random = move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x >> 33
    };
    let mut rules = Vec::new();
    for tuple in 0..72 {
        let mut mask = FlowMask::default();
        mask.0[tuple / 5] = 0xfff << (12 * (tuple % 5));
        mask.0[WORDS - 1] = 0xfff;
        for _ in 0..2 * worthwhile(tuple) {
            let m = Match::new(FlowKey([random() << 33 ^ random(); WORDS]), mask);
            let r = rule(m, (random() % 50) as u32, rules.len() as u32);
            let there = judge.insert(r);
            assert_eq!(fast.insert(r), there);
            rules.extend(there.is_ok().then_some(r));
        }
    }
    assert!(fast.tuples() > 64 && fast.sieve.is_some(), "{} tuples", fast.tuples());
    let mut keys = Vec::new();
    for i in 0..300 {
        let mut k = FlowKey([random() << 33 ^ random(); WORDS]);
        // Most of them fit some rules, all of them perhaps others by chance.
        for _ in 0..i % 4 {
            let r = rules[random() as usize % rules.len()].matcher;
            k.0.iter_mut()
                .zip(r.mask().0)
                .zip(r.value().0)
                .for_each(|((k, m), v)| *k = *k & !m | v);
        }
        keys.push(k);
    }
    let agree = |fast: &FastTable, judge: &Linear| {
        for k in &keys {
            assert_eq!(fast.lookup(k), judge.lookup(k), "{} rules, {k:?}", judge.len());
        }
    };
    agree(&fast, &judge);
    while !rules.is_empty() {
        for _ in 0..rules.len().min(3000) {
            let r = rules.swap_remove(random() as usize % rules.len());
            assert_eq!(fast.remove(&r.matcher, r.priority), Some(r.id));
            judge.remove(&r.matcher, r.priority);
        }
        agree(&fast, &judge);
    }
    assert_eq!(fast.memory_bytes(), size_of::<FastTable>());
}

/// Rules of many masks come in any order and go again, past the most that stand by rank and back: the
/// answers are the oracle's, with every kind of vector instructions.
#[test]
fn ranks_tell_the_winner() {
    for v in Vectors::available() {
        let (mut fast, mut judge) = (FastTable::with_vectors(v), Linear::default());
        let mut x = 11u64;
        let mut random = move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            x >> 33
        };
        let mut rules: Vec<Rule> = Vec::new();
        let (mut ranked, mut late, mut unranked) = (0, 0, 0);
        for step in 0..9000u32 {
            // Up past the most, and down to a few.
            if step < 5000 || step % 8 == 0 {
                // Prefixes of few addresses, so that many overlap; words join while there are rules.
                let word = if step > 700 && random() % 8 == 0 { 1 } else { 3 };
                let mut mask = FlowMask::default();
                mask.0[word] = u64::MAX << (random() % 56);
                mask.0[4] = 0xffff << (16 * (random() % 4));
                let m = Match::new(FlowKey([(random() % 64) << (random() % 60); WORDS]), mask);
                let r = rule(m, (random() % 20) as u32, step);
                let there = judge.insert(r);
                assert_eq!(fast.insert(r), there);
                rules.extend(there.is_ok().then_some(r));
            } else if !rules.is_empty() {
                let r = rules.swap_remove(random() as usize % rules.len());
                assert_eq!(fast.remove(&r.matcher, r.priority), Some(r.id));
                assert_eq!(judge.remove(&r.matcher, r.priority), Some(r.id));
            }
            match &fast.ranked {
                Some(r) => (ranked, late) = (ranked + 1, late + usize::from(r.has_late())),
                None => unranked += 1,
            }
            if step % 5 == 0 {
                let mut k = FlowKey([(random() % 64) << (random() % 60); WORDS]);
                if !rules.is_empty() {
                    let m = rules[random() as usize % rules.len()].matcher;
                    let parts = k.0.iter_mut().zip(m.mask().0).zip(m.value().0);
                    parts.for_each(|((k, m), v)| *k = *k & !m | v);
                }
                assert_eq!(fast.lookup(&k), judge.lookup(&k), "{} {step} {k:?}", v.name());
            }
        }
        assert!(ranked > 3000 && late > 1000 && unranked > 500, "{ranked} {late} {unranked}");
    }
}
