//! What would become of one frame, step by step, and why: `weir trace`.
//!
//! Room: the way through the stages, on a data plane that stays as it is: nothing changes, nothing is
//! counted. `walk` runs stage 3's executor on copies and writes down what it does.
//!
//! What a slow-path program would do is its own secret (it may learn, hold, answer): the trace says
//! which program gets the frame, and ends there. CPU shares, queues and full channels depend on the
//! other frames and are left out.

mod walk;

use crate::action::{Action, Vid};
use crate::compile::{ActionResult, bits};
use crate::control::ControlError;
use crate::edge::PortFlags;
use crate::group::Chosen;
use crate::mapping::MappingRule;
use crate::matching::{RuleSpec, Tables};
use crate::meter::Verdict;
use crate::packet::{Layers, extract};
use crate::plane::DataPlane;
use crate::program::Punt;
use crate::software::Slot;
use crate::vdp::{Path, Phase, Vdp};
use std::sync::mpsc::{Receiver, channel};
use thiserror::Error;
use walk::{Place, Software, walk, winner};
use weir_classify::{Field, FlowKey};
use weir_packet::{DropReason, Nanos, PoolError, PortId};

/// A frame that can't be traced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No such port.
    #[error(transparent)]
    Port(#[from] ControlError),
    /// Longer than a worker's frame.
    #[error("a frame of {len} bytes: the data plane's frames hold at most {max}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The most.
        max: usize,
    },
    /// No memory for the copy.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// A step of a frame's way. Frames are whole, Ethernet header first, without FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stage 1: the key, in the data plane's port numbers; the VDP; the mapping rule that won,
    /// `None` for the default VDP.
    Mapped {
        /// The key.
        key: Box<FlowKey>,
        /// The VDP.
        vid: Vid,
        /// The rule.
        rule: Option<MappingRule>,
    },
    /// Where the VDP's frames are processed now.
    Phase(Phase),
    /// Stage 2, or a later table: the rule that won, if any did.
    Table {
        /// Which table.
        table: u8,
        /// The rule.
        rule: Option<RuleSpec>,
    },
    /// The VDP's default rule.
    Default(Fallback),
    /// Stage 3: the frame was changed, or what only later tables see of it.
    Changed {
        /// By these actions; empty inside a group or a default rule.
        by: Vec<Action>,
        /// Its bytes before.
        before: Vec<u8>,
        /// And after.
        after: Vec<u8>,
    },
    /// A meter judged.
    Metered(u32, Verdict),
    /// A group chose.
    Group(u32, Chosen),
    /// Stage 4: to the software stage.
    Software(Punt),
    /// The slow path has no rule for it: this program gets it.
    Program {
        /// The program's name.
        name: &'static str,
        /// The frame that it gets.
        frame: Vec<u8>,
    },
    /// To the VDP's controllers or own stack.
    Consumed(Vec<u8>),
    /// Stage 5: sent, unless the port says no.
    Output {
        /// By which port.
        port: PortId,
        /// What was sent.
        frame: Vec<u8>,
        /// Which of the port's queues the rule asked for.
        queue: u32,
        /// Why it does not leave.
        refused: Option<DropReason>,
    },
    /// Held until the VDP has arrived on the other path.
    Held,
    /// The end, for this reason.
    Dropped(DropReason),
}

/// What a default rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Drops.
    Drop,
    /// To the software stage.
    Software,
    /// Out by this port.
    Port(PortId),
    /// More than one thing.
    Program,
}

/// A frame's way through the fast path, and, for each frame that goes to the software stage, what
/// happens there.
#[derive(Debug)]
pub struct Traced {
    /// Up to the software stage or the end.
    pub steps: Vec<Step>,
    /// On from there, in order; each arrives after the next turn of the channel's server.
    pub software: Vec<Receiver<Vec<Step>>>,
}

/// A port as it was when the trace began.
#[derive(Clone, Copy, Debug)]
struct PortThen {
    id: PortId,
    up: bool,
    max_frame_bytes: usize,
}

/// What does not depend on rules.
#[derive(Clone, Debug)]
struct Surroundings {
    ports: Vec<PortThen>,
    now: Nanos,
    chunk_bytes: usize,
}

impl DataPlane {
    /// What would become of a frame that came in by `in_port` now.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn trace(&self, in_port: PortId, frame: &[u8]) -> Result<Traced, TraceError> {
        let at = |p: PortId| self.ports.get(usize::from(p.0)).and_then(Option::as_ref);
        at(in_port).ok_or(ControlError::NoPort(in_port))?;
        let ports = self.ports.iter().flatten().map(|p| PortThen {
            id: p.id,
            up: p.tx.is_up(),
            max_frame_bytes: p.tx.device.caps().max_frame_bytes,
        });
        let around = Surroundings {
            ports: ports.collect(),
            now: self.now,
            chunk_bytes: self.config.chunk_bytes,
        };
        let max = self.pool.max_frame_bytes();
        if frame.len() > max {
            return Err(TraceError::TooLong { len: frame.len(), max });
        }
        let mut steps = Vec::new();
        let mut punted = Vec::new();
        let mut key = FlowKey::default();
        let vid = match extract(frame, in_port.0.into(), &mut key) {
            Err(why) => {
                steps.push(Step::Dropped(why));
                return Ok(Traced { steps, software: Vec::new() });
            }
            Ok(layers) => {
                let (vid, rule) = match self.mapping.winner(&key, frame, &layers) {
                    Some((vid, rule)) => (vid, Some(rule)),
                    None => (Vid(0), None),
                };
                steps.push(Step::Mapped { key: Box::new(key), vid, rule });
                match self.vdps.get(usize::from(vid.0)).and_then(Option::as_deref) {
                    None => steps.push(Step::Dropped(DropReason::VdpGone)),
                    Some(v) => {
                        let it = Traveller { in_port, bytes: frame, key, layers };
                        matching(v, it, &around, &mut steps, &mut punted)?;
                    }
                }
                vid
            }
        };
        let mut software = Vec::with_capacity(punted.len());
        for p in punted {
            let (tx, rx) = channel();
            let around = around.clone();
            self.post(vid, move |slot| {
                // Nobody waits any more: nothing to do.
                let _ = tx.send(in_software(slot, vid, in_port, &p, &around));
            })?;
            software.push(rx);
        }
        Ok(Traced { steps, software })
    }
}

/// A frame on its way, with what is known of it.
struct Traveller<'a> {
    in_port: PortId,
    bytes: &'a [u8],
    key: FlowKey,
    layers: Layers,
}

/// A frame on its way to the software stage.
struct Punted {
    bytes: Vec<u8>,
    why: Punt,
}

/// Stages 2 and 3.
fn matching(
    v: &Vdp,
    mut it: Traveller<'_>,
    around: &Surroundings,
    steps: &mut Vec<Step>,
    punted: &mut Vec<Punted>,
) -> Result<(), PoolError> {
    steps.push(Step::Phase(v.phase));
    let at = v.edge.at(it.in_port);
    if let Some(why) = v.edge.why_not_in(at, &it.key) {
        steps.push(Step::Dropped(why));
        return Ok(());
    }
    match v.phase {
        Phase::On(Path::Fast) => {}
        Phase::On(Path::Slow) => {
            steps.push(Step::Software(Punt::Default));
            punted.push(Punted { bytes: it.bytes.to_vec(), why: Punt::Default });
            return Ok(());
        }
        Phase::Draining { .. }
        | Phase::Drained { .. }
        | Phase::Returning
        | Phase::Leaving { .. }
        | Phase::Coming { .. } => {
            steps.push(Step::Held);
            return Ok(());
        }
        // It is told where it goes on by the phase alone: the rest is another data plane's.
        Phase::Away => return Ok(()),
        Phase::Deleting { .. } => {
            steps.push(Step::Dropped(DropReason::VdpGone));
            return Ok(());
        }
    }
    it.key.set(Field::InPort, at.no.into());
    v.fields.extract(it.bytes, &it.layers, &mut it.key);
    let hit = winner(&v.fast, 0, &it.key);
    if !v.fast.is_empty() {
        steps.push(Step::Table { table: 0, rule: hit.as_ref().map(|h| h.spec.clone()) });
    }
    if hit.is_none() {
        steps.push(Step::Default(Fallback::of(&v.miss)));
    }
    let up = |p: PortId| around.ports.iter().any(|q| q.id == p && q.up);
    let live = |p: PortId| up(p) && !v.edge.flags(p).any_of(PortFlags::DOWN);
    let flags = |p: PortId| v.edge.flags(p);
    let refused = |p: PortId| v.edge.why_not_out(p);
    let place = Place {
        vid: v.vid,
        tables: &v.fast,
        default: &v.miss,
        fields: &v.fields,
        ports: &v.all_ids,
        live: &live,
        flags: &flags,
        refused: &refused,
        software: Software::Ahead,
    };
    let out = walk(&place, hit, it, around)?;
    steps.extend(out.steps);
    punted.extend(out.punted);
    Ok(())
}

/// Stage 4, in a server.
fn in_software(
    slot: &Slot,
    vid: Vid,
    in_port: PortId,
    p: &Punted,
    around: &Surroundings,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut left = Some(p.bytes.clone());
    if p.why == Punt::Default && slot.judges() {
        let mut key = FlowKey::default();
        let layers = match extract(&p.bytes, slot.local(in_port).0, &mut key) {
            Ok(l) => l,
            Err(why) => return vec![Step::Dropped(why)],
        };
        slot.fields.extract(&p.bytes, &layers, &mut key);
        let none = Tables::default();
        let tables = slot.tables.get().unwrap_or(&none);
        let hit = winner(tables, 0, &key);
        steps.push(Step::Table { table: 0, rule: hit.as_ref().map(|h| h.spec.clone()) });
        let to_program = hit.is_none() && slot.default.is_to_channel();
        if hit.is_none() && !to_program {
            steps.push(Step::Default(Fallback::of(&slot.default)));
        }
        if !to_program {
            let live = |p: PortId| slot.live().contains(&p);
            let flags = |p: PortId| slot.flags(p);
            let refused = |p: PortId| slot.flags(p).why_not_out();
            let place = Place {
                vid,
                tables,
                default: &slot.default,
                fields: &slot.fields,
                ports: slot.all(),
                live: &live,
                flags: &flags,
                refused: &refused,
                software: Software::Here,
            };
            let it = Traveller { in_port, bytes: &p.bytes, key, layers };
            let Ok(out) = walk(&place, hit, it, around) else { return steps };
            steps.extend(out.steps);
            let given = out.punted.into_iter().next();
            if given.as_ref().is_some_and(|p| p.why == Punt::Local) {
                steps.push(Step::Dropped(DropReason::NoSuchPort));
                return steps;
            }
            left = given.map(|p| p.bytes);
        }
    }
    match (left, &slot.program) {
        (None, _) => {}
        (Some(frame), Some(p)) => steps.push(Step::Program { name: p.name(), frame }),
        (Some(_), None) => steps.push(Step::Dropped(DropReason::Miss)),
    }
    steps
}

impl Fallback {
    fn of(r: &ActionResult) -> Self {
        match r.bits {
            b if b & bits::DROP != 0 => Fallback::Drop,
            b if b & bits::PROGRAM != 0 => Fallback::Program,
            b if b & bits::FORWARD != 0 => Fallback::Port(r.port),
            _ => Fallback::Software,
        }
    }
}
