//! What an answer leaves open: what controllers send by themselves, and who answers to a name.
//!
//! Room: pure, text. Called by `gather` when a plane is put together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_supervisor::party::{Host, Party};
use weir_supervisor::verify::{Controller, Plane, Vdp};

/// Names that are told at most.
const MOST: usize = 3;

/// How controllers' addresses are written.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<Party, BTreeSet<String>>);

impl Names {
    /// One is written so.
    pub fn written(&mut self, party: &Party, text: &str) {
        self.0.entry(party.clone()).or_default().insert(text.to_owned());
    }
    /// What one is called: all its writings.
    pub fn of(&self, party: &Party) -> String {
        let all: Vec<&str> = self.0.get(party).into_iter().flatten().map(String::as_str).collect();
        all.join(" = ")
    }
    /// Names of which it is not known whether another network has their address: they are not looked up.
    pub fn not_looked_up(&self, all: &BTreeMap<Party, Controller>) -> Option<String> {
        let is_name = |p: &Party| matches!(p.host, Host::Named(_));
        // By port: the networks whose controllers listen there.
        let mut at: HashMap<u16, BTreeSet<usize>> = HashMap::new();
        for (p, c) in all {
            at.entry(p.port).or_default().extend(&c.networks);
        }
        let open = |(p, _): &(&Party, &Controller)| {
            let several = at.get(&p.port).is_some_and(|networks| networks.len() > 1);
            let others = all.keys().any(|o| o.port == p.port && o != *p);
            is_name(p) && several && others
        };
        let names: Vec<String> = all.iter().filter(open).map(|(p, _)| self.of(p)).collect();
        let more = match names.len().saturating_sub(MOST) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let told = names.get(..names.len().min(MOST)).unwrap_or_default().join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "controllers {told}{more} are taken for others than those at other addresses: names are \
                 not looked up"
            )
        })
    }
}

/// What packet-outs may do.
pub fn notes(p: &Plane) -> Vec<String> {
    // By port: the first network that has it, and whether another has it, too. The default VDP has every port; where it is
    // nobody's that is nothing.
    let mut holders: HashMap<usize, (usize, bool)> = HashMap::new();
    let nobodys = |at: usize, v: &Vdp| p.rest == Some(at) && v.is_sink();
    for (_, v) in p.vdps.iter().enumerate().filter(|(at, v)| !nobodys(*at, v)) {
        for (_, at) in &v.ports {
            let h = holders.entry(*at).or_insert((v.network, false));
            h.1 |= h.0 != v.network;
        }
    }
    let shared = |port: usize| holders.get(&port).is_some_and(|h| h.1);
    let mut out = Vec::new();
    for v in p.vdps.iter().filter(|v| !v.controllers.is_empty()) {
        let of = v.ports.iter().find(|(_, at)| shared(*at));
        if let Some(port) = of.and_then(|(_, at)| p.ports.get(*at)) {
            out.push(format!(
                "controllers of VDP {} may send packets of any header by port {}, which it shares: \
                 packet-outs are no rules",
                v.name, port.name
            ));
        }
    }
    out
}
