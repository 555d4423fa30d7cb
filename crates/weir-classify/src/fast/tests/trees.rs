//! Tables in which most rules ask for one field and some for others: a tree of these and one of those, and a leaf of each for every key.

use super::*;
use crate::simd::Vectors;

/// A table beside its judge, and rules of three kinds: by whom a frame is sent to, by who sent it, by where it came in.
struct Kinds {
    table: Judged,
    /// Of sixty, how many are of the other kinds.
    others: u64,
}

impl Kinds {
    fn of(v: Vectors, rules: u32, others: u64, random: u64) -> Self {
        let mut out = Self { table: Judged::new(v, random), others };
        for _ in 0..rules {
            let kind = out.any_kind();
            out.put(kind);
        }
        out
    }
    fn any_kind(&mut self) -> u64 {
        match self.table.random(60) {
            kind if kind < self.others => kind % 10,
            kind => kind % 3 + 10,
        }
    }
    /// Few addresses, so that frames fit rules of several kinds.
    fn put(&mut self, kind: u64) {
        let mut of = |field: Field, n| (field, u128::from(self.table.random(n)));
        let fields: &[_] = match kind {
            0..5 => &[of(Field::EthSrc, 400), of(Field::Ipv4Src, 9)],
            5..7 => &[of(Field::EthSrc, 400), of(Field::TpDst, 30), of(Field::IpProto, 3)],
            7 => &[of(Field::EthSrc, 400)],
            8 => &[of(Field::InPort, 50)],
            9 => &[of(Field::Ipv4Dst, 40), of(Field::TpDst, 30)],
            10 => &[of(Field::EthDst, 3_000)],
            11 => &[of(Field::EthDst, 3_000), of(Field::Ipv4Dst, 40), of(Field::IpProto, 3)],
            _ => &[of(Field::EthDst, 3_000), of(Field::Ipv4Src, 9)],
        };
        let m = fields.iter().fold(Match::any(), |m, (f, value)| m.with(*f, *value));
        self.table.put(m, 7);
    }
    fn change(&mut self, grow: u64) {
        if self.table.rules.is_empty() || self.table.random(10) < grow {
            let kind = self.any_kind();
            self.put(kind);
        } else {
            self.table.take();
        }
    }
    /// A key that fits two rules, most often of different kinds.
    fn key(&mut self) -> FlowKey {
        let mut key = FlowKey([self.table.random(1 << 31) << self.table.random(33); WORDS]);
        for _ in 0..2 {
            let at = self.table.random(self.table.rules.len() as u64) as usize;
            let m = self.table.rules[at].matcher;
            let parts = key.0.iter_mut().zip(m.mask().0).zip(m.value().0);
            parts.for_each(|((k, m), v)| *k = *k & !m | v);
        }
        key
    }
    /// All rules are there, and a burst of keys finds what the judge does, as each by itself.
    fn check(&mut self) {
        let (mut all, mut want) = (Vec::new(), Vec::new());
        self.table.fast.for_each(&mut |r| all.push((r.priority, r.id, r.matcher.value().0)));
        self.table.judge.for_each(&mut |r| want.push((r.priority, r.id, r.matcher.value().0)));
        [&mut all, &mut want].into_iter().for_each(|all| all.sort_unstable());
        assert_eq!(all, want);
        let keys: Vec<FlowKey> = (0..70).map(|_| self.key()).collect();
        let mut found = vec![None; keys.len()];
        self.table.fast.lookup_all(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found, self.table.judge.lookup(key));
            assert_eq!(found, self.table.fast.lookup(key));
        }
    }
    fn trees(&self) -> usize {
        self.table.fast.index.as_ref().map_or(0, |i| i.trees())
    }
}

/// Rules of all kinds come and go, before, while and after an index is made; numbers run out; it shrinks until there is none.
#[test]
fn two_trees_tell_the_winner() {
    let mut trees = [0; 3];
    for (round, v) in Vectors::available().into_iter().chain([Vectors::best(); 2]).enumerate() {
        let mut t = Kinds::of(v, 1_300, 10, round as u64);
        for step in 0..9 {
            let mut draft = t.table.fast.begin_draft().unwrap();
            while t.table.fast.draft_more(&mut draft, 64) == Copying::More {
                (0..step % 3).for_each(|_| t.change(5));
            }
            if step == 4 {
                t.table.fast.inserted = u32::MAX - 40;
                t.table.fast.forget_draft();
                draft = t.table.fast.begin_draft().unwrap();
                while t.table.fast.draft_more(&mut draft, 64) == Copying::More {}
            }
            let made = draft.make_with_others();
            (0..step % 4 * 9).for_each(|_| t.change(5));
            assert!(adopted(&mut t.table.fast, made));
            trees[t.trees()] += 1;
            for _ in 0..6 {
                (0..40).for_each(|_| t.change(if step < 6 { 5 } else { 3 }));
                t.check();
            }
        }
        while !t.table.rules.is_empty() {
            (0..150.min(t.table.rules.len())).for_each(|_| t.table.take());
            if !t.table.rules.is_empty() {
                t.check();
            }
        }
        assert!(t.table.fast.is_empty() && !t.table.fast.is_indexed());
    }
    assert!(trees[2] > trees[1] * 9, "{trees:?}");
}

/// Of rules of which one in twelve asks nothing of whom a frame is sent to a key has a leaf in two trees, though all ask for the EtherType, or
/// all but one; where one in two does it goes by rows.
#[test]
fn two_trees_are_made_where_rows_ask_many() {
    let all = Match::any().with(Field::EthType, 0x800);
    let one = |n: u32, every: u32| {
        let mixed = u128::from(n.wrapping_mul(0x9e37_79b1));
        match (n % every, n / every % 8) {
            (0, 0) => all.with(Field::InPort, (n / 9).into()),
            (0, 1) => all.with(Field::Ipv4Dst, mixed % 300).with(Field::TpDst, (n % 31).into()),
            (0, _) => all.with(Field::EthSrc, mixed).with(Field::Ipv4Src, mixed % 700),
            (_, 1..3) => all.with(Field::EthDst, mixed).with(Field::TpDst, (n % 31).into()),
            _ => all.with(Field::EthDst, mixed).with(Field::Ipv4Dst, mixed % 300),
        }
    };
    let trees_of = |every: u32, odd: Option<Match>| {
        let rules: Vec<Match> = (0..10_000).map(|n| one(n, every)).chain(odd).collect();
        let words = rules.iter().fold(0, |words, m| words | crate::scan::words_of(m.mask()));
        let best = Vectors::best();
        let mut draft = Draft::new(1, best, words, rules.len(), Wanted::Index).unwrap();
        for (n, m) in (1..).zip(&rules) {
            draft.add(7 << 32 | n, RuleId(n as u32), m);
        }
        draft.make().made.into_index().map(|i| i.trees())
    };
    let odd = Match::any().with(Field::InPort, 9_999);
    assert_eq!(
        [trees_of(12, None), trees_of(12, Some(odd)), trees_of(2, None)],
        [Some(2), Some(2), Some(1)]
    );
}

/// Tables of one tree, of two and by rows, asked together.
#[test]
fn tables_of_two_trees_answer_together() {
    for v in Vectors::available() {
        let mut all: Vec<Kinds> = Vec::new();
        for (i, (rules, others)) in
            [(1_300, 10), (700, 0), (2_000, 14), (900, 9), (1_100, 10)].into_iter().enumerate()
        {
            let mut t = Kinds::of(v, rules, others, 40 + i as u64);
            let draft = draft(&mut t.table.fast).unwrap();
            let made = if i == 4 { draft.make_by_rows() } else { draft.make_with_others() };
            assert!(adopted(&mut t.table.fast, made));
            all.push(t);
        }
        let trees: Vec<usize> = all.iter().map(Kinds::trees).collect();
        assert_eq!(trees, [2, 1, 2, 2, 1], "{}", v.name());
        for n in (1..90usize).step_by(4) {
            let which = |i: usize| i * 7 % 5;
            let keys: Vec<FlowKey> = (0..n).map(|i| all[which(i)].key()).collect();
            let tables: Vec<_> = (0..n).map(|i| Some(&all[which(i)].table.fast)).collect();
            let mut found = vec![None; n];
            FastTable::lookup_several(&tables, &keys, &mut found);
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(found[i], all[which(i)].table.judge.lookup(key), "{n} {i}");
            }
        }
    }
}

/// Rules of a kind that the others' leaves can't tell apart go to the parts, until another index is made of all.
#[test]
fn what_others_can_not_tell_apart_is_refused() {
    let mut t = FastTable::new();
    let station = |n: u32| rule(mac(n + 1), 5, n);
    let other =
        |field: Field, n: u32| rule(Match::any().with(field, (n + 1).into()), 5, 90_000 + n);
    (0..6_000).for_each(|n| assert_eq!(t.insert(station(n)), Ok(())));
    (0..240).for_each(|n| assert_eq!(t.insert(other(Field::EthSrc, n)), Ok(())));
    (0..40).for_each(|n| assert_eq!(t.insert(other(Field::Ipv4Dst, n)), Ok(())));
    let made = draft(&mut t).map(Draft::make_with_others);
    assert!(made.is_some_and(|d| adopted(&mut t, d)));
    assert_eq!(t.index.as_ref().map(|i| i.trees()), Some(2));
    for n in 0..200 {
        assert_eq!(t.remove(&other(Field::EthSrc, n).matcher, 5), Some(RuleId(90_000 + n)));
    }
    assert!(t.parts.is_empty());
    (0..430).for_each(|n| assert_eq!(t.insert(other(Field::Ipv4Src, n)), Ok(())));
    assert!(t.parts.len() > 400 && t.wants_index(), "{}", t.parts.len());
    for n in 0..430 {
        let id = RuleId(90_000 + n);
        assert_eq!(t.lookup(other(Field::Ipv4Src, n).matcher.value()), Some(id));
    }
    for n in 0..6_000 {
        assert_eq!(t.lookup(station(n).matcher.value()), Some(RuleId(n)));
    }
}
