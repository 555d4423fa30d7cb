//! Which of several workers is at home at a port: it has the device, and deals out what comes.
//!
//! Room: numbers for `apply`. Workers take turns, but for ports that share something outside of themselves, which have one home
//! together: both ends of a wire (a worker tells itself of what it sent, and nobody else), ends of tunnels at one local
//! address (one socket). A port of a VDP that is pinned to a worker is at home there, where it can be: what comes by it goes
//! there in any case, and so it goes the shortest way.

use super::diff::Step;
use super::plan::{Plan, PortPlan};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use weir_io::open::{Kind, PortSpec};
use weir_io::vxlan;

/// What ports share: a wire's name, or a tunnel's local address.
type Shared = (bool, String);

/// Homes that are given out, or will be.
#[derive(Debug, Default)]
pub struct Homes {
    /// Of what ports share: as long as one of them is there, all have it.
    shared: BTreeMap<Shared, usize>,
    /// By a port's name: the worker that a VDP of its is pinned to.
    pinned: BTreeMap<String, usize>,
    /// Given out in turn.
    dealt: usize,
}

fn shared_by(spec: &PortSpec) -> Option<Shared> {
    match spec.kind {
        Kind::Memory if !spec.target.is_empty() => Some((false, spec.target.clone())),
        Kind::Vxlan => {
            let settings = spec.target.parse::<vxlan::Settings>().ok()?;
            Some((true, settings.local.to_string()))
        }
        _ => None,
    }
}

impl Homes {
    /// Looks at what there is, and at what these steps will bring.
    pub fn expect(&mut self, plan: &Plan, steps: &[Step], workers: usize) {
        let made = steps.iter().filter_map(|s| match s {
            Step::CreateVdp(v) => Some(&**v),
            _ => None,
        });
        self.pinned.clear();
        for v in plan.vdps.values().chain(made) {
            let Some(w) = v.worker.filter(|w| *w < workers) else { continue };
            for (name, _) in &v.ports {
                self.pinned.entry(name.clone()).or_insert(w);
            }
        }
        self.shared
            .retain(|k, _| plan.ports.iter().any(|p| shared_by(&p.spec).as_ref() == Some(k)));
        let added = steps.iter().filter_map(|s| match s {
            Step::AddPort(p) => Some(p),
            _ => None,
        });
        for p in plan.ports.iter().chain(added) {
            if let (Some(key), Some(w)) = (shared_by(&p.spec), self.pinned.get(&p.name)) {
                self.shared.entry(key).or_insert(*w);
            }
        }
    }

    /// Whether a VDP that has it is pinned to a worker.
    pub fn is_pinned(&self, p: &PortPlan) -> bool {
        self.pinned.contains_key(&p.name)
    }

    /// The worker at home at a port that is about to be opened.
    pub fn of(&mut self, p: &PortPlan, workers: usize) -> usize {
        let workers = workers.max(1);
        if let Some(key) = shared_by(&p.spec) {
            let mut hash = DefaultHasher::new();
            key.hash(&mut hash);
            return *self.shared.entry(key).or_insert((hash.finish() % workers as u64) as usize);
        }
        if let Some(w) = self.pinned.get(&p.name) {
            return *w;
        }
        self.dealt += 1;
        (self.dealt - 1) % workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plan::VdpPlan;
    use std::collections::BTreeSet;
    use weir_dataplane::{PortNo, Vid};

    fn port(name: &str, kind: Kind, target: &str) -> PortPlan {
        let spec = PortSpec { kind, target: target.to_owned() };
        PortPlan { name: name.to_owned(), spec, label: None, place: None }
    }

    fn tunnel(vni: u32) -> PortPlan {
        let target = format!("{vni},remote=192.0.2.1,local=192.0.2.7");
        port(&format!("t{vni}"), Kind::Vxlan, &target)
    }

    #[test]
    fn ports_that_share_something_have_one_home_and_others_take_turns() {
        let mut homes = Homes::default();
        assert_eq!(homes.of(&tunnel(5), 4), homes.of(&tunnel(6), 4));
        let mut wire = |n: usize, end: &str| {
            homes.of(&port(&format!("{end}{n}"), Kind::Memory, &format!("w{n}")), 4)
        };
        // Wires are spread among the workers, too.
        let ends: Vec<_> = (0..40).map(|n| (wire(n, "a"), wire(n, "b"))).collect();
        assert!(ends.iter().all(|(a, b)| a == b));
        assert_eq!(ends.iter().map(|(a, _)| *a).collect::<BTreeSet<_>>().len(), 4);
        let turns: Vec<_> = (0..8).map(|_| homes.of(&port("e", Kind::Xdp, "e0"), 4)).collect();
        assert_eq!(turns, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(homes.of(&port("m", Kind::Memory, ""), 4), 0);
    }

    #[test]
    fn a_port_of_a_pinned_vdp_is_at_home_where_the_vdp_is_unless_it_shares_what_has_a_home() {
        let fixed = crate::config::read::from_text("", "t").unwrap().fixed;
        let mut plan = Plan::empty(fixed);
        let mut homes = Homes::default();
        let old = homes.of(&port("old", Kind::Memory, "used"), 4);
        plan.ports.push(port("old", Kind::Memory, "used"));
        let new = [
            port("x", Kind::Xdp, "e0"),
            port("near", Kind::Memory, "fresh"),
            port("far", Kind::Memory, "fresh"),
            port("late", Kind::Memory, "used"),
        ];
        for worker in 0..4 {
            let mut v = VdpPlan::new(Vid(1), "v");
            v.worker = Some(worker);
            v.ports = ["x", "near", "late"]
                .iter()
                .zip(1..)
                .map(|(n, i)| ((*n).into(), PortNo(i)))
                .collect();
            let mut steps: Vec<Step> = new.iter().cloned().map(Step::AddPort).collect();
            steps.push(Step::CreateVdp(Box::new(v)));
            homes.expect(&plan, &steps, 4);
            let got = new.each_ref().map(|p| homes.of(p, 4));
            assert_eq!(got, [worker, worker, worker, old]);
            // One that is not there is refused elsewhere.
            homes.expect(&plan, &steps, worker);
            assert!(homes.of(&new[0], 4) < 4);
        }
    }
}
