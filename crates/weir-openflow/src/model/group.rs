//! Groups (1.3 §7.3.4.2).

use super::{Action, Port};

/// How a group uses its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Each bucket (0).
    All,
    /// One of them (1).
    Select,
    /// The only one (2).
    Indirect,
    /// The first live one (3).
    FastFailover,
}

/// What to do to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// Add (0).
    Add,
    /// Modify (1).
    Modify,
    /// Delete (2).
    Delete,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Share of a select group.
    pub weight: u16,
    /// Live while this port is; `ANY`: no watch.
    pub watch_port: Port,
    /// Live while this group is; [`GROUP_ANY`](super::GROUP_ANY): no watch.
    pub watch_group: u32,
    /// An action set.
    pub actions: Vec<Action>,
}

/// OFPT_GROUP_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// Its kind.
    pub kind: GroupKind,
    /// Its number; [`GROUP_ALL`](super::GROUP_ALL) for deletes.
    pub id: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}
