//! A table beside its judge: rules that come to both and go from both, chosen by dice.

use super::*;
use crate::dice::Dice;
use crate::simd::Vectors;

pub(super) struct Judged {
    pub(super) fast: FastTable,
    pub(super) judge: Linear,
    /// Those that are there.
    pub(super) rules: Vec<Rule>,
    dice: Dice,
    ids: u32,
}

impl Judged {
    pub(super) fn new(v: Vectors, seed: u64) -> Self {
        let (fast, judge) = (FastTable::with_vectors(v), Linear::default());
        Self { fast, judge, rules: Vec::new(), dice: Dice(seed), ids: 0 }
    }
    /// A number below this.
    pub(super) fn random(&mut self, n: u64) -> u64 {
        self.dice.below(n)
    }
    /// A rule of a priority below this; one that is there is refused by both.
    pub(super) fn put(&mut self, matcher: Match, priorities: u64) {
        let r = rule(matcher, self.random(priorities) as u32, self.ids);
        self.ids += 1;
        let there = self.judge.insert(r);
        assert_eq!(self.fast.insert(r), there);
        self.rules.extend(there.is_ok().then_some(r));
    }
    /// Takes any of the rules out.
    pub(super) fn take(&mut self) {
        let at = self.random(self.rules.len() as u64) as usize;
        let r = self.rules.swap_remove(at);
        self.take_out(&r);
    }
    pub(super) fn take_out(&mut self, r: &Rule) {
        assert_eq!(self.fast.remove(&r.matcher, r.priority), Some(r.id));
        assert_eq!(self.judge.remove(&r.matcher, r.priority), Some(r.id));
        assert_eq!(self.fast.find(&r.matcher, r.priority), None);
    }
}
