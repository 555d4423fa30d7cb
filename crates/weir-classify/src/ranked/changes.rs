//! How rules by rank come and go: which place a rule takes, who goes out of its way, what of those who left stays.
//!
//! Room: data-path core. Called by `fast`, between lookups.

use super::{LINE, LOOSE, MOVES, NEAR, PASSED, Ranked, SOME, VACANT};
use crate::key::{FlowKey, FlowMask};
use crate::rule::{Match, RuleId};
use crate::scan::words_of;

impl Ranked {
    /// Adds a rule. False where there is no room, or most are others than it was made of: all must be made anew.
    pub(crate) fn insert(&mut self, rank: u64, id: RuleId, m: &Match) -> bool {
        let known = self.words.iter().take(self.width);
        let known = known.fold(0, |words, &w| words | 1u32 << w);
        if words_of(m.mask()) & !known != 0 {
            return false;
        }
        let Some(place) = self.vacancy(rank, m).or_else(|| self.last_place(rank)) else {
            return false;
        };
        self.len += 1;
        if self.left.contains_key(&(place as u32)) {
            self.succeed(place, rank, id, m);
        } else {
            // Tables that are filled in order have no loose rules.
            self.put(place, rank, id, m, place < self.sorted());
        }
        if self.loose > LOOSE {
            self.fold();
        }
        // Windows were chosen by other rules.
        self.taken_over <= self.len + SOME
    }

    /// A place in order for this rule: that of a rule that has gone, or of one that goes there.
    fn vacancy(&mut self, rank: u64, m: &Match) -> Option<usize> {
        // Where a younger one is astray nobody can tell.
        if !self.is_youngest(rank) {
            return None;
        }
        let at = self.order.partition_point(|&r| r > rank);
        // All of its priority are older, so that only those it meets must stand before it.
        let near = self.order.get(at.saturating_sub(NEAR)..at)?;
        let first = at - (near.len() - near.partition_point(|r| r >> 32 > rank >> 32));
        let last = self.ranks.get(first..at)?.iter().rposition(|&r| r == VACANT);
        let hole = last.map(|p| first + p);
        let meets_none = |p: &usize| (p + 1..at).all(|p| !self.meets(p, m));
        if let Some(place) = hole.filter(meets_none) {
            self.note_taken(place, m);
            self.astray.insert(rank, place as u32);
            return Some(place);
        }
        let vacant = |p: &usize| *p < self.sorted() && self.ranks.get(*p) == Some(&VACANT);
        if let Some(place) = [at, at.wrapping_sub(1)].into_iter().find(vacant) {
            self.note_taken(place, m);
            self.order.get_mut(place).into_iter().for_each(|r| *r = rank);
            return Some(place);
        }
        let hole = hole.filter(|p| at - p <= PASSED)?;
        self.note_taken(hole, m);
        let place = self.make_way(hole, at, m)?;
        self.astray.insert(rank, place as u32);
        Some(place)
    }

    /// Some of those between a vacant place and `end`, all of one priority, go to it, one after the other, each past rules that
    /// it does not meet and as far as can be, until none is left behind the vacant place that this rule meets.
    fn make_way(&mut self, vacant: usize, end: usize, m: &Match) -> Option<usize> {
        let (mut hole, mut moves) = (vacant, 0..MOVES);
        while (hole + 1..end).any(|p| self.meets(p, m)) {
            moves.next()?;
            // The next one can always go.
            let (place, (id, goes)) = (hole + 1..end).rev().find_map(|p| {
                let rule = self.rule(p)?;
                (hole + 1..p)
                    .all(|on_its_way| !self.meets(on_its_way, &rule.1))
                    .then_some((p, rule))
            })?;
            let of = self.ranks.get(place).copied()?;
            self.vacate(place);
            self.succeed(hole, of, id, &goes);
            self.astray.insert(of, hole as u32);
            hole = place;
        }
        Some(hole)
    }

    /// The rule of a place, or that which has left it: id and match, as far as its words are kept.
    pub(super) fn rule(&self, place: usize) -> Option<(RuleId, Match)> {
        let data = self.data.get(place * self.stride..(place + 1) * self.stride)?;
        let at = |i: usize| data.get(i / 8).map_or(0, |l| l.0[i % 8]);
        let is_vacant = self.ranks.get(place) == Some(&VACANT);
        let left = if is_vacant { self.left.get(&(place as u32)) } else { None };
        let (mut mask, mut value) = (FlowMask::default(), FlowKey::default());
        for (i, &w) in self.words.iter().enumerate().take(self.width) {
            let w = usize::from(w);
            if let (Some(m), Some(v)) = (mask.0.get_mut(w), value.0.get_mut(w)) {
                let there = (at(1 + 2 * i), at(2 + 2 * i));
                (*m, *v) = left.copied().filter(|_| i == 0).unwrap_or(there);
            }
        }
        Some((RuleId(at(0) as u32), Match::new(value, mask)))
    }

    /// Notes that a rule takes a vacant place, or has one made for it there, if it is not the one who left it.
    fn note_taken(&mut self, place: usize, m: &Match) {
        let came_back = self.rule(place).is_some_and(|(_, left)| left == *m);
        self.taken_over += usize::from(!came_back);
    }

    /// Nothing fits the place from now on, whose rule and bits are kept for who comes back.
    fn vacate(&mut self, place: usize) {
        let data = self.data.get(place * self.stride);
        let first = data.map_or((0, 0), |l| (l.0[1], l.0[2]));
        // Nothing fits a place that demands a bit outside its mask.
        self.demand(place, 0, 0, 1);
        self.ranks.get_mut(place).into_iter().for_each(|r| *r = VACANT);
        self.left.insert(place as u32, first);
    }

    /// A rule takes the place of one who has left.
    fn succeed(&mut self, place: usize, rank: u64, id: RuleId, m: &Match) {
        let Some((_, old)) = self.rule(place) else { return };
        let left = self.left.remove(&(place as u32));
        if old == *m {
            left.into_iter().for_each(|(mask, value)| self.demand(place, 0, mask, value));
            self.data.get_mut(place * self.stride).into_iter().for_each(|l| l.0[0] = id.0.into());
            self.ranks.get_mut(place).into_iter().for_each(|r| *r = rank);
            self.youngest = self.youngest.min(rank as u32);
            return;
        }
        self.clear(place, &old, m);
        self.put(place, rank, id, m, place < self.sorted());
    }

    /// Takes the bits of a place out of the rows that were written for a rule, but where both that and the next agree with all
    /// values of a window.
    fn clear(&mut self, place: usize, old: &Match, next: &Match) {
        let (line, word, bit) = (place / LINE, place / 64 % 8, 1u64 << (place % 64));
        let (lines, bits) = (self.lines, self.bits);
        let windows = self.windows.iter().zip(self.rows.chunks_exact_mut(lines << bits));
        for ((w, rows), open) in windows.zip(self.open.chunks_exact_mut(lines)) {
            let mut clear = |v: usize| {
                if let Some(l) = rows.get_mut(v * lines + line) {
                    l.0[word] &= !bit;
                }
            };
            let Some(open) = open.get_mut(line).and_then(|l| l.0.get_mut(word)) else { continue };
            let was_open = !w.values(&old.mask().0, &old.value().0, |_| {});
            if was_open && w.values(&next.mask().0, &next.value().0, |_| {}) {
                *open &= !bit;
                (0..1 << bits).for_each(clear);
            } else if !was_open {
                w.values(&old.mask().0, &old.value().0, &mut clear);
            }
        }
    }

    /// Whether some key fits both this rule and that of a place.
    fn meets(&self, place: usize, m: &Match) -> bool {
        let Some(data) = self.data.get(place * self.stride..(place + 1) * self.stride) else {
            return true;
        };
        let at = |i: usize| data.get(i / 8).map_or(0, |l| l.0[i % 8]);
        let words = self.words.iter().enumerate().take(self.width);
        let differ = words.fold(0, |differ, (i, &w)| {
            let of = |words: &[u64]| words.get(usize::from(w)).copied().unwrap_or(0);
            let (mask, value) = (of(&m.mask().0), of(&m.value().0));
            differ | (value ^ at(2 + 2 * i)) & mask & at(1 + 2 * i)
        });
        differ == 0
    }

    /// A place behind all others.
    fn last_place(&mut self, rank: u64) -> Option<usize> {
        let at = self.ranks.len();
        let falls = self.order.last().is_none_or(|&last| last > rank);
        let in_order = at == self.sorted() && falls && self.is_youngest(rank);
        let crowded = !in_order && self.late.len() > self.made_of / 8 + SOME;
        if crowded || at == self.lines * LINE && self.left_late.is_empty() {
            return None;
        }
        if !in_order {
            let place = self.left_late.pop().map_or_else(|| self.add_place(), |p| p as usize);
            self.late.insert(rank, place as u32);
            self.late_top = self.late_top.max(rank);
            return Some(place);
        }
        self.order.push(rank);
        Some(self.add_place())
    }

    /// Removes the rule with this rank. False where so many have gone that all should be made anew.
    pub(crate) fn remove(&mut self, rank: u64) -> bool {
        let apart = self.late.remove(&rank).or_else(|| self.astray.remove(&rank));
        if self.late.is_empty() {
            self.late_top = 0;
        }
        let place = match apart {
            Some(place) => Some(place as usize),
            None => {
                let at = self.order.partition_point(|&r| r > rank);
                (self.ranks.get(at) == Some(&rank)).then_some(at)
            }
        };
        if let Some(place) = place {
            self.vacate(place);
            self.len -= 1;
            if place >= self.sorted() {
                self.left_late.push(place as u32);
            }
        }
        self.left.len() <= self.len + SOME
    }
}
