//! What a switch has beside its flows: ports, groups, meters, queues. What actions may refer to.

use crate::actions::World;
use std::collections::BTreeMap;
use weir_dataplane::Absent;
use weir_openflow::model::{
    Action, Band, Bucket, GROUP_ANY, GroupKind, MeterFlags, Port, PortDesc, QueueDesc,
};
use weir_packet::Nanos;

/// A group that is there.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub kind: GroupKind,
    pub buckets: Vec<Bucket>,
    pub created: Nanos,
}

impl Group {
    /// Groups that its buckets lead to or watch, each once.
    pub fn follows(&self) -> Vec<u32> {
        let mut out: Vec<u32> = self.buckets.iter().flat_map(follows).collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// Groups that a bucket leads to or watches.
pub(crate) fn follows(b: &Bucket) -> impl Iterator<Item = u32> {
    let watched = (b.watch_group != GROUP_ANY).then_some(b.watch_group);
    let led = b.actions.iter().filter_map(|a| match a {
        Action::Group(g) => Some(*g),
        _ => None,
    });
    led.chain(watched)
}

/// A meter that is there.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub flags: MeterFlags,
    pub bands: Vec<Band>,
    pub created: Nanos,
}

/// Everything but flows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub tables: u8,
    pub ports: BTreeMap<Port, PortDesc>,
    /// When each port came.
    pub since: BTreeMap<Port, Nanos>,
    pub groups: BTreeMap<u32, Group>,
    pub meters: BTreeMap<u32, Meter>,
    pub queues: Vec<QueueDesc>,
}

impl World for State {
    fn has_port(&self, port: Port) -> bool {
        self.ports.contains_key(&port)
    }
    fn has_group(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }
    fn has_meter(&self, meter: u32) -> bool {
        self.meters.contains_key(&meter)
    }
    fn has_queue(&self, port: Port, queue: u32) -> bool {
        // Which port a frame will come in by is not known yet.
        let any = matches!(port, Port::ANY | Port::IN_PORT);
        self.queues.iter().any(|q| q.id == queue && (any || q.port == port))
    }
    fn tables(&self) -> u8 {
        self.tables
    }
}

/// The same, by what becomes of names of ports and queues that are not there.
pub(crate) struct Known<'s> {
    pub state: &'s State,
    pub absent: Absent,
}

impl World for Known<'_> {
    fn has_port(&self, port: Port) -> bool {
        self.absent == Absent::Kept || self.state.has_port(port)
    }
    fn has_group(&self, group: u32) -> bool {
        self.state.has_group(group)
    }
    fn has_meter(&self, meter: u32) -> bool {
        self.state.has_meter(meter)
    }
    fn has_queue(&self, port: Port, queue: u32) -> bool {
        self.absent == Absent::Kept || self.state.has_queue(port, queue)
    }
    fn tables(&self) -> u8 {
        self.state.tables
    }
}
