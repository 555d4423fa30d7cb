//! Gathered changes, carried out on the data plane in their order, with the book of flows along.
//!
//! Room: runs inside a closure of the data plane, between two bursts; the rules and the book change
//! together or not at all. Errors and removals are collected and told afterwards. Made by `flow_mod`
//! and `packet_out`, called by [`crate::Switch`]'s flush.

use crate::buffers::{Buffered, Lent};
use crate::flows::{Filter, Flows, Identity, NewFlow};
use crate::request::Asker;
use std::sync::Arc;
use weir_classify::Match as Keys;
use weir_dataplane::{
    Action, CompileError, ControlError, DataPlane, Out, Placement, RuleRef, RuleSpec, Tally, Vid,
};
use weir_openflow::model::{ErrorCode, FlowFlags, FlowRemoved, Port, RemovedReason, Version};
use weir_packet::Nanos;

/// One gathered change.
#[derive(Debug)]
pub(crate) enum Job {
    Flow(FlowJob),
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
    pub filter: Filter,
    pub cookie: u64,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub flags: FlowFlags,
    /// Counted for this job; none for a delete.
    pub behaviour: Option<u32>,
    /// The packet that meets the tables once this is done (1.3 §7.3.4.1).
    pub buffer: Option<Box<Lent>>,
}

/// A frame to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub asker: Asker,
    pub in_port: Port,
    pub bytes: Vec<u8>,
    pub actions: Vec<Action>,
    pub from: Source,
}

/// Where a frame that is to be sent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The packet-out has it.
    Message,
    /// The packet-out names a buffer, which is spent only where the frame goes out.
    Buffer(u32),
    /// A change of flows that is done names a buffer.
    Change(u32),
}

impl Frame {
    /// A buffered packet, to the tables as they are once a change is done.
    pub fn behind(asker: Asker, lent: Lent) -> Self {
        Self {
            asker,
            in_port: lent.packet.in_port,
            bytes: lent.packet.frame,
            actions: vec![Action::Output(Out::Table)],
            from: Source::Change(lent.id),
        }
    }
}

/// What came of changes.
#[derive(Debug)]
pub(crate) enum Event {
    Refused(Box<Asker>, ErrorCode),
    Removed(Box<FlowRemoved>),
    /// A lent packet was used.
    Spent(u32),
    /// A lent packet was not.
    Back(Box<Lent>),
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
    // Matches are large: they are made where they stay, and lent.
    let mut specs: [RuleSpec; AHEAD] = std::array::from_fn(|_| blank());
    let mut group = Vec::with_capacity(AHEAD);
    let mut left = jobs.drain(..);
    loop {
        group.extend(left.by_ref().take(AHEAD));
        if group.is_empty() {
            break;
        }
        // What the data plane will touch for one is on its way while others are placed.
        for (job, spec) in group.iter().zip(&mut specs) {
            if let Job::Flow(j) = job {
                spec.matcher = flows.keys(&j.id);
                dp.warm_rule(set.vid, j.id.table, &spec.matcher);
            }
        }
        for (job, spec) in group.drain(..).zip(&mut specs) {
            match job {
                Job::Flow(mut j) => {
                    send(dp, set, &mut frames, events);
                    let (asker, lent) = (j.asker, j.buffer.take());
                    let done = flow(dp, set, flows, j, spec, events);
                    match (done, lent) {
                        (Ok(()), None) => {}
                        (Ok(()), Some(lent)) => frames.push(Frame::behind(asker, *lent)),
                        (Err(code), lent) => {
                            events.push(Event::Refused(Box::new(asker), code));
                            events.extend(lent.map(Event::Back));
                        }
                    }
                }
                Job::Send(f) => frames.push(f),
            }
        }
    }
    send(dp, set, &mut frames, events);
}

/// Flows whose memory is asked for at once.
const AHEAD: usize = 8;

/// A rule to be filled in.
pub(crate) fn blank() -> RuleSpec {
    RuleSpec { matcher: Keys::any(), priority: 0, cookie: 0, actions: Arc::default() }
}

fn send(dp: &mut DataPlane, set: Setting, frames: &mut Vec<Frame>, events: &mut Vec<Event>) {
    if frames.is_empty() {
        return;
    }
    let mut failed = crate::dp::send(dp, set.vid, frames).into_iter().peekable();
    for (i, f) in frames.drain(..).enumerate() {
        match (failed.next_if(|(at, _)| *at == i).map(|(_, code)| code), f.from) {
            // The change is done; its packet ends as it would at a port that is gone.
            (None | Some(Some(_)), Source::Change(id)) | (None, Source::Buffer(id)) => {
                events.push(Event::Spent(id));
            }
            (None, Source::Message) => {}
            (Some(Some(code)), from) => {
                events.push(Event::Refused(Box::new(f.asker), code));
                if let Source::Buffer(id) = from {
                    let packet = Buffered { in_port: f.in_port, frame: f.bytes };
                    events.push(Event::Back(Box::new(Lent { id, packet })));
                }
            }
            (Some(None), from) => {
                events.push(Event::Lost);
                if let Source::Buffer(id) | Source::Change(id) = from {
                    events.push(Event::Spent(id));
                }
            }
        }
    }
}

/// Carries out a change of the flow whose match `spec` has already.
fn flow(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    job: FlowJob,
    spec: &mut RuleSpec,
    events: &mut Vec<Event>,
) -> Result<(), ErrorCode> {
    if let (Command::Add, Some(behaviour)) = (job.command, job.behaviour) {
        return put(dp, set, flows, job, behaviour, spec);
    }
    let there = flows.find(dp, set.vid, &job.id, &spec.matcher);
    let meant = there.filter(|at| {
        flows.get(*at).is_some_and(|f| job.filter.admits(f, flows.behaviours.get(f.behaviour)))
    });
    // 1.0 §4.6: a modify that finds nothing adds.
    let add = job.asker.version == Version::V10
        && job.command == Command::ModifyStrict
        && there.is_none();
    let done = match (job.command, meant, job.behaviour) {
        (Command::DeleteStrict, meant, _) => {
            if let Some(at) = meant {
                remove(dp, set, flows, &[at], RemovedReason::Delete, events);
            }
            Ok(())
        }
        (_, _, Some(behaviour)) if add => {
            return put(dp, set, flows, job, behaviour, spec);
        }
        (_, Some(at), Some(behaviour)) => {
            let cookie = (job.asker.version == Version::V10).then_some(job.cookie);
            change(dp, set, flows, at, spec, Change { behaviour, cookie, flags: job.flags })
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

/// Adds a flow, or puts it in the place of the one with the same match and priority, which `spec`
/// has already.
fn put(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    job: FlowJob,
    behaviour: u32,
    spec: &mut RuleSpec,
) -> Result<(), ErrorCode> {
    let (table, id) = (job.id.table, job.id);
    (spec.priority, spec.cookie) = (id.priority.into(), job.cookie);
    set_actions(spec, flows, behaviour);
    let full = flows.len() >= set.max_flows as usize
        && flows.find(dp, set.vid, &id, &spec.matcher).is_none();
    let placed = match full {
        true => Err(ErrorCode::FlowTableFull),
        false => dp.place_rule(set.vid, table, spec, set.placement).map_err(code_of),
    };
    let rule = match placed {
        Ok((_, rule)) => rule,
        Err(code) => {
            flows.behaviours.release(behaviour);
            flows.forget(id);
            return Err(code);
        }
    };
    let new = NewFlow {
        cookie: job.cookie,
        created: set.now,
        behaviour,
        idle_timeout: job.idle_timeout,
        hard_timeout: job.hard_timeout,
        flags: job.flags,
    };
    if !flows.is_at(rule, &id) {
        flows.insert(rule, id, new);
        return Ok(());
    }
    if job.asker.version == Version::V10 || job.flags.has(FlowFlags::RESET_COUNTS) {
        // The rule was just put there.
        let _ = dp.reset_rule(set.vid, table, &spec.matcher, spec.priority);
    }
    flows.replace(rule, new);
    flows.forget(id);
    Ok(())
}

/// What a behaviour does becomes what a rule does; often it is what the last one did.
pub(crate) fn set_actions(spec: &mut RuleSpec, flows: &Flows, behaviour: u32) {
    match flows.behaviours.get(behaviour) {
        Some(b) if Arc::ptr_eq(&spec.actions, &b.actions) => {}
        Some(b) => spec.actions = Arc::clone(&b.actions),
        None => spec.actions = Arc::default(),
    }
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

/// Gives a flow that is there, whose match `spec` has already, another behaviour.
///
/// # Errors
/// As the data plane says; the flow is as before.
pub(crate) fn change(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    at: RuleRef,
    spec: &mut RuleSpec,
    to: Change,
) -> Result<(), ErrorCode> {
    let Some(f) = flows.get(at) else {
        flows.behaviours.release(to.behaviour);
        return Ok(());
    };
    spec.cookie = to.cookie.unwrap_or(f.cookie);
    spec.priority = f.priority.into();
    set_actions(spec, flows, to.behaviour);
    if let Err(e) = dp.place_rule(set.vid, at.table, spec, set.placement) {
        flows.behaviours.release(to.behaviour);
        return Err(code_of(e));
    }
    if to.flags.has(FlowFlags::RESET_COUNTS) {
        // The rule was just put there.
        let _ = dp.reset_rule(set.vid, at.table, &spec.matcher, spec.priority);
    }
    flows.change(at, to.behaviour, spec.cookie);
    Ok(())
}

/// Takes flows out, with their last counters, and tells those who asked for it.
pub(crate) fn remove(
    dp: &mut DataPlane,
    set: Setting,
    flows: &mut Flows,
    which: &[RuleRef],
    reason: RemovedReason,
    events: &mut Vec<Event>,
) {
    for at in which {
        let Some(f) = flows.get(*at) else { continue };
        let (keys, priority) = (flows.keys_of(f), f.priority.into());
        if f.flags().has(FlowFlags::SEND_FLOW_REM) {
            // It is in the book, so it is there.
            let used = dp.take_rule(set.vid, *at, &keys, priority).unwrap_or_default();
            let (packets, bytes) = counts(f.flags(), used.tally());
            let (duration_sec, duration_nsec) = duration(set.now, f.created);
            events.push(Event::Removed(Box::new(FlowRemoved {
                cookie: f.cookie,
                priority: f.priority,
                reason,
                table: at.table,
                duration_sec,
                duration_nsec,
                idle_timeout: f.idle_timeout,
                hard_timeout: f.hard_timeout,
                packets,
                bytes,
                matcher: flows.match_of(f),
            })));
        } else {
            let _ = dp.remove_rule(set.vid, at.table, &keys, priority);
        }
        flows.remove(*at);
    }
}

/// A flow's counters as they are told: all ones where it is not counted (1.3 §7.3.5.2).
pub(crate) fn counts(flags: FlowFlags, used: Tally) -> (u64, u64) {
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
