//! What was sent to the switch and is not settled: whose each xid is, what to do with its answer, and how to take
//! back what the switch refuses.
//!
//! Room: bookkeeping for one switch. Every xid to the switch is given here, so that no slice can name, evict or
//! answer for another's. Bounded for each slice by [`Ledger::has_room`]; settled in the order of sending by barriers,
//! which the slicer sends by itself where controllers don't.

use super::book::{Flow, FlowId};
use super::covered::Covering;
use super::resume::Asks;
use super::space::SliceId;
use super::switch::ConnId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use weir_openflow::model::{
    ErrorCode, FlowFilter, GroupMod, Instruction, Message, MeterMod, Msg, StatsReply, StatsRequest,
};

/// Messages of a slice's that may be unsettled before it has to wait.
const MOST: usize = 1024;

/// Questions for all of a table that a slice may have open: each answer is made anew, and waits to be read. A connection
/// takes no further ones while answers wait, but those that are on their way already.
const MOST_TABLES: usize = 8;

/// Who asked, and what the answer is to say.
#[derive(Clone, Debug)]
pub struct Asker {
    /// On whose behalf.
    pub slice: SliceId,
    /// By which connection.
    pub conn: ConnId,
    /// Its xid.
    pub xid: u32,
    /// Its message's first bytes, for an error.
    pub head: Vec<u8>,
}

/// A change that a slice asked for: one message of its own, some to the switch.
pub type OpId = u64;

/// How a step of a change is taken back.
#[derive(Debug)]
pub enum Undo {
    /// This flow was added.
    Remove(FlowId),
    /// This one had to go for it.
    Restore(FlowId, Box<Flow>),
    /// This one had these instructions.
    Alter(FlowId, Vec<Instruction>),
    /// This group was as said, or was not there.
    Group(u32, Option<GroupMod>),
    /// This meter.
    Meter(u32, Option<MeterMod>),
}

/// A change.
#[derive(Debug)]
pub struct Op {
    /// Whose.
    pub asker: Asker,
    /// How it is taken back: the last step first.
    pub undo: Vec<Undo>,
    /// Flows that it deleted, whose slice wants to be told.
    pub deaths: Vec<FlowId>,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub enum Ask {
    /// Flows, or their sum, as filtered by the slice; counters gathered so far.
    Flows {
        /// The slice's filter.
        filter: FlowFilter,
        /// Whether each or the sum is wanted.
        sum: Sum,
        /// Packets, bytes, seconds, nanoseconds.
        seen: HashMap<FlowId, Seen>,
    },
    /// Anything else, as the slice asked it, and the last part of the answer so far that said anything.
    Other(StatsRequest, Option<Box<StatsReply>>),
    /// A port's queues.
    Queues,
}

/// Counters of a flow, added up over its rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The longest life.
    pub lived: (u32, u32),
}

/// Each flow, or all in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Flow by flow.
    No,
    /// Added up.
    Yes,
}

/// What an xid stands for.
#[derive(Debug)]
pub enum What {
    /// A part of a change.
    Part(OpId),
    /// Something that has no answer but an error.
    Told(Asker),
    /// A question.
    Asked(Asker, Ask),
    /// A slice's barrier; how often the slice's changes had been taken back when it was sent.
    Barrier(Asker, u64),
    /// What a rule has counted, asked by the slicer before another flow's takes its place.
    Covered(Covering),
    /// The slicer's own barrier.
    OwnBarrier,
    /// The slicer's own question.
    Own,
    /// The slicer's own change, which has no answer but an error.
    OwnChange,
    /// What is at the switch, asked by the slicer itself.
    Compared(Asks),
}

impl What {
    /// Whether its answer may be as long as a table.
    fn asks_table(&self) -> bool {
        matches!(self, What::Asked(_, Ask::Flows { sum: Sum::No, .. }))
    }
}

/// The ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    next_xid: u32,
    next_op: OpId,
    open: HashMap<u32, (Option<SliceId>, What)>,
    /// xids in the order of sending, as far as a barrier settles them.
    order: VecDeque<u32>,
    ops: BTreeMap<OpId, Op>,
    by_slice: HashMap<SliceId, usize>,
    /// Of them questions for all of a table.
    tables: HashMap<SliceId, usize>,
    own_barrier: Option<u32>,
    unsettled: usize,
}

impl Ledger {
    /// Messages of a slice's that are not settled.
    fn open_of(&self, slice: SliceId) -> usize {
        self.by_slice.get(&slice).copied().unwrap_or(0)
    }

    /// Whether more of a slice's may be sent before something is settled.
    pub fn has_room(&self, slice: SliceId) -> bool {
        let tables = self.tables.get(&slice).copied().unwrap_or(0);
        self.open_of(slice) < MOST && tables < MOST_TABLES
    }

    /// Begins a change.
    pub fn begin(&mut self, asker: Asker, undo: Vec<Undo>, deaths: Vec<FlowId>) -> OpId {
        self.next_op += 1;
        self.ops.insert(self.next_op, Op { asker, undo, deaths });
        self.next_op
    }

    /// Sends a message; `what` becomes of what comes back.
    pub fn send(
        &mut self,
        slice: Option<SliceId>,
        what: What,
        body: Message,
        out: &mut Vec<Msg>,
    ) -> u32 {
        // One in use is passed over: there are never as many as there are numbers.
        loop {
            self.next_xid = self.next_xid.wrapping_add(1);
            if !self.open.contains_key(&self.next_xid) {
                break;
            }
        }
        let xid = self.next_xid;
        match &what {
            What::Part(_) | What::Told(_) | What::OwnChange => {
                self.unsettled += 1;
                self.order.push_back(xid);
            }
            What::Barrier(..) | What::OwnBarrier => self.order.push_back(xid),
            What::Asked(..) | What::Covered(_) | What::Own | What::Compared(_) => {}
        }
        if let Some(s) = slice {
            *self.by_slice.entry(s).or_default() += 1;
            *self.tables.entry(s).or_default() += usize::from(what.asks_table());
        }
        self.open.insert(xid, (slice, what));
        out.push(Msg { xid, body });
        xid
    }

    /// Sends a barrier of the slicer's own, where something waits for one.
    pub fn settle(&mut self, out: &mut Vec<Msg>) {
        if self.unsettled > 0 && self.own_barrier.is_none() {
            let xid = self.send(None, What::OwnBarrier, Message::BarrierRequest, out);
            self.own_barrier = Some(xid);
        }
    }

    /// Sends a barrier of the slicer's own, whatever waits: what follows comes after.
    pub fn fence(&mut self, out: &mut Vec<Msg>) {
        let xid = self.send(None, What::OwnBarrier, Message::BarrierRequest, out);
        self.own_barrier = Some(xid);
    }

    /// What an answer is about, which is not the last yet.
    pub fn peek(&mut self, xid: u32) -> Option<&mut What> {
        self.open.get_mut(&xid).map(|(_, w)| w)
    }

    /// What an answer is about; nothing more is expected.
    pub fn close(&mut self, xid: u32) -> Option<What> {
        let (slice, what) = self.open.remove(&xid)?;
        if let Some(n) = slice.and_then(|s| self.by_slice.get_mut(&s)) {
            *n = n.saturating_sub(1);
        }
        if let Some(n) = slice.and_then(|s| self.tables.get_mut(&s)) {
            *n = n.saturating_sub(usize::from(what.asks_table()));
        }
        match what {
            What::Part(_) | What::Told(_) | What::OwnChange => {
                self.unsettled = self.unsettled.saturating_sub(1);
            }
            What::OwnBarrier => self.own_barrier = None,
            _ => {}
        }
        Some(what)
    }

    /// The change that failed, to be taken back; once.
    pub fn fail(&mut self, op: OpId) -> Option<Op> {
        self.ops.remove(&op)
    }

    /// A barrier's reply has come: all that was sent before it is done. Says which changes are.
    pub fn settled(&mut self, barrier: u32) -> Vec<Op> {
        let mut done: Vec<(OpId, Op)> = Vec::new();
        if !self.order.contains(&barrier) {
            return Vec::new();
        }
        while let Some(xid) = self.order.pop_front() {
            if xid == barrier {
                break;
            }
            if let Some((_, What::Part(_) | What::Told(_) | What::OwnChange)) = self.open.get(&xid)
                && let Some(What::Part(op)) = self.close(xid)
            {
                // Its last part goes last, so that later parts may still fail it.
                done.extend(self.ops.remove(&op).map(|o| (op, o)));
            }
        }
        // A change whose other parts stand behind the barrier is not done.
        let waiting: Vec<OpId> = self
            .open
            .values()
            .filter_map(|(_, w)| if let What::Part(op) = w { Some(*op) } else { None })
            .collect();
        let mut settled = Vec::new();
        for (id, op) in done {
            if waiting.contains(&id) {
                self.ops.insert(id, op);
            } else {
                settled.push(op);
            }
        }
        settled
    }
}

/// An error about a slice's message.
pub fn error(asker: &Asker, code: ErrorCode) -> Msg {
    let data = asker.head.clone();
    Msg { xid: asker.xid, body: Message::Error(weir_openflow::model::ErrorMsg { code, data }) }
}
