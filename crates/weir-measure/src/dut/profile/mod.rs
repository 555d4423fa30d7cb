//! What a device under test does wrong, as data: the keys of a profile.
//!
//! Room: plain data, read once from TOML ([`Profile::read`]), looked at by the rest of `dut`, told by
//! [`Profile::faults`]. Every default is an honest switch's, so that a profile says only its faults.
//! Keys carry their units. The guide (`docs/guide/dut.md`) has the same list in words.

mod builtin;
mod faults;
mod read;
mod units;

pub use builtin::BUILTIN;
pub use faults::Fault;
pub use read::ProfileError;
pub use units::{Deviation, Micros, Percent};

use serde::{Deserialize, Serialize};

/// A device, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub about: String,
    /// What its random choices begin with; the same seed makes the same choices.
    #[serde(default)]
    pub seed: u64,
    /// Its flow table.
    #[serde(default)]
    pub table: Table,
    /// What changes of flows cost.
    #[serde(default)]
    pub update: Update,
    /// What it says to barriers.
    #[serde(default)]
    pub barrier: Barrier,
    /// How it carries actions out.
    #[serde(default)]
    pub actions: Actions,
    /// How it forwards.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Frames for controllers.
    #[serde(default)]
    pub packet_in: PacketIns,
    /// Frames from controllers.
    #[serde(default)]
    pub packet_out: PacketOuts,
    /// How it answers requests for statistics.
    #[serde(default)]
    pub statistics: Statistics,
    /// How it counts.
    #[serde(default)]
    pub counters: Counters,
    /// How exact its time-outs are.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How it answers echo requests.
    #[serde(default)]
    pub echo: Echo,
    /// How its connections go.
    #[serde(default)]
    pub connection: Connection,
    /// What it tells by SNMP, where it is asked at all.
    #[serde(default)]
    pub snmp: Snmp,
}

/// The flow table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// Entries that fit in all, 1 to 1,000,000.
    pub entries: usize,
    /// Of them, entries that match exactly; absent: as many as fit.
    pub exact_entries: Option<usize>,
    /// Of them, entries with wildcards; absent: as many as fit.
    pub wildcard_entries: Option<usize>,
    /// What becomes of an entry past that.
    pub past: Past,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: 65_536, exact_entries: None, wildcard_entries: None, past: Past::Error }
    }
}

/// What becomes of an entry that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Past {
    /// The controller is told: ALL_TABLES_FULL, TABLE_FULL.
    Error,
    /// Nobody is told: statistics list it, no frame ever meets it.
    Lost,
}

/// What changes of flows cost. They are carried out one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    /// Before the first change after a pause.
    pub start_us: Micros,
    /// Each insertion.
    pub insert_us: Micros,
    /// Each insertion while the table has many entries.
    pub insert_past: Option<PastEntries>,
    /// Each entry modified.
    pub modify_us: Micros,
    /// Each entry modified while the table has many entries.
    pub modify_past: Option<PastEntries>,
    /// For so long before a modification is done, the entry is not there at all.
    pub modify_gap_us: Micros,
    /// Each entry deleted.
    pub delete_us: Micros,
    /// Insertions cost more, the more entries must make room.
    pub shift: Option<Shift>,
    /// Changes are taken in any order from among so many; 0 and 1: in their own.
    pub reorder_window: usize,
}

/// A price from so many entries on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastEntries {
    /// From this many entries in the table on,
    pub entries: usize,
    /// each costs this instead.
    pub us: Micros,
}

/// Entries of a TCAM lie in the order of priorities: a new one pushes others on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// For each entry that must move.
    pub us: Micros,
    /// Insertion in which order of priorities is dear.
    pub dear: Order,
}

/// An order of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Rising: entries of lower priority move.
    Ascending,
    /// Falling: entries of higher priority move.
    Descending,
}

/// What it says to barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Barrier {
    /// When it is answered.
    pub reply: BarrierReply,
    /// So much later.
    pub delay_us: Micros,
}

/// When a barrier is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BarrierReply {
    /// When frames meet all that was asked for before it.
    #[default]
    Honest,
    /// When it was read, whatever frames meet.
    Early,
    /// By an error: BAD_REQUEST, BAD_TYPE.
    Unsupported,
    /// Not at all.
    Never,
}

/// How it carries actions out. What is in no list is done in hardware, and right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Actions {
    /// Frames of flows with these vanish, unsaid.
    pub discards: Vec<ActionKind>,
    /// These are not done; the frame goes on as it is.
    pub ignores: Vec<ActionKind>,
    /// Flows with these are refused: BAD_ACTION, BAD_TYPE.
    pub refuses: Vec<ActionKind>,
    /// These write a value whose last bit is wrong, or change one tag too many.
    pub writes_wrong: Vec<ActionKind>,
    /// These leave checksums as they were.
    pub wrong_checksum: Vec<ActionKind>,
    /// These are done by a slow processor.
    pub cpu: Option<Cpu>,
}

/// A kind of action: the rows of 001's table 2, and what 1.3 adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// Output, nothing changed.
    Forward,
    /// Ethernet addresses.
    Mac,
    /// IP addresses.
    Ip,
    /// ToS: DSCP, ECN.
    Tos,
    /// Ports of TCP, UDP, SCTP.
    L4Port,
    /// VLAN priority.
    VlanPcp,
    /// VLAN id.
    VlanId,
    /// The VLAN tag taken off.
    VlanStrip,
    /// A VLAN tag put on.
    VlanPush,
    /// The TTL of IP or MPLS.
    Ttl,
    /// MPLS labels: pushed, popped, written.
    Mpls,
    /// Any other. No frame of a measurement shows one, so none can be configured.
    #[serde(skip_deserializing)]
    Other,
}

/// A slow processor that does what the hardware can't.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// What it does.
    pub does: Vec<ActionKind>,
    /// Frames that it loses, whatever their rate.
    #[serde(default)]
    pub loss_percent: Percent,
    /// Frames a second that it can do; 0: any. What waits beyond `queue` is lost.
    #[serde(default)]
    pub per_second: u32,
    /// Frames that may wait for it.
    #[serde(default = "Cpu::queue")]
    pub queue: usize,
    /// How long a frame takes: the median.
    #[serde(default)]
    pub delay_us: Micros,
    /// The standard deviation of that; the distribution is log-normal.
    #[serde(default)]
    pub sd_us: Micros,
}

impl Cpu {
    fn queue() -> usize {
        64
    }
}

/// How it forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forwarding {
    /// Each frame takes so long, beside what this program takes.
    pub delay_us: Micros,
    /// Frames that are lost.
    pub lose_percent: Percent,
    /// Frames that are sent twice.
    pub duplicate_percent: Percent,
    /// Frames that are sent behind their successor.
    pub swap_percent: Percent,
}

/// Frames for controllers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PacketIns {
    /// So many a second; 0: any number. What waits beyond `queue` is lost.
    pub per_second: u32,
    /// How many may wait.
    pub queue: usize,
    /// Each is so late.
    pub delay_us: Micros,
    /// So many come twice.
    pub duplicate_percent: Percent,
}

impl Default for PacketIns {
    fn default() -> Self {
        let (delay_us, duplicate_percent) = (Micros::default(), Percent::default());
        Self { per_second: 0, queue: 64, delay_us, duplicate_percent }
    }
}

/// Frames from controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PacketOuts {
    /// Each is so late.
    pub delay_us: Micros,
    /// So many are lost.
    pub lose_percent: Percent,
}

/// How it answers requests for statistics: one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statistics {
    /// Each request takes so long,
    pub delay_us: Micros,
    /// and so much longer for each flow that it asks for.
    pub per_flow_us: Micros,
    /// Of that time, so much is missing to changes of flows.
    pub slows_updates_percent: Percent,
    /// Counters of flows are read only so often.
    pub stale_us: Micros,
    /// Flows in one message; 0: as many as fit.
    pub flows_per_part: usize,
    /// Time between the messages of one answer.
    pub pace_us: Micros,
    /// Flows asked for so soon after the last time are told in one message all the same.
    pub whole_within_us: Micros,
}

/// How it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counters {
    /// What is told of flows differs from the truth by this.
    pub off_percent: Deviation,
    /// What is told of ports.
    pub port_off_percent: Deviation,
    /// What is told of the table.
    pub table_off_percent: Deviation,
}

/// How exact its time-outs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Flows live on for so long.
    pub late_us: Micros,
    /// From when idle time-outs count.
    pub idle_from: IdleFrom,
}

/// From when idle time-outs count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleFrom {
    /// From the flow's last frame.
    #[default]
    LastFrame,
    /// From its insertion, whatever it is used for.
    Insertion,
}

/// How it answers echo requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Echo {
    /// So late.
    pub delay_us: Micros,
}

/// How its connections go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// Which versions it speaks.
    pub speaks: Speaks,
    /// It closes each connection so long after it was made; 0: never.
    pub close_after_us: Micros,
    /// It closes each connection at this message; 0: never.
    pub close_after_messages: u64,
    /// Every so many messages it sends bytes that mean nothing; 0: never.
    pub garbage_every: u64,
}

/// Which versions of OpenFlow a device speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaks {
    /// 1.0 and 1.3.
    #[default]
    Both,
    /// 1.0.
    Only10,
    /// 1.3.
    Only13,
    /// 1.4 alone, which nobody else here does.
    Only14,
    /// It takes connections and says nothing, ever.
    Nothing,
}

/// What it tells by SNMP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snmp {
    /// It answers nothing.
    pub silent: bool,
    /// How busy its processor is without any work of ours.
    pub idle_percent: Percent,
}
