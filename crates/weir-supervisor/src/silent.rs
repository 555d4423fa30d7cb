//! Physical nodes that do not answer: what they are supposed to have, and what becomes of it.
//!
//! Room: what is remembered in, an observation out. A change goes on without a host that it asks nothing of.
//! What it takes away there is given up, and told so, one [`Missed`] a host and network; what it would make
//! there can't be. A host that comes back with what it had is looked at like any other by the next change that
//! names it, which takes away what is not wanted there.

use crate::goal::Goal;
use crate::model::{Lab, Made};
use crate::observed::{Budget, Observed, ObservedHost, ObservedVdp};
use crate::plan::Step;
use crate::section::Label;
use crate::store::State;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What is not done at a host that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The host.
    pub host: String,
    /// The network that it is about, where it is about one.
    pub network: Option<String>,
    /// What becomes of what is there.
    pub what: What,
}

/// What becomes of what is at a host that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It stays as it is remembered.
    Stays,
    /// This is given up: VDPs and ports by name.
    GivenUp(Vec<String>),
    /// This is not put back: VDPs and ports by name.
    NotPutBack(Vec<String>),
    /// The host answers, and lacks ports of a node, which is let alone.
    Lacks {
        /// `NETWORK.NODE`.
        node: String,
        /// The ports.
        ports: Vec<String>,
    },
}

impl Missed {
    /// Whether its host does not answer.
    pub fn is_silent(&self) -> bool {
        !matches!(self.what, What::Lacks { .. })
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let What::Lacks { node, ports } = &self.what {
            let (s, all) = (if ports.len() == 1 { "" } else { "s" }, ports.join("', '"));
            return write!(f, "! {}: no port{s} '{all}' there; {node} stays as it is", self.host);
        }
        write!(f, "! {}: no data plane answers there; ", self.host)?;
        let are = |all: &[String]| if all.len() == 1 { "is" } else { "are" };
        match &self.what {
            What::Lacks { .. } | What::Stays => f.write_str("nothing is changed there"),
            What::GivenUp(all) => write!(f, "{} {} given up there", all.join(", "), are(all)),
            What::NotPutBack(all) => {
                let text = "not put back there: 'weir apply' does it when one does";
                write!(f, "{} {} {text}", all.join(", "), are(all))
            }
        }
    }
}

/// Steps at hosts that do not answer, apart from the others.
#[derive(Debug, Default)]
pub struct Split {
    /// Steps that can be taken.
    pub steps: Vec<Step>,
    /// What is taken away at silent hosts: host and name.
    pub gone: Vec<(String, String)>,
    /// What would have to be made or changed at them: host and name.
    pub needed: Vec<(String, String)>,
}

/// Takes steps at silent hosts out of a plan.
pub fn split(steps: Vec<Step>, silent: impl Fn(&str) -> bool) -> Split {
    let mut out = Split::default();
    for s in steps {
        if !silent(s.host()) {
            out.steps.push(s);
            continue;
        }
        let host = s.host().to_owned();
        match s {
            Step::Delete { name, .. } => out.gone.push((host, name)),
            Step::PortDelete { name, .. } => out.gone.push((host, format!("port {name}"))),
            Step::Put { wanted, .. } => out.needed.push((host, wanted.name)),
            Step::PortPut { wanted, .. } => {
                out.needed.push((host, format!("port {}", wanted.name)));
            }
            Step::Migrate { name, .. } => out.needed.push((host, name)),
        }
    }
    // What is made anew is needed, and not given up.
    let Split { gone, needed, .. } = &mut out;
    gone.retain(|g| !needed.contains(g));
    out
}

/// One [`Missed`] for each host and network that names are of.
pub fn missed(all: &[(String, String)], what: impl Fn(Vec<String>) -> What) -> Vec<Missed> {
    let mut by: BTreeMap<(&str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
    for (host, name) in all {
        let vdp = name.strip_prefix("port ").unwrap_or(name);
        let network = vdp.split_once('.').map(|(n, _)| n).filter(|n| !n.starts_with('_'));
        by.entry((host, network)).or_default().insert(name);
    }
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
    by.into_iter()
        .map(|((host, network), names)| Missed {
            host: host.to_owned(),
            network: network.map(str::to_owned),
            what: what(owned(names)),
        })
        .collect()
}

/// Nodes that a host processed for another by one of these states and does not by a lab: host and name.
pub fn bodies_gone(states: &[State], lab: &Lab, host: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for n in states.iter().flat_map(|s| &s.lab.network) {
        for v in n.node.iter().filter(|v| v.away.as_deref() == Some(host)) {
            let now = lab.network(&n.name).and_then(|n| n.node(&v.name));
            if now.is_none_or(|now| now.away.as_deref() != Some(host)) {
                all.push((host.to_owned(), v.vdp_name(n)));
            }
        }
    }
    all
}

/// What a host that does not answer is taken to have: what was put there by these states, and the ports and
/// the room that they and `asked` need. What they do not agree about is there in no known form.
pub fn supposed(host: &str, states: &[State], asked: &Lab, store: u64) -> ObservedHost {
    let mut vdps: BTreeMap<u16, (ObservedVdp, usize)> = BTreeMap::new();
    let mut made: BTreeMap<String, (Label, usize)> = BTreeMap::new();
    for s in states {
        let Ok(goal) = Goal::of(&s.lab, &roomy(&s.lab), &s.places, &s.links, store) else {
            continue;
        };
        for w in goal.wanted.into_iter().filter(|w| w.host == host) {
            let label = Some(w.label.to_string());
            let kind = w.kind();
            let new = ObservedVdp {
                vid: w.vid,
                name: w.name,
                kind,
                label,
                path: Some(w.path),
                ..ObservedVdp::default()
            };
            let (known, times) = vdps.entry(w.vid).or_insert_with(|| (new.clone(), 0));
            *times += usize::from(known.label == new.label);
        }
        for p in goal.ports.into_iter().filter(|p| p.host == host) {
            let (known, times) = made.entry(p.name).or_insert_with(|| (p.label.clone(), 0));
            *times += usize::from(*known == p.label);
        }
    }
    let certain = |times: usize| times == states.len();
    let unlike = |l: Label| Label { whole: !l.whole, ..l };
    let labels = made.into_iter().map(|(name, (label, times))| {
        let label = if certain(times) { label } else { unlike(label) };
        (name, label.to_string())
    });
    let vdps = vdps.into_values().map(|(v, times)| {
        let sure = certain(times);
        let label = v.label.as_deref().and_then(Label::parse);
        let label = label.map(|l| if sure { l } else { unlike(l) }.to_string());
        ObservedVdp { label, ..v }
    });
    let labs = states.iter().map(|s| &s.lab).chain([asked]);
    let mut seen = room(labs.flat_map(|l| ports_of(l, host)).collect());
    (seen.made, seen.vdps) = (labels.collect(), vdps.collect());
    seen.ports.extend(seen.made.keys().cloned());
    seen
}

/// A host with these ports and nothing else, and room for anything.
fn room(ports: BTreeSet<String>) -> ObservedHost {
    let all = Budget { slice_entries: 1, free_entries: u32::MAX };
    ObservedHost { ports, mapping: all, action: all, ..ObservedHost::default() }
}

/// All hosts of a lab, so.
fn roomy(lab: &Lab) -> Observed {
    lab.host.iter().map(|h| (h.name.clone(), room(ports_of(lab, &h.name)))).collect()
}

/// The ports of its own that a lab's nodes have at a host.
fn ports_of(lab: &Lab, host: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for n in &lab.network {
        for v in &n.node {
            let far = v.far().filter(|f| f.host == host);
            all.extend(far.map(|f| f.port.to_owned()));
            if v.host == host {
                let own = lab.attached(n, v).into_iter().filter(|a| a.made == Made::ByHost);
                all.extend(own.map(|a| a.port.into_owned()));
            }
        }
    }
    all
}
