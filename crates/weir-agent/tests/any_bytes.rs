//! Any bytes for a switch; the fuzz targets `agent` and `agent_carry` do the same with a fuzzer's choice of them.

mod exercise;

use proptest::prelude::*;
use weir_openflow::codec::encode;
use weir_openflow::model::*;

/// Well-formed messages with some bytes changed: more of them get further than mere noise.
fn spoilt() -> impl Strategy<Value = Vec<u8>> {
    let message = (0u8..6, any::<u16>(), 0u32..6, 0u8..4).prop_map(|(kind, n, id, table)| {
        let matcher = Match::default().with(Field::EthDst, u128::from(n % 8));
        let output = Action::Output { port: Port(id), max_len: n };
        match kind {
            0 | 1 => Message::FlowMod(FlowMod {
                cookie: n.into(),
                cookie_mask: u64::from(n) >> 8,
                table,
                command: if n & 7 == 0 { FlowCommand::Delete } else { FlowCommand::Add },
                idle_timeout: n & 1,
                hard_timeout: n & 2,
                priority: n & 3,
                buffer_id: if n & 64 == 0 { NO_BUFFER } else { 1 << 12 | id },
                out_port: Port::ANY,
                out_group: GROUP_ANY,
                flags: FlowFlags(u32::from(n) >> 4 & 3),
                matcher,
                instructions: vec![Instruction::Apply(vec![output, Action::Group(id)])],
            }),
            2 => Message::GroupMod(GroupMod {
                command: if n & 3 == 0 { GroupCommand::Delete } else { GroupCommand::Add },
                kind: GroupKind::All,
                id,
                buckets: vec![],
            }),
            3 => Message::BarrierRequest,
            4 => Message::StatsRequest { more: Part::Last, body: StatsRequest::Group(GROUP_ALL) },
            _ => Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port: Port::CONTROLLER,
                actions: vec![output],
                data: vec![n as u8; 60],
            }),
        }
    });
    let piece = (message, 3u8..5, prop::option::weighted(0.3, any::<(u16, u8)>()));
    prop::collection::vec(piece, 0..40).prop_map(|pieces| {
        let mut all = Vec::new();
        for (body, conn, spoil) in pieces {
            let mut bytes = Vec::new();
            if encode(Version::V13, &Msg { xid: 1, body }, &mut bytes).is_err() {
                continue;
            }
            if let Some((at, value)) = spoil {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            all.extend([conn, 0]);
            all.extend(bytes);
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn spoilt_messages_harm_nothing(bytes in spoilt()) {
        exercise::script(&bytes);
    }
    #[test]
    fn spoilt_switches_are_taken_in_or_refused(
        edits in prop::collection::vec(any::<[u8; 4]>(), 0..4),
        bytes in spoilt(),
    ) {
        let mut all = vec![edits.len() as u8];
        all.extend(edits.concat());
        all.extend(bytes);
        exercise::carried(&all);
    }
    #[test]
    fn noise_harms_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise::script(&bytes);
    }
}
