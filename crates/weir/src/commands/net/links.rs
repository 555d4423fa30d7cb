//! How good networks' links are: what the probes of their tunnels' ends tell, since the look before.
//!
//! Room: reading only. A part of `weir net monitor`.

use crate::commands::columns::Columns;
use crate::commands::stats::Stats;
use crate::socket::items::DelayItem;
use serde::Serialize;
use utoipa::ToSchema;
use weir_supervisor::model::{Lab, Network};

/// A way of a link at one of its ends.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LinkLook {
    /// Whose.
    #[serde(skip)]
    pub network: String,
    /// Whose port it is.
    #[serde(skip)]
    pub host: String,
    /// The end that tells.
    pub node: String,
    /// The other end.
    pub peer: String,
    /// Its port's name on its host.
    pub port: String,
    /// Which way.
    pub way: String,
    /// Whether it is up in both directions.
    pub up: bool,
    /// Whether frames take it.
    pub taken: bool,
    /// Delay there and back; `None`: not known yet.
    pub delay: Option<DelayItem>,
    /// How delays to this end vary, in nanoseconds (RFC 3550).
    pub jitter_ns: u64,
    /// Probes that came.
    pub probes_heard: u64,
    /// Probes that did not.
    pub probes_lost: u64,
    /// Frames that came by the link, by whichever way.
    pub received_frames: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
}

/// What is known of the links of these networks since they were made.
pub fn seen<'s>(
    lab: &Lab,
    mine: impl Fn(&Network) -> bool,
    stats: impl Fn(&str) -> Option<&'s Stats>,
) -> Vec<LinkLook> {
    let mut all = Vec::new();
    for (i, n) in lab.network.iter().enumerate().filter(|(_, n)| mine(n)) {
        for t in lab.tunnelled(i) {
            let [a, b] = &t.link.between;
            let ends = [(a, b), (b, a)].into_iter().zip(t.hosts.iter().zip(&t.ends));
            for ((node, peer), (host, name)) in ends {
                let port = stats(host).and_then(|s| s.ports.iter().find(|p| p.name == *name));
                for (p, w) in port.iter().flat_map(|p| p.ways.iter().map(move |w| (p, w))) {
                    all.push(LinkLook {
                        network: n.name.clone(),
                        host: (*host).to_owned(),
                        node: node.clone(),
                        peer: peer.clone(),
                        port: name.clone(),
                        way: w.name.clone(),
                        up: w.up,
                        taken: w.taken,
                        delay: w.delay,
                        jitter_ns: w.jitter_ns,
                        probes_heard: w.probes_heard,
                        probes_lost: w.probes_lost,
                        received_frames: p.rx.frames,
                        received_bytes: p.rx.bytes,
                    });
                }
            }
        }
    }
    all
}

/// What came and was lost between two looks, of a network's links: of one that was made meanwhile all of it, of one at a host that
/// did not answer before, which `answered` says, nothing.
pub fn since(
    before: &[LinkLook],
    now: &[LinkLook],
    network: &str,
    answered: impl Fn(&str) -> bool,
) -> Vec<LinkLook> {
    let of = |l: &&LinkLook| l.network == network;
    let earlier = |l: &LinkLook| before.iter().find(|b| (&b.port, &b.way) == (&l.port, &l.way));
    let since = |l: &LinkLook| {
        let unknown = (!answered(&l.host)).then_some(l);
        let Some(b) = earlier(l).or(unknown) else { return l.clone() };
        LinkLook {
            probes_heard: l.probes_heard.saturating_sub(b.probes_heard),
            probes_lost: l.probes_lost.saturating_sub(b.probes_lost),
            received_frames: l.received_frames.saturating_sub(b.received_frames),
            received_bytes: l.received_bytes.saturating_sub(b.received_bytes),
            ..l.clone()
        }
    };
    now.iter().filter(of).map(since).collect()
}

/// For people; nothing where no link is probed. `ns` is the time of which it tells.
pub fn as_table(links: &[&LinkLook], ns: u64) -> String {
    if links.is_empty() {
        return String::new();
    }
    let heads = [
        "network",
        "from",
        "to",
        "way",
        "state",
        "there and back",
        "least",
        "most",
        "jitter",
        "lost",
        "Mbit/s",
    ];
    let mut c = Columns::new(&heads);
    for l in links {
        let us = |ns: Option<u64>| {
            ns.map_or_else(|| "?".to_owned(), |ns| format!("{:.0} us", ns as f64 / 1e3))
        };
        let state = match (l.up, l.taken) {
            (false, _) => "silent",
            (true, true) => "taken",
            (true, false) => "spare",
        };
        let sent = l.probes_heard + l.probes_lost;
        let lost = match sent {
            0 => "?".to_owned(),
            _ => format!("{:.1} %", l.probes_lost as f64 * 100.0 / sent as f64),
        };
        c.row(vec![
            l.network.clone(),
            l.node.clone(),
            l.peer.clone(),
            l.way.clone(),
            state.to_owned(),
            us(l.delay.map(|d| d.smoothed_ns)),
            us(l.delay.map(|d| d.least_ns)),
            us(l.delay.map(|d| d.most_ns)),
            us(Some(l.jitter_ns)),
            lost,
            format!("{:.1}", l.received_bytes as f64 * 8e3 / ns.max(1) as f64),
        ]);
    }
    format!("\n{}", c.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came by a link while its host was silent is no rate of the look at which that answers.
    #[test]
    fn a_link_is_counted_since_its_host_answered() {
        let link = |port: &str, received_bytes| LinkLook {
            network: "net".to_owned(),
            host: format!("host of {port}"),
            node: "a".to_owned(),
            peer: "b".to_owned(),
            port: port.to_owned(),
            way: "direct".to_owned(),
            up: true,
            taken: true,
            delay: None,
            jitter_ns: 0,
            probes_heard: 1,
            probes_lost: 1,
            received_frames: 1,
            received_bytes,
        };
        let now = [link("old", 9), link("new", 5), link("silent", 1_000_000)];
        let seen = since(&[link("old", 2)], &now, "net", |host| host != "host of silent");
        let bytes: Vec<u64> = seen.iter().map(|l| l.received_bytes).collect();
        assert_eq!(bytes, [7, 5, 0]);
        assert_eq!((seen[1].probes_lost, seen[2].probes_lost), (1, 0));
    }
}
