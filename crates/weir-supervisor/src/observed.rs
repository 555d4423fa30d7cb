//! What physical nodes report, as far as the supervisor looks at it.
//!
//! Room: plain data; made by whoever asks the nodes.

use crate::model::{Kind, Path};
use std::collections::{BTreeMap, BTreeSet};

/// All physical nodes that answered, by name.
pub type Observed = BTreeMap<String, ObservedHost>;

/// A physical node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedHost {
    /// Its ports.
    pub ports: BTreeSet<String>,
    /// Those of them that somebody keeps, with their marks.
    pub made: BTreeMap<String, String>,
    /// Ports that are not there any more, by the nodes (`NETWORK/NODE`) that have them all the same.
    pub gone: BTreeMap<String, BTreeSet<String>>,
    /// What these are made of.
    pub devices: BTreeMap<String, String>,
    /// VXLAN network identifiers of its ports.
    pub vnis: BTreeSet<u32>,
    /// Its VDPs, the default one left out.
    pub vdps: Vec<ObservedVdp>,
    /// The TCAM's part for mapping rules.
    pub mapping: Budget,
    /// The TCAM's part for action rules.
    pub action: Budget,
    /// Processors that programs of virtual routers may run on, as its kernel lists them, where it says so.
    pub processors: Option<String>,
}

impl ObservedHost {
    /// Whether a node's port is there, or need not be.
    pub(crate) fn has(&self, port: &str, node: &str) -> bool {
        self.ports.contains(port) || self.gone.get(node).is_some_and(|p| p.contains(port))
    }
}

/// A part of a TCAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Entries in a slice.
    pub slice_entries: u32,
    /// Entries in slices that nobody has.
    pub free_entries: u32,
}

/// A VDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedVdp {
    /// Its number.
    pub vid: u16,
    /// Its name.
    pub name: String,
    /// Whether it is a virtual router's.
    pub kind: Kind,
    /// The mark of whoever keeps it.
    pub label: Option<String>,
    /// Where it lives; nothing while it is between two paths.
    pub path: Option<Path>,
    /// Entries of its slices for mapping rules.
    pub mapping_entries: u32,
    /// Entries of its slices for action rules.
    pub action_entries: u32,
    /// Guaranteed part of the worker's cycles, in thousandths.
    pub cpu_permille: u32,
    /// Whether another node processes its frames, or it is on its way there or back.
    pub moving: bool,
}
