//! A compact ternary scan: rules by rank, best first, in blocks of so few that no change moves many.
//!
//! Room: data-path core. Called by `parts` (the rules that no tuple holds), by `tuple` (the rules that share a slot) and by `aside`.
//! Nearly every scan is one [`Block`], which it has in itself; who has more than [`BLOCK`] rules has further blocks behind it, in the
//! order of ranks, and knows by a hash which rules it has. Cost: a lookup goes through the blocks until a rule fits; a change costs the
//! columns of a block, however many there are.

mod block;
mod known;

use crate::key::{FlowKey, FlowMask};
use crate::rule::RuleId;
use crate::simd::Vectors;
use block::Block;
use known::{Known, hash_of};

/// Rules of a block, where there are several.
const BLOCK: usize = if cfg!(test) { 48 } else { 512 };

/// Rules sorted by rank, larger first. Ranks are unique (see `fast`).
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Scan {
    first: Block,
    /// Those behind the first block. Where there are any that has a rule.
    more: Option<Box<More>>,
}

#[derive(Clone, Debug)]
struct More {
    /// None is empty.
    blocks: Vec<Block>,
    /// All rules, those of the first block, too; `known` says which.
    len: usize,
    /// Bits that any rule has looked at since there were several blocks.
    union: FlowMask,
    known: Known,
}

/// Bit `i` set where `mask` looks at word `i`.
pub(crate) fn words_of(mask: &FlowMask) -> u32 {
    mask.0.iter().enumerate().fold(0, |bits, (i, &m)| bits | u32::from(m != 0) << i)
}

/// The places of the bits of `words`, rising.
pub(crate) fn each_word(mut words: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (words != 0).then(|| {
            let word = words.trailing_zeros() as usize;
            words &= words - 1;
            word
        })
    })
}

/// What a rule of a scan is: its rank, id, and what it demands.
pub(crate) type Row = (u64, RuleId, FlowKey, FlowMask);

impl Scan {
    /// One that mostly has a rule or two, of which there are many: small rather than quick.
    pub(crate) fn tight() -> Self {
        Self { first: Block::tight(), more: None }
    }
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.more.as_ref().map_or(self.first.len(), |m| m.len)
    }
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        std::iter::once(&self.first).chain(self.more.iter().flat_map(|m| &m.blocks))
    }
    fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        std::iter::once(&mut self.first).chain(self.more.iter_mut().flat_map(|m| &mut m.blocks))
    }
    /// The largest rank, or 0.
    pub(crate) fn top(&self) -> u64 {
        self.first.top()
    }
    /// Whether rules have come or gone since this was asked.
    pub(crate) fn is_anew(&mut self) -> bool {
        self.first.is_anew()
    }
    /// The word of a key of which all rules ask for most bits, and these.
    pub(crate) fn common(&self) -> (usize, u64) {
        let in_word = |word: usize| {
            let of = |m: FlowMask| m.0.get(word).copied().unwrap_or(0);
            (word, self.iter().fold(u64::MAX, |all, (.., m)| all & of(m)))
        };
        each_word(self.words()).map(in_word).max_by_key(|w| w.1.count_ones()).unwrap_or_default()
    }
    /// Bit `i` set where a rule may look at word `i`.
    pub(crate) fn words(&self) -> u32 {
        self.more.as_ref().map_or(self.first.words(), |m| words_of(&m.union))
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        let more = |m: &More| {
            size_of::<More>() + m.blocks.capacity() * size_of::<Block>() + m.known.heap_bytes()
        };
        self.blocks().map(Block::heap_bytes).sum::<usize>() + self.more.as_deref().map_or(0, more)
    }
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.first.prefetch();
    }

    /// The best rule that fits `key` and is above `floor`, with its rank.
    #[inline(always)]
    pub(crate) fn lookup(&self, v: Vectors, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        let found = self.first.lookup(v, key, floor);
        match &self.more {
            Some(more) if found.is_none() => more.lookup(v, key, floor),
            _ => found,
        }
    }

    /// The best rule.
    pub(crate) fn best(&self) -> Option<Row> {
        self.first.get(0)
    }
    /// Whether all rules have this mask.
    pub(crate) fn is_all_of(&self, mask: &FlowMask) -> bool {
        self.blocks().all(|b| b.is_all_of(mask))
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        self.blocks().flat_map(Block::iter)
    }
    /// The rules whose rank is below this one, all of them for none.
    pub(crate) fn below(&self, rank: Option<u64>) -> impl Iterator<Item = Row> + '_ {
        // Blocks before that have none.
        let n = match (rank, &self.more) {
            (Some(rank), Some(more)) => more.before(rank),
            _ => 0,
        };
        let of = move |b: &Block| rank.map_or(0, |rank| b.below(rank));
        let blocks = self.more.as_ref().map_or(&[][..], |m| &m.blocks);
        let first = (n == 0).then_some(&self.first);
        let blocks = first.into_iter().chain(blocks.get(n.saturating_sub(1)..).unwrap_or_default());
        blocks.flat_map(move |b| (of(b)..b.len()).filter_map(|i| b.get(i)))
    }
    /// So many rules, or all, of all that there are, as many of each part of the order; `seed` says which.
    pub(crate) fn some(&self, most: usize, seed: u64) -> Vec<Row> {
        let n = self.len();
        if n <= most {
            return self.iter().collect();
        }
        let (mut blocks, mut before) = (self.blocks().peekable(), 0);
        let pick = |i: usize| {
            let (from, to) = (i * n / most, (i + 1) * n / most);
            let x = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let at = from + x as usize % (to - from).max(1);
            while let Some(b) = blocks.next_if(|b| before + b.len() <= at) {
                before += b.len();
            }
            blocks.peek()?.get(at - before)
        };
        (0..most).filter_map(pick).collect()
    }

    /// The rule with exactly this match and priority: its rank and id.
    pub(crate) fn find(
        &self,
        value: &FlowKey,
        mask: &FlowMask,
        priority: u32,
    ) -> Option<(u64, RuleId)> {
        let (block, at) = self.position(value, mask, priority)?;
        block.get(at).map(|r| (r.0, r.1))
    }
    fn position(&self, value: &FlowKey, mask: &FlowMask, priority: u32) -> Option<(&Block, usize)> {
        let Some(more) = &self.more else {
            return Some((&self.first, self.first.position(value, mask, priority)?));
        };
        let hash = hash_of(more.known.seed(), value, mask, priority);
        let rank = more.known.rank(hash)?;
        let block = match more.before(rank) {
            0 => &self.first,
            n => more.blocks.get(n - 1)?,
        };
        let is_it = |r: Row| (r.0, r.2, r.3) == (rank, *value, *mask);
        if let Some(at) = block.below(rank).checked_sub(1)
            && block.get(at).is_some_and(is_it)
            && (rank >> 32) as u32 == priority
        {
            return Some((block, at));
        }
        // Two rules have one hash, or the rule that is meant is not there.
        self.blocks().find_map(|b| Some((b, b.position(value, mask, priority)?)))
    }

    /// Adds a rule; bits of `value` outside `mask` are zero.
    pub(crate) fn insert(&mut self, rank: u64, id: RuleId, value: &FlowKey, mask: &FlowMask) {
        if self.more.is_none() && self.first.len() < BLOCK {
            return self.first.insert(rank, id, value, mask);
        }
        self.insert_more(rank, id, value, mask);
        self.first.set_anew();
    }
    #[inline(never)]
    fn insert_more(&mut self, rank: u64, id: RuleId, value: &FlowKey, mask: &FlowMask) {
        let Self { first, more } = self;
        let more = more.get_or_insert_with(|| Box::new(More::behind(first)));
        let hash = hash_of(more.known.seed(), value, mask, (rank >> 32) as u32);
        more.known.insert(hash, rank);
        more.union = more.union.union(mask);
        // Of those that begin above it the last, or the first of all.
        let n = more.before(rank);
        more.len += 1;
        let More { blocks, .. } = &mut **more;
        let has_room = blocks.get(n).is_some_and(|b| b.len() < BLOCK);
        let Some(block) = block_at(first, blocks, n) else { return };
        let (at, len) = (block.below(rank), block.len());
        if len < BLOCK {
            block.insert(rank, id, value, mask);
        } else if at == len && has_room {
            // Between two of which the second has room.
            blocks.get_mut(n).into_iter().for_each(|b| b.insert(rank, id, value, mask));
        } else {
            // Who comes at an end has a block to itself: those that come in order leave full ones.
            let cut = if at == 0 || at == len { at } else { len / 2 };
            let mut rest = block.split_off(cut);
            let to = if at < cut || at == 0 { &mut *block } else { &mut rest };
            to.insert(rank, id, value, mask);
            blocks.insert(n, rest);
        }
    }

    /// Removes the rule with exactly this match and priority: its rank and id.
    pub(crate) fn take(
        &mut self,
        value: &FlowKey,
        mask: &FlowMask,
        priority: u32,
    ) -> Option<(u64, RuleId)> {
        if self.more.is_none() {
            return self.first.remove(self.first.position(value, mask, priority)?);
        }
        let (block, at) = self.position(value, mask, priority)?;
        let rank = block.get(at)?.0;
        let Self { first, more: Some(more) } = self else { return None };
        more.known.remove(hash_of(more.known.seed(), value, mask, priority), rank);
        let n = more.before(rank);
        let block = block_at(first, &mut more.blocks, n)?;
        let gone = block.remove(at)?;
        more.len -= 1;
        self.close_up(n);
        self.first.set_anew();
        Some(gone)
    }

    /// Calls `f` for so many rules of the block in which those below this rank begin, and takes out those for which it says so. The rank
    /// above which all have been looked at now; none where there are no others.
    pub(crate) fn take_some(
        &mut self,
        below: Option<u64>,
        most: usize,
        mut f: impl FnMut(&Row) -> bool,
    ) -> Option<u64> {
        let from = self.below(below).next()?.0;
        let n = self.more.as_ref().map_or(0, |m| m.before(from));
        let Self { first, more } = self;
        let mut none = Vec::new();
        let blocks = more.as_mut().map_or(&mut none, |m| &mut m.blocks);
        let block = block_at(first, blocks, n)?;
        let (mut last, mut taken) = (from, Vec::new());
        let at = below.map_or(0, |rank| block.below(rank));
        for row in (at..block.len()).take(most).filter_map(|i| block.get(i)) {
            last = row.0;
            if f(&row) {
                taken.push(row);
            }
        }
        // Both are sorted, larger first.
        block.retain(|rank| taken.binary_search_by(|r| rank.cmp(&r.0)).is_err());
        if let Some(more) = more {
            more.len -= taken.len();
            for (rank, _, value, mask) in &taken {
                let hash = hash_of(more.known.seed(), value, mask, (rank >> 32) as u32);
                more.known.remove(hash, *rank);
            }
            self.close_up(n);
        }
        self.first.set_anew();
        Some(last)
    }

    /// After rules of block `n` have gone: no block is empty, and none small beside a small one.
    fn close_up(&mut self, n: usize) {
        let Self { first, more: Some(more) } = self else { return };
        let More { blocks, .. } = &mut **more;
        let size = |n: usize| match n {
            0 => first.len(),
            n => blocks.get(n - 1).map_or(BLOCK, Block::len),
        };
        let (own, next) = (size(n), size(n + 1));
        // It and the next, or the one before and it.
        let at = match n.checked_sub(1) {
            _ if own + next <= BLOCK / 2 => n,
            Some(before) if own == 0 || size(before) + own <= BLOCK / 2 => before,
            None if own == 0 => n,
            _ => return,
        };
        if at < blocks.len() {
            let behind = blocks.remove(at);
            if let Some(block) = block_at(first, blocks, at) {
                block.append(&behind);
            }
        }
        if more.blocks.is_empty() {
            self.more = None;
        }
    }

    /// Gives every rule the rank that `f` says; the order must stay.
    pub(crate) fn rerank(&mut self, f: impl Fn(u64) -> u64) {
        self.blocks_mut().for_each(|b| b.rerank(&f));
        let Self { first, more } = self;
        if let Some(more) = more {
            more.known = Known::of(std::iter::once(&*first).chain(&more.blocks));
        }
    }

    /// Bits that any rule looks at; where there are several blocks, or has looked at since there were.
    pub(crate) fn union(&self) -> FlowMask {
        self.more.as_ref().map_or_else(|| self.first.union(), |m| m.union)
    }
}

impl More {
    /// None yet.
    fn behind(first: &Block) -> Self {
        let known = Known::of(std::iter::once(first));
        // The first's rules come to stand in others.
        Self { blocks: Vec::new(), len: first.len(), union: first.union(), known }
    }
    /// How many of these blocks begin at this rank or above: the number of the block, counted from the first of all, that has it or would.
    fn before(&self, rank: u64) -> usize {
        self.blocks.partition_point(|b| b.top() >= rank)
    }
    #[inline(never)]
    fn lookup(&self, v: Vectors, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        let above = self.blocks.iter().take_while(|b| b.top() > floor);
        above.filter_map(|b| b.lookup(v, key, floor)).next()
    }
}

/// Block `n`, counted from the first of all.
fn block_at<'a>(first: &'a mut Block, blocks: &'a mut [Block], n: usize) -> Option<&'a mut Block> {
    match n {
        0 => Some(first),
        n => blocks.get_mut(n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::dice;

    /// Whatever comes and goes, in order or in none, it says what a plain list says.
    #[test]
    fn blocks_are_as_a_list() {
        let mut random = dice(7);
        let (mut several, mut one_again) = (0, 0);
        for round in 0..8u64 {
            let (mut scan, mut list) = (Scan::default(), Vec::<Row>::new());
            let mut next = 1u64 << 40;
            for step in 0..1200u64 {
                let grow = step / 300 % 2 == 0;
                if list.is_empty() || random(8) < if grow { 7 } else { 1 } {
                    let (mut value, mut mask) = (FlowKey::default(), FlowMask::default());
                    for _ in 0..=random(3) {
                        let word = random(4) as usize;
                        mask.0[word] = 7 << random(3);
                        value.0[word] = random(32) & mask.0[word];
                    }
                    next += 1;
                    // Falling, rising, few priorities, any.
                    let priority = match round % 4 {
                        0 => 5000 - step,
                        1 => step + 1,
                        2 => random(3),
                        _ => random(1 << 20),
                    };
                    let rank = (priority << 32) | (u64::from(u32::MAX) - (next & 0xffff_ffff));
                    let twice = |r: &Row| (r.2, r.3, r.0 >> 32) == (value, mask, priority);
                    let there = list.iter().find(|r| twice(r)).map(|r| (r.0, r.1));
                    assert_eq!(scan.find(&value, &mask, priority as u32), there);
                    if there.is_none() {
                        let row = (rank, RuleId(step as u32), value, mask);
                        scan.insert(row.0, row.1, &row.2, &row.3);
                        list.insert(list.partition_point(|r| r.0 > rank), row);
                        assert!(scan.is_anew());
                    }
                } else {
                    let at = random(list.len() as u64) as usize;
                    let (rank, id, value, mask) = list.remove(at);
                    let priority = (rank >> 32) as u32;
                    assert_eq!(scan.take(&value, &mask, priority), Some((rank, id)));
                    assert_eq!(scan.take(&value, &mask, priority), None);
                }
                if step % 97 == 0 {
                    // Those of one kind are taken out, block by block.
                    let goes = |r: &Row| r.2.0[0] & 7 == 1;
                    let (mut from, mut taken) = (None, Vec::new());
                    loop {
                        from = scan.take_some(from, 7, |r| {
                            taken.extend(goes(r).then_some(*r));
                            goes(r)
                        });
                        if from.is_none() {
                            break;
                        }
                    }
                    assert!(taken.iter().eq(list.iter().filter(|r| goes(r))), "{round} {step}");
                    list.retain(|r| !goes(r));
                }
                if step % 101 == 0 {
                    let more = |rank: u64| rank + (5 << 32);
                    scan.rerank(more);
                    list.iter_mut().for_each(|r| r.0 = more(r.0));
                }
                several = scan.more.as_ref().map_or(0, |m| m.blocks.len()).max(several);
                one_again += usize::from(several > 1 && scan.more.is_none());
                assert_eq!((scan.len(), scan.is_empty()), (list.len(), list.is_empty()));
                if step % 11 == 0 {
                    agree(&scan, &list, &mut random);
                }
            }
        }
        assert!(several > 4 && one_again > 100, "{several} {one_again}");
    }

    fn agree(scan: &Scan, list: &[Row], random: &mut dyn FnMut(u64) -> u64) {
        assert!(scan.iter().eq(list.iter().copied()));
        assert_eq!(scan.best(), list.first().copied());
        assert_eq!(scan.top(), list.first().map_or(0, |r| r.0));
        let union = list.iter().fold(FlowMask::default(), |u, r| u.union(&r.3));
        assert!(scan.union().covers(&union) && (scan.more.is_some() || scan.union() == union));
        assert_eq!(words_of(&union) & !scan.words(), 0);
        let any = |random: &mut dyn FnMut(u64) -> u64| {
            list.get(random(list.len() as u64 + 1) as usize).map(|r| r.0)
        };
        let rank = any(random);
        let below = list.iter().filter(|r| rank.is_none_or(|rank| r.0 < rank));
        assert!(scan.below(rank).eq(below.copied()));
        let some = scan.some(9, random(u64::MAX));
        assert!(some.len() == list.len().min(9) && some.iter().all(|s| list.contains(s)));
        if let Some(more) = &scan.more {
            let sizes: Vec<usize> = scan.blocks().map(Block::len).collect();
            assert!(sizes.iter().all(|n| (1..=BLOCK).contains(n)), "{sizes:?}");
            assert!(sizes.windows(2).all(|two| two[0] + two[1] > BLOCK / 2), "{sizes:?}");
            assert_eq!(more.len, sizes.iter().sum::<usize>());
        }
        for v in Vectors::available() {
            for _ in 0..4 {
                let mut key = FlowKey::default();
                key.0.iter_mut().take(4).for_each(|w| *w = random(256));
                let floor = any(random).unwrap_or(0);
                let fits = |r: &&Row| key.masked(&r.3) == r.2 && r.0 > floor;
                let want = list.iter().find(fits).map(|r| (r.0, r.1));
                assert_eq!(scan.lookup(v, &key, floor), want, "{}", v.name());
            }
        }
    }
}
