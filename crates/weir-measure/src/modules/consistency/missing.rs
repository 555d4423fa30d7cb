//! Probes between the old rule and the new one that have not come: at the end of an update they may still be on their way,
//! by a port whose capture is read later.
//!
//! Pure. An update enters what it lacks, every probe that comes is taken out, and what is left at the end of the row is
//! lost; so that it is never more than was sent and did not come.

use super::watch::Order;
use std::collections::{BTreeMap, BTreeSet};

/// What has not come yet, by its number: the update, and the flow.
#[derive(Debug, Default)]
pub(super) struct Missing {
    of: BTreeMap<u32, (u64, u16)>,
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
    /// An update is over that has not seen these; some may have come while it did not look.
    pub(super) fn enter(
        &mut self,
        update: u64,
        probes: impl Iterator<Item = (u16, u32)>,
        order: &Order,
    ) {
        let lacking = probes.filter(|(_, number)| !order.has(*number));
        self.of.extend(lacking.map(|(flow, number)| (number, (update, flow))));
    }

    /// It comes all the same.
    pub(super) fn came(&mut self, number: u32) {
        self.of.remove(&number);
    }

    /// What is left; `interval_ms`: from one probe to the next of all flows.
    pub(super) fn lost(&self, interval_ms: f64) -> Lost {
        let mut gaps: BTreeMap<(u64, u16), (u32, u32)> = BTreeMap::new();
        // In the order of their numbers.
        for (&number, &of) in &self.of {
            gaps.entry(of).or_insert((number, number)).1 = number;
        }
        // From the first probe that was lost to the last.
        let ms = |(first, last): &(u32, u32)| f64::from(last - first) * interval_ms;
        Lost {
            updates: gaps.keys().map(|(update, _)| *update).collect::<BTreeSet<_>>().len() as u64,
            gaps: gaps.len() as u64,
            probes: self.of.len() as u64,
            longest_ms: gaps.values().map(ms).fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::watch::{Rule, Watch};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_that_comes_after_its_update_is_not_lost() {
        let (mut order, mut watch, mut missing) =
            (Order::new(1), Watch::new(1), Missing::default());
        // 2 and 3 met the old rule and are read late; 4 is lost.
        for (number, rule) in [(0, Rule::Old), (1, Rule::Old), (5, Rule::New), (6, Rule::New)] {
            order.came(0, number, usize::from(rule == Rule::New));
            watch.came(0, number, None, rule);
        }
        missing.enter(0, watch.between(), &order);
        let lost = Lost { updates: 1, gaps: 1, probes: 3, longest_ms: 4.0 };
        assert_eq!(missing.lost(2.0), lost);
        for number in [2, 3] {
            order.came(0, number, 0);
            missing.came(number);
        }
        assert_eq!(missing.lost(2.0), Lost { probes: 1, longest_ms: 0.0, ..lost });
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
            let (mut order, mut missing) = (Order::new(flows as usize), Missing::default());
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
            let lost = missing.lost(1.0);
            prop_assert!(lost.probes <= sent - order.came);
            prop_assert!(missing.of.keys().all(|n| !order.has(*n)));
            prop_assert!(lost.updates <= lost.gaps && lost.gaps <= lost.probes);
        }
    }
}
