//! A compact ternary scan: rules, best first, in columns of the words that any of them looks at.
//!
//! Part of `scan`, which has one where rules are few and several where they are many. Cost: a lookup compares four or eight rules a
//! step; a change moves the columns. Memory: 16 bytes a rule and 16 for each used word, for four rules at least, or for one where it
//! is [`Block::tight`].

use super::{Row, each_word, words_of};
use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::RuleId;
use crate::simd::{Columns, Vectors, first_match, prefetch_slice};

/// Rules sorted by rank, larger first. Ranks are unique (see `fast`).
///
/// The length stands first: who asks whether there is anything to scan asks for no other line of
/// memory.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Block {
    len: u32,
    words: u32,
    /// Laid out as [`Columns`] says.
    data: Box<[u64]>,
    cap: u32,
    /// Whether there may be room for fewer than [`FEW`].
    tight: bool,
    /// Whether rules have come or gone since [`Block::is_anew`] said so.
    anew: bool,
}

impl Block {
    /// One that mostly has a rule or two, of which there are many: small rather than quick.
    pub(super) fn tight() -> Self {
        Self { tight: true, ..Self::default() }
    }
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The largest rank, or 0.
    pub(super) fn top(&self) -> u64 {
        self.ranks().first().copied().unwrap_or(0)
    }
    /// Whether rules have come or gone since this was asked.
    pub(super) fn is_anew(&mut self) -> bool {
        std::mem::take(&mut self.anew)
    }
    /// Rules have come or gone.
    pub(super) fn set_anew(&mut self) {
        self.anew = true;
    }
    /// Bit `i` set where a rule may look at word `i`.
    pub(super) fn words(&self) -> u32 {
        self.words
    }
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.data)
    }
    fn cap(&self) -> usize {
        self.cap as usize
    }
    fn ranks(&self) -> &[u64] {
        self.data.get(..self.len()).unwrap_or_default()
    }
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_slice(&self.data, 256);
    }

    /// The best rule that fits `key` and is above `floor`, with its rank.
    #[inline(always)]
    pub(super) fn lookup(&self, v: Vectors, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        // A few rules over few words are compared faster than vector code is called.
        match (self.cap, self.data.len() / FEW) {
            (4, 2) => self.lookup_few::<0>(key, floor),
            (4, 4) => self.lookup_few::<1>(key, floor),
            (4, 6) => self.lookup_few::<2>(key, floor),
            _ => self.lookup_more(v, key, floor),
        }
    }

    /// [`Block::lookup`] where there is room for [`FEW`] rules, which look at `W` words. Vacant rows
    /// match nothing, so there is no count to look at.
    #[inline(always)]
    fn lookup_few<const W: usize>(&self, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        let (columns, _) = self.data.as_chunks::<{ 2 * FEW }>();
        let (heads, columns) = columns.split_first()?;
        let columns = columns.first_chunk::<W>()?;
        let mut places = self.words;
        let mut words = [0; W];
        for w in &mut words {
            *w = *key.0.get(places.trailing_zeros() as usize)?;
            places &= places.wrapping_sub(1);
        }
        for row in 0..FEW {
            // By number: what becomes of iterators here hangs on who else uses them.
            let mut differ = 0;
            for i in 0..W {
                differ |= words[i] & columns[i][row] ^ columns[i][FEW + row];
            }
            if differ == 0 {
                return (heads[row] > floor)
                    .then_some((heads[row], RuleId(heads[FEW + row] as u32)));
            }
        }
        None
    }

    #[inline(never)]
    fn lookup_more(&self, v: Vectors, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        if self.cap() < FEW {
            return self.lookup_tight(key, floor);
        }
        if self.data.len() == 8 * FEW && self.cap() == FEW {
            return self.lookup_few::<3>(key, floor);
        }
        self.lookup_vector(v, key, floor)
    }

    /// Where there is room for less than vectors compare.
    fn lookup_tight(&self, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        let (ids, columns) = self.data.get(self.cap()..)?.split_at_checked(self.cap())?;
        let fits = |row: usize| {
            let pairs = columns.chunks_exact(2 * self.cap());
            each_word(self.words).zip(pairs).all(|(word, pair)| {
                let wanted = pair.get(row).zip(pair.get(self.cap() + row));
                let key = key.0.get(word).copied().unwrap_or(0);
                wanted.is_some_and(|(mask, value)| key & mask == *value)
            })
        };
        let row = (0..self.len()).find(|row| fits(*row))?;
        let rank = *self.data.get(row)?;
        (rank > floor).then_some((rank, RuleId(*ids.get(row)? as u32)))
    }

    fn lookup_vector(&self, v: Vectors, key: &FlowKey, floor: u64) -> Option<(u64, RuleId)> {
        let c = Columns { data: &self.data, words: self.words, cap: self.cap(), len: self.len() };
        let i = first_match(v, &key.0, c, floor)?;
        Some((*self.data.get(i)?, RuleId(*self.data.get(self.cap() + i)? as u32)))
    }

    /// Rule `i`: its rank, id, and what it demands.
    pub(super) fn get(&self, i: usize) -> Option<Row> {
        if i >= self.len() {
            return None;
        }
        let (mut value, mut mask) = (FlowKey::default(), FlowMask::default());
        for (n, word) in each_word(self.words).enumerate() {
            let at = (2 + 2 * n) * self.cap() + i;
            *mask.0.get_mut(word)? = *self.data.get(at)?;
            *value.0.get_mut(word)? = *self.data.get(at + self.cap())?;
        }
        Some((*self.data.get(i)?, RuleId(*self.data.get(self.cap() + i)? as u32), value, mask))
    }

    /// Whether all rules have this mask.
    pub(super) fn is_all_of(&self, mask: &FlowMask) -> bool {
        let column = |n: usize| {
            let at = (2 + 2 * n) * self.cap();
            self.data.get(at..at + self.len()).unwrap_or_default()
        };
        self.words == words_of(mask)
            && each_word(self.words)
                .enumerate()
                .all(|(n, word)| column(n).iter().all(|bits| mask.0.get(word) == Some(bits)))
    }
    /// Where the rules whose rank is below this one begin.
    pub(super) fn below(&self, rank: u64) -> usize {
        self.ranks().partition_point(|&r| r >= rank)
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Where the rule with exactly this match and priority is.
    pub(super) fn position(
        &self,
        value: &FlowKey,
        mask: &FlowMask,
        priority: u32,
    ) -> Option<usize> {
        if self.is_empty() || words_of(mask) & !self.words != 0 {
            return None;
        }
        let ranks = self.ranks();
        let from = ranks.partition_point(|&r| (r >> 32) as u32 > priority);
        (from..ranks.len())
            .take_while(|&i| ranks.get(i).is_some_and(|&r| (r >> 32) as u32 == priority))
            .find(|&i| {
                each_word(self.words).enumerate().all(|(n, word)| {
                    let at = (2 + 2 * n) * self.cap() + i;
                    self.data.get(at) == mask.0.get(word)
                        && self.data.get(at + self.cap()) == value.0.get(word)
                })
            })
    }

    /// Adds a rule; bits of `value` outside `mask` are zero.
    pub(super) fn insert(&mut self, rank: u64, id: RuleId, value: &FlowKey, mask: &FlowMask) {
        let words = self.words | words_of(mask);
        if self.len == self.cap || words != self.words {
            let cap = if self.len < self.cap { self.cap } else { self.grown() };
            self.relay(words, cap);
        }
        let (len, cap) = (self.len(), self.cap());
        let at = self.ranks().partition_point(|&r| r > rank);
        let mut put = |column: usize, x: u64| {
            if let Some(c) = self.data.get_mut(column * cap..column * cap + len + 1) {
                c.copy_within(at..len, at + 1);
                c[at] = x;
            }
        };
        put(0, rank);
        put(1, u64::from(id.0));
        for (n, word) in each_word(words).enumerate() {
            put(2 + 2 * n, mask.0.get(word).copied().unwrap_or(0));
            put(3 + 2 * n, value.0.get(word).copied().unwrap_or(0));
        }
        self.len += 1;
        self.anew = true;
    }

    /// Takes out rule `i`; its rank and id.
    pub(super) fn remove(&mut self, i: usize) -> Option<(u64, RuleId)> {
        let (len, cap) = (self.len(), self.cap());
        let (rank, id, ..) = self.get(i)?;
        for column in self.data.chunks_exact_mut(cap) {
            column.copy_within(i + 1..len, i);
        }
        self.len -= 1;
        if self.len == 0 {
            *self = Self { tight: self.tight, ..Self::default() };
        } else if self.len <= self.cap / 2 {
            self.relay(self.used_words(), self.fitting());
        } else {
            self.vacate();
        }
        self.anew = true;
        Some((rank, id))
    }

    /// Takes out all from rule `cut` on.
    pub(super) fn split_off(&mut self, cut: usize) -> Self {
        let (len, cap) = (self.len(), self.cap());
        let cut = cut.min(len);
        let mut out = Self { len: (len - cut) as u32, words: self.words, ..Self::default() };
        out.cap = out.fitting();
        let mut data = Vec::with_capacity(self.data.len() / cap.max(1) * out.cap());
        for column in self.data.chunks_exact(cap.max(1)) {
            data.extend_from_slice(column.get(cut..len).unwrap_or_default());
            data.resize(data.len().next_multiple_of(FEW), 0);
        }
        out.data = data.into();
        self.len = cut as u32;
        for part in [&mut *self, &mut out] {
            part.relay(part.used_words(), part.fitting());
        }
        out
    }
    /// Adds the rules of another, all of which have ranks below its own.
    pub(super) fn append(&mut self, other: &Self) {
        let words = self.words | other.words;
        let all = (self.len + other.len).next_multiple_of(FEW as u32);
        if words != self.words || all > self.cap {
            self.relay(words, all.max(self.cap));
        }
        for (rank, id, value, mask) in other.iter() {
            self.insert(rank, id, &value, &mask);
        }
    }

    /// Keeps the rules for whose rank `keep` says so.
    pub(super) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let stay: Vec<usize> =
            (0..self.len()).filter(|&i| self.data.get(i).is_some_and(|&r| keep(r))).collect();
        let cap = self.cap();
        if stay.is_empty() {
            *self = Self { tight: self.tight, anew: true, ..Self::default() };
            return;
        }
        for column in self.data.chunks_exact_mut(cap) {
            for (to, &from) in stay.iter().enumerate() {
                // `to <= from`: what is read has not been written yet.
                column.copy_within(from..=from, to);
            }
        }
        self.len = stay.len() as u32;
        self.relay(self.used_words(), self.fitting());
        self.anew = true;
    }

    /// Gives every rule the rank that `f` says; the order must stay.
    pub(super) fn rerank(&mut self, f: impl Fn(u64) -> u64) {
        let len = self.len();
        if let Some(ranks) = self.data.get_mut(..len) {
            ranks.iter_mut().for_each(|r| *r = f(*r));
        }
    }

    /// Bits that any rule looks at.
    pub(super) fn union(&self) -> FlowMask {
        let mut out = FlowMask::default();
        for (n, word) in each_word(self.words).enumerate() {
            let start = (2 + 2 * n) * self.cap();
            if let (Some(column), Some(o)) =
                (self.data.get(start..start + self.len()), out.0.get_mut(word))
            {
                *o = column.iter().fold(0, |a, m| a | m);
            }
        }
        out
    }

    fn used_words(&self) -> u32 {
        words_of(&self.union())
    }

    /// Room for one more: [`FEW`], then more by a quarter.
    fn grown(&self) -> u32 {
        match self.len {
            0 if self.tight => 1,
            1 if self.tight => 2,
            n if n < FEW as u32 => FEW as u32,
            n => (n + n / 4 + 4) & !3,
        }
    }
    /// Room for those that there are.
    fn fitting(&self) -> u32 {
        match self.len {
            1 | 2 if self.tight => self.len,
            n => n.next_multiple_of(FEW as u32),
        }
    }

    /// Lays the rules out anew with columns of `cap` for `words`, which covers those in use.
    fn relay(&mut self, words: u32, cap: u32) {
        let mut next = Block {
            data: vec![0; (2 + 2 * words.count_ones() as usize) * cap as usize].into(),
            words,
            cap,
            len: self.len,
            tight: self.tight,
            anew: self.anew,
        };
        let (len, old_cap, new_cap) = (self.len(), self.cap(), cap as usize);
        let mut copy = |from: usize, to: usize| {
            if let (Some(a), Some(b)) = (
                self.data.get(from * old_cap..from * old_cap + len),
                next.data.get_mut(to * new_cap..to * new_cap + len),
            ) {
                b.copy_from_slice(a);
            }
        };
        copy(0, 0);
        copy(1, 1);
        let mut from = 2;
        for word in each_word(self.words) {
            if words >> word & 1 == 1 {
                let to = 2 + 2 * (words & ((1u32 << word) - 1)).count_ones() as usize;
                copy(from, to);
                copy(from + 1, to + 1);
            }
            from += 2;
        }
        *self = next;
        self.vacate();
    }

    /// Makes the rows without a rule match nothing: a mask without bits, a value with one.
    fn vacate(&mut self) {
        let (len, cap) = (self.len(), self.cap());
        for (column, x) in [(2, 0), (3, 1)] {
            if let Some(c) = self.data.get_mut(column * cap + len..(column + 1) * cap) {
                c.fill(x);
            }
        }
    }
}

/// Rules that there mostly is room for at least, and that are compared without a loop.
const FEW: usize = 4;

const _: () = assert!(WORDS < 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::dice;

    /// One that is tight answers as the other, whatever comes and goes, and is smaller while there are few.
    #[test]
    fn tight_or_not() {
        let mut random = dice(1);
        let (mut loose, mut tight) = (Block::default(), Block::tight());
        let mut ranks: Vec<u64> = Vec::new();
        let mut smaller = 0;
        for step in 0..4_000u32 {
            // Up to seven, and none again.
            if (step / 7 % 2 == 0 || ranks.is_empty()) && ranks.len() < 7 {
                let rank = (u64::from(step) << 32) + random(1 << 30) + 1;
                let (mut value, mut mask) = (FlowKey::default(), FlowMask::default());
                for _ in 0..random(4) {
                    let word = random(3) as usize;
                    mask.0[word] = 3 << random(2);
                    value.0[word] = random(8) & mask.0[word];
                }
                for s in [&mut loose, &mut tight] {
                    s.insert(rank, RuleId(step), &value, &mask);
                }
                ranks.push(rank);
            } else {
                let at = random(ranks.len() as u64) as usize;
                assert_eq!(loose.remove(at), tight.remove(at), "{step}");
                ranks.sort_unstable_by(|a, b| b.cmp(a));
                ranks.remove(at);
            }
            smaller += usize::from(tight.heap_bytes() < loose.heap_bytes());
            assert!(tight.heap_bytes() <= loose.heap_bytes() && tight.union() == loose.union());
            for v in Vectors::available() {
                for _ in 0..8 {
                    let mut key = FlowKey::default();
                    key.0.iter_mut().take(3).for_each(|w| *w = random(8));
                    let floor = ranks.get(random(9) as usize).copied().unwrap_or(0);
                    let want = loose.lookup(v, &key, floor);
                    assert_eq!(tight.lookup(v, &key, floor), want, "{step} {}", v.name());
                }
            }
        }
        assert!(smaller > 500, "{smaller}");
    }
}
