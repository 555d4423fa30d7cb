//! Turns of those who keep networks here: who comes after one that was killed is not met by what that one
//! had asked for.
//!
//! Room: numbers behind locks, by store; nothing is kept of them when this process ends. Called by the handler
//! of requests alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stores whose turns are known at once; of more, the one of the smallest number is forgotten.
const STORES: usize = 256;

/// The last turn that has begun, of each store.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<u64, Turn>>);

/// The last turn of a store that has begun.
#[derive(Clone, Debug, Default)]
pub struct Turn(Arc<Mutex<u64>>);

impl Turns {
    /// A store's.
    pub fn of(&self, store: u64) -> Turn {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= STORES && !all.contains_key(&store) {
            all.pop_first();
        }
        all.entry(store).or_default().clone()
    }
    /// Begins a turn when no request of an earlier one is being carried out. Returns its number.
    pub fn begin(&self, store: u64) -> u64 {
        let turn = self.of(store);
        let mut last = turn.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        *last
    }
}

impl Turn {
    /// Has other requests of the store wait while what is returned is kept; `None`: a later turn has begun.
    pub fn keep(&self, turn: u64) -> Option<MutexGuard<'_, u64>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // This process may be younger than the turn.
        (turn >= *last).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_is_not_disturbed() {
        let turns = Turns::default();
        let (first, other) = (turns.begin(7), turns.begin(8));
        assert!(turns.of(7).keep(first).is_some());
        let second = turns.begin(7);
        assert!(second > first);
        assert!(turns.of(7).keep(first).is_none());
        assert!(turns.of(7).keep(second).is_some() && turns.of(8).keep(other).is_some());
        for store in 100..1000 {
            turns.begin(store);
        }
        assert_eq!(turns.0.lock().unwrap().len(), STORES);
    }

    #[test]
    fn a_turn_begins_when_requests_of_the_last_are_done() {
        let turns = Arc::new(Turns::default());
        let first = turns.begin(1);
        let whose = turns.of(1);
        let kept = whose.keep(first).unwrap();
        let next = {
            let turns = Arc::clone(&turns);
            std::thread::spawn(move || turns.begin(1))
        };
        assert_eq!(*kept, first);
        drop(kept);
        assert_eq!(next.join().unwrap(), first + 1);
        assert!(whose.keep(first).is_none());
    }
}
