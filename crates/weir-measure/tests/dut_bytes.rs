//! Any bytes on the control connection, any frames, any times: see `dut_exercise`.

mod dut_exercise;

use proptest::prelude::*;
use weir_openflow::codec;
use weir_openflow::model::*;

/// Whole messages, so that what lies behind the hello is reached.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        Just(0u8),
        Just(2),
        Just(5),
        Just(7),
        Just(9),
        Just(10),
        Just(13),
        Just(14),
        Just(15),
        Just(16),
        Just(17),
        Just(18),
        Just(20),
        0u8..32
    ];
    (prop_oneof![Just(1u8), Just(4)], kinds, prop::collection::vec(any::<u8>(), 0..120)).prop_map(
        |(version, kind, body)| {
            let length = (8 + body.len() as u16).to_be_bytes();
            let mut m = vec![version, kind, length[0], length[1], 0, 0, 0, 9];
            m.extend(body);
            m
        },
    )
}

fn flow_mod() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), 0u16..4, 0u32..4, 0u16..3, 0usize..5).prop_map(|(new, priority, n, idle, c)| {
        let command = [
            FlowCommand::Add,
            FlowCommand::Modify,
            FlowCommand::ModifyStrict,
            FlowCommand::Delete,
            FlowCommand::DeleteStrict,
        ][c];
        let m = FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command,
            idle_timeout: idle,
            hard_timeout: idle * 2,
            priority,
            buffer_id: NO_BUFFER,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags::SEND_FLOW_REM,
            matcher: Match::default().with(Field::InPort, n.into()),
            instructions: vec![Instruction::Apply(vec![
                Action::SetField(Field::EthDst, 7),
                Action::Output { port: Port(1 + n % 2), max_len: 0 },
            ])],
        };
        let version = if new { Version::V13 } else { Version::V10 };
        let mut bytes = Vec::new();
        codec::encode(version, &Msg { xid: 1, body: Message::FlowMod(m) }, &mut bytes).unwrap();
        bytes
    })
}

fn step() -> impl Strategy<Value = Vec<u8>> {
    let data = prop_oneof![message(), flow_mod(), prop::collection::vec(any::<u8>(), 0..300)];
    (any::<u8>(), any::<u8>(), data).prop_map(|(what, length, mut data)| {
        if what & 7 > 4 {
            return vec![what, length];
        }
        data.resize(data.len().next_multiple_of(4), 0);
        data.truncate(1020);
        let mut all = vec![what, (data.len() / 4) as u8];
        all.extend(data);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_grows_or_stands_still(
        which: u8,
        version in prop_oneof![Just(1u8), Just(4)],
        steps in prop::collection::vec(step(), 0..40),
    ) {
        // A hello first: eight bytes in one step of kind 0.
        let mut script = vec![which, 0, 2, version, 0, 0, 8, 0, 0, 0, 1];
        script.extend(steps.concat());
        dut_exercise::script(&script);
    }
}
