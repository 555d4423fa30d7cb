//! Small tables of one tuple: what is packed or near beside it, and what their owner is told.
//!
//! Room: `fast`'s. Called after each change, and by owners that keep words.

use super::*;

impl FastTable {
    /// Whether the owner keeps words and is to ask [`FastTable::near`].
    #[inline(always)]
    pub fn is_near(&self) -> bool {
        self.packed.way == Way::Near
    }
    /// Where [`FastTable::is_near`]: the key's word and the one rule that may be meant, which is if its word is the same.
    #[inline(always)]
    pub fn near(&self, key: &FlowKey) -> Probe {
        let word = self.packed.word(key);
        let id = self.near.at(self.packed.place_near(word));
        Probe { hash: word, left: id.map_or(0, |id| u64::from(id.0) + 1) }
    }
    /// Where [`FastTable::is_near`]: what tells a rule with this match from the others.
    pub fn word(&self, m: &Match) -> u64 {
        self.packed.word(m.value())
    }
    /// Where [`FastTable::is_near`], after a change: whether all rules have other words since this was asked last.
    pub fn has_other_words(&mut self) -> bool {
        std::mem::take(&mut self.other_words)
    }
    /// Packs the one tuple that there is, where that can be.
    pub(super) fn pack(&mut self, change: Option<(&Match, Edit)>) -> Way {
        if self.kept == Words::ByOwner && self.bring_near(change) {
            return Way::Near;
        }
        // Who goes to and fro at the limit is not packed anew each time.
        let most = if self.packed.is_there() { packed::MOST } else { packed::MOST / 4 * 3 };
        let Some(one) = self.exact(most) else { return Way::Tuple };
        match change {
            Some((m, Edit::In(id))) if self.packed.is_there() => {
                self.packed.insert(m.value(), id, one.len() - 1);
            }
            Some((m, Edit::Out)) if self.packed.is_there() => {
                self.packed.remove(m.value(), one.len())
            }
            _ => {
                let Some((none, rules)) = self.to_pack(one) else { return Way::Tuple };
                self.packed = none.with(self.seed(), &rules);
            }
        }
        if self.packed.is_there() { Way::Packed } else { Way::Tuple }
    }
    /// The first tuple, if it has so many rules at most, all in places of their own.
    fn exact(&self, most: usize) -> Option<&Tuple> {
        self.parts.tuples.first().filter(|t| t.len() <= most && t.is_exact())
    }
    /// Nobody outside knows it.
    fn seed(&self) -> u32 {
        RandomState::new().hash_one(self.inserted) as u32
    }
    /// How the bits of a tuple's keys are put together, and its rules; `None` where they do not fit a word.
    fn to_pack(&self, one: &Tuple) -> Option<(Packed, Vec<(FlowKey, RuleId)>)> {
        // Before anything is copied: most masks of several fields do not fit.
        let none = Packed::of_mask(one.mask())?;
        let mut rules = Vec::with_capacity(one.len());
        one.for_each(&mut |_, r| rules.push((*r.matcher.value(), r.id)));
        Some((none, rules))
    }
    /// Tells what is [`Near`] of the one tuple that there is, if all of it may be.
    fn bring_near(&mut self, change: Option<(&Match, Edit)>) -> bool {
        let was = self.packed.way == Way::Near;
        // Who goes to and fro at the limit is not made anew each time.
        let most = if was { near::MOST } else { near::MOST / 4 * 3 };
        if self.exact(most).is_none() {
            return false;
        }
        if was && let Some((m, edit)) = change {
            let place = self.packed.place_near(self.packed.word(m.value()));
            match edit {
                Edit::In(id) if self.near.insert(place, id) => return true,
                Edit::In(_) => {}
                Edit::Out => {
                    self.near.remove(place);
                    return true;
                }
            }
        }
        let to_pack = self.exact(most).and_then(|one| self.to_pack(one));
        let made = to_pack.and_then(|(none, rules)| none.near(self.seed(), &rules));
        let Some((packed, near)) = made else { return false };
        // While it is, its one tuple stays the same, and so do words.
        self.other_words |= !was;
        (self.packed, self.near) = (packed, near);
        true
    }
}
