//! The table that frames meet, and the queue of changes to it, each of which takes its time.
//!
//! Room: between `book` (what is to be) and `forward` (what is). Time is an argument; costs are the
//! profile's. One change is carried out at a time, in order, unless the profile reorders them.

use super::book::{Change, Counts, Flow};
use super::header::Layers;
use super::lateness::Late;
use super::profile::{Order, Update};
use super::program::Program;
use super::random::Random;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_openflow::model::{Field, Match, RemovedReason};
use weir_packet::Nanos;

/// Changes that may wait before the agent reads no further.
pub(super) const QUEUE: usize = 65_536;

/// An entry of the table.
#[derive(Debug)]
struct Entry {
    id: u64,
    priority: u16,
    /// The most telling field first.
    tests: Vec<(Field, u128, u128)>,
    program: Arc<Program>,
    /// Being modified: frames pass it by.
    absent: bool,
}

/// What an entry counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) last: Nanos,
    /// What was counted before the period of `epoch`, for who reads counters only now and then.
    seen: (u64, u64),
    epoch: u64,
}

/// Something in the queue.
#[derive(Debug)]
pub(super) enum Op {
    Change(Change),
    /// A barrier of this connection with this xid: done when all before it is.
    Barrier(u32, u32),
}

/// What came of an op.
#[derive(Debug)]
pub(super) enum Done {
    Removed(Box<Flow>, RemovedReason, Usage),
    Barrier(u32, u32),
}

/// The op being carried out.
#[derive(Debug)]
struct Current {
    change: Change,
    at: Nanos,
    cost: Nanos,
    /// When a modified entry vanishes.
    gap_at: Option<Nanos>,
}

/// The table and its queue.
#[derive(Debug)]
pub(super) struct Hardware {
    costs: Update,
    stale: Nanos,
    entries: Vec<Entry>,
    usage: HashMap<u64, Usage>,
    /// Fields that some entry tests, with their number of tests.
    fields: [usize; Field::COUNT],
    waiting: VecDeque<Op>,
    current: Option<Current>,
    /// Other work keeps it from starting until then.
    held_until: Nanos,
    /// A change that has just been begun: when, and how long it takes.
    pub(super) begun: Option<(Nanos, Nanos)>,
    pub(super) late: Late,
    random: Random,
}

impl Hardware {
    pub(super) fn new(costs: Update, stale: Nanos, random: Random) -> Self {
        Self {
            costs,
            stale,
            entries: Vec::new(),
            usage: HashMap::new(),
            fields: [0; Field::COUNT],
            waiting: VecDeque::new(),
            current: None,
            held_until: Nanos(0),
            begun: None,
            late: Late::default(),
            random,
        }
    }

    /// Whether the agent may read on.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < QUEUE
    }

    /// Queues an op at `now`.
    pub(super) fn push(&mut self, op: Op, now: Nanos) {
        let idle = self.current.is_none() && self.waiting.is_empty();
        if idle && matches!(op, Op::Change(_)) {
            self.held_until = self.held_until.max(now) + self.costs.start_us.nanos();
        }
        self.waiting.push_back(op);
    }

    /// Other work takes `time` from it.
    pub(super) fn hold(&mut self, time: Nanos, now: Nanos) {
        match &mut self.current {
            Some(c) => {
                c.at = c.at + time;
                c.gap_at = c.gap_at.map(|t| t + time);
            }
            None => self.held_until = self.held_until.max(now) + time,
        }
    }

    /// When something is due.
    pub(super) fn due(&self) -> Option<Nanos> {
        match &self.current {
            Some(c) => Some(c.gap_at.unwrap_or(c.at)),
            None if self.waiting.is_empty() => None,
            None => Some(self.held_until),
        }
    }

    /// Does the next thing that is due at `now` or before. `None`: nothing was.
    pub(super) fn step(&mut self, now: Nanos) -> Option<Option<Done>> {
        let due = self.due().filter(|t| *t <= now)?;
        if let Some(c) = &mut self.current {
            if c.gap_at.take().is_some() {
                let id = c.change.id();
                if let Some(e) = self.entries.iter_mut().find(|e| e.id == id) {
                    e.absent = true;
                }
                return Some(None);
            }
            let Current { change, at, cost, .. } = self.current.take()?;
            if cost.0 > 0 {
                self.late.done(at, now);
            }
            self.held_until = at;
            return Some(self.apply(change));
        }
        match self.pick()? {
            Op::Barrier(conn, xid) => Some(Some(Done::Barrier(conn, xid))),
            Op::Change(change) => {
                let cost = self.cost(&change);
                self.begun = Some((due, cost));
                let gap = match change {
                    Change::Modify { .. } => self.costs.modify_gap_us.nanos(),
                    _ => Nanos(0),
                };
                let at = due + Nanos(cost.0.max(gap.0));
                let gap_at = (gap.0 > 0).then(|| at - gap);
                self.current = Some(Current { change, at, cost, gap_at });
                Some(None)
            }
        }
    }

    /// The next op: the first, or any of the first few that no barrier and no earlier change of the
    /// same flow stands before.
    fn pick(&mut self) -> Option<Op> {
        let window = self.waiting.iter().take(self.costs.reorder_window.max(1));
        let changes = window.take_while(|op| matches!(op, Op::Change(_))).count();
        let mut at = self.random.below(changes);
        let id = |op: &Op| match op {
            Op::Change(c) => Some(c.id()),
            Op::Barrier(..) => None,
        };
        let chosen = self.waiting.get(at).and_then(id);
        if let Some(earlier) = self.waiting.iter().take(at).position(|op| id(op) == chosen) {
            at = earlier;
        }
        self.waiting.remove(at)
    }

    fn cost(&self, change: &Change) -> Nanos {
        let u = &self.costs;
        let from = |past: Option<super::profile::PastEntries>, usual: super::profile::Micros| {
            let past = past.filter(|p| self.entries.len() >= p.entries);
            past.map_or(usual, |p| p.us).nanos()
        };
        match change {
            Change::Install { priority, .. } => {
                let moved = match u.shift {
                    None => 0,
                    Some(s) => match s.dear {
                        Order::Ascending => {
                            let before = self.entries.partition_point(|e| e.priority >= *priority);
                            self.entries.len() - before
                        }
                        Order::Descending => {
                            self.entries.partition_point(|e| e.priority > *priority)
                        }
                    },
                };
                let each = u.shift.map_or(0, |s| s.us.nanos().0);
                from(u.insert_past, u.insert_us) + Nanos(each.saturating_mul(moved as u64))
            }
            Change::Modify { .. } => from(u.modify_past, u.modify_us),
            Change::Remove { .. } => u.delete_us.nanos(),
        }
    }

    fn apply(&mut self, change: Change) -> Option<Done> {
        match change {
            Change::Install { id, priority, matcher, program, counts } => {
                if counts == Counts::Reset {
                    self.usage.remove(&id);
                }
                let tests = tests(&matcher);
                match self.place(id, priority) {
                    Ok(at) => {
                        self.entries[at].program = program;
                        self.entries[at].absent = false;
                    }
                    Err(at) => {
                        tests.iter().for_each(|(f, ..)| self.fields[*f as usize] += 1);
                        let entry = Entry { id, priority, tests, program, absent: false };
                        self.entries.insert(at, entry);
                    }
                }
                None
            }
            Change::Modify { id, priority, program, counts } => {
                if let Ok(at) = self.place(id, priority) {
                    self.entries[at].program = program;
                    self.entries[at].absent = false;
                }
                if counts == Counts::Reset {
                    self.usage.remove(&id);
                }
                None
            }
            Change::Remove { flow, why } => {
                let usage = self.forget(flow.id, flow.priority);
                Some(Done::Removed(flow, why, usage))
            }
        }
    }

    /// Where an entry is, or would be: priorities fall, ids rise.
    fn place(&self, id: u64, priority: u16) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&(Reverse(priority), id), |e| (Reverse(e.priority), e.id))
    }

    /// Takes an entry out at once, with all that is still to be done to it.
    pub(super) fn expire(&mut self, id: u64, priority: u16) -> Usage {
        self.waiting.retain(|op| !matches!(op, Op::Change(c) if c.id() == id));
        if self.current.as_ref().is_some_and(|c| c.change.id() == id) {
            self.current = None;
        }
        self.forget(id, priority)
    }

    fn forget(&mut self, id: u64, priority: u16) -> Usage {
        if let Ok(at) = self.place(id, priority) {
            let entry = self.entries.remove(at);
            entry.tests.iter().for_each(|(f, ..)| self.fields[*f as usize] -= 1);
        }
        self.usage.remove(&id).unwrap_or_default()
    }

    /// What a frame does: the id and program of the first entry that it fits.
    pub(super) fn look_up(&self, frame: &[u8], in_port: u32) -> Option<(u64, Arc<Program>)> {
        let layers = Layers::of(frame)?;
        let mut key = [None; Field::COUNT];
        for field in Field::all().filter(|f| self.fields[*f as usize] > 0) {
            key[field as usize] = layers.read(frame, in_port, field);
        }
        let fits = |e: &&Entry| {
            let test = |(f, value, mask): &(Field, u128, u128)| {
                key[*f as usize].is_some_and(|v| v & mask == *value)
            };
            !e.absent && e.tests.iter().all(test)
        };
        self.entries.iter().find(fits).map(|e| (e.id, Arc::clone(&e.program)))
    }

    /// Counts a frame of an entry.
    pub(super) fn count(&mut self, id: u64, bytes: usize, now: Nanos) {
        let epoch = self.epoch(now);
        let u = self.usage.entry(id).or_default();
        if u.epoch != epoch {
            (u.seen, u.epoch) = ((u.packets, u.bytes), epoch);
        }
        u.packets += 1;
        u.bytes += bytes as u64;
        u.last = now;
    }

    /// Periods after which counters are read anew.
    fn epoch(&self, now: Nanos) -> u64 {
        now.0.checked_div(self.stale.0).unwrap_or(0)
    }

    /// What statistics tell of an entry: packets and bytes.
    pub(super) fn told(&self, id: u64, now: Nanos) -> (u64, u64) {
        match self.usage.get(&id) {
            None => (0, 0),
            Some(u) if self.stale.0 > 0 && u.epoch == self.epoch(now) => u.seen,
            Some(u) => (u.packets, u.bytes),
        }
    }

    /// When an entry was used last.
    pub(super) fn last_used(&self, id: u64) -> Nanos {
        self.usage.get(&id).map_or(Nanos(0), |u| u.last)
    }
}

/// A match as tests, the fields of the upper layers first: they differ most often.
fn tests(m: &Match) -> Vec<(Field, u128, u128)> {
    let mut tests: Vec<_> = m.0.iter().map(|e| (e.field, e.value, e.mask)).collect();
    tests.reverse();
    tests
}
