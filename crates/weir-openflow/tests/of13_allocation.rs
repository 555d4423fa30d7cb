//! What reading a flow_mod costs in memory: its match, its instructions, its actions, each allocated
//! once and exactly as long as it must be; nothing else.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_flow_mod_is_three_allocations_of_exact_size() {
    let matcher = Match::default()
        .with(Field::InPort, 1)
        .with(Field::EthDst, 2)
        .with(Field::EthSrc, 3)
        .with(Field::EthType, 0x0800);
    let actions =
        vec![Action::SetField(Field::EthDst, 4), Action::Output { port: Port(2), max_len: 0 }];
    let flow = FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 1,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher,
        instructions: vec![Instruction::Apply(actions)],
    };
    let mut bytes = Vec::new();
    encode(Version::V13, &Msg { xid: 1, body: Message::FlowMod(flow) }, &mut bytes).unwrap();
    let region = Region::new(ALLOCATOR);
    let msg = decode(Version::V13, &bytes);
    let change = region.change();
    assert!(msg.is_ok());
    assert_eq!(change.allocations, 3);
    assert_eq!(change.reallocations, 0);
    let exactly = 4 * size_of::<FieldMatch>() + size_of::<Instruction>() + 2 * size_of::<Action>();
    assert_eq!(change.bytes_allocated, exactly);
}
