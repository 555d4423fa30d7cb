//! The switch as a whole: features, configuration, roles, packets to and from controllers.

use super::port::bits;
use super::{Action, Match, Port, PortDesc};

bits! {
    /// Capabilities, as 1.3 numbers the bits; 1.0's STP and ARP_MATCH_IP in bits of their own.
    Capabilities: u32 {
        /// Flow statistics.
        FLOW_STATS = 1 << 0;
        /// Table statistics.
        TABLE_STATS = 1 << 1;
        /// Port statistics.
        PORT_STATS = 1 << 2;
        /// 1.3 only: group statistics.
        GROUP_STATS = 1 << 3;
        /// Can reassemble IP fragments.
        IP_REASM = 1 << 5;
        /// Queue statistics.
        QUEUE_STATS = 1 << 6;
        /// 1.3 only: blocks looping ports by a protocol outside OpenFlow.
        PORT_BLOCKED = 1 << 8;
        /// 1.0 only: 802.1D spanning tree.
        STP = 1 << 16;
        /// 1.0 only: matches IP addresses in ARP packets.
        ARP_MATCH_IP = 1 << 17;
    }
}

/// OFPT_FEATURES_REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The datapath's id: its MAC address in the lower 48 bits.
    pub datapath_id: u64,
    /// Packets buffered at once.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u8,
    /// 1.3 only: 0 for the main connection.
    pub auxiliary_id: u8,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// 1.0 only: bitmap of supported actions.
    pub actions: u32,
    /// 1.0 only (1.3 has a multipart for it): the ports.
    pub ports: Vec<PortDesc>,
}

/// What happens to IP fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragments {
    /// No special treatment (0).
    #[default]
    Normal,
    /// Dropped (1).
    Drop,
    /// Reassembled (2).
    Reassemble,
    /// A number without a meaning.
    Unknown(u16),
}

/// OFPT_SET_CONFIG, OFPT_GET_CONFIG_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// IP fragments.
    pub fragments: Fragments,
    /// Bytes of a packet that a packet-in for a table miss carries (1.0), or its default (1.3).
    pub miss_send_len: u16,
}

/// A controller's role; the discriminant is the wire's in 1.3 (Nicira's for 1.0 is one less).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Role {
    /// Leave it as it is.
    NoChange = 0,
    /// Full access.
    Equal = 1,
    /// Full access, at most one.
    Master = 2,
    /// Read only.
    Slave = 3,
}

/// OFPT_ROLE_REQUEST and its reply; in 1.0 Nicira's NXT_ROLE_REQUEST, which has no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMsg {
    /// The role.
    pub role: Role,
    /// The election's number.
    pub generation: u64,
}

/// Which asynchronous messages a controller wants (1.3 §7.3.10): bit n is reason n; first for
/// master and equal, second for slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Packet-ins by [`PacketInReason`].
    pub packet_in: [u32; 2],
    /// Port status by [`PortReason`](super::PortReason).
    pub port_status: [u32; 2],
    /// Removed flows by [`RemovedReason`](super::RemovedReason).
    pub flow_removed: [u32; 2],
}

/// Why a packet-in was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketInReason {
    /// No flow matched, or the table-miss flow did (0).
    NoMatch,
    /// An action said so (1).
    Action,
    /// 1.3 only: an invalid TTL (2).
    InvalidTtl,
}

/// OFPT_PACKET_IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Where it is buffered; [`NO_BUFFER`](super::NO_BUFFER).
    pub buffer_id: u32,
    /// Length of the whole frame.
    pub total_len: u16,
    /// Why.
    pub reason: PacketInReason,
    /// 1.3 only: the table that was looked up.
    pub table: u8,
    /// 1.3 only: the flow's cookie, all ones where there is none.
    pub cookie: u64,
    /// 1.3: in_port, in_phy_port, metadata, tunnel_id, those that are not zero (in_port always).
    /// 1.0: in_port alone.
    pub matcher: Match,
    /// The frame's first bytes.
    pub data: Vec<u8>,
}

/// OFPT_PACKET_OUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Which buffered packet; [`NO_BUFFER`](super::NO_BUFFER): the one here.
    pub buffer_id: u32,
    /// The port it passes for having come by; `ANY` in 1.0, `CONTROLLER` in 1.3 where there is none.
    pub in_port: Port,
    /// What to do.
    pub actions: Vec<Action>,
    /// The frame.
    pub data: Vec<u8>,
}

/// A property of a queue: rate in tenths of a percent of the port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueProperty {
    /// Guaranteed (1).
    MinRate(u16),
    /// Ceiling (2); 1.3 only.
    MaxRate(u16),
}

/// A queue as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDesc {
    /// Its number.
    pub id: u32,
    /// Its port (1.3 only; in 1.0 the reply's).
    pub port: Port,
    /// Its rates.
    pub properties: Vec<QueueProperty>,
}
