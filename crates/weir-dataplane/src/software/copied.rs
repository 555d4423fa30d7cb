//! Rules of a VDP on the slow path: its own, and copies of the fast path's as long as all its frames come here. A copy is known by
//! its slot, so that taking all of them away asks for none of them.
//!
//! Room: part of `Slot`; changed by jobs only.

use super::slot::{Slot, SlowRule};
use crate::matching::{Put, Table};
use weir_classify::Match;

/// Which slots of each table have copies: a bit each, and how many.
#[derive(Debug, Default)]
pub(super) struct Copied(Vec<(Vec<u64>, usize)>);

impl Copied {
    fn set(&mut self, table: u8, slot: u32) {
        let (n, at) = (usize::from(table), slot as usize / 64);
        if self.0.len() <= n {
            self.0.resize(n + 1, (Vec::new(), 0));
        }
        let Some((bits, count)) = self.0.get_mut(n) else { return };
        if bits.len() <= at {
            bits.resize(at + 1, 0);
        }
        let Some(bits) = bits.get_mut(at) else { return };
        *count += usize::from(*bits >> (slot % 64) & 1 == 0);
        *bits |= 1 << (slot % 64);
    }
    fn clear(&mut self, table: u8, slot: u32) {
        let Some((bits, count)) = self.0.get_mut(usize::from(table)) else { return };
        let Some(bits) = bits.get_mut(slot as usize / 64) else { return };
        *count -= usize::from(*bits >> (slot % 64) & 1 == 1);
        *bits &= !(1 << (slot % 64));
    }
    pub(super) fn has(&self, table: u8, slot: u32) -> bool {
        let bits = self.0.get(usize::from(table)).and_then(|t| t.0.get(slot as usize / 64));
        bits.is_some_and(|b| b >> (slot % 64) & 1 == 1)
    }
}

impl Slot {
    /// Puts a copy of a fast-path rule here.
    pub(crate) fn put_copy(&mut self, table: u8, r: SlowRule) {
        if let Some((Put::Added, slot)) = self.put(table, r) {
            self.copied.get_or_insert_default().set(table, slot);
        }
    }
    /// Puts a rule here that the fast path has not.
    pub(crate) fn put_own(&mut self, table: u8, r: SlowRule) {
        if let Some((_, slot)) = self.put(table, r) {
            self.is_own(table, slot);
        }
    }
    fn is_own(&mut self, table: u8, slot: u32) {
        self.copied.iter_mut().for_each(|c| c.clear(table, slot));
    }
    fn put(&mut self, table: u8, r: SlowRule) -> Option<(Put, u32)> {
        let t = self.tables.get_mut().table_mut(table);
        let put = t.put_fast(&r.spec, r.result).ok()?;
        t.count_at(put.1, r.usage);
        Some(put)
    }
    /// Table `n`, if it is there.
    fn table_mut(&mut self, n: u8) -> Option<&mut Table> {
        self.tables.made.as_mut()?.tables.get_mut(usize::from(n))
    }
    /// Takes a rule away.
    pub(crate) fn take_rule(&mut self, table: u8, matcher: &Match, priority: u32) {
        if let Some(slot) = self.table_mut(table).and_then(|t| t.take(matcher, priority)) {
            self.is_own(table, slot);
        }
    }
    /// Takes all copies away. What they were in comes back where it was all that a table had, as that is large: to be dropped
    /// where it takes nobody's time.
    #[must_use]
    pub(crate) fn end_copy(&mut self) -> Vec<Table> {
        let Some(copied) = self.copied.take() else { return Vec::new() };
        let mut gone = Vec::new();
        for (table, (_, count)) in copied.0.iter().enumerate() {
            let table = table as u8;
            let Some(t) = self.table_mut(table) else { continue };
            if t.len() == *count {
                gone.push(t.empty());
                continue;
            }
            let mut copies = Vec::with_capacity(*count);
            t.for_each(&mut |r| {
                if copied.has(table, r.id.0) {
                    copies.push((r.matcher, r.priority));
                }
            });
            for (matcher, priority) in copies {
                t.take(&matcher, priority);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::ActionResult;
    use crate::matching::{Counting, RuleSpec};
    use weir_classify::Field;

    fn rule(n: u128) -> SlowRule {
        let matcher = Match::any().with(Field::EthDst, n);
        let spec = RuleSpec { matcher, priority: 1, cookie: 0, actions: [].into() };
        SlowRule { spec, result: ActionResult::to_channel(), usage: Default::default() }
    }
    fn has(s: &Slot, table: u8, n: u128) -> bool {
        let t = s.tables.get().and_then(|t| t.tables.get(usize::from(table)));
        t.is_some_and(|t| t.find(&rule(n).spec.matcher, 1).is_some())
    }
    fn take(s: &mut Slot, table: u8, n: u128) {
        s.take_rule(table, &rule(n).spec.matcher, 1);
    }

    #[test]
    fn copies_go_and_what_is_its_own_stays() {
        let mut s = Slot::new(None, Counting::default());
        for n in 0..200 {
            s.put_copy(0, rule(n));
            s.put_copy(1, rule(n));
            s.put_copy(1, rule(n));
        }
        // Of table 1 rules become its own, come, go, and come as copies in the slots that others have left.
        s.put_own(1, rule(7));
        s.put_own(1, rule(300));
        for n in [8, 300] {
            take(&mut s, 1, n);
        }
        for n in [301, 302] {
            s.put_copy(1, rule(n));
        }
        s.put_own(1, rule(303));
        // What is its own already is no copy.
        s.put_copy(1, rule(7));
        let own = |s: &Slot| {
            let mut own: Vec<_> = s
                .views()
                .iter()
                .map(|v| (v.table, v.spec.matcher.value().get(Field::EthDst)))
                .collect();
            own.sort_unstable();
            own
        };
        assert_eq!(own(&s), [(1, 7), (1, 303)]);
        let gone = s.end_copy();
        assert_eq!(gone.iter().map(Table::len).collect::<Vec<_>>(), [200]);
        assert_eq!(own(&s), [(1, 7), (1, 303)]);
        assert!(!has(&s, 0, 1) && !has(&s, 1, 1) && !has(&s, 1, 301));
        assert!(has(&s, 1, 7) && has(&s, 1, 303));
        assert_eq!(s.tables.get().unwrap().len(), 2);
        // Again from the beginning.
        s.put_copy(0, rule(1));
        assert!(has(&s, 0, 1));
        assert_eq!(s.end_copy().len(), 1);
        assert!(!has(&s, 0, 1) && has(&s, 1, 7));
    }
}
