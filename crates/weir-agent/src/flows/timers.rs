//! When flows must be looked at: for each flow with a time-out the next moment at which it may
//! have run out. An idle time-out is not followed frame by frame: when its moment has come, the
//! data plane says when the flow was last used, and a new moment is set.

use std::collections::{BTreeSet, HashMap};
use weir_dataplane::RuleRef;
use weir_packet::Nanos;

/// Moments of flows, by their rules.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Nanos, RuleRef)>,
    of: HashMap<RuleRef, Nanos>,
}

impl Timers {
    /// Sets a flow's moment, or takes it away.
    pub fn set(&mut self, flow: RuleRef, at: Option<Nanos>) {
        if self.of.is_empty() && at.is_none() {
            return;
        }
        if let Some(old) = match at {
            Some(at) => self.of.insert(flow, at),
            None => self.of.remove(&flow),
        } {
            self.order.remove(&(old, flow));
        }
        if let Some(at) = at {
            self.order.insert((at, flow));
        }
    }
    /// The next moment.
    pub fn next(&self) -> Option<Nanos> {
        self.order.first().map(|(at, _)| *at)
    }
    /// Flows whose moment has come, `most` of them.
    pub fn due(&self, now: Nanos, most: usize) -> Vec<RuleRef> {
        self.order.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, f)| *f).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_set_moved_and_taken_away() {
        let mut t = Timers::default();
        let r = |slot| RuleRef { table: 0, slot };
        t.set(r(1), Some(Nanos(30)));
        t.set(r(2), Some(Nanos(20)));
        t.set(r(3), Some(Nanos(10)));
        t.set(r(2), Some(Nanos(40)));
        t.set(r(3), None);
        t.set(r(9), None);
        assert_eq!(t.next(), Some(Nanos(30)));
        assert_eq!(t.due(Nanos(40), 8), [r(1), r(2)]);
        assert_eq!(t.due(Nanos(39), 8), [r(1)]);
        assert_eq!(t.due(Nanos(40), 1), [r(1)]);
    }
}
