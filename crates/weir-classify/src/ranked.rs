//! The rules of a table once more, in the order of their ranks, with a bit each: who looks up ANDs a
//! few rows of bits and compares what is left, nearly always one rule.
//!
//! Room: data-path core. Called by `fast` where a table of up to [`MOST`] rules has several parts;
//! `tuple` and `scan` hold the rules all the same, to find what is the same and to make this anew.
//! For each of a few windows of neighbouring bits of the key there is a row for each value that a
//! window can have: bit `i` is set where rule `i` agrees with the value. Ranks fall from place to
//! place, so that the first rule that fits is the winner.
//!
//! **How it changes.** A rule goes where its rank belongs, if that place is vacant: who leaves leaves
//! one. So does one whose way there passes only rules of its own priority that no key fits beside it:
//! it is *astray*, where the rank of who left says what order places are in. If it meets some, others of them go
//! to the vacant place first, past those that they don't meet, until none is in its way. Else it is *late*: it stands
//! behind all others in no order, and is asked whether it is better where its bit is left. When late rules,
//! vacant places or those that other rules took have become many, all is made anew, which each of them has paid for. A late rule that agrees with all values of a window is *loose* until there are
//! [`LOOSE`] of them: its bit stands in one row, which is ORed to the others, and is written to all of
//! them together with those of the rest. The bits of a rule that has gone stay until another takes its place: it costs
//! later lookups a comparison at most, and itself little to come back.
//!
//! **What it costs.** Lookup: a line of memory for each window and 512 places, and one for each rule
//! compared of up to three words (two of up to seven). What is done for each window is what a lookup
//! costs, a hundred nanoseconds or thirty: so the ways are compiled for each number of lines, and an
//! index needs no check. Memory: at most eight windows of 256 rows with a bit for each place, these
//! lines of rules, and an eighth more for what may come. Worst case: rules that agree in all windows
//! are compared one after the other, as a scan does, of [`MOST`] rules at most. Source: the bit vectors
//! of Lakshman and Stiliadis, SIGCOMM '98, made updatable.

mod changes;
mod lookup;

use crate::key::{FlowKey, FlowMask, WORDS};
use crate::rule::{Match, RuleId};
use crate::scan::{each_word, words_of};
use crate::simd::Line;
use crate::windows::{Choice, Places, WINDOWS, Window, every, fill_key, other_of};
use std::collections::HashMap;

/// Places to a line of a row.
const LINE: usize = 512;
/// Late rules that agree with a whole window and are asked for apart, at most.
const LOOSE: usize = 64;
/// Rules that there may be: more rows would cost a lookup more than they save.
pub(crate) const MOST: usize = 4096;
/// Rules by which windows are chosen, and keys.
const SAMPLE: usize = LINE;
const KEYS: usize = 128;
/// Late rules, vacant places, and those that others took, that are no reason to make all anew.
const SOME: usize = 64;
/// Times that windows are taken over.
const KEPT: u32 = 8;
/// Places of its own priority that a rule may pass on its way to a vacant one.
const NEAR: usize = 256;
/// The same where others are moved for it, and how many: each move takes a comparison for each two of them at most.
const PASSED: usize = 32;
const MOVES: usize = 16;
/// The rank of no rule.
const VACANT: u64 = 0;

/// A rule as it is handed over: rank, id, match.
pub(crate) type Entry = (u64, RuleId, Match);

/// The rules of one table by rank.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    /// Of each window: the row of each value.
    rows: Box<[Line]>,
    windows: [Window; WINDOWS],
    /// How many these are.
    count: usize,
    /// Of each window: those that agree with all values.
    open: Box<[Line]>,
    /// How many of these have come since that was last noted in all the rows.
    loose: usize,
    /// Bits of a window.
    bits: u32,
    /// Lines of a row that there is room for, and that are in use.
    lines: usize,
    used: usize,
    /// Of each place `stride` lines: the id, then mask and value of each word.
    data: Vec<Line>,
    stride: usize,
    /// Words of the key that are compared; behind them zeros.
    words: [u8; WORDS],
    /// How many these are.
    width: usize,
    /// Rank of every place's rule; [`VACANT`] where there is none.
    ranks: Vec<u64>,
    /// Of the places in order: ranks that fall from one to the next, those of their rules, but for vacant ones and those that have
    /// one who is astray.
    order: Vec<u64>,
    /// Where rules are that are astray.
    astray: HashMap<u64, u32>,
    /// The rank of the youngest rule so far, without its priority.
    youngest: u32,
    /// Of vacant places: mask and value of the first word of who left. And those among them where late rules were.
    left: HashMap<u32, (u64, u64)>,
    left_late: Vec<u32>,
    /// Where the late rules are, and the largest rank that one of them had.
    late: HashMap<u64, u32>,
    late_top: u64,
    len: usize,
    made_of: usize,
    /// Places that another rule took than the one that had left it, since all was made.
    taken_over: usize,
    /// Rules by which the windows were chosen, and times that they were taken over since.
    chosen_of: usize,
    kept: u32,
}

impl Ranked {
    /// All the rules of a table, in any order; `old` is what there was before.
    pub(crate) fn new(rules: &[Entry], old: Option<&Self>) -> Self {
        let mut order: Vec<&Entry> = rules.iter().collect();
        order.sort_unstable_by_key(|r| std::cmp::Reverse(r.0));
        let union = order.iter().fold(FlowMask::default(), |u, r| u.union(r.2.mask()));
        let (mut words, mut width) = ([0; WORDS], 0);
        for word in each_word(words_of(&union).max(1)) {
            if let Some(w) = words.get_mut(width) {
                (*w, width) = (word as u8, width + 1);
            }
        }
        let stride = (1 + 2 * width).div_ceil(8);
        let n = order.len();
        let bits = n.max(2).ilog2().saturating_sub(1).clamp(6, 8);
        let lines = (n + n / 8 + SOME).div_ceil(LINE);
        let same = |o: &&Self| {
            (o.bits, o.words) == (bits, words)
                && o.kept < KEPT
                && (o.chosen_of / 2..o.chosen_of * 3 / 2).contains(&n)
        };
        let ((windows, count), chosen_of, kept) = match old.filter(same) {
            Some(o) => ((o.windows, o.count), o.chosen_of, o.kept + 1),
            None => (choose(&order, bits), n, 0),
        };
        let mut out = Self {
            rows: vec![Line::default(); (count << bits) * lines].into(),
            open: vec![Line::default(); count * lines].into(),
            loose: 0,
            windows,
            count,
            bits,
            lines,
            used: 0,
            data: Vec::with_capacity(n * stride),
            stride,
            words,
            width,
            ranks: Vec::with_capacity(n),
            order: order.iter().map(|r| r.0).collect(),
            astray: HashMap::new(),
            youngest: u32::MAX,
            left: HashMap::new(),
            left_late: Vec::new(),
            late: HashMap::new(),
            late_top: 0,
            len: n,
            made_of: n,
            taken_over: 0,
            chosen_of,
            kept,
        };
        for (rank, id, m) in order {
            let place = out.add_place();
            out.put(place, *rank, *id, m, false);
        }
        out.fold();
        out
    }

    /// Places in order; those behind are late.
    #[inline(always)]
    fn sorted(&self) -> usize {
        self.order.len()
    }
    fn is_youngest(&self, rank: u64) -> bool {
        (rank as u32) < self.youngest
    }

    fn add_place(&mut self) -> usize {
        let at = self.ranks.len();
        self.ranks.push(VACANT);
        self.data.extend(std::iter::repeat_n(Line::default(), self.stride));
        self.used = (at + 1).div_ceil(LINE);
        at
    }

    /// Writes what a place demands of word `n`.
    fn demand(&mut self, place: usize, n: usize, mask: u64, value: u64) {
        for (i, x) in [(1 + 2 * n, mask), (2 + 2 * n, value)] {
            if let Some(l) = self.data.get_mut(place * self.stride + i / 8) {
                l.0[i % 8] = x;
            }
        }
    }

    /// Writes a rule to a place, and its bits to the rows; those of a loose one too where `all`.
    fn put(&mut self, place: usize, rank: u64, id: RuleId, m: &Match, all: bool) {
        for n in 0..self.width {
            let word = usize::from(self.words.get(n).copied().unwrap_or(0));
            if let (Some(&mask), Some(&value)) = (m.mask().0.get(word), m.value().0.get(word)) {
                self.demand(place, n, mask, value);
            }
        }
        if let Some(l) = self.data.get_mut(place * self.stride) {
            l.0[0] = u64::from(id.0);
        }
        if let Some(r) = self.ranks.get_mut(place) {
            *r = rank;
        }
        self.youngest = self.youngest.min(rank as u32);
        let (line, word, bit) = (place / LINE, place / 64 % 8, 1u64 << (place % 64));
        let windows = self.windows.iter().zip(self.rows.chunks_exact_mut(self.lines << self.bits));
        let mut loose = false;
        for ((w, rows), open) in windows.zip(self.open.chunks_exact_mut(self.lines)) {
            let mut mark = |v: usize| {
                if let Some(l) = rows.get_mut(v * self.lines + line) {
                    l.0[word] |= bit;
                }
            };
            let Some(open) = open.get_mut(line).and_then(|l| l.0.get_mut(word)) else { continue };
            let (mask, value) = (&m.mask().0, &m.value().0);
            if *open & bit == 0 && !w.values(mask, value, &mut mark) {
                *open |= bit;
                if all {
                    (0..1 << self.bits).for_each(mark);
                }
                loose |= !all;
            }
        }
        self.loose += usize::from(loose);
    }

    /// Notes in all rows of a window who agrees with all its values, so that nobody need ask for that.
    fn fold(&mut self) {
        let windows = self.rows.chunks_exact_mut(self.lines << self.bits);
        for (rows, open) in windows.zip(self.open.chunks_exact(self.lines)) {
            for row in rows.chunks_exact_mut(self.lines) {
                for (r, o) in row.iter_mut().zip(open) {
                    r.0.iter_mut().zip(&o.0).for_each(|(r, o)| *r |= o);
                }
            }
        }
        self.loose = 0;
    }

    #[cfg(test)]
    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.rows)
            + size_of_val(&*self.open)
            + self.data.capacity() * size_of::<Line>()
            + (self.ranks.capacity() + self.order.capacity()) * size_of::<u64>()
            + self.left_late.capacity() * size_of::<u32>()
            // A control byte an entry, and an eighth of them vacant at least.
            + (self.late.capacity() + self.astray.capacity()) * (size_of::<(u64, u32)>() + 1) * 8 / 7
            + self.left.capacity() * (size_of::<(u32, (u64, u64))>() + 1) * 8 / 7
    }
}

/// The windows that leave the fewest rules, by a sample.
fn choose(order: &[&Entry], bits: u32) -> ([Window; WINDOWS], usize) {
    let sample: Vec<&Match> =
        order.iter().step_by(every(order.len(), SAMPLE)).map(|r| &r.2).collect();
    let some = sample.iter().step_by(every(sample.len(), KEYS)).enumerate();
    let keys: Vec<FlowKey> = some.map(|(i, m)| some_key(m, order, i as u64)).collect();
    let keys: Vec<&[u64]> = keys.iter().map(|k| k.0.as_slice()).collect();
    let rules =
        sample.iter().enumerate().map(|(i, m)| (i, m.mask().0.as_slice(), m.value().0.as_slice()));
    let rules: Vec<_> = rules.collect();
    let scale = 20 * order.len() / sample.len().max(1);
    // A window costs about as much as a twentieth of a comparison for each key.
    let pays = |saved: usize| saved.saturating_mul(scale) > keys.len();
    let (groups, places) = (rules.len(), Places::Together);
    Choice { rules: &rules, groups, keys: &keys, bits, places }.windows(pays)
}

/// A key that a rule fits; what the rule leaves open is another rule's, or anything.
fn some_key(m: &Match, order: &[&Entry], salt: u64) -> FlowKey {
    let mut key = *m.value();
    let other = order.get(other_of(salt, order.len())).map_or(m, |r| &r.2);
    fill_key(&mut key.0, &m.mask().0, (&other.mask().0, &other.value().0), salt);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::simd::Vectors;

    /// Rules of few priorities of which many meet go and come back, or others in their place, and the winner is the judge's.
    /// Rows have the bits of those that are there and of vacant places' last ones, and no others.
    #[test]
    fn who_comes_back_goes_behind_those_it_meets() {
        // So many of a priority, and one in so many comes back as another rule.
        for (each, other, late_ones) in [(20, usize::MAX, false), (20, 3, false), (150, 50, true)] {
            let mut random = 9u32;
            let mut below = |n: u32| {
                random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                (random >> 16) % n
            };
            let mut any = || {
                let mut part = || u128::from(below(64) & below(64) | 1 << below(6));
                let m = Match::any().with_masked(Field::Ipv4Src, part(), part());
                m.with_masked(Field::Ipv4Dst, part(), part() << 8 | 1 | part())
            };
            let mut rules: Vec<(u64, Match)> = (0..300).map(|i| (i / each, any())).collect();
            let rank = |priority: u64, n: usize| priority << 32 | (u64::from(u32::MAX) - n as u64);
            let mut ranks: Vec<u64> =
                rules.iter().enumerate().map(|(i, (p, _))| rank(*p, i)).collect();
            let entries = |ranks: &[u64], rules: &[(u64, Match)]| -> Vec<Entry> {
                let all = ranks.iter().zip(rules).enumerate();
                all.map(|(i, (r, (_, m)))| (*r, RuleId(i as u32), *m)).collect()
            };
            let mut t = Ranked::new(&entries(&ranks, &rules), None);
            let (mut moved, mut anew, mut checked, mut late) = (0, 0, 0, 0);
            let v = Vectors::best();
            for step in 0..4_000usize {
                let i = step * 7919 % rules.len();
                let places = |t: &Ranked, ranks: &[u64]| -> Vec<Option<usize>> {
                    ranks.iter().map(|r| t.ranks.iter().position(|x| x == r)).collect()
                };
                let before = places(&t, &ranks);
                let mut again = !t.remove(ranks[i]);
                if step % other == other - 1 {
                    rules[i].1 = any();
                }
                let (priority, m) = rules[i];
                ranks[i] = rank(priority, rules.len() + step);
                again |= !t.insert(ranks[i], RuleId(i as u32), &m);
                let after = places(&t, &ranks);
                moved += (0..rules.len()).filter(|&o| o != i && after[o] != before[o]).count();
                let key = *rules[step * 31 % rules.len()].1.value();
                // One that found no room is not there yet.
                for key in [*m.value(), key].into_iter().take(if again { 0 } else { 2 }) {
                    let fit = (0..rules.len()).filter(|&i| rules[i].1.matches(&key));
                    let want = fit.max_by_key(|&i| ranks[i]).map(|i| RuleId(i as u32));
                    assert_eq!(t.resolve(v, &key, t.probe(v, &key)), want, "{step}");
                }
                late += usize::from(t.has_late());
                if again {
                    t = Ranked::new(&entries(&ranks, &rules), Some(&t));
                    anew += 1;
                }
                if step % 100 == 0 {
                    let (mut is, mut ought) = (t.clone(), t.clone());
                    ought.rows.fill(Line::default());
                    ought.open.fill(Line::default());
                    for place in 0..t.ranks.len() {
                        let (id, m) = t.rule(place).unwrap();
                        ought.put(place, t.ranks[place], id, &m, place < t.sorted());
                    }
                    [&mut is, &mut ought].into_iter().for_each(Ranked::fold);
                    assert!(is.rows.iter().zip(&ought.rows).all(|(a, b)| a.0 == b.0), "{step}");
                    assert!(is.open.iter().zip(&ought.open).all(|(a, b)| a.0 == b.0), "{step}");
                    checked += 1;
                }
            }
            assert!(moved > 100 && checked == 40, "{moved} {checked}");
            assert_eq!(late > 1_000, late_ones, "{late}");
            // Those that are the same as before are no reason.
            let others = if other == usize::MAX { 0 } else { 4_000 / other };
            let most = if late_ones { 200 } else { others / 300 + usize::from(others > 0) };
            assert!((others / 400..=most).contains(&anew), "{anew}");
        }
    }

    /// Rules of few priorities that never meet go and come back, several at a time, without ever being late; one that meets
    /// another comes behind it.
    #[test]
    fn who_comes_back_is_not_late() {
        let rank = |i: u64, n: u64| (i / 40) << 32 | (u64::from(u32::MAX) - n);
        let flow = |i: u64| Match::any().with(Field::Ipv4Src, i.into());
        let all: Vec<Entry> = (0..400).map(|i| (rank(i, i), RuleId(i as u32), flow(i))).collect();
        let mut t = Ranked::new(&all, None);
        let mut ranks: Vec<u64> = all.iter().map(|r| r.0).collect();
        let (mut next, mut astray) = (400, 0);
        let found = |t: &Ranked, i: u64| {
            let (v, key) = (Vectors::best(), *flow(i).value());
            t.resolve(v, &key, t.probe(v, &key))
        };
        for i in (0..4_000u64).map(|i| i * 7919 % 400) {
            let mut anew = false;
            for i in [i, (i + 13) % 400] {
                anew |= !t.remove(ranks[i as usize]);
                assert_eq!(found(&t, i), None);
            }
            for i in [(i + 13) % 400, i] {
                let rank = rank(i, next);
                assert!(t.insert(rank, RuleId(i as u32), &flow(i)));
                (ranks[i as usize], next) = (rank, next + 1);
                assert_eq!(found(&t, i), Some(RuleId(i as u32)));
            }
            astray += t.astray.len();
            assert!(!t.has_late() && t.len == 400);
            if anew {
                let all = ranks.iter().zip(0..).map(|(r, i)| (*r, RuleId(i as u32), flow(i)));
                t = Ranked::new(&all.collect::<Vec<_>>(), Some(&t));
            }
        }
        assert!(astray > 1_000, "{astray}");
        // What all meet stands behind those of its priority: the place of the first of them is not for it.
        let place = |t: &Ranked, i: u64| t.ranks.iter().position(|r| *r == ranks[i as usize]);
        let first = (360..400).min_by_key(|i| place(&t, *i)).unwrap();
        assert!(t.remove(ranks[first as usize]));
        assert!(t.insert(rank(399, next), RuleId(999), &Match::any()) && t.has_late());
        let all = [first, 399, 361, 3].map(|i| found(&t, i).map(|r| u64::from(r.0)));
        assert_eq!(all, [999, 399, 361, 999].map(Some));
    }
}
