//! Any sequence of calls: the fast classifier answers as the linear oracle does.
#![no_main]

use std::collections::HashMap;
use weir_classify::simd::Vectors;
use weir_classify::{
    Adoption, Classifier, Draft, FastTable, Field, FlowKey, Linear, Match, Rule, RuleId, Words,
};

const FIELDS: [Field; 6] =
    [Field::InPort, Field::EthDst, Field::Ipv4Src, Field::Ipv4Dst, Field::TpDst, Field::Ipv6Dst];

/// A key whose fields all come from two bytes, so that rules and lookups meet.
fn key(a: u8, b: u8) -> FlowKey {
    let mut k = FlowKey::default();
    for (i, f) in FIELDS.into_iter().enumerate() {
        let v = if i % 2 == 0 { a } else { b };
        k.set(f, u128::from(v >> (i / 2)));
    }
    k
}

/// Each bit of `which` lets a field in, whole or without its low bits.
fn matcher(which: u8, a: u8, b: u8) -> Match {
    let cut = u32::from(which >> 6);
    FIELDS
        .into_iter()
        .enumerate()
        .filter(|(i, _)| which >> i & 1 == 1)
        .fold(Match::any(), |m, (_, f)| {
            m.with_masked(f, key(a, b).get(f), f.full() << (3 * cut) & f.full())
        })
}

/// A table whose owner keeps words, and what it keeps: by a rule's id, as it was told.
struct Owned {
    table: FastTable,
    words: HashMap<RuleId, u64>,
}

impl Owned {
    fn changed(&mut self, came: Option<&Rule>) {
        if !self.table.is_near() {
            return;
        }
        let others = self.table.has_other_words();
        let Self { table, words } = self;
        match came {
            _ if others => table.for_each(&mut |r| _ = words.insert(r.id, table.word(&r.matcher))),
            Some(r) => _ = words.insert(r.id, table.word(&r.matcher)),
            None => {}
        }
    }
    /// The winner: of the rule that it may be, the owner says whether it is.
    fn lookup(&self, key: &FlowKey) -> Option<RuleId> {
        let all = self.table.lookup(key);
        if !self.table.is_near() {
            return all;
        }
        let (word, id) = self.table.near(key).near();
        let near = id.filter(|id| self.words.get(id) == Some(&word));
        let near = near.or_else(|| self.table.otherwise(key));
        let found = self.table.aside(key).unwrap_or(near);
        assert_eq!(found, all);
        found
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let vectors = Vectors::available();
    let Some((&first, ops)) = data.split_first() else { return };
    let mut fast = FastTable::with_vectors(vectors[usize::from(first) % vectors.len()]);
    let mut judge = Linear::default();
    // Whose owner keeps words.
    let mut near = Owned { table: FastTable::with_words(Words::ByOwner), words: HashMap::new() };
    // As it was a while ago.
    let mut other = FastTable::new();
    let (mut next, mut copy, mut made) = (0, None, None);
    for op in ops.chunks_exact(4).take(256) {
        let [kind, which, a, b] = [op[0], op[1], op[2], op[3]];
        let priority = u32::from(kind >> 6);
        // Up to sixteen neighbours at a time, so that few bytes make large tables.
        for n in 0..=(kind >> 2 & 15) {
            let (a, b) = (a.wrapping_add(n), b.wrapping_add(n / 4));
            let m = matcher(which, a, b);
            match kind & 3 {
                0 | 1 => {
                    let rule = Rule { matcher: m, priority, id: RuleId(next) };
                    next += 1;
                    assert_eq!(fast.insert(rule), judge.insert(rule));
                    if near.table.insert(rule).is_ok() {
                        near.changed(Some(&rule));
                    }
                }
                2 => {
                    assert_eq!(fast.remove(&m, priority), judge.remove(&m, priority));
                    near.table.remove(&m, priority);
                    near.changed(None);
                }
                // What was copied before the last changes becomes an index now, and another copy begins.
                _ if n == 0 => {
                    if made.is_none() {
                        made = copy.take().map(Draft::make);
                    }
                    if let Some(d) = &mut made {
                        match fast.adopt(d) {
                            // Offered again when more has changed.
                            Adoption::Behind => d.catch_up(),
                            _ => made = None,
                        }
                    } else {
                        copy = fast.begin_draft();
                    }
                }
                _ => {
                    copy.iter_mut().for_each(|d: &mut Draft| _ = fast.draft_more(d, 8));
                }
            }
            assert_eq!(fast.find(&m, priority), judge.find(&m, priority));
            assert_eq!(fast.lookup(&key(a, b)), judge.lookup(&key(a, b)));
        }
        assert_eq!(fast.len(), judge.len());
        if next % 2 == 1 {
            other = fast.clone();
        }
        let keys: Vec<FlowKey> =
            (0..40).map(|n| key(a.wrapping_add(n), b.wrapping_add(n / 3))).collect();
        let mut found = vec![None; keys.len()];
        fast.lookup_all(&keys, &mut found);
        keys.iter().zip(found).for_each(|(k, f)| assert_eq!(f, judge.lookup(k)));
        keys.iter().for_each(|k| assert_eq!(near.lookup(k), judge.lookup(k)));
        // Beside another's lookups.
        let tables: Vec<_> = (0..keys.len()).map(|n| Some([&fast, &other][n % 2])).collect();
        let mut found = vec![None; keys.len()];
        FastTable::lookup_several(&tables, &keys, &mut found);
        let want = |n: usize, k| if n % 2 == 0 { judge.lookup(k) } else { other.lookup(k) };
        keys.iter().zip(found).enumerate().for_each(|(n, (k, f))| assert_eq!(f, want(n, k)));
    }
    let union = fast.mask_union();
    judge.for_each(&mut |r| assert!(union.covers(r.matcher.mask())));
});
