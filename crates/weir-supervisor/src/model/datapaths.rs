//! Switches that a controller would take for one: of the same datapath id.
//!
//! Room: pure. Called by `check`. Ids that nobody chose come of names (`section`), and differ.

use super::{Lab, Network, Node};
use crate::party::Party;
use crate::refusal::{Refusal, Way};
use std::collections::BTreeMap;

/// Who controls a node.
fn controllers<'a>(n: &'a Network, v: &'a Node) -> impl Iterator<Item = &'a String> {
    n.controllers.iter().chain(v.openflow.iter().flat_map(|o| &o.controllers))
}

/// An id as a data plane reads it: hexadecimal digits, with or without colons or 0x. What it does not read it refuses.
fn id(v: &Node) -> Option<u64> {
    let text = v.openflow.as_ref()?.datapath_id.as_ref()?;
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
}

/// Two nodes of one owner and one controller need ids of their own. Of others' nodes nobody is told.
pub(super) fn apart(lab: &Lab) -> Result<(), Refusal> {
    let mut before: BTreeMap<_, Vec<(&Network, &Node)>> = BTreeMap::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            let Some(own) = id(v) else { continue };
            let others = before.entry((&n.owner, own)).or_default();
            let shared = |(m, w): &&(&Network, &Node)| {
                controllers(m, w).any(|c| controllers(n, v).any(|d| Party::of(c) == Party::of(d)))
            };
            if let Some((m, w)) = others.iter().find(shared) {
                let text = format!(
                    "node '{}' has the datapath id {own:016x}, as node '{}' of network '{}' has: their controller would take \
                     them for one switch; choose another, or leave it out",
                    v.name, w.name, m.name
                );
                let at = Way::item("network", i).at("node", j).key("openflow");
                return Err(Refusal::new(at, text));
            }
            others.push((n, v));
        }
    }
    Ok(())
}
