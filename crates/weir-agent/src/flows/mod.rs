//! The flows of a switch, as OpenFlow sees them: what the data plane does not keep (cookies,
//! time-outs, flags, the instructions as they were given), in few bytes a flow.
//!
//! Room: bookkeeping alone. It goes along into the data plane's closures, so that it and the rules
//! change together (`apply`), and comes back. A flow stands at the number that the data plane gave
//! its rule, so that the rule is found by its match there and the flow by the rule: there is no
//! second index. Fields, masks and instructions are kept once for all flows that share them.

mod intern;
mod packed;
mod select;
mod timers;

use intern::Intern;
pub(crate) use packed::pack;
use packed::{Shape, ShapeKey, Values};
pub(crate) use select::{Filter, Selection};
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) use timers::Timers;
use weir_classify::Match as Keys;
use weir_dataplane::{Action, DataPlane, RuleRef, Vid};
use weir_openflow::model::{FlowFlags, Instruction, Match, Port};
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
    values: Values,
    shape: u32,
    pub behaviour: u32,
    pub priority: u16,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    flags: u8,
}

// There are a million of them.
const _: () = assert!(size_of::<Option<Flow>>() == 48);

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
    fn is(&self, id: &Identity) -> bool {
        (self.priority, self.shape) == (id.priority, id.shape) && *self.values == *id.values
    }
}

/// Table, priority and match: what no two flows share.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub table: u8,
    pub priority: u16,
    shape: u32,
    values: Values,
}

/// What a new flow has beside its identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFlow {
    pub cookie: u64,
    pub created: Nanos,
    pub behaviour: u32,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub flags: FlowFlags,
}

/// Flows that were taken out of a table all at once, to be let go by [`Flows::let_go`].
#[derive(Debug)]
pub(crate) struct Gone {
    table: u8,
    flows: Vec<Option<Flow>>,
}

/// The flows of one table, each where its rule is.
#[derive(Debug, Default)]
struct Table {
    flows: Vec<Option<Flow>>,
    active: u32,
}

/// All flows of a switch.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    tables: Vec<Table>,
    shapes: Intern<Shape>,
    /// What flows do.
    pub behaviours: Intern<Behaviour>,
    /// How many flows of a table and priority have a shape.
    shapes_at: BTreeMap<(u8, u16, u32), u32>,
    /// When flows may have run out.
    pub timers: Timers,
    len: usize,
    /// Flows whose end somebody wants to be told.
    told_of: usize,
}

fn is_told_of(flags: FlowFlags) -> usize {
    usize::from(flags.has(FlowFlags::SEND_FLOW_REM))
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
    /// An identity's match in the data plane's words.
    pub fn keys(&self, id: &Identity) -> Keys {
        self.shapes.get(id.shape).map(|s| s.keys(&id.values)).unwrap_or_default()
    }
    /// A flow's match in the data plane's words.
    pub fn keys_of(&self, f: &Flow) -> Keys {
        self.shapes.get(f.shape).map(|s| s.keys(&f.values)).unwrap_or_default()
    }
    /// The flow with this identity, whose match is `keys`.
    pub fn find(&self, dp: &DataPlane, vid: Vid, id: &Identity, keys: &Keys) -> Option<RuleRef> {
        let at = dp.rule_ref(vid, id.table, keys, id.priority.into())?;
        self.is_at(at, id).then_some(at)
    }
    /// Whether the flow with this identity is the one at a rule.
    pub fn is_at(&self, at: RuleRef, id: &Identity) -> bool {
        at.table == id.table && self.get(at).is_some_and(|f| f.is(id))
    }
    /// Adds a flow that is not there yet, at the rule that was just placed for it; its behaviour has
    /// been counted for it.
    pub fn insert(&mut self, at: RuleRef, id: Identity, new: NewFlow) {
        // A flow whose rule somebody else took away: its place is another's now.
        self.remove(at);
        let flow = Flow {
            cookie: new.cookie,
            created: new.created,
            values: id.values,
            shape: id.shape,
            behaviour: new.behaviour,
            priority: id.priority,
            idle_timeout: new.idle_timeout,
            hard_timeout: new.hard_timeout,
            flags: new.flags.0 as u8,
        };
        let deadline = flow.deadline(Nanos(0));
        let table = usize::from(at.table);
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, Table::default);
        }
        let slot = at.slot as usize;
        let t = &mut self.tables[table];
        match t.flows.get_mut(slot) {
            Some(place) => *place = Some(flow),
            None => {
                t.flows.resize_with(slot, || None);
                t.flows.push(Some(flow));
            }
        }
        t.active += 1;
        *self.shapes_at.entry((at.table, id.priority, id.shape)).or_default() += 1;
        if deadline.is_some() {
            self.timers.set(at, deadline);
        }
        self.len += 1;
        self.told_of += is_told_of(new.flags);
    }
    /// Makes a flow that is there a new one.
    pub fn replace(&mut self, at: RuleRef, new: NewFlow) {
        let Some(f) = self.get_mut(at) else { return };
        let old = (f.behaviour, f.flags());
        (f.cookie, f.created, f.behaviour) = (new.cookie, new.created, new.behaviour);
        (f.idle_timeout, f.hard_timeout) = (new.idle_timeout, new.hard_timeout);
        f.flags = new.flags.0 as u8;
        let deadline = f.deadline(Nanos(0));
        self.timers.set(at, deadline);
        self.behaviours.release(old.0);
        self.told_of = self.told_of + is_told_of(new.flags) - is_told_of(old.1);
    }
    /// Gives a flow another behaviour, which has been counted for it, and a cookie.
    pub fn change(&mut self, at: RuleRef, behaviour: u32, cookie: u64) {
        if let Some(f) = self.get_mut(at) {
            f.cookie = cookie;
            let old = std::mem::replace(&mut f.behaviour, behaviour);
            self.behaviours.release(old);
        }
    }
    fn get_mut(&mut self, at: RuleRef) -> Option<&mut Flow> {
        let t = self.tables.get_mut(usize::from(at.table))?;
        t.flows.get_mut(at.slot as usize)?.as_mut()
    }
    /// Takes a flow out, if there is one.
    pub fn remove(&mut self, at: RuleRef) {
        let Some(t) = self.tables.get_mut(usize::from(at.table)) else { return };
        let Some(f) = t.flows.get_mut(at.slot as usize).and_then(Option::take) else { return };
        t.active -= 1;
        let place = (at.table, f.priority, f.shape);
        if let Some(n) = self.shapes_at.get_mut(&place) {
            *n -= 1;
            if *n == 0 {
                self.shapes_at.remove(&place);
            }
        }
        self.release(at, &f);
    }
    fn release(&mut self, at: RuleRef, f: &Flow) {
        self.shapes.release(f.shape);
        self.behaviours.release(f.behaviour);
        self.timers.set(at, None);
        self.len -= 1;
        self.told_of -= is_told_of(f.flags());
    }
    /// Takes all flows out of a table, at once however many there are.
    pub fn take_table(&mut self, table: u8) -> Option<Gone> {
        let flows = std::mem::take(self.tables.get_mut(usize::from(table))?).flows;
        let places = self.shapes_at.range((table, 0, 0)..=(table, u16::MAX, u32::MAX));
        for place in places.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.shapes_at.remove(&place);
        }
        Some(Gone { table, flows })
    }
    /// Forgets what flows that were taken out shared with others.
    pub fn let_go(&mut self, gone: Gone) {
        for (f, slot) in gone.flows.into_iter().zip(0..) {
            if let Some(f) = f {
                self.release(RuleRef { table: gone.table, slot }, &f);
            }
        }
    }
    /// A flow.
    pub fn get(&self, at: RuleRef) -> Option<&Flow> {
        self.tables.get(usize::from(at.table))?.flows.get(at.slot as usize)?.as_ref()
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
        self.tables.get(usize::from(table)).map_or(0, |t| t.active)
    }
    /// Tables that have flows.
    pub fn in_use(&self) -> Vec<u8> {
        let active = |(t, _): &(&Table, u8)| t.active > 0;
        self.tables.iter().zip(0..).filter(active).map(|(_, n)| n).collect()
    }
    /// Whether nobody wants to be told when flows end.
    pub fn may_go_silently(&self) -> bool {
        self.told_of == 0
    }
    fn all(&self) -> impl Iterator<Item = (RuleRef, &Flow)> {
        let of = |(t, table)| {
            let t: &Table = t;
            let at = move |(f, slot)| {
                let f: &Option<Flow> = f;
                Some((RuleRef { table, slot }, f.as_ref()?))
            };
            t.flows.iter().zip(0..).filter_map(at)
        };
        self.tables.iter().zip(0..).flat_map(of)
    }
    /// All flows from a place on, in their order.
    pub fn from(&self, first: RuleRef) -> impl Iterator<Item = (RuleRef, &Flow)> {
        let of = move |(t, table)| {
            let t: &Table = t;
            let skipped = if table == first.table { first.slot } else { 0 };
            let flows = t.flows.get(skipped as usize..).unwrap_or_default();
            let at = move |(f, slot)| {
                let f: &Option<Flow> = f;
                Some((RuleRef { table, slot }, f.as_ref()?))
            };
            flows.iter().zip(skipped..).filter_map(at)
        };
        self.tables.iter().zip(0..).skip(first.table.into()).flat_map(of)
    }
    /// The flows whose behaviour is one of those that `is` says.
    pub fn doing(&self, is: impl Fn(&Behaviour) -> bool) -> Vec<RuleRef> {
        if !self.behaviours.iter().any(|(_, b, _)| is(b)) {
            return Vec::new();
        }
        let does = |f: &Flow| self.behaviours.get(f.behaviour).is_some_and(&is);
        self.all().filter(|(_, f)| does(f)).map(|(at, _)| at).collect()
    }
    /// Whether a flow of this table and priority may take the same frame, beside that with just
    /// this identity.
    pub fn others_overlap(&self, id: &Identity, m: &Match) -> bool {
        let at = (id.table, id.priority);
        let range = (at.0, at.1, 0)..=(at.0, at.1, u32::MAX);
        // Flows of one shape whose masks are the same overlap only where they are the same flow.
        if self.shapes_at.range(range).all(|((_, _, shape), _)| *shape == id.shape) {
            return false;
        }
        let flows = self.tables.get(usize::from(id.table)).map(|t| &t.flows);
        flows.into_iter().flatten().flatten().any(|f| {
            f.priority == id.priority
                && f.shape != id.shape
                && self.shapes.get(f.shape).is_some_and(|s| s.overlaps(&f.values, m))
        })
    }
}
