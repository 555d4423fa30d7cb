//! What there is in a data plane, as `show` and its kin tell it: the data of [`super::protocol`]'s items.
//!
//! Room: data. The server makes them, the client commands and `net` read them; the documents of
//! `--json` are made of them, too.

use crate::openflow::status::SwitchItem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The data plane as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlaneItem {
    /// Processor time of its process, in nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Process id of the daemon.
    pub pid: u32,
    /// Nanoseconds since the data plane was started.
    pub at_ns: u64,
    /// The region's frames.
    pub frames: FramesItem,
    /// The TCAM's two parts.
    pub tcam: Vec<TcamItem>,
    /// Threads that forward.
    #[serde(default)]
    pub workers: usize,
    /// Channels to the software stage.
    pub channels: usize,
    /// Frames without a VDP that were dropped, by reason.
    pub unmapped_dropped: BTreeMap<String, u64>,
    /// What VDPs that were deleted had counted, where any was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Box<DeletedItem>>,
    /// The first sum that does not hold, if any: a defect.
    pub imbalance: Option<String>,
    /// What no other data plane has: drawn at its start. `show` tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Processors that programs of virtual routers may run on, as the kernel lists them. `show` tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<String>,
    /// Lines of the log that were left out, since nobody read them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub log_left_out: u64,
}

/// What is left out where there is none of it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it on so")]
fn is_none(n: &u64) -> bool {
    *n == 0
}

/// What VDPs that are no more had counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeletedItem {
    /// Mapped to one.
    pub received: Count,
    /// Left by a port.
    pub forwarded: Count,
    /// Made there.
    pub generated: u64,
    /// Copies.
    pub cloned: u64,
    /// Ended in programs.
    pub consumed: u64,
    /// Went by a channel.
    pub slow: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// Where the region's frames are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct FramesItem {
    /// In all.
    pub count: usize,
    /// Free.
    pub free: usize,
    /// Lent to the kernel.
    pub lent: usize,
    /// Held for VDPs.
    pub held: usize,
    /// Spares of the software stage.
    pub spares: usize,
}

/// A part of the TCAM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcamItem {
    /// "mapping" or "action".
    pub part: String,
    /// Entries in all.
    pub entries: u32,
    /// Entries of a slice, the unit in which they are given.
    #[serde(default)]
    pub slice_entries: u32,
    /// Entries in slices that nobody has.
    pub free_entries: u32,
    /// Blocks in all.
    pub blocks: u32,
    /// Blocks that hold somebody's slices.
    pub blocks_in_use: u32,
}

/// Frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Bytes without FCS.
    pub bytes: u64,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortItem {
    /// Its name.
    pub name: String,
    /// Its number; 0 for the sum of the ports that were removed.
    pub number: u16,
    /// Its device.
    pub device: String,
    /// The mark of whoever keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether it can send.
    pub up: bool,
    /// Received.
    pub rx: Count,
    /// Sent.
    pub tx: Count,
    /// Dropped at the output, by reason.
    pub tx_dropped: BTreeMap<String, u64>,
    /// Lost by the device before reception.
    pub rx_missed: u64,
    /// Not handed over by the device.
    pub rx_errors: u64,
    /// Taken for sending and then failed.
    pub tx_errors: u64,
    /// Partial checksums completed.
    pub csum_completed: u64,
    /// Super-frames cut.
    pub segmented: u64,
    /// VLAN tags put back.
    pub vlan_restored: u64,
    /// A tunnel's datagrams for none of the ports that share its socket, and probes with another key than its own.
    #[serde(default)]
    pub rx_unknown: u64,
    /// Datagrams at a tunnel's socket that are none of a tunnel.
    #[serde(default)]
    pub rx_malformed: u64,
    /// Times that a tunnel's end took another of its ways.
    #[serde(default)]
    pub way_changes: u64,
    /// Frames waiting.
    pub backlog: usize,
    /// A tunnel's ways, where they are probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<WayItem>,
    /// What is wrong with its device.
    pub fault: Option<String>,
    /// What of its traffic it can't take, though nothing is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Whether nothing more will come from it.
    pub exhausted: bool,
    /// Where it was opened with a shortcut: whose frames the kernel forwards by itself, or why none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortcut: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_false(b: &bool) -> bool {
    !*b
}

/// One of the ways of a tunnel's end, by probes in band.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WayItem {
    /// Which: `VNI of ADDRESS`.
    pub name: String,
    /// Whether it is up in both directions.
    pub up: bool,
    /// Whether frames take it.
    pub taken: bool,
    /// Probes sent.
    pub probes_sent: u64,
    /// Probes of the other end that came.
    pub probes_heard: u64,
    /// Probes of the other end that did not.
    pub probes_lost: u64,
    /// Probes of the other end that came behind later ones.
    pub probes_late: u64,
    /// Delay there and back, without the other end's time; `None`: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayItem>,
    /// How delays from the other end vary, in nanoseconds (RFC 3550, §6.4.1).
    pub jitter_ns: u64,
}

/// Delay there and back, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DelayItem {
    /// The last.
    pub last_ns: u64,
    /// The least so far.
    pub least_ns: u64,
    /// The most so far.
    pub most_ns: u64,
    /// A mean in which what is long ago counts less.
    pub smoothed_ns: u64,
}

/// A VDP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VdpItem {
    /// Its number.
    pub vid: u16,
    /// Its name.
    pub name: String,
    /// "fast", "slow", "draining", "returning" or "deleting".
    pub phase: String,
    /// Mapped to it.
    pub received: Count,
    /// Left by a port.
    pub forwarded: Count,
    /// Made by its program.
    pub generated: u64,
    /// Copies.
    pub cloned: u64,
    /// Ended at its program.
    pub consumed: u64,
    /// Went through the software stage.
    pub slow: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Inside.
    pub held: usize,
    /// What it takes of what all share.
    #[serde(default)]
    pub takes: Takes,
    /// The VDP that it forwards for, as a part of it: that one's counters are those of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u16>,
    /// What `show` says beyond counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<VdpDetail>,
}

/// What a VDP takes of what all share: processor time, memory, tables, control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takes {
    /// What the worker has done for it, in units of about a forwarded frame: its part of `cpu_ns` of the plane is its
    /// part of all VDPs' work.
    pub work: u64,
    /// Processor time of the programs in its virtual router, in nanoseconds.
    pub router_cpu_ns: u64,
    /// Memory of its tables, and of the programs in its virtual router, in bytes.
    pub memory_bytes: u64,
    /// Rules in its tables.
    pub rules: u64,
    /// Entries of the TCAM.
    pub tcam_entries: u64,
    /// OpenFlow messages that came from its controllers.
    pub messages_in: u64,
    /// Messages that went to them.
    pub messages_out: u64,
}

impl Takes {
    /// Adds what another takes.
    pub fn add(&mut self, o: &Self) {
        self.work += o.work;
        self.router_cpu_ns += o.router_cpu_ns;
        self.memory_bytes += o.memory_bytes;
        self.rules += o.rules;
        self.tcam_entries += o.tcam_entries;
        self.messages_in += o.messages_in;
        self.messages_out += o.messages_out;
    }
}

impl VdpItem {
    /// Adds what another has counted.
    pub fn add(&mut self, o: &VdpItem) {
        for (sum, n) in [(&mut self.received, o.received), (&mut self.forwarded, o.forwarded)] {
            sum.frames += n.frames;
            sum.bytes += n.bytes;
        }
        self.generated += o.generated;
        self.cloned += o.cloned;
        self.consumed += o.consumed;
        self.slow += o.slow;
        for (why, n) in &o.dropped {
            *self.dropped.entry(why.clone()).or_default() += n;
        }
        self.held += o.held;
        self.takes.add(&o.takes);
    }
}

/// What `show` says of a VDP beyond its counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VdpDetail {
    /// The mark of whoever keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its ports.
    pub ports: Vec<VdpPortItem>,
    /// Its mapping rules.
    pub mapping: Vec<MappingItem>,
    /// What a frame without a rule gets.
    pub default: String,
    /// Its slow-path program's name.
    pub program: Option<String>,
    /// The program's state.
    pub program_status: Vec<(String, String)>,
    /// Its channel.
    pub channel: u8,
    /// Of several workers the one that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// Whether the channel is its own.
    pub channel_dedicated: bool,
    /// Rules in the TCAM.
    pub fast_rules: usize,
    /// Rules on the slow path only.
    pub slow_rules: usize,
    /// Whether all of it is on the slow path for their sake, since it has several tables.
    #[serde(default)]
    pub spilled_whole: bool,
    /// Times that this came about.
    #[serde(default)]
    pub spills: u64,
    /// Groups.
    pub groups: usize,
    /// Meters.
    pub meters: usize,
    /// Its part of the TCAM.
    pub tcam: Vec<TcamShareItem>,
    /// Blocks of the TCAM that one of its frames wakes, of all.
    pub blocks_woken: (u32, u32),
    /// Its guaranteed part of the worker's cycles.
    pub cpu_permille: u16,
    /// Whether it is cut off from its ports.
    #[serde(default, skip_serializing_if = "is_false")]
    pub isolated: bool,
    /// Memory of its tables in bytes.
    pub memory_bytes: usize,
    /// Tables whose lookups have an index beside them: large ones of many shapes.
    #[serde(default)]
    pub indexed_tables: usize,
    /// Migrations completed.
    pub migrations: u64,
    /// Migrations given up.
    pub migrations_given_up: u64,
    /// Frames that the last migration held.
    pub migration_held: u64,
    /// How long it drained.
    pub migration_drain_ns: u64,
    /// How its switch's way to another node stands, while it is on it: see [`super::moves::MovingItem`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<String>,
    /// Whether the files of its certificate have another now than controllers are shown, which 'weir apply' and SIGHUP change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub certificate_renewed: bool,
    /// As an OpenFlow switch, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openflow: Option<Box<SwitchItem>>,
    /// As a virtual router's, if it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<Box<RouterItem>>,
}

/// A virtual router.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouterItem {
    /// Its name, that of its VDP.
    pub name: String,
    /// Its VDP's number.
    pub vid: u16,
    /// The VDP that forwards for it.
    pub forwards: u16,
    /// Who forwards: "own", "routed", "bridged" or "pearl".
    pub data_plane: String,
    /// Its network namespace, for `ip netns exec`.
    pub namespace: String,
    /// Its files: FRR's configuration, logs and sockets, for `vtysh --vty_socket`.
    pub folder: String,
    /// The MAC address of its interfaces.
    pub mac: String,
    /// Programs that are kept running.
    pub programs: Vec<ProgramItem>,
    /// Processes inside.
    pub processes: usize,
    /// Processor time used, in microseconds, where the machine counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Memory used, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Routes inside, where the shared data plane follows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<usize>,
    /// Rules that they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_rules: Option<usize>,
    /// Rules among them that are on the slow path, for want of TCAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_rules_slow: Option<usize>,
    /// What is wrong with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A program of a virtual router.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramItem {
    /// Its name.
    pub name: String,
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// How often it has ended by itself.
    pub ended: u32,
}

/// A port of a VDP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VdpPortItem {
    /// The VDP's number for it.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Whether it is there now.
    pub present: bool,
    /// Guaranteed bits per second.
    pub guarantee_bps: u64,
    /// Ceiling in bits per second.
    pub ceiling_bps: Option<u64>,
    /// Weight.
    pub weight: u16,
    /// Frames that may wait.
    pub queue_frames: u32,
}

/// A mapping rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappingItem {
    /// Its match.
    #[serde(rename = "match")]
    pub matcher: String,
    /// Its priority.
    pub priority: u32,
}

/// A VDP's part of a part of the TCAM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcamShareItem {
    /// "mapping" or "action".
    pub part: String,
    /// Entries that rules use.
    pub used: u32,
    /// Entries in its slices.
    pub allowed: u32,
    /// Its slices.
    pub slices: u32,
}

/// A rule with its counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleItem {
    /// Whose.
    pub vid: u16,
    /// In the flow syntax.
    pub flow: String,
    /// "fast" or "slow".
    pub placed: String,
    /// What it matched.
    pub hits: Count,
}

/// A captured frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrameItem {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Port.
    pub port: String,
    /// VDP, if it has one yet.
    pub vid: Option<u16>,
    /// Stage.
    pub stage: String,
    /// Its bytes in hexadecimal.
    pub bytes: String,
}
