//! Probes between the old rule and the new one that have not come: at the end of an update they may still be on their way,
//! by a port whose capture is read later.
//!
//! Pure. An update enters what it lacks, every probe that comes is taken out, and what is left at the end of the row is
//! lost; so that it is never more than was sent and did not come.

use super::watch::Order;
use std::collections::{BTreeMap, BTreeSet};

/// Probes that are waited for, at most, when an update is over: more of earlier ones are taken for lost.
const MOST: usize = 1 << 20;

/// What has not come yet, by its number: the update, and the flow.
#[derive(Debug)]
pub(super) struct Missing {
    /// From a flow's probe to its next.
    step: u32,
    of: BTreeMap<u32, (u64, u16)>,
    /// What is not waited for any more.
    settled: Lost,
    /// Numbers from the first to the last of the longest run that is lost there.
    longest: u32,
}

/// What was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lost {
    /// Updates in which it was.
    pub(super) updates: u64,
    /// Flows of these that lack probes.
    pub(super) gaps: u64,
    /// Those probes.
    pub(super) probes: u64,
    /// The longest time without either rule, in milliseconds: at least, as told by probes that did not come.
    pub(super) longest_ms: f64,
}

impl Missing {
    /// Of probes that so many flows get in turn.
    pub(super) fn of_flows(flows: usize) -> Self {
        let step = u32::try_from(flows).unwrap_or(u32::MAX).max(1);
        Self { step, of: BTreeMap::new(), settled: Lost::default(), longest: 0 }
    }

    /// An update is over that has not seen these; some may have come while it did not look.
    pub(super) fn enter(
        &mut self,
        update: u64,
        probes: impl Iterator<Item = (u16, u32)>,
        order: &Order,
    ) {
        if self.of.len() > MOST {
            self.settle();
        }
        let lacking = probes.filter(|(_, number)| !order.has(*number));
        self.of.extend(lacking.map(|(flow, number)| (number, (update, flow))));
    }

    /// It comes all the same.
    pub(super) fn came(&mut self, number: u32) {
        self.of.remove(&number);
    }

    /// What is left is waited for no more.
    fn settle(&mut self) {
        let (mut runs, mut updates) = (BTreeMap::<(u64, u16), (u32, u32)>::new(), BTreeSet::new());
        // In the order of their numbers.
        for (number, of) in std::mem::take(&mut self.of) {
            self.settled.probes += 1;
            updates.insert(of.0);
            let (first, last) = runs.entry(of).or_insert((number, number));
            // One between them that has come ends a run.
            if number - *last > self.step {
                *first = number;
            }
            *last = number;
            self.longest = self.longest.max(*last - *first);
        }
        self.settled.gaps += runs.len() as u64;
        self.settled.updates += updates.len() as u64;
    }

    /// What is left; `interval_ms`: from one probe to the next of all flows.
    pub(super) fn lost(mut self, interval_ms: f64) -> Lost {
        self.settle();
        Lost { longest_ms: f64::from(self.longest) * interval_ms, ..self.settled }
    }
}

#[cfg(test)]
mod tests {
    use super::super::watch::{Rule, Watch};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_that_comes_after_its_update_is_not_lost() {
        let (mut order, mut watch) = (Order::new(1), Watch::new(1));
        let between = || {
            let mut missing = Missing::of_flows(1);
            missing.enter(0, [(0, 2), (0, 3), (0, 4)].into_iter(), &Order::new(1));
            missing
        };
        // 2 and 3 met the old rule and are read late; 4 is lost.
        for (number, rule) in [(0, Rule::Old), (1, Rule::Old), (5, Rule::New), (6, Rule::New)] {
            order.came(0, number, usize::from(rule == Rule::New));
            watch.came(0, number, None, rule);
        }
        assert!(watch.between().eq([(0, 2), (0, 3), (0, 4)]));
        let lost = Lost { updates: 1, gaps: 1, probes: 3, longest_ms: 4.0 };
        assert_eq!(between().lost(2.0), lost);
        let mut missing = between();
        [2, 3].into_iter().for_each(|number| missing.came(number));
        assert_eq!(missing.lost(2.0), Lost { probes: 1, longest_ms: 0.0, ..lost });
        // Who has one between has not been without rules all the while.
        let mut missing = between();
        missing.came(3);
        assert_eq!(missing.lost(2.0), Lost { probes: 2, longest_ms: 0.0, ..lost });
        // What has come before the update was over is not entered.
        let mut missing = Missing::of_flows(1);
        order.came(0, 3, 0);
        missing.enter(0, watch.between(), &order);
        assert_eq!(missing.lost(2.0).probes, 2);
    }

    #[test]
    fn what_is_waited_for_has_a_bound() {
        let (order, mut missing) = (Order::new(2), Missing::of_flows(2));
        let n = MOST as u32 + 2;
        missing.enter(0, (0..n).map(|i| ((i % 2) as u16, i)), &order);
        missing.enter(1, [(0, n + 8)].into_iter(), &order);
        assert_eq!(missing.of.len(), 1);
        let lost = missing.lost(1.0);
        assert_eq!((lost.updates, lost.gaps, lost.probes), (2, 3, u64::from(n) + 1));
        assert_eq!(lost.longest_ms, f64::from(n - 2));
    }

    proptest! {
        /// Updates end when they like, and frames come when they like, or not at all.
        #[test]
        fn what_is_lost_there_and_otherwise_is_what_did_not_come(
            flows in 1u32..4,
            fates in prop::collection::vec((any::<bool>(), 0usize..12, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let sent = fates.len() as u64;
            // In the order in which they are read; some never are.
            let mut come: Vec<(usize, u32, bool, bool)> = fates
                .iter()
                .enumerate()
                .filter(|(_, f)| f.0)
                .map(|(n, f)| (n + f.1, n as u32, f.2, f.3 && n % 7 == 0))
                .collect();
            come.sort_unstable();
            let flows_of = flows as usize;
            let (mut order, mut missing) = (Order::new(flows_of), Missing::of_flows(flows_of));
            let mut watch = Watch::new(flows as usize);
            for (update, (_, number, by_new, ends)) in come.into_iter().enumerate() {
                let flow = (number % flows) as u16;
                order.came(flow, number, usize::from(by_new));
                missing.came(number);
                watch.came(flow, number, None, if by_new { Rule::New } else { Rule::Old });
                if ends {
                    missing.enter(update as u64, watch.between(), &order);
                    watch = Watch::new(flows as usize);
                }
            }
            prop_assert!(missing.of.keys().all(|n| !order.has(*n)));
            let lost = missing.lost(1.0);
            prop_assert!(lost.probes <= sent - order.came);
            prop_assert!(lost.updates <= lost.gaps && lost.gaps <= lost.probes);
        }
    }
}
