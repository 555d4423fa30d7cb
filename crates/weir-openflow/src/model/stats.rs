//! Statistics (1.0 §5.3.5) and multipart messages (1.3 §7.3.5).

use super::{
    Band, Bucket, Field, FlowFlags, GROUP_ANY, GroupKind, Instruction, Match, MeterFlags, Port,
    PortDesc, TABLE_ALL,
};

/// Which flows are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    /// Of this table; [`TABLE_ALL`].
    pub table: u8,
    /// That output there; `ANY`.
    pub out_port: Port,
    /// That use this group; [`GROUP_ANY`].
    pub out_group: u32,
    /// With this cookie under the mask.
    pub cookie: u64,
    /// Which bits of it count.
    pub cookie_mask: u64,
    /// That this match contains.
    pub matcher: Match,
}

impl FlowFilter {
    /// Every flow of every table.
    pub fn every_flow() -> Self {
        Self {
            table: TABLE_ALL,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matcher: Match::default(),
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsRequest {
    /// Who made it (0).
    Desc,
    /// Flows (1).
    Flow(FlowFilter),
    /// Their sum (2).
    Aggregate(FlowFilter),
    /// Tables (3).
    Table,
    /// A port's counters, or all (4).
    Port(Port),
    /// A queue's counters, or all (5).
    Queue {
        /// Port, or `ANY` (1.0: `ALL`).
        port: Port,
        /// Queue, or [`QUEUE_ALL`](super::QUEUE_ALL).
        queue: u32,
    },
    /// A group's counters, or all (6).
    Group(u32),
    /// Groups as they are (7).
    GroupDesc,
    /// What groups can do (8).
    GroupFeatures,
    /// A meter's counters, or all (9).
    Meter(u32),
    /// A meter as it is, or all (10).
    MeterConfig(u32),
    /// What meters can do (11).
    MeterFeatures,
    /// What tables can do; with a body: what they shall do (12).
    TableFeatures(Vec<TableFeatures>),
    /// Ports as they are (13).
    PortDesc,
    /// Somebody's own (0xffff).
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Its type (1.3 only).
        kind: u32,
        /// What follows.
        data: Vec<u8>,
    },
}

/// What is answered. The encodings split what exceeds one message into several (`MORE`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsReply {
    /// Who made it.
    Desc(SwitchDesc),
    /// Flows.
    Flow(Vec<FlowStats>),
    /// Their sum.
    Aggregate(Aggregate),
    /// Tables.
    Table(Vec<TableStats>),
    /// Ports.
    Port(Vec<PortStats>),
    /// Queues.
    Queue(Vec<QueueStats>),
    /// Groups' counters.
    Group(Vec<GroupStats>),
    /// Groups.
    GroupDesc(Vec<GroupDesc>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Meters' counters.
    Meter(Vec<MeterStats>),
    /// Meters.
    MeterConfig(Vec<MeterConfig>),
    /// What meters can do.
    MeterFeatures(MeterFeatures),
    /// What tables can do.
    TableFeatures(Vec<TableFeatures>),
    /// Ports as they are.
    PortDesc(Vec<PortDesc>),
    /// Somebody's own.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Its type (1.3 only).
        kind: u32,
        /// What follows.
        data: Vec<u8>,
    },
}

/// Who made the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDesc {
    /// Manufacturer, 255 bytes at most.
    pub manufacturer: String,
    /// Hardware, 255.
    pub hardware: String,
    /// Software, 255.
    pub software: String,
    /// Serial number, 31.
    pub serial: String,
    /// Description of the datapath, 255.
    pub datapath: String,
}

/// A flow with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// How long it has lived: whole seconds.
    pub duration_sec: u32,
    /// And nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Its priority.
    pub priority: u16,
    /// Its idle time-out.
    pub idle_timeout: u16,
    /// Its hard time-out.
    pub hard_timeout: u16,
    /// Its flags (1.3 only).
    pub flags: FlowFlags,
    /// The owner's mark.
    pub cookie: u64,
    /// Packets it matched.
    pub packets: u64,
    /// Bytes it matched.
    pub bytes: u64,
    /// What it matches.
    pub matcher: Match,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

/// Sums over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Flows.
    pub flows: u32,
}

/// A table's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Which.
    pub table: u8,
    /// Its name (1.0 only).
    pub name: String,
    /// Entries it can hold (1.0 only).
    pub max_entries: u32,
    /// Entries it has.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
}

/// A port's counters; all ones where a counter is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as in 1.3, §7.3.5.6")]
pub struct PortStats {
    pub port: Port,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_frame_err: u64,
    pub rx_over_err: u64,
    pub rx_crc_err: u64,
    pub collisions: u64,
    pub duration_sec: u32,
    pub duration_nsec: u32,
}

/// A queue's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as in 1.3, §7.3.5.8")]
pub struct QueueStats {
    pub port: Port,
    pub queue: u32,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub duration_sec: u32,
    pub duration_nsec: u32,
}

/// A group's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as in 1.3, §7.3.5.9")]
pub struct GroupStats {
    pub group: u32,
    /// Flows and groups that lead to it.
    pub references: u32,
    pub packets: u64,
    pub bytes: u64,
    pub duration_sec: u32,
    pub duration_nsec: u32,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// A group as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// Its number.
    pub id: u32,
    /// Its kind.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// What groups can do. Four entries each: all, select, indirect, fast failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit n: kind n.
    pub kinds: u32,
    /// OFPGFC bits: weights 1, liveness 2, chaining 4, loops are checked 8.
    pub capabilities: u32,
    /// How many of each.
    pub max: [u32; 4],
    /// Bit n: action type n.
    pub actions: [u32; 4],
}

/// A meter's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as in 1.3, §7.3.5.12")]
pub struct MeterStats {
    pub meter: u32,
    pub flows: u32,
    pub packets: u64,
    pub bytes: u64,
    pub duration_sec: u32,
    pub duration_nsec: u32,
    /// Packets and bytes of each band.
    pub bands: Vec<(u64, u64)>,
}

/// A meter as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Its number.
    pub id: u32,
    /// Flags.
    pub flags: MeterFlags,
    /// Its bands.
    pub bands: Vec<Band>,
}

/// What meters can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// How many.
    pub max_meters: u32,
    /// Bit n: band type n.
    pub band_types: u32,
    /// Bits of [`MeterFlags`].
    pub capabilities: u32,
    /// Bands of one meter.
    pub max_bands: u8,
    /// Colours.
    pub max_color: u8,
}

/// What a table can do (1.3 §7.3.5.5). `*_miss`: of its table-miss entry; `None`: as for the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// Which.
    pub table: u8,
    /// Its name, 31 bytes at most.
    pub name: String,
    /// Bits of metadata it can match.
    pub metadata_match: u64,
    /// Bits of metadata it can write.
    pub metadata_write: u64,
    /// OFPTC bits.
    pub config: u32,
    /// Entries it can hold.
    pub max_entries: u32,
    /// Its properties, in the order given.
    pub properties: Vec<TableProperty>,
}

/// Whether a property is for ordinary entries or for the table-miss entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entries {
    /// Ordinary ones.
    Regular,
    /// The table-miss entry.
    Miss,
}

/// One property of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableProperty {
    /// Instructions, by type number (0, 1).
    Instructions(Entries, Vec<u16>),
    /// Tables that can follow (2, 3).
    NextTables(Entries, Vec<u8>),
    /// Write-actions, by type number (4, 5).
    WriteActions(Entries, Vec<u16>),
    /// Apply-actions, by type number (6, 7).
    ApplyActions(Entries, Vec<u16>),
    /// Fields that can be matched, and whether with a mask (8).
    Match(Vec<(Field, Maskable)>),
    /// Fields that can be wildcarded (10).
    Wildcards(Vec<Field>),
    /// Fields that write-actions can set (12, 13).
    WriteSetField(Entries, Vec<Field>),
    /// Fields that apply-actions can set (14, 15).
    ApplySetField(Entries, Vec<Field>),
    /// Somebody's own (0xfffe, 0xffff): experimenter, type, data.
    Experimenter(Entries, u32, u32, Vec<u8>),
}

/// Whether a field takes a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maskable {
    /// Exact only.
    No,
    /// Any mask.
    Yes,
}
