//! Every message of 1.0 and 1.3.

use super::*;

/// A message with its transaction id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msg {
    /// Chosen by who asks, repeated by who answers.
    pub xid: u32,
    /// The message.
    pub body: Message,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Versions offered: bit n is wire version n; empty: the header's version and all below.
    Hello {
        /// The header's version, the highest offered.
        version: u8,
        /// Words of the bitmap.
        bitmap: Vec<u32>,
    },
    /// Something is wrong.
    Error(ErrorMsg),
    /// Are you there?
    EchoRequest(Vec<u8>),
    /// Yes, with the same bytes.
    EchoReply(Vec<u8>),
    /// Somebody's own (1.0: vendor).
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Its type (1.3 only).
        kind: u32,
        /// What follows.
        data: Vec<u8>,
    },
    /// Who are you?
    FeaturesRequest,
    /// That.
    FeaturesReply(Features),
    /// How are you set?
    GetConfigRequest,
    /// So.
    GetConfigReply(SwitchConfig),
    /// Be set so.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow is gone.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Change flows.
    FlowMod(FlowMod),
    /// Change a group.
    GroupMod(GroupMod),
    /// Change a port.
    PortMod(PortMod),
    /// Configure a table (1.3; deprecated there).
    TableMod {
        /// Which table.
        table: u8,
        /// OFPTC bits.
        config: u32,
    },
    /// Change a meter.
    MeterMod(MeterMod),
    /// Statistics, please. `more`: this is not the last part (1.3 only).
    StatsRequest {
        /// Whether another part follows.
        more: Part,
        /// What is asked.
        body: StatsRequest,
    },
    /// Statistics. `more`: this is not the last part.
    StatsReply {
        /// Whether another part follows.
        more: Part,
        /// The answer.
        body: StatsReply,
    },
    /// Tell me when all before is done.
    BarrierRequest,
    /// It is.
    BarrierReply,
    /// How are a port's queues set?
    QueueConfigRequest(Port),
    /// So.
    QueueConfigReply {
        /// The port asked for.
        port: Port,
        /// Its queues.
        queues: Vec<QueueDesc>,
    },
    /// A role is wanted (1.0: Nicira's).
    RoleRequest(RoleMsg),
    /// It is given.
    RoleReply(RoleMsg),
    /// Which asynchronous messages do I get?
    GetAsyncRequest,
    /// Those.
    GetAsyncReply(AsyncConfig),
    /// Send me these.
    SetAsync(AsyncConfig),
}

/// Whether a request or reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The last, or only, part.
    Last,
    /// More follow with the same xid.
    More,
}
