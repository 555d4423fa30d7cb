//! What is wanted: physical nodes with their ports and links, and the virtual networks on them.
//!
//! Room: plain data, in the form in which it is written in a LAB file, kept in the store and shown;
//! [`check`](check()) says whether it can be at all. Everybody in this crate reads it.
//!
//! Who owns what, for whoever must know: a [`Network`] owns its [`Node`]s; a node is one VDP on its
//! `host`, called `NETWORK.NODE` there ([`Node::vdp_name`]); it has the ports of
//! [`Lab::attached`]: on those of its host and of others the frames of its network's flow space, all of them where
//! that is empty; on those that are made for its links every frame, since nobody else's come there.

mod carry;
mod check;
mod datapaths;
mod frr;
pub mod guard;
mod identity;
mod program;
pub mod router;
mod spread;

pub use carry::{Attachment, Made, NAME_BYTES};
pub(crate) use carry::{Carrier, end};
pub(crate) use check::tunnel_end;
pub use check::{FlowSyntax, check, one_plane, owner_name};
pub use guard::{Act, Guard, Rate};
pub use identity::SwitchTls;
pub use program::Program;
use serde::{Deserialize, Serialize};
pub(crate) use spread::far_shares;
pub use spread::{Fabric, Far, Tunnelled};
use utoipa::ToSchema;

/// A substrate and the networks on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// What the supervisor shows to physical nodes, and whom it trusts; needed where one is reached by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether every change is proved to keep networks apart before it is made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verify: bool,
    /// Physical nodes.
    #[serde(default)]
    pub host: Vec<Host>,
    /// Physical links between them.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Virtual networks.
    #[serde(default)]
    pub network: Vec<Network>,
    /// What is done when a node goes beyond a rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guard: Vec<Guard>,
}

/// The supervisor's identity: PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Its certificate, and behind it whoever signed it.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Authorities that sign physical nodes' certificates.
    pub ca: String,
}

/// A physical node: a `weir run`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its node API, `HOST:PORT` by TLS, or `unix:PATH` for a control socket of this machine.
    pub api: String,
    /// The name that its certificate must be for, if not the API's host; `"*"` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_name: Option<String>,
    /// Where its tunnels end, `ADDRESS` or `ADDRESS:UDP-PORT`; needed where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
    /// What its ports carry, where that is known. Ports that are not named here have no known bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<HostPort>,
}

/// A port of a physical node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// Its name there.
    pub name: String,
    /// Bits per second that may be promised on it.
    pub capacity_bps: u64,
}

/// A physical link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its ends: `HOST:PORT` twice for a cable, `HOST` twice for what tunnels go over.
    pub between: [String; 2],
    /// Bits per second that may be promised on it, where tunnels go over it. Without it no bound is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    /// The longest IP packet that it takes, in bytes, where tunnels go over it; without it each data plane
    /// asks its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// A virtual network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// How its nodes share the TCAM (003 §2.2).
    #[serde(default)]
    pub isolation: Isolation,
    /// Which frames of its ports are its own: matches in the flow syntax, without ports. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_space: Vec<String>,
    /// Controllers of all its nodes, `tcp:HOST:PORT`, or `ssl:HOST:PORT` by TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// What its nodes show to controllers by TLS, and whom they trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SwitchTls>,
    /// Its nodes.
    pub node: Vec<Node>,
    /// Its links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<VirtualLink>,
}

/// How a network's nodes have entries of the TCAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Slices of its own, as many as `tcam_entries` says, and no more.
    Strong,
    /// From the common pool, up to `tcam_limit_entries`.
    #[default]
    Weak,
}

/// What a virtual node is (003 fig. 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A VDP: shared data plane, control plane of its own (fig. 3b).
    #[default]
    Vdp,
    /// Control plane of its own, and a data plane as it says (fig. 3c).
    Router,
}

/// Where a VDP lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Frames skip the software stage.
    #[default]
    Fast,
    /// Frames take it.
    Slow,
}

impl Path {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }
}

/// A virtual node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in its network.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub kind: Kind,
    /// The physical node that it lives on, whose ports it has.
    pub host: String,
    /// Another physical node that processes its frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
    /// The ports that are its own, from number 1 on in this order: the host's, or `HOST:PORT` of another's.
    #[serde(default)]
    pub ports: Vec<String>,
    /// What joins it to its ports on other hosts; whatever there is without a word of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// Where it lives.
    #[serde(default)]
    pub path: Path,
    /// Its slow-path program, as in a data plane's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// What a frame without a rule gets; the program's where that is left out. Not for OpenFlow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// As an OpenFlow switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<Openflow>,
    /// As a virtual router; what it is without a word of it where `kind` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<router::Router>,
    /// TCAM entries that are its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tcam_entries: u32,
    /// TCAM entries that its rules may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcam_limit_entries: Option<u32>,
    /// Guaranteed part of the worker's cycles, in thousandths.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpu_permille: u32,
    /// Whether it is cut off: nothing comes in, nothing leaves; its rules, counters and sessions stay.
    #[serde(default, skip_serializing_if = "is_false")]
    pub isolated: bool,
    /// Its shares of its ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub share: Vec<Share>,
    /// Rules, there before any controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Rule>,
}

/// A rule of a node, in the flow syntax, with the node's own port numbers or its ports' names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Larger wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Which frames.
    #[serde(default, rename = "match", skip_serializing_if = "String::is_empty")]
    pub matcher: String,
    /// What becomes of them.
    pub actions: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
pub(crate) fn is_false(b: &bool) -> bool {
    !*b
}

/// A node as an OpenFlow switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Openflow {
    /// 16 hexadecimal digits; without it one that comes of the names of network and node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath_id: Option<String>,
    /// Controllers beside the network's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// Where tools may connect: `ptcp:PORT`, or `pssl:PORT` by TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    /// What it shows to controllers by TLS, and whom it trusts; the network's without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<SwitchTls>,
    /// "secure" or "standalone".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_mode: Option<String>,
    /// Messages a second, of all connections together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<u32>,
    /// Flow-mods a second among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_mods_per_s: Option<u32>,
    /// Packet-ins a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_ins_per_s: Option<u32>,
}

/// A node's share of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The host's port, or `HOST:PORT` of another's.
    pub port: String,
    /// Guaranteed bits per second.
    #[serde(default)]
    pub guarantee_bps: u64,
    /// Most bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_bps: Option<u64>,
    /// Its weight in what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// The longest that a frame of up to 1518 bytes may wait there, in microseconds: what would wait longer by the
    /// guarantee alone is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay_us: Option<u32>,
}

/// A virtual link between two nodes: inside a host's data plane, over a cable, or by tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualLink {
    /// Its ends: names of nodes. Each end is a further port of its node, numbered behind those before.
    pub between: [String; 2],
    /// Bits per second that are promised it on every physical link that its tunnels go over.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub guarantee_bps: u64,
    /// The most bits per second that either end sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_bps: Option<u64>,
    /// The longest packet that must pass it whole, in bytes, without Ethernet's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Further ways that share no physical link with those before, taken when those fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub backups: u32,
    /// How often its ways are probed, in milliseconds; 100 where there are backups, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ms: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_nothing(n: &u64) -> bool {
    *n == 0
}

impl Node {
    /// As a virtual router, if it is one.
    pub fn as_router(&self) -> Option<router::Router> {
        (self.kind == Kind::Router).then(|| self.router.clone().unwrap_or_default())
    }
    /// What its VDP is called on its host.
    pub fn vdp_name(&self, network: &Network) -> String {
        format!("{}.{}", network.name, self.name)
    }
}

impl Network {
    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.node.iter().find(|n| n.name == name)
    }
}

impl Lab {
    /// The network of this name.
    pub fn network(&self, name: &str) -> Option<&Network> {
        self.network.iter().find(|n| n.name == name)
    }
    /// The physical node of this name.
    pub fn find_host(&self, name: &str) -> Option<&Host> {
        self.host.iter().find(|h| h.name == name)
    }
    /// The names of the ports of [`Self::attached`].
    pub fn attachments(&self, network: &Network, node: &Node) -> Vec<String> {
        self.attached(network, node).into_iter().map(|a| a.port.into_owned()).collect()
    }
}
