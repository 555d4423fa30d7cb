//! Switches that a controller would take for one: of the same datapath id.
//!
//! Room: pure. Called by `check`. Ids that nobody chose come of names (`section`), and differ.

use super::{Lab, Network, Node};
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

/// A controller as it is compared: with the port that goes without saying (OpenFlow 1.3.5 §6.3.1).
fn whole(controller: &str) -> String {
    let has_port = controller.rsplit_once(':').is_some_and(|(rest, port)| {
        rest.contains(':') && !port.contains(']') && port.parse::<u16>().is_ok()
    });
    if has_port { controller.to_owned() } else { format!("{controller}:6653") }
}

/// Two nodes of one owner and one controller need ids of their own. Of others' nodes nobody is told.
pub(super) fn apart(lab: &Lab) -> Result<(), Refusal> {
    let mut before: BTreeMap<_, Vec<(&Network, &Node)>> = BTreeMap::new();
    for (i, n) in lab.network.iter().enumerate() {
        for (j, v) in n.node.iter().enumerate() {
            let Some(own) = id(v) else { continue };
            let others = before.entry((&n.owner, own)).or_default();
            let shared = |(m, w): &&(&Network, &Node)| {
                controllers(m, w).any(|c| controllers(n, v).any(|d| whole(c) == whole(d)))
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
