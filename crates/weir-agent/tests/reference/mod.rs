//! The reference switch: written from the specification for whoever wants to read it, slow, without
//! an index, a batch or a data plane. It says what a switch answers and where each frame goes.
//!
//! Knows a part of OpenFlow: matches on a dozen fields, the common actions, groups of every kind,
//! meters that only count, queue 7 of port 2, 1.3's tables and instructions, 1.0's flow_mods, several
//! controllers with their roles.

pub mod packet;
mod pipeline;
mod roles;
pub mod select;

use weir_openflow::model::*;

#[derive(Clone, Debug)]
pub struct Flow {
    pub m: FlowMod,
    pub added: u64,
    pub used: u64,
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub id: u32,
    pub kind: GroupKind,
    pub buckets: Vec<Bucket>,
    pub packets: u64,
    pub bytes: u64,
    pub each: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub struct Meter {
    pub id: u32,
    pub packets: u64,
    pub bytes: u64,
}

/// The switch. Time in milliseconds.
#[derive(Clone, Debug)]
pub struct Reference {
    pub ports: u32,
    pub tables: u8,
    pub max_flows: usize,
    pub now: u64,
    pub flows: Vec<Flow>,
    pub groups: Vec<Group>,
    pub meters: Vec<Meter>,
    pub lookups: Vec<(u64, u64)>,
    pub controllers: roles::Controllers,
    pub select: select::Script,
}

/// The only queue: its port and its number.
const QUEUE: (u32, u32) = (2, 7);

/// Reserved ports that flows may output to here.
const RESERVED: [Port; 4] = [Port::IN_PORT, Port::ALL, Port::FLOOD, Port::CONTROLLER];

/// What is said of flows that are gone: those that were to be told of.
pub type Removed = Vec<(RemovedReason, Flow)>;

impl Reference {
    pub fn new(ports: u32, tables: u8, max_flows: usize) -> Self {
        Reference {
            ports,
            tables,
            max_flows,
            now: 0,
            flows: vec![],
            groups: vec![],
            meters: vec![],
            lookups: vec![(0, 0); tables.into()],
            controllers: roles::Controllers::default(),
            select: select::Script::default(),
        }
    }

    fn remove(&mut self, why: RemovedReason, which: impl Fn(&Flow) -> bool) -> Removed {
        let (gone, rest) = self.flows.drain(..).partition(|f| which(f));
        self.flows = rest;
        let told: Vec<Flow> = gone;
        let told = told.into_iter().filter(|f| f.m.flags.has(FlowFlags::SEND_FLOW_REM));
        told.map(|f| (why, f)).collect()
    }

    /// 1.3 §6.4, 1.0 §4.6.
    pub fn flow_mod(&mut self, version: Version, m: &FlowMod) -> Result<Removed, ErrorCode> {
        let deletes = matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if m.table >= self.tables && !(deletes && m.table == TABLE_ALL) {
            return Err(ErrorCode::FlowBadTableId);
        }
        if !deletes {
            self.check_instructions(m)?;
        }
        let old = version == Version::V10;
        let strict = matches!(m.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let named = |f: &Flow| -> bool {
            let table = m.table == TABLE_ALL || f.m.table == m.table;
            let which = match strict {
                true => f.m.matcher == m.matcher && f.m.priority == m.priority,
                false => within(&f.m.matcher, &m.matcher),
            };
            let cookie = old || f.m.cookie & m.cookie_mask == m.cookie & m.cookie_mask;
            let port = !deletes || m.out_port == Port::ANY || outputs(&f.m, m.out_port);
            let group = !deletes
                || old
                || m.out_group == GROUP_ANY
                || groups_of(&f.m).contains(&m.out_group);
            table && which && cookie && port && group
        };
        match m.command {
            FlowCommand::Add => self.add(old, m).map(|()| vec![]),
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                Ok(self.remove(RemovedReason::Delete, named))
            }
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                if old && !self.flows.iter().any(&named) {
                    return self.add(old, m).map(|()| vec![]);
                }
                for f in self.flows.iter_mut().filter(|f| named(f)) {
                    f.m.instructions = m.instructions.clone();
                    if old {
                        f.m.cookie = m.cookie;
                    }
                    if m.flags.has(FlowFlags::RESET_COUNTS) {
                        (f.packets, f.bytes) = (0, 0);
                    }
                }
                Ok(vec![])
            }
        }
    }

    fn add(&mut self, old: bool, m: &FlowMod) -> Result<(), ErrorCode> {
        let peer = |f: &&Flow| f.m.table == m.table && f.m.priority == m.priority;
        if m.flags.has(FlowFlags::CHECK_OVERLAP)
            && self.flows.iter().filter(peer).any(|f| overlap(&f.m.matcher, &m.matcher))
        {
            return Err(ErrorCode::FlowOverlap);
        }
        let same = |f: &Flow| peer(&f) && f.m.matcher == m.matcher;
        let before = self.flows.iter().position(same);
        if before.is_none() && self.flows.len() >= self.max_flows {
            return Err(ErrorCode::FlowTableFull);
        }
        let mut flow = Flow { m: m.clone(), added: self.now, used: self.now, packets: 0, bytes: 0 };
        let Some(i) = before else {
            self.flows.push(flow);
            return Ok(());
        };
        // In its old place: which of two flows of equal priority wins is nobody's promise, and the
        // older does here.
        if !old && !m.flags.has(FlowFlags::RESET_COUNTS) {
            (flow.packets, flow.bytes) = (self.flows[i].packets, self.flows[i].bytes);
        }
        self.flows[i] = flow;
        Ok(())
    }

    fn check_instructions(&self, m: &FlowMod) -> Result<(), ErrorCode> {
        for i in &m.instructions {
            match i {
                Instruction::Meter(id) if !self.meters.iter().any(|m| m.id == *id) => {
                    return Err(ErrorCode::MeterUnknownMeter);
                }
                Instruction::Apply(list) | Instruction::Write(list) => self.check_actions(list)?,
                Instruction::GotoTable(t) if *t <= m.table || *t >= self.tables => {
                    return Err(ErrorCode::InstBadTableId);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_actions(&self, list: &[Action]) -> Result<(), ErrorCode> {
        for a in list {
            match a {
                Action::Output { port, .. } => {
                    let there = port.0 >= 1 && port.0 <= self.ports;
                    if !there && !RESERVED.contains(port) {
                        return Err(ErrorCode::ActionBadOutPort);
                    }
                }
                Action::Group(id) if !self.groups.iter().any(|g| g.id == *id) => {
                    return Err(ErrorCode::ActionBadOutGroup);
                }
                Action::Enqueue { port, .. } if port.0 < 1 || port.0 > self.ports => {
                    return Err(ErrorCode::ActionBadOutPort);
                }
                // 0 is the queue that every port has.
                Action::Enqueue { port, queue } if *queue != 0 && (port.0, *queue) != QUEUE => {
                    return Err(ErrorCode::ActionBadQueue);
                }
                Action::SetQueue(q) if *q != 0 && *q != QUEUE.1 => {
                    return Err(ErrorCode::ActionBadQueue);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// 1.3 §6.5.
    pub fn group_mod(&mut self, m: &GroupMod) -> Result<Removed, ErrorCode> {
        let at = self.groups.iter().position(|g| g.id == m.id);
        if m.command == GroupCommand::Delete {
            let all = m.id == GROUP_ALL;
            if !all && at.is_none() {
                return Ok(vec![]);
            }
            let leads =
                |g: &Group| g.buckets.iter().any(|b| b.actions.contains(&Action::Group(m.id)));
            if !all && self.groups.iter().any(leads) {
                return Err(ErrorCode::GroupChained);
            }
            let uses = |f: &Flow| match all {
                true => !groups_of(&f.m).is_empty(),
                false => groups_of(&f.m).contains(&m.id),
            };
            let gone = self.remove(RemovedReason::GroupDelete, uses);
            self.groups.retain(|g| !all && g.id != m.id);
            return Ok(gone);
        }
        match (m.command, at) {
            (GroupCommand::Add, Some(_)) => return Err(ErrorCode::GroupExists),
            (GroupCommand::Modify, None) => return Err(ErrorCode::GroupUnknown),
            _ => {}
        }
        if m.kind == GroupKind::Indirect && m.buckets.len() != 1 {
            return Err(ErrorCode::GroupInvalid);
        }
        for b in &m.buckets {
            if m.kind != GroupKind::Select && b.weight != 0 {
                return Err(ErrorCode::GroupInvalid);
            }
            if b.actions.contains(&Action::Group(m.id)) {
                return Err(ErrorCode::GroupLoop);
            }
            self.check_actions(&b.actions)?;
        }
        let group = Group {
            id: m.id,
            kind: m.kind,
            buckets: m.buckets.clone(),
            packets: 0,
            bytes: 0,
            each: vec![(0, 0); m.buckets.len()],
        };
        let mut then = self.groups.clone();
        then.retain(|g| g.id != m.id);
        then.push(group);
        if loops(&then, m.id, m.id, 0) {
            return Err(ErrorCode::GroupLoop);
        }
        self.groups = then;
        Ok(vec![])
    }

    /// 1.3 §7.3.4.4, for meters without bands.
    pub fn meter_mod(&mut self, m: &MeterMod) -> Result<Removed, ErrorCode> {
        let there = self.meters.iter().any(|o| o.id == m.id);
        let fresh = Meter { id: m.id, packets: 0, bytes: 0 };
        match m.command {
            MeterCommand::Add if there => return Err(ErrorCode::MeterExists),
            MeterCommand::Modify if !there => return Err(ErrorCode::MeterUnknownMeter),
            MeterCommand::Add | MeterCommand::Modify => {
                self.meters.retain(|o| o.id != m.id);
                self.meters.push(fresh);
            }
            MeterCommand::Delete => {
                let all = m.id == METER_ALL;
                self.meters.retain(|o| !all && o.id != m.id);
                let uses = |f: &Flow| {
                    f.m.instructions.iter().any(|i| match i {
                        Instruction::Meter(n) => all || *n == m.id,
                        _ => false,
                    })
                };
                return Ok(self.remove(RemovedReason::Delete, uses));
            }
        }
        Ok(vec![])
    }

    /// Time goes on; flows that have run out are gone (1.3 §5.5).
    pub fn pass(&mut self, millis: u64) -> Removed {
        self.now += millis;
        let now = self.now;
        let hard =
            |f: &Flow| (f.m.hard_timeout > 0).then(|| f.added + 1000 * u64::from(f.m.hard_timeout));
        let idle =
            |f: &Flow| (f.m.idle_timeout > 0).then(|| f.used + 1000 * u64::from(f.m.idle_timeout));
        let over = |t: Option<u64>| t.is_some_and(|t| t <= now);
        let by_hard = |f: &Flow| over(hard(f)) && idle(f).is_none_or(|i| hard(f).unwrap() <= i);
        let mut gone = self.remove(RemovedReason::HardTimeout, by_hard);
        gone.extend(self.remove(RemovedReason::IdleTimeout, |f| over(idle(f)) || over(hard(f))));
        gone
    }

    /// How often flows and groups lead to a group.
    pub fn references(&self, id: u32) -> u32 {
        let flows = self.flows.iter().filter(|f| groups_of(&f.m).contains(&id)).count();
        let leads = |g: &&Group| g.buckets.iter().any(|b| b.actions.contains(&Action::Group(id)));
        (flows + self.groups.iter().filter(leads).count()) as u32
    }
}

fn loops(groups: &[Group], from: u32, to: u32, depth: usize) -> bool {
    let Some(g) = groups.iter().find(|g| g.id == from) else { return false };
    depth < groups.len()
        && g.buckets.iter().flat_map(|b| &b.actions).any(|a| match a {
            Action::Group(n) => *n == to || loops(groups, *n, to, depth + 1),
            _ => false,
        })
}

fn actions(m: &FlowMod) -> impl Iterator<Item = &Action> {
    m.instructions.iter().flat_map(|i| match i {
        Instruction::Apply(a) | Instruction::Write(a) => &a[..],
        _ => &[],
    })
}

fn outputs(m: &FlowMod, to: Port) -> bool {
    actions(m).any(|a| match a {
        Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == to,
        _ => false,
    })
}

fn groups_of(m: &FlowMod) -> Vec<u32> {
    let of = |a: &Action| match a {
        Action::Group(g) => Some(*g),
        _ => None,
    };
    actions(m).filter_map(of).collect()
}

/// Whether all that fits `inner` fits `outer`.
fn within(inner: &Match, outer: &Match) -> bool {
    outer.0.iter().all(|o| {
        inner.get(o.field).is_some_and(|i| i.mask & o.mask == o.mask && i.value & o.mask == o.value)
    })
}

impl Reference {
    /// Whether frames may fit two flows of one priority, of which OpenFlow leaves open which one takes them.
    pub fn leaves_open(&self) -> bool {
        self.flows.iter().enumerate().any(|(i, f)| {
            let like = |o: &&Flow| (o.m.table, o.m.priority) == (f.m.table, f.m.priority);
            let mut others = self.flows.iter().take(i).filter(like);
            others.any(|o| overlap(&o.m.matcher, &f.m.matcher))
        })
    }
}

fn overlap(a: &Match, b: &Match) -> bool {
    a.0.iter().all(|x| {
        b.get(x.field).is_none_or(|y| {
            let both = x.mask & y.mask;
            x.value & both == y.value & both
        })
    })
}
