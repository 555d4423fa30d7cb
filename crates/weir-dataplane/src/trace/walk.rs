//! Runs the executor on copies, and writes down what it does.
//!
//! Room: pure. The frame is a copy in a pool of its own; groups and meters are copies, too; of each
//! table only the rule that wins is copied, so a table of any size costs one lookup. Later tables
//! are found one by one: the executor ends where its copy of a table has no rule, which leaves the
//! key of that lookup; the real table is asked with it, and the executor runs again from the start.

use super::{Fallback, Punted, Step, Surroundings, Traveller};
use crate::action::{Action, Vid};
use crate::compile::{ActionResult, Op, PuntReason};
use crate::edge::PortFlags;
use crate::execute::{self, ChannelTo, Egress, Note, Source, Subject};
use crate::matching::{Entry, RuleSpec, TableSet, Tables};
use crate::processing;
use crate::program::{Origin, Punt};
use crate::userfield::UserFields;
use weir_classify::FlowKey;
use weir_packet::{DropReason, Frame, Nanos, Pool, PoolError, PortId};

/// Frames at hand for copies: as many as can be in the executor's hands at once.
const FRAMES: usize = 2 * execute::MAX_DEPTH as usize;

/// A rule that won, out of its table.
pub struct Hit {
    table: u8,
    pub spec: RuleSpec,
    entry: Entry,
}

/// The rule of table `table` that wins.
pub fn winner(t: &Tables, table: u8, key: &FlowKey) -> Option<Hit> {
    let of = t.tables.get(usize::from(table))?;
    let slot = of.lookup(key)?;
    let entry = of.entry(slot)?.clone();
    let mut spec = None;
    of.for_each(&mut |r| {
        if r.id.0 == slot {
            spec = of.spec(&r.matcher, r.priority, slot);
        }
    });
    Some(Hit { table, spec: spec?, entry })
}

/// Whether the software stage is still to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Software {
    /// Frames sent there take the channel.
    Ahead,
    /// This is it: the first such frame is the program's, later ones end here.
    Here,
}

/// Whose rules are carried out, and where.
pub struct Place<'a> {
    pub vid: Vid,
    pub tables: &'a Tables,
    pub default: &'a ActionResult,
    pub fields: &'a UserFields,
    pub ports: &'a [PortId],
    pub live: &'a dyn Fn(PortId) -> bool,
    /// What the VDP asks of a port.
    pub flags: &'a dyn Fn(PortId) -> PortFlags,
    /// Why its configuration lets nothing out by a port, if it does not.
    pub refused: &'a dyn Fn(PortId) -> Option<DropReason>,
    pub software: Software,
}

/// What the executor did.
pub struct Walked {
    pub steps: Vec<Step>,
    pub punted: Vec<Punted>,
}

/// Runs the executor on copies until every table on the way is known.
pub fn walk(
    place: &Place<'_>,
    first: Option<Hit>,
    it: Traveller<'_>,
    around: &Surroundings,
) -> Result<Walked, PoolError> {
    let mut hits: Vec<Hit> = first.into_iter().collect();
    loop {
        let mut tables = Tables {
            tables: TableSet::default(),
            groups: place.tables.groups.clone(),
            meters: place.tables.meters.clone(),
            ..Tables::default()
        };
        for h in &hits {
            // An empty table has room for a rule.
            let _ = tables.table_mut(h.table).put(&h.spec, h.entry.result.clone());
        }
        let source = match hits.first() {
            Some(h) => Source::Entry { table: h.table, slot: 0 },
            None => Source::Default(0),
        };
        let mut pool = Pool::new(FRAMES, around.chunk_bytes)?;
        let mut key = it.key;
        let mut e = Recorder {
            place,
            around,
            whole: vec![it.bytes.to_vec()],
            notes: Vec::new(),
            punted: Vec::new(),
            missed: None,
            pool: &mut pool,
        };
        let Some(frame) = e.fresh(it.bytes) else {
            // The length was checked when the trace began.
            return Ok(Walked { steps: vec![Step::Dropped(DropReason::NoRoom)], punted: vec![] });
        };
        let mut s = Subject {
            vid: place.vid,
            in_port: it.in_port,
            key: &mut key,
            layers: it.layers,
            fields: place.fields,
        };
        execute::run(source, frame, &mut s, &mut tables, place.default, &mut e);
        let (notes, punted, missed) = (e.notes, e.punted, e.missed);
        let last = hits.last().map(|h| h.table);
        if let Some((n, key)) = missed.filter(|(n, _)| last.is_none_or(|l| *n > l))
            && let Some(next) = winner(place.tables, n, &key)
        {
            hits.push(next);
            continue;
        }
        return Ok(Walked { steps: told(notes, &hits, &tables, place.default), punted });
    }
}

/// What the recorder heard; which actions did it is found out afterwards.
enum Heard {
    Step(Box<Step>),
    /// Changed by the operation at this address; 0: by 004's bitmap.
    Changed(usize, Vec<u8>, Vec<u8>),
    Table(u8, Option<u32>),
}

fn told(notes: Vec<Heard>, hits: &[Hit], tables: &Tables, default: &ActionResult) -> Vec<Step> {
    let mut steps = Vec::with_capacity(notes.len());
    for n in notes {
        let step = match n {
            Heard::Step(s) => *s,
            Heard::Table(table, None) => {
                steps.push(Step::Table { table, rule: None });
                Step::Default(Fallback::of(default))
            }
            Heard::Table(table, Some(_)) => {
                let hit = hits.iter().find(|h| h.table == table);
                Step::Table { table, rule: hit.map(|h| h.spec.clone()) }
            }
            Heard::Changed(op, before, after) => {
                Step::Changed { by: made_by(op, hits, tables), before, after }
            }
        };
        steps.push(step);
    }
    steps
}

/// The actions behind the operation at address `op` of the rules' copies in `tables`; none for one
/// of a group's or a default rule's.
fn made_by(op: usize, hits: &[Hit], tables: &Tables) -> Vec<Action> {
    for h in hits {
        let table = tables.tables.get(usize::from(h.table));
        let copy = table.and_then(|t| t.get(&h.spec.matcher, h.spec.priority));
        let Some(copy) = copy else { continue };
        let actions = h.spec.actions.iter().flat_map(|a| match a {
            Action::WriteActions(w) => w.as_slice(),
            a => std::slice::from_ref(a),
        });
        if op == BITMAP {
            if copy.result.program.is_none() {
                // Everything but outputs.
                let changes = |a: &&Action| processing::compile(a).is_ok_and(|c| c.is_some());
                return actions.filter(changes).cloned().collect();
            }
            continue;
        }
        let Some(Op::Change(made)) = copy.result.ops().find(|o| address(o) == op) else { continue };
        // Equal actions come down to equal changes.
        let made = format!("{made:?}");
        let same = |a: &&Action| {
            processing::compile(a).ok().flatten().is_some_and(|c| format!("{c:?}") == made)
        };
        return actions.filter(same).take(1).cloned().collect();
    }
    Vec::new()
}

/// What stands for the address of an operation where 004's bitmap changed a frame.
const BITMAP: usize = 0;

fn address(op: &Op) -> usize {
    std::ptr::from_ref(op).addr()
}

/// An egress that writes down. The executor gives a copy wholly away before it goes on with the
/// frame it was made of, so the bytes of the frames in its hands form a stack.
struct Recorder<'a> {
    place: &'a Place<'a>,
    around: &'a Surroundings,
    whole: Vec<Vec<u8>>,
    notes: Vec<Heard>,
    punted: Vec<Punted>,
    /// The table that had no rule, if that was the end.
    missed: Option<(u8, FlowKey)>,
    pool: &'a mut Pool,
}

impl Recorder<'_> {
    fn fresh(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut f = self.pool.alloc()?;
        if f.copy_from(bytes).is_err() {
            self.pool.free(f);
            return None;
        }
        Some(f)
    }
    fn step(&mut self, s: Step) {
        self.notes.push(Heard::Step(Box::new(s)));
    }
    /// Ends the frame in hand and says what its bytes were.
    fn end(&mut self, frame: Frame) -> Vec<u8> {
        let bytes = frame.bytes().to_vec();
        self.pool.free(frame);
        // 004's bitmap changes a frame without a note.
        if let Some(before) = self.whole.pop().filter(|b| *b != bytes) {
            self.notes.push(Heard::Changed(BITMAP, before, bytes.clone()));
        }
        bytes
    }
}

impl Egress for Recorder<'_> {
    fn output(&mut self, frame: Frame, port: PortId, queue: u32, _origin: Origin) {
        let frame = self.end(frame);
        let refused = match self.around.ports.iter().find(|p| p.id == port) {
            None => Some(DropReason::NoSuchPort),
            Some(_) if (self.place.refused)(port).is_some() => (self.place.refused)(port),
            Some(p) if !p.up => Some(DropReason::PortDown),
            Some(p) => (frame.len() > p.max_frame_bytes).then_some(DropReason::FrameTooLong),
        };
        self.step(Step::Output { port, frame, queue, refused });
    }
    fn channel(&mut self, frame: Frame, in_port: PortId, to: ChannelTo, _origin: Origin) {
        let bytes = self.end(frame);
        if let ChannelTo::Controller(meta) = to
            && meta.reason == PuntReason::NoMatch
            && (self.place.flags)(in_port).any_of(PortFlags::NO_PACKET_IN)
        {
            return self.step(Step::Dropped(DropReason::PortConfig));
        }
        match (to, self.place.software) {
            (ChannelTo::Program(why), Software::Ahead) => {
                self.step(Step::Software(why));
                self.punted.push(Punted { bytes, why });
            }
            // The server has one frame for programs; further copies end as consumed.
            (ChannelTo::Program(why), Software::Here) if self.punted.is_empty() => {
                self.punted.push(Punted { bytes, why });
            }
            (ChannelTo::Local, Software::Here) if self.punted.is_empty() => {
                self.punted.push(Punted { bytes, why: Punt::Local });
            }
            // No stack of a VDP's own is known here; without one its frames end.
            (ChannelTo::Local, Software::Ahead) => {
                self.step(Step::Dropped(DropReason::NoSuchPort));
            }
            _ => self.step(Step::Consumed(bytes)),
        }
    }
    fn drop(&mut self, frame: Frame, why: DropReason, _origin: Origin) {
        self.end(frame);
        self.step(Step::Dropped(why));
    }
    fn copy(&mut self, of: &Frame) -> Option<Frame> {
        let f = self.fresh(of.bytes())?;
        self.whole.push(of.bytes().to_vec());
        Some(f)
    }
    fn lost_copy(&mut self, _why: DropReason) {
        // What is told is the way of the frames that are there.
    }
    fn ports(&self) -> &[PortId] {
        self.place.ports
    }
    fn floods(&self, port: PortId) -> bool {
        !(self.place.flags)(port).any_of(PortFlags::NO_FLOOD)
    }
    fn is_live(&self, port: PortId) -> bool {
        (self.place.live)(port)
    }
    fn now(&self) -> Nanos {
        self.around.now
    }
    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Changed(op, bytes) => {
                let bytes = bytes.to_vec();
                if let Some(top) = self.whole.last_mut() {
                    let before = std::mem::replace(top, bytes.clone());
                    self.notes.push(Heard::Changed(address(op), before, bytes));
                }
            }
            Note::Metered(id, v) => self.step(Step::Metered(id, v)),
            Note::Group(id, c) => self.step(Step::Group(id, c)),
            Note::Table(n, slot, key) => {
                self.missed = slot.is_none().then_some((n, *key));
                self.notes.push(Heard::Table(n, slot));
            }
        }
    }
}
