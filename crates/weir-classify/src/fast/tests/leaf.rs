//! Tables of few rules have an index of one leaf, and give it up where another shape is better.

use super::*;
use crate::dice::dice;

/// Rules that a leaf has room for.
const LEAF: u32 = 416;

/// Addresses of one kind or the other, as stations that may send and where they are stand in a table.
fn either(n: u32) -> Rule {
    let field = if n.is_multiple_of(2) { Field::EthDst } else { Field::EthSrc };
    rule(Match::any().with(field, n.into()), n % 3, n)
}
/// Addresses, but for as many.
fn exact_but(others: u32, n: u32) -> Rule {
    if n < others {
        return rule(Match::any().with(Field::IpProto, n.into()), 0, n);
    }
    rule(mac(n), n % 3, n)
}
/// A few of others stand aside.
fn nearly_exact(n: u32) -> Rule {
    exact_but(4, n)
}
/// These are more.
fn less_exact(n: u32) -> Rule {
    exact_but(12, n)
}
/// Rules of hundreds of masks, some of which ask for few bits.
fn of_kinds(n: u32) -> Rule {
    let m = super::small::of_many_kinds(n, n);
    rule(m.matcher.with_masked(Field::Ipv4Src, n.into(), 0xff << (n % 17)), n % 5, n)
}

/// A table beside its judge.
struct Beside {
    fast: FastTable,
    judge: Linear,
}

impl Beside {
    fn of(rules: impl Iterator<Item = Rule>) -> Self {
        let mut out = Self { fast: FastTable::new(), judge: Linear::default() };
        rules.for_each(|r| out.put(r));
        out
    }
    fn put(&mut self, r: Rule) {
        assert_eq!(self.fast.insert(r), self.judge.insert(r));
    }
    fn take(&mut self, r: Rule) {
        let gone = self.judge.remove(&r.matcher, r.priority);
        assert_eq!(self.fast.remove(&r.matcher, r.priority), gone);
    }
    /// Answers as the judge does what fits any of these, or nothing.
    fn check(&self, rules: impl Iterator<Item = Rule>) {
        assert_eq!(self.fast.len(), self.judge.len());
        let (rules, nothing): (Vec<Rule>, _) = (rules.collect(), FastTable::new());
        let keys: Vec<FlowKey> = rules.iter().map(|r| *r.matcher.value()).collect();
        let (mut all, mut several) = (vec![None; keys.len()], vec![None; keys.len()]);
        self.fast.lookup_all(&keys, &mut all);
        // Beside others, which have no rule.
        let tables: Vec<_> =
            (0..keys.len()).map(|i| Some(if i % 8 == 7 { &nothing } else { &self.fast })).collect();
        FastTable::lookup_several(&tables, &keys, &mut several);
        for (i, (r, key)) in rules.iter().zip(&keys).enumerate() {
            let want = self.judge.lookup(key);
            assert_eq!((self.fast.lookup(key), all[i]), (want, want), "{r:?}");
            assert_eq!(several[i], want.filter(|_| i % 8 != 7), "{r:?}");
        }
    }
}

#[test]
fn small_tables_of_several_parts_have_one_leaf() {
    let exact = Beside::of((0..400).map(|n| rule(mac(n), 1, n)));
    assert!(!exact.fast.wants_index());
    let few = Beside::of((0..SOME as u32 - 1).map(either));
    assert!(!few.fast.wants_index());
    for (kind, parts) in [(either as fn(u32) -> Rule, 2), (of_kinds, 0)] {
        let mut t = Beside::of((0..SOME as u32).map(kind));
        assert!(t.fast.wants_index());
        let before = t.fast.memory_bytes();
        assert!(t.fast.index_now() && t.fast.leaves() == 1);
        // A leaf's rows, which are narrow, and some.
        assert!(t.fast.memory_bytes() < before + (6 << 10), "{}", t.fast.memory_bytes());
        t.check((0..64).map(kind));
        // With more than 120 they are no more.
        for n in 32..LEAF {
            t.put(kind(n));
            if n % 32 < 2 || (118..124).contains(&n) {
                t.check((0..n + 8).map(kind));
            }
        }
        assert!(t.fast.memory_bytes() > before + (12 << 10), "{}", t.fast.memory_bytes());
        assert!(t.fast.leaves() == 1 && t.fast.parts.is_empty() && !t.fast.wants_index());
        t.check((0..600).map(kind));
        // Who goes to and fro keeps it; with half as many as it wants for one, it has none.
        (17..LEAF).for_each(|n| t.take(kind(n)));
        assert!(t.fast.is_indexed());
        (17..31).for_each(|n| t.put(kind(n)));
        assert!(t.fast.is_indexed());
        (16..31).for_each(|n| t.take(kind(n)));
        assert!(!t.fast.is_indexed() && t.fast.len() == 16);
        assert!(parts == 0 || t.fast.tuples() <= parts);
        t.check((0..600).map(kind));
    }
}

/// In a leaf of few places rules come and go as in any, and what is done to one table is not to its clone.
#[test]
fn rules_come_and_go_where_places_are_few() {
    for v in Vectors::available() {
        for kind in [either as fn(u32) -> Rule, of_kinds] {
            let (fast, judge) = (FastTable::with_vectors(v), Linear::default());
            let (mut t, mut below) = (Beside { fast, judge }, dice(7));
            (0..100).for_each(|n| t.put(kind(n)));
            assert_eq!(t.fast.len(), 100);
            assert!(t.fast.index_now() && t.fast.has_narrow_index());
            let (mut there, mut next): (Vec<u32>, u32) = ((0..100).collect(), 100);
            for round in 0..2_000 {
                if there.len() < 119 && (there.len() < 90 || below(2) == 0) {
                    // Some of them come back.
                    let n = if below(3) == 0 { below(next.into()) as u32 } else { next };
                    if !there.contains(&n) {
                        t.put(kind(n));
                        there.push(n);
                    }
                    next = next.max(n + 1);
                } else {
                    let at = below(there.len() as u64) as usize;
                    t.take(kind(there.swap_remove(at)));
                }
                if round % 100 == 0 {
                    t.check((next.saturating_sub(200)..next + 8).map(kind));
                }
            }
            assert!(t.fast.has_narrow_index() && t.fast.parts.is_empty());
            // Beyond a leaf of few places, too.
            for wide in [false, true] {
                if wide {
                    (next..next + 200).for_each(|n| t.put(kind(n)));
                }
                let mut clone = Beside { fast: t.fast.clone(), judge: t.judge.clone() };
                there.iter().take(20).for_each(|n| clone.take(kind(*n)));
                there.iter().skip(20).take(20).for_each(|n| t.take(kind(*n)));
                there.drain(..40);
                clone.check((0..next + 300).map(kind));
                t.check((0..next + 300).map(kind));
                assert_eq!(t.fast.has_narrow_index(), !wide);
                next += 200;
            }
        }
    }
}

/// What has outgrown its index has parts again where these are few, whatever changes while that is found out; else another index.
#[test]
fn a_table_that_outgrows_its_index_has_what_is_better() {
    let kinds = [(either as fn(u32) -> Rule, 2), (less_exact, 0), (of_kinds, 0)];
    for (kind, tuples) in kinds {
        let mut t = Beside::of((0..300).map(kind));
        assert!(t.fast.index_now());
        let (mut under_way, mut made) = (None, None);
        let mut lost = 0;
        for n in 300..8_500 {
            t.put(kind(n));
            if n % 3 == 0 {
                // What is copied, or was, goes, and comes again behind others of its priority.
                let again = kind(n * 7 % n);
                t.take(again);
                t.put(again);
            }
            if n % 41 == 0 {
                t.take(kind(n - 1));
            }
            if t.fast.wants_index() && under_way.is_none() && made.is_none() {
                under_way = t.fast.begin_draft();
            }
            if let Some(mut draft) = under_way.take() {
                match t.fast.draft_more(&mut draft, 64) {
                    Copying::More => under_way = Some(draft),
                    Copying::Whole => made = Some((n, draft.make())),
                    Copying::Broken => {}
                }
            }
            // More changes than are done at once have been noted by then.
            if let Some((since, drafted)) = made.take() {
                match n - since {
                    ..90 => made = Some((since, drafted)),
                    _ => {
                        lost += u32::from(adopted(&mut t.fast, drafted) && !t.fast.is_indexed());
                    }
                }
            }
            if n % 997 == 0 {
                t.check((0..n + 50).step_by(9).map(kind));
            }
        }
        assert_eq!((t.fast.is_indexed(), t.fast.tuples()), (tuples == 0, tuples));
        // No two kinds of addresses can be cut so that every key has one leaf.
        assert_eq!(lost, u32::from(tuples > 0));
        t.check((0..8_600).step_by(7).map(kind));
        (0..8_500).map(kind).for_each(|r| _ = t.fast.remove(&r.matcher, r.priority));
        assert_eq!(t.fast.len(), 0);
    }
}

/// Addresses and a port of them, and addresses.
fn service(n: u32) -> Rule {
    let to = Match::any().with(Field::Ipv4Dst, (n / 2).into());
    match n % 2 {
        0 => rule(to.with(Field::TpDst, (n % 7).into()), 9, n),
        _ => rule(to, n % 5, n),
    }
}
/// The same, an address each: one tuple that says of half of its rules what they ask.
fn service_alone(n: u32) -> Rule {
    let to = Match::any().with(Field::Ipv4Dst, n.into());
    match n % 2 {
        1 => rule(to.with(Field::TpDst, (n % 7).into()), 9, n),
        _ => rule(to, n % 5, n),
    }
}
/// Networks of four sizes.
fn network(n: u32) -> Rule {
    let (size, of) = (4 * (n % 4), u128::from(n));
    rule(
        Match::any().with_masked(Field::Ipv4Dst, of << size, u128::from(u32::MAX << size)),
        32 - size,
        n,
    )
}
/// Addresses of which some ask a port besides: one tuple that has them all, each in a place of its own.
fn at_ports(n: u32) -> Rule {
    match n % 20 {
        0 => rule(mac(n).with(Field::InPort, (n % 3).into()), 9, n),
        _ => rule(mac(n), 1, n),
    }
}

/// Few parts of many rules give way to an index whose keys have one leaf, and stay where there is none; what is one tuple, or that and
/// a few rules that are scanned, does not want any.
#[test]
fn large_tables_of_few_parts_have_an_index_of_one_leaf_a_key() {
    const MANY: u32 = 5_000;
    for (kind, indexed) in [
        (service as fn(u32) -> Rule, true),
        (service_alone, true),
        (network, true),
        (either, false),
    ] {
        let mut t = Beside::of((0..MANY).map(kind));
        assert!(t.fast.wants_index() && t.fast.tuples() < 3);
        assert_eq!((t.fast.index_now(), t.fast.is_indexed()), (indexed, indexed));
        // It is no more tried than what is there is made again.
        assert!(!t.fast.wants_index());
        t.check((0..MANY + 50).map(kind));
        for n in (0..MANY).step_by(3) {
            t.take(kind(n));
            t.put(kind(n + MANY));
        }
        t.check((0..2 * MANY).step_by(3).map(kind));
        assert!(!t.fast.wants_index());
    }
    let exact = |n| rule(mac(n), 1, n);
    for (kind, many) in
        [(exact as fn(u32) -> Rule, MANY), (at_ports, MANY), (at_ports, 500), (nearly_exact, MANY)]
    {
        let t = Beside::of((0..many).map(kind));
        assert!(t.fast.tuples() == 1 && !t.fast.wants_index());
    }
}

/// Where parts were few no index was better; when they have become many, one whose keys have several leaves is.
#[test]
fn what_had_few_parts_is_tried_again_when_it_has_many() {
    let mut t = Beside::of((0..5_000).map(either));
    assert!(t.fast.wants_index() && !t.fast.index_now() && !t.fast.wants_index());
    for n in 0..900 {
        // Masks of which none has another's bits.
        let (at, value) = (2 * (n % 12), u128::from(n / 12));
        let m = Match::any().with_masked(Field::Ipv4Src, value << at, 0xff << at);
        t.put(rule(m, n % 5, 5_000 + n));
    }
    assert!(t.fast.tuples() >= 8 && t.fast.wants_index());
    assert!(t.fast.index_now() && t.fast.is_indexed());
    t.check((0..5_000).step_by(9).map(either));
}

/// The same where parts are few because an index of what the table was has given way to them, and where there were too few rules for
/// keys of several leaves.
#[test]
fn what_was_tried_with_one_leaf_a_key_is_tried_with_several() {
    let odd = |n: u32| {
        let (at, value) = (2 * (n % 12), u128::from(n / 12));
        rule(Match::any().with_masked(Field::Ipv4Src, value << at, 0xff << at), n % 5, 9_000 + n)
    };
    let mut outgrown = Beside::of((0..300).map(either));
    assert!(outgrown.fast.index_now() && outgrown.fast.is_indexed());
    (300..5_000).for_each(|n| outgrown.put(either(n)));
    assert!(outgrown.fast.index_now() && !outgrown.fast.is_indexed());
    assert!(!outgrown.fast.wants_index());
    (0..900).for_each(|n| outgrown.put(odd(n)));
    assert!(outgrown.fast.wants_index() && outgrown.fast.index_now());
    assert!(outgrown.fast.is_indexed() && !outgrown.fast.wants_index());
    outgrown.check((0..5_000).step_by(9).map(either));

    let mut small = Beside::of((0..2_800).map(either).chain((0..900).map(odd)));
    assert!(small.fast.wants_index() && !small.fast.index_now() && !small.fast.wants_index());
    (2_800..4_000).for_each(|n| small.put(either(n)));
    assert!(small.fast.wants_index() && small.fast.index_now() && small.fast.is_indexed());
    small.check((0..4_000).step_by(9).map(either));
}

/// What is left of an index, and is no tuple, has another.
#[test]
fn rules_of_no_tuple_have_an_index_again() {
    // Seven of each mask are too few for a tuple.
    let odd = |n: u32| {
        let mask = 0xf0f << (n / 7);
        rule(Match::any().with_masked(Field::Ipv4Src, u128::from(n % 7) << (n / 7), mask), n % 3, n)
    };
    let exact = |n: u32| rule(mac(n), 1, 100 + n);
    let mut t = Beside::of((0..35).map(odd).chain((0..45).map(exact)));
    assert!(t.fast.index_now() && t.fast.is_indexed());
    (0..45).for_each(|n| t.take(exact(n)));
    assert!(t.fast.wants_index() && t.fast.index_now());
    assert!(t.fast.is_indexed() && t.fast.tuples() == 0);
    t.check((0..35).map(odd));
}
