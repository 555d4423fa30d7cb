//! Of the shapes of a table, which its answers do not show.

use super::*;
use crate::dice::dice;
use crate::field::Field;
use crate::key::WORDS;
use crate::linear::Linear;
use crate::parts::worthwhile;
use judged::Judged;

mod families;
mod grid;
mod judged;
mod leaf;
mod miss;
mod small;
mod trees;

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

/// The same where an index is there, which has rules beside it then, or none: whatever is tried next, also what is refused.
#[test]
fn insertion_numbers_run_out_beside_an_index() {
    for more in [0, 4_400] {
        let (mut fast, mut judge) = (FastTable::new(), Linear::default());
        let net = |i: u32| {
            let bits = 16 + i % 16;
            let at = u128::from(i.wrapping_mul(0x9e37_79b1) >> (32 - bits) << (32 - bits));
            let mask = u128::from(u32::MAX << (32 - bits));
            rule(Match::any().with_masked(Field::Ipv4Src, at, mask), i % 7, i)
        };
        let add = |fast: &mut FastTable, judge: &mut Linear, i| {
            assert_eq!(fast.insert(net(i)), judge.insert(net(i)));
        };
        (0..600).for_each(|i| add(&mut fast, &mut judge, i));
        let made = drafted(&mut fast);
        assert!(made.is_some_and(|d| adopted(&mut fast, d)) && fast.ranked.is_none());
        (600..600 + more).for_each(|i| add(&mut fast, &mut judge, i));
        if !fast.is_indexed() {
            let made = drafted(&mut fast);
            assert!(made.is_some_and(|d| adopted(&mut fast, d)));
        }
        fast.inserted = u32::MAX;
        let there = net(0);
        assert!(fast.try_insert(&there.matcher, there.priority, RuleId(9)).is_err());
        assert!(fast.is_indexed() && fast.inserted < 6_000);
        for i in 0..200 {
            if i > 100 {
                add(&mut fast, &mut judge, 10_000 + i);
            }
            let key = *net(i * 3).matcher.value();
            assert_eq!(fast.lookup(&key), judge.lookup(&key), "{more} {i}");
        }
    }
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
    assert!(fast.tuples() > 64 && fast.parts.sieve.is_some(), "{} tuples", fast.tuples());
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
        let mut keys = [FlowKey::default(); 37];
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
                let want = judge.lookup(&k);
                assert_eq!(fast.lookup(&k), want, "{} {step} {k:?}", v.name());
                // A burst at once, of more than are under way at a time.
                keys[step as usize / 5 % keys.len()] = k;
                let mut found = vec![None; keys.len()];
                fast.lookup_all(&keys, &mut found);
                for (k, found) in keys.iter().zip(found).filter(|_| step % 35 == 0) {
                    assert_eq!(found, judge.lookup(k), "{} {step} {k:?}", v.name());
                }
            }
        }
        assert!(ranked > 3000 && late > 1000 && unranked > 500, "{ranked} {late} {unranked}");
    }
}

/// Takes what was made of a draft, however far it is behind.
fn adopted(t: &mut FastTable, mut d: Drafted) -> bool {
    loop {
        match t.adopt(&mut d) {
            Adoption::Behind => d.catch_up(),
            end => return end == Adoption::Taken,
        }
    }
}
/// A table's rules, copied in small steps.
fn draft(t: &mut FastTable) -> Option<Draft> {
    let mut draft = t.begin_draft()?;
    while t.draft_more(&mut draft, 100) == Copying::More {}
    Some(draft)
}
fn drafted(t: &mut FastTable) -> Option<Drafted> {
    draft(t).map(Draft::make)
}

/// A table with an index answers as the oracle does, whatever changed before it was made, while it was, and since; with
/// every kind of vector instructions, and rules of few words and of many.
#[test]
fn an_index_tells_the_winner() {
    for (v, words) in Vectors::available().into_iter().flat_map(|v| [(v, 3), (v, 6)]) {
        let (mut fast, mut judge) = (FastTable::with_vectors(v), Linear::default());
        let mut x = 5u64;
        let mut random = move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            x >> 33
        };
        let (mut rules, mut under_way): (Vec<Rule>, _) = (Vec::new(), None);
        let (mut copy, mut last) = (None, Copying::More);
        let (mut indexed, mut beside, mut again, mut made) = (0, 0, 0, [0; 2]);
        for step in 0..4_800u32 {
            // Grows, stands, and shrinks.
            let had = fast.is_indexed();
            // It is copied step by step; now and then nothing changes meanwhile, but for what is refused.
            if step % 200 >= 150 && !rules.is_empty() {
                let r = rules[random() as usize % rules.len()];
                assert_eq!(
                    fast.try_insert(&r.matcher, r.priority, RuleId(0)),
                    Err(Duplicate(r.id))
                );
                assert_eq!(fast.remove(&r.matcher, 77), None);
                match step % 200 {
                    150 if copy.is_none() => copy = fast.begin_draft(),
                    199 => {
                        // What has one leaf for each key, and what has not, in turn.
                        let make = [Draft::make, Draft::make_by_rows][step as usize / 200 % 2];
                        under_way = copy.take().map(make);
                    }
                    _ => {}
                }
                for _ in 0..4 {
                    last = copy.as_mut().map_or(last, |d| fast.draft_more(d, 64));
                }
                continue;
            }
            if step % 400 == 100 {
                copy = fast.begin_draft();
            }
            if step % 3 == 0 {
                copy.iter_mut().for_each(|d| last = fast.draft_more(d, 64));
            }
            let chance = [10, 5, 1][step as usize / 1_600];
            if random() % 10 < chance || rules.is_empty() {
                // Prefixes of two words, and now and then a field of another.
                let (mut mask, mut value) = (FlowMask::default(), FlowKey::default());
                for (i, bits) in [(3, random() % 40), (4, random() % 30)] {
                    mask.0[i] = u64::MAX << (63 - bits);
                    value.0[i] = random() << 41 ^ random() << 20;
                }
                let word = 5 + random() as usize % (words - 2);
                mask.0[word] = 0xff * (random() % 2);
                value.0[word] = random() % 4;
                let r = rule(Match::new(value, mask), (random() % 50) as u32, step);
                let there = judge.insert(r);
                assert_eq!(fast.insert(r), there);
                rules.extend(there.is_ok().then_some(r));
            } else {
                let r = rules.swap_remove(random() as usize % rules.len());
                assert_eq!(fast.remove(&r.matcher, r.priority), Some(r.id));
                assert_eq!(judge.remove(&r.matcher, r.priority), Some(r.id));
            }
            // It is made of what there was some changes ago.
            if step % 200 == 30 {
                let adopted = under_way.take().is_some_and(|d| adopted(&mut fast, d));
                made[step as usize / 200 % 2] += u32::from(adopted);
                again += u32::from(adopted && had);
            }
            indexed += u32::from(fast.is_indexed());
            beside += u32::from(fast.is_indexed() && !fast.parts.is_empty());
            if step % 12 == 0 {
                let key = |n: u64| {
                    let mut k = FlowKey::default();
                    (3..5).for_each(|i| k.0[i] = n << 41 ^ n << 20);
                    if let Some(r) = rules.get(n as usize % (rules.len() + 1)) {
                        let parts = k.0.iter_mut().zip(r.matcher.mask().0).zip(r.matcher.value().0);
                        parts.for_each(|((k, m), v)| *k = *k & !m | v);
                    }
                    k
                };
                let keys: Vec<FlowKey> = (0..33).map(|_| key(random())).collect();
                let mut found = vec![None; keys.len()];
                fast.lookup_all(&keys, &mut found);
                for (k, found) in keys.iter().zip(found) {
                    let want = judge.lookup(k);
                    assert_eq!(found, want, "{} {words} {step} {k:?}", v.name());
                    assert_eq!(fast.lookup(k), want, "{} {words} {step} {k:?}", v.name());
                }
            }
        }
        let all = indexed > 1_500 && !made.contains(&0) && beside > 100 && again > 3;
        assert!(all, "{} {words} {indexed} {made:?} {beside} {again}", v.name());
        // What is left of it goes to the parts when it is small.
        while let Some(r) = rules.pop() {
            assert_eq!(fast.remove(&r.matcher, r.priority), Some(r.id));
            judge.remove(&r.matcher, r.priority);
            assert!(fast.len() == judge.len());
            assert!(fast.len() > SOME / 2 || !fast.is_indexed());
            let key = r.matcher.value();
            assert_eq!(fast.lookup(key), judge.lookup(key), "{} {words}", v.name());
        }
        assert_eq!(fast.memory_bytes() - indexing_bytes(&fast), size_of::<FastTable>());
    }
}

/// What a table keeps of making an index, when that is done.
fn indexing_bytes(t: &FastTable) -> usize {
    t.indexing.as_ref().map_or(0, |i| size_of_val(&**i) + i.heap_bytes())
}

/// What an index can't take stands beside it, and lookups ask both, until another takes all: leaves that are full, rules that are
/// everywhere, words that none looked at.
#[test]
fn what_an_index_can_not_take_stands_beside_it() {
    for v in Vectors::available() {
        let (mut fast, mut judge) = (FastTable::with_vectors(v), Linear::default());
        let five = |i: u32| {
            Match::any()
                .with_masked(Field::Ipv4Src, u128::from(i) << 7, u128::from(u32::MAX << (i % 13)))
                .with_masked(Field::Ipv4Dst, u128::from(i) << 3, u128::from(u32::MAX << (i % 7)))
        };
        let mut next = 0;
        let mut put = |fast: &mut FastTable, judge: &mut Linear, m: Match| {
            next += 1;
            let r = rule(m, next * 7919 % 500, next);
            assert_eq!(fast.insert(r), judge.insert(r));
        };
        (0..3_000).for_each(|i| put(&mut fast, &mut judge, five(i)));
        let agree = |fast: &FastTable, judge: &Linear| {
            let keys: Vec<FlowKey> = (0..64).map(|i| *five(i * 97).value()).collect();
            let mut found = vec![None; keys.len()];
            fast.lookup_all(&keys, &mut found);
            let mut together = vec![None; keys.len()];
            FastTable::lookup_several(&vec![Some(fast); keys.len()], &keys, &mut together);
            for ((k, found), together) in keys.iter().zip(found).zip(together) {
                let want = judge.lookup(k);
                assert_eq!((found, together, fast.lookup(k)), (want, want, want), "{}", v.name());
            }
        };
        assert!(fast.index_now());
        assert_eq!((fast.parts.len(), fast.packed.way), (0, Way::Ordered));
        agree(&fast, &judge);
        // All in one leaf; and ports, of which no rule has told so far.
        for i in 0..700u32 {
            put(&mut fast, &mut judge, five(1).with(Field::Ipv4Dst, 1 << 20 | u128::from(i)));
        }
        (0..120).for_each(|i| put(&mut fast, &mut judge, five(i * 31).with(Field::TpDst, 0)));
        assert_eq!(fast.packed.way, Way::Beside);
        assert!(fast.wants_index() && fast.parts.len() >= 120, "{} beside", fast.parts.len());
        agree(&fast, &judge);
        assert!(fast.index_now());
        assert_eq!((fast.parts.len(), fast.packed.way), (0, Way::Ordered));
        agree(&fast, &judge);
    }
}

/// What can't be told apart by any bits, or looks at too many words, has none; and is not tried again until it has changed much.
#[test]
fn where_an_index_is_no_use_there_is_none() {
    let mut same = FastTable::new();
    for i in 0..15_000 {
        let m = Match::any().with_masked(Field::EthDst, u128::from(i % 3), 0x3);
        assert!(same.insert(rule(m, i, i)).is_ok());
    }
    assert!(same.wants_index());
    assert!(!same.index_now() && !same.wants_index());
    assert_eq!(same.lookup(mac(0).value()), Some(RuleId(14_997)));
    // One rule that is open everywhere makes every bit seem to tell something.
    assert!(same.insert(rule(Match::any(), 20_000, 20_000)).is_ok());
    assert!(draft(&mut same).is_some_and(|d| !adopted(&mut same, d.make())));
    assert_eq!(same.lookup(mac(0).value()), Some(RuleId(20_000)));
    let mut wide = FastTable::new();
    for i in 0..6_000u32 {
        let mut mask = FlowMask([0xff; WORDS]);
        mask.0[i as usize % WORDS] = 0xf;
        let r = rule(Match::new(FlowKey([(u64::from(i) * 77) >> 3; WORDS]), mask), i, i);
        let _ = wide.insert(r);
    }
    assert!(wide.wants_index(), "{} rules", wide.len());
    assert!(!wide.index_now() && !wide.wants_index());
    // A table of one mask is one hash, which is better.
    let mut macs = FastTable::new();
    (0..6_000).for_each(|i| assert!(macs.insert(rule(mac(i), 1, i)).is_ok()));
    assert!(!macs.wants_index());
}

/// What is refused moves nothing, so that a copy that is under way misses nothing: tuples in the midst of growing.
#[test]
fn a_copy_misses_nothing() {
    let mut t = FastTable::new();
    let mut all = Vec::new();
    // Eight masks of which none covers another; each tuple has just begun to move to twice the slots.
    for n in 0..8 * 645u32 {
        let a = n / 645;
        let m = Match::any()
            .with_masked(Field::Ipv4Src, u128::from(n) << 19, u128::from(u32::MAX << (19 - a)))
            .with_masked(Field::Ipv4Dst, u128::from(n) << 14, u128::from(u32::MAX << (7 + a)));
        let r = rule(m, n, n);
        all.extend(t.insert(r).is_ok().then_some(r));
    }
    assert_eq!((t.tuples(), t.scanned()), (8, 0));
    let before: Vec<_> = all.iter().map(|r| t.lookup(r.matcher.value())).collect();
    let mut draft = t.begin_draft().unwrap();
    // One of each tuple by turns: which is copied first is its own affair.
    let mut next = (0..).map(|n| all[(n * 645 + n / 8) % all.len()]);
    while t.draft_more(&mut draft, 256) == Copying::More {
        for r in next.by_ref().take(160) {
            assert_eq!(t.try_insert(&r.matcher, r.priority, RuleId(0)), Err(Duplicate(r.id)));
            assert_eq!(t.remove(&r.matcher, u32::MAX), None);
        }
    }
    assert!(adopted(&mut t, draft.make()));
    for (r, before) in all.iter().zip(before) {
        assert_eq!(t.lookup(r.matcher.value()), before, "{r:?}");
    }
}

/// Rules in a table and in the oracle that come and go, of kinds that stand in tuples of their own.
struct Changing {
    fast: FastTable,
    judge: Linear,
    rules: Vec<(u64, Rule)>,
    random: u64,
}

impl Changing {
    fn random(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }
    fn put(&mut self, kind: u64) {
        use Field::{EthDst, Ipv4Dst, Ipv4Src, TpDst, VlanVid};
        let field = [EthDst, Ipv4Dst, Ipv4Src, TpDst, VlanVid][kind as usize % 5];
        let m = Match::any().with_masked(field, self.random(1 << 11).into(), 0xfff).with_masked(
            Ipv4Src,
            u128::from(self.random(1 << 20)) << 12,
            u128::from(u32::MAX << (12 + kind / 5)),
        );
        let r = rule(m, self.random(50) as u32, self.random(1 << 30) as u32);
        let there = self.judge.insert(r);
        assert_eq!(self.fast.insert(r), there);
        self.rules.extend(there.is_ok().then_some((kind, r)));
    }
    fn remove(&mut self, at: usize) {
        let (_, r) = self.rules.swap_remove(at);
        let gone = self.judge.remove(&r.matcher, r.priority);
        assert_eq!(self.fast.remove(&r.matcher, r.priority), gone);
    }
    fn change(&mut self, kind: u64, grow: u64) {
        if self.random(10) < grow || self.rules.is_empty() {
            return self.put(kind);
        }
        let at = self.random(self.rules.len() as u64) as usize;
        self.remove(at);
    }
    /// All of one kind go.
    fn remove_kind(&mut self, kind: u64) {
        while let Some(at) = self.rules.iter().position(|r| r.0 == kind) {
            self.remove(at);
        }
    }
    fn check(&self, what: u32) {
        let (mut all, mut want) = (Vec::new(), Vec::new());
        self.fast.for_each(&mut |r| all.push((r.priority, r.id, r.matcher.value().0)));
        self.judge.for_each(&mut |r| want.push((r.priority, r.id, r.matcher.value().0)));
        [&mut all, &mut want].into_iter().for_each(|all| all.sort_unstable());
        assert_eq!(all, want, "{what}");
        for (_, r) in self.rules.iter().step_by(7) {
            let key = r.matcher.value();
            assert_eq!(self.fast.lookup(key), self.judge.lookup(key), "{what}");
        }
    }
}

/// A copy goes on while rules come and go, tuples grow, shrink and disband, and others are made: what becomes of it is the table.
#[test]
fn a_copy_goes_on_while_all_moves() {
    let (mut moved, mut behind, mut taken) = (0, 0, 0);
    for round in 0..60u32 {
        let (fast, judge) = (FastTable::new(), Linear::default());
        let mut c = Changing { fast, judge, rules: Vec::new(), random: u64::from(round) };
        (0..300 + 60 * u64::from(round)).for_each(|i| c.change(i % 25, 9));
        let mut draft = c.fast.begin_draft().unwrap();
        let (grow, many) = ([9, 5, 1][round as usize % 3], u64::from(round) % 7);
        let mut step = 0;
        while c.fast.draft_more(&mut draft, 16) == Copying::More {
            let before = c.fast.tuples();
            (0..many).for_each(|i| c.change(step / 8 + i, grow));
            match step % 16 {
                7 => (0..60).for_each(|_| c.put(25 + step / 16 % 10)),
                15 => c.remove_kind(step / 16),
                _ => {}
            }
            moved += u32::from(c.fast.tuples() != before);
            step += 1;
        }
        let mut made = draft.make_by_rows();
        let end = loop {
            (0..80 >> (behind % 3)).for_each(|i| c.change(i % 25, grow));
            match c.fast.adopt(&mut made) {
                Adoption::Behind => behind += 1,
                end => break end,
            }
            made.catch_up();
        };
        taken += u32::from(end == Adoption::Taken);
        c.check(round);
        (0..300).for_each(|i| c.change(i % 25, 5));
        c.check(round);
    }
    assert!(moved > 100 && behind > 20 && taken > 15, "{moved} {behind} {taken}");
}

/// Rules that go beside an index, for it has no words for them or they would stand in too many leaves, come while it is made: they
/// keep nobody from taking it.
#[test]
fn what_goes_beside_is_no_reason_to_wait() {
    let ip = Match::any().with(Field::EthType, 0x800);
    let port = |n: u32| Match::any().with(Field::InPort, n.into());
    let station = |n: u32| Match::any().with(Field::EthDst, n.into());
    for of in [port as fn(u32) -> Match, station] {
        let mut t = FastTable::new();
        for n in 0..150_000 {
            let (from, to) = (u128::from(n % 400), u128::from(n / 400));
            let m = ip.with(Field::Ipv4Src, from).with(Field::Ipv4Dst, to);
            let matcher = if n % 3 == 0 { m.with(Field::TpDst, 7) } else { m };
            t.insert(Rule { matcher, priority: n % 3, id: RuleId(n) }).expect("a rule of its own");
        }
        let mut draft = t.begin_draft().expect("it has room for an index");
        while t.draft_more(&mut draft, 256) == Copying::More {}
        let mut made = draft.make();
        for n in 0..60 {
            let rule = Rule { matcher: of(n), priority: 9, id: RuleId(150_000 + n) };
            t.insert(rule).expect("new");
        }
        assert_eq!(t.adopt(&mut made), Adoption::Taken);
        assert!(t.leaves() > 256 && t.tuples() > 0, "{}", t.leaves());
        assert_eq!(t.lookup(of(59).value()), Some(RuleId(150_059)));
    }
}

/// An index that was made of another table, or of the same too long ago, is not taken.
#[test]
fn an_index_of_the_past_is_refused() {
    let mut t = FastTable::new();
    let five = |i: u32| {
        Match::any()
            .with_masked(Field::Ipv4Src, u128::from(i) << 7, u128::from(u32::MAX << (i % 13)))
            .with_masked(Field::Ipv4Dst, u128::from(i) << 3, u128::from(u32::MAX << (i % 7)))
    };
    (0..6_000).for_each(|i| _ = t.insert(rule(five(i), i, i)));
    assert!(t.wants_index());
    let (first, mut other) = (draft(&mut t).unwrap(), FastTable::new());
    assert!(!t.wants_index());
    let second = drafted(&mut t).unwrap();
    assert!(!adopted(&mut t, first.make()) && !adopted(&mut other, second));
    // A copy that is not whole.
    let mut half = t.begin_draft().unwrap();
    assert_eq!(t.draft_more(&mut half, 100), Copying::More);
    assert!(!adopted(&mut t, half.make()));
    // More has changed than was noted.
    let third = drafted(&mut t).unwrap();
    for i in 0..20_000 {
        t.remove(&five(i % 6_000), i % 6_000);
        _ = t.insert(rule(five(i % 6_000), i % 6_000, i));
    }
    assert!(!adopted(&mut t, third) && !t.is_indexed() && t.wants_index());
    assert!(t.index_now());
    let bytes = t.memory_bytes();
    (0..6_000).for_each(|i| _ = t.remove(&five(i), i));
    assert!(!t.is_indexed() && t.memory_bytes() < bytes / 20);
}

/// Tables of every kind, asked together, answer as each does by itself and as the oracle does; where there is no table, nothing
/// is found anew.
#[test]
fn several_tables_answer_together() {
    let x = std::cell::Cell::new(3u64);
    let random = |n: u64| {
        x.set(
            x.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
        (x.get() >> 33) % n
    };
    // So many rules, of so many words, each of which is open as far as `open` lets it be.
    let table = |v, rules: u32, words: usize, open: u64| {
        let (mut fast, mut judge) = (FastTable::with_vectors(v), Linear::default());
        for id in 0..rules {
            let (mut mask, mut value) = (FlowMask::default(), FlowKey::default());
            for i in 0..words {
                mask.0[2 + i] = u64::MAX << random(open);
                value.0[2 + i] = random(256) << random(40) & mask.0[2 + i];
            }
            let r = rule(Match::new(value, mask), random(50) as u32, id);
            assert_eq!(fast.insert(r), judge.insert(r));
        }
        (fast, judge)
    };
    let way = |t: &FastTable| match (t.packed.way, t.ranked.is_some(), t.tuples()) {
        (Way::Ordered, true, _) => "ranked",
        (Way::Ordered, false, _) => "indexed",
        (Way::Beside, _, _) => "beside",
        (Way::Parts, _, 0) => "rest",
        (Way::Parts, _, _) => "parts",
        (Way::Packed, _, _) => "packed",
        (Way::Near, _, _) => "near",
        (Way::NearAside, _, _) => "near, aside",
        (Way::Aside, _, _) => "aside",
        (Way::Tuple, _, _) => "tuple",
        (Way::Crowded, _, _) => "crowded",
    };
    for v in Vectors::available() {
        let mut all: Vec<(FastTable, Linear)> = Vec::new();
        for (rules, words, open) in [
            (0, 1, 1),
            (5, 1, 9),
            (30, 1, 1),
            (40, 2, 1),
            (40, 2, 3),
            (90, 3, 9),
            (300, 2, 30),
            (300, 6, 9),
        ] {
            all.push(table(v, rules, words, open));
        }
        // Exact rules, and many in one slot of theirs, or a few of another kind.
        for (at, rules) in [(mac(7), 60), (Match::any(), 24)] {
            let (mut fast, mut judge) = (FastTable::with_vectors(v), Linear::default());
            for id in 0..rules {
                let bit = 1 << (id % 32);
                let m = match id {
                    0..20 => mac(id),
                    _ => at.with_masked(Field::Ipv4Src, u128::from(id / 32) * bit, bit),
                };
                let r = rule(m, id, id);
                assert_eq!(fast.insert(r), judge.insert(r));
            }
            all.push((fast, judge));
        }
        for (words, make) in [
            (2, Draft::make as fn(_) -> _),
            (2, Draft::make_by_rows),
            (5, Draft::make),
            (5, Draft::make_by_rows),
        ] {
            // Of several sizes, so that trees which are asked alike differ.
            for rules in [40, 100, 450, 700, 1_500] {
                let (mut fast, judge) = table(v, rules, words, 14);
                let made = draft(&mut fast).map(make);
                assert!(made.is_some_and(|d| adopted(&mut fast, d)), "{words}");
                all.push((fast, judge));
            }
        }
        let mut kinds: Vec<&str> = all.iter().map(|(t, _)| way(t)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert_eq!(all.iter().filter(|(t, _)| t.has_narrow_index()).count(), 4);
        for n in 1..120 {
            let (mut tables, mut keys, mut want) = (Vec::new(), Vec::new(), Vec::new());
            for i in 0..n {
                let which = &all[random(all.len() as u64) as usize];
                let mut key = FlowKey([random(256) << random(40); WORDS]);
                let (mut at, mut fits) = (random(which.1.len().max(1) as u64), None);
                which.1.for_each(&mut |r| {
                    fits = if at == 0 { Some(r.matcher) } else { fits };
                    at = at.wrapping_sub(1);
                });
                if let Some(m) = fits.filter(|_| i % 4 != 0) {
                    let parts = key.0.iter_mut().zip(m.mask().0).zip(m.value().0);
                    parts.for_each(|((k, m), v)| *k = *k & !m | v);
                }
                let is_there = random(9) != 0;
                assert_eq!(which.0.lookup(&key), which.1.lookup(&key));
                want.push(if is_there { which.1.lookup(&key) } else { Some(RuleId(u32::MAX)) });
                tables.push(is_there.then_some(&which.0));
                keys.push(key);
            }
            let mut found = vec![Some(RuleId(u32::MAX)); n];
            FastTable::lookup_several(&tables, &keys, &mut found);
            assert_eq!(found, want, "{} {n}", v.name());
        }
    }
}

/// A hash table that has grown moves without changes, too, and is copied meanwhile as if it did not.
#[test]
fn what_grows_moves_by_itself() {
    let exact = |n: u32| rule(mac(n), n % 3, n);
    for n in [330, 1_290, 5_130, 700] {
        let (mut fast, mut judge) = (FastTable::new(), Linear::default());
        for r in (0..n).map(exact) {
            assert_eq!(fast.insert(r), judge.insert(r));
        }
        // And shrinks.
        let gone = if n == 700 { 450 } else { 0 };
        for r in (0..gone).map(exact) {
            assert_eq!(fast.remove(&r.matcher, r.priority), judge.remove(&r.matcher, r.priority));
        }
        let bytes = fast.memory_bytes();
        let mut draft = fast.begin_draft().unwrap();
        let mut steps = 0;
        while fast.move_on(64) {
            steps += 1;
            fast.draft_more(&mut draft, 16);
            for key in (0..n + 40).step_by(371).map(|n| *mac(n).value()) {
                assert_eq!(fast.lookup(&key), judge.lookup(&key));
            }
        }
        assert!(steps > 0 && fast.memory_bytes() < bytes + 4_096, "{n} {steps}");
        while fast.draft_more(&mut draft, 16) == Copying::More {}
        if n != 700 {
            assert!(adopted(&mut fast, draft.make_by_families()) && fast.is_indexed());
        }
        for key in (0..n + 40).map(|n| *mac(n).value()) {
            assert_eq!(fast.lookup(&key), judge.lookup(&key));
        }
    }
}
