//! Instructions of flows: checked, and turned into the one list that the data plane takes, in the
//! order in which 1.3 carries them out (§5.9): meter, apply, clear, write, metadata, goto.

use crate::actions::{Named, Place, World, turn};
use crate::flows::Behaviour;
use weir_dataplane::{Action as Act, MAX_ACTIONS};
use weir_openflow::model::{ErrorCode, Instruction};

/// Checks the instructions of a flow of `table` and turns them.
///
/// # Errors
/// BAD_INSTRUCTION or BAD_ACTION with the code that fits.
pub(crate) fn turn_all(
    instructions: &[Instruction],
    table: u8,
    world: &impl World,
) -> Result<Behaviour, ErrorCode> {
    let mut named = Named::default();
    let (mut meter, mut goto, mut metadata) = (None, None, None);
    let (mut apply, mut write, mut clear) = (None, None, None);
    for i in instructions {
        let again = match i {
            Instruction::Meter(m) => meter.replace(*m).is_some(),
            Instruction::Apply(a) => apply.replace(a).is_some(),
            Instruction::Write(a) => write.replace(a).is_some(),
            Instruction::Clear => clear.replace(()).is_some(),
            Instruction::WriteMetadata { value, mask } => {
                metadata.replace((*value, *mask)).is_some()
            }
            Instruction::GotoTable(t) => goto.replace(*t).is_some(),
            Instruction::Experimenter { .. } => return Err(ErrorCode::InstBadExperimenter),
            _ => return Err(ErrorCode::InstUnknown),
        };
        if again {
            return Err(ErrorCode::InstUnsupported);
        }
    }
    let mut out = Vec::new();
    if let Some(m) = meter {
        if !world.has_meter(m) {
            return Err(ErrorCode::MeterUnknownMeter);
        }
        out.push(Act::Meter(m));
    }
    let list = |actions: &[_], named: &mut Named| turn(actions, Place::Rule, world, named);
    if let Some(a) = apply {
        out.extend(list(a, &mut named)?);
    }
    if clear.is_some() {
        out.push(Act::ClearActions);
    }
    if let Some(a) = write {
        out.push(Act::WriteActions(list(a, &mut named)?));
    }
    if let Some((value, mask)) = metadata {
        out.push(Act::WriteMetadata { value, mask });
    }
    if let Some(t) = goto {
        if t <= table || t >= world.tables() {
            return Err(ErrorCode::InstBadTableId);
        }
        out.push(Act::Goto(t));
    }
    let inner = |a: &Act| match a {
        Act::WriteActions(w) => w.len(),
        _ => 1,
    };
    if out.iter().map(inner).sum::<usize>() > MAX_ACTIONS {
        return Err(ErrorCode::ActionTooMany);
    }
    Ok(Behaviour {
        instructions: instructions.into(),
        actions: out.into(),
        outs: named.outs.into_iter().collect(),
        groups: named.groups.into_iter().collect(),
        queues: named.queues.into_iter().collect(),
        meter,
        goto,
    })
}

/// Whether what was checked once would pass again, for a flow of `table`: what it names is there.
pub(crate) fn still_right(b: &Behaviour, table: u8, world: &impl World) -> bool {
    b.outs.iter().all(|p| !p.is_physical() || world.has_port(*p))
        && b.groups.iter().all(|g| world.has_group(*g))
        && b.meter.is_none_or(|m| world.has_meter(m))
        && b.queues.iter().all(|(p, q)| world.has_queue(*p, *q))
        && b.goto.is_none_or(|t| t > table && t < world.tables())
}
