//! The fast classifier against the linear oracle: the same calls, the same answers.

use proptest::prelude::*;
use weir_classify::simd::Vectors;
use weir_classify::{Classifier, FastTable, Field, FlowKey, Linear, Match, Rule, RuleId};

/// Fields whose values are drawn from small domains, so that rules overlap and lookups hit.
const FIELDS: [Field; 6] =
    [Field::InPort, Field::EthDst, Field::Ipv4Src, Field::Ipv4Dst, Field::TpDst, Field::Ipv6Dst];

#[derive(Clone, Debug)]
enum Op {
    Insert(Match, u32),
    /// Removes the n-th of the rules that are there, or a rule that is not.
    Remove(usize),
    RemoveOther(Match, u32),
    /// Removes the n-th and puts it back with another id, as a replacement does.
    Replace(usize),
    Lookup(FlowKey),
}

fn value() -> impl Strategy<Value = u128> {
    prop_oneof![3 => 0u128..4, 1 => 0u128..64]
}

/// Prefixes, suffixes, whole fields and scattered bits.
fn field_mask(f: Field) -> impl Strategy<Value = u128> {
    let full = f.full();
    prop_oneof![
        4 => Just(0u128),
        3 => Just(full),
        2 => (0..8u32).prop_map(move |n| full << n & full),
        1 => any::<u128>().prop_map(move |m| m & full),
    ]
}

fn matcher() -> impl Strategy<Value = Match> {
    let parts: Vec<_> = FIELDS.iter().map(|&f| (Just(f), value(), field_mask(f))).collect();
    parts.prop_map(|parts| {
        parts.into_iter().fold(Match::any(), |m, (f, v, mask)| m.with_masked(f, v, mask))
    })
}

fn key() -> impl Strategy<Value = FlowKey> {
    let parts: Vec<_> = FIELDS.iter().map(|&f| (Just(f), value())).collect();
    parts.prop_map(|parts| {
        let mut k = FlowKey::default();
        parts.into_iter().for_each(|(f, v)| k.set(f, v));
        k
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (matcher(), 0u32..4).prop_map(|(m, p)| Op::Insert(m, p)),
        2 => any::<usize>().prop_map(Op::Remove),
        1 => (matcher(), 0u32..4).prop_map(|(m, p)| Op::RemoveOther(m, p)),
        1 => any::<usize>().prop_map(Op::Replace),
        6 => key().prop_map(Op::Lookup),
    ]
}

/// Both classifiers, changed together.
struct Pair {
    judge: Linear,
    fast: FastTable,
    there: Vec<(Match, u32)>,
    next: u32,
}

impl Pair {
    fn new(v: Vectors) -> Self {
        Self { judge: Linear::default(), fast: FastTable::with_vectors(v), there: vec![], next: 0 }
    }
    fn insert(&mut self, matcher: Match, priority: u32) {
        let rule = Rule { matcher, priority, id: RuleId(self.next) };
        self.next += 1;
        let want = self.judge.insert(rule);
        assert_eq!(self.fast.insert(rule), want);
        if want.is_ok() {
            self.there.push((matcher, priority));
        }
    }
    fn remove(&mut self, m: &Match, priority: u32) {
        assert_eq!(self.fast.find(m, priority), self.judge.find(m, priority));
        assert_eq!(self.fast.remove(m, priority), self.judge.remove(m, priority));
        self.there.retain(|t| t != &(*m, priority));
    }
    fn lookup(&self, k: &FlowKey) {
        assert_eq!(self.fast.lookup(k), self.judge.lookup(k), "{k:?}");
    }
    fn step(&mut self, op: &Op) {
        match op {
            Op::Insert(m, p) => self.insert(*m, *p),
            Op::Remove(n) | Op::Replace(n) if !self.there.is_empty() => {
                let (m, p) = self.there[n % self.there.len()];
                self.remove(&m, p);
                if matches!(op, Op::Replace(_)) {
                    self.insert(m, p);
                }
            }
            Op::RemoveOther(m, p) => self.remove(m, *p),
            Op::Lookup(k) => self.lookup(k),
            _ => {}
        }
    }
    /// All the rules, and every bit they look at.
    fn check_whole(&self) {
        let all = |c: &dyn Classifier| {
            let mut rules = Vec::new();
            c.for_each(&mut |r| rules.push((r.priority, r.id, r.matcher)));
            rules.sort_by_key(|r| (r.0, r.1));
            rules
        };
        let rules = all(&self.judge);
        assert_eq!(all(&self.fast), rules);
        assert_eq!(self.fast.len(), rules.len());
        let union = self.fast.mask_union();
        for (_, _, m) in &rules {
            assert!(union.covers(m.mask()));
            assert!(
                m.mask()
                    .0
                    .iter()
                    .enumerate()
                    .all(|(i, &w)| { w == 0 || self.fast.words_union() >> i & 1 == 1 })
            );
            // A key made from a rule meets at least that rule.
            self.lookup(m.value());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any calls: the same answers, with every kind of vector instructions.
    #[test]
    fn as_the_oracle(ops in prop::collection::vec(op(), 0..400)) {
        for v in Vectors::available() {
            let mut pair = Pair::new(v);
            ops.iter().for_each(|op| pair.step(op));
            pair.check_whole();
            // Emptied again, it holds nothing.
            for (m, p) in std::mem::take(&mut pair.there) {
                pair.remove(&m, p);
            }
            prop_assert!(pair.fast.is_empty() && pair.fast.mask_union().is_empty());
            prop_assert_eq!(pair.fast.memory_bytes(), size_of::<FastTable>());
        }
    }

    /// Few masks and many values: tuples that grow, shrink and collide.
    #[test]
    fn few_masks(
        masks in prop::collection::vec(matcher(), 1..4),
        ops in prop::collection::vec((0usize..4, 0u128..600, 0u32..3, 0u8..4), 0..1500),
    ) {
        let mut pair = Pair::new(Vectors::best());
        for (mask, v, priority, kind) in ops {
            let mut k = FlowKey::default();
            FIELDS.iter().for_each(|&f| k.set(f, v));
            let m = Match::new(k, *masks[mask % masks.len()].mask());
            match kind {
                0 | 1 => pair.insert(m, priority),
                2 => pair.remove(&m, priority),
                _ => {}
            }
            pair.lookup(&k);
        }
        pair.check_whole();
    }
}
