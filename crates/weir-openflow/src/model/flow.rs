//! Flow modifications and removals (1.0 §5.3.3; 1.3 §7.3.4.1, §7.4.2).

use super::port::bits;
use super::{GROUP_ANY, Instruction, Match, NO_BUFFER, Port, TABLE_ALL, Version};

/// What to do to the flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowCommand {
    /// Add (0).
    Add,
    /// Change all that match (1).
    Modify,
    /// Change the one with this match and priority (2).
    ModifyStrict,
    /// Delete all that match (3).
    Delete,
    /// Delete the one with this match and priority (4).
    DeleteStrict,
}

bits! {
    /// Flags of a flow, as 1.3 numbers them; 1.0's emergency flag in a bit of its own.
    FlowFlags: u32 {
        /// Tell when the flow is gone.
        SEND_FLOW_REM = 1 << 0;
        /// Refuse what overlaps at the same priority.
        CHECK_OVERLAP = 1 << 1;
        /// 1.3 only: start the counters again.
        RESET_COUNTS = 1 << 2;
        /// 1.3 only: do not count packets.
        NO_PKT_COUNTS = 1 << 3;
        /// 1.3 only: do not count bytes.
        NO_BYT_COUNTS = 1 << 4;
        /// 1.0 only: into the emergency cache.
        EMERG = 1 << 16;
    }
}

/// OFPT_FLOW_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The owner's mark.
    pub cookie: u64,
    /// For modify and delete: which bits of the cookie must agree; 0: any (1.0: always).
    pub cookie_mask: u64,
    /// Which table (1.0: 0); [`TABLE_ALL`](super::TABLE_ALL) for deletes.
    pub table: u8,
    /// What to do.
    pub command: FlowCommand,
    /// Seconds without a packet after which the flow goes; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which the flow goes; 0: never.
    pub hard_timeout: u16,
    /// Larger wins.
    pub priority: u16,
    /// A buffered packet to be treated by it.
    pub buffer_id: u32,
    /// For deletes: only flows that output there.
    pub out_port: Port,
    /// For deletes: only flows that use this group (1.0: any).
    pub out_group: u32,
    /// Flags.
    pub flags: FlowFlags,
    /// What it matches.
    pub matcher: Match,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// One of table 0 that matches everything, does nothing and asks for nothing else.
    pub fn new(command: FlowCommand) -> Self {
        Self {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0,
            buffer_id: NO_BUFFER,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags(0),
            matcher: Match::default(),
            instructions: Vec::new(),
        }
    }

    /// One that deletes every flow; 1.0 has one table.
    pub fn delete_all(version: Version) -> Self {
        let table = if version == Version::V10 { 0 } else { TABLE_ALL };
        Self { table, ..Self::new(FlowCommand::Delete) }
    }
}

/// Why a flow is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedReason {
    /// No packet for its idle time-out (0).
    IdleTimeout,
    /// Its hard time-out (1).
    HardTimeout,
    /// Deleted by a flow_mod (2).
    Delete,
    /// 1.3 only: its group was deleted (3).
    GroupDelete,
}

/// OFPT_FLOW_REMOVED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The owner's mark.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why it is gone.
    pub reason: RemovedReason,
    /// Its table.
    pub table: u8,
    /// How long it lived: whole seconds.
    pub duration_sec: u32,
    /// And nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Its idle time-out.
    pub idle_timeout: u16,
    /// Its hard time-out (1.3 only).
    pub hard_timeout: u16,
    /// Packets it matched.
    pub packets: u64,
    /// Bytes it matched.
    pub bytes: u64,
    /// What it matched.
    pub matcher: Match,
}
