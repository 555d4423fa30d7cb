//! Nodes that another host processes and that are to be changed: their own host changes none that is away.
//!
//! Room: steps and an observation in; nothing is touched. One that another host shall process than now, or none, comes
//! home before it is changed; a change of one that shall stay where it is is refused when it is planned, since a step
//! that no host takes would keep the store under way. Called by whoever leads a change, which is the binary's.

use crate::away::bodies;
use crate::model::Lab;
use crate::observed::Observed;
use crate::plan::{How, Step};
use crate::refusal::Refusal;
use crate::section::Wanted;

/// A node that is away, and that a step changes at its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homeward<'s> {
    /// Its network.
    pub network: &'s str,
    /// The node.
    pub node: &'s str,
    /// What it shall be at home.
    pub wanted: &'s Wanted,
    /// The host that processes it and shall go on doing so, if it shall.
    pub stays: Option<&'s str>,
}

/// The nodes of a lab that steps change while other hosts process them. What is made anew at home is not changed there.
pub fn homeward<'s>(
    steps: &'s [Step],
    observed: &Observed,
    lab: &'s Lab,
    before: &Lab,
    store: u64,
) -> Vec<Homeward<'s>> {
    let bodies = bodies(observed, store);
    let mut all = Vec::new();
    for s in steps {
        let Step::Put { wanted, how: How::Change | How::Reroute | How::Become } = s else {
            continue;
        };
        let seen = observed.get(&wanted.host);
        if !seen.is_some_and(|h| h.vdps.iter().any(|v| v.vid == wanted.vid && v.moving)) {
            continue;
        }
        let (network, node) = (wanted.label.network.as_str(), wanted.label.node.as_str());
        let away = |lab: &'s Lab| lab.network(network)?.node(node)?.away.as_deref();
        let was = before.network(network).and_then(|n| n.node(node)?.away.as_deref());
        let is_at = |host: &str| {
            let own = |of: &(String, String)| (of.0.as_str(), of.1.as_str()) == (network, node);
            was == Some(host) || bodies.iter().any(|(at, _, of)| *at == host && own(of))
        };
        all.push(Homeward { network, node, wanted, stays: away(lab).filter(|h| is_at(h)) });
    }
    all
}

/// Refuses a change of a node that stays where another host processes it. Where it is `before` what it shall be, only
/// its mark differs, and its host decides.
///
/// # Errors
/// The first of them, and how it can be changed.
pub fn movable(all: &[Homeward<'_>], before: &[Wanted]) -> Result<(), Refusal> {
    let same = |w: &Wanted| {
        let is_it = |b: &&Wanted| (&b.host, b.vid) == (&w.host, w.vid);
        before.iter().find(is_it).is_some_and(|b| b.label.whole == w.label.whole)
    };
    for h in all.iter().filter(|h| !same(h.wanted)) {
        let Some(there) = h.stays else { continue };
        let (network, node, w) = (h.network, h.node, h.wanted);
        let text = format!(
            "{} is processed by another node, host '{there}': bring it back before it is changed ('weir net migrate \
             {network} {node} --to {}', or no 'away' in the LAB file)",
            w.name, w.host
        );
        return Err(Refusal::new(w.at.clone(), text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Host, Network, Node};
    use crate::observed::{ObservedHost, ObservedVdp};
    use crate::refusal::Way;
    use crate::section::{Label, section};

    fn lab(away: Option<&str>, cpu_permille: u32) -> Lab {
        let node = Node {
            name: "s1".to_owned(),
            host: "east".to_owned(),
            ports: vec!["e1".to_owned()],
            away: away.map(str::to_owned),
            cpu_permille,
            ..Node::default()
        };
        let network = Network { name: "red".to_owned(), node: vec![node], ..Network::default() };
        let host = |name: &str| Host { name: name.to_owned(), ..Host::default() };
        Lab { host: vec![host("east"), host("west")], network: vec![network], ..Lab::default() }
    }

    fn wanted(lab: &Lab) -> Wanted {
        let n = &lab.network[0];
        section(lab, n, &n.node[0], 3, 9, &Way::item("network", 0).at("node", 0))
    }

    #[test]
    fn what_stays_away_is_not_changed_and_what_goes_comes_home_first() {
        let before = wanted(&lab(Some("west"), 0));
        let vdp = |vid, label: &Label, moving| ObservedVdp {
            vid,
            name: "red.s1".to_owned(),
            label: Some(label.to_string()),
            moving,
            ..ObservedVdp::default()
        };
        let seen = |v| ObservedHost { vdps: vec![v], ..ObservedHost::default() };
        let body = Label { node: "s1~".to_owned(), ..before.label.clone() };
        let mut observed: Observed = [
            ("east".to_owned(), seen(vdp(3, &before.label, true))),
            ("west".to_owned(), seen(vdp(7, &body, false))),
        ]
        .into();
        let mut silent = observed.clone();
        silent.remove("west");
        let put = |lab: &Lab| [Step::Put { wanted: wanted(lab), how: How::Change }];
        let old = lab(Some("west"), 0);
        for (away, stays) in [(Some("west"), Some("west")), (Some("north"), None), (None, None)] {
            let after = lab(away, 50);
            let steps = put(&after);
            // Where it was is where it is, also if nobody answers there.
            for here in [&observed, &silent] {
                let all = homeward(&steps, here, &after, &old, 9);
                assert_eq!(all.iter().map(|h| h.stays).collect::<Vec<_>>(), [stays]);
                let told = movable(&all, std::slice::from_ref(&before));
                assert_eq!(told.is_err(), stays.is_some(), "{told:?}");
            }
        }
        let after = lab(Some("west"), 50);
        let steps = put(&after);
        // It was on its way there.
        let at_home = lab(None, 0);
        let told = movable(&homeward(&steps, &observed, &after, &at_home, 9), &[]).unwrap_err();
        assert_eq!(told.at.to_string(), "network[0].node[0]");
        assert!(
            told.text.contains("host 'west'") && told.text.contains("migrate red s1 --to east"),
            "{told}"
        );
        // What only its mark is missing of is for its host to decide.
        let same = put(&old);
        movable(&homeward(&same, &observed, &old, &old, 9), &[before]).unwrap();
        // One that is at home is changed there, and one that is made anew is in no way changed.
        let anew = [Step::Put { wanted: wanted(&after), how: How::Anew }];
        assert_eq!(homeward(&anew, &observed, &after, &old, 9), []);
        observed.get_mut("east").unwrap().vdps[0].moving = false;
        assert_eq!(homeward(&steps, &observed, &after, &old, 9), []);
    }
}
