//! A slice's flows as it believes them to be, and the rules at the switch that make them true.
//!
//! Room: one slice's flow tables; neither messages nor the switch. Whatever changes here comes with the changes
//! at the switch that keep it true ([`Change`]), in their order. Called by `flows`.
//!
//! A flow of the slice is a rule for each piece of its match. Two flows may come to the same rule (what
//! tells them apart lies outside of the flow space); the later covers the earlier, which returns when the
//! later goes (`covered`).

use super::covered::Lived;
use super::cube;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use weir_openflow::model::{
    Action, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, Port, TABLE_ALL,
};

/// A flow, by a number that no other flow of any slice ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u64);

/// One rule of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What of the flow's match.
    pub matcher: Match,
    /// What the switch does with it.
    pub instructions: Vec<Instruction>,
}

/// A flow as its slice knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its table.
    pub table: u8,
    /// Its priority, the slice's and the switch's.
    pub priority: u16,
    /// What the slice asked for.
    pub matcher: Match,
    /// The slice's mark.
    pub cookie: u64,
    /// Its flags, as asked for.
    pub flags: FlowFlags,
    /// Its idle time-out.
    pub idle_timeout: u16,
    /// Its hard time-out.
    pub hard_timeout: u16,
    /// What the slice asked for.
    pub instructions: Vec<Instruction>,
    /// Its rules.
    pub pieces: Vec<Piece>,
    /// Packets and bytes of rules that are gone or covered.
    pub counted: (u64, u64),
    /// How old it was when one of its rules was covered, or went.
    pub lived: Option<Lived>,
    /// When it was asked for, by the slicer's clock; unknown of one from before the slicer came.
    pub since: Option<Duration>,
    /// Rules that are not its own any more, whose end the switch has still to tell.
    pub leaving: Vec<Match>,
}

/// What is to be done at the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Install a flow's rule, in place of any with the same match, table and priority.
    Install(FlowId, Match),
    /// Install a flow's rule in the place of another flow's, which keeps what it has counted.
    Cover {
        /// The flow.
        id: FlowId,
        /// Its rule.
        matcher: Match,
        /// The other.
        of: FlowId,
    },
    /// Give a flow's rule its new instructions.
    Alter(FlowId, Match),
    /// Take a rule away.
    Remove {
        /// From this table.
        table: u8,
        /// With this priority.
        priority: u16,
        /// With this match.
        matcher: Match,
    },
}

/// Which flows are meant, in the slice's own terms (1.0 §3.6, 1.3 §6.4).
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// Of this table, or [`TABLE_ALL`].
    pub table: u8,
    /// Within this match.
    pub matcher: &'a Match,
    /// That output there.
    pub out_port: Port,
    /// That use this group.
    pub out_group: u32,
    /// With this cookie under the mask.
    pub cookie: u64,
    /// Which bits count.
    pub cookie_mask: u64,
}

impl Selection<'_> {
    fn takes(&self, f: &Flow) -> bool {
        (self.table == TABLE_ALL || self.table == f.table)
            && (f.cookie ^ self.cookie) & self.cookie_mask == 0
            && cube::is_within(&f.matcher, self.matcher)
            && (self.out_port == Port::ANY || sends(f, |a| outputs(a, self.out_port)))
            && (self.out_group == GROUP_ANY
                || sends(f, |a| matches!(a, Action::Group(g) if *g == self.out_group)))
    }
}

fn outputs(a: &Action, to: Port) -> bool {
    match a {
        Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == to,
        _ => false,
    }
}

fn sends(f: &Flow, wanted: impl Fn(&Action) -> bool) -> bool {
    f.instructions.iter().any(|i| match i {
        Instruction::Apply(list) | Instruction::Write(list) => list.iter().any(&wanted),
        _ => false,
    })
}

/// A rule at the switch: its table, priority and match.
pub type Key = (u8, u16, Match);

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    flows: BTreeMap<FlowId, Flow>,
    by_key: HashMap<Key, FlowId>,
    /// Whose each rule is: the last stands at the switch.
    rules: HashMap<Key, Vec<FlowId>>,
    pieces: usize,
    /// Flows that came, changed or went since they were asked for.
    touched: Vec<FlowId>,
}

impl Book {
    /// Flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
    /// Rules that they take.
    pub fn pieces(&self) -> usize {
        self.pieces
    }
    /// A flow.
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }
    /// A flow, to be told what its rules have counted.
    pub fn flow_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(&id)
    }
    /// All flows.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.flows.iter().map(|(id, f)| (*id, f))
    }
    /// Rules that stand at the switch, each with the flow that made it.
    pub fn rules(&self) -> impl Iterator<Item = (&Key, FlowId)> {
        self.rules.iter().filter_map(|(key, stack)| Some((key, *stack.last()?)))
    }
    /// Flows that came, changed or went since this was asked.
    pub fn take_touched(&mut self) -> impl Iterator<Item = FlowId> + use<> {
        std::mem::take(&mut self.touched).into_iter()
    }
    /// The flow with exactly this table, priority and match.
    pub fn find(&self, table: u8, priority: u16, matcher: &Match) -> Option<FlowId> {
        self.by_key.get(&(table, priority, matcher.clone())).copied()
    }
    /// Those that are meant.
    pub fn select(&self, s: &Selection<'_>) -> Vec<FlowId> {
        self.flows.iter().filter(|(_, f)| s.takes(f)).map(|(id, _)| *id).collect()
    }
    /// Those that are meant, with exactly the message's match and priority.
    pub fn select_strictly(&self, m: &FlowMod, s: &Selection<'_>) -> Vec<FlowId> {
        let tables: Vec<u8> = match m.table {
            TABLE_ALL => self.tables(),
            t => vec![t],
        };
        let found = tables.into_iter().filter_map(|t| self.find(t, m.priority, &m.matcher));
        found.filter(|id| self.flows.get(id).is_some_and(|f| s.takes(f))).collect()
    }
    fn tables(&self) -> Vec<u8> {
        let all: std::collections::BTreeSet<u8> = self.flows.values().map(|f| f.table).collect();
        all.into_iter().collect()
    }
    /// Whether another flow of the same table and priority overlaps (CHECK_OVERLAP).
    pub fn overlaps(&self, table: u8, priority: u16, matcher: &Match) -> bool {
        self.flows.values().any(|f| {
            f.table == table && f.priority == priority && cube::overlaps(&f.matcher, matcher)
        })
    }

    /// Adds a flow; one with the same key must have been taken out before.
    pub fn add(&mut self, id: FlowId, flow: Flow, changes: &mut Vec<Change>) {
        self.put(id, flow, &[], changes);
    }

    /// Adds a flow, over rules of the one before it in its place that still are at the switch.
    fn put(&mut self, id: FlowId, flow: Flow, over: &[Match], changes: &mut Vec<Change>) {
        self.by_key.insert((flow.table, flow.priority, flow.matcher.clone()), id);
        self.pieces += flow.pieces.len();
        for p in &flow.pieces {
            let key = (flow.table, flow.priority, p.matcher.clone());
            let stack = self.rules.entry(key).or_default();
            let of = stack.last().copied().filter(|_| !over.contains(&p.matcher));
            stack.push(id);
            let matcher = p.matcher.clone();
            changes.push(match of {
                Some(of) => Change::Cover { id, matcher, of },
                None => Change::Install(id, matcher),
            });
        }
        self.flows.insert(id, flow);
        self.touched.push(id);
    }

    /// Takes a flow out.
    pub fn remove(&mut self, id: FlowId, changes: &mut Vec<Change>) -> Option<Flow> {
        self.take(id, &[], changes).map(|(flow, _)| flow)
    }

    /// Has a flow take the place of `old`: rules that they share are overwritten, and go on counting.
    pub fn replace(
        &mut self,
        old: FlowId,
        id: FlowId,
        flow: Flow,
        changes: &mut Vec<Change>,
    ) -> Option<Flow> {
        let (was, left) = self.take(old, &flow.pieces, changes).unzip();
        self.put(id, flow, &left.unwrap_or_default(), changes);
        was
    }

    /// Takes a flow out. Of its rules those that are in `instead`, too, are left at the switch: says which.
    fn take(
        &mut self,
        id: FlowId,
        instead: &[Piece],
        changes: &mut Vec<Change>,
    ) -> Option<(Flow, Vec<Match>)> {
        let flow = self.flows.remove(&id)?;
        self.touched.push(id);
        let key = (flow.table, flow.priority, flow.matcher.clone());
        if self.by_key.get(&key) == Some(&id) {
            self.by_key.remove(&key);
        }
        self.pieces -= flow.pieces.len();
        let mut left = Vec::new();
        for p in &flow.pieces {
            let Some(change) = self.uncover(&flow, id, &p.matcher, Standing::Yes) else { continue };
            if instead.iter().any(|i| i.matcher == p.matcher) {
                left.push(p.matcher.clone());
            } else {
                changes.push(change);
            }
        }
        Some((flow, left))
    }

    /// Gives a flow the rules that its match comes down to now. Those that it had before go on counting, with their
    /// time; what it does not have any more is told by the switch when it has gone ([`Flow::leaving`]).
    pub fn reshape(&mut self, id: FlowId, pieces: Vec<Piece>, changes: &mut Vec<Change>) {
        let Some(was) = self.flows.get(&id).cloned() else { return };
        let mut leaving = Vec::new();
        for p in was.pieces.iter().filter(|p| !has(&pieces, &p.matcher)) {
            let change = self.uncover(&was, id, &p.matcher, Standing::Yes);
            if matches!(change, Some(Change::Remove { .. })) {
                leaving.push(p.matcher.clone());
            }
            changes.extend(change);
        }
        for p in &pieces {
            let key = (was.table, was.priority, p.matcher.clone());
            let stack = self.rules.entry(key).or_default();
            let matcher = p.matcher.clone();
            if has(&was.pieces, &p.matcher) {
                if stack.last() == Some(&id) && !was.pieces.contains(p) {
                    changes.push(Change::Alter(id, matcher));
                }
                continue;
            }
            // Below those that were asked for later.
            let of = stack.last().copied();
            let at = stack.iter().rposition(|i| *i < id).map_or(0, |i| i + 1);
            stack.insert(at, id);
            match of {
                Some(later) if later > id => {}
                Some(of) => changes.push(Change::Cover { id, matcher, of }),
                None => changes.push(Change::Install(id, matcher)),
            }
        }
        if let Some(f) = self.flows.get_mut(&id) {
            self.pieces = self.pieces - was.pieces.len() + pieces.len();
            f.pieces = pieces;
            f.leaving.extend(leaving);
            self.touched.push(id);
        }
    }

    /// What flows have come down to says nothing of what is at the switch: nobody's end is waited for.
    pub fn forget_leaving(&mut self) {
        self.flows.values_mut().for_each(|f| f.leaving.clear());
    }

    /// A rule is gone from the switch. The flow's last one takes the flow along.
    pub fn gone(
        &mut self,
        id: FlowId,
        matcher: &Match,
        counted: (u64, u64),
        changes: &mut Vec<Change>,
    ) -> Option<Flow> {
        let f = self.flows.get_mut(&id)?;
        let at = f.pieces.iter().position(|p| p.matcher == *matcher)?;
        f.pieces.swap_remove(at);
        self.pieces -= 1;
        f.count(counted.0, counted.1);
        let f = f.clone();
        changes.extend(self.uncover(&f, id, matcher, Standing::No));
        if f.pieces.is_empty() { self.remove(id, changes) } else { None }
    }

    /// A flow's time is over, which its rule of this match has told: no covered one comes back.
    pub fn over(&mut self, id: FlowId, told: &Match) {
        let Some(f) = self.flows.get(&id) else { return };
        let (table, priority) = (f.table, f.priority);
        let mut gone = Vec::new();
        for m in f.pieces.iter().map(|p| &p.matcher).filter(|m| *m != told) {
            let Some(stack) = self.rules.get_mut(&(table, priority, m.clone())) else { continue };
            if stack.last() != Some(&id) {
                stack.retain(|i| *i != id);
                gone.push(m.clone());
            }
        }
        if let Some(f) = self.flows.get_mut(&id) {
            f.pieces.retain(|p| !gone.contains(&p.matcher));
            self.pieces -= gone.len();
        }
    }

    /// Takes a flow off a rule's stack: what becomes of the rule.
    fn uncover(&mut self, f: &Flow, id: FlowId, m: &Match, stands: Standing) -> Option<Change> {
        let key = (f.table, f.priority, m.clone());
        let stack = self.rules.get_mut(&key)?;
        let at = stack.iter().rposition(|i| *i == id)?;
        stack.remove(at);
        let was_top = at == stack.len();
        let next = stack.last().copied();
        if next.is_none() {
            self.rules.remove(&key);
        }
        match next {
            _ if !was_top => None,
            Some(next) if stands == Standing::No => Some(Change::Install(next, m.clone())),
            Some(next) => Some(Change::Cover { id: next, matcher: m.clone(), of: id }),
            None if stands == Standing::No => None,
            None => Some(Change::Remove { table: f.table, priority: f.priority, matcher: key.2 }),
        }
    }

    /// Gives a flow other instructions; `pieces` are its rules with theirs. Says what it had.
    pub fn alter(
        &mut self,
        id: FlowId,
        instructions: Vec<Instruction>,
        pieces: Vec<Piece>,
        changes: &mut Vec<Change>,
    ) -> Option<(Vec<Instruction>, Vec<Piece>)> {
        let f = self.flows.get_mut(&id)?;
        let old = std::mem::replace(&mut f.instructions, instructions);
        let old_pieces = std::mem::replace(&mut f.pieces, pieces);
        let (table, priority) = (f.table, f.priority);
        self.touched.push(id);
        for p in &f.pieces {
            let key = (table, priority, p.matcher.clone());
            if self.rules.get(&key).and_then(|r| r.last()) == Some(&id) {
                changes.push(Change::Alter(id, p.matcher.clone()));
            }
        }
        Some((old, old_pieces))
    }
}

fn has(pieces: &[Piece], m: &Match) -> bool {
    pieces.iter().any(|p| p.matcher == *m)
}

/// Whether a rule is still at the switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Yes,
    No,
}
