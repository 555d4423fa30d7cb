//! What a module works on: the switch as it was found, and the data channels to it.
//!
//! Plain data. Filled by the engine before a module starts.

use crate::engine::Resets;
use weir_openflow::model::{Features, Port, SwitchDesc, Version};

/// A data channel and where it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wired {
    /// The tester's port.
    pub name: String,
    /// The switch's port behind it.
    pub port: Port,
}

/// The switch and the wires to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bench {
    /// The version spoken; `None` before there is a connection.
    pub version: Option<Version>,
    /// What the switch says of itself, if it does.
    pub desc: Option<SwitchDesc>,
    /// Its features.
    pub features: Option<Features>,
    /// The data channels, in the order given.
    pub wired: Vec<Wired>,
    /// Whether it answers barriers.
    pub barriers: bool,
    /// What it does with a barrier instead, where it neither answers nor refuses it.
    pub barrier_fault: Option<String>,
    /// Flows that it had before.
    pub flows_before: usize,
    /// Who can reset it.
    pub resets: Resets,
}

impl Bench {
    /// Whether 1.3 is spoken.
    pub fn is_13(&self) -> bool {
        self.version == Some(Version::V13)
    }

    /// The switch's port behind data channel `n`; [`Port::ANY`] where there is none.
    pub fn port(&self, n: usize) -> Port {
        self.wired.get(n).map_or(Port::ANY, |w| w.port)
    }
}
