//! A rule's actions as its owner wrote them, as a table keeps them for whoever asks: most rules do one simple thing, and then
//! they take no memory of their own.
//!
//! Room: `matching`'s. No frame meets them, as what they come down to stands in the rule's entry.

use crate::action::{Action, Out, PortNo};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

/// An action that most rules have, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Alone {
    /// Out by this port.
    Port(PortNo),
    ToChannel,
    Drop,
}

const _: () = assert!(size_of::<Option<Alone>>() == 8);

impl Alone {
    /// The list has one action, and that is one of these.
    pub(crate) fn of(list: &[Action]) -> Option<Self> {
        match *list {
            [Action::Output(Out::Port(no))] => Some(Self::Port(no)),
            [Action::ToChannel] => Some(Self::ToChannel),
            [Action::Drop] => Some(Self::Drop),
            _ => None,
        }
    }
    fn action(self) -> Action {
        match self {
            Self::Port(no) => Action::Output(Out::Port(no)),
            Self::ToChannel => Action::ToChannel,
            Self::Drop => Action::Drop,
        }
    }
}

/// Actions; rules that came with one list share it, or have none.
#[derive(Clone, Debug)]
pub(crate) enum Written<L> {
    Alone(Alone),
    List(L),
}

impl Written<Arc<[Action]>> {
    /// To be kept.
    pub(crate) fn new(list: &[Action]) -> Self {
        Alone::of(list).map_or_else(|| Self::List(list.into()), Self::Alone)
    }
}

impl<L: Borrow<Arc<[Action]>>> Written<L> {
    /// As they were written.
    pub(crate) fn list(self) -> Arc<[Action]> {
        match self {
            Self::Alone(one) => Arc::new([one.action()]),
            Self::List(list) => Arc::clone(list.borrow()),
        }
    }
    /// What `f` says of them.
    pub(crate) fn tell<R>(&self, f: impl FnOnce(&[Action]) -> R) -> R {
        match self {
            Self::Alone(one) => f(&[one.action()]),
            Self::List(list) => f(list.borrow()),
        }
    }
}

/// Lists for whoever asks for many rules': those that do the same one thing have one.
#[derive(Debug, Default)]
pub(crate) struct Lists(HashMap<Alone, Arc<[Action]>>);

impl Lists {
    pub(crate) fn of(&mut self, actions: Written<&Arc<[Action]>>) -> Arc<[Action]> {
        match actions {
            Written::Alone(one) => {
                Arc::clone(self.0.entry(one).or_insert_with(|| Arc::new([one.action()])))
            }
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
        let lists = [
            (vec![], false),
            (vec![out(7)], true),
            (vec![Action::Drop], true),
            (vec![Action::ToChannel], true),
            (vec![out(7), out(8)], false),
            (vec![Action::DecTtl, out(7)], false),
            (vec![Action::Output(Out::InPort)], false),
        ];
        let mut cached = Lists::default();
        for (list, alone) in lists {
            let kept = Written::new(&list);
            assert_eq!(matches!(kept, Written::Alone(_)), alone, "{list:?}");
            assert!(kept.tell(|a| *a == *list) && *kept.clone().list() == *list);
            let of = match &kept {
                Written::Alone(one) => Written::Alone(*one),
                Written::List(list) => Written::List(list),
            };
            let told = cached.of(of.clone());
            assert!(*told == *list && Arc::ptr_eq(&told, &cached.of(of)));
        }
    }
}
