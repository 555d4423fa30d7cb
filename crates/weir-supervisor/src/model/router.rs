//! A virtual router: what a node of `kind = "router"` says beside what every node says (003 §2.1, fig. 3c).
//!
//! Room: plain data and what can be checked of it alone. In LAB files `[network.node.router]`; the same words
//! go to the node API.

use super::frr::{self, STATICD};
use crate::refusal::{Refusal, Way, instead};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A virtual router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Who forwards.
    #[serde(default)]
    pub data_plane: DataPlane,
    /// How the shared data plane takes frames from its interfaces, but for "pearl".
    #[serde(default, skip_serializing_if = "is_usual")]
    pub wire: Wire,
    /// For "pearl": a channel of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u8>,
    /// The VLAN tag that its frames carry outside and not inside; that of the network's flow space where this
    /// is one VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// FRR's configuration, as in frr.conf. Without it and without daemons there is no FRR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frr: Option<String>,
    /// FRR's daemons beside zebra: `["ospfd", "bgpd"]`; `staticd` runs by itself where `frr` has static routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemons: Vec<String>,
    /// Other programs that run inside, each with its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<Vec<String>>,
    /// Processor time that all its programs may use, in thousandths of one processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota_permille: Option<u32>,
    /// Processors that its programs may run on: `"0-1,3"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Memory that all its programs may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What interfaces are called inside, where not as the port, by port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interface: BTreeMap<String, String>,
    /// The MAC address of its interfaces; made of its name without it. One that takes the place of another
    /// router may have that one's, so that nobody need ask for it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Addresses of its interfaces, by their names: `"10.0.0.1/24"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub address: BTreeMap<String, Vec<String>>,
}

/// Who forwards a virtual router's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPlane {
    /// Its own kernel (003 §5.1, Xen-VM).
    #[default]
    Own,
    /// The shared data plane, by the router's routes (003 §5.1, Xen-Router).
    Routed,
    /// The same behind a bridge at each port (003 §5.1, Xen-Bridge).
    Bridged,
    /// The same, and what it can't do comes by the VDP's channel (004 §4.4).
    Pearl,
}

/// How the shared data plane takes frames from a router's interfaces, which are ends of veth pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// By AF_PACKET.
    #[default]
    AfPacket,
    /// By AF_XDP.
    AfXdp,
}

fn is_usual(w: &Wire) -> bool {
    *w == Wire::default()
}

impl DataPlane {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Routed => "routed",
            Self::Bridged => "bridged",
            Self::Pearl => "pearl",
        }
    }
}

/// FRR's daemons that a router may have beside zebra.
pub const DAEMONS: [&str; 12] = [
    "babeld", "bfdd", "bgpd", "eigrpd", "isisd", "ldpd", "ospf6d", "ospfd", "pimd", "ripd",
    "ripngd", "staticd",
];

/// Longest name of an interface.
const INTERFACE_BYTES: usize = 15;
/// Least that a control plane can live with.
const LEAST_MEMORY: u64 = 4 << 20;
/// Least time that a kernel deals out: a millisecond in each tenth of a second.
const LEAST_QUOTA: u32 = 10;
const LONGEST_TEXT: usize = 1 << 20;

/// An address and its length, as `10.0.0.1/24`.
pub fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (a, len) = text.split_once('/')?;
    let (a, len): (IpAddr, u8) = (a.parse().ok()?, len.parse().ok()?);
    let most = if a.is_ipv4() { 32 } else { 128 };
    (len <= most).then_some((a, len))
}

/// Processors as the kernel lists them: `0-1,3`.
pub fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (u32, u32) = (a.parse().ok()?, b.parse().ok()?);
        if a > b || b > 4095 {
            return None;
        }
        all.extend(a..=b);
    }
    Some(all)
}

/// Whether all processors that are asked for are there, both as the kernel lists them; what is there may be
/// unreadable, and then says nothing.
pub fn has_cpus(there: &str, asked: &str) -> bool {
    match (cpus(there.trim()), cpus(asked)) {
        (Some(there), Some(asked)) => asked.iter().all(|n| there.contains(n)),
        _ => true,
    }
}

/// The VLAN of a flow space that is one VLAN.
pub fn vlan_of(flow_space: &[String]) -> Option<u16> {
    match flow_space {
        [one] => one.strip_prefix("dl_vlan=")?.parse().ok(),
        _ => None,
    }
}

impl Router {
    /// What the interface of a port is called inside.
    pub fn interface_of<'r>(&'r self, port: &'r str) -> &'r str {
        self.interface.get(port).map_or(port, String::as_str)
    }

    /// FRR's daemons that run beside zebra: those that are listed, and that of static routes where there are such.
    pub fn running(&self) -> Vec<String> {
        let mut all = self.daemons.clone();
        let text = self.frr.as_deref().unwrap_or_default();
        let routes = frr::sections(text).any(|s| s.daemon == STATICD);
        if routes && !all.iter().any(|d| d == STATICD) {
            all.push(STATICD.to_owned());
        }
        all
    }

    /// The MAC address that it is given, if it is one that an interface may have.
    pub fn mac(&self) -> Option<[u8; 6]> {
        let mut bytes = [0; 6];
        let mut parts = self.mac.as_ref()?.split(':');
        for b in &mut bytes {
            let two = parts.next().filter(|t| t.len() == 2)?;
            *b = u8::from_str_radix(two, 16).ok()?;
        }
        let one = bytes[0] & 1 == 0 && bytes != [0; 6];
        (parts.next().is_none() && one).then_some(bytes)
    }
}

/// Checks a router with these ports; `at` is the way to its section.
///
/// # Errors
/// The first thing that can't be.
pub fn check(r: &Router, ports: &[&str], at: &Way) -> Result<(), Refusal> {
    let refuse = |key, text: String| Err(Refusal::new(at.key(key), text));
    if let Some(port) = r.interface.keys().find(|p| !ports.contains(&p.as_str())) {
        let near = instead(port, ports.iter().copied());
        return refuse("interface", format!("it has no port '{port}': {near}"));
    }
    let mut names: Vec<&str> = Vec::new();
    for p in ports {
        let name = r.interface_of(p);
        let letter = |b: u8| b.is_ascii_graphic() && !b"/:%'\"\\".contains(&b);
        let fits = (1..=INTERFACE_BYTES).contains(&name.len()) && name.bytes().all(letter);
        if !fits || ["lo", "all", "default", ".", ".."].contains(&name) {
            let text = format!("the interface of port '{p}' would be called '{name}' inside");
            let mend = format!("at most {INTERFACE_BYTES} letters, and not lo, all or default");
            return refuse("interface", format!("{text}: {mend}; say interface = {{ '{p}' = … }}"));
        }
        if names.contains(&name) {
            let text = format!("two of its interfaces would be called '{name}' inside");
            return refuse(
                "interface",
                format!("{text}: say interface = {{ PORT = NAME }} of one"),
            );
        }
        names.push(name);
    }
    for (name, all) in &r.address {
        if !names.contains(&name.as_str()) {
            let near = instead(name, names.iter().copied());
            return refuse("address", format!("it has no interface '{name}': {near}"));
        }
        if let Some(bad) = all.iter().find(|a| address(a).is_none()) {
            let text = format!("address '{bad}' of '{name}': as in \"10.0.0.1/24\"");
            return refuse("address", text);
        }
    }
    match (r.data_plane, r.channel) {
        (DataPlane::Pearl, _) | (_, None) => {}
        (other, Some(_)) => {
            let text = format!("channel in data_plane = \"{}\"", other.name());
            return refuse("channel", format!("{text}: it is for \"pearl\"; take it away"));
        }
    }
    if r.data_plane == DataPlane::Pearl && !is_usual(&r.wire) {
        let text = "wire in data_plane = \"pearl\": frames come by its channel; take it away";
        return refuse("wire", text.to_owned());
    }
    if let Some(text) = r.mac.as_ref().filter(|_| r.mac().is_none()) {
        let what = "one of a single interface, as in \"02:00:00:00:00:01\"";
        return refuse("mac", format!("mac '{text}': {what}"));
    }
    if let Some(v) = r.vlan.filter(|v| !(1..=4094).contains(v)) {
        return refuse("vlan", format!("vlan = {v}: 1 to 4094"));
    }
    if let Some(d) = r.daemons.iter().find(|d| !DAEMONS.contains(&d.as_str())) {
        let near = instead(d, DAEMONS.iter().copied());
        return refuse("daemons", format!("FRR's daemon '{d}': {near}"));
    }
    if r.frr.as_ref().is_some_and(|t| t.len() > LONGEST_TEXT || t.contains('\0')) {
        return refuse("frr", "frr: a text of at most a megabyte, without zeros".to_owned());
    }
    if let Some(text) = unread(r) {
        return refuse("frr", text);
    }
    for words in &r.run {
        let absolute = words.first().is_some_and(|w| w.starts_with('/'));
        if !absolute || words.iter().any(|w| w.contains('\0')) {
            let text = "run: programs by their whole path, as in [[\"/usr/sbin/bird\", \"-f\"]]";
            return refuse("run", text.to_owned());
        }
    }
    if let Some(n) = r.cpu_quota_permille.filter(|n| !(LEAST_QUOTA..=4_096_000).contains(n)) {
        let text = format!("cpu_quota_permille = {n}: at least {LEAST_QUOTA}; 1000 is a processor");
        return refuse("cpu_quota_permille", text);
    }
    if let Some(text) = r.cpus.as_ref().filter(|t| cpus(t).is_none()) {
        return refuse("cpus", format!("cpus '{text}': processors as in \"0-1,3\""));
    }
    if let Some(n) = r.memory_bytes.filter(|n| *n < LEAST_MEMORY) {
        return refuse("memory_bytes", format!("memory_bytes = {n}: at least {LEAST_MEMORY}"));
    }
    Ok(())
}

/// A part of FRR's configuration that no daemon would read, and what mends it.
fn unread(r: &Router) -> Option<String> {
    let there = r.running();
    let mut all = frr::sections(r.frr.as_deref()?);
    let s = all.find(|s| !there.iter().any(|d| d == s.daemon))?;
    let shown: String = s.text.chars().take(64).collect();
    let what = format!("frr: line {}, '{shown}': FRR's {} reads that", s.line, s.daemon);
    if !DAEMONS.contains(&s.daemon) {
        return Some(format!("{what}, which a router can't have: take it away"));
    }
    let listed = r.daemons.iter().map(String::as_str).chain([s.daemon]);
    let listed: Vec<String> = listed.map(|d| format!("\"{d}\"")).collect();
    Some(format!("{what}, and it is not there: say daemons = [{}]", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(daemons: &[&str], frr: &str) -> Router {
        let daemons = daemons.iter().map(|d| (*d).to_owned()).collect();
        Router { daemons, frr: Some(frr.to_owned()), ..Router::default() }
    }

    #[test]
    fn what_no_daemon_would_read_is_refused_with_its_line() {
        let told = |daemons: &[&str], frr: &str| {
            let r = check(&router(daemons, frr), &[], &Way::default()).err()?;
            assert_eq!(r.at.to_string(), "frr");
            Some(r.text)
        };
        let bgp = "hostname r\n!\nrouter bgp 65000\n neighbor 10.0.0.1 bfd\n";
        assert_eq!(
            told(&["ospfd"], bgp).unwrap(),
            "frr: line 3, 'router bgp 65000': FRR's bgpd reads that, and it is not there: \
             say daemons = [\"ospfd\", \"bgpd\"]"
        );
        assert_eq!(told(&["bgpd"], bgp), None);
        for (section, daemon) in [
            ("router ospf", "ospfd"),
            ("router ospf6", "ospf6d"),
            ("router rip", "ripd"),
            ("router ripng", "ripngd"),
            ("router isis 1", "isisd"),
            ("mpls ldp", "ldpd"),
            ("bfd", "bfdd"),
            ("interface e0\n ip pim", "pimd"),
        ] {
            let without = told(&[], section).unwrap_or_default();
            assert!(without.contains(&format!("daemons = [\"{daemon}\"]")), "{section}: {without}");
            assert_eq!(told(&[daemon], section), None, "{section}");
        }
        let fabric = told(&[], "router openfabric 1").unwrap();
        assert!(fabric.contains("fabricd reads that, which a router can't have"), "{fabric}");
        // Nobody's alone, or nothing at all.
        let fine = "! router bgp 1\nno router ospf\ninterface e0\n ip address 10.0.0.1/24\nip router-id 1.1.1.1\n";
        assert_eq!(told(&[], fine), None);
    }

    #[test]
    fn static_routes_have_their_daemon_by_themselves() {
        for routes in
            ["ip route 10.0.0.0/8 10.2.0.2", "vrf a\n ipv6 route ::/0 fe80::1 e0\nexit-vrf"]
        {
            assert_eq!(router(&["ospfd"], routes).running(), ["ospfd", "staticd"], "{routes}");
            assert_eq!(router(&["staticd"], routes).running(), ["staticd"]);
            assert_eq!(check(&router(&[], routes), &[], &Way::default()), Ok(()));
        }
        assert_eq!(router(&["ospfd"], "hostname r").running(), ["ospfd"]);
    }
}
