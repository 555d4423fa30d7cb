//! From table to table: lookups, what a table's rule asks for, and the action set where no table
//! follows.
//!
//! Room: part of `execute`. Hands each action result to `program`, and counts each lookup where the
//! path that runs it counts.

use super::context::{Cx, Mark, Next, Reachable, Shared};
use super::give::give;
use super::program::{carry_out, change, takes};
use super::{ChannelTo, Egress, InvalidTtl, Note, Source, Subject};
use crate::compile::{Op, PuntMeta, PuntReason};
use crate::matching::{Counting, TableSet};
use crate::packet::Packet;
use crate::program::{Origin, Punt};
use weir_packet::{DropReason, Frame};

/// Where a frame enters the tables.
pub(super) enum Start {
    /// What it gets is known.
    At(Source),
    /// With a lookup in this table.
    Table(u8),
}

pub(super) fn pipeline<E: Egress>(
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
            Source::Default(_) => {
                // What earlier tables wrote is for frames that are matched.
                cx.set = None;
                Some(default)
            }
            Source::Entry { table, slot } | Source::Carrying { table, slot, .. } => {
                let hit = tables.get(usize::from(table)).and_then(|t| Some((t, t.entry(slot)?)));
                hit.map(|(t, hit)| {
                    cx.rule = Mark::of(t, table, slot, hit);
                    &hit.result
                })
            }
        };
        let Some(r) = r else { return e.drop(frame, DropReason::Miss, cx.origin) };
        if matches!(source, Source::Default(_)) && r.is_to_channel() {
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
    p.refresh_all(s.fields)?;
    (s.layers, cx.stale) = (p.layers, p.stale);
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
            Source::Default(n)
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
    cx.rule = cx.rule.of_none();
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
pub(super) fn fail<E: Egress>(
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
pub(super) fn table_out<E: Egress>(
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
