//! Stage 3, action processing: carries out an action result on one frame.
//!
//! Room: called by the worker for frames on the fast path, by the software stage for rules that
//! live there, and by `trace`. Where frames go is the [`Egress`]'s affair, so that one executor
//! serves all three. Function modules that change frames: `processing/`.

mod context;
mod give;
mod pipeline;
mod program;
mod set;

use crate::action::Vid;
use crate::compile::{ActionResult, Op, PuntMeta, PuntReason, bits};
use crate::group::Chosen;
use crate::matching::Tables;
use crate::meter::Verdict;
use crate::packet::{Layers, Packet, Stale};
use crate::processing::mpls::{self, First};
use crate::processing::{self, Change};
use crate::program::{Origin, Punt};
use crate::userfield::UserFields;
use context::{Cx, Mark, Next, Reachable, Shared};
use pipeline::{Start, pipeline};
use program::carry_out;
use set::ActionSet;
use weir_classify::FlowKey;
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
    /// That of a rule, already counted, of a frame that carries the action set as another one wrote it.
    Carrying {
        /// Table number.
        table: u8,
        /// Slot in the table.
        slot: u32,
        /// The other rule.
        writer: Writer,
    },
    /// The VDP's default rule, where this table had none.
    Default(u8),
}

/// A rule that wrote a frame's action set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// Table number.
    pub table: u8,
    /// Slot in the table.
    pub slot: u32,
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
    // A rule's mark is set when it is met.
    let rule = Mark::default_of(match source {
        Source::Default(table) => table,
        Source::Entry { .. } | Source::Carrying { .. } => 0,
    });
    let (origin, stale) = (Origin::Received, Stale::No);
    let Tables { tables, groups, meters, counting, invalid_ttl } = t;
    let set = match source {
        Source::Carrying { writer, .. } => Some(ActionSet::by(writer, tables)),
        _ => None,
    };
    let mut cx = Cx { queue: 0, depth: 0, origin, stale, rule, set };
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

/// Changes a frame as a program says that is nothing but changes and an output ([`bits::STRAIGHT`]).
///
/// # Errors
/// Why the frame must be dropped.
#[inline(always)]
pub fn apply_changes(
    ops: &[Op],
    frame: &mut Frame,
    layers: Layers,
    key: &mut FlowKey,
) -> Result<(), DropReason> {
    let mut p = Packet { frame, key, layers, stale: Stale::No };
    // The swap of a label, in one.
    match ops {
        [Op::Change(Change::MplsEntry(set)), Op::Change(Change::DecMplsTtl), Op::Output(_)] => {
            return mpls::swap(set, First::Set, &mut p);
        }
        [Op::Change(Change::DecMplsTtl), Op::Change(Change::MplsEntry(set)), Op::Output(_)] => {
            return mpls::swap(set, First::Ttl, &mut p);
        }
        _ => {}
    }
    for op in ops {
        if let Op::Change(c) = op {
            processing::apply(c, &mut p)?;
        }
    }
    Ok(())
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
