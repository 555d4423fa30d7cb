//! One slice as it goes: its ports, flows, groups, meters, packets that wait, and what was refused to it.
//!
//! Room: state of one slice at one switch; everything that acts on it is elsewhere in `slicer`.

use super::book::{Book, Flow, FlowId};
use super::buffers::Buffers;
use super::ids::Ids;
use super::judge::{Floods, Judge, Ports};
use super::plan::SlicePlan;
use super::resume::Key;
use super::space::{FlowSpace, SliceId};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use weir_openflow::channel::{Budget, Gate, Toll};
use weir_openflow::model::{GroupMod, MeterMod, Port, SwitchConfig, Version};

/// What became of a slice's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceCounters {
    /// Requests from its controllers.
    pub requests: u64,
    /// Of them refused by the slicer.
    pub refused: u64,
    /// Refused by the switch.
    pub failed: u64,
    /// Packets told to a controller.
    pub packet_ins: u64,
    /// Packets that nobody was told of: over the rate, or no controller was there.
    pub packet_ins_dropped: u64,
    /// flow_removed told.
    pub flows_removed: u64,
    /// Of what controllers were told, what one of them did not read in time to have room for it.
    pub unread: u64,
}

/// A flow that its slice has deleted and wants to be told of once its rules are gone.
#[derive(Debug)]
pub struct Dying {
    /// As it was.
    pub flow: Flow,
    /// Rules of which the switch has still to say what they have counted.
    pub left: usize,
    /// How long it had lived.
    pub lived: (u32, u32),
}

/// A slice.
#[derive(Debug)]
pub struct Slice {
    /// Its number.
    pub id: SliceId,
    /// As configured.
    pub plan: SlicePlan,
    /// Its ports that are there.
    pub ports: Ports,
    /// Its flows.
    pub book: Book,
    /// Flows that end.
    pub dying: HashMap<FlowId, Dying>,
    /// Its groups.
    pub groups: Ids,
    /// As it asked for them.
    pub group_mods: BTreeMap<u32, GroupMod>,
    /// Its meters.
    pub meters: Ids,
    /// As it asked for them.
    pub meter_mods: BTreeMap<u32, MeterMod>,
    /// Groups and meters that came, changed or went since this was told.
    pub touched: Vec<Key>,
    /// Packets that wait at the switch.
    pub buffers: Buffers,
    /// What it set.
    pub config: SwitchConfig,
    /// The highest generation of a role request.
    pub generation: Option<u64>,
    /// How often changes were taken back.
    pub taken_back: u64,
    /// Counters.
    pub counters: SliceCounters,
    /// Whether packets of its may be dropped at the switch since nobody was there.
    pub drops: bool,
    rate: Budget,
}

/// Bytes of a packet in a packet-in, where a controller has not said.
const MISS_SEND_LEN: u16 = 128;

impl Slice {
    /// One without anything.
    pub fn new(id: SliceId, plan: SlicePlan) -> Self {
        Self {
            id,
            plan,
            ports: Ports::new(),
            book: Book::default(),
            dying: HashMap::new(),
            groups: Ids::default(),
            group_mods: BTreeMap::new(),
            meters: Ids::default(),
            meter_mods: BTreeMap::new(),
            touched: Vec::new(),
            buffers: Buffers::default(),
            config: SwitchConfig { fragments: Default::default(), miss_send_len: MISS_SEND_LEN },
            generation: None,
            taken_back: 0,
            counters: SliceCounters::default(),
            drops: false,
            rate: Budget::default(),
        }
    }

    /// Tables that it sees.
    pub fn tables(&self, version: Version) -> u8 {
        if version == Version::V10 { 1 } else { self.plan.limits.tables.clamp(1, 254) }
    }

    /// Whether one more packet may be told.
    pub fn may_tell(&mut self, now: Duration) -> bool {
        let limit = self.plan.limits.packet_ins;
        self.rate.set(limit, None, now);
        self.rate.of(0).admit(Toll::Message, now).is_ok()
    }

    /// Who judges its actions.
    pub fn judge<'a>(&'a self, space: &'a mut FlowSpace, version: Version) -> Judge<'a> {
        Judge {
            space,
            slice: self.id,
            ports: &self.ports,
            queues: &self.plan.queues,
            groups: &self.groups,
            meters: &self.meters,
            tables: self.tables(version),
            limit: self.plan.limits.pieces,
            tags: self.plan.tags,
        }
    }

    /// Whether a port is one of its own.
    pub fn has(&self, port: Port) -> bool {
        self.ports.contains_key(&port)
    }
    /// Whether a port takes part in its floods.
    pub fn set_floods(&mut self, port: Port, floods: Floods) {
        if let Some(f) = self.ports.get_mut(&port) {
            *f = floods;
        }
    }
}
