//! What a slicer is configured with: slices, and rules of the flow space.
//!
//! Room: plain data, made by whoever reads configurations, kept by `switch`.

use super::space::{Right, SliceId};
use std::collections::BTreeSet;
use weir_openflow::channel::Rate;
use weir_openflow::model::{Match, Port};

/// A port of the switch, by number or by its name there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortRef {
    /// By number.
    Number(Port),
    /// By name.
    Name(String),
}

/// What becomes of a slice's flows when its last controller has gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// They stay and act; packets that match none go nowhere.
    #[default]
    Keep,
    /// They are deleted, with groups and meters.
    Delete,
    /// They stay; a packet that matches none has its like dropped in the switch, for a while.
    Drop {
        /// Seconds for which the like of it is dropped.
        seconds: u16,
    },
}

/// What a slice may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rules at the switch: one flow may need several.
    pub rules: usize,
    /// Tables that it sees (1.3).
    pub tables: u8,
    /// Groups (1.3).
    pub groups: usize,
    /// Meters (1.3).
    pub meters: usize,
    /// Packets for its controllers.
    pub packet_ins: Option<Rate>,
    /// Rules that one flow may need.
    pub pieces: usize,
}

impl Default for Limits {
    /// 4096 rules, 8 tables, 64 groups and as many meters, 64 rules a flow.
    fn default() -> Self {
        Self { rules: 4096, tables: 8, groups: 64, meters: 64, packet_ins: None, pieces: 64 }
    }
}

/// How many tags of VLANs its switches look behind for a frame's EtherType.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagsRead {
    /// All, or it is not known: behind any number of tags may be the type that a flow matches.
    #[default]
    Any,
    /// One: a type that is no tag's says that there is no second tag.
    One,
}

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlicePlan {
    /// What it is called; its controllers read it as the datapath's description.
    pub name: String,
    /// Queues that it may use.
    pub queues: BTreeSet<u32>,
    /// What it may have.
    pub limits: Limits,
    /// What becomes of its flows without a controller.
    pub loss: Loss,
    /// What a type says of tags.
    pub tags: TagsRead,
}

/// Who may do what.
pub type Grant = (SliceId, Right);

/// A rule of the flow space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceRule {
    /// Larger decides.
    pub priority: u32,
    /// On these ports alone; empty: on all.
    pub ports: Vec<PortRef>,
    /// Which headers: a range has several.
    pub matchers: Vec<Match>,
    /// Who may do what.
    pub grants: Vec<Grant>,
    /// On whose behalf, where a slice delegates.
    pub by: Option<SliceId>,
    /// At this switch alone.
    pub datapath: Option<u64>,
}
