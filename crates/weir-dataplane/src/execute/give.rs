//! Where a frame or a copy of it goes: ports, channels, groups and their buckets, the tables again.
//!
//! Room: part of `execute`. Every frame given here ends at the [`Egress`] or in the tables.

use super::context::{Cx, Next, Shared};
use super::pipeline::table_out;
use super::program::carry_out;
use super::{ChannelTo, Egress, MAX_DEPTH, Note, Subject};
use crate::compile::{ActionResult, ChannelWhy, Op, Target};
use crate::group::{Chosen, Group, choose};
use crate::processing;
use crate::program::{Origin, Punt};
use weir_packet::{DropReason, Frame, PortId};

/// Gives a frame away as `op` says.
pub(super) fn give<E: Egress>(
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
    let hash = processing::flow_hash(s.key);
    let live = |p: u32| u16::try_from(p).is_ok_and(|p| e.is_live(PortId(p)));
    let Some(chosen) = choose(t.groups, id, hash, frame.len(), &live) else {
        return e.drop(frame, DropReason::GroupEmpty, origin);
    };
    let (first, end) = match chosen {
        Chosen::None => (0, 0),
        Chosen::One(i) => (i, i + 1),
        Chosen::All => (0, t.groups.get(id).map_or(0, Group::len)),
    };
    e.note(Note::Group(id, chosen));
    // The payload is shared, not copied: a nested group may borrow the groups again.
    let nth = |t: &Shared<'_>, i| t.groups.get(id).and_then(|g| g.payload(i)).cloned();
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
    let (queue, depth, stale, rule) = (cx.queue, cx.depth + 1, cx.stale, cx.rule.of_none());
    let mut cx = Cx { queue, depth, origin, stale, rule, set: None };
    match carry_out(r, frame, &mut own, t, &mut cx, e) {
        Next::Done => {}
        // A bucket's actions can't go to a table: OpenFlow has no such action.
        Next::Table(f, _) | Next::Set(f) => e.drop(f, DropReason::Action, origin),
    }
}
