//! The steps from what is there to what is wanted: ordered, each of which may be done twice.
//!
//! Room: sections and observations in, steps out. Called again after every stop, from what is observed
//! then; so no step needs to know which of its forerunners were done.
//!
//! Order: what goes and is not wanted on another host goes first, so that its numbers, names, slices and
//! shares are free; then what comes and what changes; then paths; last the old places of nodes that
//! have moved, which forward until the new ones are there.

use crate::away::BODY;
use crate::model::{Kind, Path};
use crate::observed::Observed;
use crate::section::{Wanted, whose};
use crate::store::Places;
use crate::wires::WantedPort;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One step, on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Deletes a VDP.
    Delete {
        /// Where.
        host: String,
        /// Which.
        vid: u16,
        /// Its name.
        name: String,
        /// Whether a virtual router goes with it.
        kind: Kind,
    },
    /// Makes a VDP what its section says.
    Put {
        /// What it shall be.
        wanted: Wanted,
        /// What that means for what is there.
        how: How,
    },
    /// Makes a port be of its device.
    PortPut {
        /// What it shall be.
        wanted: WantedPort,
        /// What that means for what is there.
        how: How,
    },
    /// Takes a port away that was made for a link.
    PortDelete {
        /// Where.
        host: String,
        /// Its name.
        name: String,
    },
    /// Moves a VDP to another path.
    Migrate {
        /// Where.
        host: String,
        /// Which.
        vid: u16,
        /// Its name.
        name: String,
        /// Whereto.
        to: Path,
    },
}

/// What putting a VDP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// There is none.
    New,
    /// There is none here, and one at another place until now.
    Elsewhere,
    /// What differs is changed; frames go on.
    Change,
    /// The same, and it takes the other path.
    Reroute,
    /// It is made anew, since what differs can't be changed while it runs.
    Anew,
    /// It becomes one of the other kind; frames go on.
    Become,
}

impl Step {
    /// The host that does it.
    pub fn host(&self) -> &str {
        match self {
            Self::Delete { host, .. } | Self::Migrate { host, .. } => host,
            Self::PortDelete { host, .. } => host,
            Self::Put { wanted, .. } => &wanted.host,
            Self::PortPut { wanted, .. } => &wanted.host,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete { host, vid, name, kind } => {
                write!(f, "- {host}: {} {vid} {name}", called(*kind))
            }
            Self::Put { wanted: w, how } => {
                let sign = if matches!(how, How::New | How::Elsewhere) { '+' } else { '~' };
                write!(f, "{sign} {}: {} {} {}", w.host, called(w.kind()), w.vid, w.name)?;
                match how {
                    How::Anew => write!(f, ", made anew"),
                    How::Become => write!(f, ", of the other kind until now"),
                    How::New | How::Elsewhere | How::Change | How::Reroute => Ok(()),
                }
            }
            Self::PortPut { wanted: p, how } => {
                let sign = if *how == How::New { '+' } else { '~' };
                write!(f, "{sign} {}: port {} of {}", p.host, p.name, shown(&p.device))
            }
            Self::PortDelete { host, name } => write!(f, "- {host}: port {name}"),
            Self::Migrate { host, vid, name, to } => {
                write!(f, "> {host}: VDP {vid} {name} to the {} path", to.name())
            }
        }
    }
}

/// A device without what is nobody's to know.
pub fn shown(device: &str) -> &str {
    device.split(",key=").next().unwrap_or(device)
}

fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Vdp => "VDP",
        Kind::Router => "router",
    }
}

/// The steps from `observed` to `wanted`, for VDPs that `store` keeps or has made at these places;
/// others' are let alone.
pub fn plan(wanted: &[Wanted], observed: &Observed, store: u64, places: &Places) -> Vec<Step> {
    let at: BTreeMap<(&str, u16), &Wanted> =
        wanted.iter().map(|w| ((w.host.as_str(), w.vid), w)).collect();
    let mut nodes: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for w in wanted {
        nodes.entry((&w.label.network, &w.label.node)).or_default().insert(&w.host);
    }
    let mut there: BTreeSet<(&str, u16)> = BTreeSet::new();
    let (mut go, mut come, mut paths, mut moved) = (vec![], vec![], vec![], vec![]);
    let mut elsewhere: BTreeSet<(String, String)> = BTreeSet::new();
    for (host, seen) in observed {
        for v in &seen.vdps {
            let ours = whose(v, host, store, places).filter(|o| !o.node.ends_with(BODY));
            let Some(ours) = ours else { continue };
            let (vid, kind) = (v.vid, v.kind);
            let delete = || Step::Delete { host: host.clone(), vid, name: v.name.clone(), kind };
            let is_it = |w: &&&Wanted| w.label.network == ours.network && w.label.node == ours.node;
            let Some(w) = at.get(&(host.as_str(), v.vid)).filter(is_it) else {
                elsewhere.insert((ours.network.clone(), ours.node.clone()));
                // What was given up here and has come back by another number has its name and its ports still.
                let at_others = nodes.get(&(ours.network.as_str(), ours.node.as_str()));
                match at_others.is_some_and(|hosts| !hosts.contains(host.as_str())) {
                    true => moved.push(delete()),
                    false => go.push(delete()),
                }
                continue;
            };
            there.insert((host.as_str(), v.vid));
            let put = |how| Step::Put { wanted: (*w).clone(), how };
            let migrate = || {
                let (host, name) = (host.clone(), v.name.clone());
                Step::Migrate { host, vid: v.vid, name, to: w.path }
            };
            match &ours.label {
                Some(l) if l.whole == w.label.whole => {
                    if v.path.is_some_and(|p| p != w.path) {
                        paths.push(migrate());
                    }
                }
                // What it becomes is put without its path, too.
                _ if v.kind != w.kind() => {
                    come.push(put(How::Become));
                    if v.path.is_some_and(|p| p != w.path) {
                        paths.push(migrate());
                    }
                }
                Some(l) if l.nature != w.label.nature => {
                    go.push(delete());
                    come.push(put(How::Anew));
                }
                // A router is put without its path.
                _ if v.path.is_some_and(|p| p != w.path) && v.kind == Kind::Router => {
                    come.push(put(How::Change));
                    paths.push(migrate());
                }
                _ if v.path.is_some_and(|p| p != w.path) => come.push(put(How::Reroute)),
                _ => come.push(put(How::Change)),
            }
        }
    }
    for w in wanted.iter().filter(|w| !there.contains(&(w.host.as_str(), w.vid))) {
        let node = (w.label.network.clone(), w.label.node.clone());
        let how = if elsewhere.contains(&node) { How::Elsewhere } else { How::New };
        come.push(Step::Put { wanted: w.clone(), how });
    }
    come.sort_by(|a, b| a.host().cmp(b.host()));
    go.into_iter().chain(come).chain(paths).chain(moved).collect()
}
