//! OpenFlow 1.0 (wire version 1, as 1.0.1 describes it): the model's messages in its bytes.
//!
//! Room: an encoding. Bytes and the model; no state, no switch. Called by the codec alone.
//!
//! 1.0's shape in the model: one table (0; deletes say "all tables", since its one table is all there
//! is), no instructions but `Apply`, ports of 16 bits, matches normalised (see `matching`). What
//! only describes and has no place here (durations of ports, rates in kb/s, highest rates of queues)
//! is left out when writing; what would change a meaning is refused. Unknown bits are passed over.

mod actions;
mod layouts;
mod matching;
mod nicira;
mod numbers;
mod queues;
mod stats;

use crate::codec::EncodeError;
use crate::model::{ErrorCode, Match, Message, Port, Version};
use crate::wire::{self, Kind, Reader, Writer};
use layouts as l;

/// OFPT_*, §5.1; HELLO, ERROR and ECHO are the codec's.
mod kind {
    pub(super) const VENDOR: u8 = 4;
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
    pub(super) const PORT_MOD: u8 = 15;
    pub(super) const STATS_REQUEST: u8 = 16;
    pub(super) const STATS_REPLY: u8 = 17;
    pub(super) const BARRIER_REQUEST: u8 = 18;
    pub(super) const BARRIER_REPLY: u8 = 19;
    pub(super) const QUEUE_CONFIG_REQUEST: u8 = 20;
    pub(super) const QUEUE_CONFIG_REPLY: u8 = 21;
}

/// Whether 1.0 has words for a match: it knows twelve fields (§5.2.3), addresses by prefix alone, and no other masks.
pub fn has_words_for(matcher: &Match) -> bool {
    matching::has_words_for(matcher)
}

/// Whether 1.0 has a number for a port: up to OFPP_MAX, 0xff00, or a reserved one (§5.2.1).
pub fn has_number_for(port: Port) -> bool {
    numbers::narrow(port).is_some()
}

/// Types that switches alone send.
pub const FOR_CONTROLLERS: &[u8] = &[
    kind::FEATURES_REPLY,
    kind::GET_CONFIG_REPLY,
    kind::PACKET_IN,
    kind::FLOW_REMOVED,
    kind::PORT_STATUS,
    kind::STATS_REPLY,
    kind::BARRIER_REPLY,
    kind::QUEUE_CONFIG_REPLY,
];

/// Reads the body of a message of a type; HELLO, ERROR and ECHO are the codec's.
///
/// # Errors
/// What the specification asks for.
pub fn decode_body(kind: u8, body: &[u8]) -> Result<Message, ErrorCode> {
    let r = &mut Reader::new(body, ErrorCode::BadLen);
    let message = match kind {
        kind::VENDOR => nicira::read(r)?,
        kind::FEATURES_REQUEST => Message::FeaturesRequest,
        kind::FEATURES_REPLY => Message::FeaturesReply(l::FeaturesReply::read(r)?),
        kind::GET_CONFIG_REQUEST => Message::GetConfigRequest,
        kind::GET_CONFIG_REPLY => Message::GetConfigReply(l::SwitchConfiguration::read(r)?),
        kind::SET_CONFIG => Message::SetConfig(l::SwitchConfiguration::read(r)?),
        kind::PACKET_IN => Message::PacketIn(l::PacketToController::read(r)?),
        kind::FLOW_REMOVED => Message::FlowRemoved(l::FlowGone::read(r)?),
        kind::PORT_STATUS => Message::PortStatus(l::PortChange::read(r)?),
        kind::PACKET_OUT => Message::PacketOut(l::PacketFromController::read(r)?),
        kind::FLOW_MOD => Message::FlowMod(l::FlowModification::read(r)?),
        kind::PORT_MOD => Message::PortMod(l::PortModification::read(r)?),
        kind::STATS_REQUEST => stats::read_request(r)?,
        kind::STATS_REPLY => stats::read_reply(r)?,
        kind::BARRIER_REQUEST => Message::BarrierRequest,
        kind::BARRIER_REPLY => Message::BarrierReply,
        kind::QUEUE_CONFIG_REQUEST => queues::read_request(r)?,
        kind::QUEUE_CONFIG_REPLY => queues::read_reply(r)?,
        _ => return Err(ErrorCode::BadType),
    };
    // What is longer than its layout says is as wrong as what is shorter.
    r.end()?;
    Ok(message)
}

/// Appends a message, header included, as one or several.
///
/// # Errors
/// Where 1.0 can't say this.
pub fn encode_body(xid: u32, message: &Message, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let m = &mut To { out, xid };
    match message {
        Message::Experimenter { experimenter, kind: 0, data } => m.put(kind::VENDOR, |w| {
            w.u32(*experimenter);
            w.bytes(data);
        }),
        Message::RoleRequest(role) => m.put(kind::VENDOR, |w| nicira::write_request(role, w)),
        Message::RoleReply(role) => m.put(kind::VENDOR, |w| nicira::write_reply(role, w)),
        Message::FeaturesRequest => m.put(kind::FEATURES_REQUEST, |_| ()),
        Message::FeaturesReply(v) => m.value::<l::FeaturesReply>(kind::FEATURES_REPLY, v),
        Message::GetConfigRequest => m.put(kind::GET_CONFIG_REQUEST, |_| ()),
        Message::GetConfigReply(v) => m.value::<l::SwitchConfiguration>(kind::GET_CONFIG_REPLY, v),
        Message::SetConfig(v) => m.value::<l::SwitchConfiguration>(kind::SET_CONFIG, v),
        Message::PacketIn(v) => m.value::<l::PacketToController>(kind::PACKET_IN, v),
        Message::FlowRemoved(v) => m.value::<l::FlowGone>(kind::FLOW_REMOVED, v),
        Message::PortStatus(v) => m.value::<l::PortChange>(kind::PORT_STATUS, v),
        Message::PacketOut(v) => m.value::<l::PacketFromController>(kind::PACKET_OUT, v),
        Message::FlowMod(v) => m.value::<l::FlowModification>(kind::FLOW_MOD, v),
        Message::PortMod(v) => m.value::<l::PortModification>(kind::PORT_MOD, v),
        Message::StatsRequest { more, body } => {
            m.put(kind::STATS_REQUEST, |w| stats::write_request(*more, body, w))
        }
        Message::StatsReply { more, body } => stats::write_reply(xid, *more, body, m.out),
        Message::BarrierRequest => m.put(kind::BARRIER_REQUEST, |_| ()),
        Message::BarrierReply => m.put(kind::BARRIER_REPLY, |_| ()),
        Message::QueueConfigRequest(port) => {
            m.put(kind::QUEUE_CONFIG_REQUEST, |w| queues::write_request(port, w))
        }
        Message::QueueConfigReply { port, queues } => {
            m.put(kind::QUEUE_CONFIG_REPLY, |w| queues::write_reply(port, queues, w))
        }
        _ => Err(lacks("such message")),
    }
}

/// What 1.0 has not.
const fn lacks(what: &'static str) -> EncodeError {
    EncodeError::NotInVersion { version: Version::V10, what }
}

/// Where messages go, and under which xid.
struct To<'a> {
    out: &'a mut Vec<u8>,
    xid: u32,
}

impl To<'_> {
    fn put(&mut self, kind: u8, body: impl FnOnce(&mut Writer<'_>)) -> Result<(), EncodeError> {
        wire::message(self.out, Version::V10 as u8, kind, self.xid, |w| {
            body(w);
            w.check()
        })
    }

    fn value<K: Kind>(&mut self, kind: u8, value: &K::Value) -> Result<(), EncodeError> {
        self.put(kind, |w| K::write(value, w))
    }
}
