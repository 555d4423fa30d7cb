//! A rule's actions as its owner wrote them, as a table keeps them for whoever asks: most rules send by one port and do
//! nothing else, and then they take no memory of their own.
//!
//! Room: `matching`'s. No frame meets them, as what they come down to stands in the rule's entry; the mark beside them is read for
//! frames whose rule has a program.

use crate::action::{Action, Out, PortNo};
use crate::matching::RuleSpec;
use std::collections::HashMap;
use std::sync::Arc;

/// What is kept of a rule for whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) actions: Written,
    /// The owner's mark.
    pub(crate) cookie: u64,
}

impl Kept {
    pub(crate) fn new(spec: &RuleSpec) -> Self {
        Self { actions: Written::new(&spec.actions), cookie: spec.cookie }
    }
}

/// A rule's actions; rules that came with one list share it, or have none.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// By this port, and nothing else.
    Port(PortNo),
    List(Arc<[Action]>),
}

const _: () = assert!(size_of::<Written>() == size_of::<Arc<[Action]>>());

impl Default for Written {
    fn default() -> Self {
        Self::Port(PortNo(0))
    }
}

impl Written {
    pub(crate) fn new(actions: &Arc<[Action]>) -> Self {
        match **actions {
            [Action::Output(Out::Port(no))] => Self::Port(no),
            _ => Self::List(Arc::clone(actions)),
        }
    }
    /// As they were written.
    pub(crate) fn list(&self) -> Arc<[Action]> {
        match self {
            Self::Port(no) => Arc::new([Action::Output(Out::Port(*no))]),
            Self::List(actions) => Arc::clone(actions),
        }
    }
    /// What `f` says of them.
    pub(crate) fn tell<R>(&self, f: impl FnOnce(&[Action]) -> R) -> R {
        match self {
            Self::Port(no) => f(&[Action::Output(Out::Port(*no))]),
            Self::List(actions) => f(actions),
        }
    }
}

/// Lists for whoever asks for many rules': those that send by the same port and do nothing else have one.
#[derive(Debug, Default)]
pub(crate) struct Lists(HashMap<PortNo, Arc<[Action]>>);

impl Lists {
    pub(crate) fn of(&mut self, actions: &Written) -> Arc<[Action]> {
        match actions {
            Written::Port(no) => Arc::clone(self.0.entry(*no).or_insert_with(|| actions.list())),
            Written::List(list) => Arc::clone(list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told() {
        let out = |no| Action::Output(Out::Port(PortNo(no)));
        for list in [vec![], vec![out(7)], vec![out(7), out(8)], vec![Action::DecTtl, out(7)]] {
            let list: Arc<[Action]> = list.into();
            let kept = Written::new(&list);
            assert_eq!(kept.list(), list);
            assert!(kept.tell(|a| *a == *list));
            assert_eq!(matches!(kept, Written::Port(_)), list.len() == 1);
            let mut lists = Lists::default();
            assert!(Arc::ptr_eq(&lists.of(&kept), &lists.of(&kept)) && lists.of(&kept) == list);
        }
    }
}
