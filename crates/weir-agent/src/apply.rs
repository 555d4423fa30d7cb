//! Gathered changes, carried out on the data plane in their order, with the book of flows along.
//!
//! Room: runs inside a closure of the data plane, between two bursts; the rules and the book change
//! together or not at all. Errors and removals are collected and told afterwards. Made by `flow_mod`
//! and `packet_out`, called by [`crate::Switch`]'s flush.

use crate::flows::{Filter, Flows, Identity, NewFlow};
use crate::request::Asker;
use std::sync::Arc;
use weir_classify::Match as Keys;
use weir_dataplane::{
    Action, CompileError, ControlError, DataPlane, Placement, RuleSpec, Usage, Vid,
};
use weir_openflow::model::{ErrorCode, FlowFlags, FlowRemoved, Port, RemovedReason, Version};
use weir_packet::Nanos;

/// One gathered change.
#[derive(Debug)]
pub(crate) enum Job {
    Flow(Box<FlowJob>),
    Send(Frame),
}

/// What to do to one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Add,
    ModifyStrict,
    DeleteStrict,
}

/// A change of one flow; all that could be checked before has been.
#[derive(Debug)]
pub(crate) struct FlowJob {
    pub asker: Asker,
    pub command: Command,
    pub id: Identity,
    pub keys: Keys,
    pub filter: Filter,
    pub cookie: u64,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub flags: FlowFlags,
    /// Counted for this job; none for a delete.
    pub behaviour: Option<u32>,
}

/// A frame to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub asker: Asker,
    pub in_port: Port,
    pub bytes: Vec<u8>,
    pub actions: Vec<Action>,
}

/// What came of changes.
#[derive(Debug)]
pub(crate) enum Event {
    Refused(Box<Asker>, ErrorCode),
    Removed(Box<FlowRemoved>),
    /// A packet-out found no free frame.
    Lost,
}

/// What changes are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub vid: Vid,
    pub placement: Placement,
    pub max_flows: u32,
    pub now: Nanos,
}

/// Carries out `jobs`, in order.
pub(crate) fn run(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    jobs: &mut Vec<Job>,
    events: &mut Vec<Event>,
) {
    // Frames that follow one another go together.
    let mut frames = Vec::new();
    for job in jobs.drain(..) {
        match job {
            Job::Flow(j) => {
                send(dp, set, &mut frames, events);
                let asker = j.asker;
                if let Err(code) = flow(dp, set, flows, *j, events) {
                    events.push(Event::Refused(Box::new(asker), code));
                }
            }
            Job::Send(f) => frames.push(f),
        }
    }
    send(dp, set, &mut frames, events);
}

fn send(dp: &mut DataPlane, set: Setting, frames: &mut Vec<Frame>, events: &mut Vec<Event>) {
    if frames.is_empty() {
        return;
    }
    for (i, code) in crate::dp::send(dp, set.vid, frames) {
        match (frames.get(i), code) {
            (Some(f), Some(code)) => events.push(Event::Refused(Box::new(f.asker), code)),
            _ => events.push(Event::Lost),
        }
    }
    frames.clear();
}

fn flow(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    job: FlowJob,
    events: &mut Vec<Event>,
) -> Result<(), ErrorCode> {
    let there = flows.find(&job.id);
    let meant = there.filter(|i| {
        flows.get(*i).is_some_and(|f| job.filter.admits(f, flows.behaviours.get(f.behaviour)))
    });
    let add = match (job.command, job.asker.version) {
        (Command::Add, _) => true,
        // 1.0 §4.6: a modify that finds nothing adds.
        (Command::ModifyStrict, Version::V10) => there.is_none(),
        _ => false,
    };
    let done = match (job.command, meant, job.behaviour) {
        (Command::DeleteStrict, meant, _) => {
            if let Some(i) = meant {
                remove(dp, set, flows, &[i], RemovedReason::Delete, events);
            }
            flows.forget(job.id);
            return Ok(());
        }
        (_, _, Some(behaviour)) if add => {
            return put(dp, set, flows, job, there, behaviour);
        }
        (_, Some(i), Some(behaviour)) => {
            let cookie = (job.asker.version == Version::V10).then_some(job.cookie);
            change(dp, set, flows, i, &job.keys, Change { behaviour, cookie, flags: job.flags })
        }
        (_, _, Some(unused)) => {
            flows.behaviours.release(unused);
            Ok(())
        }
        (_, _, None) => Ok(()),
    };
    flows.forget(job.id);
    done
}

/// Adds a flow, or puts it in the place of the one with the same match and priority.
fn put(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    job: FlowJob,
    there: Option<u32>,
    behaviour: u32,
) -> Result<(), ErrorCode> {
    let spec = RuleSpec {
        matcher: job.keys,
        priority: job.id.priority.into(),
        cookie: job.cookie,
        actions: actions_of(flows, behaviour),
    };
    let table = job.id.table;
    let full = there.is_none() && flows.len() >= set.max_flows as usize;
    let rule = match full {
        true => Err(ErrorCode::FlowTableFull),
        false => dp.place_rule(set.vid, table, &spec, set.placement).map_err(code_of),
    };
    let rule = match rule {
        Ok((_, rule)) => rule,
        Err(code) => {
            flows.behaviours.release(behaviour);
            flows.forget(job.id);
            return Err(code);
        }
    };
    let reset = job.asker.version == Version::V10 || job.flags.has(FlowFlags::RESET_COUNTS);
    if there.is_some() && reset {
        // The rule was just put there.
        let _ = dp.reset_rule(set.vid, table, &spec.matcher, spec.priority);
    }
    let new = NewFlow {
        cookie: job.cookie,
        created: set.now,
        behaviour,
        rule,
        idle_timeout: job.idle_timeout,
        hard_timeout: job.hard_timeout,
        flags: job.flags,
    };
    match there {
        Some(i) => {
            flows.replace(i, new);
            flows.forget(job.id);
        }
        None => {
            flows.insert(job.id, new);
        }
    }
    Ok(())
}

fn actions_of(flows: &Flows, behaviour: u32) -> Arc<[Action]> {
    flows.behaviours.get(behaviour).map(|b| Arc::clone(&b.actions)).unwrap_or_default()
}

/// What a modify changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// Counted for this change.
    pub behaviour: u32,
    /// 1.0 gives a flow the new cookie.
    pub cookie: Option<u64>,
    pub flags: FlowFlags,
}

/// Gives a flow that is there another behaviour.
///
/// # Errors
/// As the data plane says; the flow is as before.
pub(crate) fn change(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    i: u32,
    keys: &Keys,
    to: Change,
) -> Result<(), ErrorCode> {
    let actions = actions_of(flows, to.behaviour);
    let Some(f) = flows.get(i) else {
        flows.behaviours.release(to.behaviour);
        return Ok(());
    };
    let cookie = to.cookie.unwrap_or(f.cookie);
    let (table, priority) = (f.table, f.priority.into());
    let spec = RuleSpec { matcher: *keys, priority, cookie, actions };
    let rule = match dp.place_rule(set.vid, table, &spec, set.placement) {
        Ok((_, rule)) => rule,
        Err(e) => {
            flows.behaviours.release(to.behaviour);
            return Err(code_of(e));
        }
    };
    if to.flags.has(FlowFlags::RESET_COUNTS) {
        // The rule was just put there.
        let _ = dp.reset_rule(set.vid, table, keys, priority);
    }
    flows.set_behaviour(i, to.behaviour);
    if let Some(f) = flows.get_mut(i) {
        (f.cookie, f.rule) = (cookie, rule);
    }
    Ok(())
}

/// Takes flows out, with their last counters, and tells those who asked for it.
pub(crate) fn remove(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    which: &[u32],
    reason: RemovedReason,
    events: &mut Vec<Event>,
) {
    let mut usage = Vec::with_capacity(1);
    for i in which {
        let Some(f) = flows.get(*i) else { continue };
        let tell = f.flags().has(FlowFlags::SEND_FLOW_REM);
        usage.clear();
        if tell {
            // The VDP is there as long as its switch; else nothing was counted.
            let _ = dp.usage(set.vid, &[f.rule], &mut usage);
        }
        let Some((f, m)) = flows.remove(*i) else { continue };
        let keys = crate::matches::keys(&m);
        // It is in the book, so it is there.
        let _ = dp.remove_rule(set.vid, f.table, &keys, f.priority.into());
        if !tell {
            continue;
        }
        let used = usage.first().copied().unwrap_or_default();
        let (packets, bytes) = counts(f.flags(), used);
        let (duration_sec, duration_nsec) = duration(set.now, f.created);
        events.push(Event::Removed(Box::new(FlowRemoved {
            cookie: f.cookie,
            priority: f.priority,
            reason,
            table: f.table,
            duration_sec,
            duration_nsec,
            idle_timeout: f.idle_timeout,
            hard_timeout: f.hard_timeout,
            packets,
            bytes,
            matcher: m,
        })));
    }
}

/// A flow's counters as they are told: all ones where it is not counted (1.3 §7.3.5.2).
pub(crate) fn counts(flags: FlowFlags, used: Usage) -> (u64, u64) {
    let shown = |flag, n| if flags.has(flag) { u64::MAX } else { n };
    (shown(FlowFlags::NO_PKT_COUNTS, used.frames), shown(FlowFlags::NO_BYT_COUNTS, used.bytes))
}

/// Time from `since` to `now`: whole seconds, and nanoseconds beyond them.
pub(crate) fn duration(now: Nanos, since: Nanos) -> (u32, u32) {
    let n = now.since(since).0;
    let secs = u32::try_from(n / 1_000_000_000).unwrap_or(u32::MAX);
    (secs, (n % 1_000_000_000) as u32)
}

/// The error for what the data plane refuses.
pub(crate) fn code_of(e: ControlError) -> ErrorCode {
    match e {
        ControlError::Tcam(_) | ControlError::Table(_) => ErrorCode::FlowTableFull,
        ControlError::Match(_) => ErrorCode::MatchBadPrereq,
        ControlError::Actions(e) => match e {
            CompileError::NoSuchPort(_) => ErrorCode::ActionBadOutPort,
            CompileError::Change(_) => ErrorCode::ActionBadSetArgument,
            CompileError::Goto { .. } => ErrorCode::InstBadTableId,
            CompileError::TooMany(_) => ErrorCode::ActionTooMany,
            CompileError::Missing { what: "meter", .. } => ErrorCode::MeterUnknownMeter,
            CompileError::Missing { .. } => ErrorCode::ActionBadOutGroup,
            _ => ErrorCode::ActionUnsupportedOrder,
        },
        _ => ErrorCode::FlowEperm,
    }
}

/// The keys of a flow that is there.
pub(crate) fn keys_of(flows: &Flows, i: u32) -> Option<Keys> {
    flows.get(i).map(|f| crate::matches::keys(&flows.match_of(f)))
}
