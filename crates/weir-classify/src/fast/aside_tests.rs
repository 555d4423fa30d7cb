//! Tables of stations with rules for other frames aside, against the oracle: what is near, whom that lets by, who comes and goes.

use super::*;
use crate::dice::dice;
use crate::field::Field;
use crate::linear::Linear;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A table whose owner keeps words, or does not.
struct Owned {
    fast: FastTable,
    words: BTreeMap<u32, u64>,
}

impl Owned {
    fn new(kept: Words) -> Self {
        Self { fast: FastTable::with_words(kept), words: BTreeMap::new() }
    }
    /// After a change, as an owner must.
    fn refit(&mut self, came: Option<(&Match, u32)>) {
        let Self { fast, words } = self;
        if !fast.is_near() {
            return;
        }
        if fast.has_other_words() {
            let mut rules = Vec::new();
            fast.for_each(&mut |r| rules.push((r.matcher, r.id.0)));
            *words = rules.iter().map(|(m, id)| (*id, fast.word(m))).collect();
        } else if let Some((m, id)) = came {
            words.insert(id, fast.word(m));
        }
    }
    fn insert(&mut self, r: Rule) -> bool {
        let came = self.fast.insert(r).is_ok();
        self.refit(came.then_some((&r.matcher, r.id.0)));
        came
    }
    fn remove(&mut self, m: &Match, priority: u32) -> Option<RuleId> {
        let gone = self.fast.remove(m, priority);
        self.refit(None);
        gone
    }
    fn lookup(&self, key: &FlowKey) -> Option<RuleId> {
        if !self.fast.is_near() {
            return self.fast.lookup(key);
        }
        if let Some(found) = self.fast.aside(key) {
            return found;
        }
        let (word, id) = self.fast.near(key).near();
        match id.filter(|id| self.words.get(&id.0) == Some(&word)) {
            None => self.fast.otherwise(key),
            found => found,
        }
    }
}

/// Stations, and rules for others: LLDP, ARP by a port, a station's by a port, all of a vendor's, the table-miss entry.
fn matcher(kind: u8, n: u8) -> Match {
    let station = Match::any().with(Field::EthDst, 0x0200_0000_0000 + u128::from(n));
    match kind {
        0..=11 => station,
        12 => Match::any().with(Field::EthType, 0x88cc + u128::from(n % 3)),
        13 => Match::any().with(Field::EthType, 0x806).with(Field::InPort, (n % 4).into()),
        14 => station.with(Field::InPort, (n % 4).into()),
        15 => Match::any().with_masked(Field::EthDst, 0x0200_0000_0000, 0xffff_ff00_0000),
        _ => Match::any(),
    }
}

fn keys() -> Vec<FlowKey> {
    let mut all = Vec::new();
    for n in (0..=255u8).step_by(5).chain(0..48) {
        for eth in [0x800u128, 0x806, 0x88cc, 0x88cd] {
            let m = matcher(0, n).with(Field::EthType, eth).with(Field::InPort, (n % 5).into());
            all.push(*m.value());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever comes and goes, the answer is the oracle's; alone and with other tables.
    #[test]
    fn stations_with_others_aside(
        stations in 0u8..60,
        edits in prop::collection::vec((0u8..17, 0u8..48, 0u32..3, any::<bool>()), 0..60),
        by_owner: bool,
    ) {
        let kept = if by_owner { Words::ByOwner } else { Words::Here };
        let (mut table, mut judge) = (Owned::new(kept), Linear::default());
        let first = (0..stations).map(|n| (0, n, 1, true));
        let keys = keys();
        for (id, (kind, n, priority, comes)) in first.chain(edits).enumerate() {
            let m = matcher(kind, n);
            if comes {
                let r = Rule { matcher: m, priority, id: RuleId(id as u32) };
                prop_assert_eq!(table.insert(r), judge.insert(r).is_ok());
            } else {
                prop_assert_eq!(table.remove(&m, priority), judge.remove(&m, priority));
            }
            if id >= usize::from(stations) {
                for key in &keys {
                    prop_assert_eq!(table.lookup(key), judge.lookup(key), "{:?}", table.fast.packed.way);
                }
            }
        }
        for key in &keys {
            prop_assert_eq!(table.fast.lookup(key), judge.lookup(key));
        }
        let mut found = vec![None; keys.len()];
        let tables = vec![Some(&table.fast); keys.len()];
        FastTable::lookup_several(&tables, &keys, &mut found);
        prop_assert_eq!(found, keys.iter().map(|k| judge.lookup(k)).collect::<Vec<_>>());
    }
}

/// Which way a table of so many stations is asked with these rules aside.
fn way(kept: Words, stations: u8, aside: &[(u8, u8)]) -> Way {
    let mut table = Owned::new(kept);
    let all = (0..stations).map(|n| (0, n)).chain(aside.iter().copied());
    for (id, (kind, n)) in all.enumerate() {
        table.insert(Rule { matcher: matcher(kind, n), priority: 1, id: RuleId(id as u32) });
    }
    table.fast.packed.way
}

#[test]
fn a_few_rules_for_others_change_little() {
    let lldp = [(12, 0)];
    let several = [(12, 0), (12, 1), (13, 0), (13, 1)];
    for aside in [&lldp[..], &several] {
        assert_eq!(way(Words::ByOwner, 16, aside), Way::NearAside, "{aside:?}");
        assert_eq!(way(Words::Here, 16, aside), Way::Aside);
        assert_eq!(way(Words::ByOwner, 200, aside), Way::Aside);
    }
    assert_eq!(way(Words::ByOwner, 16, &[]), Way::Near);
    // The table-miss entry stands apart.
    let mut table = Owned::new(Words::ByOwner);
    let all = (0..16).map(|n| matcher(0, n)).chain([matcher(12, 0)]);
    let rules = all.enumerate().map(|(i, m)| (m, 1, i)).chain([(Match::any(), 0, 99)]);
    for (matcher, priority, id) in rules {
        table.insert(Rule { matcher, priority, id: RuleId(id as u32) });
    }
    assert_eq!(table.fast.packed.way, Way::NearAside);
    // Nor is an index wanted for them.
    let mut large = Owned::new(Words::ByOwner);
    for id in 0..3_000u32 {
        let m = match id {
            0 => matcher(12, 0),
            _ => Match::any().with(Field::EthDst, u128::from(id)),
        };
        large.insert(Rule { matcher: m, priority: 1, id: RuleId(id) });
    }
    assert!(!large.fast.wants_index());
    let ways: BTreeSet<_> = keys().iter().map(|k| large.fast.aside.lets(k)).collect();
    assert_eq!(ways.len(), 2);
}

/// A rule that asks some of what the others ask comes before them, as a controller's first one does.
#[test]
fn who_comes_first_is_aside_all_the_same() {
    let label = |n: u32| Match::any().with(Field::EthType, 0x8847).with(Field::MplsLabel, n.into());
    for others in [&[(12, 0)][..], &[(12, 0), (12, 1)]] {
        let mut table = Owned::new(Words::ByOwner);
        let first = others.iter().map(|(kind, n)| matcher(*kind, *n));
        for (id, m) in first.chain((16..1_016).map(label)).enumerate() {
            table.insert(Rule { matcher: m, priority: 1, id: RuleId(id as u32) });
        }
        assert_eq!(table.fast.packed.way, Way::Aside, "{others:?}");
    }
}

/// Rules of the tuple's own mask may stand beside it, where another tuple that had them has gone: who leaves there takes nobody else's
/// place.
#[test]
fn one_beside_the_tuple_leaves_others_their_places() {
    let (mut table, mut judge) = (Owned::new(Words::ByOwner), Linear::default());
    let kind = |n: u32| Match::any().with(Field::EthType, u128::from(0x9000 + n));
    let to = |n: u32| Match::any().with(Field::EthType, 0x800).with(Field::Ipv4Dst, n.into());
    let mut next = 0..;
    let mut put = |table: &mut Owned, judge: &mut Linear, m: Match, priority| {
        let id = RuleId(next.next().unwrap_or_default());
        let r = Rule { matcher: m, priority, id };
        assert_eq!(table.insert(r), judge.insert(r).is_ok());
    };
    (0..8).for_each(|n| put(&mut table, &mut judge, kind(n), 1));
    (0..64).for_each(|n| put(&mut table, &mut judge, to(n), 1));
    (0..16).for_each(|n| put(&mut table, &mut judge, to(n), 2));
    let take = |table: &mut Owned, judge: &mut Linear, m: Match| {
        assert_eq!(table.remove(&m, 1), judge.remove(&m, 1));
        for key in (0..70).map(|n| *to(n).value()) {
            assert_eq!(table.lookup(&key), judge.lookup(&key), "{:?}", table.fast.packed.way);
        }
    };
    (0..8).for_each(|n| take(&mut table, &mut judge, kind(n)));
    (2..64).for_each(|n| take(&mut table, &mut judge, to(n)));
    assert_eq!((table.fast.packed.way, table.fast.parts.rest.len()), (Way::NearAside, 2));
    take(&mut table, &mut judge, to(0));
}

/// A rule for all others, below the stations' priority or above it.
#[test]
fn a_rule_for_all_others_is_aside() {
    for (priority, stations) in [(0, 200), (2, 200), (1, 200), (0, 16), (2, 16)] {
        let (mut table, mut judge) = (Owned::new(Words::ByOwner), Linear::default());
        let eth = Match::any().with(Field::EthType, 0x800);
        let rules = (0..stations).map(|n| (matcher(0, n), 1));
        for (id, (matcher, priority)) in [(eth, priority)].into_iter().chain(rules).enumerate() {
            let r = Rule { matcher, priority, id: RuleId(id as u32) };
            assert_eq!(table.insert(r), judge.insert(r).is_ok());
        }
        assert!(matches!(table.fast.packed.way, Way::Aside | Way::NearAside));
        for key in keys() {
            assert_eq!(table.lookup(&key), judge.lookup(&key), "{priority} {stations}");
        }
    }
}

/// While rules move to a new tuple, and what is near changes by it, each key has its winner.
#[test]
fn rules_that_move_are_found() {
    let mut random = dice(5);
    let station = |n: u64| Match::any().with(Field::EthDst, 0x0200_0000_0000 + u128::from(n));
    // Of no mask that another has.
    let other = |n: u64| {
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Match::any().with_masked(Field::EthSrc, 0, (bits >> 16).into())
    };
    let mut moved = 0;
    for round in 0..60u64 {
        let (mut owned, mut judge) = (Owned::new(Words::ByOwner), Linear::default());
        let mut there: Vec<(Match, u32)> = Vec::new();
        let (stations, next) = (8 + random(40), &mut 0u64);
        for step in 0..700u64 {
            let grow = step < 300;
            if grow {
                *next += 1;
                // Stations come last, and mostly below all others.
                let late = step > 120 && random(2) == 0;
                let (m, priority) = match late {
                    true => (station(random(stations)), [1, 1, 1, 9][random(4) as usize]),
                    false => (other(*next), 2 + random(6) as u32),
                };
                let r = Rule { matcher: m, priority, id: RuleId(*next as u32) };
                assert_eq!(owned.insert(r), judge.insert(r).is_ok());
                if !there.contains(&(m, priority)) {
                    there.push((m, priority));
                }
            } else if !there.is_empty() && (random(12) > 0 || there.len() > 60) {
                // Others go first.
                let others = |t: &(Match, u32)| t.0.mask() != station(0).mask();
                let at = match there.iter().position(others) {
                    Some(at) if random(20) > 0 => at,
                    _ => random(there.len() as u64) as usize,
                };
                let (m, priority) = there.swap_remove(at);
                assert_eq!(owned.remove(&m, priority), judge.remove(&m, priority));
            } else {
                let m = station(random(stations));
                *next += 1;
                let r = Rule { matcher: m, priority: 1, id: RuleId(*next as u32) };
                assert_eq!(owned.insert(r), judge.insert(r).is_ok());
                if !there.contains(&(m, 1)) {
                    there.push((m, 1));
                }
            }
            // By changes alone, or between them, too.
            moved += u32::from(owned.fast.is_gathering());
            if round % 2 == 0 && owned.fast.is_gathering() {
                owned.fast.move_on(64);
                owned.refit(None);
            }
            let all_are_asked = step % 16 == 0 || there.len() < 60;
            for n in 0..if all_are_asked { stations + 4 } else { 2 } {
                let key = station(n).with(Field::EthSrc, random(1 << 20).into());
                let key = key.value();
                assert_eq!(owned.lookup(key), judge.lookup(key), "{round} {step}");
            }
        }
    }
    assert!(moved > 3, "{moved}");
}
