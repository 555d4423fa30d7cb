//! Ways for virtual links over physical ones: the shortest with room, and further ones that share no
//! physical link with those before.
//!
//! Room: arithmetic on the lab. First, links whose ways of before still do keep them, so that one network's
//! coming moves no other's; then the others, in the lab's order, each by the fewest hops (ties by the order
//! of physical links). That order may refuse what another would have carried: nothing is moved to make room.

use super::{LinkPlace, Links, WayPlace};
use crate::model::{Lab, Tunnelled, VirtualLink, end, tunnel_end};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Network identifiers below are left to people.
const FIRST_VNI: u32 = 4096;
const VNIS: u32 = 0x100_0000 - FIRST_VNI;

/// A physical link that tunnels go over.
struct Edge<'l> {
    ends: [&'l str; 2],
    left: Option<u64>,
    mtu: Option<u32>,
}

/// What a link asks of every physical link on its way.
#[derive(Clone, Copy)]
struct Asked {
    bps: u64,
    /// The longest outer packet.
    mtu: u32,
}

impl Edge<'_> {
    fn takes(&self, a: Asked) -> bool {
        self.left.is_none_or(|left| left >= a.bps) && self.mtu.is_none_or(|m| m >= a.mtu)
    }
}

/// Bytes that go in front of a packet inside: both Ethernet's, IP's, UDP's and VXLAN's header but the outer
/// Ethernet's.
fn in_front(lab: &Lab) -> u32 {
    let six = lab.host.iter().filter_map(|h| tunnel_end(h.tunnel.as_ref()?)).any(|a| a.is_ipv6());
    if six { 70 } else { 50 }
}

struct Graph<'l> {
    edges: Vec<Edge<'l>>,
    at: BTreeMap<&'l str, Vec<usize>>,
}

impl<'l> Graph<'l> {
    fn new(lab: &'l Lab) -> Self {
        let mut g = Self { edges: Vec::new(), at: BTreeMap::new() };
        for l in &lab.link {
            let [Some((a, None)), Some((b, None))] = [end(&l.between[0]), end(&l.between[1])]
            else {
                continue;
            };
            let i = g.edges.len();
            g.edges.push(Edge { ends: [a, b], left: l.capacity_bps, mtu: l.mtu });
            g.at.entry(a).or_default().push(i);
            g.at.entry(b).or_default().push(i);
        }
        g
    }

    /// The hosts of the shortest way whose physical links all are `usable`, and these links.
    fn shortest(
        &self,
        from: &str,
        to: &str,
        usable: impl Fn(usize, &Edge<'l>) -> bool,
    ) -> Option<(Vec<&'l str>, Vec<usize>)> {
        let (&from, _) = self.at.get_key_value(from)?;
        let mut came: BTreeMap<&str, (&'l str, usize)> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(here) = open.pop_front() {
            if here == to {
                let (mut hosts, mut edges, mut at) = (vec![here], Vec::new(), here);
                while let Some(&(back, i)) = came.get(at).filter(|_| at != from) {
                    hosts.push(back);
                    edges.push(i);
                    at = back;
                }
                hosts.reverse();
                edges.reverse();
                return Some((hosts, edges));
            }
            for &i in self.at.get(here).into_iter().flatten() {
                let Some(e) = self.edges.get(i).filter(|e| usable(i, e)) else { continue };
                let next = if e.ends[0] == here { e.ends[1] } else { e.ends[0] };
                if next != from && !came.contains_key(next) {
                    came.insert(next, (here, i));
                    open.push_back(next);
                }
            }
        }
        None
    }

    fn between(&self, a: &str, b: &str) -> Option<usize> {
        let joins = |i: &&usize| self.edges.get(**i).is_some_and(|e| e.ends.contains(&b));
        self.at.get(a)?.iter().find(joins).copied()
    }

    /// The physical links of ways of before, if they all still do.
    fn again(&self, p: &LinkPlace, ends: [&str; 2], ways: usize, a: Asked) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        for w in &p.ways {
            let right = w.hosts.len() == w.vnis.len() + 1
                && w.hosts.first().is_some_and(|h| h == ends[0])
                && w.hosts.last().is_some_and(|h| h == ends[1]);
            if !right {
                return None;
            }
            for (x, y) in w.hosts.iter().zip(w.hosts.iter().skip(1)) {
                let i = self.between(x, y)?;
                if all.contains(&i) || !self.edges.get(i).is_some_and(|e| e.takes(a)) {
                    return None;
                }
                all.push(i);
            }
        }
        (p.ways.len() == ways).then_some(all)
    }

    fn promise(&mut self, edges: &[usize], bps: u64) {
        for i in edges {
            if let Some(left) = self.edges.get_mut(*i).and_then(|e| e.left.as_mut()) {
                *left = left.saturating_sub(bps);
            }
        }
    }
}

/// A link by tunnels, and what it is kept under.
struct Open<'l> {
    key: String,
    of: Tunnelled<'l>,
}

fn by_tunnels(lab: &Lab) -> Vec<Open<'_>> {
    let of = |(i, n): (usize, &'_ crate::model::Network)| {
        let all = lab.tunnelled(i).into_iter();
        all.map(|of| Open { key: format!("{}/{}", n.name, of.name), of }).collect::<Vec<_>>()
    };
    lab.network.iter().enumerate().flat_map(of).collect()
}

/// Finds ways for all links by tunnels.
pub(super) fn route(
    lab: &Lab,
    before: &Links,
    busy: &BTreeSet<u32>,
    store: u64,
) -> Result<Links, Refusal> {
    let mut graph = Graph::new(lab);
    let front = in_front(lab);
    let asked = |l: &VirtualLink| Asked {
        bps: l.guarantee_bps,
        mtu: l.mtu.map_or(0, |m| m.saturating_add(front)),
    };
    let mut links = Links::new();
    let mut open = Vec::new();
    for o in by_tunnels(lab) {
        let (a, ways) = (asked(&o.of.link), o.of.link.backups as usize + 1);
        let old = before.get(&o.key);
        match old.and_then(|p| Some((p, graph.again(p, o.of.hosts, ways, a)?))) {
            Some((p, edges)) => {
                graph.promise(&edges, a.bps);
                links.insert(o.key, p.clone());
            }
            None => open.push(o),
        }
    }
    let mut vnis = Vnis::new(before, busy, store);
    for o in open {
        let a = asked(&o.of.link);
        let mut place = LinkPlace::default();
        let mut used = Vec::new();
        for way in 0..=o.of.link.backups {
            let [from, to] = o.of.hosts;
            let found = graph.shortest(from, to, |i, e| !used.contains(&i) && e.takes(a));
            let Some((hosts, edges)) = found else {
                return Err(why_not(&graph, &o, a, way));
            };
            let ids = edges.iter().map(|_| vnis.next()).collect::<Option<Vec<u32>>>();
            let Some(ids) = ids else {
                let text = "no VXLAN network identifier is left: 24 bits are all taken";
                return Err(Refusal::new(o.of.at, text));
            };
            place.ways.push(WayPlace {
                hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
                vnis: ids,
            });
            used.extend(edges);
        }
        graph.promise(&used, a.bps);
        links.insert(o.key, place);
    }
    Ok(links)
}

/// What keeps a link from having its way number `way`.
fn why_not(graph: &Graph<'_>, o: &Open<'_>, a: Asked, way: u32) -> Refusal {
    let [from, to] = o.of.hosts;
    let shown = format!("link {} from '{from}' to '{to}'", o.key);
    let has =
        |usable: &dyn Fn(usize, &Edge<'_>) -> bool| graph.shortest(from, to, usable).is_some();
    let refuse = |key, text: String| Refusal::new(o.of.key(key), format!("{shown}: {text}"));
    if !has(&|_, _| true) {
        let mend = "join its hosts by [[link]]s, or move a node";
        return refuse("between", format!("no physical links lead there: {mend}"));
    }
    if !has(&|_, e| e.mtu.is_none_or(|m| m >= a.mtu)) {
        let text =
            format!("no way takes packets of {} bytes, its own and what goes in front", a.mtu);
        return refuse(
            "mtu",
            format!("{text}: ask for less, or raise a link's mtu if it takes more"),
        );
    }
    if way > 0 {
        let text =
            format!("{way} of {} ways found that share no physical link", o.of.link.backups + 1);
        return refuse(
            "backups",
            format!("{text}, with {} bit/s left on each: ask for fewer", a.bps),
        );
    }
    let most = (0..graph.edges.len()).filter_map(|i| graph.edges.get(i)?.left).collect::<Vec<_>>();
    let most = most.into_iter().filter(|left| {
        has(&|_, e| e.left.is_none_or(|l| l >= *left) && e.mtu.is_none_or(|m| m >= a.mtu))
    });
    let text = format!("{} bit/s are promised to it, {} are left", a.bps, most.max().unwrap_or(0));
    refuse("guarantee_bps", format!("{text}: promise less, or raise a link's capacity_bps"))
}

/// Network identifiers that nobody has. Where they begin is the store's, so that two supervisors of one
/// substrate hardly meet even before they see each other's.
struct Vnis {
    taken: BTreeSet<u32>,
    at: u32,
    left: u32,
}

impl Vnis {
    fn new(before: &Links, busy: &BTreeSet<u32>, store: u64) -> Self {
        let mut taken = busy.clone();
        // Those that go, too: what is still under way by them must not come out elsewhere.
        taken.extend(before.values().flat_map(|p| &p.ways).flat_map(|w| &w.vnis));
        Self { taken, at: (store % u64::from(VNIS)) as u32, left: VNIS }
    }
    fn next(&mut self) -> Option<u32> {
        while self.left > 0 {
            let vni = FIRST_VNI + self.at;
            self.at = (self.at + 1) % VNIS;
            self.left -= 1;
            if self.taken.insert(vni) {
                return Some(vni);
            }
        }
        None
    }
}
