//! How a switch is set by whoever makes it. Plain data.

use weir_dataplane::{Placement, Vid};
use weir_openflow::model::{PortDesc, QueueDesc, SwitchDesc};
use weir_packet::Nanos;

/// A switch to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its VDP.
    pub vid: Vid,
    /// Its datapath id.
    pub datapath_id: u64,
    /// What it says of itself.
    pub desc: SwitchDesc,
    /// Tables, 1 to 254. 1.0 sees and empties all, but adds to and modifies the first alone.
    pub tables: u8,
    /// Packets buffered at once, 4096 at most; 0: none.
    pub buffers: u16,
    /// Bytes of a packet that a packet-in without an action carries, until a connection says
    /// otherwise (1.3 §7.3.2).
    pub miss_send_len: u16,
    /// Where its rules live.
    pub placement: Placement,
    /// Its ports.
    pub ports: Vec<PortDesc>,
    /// Their queues, beside each port's default one.
    pub queues: Vec<QueueDesc>,
    /// What it may have.
    pub limits: Limits,
    /// What happens without a controller.
    pub fail_mode: FailMode,
}

/// What one switch may have and do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows in all tables.
    pub flows: u32,
    /// Groups.
    pub groups: u32,
    /// Meters.
    pub meters: u32,
    /// Packet-ins a second; `None`: as many as come.
    pub packet_ins: Option<u32>,
}

/// What happens to frames while no controller is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// Flows stay and act; frames without a flow are dropped.
    Secure,
    /// After so long without a controller, frames without a flow are treated as by a switch
    /// without OpenFlow, until one connects.
    Standalone {
        /// How long.
        after: Nanos,
    },
    /// There is nobody who could stay away: from the beginning frames without a flow are treated as by
    /// a switch without OpenFlow. Flows act.
    Plain,
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: 1 << 20, groups: 1 << 16, meters: 1 << 12, packet_ins: None }
    }
}

impl Config {
    /// A switch without ports, with one table.
    pub fn new(vid: Vid, datapath_id: u64) -> Self {
        Self {
            vid,
            datapath_id,
            desc: SwitchDesc {
                manufacturer: "weir".to_owned(),
                hardware: "virtual data plane".to_owned(),
                software: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
                serial: format!("{vid}"),
                datapath: String::new(),
            },
            tables: 1,
            buffers: 256,
            miss_send_len: crate::roles::MISS_SEND_LEN,
            placement: Placement::Fast,
            ports: Vec::new(),
            queues: Vec::new(),
            limits: Limits::default(),
            fail_mode: FailMode::Secure,
        }
    }
}
