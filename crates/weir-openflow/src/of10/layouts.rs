//! 1.0's structures, field by field in the wire's order (1.0.1 §5.2 to §5.4).
//!
//! Room: declarations; each is read and written by `mod`, `stats` or another structure.

use super::actions::{Actions, Instructions, read_actions};
use super::matching::{InPortOnly, OfpMatch};
use super::numbers::*;
use crate::model::{
    Aggregate, ErrorCode, Features, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemoved,
    FlowStats, GROUP_ANY, PacketIn, PacketOut, PortDesc, PortMod, PortStats, PortStatus,
    QueueStats, SwitchConfig, SwitchDesc, TABLE_ALL, TableStats,
};
use crate::wire::{Kind, Reader, Text, Writer, layout};

layout! {
    /// struct ofp_phy_port.
    PhyPort: PortDesc {
        no: Port16;
        mac: [u8; 6];
        name: Text<16>;
        config: ConfigBits;
        state: StateBits;
        current: FeatureBits;
        advertised: FeatureBits;
        supported: FeatureBits;
        peer: FeatureBits;
        + current_kbps = 0;
        + max_kbps = 0;
    }
    /// struct ofp_switch_features.
    FeaturesReply: Features {
        datapath_id: u64;
        buffers: u32;
        tables: u8, pad 3;
        capabilities: CapabilityBits;
        actions: u32;
        ports: PhyPorts;
        + auxiliary_id = 0;
    }
    /// struct ofp_switch_config.
    SwitchConfiguration: SwitchConfig {
        fragments: FragmentsNumber;
        miss_send_len: u16;
    }
    /// struct ofp_port_status.
    PortChange: PortStatus {
        reason: PortReasonNumber, pad 7;
        desc: PhyPort;
    }
    /// struct ofp_port_mod.
    PortModification: PortMod {
        port: Port16;
        mac: [u8; 6];
        config: ConfigBits;
        mask: ConfigBits;
        advertise: FeatureBits, pad 4;
    }
    /// struct ofp_packet_in.
    PacketToController: PacketIn {
        buffer_id: u32;
        total_len: u16;
        matcher: InPortOnly;
        reason: PacketInReasonNumber, pad 1;
        data: Rest;
        + table = 0;
        + cookie = u64::MAX;
    }
    /// struct ofp_flow_mod.
    FlowModification: FlowMod {
        matcher: OfpMatch;
        cookie: u64;
        command: Command;
        idle_timeout: u16;
        hard_timeout: u16;
        priority: u16;
        buffer_id: u32;
        out_port: Port16;
        flags: FlowFlagBits;
        instructions: Instructions;
        + cookie_mask = 0;
        + table = match command {
            FlowCommand::Delete | FlowCommand::DeleteStrict => TABLE_ALL,
            FlowCommand::Add | FlowCommand::Modify | FlowCommand::ModifyStrict => 0,
        };
        + out_group = GROUP_ANY;
    }
    /// struct ofp_flow_removed.
    FlowGone: FlowRemoved {
        matcher: OfpMatch;
        cookie: u64;
        priority: u16;
        reason: RemovedReasonNumber, pad 1;
        duration_sec: u32;
        duration_nsec: u32;
        idle_timeout: u16, pad 2;
        packets: u64;
        bytes: u64;
        + table = 0;
        + hard_timeout = 0;
    }
    /// struct ofp_desc_stats.
    Description: SwitchDesc {
        manufacturer: Text<256>;
        hardware: Text<256>;
        software: Text<256>;
        serial: Text<32>;
        datapath: Text<256>;
    }
    /// struct ofp_flow_stats_request and ofp_aggregate_stats_request.
    Filter: FlowFilter {
        matcher: OfpMatch;
        table: u8, pad 1;
        out_port: Port16;
        + out_group = GROUP_ANY;
        + cookie = 0;
        + cookie_mask = 0;
    }
    /// struct ofp_flow_stats, but for its length.
    FlowEntry: FlowStats {
        table: u8, pad 1;
        matcher: OfpMatch;
        duration_sec: u32;
        duration_nsec: u32;
        priority: u16;
        idle_timeout: u16;
        hard_timeout: u16, pad 6;
        cookie: u64;
        packets: u64;
        bytes: u64;
        instructions: Instructions;
        + flags = FlowFlags::default();
    }
    /// struct ofp_aggregate_stats_reply.
    Sum: Aggregate {
        packets: u64;
        bytes: u64;
        flows: u32, pad 4;
    }
    /// struct ofp_table_stats.
    TableEntry: TableStats {
        table: u8, pad 3;
        name: Text<32>;
        max_entries: BehindWildcards;
        active: u32;
        lookups: u64;
        matched: u64;
    }
    /// struct ofp_port_stats.
    PortEntry: PortStats {
        port: Port16, pad 6;
        rx_packets: u64;
        tx_packets: u64;
        rx_bytes: u64;
        tx_bytes: u64;
        rx_dropped: u64;
        tx_dropped: u64;
        rx_errors: u64;
        tx_errors: u64;
        rx_frame_err: u64;
        rx_over_err: u64;
        rx_crc_err: u64;
        collisions: u64;
        + duration_sec = 0;
        + duration_nsec = 0;
    }
    /// struct ofp_queue_stats.
    QueueEntry: QueueStats {
        port: Port16, pad 2;
        queue: u32;
        tx_bytes: u64;
        tx_packets: u64;
        tx_errors: u64;
        + duration_sec = 0;
        + duration_nsec = 0;
    }
}

/// Ports until the end.
pub(crate) struct PhyPorts;

impl Kind for PhyPorts {
    type Value = Vec<PortDesc>;
    fn read(r: &mut Reader<'_>) -> Result<Vec<PortDesc>, ErrorCode> {
        PhyPort::read_all(r)
    }
    fn write(ports: &Vec<PortDesc>, w: &mut Writer<'_>) {
        for port in ports {
            PhyPort::write(port, w);
        }
    }
}

/// Bytes until the end.
pub(crate) struct Rest;

impl Kind for Rest {
    type Value = Vec<u8>;
    fn read(r: &mut Reader<'_>) -> Result<Vec<u8>, ErrorCode> {
        Ok(r.take_rest().to_vec())
    }
    fn write(bytes: &Vec<u8>, w: &mut Writer<'_>) {
        w.bytes(bytes);
    }
}

/// A number behind the wildcards that a table supports: all, which is what every table here does.
pub(crate) struct BehindWildcards;

/// OFPFW_ALL.
const WILDCARDS: u32 = (1 << 22) - 1;

impl Kind for BehindWildcards {
    type Value = u32;
    fn read(r: &mut Reader<'_>) -> Result<u32, ErrorCode> {
        r.skip(4)?;
        r.u32()
    }
    fn write(value: &u32, w: &mut Writer<'_>) {
        w.u32(WILDCARDS);
        w.u32(*value);
    }
}

/// struct ofp_packet_out: the length of the actions stands before them.
pub(crate) struct PacketFromController;

impl Kind for PacketFromController {
    type Value = PacketOut;
    fn read(r: &mut Reader<'_>) -> Result<PacketOut, ErrorCode> {
        let buffer_id = r.u32()?;
        let in_port = Port16::read(r)?;
        let length = usize::from(r.u16()?);
        let actions = read_actions(&mut r.within(length, ErrorCode::ActionBadLen)?)?;
        Ok(PacketOut { buffer_id, in_port, actions, data: r.take_rest().to_vec() })
    }
    fn write(out: &PacketOut, w: &mut Writer<'_>) {
        w.u32(out.buffer_id);
        Port16::write(&out.in_port, w);
        let at = w.at();
        w.u16(0);
        Actions::write(&out.actions, w);
        if let Err(len) = w.patch_len(at, at + 2) {
            w.fail(crate::codec::EncodeError::TooLong { len });
        }
        w.bytes(&out.data);
    }
}
