//! Any messages from either side, by chance; the fuzz target `slicer` runs the same by coverage.

mod slicer_exercise;

use proptest::prelude::*;
use weir_openflow::codec;
use weir_openflow::model::*;

/// A controller's message that means something, as a step of the script.
fn step(version: Version, conn: u8, body: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    if codec::encode(version, &Msg { xid: 7, body }, &mut bytes).is_err() {
        return Vec::new();
    }
    let body = &bytes[8..bytes.len().min(8 + 255)];
    [&[conn << 4, bytes[1], 200, body.len() as u8], body].concat()
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let command = prop_oneof![
        4 => Just(Add), 1 => Just(Modify), 1 => Just(ModifyStrict), 1 => Just(Delete), 1 => Just(DeleteStrict)
    ];
    let ports = prop_oneof![
        (0..5u32).prop_map(Port),
        Just(Port::FLOOD),
        Just(Port::CONTROLLER),
        Just(Port::IN_PORT)
    ];
    let tag = prop_oneof![2 => Just(None), 3 => (9..13u128).prop_map(Some)];
    (command, tag, 0..3u128, ports, 0..2u16, any::<bool>()).prop_map(
        |(command, tag, mac, port, priority, tells)| {
            let mut m = Match::default();
            if mac > 0 {
                m = m.with(Field::EthDst, mac);
            }
            if let Some(t) = tag {
                m = m.with(Field::VlanVid, 0x1000 | t);
            }
            let actions = vec![Action::Output { port, max_len: 128 }];
            FlowMod {
                priority,
                flags: if tells { FlowFlags::SEND_FLOW_REM } else { FlowFlags(0) },
                matcher: m,
                instructions: vec![Instruction::Apply(actions)],
                ..FlowMod::new(command)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn flows_at_random_stay_within_their_slices(
        v10 in any::<bool>(),
        steps in proptest::collection::vec((0..3u8, flow_mod(), 0..6u8), 1..60),
    ) {
        let version = if v10 { Version::V10 } else { Version::V13 };
        let mut script = vec![u8::from(!v10) | 2];
        for (conn, m, then) in steps {
            script.extend(step(version, conn, Message::FlowMod(m)));
            // Answers, errors, a controller that goes and one that comes.
            script.extend(match then {
                0 => vec![0x4c],
                1 => vec![0x0c],
                2 => vec![conn << 4 | 13, conn << 4 | 14],
                // The slicer ends, and comes back.
                3 => vec![0xfe],
                _ => vec![],
            });
        }
        slicer_exercise::script(&script);
    }

    #[test]
    fn bytes_at_random_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        slicer_exercise::script(&bytes);
    }
}
