//! The linear classifier: a sorted list, searched from the top.
//!
//! Room: kept for ever as the judge of every faster design, and short enough to be checked by eye.

use crate::key::FlowKey;
use crate::rule::{Classifier, Duplicate, Match, Rule, RuleId};

/// Rules sorted by priority, larger first; among equals, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    rules: Vec<Rule>,
}

impl Linear {
    fn position(&self, matcher: &Match, priority: u32) -> Option<usize> {
        self.rules.iter().position(|r| r.priority == priority && r.matcher == *matcher)
    }
}

impl Classifier for Linear {
    fn insert(&mut self, rule: Rule) -> Result<(), Duplicate> {
        if let Some(i) = self.position(&rule.matcher, rule.priority) {
            return Err(Duplicate(self.rules[i].id));
        }
        let at = self.rules.partition_point(|r| r.priority >= rule.priority);
        self.rules.insert(at, rule);
        Ok(())
    }
    fn remove(&mut self, matcher: &Match, priority: u32) -> Option<RuleId> {
        self.position(matcher, priority).map(|i| self.rules.remove(i).id)
    }
    fn find(&self, matcher: &Match, priority: u32) -> Option<RuleId> {
        self.position(matcher, priority).map(|i| self.rules[i].id)
    }
    fn lookup(&self, key: &FlowKey) -> Option<RuleId> {
        self.rules.iter().find(|r| r.matcher.matches(key)).map(|r| r.id)
    }
    fn len(&self) -> usize {
        self.rules.len()
    }
    fn for_each(&self, f: &mut dyn FnMut(&Rule)) {
        self.rules.iter().for_each(f);
    }
}
