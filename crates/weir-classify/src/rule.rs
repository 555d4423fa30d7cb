//! Ternary rules and what a classifier must do with them.

use crate::field::{Field, MissingPrereq, check_prereqs};
use crate::key::{FlowKey, FlowMask};
use thiserror::Error;

/// A value and the bits of it that count. Bits outside the mask are zero, so equal matches are
/// equal values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    value: FlowKey,
    mask: FlowMask,
}

impl Match {
    /// Matches everything.
    pub fn any() -> Self {
        Self::default()
    }
    /// Matches keys that equal `value` under `mask`.
    pub fn new(value: FlowKey, mask: FlowMask) -> Self {
        Self { value: value.masked(&mask), mask }
    }
    /// Also demands that `f` equals `v`.
    #[must_use]
    pub fn with(self, f: Field, v: u128) -> Self {
        self.with_masked(f, v, f.full())
    }
    /// Also demands that `f` equals `v` under `mask`; replaces what was demanded of `f` before.
    #[must_use]
    pub fn with_masked(mut self, f: Field, v: u128, mask: u128) -> Self {
        self.mask.set(f, mask & f.full());
        self.value.set(f, v & mask);
        self
    }
    /// The value; bits outside the mask are zero.
    #[inline]
    pub fn value(&self) -> &FlowKey {
        &self.value
    }
    /// The mask.
    #[inline]
    pub fn mask(&self) -> &FlowMask {
        &self.mask
    }
    /// Whether `key` fits.
    #[inline]
    pub fn matches(&self, key: &FlowKey) -> bool {
        key.0.iter().zip(&self.mask.0).zip(&self.value.0).all(|((k, m), v)| k & m == *v)
    }
    /// Whether some key fits both.
    pub fn overlaps(&self, other: &Match) -> bool {
        (0..self.value.0.len()).all(|i| {
            let both = self.mask.0[i] & other.mask.0[i];
            (self.value.0[i] ^ other.value.0[i]) & both == 0
        })
    }
    /// Whether every key that fits `self` also fits `other` (OpenFlow's non-strict selection).
    pub fn is_within(&self, other: &Match) -> bool {
        self.mask.covers(&other.mask) && self.value.masked(&other.mask) == other.value
    }
    /// Checks the prerequisites of its fields.
    ///
    /// # Errors
    /// The first field whose prerequisite is not matched.
    pub fn check_prereqs(&self) -> Result<(), MissingPrereq> {
        check_prereqs(&self.value, &self.mask)
    }
}

/// What a classifier answers with: a number of the caller's, such as a slot of an action array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// A ternary rule. Larger priority wins; between equal priorities, the rule inserted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which keys.
    pub matcher: Match,
    /// Larger wins.
    pub priority: u32,
    /// What to answer.
    pub id: RuleId,
}

/// A rule with the same match and priority is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a rule with the same match and priority exists")]
pub struct Duplicate(pub RuleId);

/// A set of ternary rules that finds the winner for a key. [`crate::Linear`] is the judge of all
/// others: after the same calls, the same answers.
pub trait Classifier {
    /// Adds a rule.
    ///
    /// # Errors
    /// [`Duplicate`] when one with the same match and priority is there; nothing changes.
    fn insert(&mut self, rule: Rule) -> Result<(), Duplicate>;
    /// Removes the rule with exactly this match and priority.
    fn remove(&mut self, matcher: &Match, priority: u32) -> Option<RuleId>;
    /// The rule with exactly this match and priority.
    fn find(&self, matcher: &Match, priority: u32) -> Option<RuleId>;
    /// The winner for `key`.
    fn lookup(&self, key: &FlowKey) -> Option<RuleId>;
    /// Number of rules.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls `f` for every rule, in no particular order.
    fn for_each(&self, f: &mut dyn FnMut(&Rule));
}
