//! The flow_mods that weir's own controllers and benches send.
//!
//! Room: the model alone.

use weir_openflow::model::{Action, FlowCommand, FlowMod, Instruction, Match};

/// A flow of table 0 that stays, with one action.
pub fn add(priority: u16, matcher: Match, to: Action) -> FlowMod {
    let instructions = vec![Instruction::Apply(vec![to])];
    FlowMod { priority, matcher, instructions, ..FlowMod::new(FlowCommand::Add) }
}

/// A flow_mod that deletes this flow and no other.
pub fn delete_strict(flow: FlowMod) -> FlowMod {
    FlowMod { command: FlowCommand::DeleteStrict, instructions: Vec::new(), ..flow }
}
