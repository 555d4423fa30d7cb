//! The configuration file as TOML has it: sections and keys, no meaning yet.
//!
//! Room: text → these structures, by serde; `read.rs` gives them their meaning. Every key is here
//! and nowhere else; `docs/guide/configuration.md` says what each does. Values that can be wrong in
//! a way of their own carry their place in the file ([`toml::Spanned`]).

use super::words::{
    ActionsText, DatapathId, MatchText, PortRef, Ports, Program, Serving, TextOr, VdpNumber,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub dataplane: Option<Spanned<DataplaneSection>>,
    pub api: Option<Spanned<ApiSection>>,
    #[serde(default)]
    pub port: Vec<PortSection>,
    #[serde(default)]
    pub vdp: Vec<VdpSection>,
}

impl File {
    /// `[dataplane]`; what it says where it is not there.
    pub fn section(&self) -> &DataplaneSection {
        static NONE: DataplaneSection = DataplaneSection {
            frames: None,
            chunk_bytes: None,
            channels: None,
            channel_frames: None,
            queue_frames: None,
            drain_limit_ms: None,
            serving: None,
            idle: None,
            cpu: None,
            workers: None,
            socket: None,
            tcam: None,
        };
        self.dataplane.as_ref().map_or(&NONE, Spanned::get_ref)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataplaneSection {
    pub frames: Option<Spanned<usize>>,
    pub chunk_bytes: Option<Spanned<usize>>,
    pub channels: Option<Spanned<usize>>,
    pub channel_frames: Option<Spanned<usize>>,
    pub queue_frames: Option<usize>,
    pub drain_limit_ms: Option<u64>,
    pub serving: Option<Spanned<Serving>>,
    pub idle: Option<Spanned<String>>,
    pub cpu: Option<Spanned<usize>>,
    pub workers: Option<Spanned<usize>>,
    pub socket: Option<String>,
    pub tcam: Option<Spanned<TcamSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSection {
    pub listen: Spanned<String>,
    pub tls: Spanned<TlsSection>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcamSection {
    pub mapping_entries: Option<u32>,
    pub action_entries: Option<u32>,
    pub slice_entries: Option<u32>,
    pub block_slices: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSection {
    pub name: Spanned<String>,
    pub device: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VdpSection {
    pub vid: Spanned<VdpNumber>,
    pub name: Option<Spanned<String>>,
    pub label: Option<Spanned<String>>,
    pub ports: Option<Spanned<Ports>>,
    #[serde(default)]
    pub mapping: Vec<Spanned<MappingEntry>>,
    pub default: Option<Spanned<ActionsText>>,
    pub program: Option<Spanned<Program>>,
    pub channel: Option<Spanned<u8>>,
    pub worker: Option<Spanned<usize>>,
    pub path: Option<Spanned<String>>,
    pub placement: Option<Spanned<String>>,
    pub tcam_entries: Option<usize>,
    pub tcam_limit_entries: Option<u32>,
    pub cpu_permille: Option<Spanned<u16>>,
    pub isolated: Option<bool>,
    pub rules_file: Option<Spanned<String>>,
    #[serde(default)]
    pub field: Vec<Spanned<FieldSection>>,
    #[serde(default)]
    pub share: Vec<Spanned<ShareSection>>,
    #[serde(default)]
    pub meter: Vec<Spanned<MeterSection>>,
    #[serde(default)]
    pub group: Vec<Spanned<GroupSection>>,
    #[serde(default)]
    pub rule: Vec<Spanned<RuleSection>>,
    #[serde(default)]
    pub queue: Vec<Spanned<QueueSection>>,
    pub openflow: Option<Spanned<OpenflowSection>>,
}

/// A mapping rule: its match alone, or a table.
pub type MappingEntry = TextOr<MatchText, MappingSection>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingSection {
    #[serde(rename = "match")]
    pub matcher: Spanned<MatchText>,
    pub priority: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSection {
    pub table: Option<Spanned<u8>>,
    pub priority: Option<u16>,
    pub cookie: Option<u64>,
    #[serde(rename = "match")]
    pub matcher: Option<Spanned<MatchText>>,
    pub actions: Spanned<ActionsText>,
    pub placement: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSection {
    pub name: String,
    pub layer: Spanned<String>,
    pub offset_bytes: u16,
    #[serde(default)]
    pub skip_bits: u8,
    pub width_bits: u8,
    pub mask: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareSection {
    pub port: Spanned<PortRef>,
    #[serde(default)]
    pub guarantee_bps: u64,
    pub ceiling_bps: Option<u64>,
    pub weight: Option<u16>,
    pub queue_frames: Option<u32>,
    pub max_delay_us: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterSection {
    pub id: Spanned<u32>,
    pub unit: Spanned<String>,
    pub band: Spanned<Vec<Spanned<BandSection>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandSection {
    pub rate: u32,
    pub burst: Option<u32>,
    pub dscp_remark: Option<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSection {
    pub id: u32,
    #[serde(rename = "type")]
    pub kind: Spanned<String>,
    pub bucket: Vec<Spanned<BucketSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSection {
    pub actions: Spanned<ActionsText>,
    pub weight: Option<u16>,
    pub watch_port: Option<Spanned<PortRef>>,
}

/// A program's options; which of them a program knows, `program.rs` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSection {
    pub name: Spanned<String>,
    pub ageing_s: Option<u64>,
    pub max_entries: Option<usize>,
    #[serde(default, rename = "static")]
    pub statics: Vec<Spanned<StaticSection>>,
    #[serde(default)]
    pub map: BTreeMap<Spanned<String>, Spanned<PortRef>>,
    #[serde(default)]
    pub interface: Vec<Spanned<InterfaceSection>>,
    #[serde(default)]
    pub route: Vec<Spanned<RouteSection>>,
    pub neighbours: Option<NeighbourSection>,
    pub icmp: Option<IcmpSection>,
    pub gateway: Option<GatewaySection>,
    pub inside: Option<Spanned<PortRef>>,
    pub outside: Option<Spanned<PortRef>>,
    pub max_connections: Option<usize>,
    pub midstream: Option<Spanned<String>>,
    pub timeouts: Option<TimeoutsSection>,
    #[serde(default)]
    pub allow: Vec<Spanned<AllowSection>>,
    pub inside_mac: Option<Spanned<String>>,
    pub outside_mac: Option<Spanned<String>>,
    pub gateway_mac: Option<Spanned<String>>,
    #[serde(default)]
    pub inside_addresses: Vec<Ipv4Addr>,
    #[serde(default)]
    pub addresses: Vec<Ipv4Addr>,
    pub ports: Option<Spanned<String>>,
    pub max_mappings: Option<usize>,
    pub mac: Option<Spanned<String>>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub service: Vec<Spanned<ServiceSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowSection {
    pub protocol: Spanned<String>,
    pub to: Spanned<String>,
    pub ports: Option<Spanned<String>>,
}

/// How long programs remember connections; which of these a program knows, `program/timeouts.rs` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutsSection {
    pub tcp_opening_s: Option<Spanned<u64>>,
    pub tcp_open_s: Option<Spanned<u64>>,
    pub tcp_closing_s: Option<Spanned<u64>>,
    pub tcp_transitory_s: Option<Spanned<u64>>,
    pub udp_s: Option<Spanned<u64>>,
    pub udp_one_way_s: Option<Spanned<u64>>,
    pub udp_both_ways_s: Option<Spanned<u64>>,
    pub query_s: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSection {
    pub address: Spanned<String>,
    pub port: u16,
    pub protocol: Spanned<String>,
    pub backend: Vec<Spanned<BackendSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSection {
    pub name: String,
    pub port: Spanned<PortRef>,
    pub mac: Spanned<String>,
}

/// What the program `bng` is told; `gateway.rs` gives it its meaning.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySection {
    pub tunnel: Spanned<String>,
    pub access: Vec<Spanned<GatewayPortSection>>,
    pub core: Vec<Spanned<GatewayPortSection>>,
    #[serde(default)]
    pub circuits: Vec<Spanned<CircuitSection>>,
    #[serde(default)]
    pub routes: Vec<GatewayRouteSection>,
    pub subscribers: Option<usize>,
    pub idle_s: Option<u64>,
    pub checksum: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayPortSection {
    pub port: Spanned<PortRef>,
    pub mac: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CircuitSection {
    pub outer: u16,
    /// The first and the last.
    pub inner: [u16; 2],
    pub key: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRouteSection {
    pub to: Spanned<String>,
    pub port: Spanned<PortRef>,
    pub next_hop: Spanned<String>,
    pub label: u32,
    pub remote: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticSection {
    pub mac: Spanned<String>,
    pub port: Spanned<PortRef>,
    #[serde(default)]
    pub vlan: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSection {
    pub port: Spanned<PortRef>,
    pub mac: Spanned<String>,
    pub addresses: Vec<Spanned<String>>,
    pub mtu_bytes: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSection {
    pub to: Spanned<String>,
    pub via: Option<Spanned<String>>,
    pub port: Option<Spanned<PortRef>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSection {
    pub reachable_s: Option<u64>,
    pub retry_ms: Option<u64>,
    pub tries: Option<u8>,
    pub idle_s: Option<u64>,
    pub entries: Option<usize>,
    pub queue_frames: Option<usize>,
    pub held_frames: Option<usize>,
    #[serde(default)]
    pub permanent: Vec<PermanentSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermanentSection {
    pub port: Spanned<PortRef>,
    pub address: Spanned<String>,
    pub mac: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IcmpSection {
    pub errors_per_second: Option<u32>,
    pub burst: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSection {
    pub port: Spanned<PortRef>,
    pub id: Spanned<u32>,
    #[serde(default)]
    pub min_bps: u64,
    pub max_bps: Option<u64>,
}

/// A VDP as an OpenFlow switch; `openflow.rs` gives it its meaning.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenflowSection {
    pub datapath_id: Option<Spanned<DatapathId>>,
    pub versions: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub controllers: Vec<Spanned<String>>,
    #[serde(default)]
    pub listen: Vec<Spanned<String>>,
    #[serde(default)]
    pub insecure: bool,
    pub fail_mode: Option<Spanned<String>>,
    pub tables: Option<Spanned<u8>>,
    pub spill: Option<Spanned<String>>,
    pub miss_send_len: Option<u16>,
    pub buffers: Option<Spanned<u16>>,
    pub echo_interval_s: Option<Spanned<u32>>,
    pub backoff_max_s: Option<Spanned<u32>>,
    #[serde(default)]
    pub limits: OpenflowLimitsSection,
    pub tls: Option<Spanned<TlsSection>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenflowLimitsSection {
    pub messages_per_s: Option<Spanned<u32>>,
    pub flow_mods_per_s: Option<Spanned<u32>>,
    pub packet_ins_per_s: Option<Spanned<u32>>,
    pub flows: Option<Spanned<u32>>,
    pub groups: Option<Spanned<u32>>,
    pub meters: Option<Spanned<u32>>,
    pub queue_bytes: Option<Spanned<usize>>,
    pub connections: Option<Spanned<usize>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    pub certificate: Spanned<String>,
    pub key: Spanned<String>,
    pub ca: Spanned<String>,
    pub peer_name: Option<Spanned<String>>,
}
