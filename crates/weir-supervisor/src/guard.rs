//! When a rule that acts applies: a node has been beyond its rate for as long as the rule says.
//!
//! Room: pure; rates and time are arguments, what is to be done comes out. Called by whoever watches networks.

use crate::model::{Act, Guard, Lab, Rate};
use std::collections::BTreeMap;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// What a node did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames that came for it.
    pub received_frames: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Frames that it sent.
    pub forwarded_frames: u64,
    /// Frames of its that were dropped.
    pub dropped_frames: u64,
    /// Frames that took the software stage.
    pub slow_frames: u64,
}

impl Counted {
    fn of(&self, rate: Rate) -> u64 {
        match rate {
            Rate::ReceivedFrames => self.received_frames,
            Rate::ReceivedBytes => self.received_bytes,
            Rate::ForwardedFrames => self.forwarded_frames,
            Rate::DroppedFrames => self.dropped_frames,
            Rate::SlowFrames => self.slow_frames,
        }
    }
}

/// A rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub guard: String,
    /// The network.
    pub network: String,
    /// Its node.
    pub node: String,
    /// What was too much.
    pub rate: Rate,
    /// How many a second at the last look.
    pub per_s: u64,
    /// What is to be done.
    pub act: Act,
}

/// Since when nodes have been beyond rules' rates.
#[derive(Debug, Default)]
pub struct Watch {
    beyond: BTreeMap<(String, String, String), Beyond>,
}

#[derive(Clone, Copy, Debug)]
struct Beyond {
    since_ns: u64,
    told: bool,
}

impl Watch {
    /// Takes a look: what each node, by network and name, did in the `passed_ns` before `now_ns`. Says which rules
    /// apply that did not at the look before; one does so again only after its node has been below it.
    pub fn look(
        &mut self,
        lab: &Lab,
        now_ns: u64,
        passed_ns: u64,
        nodes: &BTreeMap<(String, String), Counted>,
    ) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let mut beyond = BTreeMap::new();
        for g in &lab.guard {
            for ((network, node), counted) in nodes.iter().filter(|(at, _)| watches(g, at)) {
                let done =
                    || lab.network(network).and_then(|n| n.node(node)).is_none_or(|v| v.isolated);
                if g.act == Act::Isolate && done() {
                    continue;
                }
                let per_s = per_second(counted.of(g.rate), passed_ns);
                if per_s <= g.above {
                    continue;
                }
                let key = (g.name.clone(), network.clone(), node.clone());
                // What was seen lasted as long as it was looked at.
                let new = Beyond { since_ns: now_ns.saturating_sub(passed_ns), told: false };
                let mut b = self.beyond.get(&key).copied().unwrap_or(new);
                if !b.told && now_ns.saturating_sub(b.since_ns) >= u64::from(g.for_s) * SECOND {
                    b.told = true;
                    let (network, node) = (network.clone(), node.clone());
                    let (guard, rate, act) = (g.name.clone(), g.rate, g.act);
                    alarms.push(Alarm { guard, network, node, rate, per_s, act });
                }
                beyond.insert(key, b);
            }
        }
        self.beyond = beyond;
        alarms
    }

    /// What was to be done could not be: it is told again at the next look.
    pub fn failed(&mut self, a: &Alarm) {
        let key = (a.guard.clone(), a.network.clone(), a.node.clone());
        if let Some(b) = self.beyond.get_mut(&key) {
            b.told = false;
        }
    }
}

fn watches(g: &Guard, (network, node): &(String, String)) -> bool {
    g.network.as_ref().is_none_or(|n| n == network) && g.node.as_ref().is_none_or(|n| n == node)
}

fn per_second(n: u64, passed_ns: u64) -> u64 {
    let per_s = u128::from(n) * u128::from(SECOND) / u128::from(passed_ns.max(1));
    u64::try_from(per_s).unwrap_or(u64::MAX)
}

/// Does what an alarm asks for, in a lab.
pub fn act(lab: &mut Lab, a: &Alarm) {
    match a.act {
        Act::Isolate => {
            let network = lab.network.iter_mut().filter(|n| n.name == a.network);
            let nodes = network.flat_map(|n| n.node.iter_mut()).filter(|v| v.name == a.node);
            nodes.for_each(|v| v.isolated = true);
        }
        Act::Delete => lab.network.retain(|n| n.name != a.network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: &str = r#"
        [[network]]
        name = "red"
        node = [{ name = "a", host = "h" }, { name = "b", host = "h" }]
        [[network]]
        name = "blue"
        node = [{ name = "a", host = "h" }]
        [[guard]]
        name = "flood"
        rate = "received-frames"
        above = 1000
        for_s = 3
        [[guard]]
        name = "leak"
        network = "blue"
        rate = "dropped-frames"
        above = 10
        for_s = 1
        act = "delete"
    "#;

    fn second(all: &[(&str, &str, u64, u64)]) -> BTreeMap<(String, String), Counted> {
        let one = |(network, node, received_frames, dropped_frames): &(&str, &str, u64, u64)| {
            let (received_frames, dropped_frames) = (*received_frames, *dropped_frames);
            let c = Counted { received_frames, dropped_frames, ..Counted::default() };
            (((*network).to_owned(), (*node).to_owned()), c)
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_rate_must_last_and_is_told_once() {
        let mut lab: Lab = toml::from_str(LAB).unwrap();
        let mut w = Watch::default();
        let mut told = Vec::new();
        // Beyond it from 1 to 2, and from 4 on: for three seconds at 6.
        for (s, n) in [(1, 2000), (2, 2000), (3, 1000), (4, 1001), (5, 9000), (6, 5000), (7, 5000)]
        {
            let nodes = second(&[("red", "a", n, 0), ("red", "b", 1000, 0)]);
            for a in w.look(&lab, s * SECOND, SECOND, &nodes) {
                told.push((s, a));
            }
        }
        let [(6, alarm)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((alarm.network.as_str(), alarm.node.as_str(), alarm.per_s), ("red", "a", 5000));
        act(&mut lab, alarm);
        assert!(lab.network[0].node[0].isolated && !lab.network[0].node[1].isolated);
        // Who is cut off is left alone, however much comes for it.
        let mut w = Watch::default();
        let nodes = second(&[("red", "a", 1_000_000, 0)]);
        let long = 10 * SECOND;
        assert_eq!(w.look(&lab, long, long, &nodes), []);
    }

    #[test]
    fn what_could_not_be_done_is_told_again_and_the_rate_is_a_second_s() {
        let mut lab: Lab = toml::from_str(LAB).unwrap();
        let mut w = Watch::default();
        // 30 in two seconds are 15 a second; in four they are too few.
        let nodes = second(&[("blue", "a", 0, 30)]);
        let two = 2 * SECOND;
        let alarms = w.look(&lab, two, two, &nodes);
        assert_eq!(alarms.len(), 1);
        assert_eq!(w.look(&lab, 4 * SECOND, two, &nodes), []);
        w.failed(&alarms[0]);
        assert_eq!(w.look(&lab, 6 * SECOND, two, &nodes).len(), 1);
        let four = 4 * SECOND;
        assert_eq!(w.look(&lab, 10 * SECOND, four, &nodes), []);
        act(&mut lab, &alarms[0]);
        assert!(lab.network("blue").is_none() && lab.network("red").is_some());
    }
}
