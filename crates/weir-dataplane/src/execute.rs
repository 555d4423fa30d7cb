//! Stage 3, action processing: carries out an action result on one frame.
//!
//! Room: called by the worker for frames on the fast path, by the software stage for rules that
//! live there, and by `trace`. Where frames go is the [`Egress`]'s affair, so that one executor
//! serves all three. Function modules that change frames: `processing/`.

mod set;

use crate::action::Vid;
use crate::compile::{ActionResult, ChannelWhy, Op, PuntMeta, PuntReason, Target, bits};
use crate::group::{Chosen, Group};
use crate::matching::{Counting, Entry, TableSet, Tables};
use crate::meter::{Meter, Verdict};
use crate::packet::{Layers, Packet, Stale};
use crate::processing;
use crate::program::{Origin, Punt};
use crate::userfield::UserFields;
use set::ActionSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_classify::{Field, FlowKey};
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// Groups inside groups are followed this far.
pub const MAX_DEPTH: u8 = 32;

/// Copies that one frame may become, all its outputs and groups together: a VDP's rules can
/// multiply its frames, but not take the worker's region.
pub const MAX_COPIES: u32 = 1024;

/// Where the frames of a VDP go. Every frame given here is accounted for by the implementation.
pub trait Egress {
    /// Out by a port.
    fn output(&mut self, frame: Frame, port: PortId, queue: u32, origin: Origin);
    /// To the VDP's slow path.
    fn channel(&mut self, frame: Frame, in_port: PortId, why: ChannelTo, origin: Origin);
    /// Nowhere.
    fn drop(&mut self, frame: Frame, why: DropReason, origin: Origin);
    /// A copy, counted as dropped for want of a frame when there is none.
    fn copy(&mut self, of: &Frame) -> Option<Frame>;
    /// Counts a copy that could not be made as made and dropped, so that its loss shows.
    fn lost_copy(&mut self, why: DropReason);
    /// The VDP's ports.
    fn ports(&self) -> &[PortId];
    /// Whether a port takes part in flooding.
    fn floods(&self, _port: PortId) -> bool {
        true
    }
    /// Whether a port can send.
    fn is_live(&self, port: PortId) -> bool;
    /// The worker's time.
    fn now(&self) -> Nanos;
    /// Told of each step; only `trace` listens.
    #[inline(always)]
    fn note(&mut self, _step: Note<'_>) {}
}

/// Which door of the software stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelTo {
    /// To the VDP's program, for this reason.
    Program(Punt),
    /// To the VDP's controllers.
    Controller(PuntMeta),
    /// To the VDP's own stack.
    Local,
}

/// A step of the executor, for `trace`.
#[derive(Debug)]
pub enum Note<'a> {
    /// A frame was changed by this operation.
    Changed(&'a Op, &'a [u8]),
    /// A meter let it pass, remarked or dropped it.
    Metered(u32, Verdict),
    /// A group chose these buckets.
    Group(u32, Chosen),
    /// A later table was looked up with this key; the slot that won.
    Table(u8, Option<u32>, &'a FlowKey),
}

/// What the executor needs to know of the frame beside the frame.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Its VDP.
    pub vid: Vid,
    /// The port it came by.
    pub in_port: PortId,
    /// Its flow key.
    pub key: &'a mut FlowKey,
    /// Its headers.
    pub layers: Layers,
    /// The VDP's own fields, to be cut out again before a later table.
    pub fields: &'a UserFields,
}

/// What becomes of frames whose TTL can't be decremented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidTtl {
    /// They end.
    #[default]
    Drop,
    /// They go to the controllers, at most so many bytes (OpenFlow 1.3, §A.4.1, OFPR_INVALID_TTL).
    Controller(u16),
}

/// Which action result to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// That of a rule, already counted.
    Entry {
        /// Table number.
        table: u8,
        /// Slot in the table.
        slot: u32,
    },
    /// The VDP's default rule.
    Default,
}

/// What holds for the whole way of one frame.
struct Cx {
    queue: u32,
    depth: u8,
    origin: Origin,
    stale: Stale,
    /// The rule that is carried out.
    rule: Mark,
    /// What is carried out where no table follows; buckets have none.
    set: Option<ActionSet>,
}

/// What the controllers are told of a rule that sends to them.
#[derive(Clone, Copy)]
struct Mark {
    table: u8,
    /// [`NO_SLOT`] for what is no rule.
    slot: u32,
    cookie: u64,
    reason: PuntReason,
}

/// No table has this slot.
const NO_SLOT: u32 = u32::MAX;

impl Mark {
    /// The VDP's default, where table `table` had no rule.
    fn default_of(table: u8) -> Self {
        Self { table, slot: NO_SLOT, cookie: u64::MAX, reason: PuntReason::NoMatch }
    }
    #[inline]
    fn of(table: u8, slot: u32, e: &Entry) -> Self {
        let miss = bits::PROGRAM | bits::TABLE_MISS;
        let reason = match e.result.bits & miss == miss {
            true => PuntReason::NoMatch,
            false => PuntReason::Action,
        };
        Self { table, slot, cookie: e.cookie, reason }
    }
}

impl Cx {
    fn punt(&self, s: &Subject<'_>, max_len: u16) -> PuntMeta {
        let Mark { table, cookie, reason, .. } = self.rule;
        // Neither is wider than 64 bits.
        let metadata = s.key.get(Field::Metadata) as u64;
        let tunnel_id = s.key.get(Field::TunnelId) as u64;
        PuntMeta { reason, table, cookie, max_len, metadata, tunnel_id }
    }
}

/// How a program ended.
enum Next {
    /// The frame is gone.
    Done,
    /// It goes on with this table.
    Table(Frame, u8),
    /// No table follows, and there is an action set to carry out.
    Set(Frame),
}

/// Groups and meters, which change while tables are read.
struct Shared<'a> {
    groups: &'a mut BTreeMap<u32, Group<Arc<ActionResult>>>,
    meters: &'a mut BTreeMap<u32, Meter>,
    /// Copies that this frame may still have.
    copies: u32,
    /// Where frames go whose TTL can't be decremented.
    invalid_ttl: InvalidTtl,
    /// For outputs to the tables: only a packet-out has them.
    tables: Option<Reachable<'a>>,
}

/// The tables, for who may send to them.
struct Reachable<'a> {
    tables: &'a mut TableSet,
    counting: &'a Counting,
    default: &'a ActionResult,
}

impl Shared<'_> {
    /// A copy, while the frame's budget lasts.
    fn copy<E: Egress>(&mut self, of: &Frame, e: &mut E) -> Option<Frame> {
        let Some(left) = self.copies.checked_sub(1) else {
            e.lost_copy(DropReason::TooDeep);
            return None;
        };
        self.copies = left;
        e.copy(of)
    }
}

/// Carries out an action result on `frame`, through as many tables and groups as it names.
#[inline]
pub fn run<E: Egress>(
    source: Source,
    frame: Frame,
    s: &mut Subject<'_>,
    t: &mut Tables,
    default: &ActionResult,
    e: &mut E,
) {
    let rule = Mark::default_of(0);
    let (origin, stale) = (Origin::Received, Stale::No);
    let mut cx = Cx { queue: 0, depth: 0, origin, stale, rule, set: None };
    let Tables { tables, groups, meters, counting, invalid_ttl } = t;
    let invalid_ttl = *invalid_ttl;
    let mut shared = Shared { groups, meters, copies: MAX_COPIES, invalid_ttl, tables: None };
    let way = Reachable { tables, counting, default };
    pipeline(Start::At(source), frame, s, way, &mut shared, &mut cx, e);
}

/// Carries out the actions of a packet-out, which `r` comes down to, on a frame of the VDP's own.
pub fn packet_out<E: Egress>(
    r: &ActionResult,
    frame: Frame,
    s: &mut Subject<'_>,
    t: &mut Tables,
    default: &ActionResult,
    e: &mut E,
) {
    let rule = Mark { reason: PuntReason::Action, ..Mark::default_of(0) };
    let (origin, stale) = (Origin::Generated, Stale::No);
    let mut cx = Cx { queue: 0, depth: 0, origin, stale, rule, set: None };
    let Tables { tables, groups, meters, counting, invalid_ttl } = t;
    let tables = Some(Reachable { tables, counting, default });
    let invalid_ttl = *invalid_ttl;
    let mut shared = Shared { groups, meters, copies: MAX_COPIES, invalid_ttl, tables };
    match carry_out(r, frame, s, &mut shared, &mut cx, e) {
        Next::Done => {}
        // It has neither: `compile_packet_out`.
        Next::Table(f, _) | Next::Set(f) => e.drop(f, DropReason::Action, origin),
    }
}

/// Where a frame enters the tables.
enum Start {
    /// What it gets is known.
    At(Source),
    /// With a lookup in this table.
    Table(u8),
}

fn pipeline<E: Egress>(
    start: Start,
    frame: Frame,
    s: &mut Subject<'_>,
    way: Reachable<'_>,
    shared: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) {
    let Reachable { tables, counting, default } = way;
    let (mut start, mut frame) = (start, frame);
    loop {
        let source = match start {
            Start::At(source) => source,
            Start::Table(n) => match lookup(n, &mut frame, s, tables, counting, cx, e) {
                Ok(source) => source,
                Err(why) => return e.drop(frame, why, cx.origin),
            },
        };
        let r = match source {
            Source::Default => {
                // What earlier tables wrote is for frames that are matched.
                cx.set = None;
                Some(default)
            }
            Source::Entry { table, slot } => {
                let hit = tables.get(usize::from(table)).and_then(|t| t.entry(slot));
                hit.map(|hit| {
                    cx.rule = Mark::of(table, slot, hit);
                    &hit.result
                })
            }
        };
        let Some(r) = r else { return e.drop(frame, DropReason::Miss, cx.origin) };
        if matches!(source, Source::Default) && r.is_to_channel() {
            let to = ChannelTo::Program(Punt::Default);
            return e.channel(frame, s.in_port, to, cx.origin);
        }
        match carry_out(r, frame, s, shared, cx, e) {
            Next::Done => return,
            Next::Table(f, n) => (start, frame) = (Start::Table(n), f),
            Next::Set(f) => return action_set(f, tables, s, shared, cx, e),
        }
    }
}

/// Looks a frame up in table `n`, and counts it there.
fn lookup<E: Egress>(
    n: u8,
    f: &mut Frame,
    s: &mut Subject<'_>,
    tables: &mut TableSet,
    counting: &Counting,
    cx: &mut Cx,
    e: &mut E,
) -> Result<Source, DropReason> {
    let mut p = Packet { frame: f, key: s.key, layers: s.layers, stale: cx.stale };
    p.refresh()?;
    (s.layers, cx.stale) = (p.layers, p.stale);
    s.fields.extract(f.bytes(), &s.layers, s.key);
    let table = tables.get_mut(usize::from(n));
    let slot = table.as_ref().and_then(|t| t.lookup(s.key));
    e.note(Note::Table(n, slot, s.key));
    Ok(match (slot, table) {
        (Some(slot), Some(t)) => {
            counting.hit(t, n, slot, f.len(), e.now());
            Source::Entry { table: n, slot }
        }
        (_, t) => {
            counting.miss(t, n);
            cx.rule = Mark::default_of(n);
            Source::Default
        }
    })
}

/// Carries out the frame's action set (§5.10).
fn action_set<E: Egress>(
    mut frame: Frame,
    tables: &TableSet,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) {
    let Some(set) = cx.set.take() else {
        return e.drop(frame, DropReason::Action, cx.origin);
    };
    for op in set.ops(tables) {
        match op {
            Op::Mirror(_) => {
                if let Some(copy) = t.copy(&frame, e) {
                    give(op, copy, Origin::Cloned, s, t, cx, e);
                }
            }
            // The last: there is one of them.
            op if takes(op, s.in_port) => return give(op, frame, cx.origin, s, t, cx, e),
            op => {
                if let Err(why) = change(op, &mut frame, s, t, cx, e) {
                    return fail(frame, why, s, t, cx, e);
                }
            }
        }
    }
    e.drop(frame, DropReason::Action, cx.origin);
}

/// Ends a frame that an action refused.
#[cold]
fn fail<E: Egress>(
    frame: Frame,
    why: DropReason,
    s: &Subject<'_>,
    t: &Shared<'_>,
    cx: &Cx,
    e: &mut E,
) {
    match (why, t.invalid_ttl) {
        (DropReason::TtlExpired, InvalidTtl::Controller(max_len)) => {
            let reason = PuntReason::InvalidTtl;
            let to = ChannelTo::Controller(PuntMeta { reason, ..cx.punt(s, max_len) });
            e.channel(frame, s.in_port, to, cx.origin);
        }
        _ => e.drop(frame, why, cx.origin),
    }
}

/// A frame of a packet-out through the tables. What it meets there, actions behind do not see.
fn table_out<E: Egress>(
    frame: Frame,
    origin: Origin,
    s: &Subject<'_>,
    t: &mut Shared<'_>,
    cx: &Cx,
    e: &mut E,
) {
    let Some(way) = t.tables.take() else {
        return e.drop(frame, DropReason::Action, origin);
    };
    let mut key = *s.key;
    let mut own = Subject { key: &mut key, ..*s };
    let rule = Mark::default_of(0);
    let mut own_cx = Cx { queue: 0, depth: 0, origin, stale: cx.stale, rule, set: None };
    let Reachable { tables, counting, default } = way;
    let again = Reachable { tables: &mut *tables, counting, default };
    pipeline(Start::Table(0), frame, &mut own, again, t, &mut own_cx, e);
    t.tables = Some(Reachable { tables, counting, default });
}

/// Applies 004's bitmap to a frame: MAC addresses and TTL.
///
/// # Errors
/// [`DropReason::TtlExpired`].
#[inline(always)]
pub fn apply_paper_bits(
    r: &ActionResult,
    frame: &mut Frame,
    layers: Layers,
    key: &mut FlowKey,
) -> Result<(), DropReason> {
    const MACS: u8 = bits::CHANGE_MAC | bits::SRC_ONLY | bits::DST_ONLY;
    if r.bits & bits::TTL != 0 {
        let mut p = Packet { frame, key, layers, stale: Stale::No };
        processing::ttl::decrement(&mut p)?;
    }
    if r.bits & MACS != 0
        && let Some(h) = frame.bytes_mut().first_chunk_mut::<12>()
    {
        if r.bits & bits::CHANGE_MAC != 0 {
            *h = r.macs;
        } else if r.bits & bits::DST_ONLY != 0 {
            h[..6].copy_from_slice(&r.macs[..6]);
        } else {
            h[6..].copy_from_slice(&r.macs[6..]);
        }
    }
    Ok(())
}

fn carry_out<E: Egress>(
    r: &ActionResult,
    mut frame: Frame,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) -> Next {
    if r.bits & bits::DROP != 0 {
        e.drop(frame, DropReason::Action, cx.origin);
        return Next::Done;
    }
    if let Some(ops) = &r.program {
        return program(ops, frame, s, t, cx, e);
    }
    if r.bits & bits::FORWARD == 0 {
        let to = ChannelTo::Program(Punt::Action);
        if cx.set.is_none() {
            e.channel(frame, s.in_port, to, cx.origin);
            return Next::Done;
        }
        if let Some(copy) = t.copy(&frame, e) {
            e.channel(copy, s.in_port, to, Origin::Cloned);
        }
        return Next::Set(frame);
    }
    if let Err(why) = apply_paper_bits(r, &mut frame, s.layers, s.key) {
        fail(frame, why, s, t, cx, e);
        return Next::Done;
    }
    if cx.set.is_some() {
        cx.stale = Stale::Yes;
        if r.port != s.in_port
            && let Some(copy) = t.copy(&frame, e)
        {
            e.output(copy, r.port, cx.queue, Origin::Cloned);
        }
        return Next::Set(frame);
    }
    // Never back where it came from, unless asked for by name.
    if r.port == s.in_port {
        e.drop(frame, DropReason::Action, cx.origin);
    } else {
        e.output(frame, r.port, cx.queue, cx.origin);
    }
    Next::Done
}

/// Whether an operation takes the frame (a copy, unless it is the last that does).
fn takes(op: &Op, in_port: PortId) -> bool {
    match op {
        Op::Output(Target::Port(p)) => *p != in_port,
        Op::Output(_) | Op::Channel(_) | Op::Group(_) | Op::Goto(_) | Op::Mirror(_) => true,
        Op::Change(_) | Op::SetQueue(_) | Op::Meter(_) | Op::Metadata(..) => false,
        Op::Clear | Op::Write(_) | Op::Nothing => false,
    }
}

fn program<E: Egress>(
    ops: &[Op],
    mut frame: Frame,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) -> Next {
    if let [Op::Clear | Op::Write(_), ..] = ops {
        write_set(ops, cx);
    }
    let last = match ops.last() {
        Some(Op::Goto(_)) => Some(ops.len() - 1),
        // The action set comes after all of these.
        _ if cx.set.is_some() => None,
        _ => ops.iter().rposition(|o| takes(o, s.in_port)),
    };
    // What follows the last taker nobody can see; without a taker only meters matter.
    let until = last.unwrap_or(ops.len());
    for op in &ops[..until] {
        match op {
            Op::Change(_) | Op::Metadata(..) | Op::SetQueue(_) | Op::Meter(_) => {
                if let Err(why) = change(op, &mut frame, s, t, cx, e) {
                    fail(frame, why, s, t, cx, e);
                    return Next::Done;
                }
            }
            _ if !takes(op, s.in_port) => {}
            _ => {
                if let Some(copy) = t.copy(&frame, e) {
                    give(op, copy, Origin::Cloned, s, t, cx, e);
                }
            }
        }
    }
    match last.and_then(|l| ops.get(l)) {
        Some(Op::Goto(n)) => Next::Table(frame, *n),
        Some(op) => {
            give(op, frame, cx.origin, s, t, cx, e);
            Next::Done
        }
        None if cx.set.is_some() => Next::Set(frame),
        None => {
            e.drop(frame, DropReason::Action, cx.origin);
            Next::Done
        }
    }
}

/// Changes the action set as a program's first operations say.
#[cold]
fn write_set(ops: &[Op], cx: &mut Cx) {
    for op in ops {
        match op {
            Op::Clear => cx.set = None,
            Op::Write(w) => {
                let Mark { table, slot, .. } = cx.rule;
                cx.set.get_or_insert_with(ActionSet::new).write(w, table, slot);
            }
            _ => return,
        }
    }
}

/// An operation that leaves the frame where it is.
fn change<E: Egress>(
    op: &Op,
    frame: &mut Frame,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) -> Result<(), DropReason> {
    let len = frame.len();
    let mut p = Packet { frame, key: s.key, layers: s.layers, stale: cx.stale };
    let done = match op {
        Op::Change(c) => processing::apply(c, &mut p),
        Op::Metadata(v, m) => {
            let old = p.key.get(Field::Metadata) as u64;
            p.key.set(Field::Metadata, u128::from(old & !m | v & m));
            Ok(())
        }
        Op::SetQueue(q) => {
            cx.queue = *q;
            Ok(())
        }
        Op::Meter(id) => match t.meters.get_mut(id) {
            None => Ok(()),
            Some(m) => {
                let v = m.pass(e.now(), len);
                e.note(Note::Metered(*id, v));
                match v {
                    Verdict::Pass => Ok(()),
                    Verdict::Drop => Err(DropReason::Meter),
                    Verdict::Remark(levels) => processing::set_tos::remark(levels, &mut p),
                }
            }
        },
        _ => Ok(()),
    };
    (s.layers, cx.stale) = (p.layers, p.stale);
    if matches!(op, Op::Change(_)) {
        e.note(Note::Changed(op, frame.bytes()));
    }
    done
}

/// Gives a frame away as `op` says.
fn give<E: Egress>(
    op: &Op,
    frame: Frame,
    origin: Origin,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) {
    match op {
        Op::Output(Target::Port(p)) | Op::Mirror(p) => e.output(frame, *p, cx.queue, origin),
        Op::Output(Target::InPort) => e.output(frame, s.in_port, cx.queue, origin),
        Op::Output(to @ (Target::All | Target::Flood)) => {
            all(*to, frame, origin, s.in_port, cx.queue, t, e);
        }
        Op::Output(Target::Table) => table_out(frame, origin, s, t, cx, e),
        Op::Channel(why) => {
            let to = match why {
                ChannelWhy::Action => ChannelTo::Program(Punt::Action),
                ChannelWhy::Normal => ChannelTo::Program(Punt::Normal),
                ChannelWhy::Controller(max_len) => ChannelTo::Controller(cx.punt(s, *max_len)),
                ChannelWhy::Local => ChannelTo::Local,
            };
            e.channel(frame, s.in_port, to, origin);
        }
        Op::Group(id) => group(*id, frame, origin, s, t, cx, e),
        _ => e.drop(frame, DropReason::Action, origin),
    }
}

/// By every port of the VDP, or every one that takes part in flooding, but the one it came by.
fn all<E: Egress>(
    to: Target,
    frame: Frame,
    origin: Origin,
    in_port: PortId,
    queue: u32,
    t: &mut Shared<'_>,
    e: &mut E,
) {
    let mut last = None;
    for i in 0..e.ports().len() {
        let Some(&port) = e.ports().get(i) else { break };
        if port == in_port || to == Target::Flood && !e.floods(port) {
            continue;
        }
        if let Some(before) = last.replace(port)
            && let Some(copy) = t.copy(&frame, e)
        {
            e.output(copy, before, queue, Origin::Cloned);
        }
    }
    match last {
        Some(port) => e.output(frame, port, queue, origin),
        None => e.drop(frame, DropReason::NoSuchPort, origin),
    }
}

/// By a group (OpenFlow 1.3, §5.6.1). Its buckets work on copies: what they change, the actions
/// behind the group do not see.
fn group<E: Egress>(
    id: u32,
    frame: Frame,
    origin: Origin,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) {
    if cx.depth >= MAX_DEPTH {
        return e.drop(frame, DropReason::TooDeep, origin);
    }
    let Some(g) = t.groups.get_mut(&id) else {
        return e.drop(frame, DropReason::GroupEmpty, origin);
    };
    let hash = processing::flow_hash(s.key);
    let live = |p: u32| u16::try_from(p).is_ok_and(|p| e.is_live(PortId(p)));
    let chosen = g.choose(hash, frame.len(), &live);
    let (first, end) = match chosen {
        Chosen::None => (0, 0),
        Chosen::One(i) => (i, i + 1),
        Chosen::All => (0, g.len()),
    };
    e.note(Note::Group(id, chosen));
    // The payload is shared, not copied: a nested group may borrow the groups again.
    let nth = |t: &Shared<'_>, i| t.groups.get(&id).and_then(|g| g.payload(i)).cloned();
    for i in first..end.saturating_sub(1) {
        if let (Some(b), Some(copy)) = (nth(t, i), t.copy(&frame, e)) {
            bucket(&b, copy, Origin::Cloned, s, t, cx, e);
        }
    }
    match (first < end).then(|| nth(t, end - 1)).flatten() {
        Some(b) => bucket(&b, frame, origin, s, t, cx, e),
        None => e.drop(frame, DropReason::GroupEmpty, origin),
    }
}

fn bucket<E: Egress>(
    r: &ActionResult,
    frame: Frame,
    origin: Origin,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &Cx,
    e: &mut E,
) {
    let mut key = *s.key;
    let mut own = Subject {
        vid: s.vid,
        in_port: s.in_port,
        key: &mut key,
        layers: s.layers,
        fields: s.fields,
    };
    let (queue, depth, stale, rule) = (cx.queue, cx.depth + 1, cx.stale, cx.rule);
    let mut cx = Cx { queue, depth, origin, stale, rule, set: None };
    match carry_out(r, frame, &mut own, t, &mut cx, e) {
        Next::Done => {}
        // A bucket's actions can't go to a table: OpenFlow has no such action.
        Next::Table(f, _) | Next::Set(f) => e.drop(f, DropReason::Action, origin),
    }
}
