//! OpenFlow 1.3 (wire version 4, as 1.3.5 describes it): the model's messages in its bytes.
//!
//! Room: an encoding. Bytes and the model; no state, no switch. Called by the codec alone.
//!
//! Reading refuses whatever the specification lets be refused without a switch at hand, with the
//! error it names; writing refuses what 1.3 can't say. A file for each chapter of the
//! specification; structures of fixed layout are declared, others read and written side by side.

mod action;
mod consistency;
mod flow;
mod group;
mod instruction;
mod meter;
mod oxm;
mod packet;
mod port;
mod stats;
mod switch;
mod table_features;

use crate::codec::EncodeError;
use crate::model::{ErrorCode, Message, Version};
use crate::wire::{self, HEADER_LEN, Header, Kind, Reader, Writer};
use port::Port32;

/// OFPT numbers (§7.1.1), but those that all versions share.
mod kind {
    pub(super) const EXPERIMENTER: u8 = 4;
    pub(super) const FEATURES_REQUEST: u8 = 5;
    pub(super) const FEATURES_REPLY: u8 = 6;
    pub(super) const GET_CONFIG_REQUEST: u8 = 7;
    pub(super) const GET_CONFIG_REPLY: u8 = 8;
    pub(super) const SET_CONFIG: u8 = 9;
    pub(super) const PACKET_IN: u8 = 10;
    pub(super) const FLOW_REMOVED: u8 = 11;
    pub(super) const PORT_STATUS: u8 = 12;
    pub(super) const PACKET_OUT: u8 = 13;
    pub(super) const FLOW_MOD: u8 = 14;
    pub(super) const GROUP_MOD: u8 = 15;
    pub(super) const PORT_MOD: u8 = 16;
    pub(super) const TABLE_MOD: u8 = 17;
    pub(super) const MULTIPART_REQUEST: u8 = 18;
    pub(super) const MULTIPART_REPLY: u8 = 19;
    pub(super) const BARRIER_REQUEST: u8 = 20;
    pub(super) const BARRIER_REPLY: u8 = 21;
    pub(super) const QUEUE_CONFIG_REQUEST: u8 = 22;
    pub(super) const QUEUE_CONFIG_REPLY: u8 = 23;
    pub(super) const ROLE_REQUEST: u8 = 24;
    pub(super) const ROLE_REPLY: u8 = 25;
    pub(super) const GET_ASYNC_REQUEST: u8 = 26;
    pub(super) const GET_ASYNC_REPLY: u8 = 27;
    pub(super) const SET_ASYNC: u8 = 28;
    pub(super) const METER_MOD: u8 = 29;
}

/// Types that switches alone send.
pub const FOR_CONTROLLERS: &[u8] = &[
    kind::FEATURES_REPLY,
    kind::GET_CONFIG_REPLY,
    kind::PACKET_IN,
    kind::FLOW_REMOVED,
    kind::PORT_STATUS,
    kind::MULTIPART_REPLY,
    kind::BARRIER_REPLY,
    kind::QUEUE_CONFIG_REPLY,
    kind::ROLE_REPLY,
    kind::GET_ASYNC_REPLY,
];

/// OFPTC_DEPRECATED_MASK: the bits that a table's configuration may have.
const TABLE_CONFIG: u32 = 3;

/// The first field in the flows of a whole multipart reply that is none of OpenFlow's: its OXM class and number.
pub fn unknown_field(frame: &[u8]) -> Option<(u16, u8)> {
    let header = Header::read(frame).filter(|h| h.version == Version::V13 as u8)?;
    let is_reply = header.kind == kind::MULTIPART_REPLY;
    is_reply.then(|| stats::unknown_field(frame.get(HEADER_LEN..)?))?
}

/// Reads the body of a message of a type; HELLO, ERROR and ECHO are the codec's.
///
/// # Errors
/// What the specification asks for.
pub fn decode_body(kind: u8, body: &[u8]) -> Result<Message, ErrorCode> {
    let mut reader = Reader::new(body, ErrorCode::BadLen);
    let r = &mut reader;
    let message = match kind {
        kind::EXPERIMENTER => Message::Experimenter {
            experimenter: r.u32()?,
            kind: r.u32()?,
            data: r.take_rest().to_vec(),
        },
        kind::FEATURES_REQUEST => Message::FeaturesRequest,
        kind::FEATURES_REPLY => Message::FeaturesReply(switch::Identity::read(r)?),
        kind::GET_CONFIG_REQUEST => Message::GetConfigRequest,
        kind::GET_CONFIG_REPLY => Message::GetConfigReply(switch::read_config(r)?),
        kind::SET_CONFIG => Message::SetConfig(switch::read_set_config(r)?),
        kind::PACKET_IN => Message::PacketIn(packet::read_in(r)?),
        kind::FLOW_REMOVED => Message::FlowRemoved(flow::read_removed(r)?),
        kind::PORT_STATUS => Message::PortStatus(port::Status::read(r)?),
        kind::PACKET_OUT => Message::PacketOut(packet::read_out(r)?),
        kind::FLOW_MOD => Message::FlowMod(flow::read_mod(r)?),
        kind::GROUP_MOD => Message::GroupMod(group::read_mod(r)?),
        kind::PORT_MOD => Message::PortMod(port::read_mod(r)?),
        kind::TABLE_MOD => {
            let table = r.u8()?;
            r.skip(3)?;
            let config = r.u32()?;
            if config & !TABLE_CONFIG != 0 {
                return Err(ErrorCode::TableBadConfig);
            }
            Message::TableMod { table, config }
        }
        kind::MULTIPART_REQUEST => stats::read_request(r)?,
        kind::MULTIPART_REPLY => stats::read_reply(r)?,
        kind::BARRIER_REQUEST => Message::BarrierRequest,
        kind::BARRIER_REPLY => Message::BarrierReply,
        kind::QUEUE_CONFIG_REQUEST => {
            let port = Port32::read(r)?;
            r.skip(4)?;
            Message::QueueConfigRequest(port)
        }
        kind::QUEUE_CONFIG_REPLY => {
            let port = Port32::read(r)?;
            r.skip(4)?;
            let mut queues = Vec::new();
            while !r.is_empty() {
                queues.push(switch::read_queue(r)?);
            }
            Message::QueueConfigReply { port, queues }
        }
        kind::ROLE_REQUEST => Message::RoleRequest(switch::read_role_request(r)?),
        kind::ROLE_REPLY => Message::RoleReply(switch::RoleBody::read(r)?),
        kind::GET_ASYNC_REQUEST => Message::GetAsyncRequest,
        kind::GET_ASYNC_REPLY => Message::GetAsyncReply(switch::Async::read(r)?),
        kind::SET_ASYNC => Message::SetAsync(switch::Async::read(r)?),
        kind::METER_MOD => Message::MeterMod(meter::read_mod(r)?),
        _ => return Err(ErrorCode::BadType),
    };
    reader.end()?;
    Ok(message)
}

/// Appends a message, header included, as one or several.
///
/// # Errors
/// Where 1.3 can't say this.
pub fn encode_body(xid: u32, message: &Message, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let kind = match message {
        Message::StatsRequest { more, body } => {
            return stats::write_request(xid, body, *more, out);
        }
        Message::StatsReply { more, body } => return stats::write_reply(xid, body, *more, out),
        Message::Experimenter { .. } => kind::EXPERIMENTER,
        Message::FeaturesRequest => kind::FEATURES_REQUEST,
        Message::FeaturesReply(_) => kind::FEATURES_REPLY,
        Message::GetConfigRequest => kind::GET_CONFIG_REQUEST,
        Message::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
        Message::SetConfig(_) => kind::SET_CONFIG,
        Message::PacketIn(_) => kind::PACKET_IN,
        Message::FlowRemoved(_) => kind::FLOW_REMOVED,
        Message::PortStatus(_) => kind::PORT_STATUS,
        Message::PacketOut(_) => kind::PACKET_OUT,
        Message::FlowMod(_) => kind::FLOW_MOD,
        Message::GroupMod(_) => kind::GROUP_MOD,
        Message::PortMod(_) => kind::PORT_MOD,
        Message::TableMod { .. } => kind::TABLE_MOD,
        Message::BarrierRequest => kind::BARRIER_REQUEST,
        Message::BarrierReply => kind::BARRIER_REPLY,
        Message::QueueConfigRequest(_) => kind::QUEUE_CONFIG_REQUEST,
        Message::QueueConfigReply { .. } => kind::QUEUE_CONFIG_REPLY,
        Message::RoleRequest(_) => kind::ROLE_REQUEST,
        Message::RoleReply(_) => kind::ROLE_REPLY,
        Message::GetAsyncRequest => kind::GET_ASYNC_REQUEST,
        Message::GetAsyncReply(_) => kind::GET_ASYNC_REPLY,
        Message::SetAsync(_) => kind::SET_ASYNC,
        Message::MeterMod(_) => kind::METER_MOD,
        Message::Hello { .. }
        | Message::Error(_)
        | Message::EchoRequest(_)
        | Message::EchoReply(_) => {
            return Err(EncodeError::BadValue { what: "a message of all versions" });
        }
    };
    wire::message(out, Version::V13 as u8, kind, xid, |w| write_body(message, w))
}

fn write_body(message: &Message, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    match message {
        Message::Experimenter { experimenter, kind, data } => {
            w.u32(*experimenter);
            w.u32(*kind);
            w.bytes(data);
        }
        Message::FeaturesReply(features) => switch::Identity::write(features, w),
        Message::GetConfigReply(config) | Message::SetConfig(config) => {
            switch::write_config(config, w);
        }
        Message::PacketIn(m) => packet::write_in(m, w)?,
        Message::FlowRemoved(m) => flow::write_removed(m, w)?,
        Message::PortStatus(m) => port::Status::write(m, w),
        Message::PacketOut(m) => packet::write_out(m, w)?,
        Message::FlowMod(m) => flow::write_mod(m, w)?,
        Message::GroupMod(m) => group::write_mod(m, w)?,
        Message::PortMod(m) => port::write_mod(m, w),
        Message::TableMod { table, config } => {
            w.u8(*table);
            w.zeros(3);
            w.u32(*config);
        }
        Message::QueueConfigRequest(port) => {
            w.u32(port.0);
            w.zeros(4);
        }
        Message::QueueConfigReply { port, queues } => {
            w.u32(port.0);
            w.zeros(4);
            queues.iter().try_for_each(|queue| switch::write_queue(queue, w))?;
        }
        Message::RoleRequest(role) | Message::RoleReply(role) => switch::RoleBody::write(role, w),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => {
            switch::Async::write(config, w);
        }
        Message::MeterMod(m) => meter::write_mod(m, w),
        // Header alone, or written elsewhere.
        _ => {}
    }
    Ok(())
}

/// A structure's length that does not fit its field.
const fn too_long(len: usize) -> EncodeError {
    EncodeError::TooLong { len }
}
