//! The flow_mods that weir's own controllers and benches send.
//!
//! Room: the model alone.

use weir_openflow::model::{
    Action, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, NO_BUFFER, Port,
    TABLE_ALL, Version,
};

/// A flow of table 0 that stays, with one action.
pub fn add(priority: u16, matcher: Match, to: Action) -> FlowMod {
    let instructions = vec![Instruction::Apply(vec![to])];
    FlowMod { priority, matcher, instructions, ..blank(0, FlowCommand::Add) }
}

/// A flow_mod that deletes everything.
pub fn delete_all(version: Version) -> FlowMod {
    let table = if version == Version::V10 { 0 } else { TABLE_ALL };
    blank(table, FlowCommand::Delete)
}

/// A flow_mod that deletes this flow and no other.
pub fn delete_strict(flow: FlowMod) -> FlowMod {
    FlowMod { command: FlowCommand::DeleteStrict, instructions: Vec::new(), ..flow }
}

fn blank(table: u8, command: FlowCommand) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table,
        command,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 0,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags(0),
        matcher: Match::default(),
        instructions: Vec::new(),
    }
}
