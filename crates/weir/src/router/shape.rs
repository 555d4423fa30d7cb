//! A router's VDP: which ports, mapping and rules connect its wires, and the rules that its routes become.
//!
//! Room: plans and texts in the flow syntax, nothing is touched. Called by [`super::node`] for what stands as
//! long as the router does, and by [`super::follow`] for what changes with its routes.
//!
//! Frames of its ports go *up* to its namespace by wires of low priority, and frames of its namespace go
//! *down* to the ports. Where the shared data plane forwards, rules of its routes stand above: only for frames
//! to its own MAC address, without IPv4 options, with a TTL that can be decremented. So whatever a rule
//! can't do (ARP, OSPF's hellos, ICMP errors, options) is done by its own kernel.

use super::fib::{Prefix, Rules, Table, Then};
use crate::config::plan::{MappingPlan, RulePlan, VdpPlan};
use crate::config::program::ProgramPlan;
use std::fmt::Write;
use std::net::IpAddr;
use weir_dataplane::flowtext::parse_flow;
use weir_dataplane::{Action, Layer, Placement, PortNo, RuleSpec, UserField, UserFields, Vid};
use weir_supervisor::model::router::{DataPlane, Router};
use weir_wire::MacAddr;

/// A port of the shared data plane and what leads from there into the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The node's port.
    pub port: String,
    /// The router's interface.
    pub inside: String,
    /// The data plane's port that stands for it in the router's VDP: itself, or what leads to its bridge.
    pub outer: String,
    /// The data plane's port at this end of the wire; none where a channel is the wire.
    pub near: Option<String>,
}

/// Priorities: wires; routes, two for each length of a prefix; the router's own addresses; TTL that can't be
/// decremented; interfaces by which nothing comes that is forwarded.
const WIRES: u16 = 1;
const ROUTES: u16 = 1000;
const LOCALS: u16 = 2000;
const EXPIRES: u16 = 3000;
const CLOSED: u16 = 4000;

/// Where a rule sends a frame that came by one of the ports.
fn up(r: &Router, v: &VdpPlan, port: PortNo, wires: &[Wire]) -> Option<(String, String)> {
    let name = v.ports.iter().find(|(_, n)| *n == port).map(|(n, _)| n)?;
    let wire = wires.iter().find(|w| w.outer == *name)?;
    let (tagged, untag) = match r.vlan {
        Some(id) => (format!("in_port={port},dl_vlan={id}"), "strip_vlan,"),
        None => (format!("in_port={port}"), ""),
    };
    let near = v.number_of(wire.near.as_ref()?)?;
    Some((tagged, format!("{untag}output:{near}")))
}

/// Makes a VDP that of a router: with its wires as further ports, and the rules between.
///
/// # Errors
/// What the flow syntax says.
pub fn compose(mut v: VdpPlan, r: &Router, wires: &[Wire]) -> Result<VdpPlan, String> {
    if r.data_plane == DataPlane::Bridged {
        behind_bridges(&mut v, wires);
    }
    let outside: Vec<(String, PortNo)> = v.ports.clone();
    let mut next = outside.iter().map(|(_, n)| n.0).max().unwrap_or(0);
    for near in wires.iter().filter_map(|w| w.near.as_ref()) {
        next += 1;
        v.ports.push((near.clone(), PortNo(next)));
    }
    let ihl = UserField::new("ihl", Layer::Network, 0, 4, 4, None).map_err(|e| e.to_string())?;
    v.fields = UserFields::new(vec![ihl]).map_err(|e| e.to_string())?;
    v.default = vec![Action::Drop];
    let mut rules = String::new();
    for (name, port) in &outside {
        let Some(wire) = wires.iter().find(|w| w.outer == *name) else { continue };
        let Some(near) = &wire.near else { continue };
        let Some(near_no) = v.number_of(near) else { continue };
        if let Some((from, to)) = up(r, &v, *port, wires) {
            let _ = writeln!(rules, "priority={WIRES},{from},actions={to}");
        }
        let tag = r.vlan.map(|id| format!("push_vlan:0x8100,mod_vlan_vid:{id},"));
        let tag = tag.unwrap_or_default();
        let _ = writeln!(rules, "priority={WIRES},in_port={near_no},actions={tag}output:{port}");
        // What comes up the wire is the network's where it would be so at the port.
        let mut of_port = moved(&v.mapping, name, near);
        if r.vlan.is_some() {
            // Inside, frames have no tag; they get the network's.
            of_port.truncate(1);
            of_port.iter_mut().for_each(|m| m.text = format!("in_port={near}"));
        }
        v.mapping.extend(of_port);
    }
    if r.data_plane == DataPlane::Pearl {
        v.default = vec![Action::ToChannel];
        v.channel = r.channel;
    }
    for text in rules.lines() {
        let rule = rule(text, &v)?;
        v.rules.insert(rule.key(), rule);
    }
    Ok(v)
}

/// The mapping rules of one port, said of another.
fn moved(all: &[MappingPlan], from: &str, to: &str) -> Vec<MappingPlan> {
    let at_port = format!("in_port={from}");
    let of_port = all.iter().filter(|m| m.text.split(',').next() == Some(&at_port));
    let moved = |m: &MappingPlan| {
        let rest = m.text.strip_prefix(&at_port).unwrap_or_default();
        MappingPlan { text: format!("in_port={to}{rest}"), priority: m.priority }
    };
    of_port.map(moved).collect()
}

/// What a port of the router's is called in its bridge.
pub fn bridged_end(outer: &str) -> String {
    format!("{outer}b")
}

/// Has a VDP meet its ports by what leads to their bridges; shares stay with the ports.
fn behind_bridges(v: &mut VdpPlan, wires: &[Wire]) {
    let mut mapping = Vec::new();
    for w in wires {
        mapping.extend(moved(&v.mapping, &w.port, &w.outer));
        for (name, _) in v.ports.iter_mut().filter(|(n, _)| *n == w.port) {
            name.clone_from(&w.outer);
        }
    }
    v.mapping = mapping;
    v.shares.clear();
}

/// The bridges of a router whose VDP was asked for as `v`, each a learning switch between a port and the
/// router's VDP (003 §4.2 and fig. 9a), with numbers from `vids`.
pub fn bridges(v: &VdpPlan, wires: &[Wire], vids: impl Iterator<Item = u16>) -> Vec<VdpPlan> {
    let one = |(w, vid): (&Wire, u16)| {
        let inner = bridged_end(&w.outer);
        let mut b = VdpPlan::new(Vid(vid), &format!("{}.{}", v.name, w.port));
        b.ports = vec![(w.port.clone(), PortNo(1)), (inner.clone(), PortNo(2))];
        b.mapping = moved(&v.mapping, &w.port, &w.port);
        b.mapping.extend(moved(&v.mapping, &w.port, &inner));
        b.program = Some(ProgramPlan::learning());
        b.default = vec![Action::ToChannel];
        b.shares =
            v.shares.iter().filter(|(p, _)| **p == w.port).map(|(p, s)| (p.clone(), *s)).collect();
        b
    };
    wires.iter().zip(vids).map(one).collect()
}

fn rule(text: &str, v: &VdpPlan) -> Result<RulePlan, String> {
    let f = parse_flow(text, &v.names()).map_err(|e| format!("{text}: {e}"))?;
    let spec = RuleSpec {
        matcher: f.matcher,
        priority: f.priority.into(),
        cookie: f.cookie,
        actions: f.actions.into(),
    };
    let (placement, order) = (Placement::Fast, v.rules.len());
    Ok(RulePlan { table: f.table, spec, placement, order, place: None })
}

/// What of a router the rules of its routes depend on.
#[derive(Debug)]
pub struct Pushed {
    /// The router.
    pub router: Router,
    /// Its VDP.
    pub vdp: VdpPlan,
    /// Its wires.
    pub wires: Vec<Wire>,
    /// The MAC address of all its interfaces.
    pub mac: MacAddr,
}

impl Pushed {
    /// The port of the VDP that an interface of this name is.
    pub fn port(&self, interface: &str) -> Option<PortNo> {
        let wire = self.wires.iter().find(|w| w.inside == interface)?;
        self.vdp.number_of(&wire.outer)
    }

    /// Routes as rules of the VDP, but for families that come by a port and are not forwarded; `port_of` says which port an
    /// interface is.
    ///
    /// # Errors
    /// What the flow syntax says.
    pub fn specs(
        &self,
        rules: &Rules,
        closed: &[(PortNo, &str)],
        port_of: impl Fn(u32) -> Option<PortNo>,
    ) -> Result<Vec<RuleSpec>, String> {
        let mut texts: Vec<String> = Vec::new();
        let mac = self.mac;
        for family in ["ip", "ipv6"] {
            // 0 and 1: what is above can't be forwarded.
            self.rises(&mut texts, EXPIRES, &format!("{family},dl_dst={mac},nw_ttl=0/0xfe"), None);
        }
        for (port, family) in closed {
            // Its own kernel takes what is for itself, and no more.
            self.rises(&mut texts, CLOSED, family, Some(*port));
        }
        for ((table, to), then) in rules {
            let (priority, matcher) = (priority(*table, to), self.to(to));
            let Then::Forward { link, mac: next } = then else {
                self.rises(&mut texts, priority, &matcher, None);
                continue;
            };
            let Some(port) = port_of(*link) else { continue };
            // Back by the port that it came by: with a redirect, which its own kernel knows to send.
            self.rises(&mut texts, priority + 1, &matcher, Some(port));
            let plain = match to.addr() {
                IpAddr::V4(_) => ",ihl=5",
                IpAddr::V6(_) => "",
            };
            texts.push(format!(
                "priority={priority},{matcher}{plain},\
                 actions=mod_dl_src:{mac},mod_dl_dst:{next},dec_ttl,output:{port}"
            ));
        }
        texts.iter().map(|t| rule(t, &self.vdp).map(|r| r.spec)).collect()
    }

    /// A rule that sends frames up, for every port or for one.
    fn rises(&self, texts: &mut Vec<String>, priority: u16, matcher: &str, only: Option<PortNo>) {
        let pearl = self.router.data_plane == DataPlane::Pearl;
        let from = only.filter(|_| pearl).map(|p| format!("in_port={p},")).unwrap_or_default();
        if pearl {
            texts.push(format!("priority={priority},{from}{matcher},actions=channel"));
            return;
        }
        for (_, no) in self.vdp.ports.iter().filter(|(_, n)| only.is_none_or(|o| o == *n)) {
            if let Some((from, to)) = up(&self.router, &self.vdp, *no, &self.wires) {
                texts.push(format!("priority={priority},{from},{matcher},actions={to}"));
            }
        }
    }

    fn to(&self, to: &Prefix) -> String {
        let (mac, len) = (self.mac, to.len());
        match to.addr() {
            IpAddr::V4(_) if len == 0 => format!("ip,dl_dst={mac}"),
            IpAddr::V6(_) if len == 0 => format!("ipv6,dl_dst={mac}"),
            IpAddr::V4(a) => format!("ip,dl_dst={mac},nw_dst={a}/{len}"),
            IpAddr::V6(a) => format!("ipv6,dl_dst={mac},ipv6_dst={a}/{len}"),
        }
    }
}

fn priority(table: Table, to: &Prefix) -> u16 {
    let from = if table == Table::Local { LOCALS } else { ROUTES };
    from + 2 * u16::from(to.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::vdp_from;
    use weir_dataplane::flowtext::{FlowSpec, FlowText};

    const VDP: &str = "[[vdp]]\nvid = 7\nname = 'red.r'\nports = ['a', 'b']\n\
                       mapping = ['in_port=a,dl_vlan=10', 'in_port=b,dl_vlan=10']\n";

    fn wires(of: DataPlane) -> Vec<Wire> {
        let one = |(port, no): (&str, u8)| Wire {
            port: port.to_owned(),
            inside: port.to_owned(),
            outer: port.to_owned(),
            near: (of != DataPlane::Pearl).then(|| format!("_r7.{no}")),
        };
        [("a", 1), ("b", 2)].map(one).to_vec()
    }

    fn composed(r: &Router) -> VdpPlan {
        let v = vdp_from(VDP, None, &["a".to_owned(), "b".to_owned()], None).unwrap();
        compose(v, r, &wires(r.data_plane)).unwrap()
    }

    fn texts(v: &VdpPlan, all: &[RuleSpec]) -> Vec<String> {
        let text = |s: &RuleSpec| {
            let f = FlowSpec {
                priority: u16::try_from(s.priority).unwrap(),
                matcher: s.matcher,
                actions: s.actions.to_vec(),
                ..FlowSpec::default()
            };
            // Names of ports stand in quotes.
            FlowText(&f, &v.names()).to_string().replace('"', "")
        };
        all.iter().map(text).collect()
    }

    #[test]
    fn tags_are_taken_off_and_put_on() {
        let v = composed(&Router { vlan: Some(10), ..Router::default() });
        let rules: Vec<RuleSpec> = v.rules_in_order().iter().map(|r| r.spec.clone()).collect();
        let rules = texts(&v, &rules);
        assert_eq!(rules.len(), 4, "{rules:?}");
        let of =
            |port: &str| rules.iter().find(|r| r.contains(&format!("in_port={port}"))).unwrap();
        assert!(
            of("a").contains("dl_vlan=10") && of("a").contains("_vlan,output:_r7.1"),
            "{rules:?}"
        );
        assert!(of("_r7.2").contains("push_vlan:0x8100") && of("_r7.2").contains("output:b"));
        let from: Vec<&str> = v.mapping.iter().map(|m| m.text.as_str()).collect();
        let wires = ["in_port=_r7.1", "in_port=_r7.2"];
        assert_eq!(from[..2], ["in_port=a,dl_vlan=10", "in_port=b,dl_vlan=10"]);
        assert_eq!(from[2..], wires);
        // Without a tag to put on, what comes up a wire is the network's where it would be so at the port.
        let plain = composed(&Router::default());
        assert_eq!(plain.mapping[2].text, "in_port=_r7.1,dl_vlan=10");
    }

    #[test]
    fn routes_of_every_kind_are_rules() {
        let mac = MacAddr([2, 0, 0, 0, 0, 7]);
        let next = MacAddr([2, 0, 0, 0, 0, 8]);
        let on = Then::Forward { link: 3, mac: next };
        let to = |t: &str, len| Prefix::new(t.parse().unwrap(), len);
        let rules = Rules::from([
            ((Table::Main, to("0.0.0.0", 0)), on),
            ((Table::Main, to("10.0.0.0", 8)), Then::Up),
            ((Table::Main, to("::", 0)), on),
            ((Table::Main, to("fd00::", 64)), on),
            ((Table::Local, to("10.0.0.1", 32)), Then::Up),
        ]);
        for (data_plane, wanted) in [(DataPlane::Routed, 15), (DataPlane::Pearl, 11)] {
            let router = Router { data_plane, vlan: Some(10), ..Router::default() };
            let vdp = composed(&router);
            let wires = wires(data_plane);
            let p = Pushed { router, vdp, wires, mac };
            assert_eq!(p.port("b"), Some(PortNo(2)));
            let specs =
                p.specs(&rules, &[(PortNo(1), "ip")], |l| (l == 3).then_some(PortNo(2))).unwrap();
            let texts = texts(&p.vdp, &specs);
            assert_eq!(specs.len(), wanted, "{texts:#?}");
            let forwards = texts.iter().filter(|t| t.contains("dec_ttl,output:b")).count();
            assert_eq!(forwards, 3, "{texts:#?}");
            let closed = |t: &&String| t.contains("priority=4000") && t.contains("in_port=a");
            assert_eq!(texts.iter().filter(closed).count(), 1, "{texts:#?}");
        }
    }
}
