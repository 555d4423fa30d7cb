//! The flows as the agent knows them, changed the moment a flow_mod is read; what changes for frames
//! comes out as [`Change`]s, which `hardware` carries out in its own time.
//!
//! Room: the model and `program`. No frames, no costs, no time but a flow's birth. 1.0 §4.6; 1.3 §6.4.

use super::header::is_read;
use super::profile::{Actions, Past, Table};
use super::program::Program;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_openflow::model::{
    ErrorCode, Field, FlowCommand, FlowFilter, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match,
    Port, RemovedReason, TABLE_ALL, Version,
};
use weir_packet::Nanos;

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Rises from flow to flow, and is never used again.
    pub(super) id: u64,
    pub(super) cookie: u64,
    pub(super) priority: u16,
    pub(super) idle_timeout: u16,
    pub(super) hard_timeout: u16,
    pub(super) flags: FlowFlags,
    pub(super) matcher: Match,
    pub(super) instructions: Vec<Instruction>,
    pub(super) program: Arc<Program>,
    pub(super) added: Nanos,
    /// Whether frames are ever to meet it.
    pub(super) kept: Kept,
    /// When its time-outs are looked at next.
    pub(super) armed: Option<Nanos>,
}

/// Whether there was room for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    InHardware,
    Lost,
}

/// What becomes of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    Keep,
    Reset,
}

/// Something that the hardware is to do.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Enter a flow, or put it in the place of one with the same id.
    Install { id: u64, priority: u16, matcher: Match, program: Arc<Program>, counts: Counts },
    /// Change what a flow does.
    Modify { id: u64, priority: u16, program: Arc<Program>, counts: Counts },
    /// Take a flow out, and say so if it wants that.
    Remove { flow: Box<Flow>, why: RemovedReason },
}

impl Change {
    /// Which flow it is about.
    pub(super) fn id(&self) -> u64 {
        match self {
            Change::Install { id, .. } | Change::Modify { id, .. } => *id,
            Change::Remove { flow, .. } => flow.id,
        }
    }
}

/// All flows.
#[derive(Debug)]
pub(super) struct Book {
    limits: Table,
    flows: BTreeMap<u64, Flow>,
    /// By priority and match: no two flows share both.
    names: HashMap<(u16, Match), u64>,
    exact: usize,
    /// Flows that frames can meet.
    kept: usize,
    next: u64,
}

impl Book {
    pub(super) fn new(limits: Table) -> Self {
        let names = HashMap::new();
        Self { limits, flows: BTreeMap::new(), names, exact: 0, kept: 0, next: 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Flow> {
        self.flows.get_mut(&id)
    }

    /// Flows that a request for statistics is about.
    pub(super) fn chosen(&self, f: &FlowFilter) -> impl Iterator<Item = &Flow> {
        let table = f.table == 0 || f.table == TABLE_ALL;
        let group = f.out_group == GROUP_ANY;
        self.flows.values().filter(move |flow| {
            table
                && group
                && within(&flow.matcher, &f.matcher)
                && flow.cookie & f.cookie_mask == f.cookie & f.cookie_mask
                && (f.out_port == Port::ANY || flow.program.outputs_to(f.out_port))
        })
    }

    /// Carries a flow_mod out here, and says what it changes for frames.
    ///
    /// # Errors
    /// What the controller is to be told; nothing has changed then.
    pub(super) fn flow_mod(
        &mut self,
        version: Version,
        m: FlowMod,
        (faults, ports): (&Actions, usize),
        now: Nanos,
    ) -> Result<Vec<Change>, ErrorCode> {
        use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
        let deletes = matches!(m.command, Delete | DeleteStrict);
        if m.table != 0 && !(deletes && m.table == TABLE_ALL) {
            return Err(ErrorCode::FlowBadTableId);
        }
        if m.flags.has(FlowFlags::EMERG) {
            return Err(ErrorCode::FlowTableFull);
        }
        let named = self.named(version, &m);
        if deletes {
            // The newest first: a sorted table is shortened from its end.
            let gone = named.into_iter().rev().filter_map(|id| self.take(id));
            let why = RemovedReason::Delete;
            return Ok(gone.map(|flow| Change::Remove { flow: Box::new(flow), why }).collect());
        }
        if !m.matcher.0.iter().all(|f| is_read(f.field)) {
            return Err(ErrorCode::MatchBadField);
        }
        let program = Arc::new(Program::of(faults, ports, &m.instructions)?);
        match m.command {
            Modify | ModifyStrict if version == Version::V13 || !named.is_empty() => {
                Ok(self.modify(version, &named, &m, &program))
            }
            Add | Modify | ModifyStrict | Delete | DeleteStrict => {
                self.add(version, m, program, now).map(|c| c.into_iter().collect())
            }
        }
    }

    /// Ids of the flows that a flow_mod means, rising.
    fn named(&self, version: Version, m: &FlowMod) -> Vec<u64> {
        use FlowCommand::{Add, Delete, DeleteStrict, ModifyStrict};
        let deletes = matches!(m.command, Delete | DeleteStrict);
        let fits = |f: &&Flow| {
            let cookie =
                version == Version::V10 || f.cookie & m.cookie_mask == m.cookie & m.cookie_mask;
            let port = !deletes || m.out_port == Port::ANY || f.program.outputs_to(m.out_port);
            // There are no groups here for a flow to use.
            let group = !deletes || version == Version::V10 || m.out_group == GROUP_ANY;
            cookie && port && group
        };
        match m.command {
            Add => Vec::new(),
            ModifyStrict | DeleteStrict => {
                let id = self.names.get(&(m.priority, m.matcher.clone()));
                id.and_then(|id| self.flows.get(id))
                    .filter(fits)
                    .map(|f| f.id)
                    .into_iter()
                    .collect()
            }
            _ => {
                let flows = self.flows.values();
                let covered = flows.filter(|f| within(&f.matcher, &m.matcher));
                covered.filter(fits).map(|f| f.id).collect()
            }
        }
    }

    fn modify(
        &mut self,
        version: Version,
        named: &[u64],
        m: &FlowMod,
        program: &Arc<Program>,
    ) -> Vec<Change> {
        let reset = m.flags.has(FlowFlags::RESET_COUNTS);
        let counts = if reset { Counts::Reset } else { Counts::Keep };
        let mut changes = Vec::new();
        for id in named {
            let Some(f) = self.flows.get_mut(id) else { continue };
            f.instructions = m.instructions.clone();
            f.program = Arc::clone(program);
            if version == Version::V10 {
                f.cookie = m.cookie;
            }
            if f.kept == Kept::InHardware {
                let (id, priority, program) = (f.id, f.priority, Arc::clone(program));
                changes.push(Change::Modify { id, priority, program, counts });
            }
        }
        changes
    }

    fn add(
        &mut self,
        version: Version,
        m: FlowMod,
        program: Arc<Program>,
        now: Nanos,
    ) -> Result<Option<Change>, ErrorCode> {
        let peers = |f: &&Flow| f.priority == m.priority;
        if m.flags.has(FlowFlags::CHECK_OVERLAP)
            && self.flows.values().filter(peers).any(|f| overlap(&f.matcher, &m.matcher))
        {
            return Err(ErrorCode::FlowOverlap);
        }
        let before = self.names.get(&(m.priority, m.matcher.clone())).copied();
        let before = before.and_then(|id| self.take(id));
        let kept = match &before {
            Some(b) => b.kept,
            None if self.has_room(&m.matcher) => Kept::InHardware,
            None if self.limits.past == Past::Lost && self.len() < LOST_MAX => Kept::Lost,
            None => return Err(ErrorCode::FlowTableFull),
        };
        let reset = version == Version::V10 || m.flags.has(FlowFlags::RESET_COUNTS);
        let id = before.map_or(self.next, |b| b.id);
        self.next = self.next.max(id + 1);
        let flow = Flow {
            id,
            cookie: m.cookie,
            priority: m.priority,
            idle_timeout: m.idle_timeout,
            hard_timeout: m.hard_timeout,
            flags: m.flags,
            matcher: m.matcher,
            instructions: m.instructions,
            program,
            added: now,
            kept,
            armed: None,
        };
        let change = (kept == Kept::InHardware).then(|| Change::Install {
            id,
            priority: flow.priority,
            matcher: flow.matcher.clone(),
            program: Arc::clone(&flow.program),
            counts: if reset { Counts::Reset } else { Counts::Keep },
        });
        self.enter(flow);
        Ok(change)
    }

    fn has_room(&self, matcher: &Match) -> bool {
        let (kind, limit) = match is_exact(matcher) {
            true => (self.exact, self.limits.exact_entries),
            false => (self.kept - self.exact, self.limits.wildcard_entries),
        };
        self.kept < self.limits.entries && limit.is_none_or(|n| kind < n)
    }

    fn enter(&mut self, flow: Flow) {
        if flow.kept == Kept::InHardware {
            self.kept += 1;
            self.exact += usize::from(is_exact(&flow.matcher));
        }
        self.names.insert((flow.priority, flow.matcher.clone()), flow.id);
        self.flows.insert(flow.id, flow);
    }

    /// Takes a flow out.
    pub(super) fn take(&mut self, id: u64) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        if flow.kept == Kept::InHardware {
            self.kept -= 1;
            self.exact -= usize::from(is_exact(&flow.matcher));
        }
        self.names.remove(&(flow.priority, flow.matcher.clone()));
        Some(flow)
    }
}

/// Flows that are lost without a word are listed, but not without end.
const LOST_MAX: usize = 1_000_000;

/// Whether all that fits `inner` fits `outer`.
fn within(inner: &Match, outer: &Match) -> bool {
    outer.0.iter().all(|o| {
        inner.get(o.field).is_some_and(|i| i.mask & o.mask == o.mask && i.value & o.mask == o.value)
    })
}

/// Whether some frame fits both.
fn overlap(a: &Match, b: &Match) -> bool {
    a.0.iter().all(|x| {
        b.get(x.field).is_none_or(|y| {
            let both = x.mask & y.mask;
            x.value & both == y.value & both
        })
    })
}

/// Whether a match names every header that a frame of its type has: what 1.0 calls exact, the port
/// and the addresses always, those of IP and above it where the type says so.
pub(super) fn is_exact(m: &Match) -> bool {
    use Field::*;
    let all =
        |fields: &[Field]| fields.iter().all(|f| m.get(*f).is_some_and(|e| e.mask == f.full()));
    let value = |f: Field| m.get(f).map_or(0, |e| e.value);
    let ports: &[Field] = match value(IpProto) {
        6 => &[TcpSrc, TcpDst],
        17 => &[UdpSrc, UdpDst],
        132 => &[SctpSrc, SctpDst],
        _ => &[],
    };
    all(&[InPort, EthSrc, EthDst, EthType])
        && match value(EthType) {
            0x0800 => all(&[Ipv4Src, Ipv4Dst, IpProto]) && all(ports),
            0x86dd => all(&[Ipv6Src, Ipv6Dst, IpProto]) && all(ports),
            _ => true,
        }
}
