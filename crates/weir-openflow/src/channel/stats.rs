//! What passed through a channel, counted.
//!
//! Room: plain numbers of the channel that counts; read by its owner between two events.

use super::Side;
use crate::model::Message;

/// A kind of message, whatever it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
#[allow(missing_docs, reason = "each is named as the message of the model")]
pub enum Kind {
    Hello,
    Error,
    EchoRequest,
    EchoReply,
    Experimenter,
    FeaturesRequest,
    FeaturesReply,
    GetConfigRequest,
    GetConfigReply,
    SetConfig,
    PacketIn,
    FlowRemoved,
    PortStatus,
    PacketOut,
    FlowMod,
    GroupMod,
    PortMod,
    TableMod,
    MeterMod,
    StatsRequest,
    StatsReply,
    BarrierRequest,
    BarrierReply,
    QueueConfigRequest,
    QueueConfigReply,
    RoleRequest,
    RoleReply,
    GetAsyncRequest,
    GetAsyncReply,
    SetAsync,
}

/// What a channel does with a kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Either side sends it.
    Both,
    /// Controllers alone do.
    Controller,
    /// Switches alone do, as an answer.
    Switch,
    /// Switches alone do, unasked.
    SwitchUnasked,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 30;
    /// Each of them.
    pub const ALL: [Kind; Kind::COUNT] = [
        Kind::Hello,
        Kind::Error,
        Kind::EchoRequest,
        Kind::EchoReply,
        Kind::Experimenter,
        Kind::FeaturesRequest,
        Kind::FeaturesReply,
        Kind::GetConfigRequest,
        Kind::GetConfigReply,
        Kind::SetConfig,
        Kind::PacketIn,
        Kind::FlowRemoved,
        Kind::PortStatus,
        Kind::PacketOut,
        Kind::FlowMod,
        Kind::GroupMod,
        Kind::PortMod,
        Kind::TableMod,
        Kind::MeterMod,
        Kind::StatsRequest,
        Kind::StatsReply,
        Kind::BarrierRequest,
        Kind::BarrierReply,
        Kind::QueueConfigRequest,
        Kind::QueueConfigReply,
        Kind::RoleRequest,
        Kind::RoleReply,
        Kind::GetAsyncRequest,
        Kind::GetAsyncReply,
        Kind::SetAsync,
    ];

    /// Of a message.
    pub const fn of(message: &Message) -> Self {
        match message {
            Message::Hello { .. } => Kind::Hello,
            Message::Error(_) => Kind::Error,
            Message::EchoRequest(_) => Kind::EchoRequest,
            Message::EchoReply(_) => Kind::EchoReply,
            Message::Experimenter { .. } => Kind::Experimenter,
            Message::FeaturesRequest => Kind::FeaturesRequest,
            Message::FeaturesReply(_) => Kind::FeaturesReply,
            Message::GetConfigRequest => Kind::GetConfigRequest,
            Message::GetConfigReply(_) => Kind::GetConfigReply,
            Message::SetConfig(_) => Kind::SetConfig,
            Message::PacketIn(_) => Kind::PacketIn,
            Message::FlowRemoved(_) => Kind::FlowRemoved,
            Message::PortStatus(_) => Kind::PortStatus,
            Message::PacketOut(_) => Kind::PacketOut,
            Message::FlowMod(_) => Kind::FlowMod,
            Message::GroupMod(_) => Kind::GroupMod,
            Message::PortMod(_) => Kind::PortMod,
            Message::TableMod { .. } => Kind::TableMod,
            Message::MeterMod(_) => Kind::MeterMod,
            Message::StatsRequest { .. } => Kind::StatsRequest,
            Message::StatsReply { .. } => Kind::StatsReply,
            Message::BarrierRequest => Kind::BarrierRequest,
            Message::BarrierReply => Kind::BarrierReply,
            Message::QueueConfigRequest(_) => Kind::QueueConfigRequest,
            Message::QueueConfigReply { .. } => Kind::QueueConfigReply,
            Message::RoleRequest(_) => Kind::RoleRequest,
            Message::RoleReply(_) => Kind::RoleReply,
            Message::GetAsyncRequest => Kind::GetAsyncRequest,
            Message::GetAsyncReply(_) => Kind::GetAsyncReply,
            Message::SetAsync(_) => Kind::SetAsync,
        }
    }

    /// Its name, for people and for labels.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Error => "error",
            Kind::EchoRequest => "echo_request",
            Kind::EchoReply => "echo_reply",
            Kind::Experimenter => "experimenter",
            Kind::FeaturesRequest => "features_request",
            Kind::FeaturesReply => "features_reply",
            Kind::GetConfigRequest => "get_config_request",
            Kind::GetConfigReply => "get_config_reply",
            Kind::SetConfig => "set_config",
            Kind::PacketIn => "packet_in",
            Kind::FlowRemoved => "flow_removed",
            Kind::PortStatus => "port_status",
            Kind::PacketOut => "packet_out",
            Kind::FlowMod => "flow_mod",
            Kind::GroupMod => "group_mod",
            Kind::PortMod => "port_mod",
            Kind::TableMod => "table_mod",
            Kind::MeterMod => "meter_mod",
            Kind::StatsRequest => "stats_request",
            Kind::StatsReply => "stats_reply",
            Kind::BarrierRequest => "barrier_request",
            Kind::BarrierReply => "barrier_reply",
            Kind::QueueConfigRequest => "queue_config_request",
            Kind::QueueConfigReply => "queue_config_reply",
            Kind::RoleRequest => "role_request",
            Kind::RoleReply => "role_reply",
            Kind::GetAsyncRequest => "get_async_request",
            Kind::GetAsyncReply => "get_async_reply",
            Kind::SetAsync => "set_async",
        }
    }

    /// Who sends it.
    pub(super) const fn from(self) -> From {
        use Kind::*;
        match self {
            Hello | Error | EchoRequest | EchoReply | Experimenter => From::Both,
            PacketIn | FlowRemoved | PortStatus => From::SwitchUnasked,
            FeaturesReply | GetConfigReply | StatsReply | BarrierReply | QueueConfigReply
            | RoleReply | GetAsyncReply => From::Switch,
            FeaturesRequest | GetConfigRequest | SetConfig | PacketOut | FlowMod | GroupMod
            | PortMod | TableMod | MeterMod | StatsRequest | BarrierRequest
            | QueueConfigRequest | RoleRequest | GetAsyncRequest | SetAsync => From::Controller,
        }
    }

    /// Whether the peer of `side` may send it.
    pub(super) const fn may_reach(self, side: Side) -> bool {
        match (self.from(), side) {
            (From::Both, _)
            | (From::Controller, Side::Switch)
            | (From::Switch | From::SwitchUnasked, Side::Controller) => true,
            (From::Controller, Side::Controller)
            | (From::Switch | From::SwitchUnasked, Side::Switch) => false,
        }
    }
}

/// Counters of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Messages understood, by [`Kind`].
    pub received: [u64; Kind::COUNT],
    /// Messages put into the output, by [`Kind`]; one that the encoding splits counts once.
    pub sent: [u64; Kind::COUNT],
    /// Asynchronous messages for which the output had no room, by [`Kind`].
    pub dropped: [u64; Kind::COUNT],
    /// Bytes taken in.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Messages answered with an error by the channel: not understood, of another version, or from
    /// the wrong side.
    pub refused: u64,
    /// Messages that were passed over without an answer: late hellos, errors that could not be read; on a
    /// controller's side all that could not be.
    pub ignored: u64,
    /// How often input had to wait for a rate limit.
    pub throttled: u64,
    /// How often input had to wait for room in the output.
    pub pushed_back: u64,
    /// Echo requests sent for a sign of life.
    pub probes: u64,
}
