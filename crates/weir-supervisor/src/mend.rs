//! Nodes that another host shall process and that get no frames there: its data plane was begun anew, or tunnels lead
//! elsewhere.
//!
//! Room: as [`crate::away`]; a lab's words need not change for this to happen, so each change looks for it. Whoever moves
//! nodes puts it right, by the same steps as a move.

use crate::away::{RuleSyntax, Tunnel, bodies, body};
use crate::model::{Lab, Network, Node};
use crate::observed::Observed;
use crate::refusal::Refusal;
use crate::store::Places;
use std::collections::BTreeSet;
use std::fmt;

/// A node whose frames do not come to where it shall be, though a lab has said that before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// Its network.
    pub network: String,
    /// The node.
    pub node: String,
    /// The host that has its ports.
    pub home: String,
    /// The one that shall process its frames.
    pub away: String,
    /// What is not as it shall be.
    pub lack: Lack,
}

/// What is missing for a node's frames to come to where it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It is not there.
    Node,
    /// It is there, and its home, which was begun anew, does not hand it on.
    Home,
    /// So many of its ports have no tunnel there and back as it shall be.
    Ways(usize),
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, node, home, away, .. } = self;
        match self.lack {
            Lack::Node => write!(
                f,
                "> {network}/{node}: from {home} to {away}, where it is not: as it was when it left"
            ),
            Lack::Home => write!(
                f,
                "> {network}/{node}: from {home}, which does not hand it on, to {away}: as it is at {home}"
            ),
            Lack::Ways(n) => {
                let s = if n == 1 { "way" } else { "ways" };
                write!(f, "~ {network}/{node}: {n} {s} between {home} and {away}, by other ends")
            }
        }
    }
}

/// The nodes that are to be put right for a lab to hold, where it has them be as `before`, and those hosts answer that they
/// are at.
///
/// # Errors
/// One can't be where it shall be, and why.
pub fn mends(
    lab: &Lab,
    before: &Lab,
    observed: &Observed,
    places: &Places,
    (store, rules): (u64, &impl RuleSyntax),
    answers: impl Fn(&str) -> bool,
) -> Result<Vec<Mend>, Refusal> {
    let mut all = Vec::new();
    let known: BTreeSet<(&str, u16)> =
        bodies(observed, store).into_iter().map(|(host, o, _)| (host, o.vid)).collect();
    for (n, v) in lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v))) {
        let Some(away) = v.away.as_deref().filter(|a| answers(a) && answers(&v.host)) else {
            continue;
        };
        let old = before.network(&n.name).and_then(|n| n.node(&v.name));
        if old.is_none_or(|o| (o.host.as_str(), o.away.as_deref()) != (&v.host, Some(away))) {
            continue;
        }
        if let Some(lack) = lack(lab, n, v, observed, places, (store, rules), &known)? {
            let (network, node) = (n.name.clone(), v.name.clone());
            let (home, away) = (v.host.clone(), away.to_owned());
            all.push(Mend { network, node, home, away, lack });
        }
    }
    Ok(all)
}

fn lack(
    lab: &Lab,
    n: &Network,
    v: &Node,
    observed: &Observed,
    places: &Places,
    (store, rules): (u64, &impl RuleSyntax),
    known: &BTreeSet<(&str, u16)>,
) -> Result<Option<Lack>, Refusal> {
    let place = places.get(&format!("{}/{}", n.name, v.name));
    let Some((place, here)) = place.and_then(|p| Some((p, observed.get(&v.host)?))) else {
        return Ok(None);
    };
    let body = body(lab, n, v, place.vid, observed, store, rules)?;
    let Some(there) = observed.get(&body.away.0) else { return Ok(None) };
    let known = known.contains(&(body.away.0.as_str(), body.away.1));
    let left = here.vdps.iter().any(|o| o.vid == place.vid && o.moving);
    let has_way = body.tunnels.iter().all(|t| here.made.contains_key(&t.name));
    match (known, left && has_way) {
        (true, true) => {}
        (true, false) => return Ok(Some(Lack::Home)),
        (false, _) => return Ok(Some(Lack::Node)),
    }
    let as_it_shall_be = |t: &&Tunnel| {
        here.devices.get(&t.name) == Some(&t.at_home)
            && there.devices.get(&t.name) == Some(&t.at_body)
    };
    let others = body.tunnels.iter().filter(|t| !as_it_shall_be(t)).count();
    Ok((others > 0).then_some(Lack::Ways(others)))
}
