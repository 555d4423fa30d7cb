//! What a prepared change does, step by step, for people and for programs.
//!
//! Room: steps in, lines out. Called by `weir apply`, `weir net` and the HTTP API.

use super::change::Prepared;
use std::collections::BTreeSet;
use weir_supervisor::away::Move;
use weir_supervisor::model::NAME_BYTES;
use weir_supervisor::plan::Step;
use weir_supervisor::silent::Missed;

/// A step and what changes in its VDP's section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The step in a line.
    pub line: String,
    /// The host that does it.
    pub host: String,
    /// The network that it is about, where it is about one.
    pub network: Option<String>,
    /// Lines of the section that go.
    pub removed: Vec<String>,
    /// Lines that come.
    pub added: Vec<String>,
}

/// All steps of a change, and before them what is not done, which guards watch nothing any more, and where networks are not
/// apart already.
pub fn told(p: &Prepared) -> Vec<Told> {
    let homeward = |m: &&Move| p.homeward.iter().any(|h| *h == (m.network.clone(), m.node.clone()));
    let (first, last): (Vec<&Move>, Vec<&Move>) = p.moves.iter().partition(homeward);
    let one_moves = |m: &Move| Told {
        line: match p.missed.iter().any(|s| s.host == m.from && s.is_silent()) {
            true => format!("{m}, as it was when it left its own"),
            false => m.to_string(),
        },
        host: m.to.clone(),
        network: Some(m.network.clone()),
        ..Told::default()
    };
    let (first, last) = (first.into_iter().map(one_moves), last.into_iter().map(one_moves));
    let mends = p.mends.iter().map(|m| Told {
        line: m.to_string(),
        host: m.away.clone(),
        network: Some(m.network.clone()),
        ..Told::default()
    });
    let idle =
        p.idle.iter().chain(&p.already).map(|line| Told { line: line.clone(), ..Told::default() });
    let missed = p.missed.iter().map(missed).chain(idle);
    missed.chain(first).chain(p.steps.iter().map(|s| one(p, s))).chain(last).chain(mends).collect()
}

fn missed(m: &Missed) -> Told {
    let (host, network) = (m.host.clone(), m.network.clone());
    Told { line: m.to_string(), host, network, ..Told::default() }
}

fn one(p: &Prepared, s: &Step) -> Told {
    let (line, host) = (s.to_string(), s.host().to_owned());
    let of_name = |name: &str| name.split_once('.').map(|(n, _)| n.to_owned());
    match s {
        Step::Put { wanted, .. } => {
            let old = p.before.iter().find(|w| w.name == wanted.name && w.host == wanted.host);
            let old = old.map_or("", |w| w.toml.as_str());
            let network = Some(wanted.label.network.clone());
            let (removed, added) = (beyond(old, &wanted.toml), beyond(&wanted.toml, old));
            Told { line, host, network, removed, added }
        }
        Step::PortPut { wanted, .. } => {
            let network = Some(wanted.label.network.clone());
            Told { line, host, network, ..Told::default() }
        }
        Step::Delete { name, .. } | Step::Migrate { name, .. } => {
            Told { line, host, network: of_name(name), ..Told::default() }
        }
        Step::PortDelete { name, .. } => {
            // A name that was cut begins like another network's, perhaps.
            let network = of_name(name).filter(|_| name.len() < NAME_BYTES);
            Told { line, host, network, ..Told::default() }
        }
    }
}

/// Lines of a section that another has not, marks and blank lines left out.
fn beyond(text: &str, other: &str) -> Vec<String> {
    let counts = |l: &&str| !l.is_empty() && !l.starts_with("label") && *l != "[[vdp]]";
    let theirs: BTreeSet<&str> = other.lines().filter(counts).collect();
    text.lines().filter(counts).filter(|l| !theirs.contains(l)).map(str::to_owned).collect()
}
