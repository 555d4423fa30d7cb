//! How good a network is from end to end: between two of its nodes where frames come in and leave, over the links of
//! the shortest way between them.
//!
//! Room: pure; from what is known of each link ([`LinkLook`]). A part of `weir net monitor`, and of the daemon's counters.
//!
//! Delay there and back is the sum of the links'; so is jitter, which is a bound, since links need not vary together;
//! what is lost is what any of them loses. Throughput is the least of the links': no more went from end to end.
//! What a link carries beside is in it. Links that are not probed (wires inside a host, cables) count as hops and are told as not
//! measured. Of a way that is silent, or of which no probe has told yet, nothing is known: no figure of it goes into a sum.

use super::links::LinkLook;
use crate::commands::columns::Columns;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use utoipa::ToSchema;
use weir_supervisor::model::Network;

/// Pairs of ends that are told of one network, the first ones.
pub const MOST: usize = 256;

/// One end to another.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct EndsLook {
    /// Where frames come in.
    pub from: String,
    /// Where they leave.
    pub to: String,
    /// Links between.
    pub hops: usize,
    /// Of them measured; all else is of these.
    pub measured: usize,
    /// Delay there and back, in nanoseconds; none: not known of all of them yet.
    pub delay_ns: Option<u64>,
    /// At most so much do delays vary on the way, in nanoseconds; none where no delay is known.
    pub jitter_ns: Option<u64>,
    /// The part of probes that were lost on the way, from 0 to 1; none: not known of all of them.
    pub lost: Option<f64>,
    /// Frames that the link with the fewest has brought.
    pub frames: u64,
    /// Bytes of the link with the fewest.
    pub bytes: u64,
}

/// All pairs of a network's ends whose way has a link that is measured, by what is known of its links.
pub fn of(n: &Network, links: &[LinkLook]) -> Vec<EndsLook> {
    let mut at: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (i, l) in n.link.iter().enumerate() {
        let [a, b] = &l.between;
        at.entry(a).or_default().push((i, b));
        at.entry(b).or_default().push((i, a));
    }
    let ends = n.node.iter().filter(|v| !v.ports.is_empty()).map(|v| v.name.as_str());
    let ends: Vec<&str> = ends.collect();
    let mut all = Vec::new();
    for from in &ends {
        if all.len() >= MOST {
            break;
        }
        let came = ways_from(from, &at);
        for to in ends.iter().filter(|t| *t != from) {
            let ends = along(n, links, from, to, &came);
            all.extend(ends.filter(|e| e.measured > 0));
        }
    }
    all.truncate(MOST);
    all
}

/// By which link, and from where, each node is reached first.
type Came<'n> = BTreeMap<&'n str, (usize, &'n str)>;

fn ways_from<'n>(from: &'n str, at: &BTreeMap<&'n str, Vec<(usize, &'n str)>>) -> Came<'n> {
    let mut came = Came::new();
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        for (link, there) in at.get(here).into_iter().flatten() {
            if *there != from && !came.contains_key(there) {
                came.insert(there, (*link, here));
                next.push_back(there);
            }
        }
    }
    came
}

fn along(
    n: &Network,
    links: &[LinkLook],
    from: &str,
    to: &str,
    came: &Came<'_>,
) -> Option<EndsLook> {
    let (from_name, to_name) = (from.to_owned(), to.to_owned());
    let mut e = EndsLook {
        from: from_name,
        to: to_name,
        hops: 0,
        measured: 0,
        delay_ns: Some(0),
        jitter_ns: Some(0),
        lost: None,
        frames: u64::MAX,
        bytes: u64::MAX,
    };
    let (mut here, mut through) = (to, Some(1.0));
    while here != from {
        let (link, before) = came.get(here)?;
        e.hops += 1;
        let port = n.end_name(*link, here);
        if let Some(l) = links.iter().find(|l| l.port == port && l.node == here && l.taken) {
            e.measured += 1;
            // What a silent way told last is of the time before.
            let told = l.delay.filter(|_| l.up);
            let add = |sum: Option<u64>, ns| Some(sum?.saturating_add(ns?));
            e.delay_ns = add(e.delay_ns, told.map(|d| d.smoothed_ns));
            e.jitter_ns = add(e.jitter_ns, told.map(|_| l.jitter_ns));
            through = through.zip(arrived(l)).map(|(a, b)| a * b);
            e.frames = e.frames.min(l.received_frames);
            e.bytes = e.bytes.min(l.received_bytes);
        }
        here = before;
    }
    e.lost = through.map(|t| 1.0 - t);
    Some(e)
}

/// The part of a way's probes that came. Those of a way that is silent are missed only when one comes again.
fn arrived(l: &LinkLook) -> Option<f64> {
    let sent = l.probes_heard.saturating_add(l.probes_lost);
    (l.up && sent > 0).then(|| l.probes_heard as f64 / sent as f64)
}

/// For people; nothing where nothing is measured. `ns` is the time of which it tells.
pub fn as_table(all: &[(&str, &EndsLook)], ns: u64) -> String {
    if all.is_empty() {
        return String::new();
    }
    let heads =
        ["network", "end", "end", "hops", "there and back", "jitter", "lost", "at most Mbit/s"];
    let mut c = Columns::new(&heads);
    for (network, e) in all {
        let hops = match e.hops - e.measured {
            0 => e.hops.to_string(),
            _ => format!("{} ({} measured)", e.hops, e.measured),
        };
        let unknown = || "?".to_owned();
        let us =
            |ns: Option<u64>| ns.map_or_else(unknown, |ns| format!("{:.0} us", ns as f64 / 1e3));
        c.row(vec![
            (*network).to_owned(),
            e.from.clone(),
            e.to.clone(),
            hops,
            us(e.delay_ns),
            us(e.jitter_ns),
            e.lost.map_or_else(unknown, |l| format!("{:.1} %", l * 100.0)),
            format!("{:.1}", e.bytes as f64 * 8e3 / ns.max(1) as f64),
        ]);
    }
    format!("\n{}", c.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::items::DelayItem;
    use weir_supervisor::model::{Node, VirtualLink};

    fn network(links: &[(&str, &str)], edges: &str) -> Network {
        let mut names: Vec<&str> = links.iter().flat_map(|(a, b)| [*a, *b]).collect();
        names.sort_unstable();
        names.dedup();
        let node = |name: &&str| Node {
            name: (*name).to_owned(),
            ports: edges.split(' ').filter(|e| e == name).map(|_| "p".to_owned()).collect(),
            ..Node::default()
        };
        let link = |(a, b): &(&str, &str)| VirtualLink {
            between: [(*a).to_owned(), (*b).to_owned()],
            ..VirtualLink::default()
        };
        Network {
            name: "red".to_owned(),
            node: names.iter().map(node).collect(),
            link: links.iter().map(link).collect(),
            ..Network::default()
        }
    }

    /// What the end of link `i` at `node` tells, by the way that is taken.
    fn look(n: &Network, i: usize, node: &str, us: u64, lost: u64, bytes: u64) -> LinkLook {
        let ns = us * 1000;
        LinkLook {
            network: n.name.clone(),
            host: String::new(),
            node: node.to_owned(),
            peer: String::new(),
            port: n.end_name(i, node),
            way: "direct".to_owned(),
            up: true,
            taken: true,
            delay: Some(DelayItem { last_ns: 0, least_ns: 0, most_ns: 0, smoothed_ns: ns }),
            jitter_ns: ns / 10,
            probes_heard: 100 - lost,
            probes_lost: lost,
            received_frames: bytes / 100,
            received_bytes: bytes,
        }
    }

    #[test]
    fn delays_add_up_and_losses_multiply_along_the_way_of_fewest_links() {
        // a - m - b, and a way round by x and y, which is longer.
        let n = network(&[("a", "x"), ("x", "y"), ("y", "b"), ("a", "m"), ("m", "b")], "a b");
        let mut links = vec![
            look(&n, 3, "m", 100, 10, 4000),
            look(&n, 4, "b", 200, 20, 3000),
            look(&n, 4, "m", 210, 0, 700),
            look(&n, 3, "a", 110, 50, 900),
            look(&n, 0, "x", 1, 0, 1),
            look(&n, 2, "b", 1, 0, 1),
        ];
        // A spare way of the same link counts for nothing.
        links.insert(0, LinkLook { taken: false, ..look(&n, 4, "b", 9999, 99, 1) });
        let all = of(&n, &links);
        let [there, back] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*there.from, &*there.to, there.hops, there.measured), ("a", "b", 2, 2));
        assert_eq!((there.delay_ns, there.jitter_ns), (Some(300_000), Some(30_000)));
        assert!((there.lost.unwrap() - (1.0 - 0.9 * 0.8)).abs() < 1e-9, "{there:?}");
        assert_eq!((there.frames, there.bytes), (30, 3000));
        assert_eq!((&*back.from, back.delay_ns, back.bytes), ("b", Some(320_000), 700));
        assert!((back.lost.unwrap() - 0.5).abs() < 1e-9, "{back:?}");
        let rows = as_table(&[("red", there)], 1_000_000_000);
        assert!(rows.contains("300 us") && rows.contains("28.0 %"), "{rows}");
    }

    #[test]
    fn what_is_not_measured_is_told_so() {
        let n = network(&[("a", "m"), ("m", "b"), ("c", "d")], "a b c d");
        // Of two links one is a wire; c and d are a part by themselves, of which nothing is known.
        let l = look(&n, 1, "b", 200, 0, 1);
        let all = of(&n, std::slice::from_ref(&l));
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!((all[0].hops, all[0].measured, all[0].delay_ns), (2, 1, Some(200_000)));
        let early = LinkLook { delay: None, ..l };
        assert_eq!(of(&n, &[early])[0].delay_ns, None);
        assert_eq!(of(&n, &[]), []);
    }

    #[test]
    fn of_a_way_that_is_dead_nothing_is_known() {
        let n = network(&[("a", "m"), ("m", "b")], "a b");
        let fine = look(&n, 0, "m", 100, 10, 4000);
        let silent = LinkLook { up: false, ..look(&n, 1, "b", 200, 0, 0) };
        let unprobed = LinkLook { probes_heard: 0, ..look(&n, 1, "b", 200, 0, 0) };
        let of_dead = |l: LinkLook| of(&n, &[fine.clone(), l]).remove(0);
        let dead = of_dead(LinkLook { probes_heard: 0, ..silent.clone() });
        assert_eq!((dead.delay_ns, dead.jitter_ns, dead.lost), (None, None, None));
        let row = as_table(&[("red", &dead)], 1_000_000_000);
        assert_eq!(row.matches('?').count(), 3, "{row}");
        let json = serde_json::to_value(&dead).unwrap();
        assert!(json["lost"].is_null() && json["delay_ns"].is_null(), "{json}");
        // It went silent within the look: what came before says nothing of now.
        assert_eq!(of_dead(silent).lost, None);
        // Up, and no probe yet.
        assert_eq!(of_dead(unprobed).lost, None);
        // All that were sent were lost, and that is known.
        let lossy = look(&n, 1, "b", 200, 100, 0);
        assert_eq!(of_dead(lossy).lost, Some(1.0));
    }
}
