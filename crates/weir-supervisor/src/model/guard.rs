//! Rules that act (003 §2.1, functionality 4): a node that goes beyond a rate for a while is cut off or deleted.
//!
//! Room: plain data and its own checks. [`crate::guard`] says when one applies.

use super::Lab;
use crate::refusal::{Refusal, Way, instead};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A rule that acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// What it is called.
    pub name: String,
    /// The network that it watches; without it every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The node of that network; without it every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is counted.
    pub rate: Rate,
    /// How many a second are too many.
    pub above: u64,
    /// For how many seconds on end, 1 to 3600.
    #[serde(default = "usual")]
    pub for_s: u32,
    /// What is done then.
    #[serde(default)]
    pub act: Act,
}

fn usual() -> u32 {
    3
}

/// What of a node is counted, a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Frames that came for it.
    ReceivedFrames,
    /// Bytes of these.
    ReceivedBytes,
    /// Frames that it sent.
    ForwardedFrames,
    /// Frames of its that were dropped.
    DroppedFrames,
    /// Frames that took the software stage.
    SlowFrames,
}

impl Rate {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReceivedFrames => "received-frames",
            Self::ReceivedBytes => "received-bytes",
            Self::ForwardedFrames => "forwarded-frames",
            Self::DroppedFrames => "dropped-frames",
            Self::SlowFrames => "slow-frames",
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// The node is cut off: nothing comes in, nothing leaves.
    #[default]
    Isolate,
    /// Its network is deleted.
    Delete,
}

impl Act {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Isolate => "isolate",
            Self::Delete => "delete",
        }
    }
}

impl Guard {
    /// What it watches that a lab does not have, if anything; where, in the guard.
    fn missing(&self, lab: &Lab) -> Option<(&'static str, String)> {
        let network = self.network.as_ref()?;
        let Some(n) = lab.network(network) else {
            let near = instead(network, lab.network.iter().map(|n| n.name.as_str()));
            return Some(("network", format!("no network '{network}': {near}")));
        };
        let node = self.node.as_ref().filter(|v| n.node(v).is_none())?;
        let near = instead(node, n.node.iter().map(|v| v.name.as_str()));
        Some(("node", format!("network '{network}' has no node '{node}': {near}")))
    }
}

/// Whether a lab has what each of its guards names: of one that is said whole. In one that holds a guard stays when its network or
/// node goes, so that nobody is rid of it who deletes what is his and makes it again.
///
/// # Errors
/// The first that names what is not there.
pub fn named(lab: &Lab) -> Result<(), Refusal> {
    let mut missing = lab.guard.iter().enumerate().filter_map(|(i, g)| Some((i, g.missing(lab)?)));
    match missing.next() {
        None => Ok(()),
        Some((i, (key, text))) => Err(Refusal::new(Way::item("guard", i).key(key), text)),
    }
}

/// Guards that watched something before a change and nothing after it: each in a line.
pub fn left_idle(before: &Lab, after: &Lab) -> Vec<String> {
    let was = |g: &&Guard| before.guard.contains(g) && g.missing(before).is_none();
    let mut lines = Vec::new();
    for g in after.guard.iter().filter(was) {
        let what = match (&g.network, &g.node) {
            (Some(n), Some(v)) if g.missing(after).is_some() => format!("node '{n}.{v}'"),
            (Some(n), None) if g.missing(after).is_some() => format!("network '{n}'"),
            _ => continue,
        };
        lines
            .push(format!("guard '{}' stays, and watches nothing until there is a {what}", g.name));
    }
    lines
}

/// Guards that are as they must be by themselves; [`named`] says whether what they name is there.
pub(super) fn check(g: &Guard, at: &Way) -> Result<(), Refusal> {
    let refuse = |key, text: &str| Err(Refusal::new(at.key(key), text));
    if !(1..=3600).contains(&g.for_s) {
        return refuse("for_s", &format!("for_s = {}: 1 to 3600 seconds", g.for_s));
    }
    if g.node.is_some() && g.network.is_none() {
        return refuse("node", "a node is one of a network: say of which in 'network'");
    }
    if g.act == Act::Delete && g.network.is_none() {
        let text =
            "act = \"delete\" for whatever network there is: name it in 'network', or isolate";
        return refuse("act", text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(guards: &str) -> Lab {
        let nodes = "[[network]]\nname = 'red'\nnode = [{ name = 's1', host = 'h' }]\n";
        toml::from_str(&format!("{nodes}{guards}")).unwrap()
    }

    fn guard(named: &str) -> String {
        format!("[[guard]]\nname = 'flood'\nrate = 'received-frames'\nabove = 1\n{named}")
    }

    #[test]
    fn what_a_guard_names_is_there() {
        for fine in ["", "network = 'red'", "network = 'red'\nnode = 's1'"] {
            assert_eq!(named(&lab(&guard(fine))), Ok(()), "{fine}");
        }
        for (wrong, at, says) in [
            ("network = 'reed'", "guard[0].network", "no network 'reed': did you mean 'red'?"),
            (
                "network = 'red'\nnode = 's7'",
                "guard[0].node",
                "network 'red' has no node 's7': did you mean 's1'?",
            ),
        ] {
            let r = named(&lab(&guard(wrong))).unwrap_err();
            assert_eq!(r.at.to_string(), at);
            assert!(r.text.starts_with(says), "{}", r.text);
        }
    }

    #[test]
    fn a_guard_whose_network_goes_is_told_once() {
        let one = guard("network = 'red'\nnode = 's1'");
        let all = guard("").replace("flood", "any");
        let before = lab(&(one + "\n" + &all));
        let gone = Lab { network: Vec::new(), ..before.clone() };
        let told = left_idle(&before, &gone);
        assert_eq!(
            told,
            ["guard 'flood' stays, and watches nothing until there is a node 'red.s1'"]
        );
        // Neither again, nor when it comes back, nor where nothing has changed.
        for (a, b) in [(&gone, &gone), (&gone, &before), (&before, &before)] {
            assert_eq!(left_idle(a, b), [""; 0]);
        }
    }
}
