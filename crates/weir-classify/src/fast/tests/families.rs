//! Of indexes in which the rules of a range of ports have one place: they answer as the oracle does, whoever goes and comes back.

use super::*;

/// The prefixes that a range of ports is: value and mask of each.
fn range(mut low: u32, high: u32) -> Vec<(u128, u128)> {
    let mut out = Vec::new();
    while low <= high {
        let fits = |n: &u32| low.is_multiple_of(1 << n) && low + (1 << n) - 1 <= high;
        let block = (0..=16u32).rev().find(fits).unwrap_or(0);
        out.push((low.into(), u128::from(0xffff & !((1u32 << block) - 1))));
        low += 1 << block;
    }
    out
}

fn without_ports(m: &Match) -> Match {
    let (mut mask, mut value) = (*m.mask(), *m.value());
    let ports = Match::any().with(Field::TpSrc, 0).with(Field::TpDst, 0);
    let words = mask.0.iter_mut().zip(&mut value.0).zip(ports.mask().0);
    words.for_each(|((m, v), ports)| (*m, *v) = (*m & !ports, *v & !ports));
    Match::new(value, mask)
}

/// Rules that were lines with ranges of ports, in a table and in the oracle.
struct Lines {
    fast: FastTable,
    judge: Linear,
    there: Vec<Rule>,
    gone: Vec<Rule>,
    random: u64,
    ids: u32,
}

impl Lines {
    fn random(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }
    fn put(&mut self, matcher: Match, priority: u32) {
        self.ids += 1;
        let r = rule(matcher, priority, self.ids);
        let there = self.judge.insert(r);
        assert_eq!(self.fast.insert(r), there);
        self.there.extend(there.is_ok().then_some(r));
    }
    fn remove(&mut self, at: usize) {
        let r = self.there.swap_remove(at);
        let again = self.fast.try_insert(&r.matcher, r.priority, RuleId(0));
        assert_eq!(again, Err(Duplicate(r.id)));
        assert_eq!(self.fast.remove(&r.matcher, r.priority), Some(r.id));
        assert_eq!(self.judge.remove(&r.matcher, r.priority), Some(r.id));
        assert_eq!(self.fast.remove(&r.matcher, r.priority), None);
        self.gone.push(r);
    }
    fn prefix(&mut self, m: Match, field: Field) -> Match {
        let bits = [0, 8, 16, 24, 28, 32][self.random(6) as usize];
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let at = (self.random(4) << 30 | self.random(4) << 22 | self.random(8) << 8) as u32;
        m.with_masked(field, (at & mask).into(), mask.into())
    }
    fn ports(&mut self) -> Vec<(u128, u128)> {
        let from = self.random(400) as u32;
        match self.random(6) {
            0 => range(0, 65_535),
            1 => range(1_024, 65_535),
            2 => range(1, 65_535),
            3 => range(from, from + 30),
            _ => range(from, from),
        }
    }
    /// A line of some priority, in the order of its ports.
    fn line(&mut self, priority: u32) {
        let m = self.prefix(Match::any().with(Field::IpProto, 6), Field::Ipv4Src);
        let m = self.prefix(m, Field::Ipv4Dst);
        let (src, dst) = (self.ports(), self.ports());
        for (value, mask) in &src {
            let m = m.with_masked(Field::TpSrc, *value, *mask);
            for (value, mask) in &dst {
                self.put(m.with_masked(Field::TpDst, *value, *mask), priority);
            }
        }
    }
    fn change(&mut self) {
        match self.random(20) {
            0 => {
                let priority = self.random(60) as u32;
                self.line(priority);
            }
            // A stranger of a priority that others have.
            1 if !self.there.is_empty() => {
                let at = self.random(self.there.len() as u64) as usize;
                // Or one that asks what all of a family ask.
                let (m, other) =
                    (self.there[at].matcher, self.prefix(Match::any(), Field::Ipv4Src));
                let m = if self.random(2) == 0 { other } else { without_ports(&m) };
                self.put(m, self.there[at].priority);
            }
            // All of a priority go; nobody may come back.
            2 if !self.there.is_empty() => {
                let at = self.random(self.there.len() as u64) as usize;
                let p = self.there[at].priority;
                while let Some(at) = self.there.iter().position(|r| r.priority == p) {
                    self.remove(at);
                }
                if self.random(2) == 0 {
                    self.gone.clear();
                }
            }
            3..=11 if !self.gone.is_empty() => {
                let at = self.random(self.gone.len() as u64) as usize;
                let r = self.gone.swap_remove(at);
                self.put(r.matcher, r.priority);
            }
            _ if !self.there.is_empty() => {
                let at = self.random(self.there.len() as u64) as usize;
                self.remove(at);
            }
            _ => self.line(7),
        }
    }
    fn check(&mut self, what: &str) {
        let mut keys = Vec::new();
        for _ in 0..33 {
            let mut key = FlowKey::default();
            let at = self.random(self.there.len() as u64 + 1) as usize;
            let noise = self.random(u64::MAX) << 32 | self.random(u64::MAX);
            if let Some(r) = self.there.get(at).copied() {
                let parts = key.0.iter_mut().zip(r.matcher.mask().0).zip(r.matcher.value().0);
                parts.for_each(|((k, m), v)| *k = noise & !m | v);
                if self.random(3) == 0 {
                    let port = self.random(1_200);
                    key.set([Field::TpSrc, Field::TpDst][(noise % 2) as usize], port.into());
                }
            }
            keys.push(key);
        }
        let mut found = vec![None; keys.len()];
        self.fast.lookup_all(&keys, &mut found);
        for (k, found) in keys.iter().zip(found) {
            let want = self.judge.lookup(k);
            assert_eq!(found, want, "{what} {k:?}");
            assert_eq!(self.fast.lookup(k), want, "{what} {k:?}");
        }
    }
    fn same(&self) {
        let (mut all, mut want) = (Vec::new(), Vec::new());
        let told = |r: &Rule| (r.priority, r.id, r.matcher.value().0, r.matcher.mask().0);
        self.fast.for_each(&mut |r| all.push(told(r)));
        self.judge.for_each(&mut |r| want.push(told(r)));
        [&mut all, &mut want].into_iter().for_each(|all| all.sort_unstable());
        assert_eq!(all, want);
    }
    fn families(&self) -> usize {
        self.fast.index.as_ref().map_or(0, |i| i.eights())
    }
}

/// With every kind of vectors, where keys have one leaf and where they have several, with priorities of their own and shared ones; while
/// another index is being made, and when insertion numbers run out.
#[test]
fn families_tell_the_winner() {
    let (mut had, mut adopted_with) = (0, [0; 2]);
    let kinds = Vectors::available().into_iter().flat_map(|v| [(v, 0), (v, 1)]);
    for (round, (v, ways)) in kinds.chain([(Vectors::best(), 0), (Vectors::best(), 1)]).enumerate()
    {
        let (fast, judge) = (FastTable::with_vectors(v), Linear::default());
        let mut c =
            Lines { fast, judge, there: vec![], gone: vec![], random: round as u64, ids: 0 };
        for i in 0..60 {
            // In some rounds no two lines have the same priority, in others a few share one.
            c.line(if round % 3 == 2 { i / 3 } else { i });
        }
        for step in 0..12 {
            let make = [Draft::make_by_families, Draft::make_by_rows][ways];
            let mut draft = c.fast.begin_draft().unwrap();
            while c.fast.draft_more(&mut draft, 64) == Copying::More {
                if step % 3 == 1 {
                    (0..4).for_each(|_| c.change());
                }
            }
            if step == 6 {
                c.fast.inserted = u32::MAX - 40;
                c.fast.forget_draft();
                draft = c.fast.begin_draft().unwrap();
                while c.fast.draft_more(&mut draft, 64) == Copying::More {}
            }
            let made = make(draft);
            (0..step % 4 * 8).for_each(|_| c.change());
            let taken = adopted(&mut c.fast, made);
            adopted_with[ways] += u32::from(taken && c.families() > 0);
            c.same();
            for _ in 0..60 {
                (0..3).for_each(|_| c.change());
                c.check(&format!("{} {round} {step}", v.name()));
                had += u32::from(c.families() > 0);
            }
            c.same();
        }
    }
    assert!(had > 3_000 && adopted_with.iter().all(|n| *n > 30), "{had} {adopted_with:?}");
}

/// Where ranges are what fills a table its keys have one leaf, in less memory than they have several where each rule has a place of its
/// own; who goes comes back where it was.
#[test]
fn ranges_take_a_place_each() {
    let mut t = FastTable::new();
    let mut all = Vec::new();
    for i in 0..3_000u32 {
        let m = Match::any()
            .with(Field::Ipv4Dst, u128::from(i.wrapping_mul(0x9e37_79b1)))
            .with(Field::IpProto, 6);
        for (value, mask) in range(1_024, 65_535) {
            all.push(rule(m.with_masked(Field::TpDst, value, mask), i, all.len() as u32));
        }
    }
    all.iter().for_each(|r| assert!(t.insert(*r).is_ok()));
    let made = draft(&mut t).map(Draft::make_by_families);
    assert!(made.is_some_and(|d| adopted(&mut t, d)));
    let leaves = t.leaves();
    assert!(leaves < 14, "{leaves}");
    assert!(t.memory_bytes() < all.len() * 60, "{}", t.memory_bytes());
    let bytes = t.memory_bytes();
    for r in all.iter().step_by(7) {
        assert_eq!(t.remove(&r.matcher, r.priority), Some(r.id));
        assert_eq!(t.lookup(r.matcher.value()), None);
        assert!(t.insert(*r).is_ok());
        assert_eq!(t.lookup(r.matcher.value()), Some(r.id));
    }
    assert!(t.memory_bytes() < bytes + 1_024 && t.leaves() == leaves);
    // All of a family go, and come back as rules of their own.
    for r in &all[..12] {
        assert_eq!(t.remove(&r.matcher, r.priority), Some(r.id));
    }
    for r in &all[..12] {
        assert_eq!(t.lookup(r.matcher.value()), None);
        assert!(t.insert(*r).is_ok());
        assert_eq!(t.lookup(r.matcher.value()), Some(r.id));
    }
}

/// What would take more memory than is allowed is made another way: rules of many words, with families that leave much open.
#[test]
fn an_index_that_is_too_large_is_made_another_way() {
    let mut below = dice(99);
    let mut t = FastTable::new();
    for i in 0..8_000u32 {
        let mut m = Match::any().with(Field::IpProto, 6).with(Field::EthType, 0x86dd);
        let addresses = [below(1 << 31), below(1 << 31)];
        for (field, at) in [Field::Ipv6Src, Field::Ipv6Dst].into_iter().zip(addresses) {
            let at = u128::from(at) << 80;
            if below(100) >= 30 {
                m = m.with_masked(field, at, 0xffff_ffff << 80);
            }
        }
        let port = [1_024u32, 80, 8_080, 4_096][below(4) as usize];
        for more in 0..2 {
            let m = m.with(Field::TpDst, u128::from(port + more));
            _ = t.insert(rule(m, i, 2 * i + more));
        }
    }
    let made = drafted(&mut t);
    assert!(made.is_some_and(|d| adopted(&mut t, d)));
}
