//! One action result on one frame: 004's bitmap, or a program operation by operation.
//!
//! Room: part of `execute`. What changes frames is in `processing/`, what gives them away in
//! `give`.

use super::context::{Cx, Mark, Next, Shared};
use super::give::give;
use super::pipeline::fail;
use super::set::ActionSet;
use super::{ChannelTo, Egress, InvalidTtl, Note, Subject, apply_paper_bits};
use crate::compile::{ActionResult, Op, Target, bits};
use crate::meter::Verdict;
use crate::packet::{Packet, Stale};
use crate::processing::{self, Change, ttl};
use crate::program::{Origin, Punt};
use weir_packet::{DropReason, Frame, PortId};

/// Carries out one action result.
pub(super) fn carry_out<E: Egress>(
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
        if let (Some((table, [])), None, None) = (r.onward(), r.meter(), r.writes()) {
            return Next::Table(frame, table);
        }
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
pub(super) fn takes(op: &Op, in_port: PortId) -> bool {
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
    // What follows the last taker nobody can see, but for a TTL that is over; without a taker only meters matter.
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
            let rest = ops.get(until + 1..).unwrap_or_default();
            let told = match t.invalid_ttl {
                InvalidTtl::Controller(_) if may_expire(rest, &frame, s) => t.copy(&frame, e),
                _ => None,
            };
            give(op, frame, cx.origin, s, t, cx, e);
            if let Some(copy) = told {
                expire(rest, copy, s, t, cx, e);
            }
            Next::Done
        }
        None if cx.set.is_some() => Next::Set(frame),
        None => {
            e.drop(frame, DropReason::Action, cx.origin);
            Next::Done
        }
    }
}

/// Whether operations that nobody sees may find a TTL that they can't decrement. Where other changes are among them, they are carried out to know.
fn may_expire(ops: &[Op], frame: &Frame, s: &Subject<'_>) -> bool {
    let changes = || ops.iter().filter(|op| matches!(op, Op::Change(_)));
    let decrements = |op: &&Op| matches!(op, Op::Change(Change::DecTtl | Change::DecMplsTtl));
    match changes().filter(decrements).count() {
        0 => false,
        n if n < changes().count() => true,
        n => ttl::outermost(frame, &s.layers).is_some_and(|ttl| usize::from(ttl) <= n),
    }
}

/// Carries out on a copy what stands behind the last taker, for controllers that ask for frames whose TTL is over.
#[cold]
fn expire<E: Egress>(
    ops: &[Op],
    mut copy: Frame,
    s: &mut Subject<'_>,
    t: &mut Shared<'_>,
    cx: &mut Cx,
    e: &mut E,
) {
    let origin = std::mem::replace(&mut cx.origin, Origin::Cloned);
    match ops.iter().try_for_each(|op| change(op, &mut copy, s, t, cx, e)) {
        Err(why) => fail(copy, why, s, t, cx, e),
        Ok(()) => e.drop(copy, DropReason::Action, cx.origin),
    }
    cx.origin = origin;
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
pub(super) fn change<E: Egress>(
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
            processing::metadata::write(*v, *m, p.key);
            Ok(())
        }
        Op::SetQueue(q) => {
            cx.queue = *q;
            Ok(())
        }
        Op::Meter(id) => match t.meters.get_mut(*id) {
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
