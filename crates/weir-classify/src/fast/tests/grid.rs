//! Tables whose rules ask few different things of two fields: by classes on two axes.

use super::*;
use crate::simd::Vectors;

/// A table beside its judge, with rules of a dozen nested sources and destinations, ports and protocols.
struct Policy {
    table: Judged,
    /// Those that no grid can have.
    strangers: Vec<Rule>,
}

impl Policy {
    fn new(v: Vectors, random: u64) -> Self {
        Self { table: Judged::new(v, random), strangers: Vec::new() }
    }
    /// One of few addresses, of which some are prefixes of others.
    fn net(&mut self) -> (u128, u128) {
        let bits = [0, 1, 7, 8, 15, 16, 20, 24, 28, 31, 32, 32, 32, 32, 32, 32]
            [self.table.random(16) as usize];
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let address =
            [0x0a00_0001, 0x0a00_0102, 0x0a01_0001, 0xc0a8_0001][self.table.random(4) as usize];
        (u128::from(address & mask), u128::from(mask))
    }
    fn port(&mut self) -> (u128, u128) {
        let mask = [0, 0xffff, 0xffff, 0xffff, 0xff00, 0xfffe][self.table.random(6) as usize];
        (u128::from(self.table.random(40) * 11) & mask, mask)
    }
    fn any(&mut self) -> Match {
        let (from, to, port, source) = (self.net(), self.net(), self.port(), self.port());
        let m = Match::any()
            .with(Field::EthType, 0x800)
            .with_masked(Field::Ipv4Src, from.0, from.1)
            .with_masked(Field::Ipv4Dst, to.0, to.1)
            .with_masked(Field::TpDst, port.0, port.1);
        let m = if self.table.random(3) == 0 {
            m.with_masked(Field::TpSrc, source.0, source.1)
        } else {
            m
        };
        if self.table.random(2) == 0 { m.with(Field::IpProto, 6) } else { m }
    }
    /// What no rule asked when the index was made: of addresses, or of other words.
    fn put_stranger(&mut self) {
        let m = self.any();
        let m = match self.table.random(3) {
            0 => {
                let host = self.table.random(1 << 32);
                return self.put(m.with(Field::Ipv4Src, host.into()));
            }
            1 => m.with(Field::EthType, 0x806),
            _ => m.with_masked(Field::EthType, 0x800, 0xff00),
        };
        self.put(m);
        self.strangers.extend(self.table.rules.pop());
    }
    /// None but what a grid can have.
    fn put_out(&mut self) {
        while let Some(r) = self.strangers.pop() {
            self.table.take_out(&r);
        }
    }
    fn put(&mut self, matcher: Match) {
        self.table.put(matcher, 50);
    }
    fn put_any(&mut self) {
        let m = self.any();
        self.put(m);
    }
    /// One of its rules, or none.
    fn one(&mut self) -> Option<Rule> {
        let at = self.table.random(self.table.rules.len() as u64 + 1);
        self.table.rules.get(at as usize).copied()
    }
    /// A key that some rule fits, or nearly, or none.
    fn key(&mut self) -> FlowKey {
        let mut k = *self.any().value();
        if let Some(r) = self.one()
            && self.table.random(5) > 0
        {
            let parts = k.0.iter_mut().zip(r.matcher.mask().0).zip(r.matcher.value().0);
            parts.for_each(|((k, m), v)| *k = *k & !m | v);
        }
        k
    }
    /// Lookups in every way, and what is there, as the judge has it.
    fn agrees(&mut self) {
        let keys: Vec<FlowKey> = (0..70).map(|_| self.key()).collect();
        let (mut found, mut strewn) = (vec![None; keys.len()], vec![None; keys.len()]);
        self.table.fast.lookup_all(&keys, &mut found);
        // Beside other tables, so that they are asked together.
        let other = FastTable::new();
        let tables: Vec<_> = (0..keys.len())
            .map(|i| Some([&self.table.fast, &other][usize::from(i % 5 == 4)]))
            .collect();
        FastTable::lookup_several(&tables, &keys, &mut strewn);
        for (i, (k, (found, strewn))) in keys.iter().zip(found.into_iter().zip(strewn)).enumerate()
        {
            let want = self.table.judge.lookup(k);
            assert_eq!((found, self.table.fast.lookup(k)), (want, want), "{k:?}");
            assert_eq!(strewn, want.filter(|_| i % 5 != 4), "{k:?}");
        }
        for _ in 0..8 {
            let Some(r) = self.one() else {
                continue;
            };
            assert_eq!(self.table.fast.find(&r.matcher, r.priority), Some(r.id));
            assert_eq!(self.table.fast.find(&r.matcher, 77), None);
        }
    }
    fn has_all(&self) {
        let (mut all, mut want) = (Vec::new(), Vec::new());
        self.table.fast.for_each(&mut |r| all.push((r.id, *r)));
        self.table.judge.for_each(&mut |r| want.push((r.id, *r)));
        all.sort_by_key(|r| r.0);
        want.sort_by_key(|r| r.0);
        assert!(all == want && self.table.fast.len() == want.len());
    }
    fn is_grid(&self) -> bool {
        self.table.fast.index.as_ref().is_some_and(|i| i.is_grid())
    }
    fn adopts(&mut self) -> bool {
        let made = draft(&mut self.table.fast).map(Draft::make_by_grid);
        made.is_some_and(|d| adopted(&mut self.table.fast, d))
    }
}

/// A grid answers as the oracle does, whatever came and went before it was made, while it was, and since; what it can't take stands beside.
#[test]
fn a_grid_tells_the_winner() {
    for (seed, v) in (7..).zip(Vectors::available()) {
        let mut p = Policy::new(v, seed);
        (0..2_500).for_each(|_| p.put_any());
        assert!(p.adopts() && p.is_grid(), "{}", v.name());
        p.agrees();
        p.has_all();
        let (mut beside, mut grids) = (0, 0);
        for round in 0..40 {
            // Its copy is made while rules come and go.
            if round % 4 == 3 {
                p.put_out();
            }
            let mut copy = (round % 4 == 3).then(|| p.table.fast.begin_draft()).flatten();
            for step in 0..40 {
                match (p.table.random(20), round / 10 % 2) {
                    (0, _) if copy.is_none() => p.put_stranger(),
                    (1..8, 0) | (1..13, _) if p.table.rules.len() > 2_000 => p.table.take(),
                    _ => p.put_any(),
                }
                if let Some(copy) = copy.as_mut().filter(|_| step % 3 == 0) {
                    let _ = p.table.fast.draft_more(copy, 64);
                }
            }
            if let Some(mut copy) = copy {
                while p.table.fast.draft_more(&mut copy, 64) == Copying::More {}
                let made = copy.make_by_grid();
                p.table.take();
                p.put_any();
                assert!(adopted(&mut p.table.fast, made));
            }
            beside += u32::from(!p.table.fast.parts.is_empty());
            grids += u32::from(p.is_grid());
            p.agrees();
        }
        p.has_all();
        assert!(beside > 5 && grids > 30, "{} {beside} {grids}", v.name());
        // Insertion numbers are given out anew.
        p.put_out();
        assert!(p.adopts());
        p.table.fast.inserted = u32::MAX - 3;
        for _ in 0..30 {
            p.put_any();
            p.agrees();
        }
        assert!(p.table.fast.inserted < 10_000);
        while !p.table.rules.is_empty() {
            p.table.take();
            if p.table.rules.len().is_multiple_of(64) {
                p.agrees();
            }
        }
        assert_eq!(
            p.table.fast.memory_bytes() - indexing_bytes(&p.table.fast),
            size_of::<FastTable>()
        );
    }
}

/// Of many rules there is one where lookups look at few of them, by itself; where there are too many addresses there is none.
#[test]
fn many_rules_of_few_addresses_have_a_grid() {
    let mut p = Policy::new(Vectors::best(), 3);
    while p.table.rules.len() < 5_000 {
        let (host, at) = (p.table.random(40), p.table.random(40));
        let port = p.table.random(60_000);
        let m = Match::any()
            .with(Field::Ipv4Src, (0x0a00_0000 + (host << 9)).into())
            .with(Field::Ipv4Dst, (0x0a00_0000 + (at << 9)).into())
            .with(Field::TpDst, port.into());
        p.put(m);
        // What is open on one side, or on both.
        if p.table.rules.len().is_multiple_of(100) {
            let m = Match::any().with(Field::TpDst, port.into());
            p.put(m.with(Field::Ipv4Src, (0x0a00_0000 + (host << 9)).into()));
            p.put(m);
        }
    }
    assert!(p.table.fast.index_now() && p.is_grid());
    p.agrees();
    p.has_all();
    // A list that is full: its rules stand beside.
    for port in 0..700u32 {
        let m = Match::any().with(Field::Ipv4Src, 0x0a00_0000).with(Field::Ipv4Dst, 0x0a00_0000);
        p.put(m.with(Field::TpDst, port.into()));
    }
    assert!(p.is_grid() && p.table.fast.parts.len() > 100);
    p.agrees();
    p.has_all();
    for _ in 0..6_000 {
        let m = Match::any()
            .with(Field::Ipv4Src, u128::from(p.table.random(1 << 32)))
            .with(Field::Ipv4Dst, u128::from(p.table.random(1 << 32)));
        p.put(m);
    }
    assert!(p.table.fast.index_now() && !p.is_grid());
    p.agrees();
}
