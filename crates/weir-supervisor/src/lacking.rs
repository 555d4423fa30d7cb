//! Ports that hosts have no more and nodes were given: what was valid and is not being changed keeps up nobody else.
//!
//! Room: as [`crate::silent`], which is about whole hosts. A node that is as before is let alone where a port of it is
//! gone, and that is told; one that is new or changed is refused, with its name.

use crate::model::{Lab, Made, Network, Node};
use crate::observed::Observed;
use crate::plan::Step;
use crate::refusal::Way;
use crate::section::section;
use crate::silent::{Missed, What};
use std::collections::{BTreeMap, BTreeSet};

/// A port that is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lack {
    /// The host that should have it.
    pub host: String,
    /// The network whose node it is.
    pub network: String,
    /// The node.
    pub node: String,
    /// The port.
    pub port: String,
}

/// The ports that nodes of a lab lack which are as `before`.
pub fn lacking(lab: &Lab, before: &Lab, observed: &Observed) -> Vec<Lack> {
    let mut all = Vec::new();
    for (n, v) in lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v))) {
        let own = lab.attached(n, v).into_iter().filter(|a| a.made == Made::ByHost);
        let own = own.map(|a| (v.host.clone(), a.port.into_owned()));
        let far = v.far().map(|f| (f.host.to_owned(), f.port.to_owned()));
        let is_gone = |(host, port): &(String, String)| {
            observed.get(host).is_some_and(|h| !h.ports.contains(port))
        };
        let gone: Vec<_> = own.chain(far).filter(is_gone).collect();
        if gone.is_empty() || !is_as(before, lab, n, v) {
            continue;
        }
        let lack = |(host, port)| {
            let (network, node) = (n.name.clone(), v.name.clone());
            Lack { host, network, node, port }
        };
        all.extend(gone.into_iter().map(lack));
    }
    all
}

/// Whether a node was the same in another lab.
fn is_as(other: &Lab, lab: &Lab, n: &Network, v: &Node) -> bool {
    let was = other.network(&n.name).and_then(|o| Some((o, o.node(&v.name)?)));
    // Whichever number it has, and whoever keeps it.
    let said = |lab: &Lab, n: &Network, v: &Node| {
        let w = section(lab, n, v, 1, 0, &Way::default());
        (w.host, w.label)
    };
    was.is_some_and(|(on, ov)| ov.away == v.away && said(other, on, ov) == said(lab, n, v))
}

/// An observation in which nobody is refused for what is lacking.
pub fn without(mut observed: Observed, lacks: &[Lack]) -> Observed {
    for l in lacks {
        if let Some(h) = observed.get_mut(&l.host) {
            let node = format!("{}/{}", l.network, l.node);
            h.gone.entry(node).or_default().insert(l.port.clone());
        }
    }
    observed
}

/// Whether a section names one of the ports that its host lacks.
pub fn names_one(host: &str, toml: &str, lacks: &[Lack]) -> bool {
    let Ok(file) = toml.parse::<toml::Table>() else { return false };
    let of = |v: &toml::Value| v.get("ports")?.as_array().cloned();
    let vdp = file.get("vdp").and_then(|v| v.as_array()?.first().and_then(of));
    let ports = vdp.unwrap_or_default();
    let mut ports = ports.iter().filter_map(|p| p.as_str());
    ports.any(|p| lacks.iter().any(|l| l.host == host && l.port == p))
}

/// Steps without those that would change what lacks a port; neither is it deleted, to be made anew, nor moved.
pub fn let_alone(steps: Vec<Step>, lacks: &[Lack]) -> Vec<Step> {
    let named = |s: &Step| match s {
        Step::Put { wanted: w, .. } if names_one(&w.host, &w.toml, lacks) => {
            Some((w.host.clone(), w.vid))
        }
        _ => None,
    };
    let alone: BTreeSet<(String, u16)> = steps.iter().filter_map(named).collect();
    let of = |s: &Step| match s {
        Step::Put { wanted: w, .. } => Some((w.host.clone(), w.vid)),
        Step::Delete { host, vid, .. } | Step::Migrate { host, vid, .. } => {
            Some((host.clone(), *vid))
        }
        Step::PortPut { .. } | Step::PortDelete { .. } => None,
    };
    steps.into_iter().filter(|s| !of(s).is_some_and(|at| alone.contains(&at))).collect()
}

/// What is not done for want of ports, one for each node and host.
pub fn missed(lacks: &[Lack]) -> Vec<Missed> {
    let mut by: BTreeMap<(&str, &str, &str), BTreeSet<String>> = BTreeMap::new();
    for l in lacks {
        by.entry((&l.host, &l.network, &l.node)).or_default().insert(l.port.clone());
    }
    let one = |((host, network, node), ports): ((&str, &str, &str), BTreeSet<String>)| Missed {
        host: host.to_owned(),
        network: Some(network.to_owned()),
        what: What::Lacks { node: format!("{network}.{node}"), ports: ports.into_iter().collect() },
    };
    by.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Goal;
    use crate::model::Host;
    use crate::observed::{Budget, ObservedHost};

    fn lab() -> Lab {
        let net = |name: &str, ports: &[&str]| Network {
            name: name.to_owned(),
            node: vec![Node {
                name: "s".to_owned(),
                host: "h".to_owned(),
                ports: ports.iter().map(|p| (*p).to_owned()).collect(),
                ..Node::default()
            }],
            ..Network::default()
        };
        let host = Host { name: "h".to_owned(), ..Host::default() };
        let network = vec![net("red", &["a", "b"]), net("blue", &["c"])];
        Lab { host: vec![host], network, ..Lab::default() }
    }

    #[test]
    fn what_was_valid_and_stays_keeps_up_nobody() {
        let budget = Budget { slice_entries: 1, free_entries: 9 };
        let ports = ["a", "c"].map(str::to_owned).into();
        let host = ObservedHost { ports, mapping: budget, action: budget, ..Default::default() };
        let seen: Observed = [("h".to_owned(), host)].into();
        let goal = |lab: &Lab, before: &Lab| {
            let lacks = lacking(lab, before, &seen);
            let seen = without(seen.clone(), &lacks);
            let goal = Goal::of(lab, &seen, &Default::default(), &Default::default(), 9)?;
            Ok::<_, crate::refusal::Refusal>((
                let_alone(goal.steps(&seen, 9, &Default::default()), &lacks),
                missed(&lacks),
            ))
        };
        let before = lab();
        // Another network is changed.
        let mut after = lab();
        after.network[1].node[0].cpu_permille = 5;
        let (steps, told) = goal(&after, &before).unwrap();
        assert!(steps.iter().all(|s| s.to_string().contains("blue.s")), "{steps:?}");
        let told: Vec<String> = told.iter().map(Missed::to_string).collect();
        assert_eq!(told, ["! h: no port 'b' there; red.s stays as it is"]);
        // It is itself, or comes, or another comes on that port.
        after.network[0].node[0].cpu_permille = 5;
        let told = goal(&after, &before).unwrap_err();
        assert!(told.text.ends_with("; red.s wants it"), "{told}");
        assert!(goal(&before, &Lab::default()).is_err());
        let mut after = lab();
        after.network[1].node[0].ports.push("b".to_owned());
        let told = goal(&after, &before).unwrap_err();
        assert!(told.text.ends_with("; blue.s wants it"), "{told}");
        // It would be made anew: neither half of that is done.
        let (steps, _) = goal(&before, &before).unwrap();
        assert_eq!(steps.len(), 1);
        let delete = Step::Delete {
            host: "h".to_owned(),
            vid: 1,
            name: "red.s".to_owned(),
            kind: crate::model::Kind::Vdp,
        };
        let anew = Goal::of(
            &before,
            &without(seen.clone(), &lacking(&before, &before, &seen)),
            &Default::default(),
            &Default::default(),
            9,
        );
        let mut steps = anew.unwrap().steps(&seen, 9, &Default::default());
        assert_eq!(steps.len(), 2);
        let Some(Step::Put { wanted, .. }) = steps.iter().find(|s| s.to_string().contains("red.s"))
        else {
            panic!("{steps:?}")
        };
        assert_eq!(wanted.vid, 1);
        steps.insert(0, delete);
        let left = let_alone(steps, &lacking(&before, &before, &seen));
        assert!(left.len() == 1 && left[0].to_string().contains("blue.s"), "{left:?}");
        // It goes.
        let mut after = lab();
        after.network.remove(0);
        assert_eq!(goal(&after, &before).unwrap().1, []);
    }
}
