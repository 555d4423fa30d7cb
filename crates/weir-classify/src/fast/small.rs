//! Tables of one mask, in a tuple or in the rest alone, and those with a few rules more: what is packed or near beside it, and what their
//! owner is told.
//!
//! Room: `fast`'s. Called after each change, and by owners that keep words.

use super::*;

/// Rules of a rest from which on they are near: fewer are compared as fast.
const LEAST_NEAR: usize = 8;

impl FastTable {
    /// Whether the owner keeps words and is to ask [`FastTable::near`].
    #[inline(always)]
    pub fn is_near(&self) -> bool {
        matches!(self.packed.way, Way::Near | Way::NearAside)
    }
    /// Where [`FastTable::is_near`]: the winner, the table-miss entry among them, where it may be one of a few rules that are not near, and above
    /// one that is; who has another has that of [`FastTable::near`], or if that is not the right one, [`FastTable::otherwise`].
    #[inline(always)]
    pub fn aside(&self, key: &FlowKey) -> Option<Option<RuleId>> {
        let may_be = self.packed.way == Way::NearAside && !self.aside.below && self.aside.lets(key);
        may_be.then(|| self.winner_aside(key))
    }
    /// Where [`FastTable::is_near`]: the winner where it is no rule that is near.
    #[inline(always)]
    pub fn otherwise(&self, key: &FlowKey) -> Option<RuleId> {
        let may_be = self.packed.way == Way::NearAside && self.aside.below && self.aside.lets(key);
        may_be.then(|| self.rest_alone(key)).flatten().or_else(|| self.miss())
    }
    #[inline(never)]
    fn winner_aside(&self, key: &FlowKey) -> Option<RuleId> {
        let one = self.parts.tuples.first()?;
        self.resolve_aside(one, key, Ahead::Nothing).or_else(|| self.miss())
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
        let others = self.owner == Owner::ToBeTold;
        if others {
            self.owner = Owner::WasTold;
        }
        others
    }
    /// Packs the one tuple that there is, where that can be and its rules are not near.
    pub(super) fn pack(&mut self, change: Option<(&Match, Edit)>) -> Way {
        // Who goes to and fro at the limit is not packed anew each time.
        let most = if self.packed.is_there() { packed::MOST } else { packed::MOST / 4 * 3 };
        let Some(one) = self.exact(most) else { return Way::Tuple };
        match change {
            Some((m, Edit::In(id))) if self.packed.is_there() => {
                self.packed.insert(m.value(), id, one.len() - 1);
            }
            Some((m, Edit::Out(_))) if self.packed.is_there() => {
                self.packed.remove(m.value(), one.len())
            }
            _ => {
                let Some((none, rules)) = self.to_pack(one) else { return Way::Tuple };
                self.packed = none.with(self.seed(), &rules);
            }
        }
        if self.packed.is_there() { Way::Packed } else { Way::Tuple }
    }
    /// Looks at the rules beside the one tuple, if they have changed.
    pub(super) fn put_aside(&mut self, way: Way) -> Way {
        let is_new = !matches!(self.packed.way, Way::Aside | Way::NearAside);
        if self.parts.rest.is_anew() | is_new {
            self.aside = Aside::of(&self.parts.rest);
        }
        let Parts { tuples, rest, .. } = &self.parts;
        self.aside.below = tuples.first().is_some_and(|one| one.is_above(rest.top()));
        way
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
    /// Tells what is [`Near`] of all rules, if all of them may be: those of the one tuple that there is, or those of the rest while
    /// there is none.
    pub(super) fn bring_near(&mut self, change: Option<(&Match, Edit)>) -> bool {
        // Rules that have left a tuple may stand beside others.
        let was = match self.packed.way {
            Way::NearAside => !self.parts.tuples.is_empty(),
            way => way == Way::Near,
        };
        if !self.are_few() {
            return false;
        }
        // One that is none of the tuple's changes nothing here.
        let of_tuple = |m: &Match| self.parts.tuples.first().is_none_or(|t| t.mask() == m.mask());
        if was && change.is_some_and(|(m, _)| !of_tuple(m)) {
            return true;
        }
        if was && let Some((m, edit)) = change {
            let place = self.packed.place_near(self.packed.word(m.value()));
            match edit {
                Edit::In(id) if self.is_like_all(m) && self.near.insert(place, id) => return true,
                Edit::In(_) => {}
                // One beside the tuple may ask the same.
                Edit::Out(id) => {
                    if self.near.at(place) == Some(id) {
                        self.near.remove(place);
                    }
                    return true;
                }
            }
        }
        let made = self.to_bring_near().and_then(|(none, rules)| none.near(self.seed(), &rules));
        let Some((packed, near)) = made else { return false };
        // While it is, the mask stays the same, and so do words.
        if !was {
            self.owner = Owner::ToBeTold;
        }
        (self.packed, self.near) = (packed, near);
        true
    }
    /// Whether there are no more rules than may be near, and in a rest no fewer than are worth it. Who goes to and fro at a limit
    /// is not made anew each time.
    fn are_few(&self) -> bool {
        let (least, most) = match self.is_near() {
            true => (LEAST_NEAR / 2, near::MOST),
            false => (LEAST_NEAR, near::MOST / 4 * 3),
        };
        match self.parts.tuples.is_empty() {
            true => (least..=most).contains(&self.parts.rest.len()),
            false => self.exact(most).is_some(),
        }
    }
    /// Whether a rule that has come to the rest has the mask of all; that of a tuple was looked at.
    fn is_like_all(&self, m: &Match) -> bool {
        !self.parts.tuples.is_empty() || self.parts.rest.is_all_of(m.mask())
    }
    fn to_bring_near(&self) -> Option<(Packed, Vec<(FlowKey, RuleId)>)> {
        if let Some(one) = self.parts.tuples.first() {
            return self.to_pack(one);
        }
        let rest = &self.parts.rest;
        let (.., mask) = rest.best()?;
        let none = Packed::of_mask(&mask).filter(|_| rest.is_all_of(&mask))?;
        Some((none, rest.iter().map(|(_, id, value, _)| (value, id)).collect()))
    }
}
