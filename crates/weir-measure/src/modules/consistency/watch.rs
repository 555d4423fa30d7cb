//! What became of each probe during one update: treated by the old rule, by the new one, by neither, or twice.
//!
//! Pure. Called by the module with every probe that came; asked when an update is over.
//!
//! Probes go round-robin over the flows, so a flow's probes have every *flows*th number, and a smaller number
//! left earlier. They enter the switch by one port in that order; so when a probe was treated by the new rule,
//! later ones of its flow should be, too. Which captures frames came by makes no difference: numbers count,
//! not the order of arrival by different ports.

use weir_packet::Nanos;

/// Which rule treated a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Old,
    New,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The last that the old rule treated: its number, and when it left.
    last_old: Option<(u32, Option<Nanos>)>,
    /// The first that the new rule treated.
    first_new: Option<(u32, Option<Nanos>)>,
    /// Treated by the new rule.
    new: u64,
}

/// One update.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    flows: Vec<Flow>,
}

/// What was found of one update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Flows that never showed the new rule.
    pub(super) unchanged: usize,
    /// Flows of which a probe was treated by the old rule after one that was treated by the new.
    pub(super) back: usize,
    /// Probes that left after the barrier's reply was read, and were treated by the old rule, were of so many
    /// flows.
    pub(super) stale: usize,
    /// By how much later the latest of them had left, in milliseconds.
    pub(super) stale_ms: f64,
    /// Flows whose change was seen while the change of one that was sent before it was not.
    pub(super) overtaken: usize,
}

impl Watch {
    /// Of so many flows.
    pub(super) fn new(flows: usize) -> Self {
        Self { flows: vec![Flow::default(); flows] }
    }

    /// A probe came.
    pub(super) fn came(&mut self, flow: u16, number: u32, left: Option<Nanos>, by: Rule) {
        let Some(f) = self.flows.get_mut(usize::from(flow)) else { return };
        match by {
            Rule::Old if f.last_old.is_none_or(|(n, _)| number > n) => {
                f.last_old = Some((number, left));
            }
            Rule::New => {
                f.new += 1;
                if f.first_new.is_none_or(|(n, _)| number < n) {
                    f.first_new = Some((number, left));
                }
            }
            Rule::Old => {}
        }
    }

    /// Flows that the new rule has treated a few probes of: enough to be sure that the last of the old are here.
    pub(super) fn settled(&self) -> usize {
        self.flows.iter().filter(|f| f.new >= 3).count()
    }

    /// Of each flow the probes between the last that the old rule treated and the first that the new one did.
    pub(super) fn between(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let round = self.flows.len();
        let of = move |(n, f): (usize, &Flow)| {
            let (old, new) = (f.last_old?.0, f.first_new?.0);
            let numbers = (old as usize + round..new as usize).step_by(round.max(1));
            Some(numbers.map(move |number| (n as u16, number as u32)))
        };
        self.flows.iter().enumerate().filter_map(of).flatten()
    }

    /// What was found; `replied`: when the barrier's reply was read.
    pub(super) fn found(&self, replied: Option<Nanos>) -> Found {
        let mut found = Found::default();
        for f in &self.flows {
            if let Some((_, Some(left))) = f.last_old
                && let Some(replied) = replied.filter(|r| left > *r)
            {
                found.stale += 1;
                found.stale_ms = found.stale_ms.max(left.since(replied).0 as f64 / 1e6);
            }
            let Some((new, _)) = f.first_new else {
                found.unchanged += 1;
                continue;
            };
            let Some((old, _)) = f.last_old else { continue };
            if old > new {
                found.back += 1;
            }
        }
        // From the last flow to the first: the earliest number that showed the change of any sent later.
        let mut earliest: Option<u32> = None;
        for f in self.flows.iter().rev() {
            let seen_old = f.last_old.map(|(n, _)| n);
            if let (Some(e), Some(old)) = (earliest, seen_old) {
                found.overtaken += usize::from(e < old);
            }
            let first_new = f.first_new.map(|(n, _)| n);
            earliest = [earliest, first_new].into_iter().flatten().min();
        }
        found
    }
}

/// Which numbers have come: finds frames that come twice, and flows' frames that come after a later one.
#[derive(Debug)]
pub(super) struct Order {
    /// The number that was seen last at each place, and one more.
    seen: Vec<u32>,
    /// The highest number of each flow by each channel.
    highest: Vec<[Option<u32>; 2]>,
    /// Different ones.
    pub(super) came: u64,
    /// Frames that came before.
    pub(super) twice: u64,
    /// Frames with a number below one of their flow that came by the same port before (RFC 4737 §3).
    pub(super) late: u64,
    /// Frames that were overtaken by one of another flow only, of which nothing is promised.
    pub(super) late_to_others: u64,
    highest_of_all: [Option<u32>; 2],
}

/// Numbers kept in mind; a frame that is later than so many is taken for new.
const KEPT: usize = 1 << 16;

impl Order {
    /// Of so many flows.
    pub(super) fn new(flows: usize) -> Self {
        let highest = vec![[None; 2]; flows];
        Self {
            seen: vec![0; KEPT],
            highest,
            came: 0,
            twice: 0,
            late: 0,
            late_to_others: 0,
            highest_of_all: [None; 2],
        }
    }

    /// Whether that one of the last 65,536 has come.
    pub(super) fn has(&self, number: u32) -> bool {
        self.seen.get(number as usize % KEPT) == Some(&number.wrapping_add(1))
    }

    /// A frame came.
    pub(super) fn came(&mut self, flow: u16, number: u32, channel: usize) {
        let place = &mut self.seen[number as usize % KEPT];
        let mark = number.wrapping_add(1);
        if *place == mark {
            self.twice += 1;
            return;
        }
        *place = mark;
        self.came += 1;
        let Some(highest) =
            self.highest.get_mut(usize::from(flow)).and_then(|h| h.get_mut(channel))
        else {
            return;
        };
        let of_all = &mut self.highest_of_all[channel];
        if highest.is_some_and(|h| number < h) {
            self.late += 1;
        } else {
            *highest = Some(number);
            self.late_to_others += u64::from(of_all.is_some_and(|h| number < h));
        }
        *of_all = (*of_all).max(Some(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Probes of `flows` flows, number `n` leaving at `n` milliseconds; each treated as `by` says.
    fn watch(flows: usize, numbers: u32, by: impl Fn(usize, u32) -> Option<Rule>) -> Watch {
        let mut w = Watch::new(flows);
        for n in 0..numbers {
            let flow = n as usize % flows;
            if let Some(rule) = by(flow, n) {
                w.came(flow as u16, n, Some(Nanos::from_millis(n.into())), rule);
            }
        }
        w
    }

    #[test]
    fn a_clean_change_is_clean() {
        let w = watch(4, 40, |_, n| Some(if n < 20 { Rule::Old } else { Rule::New }));
        assert_eq!(w.found(Some(Nanos::from_millis(20))), Found::default());
        assert_eq!(w.settled(), 4);
    }

    #[test]
    fn each_kind_of_mistake_is_told_from_the_others() {
        let at = |n| Some(Nanos::from_millis(n));
        // Flow 1 is missing from its probe 9 to its probe 17.
        let gap = watch(4, 60, |f, n| match (f, n) {
            (1, 8..18) => None,
            (_, n) => Some(if n < 12 { Rule::Old } else { Rule::New }),
        });
        let found = gap.found(at(12));
        assert_eq!(gap.between().collect::<Vec<_>>(), [(1, 9), (1, 13), (1, 17)]);
        assert_eq!((found.stale, found.back, found.overtaken, found.unchanged), (0, 0, 0, 0));
        // The reply came 10 ms before the change.
        let early = watch(4, 60, |_, n| Some(if n < 30 { Rule::Old } else { Rule::New }));
        let found = early.found(at(20));
        assert_eq!((found.stale, found.stale_ms, early.between().count()), (4, 9.0, 0));
        // Flow 3 was asked for last and changed first; flow 0 never does.
        let odd = watch(4, 60, |f, n| {
            Some(match f {
                0 => Rule::Old,
                3 if n >= 11 => Rule::New,
                _ if n >= 30 => Rule::New,
                _ => Rule::Old,
            })
        });
        let found = odd.found(None);
        assert_eq!((found.overtaken, found.unchanged, found.stale), (3, 1, 0));
        // Flow 2 falls back.
        let back = watch(4, 60, |f, n| {
            Some(if n < 20 || f == 2 && n == 30 { Rule::Old } else { Rule::New })
        });
        assert_eq!(back.found(None).back, 1);
    }

    #[test]
    fn twice_and_late() {
        let mut o = Order::new(2);
        for (flow, number, channel) in [(0, 0, 1), (1, 1, 1), (0, 4, 1), (0, 2, 1), (0, 4, 1)] {
            o.came(flow, number, channel);
        }
        assert_eq!((o.came, o.twice, o.late, o.late_to_others), (4, 1, 1, 0));
        o.came(1, 3, 1);
        assert_eq!((o.late, o.late_to_others), (1, 1));
        // By another port nothing is promised.
        o.came(0, 6, 0);
        o.came(0, 8, 1);
        assert_eq!((o.late, o.late_to_others), (1, 1));
    }

    proptest! {
        #[test]
        fn anything_may_come(frames in prop::collection::vec((any::<u16>(), any::<u32>(), any::<bool>()), 0..60)) {
            let (mut w, mut o) = (Watch::new(3), Order::new(3));
            for (flow, number, new) in frames {
                let rule = if new { Rule::New } else { Rule::Old };
                w.came(flow % 5, number % 1000, None, rule);
                o.came(flow % 5, number, usize::from(new));
            }
            let found = w.found(Some(Nanos(1)));
            prop_assert!(found.back + found.unchanged <= 3);
        }
    }
}
