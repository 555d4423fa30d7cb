//! Stage 3, action processing: carries out an action result on one frame.
//!
//! Room: called by the worker for frames on the fast path, by the software stage for rules that
//! live there, and by `trace`. Where frames go is the [`Egress`]'s affair, so that one executor
//! serves all three. Function modules that change frames: `processing/`.

use crate::action::Vid;
use crate::compile::{ActionResult, ChannelWhy, Op, PuntMeta, PuntReason, Target, bits};
use crate::group::{Chosen, Group};
use crate::matching::{Entry, Tables};
use crate::meter::{Meter, Verdict};
use crate::packet::{Layers, Packet, Stale};
use crate::processing;
use crate::program::{Origin, Punt};
use crate::userfield::UserFields;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_classify::{Field, FlowKey};
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// Groups inside groups, and tables after tables, are followed this far.
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
    /// A later table was looked up; the slot that won.
    Table(u8, Option<u32>),
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
}

/// What the controllers are told of a rule that sends to them.
#[derive(Clone, Copy)]
struct Mark {
    table: u8,
    cookie: u64,
    reason: PuntReason,
}

impl Mark {
    /// The VDP's default, where table `table` had no rule.
    fn default_of(table: u8) -> Self {
        Self { table, cookie: u64::MAX, reason: PuntReason::NoMatch }
    }
    #[inline]
    fn of(table: u8, e: &Entry) -> Self {
        let miss = bits::PROGRAM | bits::TABLE_MISS;
        let reason = match e.result.bits & miss == miss {
            true => PuntReason::NoMatch,
            false => PuntReason::Action,
        };
        Self { table, cookie: e.cookie, reason }
    }
}

impl Cx {
    fn punt(&self, s: &Subject<'_>, max_len: u16) -> PuntMeta {
        let Mark { table, cookie, reason } = self.rule;
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
}

/// Groups and meters, which change while tables are read.
struct Shared<'a> {
    groups: &'a mut BTreeMap<u32, Group<Arc<ActionResult>>>,
    meters: &'a mut BTreeMap<u32, Meter>,
    /// Copies that this frame may still have.
    copies: u32,
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
    let mut cx = Cx { queue: 0, depth: 0, origin: Origin::Received, stale: Stale::No, rule };
    let Tables { tables, groups, meters, counting } = t;
    let mut shared = Shared { groups, meters, copies: MAX_COPIES };
    let (mut source, mut frame) = (source, frame);
    loop {
        let r = match source {
            Source::Default => Some(default),
            Source::Entry { table, slot } => {
                let e = tables.get(usize::from(table)).and_then(|t| t.entry(slot));
                e.map(|e| {
                    cx.rule = Mark::of(table, e);
                    &e.result
                })
            }
        };
        let Some(r) = r else { return e.drop(frame, DropReason::Miss, cx.origin) };
        if matches!(source, Source::Default) && r.is_to_channel() {
            let to = ChannelTo::Program(Punt::Default);
            return e.channel(frame, s.in_port, to, cx.origin);
        }
        match carry_out(r, frame, s, &mut shared, &mut cx, e) {
            Next::Done => return,
            Next::Table(mut f, n) => {
                let mut p = Packet { frame: &mut f, key: s.key, layers: s.layers, stale: cx.stale };
                if let Err(why) = p.refresh() {
                    return e.drop(f, why, cx.origin);
                }
                (s.layers, cx.stale) = (p.layers, p.stale);
                s.fields.extract(f.bytes(), &s.layers, s.key);
                let table = tables.get_mut(usize::from(n));
                let slot = table.as_ref().and_then(|t| t.lookup(s.key));
                e.note(Note::Table(n, slot));
                source = match (slot, table) {
                    (Some(slot), Some(t)) => {
                        counting.hit(t, n, slot, f.len(), e.now());
                        Source::Entry { table: n, slot }
                    }
                    (_, t) => {
                        counting.miss(t, n);
                        cx.rule = Mark::default_of(n);
                        Source::Default
                    }
                };
                frame = f;
            }
        }
    }
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
        cx.depth += 1;
        if cx.depth > MAX_DEPTH {
            e.drop(frame, DropReason::TooDeep, cx.origin);
            return Next::Done;
        }
        return program(ops, frame, s, t, cx, e);
    }
    if r.bits & bits::FORWARD == 0 {
        e.channel(frame, s.in_port, ChannelTo::Program(Punt::Action), cx.origin);
        return Next::Done;
    }
    match apply_paper_bits(r, &mut frame, s.layers, s.key) {
        // Never back where it came from, unless asked for by name.
        Ok(()) if r.port == s.in_port => e.drop(frame, DropReason::Action, cx.origin),
        Ok(()) => e.output(frame, r.port, cx.queue, cx.origin),
        Err(why) => e.drop(frame, why, cx.origin),
    }
    Next::Done
}

/// Whether an operation takes the frame (a copy, unless it is the last that does).
fn takes(op: &Op, in_port: PortId) -> bool {
    match op {
        Op::Output(Target::Port(p)) => *p != in_port,
        Op::Output(_) | Op::Channel(_) | Op::Group(_) | Op::Goto(_) | Op::Mirror(_) => true,
        Op::Change(_) | Op::SetQueue(_) | Op::Meter(_) | Op::Metadata(..) => false,
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
    let last = ops.iter().rposition(|o| takes(o, s.in_port));
    // What follows the last taker nobody can see; without a taker only meters matter.
    let until = last.unwrap_or(ops.len());
    for op in &ops[..until] {
        match op {
            Op::Change(_) | Op::Metadata(..) | Op::SetQueue(_) | Op::Meter(_) => {
                if let Err(why) = change(op, &mut frame, s, t, cx, e) {
                    e.drop(frame, why, cx.origin);
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
        None => {
            e.drop(frame, DropReason::Action, cx.origin);
            Next::Done
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
        Op::Output(Target::All) => all(frame, origin, s.in_port, cx.queue, t, e),
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

/// By every port of the VDP but the one it came by.
fn all<E: Egress>(
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
        if port == in_port {
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
    let mut cx = Cx { origin, depth: cx.depth + 1, ..*cx };
    match carry_out(r, frame, &mut own, t, &mut cx, e) {
        Next::Done => {}
        // A bucket's actions can't go to a table: OpenFlow has no such action.
        Next::Table(f, _) => e.drop(f, DropReason::Action, origin),
    }
}
