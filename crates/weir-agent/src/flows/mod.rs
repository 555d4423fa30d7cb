//! The flows of a switch, as OpenFlow sees them: what the data plane does not keep (cookies,
//! time-outs, flags, the instructions as they were given), in few bytes a flow.
//!
//! Room: bookkeeping alone. It goes along into the data plane's closures, so that it and the rules
//! change together (`apply`), and comes back. Matches and instructions are kept once for all flows
//! that share them; a flow of one's own costs some hundred bytes with its place in the index.

mod intern;
mod packed;
mod timers;

use hashbrown::{DefaultHashBuilder, HashTable};
use intern::Intern;
pub(crate) use packed::pack;
use packed::{Shape, ShapeKey};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
pub(crate) use timers::Timers;
use weir_dataplane::{Action, RuleRef};
use weir_openflow::model::{FlowFlags, GROUP_ANY, Instruction, Match, Port, TABLE_ALL};
use weir_packet::Nanos;

/// What flows do: instructions as given, and what follows from them.
#[derive(Debug)]
pub(crate) struct Behaviour {
    /// As the controller gave them.
    pub instructions: Box<[Instruction]>,
    /// As the data plane takes them.
    pub actions: Arc<[Action]>,
    /// Ports that they output to.
    pub outs: Box<[Port]>,
    /// Groups that they use.
    pub groups: Box<[u32]>,
    /// Queues that they put frames into, at a port or any.
    pub queues: Box<[(Port, u32)]>,
    /// The meter that they pass.
    pub meter: Option<u32>,
    /// The table that they go on with.
    pub goto: Option<u8>,
}

/// One flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub cookie: u64,
    /// When it was added.
    pub created: Nanos,
    values: Box<[u8]>,
    shape: u32,
    pub behaviour: u32,
    /// Where the data plane counts for it.
    pub rule: RuleRef,
    pub priority: u16,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub table: u8,
    flags: u8,
}

impl Flow {
    /// Its flags.
    pub fn flags(&self) -> FlowFlags {
        FlowFlags(self.flags.into())
    }
    /// The next moment at which it may have run out, last used then.
    pub fn deadline(&self, last_used: Nanos) -> Option<Nanos> {
        let secs = |s: u16| Nanos::from_secs(s.into());
        let idle = self.created.max(last_used) + secs(self.idle_timeout);
        let hard = self.created + secs(self.hard_timeout);
        match (self.idle_timeout, self.hard_timeout) {
            (0, 0) => None,
            (0, _) => Some(hard),
            (_, 0) => Some(idle),
            _ => Some(idle.min(hard)),
        }
    }
}

/// Table, priority and match: what no two flows share.
#[derive(Debug)]
pub(crate) struct Identity {
    pub table: u8,
    pub priority: u16,
    shape: u32,
    values: Box<[u8]>,
}

/// What a new flow has beside its identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFlow {
    pub cookie: u64,
    pub created: Nanos,
    pub behaviour: u32,
    pub rule: RuleRef,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub flags: FlowFlags,
}

/// Which flows a request means.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub table: u8,
    pub cookie: u64,
    pub cookie_mask: u64,
    pub out_port: Port,
    pub out_group: u32,
}

impl Filter {
    fn means_table(&self, table: u8) -> bool {
        self.table == TABLE_ALL || self.table == table
    }
    /// Whether it leaves a flow alone that does not output where it says, or has another cookie.
    pub fn admits(&self, flow: &Flow, does: Option<&Behaviour>) -> bool {
        (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == Port::ANY || does.is_some_and(|b| b.outs.contains(&self.out_port)))
            && (self.out_group == GROUP_ANY
                || does.is_some_and(|b| b.groups.contains(&self.out_group)))
    }
}

/// All flows of a switch.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    slots: Vec<Option<Flow>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    shapes: Intern<Shape>,
    /// What flows do.
    pub behaviours: Intern<Behaviour>,
    /// How many flows of a table and priority have a shape.
    shapes_at: BTreeMap<(u8, u16, u32), u32>,
    /// When flows may have run out.
    pub timers: Timers,
    active: Vec<u32>,
    len: usize,
}

impl Flows {
    /// Makes an identity; to be given back by [`Flows::forget`] or used by [`Flows::insert`].
    pub fn identity(&mut self, table: u8, priority: u16, m: &Match) -> Identity {
        let shape = self.shapes.take(&ShapeKey(m), |s| s.is_of(m), || Shape::of(m));
        Identity { table, priority, shape, values: pack(m) }
    }
    /// An identity that is not used after all.
    pub fn forget(&mut self, id: Identity) {
        self.shapes.release(id.shape);
    }
    fn hash(&self, table: u8, priority: u16, shape: u32, values: &[u8]) -> u64 {
        self.hasher.hash_one((table, priority, shape, values))
    }
    /// The number of the flow with this identity.
    pub fn find(&self, id: &Identity) -> Option<u32> {
        self.find_at(id.table, id.priority, id.shape, &id.values)
    }
    fn find_at(&self, table: u8, priority: u16, shape: u32, values: &[u8]) -> Option<u32> {
        let hash = self.hash(table, priority, shape, values);
        let same = |i: &u32| {
            self.get(*i).is_some_and(|f| {
                (f.table, f.priority, f.shape) == (table, priority, shape) && *f.values == *values
            })
        };
        self.index.find(hash, same).copied()
    }
    /// Adds a flow that is not there yet; its behaviour has been counted for it. Its number.
    pub fn insert(&mut self, id: Identity, new: NewFlow) -> u32 {
        let hash = self.hash(id.table, id.priority, id.shape, &id.values);
        let flow = Flow {
            cookie: new.cookie,
            created: new.created,
            values: id.values,
            shape: id.shape,
            behaviour: new.behaviour,
            rule: new.rule,
            priority: id.priority,
            idle_timeout: new.idle_timeout,
            hard_timeout: new.hard_timeout,
            table: id.table,
            flags: new.flags.0 as u8,
        };
        let deadline = flow.deadline(Nanos(0));
        let i = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = Some(flow);
                i
            }
            None => {
                self.slots.push(Some(flow));
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, i, |i| {
            slots[*i as usize]
                .as_ref()
                .map_or(0, |f| hasher.hash_one((f.table, f.priority, f.shape, &f.values[..])))
        });
        *self.shapes_at.entry((id.table, id.priority, id.shape)).or_default() += 1;
        if deadline.is_some() {
            self.timers.set(i, deadline);
        }
        let t = usize::from(id.table);
        if self.active.len() <= t {
            self.active.resize(t + 1, 0);
        }
        self.active[t] += 1;
        self.len += 1;
        i
    }
    /// Makes a flow that is there a new one, under the same number.
    pub fn replace(&mut self, i: u32, new: NewFlow) {
        let Some(f) = self.slots.get_mut(i as usize).and_then(Option::as_mut) else { return };
        let old = f.behaviour;
        (f.cookie, f.created, f.behaviour, f.rule) =
            (new.cookie, new.created, new.behaviour, new.rule);
        (f.idle_timeout, f.hard_timeout) = (new.idle_timeout, new.hard_timeout);
        f.flags = new.flags.0 as u8;
        let deadline = f.deadline(Nanos(0));
        self.timers.set(i, deadline);
        self.behaviours.release(old);
    }
    /// Gives a flow another behaviour, which has been counted for it.
    pub fn set_behaviour(&mut self, i: u32, behaviour: u32) {
        if let Some(f) = self.slots.get_mut(i as usize).and_then(Option::as_mut) {
            let old = std::mem::replace(&mut f.behaviour, behaviour);
            self.behaviours.release(old);
        }
    }
    /// A flow, to be changed in what is not its identity.
    pub fn get_mut(&mut self, i: u32) -> Option<&mut Flow> {
        self.slots.get_mut(i as usize)?.as_mut()
    }
    /// Takes a flow out.
    pub fn remove(&mut self, i: u32) -> Option<(Flow, Match)> {
        let f = self.slots.get_mut(i as usize)?.take()?;
        let hash = self.hash(f.table, f.priority, f.shape, &f.values);
        if let Ok(e) = self.index.find_entry(hash, |o| *o == i) {
            e.remove();
        }
        let m = self.match_of(&f);
        let at = (f.table, f.priority, f.shape);
        if let Some(n) = self.shapes_at.get_mut(&at) {
            *n -= 1;
            if *n == 0 {
                self.shapes_at.remove(&at);
            }
        }
        self.shapes.release(f.shape);
        self.behaviours.release(f.behaviour);
        self.timers.set(i, None);
        if let Some(n) = self.active.get_mut(usize::from(f.table)) {
            *n -= 1;
        }
        self.len -= 1;
        self.free.push(i);
        Some((f, m))
    }
    /// A flow.
    pub fn get(&self, i: u32) -> Option<&Flow> {
        self.slots.get(i as usize)?.as_ref()
    }
    /// What a flow matches.
    pub fn match_of(&self, f: &Flow) -> Match {
        self.shapes.get(f.shape).map(|s| s.unpack(&f.values)).unwrap_or_default()
    }
    /// Flows, in all.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Flows of a table.
    pub fn active(&self, table: u8) -> u32 {
        self.active.get(usize::from(table)).copied().unwrap_or(0)
    }
    /// The numbers of the flows that a non-strict request means.
    pub fn select(&self, filter: &Filter, within: &Match) -> Vec<u32> {
        let admits = |f: &Flow| filter.admits(f, self.behaviours.get(f.behaviour));
        if let Some(few) = self.select_by_index(filter, within) {
            return few.into_iter().filter(|i| self.get(*i).is_some_and(admits)).collect();
        }
        let all = within.0.is_empty();
        let mut out = Vec::new();
        for (i, f) in self.slots.iter().enumerate() {
            let Some(f) = f else { continue };
            let fits = |s: &Shape| s.is_within(&f.values, within);
            if filter.means_table(f.table)
                && admits(f)
                && (all || self.shapes.get(f.shape).is_some_and(fits))
            {
                out.push(i as u32);
            }
        }
        out
    }
    /// Where only flows with just these fields and masks can be meant: those, found one by one.
    fn select_by_index(&self, filter: &Filter, within: &Match) -> Option<Vec<u32>> {
        let own = self.shapes.find(&ShapeKey(within), |s| s.is_of(within));
        let values = pack(within);
        let mut out = Vec::new();
        for (table, priority, shape) in self.shapes_at.keys() {
            if !filter.means_table(*table) {
                continue;
            }
            if Some(*shape) == own {
                out.extend(self.find_at(*table, *priority, *shape, &values));
            } else if self.shapes.get(*shape).is_none_or(|s| s.covers(within)) {
                return None;
            }
        }
        Some(out)
    }
    /// The numbers of the flows whose behaviour is one of those that `is` says.
    pub fn doing(&self, is: impl Fn(&Behaviour) -> bool) -> Vec<u32> {
        if !self.behaviours.iter().any(|(_, b, _)| is(b)) {
            return Vec::new();
        }
        let does = |f: &Flow| self.behaviours.get(f.behaviour).is_some_and(&is);
        let of = |(i, f): (usize, &Option<Flow>)| f.as_ref().filter(|f| does(f)).map(|_| i as u32);
        self.slots.iter().enumerate().filter_map(of).collect()
    }
    /// Whether a flow of this table and priority may take the same frame.
    pub fn overlaps(&self, id: &Identity, m: &Match) -> bool {
        if self.find(id).is_some() {
            return true;
        }
        let at = (id.table, id.priority);
        let range = (at.0, at.1, 0)..=(at.0, at.1, u32::MAX);
        // Flows of one shape whose masks are the same overlap only where they are the same flow.
        if self.shapes_at.range(range).all(|((_, _, shape), _)| *shape == id.shape) {
            return false;
        }
        self.slots.iter().flatten().any(|f| {
            (f.table, f.priority) == at
                && f.shape != id.shape
                && self.shapes.get(f.shape).is_some_and(|s| s.overlaps(&f.values, m))
        })
    }
}
