//! What OpenFlow means, whatever its version: the one semantic model.
//!
//! Room: plain data, made and read by the encodings (`of10`, `of13`), by agents and by measurements.
//! Numbers are those of 1.3 (ports of 32 bits, table 0 in 1.0); the encodings translate. What only
//! one version has is marked; the other version's encoding refuses it.

mod action;
mod error;
mod field;
mod flow;
mod group;
mod message;
mod meter;
mod port;
mod stats;
mod switch;

pub use action::{Action, Instruction};
pub use error::{ErrorCode, ErrorMsg};
pub use field::{Field, FieldMatch, Match, Prerequisite, VLAN_PRESENT};
pub use flow::{FlowCommand, FlowFlags, FlowMod, FlowRemoved, RemovedReason};
pub use group::{Bucket, GroupCommand, GroupKind, GroupMod};
pub use message::{Message, Msg, Part};
pub use meter::{Band, BandKind, MeterCommand, MeterFlags, MeterMod};
pub use port::{
    Port, PortConfig, PortDesc, PortFeatures, PortMod, PortReason, PortState, PortStatus,
};
pub use stats::*;
pub use switch::*;

/// A version of the protocol, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0 (wire 0x01).
    V10 = 1,
    /// OpenFlow 1.3 (wire 0x04).
    V13 = 4,
}

/// No buffer: the whole packet is in the message (OFP_NO_BUFFER).
pub const NO_BUFFER: u32 = 0xffff_ffff;
/// Controller's max_len: do not buffer, send all (OFPCML_NO_BUFFER).
pub const NO_MAX_LEN: u16 = 0xffff;
/// Every table (OFPTT_ALL).
pub const TABLE_ALL: u8 = 0xff;
/// The last table (OFPTT_MAX).
pub const TABLE_MAX: u8 = 0xfe;
/// Any group (OFPG_ANY).
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// All groups (OFPG_ALL).
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// The highest group number (OFPG_MAX).
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// All meters (OFPM_ALL).
pub const METER_ALL: u32 = 0xffff_ffff;
/// The controller's meter (OFPM_CONTROLLER).
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// The slow path's meter (OFPM_SLOWPATH).
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// The highest meter number (OFPM_MAX).
pub const METER_MAX: u32 = 0xffff_0000;
/// All queues (OFPQ_ALL).
pub const QUEUE_ALL: u32 = 0xffff_ffff;
