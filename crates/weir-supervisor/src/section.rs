//! A virtual node in the words of a physical one: the `[[vdp]]` section that its data plane reads, and
//! the mark by which it is known again.
//!
//! Room: text from the model. Made by [`crate::admission`], compared by [`crate::plan`], sent by the
//! supervisor's hands.

use crate::model::router::{DataPlane, Router, vlan_of};
use crate::model::{
    Attachment, Isolation, Kind, Lab, Made, Network, Node, Openflow, Path, Program, Rule, Share,
    SwitchTls, is_false,
};
use crate::observed::ObservedVdp;
use crate::refusal::Way;
use crate::store::Places;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// What a relay's name begins with; a network's begins with a letter.
pub(crate) const RELAY: &str = "_relay.";

/// A VDP as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// On which host.
    pub host: String,
    /// Its number there.
    pub vid: u16,
    /// Its name there.
    pub name: String,
    /// Its mark.
    pub label: Label,
    /// Where it lives.
    pub path: Path,
    /// The `[[vdp]]` section, its mark in it.
    pub toml: String,
    /// As a virtual router, if it is one.
    pub router: Option<Box<Router>>,
    /// Mapping rules that it takes.
    pub mapping_rules: u32,
    /// Where the lab says so.
    pub at: Way,
}

impl Wanted {
    /// What it is.
    pub fn kind(&self) -> Kind {
        if self.router.is_some() { Kind::Router } else { Kind::Vdp }
    }
}

/// Whose a VDP is, and what it was made: `weir:STORE:NETWORK/NODE:NATURE:WHOLE`.
///
/// A data plane takes it away when anybody else changes the VDP, so a mark that is there and the same
/// says that nothing has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The store of the supervisor that keeps it.
    pub store: u64,
    /// The network.
    pub network: String,
    /// The node.
    pub node: String,
    /// What can't be changed while it runs, as a digest.
    pub nature: u64,
    /// All of its section, as a digest.
    pub whole: u64,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, network, node, nature, whole } = self;
        write!(f, "weir:{store:016x}:{network}/{node}:{nature:016x}:{whole:016x}")
    }
}

impl Label {
    /// Reads one; `None` for another's mark.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("weir:")?.split(':');
        let hex = |t: &str| u64::from_str_radix(t, 16).ok().filter(|_| t.len() == 16);
        let store = hex(parts.next()?)?;
        let (network, node) = parts.next()?.split_once('/')?;
        let (nature, whole) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let (network, node) = (network.to_owned(), node.to_owned());
        parts.next().is_none().then_some(Self { store, network, node, nature, whole })
    }
}

/// A VDP that this supervisor keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The network.
    pub network: String,
    /// The node.
    pub node: String,
    /// Its mark; none where somebody else has changed the VDP since.
    pub label: Option<Label>,
}

/// Whose a VDP of `host` is: `None` if another's. One that has lost its mark is known by its place.
pub fn whose(v: &ObservedVdp, host: &str, store: u64, places: &Places) -> Option<Ours> {
    if let Some(text) = &v.label {
        let l = Label::parse(text).filter(|l| l.store == store)?;
        return Some(Ours { network: l.network.clone(), node: l.node.clone(), label: Some(l) });
    }
    let relay = |key: &&String| key.rsplit('/').next() == Some(v.name.as_str());
    let key = match v.name.starts_with(RELAY) {
        true => places.keys().find(relay)?.clone(),
        false => v.name.replacen('.', "/", 1),
    };
    let place = places.get(&key)?;
    let (network, node) = key.split_once('/')?;
    let here = place.host == host && place.vid == v.vid;
    here.then(|| Ours { network: network.to_owned(), node: node.to_owned(), label: None })
}

#[derive(Serialize)]
struct File<'a> {
    vdp: [Section<'a>; 1],
}

#[derive(Serialize)]
struct Section<'a> {
    vid: u16,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    ports: &'a [String],
    mapping: Vec<String>,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a Program>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<&'a str>,
    tcam_entries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcam_limit_entries: Option<u32>,
    cpu_permille: u32,
    #[serde(skip_serializing_if = "is_false")]
    isolated: bool,
    share: Vec<Share>,
    rule: &'a [Rule],
    #[serde(skip_serializing_if = "Option::is_none")]
    openflow: Option<Switch<'a>>,
}

#[derive(Serialize)]
struct Switch<'a> {
    datapath_id: Cow<'a, str>,
    controllers: Vec<&'a str>,
    listen: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fail_mode: Option<&'a str>,
    limits: Limits,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<&'a SwitchTls>,
}

#[derive(Serialize)]
struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_mods_per_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_ins_per_s: Option<u32>,
}

/// The section of a node with this number, kept by this store.
pub fn section(lab: &Lab, n: &Network, v: &Node, vid: u16, store: u64, at: &Way) -> Wanted {
    let name = v.vdp_name(n);
    let attached = lab.attached(n, v);
    let mut mapping = Vec::new();
    for a in &attached {
        let p = &a.port;
        // What comes by a port that is made for a link is the link's, whatever it is.
        match n.flow_space.is_empty() || a.made == Made::ForLink {
            true => mapping.push(format!("in_port={p}")),
            false => mapping.extend(n.flow_space.iter().map(|f| format!("in_port={p},{f}"))),
        }
    }
    let router = v.as_router().map(|r| Box::new(inside(r, n, &attached)));
    let ports: Vec<String> = attached.into_iter().map(|a| a.port.into_owned()).collect();
    // Frames that come from the router take as many rules as those that go there; a bridge as many again.
    let times = match router.as_ref().map(|r| r.data_plane) {
        None | Some(DataPlane::Pearl) => 1,
        Some(DataPlane::Own | DataPlane::Routed) => 2,
        Some(DataPlane::Bridged) => 4,
    };
    let mapping_rules = u32::try_from(mapping.len() * times).unwrap_or(u32::MAX);
    let limit = match n.isolation {
        Isolation::Strong => Some(v.tcam_entries),
        Isolation::Weak => v.tcam_limit_entries,
    };
    // What is said of the other kind waits until it is that.
    let openflow = switch(n, v).filter(|_| router.is_none());
    // What the data plane makes a switch with and can't change while it runs.
    let nature = openflow.as_ref().map(|o| {
        format!("{vid} {:?} {:?} {:?}", o.datapath_id, o.fail_mode, o.limits.packet_ins_per_s)
    });
    let nature = match &router {
        None => format!("{nature:?}"),
        // Its wires are made with it.
        Some(r) => {
            let (plane, inside) = (r.data_plane.name(), &r.interface);
            format!(
                "{vid} {name} {plane} {ports:?} {inside:?} {:?} {:?} {:?} {:?}",
                r.channel, r.vlan, r.mac, r.wire
            )
        }
    };
    let nature = digest(&nature);
    let mut file = File {
        vdp: [Section {
            vid,
            name: &name,
            label: None,
            ports: &ports,
            mapping,
            path: v.path.name(),
            program: v.program.as_ref().filter(|_| router.is_none()),
            default: v.default.as_deref().filter(|_| router.is_none()),
            tcam_entries: v.tcam_entries,
            tcam_limit_entries: limit,
            cpu_permille: v.cpu_permille,
            isolated: v.isolated,
            share: shares(n, v, &ports),
            rule: if router.is_none() { &v.rule } else { &[] },
            openflow,
        }],
    };
    let whole = match &router {
        None => digest(&text(&file)),
        Some(r) => digest(&format!("{}{}", text(&file), toml::to_string(r).unwrap_or_default())),
    };
    let (network, node) = (n.name.clone(), v.name.clone());
    let label = Label { store, network, node, nature, whole };
    file.vdp[0].label = Some(label.to_string());
    let toml = text(&file);
    let (host, path) = (v.host.clone(), v.path);
    Wanted { host, vid, name, label, path, toml, router, mapping_rules, at: at.clone() }
}

/// A router as its host is told: in the network's flow space, with names for what is made for its links.
fn inside(r: Router, n: &Network, attached: &[Attachment<'_>]) -> Router {
    let mut interface = BTreeMap::new();
    for a in attached {
        let name = r.interface_of(&a.inside);
        if name != a.port {
            interface.insert(a.port.to_string(), name.to_owned());
        }
    }
    Router { vlan: r.vlan.or(vlan_of(&n.flow_space)), interface, ..r }
}

/// A node's shares: those that it is given, and what its links may send at most.
fn shares(n: &Network, v: &Node, ports: &[String]) -> Vec<Share> {
    let here = |s: &&Share| v.spot(&s.port).0 == v.host;
    let own = |s: &Share| Share { port: v.spot(&s.port).1.to_owned(), ..s.clone() };
    let mut all: Vec<Share> = v.share.iter().filter(here).map(own).collect();
    let ceiling = v.fabric.as_ref().and_then(|f| f.ceiling_bps);
    for far in v.far().filter(|_| ceiling.is_some()) {
        let port = n.far_name(v, far);
        if !all.iter().any(|s| s.port == port) {
            all.push(Share { port, ceiling_bps: ceiling, ..Share::default() });
        }
    }
    for (i, l) in n.link.iter().enumerate().filter(|(_, l)| l.between.contains(&v.name)) {
        let port = n.end_name(i, &v.name);
        let given = all.iter().any(|s| s.port == port) || !ports.contains(&port);
        if l.ceiling_bps.is_some() && !given {
            all.push(Share { port, ceiling_bps: l.ceiling_bps, ..Share::default() });
        }
    }
    all
}

/// What a relay passes on.
#[derive(Debug)]
pub(crate) struct Passes {
    /// What comes by one leaves by the other.
    pub(crate) ports: [String; 2],
    /// Which frames of the first port, in and out, as a network's flow space; none: all.
    pub(crate) space: Vec<String>,
    /// Its shares of its ports.
    pub(crate) share: Vec<Share>,
}

/// The section of a relay.
pub(crate) fn relay(
    host: &str,
    vid: u16,
    label: (u64, &str, &str),
    passes: Passes,
    at: &Way,
) -> Wanted {
    let (store, network, name) = label;
    let Passes { ports, space, share } = passes;
    let [a, b] = &ports;
    let rule = |matcher: String, to: &str| Rule {
        priority: None,
        matcher,
        actions: format!("output:{to}"),
    };
    let of = |port: &str| match space.is_empty() {
        true => vec![format!("in_port={port}")],
        false => space.iter().map(|f| format!("in_port={port},{f}")).collect(),
    };
    let mut rules = vec![rule(format!("in_port={a}"), b)];
    rules.extend(of(b).into_iter().map(|m| rule(m, a)));
    let mut mapping = of(a);
    mapping.push(format!("in_port={b}"));
    let mapping_rules = u32::try_from(mapping.len()).unwrap_or(u32::MAX);
    let mut file = File {
        vdp: [Section {
            vid,
            name,
            label: None,
            ports: &ports,
            mapping,
            path: Path::Fast.name(),
            program: None,
            default: None,
            tcam_entries: 0,
            tcam_limit_entries: None,
            cpu_permille: 0,
            isolated: false,
            share,
            rule: &rules,
            openflow: None,
        }],
    };
    let whole = digest(&text(&file));
    let (network, node) = (network.to_owned(), name.to_owned());
    let label = Label { store, network, node, nature: 0, whole };
    file.vdp[0].label = Some(label.to_string());
    Wanted {
        host: host.to_owned(),
        vid,
        name: name.to_owned(),
        label,
        path: Path::Fast,
        toml: text(&file),
        router: None,
        mapping_rules,
        at: at.clone(),
    }
}

fn text(file: &File<'_>) -> String {
    // Plain words, numbers and lists: TOML has a form for all of them.
    toml::to_string(file).unwrap_or_default()
}

/// A node's datapath id: its own, or one of its names. The data plane's would come of a number, which nodes of one network on several hosts
/// may share, and controllers would take them for one switch.
pub(crate) fn datapath_id<'a>(n: &Network, v: &'a Node) -> Cow<'a, str> {
    let own = v.openflow.as_ref().and_then(|o| o.datapath_id.as_deref());
    own.map_or_else(
        || {
            let names = digest(&format!("{}/{}", n.name, v.name)) & 0xff_ffff_ffff;
            // The lower 48 bits are an address that is administered locally.
            Cow::Owned(format!("{:016x}", 0x0200_0000_0000 | names))
        },
        Cow::Borrowed,
    )
}

fn switch<'a>(n: &'a Network, v: &'a Node) -> Option<Switch<'a>> {
    static NONE: Openflow = Openflow {
        datapath_id: None,
        controllers: Vec::new(),
        listen: Vec::new(),
        fail_mode: None,
        tls: None,
        messages_per_s: None,
        flow_mods_per_s: None,
        packet_ins_per_s: None,
    };
    if v.openflow.is_none() && n.controllers.is_empty() {
        return None;
    }
    let o = v.openflow.as_ref().unwrap_or(&NONE);
    let both =
        n.controllers.iter().chain(o.controllers.iter().filter(|c| !n.controllers.contains(c)));
    Some(Switch {
        datapath_id: datapath_id(n, v),
        controllers: both.map(String::as_str).collect(),
        listen: &o.listen,
        fail_mode: o.fail_mode.as_deref(),
        limits: Limits {
            messages_per_s: o.messages_per_s,
            flow_mods_per_s: o.flow_mods_per_s,
            packet_ins_per_s: o.packet_ins_per_s,
        },
        tls: o.tls.as_ref().or(n.tls.as_ref()),
    })
}

/// FNV-1a with 64 bits: the same for the same bytes, in every version of this program.
pub fn digest(of: &(impl AsRef<[u8]> + ?Sized)) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    of.as_ref().iter().fold(0xcbf2_9ce4_8422_2325, step)
}
