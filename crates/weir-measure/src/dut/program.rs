//! A flow's instructions made ready: one list of actions, and what becomes of its frames.
//!
//! Room: the model's actions and the profile's lists. Called by `book` when a flow is added or
//! changed; read by `forward` for each frame.

use super::profile::Actions;
use super::rewrite::kind;
use weir_openflow::model::{Action, ErrorCode, Field, Instruction, Port};

/// Where frames of a flow are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// In hardware.
    Hardware,
    /// By the slow processor: one such action takes the whole flow there (001 §4.1: the time of a
    /// set of actions is that of the slowest).
    Cpu,
    /// Nowhere.
    Discarded,
}

/// What a flow does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    /// In order, the action set behind the applied ones.
    pub(super) actions: Vec<Action>,
    pub(super) fate: Fate,
}

/// Reserved ports that flows may send to.
const RESERVED: [Port; 4] = [Port::IN_PORT, Port::ALL, Port::FLOOD, Port::CONTROLLER];

impl Program {
    /// Makes a flow's instructions ready.
    ///
    /// # Errors
    /// What this switch lacks: a second table, groups, meters, queues, a port.
    pub(super) fn of(
        faults: &Actions,
        ports: usize,
        instructions: &[Instruction],
    ) -> Result<Self, ErrorCode> {
        let (mut actions, mut set) = (Vec::new(), Vec::new());
        for i in instructions {
            match i {
                Instruction::Apply(list) => actions.extend(list.iter().cloned()),
                Instruction::Write(list) => list.iter().for_each(|a| write(&mut set, a)),
                Instruction::Clear => set.clear(),
                Instruction::GotoTable(_) => return Err(ErrorCode::InstBadTableId),
                Instruction::Meter(_) => return Err(ErrorCode::MeterUnknownMeter),
                Instruction::Experimenter { .. } => return Err(ErrorCode::InstBadExperimenter),
                _ => return Err(ErrorCode::InstUnsupported),
            }
        }
        set.sort_by_key(place);
        actions.extend(set);
        Self::of_actions(faults, ports, actions, &RESERVED)
    }

    /// The same for the actions of a packet-out, which may also go through the table.
    ///
    /// # Errors
    /// What this switch lacks.
    pub(super) fn of_packet_out(
        faults: &Actions,
        ports: usize,
        actions: &[Action],
    ) -> Result<Self, ErrorCode> {
        let reserved = [Port::IN_PORT, Port::ALL, Port::FLOOD, Port::CONTROLLER, Port::TABLE];
        Self::of_actions(faults, ports, actions.to_vec(), &reserved)
    }

    fn of_actions(
        faults: &Actions,
        ports: usize,
        actions: Vec<Action>,
        reserved: &[Port],
    ) -> Result<Self, ErrorCode> {
        for a in &actions {
            check(a, ports, reserved)?;
            if faults.refuses.contains(&kind(a)) {
                return Err(ErrorCode::ActionBadType);
            }
        }
        let has = |kinds: &[_]| actions.iter().any(|a| kinds.contains(&kind(a)));
        let fate = if has(&faults.discards) {
            Fate::Discarded
        } else if faults.cpu.as_ref().is_some_and(|cpu| has(&cpu.does)) {
            Fate::Cpu
        } else {
            Fate::Hardware
        };
        Ok(Self { actions, fate })
    }

    /// Whether it sends to `port`.
    pub(super) fn outputs_to(&self, to: Port) -> bool {
        self.actions.iter().any(|a| matches!(a, Action::Output { port, .. } if *port == to))
    }
}

fn check(action: &Action, ports: usize, reserved: &[Port]) -> Result<(), ErrorCode> {
    match action {
        Action::Output { port, .. } => {
            let there = port.is_physical() && port.0 as usize <= ports;
            if there || reserved.contains(port) { Ok(()) } else { Err(ErrorCode::ActionBadOutPort) }
        }
        Action::SetField(field, _) if !field.settable() => Err(ErrorCode::ActionBadSetType),
        Action::SetField(Field::EthType | Field::PbbIsid | Field::TunnelId, _) => {
            Err(ErrorCode::ActionBadSetType)
        }
        Action::SetField(field, value) if value & !field.full() != 0 => {
            Err(ErrorCode::ActionBadSetArgument)
        }
        Action::PushVlan(t) if ![0x8100, 0x88a8].contains(t) => Err(ErrorCode::ActionBadArgument),
        Action::PushMpls(t) if ![0x8847, 0x8848].contains(t) => Err(ErrorCode::ActionBadArgument),
        Action::SetVlanVid(v) if *v > 0xfff => Err(ErrorCode::ActionBadArgument),
        Action::SetVlanPcp(v) if *v > 7 => Err(ErrorCode::ActionBadArgument),
        Action::Group(_) => Err(ErrorCode::ActionBadOutGroup),
        Action::SetQueue(_) | Action::Enqueue { .. } => Err(ErrorCode::ActionBadQueue),
        Action::Experimenter { .. } => Err(ErrorCode::ActionBadExperimenter),
        Action::PushPbb(_) | Action::PopPbb => Err(ErrorCode::ActionBadType),
        _ => Ok(()),
    }
}

/// Order of an action set (1.3 §5.10).
fn place(a: &Action) -> u8 {
    match a {
        Action::CopyTtlIn => 1,
        Action::PopVlan | Action::PopMpls(_) => 2,
        Action::PushMpls(_) => 3,
        Action::PushVlan(_) => 5,
        Action::CopyTtlOut => 6,
        Action::DecNwTtl | Action::DecMplsTtl => 7,
        Action::Output { .. } => 11,
        _ => 8,
    }
}

/// Merges an action into a set: one of a kind, one set-field of a field.
fn write(set: &mut Vec<Action>, a: &Action) {
    let same = |o: &Action| match (o, a) {
        (Action::SetField(x, _), Action::SetField(y, _)) => x == y,
        _ => std::mem::discriminant(o) == std::mem::discriminant(a),
    };
    set.retain(|o| !same(o));
    set.push(a.clone());
}
